// SPDX-License-Identifier: MIT
// Activations in 8 bits, LANES blocks at a time: turned, so that a lane is a block and nothing has
// to be added up across lanes, and turned back at the end into whole blocks. The numbers are those
// of act_q8 (q8_act.h), which does a few blocks, and those that hold an infinity or NaN.
#ifndef HT_LINEAR_ACT_H
#define HT_LINEAR_ACT_H

#include "backend/cpu/linear/q8_act.h"

#define ACT_FLOATS (LANES * HT_Q8_BLOCK)

// v[i] lane b: element i of block b.
INLINE void load_blocks(const float *x, vf v[HT_Q8_BLOCK]) {
    struct rows r = rows_of((const uint8_t *)x, HT_Q8_BLOCK * sizeof *x, 0, 0);
    load64(&r, (vi *)v);
    rows_advance(&r, 64);
    load64(&r, (vi *)v + 16);
}

// The bits of each block's largest magnitude.
INLINE vi max_magnitude(const vf v[HT_Q8_BLOCK]) {
    vi most[4] = {0};
    UNROLL(32)
    for (int i = 0; i < HT_Q8_BLOCK; i++)
        most[i % 4] = max_unsigned(most[i % 4], (vi)v[i] & 0x7fffffff);
    return max_unsigned(max_unsigned(most[0], most[1]), max_unsigned(most[2], most[3]));
}

INLINE vf square_of_two(const vf *v, const int i, vf inverse) {
    vf e = fraction(v[i] * inverse), f = fraction(v[16 + i] * inverse);
    return fma_add(f, f, e * e);
}

// Sums of the squared rounding errors, in scalar's order.
INLINE vf rounding_errors(const vf v[HT_Q8_BLOCK], vf inverse) {
    vf sum[4];
    UNROLL(4)
    for (int i = 0; i < 4; i++)
        sum[i] = (square_of_two(v, i, inverse) + square_of_two(v, 8 + i, inverse)) +
                 (square_of_two(v, 4 + i, inverse) + square_of_two(v, 12 + i, inverse));
    return (sum[0] + sum[2]) + (sum[1] + sum[3]);
}

// Four elements' codes as the bytes of a word, and added to sum.
INLINE vi round_four(const vf *v, vf inverse, vi *sum) {
    vi q[4];
    UNROLL(4)
    for (int i = 0; i < 4; i++) {
        q[i] = round_int(v[i] * inverse);
        *sum += q[i];
    }
    return pack_four(q);
}

// The sum of q[i] * (q[16 + i] + 128), whose second factors are unsigned as VNNI wants them.
INLINE vi sum_pairs_of(const vi word[8], vi low) {
    const int flip = CODES_SIGNED ? 0 : 128; // signed ones: what 128 gives is known
    vi sum = low * (128 - flip);
    UNROLL(4)
    for (int i = 0; i < 4; i++) sum = dot4(sum, word[4 + i] ^ bytes(flip), word[i]);
    return sum;
}

// What goes into a block behind the codes (ht_act_set_rest), of these and of the sums of both
// halves.
INLINE void set_rest(enum ht_act_rest rest, vf step, vi low, vi high, vi word[ACT_WORDS]) {
    const vi sum = low + high;
    word[8] = (vi)step;
    if (rest == HT_REST_HALVES) {
        word[9] = HT_SHIFTED - (low << 7); // * 128
        word[10] = HT_SHIFTED - (high << 7);
        return;
    }
    const vi pairs = sum_pairs_of(word, low);
    if (rest == HT_REST_SUM) {
        word[9] = (vi)(step * __builtin_convertvector(sum, vf));
        word[10] = pairs - (sum << 3);
    } else {
        word[9] = HT_SHIFTED - (sum << 7);
        word[10] = pairs;
    }
}

// LANES blocks on their way, and what is known of them.
struct group {
    vf v[HT_Q8_BLOCK], amax, inverse[HT_N_TOPS], top;
    vi usual; // where codes and step are not 0
};

// Reads LANES blocks, or n and zeros behind them. False where one holds an infinity or a NaN.
INLINE bool read_group(const struct ht_act_how *how, const float *x, uint32_t n, struct group *g) {
    float last[ACT_FLOATS];
    if (n < LANES) {
        for (uint32_t i = 0; i < ACT_FLOATS; i += LANES)
            store_floats(last + i, i < n * HT_Q8_BLOCK ? load_floats(x + i) : splat(0));
        x = last;
    }
    load_blocks(x, g->v);
    vi bits = max_magnitude(g->v);
    g->amax = (vf)bits;
    UNROLL(3)
    for (int i = 0; i < HT_N_TOPS; i++) g->inverse[i] = splat(how->top[i]) / g->amax;
    g->usual = g->inverse[0] < splat(INFINITY);
    return reduce_max(bits) < 0x7f800000;
}

// Which of the steps rounds best, to inverse[0].
INLINE void choose_step(const struct ht_act_how *how, struct group *g) {
    vf error[HT_N_TOPS], inverse = g->inverse[0], top = splat(how->top[0]);
    UNROLL(3)
    for (int i = 0; i < HT_N_TOPS; i++)
        error[i] = rounding_errors(g->v, g->inverse[i]) * splat(how->weight[i]);
    UNROLL(2)
    for (int i = 1; i < HT_N_TOPS; i++) {
        vi better = error[i] < error[0];
        error[0] = (vf)choose(better, (vi)error[i], (vi)error[0]);
        inverse = (vf)choose(better, (vi)g->inverse[i], (vi)inverse);
        top = (vf)choose(better, (vi)splat(how->top[i]), (vi)top);
    }
    g->inverse[0] = (vf)((vi)inverse & g->usual);
    g->top = top;
}

// Of the first n blocks.
INLINE void write_group(enum ht_act_rest rest, const struct group *g, uint32_t n,
                        struct ht_act_q8 *dst, size_t dst_step) {
    vi word[ACT_WORDS], sum[2] = {0};
    UNROLL(8)
    for (int i = 0; i < 8; i++) word[i] = round_four(g->v + 4 * i, g->inverse[0], &sum[i / 4]);
    vf step = (vf)((vi)(g->amax / g->top) & g->usual);
    set_rest(rest, step, sum[0], sum[1], word);
    store_blocks(word, n, dst, dst_step);
}

// Some groups take each step together: at its end a group waits for its maximum, its quotients or
// its errors, and the work on one is longer than what a processor looks ahead.
#define GROUPS 4

// n blocks of at most so many groups. False, and nothing done, where one holds an infinity or a
// NaN.
static bool quantise_groups(const struct ht_act_how *how, const float *x, uint32_t n,
                            struct ht_act_q8 *dst, size_t dst_step) {
    struct group g[GROUPS];
    bool finite = true;
    for (uint32_t b = 0; b < n; b += LANES) {
        // Blocks of a column lie far apart, so their lines are asked for first.
        for (uint32_t i = b; i < n && i < b + LANES; i++) {
            __builtin_prefetch(ht_act_block(dst, i, dst_step), 1);
            __builtin_prefetch(&ht_act_block(dst, i, dst_step)->bias_half[1], 1);
        }
        finite &= read_group(how, x + b * HT_Q8_BLOCK, n - b, &g[b / LANES]);
    }
    if (!finite) return false;
    for (uint32_t b = 0; b < n; b += LANES) choose_step(how, &g[b / LANES]);
    for (uint32_t b = 0; b < n; b += LANES)
        write_group(how->rest, &g[b / LANES], n - b, ht_act_block(dst, b, dst_step), dst_step);
    return true;
}

// The level's act_q8: act_q8 does what is left over.
static void act_q8_blocks(const struct ht_act_how *how, const float *x, uint32_t n_in,
                          struct ht_act_q8 *dst, size_t dst_step) {
    enum { LEAST = LANES / 4 + 3 }; // blocks for which a whole turn is faster
    uint32_t k = 0;
    for (uint32_t n; k + LEAST * HT_Q8_BLOCK <= n_in;
         k += n * HT_Q8_BLOCK, dst = ht_act_block(dst, n, dst_step)) {
        n = (n_in - k) / HT_Q8_BLOCK;
        if (n > GROUPS * LANES) n = GROUPS * LANES;
        if (n % LANES < LEAST) n -= n % LANES;
        if (!quantise_groups(how, x + k, n, dst, dst_step))
            act_q8(how, x + k, n * HT_Q8_BLOCK, dst, dst_step);
    }
    if (k < n_in) act_q8(how, x + k, n_in - k, dst, dst_step);
}

#endif
