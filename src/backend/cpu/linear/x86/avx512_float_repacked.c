// SPDX-License-Identifier: MIT
// F16 and BF16 that were repacked (linear.h), multiplied as f32, for the levels with AVX-512 and
// VNNI. No state; any thread.
#define ASK_PAGES 1
#define REPACKED

#include "backend/cpu/linear/x86/repacked.h"
#include "backend/cpu/linear/x86/vec_avx512.h"

#define MOST    8
#define NAME(x) ht_repacked_##x

// The compiler would load x once for both parts, which costs Zen 4 a third.
INLINE vf fma_at(vf c, const void *x, vf y) {
    __asm__("vfmadd231ps %2%{1to16%}, %1, %0" : "+v"(y) : "v"(c), "m"(*(const float *)x));
    return y;
}

#include "backend/cpu/linear/x86/float_columns.h"
