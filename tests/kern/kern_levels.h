// SPDX-License-Identifier: MIT
// The levels that tests/kern runs: those of features.h, and behind them what only tests have: the
// kernels of avx2vnni in AVX-512's encoding of vpdpbusd, which more machines can run.
#ifndef KERN_LEVELS_H
#define KERN_LEVELS_H

#include "backend/cpu/features.h"
#include "backend/cpu/linear/kernels.h"

#if defined(__x86_64__)
enum { KERN_AVX2VNNI_EVEX = HT_CPU_N_LEVELS, KERN_N_LEVELS };
extern const struct ht_linear_kernels ht_linear_avx2vnni_evex;
#else
enum { KERN_AVX2VNNI_EVEX = -1, KERN_N_LEVELS = HT_CPU_N_LEVELS };
#endif

static inline bool kern_level_usable(int level) {
    if (level == KERN_AVX2VNNI_EVEX) level = HT_CPU_AVX512VNNI;
    return ht_cpu_level_usable((enum ht_cpu_level)level);
}

static inline const char *kern_level_name(int level) {
    return level == KERN_AVX2VNNI_EVEX ? "avx2vnni_evex"
                                       : ht_cpu_level_name((enum ht_cpu_level)level);
}

static inline const struct ht_linear_kernels *kern_level_get(int level) {
#if defined(__x86_64__)
    if (level == KERN_AVX2VNNI_EVEX) return &ht_linear_avx2vnni_evex;
#endif
    return ht_linear_kernels_get(level);
}

#endif
