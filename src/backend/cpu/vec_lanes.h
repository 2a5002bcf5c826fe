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
//   v_sums, v_mosts: the same of n <= 16 rows of 16; lane r is that of row r
//   and those that vec_i16.h names
//   V_ROWS: query rows a task   V_ACCS: v16s that may be accumulators, at most 24
//   V_INIT: the function's name
//
// No state; any thread.
#include <string.h>

#include "backend/cpu/vec.h"
#include "backend/cpu/vec_i16.h"
#include "backend/cpu/vec_math.h"
#include "backend/cpu/vec_pages.h"
#include "backend/cpu/vec_softmax.h"

static INLINE struct v16 keep(struct v16 v, uint32_t n) {
    return n >= HT_LANES ? v : v_select_lt(v_iota(), v_set1((float)n), v, v_set1(0.0f));
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
    struct v16 r = v_set1(ht_norm_factor(v_sum(sum), (uint32_t)nv * HT_LANES, eps));
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
    struct v16 r = v_set1(ht_norm_factor(v_sum(sum), n, eps));
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
    struct v16 r = v_set1(ht_norm_factor(v_sum(sum), n, eps));
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
