// SPDX-License-Identifier: MIT
// Streams of F32, F16 and BF16 weights (as f32): kernels that multiply out of the file's bytes,
// without a panel, for few tokens; and how columns of weights are made, which packers share. A file
// includes the header of its instruction set and defines in front
//   STREAM_TOKENS   at most 4
//   CHAINS          how many times LANES rows a stream of one or two tokens reads side by side (1,
//                   the default, or 2): a row's sum is one chain of fmas, so that one register of
//                   rows has an fma only as often as the one before it has ended
#ifndef HT_LINEAR_FLOAT_STREAM_H
#define HT_LINEAR_FLOAT_STREAM_H

#include "backend/cpu/linear/ask.h"

#ifndef CHAINS
#define CHAINS 1
#endif

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

// How many times LANES rows are read side by side.
INLINE uint32_t parts_together(const uint32_t n) {
    return n <= 2 ? CHAINS : 1;
}

INLINE void stream(const enum ht_format f, const uint32_t n, const uint8_t *w, size_t row_bytes,
                   const struct ht_tile_args *t) {
    const uint32_t n_cols = f == HT_F32 ? 16 : 32; // of 64 bytes
    const uint32_t m = parts_together(n);
    const size_t n_bytes = t->n_k * (size_t)(64 / n_cols);
    for (uint32_t part = 0; part < PARTS; part += m, w += m * LANES * row_bytes) {
        const uint8_t *act = t->act;
        struct rows q[CHAINS];
        struct asker asker = asker_of(w, row_bytes, n_bytes, part, m, false, t);
        const float *from = t->from + LANES * part;
        float *to = t->to + LANES * part;
        vf y[CHAINS][STREAM_TOKENS];
        UNROLL(4)
        for (uint32_t p = 0; p < m; p++) {
            q[p] = rows_of(w + p * LANES * row_bytes, row_bytes, 64, 1);
            UNROLL(4)
            for (uint32_t i = 0; i < n; i++)
                y[p][i] = load_floats(from + i * t->from_stride + p * LANES);
        }
        for (uint32_t k = 0; k < t->n_k; k += n_cols) {
            vi r[CHAINS][16];
            UNROLL(4)
            for (uint32_t p = 0; p < m; p++) load(f, &q[p], r[p]);
            UNROLL(32)
            for (uint32_t j = 0; j < n_cols; j++, act += sizeof(float)) {
                if (j % (n_cols / 16) == 0) ask(&asker, 64 * LANES * m, j / (n_cols / 16), 16);
                UNROLL(4)
                for (uint32_t p = 0; p < m; p++) {
                    vf c = column(f, r[p], j);
                    UNROLL(4)
                    for (uint32_t i = 0; i < n; i++) {
                        const void *x = act + i * t->act_stride;
                        y[p][i] = fma_add(c, splat(*(const float *)x), y[p][i]);
                    }
                }
            }
            UNROLL(4)
            for (uint32_t p = 0; p < m; p++) rows_advance(&q[p], 64);
        }
        UNROLL(4)
        for (uint32_t p = 0; p < m; p++) {
            UNROLL(4)
            for (uint32_t i = 0; i < n; i++)
                store_floats(to + i * t->to_stride + p * LANES, y[p][i]);
        }
        ask_rest(&asker, n_bytes, m * LANES);
    }
}

INLINE void streams(const enum ht_format f, const uint8_t *w, size_t row_bytes,
                    const struct ht_tile_args *t) {
    const uint32_t m = STREAM_TOKENS;
#define STREAM_OF(n)                                                                               \
    case n:                                                                                        \
        if (m >= (n)) stream(f, m < (n) ? 1 : (n), w, row_bytes, t);                               \
        break
    switch (t->n_tokens) {
        STREAM_OF(1);
        STREAM_OF(2);
        STREAM_OF(3);
        STREAM_OF(4);
    default: break;
    }
#undef STREAM_OF
}

#endif
