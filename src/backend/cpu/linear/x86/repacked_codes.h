// SPDX-License-Identifier: MIT
// The packers and streams of repacked codes. A file says how products are added (pairs_avx2.h,
// vnni_avx2.h, vnni_avx512.h), what q8_pairs.h names, NAME(x), the name of function x, and with
// LOOKUPS that it wants the formats of repacked_list.h whose codes are looked up, and no others.
#ifndef HT_LINEAR_X86_REPACKED_CODES_H
#define HT_LINEAR_X86_REPACKED_CODES_H

#include "backend/cpu/linear/q8_pack.h"
#include "backend/cpu/linear/q8_pairs.h"
#include "backend/cpu/linear/x86/repacked_list.h"

// MIN_PACKS(x), if defined: the name of function x in a file whose packers of formats with mins are
// the same.
#ifdef MIN_PACKS
#define PACK_OF(level, id, name)                                                                   \
    void level(pack_##name)(const struct ht_format_info *f, const uint8_t *w, size_t row_bytes,    \
                            uint32_t n_k, const struct ht_panel *p) {                              \
        if (shape_of(id).has_min)                                                                  \
            MIN_PACKS(pack_##name)(f, w, row_bytes, n_k, p);                                       \
        else                                                                                       \
            pack(id, false, w, row_bytes, n_k, p);                                                 \
    }
#else
#define PACK_OF(level, id, name) PACK(, id, level(pack_##name))
#endif
#define FORMAT(level, id, name, n_most)                                                            \
    PACK_OF(level, id, name)                                                                       \
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
#undef PACK_OF
#undef ALL
#undef OTHER

#endif
