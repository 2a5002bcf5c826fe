// SPDX-License-Identifier: MIT
// The vector kernels in plain C: the specification that every level repeats bit for bit, and the
// level that runs anywhere. No state; any thread.
#include <string.h>

#include "backend/cpu/vec.h"
#include "quant/format.h"

static void rms_norm(const float *x, const float *w, uint32_t n, float eps, float *y) {
    float r = ht_norm_factor(ht_sum_sq16(x, n), n, eps);
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
    float r = ht_norm_factor(ht_sum16(lane, HT_LANES), n, eps);
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

// ---- KV pages

// A head's codes go to codes[e * step], the scale of block b to scales[b * scale_step].
static void store_q8_0(const float *x, uint32_t d, int8_t *codes, size_t step, uint16_t *scales,
                       size_t scale_step) {
    uint8_t block[2 + HT_KV_BLOCK];
    for (uint32_t e = 0; e < d; e++) {
        if (e % HT_KV_BLOCK == 0) {
            ht_format_get(HT_Q8_0)->from_f32(x + e, block, 1);
            memcpy(scales + e / HT_KV_BLOCK * scale_step, block, 2);
        }
        codes[e * step] = (int8_t)block[2 + e % HT_KV_BLOCK];
    }
}

static void store(enum hearth_kv_type type, const float *x, uint32_t d, void *page, size_t at,
                  size_t step) {
    for (uint32_t e = 0; e < d; e++, at += step) {
        if (type == HEARTH_KV_F32)
            ((float *)page)[at] = x[e];
        else
            ((uint16_t *)page)[at] =
                type == HEARTH_KV_F16 ? ht_f32_to_f16(x[e]) : ht_f32_to_bf16(x[e]);
    }
}

static void append_k_i16(const float *k, uint32_t d, uint32_t slot, void *group) {
    int16_t code[HT_I16_MAX_DIM], *to = (int16_t *)group + 2 * slot;
    ht_i16_k_steps(group, d)[slot] = ht_i16_from_f32(k, d, code);
    for (uint32_t e = 0; e < d; e++) to[e / 2 * 2 * HT_LANES + e % 2] = code[e];
}

static void group_k_i16(const float *k, uint32_t d, void *group) {
    for (uint32_t i = 0; i < HT_LANES; i++, k += d) append_k_i16(k, d, i, group);
}

static const void *turn_k_i16(const void *group, uint32_t d, uint32_t n, void *to) {
    if (!ht_i16_in_rows(group, d)) return group;
    float *steps = ht_i16_k_steps(to, d);
    for (uint32_t i = 0; i < n; i++) {
        const int16_t *row = (const int16_t *)group + (size_t)i * d;
        int16_t *column = (int16_t *)to + 2 * i;
        for (uint32_t e = 0; e < d; e++) column[e / 2 * 2 * HT_LANES + e % 2] = row[e];
        steps[i] = fabsf(ht_i16_k_steps(group, d)[i]);
    }
    return to;
}

static void row_k_i16(const float *k, uint32_t d, uint32_t slot, void *group) {
    float all[HT_LANES * (HT_I16_MAX_DIM / 2 + 1)];
    if (slot > 0 && !ht_i16_in_rows(group, d)) {
        append_k_i16(k, d, slot, group);
        return;
    }
    float step = ht_i16_from_f32(k, d, (int16_t *)group + (size_t)slot * d);
    ht_i16_k_steps(group, d)[slot] = slot == 0 ? copysignf(step, -1.0f) : step;
    if (slot < HT_LANES - 1) return;
    memcpy(all, group, HT_LANES * ht_kv_row_bytes(HEARTH_KV_I16, d));
    turn_k_i16(all, d, slot + 1, group);
}

static void append_v_i16(const float *v, uint32_t d, uint32_t slot, void *page) {
    int16_t code[HT_I16_MAX_DIM], *to = (int16_t *)page + (size_t)(slot / 2) * 2 * d + slot % 2;
    ht_i16_v_steps(page, d)[slot] = ht_i16_from_f32(v, d, code);
    for (uint32_t e = 0; e < d; e++) to[2 * e] = code[e];
}

static void group_v_i16(const float *v, uint32_t d, uint32_t slot, void *page) {
    for (uint32_t i = 0; i < HT_LANES; i++, v += d) append_v_i16(v, d, slot + i, page);
}

static inline void k_append(enum hearth_kv_type type, const float *k, uint32_t d, uint32_t slot,
                            void *group) {
    if (type == HEARTH_KV_Q8_0)
        store_q8_0(k, d, (int8_t *)group + slot, HT_LANES,
                   (uint16_t *)ht_kv_k_scales(group, d, 0) + slot, HT_LANES);
    else
        store(type, k, d, group, slot, HT_LANES);
}

static inline void v_append(enum hearth_kv_type type, const float *v, uint32_t d, uint32_t slot,
                            void *page) {
    if (type == HEARTH_KV_Q8_0)
        store_q8_0(v, d, (int8_t *)page + (size_t)slot * d, 1,
                   (uint16_t *)ht_kv_v_scales(page, d, 0) + slot, HT_PAGE_TOKENS);
    else
        store(type, v, d, page, (size_t)slot * d, 1);
}

// Element i of a page piece, whichever type it has; of q8_0 the code.
static inline float element(const void *p, size_t i, enum hearth_kv_type type) {
    switch (type) {
    case HEARTH_KV_F16: return ht_f16_to_f32(((const uint16_t *)p)[i]);
    case HEARTH_KV_F32: return ((const float *)p)[i];
    case HEARTH_KV_BF16: return ht_bf16_to_f32(((const uint16_t *)p)[i]);
    case HEARTH_KV_Q8_0:
    case HEARTH_KV_I16: break; // not a page of numbers: never asked for
    }
    return (float)((const int8_t *)p)[i];
}

// ---- attention

static void q_load(const float *q, uint32_t d, uint32_t n_rows, uint32_t r, void *to) {
    float *at = (float *)to + r * HT_LANES;
    for (uint32_t e = 0; e < d; e += HT_LANES, at += n_rows * HT_LANES)
        memcpy(at, q + e, (d - e < HT_LANES ? d - e : HT_LANES) * sizeof *at);
}

static void q_load_i16(const float *q, uint32_t d, uint32_t n_rows, uint32_t r, void *to) {
    int16_t code[HT_I16_MAX_DIM], *at = (int16_t *)to + r * HT_I16_CHUNK;
    ht_i16_q_steps(to, d, n_rows)[r] = ht_i16_from_f32(q, d, code);
    for (uint32_t e = 0; e < d; e++)
        at[e / HT_I16_CHUNK * HT_I16_CHUNK * n_rows + e % HT_I16_CHUNK] = code[e];
}

static inline void qk(enum hearth_kv_type type, const float *q, uint32_t n_rows, uint32_t d,
                      const void *const *k, const void *const *next, uint32_t g_begin,
                      uint32_t g_end, float *s) {
    uint32_t block = type == HEARTH_KV_Q8_0 ? HT_KV_BLOCK : d;
    (void)next;
    for (uint32_t g = g_begin; g < g_end; g++)
        for (uint32_t r = 0; r < n_rows; r++) {
            float *out = s + r * HT_TILE + g * HT_LANES, sum[HT_LANES];
            memset(out, 0, HT_LANES * sizeof *out);
            for (uint32_t b = 0; b < d / block; b++) {
                memset(sum, 0, sizeof sum);
                for (uint32_t e = b * block; e < (b + 1) * block; e++)
                    for (uint32_t j = 0; j < HT_LANES; j++)
                        sum[j] = fmaf(q[(e - e % HT_LANES) * n_rows + r * HT_LANES + e % HT_LANES],
                                      element(k[g], e * HT_LANES + j, type), sum[j]);
                for (uint32_t j = 0; j < HT_LANES; j++)
                    out[j] =
                        type == HEARTH_KV_Q8_0
                            ? fmaf(sum[j], ht_f16_to_f32(ht_kv_k_scales(k[g], d, b)[j]), out[j])
                            : sum[j];
            }
        }
}

static void qk_i16(const void *rows, uint32_t n_rows, uint32_t d, const void *const *k,
                   const void *const *next, uint32_t g_begin, uint32_t g_end, float *s) {
    const float *steps = ht_i16_q_steps(rows, d, n_rows);
    (void)next;
    for (uint32_t g = g_begin; g < g_end; g++)
        for (uint32_t r = 0; r < n_rows; r++)
            for (uint32_t j = 0; j < HT_LANES; j++) {
                const int16_t *q = (const int16_t *)rows + r * HT_I16_CHUNK;
                const int16_t *code = (const int16_t *)k[g] + 2 * j;
                int32_t sum = 0;
                for (uint32_t e = 0; e < d; e++)
                    sum += q[e / HT_I16_CHUNK * HT_I16_CHUNK * n_rows + e % HT_I16_CHUNK] *
                           code[e / 2 * 2 * HT_LANES + e % 2];
                s[r * HT_TILE + g * HT_LANES + j] =
                    ((float)sum * ht_i16_k_steps(k[g], d)[j]) * steps[r];
            }
}

static float softmax_row(float *s, uint32_t lo, uint32_t hi, float scale_by, float cap, float *m,
                         float *l) {
    float most = -INFINITY, sum[HT_LANES] = {0}, by = (cap != 0.0f ? cap : scale_by) * HT_LOG2E;
    for (uint32_t j = lo; j < hi; j++) {
        if (cap != 0.0f) s[j] = ht_tanhf(s[j] * scale_by / cap);
        most = s[j] > most ? s[j] : most;
    }
    float max = most * by > *m ? most * by : *m;
    bool sane = fabsf(max) < HT_SCORE_LIMIT;
    float c = sane ? ht_exp2f(*m - max) : NAN;
    *m = sane ? max : NAN;
    if (!sane) max = INFINITY; // weights are 0
    for (uint32_t j = 0; j < HT_TILE; j++) {
        s[j] = j >= lo && j < hi ? ht_exp2f(fmaf(s[j], by, -max)) : 0.0f;
        sum[j % HT_LANES] = sum[j % HT_LANES] + s[j];
    }
    for (uint32_t j = 0; j < HT_LANES; j++) l[j] = fmaf(l[j], c, sum[j]);
    return c;
}

static void softmax(float *s, uint32_t n_rows, const uint32_t *lo, const uint32_t *hi,
                    float scale_by, float cap, float *m, float (*l)[HT_LANES], float *c) {
    for (uint32_t r = 0; r < n_rows; r++)
        c[r] = softmax_row(s + r * HT_TILE, lo[r], hi[r], scale_by, cap, &m[r], l[r]);
}

static void join(const float *m, const float (*l)[HT_LANES], const float *acc, uint32_t n_rows,
                 uint32_t d, float *all_m, float *all_l, float *sum) {
    for (uint32_t r = 0; r < n_rows; r++, acc += d, sum += d) {
        float own = ht_sum16(l[r], HT_LANES), max = m[r] > all_m[r] ? m[r] : all_m[r];
        float before = ht_exp2f(all_m[r] - max), now = ht_exp2f(m[r] - max);
        if (own == 0.0f) continue;
        bool first = all_l[r] == 0.0f;
        for (uint32_t e = 0; e < d; e++)
            sum[e] = first ? acc[e] : fmaf(now, acc[e], sum[e] * before);
        all_m[r] = first ? m[r] : max;
        all_l[r] = first ? own : fmaf(own, now, all_l[r] * before);
    }
}

static inline void pv(enum hearth_kv_type type, float *acc, const float *p, const float *c,
                      uint32_t n_rows, uint32_t d, const void *const *v, const void *const *next,
                      uint32_t j_begin, uint32_t j_end) {
    (void)next;
    for (uint32_t r = 0; r < n_rows; r++)
        for (uint32_t e = 0; e < d; e++) {
            float sum = acc[(size_t)r * d + e] * c[r];
            for (uint32_t j = j_begin; j < j_end; j++) {
                const void *page = v[j / HT_PAGE_TOKENS];
                uint32_t slot = j % HT_PAGE_TOKENS;
                float w = p[r * HT_TILE + j];
                if (type == HEARTH_KV_Q8_0)
                    w = w * ht_f16_to_f32(ht_kv_v_scales(page, d, e / HT_KV_BLOCK)[slot]);
                sum = fmaf(w, element(page, (size_t)slot * d + e, type), sum);
            }
            acc[(size_t)r * d + e] = sum;
        }
}

// A row's weights as whole numbers; returns their step.
static float weight_codes(const float *p, const void *const *v, uint32_t d, uint32_t begin,
                          uint32_t end, int16_t *code) {
    float w[HT_TILE] = {0}, inverse;
    for (uint32_t j = begin; j < end; j++)
        if (p[j] > 0.0f) w[j] = p[j] * ht_i16_v_steps(v[j / HT_PAGE_TOKENS], d)[j % HT_PAGE_TOKENS];
    float step = ht_i16_weight_step(ht_sum16(w, HT_TILE), ht_max16(w, HT_TILE), &inverse);
    for (uint32_t j = begin; j < end; j++)
        code[j] = inverse > 0.0f ? (int16_t)ht_rint_small(w[j] * inverse) : 0;
    return step;
}

static void pv_i16(float *acc, const float *p, const float *c, uint32_t n_kv, uint32_t n_rows,
                   uint32_t d, const void *const *v, const void *const *next, uint32_t j_begin,
                   uint32_t j_end) {
    (void)next;
    for (uint32_t r = 0; r < n_kv * n_rows; r++, acc += d) {
        int16_t code[HT_TILE];
        if (r > 0 && r % n_rows == 0) v += HT_TILE_PAGES;
        float step = weight_codes(p + r * HT_TILE, v, d, j_begin, j_end, code);
        for (uint32_t e = 0; e < d; e++) {
            int32_t sum = 0;
            for (uint32_t j = j_begin; j < j_end; j++) {
                uint32_t slot = j % HT_PAGE_TOKENS;
                const int16_t *pair = (const int16_t *)v[j / HT_PAGE_TOKENS] + slot / 2 * 2 * d;
                sum += code[j] * pair[2 * e + slot % 2];
            }
            acc[e] = fmaf((float)sum, step, acc[e] * c[r]);
        }
    }
}

HT_KV_KERNELS(f16, HEARTH_KV_F16)
HT_KV_KERNELS(f32, HEARTH_KV_F32)
HT_KV_KERNELS(bf16, HEARTH_KV_BF16)
HT_KV_KERNELS(q8_0, HEARTH_KV_Q8_0)

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
        .attn_rows = 4,
        .attn_softmax = softmax,
        .attn_join = join,
        .q_load[HEARTH_KV_I16] = q_load_i16,
        .k_store[HEARTH_KV_I16] = append_k_i16,
        .k_group[HEARTH_KV_I16] = group_k_i16,
        .k_row[HEARTH_KV_I16] = row_k_i16,
        .k_turn[HEARTH_KV_I16] = turn_k_i16,
        .v_store[HEARTH_KV_I16] = append_v_i16,
        .v_group[HEARTH_KV_I16] = group_v_i16,
        .attn_qk[HEARTH_KV_I16] = qk_i16,
        .attn_pv[HEARTH_KV_I16] = pv_i16,
    };
    HT_KV_ENTRIES(k, f16, HEARTH_KV_F16);
    HT_KV_ENTRIES(k, f32, HEARTH_KV_F32);
    HT_KV_ENTRIES(k, bf16, HEARTH_KV_BF16);
    HT_KV_ENTRIES(k, q8_0, HEARTH_KV_Q8_0);
}
