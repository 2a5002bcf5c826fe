// SPDX-License-Identifier: MIT
// F16 and BF16 that were repacked (linear.h), for the levels with AVX2. No state; any thread.
#define REPACKED

#include "backend/cpu/linear/x86/avx2_repacked.h"
#include "backend/cpu/linear/x86/vec_avx2.h"

#define MOST 3
#define NAME HT_AVX2_REPACKED

INLINE vf fma_at(vf c, const void *x, vf y) {
    float a;
    __builtin_memcpy(&a, x, sizeof a);
    return fma_add(c, splat(a), y);
}

#include "backend/cpu/linear/x86/float_columns.h"
