// SPDX-License-Identifier: MIT
// The kernels of the level avx2vnni in AVX-512's encoding (kern_levels.h).
#define ht_linear_avx2vnni      ht_linear_avx2vnni_evex
#define HT_AVX2VNNI_REPACKED(x) ht_avx2vnni_evex_repacked_##x
#include "backend/cpu/linear/kernels.h"

extern const struct ht_linear_kernels ht_linear_avx2vnni_evex;

#include "backend/cpu/linear/x86/avx2vnni.c"
