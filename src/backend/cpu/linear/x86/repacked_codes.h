// SPDX-License-Identifier: MIT
// The packers and streams of repacked codes. A file says how products are added (pairs_avx2.h,
// vnni_avx2.h, vnni_avx512.h), what q8_pairs.h names, NAME(x), the name of function x, and with
// LOOKUPS that it wants the formats of repacked_list.h whose codes are looked up, and no others.
#ifndef HT_LINEAR_X86_REPACKED_CODES_H
#define HT_LINEAR_X86_REPACKED_CODES_H

#include "backend/cpu/linear/q8_pack.h"
#include "backend/cpu/linear/q8_pairs.h"
#include "backend/cpu/linear/x86/repacked_list.h"

#define FORMAT(level, id, name, n_most)                                                            \
    PACK(, id, level(pack_##name))                                                                 \
    void level(stream_##name)(const uint8_t *w, size_t row_bytes, const struct ht_tile_args *t) {  \
        streams(id, n_most, w, row_bytes, t);                                                      \
    }
#define ALL(level, id, name)   FORMAT(level, id, name, PAIRS_TOKENS)
#define OTHER(level, id, name) FORMAT(level, id, name, HT_REPACKED_MOST)
#ifdef LOOKUPS
HT_REPACKED_LOOKUPS(OTHER, NAME)
#else
HT_REPACKED_ALL(ALL, NAME)
#if LANES == 16
HT_REPACKED_OTHERS(OTHER, NAME)
#endif
#endif
#undef FORMAT
#undef ALL
#undef OTHER

#endif
