// SPDX-License-Identifier: MIT
// Rows of a weight matrix, LANES at a time: loads that turn the bytes of LANES rows into vectors
// whose lane is a row, and the codes and scales of every format made from them (but those of
// entries, entry_rows.h). Written once in
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
    case HT_TQ1_0: return (struct shape){256, 54, 8, 32, false, 1};
    case HT_TQ2_0: return (struct shape){256, 66, 4, 32, false, 1};
    case HT_Q1_0: return (struct shape){128, 18, 4, 32, false, 1};
    case HT_Q2_0: return (struct shape){64, 18, 2, 32, false, 1};
    case HT_NVFP4: return (struct shape){64, 36, 2, 16, false, 2 * fp4};
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

#include "backend/cpu/linear/scales.h"

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
    case HT_NVFP4: load(2, w, 4, r); break;
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
static const int8_t nvfp4_table[16] // 32 more, or signed
    __attribute__((aligned(16))) = {32, 33, 34, 35, 36, 38, 40, 44, 32, 31, 30, 29, 28, 26, 24, 20};

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

// The codes that nibbles stand for.
INLINE vi by_table(const uint32_t f, vi x) {
    if (f == HT_IQ4_NL || f == HT_IQ4_XS) return lookup(iq4_table[CODES_SIGNED], x);
    if (f == HT_NVFP4) return lookup(FP4_SIGNED ? fp4_table[1] : nvfp4_table, x);
    return f == HT_MXFP4 ? lookup(fp4_table[FP4_SIGNED], x) : x;
}

// Weights 4 i .. 4 i + 3 of every row, of what raw_half read for block j of a step, or of NVFP4
// raw() for a half.
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
    case HT_NVFP4: return by_table(f, indices(r[i % 2], i / 2 * 4)); // of two words
    default: return bits(r[i], 2 * j - up, 3 << up);                 // Q2_K
    }
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
    case HT_NVFP4: return codes_half(f, r + 4 * j + i / 4 * 2, j, i % 4, up);
    case HT_TQ1_0: return digits(r, j, i);
    default: return bits(r[i], 2 * j - up, 3 << up); // TQ2_0
    }
}

#endif
