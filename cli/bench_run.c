// SPDX-License-Identifier: MIT
// One repetition of what hearth bench measures: sequences of random tokens, the time that they
// take, and what the machine does right before and right after them.
#include <stdlib.h>

#include "bench.h"

enum {
    READ_MS = 1,     // beside a repetition: four passes over the weights, or more
    MULTIPLY_MS = 5, // beside a repetition: for each of five numbers
};

struct lane {          // one sequence
    size_t *n_started; // sequences that have generated a token
    size_t n_tokens;
    hearth_request *request;
};

static bool on_event(void *user, const struct hearth_event *e) {
    struct lane *l = user;
    if (e->token >= 0 && l->n_tokens++ == 0) ++*l->n_started;
    return true;
}

static uint64_t mix(uint64_t x) { // splitmix64 (Steele, Lea, Flood 2014)
    x += 0x9e3779b97f4a7c15u;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return x ^ (x >> 31);
}

// Queues a prompt of n random tokens; it goes on without end where `generate`, and else ends with
// the token that its logits give.
static int create_lane(struct bench *b, size_t n, bool generate, uint64_t seed, struct lane *lane) {
    struct hearth_request_options o;
    struct hearth_error err = {HEARTH_OK, ""};
    int32_t *tokens = malloc(n * sizeof(*tokens));
    if (!tokens) return fail("out of memory");
    for (size_t i = 0; i < n; i++) {
        tokens[i] = (int32_t)(mix(seed * 1000003 + i) % b->info.n_vocab);
    }
    hearth_request_options_default(&o);
    o.sampling.temperature = 0;
    o.max_tokens = generate ? -1 : 1;
    o.ignore_end = true;
    o.on_event = on_event;
    o.user = lane;
    enum hearth_status s = hearth_request_create(b->engine, tokens, n, &o, &lane->request, &err);
    free(tokens);
    return s ? fail_error(&err) : EXIT_FINE;
}

static int step(struct bench *b, size_t *n_active) {
    struct hearth_error err = {HEARTH_OK, ""};
    if (hearth_engine_step(b->engine, n_active, &err)) return fail_error(&err);
    return atomic_load(&b->interrupt.hit) ? EXIT_INTERRUPTED : EXIT_FINE;
}

static size_t lanes_tokens(const struct lane *lanes, size_t n) {
    size_t sum = 0;
    for (size_t i = 0; i < n; i++) sum += lanes[i].n_tokens;
    return sum;
}

// Both add half of what is measured now to r, and are called on both sides of the passes, since a
// shared machine's memory and processors may change their speed within seconds: reading, which
// changes more, next to them.
static int read_beside(struct bench *b, const struct test *t, struct bench_result *r) {
    struct hearth_error err = {HEARTH_OK, ""};
    double bytes_s = b->weights_bytes_s;
    if (r->bare) return EXIT_FINE;
    if (t->reads && hearth_engine_read_speed(b->engine, READ_MS, &bytes_s, &err))
        return fail_error(&err);
    r->beside.read_bytes_s += bytes_s / 2;
    return atomic_load(&b->interrupt.hit) ? EXIT_INTERRUPTED : EXIT_FINE;
}

static int multiply_beside(struct bench *b, struct bench_result *r) {
    struct hearth_error err = {HEARTH_OK, ""};
    struct hearth_ceilings now = {0}, *sum = &r->beside;
    if (r->bare) return EXIT_FINE;
    if (hearth_engine_multiply_speed(b->engine, MULTIPLY_MS, &now, &err)) return fail_error(&err);
    sum->int8_macs_s += now.int8_macs_s / 2;
    sum->i16_macs_s += now.i16_macs_s / 2;
    sum->bf16_macs_s += now.bf16_macs_s / 2;
    sum->f32_macs_s += now.f32_macs_s / 2;
    sum->slowest_thread += now.slowest_thread / 2;
    return atomic_load(&b->interrupt.hit) ? EXIT_INTERRUPTED : EXIT_FINE;
}

// Counts from here on, where there are ceilings to compare with.
static int begin_work(struct bench *b, const struct test *t, bool timed, struct bench_result *r) {
    struct hearth_error err = {HEARTH_OK, ""};
    enum hearth_profile mode = timed ? HEARTH_PROFILE_STEPS : HEARTH_PROFILE_WORK;
    if (!b->has_ceilings) return EXIT_FINE;
    int code = multiply_beside(b, r);
    if (!code) code = read_beside(b, t, r);
    if (code) return code;
    return hearth_engine_profile(b->engine, mode, &err) ? fail_error(&err) : EXIT_FINE;
}

static int end_work(struct bench *b, const struct test *t, struct bench_result *r) {
    struct hearth_step_kind k;
    if (!b->has_ceilings) return EXIT_FINE;
    r->work.n = 0;
    while (hearth_engine_step_kind(b->engine, r->work.n, &k)) {
        if (r->work.n == MAX_KINDS) return fail("more than %d kinds of steps", MAX_KINDS);
        r->work.items[r->work.n++] = k;
    }
    int code = read_beside(b, t, r);
    return code ? code : multiply_beside(b, r);
}

static int time_prompts(struct bench *b, const struct test *t, bool timed, struct bench_result *r) {
    int code = begin_work(b, t, timed, r);
    double begin = now_s();
    for (size_t n_active = 1; n_active && !code;) code = step(b, &n_active);
    r->seconds = now_s() - begin;
    return code ? code : end_work(b, t, r);
}

// n passes, counted from when every sequence has its first token.
static int time_generation(struct bench *b, const struct test *t, const struct lane *lanes,
                           const size_t *n_started, bool timed, struct bench_result *r) {
    int code = EXIT_FINE;
    size_t n_active = 1;
    while (*n_started < t->seqs && n_active && !code) code = step(b, &n_active);
    if (!code) code = begin_work(b, t, timed, r);
    size_t before = lanes_tokens(lanes, t->seqs);
    double begin = now_s();
    for (uint32_t i = 0; i < t->n && n_active && !code; i++) code = step(b, &n_active);
    r->seconds = now_s() - begin;
    r->n_tokens = (double)(lanes_tokens(lanes, t->seqs) - before);
    return code ? code : end_work(b, t, r);
}

// Sequences ended before the last had generated what is to be measured.
static int no_place(const struct bench *b) {
    return fail_usage("a context of %u positions is too short: the first sequences fill it before "
                      "the last one has generated its tokens; a larger --ctx is needed",
                      (unsigned)hearth_engine_n_ctx(b->engine));
}

// Says what kept sequences from what was to be measured.
static int check_lanes(const struct bench *b, const struct lane *lanes, size_t n,
                       size_t n_started) {
    struct hearth_error err = {HEARTH_OK, ""};
    for (size_t i = 0; i < n; i++)
        if (hearth_request_error(lanes[i].request, &err)) return fail_error(&err);
    return n_started == n ? EXIT_FINE : no_place(b);
}

// Runs all sequences with prompts of n_prompt tokens; `timed`: each step as well.
static int run_lanes(struct bench *b, const struct test *t, uint32_t n_prompt, uint64_t seed,
                     bool timed, struct bench_result *r) {
    size_t n_started = 0;
    struct lane *lanes = calloc(t->seqs, sizeof(*lanes));
    int code = lanes ? EXIT_FINE : fail("out of memory");
    for (uint32_t i = 0; i < t->seqs && !code; i++) {
        lanes[i].n_started = &n_started;
        code = create_lane(b, n_prompt, t->generate, seed * 4099 + i, &lanes[i]);
    }
    if (!code) {
        code = t->generate ? time_generation(b, t, lanes, &n_started, timed, r)
                           : time_prompts(b, t, timed, r);
    }
    if (!code) code = check_lanes(b, lanes, t->seqs, n_started);
    if (!code && t->generate && r->n_tokens < (double)t->n * t->seqs) code = no_place(b);
    for (uint32_t i = 0; lanes && i < t->seqs; i++) hearth_request_destroy(lanes[i].request);
    free(lanes);
    return code;
}

// Takes from a what b did; times may have come out the other way round. Bytes are read once a pass,
// so the weights would drop out with the passes that both need: none are told.
static void subtract_work(struct kinds *a, const struct kinds *b) {
    for (size_t i = 0; i < a->n && i < b->n; i++) {
        struct hearth_step_kind *x = &a->items[i];
        const struct hearth_step_kind *y = &b->items[i];
        x->n_steps -= y->n_steps < x->n_steps ? y->n_steps : x->n_steps;
        x->ns -= y->ns < x->ns ? y->ns : x->ns;
        x->bytes = 0;
        x->macs = x->macs > y->macs ? x->macs - y->macs : 0;
        x->int8_load = x->int8_load > y->int8_load ? x->int8_load - y->int8_load : 0;
        x->i16_load = x->i16_load > y->i16_load ? x->i16_load - y->i16_load : 0;
        x->bf16_load = x->bf16_load > y->bf16_load ? x->bf16_load - y->bf16_load : 0;
        x->f32_load = x->f32_load > y->f32_load ? x->f32_load - y->f32_load : 0;
    }
}

int bench_run_once(struct bench *b, const struct test *t, uint64_t seed, bool timed,
                   struct bench_result *r) {
    struct bench_result deep = {.bare = true};
    *r = (struct bench_result){0};
    if (t->generate) return run_lanes(b, t, t->depth ? t->depth : 1, seed, timed, r);
    int code = run_lanes(b, t, t->depth + t->n, seed, timed, r);
    if (!code && t->depth) code = run_lanes(b, t, t->depth, seed, timed, &deep);
    r->n_tokens = (double)t->n * t->seqs;
    r->seconds -= deep.seconds;
    subtract_work(&r->work, &deep.work);
    return code;
}
