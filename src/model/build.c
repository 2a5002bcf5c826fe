// SPDX-License-Identifier: MIT
// The plan builder: binds the file's tensors as weights of an expected shape and appends steps.
// Keeps: ids that it hands out are valid while status is OK. One thread builds one model.
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/checked.h"
#include "base/mem.h"
#include "model/model_internal.h"

// ---- failures and keys

void ht_build_fail(struct ht_build *b, enum hearth_status status, const char *fmt, ...) {
    if (b->status) return;
    char text[sizeof b->err->message];
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    b->status = ht_fail(b->err, status, "%s: %s", ht_gguf_name(b->g), text);
}

static void fail_nomem(struct ht_build *b, size_t n_bytes) {
    if (!b->status) b->status = ht_fail_nomem(b->err, n_bytes, "the plan");
}

static const char *key_name(const struct ht_build *b, const char *suffix, char key[160]) {
    snprintf(key, 160, "%s.%s", b->arch, suffix);
    return key;
}

void ht_key_u32(struct ht_build *b, const char *suffix, bool required, uint32_t *out) {
    char key[160];
    if (!b->status)
        b->status = ht_gguf_get_u32(b->g, key_name(b, suffix, key), required, out, b->err);
}

void ht_key_f32(struct ht_build *b, const char *suffix, bool required, float *out) {
    char key[160];
    if (!b->status)
        b->status = ht_gguf_get_f32(b->g, key_name(b, suffix, key), required, out, b->err);
}

void ht_key_str(struct ht_build *b, const char *suffix, struct ht_str *out) {
    char key[160];
    if (!b->status) b->status = ht_gguf_get_str(b->g, key_name(b, suffix, key), false, out, b->err);
}

// ---- growing tables

// Room for one more element; NULL on failure, with the table as it was.
static void *grow(struct ht_build *b, void *table, uint32_t n, uint32_t *cap, size_t size) {
    if (n < *cap) return table;
    uint32_t wanted = *cap ? *cap * 2 : 64; // far from 2^32: each element came with a file tensor
    void *p = ht_realloc(table, wanted, size);
    if (!p)
        fail_nomem(b, wanted * size);
    else
        *cap = wanted;
    return p;
}

// "blk.3.attn_q"
static void weight_name(const struct ht_build *b, const char *name, char out[160]) {
    if (b->layer == HT_NONE)
        snprintf(out, 160, "%s", name);
    else
        snprintf(out, 160, "blk.%" PRIu32 ".%s", b->layer, name);
}

// The same in the arena.
static const char *full_name(struct ht_build *b, const char *name) {
    char text[160];
    weight_name(b, name, text);
    char *s = ht_arena_strndup(b->arena, text, strlen(text));
    if (!s) fail_nomem(b, strlen(text));
    return s;
}

static uint32_t new_tensor(struct ht_build *b, const char *name, enum ht_type type,
                           enum ht_rows rows, uint64_t width) {
    void *p = grow(b, b->tensors, b->n_tensors, &b->cap_tensors, sizeof *b->tensors);
    if (p) b->tensors = p;
    const char *full = full_name(b, name);
    if (!b->status && width > UINT32_MAX)
        ht_build_fail(b, HEARTH_E_FORMAT, "tensor %s would be %" PRIu64 " wide", full, width);
    if (b->status) return HT_NONE;
    b->tensors[b->n_tensors] = (struct ht_tensor){full, type, rows, (uint32_t)width};
    return b->n_tensors++;
}

static uint32_t new_weight(struct ht_build *b, struct ht_weight w,
                           const struct ht_gguf_tensor *source) {
    void *p = grow(b, b->weights, b->n_weights, &b->cap_weights, sizeof *b->weights);
    if (p) b->weights = p;
    void *q = grow(b, b->sources, b->n_weights, &b->cap_sources, sizeof *b->sources);
    if (q) b->sources = q;
    if (b->status) return HT_NONE;
    b->weights[b->n_weights] = w;
    b->sources[b->n_weights] = source;
    return b->n_weights++;
}

// ---- weights

static void shape_text(int n_dims, const uint64_t *ne, char out[96]) {
    size_t at = 0;
    out[0] = 0;
    for (int d = n_dims - 1; d >= 0; d--) {
        int n = snprintf(out + at, 96 - at, "[%" PRIu64 "]", ne[d]);
        if (n < 0 || (size_t)n >= 96 - at) return;
        at += (size_t)n;
    }
}

// A trailing dimension of 1 may be written or left out.
static bool same_shape(const struct ht_gguf_tensor *t, int n_dims, const uint64_t *ne) {
    for (int d = 0; d < 4; d++) {
        uint64_t have = d < t->n_dims ? t->ne[d] : 1, want = d < n_dims ? ne[d] : 1;
        if (have != want) return false;
    }
    return true;
}

// "blk.3.attn_q.weight" of the file, whose shape, format and presence are as they should be; NULL
// after a failure.
static const struct ht_gguf_tensor *find(struct ht_build *b, const char *name, int n_dims,
                                         const uint64_t *ne) {
    if (b->status) return NULL;
    char full[160], want[96], have[96];
    weight_name(b, name, full);
    const struct ht_gguf_tensor *t = ht_gguf_find_tensor(b->g, full);
    const struct ht_format_info *f = t ? ht_format_get(t->format) : NULL;
    shape_text(n_dims, ne, want);
    if (!t)
        ht_build_fail(b, HEARTH_E_FORMAT, "tensor %s is missing, expected with shape %s", full,
                      want);
    else if (!same_shape(t, n_dims, ne)) {
        shape_text(t->n_dims, t->ne, have);
        ht_build_fail(b, HEARTH_E_FORMAT,
                      "tensor %s has shape %s, expected %s from the hyper-parameters", full, have,
                      want);
    } else if (n_dims == 1 && t->format != HT_F32)
        ht_build_fail(b, HEARTH_E_UNSUPPORTED, "vector %s is in format %s, expected F32", full,
                      f ? f->name : "unknown");
    else if (!f || !f->to_f32)
        ht_build_fail(b, HEARTH_E_UNSUPPORTED, "tensor %s is in format %s, which is not supported",
                      full, f ? f->name : "unknown");
    else if ((uintptr_t)t->data % 4 != 0)
        ht_build_fail(b, HEARTH_E_UNSUPPORTED,
                      "tensor %s does not begin at a multiple of 4 bytes of memory "
                      "(general.alignment, or where the caller's bytes lie)",
                      full);
    return b->status ? NULL : t;
}

bool ht_beside(const char *name, const char *end, const char *other_end, char out[160]) {
    size_t len = strlen(name), n_end = strlen(end);
    if (len <= n_end || strcmp(name + len - n_end, end) != 0) return false;
    int n = snprintf(out, 160, "%.*s%s", (int)(len - n_end), name, other_end);
    return n > 0 && n < 160;
}

// "blk.3.attn_q.scale" beside "blk.3.attn_q.weight", one number a matrix, as in files of NVFP4;
// NULL: there is none, or a failure.
static const float *bind_scale(struct ht_build *b, const char *name, uint64_t n_matrices) {
    char text[160];
    if (!ht_beside(name, "weight", "scale", text) || !ht_has_weight(b, text)) return NULL;
    uint32_t id = ht_bind_vector(b, text, n_matrices);
    return id == HT_NONE ? NULL : (const float *)(const void *)b->weights[id].data;
}

static uint32_t bind(struct ht_build *b, const char *name, int n_dims, const uint64_t *ne) {
    const struct ht_gguf_tensor *t = find(b, name, n_dims, ne);
    if (!t) return HT_NONE;
    struct ht_weight w = {.name = t->name,
                          .format = t->format,
                          .n_dims = n_dims,
                          .data = t->data,
                          .n_bytes = t->n_bytes};
    for (int d = 0; d < 3; d++) w.ne[d] = d < n_dims ? ne[d] : 1;
    if (n_dims > 1) w.scale = bind_scale(b, name, w.ne[2]);
    return new_weight(b, w, t);
}

uint32_t ht_bind_vector(struct ht_build *b, const char *name, uint64_t n) {
    return bind(b, name, 1, (uint64_t[]){n});
}

uint32_t ht_bind_matrix(struct ht_build *b, const char *name, uint64_t n_out, uint64_t n_in) {
    return bind(b, name, 2, (uint64_t[]){n_in, n_out});
}

uint32_t ht_bind_experts(struct ht_build *b, const char *name, uint64_t n_experts, uint64_t n_out,
                         uint64_t n_in) {
    return bind(b, name, 3, (uint64_t[]){n_in, n_out, n_experts});
}

bool ht_has_weight(const struct ht_build *b, const char *name) {
    char full[160];
    weight_name(b, name, full);
    return ht_gguf_find_tensor(b->g, full) != NULL;
}

uint32_t ht_bind_bias(struct ht_build *b, const char *name, uint64_t n, bool required) {
    return required || ht_has_weight(b, name) ? ht_bind_vector(b, name, n) : HT_NONE;
}

// Cuts a weight down to rows (elements of a vector) [first, first + n), which it has.
static uint32_t bind_part(struct ht_build *b, const char *name, int n_dims, const uint64_t *ne,
                          uint64_t first, uint64_t n) {
    uint32_t id = bind(b, name, n_dims, ne);
    if (id == HT_NONE) return HT_NONE;
    struct ht_weight *w = &b->weights[id];
    uint64_t row_bytes = w->n_bytes / w->ne[n_dims - 1];
    char text[200];
    snprintf(text, sizeof text, "%s[%" PRIu64 ":%" PRIu64 "]", w->name, first, first + n);
    w->name = ht_arena_strndup(b->arena, text, strlen(text));
    if (!w->name) fail_nomem(b, strlen(text));
    w->data += first * row_bytes;
    w->n_bytes = n * row_bytes;
    w->ne[n_dims - 1] = n;
    if ((uintptr_t)w->data % 4 != 0)
        ht_build_fail(b, HEARTH_E_UNSUPPORTED, "%s does not begin at a multiple of 4 bytes", text);
    return b->status ? HT_NONE : id;
}

uint32_t ht_bind_matrix_rows(struct ht_build *b, const char *name, uint64_t n_out, uint64_t n_in,
                             uint64_t first, uint64_t n) {
    return bind_part(b, name, 2, (uint64_t[]){n_in, n_out}, first, n);
}

uint32_t ht_bind_bias_part(struct ht_build *b, const char *name, uint64_t n_all, uint64_t first,
                           uint64_t n, bool required) {
    if (!required && !ht_has_weight(b, name)) return HT_NONE;
    return bind_part(b, name, 1, (uint64_t[]){n_all}, first, n);
}

// ---- steps

static struct ht_step *new_step(struct ht_build *b, enum ht_op op) {
    if (b->status) return NULL;
    void *p = grow(b, b->steps, b->n_steps, &b->cap_steps, sizeof *b->steps);
    if (!p) return NULL;
    b->steps = p;
    struct ht_step *s = &b->steps[b->n_steps++];
    *s = (struct ht_step){.op = op, .layer = b->layer};
    for (int i = 0; i < 6; i++) s->w[i] = HT_NONE;
    return s;
}

// A step from x (HT_NONE: from the batch) to one new tensor of its kind of rows.
static struct ht_step *map_step(struct ht_build *b, enum ht_op op, const char *name, uint32_t x,
                                uint64_t width) {
    struct ht_step *s = new_step(b, op);
    if (!s) return NULL;
    enum ht_rows rows = x == HT_NONE ? HT_ROWS_TOKENS : b->tensors[x].rows;
    if (op == HT_OP_SELECT) rows = HT_ROWS_OUTPUTS;
    if (x != HT_NONE) s->in[s->n_in++] = x;
    s->out[s->n_out++] = new_tensor(b, name, HT_TYPE_F32, rows, width);
    return b->status ? NULL : s;
}

// The same width as x has.
static struct ht_step *same_step(struct ht_build *b, enum ht_op op, const char *name, uint32_t x) {
    return b->status ? NULL : map_step(b, op, name, x, b->tensors[x].width);
}

static uint32_t result(const struct ht_step *s) {
    return s ? s->out[0] : HT_NONE;
}

uint32_t ht_add_embed(struct ht_build *b, const char *name, uint32_t table, float scale) {
    struct ht_step *s =
        b->status ? NULL : map_step(b, HT_OP_EMBED, name, HT_NONE, b->weights[table].ne[0]);
    if (!s) return HT_NONE;
    s->w[0] = table;
    s->u.embed.scale = scale;
    return s->out[0];
}

uint32_t ht_add_pos(struct ht_build *b, const char *name, uint32_t x, uint32_t table) {
    struct ht_step *s = same_step(b, HT_OP_ADD_POS, name, x);
    if (s) s->w[0] = table;
    return result(s);
}

uint32_t ht_add_select(struct ht_build *b, const char *name, uint32_t x) {
    return result(same_step(b, HT_OP_SELECT, name, x));
}

void ht_add_linears(struct ht_build *b, uint32_t x, const struct ht_linear_out *l, uint32_t n,
                    uint32_t *out) {
    for (uint32_t i = 0; i < n; i++) out[i] = HT_NONE;
    struct ht_step *s = new_step(b, HT_OP_LINEAR);
    if (!s) return;
    s->in[s->n_in++] = x;
    for (uint32_t i = 0; i < n && !b->status; i++) {
        s->w[i] = l[i].weight;
        s->w[3 + i] = l[i].bias;
        out[i] = s->out[s->n_out++] = new_tensor(b, l[i].name, HT_TYPE_F32, b->tensors[x].rows,
                                                 b->weights[l[i].weight].ne[1]);
    }
}

uint32_t ht_add_linear(struct ht_build *b, const char *name, uint32_t x, uint32_t weight,
                       uint32_t bias) {
    uint32_t out;
    ht_add_linears(b, x, &(struct ht_linear_out){name, weight, bias}, 1, &out);
    return out;
}

uint32_t ht_add_rms_norm(struct ht_build *b, const char *name, uint32_t x, uint32_t w) {
    struct ht_step *s = same_step(b, HT_OP_RMS_NORM, name, x);
    if (!s) return HT_NONE;
    s->w[0] = w;
    s->u.norm.eps = b->hp.norm_eps;
    return s->out[0];
}

uint32_t ht_add_layer_norm(struct ht_build *b, const char *name, uint32_t x, uint32_t w,
                           uint32_t bias) {
    struct ht_step *s = same_step(b, HT_OP_LAYER_NORM, name, x);
    if (!s) return HT_NONE;
    s->w[0] = w;
    s->w[1] = bias;
    s->u.norm.eps = b->hp.norm_eps;
    return s->out[0];
}

uint32_t ht_add_head_norm(struct ht_build *b, const char *name, uint32_t x, uint32_t w) {
    struct ht_step *s = same_step(b, HT_OP_HEAD_NORM, name, x);
    if (!s) return HT_NONE;
    s->w[0] = w;
    s->u.norm.eps = b->hp.norm_eps;
    s->u.norm.head_dim = b->hp.head_dim;
    return s->out[0];
}

uint32_t ht_add_rope(struct ht_build *b, const char *name, uint32_t x, uint32_t rope,
                     enum ht_rope_pairing pairing) {
    struct ht_step *s = same_step(b, HT_OP_ROPE, name, x);
    if (!s) return HT_NONE;
    s->u.rope.rope = rope;
    s->u.rope.head_dim = b->hp.head_dim;
    s->u.rope.n_heads = b->tensors[x].width / b->hp.head_dim;
    s->u.rope.pairing = pairing;
    return s->out[0];
}

uint32_t ht_add_attention(struct ht_build *b, const char *name, uint32_t q, uint32_t k,
                          uint32_t v) {
    struct ht_step *append = new_step(b, HT_OP_KV_APPEND);
    if (!append) return HT_NONE;
    append->n_in = 2;
    append->in[0] = k;
    append->in[1] = v;
    append->u.attn.n_heads = b->hp.n_heads;
    append->u.attn.n_kv_heads = b->hp.n_kv_heads;
    append->u.attn.head_dim = b->hp.head_dim;
    struct ht_step *s = same_step(b, HT_OP_ATTENTION, name, q);
    if (!s) return HT_NONE;
    s->u.attn.n_heads = b->hp.n_heads;
    s->u.attn.n_kv_heads = b->hp.n_kv_heads;
    s->u.attn.head_dim = b->hp.head_dim;
    s->u.attn.window = b->hp.window;
    s->u.attn.scale = (float)(1 / sqrt((double)b->hp.head_dim));
    return s->out[0];
}

uint32_t ht_add_act(struct ht_build *b, const char *name, uint32_t x, enum ht_act kind) {
    struct ht_step *s = same_step(b, HT_OP_ACT, name, x);
    if (s) s->u.act.kind = kind;
    return result(s);
}

uint32_t ht_add_act_mul(struct ht_build *b, const char *name, uint32_t gate, uint32_t up,
                        enum ht_act kind) {
    struct ht_step *s = same_step(b, HT_OP_ACT_MUL, name, gate);
    if (!s) return HT_NONE;
    s->in[s->n_in++] = up;
    s->u.act.kind = kind;
    return s->out[0];
}

uint32_t ht_add_add(struct ht_build *b, const char *name, uint32_t x, uint32_t y) {
    struct ht_step *s = same_step(b, HT_OP_ADD, name, x);
    if (s) s->in[s->n_in++] = y;
    return result(s);
}

uint32_t ht_add_moe(struct ht_build *b, const char *name, uint32_t x, uint32_t scores,
                    const uint32_t w[3], enum ht_act kind) {
    struct ht_step *s = new_step(b, HT_OP_MOE_ROUTE);
    if (!s) return HT_NONE;
    s->n_in = 1;
    s->in[0] = scores;
    s->n_out = 2;
    enum ht_rows rows = b->tensors[x].rows;
    uint32_t ids = new_tensor(b, "ffn_experts", HT_TYPE_I32, rows, b->hp.n_experts_used);
    uint32_t weights = new_tensor(b, "ffn_expert_weights", HT_TYPE_F32, rows, b->hp.n_experts_used);
    s->out[0] = ids;
    s->out[1] = weights;
    s->u.moe.n_experts = b->hp.n_experts;
    s->u.moe.n_used = b->hp.n_experts_used;
    s->u.moe.normalise = true;
    s->u.moe.scale = 1;
    s = same_step(b, HT_OP_MOE_FFN, name, x);
    if (!s) return HT_NONE;
    s->in[s->n_in++] = ids;
    s->in[s->n_in++] = weights;
    for (int i = 0; i < 3; i++) s->w[i] = w[i];
    s->u.moe.n_experts = b->hp.n_experts;
    s->u.moe.n_used = b->hp.n_experts_used;
    s->u.moe.kind = kind;
    return s->out[0];
}
