// SPDX-License-Identifier: MIT
// Creation, the turn, destruction. Everything the token loop touches is allocated here or with the
// request; a turn allocates nothing (tests/engine/test_engine.c counts).
#include "engine/engine_internal.h"

#include <inttypes.h>
#include <stddef.h>
#include <unistd.h>

#include "base/checked.h"
#include "base/clock.h"
#include "base/float_env.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/team.h"

uint64_t ht_engine_available(const struct ht_engine_tuning *tuning) {
    if (tuning && tuning->available > 0) return tuning->available;
    return ht_memory_available("/proc", "/sys/fs/cgroup");
}

enum hearth_status ht_engine_find_backend(const struct hearth_engine_options *o,
                                          const struct ht_engine_tuning *tuning,
                                          const struct ht_backend_ops **ops,
                                          struct ht_backend_options *options,
                                          struct hearth_error *err) {
    const char *name = o->backend ? o->backend : "cpu";
    *ops = tuning && tuning->backend ? tuning->backend : ht_backend_find(name);
    if (!*ops)
        return ht_fail(err, HEARTH_E_ARG, "there is no backend '%s'; there are: %s", name,
                       ht_backend_names());
    *options = (struct ht_backend_options){
        .level = o->cpu_level, .n_threads = o->n_threads, .cpu_mask = o->cpu_mask};
    return HEARTH_OK;
}

enum hearth_status ht_engine_open_backend(const struct ht_engine_source *source,
                                          const struct hearth_engine_options *o,
                                          const struct ht_engine_tuning *tuning,
                                          const struct ht_backend_ops **ops,
                                          struct ht_backend **backend, struct hearth_error *err) {
    const struct ht_backend_ops *found;
    struct ht_backend_options bo;
    struct ht_backend *opened;
    enum hearth_status status = ht_engine_find_backend(o, tuning, &found, &bo, err);
    if (!status) status = found->open(&bo, &opened, err);
    if (status) return status;
    for (uint32_t i = 0; i < source->plan->n_steps; i++) {
        const struct ht_step *s = &source->plan->steps[i];
        status = found->supports(opened, source->plan, s, err);
        if (!status) continue;
        status = ht_fail_in(err, status, "%s: step %u (%s) on backend %s", source->name, i,
                            ht_op_name(s->op), found->name);
        found->close(opened);
        return status;
    }
    *ops = found;
    *backend = opened;
    return HEARTH_OK;
}

// ---- creation -----------------------------------------------------------------------------------

uint32_t ht_engine_threads(const struct ht_backend_ops *ops, struct ht_backend *backend) {
    struct ht_team *team = ops->team(backend);
    return team ? (uint32_t)ht_team_size(team) : 1;
}

uint32_t ht_engine_sampler_threads(const struct ht_backend_ops *ops, struct ht_backend *backend,
                                   uint32_t n_seqs) {
    uint32_t n = ht_engine_threads(ops, backend);
    if (n > n_seqs) n = n_seqs;
    return n < HT_MAX_SAMPLER_THREADS ? n : HT_MAX_SAMPLER_THREADS;
}

uint64_t ht_engine_table_bytes(const struct ht_limits *l, uint32_t n_seqs) {
    uint64_t per_seq = (uint64_t)ht_kv_pages_for(l->max_ctx) * sizeof(uint32_t) + sizeof(uint32_t) +
                       4 * sizeof(void *) + sizeof(struct ht_batch_seq) +
                       sizeof(struct hearth_request) + (uint64_t)l->max_ctx * sizeof(int32_t);
    return sizeof(struct hearth_engine) + n_seqs * per_seq +
           (uint64_t)l->max_tokens * 3 * sizeof(uint32_t) +
           (uint64_t)l->max_outputs * sizeof(uint32_t) +
           (uint64_t)l->n_pages * 2 * sizeof(uint32_t);
}

static enum hearth_status take_tables(struct hearth_engine *e, struct hearth_error *err) {
    const struct ht_limits *l = &e->limits;
    e->pages_per_seq = ht_kv_pages_for(e->n_ctx);
    e->page_tables = ht_calloc((size_t)e->n_seqs * e->pages_per_seq, sizeof *e->page_tables);
    e->free_slots = ht_calloc(e->n_seqs, sizeof *e->free_slots);
    e->running = ht_calloc(e->n_seqs, sizeof(struct hearth_request *));
    e->batch_tokens = ht_calloc(l->max_tokens, sizeof *e->batch_tokens);
    e->batch_pos = ht_calloc(l->max_tokens, sizeof *e->batch_pos);
    e->batch_seq = ht_calloc(l->max_tokens, sizeof *e->batch_seq);
    e->batch_outputs = ht_calloc(l->max_outputs, sizeof *e->batch_outputs);
    e->batch_seqs = ht_calloc(e->n_seqs, sizeof *e->batch_seqs);
    e->batch_requests = ht_calloc(e->n_seqs, sizeof(struct hearth_request *));
    e->picks = ht_calloc(e->n_seqs, sizeof(struct hearth_request *));
    e->pick_logits = ht_calloc(e->n_seqs, sizeof(const float *));
    if (!e->page_tables || !e->free_slots || !e->running || !e->batch_tokens || !e->batch_pos ||
        !e->batch_seq || !e->batch_outputs || !e->batch_seqs || !e->batch_requests || !e->picks ||
        !e->pick_logits)
        return ht_fail_nomem(err, (size_t)ht_engine_table_bytes(l, e->n_seqs),
                             "the engine's tables");
    for (uint32_t i = 0; i < e->n_seqs; i++) e->free_slots[i] = e->n_seqs - 1 - i;
    enum hearth_status status = ht_kv_pages_init(&e->pages, l->n_pages, err);
    e->team = e->ops->team(e->backend);
    uint32_t n_scratch = ht_engine_sampler_threads(e->ops, e->backend, e->n_seqs);
    for (; !status && e->n_scratch < n_scratch; e->n_scratch += !status)
        status = ht_sampler_scratch_init(&e->scratch[e->n_scratch], e->source.plan->n_vocab, err);
    return status;
}

static void log_start(const struct hearth_engine *e, const struct hearth_memory *m) {
    if (e->source.n_ctx_train > 0 && e->n_ctx > e->source.n_ctx_train)
        ht_log(&e->log, HEARTH_LOG_WARN,
               "%s was trained on contexts of %u; answers past that may be worse (n_ctx is %u)",
               e->source.name, e->source.n_ctx_train, e->n_ctx);
    ht_log(&e->log, HEARTH_LOG_INFO,
           "%s; %u x %u positions in %u KV pages, %u tokens a pass; memory: weights %" PRIu64
           ", packed %" PRIu64 ", KV %" PRIu64 ", scratch %" PRIu64 ", tokenizer %" PRIu64
           ", other %" PRIu64 " bytes",
           e->ops->describe(e->backend), e->n_seqs, e->n_ctx, e->pages.n_pages, e->n_batch,
           m->weights, m->packed, m->kv, m->scratch, m->tokenizer, m->other);
}

enum hearth_status ht_engine_create(const struct ht_engine_source *source,
                                    const struct hearth_engine_options *o,
                                    const struct ht_engine_tuning *tuning,
                                    struct hearth_engine **out, struct hearth_error *err) {
    struct hearth_memory memory;
    enum hearth_status status;
    struct hearth_engine *e = ht_calloc(1, sizeof *e);
    if (!e) return ht_fail_nomem(err, sizeof *e, "the engine");
    e->source = *source;
    e->log = o->log;
    e->process = getpid();
    status = ht_engine_resolve(source, o, tuning, &e->limits, &e->n_seqs, err);
    if (status) goto fail;
    e->n_ctx = e->limits.max_ctx;
    e->n_batch = e->limits.max_tokens;
    e->n_logits = e->limits.max_outputs;
    status = ht_engine_open_backend(source, o, tuning, &e->ops, &e->backend, err);
    if (status) goto fail;
    status = ht_memory_of(source, e->ops, e->backend, &e->limits, e->n_seqs,
                          ht_engine_available(tuning), &memory, err);
    if (status) goto fail;
    status = ht_memory_check(source, e->ops, e->backend, &memory, &e->limits, e->n_seqs,
                             o->n_logits, err);
    if (status) goto fail;
    status = e->ops->prepare(e->backend, source->plan, &e->limits, &e->prepared, err);
    if (status) goto fail;
    status = take_tables(e, err);
    if (status) goto fail;
    log_start(e, &memory);
    *out = e;
    return HEARTH_OK;
fail:
    ht_engine_destroy(e);
    return status;
}

void ht_engine_destroy(struct hearth_engine *e) {
    if (!e || e->in_step) return; // a callback may not: the turn still holds everything
    while (e->all) ht_request_destroy(e->all);
    if (e->prepared) e->ops->release(e->prepared);
    if (e->backend) e->ops->close(e->backend);
    for (uint32_t i = 0; i < e->n_scratch; i++) ht_sampler_scratch_deinit(&e->scratch[i]);
    ht_kv_pages_deinit(&e->pages);
    ht_free(e->page_tables);
    ht_free(e->free_slots);
    ht_free(e->running);
    ht_free(e->batch_tokens);
    ht_free(e->batch_pos);
    ht_free(e->batch_seq);
    ht_free(e->batch_outputs);
    ht_free(e->batch_seqs);
    ht_free(e->batch_requests);
    ht_free(e->picks);
    ht_free(e->pick_logits);
    ht_free(e);
}

const hearth_model *ht_engine_model(const struct hearth_engine *e) {
    return e->source.model;
}

const char *ht_engine_device(const struct hearth_engine *e) {
    return e->ops->describe(e->backend);
}

uint32_t ht_engine_n_ctx(const struct hearth_engine *e) {
    return e->n_ctx;
}

void ht_engine_get_stats(const struct hearth_engine *e, struct hearth_engine_stats *out) {
    *out = e->stats;
    out->n_pages = e->pages.n_pages;
    out->n_pages_free = e->pages.n_free;
}

enum hearth_status ht_engine_check_runs(const struct hearth_engine *e, const char *name,
                                        struct hearth_error *err) {
    if (e->process != getpid())
        return ht_fail(
            err, HEARTH_E_STATE,
            "%s: the engine belongs to process %ld; one that was forked from it has none "
            "of its threads, and needs an engine of its own",
            name, (long)e->process);
    if (e->in_step)
        return ht_fail(err, HEARTH_E_STATE, "%s was called from a callback of hearth_engine_step",
                       name);
    if (!e->broken.status) return HEARTH_OK;
    return ht_fail(err, HEARTH_E_STATE, "the engine has stopped: %s", e->broken.message);
}

enum hearth_status ht_engine_profile(struct hearth_engine *e, enum hearth_profile mode,
                                     struct hearth_error *err) {
    enum hearth_status status = ht_engine_check_runs(e, "hearth_engine_profile", err);
    if (status) return status;
    if ((unsigned)mode > HEARTH_PROFILE_STEPS)
        return ht_fail(err, HEARTH_E_ARG, "%d is no enum hearth_profile", (int)mode);
    if (!e->ops->profile) {
        if (mode == HEARTH_PROFILE_OFF) return HEARTH_OK;
        return ht_fail(err, HEARTH_E_UNSUPPORTED, "the backend %s does not count its work",
                       e->ops->name);
    }
    status = e->ops->profile(e->prepared, mode, err);
    if (!status) e->has_profile = mode != HEARTH_PROFILE_OFF || e->has_profile;
    return status;
}

// Whether the engine may measure now what its backend can measure or not.
static enum hearth_status may_measure(const struct hearth_engine *e, const char *name,
                                      uint32_t budget_ms, bool can, struct hearth_error *err) {
    enum hearth_status status = ht_engine_check_runs(e, name, err);
    if (!status) status = ht_check_budget(budget_ms, err);
    if (status || can) return status;
    return ht_fail(err, HEARTH_E_UNSUPPORTED, "%s: the backend %s does not measure this", name,
                   e->ops->name);
}

enum hearth_status ht_engine_read_speed(struct hearth_engine *e, uint32_t budget_ms,
                                        double *bytes_s, struct hearth_error *err) {
    enum hearth_status status =
        may_measure(e, "hearth_engine_read_speed", budget_ms, e->ops->read_speed, err);
    return status ? status : e->ops->read_speed(e->prepared, budget_ms, bytes_s, err);
}

enum hearth_status ht_engine_multiply_speed(struct hearth_engine *e, uint32_t budget_ms,
                                            struct hearth_ceilings *out, struct hearth_error *err) {
    enum hearth_status status =
        may_measure(e, "hearth_engine_multiply_speed", budget_ms, e->ops->multiply_speed, err);
    if (!status) e->ops->multiply_speed(e->prepared, budget_ms, out);
    return status;
}

bool ht_engine_step_kind(const struct hearth_engine *e, size_t i, struct hearth_step_kind *out) {
    return e->has_profile && e->ops->profile_get(e->prepared, i, out);
}

// ---- the turn -----------------------------------------------------------------------------------

static void end_cancelled(struct hearth_engine *e) {
    for (struct hearth_request *r = e->all; r; r = r->next)
        if (r->state != HT_FINISHED && atomic_load_explicit(&r->cancelled, memory_order_relaxed))
            ht_deliver_end(e, r, HEARTH_FINISH_CANCELLED);
}

static void end_with_error(struct hearth_engine *e, struct hearth_request *r,
                           const struct hearth_error *error) {
    r->error = *error;
    ht_deliver_end(e, r, HEARTH_FINISH_ERROR);
}

// The pass failed: whoever was in it ends with the backend's sentence, the others go on. After
// E_INTERNAL nobody knows what state the backend is in, so the engine stops for good.
static enum hearth_status pass_failed(struct hearth_engine *e, enum hearth_status status,
                                      const struct hearth_error *error, struct hearth_error *err) {
    for (uint32_t i = 0; i < e->batch.n_seqs; i++) end_with_error(e, e->batch_requests[i], error);
    if (status != HEARTH_E_INTERNAL) return HEARTH_OK;
    e->broken = *error;
    for (struct hearth_request *r = e->all; r; r = r->next)
        if (r->state != HT_FINISHED) end_with_error(e, r, error);
    if (err) *err = *error;
    return status;
}

// Whether all whom the pass is for have been cancelled meanwhile.
static bool unwanted(void *engine) {
    const struct hearth_engine *e = engine;
    for (uint32_t i = 0; i < e->batch.n_seqs; i++)
        if (!atomic_load_explicit(&e->batch_requests[i]->cancelled, memory_order_relaxed))
            return false;
    return true;
}

static enum hearth_status turn(struct hearth_engine *e, struct hearth_error *err) {
    struct hearth_error error = {.status = HEARTH_OK};
    const float *logits = NULL;
    // All are looked at only where one was: there may be very many that wait, or have ended.
    if (atomic_exchange_explicit(&e->some_cancelled, false, memory_order_acquire)) end_cancelled(e);
    ht_schedule(e);
    if (e->batch.n_tokens == 0) return HEARTH_OK;
    e->batch.unwanted = unwanted;
    e->batch.unwanted_arg = e;
    uint64_t begin_ns = ht_now_ns();
    for (uint32_t i = 0; i < e->batch.n_seqs; i++)
        if (e->batch_requests[i]->begin_ns == 0) e->batch_requests[i]->begin_ns = begin_ns;
    struct ht_float_env kept = ht_float_enter(); // not for callbacks: they have the host's
    enum hearth_status status = e->ops->execute(e->prepared, &e->batch, &logits, &error);
    ht_float_leave(kept);
    e->stats.pass_ns += ht_now_ns() - begin_ns;
    if (status == HEARTH_E_CANCELLED) {
        end_cancelled(e); // whether some_cancelled, which is set last, has been seen or not
        return HEARTH_OK;
    }
    e->stats.n_passes++;
    e->stats.n_tokens += e->batch.n_tokens;
    if (status) {
        error.status = status;
        return pass_failed(e, status, &error, err);
    }
    ht_deliver(e, logits);
    return HEARTH_OK;
}

static void destroy_doomed(struct hearth_engine *e) {
    if (!e->some_doomed) return;
    e->some_doomed = false;
    for (struct hearth_request *r = e->all, *next; r; r = next) {
        next = r->next;
        if (r->doomed) ht_request_destroy(r);
    }
}

enum hearth_status ht_engine_step(struct hearth_engine *e, size_t *n_active,
                                  struct hearth_error *err) {
    enum hearth_status status = ht_engine_check_runs(e, "hearth_engine_step", err);
    if (status) return status;
    e->in_step = true;
    status = turn(e, err);
    e->in_step = false;
    destroy_doomed(e);
    if (!status && n_active) *n_active = e->n_active;
    return status;
}

enum hearth_status ht_engine_run(struct hearth_engine *e, struct hearth_error *err) {
    size_t n_active;
    enum hearth_status status;
    do { status = ht_engine_step(e, &n_active, err); } while (!status && n_active > 0);
    return status;
}
