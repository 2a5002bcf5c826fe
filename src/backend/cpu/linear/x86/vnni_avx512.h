// SPDX-License-Identifier: MIT
// Products of codes by vpdpbusd on 512 bits.
#ifndef HT_LINEAR_X86_VNNI_AVX512_H
#define HT_LINEAR_X86_VNNI_AVX512_H

#include "backend/cpu/linear/x86/vec_avx512.h"

INLINE vi dot4(vi acc, vi code, vi q) {
    return (vi)_mm512_dpbusd_epi32((__m512i)acc, (__m512i)code, (__m512i)q);
}
#define dot4_small dot4

// The broadcast is the multiplication's own operand, which gcc 12 does not find.
INLINE vi dot4_at(vi acc, vi code, const int8_t *q) {
    __asm__("vpdpbusd %2%{1to16%}, %1, %0"
            : "+v"(acc)
            : "v"(code), "m"(*(const int8_t(*)[4])(const void *)q));
    return acc;
}

#endif
