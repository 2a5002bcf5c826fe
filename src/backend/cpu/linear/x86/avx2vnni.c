// SPDX-License-Identifier: MIT
// The linear kernels of the level avx2vnni: vpdpbusd on 256 bits, unsigned codes as in avx512vnni,
// everything else as in avx2. tests/kern builds this file a second time with AVX-512's encoding of
// the same instruction, for machines that have only that one. No state; any thread.
#include "backend/cpu/linear/x86/vnni_avx2.h"

#define TILE_VECTORS       2
#define TILE_TOKENS        4
#define STREAM_TOKENS      2
#define ASK_BY_ADDRESS     1
#define ENTRY_PACK         ht_entries_avx2_unsigned
#define ENTRY_STREAM(name) HT_ENTRIES_AVX2(name)
#define BITS_STREAM(name)  HT_BITS_AVX2(name)
#define RARE_STREAM(name)  HT_RARE_AVX2(name)
#define MIN_PACK(name)     HT_AVX2_MIN_PACK(name)
#define MIN_PACKED

#include "backend/cpu/linear/q8.h"
#include "backend/cpu/linear/x86/avx2_repacked.h"
#include "backend/cpu/linear/x86/float.h"
#include "backend/cpu/linear/x86/shared.h"

#define ROW(format, tile, most) AVX2_REPACKED(HT_AVX2VNNI_REPACKED, format, tile, 4, most)

const struct ht_linear_kernels ht_linear_avx2vnni = {
    .name = "avx2vnni",
    .lanes = LANES,
    .address_tokens = STREAM_TOKENS,
    .bf16_bytes = 4,
    .act_q8 = ht_act_q8_avx2,
    .act_bf16 = ht_act_bf16_f32_avx2,
    .format = {[HT_F32_ROW] = {ht_pack_f32_avx2, ht_tile_f32_avx2, ht_stream_f32_avx2, 2, 2},
               [HT_F16_ROW] = {ht_pack_f16_avx2, ht_tile_f32_avx2, ht_stream_f16_avx2, 2, 2},
               [HT_BF16_ROW] = {ht_pack_bf16_avx2, ht_tile_f32_avx2, ht_stream_bf16_avx2, 2, 2},
               Q8_FORMATS(tile_32, tile_32_min, pack, stream)},
    .repacked = {AVX2_REPACKED_FLOATS, [HT_Q4_0_ROW] = ROW(q4_0, tile_32, 4),
                 [HT_Q8_0_ROW] = ROW(q8_0, tile_32, 4), [HT_Q4_K_ROW] = ROW(q4_k, tile_32_min, 4),
                 [HT_Q5_K_ROW] = ROW(q5_k, tile_32_min, 4), [HT_Q6_K_ROW] = ROW(q6_k, tile_16, 4)},
};
