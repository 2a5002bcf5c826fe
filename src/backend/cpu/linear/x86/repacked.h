// SPDX-License-Identifier: MIT
// Packers and streams of repacked weights (linear.h) with AVX-512: of codes for the levels with
// VNNI (avx512vnni_repacked.c, avx512vbmi_repacked.c), of F16 and BF16 by f32
// (avx512_float_repacked.c), of BF16 by vdpbf16ps (avx512_bf16_repacked.c).
#ifndef HT_LINEAR_X86_REPACKED_H
#define HT_LINEAR_X86_REPACKED_H

#include "backend/cpu/linear/x86/repacked_list.h"

#define HT_AVX512_REPACKED(x) ht_repacked_##x

HT_REPACKED_ALL(HT_REPACKED_DECLARE, HT_AVX512_REPACKED)
HT_REPACKED_OTHERS(HT_REPACKED_DECLARE, HT_AVX512_REPACKED)
HT_REPACKED_LOOKUPS(HT_REPACKED_DECLARE, HT_AVX512_REPACKED)
ht_pack_fn ht_repacked_scales_q8_0; // for ht_repacked_tile_q8_0, which multiplies in place
ht_tile_fn ht_repacked_tile_q8_0;
ht_pack_fn ht_repacked_pack_f16, ht_repacked_pack_bf16;
ht_pack_fn ht_repacked_pack_bf16_pairs; // nothing, for this one, which multiplies in place:
ht_tile_fn ht_repacked_tile_bf16_pairs;
ht_stream_fn ht_repacked_stream_f16, ht_repacked_stream_bf16, ht_repacked_stream_bf16_pairs;

#endif
