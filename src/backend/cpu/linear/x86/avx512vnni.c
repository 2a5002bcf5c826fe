// SPDX-License-Identifier: MIT
// The linear kernels of the level avx512vnni: codes are unsigned bytes, vpdpbusd adds four products
// a lane, and a sum starts at minus the offset's share. No state; any thread.
#include "backend/cpu/linear/x86/vec_avx512.h"

#define CODES_SIGNED  0
#define TILE_VECTORS  2
#define TILE_TOKENS   6
#define STREAM_TOKENS 16
#define STREAM_CHAINS 2

INLINE vi dot4(vi acc, vi code, vi q) {
    return (vi)_mm512_dpbusd_epi32((__m512i)acc, (__m512i)code, (__m512i)q);
}
#define dot4_small dot4

#include "backend/cpu/linear/q8.h"
#include "backend/cpu/linear/x86/act_avx512.h"
#include "backend/cpu/linear/x86/float.h"

static void act_q8_level(const float *x, uint32_t n_in, struct ht_act_q8 *dst, size_t dst_step) {
    act_q8_fours(x, n_in, dst, dst_step, act_q8);
}

const struct ht_linear_kernels ht_linear_avx512vnni = {
    .name = "avx512vnni",
    .lanes = LANES,
    .bf16_bytes = 2,
    .act_q8 = act_q8_level,
    .act_bf16 = ht_act_bf16_avx512,
    .format = {[HT_F32] = {ht_pack_f32_avx512, ht_tile_f32_avx512, ht_stream_f32_avx512, 4, 4},
               [HT_F16] = {ht_pack_f16_avx512, ht_tile_f32_avx512, ht_stream_f16_avx512, 4, 4},
               [HT_BF16] = {ht_pack_bf16_pairs, ht_tile_bf16_pairs, ht_stream_bf16_pairs, 4, 8},
               Q8_FORMATS},
};
