// SPDX-License-Identifier: MIT
// AVX-512 (F, BW, DQ, VL) for the linear kernels: 16 rows a register.
#ifndef HT_LINEAR_VEC_AVX512_H
#define HT_LINEAR_VEC_AVX512_H

#include <immintrin.h>

#define LANES 16
#include "backend/cpu/linear/vec.h"

INLINE vf splat(float x) {
    return (vf)_mm512_set1_ps(x);
}
INLINE vi splat_int(int32_t x) {
    return (vi)_mm512_set1_epi32(x);
}
INLINE vf load_floats(const float *p) {
    return (vf)_mm512_loadu_ps(p);
}
INLINE void store_floats(float *p, vf x) {
    _mm512_storeu_ps(p, (__m512)x);
}
INLINE vf fma_add(vf a, vf b, vf c) {
    return (vf)_mm512_fmadd_ps((__m512)a, (__m512)b, (__m512)c);
}
INLINE vf fma_sub(vf a, vf b, vf c) { // c - a * b
    return (vf)_mm512_fnmadd_ps((__m512)a, (__m512)b, (__m512)c);
}
INLINE vi max_unsigned(vi a, vi b) {
    return (vi)_mm512_max_epu32((__m512i)a, (__m512i)b);
}
INLINE uint32_t reduce_max(vi x) {
    return _mm512_reduce_max_epu32((__m512i)x);
}
INLINE int32_t reduce_add(vi x) {
    return _mm512_reduce_add_epi32((__m512i)x);
}
INLINE vi round_int(vf x) { // to nearest even
    return (vi)_mm512_cvtps_epi32((__m512)x);
}
INLINE vf fraction(vf x) { // x - the nearest integer, exact
    return (vf)_mm512_reduce_ps((__m512)x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
}
// The sum of 16 lanes: j and j + 8, j and j + 4, ...
INLINE float reduce_16(const vf *lane) {
    __m512 x = (__m512)lane[0];
    __m256 y = _mm256_add_ps(_mm512_castps512_ps256(x), _mm512_extractf32x8_ps(x, 1));
    __m128 z = _mm_add_ps(_mm256_castps256_ps128(y), _mm256_extractf128_ps(y, 1));
    z = _mm_add_ps(z, _mm_movehl_ps(z, z));
    return _mm_cvtss_f32(_mm_add_ss(z, _mm_movehdup_ps(z)));
}
INLINE void store_bytes(int8_t *p, vi x) {
    _mm_storeu_si128((void *)p, _mm512_cvtepi32_epi8((__m512i)x));
}

#ifndef REPACKED // else words lie as they are wanted (vec.h)
// Two rows' 16 bytes as the halves of a register.
INLINE __m256i two(const uint8_t *a, const uint8_t *b) {
    __m256i x = _mm256_castsi128_si256(_mm_loadu_si128((const void *)a));
    return _mm256_inserti128_si256(x, _mm_loadu_si128((const void *)b), 1);
}

// In each 128 bits: out[c] gets dword c of all four registers.
INLINE void turn_dwords(const __m512i z[4], __m512i out[4]) {
    __m512i t0 = _mm512_unpacklo_epi32(z[0], z[1]), t1 = _mm512_unpackhi_epi32(z[0], z[1]);
    __m512i t2 = _mm512_unpacklo_epi32(z[2], z[3]), t3 = _mm512_unpackhi_epi32(z[2], z[3]);
    out[0] = _mm512_unpacklo_epi64(t0, t2);
    out[1] = _mm512_unpackhi_epi64(t0, t2);
    out[2] = _mm512_unpacklo_epi64(t1, t3);
    out[3] = _mm512_unpackhi_epi64(t1, t3);
}

// out[c] lane r = bytes 4c .. 4c + 3 of row r's 16 bytes from `at` on.
INLINE void load16(const struct rows *w, const size_t at, vi out[4]) {
    __m512i z[4];
    UNROLL(4)
    for (int c = 0; c < 4; c++) { // 128-bit lane l of z[c]: row 4 l + c
        __m256i low = two(row_at(w, c, at), row_at(w, 4 + c, at));
        __m256i high = two(row_at(w, 8 + c, at), row_at(w, 12 + c, at));
        // (masked broadcasts would be fewer instructions, but take a third longer on Zen 4)
        z[c] = _mm512_inserti64x4(_mm512_castsi256_si512(low), high, 1);
    }
    __m512i turned[4];
    turn_dwords(z, turned);
    UNROLL(4)
    for (int c = 0; c < 4; c++) out[c] = (vi)turned[c];
}

#ifdef FAST_GATHER
#define LOAD_32
// The same of 32 bytes, in half as many loads.
INLINE void load32(const struct rows *w, const size_t at, vi out[8]) {
    __m512i u[2][4]; // u[g][c]: dwords c and 4 + c of rows 8 g .., of rows 8 g + 4 ..
    UNROLL(2)
    for (int g = 0; g < 2; g++) {
        __m512i z[4];
        UNROLL(4)
        for (int i = 0; i < 4; i++) {
            __m256i a = _mm256_loadu_si256((const void *)row_at(w, 8 * g + i, at));
            __m256i b = _mm256_loadu_si256((const void *)row_at(w, 8 * g + 4 + i, at));
            z[i] = _mm512_inserti64x4(_mm512_castsi256_si512(a), b, 1);
        }
        turn_dwords(z, u[g]);
    }
    UNROLL(4)
    for (int c = 0; c < 4; c++) {
        out[c] = (vi)_mm512_shuffle_i32x4(u[0][c], u[1][c], 0x88);
        out[4 + c] = (vi)_mm512_shuffle_i32x4(u[0][c], u[1][c], 0xdd);
    }
}
#endif

// 16 rows of 16 dwords as 16 columns.
INLINE void turn_lines(const __m512i row[16], vi out[16]) {
    __m512i u[4][4]; // u[g][c] 128-bit lane l: dwords of out[4 l + c] of rows 4 g ..
    UNROLL(4)
    for (int g = 0; g < 4; g++) turn_dwords(row + 4 * g, u[g]);
    UNROLL(4)
    for (int c = 0; c < 4; c++) {
        __m512i a = _mm512_shuffle_i32x4(u[0][c], u[1][c], 0x88);
        __m512i b = _mm512_shuffle_i32x4(u[0][c], u[1][c], 0xdd);
        __m512i d = _mm512_shuffle_i32x4(u[2][c], u[3][c], 0x88);
        __m512i e = _mm512_shuffle_i32x4(u[2][c], u[3][c], 0xdd);
        out[c] = (vi)_mm512_shuffle_i32x4(a, d, 0x88);
        out[4 + c] = (vi)_mm512_shuffle_i32x4(b, e, 0x88);
        out[8 + c] = (vi)_mm512_shuffle_i32x4(a, d, 0xdd);
        out[12 + c] = (vi)_mm512_shuffle_i32x4(b, e, 0xdd);
    }
}

// Lane b of the words as block b, of the first n blocks.
INLINE void store_blocks(const vi word[ACT_WORDS], uint32_t n, struct ht_act_q8 *dst, size_t step) {
    __m512i all[16];
    vi block[16];
    UNROLL(16)
    for (int i = 0; i < 16; i++) all[i] = i < ACT_WORDS ? (__m512i)word[i] : _mm512_setzero_si512();
    turn_lines(all, block);
    UNROLL(16)
    for (uint32_t b = 0; b < 16; b++)
        if (b < n) {
            struct ht_act_q8 *to = ht_act_block(dst, b, step);
            __m128i rest = _mm512_extracti32x4_epi32((__m512i)block[b], 2);
            _mm256_storeu_si256((void *)to->q, _mm512_castsi512_si256((__m512i)block[b]));
            _mm_storel_epi64((void *)&to->scale, rest);
            to->bias_half[1] = _mm_extract_epi32(rest, 2);
        }
}

// Four codes as the bytes of each lane.
INLINE vi pack_four(const vi q[4]) {
    const __m512i turned =
        _mm512_broadcast_i32x4(_mm_setr_epi8(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15));
    __m512i low = _mm512_packs_epi32((__m512i)q[0], (__m512i)q[1]);
    __m512i high = _mm512_packs_epi32((__m512i)q[2], (__m512i)q[3]);
    return (vi)_mm512_shuffle_epi8(_mm512_packs_epi16(low, high), turned);
}

// out[c] lane r = bytes 4c .. 4c + 3 of row r's first 64 bytes. Each row is read once,
// whole: rows of a power of two of bytes fall into the same set of the L1 cache, too small for 16.
INLINE void load64(const struct rows *w, vi out[16]) {
    __m512i row[16];
    UNROLL(16)
    for (int r = 0; r < 16; r++) row[r] = _mm512_loadu_si512(row_at(w, r, 0));
    turn_lines(row, out);
}

#define HALF_COLUMNS // load_halves and half_column stand here, not in float_stream.h
// out[k] 16-bit lane r = half k of row r's first 32, lane 16 + r = half k + 16: what load64 does,
// but halves of one k lie together, as the conversion wants them.
INLINE void load_halves(const struct rows *w, vi out[16]) {
    const __m512i even = _mm512_setr_epi64(0, 1, 8, 9, 4, 5, 12, 13);
    const __m512i odd = _mm512_setr_epi64(2, 3, 10, 11, 6, 7, 14, 15);
    __m512i u[2][8]; // u[g][c] 128-bit lane l: halves 8 l + c of rows 8 g ..
    UNROLL(2)
    for (int g = 0; g < 2; g++) {
        __m512i t[8], s[8];
        UNROLL(4)
        for (int i = 0; i < 4; i++) { // t[2 i], t[2 i + 1]: rows 2 i, 2 i + 1
            __m512i a = _mm512_loadu_si512(row_at(w, 8 * g + 2 * i, 0));
            __m512i b = _mm512_loadu_si512(row_at(w, 8 * g + 2 * i + 1, 0));
            t[2 * i] = _mm512_unpacklo_epi16(a, b);
            t[2 * i + 1] = _mm512_unpackhi_epi16(a, b);
        }
        UNROLL(2)
        for (int i = 0; i < 2; i++) { // s[4 i + j]: rows 4 i .. 4 i + 3, halves 2 j, 2 j + 1
            s[4 * i] = _mm512_unpacklo_epi32(t[4 * i], t[4 * i + 2]);
            s[4 * i + 1] = _mm512_unpackhi_epi32(t[4 * i], t[4 * i + 2]);
            s[4 * i + 2] = _mm512_unpacklo_epi32(t[4 * i + 1], t[4 * i + 3]);
            s[4 * i + 3] = _mm512_unpackhi_epi32(t[4 * i + 1], t[4 * i + 3]);
        }
        UNROLL(4)
        for (int j = 0; j < 4; j++) {
            u[g][2 * j] = _mm512_unpacklo_epi64(s[j], s[4 + j]);
            u[g][2 * j + 1] = _mm512_unpackhi_epi64(s[j], s[4 + j]);
        }
    }
    UNROLL(8)
    for (int c = 0; c < 8; c++) {
        out[c] = (vi)_mm512_permutex2var_epi64(u[0][c], even, u[1][c]);
        out[8 + c] = (vi)_mm512_permutex2var_epi64(u[0][c], odd, u[1][c]);
    }
}
INLINE vf half_column(const vi *r, const uint32_t k) {
    __m512i v = (__m512i)r[k % 16];
    return (vf)_mm512_cvtph_ps(k < 16 ? _mm512_castsi512_si256(v)
                                      : _mm512_extracti64x4_epi64(v, 1));
}

// The f16 at `at` of each row.
INLINE vf half_rows(const struct rows *w, const size_t at) {
#ifdef FAST_GATHER
    if (at == 0) { // with two bytes behind the f16, which every block has
        const __m512i row = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
        __m512i offset = _mm512_mullo_epi32(row, _mm512_set1_epi32((int)w->stride));
        __m512i x = _mm512_i32gather_epi32(offset, (const void *)row_at(w, 0, 0), 1);
        return (vf)_mm512_cvtph_ps(_mm512_cvtepi32_epi16(x));
    }
#endif
    __m128i lo = _mm_cvtsi32_si128((uint16_t)word_at(row_at(w, 0, at)));
    __m128i hi = _mm_cvtsi32_si128((uint16_t)word_at(row_at(w, 8, at)));
#define PUT(i)                                                                                     \
    lo = _mm_insert_epi16(lo, word_at(row_at(w, i, at)), i);                                       \
    hi = _mm_insert_epi16(hi, word_at(row_at(w, 8 + (i), at)), i)
    PUT(1);
    PUT(2);
    PUT(3);
    PUT(4);
    PUT(5);
    PUT(6);
    PUT(7);
#undef PUT
    return (vf)_mm512_cvtph_ps(_mm256_set_m128i(hi, lo));
}

// The byte at `at` of each row.
INLINE vi byte_rows(const struct rows *w, const size_t at) {
    uint32_t four[4]; // put together in scalar registers, which are idle
    UNROLL(4)
    for (int i = 0; i < 4; i++)
        four[i] = *row_at(w, 4 * i, at) | (uint32_t)*row_at(w, 4 * i + 1, at) << 8 |
                  (uint32_t)*row_at(w, 4 * i + 2, at) << 16 |
                  (uint32_t)*row_at(w, 4 * i + 3, at) << 24;
    __m128i x = _mm_setr_epi32((int)four[0], (int)four[1], (int)four[2], (int)four[3]);
    return (vi)_mm512_cvtepu8_epi32(x);
}

#else
// f16 beside each other.
INLINE vf halves(const uint8_t *p) {
    return (vf)_mm512_cvtph_ps(_mm256_loadu_si256((const void *)p));
}
// The f16, or the byte, that is left of each row's block.
INLINE vf half_rows(const struct rows *w, const size_t at) {
    (void)at;
    return halves(w->rest);
}
INLINE vi byte_rows(const struct rows *w, const size_t at) {
    (void)at;
    return (vi)_mm512_cvtepu8_epi32(_mm_loadu_si128((const void *)(w->rest)));
}
#endif

// The f16 in the low half of each lane.
INLINE vf half_low(vi x) {
    return (vf)_mm512_cvtph_ps(_mm512_cvtepi32_epi16((__m512i)x));
}

// The bits of a where mask has ones, else those of b.
INLINE vi choose(vi mask, vi a, vi b) {
    return (vi)_mm512_ternarylogic_epi32((__m512i)mask, (__m512i)a, (__m512i)b, 0xca);
}
// A signed byte a lane.
INLINE vi signed_bytes(const uint8_t *p) {
    return (vi)_mm512_cvtepi8_epi32(_mm_loadu_si128((const void *)p));
}

// low | (high & mask)
INLINE vi merge(vi low, vi high, vi mask) {
    return (vi)_mm512_ternarylogic_epi32((__m512i)low, (__m512i)high, (__m512i)mask, 0xf8);
}

// With VBMI by the lower four bits of each byte, whatever the others are (the table stands there
// four times); else those have to be zero.
INLINE vi lookup(const int8_t *table, vi index) {
    __m512i t = _mm512_broadcast_i32x4(_mm_load_si128((const void *)table));
#ifdef __AVX512VBMI__
#define LOOKUP_LOW 1
    return (vi)_mm512_permutexvar_epi8((__m512i)index, t);
#else
    return (vi)_mm512_shuffle_epi8(t, (__m512i)index);
#endif
}

// Bits 4 i .. 4 i + 3 of each lane, one a byte.
INLINE __mmask64 bit_mask(vi x, const int i) {
    __m128i first = _mm_setr_epi8(0, 0, 0, 0, 4, 4, 4, 4, 8, 8, 8, 8, 12, 12, 12, 12);
    __m512i at = _mm512_broadcast_i32x4(_mm_add_epi8(first, _mm_set1_epi8((char)(i / 2))));
    __m512i bit = _mm512_set1_epi32(i % 2 ? (int)0x80402010 : 0x08040201);
    return _mm512_test_epi8_mask(_mm512_shuffle_epi8((__m512i)x, at), bit);
}

// A byte for each of bits 4 i .. 4 i + 3 of each lane: `set` or `clear`.
INLINE vi by_bits(vi x, const int i, const int set, const int clear) {
    return (vi)_mm512_mask_blend_epi8(bit_mask(x, i), _mm512_set1_epi8((char)clear),
                                      _mm512_set1_epi8((char)set));
}

#define THIRDS
INLINE vi thirds(vi x) {
    const __m512i one = _mm512_set1_epi8(1);
    __mmask64 first = _mm512_cmpgt_epi8_mask((__m512i)x, _mm512_set1_epi8(-43));
    __mmask64 second = _mm512_cmpgt_epi8_mask((__m512i)x, _mm512_set1_epi8(42));
    __m512i digit = _mm512_maskz_mov_epi8(first, one);
    return (vi)_mm512_mask_add_epi8(digit, second, digit, one);
}

#endif
