// SPDX-License-Identifier: MIT
// The scheduler and the life of requests, over the fake backend: whatever runs beside it, however
// its prompt is cut, however often it is preempted, a request gives the answer that a plain loop
// over its own tokens gives. Runs without a file and without a tokenizer.
#include "cmocka_all.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "alloc_mem.h"
#include "base/hash.h"
#include "engine/engine_internal.h"
#include "fake.h"

#define MAX_TOKENS 600

static uint64_t noise_state;
static uint32_t below(uint32_t n) {
    return (uint32_t)(ht_hash_u64(noise_state += 0x9e3779b97f4a7c15u) % n);
}

static const struct ht_engine_source source = {
    .plan = &fake_plan, .name = "fake.gguf", .weight_bytes = 1000000000, .n_ctx_train = 1024};

struct setup {
    uint32_t n_ctx, n_seqs, n_batch, n_logits, n_pages;
    int n_threads;
};

static struct hearth_engine *make_engine(struct setup s) {
    struct hearth_engine_options o;
    struct hearth_engine *e;
    struct hearth_error err = {0};
    struct ht_engine_tuning tuning = {
        .backend = &fake_backend, .n_pages = s.n_pages, .available = UINT64_MAX};
    ht_engine_options_default(&o);
    o.n_ctx = s.n_ctx;
    if (s.n_seqs) o.n_seqs = s.n_seqs;
    if (s.n_batch) o.n_batch = s.n_batch;
    o.n_logits = s.n_logits;
    memset(&fake_control, 0, sizeof fake_control);
    fake_control.n_threads = s.n_threads;
    if (ht_engine_create(&source, &o, &tuning, &e, &err)) fail_msg("%s", err.message);
    return e;
}

// What one request was and what came of it.
struct record {
    int32_t prompt[MAX_TOKENS], answer[MAX_TOKENS];
    uint32_t n_prompt, n_answer, n_events, n_last;
    struct hearth_request_options o;
    struct hearth_request *request;
    enum hearth_finish finish;
    int32_t token_with_finish;
    uint32_t n_logits_seen;
    uint32_t stop_after; // events until the callback says no; 0: never
    uint32_t stop_logits_after;
    bool call_back_in;
};

static bool on_event(void *user, const struct hearth_event *event) {
    struct record *r = user;
    r->n_events++;
    assert_ptr_equal(event->request, r->request);
    assert_int_equal(event->n_text_bytes, 0);
    assert_int_equal(isnan(event->logprob), event->token < 0 || r->o.n_logprobs < 0);
    assert_int_equal(ht_request_finish(event->request), event->finish);
    if (event->token >= 0) r->answer[r->n_answer++] = event->token;
    if (event->finish) {
        r->n_last++;
        r->finish = event->finish;
        r->token_with_finish = event->token;
    }
    if (r->call_back_in) {
        size_t n;
        assert_int_equal(ht_engine_step(event->request->engine, &n, NULL), HEARTH_E_STATE);
        assert_int_equal(ht_engine_read_speed(event->request->engine, 1, &(double){0}, NULL),
                         HEARTH_E_STATE);
        struct hearth_ceilings c;
        assert_int_equal(ht_engine_multiply_speed(event->request->engine, 1, &c, NULL),
                         HEARTH_E_STATE);
    }
    return r->stop_after == 0 || r->n_events < r->stop_after;
}

static bool on_logits(void *user, struct hearth_request *request, uint32_t pos, const float *logits,
                      int32_t n_vocab) {
    struct record *r = user;
    float expected[FAKE_VOCAB];
    int32_t all[2 * MAX_TOKENS];
    assert_ptr_equal(request, r->request);
    assert_int_equal(n_vocab, FAKE_VOCAB);
    assert_int_equal(pos, r->n_logits_seen); // each once, in order
    r->n_logits_seen++;
    memcpy(all, r->prompt, r->n_prompt * sizeof *all);
    memcpy(all + r->n_prompt, r->answer, r->n_answer * sizeof *all);
    fake_logits(all, pos + 1, expected);
    assert_memory_equal(logits, expected, sizeof expected);
    return r->stop_logits_after == 0 || r->n_logits_seen < r->stop_logits_after;
}

static void want_logits(struct record *r, uint32_t from) {
    r->o.on_logits = on_logits;
    r->o.logits_from = r->n_logits_seen = from;
}

static void fill(struct record *r, uint32_t n_prompt, int32_t max_tokens) {
    memset(r, 0, sizeof *r);
    r->n_prompt = n_prompt;
    for (uint32_t i = 0; i < n_prompt; i++) r->prompt[i] = (int32_t)below(FAKE_VOCAB);
    ht_request_options_default(&r->o);
    r->o.max_tokens = max_tokens;
    r->o.sampling.seed = below(1000);
    r->o.on_event = on_event;
    r->o.user = r;
}

static void submit(struct hearth_engine *e, struct record *r) {
    struct hearth_error err = {0};
    if (ht_request_create(e, r->prompt, r->n_prompt, &r->o, &r->request, &err))
        fail_msg("%s", err.message);
}

static void run(struct hearth_engine *e) {
    struct hearth_error err = {0};
    if (ht_engine_run(e, &err)) fail_msg("%s", err.message);
}

// The plain loop.
static void check_answer(const struct record *r, uint32_t n_ctx) {
    struct ht_sampler s;
    struct ht_sampler_scratch w;
    int32_t tokens[2 * MAX_TOKENS];
    float logits[FAKE_VOCAB];
    uint32_t n = r->n_prompt, room = n_ctx - n;
    memcpy(tokens, r->prompt, n * sizeof *tokens);
    assert_int_equal(ht_sampler_init(&s, &r->o.sampling, FAKE_VOCAB, NULL), HEARTH_OK);
    assert_int_equal(ht_sampler_scratch_init(&w, FAKE_VOCAB, NULL), HEARTH_OK);
    bool by_length = r->o.max_tokens >= 0 && (uint32_t)r->o.max_tokens <= room;
    uint32_t n_want = by_length ? (uint32_t)r->o.max_tokens : room;
    assert_int_equal(r->n_answer, n_want);
    for (uint32_t i = 0; i < n_want; i++) {
        fake_logits(tokens, n, logits);
        assert_int_equal(ht_sampler_pick(&s, &w, logits, tokens, n, &tokens[n], NULL), HEARTH_OK);
        assert_int_equal(r->answer[i], tokens[n]);
        n++;
    }
    assert_int_equal(r->finish, by_length ? HEARTH_FINISH_LENGTH : HEARTH_FINISH_CONTEXT);
    assert_int_equal(r->n_last, 1);
    assert_int_equal(r->token_with_finish, n_want ? tokens[n - 1] : -1);
    if (r->o.on_logits) assert_int_equal(r->n_logits_seen, n_want ? n - 1 : n);
    ht_sampler_deinit(&s);
    ht_sampler_scratch_deinit(&w);
}

static void check_idle(struct hearth_engine *e) {
    struct hearth_engine_stats stats;
    ht_engine_get_stats(e, &stats);
    assert_int_equal(stats.n_pages_free, stats.n_pages);
    for (uint32_t i = 0; i < stats.n_pages; i++) assert_int_equal(e->pages.refs[i], 0);
    assert_int_equal(e->n_running, 0);
    assert_null(e->waiting);
    assert_int_equal(e->n_active, 0);
}

// ---- answers ------------------------------------------------------------------------------------

static void test_one(void **state) {
    (void)state;
    static struct record r;
    struct hearth_engine *e = make_engine((struct setup){.n_ctx = 300});
    for (uint32_t n_prompt = 1; n_prompt < 140; n_prompt += 23) {
        fill(&r, n_prompt, 50);
        submit(e, &r);
        run(e);
        check_answer(&r, 300);
        struct hearth_request_stats stats;
        ht_request_get_stats(r.request, &stats);
        assert_int_equal(stats.n_prompt_tokens, n_prompt);
        assert_int_equal(stats.n_prompt_read, n_prompt);
        assert_int_equal(stats.n_generated_tokens, 50);
        assert_true(stats.prompt_ns > 0 && stats.generation_ns > 0);
        ht_request_destroy(r.request);
        check_idle(e);
    }
    assert_string_equal(ht_engine_device(e), "fake");
    assert_int_equal(ht_engine_n_ctx(e), 300);
    ht_engine_destroy(e);
}

// Random requests in random company: chunk sizes, budgets, queues, few pages.
static void test_company(void **state) {
    (void)state;
    enum { N = 9 };
    static struct record r[N];
    uint64_t n_preempted = 0;
    noise_state = 11;
    for (int round = 0; round < 150; round++) {
        struct setup s = {.n_ctx = 100 + below(300), .n_seqs = 1 + below(6)};
        s.n_batch = s.n_seqs + below(round % 2 ? 10 : 300);
        if (below(2)) s.n_logits = s.n_seqs + below(40);
        if (round % 10 == 0) s.n_threads = 2 + (int)below(2);
        uint32_t per_seq = ht_kv_pages_for(s.n_ctx);
        if (below(2)) s.n_pages = per_seq + below(per_seq);
        struct hearth_engine *e = make_engine(s);
        for (int i = 0; i < N; i++) {
            fill(&r[i], 1 + below(below(3) ? 40 : s.n_ctx), below(4) ? (int32_t)below(150) : -1);
            if (below(2)) r[i].o.prompt_chunk = 1 + below(50);
            if (below(3) == 0) want_logits(&r[i], below(2) ? below(r[i].n_prompt) : 0);
            if (below(4) == 0) r[i].o.sampling.repetition_penalty = 1.3f;
            if (below(4) == 0) r[i].o.sampling.temperature = 0;
            submit(e, &r[i]);
            size_t n_active = 99;
            for (uint32_t k = below(20); k > 0 && below(2); k--) // some come later
                assert_int_equal(ht_engine_step(e, &n_active, NULL), HEARTH_OK);
        }
        run(e);
        for (int i = 0; i < N; i++) check_answer(&r[i], s.n_ctx);
        check_idle(e);
        n_preempted += e->n_preempted;
        ht_engine_destroy(e); // and the requests with it
    }
    print_message("    %u preemptions\n", (unsigned)n_preempted);
    assert_true(n_preempted > 100);
}

// More threads and sequences than threads that sample.
static void test_many_threads(void **state) {
    (void)state;
    enum { N = HT_MAX_SAMPLER_THREADS + 5 };
    static struct record r[N + 2];
    for (int n_threads = HT_MAX_SAMPLER_THREADS; n_threads <= N; n_threads += 5) {
        struct hearth_engine *e =
            make_engine((struct setup){.n_ctx = 60, .n_seqs = N, .n_threads = n_threads});
        for (int i = 0; i < N + 2; i++) {
            fill(&r[i], 1 + below(9), 20);
            submit(e, &r[i]);
        }
        run(e);
        for (int i = 0; i < N + 2; i++) check_answer(&r[i], 60);
        ht_engine_destroy(e);
    }
}

// Whose time is whose: a pass of a second is the prompt's, the wait of the next request nobody's.
static void nap(void *user, const struct ht_batch *b) {
    (void)user, (void)b;
    if (fake_control.n_passes == 0) sleep(1);
}

static void test_stats(void **state) {
    (void)state;
    static struct record r[2];
    struct hearth_request_stats s[2];
    struct hearth_engine_stats all;
    struct hearth_engine *e = make_engine((struct setup){.n_ctx = 60});
    fake_control.look = nap;
    for (int i = 0; i < 2; i++) {
        fill(&r[i], 7, 10);
        submit(e, &r[i]);
    }
    run(e);
    for (int i = 0; i < 2; i++) ht_request_get_stats(r[i].request, &s[i]);
    assert_true(s[0].prompt_ns >= 1000000000 && s[0].generation_ns < s[0].prompt_ns);
    assert_true(s[1].prompt_ns < s[0].prompt_ns);
    ht_engine_get_stats(e, &all);
    assert_int_equal(all.n_passes, 20);
    assert_int_equal(all.n_tokens, 2 * (7 + 9));
    assert_true(all.pass_ns >= 1000000000);
    ht_engine_destroy(e);
}

static void count_warnings(void *user, enum hearth_log_level level, const char *line) {
    *(int *)user += level == HEARTH_LOG_WARN && strstr(line, "trained on contexts of 1024");
}

static void test_long_context_is_said(void **state) {
    (void)state;
    for (uint32_t n_ctx = 1024; n_ctx <= 1025; n_ctx++) {
        struct ht_engine_tuning tuning = {.backend = &fake_backend, .available = UINT64_MAX};
        struct hearth_engine_options o;
        struct hearth_engine *e;
        int n = 0;
        ht_engine_options_default(&o);
        o.n_ctx = n_ctx;
        o.log = (struct hearth_log){.fn = count_warnings, .user = &n};
        memset(&fake_control, 0, sizeof fake_control);
        assert_int_equal(ht_engine_create(&source, &o, &tuning, &e, NULL), HEARTH_OK);
        assert_int_equal(n, n_ctx > 1024);
        ht_engine_destroy(e);
    }
}

struct watch {
    uint32_t n_seqs_max, n_tokens_max, n_outputs_max;
    uint32_t first_pos[64];
    uint32_t n_tokens[64], n_passes;
};

static void look(void *user, const struct ht_batch *b) {
    struct watch *w = user;
    if (b->n_seqs > w->n_seqs_max) w->n_seqs_max = b->n_seqs;
    if (b->n_tokens > w->n_tokens_max) w->n_tokens_max = b->n_tokens;
    if (b->n_outputs > w->n_outputs_max) w->n_outputs_max = b->n_outputs;
    if (w->n_passes < 64) w->n_tokens[w->n_passes++] = b->n_tokens;
}

// A long prompt stalls nobody: the others get a token each turn, and it gets the rest.
static void test_long_prompt(void **state) {
    (void)state;
    static struct record r[4];
    struct watch w = {0};
    struct hearth_engine *e = make_engine((struct setup){.n_ctx = 600, .n_seqs = 4, .n_batch = 40});
    size_t n_active;
    for (int i = 0; i < 2; i++) {
        fill(&r[i], 3, 100);
        submit(e, &r[i]);
    }
    assert_int_equal(ht_engine_step(e, &n_active, NULL), HEARTH_OK);
    assert_int_equal(n_active, 2);
    fill(&r[2], 500, 5);
    fill(&r[3], 10, 5);
    submit(e, &r[2]);
    submit(e, &r[3]);
    fake_control.look = look;
    fake_control.user = &w;
    for (uint32_t turn = 2; turn <= 10; turn++) {
        assert_int_equal(ht_engine_step(e, &n_active, NULL), HEARTH_OK);
        assert_int_equal(r[0].n_answer, turn);
        assert_int_equal(r[1].n_answer, turn);
        // The short prompt behind the long one is read in the same turn.
        assert_true(r[3].n_answer > 0);
        assert_int_equal(w.n_tokens[turn - 2], 40); // nothing of the budget is left over
    }
    run(e);
    for (int i = 0; i < 4; i++) check_answer(&r[i], 600);
    assert_int_equal(w.n_seqs_max, 4);
    ht_engine_destroy(e);
}

// A request reads no more than its chunk in a pass, also where there is room.
static void test_chunk(void **state) {
    (void)state;
    static struct record r;
    struct watch w = {0};
    struct hearth_engine *e = make_engine((struct setup){.n_ctx = 200, .n_batch = 64});
    fake_control.look = look;
    fake_control.user = &w;
    fill(&r, 150, 0);
    r.o.prompt_chunk = 40;
    submit(e, &r);
    for (uint32_t read = 0; read < 150; read = read + 40 < 150 ? read + 40 : 150) {
        struct hearth_request_stats stats;
        size_t n_active;
        ht_request_get_stats(r.request, &stats);
        assert_int_equal(stats.n_prompt_read, read);
        assert_int_equal(ht_engine_step(e, &n_active, NULL), HEARTH_OK);
        ht_request_get_stats(r.request, &stats);
        assert_int_equal(stats.n_prompt_read, read + 40 < 150 ? read + 40 : 150);
    }
    assert_int_equal(r.finish, HEARTH_FINISH_LENGTH);
    assert_int_equal(w.n_passes, 4);
    assert_int_equal(w.n_tokens[0], 40);
    assert_int_equal(w.n_tokens[3], 30);
    ht_engine_destroy(e);
}

// What hearth.h says of options that nobody set.
static void test_defaults(void **state) {
    (void)state;
    struct hearth_request_options o;
    struct hearth_engine_options eo;
    struct ht_engine_source s = source;
    ht_request_options_default(&o);
    assert_true(o.sampling.temperature == 0.8f && o.sampling.top_p == 0.95f);
    assert_true(o.sampling.min_p == 0.05f && o.sampling.repetition_penalty == 1);
    assert_true(o.sampling.presence_penalty == 0 && o.sampling.frequency_penalty == 0);
    assert_int_equal(o.sampling.top_k, 40);
    assert_int_equal(o.sampling.penalty_window, 64);
    assert_int_equal(o.sampling.seed, 0);
    assert_int_equal(o.max_tokens, -1);
    assert_int_equal(o.n_logprobs, -1);
    ht_engine_options_default(&eo);
    assert_int_equal(eo.n_seqs, 1);
    assert_int_equal(eo.n_batch, 512);
    assert_int_equal(eo.kv_type, HEARTH_KV_I16);
    for (uint32_t n_train = 0; n_train < 10000; n_train += 1999) { // 0: not known
        struct ht_engine_tuning tuning = {.backend = &fake_backend, .available = UINT64_MAX};
        struct hearth_engine *e;
        s.n_ctx_train = n_train;
        assert_int_equal(ht_engine_create(&s, &eo, &tuning, &e, NULL), HEARTH_OK);
        assert_int_equal(ht_engine_n_ctx(e), n_train == 0 || n_train > 4096 ? 4096 : n_train);
        ht_engine_destroy(e);
    }
}

static void test_limits(void **state) {
    (void)state;
    static struct record r[5];
    struct watch w = {0};
    struct hearth_engine *e =
        make_engine((struct setup){.n_ctx = 400, .n_seqs = 3, .n_batch = 64, .n_logits = 12});
    fake_control.look = look;
    fake_control.user = &w;
    for (int i = 0; i < 5; i++) {
        fill(&r[i], 200, 20);
        if (i < 3) r[i].o.on_logits = on_logits;
        submit(e, &r[i]);
    }
    run(e);
    for (int i = 0; i < 5; i++) check_answer(&r[i], 400);
    assert_int_equal(w.n_seqs_max, 3);
    assert_int_equal(w.n_tokens[0], 12);   // three readers of logits share 12 rows
    assert_int_equal(w.n_outputs_max, 12); // ... and all of them are used
    assert_true(w.n_tokens_max <= 64);
    ht_engine_destroy(e);
}

static void test_queue(void **state) {
    (void)state;
    static struct record r[6];
    struct hearth_engine *e = make_engine((struct setup){.n_ctx = 100, .n_seqs = 2});
    size_t n_active;
    for (int i = 0; i < 6; i++) {
        fill(&r[i], 10, 10);
        submit(e, &r[i]);
    }
    for (int i = 0; i < 6; i++) // two at a time, in order of arrival
        assert_int_equal(r[i].n_answer, 0);
    for (uint32_t turn = 1; turn <= 30; turn++) {
        assert_int_equal(ht_engine_step(e, &n_active, NULL), HEARTH_OK);
        for (uint32_t i = 0; i < 6; i++) {
            uint32_t begin = i / 2 * 10;
            uint32_t n = turn <= begin ? 0 : turn - begin;
            assert_int_equal(r[i].n_answer, n > 10 ? 10 : n);
        }
    }
    assert_int_equal(n_active, 0);
    assert_int_equal(ht_engine_step(e, &n_active, NULL), HEARTH_OK); // nothing to do
    assert_int_equal(fake_control.n_passes, 30);
    ht_engine_destroy(e);
}

// Whoever waits comes in when there are pages for all it reads beside what the running ones have
// still to read: nobody is sent back out for want of pages before a token was generated.
static void test_waits_for_pages(void **state) {
    (void)state;
    static struct record r[3];
    struct hearth_engine *e =
        make_engine((struct setup){.n_ctx = 320, .n_seqs = 3, .n_batch = 32, .n_pages = 12});
    const uint32_t n_prompt[] = {300, 200, 60}; // 10, 7 and 2 pages
    size_t n_active;
    for (int i = 0; i < 3; i++) {
        fill(&r[i], n_prompt[i], 0);
        submit(e, &r[i]);
    }
    for (int turn = 0; turn < 10; turn++) { // in order of arrival, though the third would fit
        assert_int_equal(e->n_active, 3);
        assert_int_equal(ht_engine_step(e, &n_active, NULL), HEARTH_OK);
        assert_int_equal(e->n_running, n_active == 3);
    }
    assert_int_equal(n_active, 2);
    run(e);
    for (int i = 0; i < 3; i++) check_answer(&r[i], 320);
    assert_int_equal(e->n_preempted, 0);
    check_idle(e);
    ht_engine_destroy(e);
}

// Nobody runs while someone waits who came before, however often pages run out; whoever lost them
// waits in front of those that came later.
static void test_order(void **state) {
    (void)state;
    enum { N = 6 };
    static struct record r[N];
    struct hearth_engine *e =
        make_engine((struct setup){.n_ctx = 320, .n_seqs = 3, .n_batch = 32, .n_pages = 10});
    size_t n_active = N;
    uint64_t n_read[N] = {0};
    for (int i = 0; i < N; i++) {
        fill(&r[i], i < 3 ? 90 : 20, 150);
        submit(e, &r[i]);
    }
    while (n_active > 0) {
        assert_int_equal(ht_engine_step(e, &n_active, NULL), HEARTH_OK);
        for (int i = 0; i < N; i++) { // what has been read stays so, whatever becomes of pages
            struct hearth_request_stats stats;
            ht_request_get_stats(r[i].request, &stats);
            assert_true(stats.n_prompt_read >= n_read[i]);
            n_read[i] = stats.n_prompt_read;
        }
        uint64_t last = 0;
        for (uint32_t i = 0; i < e->n_running; i++) {
            assert_true(i == 0 || e->running[i]->serial > last);
            last = e->running[i]->serial;
        }
        const struct hearth_request *before = NULL;
        for (const struct hearth_request *w = e->waiting; w; before = w, w = w->next_waiting) {
            assert_true(w->serial > last || (last == 0 && e->n_running == 0));
            assert_ptr_equal(w->prev_waiting, before);
            last = w->serial;
        }
        assert_ptr_equal(e->last_waiting, before);
    }
    assert_true(e->n_preempted > 0);
    for (int i = 0; i < N; i++) check_answer(&r[i], 320);
    check_idle(e);
    ht_engine_destroy(e);
}

// ---- ends ---------------------------------------------------------------------------------------

static void test_context(void **state) {
    (void)state;
    static struct record r;
    struct hearth_error err;
    struct hearth_engine *e = make_engine((struct setup){.n_ctx = 70});
    fill(&r, 71, 1);
    assert_int_equal(ht_request_create(e, r.prompt, 71, &r.o, &r.request, &err),
                     HEARTH_E_CONTEXT_FULL);
    assert_non_null(strstr(err.message, "71"));
    assert_non_null(strstr(err.message, "70"));
    for (int32_t max_tokens = -1; max_tokens < 3; max_tokens++) {
        for (uint32_t n_prompt = 66; n_prompt <= 70; n_prompt++) {
            fill(&r, n_prompt, max_tokens);
            submit(e, &r);
            run(e);
            check_answer(&r, 70);
            ht_request_destroy(r.request);
        }
    }
    ht_engine_destroy(e);
}

static void test_prompt_only(void **state) {
    (void)state;
    static struct record r;
    struct hearth_engine *e =
        make_engine((struct setup){.n_ctx = 200, .n_batch = 64, .n_logits = 16});
    struct watch w = {0};
    fake_control.look = look;
    fake_control.user = &w;
    fill(&r, 150, 0);
    submit(e, &r);
    run(e);
    check_answer(&r, 200);
    assert_int_equal(w.n_outputs_max, 0); // nobody asked for logits
    assert_int_equal(w.n_passes, 3);
    fill(&r, 150, 0);
    want_logits(&r, 0);
    submit(e, &r);
    run(e);
    check_answer(&r, 200);
    assert_int_equal(w.n_passes, 3 + 10);
    fill(&r, 150, 0);
    want_logits(&r, 100); // 64 and 52 tokens, then 16 with logits at a time
    submit(e, &r);
    run(e);
    check_answer(&r, 200);
    assert_int_equal(w.n_passes, 3 + 10 + 5);
    struct hearth_request_stats stats;
    ht_request_get_stats(r.request, &stats);
    assert_true(stats.prompt_ns > 0 && stats.generation_ns == 0);
    ht_engine_destroy(e);
}

static void test_cancel(void **state) {
    (void)state;
    static struct record r[4];
    size_t n_active;
    struct hearth_engine *e = make_engine((struct setup){.n_ctx = 200, .n_seqs = 2});
    for (int i = 0; i < 4; i++) {
        fill(&r[i], 20, 50);
        submit(e, &r[i]);
    }
    r[1].stop_after = 7;
    for (int i = 0; i < 5; i++) assert_int_equal(ht_engine_step(e, &n_active, NULL), HEARTH_OK);
    ht_request_cancel(r[0].request); // running
    ht_request_cancel(r[2].request); // waiting
    assert_int_equal(ht_engine_step(e, &n_active, NULL), HEARTH_OK);
    assert_int_equal(n_active, 2);
    assert_int_equal(r[0].finish, HEARTH_FINISH_CANCELLED);
    assert_int_equal(r[0].n_answer, 5);
    assert_int_equal(r[0].token_with_finish, -1);
    assert_int_equal(r[2].finish, HEARTH_FINISH_CANCELLED);
    assert_int_equal(r[2].n_answer, 0);
    assert_int_equal(r[3].n_answer, 1); // came in at once
    run(e);
    assert_int_equal(r[1].finish, HEARTH_FINISH_CANCELLED); // by its callback
    assert_int_equal(r[1].n_answer, 7);
    check_answer(&r[3], 200);
    for (int i = 0; i < 4; i++) assert_int_equal(r[i].n_last, 1);
    ht_request_cancel(r[3].request); // too late, harmless
    check_idle(e);

    fill(&r[0], 20, 50);
    r[0].o.on_logits = on_logits;
    r[0].stop_logits_after = 13;
    submit(e, &r[0]);
    run(e);
    assert_int_equal(r[0].n_logits_seen, 13);
    assert_int_equal(r[0].finish, HEARTH_FINISH_CANCELLED);
    ht_engine_destroy(e);
}

static void test_destroy_any_state(void **state) {
    (void)state;
    static struct record r[4];
    size_t n_active;
    struct hearth_engine *e = make_engine((struct setup){.n_ctx = 200, .n_seqs = 2});
    for (int i = 0; i < 4; i++) {
        fill(&r[i], 20, 50);
        submit(e, &r[i]);
    }
    assert_int_equal(ht_engine_step(e, &n_active, NULL), HEARTH_OK);
    ht_request_destroy(r[1].request); // running
    ht_request_destroy(r[3].request); // waiting
    assert_int_equal(r[1].n_last + r[3].n_last, 0);
    run(e);
    check_answer(&r[0], 200);
    check_answer(&r[2], 200);
    check_idle(e);
    ht_request_destroy(NULL);
    ht_engine_destroy(NULL);
    fill(&r[1], 20, 50);
    submit(e, &r[1]);
    ht_engine_destroy(e);
}

// Callbacks may not destroy anything; one that does all the same breaks nothing.
static bool destroy_both(void *user, const struct hearth_event *event) {
    struct record *r = user;
    assert_int_equal(r->n_events++, 0);
    ht_request_destroy(event->request);
    ht_request_destroy(r[1].request);
    return true;
}

static bool destroy_all(void *user, struct hearth_request *request, uint32_t pos,
                        const float *logits, int32_t n_vocab) {
    struct record *r = user;
    (void)pos, (void)logits, (void)n_vocab;
    r->n_logits_seen++;
    ht_engine_destroy(request->engine);
    ht_request_destroy(request);
    return true;
}

static void test_destroy_in_callback(void **state) {
    (void)state;
    static struct record r[4];
    struct hearth_engine *e =
        make_engine((struct setup){.n_ctx = 200, .n_seqs = 4, .n_logits = 40});
    for (int i = 0; i < 4; i++) {
        fill(&r[i], 20, 50);
        if (i == 0) r[i].o.on_event = destroy_both;
        if (i == 1) r[i].o.on_logits = on_logits;
        if (i == 3) r[i].o.on_logits = destroy_all;
        submit(e, &r[i]);
    }
    run(e);
    assert_int_equal(r[1].n_last, 0);
    assert_int_equal(r[3].n_logits_seen, 1);
    check_answer(&r[2], 200);
    check_idle(e);
    assert_ptr_equal(e->all, r[2].request);
    assert_null(r[2].request->next);
    ht_engine_destroy(e);
}

static void test_call_back_in(void **state) {
    (void)state;
    static struct record r;
    struct hearth_engine *e = make_engine((struct setup){.n_ctx = 100});
    fill(&r, 5, 5);
    r.call_back_in = true;
    submit(e, &r);
    run(e);
    check_answer(&r, 100);
    ht_engine_destroy(e);
}

// ---- failures -----------------------------------------------------------------------------------

static void test_pass_fails(void **state) {
    (void)state;
    static struct record r[4];
    struct hearth_error err;
    struct hearth_engine *e = make_engine((struct setup){.n_ctx = 100, .n_seqs = 2});
    fake_control.fail_at = 4;
    fake_control.fail_with = HEARTH_E_NOMEM;
    for (int i = 0; i < 4; i++) {
        fill(&r[i], 5, 10);
        submit(e, &r[i]);
    }
    run(e);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(r[i].finish, HEARTH_FINISH_ERROR);
        assert_int_equal(r[i].n_answer, 3);
        assert_int_equal(ht_request_error(r[i].request, &err), HEARTH_E_NOMEM);
        assert_non_null(strstr(err.message, "as told"));
        assert_int_equal(r[i].n_last, 1);
    }
    for (int i = 2; i < 4; i++) {
        check_answer(&r[i], 100); // the engine is usable
        assert_int_equal(ht_request_error(r[i].request, NULL), HEARTH_OK);
    }
    check_idle(e);
    ht_engine_destroy(e);
}

static void test_backend_breaks(void **state) {
    (void)state;
    static struct record r[4];
    struct hearth_error err;
    struct hearth_engine *e = make_engine((struct setup){.n_ctx = 100, .n_seqs = 2});
    fake_control.fail_at = 2;
    fake_control.fail_with = HEARTH_E_INTERNAL;
    for (int i = 0; i < 4; i++) {
        fill(&r[i], 5, 10);
        submit(e, &r[i]);
    }
    assert_int_equal(ht_engine_run(e, &err), HEARTH_E_INTERNAL);
    for (int i = 0; i < 4; i++) assert_int_equal(r[i].finish, HEARTH_FINISH_ERROR);
    check_idle(e);
    size_t n_active;
    assert_int_equal(ht_engine_step(e, &n_active, &err), HEARTH_E_STATE);
    assert_non_null(strstr(err.message, "as told"));
    double speed;
    assert_int_equal(ht_engine_profile(e, HEARTH_PROFILE_OFF, &err), HEARTH_E_STATE);
    assert_int_equal(ht_engine_read_speed(e, 1, &speed, &err), HEARTH_E_STATE);
    assert_int_equal(ht_request_create(e, r[0].prompt, 5, &r[0].o, &r[0].request, &err),
                     HEARTH_E_STATE);
    ht_engine_destroy(e);
}

static void test_nan(void **state) {
    (void)state;
    static struct record r;
    struct hearth_error err;
    struct hearth_engine *e = make_engine((struct setup){.n_ctx = 100});
    fake_control.nan_at = 3;
    fill(&r, 5, 10);
    submit(e, &r);
    run(e);
    assert_int_equal(r.finish, HEARTH_FINISH_ERROR);
    assert_int_equal(r.n_answer, 2);
    assert_int_equal(ht_request_error(r.request, &err), HEARTH_E_FORMAT);
    assert_non_null(strstr(err.message, "token 7"));
    ht_engine_destroy(e);
}

static void test_bad_requests(void **state) {
    (void)state;
    static struct record r;
    static const char *const stop[] = {"x"};
    struct hearth_error err;
    struct hearth_engine *e = make_engine((struct setup){.n_ctx = 100});
    for (int i = 0; i < 9; i++) {
        fill(&r, 5, 10);
        if (i == 0) r.n_prompt = 0;
        if (i == 1) r.prompt[3] = -1;
        if (i == 2) r.prompt[4] = FAKE_VOCAB;
        if (i == 3) r.o.max_tokens = -2;
        if (i == 4) r.o.n_logprobs = 21;
        if (i == 5) r.o.n_logprobs = -2;
        if (i == 6) r.o.n_stop = 1;
        if (i == 7) r.o.stop = stop, r.o.n_stop = 1; // no tokenizer here
        if (i == 8) r.o.sampling.top_p = 1.5f;
        err.message[0] = 0;
        assert_int_equal(ht_request_create(e, r.prompt, r.n_prompt, &r.o, &r.request, &err),
                         HEARTH_E_ARG);
        assert_true(strlen(err.message) > 20);
        if (i == 6) assert_string_equal(err.message, "stop is NULL, but n_stop is 1");
        assert_null(r.request);
    }
    check_idle(e);
    ht_engine_destroy(e);
}

static void test_bad_engines(void **state) {
    (void)state;
    struct ht_engine_source from = source;
    struct ht_plan many;
    struct ht_engine_tuning tuning = {.backend = &fake_backend, .available = UINT64_MAX};
    struct hearth_error err;
    for (int i = 0; i < 15; i++) {
        struct hearth_engine *e = NULL;
        struct hearth_engine_options o;
        ht_engine_options_default(&o);
        memset(&fake_control, 0, sizeof fake_control);
        tuning.n_pages = 0;
        if (i == 0) o.n_seqs = 0;
        if (i == 1) o.n_seqs = 5000;
        if (i == 2) o.n_batch = 0;
        if (i == 3) o.n_seqs = 4, o.n_batch = 3;
        if (i == 4) o.n_seqs = 4, o.n_logits = 3;
        if (i == 5) o.n_ctx = UINT32_MAX;
        if (i == 6) o.n_threads = -1;
        if (i == 7) o.kv_type = (enum hearth_kv_type)7;
        if (i == 8) o.n_ctx = 100, tuning.n_pages = 3;
        if (i == 9) fake_control.unsupported = HEARTH_E_UNSUPPORTED;
        if (i == 10 || i == 11) { // more pages than 32 bits count
            o.n_seqs = o.n_batch = i == 10 ? 2049 : 4096;
            o.n_ctx = 1 << 26;
        }
        if (i == 12) o.n_batch = 65537;
        if (i == 13) o.n_logits = 65537;
        if (i == 14) {
            many = fake_plan;
            many.n_vocab = (1 << 22) + 1;
            from.plan = &many;
        }
        assert_int_equal(ht_engine_create(&from, &o, &tuning, &e, &err),
                         i == 9 || i == 14 ? HEARTH_E_UNSUPPORTED : HEARTH_E_ARG);
        assert_true(strlen(err.message) > 20);
        const char *says = i == 9               ? "step 0 (embed)"
                           : i == 10 || i == 11 ? "pages"
                           : i == 12            ? "n_batch"
                           : i == 13            ? "n_logits"
                           : i == 14            ? "can be sampled"
                                                : "";
        if (!strstr(err.message, says)) fail_msg("%s", err.message);
        assert_null(e);
    }
}

// ---- heap ---------------------------------------------------------------------------------------

// Several sequences come and go, prompts and 200 tokens each; not one call of the allocator.
static void test_no_allocation(void **state) {
    (void)state;
    static struct record r[8];
    struct hearth_engine *e = make_engine(
        (struct setup){.n_ctx = 400, .n_seqs = 3, .n_batch = 48, .n_pages = 16, .n_threads = 2});
    for (int i = 0; i < 8; i++) {
        fill(&r[i], 1 + below(150), 200);
        r[i].o.n_logprobs = i % 4 * 6 - 1;
        r[i].o.sampling.top_k = i % 2 ? 40 : 0;
        r[i].o.sampling.presence_penalty = 0.2f;
        if (i == 2) r[i].o.on_logits = on_logits;
        submit(e, &r[i]);
    }
    ht_test_alloc_reset();
    run(e);
    struct ht_test_alloc a = ht_test_alloc_get();
    assert_int_equal(a.n_calls, 0);
    assert_int_equal(a.n_frees, 0);
    assert_true(e->n_preempted > 0);
    for (int i = 0; i < 8; i++) check_answer(&r[i], 400);
    ht_engine_destroy(e);
}

static void test_allocation_fails(void **state) {
    (void)state;
    static struct record r;
    static const struct hearth_logit_bias bias[] = {{3, 1}};
    uint64_t before = ht_test_alloc_get().n_live_bytes, n;
    for (n = 1;; n++) {
        struct hearth_engine_options o;
        struct hearth_engine *e = NULL;
        struct hearth_error err;
        struct ht_engine_tuning tuning = {.backend = &fake_backend, .available = UINT64_MAX};
        ht_engine_options_default(&o);
        memset(&fake_control, 0, sizeof fake_control);
        fill(&r, 5, 3);
        r.o.sampling.logit_bias = bias;
        r.o.sampling.n_logit_bias = 1;
        ht_test_alloc_fail_at(n);
        enum hearth_status s = ht_engine_create(&source, &o, &tuning, &e, &err);
        if (!s) s = ht_request_create(e, r.prompt, 5, &r.o, &r.request, &err);
        bool failed = ht_test_alloc_failed();
        ht_test_alloc_fail_at(0);
        if (failed) {
            assert_int_equal(s, HEARTH_E_NOMEM);
            assert_int_equal(err.status, HEARTH_E_NOMEM);
        } else {
            assert_int_equal(s, HEARTH_OK);
            run(e);
            assert_int_equal(r.n_answer, 3);
        }
        ht_engine_destroy(e);
        assert_int_equal(ht_test_alloc_get().n_live_bytes, before);
        if (!failed) break;
    }
    assert_true(n > 15);
}

// ---- pages and log-probabilities ----------------------------------------------------------------

static void test_pages(void **state) {
    (void)state;
    struct ht_kv_pages p;
    uint32_t list_a[4], list_b[4];
    struct ht_kv_seq a = {.pages = list_a, .cap = 4}, b = {.pages = list_b, .cap = 4};
    assert_int_equal(ht_kv_pages_init(&p, 6, NULL), HEARTH_OK);
    assert_true(ht_kv_seq_grow(&a, &p, 0));
    assert_int_equal(a.n_pages, 0);
    assert_true(ht_kv_seq_grow(&a, &p, 1));
    assert_true(ht_kv_seq_grow(&a, &p, HT_PAGE_TOKENS));
    assert_int_equal(a.n_pages, 1);
    assert_true(ht_kv_seq_grow(&a, &p, 3 * HT_PAGE_TOKENS + 1));
    assert_int_equal(a.n_pages, 4);
    for (uint32_t i = 0; i < 4; i++) assert_int_equal(list_a[i], i); // 0 upwards
    assert_false(ht_kv_seq_grow(&a, &p, 4 * HT_PAGE_TOKENS + 1));    // the list is full
    assert_true(ht_kv_seq_grow(&b, &p, HT_PAGE_TOKENS));
    assert_false(ht_kv_seq_grow(&b, &p, 3 * HT_PAGE_TOKENS)); // one page is left
    assert_int_equal(b.n_pages, 1);
    assert_int_equal(p.n_free, 1);
    ht_kv_page_retain(&p, 1); // shared
    ht_kv_seq_clear(&a, &p);
    assert_int_equal(p.n_free, 4);
    assert_int_equal(p.refs[1], 1);
    assert_true(ht_kv_seq_grow(&a, &p, 1));
    assert_int_equal(list_a[0], 0); // touched memory first
    ht_kv_page_release(&p, 1);
    ht_kv_seq_clear(&a, &p);
    ht_kv_seq_clear(&b, &p);
    assert_int_equal(p.n_free, 6);
    ht_kv_pages_deinit(&p);
}

struct tops {
    uint32_t n;
    int32_t prompt[4], tokens[40];
};

static bool on_event_tops(void *user, const struct hearth_event *event) {
    struct tops *t = user;
    float logits[FAKE_VOCAB];
    double sum = 0;
    int32_t all[44];
    memcpy(all, t->prompt, sizeof t->prompt);
    memcpy(all + 4, t->tokens, t->n * sizeof *all);
    fake_logits(all, 4 + t->n, logits); // unmodified, whatever the chain did
    for (int i = 0; i < FAKE_VOCAB; i++) sum += exp(logits[i]);
    assert_true(fabs(event->logprob - (logits[event->token] - log(sum))) < 1e-5);
    assert_int_equal(event->n_top, 20);
    for (size_t i = 0; i < 20; i++) {
        assert_true(fabs(event->top[i].logprob - (logits[event->top[i].token] - log(sum))) < 1e-5);
        if (i) assert_true(event->top[i].logprob <= event->top[i - 1].logprob);
    }
    t->tokens[t->n++] = event->token;
    return true;
}

static void test_logprob_events(void **state) {
    (void)state;
    struct tops t = {.prompt = {1, 2, 3, 4}};
    struct hearth_request_options o;
    struct hearth_request *r;
    struct hearth_engine *e = make_engine((struct setup){.n_ctx = 100});
    ht_request_options_default(&o);
    o.max_tokens = 40;
    o.n_logprobs = 20;
    o.sampling.presence_penalty = 2;
    o.on_event = on_event_tops;
    o.user = &t;
    assert_int_equal(ht_request_create(e, t.prompt, 4, &o, &r, NULL), HEARTH_OK);
    run(e);
    assert_int_equal(t.n, 40);
    ht_engine_destroy(e);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_pages),
        cmocka_unit_test(test_one),
        cmocka_unit_test(test_company),
        cmocka_unit_test(test_many_threads),
        cmocka_unit_test(test_stats),
        cmocka_unit_test(test_long_context_is_said),
        cmocka_unit_test(test_long_prompt),
        cmocka_unit_test(test_chunk),
        cmocka_unit_test(test_defaults),
        cmocka_unit_test(test_limits),
        cmocka_unit_test(test_queue),
        cmocka_unit_test(test_waits_for_pages),
        cmocka_unit_test(test_order),
        cmocka_unit_test(test_context),
        cmocka_unit_test(test_prompt_only),
        cmocka_unit_test(test_cancel),
        cmocka_unit_test(test_destroy_any_state),
        cmocka_unit_test(test_call_back_in),
        cmocka_unit_test(test_destroy_in_callback),
        cmocka_unit_test(test_pass_fails),
        cmocka_unit_test(test_backend_breaks),
        cmocka_unit_test(test_nan),
        cmocka_unit_test(test_bad_requests),
        cmocka_unit_test(test_bad_engines),
        cmocka_unit_test(test_no_allocation),
        cmocka_unit_test(test_allocation_fails),
        cmocka_unit_test(test_logprob_events),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
