// SPDX-License-Identifier: MIT
// Panels of Q4_0 and Q4_K by products of sums (q8_sums.h), for AMD's processors with VNNI on
// 512 bits: packers and tiles. No state; any thread.
#include "backend/cpu/linear/x86/sums.h"

#define CODES_SIGNED 0
#define PANEL_BACK   1
#define TILE_VECTORS 2
#define TILE_TOKENS  5

#include "backend/cpu/linear/x86/vec_avx512.h"
#include "backend/cpu/linear/x86/vnni_avx512.h"

#include "backend/cpu/linear/q8_pack.h"
#include "backend/cpu/linear/q8_sums.h"

PACK_FOR_SUMS(HT_Q4_0, ht_sums_pack_q4_0)
PACK_FOR_SUMS(HT_Q4_K, ht_sums_pack_q4_k)

void ht_sums_tile(const struct ht_panel *p, const struct ht_tile_args *t) {
    sums_tiles(PLAIN, p, t);
}
void ht_sums_tile_min(const struct ht_panel *p, const struct ht_tile_args *t) {
    sums_tiles(MINS, p, t);
}
