// SPDX-License-Identifier: MIT
// Kernels by AMX, whose registers are tiles of up to 16 rows x 64 bytes: the level amx takes them
// and has the rest of avx512vnni (avx512vnni.c).
#ifndef HT_LINEAR_X86_AMX_H
#define HT_LINEAR_X86_AMX_H

#include "backend/cpu/linear/kernels.h"

// Tokens [0, n_tokens / 16 * 16), at least 16, times a panel of avx512vnni of codes with a scale
// for each 32, finite and below 2^100; the same bits. They make the panel's codes signed.
ht_tile_fn ht_columns_amx, ht_columns_min_amx;
// Streams of codes (avx512vnni_one.c) and of F16 (avx512_float_one.c) that ask by address for one
// token; more go to avx512vnni's.
ht_stream_fn ht_one_q4_0, ht_one_q4_1, ht_one_q5_0, ht_one_q5_1, ht_one_q8_0, ht_one_q2_k;
ht_stream_fn ht_one_q3_k, ht_one_q4_k, ht_one_q5_k, ht_one_q6_k, ht_one_iq4_nl, ht_one_iq4_xs;
ht_stream_fn ht_one_tq2_0, ht_one_mxfp4, ht_one_f16;
// BF16 by tdpbf16ps, panels of ht_pack_bf16_pairs; bits of their own.
ht_tile_fn ht_tile_bf16_amx;
ht_stream_fn ht_stream_bf16_amx;
// Tokens that the stream takes.
#define HT_STREAM_BF16_AMX 16

#endif
