// SPDX-License-Identifier: MIT
// The f32 kernels of a vector level, for F32, F16 and (rounded activations) BF16 weights: one fma
// an element, k rising. A file includes the header of its instruction set, defines the tile
// (TILE_VECTORS * LANES rows x TILE_TOKENS tokens, at least 6), STREAM_TOKENS (at most 4) and
// LEVEL, the end of the functions' names, and includes this.
#ifndef HT_LINEAR_FLOAT_H
#define HT_LINEAR_FLOAT_H

#include "backend/cpu/linear/float_stream.h"
#include "backend/cpu/linear/out.h"

INLINE void pack(const enum ht_format f, const uint8_t *w, size_t row_bytes, uint32_t n_k,
                 const struct ht_panel *p) {
    const uint32_t n = f == HT_F32 ? 16 : 32; // columns of a load
    for (uint32_t part = 0; part < PARTS; part++, w += LANES * row_bytes) {
        float *out = (float *)p->code + LANES * part;
        struct rows q = rows_of(w, row_bytes, 64, 1);
        for (uint32_t k = 0; k < n_k; k += n, rows_advance(&q, 64)) {
            vi r[16];
            load(f, &q, r);
            UNROLL(32)
            for (uint32_t i = 0; i < n; i++, out += HT_ROW_GROUP)
                store_floats(out, column(f, r, i));
        }
    }
}

#define TILE_STEP 4 // k at once, so that places are advanced less often

INLINE void tile(const uint32_t n, const struct ht_panel *p, const struct ht_tile_args *t,
                 uint32_t token, uint32_t row, struct ahead *ahead) {
    const float *w = (const float *)p->code + row;
    const float *from = t->from + token * t->from_stride + row;
    float *to = t->to + token * t->to_stride + row;
    size_t to_stride = t->to_stride;
    struct tokens act = tokens_of(t, token, n);
    ask_output(t, token, n, row, TILE_VECTORS * LANES);
    vf y[TILE_TOKENS][TILE_VECTORS];
    UNROLL(12)
    for (uint32_t i = 0; i < n; i++) {
        UNROLL(4)
        for (int v = 0; v < TILE_VECTORS; v++)
            y[i][v] = load_floats(from + i * t->from_stride + v * LANES);
    }
    for (const float *end = w + t->n_k * HT_ROW_GROUP; w < end;) {
        ahead_step(ahead);
        if (t->act_far) ask_tokens(&act, n, 1);
        for (int k = 0; k < 16 / TILE_STEP; k++, w += TILE_STEP * HT_ROW_GROUP) {
            UNROLL(4)
            for (int u = 0; u < TILE_STEP; u++) {
                vf c[TILE_VECTORS];
                UNROLL(4)
                for (int v = 0; v < TILE_VECTORS; v++)
                    c[v] = load_floats(w + u * HT_ROW_GROUP + v * LANES);
                UNROLL(12)
                for (uint32_t i = 0; i < n; i++) {
                    vf a = splat(((const float *)token_at(&act, i))[u]);
                    UNROLL(4)
                    for (int v = 0; v < TILE_VECTORS; v++) y[i][v] = fma_add(c[v], a, y[i][v]);
                }
            }
            tokens_advance(&act, n, TILE_STEP * sizeof(float));
        }
    }
    if (n == TILE_TOKENS && t->add) {
        ADD_SUMS(n, TILE_VECTORS, t, token, row, y);
        to = t->out + token * t->out_stride + row;
        to_stride = t->out_stride;
    }
    UNROLL(12)
    for (uint32_t i = 0; i < n; i++) {
        UNROLL(4)
        for (int v = 0; v < TILE_VECTORS; v++)
            store_floats(to + i * to_stride + v * LANES, y[i][v]);
    }
}

INLINE void tiles(const struct ht_panel *p, const struct ht_tile_args *t) {
#define TILE_OF(n)                                                                                 \
    case n:                                                                                        \
        if (m >= (n)) tile(m < (n) ? 1 : (n), p, t, token, r, &ahead);                             \
        break
    const uint32_t m = TILE_TOKENS, rows = TILE_VECTORS * LANES;
    const uint32_t n_tiles = (t->n_tokens + m - 1) / m * (HT_ROW_GROUP / rows);
    struct ahead ahead = ahead_of(t, t->n_k / 16 * n_tiles);
    uint32_t token = 0, n;
    for (; token < t->n_tokens; token += n) {
        n = t->n_tokens - token < m ? t->n_tokens - token : m;
        for (uint32_t r = 0; r < HT_ROW_GROUP; r += rows) {
            switch (n) {
                TILE_OF(1);
                TILE_OF(2);
                TILE_OF(3);
                TILE_OF(4);
                TILE_OF(5);
                TILE_OF(6);
                TILE_OF(7);
                TILE_OF(8);
                TILE_OF(9);
                TILE_OF(10);
                TILE_OF(11);
                TILE_OF(12);
            default: break;
            }
        }
        if (t->add && n < m) add_output(t, token, n);
    }
#undef TILE_OF
}

#define NAME3(a, b, c) a##b##_##c
#define NAME(a, b, c)  NAME3(a, b, c)
#define FORMAT(id, name)                                                                           \
    void NAME(ht_pack_, name, LEVEL)(const struct ht_format_info *f, const uint8_t *w,             \
                                     size_t row_bytes, uint32_t n_k, const struct ht_panel *p) {   \
        (void)f;                                                                                   \
        pack(id, w, row_bytes, n_k, p);                                                            \
    }                                                                                              \
    void NAME(ht_stream_, name, LEVEL)(const uint8_t *w, size_t row_bytes,                         \
                                       const struct ht_tile_args *t) {                             \
        streams(id, w, row_bytes, t);                                                              \
    }
FORMAT(HT_F32, f32)
FORMAT(HT_F16, f16)
FORMAT(HT_BF16, bf16)
#undef FORMAT

// Rounded as ht_f32_to_bf16 does it, and kept as f32.
void NAME(ht_act_bf16_, f32, LEVEL)(const float *x, uint32_t n_in, void *dst) {
    float *out = dst;
    uint32_t whole = n_in / HT_PAD_FLOAT * HT_PAD_FLOAT;
    for (uint32_t k = 0; k < whole; k += LANES) {
        vu32 u = (vu32)load_floats(x + k), nan = (vu32)((u & 0x7fffffff) > 0x7f800000);
        vu32 r = u + 0x7fff + (u >> 16 & 1);
        r = (nan & (u | 0x400000)) | (~nan & r);
        store_floats(out + k, (vf)(r & 0xffff0000));
    }
    if (whole < n_in) ht_act_bf16_scalar(x + whole, n_in - whole, out + whole);
}

void NAME(ht_tile_, f32, LEVEL)(const struct ht_panel *p, const struct ht_tile_args *t) {
    tiles(p, t);
}

#endif
