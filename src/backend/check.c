// SPDX-License-Identifier: MIT
// The rules of plans, checked once for all backends at load. What passes here, a backend may index
// by without looking again. No state; any thread.
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "backend/backend.h"
#include "base/checked.h"
#include "base/hash.h"
#include "base/mem.h"

struct checker {
    const struct ht_plan *p;
    struct hearth_error *err;
    const struct ht_step *s; // the step under check
    uint32_t index;
    struct {
        bool written;
        bool attended;   // ATTENTION has read it
        uint32_t turned; // the size of the heads that are normalised or rotated there, or 0
    } * seen;            // by tensor
    bool *appended;      // by layer: KV_APPEND has been
};

// "step 12 (linear): " in front of the sentence.
static enum hearth_status fail_step(const struct checker *c, const char *fmt, ...) HT_PRINTF(2, 3);
static enum hearth_status fail_step(const struct checker *c, const char *fmt, ...) {
    char text[512];
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    return ht_fail(c->err, HEARTH_E_ARG, "plan step %" PRIu32 " (%s): %s", c->index,
                   ht_op_name(c->s->op), text);
}

static const struct ht_tensor *in(const struct checker *c, int i) {
    return &c->p->tensors[c->s->in[i]];
}

static const struct ht_tensor *out(const struct checker *c, int i) {
    return &c->p->tensors[c->s->out[i]];
}

// ---- tables of the plan

static enum hearth_status check_weight(const struct ht_plan *p, uint32_t i,
                                       struct hearth_error *err) {
    const struct ht_weight *w = &p->weights[i];
    if (!w->name) return ht_fail(err, HEARTH_E_ARG, "plan weight %" PRIu32 " has no name", i);
    const struct ht_format_info *f = ht_format_get(w->format);
    if (!f || !f->to_f32)
        return ht_fail(err, HEARTH_E_UNSUPPORTED,
                       "weight %s has format %s, which has no dequantiser", w->name,
                       f ? f->name : "unknown");
    if (w->n_dims < 1 || w->n_dims > 3)
        return ht_fail(err, HEARTH_E_ARG, "weight %s has %d dimensions, expected 1 to 3", w->name,
                       w->n_dims);
    uint64_t n_bytes = 0;
    bool ok = ht_format_row_bytes(w->format, w->ne[0], &n_bytes);
    for (int d = 0; d < w->n_dims; d++) {
        if (w->ne[d] == 0) ok = false;
        if (d > 0 && ok) ok = ht_mul_u64(n_bytes, w->ne[d], &n_bytes);
    }
    if (!ok || n_bytes != w->n_bytes)
        return ht_fail(err, HEARTH_E_ARG,
                       "weight %s has %" PRIu64 " bytes, its shape wants %" PRIu64, w->name,
                       w->n_bytes, ok ? n_bytes : 0);
    if (!w->data || (uintptr_t)w->data % 4 != 0)
        return ht_fail(err, HEARTH_E_ARG, "weight %s does not begin at a multiple of 4 bytes",
                       w->name);
    if (w->scale && w->n_dims == 1)
        return ht_fail(err, HEARTH_E_ARG, "vector %s has a scale", w->name);
    if ((uintptr_t)w->scale % 4 != 0)
        return ht_fail(err, HEARTH_E_ARG, "the scale of weight %s is at no multiple of 4 bytes",
                       w->name);
    return HEARTH_OK;
}

static enum hearth_status check_rope(const struct ht_plan *p, uint32_t i,
                                     struct hearth_error *err) {
    const struct ht_rope *r = &p->ropes[i];
    if (r->n_rot == 0 || r->n_rot % 2 != 0 || !r->inv_freq || !isfinite(r->mscale))
        return ht_fail(err, HEARTH_E_ARG, "plan rope %" PRIu32 ": n_rot %" PRIu32 ", mscale %g", i,
                       r->n_rot, (double)r->mscale);
    if (!isfinite(r->far_beta) || (r->far_beta != 0 && r->far_period == 0))
        return ht_fail(err, HEARTH_E_ARG, "plan rope %" PRIu32 ": far_beta %g, far_period %" PRIu32,
                       i, (double)r->far_beta, r->far_period);
    for (uint32_t k = 0; k < r->n_rot / 2; k++)
        if (!(fabs(r->inv_freq[k]) < HT_ROPE_FREQ_MAX))
            return ht_fail(err, HEARTH_E_ARG, "plan rope %" PRIu32 ": frequency %" PRIu32 " is %g",
                           i, k, r->inv_freq[k]);
    return HEARTH_OK;
}

// Names are unique: an open-addressing table of ids.
static enum hearth_status check_tensors(const struct ht_plan *p, struct hearth_error *err) {
    size_t n_slots = 16;
    while (n_slots < (size_t)p->n_tensors * 2) n_slots *= 2;
    uint32_t *slots = ht_calloc(n_slots, sizeof *slots);
    if (!slots) return ht_fail_nomem(err, n_slots * sizeof *slots, "checking the plan");
    enum hearth_status st = HEARTH_OK;
    for (uint32_t i = 0; i < p->n_tensors && st == HEARTH_OK; i++) {
        const struct ht_tensor *t = &p->tensors[i];
        if (!t->name || t->width == 0 || (unsigned)t->type > HT_TYPE_I32 ||
            (unsigned)t->rows > HT_ROWS_OUTPUTS) {
            st = ht_fail(err, HEARTH_E_ARG,
                         "plan tensor %" PRIu32 " (%s) has no name, type or width", i,
                         t->name ? t->name : "?");
            break;
        }
        size_t at = ht_hash_bytes(t->name, strlen(t->name), 0) & (n_slots - 1);
        for (; slots[at] != 0; at = (at + 1) & (n_slots - 1))
            if (strcmp(p->tensors[slots[at] - 1].name, t->name) == 0) {
                st = ht_fail(err, HEARTH_E_ARG,
                             "plan tensors %" PRIu32 " and %" PRIu32 " have one name, %s",
                             slots[at] - 1, i, t->name);
                break;
            }
        slots[at] = i + 1;
    }
    ht_free(slots);
    return st;
}

// ---- parts of a step's rules

static enum hearth_status expect_counts(const struct checker *c, uint32_t n_in, uint32_t n_out) {
    if (c->s->n_in != n_in || c->s->n_out != n_out)
        return fail_step(
            c, "%" PRIu32 " inputs and %" PRIu32 " outputs, expected %" PRIu32 " and %" PRIu32,
            c->s->n_in, c->s->n_out, n_in, n_out);
    return HEARTH_OK;
}

// Weight slot i: present (or absent if optional), with this shape, outermost first; 0 is any size.
static enum hearth_status expect_weight(const struct checker *c, int i, bool optional, int n_dims,
                                        uint64_t ne2, uint64_t ne1, uint64_t ne0) {
    uint32_t id = c->s->w[i];
    if (id == HT_NONE) return optional ? HEARTH_OK : fail_step(c, "weight %d is missing", i);
    const struct ht_weight *w = &c->p->weights[id];
    if (w->n_dims != n_dims)
        return fail_step(c, "weight %s has %d dimensions, expected %d", w->name, w->n_dims, n_dims);
    const uint64_t want[3] = {ne0, ne1, ne2};
    for (int d = 0; d < n_dims; d++)
        if (want[d] != 0 && w->ne[d] != want[d])
            return fail_step(c, "weight %s has %" PRIu64 " in dimension %d, expected %" PRIu64,
                             w->name, w->ne[d], d, want[d]);
    if (n_dims == 1 && w->format != HT_F32) return fail_step(c, "vector %s is not F32", w->name);
    return HEARTH_OK;
}

static enum hearth_status expect_width(const struct checker *c, const struct ht_tensor *t,
                                       uint64_t width) {
    if (t->width != width)
        return fail_step(c, "%s has width %" PRIu32 ", expected %" PRIu64, t->name, t->width,
                         width);
    return HEARTH_OK;
}

// One input, one output of the same width.
static enum hearth_status expect_map(const struct checker *c) {
    enum hearth_status st = expect_counts(c, 1, 1);
    return st ? st : expect_width(c, out(c, 0), in(c, 0)->width);
}

static enum hearth_status expect_heads(const struct checker *c, const struct ht_tensor *t,
                                       uint64_t n_heads, uint64_t head_dim) {
    if (n_heads == 0 || head_dim == 0 || n_heads * head_dim != t->width)
        return fail_step(c, "%s has width %" PRIu32 ", expected %" PRIu64 " heads of %" PRIu64,
                         t->name, t->width, n_heads, head_dim);
    return HEARTH_OK;
}

static enum hearth_status expect_act(const struct checker *c, enum ht_act a) {
    return (unsigned)a <= HT_ACT_RELU2 ? HEARTH_OK : fail_step(c, "no such activation");
}

static enum hearth_status expect_eps(const struct checker *c) {
    float e = c->s->u.norm.eps;
    return isfinite(e) && e >= 0 ? HEARTH_OK : fail_step(c, "eps is %g", (double)e);
}

// ---- a rule an operation

static enum hearth_status check_linear(const struct checker *c) {
    const struct ht_step *s = c->s;
    if (s->n_in != 1 || s->n_out < 1 || s->n_out > 3)
        return fail_step(c, "%" PRIu32 " inputs and %" PRIu32 " outputs, expected 1 and 1 to 3",
                         s->n_in, s->n_out);
    for (uint32_t i = 0; i < 3; i++) {
        if (i >= s->n_out && (s->w[i] != HT_NONE || s->w[3 + i] != HT_NONE))
            return fail_step(c, "weight %" PRIu32 " has no output", i);
        if (i >= s->n_out) continue;
        enum hearth_status st =
            expect_weight(c, (int)i, false, 2, 0, out(c, (int)i)->width, in(c, 0)->width);
        if (!st) st = expect_weight(c, (int)i + 3, true, 1, 0, 0, out(c, (int)i)->width);
        if (st) return st;
    }
    return HEARTH_OK;
}

static enum hearth_status check_norm(const struct checker *c) {
    enum hearth_status st = expect_map(c);
    if (!st) st = expect_eps(c);
    if (st) return st;
    uint32_t width = in(c, 0)->width;
    if (c->s->op == HT_OP_HEAD_NORM) {
        width = c->s->u.norm.head_dim;
        if (width == 0 || in(c, 0)->width % width != 0)
            return fail_step(c,
                             "%s has width %" PRIu32 ", which heads of %" PRIu32 " do not divide",
                             in(c, 0)->name, in(c, 0)->width, width);
    }
    st = expect_weight(c, 0, false, 1, 0, 0, width);
    if (!st && c->s->op == HT_OP_LAYER_NORM) st = expect_weight(c, 1, true, 1, 0, 0, width);
    return st;
}

static enum hearth_status check_rope_step(const struct checker *c) {
    const struct ht_step *s = c->s;
    enum hearth_status st = expect_map(c);
    if (!st) st = expect_heads(c, in(c, 0), s->u.rope.n_heads, s->u.rope.head_dim);
    if (st) return st;
    if (s->u.rope.rope >= c->p->n_ropes) return fail_step(c, "rope id out of range");
    if ((unsigned)s->u.rope.pairing > HT_ROPE_HALVES) return fail_step(c, "no such pairing");
    uint32_t n_rot = c->p->ropes[s->u.rope.rope].n_rot;
    if (n_rot > s->u.rope.head_dim)
        return fail_step(c, "rotates %" PRIu32 " of a head's %" PRIu32 " elements", n_rot,
                         s->u.rope.head_dim);
    return HEARTH_OK;
}

static enum hearth_status check_attn_params(const struct checker *c) {
    const struct ht_step *s = c->s;
    if (s->layer >= c->p->n_layers) return fail_step(c, "layer %" PRIu32 " has no pages", s->layer);
    if (s->u.attn.n_kv_heads != c->p->n_kv_heads || s->u.attn.head_dim != c->p->head_dim)
        return fail_step(
            c, "%" PRIu32 " KV heads of %" PRIu32 ", the plan's pages hold %" PRIu32 " of %" PRIu32,
            s->u.attn.n_kv_heads, s->u.attn.head_dim, c->p->n_kv_heads, c->p->head_dim);
    return HEARTH_OK;
}

static enum hearth_status check_kv_append(struct checker *c) {
    enum hearth_status st = expect_counts(c, 2, 0);
    if (!st) st = check_attn_params(c);
    if (!st) st = expect_heads(c, in(c, 0), c->p->n_kv_heads, c->p->head_dim);
    if (!st) st = expect_heads(c, in(c, 1), c->p->n_kv_heads, c->p->head_dim);
    if (st) return st;
    if (c->appended[c->s->layer])
        return fail_step(c, "a second one for layer %" PRIu32, c->s->layer);
    c->appended[c->s->layer] = true;
    return HEARTH_OK;
}

static enum hearth_status check_attention(const struct checker *c) {
    const struct ht_step *s = c->s;
    enum hearth_status st = expect_map(c);
    if (!st) st = check_attn_params(c);
    if (!st) st = expect_heads(c, in(c, 0), s->u.attn.n_heads, s->u.attn.head_dim);
    if (st) return st;
    if (s->u.attn.n_heads % s->u.attn.n_kv_heads != 0)
        return fail_step(c, "%" PRIu32 " heads on %" PRIu32 " KV heads", s->u.attn.n_heads,
                         s->u.attn.n_kv_heads);
    if (!isfinite(s->u.attn.scale) || s->u.attn.scale <= 0 || !isfinite(s->u.attn.soft_cap) ||
        s->u.attn.soft_cap < 0)
        return fail_step(c, "scale %g, cap %g", (double)s->u.attn.scale,
                         (double)s->u.attn.soft_cap);
    if (!c->appended[s->layer])
        return fail_step(c, "no kv_append of layer %" PRIu32 " before it", s->layer);
    return HEARTH_OK;
}

static enum hearth_status check_moe_counts(const struct checker *c) {
    uint32_t n = c->s->u.moe.n_experts, used = c->s->u.moe.n_used;
    if (used < 1 || used > n) return fail_step(c, "%" PRIu32 " of %" PRIu32 " experts", used, n);
    return HEARTH_OK;
}

static enum hearth_status check_moe_route(const struct checker *c) {
    const struct ht_step *s = c->s;
    enum hearth_status st = expect_counts(c, 1, 2);
    if (!st) st = check_moe_counts(c);
    if (!st) st = expect_width(c, in(c, 0), s->u.moe.n_experts);
    if (!st) st = expect_width(c, out(c, 0), s->u.moe.n_used);
    if (!st) st = expect_width(c, out(c, 1), s->u.moe.n_used);
    if (!st && !isfinite(s->u.moe.scale)) st = fail_step(c, "scale is not finite");
    return st;
}

// Whether tensor t holds ids of experts of which there are n.
static bool routes_over(const struct checker *c, uint32_t t, uint32_t n) {
    for (uint32_t i = c->index; i-- > 0;) {
        const struct ht_step *s = &c->p->steps[i];
        if (s->op == HT_OP_MOE_ROUTE && s->out[0] == t) return s->u.moe.n_experts == n;
    }
    return false;
}

static enum hearth_status check_moe_ffn(const struct checker *c) {
    const struct ht_step *s = c->s;
    enum hearth_status st = expect_counts(c, 3, 1);
    if (!st) st = check_moe_counts(c);
    if (!st) st = expect_act(c, s->u.moe.kind);
    if (!st) st = expect_width(c, in(c, 1), s->u.moe.n_used);
    if (!st) st = expect_width(c, in(c, 2), s->u.moe.n_used);
    uint32_t n = s->u.moe.n_experts;
    if (!st && !routes_over(c, s->in[1], n))
        st = fail_step(c, "input 1 is no route over %" PRIu32 " experts", n);
    if (!st) st = expect_weight(c, 0, false, 3, n, 0, in(c, 0)->width);
    if (st) return st;
    uint64_t ffn = c->p->weights[s->w[0]].ne[1];
    st = expect_weight(c, 1, false, 3, n, ffn, in(c, 0)->width);
    return st ? st : expect_weight(c, 2, false, 3, n, out(c, 0)->width, ffn);
}

static enum hearth_status check_table(const struct checker *c) { // EMBED, ADD_POS
    enum hearth_status st = c->s->op == HT_OP_EMBED ? expect_counts(c, 0, 1) : expect_map(c);
    uint64_t n_rows = c->s->op == HT_OP_EMBED ? c->p->n_vocab : 0;
    if (!st) st = expect_weight(c, 0, false, 2, 0, n_rows, out(c, 0)->width);
    if (!st && c->s->op == HT_OP_EMBED && !isfinite(c->s->u.embed.scale))
        st = fail_step(c, "scale is not finite");
    return st;
}

static enum hearth_status check_binary(const struct checker *c) { // ACT_MUL, ADD
    enum hearth_status st = expect_counts(c, 2, 1);
    if (!st) st = expect_width(c, in(c, 1), in(c, 0)->width);
    if (!st) st = expect_width(c, out(c, 0), in(c, 0)->width);
    if (!st && c->s->op == HT_OP_ACT_MUL) st = expect_act(c, c->s->u.act.kind);
    return st;
}

static enum hearth_status check_shapes(struct checker *c) {
    enum hearth_status st;
    switch (c->s->op) {
    case HT_OP_EMBED:
    case HT_OP_ADD_POS: return check_table(c);
    case HT_OP_SELECT: return expect_map(c);
    case HT_OP_LINEAR: return check_linear(c);
    case HT_OP_RMS_NORM:
    case HT_OP_LAYER_NORM:
    case HT_OP_HEAD_NORM: return check_norm(c);
    case HT_OP_ROPE: return check_rope_step(c);
    case HT_OP_KV_APPEND: return check_kv_append(c);
    case HT_OP_ATTENTION: return check_attention(c);
    case HT_OP_ACT: st = expect_map(c); return st ? st : expect_act(c, c->s->u.act.kind);
    case HT_OP_ACT_MUL:
    case HT_OP_ADD: return check_binary(c);
    case HT_OP_MOE_ROUTE: return check_moe_route(c);
    case HT_OP_MOE_FFN: return check_moe_ffn(c);
    case HT_N_OPS: break;
    }
    return fail_step(c, "no such operation (%d)", (int)c->s->op);
}

// ---- ids, row kinds, types

static enum hearth_status check_ids(const struct checker *c) {
    const struct ht_step *s = c->s;
    if (s->n_in > 3 || s->n_out > 3)
        return fail_step(c, "%" PRIu32 " inputs, %" PRIu32 " outputs", s->n_in, s->n_out);
    for (uint32_t i = 0; i < s->n_in; i++) {
        if (s->in[i] >= c->p->n_tensors) return fail_step(c, "input id %" PRIu32, s->in[i]);
        if (!c->seen[s->in[i]].written)
            return fail_step(c, "reads %s before it is written", in(c, (int)i)->name);
    }
    for (uint32_t i = 0; i < s->n_out; i++) {
        if (s->out[i] >= c->p->n_tensors) return fail_step(c, "output id %" PRIu32, s->out[i]);
        if (c->seen[s->out[i]].written)
            return fail_step(c, "writes %s a second time", out(c, (int)i)->name);
        for (uint32_t k = 0; k < i; k++)
            if (s->out[k] == s->out[i]) return fail_step(c, "one tensor for two outputs");
    }
    for (int i = 0; i < 6; i++)
        if (s->w[i] != HT_NONE && s->w[i] >= c->p->n_weights)
            return fail_step(c, "weight id %" PRIu32, s->w[i]);
    return HEARTH_OK;
}

static bool tokens_only(enum ht_op op) {
    return op == HT_OP_EMBED || op == HT_OP_ADD_POS || op == HT_OP_ROPE || op == HT_OP_KV_APPEND ||
           op == HT_OP_ATTENTION || op == HT_OP_SELECT;
}

static enum hearth_status check_rows_and_types(const struct checker *c) {
    const struct ht_step *s = c->s;
    enum ht_rows rows = s->n_in > 0 ? in(c, 0)->rows : HT_ROWS_TOKENS;
    if (tokens_only(s->op) && rows != HT_ROWS_TOKENS)
        return fail_step(c, "%s has a row an output, expected a row a token", in(c, 0)->name);
    enum ht_rows out_rows = s->op == HT_OP_SELECT ? HT_ROWS_OUTPUTS : rows;
    for (uint32_t i = 0; i < s->n_in; i++) {
        bool ids = s->op == HT_OP_MOE_FFN && i == 1;
        if (in(c, (int)i)->rows != rows)
            return fail_step(c, "%s and %s have rows of two kinds", in(c, 0)->name,
                             in(c, (int)i)->name);
        if (in(c, (int)i)->type != (ids ? HT_TYPE_I32 : HT_TYPE_F32))
            return fail_step(c, "%s has the wrong type", in(c, (int)i)->name);
    }
    for (uint32_t i = 0; i < s->n_out; i++) {
        bool ids = s->op == HT_OP_MOE_ROUTE && i == 0;
        if (out(c, (int)i)->rows != out_rows)
            return fail_step(c, "%s has rows of the wrong kind", out(c, (int)i)->name);
        if (out(c, (int)i)->type != (ids ? HT_TYPE_I32 : HT_TYPE_F32))
            return fail_step(c, "%s has the wrong type", out(c, (int)i)->name);
    }
    return HEARTH_OK;
}

static uint32_t head_dim_of(const struct ht_step *s) { // 0: it does not work on heads
    switch (s->op) {
    case HT_OP_HEAD_NORM: return s->u.norm.head_dim;
    case HT_OP_ROPE: return s->u.rope.head_dim;
    case HT_OP_KV_APPEND:
    case HT_OP_ATTENTION: return s->u.attn.head_dim;
    default: return 0;
    }
}

// Norms and rotations of heads make queries and keys, and nothing else: backends give heads to
// threads by KV head, lay them out as they like, and finish them before anybody reads them.
static enum hearth_status check_heads(const struct checker *c) {
    const struct ht_step *s = c->s;
    uint32_t d = head_dim_of(s);
    for (uint32_t i = 0; i < s->n_in; i++) {
        uint32_t turned = c->seen[s->in[i]].turned;
        if (turned != 0 && turned != d)
            return fail_step(c, "reads %s, which is for steps over heads of %" PRIu32,
                             in(c, (int)i)->name, turned);
    }
    if (s->op == HT_OP_ATTENTION) c->seen[s->in[0]].attended = true;
    if (s->op != HT_OP_HEAD_NORM && s->op != HT_OP_ROPE) return HEARTH_OK;
    if (c->seen[s->in[0]].attended)
        return fail_step(c, "attention has read %s already", in(c, 0)->name);
    if (in(c, 0)->width / d % c->p->n_kv_heads != 0)
        return fail_step(c, "%" PRIu32 " heads, for %" PRIu32 " KV heads", in(c, 0)->width / d,
                         c->p->n_kv_heads);
    c->seen[s->out[0]].turned = d;
    return HEARTH_OK;
}

static enum hearth_status check_steps(struct checker *c) {
    const struct ht_plan *p = c->p;
    for (uint32_t i = 0; i < p->n_steps; i++) {
        c->s = &p->steps[i];
        c->index = i;
        enum hearth_status st = check_ids(c);
        if (!st) st = check_shapes(c); // counts first: the rest looks at in[0]
        if (!st) st = check_rows_and_types(c);
        if (!st) st = check_heads(c);
        if (st) return st;
        for (uint32_t k = 0; k < c->s->n_out; k++) c->seen[c->s->out[k]].written = true;
    }
    return HEARTH_OK;
}

static enum hearth_status check_ends(const struct checker *c) {
    const struct ht_plan *p = c->p;
    if (p->logits >= p->n_tensors || !c->seen[p->logits].written)
        return ht_fail(c->err, HEARTH_E_ARG, "the plan never writes its logits");
    const struct ht_tensor *t = &p->tensors[p->logits];
    if (t->rows != HT_ROWS_OUTPUTS || t->type != HT_TYPE_F32 || t->width != p->n_vocab)
        return ht_fail(c->err, HEARTH_E_ARG,
                       "the plan's logits (%s) have width %" PRIu32
                       ", expected F32 rows of %" PRIu32 " for outputs",
                       t->name, t->width, p->n_vocab);
    if (c->seen[p->logits].turned)
        return ht_fail(c->err, HEARTH_E_ARG, "the plan's logits (%s) are heads", t->name);
    for (uint32_t i = 0; i < p->n_steps; i++)
        for (uint32_t k = 0; k < p->steps[i].n_in; k++)
            if (p->steps[i].in[k] == p->logits)
                return ht_fail(c->err, HEARTH_E_ARG, "step %" PRIu32 " reads the plan's logits", i);
    for (uint32_t l = 0; l < p->n_layers; l++)
        if (!c->appended[l])
            return ht_fail(c->err, HEARTH_E_ARG, "layer %" PRIu32 " of the plan writes no KV", l);
    return HEARTH_OK;
}

enum hearth_status ht_plan_check(const struct ht_plan *p, struct hearth_error *err) {
    if (p->n_layers == 0 || p->n_kv_heads == 0 || p->head_dim == 0 || p->n_vocab == 0 ||
        p->n_steps == 0 || p->n_tensors == 0)
        return ht_fail(err, HEARTH_E_ARG,
                       "a plan of %" PRIu32 " steps, %" PRIu32 " layers, %" PRIu32
                       " KV heads of %" PRIu32 " and %" PRIu32 " tokens of vocabulary",
                       p->n_steps, p->n_layers, p->n_kv_heads, p->head_dim, p->n_vocab);
    enum hearth_status st = check_tensors(p, err);
    for (uint32_t i = 0; i < p->n_weights && !st; i++) st = check_weight(p, i, err);
    for (uint32_t i = 0; i < p->n_ropes && !st; i++) st = check_rope(p, i, err);
    if (st) return st;
    struct checker c = {.p = p, .err = err};
    c.seen = ht_calloc(p->n_tensors, sizeof *c.seen);
    c.appended = ht_calloc(p->n_layers, sizeof *c.appended);
    if (!c.seen || !c.appended)
        st = ht_fail_nomem(err, p->n_tensors * sizeof *c.seen, "checking the plan");
    if (!st) st = check_steps(&c);
    if (!st) st = check_ends(&c);
    ht_free(c.seen);
    ht_free(c.appended);
    return st;
}
