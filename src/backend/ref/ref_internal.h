// SPDX-License-Identifier: MIT
// What the reference backend's files share. Private to src/backend/ref.
#ifndef HT_REF_REF_INTERNAL_H
#define HT_REF_REF_INTERNAL_H

#include "backend/backend.h"

// Bytes of every block that a prepared plan takes, computed before any is taken.
struct ref_sizes {
    uint64_t scratch; // tensors of the plan
    uint64_t kv;      // [n_layers][n_pages][HT_PAGE_TOKENS][2: K, V][n_kv_heads] rows of head_dim
    uint64_t work;    // row, scores, moe: doubles and floats below
    uint64_t n_row;   // the longest row of any weight, or head_dim
    uint64_t n_ffn;   // the widest expert
    uint64_t n_out;   // the widest moe output
};

struct ht_prepared {
    const struct ht_plan *plan;
    struct ht_limits limits;
    struct ref_sizes sizes;
    uint8_t *scratch;
    uint64_t *offset; // [n_tensors] of each tensor in scratch
    uint8_t *kv;
    float *row;       // [n_row] one dequantised row of a weight or a KV page
    double *scores;   // [max_ctx] of one query
    double *values;   // [head_dim] weighted sum of values of one query
    double *route;    // [n_row] probabilities of the experts
    float *hidden;    // [n_ffn] act(gate) * up of one expert
    double *expert_y; // [n_out] sum over experts
};

void ht_ref_linear(struct ht_prepared *r, const struct ht_step *s, uint32_t n_rows);
void ht_ref_moe_route(struct ht_prepared *r, const struct ht_step *s, uint32_t n_rows);
void ht_ref_moe_ffn(struct ht_prepared *r, const struct ht_step *s, uint32_t n_rows);
void ht_ref_kv_append(struct ht_prepared *r, const struct ht_step *s, const struct ht_batch *b);
void ht_ref_attention(struct ht_prepared *r, const struct ht_step *s, const struct ht_batch *b);

// Row t of a tensor.
float *ht_ref_row(const struct ht_prepared *r, uint32_t tensor, uint32_t t);
// Row i of a weight (of expert e), dequantised into r->row.
const float *ht_ref_weight_row(struct ht_prepared *r, uint32_t weight, uint64_t e, uint64_t i);
double ht_ref_dot(const float *w, const float *x, uint64_t n);
float ht_ref_act(enum ht_act kind, float x);

#endif
