// SPDX-License-Identifier: MIT
// llama: Llama 1 to 3, Mistral, and mixtures of experts of that shape (Mixtral). mistral3: the same
// (Mistral Small 3.1 and 3.2), and queries that may grow with their position (Ministral 3).
//   h = x + O attention(rope(Q n), rope(K n), V n),  n = rms_norm(x)
//   x = h + ffn(rms_norm(h)),                        ffn: SwiGLU, or experts of SwiGLU
// GGUF files hold Q and K with their rows permuted so that adjacent elements rotate together.
#include "model/model_internal.h"

static void build(struct ht_build *b, bool far) {
    ht_read_norm_eps(b, "attention.layer_norm_rms_epsilon");
    ht_read_experts(b);
    ht_read_window(b); // Mistral 7B v0.1: the same in every layer
    b->hp.expert_ffn_dim = b->hp.ffn_dim;
    uint32_t rope = ht_build_rope(b, "rope_freqs.weight");
    struct ht_attn_spec attn = {.rope_q = far ? ht_build_far_rope(b, rope) : rope,
                                .rope_k = rope,
                                .pairing = HT_ROPE_ADJACENT};
    uint32_t x = ht_block_embed(b);
    for (b->layer = 0; b->layer < b->hp.n_layers && !b->status; b->layer++) {
        uint32_t w = ht_bind_vector(b, "attn_norm.weight", b->hp.dim);
        x = ht_block_attention(b, &attn, ht_add_rms_norm(b, "attn_norm", x, w), x);
        w = ht_bind_vector(b, "ffn_norm.weight", b->hp.dim);
        uint32_t h = ht_add_rms_norm(b, "ffn_norm", x, w);
        uint32_t y = b->hp.n_experts > 0 ? ht_block_experts(b, h) : ht_block_swiglu(b, h);
        x = ht_add_add(b, "out", x, y);
    }
    b->layer = HT_NONE;
    uint32_t w = ht_bind_vector(b, "output_norm.weight", b->hp.dim);
    ht_block_logits(b, ht_add_rms_norm(b, "output_norm", x, w));
}

void ht_arch_llama(struct ht_build *b) {
    build(b, false);
}

void ht_arch_mistral3(struct ht_build *b) {
    build(b, true);
}
