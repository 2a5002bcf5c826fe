// SPDX-License-Identifier: MIT
// The ceilings of level avx2: f32 by FMA; codes as the linear kernels multiply them, pairs of bytes
// added in 16 bits, pairs of those in 32. No state; any thread.
#include <immintrin.h>

#include "backend/cpu/peak.h"
#include "backend/cpu/vec_unroll.h"

static void int8_avx2(uint64_t n) {
    __m256i sum[HT_PEAK_SUMS], x = _mm256_set1_epi8(3), y = _mm256_set1_epi8(5);
    __m256i ones = _mm256_set1_epi16(1);
    UNROLL
    for (int i = 0; i < HT_PEAK_SUMS; i++) {
        sum[i] = _mm256_setzero_si256();
        __asm__ volatile("" : "+x"(sum[i])); // nothing that another sum might be
    }
    for (; n > 0; n--) {
        UNROLL
        for (int i = 0; i < HT_PEAK_SUMS; i++) {
            __asm__ volatile("" : "+x"(x)); // anything, as far as the compiler knows
            __m256i pairs = _mm256_maddubs_epi16(x, y);
            sum[i] = _mm256_add_epi32(sum[i], _mm256_madd_epi16(pairs, ones));
        }
    }
    UNROLL
    for (int i = 0; i < HT_PEAK_SUMS; i++) __asm__ volatile("" ::"x"(sum[i]));
}

static void f32_avx2(uint64_t n) {
    __m256 sum[HT_PEAK_SUMS], x = _mm256_set1_ps(1.0f), y = _mm256_set1_ps(1.0f);
    UNROLL
    for (int i = 0; i < HT_PEAK_SUMS; i++) {
        sum[i] = _mm256_setzero_ps();
        __asm__ volatile("" : "+x"(sum[i])); // nothing that another sum might be
    }
    for (; n > 0; n--) {
        UNROLL
        for (int i = 0; i < HT_PEAK_SUMS; i++) sum[i] = _mm256_fmadd_ps(x, y, sum[i]);
        __asm__ volatile("" : "+x"(x));
    }
    UNROLL
    for (int i = 0; i < HT_PEAK_SUMS; i++) __asm__ volatile("" ::"x"(sum[i]));
}

static void read_avx2(const void *p, size_t n_bytes) {
    const __m256i *v = p;
    __m256i sum[8];
    UNROLL
    for (int j = 0; j < 8; j++) sum[j] = _mm256_setzero_si256();
    for (size_t i = 0; i < n_bytes / sizeof *v; i += 8) {
        UNROLL
        for (size_t j = 0; j < 8; j++) sum[j] = _mm256_xor_si256(sum[j], v[i + j]);
    }
    UNROLL
    for (int j = 0; j < 8; j++) __asm__ volatile("" ::"x"(sum[j]));
}

void ht_peak_init_avx2(struct ht_peak_kernels *k) {
    k->int8 = int8_avx2;
    k->int8_lanes = 32;
    k->f32 = f32_avx2;
    k->f32_lanes = 8;
    k->read = read_avx2;
}
