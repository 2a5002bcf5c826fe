// SPDX-License-Identifier: MIT
// Attention where threads own KV heads: which tasks are whose, in what order, and who takes them;
// and what the thread will read a layer later. Owns nothing; inside the region.
#include "backend/cpu/exec.h"

// KV heads that a task of one token takes together: softmax of many rows costs little more than of
// one, since each row's operations wait for each other; but no more than one call of it has.
static uint32_t heads_together(const struct ht_prepared *p, const struct ht_cpu_step *s) {
    const struct ht_cpu_tiles *tiles = ht_cpu_tiles_of(p, s);
    if (tiles->n < ht_cpu_n_queries(p, s)) return 1;
    uint32_t n = ht_attn_lane_rows(&p->backend->vec) / (s->n_heads / s->n_kv_heads);
    return n > 1 ? n : 1;
}

// What a thread owns: KV heads [begin, end), `together` in a task, tile after tile.
struct own {
    const struct ht_cpu_tiles *tiles;
    uint32_t begin, end, together, n_tasks;
};

static struct own own_of(const struct ht_prepared *p, const struct ht_cpu_step *s, int thread) {
    size_t begin, end;
    ht_team_share(s->n_kv_heads, 1, thread, p->c->n_threads, &begin, &end);
    struct own o = {.tiles = ht_cpu_tiles_of(p, s), .begin = (uint32_t)begin, .end = (uint32_t)end};
    o.together = heads_together(p, s);
    o.n_tasks = (o.end - o.begin + o.together - 1) / o.together * o.tiles->n;
    return o;
}

// Task i; none behind the last.
static struct ht_attn_task own_task(const struct own *o, uint32_t i) {
    if (i >= o->n_tasks) return (struct ht_attn_task){0};
    uint32_t h = o->begin + i / o->tiles->n * o->together;
    uint32_t n = o->end - h < o->together ? o->end - h : o->together;
    return (struct ht_attn_task){&o->tiles->at[i % o->tiles->n], h, n};
}

// Bytes that are asked for a layer ahead: less than the caches behind L2 keep beside the weights
// that are read meanwhile (measured: docs/kernels.md, "What is read later").
#define LATER_BYTES (5 << 20)

// What the next layer's attention will read of the thread's own heads, for linear steps to ask for
// until then: where each sequence has one token there is about as much of it as of weights. The
// caches keep a part of it, so it is what attention reads first, and that comes last. Pages whose
// first group of positions is not full are left out. Where others need those caches it only costs,
// so whether it pays is tried (trial.h).
static void set_later(const struct ht_prepared *p, const struct ht_cpu_step *s, int thread) {
    const struct ht_cpu_step *end = p->c->steps + p->c->n_steps;
    struct ht_cpu_own_asked *asked = ht_cpu_own_asked(p, thread);
    do s++;
    while (s < end && s->op != HT_CPU_ATTENTION);
    asked->linear.later = (struct ht_linear_later){0};
    if (s == end || !p->asks_later || ht_cpu_tiles_of(p, s)->n < ht_cpu_n_queries(p, s)) return;
    struct own o = own_of(p, s, thread);
    size_t run_bytes = (o.end - o.begin) * p->c->kv_head_bytes, n = 0;
    if (run_bytes == 0) return;
    size_t most = LATER_BYTES / run_bytes;
    if (most > HT_CPU_LATER_RUNS) most = HT_CPU_LATER_RUNS;
    const uint8_t **last = asked->later + most;
    for (uint32_t i = 0; i < o.tiles->n; i++) {
        const struct ht_cpu_tile *t = &o.tiles->at[i];
        uint32_t page = ht_attn_first_seen(s, t->pos) / HT_PAGE_TOKENS;
        for (; page * HT_PAGE_TOKENS + HT_LANES <= t->pos && n < most; page++)
            *(last - ++n) = ht_kv_head(p, s->layer, t->pages[page], o.begin);
    }
    asked->linear.later = (struct ht_linear_later){.run = last - n, .n = n, .run_bytes = run_bytes};
}

// `taken` of an owner is 0 until what its tasks read is there, then 1 more than were taken. So a
// thread that has done its own may take another's, with no barrier in front of attention.
void ht_attn_run_owned(struct ht_prepared *p, const struct ht_cpu_step *s, int thread) {
    bool shares = p->mode == HT_CPU_MANY;
    for (int k = 0, n_threads = shares ? p->c->n_threads : 1; k < n_threads; k++) {
        int owner = (thread + k) % p->c->n_threads;
        struct own o = own_of(p, s, owner);
        atomic_uint *taken = ht_cpu_taken(p, s, owner);
        if (k == 0) atomic_store_explicit(taken, 1, memory_order_release);
        if (k > 0 && atomic_load_explicit(taken, memory_order_acquire) == 0) continue;
        for (uint32_t i;
             (i = atomic_fetch_add_explicit(taken, 1, memory_order_relaxed) - 1) < o.n_tasks;)
            ht_attn_run_task(p, s, own_task(&o, i), own_task(&o, i + 1), thread);
    }
    if (shares) set_later(p, s, thread);
}
