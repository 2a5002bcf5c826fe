// SPDX-License-Identifier: MIT
// The f32 scales and mins of the blocks of formats that rows.h reads: a part of that file,
// which includes it. A stream's are smaller where its codes stand too high (standing).
#ifndef HT_LINEAR_SCALES_H
#define HT_LINEAR_SCALES_H

// What multiplies fields of n bits in the four bytes of a lane, at bit `at` of each. At 512 bits
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
    if (by == 1) return *f;
    const vf x = d * splat(by);
    return factor_of(x, x, 0);
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

// Half of e4m3 by the bits of f16; 127 is 0 (src/quant/iquants.c).
INLINE void scales_nvfp4(const struct rows *w, vf *scale) {
    vi h[4];
    load16(w, 0, h); // the first four bytes are scales
    UNROLL(4)
    for (int g = 0; g < 4; g++) {
        vf half = half_low(field(h[0], 8 * g, 7) << 7) * splat(128.0f);
        scale[g] = (vf)((vi)half & ~(field(h[0], 8 * g, 8) == 127));
    }
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
    case HT_TQ1_0: same_scales(w, 52, by, scale); break;
    case HT_TQ2_0: same_scales(w, 64, by, scale); break;
    case HT_NVFP4: scales_nvfp4(w, scale); break;
    case HT_MXFP4: scale[0] = scale_mxfp4(byte_rows(w, 0)); break;
    default: scale[0] = half_rows(w, 0); break;
    }
}

#endif
