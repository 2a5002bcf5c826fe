// SPDX-License-Identifier: MIT
// The linear kernels of the level neon (every AArch64): products in 16 bits, pairs added in 16,
// pairs of those in 32. No state; any thread.
#include "backend/cpu/linear/arm/float.h"
#include "backend/cpu/linear/arm/vec_neon.h"

#define CODES_SIGNED  1
#define TILE_VECTORS  2
#define TILE_TOKENS   6
#define STREAM_TOKENS 4

// |code| * |q| is at most 128 * 127, so two fit in 16 bits.
INLINE vi dot4(vi acc, vi code, vi q) {
    int16x8_t low = vmull_s8(vget_low_s8((int8x16_t)code), vget_low_s8((int8x16_t)q));
    int16x8_t high = vmull_high_s8((int8x16_t)code, (int8x16_t)q);
    return (vi)vpadalq_s16((int32x4_t)acc, vpaddq_s16(low, high));
}
#define dot4_small dot4

#include "backend/cpu/linear/q8.h"
#include "backend/cpu/linear/q8_act.h"

const struct ht_linear_kernels ht_linear_neon = {
    .name = "neon",
    .lanes = LANES,
    .bf16_bytes = 4,
    .act_q8 = act_q8,
    .act_bf16 = ht_act_bf16_f32_neon,
    .format = {NEON_FLOAT_FORMATS, Q8_FORMATS(tile_32, tile_32_min, pack, stream)},
};
