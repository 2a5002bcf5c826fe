// SPDX-License-Identifier: MIT
// The vector kernels of a CPU level: the scalar table first, then each level overrides what it does
// better, in one chain of early returns. No state; any thread.
#include "backend/cpu/vec.h"

void ht_vec_kernels_init(struct ht_vec_kernels *k, enum ht_cpu_level level) {
    ht_vec_init_scalar(k);
    if (level == HT_CPU_SCALAR) return;
#if defined(__x86_64__)
    ht_vec_init_avx2(k);
    if (level == HT_CPU_AVX2 || level == HT_CPU_AVX2VNNI) return;
    ht_vec_init_avx512(k);
    if (level >= HT_CPU_AVX512VNNI) ht_vec_init_avx512vnni(k);
#elif defined(__aarch64__)
    ht_vec_init_neon(k);
#endif
}
