// SPDX-License-Identifier: MIT
// The rules of limits and of batches, checked once for all backends: limits when a plan is
// prepared, a batch at each execute. What passes here, a backend may index by without looking
// again. No state; any thread.
#include <inttypes.h>

#include "backend/backend.h"

enum hearth_status ht_limits_check(const struct ht_plan *p, const struct ht_limits *l,
                                   struct hearth_error *err) {
    if (l->max_tokens == 0 || l->max_ctx == 0 || l->n_pages == 0)
        return ht_fail(err, HEARTH_E_ARG,
                       "limits of %" PRIu32 " tokens a pass, %" PRIu32 " positions and %" PRIu32
                       " pages, expected 1 or more of each",
                       l->max_tokens, l->max_ctx, l->n_pages);
    if (!ht_kv_type_name(l->kv_type))
        return ht_fail(err, HEARTH_E_ARG, "no such KV type (%d)", (int)l->kv_type);
    if (!ht_kv_holds(l->kv_type, p->head_dim))
        return ht_fail(err, HEARTH_E_ARG,
                       "KV pages in %s (kv_type, --kv-type) hold %s, and the heads of this model "
                       "have %" PRIu32 ": %sf16, bf16 or f32 is expected",
                       ht_kv_type_name(l->kv_type),
                       l->kv_type == HEARTH_KV_I16
                           ? "an even number of elements of a head, 1024 at most"
                           : "blocks of 32 elements of a head",
                       p->head_dim, ht_kv_holds(HEARTH_KV_I16, p->head_dim) ? "i16, " : "");
    for (uint32_t i = 0; i < p->n_steps; i++) {
        if (p->steps[i].op != HT_OP_ADD_POS) continue;
        const struct ht_weight *w = &p->weights[p->steps[i].w[0]];
        if (l->max_ctx > w->ne[1])
            return ht_fail(err, HEARTH_E_ARG,
                           "a context of %" PRIu32 " was asked for, %s holds %" PRIu64
                           " positions at most",
                           l->max_ctx, w->name, w->ne[1]);
    }
    return HEARTH_OK;
}

static enum hearth_status check_batch_seqs(const struct ht_limits *l, const struct ht_batch *b,
                                           struct hearth_error *err) {
    for (uint32_t i = 0; i < b->n_seqs; i++)
        for (uint32_t k = 0; k < b->seqs[i].n_pages; k++)
            if (b->seqs[i].pages[k] >= l->n_pages)
                return ht_fail(err, HEARTH_E_ARG,
                               "batch sequence %" PRIu32 ": page id %" PRIu32 ", there are %" PRIu32
                               " pages",
                               i, b->seqs[i].pages[k], l->n_pages);
    return HEARTH_OK;
}

static enum hearth_status check_batch_token(const struct ht_plan *p, const struct ht_limits *l,
                                            const struct ht_batch *b, uint32_t t,
                                            struct hearth_error *err) {
    if (b->tokens[t] < 0 || (uint32_t)b->tokens[t] >= p->n_vocab)
        return ht_fail(err, HEARTH_E_ARG,
                       "batch token %" PRIu32 ": id %" PRId32
                       " is outside the vocabulary of %" PRIu32,
                       t, b->tokens[t], p->n_vocab);
    if (b->seq[t] >= b->n_seqs)
        return ht_fail(err, HEARTH_E_ARG,
                       "batch token %" PRIu32 ": sequence %" PRIu32 " of %" PRIu32, t, b->seq[t],
                       b->n_seqs);
    if (b->pos[t] >= l->max_ctx || b->pos[t] / HT_PAGE_TOKENS >= b->seqs[b->seq[t]].n_pages)
        return ht_fail(err, HEARTH_E_ARG,
                       "batch token %" PRIu32 ": position %" PRIu32
                       " has no place in a context of %" PRIu32 " and %" PRIu32 " pages",
                       t, b->pos[t], l->max_ctx, b->seqs[b->seq[t]].n_pages);
    if (t > 0 && b->seq[t] == b->seq[t - 1] && b->pos[t] != b->pos[t - 1] + 1)
        return ht_fail(err, HEARTH_E_ARG,
                       "batch token %" PRIu32 ": position %" PRIu32 " follows position %" PRIu32, t,
                       b->pos[t], b->pos[t - 1]);
    return HEARTH_OK;
}

enum hearth_status ht_batch_check(const struct ht_plan *p, const struct ht_limits *l,
                                  const struct ht_batch *b, struct hearth_error *err) {
    if (b->n_tokens < 1 || b->n_tokens > l->max_tokens || b->n_outputs > l->max_outputs)
        return ht_fail(err, HEARTH_E_ARG,
                       "a batch of %" PRIu32 " tokens and %" PRIu32
                       " outputs, prepared for 1 to %" PRIu32 " and at most %" PRIu32,
                       b->n_tokens, b->n_outputs, l->max_tokens, l->max_outputs);
    enum hearth_status st = check_batch_seqs(l, b, err);
    for (uint32_t t = 0; t < b->n_tokens && !st; t++) st = check_batch_token(p, l, b, t, err);
    if (st) return st;
    for (uint32_t o = 0; o < b->n_outputs; o++)
        if (b->outputs[o] >= b->n_tokens || (o > 0 && b->outputs[o] <= b->outputs[o - 1]))
            return ht_fail(err, HEARTH_E_ARG,
                           "batch output %" PRIu32 " is row %" PRIu32
                           ", expected rising rows below %" PRIu32,
                           o, b->outputs[o], b->n_tokens);
    return HEARTH_OK;
}
