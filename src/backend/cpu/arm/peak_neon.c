// SPDX-License-Identifier: MIT
// The ceilings of level neon: f32 by fmla; codes as the linear kernels multiply them, in 16 bits,
// pairs added in 16, pairs of those in 32. No state; any thread.
#define HT_PEAK_SUMS 20 // of 32 registers: some cores want 16 (Apple) or 18 (A64FX)

#include <arm_neon.h>

#include "backend/cpu/peak.h"
#include "backend/cpu/vec_unroll.h"

static INLINE int32x4_t add_codes(int32x4_t sum, int8x16_t x, int8x16_t y) {
    int16x8_t low = vmull_s8(vget_low_s8(x), vget_low_s8(y)), high = vmull_high_s8(x, y);
    return vpadalq_s16(sum, vaddq_s16(low, high));
}

HT_PEAK_LOOP(int8_neon, int32x4_t, vdupq_n_s32(0), int8x16_t, vdupq_n_s8(3), "w", add_codes)
static INLINE int32x4_t add_halves(int32x4_t sum, int16x8_t x, int16x8_t y) {
    return vmlal_high_s16(vmlal_s16(sum, vget_low_s16(x), vget_low_s16(y)), x, y);
}

HT_PEAK_LOOP(i16_neon, int32x4_t, vdupq_n_s32(0), int16x8_t, vdupq_n_s16(3), "w", add_halves)
HT_PEAK_LOOP(f32_neon, float32x4_t, vdupq_n_f32(0), float32x4_t, vdupq_n_f32(1.0f), "w", vfmaq_f32)

static void read_neon(const void *p, size_t n_bytes) {
    const uint8_t *b = p;
    uint8x16_t sum[8];
    UNROLL
    for (int j = 0; j < 8; j++) sum[j] = vdupq_n_u8(0);
    for (size_t i = 0; i < n_bytes; i += 128) {
        UNROLL
        for (size_t j = 0; j < 8; j++) sum[j] = veorq_u8(sum[j], vld1q_u8(b + i + 16 * j));
    }
    UNROLL
    for (int j = 0; j < 8; j++) __asm__ volatile("" ::"w"(sum[j]));
}

void ht_peak_init_neon(struct ht_peak_kernels *k) {
    k->int8 = int8_neon;
    k->int8_macs = 16 * HT_PEAK_SUMS;
    k->i16 = i16_neon;
    k->i16_macs = 8 * HT_PEAK_SUMS;
    k->f32 = f32_neon;
    k->f32_macs = 4 * HT_PEAK_SUMS;
    k->read = read_neon;
}
