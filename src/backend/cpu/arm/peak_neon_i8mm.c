// SPDX-License-Identifier: MIT
// The ceilings of level neon_i8mm beside those of neon_dotprod: codes by smmla (2 x 8 times 8 x 2),
// bf16 by bfmmla (2 x 4 times 4 x 2). No state; any thread.
#define HT_PEAK_SUMS 20 // of 32 registers: some cores want 16 (Apple) or 18 (A64FX)

#include <arm_neon.h>

#include "backend/cpu/peak.h"
#include "backend/cpu/vec_unroll.h"

// 1; gcc 12 would make it by an instruction of FP16, which this level does not ask for.
static INLINE bfloat16x8_t one(void) {
    uint16x8_t bits = vdupq_n_u16(0x3f80);
    __asm__ volatile("" : "+w"(bits));
    return vreinterpretq_bf16_u16(bits);
}

HT_PEAK_LOOP(int8_i8mm, int32x4_t, vdupq_n_s32(0), int8x16_t, vdupq_n_s8(3), "w", vmmlaq_s32)
HT_PEAK_LOOP(bf16_i8mm, float32x4_t, vdupq_n_f32(0), bfloat16x8_t, one(), "w", vbfmmlaq_f32)

void ht_peak_init_neon_i8mm(struct ht_peak_kernels *k) {
    k->int8 = int8_i8mm;
    k->int8_macs = 32 * HT_PEAK_SUMS;
    k->bf16 = bf16_i8mm;
    k->bf16_macs = 16 * HT_PEAK_SUMS;
}
