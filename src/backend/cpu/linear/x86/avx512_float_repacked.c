// SPDX-License-Identifier: MIT
// F16 and BF16 that were repacked (linear.h), multiplied as f32, for the levels with VNNI.
// No state; any thread.
#define REPACKED

#include "backend/cpu/linear/x86/vec_avx512.h"

#include "backend/cpu/linear/ask.h"

#define ACT_BYTES sizeof(float)
#define MOST      8

// Column k of a unit, as f32.
INLINE vf column(const enum ht_format f, const uint8_t *w, const uint32_t k, const int part) {
    if (f == HT_F16)
        return (vf)_mm512_cvtph_ps(_mm256_loadu_si256((const void *)(w + part * LANES * 2)));
    vi pair;
    __builtin_memcpy(&pair, w + part * LANES * 4, sizeof pair);
    if (k == 0) return (vf)(pair << 16);
    return (vf)(pair & (int32_t)0xffff0000);
}

// y + c * x[0]. The compiler would load x[0] once for both parts, which costs Zen 4 a third.
INLINE vf fma_at(vf c, const void *x, vf y) {
    __asm__("vfmadd231ps %2%{1to16%}, %1, %0" : "+v"(y) : "v"(c), "m"(*(const float *)x));
    return y;
}

INLINE void add(const enum ht_format f, const uint32_t n, const uint8_t *w,
                const uint8_t *const *act, const size_t at, vf y[MOST][PARTS]) {
    const uint32_t unit = f == HT_F16 ? 1 : 2;
    UNROLL(2)
    for (uint32_t k = 0; k < unit; k++) {
        vf c[PARTS];
        UNROLL(2)
        for (int p = 0; p < PARTS; p++) c[p] = column(f, w, k, p);
        UNROLL(8)
        for (uint32_t i = 0; i < n; i++) {
            const uint8_t *x = act[i] + at + k * ACT_BYTES;
            UNROLL(2)
            for (int p = 0; p < PARTS; p++) y[i][p] = fma_at(c[p], x, y[i][p]);
        }
    }
}

#include "backend/cpu/linear/x86/columns.h"

void ht_repacked_stream_f16(const uint8_t *w, size_t row_bytes, const struct ht_tile_args *t) {
    streams(HT_F16, w, row_bytes, t);
}

void ht_repacked_stream_bf16(const uint8_t *w, size_t row_bytes, const struct ht_tile_args *t) {
    streams(HT_BF16, w, row_bytes, t);
}

INLINE void pack(const enum ht_format f, const uint8_t *w, uint32_t n_k, const struct ht_panel *p) {
    const uint32_t unit = f == HT_F16 ? 1 : 2;
    float *out = p->code;
    for (uint32_t k = 0; k < n_k; k += unit, w += unit * COLUMN_BYTES) {
        UNROLL(2)
        for (uint32_t j = 0; j < unit; j++) {
            UNROLL(2)
            for (int part = 0; part < PARTS; part++, out += LANES)
                store_floats(out, column(f, w, j, part));
        }
    }
}

void ht_repacked_pack_f16(const struct ht_format_info *f, const uint8_t *w, size_t row_bytes,
                          uint32_t n_k, const struct ht_panel *p) {
    (void)f, (void)row_bytes;
    pack(HT_F16, w, n_k, p);
}

void ht_repacked_pack_bf16(const struct ht_format_info *f, const uint8_t *w, size_t row_bytes,
                           uint32_t n_k, const struct ht_panel *p) {
    (void)f, (void)row_bytes;
    pack(HT_BF16, w, n_k, p);
}
