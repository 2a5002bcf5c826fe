// SPDX-License-Identifier: MIT
// The ceilings of level amx beside those of avx512vnni: tiles of 16 x 16 sums of codes, in blocks
// of 32 as formats have them (a tile instruction takes as long for 32 codes as for 64), and of
// bf16. No state; any thread.
#include "backend/cpu/peak.h"
#include "backend/cpu/vec_unroll.h"
#include "backend/cpu/x86/tile.h"

#define SIDE 16

// Tiles 0 .. 3: sums, 4: 16 rows of act_bytes, 5: what they are multiplied by; all zero.
static INLINE void configure(uint32_t act_bytes) {
    struct tile_config c = {.palette = 1};
    for (int t = 0; t < 6; t++) {
        c.row_bytes[t] = (uint16_t)(t == 4 ? act_bytes : SIDE * 4);
        c.n_rows[t] = (uint8_t)(t == 5 ? act_bytes / 4 : SIDE);
    }
    TILE_CONFIGURE(c);
    __asm__ volatile("tilezero %%tmm0\n\ttilezero %%tmm1\n\ttilezero %%tmm2\n\ttilezero %%tmm3\n\t"
                     "tilezero %%tmm4\n\ttilezero %%tmm5" ::);
}

// HT_PEAK_SUMS times the instruction; four sums are more than its latency by its rate.
#define FOUR(op)                                                                                   \
    __asm__ volatile(op " %%tmm5, %%tmm4, %%tmm0\n\t" op " %%tmm5, %%tmm4, %%tmm1\n\t" op          \
                        " %%tmm5, %%tmm4, %%tmm2\n\t" op " %%tmm5, %%tmm4, %%tmm3" ::)
#define LOOP(name, op, act_bytes)                                                                  \
    static void name(uint64_t n) {                                                                 \
        configure(act_bytes);                                                                      \
        for (; n > 0; n--) {                                                                       \
            UNROLL                                                                                 \
            for (int i = 0; i < HT_PEAK_SUMS / 4; i++) FOUR(op);                                   \
        }                                                                                          \
        TILE_RELEASE();                                                                            \
    }
LOOP(int8_amx, "tdpbssd", 32)
LOOP(bf16_amx, "tdpbf16ps", 64)

void ht_peak_init_amx(struct ht_peak_kernels *k) {
    k->int8 = int8_amx;
    k->int8_macs = SIDE * SIDE * 32 * HT_PEAK_SUMS;
    k->bf16 = bf16_amx;
    k->bf16_macs = SIDE * SIDE * 32 * HT_PEAK_SUMS;
}
