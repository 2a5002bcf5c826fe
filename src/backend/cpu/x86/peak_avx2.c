// SPDX-License-Identifier: MIT
// The ceilings of level avx2: f32 by FMA; codes as the linear kernels multiply them, pairs of bytes
// added in 16 bits, pairs of those in 32. No state; any thread.
#include <immintrin.h>

#include "backend/cpu/peak.h"
#include "backend/cpu/vec_unroll.h"

static INLINE __m256i add_codes(__m256i sum, __m256i x, __m256i y) {
    __m256i pairs = _mm256_maddubs_epi16(x, y);
    return _mm256_add_epi32(sum, _mm256_madd_epi16(pairs, _mm256_set1_epi16(1)));
}
static INLINE __m256i add_pairs(__m256i sum, __m256i x, __m256i y) {
    return _mm256_add_epi32(sum, _mm256_madd_epi16(x, y));
}
static INLINE __m256 add_floats(__m256 sum, __m256 x, __m256 y) {
    return _mm256_fmadd_ps(x, y, sum);
}

HT_PEAK_LOOP(int8_avx2, __m256i, _mm256_setzero_si256(), __m256i, _mm256_set1_epi8(3), "x",
             add_codes)
HT_PEAK_LOOP(i16_avx2, __m256i, _mm256_setzero_si256(), __m256i, _mm256_set1_epi8(3), "x",
             add_pairs)
HT_PEAK_LOOP(f32_avx2, __m256, _mm256_setzero_ps(), __m256, _mm256_set1_ps(1.0f), "x", add_floats)

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
    k->int8_macs = 32 * HT_PEAK_SUMS;
    k->i16 = i16_avx2;
    k->i16_macs = 16 * HT_PEAK_SUMS;
    k->f32 = f32_avx2;
    k->f32_macs = 8 * HT_PEAK_SUMS;
    k->read = read_avx2;
}
