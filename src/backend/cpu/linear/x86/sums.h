// SPDX-License-Identifier: MIT
// Packers and tiles of codes of four bits by products of sums (avx512vnni_sums.c), and packers of
// repacked ones (avx512vbmi_repacked.c).
#ifndef HT_LINEAR_X86_SUMS_H
#define HT_LINEAR_X86_SUMS_H

#include "backend/cpu/linear/kernels.h"

ht_pack_fn ht_sums_pack_q4_0, ht_sums_pack_q4_k;
ht_pack_fn ht_repacked_sums_pack_q4_0, ht_repacked_sums_pack_q4_k;
ht_tile_fn ht_sums_tile, ht_sums_tile_min;

#endif
