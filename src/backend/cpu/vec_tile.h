// SPDX-License-Identifier: MIT
// What the register tiles of the attention kernels have in common (vec_lanes.h, vec_i16.h).
#ifndef HT_CPU_VEC_TILE_H
#define HT_CPU_VEC_TILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "backend/cpu/vec_unroll.h"

// Rows of a register tile: with six, four vectors of K or V are converted for each 24
// multiply-adds, but only six query elements loaded; twelve rows by two vectors are slower.
#define PIECE_ROWS 6

// Rows of the next register tile, of n that are left: never six and then a single one. fives:
// whether there is one of five rows.
static INLINE uint32_t piece(uint32_t n, const bool fives) {
    if (!fives && n == 5) return 3;
    if (!fives && n > PIECE_ROWS) return n < 9 || n == 11 ? 4 : PIECE_ROWS;
    return n <= PIECE_ROWS ? n : n < 2 * PIECE_ROWS ? (n + 1) / 2 : PIECE_ROWS;
}

// f(n, ...) with the rows of such a tile as a constant.
#define WITH_PIECE(n, fives, f, ...)                                                               \
    switch (n) {                                                                                   \
    case 1: f(1, __VA_ARGS__); break;                                                              \
    case 2: f(2, __VA_ARGS__); break;                                                              \
    case 3: f(3, __VA_ARGS__); break;                                                              \
    case 4: f(4, __VA_ARGS__); break;                                                              \
    case 5:                                                                                        \
        if (fives) f(5, __VA_ARGS__);                                                              \
        break;                                                                                     \
    default: f(PIECE_ROWS, __VA_ARGS__); break;                                                    \
    }

// Few rows wait for memory: the next tile is asked for while this one is worked on.
static INLINE void fetch(const void *p, size_t bytes) {
    __builtin_prefetch((const uint8_t *)p + bytes, 0, 2);
}

// p, but how it was computed is forgotten: addresses of many rows are made one from the other where
// they are needed, rather than all kept.
static INLINE float *hidden(float *p) {
    __asm__("" : "+r"(p));
    return p;
}

#endif
