// SPDX-License-Identifier: MIT
// Products of codes by vpdpbusd on 512 bits.
#ifndef HT_LINEAR_X86_VNNI_AVX512_H
#define HT_LINEAR_X86_VNNI_AVX512_H

#include "backend/cpu/linear/x86/vec_avx512.h"

INLINE vi dot4(vi acc, vi code, vi q) {
    return (vi)_mm512_dpbusd_epi32((__m512i)acc, (__m512i)code, (__m512i)q);
}
#define dot4_small dot4

#endif
