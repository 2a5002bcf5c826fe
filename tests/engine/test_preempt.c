// SPDX-License-Identifier: MIT
// Preemption over the real backends: sequences that lose their pages and read everything again give
// the tokens and logits that each gives in an engine of its own. (The public options never leave an
// engine with too few pages; test_schedule.c has the schedule itself.)
#include "cmocka_all.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/engine_internal.h"
#include "loaded.h"

enum { N_REQUESTS = 6, N_CTX = 160, N_ANSWER = 60 };

struct record {
    int32_t prompt[N_CTX], answer[N_ANSWER];
    uint32_t n_prompt, n_answer, n_rows;
    float *logits; // [N_CTX][TINY_VOCAB]
};

static bool on_event(void *user, const struct hearth_event *event) {
    struct record *r = user;
    if (event->token >= 0) r->answer[r->n_answer++] = event->token;
    return true;
}

static bool on_logits(void *user, struct hearth_request *request, uint32_t pos, const float *logits,
                      int32_t n_vocab) {
    struct record *r = user;
    (void)request;
    assert_int_equal(pos, r->n_rows++); // each once, in order
    memcpy(r->logits + (size_t)pos * TINY_VOCAB, logits, (size_t)n_vocab * sizeof *logits);
    return true;
}

static struct hearth_engine *make_engine(const struct ht_plan *plan, const char *backend,
                                         enum hearth_kv_type kv_type, uint32_t n_seqs,
                                         uint32_t n_pages) {
    struct ht_engine_source source = {.plan = plan, .name = "tiny", .n_ctx_train = N_CTX};
    struct ht_engine_tuning tuning = {.n_pages = n_pages, .available = UINT64_MAX};
    struct hearth_engine_options o;
    struct hearth_engine *e;
    struct hearth_error err;
    ht_engine_options_default(&o);
    o.backend = backend;
    o.n_threads = strcmp(backend, "cpu") == 0 ? 2 : 0;
    o.n_ctx = N_CTX;
    o.n_seqs = n_seqs;
    o.n_batch = 24;
    o.n_logits = 12;
    o.kv_type = kv_type;
    if (ht_engine_create(&source, &o, &tuning, &e, &err)) fail_msg("%s", err.message);
    return e;
}

static void submit(struct hearth_engine *e, struct record *r, uint64_t seed) {
    struct hearth_request_options o;
    struct hearth_request *request;
    struct hearth_error err;
    memset(r, 0, sizeof *r);
    r->logits = calloc((size_t)N_CTX * TINY_VOCAB, sizeof *r->logits);
    assert_non_null(r->logits);
    r->n_prompt = 5 + (uint32_t)seed * 17;
    for (uint32_t i = 0; i < r->n_prompt; i++)
        r->prompt[i] = (int32_t)((i * i * 7 + seed * 31) % 256);
    ht_request_options_default(&o);
    o.max_tokens = N_ANSWER;
    o.ignore_end = true;
    o.sampling.seed = seed;
    o.sampling.temperature = 1.5f;
    o.on_event = on_event;
    o.on_logits = on_logits;
    o.user = r;
    if (ht_request_create(e, r->prompt, r->n_prompt, &o, &request, &err))
        fail_msg("%s", err.message);
}

static void run(struct hearth_engine *e) {
    struct hearth_error err;
    if (ht_engine_run(e, &err)) fail_msg("%s", err.message);
}

static void check_backend(const struct ht_plan *plan, const char *backend,
                          enum hearth_kv_type kv_type) {
    static struct record alone[N_REQUESTS], together[N_REQUESTS];
    for (uint32_t i = 0; i < N_REQUESTS; i++) {
        struct hearth_engine *e = make_engine(plan, backend, kv_type, 1, 0);
        submit(e, &alone[i], i);
        run(e);
        ht_engine_destroy(e);
    }
    // A context's pages and a few: two or three of four get on.
    struct hearth_engine *e =
        make_engine(plan, backend, kv_type, 4, N_CTX / HT_PAGE_TOKENS + (uint32_t)kv_type);
    for (uint32_t i = 0; i < N_REQUESTS; i++) {
        submit(e, &together[i], i);
        if (ht_engine_step(e, &(size_t){0}, NULL)) fail();
    }
    run(e);
    print_message("    %s, %s pages: %u preemptions\n", backend, ht_kv_type_name(kv_type),
                  (unsigned)e->n_preempted);
    assert_true(e->n_preempted > 0);
    ht_engine_destroy(e);
    for (uint32_t i = 0; i < N_REQUESTS; i++) {
        struct record *want = &alone[i], *got = &together[i];
        assert_int_equal(want->n_answer, N_ANSWER);
        assert_int_equal(got->n_answer, N_ANSWER);
        assert_memory_equal(got->answer, want->answer, sizeof want->answer);
        assert_int_equal(want->n_rows, want->n_prompt + N_ANSWER - 1);
        assert_int_equal(got->n_rows, want->n_rows);
        assert_memory_equal(got->logits, want->logits,
                            (size_t)want->n_rows * TINY_VOCAB * sizeof(float));
        free(want->logits);
        free(got->logits);
    }
}

static void test_preempt(void **state) {
    (void)state;
    struct loaded l = loaded_open(HT_Q8_0);
    for (int kv = 0; kv < HT_N_KV_TYPES; kv++) {
        check_backend(ht_model_plan(l.model), "cpu", (enum hearth_kv_type)kv);
        check_backend(ht_model_plan(l.model), "ref", (enum hearth_kv_type)kv);
    }
    loaded_close(&l);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_preempt)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
