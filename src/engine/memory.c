// SPDX-License-Identifier: MIT
// Options checked against the plan, and every byte counted before it is taken. What counts is what
// ends up resident when all contexts are full: the whole file (its metadata is read by the
// tokenizer, its tensors by the first pass), all KV pages, the scratch of a pass, heap, program.
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/checked.h"
#include "base/team.h"
#include "engine/engine_internal.h"

#define MAX_CTX   (1u << 26)
#define MAX_SEQS  4096
#define MAX_BATCH 65536

// Code, shared libraries, stacks and the C library's own heap of a program such as `hearth`.
#define PROGRAM_BYTES ((uint64_t)6 << 20)

void ht_engine_options_default(struct hearth_engine_options *o) {
    *o = (struct hearth_engine_options){
        .backend = "cpu", .n_seqs = 1, .n_batch = 512, .kv_type = HEARTH_KV_I16};
}

static enum hearth_status check_ctx(const struct ht_plan *plan, uint32_t n_ctx, const char *name,
                                    struct hearth_error *err) {
    if (n_ctx > MAX_CTX)
        return ht_fail(err, HEARTH_E_ARG, "n_ctx (--ctx) is %u; at most %u is possible", n_ctx,
                       MAX_CTX);
    for (uint32_t i = 0; i < plan->n_steps; i++) {
        const struct ht_step *s = &plan->steps[i];
        if (s->op != HT_OP_ADD_POS) continue;
        uint64_t n_positions = plan->weights[s->w[0]].ne[1];
        if (n_ctx > n_positions)
            return ht_fail(err, HEARTH_E_ARG,
                           "n_ctx (--ctx) is %u, but %s has learned positions for %" PRIu64
                           " tokens: a context of at most that is expected",
                           n_ctx, name, n_positions);
    }
    return HEARTH_OK;
}

static enum hearth_status check_counts(const struct hearth_engine_options *o,
                                       struct hearth_error *err) {
    if (o->n_seqs < 1 || o->n_seqs > MAX_SEQS)
        return ht_fail(err, HEARTH_E_ARG, "n_seqs (--seqs) is %u; 1 to %d is expected", o->n_seqs,
                       MAX_SEQS);
    if (o->n_batch < o->n_seqs || o->n_batch > MAX_BATCH)
        return ht_fail(err, HEARTH_E_ARG,
                       "n_batch (--batch) is %u; n_seqs (%u: each running sequence takes one token "
                       "of a pass) to %d is expected",
                       o->n_batch, o->n_seqs, MAX_BATCH);
    if ((o->n_logits != 0 && o->n_logits < o->n_seqs) || o->n_logits > MAX_BATCH)
        return ht_fail(err, HEARTH_E_ARG,
                       "n_logits is %u; 0 or n_seqs (%u: each running sequence takes one row of a "
                       "pass) to %d is expected",
                       o->n_logits, o->n_seqs, MAX_BATCH);
    if (o->n_threads < 0 || o->n_threads > HT_TEAM_MAX)
        return ht_fail(err, HEARTH_E_ARG, "n_threads is %d; 0 to %d is expected", o->n_threads,
                       HT_TEAM_MAX);
    if (!ht_kv_type_name(o->kv_type))
        return ht_fail(err, HEARTH_E_ARG,
                       "kv_type is %d; %d (f16), %d (f32), %d (bf16), %d (q8_0) or %d (i16) is "
                       "expected",
                       (int)o->kv_type, (int)HEARTH_KV_F16, (int)HEARTH_KV_F32, (int)HEARTH_KV_BF16,
                       (int)HEARTH_KV_Q8_0, (int)HEARTH_KV_I16);
    return HEARTH_OK;
}

enum hearth_status ht_engine_resolve(const struct ht_engine_source *source,
                                     const struct hearth_engine_options *o,
                                     const struct ht_engine_tuning *tuning,
                                     struct ht_limits *limits, uint32_t *n_seqs,
                                     struct hearth_error *err) {
    enum hearth_status status = check_counts(o, err);
    if (status) return status;
    uint32_t n_ctx = o->n_ctx;
    if (n_ctx == 0)
        n_ctx = source->n_ctx_train > 0 && source->n_ctx_train < 4096 ? source->n_ctx_train : 4096;
    status = check_ctx(source->plan, n_ctx, source->name, err);
    if (status) return status;

    uint32_t per_seq = ht_kv_pages_for(n_ctx);
    uint64_t n_pages = (uint64_t)o->n_seqs * per_seq, n_tokens = (uint64_t)o->n_seqs * n_ctx;
    if (tuning && tuning->n_pages > 0) n_pages = tuning->n_pages;
    if (n_pages < per_seq || n_pages >= HT_NONE)
        return ht_fail(err, HEARTH_E_ARG,
                       "%" PRIu64 " KV pages; %u (one full context) to %u are possible", n_pages,
                       per_seq, HT_NONE - 1);
    // A pass never has more tokens than all sequences together, nor more rows than tokens.
    uint32_t max_tokens = n_tokens < o->n_batch ? (uint32_t)n_tokens : o->n_batch;
    uint32_t max_outputs = o->n_logits > 0 ? o->n_logits : o->n_seqs;
    *limits = (struct ht_limits){.max_tokens = max_tokens,
                                 .max_outputs = max_outputs < max_tokens ? max_outputs : max_tokens,
                                 .max_ctx = n_ctx,
                                 .n_pages = (uint32_t)n_pages,
                                 .kv_type = o->kv_type,
                                 .repack = o->repack,
                                 .prefault = o->prefault};
    *n_seqs = o->n_seqs;
    return HEARTH_OK;
}

// Adds up; sticks at the largest number instead of overflowing.
static uint64_t plus(uint64_t a, uint64_t b) {
    uint64_t sum;
    return ht_add_u64(a, b, &sum) ? sum : UINT64_MAX;
}

enum hearth_status ht_memory_of(const struct ht_engine_source *source,
                                const struct ht_backend_ops *ops, struct ht_backend *backend,
                                const struct ht_limits *limits, uint32_t n_seqs, uint64_t available,
                                struct hearth_memory *out, struct hearth_error *err) {
    struct ht_backend_memory b = {0};
    enum hearth_status status = ops->memory(backend, source->plan, limits, &b, err);
    if (status) return status;
    uint32_t n_vocab = source->plan->n_vocab;
    uint64_t sampler = (uint64_t)ht_sampler_scratch_bytes(n_vocab) *
                       ht_engine_sampler_threads(ops, backend, n_seqs);
    struct hearth_memory m = {.weights = source->weight_bytes,
                              .packed = b.packed,
                              .kv = b.kv,
                              .scratch = plus(b.scratch, sampler),
                              .available = plus(available, source->taken_bytes)};
    if (source->tokenizer) m.tokenizer = ht_tokenizer_bytes(source->tokenizer);
    m.other = plus(plus(b.other, source->model_bytes), PROGRAM_BYTES);
    m.other = plus(m.other, ht_engine_table_bytes(limits, n_seqs));
    m.total =
        plus(plus(plus(m.weights, m.packed), plus(m.kv, m.scratch)), plus(m.tokenizer, m.other));
    *out = m;
    return HEARTH_OK;
}

// "633 MB", as the file manager counts: 10^6.
static const char *bytes_text(uint64_t n, char text[32]) {
    if (n >= 10000000000u)
        snprintf(text, 32, "%.1f GB", (double)n / 1e9);
    else
        snprintf(text, 32, "%.0f MB", ceil((double)n / 1e6));
    return text;
}

// The first type of KV pages whose pages take at most `room`, in the order of what it costs; NULL
// where none smaller than the present one does.
static const char *smaller_kv(const struct ht_plan *plan, const struct hearth_memory *m,
                              const struct ht_limits *limits, uint64_t room) {
    static const enum hearth_kv_type order[] = {HEARTH_KV_F16, HEARTH_KV_Q8_0};
    uint64_t row = ht_kv_row_bytes(limits->kv_type, plan->head_dim);
    for (size_t i = 0; i < sizeof order / sizeof *order; i++) {
        if (!ht_kv_holds(order[i], plan->head_dim)) continue;
        uint64_t other = ht_kv_row_bytes(order[i], plan->head_dim);
        if (other < row && ceil((double)m->kv * (double)other / (double)row) <= (double)room)
            return ht_kv_type_name(order[i]);
    }
    return NULL;
}

// The option that would make it fit, tried in the order of what it costs the user.
static void advise(const struct ht_plan *plan, const struct hearth_memory *m,
                   const struct ht_limits *limits, uint32_t n_seqs, char text[256]) {
    uint64_t rest = m->total - m->kv, per_page = m->kv / limits->n_pages;
    uint64_t room = rest < m->available ? m->available - rest : 0;
    uint64_t n_fit = per_page > 0 ? room / per_page : 0; // pages that fit
    uint32_t per_seq = ht_kv_pages_for(limits->max_ctx);
    const char *kv = smaller_kv(plan, m, limits, room);
    if (m->packed > 0 && m->total - m->packed <= m->available) {
        snprintf(text, 256, "without repacked weights (repack, --repack) it would fit");
    } else if (kv) {
        snprintf(text, 256, "KV pages in %s (kv_type, --kv-type %s) would fit", kv, kv);
    } else if (n_seqs > 1 && n_fit >= per_seq) {
        snprintf(text, 256, "%" PRIu64 " sequences at once (n_seqs, --seqs %" PRIu64 ") would fit",
                 n_fit / per_seq, n_fit / per_seq);
    } else if (n_fit / n_seqs * HT_PAGE_TOKENS >= 256) {
        uint64_t n_ctx = n_fit / n_seqs * HT_PAGE_TOKENS / 256 * 256;
        snprintf(text, 256, "a context of %" PRIu64 " (n_ctx, --ctx %" PRIu64 ") would fit", n_ctx,
                 n_ctx);
    } else if (m->weights >= m->available) {
        snprintf(text, 256,
                 "no option would make it fit, the weights alone are too large: a smaller model or "
                 "weight format is needed");
    } else {
        snprintf(text, 256,
                 "no option would make it fit: a smaller model, a smaller weight format or more "
                 "memory is needed");
    }
}

enum hearth_status ht_memory_check(const struct ht_engine_source *source,
                                   const struct hearth_memory *m, const struct ht_limits *limits,
                                   uint32_t n_seqs, struct hearth_error *err) {
    if (m->total <= m->available) return HEARTH_OK;
    char advice[256], t[6][32];
    advise(source->plan, m, limits, n_seqs, advice);
    return ht_fail(err, HEARTH_E_NOMEM,
                   "%s needs %s of memory (weights %s, KV %s for %u x %u positions in %s, scratch "
                   "%s, other %s), but %s is available; %s",
                   source->name, bytes_text(m->total, t[0]),
                   bytes_text(plus(m->weights, m->packed), t[1]), bytes_text(m->kv, t[2]), n_seqs,
                   limits->max_ctx, ht_kv_type_name(limits->kv_type), bytes_text(m->scratch, t[3]),
                   bytes_text(plus(m->tokenizer, m->other), t[4]), bytes_text(m->available, t[5]),
                   advice);
}

enum hearth_status ht_engine_memory(const struct ht_engine_source *source,
                                    const struct hearth_engine_options *o,
                                    const struct ht_engine_tuning *tuning,
                                    struct hearth_memory *out, struct hearth_error *err) {
    struct ht_limits limits;
    uint32_t n_seqs;
    const struct ht_backend_ops *ops;
    struct ht_backend *backend;
    enum hearth_status status = ht_engine_resolve(source, o, tuning, &limits, &n_seqs, err);
    if (!status) status = ht_engine_open_backend(source, o, tuning, &ops, &backend, err);
    if (status) return status;
    status =
        ht_memory_of(source, ops, backend, &limits, n_seqs, ht_engine_available(tuning), out, err);
    ops->close(backend);
    return status;
}
