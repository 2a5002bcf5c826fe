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
//   DOT4_BY_LANE          1: products are by dot4_lane(acc, code, q, c), of word c of the codes at
//                         q, instead of by dot4() of that word in all lanes (default 0)
//   PANEL_BACK            1: panels hold what takes HT_SHIFT off a block's first sum (default 0)
//   STREAM_TOKENS         up to this many tokens are multiplied at once without a panel (at most
//                         16); STREAM_Q4_K, STREAM_OTHER: fewer, if defined, of Q4_K
//                         and of formats other than Q8_0, Q4_0 and Q4_K (q8_stream.h)
//   OTHER_Q4_PACKS        if defined: the packers of Q4_0 and Q4_K are in another file
//   MIN_PACK(name)        the packers of formats with mins, which other levels share; MIN_PACKED is
//                         defined where another file has them (default pack_##name, static)
//   ENTRY_PACK, ENTRY_STREAM(name)   if defined: the packer and the streams of formats of entries,
//                         which are in another file (beside VBMI's, those of IQ1)
//   BITS_STREAM(name)     if defined: the streams of few bits, which are in another file or behind
//                         the include
//   RARE_STREAM(name)     if defined: the streams of TQ2_0 and NVFP4, which are in another file
//   OWN_TILE              if defined: the level's file defines tile() itself, behind the include,
//                         for TILE_ROWS rows; in front store_codes() (q8_pack.h)
#ifndef HT_LINEAR_Q8_H
#define HT_LINEAR_Q8_H

#ifndef ENTRY_PACK
#include "backend/cpu/linear/q8_entries.h"
#endif
#include "backend/cpu/linear/q8_bits.h"
#include "backend/cpu/linear/q8_pack.h"
#include "backend/cpu/linear/q8_stream.h"
#include "backend/cpu/linear/q8_tile.h"

static void tile_32(const struct ht_panel *p, const struct ht_tile_args *t) {
    tiles(32, PLAIN, 0, p, t);
}
static void tile_32_min(const struct ht_panel *p, const struct ht_tile_args *t) {
    tiles(32, MINS, 0, p, t);
}
static void tile_16(const struct ht_panel *p, const struct ht_tile_args *t) {
    tiles(16, PLAIN, 0, p, t);
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
#ifndef MIN_PACK
#define MIN_PACK(name)       pack_##name
#define FORMAT_MIN(id, name) FORMAT(id, name)
#elif defined(MIN_PACKED)
#define FORMAT_MIN(id, name) STREAM(id, name)
#else
#define FORMAT_MIN(id, name)                                                                       \
    PACK(, id, MIN_PACK(name))                                                                     \
    STREAM(id, name)
#endif
#ifdef OTHER_Q4_PACKS
STREAM(HT_Q4_0, q4_0)
STREAM(HT_Q4_K, q4_k)
#else
FORMAT(HT_Q4_0, q4_0)
FORMAT_MIN(HT_Q4_K, q4_k)
#endif
FORMAT_MIN(HT_Q4_1, q4_1)
FORMAT(HT_Q5_0, q5_0)
FORMAT_MIN(HT_Q5_1, q5_1)
FORMAT(HT_Q8_0, q8_0)
FORMAT_MIN(HT_Q2_K, q2_k)
FORMAT(HT_Q3_K, q3_k)
FORMAT_MIN(HT_Q5_K, q5_k)
FORMAT(HT_Q6_K, q6_k)
FORMAT(HT_IQ4_NL, iq4_nl)
FORMAT(HT_IQ4_XS, iq4_xs)
FORMAT(HT_MXFP4, mxfp4)
PACK(static, HT_TQ2_0, pack_tq2_0)
PACK(static, HT_NVFP4, pack_nvfp4)
#ifdef RARE_STREAM
#define TQ2_0_STREAM(stream) RARE_STREAM(tq2_0)
#else
#define RARE_STREAM(name)    stream_##name
#define TQ2_0_STREAM(stream) stream##_tq2_0
STREAM(HT_TQ2_0, tq2_0)
STREAM(HT_NVFP4, nvfp4)
#endif
// Its stream would be 30 to 40 KB of code, more than the first-level cache holds, and read one
// token's weights only a third faster than a panel does.
PACK(static, HT_TQ1_0, pack_tq1_0)
#undef FORMAT
#undef FORMAT_MIN
#undef STREAM

// A row of the level's table: its packer or how its name begins, its tile, how its stream's name
// begins, and how many tokens that takes.
#define ROW_Q4_0(packs, tile, stream)                                                              \
    [HT_Q4_0_ROW] = {packs##_q4_0, tile, stream##_q4_0, STREAM_NARROW, STREAM_NARROW}
#define ROW_Q4_K(pack, tile, stream)                                                               \
    [HT_Q4_K_ROW] = {pack, tile, stream##_q4_k, STREAM_Q4_K, STREAM_Q4_K}

#ifndef ENTRY_PACK
PACK_ENTRIES(static, ENTRIES_OWN, pack_entries)
#define ENTRY_PACK pack_entries
#endif
#ifndef ENTRY_STREAM
#define ENTRY_STREAM(name)        stream_##name
#define OWN_STREAM(id, name, ...) STREAM_ENTRIES(static, id, stream_##name)
HT_ENTRY_STREAMS(OWN_STREAM)
#undef OWN_STREAM
#endif
#ifndef BITS_STREAM
#define BITS_STREAM(name) bits_##name
STREAM_BITS(static, HT_Q1_0, bits_q1_0)
STREAM_BITS(static, HT_Q2_0, bits_q2_0)
#endif

// All rows of codes, by the tiles of groups of 32, how the names of the level's streams and of some
// packers begin.
#define Q8_FORMATS(tile_32, tile_32_min, packs, stream)                                            \
    ROW_Q4_0(packs, OFFSET_32(tile_32, 8), stream),                                                \
        ROW_Q4_K(MIN_PACK(q4_k), NIBBLES_32_MIN(tile_32_min), stream),                             \
        OTHER_FORMATS(tile_32, tile_32_min, packs, stream, STREAM_TOKENS),                         \
        ENTRY_FORMATS(tile_32, ENTRY_PACK, ENTRY_STREAM, ENTRY_STREAM)

// Those but Q4_0, Q4_K and formats of entries; most_q8_0: how many tokens the stream of Q8_0 takes.
#define OTHER_FORMATS(tile_32, tile_32_min, packs, stream, most_q8_0)                              \
    [HT_Q4_1_ROW] = {MIN_PACK(q4_1), NIBBLES_32_MIN(tile_32_min), stream##_q4_1, STREAM_OTHER,     \
                     STREAM_OTHER},                                                                \
    [HT_Q5_0_ROW] = {packs##_q5_0, OFFSET_32(tile_32, 16), stream##_q5_0, STREAM_OTHER,            \
                     STREAM_OTHER},                                                                \
    [HT_Q5_1_ROW] = {MIN_PACK(q5_1), tile_32_min, stream##_q5_1, STREAM_RARE, STREAM_RARE},        \
    [HT_Q8_0_ROW] = {packs##_q8_0, tile_32, stream##_q8_0, most_q8_0, most_q8_0},                  \
    [HT_Q2_K_ROW] = {MIN_PACK(q2_k), tile_16_min, stream##_q2_k, STREAM_FEW, STREAM_FEW},          \
    [HT_Q3_K_ROW] = {pack_q3_k, OFFSET_16(4), stream##_q3_k, STREAM_FEW, STREAM_FEW},              \
    [HT_Q5_K_ROW] = {MIN_PACK(q5_k), tile_32_min, stream##_q5_k, STREAM_Q5_K, STREAM_Q5_K_MOST},   \
    [HT_Q6_K_ROW] = {pack_q6_k, OFFSET_16(32), stream##_q6_k, STREAM_FEW, STREAM_FEW},             \
    [HT_IQ4_NL_ROW] = {packs##_iq4_nl, tile_32, stream##_iq4_nl, STREAM_OTHER, STREAM_OTHER},      \
    [HT_IQ4_XS_ROW] = {pack_iq4_xs, tile_32, stream##_iq4_xs, STREAM_OTHER, STREAM_OTHER},         \
    [HT_TQ2_0_ROW] = {pack_tq2_0, OFFSET_32(tile_32, 1), TQ2_0_STREAM(stream), STREAM_RARE,        \
                      STREAM_RARE},                                                                \
    [HT_MXFP4_ROW] = {pack_mxfp4, OFFSET_32(tile_32, 16), stream##_mxfp4, STREAM_OTHER,            \
                      STREAM_OTHER},                                                               \
    [HT_NVFP4_ROW] = {pack_nvfp4, OFFSET_16(32), RARE_STREAM(nvfp4), STREAM_RARE, STREAM_RARE},    \
    [HT_TQ1_0_ROW] = {pack_tq1_0, OFFSET_32(tile_32, 1), NULL, 0, 0}

// So many tokens of IQ1 and IQ2 in passes are faster than a panel (docs/kernels.md; Arm's were not
// measured).
#define GRID_MOST (LANES == 8 ? 2 : 1)
// Formats of entries, whose packer and streams (iq1: those of IQ1) a level may have of another.
#define ENTRY_FORMATS(tile_32, pack, iq1, stream)                                                  \
    [HT_IQ1_S_ROW] = {pack, OFFSET_32(tile_32, 16), iq1(iq1_s), 1, GRID_MOST},                     \
    [HT_IQ1_M_ROW] = {pack, OFFSET_16(32), iq1(iq1_m), 1, GRID_MOST},                              \
    [HT_IQ2_XXS_ROW] = {pack, tile_32, stream(iq2_xxs), 1, GRID_MOST},                             \
    [HT_IQ2_XS_ROW] = {pack, tile_16, stream(iq2_xs), 1, GRID_MOST},                               \
    [HT_IQ2_S_ROW] = {pack, tile_16, stream(iq2_s), 1, GRID_MOST},                                 \
    [HT_IQ3_XXS_ROW] = {pack, tile_32, stream(iq3_xxs), 1, 1},                                     \
    [HT_IQ3_S_ROW] = {pack, OFFSET_32(tile_32, 16), stream(iq3_s), 1, 1},                          \
    [HT_Q1_0_ROW] = {pack, OFFSET_32(tile_32, 1), BITS_STREAM(q1_0), 1, Q1_0_MOST},                \
    [HT_Q2_0_ROW] = {pack, OFFSET_32(tile_32, 1), BITS_STREAM(q2_0), 1, Q2_0_MOST}

#endif
