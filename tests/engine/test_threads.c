// SPDX-License-Identifier: MIT
// What threads may do: cancel a request that another thread drives, and drive engines of their own
// at the same time. Meant for the thread sanitizer; also a test without it.
#include "cmocka_all.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "engine/engine.h"
#include "fake.h"

static const struct ht_engine_source source = {.plan = &fake_plan, .name = "fake.gguf"};

static struct hearth_engine *make_engine(uint32_t n_ctx, uint32_t n_seqs) {
    struct hearth_engine_options o;
    struct hearth_engine *e = NULL;
    struct ht_engine_tuning tuning = {.backend = &fake_backend, .available = UINT64_MAX};
    ht_engine_options_default(&o);
    o.n_ctx = n_ctx;
    o.n_seqs = n_seqs;
    assert_int_equal(ht_engine_create(&source, &o, &tuning, &e, NULL), HEARTH_OK);
    return e;
}

struct shared {
    struct hearth_request *request;
    atomic_int n_events;
    atomic_bool cancelled;
};

static bool on_event(void *user, const struct hearth_event *event) {
    struct shared *s = user;
    (void)event;
    if (atomic_fetch_add(&s->n_events, 1) >= 20) // else all would be over before a slow thread runs
        while (!atomic_load(&s->cancelled)) sched_yield();
    return true;
}

static void *cancel_later(void *arg) {
    struct shared *s = arg;
    while (atomic_load(&s->n_events) < 20) sched_yield();
    hearth_request *r = s->request;
    ht_request_cancel(r);
    atomic_store(&s->cancelled, true);
    return NULL;
}

static void test_cancel_from_outside(void **state) {
    (void)state;
    static const int32_t prompt[3] = {1, 2, 3};
    struct shared s = {0};
    struct hearth_request_options o;
    struct hearth_request *other;
    struct hearth_engine *e = make_engine(3000, 2);
    ht_request_options_default(&o);
    o.max_tokens = 40;
    assert_int_equal(ht_request_create(e, prompt, 3, &o, &other, NULL), HEARTH_OK);
    o.max_tokens = -1;
    o.on_event = on_event;
    o.user = &s;
    assert_int_equal(ht_request_create(e, prompt, 3, &o, &s.request, NULL), HEARTH_OK);
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, cancel_later, &s), 0);
    assert_int_equal(ht_engine_run(e, NULL), HEARTH_OK);
    pthread_join(thread, NULL);
    assert_int_equal(ht_request_finish(s.request), HEARTH_FINISH_CANCELLED);
    assert_int_equal(ht_request_finish(other), HEARTH_FINISH_LENGTH);
    ht_engine_destroy(e);
}

static void cancel_in_pass(void *user, const struct ht_batch *b) {
    if (b->pos[0] == 0 && b->n_tokens >= 6) ht_request_cancel(user);
}

// Two prompts of three tokens, the first cancelled while the pass reads both; or one of six, alone:
// nobody wants that pass any more.
static void test_cancel_in_pass(void **state) {
    (void)state;
    static const int32_t prompt[6] = {1, 2, 3, 4, 5, 6};
    for (uint32_t n_others = 0; n_others < 2; n_others++) {
        struct shared s = {0};
        struct hearth_request_options o;
        struct hearth_request *other;
        struct hearth_engine_stats stats;
        size_t n_active;
        struct hearth_engine *e = make_engine(100, 2);
        ht_request_options_default(&o);
        o.max_tokens = 5;
        uint32_t n = n_others ? 3 : 6;
        assert_int_equal(ht_request_create(e, prompt, n, &o, &s.request, NULL), HEARTH_OK);
        if (n_others)
            assert_int_equal(ht_request_create(e, prompt, n, &o, &other, NULL), HEARTH_OK);
        fake_control.look = cancel_in_pass;
        fake_control.user = s.request;
        assert_int_equal(ht_engine_step(e, &n_active, NULL), HEARTH_OK);
        fake_control.look = NULL;
        assert_int_equal(n_active, n_others);
        assert_int_equal(ht_request_finish(s.request), HEARTH_FINISH_CANCELLED);
        ht_engine_get_stats(e, &stats);
        assert_int_equal(stats.n_passes, n_others);
        assert_int_equal(stats.n_tokens, n_others ? 6 : 0);
        if (!n_others) // the engine goes on
            assert_int_equal(ht_request_create(e, prompt, n, &o, &other, NULL), HEARTH_OK);
        assert_int_equal(ht_engine_run(e, NULL), HEARTH_OK);
        assert_int_equal(ht_request_finish(other), HEARTH_FINISH_LENGTH);
        ht_engine_get_stats(e, &stats);
        assert_int_equal(stats.n_pages_free, stats.n_pages);
        ht_engine_destroy(e);
    }
}

struct answer {
    uint32_t n;
    int32_t tokens[200];
};

static bool collect(void *user, const struct hearth_event *event) {
    struct answer *a = user;
    a->tokens[a->n++] = event->token;
    return true;
}

static void *run_one(void *arg) {
    static const int32_t prompt[3] = {5, 6, 7};
    struct hearth_request_options o;
    struct hearth_request *r;
    struct hearth_engine *e = make_engine(400, 1);
    ht_request_options_default(&o);
    o.max_tokens = 200;
    o.sampling.seed = 4;
    o.on_event = collect;
    o.user = arg;
    if (ht_request_create(e, prompt, 3, &o, &r, NULL) || ht_engine_run(e, NULL)) return arg;
    ht_engine_destroy(e);
    return NULL;
}

static void test_two_engines(void **state) {
    (void)state;
    static struct answer a[3];
    pthread_t thread[3];
    for (int i = 0; i < 3; i++)
        assert_int_equal(pthread_create(&thread[i], NULL, run_one, &a[i]), 0);
    for (int i = 0; i < 3; i++) {
        void *failed;
        pthread_join(thread[i], &failed);
        assert_null(failed);
        assert_int_equal(a[i].n, 200);
        assert_memory_equal(a[i].tokens, a[0].tokens, sizeof a[0].tokens);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_cancel_from_outside),
        cmocka_unit_test(test_cancel_in_pass),
        cmocka_unit_test(test_two_engines),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
