// SPDX-License-Identifier: MIT
// The float kernels of AArch64, which all its levels share.
#ifndef HT_LINEAR_ARM_FLOAT_H
#define HT_LINEAR_ARM_FLOAT_H

#include "backend/cpu/linear/kernels.h"

ht_tile_fn ht_tile_f32_neon;
ht_pack_fn ht_pack_f32_neon, ht_pack_f16_neon, ht_pack_bf16_neon;
ht_act_fn ht_act_bf16_f32_neon;
ht_stream_fn ht_stream_f32_neon, ht_stream_f16_neon, ht_stream_bf16_neon;

#define NEON_FLOAT_FORMATS                                                                         \
    [HT_F32_ROW] = {ht_pack_f32_neon, ht_tile_f32_neon, ht_stream_f32_neon, 4, 4},                 \
    [HT_F16_ROW] = {ht_pack_f16_neon, ht_tile_f32_neon, ht_stream_f16_neon, 4, 4},                 \
    [HT_BF16_ROW] = {ht_pack_bf16_neon, ht_tile_f32_neon, ht_stream_bf16_neon, 4, 4}

#endif
