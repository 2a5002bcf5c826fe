// SPDX-License-Identifier: MIT
// From a plan to the cpu backend's own steps: norms join the preparation of activations, linear
// steps over one input join into one pass, activations and residual adds move into the epilogue of
// the linear step before them, and a tensor that dies is overwritten by what is made of it. Runs at
// prepare, on the caller's thread; the plan has passed ht_plan_check.
#include <string.h>

#include "backend/cpu/compile.h"
#include "base/checked.h"
#include "base/mem.h"

static void fail(struct ht_builder *b, enum hearth_status s) {
    if (b->status == HEARTH_OK) b->status = s;
}

uint32_t ht_builder_tensor(struct ht_builder *b, enum ht_cpu_rows rows, uint32_t width,
                           uint64_t row_bytes, bool private_copies) {
    struct ht_compiled *c = b->c;
    if (c->n_tensors == c->cap_tensors) {
        uint32_t cap = c->cap_tensors ? c->cap_tensors * 2 : 64;
        struct ht_cpu_tensor *t = ht_realloc(c->tensors, cap, sizeof *t);
        if (!t) {
            fail(b, ht_fail_nomem(b->err, cap * sizeof *t, "a plan's tensors"));
            return 0;
        }
        c->tensors = t;
        c->cap_tensors = cap;
    }
    uint64_t n = rows == HT_CPU_ROWS_TOKENS    ? c->limits.max_tokens
                 : rows == HT_CPU_ROWS_OUTPUTS ? c->limits.max_outputs
                                               : 1;
    if (private_copies && n < (uint64_t)c->n_threads) n = (uint64_t)c->n_threads;
    uint64_t total;
    // Private copies lie a row apart: whole cache lines.
    if (private_copies) row_bytes = (row_bytes + 63) & ~(uint64_t)63;
    if (!ht_mul_u64(n, row_bytes, &total) || total > UINT64_MAX / 2) {
        fail(b, ht_fail(b->err, HEARTH_E_LIMIT, "a tensor of %llu rows of %llu bytes is too large",
                        (unsigned long long)n, (unsigned long long)row_bytes));
        return 0;
    }
    c->tensors[c->n_tensors] = (struct ht_cpu_tensor){.rows = rows,
                                                      .private_copies = private_copies,
                                                      .width = width,
                                                      .row_bytes = (size_t)row_bytes,
                                                      .n_bytes = (total + 63) & ~(uint64_t)63};
    return c->n_tensors++;
}

struct ht_cpu_step *ht_builder_step(struct ht_builder *b, enum ht_cpu_op op, uint32_t layer) {
    struct ht_compiled *c = b->c;
    if (c->n_steps == c->cap_steps) {
        uint32_t cap = c->cap_steps ? c->cap_steps * 2 : 64;
        struct ht_cpu_step *s = ht_realloc(c->steps, cap, sizeof *s);
        if (!s) {
            fail(b, ht_fail_nomem(b->err, cap * sizeof *s, "a plan's steps"));
            if (c->n_steps > 0)
                c->n_steps--; // the plan is lost: its last place serves
            else
                return NULL;
        } else {
            c->steps = s;
            c->cap_steps = cap;
        }
    }
    struct ht_cpu_step *s = &c->steps[c->n_steps++];
    memset(s, 0, sizeof *s);
    memset(s->in, 0xff, sizeof s->in);
    memset(s->out, 0xff, sizeof s->out);
    memset(s->w, 0xff, sizeof s->w);
    s->op = op;
    s->layer = layer;
    s->norm.op = HT_N_OPS;
    s->rope = s->residual = s->prep = HT_NONE;
    for (int i = 0; i < 3; i++)
        s->heads[i] = (struct ht_cpu_heads){
            .norm.op = HT_N_OPS, .rope = HT_NONE, .table = HT_NONE, .store = HT_CPU_STORE_NONE};
    return s;
}

enum ht_cpu_rows ht_builder_rows(const struct ht_builder *b, uint32_t tensor) {
    return b->p->tensors[tensor].rows == HT_ROWS_TOKENS ? HT_CPU_ROWS_TOKENS : HT_CPU_ROWS_OUTPUTS;
}

uint32_t ht_builder_give(struct ht_builder *b, uint32_t t) {
    uint32_t width = b->p->tensors[t].width;
    return b->map[t] = ht_builder_tensor(b, ht_builder_rows(b, t), width,
                                         (uint64_t)width * sizeof(float), false);
}

uint32_t ht_builder_give_over(struct ht_builder *b, uint32_t t, uint32_t from, uint32_t i) {
    const struct ht_tensor *x = &b->p->tensors[t], *y = &b->p->tensors[from];
    bool same = x->width == y->width && x->rows == y->rows && b->map[from] != HT_NONE;
    if (!same || b->last_reader[from] != i || from == b->p->logits) return ht_builder_give(b, t);
    return b->map[t] = b->map[from];
}

static bool is_linear_reader(enum ht_op op) {
    return op == HT_OP_LINEAR || op == HT_OP_MOE_FFN;
}

// The kinds of prepared rows that the readers of plan tensor t want, as bits; *others says whether
// something else reads it too.
static unsigned wanted_kinds(const struct ht_builder *b, uint32_t t, uint32_t i, bool *others) {
    unsigned kinds = 0;
    *others = t == b->p->logits;
    for (uint32_t j = i; j < b->p->n_steps && j <= b->last_reader[t]; j++) {
        const struct ht_step *s = &b->p->steps[j];
        for (uint32_t k = 0; k < s->n_in; k++) {
            if (s->in[k] != t) continue;
            if (!is_linear_reader(s->op) || k != 0) {
                *others = true;
                continue;
            }
            uint32_t n = s->op == HT_OP_LINEAR ? s->n_out : 2;
            for (uint32_t w = 0; w < n; w++)
                kinds |= 1u << ht_linear_act_kind(b->p->weights[s->w[w]].format);
        }
    }
    return kinds;
}

struct ht_cpu_norm ht_builder_norm(const struct ht_step *s) {
    return (struct ht_cpu_norm){.op = s->op,
                                .w = s->w[0],
                                .b = s->op == HT_OP_LAYER_NORM ? s->w[1] : HT_NONE,
                                .eps = s->u.norm.eps};
}

// Prepared rows of plan tensor t, made from cpu tensor `from`.
static void add_prep(struct ht_builder *b, uint32_t t, uint32_t from, unsigned kinds,
                     const struct ht_cpu_norm *norm, uint32_t layer) {
    uint32_t width = b->p->tensors[t].width;
    uint32_t out[HT_N_ACT_KINDS];
    memset(out, 0xff, sizeof out); // HT_NONE
    for (int k = 0; k < HT_N_ACT_KINDS; k++) {
        if (!(kinds >> k & 1) || b->acts[t][k] != HT_NONE) continue;
        size_t bytes = ht_act_row_bytes((enum ht_act_kind)k, width);
        if (bytes == 0)
            fail(b, ht_fail(b->err, HEARTH_E_LIMIT, "rows of %u activations are too long", width));
        out[k] = b->acts[t][k] = ht_builder_tensor(b, ht_builder_rows(b, t), width, bytes, true);
    }
    struct ht_cpu_step *s = ht_builder_step(b, HT_CPU_PREP, layer);
    if (!s) return;
    s->in[0] = from;
    memcpy(s->out, out, sizeof out);
    if (norm) s->norm = *norm;
}

void ht_builder_need_prepared(struct ht_builder *b, uint32_t t, uint32_t i, uint32_t layer) {
    bool others;
    unsigned kinds = wanted_kinds(b, t, i, &others), missing = 0;
    for (unsigned k = 0; k < HT_N_ACT_KINDS; k++)
        if (kinds >> k & 1 && b->acts[t][k] == HT_NONE) missing |= 1u << k;
    if (missing) add_prep(b, t, b->map[t], missing, NULL, layer);
}

uint32_t ht_builder_own_prep(struct ht_builder *b, uint32_t t, uint32_t i, uint32_t unit,
                             enum ht_act_kind *kind) {
    bool others;
    uint32_t width = b->p->tensors[t].width;
    unsigned kinds = wanted_kinds(b, t, i, &others);
    if (others || width % HT_ROW_GROUP != 0 || unit % HT_ROW_GROUP != 0) return HT_NONE;
    for (int k = 0; k < HT_N_ACT_KINDS; k++) {
        size_t bytes = ht_act_row_bytes((enum ht_act_kind)k, width);
        if (kinds != 1u << k || bytes == 0) continue;
        *kind = (enum ht_act_kind)k;
        return b->acts[t][k] = ht_builder_tensor(b, ht_builder_rows(b, t), width, bytes, false);
    }
    return HT_NONE;
}

static void add_norm(struct ht_builder *b, uint32_t i) {
    const struct ht_step *s = &b->p->steps[i];
    bool others;
    unsigned kinds = wanted_kinds(b, s->out[0], i + 1, &others);
    struct ht_cpu_norm norm = ht_builder_norm(s);
    if (!others) {
        if (kinds) add_prep(b, s->out[0], b->map[s->in[0]], kinds, &norm, s->layer);
        return;
    }
    uint32_t in = b->map[s->in[0]], out = ht_builder_give_over(b, s->out[0], s->in[0], i);
    struct ht_cpu_step *n = ht_builder_step(b, HT_CPU_NORM, s->layer);
    if (!n) return;
    n->norm = norm;
    n->in[0] = in;
    n->out[0] = out;
}

// ---- linear

bool ht_builder_only_for(const struct ht_builder *b, uint32_t t, uint32_t j) {
    return b->n_readers[t] == 1 && b->last_reader[t] == j && t != b->p->logits;
}

// The epilogue that the plan step j makes of a linear step; returns how many plan steps it takes.
static uint32_t add_epilogue(struct ht_builder *b, struct ht_cpu_step *l, const uint32_t *out,
                             uint32_t j) {
    if (j >= b->p->n_steps) return 0;
    const struct ht_step *s = &b->p->steps[j];
    if (s->op == HT_OP_ACT_MUL && l->n_linear == 2 && s->in[0] == out[0] && s->in[1] == out[1] &&
        ht_builder_only_for(b, out[0], j) && ht_builder_only_for(b, out[1], j)) {
        l->has_act = l->has_mul = true;
        l->act = s->u.act.kind;
        b->map[s->out[0]] = l->out[0];
        l->prep = ht_builder_own_prep(b, s->out[0], j + 1, HT_ROW_GROUP, &l->kind);
        return 1;
    }
    if (l->n_linear != 1 || !ht_builder_only_for(b, out[0], j)) return 0;
    if (s->op == HT_OP_ACT) {
        l->has_act = true;
        l->act = s->u.act.kind;
        b->map[s->out[0]] = l->out[0];
        l->prep = ht_builder_own_prep(b, s->out[0], j + 1, HT_ROW_GROUP, &l->kind);
        return 1;
    }
    if (s->op != HT_OP_ADD || s->in[0] == s->in[1]) return 0;
    uint32_t other = s->in[0] == out[0] ? s->in[1] : s->in[0];
    if (b->map[other] == HT_NONE) return 0;
    l->residual = b->map[other];
    return 1;
}

void ht_builder_need_piece(struct ht_builder *b, uint32_t n, uint64_t width) {
    struct ht_compiled *c = b->c;
    uint64_t bytes = (ht_cpu_piece_bytes(n, width, c->limits.max_tokens) + 63) & ~63ull;
    if (bytes > c->piece_bytes) c->piece_bytes = bytes;
}

// Outputs that only their thread reads, piece by piece, have no place in scratch.
static void keep_pieces(struct ht_builder *b, const struct ht_cpu_step *l) {
    struct ht_compiled *c = b->c;
    if (l->prep == HT_NONE || b->status != HEARTH_OK) return;
    for (uint32_t k = 0; k < l->n_linear; k++) c->tensors[l->out[k]].n_bytes = 0;
    ht_builder_need_piece(b, l->n_linear, c->tensors[l->out[0]].width);
}

static uint32_t add_linear(struct ht_builder *b, uint32_t i) {
    const struct ht_step *s = &b->p->steps[i];
    ht_builder_need_prepared(b, s->in[0], i, s->layer);
    struct ht_cpu_step *l = ht_builder_step(b, HT_CPU_LINEAR, s->layer);
    if (!l) return 1;
    l->plan_step = i;
    uint32_t out[3], j = i, n = 0;
    for (; j < b->p->n_steps; j++) { // steps over the same input become one
        const struct ht_step *t = &b->p->steps[j];
        if (t->op != HT_OP_LINEAR || t->in[0] != s->in[0] || n + t->n_out > 3) break;
        for (uint32_t k = 0; k < t->n_out; k++, n++) {
            out[n] = t->out[k];
            l->w[n] = t->w[k];
            l->w[3 + n] = t->w[3 + k];
            l->in[n] = b->acts[s->in[0]][ht_linear_act_kind(b->p->weights[t->w[k]].format)];
        }
    }
    l->n_linear = n;
    l->own_heads = ht_compile_owns_heads(b, out, n);
    // A residual sum replaces what it is added to, where that dies.
    const struct ht_step *next = j < b->p->n_steps ? &b->p->steps[j] : NULL;
    uint32_t n_more = 0;
    if (next && next->op == HT_OP_ADD && (n_more = add_epilogue(b, l, out, j)) != 0) {
        uint32_t other = next->in[0] == out[0] ? next->in[1] : next->in[0];
        l->out[0] = ht_builder_give_over(b, next->out[0], other, j);
        return j - i + n_more;
    }
    for (uint32_t k = 0; k < n; k++) l->out[k] = ht_builder_give(b, out[k]);
    n_more = add_epilogue(b, l, out, j);
    keep_pieces(b, l);
    return j - i + n_more;
}

enum ht_cpu_part ht_cpu_linear_part(const struct ht_cpu_step *s) {
    return s->own_heads ? HT_PART_KV : HT_PART_ANY;
}

// ---- the rest

static void add_elementwise(struct ht_builder *b, uint32_t i, enum ht_cpu_op op) {
    const struct ht_step *s = &b->p->steps[i];
    uint32_t in0 = s->n_in > 0 ? b->map[s->in[0]] : HT_NONE;
    uint32_t in1 = s->n_in > 1 ? b->map[s->in[1]] : HT_NONE;
    bool moves = op == HT_CPU_EMBED || op == HT_CPU_SELECT;
    uint32_t out =
        moves ? ht_builder_give(b, s->out[0]) : ht_builder_give_over(b, s->out[0], s->in[0], i);
    struct ht_cpu_step *e = ht_builder_step(b, op, s->layer);
    if (!e) return;
    e->in[0] = in0;
    e->in[1] = in1;
    e->out[0] = out;
    e->w[0] = s->w[0];
    e->scale = op == HT_CPU_EMBED ? s->u.embed.scale : 1.0f;
    if (op == HT_CPU_ACT || op == HT_CPU_ACT_MUL) e->act = s->u.act.kind;
}

// Compiles plan step i; returns how many plan steps that took.
static uint32_t add_step(struct ht_builder *b, uint32_t i) {
    const struct ht_step *s = &b->p->steps[i];
    switch (s->op) {
    case HT_OP_EMBED: add_elementwise(b, i, HT_CPU_EMBED); break;
    case HT_OP_ADD_POS: add_elementwise(b, i, HT_CPU_ADD_POS); break;
    case HT_OP_SELECT: add_elementwise(b, i, HT_CPU_SELECT); break;
    case HT_OP_ACT: add_elementwise(b, i, HT_CPU_ACT); break;
    case HT_OP_ACT_MUL: add_elementwise(b, i, HT_CPU_ACT_MUL); break;
    case HT_OP_ADD: add_elementwise(b, i, HT_CPU_ADD); break;
    case HT_OP_RMS_NORM:
    case HT_OP_LAYER_NORM: add_norm(b, i); break;
    case HT_OP_HEAD_NORM:
    case HT_OP_ROPE: ht_compile_heads(b, i); break;
    case HT_OP_KV_APPEND:
    case HT_OP_ATTENTION: ht_compile_attention(b, i); break;
    case HT_OP_LINEAR: return add_linear(b, i);
    case HT_OP_MOE_ROUTE: ht_compile_moe_route(b, s); break;
    case HT_OP_MOE_FFN: ht_compile_moe_ffn(b, i); break;
    case HT_N_OPS: break;
    }
    return 1;
}

// ---- the whole

static void find_readers(struct ht_builder *b) {
    for (uint32_t i = 0; i < b->p->n_steps; i++) {
        const struct ht_step *s = &b->p->steps[i];
        for (uint32_t k = 0; k < s->n_in; k++) {
            b->n_readers[s->in[k]]++;
            b->last_reader[s->in[k]] = i;
        }
    }
}

static void find_widths(struct ht_builder *b) {
    struct ht_compiled *c = b->c;
    for (uint32_t t = 0; t < b->p->n_tensors; t++)
        if (b->p->tensors[t].width > c->max_width && t != b->p->logits)
            c->max_width = b->p->tensors[t].width;
    c->max_in = c->max_width;
    for (uint32_t i = 0; i < b->p->n_steps; i++) { // the hidden rows of experts have no plan tensor
        const struct ht_step *s = &b->p->steps[i];
        if (s->op != HT_OP_MOE_FFN) continue;
        uint64_t ffn = b->p->weights[s->w[0]].ne[1];
        if (ffn > c->max_in && ffn <= UINT32_MAX) c->max_in = (uint32_t)ffn;
    }
}

static bool builder_init(struct ht_builder *b) {
    size_t n = b->p->n_tensors + 1u, n_ropes = b->p->n_ropes + 1u;
    b->map = ht_calloc(n, sizeof *b->map);
    b->acts = ht_calloc(n, sizeof *b->acts);
    b->n_readers = ht_calloc(n, sizeof *b->n_readers);
    b->last_reader = ht_calloc(n, sizeof *b->last_reader);
    b->tables = ht_calloc(n_ropes, sizeof *b->tables);
    if (!b->map || !b->acts || !b->n_readers || !b->last_reader || !b->tables) return false;
    memset(b->map, 0xff, n * sizeof *b->map);
    memset(b->acts, 0xff, n * sizeof *b->acts);
    memset(b->tables, 0xff, n_ropes * sizeof *b->tables);
    return true;
}

static void builder_deinit(struct ht_builder *b) {
    ht_free(b->map);
    ht_free(b->acts);
    ht_free(b->n_readers);
    ht_free(b->last_reader);
    ht_free(b->tables);
}

// Sizes that depend on the limits: KV pages and each thread's own memory.
static enum hearth_status find_sizes(const struct ht_backend *be, struct ht_compiled *c,
                                     struct hearth_error *err) {
    const struct ht_plan *p = c->plan;
    c->kv_row_bytes = ht_kv_row_bytes(c->limits.kv_type, p->head_dim);
    c->kv_head_bytes = 2 * HT_PAGE_TOKENS * c->kv_row_bytes;
    uint64_t pages;
    bool ok = ht_mul_u64(c->kv_head_bytes, p->n_kv_heads, &c->kv_page_bytes) &&
              ht_mul_u64(p->n_layers, c->limits.n_pages, &pages) &&
              ht_mul_u64(pages, c->kv_page_bytes, &c->kv_bytes) && c->kv_bytes < SIZE_MAX / 2;
    if (!ok)
        return ht_fail(err, HEARTH_E_LIMIT, "%u KV pages of %u layers are too large",
                       c->limits.n_pages, p->n_layers);
    c->linear_bytes = (ht_linear_scratch_bytes(c->max_in, c->limits.max_tokens) + 63) & ~63ull;
    c->attn_bytes = (ht_attn_bytes(&be->vec, p->head_dim) + 63) & ~63ull;
    c->row_bytes = ((uint64_t)c->max_width * sizeof(float) + 63) & ~63ull;
    // In pages of its own, since processors fetch ahead to the end of a page: two threads whose
    // panels shared one took them from each other's caches (a third slower on Emerald Rapids).
    c->scratch_bytes = (c->scratch_bytes + 4095) & ~4095ull;
    c->thread_bytes = (c->linear_bytes + c->attn_bytes + c->piece_bytes + c->row_bytes +
                       sizeof(struct ht_cpu_own_asked) + 4095) &
                      ~4095ull;
    uint64_t threads, total;
    if (!ht_mul_u64(c->thread_bytes, (uint64_t)c->n_threads, &threads) ||
        !ht_add_u64(threads, c->scratch_bytes, &total) || total > SIZE_MAX / 2)
        return ht_fail(err, HEARTH_E_LIMIT, "scratch for batches of %u tokens is too large",
                       c->limits.max_tokens);
    c->own_bytes =
        sizeof *c + c->cap_steps * sizeof *c->steps + c->cap_tensors * sizeof *c->tensors +
        sizeof(struct ht_prepared) +
        ((uint64_t)c->limits.max_tokens + c->limits.max_outputs + 1) * sizeof(struct ht_cpu_tile) +
        (c->n_steps + 2 * (uint64_t)c->n_threads * ht_cpu_taken_row(c)) * sizeof(atomic_uint);
    return HEARTH_OK;
}

// A thread keeps KV heads for itself where that leaves no thread more than a tenth behind.
static bool heads_divide(const struct ht_plan *p, int n_threads) {
    uint64_t n = (uint64_t)n_threads, each = (p->n_kv_heads + n - 1) / n;
    return each * n * 10 <= (uint64_t)p->n_kv_heads * 11;
}

static void compile_steps(struct ht_builder *b) {
    find_readers(b);
    find_widths(b);
    for (uint32_t i = 0; i < b->p->n_steps; i++) {
        const struct ht_step *s = &b->p->steps[i];
        if (s->op == HT_OP_ROPE) ht_compile_rope_table(b, s->u.rope.rope, s->u.rope.pairing);
    }
    for (uint32_t i = 0; i < b->p->n_steps && b->status == HEARTH_OK;) i += add_step(b, i);
    ht_compile_settle_heads(b);
    b->c->logits = b->map[b->p->logits];
}

enum hearth_status ht_cpu_compile(const struct ht_backend *be, const struct ht_plan *p,
                                  const struct ht_limits *l, struct ht_compiled **out,
                                  struct hearth_error *err) {
    struct ht_compiled *c = ht_calloc(1, sizeof *c);
    if (!c) return ht_fail_nomem(err, sizeof *c, "a compiled plan");
    c->plan = p;
    c->limits = *l;
    c->n_threads = ht_team_size(be->team);
    c->own_heads = heads_divide(p, c->n_threads);
    c->k_rows = c->own_heads && be->vec.k_row[l->kv_type];
    c->kv_together = p->n_kv_heads;
    if (c->own_heads && p->n_kv_heads % (uint32_t)c->n_threads == 0)
        c->kv_together /= (uint32_t)c->n_threads;
    struct ht_builder b = {.c = c, .p = p, .err = err};
    if (builder_init(&b))
        compile_steps(&b);
    else
        b.status = ht_fail_nomem(err, p->n_tensors * sizeof(uint32_t), "compiling a plan");
    builder_deinit(&b);
    if (b.status == HEARTH_OK) b.status = ht_cpu_schedule(c, err);
    if (b.status == HEARTH_OK) b.status = find_sizes(be, c, err);
    if (b.status != HEARTH_OK) {
        ht_compiled_free(c);
        return b.status;
    }
    *out = c;
    return HEARTH_OK;
}

void ht_compiled_free(struct ht_compiled *c) {
    if (!c) return;
    ht_free(c->steps);
    ht_free(c->tensors);
    ht_free(c);
}
