// SPDX-License-Identifier: MIT
// avx512's stream of F16 for one token once more, asking in the order of addresses, for the level
// amx: as avx512vnni_one.c. The same bits. No state; any thread.
#include "backend/cpu/linear/x86/amx.h"
#include "backend/cpu/linear/x86/vec_avx512.h"

#define STREAM_TOKENS  1
#define ASK_BY_ADDRESS 1

#include "backend/cpu/linear/float_stream.h"
#include "backend/cpu/linear/x86/float.h"

void ht_one_f16(const uint8_t *w, size_t row_bytes, const struct ht_tile_args *t) {
    if (t->n_tokens == 1)
        stream(HT_F16, 1, w, row_bytes, t);
    else
        ht_stream_f16_avx512(w, row_bytes, t);
}
