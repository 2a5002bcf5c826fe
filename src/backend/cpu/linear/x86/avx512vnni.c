// SPDX-License-Identifier: MIT
// The linear kernels of the levels with VNNI: codes are unsigned bytes, vpdpbusd adds four products
// a lane, and a sum starts at minus the offset's share. avx512vnni multiplies BF16 as f32, and its
// streams of one token ask by address. avx512bf16, which is AMD's, has vdpbf16ps, asks in the order
// of reading, and multiplies sums in panels of Q4_0 and Q4_K (q8_sums.h). amx is as avx512vnni but
// for tiles of codes with a scale for each 32, and for BF16. No state; any thread.
#include "backend/cpu/linear/x86/vec_avx512.h"

#define CODES_SIGNED  0
#define TILE_VECTORS  2
#define TILE_TOKENS   4
#define TILE_PARTS    2
#define PANEL_BACK    1
#define STREAM_TOKENS 16
#define STREAM_CHAINS 2
#define OTHER_Q4_PACKS
#define ENTRY_PACK         ht_entries_avx512_unsigned
#define ENTRY_STREAM(name) HT_ENTRIES_AVX2(name)

#include "backend/cpu/linear/x86/vnni_avx512.h"

#include "backend/cpu/linear/q8.h"
#include "backend/cpu/linear/x86/amx.h"
#include "backend/cpu/linear/x86/float.h"
#include "backend/cpu/linear/x86/gather.h"
#include "backend/cpu/linear/x86/one.h"
#include "backend/cpu/linear/x86/repacked.h"
#include "backend/cpu/linear/x86/shared.h"
#include "backend/cpu/linear/x86/sums.h"

#define LIST(...)                                                                                  \
    { __VA_ARGS__ }

// More tokens than `q4`, `q8`, of Q5_K and Q6_K `slow`, of repacked_list.h's others `few`, or
// `floats` go through panels, which cost little to make.
#define REPACKED_FORMATS(t32, t32_min, q4_packs, t4, t4_min, q8_0_pack, q8_0_tile, q4, q8, slow,   \
                         few, floats, vbmi, ...)                                                   \
    [HT_F16_ROW] = {ht_repacked_pack_f16, ht_tile_f32_avx512, ht_repacked_stream_f16, 8, floats},  \
    [HT_BF16_ROW] = {__VA_ARGS__},                                                                 \
    [HT_Q4_0_ROW] = {q4_packs##_q4_0, t4, ht_repacked_stream_q4_0, 8, q4},                         \
    [HT_Q8_0_ROW] = {q8_0_pack, q8_0_tile, ht_repacked_stream_q8_0, 8, q8},                        \
    [HT_Q4_K_ROW] = {q4_packs##_q4_k, t4_min, ht_repacked_stream_q4_k, 8, q4},                     \
    [HT_Q5_K_ROW] = {ht_repacked_pack_q5_k, t32_min, ht_repacked_stream_q5_k, 8, slow},            \
    [HT_Q6_K_ROW] = {ht_repacked_pack_q6_k, tile_16, ht_repacked_stream_q6_k, 8, slow},            \
    HT_REPACKED_OTHER_ROWS(t32, HT_AVX512_REPACKED, few), vbmi##_ROWS(t32, few)

// With AVX512-VBMI, and without.
#define WITH_VBMI_ROWS(t32, few) HT_REPACKED_LOOKUP_ROWS(t32, HT_AVX512_REPACKED, few)
#define WITH_VBMI_PACK           ht_vbmi_pack
#define WITH_VBMI_STREAM(name)   HT_ENTRIES_VBMI(name)
#define WITHOUT_VBMI_ROWS(t32, few)
#define WITHOUT_VBMI_PACK         ENTRY_PACK
#define WITHOUT_VBMI_STREAM(name) ENTRY_STREAM(name)

// A level of these kernels: how many tokens' streams ask by address, what those of repacked weights
// ask for, for one token and for more, whether pages are asked for, and what is read later, how
// many tokens these streams take in passes, of Q4_0 and Q4_K, of Q8_0, of Q5_K and Q6_K, of those
// with streams of HT_REPACKED_MOST, and of floats, its tiles of codes with a scale for each 32, how
// the names of the packers of Q4_0 and Q4_K begin, and of those of repacked ones, and their tiles,
// what packs and multiplies repacked Q8_0, how the names of some packers begin, whether its
// processors have VBMI, how the names of its streams begin and how many tokens that of Q8_0 takes,
// the stream of F16, and how it computes BF16: bytes of an activation, what makes them, the rest,
// and repacked.
#define LEVEL(id, label, address, one, more, pages, later, pass_q4, pass_q8, slow, few, floats,    \
              t32, t32_min, q4_packs, q4_repacked, t4, t4_min, q8_0_pack, q8_0_tile, packs, vbmi,  \
              stream, most_q8_0, f16, bf16_size, act_bf16_fn, bf16, ...)                           \
    const struct ht_linear_kernels id = {                                                          \
        .name = label,                                                                             \
        .lanes = LANES,                                                                            \
        .address_tokens = address,                                                                 \
        .ask_one = one,                                                                            \
        .ask_more = more,                                                                          \
        .ask_pages = pages,                                                                        \
        .ask_later = later,                                                                        \
        .bf16_bytes = bf16_size,                                                                   \
        .act_q8 = ht_act_q8_avx512,                                                                \
        .act_bf16 = act_bf16_fn,                                                                   \
        .format = {[HT_F32_ROW] = {ht_pack_f32_avx512, ht_tile_f32_avx512, ht_stream_f32_avx512,   \
                                   4, 4},                                                          \
                   [HT_F16_ROW] = {ht_pack_f16_avx512, ht_tile_f32_avx512, f16, 4, 4},             \
                   [HT_BF16_ROW] = LIST bf16,                                                      \
                   ROW_Q4_0(q4_packs, t4, stream),                                                 \
                   ROW_Q4_K(q4_packs##_q4_k, t4_min, stream),                                      \
                   OTHER_FORMATS(t32, t32_min, packs, stream, most_q8_0),                          \
                   ENTRY_FORMATS(t32, vbmi##_PACK, ENTRY_STREAM, vbmi##_STREAM)},                  \
        .repacked = {REPACKED_FORMATS(t32, t32_min, q4_repacked, t4, t4_min, q8_0_pack, q8_0_tile, \
                                      pass_q4, pass_q8, slow, few, floats, vbmi, __VA_ARGS__)},    \
    }

// Passes of floats pay at any number of tokens on Zen 4: a driver's block of them is 256.
#define ALL_TOKENS 256

#define LEVEL_VNNI(id, vbmi)                                                                       \
    LEVEL(id, "avx512vnni", 1, HT_ASK_BEHIND, HT_ASK_BEHIND, false, false, 8, 8, 8, 4, 16,         \
          tile_32, tile_32_min, ht_gather, ht_repacked_pack, tile_32, tile_32_min,                 \
          ht_repacked_scales_q8_0, ht_repacked_tile_q8_0, ht_gather, vbmi, ht_one, 12, ht_one_f16, \
          4, ht_act_bf16_f32_avx512, (ht_pack_bf16_avx512, ht_tile_f32_avx512, ht_one_bf16, 4, 4), \
          ht_repacked_pack_bf16, ht_tile_f32_avx512, ht_repacked_stream_bf16, 8, 16)
LEVEL_VNNI(ht_linear_avx512vnni, WITHOUT_VBMI);
LEVEL_VNNI(ht_linear_avx512vnni_vbmi, WITH_VBMI); // of processors that have it: the same bits
LEVEL(ht_linear_avx512bf16, "avx512bf16", 0, HT_ASK_LISTED, HT_ASK_BEHIND, false, true, 16, 16, 16,
      8, ALL_TOKENS, tile_32, tile_32_min, ht_sums_pack, ht_repacked_sums_pack, ht_sums_tile,
      ht_sums_tile_min, ht_repacked_scales_q8_0, ht_repacked_tile_q8_0, pack, WITH_VBMI, stream, 16,
      ht_stream_f16_avx512, 2, ht_act_bf16_avx512,
      (ht_pack_bf16_pairs, ht_tile_bf16_pairs, ht_stream_bf16_pairs, 4, 8),
      ht_repacked_pack_bf16_pairs, ht_repacked_tile_bf16_pairs, ht_repacked_stream_bf16_pairs, 8,
      ALL_TOKENS);

// Zen 5, whose units have 512 bits: twice the products from memory that is not twice as fast. As
// avx512bf16 but for what suits such units (docs/kernels.md, "Zen 5"); the same bits.
LEVEL(ht_linear_avx512bf16_wide, "avx512bf16", 1, HT_ASK_NEAR, HT_ASK_NEAR, true, true, 16, 8, 8, 5,
      16, tile_32, tile_32_min, ht_sums_pack, ht_repacked_sums_pack, ht_sums_tile, ht_sums_tile_min,
      ht_repacked_scales_q8_0, ht_repacked_tile_q8_0, pack, WITH_VBMI, ht_one, 8, ht_one_f16, 2,
      ht_act_bf16_avx512, (ht_pack_bf16_pairs, ht_tile_bf16_pairs, ht_stream_bf16_pairs, 4, 8),
      ht_repacked_pack_bf16_pairs, ht_repacked_tile_bf16_pairs, ht_repacked_stream_bf16_pairs, 8,
      16);

// From so many tokens on it is worth to turn a panel's codes for AMX (measured: docs/kernels.md).
#define AMX_TOKENS 48

// Sixteen tokens at a time by AMX, the rest first, since AMX turns the panel's codes.
INLINE void tiles_amx(ht_tile_fn *columns, ht_tile_fn *rest, const struct ht_panel *p,
                      const struct ht_tile_args *t) {
    struct ht_tile_args r = *t;
    uint32_t whole = t->n_tokens / 16 * 16;
    if (whole < AMX_TOKENS) whole = 0;
    r.n_tokens -= whole;
    r.act += whole * r.act_stride;
    r.from += whole * r.from_stride;
    r.to += whole * r.to_stride;
    if (r.out) r.out += whole * r.out_stride;
    if (r.add) r.add += whole * r.add_stride;
    if (whole > 0) r.ahead_bytes = 0; // asked for by the others
    if (r.n_tokens > 0) rest(p, &r);
    if (whole > 0) columns(p, t);
}

static void tile_32_amx(const struct ht_panel *p, const struct ht_tile_args *t) {
    tiles_amx(ht_columns_amx, tile_32, p, t);
}
static void tile_32_min_amx(const struct ht_panel *p, const struct ht_tile_args *t) {
    tiles_amx(ht_columns_min_amx, tile_32_min, p, t);
}

LEVEL(ht_linear_amx, "amx", 1, HT_ASK_BEHIND, HT_ASK_BEHIND, false, false, 8, 8, 8, 4, 16,
      tile_32_amx, tile_32_min_amx, ht_gather, ht_repacked_pack, tile_32_amx, tile_32_min_amx,
      ht_repacked_pack_q8_0, tile_32_amx, ht_gather, WITH_VBMI, ht_one, 16, ht_one_f16, 2,
      ht_act_bf16_avx512,
      (ht_pack_bf16_pairs, ht_tile_bf16_amx, ht_stream_bf16_amx, HT_STREAM_BF16_AMX,
       HT_STREAM_BF16_AMX),
      NULL, NULL, NULL, 0, 0); // tiles add BF16 in an order of their own
