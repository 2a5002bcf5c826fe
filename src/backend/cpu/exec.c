// SPDX-License-Identifier: MIT
// Steps that work row by row or element by element. Every thread of the team calls
// ht_cpu_run_step for every step, inside the region; each does its share and nothing else
// (schedule.c has made sure that shares of neighbouring steps fit together).
#include <string.h>

#include "backend/cpu/exec.h"

struct range {
    size_t begin, end;
};

static struct range share(const struct ht_prepared *p, size_t n, size_t unit, int thread) {
    struct range r;
    ht_team_share(n, unit, thread, p->c->n_threads, &r.begin, &r.end);
    return r;
}

// An element-wise step's piece: columns of the one row in FEW mode, whole rows otherwise.
struct piece {
    struct range rows, cols;
};

static struct piece piece_of(const struct ht_prepared *p, uint32_t tensor, int thread) {
    uint32_t n = ht_cpu_n_rows(p, tensor), width = p->c->tensors[tensor].width;
    if (p->mode == HT_CPU_FEW) return (struct piece){{0, n}, share(p, width, HT_ROW_GROUP, thread)};
    return (struct piece){share(p, n, 1, thread), {0, width}};
}

static void dequantise_row(const struct ht_prepared *p, uint32_t weight, uint64_t row, float *y) {
    const struct ht_weight *w = &p->c->plan->weights[weight];
    const struct ht_format_info *f = ht_format_get(w->format);
    size_t n_blocks = w->ne[0] / f->block_len;
    f->to_f32(w->data + row * n_blocks * f->block_bytes, y, n_blocks);
    if (w->scale) p->backend->vec.scale(y, *w->scale, (uint32_t)w->ne[0], y);
}

static void run_embed(struct ht_prepared *p, const struct ht_cpu_step *s, int thread) {
    const struct ht_vec_kernels *k = &p->backend->vec;
    uint32_t width = p->c->tensors[s->out[0]].width;
    struct range r = share(p, p->batch->n_tokens, 1, thread);
    if (p->mode == HT_CPU_FEW) r = (struct range){0, thread == 0};
    for (size_t t = r.begin; t < r.end; t++) {
        float *y = ht_cpu_f32(p, s->out[0], thread) + t * width;
        dequantise_row(p, s->w[0], (uint64_t)p->batch->tokens[t], y);
        if (s->scale != 1.0f) k->scale(y, s->scale, width, y);
    }
}

static void run_add_pos(struct ht_prepared *p, const struct ht_cpu_step *s, int thread) {
    uint32_t width = p->c->tensors[s->out[0]].width;
    struct piece d = piece_of(p, s->out[0], thread);
    float *row = ht_cpu_own_row(p, thread);
    for (size_t t = d.rows.begin; t < d.rows.end && d.cols.begin < d.cols.end; t++) {
        size_t at = t * width + d.cols.begin;
        dequantise_row(p, s->w[0], p->batch->pos[t], row);
        p->backend->vec.add(ht_cpu_f32(p, s->in[0], thread) + at, row + d.cols.begin,
                            (uint32_t)(d.cols.end - d.cols.begin),
                            ht_cpu_f32(p, s->out[0], thread) + at);
    }
}

static void run_select(struct ht_prepared *p, const struct ht_cpu_step *s, int thread) {
    uint32_t width = p->c->tensors[s->out[0]].width;
    struct piece d = piece_of(p, s->out[0], thread);
    for (size_t o = d.rows.begin; o < d.rows.end; o++)
        memcpy(ht_cpu_f32(p, s->out[0], thread) + o * width + d.cols.begin,
               ht_cpu_f32(p, s->in[0], thread) + (size_t)p->batch->outputs[o] * width +
                   d.cols.begin,
               (d.cols.end - d.cols.begin) * sizeof(float));
}

static void run_elementwise(struct ht_prepared *p, const struct ht_cpu_step *s, int thread) {
    const struct ht_vec_kernels *k = &p->backend->vec;
    uint32_t width = p->c->tensors[s->out[0]].width;
    struct piece d = piece_of(p, s->out[0], thread);
    uint32_t n = (uint32_t)(d.cols.end - d.cols.begin);
    for (size_t t = d.rows.begin; t < d.rows.end; t++) {
        size_t at = t * width + d.cols.begin;
        const float *a = ht_cpu_f32(p, s->in[0], thread) + at;
        float *y = ht_cpu_f32(p, s->out[0], thread) + at;
        if (s->op == HT_CPU_ACT) {
            k->act(s->act, a, n, y);
            continue;
        }
        const float *b = ht_cpu_f32(p, s->in[1], thread) + at;
        if (s->op == HT_CPU_ADD)
            k->add(a, b, n, y);
        else
            k->act_mul(s->act, a, b, n, y);
    }
}

static void norm_row(const struct ht_prepared *p, const struct ht_cpu_norm *n, const float *x,
                     uint32_t width, float *y) {
    const struct ht_vec_kernels *k = &p->backend->vec;
    const float *w = ht_cpu_vector(p, n->w), *b = ht_cpu_vector(p, n->b);
    if (n->op == HT_OP_LAYER_NORM)
        k->layer_norm(x, w, b, width, n->eps, y);
    else
        k->rms_norm(x, w, width, n->eps, y);
}

static void run_norm(struct ht_prepared *p, const struct ht_cpu_step *s, int thread) {
    uint32_t width = p->c->tensors[s->out[0]].width;
    struct range r = share(p, ht_cpu_n_rows(p, s->out[0]), 1, thread);
    for (size_t t = r.begin; t < r.end; t++)
        norm_row(p, &s->norm, ht_cpu_f32(p, s->in[0], thread) + t * width, width,
                 ht_cpu_f32(p, s->out[0], thread) + t * width);
}

// In FEW mode every thread prepares the one row for itself: cheaper than to wait for another.
static void run_prep(struct ht_prepared *p, const struct ht_cpu_step *s, int thread) {
    uint32_t width = p->c->tensors[s->in[0]].width, n = ht_cpu_n_rows(p, s->in[0]);
    struct range r = p->mode == HT_CPU_FEW ? (struct range){0, n} : share(p, n, 1, thread);
    for (size_t t = r.begin; t < r.end; t++) {
        const float *x = ht_cpu_f32(p, s->in[0], thread) + t * width;
        if (s->norm.op != HT_N_OPS) {
            float *row = ht_cpu_own_row(p, thread);
            norm_row(p, &s->norm, x, width, row);
            x = row;
        }
        for (int k = 0; k < HT_N_ACT_KINDS; k++) {
            if (s->out[k] == HT_NONE) continue;
            uint8_t *y = ht_cpu_rows_at(p, s->out[k], thread);
            ht_act_prepare(p->backend->linear, (enum ht_act_kind)k, x, width,
                           y + t * p->c->tensors[s->out[k]].row_bytes);
        }
    }
}

// cos and sin of each token's position, times its magnitude, once for all layers. Laid out as the
// rope kernels want them: n_rot values of each.
static void run_rope_table(struct ht_prepared *p, const struct ht_cpu_step *s, int thread) {
    const struct ht_rope *rope = &p->c->plan->ropes[s->rope];
    uint32_t n = rope->n_rot, half = n / 2;
    struct range r = share(p, p->batch->n_tokens, 1, thread);
    for (size_t t = r.begin; t < r.end; t++) {
        float *c = ht_cpu_f32(p, s->out[0], thread) + t * 2 * n, *sn = c + n;
        double m = ht_rope_magnitude(rope, p->batch->pos[t]);
        for (uint32_t i = 0; i < half; i++) {
            double sin_x, cos_x;
            ht_sincos((double)p->batch->pos[t] * rope->inv_freq[i], &sin_x, &cos_x);
            float cf = (float)(cos_x * m), sf = (float)(sin_x * m);
            if (s->pairing == HT_ROPE_HALVES) {
                c[i] = cf;
                sn[i] = sf;
            } else {
                c[2 * i] = c[2 * i + 1] = cf;
                sn[2 * i] = -sf;
                sn[2 * i + 1] = sf;
            }
        }
    }
}

void ht_cpu_run_step(struct ht_prepared *p, const struct ht_cpu_step *s, int thread) {
    switch (s->op) {
    case HT_CPU_ROPE_TABLE: run_rope_table(p, s, thread); break;
    case HT_CPU_EMBED: run_embed(p, s, thread); break;
    case HT_CPU_ADD_POS: run_add_pos(p, s, thread); break;
    case HT_CPU_SELECT: run_select(p, s, thread); break;
    case HT_CPU_NORM: run_norm(p, s, thread); break;
    case HT_CPU_PREP: run_prep(p, s, thread); break;
    case HT_CPU_LINEAR: ht_cpu_run_linear(p, s, thread); break;
    case HT_CPU_HEADS: ht_cpu_run_heads(p, s, thread); break;
    case HT_CPU_KV_APPEND: ht_cpu_run_kv_append(p, s, thread); break;
    case HT_CPU_ATTENTION: ht_cpu_run_attention(p, s, thread); break;
    case HT_CPU_ATTN_JOIN: ht_cpu_run_attn_join(p, s, thread); break;
    case HT_CPU_ACT:
    case HT_CPU_ACT_MUL:
    case HT_CPU_ADD: run_elementwise(p, s, thread); break;
    default: ht_cpu_run_moe(p, s, thread); break;
    }
}
