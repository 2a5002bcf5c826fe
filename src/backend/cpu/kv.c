// SPDX-License-Identifier: MIT
// KV pages in the attention kernels' layout (vec.h has the picture): one block, [page][layer][KV
// head]{K, V}, so that positions that nobody uses lie together and take no memory. Pages come
// zeroed from the system and are never cleared: what a page held before is never looked at, since
// attention reads written positions only. A page piece is written by the thread that owns its
// step's share, inside the region.
#include "backend/cpu/exec.h"

uint8_t *ht_kv_head(const struct ht_prepared *p, uint32_t layer, uint32_t page, uint32_t head) {
    const struct ht_compiled *c = p->c;
    uint64_t head_bytes = c->kv_page_bytes / c->plan->n_kv_heads;
    return p->kv + ((uint64_t)page * c->plan->n_layers + layer) * c->kv_page_bytes +
           head * head_bytes;
}

// Where a token's K and V of a head go: the group of positions, and the page's V.
struct place {
    uint8_t *k, *v;
    uint32_t slot; // in the page
};

static struct place place_of(const struct ht_prepared *p, const struct ht_cpu_step *s, size_t t,
                             size_t h) {
    const struct ht_batch *b = p->batch;
    uint32_t pos = b->pos[t], slot = pos % HT_PAGE_TOKENS;
    uint32_t page = b->seqs[b->seq[t]].pages[pos / HT_PAGE_TOKENS];
    uint8_t *at = ht_kv_head(p, s->layer, page, (uint32_t)h);
    size_t row = p->c->kv_row_bytes;
    return (struct place){at + slot / HT_LANES * HT_LANES * row, at + HT_PAGE_TOKENS * row, slot};
}

// Every line of a group of K holds something of each of its positions. That of another sequence is
// asked for while a token is stored.
static void ask_place(const struct ht_prepared *p, const struct place *at, const struct place *now,
                      uint32_t head_dim) {
    if (at->k == now->k) return;
    size_t v_row = (size_t)head_dim * ht_kv_code_bytes(p->c->limits.kv_type);
    for (size_t i = 0; i < HT_LANES * p->c->kv_row_bytes; i += 64)
        __builtin_prefetch(at->k + i, 1, 2);
    for (size_t i = 0; i < 2 * v_row; i += 64)
        __builtin_prefetch(at->v + at->slot / 2 * 2 * v_row + i, 1, 2);
}

static void append(struct ht_prepared *p, const struct ht_cpu_step *s, size_t t, size_t h,
                   int thread) {
    const struct ht_vec_kernels *k = &p->backend->vec;
    enum hearth_kv_type type = p->c->limits.kv_type;
    uint32_t d = s->head_dim;
    struct place at = place_of(p, s, t, h);
    size_t width = (size_t)s->n_kv_heads * d, in = t * width + h * d;
    ht_cpu_ask_head(ht_cpu_f32(p, s->in[1], thread), in, width, p->batch->n_tokens, d);
    if (t + 1 < p->batch->n_tokens) {
        struct place next = place_of(p, s, t + 1, h);
        ask_place(p, &next, &at, d);
    }
    k->k_store[type](ht_cpu_f32(p, s->in[0], thread) + in, d, at.slot % HT_LANES, at.k);
    k->v_store[type](ht_cpu_f32(p, s->in[1], thread) + in, d, at.slot, at.v);
}

void ht_cpu_run_kv_append(struct ht_prepared *p, const struct ht_cpu_step *s, int thread) {
    size_t t0 = 0, t1 = p->batch->n_tokens, h0 = 0, h1 = s->n_kv_heads;
    if (p->c->own_heads || p->mode == HT_CPU_FEW)
        ht_team_share(s->n_kv_heads, 1, thread, p->c->n_threads, &h0, &h1);
    else
        ht_team_share(p->batch->n_tokens, 1, thread, p->c->n_threads, &t0, &t1);
    for (size_t t = t0; t < t1; t++)
        for (size_t h = h0; h < h1; h++) append(p, s, t, h, thread);
}
