// SPDX-License-Identifier: MIT
// The grids of the IQ formats: the eight or four weights that an index stands for. Const data.
#ifndef HT_QUANT_GRIDS_H
#define HT_QUANT_GRIDS_H

#include <stdint.h>

// Eight weights an entry, two bits each: their places in a list of three values. Weight j at bit
// j % 2 * 8 + j / 2 * 2, so that a shift and masks leave neighbours in bytes beside each other.
extern const uint16_t ht_grid_iq1[2048], ht_grid_iq2_xxs[256], ht_grid_iq2_xs[512];
extern const uint16_t ht_grid_iq2_s[1024];
// Four weights, four bits each, weight j at bit j % 2 * 8 + j / 2 * 4: twice the place in a list of
// eight values, and one, which of IQ3_S is the value.
extern const uint16_t ht_grid_iq3_xxs[256], ht_grid_iq3_s[512];

#endif
