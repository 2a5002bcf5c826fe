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

// Code, shared libraries, the caller's stack and the C library's own heap of a program such as
// `hearth`.
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
    if (source->plan->n_vocab > HT_MAX_SAMPLED)
        return ht_fail(err, HEARTH_E_UNSUPPORTED,
                       "%s has a vocabulary of %u tokens; up to %u can be sampled", source->name,
                       source->plan->n_vocab, HT_MAX_SAMPLED);
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
                       "n_seqs (--seqs) x n_ctx (--ctx) has %" PRIu64 " KV pages of %d positions; "
                       "%u (one full context) to %u are possible",
                       n_pages, HT_PAGE_TOKENS, per_seq, HT_NONE - 1);
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
    m.other = plus(m.other, (ht_engine_threads(ops, backend) - 1) * (uint64_t)HT_TEAM_THREAD_BYTES);
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

// What did not fit, and what to ask about other limits.
struct refused {
    const struct ht_engine_source *source;
    const struct ht_backend_ops *ops;
    struct ht_backend *backend;
    const struct ht_limits *limits;
    uint32_t n_seqs;
    uint32_t n_logits;  // that were asked for; 0: as many as sequences
    uint64_t available; // without what the source has taken
};

static bool fits(const struct refused *r, const struct ht_limits *l, uint32_t n_seqs) {
    struct hearth_memory m;
    return !ht_memory_of(r->source, r->ops, r->backend, l, n_seqs, r->available, &m, NULL) &&
           m.total <= m.available;
}

// The first type of KV pages that would fit, in the order of what it costs; NULL where none smaller
// than the present one does.
static const char *smaller_kv(const struct refused *r) {
    static const enum hearth_kv_type order[] = {HEARTH_KV_F16, HEARTH_KV_Q8_0};
    uint32_t head_dim = r->source->plan->head_dim;
    struct ht_limits l = *r->limits;
    for (size_t i = 0; i < sizeof order / sizeof *order; i++) {
        l.kv_type = order[i];
        if (ht_kv_holds(order[i], head_dim) &&
            ht_kv_row_bytes(order[i], head_dim) < ht_kv_row_bytes(r->limits->kv_type, head_dim) &&
            fits(r, &l, r->n_seqs))
            return ht_kv_type_name(order[i]);
    }
    return NULL;
}

static bool shorter_fits(const struct refused *r, uint32_t n_seqs, uint32_t n_ctx) {
    struct ht_limits l = *r->limits;
    uint64_t n_tokens = (uint64_t)n_seqs * n_ctx;
    l.max_ctx = n_ctx;
    l.n_pages = n_seqs * ht_kv_pages_for(n_ctx);
    if (r->n_logits == 0) l.max_outputs = n_seqs;
    if (n_tokens < l.max_tokens) l.max_tokens = (uint32_t)n_tokens;
    if (l.max_tokens < l.max_outputs) l.max_outputs = l.max_tokens;
    return fits(r, &l, n_seqs);
}

// The most below `high` that would fit: sequences, or where n_seqs is not 0, 256s of a context of
// that many; 0: not one.
static uint32_t most_that_fits(const struct refused *r, uint32_t n_seqs, uint32_t high) {
    uint32_t low = 0; // fits
    while (high - low > 1) {
        uint32_t mid = low + (high - low) / 2;
        if (n_seqs == 0 ? shorter_fits(r, mid, r->limits->max_ctx)
                        : shorter_fits(r, n_seqs, mid * 256))
            low = mid;
        else
            high = mid;
    }
    return low;
}

// The option that would make it fit, tried in the order of what it costs the user; then two.
static void advise(const struct refused *r, const struct hearth_memory *m, char text[256]) {
    struct ht_limits whole = *r->limits, rows = whole, batch = whole;
    const char *kv = smaller_kv(r);
    uint32_t n, n_256 = (r->limits->max_ctx + 255) / 256;
    whole.repack = false;
    rows.max_outputs = r->n_seqs < rows.max_outputs ? r->n_seqs : rows.max_outputs;
    if (batch.max_tokens > 512) batch.max_tokens = r->n_seqs > 512 ? r->n_seqs : 512;
    if (batch.max_outputs > batch.max_tokens) batch.max_outputs = batch.max_tokens;
    if (r->limits->repack && fits(r, &whole, r->n_seqs)) {
        snprintf(text, 256, "without repacked weights (repack, --repack) it would fit");
    } else if (kv) {
        snprintf(text, 256, "KV pages in %s (kv_type, --kv-type %s) would fit", kv, kv);
    } else if (fits(r, &batch, r->n_seqs)) {
        snprintf(text, 256, "passes of %u tokens (n_batch, --batch %u) would fit", batch.max_tokens,
                 batch.max_tokens);
    } else if (fits(r, &rows, r->n_seqs)) {
        snprintf(text, 256, "passes with logits of %u tokens (n_logits) would fit",
                 rows.max_outputs);
    } else if ((n = most_that_fits(r, 0, r->n_seqs)) > 0) {
        snprintf(text, 256, "%u sequences at once (n_seqs, --seqs %u) would fit", n, n);
    } else if ((n = 256 * most_that_fits(r, r->n_seqs, n_256)) > 0) {
        snprintf(text, 256, "a context of %u (n_ctx, --ctx %u) would fit", n, n);
    } else if (r->n_seqs > 1 && (n = 256 * most_that_fits(r, 1, n_256)) > 0) {
        snprintf(text, 256,
                 "one sequence with a context of %u (n_seqs and n_ctx, --seqs 1 --ctx %u) would "
                 "fit",
                 n, n);
    } else if (m->weights >= m->available) {
        snprintf(text, 256,
                 "no option would make it fit, the weights alone are too large: a smaller model or "
                 "weight format is needed");
    } else {
        snprintf(text, 256,
                 "no single option would make it fit: a smaller model, a smaller weight format or "
                 "more memory is needed");
    }
}

enum hearth_status ht_memory_check(const struct ht_engine_source *source,
                                   const struct ht_backend_ops *ops, struct ht_backend *backend,
                                   const struct hearth_memory *m, const struct ht_limits *limits,
                                   uint32_t n_seqs, uint32_t n_logits, struct hearth_error *err) {
    if (m->total <= m->available) return HEARTH_OK;
    char advice[256], t[6][32];
    uint64_t available = m->available - source->taken_bytes;
    struct refused r = {source, ops, backend, limits, n_seqs, n_logits, available};
    advise(&r, m, advice);
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
