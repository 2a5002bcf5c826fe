// SPDX-License-Identifier: MIT
// Streams of codes: kernels that multiply out of the file's bytes, without a panel, for few tokens.
// A level says in front what q8.h names.
#ifndef HT_LINEAR_Q8_STREAM_H
#define HT_LINEAR_Q8_STREAM_H

#include "backend/cpu/linear/ask.h"
#include "backend/cpu/linear/q8_sum.h"

// The most tokens of streams, as code for more is not worth its size or runs out of registers: of
// Q4_0 (of Q8_0 STREAM_TOKENS), of Q4_K, of others; of those that are read in steps of four blocks;
// of those that few files have.
#define STREAM_NARROW (STREAM_TOKENS < 8 ? STREAM_TOKENS : 8)
#ifndef STREAM_Q4_K
#define STREAM_Q4_K STREAM_NARROW
#endif
#ifndef STREAM_OTHER
#define STREAM_OTHER STREAM_NARROW
#endif
#define STREAM_FEW  (STREAM_OTHER < 3 ? STREAM_OTHER : LANES == 16 ? 4 : 3)
#define STREAM_RARE 1
#define STREAM_Q5_K (STREAM_OTHER < 6 ? STREAM_OTHER : 6)
// In two passes, where one is for many tokens; two of two take half as long again as a panel.
#define STREAM_Q5_K_MOST (STREAM_OTHER < 6 ? STREAM_OTHER : 12)
#ifndef STREAM_CHAINS
#define STREAM_CHAINS 1
#endif

INLINE const struct ht_act_q8 *act_of(const uint8_t *act, size_t stride, uint32_t token) {
    return (const void *)(act + token * stride);
}

// One block of 32 weights with one scale, of LANES rows, times n tokens: batch b of n_batches that
// share what is asked for. made: the block's codes, or NULL.
INLINE void stream_block(const uint32_t f, const uint32_t n, const vi *r, const int j,
                         const vi *made, const uint8_t *act, size_t stride, const vf *scale,
                         const vf *min, struct asker *asker, const uint32_t b,
                         const uint32_t n_batches, vf *y) {
    const struct shape s = shape_of(f);
    // Codes made with an offset are unsigned, whatever the panel of the level holds.
    const bool small = s.offset > 0 || s.has_min;
    // Sums of exact integers may be split: few tokens have too few chains to hide a product.
    const uint32_t n_chains = n <= 2 ? STREAM_CHAINS : 1;
    // Where it is not 0, one chain is for each half of the codes.
    const int second_up = n_chains == 2 && !made ? half_standing(f) : 0;
    const uint32_t n_small = SMALL_PAIRS ? small_steps(f) : 0;
    vi sum[STREAM_NARROW][STREAM_CHAINS], pairs[STREAM_NARROW];
    UNROLL(8)
    for (uint32_t i = 0; i < n; i++) {
        sum[i][0] = start(f, act_of(act, stride, i)->bias, standing(f, j));
        UNROLL(4)
        for (uint32_t c = 1; c < n_chains; c++) sum[i][c] = splat_int(0);
    }
    UNROLL(8)
    for (uint32_t c = 0; c < 8; c++) {
        const int up = second_up > 0 && c >= 4 ? second_up : standing(f, j);
        vi code = made ? made[c] : codes(f, r, j, (int)c, up);
        ask(asker, LANES * s.unit_bytes * 32 / s.unit, 8 * b + c, 8 * n_batches);
        UNROLL(8)
        for (uint32_t i = 0; i < n; i++) {
            const int8_t *q = act_of(act, stride, i)->q;
            vi *to = &sum[i][second_up > 0 ? c / 4 : c % n_chains];
            if (n_small > 0)
                add_small(to, &pairs[i], code, broadcast4(q + 4 * c), c, n_small);
            else
                *to = dot4_word(*to, code, q, c, small);
#if ASK_BY_ADDRESS
            // gcc would put the products off until all lines are asked for.
            __asm__ volatile("" : "+v"(*to));
#endif
        }
    }
    const vf back = back_of(*scale);
    UNROLL(8)
    for (uint32_t i = 0; i < n; i++) {
        const struct ht_act_q8 *a = act_of(act, stride, i);
        UNROLL(4)
        for (uint32_t c = 1; c < n_chains; c++) sum[i][0] += sum[i][c] >> second_up;
        y[i] = fold(y[i], sum[i][0], *scale, back, a->scale);
        if (s.has_min) y[i] = fma_sub(*min, splat(a->sum), y[i]);
    }
}

// The same of more tokens than there are registers for a sum of integers each: the codes are made
// first, and some tokens follow the others.
INLINE void stream_wide(const uint32_t f, const uint32_t n, const vi *r, const int j,
                        const uint8_t *act, size_t stride, const vf *scale, const vf *min,
                        struct asker *asker, vf *y) {
    const uint32_t n_batches = (n + 5) / 6;
    vi code[8];
    UNROLL(8)
    for (uint32_t c = 0; c < 8; c++) code[c] = codes(f, r, j, (int)c, standing(f, j));
    UNROLL(3)
    for (uint32_t b = 0; b < n_batches; b++) {
        const uint32_t from = n * b / n_batches, to = n * (b + 1) / n_batches;
        stream_block(f, to - from, r, j, code, act + from * stride, stride, scale, min, asker, b,
                     n_batches, y + from);
    }
}

// A step's blocks, four or two, of a format whose halves of blocks have scales of their own. What
// the first halves of four need is read, multiplied and gone before the second halves are read, for
// which there would be no registers; their sums wait for their turn.
INLINE void stream_halves(const uint32_t f, const uint32_t n, const struct rows *w,
                          const uint32_t step, const vi *high, const uint8_t *act, size_t stride,
                          const vf *scale, const vf *min, struct asker *asker, vf *y) {
    const struct shape s = shape_of(f);
    const uint32_t n_bytes = LANES * s.unit_bytes * 32 * s.step / s.unit, parts = s.step + 1;
    vf first[4][STREAM_TOKENS];
    vi r[HALF];
    if (f == HT_NVFP4) raw(f, w, step, high, r);
    UNROLL(2)
    for (uint32_t h = 0; h < 2; h++) {
        ask(asker, n_bytes, parts * h, 2 * parts);
        if (f != HT_NVFP4) raw_half(f, w, step, (int)h, high, r);
        UNROLL(4)
        for (uint32_t j = 0; j < s.step; j++) {
            const vi *half = f == HT_NVFP4 ? r + 4 * j + 2 * h : r;
            const uint8_t *block = act + j * sizeof(struct ht_act_q8);
            vi sum[STREAM_TOKENS], pairs[STREAM_TOKENS];
            UNROLL(3)
            for (uint32_t i = 0; i < n; i++)
                sum[i] = start(f, act_of(block, stride, i)->bias_half[h], standing(f, (int)j));
            UNROLL(4)
            for (uint32_t c = 0; c < 4; c++) {
                vi code = codes_half(f, half, (int)j, (int)c, standing(f, (int)j));
                if (c == 0) ask(asker, n_bytes, parts * h + 1 + j, 2 * parts);
                UNROLL(3)
                for (uint32_t i = 0; i < n; i++) {
                    const int8_t *q = act_of(block, stride, i)->q + h * 16;
                    if (SMALL_PAIRS)
                        add_small(&sum[i], &pairs[i], code, broadcast4(q + 4 * c), c,
                                  small_steps(f));
                    else
                        sum[i] = dot4_word(sum[i], code, q, c, true);
                }
            }
            const vf back = back_of(scale[2 * j]);
            UNROLL(3)
            for (uint32_t i = 0; i < n; i++) {
                const struct ht_act_q8 *a = act_of(block, stride, i);
                vf both = h == 0 ? scaled_sum(sum[i], scale[2 * j], back)
                                 : both_halves(first[j][i], sum[i], scale[2 * j + 1]);
                if (s.has_min) both = fma_sub(min[2 * j + h], half_128(a, h), both);
                first[j][i] = both;
                if (h > 0) y[i] = fma_add(both, splat(a->scale), y[i]);
            }
        }
    }
}

// Blocks that are left of rows of no whole number of fours, added to sums that are there already.
INLINE void last_blocks(const uint32_t f, uint32_t n_blocks, struct rows *w, const uint8_t *act,
                        const struct ht_tile_args *t, float *to) {
    for (; n_blocks > 0; n_blocks--, act += sizeof(struct ht_act_q8)) {
        vf scale, min;
        vi r[8], code[8];
        scales(f, true, w, &scale, &min);
        raw(f, w, 0, NULL, r);
        UNROLL(8)
        for (int c = 0; c < 8; c++) code[c] = codes(f, r, 0, c, standing(f, 0));
        for (uint32_t i = 0; i < t->n_tokens; i++) {
            const struct ht_act_q8 *a = act_of(act, t->act_stride, i);
            float *y = to + i * t->to_stride;
            vi sum = start(f, a->bias, standing(f, 0));
            UNROLL(8)
            for (uint32_t c = 0; c < 8; c++)
                sum = dot4_word(sum, code[c], a->q, c, shape_of(f).offset > 0);
            store_floats(y, fold(load_floats(y), sum, scale, back_of(scale), a->scale));
        }
        rows_advance(w, shape_of(f).unit_bytes);
    }
}
#ifndef WHOLE_FOURS // else the level streams no rows that have such
#define LAST_BLOCKS(id, name)                                                                      \
    static __attribute__((noinline, unused)) void last_##name(                                     \
        uint32_t n_blocks, struct rows *w, const uint8_t *act, const struct ht_tile_args *t,       \
        float *to) {                                                                               \
        last_blocks(id, n_blocks, w, act, t, to);                                                  \
    }
LAST_BLOCKS(HT_Q4_0, q4_0)
LAST_BLOCKS(HT_IQ4_NL, iq4_nl)
LAST_BLOCKS(HT_MXFP4, mxfp4)
#undef LAST_BLOCKS
#endif

// n tokens x 32 rows over a chunk, out of the file's bytes.
INLINE void stream(const uint32_t f, const uint32_t n, const uint8_t *w, size_t row_bytes,
                   const struct ht_tile_args *t) {
    const struct shape s = shape_of(f), base = base_shape(f);
    const size_t n_bytes = (size_t)(t->n_k / base.unit) * base.unit_bytes;
    for (uint32_t part = 0; part < PARTS; part++, w += LANES * row_bytes) {
        const uint8_t *act = t->act;
        struct rows q = rows_of(w, row_bytes, s.unit_bytes, t->n_k / s.unit);
        struct asker asker = n == 1 ? asker_of(w, row_bytes, n_bytes, part, 1, true, t)
                                    : asker_shared(w, row_bytes, n_bytes, part, t);
        const float *from = t->from + LANES * part;
        float *to = t->to + LANES * part;
        vf y[STREAM_TOKENS];
        UNROLL(16)
        for (uint32_t i = 0; i < n; i++) y[i] = load_floats(from + i * t->from_stride);
        uint32_t left = t->n_k;
        for (; left >= s.unit; left -= s.unit, rows_advance(&q, s.unit_bytes)) {
            vf scale[16], min[16];
            vi high[8];
            scales(f, true, &q, scale, min);
            shared(f, &q, high);
            const vf *sc = scale, *m = min;
            for (uint32_t step = 0; step < s.unit / 32 / s.step; step++) {
                if (s.group == 16) {
                    stream_halves(f, n, &q, step, high, act, t->act_stride, sc, m, &asker, y);
                    act += s.step * sizeof(struct ht_act_q8);
                    sc += 2 * s.step;
                    m += 2 * s.step;
                    continue;
                }
                vi r[2 * HALF];
                raw(f, &q, step, high, r);
                if (in_fours(f)) scales_of_fours(base_of(f), r, scale);
                UNROLL(8)
                for (uint32_t j = 0; j < s.step; j++, act += sizeof(struct ht_act_q8), sc++, m++) {
                    if (n <= STREAM_NARROW)
                        stream_block(f, n, r, (int)j, NULL, act, t->act_stride, sc, m, &asker, 0, 1,
                                     y);
                    else
                        stream_wide(f, n, r, (int)j, act, t->act_stride, sc, m, &asker, y);
                }
            }
        }
        UNROLL(16)
        for (uint32_t i = 0; i < n; i++) store_floats(to + i * t->to_stride, y[i]);
#ifndef WHOLE_FOURS
        if (in_fours(f) && left > 0) {
            asker.rest += LANES * base.unit_bytes * (left / 32);
            if (f == FOURS_OF(HT_Q4_0)) last_q4_0(left / 32, &q, act, t, to);
            if (f == FOURS_OF(HT_IQ4_NL)) last_iq4_nl(left / 32, &q, act, t, to);
            if (f == FOURS_OF(HT_MXFP4)) last_mxfp4(left / 32, &q, act, t, to);
        }
#endif
        ask_rest(&asker, n_bytes, LANES);
    }
}

// The most tokens that a format's stream takes.
INLINE uint32_t stream_limit(const uint32_t f) {
    switch (f) {
    case HT_Q8_0: return STREAM_TOKENS;
    case HT_Q4_0: return STREAM_NARROW;
    case HT_Q4_K: return STREAM_Q4_K;
    case HT_Q5_K: return STREAM_Q5_K;
    case HT_Q5_1:
    case HT_TQ2_0:
    case HT_NVFP4: return STREAM_RARE;
    case HT_Q2_K:
    case HT_Q3_K:
    case HT_Q6_K: return STREAM_FEW;
    default: return STREAM_OTHER;
    }
}

// Whether n tokens' blocks are read four at a time, as far as they go (rows.h).
INLINE bool by_fours(const uint32_t f, const uint32_t n) {
    return LANES == 16 && n <= 2 && (f == HT_Q4_0 || f == HT_IQ4_NL || f == HT_MXFP4);
}

INLINE void streams(const uint32_t f, const uint8_t *w, size_t row_bytes,
                    const struct ht_tile_args *t) {
    const uint32_t m = stream_limit(f);
    // What is never taken is made for one token, or gcc warns of sums past the end.
#define STREAM_OF(n)                                                                               \
    case n:                                                                                        \
        if ((n) <= STREAM_TOKENS && m >= (n))                                                      \
            stream(by_fours(f, n) ? FOURS_OF(f) : f, (n) > STREAM_TOKENS || m < (n) ? 1 : (n), w,  \
                   row_bytes, t);                                                                  \
        break
    switch (t->n_tokens) { // those of ht_stream_tokens
        STREAM_OF(1);
        STREAM_OF(2);
        STREAM_OF(3);
        STREAM_OF(4);
        STREAM_OF(6);
        STREAM_OF(8);
        STREAM_OF(12);
        STREAM_OF(16);
    default: break;
    }
#undef STREAM_OF
}

#endif
