// SPDX-License-Identifier: MIT
// How a block's sum of products of codes begins and what is made of it, in streams and tiles.
#ifndef HT_LINEAR_Q8_SUM_H
#define HT_LINEAR_Q8_SUM_H

#include "backend/cpu/linear/rows.h"

#ifndef DOT4_BY_LANE
#define DOT4_BY_LANE 0
#endif

INLINE vi broadcast4(const int8_t *q) {
    int32_t v;
    __builtin_memcpy(&v, q, 4);
    return splat_int(v);
}

// acc + code . word c of q; small: codes are 0 .. 127.
INLINE vi dot4_word(vi acc, vi code, const int8_t *q, const uint32_t c, const bool small) {
#if DOT4_BY_LANE
    (void)small;
    return dot4_lane(acc, code, q, c);
#else
    const vi four = broadcast4(q + 4 * c);
    return small ? dot4_small(acc, code, four) : dot4(acc, code, four);
#endif
}

// The terms of linear.h. A block's sum times its scale, or the first half's of one whose halves
// have scales of their own: isum began at HT_SHIFTED; back is back_of(scale).
INLINE vf scaled_sum(vi isum, vf scale, vf back) {
    return fma_add((vf)isum, scale, back);
}

// The second half's and the first's. (What takes HT_SHIFT off is exact, and for some processors'
// multipliers nothing.)
INLINE vf both_halves(vf first, vi isum, vf scale) {
    return fma_add((vf)isum - splat(HT_SHIFT), scale, first);
}

// 128 times the sum of a half's activations, exact: mins of halves stand as a 128th.
INLINE vf half_128(const struct ht_act_q8 *a, const uint32_t half) {
    return splat(HT_SHIFT) - (vf)splat_int(a->bias_half[half]);
}

// A block with one scale.
INLINE vf fold(vf y, vi isum, vf scale, vf back, float a_scale) {
    return fma_add(scaled_sum(isum, scale, back), splat(a_scale), y);
}

// The start of a sum whose codes stand 128 >> shift too high: minus that times the sum of q, from a
// bias, which has 128 times it.
INLINE vi start_above(int32_t bias, const int shift) {
    return splat_int((bias >> shift) + (HT_SHIFTED - (HT_SHIFTED >> shift)));
}

// The sum's start for codes of this format.
INLINE vi start(const uint32_t f, int32_t bias, const int up) {
    const int offset = shape_of(f).offset << up;
    if (!offset) return splat_int(HT_SHIFTED);
    return start_above(bias, __builtin_ctz(128u / (unsigned)offset));
}

// How many steps of four products of 127 by a format's codes, unsigned, fit in 16 bits, two by two
// (half a block's, where it has a scale for each half); 0: none.
INLINE uint32_t small_steps(const uint32_t f) {
    switch (base_of(f)) {
    case HT_Q4_0:
    case HT_Q4_1:
    case HT_Q4_K:
    case HT_TQ2_0: return 8; // codes of 15 at most
    case HT_Q5_0:
    case HT_Q5_1:
    case HT_Q5_K:
    case HT_MXFP4: // 31
    case HT_Q2_K:
    case HT_Q3_K: return 4;
    case HT_Q6_K:
    case HT_NVFP4: return 2; // 63
    default: return 0;
    }
}

// Step c of products of which n steps add up in 16 bits, in *pairs, and then in *sum.
INLINE void add_small(vi *sum, vi *pairs, vi code, vi q, const uint32_t c, const uint32_t n) {
#if SMALL_PAIRS
    vi x = mul_pairs(code, q);
    *pairs = c % n == 0 ? x : (vi)((vu16)*pairs + (vu16)x);
    __asm__("" : "+v"(*pairs)); // gcc would put additions off and run out of registers
    if (c % n + 1 == n) *sum = sum_pairs(*sum, *pairs);
#else
    (void)sum, (void)pairs, (void)code, (void)q, (void)c, (void)n;
#endif
}

// NEGATIVES: a signed code c times q is |c| times q, or where it is negative |c| times ~q, which is
// -q - 1, and |c| more. So a code needs no copy of q that has its sign, and a block's sum begins
// with the magnitudes of its negative codes, which stand in a panel's `min`.
#ifndef NEGATIVES
#define NEGATIVES 0
#endif
#if NEGATIVES
INLINE void take_sign(vi *code, vi *mask) {
    *mask = negative(*code);
    *code = magnitude(*code);
}
// To minus the magnitudes of a block's negative codes, pairs of which are added in 16 bits.
INLINE vi count_negatives(vi pairs, vi code) {
    return (vi)((vu16)pairs + (vu16)mul_pairs(magnitude(code), negative(code)));
}
// What the block's sum begins with.
INLINE vi negatives_start(vi pairs) {
    return splat_int(HT_SHIFTED) - sum_pairs(splat_int(0), pairs);
}
#else // nobody asks
INLINE void take_sign(vi *code, vi *mask) {
    (void)code, (void)mask;
}
INLINE vi count_negatives(vi pairs, vi code) {
    (void)code;
    return pairs;
}
INLINE vi negatives_start(vi pairs) {
    return pairs;
}
#endif

#endif
