// SPDX-License-Identifier: MIT
// The ceilings of level avx512vnni beside those of avx512: codes by vpdpbusd, bf16 by vdpbf16ps. No
// state; any thread.
#include <immintrin.h>

#include "backend/cpu/peak.h"
#include "backend/cpu/vec_unroll.h"

static void int8_vnni(uint64_t n) {
    __m512i sum[HT_PEAK_SUMS], x = _mm512_set1_epi8(3), y = _mm512_set1_epi8(5);
    UNROLL
    for (int i = 0; i < HT_PEAK_SUMS; i++) {
        sum[i] = _mm512_setzero_si512();
        __asm__ volatile("" : "+v"(sum[i])); // nothing that another sum might be
    }
    for (; n > 0; n--) {
        UNROLL
        for (int i = 0; i < HT_PEAK_SUMS; i++) sum[i] = _mm512_dpbusd_epi32(sum[i], x, y);
        __asm__ volatile("" : "+v"(x));
    }
    UNROLL
    for (int i = 0; i < HT_PEAK_SUMS; i++) __asm__ volatile("" ::"v"(sum[i]));
}

static void bf16_vnni(uint64_t n) {
    __m512 sum[HT_PEAK_SUMS];
    __m512bh x = (__m512bh)_mm512_set1_epi16(0x3f80), y = x; // 1
    UNROLL
    for (int i = 0; i < HT_PEAK_SUMS; i++) {
        sum[i] = _mm512_setzero_ps();
        __asm__ volatile("" : "+v"(sum[i])); // nothing that another sum might be
    }
    for (; n > 0; n--) {
        UNROLL
        for (int i = 0; i < HT_PEAK_SUMS; i++) sum[i] = _mm512_dpbf16_ps(sum[i], x, y);
        __asm__ volatile("" : "+v"(x));
    }
    UNROLL
    for (int i = 0; i < HT_PEAK_SUMS; i++) __asm__ volatile("" ::"v"(sum[i]));
}

void ht_peak_init_avx512vnni(struct ht_peak_kernels *k) {
    k->int8 = int8_vnni;
    k->int8_lanes = 64;
    k->bf16 = bf16_vnni;
    k->bf16_lanes = 32;
}
