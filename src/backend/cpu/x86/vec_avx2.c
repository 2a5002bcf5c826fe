// SPDX-License-Identifier: MIT
// The vector kernels for AVX2 with FMA and F16C: two ymm hold the 16 lanes. Compiled with that
// level's flags; called only where features.c found it. No state; any thread.
#include <immintrin.h>
#include <string.h>

#include "backend/cpu/vec_unroll.h"

#define V_ROWS 6
#define V_ACCS 5
#define V_TURN 4
#define V_INIT ht_vec_init_avx2

#include "backend/cpu/vec.h"

struct v16 {
    __m256 l, h; // lanes 0 to 7, 8 to 15
};

static INLINE struct v16 wrap(__m256 l, __m256 h) {
    return (struct v16){l, h};
}

static INLINE struct v16 v_set1(float x) {
    return wrap(_mm256_set1_ps(x), _mm256_set1_ps(x));
}
static INLINE struct v16 v_iota(void) {
    return wrap(_mm256_setr_ps(0, 1, 2, 3, 4, 5, 6, 7),
                _mm256_setr_ps(8, 9, 10, 11, 12, 13, 14, 15));
}
static INLINE struct v16 v_load(const float *x) {
    return wrap(_mm256_loadu_ps(x), _mm256_loadu_ps(x + 8));
}
static INLINE void v_store(float *y, struct v16 a) {
    _mm256_storeu_ps(y, a.l);
    _mm256_storeu_ps(y + 8, a.h);
}
// Ones in those of lanes i to i + 7 that are among the first n.
static INLINE __m256i first_lanes(uint32_t n, int i) {
    return _mm256_cmpgt_epi32(_mm256_set1_epi32((int)n - i),
                              _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
}
static INLINE struct v16 v_load_n(const float *x, uint32_t n) {
    if (n >= 16) return v_load(x);
    // may lie past the array, if no lane of it is wanted
    const float *high = (const float *)((uintptr_t)x + 8 * sizeof *x);
    return wrap(_mm256_maskload_ps(x, first_lanes(n, 0)),
                _mm256_maskload_ps(high, first_lanes(n, 8)));
}
static INLINE void v_store_n(float *y, struct v16 a, uint32_t n) {
    if (n >= 16) {
        v_store(y, a);
        return;
    }
    _mm256_maskstore_ps(y, first_lanes(n, 0), a.l);
    _mm256_maskstore_ps((float *)((uintptr_t)y + 8 * sizeof *y), first_lanes(n, 8), a.h);
}
static INLINE struct v16 v_load_f16(const uint16_t *h) {
    const __m128i *at = (const __m128i *)(const void *)h;
    return wrap(_mm256_cvtph_ps(_mm_loadu_si128(at)), _mm256_cvtph_ps(_mm_loadu_si128(at + 1)));
}
static INLINE void v_store_f16(uint16_t *h, struct v16 a) {
    __m128i *at = (__m128i *)(void *)h;
    _mm_storeu_si128(at, _mm256_cvtps_ph(a.l, _MM_FROUND_TO_NEAREST_INT));
    _mm_storeu_si128(at + 1, _mm256_cvtps_ph(a.h, _MM_FROUND_TO_NEAREST_INT));
}
static INLINE __m256 from_bf16(const __m128i *at) {
    __m256i v = _mm256_cvtepu16_epi32(_mm_loadu_si128(at));
    return _mm256_castsi256_ps(_mm256_slli_epi32(v, 16));
}
static INLINE struct v16 v_load_bf16(const uint16_t *h) {
    const __m128i *at = (const __m128i *)(const void *)h;
    return wrap(from_bf16(at), from_bf16(at + 1));
}
static INLINE __m256i to_bf16(__m256 a) { // in the low half of each lane
    __m256i u = _mm256_castps_si256(a), odd = _mm256_srli_epi32(_mm256_slli_epi32(u, 15), 31);
    __m256i r = _mm256_add_epi32(_mm256_add_epi32(u, odd), _mm256_set1_epi32(0x7fff));
    __m256i nan = _mm256_castps_si256(_mm256_cmp_ps(a, a, _CMP_UNORD_Q));
    r = _mm256_blendv_epi8(r, _mm256_or_si256(u, _mm256_set1_epi32(0x400000)), nan);
    return _mm256_srli_epi32(r, 16);
}
static INLINE void v_store_bf16(uint16_t *h, struct v16 a) {
    __m256i v = _mm256_packus_epi32(to_bf16(a.l), to_bf16(a.h));
    _mm256_storeu_si256((__m256i *)(void *)h, _mm256_permute4x64_epi64(v, 0xd8));
}
static INLINE __m256 from_i8(const int8_t *q) {
    __m128i v = _mm_loadl_epi64((const __m128i *)(const void *)q);
    return _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(v));
}
static INLINE struct v16 v_load_i8(const int8_t *q) {
    return wrap(from_i8(q), from_i8(q + 8));
}
static INLINE void v_store_i8(int8_t *q, struct v16 a) {
    __m256i v = _mm256_packs_epi32(_mm256_cvtps_epi32(a.l), _mm256_cvtps_epi32(a.h));
    v = _mm256_permute4x64_epi64(v, 0xd8);
    _mm_storeu_si128((__m128i *)(void *)q,
                     _mm_packs_epi16(_mm256_castsi256_si128(v), _mm256_extracti128_si256(v, 1)));
}

static INLINE struct v16 v_add(struct v16 a, struct v16 b) {
    return wrap(_mm256_add_ps(a.l, b.l), _mm256_add_ps(a.h, b.h));
}
static INLINE struct v16 v_sub(struct v16 a, struct v16 b) {
    return wrap(_mm256_sub_ps(a.l, b.l), _mm256_sub_ps(a.h, b.h));
}
static INLINE struct v16 v_mul(struct v16 a, struct v16 b) {
    return wrap(_mm256_mul_ps(a.l, b.l), _mm256_mul_ps(a.h, b.h));
}
static INLINE struct v16 v_sqrt(struct v16 a) {
    return wrap(_mm256_sqrt_ps(a.l), _mm256_sqrt_ps(a.h));
}
static INLINE struct v16 v_div(struct v16 a, struct v16 b) {
    return wrap(_mm256_div_ps(a.l, b.l), _mm256_div_ps(a.h, b.h));
}
static INLINE struct v16 v_fma(struct v16 a, struct v16 b, struct v16 c) {
    return wrap(_mm256_fmadd_ps(a.l, b.l, c.l), _mm256_fmadd_ps(a.h, b.h, c.h));
}
static INLINE struct v16 v_fnma(struct v16 a, struct v16 b, struct v16 c) {
    return wrap(_mm256_fnmadd_ps(a.l, b.l, c.l), _mm256_fnmadd_ps(a.h, b.h, c.h));
}
static INLINE struct v16 v_fms(struct v16 a, struct v16 b, struct v16 c) {
    return wrap(_mm256_fmsub_ps(a.l, b.l, c.l), _mm256_fmsub_ps(a.h, b.h, c.h));
}
static INLINE struct v16 v_max(struct v16 a, struct v16 b) {
    return wrap(_mm256_max_ps(a.l, b.l), _mm256_max_ps(a.h, b.h));
}
static INLINE struct v16 v_min(struct v16 a, struct v16 b) {
    return wrap(_mm256_min_ps(a.l, b.l), _mm256_min_ps(a.h, b.h));
}
static INLINE struct v16 v_select_lt(struct v16 a, struct v16 b, struct v16 yes, struct v16 no) {
    return wrap(_mm256_blendv_ps(no.l, yes.l, _mm256_cmp_ps(a.l, b.l, _CMP_LT_OQ)),
                _mm256_blendv_ps(no.h, yes.h, _mm256_cmp_ps(a.h, b.h, _CMP_LT_OQ)));
}
static INLINE struct v16 v_select_le(struct v16 a, struct v16 b, struct v16 yes, struct v16 no) {
    return wrap(_mm256_blendv_ps(no.l, yes.l, _mm256_cmp_ps(a.l, b.l, _CMP_LE_OQ)),
                _mm256_blendv_ps(no.h, yes.h, _mm256_cmp_ps(a.h, b.h, _CMP_LE_OQ)));
}
static INLINE struct v16 v_rint(struct v16 a) {
    return wrap(_mm256_round_ps(a.l, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC),
                _mm256_round_ps(a.h, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
}
// a * 2^(n >> 1) * 2^(n - (n >> 1)), as num.h has it.
static INLINE __m256 scale2_half(__m256 a, __m256 n) {
    __m256i i = _mm256_cvtps_epi32(n), half = _mm256_srai_epi32(i, 1),
            bias = _mm256_set1_epi32(127);
    __m256i x = _mm256_slli_epi32(_mm256_add_epi32(half, bias), 23);
    __m256i y = _mm256_slli_epi32(_mm256_add_epi32(_mm256_sub_epi32(i, half), bias), 23);
    return _mm256_mul_ps(_mm256_mul_ps(a, _mm256_castsi256_ps(x)), _mm256_castsi256_ps(y));
}
static INLINE struct v16 v_scale2(struct v16 a, struct v16 n) {
    return wrap(scale2_half(a.l, n.l), scale2_half(a.h, n.h));
}
static INLINE struct v16 v_neg(struct v16 a) {
    __m256 sign = _mm256_set1_ps(-0.0f);
    return wrap(_mm256_xor_ps(a.l, sign), _mm256_xor_ps(a.h, sign));
}
static INLINE struct v16 v_abs(struct v16 a) {
    __m256 sign = _mm256_set1_ps(-0.0f);
    return wrap(_mm256_andnot_ps(sign, a.l), _mm256_andnot_ps(sign, a.h));
}
static INLINE struct v16 v_copysign(struct v16 to, struct v16 from) {
    __m256 sign = _mm256_set1_ps(-0.0f);
    struct v16 a = v_abs(to);
    return wrap(_mm256_or_ps(a.l, _mm256_and_ps(sign, from.l)),
                _mm256_or_ps(a.h, _mm256_and_ps(sign, from.h)));
}
static INLINE struct v16 v_swap(struct v16 a) {
    return wrap(_mm256_permute_ps(a.l, 0xb1), _mm256_permute_ps(a.h, 0xb1));
}
static INLINE float v_sum(struct v16 a) {
    __m256 s = _mm256_add_ps(a.l, a.h);
    __m128 q = _mm_add_ps(_mm256_castps256_ps128(s), _mm256_extractf128_ps(s, 1));
    q = _mm_add_ps(q, _mm_movehl_ps(q, q));
    return _mm_cvtss_f32(_mm_add_ss(q, _mm_movehdup_ps(q)));
}
static INLINE float v_most(struct v16 a) {
    __m256 s = _mm256_max_ps(a.h, a.l);
    __m128 q = _mm_max_ps(_mm256_extractf128_ps(s, 1), _mm256_castps256_ps128(s));
    q = _mm_max_ps(_mm_movehl_ps(q, q), q);
    return _mm_cvtss_f32(_mm_max_ss(_mm_movehdup_ps(q), q));
}

// ---- 16-bit numbers (vec_i16.h)

static INLINE void v_store_i16(int16_t *y, struct v16 a) {
    __m256i v = _mm256_packs_epi32(_mm256_cvtps_epi32(a.l), _mm256_cvtps_epi32(a.h));
    _mm256_storeu_si256((__m256i *)(void *)y, _mm256_permute4x64_epi64(v, 0xd8));
}

static INLINE __m256 mul_above(__m256 a, __m256 b) {
    return _mm256_and_ps(_mm256_mul_ps(a, b), _mm256_cmp_ps(a, _mm256_setzero_ps(), _CMP_GT_OQ));
}
static INLINE struct v16 v_mul_above(struct v16 a, struct v16 b) {
    return wrap(mul_above(a.l, b.l), mul_above(a.h, b.h));
}
static INLINE void w_put(int16_t *to, const int16_t *x, uint32_t half) {
    UNROLL for (int i = 0; i < HT_LANES; i++) to[2 * i + (int)half] = x[i];
}

static INLINE void w_zip(int16_t *to, const int16_t *a, const int16_t *b) {
    __m256i x = _mm256_loadu_si256((const __m256i *)(const void *)a);
    __m256i y = _mm256_loadu_si256((const __m256i *)(const void *)b);
    __m256i low = _mm256_unpacklo_epi16(x, y), high = _mm256_unpackhi_epi16(x, y);
    __m256i *z = (__m256i *)(void *)to;
    _mm256_storeu_si256(z, _mm256_permute2x128_si256(low, high, 0x20));
    _mm256_storeu_si256(z + 1, _mm256_permute2x128_si256(low, high, 0x31));
}

struct w16 {
    __m256i l, h; // 16 sums
};
struct pairs {
    __m256i l, h; // of 16 positions or elements
};

static INLINE struct w16 w_zero(void) {
    return (struct w16){_mm256_setzero_si256(), _mm256_setzero_si256()};
}
static INLINE struct pairs w_load(const int16_t *x) {
    const __m256i *at = (const __m256i *)(const void *)x;
    return (struct pairs){_mm256_loadu_si256(at), _mm256_loadu_si256(at + 1)};
}
static INLINE struct pairs w_set1(const int16_t *x) {
    int32_t pair;
    memcpy(&pair, x, sizeof pair);
    return (struct pairs){_mm256_set1_epi32(pair), _mm256_set1_epi32(pair)};
}
static INLINE struct w16 w_dot(struct w16 sum, struct pairs a, struct pairs x) {
    return (struct w16){_mm256_add_epi32(sum.l, _mm256_madd_epi16(a.l, x.l)),
                        _mm256_add_epi32(sum.h, _mm256_madd_epi16(a.h, x.h))};
}
static INLINE struct v16 w_float(struct w16 sum) {
    return wrap(_mm256_cvtepi32_ps(sum.l), _mm256_cvtepi32_ps(sum.h));
}

#include "backend/cpu/vec_plain.h"

#include "backend/cpu/vec_lanes.h"
