// SPDX-License-Identifier: MIT
// Operations of vec_lanes.h and vec_i16.h for levels that have no instructions of their own for
// them, made of the others. A level's file includes this behind those and in front of vec_lanes.h.
#ifndef HT_CPU_VEC_PLAIN_H
#define HT_CPU_VEC_PLAIN_H

#include "backend/cpu/vec.h"
#include "backend/cpu/vec_unroll.h"

static INLINE struct v16 v_scale2_above(struct v16 a, struct v16 n, struct v16 x,
                                        struct v16 limit) {
    return v_select_le(x, limit, v_set1(0.0f), v_scale2(a, n));
}
static INLINE struct v16 v_sums(const float (*x)[HT_LANES], uint32_t n) {
    float sum[HT_LANES] = {0};
    for (uint32_t r = 0; r < n; r++) sum[r] = v_sum(v_load(x[r]));
    return v_load(sum);
}
static INLINE struct v16 v_mosts(const float (*x)[HT_LANES], uint32_t n) {
    float most[HT_LANES] = {0};
    for (uint32_t r = 0; r < n; r++) most[r] = v_most(v_load(x[r]));
    return v_load(most);
}
static INLINE void v_store_i16x2(int16_t *y, struct v16 a, struct v16 b) {
    v_store_i16(y, a);
    v_store_i16(y + HT_LANES, b);
}

#endif
