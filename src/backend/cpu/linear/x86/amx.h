// SPDX-License-Identifier: MIT
// Kernels by AMX, whose registers are tiles of up to 16 rows x 64 bytes: the level amx takes them
// and has the rest of avx512vnni (avx512vnni.c).
#ifndef HT_LINEAR_X86_AMX_H
#define HT_LINEAR_X86_AMX_H

#include "backend/cpu/linear/kernels.h"

// Tokens [0, n_tokens / 16 * 16), at least 16, times a panel of avx512vnni of codes with a scale
// for each 32; the same bits. They make the panel's codes signed.
ht_tile_fn ht_columns_amx, ht_columns_min_amx;
// BF16 by tdpbf16ps, panels of ht_pack_bf16_pairs; bits of their own.
ht_tile_fn ht_tile_bf16_amx;
ht_stream_fn ht_stream_bf16_amx;
// Tokens that the stream takes.
#define HT_STREAM_BF16_AMX 16

#endif
