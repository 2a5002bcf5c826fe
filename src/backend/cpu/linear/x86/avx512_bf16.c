// SPDX-License-Identifier: MIT
// BF16 weights by vdpbf16ps: 32 rows x 12 tokens, activations rounded to bf16. The instruction adds
// the products of a pair (k, k + 1) to each lane, in its own order and without subnormals, so BF16
// has the bits of this level. No state; any thread.
#include "backend/cpu/linear/x86/float.h"
#include "backend/cpu/linear/x86/repacked.h"
#include "backend/cpu/linear/x86/vec_avx512.h"

#include "backend/cpu/linear/ask.h"
#include "backend/cpu/linear/out.h"

#define TILE_TOKENS   12
#define STREAM_TOKENS 4

// As ht_f32_to_bf16, 16 at a time.
void ht_act_bf16_avx512(const float *x, uint32_t n_in, void *dst) {
    uint16_t *out = dst;
    uint32_t whole = n_in & ~15u;
    for (uint32_t k = 0; k < whole; k += 16) {
        __m512i u = _mm512_loadu_si512(x + k);
        __m512i odd = _mm512_and_si512(_mm512_srli_epi32(u, 16), _mm512_set1_epi32(1));
        __m512i r = _mm512_add_epi32(_mm512_add_epi32(u, odd), _mm512_set1_epi32(0x7fff));
        __mmask16 nan = _mm512_cmpgt_epu32_mask(_mm512_and_si512(u, _mm512_set1_epi32(0x7fffffff)),
                                                _mm512_set1_epi32(0x7f800000));
        r = _mm512_mask_or_epi32(r, nan, u, _mm512_set1_epi32(0x400000));
        __m256i half = _mm512_cvtepi32_epi16(_mm512_srli_epi32(r, 16));
        _mm256_storeu_si256((void *)(out + k), half);
    }
    for (uint32_t k = whole; k < n_in; k++) out[k] = ht_f32_to_bf16(x[k]);
    for (uint32_t k = n_in; k % HT_PAD_FLOAT != 0; k++) out[k] = 0;
}

void ht_pack_bf16_pairs(const struct ht_format_info *f, const uint8_t *w, size_t row_bytes,
                        uint32_t n_k, const struct ht_panel *p) {
    (void)f;
    for (uint32_t part = 0; part < 2; part++, w += LANES * row_bytes) {
        uint32_t *out = (uint32_t *)p->code + LANES * part;
        struct rows q = rows_of(w, row_bytes, 64, 1);
        for (uint32_t k = 0; k < n_k; k += 32, rows_advance(&q, 64)) {
            vi r[16];
            load64(&q, r);
            UNROLL(16)
            for (int i = 0; i < 16; i++, out += HT_ROW_GROUP) *(vi *)(void *)out = r[i];
        }
    }
}

INLINE vf dot_pair(vf y, vi w, const uint8_t *act) {
    int32_t a;
    __builtin_memcpy(&a, act, 4);
    return (vf)_mm512_dpbf16_ps((__m512)y, (__m512bh)(__m512i)w, (__m512bh)_mm512_set1_epi32(a));
}

// n tokens times the pairs at w, of 32 rows side by side: two vectors a pair.
INLINE void tile(const uint32_t n, const uint8_t *w, const struct ht_tile_args *t, uint32_t token,
                 struct ahead *ahead) {
    const uint8_t *act = t->act + token * t->act_stride;
    const float *from = t->from + token * t->from_stride;
    float *to = t->to + token * t->to_stride;
    size_t to_stride = t->to_stride;
    const size_t stride = t->act_stride;
    ask_output(t, token, n, 0, 2 * LANES);
    vf y[TILE_TOKENS][2];
    UNROLL(12)
    for (uint32_t i = 0; i < n; i++) {
        y[i][0] = load_floats(from + i * t->from_stride);
        y[i][1] = load_floats(from + i * t->from_stride + LANES);
    }
    for (const uint8_t *end = w + t->n_k * sizeof(vi); w < end;) {
        ahead_step(ahead);
        for (int pair = 0; pair < 8; pair++, w += 2 * sizeof(vi), act += 4) {
            vi w0, w1;
            __builtin_memcpy(&w0, w, sizeof w0);
            __builtin_memcpy(&w1, w + sizeof w0, sizeof w1);
            UNROLL(12)
            for (uint32_t i = 0; i < n; i++) {
                y[i][0] = dot_pair(y[i][0], w0, act + i * stride);
                y[i][1] = dot_pair(y[i][1], w1, act + i * stride);
            }
        }
    }
    if (n == TILE_TOKENS && t->add) {
        ADD_SUMS(n, 2, t, token, 0, y);
        to = t->out + token * t->out_stride;
        to_stride = t->out_stride;
    }
    UNROLL(12)
    for (uint32_t i = 0; i < n; i++) {
        store_floats(to + i * to_stride, y[i][0]);
        store_floats(to + i * to_stride + LANES, y[i][1]);
    }
}

static __attribute__((noinline)) void tiles(const uint8_t *w, const struct ht_tile_args *t) {
    struct ahead ahead = ahead_of(t, t->n_k / 16 * ((t->n_tokens + 11) / 12));
    uint32_t token = 0, n;
    for (; token < t->n_tokens; token += n) {
        n = t->n_tokens - token < 12 ? t->n_tokens - token : 12;
        switch (n) {
        case 1: tile(1, w, t, token, &ahead); break;
        case 2: tile(2, w, t, token, &ahead); break;
        case 3: tile(3, w, t, token, &ahead); break;
        case 4: tile(4, w, t, token, &ahead); break;
        case 5: tile(5, w, t, token, &ahead); break;
        case 6: tile(6, w, t, token, &ahead); break;
        case 7: tile(7, w, t, token, &ahead); break;
        case 8: tile(8, w, t, token, &ahead); break;
        case 9: tile(9, w, t, token, &ahead); break;
        case 10: tile(10, w, t, token, &ahead); break;
        case 11: tile(11, w, t, token, &ahead); break;
        default: tile(12, w, t, token, &ahead); break;
        }
        if (t->add && n < TILE_TOKENS) add_output(t, token, n);
    }
}

void ht_tile_bf16_pairs(const struct ht_panel *p, const struct ht_tile_args *t) {
    tiles(p->code, t);
}

// Repacked weights lie as a panel has them.
void ht_repacked_tile_bf16_pairs(const struct ht_panel *p, const struct ht_tile_args *t) {
    tiles(p->in_place, t);
}

INLINE void stream(const uint32_t n, const uint8_t *w, size_t row_bytes,
                   const struct ht_tile_args *t) {
    const size_t n_bytes = t->n_k * sizeof(uint16_t);
    for (uint32_t part = 0; part < 2; part++, w += LANES * row_bytes) {
        const uint8_t *act = t->act;
        struct rows q = rows_of(w, row_bytes, 64, 1);
        struct asker asker = asker_of(w, row_bytes, n_bytes, part, 1, false, t);
        const float *from = t->from + LANES * part;
        float *to = t->to + LANES * part;
        vf y[STREAM_TOKENS];
        UNROLL(4)
        for (uint32_t i = 0; i < n; i++) y[i] = load_floats(from + i * t->from_stride);
        for (uint32_t k = 0; k < t->n_k; k += 32, rows_advance(&q, 64), act += 64) {
            vi r[16];
            load64(&q, r);
            UNROLL(16)
            for (uint32_t j = 0; j < 16; j++) {
                ask(&asker, 64 * LANES, j, 16);
                UNROLL(4)
                for (uint32_t i = 0; i < n; i++)
                    y[i] = dot_pair(y[i], r[j], act + i * t->act_stride + 4 * j);
            }
        }
        UNROLL(4)
        for (uint32_t i = 0; i < n; i++) store_floats(to + i * t->to_stride, y[i]);
        ask_rest(&asker, n_bytes, LANES);
    }
}

void ht_stream_bf16_pairs(const uint8_t *w, size_t row_bytes, const struct ht_tile_args *t) {
    switch (t->n_tokens) {
    case 1: stream(1, w, row_bytes, t); break;
    case 2: stream(2, w, row_bytes, t); break;
    case 3: stream(3, w, row_bytes, t); break;
    case 4: stream(4, w, row_bytes, t); break;
    default: break;
    }
}
