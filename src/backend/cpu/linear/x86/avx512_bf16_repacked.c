// SPDX-License-Identifier: MIT
// BF16 that was repacked (linear.h), multiplied by vdpbf16ps as avx512_bf16.c does it: a line holds
// pairs of two columns of 16 rows, as in a panel, so tiles multiply in place. No state; any thread.
#define ASK_PAGES 1
#define REPACKED

#include "backend/cpu/linear/x86/repacked.h"
#include "backend/cpu/linear/x86/vec_avx512.h"

#define ACT_BYTES sizeof(uint16_t)
#define MOST      8

// y + the products of c's pairs with the pair at x, which gcc would load once for both parts.
INLINE vf dot_at(vf y, vi c, const void *x) {
    __asm__("vdpbf16ps %2%{1to16%}, %1, %0" : "+v"(y) : "v"(c), "m"(*(const int32_t *)x));
    return y;
}

INLINE void add(const enum ht_format f, const uint32_t n, const uint8_t *w,
                const uint8_t *const *act, const size_t at, vf y[MOST][PARTS]) {
    (void)f;
    vi c[PARTS];
    UNROLL(2)
    for (int p = 0; p < PARTS; p++) __builtin_memcpy(&c[p], w + p * sizeof c[p], sizeof c[p]);
    UNROLL(8)
    for (uint32_t i = 0; i < n; i++) {
        const uint8_t *x = act[i] + at;
        UNROLL(2)
        for (int p = 0; p < PARTS; p++) y[i][p] = dot_at(y[i][p], c[p], x);
    }
}

#include "backend/cpu/linear/x86/columns.h"

void ht_repacked_stream_bf16_pairs(const uint8_t *w, size_t row_bytes,
                                   const struct ht_tile_args *t) {
    streams(HT_BF16, w, row_bytes, t);
}

void ht_repacked_pack_bf16_pairs(const struct ht_format_info *f, const uint8_t *w, size_t row_bytes,
                                 uint32_t n_k, const struct ht_panel *p) {
    (void)f, (void)w, (void)row_bytes, (void)n_k, (void)p; // it is packed where it lies
}
