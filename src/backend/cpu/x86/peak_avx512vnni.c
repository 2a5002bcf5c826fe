// SPDX-License-Identifier: MIT
// The ceilings of level avx512vnni beside those of avx512: codes by vpdpbusd, i16 by
// vpdpwssd. No state; any thread.
#define HT_PEAK_SUMS 16 // of 32 registers

#include <immintrin.h>

#include "backend/cpu/peak.h"
#include "backend/cpu/vec_unroll.h"

HT_PEAK_LOOP(int8_vnni, __m512i, _mm512_setzero_si512(), __m512i, _mm512_set1_epi8(3), "v",
             _mm512_dpbusd_epi32)
HT_PEAK_LOOP(i16_vnni, __m512i, _mm512_setzero_si512(), __m512i, _mm512_set1_epi8(3), "v",
             _mm512_dpwssd_epi32)

void ht_peak_init_avx512vnni(struct ht_peak_kernels *k) {
    k->int8 = int8_vnni;
    k->int8_macs = 64 * HT_PEAK_SUMS;
    k->i16 = i16_vnni;
    k->i16_macs = 32 * HT_PEAK_SUMS;
}
