// SPDX-License-Identifier: MIT
// The vector kernels in plain C: the specification that every level repeats bit for bit, and the
// level that runs anywhere. No state; any thread.
#include <string.h>

#include "backend/cpu/vec.h"
#include "quant/format.h"

static void rms_norm(const float *x, const float *w, uint32_t n, float eps, float *y) {
    float r = 1.0f / sqrtf(ht_sum_sq16(x, n) / (float)n + eps);
    for (uint32_t i = 0; i < n; i++) y[i] = (x[i] * r) * w[i];
}

static void layer_norm(const float *x, const float *w, const float *b, uint32_t n, float eps,
                       float *y) {
    float mean = ht_sum16(x, n) / (float)n;
    float lane[HT_LANES] = {0};
    for (uint32_t i = 0; i < n; i++) {
        float d = x[i] - mean;
        lane[i % HT_LANES] = fmaf(d, d, lane[i % HT_LANES]);
    }
    float r = 1.0f / sqrtf(ht_sum16(lane, HT_LANES) / (float)n + eps);
    for (uint32_t i = 0; i < n; i++) {
        float d = (x[i] - mean) * r;
        y[i] = b ? fmaf(d, w[i], b[i]) : d * w[i];
    }
}

static void act(enum ht_act kind, const float *x, uint32_t n, float *y) {
    for (uint32_t i = 0; i < n; i++) y[i] = ht_act_value(kind, x[i]);
}

static void act_mul(enum ht_act kind, const float *gate, const float *up, uint32_t n, float *y) {
    for (uint32_t i = 0; i < n; i++) y[i] = ht_act_value(kind, gate[i]) * up[i];
}

static void add(const float *a, const float *b, uint32_t n, float *y) {
    for (uint32_t i = 0; i < n; i++) y[i] = a[i] + b[i];
}

static void scale(const float *x, float s, uint32_t n, float *y) {
    for (uint32_t i = 0; i < n; i++) y[i] = x[i] * s;
}

static void axpy(float a, const float *x, uint32_t n, float *y) {
    for (uint32_t i = 0; i < n; i++) y[i] = fmaf(a, x[i], y[i]);
}

static void exp_sub(const float *x, float m, uint32_t n, float *y) {
    for (uint32_t i = 0; i < n; i++) y[i] = ht_expf(x[i] - m);
}

static void rope_halves(const float *x, const float *c, const float *s, uint32_t n_rot, float *y) {
    uint32_t h = n_rot / 2;
    for (uint32_t i = 0; i < h; i++) {
        float a = x[i], b = x[i + h];
        y[i] = fmaf(a, c[i], b * -s[i]);
        y[i + h] = fmaf(b, c[i], a * s[i]);
    }
}

static void rope_adjacent(const float *x, const float *c, const float *s, uint32_t n_rot,
                          float *y) {
    for (uint32_t i = 0; i < n_rot; i += 2) {
        float a = x[i], b = x[i + 1];
        y[i] = fmaf(a, c[i], b * s[i]);
        y[i + 1] = fmaf(b, c[i + 1], a * s[i + 1]);
    }
}

static void k_store_f16(const float *k, uint32_t d, uint32_t slot, void *group) {
    uint16_t *g = group;
    for (uint32_t e = 0; e < d; e++) g[e * HT_LANES + slot] = ht_f32_to_f16(k[e]);
}

static void k_store_f32(const float *k, uint32_t d, uint32_t slot, void *group) {
    float *g = group;
    for (uint32_t e = 0; e < d; e++) g[e * HT_LANES + slot] = k[e];
}

static void v_store_f16(const float *v, uint32_t d, void *row) {
    uint16_t *r = row;
    for (uint32_t e = 0; e < d; e++) r[e] = ht_f32_to_f16(v[e]);
}

static void v_store_f32(const float *v, uint32_t d, void *row) {
    memcpy(row, v, d * sizeof *v);
}

// Element i of a page piece, whichever type it has.
static inline float element(const void *p, size_t i, enum hearth_kv_type type) {
    return type == HEARTH_KV_F16 ? ht_f16_to_f32(((const uint16_t *)p)[i]) : ((const float *)p)[i];
}

static inline void qk(const float *q, uint32_t n_rows, uint32_t d, const void *const *k,
                      uint32_t g_begin, uint32_t g_end, float *s, enum hearth_kv_type type) {
    for (uint32_t g = g_begin; g < g_end; g++)
        for (uint32_t r = 0; r < n_rows; r++) {
            float *out = s + r * HT_TILE + g * HT_LANES;
            memset(out, 0, HT_LANES * sizeof *out);
            for (uint32_t e = 0; e < d; e++)
                for (uint32_t j = 0; j < HT_LANES; j++)
                    out[j] = fmaf(q[e * n_rows + r], element(k[g], e * HT_LANES + j, type), out[j]);
        }
}

static void qk_f16(const float *q, uint32_t n_rows, uint32_t d, const void *const *k,
                   const void *const *next, uint32_t g_begin, uint32_t g_end, float *s) {
    (void)next;
    qk(q, n_rows, d, k, g_begin, g_end, s, HEARTH_KV_F16);
}

static void qk_f32(const float *q, uint32_t n_rows, uint32_t d, const void *const *k,
                   const void *const *next, uint32_t g_begin, uint32_t g_end, float *s) {
    (void)next;
    qk(q, n_rows, d, k, g_begin, g_end, s, HEARTH_KV_F32);
}

static float softmax(float *s, uint32_t lo, uint32_t hi, float scale_by, float cap,
                     struct ht_attn_state *state) {
    float max = state->m, sum[HT_LANES] = {0};
    for (uint32_t j = lo; j < hi; j++) {
        s[j] = s[j] * scale_by;
        if (cap != 0.0f) s[j] = cap * ht_tanhf(s[j] / cap);
        max = s[j] > max ? s[j] : max;
    }
    float c = ht_expf(state->m - max);
    for (uint32_t j = lo / HT_LANES * HT_LANES; j < hi || j % HT_LANES != 0; j++) {
        s[j] = j >= lo && j < hi ? ht_expf(s[j] - max) : 0.0f;
        sum[j % HT_LANES] = sum[j % HT_LANES] + s[j];
    }
    for (uint32_t j = 0; j < HT_LANES; j++) state->l[j] = fmaf(state->l[j], c, sum[j]);
    state->m = max;
    return c;
}

static inline void pv(float *acc, const float *p, const float *c, uint32_t n_rows, uint32_t d,
                      const void *const *v, uint32_t j_begin, uint32_t j_end,
                      enum hearth_kv_type type) {
    for (uint32_t r = 0; r < n_rows; r++)
        for (uint32_t e = 0; e < d; e++) {
            float sum = acc[(size_t)r * d + e] * c[r];
            for (uint32_t j = j_begin; j < j_end; j++) {
                size_t i = (size_t)(j % HT_PAGE_TOKENS) * d + e;
                sum = fmaf(p[r * HT_TILE + j], element(v[j / HT_PAGE_TOKENS], i, type), sum);
            }
            acc[(size_t)r * d + e] = sum;
        }
}

static void pv_f16(float *acc, const float *p, const float *c, uint32_t n_rows, uint32_t d,
                   const void *const *v, const void *const *next, uint32_t j_begin,
                   uint32_t j_end) {
    (void)next;
    pv(acc, p, c, n_rows, d, v, j_begin, j_end, HEARTH_KV_F16);
}

static void pv_f32(float *acc, const float *p, const float *c, uint32_t n_rows, uint32_t d,
                   const void *const *v, const void *const *next, uint32_t j_begin,
                   uint32_t j_end) {
    (void)next;
    pv(acc, p, c, n_rows, d, v, j_begin, j_end, HEARTH_KV_F32);
}

void ht_vec_init_scalar(struct ht_vec_kernels *k) {
    *k = (struct ht_vec_kernels){
        .rms_norm = rms_norm,
        .layer_norm = layer_norm,
        .act = act,
        .act_mul = act_mul,
        .add = add,
        .scale = scale,
        .axpy = axpy,
        .exp_sub = exp_sub,
        .rope_halves = rope_halves,
        .rope_adjacent = rope_adjacent,
        .k_store = {[HEARTH_KV_F16] = k_store_f16, [HEARTH_KV_F32] = k_store_f32},
        .v_store = {[HEARTH_KV_F16] = v_store_f16, [HEARTH_KV_F32] = v_store_f32},
        .attn_rows = 4,
        .attn_qk = {[HEARTH_KV_F16] = qk_f16, [HEARTH_KV_F32] = qk_f32},
        .attn_softmax = softmax,
        .attn_pv = {[HEARTH_KV_F16] = pv_f16, [HEARTH_KV_F32] = pv_f32},
    };
}
