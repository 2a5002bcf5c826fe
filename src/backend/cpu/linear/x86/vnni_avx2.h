// SPDX-License-Identifier: MIT
// Products of codes by vpdpbusd on 256 bits, in the encoding of AVX-VNNI or, where a file is built
// without that, AVX-512's.
#ifndef HT_LINEAR_X86_VNNI_AVX2_H
#define HT_LINEAR_X86_VNNI_AVX2_H

#include "backend/cpu/linear/x86/vec_avx2.h"

#define CODES_SIGNED 0

INLINE vi dot4(vi acc, vi code, vi q) {
#if defined(__AVXVNNI__)
    acc = (vi)_mm256_dpbusd_avx_epi32((__m256i)acc, (__m256i)code, (__m256i)q);
#else
    acc = (vi)_mm256_dpbusd_epi32((__m256i)acc, (__m256i)code, (__m256i)q);
#endif
    __asm__("" : "+x"(acc)); // gcc would make a block's codes first, and keep them on the stack
    return acc;
}
#define dot4_small            dot4
#define dot4_at(acc, code, q) dot4(acc, code, broadcast4(q))

#endif
