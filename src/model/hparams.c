// SPDX-License-Identifier: MIT
// Hyper-parameters: read from the metadata under the architecture's prefix and checked, each with a
// sentence that names key, value and what was expected. What passes here may size and index: every
// width is at most HT_MAX_WIDTH, every count is what the file's tensors will be held against. A
// value of 0 for an optional key means "not set". One thread builds one model.
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "model/model_internal.h"

#define HT_MAX_HEADS   (1u << 15) // times 65536 tokens a pass still fits 32 bits
#define HT_MAX_HEAD    (1u << 16)
#define HT_MAX_LAYERS  1024
#define HT_MAX_EXPERTS (1u << 16)

// A required count between 1 and max.
static void read_count(struct ht_build *b, const char *suffix, uint32_t max, uint32_t *out) {
    ht_key_u32(b, suffix, true, out);
    if (!b->status && (*out < 1 || *out > max))
        ht_build_fail(b, HEARTH_E_FORMAT,
                      "metadata key %s.%s is %" PRIu32 ", expected 1 to %" PRIu32, b->arch, suffix,
                      *out, max);
}

// The head size: attention.key_length, or an equal share of the width.
static void read_heads(struct ht_build *b) {
    struct ht_hparams *hp = &b->hp;
    read_count(b, "attention.head_count", HT_MAX_HEADS, &hp->n_heads);
    ht_key_u32(b, "attention.head_count_kv", false, &hp->n_kv_heads);
    ht_key_u32(b, "attention.key_length", false, &hp->head_dim);
    uint32_t value_length = 0;
    ht_key_u32(b, "attention.value_length", false, &value_length);
    if (b->status) return;
    if (hp->n_kv_heads == 0) hp->n_kv_heads = hp->n_heads;
    if (hp->n_heads % hp->n_kv_heads != 0)
        ht_build_fail(b, HEARTH_E_FORMAT,
                      "%s.attention.head_count_kv is %" PRIu32
                      ", expected a divisor of attention.head_count, %" PRIu32,
                      b->arch, hp->n_kv_heads, hp->n_heads);
    if (hp->head_dim == 0) {
        if (hp->dim % hp->n_heads != 0)
            ht_build_fail(b, HEARTH_E_FORMAT,
                          "%s.attention.head_count is %" PRIu32
                          ", which does not divide embedding_length, %" PRIu32
                          ", and there is no attention.key_length",
                          b->arch, hp->n_heads, hp->dim);
        hp->head_dim = hp->dim / hp->n_heads;
    }
    if (value_length == 0) value_length = hp->head_dim;
    if (hp->head_dim == 0 || hp->head_dim > HT_MAX_HEAD ||
        hp->head_dim > HT_MAX_WIDTH / hp->n_heads)
        ht_build_fail(b, HEARTH_E_FORMAT,
                      "%" PRIu32 " heads of %s.attention.key_length %" PRIu32
                      ", expected 1 to %u elements of a head and %u in all",
                      hp->n_heads, b->arch, hp->head_dim, HT_MAX_HEAD, HT_MAX_WIDTH);
    if (value_length != hp->head_dim)
        ht_build_fail(b, HEARTH_E_UNSUPPORTED,
                      "%s.attention.value_length is %" PRIu32 " and key_length %" PRIu32
                      ", only equal lengths are supported",
                      b->arch, value_length, hp->head_dim);
}

// The vocabulary is as large as the embedding table; the file's own lists must agree.
static void read_vocab(struct ht_build *b) {
    if (b->status) return;
    const struct ht_gguf_tensor *t = ht_gguf_find_tensor(b->g, "token_embd.weight");
    const struct ht_gguf_kv *tokens = ht_gguf_find(b->g, "tokenizer.ggml.tokens");
    if (!t || t->n_dims != 2 || t->ne[1] < 1 || t->ne[1] > INT32_MAX) {
        ht_build_fail(b, HEARTH_E_FORMAT,
                      "tensor token_embd.weight is %s, expected a matrix of 1 to %" PRId32
                      " tokens by embedding_length",
                      t ? "of another shape" : "missing", INT32_MAX);
        return;
    }
    b->hp.n_vocab = (uint32_t)t->ne[1];
    if (tokens && tokens->type == HT_GGUF_ARR) {
        if (tokens->n != t->ne[1])
            ht_build_fail(b, HEARTH_E_FORMAT,
                          "tokenizer.ggml.tokens has %" PRIu64
                          " entries, tensor token_embd.weight has %" PRIu64 " rows",
                          tokens->n, t->ne[1]);
        return;
    }
    uint32_t n = b->hp.n_vocab;
    ht_key_u32(b, "vocab_size", false, &n);
    if (!b->status && n != b->hp.n_vocab)
        ht_build_fail(b, HEARTH_E_FORMAT,
                      "%s.vocab_size is %" PRIu32 ", tensor token_embd.weight has %" PRIu32 " rows",
                      b->arch, n, b->hp.n_vocab);
}

// Refuses models that give one vector or score of a text instead of next tokens. The numbers are
// those of llama.cpp's enum llama_pooling_type.
static void refuse_pooling(struct ht_build *b) {
    static const char *const kinds[] = {"none", "mean", "cls", "last", "rank"};
    char key[160];
    snprintf(key, sizeof key, "%s.pooling_type", b->arch);
    const struct ht_gguf_kv *kv = b->status ? NULL : ht_gguf_find(b->g, key);
    if (!kv) return;
    int64_t type = ht_gguf_is_int(kv->type) ? ht_gguf_int_at(kv, 0) : 0;
    if (!ht_gguf_is_int(kv->type))
        ht_build_fail(b, HEARTH_E_FORMAT, "metadata key %s is %s, an integer was expected", key,
                      ht_gguf_type_name(kv->type));
    else if (type != 0 && type != -1 && type != UINT32_MAX) // the last two: not set
        ht_build_fail(b, HEARTH_E_UNSUPPORTED,
                      "%s is %" PRId64
                      " (%s): the model gives %s of a text, not next tokens, which "
                      "is not supported",
                      key, type, type > 0 && type < 5 ? kinds[type] : "unknown",
                      type == 4 ? "a score" : "a vector");
}

void ht_hparams_read(struct ht_build *b) {
    struct ht_hparams *hp = &b->hp;
    read_count(b, "block_count", HT_MAX_LAYERS, &hp->n_layers);
    read_count(b, "context_length", UINT32_MAX, &hp->n_ctx_train);
    read_count(b, "embedding_length", HT_MAX_WIDTH, &hp->dim);
    read_count(b, "feed_forward_length", HT_MAX_WIDTH, &hp->ffn_dim);
    read_heads(b);
    read_vocab(b);
    if (b->status) return;
    char key[160];
    snprintf(key, sizeof key, "%s.attention.causal", b->arch);
    bool causal = true;
    b->status = ht_gguf_get_bool(b->g, key, false, &causal, b->err);
    if (!causal)
        ht_build_fail(b, HEARTH_E_UNSUPPORTED, "%s is false, only causal attention is supported",
                      key);
    refuse_pooling(b);
}

void ht_read_norm_eps(struct ht_build *b, const char *suffix) {
    ht_key_f32(b, suffix, true, &b->hp.norm_eps);
    if (!b->status && !(b->hp.norm_eps >= 0 && b->hp.norm_eps < 1))
        ht_build_fail(b, HEARTH_E_FORMAT, "metadata key %s.%s is %g, expected 0 to 1", b->arch,
                      suffix, (double)b->hp.norm_eps);
}

void ht_read_experts(struct ht_build *b) {
    struct ht_hparams *hp = &b->hp;
    ht_key_u32(b, "expert_count", false, &hp->n_experts);
    ht_key_u32(b, "expert_used_count", false, &hp->n_experts_used);
    if (b->status || hp->n_experts == 0) return;
    if (hp->n_experts > HT_MAX_EXPERTS)
        ht_build_fail(b, HEARTH_E_FORMAT, "%s.expert_count is %" PRIu32 ", expected at most %u",
                      b->arch, hp->n_experts, HT_MAX_EXPERTS);
    if (hp->n_experts_used < 1 || hp->n_experts_used > hp->n_experts)
        ht_build_fail(b, HEARTH_E_FORMAT,
                      "%s.expert_used_count is %" PRIu32 ", expected 1 to expert_count, %" PRIu32,
                      b->arch, hp->n_experts_used, hp->n_experts);
    // Other ways to choose and weigh them; 0: not set.
    uint32_t n_groups = 0, gating = 0;
    float scale = 0;
    ht_key_u32(b, "expert_group_count", false, &n_groups);
    ht_key_u32(b, "expert_gating_func", false, &gating);
    ht_key_f32(b, "expert_weights_scale", false, &scale);
    if (b->status) return;
    if (n_groups > 1)
        ht_build_fail(b, HEARTH_E_UNSUPPORTED,
                      "%s.expert_group_count is %" PRIu32
                      ", only experts in one group are supported",
                      b->arch, n_groups);
    if (gating > 1)
        ht_build_fail(b, HEARTH_E_UNSUPPORTED,
                      "%s.expert_gating_func is %" PRIu32 ", only 1 (softmax) is supported",
                      b->arch, gating);
    if (scale != 0 && scale != 1)
        ht_build_fail(b, HEARTH_E_UNSUPPORTED, "%s.expert_weights_scale is %g, only 1 is supported",
                      b->arch, (double)scale);
}

void ht_read_window(struct ht_build *b) {
    ht_key_u32(b, "attention.sliding_window", false, &b->hp.window);
    char key[160];
    snprintf(key, sizeof key, "%s.attention.sliding_window_pattern", b->arch);
    if (!b->status && b->hp.window != 0 && b->hp.window < b->hp.n_ctx_train &&
        ht_gguf_find(b->g, key))
        ht_build_fail(b, HEARTH_E_UNSUPPORTED,
                      "%s is there, so which layers use the window of %" PRIu32 " is not known; "
                      "only one that all use is supported",
                      key, b->hp.window);
}

void ht_refuse_window(struct ht_build *b) {
    uint32_t window = 0;
    ht_key_u32(b, "attention.sliding_window", false, &window);
    if (!b->status && window != 0 && window < b->hp.n_ctx_train)
        ht_build_fail(b, HEARTH_E_UNSUPPORTED,
                      "%s.attention.sliding_window is %" PRIu32 " of a context of %" PRIu32
                      ", and which layers use it is not known; expected none or the whole context",
                      b->arch, window, b->hp.n_ctx_train);
}

// ---- what a file may hold beside its architecture's tensors

// Would the tensor change the result if a step used it?
static bool belongs(const char *name) {
    static const char *const heads[] = {"blk.",  "token_embd", "token_types", "position_embd",
                                        "rope_", "output",     "cls"};
    for (size_t i = 0; i < sizeof heads / sizeof *heads; i++)
        if (strncmp(name, heads[i], strlen(heads[i])) == 0) return true;
    return false;
}

// "blk.3.attn_q.input_scale" beside "blk.3.attn_q.weight", which a step uses: by what activations
// of four bits would be divided. Here they are quantised by their own sizes.
static bool is_input_scale(const struct ht_build *b, const char *name, const bool *bound) {
    char weight[160];
    if (!ht_beside(name, "input_scale", "weight", weight)) return false;
    const struct ht_gguf_tensor *t = ht_gguf_find_tensor(b->g, weight);
    return t && t->n_dims > 1 && bound[t - ht_gguf_tensor_at(b->g, 0)];
}

// What belongs to a language model and no step uses is refused, but for scales of inputs. Others
// are named in the log.
void ht_check_unused_tensors(struct ht_build *b, const struct hearth_log *log) {
    size_t n = ht_gguf_n_tensors(b->g);
    if (b->status) return;
    bool *bound = ht_arena_array(b->arena, n, sizeof *bound, 1);
    if (!bound) b->status = ht_fail_nomem(b->err, n, "a list of tensors");
    for (uint32_t i = 0; i < b->n_weights && !b->status; i++)
        bound[b->sources[i] - ht_gguf_tensor_at(b->g, 0)] = true;
    size_t n_input_scales = 0;
    for (size_t i = 0; i < n && !b->status; i++) {
        const struct ht_gguf_tensor *t = ht_gguf_tensor_at(b->g, i);
        if (bound[i]) continue;
        if (is_input_scale(b, t->name, bound))
            n_input_scales++;
        else if (belongs(t->name))
            ht_build_fail(b, HEARTH_E_UNSUPPORTED,
                          "tensor %s is not one that architecture %s with %" PRIu32
                          " layers knows how to use",
                          t->name, b->arch, b->hp.n_layers);
        else
            ht_log(log, HEARTH_LOG_WARN, "%s: tensor %s is not used by architecture %s",
                   ht_gguf_name(b->g), t->name, b->arch);
    }
    if (n_input_scales > 0)
        ht_log(log, HEARTH_LOG_INFO,
               "%s: %zu tensors .input_scale are not used: activations are quantised by their own "
               "sizes",
               ht_gguf_name(b->g), n_input_scales);
}

static bool is_needed_id(const char *key) {
    return strcmp(key, "tokenizer.ggml.bos_token_id") == 0 ||
           strcmp(key, "tokenizer.ggml.eos_token_id") == 0;
}

// Those that every text begins or ends with are refused where they are no token; others are often
// left over from another vocabulary (converters of April 2024 wrote CodeLlama's eot, 32010, into
// every file of Llama, Mistral and Mixtral).
void ht_check_special_ids(struct ht_build *b, const struct hearth_log *log) {
    static const char head[] = "tokenizer.ggml.", tail[] = "_token_id";
    for (size_t i = 0; i < ht_gguf_n_kv(b->g) && !b->status; i++) {
        const struct ht_gguf_kv *kv = ht_gguf_kv_at(b->g, i);
        size_t len = strlen(kv->key);
        if (len < sizeof head + sizeof tail || !ht_gguf_is_int(kv->type) ||
            strncmp(kv->key, head, sizeof head - 1) != 0 ||
            strcmp(kv->key + len - (sizeof tail - 1), tail) != 0)
            continue;
        int64_t id = ht_gguf_int_at(kv, 0);
        if (id == -1 || id == UINT32_MAX) continue; // not set
        if (id >= 0 && id < b->hp.n_vocab) continue;
        if (is_needed_id(kv->key))
            ht_build_fail(b, HEARTH_E_FORMAT,
                          "metadata key %s is %" PRId64 ", outside the vocabulary of %" PRIu32,
                          kv->key, id, b->hp.n_vocab);
        else
            ht_log(log, HEARTH_LOG_WARN, "%s: metadata key %s is %" PRId64 ", no token; not used",
                   ht_gguf_name(b->g), kv->key, id);
    }
}
