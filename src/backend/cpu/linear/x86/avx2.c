// SPDX-License-Identifier: MIT
// The linear kernels of the level avx2: pairs of products are added in 16 bits, unsigned magnitude
// times signed, pairs of those in 32. No state; any thread.
#include "backend/cpu/linear/x86/vec_avx2.h"

#define CODES_SIGNED  1
#define SMALL_PAIRS   1
#define TILE_VECTORS  1
#define TILE_TOKENS   4
#define STREAM_TOKENS 2

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
// 128 * 127 * 2 fits in 16 bits.
INLINE vi dot4(vi acc, vi code, vi q) {
    __m256i signed_q = _mm256_sign_epi8((__m256i)q, (__m256i)code);
    return dot4_small(acc, (vi)_mm256_abs_epi8((__m256i)code), (vi)signed_q);
}

#include "backend/cpu/linear/q8.h"
#include "backend/cpu/linear/x86/float.h"

const struct ht_linear_kernels ht_linear_avx2 = {
    .name = "avx2",
    .lanes = LANES,
    .bf16_bytes = 4,
    .act_q8 = act_q8,
    .act_bf16 = ht_act_bf16_f32_avx2,
    .format = {[HT_F32] = {ht_pack_f32_avx2, ht_tile_f32_avx2, ht_stream_f32_avx2, 2, 2},
               [HT_F16] = {ht_pack_f16_avx2, ht_tile_f32_avx2, ht_stream_f16_avx2, 2, 2},
               [HT_BF16] = {ht_pack_bf16_avx2, ht_tile_f32_avx2, ht_stream_bf16_avx2, 2, 2},
               Q8_FORMATS(tile_32, tile_32_min, pack, stream, STREAM_TOKENS, STREAM_TOKENS)},
};
