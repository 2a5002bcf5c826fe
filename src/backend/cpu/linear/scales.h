// SPDX-License-Identifier: MIT
// The f32 scales and mins of the blocks of formats that rows.h reads: a part of that file,
// which includes it. A stream's are smaller where its codes stand too high (standing).
#ifndef HT_LINEAR_SCALES_H
#define HT_LINEAR_SCALES_H

// Fields of a few bits in the four bytes of a lane, times a factor. At 512 bits they stay where
// they are, and nothing is converted: in the mantissa of the f32 2^(23 - p) a field at bit p adds
// what it says, in that of 2^(23 - p - n) a 2^n-th of it. (256 bits, which have no merge in one
// operation, lose by it.)
struct field_bits {
    int32_t base[20];   // of 2^23, 2^22 and so on
    int32_t mask[6];    // fields of four bits at 0, 8, 4, 12, of six at 0, 8
    int32_t less[2][3]; // [at bit 0, at bit 8][up]: the base with a field of 32
};

INLINE const struct field_bits *field_bits(void) {
#define BASE(i) 0x4b000000 - ((i) << 23)
    static const struct field_bits bits = {
        {BASE(0),  BASE(1),  BASE(2),  BASE(3),  BASE(4),  BASE(5),  BASE(6),
         BASE(7),  BASE(8),  BASE(9),  BASE(10), BASE(11), BASE(12), BASE(13),
         BASE(14), BASE(15), BASE(16), BASE(17), BASE(18), BASE(19)},
        {0xf, 0xf00, 0xf0, 0xf000, 0x3f, 0x3f00},
        {{BASE(0) + 32, BASE(1) + 32, BASE(2) + 32},
         {BASE(8) + 0x2000, BASE(9) + 0x2000, BASE(10) + 0x2000}}};
#undef BASE
    const struct field_bits *c = &bits;
    // Else they would be kept in registers that a stream wants for its sums.
    if (LANES == 16) __asm__ volatile("" : "+r"(c));
    return c;
}

INLINE vf halved(vf d, const int n) {
    return times(d, 1.0f / (float)(1 << n));
}

// d / 2^up times a field of n bits at bit `at` of a byte, less `less`, which is 0 or, of six bits,
// 32.
INLINE vf scaled_field(const struct field_bits *c, vf d, const int up, vi x, const int byte,
                       const int at, const int n, const int less) {
    if (LANES < 16) return scaled(halved(d, up), field(x, 8 * byte + at, n) - less);
    if (byte > 1) x = (vi)((vu32)x >> 16); // once for two
    const int high = byte % 2, mask = (n == 6 ? 4 : at > 0 ? 2 : 0) + high;
    const int32_t base = c->base[8 * high + at + up];
    vf more = (vf)merge(splat_int(base), x, splat_int(c->mask[mask]));
    return (more - (vf)splat_int(less > 0 ? c->less[high][up] : base)) * d;
}

// scale[j] = the lower six bits of byte j of each lane less `less`, times d / 2^up[j].
INLINE void scaled_bytes(const struct field_bits *c, vf d, const int *up, vi x, const int less,
                         vf *scale) {
    UNROLL(4)
    for (int j = 0; j < 4; j++) scale[j] = scaled_field(c, d, up[j], x, j, 0, 6, less);
}

// Here and below, scales of block j of a step are 2^up[j] times smaller.
INLINE void scales_q4_k(const struct rows *w, const int *up, vf *scale, vf *min) {
    const struct field_bits *c = field_bits();
    const int none[4] = {0}, of[4] = {up[0], up[1], up[0], up[1]};
    vi h[4];
    load16(w, 0, h);
    const vf d = half_low(h[0]), dmin = half_high(h[0]);
    // Six bits each; the upper two of the second four stand behind those of the first.
    scaled_bytes(c, d, of, h[1], 0, scale);
    scaled_bytes(c, dmin, none, h[2], 0, min);
    scaled_bytes(c, d, of, bits(h[3], 0, 15) | bits(h[1], 2, 48), 0, scale + 4);
    scaled_bytes(c, dmin, none, bits(h[3], 4, 15) | bits(h[2], 2, 48), 0, min + 4);
}

INLINE void scales_q6_k(const struct rows *w, const int *up, vf *scale) {
    const vf d = half_rows(w, 208), last = halved(d, up[3]);
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

// Mins stand as a 128th (half_128).
INLINE void scales_q2_k(const struct rows *w, const int *up, vf *scale, vf *min) {
    const struct field_bits *c = field_bits();
    vi h[4], dm[4];
    load16(w, 0, h);
    load16(w, 68, dm); // the last four bytes are d and dmin
    const vf d = half_low(dm[3]), dmin = half_high(dm[3]);
    UNROLL(16)
    for (int g = 0; g < 16; g++) {
        scale[g] = scaled_field(c, d, up[g / 2 % 4], h[g / 4], g % 4, 0, 4, 0);
        min[g] = scaled_field(c, dmin, 7, h[g / 4], g % 4, 4, 4, 0);
    }
}

INLINE void scales_q3_k(const struct rows *w, const int *up, vf *scale) {
    const struct field_bits *c = field_bits();
    vi h[4]; // four bytes of qs, then the 12 of scales
    const vf d = half_rows(w, 108);
    load16(w, 92, h);
    UNROLL(4)
    for (int q = 0; q < 4; q++) { // the upper two bits of four scales, to their lower four
        const int *first = up + q % 2 * 2, of[4] = {first[0], first[0], first[1], first[1]};
        vi low = bits(h[1 + q % 2], q / 2 * 4, 15);
        vi high = q < 2 ? h[3] << (4 - 2 * q) : (vi)((vu32)h[3] >> (2 * q - 4));
        scaled_bytes(c, d, of, merge(low, high, bytes(48)), 32, scale + 4 * q);
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

INLINE void same_scales(const struct rows *w, const size_t at, const int *up, vf *scale) {
    vf d = half_rows(w, at);
    UNROLL(8)
    for (int g = 0; g < 8; g++) scale[g] = halved(d, up[g % 4]);
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
    int up[4];
    UNROLL(4)
    for (int j = 0; j < 4; j++) up[j] = stand ? standing(f, j) : 0;
    if (in_fours(f)) return; // scales_of_fours
    switch (f) {
    case HT_Q4_1:
    case HT_Q5_1:
        load16(w, 0, h);
        scale[0] = half_low(h[0]);
        min[0] = -half_high(h[0]);
        break;
    case HT_Q2_K: scales_q2_k(w, up, scale, min); break;
    case HT_Q3_K: scales_q3_k(w, up, scale); break;
    case HT_Q4_K:
    case HT_Q5_K: scales_q4_k(w, up, scale, min); break;
    case HT_Q6_K: scales_q6_k(w, up, scale); break;
    case HT_IQ4_XS: scales_iq4_xs(w, scale); break;
    case HT_TQ1_0: same_scales(w, 52, up, scale); break;
    case HT_TQ2_0: same_scales(w, 64, up, scale); break;
    case HT_NVFP4: scales_nvfp4(w, scale); break;
    case HT_MXFP4: scale[0] = scale_mxfp4(byte_rows(w, 0)); break;
    default: scale[0] = half_rows(w, 0); break;
    }
}

#endif
