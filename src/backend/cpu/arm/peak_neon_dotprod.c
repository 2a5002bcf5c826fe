// SPDX-License-Identifier: MIT
// The ceiling of level neon_dotprod beside those of neon: codes by sdot. No state; any thread.
#include <arm_neon.h>

#include "backend/cpu/peak.h"
#include "backend/cpu/vec_unroll.h"

static void int8_dotprod(uint64_t n) {
    int32x4_t sum[HT_PEAK_SUMS];
    int8x16_t x = vdupq_n_s8(3), y = vdupq_n_s8(5);
    UNROLL
    for (int i = 0; i < HT_PEAK_SUMS; i++) {
        sum[i] = vdupq_n_s32(0);
        __asm__ volatile("" : "+w"(sum[i])); // nothing that another sum might be
    }
    for (; n > 0; n--) {
        UNROLL
        for (int i = 0; i < HT_PEAK_SUMS; i++) sum[i] = vdotq_s32(sum[i], x, y);
        __asm__ volatile("" : "+w"(x));
    }
    UNROLL
    for (int i = 0; i < HT_PEAK_SUMS; i++) __asm__ volatile("" ::"w"(sum[i]));
}

void ht_peak_init_neon_dotprod(struct ht_peak_kernels *k) {
    k->int8 = int8_dotprod;
    k->int8_lanes = 16;
}
