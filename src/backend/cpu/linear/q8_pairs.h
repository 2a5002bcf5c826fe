// SPDX-License-Identifier: MIT
// Streams of repacked codes (linear.h): kernels that multiply where the weights lie, for few
// tokens. They take a pair of parts with a scale each at a time, blocks of 32 or the halves of one,
// and where one chain of products would be waited for, multiply both side by side. A level says in
// front what q8.h names, and
//   dot4_at(acc, code, q)   acc + code . the four codes at q, in each lane
//   PAIRS_TOKENS            of the largest stream: 4 or 8
//   PAIRS_SIDE(n)           parts that n tokens multiply side by side: 1 or 2
//   PAIRS_ALIKE             1: blocks of a step that are alike take turns in one code
#ifndef HT_LINEAR_Q8_PAIRS_H
#define HT_LINEAR_Q8_PAIRS_H

#include "backend/cpu/linear/ask.h"
#include "backend/cpu/linear/q8_sum.h"

INLINE vi word(const uint8_t *p, const uint32_t i) {
    vi x;
    __builtin_memcpy(&x, p + i * sizeof x, sizeof x);
    return x;
}

// Weights 4 i .. 4 i + 3 of every row, of block j of a step of the format's block at p, of whose
// words `gap` blocks' stand in turn: as codes() of what raw() loads, but only what is wanted, when
// it is. (The words of Q5_K behind its scales hold all steps' fifth bits.)
INLINE vi code_of(const uint32_t f, const uint8_t *p, const uint32_t gap, uint32_t step,
                  const uint32_t j, const uint32_t i) {
    vi r[2 * HALF];
    const uint32_t half = i / 4 * HALF;
    switch (f) {
    case HT_Q4_0:
    case HT_IQ4_NL:
    case HT_MXFP4: r[i % 4] = word(p, gap * (i % 4)); break;
    case HT_Q5_0:
        r[i % 4] = word(p, gap * (1 + i % 4));
        r[4] = word(p, 0);
        break;
    case HT_IQ4_XS: r[4 * j + i % 4] = word(p, 2 + 8 * step + 4 * j + i % 4); break;
    case HT_Q2_K: r[half + i % 4] = word(p, 4 + 8 * step + i); break;
    case HT_Q3_K:
        r[half + i % 4] = word(p, 8 + 8 * step + i);
        r[half + 4 + i % 4] = (vi)((vu16)word(p, i) >> 4 * step);
        break;
    case HT_Q4_K: r[i] = word(p, 4 + 8 * step + i); break;
    case HT_Q5_K:
        r[i] = word(p, 12 + 8 * step + i);
        r[8 + i] = (vi)((vu16)word(p, 4 + i) >> 2 * step);
        break;
    case HT_Q6_K:
        p += (4 + 24 * step) * sizeof(vi);
        UNROLL(3)
        for (uint32_t b = j < 3 ? j : 0; b <= (j < 3 ? j : 2); b++)
            r[half + 4 * b + i % 4] = word(p, 8 * b + ht_repacked_turn(i));
        break;
    default: r[i] = word(p, gap * i); break; // Q8_0
    }
    return codes(f, r, (int)j, (int)i, standing(f, (int)j));
}

// Where a pair of parts is: of one block of the format, or of two that follow each other.
struct pair {
    const uint8_t *block[2];
    uint32_t step;
    const vf *scale, *min; // of either part
};

// To the next pair, whose codes are n_bytes further on.
INLINE void pair_behind(struct pair *at, size_t n_bytes) {
    UNROLL(2)
    for (int h = 0; h < 2; h++) at->block[h] += n_bytes;
    at->scale += 2;
    at->min += 2;
}

// Token i's activations: the block that all are at, or one behind it.
INLINE const struct ht_act_q8 *act_of(const uint8_t *const *act, const uint32_t i,
                                      const uint32_t block) {
    return (const struct ht_act_q8 *)(const void *)act[i] + block;
}

// Step c of the products of a part of the format: what fits in 16 bits is added there first.
INLINE void add_products(const uint32_t f, vi *sum, vi *pairs, vi code, const int8_t *q,
                         const uint32_t c) {
    const uint32_t n = small_steps(f);
    if (SMALL_PAIRS && n > 0)
        add_small(sum, pairs, code, broadcast4(q), c, n);
    else
        *sum = dot4_at(*sum, code, q);
}

// Whether n tokens' codes are made to have an offset of 128, whose share of the sums activations
// hold as it is: a code costs one operation more, unless it stands so high already, and where a sum
// begins, a load instead of four.
INLINE bool full_offset(const uint32_t f, const uint32_t n) {
    const struct shape s = shape_of(f);
    return !CODES_SIGNED && s.offset > 0 && s.offset < 128 && n >= (s.group == 16 ? 2 : 6);
}

// The block of a step in which part h is, of a pair that begins at block j.
INLINE uint32_t block_of(const uint32_t f, const uint32_t j, const uint32_t h) {
    const struct shape s = shape_of(f);
    return s.group == 16 ? j : s.unit == 32 ? 0 : h;
}

// Parts [first, first + side) of a pair times n tokens: to y; those of a block's halves meet in
// `both`.
INLINE void multiply_parts(const uint32_t f, const uint32_t n, const struct pair *at,
                           const uint32_t j, const uint32_t first, const uint32_t side,
                           const uint8_t *const *act, struct asker *asker, vf *both, vf *y) {
    const struct shape s = shape_of(f);
    const bool halves = s.group == 16;
    const uint32_t n_codes = s.group / 4, n_bytes = LANES * s.unit_bytes * 2 * s.group / s.unit;
    vi sum[2][PAIRS_TOKENS], pairs[2][PAIRS_TOKENS];
    UNROLL(2)
    for (uint32_t h = first; h < first + side; h++) {
        const int up = standing(f, (int)block_of(f, j, h));
        UNROLL(8)
        for (uint32_t i = 0; i < n; i++) {
            const struct ht_act_q8 *a = act_of(act, i, halves ? 0 : h);
            const int32_t bias = halves ? a->bias_half[h] : a->bias;
            sum[h][i] = full_offset(f, n) ? splat_int(bias) : start(f, bias, up);
        }
    }
    UNROLL(8)
    for (uint32_t c = 0; c < n_codes; c++) {
        if (n > 1 || asker->asks)
            ask(asker, n_bytes, first * n_codes + c * side, 2 * n_codes, side);
        UNROLL(2)
        for (uint32_t h = first; h < first + side; h++) {
            const uint32_t block = block_of(f, j, h), word = (halves ? 4 * h : 0) + c;
            const uint8_t *p = at->block[h];
            // Else the words of the three blocks in front would be kept for it, on the stack.
            if (f == HT_Q6_K && j == 3 && n > 2) __asm__("" : "+r"(p));
            vi code = code_of(f, p, 2, at->step, block, word);
            const int offset = s.offset << standing(f, (int)block);
            if (full_offset(f, n) && offset < 128) code = add_bytes(code, 128 - offset);
            UNROLL(8)
            for (uint32_t i = 0; i < n; i++)
                add_products(f, &sum[h][i], &pairs[h][i], code,
                             act_of(act, i, halves ? 0 : h)->q + 4 * word, c);
        }
    }
    UNROLL(2)
    for (uint32_t h = first; h < first + side; h++) {
        const vf back = back_of(at->scale[h]);
        UNROLL(8)
        for (uint32_t i = 0; i < n; i++) {
            const struct ht_act_q8 *a = act_of(act, i, halves ? 0 : h);
            if (halves) {
                both[i] = h == 0 ? scaled_sum(sum[h][i], at->scale[h], back)
                                 : both_halves(both[i], sum[h][i], at->scale[h]);
                if (s.has_min) both[i] = fma_sub(at->min[h], half_128(a, h), both[i]);
                if (h > 0) y[i] = fma_add(both[i], splat(a->scale), y[i]);
            } else {
                y[i] = fold(y[i], sum[h][i], at->scale[h], back, a->scale);
                if (s.has_min) y[i] = fma_sub(at->min[h], splat(a->sum), y[i]);
            }
        }
    }
}

// A pair times n tokens: the halves of block j of the step; blocks 0 and 1 of a step of two; or two
// blocks of a format of 32 weights. The activations move on behind it.
INLINE void multiply_pair(const uint32_t f, const uint32_t n, const struct pair *at,
                          const uint32_t j, const uint8_t **act, struct asker *asker, vf *y) {
    const struct shape s = shape_of(f);
    const uint32_t side = PAIRS_SIDE(n);
    vf both[PAIRS_TOKENS];
    UNROLL(2)
    for (uint32_t first = 0; first < 2; first += side)
        multiply_parts(f, n, at, j, first, side, act, asker, both, y);
    ask_block(asker, f, n, LANES * s.unit_bytes * 2 * s.group / s.unit);
    UNROLL(8)
    for (uint32_t i = 0; i < n; i++) {
        act[i] += (s.group == 16 ? 1 : 2) * sizeof(struct ht_act_q8);
        __asm__("" : "+r"(act[i])); // a register each, not sums of others
    }
}

// All pairs of one block of a format of 256 weights.
INLINE void multiply_unit(const uint32_t f, const uint32_t n, struct rows *w, const uint8_t **act,
                          struct asker *asker, vf *y) {
    const struct shape s = shape_of(f);
    vf scale[16], min[16];
    scales(f, true, w, scale, min);
    struct pair at = {.block = {w->p, w->p}, .scale = scale, .min = min};
    for (; at.step < s.unit / 32 / s.step; at.step++) {
        // The first three blocks of a step of Q6_K are alike: one code for them.
        const uint32_t n_alike = f == HT_Q6_K && PAIRS_ALIKE ? 3 : 0;
        for (uint32_t j = 0; j < n_alike; j++) {
            multiply_pair(f, n, &at, 0, act, asker, y);
            pair_behind(&at, 8 * sizeof(vi));
            __asm__("" : "+r"(j));
        }
        if (n_alike > 0) at.block[0] = at.block[1] = w->p;
        UNROLL(4)
        for (uint32_t j = n_alike; j < s.step; j += s.group / 16) {
            multiply_pair(f, n, &at, j, act, asker, y);
            pair_behind(&at, 0);
        }
    }
    rows_advance(w, s.unit_bytes);
}

// Two blocks of a format of 32 weights, their scales in front of them.
INLINE void multiply_two(const uint32_t f, const uint32_t n, struct rows *w, const uint8_t **act,
                         struct asker *asker, vf *y) {
    const uint8_t *second = w->p + w->next;
    vf scale[2];
    UNROLL(2)
    for (uint32_t h = 0; h < 2; h++, w->rest += w->n_rest) scales(f, true, w, &scale[h], NULL);
    struct pair at = {.block = {w->p, second}, .scale = scale, .min = scale};
    multiply_pair(f, n, &at, 0, act, asker, y);
    w->rest = w->p + 2 * w->n_words;
    w->p = w->rest + 2 * w->n_rest;
}

// n tokens x 32 rows over the whole pairs of a chunk.
INLINE void stream(const uint32_t f, const uint32_t n, const uint8_t *w, size_t row_bytes,
                   const struct ht_tile_args *t) {
    const struct shape s = shape_of(f);
    const uint32_t n_units = t->n_k / s.unit, n_turns = s.unit == 32 ? n_units / 2 : n_units;
    for (uint32_t part = 0; part < PARTS; part++, w += LANES * row_bytes) {
        struct rows q = rows_of(w, row_bytes, s.unit_bytes, n_units);
        struct asker asker = asker_of(w, row_bytes, part, t);
        const float *from = t->from + LANES * part;
        float *to = t->to + LANES * part;
        const uint8_t *act[PAIRS_TOKENS];
        vf y[PAIRS_TOKENS];
        UNROLL(8)
        for (uint32_t i = 0; i < n; i++) {
            act[i] = t->act + i * t->act_stride;
            y[i] = load_floats(from + i * t->from_stride);
        }
        for (uint32_t turn = 0; turn < n_turns; turn++) {
            if (s.unit == 32)
                multiply_two(f, n, &q, act, &asker, y);
            else
                multiply_unit(f, n, &q, act, &asker, y);
        }
        UNROLL(8)
        for (uint32_t i = 0; i < n; i++) store_floats(to + i * t->to_stride, y[i]);
    }
}

// The last block of an odd number of them, behind the others; token by token, since K is seldom
// such.
INLINE void last_of_odd(const uint32_t f, const uint8_t *w, size_t row_bytes,
                        const struct ht_tile_args *t) {
    const struct shape s = shape_of(f);
    const uint32_t in_front = t->n_k / s.unit - 1;
    for (uint32_t part = 0; part < PARTS; part++) {
        const uint8_t *p = w + LANES * (part * row_bytes + (size_t)in_front * s.unit_bytes);
        struct rows q = rows_of(p, row_bytes, s.unit_bytes, 1);
        vf scale;
        scales(f, true, &q, &scale, NULL);
        for (uint32_t i = 0; i < t->n_tokens; i++) {
            const uint8_t *act = t->act + i * t->act_stride;
            const struct ht_act_q8 *a = act_of(&act, 0, in_front);
            float *y = t->to + i * t->to_stride + LANES * part;
            vi sum = start(f, a->bias, standing(f, 0)), pairs = sum;
            UNROLL(8)
            for (uint32_t c = 0; c < 8; c++)
                add_products(f, &sum, &pairs, code_of(f, q.p, 1, 0, 0, c), a->q + 4 * c, c);
            store_floats(y, fold(load_floats(y), sum, scale, back_of(scale), a->scale));
        }
    }
}

// Of at most n_most tokens.
INLINE void streams(const uint32_t f, const uint32_t n_most, const uint8_t *w, size_t row_bytes,
                    const struct ht_tile_args *t) {
#define STREAM_OF(n)                                                                               \
    case n:                                                                                        \
        if (n_most >= (n)) stream(f, n_most < (n) ? 1 : (n), w, row_bytes, t);                     \
        break
    switch (t->n_tokens) {
        STREAM_OF(1);
        STREAM_OF(2);
        STREAM_OF(3);
        STREAM_OF(4);
#if PAIRS_TOKENS > 4
        STREAM_OF(5);
        STREAM_OF(6);
        STREAM_OF(7);
        STREAM_OF(8);
#endif
    default: break;
    }
#undef STREAM_OF
    if (shape_of(f).unit == 32 && t->n_k / 32 % 2 != 0) last_of_odd(f, w, row_bytes, t);
}

#endif
