// SPDX-License-Identifier: MIT
// Scores become weights, and segments join, over 16 lanes (vec_lanes.h has their operations). No
// state; any thread.
#ifndef HT_CPU_VEC_SOFTMAX_H
#define HT_CPU_VEC_SOFTMAX_H

#include <string.h>

#include "backend/cpu/vec.h"
#include "backend/cpu/vec_math.h"
#include "backend/cpu/vec_unroll.h"

// The scores of a row, capped if there is a cap, -inf where it does not look; their lanes' maxima.
static INLINE struct v16 cap_scores(float *s, uint32_t lo, uint32_t hi, float scale_by, float cap) {
    struct v16 none = v_set1(-INFINITY), max = none;
    for (uint32_t g = lo / HT_LANES * HT_LANES; g < hi; g += HT_LANES) {
        struct v16 t = v_load(s + g);
        if (cap != 0.0f) t = vtanh(v_div(v_mul(t, v_set1(scale_by)), v_set1(cap)));
        if (lo > g) t = v_select_lt(v_iota(), v_set1((float)(lo - g)), none, t);
        if (hi < g + HT_LANES) t = v_select_le(v_set1((float)(hi - g)), v_iota(), none, t);
        v_store(s + g, t);
        max = v_max(t, max);
    }
    return max;
}

// The same of a row that sees all of its tile, without a cap.
static INLINE struct v16 most_score(const float *s) {
    struct v16 max = v_set1(-INFINITY);
    UNROLL for (int g = 0; g < HT_TILE_GROUPS; g++) max = v_max(v_load(s + g * HT_LANES), max);
    return max;
}

// Scores of groups [begin, end) become weights; their lanes' sums.
static INLINE struct v16 weights(float *s, uint32_t begin, uint32_t end, struct v16 by,
                                 struct v16 max) {
    struct v16 sum = v_set1(0.0f);
    for (uint32_t g = begin; g < end; g++) {
        struct v16 p = vexp2(v_fms(v_load(s + g * HT_LANES), by, max));
        v_store(s + g * HT_LANES, p);
        sum = v_add(sum, p);
    }
    return sum;
}

// All rows' maxima come first, then all their weights: the long chains of operations of one row run
// beside those of the next.
static void softmax(float *s, uint32_t n_rows, const uint32_t *lo, const uint32_t *hi,
                    float scale_by, float cap, float *m, float (*l)[HT_LANES], float *c) {
    _Alignas(64) float most[HT_LANES][HT_LANES], max[HT_LANES], fall[HT_LANES];
    bool whole = cap == 0.0f;
    for (uint32_t r = 0; r < n_rows; r++) whole &= lo[r] == 0 && hi[r] == HT_TILE;
    uint32_t row = 0;
    do {
        float *at = s + row * HT_TILE;
        struct v16 m_row = whole ? most_score(at) : cap_scores(at, lo[row], hi[row], scale_by, cap);
        v_store(most[row], m_row);
    } while (++row < n_rows);
    struct v16 by = v_set1((cap != 0.0f ? cap : scale_by) * HT_LOG2E), old = v_load_n(m, n_rows);
    struct v16 new = v_max(v_mul(v_mosts(most, n_rows), by), old);
    struct v16 limit = v_set1(HT_SCORE_LIMIT), size = v_abs(new);
    v_store(max, v_select_lt(size, limit, new, v_set1(INFINITY))); // else weights are 0
    new = v_select_lt(size, limit, new, v_set1(NAN));
    struct v16 c_row = vexp2(v_sub(old, new));
    v_store_n(m, new, n_rows);
    v_store(fall, c_row), v_store_n(c, c_row, n_rows);
    for (uint32_t r = 0; r < n_rows; r++, s += HT_TILE) {
        struct v16 sum;
        if (whole) {
            sum = weights(s, 0, HT_TILE_GROUPS, by, v_set1(max[r]));
        } else {
            uint32_t begin = lo[r] / HT_LANES, end = (hi[r] + HT_LANES - 1) / HT_LANES;
            for (uint32_t g = 0; g < HT_TILE_GROUPS; g++)
                if (g < begin || g >= end) v_store(s + g * HT_LANES, v_set1(0.0f));
            sum = weights(s, begin, end, by, v_set1(max[r]));
        }
        v_store(l[r], v_fma(v_load(l[r]), v_set1(fall[r]), sum));
    }
}

static void join(const float *m, const float (*l)[HT_LANES], const float *acc, uint32_t n_rows,
                 uint32_t d, float *all_m, float *all_l, float *sum) {
    float max[HT_LANES], own[HT_LANES], before[HT_LANES], now[HT_LANES];
    struct v16 old = v_load_n(all_m, n_rows), new = v_load_n(m, n_rows), most = v_max(new, old);
    v_store(max, most);
    v_store(own, v_sums(l, n_rows));
    v_store(before, vexp2(v_sub(old, most)));
    v_store(now, vexp2(v_sub(new, most)));
    for (uint32_t r = 0; r < n_rows; r++, acc += d, sum += d) {
        if (own[r] == 0.0f) continue;
        if (all_l[r] == 0.0f) {
            memcpy(sum, acc, d * sizeof *sum);
            all_m[r] = m[r], all_l[r] = own[r];
            continue;
        }
        for (uint32_t e = 0; e < d; e += HT_LANES) {
            struct v16 a = v_mul(v_load_n(sum + e, d - e), v_set1(before[r]));
            v_store_n(sum + e, v_fma(v_set1(now[r]), v_load_n(acc + e, d - e), a), d - e);
        }
        all_m[r] = max[r], all_l[r] = fmaf(own[r], now[r], all_l[r] * before[r]);
    }
}

#endif
