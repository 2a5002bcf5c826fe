// SPDX-License-Identifier: MIT
// Products of codes on 256 bits without VNNI: pairs of products are added in 16 bits, unsigned
// magnitude times signed, pairs of those in 32.
#ifndef HT_LINEAR_X86_PAIRS_AVX2_H
#define HT_LINEAR_X86_PAIRS_AVX2_H

#include "backend/cpu/linear/x86/vec_avx2.h"

#define CODES_SIGNED 1
#define SMALL_PAIRS  1
#define NEGATIVES    1

INLINE vi mul_pairs(vi code, vi q) {
    return (vi)_mm256_maddubs_epi16((__m256i)code, (__m256i)q);
}
INLINE vi sum_pairs(vi acc, vi pairs) {
    acc += (vi)_mm256_madd_epi16((__m256i)pairs, _mm256_set1_epi16(1));
    __asm__("" : "+x"(acc)); // gcc would put the additions off and run out of registers
    return acc;
}
INLINE vi dot4_small(vi acc, vi code, vi q) {
    return sum_pairs(acc, mul_pairs(code, q));
}
INLINE vi negative(vi code) {
    return (vi)_mm256_cmpgt_epi8(_mm256_setzero_si256(), (__m256i)code);
}
INLINE vi magnitude(vi code) {
    return (vi)_mm256_abs_epi8((__m256i)code);
}

// 128 * 127 * 2 fits in 16 bits.
INLINE vi dot4(vi acc, vi code, vi q) {
    __m256i signed_q = _mm256_sign_epi8((__m256i)q, (__m256i)code);
    return dot4_small(acc, magnitude(code), (vi)signed_q);
}
#define dot4_at(acc, code, q) dot4(acc, code, broadcast4(q))

#endif
