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
    if (m->n_experts > b->c->max_width) b->c->max_width = m->n_experts;
}

void ht_compile_moe_ffn(struct ht_builder *b, uint32_t i) {
    const struct ht_step *s = &b->p->steps[i];
    const struct ht_weight *gate = &b->p->weights[s->w[0]], *down = &b->p->weights[s->w[2]];
    uint32_t dim = (uint32_t)gate->ne[0], ffn = (uint32_t)gate->ne[1];
    uint32_t n_used = s->u.moe.n_used, n_experts = s->u.moe.n_experts;
    struct ht_cpu_step like = {.n_experts = n_experts, .n_used = n_used, .act = s->u.moe.kind};
    memcpy(like.w, s->w, sizeof like.w);
    ht_builder_need_prepared(b, s->in[0], i, s->layer);
    like.kind = ht_linear_act_kind(gate->format);
    enum ht_act_kind down_kind = ht_linear_act_kind(down->format);
    uint32_t x = b->acts[s->in[0]][like.kind];
    uint32_t ids = b->map[s->in[1]], weights = b->map[s->in[2]];
    uint64_t pairs = (uint64_t)b->c->limits.max_tokens * n_used;
    enum ht_cpu_rows each = ht_builder_rows(b, s->in[0]);
    uint32_t group = ht_builder_tensor(b, HT_CPU_ROWS_ONE, 0,
                                       (2 * pairs + n_experts + 1) * sizeof(uint32_t), false);
    uint32_t rows =
        ht_builder_tensor(b, each, dim, n_used * ht_act_row_bytes(like.kind, dim), false);
    // One token's gate and up; many tokens' are prepared where they are made, piece by piece.
    uint32_t g = ht_builder_tensor(b, HT_CPU_ROWS_ONE, ffn, (uint64_t)n_used * ffn * 4, false);
    uint32_t u = ht_builder_tensor(b, HT_CPU_ROWS_ONE, ffn, (uint64_t)n_used * ffn * 4, false);
    ht_builder_need_piece(b, 2, ffn);
    uint32_t h = ht_builder_tensor(b, each, ffn, n_used * ht_act_row_bytes(down_kind, ffn), true);
    uint32_t d = ht_builder_tensor(b, each, dim, (uint64_t)n_used * dim * 4, false);
    struct ht_cpu_step *m;
    if ((m = moe_step(b, s, HT_CPU_MOE_GROUP, &like))) m->in[0] = ids, m->out[0] = group;
    if ((m = moe_step(b, s, HT_CPU_MOE_GATHER, &like)))
        m->in[0] = x, m->in[1] = group, m->out[0] = rows;
    like.kind = down_kind;
    if ((m = moe_step(b, s, HT_CPU_MOE_UP, &like))) {
        m->in[0] = x, m->in[1] = ids, m->in[2] = group, m->in[3] = rows;
        m->out[0] = g, m->out[1] = u, m->prep = h;
    }
    if ((m = moe_step(b, s, HT_CPU_MOE_PREP, &like))) m->in[0] = ids, m->in[1] = g, m->out[0] = h;
    if ((m = moe_step(b, s, HT_CPU_MOE_DOWN, &like)))
        m->in[0] = h, m->in[1] = ids, m->in[2] = group, m->out[0] = d;
    uint32_t y = ht_builder_give(b, s->out[0]);
    if ((m = moe_step(b, s, HT_CPU_MOE_SUM, &like)))
        m->in[0] = d, m->in[1] = weights, m->in[2] = group, m->out[0] = y;
}
