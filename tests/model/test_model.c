// SPDX-License-Identifier: MIT
// Hyper-parameters and tensors that are wrong, one at a time: each gets its status and a sentence
// with the key or tensor and the value. And models that are right: facts, memory, plans.
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "golden.h"
#include "tiny.h"

struct bad_case {
    const char *arch;
    struct tiny_edit edits[3];
    enum hearth_status status;
    const char *sentence; // what must be in it
};

#define FORMAT      HEARTH_E_FORMAT
#define UNSUPPORTED HEARTH_E_UNSUPPORTED

static const struct bad_case bad_cases[] = {
    {"llama",
     {{TINY_STR, "general.architecture", .s = "mamba"}},
     UNSUPPORTED,
     "architecture 'mamba' is not supported; those that are: gpt2, llama, mistral3"},
    {"llama",
     {{TINY_DROP_KEY, .name = "general.architecture"}},
     FORMAT,
     "general.architecture is missing"},
    {"llama",
     {{TINY_DROP_KEY, .name = "llama.block_count"}},
     FORMAT,
     "llama.block_count is missing"},
    {"llama",
     {{TINY_U32, "tokenizer.ggml.eos_token_id", .u = 96}},
     FORMAT,
     "tokenizer.ggml.eos_token_id is 96, outside the vocabulary of 96"},
    {"llama",
     {{TINY_U32, "llama.attention.head_count", .u = 65536}},
     FORMAT,
     "llama.attention.head_count is 65536, expected 1 to 32768"},
    {"qwen3moe",
     {{TINY_U32, "qwen3moe.expert_feed_forward_length", .u = 1 << 25}},
     FORMAT,
     "qwen3moe.expert_feed_forward_length is 33554432, expected at most 16777216"},
    {"llama-moe",
     {{TINY_ADD_TENSOR, "blk.1.ffn_gate.0.weight", .n_dims = 2, .ne = {32, 32}}},
     HEARTH_E_UNSUPPORTED,
     "each expert is a tensor of its own (blk.1.ffn_gate.0.weight)"},
    {"llama",
     {{TINY_F32, "llama.attention.layer_norm_rms_epsilon", .f = 1}},
     FORMAT,
     "llama.attention.layer_norm_rms_epsilon is 1, expected 0 to 1"},
    {"llama",
     {{TINY_F32, "llama.rope.scaling.factor", .f = 65537}},
     FORMAT,
     "llama.rope.scaling.factor is 65537, expected 1/16 to 65536"},
    {"llama",
     {{TINY_F32, "llama.rope.scaling.attn_factor", .f = 1025}},
     FORMAT,
     "llama.rope.scaling.attn_factor is 1025, expected above 0, up to 1024"},
    {"llama",
     {{TINY_STR, "llama.rope.scaling.type", .s = "yarn"},
      {TINY_F32, "llama.rope.scaling.factor", .f = 4},
      {TINY_F32, "llama.rope.scaling.yarn_beta_fast", .f = 1e6f}},
     FORMAT,
     "yarn_beta_fast (or beta_fast) is 1e+06"},
    {"llama",
     {{TINY_ADD_TENSOR, "rope_freqs.weight", .n_dims = 1, .ne = {4}, .f = NAN}},
     FORMAT,
     "tensor rope_freqs.weight has nan at 0"},
    {"mistral3",
     {{TINY_F32, "mistral3.attention.temperature_scale", .f = -0.1f}},
     FORMAT,
     "mistral3.attention.temperature_scale (or rope.scaling_beta) is -0.1, expected 0 to 64"},
    {"mistral3",
     {{TINY_F32, "mistral3.rope.scaling_beta", .f = 65}},
     FORMAT,
     "(or rope.scaling_beta) is 65, expected 0 to 64"},
    {"mistral3",
     {{TINY_F32, "mistral3.rope.scaling_beta", .f = 0.1f},
      {TINY_U32, "mistral3.rope.scaling.original_context_length", .u = 32}},
     UNSUPPORTED,
     "mistral3.rope.scaling.factor is missing, though the context grew from 32 to "},
    {"mistral3",
     {{TINY_U32, "mistral3.rope.dimension_count", .u = 6}},
     FORMAT,
     "rotates 6 elements of a head"},
    {"mistral3",
     {{TINY_STR, "mistral3.rope.scaling.type", .s = "yarn"},
      {TINY_F32, "mistral3.rope.scaling.factor", .f = 4},
      {TINY_F32, "mistral3.rope.scaling.mscale", .f = 0.5f}},
     UNSUPPORTED,
     "mistral3.rope.scaling.mscale is 0.5, only 0 (not set) and 1"},
    {"mistral3",
     {{TINY_STR, "mistral3.rope.scaling.type", .s = "default"},
      {TINY_F32, "mistral3.rope.scaling.factor", .f = 2}},
     UNSUPPORTED,
     "scaling.type is 'default', expected none, linear or yarn"},
    {"llama",
     {{TINY_F32, "llama.rope.scaling.factor", .f = 0.0625f},
      {TINY_ADD_TENSOR, "rope_freqs.weight", .n_dims = 1, .ne = {4}, .f = 0.0625f}},
     FORMAT,
     "turns pair 0 of a head by 256 radians a position"},
    {"llama",
     {{TINY_U32, "llama.block_count", .u = 0}},
     FORMAT,
     "llama.block_count is 0, expected 1 to 1024"},
    {"llama",
     {{TINY_U32, "llama.block_count", .u = 3}},
     FORMAT,
     "tensor blk.2.attn_norm.weight is missing, expected with shape [32]"},
    {"llama",
     {{TINY_U32, "llama.block_count", .u = 1}},
     UNSUPPORTED,
     "tensor blk.1.attn_norm.weight is not one that architecture llama with 1 layers knows"},
    {"llama",
     {{TINY_ADD_TENSOR, "blk.0.attn_q.scale", .n_dims = 1, .ne = {2}}},
     FORMAT,
     "tensor blk.0.attn_q.scale has shape [2], expected [1]"},
    {"qwen3moe",
     {{TINY_ADD_TENSOR, "blk.1.ffn_up_exps.scale", .n_dims = 1, .ne = {1}}},
     FORMAT,
     "tensor blk.1.ffn_up_exps.scale has shape [1], expected [4]"},
    {"llama",
     {{TINY_ADD_TENSOR, "blk.0.attn_q.scale", .n_dims = 1, .ne = {1}},
      {TINY_FORMAT, "blk.0.attn_q.scale", .u = HT_F16}},
     UNSUPPORTED,
     "vector blk.0.attn_q.scale is in format F16, expected F32"},
    {"llama",
     {{TINY_ADD_TENSOR, "blk.0.attn_sinks.input_scale", .n_dims = 1, .ne = {1}}},
     UNSUPPORTED,
     "tensor blk.0.attn_sinks.input_scale is not one that architecture llama"},
    {"llama",
     {{TINY_ADD_TENSOR, "blk.0.attn_norm.input_scale", .n_dims = 1, .ne = {1}}},
     UNSUPPORTED,
     "tensor blk.0.attn_norm.input_scale is not one that architecture llama"},
    {"llama",
     {{TINY_ADD_TENSOR, "blk.0.attn_norm.scale", .n_dims = 1, .ne = {1}}},
     UNSUPPORTED,
     "tensor blk.0.attn_norm.scale is not one that architecture llama"},
    {"llama",
     {{TINY_STR, "llama.block_count", .s = "two"}},
     FORMAT,
     "llama.block_count is of type"},
    {"llama", {{TINY_U32, "llama.context_length", .u = 0}}, FORMAT, "llama.context_length is 0"},
    {"llama", {{TINY_U32, "llama.embedding_length", .u = 0}}, FORMAT, "embedding_length is 0"},
    {"llama",
     {{TINY_U32, "llama.embedding_length", .u = 4000000000u}},
     FORMAT,
     "llama.embedding_length is 4000000000, expected 1 to 16777216"},
    {"llama",
     {{TINY_U32, "llama.feed_forward_length", .u = 65}},
     FORMAT,
     "tensor blk.0.ffn_gate.weight has shape [64][32], expected [65][32]"},
    {"llama",
     {{TINY_U32, "llama.attention.head_count", .u = 5}},
     FORMAT,
     "head_count_kv is 2, expected a divisor of attention.head_count, 5"},
    {"llama",
     {{TINY_U32, "llama.attention.head_count", .u = 6}},
     FORMAT,
     "llama.attention.head_count is 6, which does not divide embedding_length, 32"},
    {"llama",
     {{TINY_U32, "llama.attention.head_count", .u = 32768},
      {TINY_U32, "llama.attention.head_count_kv", .u = 1},
      {TINY_U32, "llama.attention.key_length", .u = 16777216}},
     FORMAT,
     "32768 heads of llama.attention.key_length 16777216"},
    {"llama",
     {{TINY_U32, "llama.attention.head_count", .u = 1},
      {TINY_U32, "llama.attention.head_count_kv", .u = 1},
      {TINY_U32, "llama.attention.key_length", .u = 65538}},
     FORMAT,
     "key_length 65538, expected 1 to 65536 elements of a head"},
    {"llama",
     {{TINY_U32, "llama.attention.value_length", .u = 16}},
     UNSUPPORTED,
     "llama.attention.value_length is 16 and key_length 8"},
    {"llama",
     {{TINY_U32, "llama.attention.key_length", .u = 7},
      {TINY_U32, "llama.attention.value_length", .u = 7}},
     FORMAT,
     "rotates 7 elements of a head"},
    {"llama",
     {{TINY_U32, "llama.rope.dimension_count", .u = 10}},
     FORMAT,
     "rotates 10 elements of a head (rope.dimension_count, or the head size), expected all of a "
     "head, an even number; it has 8"},
    {"llama", {{TINY_F32, "llama.rope.freq_base", .f = -1}}, FORMAT, "freq_base is -1"},
    {"llama", {{TINY_F32, "llama.rope.freq_base", .f = NAN}}, FORMAT, "freq_base is nan"},
    {"llama",
     {{TINY_STR, "llama.rope.scaling.type", .s = "longrope"}},
     UNSUPPORTED,
     "scaling.type is 'longrope', expected none, linear or yarn"},
    {"llama", {{TINY_F32, "llama.rope.scaling.factor", .f = -4}}, FORMAT, "factor is -4"},
    {"llama", {{TINY_F32, "llama.rope.scaling.factor", .f = INFINITY}}, FORMAT, "factor is inf"},
    {"qwen2",
     {{TINY_STR, "qwen2.rope.scaling.type", .s = "yarn"},
      {TINY_F32, "qwen2.rope.scaling.factor", .f = 4},
      {TINY_F32, "qwen2.rope.scaling.yarn_ext_factor", .f = 0.5f}},
     UNSUPPORTED,
     "yarn_ext_factor is 0.5, only -1 (not set) and 1 are supported"},
    {"qwen2",
     {{TINY_STR, "qwen2.rope.scaling.type", .s = "yarn"},
      {TINY_F32, "qwen2.rope.scaling.factor", .f = 4},
      {TINY_F32, "qwen2.rope.scaling.yarn_beta_fast", .f = 0.5f}},
     FORMAT,
     "yarn_beta_fast (or beta_fast) is 0.5 and yarn_beta_slow (or beta_slow) 1"},
    {"llama",
     {{TINY_ADD_TENSOR, "rope_freqs.weight", .n_dims = 1, .ne = {3}, .f = 1}},
     FORMAT,
     "tensor rope_freqs.weight has shape [3], expected [4]"},
    {"llama",
     {{TINY_ADD_TENSOR, "rope_freqs.weight", .n_dims = 1, .ne = {4}, .f = -2}},
     FORMAT,
     "rope_freqs.weight has -2 at 0"},
    {"llama",
     {{TINY_F32, "llama.attention.layer_norm_rms_epsilon", .f = NAN}},
     FORMAT,
     "layer_norm_rms_epsilon is nan"},
    {"llama",
     {{TINY_DROP_KEY, .name = "llama.attention.layer_norm_rms_epsilon"}},
     FORMAT,
     "llama.attention.layer_norm_rms_epsilon is missing"},
    {"llama",
     {{TINY_BOOL, "llama.attention.causal", .u = 0}},
     UNSUPPORTED,
     "only causal attention"},
    {"qwen3",
     {{TINY_U32, "qwen3.pooling_type", .u = 3}},
     UNSUPPORTED,
     "qwen3.pooling_type is 3 (last): the model gives a vector of a text, not next tokens"},
    {"qwen3",
     {{TINY_U32, "qwen3.pooling_type", .u = 4}, {TINY_DROP_TENSOR, .name = "output.weight"}},
     UNSUPPORTED,
     "qwen3.pooling_type is 4 (rank): the model gives a score of a text"},
    {"qwen3", {{TINY_U32, "qwen3.pooling_type", .u = 9}}, UNSUPPORTED, "is 9 (unknown)"},
    {"qwen3", {{TINY_STR, "qwen3.pooling_type", .s = "last"}}, FORMAT, "pooling_type is str"},
    {"llama",
     {{TINY_STR, "general.type", .s = "adapter"}, {TINY_DROP_KEY, .name = "llama.block_count"}},
     UNSUPPORTED,
     "general.type is adapter"},
    {"llama",
     {{TINY_U32, "llama.attention.sliding_window", .u = 16},
      {TINY_U32, "llama.attention.sliding_window_pattern", .u = 2}},
     UNSUPPORTED,
     "llama.attention.sliding_window_pattern is there, so which layers use the window of 16"},
    {"qwen2",
     {{TINY_U32, "qwen2.attention.sliding_window", .u = 16}},
     UNSUPPORTED,
     "sliding_window is 16 of a context of 64"},
    {"qwen2",
     {{TINY_U32, "qwen2.attention.sliding_window", .u = 63}},
     UNSUPPORTED,
     "sliding_window is 63 of a context of 64"},
    {"llama-moe",
     {{TINY_U32, "llama.expert_used_count", .u = 5}},
     FORMAT,
     "expert_used_count is 5, expected 1 to expert_count, 4"},
    {"llama-moe",
     {{TINY_U32, "llama.expert_used_count", .u = 0}},
     FORMAT,
     "expert_used_count is 0"},
    {"llama-moe",
     {{TINY_U32, "llama.expert_group_count", .u = 2}},
     UNSUPPORTED,
     "llama.expert_group_count is 2"},
    {"qwen3moe",
     {{TINY_U32, "qwen3moe.expert_gating_func", .u = 2}},
     UNSUPPORTED,
     "qwen3moe.expert_gating_func is 2, only 1 (softmax)"},
    {"qwen3moe",
     {{TINY_F32, "qwen3moe.expert_weights_scale", .f = 2.5f}},
     UNSUPPORTED,
     "qwen3moe.expert_weights_scale is 2.5"},
    {"llama-moe",
     {{TINY_U32, "llama.expert_count", .u = 8}},
     FORMAT,
     "tensor blk.0.ffn_gate_inp.weight has shape [4][32], expected [8][32]"},
    {"qwen3moe",
     {{TINY_U32, "qwen3moe.expert_count", .u = 0}},
     FORMAT,
     "expert_count is missing or 0"},
    {"llama",
     {{TINY_U32, "llama.vocab_size", .u = 100}},
     FORMAT,
     "llama.vocab_size is 100, tensor token_embd.weight has 96 rows"},
    {"llama",
     {{TINY_U32, "tokenizer.ggml.eos_token_id", .u = 96}},
     FORMAT,
     "tokenizer.ggml.eos_token_id is 96, outside the vocabulary of 96"},
    {"llama",
     {{TINY_DROP_TENSOR, .name = "token_embd.weight"}},
     FORMAT,
     "token_embd.weight is missing"},
    {"llama",
     {{TINY_SHAPE, "token_embd.weight", .n_dims = 1, .ne = {32}}},
     FORMAT,
     "token_embd.weight is of another shape"},
    {"llama",
     {{TINY_SHAPE, "output.weight", .n_dims = 2, .ne = {32, 95}}},
     FORMAT,
     "tensor output.weight has shape [95][32], expected [96][32]"},
    {"llama",
     {{TINY_DROP_TENSOR, .name = "blk.1.attn_q.weight"}},
     FORMAT,
     "tensor blk.1.attn_q.weight is missing, expected with shape [32][32]"},
    {"llama",
     {{TINY_SHAPE, "blk.1.attn_q.weight", .n_dims = 2, .ne = {31, 32}}},
     FORMAT,
     "tensor blk.1.attn_q.weight has shape [32][31], expected [32][32]"},
    {"llama",
     {{TINY_FORMAT, "blk.0.attn_norm.weight", .u = HT_F16}},
     UNSUPPORTED,
     "vector blk.0.attn_norm.weight is in format F16, expected F32"},
    {"llama",
     {{TINY_FORMAT, "blk.0.attn_q.weight", .u = HT_I8}},
     UNSUPPORTED,
     "tensor blk.0.attn_q.weight is in format I8, which is not supported"},
    {"llama",
     {{TINY_ADD_TENSOR, "blk.0.attn_sinks.weight", .n_dims = 1, .ne = {4}}},
     UNSUPPORTED,
     "tensor blk.0.attn_sinks.weight is not one that architecture llama"},
    {"llama",
     {{TINY_ADD_TENSOR, "output_norm.bias", .n_dims = 1, .ne = {32}}},
     UNSUPPORTED,
     "tensor output_norm.bias is not one that architecture llama"},
    {"llama",
     {{TINY_ADD_TENSOR, "position_embd.weight", .n_dims = 2, .ne = {32, 64}}},
     UNSUPPORTED,
     "tensor position_embd.weight is not one that architecture llama"},
    {"llama",
     {{TINY_ADD_TENSOR, "token_types.weight", .n_dims = 2, .ne = {32, 2}}},
     UNSUPPORTED,
     "tensor token_types.weight is not one that architecture llama"},
    {"llama",
     {{TINY_ADD_TENSOR, "rope_freqs.weight", .n_dims = 1, .ne = {4}, .f = 0.0624f}},
     FORMAT,
     "tensor rope_freqs.weight has 0.0624 at 0, expected factors of 1/16 or more"},
    {"qwen3",
     {{TINY_ADD_TENSOR, "cls.output.weight", .n_dims = 2, .ne = {32, 2}}},
     UNSUPPORTED,
     "tensor cls.output.weight is not one that architecture qwen3"},
    {"qwen2",
     {{TINY_ADD_TENSOR, "rope_freqs.weight", .n_dims = 1, .ne = {4}, .f = 2}},
     UNSUPPORTED,
     "tensor rope_freqs.weight is not one that architecture qwen2"},
    {"gpt2",
     {{TINY_DROP_TENSOR, .name = "blk.0.attn_k.bias"}},
     FORMAT,
     "blk.0.attn_k.bias is missing"},
    {"gpt2-fused",
     {{TINY_DROP_TENSOR, .name = "blk.1.attn_qkv.bias"}},
     FORMAT,
     "blk.1.attn_qkv.bias is missing"},
    {"gpt2",
     {{TINY_DROP_TENSOR, .name = "blk.0.attn_output.bias"}},
     FORMAT,
     "blk.0.attn_output.bias is missing"},
    {"gpt2",
     {{TINY_DROP_TENSOR, .name = "output_norm.bias"}},
     FORMAT,
     "output_norm.bias is missing"},
    {"qwen3",
     {{TINY_DROP_TENSOR, .name = "blk.0.attn_k_norm.weight"}},
     FORMAT,
     "attn_k_norm.weight is missing"},
    {"gpt2",
     {{TINY_DROP_TENSOR, .name = "position_embd.weight"}},
     FORMAT,
     "position_embd.weight is missing, expected with shape [64][32]"},
    {"gpt2-fused",
     {{TINY_SHAPE, "blk.0.attn_qkv.weight", .n_dims = 2, .ne = {32, 96}}},
     FORMAT,
     "blk.0.attn_qkv.weight has shape [96][32], expected [64][32]"},
};

static void test_bad(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof bad_cases / sizeof bad_cases[0]; i++) {
        const struct bad_case *c = &bad_cases[i];
        const char *path = tiny_path("bad");
        struct tiny_edit edits[4] = {c->edits[0], c->edits[1], c->edits[2], {.kind = TINY_END}};
        struct hearth_error err = {0};
        struct ht_gguf *g = NULL;
        struct ht_model *m = NULL;
        tiny_write(path, c->arch, edits);
        if (ht_gguf_open(path, &g, &err)) fail_msg("%s", err.message);
        enum hearth_status st = ht_model_load(g, NULL, &m, &err);
        unlink(path);
        if (st != c->status || st != err.status || m != NULL)
            fail_msg("%s: status %s", c->sentence, hearth_status_name(st));
        if (!strstr(err.message, c->sentence))
            fail_msg("\"%s\" is not in \"%s\"", c->sentence, err.message);
        if (strncmp(err.message, path, strlen(path)) != 0 || strstr(err.message + 1, path))
            fail_msg("the file is not named once: \"%s\"", err.message);
        ht_gguf_close(g);
    }
}

// ---- models that are right

struct loaded {
    struct ht_gguf *g;
    struct ht_model *m;
};

static struct loaded load(const char *arch, const struct tiny_edit *edits,
                          const struct hearth_log *log) {
    struct loaded l = {0};
    tiny_open(arch, edits, log, &l.g, &l.m);
    return l;
}

static void unload(struct loaded *l) {
    ht_model_free(l->m);
    ht_gguf_close(l->g);
}

static void test_info(void **state) {
    (void)state;
    struct loaded l = load("llama-moe", NULL, NULL);
    struct hearth_model_info i;
    ht_model_get_info(l.m, &i);
    assert_string_equal(i.arch, "llama");
    assert_string_equal(i.name, "Tiny");
    assert_int_equal(i.n_layers, 2);
    assert_int_equal(i.dim, 32);
    assert_int_equal(i.n_heads, 4);
    assert_int_equal(i.n_kv_heads, 2);
    assert_int_equal(i.head_dim, 8);
    assert_int_equal(i.n_vocab, 96);
    assert_int_equal(i.n_experts, 4);
    assert_int_equal(i.n_experts_used, 2);
    uint64_t layer = 2 * 32 + 32 * 32 * 2 + 2 * 16 * 32 + 4 * 32 + 3 * 4 * 32 * 64;
    assert_int_equal(i.n_params, 2 * 96 * 32 + 32 + 2 * layer);
    assert_int_equal(i.weight_bytes, 4 * i.n_params);
    assert_int_equal(ht_model_n_ctx_train(l.m), 64);
    unload(&l);
}

// The whole of a fused matrix is counted once, and its three parts are what separate ones are.
static void test_fused(void **state) {
    (void)state;
    struct loaded l = load("gpt2-fused", NULL, NULL), s = load("gpt2", NULL, NULL);
    struct hearth_model_info a, b;
    ht_model_get_info(l.m, &a);
    ht_model_get_info(s.m, &b);
    assert_int_equal(a.n_params, b.n_params);
    const struct ht_plan *p = ht_model_plan(l.m);
    int n_fused = 0;
    for (uint32_t i = 0; i < p->n_steps; i++) {
        const struct ht_step *st = &p->steps[i];
        if (st->op != HT_OP_LINEAR || st->n_out != 3) continue;
        n_fused++;
        const struct ht_gguf_tensor *t = ht_gguf_find_tensor(
            l.g, st->layer == 0 ? "blk.0.attn_qkv.weight" : "blk.1.attn_qkv.weight");
        assert_ptr_equal(p->weights[st->w[0]].data, t->data);
        assert_ptr_equal(p->weights[st->w[1]].data, t->data + 32 * 32 * 4);
        assert_ptr_equal(p->weights[st->w[2]].data, t->data + 48 * 32 * 4);
        assert_int_equal(p->weights[st->w[2]].ne[1], 16);
    }
    assert_int_equal(n_fused, 2); // one a layer
    unload(&l);
    unload(&s);
}

static void test_tied_output(void **state) {
    (void)state;
    static const struct tiny_edit edits[] = {{TINY_DROP_TENSOR, .name = "output.weight"},
                                             {.kind = TINY_END}};
    struct loaded l = load("qwen3", edits, NULL);
    const struct ht_plan *p = ht_model_plan(l.m);
    const struct ht_step *last = &p->steps[p->n_steps - 1];
    assert_string_equal(p->weights[last->w[0]].name, "token_embd.weight");
    assert_int_equal(last->w[0], p->steps[0].w[0]);
    unload(&l);
    // As Llama 3.2 has it: factors of the rotation are bound before the embedding.
    static const struct tiny_edit llama32[] = {
        {TINY_ADD_TENSOR, "rope_freqs.weight", .n_dims = 1, .ne = {4}, .f = 2},
        {TINY_DROP_TENSOR, .name = "output.weight"},
        {.kind = TINY_END}};
    l = load("llama", llama32, NULL);
    p = ht_model_plan(l.m);
    assert_string_equal(p->weights[p->steps[p->n_steps - 1].w[0]].name, "token_embd.weight");
    unload(&l);
}

// Biases that few models of this architecture have go where their names say.
static void test_optional_biases(void **state) {
    (void)state;
    static const struct tiny_edit edits[] = {
        {TINY_ADD_TENSOR, "blk.0.attn_k.bias", .n_dims = 1, .ne = {16}, .f = 1},
        {TINY_ADD_TENSOR, "blk.0.attn_output.bias", .n_dims = 1, .ne = {32}, .f = 1},
        {TINY_ADD_TENSOR, "blk.0.ffn_gate.bias", .n_dims = 1, .ne = {64}, .f = 1},
        {TINY_ADD_TENSOR, "blk.1.ffn_up.bias", .n_dims = 1, .ne = {64}, .f = 1},
        {TINY_ADD_TENSOR, "blk.1.ffn_down.bias", .n_dims = 1, .ne = {32}, .f = 1},
        {TINY_ADD_TENSOR, "output.bias", .n_dims = 1, .ne = {96}, .f = 1},
        {.kind = TINY_END}};
    struct loaded l = load("llama", edits, NULL);
    const struct ht_plan *p = ht_model_plan(l.m);
    int n = 0;
    for (uint32_t i = 0; i < p->n_steps; i++)
        for (uint32_t k = 0; p->steps[i].op == HT_OP_LINEAR && k < p->steps[i].n_out; k++) {
            if (p->steps[i].w[3 + k] == HT_NONE) continue;
            const char *w = p->weights[p->steps[i].w[k]].name;
            const char *b = p->weights[p->steps[i].w[3 + k]].name;
            size_t len = strlen(w) - strlen("weight");
            assert_memory_equal(w, b, len);
            assert_string_equal(b + len, "bias");
            n++;
        }
    assert_int_equal(n, 6);
    unload(&l);
}

static void catch_log(void *user, enum hearth_log_level level, const char *line) {
    if (level == HEARTH_LOG_WARN) snprintf(user, 256, "%s", line);
}

static void catch_info(void *user, enum hearth_log_level level, const char *line) {
    if (level == HEARTH_LOG_INFO) snprintf(user, 256, "%s", line);
}

static void test_unused_is_said(void **state) {
    (void)state;
    static const struct tiny_edit edits[] = {
        {TINY_U32, "qwen3.pooling_type", .u = UINT32_MAX}, // not set
        {TINY_ADD_TENSOR, "v.patch_embd.weight", .n_dims = 2, .ne = {32, 2}},
        {.kind = TINY_END}};
    char line[256] = "";
    struct hearth_log log = {catch_log, line};
    struct loaded l = load("qwen3", edits, &log);
    assert_non_null(strstr(line, "tensor v.patch_embd.weight is not used"));
    unload(&l);
    static const struct tiny_edit padding[] = {
        {TINY_U32, "tokenizer.ggml.padding_token_id", .u = 96}, {.kind = TINY_END}};
    l = load("llama", padding, &log);
    assert_non_null(strstr(line, "tokenizer.ggml.padding_token_id is 96, no token"));
    unload(&l);
    static const struct tiny_edit unset[] = {
        // -1, in 32 bits
        {TINY_U32, "tokenizer.ggml.eot_token_id", .u = UINT32_MAX},
        {TINY_U32, "tokenizer.ggml.padding_token_id", .u = UINT32_MAX},
        {.kind = TINY_END}};
    line[0] = 0;
    l = load("llama", unset, &log);
    assert_string_equal(line, "");
    unload(&l);
    static const struct tiny_edit inputs[] = {
        {TINY_ADD_TENSOR, "blk.0.attn_q.input_scale", .n_dims = 1, .ne = {1}},
        {TINY_ADD_TENSOR, "output.input_scale", .n_dims = 1, .ne = {1}},
        {.kind = TINY_END}};
    log.fn = catch_info;
    l = load("llama", inputs, &log);
    assert_non_null(strstr(line, "2 tensors .input_scale are not used"));
    unload(&l);
}

// Where a file does not say how wide experts are, those that a token uses are as wide as a dense
// network together.
static void test_expert_width(void **state) {
    (void)state;
    static const struct tiny_edit edits[] = {
        {TINY_DROP_KEY, .name = "qwen3moe.expert_feed_forward_length"},
        {TINY_U32, "qwen3moe.feed_forward_length", .u = 128},
        {.kind = TINY_END}};
    struct loaded l = load("qwen3moe", edits, NULL);
    const struct ht_plan *p = ht_model_plan(l.m);
    int n = 0;
    for (uint32_t i = 0; i < p->n_steps; i++) {
        if (p->steps[i].op != HT_OP_MOE_FFN) continue;
        assert_int_equal(p->weights[p->steps[i].w[0]].ne[1], 64);
        n++;
    }
    assert_int_equal(n, 2);
    unload(&l);
}

// Bytes of the caller may lie anywhere; where tensors would not be whole words they are refused.
static void test_odd_place(void **state) {
    (void)state;
    struct hearth_error err;
    const char *path = tiny_path("odd");
    tiny_write(path, "llama", NULL);
    FILE *f = fopen(path, "rb");
    assert_non_null(f);
    fseek(f, 0, SEEK_END);
    size_t n = (size_t)ftell(f);
    char *bytes = malloc(n + 4);
    assert_non_null(bytes);
    for (size_t at = 0; at < 4; at++) {
        struct ht_gguf *g;
        struct ht_model *m = NULL;
        rewind(f);
        assert_int_equal(fread(bytes + at, 1, n, f), n);
        if (ht_gguf_open_bytes(bytes + at, n, "bytes", &g, &err)) fail_msg("%s", err.message);
        enum hearth_status want = at == 0 ? HEARTH_OK : HEARTH_E_UNSUPPORTED;
        assert_int_equal(ht_model_load(g, NULL, &m, &err), want);
        if (at > 0) assert_non_null(strstr(err.message, "not begin at a multiple of 4 bytes"));
        ht_model_free(m);
        ht_gguf_close(g);
    }
    fclose(f);
    unlink(path);
    free(bytes);
}

// ---- rope tables against the formulas, written out again

static const struct ht_rope *rope_of(const struct loaded *l) {
    const struct ht_plan *p = ht_model_plan(l->m);
    assert_int_equal(p->n_ropes, 1);
    return &p->ropes[0];
}

static void check_freqs(const struct ht_rope *r, const double *want, double mscale) {
    assert_int_equal(r->n_rot, 8);
    for (int i = 0; i < 4; i++)
        if (fabs(r->inv_freq[i] - want[i]) > 1e-14) fail_msg("%d: %.17g", i, r->inv_freq[i]);
    assert_true(fabs((double)r->mscale - mscale) < 1e-7);
}

static void test_rope_plain_and_linear(void **state) {
    (void)state;
    static const struct tiny_edit linear[] = {{TINY_F32, "llama.rope.scaling.factor", .f = 4},
                                              {.kind = TINY_END}};
    static const struct tiny_edit none[] = {{TINY_F32, "llama.rope.scaling.factor", .f = 4},
                                            {TINY_STR, "llama.rope.scaling.type", .s = "none"},
                                            {.kind = TINY_END}};
    static const struct tiny_edit old[] = {
        {TINY_F32, "llama.rope.scale_linear", .f = 4},
        {TINY_F32, "llama.rope.scaling.attn_factor", .f = 0}, // not set
        {.kind = TINY_END}};
    const double plain[4] = {1, 0.1, 0.01, 0.001}; // 10000^(-i/4)
    const double quarter[4] = {0.25, 0.025, 0.0025, 0.00025};
    struct loaded a = load("llama", NULL, NULL), b = load("llama", linear, NULL),
                  c = load("llama", none, NULL), d = load("llama", old, NULL);
    check_freqs(rope_of(&a), plain, 1);
    check_freqs(rope_of(&b), quarter, 1);
    check_freqs(rope_of(&c), plain, 1);
    check_freqs(rope_of(&d), quarter, 1);
    unload(&d);
    unload(&a);
    unload(&b);
    unload(&c);
}

// Windows that nobody reaches say nothing, whichever layers they would be for; as many KV heads as
// heads where the file does not say.
static void test_not_said(void **state) {
    (void)state;
    static const struct tiny_edit wide[] = {
        {TINY_U32, "llama.attention.sliding_window", .u = 64}, // the training context
        {TINY_U32, "llama.attention.sliding_window_pattern", .u = 2},
        {.kind = TINY_END}};
    struct loaded l = load("llama", wide, NULL);
    unload(&l);
    static const struct tiny_edit qwen[] = {{TINY_U32, "qwen2.attention.sliding_window", .u = 64},
                                            {.kind = TINY_END}};
    l = load("qwen2", qwen, NULL);
    unload(&l);
    const struct ht_rope *rope;
    // YaRN's factor on cos and sin comes above a factor of 1 alone
    static const struct tiny_edit less[] = {{TINY_STR, "llama.rope.scaling.type", .s = "yarn"},
                                            {TINY_F32, "llama.rope.scaling.factor", .f = 0.5f},
                                            {.kind = TINY_END}};
    l = load("llama", less, NULL);
    rope = rope_of(&l);
    assert_true(rope->mscale == 1);
    unload(&l);
}

static void test_rope_factors(void **state) {
    (void)state;
    static const struct tiny_edit edits[] = {
        {TINY_ADD_TENSOR, "rope_freqs.weight", .n_dims = 1, .ne = {4}, .f = 8}, {.kind = TINY_END}};
    const double want[4] = {0.125, 0.0125, 0.00125, 0.000125};
    struct loaded l = load("llama", edits, NULL);
    check_freqs(rope_of(&l), want, 1);
    unload(&l);
}

// The plan of mistral3 is llama's, where its queries do not grow.
static void test_mistral3(void **state) {
    (void)state;
    struct ht_buf text[2];
    for (int i = 0; i < 2; i++) {
        ht_buf_init(&text[i], 1 << 20);
        struct loaded l = load(i ? "mistral3" : "llama", NULL, NULL);
        assert_true(ht_plan_print(ht_model_plan(l.m), &text[i]));
        unload(&l);
    }
    assert_int_equal(text[0].len, text[1].len);
    assert_memory_equal(text[0].data, text[1].data, text[0].len);
    ht_buf_deinit(&text[0]), ht_buf_deinit(&text[1]);
}

// Ollama's names of what llama.cpp's say of the rotation, and both where neither scales.
static void test_ollama_rope(void **state) {
    (void)state;
    static const struct tiny_edit ours[] = {
        {TINY_STR, "mistral3.rope.scaling.type", .s = "yarn"},
        {TINY_F32, "mistral3.rope.scaling.factor", .f = 16},
        {TINY_U32, "mistral3.rope.scaling.original_context_length", .u = 32},
        {TINY_F32, "mistral3.rope.scaling.yarn_beta_fast", .f = 4},
        {TINY_F32, "mistral3.rope.scaling.yarn_beta_slow", .f = 0.5f},
        {TINY_F32, "mistral3.rope.scaling.yarn_log_multiplier", .f = 1},
        {TINY_F32, "mistral3.attention.temperature_scale", .f = 0.1f},
        {.kind = TINY_END}};
    const struct tiny_edit theirs[] = {ours[0],
                                       ours[1],
                                       ours[2],
                                       {TINY_F32, "mistral3.rope.scaling.beta_fast", .f = 4},
                                       {TINY_F32, "mistral3.rope.scaling.beta_slow", .f = 0.5f},
                                       {TINY_F32, "mistral3.rope.scaling.mscale_all_dim", .f = 1},
                                       {TINY_F32, "mistral3.rope.scaling_beta", .f = 0.1f},
                                       {TINY_F32, "mistral3.rope.scaling.mscale", .f = 1},
                                       {.kind = TINY_END}};
    struct loaded a = load("mistral3", ours, NULL), b = load("mistral3", theirs, NULL);
    const struct ht_plan *p = ht_model_plan(a.m), *q = ht_model_plan(b.m);
    assert_int_equal(p->n_ropes, 2);
    assert_int_equal(q->n_ropes, 2);
    assert_true(p->ropes[1].far_beta == 0.1f && p->ropes[1].mscale == 1);
    assert_true(p->ropes[0].inv_freq[3] < 0.0005); // scaled
    for (int i = 0; i < 2; i++) {
        assert_memory_equal(p->ropes[i].inv_freq, q->ropes[i].inv_freq, 4 * sizeof(double));
        assert_true(p->ropes[i].mscale == q->ropes[i].mscale);
        assert_true(p->ropes[i].far_beta == q->ropes[i].far_beta);
        assert_int_equal(p->ropes[i].far_period, q->ropes[i].far_period);
    }
    unload(&a), unload(&b);
    struct tiny_edit without[9]; // mscale, which the other counts beside
    memcpy(without, theirs, sizeof without);
    for (int i = 0; i < 2; i++) {
        without[7] = i ? (struct tiny_edit){TINY_F32, theirs[7].name, .f = 0}
                       : (struct tiny_edit){.kind = TINY_END};
        a = load("mistral3", without, NULL);
        double want = 1 + 0.1 * log(16), got = (double)ht_model_plan(a.m)->ropes[0].mscale;
        assert_true(fabs(got - want) < 1e-6);
        unload(&a);
    }
    static const char *const types[] = {"", "default"};
    for (int i = 0; i < 2; i++) {
        const struct tiny_edit none[] = {{TINY_STR, "mistral3.rope.scaling.type", .s = types[i]},
                                         {TINY_F32, "mistral3.rope.scaling.factor", .f = (float)i},
                                         {.kind = TINY_END}};
        a = load("mistral3", none, NULL);
        check_freqs(rope_of(&a), (const double[]){1, 0.1, 0.01, 0.001}, 1);
        unload(&a);
    }
}

static void test_rope_yarn(void **state) {
    (void)state;
    static const struct tiny_edit edits[] = {
        {TINY_STR, "qwen2.rope.scaling.type", .s = "yarn"},
        {TINY_F32, "qwen2.rope.scaling.factor", .f = 4},
        {TINY_U32, "qwen2.rope.scaling.original_context_length", .u = 32768},
        {.kind = TINY_END}};
    // Pairs turn 32 times at 8 ln(32768 / 64 pi) / (2 ln 10000) = 2.21 and once at 3.72: from 2 to
    // 4, so pairs 0 to 2 keep their frequency and pair 3 is half way.
    const double want[4] = {1, 0.1, 0.01, 0.001 * 0.5 + 0.00025 * 0.5};
    struct loaded l = load("qwen2", edits, NULL);
    check_freqs(rope_of(&l), want, 1 + 0.1 * log(4));
    unload(&l);
    // Without a length of its own, the training's, 64: from 0 (-0.50) to 2 (1.01).
    const struct tiny_edit plain[] = {edits[0], edits[1], {.kind = TINY_END}};
    const double want_64[4] = {1, 0.1 * 0.5 + 0.025 * 0.5, 0.0025, 0.00025};
    l = load("qwen2", plain, NULL);
    check_freqs(rope_of(&l), want_64, 1 + 0.1 * log(4));
    unload(&l);
    // What the configuration says of the magnitude: mscale_all_dim, and attention_factor.
    static const struct {
        const char *key;
        float value;
        double mscale, also; // twice: by itself, and times attn_factor
    } rows[] = {{"qwen2.rope.scaling.yarn_log_multiplier", 1, 1, 0.5},
                {"qwen2.rope.scaling.yarn_log_multiplier", 0.5f, 1.1386294361 / 1.0693147181, 2},
                {"qwen2.rope.scaling.yarn_log_multiplier", 0, 1.1386294361, 1},
                {"qwen2.rope.scaling.yarn_attn_factor", 1, 1.1386294361, 3},          // not set
                {"qwen2.rope.scaling.yarn_attn_factor", 0.5f, 0.5 * 1.1386294361, 3}, // multiplies
                {"qwen2.rope.scaling.yarn_attn_factor", 1.25f, 1.25, 1}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const struct tiny_edit more[] = {
            edits[0],
            edits[1],
            edits[2],
            {TINY_F32, rows[i].key, .f = rows[i].value},
            {TINY_F32, "qwen2.rope.scaling.attn_factor", .f = (float)rows[i].also},
            {.kind = TINY_END}};
        l = load("qwen2", more, NULL);
        check_freqs(rope_of(&l), want, rows[i].mscale * rows[i].also);
        unload(&l);
    }
}

// ---- a window is honoured: far tokens make no difference, near ones do

static float last_logit(const struct ht_plan *p, int32_t first_token) {
    struct hearth_error err;
    struct ht_backend *backend = NULL;
    struct ht_prepared *pr = NULL;
    const struct ht_backend_options o = {0};
    const struct ht_limits l = {
        .max_tokens = 40, .max_outputs = 1, .max_ctx = 40, .n_pages = 2, .kv_type = HEARTH_KV_F32};
    int32_t tokens[40];
    uint32_t pos[40], seq[40] = {0}, output = 39;
    const uint32_t pages[2] = {1, 0};
    const struct ht_batch_seq s = {pages, 2};
    for (uint32_t i = 0; i < 40; i++)
        tokens[i] = i == 0 ? first_token : (int32_t)(i * 7 % 96), pos[i] = i;
    const struct ht_batch b = {.n_tokens = 40,
                               .tokens = tokens,
                               .pos = pos,
                               .seq = seq,
                               .n_seqs = 1,
                               .seqs = &s,
                               .n_outputs = 1,
                               .outputs = &output};
    const float *logits;
    assert_int_equal(ht_backend_ref.open(&o, &backend, &err), HEARTH_OK);
    assert_int_equal(ht_backend_ref.prepare(backend, p, &l, &pr, &err), HEARTH_OK);
    assert_int_equal(ht_backend_ref.execute(pr, &b, &logits, &err), HEARTH_OK);
    float y = logits[5];
    ht_backend_ref.release(pr);
    ht_backend_ref.close(backend);
    return y;
}

static void test_window(void **state) {
    (void)state;
    // Two layers of a window of n reach back 2 (n - 1) positions: token 0 reaches 39 with 21.
    static const struct tiny_edit w20[] = {{TINY_U32, "llama.attention.sliding_window", .u = 20},
                                           {.kind = TINY_END}};
    static const struct tiny_edit w21[] = {{TINY_U32, "llama.attention.sliding_window", .u = 21},
                                           {.kind = TINY_END}};
    struct loaded a = load("llama", w20, NULL), b = load("llama", w21, NULL);
    assert_true(last_logit(ht_model_plan(a.m), 3) == last_logit(ht_model_plan(a.m), 4));
    assert_true(last_logit(ht_model_plan(b.m), 3) != last_logit(ht_model_plan(b.m), 4));
    unload(&a);
    unload(&b);
}

// In one layer, the last position's scores are all of its query's, so one that grows is one whose
// scores are multiplied by as much: 1 + 0.5 ln(1 + floor(39 / 8)), and of the training context, 64,
// nothing.
static void test_far_queries(void **state) {
    (void)state;
    struct tiny_edit edits[] = {{TINY_U32, "mistral3.block_count", .u = 1},
                                {TINY_DROP_TENSOR, .name = "blk.1.attn_norm.weight"},
                                {TINY_DROP_TENSOR, .name = "blk.1.attn_q.weight"},
                                {TINY_DROP_TENSOR, .name = "blk.1.attn_k.weight"},
                                {TINY_DROP_TENSOR, .name = "blk.1.attn_v.weight"},
                                {TINY_DROP_TENSOR, .name = "blk.1.attn_output.weight"},
                                {TINY_DROP_TENSOR, .name = "blk.1.ffn_norm.weight"},
                                {TINY_DROP_TENSOR, .name = "blk.1.ffn_gate.weight"},
                                {TINY_DROP_TENSOR, .name = "blk.1.ffn_up.weight"},
                                {TINY_DROP_TENSOR, .name = "blk.1.ffn_down.weight"},
                                {TINY_F32, "mistral3.attention.temperature_scale", .f = 0.5f},
                                {TINY_U32, "mistral3.rope.scaling.original_context_length", .u = 8},
                                {.kind = TINY_END}};
    struct loaded a = load("mistral3", edits, NULL), b, c;
    edits[11].kind = TINY_END;
    b = load("mistral3", edits, NULL);
    edits[10].kind = TINY_END;
    c = load("mistral3", edits, NULL);
    float grown = last_logit(ht_model_plan(a.m), 3), same = last_logit(ht_model_plan(b.m), 3);
    struct ht_plan p = *ht_model_plan(c.m);
    assert_true(same == last_logit(&p, 3) && grown != same);
    struct ht_step *steps = malloc(p.n_steps * sizeof *steps);
    assert_non_null(steps);
    memcpy(steps, p.steps, p.n_steps * sizeof *steps);
    for (uint32_t i = 0; i < p.n_steps; i++)
        if (steps[i].op == HT_OP_ATTENTION) steps[i].u.attn.scale *= 1 + 0.5f * logf(5);
    p.steps = steps;
    float want = last_logit(&p, 3);
    if (!(fabsf(grown - want) < 1e-3f * fabsf(grown - same)))
        fail_msg("%.9g, expected %.9g", (double)grown, (double)want);
    free(steps);
    unload(&a), unload(&b), unload(&c);
}

static void test_plan_prints(void **state) {
    (void)state;
    struct loaded l = load("qwen3", NULL, NULL);
    struct ht_buf out;
    ht_buf_init(&out, 1 << 20);
    assert_true(ht_plan_print(ht_model_plan(l.m), &out));
    uint32_t lines = 0;
    for (size_t i = 0; i < out.len; i++) lines += out.data[i] == '\n';
    assert_int_equal(lines, ht_model_plan(l.m)->n_steps + 1);
    assert_non_null(
        strstr(out.data, "blk.1.attn_q[32], blk.1.attn_k[16], blk.1.attn_v[16] <- attn_norm"));
    assert_non_null(strstr(out.data, "attn_q.weight F32 [32][32]"));
    ht_buf_deinit(&out);
    ht_buf_init(&out, 100); // too small: says so
    assert_false(ht_plan_print(ht_model_plan(l.m), &out));
    ht_buf_deinit(&out);
    unload(&l);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_bad),
        cmocka_unit_test(test_info),
        cmocka_unit_test(test_fused),
        cmocka_unit_test(test_tied_output),
        cmocka_unit_test(test_optional_biases),
        cmocka_unit_test(test_unused_is_said),
        cmocka_unit_test(test_expert_width),
        cmocka_unit_test(test_odd_place),
        cmocka_unit_test(test_rope_plain_and_linear),
        cmocka_unit_test(test_not_said),
        cmocka_unit_test(test_rope_factors),
        cmocka_unit_test(test_rope_yarn),
        cmocka_unit_test(test_ollama_rope),
        cmocka_unit_test(test_mistral3),
        cmocka_unit_test(test_far_queries),
        cmocka_unit_test(test_window),
        cmocka_unit_test(test_plan_prints),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
