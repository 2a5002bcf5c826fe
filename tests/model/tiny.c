// SPDX-License-Identifier: MIT
#include "tiny.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cmocka_all.h"

enum { N_LAYERS = 2, DIM = 32, N_HEADS = 4, N_KV = 2, HEAD = 8, FFN = 64, VOCAB = 96, CTX = 64 };
enum { EXPERTS = 4, MAX_KEYS = 48, MAX_TENSORS = 64 };

struct tiny_key {
    struct tiny_edit v;
    char name[96];
};

struct tiny_tensor {
    char name[64];
    int n_dims;
    uint64_t ne[3];
    uint32_t format;
    float fill; // 0: drawn
    float *data;
};

struct tiny_file {
    struct tiny_key keys[MAX_KEYS];
    struct tiny_tensor tensors[MAX_TENSORS];
    int n_keys, n_tensors;
    int layer; // of the tensors to come; -1: none
};

const char *tiny_path(const char *name) {
    static char path[256]; // tests run one thread
    const char *tmp = getenv("TMPDIR");
    snprintf(path, sizeof path, "%s/hearth-tiny-%d-%s.gguf", tmp && *tmp ? tmp : "/tmp",
             (int)getpid(), name);
    return path;
}

static struct tiny_key *key(struct tiny_file *f, const char *name) {
    for (int i = 0; i < f->n_keys; i++)
        if (strcmp(f->keys[i].name, name) == 0) return &f->keys[i];
    assert_true(f->n_keys < MAX_KEYS);
    struct tiny_key *k = &f->keys[f->n_keys++];
    snprintf(k->name, sizeof k->name, "%s", name);
    return k;
}

static void set_u32(struct tiny_file *f, const char *arch, const char *suffix, uint32_t u) {
    char name[96];
    snprintf(name, sizeof name, "%s.%s", arch, suffix);
    key(f, name)->v = (struct tiny_edit){.kind = TINY_U32, .u = u};
}

static struct tiny_tensor *tensor(struct tiny_file *f, const char *name) {
    for (int i = 0; i < f->n_tensors; i++)
        if (strcmp(f->tensors[i].name, name) == 0) return &f->tensors[i];
    fail_msg("no tensor %s to edit", name);
    return NULL;
}

static void add(struct tiny_file *f, const char *name, int n_dims, uint64_t ne0, uint64_t ne1,
                uint64_t ne2) {
    assert_true(f->n_tensors < MAX_TENSORS);
    struct tiny_tensor *t = &f->tensors[f->n_tensors++];
    *t = (struct tiny_tensor){.n_dims = n_dims, .ne = {ne0, ne1, ne2}};
    if (f->layer < 0)
        snprintf(t->name, sizeof t->name, "%s", name);
    else
        snprintf(t->name, sizeof t->name, "blk.%d.%s", f->layer, name);
}

static void add_vector(struct tiny_file *f, const char *name, uint64_t n) {
    add(f, name, 1, n, 1, 1);
}

static void add_matrix(struct tiny_file *f, const char *name, uint64_t out, uint64_t in) {
    add(f, name, 2, in, out, 1);
}

static void add_attention(struct tiny_file *f, const char *arch) {
    bool gpt2 = strncmp(arch, "gpt2", 4) == 0, fused = strcmp(arch, "gpt2-fused") == 0;
    uint64_t kv = N_KV * HEAD;
    if (fused) {
        add_matrix(f, "attn_qkv.weight", DIM + 2 * kv, DIM);
        add_vector(f, "attn_qkv.bias", DIM + 2 * kv);
    } else {
        add_matrix(f, "attn_q.weight", DIM, DIM);
        add_matrix(f, "attn_k.weight", kv, DIM);
        add_matrix(f, "attn_v.weight", kv, DIM);
    }
    if (strcmp(arch, "qwen2") == 0 || strcmp(arch, "gpt2") == 0) {
        add_vector(f, "attn_q.bias", DIM);
        add_vector(f, "attn_k.bias", kv);
        add_vector(f, "attn_v.bias", kv);
    }
    if (strncmp(arch, "qwen3", 5) == 0) {
        add_vector(f, "attn_q_norm.weight", HEAD);
        add_vector(f, "attn_k_norm.weight", HEAD);
    }
    add_matrix(f, "attn_output.weight", DIM, DIM);
    if (gpt2) add_vector(f, "attn_output.bias", DIM);
}

static void add_ffn(struct tiny_file *f, const char *arch) {
    if (strstr(arch, "moe")) {
        add_matrix(f, "ffn_gate_inp.weight", EXPERTS, DIM);
        add(f, "ffn_gate_exps.weight", 3, DIM, FFN, EXPERTS);
        add(f, "ffn_up_exps.weight", 3, DIM, FFN, EXPERTS);
        add(f, "ffn_down_exps.weight", 3, FFN, DIM, EXPERTS);
        return;
    }
    bool gpt2 = strncmp(arch, "gpt2", 4) == 0;
    if (!gpt2) add_matrix(f, "ffn_gate.weight", FFN, DIM);
    add_matrix(f, "ffn_up.weight", FFN, DIM);
    add_matrix(f, "ffn_down.weight", DIM, FFN);
    if (gpt2) add_vector(f, "ffn_up.bias", FFN);
    if (gpt2) add_vector(f, "ffn_down.bias", DIM);
}

static void add_tensors(struct tiny_file *f, const char *arch) {
    bool gpt2 = strncmp(arch, "gpt2", 4) == 0;
    f->layer = -1;
    add_matrix(f, "token_embd.weight", VOCAB, DIM);
    if (gpt2) add_matrix(f, "position_embd.weight", CTX, DIM);
    add_vector(f, "output_norm.weight", DIM);
    if (gpt2) add_vector(f, "output_norm.bias", DIM);
    add_matrix(f, "output.weight", VOCAB, DIM);
    for (f->layer = 0; f->layer < N_LAYERS; f->layer++) {
        add_vector(f, "attn_norm.weight", DIM);
        if (gpt2) add_vector(f, "attn_norm.bias", DIM);
        add_attention(f, arch);
        add_vector(f, "ffn_norm.weight", DIM);
        if (gpt2) add_vector(f, "ffn_norm.bias", DIM);
        add_ffn(f, arch);
    }
    f->layer = -1;
}

// "gpt2-fused" and "llama-moe" are variants of the architecture before the dash.
static void add_keys(struct tiny_file *f, const char *variant) {
    static const char *const names[] = {"llama", "qwen2", "qwen3moe", "qwen3", "gpt2", "mistral3"};
    const char *arch = NULL;
    char name[96];
    for (int i = 0; i < 6 && !arch; i++)
        if (strncmp(variant, names[i], strlen(names[i])) == 0) arch = names[i];
    assert_non_null(arch);
    key(f, "general.architecture")->v = (struct tiny_edit){.kind = TINY_STR, .s = arch};
    key(f, "general.name")->v = (struct tiny_edit){.kind = TINY_STR, .s = "Tiny"};
    set_u32(f, arch, "block_count", N_LAYERS);
    set_u32(f, arch, "context_length", CTX);
    set_u32(f, arch, "embedding_length", DIM);
    set_u32(f, arch, "feed_forward_length", FFN);
    set_u32(f, arch, "attention.head_count", N_HEADS);
    set_u32(f, arch, "attention.head_count_kv", N_KV);
    if (strstr(variant, "moe")) {
        set_u32(f, arch, "expert_count", EXPERTS);
        set_u32(f, arch, "expert_used_count", 2);
        set_u32(f, arch, "expert_feed_forward_length", FFN);
    }
    snprintf(name, sizeof name, "%s.attention.layer_norm_%sepsilon", arch,
             strcmp(arch, "gpt2") == 0 ? "" : "rms_");
    key(f, name)->v = (struct tiny_edit){.kind = TINY_F32, .f = 1e-5f};
}

static void apply(struct tiny_file *f, const struct tiny_edit *e) {
    switch (e->kind) {
    case TINY_U32:
    case TINY_F32:
    case TINY_STR:
    case TINY_BOOL:
    case TINY_DROP_KEY: key(f, e->name)->v = *e; break;
    case TINY_DROP_TENSOR: tensor(f, e->name)->n_dims = 0; break;
    case TINY_ADD_TENSOR: f->layer = -1; add(f, e->name, e->n_dims, 1, 1, 1); // fall through
    case TINY_SHAPE:
        tensor(f, e->name)->n_dims = e->n_dims;
        for (int d = 0; d < 3; d++) tensor(f, e->name)->ne[d] = d < e->n_dims ? e->ne[d] : 1;
        if (e->kind == TINY_ADD_TENSOR) tensor(f, e->name)->fill = e->f;
        break;
    case TINY_FORMAT: tensor(f, e->name)->format = e->u; break;
    case TINY_FILL: tensor(f, e->name)->fill = e->f; break;
    case TINY_END: break;
    }
}

// Norm weights near 1, biases small, matrices of a size that keeps activations near 1.
static void draw(struct tiny_tensor *t, uint32_t *seed) {
    uint64_t n = t->ne[0] * t->ne[1] * t->ne[2];
    t->data = malloc(n * sizeof(float) + 64); // other formats take less
    assert_non_null(t->data);
    bool norm = strstr(t->name, "norm.weight") != NULL;
    for (uint64_t i = 0; i < n; i++) {
        *seed = *seed * 1664525u + 1013904223u;
        float r = (float)(*seed >> 8) * 0x1p-23f - 1;
        t->data[i] = t->fill != 0 ? t->fill : norm ? 1 + 0.2f * r : 0.4f * r;
    }
}

static void write_keys(const struct tiny_file *f, struct ht_gguf_writer *w) {
    for (int i = 0; i < f->n_keys; i++) {
        const struct tiny_key *k = &f->keys[i];
        switch (k->v.kind) {
        case TINY_U32: ht_gguf_put_u32(w, k->name, k->v.u); break;
        case TINY_F32: ht_gguf_put_f32(w, k->name, k->v.f); break;
        case TINY_STR: ht_gguf_put_str(w, k->name, k->v.s, strlen(k->v.s)); break;
        case TINY_BOOL: ht_gguf_put_bool(w, k->name, k->v.u != 0); break;
        default: break;
        }
    }
}

const char *const tiny_archs[TINY_N_ARCHS] = {"llama",    "llama-moe", "qwen2",      "qwen3",
                                              "qwen3moe", "gpt2",      "gpt2-fused", "mistral3"};

void tiny_write(const char *path, const char *arch, const struct tiny_edit *edits) {
    struct hearth_error err;
    struct ht_gguf_writer *w = NULL;
    struct tiny_file *f = calloc(1, sizeof *f);
    uint32_t seed = 42;
    assert_non_null(f);
    add_keys(f, arch);
    add_tensors(f, arch);
    for (const struct tiny_edit *e = edits; e && e->kind != TINY_END; e++) apply(f, e);
    if (ht_gguf_writer_create(&w, &err)) fail_msg("%s", err.message);
    write_keys(f, w);
    for (int i = 0; i < f->n_tensors; i++) {
        struct tiny_tensor *t = &f->tensors[i];
        if (t->n_dims == 0) continue;
        draw(t, &seed);
        ht_gguf_put_tensor(w, t->name, (enum ht_format)t->format, t->n_dims, t->ne, t->data);
    }
    if (ht_gguf_writer_finish(w, path, &err)) fail_msg("%s", err.message);
    ht_gguf_writer_destroy(w);
    for (int i = 0; i < f->n_tensors; i++) free(f->tensors[i].data);
    free(f);
}

void tiny_open(const char *arch, const struct tiny_edit *edits, const struct hearth_log *log,
               struct ht_gguf **file, struct ht_model **model) {
    struct hearth_error err;
    const char *path = tiny_path(arch);
    tiny_write(path, arch, edits);
    if (ht_gguf_open(path, file, &err) || ht_model_load(*file, log, model, &err))
        fail_msg("%s: %s", arch, err.message);
    unlink(path);
}
