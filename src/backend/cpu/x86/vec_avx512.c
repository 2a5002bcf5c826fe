// SPDX-License-Identifier: MIT
// The vector kernels for AVX-512 (F, BW, DQ, VL). Compiled with that level's flags; called only
// where features.c found it. No state; any thread.
#define V_ROWS 32
#define V_ACCS 24
#define V_TURN 16
#define V_INIT ht_vec_init_avx512

#include "backend/cpu/x86/vec_avx512.h"

#include "backend/cpu/vec_lanes.h"
