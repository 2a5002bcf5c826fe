// SPDX-License-Identifier: MIT
// The int8 kernels of a vector level: activations, packers, the tile, and the streaming kernel that
// multiplies without a panel. A level's file includes the header of its instruction set, says how
// products are added, and includes this:
//   CODES_SIGNED          1: codes are signed; 0: unsigned, and a sum starts at the bias
//   dot4(acc, code, q)    acc + code . q in each lane, exact
//   dot4_small(...)       the same for codes that are 0 .. 127
//   TILE_VECTORS, TILE_TOKENS   the tile: TILE_VECTORS * LANES rows x TILE_TOKENS tokens, 4 to 6
//   TILE_PARTS            parts of K with a scale each that it multiplies side by side: 1 (the
//                         default) or 2
//   PANEL_BACK            1: panels hold what takes HT_SHIFT off scaled sums (default 0)
//   STREAM_TOKENS         up to this many tokens are multiplied without a panel (at most
//                         HT_STREAM_TOKENS)
//   OWN_TILE              if defined: the level's file defines tile() itself, behind the include,
//                         for TILE_ROWS rows; in front store_codes() (q8_pack.h)
#ifndef HT_LINEAR_Q8_H
#define HT_LINEAR_Q8_H

#include <math.h>

#include "backend/cpu/linear/q8_pack.h"
#include "backend/cpu/linear/q8_stream.h"

// ---- activations -------------------------------------------------------------------------------

// best_top of scalar.c.
INLINE float best_top(const vf *v, float amax) {
    float best = INFINITY, top = ht_tops[0];
    UNROLL(3)
    for (int i = 0; i < HT_N_TOPS; i++) {
        vf lane[PARTS / 2], inverse = splat(ht_tops[i] / amax);
        UNROLL(8)
        for (int p = 0; p < PARTS; p++) {
            vf e = fraction(v[p] * inverse);
            if (p < PARTS / 2)
                lane[p] = e * e;
            else
                lane[p - PARTS / 2] = fma_add(e, e, lane[p - PARTS / 2]);
        }
        float error = reduce_16(lane) * ht_top_weights[i];
        top = error < best ? ht_tops[i] : top;
        best = error < best ? error : best;
    }
    return top;
}

static void act_q8(const float *x, uint32_t n_in, struct ht_act_q8 *dst, size_t dst_step) {
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
        if (amax_bits >= 0x7f800000 || !(ht_tops[0] / amax < INFINITY)) {
            ht_act_q8_scalar(x + k, HT_Q8_BLOCK, dst, dst_step);
            continue;
        }
        float top = best_top(v, amax), inverse = top / amax;
        vi sum[2] = {splat_int(0), splat_int(0)};
        UNROLL(8)
        for (int i = 0; i < PARTS; i++) {
            vi q = round_int(v[i] * splat(inverse));
            sum[i / (PARTS / 2)] += q;
            store_bytes(dst->q + i * LANES, q);
        }
        int32_t s0 = reduce_add(sum[0]), s1 = reduce_add(sum[1]);
        dst->scale = amax / top;
        dst->bias = HT_SHIFTED - 128 * (s0 + s1);
        dst->bias_half[0] = HT_SHIFTED - 128 * s0;
        dst->bias_half[1] = HT_SHIFTED - 128 * s1;
        dst->sum = dst->scale * (float)(s0 + s1);
        dst->sum_half[0] = dst->scale * (float)s0;
        dst->sum_half[1] = dst->scale * (float)s1;
        dst->zero = 0.0f;
    }
    if (whole < n_in) ht_act_q8_scalar(x + whole, n_in - whole, dst, dst_step);
}

// ---- the tile ----------------------------------------------------------------------------------

INLINE void tile(const uint32_t n, const uint32_t group, const bool has_min,
                 const struct ht_panel *p, const struct ht_tile_args *t, uint32_t token,
                 uint32_t row, struct ahead *ahead);

#ifndef TILE_PARTS
#define TILE_PARTS 1
#endif

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
    struct tokens act;
};

INLINE const struct ht_act_q8 *block_at(const struct place *at, const uint32_t token,
                                        const uint32_t block) {
    return (const struct ht_act_q8 *)token_at(&at->act, token) + block;
}

// n_parts parts of `group` weights with a scale each, side by side, so that there are chains of
// products enough to hide how long one takes. half: of the block, for a single part of 16.
INLINE void tile_parts(const uint32_t n, const uint32_t group, const bool has_min,
                       const uint32_t n_parts, const struct place *at, uint32_t half,
                       vf y[TILE_TOKENS][TILE_VECTORS]) {
    const uint32_t of = 32 / group;
    vi s[TILE_PARTS][TILE_TOKENS][TILE_VECTORS];
    if (n_parts >= of) half = 0;
    UNROLL(2)
    for (uint32_t p = 0; p < n_parts; p++) {
        UNROLL(6)
        for (uint32_t i = 0; i < n; i++) {
            const struct ht_act_q8 *a = block_at(at, i, p / of);
            int32_t bias = of == 2 ? a->bias_half[half + p % of] : a->bias;
            if (CODES_SIGNED) bias = HT_SHIFTED;
            UNROLL(4)
            for (int v = 0; v < TILE_VECTORS; v++) s[p][i][v] = splat_int(bias);
        }
    }
    UNROLL(8)
    for (uint32_t c = 0; c < group / 4; c++) {
        UNROLL(2)
        for (uint32_t p = 0; p < n_parts; p++) {
            const vi *code = (const void *)(at->code + (p * group / 4 + c) * 128);
            vi w[TILE_VECTORS];
            UNROLL(4)
            for (int v = 0; v < TILE_VECTORS; v++) w[v] = code[v];
            UNROLL(6)
            for (uint32_t i = 0; i < n; i++) {
                const struct ht_act_q8 *a = block_at(at, i, p / of);
                vi q = broadcast4(a->q + (half + p % of) * 16 + c * 4), *sum = s[p][i];
                UNROLL(4)
                for (int v = 0; v < TILE_VECTORS; v++)
                    sum[v] = has_min ? dot4_small(sum[v], w[v], q) : dot4(sum[v], w[v], q);
            }
        }
    }
    UNROLL(2)
    for (uint32_t p = 0; p < n_parts; p++) {
        vf scale[TILE_VECTORS], back[TILE_VECTORS], min[TILE_VECTORS];
        UNROLL(4)
        for (int v = 0; v < TILE_VECTORS; v++) {
            const uint32_t row = p * HT_ROW_GROUP + (uint32_t)v * LANES;
            scale[v] = load_floats(at->scale + row);
            back[v] = PANEL_BACK ? load_floats(at->back + row) : back_of(scale[v]);
            min[v] = has_min ? load_floats(at->min + row) : splat(0.0f);
        }
        UNROLL(6)
        for (uint32_t i = 0; i < n; i++) {
            const struct ht_act_q8 *a = block_at(at, i, p / of);
            vf a_sum = splat(of == 2 ? a->sum_half[half + p % of] : a->sum);
            UNROLL(4)
            for (int v = 0; v < TILE_VECTORS; v++) {
                y[i][v] = fold(y[i][v], s[p][i][v], scale[v], back[v], a->scale);
                if (has_min) y[i][v] = fma_sub(min[v], a_sum, y[i][v]);
            }
        }
    }
}

// All parts of one turn; what lies at the place moves on.
INLINE void tile_turn(const uint32_t n, const uint32_t group, const bool has_min,
                      const uint32_t n_parts, struct place *at, vf y[TILE_TOKENS][TILE_VECTORS]) {
    const uint32_t all = turn_parts(group, n_parts);
    for (uint32_t p = 0; p < all; p += n_parts) {
        if (all > n_parts) __asm__("" : "+r"(p)); // one code for both halves of a block
        tile_parts(n, group, has_min, n_parts, at, p, y);
        at->code += n_parts * group * HT_ROW_GROUP;
        at->scale += n_parts * HT_ROW_GROUP;
        at->back += n_parts * HT_ROW_GROUP;
        at->min += n_parts * HT_ROW_GROUP;
    }
    tokens_advance(&at->act, n, all * group / 32 * sizeof(struct ht_act_q8));
}

// n tokens x TILE_VECTORS vectors of rows over whole turns of a chunk: of each a sum of floats and
// n_parts of integers; codes, one broadcast.
INLINE void tile_by(const uint32_t n, const uint32_t group, const bool has_min,
                    const uint32_t n_parts, const struct ht_panel *p, const struct ht_tile_args *t,
                    uint32_t token, uint32_t row, struct ahead *ahead) {
    const uint32_t n_blocks = turn_parts(group, n_parts) * group / 32;
    struct place at = {(uint8_t *)p->code + 4 * row, p->scale + row, p->back + row, p->min + row,
                       tokens_of(t, token, n)};
    const float *from = t->from + token * t->from_stride + row;
    float *to = t->to + token * t->to_stride + row;
    ask_output(to, t->to_stride, n, TILE_VECTORS * LANES);
    vf y[TILE_TOKENS][TILE_VECTORS];
    UNROLL(6)
    for (uint32_t i = 0; i < n; i++) {
        UNROLL(4)
        for (int v = 0; v < TILE_VECTORS; v++)
            y[i][v] = load_floats(from + i * t->from_stride + v * LANES);
    }
    for (uint32_t left = t->n_k / HT_Q8_BLOCK; left >= n_blocks; left -= n_blocks) {
        ahead_step(ahead);
        if (t->act_far) ask_tokens(&at.act, n, n_blocks);
        tile_turn(n, group, has_min, n_parts, &at, y);
    }
    UNROLL(6)
    for (uint32_t i = 0; i < n; i++) {
        UNROLL(4)
        for (int v = 0; v < TILE_VECTORS; v++)
            store_floats(to + i * t->to_stride + v * LANES, y[i][v]);
    }
}

INLINE void tile(const uint32_t n, const uint32_t group, const bool has_min,
                 const struct ht_panel *p, const struct ht_tile_args *t, uint32_t token,
                 uint32_t row, struct ahead *ahead) {
    tile_by(n, group, has_min, TILE_PARTS, p, t, token, row, ahead);
}

#if TILE_PARTS > 1
// The chunk's last block, where turns of two leave it over; token by token, since K is seldom such.
INLINE void last_block(const bool has_min, const struct ht_panel *p, const struct ht_tile_args *t) {
    const size_t n = t->n_k / HT_Q8_BLOCK - 1, scales = n * HT_ROW_GROUP; // blocks in front
    struct ht_panel last = {(uint8_t *)p->code + n * HT_Q8_BLOCK * HT_ROW_GROUP, p->scale + scales,
                            p->back + scales, p->min + scales};
    struct ahead nothing = {.n_turns = 1};
    struct ht_tile_args one = *t;
    one.n_k = HT_Q8_BLOCK;
    one.act += n * sizeof(struct ht_act_q8);
    one.from = t->to;
    one.from_stride = t->to_stride;
    for (uint32_t token = 0; token < t->n_tokens; token++)
        for (uint32_t r = 0; r < HT_ROW_GROUP; r += TILE_ROWS)
            tile_by(1, HT_Q8_BLOCK, has_min, 1, &last, &one, token, r, &nothing);
}
#endif
#endif

INLINE void tiles(const uint32_t group, const bool has_min, const struct ht_panel *p,
                  const struct ht_tile_args *t) {
    const uint32_t m = TILE_TOKENS, rows = TILE_ROWS;
    const uint32_t n_tiles = (t->n_tokens + m - 1) / m * (HT_ROW_GROUP / rows);
    const uint32_t n_turns = n_tiles * (t->n_k / (group * turn_parts(group, TILE_PARTS)));
    struct ahead ahead = ahead_of(t, n_turns);
    uint32_t token = 0;
    for (; token + m <= t->n_tokens; token += m)
        for (uint32_t r = 0; r < HT_ROW_GROUP; r += rows)
            tile(m, group, has_min, p, t, token, r, &ahead);
    for (uint32_t r = 0; r < HT_ROW_GROUP; r += rows) {
        switch (t->n_tokens - token) {
        case 1: tile(1, group, has_min, p, t, token, r, &ahead); break;
        case 2: tile(2, group, has_min, p, t, token, r, &ahead); break;
        case 3: tile(3, group, has_min, p, t, token, r, &ahead); break;
        case 4: tile(m < 5 ? 1 : 4, group, has_min, p, t, token, r, &ahead); break;
        case 5: tile(m < 6 ? 1 : 5, group, has_min, p, t, token, r, &ahead); break;
        default: break;
        }
    }
#if TILE_PARTS > 1
    if (group == HT_Q8_BLOCK && t->n_k / HT_Q8_BLOCK % TILE_PARTS != 0) last_block(has_min, p, t);
#endif
}

static void tile_32(const struct ht_panel *p, const struct ht_tile_args *t) {
    tiles(32, false, p, t);
}
static void tile_32_min(const struct ht_panel *p, const struct ht_tile_args *t) {
    tiles(32, true, p, t);
}
static void tile_16(const struct ht_panel *p, const struct ht_tile_args *t) {
    tiles(16, false, p, t);
}
static void tile_16_min(const struct ht_panel *p, const struct ht_tile_args *t) {
    tiles(16, true, p, t);
}

#define FORMAT(id, name)                                                                           \
    PACK(static, id, pack_##name)                                                                  \
    static void stream_##name(const uint8_t *w, size_t row_bytes, const struct ht_tile_args *t) {  \
        streams(id, w, row_bytes, t);                                                              \
    }
FORMAT(HT_Q4_0, q4_0)
FORMAT(HT_Q4_1, q4_1)
FORMAT(HT_Q5_0, q5_0)
FORMAT(HT_Q5_1, q5_1)
FORMAT(HT_Q8_0, q8_0)
FORMAT(HT_Q2_K, q2_k)
FORMAT(HT_Q3_K, q3_k)
FORMAT(HT_Q4_K, q4_k)
FORMAT(HT_Q5_K, q5_k)
FORMAT(HT_Q6_K, q6_k)
FORMAT(HT_IQ4_NL, iq4_nl)
FORMAT(HT_IQ4_XS, iq4_xs)
FORMAT(HT_TQ2_0, tq2_0)
FORMAT(HT_MXFP4, mxfp4)
// Their streams would be 30 to 40 KB of code each, more than the first-level cache holds, and read
// one token's weights only a tenth (IQ3_S) or a third (TQ1_0) faster than a panel does.
PACK(static, HT_IQ3_S, pack_iq3_s)
PACK(static, HT_TQ1_0, pack_tq1_0)
#undef FORMAT

#define RARE(most) ((most) < STREAM_RARE ? (most) : STREAM_RARE)

// The rows of the level's table, by its tiles of groups of 32, how the names of its streams and of
// some packers begin, and how many tokens the streams of the formats in most use take; and that of
// Q8_0.
#define Q8_FORMATS(tile_32, tile_32_min, packs, stream, most, most_q8_0)                           \
    [HT_Q4_0] = {packs##_q4_0, tile_32, stream##_q4_0, most, most},                                \
    [HT_Q4_1] = {pack_q4_1, tile_32_min, stream##_q4_1, RARE(most), RARE(most)},                   \
    [HT_Q5_0] = {packs##_q5_0, tile_32, stream##_q5_0, RARE(most), RARE(most)},                    \
    [HT_Q5_1] = {pack_q5_1, tile_32_min, stream##_q5_1, RARE(most), RARE(most)},                   \
    [HT_Q8_0] = {packs##_q8_0, tile_32, stream##_q8_0, most_q8_0, most_q8_0},                      \
    [HT_Q2_K] = {pack_q2_k, tile_16_min, stream##_q2_k, STREAM_FEW, STREAM_FEW},                   \
    [HT_Q3_K] = {pack_q3_k, tile_16, stream##_q3_k, STREAM_FEW, STREAM_FEW},                       \
    [HT_Q4_K] = {packs##_q4_k, tile_32_min, stream##_q4_k, most, most},                            \
    [HT_Q5_K] = {pack_q5_k, tile_32_min, stream##_q5_k, STREAM_Q5_K, 2 * STREAM_Q5_K},             \
    [HT_Q6_K] = {pack_q6_k, tile_16, stream##_q6_k, STREAM_FEW, STREAM_FEW},                       \
    [HT_IQ4_NL] = {packs##_iq4_nl, tile_32, stream##_iq4_nl, RARE(most), RARE(most)},              \
    [HT_IQ4_XS] = {pack_iq4_xs, tile_32, stream##_iq4_xs, RARE(most), RARE(most)},                 \
    [HT_TQ2_0] = {pack_tq2_0, tile_32, stream##_tq2_0, STREAM_FEW, STREAM_FEW},                    \
    [HT_MXFP4] = {pack_mxfp4, tile_32, stream##_mxfp4, most, most},                                \
    [HT_IQ3_S] = {pack_iq3_s, tile_32, NULL, 0, 0}, [HT_TQ1_0] = {pack_tq1_0, tile_32, NULL, 0, 0}

#endif
