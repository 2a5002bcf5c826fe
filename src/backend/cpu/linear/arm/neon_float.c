// SPDX-License-Identifier: MIT
// The f32 kernels of AArch64: 8 rows x 12 tokens. No state; any thread.
#include "backend/cpu/linear/arm/float.h"
#include "backend/cpu/linear/arm/vec_neon.h"

#define TILE_VECTORS  2
#define TILE_TOKENS   12
#define STREAM_TOKENS 4
#define CHAINS        2
#define LEVEL         neon

#include "backend/cpu/linear/float.h"
