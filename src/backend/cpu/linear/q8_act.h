// SPDX-License-Identifier: MIT
// Activations in 8 bits, block by block, of a level with q8.h (to be included first).
#ifndef HT_LINEAR_Q8_ACT_H
#define HT_LINEAR_Q8_ACT_H

#include <math.h>

// best_top of scalar.c.
INLINE float best_top(const struct ht_act_how *how, const vf *v, float amax) {
    float best = INFINITY, top = how->top[0];
    UNROLL(3)
    for (int i = 0; i < HT_N_TOPS; i++) {
        vf lane[PARTS / 2], inverse = splat(how->top[i] / amax);
        UNROLL(8)
        for (int p = 0; p < PARTS; p++) {
            vf e = fraction(v[p] * inverse);
            if (p < PARTS / 2)
                lane[p] = e * e;
            else
                lane[p - PARTS / 2] = fma_add(e, e, lane[p - PARTS / 2]);
        }
        float error = reduce_16(lane) * how->weight[i];
        top = error < best ? how->top[i] : top;
        best = error < best ? error : best;
    }
    return top;
}

static void act_q8(const struct ht_act_how *how, const float *x, uint32_t n_in,
                   struct ht_act_q8 *dst, size_t dst_step) {
    uint32_t whole = n_in & ~31u;
    for (uint32_t k = 0; k < whole; k += HT_Q8_BLOCK, dst = ht_act_block(dst, 1, dst_step)) {
        vf v[PARTS];
        vi magnitude = splat_int(0);
        UNROLL(8)
        for (int i = 0; i < PARTS; i++) {
            v[i] = load_floats(x + k + i * LANES);
            magnitude = max_unsigned(magnitude, (vi)v[i] & 0x7fffffff);
        }
        uint32_t amax_bits = reduce_max(magnitude);
        float amax;
        __builtin_memcpy(&amax, &amax_bits, 4);
        if (amax_bits >= 0x7f800000 || !(how->top[0] / amax < INFINITY)) {
            ht_act_q8_scalar(how, x + k, HT_Q8_BLOCK, dst, dst_step);
            continue;
        }
        float top = best_top(how, v, amax), inverse = top / amax;
        vi sum[2] = {splat_int(0), splat_int(0)}, q[PARTS], pairs = splat_int(0);
        UNROLL(8)
        for (int i = 0; i < PARTS; i++) {
            q[i] = round_int(v[i] * splat(inverse));
            sum[i / (PARTS / 2)] += q[i];
            store_bytes(dst->q + i * LANES, q[i]);
        }
        UNROLL(4)
        for (int i = 0; i < PARTS / 2; i++) pairs += q[i] * (q[PARTS / 2 + i] + 128);
        dst->scale = amax / top;
        ht_act_set_rest(how->rest, dst, reduce_add(sum[0]), reduce_add(sum[1]), reduce_add(pairs));
    }
    if (whole < n_in) ht_act_q8_scalar(how, x + whole, n_in - whole, dst, dst_step);
}

#endif
