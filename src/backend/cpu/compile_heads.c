// SPDX-License-Identifier: MIT
// What works on heads, on its way from a plan to cpu steps: norms and rotations, keys and values,
// attention. Where threads own KV heads, the linear step that makes heads also finishes them.
#include "backend/cpu/compile.h"

static bool is_head_step(enum ht_op op) {
    return op == HT_OP_HEAD_NORM || op == HT_OP_ROPE || op == HT_OP_KV_APPEND ||
           op == HT_OP_ATTENTION;
}

bool ht_compile_owns_heads(const struct ht_builder *b, const uint32_t *out, uint32_t n) {
    if (!b->c->own_heads) return false;
    for (uint32_t k = 0; k < n; k++) {
        uint32_t t = out[k], width = b->p->tensors[t].width, n_kv = b->p->n_kv_heads;
        if (b->n_readers[t] != 1 || b->last_reader[t] >= b->p->n_steps) return false;
        if (!is_head_step(b->p->steps[b->last_reader[t]].op)) return false;
        if (width % n_kv != 0 || width / n_kv % HT_ROW_GROUP != 0) return false;
    }
    return true;
}

uint32_t ht_compile_rope_table(struct ht_builder *b, uint32_t rope, enum ht_rope_pairing pairing) {
    uint32_t *t = &b->tables[rope][pairing];
    if (*t != HT_NONE) return *t;
    uint32_t n = b->p->ropes[rope].n_rot;
    *t = ht_builder_tensor(b, HT_CPU_ROWS_TOKENS, 2 * n, (uint64_t)n * 2 * sizeof(float), false);
    struct ht_cpu_step *s = ht_builder_step(b, HT_CPU_ROPE_TABLE, HT_NONE);
    if (!s) return *t;
    s->rope = rope;
    s->pairing = pairing;
    s->out[0] = *t;
    return *t;
}

// The heads of plan tensor t, which step i is the only one to read, where the step that was just
// made can go on with them: a linear step with each thread's own, or one over heads.
static struct ht_cpu_heads *heads_before(struct ht_builder *b, uint32_t t, uint32_t i,
                                         uint32_t head_dim) {
    struct ht_compiled *c = b->c;
    if (!ht_builder_only_for(b, t, i)) return NULL;
    for (uint32_t j = c->n_steps; j-- > 0;) {
        struct ht_cpu_step *s = &c->steps[j];
        bool linear = s->op == HT_CPU_LINEAR && s->own_heads && head_dim % HT_ROW_GROUP == 0;
        if (!linear && s->op != HT_CPU_HEADS) break;
        for (uint32_t k = 0; k < (linear ? s->n_linear : 1); k++) {
            struct ht_cpu_heads *h = &s->heads[k];
            if (s->out[k] != b->map[t]) continue;
            return h->head_dim == 0 || h->head_dim == head_dim ? h : NULL;
        }
        if (linear) break;
    }
    return NULL;
}

static void turn_heads(struct ht_builder *b, const struct ht_step *s, struct ht_cpu_heads *h) {
    if (s->op == HT_OP_ROPE) {
        h->table = b->tables[s->u.rope.rope][s->u.rope.pairing];
        h->rope = s->u.rope.rope;
        h->pairing = s->u.rope.pairing;
        h->head_dim = s->u.rope.head_dim;
    } else {
        h->norm = ht_builder_norm(s);
        h->head_dim = s->u.norm.head_dim;
    }
}

void ht_compile_heads(struct ht_builder *b, uint32_t i) {
    const struct ht_step *s = &b->p->steps[i];
    uint32_t d = s->op == HT_OP_ROPE ? s->u.rope.head_dim : s->u.norm.head_dim;
    uint32_t in = b->map[s->in[0]], out = ht_builder_give_over(b, s->out[0], s->in[0], i);
    struct ht_cpu_heads *h = in == out ? heads_before(b, s->in[0], i, d) : NULL;
    // A norm goes before a rotation.
    if (h && h->rope == HT_NONE && (s->op == HT_OP_ROPE || h->norm.op == HT_N_OPS)) {
        turn_heads(b, s, h);
        return;
    }
    struct ht_cpu_step *e = ht_builder_step(b, HT_CPU_HEADS, s->layer);
    if (!e) return;
    e->in[0] = in;
    e->out[0] = out;
    e->n_kv_heads = b->p->n_kv_heads;
    turn_heads(b, s, &e->heads[0]);
}

// Whether plan step i, which stores K and V, is done by the linear step that makes both.
static bool stored_before(struct ht_builder *b, uint32_t i) {
    const struct ht_step *s = &b->p->steps[i];
    const struct ht_cpu_step *last = b->c->n_steps ? &b->c->steps[b->c->n_steps - 1] : NULL;
    if (!last || last->op != HT_CPU_LINEAR || last->layer != s->layer) return false;
    uint32_t d = s->u.attn.head_dim, t[2] = {s->in[0], s->in[1]};
    struct ht_cpu_heads *h[2] = {heads_before(b, t[0], i, d), heads_before(b, t[1], i, d)};
    if (!h[0] || !h[1] || h[0] == h[1]) return false;
    for (int k = 0; k < 2; k++) {
        h[k]->store = k == 0 ? HT_CPU_STORE_K : HT_CPU_STORE_V;
        h[k]->head_dim = d;
    }
    return true;
}

void ht_compile_attention(struct ht_builder *b, uint32_t i) {
    const struct ht_step *s = &b->p->steps[i];
    bool append = s->op == HT_OP_KV_APPEND;
    if (append && stored_before(b, i)) return;
    uint32_t in0 = b->map[s->in[0]], in1 = append ? b->map[s->in[1]] : HT_NONE;
    uint32_t prep = HT_NONE, out = HT_NONE, parts = HT_NONE;
    enum ht_act_kind kind = HT_ACT_ROW_F32;
    if (!append) prep = ht_builder_own_prep(b, s->out[0], i + 1, s->u.attn.head_dim, &kind);
    if (!append && prep == HT_NONE) out = ht_builder_give(b, s->out[0]);
    if (!append && !b->c->own_heads)
        parts = ht_builder_tensor(
            b, HT_CPU_ROWS_ONE, 0,
            ht_attn_parts_bytes(s->u.attn.n_heads, s->u.attn.head_dim, b->c->limits.max_ctx),
            false);
    struct ht_cpu_step *a =
        ht_builder_step(b, append ? HT_CPU_KV_APPEND : HT_CPU_ATTENTION, s->layer);
    if (!a) return;
    a->in[0] = in0;
    a->in[1] = in1;
    a->out[0] = out;
    a->out[1] = parts;
    a->prep = prep;
    a->kind = kind;
    a->n_heads = s->u.attn.n_heads;
    a->n_kv_heads = s->u.attn.n_kv_heads;
    a->head_dim = s->u.attn.head_dim;
    a->window = s->u.attn.window;
    a->scale = s->u.attn.scale;
    a->soft_cap = s->u.attn.soft_cap;
    struct ht_cpu_step *j =
        parts == HT_NONE ? NULL : ht_builder_step(b, HT_CPU_ATTN_JOIN, s->layer);
    if (!j) return;
    j->in[0] = parts;
    j->out[0] = out;
    j->prep = prep;
    j->kind = kind;
    j->n_heads = s->u.attn.n_heads;
    j->head_dim = s->u.attn.head_dim;
    j->window = s->u.attn.window;
}

void ht_compile_settle_heads(struct ht_builder *b) {
    struct ht_compiled *c = b->c;
    for (uint32_t i = 0; i < c->n_steps; i++)
        for (uint32_t k = 0; k < 3 && c->steps[i].op == HT_CPU_LINEAR; k++) {
            const struct ht_cpu_heads *h = &c->steps[i].heads[k];
            if (h->head_dim == 0) continue;
            struct ht_cpu_tensor *t = &c->tensors[c->steps[i].out[k]];
            t->by_heads = true;
            if (h->store == HT_CPU_STORE_NONE) continue;
            t->n_bytes = 0;
            uint64_t n = ht_cpu_heads_bytes(t->width, h->head_dim, c->limits.max_tokens);
            if (n > c->piece_bytes) c->piece_bytes = (n + 63) & ~63ull;
        }
}
