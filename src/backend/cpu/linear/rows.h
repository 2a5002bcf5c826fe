// SPDX-License-Identifier: MIT
// Rows of a weight matrix, LANES at a time: loads that turn the bytes of LANES rows into vectors
// whose lane is a row, and the codes and scales of every format made from them. Written once in
// GNU vectors over the few operations of an instruction set's own header (x86/vec_*.h,
// arm/vec_neon.h), which is included first. Everything is inlined with the format as a constant, so
// a switch on it costs nothing.
//
// A format is read in steps that share loads: `shared` and `raw` fetch a step's bytes; `codes`
// makes the codes of one block of 32 of them; `scales` makes all f32 scales and mins of a format's
// block.
#ifndef HT_LINEAR_ROWS_H
#define HT_LINEAR_ROWS_H

// A format of blocks of four bits, four at a time: their 68 or 72 bytes are turned whole, scales
// and all, since shuffles, or bytes fetched one by one, are what a stream of few tokens waits for.
// It takes 17 or 18 registers.
#define FOURS_OF(f) (HT_N_FORMATS + (f))

// What makes the level's codes of those of Q8_0: repacked ones are that already.
#ifdef REPACKED
#define Q8_0_FLIP 0
#else
#define Q8_0_FLIP (CODES_SIGNED ? 0 : 0x80)
#endif

// Blocks of IQ4_XS that are read at once: repacked ones go in pairs.
#ifdef REPACKED
#define IQ4_XS_STEP 2
#else
#define IQ4_XS_STEP 1
#endif

#ifndef SMALL_PAIRS
#define SMALL_PAIRS 0
#endif
#define FP4_SIGNED (CODES_SIGNED && !SMALL_PAIRS)

// The shape of a format's reading, all compile-time constants.
struct shape {
    uint32_t unit;       // weights of a block of the format
    uint32_t unit_bytes; // its bytes
    uint32_t step;       // blocks of 32 that share a raw load
    uint32_t group;      // weights a scale covers
    bool has_min;
    int offset; // of the codes made here: a power of two, or 0
};

INLINE bool in_fours(const uint32_t f) {
    return f >= HT_N_FORMATS;
}

INLINE uint32_t base_of(const uint32_t f) {
    return in_fours(f) ? f - HT_N_FORMATS : f;
}

// Of one block.
INLINE struct shape base_shape(const uint32_t f) {
    // Whole bytes and table values come signed where the level wants signed codes.
    const int byte = CODES_SIGNED ? 0 : 128, fp4 = FP4_SIGNED ? 0 : 16;
    switch (base_of(f)) {
    case HT_Q4_0: return (struct shape){32, 18, 1, 32, false, 8};
    case HT_Q4_1: return (struct shape){32, 20, 1, 32, true, 0};
    case HT_Q5_0: return (struct shape){32, 22, 1, 32, false, 16};
    case HT_Q5_1: return (struct shape){32, 24, 1, 32, true, 0};
    case HT_Q8_0: return (struct shape){32, 34, 1, 32, false, byte};
    case HT_Q2_K: return (struct shape){256, 84, 4, 16, true, 0};
    case HT_Q3_K: return (struct shape){256, 110, 4, 16, false, 4};
    case HT_Q4_K: return (struct shape){256, 144, 2, 32, true, 0};
    case HT_Q5_K: return (struct shape){256, 176, 2, 32, true, 0};
    case HT_Q6_K: return (struct shape){256, 210, 4, 16, false, 32};
    case HT_IQ4_NL: return (struct shape){32, 18, 1, 32, false, byte};
    case HT_IQ4_XS: return (struct shape){256, 136, IQ4_XS_STEP, 32, false, byte};
    case HT_IQ3_S: return (struct shape){256, 110, 2, 32, false, 16};
    case HT_TQ1_0: return (struct shape){256, 54, 8, 32, false, 1};
    case HT_TQ2_0: return (struct shape){256, 66, 4, 32, false, 1};
    default: return (struct shape){32, 17, 1, 32, false, fp4}; // MXFP4
    }
}

INLINE struct shape shape_of(const uint32_t f) {
    struct shape s = base_shape(f);
    if (in_fours(f)) s.unit *= 4, s.unit_bytes *= 4, s.step = 4;
    return s;
}

// The f16 in the high half of each lane; half_low is the instruction set's.
INLINE vf half_high(vi x) {
    return half_low((vi)((vu32)x >> 16));
}

// The n-bit field at bit `at` of each lane.
INLINE vi field(vi x, const int at, const int n) {
    x = (vi)((vu32)x >> at);
    if (at + n < 32) x &= (1 << n) - 1;
    return x;
}

INLINE vf times(vf x, const float by) {
    if (by == 1) return x;
    return x * splat(by);
}

INLINE vf scaled(vf d, vi s) {
    return d * __builtin_convertvector(s, vf);
}

// What takes HT_SHIFT off a scaled sum that began at HT_SHIFTED.
INLINE vf back_of(vf scale) {
    return scale * splat(-HT_SHIFT);
}

// A byte value in all bytes.
INLINE vi bytes(const int b) {
    return splat_int((int32_t)((uint32_t)(b & 255) * 0x01010101u));
}

INLINE vi add_bytes(vi x, const int b) {
    return (vi)((vu8)x + (vu8)bytes(b));
}

// All bits of x by n higher, with those of a neighbour beside them; n may be negative.
INLINE vi moved(vi x, const int n) {
    if (n > 0) return (vi)((vu16)x << n);
    return n < 0 ? (vi)((vu16)x >> -n) : x;
}

// (x >> n) & mask of every byte; n may be negative.
INLINE vi bits(vi x, const int n, const int mask) {
    return moved(x, -n) & bytes(mask);
}

// ---- scales ------------------------------------------------------------------------------------

// What multiplies fields of n bits in the four bytes of a lane, at bit `at` of each: `first` those
// in its first and third byte, `second` the others. At 512 bits
// they stay where they are: the bits of the f32 2^23 and a field's are the f32 that is so much
// more, so nothing is converted, and shifted once for two. (256 bits, which have no merge in one
// operation, lose by it.)
struct factor {
    vf d[2]; // of fields in the first or third byte, in the second or fourth
    const int32_t *c;
};
// 2^23's bits, and fields of four bits at 0, 8, 4, 12, of six at 0, 8; 2^23 and 32 at 0, 8.
static const int32_t field_bits[] = {0x4b000000, 0xf,    0xf00,      0xf0,      0xf000,
                                     0x3f,       0x3f00, 0x4b000020, 0x4b002000};

INLINE struct factor factor_of(vf first, vf second, const int at) {
    static const float less[] = {1.0f, 0x1p-8f, 0x1p-4f, 0x1p-12f};
    const float *by = less + (at > 0 ? 2 : 0);
    struct factor f = {{first, second}, field_bits};
    if (LANES < 16) return f;
    // Else they would be kept in registers that a stream wants for its sums.
    __asm__ volatile("" : "+r"(by), "+r"(f.c));
    if (at > 0) f.d[0] = first * splat(by[0]);
    f.d[1] = second * splat(by[1]);
    return f;
}

// A factor of one number that is `by` times as large.
INLINE struct factor factor_by(const struct factor *f, vf d, const float by) {
    return by == 1 ? *f : factor_of(times(d, by), times(d, by), 0);
}

// The factor times a field less `less`, which is 0 or, of six bits, 32.
INLINE vf scaled_field(const struct factor *f, vi x, const int byte, const int at, const int n,
                       const int less) {
    if (LANES < 16) return scaled(f->d[byte % 2], field(x, 8 * byte + at, n) - less);
    if (byte > 1) x = (vi)((vu32)x >> 16);
    const int mask = (n == 6 ? 5 : at > 0 ? 3 : 1) + byte % 2, off = less > 0 ? 7 + byte % 2 : 0;
    vf more = (vf)merge(splat_int(f->c[0]), x, splat_int(f->c[mask]));
    return (more - (vf)splat_int(f->c[off])) * f->d[byte % 2];
}

// scale[j] = the lower six bits of byte j of each lane less `less`, times `d`, of the last two
// bytes times `then`.
INLINE void scaled_bytes(const struct factor *d, const struct factor *then, vi x, const int less,
                         vf *scale) {
    UNROLL(4)
    for (int j = 0; j < 4; j++) scale[j] = scaled_field(j < 2 ? d : then, x, j, 0, 6, less);
}

// Here and below, by[j] multiplies the scales of block j of a step. (Of Q4_K bytes take turns with
// blocks, so odd ones have a factor of their own.)
INLINE void scales_q4_k(const struct rows *w, const float *by, vf *scale, vf *min) {
    vi h[4];
    load16(w, 0, h);
    const vf d_of = half_low(h[0]), dmin_of = half_high(h[0]);
    const struct factor d = factor_of(d_of, times(d_of, by[1]), 0);
    const struct factor dmin = factor_of(dmin_of, dmin_of, 0);
    // Six bits each; the upper two of the second four stand behind those of the first.
    scaled_bytes(&d, &d, h[1], 0, scale);
    scaled_bytes(&dmin, &dmin, h[2], 0, min);
    scaled_bytes(&d, &d, bits(h[3], 0, 15) | bits(h[1], 2, 48), 0, scale + 4);
    scaled_bytes(&dmin, &dmin, bits(h[3], 4, 15) | bits(h[2], 2, 48), 0, min + 4);
}

INLINE void scales_q6_k(const struct rows *w, const float *by, vf *scale) {
    const vf d = half_rows(w, 208), last = times(d, by[3]);
#ifndef REPACKED
    vi h[4];
    load16(w, 192, h);
#endif
    UNROLL(16)
    for (int g = 0; g < 16; g++) {
#ifdef REPACKED
        vi s = signed_bytes(w->p + g * LANES);
#else
        vi s = h[g / 4] << (24 - g % 4 * 8) >> 24;
#endif
        scale[g] = scaled(g % 8 < 6 ? d : last, s);
    }
}

INLINE void scales_q2_k(const struct rows *w, const float *by, vf *scale, vf *min) {
    vi h[4], dm[4];
    load16(w, 0, h);
    load16(w, 68, dm); // the last four bytes are d and dmin
    const vf d_of = half_low(dm[3]), dmin_of = half_high(dm[3]) * splat(1.0f / 128); // half_128
    const struct factor dmin = factor_of(dmin_of, dmin_of, 4), same = factor_of(d_of, d_of, 0);
    UNROLL(4)
    for (int j = 0; j < 4; j++) {
        const struct factor d = factor_by(&same, d_of, by[j]);
        UNROLL(4)
        for (int i = 0; i < 4; i++) {
            const int g = 8 * (i / 2) + 2 * j + i % 2;
            scale[g] = scaled_field(&d, h[g / 4], g % 4, 0, 4, 0);
            min[g] = scaled_field(&dmin, h[g / 4], g % 4, 4, 4, 0);
        }
    }
}

INLINE void scales_q3_k(const struct rows *w, const float *by, vf *scale) {
    vi h[4]; // four bytes of qs, then the 12 of scales
    const vf d_of = half_rows(w, 108);
    const struct factor d = factor_of(d_of, d_of, 0);
    const struct factor then[2] = {factor_by(&d, d_of, by[1]), factor_by(&d, d_of, by[3])};
    load16(w, 92, h);
    UNROLL(4)
    for (int q = 0; q < 4; q++) { // the upper two bits of four scales, to their lower four
        vi low = bits(h[1 + q % 2], q / 2 * 4, 15);
        vi high = q < 2 ? h[3] << (4 - 2 * q) : (vi)((vu32)h[3] >> (2 * q - 4));
        scaled_bytes(&d, &then[q % 2], merge(low, high, bytes(48)), 32, scale + 4 * q);
    }
}

INLINE void scales_iq4_xs(const struct rows *w, vf *scale) {
    vi h[4];
    load16(w, 0, h);
    vf d = half_low(h[0]);
    UNROLL(8)
    for (int g = 0; g < 8; g++) {
        vi high = field(h[0], 16 + 2 * g, 2) << 4;
        scale[g] = scaled(d, (field(h[1], 4 * g, 4) | high) - 32);
    }
}

// 2^(e - 128) by the bits; the two smallest are subnormal.
INLINE vf scale_mxfp4(vi e) {
    vi small = e < 2;
    vi tiny = (e + 1) << 21; // 0x200000 or 0x400000
    return (vf)((((e - 1) << 23) & ~small) | (tiny & small));
}

INLINE void scales_iq3_s(const struct rows *w, vf *scale) {
    vi h[4];
    load16(w, 94, h); // the last four bytes are the scales
    vf d = half_rows(w, 0);
    UNROLL(8)
    for (int g = 0; g < 8; g++) scale[g] = scaled(d, 2 * field(h[3], 4 * g, 4) + 1);
}

INLINE void same_scales(const struct rows *w, const size_t at, const float *by, vf *scale) {
    vf d = half_rows(w, at);
    UNROLL(8)
    for (int g = 0; g < 8; g++) scale[g] = times(d, by[g % 4]);
}

// By how many bits the codes of block j of a step are too high in a stream, which multiplies them
// where they stand in their bytes: 2^n times themselves, by a scale that is as much smaller. Exact,
// since sums have room for it (240 times 127, 32 times, is below 2^22). Not where codes are signed
// or have to be small.
INLINE int standing(const uint32_t f, const int j) {
    if (CODES_SIGNED || SMALL_PAIRS) return 0;
    switch (f) {
    case HT_Q4_K: return 4 * (j % 2);
    case HT_Q2_K:
    case HT_TQ2_0: return 2 * j;
    case HT_Q3_K: return j == 1 ? 2 : j == 3 ? 1 : 0; // its low bits, its high bit need no shift
    case HT_Q6_K: return j == 3 ? 2 : 0;              // nor do two of six bits, which stand apart
    default: return 0;
    }
}
// The same of the codes of a block's second half alone, whose products then have their own sum; of
// formats of which standing() says 0.
INLINE int half_standing(const uint32_t f) {
    if (CODES_SIGNED || SMALL_PAIRS) return 0;
    return base_of(f) == HT_Q4_0 || f == HT_Q4_1 ? 4 : 0;
}

// stand: for codes that are as much too high as standing() says.
INLINE void scales(const uint32_t f, const bool stand, const struct rows *w, vf *scale, vf *min) {
    vi h[4];
    float by[4];
    UNROLL(4)
    for (int j = 0; j < 4; j++) by[j] = stand ? 1.0f / (float)(1 << standing(f, j)) : 1;
    if (in_fours(f)) return; // scales_of_fours
    switch (f) {
    case HT_Q4_1:
    case HT_Q5_1:
        load16(w, 0, h);
        scale[0] = half_low(h[0]);
        min[0] = -half_high(h[0]);
        break;
    case HT_Q2_K: scales_q2_k(w, by, scale, min); break;
    case HT_Q3_K: scales_q3_k(w, by, scale); break;
    case HT_Q4_K:
    case HT_Q5_K: scales_q4_k(w, by, scale, min); break;
    case HT_Q6_K: scales_q6_k(w, by, scale); break;
    case HT_IQ4_XS: scales_iq4_xs(w, scale); break;
    case HT_IQ3_S: scales_iq3_s(w, scale); break;
    case HT_TQ1_0: same_scales(w, 52, by, scale); break;
    case HT_TQ2_0: same_scales(w, 64, by, scale); break;
    case HT_MXFP4: scale[0] = scale_mxfp4(byte_rows(w, 0)); break;
    default: scale[0] = half_rows(w, 0); break;
    }
}

// ---- codes -------------------------------------------------------------------------------------

// n * 16 bytes of each row.
INLINE void load(const int n, const struct rows *w, const size_t at, vi *out) {
#ifdef LOAD_32 // load32 stands in the instruction set's header
    if (n == 2) {
        load32(w, at, out);
        return;
    }
#endif
    UNROLL(4)
    for (int i = 0; i < n; i++) load16(w, at + 16 * i, out + 4 * i);
}

// The bytes of high bits that all steps of a block share: at most 8 vectors.
INLINE void shared(const uint32_t f, const struct rows *w, vi *high) {
    if (f == HT_Q5_K) load(2, w, 16, high);
    if (f == HT_Q3_K) load(2, w, 0, high);
    if (f == HT_IQ3_S) load(1, w, 58, high); // high[2], high[3]: qh
}

INLINE void high_of_step(const vi *high, uint32_t shift, vi *r) {
    UNROLL(8)
    for (int i = 0; i < 8; i++) r[i] = (vi)((vu16)high[i] >> shift);
}

// Half h of a step: 16 bytes of low bits of its even blocks, of the odd ones, and of high bits; or,
// repacked, of its first three blocks, which hold the fourth's bits, too.
INLINE void load_q6_k(const struct rows *w, uint32_t step, const int h, vi *r) {
#ifdef REPACKED
    UNROLL(12)
    for (uint32_t i = 0; i < 12; i++)
        load_words(w, 4 * (4 + 24 * step + i / 4 * 8 + ht_repacked_turn(4 * (uint32_t)h + i % 4)),
                   1, r + i);
#else
    load16(w, 64 * step + 16 * h, r);
    load16(w, 64 * step + 32 + 16 * h, r + 4);
    load16(w, 128 + 32 * step + 16 * h, r + 8);
#endif
}

// The bytes of a step's first or second halves of blocks, of a format with a scale for each: at
// most HALF vectors.
#define HALF 12
INLINE void raw_half(const uint32_t f, const struct rows *w, uint32_t step, const int h,
                     const vi *high, vi *r) {
    switch (f) {
    case HT_Q6_K: load_q6_k(w, step, h, r); break;
    case HT_Q3_K:
        load16(w, 32 + 32 * step + 16 * h, r);
        UNROLL(4)
        for (int i = 0; i < 4; i++) r[4 + i] = (vi)((vu16)high[4 * h + i] >> (4 * step));
        break;
    default: load16(w, 16 + 32 * step + 16 * h, r); break; // Q2_K
    }
}

#ifndef IQ3_LOOKUP // else in the instruction set's header, with entries in an order of its own
// A step's 16 indices, by their bytes and ninth bits, become their entries of ht_iq3_grid: r[2 d]
// holds those of weights 16 d .. and 16 d + 8 .., r[2 d + 1] of 16 d + 4 .. and 16 d + 12 ...
INLINE void iq3_entries(const vi low[4], vi ninth, vi *r) {
    uint16_t index[16 * LANES];
    uint64_t entries[4 * LANES];
    ninth = (ninth & 0xffff) | ninth << 14; // an index and the next but one, 16 bits apart
    UNROLL(4)
    for (int d = 0; d < 4; d++) {
        vi even = d < 2 ? ninth << (8 - 4 * d) : (vi)((vu32)ninth >> (4 * d - 8));
        vi odd = d < 2 ? ninth << (7 - 4 * d) : (vi)((vu32)ninth >> (4 * d - 7));
        r[2 * d] = merge(low[d] & 0xff00ff, even, splat_int(0x1000100));
        r[2 * d + 1] = merge((vi)((vu16)low[d] >> 8), odd, splat_int(0x1000100));
    }
    __builtin_memcpy(index, r, sizeof index);
    UNROLL(4)
    for (int i = 0; i < 4 * LANES; i++) // four at a time, since stores are what it waits for
        entries[i] = ht_iq3_grid[index[4 * i]] | (uint64_t)ht_iq3_grid[index[4 * i + 1]] << 16 |
                     (uint64_t)ht_iq3_grid[index[4 * i + 2]] << 32 |
                     (uint64_t)ht_iq3_grid[index[4 * i + 3]] << 48;
    __builtin_memcpy(r, entries, sizeof entries);
}
// The four weights of entry `at`, each in a byte's lower half.
INLINE vi iq3_values(const vi *r, const int at) {
    vi e = r[at / 4 * 2 + at % 2], then = (vi)((vu16)e >> 4);
    return at % 4 < 2 ? merge(then << 16, e, splat_int(0xffff))
                      : merge((vi)((vu32)e >> 16), then, splat_int(-0x10000));
}
#endif

// A step's bytes: at most 2 * HALF vectors.
INLINE void raw(const uint32_t f, const struct rows *w, uint32_t step, const vi *high, vi *r) {
    if (in_fours(f)) { // r[i]: dword i of all; some are read twice
        const uint32_t n = shape_of(f).unit_bytes / 4;
        load(4, w, 0, r);
        load16(w, 4 * n - 16, r + n - 4);
        return;
    }
    switch (f) {
    case HT_Q4_0:
    case HT_IQ4_NL: load(1, w, 2, r); break;
    case HT_Q4_1: load(1, w, 4, r); break;
    case HT_MXFP4: load(1, w, 1, r); break;
    case HT_Q5_0:
        load(1, w, 6, r);
        load(1, w, 2, r + 4); // r[4] is qh
        break;
    case HT_Q5_1:
        load(1, w, 8, r);
        load(1, w, 4, r + 4);
        break;
    case HT_Q8_0: load(2, w, 2, r); break;
    case HT_IQ4_XS: load(IQ4_XS_STEP, w, 8 + 16 * IQ4_XS_STEP * step, r); break;
    case HT_Q4_K: load(2, w, 16 + 32 * step, r); break;
    case HT_Q5_K:
        load(2, w, 48 + 32 * step, r);
        high_of_step(high, 2 * step, r + 8);
        break;
    case HT_Q2_K:
    case HT_Q3_K:
    case HT_Q6_K:
        raw_half(f, w, step, 0, high, r);
        raw_half(f, w, step, 1, high, r + HALF);
        break;
    case HT_IQ3_S:
        load(1, w, 2 + 16 * step, r + 12); // 16 indices, for two blocks
        load(1, w, 66 + 8 * step, r + 8);  // r[10], r[11]: their signs
        iq3_entries(r + 12, (vi)((vu32)(step < 2 ? high[2] : high[3]) >> step % 2 * 16), r);
        break;
    case HT_TQ1_0: // r[0 .. 11]: qs
        load(3, w, 0, r);
        load16(w, 36, r + 12); // r[15]: qh
        break;
    default: load(2, w, 32 * step, r); break; // TQ2_0
    }
}

#ifndef LOOKUP_LOW
#define LOOKUP_LOW 0
#endif
// The four bits at `at` of every byte, to be looked up: with others above them where the
// instruction set's lookup() minds none.
INLINE vi indices(vi x, const int at) {
    return LOOKUP_LOW ? moved(x, -at) : bits(x, at, 15);
}

// Of a block of 32: low ones of all bytes, then high ones of all; times 2^up.
INLINE vi nibbles(const vi *r, const int i, const int up) {
    return bits(r[i % 4], i / 4 * 4 - up, 15 << up);
}

// Values of the tables, and the same with the offset of shape_of.
static const int8_t iq4_table[2][16] __attribute__((aligned(16))) = {
    {1, 24, 45, 63, 79, 93, 106, 118, -127, -115, -103, -90, -75, -59, -39, -15},
    {-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113}};
static const int8_t fp4_table[2][16]
    __attribute__((aligned(16))) = {{16, 17, 18, 19, 20, 22, 24, 28, 16, 15, 14, 13, 12, 10, 8, 4},
                                    {0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12}};

#ifndef THIRDS // else in the instruction set's header
// Of signed bytes: 0 to -43, 1 to 42, 2 above.
INLINE vi thirds(vi x) {
    vi one = (vi)((vs8)x > (vs8)bytes(-43)), two = (vi)((vs8)x > (vs8)bytes(42)); // 0 or -1
    return (vi)((vu8)bytes(0) - (vu8)one - (vu8)two);
}
#endif

// Digit n of bytes that hold base-3 fractions: x = byte * 3^n modulo 256, the digit is x * 3 / 256.
// All of it less 128, since signed bytes compare faster; three times 128 is as much modulo 256.
INLINE vi digit(vi byte, const int n) {
    vu8 x = (vu8)(byte ^ bytes(128));
    UNROLL(4)
    for (int i = 0; i < n; i++) x = x + x + x;
    return thirds((vi)x);
}

INLINE vi digits(const vi *r, const int j, const int i) {
    if (j < 5) return digit(r[i], j);
    if (j < 7) return digit(r[8 + i % 4], (j - 5) * 2 + i / 4);
    return i < 4 ? digit(r[8 + i], 4) : digit(r[15], i - 4);
}

// Four weights of an entry, as 16 + value, or minus it: values are odd, so that 16 - v is v ^ 14.
INLINE vi iq3(const vi *r, const int j, const int i) {
    const int at = 8 * j + i; // of the step's 16
    return bits(iq3_values(r, at), 0, 15) ^ by_bits(r[10 + at / 8], at % 8, 14, 16);
}

// Weights 4 i .. 4 i + 3 of every row, of what raw_half read for block j of a step.
INLINE vi codes_half(const uint32_t f, const vi *r, const int j, const int i, const int up) {
    vi high;
    switch (f) {
#ifdef REPACKED
    case HT_Q6_K:
        if (j < 3) return r[4 * j + i] & bytes(63);
        high = choose(bytes(12 << up), moved(r[4 + i], up - 4), moved(r[i], up - 6));
        return choose(bytes(48 << up), moved(r[8 + i], up - 2), high) & bytes(63 << up);
#else
    case HT_Q6_K:
        high = moved(r[8 + i], 4 - 2 * j + up);
        return merge(bits(r[j % 2 * 4 + i], j / 2 * 4 - up, 15 << up), high, bytes(48 << up));
#endif
    case HT_Q3_K:
        high = moved(r[4 + i], 2 - j + up);
        return merge(bits(r[i], 2 * j - up, 3 << up), high, bytes(4 << up));
    default: return bits(r[i], 2 * j - up, 3 << up); // Q2_K
    }
}

// The codes that nibbles stand for.
INLINE vi by_table(const uint32_t f, vi x) {
    if (f == HT_IQ4_NL || f == HT_IQ4_XS) return lookup(iq4_table[CODES_SIGNED], x);
    return f == HT_MXFP4 ? lookup(fp4_table[FP4_SIGNED], x) : x;
}

// A block's 16 bytes of codes end it; its scale stands in front of them, in two bytes, or of MXFP4
// in one.
INLINE vi codes_of_fours(const uint32_t f, const vi *r, const int j, const int i, const int up) {
    const int size = (int)base_shape(f).unit_bytes, at = size * (j + 1) - 16, shift = at % 4 * 8;
    const vi *word = r + at / 4 + i % 4;
    vi x = word[0];
    if (shift) x = (vi)((vu32)x >> shift) | word[1] << (32 - shift);
    return by_table(f, bits(x, i / 4 * 4 - up, 15 << up));
}
INLINE void scales_of_fours(const uint32_t f, const vi *r, vf *scale) {
    UNROLL(4)
    for (int j = 0; j < 4; j++) {
        const int at = (int)base_shape(f).unit_bytes * j;
        if (f == HT_MXFP4)
            scale[j] = scale_mxfp4(field(r[at / 4], at % 4 * 8, 8));
        else
            scale[j] = at % 4 ? half_high(r[at / 4]) : half_low(r[at / 4]);
    }
}

// Vector i (weights 4 i .. 4 i + 3 of every row) of block j of a step, times 2^up, which is 0, what
// standing() says, or of the block's second half what half_standing() says.
INLINE vi codes(const uint32_t f, const vi *r, const int j, const int i, const int up) {
    if (in_fours(f)) return codes_of_fours(base_of(f), r, j, i, up);
    switch (f) {
    case HT_Q4_0:
    case HT_Q4_1: return nibbles(r, i, up);
    case HT_IQ4_NL:
    case HT_MXFP4: return by_table(f, indices(r[i % 4], i / 4 * 4));
    case HT_IQ4_XS: return by_table(f, indices(r[4 * j + i % 4], i / 4 * 4));
    case HT_Q5_0:
    case HT_Q5_1: return nibbles(r, i, 0) | by_bits(r[4], i, 16, 0);
    case HT_Q8_0: return r[i] ^ bytes(Q8_0_FLIP);
    case HT_Q4_K: return bits(r[i], 4 * j - up, 15 << up);
    case HT_Q5_K: return merge(bits(r[i], 4 * j, 15), moved(r[8 + i], 4 - j), bytes(16));
    case HT_Q2_K:
    case HT_Q3_K:
    case HT_Q6_K: return codes_half(f, r + i / 4 * HALF, j, i % 4, up);
    case HT_IQ3_S: return iq3(r, j, i);
    case HT_TQ1_0: return digits(r, j, i);
    default: return bits(r[i], 2 * j - up, 3 << up); // TQ2_0
    }
}

#endif
