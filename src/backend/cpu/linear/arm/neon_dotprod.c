// SPDX-License-Identifier: MIT
// The linear kernels of the level neon_dotprod: sdot adds four products a lane. No state; any
// thread.
#include "backend/cpu/linear/arm/float.h"
#include "backend/cpu/linear/arm/vec_neon.h"

#define CODES_SIGNED  1
#define TILE_VECTORS  2
#define TILE_TOKENS   6
#define STREAM_TOKENS 4

INLINE vi dot4(vi acc, vi code, vi q) {
    return (vi)vdotq_s32((int32x4_t)acc, (int8x16_t)code, (int8x16_t)q);
}
#define dot4_small dot4

// Eight codes of activations at once, the first four or the second multiplied by a word each.
typedef int8x8_t codes8;
INLINE codes8 load_codes8(const int8_t *q) {
    return vld1_s8(q);
}
INLINE vi dot4_first(vi acc, vi code, codes8 q) {
    return (vi)vdotq_lane_s32((int32x4_t)acc, (int8x16_t)code, q, 0);
}
INLINE vi dot4_second(vi acc, vi code, codes8 q) {
    return (vi)vdotq_lane_s32((int32x4_t)acc, (int8x16_t)code, q, 1);
}
#define DOT4_BY_LANE 1

#include "backend/cpu/linear/q8.h"
#include "backend/cpu/linear/q8_act.h"

const struct ht_linear_kernels ht_linear_neon_dotprod = {
    .name = "neon_dotprod",
    .lanes = LANES,
    .bf16_bytes = 4,
    .act_q8 = act_q8,
    .act_bf16 = ht_act_bf16_f32_neon,
    .format = {NEON_FLOAT_FORMATS, Q8_FORMATS(tile_32, tile_32_min, pack, stream)},
};
