// SPDX-License-Identifier: MIT
// The linear kernels of the level avx2. No state; any thread.
#include "backend/cpu/linear/x86/float.h"
#include "backend/cpu/linear/x86/pairs_avx2.h"
#include "backend/cpu/linear/x86/shared.h"

#define TILE_VECTORS       2
#define TILE_TOKENS        4
#define STREAM_TOKENS      4
#define STREAM_Q4_K        3
#define STREAM_OTHER       2
#define MIN_PACK(name)     HT_AVX2_MIN_PACK(name)
#define ENTRY_STREAM(name) HT_ENTRIES_AVX2(name)
#define BITS_STREAM(name)  HT_BITS_AVX2(name)
#if defined(__clang__)
#define SUMS_FAR 1 // else it keeps products in memory instead
#endif

#include "backend/cpu/linear/q8.h"
#include "backend/cpu/linear/x86/act.h"
#include "backend/cpu/linear/x86/avx2_repacked.h"

#define ROW(format, tile, most) AVX2_REPACKED(HT_AVX2_REPACKED, format, tile, 4, most)

void ht_act_q8_avx2(const struct ht_act_how *how, const float *x, uint32_t n_in,
                    struct ht_act_q8 *dst, size_t dst_step) {
    act_q8_blocks(how, x, n_in, dst, dst_step);
}

PACK_ENTRIES(, FOR_UNSIGNED, ht_entries_avx2_unsigned) // of avx2vnni
STREAM_BITS(, HT_Q1_0, BITS_STREAM(q1_0))
STREAM_BITS(, HT_Q2_0, BITS_STREAM(q2_0))

#define RARE(name)                                                                                 \
    void HT_RARE_AVX2(name)(const uint8_t *w, size_t row_bytes, const struct ht_tile_args *t) {    \
        stream_##name(w, row_bytes, t);                                                            \
    }
RARE(nvfp4)
RARE(tq2_0)

// AMD's processors follow one run of addresses by themselves, Intel's do not (docs/repacked.md,
// "AVX2").
#define LEVEL(id, one)                                                                             \
    const struct ht_linear_kernels id = {                                                          \
        .name = "avx2",                                                                            \
        .lanes = LANES,                                                                            \
        .ask_one = one,                                                                            \
        .ask_later = true,                                                                         \
        .signed_codes = true,                                                                      \
        .bf16_bytes = 4,                                                                           \
        .act_q8 = ht_act_q8_avx2,                                                                  \
        .act_bf16 = ht_act_bf16_f32_avx2,                                                          \
        .format = {[HT_F32_ROW] = {ht_pack_f32_avx2, ht_tile_f32_avx2, ht_stream_f32_avx2, 2, 2},  \
                   [HT_F16_ROW] = {ht_pack_f16_avx2, ht_tile_f32_avx2, ht_stream_f16_avx2, 2, 2},  \
                   [HT_BF16_ROW] = {ht_pack_bf16_avx2, ht_tile_f32_avx2, ht_stream_bf16_avx2, 2,   \
                                    2},                                                            \
                   Q8_FORMATS(tile_32, tile_32_min, pack, stream)},                                \
        .repacked =                                                                                \
            {AVX2_REPACKED_FLOATS, [HT_Q4_0_ROW] = ROW(q4_0, tile_32_8, 8),                        \
             [HT_Q8_0_ROW] = ROW(q8_0, tile_32, 8),                                                \
             [HT_Q4_K_ROW] = ROW(q4_k, tile_32_nibbles_min, 8),                                    \
             [HT_Q5_K_ROW] = ROW(q5_k, tile_32_min, 4), [HT_Q6_K_ROW] = ROW(q6_k, tile_16_32, 4)}, \
    }
LEVEL(ht_linear_avx2, HT_ASK_BEHIND);
LEVEL(ht_linear_avx2_amd, HT_ASK_NOTHING);
