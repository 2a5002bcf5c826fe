// SPDX-License-Identifier: MIT
// The kernels of the level avx2vnni for repacked weights in AVX-512's encoding (kern_levels.h).
#define HT_AVX2VNNI_REPACKED(x) ht_avx2vnni_evex_repacked_##x

#include "backend/cpu/linear/x86/avx2vnni_repacked.c"
