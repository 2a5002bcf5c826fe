// SPDX-License-Identifier: MIT
// Activations in 8 bits, four blocks at a time: what is one number a block (largest value, errors,
// step, sums) is a lane of a register for all four, so that no block waits for the sums across
// lanes of another; and two or four fours side by side where there are as many, for the same
// reason. The numbers are those of act_q8 (q8.h), which does what is left over.
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

// Half h of block b of four.
INLINE __m512 half_at(const float *x, int b, int h) {
    return _mm512_loadu_ps(x + 32 * b + 16 * h);
}

// The bits of each block's largest magnitude, in all lanes of its quarter.
INLINE __m512i max_magnitudes(const float *x) {
    const __m512i magnitude = _mm512_set1_epi32(0x7fffffff);
    __m512 m[4];
    UNROLL(4)
    for (int b = 0; b < 4; b++) {
        __m512i l = _mm512_and_epi32(_mm512_castps_si512(half_at(x, b, 0)), magnitude);
        __m512i h = _mm512_and_epi32(_mm512_castps_si512(half_at(x, b, 1)), magnitude);
        m[b] = _mm512_castsi512_ps(_mm512_max_epu32(l, h));
    }
#define MAX(f, a, b, i, j)                                                                         \
    _mm512_castsi512_ps(                                                                           \
        _mm512_max_epu32(_mm512_castps_si512(f(a, b, i)), _mm512_castps_si512(f(a, b, j))))
    __m512 a = MAX(QUARTERS, m[0], m[1], 0x44, 0xee), b = MAX(QUARTERS, m[2], m[3], 0x44, 0xee);
    __m512 c = MAX(QUARTERS, a, b, 0x88, 0xdd);
    c = MAX(IN_QUARTER, c, c, 0x4e, 0xe4);
    c = MAX(IN_QUARTER, c, c, 0xb1, 0xe4);
#undef MAX
    return _mm512_castps_si512(c);
}

// Per block, in all lanes of its quarter: that lane of inverse and of step that rounds it best.
INLINE void best_steps(const float *x, __m512 *inverse, __m512 *step) {
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
            __m512 by = _mm512_permutexvar_ps(_mm512_set1_epi32(4 * b + i), *inverse);
            __m512 r = (__m512)fraction((vf)_mm512_mul_ps(half_at(x, b, 0), by));
            __m512 s = (__m512)fraction((vf)_mm512_mul_ps(half_at(x, b, 1), by));
            e[b] = _mm512_fmadd_ps(s, s, _mm512_mul_ps(r, r));
        }
        error[i] = sum_to_quarters(e);
    }
    __m512 sum = _mm512_mul_ps(sum_in_quarters(error), weights);
    __m512 e0 = LANE(sum, 0), e1 = LANE(sum, 1), e2 = LANE(sum, 2);
    __mmask16 second = _mm512_cmp_ps_mask(e1, e0, _CMP_LT_OQ);
    __mmask16 third = _mm512_cmp_ps_mask(e2, _mm512_mask_mov_ps(e0, second, e1), _CMP_LT_OQ);
    __m512i best = _mm512_maskz_set1_epi32(second, 1);
    best = _mm512_mask_mov_epi32(best, third, _mm512_set1_epi32(2));
    *inverse = _mm512_permutevar_ps(*inverse, best);
    *step = _mm512_permutevar_ps(*step, best);
}

// Sums of four bytes each.
INLINE __m512i sum_bytes(__m512i x) {
    const __m512i ones = _mm512_set1_epi8(1);
#ifdef __AVX512VNNI__
    return _mm512_dpbusd_epi32(_mm512_setzero_si512(), ones, x);
#else
    return _mm512_madd_epi16(_mm512_maddubs_epi16(ones, x), _mm512_set1_epi16(1));
#endif
}

// Codes, and in quarter b the sums of block b: whole, first half, second half, 0.
INLINE __m512i round_codes(const float *x, __m512 inverse, struct ht_act_q8 *dst, size_t dst_step) {
    const __m512i turned = _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
    __m512i sum[2];
    UNROLL(2)
    for (int i = 0; i < 2; i++) { // two blocks
        __m512i words[2];
        UNROLL(2)
        for (int j = 0; j < 2; j++) {
            int b = 2 * i + j;
            __m512 by = _mm512_permutexvar_ps(_mm512_set1_epi32(4 * b), inverse);
            words[j] = _mm512_packs_epi32(_mm512_cvtps_epi32(_mm512_mul_ps(half_at(x, b, 0), by)),
                                          _mm512_cvtps_epi32(_mm512_mul_ps(half_at(x, b, 1), by)));
        }
        // Four codes of each half of each block, and the next four of each ...
        __m512i codes = _mm512_packs_epi16(words[0], words[1]);
        codes = _mm512_permutexvar_epi32(turned, codes);
        _mm256_storeu_si256((void *)ht_act_block(dst, 2 * i, dst_step)->q,
                            _mm512_castsi512_si256(codes));
        _mm256_storeu_si256((void *)ht_act_block(dst, 2 * i + 1, dst_step)->q,
                            _mm512_extracti64x4_epi64(codes, 1));
        sum[i] = sum_bytes(codes);
    }
    // Quarters are halves of blocks now, those of blocks 0 and 1 in lane 0, of 2 and 3 in lane 1.
    __m512i s = _mm512_add_epi32(_mm512_unpacklo_epi32(sum[0], sum[1]),
                                 _mm512_unpackhi_epi32(sum[0], sum[1]));
    s = _mm512_add_epi32(s, _mm512_shuffle_epi32(s, 0x4e));
    const __m512i halves = _mm512_setr_epi32(0, 0, 4, 0, 8, 8, 12, 0, 1, 1, 5, 0, 9, 9, 13, 0);
    const __m512i second = _mm512_setr_epi32(4, 0, 0, 0, 12, 0, 0, 0, 5, 0, 0, 0, 13, 0, 0, 0);
    return _mm512_add_epi32(_mm512_maskz_permutexvar_epi32(0x7777, halves, s),
                            _mm512_maskz_permutexvar_epi32(0x1111, second, s));
}

// The rest of four blocks: their step in each quarter, and the sums of round_codes.
INLINE void store_rest(__m512 step, __m512i sums, struct ht_act_q8 *dst, size_t dst_step) {
    __m512i bias =
        _mm512_sub_epi32(_mm512_set1_epi32(HT_SHIFTED), _mm512_slli_epi32(sums, 7)); // * 128
    __m512 scaled = _mm512_mul_ps(step, _mm512_cvtepi32_ps(sums));
#define STORE(b)                                                                                   \
    do {                                                                                           \
        struct ht_act_q8 *d = ht_act_block(dst, b, dst_step);                                      \
        _mm_store_ss(&d->scale, _mm512_extractf32x4_ps(step, b));                                  \
        _mm_storeu_si128((void *)&d->bias, _mm512_extracti32x4_epi32(bias, b));                    \
        _mm_storeu_ps(&d->sum, _mm512_extractf32x4_ps(scaled, b));                                 \
    } while (0) // four words from bias on: the last is sum's place, written after it
    STORE(0);
    STORE(1);
    STORE(2);
    STORE(3);
#undef STORE
}

// n fours of blocks, side by side for each wait there is; false, and nothing done, where one block
// is not ordinary (q8.h has the cases).
INLINE bool quantise_fours(const int n, const float *x, struct ht_act_q8 *dst, size_t dst_step) {
    const __m512 tops =
        _mm512_setr_ps(ht_tops[0], ht_tops[1], ht_tops[2], ht_tops[0], ht_tops[0], ht_tops[1],
                       ht_tops[2], ht_tops[0], ht_tops[0], ht_tops[1], ht_tops[2], ht_tops[0],
                       ht_tops[0], ht_tops[1], ht_tops[2], ht_tops[0]);
    const __m512i inf = _mm512_set1_epi32(0x7f800000);
    __m512 inverse[4], step[4];
    __m512i sums[4];
    __mmask16 odd = 0;
    UNROLL(4)
    for (int i = 0; i < n; i++) {
        __m512i bits = max_magnitudes(x + 128 * i);
        __m512 amax = _mm512_castsi512_ps(bits);
        inverse[i] = _mm512_div_ps(tops, amax);
        step[i] = _mm512_div_ps(amax, tops);
        odd |= _mm512_cmpge_epu32_mask(bits, inf) |
               _mm512_cmpge_epu32_mask(_mm512_castps_si512(inverse[i]), inf);
    }
    if (odd) return false;
    UNROLL(4)
    for (int i = 0; i < n; i++) best_steps(x + 128 * i, &inverse[i], &step[i]);
    UNROLL(4)
    for (int i = 0; i < n; i++)
        sums[i] =
            round_codes(x + 128 * i, inverse[i], ht_act_block(dst, 4 * i, dst_step), dst_step);
    UNROLL(4)
    for (int i = 0; i < n; i++)
        store_rest(step[i], sums[i], ht_act_block(dst, 4 * i, dst_step), dst_step);
    return true;
}

// Blocks of a column lie far apart: their lines are asked for this many blocks ahead.
#define BLOCKS_AHEAD 16

// The level's act_q8, with the one-block kernel for what does not come in fours.
INLINE void act_q8_fours(const float *x, uint32_t n_in, struct ht_act_q8 *dst, size_t dst_step,
                         void one(const float *, uint32_t, struct ht_act_q8 *, size_t)) {
    uint32_t k = 0;
    for (uint32_t n; k + 128 <= n_in; k += n, dst = ht_act_block(dst, n / 32, dst_step)) {
        n = k + 512 <= n_in ? 512 : k + 256 <= n_in ? 256 : 128;
        for (uint32_t b = 0; b < n / 32; b++)
            __builtin_prefetch(ht_act_block(dst, b + BLOCKS_AHEAD, dst_step), 1);
        bool done = n == 512   ? quantise_fours(4, x + k, dst, dst_step)
                    : n == 256 ? quantise_fours(2, x + k, dst, dst_step)
                               : quantise_fours(1, x + k, dst, dst_step);
        if (!done) one(x + k, n, dst, dst_step);
    }
    if (k < n_in) one(x + k, n_in - k, dst, dst_step);
}

#endif
