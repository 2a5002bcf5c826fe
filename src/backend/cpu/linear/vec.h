// SPDX-License-Identifier: MIT
// The vector types of an instruction set's header, which defines LANES (32-bit lanes of a register)
// first. Arithmetic, logic and shifts are GNU vectors; what those cannot say is in the header.
#ifndef HT_LINEAR_VEC_H
#define HT_LINEAR_VEC_H

#include "backend/cpu/linear/kernels.h"

#define INLINE static inline __attribute__((always_inline))

// In front of a loop of a constant number of turns: every turn becomes straight code, so that
// arrays indexed by the loop live in registers.
#define PRAGMA(text) _Pragma(#text)
#if defined(__clang__)
#define UNROLL(n) PRAGMA(clang loop unroll(full))
#else
#define UNROLL(n) PRAGMA(GCC unroll n)
#endif

#define VECTOR __attribute__((vector_size(4 * LANES), may_alias))
typedef int32_t vi VECTOR;
typedef uint32_t vu32 VECTOR;
typedef uint16_t vu16 VECTOR;
typedef uint8_t vu8 VECTOR;
typedef float vf VECTOR;

// LANES rows of weights, stride bytes apart. Addresses are those of every ROWS_A_POINTER-th row and
// what an instruction adds to it for nothing, so that all rows take a few registers.
#ifndef ROWS_A_POINTER
#define ROWS_A_POINTER 4
#endif
struct rows {
    const uint8_t *p[LANES / ROWS_A_POINTER];
    size_t stride, stride3;
};

// The compiler would make each pointer anew from the first one, each time, if it knew how.
INLINE void rows_hide(struct rows *w) {
    UNROLL(4)
    for (int i = 0; i < LANES / ROWS_A_POINTER; i++) __asm__("" : "+r"(w->p[i]));
}

INLINE struct rows rows_of(const uint8_t *p, size_t stride) {
    struct rows w = {.stride = stride, .stride3 = 3 * stride};
    UNROLL(4)
    for (int i = 0; i < LANES / ROWS_A_POINTER; i++)
        w.p[i] = p + (size_t)(i * ROWS_A_POINTER) * stride;
    __asm__("" : "+r"(w.stride3));
    rows_hide(&w);
    return w;
}

// n bytes further on.
INLINE void rows_advance(struct rows *w, size_t n) {
    UNROLL(4)
    for (int i = 0; i < LANES / ROWS_A_POINTER; i++) w->p[i] += n;
    rows_hide(w);
}

INLINE const uint8_t *row_at(const struct rows *w, const int row, const size_t at) {
    const uint8_t *p = w->p[row / ROWS_A_POINTER];
    switch (row % ROWS_A_POINTER) {
    case 0: return p + at;
    case 1: return p + w->stride + at;
    case 2: return p + 2 * w->stride + at;
    default: return p + w->stride3 + at;
    }
}

INLINE short word_at(const uint8_t *p) {
    short w;
    __builtin_memcpy(&w, p, 2);
    return w;
}

// Lines that a stream asks for while it works on LANES rows, into the L2 cache (to L1 is far slower
// on Zen 4): those of the LANES rows behind them, in the order in which they will be read. So when
// the memory is behind, the stream waits for the oldest while the others arrive. Few are asked for
// at a time: a burst holds up every load behind it.
struct asker {
    const uint8_t *line; // of row `row`
    size_t stride;       // from row to row
    uint32_t row, left;  // left: lines of each row
    uint32_t rest;       // bytes read, beyond those that lines were asked for
};

// While LANES rows from w on are read, n_bytes of each, the last of their group or not.
INLINE struct asker asker_of(const uint8_t *w, size_t stride, size_t n_bytes, bool last,
                             const struct ht_tile_args *t) {
    const uint32_t n_lines = (uint32_t)((last ? t->ahead_bytes : n_bytes) + 63) / 64;
    if (last) return (struct asker){t->ahead, t->ahead_stride, 0, n_lines, 0};
    return (struct asker){w + LANES * stride, stride, 0, n_lines, 0};
}

// A line of each of so many rows is asked for at a time, so that counting them costs less.
#define ASK_ROWS  4
#define ASK_BYTES (64 * ASK_ROWS)

INLINE void ask_lines(struct asker *a) {
    // gcc's scheduler would gather them in one place.
    __asm__ volatile("" : "+r"(a->line));
    UNROLL(4)
    for (int i = 0; i < ASK_ROWS; i++, a->line += a->stride) __builtin_prefetch(a->line, 0, 2);
    a->row += ASK_ROWS;
    if (a->row < LANES) return;
    a->row = 0;
    a->line += 64 - LANES * a->stride;
    if (--a->left == 0) a->stride = 64 / LANES; // no more: the same line again and again
}

// Part i of n_parts of the work in which n_bytes are read.
INLINE void ask(struct asker *a, const uint32_t n_bytes, const uint32_t i, const uint32_t n_parts) {
    const uint32_t all = n_bytes / ASK_BYTES, n = all * (i + 1) / n_parts - all * i / n_parts;
    UNROLL(4)
    for (uint32_t l = 0; l < n; l++) ask_lines(a);
    if (i + 1 < n_parts || n_bytes % ASK_BYTES == 0) return;
    a->rest += n_bytes % ASK_BYTES;
    if (a->rest < ASK_BYTES) return;
    a->rest -= ASK_BYTES;
    ask_lines(a);
}

// Behind LANES rows of n_bytes: a row has a line more than its bytes fill.
INLINE void ask_rest(struct asker *a, size_t n_bytes) {
    a->rest += (uint32_t)(-n_bytes & 63) * LANES;
    for (; a->rest >= ASK_BYTES; a->rest -= ASK_BYTES) ask_lines(a);
}

// Asks for the lines that n tokens' sums of n_rows rows will be written to, `stride` floats from
// token to token: they arrive while the sums are made.
INLINE void ask_output(const float *to, size_t stride, const uint32_t n, const int n_rows) {
    UNROLL(12)
    for (uint32_t i = 0; i < n; i++) {
        UNROLL(4)
        for (int r = 0; r + 16 <= n_rows; r += 16) __builtin_prefetch(to + i * stride + r);
    }
}

// The lines to ask for in the inner loop of a tile: of n_rows rows, evenly over all its turns.
struct ahead {
    const uint8_t *line, *end; // of the row's part
    uint32_t n_rows, lines_a_step;
};

// n_steps: how often the loop will ask, at least.
INLINE struct ahead ahead_of(const struct ht_tile_args *t, uint32_t n_steps) {
    // As many a row as ahead_step asks for.
    const uint32_t n_lines = HT_ROW_GROUP * ((t->ahead_bytes + 126) / 64);
    return (struct ahead){t->ahead, t->ahead + t->ahead_bytes, t->ahead_bytes ? HT_ROW_GROUP : 0,
                          n_lines / n_steps + 1};
}

INLINE void ahead_step(struct ahead *a, const struct ht_tile_args *t) {
    for (uint32_t i = 0; i < a->lines_a_step && a->n_rows > 0; i++) {
        __builtin_prefetch(a->line, 0, 2);
        a->line += 64;
        if (a->line < a->end + 63) continue;
        a->end += t->ahead_stride;
        a->line = a->end - t->ahead_bytes;
        a->n_rows--;
    }
}

#endif
