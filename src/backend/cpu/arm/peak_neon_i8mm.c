// SPDX-License-Identifier: MIT
// The ceiling of level neon_i8mm beside those of neon_dotprod: codes by smmla (2 x 8 times 8 x 2).
// bf16 is multiplied as f32 (docs/kernels.md, "neon_i8mm"). No state; any thread.
#define HT_PEAK_SUMS 20 // of 32 registers: some cores want 16 (Apple) or 18 (A64FX)

#include <arm_neon.h>

#include "backend/cpu/peak.h"
#include "backend/cpu/vec_unroll.h"

HT_PEAK_LOOP(int8_i8mm, int32x4_t, vdupq_n_s32(0), int8x16_t, vdupq_n_s8(3), "w", vmmlaq_s32)

void ht_peak_init_neon_i8mm(struct ht_peak_kernels *k) {
    k->int8 = int8_i8mm;
    k->int8_macs = 32 * HT_PEAK_SUMS;
}
