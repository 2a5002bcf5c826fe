// SPDX-License-Identifier: MIT
// The packers and streams of repacked codes. A file says how products are added (pairs_avx2.h,
// vnni_avx2.h, vnni_avx512.h), what q8_pairs.h names, and NAME(x), the name of function x.
#ifndef HT_LINEAR_X86_REPACKED_CODES_H
#define HT_LINEAR_X86_REPACKED_CODES_H

#include "backend/cpu/linear/q8_pack.h"
#include "backend/cpu/linear/q8_pairs.h"

#define FORMAT(id, name)                                                                           \
    PACK(, id, NAME(pack_##name))                                                                  \
    void NAME(stream_##name)(const uint8_t *w, size_t row_bytes, const struct ht_tile_args *t) {   \
        streams(id, w, row_bytes, t);                                                              \
    }
FORMAT(HT_Q4_0, q4_0)
FORMAT(HT_Q8_0, q8_0)
FORMAT(HT_Q4_K, q4_k)
FORMAT(HT_Q5_K, q5_k)
FORMAT(HT_Q6_K, q6_k)

#endif
