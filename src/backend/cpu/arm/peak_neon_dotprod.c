// SPDX-License-Identifier: MIT
// The ceiling of level neon_dotprod beside those of neon: codes by sdot. No state; any thread.
#define HT_PEAK_SUMS 20 // of 32 registers: some cores want 16 (Apple) or 18 (A64FX)

#include <arm_neon.h>

#include "backend/cpu/peak.h"
#include "backend/cpu/vec_unroll.h"

HT_PEAK_LOOP(int8_dotprod, int32x4_t, vdupq_n_s32(0), int8x16_t, vdupq_n_s8(3), "w", vdotq_s32)

void ht_peak_init_neon_dotprod(struct ht_peak_kernels *k) {
    k->int8 = int8_dotprod;
    k->int8_macs = 16 * HT_PEAK_SUMS;
}
