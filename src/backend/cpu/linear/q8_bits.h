// SPDX-License-Identifier: MIT
// Streams of Q1_0 and Q2_0 for one token. A weight has a bit or two, so codes must cost little: a
// shift and a mask of a word of every row make four of them, which stand a byte apart, not side by
// side; and the token's numbers are brought in that order once for all rows. Sums of integers have
// no order. A level says in front what q8.h names.
#ifndef HT_LINEAR_Q8_BITS_H
#define HT_LINEAR_Q8_BITS_H

#include "backend/cpu/linear/ask.h"
#include "backend/cpu/linear/kernels.h"
#include "backend/cpu/linear/q8_sum.h"

// So many tokens in passes are faster than a panel (docs/kernels.md).
#define Q1_0_MOST (LANES == 16 ? 3 : 5)
#define Q2_0_MOST (LANES == 16 ? 3 : 6)

// The numbers of n weights in the order of bits_codes: four for each vector of codes.
static __attribute__((noinline)) void order_bits(const uint32_t f, const struct ht_act_q8 *act,
                                                 uint32_t n, int8_t *out) {
    typedef int8_t v16 __attribute__((vector_size(16), aligned(1), may_alias));
    for (uint32_t i = 0; i < n; i += HT_Q8_BLOCK, act++, out += HT_Q8_BLOCK) {
        const v16 *q = (const v16 *)(const void *)act->q;
        v16 *to = (v16 *)(void *)out;
        if (f == HT_Q1_0) {
            to[0] =
                SHUFFLE(v16, q[0], q[1], 0, 8, 16, 24, 1, 9, 17, 25, 2, 10, 18, 26, 3, 11, 19, 27);
            to[1] = SHUFFLE(v16, q[0], q[1], 4, 12, 20, 28, 5, 13, 21, 29, 6, 14, 22, 30, 7, 15, 23,
                            31);
            continue;
        }
        for (int h = 0; h < 2; h++)
            to[h] = SHUFFLE(v16, q[h], q[h], 0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
    }
}

// Codes c of group g of 32 weights, of the block's words.
INLINE vi bits_codes(const uint32_t f, const vi *word, const uint32_t g, const int c) {
    if (f == HT_Q1_0) return bits(word[g], c - 1, 2); // a bit each, 0 or 2
    return bits(word[2 * g + (uint32_t)c / 4], c % 4 * 2, 3);
}

// 32 rows times one token.
INLINE void stream_bits(const uint32_t f, const uint8_t *w, size_t row_bytes,
                        const struct ht_tile_args *t) {
    const struct shape s = shape_of(f);
    const size_t n_bytes = (size_t)(t->n_k / s.unit) * s.unit_bytes;
    _Alignas(64) int8_t q[HT_IN_ORDER];
    for (uint32_t part = 0; part < PARTS; part++, w += LANES * row_bytes) {
        const struct ht_act_q8 *act = (const void *)t->act;
        struct rows rows = rows_of(w, row_bytes, s.unit_bytes, t->n_k / s.unit);
        struct asker asker = asker_of(w, row_bytes, n_bytes, part, 1, true, t);
        vf y = load_floats(t->from + LANES * part);
        for (uint32_t k = 0; k < t->n_k; k += s.unit, rows_advance(&rows, s.unit_bytes)) {
            const uint32_t n_order = ht_to_order(k, t->n_k, part);
            if (n_order > 0) order_bits(f, act, n_order, q);
            vi word[4];
            load16(&rows, 2, word);
            const vf scale = half_rows(&rows, 0), back = back_of(scale);
            UNROLL(4)
            for (uint32_t g = 0; g < s.unit / 32; g++, act++) {
                const int8_t *p = q + k % HT_IN_ORDER + 32 * g;
                vi sum = start(f, act->bias, 0), pairs;
                ask(&asker, LANES * s.unit_bytes, g, s.unit / 32);
                UNROLL(8)
                for (uint32_t c = 0; c < 8; c++) {
                    const vi code = bits_codes(f, word, g, (int)c);
                    if (SMALL_PAIRS)
                        add_small(&sum, &pairs, code, broadcast4(p + 4 * c), c, 8);
                    else
                        sum = dot4_word(sum, code, p, c, true);
                }
                y = fold(y, sum, scale, back, act->scale);
            }
        }
        store_floats(t->to + LANES * part, y);
        ask_rest(&asker, n_bytes, LANES);
    }
}

#define STREAM_BITS(linkage, id, name)                                                             \
    linkage void name(const uint8_t *w, size_t row_bytes, const struct ht_tile_args *t) {          \
        stream_bits(id, w, row_bytes, t);                                                          \
    }

#endif
