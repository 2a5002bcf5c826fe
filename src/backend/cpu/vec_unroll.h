// SPDX-License-Identifier: MIT
// How to make the compiler unroll loops over register arrays, so that the arrays stay registers.
#ifndef HT_CPU_VEC_UNROLL_H
#define HT_CPU_VEC_UNROLL_H

#define INLINE inline __attribute__((always_inline))
#if defined(__clang__)
#define UNROLL _Pragma("clang loop unroll(full)")
#else
#define UNROLL _Pragma("GCC unroll 16")
#endif

#endif
