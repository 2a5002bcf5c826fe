// SPDX-License-Identifier: MIT
// The engine: one prepared plan, its KV pages, the scheduler, the requests. One thread drives it.
// src/api turns these into the public functions of the same names, whose contracts stand in
// hearth/hearth.h; struct hearth_engine and struct hearth_request are defined here
// (engine_internal.h), so nothing is wrapped twice.
//
// The engine sees a plan and a tokenizer, never a model: any plan can be run (the tests run some
// that no file has).
#ifndef HT_ENGINE_ENGINE_H
#define HT_ENGINE_ENGINE_H

#include "backend/backend.h"
#include "text/tokenizer.h"

// What an engine runs. Everything is borrowed and must outlive it.
struct ht_engine_source {
    const struct ht_plan *plan;
    // NULL for files without a vocabulary: events carry no text and stop strings are E_ARG.
    const struct ht_tokenizer *tokenizer;
    const hearth_model *model; // handed back by hearth_engine_model; may be NULL
    const char *name;          // of the file, for messages
    uint64_t weight_bytes;     // of the files, mapped or copied
    uint64_t taken_bytes;      // of these, what the machine has given already (ht_gguf_taken_bytes)
    uint64_t model_bytes;      // heap of the model and the file's tables
    uint32_t n_ctx_train;      // 0: unknown
};

// What tests set and the public options do not show. Zeroed or NULL: the defaults.
struct ht_engine_tuning {
    const struct ht_backend_ops *backend; // instead of the one that the options name
    uint32_t n_pages;                     // KV pages; 0: enough for n_seqs full contexts
    uint64_t available;                   // bytes that the machine has; 0: asks the machine
};

void ht_engine_options_default(struct hearth_engine_options *o);
// Bytes of memory that this process may still take, or what `tuning` (may be NULL) says instead.
uint64_t ht_engine_available(const struct ht_engine_tuning *tuning);
HT_MUST_CHECK enum hearth_status ht_engine_memory(const struct ht_engine_source *source,
                                                  const struct hearth_engine_options *o,
                                                  const struct ht_engine_tuning *tuning,
                                                  struct hearth_memory *out,
                                                  struct hearth_error *err);
HT_MUST_CHECK enum hearth_status ht_engine_create(const struct ht_engine_source *source,
                                                  const struct hearth_engine_options *o,
                                                  const struct ht_engine_tuning *tuning,
                                                  struct hearth_engine **out,
                                                  struct hearth_error *err);
void ht_engine_destroy(struct hearth_engine *e);
const hearth_model *ht_engine_model(const struct hearth_engine *e);
const char *ht_engine_device(const struct hearth_engine *e);
uint32_t ht_engine_n_ctx(const struct hearth_engine *e);
HT_MUST_CHECK enum hearth_status ht_engine_step(struct hearth_engine *e, size_t *n_active,
                                                struct hearth_error *err);
HT_MUST_CHECK enum hearth_status ht_engine_run(struct hearth_engine *e, struct hearth_error *err);
void ht_engine_get_stats(const struct hearth_engine *e, struct hearth_engine_stats *out);
HT_MUST_CHECK enum hearth_status
ht_engine_profile(struct hearth_engine *e, enum hearth_profile mode, struct hearth_error *err);
HT_MUST_CHECK enum hearth_status ht_engine_read_speed(struct hearth_engine *e, uint32_t budget_ms,
                                                      double *bytes_s, struct hearth_error *err);
HT_MUST_CHECK enum hearth_status ht_engine_multiply_speed(struct hearth_engine *e,
                                                          uint32_t budget_ms,
                                                          struct hearth_ceilings *out,
                                                          struct hearth_error *err);
bool ht_engine_step_kind(const struct hearth_engine *e, size_t i, struct hearth_step_kind *out);

// machine.c, ceilings.c
void ht_machine_get(struct hearth_machine *out);
HT_MUST_CHECK enum hearth_status ht_self_test(hearth_check_fn fn, void *user, size_t *n_failed,
                                              struct hearth_error *err);
HT_MUST_CHECK enum hearth_status ht_ceilings_measure(const struct hearth_engine_options *o,
                                                     uint32_t budget_ms,
                                                     struct hearth_ceilings *out,
                                                     struct hearth_error *err);
double ht_ceilings_seconds(const struct hearth_ceilings *c, const struct hearth_step_kind *k);

void ht_sampling_default(struct hearth_sampling *s);
void ht_request_options_default(struct hearth_request_options *o);
HT_MUST_CHECK enum hearth_status ht_request_create(struct hearth_engine *e, const int32_t *tokens,
                                                   size_t n_tokens,
                                                   const struct hearth_request_options *o,
                                                   struct hearth_request **out,
                                                   struct hearth_error *err);
void ht_request_destroy(struct hearth_request *r);
void ht_request_cancel(struct hearth_request *r);
enum hearth_finish ht_request_finish(const struct hearth_request *r);
enum hearth_status ht_request_error(const struct hearth_request *r, struct hearth_error *err);
void ht_request_get_stats(const struct hearth_request *r, struct hearth_request_stats *out);

#endif
