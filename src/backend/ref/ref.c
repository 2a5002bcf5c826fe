// SPDX-License-Identifier: MIT
// The reference backend: every step kind as its formula in backend.h says it, in plain loops, with
// f32 tensors and sums in double. It is what other backends are measured against, so clarity comes
// before speed. Weights are dequantised a row at a time by their format's reference; activations
// stay exact. One thread; a prepared plan is driven by one caller.
#include "backend/ref/ref_internal.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "backend/num.h"
#include "base/checked.h"
#include "base/mem.h"

struct ht_backend {
    char nothing; // the reference keeps no state of its own
};

// ---- rows

float *ht_ref_row(const struct ht_prepared *r, uint32_t tensor, uint32_t t) {
    float *base = (float *)(void *)(r->scratch + r->offset[tensor]);
    return base + (size_t)t * r->plan->tensors[tensor].width;
}

const float *ht_ref_weight_row(struct ht_prepared *r, uint32_t weight, uint64_t e, uint64_t i) {
    const struct ht_weight *w = &r->plan->weights[weight];
    const struct ht_format_info *f = ht_format_get(w->format);
    uint64_t n_blocks = w->ne[0] / f->block_len;
    uint64_t row = w->n_dims == 3 ? e * w->ne[1] + i : i;
    f->to_f32(w->data + row * n_blocks * f->block_bytes, r->row, n_blocks);
    if (w->scale)
        for (uint64_t k = 0; k < w->ne[0]; k++) r->row[k] *= w->scale[e];
    return r->row;
}

// The elements of an F32 vector, or NULL for HT_NONE.
static const float *vector(const struct ht_prepared *r, uint32_t weight) {
    return weight == HT_NONE ? NULL : (const float *)(const void *)r->plan->weights[weight].data;
}

// ---- steps on single rows

static void embed(struct ht_prepared *r, const struct ht_step *s, const struct ht_batch *b) {
    for (uint32_t t = 0; t < b->n_tokens; t++) {
        const float *w = ht_ref_weight_row(r, s->w[0], 0, (uint64_t)b->tokens[t]);
        float *y = ht_ref_row(r, s->out[0], t);
        for (uint32_t i = 0; i < r->plan->tensors[s->out[0]].width; i++)
            y[i] = w[i] * s->u.embed.scale;
    }
}

static void add_pos(struct ht_prepared *r, const struct ht_step *s, const struct ht_batch *b) {
    for (uint32_t t = 0; t < b->n_tokens; t++) {
        const float *w = ht_ref_weight_row(r, s->w[0], 0, b->pos[t]);
        const float *x = ht_ref_row(r, s->in[0], t);
        float *y = ht_ref_row(r, s->out[0], t);
        for (uint32_t i = 0; i < r->plan->tensors[s->out[0]].width; i++) y[i] = x[i] + w[i];
    }
}

static void select_rows(struct ht_prepared *r, const struct ht_step *s, const struct ht_batch *b) {
    for (uint32_t o = 0; o < b->n_outputs; o++)
        memcpy(ht_ref_row(r, s->out[0], o), ht_ref_row(r, s->in[0], b->outputs[o]),
               r->plan->tensors[s->out[0]].width * sizeof(float));
}

// y = x / sqrt(mean(x^2) + eps) * w
static void rms_norm_row(const float *x, const float *w, float eps, uint32_t n, float *y) {
    double sum = 0;
    for (uint32_t i = 0; i < n; i++) sum += (double)x[i] * (double)x[i];
    double scale = 1 / sqrt(sum / n + (double)eps);
    for (uint32_t i = 0; i < n; i++) y[i] = (float)((double)x[i] * scale * (double)w[i]);
}

// RMS_NORM is one head as wide as the row.
static void rms_norm(struct ht_prepared *r, const struct ht_step *s, uint32_t n_rows) {
    uint32_t width = r->plan->tensors[s->in[0]].width;
    uint32_t head_dim = s->op == HT_OP_HEAD_NORM ? s->u.norm.head_dim : width;
    for (uint32_t t = 0; t < n_rows; t++)
        for (uint32_t h = 0; h < width; h += head_dim)
            rms_norm_row(ht_ref_row(r, s->in[0], t) + h, vector(r, s->w[0]), s->u.norm.eps,
                         head_dim, ht_ref_row(r, s->out[0], t) + h);
}

// y = (x - mean) / sqrt(var + eps) * w (+ b)
static void layer_norm(struct ht_prepared *r, const struct ht_step *s, uint32_t n_rows) {
    uint32_t n = r->plan->tensors[s->in[0]].width;
    const float *w = vector(r, s->w[0]), *bias = vector(r, s->w[1]);
    for (uint32_t t = 0; t < n_rows; t++) {
        const float *x = ht_ref_row(r, s->in[0], t);
        float *y = ht_ref_row(r, s->out[0], t);
        double mean = 0, var = 0;
        for (uint32_t i = 0; i < n; i++) mean += (double)x[i];
        mean /= n;
        for (uint32_t i = 0; i < n; i++) var += ((double)x[i] - mean) * ((double)x[i] - mean);
        double scale = 1 / sqrt(var / n + (double)s->u.norm.eps);
        for (uint32_t i = 0; i < n; i++)
            y[i] = (float)(((double)x[i] - mean) * scale * (double)w[i] +
                           (bias ? (double)bias[i] : 0));
    }
}

// (x_a, x_b) -> (x_a cos - x_b sin, x_a sin + x_b cos) * the magnitude at this position
static void rope_head(const struct ht_rope *rope, enum ht_rope_pairing pairing, uint32_t pos,
                      const float *x, float *y) {
    double m = ht_rope_magnitude(rope, pos);
    for (uint32_t i = 0; i < rope->n_rot / 2; i++) {
        uint32_t a = pairing == HT_ROPE_HALVES ? i : 2 * i;
        uint32_t b = pairing == HT_ROPE_HALVES ? i + rope->n_rot / 2 : 2 * i + 1;
        double sn, cs, xa = (double)x[a], xb = (double)x[b];
        ht_sincos((double)pos * rope->inv_freq[i], &sn, &cs);
        y[a] = (float)((xa * cs - xb * sn) * m);
        y[b] = (float)((xa * sn + xb * cs) * m);
    }
}

static void rope(struct ht_prepared *r, const struct ht_step *s, const struct ht_batch *b) {
    const struct ht_rope *rope = &r->plan->ropes[s->u.rope.rope];
    uint32_t head_dim = s->u.rope.head_dim;
    for (uint32_t t = 0; t < b->n_tokens; t++)
        for (uint32_t h = 0; h < s->u.rope.n_heads; h++) {
            const float *x = ht_ref_row(r, s->in[0], t) + (size_t)h * head_dim;
            float *y = ht_ref_row(r, s->out[0], t) + (size_t)h * head_dim;
            memcpy(y, x, head_dim * sizeof *y);
            rope_head(rope, s->u.rope.pairing, b->pos[t], x, y);
        }
}

float ht_ref_act(enum ht_act kind, float x) {
    switch (kind) {
    case HT_ACT_SILU: return ht_siluf(x);
    case HT_ACT_GELU_TANH: return ht_gelu_tanhf(x);
    case HT_ACT_GELU_ERF: return ht_gelu_erff(x);
    case HT_ACT_RELU2: return x < 0 ? 0 : x * x;
    }
    return NAN;
}

static void element_wise(struct ht_prepared *r, const struct ht_step *s, uint32_t n_rows) {
    uint32_t n = r->plan->tensors[s->out[0]].width;
    for (uint32_t t = 0; t < n_rows; t++) {
        const float *x = ht_ref_row(r, s->in[0], t);
        const float *z = s->n_in > 1 ? ht_ref_row(r, s->in[1], t) : NULL;
        float *y = ht_ref_row(r, s->out[0], t);
        for (uint32_t i = 0; i < n; i++) {
            if (s->op == HT_OP_ADD)
                y[i] = x[i] + z[i];
            else
                y[i] = ht_ref_act(s->u.act.kind, x[i]) * (s->op == HT_OP_ACT_MUL ? z[i] : 1);
        }
    }
}

// Four sums, since a processor adds faster than it can wait for the last sum.
double ht_ref_dot(const float *w, const float *x, uint64_t n) {
    double a = 0, b = 0, c = 0, d = 0;
    uint64_t i = 0;
    for (; i + 4 <= n; i += 4) {
        a += (double)w[i] * (double)x[i];
        b += (double)w[i + 1] * (double)x[i + 1];
        c += (double)w[i + 2] * (double)x[i + 2];
        d += (double)w[i + 3] * (double)x[i + 3];
    }
    for (; i < n; i++) a += (double)w[i] * (double)x[i];
    return (a + b) + (c + d);
}

// y = W x (+ b): a row of W at a time, over all tokens.
void ht_ref_linear(struct ht_prepared *r, const struct ht_step *s, uint32_t n_rows) {
    for (uint32_t k = 0; k < s->n_out; k++) {
        const struct ht_weight *w = &r->plan->weights[s->w[k]];
        const float *bias = vector(r, s->w[3 + k]);
        for (uint64_t o = 0; o < w->ne[1]; o++) {
            const float *row = ht_ref_weight_row(r, s->w[k], 0, o);
            for (uint32_t t = 0; t < n_rows; t++) {
                const float *x = ht_ref_row(r, s->in[0], t);
                double sum = ht_ref_dot(row, x, w->ne[0]) + (bias ? (double)bias[o] : 0);
                ht_ref_row(r, s->out[k], t)[o] = (float)sum;
            }
        }
    }
}

// ---- the table's functions

static enum hearth_status open_backend(const struct ht_backend_options *o, struct ht_backend **out,
                                       struct hearth_error *err) {
    if (o->level)
        return ht_fail(err, HEARTH_E_ARG, "backend ref has no CPU levels, level \"%s\" was given",
                       o->level);
    if (o->n_threads < 0 || o->n_threads > 1)
        return ht_fail(err, HEARTH_E_ARG,
                       "the backend ref runs on the calling thread: 1 thread, or 0, is expected, "
                       "%d were given",
                       o->n_threads);
    if (o->cpu_mask)
        return ht_fail(err, HEARTH_E_UNSUPPORTED,
                       "the backend ref runs on the calling thread and takes no CPU mask");
    struct ht_backend *b = ht_calloc(1, sizeof *b);
    if (!b) return ht_fail_nomem(err, sizeof *b, "the backend");
    *out = b;
    return HEARTH_OK;
}

static void close_backend(struct ht_backend *b) {
    ht_free(b);
}

static const char *describe(const struct ht_backend *b) {
    (void)b;
    return "ref, 1 thread";
}

// Whatever a checked plan holds, the reference can do.
static enum hearth_status supports(const struct ht_backend *b, const struct ht_plan *p,
                                   const struct ht_step *s, struct hearth_error *err) {
    (void)b, (void)p, (void)s, (void)err;
    return HEARTH_OK;
}

static void widest_rows(const struct ht_plan *p, struct ref_sizes *z) {
    z->n_row = p->head_dim;
    for (uint32_t i = 0; i < p->n_weights; i++)
        if (p->weights[i].ne[0] > z->n_row) z->n_row = p->weights[i].ne[0];
    for (uint32_t i = 0; i < p->n_steps; i++) {
        const struct ht_step *s = &p->steps[i];
        if (s->op == HT_OP_MOE_ROUTE && s->u.moe.n_experts > z->n_row)
            z->n_row = s->u.moe.n_experts;
        if (s->op != HT_OP_MOE_FFN) continue;
        if (p->weights[s->w[0]].ne[1] > z->n_ffn) z->n_ffn = p->weights[s->w[0]].ne[1];
        if (p->tensors[s->out[0]].width > z->n_out) z->n_out = p->tensors[s->out[0]].width;
    }
}

static enum hearth_status find_sizes(const struct ht_plan *p, const struct ht_limits *l,
                                     uint64_t *offset, struct ref_sizes *z,
                                     struct hearth_error *err) {
    enum hearth_status st = ht_limits_check(p, l, err);
    if (st) return st;
    if (l->repack)
        return ht_fail(err, HEARTH_E_UNSUPPORTED,
                       "repack: the ref backend reads weights as they lie in the file");
    *z = (struct ref_sizes){0};
    st = ht_plan_bind(p, l->max_tokens, l->max_outputs, NULL, offset, &z->scratch, err);
    if (st) return st;
    widest_rows(p, z);
    uint64_t slots;
    bool ok = ht_mul_u64((uint64_t)p->n_layers * HT_PAGE_TOKENS, l->n_pages, &slots) &&
              ht_mul_u64(2 * ht_kv_row_bytes(l->kv_type, p->head_dim), p->n_kv_heads, &z->kv) &&
              ht_mul_u64(z->kv, slots, &z->kv);
    // Doubles first: scores, values, route, expert_y; then floats: row, hidden. Far below 2^61:
    // widths of tensors.
    uint64_t n = l->max_ctx + p->head_dim + 2 * z->n_row + z->n_ffn + z->n_out;
    ok = ok && ht_mul_u64(n, sizeof(double), &z->work);
    if (!ok || z->kv > SIZE_MAX || z->scratch > SIZE_MAX)
        return ht_fail(err, HEARTH_E_ARG, "%" PRIu32 " pages of KV do not fit 64 bits", l->n_pages);
    return HEARTH_OK;
}

static enum hearth_status memory(const struct ht_backend *b, const struct ht_plan *p,
                                 const struct ht_limits *l, struct ht_backend_memory *out,
                                 struct hearth_error *err) {
    (void)b;
    struct ref_sizes z;
    uint64_t *offset = ht_calloc(p->n_tensors, sizeof *offset);
    if (!offset) return ht_fail_nomem(err, p->n_tensors * sizeof *offset, "the scratch layout");
    enum hearth_status st = find_sizes(p, l, offset, &z, err);
    ht_free(offset);
    if (st) return st;
    *out = (struct ht_backend_memory){
        .kv = z.kv,
        .scratch = z.scratch + z.work,
        .other = sizeof(struct ht_prepared) + p->n_tensors * sizeof *offset,
    };
    return HEARTH_OK;
}

static void release(struct ht_prepared *r) {
    if (!r) return;
    if (r->scratch) ht_pages_free(r->scratch, (size_t)r->sizes.scratch);
    if (r->kv) ht_pages_free(r->kv, (size_t)r->sizes.kv);
    ht_free(r->scores); // the first of the work block
    ht_free(r->offset);
    ht_free(r);
}

static enum hearth_status take_memory(struct ht_prepared *r, struct hearth_error *err) {
    const struct ref_sizes *z = &r->sizes;
    r->scratch = ht_pages_alloc((size_t)z->scratch);
    if (!r->scratch) return ht_fail_nomem(err, (size_t)z->scratch, "scratch");
    r->kv = ht_pages_alloc((size_t)z->kv);
    if (!r->kv) return ht_fail_nomem(err, (size_t)z->kv, "KV pages");
    if (r->limits.prefault &&
        (!ht_pages_touch(r->scratch, (size_t)z->scratch) || !ht_pages_touch(r->kv, (size_t)z->kv)))
        return ht_fail_nomem(err, (size_t)(z->scratch + z->kv), "scratch and KV pages");
    r->scores = ht_calloc(1, (size_t)z->work);
    if (!r->scores) return ht_fail_nomem(err, (size_t)z->work, "work rows");
    r->values = r->scores + r->limits.max_ctx;
    r->route = r->values + r->plan->head_dim;
    r->expert_y = r->route + z->n_row;
    r->row = (float *)(void *)(r->expert_y + z->n_out);
    r->hidden = r->row + z->n_row;
    return HEARTH_OK;
}

static enum hearth_status prepare(struct ht_backend *b, const struct ht_plan *p,
                                  const struct ht_limits *l, struct ht_prepared **out,
                                  struct hearth_error *err) {
    (void)b;
    struct ht_prepared *r = ht_calloc(1, sizeof *r);
    if (!r) return ht_fail_nomem(err, sizeof *r, "the prepared plan");
    r->plan = p;
    r->limits = *l;
    enum hearth_status st;
    r->offset = ht_calloc(p->n_tensors, sizeof *r->offset);
    if (!r->offset) {
        st = ht_fail_nomem(err, p->n_tensors * sizeof *r->offset, "the scratch layout");
        goto fail;
    }
    st = find_sizes(p, l, r->offset, &r->sizes, err);
    if (!st) st = take_memory(r, err);
    if (st) goto fail;
    *out = r;
    return HEARTH_OK;
fail:
    release(r);
    return st;
}

static void run_step(struct ht_prepared *r, const struct ht_step *s, const struct ht_batch *b) {
    enum ht_rows kind = s->n_in > 0 ? r->plan->tensors[s->in[0]].rows : HT_ROWS_TOKENS;
    uint32_t n_rows = kind == HT_ROWS_TOKENS ? b->n_tokens : b->n_outputs;
    switch (s->op) {
    case HT_OP_EMBED: embed(r, s, b); break;
    case HT_OP_ADD_POS: add_pos(r, s, b); break;
    case HT_OP_SELECT: select_rows(r, s, b); break;
    case HT_OP_LINEAR: ht_ref_linear(r, s, n_rows); break;
    case HT_OP_RMS_NORM:
    case HT_OP_HEAD_NORM: rms_norm(r, s, n_rows); break;
    case HT_OP_LAYER_NORM: layer_norm(r, s, n_rows); break;
    case HT_OP_ROPE: rope(r, s, b); break;
    case HT_OP_KV_APPEND: ht_ref_kv_append(r, s, b); break;
    case HT_OP_ATTENTION: ht_ref_attention(r, s, b); break;
    case HT_OP_ACT:
    case HT_OP_ACT_MUL:
    case HT_OP_ADD: element_wise(r, s, n_rows); break;
    case HT_OP_MOE_ROUTE: ht_ref_moe_route(r, s, n_rows); break;
    case HT_OP_MOE_FFN: ht_ref_moe_ffn(r, s, n_rows); break;
    case HT_N_OPS: break;
    }
}

static enum hearth_status execute(struct ht_prepared *r, const struct ht_batch *b,
                                  const float **logits, struct hearth_error *err) {
    enum hearth_status st = ht_batch_check(r->plan, &r->limits, b, err);
    if (st) return st;
    for (uint32_t i = 0; i < r->plan->n_steps; i++) run_step(r, &r->plan->steps[i], b);
    *logits = ht_ref_row(r, r->plan->logits, 0);
    return HEARTH_OK;
}

static struct ht_team *team(struct ht_backend *b) {
    (void)b;
    return NULL;
}

const struct ht_backend_ops ht_backend_ref = {
    .name = "ref",
    .open = open_backend,
    .close = close_backend,
    .describe = describe,
    .supports = supports,
    .memory = memory,
    .prepare = prepare,
    .release = release,
    .execute = execute,
    .team = team,
};
