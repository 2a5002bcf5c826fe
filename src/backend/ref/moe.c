// SPDX-License-Identifier: MIT
// Experts in the reference backend: the router's choice and the chosen feed-forwards, one token
// after another. One thread.
#include <math.h>
#include <string.h>

#include "backend/num.h"
#include "backend/ref/ref_internal.h"

// p = softmax(x), into r->route
static void route_softmax(struct ht_prepared *r, const float *x, uint32_t n) {
    double largest = -INFINITY, total = 0;
    for (uint32_t e = 0; e < n; e++)
        if ((double)x[e] > largest) largest = (double)x[e];
    for (uint32_t e = 0; e < n; e++) {
        r->route[e] = (double)ht_expf((float)((double)x[e] - largest));
        total += r->route[e];
    }
    for (uint32_t e = 0; e < n; e++) r->route[e] /= total;
}

void ht_ref_moe_route(struct ht_prepared *r, const struct ht_step *s, uint32_t n_rows) {
    uint32_t n = s->u.moe.n_experts, n_used = s->u.moe.n_used;
    for (uint32_t t = 0; t < n_rows; t++) {
        const float *x = ht_ref_row(r, s->in[0], t);
        int32_t *ids = (int32_t *)(void *)ht_ref_row(r, s->out[0], t);
        float *weights = ht_ref_row(r, s->out[1], t);
        route_softmax(r, x, n);
        double total = 0;
        for (uint32_t j = 0; j < n_used; j++) {
            uint32_t best = HT_NONE; // by score: softmax may round two scores to one probability
            for (uint32_t e = 0; e < n; e++) {
                bool taken = false;
                for (uint32_t k = 0; k < j; k++) taken = taken || ids[k] == (int32_t)e;
                if (!taken && (best == HT_NONE || x[e] > x[best])) best = e;
            }
            ids[j] = (int32_t)best;
            total += r->route[best];
        }
        double scale = (double)s->u.moe.scale / (s->u.moe.normalise ? total : 1);
        for (uint32_t j = 0; j < n_used; j++) weights[j] = (float)(r->route[ids[j]] * scale);
    }
}

// The dot product of row i of expert e with x.
static double expert_dot(struct ht_prepared *r, uint32_t weight, uint32_t e, uint64_t i,
                         const float *x) {
    return ht_ref_dot(ht_ref_weight_row(r, weight, e, i), x, r->plan->weights[weight].ne[0]);
}

void ht_ref_moe_ffn(struct ht_prepared *r, const struct ht_step *s, uint32_t n_rows) {
    uint64_t ffn = r->plan->weights[s->w[0]].ne[1];
    uint32_t width = r->plan->tensors[s->out[0]].width;
    for (uint32_t t = 0; t < n_rows; t++) {
        const float *x = ht_ref_row(r, s->in[0], t);
        const int32_t *ids = (const int32_t *)(void *)ht_ref_row(r, s->in[1], t);
        const float *weights = ht_ref_row(r, s->in[2], t);
        memset(r->expert_y, 0, width * sizeof *r->expert_y);
        for (uint32_t j = 0; j < s->u.moe.n_used; j++) {
            uint32_t e = (uint32_t)ids[j];
            for (uint64_t i = 0; i < ffn; i++)
                r->hidden[i] = ht_ref_act(s->u.moe.kind, (float)expert_dot(r, s->w[0], e, i, x)) *
                               (float)expert_dot(r, s->w[1], e, i, x);
            for (uint64_t i = 0; i < width; i++)
                r->expert_y[i] += (double)weights[j] * expert_dot(r, s->w[2], e, i, r->hidden);
        }
        float *y = ht_ref_row(r, s->out[0], t);
        for (uint32_t i = 0; i < width; i++) y[i] = (float)r->expert_y[i];
    }
}
