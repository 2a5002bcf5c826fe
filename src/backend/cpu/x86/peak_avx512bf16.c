// SPDX-License-Identifier: MIT
// The ceiling of level avx512bf16 beside those of avx512vnni: bf16 by vdpbf16ps. No state; any
// thread.
#define HT_PEAK_SUMS 16 // of 32 registers

#include <immintrin.h>

#include "backend/cpu/peak.h"
#include "backend/cpu/vec_unroll.h"

HT_PEAK_LOOP(bf16_pairs, __m512, _mm512_setzero_ps(), __m512bh,
             (__m512bh)_mm512_set1_epi16(0x3f80) /* 1 */, "v", _mm512_dpbf16_ps)

void ht_peak_init_avx512bf16(struct ht_peak_kernels *k) {
    k->bf16 = bf16_pairs;
    k->bf16_macs = 32 * HT_PEAK_SUMS;
}
