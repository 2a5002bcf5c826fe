// SPDX-License-Identifier: MIT
// hearth bench: how fast a model reads prompts and generates on this machine. Prompts are random
// tokens; a run is repeated, the median and the slowest and fastest repetition are printed.
#include <inttypes.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "cli.h"

#define AT(field) offsetof(struct args, field)

static const struct option bench_options[] = {
    {"--prompt", NULL, "N,..", OPTION_NUMBERS, AT(bench_prompt), 0, 1000000, NULL, "512",
     "lengths of prompts to read; 0: none"},
    {"--generate", NULL, "N,..", OPTION_NUMBERS, AT(bench_generate), 0, 1000000, NULL, "64",
     "numbers of tokens to generate; 0: none"},
    {"--depth", NULL, "N,..", OPTION_NUMBERS, AT(bench_depth), 0, 1000000, NULL, "0",
     "tokens that the sequence already holds"},
    {"--seqs", NULL, "N,..", OPTION_NUMBERS, AT(bench_seqs), 1, 4096, NULL, "1",
     "sequences at once; the speed is their sum"},
    {"--reps", NULL, "N", OPTION_INT, AT(reps), 1, 1000, NULL, NULL, "repetitions of each run"},
    {"--json", NULL, NULL, OPTION_FLAG, AT(json), 0, 0, NULL, NULL, "one JSON object"},
};
static const struct option_group bench_group = {"Runs", bench_options,
                                                sizeof(bench_options) / sizeof(bench_options[0])};
static const struct option_group *const bench_groups[] = {&bench_group, &group_engine,
                                                          &group_common};

struct bench {
    const struct args *a;
    const hearth_model *model;
    struct hearth_model_info info;
    hearth_engine *engine;
    double pass_bytes; // of weights that a pass of one token reads
    struct interrupt interrupt;
    struct progress progress;
    int n_printed;
};

struct test { // one row of the table
    bool generate;
    uint32_t n, depth, seqs;
    double best, median, worst; // tokens a second
    double bytes_s;             // read from weights and KV, at the median; 0: not said
};

// ---- one repetition

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

// Queues a prompt of n random tokens; it goes on without end where `generate`.
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
    o.max_tokens = generate ? -1 : 0;
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

// Seconds until all prompts are read.
static int time_prompts(struct bench *b, double *seconds) {
    int code = EXIT_FINE;
    double begin = now_s();
    for (size_t n_active = 1; n_active && !code;) code = step(b, &n_active);
    *seconds = now_s() - begin;
    return code;
}

// Tokens a second over n passes, counted from when every sequence has its first token.
static int time_generation(struct bench *b, const struct test *t, const struct lane *lanes,
                           const size_t *n_started, double *rate) {
    int code = EXIT_FINE;
    size_t n_active = 1;
    while (*n_started < t->seqs && n_active && !code) code = step(b, &n_active);
    size_t before = lanes_tokens(lanes, t->seqs);
    double begin = now_s();
    for (uint32_t i = 0; i < t->n && n_active && !code; i++) code = step(b, &n_active);
    double took = now_s() - begin;
    *rate = took > 0 ? (double)(lanes_tokens(lanes, t->seqs) - before) / took : 0;
    return code;
}

// Runs all sequences with prompts of n_prompt tokens. *result: seconds for prompts, tokens a second
// for generation.
static int run_lanes(struct bench *b, const struct test *t, uint32_t n_prompt, uint64_t seed,
                     double *result) {
    size_t n_started = 0;
    struct lane *lanes = calloc(t->seqs, sizeof(*lanes));
    int code = lanes ? EXIT_FINE : fail("out of memory");
    for (uint32_t i = 0; i < t->seqs && !code; i++) {
        lanes[i].n_started = &n_started;
        code = create_lane(b, n_prompt, t->generate, seed * 4099 + i, &lanes[i]);
    }
    if (!code) {
        code = t->generate ? time_generation(b, t, lanes, &n_started, result)
                           : time_prompts(b, result);
    }
    for (uint32_t i = 0; lanes && i < t->seqs; i++) hearth_request_destroy(lanes[i].request);
    free(lanes);
    return code;
}

// A prompt behind a depth takes what both take together less what the depth takes alone.
static int run_once(struct bench *b, const struct test *t, uint64_t seed, double *rate) {
    double all, deep = 0;
    if (t->generate) return run_lanes(b, t, t->depth ? t->depth : 1, seed, rate);
    int code = run_lanes(b, t, t->depth + t->n, seed, &all);
    if (!code && t->depth) code = run_lanes(b, t, t->depth, seed, &deep);
    *rate = all > deep ? (double)t->n * t->seqs / (all - deep) : 0;
    return code;
}

// ---- one row

static int compare_doubles(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

// Bytes of keys and values of one position.
static double kv_bytes(const struct bench *b) {
    double width = strcmp(b->a->kv_type, "f32") == 0 ? 4 : 2;
    return 2 * width * b->info.n_layers * b->info.n_kv_heads * b->info.head_dim;
}

static int run_test(struct bench *b, struct test *t) {
    size_t n = (size_t)b->a->reps;
    double *rates = calloc(n, sizeof(*rates));
    if (!rates) return fail("out of memory");
    int code = EXIT_FINE;
    for (size_t i = 0; i < n && !code; i++) code = run_once(b, t, i + 1, &rates[i]);
    if (!code) {
        qsort(rates, n, sizeof(*rates), compare_doubles);
        t->worst = rates[0];
        t->best = rates[n - 1];
        t->median = n % 2 ? rates[n / 2] : (rates[n / 2 - 1] + rates[n / 2]) / 2;
        double positions = (t->depth ? t->depth : 1) + t->n / 2.0;
        if (t->generate) { // a pass reads the weights once for all sequences, and the KV of each
            t->bytes_s = t->median / t->seqs * (b->pass_bytes + t->seqs * positions * kv_bytes(b));
        }
    }
    free(rates);
    return code;
}

// Weights that a pass of one token reads: all, but one row only of an embedding table that is not
// the output as well, and of experts those in use.
static double weight_bytes(const struct bench *b) {
    const hearth_file *f = hearth_model_file(b->model);
    double sum = 0, embedding = 0;
    bool has_output = false;
    for (size_t i = 0; i < hearth_file_n_tensors(f); i++) {
        struct hearth_tensor_info t;
        hearth_file_tensor(f, i, &t);
        double n = (double)t.n_bytes;
        if (strstr(t.name, "_exps.") && b->info.n_experts) {
            n = n * b->info.n_experts_used / b->info.n_experts;
        }
        if (strcmp(t.name, "output.weight") == 0) has_output = true;
        bool is_table =
            strcmp(t.name, "token_embd.weight") == 0 || strcmp(t.name, "position_embd.weight") == 0;
        if (strcmp(t.name, "token_embd.weight") == 0) embedding = n;
        if (!is_table) sum += n;
    }
    return has_output ? sum : sum + embedding;
}

// ---- output

static void print_head(struct bench *b) {
    char params[32], bytes[32];
    printf("%s: %s, %s parameters, %s\n", model_label(b->a), b->info.arch,
           format_count(params, b->info.n_params), format_bytes(bytes, b->info.weight_bytes));
    printf("%s, KV %s, %d repetitions\n\n", hearth_engine_device(b->engine), b->a->kv_type,
           (int)b->a->reps);
    printf("%-16s %6s %6s %10s  %19s %8s\n", "", "seqs", "depth", "tokens/s", "slowest - fastest",
           "GB/s");
}

static void print_row(const struct test *t) {
    char name[32], spread[40], rate[16] = "";
    snprintf(name, sizeof(name), "%s %u", t->generate ? "generate" : "prompt", t->n);
    snprintf(spread, sizeof(spread), "%.1f - %.1f", t->worst, t->best);
    if (t->bytes_s > 0) snprintf(rate, sizeof(rate), "%.1f", t->bytes_s / 1e9);
    printf("%-16s %6u %6u %10.1f  %19s %8s\n", name, t->seqs, t->depth, t->median, spread, rate);
    fflush(stdout);
}

static void json_head(struct bench *b) {
    printf("{\n  \"model\": ");
    json_print_text(stdout, model_label(b->a), strlen(model_label(b->a)));
    printf(",\n  \"arch\": \"%s\",\n  \"params\": %" PRIu64 ",\n  \"weight_bytes\": %" PRIu64,
           b->info.arch, b->info.n_params, b->info.weight_bytes);
    printf(",\n  \"pass_bytes\": %.0f,\n  \"device\": ", b->pass_bytes);
    json_print_text(stdout, hearth_engine_device(b->engine),
                    strlen(hearth_engine_device(b->engine)));
    printf(",\n  \"kv_type\": \"%s\",\n  \"reps\": %d,\n  \"runs\": [", b->a->kv_type,
           (int)b->a->reps);
}

static void json_row(const struct bench *b, const struct test *t) {
    printf("%s\n    {\"kind\": \"%s\", \"n\": %u, \"depth\": %u, \"seqs\": %u, "
           "\"tokens_s\": %.4f, \"slowest\": %.4f, \"fastest\": %.4f",
           b->n_printed ? "," : "", t->generate ? "generate" : "prompt", t->n, t->depth, t->seqs,
           t->median, t->worst, t->best);
    if (t->bytes_s > 0) printf(", \"bytes_s\": %.0f", t->bytes_s);
    putchar('}');
}

// ---- the command

static const struct numbers *or_default(const struct numbers *given, const struct numbers *def) {
    return given->n ? given : def;
}

static uint32_t largest(const struct numbers *list) {
    int64_t max = 0;
    for (size_t i = 0; i < list->n; i++) {
        if (list->items[i] > max) max = list->items[i];
    }
    return (uint32_t)max;
}

struct lists {
    const struct numbers *prompt, *generate, *depth, *seqs;
};

static int run_row(struct bench *b, bool generate, int64_t n, int64_t depth, int64_t seqs) {
    struct test t = {
        .generate = generate, .n = (uint32_t)n, .depth = (uint32_t)depth, .seqs = (uint32_t)seqs};
    if (n == 0) return EXIT_FINE;
    progress_begin(&b->progress, generate ? "generating" : "reading prompts", "");
    int code = run_test(b, &t);
    progress_end(&b->progress);
    if (code) return code;
    if (b->a->json) {
        json_row(b, &t);
    } else {
        print_row(&t);
    }
    b->n_printed++;
    return EXIT_FINE;
}

// Touches every weight once, so that the first repetition does not wait for the disk.
static int warm_up(struct bench *b) {
    struct test t = {.generate = true, .n = 1, .seqs = 1};
    double rate;
    return run_once(b, &t, 0, &rate);
}

static int run_rows(struct bench *b, const struct lists *l, int64_t seqs) {
    int code = warm_up(b);
    for (size_t d = 0; d < l->depth->n && !code; d++) {
        int64_t depth = l->depth->items[d];
        for (size_t i = 0; i < l->prompt->n && !code; i++) {
            code = run_row(b, false, l->prompt->items[i], depth, seqs);
        }
        for (size_t i = 0; i < l->generate->n && !code; i++) {
            code = run_row(b, true, l->generate->items[i], depth, seqs);
        }
    }
    return code;
}

static int run_seqs(struct bench *b, const struct lists *l, int64_t seqs, bool first) {
    struct hearth_engine_options o;
    uint32_t depth = largest(l->depth), most = largest(l->prompt), more = largest(l->generate);
    engine_options(b->a, &o);
    o.n_seqs = (uint32_t)seqs;
    // The first sequences generate while the last ones still read their depth.
    more += 4 + (uint32_t)((uint64_t)seqs * (depth + 1) / o.n_batch) * 2;
    if (!o.n_ctx) o.n_ctx = depth + (most > more ? most : more);
    int code = create_engine(b->model, &o, &b->engine);
    if (code) return code;
    if (first) {
        if (b->a->json) {
            json_head(b);
        } else {
            print_head(b);
        }
    }
    code = run_rows(b, l, seqs);
    hearth_engine_destroy(b->engine);
    b->engine = NULL;
    return code;
}

static int bench_model(struct bench *b, const struct lists *l) {
    int code = EXIT_FINE;
    hearth_model_get_info(b->model, &b->info);
    b->pass_bytes = weight_bytes(b);
    interrupt_begin(&b->interrupt);
    for (size_t i = 0; i < l->seqs->n && !code; i++) {
        code = run_seqs(b, l, l->seqs->items[i], i == 0);
    }
    interrupt_end(&b->interrupt);
    if (b->a->json && !code) puts("\n  ]\n}");
    return code;
}

static int run(const struct args *a) {
    struct bench b = {.a = a};
    struct numbers n512 = {(int64_t[]){512}, 1}, n64 = {(int64_t[]){64}, 1},
                   n0 = {(int64_t[]){0}, 1}, n1 = {(int64_t[]){1}, 1};
    struct lists l = {or_default(&a->bench_prompt, &n512), or_default(&a->bench_generate, &n64),
                      or_default(&a->bench_depth, &n0), or_default(&a->bench_seqs, &n1)};
    hearth_model *m = NULL;
    int code = open_model(a, &m);
    b.model = m;
    if (!code) code = bench_model(&b, &l);
    if (!finish_stdout()) code = EXIT_RUN;
    hearth_model_close(m);
    return code;
}

const struct command command_bench = {
    .name = "bench",
    .operands = "[MODEL]",
    .n_operands_max = 1,
    .summary = "measure how fast a model runs on this machine",
    .text = "Measures how fast prompts are read and tokens are generated, with random tokens. "
            "Each run is repeated; the median of its tokens a second is printed, the slowest and "
            "the fastest repetition, and for generation the bytes of weights, keys and values "
            "read in a second. Every combination of the lists is run.",
    .groups = bench_groups,
    .n_groups = sizeof(bench_groups) / sizeof(bench_groups[0]),
    .run = run,
};
