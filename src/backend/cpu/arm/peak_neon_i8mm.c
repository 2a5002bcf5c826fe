// SPDX-License-Identifier: MIT
// The ceilings of level neon_i8mm beside those of neon_dotprod: codes by smmla (2 x 8 times 8 x 2),
// bf16 by bfmmla (2 x 4 times 4 x 2). No state; any thread.
#include <arm_neon.h>

#include "backend/cpu/peak.h"
#include "backend/cpu/vec_unroll.h"

static void int8_i8mm(uint64_t n) {
    int32x4_t sum[HT_PEAK_SUMS];
    int8x16_t x = vdupq_n_s8(3), y = vdupq_n_s8(5);
    UNROLL
    for (int i = 0; i < HT_PEAK_SUMS; i++) {
        sum[i] = vdupq_n_s32(0);
        __asm__ volatile("" : "+w"(sum[i])); // nothing that another sum might be
    }
    for (; n > 0; n--) {
        UNROLL
        for (int i = 0; i < HT_PEAK_SUMS; i++) sum[i] = vmmlaq_s32(sum[i], x, y);
        __asm__ volatile("" : "+w"(x));
    }
    UNROLL
    for (int i = 0; i < HT_PEAK_SUMS; i++) __asm__ volatile("" ::"w"(sum[i]));
}

static void bf16_i8mm(uint64_t n) {
    float32x4_t sum[HT_PEAK_SUMS];
    uint16x8_t one = vdupq_n_u16(0x3f80);
    __asm__ volatile("" : "+w"(one)); // gcc would make the constant by an instruction of FP16
    bfloat16x8_t x = vreinterpretq_bf16_u16(one), y = x;
    UNROLL
    for (int i = 0; i < HT_PEAK_SUMS; i++) {
        sum[i] = vdupq_n_f32(0);
        __asm__ volatile("" : "+w"(sum[i])); // nothing that another sum might be
    }
    for (; n > 0; n--) {
        UNROLL
        for (int i = 0; i < HT_PEAK_SUMS; i++) sum[i] = vbfmmlaq_f32(sum[i], x, y);
        __asm__ volatile("" : "+w"(x));
    }
    UNROLL
    for (int i = 0; i < HT_PEAK_SUMS; i++) __asm__ volatile("" ::"w"(sum[i]));
}

void ht_peak_init_neon_i8mm(struct ht_peak_kernels *k) {
    k->int8 = int8_i8mm;
    k->int8_lanes = 32;
    k->bf16 = bf16_i8mm;
    k->bf16_lanes = 16;
}
