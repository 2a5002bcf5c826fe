// SPDX-License-Identifier: MIT
// Matrices in another order beside the mapping (linear.h, "Repacked weights"), where the caller
// asked for it: copied at prepare, by all threads, in one block of pages. Tables of which a pass
// reads a row a token, and matrices that the level does not repack, stay where the file has them.
// Immutable behind prepare.
#include "backend/cpu/exec.h"
#include "base/checked.h"
#include "base/mem.h"

// Whether a step multiplies by weight i.
static bool is_matrix(const struct ht_plan *plan, uint32_t i) {
    for (uint32_t k = 0; k < plan->n_steps; k++) {
        const struct ht_step *s = &plan->steps[k];
        uint32_t n = s->op == HT_OP_LINEAR ? s->n_out : s->op == HT_OP_MOE_FFN ? 3 : 0;
        for (uint32_t j = 0; j < n; j++)
            if (s->w[j] == i) return true;
    }
    return false;
}

// Bytes that weight i takes in the block: whole lines, or 0 where it is not repacked.
static uint64_t bytes_of(const struct ht_backend *b, const struct ht_plan *plan, uint32_t i) {
    const struct ht_weight *w = &plan->weights[i];
    size_t n;
    if (w->n_dims < 2 || !ht_linear_can_repack(b->linear, w->format, w->ne[0], w->ne[1])) return 0;
    return is_matrix(plan, i) && ht_align_size((size_t)w->n_bytes, 64, &n) ? n : 0;
}

enum hearth_status ht_cpu_repack_bytes(const struct ht_backend *b, const struct ht_plan *plan,
                                       uint64_t *n_bytes, struct hearth_error *err) {
    uint64_t total = 0;
    for (uint32_t i = 0; i < plan->n_weights; i++)
        if (!ht_add_u64(total, bytes_of(b, plan, i), &total) || total > SIZE_MAX)
            return ht_fail(err, HEARTH_E_LIMIT, "repacked weights have no size");
    if (total == 0)
        return ht_fail(err, HEARTH_E_UNSUPPORTED,
                       "repack: level %s has no kernels for repacked weights of this model's "
                       "formats and shapes on this machine; without it they are read as they lie "
                       "in the file",
                       ht_cpu_level_name(b->level));
    *n_bytes = total;
    return HEARTH_OK;
}

static void repack_shares(void *arg, int thread, int n_threads) {
    struct ht_prepared *p = arg;
    const struct ht_plan *plan = p->c->plan;
    for (uint32_t i = 0; i < plan->n_weights; i++) {
        const struct ht_weight *w = &plan->weights[i];
        if (!p->matrix[i]) continue;
        size_t n_rows = (size_t)(w->ne[1] * (w->n_dims > 2 ? w->ne[2] : 1)), begin, end;
        ht_team_share(n_rows, HT_ROW_GROUP, thread, n_threads, &begin, &end);
        ht_linear_repack(p->backend->linear, w->format, (uint32_t)w->ne[0], w->data, begin, end,
                         p->matrix[i]);
    }
}

enum hearth_status ht_cpu_repack(struct ht_prepared *p, struct hearth_error *err) {
    const struct ht_plan *plan = p->c->plan;
    p->matrix = ht_calloc(plan->n_weights, sizeof *p->matrix);
    if (!p->matrix)
        return ht_fail_nomem(err, plan->n_weights * sizeof *p->matrix, "a list of weights");
    p->packed = ht_pages_alloc(p->c->packed_bytes);
    if (!p->packed) return ht_fail_nomem(err, p->c->packed_bytes, "repacked weights");
    uint64_t at = 0;
    for (uint32_t i = 0; i < plan->n_weights; i++) {
        uint64_t n = bytes_of(p->backend, plan, i);
        if (n > 0) p->matrix[i] = p->packed + at;
        at += n;
    }
    ht_team_run(p->backend->team, repack_shares, p);
    return HEARTH_OK;
}
