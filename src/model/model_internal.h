// SPDX-License-Identifier: MIT
// What the files of the model room share: hyper-parameters, the builder through which an
// architecture binds weights and appends steps, and the blocks that architectures have in common.
//
// The builder's failure sticks: after the first one every call does nothing and returns HT_NONE, so
// an architecture's file reads as the model does and ht_model_load looks once at the end.
#ifndef HT_MODEL_MODEL_INTERNAL_H
#define HT_MODEL_MODEL_INTERNAL_H

#include "base/arena.h"
#include "base/log.h"
#include "model/model.h"

struct ht_hparams {
    uint32_t n_layers, dim, n_heads, n_kv_heads, head_dim, ffn_dim, n_vocab, n_ctx_train;
    uint32_t n_experts, n_experts_used, expert_ffn_dim; // 0: no experts
    uint32_t window;                                    // sliding attention window; 0: none
    float norm_eps;
};

struct ht_build {
    const struct ht_gguf *g;
    const char *arch; // prefix of the keys
    struct ht_arena *arena;
    struct hearth_error *err;
    enum hearth_status status; // the first failure
    struct ht_hparams hp;
    uint32_t layer; // names get "blk.<layer>."; HT_NONE outside the layers

    // The plan as it grows; on the heap, handed to the model at the end.
    struct ht_tensor *tensors;
    struct ht_weight *weights;
    const struct ht_gguf_tensor **sources; // [n_weights] the file's tensor behind each weight
    struct ht_rope *ropes;
    struct ht_step *steps;
    uint32_t n_tensors, n_weights, n_ropes, n_steps;
    uint32_t cap_tensors, cap_weights, cap_sources, cap_ropes, cap_steps;
    uint32_t embedding; // weight
    uint32_t logits;
};

// The largest width of anything: products of two fit 64 bits.
#define HT_MAX_WIDTH (1u << 24)

struct ht_arch {
    const char *name; // general.architecture
    // Common hyper-parameters are read and checked; reads its own, binds, appends every step.
    void (*build)(struct ht_build *b);
};

// The table of archs.c; NULL if there is no such architecture.
const struct ht_arch *ht_arch_find(const char *name, size_t len);

// An architecture's file in arch/ defines its build functions here.
void ht_arch_llama(struct ht_build *b);
void ht_arch_mistral3(struct ht_build *b);
void ht_arch_qwen2(struct ht_build *b);
void ht_arch_qwen3(struct ht_build *b);
void ht_arch_qwen3moe(struct ht_build *b);
void ht_arch_gpt2(struct ht_build *b);

// ---- failures and keys (build.c)

// Puts the file's name in front; the first failure stays.
void ht_build_fail(struct ht_build *b, enum hearth_status status, const char *fmt, ...)
    HT_PRINTF(3, 4);
// "<arch>.<suffix>". Absent optional keys leave *out as it is.
void ht_key_u32(struct ht_build *b, const char *suffix, bool required, uint32_t *out);
void ht_key_f32(struct ht_build *b, const char *suffix, bool required, float *out);
void ht_key_str(struct ht_build *b, const char *suffix, struct ht_str *out);

// ---- hyper-parameters (hparams.c)

void ht_hparams_read(struct ht_build *b); // those that every architecture has
void ht_read_norm_eps(struct ht_build *b, const char *suffix);
void ht_read_experts(struct ht_build *b);
// A sliding window that every layer uses.
void ht_read_window(struct ht_build *b);
// The same key where the file cannot say which layers use it: anything that would take effect is
// refused.
void ht_refuse_window(struct ht_build *b);

// ---- rope tables (rope.c)

// From rope.dimension_count, rope.freq_base and rope.scaling.*; frequencies are divided by the
// elements of the file's tensor `factors` where that is not NULL and the file has it. Returns the
// rope's id.
uint32_t ht_build_rope(struct ht_build *b, const char *factors);
// The rope of queries whose scores grow with their position: `rope`, which rotates whole heads,
// times 1 + beta ln(1 + floor(pos / period)), beta being attention.temperature_scale and period
// rope.scaling.original_context_length (without one, the training context). `rope` itself where the
// file has no such scale.
uint32_t ht_build_far_rope(struct ht_build *b, uint32_t rope);

// ---- weights (build.c): name -> expected shape -> tensor. Names get the layer's prefix.

uint32_t ht_bind_vector(struct ht_build *b, const char *name, uint64_t n);
// With the scale that the file may have beside "<name>.weight": "<name>.scale".
uint32_t ht_bind_matrix(struct ht_build *b, const char *name, uint64_t n_out, uint64_t n_in);
uint32_t ht_bind_experts(struct ht_build *b, const char *name, uint64_t n_experts, uint64_t n_out,
                         uint64_t n_in);
bool ht_has_weight(const struct ht_build *b, const char *name);
// "attn_q.scale" of "attn_q.weight", ends being "scale" and "weight"; false if the name has no such
// end, or is too long.
bool ht_beside(const char *name, const char *end, const char *other_end, char out[160]);
// HT_NONE where the file has none and it is not `required`.
uint32_t ht_bind_bias(struct ht_build *b, const char *name, uint64_t n, bool required);
// Rows [first, first + n) of a matrix that holds several, as a weight of their own; and the same
// part of a bias.
uint32_t ht_bind_matrix_rows(struct ht_build *b, const char *name, uint64_t n_out, uint64_t n_in,
                             uint64_t first, uint64_t n);
uint32_t ht_bind_bias_part(struct ht_build *b, const char *name, uint64_t n_all, uint64_t first,
                           uint64_t n, bool required);

// ---- steps (build.c): each appends one and returns its output tensor, named "blk.<layer>.<name>"

struct ht_linear_out {
    const char *name;
    uint32_t weight, bias; // bias: HT_NONE for none
};

uint32_t ht_add_embed(struct ht_build *b, const char *name, uint32_t table, float scale);
uint32_t ht_add_pos(struct ht_build *b, const char *name, uint32_t x, uint32_t table);
uint32_t ht_add_select(struct ht_build *b, const char *name, uint32_t x);
// Up to three matrices on one input; out[i] receives their outputs.
void ht_add_linears(struct ht_build *b, uint32_t x, const struct ht_linear_out *l, uint32_t n,
                    uint32_t *out);
uint32_t ht_add_linear(struct ht_build *b, const char *name, uint32_t x, uint32_t weight,
                       uint32_t bias);
uint32_t ht_add_rms_norm(struct ht_build *b, const char *name, uint32_t x, uint32_t w);
uint32_t ht_add_layer_norm(struct ht_build *b, const char *name, uint32_t x, uint32_t w,
                           uint32_t bias);
uint32_t ht_add_head_norm(struct ht_build *b, const char *name, uint32_t x, uint32_t w);
uint32_t ht_add_rope(struct ht_build *b, const char *name, uint32_t x, uint32_t rope,
                     enum ht_rope_pairing pairing);
// Appends K and V to the pages, then attends. scale is 1 / sqrt(head_dim).
uint32_t ht_add_attention(struct ht_build *b, const char *name, uint32_t q, uint32_t k, uint32_t v);
uint32_t ht_add_act(struct ht_build *b, const char *name, uint32_t x, enum ht_act kind);
uint32_t ht_add_act_mul(struct ht_build *b, const char *name, uint32_t gate, uint32_t up,
                        enum ht_act kind);
uint32_t ht_add_add(struct ht_build *b, const char *name, uint32_t x, uint32_t y);
// Router scores -> experts and weights -> expert feed-forward of x.
uint32_t ht_add_moe(struct ht_build *b, const char *name, uint32_t x, uint32_t scores,
                    const uint32_t w[3], enum ht_act kind);

// ---- blocks that architectures share (blocks.c)

struct ht_attn_spec {
    uint32_t rope_q, rope_k; // HT_NONE: none
    enum ht_rope_pairing pairing;
    bool qk_norm; // RMS norm of each head of q and k before the rotation
    bool biased;  // every matrix has a bias; else it may have one
};

// The token embedding, and the output head with its tied weights; outside the layers.
uint32_t ht_block_embed(struct ht_build *b);
void ht_block_logits(struct ht_build *b, uint32_t x);
// q, k, v from h; rotation, pages, attention, output projection, and the residual x added. In the
// last layer it goes on with the rows alone whose logits are wanted.
uint32_t ht_block_attention(struct ht_build *b, const struct ht_attn_spec *spec, uint32_t h,
                            uint32_t x);
uint32_t ht_block_swiglu(struct ht_build *b, uint32_t h);
uint32_t ht_block_experts(struct ht_build *b, uint32_t h);

// After the last step: unknown tensors of the file, the token ids of the vocabulary. (hparams.c)
void ht_check_unused_tensors(struct ht_build *b, const struct hearth_log *log);
void ht_check_special_ids(struct ht_build *b, const struct hearth_log *log);

#endif
