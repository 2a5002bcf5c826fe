// SPDX-License-Identifier: MIT
// Random data for the self-test and for kernel tests and benchmarks: weights of any format whose
// f16 scales are finite and of a usual size, and activations of a usual distribution.
#ifndef HT_CPU_KERN_DATA_H
#define HT_CPU_KERN_DATA_H

#include <stddef.h>
#include <stdint.h>

#include "quant/format.h"

static inline uint32_t kern_random(uint64_t *seed) {
    *seed = *seed * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(*seed >> 33);
}

// Sums of three uniform numbers; now and then an outlier.
static inline void kern_floats(float *x, size_t n, uint64_t *seed) {
    for (size_t i = 0; i < n; i++) {
        float sum = 0;
        for (int j = 0; j < 3; j++) sum += (float)kern_random(seed) / 0x80000000u - 0.5f;
        x[i] = kern_random(seed) % 50 == 0 ? sum * 12 : sum;
    }
}

// Offsets of the f16 numbers in a block of the format, as kern_put_half takes them; -1 ends.
static inline const int *kern_half_offsets(enum ht_format f) {
    static const int at0[] = {0, -1}, at0_2[] = {0, 2, -1}, q2_k[] = {80, 82, -1};
    static const int at108[] = {108, -1}, at208[] = {208, -1}, at52[] = {52, -1};
    static const int at64[] = {64, -1}, at48[] = {48, -1}, none[] = {-1};
    switch (f) {
    case HT_Q4_1:
    case HT_Q5_1:
    case HT_Q4_K:
    case HT_Q5_K: return at0_2;
    case HT_Q2_K: return q2_k;
    case HT_Q3_K: return at108;
    case HT_Q6_K: return at208;
    case HT_TQ1_0: return at52;
    case HT_TQ2_0: return at64;
    case HT_IQ1_M: return at48;
    case HT_F32:
    case HT_NVFP4:
    case HT_MXFP4: return none;
    default: return at0;
    }
}

// IQ1_M's is spread over the upper four bits of four halves.
static inline void kern_put_half(enum ht_format f, uint8_t *block, int at, uint16_t h) {
    block += at;
    if (f != HT_IQ1_M) {
        block[0] = (uint8_t)h;
        block[1] = (uint8_t)(h >> 8);
        return;
    }
    for (int i = 0; i < 4; i++)
        block[2 * i + 1] = (uint8_t)((block[2 * i + 1] & 15) | (h >> 4 * i & 15) << 4);
}

static inline void kern_weights(enum ht_format f, uint8_t *w, size_t n_bytes, uint64_t *seed) {
    const struct ht_format_info *info = ht_format_get((uint32_t)f);
    const int *halves = kern_half_offsets(f);
    if (f == HT_F32 || f == HT_F16 || f == HT_BF16) {
        for (size_t i = 0; i < n_bytes / info->block_bytes; i++) {
            float x;
            kern_floats(&x, 1, seed);
            info->from_f32(&x, w + i * info->block_bytes, 1);
        }
        return;
    }
    for (size_t i = 0; i < n_bytes; i++) w[i] = (uint8_t)(kern_random(seed) >> 8);
    for (size_t b = 0; b + info->block_bytes <= n_bytes; b += info->block_bytes) {
        for (int i = 0; halves[i] >= 0; i++) { // +-0.001 .. 0.25, now and then 0
            uint32_t r = kern_random(seed);
            uint16_t h = (uint16_t)((r & 0x8000) | (0x1400 + (r >> 16) % 0x2000));
            if (r % 61 == 0) h = (uint16_t)(r & 0x83ff); // a subnormal
            kern_put_half(f, w + b, halves[i], h);
        }
        if (f == HT_MXFP4) w[b] = (uint8_t)(118 + w[b] % 8 - (w[b] % 31 == 0 ? 118 : 0));
    }
}

#endif
