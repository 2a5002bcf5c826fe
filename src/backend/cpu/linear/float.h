// SPDX-License-Identifier: MIT
// The f32 kernels of a vector level, for F32, F16 and (rounded activations) BF16 weights: one fma
// an element, k rising. A file includes the header of its instruction set, defines the tile
// (TILE_VECTORS * LANES rows x TILE_TOKENS tokens, at least 6), STREAM_TOKENS (at most 4) and
// LEVEL, the end of the functions' names, and includes this.
#ifndef HT_LINEAR_FLOAT_H
#define HT_LINEAR_FLOAT_H

#define PARTS (HT_ROW_GROUP / LANES)

#ifndef HALF_COLUMNS
INLINE void load_halves(const struct rows *w, vi out[16]) {
    load64(w, out);
}
INLINE vf half_column(const vi *r, const uint32_t k) {
    if (k % 2) return half_low((vi)((vu32)r[k / 2] >> 16));
    return half_low(r[k / 2]);
}
#endif

// 64 bytes of every row, and the weights of their k-th column.
INLINE void load(const enum ht_format f, const struct rows *w, vi r[16]) {
    if (f == HT_F16)
        load_halves(w, r);
    else
        load64(w, r);
}
INLINE vf column(const enum ht_format f, const vi *r, const uint32_t k) {
    if (f == HT_F16) return half_column(r, k);
    if (f == HT_F32) return (vf)r[k];
    if (k % 2) return (vf)(r[k / 2] & (int32_t)0xffff0000);
    return (vf)(r[k / 2] << 16);
}

INLINE void pack(const enum ht_format f, const uint8_t *w, size_t row_bytes, uint32_t n_k,
                 const struct ht_panel *p) {
    const uint32_t n = f == HT_F32 ? 16 : 32; // columns of a load
    for (uint32_t part = 0; part < PARTS; part++, w += LANES * row_bytes) {
        float *out = (float *)p->code + LANES * part;
        struct rows q = rows_of(w, row_bytes);
        for (uint32_t k = 0; k < n_k; k += n, rows_advance(&q, 64)) {
            vi r[16];
            load(f, &q, r);
            UNROLL(32)
            for (uint32_t i = 0; i < n; i++, out += HT_ROW_GROUP)
                store_floats(out, column(f, r, i));
        }
    }
}

INLINE void tile(const uint32_t n, const struct ht_panel *p, const struct ht_tile_args *t,
                 uint32_t token, uint32_t row, struct ahead *ahead) {
    const uint8_t *act = t->act + token * t->act_stride;
    const float *w = (const float *)p->code + row;
    const float *from = t->from + token * t->from_stride + row;
    float *to = t->to + token * t->to_stride + row;
    const size_t stride = t->act_stride;
    ask_output(to, t->to_stride, n, TILE_VECTORS * LANES);
    vf y[TILE_TOKENS][TILE_VECTORS];
    UNROLL(12)
    for (uint32_t i = 0; i < n; i++) {
        UNROLL(4)
        for (int v = 0; v < TILE_VECTORS; v++)
            y[i][v] = load_floats(from + i * t->from_stride + v * LANES);
    }
    for (const float *end = w + t->n_k * HT_ROW_GROUP; w < end;) {
        ahead_step(ahead, t);
        for (int k = 0; k < 8; k++, w += HT_ROW_GROUP, act += sizeof(float)) {
            vf c[TILE_VECTORS];
            UNROLL(4)
            for (int v = 0; v < TILE_VECTORS; v++) c[v] = load_floats(w + v * LANES);
            UNROLL(12)
            for (uint32_t i = 0; i < n; i++) {
                vf a = splat(*(const float *)(const void *)(act + i * stride));
                UNROLL(4)
                for (int v = 0; v < TILE_VECTORS; v++) y[i][v] = fma_add(c[v], a, y[i][v]);
            }
        }
    }
    UNROLL(12)
    for (uint32_t i = 0; i < n; i++) {
        UNROLL(4)
        for (int v = 0; v < TILE_VECTORS; v++)
            store_floats(to + i * t->to_stride + v * LANES, y[i][v]);
    }
}

INLINE void tiles(const struct ht_panel *p, const struct ht_tile_args *t) {
    const uint32_t m = TILE_TOKENS, rows = TILE_VECTORS * LANES;
    struct ahead ahead = ahead_of(t, t->n_k / 8 * (t->n_tokens / m + 1));
    uint32_t token = 0, n;
    for (; token < t->n_tokens; token += n) {
        n = t->n_tokens - token < m ? t->n_tokens - token : m;
        for (uint32_t r = 0; r < HT_ROW_GROUP; r += rows) {
            switch (n) {
            case 1: tile(1, p, t, token, r, &ahead); break;
            case 2: tile(2, p, t, token, r, &ahead); break;
            case 3: tile(3, p, t, token, r, &ahead); break;
            case 4: tile(4, p, t, token, r, &ahead); break;
            case 5: tile(5, p, t, token, r, &ahead); break;
            case 6: tile(6, p, t, token, r, &ahead); break;
            case 7: tile(m < 7 ? 1 : 7, p, t, token, r, &ahead); break;
            case 8: tile(m < 8 ? 1 : 8, p, t, token, r, &ahead); break;
            case 9: tile(m < 9 ? 1 : 9, p, t, token, r, &ahead); break;
            case 10: tile(m < 10 ? 1 : 10, p, t, token, r, &ahead); break;
            case 11: tile(m < 11 ? 1 : 11, p, t, token, r, &ahead); break;
            default: tile(m, p, t, token, r, &ahead); break;
            }
        }
    }
}

INLINE void stream(const enum ht_format f, const uint32_t n, const uint8_t *w, size_t row_bytes,
                   const struct ht_tile_args *t) {
    const uint32_t n_cols = f == HT_F32 ? 16 : 32; // of a load
    const size_t n_bytes = t->n_k * (size_t)(64 / n_cols);
    for (uint32_t part = 0; part < PARTS; part++, w += LANES * row_bytes) {
        const uint8_t *act = t->act;
        struct rows q = rows_of(w, row_bytes);
        struct asker asker = asker_of(w, row_bytes, n_bytes, part + 1 == PARTS, t);
        const float *from = t->from + LANES * part;
        float *to = t->to + LANES * part;
        vf y[STREAM_TOKENS];
        UNROLL(4)
        for (uint32_t i = 0; i < n; i++) y[i] = load_floats(from + i * t->from_stride);
        for (uint32_t k = 0; k < t->n_k; k += n_cols, rows_advance(&q, 64)) {
            vi r[16];
            load(f, &q, r);
            UNROLL(32)
            for (uint32_t j = 0; j < n_cols; j++, act += sizeof(float)) {
                vf c = column(f, r, j);
                if (j % (n_cols / 16) == 0) ask(&asker, 64 * LANES, j / (n_cols / 16), 16);
                UNROLL(4)
                for (uint32_t i = 0; i < n; i++)
                    y[i] = fma_add(
                        c, splat(*(const float *)(const void *)(act + i * t->act_stride)), y[i]);
            }
        }
        UNROLL(4)
        for (uint32_t i = 0; i < n; i++) store_floats(to + i * t->to_stride, y[i]);
        ask_rest(&asker, n_bytes);
    }
}

INLINE void streams(const enum ht_format f, const uint8_t *w, size_t row_bytes,
                    const struct ht_tile_args *t) {
    switch (t->n_tokens) {
    case 1: stream(f, 1, w, row_bytes, t); break;
    case 2: stream(f, 2, w, row_bytes, t); break;
    case 3: stream(f, STREAM_TOKENS < 3 ? 1 : 3, w, row_bytes, t); break;
    case 4: stream(f, STREAM_TOKENS < 4 ? 1 : 4, w, row_bytes, t); break;
    default: break;
    }
}

#define NAME3(a, b, c) a##b##_##c
#define NAME(a, b, c)  NAME3(a, b, c)
#define FORMAT(id, name)                                                                           \
    void NAME(ht_pack_, name, LEVEL)(const struct ht_format_info *f, const uint8_t *w,             \
                                     size_t row_bytes, uint32_t n_k, const struct ht_panel *p) {   \
        (void)f;                                                                                   \
        pack(id, w, row_bytes, n_k, p);                                                            \
    }                                                                                              \
    void NAME(ht_stream_, name, LEVEL)(const uint8_t *w, size_t row_bytes,                         \
                                       const struct ht_tile_args *t) {                             \
        streams(id, w, row_bytes, t);                                                              \
    }
FORMAT(HT_F32, f32)
FORMAT(HT_F16, f16)
FORMAT(HT_BF16, bf16)
#undef FORMAT

void NAME(ht_tile_, f32, LEVEL)(const struct ht_panel *p, const struct ht_tile_args *t) {
    tiles(p, t);
}

#endif
