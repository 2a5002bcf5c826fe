// SPDX-License-Identifier: MIT
// CPU levels: documented bundles of features, asked from the CPU and the OS (cpuid and xgetbv;
// getauxval on Arm).
#ifndef HT_CPU_FEATURES_H
#define HT_CPU_FEATURES_H

#include "base/status.h"

enum ht_cpu_level {
    HT_CPU_SCALAR,
    HT_CPU_AVX2,         // AVX2, FMA, F16C, BMI2
    HT_CPU_AVX2VNNI,     // + AVX-VNNI (vpdpbusd on 256 bits)
    HT_CPU_AVX512,       // AVX2 + AVX-512 F, BW, DQ, VL
    HT_CPU_AVX512VNNI,   // + VNNI
    HT_CPU_AVX512BF16,   // + BF16, VBMI
    HT_CPU_AMX,          // + AMX-TILE, AMX-INT8, AMX-BF16, which the system must allow
    HT_CPU_NEON,         // AArch64 base
    HT_CPU_NEON_DOTPROD, // + dotprod
    HT_CPU_NEON_I8MM,    // + i8mm
    HT_CPU_N_LEVELS
};

// Of this machine: the highest usable one, but where AVX-512 BF16 is Intel's and there is no AMX,
// avx512vnni, which is faster there (features.c). Where it is amx, the system has then been asked
// to allow it, for the whole process.
enum ht_cpu_level ht_cpu_best_level(void);
bool ht_cpu_level_usable(enum ht_cpu_level l); // on this machine; amx: asks the system likewise
// Whether AVX-512 runs on AMD's units of 512 bits (Zen 5), not on halves of them (Zen 4): the same
// level and the same bits, but other kernels are the fastest.
bool ht_cpu_wide_units(void);
// Whether a processor with AVX-512 VNNI has VBMI as well: AMD's, and Intel's since Ice Lake but
// Cooper Lake.
bool ht_cpu_vbmi(void);
bool ht_cpu_amd(void); // whether the processor is AMD's
// Whether it is AMD's with AVX-512, on units of either kind, which read memory alike.
bool ht_cpu_amd_512(void);
const char *ht_cpu_level_name(enum ht_cpu_level l); // "avx512vnni"
// E_ARG with the list of names for an unknown one; E_UNSUPPORTED if this machine cannot run it.
HT_MUST_CHECK enum hearth_status ht_cpu_level_parse(const char *name, enum ht_cpu_level *out,
                                                    struct hearth_error *err);

#endif
