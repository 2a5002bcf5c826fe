// SPDX-License-Identifier: MIT
// The levels that tests/kern runs: those of features.h, and behind them what only tests have: the
// kernels of avx2vnni in AVX-512's encoding of vpdpbusd, which more machines can run, and all
// tables of avx2, avx512vnni and avx512bf16, of which a machine takes one each. With
// KERN_AMX_EMULATED it is scalar and amx alone, over the tiles of amx_emulated.c.
#ifndef KERN_LEVELS_H
#define KERN_LEVELS_H

#include "backend/cpu/features.h"
#include "backend/cpu/linear/kernels.h"

#if defined(__x86_64__) && !defined(KERN_AMX_EMULATED)
enum {
    KERN_AVX2_OTHER = HT_CPU_N_LEVELS,
    KERN_AVX2VNNI_EVEX,
    KERN_AVX512VNNI_PLAIN,
    KERN_AVX512BF16_NARROW,
    KERN_AVX512BF16_WIDE,
    KERN_N_LEVELS
};
extern const struct ht_linear_kernels ht_linear_avx2vnni_evex;
#else
enum { KERN_N_LEVELS = HT_CPU_N_LEVELS };
#endif

// A level of which the machine must have the features, the name, and the kernels.
struct kern_level {
    enum ht_cpu_level needs;
    const char *name;
    const struct ht_linear_kernels *kernels;
};

static inline struct kern_level kern_level_of(int level) {
#if defined(__x86_64__) && !defined(KERN_AMX_EMULATED)
    switch (level) {
    case KERN_AVX2_OTHER:
        return (struct kern_level){HT_CPU_AVX2, "avx2_other",
                                   ht_linear_kernels_get(HT_CPU_AVX2) == &ht_linear_avx2
                                       ? &ht_linear_avx2_amd
                                       : &ht_linear_avx2};
    case KERN_AVX2VNNI_EVEX:
        return (struct kern_level){HT_CPU_AVX512VNNI, "avx2vnni_evex", &ht_linear_avx2vnni_evex};
    case KERN_AVX512VNNI_PLAIN:
        return (struct kern_level){HT_CPU_AVX512VNNI, "avx512vnni_plain", &ht_linear_avx512vnni};
    case KERN_AVX512BF16_NARROW:
        return (struct kern_level){HT_CPU_AVX512BF16, "avx512bf16_narrow", &ht_linear_avx512bf16};
    case KERN_AVX512BF16_WIDE:
        return (struct kern_level){HT_CPU_AVX512BF16, "avx512bf16_wide",
                                   &ht_linear_avx512bf16_wide};
    default: break;
    }
#endif
    enum ht_cpu_level l = (enum ht_cpu_level)level;
    return (struct kern_level){l, ht_cpu_level_name(l), ht_linear_kernels_get(level)};
}

static inline bool kern_level_usable(int level) {
#ifdef KERN_AMX_EMULATED
    if (level == HT_CPU_AMX) return ht_cpu_level_usable(HT_CPU_AVX512BF16); // for all but its tiles
    if (level != HT_CPU_SCALAR) return false;
#endif
    return ht_cpu_level_usable(kern_level_of(level).needs);
}

static inline const char *kern_level_name(int level) {
    return kern_level_of(level).name;
}

static inline const struct ht_linear_kernels *kern_level_get(int level) {
    return kern_level_of(level).kernels;
}

#endif
