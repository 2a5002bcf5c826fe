// SPDX-License-Identifier: MIT
// hearth_quantize: a copy of a model with its matrices in another format. Metadata is copied but
// for the keys that say how the file was split and what format it has. Works row by row while the
// file is written: its memory is the metadata twice, one row and the writer's window.
#include <math.h>
#include <string.h>

#include "api/api_internal.h"
#include "base/buf.h"
#include "base/checked.h"
#include "base/float_env.h"
#include "base/mem.h"

// general.file_type, as the format's specification numbers them.
static bool file_type_of(enum ht_format f, uint32_t *out) {
    switch (f) {
    case HT_F32: *out = 0; return true;
    case HT_F16: *out = 1; return true;
    case HT_Q8_0: *out = 7; return true;
    case HT_BF16: *out = 32; return true;
    default: return false;
    }
}

struct conversion { // of one tensor's rows
    const struct ht_gguf_tensor *t;
    enum ht_format format; // of `to`
    const struct ht_format_info *from, *to;
    size_t in_row_bytes, out_row_bytes;
    float most; // magnitude that `to` holds
    float *row; // shared by all conversions: room for the longest row
};

// The largest magnitude that the format rounds to a number, of a weight or, with Q8_0, of the
// largest of a block, whose step of a 127th is an f16: from 65520 on those are infinite.
static float largest(enum ht_format f) {
    switch (f) {
    case HT_F16: return 65519.996f;
    case HT_BF16: return 0x1.fefffep127f; // half a step above the largest
    case HT_Q8_0: return 65519.0f * 127;
    default: return INFINITY; // F32 takes what there is, infinities and NaN as well
    }
}

static enum hearth_status convert_rows(void *user, uint64_t first_row, uint64_t n_rows, void *out,
                                       struct hearth_error *err) {
    const struct conversion *c = user;
    const uint8_t *in = c->t->data + (size_t)first_row * c->in_row_bytes;
    uint8_t *to = out;
    size_t n = (size_t)c->t->ne[0];
    for (uint64_t r = 0; r < n_rows; r++, in += c->in_row_bytes, to += c->out_row_bytes) {
        c->from->to_f32(in, c->row, n / c->from->block_len);
        for (size_t i = 0; i < n && c->most < INFINITY; i++)
            if (!(fabsf(c->row[i]) <= c->most))
                return ht_fail(err, HEARTH_E_UNSUPPORTED,
                               "tensor %s has a weight of %g, which does not fit format %s",
                               c->t->name, (double)c->row[i], c->to->name);
        c->to->from_f32(c->row, to, n / c->to->block_len);
    }
    return HEARTH_OK;
}

static bool is_weight(const char *name) {
    size_t n = strlen(name);
    return n >= 7 && strcmp(name + n - 7, ".weight") == 0;
}

// Tables of integers, and F64: no weights that another format could hold.
static bool is_no_weight(const struct ht_format_info *f) {
    return f && !f->to_f32 && f->block_len == 1;
}

// The format that tensor t gets. Matrices of weights (and stacks of them, one an expert) whose rows
// are whole blocks take the new one. Vectors stay F32, stacks of them too (biases of experts, norms
// of heads), as do the tables whose small errors would be large ones later: positions, kinds of
// tokens, and the router that picks experts. So do, in files of architectures that are not run here
// yet, the tensors that llama.cpp has no other kernels for or leaves as they are (llama-quant.cpp
// has their names).
static enum ht_format format_for(const struct ht_gguf_tensor *t, enum ht_format wanted) {
    static const char *const kept[] = {"_norm.weight",
                                       "position_embd.weight",
                                       "token_types.weight",
                                       "ffn_gate_inp.weight",
                                       "ssm_conv1d",
                                       "shortconv.conv",
                                       "attn_rel_b",
                                       "patch_embd",
                                       "altup",
                                       "laurel",
                                       "per_layer_model_proj",
                                       "indexer.",
                                       "patch_merger",
                                       "rel_pos",
                                       "sam.",
                                       "codebook",
                                       "code_embd",
                                       "time_mix_first",
                                       "time_mix_lerp",
                                       "time_mix_decay_w",
                                       "time_mix_w",
                                       "time_mix_a",
                                       "time_mix_v0",
                                       "time_mix_v1",
                                       "time_mix_v2",
                                       "time_mix_g1",
                                       "time_mix_g2"};
    if (is_no_weight(ht_format_get(t->format))) return t->format;
    uint64_t n_rows = t->ne[1] * t->ne[2] * t->ne[3]; // fit: the file has them
    if (t->n_dims < 2 || n_rows == 1 || t->ne[0] % ht_format_get(wanted)->block_len != 0 ||
        !is_weight(t->name))
        return HT_F32;
    for (size_t i = 0; i < sizeof kept / sizeof *kept; i++)
        if (strstr(t->name, kept[i])) return HT_F32;
    return wanted;
}

static enum hearth_status plan_tensor(const struct ht_gguf *g, const struct ht_gguf_tensor *t,
                                      enum ht_format wanted, struct conversion *c,
                                      struct hearth_error *err) {
    enum ht_format to = format_for(t, wanted);
    uint64_t in_bytes, out_bytes;
    *c = (struct conversion){.t = t,
                             .format = to,
                             .from = ht_format_get(t->format),
                             .to = ht_format_get(to),
                             .most = largest(to)};
    if (!c->from || (!c->from->to_f32 && to != t->format))
        return ht_fail(err, HEARTH_E_UNSUPPORTED,
                       "%s: tensor %s is in format %s, which cannot be read", ht_gguf_name(g),
                       t->name, c->from ? c->from->name : "(unknown)");
    if (!ht_format_row_bytes(t->format, t->ne[0], &in_bytes) ||
        !ht_format_row_bytes(to, t->ne[0], &out_bytes) || out_bytes > SIZE_MAX / 2)
        return ht_fail(err, HEARTH_E_FORMAT,
                       "%s: tensor %s has rows of %llu weights, expected fewer", ht_gguf_name(g),
                       t->name, (unsigned long long)t->ne[0]);
    c->in_row_bytes = (size_t)in_bytes;
    c->out_row_bytes = (size_t)out_bytes;
    return HEARTH_OK;
}

static void copy_meta(const struct ht_gguf *g, struct ht_gguf_writer *w, uint32_t file_type) {
    for (size_t i = 0; i < ht_gguf_n_kv(g); i++) {
        const struct ht_gguf_kv *kv = ht_gguf_kv_at(g, i);
        if (strncmp(kv->key, "split.", 6) == 0) continue; // the copy is whole
        if (strcmp(kv->key, "general.file_type") == 0) continue;
        if (strcmp(kv->key, "general.quantization_version") == 0) continue;
        ht_gguf_put_kv(w, kv);
    }
    ht_gguf_put_u32(w, "general.file_type", file_type);
    ht_gguf_put_u32(w, "general.quantization_version", 2);
}

static enum hearth_status write_copy(const struct ht_gguf *g, const char *path,
                                     enum ht_format format, uint32_t file_type,
                                     struct conversion *conversions, float **row,
                                     hearth_progress_fn progress, void *user,
                                     struct hearth_error *err) {
    size_t n = ht_gguf_n_tensors(g), n_longest = 1;
    for (size_t i = 0; i < n; i++) {
        enum hearth_status s =
            plan_tensor(g, ht_gguf_tensor_at(g, i), format, &conversions[i], err);
        if (s) return s;
        const struct conversion *c = &conversions[i];
        if (c->format != c->t->format && c->t->ne[0] > n_longest) n_longest = (size_t)c->t->ne[0];
    }
    *row = ht_realloc(NULL, n_longest, sizeof **row);
    if (!*row) return ht_fail_nomem(err, n_longest * sizeof **row, "a row of weights");
    struct ht_gguf_writer *w;
    enum hearth_status s = ht_gguf_writer_create(&w, err);
    if (s) return s;
    ht_gguf_writer_watch(w, progress, user);
    copy_meta(g, w, file_type);
    for (size_t i = 0; i < n; i++) {
        struct conversion *c = &conversions[i];
        c->row = *row;
        if (c->format == c->t->format) // as it is, not through f32 and back
            ht_gguf_put_tensor(w, c->t->name, c->format, c->t->n_dims, c->t->ne, c->t->data);
        else
            ht_gguf_put_rows(w, c->t->name, c->format, c->t->n_dims, c->t->ne, convert_rows, c);
    }
    s = ht_gguf_writer_finish(w, path, err);
    ht_gguf_writer_destroy(w);
    if (s == HEARTH_E_UNSUPPORTED) return ht_fail_in(err, s, "%s", ht_gguf_name(g)); // a weight
    return s;
}

// The caller's function under its own floating-point settings.
struct watcher {
    hearth_progress_fn fn;
    void *user;
    struct ht_float_env theirs;
};

static bool watch(void *user, uint64_t done, uint64_t total) {
    struct watcher *w = user;
    ht_float_leave(w->theirs);
    bool goes_on = w->fn(w->user, done, total);
    w->theirs = ht_float_enter();
    return goes_on;
}

enum hearth_status hearth_quantize(const hearth_file *in, const char *out_path, const char *format,
                                   hearth_progress_fn progress, void *user,
                                   struct hearth_error *err) {
    enum ht_format f;
    uint32_t file_type;
    if (!out_path || !format)
        return ht_fail(err, HEARTH_E_ARG, "the path or the format of the copy is NULL");
    if (!*out_path) return ht_fail(err, HEARTH_E_ARG, "the path of the copy is empty");
    if (ht_gguf_names_part(out_path)) // it might replace another part of the very model
        return ht_fail(err, HEARTH_E_ARG,
                       "%s: is the name of a part of a split model, and the copy is one file",
                       out_path);
    if (!ht_format_find(format, &f) || !ht_format_get(f)->from_f32 || !file_type_of(f, &file_type))
        return ht_fail(err, HEARTH_E_UNSUPPORTED,
                       "models cannot be written in format \"%s\", expected F32, F16, BF16 or Q8_0",
                       format);
    enum hearth_status s = ht_gguf_is_whole(in->g, err);
    if (s) return s;
    struct conversion *conversions = ht_calloc(ht_gguf_n_tensors(in->g) + 1, sizeof *conversions);
    if (!conversions)
        return ht_fail_nomem(err, ht_gguf_n_tensors(in->g) * sizeof *conversions, "tensors");
    float *row = NULL;
    struct watcher w = {progress, user, ht_float_enter()};
    s = write_copy(in->g, out_path, f, file_type, conversions, &row, progress ? watch : NULL, &w,
                   err);
    ht_float_leave(w.theirs);
    ht_free(row);
    ht_free(conversions);
    return s;
}
