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

// a's elements and b's behind them in another order, of vectors of `type`. (gcc has the other
// function since 12.)
#if defined(__clang__)
#define SHUFFLE(type, a, b, ...) __builtin_shufflevector(a, b, __VA_ARGS__)
#else
#define SHUFFLE(type, a, b, ...) __builtin_shuffle(a, b, (type){__VA_ARGS__})
#endif

#define VECTOR __attribute__((vector_size(4 * LANES), may_alias))
typedef int32_t vi VECTOR;
typedef uint32_t vu32 VECTOR;
typedef uint16_t vu16 VECTOR;
typedef uint8_t vu8 VECTOR;
typedef int8_t vs8 VECTOR;
typedef float vf VECTOR;

// A vector of which the compiler shall know nothing any more.
#if defined(__x86_64__)
#define HIDE(x) __asm__("" : "+v"(x))
#else
#define HIDE(x) __asm__("" : "+w"(x))
#endif

#define ACT_WORDS ((int)sizeof(struct ht_act_q8) / 4)
#define PARTS     (HT_ROW_GROUP / LANES) // vectors of a group of rows

#ifndef REPACKED
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

// Of n blocks of unit_bytes each.
INLINE struct rows rows_of(const uint8_t *p, size_t stride, const uint32_t unit_bytes, uint32_t n) {
    (void)unit_bytes, (void)n;
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

#else
// LANES rows of repacked codes (linear.h), at a block.
struct rows {
    const uint8_t *p, *rest; // the words of a block of all rows; what is left of it
    const uint8_t *end;      // of the pair of blocks
    size_t n_words, n_rest;  // bytes of either
    size_t next, gap;        // bytes from a pair's first block to its second, from word to word
    uint32_t pair, left;     // blocks of this pair, and all blocks, from here on
};

// At a pair: what is left of its blocks, then their words, in turn where blocks have 32 weights.
INLINE void rows_pair(struct rows *w, const uint8_t *p) {
    const bool in_turn = w->n_words < 16 * sizeof(vi);
    w->pair = w->left < 2 ? 1 : 2;
    w->gap = in_turn ? w->pair * sizeof(vi) : sizeof(vi);
    w->next = in_turn ? sizeof(vi) : w->n_words;
    w->rest = p;
    w->p = p + w->pair * w->n_rest;
    w->end = w->p + w->pair * w->n_words;
}

// n blocks of unit_bytes in a row.
INLINE struct rows rows_of(const uint8_t *p, size_t stride, const uint32_t unit_bytes, uint32_t n) {
    (void)stride;
    struct rows w = {.left = n};
    w.n_words = unit_bytes / 4 * sizeof(vi);
    w.n_rest = unit_bytes % 4 * LANES;
    rows_pair(&w, p);
    return w;
}

INLINE void rows_advance(struct rows *w, size_t n) {
    if (w->n_rest == 0) { // blocks are words behind each other
        w->p += n * LANES;
        return;
    }
    w->left--;
    if (--w->pair == 0) {
        rows_pair(w, w->end);
        return;
    }
    w->p += w->next;
    w->rest += w->n_rest;
}

// n words of every row from byte `at` of a block on. What is left of a block may stand in front of
// its words in the file: then `at` counts it, and is no multiple of 4.
INLINE void load_words(const struct rows *w, const size_t at, const int n, vi *out) {
    UNROLL(16)
    for (int i = 0; i < n; i++)
        __builtin_memcpy(&out[i], w->p + (at / 4 + (size_t)i) * w->gap, sizeof *out);
}
INLINE void load16(const struct rows *w, const size_t at, vi out[4]) {
    load_words(w, at, 4, out);
}
#endif

INLINE short word_at(const uint8_t *p) {
    short w;
    __builtin_memcpy(&w, p, 2);
    return w;
}

#endif
