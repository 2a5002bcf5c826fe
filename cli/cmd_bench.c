// SPDX-License-Identifier: MIT
// hearth bench: how fast a model reads prompts and generates on this machine. Prompts are random
// tokens; a run is repeated, the median and the slowest and fastest repetition are printed.
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "bench.h"

#define AT(field) offsetof(struct args, field)

enum {
    CEILING_MS = 300, // for each of seven measurements
    FEW_TOKENS = 16,  // a prompt of more multiplies longer than it reads
};
// The memory that the ceilings were measured in is given back, and a virtual machine hands it on to
// its host: for so long after it was measured the processors have that to do, too.
#define SETTLE_S 3.0

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
    {"--steps", NULL, NULL, OPTION_FLAG, AT(steps), 0, 0, NULL, NULL,
     "run each once more and say where its time goes, by kind of step"},
    {"--json", NULL, NULL, OPTION_FLAG, AT(json), 0, 0, NULL, NULL, "one JSON object"},
};
static const struct option_group bench_group = {"Runs", bench_options,
                                                sizeof(bench_options) / sizeof(bench_options[0])};
static const struct option_group *const bench_groups[] = {
    &bench_group, &group_engine, &group_processor, &group_file, &group_common};

// ---- one row

struct repetition {
    double tokens_s, read_share, ceiling_share; // 0: not known
    struct hearth_ceilings beside;
};

static int compare_doubles(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

static struct repetition repetition_of(const struct bench_result *r) {
    struct repetition x = {.beside = r->beside};
    double bytes = 0, compute_s = 0;
    if (r->seconds <= 0) return x;
    x.tokens_s = r->n_tokens / r->seconds;
    if (r->beside.read_bytes_s <= 0) return x;
    for (size_t i = 0; i < r->work.n; i++) {
        bytes += r->work.items[i].bytes;
        compute_s += hearth_ceilings_seconds(&r->beside, &r->work.items[i]);
    }
    x.read_share = bytes / r->seconds / r->beside.read_bytes_s;
    x.ceiling_share = compute_s / r->seconds;
    return x;
}

// Of the field at `at`; sorted: its n values, in ascending order then.
static double median(const struct repetition *r, size_t n, size_t at, double *sorted) {
    for (size_t i = 0; i < n; i++) memcpy(&sorted[i], (const char *)&r[i] + at, sizeof(sorted[i]));
    qsort(sorted, n, sizeof(*sorted), compare_doubles);
    return n % 2 ? sorted[n / 2] : (sorted[n / 2 - 1] + sorted[n / 2]) / 2;
}

// sorted: place for n numbers.
static void set_medians(const struct repetition *r, size_t n, double *sorted, struct test *t) {
#define MEDIAN(field) median(r, n, offsetof(struct repetition, field), sorted)
    t->read_share = MEDIAN(read_share);
    t->ceiling_share = MEDIAN(ceiling_share);
    t->beside.read_bytes_s = MEDIAN(beside.read_bytes_s);
    t->beside.int8_macs_s = MEDIAN(beside.int8_macs_s);
    t->beside.i16_macs_s = MEDIAN(beside.i16_macs_s);
    t->beside.bf16_macs_s = MEDIAN(beside.bf16_macs_s);
    t->beside.f32_macs_s = MEDIAN(beside.f32_macs_s);
    t->beside.slowest_thread = MEDIAN(beside.slowest_thread);
    t->median = MEDIAN(tokens_s);
#undef MEDIAN
    t->worst = sorted[0];
    t->best = sorted[n - 1];
}

static void set_work(const struct bench_result *r, struct test *t) {
    t->bytes = t->macs = 0;
    for (size_t i = 0; i < r->work.n && r->n_tokens > 0; i++) {
        t->bytes += r->work.items[i].bytes / r->n_tokens;
        t->macs += r->work.items[i].macs / r->n_tokens;
    }
}

static int run_test(struct bench *b, struct test *t) {
    size_t n = (size_t)b->a->reps;
    struct bench_result r = {0};
    struct repetition *reps = calloc(n, sizeof(*reps));
    double *sorted = calloc(n, sizeof(*sorted));
    int code = reps && sorted ? EXIT_FINE : fail("out of memory");
    for (size_t i = 0; i < n && !code; i++) {
        code = bench_run_once(b, t, i + 1, false, &r);
        reps[i] = repetition_of(&r);
    }
    if (!code) {
        set_medians(reps, n, sorted, t);
        set_work(&r, t);
        if (b->a->steps) code = bench_run_once(b, t, n + 1, true, &r);
        if (b->a->steps) t->steps = r.work;
        if (b->a->steps) t->steps_beside = r.beside;
    }
    free(reps);
    free(sorted);
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
    t.reads = b->has_ceilings && (generate || (n + depth) * seqs <= FEW_TOKENS);
    progress_begin(&b->progress, generate ? "generating" : "reading prompts", "");
    int code = run_test(b, &t);
    progress_end(&b->progress);
    if (!code) bench_print_row(b, &t);
    return code;
}

#define WARM_UP_CTX 3 // positions: a token, the one behind it, and that one's

// Touches every weight once, so that the first repetition does not wait for the disk, and goes on
// until nothing else is left of what came before. (Where it slept instead, prompts were read 3 to
// 6 % more slowly: Emerald Rapids, 2026-11-29.)
static int warm_up(struct bench *b) {
    struct test t = {.generate = true, .n = 1, .seqs = 1};
    struct bench_result r;
    int code;
    bool settles = now_s() < b->settled_s;
    progress_begin(&b->progress, settles ? "waiting for the system to settle" : "warming up", "");
    do code = bench_run_once(b, &t, 0, false, &r);
    while (!code && now_s() < b->settled_s);
    progress_end(&b->progress);
    return code;
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

static int measure_ceilings(struct bench *b, const struct hearth_engine_options *o) {
    struct hearth_error err = {HEARTH_OK, ""};
    progress_begin(&b->progress, "measuring this machine", "");
    enum hearth_status s = hearth_ceilings_measure(o, CEILING_MS, &b->ceilings, &err);
    if (!s) s = hearth_engine_read_speed(b->engine, CEILING_MS, &b->weights_bytes_s, &err);
    progress_end(&b->progress);
    b->has_ceilings = !s;
    if (b->has_ceilings) b->settled_s = now_s() + SETTLE_S;
    if (s == HEARTH_OK) return EXIT_FINE;
    if (b->a->steps && s == HEARTH_E_UNSUPPORTED)
        return fail("--steps goes by ceilings: %s", err.message);
    if (b->a->steps || (s != HEARTH_E_UNSUPPORTED && s != HEARTH_E_NOMEM)) return fail_error(&err);
    note("no shares of ceilings: %s", err.message);
    return EXIT_FINE;
}

// Of --ctx, for the longest of what is to be run; `enough` is what is taken by itself.
static int no_place(uint32_t n_ctx, uint64_t enough, uint32_t prompt, uint32_t generate,
                    uint32_t depth) {
    char what[96] = "";
    if (prompt) snprintf(what, sizeof(what), " --prompt %u", prompt);
    size_t at = strlen(what);
    if (generate) snprintf(what + at, sizeof(what) - at, " --generate %u", generate);
    at = strlen(what);
    if (depth) snprintf(what + at, sizeof(what) - at, " --depth %u", depth);
    return fail_usage(
        "--ctx %u is too short for%s; --ctx %llu would do (0 of either leaves it out)", n_ctx, what,
        (unsigned long long)enough);
}

// What an engine for so many sequences is to be. Refuses what it could not be.
static int choose_options(struct bench *b, const struct lists *l, int64_t seqs,
                          struct hearth_engine_options *o) {
    struct hearth_memory memory;
    struct hearth_error err = {HEARTH_OK, ""};
    uint32_t depth = largest(l->depth), most = largest(l->prompt), n = largest(l->generate);
    engine_options(b->a, o);
    o->n_seqs = (uint32_t)seqs;
    o->prefault = true; // what is measured is passes, not the system that hands out memory
    // The first sequences generate while the last ones still read their depth.
    uint64_t more = n + 4 + (uint64_t)seqs * (depth + 1) / o->n_batch * 2;
    uint64_t n_ctx = depth + (most + 1 > more ? most + 1 : more);
    if (!o->n_ctx) o->n_ctx = n_ctx < UINT32_MAX ? (uint32_t)n_ctx : UINT32_MAX;
    uint64_t before = depth ? depth : 1; // no sequence begins with nothing to generate
    if ((most && o->n_ctx <= (uint64_t)depth + most) || (n && o->n_ctx <= before + n))
        return no_place(o->n_ctx, n_ctx, most, n, depth);
    if (o->n_ctx < WARM_UP_CTX) o->n_ctx = WARM_UP_CTX;
    if (hearth_memory_plan(b->model, o, &memory, &err)) return fail_error(&err);
    if (o->repack) b->repacked_bytes = memory.packed;
    if (memory.total <= memory.available) return EXIT_FINE;
    hearth_engine *none = NULL; // says what would fit
    int code = create_engine(b->model, o, &none);
    hearth_engine_destroy(none);
    return code;
}

static int run_seqs(struct bench *b, const struct lists *l, const struct hearth_engine_options *o,
                    bool first) {
    int code = create_engine(b->model, o, &b->engine);
    if (code) return code;
    if (first) code = measure_ceilings(b, o);
    if (first && !code) bench_print_head(b);
    if (!code) code = run_rows(b, l, o->n_seqs);
    hearth_engine_destroy(b->engine);
    b->engine = NULL;
    return code;
}

static int bench_model(struct bench *b, const struct lists *l) {
    size_t n = l->seqs->n;
    if (largest(l->prompt) == 0 && largest(l->generate) == 0)
        return fail_usage("--prompt 0 and --generate 0 leave nothing to measure");
    hearth_model_get_info(b->model, &b->info);
    b->pass_bytes = weight_bytes(b);
    struct hearth_engine_options *o = calloc(n, sizeof(*o));
    int code = o ? EXIT_FINE : fail("out of memory");
    // All of them, before minutes are spent on the first.
    for (size_t i = 0; i < n && !code; i++) code = choose_options(b, l, l->seqs->items[i], &o[i]);
    if (!code) {
        interrupt_begin(&b->interrupt);
        for (size_t i = 0; i < n && !code; i++) code = run_seqs(b, l, &o[i], i == 0);
        interrupt_end(&b->interrupt);
        if (b->has_begun) bench_print_end(b, !code);
    }
    free(o);
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
            "the fastest repetition, the bytes of weights, keys and values read in a second and "
            "the multiply-adds, each with its share of what the same number of threads can do on "
            "this machine, which is measured before and after each repetition: multiplying, and "
            "reading the weights (for prompts of more than 16 tokens that is measured first). "
            "Every combination of the lists is run. Without MODEL the built-in model is used.",
    .groups = bench_groups,
    .n_groups = sizeof(bench_groups) / sizeof(bench_groups[0]),
    .run = run,
};
