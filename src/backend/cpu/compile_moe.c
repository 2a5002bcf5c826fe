// SPDX-License-Identifier: MIT
// Experts, on their way from a plan to cpu steps: a router, and a feed-forward network of six steps
// over rows that are grouped by expert.
#include <string.h>

#include "backend/cpu/compile.h"

static struct ht_cpu_step *moe_step(struct ht_builder *b, const struct ht_step *s,
                                    enum ht_cpu_op op, const struct ht_cpu_step *like) {
    struct ht_cpu_step *m = ht_builder_step(b, op, s->layer);
    if (!m) return NULL;
    m->n_experts = like->n_experts;
    m->n_used = like->n_used;
    m->act = like->act;
    m->kind = like->kind;
    memcpy(m->w, like->w, sizeof m->w);
    return m;
}

void ht_compile_moe_route(struct ht_builder *b, const struct ht_step *s) {
    uint32_t n_used = s->u.moe.n_used;
    for (int k = 0; k < 2; k++)
        b->map[s->out[k]] =
            ht_builder_tensor(b, ht_builder_rows(b, s->in[0]), n_used, (uint64_t)n_used * 4, true);
    struct ht_cpu_step *m = ht_builder_step(b, HT_CPU_MOE_ROUTE, s->layer);
    if (!m) return;
    m->in[0] = b->map[s->in[0]];
    m->out[0] = b->map[s->out[0]];
    m->out[1] = b->map[s->out[1]];
    m->n_experts = s->u.moe.n_experts;
    m->n_used = n_used;
    m->normalise = s->u.moe.normalise;
    m->scale = s->u.moe.scale;
}

// The prepared rows that gate and up read, and the steps that stand them together by expert.
static void gather(struct ht_builder *b, const struct ht_step *s, const struct ht_cpu_step *like,
                   uint32_t group, uint32_t x[2], uint32_t rows[2]) {
    for (int k = 0; k < 2; k++) {
        const struct ht_weight *w = &b->p->weights[s->w[k]];
        enum ht_act_kind kind = ht_linear_act_kind(w->format);
        uint64_t row_bytes = like->n_used * ht_act_row_bytes(kind, (uint32_t)w->ne[0]);
        x[k] = b->acts[s->in[0]][kind];
        if (k == 1 && x[1] == x[0]) {
            rows[1] = rows[0];
            break;
        }
        rows[k] = ht_builder_tensor(b, ht_builder_rows(b, s->in[0]), (uint32_t)w->ne[0], row_bytes,
                                    false);
        struct ht_cpu_step *m = moe_step(b, s, HT_CPU_MOE_GATHER, like);
        if (m) m->in[0] = x[k], m->in[1] = group, m->out[0] = rows[k];
    }
}

void ht_compile_moe_ffn(struct ht_builder *b, uint32_t i) {
    const struct ht_step *s = &b->p->steps[i];
    const struct ht_weight *gate = &b->p->weights[s->w[0]], *down = &b->p->weights[s->w[2]];
    uint32_t ffn = (uint32_t)gate->ne[1], dim = (uint32_t)down->ne[1];
    uint32_t n_used = s->u.moe.n_used, n_experts = s->u.moe.n_experts;
    struct ht_cpu_step like = {.n_experts = n_experts, .n_used = n_used, .act = s->u.moe.kind};
    memcpy(like.w, s->w, sizeof like.w);
    ht_builder_need_prepared(b, s->in[0], i, s->layer);
    like.kind = ht_linear_act_kind(down->format);
    uint32_t ids = b->map[s->in[1]], weights = b->map[s->in[2]];
    uint64_t pairs = (uint64_t)b->c->limits.max_tokens * n_used;
    enum ht_cpu_rows each = ht_builder_rows(b, s->in[0]);
    uint32_t group = ht_builder_tensor(b, HT_CPU_ROWS_ONE, 0,
                                       (2 * pairs + n_experts + 1) * sizeof(uint32_t), false);
    // One token's gate and up; many tokens' are prepared where they are made, piece by piece.
    uint32_t g = ht_builder_tensor(b, HT_CPU_ROWS_ONE, ffn, (uint64_t)n_used * ffn * 4, false);
    uint32_t u = ht_builder_tensor(b, HT_CPU_ROWS_ONE, ffn, (uint64_t)n_used * ffn * 4, false);
    ht_builder_need_piece(b, 2, ffn);
    uint32_t h = ht_builder_tensor(b, each, ffn, n_used * ht_act_row_bytes(like.kind, ffn), true);
    uint32_t d = ht_builder_tensor(b, each, dim, (uint64_t)n_used * dim * 4, false);
    struct ht_cpu_step *m;
    if ((m = moe_step(b, s, HT_CPU_MOE_GROUP, &like))) m->in[0] = ids, m->out[0] = group;
    uint32_t x[2], rows[2]; // gate's and up's, which may want activations of two kinds
    gather(b, s, &like, group, x, rows);
    if ((m = moe_step(b, s, HT_CPU_MOE_UP, &like))) {
        m->in[0] = x[0], m->in[1] = x[1], m->in[2] = rows[0], m->in[3] = rows[1];
        m->in[4] = ids, m->in[5] = group;
        m->out[0] = g, m->out[1] = u, m->prep = h;
    }
    if ((m = moe_step(b, s, HT_CPU_MOE_PREP, &like))) m->in[0] = ids, m->in[1] = g, m->out[0] = h;
    if ((m = moe_step(b, s, HT_CPU_MOE_DOWN, &like)))
        m->in[0] = h, m->in[1] = ids, m->in[2] = group, m->out[0] = d;
    uint32_t y = ht_builder_give(b, s->out[0]);
    if ((m = moe_step(b, s, HT_CPU_MOE_SUM, &like)))
        m->in[0] = d, m->in[1] = weights, m->in[2] = group, m->out[0] = y;
}
