// SPDX-License-Identifier: MIT
// Streams of repacked floats (linear.h): 32 rows of a column, or of two, are lines of memory. A
// file defines REPACKED, includes the header of its instruction set, and defines
//   ACT_BYTES   of an activation
//   MOST        tokens of the largest stream: 3 or 8
//   add(f, n, w, act, at, y): the products of one unit of weights at w, a column (F16) or two
//   (BF16), of all parts, by what lies `at` bytes behind each of n tokens' places
// and includes this.
#ifndef HT_LINEAR_X86_COLUMNS_H
#define HT_LINEAR_X86_COLUMNS_H

#include "backend/cpu/linear/ask.h"

#define COLUMN_BYTES (HT_ROW_GROUP * 2)
#define STEP         8 // columns at once

// All parts of a group side by side: of one token, each is a chain of products, and they take
// turns.
INLINE void stream(const enum ht_format f, const uint32_t n, const uint8_t *w, size_t row_bytes,
                   const struct ht_tile_args *t) {
    const uint32_t unit = f == HT_F16 ? 1 : 2; // columns
    const uint8_t *act[MOST];
    struct asker asker = asker_of(w, row_bytes, PARTS - 1, t);
    vf y[MOST][PARTS];
    UNROLL(8)
    for (uint32_t i = 0; i < n; i++) {
        act[i] = t->act + i * t->act_stride;
        UNROLL(4)
        for (int p = 0; p < PARTS; p++)
            y[i][p] = load_floats(t->from + i * t->from_stride + p * LANES);
    }
    for (uint32_t k = 0; k < t->n_k; k += STEP) {
        UNROLL(8)
        for (uint32_t j = 0; j < STEP; j += unit, w += unit * COLUMN_BYTES) {
            ask(&asker, STEP * COLUMN_BYTES, j, STEP, unit);
            add(f, n, w, act, (size_t)j * ACT_BYTES, y);
        }
        UNROLL(8)
        for (uint32_t i = 0; i < n; i++) {
            act[i] += STEP * ACT_BYTES;
            __asm__("" : "+r"(act[i])); // a register each, not sums of others
        }
        ask_block(&asker, f, n, STEP * COLUMN_BYTES);
    }
    UNROLL(8)
    for (uint32_t i = 0; i < n; i++) {
        UNROLL(4)
        for (int p = 0; p < PARTS; p++) store_floats(t->to + i * t->to_stride + p * LANES, y[i][p]);
    }
}

INLINE void streams(const enum ht_format f, const uint8_t *w, size_t row_bytes,
                    const struct ht_tile_args *t) {
    switch (t->n_tokens) {
    case 1: stream(f, 1, w, row_bytes, t); break;
    case 2: stream(f, 2, w, row_bytes, t); break;
#if MOST > 3
    case 3: stream(f, 3, w, row_bytes, t); break;
    case 4: stream(f, 4, w, row_bytes, t); break;
    case 5: stream(f, 5, w, row_bytes, t); break;
    case 6: stream(f, 6, w, row_bytes, t); break;
    case 7: stream(f, 7, w, row_bytes, t); break;
#endif
    default: stream(f, MOST, w, row_bytes, t); break;
    }
}

#endif
