// SPDX-License-Identifier: MIT
// avx512's streams of F16 and BF16 for one token once more, asking in the order of addresses, for
// avx512vnni, amx and Zen 5 (F16): as avx512vnni_one.c. The same bits. No state; any thread.
#include "backend/cpu/linear/x86/one.h"
#include "backend/cpu/linear/x86/vec_avx512.h"

#define STREAM_TOKENS  1
#define ASK_BY_ADDRESS 1

#include "backend/cpu/linear/float_stream.h"
#include "backend/cpu/linear/x86/float.h"

#define ONE(id, name)                                                                              \
    void ht_one_##name(const uint8_t *w, size_t row_bytes, const struct ht_tile_args *t) {         \
        if (t->n_tokens == 1)                                                                      \
            stream(id, 1, w, row_bytes, t);                                                        \
        else                                                                                       \
            ht_stream_##name##_avx512(w, row_bytes, t);                                            \
    }
ONE(HT_F16, f16)
ONE(HT_BF16, bf16)
