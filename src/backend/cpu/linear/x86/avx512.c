// SPDX-License-Identifier: MIT
// The linear kernels of the level avx512, which has no VNNI: pairs of products are added in 16
// bits, unsigned magnitude times signed, pairs of those in 32. No state; any thread.
#include "backend/cpu/linear/x86/vec_avx512.h"

#define CODES_SIGNED       1
#define SMALL_PAIRS        1
#define TILE_VECTORS       2
#define TILE_TOKENS        5
#define SMALL_TOKENS       4
#define STREAM_TOKENS      1
#define ASK_BY_ADDRESS     1
#define ENTRY_STREAM(name) HT_ENTRIES_AVX2(name)
#define BITS_STREAM(name)  HT_BITS_AVX2(name)
#define RARE_STREAM(name)  HT_RARE_AVX2(name)

INLINE vi mul_pairs(vi code, vi q) {
    return (vi)_mm512_maddubs_epi16((__m512i)code, (__m512i)q);
}
INLINE vi sum_pairs(vi acc, vi pairs) {
    acc += (vi)_mm512_madd_epi16((__m512i)pairs, _mm512_set1_epi16(1));
    __asm__("" : "+v"(acc)); // gcc would put the additions off and run out of registers
    return acc;
}
INLINE vi dot4_small(vi acc, vi code, vi q) {
    return sum_pairs(acc, mul_pairs(code, q));
}
// 128 * 127 * 2 fits in 16 bits.
INLINE vi dot4(vi acc, vi code, vi q) {
    __mmask64 negative = _mm512_movepi8_mask((__m512i)code);
    __m512i signed_q =
        _mm512_mask_sub_epi8((__m512i)q, negative, _mm512_setzero_si512(), (__m512i)q);
    return dot4_small(acc, (vi)_mm512_abs_epi8((__m512i)code), (vi)signed_q);
}

#include "backend/cpu/linear/q8.h"
#include "backend/cpu/linear/x86/act.h"
#include "backend/cpu/linear/x86/float.h"
#include "backend/cpu/linear/x86/shared.h"

void ht_act_q8_avx512(const struct ht_act_how *how, const float *x, uint32_t n_in,
                      struct ht_act_q8 *dst, size_t dst_step) {
    act_q8_blocks(how, x, n_in, dst, dst_step);
}

PACK_ENTRIES(, FOR_UNSIGNED, ht_entries_avx512_unsigned) // of avx512vnni

const struct ht_linear_kernels ht_linear_avx512 = {
    .name = "avx512",
    .lanes = LANES,
    .address_tokens = STREAM_TOKENS,
    .bf16_bytes = 4,
    .act_q8 = ht_act_q8_avx512,
    .act_bf16 = ht_act_bf16_f32_avx512,
    .format = {[HT_F32_ROW] = {ht_pack_f32_avx512, ht_tile_f32_avx512, ht_stream_f32_avx512, 4, 4},
               [HT_F16_ROW] = {ht_pack_f16_avx512, ht_tile_f32_avx512, ht_stream_f16_avx512, 4, 4},
               [HT_BF16_ROW] = {ht_pack_bf16_avx512, ht_tile_f32_avx512, ht_stream_bf16_avx512, 4,
                                4},
               Q8_FORMATS(tile_32, tile_32_min, pack, stream)},
};
