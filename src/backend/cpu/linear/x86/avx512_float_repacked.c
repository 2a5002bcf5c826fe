// SPDX-License-Identifier: MIT
// F16 that was repacked (linear.h), multiplied as f32, for the levels with VNNI: a column of 32
// rows is a line of memory. No state; any thread.
#include "backend/cpu/linear/x86/repacked.h"

#define REPACKED

#include "backend/cpu/linear/x86/vec_avx512.h"

#include "backend/cpu/linear/ask.h"

#define COLUMN_BYTES (HT_ROW_GROUP * 2)
#define STEP         8 // columns at once
#define MOST         8 // tokens

INLINE vf column(const uint8_t *w, const int part) {
    const void *half = w + part * LANES * 2;
    return (vf)_mm512_cvtph_ps(_mm256_loadu_si256(half));
}

// y + c * x[0]. The compiler would load x[0] once for both parts, which costs Zen 4 a third.
INLINE vf fma_at(vf c, const void *x, vf y) {
    __asm__("vfmadd231ps %2%{1to16%}, %1, %0" : "+v"(y) : "v"(c), "m"(*(const float *)x));
    return y;
}

// Both parts of a group side by side: of one token, each is a chain of products, one a column, and
// two take turns.
INLINE void stream(const uint32_t n, const uint8_t *w, size_t row_bytes,
                   const struct ht_tile_args *t) {
    struct tokens act = tokens_of(t, 0, n);
    struct asker asker = asker_of(w, row_bytes, t->n_k * (size_t)2, PARTS - 1, t);
    vf y[MOST][PARTS];
    UNROLL(8)
    for (uint32_t i = 0; i < n; i++) {
        UNROLL(2)
        for (int p = 0; p < PARTS; p++)
            y[i][p] = load_floats(t->from + i * t->from_stride + p * LANES);
    }
    for (uint32_t k = 0; k < t->n_k; k += STEP) {
        UNROLL(8)
        for (uint32_t j = 0; j < STEP; j++, w += COLUMN_BYTES) {
            vf c[PARTS];
            UNROLL(2)
            for (int p = 0; p < PARTS; p++) c[p] = column(w, p);
            ask(&asker, STEP * COLUMN_BYTES, j, STEP);
            UNROLL(8)
            for (uint32_t i = 0; i < n; i++) {
                UNROLL(2)
                for (int p = 0; p < PARTS; p++)
                    y[i][p] = fma_at(c[p], (const float *)token_at(&act, i) + j, y[i][p]);
            }
        }
        tokens_advance(&act, n, STEP * sizeof(float));
        ask_block(&asker, STEP * COLUMN_BYTES);
    }
    UNROLL(8)
    for (uint32_t i = 0; i < n; i++) {
        UNROLL(2)
        for (int p = 0; p < PARTS; p++) store_floats(t->to + i * t->to_stride + p * LANES, y[i][p]);
    }
}

void ht_repacked_stream_f16(const uint8_t *w, size_t row_bytes, const struct ht_tile_args *t) {
    switch (t->n_tokens) {
    case 1: stream(1, w, row_bytes, t); break;
    case 2: stream(2, w, row_bytes, t); break;
    case 3: stream(3, w, row_bytes, t); break;
    case 4: stream(4, w, row_bytes, t); break;
    case 6: stream(6, w, row_bytes, t); break;
    default: stream(MOST, w, row_bytes, t); break;
    }
}

void ht_repacked_pack_f16(const struct ht_format_info *f, const uint8_t *w, size_t row_bytes,
                          uint32_t n_k, const struct ht_panel *p) {
    (void)f, (void)row_bytes;
    float *out = p->code;
    for (uint32_t k = 0; k < n_k; k++, w += COLUMN_BYTES) {
        UNROLL(2)
        for (int part = 0; part < PARTS; part++, out += LANES) store_floats(out, column(w, part));
    }
}
