// SPDX-License-Identifier: MIT
// The tile of codes: a panel's rows times a few tokens at a time. A level says in front what q8.h
// names. With REPACKED it reads the codes of repacked Q8_0 where they lie (linear.h), and of a
// panel nothing but scales.
#ifndef HT_LINEAR_Q8_TILE_H
#define HT_LINEAR_Q8_TILE_H

#include "backend/cpu/linear/ask.h"
#include "backend/cpu/linear/out.h"
#include "backend/cpu/linear/q8_sum.h"

// What a tile's codes are: as the level has them (q8.h), or 0 .. 127, of formats with mins or, at
// levels that add small pairs, with an offset; there, those of 0 .. 15 have tiles of their own.
enum kind { PLAIN, MINS, OFFSET, NIBBLES_MINS, NIBBLES_OFFSET };

INLINE bool has_mins(const enum kind kind) {
    return kind == MINS || kind == NIBBLES_MINS;
}

INLINE bool has_offset(const enum kind kind) {
    return kind == OFFSET || kind == NIBBLES_OFFSET;
}

// A whole tile adds the residual itself (t->add), but for a level's own.
INLINE void tile(const uint32_t n, const uint32_t group, const enum kind kind, int offset,
                 const struct ht_panel *p, const struct ht_tile_args *t, uint32_t token,
                 uint32_t row, struct ahead *ahead);

#ifndef TILE_PARTS
#define TILE_PARTS 1
#endif
// Whether whole tiles with activations far away have a loop of their own, which is worth its size
// to the largest tiles alone.
#define TWO_LOOPS (TILE_PARTS > 1)
#ifndef SUMS_FAR
#define SUMS_FAR 0
#endif
#ifndef SMALL_TOKENS
#define SMALL_TOKENS TILE_TOKENS
#endif
#ifdef OWN_TILE
#define TILE_ADDS 0
#else
#define TILE_ADDS 1
#endif

INLINE uint32_t whole_tokens(const enum kind kind) {
    return kind == PLAIN ? TILE_TOKENS : SMALL_TOKENS;
}

// Parts in a turn of a tile that multiplies n_parts side by side: those of a whole block at least.
INLINE uint32_t turn_parts(const uint32_t group, const uint32_t n_parts) {
    return n_parts > 32 / group ? n_parts : 32 / group;
}

#ifndef OWN_TILE
#define TILE_ROWS (TILE_VECTORS * LANES)

// A place in K: the panel's codes and scales behind it, and the tokens' activations.
struct place {
    const uint8_t *code;
    const float *scale, *back, *min;
    const int32_t *start; // of panels for products of sums
    size_t part_bytes;    // in place: from one vector of rows to the next
    int shift;            // OFFSET: 128 is the codes' offset, so often doubled
    struct tokens act;
};

// A panel's codes, and word c of part p of n_parts, vector v of the rows; the bytes of n weights of
// every row, whole turns (in place: pairs of blocks, whose words stand in turn), and past so many.
#ifdef REPACKED
#define PAIR_BYTES (2 * LANES * 34) // the scales of two blocks, and their words
INLINE const uint8_t *codes_of(const struct ht_panel *p) {
    return p->in_place;
}
INLINE vi code_at(const struct place *at, const uint32_t n_parts, const uint32_t p,
                  const uint32_t n_codes, const uint32_t c, const int v) {
    vi x;
    (void)n_codes;
    const uint8_t *code = at->code + n_parts * LANES * 2 + (c * n_parts + p) * sizeof x;
    __builtin_memcpy(&x, code + (size_t)v * at->part_bytes, sizeof x);
    return x;
}
INLINE size_t code_bytes(const size_t n) {
    return n / (2 * HT_Q8_BLOCK) * PAIR_BYTES;
}
INLINE void codes_skip(struct ht_panel *p, const size_t n) {
    p->in_place += code_bytes(n);
}
#else
INLINE const uint8_t *codes_of(const struct ht_panel *p) {
    return p->code;
}
INLINE vi code_at(const struct place *at, const uint32_t n_parts, const uint32_t p,
                  const uint32_t n_codes, const uint32_t c, const int v) {
    (void)n_parts;
    return ((const vi *)(const void *)(at->code + (p * n_codes + c) * 128))[v];
}
INLINE size_t code_bytes(const size_t n) {
    return n * HT_ROW_GROUP;
}
INLINE void codes_skip(struct ht_panel *p, const size_t n) {
    p->code = (uint8_t *)p->code + code_bytes(n);
}
#endif

INLINE const struct ht_act_q8 *block_at(const struct place *at, const uint32_t token,
                                        const uint32_t block) {
    return (const struct ht_act_q8 *)token_at(&at->act, token) + block;
}

// Part p's sums of integers, s, to y; those of the first half of a block with two scales wait in
// `first` for the second's. half: of the block.
INLINE void fold_part(const uint32_t n, const uint32_t group, const enum kind kind,
                      const struct place *at, const uint32_t p, const uint32_t half,
                      vi s[TILE_TOKENS][TILE_VECTORS], vf first[TILE_TOKENS][TILE_VECTORS],
                      vf y[TILE_TOKENS][TILE_VECTORS]) {
    const uint32_t of = 32 / group, row = p * HT_ROW_GROUP;
    const bool has_min = has_mins(kind);
    vf scale[TILE_VECTORS], back[TILE_VECTORS], min[TILE_VECTORS];
    UNROLL(4)
    for (int v = 0; v < TILE_VECTORS; v++) {
        scale[v] = load_floats(at->scale + row + v * LANES);
        back[v] = PANEL_BACK ? load_floats(at->back + row + v * LANES) : back_of(scale[v]);
        min[v] = has_min ? load_floats(at->min + row + v * LANES) : splat(0.0f);
    }
    UNROLL(6)
    for (uint32_t i = 0; i < n; i++) {
        const struct ht_act_q8 *a = block_at(at, i, p / of);
        const vf a_sum = of == 2 ? half_128(a, half) : splat(a->sum);
        UNROLL(4)
        for (int v = 0; v < TILE_VECTORS; v++) {
            vf sum = half > 0 ? both_halves(first[i][v], s[i][v], scale[v])
                              : scaled_sum(s[i][v], scale[v], back[v]);
            if (has_min && of == 2) sum = fma_sub(min[v], a_sum, sum);
            if (half + 1 == of)
                y[i][v] = fma_add(sum, splat(a->scale), y[i][v]);
            else
                first[i][v] = sum;
            if (has_min && of == 1) y[i][v] = fma_sub(min[v], a_sum, y[i][v]);
        }
    }
}

// n_parts parts of `group` weights with a scale each, side by side, so that there are chains of
// products enough to hide how long one takes. half: of the block, for a single part of 16.
INLINE void tile_parts(const uint32_t n, const uint32_t group, const enum kind kind,
                       const uint32_t n_parts, const struct place *at, const uint32_t half,
                       vf first[TILE_TOKENS][TILE_VECTORS], vf y[TILE_TOKENS][TILE_VECTORS]) {
    const uint32_t of = 32 / group;
    // Small codes: products of so many steps of four codes fit in 16 bits.
    const uint32_t n_steps = kind == NIBBLES_MINS || kind == NIBBLES_OFFSET ? 8 : group / 8;
    const bool small = SMALL_PAIRS && kind != PLAIN, has_min = has_mins(kind);
    const bool signs = NEGATIVES && kind == PLAIN;
    vi s[TILE_PARTS][TILE_TOKENS][TILE_VECTORS];
    UNROLL(2)
    for (uint32_t p = 0; p < n_parts; p++) {
        UNROLL(6)
        for (uint32_t i = 0; i < n; i++) {
            const struct ht_act_q8 *a = block_at(at, i, p / of);
            int32_t bias = of == 2 ? a->bias_half[half + p % of] : a->bias;
            vi begin = splat_int(bias);
            if (has_offset(kind))
                begin = (begin >> at->shift) + (HT_SHIFTED - (HT_SHIFTED >> at->shift));
            if (has_min || (CODES_SIGNED && kind == PLAIN)) begin = splat_int(HT_SHIFTED);
            UNROLL(4)
            for (int v = 0; v < TILE_VECTORS; v++) {
                const float *negatives = at->min + p * HT_ROW_GROUP + v * LANES;
                s[p][i][v] = signs ? (vi)load_floats(negatives) : begin;
            }
        }
    }
    vi pairs[TILE_PARTS][TILE_TOKENS][TILE_VECTORS];
    UNROLL(8)
    for (uint32_t c = 0; c < group / 4; c++) {
        UNROLL(2)
        for (uint32_t p = 0; p < n_parts; p++) {
            vi w[TILE_VECTORS], mask[TILE_VECTORS];
            UNROLL(4)
            for (int v = 0; v < TILE_VECTORS; v++) {
                w[v] = code_at(at, n_parts, p, group / 4, c, v);
                if (signs) take_sign(&w[v], &mask[v]);
            }
            UNROLL(6)
            for (uint32_t i = 0; i < n; i++) {
                const struct ht_act_q8 *a = block_at(at, i, p / of);
                const int8_t *codes = a->q + (half + p % of) * 16;
                const vi q = broadcast4(codes + 4 * c);
                vi *sum = s[p][i];
                UNROLL(4)
                for (int v = 0; v < TILE_VECTORS; v++) {
                    if (small)
                        add_small(&sum[v], &pairs[p][i][v], w[v], q, c, n_steps);
                    else if (signs)
                        sum[v] = dot4_small(sum[v], w[v], q ^ mask[v]);
                    else
                        sum[v] = dot4_word(sum[v], w[v], codes, c, has_min);
                }
            }
        }
    }
    UNROLL(2)
    for (uint32_t p = 0; p < n_parts; p++)
        fold_part(n, group, kind, at, p, half + p % of, s[p], first, y);
}

// n_parts parts, from `half` of a block on; codes and scales move on behind them.
INLINE void tile_step(const uint32_t n, const uint32_t group, const enum kind kind,
                      const uint32_t n_parts, struct place *at, const uint32_t half,
                      vf first[TILE_TOKENS][TILE_VECTORS], vf y[TILE_TOKENS][TILE_VECTORS]) {
    tile_parts(n, group, kind, n_parts, at, half, first, y);
    at->code += code_bytes(n_parts * group);
    at->scale += n_parts * HT_ROW_GROUP;
    at->back += n_parts * HT_ROW_GROUP;
    at->min += n_parts * HT_ROW_GROUP;
}

// All parts of one turn; what lies at the place moves on.
INLINE void tile_turn(const uint32_t n, const uint32_t group, const enum kind kind,
                      const uint32_t n_parts, struct place *at, vf y[TILE_TOKENS][TILE_VECTORS]) {
    const uint32_t all = turn_parts(group, n_parts);
    vf first[TILE_TOKENS][TILE_VECTORS];
    tile_step(n, group, kind, n_parts, at, 0, first, y);
    if (all > n_parts) tile_step(n, group, kind, n_parts, at, 1, first, y);
    tokens_advance(&at->act, n, all * group / 32 * sizeof(struct ht_act_q8));
#if SUMS_FAR
    UNROLL(6)
    for (uint32_t i = 0; i < n; i++) {
        UNROLL(4)
        for (int v = 0; v < TILE_VECTORS; v++) __asm__("" : "+m"(y[i][v]));
    }
#endif
}

// n tokens x TILE_VECTORS vectors of rows over whole turns of a chunk: of each a sum of floats and
// n_parts of integers; codes, one broadcast.
INLINE void tile_by(const uint32_t n, const uint32_t group, const enum kind kind, int offset,
                    const uint32_t n_parts, const struct ht_panel *p, const struct ht_tile_args *t,
                    uint32_t token, uint32_t row, struct ahead *ahead) {
    const uint32_t n_blocks = turn_parts(group, n_parts) * group / 32;
    struct place at = {.code = codes_of(p) + 4 * row,
                       .scale = p->scale + row,
                       .back = p->back + row,
                       .min = p->min + row,
                       .part_bytes = p->part_bytes,
                       .act = tokens_of(t, token, n)};
    if (has_offset(kind)) at.shift = __builtin_ctz(128u / (unsigned)offset);
    const float *from = t->from + token * t->from_stride + row;
    const bool whole = n == whole_tokens(kind);
    float *to = t->to + token * t->to_stride + row;
    size_t to_stride = t->to_stride;
    ask_output(t, token, n, row, TILE_VECTORS * LANES);
    vf y[TILE_TOKENS][TILE_VECTORS];
    UNROLL(6)
    for (uint32_t i = 0; i < n; i++) {
        UNROLL(4)
        for (int v = 0; v < TILE_VECTORS; v++)
            y[i][v] = load_floats(from + i * t->from_stride + v * LANES);
    }
    uint32_t left = t->n_k / HT_Q8_BLOCK;
    const bool two = TWO_LOOPS && whole;
    if (two && t->act_far) { // gcc does not always make two loops of one
        for (; left >= n_blocks; left -= n_blocks) {
            ahead_step(ahead);
            ask_tokens(&at.act, n, n_blocks);
            tile_turn(n, group, kind, n_parts, &at, y);
        }
    }
    for (; left >= n_blocks; left -= n_blocks) {
        ahead_step(ahead);
        bool far = t->act_far;
        if (!TWO_LOOPS) __asm__("" : "+r"(far)); // and here it would
        if (far && !two) ask_tokens(&at.act, n, n_blocks);
        tile_turn(n, group, kind, n_parts, &at, y);
    }
    if (whole && t->add) {
        ADD_SUMS(n, TILE_VECTORS, t, token, row, y);
        to = t->out + token * t->out_stride + row;
        to_stride = t->out_stride;
    }
    UNROLL(6)
    for (uint32_t i = 0; i < n; i++) {
        UNROLL(4)
        for (int v = 0; v < TILE_VECTORS; v++)
            store_floats(to + i * to_stride + v * LANES, y[i][v]);
    }
}

INLINE void tile(const uint32_t n, const uint32_t group, const enum kind kind, int offset,
                 const struct ht_panel *p, const struct ht_tile_args *t, uint32_t token,
                 uint32_t row, struct ahead *ahead) {
    tile_by(n, group, kind, offset, TILE_PARTS, p, t, token, row, ahead);
}

#if TILE_PARTS > 1
// The chunk's last block, where turns of two leave it over; token by token, since K is seldom such.
INLINE void last_block(const enum kind kind, const struct ht_panel *p,
                       const struct ht_tile_args *t) {
    const size_t n = t->n_k / HT_Q8_BLOCK - 1, scales = n * HT_ROW_GROUP; // blocks in front
    struct ht_panel last = *p;
    codes_skip(&last, n * HT_Q8_BLOCK);
    last.scale += scales;
    last.back += scales;
    last.min += scales;
    struct ahead nothing = {.n_turns = 1};
    struct ht_tile_args one = *t;
    one.n_k = HT_Q8_BLOCK;
    one.act += n * sizeof(struct ht_act_q8);
    one.from = t->to;
    one.from_stride = t->to_stride;
    for (uint32_t token = 0; token < t->n_tokens; token++)
        for (uint32_t r = 0; r < HT_ROW_GROUP; r += TILE_ROWS)
            tile_by(1, HT_Q8_BLOCK, kind, 0, 1, &last, &one, token, r, &nothing);
}
#endif
#endif

INLINE void tiles(const uint32_t group, const enum kind kind, int offset, const struct ht_panel *p,
                  const struct ht_tile_args *t) {
    const uint32_t m = whole_tokens(kind), rows = TILE_ROWS;
    // The tile of two rare formats, IQ2_XS and IQ2_S, is large: what is left goes token by token.
    const bool by_one = SMALL_PAIRS && group == 16 && kind == PLAIN;
    const uint32_t rest = by_one ? t->n_tokens % m : t->n_tokens % m > 0;
    const uint32_t n_tiles = (t->n_tokens / m + rest) * (HT_ROW_GROUP / rows);
    const uint32_t n_turns = n_tiles * (t->n_k / (group * turn_parts(group, TILE_PARTS)));
    struct ahead ahead = ahead_of(t, n_turns);
    uint32_t token = 0, stored = 0; // tokens from here on are not added to
    struct ht_tile_args whole = *t;
#if TILE_PARTS > 1
    const bool last = group == HT_Q8_BLOCK && t->n_k / HT_Q8_BLOCK % TILE_PARTS != 0;
    if (last) whole.add = NULL;
#endif
    for (; token + m <= t->n_tokens; token += m)
        for (uint32_t r = 0; r < HT_ROW_GROUP; r += rows)
            tile(m, group, kind, offset, p, &whole, token, r, &ahead);
    if (TILE_ADDS && whole.add) stored = token;
    for (uint32_t i = token; by_one && i < t->n_tokens; i++)
        for (uint32_t r = 0; r < HT_ROW_GROUP; r += rows)
            tile(1, group, kind, offset, p, t, i, r, &ahead);
    for (uint32_t r = 0; !by_one && r < HT_ROW_GROUP; r += rows) {
        switch (t->n_tokens - token) {
        case 1: tile(1, group, kind, offset, p, t, token, r, &ahead); break;
        case 2: tile(2, group, kind, offset, p, t, token, r, &ahead); break;
        case 3: tile(3, group, kind, offset, p, t, token, r, &ahead); break;
        case 4:
            if (m > 4) tile(4, group, kind, offset, p, t, token, r, &ahead);
            break;
        case 5:
            if (m > 5) tile(5, group, kind, offset, p, t, token, r, &ahead);
            break;
        default: break;
        }
    }
#if TILE_PARTS > 1
    if (last) last_block(kind, p, t);
#endif
    if (t->add) add_output(t, stored, t->n_tokens - stored);
}

#endif
