// SPDX-License-Identifier: MIT
// The f32 kernels of AVX-512: 32 rows x 12 tokens. No state; any thread.
#include "backend/cpu/linear/x86/float.h"
#include "backend/cpu/linear/x86/vec_avx512.h"

#define TILE_VECTORS  2
#define TILE_TOKENS   12
#define STREAM_TOKENS 4
#define LEVEL         avx512

#include "backend/cpu/linear/float.h"
