// SPDX-License-Identifier: MIT
// AVX2 with FMA and F16C for the linear kernels: 8 rows a register.
#ifndef HT_LINEAR_VEC_AVX2_H
#define HT_LINEAR_VEC_AVX2_H

#include <immintrin.h>

#define LANES 8
#include "backend/cpu/linear/vec.h"

INLINE vf splat(float x) {
    return (vf)_mm256_set1_ps(x);
}
INLINE vi splat_int(int32_t x) {
    return (vi)_mm256_set1_epi32(x);
}
INLINE vf load_floats(const float *p) {
    return (vf)_mm256_loadu_ps(p);
}
INLINE void store_floats(float *p, vf x) {
    _mm256_storeu_ps(p, (__m256)x);
}
INLINE vf fma_add(vf a, vf b, vf c) {
    return (vf)_mm256_fmadd_ps((__m256)a, (__m256)b, (__m256)c);
}
INLINE vf fma_sub(vf a, vf b, vf c) { // c - a * b
    return (vf)_mm256_fnmadd_ps((__m256)a, (__m256)b, (__m256)c);
}
INLINE vi max_unsigned(vi a, vi b) {
    return (vi)_mm256_max_epu32((__m256i)a, (__m256i)b);
}
INLINE uint32_t reduce_max(vi x) {
    __m256i y = (__m256i)x;
    __m128i m = _mm_max_epu32(_mm256_castsi256_si128(y), _mm256_extracti128_si256(y, 1));
    m = _mm_max_epu32(m, _mm_shuffle_epi32(m, 0x4e));
    m = _mm_max_epu32(m, _mm_shuffle_epi32(m, 0xb1));
    return (uint32_t)_mm_cvtsi128_si32(m);
}
INLINE int32_t reduce_add(vi x) {
    __m256i y = (__m256i)x;
    __m128i s = _mm_add_epi32(_mm256_castsi256_si128(y), _mm256_extracti128_si256(y, 1));
    s = _mm_add_epi32(s, _mm_shuffle_epi32(s, 0x4e));
    s = _mm_add_epi32(s, _mm_shuffle_epi32(s, 0xb1));
    return _mm_cvtsi128_si32(s);
}
INLINE vi round_int(vf x) { // to nearest even
    return (vi)_mm256_cvtps_epi32((__m256)x);
}
INLINE vf fraction(vf x) { // x - the nearest integer, exact
    return x - (vf)_mm256_round_ps((__m256)x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
}
// The sum of 16 lanes: j and j + 8, j and j + 4, ...
INLINE float reduce_16(const vf *lane) {
    __m256 y = (__m256)(lane[0] + lane[1]);
    __m128 z = _mm_add_ps(_mm256_castps256_ps128(y), _mm256_extractf128_ps(y, 1));
    z = _mm_add_ps(z, _mm_movehl_ps(z, z));
    return _mm_cvtss_f32(_mm_add_ss(z, _mm_movehdup_ps(z)));
}
INLINE void store_bytes(int8_t *p, vi x) {
    __m128i lo = _mm256_castsi256_si128((__m256i)x), hi = _mm256_extracti128_si256((__m256i)x, 1);
    __m128i words = _mm_packs_epi32(lo, hi);
    _mm_storel_epi64((void *)p, _mm_packs_epi16(words, words));
}

#ifndef REPACKED // else words lie as they are wanted (vec.h)
// Two rows' 16 bytes as the halves of a register.
INLINE __m256i two(const uint8_t *a, const uint8_t *b) {
    __m256i x = _mm256_castsi128_si256(_mm_loadu_si128((const void *)a));
    return _mm256_inserti128_si256(x, _mm_loadu_si128((const void *)b), 1);
}

// In each 128 bits: out[c] gets dword c of all four registers.
INLINE void turn_dwords(const __m256i z[4], vi out[4]) {
    __m256i t0 = _mm256_unpacklo_epi32(z[0], z[1]), t1 = _mm256_unpackhi_epi32(z[0], z[1]);
    __m256i t2 = _mm256_unpacklo_epi32(z[2], z[3]), t3 = _mm256_unpackhi_epi32(z[2], z[3]);
    out[0] = (vi)_mm256_unpacklo_epi64(t0, t2);
    out[1] = (vi)_mm256_unpackhi_epi64(t0, t2);
    out[2] = (vi)_mm256_unpacklo_epi64(t1, t3);
    out[3] = (vi)_mm256_unpackhi_epi64(t1, t3);
}

// out[c] lane r = bytes 4c .. 4c + 3 of row r's 16 bytes from `at` on.
INLINE void load16(const struct rows *w, const size_t at, vi out[4]) {
    __m256i z[4];
    UNROLL(4)
    for (int c = 0; c < 4; c++) // rows c and 4 + c
        z[c] = two(row_at(w, c, at), row_at(w, 4 + c, at));
    turn_dwords(z, out);
}

// Lane b of the words as block b, of the first n blocks.
INLINE void store_blocks(const vi word[ACT_WORDS], uint32_t n, struct ht_act_q8 *dst, size_t step) {
    const __m256i *w = (const __m256i *)word, last[4] = {w[8], w[9], w[10], w[10]};
    vi low[4], high[4], rest[4];
    turn_dwords(w, low);
    turn_dwords(w + 4, high);
    turn_dwords(last, rest);
    UNROLL(8)
    for (uint32_t b = 0; b < 8; b++) { // blocks 4 to 7 in the upper 128 bits
        __m256i l = (__m256i)low[b % 4], h = (__m256i)high[b % 4], r = (__m256i)rest[b % 4];
        __m128i r4 = b < 4 ? _mm256_castsi256_si128(r) : _mm256_extracti128_si256(r, 1);
        struct ht_act_q8 *to = ht_act_block(dst, b, step);
        if (b >= n) continue;
        _mm256_storeu_si256((void *)to->q, b < 4 ? _mm256_permute2x128_si256(l, h, 0x20)
                                                 : _mm256_permute2x128_si256(l, h, 0x31));
        _mm_storel_epi64((void *)&to->scale, r4);
        to->bias_half[1] = _mm_extract_epi32(r4, 2);
    }
}

// Four codes as the bytes of each lane.
INLINE vi pack_four(const vi q[4]) {
    const __m256i turned = _mm256_broadcastsi128_si256(
        _mm_setr_epi8(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15));
    __m256i low = _mm256_packs_epi32((__m256i)q[0], (__m256i)q[1]);
    __m256i high = _mm256_packs_epi32((__m256i)q[2], (__m256i)q[3]);
    return (vi)_mm256_shuffle_epi8(_mm256_packs_epi16(low, high), turned);
}

// out[c] lane r = bytes 4c .. 4c + 3 of row r's first 64 bytes.
INLINE void load64(const struct rows *w, vi out[16]) {
    UNROLL(4)
    for (int i = 0; i < 4; i++) load16(w, 16 * (size_t)i, out + 4 * i);
}

#define HALF_COLUMNS // what float_stream.h has for it otherwise stands here
// out[c] 16-bit lane r = half 2 c of row r's 8 from `at` on, lane 8 + r = half 2 c + 1, as the
// conversion wants them.
INLINE void load16_halves(const struct rows *w, const size_t at, vi out[4]) {
    __m256i z[4];
    UNROLL(4)
    for (int c = 0; c < 4; c++) z[c] = two(row_at(w, c, at), row_at(w, 4 + c, at));
    UNROLL(2)
    for (int h = 0; h < 2; h++) { // halves 4 h .. 4 h + 3; pairs of rows, then four rows in 64 bits
        __m256i a = h ? _mm256_unpackhi_epi16(z[0], z[1]) : _mm256_unpacklo_epi16(z[0], z[1]);
        __m256i b = h ? _mm256_unpackhi_epi16(z[2], z[3]) : _mm256_unpacklo_epi16(z[2], z[3]);
        out[2 * h] = (vi)_mm256_permute4x64_epi64(_mm256_unpacklo_epi32(a, b), 0xd8);
        out[2 * h + 1] = (vi)_mm256_permute4x64_epi64(_mm256_unpackhi_epi32(a, b), 0xd8);
    }
}
INLINE void load_halves(const struct rows *w, vi out[16]) {
    UNROLL(4)
    for (int i = 0; i < 4; i++) load16_halves(w, 16 * (size_t)i, out + 4 * i);
}
INLINE vf half_column(const vi *r, const uint32_t k) {
    const __m256i x = (__m256i)r[k / 2];
    if (k % 2) return (vf)_mm256_cvtph_ps(_mm256_extracti128_si256(x, 1));
    return (vf)_mm256_cvtph_ps(_mm256_castsi256_si128(x));
}

// The f16 at `at` of each row.
INLINE vf half_rows(const struct rows *w, const size_t at) {
    __m128i x = _mm_cvtsi32_si128((uint16_t)word_at(row_at(w, 0, at)));
#define PUT(i) x = _mm_insert_epi16(x, word_at(row_at(w, i, at)), i);
    PUT(1)
    PUT(2)
    PUT(3)
    PUT(4)
    PUT(5)
    PUT(6)
    PUT(7)
#undef PUT
    return (vf)_mm256_cvtph_ps(x);
}

// The byte at `at` of each row.
INLINE vi byte_rows(const struct rows *w, const size_t at) {
    __m128i x = _mm_cvtsi32_si128(*row_at(w, 0, at));
#define PUT(i) x = _mm_insert_epi8(x, *row_at(w, i, at), i);
    PUT(1)
    PUT(2)
    PUT(3)
    PUT(4)
    PUT(5)
    PUT(6)
    PUT(7)
#undef PUT
    return (vi)_mm256_cvtepu8_epi32(x);
}

#else
// f16 beside each other.
INLINE vf halves(const uint8_t *p) {
    return (vf)_mm256_cvtph_ps(_mm_loadu_si128((const void *)p));
}
// The f16, or the byte, that is left of each row's block.
INLINE vf half_rows(const struct rows *w, const size_t at) {
    (void)at;
    return halves(w->rest);
}
INLINE vi byte_rows(const struct rows *w, const size_t at) {
    (void)at;
    return (vi)_mm256_cvtepu8_epi32(_mm_loadl_epi64((const void *)(w->rest)));
}
#endif

// The f16 in the low half of each lane.
INLINE vf half_low(vi x) {
    __m256i low = _mm256_and_si256((__m256i)x, _mm256_set1_epi32(0xffff));
    __m128i lo = _mm256_castsi256_si128(low), hi = _mm256_extracti128_si256(low, 1);
    return (vf)_mm256_cvtph_ps(_mm_packus_epi32(lo, hi));
}

// The bits of a where mask has ones, else those of b.
INLINE vi choose(vi mask, vi a, vi b) {
    return (a & mask) | (b & ~mask);
}
// A signed byte a lane.
INLINE vi signed_bytes(const uint8_t *p) {
    return (vi)_mm256_cvtepi8_epi32(_mm_loadl_epi64((const void *)p));
}

// low | (high & mask)
INLINE vi merge(vi low, vi high, vi mask) {
    return low | (high & mask);
}

INLINE vi lookup(const int8_t *table, vi index) {
    __m256i t = _mm256_broadcastsi128_si256(_mm_load_si128((const void *)table));
    return (vi)_mm256_shuffle_epi8(t, (__m256i)index);
}

// A byte for each of bits 4 i .. 4 i + 3 of each lane: `set` or `clear`.
INLINE vi by_bits(vi x, const int i, const int set, const int clear) {
    __m128i first = _mm_setr_epi8(0, 0, 0, 0, 4, 4, 4, 4, 8, 8, 8, 8, 12, 12, 12, 12);
    __m256i at = _mm256_broadcastsi128_si256(_mm_add_epi8(first, _mm_set1_epi8((char)(i / 2))));
    __m256i bit = _mm256_set1_epi32(i % 2 ? (int)0x80402010 : 0x08040201);
    __m256i ones = _mm256_and_si256(_mm256_shuffle_epi8((__m256i)x, at), bit);
    ones = _mm256_cmpeq_epi8(ones, bit);
    return (vi)_mm256_xor_si256(_mm256_and_si256(ones, _mm256_set1_epi8((char)(set ^ clear))),
                                _mm256_set1_epi8((char)clear));
}

#endif
