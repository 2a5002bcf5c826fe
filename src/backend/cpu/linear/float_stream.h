// SPDX-License-Identifier: MIT
// Streams of F32, F16 and BF16 weights (as f32): kernels that multiply out of the file's bytes,
// without a panel, for few tokens; and how columns of weights are made, which packers share. A file
// includes the header of its instruction set and defines STREAM_TOKENS (at most 4) in front.
#ifndef HT_LINEAR_FLOAT_STREAM_H
#define HT_LINEAR_FLOAT_STREAM_H

#include "backend/cpu/linear/ask.h"

#ifndef HALF_COLUMNS
INLINE void load_halves(const struct rows *w, vi out[16]) {
    load64(w, out);
}
INLINE vf half_column(const vi *r, const uint32_t k) {
    if (k % 2) return half_low((vi)((vu32)r[k / 2] >> 16));
    return half_low(r[k / 2]);
}
#endif

// 64 bytes of every row, and the weights of their k-th column.
INLINE void load(const enum ht_format f, const struct rows *w, vi r[16]) {
    if (f == HT_F16)
        load_halves(w, r);
    else
        load64(w, r);
}
INLINE vf column(const enum ht_format f, const vi *r, const uint32_t k) {
    if (f == HT_F16) return half_column(r, k);
    if (f == HT_F32) return (vf)r[k];
    if (k % 2) return (vf)(r[k / 2] & (int32_t)0xffff0000);
    return (vf)(r[k / 2] << 16);
}

INLINE void stream(const enum ht_format f, const uint32_t n, const uint8_t *w, size_t row_bytes,
                   const struct ht_tile_args *t) {
    const uint32_t n_cols = f == HT_F32 ? 16 : 32; // of a load
    const size_t n_bytes = t->n_k * (size_t)(64 / n_cols);
    for (uint32_t part = 0; part < PARTS; part++, w += LANES * row_bytes) {
        const uint8_t *act = t->act;
        struct rows q = rows_of(w, row_bytes, 64, 1);
        struct asker asker = asker_of(w, row_bytes, n_bytes, part, t);
        const float *from = t->from + LANES * part;
        float *to = t->to + LANES * part;
        vf y[STREAM_TOKENS];
        UNROLL(4)
        for (uint32_t i = 0; i < n; i++) y[i] = load_floats(from + i * t->from_stride);
        for (uint32_t k = 0; k < t->n_k; k += n_cols, rows_advance(&q, 64)) {
            vi r[16];
            load(f, &q, r);
            UNROLL(32)
            for (uint32_t j = 0; j < n_cols; j++, act += sizeof(float)) {
                vf c = column(f, r, j);
                if (j % (n_cols / 16) == 0) ask(&asker, 64 * LANES, j / (n_cols / 16), 16);
                UNROLL(4)
                for (uint32_t i = 0; i < n; i++)
                    y[i] = fma_add(
                        c, splat(*(const float *)(const void *)(act + i * t->act_stride)), y[i]);
            }
            ask_block(&asker, 64 * LANES);
        }
        UNROLL(4)
        for (uint32_t i = 0; i < n; i++) store_floats(to + i * t->to_stride, y[i]);
        ask_rest(&asker, n_bytes);
    }
}

INLINE void streams(const enum ht_format f, const uint8_t *w, size_t row_bytes,
                    const struct ht_tile_args *t) {
    switch (t->n_tokens) {
    case 1: stream(f, 1, w, row_bytes, t); break;
    case 2: stream(f, 2, w, row_bytes, t); break;
    case 3: stream(f, STREAM_TOKENS < 3 ? 1 : 3, w, row_bytes, t); break;
    case 4: stream(f, STREAM_TOKENS < 4 ? 1 : 4, w, row_bytes, t); break;
    default: break;
    }
}

#endif
