// SPDX-License-Identifier: MIT
// gpt2: learned positions, LayerNorm, one matrix for Q, K and V, GELU; norms and matrices have
// biases, all of them.
//   x = embd[token] + position_embd[pos]
//   h = x + O attention(Q n, K n, V n),          n = layer_norm(x)
//   x = h + down gelu(up layer_norm(h))          gelu in its tanh form
#include "model/model_internal.h"

static uint32_t norm(struct ht_build *b, const char *name, const char *weight, const char *bias,
                     uint32_t x) {
    uint32_t w = ht_bind_vector(b, weight, b->hp.dim);
    return ht_add_layer_norm(b, name, x, w, ht_bind_vector(b, bias, b->hp.dim));
}

static uint32_t feed_forward(struct ht_build *b, uint32_t h) {
    uint32_t w = ht_bind_matrix(b, "ffn_up.weight", b->hp.ffn_dim, b->hp.dim);
    uint32_t bias = ht_bind_vector(b, "ffn_up.bias", b->hp.ffn_dim);
    h = ht_add_act(b, "ffn_act", ht_add_linear(b, "ffn_up", h, w, bias), HT_ACT_GELU_TANH);
    w = ht_bind_matrix(b, "ffn_down.weight", b->hp.dim, b->hp.ffn_dim);
    bias = ht_bind_vector(b, "ffn_down.bias", b->hp.dim);
    return ht_add_linear(b, "ffn_down", h, w, bias);
}

void ht_arch_gpt2(struct ht_build *b) {
    ht_read_norm_eps(b, "attention.layer_norm_epsilon");
    struct ht_attn_spec attn = {.rope_q = HT_NONE, .rope_k = HT_NONE, .biased = true};
    uint32_t x = ht_block_embed(b);
    uint32_t table = ht_bind_matrix(b, "position_embd.weight", b->hp.n_ctx_train, b->hp.dim);
    x = ht_add_pos(b, "embd_pos", x, table);
    for (b->layer = 0; b->layer < b->hp.n_layers && !b->status; b->layer++) {
        uint32_t h = norm(b, "attn_norm", "attn_norm.weight", "attn_norm.bias", x);
        x = ht_block_attention(b, &attn, h, x);
        h = norm(b, "ffn_norm", "ffn_norm.weight", "ffn_norm.bias", x);
        x = ht_add_add(b, "out", x, feed_forward(b, h));
    }
    b->layer = HT_NONE;
    ht_block_logits(b, norm(b, "output_norm", "output_norm.weight", "output_norm.bias", x));
}
