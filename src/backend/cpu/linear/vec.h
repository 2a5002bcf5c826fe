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

// Lines that a stream asks for while it works, into the L2 cache (to L1 is far slower on Zen 4).
// Each is asked for once and by itself: a core has room for about two dozen lines that are under
// way, and a burst beyond them holds up every load behind it.
struct asker {
    const uint8_t *line, *due; // asked for up to `line`, which should be at least `due`
};

INLINE struct asker asker_of(const uint8_t *p) {
    const uint8_t *line = p + (-(uintptr_t)p & 63);
    return (struct asker){line, p};
}

// Part i of n_parts of the work during which n_bytes are asked for.
INLINE void ask(struct asker *a, const uint32_t n_bytes, const uint32_t i, const uint32_t n_parts) {
    const uint32_t n = n_bytes / 64 * (i + 1) / n_parts - n_bytes / 64 * i / n_parts;
    UNROLL(4)
    for (uint32_t l = 0; l < n; l++, a->line += 64) {
        // gcc's scheduler would gather them in one place.
        __asm__ volatile("" : "+r"(a->line));
        __builtin_prefetch(a->line, 0, 2);
    }
    if (i + 1 < n_parts) return;
    a->due += n_bytes;
    if (n_bytes % 64 == 0 || a->line >= a->due) return;
    __builtin_prefetch(a->line, 0, 2);
    a->line += 64;
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
