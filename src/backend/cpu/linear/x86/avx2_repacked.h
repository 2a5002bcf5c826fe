// SPDX-License-Identifier: MIT
// Packers and streams of repacked weights (linear.h) with AVX2: of codes without VNNI
// (avx2_repacked.c) and with it (avx2vnni_repacked.c), of F16 and BF16 (avx2_float_repacked.c).
#ifndef HT_LINEAR_X86_AVX2_REPACKED_H
#define HT_LINEAR_X86_AVX2_REPACKED_H

#include "backend/cpu/linear/x86/float.h"
#include "backend/cpu/linear/x86/repacked_list.h"

// The name of function x; tests/kern builds the latter a second time, with another.
#define HT_AVX2_REPACKED(x) ht_avx2_repacked_##x
#ifndef HT_AVX2VNNI_REPACKED
#define HT_AVX2VNNI_REPACKED(x) ht_avx2vnni_repacked_##x
#endif

HT_REPACKED_ALL(HT_REPACKED_DECLARE, HT_AVX2_REPACKED)
HT_REPACKED_ALL(HT_REPACKED_DECLARE, HT_AVX2VNNI_REPACKED)

ht_pack_fn HT_AVX2_REPACKED(pack_f16), HT_AVX2_REPACKED(pack_bf16);
ht_stream_fn HT_AVX2_REPACKED(stream_f16), HT_AVX2_REPACKED(stream_bf16);

// A row of a level's table, by the macro above that names its functions, and its tile: streams of
// up to `tokens`, in passes up to `most`.
#define AVX2_REPACKED(name, format, tile, tokens, most)                                            \
    { name(pack_##format), tile, name(stream_##format), tokens, most }
// The rows of F16 and BF16.
#define AVX2_REPACKED_FLOATS                                                                       \
    [HT_F16_ROW] = AVX2_REPACKED(HT_AVX2_REPACKED, f16, ht_tile_f32_avx2, 3, 4),                   \
    [HT_BF16_ROW] = AVX2_REPACKED(HT_AVX2_REPACKED, bf16, ht_tile_f32_avx2, 3, 4)

#endif
