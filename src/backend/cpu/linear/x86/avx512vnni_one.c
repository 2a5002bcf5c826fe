// SPDX-License-Identifier: MIT
// The streams of codes with VNNI for one token once more, asking in the order of addresses: what
// avx512vnni, amx and Zen 5 take, whose processors read faster so. More tokens, which take longer
// to multiply, gain less, and go to those of avx512bf16. The same bits. No state; any thread.
#include "backend/cpu/linear/x86/one.h"
#include "backend/cpu/linear/x86/vec_avx512.h"

#define CODES_SIGNED   0
#define STREAM_TOKENS  1
#define STREAM_CHAINS  2
#define ASK_BY_ADDRESS 1

#include "backend/cpu/linear/x86/vnni_avx512.h"

#define WHOLE_FOURS
#include "backend/cpu/linear/q8_stream.h"

#define ONE(id, name)                                                                              \
    void ht_one_##name(const uint8_t *w, size_t row_bytes, const struct ht_tile_args *t) {         \
        if (t->n_tokens == 1 && (!by_fours(id, 1) || t->n_k % 128 == 0))                           \
            streams(id, w, row_bytes, t);                                                          \
        else                                                                                       \
            ht_linear_avx512bf16.format[id##_ROW].stream(w, row_bytes, t);                         \
    }
ONE(HT_Q4_0, q4_0)
ONE(HT_Q4_1, q4_1)
ONE(HT_Q5_0, q5_0)
ONE(HT_Q5_1, q5_1)
ONE(HT_Q8_0, q8_0)
ONE(HT_Q2_K, q2_k)
ONE(HT_Q3_K, q3_k)
ONE(HT_Q4_K, q4_k)
ONE(HT_Q5_K, q5_k)
ONE(HT_Q6_K, q6_k)
ONE(HT_IQ4_NL, iq4_nl)
ONE(HT_IQ4_XS, iq4_xs)
ONE(HT_TQ2_0, tq2_0)
ONE(HT_MXFP4, mxfp4)
