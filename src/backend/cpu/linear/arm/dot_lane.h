// SPDX-License-Identifier: MIT
// What sdot multiplies: four codes of a register by four of another, or by one word of it.
#ifndef HT_LINEAR_DOT_LANE_H
#define HT_LINEAR_DOT_LANE_H

#include "backend/cpu/linear/arm/vec_neon.h"

INLINE vi dot4(vi acc, vi code, vi q) {
    return (vi)vdotq_s32((int32x4_t)acc, (int8x16_t)code, (int8x16_t)q);
}
#define dot4_small dot4

// By word c of q. The 16 codes that it is among are loaded once for all four.
INLINE vi dot4_lane(vi acc, vi code, const int8_t *q, const uint32_t c) {
    const int8x16_t four = vld1q_s8(q + c / 4 * 16);
    switch (c % 4) {
    case 0: return (vi)vdotq_laneq_s32((int32x4_t)acc, (int8x16_t)code, four, 0);
    case 1: return (vi)vdotq_laneq_s32((int32x4_t)acc, (int8x16_t)code, four, 1);
    case 2: return (vi)vdotq_laneq_s32((int32x4_t)acc, (int8x16_t)code, four, 2);
    default: return (vi)vdotq_laneq_s32((int32x4_t)acc, (int8x16_t)code, four, 3);
    }
}
#define DOT4_BY_LANE 1

#endif
