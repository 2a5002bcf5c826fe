// SPDX-License-Identifier: MIT
// From an open GGUF file to a plan: hyper-parameters, weights bound by name and shape, steps
// appended by the architecture's file in arch/. Touches no matrix. Immutable after load; any
// thread.
#ifndef HT_MODEL_MODEL_H
#define HT_MODEL_MODEL_H

#include "backend/backend.h"
#include "gguf/gguf.h"

struct ht_model; // defined in model.c

// Borrows g, which must outlive the model. E_UNSUPPORTED names an unknown architecture and lists
// the known ones.
HT_MUST_CHECK enum hearth_status ht_model_load(const struct ht_gguf *g,
                                               const struct hearth_log *log, struct ht_model **out,
                                               struct hearth_error *err);
void ht_model_free(struct ht_model *m); // accepts NULL
const struct ht_plan *ht_model_plan(const struct ht_model *m);
void ht_model_get_info(const struct ht_model *m, struct hearth_model_info *out);
uint32_t ht_model_n_ctx_train(const struct ht_model *m);
const char *ht_model_architectures(void);        // "gpt2, llama, ..."
size_t ht_model_bytes(const struct ht_model *m); // heap it holds

#endif
