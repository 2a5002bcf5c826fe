// SPDX-License-Identifier: MIT
// The formats of codes whose weights the levels of x86 repack (linear.h). `level` is a macro that
// makes the names of a level's functions of their parts.
#ifndef HT_LINEAR_X86_REPACKED_LIST_H
#define HT_LINEAR_X86_REPACKED_LIST_H

#include "backend/cpu/linear/kernels.h"

// HT_REPACKED_ALL: at all of them, with streams of up to PAIRS_TOKENS tokens.
// HT_REPACKED_OTHERS: at those with AVX-512, of up to HT_REPACKED_MOST a pass.
// HT_REPACKED_LOOKUPS, whose codes are looked up in a table: as those, with AVX512-VBMI.
#define HT_REPACKED_ALL(DO, level)                                                                 \
    DO(level, HT_Q4_0, q4_0)                                                                       \
    DO(level, HT_Q8_0, q8_0)                                                                       \
    DO(level, HT_Q4_K, q4_k)                                                                       \
    DO(level, HT_Q5_K, q5_k)                                                                       \
    DO(level, HT_Q6_K, q6_k)
#define HT_REPACKED_MOST 4
#define HT_REPACKED_OTHERS(DO, level)                                                              \
    DO(level, HT_Q5_0, q5_0)                                                                       \
    DO(level, HT_Q2_K, q2_k)                                                                       \
    DO(level, HT_Q3_K, q3_k)
#define HT_REPACKED_LOOKUPS(DO, level)                                                             \
    DO(level, HT_IQ4_NL, iq4_nl)                                                                   \
    DO(level, HT_IQ4_XS, iq4_xs)                                                                   \
    DO(level, HT_MXFP4, mxfp4)

#define HT_REPACKED_DECLARE(level, id, name)                                                       \
    ht_pack_fn level(pack_##name);                                                                 \
    ht_stream_fn level(stream_##name);

// The rows of a level's table for the latter two, by its tile of groups of 32 (q8.h) and how many
// tokens their streams take in passes.
#define HT_REPACKED_ROW(level, id, name, tile, most)                                               \
    [id##_ROW] = {level(pack_##name), tile, level(stream_##name), HT_REPACKED_MOST, most}
#define HT_REPACKED_OTHER_ROWS(tile_32, level, most)                                               \
    HT_REPACKED_ROW(level, HT_Q5_0, q5_0, OFFSET_32(tile_32, 16), most),                           \
        HT_REPACKED_ROW(level, HT_Q2_K, q2_k, tile_16_min, most),                                  \
        HT_REPACKED_ROW(level, HT_Q3_K, q3_k, OFFSET_16(4), most)
#define HT_REPACKED_LOOKUP_ROWS(tile_32, level, most)                                              \
    HT_REPACKED_ROW(level, HT_IQ4_NL, iq4_nl, tile_32, most),                                      \
        HT_REPACKED_ROW(level, HT_IQ4_XS, iq4_xs, tile_32, most),                                  \
        HT_REPACKED_ROW(level, HT_MXFP4, mxfp4, OFFSET_32(tile_32, 16), most)

#endif
