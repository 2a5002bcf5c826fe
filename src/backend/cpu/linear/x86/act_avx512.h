// SPDX-License-Identifier: MIT
// Activations in 8 bits, four blocks at a time: what is one number a block (largest value, errors,
// step, sums) is a lane of a register for all four, so that no block waits for the sums across
// lanes of another. The numbers are those of act_q8 (q8.h), which does what is left over.
#ifndef HT_LINEAR_ACT_AVX512_H
#define HT_LINEAR_ACT_AVX512_H

#include "backend/cpu/linear/x86/vec_avx512.h"

// From here on a "quarter" is four lanes; quarter b of most registers belongs to block b.
#define QUARTERS(a, b, i)   _mm512_shuffle_f32x4(a, b, i)
#define IN_QUARTER(a, b, i) _mm512_shuffle_ps(a, b, i)

// Lane l of x in every lane of its quarter.
#define LANE(x, l) IN_QUARTER(x, x, (l)*0x55)

// Sums over the lanes of four registers, j and j + 8 first, then j + 4: quarter b holds the four
// that are left of x[b].
INLINE __m512 sum_to_quarters(const __m512 x[4]) {
    __m512 a = _mm512_add_ps(QUARTERS(x[0], x[1], 0x44), QUARTERS(x[0], x[1], 0xee));
    __m512 b = _mm512_add_ps(QUARTERS(x[2], x[3], 0x44), QUARTERS(x[2], x[3], 0xee));
    return _mm512_add_ps(QUARTERS(a, b, 0x88), QUARTERS(a, b, 0xdd));
}

// The rest of the sums, j + 2 and j + 1: lane i of a quarter is that quarter's sum of x[i]; lane 3
// repeats lane 2.
INLINE __m512 sum_in_quarters(const __m512 x[3]) {
    __m512 a = _mm512_add_ps(IN_QUARTER(x[0], x[1], 0x44), IN_QUARTER(x[0], x[1], 0xee));
    __m512 b = _mm512_add_ps(IN_QUARTER(x[2], x[2], 0x44), IN_QUARTER(x[2], x[2], 0xee));
    return _mm512_add_ps(IN_QUARTER(a, b, 0x88), IN_QUARTER(a, b, 0xdd));
}

INLINE __m512i max_magnitudes(const __m512 v[4][2]) {
    __m512 m[4];
    UNROLL(4)
    for (int b = 0; b < 4; b++) {
        __m512i bits = _mm512_max_epu32(_mm512_slli_epi32(_mm512_castps_si512(v[b][0]), 1),
                                        _mm512_slli_epi32(_mm512_castps_si512(v[b][1]), 1));
        m[b] = _mm512_castsi512_ps(bits);
    }
#define MAX(f, a, b, i, j)                                                                         \
    _mm512_castsi512_ps(                                                                           \
        _mm512_max_epu32(_mm512_castps_si512(f(a, b, i)), _mm512_castps_si512(f(a, b, j))))
    __m512 a = MAX(QUARTERS, m[0], m[1], 0x44, 0xee), b = MAX(QUARTERS, m[2], m[3], 0x44, 0xee);
    __m512 c = MAX(QUARTERS, a, b, 0x88, 0xdd);
    c = MAX(IN_QUARTER, c, c, 0x4e, 0xe4);
    c = MAX(IN_QUARTER, c, c, 0xb1, 0xe4);
#undef MAX
    return _mm512_srli_epi32(_mm512_castps_si512(c), 1);
}

// Per block, in all lanes of its quarter: the one of inverse and of step that rounds it best.
INLINE void best_steps(const __m512 v[4][2], __m512 inverse, __m512 step, __m512 *best_inverse,
                       __m512 *best_step) {
    const __m512 weights = _mm512_setr_ps(
        ht_top_weights[0], ht_top_weights[1], ht_top_weights[2], 0, ht_top_weights[0],
        ht_top_weights[1], ht_top_weights[2], 0, ht_top_weights[0], ht_top_weights[1],
        ht_top_weights[2], 0, ht_top_weights[0], ht_top_weights[1], ht_top_weights[2], 0);
    __m512 error[HT_N_TOPS];
    UNROLL(3)
    for (int i = 0; i < HT_N_TOPS; i++) {
        __m512 e[4];
        UNROLL(4)
        for (int b = 0; b < 4; b++) {
            __m512 by = _mm512_permutexvar_ps(_mm512_set1_epi32(4 * b + i), inverse);
            __m512 r = (__m512)fraction((vf)_mm512_mul_ps(v[b][0], by));
            __m512 s = (__m512)fraction((vf)_mm512_mul_ps(v[b][1], by));
            e[b] = _mm512_fmadd_ps(s, s, _mm512_mul_ps(r, r));
        }
        error[i] = sum_to_quarters(e);
    }
    __m512 sum = _mm512_mul_ps(sum_in_quarters(error), weights);
    __m512 e0 = LANE(sum, 0), e1 = LANE(sum, 1), e2 = LANE(sum, 2);
    __mmask16 second = _mm512_cmp_ps_mask(e1, e0, _CMP_LT_OQ);
    __mmask16 third = _mm512_cmp_ps_mask(e2, _mm512_mask_mov_ps(e0, second, e1), _CMP_LT_OQ);
    __m512 inv = _mm512_mask_mov_ps(LANE(inverse, 0), second, LANE(inverse, 1));
    __m512 stp = _mm512_mask_mov_ps(LANE(step, 0), second, LANE(step, 1));
    *best_inverse = _mm512_mask_mov_ps(inv, third, LANE(inverse, 2));
    *best_step = _mm512_mask_mov_ps(stp, third, LANE(step, 2));
}

// Codes, and in quarter b the sums of block b: whole, first half, second half, 0.
INLINE __m512i round_codes(const __m512 v[4][2], __m512 inverse, struct ht_act_q8 *const dst[4]) {
    __m512i half[2][4];
    UNROLL(4)
    for (int b = 0; b < 4; b++) {
        __m512 by = _mm512_permutexvar_ps(_mm512_set1_epi32(4 * b), inverse);
        UNROLL(2)
        for (int h = 0; h < 2; h++) {
            half[h][b] = _mm512_cvtps_epi32(_mm512_mul_ps(v[b][h], by));
            store_bytes(dst[b]->q + 16 * h, (vi)half[h][b]);
        }
    }
#define ADD(a, b)       _mm512_add_epi32(a, b)
#define LANES4(a, b, i) _mm512_shuffle_i32x4(a, b, i)
    __m512i s[2];
    UNROLL(2)
    for (int h = 0; h < 2; h++) {
        __m512i *x = half[h];
        __m512i a = ADD(LANES4(x[0], x[1], 0x44), LANES4(x[0], x[1], 0xee));
        __m512i b = ADD(LANES4(x[2], x[3], 0x44), LANES4(x[2], x[3], 0xee));
        s[h] = ADD(LANES4(a, b, 0x88), LANES4(a, b, 0xdd));
    }
    // [0, 2 of s0, 0, 2 of s1] + [1, 3, ...], then both sums of a half side by side
    __m512i a = ADD(_mm512_unpacklo_epi32(s[0], s[1]), _mm512_unpackhi_epi32(s[0], s[1]));
    __m512i halves = ADD(a, _mm512_shuffle_epi32(a, 0x4e)); // h0, h1, h0, h1
    __m512i whole = ADD(halves, _mm512_shuffle_epi32(halves, 0xb1));
    __m512i shifted = _mm512_shuffle_epi32(halves, 0x90); // h0, h0, h1, h0
#undef ADD
#undef LANES4
    return _mm512_maskz_mov_epi32(0x7777, _mm512_mask_mov_epi32(shifted, 0x1111, whole));
}

// Four blocks; false, and nothing done, where one of them is not ordinary (q8.h has the cases).
INLINE bool act_q8_four(const float *x, struct ht_act_q8 *const dst[4]) {
    const __m512 tops =
        _mm512_setr_ps(ht_tops[0], ht_tops[1], ht_tops[2], ht_tops[0], ht_tops[0], ht_tops[1],
                       ht_tops[2], ht_tops[0], ht_tops[0], ht_tops[1], ht_tops[2], ht_tops[0],
                       ht_tops[0], ht_tops[1], ht_tops[2], ht_tops[0]);
    __m512 v[4][2], inverse, step;
    UNROLL(4)
    for (int b = 0; b < 4; b++) {
        v[b][0] = _mm512_loadu_ps(x + 32 * b);
        v[b][1] = _mm512_loadu_ps(x + 32 * b + 16);
    }
    __m512i bits = max_magnitudes(v);
    __m512 amax = _mm512_castsi512_ps(bits);
    inverse = _mm512_div_ps(tops, amax);
    step = _mm512_div_ps(amax, tops);
    const __m512i inf = _mm512_set1_epi32(0x7f800000);
    if (_mm512_cmpge_epu32_mask(bits, inf) |
        _mm512_cmpge_epu32_mask(_mm512_castps_si512(inverse), inf))
        return false;
    best_steps(v, inverse, step, &inverse, &step);
    __m512i sums = round_codes(v, inverse, dst);
    __m512i bias =
        _mm512_sub_epi32(_mm512_set1_epi32(HT_SHIFTED), _mm512_slli_epi32(sums, 7)); // * 128
    __m512 scaled = _mm512_mul_ps(step, _mm512_cvtepi32_ps(sums));
#define STORE(b)                                                                                   \
    _mm_store_ss(&dst[b]->scale, _mm512_extractf32x4_ps(step, b));                                 \
    _mm_storeu_si128((void *)&dst[b]->bias, _mm512_extracti32x4_epi32(bias, b));                   \
    _mm_storeu_ps(&dst[b]->sum, _mm512_extractf32x4_ps(scaled, b))
    STORE(0); // four words from bias on: the last is sum's place, written after it
    STORE(1);
    STORE(2);
    STORE(3);
#undef STORE
    return true;
}

// Blocks of a column lie far apart: their lines are asked for this many blocks ahead.
#define BLOCKS_AHEAD 16

// The level's act_q8, with the one-block kernel for what does not come in fours.
INLINE void act_q8_fours(const float *x, uint32_t n_in, struct ht_act_q8 *dst, size_t dst_step,
                         void one(const float *, uint32_t, struct ht_act_q8 *, size_t)) {
    uint32_t k = 0;
    for (; k + 128 <= n_in; k += 128, dst = ht_act_block(dst, 4, dst_step)) {
        struct ht_act_q8 *d[4];
        UNROLL(4)
        for (uint32_t b = 0; b < 4; b++) {
            d[b] = ht_act_block(dst, b, dst_step);
            __builtin_prefetch(ht_act_block(dst, b + BLOCKS_AHEAD, dst_step), 1);
        }
        if (!act_q8_four(x + k, d)) one(x + k, 128, dst, dst_step);
    }
    if (k < n_in) one(x + k, n_in - k, dst, dst_step);
}

#endif
