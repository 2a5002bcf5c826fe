// SPDX-License-Identifier: MIT
// Pages of numbers (f16, f32, bf16) and of q8_0's codes, over 16 lanes (vec_lanes.h has their
// operations): rows are stored, and attention's two products made. Pages of whole numbers have
// kernels of their own (vec_i16.h). No state; any thread.
#ifndef HT_CPU_VEC_PAGES_H
#define HT_CPU_VEC_PAGES_H

#include <string.h>

#include "backend/cpu/vec.h"
#include "backend/cpu/vec_tile.h"

// HT_LANES elements from element i of a page piece on, as f32; of q8_0 the codes.
static INLINE struct v16 page_load(enum hearth_kv_type type, const void *p, size_t i) {
    switch (type) {
    case HEARTH_KV_F16: return v_load_f16((const uint16_t *)p + i);
    case HEARTH_KV_F32: return v_load((const float *)p + i);
    case HEARTH_KV_BF16: return v_load_bf16((const uint16_t *)p + i);
    case HEARTH_KV_Q8_0:
    case HEARTH_KV_I16: break; // not a page of numbers: never asked for
    }
    return v_load_i8((const int8_t *)p + i);
}

// The first n of them, and zeros.
static INLINE struct v16 page_load_n(enum hearth_kv_type type, const void *p, size_t i,
                                     uint32_t n) {
    float t[HT_LANES] = {0};
    size_t size = ht_kv_code_bytes(type);
    memcpy(t, (const uint8_t *)p + i * size, n * size);
    return page_load(type, t, 0);
}

// Nearest whole numbers, halves away from 0, in [-127, 127]; NaN gives 127.
static INLINE void store_codes(int8_t *y, struct v16 a) {
    struct v16 m = v_abs(a), r = v_rint(m);
    r = v_select_le(v_set1(0.5f), v_sub(m, r), v_add(r, v_set1(1.0f)), r);
    v_store_i8(y, v_max(v_min(v_copysign(r, a), v_set1(127.0f)), v_set1(-127.0f)));
}

// How many lanes of x hold a NaN, by lanes.
static INLINE struct v16 nans(struct v16 x) {
    return v_select_le(v_abs(x), v_set1(INFINITY), v_set1(0.0f), v_set1(1.0f));
}

// A block as ht_q8_0_from_f32 has it: codes, and the scale.
static INLINE uint16_t store_block(const float *x, int8_t *codes) {
    struct v16 a = v_load(x), b = v_load(x + HT_LANES);
    float d = v_most(v_max(v_abs(b), v_max(v_abs(a), v_set1(0.0f)))) / 127.0f;
    float inverse = d > 0.0f ? 1.0f / d : 0.0f;
    if (!(inverse < INFINITY)) d = inverse = 0.0f;
    store_codes(codes, v_mul(a, v_set1(inverse)));
    store_codes(codes + HT_LANES, v_mul(b, v_set1(inverse)));
    if (v_most(v_max(nans(a), nans(b))) > 0.0f) d = NAN;
    return ht_f32_to_f16(d);
}

static INLINE void page_store(enum hearth_kv_type type, void *y, struct v16 a) {
    if (type == HEARTH_KV_F32)
        v_store(y, a);
    else if (type == HEARTH_KV_F16)
        v_store_f16(y, a);
    else
        v_store_bf16(y, a);
}

static INLINE void v_append(enum hearth_kv_type type, const float *v, uint32_t d, uint32_t slot,
                            void *page) {
    size_t size = ht_kv_code_bytes(type);
    uint8_t *row = (uint8_t *)page + (size_t)slot * d * size;
    float t[HT_LANES];
    uint32_t e = 0;
    if (type == HEARTH_KV_Q8_0) {
        uint16_t *scales = (uint16_t *)ht_kv_v_scales(page, d, 0) + slot;
        for (; e < d; e += HT_KV_BLOCK, scales += HT_PAGE_TOKENS)
            *scales = store_block(v + e, (int8_t *)row + e);
        return;
    }
    for (; e + HT_LANES <= d; e += HT_LANES) page_store(type, row + e * size, v_load(v + e));
    if (e == d) return;
    page_store(type, t, v_load_n(v + e, d - e));
    memcpy(row + e * size, t, (d - e) * size);
}

// Elements x[0, n) of one type into a lane of a group, `to` being that of the first.
static INLINE void scatter(enum hearth_kv_type type, const void *x, uint32_t n, uint8_t *to) {
    size_t size = ht_kv_code_bytes(type);
    for (uint32_t i = 0; i < n; i++)
        memcpy(to + i * HT_LANES * size, (const uint8_t *)x + i * size, size);
}

static INLINE void k_append(enum hearth_kv_type type, const float *k, uint32_t d, uint32_t slot,
                            void *group) {
    size_t size = ht_kv_code_bytes(type);
    uint8_t *lane = (uint8_t *)group + slot * size;
    float t[HT_LANES];
    if (type == HEARTH_KV_Q8_0) {
        uint16_t *scales = (uint16_t *)ht_kv_k_scales(group, d, 0) + slot;
        for (uint32_t e = 0; e < d; e += HT_KV_BLOCK, scales += HT_LANES) {
            *scales = store_block(k + e, (int8_t *)t);
            scatter(type, t, HT_KV_BLOCK, lane + (size_t)e * HT_LANES);
        }
        return;
    }
    for (uint32_t e = 0; e < d; e += HT_LANES) {
        uint32_t n = d - e < HT_LANES ? d - e : HT_LANES;
        page_store(type, t, v_load_n(k + e, n));
        scatter(type, t, n, lane + (size_t)e * HT_LANES * size);
    }
}

// Whether a type's kernels have tiles of five rows: a quarter of their code, for types that are
// seldom asked for.
#define HAS_FIVES(type) ((type) != HEARTH_KV_F32 && (type) != HEARTH_KV_BF16)

// ---- q K

static void q_load(const float *q, uint32_t d, uint32_t n_rows, uint32_t r, void *to) {
    float *at = (float *)to + r * HT_LANES;
    for (uint32_t e = 0; e < d; e += HT_LANES, at += n_rows * HT_LANES)
        v_store_n(at, v_load_n(q + e, d - e), d - e);
}

// Elements [e, end) of nr query rows, of n_rows in q, against ng groups, added to nr * ng
// accumulators, one per 16 scores.
static INLINE void qk_span(const int nr, const int ng, enum hearth_kv_type type, const float *q,
                           uint32_t n_rows, uint32_t e, uint32_t end, const void *const *k,
                           const void *const *next, struct v16 acc[][4]) {
    const uint32_t row_bytes = HT_LANES * ht_kv_code_bytes(type);
    while (e < end) {
        const float *x = q + (size_t)e * n_rows;
        uint32_t stop = n_rows == 1 || end - e < HT_LANES ? end : e + HT_LANES; // one lies in a row
        for (; e < stop; e++, x++) {
            struct v16 kv[4];
            UNROLL for (int g = 0; g < ng; g++) kv[g] = page_load(type, k[g], (size_t)e * HT_LANES);
            if (next && e * row_bytes % 64 == 0) // a line each
                UNROLL for (int g = 0; g < ng; g++) fetch(next[g], (size_t)e * row_bytes);
            UNROLL for (int r = 0; r < nr; r++) {
                struct v16 qr = v_set1(x[r * HT_LANES]);
                UNROLL for (int g = 0; g < ng; g++) acc[r][g] = v_fma(qr, kv[g], acc[r][g]);
            }
        }
    }
}

// nr query rows, of n_rows in q, against ng groups.
static INLINE void qk_block(const int nr, const int ng, enum hearth_kv_type type, const float *q,
                            uint32_t n_rows, uint32_t d, const void *const *k,
                            const void *const *next, float *s) {
    struct v16 acc[PIECE_ROWS][4], sum[PIECE_ROWS][4];
    UNROLL for (int r = 0; r < nr; r++) UNROLL for (int g = 0; g < ng; g++) acc[r][g] =
        v_set1(0.0f);
    if (type != HEARTH_KV_Q8_0) qk_span(nr, ng, type, q, n_rows, 0, d, k, next, acc);
    for (uint32_t b = 0; type == HEARTH_KV_Q8_0 && b < d / HT_KV_BLOCK; b++) {
        UNROLL for (int r = 0; r < nr; r++) UNROLL for (int g = 0; g < ng; g++) sum[r][g] =
            v_set1(0.0f);
        qk_span(nr, ng, type, q, n_rows, b * HT_KV_BLOCK, (b + 1) * HT_KV_BLOCK, k, next, sum);
        UNROLL for (int g = 0; g < ng; g++) {
            struct v16 scale_g = v_load_f16(ht_kv_k_scales(k[g], d, b));
            if (next && b % 2 == 0) fetch(ht_kv_k_scales(next[g], d, b), 0);
            UNROLL for (int r = 0; r < nr; r++) acc[r][g] = v_fma(sum[r][g], scale_g, acc[r][g]);
        }
    }
    UNROLL for (int r = 0; r < nr; r++) UNROLL for (int g = 0; g < ng; g++)
        v_store(s + r * HT_TILE + g * HT_LANES, acc[r][g]);
}

static INLINE void qk_rows(const int nr, enum hearth_kv_type type, const float *q, uint32_t n_rows,
                           uint32_t d, const void *const *k, const void *const *next, uint32_t g,
                           uint32_t end, float *s) {
    const int most = nr * 4 <= V_ACCS ? 4 : nr * 2 <= V_ACCS ? 2 : 1;
    for (; g + most <= end; g += most)
        qk_block(nr, most, type, q, n_rows, d, k + g, ht_next_from(next, g), s + g * HT_LANES);
    if (most == 4 && g + 2 <= end) {
        qk_block(nr, 2, type, q, n_rows, d, k + g, ht_next_from(next, g), s + g * HT_LANES);
        g += 2;
    }
    for (; g < end; g++)
        qk_block(nr, 1, type, q, n_rows, d, k + g, ht_next_from(next, g), s + g * HT_LANES);
}

static INLINE void qk(enum hearth_kv_type type, const float *q, uint32_t n_rows, uint32_t d,
                      const void *const *k, const void *const *next, uint32_t begin, uint32_t end,
                      float *s) {
    for (uint32_t left = n_rows, n; left > 0; left -= n) {
        n = piece(left, HAS_FIVES(type));
        WITH_PIECE(n, HAS_FIVES(type), qk_rows, type, q, n_rows, d, k, next, begin, end, s)
        q += n * HT_LANES, s += n * HT_TILE;
        next = NULL; // fetched once
    }
}

// ---- p V

// Weights for codes: w[(r * nb + b) * HT_TILE + j] = p[r * HT_TILE + j] * scale of V row j in block
// first + b, for the groups of 16 that [begin, end) touches.
static INLINE void scale_weights(const int nr, const int nb, const float *p, uint32_t d,
                                 const void *const *v, const void *const *next, uint32_t begin,
                                 uint32_t end, uint32_t first, float *w) {
    for (uint32_t j = begin / HT_LANES * HT_LANES; j < end; j += HT_LANES)
        UNROLL for (int b = 0; b < nb; b++) {
            uint32_t page = j / HT_PAGE_TOKENS, slot = j % HT_PAGE_TOKENS;
            struct v16 scales = v_load_f16(ht_kv_v_scales(v[page], d, first + (uint32_t)b) + slot);
            if (next) fetch(ht_kv_v_scales(next[j / HT_LANES], d, first + (uint32_t)b), 0);
            UNROLL for (int r = 0; r < nr; r++)
                v_store(w + (r * nb + b) * HT_TILE + j, v_mul(v_load(p + r * HT_TILE + j), scales));
        }
}

// nr query rows by nv vectors of 16 elements of a V row, from element e on; the last n < 16 of a
// row with an nv of 1.
static INLINE void pv_block(const int nr, const int nv, enum hearth_kv_type type, float *acc,
                            const float *p, const float *c, uint32_t d, const void *const *v,
                            const void *const *next, uint32_t begin, uint32_t end, uint32_t e,
                            uint32_t n) {
    // nb weights for the vectors of a row: one, or one for each block of codes.
    const int nb = type == HEARTH_KV_Q8_0 ? (nv + 1) / 2 : 1, per_block = nv / nb;
    const int per_line = 4 / (int)ht_kv_code_bytes(type); // vectors in a line of the cache
    struct v16 sum[PIECE_ROWS][8];
    float own[2 * PIECE_ROWS * HT_TILE];
    if (type == HEARTH_KV_Q8_0) {
        scale_weights(nr, nb, p, d, v, next, begin, end, e / HT_KV_BLOCK, own);
        p = own;
    }
    float *a = acc + e;
    UNROLL for (int r = 0; r < nr; r++, a = hidden(a + d)) UNROLL for (int i = 0; i < nv; i++)
        sum[r][i] = v_mul(n < HT_LANES ? v_load_n(a, n) : v_load(a + i * HT_LANES), v_set1(c[r]));
    for (uint32_t j = begin, stop; j < end; j = stop) {
        uint32_t page = j / HT_PAGE_TOKENS;
        size_t at = (size_t)(j % HT_PAGE_TOKENS) * d + e;
        stop = (page + 1) * HT_PAGE_TOKENS < end ? (page + 1) * HT_PAGE_TOKENS : end;
        for (const float *w = p + j; w < p + stop; w++, at += d) {
            struct v16 row[8];
            UNROLL for (int i = 0; next && i < nv; i += per_line)
                fetch(next[(w - p) / HT_LANES], (at + i * HT_LANES) * ht_kv_code_bytes(type));
            UNROLL for (int i = 0; i < nv; i++) row[i] =
                n < HT_LANES ? page_load_n(type, v[page], at, n)
                             : page_load(type, v[page], at + i * HT_LANES);
            UNROLL for (int r = 0; r < nr; r++) UNROLL for (int b = 0; b < nb; b++) {
                struct v16 pr = v_set1(w[(r * nb + b) * HT_TILE]);
                UNROLL for (int i = 0; i < per_block; i++) sum[r][b * per_block + i] =
                    v_fma(pr, row[b * per_block + i], sum[r][b * per_block + i]);
            }
        }
    }
    a = acc + e;
    UNROLL for (int r = 0; r < nr; r++, a = hidden(a + d)) UNROLL for (int i = 0; i < nv; i++) {
        if (nv == 1)
            v_store_n(a, sum[r][i], n);
        else
            v_store(a + i * HT_LANES, sum[r][i]);
    }
}

static INLINE void pv_rows(const int nr, enum hearth_kv_type type, float *acc, const float *p,
                           const float *c, uint32_t d, const void *const *v,
                           const void *const *next, uint32_t begin, uint32_t end) {
    const int most = nr * 8 <= V_ACCS ? 8 : nr * 4 <= V_ACCS ? 4 : nr * 2 <= V_ACCS ? 2 : 1;
    uint32_t e = 0;
    for (; e + most * HT_LANES <= d; e += most * HT_LANES)
        pv_block(nr, most, type, acc, p, c, d, v, next, begin, end, e, HT_LANES);
    if (most == 8 && e + 4 * HT_LANES <= d) {
        pv_block(nr, 4, type, acc, p, c, d, v, next, begin, end, e, HT_LANES);
        e += 4 * HT_LANES;
    }
    for (; most > 1 && e + HT_LANES <= d; e += HT_LANES)
        pv_block(nr, 1, type, acc, p, c, d, v, next, begin, end, e, HT_LANES);
}

static INLINE void pv(enum hearth_kv_type type, float *acc, const float *p, const float *c,
                      uint32_t n_rows, uint32_t d, const void *const *v, const void *const *next,
                      uint32_t begin, uint32_t end) {
    // The end of a head that is no whole vector (few heads have one) goes row by row, or tiles of
    // every height would have code for it. A block of q8_0 is two vectors.
    const uint32_t last = type == HEARTH_KV_Q8_0 ? 0 : d % HT_LANES;
    for (uint32_t r = 0; last > 0 && r < n_rows; r++)
        pv_block(1, 1, type, acc + (size_t)r * d, p + r * HT_TILE, c + r, d, v,
                 r == 0 ? next : NULL, begin, end, d - last, last);
    for (uint32_t n; n_rows > 0; n_rows -= n) {
        n = piece(n_rows, HAS_FIVES(type));
        WITH_PIECE(n, HAS_FIVES(type), pv_rows, type, acc, p, c, d, v, next, begin, end)
        acc += (size_t)n * d, p += n * HT_TILE, c += n;
        next = NULL; // fetched once
    }
}

#endif
