// SPDX-License-Identifier: MIT
// The float kernels of the x86 levels; levels above avx512 take those of avx512.
#ifndef HT_LINEAR_X86_FLOAT_H
#define HT_LINEAR_X86_FLOAT_H

#include "backend/cpu/linear/kernels.h"

ht_tile_fn ht_tile_f32_avx2, ht_tile_f32_avx512;
ht_pack_fn ht_pack_f32_avx2, ht_pack_f16_avx2, ht_pack_bf16_avx2;
ht_pack_fn ht_pack_f32_avx512, ht_pack_f16_avx512, ht_pack_bf16_avx512;
ht_act_fn ht_act_bf16_f32_avx2, ht_act_bf16_f32_avx512; // levels without vdpbf16ps
ht_stream_fn ht_stream_f32_avx2, ht_stream_f16_avx2, ht_stream_bf16_avx2;
ht_stream_fn ht_stream_f32_avx512, ht_stream_f16_avx512, ht_stream_bf16_avx512;

// avx512bf16: BF16 by vdpbf16ps; activations are uint16_t.
ht_act_fn ht_act_bf16_avx512;
ht_pack_fn ht_pack_bf16_pairs;
ht_tile_fn ht_tile_bf16_pairs;
ht_stream_fn ht_stream_bf16_pairs;

#endif
