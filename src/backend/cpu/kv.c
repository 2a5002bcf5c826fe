// SPDX-License-Identifier: MIT
// KV pages in the attention kernels' layout (vec.h has the picture), in one block, so that
// positions that nobody uses lie together and take no memory. Pages come zeroed from the system and
// are never cleared: what a page held before is never looked at, since attention reads written
// positions only. A position of a head is written by whichever thread makes it, inside the region.
#include "backend/cpu/exec.h"

// [chunk][layer][run of heads][page][head]: what a thread reads of neighbouring pages is one run.
uint8_t *ht_kv_head(const struct ht_prepared *p, uint32_t layer, uint32_t page, uint32_t head) {
    const struct ht_compiled *c = p->c;
    uint32_t first = page / HT_CPU_KV_CHUNK * HT_CPU_KV_CHUNK, n = c->limits.n_pages - first;
    if (n > HT_CPU_KV_CHUNK) n = HT_CPU_KV_CHUNK; // else the last chunk, which is shorter
    uint64_t at = (uint64_t)first * c->plan->n_layers + (uint64_t)n * layer; // pages of a layer
    at *= c->plan->n_kv_heads;                                               // heads
    at += (head / c->kv_together * n + page - first) * c->kv_together + head % c->kv_together;
    return p->kv + at * c->kv_head_bytes;
}

// Where a token's K or V of a head goes: the group of positions, or the page's V.
struct place {
    uint8_t *at;
    uint32_t slot; // in the page
};

static struct place place_of(const struct ht_prepared *p, uint32_t layer, enum ht_cpu_store what,
                             size_t t, size_t h) {
    const struct ht_batch *b = p->batch;
    uint32_t pos = b->pos[t], slot = pos % HT_PAGE_TOKENS;
    uint32_t page = b->seqs[b->seq[t]].pages[pos / HT_PAGE_TOKENS];
    size_t rows = what == HT_CPU_STORE_K ? slot / HT_LANES * HT_LANES : HT_PAGE_TOKENS;
    return (struct place){ht_kv_head(p, layer, page, (uint32_t)h) + rows * p->c->kv_row_bytes,
                          slot};
}

// Whether the rows from t to u are one sequence's, position after position.
static bool goes_on(const struct ht_batch *b, size_t t, size_t u) {
    return u < b->n_tokens && b->seq[u] == b->seq[t] && b->pos[u] - b->pos[t] == (uint32_t)(u - t);
}

size_t ht_cpu_store_most(const struct ht_prepared *p, size_t t, size_t t1) {
    const struct ht_batch *b = p->batch;
    bool group = b->pos[t] % HT_LANES == 0 && t + HT_LANES <= t1;
    for (size_t i = 1; i < HT_LANES && group; i++) group = goes_on(b, t, t + i);
    return group ? HT_LANES : 1;
}

// Every line of a group of K holds something of each of its positions, unless it lies in rows, and
// every line of V of two. Part i of n_parts of those of a place is asked for.
static void ask_place(const struct ht_prepared *p, enum ht_cpu_store what, struct place to,
                      uint32_t d, size_t i, size_t n_parts) {
    size_t codes = d * (size_t)ht_kv_code_bytes(p->c->limits.kv_type), slot = to.slot % HT_LANES;
    size_t n_bytes = HT_LANES * p->c->kv_row_bytes, behind = HT_LANES * codes; // K's steps
    const uint8_t *at = to.at;
    if (what == HT_CPU_STORE_V) {
        at += to.slot / 2 * 2 * codes;
        n_bytes = 2 * codes;
        behind = HT_PAGE_TOKENS * codes + to.slot * sizeof(float);
    } else if (p->c->k_rows && n_parts == 1 && slot < HT_LANES - 1) {
        at += slot * codes;
        n_bytes = codes;
    }
    if (p->c->k_rows && n_parts == 1) __builtin_prefetch(to.at + behind, 1, 2);
    size_t n_lines = (n_bytes + 63) / 64;
    for (size_t l = n_lines * i / n_parts; l < n_lines * (i + 1) / n_parts; l++)
        __builtin_prefetch(at + l * 64, 1, 2);
}

void ht_cpu_ask_store(const struct ht_prepared *p, uint32_t layer, enum ht_cpu_store what,
                      uint32_t d, size_t t, size_t t1, size_t h) {
    size_t end = t + HT_CPU_ASK_AHEAD;
    for (; t < t1 && t < end; t++)
        if (t == 0 || !goes_on(p->batch, t, t - 1))
            ask_place(p, what, place_of(p, layer, what, t, h), d, 0, 1);
}

void ht_cpu_ask_later(const struct ht_prepared *p, uint32_t layer, enum ht_cpu_store what,
                      uint32_t d, size_t t, size_t h) {
    if (!goes_on(p->batch, t, t + HT_LANES)) return;
    struct place to = place_of(p, layer, what, t + HT_LANES, h);
    size_t n = what == HT_CPU_STORE_K ? HT_LANES : 2;
    ask_place(p, what, to, d, to.slot % n, n);
}

void ht_cpu_store_heads(const struct ht_prepared *p, uint32_t layer, enum ht_cpu_store what,
                        uint32_t d, size_t t, size_t n, size_t h, const float *x) {
    const struct ht_vec_kernels *k = &p->backend->vec;
    enum hearth_kv_type type = p->c->limits.kv_type;
    struct place at = place_of(p, layer, what, t, h);
    if (what == HT_CPU_STORE_K && n == HT_LANES)
        k->k_group[type](x, d, at.at);
    else if (what == HT_CPU_STORE_K)
        (p->c->k_rows ? k->k_row : k->k_store)[type](x, d, at.slot % HT_LANES, at.at);
    else
        (n == HT_LANES ? k->v_group : k->v_store)[type](x, d, at.slot, at.at);
}
