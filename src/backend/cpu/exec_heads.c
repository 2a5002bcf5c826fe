// SPDX-License-Identifier: MIT
// What becomes of heads: norm, rotation, and for keys and values their place in the pages. A step
// over a tensor of heads, or the end of the linear step that makes them, head by head out of the
// cache. Runs inside the region; a thread works on its own heads, or on its share of the tokens.
#include <string.h>

#include "backend/cpu/exec.h"

// One head of row t: y may be x.
static void turn_head(const struct ht_prepared *p, const struct ht_cpu_heads *h, size_t t,
                      const float *x, float *y) {
    const struct ht_vec_kernels *k = &p->backend->vec;
    if (h->norm.op != HT_N_OPS) {
        k->rms_norm(x, ht_cpu_vector(p, h->norm.w), h->head_dim, h->norm.eps, y);
        x = y;
    }
    if (h->rope == HT_NONE) return;
    uint32_t n = p->c->plan->ropes[h->rope].n_rot;
    const float *c = ht_cpu_f32(p, h->table, 0) + t * 2 * n;
    if (h->pairing == HT_ROPE_HALVES)
        k->rope_halves(x, c, c + n, n, y);
    else
        k->rope_adjacent(x, c, c + n, n, y);
    if (x != y && h->head_dim > n) memcpy(y + n, x + n, (h->head_dim - n) * sizeof *y);
}

// Head h of row t, d elements; that of the next row, which is too far away for the hardware to
// follow, is asked for.
static float *head_of(const struct ht_prepared *p, uint32_t tensor, size_t t, size_t h,
                      uint32_t d) {
    struct ht_cpu_head x = ht_cpu_head_at(p, tensor, h, d);
    float *at = x.x + t * x.stride;
    if (t + 1 < ht_cpu_n_rows(p, tensor))
        for (uint32_t e = 0; e < d; e += 64 / sizeof *at)
            __builtin_prefetch(at + x.stride + e, 1, 3);
    return at;
}

// The heads of every token that are this thread's own, or else all heads of its share of tokens.
void ht_cpu_run_heads(struct ht_prepared *p, const struct ht_cpu_step *s, int thread) {
    uint32_t d = s->heads[0].head_dim;
    size_t n_heads = p->c->tensors[s->out[0]].width / d, t0, t1, h0 = 0, h1 = n_heads;
    ht_cpu_wanted_rows(p, s->out[0], &t0, &t1);
    if (p->c->own_heads) {
        ht_team_share(s->n_kv_heads, 1, thread, p->c->n_threads, &h0, &h1);
        h0 *= n_heads / s->n_kv_heads;
        h1 *= n_heads / s->n_kv_heads;
    } else if (p->mode == HT_CPU_FEW) {
        ht_team_share(n_heads, 1, thread, p->c->n_threads, &h0, &h1);
    } else { // of its share of all tokens, as other steps share them: what is wanted
        size_t from, to;
        ht_team_share(ht_cpu_n_rows(p, s->out[0]), 1, thread, p->c->n_threads, &from, &to);
        t0 = t0 > from ? t0 : from;
        t1 = t1 < to ? t1 : to;
    }
    for (size_t t = t0; t < t1; t++)
        for (size_t h = h0; h < h1; h++)
            turn_head(p, &s->heads[0], t, head_of(p, s->in[0], t, h, d),
                      head_of(p, s->out[0], t, h, d));
}

void ht_cpu_finish_head(const struct ht_prepared *p, const struct ht_cpu_step *s, uint32_t i,
                        size_t h, size_t t0, size_t t1, float *x) {
    const struct ht_cpu_heads *how = &s->heads[i];
    uint32_t d = how->head_dim;
    for (size_t t = t0, n; t < t1; t += n, x += n * d) {
        n = how->store == HT_CPU_STORE_NONE ? 1 : ht_cpu_store_most(p, t, t1);
        for (size_t r = 0; r < n; r++) {
            if (how->store != HT_CPU_STORE_NONE) {
                size_t next = t + r + HT_CPU_ASK_AHEAD;
                ht_cpu_ask_later(p, s->layer, how->store, d, t + r, h);
                if ((t + r - t0) % HT_CPU_ASK_AHEAD == 0)
                    ht_cpu_ask_store(p, s->layer, how->store, d, next, t1, h);
            }
            turn_head(p, how, t + r, x + r * d, x + r * d);
        }
        if (how->store != HT_CPU_STORE_NONE)
            ht_cpu_store_heads(p, s->layer, how->store, d, t, n, h, x);
    }
}

void ht_cpu_run_kv_append(struct ht_prepared *p, const struct ht_cpu_step *s, int thread) {
    size_t t0 = 0, t1 = p->batch->n_tokens, h0 = 0, h1 = s->n_kv_heads;
    uint32_t d = s->head_dim;
    if (p->c->own_heads || p->mode == HT_CPU_FEW)
        ht_team_share(s->n_kv_heads, 1, thread, p->c->n_threads, &h0, &h1);
    else
        ht_team_share(p->batch->n_tokens, 1, thread, p->c->n_threads, &t0, &t1);
    for (size_t t = t0; t < t1; t++)
        for (size_t h = h0; h < h1; h++)
            for (uint32_t i = 0; i < 2; i++) {
                enum ht_cpu_store what = i == 0 ? HT_CPU_STORE_K : HT_CPU_STORE_V;
                ht_cpu_ask_later(p, s->layer, what, d, t, h);
                if (t + 1 < t1) ht_cpu_ask_store(p, s->layer, what, d, t + 1, t + 2, h);
                ht_cpu_store_heads(p, s->layer, what, d, t, 1, h, head_of(p, s->in[i], t, h, d));
            }
}
