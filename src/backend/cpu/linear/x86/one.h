// SPDX-License-Identifier: MIT
// Streams that for one token ask the memory in the order of addresses, as Intel's processors read
// faster: those of codes (avx512vnni_one.c), F16 and BF16 by f32 (avx512_float_one.c). More tokens
// go to the streams of avx512bf16 and avx512. The same bits as those.
#ifndef HT_LINEAR_X86_ONE_H
#define HT_LINEAR_X86_ONE_H

#include "backend/cpu/linear/kernels.h"

ht_stream_fn ht_one_q4_0, ht_one_q4_1, ht_one_q5_0, ht_one_q5_1, ht_one_q8_0, ht_one_q2_k;
ht_stream_fn ht_one_q3_k, ht_one_q4_k, ht_one_q5_k, ht_one_q6_k, ht_one_iq4_nl, ht_one_iq4_xs;
ht_stream_fn ht_one_tq2_0, ht_one_mxfp4;
ht_stream_fn ht_one_f16, ht_one_bf16;

#endif
