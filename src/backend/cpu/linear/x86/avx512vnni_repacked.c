// SPDX-License-Identifier: MIT
// Packers and streams of codes that were repacked (linear.h), for the levels with VNNI: what the
// file's layout has to be turned for is there as it stands. Codes that are looked up, and
// panels of sums, are in avx512vbmi_repacked.c. No state; any thread.
#include "backend/cpu/linear/x86/repacked.h"

#define ASK_PAGES 1
#define REPACKED
#define CODES_SIGNED 0
#define PANEL_BACK   1
#define TILE_VECTORS 2
#define TILE_TOKENS  4
#define TILE_PARTS   2

#include "backend/cpu/linear/x86/vec_avx512.h"
#include "backend/cpu/linear/x86/vnni_avx512.h"

#define PAIRS_TOKENS  8
#define PAIRS_ALIKE   0 // one code for three blocks: 2 to 9 % slower
#define PAIRS_SIDE(n) 2 // vpdpbusd is waited for longer than eight others take
#define NAME          HT_AVX512_REPACKED

#include "backend/cpu/linear/q8_tile.h"
#include "backend/cpu/linear/x86/repacked_codes.h"

void ht_repacked_tile_q8_0(const struct ht_panel *p, const struct ht_tile_args *t) {
    tiles(32, PLAIN, 0, p, t);
}

void ht_repacked_scales_q8_0(const struct ht_format_info *f, const uint8_t *w, size_t row_bytes,
                             uint32_t n_k, const struct ht_panel *p) {
    (void)f;
    for (uint32_t part = 0; part < PARTS; part++, w += LANES * row_bytes) {
        struct rows q = rows_of(w, row_bytes, 34, n_k / HT_Q8_BLOCK);
        for (uint32_t k = 0; k < n_k; k += HT_Q8_BLOCK, rows_advance(&q, 34)) {
            vf scale = half_rows(&q, 0);
            store_floats(p->scale + k + LANES * part, scale);
            store_floats(p->back + k + LANES * part, back_of(scale));
        }
    }
}
