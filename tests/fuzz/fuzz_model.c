// SPDX-License-Identifier: MIT
// Whatever a GGUF file's metadata and tensors say, loading a model from it fails with a sentence
// that begins with the file's name, or gives a plan that keeps every rule, prints, and runs a token
// through the reference backend without touching a byte that is not its own.
#include <stdlib.h>
#include <string.h>

#include "model/model.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

static void expect(bool ok) {
    if (!ok) abort();
}

static void run_token(const struct ht_plan *p) {
    struct hearth_error err;
    struct ht_backend *backend = NULL;
    struct ht_prepared *prepared = NULL;
    struct ht_backend_memory memory;
    const struct ht_backend_options o = {0};
    const struct ht_limits l = {.max_tokens = 1, .max_outputs = 1, .max_ctx = 1, .n_pages = 1};
    expect(ht_backend_ref.open(&o, &backend, &err) == HEARTH_OK);
    if (ht_backend_ref.memory(backend, p, &l, &memory, &err) == HEARTH_OK &&
        memory.kv + memory.scratch < 1 << 22 && p->n_steps < 200) {
        const int32_t token = 0;
        const uint32_t zero = 0;
        const struct ht_batch_seq seq = {&zero, 1};
        const struct ht_batch b = {1, &token, &zero, &zero, 1, &seq, 1, &zero, NULL, NULL};
        const float *logits;
        expect(ht_backend_ref.prepare(backend, p, &l, &prepared, &err) == HEARTH_OK);
        expect(ht_backend_ref.execute(prepared, &b, &logits, &err) == HEARTH_OK);
    }
    ht_backend_ref.release(prepared);
    ht_backend_ref.close(backend);
}

static void load(const uint8_t *data, size_t n) {
    struct hearth_error err = {HEARTH_OK, ""};
    struct ht_gguf *g = NULL;
    struct ht_model *m = NULL;
    if (ht_gguf_open_bytes(data, n, "input", &g, &err)) return;
    enum hearth_status s = ht_model_load(g, NULL, &m, &err);
    if (s) {
        expect(!m && err.status == s && strncmp(err.message, "input", 5) == 0);
    } else {
        struct ht_buf text;
        ht_buf_init(&text, 1 << 26);
        expect(ht_plan_check(ht_model_plan(m), &err) == HEARTH_OK);
        expect(ht_plan_print(ht_model_plan(m), &text));
        ht_buf_deinit(&text);
        run_token(ht_model_plan(m));
    }
    ht_model_free(m);
    ht_gguf_close(g);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n) {
    uint8_t *copy = aligned_alloc(64, (n / 64 + 1) * 64); // files are mapped at page starts
    if (!copy) return 0;
    memcpy(copy, data, n);
    load(copy, n);
    free(copy);
    return 0;
}
