// SPDX-License-Identifier: MIT
// KV pages and attention of the reference backend, written as the formula: all scores of a query,
// their softmax, the weighted sum of values. Positions are looked up page by page, so that page ids
// and batch composition cannot matter. One thread.
#include <math.h>
#include <string.h>

#include "backend/num.h"
#include "backend/ref/ref_internal.h"

// K (what 0) or V (what 1) of one KV head at one position, a row in the format of the KV type:
// [layer][page][slot][what][kv head] rows.
static uint8_t *kv_row(const struct ht_prepared *r, uint32_t layer, const struct ht_batch_seq *seq,
                       uint32_t pos, uint32_t what, uint32_t head) {
    uint64_t page = seq->pages[pos / HT_PAGE_TOKENS], slot = pos % HT_PAGE_TOKENS;
    uint64_t at = ((uint64_t)layer * r->limits.n_pages + page) * HT_PAGE_TOKENS + slot;
    return r->kv + ((at * 2 + what) * r->plan->n_kv_heads + head) *
                       ht_kv_row_bytes(r->limits.kv_type, r->plan->head_dim);
}

// The row as floats, in r->row.
static const float *kv_read(const struct ht_prepared *r, const uint8_t *row) {
    ht_kv_to_f32(r->limits.kv_type, row, r->plan->head_dim, r->row);
    return r->row;
}

void ht_ref_kv_append(struct ht_prepared *r, const struct ht_step *s, const struct ht_batch *b) {
    uint32_t head_dim = r->plan->head_dim;
    for (uint32_t t = 0; t < b->n_tokens; t++) {
        const struct ht_batch_seq *seq = &b->seqs[b->seq[t]];
        for (uint32_t h = 0; h < r->plan->n_kv_heads; h++)
            for (uint32_t what = 0; what < 2; what++)
                ht_kv_from_f32(r->limits.kv_type,
                               ht_ref_row(r, s->in[what], t) + (size_t)h * head_dim, head_dim,
                               kv_row(r, s->layer, seq, b->pos[t], what, h));
    }
}

// scores[p] = cap(scale * q . k_p) for first <= p <= pos; returns the largest.
static double score(struct ht_prepared *r, const struct ht_step *s, const struct ht_batch_seq *seq,
                    uint32_t first, uint32_t pos, uint32_t kv_head, const float *q) {
    double largest = -INFINITY, cap = (double)s->u.attn.soft_cap;
    for (uint32_t p = first; p <= pos; p++) {
        const float *k = kv_read(r, kv_row(r, s->layer, seq, p, 0, kv_head));
        double sum = 0;
        for (uint32_t d = 0; d < s->u.attn.head_dim; d++) sum += (double)q[d] * (double)k[d];
        sum *= (double)s->u.attn.scale;
        if (cap != 0) sum = cap * (double)ht_tanhf((float)(sum / cap));
        r->scores[p] = sum;
        if (sum > largest) largest = sum;
    }
    return largest;
}

// y = sum_p softmax(scores)[p] v_p
static void attend_head(struct ht_prepared *r, const struct ht_step *s,
                        const struct ht_batch_seq *seq, uint32_t pos, uint32_t kv_head,
                        const float *q, float *y) {
    uint32_t window = s->u.attn.window;
    uint32_t first = window != 0 && pos >= window ? pos - window + 1 : 0;
    double largest = score(r, s, seq, first, pos, kv_head, q), total = 0;
    memset(r->values, 0, s->u.attn.head_dim * sizeof *r->values);
    for (uint32_t p = first; p <= pos; p++) {
        const float *v = kv_read(r, kv_row(r, s->layer, seq, p, 1, kv_head));
        double weight = (double)ht_expf((float)(r->scores[p] - largest));
        total += weight;
        for (uint32_t d = 0; d < s->u.attn.head_dim; d++) r->values[d] += weight * (double)v[d];
    }
    for (uint32_t d = 0; d < s->u.attn.head_dim; d++) y[d] = (float)(r->values[d] / total);
}

void ht_ref_attention(struct ht_prepared *r, const struct ht_step *s, const struct ht_batch *b) {
    uint32_t head_dim = s->u.attn.head_dim;
    uint32_t group = s->u.attn.n_heads / s->u.attn.n_kv_heads; // query heads on one KV head
    for (uint32_t t = 0; t < b->n_tokens; t++)
        for (uint32_t h = 0; h < s->u.attn.n_heads; h++)
            attend_head(r, s, &b->seqs[b->seq[t]], b->pos[t], h / group,
                        ht_ref_row(r, s->in[0], t) + (size_t)h * head_dim,
                        ht_ref_row(r, s->out[0], t) + (size_t)h * head_dim);
}
