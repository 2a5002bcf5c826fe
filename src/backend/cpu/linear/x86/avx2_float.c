// SPDX-License-Identifier: MIT
// The f32 kernels of AVX2: 16 rows x 6 tokens. No state; any thread.
#include "backend/cpu/linear/x86/float.h"
#include "backend/cpu/linear/x86/vec_avx2.h"

#define TILE_VECTORS  2
#define TILE_TOKENS   6
#define STREAM_TOKENS 2
#define CHAINS        2
#define LEVEL         avx2

#include "backend/cpu/linear/float.h"
