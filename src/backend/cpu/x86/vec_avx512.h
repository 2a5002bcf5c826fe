// SPDX-License-Identifier: MIT
// The lanes of vec_lanes.h and vec_i16.h for AVX-512: a zmm holds 16 of them. For the files of the
// AVX-512 levels alone, which define V_ACCS and are compiled with their flags.
#ifndef HT_CPU_VEC_AVX512_H
#define HT_CPU_VEC_AVX512_H

#include <immintrin.h>

#include "backend/cpu/vec.h"
#include "backend/cpu/vec_tile.h"

struct v16 {
    __m512 v;
};

static INLINE struct v16 wrap(__m512 v) {
    return (struct v16){v};
}

static INLINE __mmask16 tail_mask(uint32_t n) {
    return (__mmask16)((1u << n) - 1);
}

static INLINE struct v16 v_set1(float x) {
    return wrap(_mm512_set1_ps(x));
}
static INLINE struct v16 v_iota(void) {
    return wrap(_mm512_setr_ps(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15));
}
static INLINE struct v16 v_load(const float *x) {
    return wrap(_mm512_loadu_ps(x));
}
static INLINE void v_store(float *y, struct v16 a) {
    _mm512_storeu_ps(y, a.v);
}
// Whole vectors without a mask: what a store with one wrote is not there for a load before it has
// reached the cache.
static INLINE struct v16 v_load_n(const float *x, uint32_t n) {
    if (n >= 16) return v_load(x);
    return wrap(_mm512_maskz_loadu_ps(tail_mask(n), x));
}
static INLINE void v_store_n(float *y, struct v16 a, uint32_t n) {
    if (n >= 16)
        v_store(y, a);
    else
        _mm512_mask_storeu_ps(y, tail_mask(n), a.v);
}
static INLINE struct v16 v_load_f16(const uint16_t *h) {
    return wrap(_mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)(const void *)h)));
}
static INLINE void v_store_f16(uint16_t *h, struct v16 a) {
    __m256i c = _mm512_cvtps_ph(a.v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
    _mm256_storeu_si256((__m256i *)(void *)h, c);
}
static INLINE struct v16 v_load_bf16(const uint16_t *h) {
    __m512i v = _mm512_cvtepu16_epi32(_mm256_loadu_si256((const __m256i *)(const void *)h));
    return wrap(_mm512_castsi512_ps(_mm512_slli_epi32(v, 16)));
}
static INLINE void v_store_bf16(uint16_t *h, struct v16 a) {
    __m512i u = _mm512_castps_si512(a.v), odd = _mm512_srli_epi32(_mm512_slli_epi32(u, 15), 31);
    __m512i r = _mm512_add_epi32(_mm512_add_epi32(u, odd), _mm512_set1_epi32(0x7fff));
    __mmask16 nan = _mm512_cmp_ps_mask(a.v, a.v, _CMP_UNORD_Q);
    r = _mm512_mask_or_epi32(r, nan, u, _mm512_set1_epi32(0x400000));
    _mm256_storeu_si256((__m256i *)(void *)h, _mm512_cvtepi32_epi16(_mm512_srli_epi32(r, 16)));
}
static INLINE struct v16 v_load_i8(const int8_t *q) {
    __m128i v = _mm_loadu_si128((const __m128i *)(const void *)q);
    return wrap(_mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(v)));
}
static INLINE void v_store_i8(int8_t *q, struct v16 a) {
    _mm_storeu_si128((__m128i *)(void *)q, _mm512_cvtepi32_epi8(_mm512_cvtps_epi32(a.v)));
}

static INLINE struct v16 v_add(struct v16 a, struct v16 b) {
    return wrap(_mm512_add_ps(a.v, b.v));
}
static INLINE struct v16 v_sub(struct v16 a, struct v16 b) {
    return wrap(_mm512_sub_ps(a.v, b.v));
}
static INLINE struct v16 v_mul(struct v16 a, struct v16 b) {
    return wrap(_mm512_mul_ps(a.v, b.v));
}
static INLINE struct v16 v_sqrt(struct v16 a) {
    return wrap(_mm512_sqrt_ps(a.v));
}
static INLINE struct v16 v_div(struct v16 a, struct v16 b) {
    return wrap(_mm512_div_ps(a.v, b.v));
}
static INLINE struct v16 v_fma(struct v16 a, struct v16 b, struct v16 c) {
    return wrap(_mm512_fmadd_ps(a.v, b.v, c.v));
}
static INLINE struct v16 v_fnma(struct v16 a, struct v16 b, struct v16 c) {
    return wrap(_mm512_fnmadd_ps(a.v, b.v, c.v));
}
static INLINE struct v16 v_fms(struct v16 a, struct v16 b, struct v16 c) {
    return wrap(_mm512_fmsub_ps(a.v, b.v, c.v));
}
static INLINE struct v16 v_max(struct v16 a, struct v16 b) {
    return wrap(_mm512_max_ps(a.v, b.v));
}
static INLINE struct v16 v_min(struct v16 a, struct v16 b) {
    return wrap(_mm512_min_ps(a.v, b.v));
}
static INLINE struct v16 v_select_lt(struct v16 a, struct v16 b, struct v16 yes, struct v16 no) {
    return wrap(_mm512_mask_mov_ps(no.v, _mm512_cmp_ps_mask(a.v, b.v, _CMP_LT_OQ), yes.v));
}
static INLINE struct v16 v_select_le(struct v16 a, struct v16 b, struct v16 yes, struct v16 no) {
    return wrap(_mm512_mask_mov_ps(no.v, _mm512_cmp_ps_mask(a.v, b.v, _CMP_LE_OQ), yes.v));
}
static INLINE struct v16 v_rint(struct v16 a) {
    return wrap(_mm512_roundscale_ps(a.v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
}
static INLINE struct v16 v_scale2(struct v16 a, struct v16 n) {
    return wrap(_mm512_scalef_ps(a.v, n.v));
}
static INLINE struct v16 v_scale2_above(struct v16 a, struct v16 n, struct v16 x,
                                        struct v16 limit) {
    return wrap(_mm512_maskz_scalef_ps(_mm512_cmp_ps_mask(x.v, limit.v, _CMP_NLE_UQ), a.v, n.v));
}
static INLINE struct v16 v_neg(struct v16 a) {
    return wrap(_mm512_xor_ps(a.v, _mm512_set1_ps(-0.0f)));
}
static INLINE struct v16 v_abs(struct v16 a) {
    return wrap(_mm512_andnot_ps(_mm512_set1_ps(-0.0f), a.v));
}
static INLINE struct v16 v_copysign(struct v16 to, struct v16 from) {
    __m512 sign = _mm512_and_ps(_mm512_set1_ps(-0.0f), from.v);
    return wrap(_mm512_or_ps(v_abs(to).v, sign));
}
static INLINE struct v16 v_swap(struct v16 a) {
    return wrap(_mm512_permute_ps(a.v, 0xb1));
}
static INLINE float v_sum(struct v16 a) {
    __m256 h = _mm256_add_ps(_mm512_castps512_ps256(a.v), _mm512_extractf32x8_ps(a.v, 1));
    __m128 q = _mm_add_ps(_mm256_castps256_ps128(h), _mm256_extractf128_ps(h, 1));
    q = _mm_add_ps(q, _mm_movehl_ps(q, q));
    return _mm_cvtss_f32(_mm_add_ss(q, _mm_movehdup_ps(q)));
}
static INLINE float v_most(struct v16 a) {
    __m256 h = _mm256_max_ps(_mm512_extractf32x8_ps(a.v, 1), _mm512_castps512_ps256(a.v));
    __m128 q = _mm_max_ps(_mm256_extractf128_ps(h, 1), _mm256_castps256_ps128(h));
    q = _mm_max_ps(_mm_movehl_ps(q, q), q);
    return _mm_cvtss_f32(_mm_max_ss(_mm_movehdup_ps(q), q));
}

// Reductions of all rows at once: four steps, each of which halves the lanes of its rows and puts
// two of them (then what is left of four, eight, sixteen) into one vector. Rows are taken in such
// an order that the lanes come out in theirs; where there are fewer, the first stands in.
static INLINE __m512 load_row(const float (*x)[HT_LANES], uint32_t r, uint32_t n) {
    return _mm512_loadu_ps(x[r < n ? r : 0]);
}
#define REDUCE_ROWS(name, OP)                                                                      \
    static INLINE struct v16 name(const float(*x)[HT_LANES], uint32_t n) {                         \
        __m512 a[8], b[4], c[2];                                                                   \
        UNROLL for (uint32_t i = 0; i < 8; i++) {                                                  \
            uint32_t r = i / 2 + 8 * (i % 2);                                                      \
            __m512 p = load_row(x, r, n), q = load_row(x, r + 4, n);                               \
            a[i] = OP(_mm512_shuffle_f32x4(p, q, 0x44), _mm512_shuffle_f32x4(p, q, 0xee));         \
        }                                                                                          \
        UNROLL for (int i = 0; i < 4; i++) b[i] =                                                  \
            OP(_mm512_shuffle_f32x4(a[2 * i], a[2 * i + 1], 0x88),                                 \
               _mm512_shuffle_f32x4(a[2 * i], a[2 * i + 1], 0xdd));                                \
        UNROLL for (int i = 0; i < 2; i++) {                                                       \
            __m512d p = _mm512_castps_pd(b[2 * i]), q = _mm512_castps_pd(b[2 * i + 1]);            \
            c[i] = OP(_mm512_castpd_ps(_mm512_unpacklo_pd(p, q)),                                  \
                      _mm512_castpd_ps(_mm512_unpackhi_pd(p, q)));                                 \
        }                                                                                          \
        return wrap(OP(_mm512_shuffle_ps(c[0], c[1], 0x88), _mm512_shuffle_ps(c[0], c[1], 0xdd))); \
    }
#define ADD_LOW(low, high)  _mm512_add_ps(low, high)
#define MAX_HIGH(low, high) _mm512_max_ps(high, low)
REDUCE_ROWS(v_sums, ADD_LOW)
REDUCE_ROWS(v_mosts, MAX_HIGH)

// ---- 16-bit numbers (vec_i16.h)

static INLINE void v_store_i16(int16_t *y, struct v16 a) {
    __m256i c = _mm512_cvtsepi32_epi16(_mm512_cvtps_epi32(a.v));
    _mm256_storeu_si256((__m256i *)(void *)y, c);
}

static INLINE void v_store_i16x2(int16_t *y, struct v16 a, struct v16 b) {
    __m512i c = _mm512_packs_epi32(_mm512_cvtps_epi32(a.v), _mm512_cvtps_epi32(b.v));
    _mm512_storeu_si512(y, _mm512_permutexvar_epi64(_mm512_setr_epi64(0, 2, 4, 6, 1, 3, 5, 7), c));
}
static INLINE struct v16 v_mul_above(struct v16 a, struct v16 b) {
    __mmask16 above = _mm512_cmp_ps_mask(a.v, _mm512_setzero_ps(), _CMP_GT_OQ);
    return wrap(_mm512_maskz_mul_ps(above, a.v, b.v));
}
static INLINE void w_put(int16_t *to, const int16_t *x, uint32_t half) {
    __m512i v = _mm512_cvtepu16_epi32(_mm256_loadu_si256((const __m256i *)(const void *)x));
    v = _mm512_sllv_epi32(v, _mm512_set1_epi32(16 * (int)half));
    _mm512_mask_storeu_epi16(to, 0x55555555u << half, v);
}

static INLINE void w_zip(int16_t *to, const int16_t *a, const int16_t *b) {
    __m512i x = _mm512_cvtepu16_epi32(_mm256_loadu_si256((const __m256i *)(const void *)a));
    __m512i y = _mm512_cvtepu16_epi32(_mm256_loadu_si256((const __m256i *)(const void *)b));
    _mm512_storeu_si512(to, _mm512_or_si512(x, _mm512_slli_epi32(y, 16)));
}

struct w16 {
    __m512i v; // 16 sums
};
struct pairs {
    __m512i v; // of 16 positions or elements
};

static INLINE struct w16 w_zero(void) {
    return (struct w16){_mm512_setzero_si512()};
}
static INLINE struct pairs w_load(const int16_t *x) {
    return (struct pairs){_mm512_loadu_si512(x)};
}
static INLINE struct pairs w_set1(const int16_t *x) {
    int32_t pair;
    __builtin_memcpy(&pair, x, sizeof pair);
    return (struct pairs){_mm512_set1_epi32(pair)};
}
static INLINE struct w16 w_dot(struct w16 sum, struct pairs a, struct pairs x) {
#ifdef __AVX512VNNI__
    sum.v = _mm512_dpwssd_epi32(sum.v, a.v, x.v);
#else
    sum.v = _mm512_add_epi32(sum.v, _mm512_madd_epi16(a.v, x.v));
#endif
    __asm__("" : "+v"(sum.v)); // gcc would change the order and run out of registers
    return sum;
}
static INLINE struct v16 w_float(struct w16 sum) {
    return wrap(_mm512_cvtepi32_ps(sum.v));
}

#endif
