// SPDX-License-Identifier: MIT
// The tile of codes of four bits by products of sums. Of a block's 32 weights w and activations a
//     (w[i] + a[16 + i]) * (w[16 + i] + a[i])
// is w[i] a[i] + w[16 + i] a[16 + i], which is wanted, and w[i] w[16 + i] + a[i] a[16 + i], which
// are known of the weights and of the activations alone: one multiplication and two additions for
// two multiplications (S. Winograd, A New Algorithm for Inner Product, IEEE Trans. Comput. C-17,
// 1968). It pays where bytes are added on more ports than multiply, as AMD's do it.
//
// Both sums fit in a byte: with c = 0 .. 15 a panel holds c + 120 of the first half, whose sums are
// unsigned, and c - 8 of the second, whose sums are signed, and activations are at most 120
// (HT_ACT_ROW_Q8_120, or _MINS). What is to be taken off the products is, with w = c - 8,
//     the sum of (w[i] + 128) * w[16 + i]      by the panel's `start`
//     the sum of a[i] * (a[16 + i] + 128)      `pairs` of the activations, or `pairs_less`
// and formats with mins, whose codes have no offset, get 8 times the sum of a back. All of it is
// exact in 32 bits, so the bits are those of q8_tile.h.
#ifndef HT_LINEAR_Q8_SUMS_H
#define HT_LINEAR_Q8_SUMS_H

#include "backend/cpu/linear/q8_tile.h"

// One block of n tokens.
INLINE void sums_block(const uint32_t n, const enum kind kind, const struct place *at,
                       vf y[TILE_TOKENS][TILE_VECTORS]) {
    vi s[TILE_TOKENS][TILE_VECTORS], start[TILE_VECTORS];
    UNROLL(2)
    for (int v = 0; v < TILE_VECTORS; v++)
        start[v] = (vi)load_floats((const float *)(at->start + v * LANES));
    UNROLL(5)
    for (uint32_t i = 0; i < n; i++) {
        const struct ht_act_q8 *a = block_at(at, i, 0);
        const vi off = splat_int(has_mins(kind) ? a->pairs_less : a->pairs);
        UNROLL(2)
        for (int v = 0; v < TILE_VECTORS; v++) s[i][v] = start[v] - off;
    }
    UNROLL(4)
    for (uint32_t c = 0; c < 4; c++) {
        vi first[TILE_VECTORS], second[TILE_VECTORS];
        UNROLL(2)
        for (int v = 0; v < TILE_VECTORS; v++) {
            first[v] = code_at(at, 1, 0, 8, c, v);
            second[v] = code_at(at, 1, 0, 8, 4 + c, v);
        }
        UNROLL(5)
        for (uint32_t i = 0; i < n; i++) {
            const struct ht_act_q8 *a = block_at(at, i, 0);
            vi q = broadcast4(a->q + c * 4), other = broadcast4(a->q + 16 + c * 4);
            UNROLL(2)
            for (int v = 0; v < TILE_VECTORS; v++)
                s[i][v] =
                    dot4(s[i][v], (vi)((vu8)first[v] + (vu8)other), (vi)((vu8)second[v] + (vu8)q));
        }
    }
    fold_part(n, 32, kind, at, 0, 0, s, NULL, y);
}

// n tokens from `token` on, of which the first `skip` are computed for nothing.
INLINE void sums_tile(const uint32_t n, const enum kind kind, const struct ht_panel *p,
                      const struct ht_tile_args *t, uint32_t token, uint32_t skip,
                      struct ahead *ahead) {
    struct place at = {p->code, p->scale, p->back, p->min, p->start, 0, 0, tokens_of(t, token, n)};
    const float *from = t->from + token * t->from_stride;
    float *to = t->to + token * t->to_stride;
    size_t to_stride = t->to_stride;
    ask_output(t, token, n, 0, TILE_VECTORS * LANES);
    vf y[TILE_TOKENS][TILE_VECTORS];
    UNROLL(5)
    for (uint32_t i = 0; i < n; i++) {
        UNROLL(2)
        for (int v = 0; v < TILE_VECTORS; v++)
            y[i][v] = load_floats(from + i * t->from_stride + v * LANES);
    }
    for (uint32_t left = t->n_k / HT_Q8_BLOCK; left > 0; left--) {
        ahead_step(ahead);
        if (t->act_far) ask_tokens(&at.act, n, 1);
        sums_block(n, kind, &at, y);
        at.code += code_bytes(HT_Q8_BLOCK);
        at.scale += HT_ROW_GROUP, at.back += HT_ROW_GROUP, at.min += HT_ROW_GROUP;
        at.start += HT_ROW_GROUP;
        tokens_advance(&at.act, n, sizeof(struct ht_act_q8));
    }
    if (t->add) {
        ADD_SUMS(n, TILE_VECTORS, t, token, 0, y);
        to = t->out + token * t->out_stride;
        to_stride = t->out_stride;
    }
    UNROLL(5)
    for (uint32_t i = 0; i < n; i++) {
        if (i < skip) continue;
        UNROLL(2)
        for (int v = 0; v < TILE_VECTORS; v++)
            store_floats(to + i * to_stride + v * LANES, y[i][v]);
    }
}

// Tiles of four and five tokens, as few as take all of them; where none do (11 tokens), the last
// one begins with some that are done. For four tokens or more: fewer never have a panel.
INLINE void sums_tiles(const enum kind kind, const struct ht_panel *p,
                       const struct ht_tile_args *t) {
    uint32_t n = t->n_tokens, n_fours = (5 - n % 5) % 5, token = 0;
    if (4 * n_fours > n) n_fours = (n + 3) / 4;
    const uint32_t n_fives = n > 4 * n_fours ? (n - 4 * n_fours) / 5 : 0;
    struct ahead ahead = ahead_of(t, (n_fives + n_fours) * (t->n_k / HT_Q8_BLOCK));
    for (; token < 5 * n_fives; token += 5) sums_tile(5, kind, p, t, token, 0, &ahead);
    for (; token < n; token += 4) {
        uint32_t begin = n - token < 4 ? n - 4 : token;
        sums_tile(4, kind, p, t, begin, token - begin, &ahead);
    }
}

#endif
