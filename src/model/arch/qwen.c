// SPDX-License-Identifier: MIT
// qwen2 (biases on Q, K and V), qwen3 (each head of Q and K normed before the rotation) and
// qwen3moe (qwen3 with experts).
//   h = x + O attention(rope(Q n), rope(K n), V n),  n = rms_norm(x)
//   x = h + ffn(rms_norm(h)),                        ffn: SwiGLU, or experts of SwiGLU
// Element i of a head rotates with element i + n_rot / 2.
#include <inttypes.h>

#include "model/model_internal.h"

static void build(struct ht_build *b, bool qk_norm) {
    ht_read_norm_eps(b, "attention.layer_norm_rms_epsilon");
    ht_refuse_window(b); // some of these models have one in their upper layers only
    uint32_t rope = ht_build_rope(b, NULL);
    struct ht_attn_spec attn = {
        .rope_q = rope, .rope_k = rope, .pairing = HT_ROPE_HALVES, .qk_norm = qk_norm};
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

void ht_arch_qwen2(struct ht_build *b) {
    build(b, false);
}

void ht_arch_qwen3(struct ht_build *b) {
    build(b, true);
}

void ht_arch_qwen3moe(struct ht_build *b) {
    ht_read_experts(b);
    if (b->hp.n_experts == 0)
        ht_build_fail(b, HEARTH_E_FORMAT,
                      "metadata key qwen3moe.expert_count is missing or 0, expected 1 or more");
    ht_key_u32(b, "expert_feed_forward_length", false, &b->hp.expert_ffn_dim);
    if (!b->status && b->hp.expert_ffn_dim == 0)
        b->hp.expert_ffn_dim = b->hp.ffn_dim / b->hp.n_experts_used;
    if (!b->status && b->hp.expert_ffn_dim > HT_MAX_WIDTH)
        ht_build_fail(b, HEARTH_E_FORMAT,
                      "metadata key qwen3moe.expert_feed_forward_length is %" PRIu32
                      ", expected at most %u",
                      b->hp.expert_ffn_dim, HT_MAX_WIDTH);
    build(b, true);
}
