// SPDX-License-Identifier: MIT
// The int8 kernels of a vector level: activations, packers, the tile, and the streaming kernel that
// multiplies without a panel. A level's file includes the header of its instruction set, says how
// products are added, and includes this:
//   CODES_SIGNED          1: codes are signed; 0: unsigned, and a sum starts at the bias
//   dot4(acc, code, q)    acc + code . q in each lane, exact
//   dot4_small(...)       the same for codes that are 0 .. 127
//   SMALL_PAIRS           1: products of codes of 0 .. 31 (of 0 .. 63 where 16 have a scale) are
//                         added in 16 bits: mul_pairs(code, q), sums of two products, and
//                         sum_pairs(acc, pairs), acc + both numbers of each lane. Codes with an
//                         offset are then unsigned in panels, too, and start as in streams
//                         (default 0)
//   NEGATIVES             1: tiles of signed codes multiply magnitude(code), by q or where
//                         negative(code) has ones by its complement (q8_sum.h; default 0)
//   TILE_VECTORS, TILE_TOKENS   the tile: TILE_VECTORS * LANES rows x TILE_TOKENS tokens, 4 to 6
//   SUMS_FAR              1: a tile's sums of floats lie in memory between blocks, for want of
//                         registers; where it is 0, the compiler may do so as well (default 0)
//   SMALL_TOKENS          tokens of tiles of codes of 0 .. 127, if not TILE_TOKENS
//   TILE_PARTS            parts of K with a scale each that it multiplies side by side: 1 (the
//                         default) or 2
//   DOT4_BY_LANE          1: tiles load eight codes of activations at once (codes8, load_codes8()),
//                         and multiply by the first and the second word of them (dot4_first(),
//                         dot4_second()), instead of by dot4() of a word in all lanes (default 0)
//   PANEL_BACK            1: panels hold what takes HT_SHIFT off scaled sums (default 0)
//   STREAM_TOKENS         up to this many tokens are multiplied without a panel (at most
//                         HT_STREAM_TOKENS)
//   OTHER_Q4_PACKS        if defined: the packers of Q4_0 and Q4_K are in another file
//   OWN_TILE              if defined: the level's file defines tile() itself, behind the include,
//                         for TILE_ROWS rows; in front store_codes() (q8_pack.h)
#ifndef HT_LINEAR_Q8_H
#define HT_LINEAR_Q8_H

#include <math.h>

#include "backend/cpu/linear/q8_pack.h"
#include "backend/cpu/linear/q8_stream.h"
#include "backend/cpu/linear/q8_tile.h"

// ---- activations -------------------------------------------------------------------------------

// best_top of scalar.c.
INLINE float best_top(const struct ht_tops *tops, const vf *v, float amax) {
    float best = INFINITY, top = tops->top[0];
    UNROLL(3)
    for (int i = 0; i < HT_N_TOPS; i++) {
        vf lane[PARTS / 2], inverse = splat(tops->top[i] / amax);
        UNROLL(8)
        for (int p = 0; p < PARTS; p++) {
            vf e = fraction(v[p] * inverse);
            if (p < PARTS / 2)
                lane[p] = e * e;
            else
                lane[p - PARTS / 2] = fma_add(e, e, lane[p - PARTS / 2]);
        }
        float error = reduce_16(lane) * tops->weight[i];
        top = error < best ? tops->top[i] : top;
        best = error < best ? error : best;
    }
    return top;
}

static void act_q8(const struct ht_tops *tops, const float *x, uint32_t n_in, struct ht_act_q8 *dst,
                   size_t dst_step) {
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
        if (amax_bits >= 0x7f800000 || !(tops->top[0] / amax < INFINITY)) {
            ht_act_q8_scalar(tops, x + k, HT_Q8_BLOCK, dst, dst_step);
            continue;
        }
        float top = best_top(tops, v, amax), inverse = top / amax;
        vi sum[2] = {splat_int(0), splat_int(0)}, q[PARTS], pairs = splat_int(0);
        UNROLL(8)
        for (int i = 0; i < PARTS; i++) {
            q[i] = round_int(v[i] * splat(inverse));
            sum[i / (PARTS / 2)] += q[i];
            store_bytes(dst->q + i * LANES, q[i]);
        }
        UNROLL(4)
        for (int i = 0; i < PARTS / 2; i++) pairs += q[i] * (q[PARTS / 2 + i] + 128);
        int32_t s0 = reduce_add(sum[0]), s1 = reduce_add(sum[1]);
        dst->scale = amax / top;
        dst->bias = HT_SHIFTED - 128 * (s0 + s1);
        dst->bias_half[0] = HT_SHIFTED - 128 * s0;
        dst->bias_half[1] = HT_SHIFTED - 128 * s1;
        dst->sum = dst->scale * (float)(s0 + s1);
        dst->pairs[0] = reduce_add(pairs);
        dst->pairs[1] = dst->pairs[0] - 8 * (s0 + s1);
        dst->zero = 0.0f;
    }
    if (whole < n_in) ht_act_q8_scalar(tops, x + whole, n_in - whole, dst, dst_step);
}

static void tile_32(const struct ht_panel *p, const struct ht_tile_args *t) {
    tiles(32, PLAIN, 0, p, t);
}
static void tile_32_min(const struct ht_panel *p, const struct ht_tile_args *t) {
    tiles(32, MINS, 0, p, t);
}
static void tile_16_min(const struct ht_panel *p, const struct ht_tile_args *t) {
    tiles(16, MINS, 0, p, t);
}

// Tiles of formats whose codes have an offset (rows.h).
#if SMALL_PAIRS
static __attribute__((noinline)) void tile_32_small(int offset, const struct ht_panel *p,
                                                    const struct ht_tile_args *t) {
    tiles(32, OFFSET, offset, p, t);
}
static __attribute__((noinline)) void tile_16_small(int offset, const struct ht_panel *p,
                                                    const struct ht_tile_args *t) {
    tiles(16, OFFSET, offset, p, t);
}
#define TILE_OFFSET(group, offset)                                                                 \
    static void tile_##group##_##offset(const struct ht_panel *p, const struct ht_tile_args *t) {  \
        tile_##group##_small(offset, p, t);                                                        \
    }
TILE_OFFSET(32, 1)
TILE_OFFSET(32, 16)
TILE_OFFSET(16, 4)
TILE_OFFSET(16, 32)
#define OFFSET_32(tile, offset) tile_32_##offset
#define OFFSET_16(offset)       tile_16_##offset
#else
static void tile_16(const struct ht_panel *p, const struct ht_tile_args *t) {
    tiles(16, PLAIN, 0, p, t);
}
#define OFFSET_32(tile, offset) tile
#define OFFSET_16(offset)       tile_16
#endif

// Codes of 0 .. 15. At avx512 such tiles are 1 to 6 % faster, too, which is not worth their size.
#if SMALL_PAIRS && LANES == 8
static void tile_32_8(const struct ht_panel *p, const struct ht_tile_args *t) {
    tiles(32, NIBBLES_OFFSET, 8, p, t);
}
static void tile_32_nibbles_min(const struct ht_panel *p, const struct ht_tile_args *t) {
    tiles(32, NIBBLES_MINS, 0, p, t);
}
#define NIBBLES_32_MIN(tile) tile_32_nibbles_min
#else
#if SMALL_PAIRS
TILE_OFFSET(32, 8)
#endif
#define NIBBLES_32_MIN(tile) tile
#endif

#define STREAM(id, name)                                                                           \
    static void stream_##name(const uint8_t *w, size_t row_bytes, const struct ht_tile_args *t) {  \
        streams(id, w, row_bytes, t);                                                              \
    }
#define FORMAT(id, name)                                                                           \
    PACK(static, id, pack_##name)                                                                  \
    STREAM(id, name)
#ifdef OTHER_Q4_PACKS
STREAM(HT_Q4_0, q4_0)
STREAM(HT_Q4_K, q4_k)
#else
FORMAT(HT_Q4_0, q4_0)
FORMAT(HT_Q4_K, q4_k)
#endif
FORMAT(HT_Q4_1, q4_1)
FORMAT(HT_Q5_0, q5_0)
FORMAT(HT_Q5_1, q5_1)
FORMAT(HT_Q8_0, q8_0)
FORMAT(HT_Q2_K, q2_k)
FORMAT(HT_Q3_K, q3_k)
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
#undef STREAM

// A row of the level's table: how the names of its packer and its stream begin, its tile, and how
// many tokens the stream takes.
#define ROW_Q4_0(packs, tile, stream, most)                                                        \
    [HT_Q4_0] = {packs##_q4_0, tile, stream##_q4_0, most, most}
#define ROW_Q4_K(packs, tile, stream, most)                                                        \
    [HT_Q4_K] = {packs##_q4_k, tile, stream##_q4_k, most, most}

// All rows of codes, by the tiles of groups of 32, how the names of the level's streams and of some
// packers begin, and how many tokens the streams of Q4_0 and Q4_K take, and of Q8_0.
#define Q8_FORMATS(tile_32, tile_32_min, packs, stream, most, most_q8_0)                           \
    ROW_Q4_0(packs, OFFSET_32(tile_32, 8), stream, most),                                          \
        ROW_Q4_K(packs, NIBBLES_32_MIN(tile_32_min), stream, most),                                \
        OTHER_FORMATS(tile_32, tile_32_min, packs, pack_iq3_s, stream, most_q8_0)

// Those but Q4_0 and Q4_K.
#define OTHER_FORMATS(tile_32, tile_32_min, packs, iq3_s, stream, most_q8_0)                       \
    [HT_Q4_1] = {pack_q4_1, NIBBLES_32_MIN(tile_32_min), stream##_q4_1, STREAM_RARE, STREAM_RARE}, \
    [HT_Q5_0] = {packs##_q5_0, OFFSET_32(tile_32, 16), stream##_q5_0, STREAM_OTHER, STREAM_OTHER}, \
    [HT_Q5_1] = {pack_q5_1, tile_32_min, stream##_q5_1, STREAM_RARE, STREAM_RARE},                 \
    [HT_Q8_0] = {packs##_q8_0, tile_32, stream##_q8_0, most_q8_0, most_q8_0},                      \
    [HT_Q2_K] = {pack_q2_k, tile_16_min, stream##_q2_k, STREAM_FEW, STREAM_FEW},                   \
    [HT_Q3_K] = {pack_q3_k, OFFSET_16(4), stream##_q3_k, STREAM_FEW, STREAM_FEW},                  \
    [HT_Q5_K] = {pack_q5_k, tile_32_min, stream##_q5_k, STREAM_Q5_K, STREAM_Q5_K_MOST},            \
    [HT_Q6_K] = {pack_q6_k, OFFSET_16(32), stream##_q6_k, STREAM_FEW, STREAM_FEW},                 \
    [HT_IQ4_NL] = {packs##_iq4_nl, tile_32, stream##_iq4_nl, STREAM_OTHER, STREAM_OTHER},          \
    [HT_IQ4_XS] = {pack_iq4_xs, tile_32, stream##_iq4_xs, STREAM_OTHER, STREAM_OTHER},             \
    [HT_TQ2_0] = {pack_tq2_0, OFFSET_32(tile_32, 1), stream##_tq2_0, STREAM_RARE, STREAM_RARE},    \
    [HT_MXFP4] = {pack_mxfp4, OFFSET_32(tile_32, 16), stream##_mxfp4, STREAM_OTHER, STREAM_OTHER}, \
    [HT_IQ3_S] = {iq3_s, OFFSET_32(tile_32, 16), NULL, 0, 0},                                      \
    [HT_TQ1_0] = {pack_tq1_0, OFFSET_32(tile_32, 1), NULL, 0, 0}

#endif
