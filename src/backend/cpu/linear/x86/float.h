// SPDX-License-Identifier: MIT
// The float kernels of the x86 levels (levels above avx512 take those of avx512), and what two
// levels prepare or pack alike.
#ifndef HT_LINEAR_X86_FLOAT_H
#define HT_LINEAR_X86_FLOAT_H

#include "backend/cpu/linear/kernels.h"

ht_tile_fn ht_tile_f32_avx2, ht_tile_f32_avx512;
ht_pack_fn ht_pack_f32_avx2, ht_pack_f16_avx2, ht_pack_bf16_avx2;
ht_pack_fn ht_pack_f32_avx512, ht_pack_f16_avx512, ht_pack_bf16_avx512;
ht_act_fn ht_act_bf16_f32_avx2, ht_act_bf16_f32_avx512; // levels without vdpbf16ps
ht_stream_fn ht_stream_f32_avx2, ht_stream_f16_avx2, ht_stream_bf16_avx2;
ht_stream_fn ht_stream_f32_avx512, ht_stream_f16_avx512, ht_stream_bf16_avx512;

// What prepares codes at avx2 and avx2vnni, and at avx512 and all above it.
ht_act_q8_fn ht_act_q8_avx2, ht_act_q8_avx512;

// The packers of formats with mins for avx2 and avx2vnni.
#define HT_AVX2_MIN_PACK(name) ht_pack_##name##_avx2
ht_pack_fn HT_AVX2_MIN_PACK(q4_1), HT_AVX2_MIN_PACK(q5_1), HT_AVX2_MIN_PACK(q2_k);
ht_pack_fn HT_AVX2_MIN_PACK(q4_k), HT_AVX2_MIN_PACK(q5_k);

// The packers of formats of entries (q8_entries.h) for avx2vnni, and for avx512vnni without VBMI.
ht_pack_fn ht_entries_avx2_unsigned, ht_entries_avx512_unsigned;
// Their streams, of both levels alike.
#define HT_ENTRIES_AVX2(name)   ht_entries_avx2_##name
#define HT_ENTRIES_AVX512(name) ht_entries_avx512_##name
#define HT_ENTRY_STREAM_FNS(of)                                                                    \
    ht_stream_fn of(iq2_xxs), of(iq2_xs), of(iq2_s), of(iq3_xxs), of(iq3_s)
HT_ENTRY_STREAM_FNS(HT_ENTRIES_AVX2);
HT_ENTRY_STREAM_FNS(HT_ENTRIES_AVX512);

// avx512bf16: BF16 by vdpbf16ps; activations are uint16_t.
ht_act_fn ht_act_bf16_avx512;
ht_pack_fn ht_pack_bf16_pairs;
ht_tile_fn ht_tile_bf16_pairs;
ht_stream_fn ht_stream_bf16_pairs;

#endif
