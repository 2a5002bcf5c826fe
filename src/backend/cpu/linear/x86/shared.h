// SPDX-License-Identifier: MIT
// What several x86 levels have in common where codes are concerned: kernels of one level's file
// that others take, since they are as fast there or too rare for more code. The same bits.
#ifndef HT_LINEAR_X86_SHARED_H
#define HT_LINEAR_X86_SHARED_H

#include "backend/cpu/linear/entries.h"
#include "backend/cpu/linear/kernels.h"

// What prepares codes at avx2 and avx2vnni, and at avx512 and all above it.
ht_act_q8_fn ht_act_q8_avx2, ht_act_q8_avx512;

// The packers of formats with mins for avx2 and avx2vnni.
#define HT_AVX2_MIN_PACK(name) ht_pack_##name##_avx2
ht_pack_fn HT_AVX2_MIN_PACK(q4_1), HT_AVX2_MIN_PACK(q5_1), HT_AVX2_MIN_PACK(q2_k);
ht_pack_fn HT_AVX2_MIN_PACK(q4_k), HT_AVX2_MIN_PACK(q5_k);

// The packers of formats of entries (q8_entries.h) for avx2vnni, for avx512vnni without VBMI, and
// for all with it.
ht_pack_fn ht_entries_avx2_unsigned, ht_entries_avx512_unsigned, ht_vbmi_pack;
// Their streams, without VBMI (avx2_entries.c), and with it; IQ1's are the former everywhere.
#define HT_ENTRIES_AVX2(name)     ht_entries_avx2_##name
#define HT_ENTRIES_VBMI(name)     ht_vbmi_##name
#define HT_AVX2_FN(id, name, ...) ht_stream_fn HT_ENTRIES_AVX2(name);
#define HT_VBMI_FN(id, name, ...) ht_stream_fn HT_ENTRIES_VBMI(name);
HT_ENTRY_STREAMS(HT_AVX2_FN)
HT_IQ2_IQ3_STREAMS(HT_VBMI_FN)
#undef HT_AVX2_FN
#undef HT_VBMI_FN

// Streams of few bits (q8_bits.h), and of formats that few files have, of avx2, avx2vnni and
// avx512.
#define HT_BITS_AVX2(name) ht_bits_avx2_##name
#define HT_RARE_AVX2(name) ht_rare_avx2_##name
ht_stream_fn HT_BITS_AVX2(q1_0), HT_BITS_AVX2(q2_0), HT_RARE_AVX2(nvfp4), HT_RARE_AVX2(tq2_0);

#endif
