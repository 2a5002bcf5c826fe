// SPDX-License-Identifier: MIT
// The ceiling of level avx2vnni beside those of avx2: codes by AVX-VNNI's vpdpbusd. No state; any
// thread.
#include <immintrin.h>

#include "backend/cpu/peak.h"
#include "backend/cpu/vec_unroll.h"

HT_PEAK_LOOP(int8_avx2vnni, __m256i, _mm256_setzero_si256(), __m256i, _mm256_set1_epi8(3), "x",
             _mm256_dpbusd_avx_epi32)

void ht_peak_init_avx2vnni(struct ht_peak_kernels *k) {
    k->int8 = int8_avx2vnni;
    k->int8_macs = 32 * HT_PEAK_SUMS;
}
