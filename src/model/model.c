// SPDX-License-Identifier: MIT
// A model: the plan that its architecture built, and what can be said about it. Immutable once
// loaded; any thread. Borrows the open file.
#include <inttypes.h>
#include <string.h>

#include "base/mem.h"
#include "base/utf8.h"
#include "model/model_internal.h"

struct ht_model {
    struct ht_arena arena; // names, frequencies
    struct ht_plan plan;   // its tables are on the heap, owned
    struct ht_hparams hp;
    const char *arch, *name;
    uint64_t n_params, weight_bytes;
    size_t table_bytes;
};

// Takes the builder's tables over, also after a failure, so that ht_model_free frees them.
static void take_tables(struct ht_model *m, struct ht_build *b) {
    m->plan = (struct ht_plan){
        .tensors = b->tensors,
        .weights = b->weights,
        .ropes = b->ropes,
        .steps = b->steps,
        .n_tensors = b->n_tensors,
        .n_weights = b->n_weights,
        .n_ropes = b->n_ropes,
        .n_steps = b->n_steps,
        .n_layers = b->hp.n_layers,
        .n_kv_heads = b->hp.n_kv_heads,
        .head_dim = b->hp.head_dim,
        .n_vocab = b->hp.n_vocab,
        .logits = b->logits,
    };
    m->hp = b->hp;
    m->table_bytes = b->cap_tensors * sizeof *b->tensors + b->cap_weights * sizeof *b->weights +
                     b->cap_ropes * sizeof *b->ropes + b->cap_steps * sizeof *b->steps;
}

// Each tensor of the file once, however many weights are views of it.
static void count_weights(struct ht_model *m, const struct ht_build *b) {
    for (uint32_t i = 0; i < b->n_weights; i++) {
        const struct ht_gguf_tensor *t = b->sources[i];
        bool seen = false;
        for (uint32_t k = i > 3 ? i - 3 : 0; k < i; k++) seen = seen || b->sources[k] == t;
        if (seen) continue; // views of one tensor are bound one after another
        m->n_params += t->ne[0] * t->ne[1] * t->ne[2] * t->ne[3];
        m->weight_bytes += t->n_bytes;
    }
}

static enum hearth_status refuse_adapter(const struct ht_gguf *g, struct hearth_error *err) {
    static const char adapter[] = "adapter";
    struct ht_str type = {"", 0};
    enum hearth_status st = ht_gguf_get_str(g, "general.type", false, &type, err);
    if (st || type.len != sizeof adapter - 1 || memcmp(type.data, adapter, type.len) != 0)
        return st;
    return ht_fail(err, HEARTH_E_UNSUPPORTED,
                   "%s: general.type is adapter: the file holds changes to a model's weights "
                   "(LoRA), which are not supported, and no model",
                   ht_gguf_name(g));
}

static enum hearth_status find_arch(const struct ht_gguf *g, const struct ht_arch **out,
                                    struct hearth_error *err) {
    struct ht_str name;
    enum hearth_status st = ht_gguf_get_str(g, "general.architecture", true, &name, err);
    if (!st) st = refuse_adapter(g, err);
    if (st) return st;
    if (ht_gguf_n_tensors(g) == 0)
        return ht_fail(err, HEARTH_E_UNSUPPORTED,
                       "%s: holds no tensors, so there is no model to run; its vocabulary, if it "
                       "has one, can still be used as a tokenizer",
                       ht_gguf_name(g));
    *out = ht_arch_find(name.data, name.len);
    if (*out) return HEARTH_OK;
    char quoted[HT_QUOTE_BYTES];
    return ht_fail(err, HEARTH_E_UNSUPPORTED,
                   "%s: architecture %s is not supported; those that are: %s", ht_gguf_name(g),
                   ht_quote(quoted, name.data, name.len), ht_model_architectures());
}

static void copy_name(struct ht_model *m, struct ht_build *b) {
    struct ht_str name = {"", 0};
    const struct ht_gguf_kv *kv = ht_gguf_find(b->g, "general.name");
    if (kv && kv->type == HT_GGUF_STR) {
        const uint8_t *cursor = NULL;
        if (!ht_gguf_next_str(kv, &cursor, &name)) name.len = 0;
    }
    m->name = ht_arena_strndup(&m->arena, name.data, name.len);
    if (!m->name && !b->status) b->status = ht_fail_nomem(b->err, name.len, "the model's name");
}

static void build(struct ht_model *m, struct ht_build *b, const struct ht_arch *arch,
                  const struct hearth_log *log) {
    ht_hparams_read(b);
    if (!b->status) arch->build(b);
    ht_check_unused_tensors(b, log);
    ht_check_special_ids(b, log);
    copy_name(m, b);
    if (!b->status) count_weights(m, b);
}

enum hearth_status ht_model_load(const struct ht_gguf *g, const struct hearth_log *log,
                                 struct ht_model **out, struct hearth_error *err) {
    struct hearth_error local;
    if (!err) err = &local; // the builder reads back what it wrote
    const struct ht_arch *arch;
    enum hearth_status st = ht_gguf_is_whole(g, err);
    if (!st) st = find_arch(g, &arch, err);
    if (st) return st;
    struct ht_model *m = ht_calloc(1, sizeof *m);
    if (!m) return ht_fail_nomem(err, sizeof *m, "the model");
    m->arch = arch->name;
    struct ht_build b = {
        .g = g, .arch = arch->name, .arena = &m->arena, .err = err, .layer = HT_NONE};
    build(m, &b, arch, log);
    take_tables(m, &b);
    ht_free(b.sources);
    st = b.status;
    if (!st) st = ht_plan_check(&m->plan, err);
    if (st) {
        ht_model_free(m);
        return st;
    }
    *out = m;
    return HEARTH_OK;
}

void ht_model_free(struct ht_model *m) {
    if (!m) return;
    ht_free((void *)m->plan.tensors);
    ht_free((void *)m->plan.weights);
    ht_free((void *)m->plan.ropes);
    ht_free((void *)m->plan.steps);
    ht_arena_deinit(&m->arena);
    ht_free(m);
}

const struct ht_plan *ht_model_plan(const struct ht_model *m) {
    return &m->plan;
}

void ht_model_get_info(const struct ht_model *m, struct hearth_model_info *out) {
    *out = (struct hearth_model_info){
        .arch = m->arch,
        .name = m->name,
        .n_params = m->n_params,
        .weight_bytes = m->weight_bytes,
        .n_layers = m->hp.n_layers,
        .dim = m->hp.dim,
        .n_heads = m->hp.n_heads,
        .n_kv_heads = m->hp.n_kv_heads,
        .head_dim = m->hp.head_dim,
        .ffn_dim = m->hp.n_experts ? m->hp.expert_ffn_dim : m->hp.ffn_dim,
        .n_vocab = m->hp.n_vocab,
        .n_ctx_train = m->hp.n_ctx_train,
        .n_experts = m->hp.n_experts,
        .n_experts_used = m->hp.n_experts ? m->hp.n_experts_used : 0,
    };
}

uint32_t ht_model_n_ctx_train(const struct ht_model *m) {
    return m->hp.n_ctx_train;
}

size_t ht_model_bytes(const struct ht_model *m) {
    return sizeof *m + m->arena.n_used_bytes + m->table_bytes;
}
