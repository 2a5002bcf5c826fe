// SPDX-License-Identifier: MIT
// F16 and BF16 that were repacked (linear.h), multiplied as f32. A file says what columns.h wants
// of it but for add(), and
//   fma_at(c, x, y)   y + c * the float at x, in each lane
//   NAME(x)           the name of function x
#ifndef HT_LINEAR_X86_FLOAT_COLUMNS_H
#define HT_LINEAR_X86_FLOAT_COLUMNS_H

#include "backend/cpu/linear/vec.h"

#define ACT_BYTES sizeof(float)

// Column k of a unit, as f32.
INLINE vf column(const enum ht_format f, const uint8_t *w, const uint32_t k, const int part) {
    if (f == HT_F16) return halves(w + part * LANES * 2);
    vi pair;
    __builtin_memcpy(&pair, w + part * LANES * 4, sizeof pair);
    if (k == 0) return (vf)(pair << 16);
    return (vf)(pair & (int32_t)0xffff0000);
}

INLINE void add(const enum ht_format f, const uint32_t n, const uint8_t *w,
                const uint8_t *const *act, const size_t at, vf y[MOST][PARTS]) {
    const uint32_t unit = f == HT_F16 ? 1 : 2;
    UNROLL(2)
    for (uint32_t k = 0; k < unit; k++) {
        vf c[PARTS];
        UNROLL(4)
        for (int p = 0; p < PARTS; p++) c[p] = column(f, w, k, p);
        UNROLL(8)
        for (uint32_t i = 0; i < n; i++) {
            const uint8_t *x = act[i] + at + k * ACT_BYTES;
            UNROLL(4)
            for (int p = 0; p < PARTS; p++) y[i][p] = fma_at(c[p], x, y[i][p]);
        }
    }
}

#include "backend/cpu/linear/x86/columns.h"

INLINE void pack(const enum ht_format f, const uint8_t *w, uint32_t n_k, const struct ht_panel *p) {
    const uint32_t unit = f == HT_F16 ? 1 : 2;
    float *out = p->code;
    for (uint32_t k = 0; k < n_k; k += unit, w += unit * COLUMN_BYTES) {
        UNROLL(2)
        for (uint32_t j = 0; j < unit; j++) {
            UNROLL(4)
            for (int part = 0; part < PARTS; part++, out += LANES)
                store_floats(out, column(f, w, j, part));
        }
    }
}

#define FORMAT(id, name)                                                                           \
    void NAME(stream_##name)(const uint8_t *w, size_t row_bytes, const struct ht_tile_args *t) {   \
        streams(id, w, row_bytes, t);                                                              \
    }                                                                                              \
    void NAME(pack_##name)(const struct ht_format_info *f, const uint8_t *w, size_t row_bytes,     \
                           uint32_t n_k, const struct ht_panel *p) {                               \
        (void)f, (void)row_bytes;                                                                  \
        pack(id, w, n_k, p);                                                                       \
    }
FORMAT(HT_F16, f16)
FORMAT(HT_BF16, bf16)

#endif
