// SPDX-License-Identifier: MIT
// The vector kernels written once, over 16 lanes: the lanes of the numeric law, so that each kernel
// is the scalar one, 16 elements at a time, and gives its bits. A level's file defines struct v16
// (one zmm, two ymm, four q registers) and these operations on it, and includes this:
//
//   v_set1 v_iota v_load v_store v_load_n v_store_n (the first n lanes; others 0, or not written)
//   v_load_f16 v_store_f16   v_add v_sub v_mul v_div   v_first (lane 0)
//   v_fma: a * b + c   v_fnma: c - a * b   v_fms: a * b - c
//   v_max: a > b ? a : b   v_min: a < b ? a : b
//   v_select_lt, v_select_le: a < b (a <= b) ? yes : no
//   v_rint  v_neg  v_abs  v_copysign(to, from)   v_scale2: a * 2^n, n whole, |n| <= 128
//   v_swap: lanes 2i and 2i + 1   v_sum, v_most: j and j + 8, then j + 4, j + 2, j + 1
//   V_ROWS: query rows a call   V_ACCS: v16s that may be accumulators   V_INIT: the function's name
//
// No state; any thread.
#include <string.h>

#include "backend/cpu/vec.h"

static INLINE struct v16 keep(struct v16 v, uint32_t n) {
    return n >= HT_LANES ? v : v_select_lt(v_iota(), v_set1((float)n), v, v_set1(0.0f));
}

// ---- elementary functions: num.h, lane by lane

static INLINE struct v16 vexp(struct v16 x) {
    struct v16 n = v_rint(v_mul(x, v_set1(HT_EXP_LOG2E)));
    struct v16 r = v_fnma(n, v_set1(HT_EXP_LN2_HI), x);
    r = v_fnma(n, v_set1(HT_EXP_LN2_LO), r);
    struct v16 q = v_set1(HT_EXP_C6);
    q = v_fma(q, r, v_set1(HT_EXP_C5));
    q = v_fma(q, r, v_set1(HT_EXP_C4));
    q = v_fma(q, r, v_set1(HT_EXP_C3));
    q = v_fma(q, r, v_set1(HT_EXP_C2));
    q = v_fma(q, r, v_set1(1.0f));
    q = v_scale2(v_fma(q, r, v_set1(1.0f)), n);
    q = v_select_le(v_set1(HT_EXP_MAX), x, v_set1(INFINITY), q);
    return v_select_le(x, v_set1(HT_EXP_MIN), v_set1(0.0f), q);
}

static INLINE struct v16 vtanh(struct v16 x) {
    struct v16 a = v_abs(x), s = v_mul(x, x);
    struct v16 p = v_set1(HT_TANH_T11);
    p = v_fma(p, s, v_set1(HT_TANH_T9));
    p = v_fma(p, s, v_set1(HT_TANH_T7));
    p = v_fma(p, s, v_set1(HT_TANH_T5));
    p = v_fma(p, s, v_set1(HT_TANH_T3));
    struct v16 small = v_fma(v_mul(p, s), x, x);
    struct v16 e = v_add(vexp(v_add(a, a)), v_set1(1.0f));
    struct v16 large = v_sub(v_set1(1.0f), v_div(v_set1(2.0f), e));
    return v_select_lt(a, v_set1(HT_TANH_SMALL), small, v_copysign(large, x));
}

static INLINE struct v16 verf(struct v16 x) {
    struct v16 a = v_abs(x), s = v_mul(x, x);
    struct v16 p = v_set1(HT_ERF_E6);
    p = v_fma(p, s, v_set1(HT_ERF_E5));
    p = v_fma(p, s, v_set1(HT_ERF_E4));
    p = v_fma(p, s, v_set1(HT_ERF_E3));
    p = v_fma(p, s, v_set1(HT_ERF_E2));
    p = v_fma(p, s, v_set1(HT_ERF_E1));
    p = v_fma(p, s, v_set1(HT_ERF_E0));
    struct v16 small = v_fma(p, x, x);
    struct v16 b = v_min(v_set1(HT_ERF_ONE), a);
    struct v16 l = v_set1(HT_ERF_L6);
    l = v_fma(l, b, v_set1(HT_ERF_L5));
    l = v_fma(l, b, v_set1(HT_ERF_L4));
    l = v_fma(l, b, v_set1(HT_ERF_L3));
    l = v_fma(l, b, v_set1(HT_ERF_L2));
    l = v_fma(l, b, v_set1(HT_ERF_L1));
    l = v_fma(l, b, v_set1(HT_ERF_L0));
    struct v16 large = v_copysign(v_sub(v_set1(1.0f), vexp(l)), x);
    return v_select_lt(a, v_set1(HT_ERF_SMALL), small, large);
}

static INLINE struct v16 vact(enum ht_act kind, struct v16 x) {
    struct v16 one = v_set1(1.0f), v;
    switch (kind) {
    case HT_ACT_SILU: return v_div(x, v_add(one, vexp(v_neg(x))));
    case HT_ACT_GELU_TANH:
        v = v_mul(v_set1(HT_GELU_CUBIC), v_mul(x, x));
        v = v_mul(v_fma(v, x, x), v_set1(HT_GELU_M2S));
        return v_div(x, v_add(one, vexp(v)));
    case HT_ACT_GELU_ERF:
        v = v_add(one, verf(v_mul(x, v_set1(HT_SQRT1_2))));
        return v_mul(v_mul(v_set1(0.5f), x), v);
    case HT_ACT_RELU2: break;
    }
    x = v_max(x, v_set1(0.0f));
    return v_mul(x, x);
}

// ---- norms and element-wise steps

static void rms_norm(const float *x, const float *w, uint32_t n, float eps, float *y) {
    struct v16 sum = v_set1(0.0f);
    for (uint32_t i = 0; i < n; i += HT_LANES) {
        struct v16 v = v_load_n(x + i, n - i);
        sum = v_fma(v, v, sum);
    }
    struct v16 r = v_set1(1.0f / sqrtf(v_sum(sum) / (float)n + eps));
    for (uint32_t i = 0; i < n; i += HT_LANES) {
        struct v16 v = v_mul(v_load_n(x + i, n - i), r);
        v_store_n(y + i, v_mul(v, v_load_n(w + i, n - i)), n - i);
    }
}

static void layer_norm(const float *x, const float *w, const float *b, uint32_t n, float eps,
                       float *y) {
    struct v16 sum = v_set1(0.0f);
    for (uint32_t i = 0; i < n; i += HT_LANES) sum = v_add(sum, v_load_n(x + i, n - i));
    struct v16 mean = v_set1(v_sum(sum) / (float)n);
    sum = v_set1(0.0f);
    for (uint32_t i = 0; i < n; i += HT_LANES) {
        struct v16 d = keep(v_sub(v_load_n(x + i, n - i), mean), n - i);
        sum = v_fma(d, d, sum);
    }
    struct v16 r = v_set1(1.0f / sqrtf(v_sum(sum) / (float)n + eps));
    for (uint32_t i = 0; i < n; i += HT_LANES) {
        struct v16 d = v_mul(v_sub(v_load_n(x + i, n - i), mean), r);
        struct v16 wi = v_load_n(w + i, n - i);
        d = b ? v_fma(d, wi, v_load_n(b + i, n - i)) : v_mul(d, wi);
        v_store_n(y + i, d, n - i);
    }
}

static INLINE void act_kind(enum ht_act kind, const float *x, uint32_t n, float *y) {
    for (uint32_t i = 0; i < n; i += HT_LANES)
        v_store_n(y + i, vact(kind, v_load_n(x + i, n - i)), n - i);
}

static void act(enum ht_act kind, const float *x, uint32_t n, float *y) {
    switch (kind) {
    case HT_ACT_SILU: act_kind(HT_ACT_SILU, x, n, y); break;
    case HT_ACT_GELU_TANH: act_kind(HT_ACT_GELU_TANH, x, n, y); break;
    case HT_ACT_GELU_ERF: act_kind(HT_ACT_GELU_ERF, x, n, y); break;
    case HT_ACT_RELU2: act_kind(HT_ACT_RELU2, x, n, y); break;
    }
}

static INLINE void act_mul_kind(enum ht_act kind, const float *g, const float *u, uint32_t n,
                                float *y) {
    for (uint32_t i = 0; i < n; i += HT_LANES) {
        struct v16 v = vact(kind, v_load_n(g + i, n - i));
        v_store_n(y + i, v_mul(v, v_load_n(u + i, n - i)), n - i);
    }
}

static void act_mul(enum ht_act kind, const float *g, const float *u, uint32_t n, float *y) {
    switch (kind) {
    case HT_ACT_SILU: act_mul_kind(HT_ACT_SILU, g, u, n, y); break;
    case HT_ACT_GELU_TANH: act_mul_kind(HT_ACT_GELU_TANH, g, u, n, y); break;
    case HT_ACT_GELU_ERF: act_mul_kind(HT_ACT_GELU_ERF, g, u, n, y); break;
    case HT_ACT_RELU2: act_mul_kind(HT_ACT_RELU2, g, u, n, y); break;
    }
}

static void add(const float *a, const float *b, uint32_t n, float *y) {
    for (uint32_t i = 0; i < n; i += HT_LANES)
        v_store_n(y + i, v_add(v_load_n(a + i, n - i), v_load_n(b + i, n - i)), n - i);
}

static void scale(const float *x, float s, uint32_t n, float *y) {
    for (uint32_t i = 0; i < n; i += HT_LANES)
        v_store_n(y + i, v_mul(v_load_n(x + i, n - i), v_set1(s)), n - i);
}

static void axpy(float a, const float *x, uint32_t n, float *y) {
    for (uint32_t i = 0; i < n; i += HT_LANES)
        v_store_n(y + i, v_fma(v_set1(a), v_load_n(x + i, n - i), v_load_n(y + i, n - i)), n - i);
}

static void exp_sub(const float *x, float m, uint32_t n, float *y) {
    for (uint32_t i = 0; i < n; i += HT_LANES)
        v_store_n(y + i, vexp(v_sub(v_load_n(x + i, n - i), v_set1(m))), n - i);
}

static void rope_halves(const float *x, const float *c, const float *s, uint32_t n_rot, float *y) {
    uint32_t h = n_rot / 2;
    for (uint32_t i = 0; i < h; i += HT_LANES) {
        struct v16 a = v_load_n(x + i, h - i), b = v_load_n(x + h + i, h - i);
        struct v16 ci = v_load_n(c + i, h - i), si = v_load_n(s + i, h - i);
        v_store_n(y + i, v_fms(a, ci, v_mul(b, si)), h - i);
        v_store_n(y + h + i, v_fma(b, ci, v_mul(a, si)), h - i);
    }
}

static void rope_adjacent(const float *x, const float *c, const float *s, uint32_t n_rot,
                          float *y) {
    for (uint32_t i = 0; i < n_rot; i += HT_LANES) {
        uint32_t n = n_rot - i;
        struct v16 v = v_load_n(x + i, n);
        struct v16 t = v_mul(v_swap(v), v_load_n(s + i, n));
        v_store_n(y + i, v_fma(v, v_load_n(c + i, n), t), n);
    }
}

// ---- KV pages

static void v_store_row_f16(const float *v, uint32_t d, void *row) {
    uint16_t *y = row, h[HT_LANES];
    uint32_t e = 0;
    for (; e + HT_LANES <= d; e += HT_LANES) v_store_f16(y + e, v_load(v + e));
    if (e == d) return;
    v_store_f16(h, v_load_n(v + e, d - e));
    memcpy(y + e, h, (d - e) * sizeof *h);
}

static void k_store_f16(const float *k, uint32_t d, uint32_t slot, void *group) {
    uint16_t *g = (uint16_t *)group + slot, h[HT_LANES];
    for (uint32_t e = 0; e < d; e += HT_LANES) {
        uint32_t n = d - e < HT_LANES ? d - e : HT_LANES;
        v_store_f16(h, v_load_n(k + e, n));
        for (uint32_t i = 0; i < n; i++) g[(size_t)(e + i) * HT_LANES] = h[i];
    }
}

// ---- attention

// HT_LANES elements, or the first n of them and zeros, from element i of a page piece on.
static INLINE struct v16 page_load(enum hearth_kv_type type, const void *p, size_t i) {
    if (type == HEARTH_KV_F32) return v_load((const float *)p + i);
    return v_load_f16((const uint16_t *)p + i);
}

static INLINE struct v16 page_load_n(enum hearth_kv_type type, const void *p, size_t i,
                                     uint32_t n) {
    if (n >= HT_LANES) return page_load(type, p, i);
    if (type == HEARTH_KV_F32) return v_load_n((const float *)p + i, n);
    uint16_t h[HT_LANES] = {0};
    memcpy(h, (const uint16_t *)p + i, n * sizeof *h);
    return v_load_f16(h);
}

// One token's few rows wait for memory: the next tile is asked for while this one is worked on.
// Many rows find it in the cache soon enough.
#define PREFETCH_ROWS 6

static INLINE void fetch(enum hearth_kv_type type, const void *p, size_t i) {
    __builtin_prefetch((const uint8_t *)p + i * (type == HEARTH_KV_F32 ? 4 : 2), 0, 2);
}

// nr query rows against ng groups: nr * ng accumulators, one per 16 scores.
static INLINE void qk_block(const int nr, const int ng, enum hearth_kv_type type, const float *q,
                            uint32_t d, const void *const *k, const void *const *next, float *s) {
    struct v16 acc[V_ROWS][4];
    UNROLL for (int r = 0; r < nr; r++) UNROLL for (int g = 0; g < ng; g++) acc[r][g] =
        v_set1(0.0f);
    for (uint32_t e = 0; e < d; e++) {
        struct v16 kv[4];
        UNROLL for (int g = 0; g < ng; g++) kv[g] = page_load(type, k[g], (size_t)e * HT_LANES);
        if (nr <= PREFETCH_ROWS && (type == HEARTH_KV_F32 || e % 2 == 0)) // a line each
            UNROLL for (int g = 0; g < ng; g++) fetch(type, next[g], (size_t)e * HT_LANES);
        UNROLL for (int r = 0; r < nr; r++) {
            struct v16 qr = v_set1(q[(size_t)e * nr + r]);
            UNROLL for (int g = 0; g < ng; g++) acc[r][g] = v_fma(qr, kv[g], acc[r][g]);
        }
    }
    UNROLL for (int r = 0; r < nr; r++) UNROLL for (int g = 0; g < ng; g++)
        v_store(s + r * HT_TILE + g * HT_LANES, acc[r][g]);
}

static INLINE void qk_rows(const int nr, enum hearth_kv_type type, const float *q, uint32_t d,
                           const void *const *k, const void *const *next, uint32_t g, uint32_t end,
                           float *s) {
    const int most = nr * 4 <= V_ACCS ? 4 : nr * 2 <= V_ACCS ? 2 : 1;
    for (; g + most <= end; g += most)
        qk_block(nr, most, type, q, d, k + g, next + g, s + g * HT_LANES);
    if (most == 4 && g + 2 <= end) {
        qk_block(nr, 2, type, q, d, k + g, next + g, s + g * HT_LANES);
        g += 2;
    }
    for (; g < end; g++) qk_block(nr, 1, type, q, d, k + g, next + g, s + g * HT_LANES);
}

static INLINE void qk(enum hearth_kv_type type, const float *q, uint32_t n_rows, uint32_t d,
                      const void *const *k, const void *const *next, uint32_t begin, uint32_t end,
                      float *s) {
    switch (n_rows) {
    case 1: qk_rows(1, type, q, d, k, next, begin, end, s); break;
    case 2: qk_rows(2, type, q, d, k, next, begin, end, s); break;
    case 3: qk_rows(3, type, q, d, k, next, begin, end, s); break;
    case 4: qk_rows(4, type, q, d, k, next, begin, end, s); break;
    case 5: qk_rows(5, type, q, d, k, next, begin, end, s); break;
    case 6: qk_rows(6, type, q, d, k, next, begin, end, s); break;
    case 7: qk_rows(V_ROWS < 7 ? 1 : 7, type, q, d, k, next, begin, end, s); break;
    case 8: qk_rows(V_ROWS < 8 ? 1 : 8, type, q, d, k, next, begin, end, s); break;
    case 9: qk_rows(V_ROWS < 9 ? 1 : 9, type, q, d, k, next, begin, end, s); break;
    case 10: qk_rows(V_ROWS < 10 ? 1 : 10, type, q, d, k, next, begin, end, s); break;
    case 11: qk_rows(V_ROWS < 11 ? 1 : 11, type, q, d, k, next, begin, end, s); break;
    default: qk_rows(V_ROWS, type, q, d, k, next, begin, end, s); break;
    }
}

static void qk_f16(const float *q, uint32_t n_rows, uint32_t d, const void *const *k,
                   const void *const *next, uint32_t begin, uint32_t end, float *s) {
    qk(HEARTH_KV_F16, q, n_rows, d, k, next, begin, end, s);
}

static void qk_f32(const float *q, uint32_t n_rows, uint32_t d, const void *const *k,
                   const void *const *next, uint32_t begin, uint32_t end, float *s) {
    qk(HEARTH_KV_F32, q, n_rows, d, k, next, begin, end, s);
}

static float softmax(float *s, uint32_t lo, uint32_t hi, float scale_by, float cap,
                     struct ht_attn_state *state) {
    uint32_t first = lo / HT_LANES, end = (hi + HT_LANES - 1) / HT_LANES;
    struct v16 none = v_set1(-INFINITY), max = none, t[HT_TILE_GROUPS];
    for (uint32_t g = first; g < end; g++) {
        t[g] = v_mul(v_load(s + g * HT_LANES), v_set1(scale_by));
        if (cap != 0.0f) t[g] = v_mul(v_set1(cap), vtanh(v_div(t[g], v_set1(cap))));
        uint32_t from = lo > g * HT_LANES ? lo - g * HT_LANES : 0;
        t[g] = v_select_lt(v_iota(), v_set1((float)from), none, t[g]);
        t[g] = v_select_le(v_set1((float)(hi - g * HT_LANES)), v_iota(), none, t[g]);
        max = v_max(t[g], max);
    }
    float m = v_most(max);
    m = m > state->m ? m : state->m;
    struct v16 c = vexp(v_sub(v_set1(state->m), v_set1(m))), sum = v_set1(0.0f);
    for (uint32_t g = first; g < end; g++) {
        struct v16 p = vexp(v_sub(t[g], v_set1(m)));
        v_store(s + g * HT_LANES, p);
        sum = v_add(sum, p);
    }
    v_store(state->l, v_fma(v_load(state->l), c, sum));
    state->m = m;
    return v_first(c);
}

// nr query rows by nv vectors of 16 elements of a V row, from element e on; the last n < 16 of a
// row with an nv of 1.
static INLINE void pv_block(const int nr, const int nv, enum hearth_kv_type type, float *acc,
                            const float *p, const float *c, uint32_t d, const void *const *v,
                            const void *const *next, uint32_t begin, uint32_t end, uint32_t e,
                            uint32_t n) {
    struct v16 sum[V_ROWS][8];
    UNROLL for (int r = 0; r < nr; r++) UNROLL for (int i = 0; i < nv; i++) {
        const float *a = acc + (size_t)r * d + e + i * HT_LANES;
        sum[r][i] = v_mul(n < HT_LANES ? v_load_n(a, n) : v_load(a), v_set1(c[r]));
    }
    for (uint32_t j = begin; j < end;) {
        uint32_t page = j / HT_PAGE_TOKENS, stop = (page + 1) * HT_PAGE_TOKENS;
        size_t at = (size_t)(j % HT_PAGE_TOKENS) * d + e;
        for (stop = stop < end ? stop : end; j < stop; j++, at += d) {
            struct v16 row[8];
            if (nr <= PREFETCH_ROWS)
                UNROLL for (int i = 0; i < nv; i += type == HEARTH_KV_F32 ? 1 : 2)
                    fetch(type, next[page], at + i * HT_LANES);
            UNROLL for (int i = 0; i < nv; i++) row[i] =
                n < HT_LANES ? page_load_n(type, v[page], at, n)
                             : page_load(type, v[page], at + i * HT_LANES);
            UNROLL for (int r = 0; r < nr; r++) {
                struct v16 pr = v_set1(p[r * HT_TILE + j]);
                UNROLL for (int i = 0; i < nv; i++) sum[r][i] = v_fma(pr, row[i], sum[r][i]);
            }
        }
    }
    UNROLL for (int r = 0; r < nr; r++) UNROLL for (int i = 0; i < nv; i++) {
        float *a = acc + (size_t)r * d + e + i * HT_LANES;
        if (nv == 1)
            v_store_n(a, sum[r][i], n);
        else
            v_store(a, sum[r][i]);
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
    for (; e + HT_LANES <= d; e += HT_LANES)
        pv_block(nr, 1, type, acc, p, c, d, v, next, begin, end, e, HT_LANES);
    if (e < d) pv_block(nr, 1, type, acc, p, c, d, v, next, begin, end, e, (d - e) % HT_LANES);
}

static INLINE void pv(enum hearth_kv_type type, float *acc, const float *p, const float *c,
                      uint32_t n_rows, uint32_t d, const void *const *v, const void *const *next,
                      uint32_t begin, uint32_t end) {
    switch (n_rows) {
    case 1: pv_rows(1, type, acc, p, c, d, v, next, begin, end); break;
    case 2: pv_rows(2, type, acc, p, c, d, v, next, begin, end); break;
    case 3: pv_rows(3, type, acc, p, c, d, v, next, begin, end); break;
    case 4: pv_rows(4, type, acc, p, c, d, v, next, begin, end); break;
    case 5: pv_rows(5, type, acc, p, c, d, v, next, begin, end); break;
    case 6: pv_rows(6, type, acc, p, c, d, v, next, begin, end); break;
    case 7: pv_rows(V_ROWS < 7 ? 1 : 7, type, acc, p, c, d, v, next, begin, end); break;
    case 8: pv_rows(V_ROWS < 8 ? 1 : 8, type, acc, p, c, d, v, next, begin, end); break;
    case 9: pv_rows(V_ROWS < 9 ? 1 : 9, type, acc, p, c, d, v, next, begin, end); break;
    case 10: pv_rows(V_ROWS < 10 ? 1 : 10, type, acc, p, c, d, v, next, begin, end); break;
    case 11: pv_rows(V_ROWS < 11 ? 1 : 11, type, acc, p, c, d, v, next, begin, end); break;
    default: pv_rows(V_ROWS, type, acc, p, c, d, v, next, begin, end); break;
    }
}

static void pv_f16(float *acc, const float *p, const float *c, uint32_t n_rows, uint32_t d,
                   const void *const *v, const void *const *next, uint32_t begin, uint32_t end) {
    pv(HEARTH_KV_F16, acc, p, c, n_rows, d, v, next, begin, end);
}

static void pv_f32(float *acc, const float *p, const float *c, uint32_t n_rows, uint32_t d,
                   const void *const *v, const void *const *next, uint32_t begin, uint32_t end) {
    pv(HEARTH_KV_F32, acc, p, c, n_rows, d, v, next, begin, end);
}

void V_INIT(struct ht_vec_kernels *k) {
    k->rms_norm = rms_norm;
    k->layer_norm = layer_norm;
    k->act = act;
    k->act_mul = act_mul;
    k->add = add;
    k->scale = scale;
    k->axpy = axpy;
    k->exp_sub = exp_sub;
    k->rope_halves = rope_halves;
    k->rope_adjacent = rope_adjacent;
    k->k_store[HEARTH_KV_F16] = k_store_f16;
    k->v_store[HEARTH_KV_F16] = v_store_row_f16;
    k->attn_rows = V_ROWS;
    k->attn_qk[HEARTH_KV_F16] = qk_f16;
    k->attn_qk[HEARTH_KV_F32] = qk_f32;
    k->attn_softmax = softmax;
    k->attn_pv[HEARTH_KV_F16] = pv_f16;
    k->attn_pv[HEARTH_KV_F32] = pv_f32;
}
