// SPDX-License-Identifier: MIT
// Formats whose codes stand in a grid (quant/grids.h), four or eight at an index, as q8_entries.h
// and x86/avx2_entries.c read them; and two of one and two bits that are packed like them. No
// state; any thread.
#ifndef HT_LINEAR_ENTRIES_H
#define HT_LINEAR_ENTRIES_H

#include <stddef.h>
#if defined(__x86_64__)
#include <emmintrin.h>
#endif

#include "quant/format.h"

#define HT_ENTRY_WORDS 32 // of a block and row, at most: two entries each
#define HT_ENTRY_LOADS 8  // of 16 bytes

struct ht_entries {
    // Of entries of four by twice a weight's place, and by that + 1 where its sign is set; of
    // others by the place, and by that + 8, whatever the third bit is.
    int8_t value[16];
    uint8_t n;                             // weights of an entry: 4, 8, or 0: there are none
    uint8_t n_loads, load[HT_ENTRY_LOADS]; // where 16 bytes each of a block are
    float factor;                          // a scale is d * factor * (1 + 2 s)
    const uint16_t *grid;                  // of n_grid entries
    uint32_t n_grid;
};

// The formats that have entries, each with a stream for one token: the weights of an entry, whether
// a group of 32 has two scales, and whether codes are small: not beyond 15.
#define HT_ENTRY_STREAMS(DO) HT_IQ1_STREAMS(DO) HT_IQ2_IQ3_STREAMS(DO)
#define HT_IQ1_STREAMS(DO)                                                                         \
    DO(HT_IQ1_S, iq1_s, 8, false, true)                                                            \
    DO(HT_IQ1_M, iq1_m, 8, true, true)
#define HT_IQ2_IQ3_STREAMS(DO)                                                                     \
    DO(HT_IQ2_XXS, iq2_xxs, 8, false, false)                                                       \
    DO(HT_IQ2_XS, iq2_xs, 8, true, false)                                                          \
    DO(HT_IQ2_S, iq2_s, 8, true, false)                                                            \
    DO(HT_IQ3_XXS, iq3_xxs, 4, false, false)                                                       \
    DO(HT_IQ3_S, iq3_s, 4, false, true)

// NULL: not such a format.
const struct ht_entries *ht_entries_of(enum ht_format f);

// n indices, a multiple of 8, to the entries they stand for. On the processor's scalar side, where
// no instruction set looks them up in registers (a gather is slower).
void ht_entries_look_up(const uint16_t *grid, uint16_t *index, size_t n);

#if defined(__x86_64__)
// Eight of them. Inserted from memory: fewer instructions than shifts.
static inline __m128i ht_entries_eight(const uint16_t *grid, const uint16_t *index) {
    __m128i x = _mm_cvtsi32_si128(grid[index[0]]);
    x = _mm_insert_epi16(x, grid[index[1]], 1);
    x = _mm_insert_epi16(x, grid[index[2]], 2);
    x = _mm_insert_epi16(x, grid[index[3]], 3);
    x = _mm_insert_epi16(x, grid[index[4]], 4);
    x = _mm_insert_epi16(x, grid[index[5]], 5);
    x = _mm_insert_epi16(x, grid[index[6]], 6);
    return _mm_insert_epi16(x, grid[index[7]], 7);
}
#endif

#endif
