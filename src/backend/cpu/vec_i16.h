// SPDX-License-Identifier: MIT
// Pages of 16-bit whole numbers (num.h, "i16"), written once over 16 lanes: rows are stored, query
// rows and weights become whole numbers, and products are exact sums of 32 bits. Beside what
// vec_lanes.h wants, a level's file defines
//
//   v_store_i16: rounded to nearest even, from -32767 to 32767; of NaN anything
//   v_store_i16x2: two of them, one behind the other
//   v_mul_above(a, b): a > 0 ? a * b : 0
//   struct w16: 16 sums of 32 bits   struct pairs: 16 pairs of 16 bits
//   w_put(to, x, half): 16 numbers to the first or second places of 16 pairs
//   w_zip(to, a, b): both
//   v_sqrt
//   w_zero   w_load: 16 pairs   w_set1: one pair, 16 times   w_float
//   w_dot(sum, a, x): sum + a's first times x's first + a's second times x's second, lane by lane
//   V_ACCS: v16s that may be accumulators, at most 24
//   V_TURN: lanes of the registers that blocks are transposed in, 4 or 16
//   V_PRODUCTS_ONLY, if defined: rows are stored by the functions of another level
//
// No state; any thread.
#ifndef HT_CPU_VEC_I16_H
#define HT_CPU_VEC_I16_H

#include <string.h>

#include "backend/cpu/vec.h"
#include "backend/cpu/vec_tile.h"

#ifndef V_PRODUCTS_ONLY
// ht_i16_from_f32, each HT_I16_CHUNK codes `stride` behind the last, with room for whole groups of
// 16.
static INLINE float head_codes(const int nv, const float *x, int16_t *codes, size_t stride) {
    struct v16 v[8], sq = v_set1(0.0f), most = sq;
    UNROLL for (int i = 0; i < nv; i++) {
        v[i] = v_load(x + i * HT_LANES);
        sq = v_fma(v[i], v[i], sq);
        most = v_max(v_abs(v[i]), most);
    }
    float inverse, step = ht_i16_step(v_sum(sq), v_most(most), &inverse);
    struct v16 by = v_set1(inverse);
    UNROLL for (int i = 0; i < nv; i++) {
        v[i] = v_mul(v[i], by);
        if (inverse == 0.0f) v[i] = by; // 0 times infinity would be NaN
        v_store_i16(codes + i / 2 * stride + i % 2 * HT_LANES, v[i]);
    }
    return step;
}

static __attribute__((noinline)) float i16_codes(const float *x, uint32_t n, int16_t *codes,
                                                 size_t stride) {
    if (n == 128) return head_codes(8, x, codes, stride);
    if (n == 64) return head_codes(4, x, codes, stride);
    struct v16 sq = v_set1(0.0f), most = sq;
    for (uint32_t i = 0; i < n; i += HT_LANES) {
        struct v16 v = v_load_n(x + i, n - i);
        sq = v_fma(v, v, sq);
        most = v_max(v_abs(v), most);
    }
    float inverse, step = ht_i16_step(v_sum(sq), v_most(most), &inverse);
    struct v16 by = v_set1(inverse);
    for (uint32_t i = 0; i < n; i += HT_LANES) {
        struct v16 v = v_mul(v_load_n(x + i, n - i), by);
        if (inverse == 0.0f) v = by; // 0 times infinity would be NaN
        v_store_i16(codes + i / HT_I16_CHUNK * stride + i % HT_I16_CHUNK, v);
    }
    return step;
}

static void q_load_i16(const float *q, uint32_t d, uint32_t n_rows, uint32_t r, void *to) {
    ht_i16_q_steps(to, d, n_rows)[r] =
        i16_codes(q, d, (int16_t *)to + r * HT_I16_CHUNK, (size_t)n_rows * HT_I16_CHUNK);
}

static void append_k_i16(const float *k, uint32_t d, uint32_t slot, void *group) {
    int16_t codes[HT_I16_MAX_DIM + HT_LANES];
    int16_t *to = (int16_t *)group + 2 * slot;
    ht_i16_k_steps(group, d)[slot] = i16_codes(k, d, codes, HT_I16_CHUNK);
    for (uint32_t e = 0; e < d; e += 2, to += 2 * HT_LANES) memcpy(to, codes + e, 2 * sizeof *to);
}

// V_TURN rows of as many pairs, `stride` codes apart, as columns, 16 pairs apart: halves of ever
// smaller blocks change places. Rows from n on are not looked at; there are others in their place.
static INLINE void turn_block(const int16_t *from, size_t stride, uint32_t n, int16_t *to) {
    typedef int32_t row __attribute__((vector_size(4 * V_TURN), aligned(4), may_alias));
    row x[V_TURN], y[V_TURN];
    UNROLL for (uint32_t i = 0; i < V_TURN; i++) x[i] =
        *(const row *)(const void *)(from + (i < n ? i : n - 1) * stride);
#if defined(__clang__)
#define SHUFFLE(a, b, ...) __builtin_shufflevector(a, b, __VA_ARGS__)
#else // which gcc 11 has not yet
#define SHUFFLE(a, b, ...) __builtin_shuffle(a, b, (row){__VA_ARGS__})
#endif
#define CHANGE(x, y, half, low, high)                                                              \
    UNROLL for (int i = 0; i < V_TURN; i++) {                                                      \
        const int o = i & ~(half);                                                                 \
        y[i] =                                                                                     \
            i & (half) ? SHUFFLE(x[o], x[o + (half)], high) : SHUFFLE(x[o], x[o + (half)], low);   \
    }
#define LANES_OF(...) __VA_ARGS__
#if V_TURN == 16
    CHANGE(x, y, 8, LANES_OF(0, 1, 2, 3, 4, 5, 6, 7, 16, 17, 18, 19, 20, 21, 22, 23),
           LANES_OF(8, 9, 10, 11, 12, 13, 14, 15, 24, 25, 26, 27, 28, 29, 30, 31))
    CHANGE(y, x, 4, LANES_OF(0, 1, 2, 3, 16, 17, 18, 19, 8, 9, 10, 11, 24, 25, 26, 27),
           LANES_OF(4, 5, 6, 7, 20, 21, 22, 23, 12, 13, 14, 15, 28, 29, 30, 31))
    CHANGE(x, y, 2, LANES_OF(0, 1, 16, 17, 4, 5, 20, 21, 8, 9, 24, 25, 12, 13, 28, 29),
           LANES_OF(2, 3, 18, 19, 6, 7, 22, 23, 10, 11, 26, 27, 14, 15, 30, 31))
    CHANGE(y, x, 1, LANES_OF(0, 16, 2, 18, 4, 20, 6, 22, 8, 24, 10, 26, 12, 28, 14, 30),
           LANES_OF(1, 17, 3, 19, 5, 21, 7, 23, 9, 25, 11, 27, 13, 29, 15, 31))
#else
    CHANGE(x, y, 2, LANES_OF(0, 1, 4, 5), LANES_OF(2, 3, 6, 7))
    CHANGE(y, x, 1, LANES_OF(0, 4, 2, 6), LANES_OF(1, 5, 3, 7))
#endif
#undef CHANGE
#undef SHUFFLE
#undef LANES_OF
    UNROLL for (int i = 0; i < V_TURN; i++) * (row *)(void *)(to + i * 2 * HT_LANES) = x[i];
}

// n >= 1 rows of 16 pairs as 16 columns.
static INLINE void transpose_pairs(const int16_t *from, size_t stride, uint32_t n, int16_t *to) {
    for (uint32_t r = 0; r < n; r += V_TURN)
        for (uint32_t c = 0; c < HT_LANES; c += V_TURN)
            turn_block(from + r * stride + 2 * c, stride, n - r, to + (c * HT_LANES + r) * 2);
}

// Codes of a group's positions, x [HT_LANES][d], d whole lanes and at most GROUP_DIM, and their
// steps: of eight rows at once, a row a lane, so that none waits for its own sums and quotients.
#define GROUP_DIM (HT_I16_CHUNK * 8)
static __attribute__((noinline)) void group_codes(const float *x, uint32_t d,
                                                  int16_t codes[][GROUP_DIM], float *steps) {
    enum { ROWS = 8 };
    _Alignas(64) float sums[ROWS][HT_LANES], mosts[ROWS][HT_LANES], inverse[HT_LANES];
    for (uint32_t first = 0; first < HT_LANES; first += ROWS, x += (size_t)ROWS * d) {
        for (uint32_t r = 0; r < ROWS; r++) {
            struct v16 sq = v_set1(0.0f), most = sq;
            for (uint32_t i = 0; i < d; i += HT_LANES) {
                struct v16 v = v_load(x + r * d + i);
                sq = v_fma(v, v, sq);
                most = v_max(v_abs(v), most);
            }
            v_store(sums[r], sq), v_store(mosts[r], most);
        }
        struct v16 sq = v_sums(sums, ROWS), most = v_mosts(mosts, ROWS), zero = v_set1(0.0f);
        struct v16 step = v_max(v_div(v_sqrt(sq), v_set1(HT_I16_NORM)), // ht_i16_step
                                v_div(most, v_set1(HT_I16_MAX)));
        step = v_select_lt(sq, v_set1(INFINITY), step, v_set1(NAN));
        step = v_select_lt(sq, v_set1(HT_I16_LEAST), zero, step);
        v_store_n(steps + first, step, ROWS);
        v_store(inverse, v_select_lt(zero, step, v_div(v_set1(1.0f), step), zero));
        for (uint32_t r = 0; r < ROWS; r++) {
            struct v16 by = v_set1(inverse[r]);
            for (uint32_t i = 0; i < d; i += HT_LANES) {
                struct v16 v = v_mul(v_load(x + r * d + i), by);
                if (inverse[r] == 0.0f) v = by; // 0 times infinity would be NaN
                v_store_i16(codes[first + r] + i, v);
            }
        }
    }
}

static void group_k_i16(const float *k, uint32_t d, void *group) {
    int16_t codes[HT_LANES][GROUP_DIM], *to = group;
    if (d % HT_I16_CHUNK != 0 || d > GROUP_DIM) {
        for (uint32_t i = 0; i < HT_LANES; i++) append_k_i16(k + (size_t)i * d, d, i, group);
        return;
    }
    group_codes(k, d, codes, ht_i16_k_steps(group, d));
    for (uint32_t e = 0; e < d; e += HT_I16_CHUNK, to += HT_I16_CHUNK * HT_LANES)
        transpose_pairs(codes[0] + e, GROUP_DIM, HT_LANES, to);
}

static __attribute__((noinline)) const void *turn_k_i16(const void *group, uint32_t d, uint32_t n,
                                                        void *to) {
    if (!ht_i16_in_rows(group, d)) return group;
    const int16_t *from = group;
    int16_t *at = to;
    uint32_t e = 0;
    for (; e + HT_I16_CHUNK <= d; e += HT_I16_CHUNK, at += HT_I16_CHUNK * HT_LANES)
        transpose_pairs(from + e, d, n, at);
    for (; e < d; e += 2, at += 2 * HT_LANES)
        for (uint32_t i = 0; i < n; i++) memcpy(at + 2 * i, from + i * d + e, 2 * sizeof *at);
    v_store(ht_i16_k_steps(to, d), v_abs(v_load(ht_i16_k_steps(group, d))));
    return to;
}

static void row_k_i16(const float *k, uint32_t d, uint32_t slot, void *group) {
    int16_t codes[HT_I16_MAX_DIM + HT_LANES];
    float all[HT_LANES * (HT_I16_MAX_DIM / 2 + 1)];
    float *steps = ht_i16_k_steps(group, d);
    if (slot > 0 && !ht_i16_in_rows(group, d)) {
        append_k_i16(k, d, slot, group);
        return;
    }
    float step = i16_codes(k, d, codes, HT_I16_CHUNK);
    memcpy((int16_t *)group + (size_t)slot * d, codes, d * sizeof *codes);
    steps[slot] = slot == 0 ? copysignf(step, -1.0f) : step;
    if (slot < HT_LANES - 1) return;
    memcpy(all, group, HT_LANES * ht_kv_row_bytes(HEARTH_KV_I16, d));
    turn_k_i16(all, d, slot + 1, group);
}

static void append_v_i16(const float *v, uint32_t d, uint32_t slot, void *page) {
    int16_t codes[HT_I16_MAX_DIM + HT_LANES];
    int16_t *to = (int16_t *)page + (size_t)(slot / 2) * 2 * d;
    ht_i16_v_steps(page, d)[slot] = i16_codes(v, d, codes, HT_I16_CHUNK);
    uint32_t e = 0;
    for (; e + HT_LANES <= d; e += HT_LANES) w_put(to + 2 * e, codes + e, slot % 2);
    for (; e < d; e++) to[2 * e + slot % 2] = codes[e];
}

// Two positions at a time, so that every line of the page is written whole.
static void group_v_i16(const float *v, uint32_t d, uint32_t slot, void *page) {
    int16_t codes[HT_LANES][GROUP_DIM], *to = (int16_t *)page + (size_t)slot * d;
    if (d % HT_LANES != 0 || d > GROUP_DIM) {
        for (uint32_t i = 0; i < HT_LANES; i++, v += d) append_v_i16(v, d, slot + i, page);
        return;
    }
    group_codes(v, d, codes, ht_i16_v_steps(page, d) + slot);
    for (uint32_t i = 0; i < HT_LANES; i += 2)
        for (uint32_t e = 0; e < d; e += HT_LANES, to += 2 * HT_LANES)
            w_zip(to, codes[i] + e, codes[i + 1] + e);
}

#endif // V_PRODUCTS_ONLY

// nr query rows against ng groups; q and steps are those of the first row, of n_rows.
static INLINE void qk_block_i16(const int nr, const int ng, const int16_t *q, const float *steps,
                                uint32_t n_rows, uint32_t d, const void *const *k,
                                const void *const *next, float *s) {
    struct w16 acc[PIECE_ROWS][4];
    UNROLL for (int r = 0; r < nr; r++) UNROLL for (int g = 0; g < ng; g++) acc[r][g] = w_zero();
    for (uint32_t e = 0, stop; e < d; e = stop, q += n_rows * HT_I16_CHUNK) {
        stop = d - e < HT_I16_CHUNK ? d : e + HT_I16_CHUNK;
        for (const int16_t *x = q; e < stop; e += 2, x += 2) {
            struct pairs kv[4];
            UNROLL for (int g = 0; g < ng; g++) kv[g] =
                w_load((const int16_t *)k[g] + (size_t)e * HT_LANES);
            if (next)
                UNROLL for (int g = 0; g < ng; g++)
                    fetch(next[g], (size_t)e * HT_LANES * sizeof(int16_t));
            UNROLL for (int r = 0; r < nr; r++) {
                struct pairs xr = w_set1(x + r * HT_I16_CHUNK);
                UNROLL for (int g = 0; g < ng; g++) acc[r][g] = w_dot(acc[r][g], kv[g], xr);
            }
        }
    }
    UNROLL for (int g = 0; g < ng; g++) {
        struct v16 step = v_load(ht_i16_k_steps(k[g], d));
        if (next) fetch(ht_i16_k_steps(next[g], d), 0);
        UNROLL for (int r = 0; r < nr; r++)
            v_store(s + r * HT_TILE + g * HT_LANES,
                    v_mul(v_mul(w_float(acc[r][g]), step), v_set1(steps[r])));
    }
}

static INLINE void qk_rows_i16(const int nr, const int16_t *q, const float *steps, uint32_t n_rows,
                               uint32_t d, const void *const *k, const void *const *next,
                               uint32_t g, uint32_t end, float *s) {
    const int most = nr * 4 <= V_ACCS ? 4 : nr * 2 <= V_ACCS ? 2 : 1;
    for (; g + most <= end; g += most)
        qk_block_i16(nr, most, q, steps, n_rows, d, k + g, ht_next_from(next, g), s + g * HT_LANES);
    if (most == 4 && g + 2 <= end) {
        qk_block_i16(nr, 2, q, steps, n_rows, d, k + g, ht_next_from(next, g), s + g * HT_LANES);
        g += 2;
    }
    for (; g < end; g++)
        qk_block_i16(nr, 1, q, steps, n_rows, d, k + g, ht_next_from(next, g), s + g * HT_LANES);
}

static void qk_i16(const void *rows, uint32_t n_rows, uint32_t d, const void *const *k,
                   const void *const *next, uint32_t begin, uint32_t end, float *s) {
    const int16_t *q = rows;
    const float *steps = ht_i16_q_steps(rows, d, n_rows);
    for (uint32_t left = n_rows, n; left > 0; left -= n) {
        n = piece(left, true);
        WITH_PIECE(n, true, qk_rows_i16, q, steps, n_rows, d, k, next, begin, end, s)
        q += n * HT_I16_CHUNK, s += n * HT_TILE, steps += n;
        next = NULL; // fetched once
    }
}

// The weights of n_kv KV heads' n_rows rows for groups [begin, end) of 16 positions times the steps
// of their V rows, as whole numbers, and the steps of these.
static INLINE void weight_codes(const float *p, uint32_t n_kv, uint32_t n_rows,
                                const void *const *v, uint32_t d, uint32_t begin, uint32_t end,
                                int16_t codes[][HT_TILE], float *steps) {
    _Alignas(64) float w[HT_LANES][HT_TILE], inverse[HT_LANES];
    _Alignas(64) float sums[HT_LANES][HT_LANES], mosts[HT_LANES][HT_LANES];
    struct v16 by[HT_TILE_GROUPS], zero = v_set1(0.0f);
    uint32_t row = 0, stop = 0;
    do {
        UNROLL for (uint32_t g = 0; g < HT_TILE_GROUPS; g++) {
            const void *page = v[g / HT_PAGE_GROUPS];
            by[g] = zero;
            if (g < begin || g >= end) continue;
            by[g] = v_load(ht_i16_v_steps(page, d) + g % HT_PAGE_GROUPS * HT_LANES);
        }
        stop += n_rows, v += HT_TILE_PAGES;
        do {
            struct v16 sum = zero, most = zero;
            UNROLL for (uint32_t g = 0; g < HT_TILE_GROUPS; g++) {
                struct v16 x = zero;
                if (g >= begin && g < end)
                    x = v_mul_above(v_load(p + row * HT_TILE + g * HT_LANES), by[g]);
                v_store(w[row] + g * HT_LANES, x);
                sum = v_add(sum, x);
                most = v_max(x, most);
            }
            v_store(sums[row], sum), v_store(mosts[row], most);
        } while (++row < stop);
    } while (--n_kv > 0);
    struct v16 sum = v_sums(sums, row), most = v_mosts(mosts, row);
    struct v16 step = v_max(v_mul(most, v_set1(1.0f / HT_I16_MAX)), // ht_i16_weight_step
                            v_mul(sum, v_set1(1.0f / HT_I16_SUM)));
    step = v_select_lt(sum, v_set1(HT_I16_LEAST), zero, step);
    v_store(steps, step);
    v_store(inverse, v_select_lt(zero, step, v_div(v_set1(1.0f), step), zero));
    for (uint32_t r = 0; r < row; r++) {
        struct v16 x = v_set1(inverse[r]);
        UNROLL for (uint32_t g = 0; g < HT_TILE_GROUPS; g += 2)
            v_store_i16x2(codes[r] + g * HT_LANES, v_mul(v_load(w[r] + g * HT_LANES), x),
                          v_mul(v_load(w[r] + (g + 1) * HT_LANES), x));
    }
}

// nr query rows by nv vectors of 16 elements of V, from element e on; n < 16 are the last of a row,
// with an nv of 1. What is read behind the last element of a page's last row are its steps.
static INLINE void pv_block_i16(const int nr, const int nv, float *acc,
                                const int16_t codes[][HT_TILE], const float *steps, const float *c,
                                uint32_t d, const void *const *v, const void *const *next,
                                uint32_t begin, uint32_t end, uint32_t e, uint32_t n) {
    struct w16 sum[PIECE_ROWS][8];
    UNROLL for (int r = 0; r < nr; r++) UNROLL for (int i = 0; i < nv; i++) sum[r][i] = w_zero();
    for (uint32_t j = begin * HT_LANES, stop; j < end * HT_LANES; j = stop) {
        uint32_t page = j / HT_PAGE_TOKENS;
        stop = (page + 1) * HT_PAGE_TOKENS;
        if (stop > end * HT_LANES) stop = end * HT_LANES;
        size_t at = (size_t)(j % HT_PAGE_TOKENS) * d + 2 * e;
        const int16_t *code = &codes[0][j];
        for (uint32_t i = j; i < stop; i += 2, at += 2 * d, code += 2) {
            __asm__("" : "+r"(code)); // one address, with an offset for each row
            struct pairs row[8];
            if (next)
                UNROLL for (int x = 0; x < nv; x++)
                    fetch(next[i / HT_LANES], (at + (size_t)x * 2 * HT_LANES) * sizeof(int16_t));
            UNROLL for (int x = 0; x < nv; x++) row[x] =
                w_load((const int16_t *)v[page] + at + (size_t)x * 2 * HT_LANES);
            UNROLL for (int r = 0; r < nr; r++) {
                struct pairs w = w_set1(code + r * HT_TILE);
                UNROLL for (int x = 0; x < nv; x++) sum[r][x] = w_dot(sum[r][x], row[x], w);
            }
        }
    }
    float *a = acc + e;
    UNROLL for (int r = 0; r < nr; r++, a = hidden(a + d)) UNROLL for (int i = 0; i < nv; i++) {
        float *to = a + i * HT_LANES;
        uint32_t len = nv == 1 ? n : HT_LANES;
        struct v16 old = v_mul(v_load_n(to, len), v_set1(c[r]));
        v_store_n(to, v_fma(w_float(sum[r][i]), v_set1(steps[r]), old), len);
    }
}

static INLINE void pv_rows_i16(const int nr, float *acc, const int16_t codes[][HT_TILE],
                               const float *steps, const float *c, uint32_t d, const void *const *v,
                               const void *const *next, uint32_t begin, uint32_t end) {
    const int most = nr * 8 <= V_ACCS ? 8 : nr * 4 <= V_ACCS ? 4 : nr * 2 <= V_ACCS ? 2 : 1;
    uint32_t e = 0;
    for (; e + most * HT_LANES <= d; e += most * HT_LANES)
        pv_block_i16(nr, most, acc, codes, steps, c, d, v, next, begin, end, e, HT_LANES);
    if (most == 8 && e + 4 * HT_LANES <= d) {
        pv_block_i16(nr, 4, acc, codes, steps, c, d, v, next, begin, end, e, HT_LANES);
        e += 4 * HT_LANES;
    }
    for (; most > 1 && e + HT_LANES <= d; e += HT_LANES)
        pv_block_i16(nr, 1, acc, codes, steps, c, d, v, next, begin, end, e, HT_LANES);
}

static void pv_i16(float *acc, const float *p, const float *c, uint32_t n_kv, uint32_t n_rows,
                   uint32_t d, const void *const *v, const void *const *next, uint32_t begin,
                   uint32_t end) {
    _Alignas(64) int16_t codes[HT_LANES][HT_TILE];
    _Alignas(64) float steps[HT_LANES];
    begin = begin / HT_LANES;
    end = (end + HT_LANES - 1) / HT_LANES;
    if (begin == 0 && end == HT_TILE_GROUPS)
        weight_codes(p, n_kv, n_rows, v, d, 0, HT_TILE_GROUPS, codes, steps);
    else
        weight_codes(p, n_kv, n_rows, v, d, begin, end, codes, steps);
    for (uint32_t r = 0, stop = n_rows, n; n_kv > 0; n_kv--, stop += n_rows) {
        const void *const *then = next; // fetched once
        for (uint32_t g = begin; next && g < end; g++)
            fetch(ht_i16_v_steps(next[g], d), 64 * (g % HT_PAGE_GROUPS));
        // Heads are seldom of no whole vectors: row by row.
        for (uint32_t last = d % HT_LANES, i = r; last > 0 && i < stop; i++)
            pv_block_i16(1, 1, acc + (size_t)i * d, codes + i, steps + i, c + i, d, v,
                         i == r ? next : NULL, begin, end, d - last, last);
        for (; r < stop; r += n, then = NULL) {
            n = piece(stop - r, true);
            WITH_PIECE(n, true, pv_rows_i16, acc + (size_t)r * d, codes + r, steps + r, c + r, d, v,
                       then, begin, end)
        }
        v += HT_TILE_PAGES;
        next = ht_next_from(next, HT_TILE_GROUPS);
    }
}

#define HT_KV_PRODUCTS_I16(k)                                                                      \
    (k)->attn_qk[HEARTH_KV_I16] = qk_i16, (k)->attn_pv[HEARTH_KV_I16] = pv_i16
#define HT_KV_ENTRIES_I16(k)                                                                       \
    (k)->q_load[HEARTH_KV_I16] = q_load_i16, (k)->k_store[HEARTH_KV_I16] = append_k_i16,           \
    (k)->k_group[HEARTH_KV_I16] = group_k_i16, (k)->k_row[HEARTH_KV_I16] = row_k_i16,              \
    (k)->k_turn[HEARTH_KV_I16] = turn_k_i16, (k)->v_store[HEARTH_KV_I16] = append_v_i16,           \
    (k)->v_group[HEARTH_KV_I16] = group_v_i16, HT_KV_PRODUCTS_I16(k)

#endif
