// SPDX-License-Identifier: MIT
// Where a tile's sums go in the end. Included by files with tiles, behind their level's header of
// vectors.
#ifndef HT_LINEAR_OUT_H
#define HT_LINEAR_OUT_H

#include "backend/cpu/linear/vec.h"

// Asks for the lines that n tokens' sums of n_rows rows from `row` on will be written to: they
// arrive while the sums are made.
INLINE void ask_output(const struct ht_tile_args *t, uint32_t token, const uint32_t n, uint32_t row,
                       const int n_rows) {
    if (!t->out) return;
    const float *to = t->out + token * t->out_stride + row;
    UNROLL(12)
    for (uint32_t i = 0; i < n; i++) {
        UNROLL(4)
        for (int r = 0; r + 16 <= n_rows; r += 16)
            __builtin_prefetch(to + i * t->out_stride + r, 1);
    }
}

// The residual in front of sums that are still in registers, of a whole tile of n tokens and
// n_vectors vectors of rows from `row` on. All of it is read before anything is written, since it
// may be the output.
#define ADD_SUMS(n, n_vectors, t, token, row, y)                                                   \
    do {                                                                                           \
        const float *add_ = (t)->add + (token) * (t)->add_stride + (row);                          \
        UNROLL(12)                                                                                 \
        for (uint32_t i_ = 0; i_ < (n); i_++) {                                                    \
            UNROLL(4)                                                                              \
            for (int v_ = 0; v_ < (n_vectors); v_++)                                               \
                (y)[i_][v_] += load_floats(add_ + i_ * (t)->add_stride + v_ * LANES);              \
        }                                                                                          \
    } while (0)

// The same of n tokens whose sums were stored.
static __attribute__((noinline)) void add_output(const struct ht_tile_args *t, uint32_t token,
                                                 uint32_t n) {
    for (; n > 0; n--, token++) {
        const float *from = t->to + token * t->to_stride, *add = t->add + token * t->add_stride;
        float *to = t->out + token * t->out_stride;
        vf sum[PARTS];
        UNROLL(8)
        for (int v = 0; v < PARTS; v++)
            sum[v] = load_floats(add + v * LANES) + load_floats(from + v * LANES);
        UNROLL(8)
        for (int v = 0; v < PARTS; v++) store_floats(to + v * LANES, sum[v]);
    }
}

#endif
