// SPDX-License-Identifier: MIT
// Blocks that architectures share, between the builder's single steps and a whole model. A block
// binds its own weights by their GGUF names. One thread builds one model.
#include <inttypes.h>

#include "model/model_internal.h"

uint32_t ht_block_embed(struct ht_build *b) {
    b->embedding = ht_bind_matrix(b, "token_embd.weight", b->hp.n_vocab, b->hp.dim);
    return ht_add_embed(b, "embd", b->embedding, 1);
}

// Files without an output matrix use the embedding's.
void ht_block_logits(struct ht_build *b, uint32_t x) {
    uint32_t w = b->embedding;
    if (ht_has_weight(b, "output.weight"))
        w = ht_bind_matrix(b, "output.weight", b->hp.n_vocab, b->hp.dim);
    uint32_t bias = ht_bind_bias(b, "output.bias", b->hp.n_vocab, false);
    b->logits = ht_add_linear(b, "logits", x, w, bias);
}

// q, k and v in one step, from three matrices or from one that holds their rows in this order.
static void qkv(struct ht_build *b, bool biased, uint32_t h, uint32_t out[3]) {
    uint64_t q = (uint64_t)b->hp.n_heads * b->hp.head_dim, dim = b->hp.dim;
    uint64_t kv = (uint64_t)b->hp.n_kv_heads * b->hp.head_dim;
    struct ht_linear_out l[3] = {
        {"attn_q", HT_NONE, HT_NONE}, {"attn_k", HT_NONE, HT_NONE}, {"attn_v", HT_NONE, HT_NONE}};
    static const char *const weights[3] = {"attn_q.weight", "attn_k.weight", "attn_v.weight"};
    static const char *const biases[3] = {"attn_q.bias", "attn_k.bias", "attn_v.bias"};
    const uint64_t first[3] = {0, q, q + kv}, n[3] = {q, kv, kv}, all = q + 2 * kv;
    bool fused = ht_has_weight(b, "attn_qkv.weight");
    for (int i = 0; i < 3; i++) {
        if (fused) {
            l[i].weight = ht_bind_matrix_rows(b, "attn_qkv.weight", all, dim, first[i], n[i]);
            l[i].bias = ht_bind_bias_part(b, "attn_qkv.bias", all, first[i], n[i], biased);
        } else {
            l[i].weight = ht_bind_matrix(b, weights[i], n[i], dim);
            l[i].bias = ht_bind_bias(b, biases[i], n[i], biased);
        }
    }
    ht_add_linears(b, h, l, 3, out);
}

uint32_t ht_block_attention(struct ht_build *b, const struct ht_attn_spec *spec, uint32_t h,
                            uint32_t x) {
    uint32_t t[3]; // q, k, v
    qkv(b, spec->biased, h, t);
    if (spec->qk_norm) {
        t[0] = ht_add_head_norm(b, "attn_q_norm", t[0],
                                ht_bind_vector(b, "attn_q_norm.weight", b->hp.head_dim));
        t[1] = ht_add_head_norm(b, "attn_k_norm", t[1],
                                ht_bind_vector(b, "attn_k_norm.weight", b->hp.head_dim));
    }
    if (spec->rope_q != HT_NONE)
        t[0] = ht_add_rope(b, "attn_q_rope", t[0], spec->rope_q, spec->pairing);
    if (spec->rope_k != HT_NONE)
        t[1] = ht_add_rope(b, "attn_k_rope", t[1], spec->rope_k, spec->pairing);
    uint32_t y = ht_add_attention(b, "attn", t[0], t[1], t[2]);
    if (b->layer + 1 == b->hp.n_layers) { // from here on nothing looks at other tokens
        y = ht_add_select(b, "attn_selected", y);
        x = ht_add_select(b, "x_selected", x);
    }
    uint64_t q = (uint64_t)b->hp.n_heads * b->hp.head_dim;
    uint32_t w = ht_bind_matrix(b, "attn_output.weight", b->hp.dim, q);
    uint32_t bias = ht_bind_bias(b, "attn_output.bias", b->hp.dim, spec->biased);
    return ht_add_add(b, "attn_residual", x, ht_add_linear(b, "attn_out", y, w, bias));
}

// down(silu(gate h) * up h)
uint32_t ht_block_swiglu(struct ht_build *b, uint32_t h) {
    uint64_t dim = b->hp.dim, ffn = b->hp.ffn_dim;
    uint32_t t[2]; // gate, up
    struct ht_linear_out l[2] = {{.name = "ffn_gate"}, {.name = "ffn_up"}};
    l[0].weight = ht_bind_matrix(b, "ffn_gate.weight", ffn, dim);
    l[0].bias = ht_bind_bias(b, "ffn_gate.bias", ffn, false);
    l[1].weight = ht_bind_matrix(b, "ffn_up.weight", ffn, dim);
    l[1].bias = ht_bind_bias(b, "ffn_up.bias", ffn, false);
    ht_add_linears(b, h, l, 2, t);
    uint32_t y = ht_add_act_mul(b, "ffn_act", t[0], t[1], HT_ACT_SILU);
    uint32_t w = ht_bind_matrix(b, "ffn_down.weight", dim, ffn);
    return ht_add_linear(b, "ffn_down", y, w, ht_bind_bias(b, "ffn_down.bias", dim, false));
}

// Softmax over all experts, the best n_used of them, their weights brought to a sum of 1.
uint32_t ht_block_experts(struct ht_build *b, uint32_t h) {
    uint64_t n = b->hp.n_experts, ffn = b->hp.expert_ffn_dim, dim = b->hp.dim;
    if (!b->status && ht_has_weight(b, "ffn_gate.0.weight"))
        ht_build_fail(b, HEARTH_E_UNSUPPORTED,
                      "each expert is a tensor of its own (blk.%" PRIu32
                      ".ffn_gate.0.weight), as in "
                      "files from before April 2024; get a newer file of the model",
                      b->layer);
    uint32_t router = ht_bind_matrix(b, "ffn_gate_inp.weight", n, dim);
    uint32_t scores = ht_add_linear(b, "ffn_router", h, router, HT_NONE);
    const uint32_t w[3] = {ht_bind_experts(b, "ffn_gate_exps.weight", n, ffn, dim),
                           ht_bind_experts(b, "ffn_up_exps.weight", n, ffn, dim),
                           ht_bind_experts(b, "ffn_down_exps.weight", n, dim, ffn)};
    return ht_add_moe(b, "ffn_down", h, scores, w, HT_ACT_SILU);
}
