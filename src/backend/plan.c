// SPDX-License-Identifier: MIT
// What can be said of a plan without running it: its printed form, and where each tensor lies in
// scratch memory. Keeps: no two tensors that are live at the same step overlap. Plans are
// immutable; any thread.
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "backend/backend.h"
#include "base/checked.h"
#include "base/mem.h"
#include "base/sort.h"

static const char *const op_names[HT_N_OPS] = {
    [HT_OP_EMBED] = "embed",
    [HT_OP_ADD_POS] = "add_pos",
    [HT_OP_SELECT] = "select",
    [HT_OP_LINEAR] = "linear",
    [HT_OP_RMS_NORM] = "rms_norm",
    [HT_OP_LAYER_NORM] = "layer_norm",
    [HT_OP_HEAD_NORM] = "head_norm",
    [HT_OP_ROPE] = "rope",
    [HT_OP_KV_APPEND] = "kv_append",
    [HT_OP_ATTENTION] = "attention",
    [HT_OP_ACT] = "act",
    [HT_OP_ACT_MUL] = "act_mul",
    [HT_OP_ADD] = "add",
    [HT_OP_MOE_ROUTE] = "moe_route",
    [HT_OP_MOE_FFN] = "moe_ffn",
};

const char *ht_op_name(enum ht_op op) {
    return (unsigned)op < HT_N_OPS ? op_names[op] : "unknown";
}

// ---- roles

static const struct ht_step *writer_of(const struct ht_plan *p, uint32_t tensor) {
    for (uint32_t i = 0; i < p->n_steps; i++)
        for (uint32_t k = 0; k < p->steps[i].n_out; k++)
            if (p->steps[i].out[k] == tensor) return &p->steps[i];
    return NULL;
}

static bool is_read_by(const struct ht_plan *p, uint32_t tensor, enum ht_op op) {
    for (uint32_t i = 0; i < p->n_steps; i++)
        for (uint32_t k = 0; k < p->steps[i].n_in; k++)
            if (p->steps[i].in[k] == tensor && p->steps[i].op == op) return true;
    return false;
}

const char *ht_plan_role(const struct ht_plan *p, uint32_t step) {
    static const enum ht_op heads[] = {HT_OP_HEAD_NORM, HT_OP_ROPE, HT_OP_KV_APPEND,
                                       HT_OP_ATTENTION};
    const struct ht_step *s = &p->steps[step];
    for (uint32_t k = 0; k < s->n_out; k++) {
        if (s->out[k] == p->logits) return "lm_head";
        for (size_t i = 0; i < sizeof heads / sizeof *heads; i++)
            if (is_read_by(p, s->out[k], heads[i])) return "qkv";
        if (is_read_by(p, s->out[k], HT_OP_ACT) || is_read_by(p, s->out[k], HT_OP_ACT_MUL))
            return "gate/up";
        if (is_read_by(p, s->out[k], HT_OP_MOE_ROUTE)) return "router";
    }
    const struct ht_step *from = writer_of(p, s->in[0]);
    while (from && (from->op == HT_OP_RMS_NORM || from->op == HT_OP_LAYER_NORM ||
                    from->op == HT_OP_SELECT)) // what may stand between
        from = writer_of(p, from->in[0]);
    if (from && from->op == HT_OP_ATTENTION) return "o";
    if (from && (from->op == HT_OP_ACT || from->op == HT_OP_ACT_MUL)) return "down";
    return "other";
}

// ---- printing

static const char *act_name(enum ht_act a) {
    switch (a) {
    case HT_ACT_SILU: return "silu";
    case HT_ACT_GELU_TANH: return "gelu_tanh";
    case HT_ACT_GELU_ERF: return "gelu_erf";
    case HT_ACT_RELU2: return "relu2";
    }
    return "unknown";
}

// Inputs and weights of the step's own layer lose their "blk.<layer>.", which the line has already.
static const char *short_name(const struct ht_step *s, const char *name) {
    char prefix[32];
    int n = snprintf(prefix, sizeof prefix, "blk.%" PRIu32 ".", s->layer);
    return s->layer != HT_NONE && strncmp(name, prefix, (size_t)n) == 0 ? name + n : name;
}

static void print_flow(const struct ht_plan *p, const struct ht_step *s, struct ht_buf *b) {
    for (uint32_t i = 0; i < s->n_out; i++) {
        const struct ht_tensor *t = &p->tensors[s->out[i]];
        ht_buf_printf(b, "%s%s[%" PRIu32 "]", i > 0 ? ", " : "", t->name, t->width);
    }
    if (s->op == HT_OP_KV_APPEND) ht_buf_puts(b, "pages");
    ht_buf_puts(b, " <- ");
    for (uint32_t i = 0; i < s->n_in; i++)
        ht_buf_printf(b, "%s%s", i > 0 ? ", " : "", short_name(s, p->tensors[s->in[i]].name));
    if (s->op == HT_OP_EMBED) ht_buf_puts(b, "tokens");
    if (s->op == HT_OP_ATTENTION) ht_buf_puts(b, ", pages");
}

static void print_weight(const struct ht_step *s, const struct ht_weight *w, struct ht_buf *b) {
    const struct ht_format_info *f = ht_format_get(w->format);
    ht_buf_printf(b, "  %s %s ", short_name(s, w->name), f ? f->name : "?");
    for (int d = w->n_dims - 1; d >= 0; d--) ht_buf_printf(b, "[%" PRIu64 "]", w->ne[d]);
    if (w->scale && w->n_dims == 2) ht_buf_printf(b, " times %g", (double)*w->scale);
    if (w->scale && w->n_dims == 3) ht_buf_puts(b, " times a scale each");
}

static void print_params(const struct ht_plan *p, const struct ht_step *s, struct ht_buf *b) {
    switch (s->op) {
    case HT_OP_EMBED:
        if (s->u.embed.scale != 1) ht_buf_printf(b, "  scale %g", (double)s->u.embed.scale);
        break;
    case HT_OP_RMS_NORM:
    case HT_OP_LAYER_NORM: ht_buf_printf(b, "  eps %g", (double)s->u.norm.eps); break;
    case HT_OP_HEAD_NORM:
        ht_buf_printf(b, "  eps %g, head_dim %" PRIu32, (double)s->u.norm.eps, s->u.norm.head_dim);
        break;
    case HT_OP_ROPE: {
        const struct ht_rope *r = &p->ropes[s->u.rope.rope];
        ht_buf_printf(b, "  heads %" PRIu32 " x %" PRIu32 ", rotates %" PRIu32 " in %s",
                      s->u.rope.n_heads, s->u.rope.head_dim, r->n_rot,
                      s->u.rope.pairing == HT_ROPE_HALVES ? "halves" : "adjacent pairs");
        if (r->mscale != 1) ht_buf_printf(b, ", mscale %g", (double)r->mscale);
        if (r->far_beta != 0)
            ht_buf_printf(b, ", times 1 + %g ln(1 + floor(pos / %" PRIu32 "))", (double)r->far_beta,
                          r->far_period);
        break;
    }
    case HT_OP_ATTENTION:
        ht_buf_printf(b, "  heads %" PRIu32 " on %" PRIu32 " x %" PRIu32 ", scale %g",
                      s->u.attn.n_heads, s->u.attn.n_kv_heads, s->u.attn.head_dim,
                      (double)s->u.attn.scale);
        if (s->u.attn.window) ht_buf_printf(b, ", window %" PRIu32, s->u.attn.window);
        if (s->u.attn.soft_cap != 0) ht_buf_printf(b, ", cap %g", (double)s->u.attn.soft_cap);
        break;
    case HT_OP_ACT:
    case HT_OP_ACT_MUL: ht_buf_printf(b, "  %s", act_name(s->u.act.kind)); break;
    case HT_OP_MOE_ROUTE:
        ht_buf_printf(b, "  %" PRIu32 " of %" PRIu32 "%s, scale %g", s->u.moe.n_used,
                      s->u.moe.n_experts, s->u.moe.normalise ? ", normalised" : "",
                      (double)s->u.moe.scale);
        break;
    case HT_OP_MOE_FFN:
        ht_buf_printf(b, "  %" PRIu32 " of %" PRIu32 ", %s", s->u.moe.n_used, s->u.moe.n_experts,
                      act_name(s->u.moe.kind));
        break;
    default: break;
    }
}

static void print_step(const struct ht_plan *p, uint32_t i, const struct ht_buf *flow, int widest,
                       struct ht_buf *out) {
    const struct ht_step *s = &p->steps[i];
    char layer[16] = "-";
    if (s->layer != HT_NONE) snprintf(layer, sizeof layer, "%" PRIu32, s->layer);
    ht_buf_printf(out, "%5" PRIu32 "  %-10s  %5s  %-*s", i, ht_op_name(s->op), layer, widest,
                  flow->data ? flow->data : "");
    for (int w = 0; w < 6; w++)
        if (s->w[w] != HT_NONE) print_weight(s, &p->weights[s->w[w]], out);
    print_params(p, s, out);
    while (out->len > 0 && out->data[out->len - 1] == ' ') out->data[--out->len] = 0;
    ht_buf_putc(out, '\n');
}

bool ht_plan_print(const struct ht_plan *p, struct ht_buf *out) {
    struct ht_buf flow;
    ht_buf_init(&flow, 1 << 16);
    size_t widest = 0;
    for (uint32_t i = 0; i < p->n_steps; i++) {
        ht_buf_clear(&flow);
        print_flow(p, &p->steps[i], &flow);
        if (flow.len > widest) widest = flow.len;
    }
    ht_buf_printf(out, "%5s  %-10s  %5s  %-*s  %s\n", "step", "operation", "layer", (int)widest,
                  "outputs <- inputs", "weights, parameters");
    bool ok = true;
    for (uint32_t i = 0; i < p->n_steps && ok; i++) {
        ht_buf_clear(&flow);
        print_flow(p, &p->steps[i], &flow);
        ok = !flow.failed;
        print_step(p, i, &flow, (int)widest, out);
    }
    ht_buf_deinit(&flow);
    return ok && !out->failed;
}

// ---- scratch memory

struct place {
    uint64_t n_bytes, offset;
    uint32_t first, last; // steps: live from first to last, both included
    uint32_t id;
};

static int by_size(const void *a, const void *b) { // largest first; then in the plan's order
    const struct place *x = a, *y = b;
    if (x->n_bytes != y->n_bytes) return x->n_bytes < y->n_bytes ? 1 : -1;
    if (x->first != y->first) return x->first < y->first ? -1 : 1;
    return x->id < y->id ? -1 : x->id > y->id;
}

// Lifetimes by tensor id; first == HT_NONE where nothing writes it.
static void find_lifetimes(const struct ht_plan *p, struct place *t) {
    for (uint32_t i = 0; i < p->n_tensors; i++)
        t[i] = (struct place){.first = HT_NONE, .last = 0, .id = i};
    for (uint32_t s = 0; s < p->n_steps; s++) {
        const struct ht_step *st = &p->steps[s];
        for (uint32_t i = 0; i < st->n_out; i++) t[st->out[i]].first = t[st->out[i]].last = s;
        for (uint32_t i = 0; i < st->n_in; i++) t[st->in[i]].last = s;
    }
    t[p->logits].last = p->n_steps; // read by the caller afterwards
}

static bool find_sizes(const struct ht_plan *p, uint64_t max_tokens, uint64_t max_outputs,
                       struct place *t) {
    for (uint32_t i = 0; i < p->n_tensors; i++) {
        uint64_t rows = p->tensors[i].rows == HT_ROWS_TOKENS ? max_tokens : max_outputs, n;
        if (!ht_mul_u64(rows, (uint64_t)p->tensors[i].width * 4, &n)) return false;
        if (!ht_add_u64(n, 63, &n)) return false;
        t[i].n_bytes = n & ~(uint64_t)63;
    }
    return true;
}

// The lowest gap among the placed tensors (in order of offset) that live at the same time.
static bool place_one(struct place *x, struct place *const *placed, uint32_t n_placed) {
    uint64_t at = 0, end;
    for (uint32_t i = 0; i < n_placed; i++) {
        const struct place *o = placed[i];
        if (o->last < x->first || x->last < o->first) continue;
        if (o->offset >= at && o->offset - at >= x->n_bytes) break;
        if (!ht_add_u64(o->offset, o->n_bytes, &end)) return false;
        if (end > at) at = end;
    }
    x->offset = at;
    return ht_add_u64(at, x->n_bytes, &end);
}

static void insert_by_offset(struct place **placed, uint32_t n, struct place *x) {
    uint32_t i = n;
    while (i > 0 && placed[i - 1]->offset > x->offset) {
        placed[i] = placed[i - 1];
        i--;
    }
    placed[i] = x;
}

static int by_time(const void *a, const void *b) {
    const struct place *x = a, *y = b;
    if (x->first != y->first) return x->first < y->first ? -1 : 1;
    return by_size(a, b);
}

// Places all tensors in the order of `compare`; false if 64 bits do not hold the block.
static bool place_all(struct place *t, uint32_t n, int (*compare)(const void *, const void *),
                      const bool *skip, struct place **placed, uint64_t *n_bytes) {
    uint32_t n_placed = 0;
    *n_bytes = 0;
    ht_sort(t, n, sizeof *t, compare);
    for (uint32_t i = 0; i < n; i++) {
        if (t[i].first == HT_NONE || (skip && skip[t[i].id])) continue;
        if (!place_one(&t[i], placed, n_placed)) return false;
        insert_by_offset(placed, n_placed++, &t[i]);
        if (t[i].offset + t[i].n_bytes > *n_bytes) *n_bytes = t[i].offset + t[i].n_bytes;
    }
    return true;
}

// Two orders, each good where the other is not: the smaller block wins.
enum hearth_status ht_plan_bind(const struct ht_plan *p, uint32_t max_tokens, uint32_t max_outputs,
                                const bool *skip, uint64_t *offset, uint64_t *n_bytes,
                                struct hearth_error *err) {
    struct place *t = ht_calloc(p->n_tensors, sizeof *t);
    struct place **placed = ht_calloc(p->n_tensors, sizeof *placed);
    enum hearth_status st = HEARTH_OK;
    uint64_t total, other;
    if (!t || !placed) {
        st = ht_fail_nomem(err, p->n_tensors * sizeof *t, "the plan's scratch layout");
        goto done;
    }
    find_lifetimes(p, t);
    if (!find_sizes(p, max_tokens, max_outputs, t) ||
        !place_all(t, p->n_tensors, by_time, skip, placed, &other) ||
        !place_all(t, p->n_tensors, by_size, skip, placed, &total) ||
        (other < total && !place_all(t, p->n_tensors, by_time, skip, placed, &total))) {
        st = ht_fail(err, HEARTH_E_ARG,
                     "scratch for %" PRIu32 " tokens and %" PRIu32
                     " rows of logits a pass does not fit 64 bits",
                     max_tokens, max_outputs);
        goto done;
    }
    for (uint32_t i = 0; i < p->n_tensors; i++)
        if (t[i].first != HT_NONE && !(skip && skip[t[i].id])) offset[t[i].id] = t[i].offset;
    *n_bytes = total;
done:
    ht_free(placed);
    ht_free(t);
    return st;
}
