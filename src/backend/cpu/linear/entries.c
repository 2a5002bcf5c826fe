// SPDX-License-Identifier: MIT
// The formats of entries; src/quant/gquants.c has pictures of their blocks.
#include "backend/cpu/linear/entries.h"

#include <string.h>

#include "quant/grids.h"

#if defined(__x86_64__)
void ht_entries_look_up(const uint16_t *grid, uint16_t *index, size_t n) {
    for (size_t i = 0; i < n; i += 8)
        _mm_storeu_si128((void *)(index + i), ht_entries_eight(grid, index + i));
}
#else
void ht_entries_look_up(const uint16_t *grid, uint16_t *index, size_t n) {
    for (size_t i = 0; i < n; i += 4) { // at once, since stores are what it waits for
        uint64_t four = grid[index[i]] | (uint64_t)grid[index[i + 1]] << 16 |
                        (uint64_t)grid[index[i + 2]] << 32 | (uint64_t)grid[index[i + 3]] << 48;
        memcpy(index + i, &four, sizeof four);
    }
}
#endif

#define IQ2_VALUES                                                                                 \
    .n = 8, .factor = 0.125f,                                                                      \
    .value = {8, 25, 43, 0, 8, 25, 43, 0, -8, -25, -43, 0, -8, -25, -43, 0}
// -1, 0 and 1, moved by an eighth to either side, eight times.
#define IQ1_VALUES                                                                                 \
    .n = 8, .factor = 0.125f, .value = {-7, 1, 9, 0, -7, 1, 9, 0, -9, -1, 7, 0, -9, -1, 7, 0}
#define GRID(name) .grid = name, .n_grid = sizeof name / sizeof *name

static const struct ht_entries iq2_xxs = {IQ2_VALUES, GRID(ht_grid_iq2_xxs), .n_loads = 4,
                                          .load = {2, 18, 34, 50}};
static const struct ht_entries iq2_xs = {IQ2_VALUES, GRID(ht_grid_iq2_xs), .n_loads = 5,
                                         .load = {2, 18, 34, 50, 58}};
static const struct ht_entries iq2_s = {IQ2_VALUES, GRID(ht_grid_iq2_s), .n_loads = 5,
                                        .load = {34, 50, 66, 2, 18}};
static const struct ht_entries iq3_xxs = {
    .value = {4, -4, 12, -12, 20, -20, 28, -28, 36, -36, 44, -44, 52, -52, 62, -62},
    .n = 4,
    .factor = 0.25f,
    GRID(ht_grid_iq3_xxs),
    .n_loads = 6,
    .load = {66, 82, 2, 18, 34, 50}};
static const struct ht_entries iq3_s = {
    .value = {1, -1, 3, -3, 5, -5, 7, -7, 9, -9, 11, -11, 13, -13, 15, -15},
    .n = 4,
    .factor = 1.0f,
    GRID(ht_grid_iq3_s),
    .n_loads = 8,
    .load = {74, 90, 94, 66, 2, 18, 34, 50}};
static const struct ht_entries iq1_s = {IQ1_VALUES, GRID(ht_grid_iq1), .n_loads = 3,
                                        .load = {34, 2, 18}};
static const struct ht_entries iq1_m = {IQ1_VALUES, GRID(ht_grid_iq1), .n_loads = 4,
                                        .load = {32, 40, 0, 16}};
// No entries: a bit or two of each weight, as they lie.
static const struct ht_entries q1_0 = {
    .value = {-1, -1, -1, -1, -1, -1, -1, -1, 1, 1, 1, 1, 1, 1, 1, 1},
    .factor = 1.0f,
    .n_loads = 1,
    .load = {2}};
static const struct ht_entries q2_0 = {
    .value = {-1, 0, 1, 2}, .factor = 1.0f, .n_loads = 1, .load = {2}};

const struct ht_entries *ht_entries_of(enum ht_format f) {
    switch (f) {
    case HT_IQ2_XXS: return &iq2_xxs;
    case HT_IQ2_XS: return &iq2_xs;
    case HT_IQ2_S: return &iq2_s;
    case HT_IQ3_XXS: return &iq3_xxs;
    case HT_IQ3_S: return &iq3_s;
    case HT_IQ1_S: return &iq1_s;
    case HT_IQ1_M: return &iq1_m;
    case HT_Q1_0: return &q1_0;
    case HT_Q2_0: return &q2_0;
    default: return NULL;
    }
}
