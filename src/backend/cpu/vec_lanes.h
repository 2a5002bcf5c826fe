// SPDX-License-Identifier: MIT
// The vector kernels written once, over 16 lanes: the lanes of the numeric law, so that each kernel
// is the scalar one, 16 elements at a time, and gives its bits. A level's file defines struct v16
// (one zmm, two ymm, four q registers) and these operations on it, and includes this:
//
//   v_set1 v_iota v_load v_store v_load_n v_store_n (the first n lanes; others 0, or not written)
//   v_load_f16 v_store_f16 v_load_bf16 v_store_bf16 (rounded to nearest even; NaN becomes quiet)
//   v_load_i8 v_store_i8 (whole numbers from -127 to 127)
//   v_add v_sub v_mul v_div
//   v_fma: a * b + c   v_fnma: c - a * b   v_fms: a * b - c
//   v_max: a > b ? a : b   v_min: a < b ? a : b
//   v_select_lt, v_select_le: a < b (a <= b) ? yes : no
//   v_rint  v_neg  v_abs  v_copysign(to, from)   v_scale2: a * 2^n, n whole, |n| <= 128
//   v_scale2_above(a, n, x, limit): x <= limit ? 0 : a * 2^n
//   v_swap: lanes 2i and 2i + 1   v_sum, v_most: j and j + 8, then j + 4, j + 2, j + 1
//   v_sums, v_mosts: the same of n <= HT_ATTN_MAX_ROWS rows of 16; lane r is that of row r
//   and those that vec_i16.h names
//   V_ROWS: query rows a call   V_ACCS: v16s that may be accumulators, at most 24
//   V_INIT: the function's name
//
// No state; any thread.
#include <string.h>

#include "backend/cpu/vec.h"
#include "backend/cpu/vec_i16.h"
#include "backend/cpu/vec_tile.h"

static INLINE struct v16 keep(struct v16 v, uint32_t n) {
    return n >= HT_LANES ? v : v_select_lt(v_iota(), v_set1((float)n), v, v_set1(0.0f));
}

// ---- elementary functions: num.h, lane by lane

// 2^x where x is below 128, or NaN.
static INLINE struct v16 vexp2(struct v16 x) {
    struct v16 n = v_rint(x), r = v_sub(x, n);
    struct v16 q = v_set1(HT_EXP2_C6);
    q = v_fma(q, r, v_set1(HT_EXP2_C5));
    q = v_fma(q, r, v_set1(HT_EXP2_C4));
    q = v_fma(q, r, v_set1(HT_EXP2_C3));
    q = v_fma(q, r, v_set1(HT_EXP2_C2));
    q = v_fma(q, r, v_set1(HT_EXP2_C1));
    q = v_fma(q, r, v_set1(1.0f));
    return v_scale2_above(q, n, x, v_set1(HT_EXP2_MIN));
}

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
    q = v_select_le(x, v_set1(HT_EXP_MIN), v_set1(0.0f), q);
    return v_select_le(v_set1(HT_EXP_MAX), x, v_set1(INFINITY), q);
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

// Heads of the usual sizes stay in registers.
#define WITH_HEAD(n, f, ...)                                                                       \
    switch (n) {                                                                                   \
    case 64: f(4, __VA_ARGS__); return;                                                            \
    case 128: f(8, __VA_ARGS__); return;                                                           \
    default: break;                                                                                \
    }

static INLINE void head_norm(const int nv, const float *x, const float *w, float eps, float *y) {
    struct v16 v[8], sum = v_set1(0.0f);
    UNROLL for (int i = 0; i < nv; i++) {
        v[i] = v_load(x + i * HT_LANES);
        sum = v_fma(v[i], v[i], sum);
    }
    struct v16 r = v_set1(1.0f / sqrtf(v_sum(sum) / (float)(nv * HT_LANES) + eps));
    UNROLL for (int i = 0; i < nv; i++)
        v_store(y + i * HT_LANES, v_mul(v_mul(v[i], r), v_load(w + i * HT_LANES)));
}

static void rms_norm(const float *x, const float *w, uint32_t n, float eps, float *y) {
    WITH_HEAD(n, head_norm, x, w, eps, y)
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

static INLINE void head_halves(const int nv, const float *x, const float *c, const float *s,
                               float *y) {
    const int h = nv / 2 * HT_LANES;
    struct v16 v[8];
    UNROLL for (int i = 0; i < nv; i++) v[i] = v_load(x + i * HT_LANES);
    UNROLL for (int i = 0; i < nv / 2; i++) {
        struct v16 a = v[i], b = v[nv / 2 + i];
        struct v16 ci = v_load(c + i * HT_LANES), si = v_load(s + i * HT_LANES);
        v_store(y + i * HT_LANES, v_fms(a, ci, v_mul(b, si)));
        v_store(y + h + i * HT_LANES, v_fma(b, ci, v_mul(a, si)));
    }
}

static void rope_halves(const float *x, const float *c, const float *s, uint32_t n_rot, float *y) {
    WITH_HEAD(n_rot, head_halves, x, c, s, y)
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

// A block as ht_q8_0_from_f32 has it: codes, and the scale.
static INLINE uint16_t store_block(const float *x, int8_t *codes) {
    struct v16 a = v_load(x), b = v_load(x + HT_LANES);
    float d = v_most(v_max(v_abs(b), v_max(v_abs(a), v_set1(0.0f)))) / 127.0f;
    float inverse = d > 0.0f ? 1.0f / d : 0.0f;
    if (!(inverse < INFINITY)) d = inverse = 0.0f;
    store_codes(codes, v_mul(a, v_set1(inverse)));
    store_codes(codes + HT_LANES, v_mul(b, v_set1(inverse)));
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

// ---- attention

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
            if (e * row_bytes % 64 == 0) // a line each
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
            if (b % 2 == 0) fetch(ht_kv_k_scales(next[g], d, b), 0);
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
        qk_block(nr, most, type, q, n_rows, d, k + g, next + g, s + g * HT_LANES);
    if (most == 4 && g + 2 <= end) {
        qk_block(nr, 2, type, q, n_rows, d, k + g, next + g, s + g * HT_LANES);
        g += 2;
    }
    for (; g < end; g++) qk_block(nr, 1, type, q, n_rows, d, k + g, next + g, s + g * HT_LANES);
}

static INLINE void qk(enum hearth_kv_type type, const float *q, uint32_t n_rows, uint32_t d,
                      const void *const *k, const void *const *next, uint32_t begin, uint32_t end,
                      float *s) {
    for (uint32_t left = n_rows, n; left > 0; left -= n) {
        n = piece(left);
        WITH_PIECE(n, qk_rows, type, q, n_rows, d, k, next, begin, end, s)
        q += n * HT_LANES, s += n * HT_TILE;
    }
}

// The scores of a row, capped if there is a cap, -inf where it does not look; their lanes' maxima.
static INLINE struct v16 cap_scores(float *s, uint32_t lo, uint32_t hi, float scale_by, float cap) {
    struct v16 none = v_set1(-INFINITY), max = none;
    for (uint32_t g = lo / HT_LANES * HT_LANES; g < hi; g += HT_LANES) {
        struct v16 t = v_load(s + g);
        if (cap != 0.0f) t = vtanh(v_div(v_mul(t, v_set1(scale_by)), v_set1(cap)));
        if (lo > g) t = v_select_lt(v_iota(), v_set1((float)(lo - g)), none, t);
        if (hi < g + HT_LANES) t = v_select_le(v_set1((float)(hi - g)), v_iota(), none, t);
        v_store(s + g, t);
        max = v_max(t, max);
    }
    return max;
}

// The same of a row that sees all of its tile, without a cap.
static INLINE struct v16 most_score(const float *s) {
    struct v16 max = v_set1(-INFINITY);
    UNROLL for (int g = 0; g < HT_TILE_GROUPS; g++) max = v_max(v_load(s + g * HT_LANES), max);
    return max;
}

// Scores of groups [begin, end) become weights; their lanes' sums.
static INLINE struct v16 weights(float *s, uint32_t begin, uint32_t end, struct v16 by,
                                 struct v16 max) {
    struct v16 sum = v_set1(0.0f);
    for (uint32_t g = begin; g < end; g++) {
        struct v16 p = vexp2(v_fms(v_load(s + g * HT_LANES), by, max));
        v_store(s + g * HT_LANES, p);
        sum = v_add(sum, p);
    }
    return sum;
}

// All rows' maxima come first, then all their weights: the long chains of operations of one row run
// beside those of the next.
static void softmax(float *s, uint32_t n_rows, const uint32_t *lo, const uint32_t *hi,
                    float scale_by, float cap, float *m, float (*l)[HT_LANES], float *c) {
    _Alignas(64) float most[HT_ATTN_MAX_ROWS][HT_LANES], max[HT_LANES], fall[HT_LANES];
    bool whole = cap == 0.0f;
    for (uint32_t r = 0; r < n_rows; r++) whole &= lo[r] == 0 && hi[r] == HT_TILE;
    uint32_t row = 0;
    do {
        float *at = s + row * HT_TILE;
        struct v16 m_row = whole ? most_score(at) : cap_scores(at, lo[row], hi[row], scale_by, cap);
        v_store(most[row], m_row);
    } while (++row < n_rows);
    struct v16 by = v_set1((cap != 0.0f ? cap : scale_by) * HT_LOG2E), old = v_load_n(m, n_rows);
    struct v16 new = v_max(v_mul(v_mosts(most, n_rows), by), old), c_row = vexp2(v_sub(old, new));
    v_store(max, new), v_store_n(m, new, n_rows);
    v_store(fall, c_row), v_store_n(c, c_row, n_rows);
    for (uint32_t r = 0; r < n_rows; r++, s += HT_TILE) {
        struct v16 sum;
        if (whole) {
            sum = weights(s, 0, HT_TILE_GROUPS, by, v_set1(max[r]));
        } else {
            uint32_t begin = lo[r] / HT_LANES, end = (hi[r] + HT_LANES - 1) / HT_LANES;
            for (uint32_t g = 0; g < HT_TILE_GROUPS; g++)
                if (g < begin || g >= end) v_store(s + g * HT_LANES, v_set1(0.0f));
            sum = weights(s, begin, end, by, v_set1(max[r]));
        }
        v_store(l[r], v_fma(v_load(l[r]), v_set1(fall[r]), sum));
    }
}

static void join(const float *m, const float (*l)[HT_LANES], const float *acc, uint32_t n_rows,
                 uint32_t d, float *all_m, float *all_l, float *sum) {
    float max[HT_LANES], own[HT_LANES], before[HT_LANES], now[HT_LANES];
    struct v16 old = v_load_n(all_m, n_rows), new = v_load_n(m, n_rows), most = v_max(new, old);
    v_store(max, most);
    v_store(own, v_sums(l, n_rows));
    v_store(before, vexp2(v_sub(old, most)));
    v_store(now, vexp2(v_sub(new, most)));
    for (uint32_t r = 0; r < n_rows; r++, acc += d, sum += d) {
        if (own[r] == 0.0f) continue;
        if (all_l[r] == 0.0f) {
            memcpy(sum, acc, d * sizeof *sum);
            all_m[r] = m[r], all_l[r] = own[r];
            continue;
        }
        for (uint32_t e = 0; e < d; e += HT_LANES) {
            struct v16 a = v_mul(v_load_n(sum + e, d - e), v_set1(before[r]));
            v_store_n(sum + e, v_fma(v_set1(now[r]), v_load_n(acc + e, d - e), a), d - e);
        }
        all_m[r] = max[r], all_l[r] = fmaf(own[r], now[r], all_l[r] * before[r]);
    }
}

// Weights for codes: w[(r * nb + b) * HT_TILE + j] = p[r * HT_TILE + j] * scale of V row j in block
// first + b, for the groups of 16 that [begin, end) touches.
static INLINE void scale_weights(const int nr, const int nb, const float *p, uint32_t d,
                                 const void *const *v, const void *const *next, uint32_t begin,
                                 uint32_t end, uint32_t first, float *w) {
    for (uint32_t j = begin / HT_LANES * HT_LANES; j < end; j += HT_LANES)
        UNROLL for (int b = 0; b < nb; b++) {
            uint32_t page = j / HT_PAGE_TOKENS, slot = j % HT_PAGE_TOKENS;
            struct v16 scales = v_load_f16(ht_kv_v_scales(v[page], d, first + (uint32_t)b) + slot);
            fetch(ht_kv_v_scales(next[page], d, first + (uint32_t)b), 0);
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
            UNROLL for (int i = 0; i < nv; i += per_line)
                fetch(next[page], (at + i * HT_LANES) * ht_kv_code_bytes(type));
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
    for (; e + HT_LANES <= d; e += HT_LANES)
        pv_block(nr, 1, type, acc, p, c, d, v, next, begin, end, e, HT_LANES);
    if (e < d) pv_block(nr, 1, type, acc, p, c, d, v, next, begin, end, e, (d - e) % HT_LANES);
}

static INLINE void pv(enum hearth_kv_type type, float *acc, const float *p, const float *c,
                      uint32_t n_rows, uint32_t d, const void *const *v, const void *const *next,
                      uint32_t begin, uint32_t end) {
    for (uint32_t n; n_rows > 0; n_rows -= n) {
        n = piece(n_rows);
        WITH_PIECE(n, pv_rows, type, acc, p, c, d, v, next, begin, end)
        acc += (size_t)n * d, p += n * HT_TILE, c += n;
    }
}

HT_KV_KERNELS(f16, HEARTH_KV_F16)
HT_KV_KERNELS(f32, HEARTH_KV_F32)
HT_KV_KERNELS(bf16, HEARTH_KV_BF16)
HT_KV_KERNELS(q8_0, HEARTH_KV_Q8_0)

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
    k->attn_rows = V_ROWS;
    k->attn_softmax = softmax;
    k->attn_join = join;
    HT_KV_ENTRIES(k, f16, HEARTH_KV_F16);
    HT_KV_ENTRIES(k, f32, HEARTH_KV_F32);
    HT_KV_ENTRIES(k, bf16, HEARTH_KV_BF16);
    HT_KV_ENTRIES(k, q8_0, HEARTH_KV_Q8_0);
    HT_KV_ENTRIES_I16(k);
}
