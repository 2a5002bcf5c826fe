// SPDX-License-Identifier: MIT
// Packers and streams of codes that were repacked (linear.h), for the levels with VNNI: what the
// file's layout has to be turned for is there as it stands. No state; any thread.
#include "backend/cpu/linear/x86/repacked.h"

#define REPACKED
#define CODES_SIGNED  0
#define STREAM_TOKENS 8
#define STREAM_CHAINS 2
#define PANEL_BACK    1

#include "backend/cpu/linear/x86/vec_avx512.h"
#include "backend/cpu/linear/x86/vnni_avx512.h"

#include "backend/cpu/linear/q8_pack.h"
#include "backend/cpu/linear/q8_stream.h"

#define FORMAT(id, name)                                                                           \
    PACK(, id, ht_repacked_pack_##name)                                                            \
    void ht_repacked_stream_##name(const uint8_t *w, size_t row_bytes,                             \
                                   const struct ht_tile_args *t) {                                 \
        streams(id, w, row_bytes, t);                                                              \
    }
FORMAT(HT_Q4_0, q4_0)
FORMAT(HT_Q8_0, q8_0)
FORMAT(HT_Q4_K, q4_k)
FORMAT(HT_Q5_K, q5_k)
FORMAT(HT_Q6_K, q6_k)
