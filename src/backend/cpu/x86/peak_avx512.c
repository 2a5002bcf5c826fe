// SPDX-License-Identifier: MIT
// The ceilings of level avx512: as avx2's, on registers of 512 bits. No state; any thread.
#define HT_PEAK_SUMS 16 // of 32 registers

#include <immintrin.h>

#include "backend/cpu/peak.h"
#include "backend/cpu/vec_unroll.h"

static INLINE __m512i add_codes(__m512i sum, __m512i x, __m512i y) {
    __m512i pairs = _mm512_maddubs_epi16(x, y);
    return _mm512_add_epi32(sum, _mm512_madd_epi16(pairs, _mm512_set1_epi16(1)));
}
static INLINE __m512i add_pairs(__m512i sum, __m512i x, __m512i y) {
    return _mm512_add_epi32(sum, _mm512_madd_epi16(x, y));
}
static INLINE __m512 add_floats(__m512 sum, __m512 x, __m512 y) {
    return _mm512_fmadd_ps(x, y, sum);
}

HT_PEAK_LOOP(int8_avx512, __m512i, _mm512_setzero_si512(), __m512i, _mm512_set1_epi8(3), "v",
             add_codes)
HT_PEAK_LOOP(i16_avx512, __m512i, _mm512_setzero_si512(), __m512i, _mm512_set1_epi8(3), "v",
             add_pairs)
HT_PEAK_LOOP(f32_avx512, __m512, _mm512_setzero_ps(), __m512, _mm512_set1_ps(1.0f), "v", add_floats)

static void read_avx512(const void *p, size_t n_bytes) {
    const __m512i *v = p;
    __m512i sum[4];
    UNROLL
    for (int j = 0; j < 4; j++) sum[j] = _mm512_setzero_si512();
    for (size_t i = 0; i < n_bytes / sizeof *v; i += 4) {
        UNROLL
        for (size_t j = 0; j < 4; j++) sum[j] = _mm512_xor_si512(sum[j], v[i + j]);
    }
    UNROLL
    for (int j = 0; j < 4; j++) __asm__ volatile("" ::"v"(sum[j]));
}

void ht_peak_init_avx512(struct ht_peak_kernels *k) {
    k->int8 = int8_avx512;
    k->int8_macs = 64 * HT_PEAK_SUMS;
    k->i16 = i16_avx512;
    k->i16_macs = 32 * HT_PEAK_SUMS;
    k->f32 = f32_avx512;
    k->f32_macs = 16 * HT_PEAK_SUMS;
    k->read = read_avx512;
}
