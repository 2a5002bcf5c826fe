// SPDX-License-Identifier: MIT
// The linear kernels of the level neon_dotprod: sdot adds four products a lane. No state; any
// thread.
#include "backend/cpu/linear/arm/dot_lane.h"
#include "backend/cpu/linear/arm/float.h"

#define CODES_SIGNED  1
#define TILE_VECTORS  2
#define TILE_TOKENS   6
#define STREAM_TOKENS 4

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
