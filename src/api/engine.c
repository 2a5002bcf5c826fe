// SPDX-License-Identifier: MIT
// hearth_engine_*, hearth_request_* and hearth_memory_plan: the engine room's functions under their
// public names. struct hearth_engine and struct hearth_request are that room's own. Those that
// compute do so under Hearth's floating-point settings; hearth_engine_step sees to that itself,
// since callbacks have the caller's.
#include "engine/engine.h"
#include "api/api_internal.h"
#include "base/float_env.h"

void hearth_engine_options_default(struct hearth_engine_options *o) {
    ht_engine_options_default(o);
}

const char *hearth_kv_type_name(enum hearth_kv_type type) {
    return ht_kv_type_name(type);
}

// What the engine sees of a model.
static struct ht_engine_source source_of(const hearth_model *m) {
    const struct ht_gguf *g = m->file->g;
    return (struct ht_engine_source){.plan = ht_model_plan(m->model),
                                     .tokenizer = m->tokenizer.t,
                                     .model = m,
                                     .name = ht_gguf_name(g),
                                     .weight_bytes = ht_gguf_file_bytes(g),
                                     .taken_bytes = ht_gguf_taken_bytes(g),
                                     .model_bytes = ht_model_bytes(m->model),
                                     .n_ctx_train = ht_model_n_ctx_train(m->model)};
}

enum hearth_status hearth_memory_plan(const hearth_model *m, const struct hearth_engine_options *o,
                                      struct hearth_memory *out, struct hearth_error *err) {
    struct ht_engine_source source = source_of(m);
    return ht_engine_memory(&source, o, NULL, out, err);
}

enum hearth_status hearth_engine_create(const hearth_model *m,
                                        const struct hearth_engine_options *o, hearth_engine **out,
                                        struct hearth_error *err) {
    struct ht_engine_source source = source_of(m);
    struct ht_float_env kept = ht_float_enter();
    enum hearth_status status = ht_engine_create(&source, o, NULL, out, err);
    ht_float_leave(kept);
    return status;
}

void hearth_engine_destroy(hearth_engine *e) {
    ht_engine_destroy(e);
}

const hearth_model *hearth_engine_model(const hearth_engine *e) {
    return ht_engine_model(e);
}

const char *hearth_engine_device(const hearth_engine *e) {
    return ht_engine_device(e);
}

uint32_t hearth_engine_n_ctx(const hearth_engine *e) {
    return ht_engine_n_ctx(e);
}

enum hearth_status hearth_engine_step(hearth_engine *e, size_t *n_active,
                                      struct hearth_error *err) {
    return ht_engine_step(e, n_active, err);
}

enum hearth_status hearth_engine_run(hearth_engine *e, struct hearth_error *err) {
    return ht_engine_run(e, err);
}

void hearth_engine_get_stats(const hearth_engine *e, struct hearth_engine_stats *out) {
    ht_engine_get_stats(e, out);
}

enum hearth_status hearth_engine_profile(hearth_engine *e, enum hearth_profile mode,
                                         struct hearth_error *err) {
    return ht_engine_profile(e, mode, err);
}

enum hearth_status hearth_engine_read_speed(hearth_engine *e, uint32_t budget_ms, double *bytes_s,
                                            struct hearth_error *err) {
    struct ht_float_env kept = ht_float_enter();
    enum hearth_status status = ht_engine_read_speed(e, budget_ms, bytes_s, err);
    ht_float_leave(kept);
    return status;
}

enum hearth_status hearth_engine_multiply_speed(hearth_engine *e, uint32_t budget_ms,
                                                struct hearth_ceilings *out,
                                                struct hearth_error *err) {
    struct ht_float_env kept = ht_float_enter();
    enum hearth_status status = ht_engine_multiply_speed(e, budget_ms, out, err);
    ht_float_leave(kept);
    return status;
}

bool hearth_engine_step_kind(const hearth_engine *e, size_t i, struct hearth_step_kind *out) {
    return ht_engine_step_kind(e, i, out);
}

enum hearth_status hearth_ceilings_measure(const struct hearth_engine_options *o,
                                           uint32_t budget_ms, struct hearth_ceilings *out,
                                           struct hearth_error *err) {
    struct ht_float_env kept = ht_float_enter();
    enum hearth_status status = ht_ceilings_measure(o, budget_ms, out, err);
    ht_float_leave(kept);
    return status;
}

double hearth_ceilings_seconds(const struct hearth_ceilings *c, const struct hearth_step_kind *k) {
    struct ht_float_env kept = ht_float_enter();
    double seconds = ht_ceilings_seconds(c, k);
    ht_float_leave(kept);
    return seconds;
}

void hearth_sampling_default(struct hearth_sampling *s) {
    ht_sampling_default(s);
}

void hearth_request_options_default(struct hearth_request_options *o) {
    ht_request_options_default(o);
}

enum hearth_status hearth_request_create(hearth_engine *e, const int32_t *tokens, size_t n_tokens,
                                         const struct hearth_request_options *o,
                                         hearth_request **out, struct hearth_error *err) {
    struct ht_float_env kept = ht_float_enter();
    enum hearth_status status = ht_request_create(e, tokens, n_tokens, o, out, err);
    ht_float_leave(kept);
    return status;
}

void hearth_request_destroy(hearth_request *r) {
    ht_request_destroy(r);
}

void hearth_request_cancel(hearth_request *r) {
    ht_request_cancel(r);
}

enum hearth_finish hearth_request_finish(const hearth_request *r) {
    return ht_request_finish(r);
}

enum hearth_status hearth_request_error(const hearth_request *r, struct hearth_error *err) {
    return ht_request_error(r, err);
}

void hearth_request_get_stats(const hearth_request *r, struct hearth_request_stats *out) {
    ht_request_get_stats(r, out);
}
