// SPDX-License-Identifier: MIT
// Two or more versions of libhearth beside each other in one process: they take turns over the same
// model, so that what the machine does to one it does to the other. Good to one per cent, where two
// programs after each other are good to five. Not part of the program:
//   ninja -C build bench_turns
//   build/bench/bench_turns MODEL.gguf prompt|generate|seqs N[xDEPTH] SECONDS [+]LIB.so[@LEVEL]...
// prompt: a turn is a whole prompt of N tokens. generate: a turn is one token, behind N others.
// seqs: a turn is a token of each of N sequences, behind DEPTH (128) others. "+" in front of a
// library repacks the weights, "@avx2" behind it caps the CPU level. Each line: the median of all
// turns in ms, and the median over all rounds of a turn's time by that of the first library in the
// same round. A copy of the first library as another one shows what chance makes of it.
#include <dlfcn.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "hearth/hearth.h"

enum { MAX_LIBS = 16, SEQS_DEPTH = 128, RUN = 32, MAX_SEQS = 256, MAX_DEPTH = 1 << 20 };

// What is used of a library.
#define CALLS(X)                                                                                   \
    X(hearth_model_open)                                                                           \
    X(hearth_model_close)                                                                          \
    X(hearth_model_get_info)                                                                       \
    X(hearth_engine_options_default)                                                               \
    X(hearth_engine_create)                                                                        \
    X(hearth_engine_destroy)                                                                       \
    X(hearth_engine_step)                                                                          \
    X(hearth_request_options_default)                                                              \
    X(hearth_request_create)                                                                       \
    X(hearth_request_destroy)

struct lib {
    const char *path, *level; // of the CPU; NULL: the best
    bool repack;
#define CALL_FIELD(name) __typeof__(&name) name;
    CALLS(CALL_FIELD)
#undef CALL_FIELD
    hearth_model *model;
    hearth_engine *engine;
    hearth_request *requests[MAX_SEQS];
    size_t n_tokens[MAX_SEQS]; // that each has generated
    double *ms;                // of each round
};

struct job {
    bool generate;    // else a prompt
    size_t n_seqs, n; // sequences, and tokens of each one's prompt
    struct lib libs[MAX_LIBS];
    size_t n_libs, n_rounds, cap_rounds;
};

static double now_ms(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e3 + (double)t.tv_nsec * 1e-6;
}

_Noreturn static void stop(const char *what, const char *why) {
    fprintf(stderr, "bench_turns: %s: %s\n", what, why);
    exit(1);
}

static void check(const struct lib *l, enum hearth_status s, const struct hearth_error *err) {
    if (s) stop(l->path, err->message);
}

static void load(struct lib *l, const char *model, const struct job *j) {
    struct hearth_engine_options o;
    struct hearth_error err;
    char path[4096]; // a name alone would be looked for elsewhere
    snprintf(path, sizeof path, "%s%s", strchr(l->path, '/') ? "" : "./", l->path);
    void *so = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!so) stop(l->path, dlerror());
#define CALL_FIND(name)                                                                            \
    *(void **)&l->name = dlsym(so, #name);                                                         \
    if (!l->name) stop(l->path, #name " is missing");
    CALLS(CALL_FIND)
#undef CALL_FIND
    check(l, l->hearth_model_open(model, NULL, &l->model, &err), &err);
    l->hearth_engine_options_default(&o);
    o.repack = l->repack;
    o.cpu_level = l->level;
    o.prefault = true;
    o.n_seqs = (uint32_t)j->n_seqs;
    o.n_ctx = (uint32_t)(j->n + RUN + 8);
    check(l, l->hearth_engine_create(l->model, &o, &l->engine, &err), &err);
}

static bool on_event(void *user, const struct hearth_event *e) {
    if (e->token >= 0) ++*(size_t *)user;
    return true;
}

// Queues the sequences; where they generate, reads their prompts.
static void begin(struct lib *l, const struct job *j, size_t round) {
    struct hearth_request_options o;
    struct hearth_model_info info;
    struct hearth_error err;
    size_t active = 1, started = 0;
    int32_t *tokens = malloc(j->n * sizeof(*tokens));
    if (!tokens) stop(l->path, "out of memory");
    l->hearth_model_get_info(l->model, &info);
    l->hearth_request_options_default(&o);
    o.sampling.temperature = 0;
    o.max_tokens = j->generate ? -1 : 1;
    o.ignore_end = true;
    o.on_event = on_event;
    for (size_t s = 0; s < j->n_seqs; s++) {
        for (size_t i = 0; i < j->n; i++)
            tokens[i] = (int32_t)((round * 7919 + s * 131 + i * i * 31 + i) % info.n_vocab);
        l->n_tokens[s] = 0;
        o.user = &l->n_tokens[s];
        check(l, l->hearth_request_create(l->engine, tokens, j->n, &o, &l->requests[s], &err),
              &err);
    }
    free(tokens);
    while (j->generate && started < j->n_seqs) {
        check(l, l->hearth_engine_step(l->engine, &active, &err), &err);
        started = 0;
        for (size_t s = 0; s < j->n_seqs; s++) started += l->n_tokens[s] > 0;
    }
}

static void end(struct lib *l, const struct job *j) {
    for (size_t s = 0; s < j->n_seqs; s++) l->hearth_request_destroy(l->requests[s]);
}

// One turn of a library that has begun: ms.
static double turn(struct lib *l, const struct job *j) {
    struct hearth_error err;
    size_t active = 1;
    double from = now_ms();
    do check(l, l->hearth_engine_step(l->engine, &active, &err), &err);
    while (!j->generate && active > 0);
    return now_ms() - from;
}

static void round_of(struct job *j) {
    if (j->n_rounds == j->cap_rounds) {
        j->cap_rounds = j->cap_rounds ? 2 * j->cap_rounds : 1024;
        for (size_t i = 0; i < j->n_libs; i++) {
            j->libs[i].ms = realloc(j->libs[i].ms, j->cap_rounds * sizeof(double));
            if (!j->libs[i].ms) stop("rounds", "out of memory");
        }
    }
    // The other way round every second time, so that none always follows the same one.
    for (size_t i = 0; i < j->n_libs; i++) {
        size_t k = j->n_rounds % 2 ? j->n_libs - 1 - i : i;
        j->libs[k].ms[j->n_rounds] = turn(&j->libs[k], j);
    }
    j->n_rounds++;
}

// Rounds until so many ms are over; the first of each kind is not counted.
static void run(struct job *j, double ms) {
    double until = now_ms() + ms;
    for (size_t r = 0; now_ms() < until; r++) {
        size_t n = j->generate ? RUN : 1;
        for (size_t i = 0; i < j->n_libs; i++) begin(&j->libs[i], j, r);
        for (size_t i = 0; i < n; i++) round_of(j);
        for (size_t i = 0; i < j->n_libs; i++) end(&j->libs[i], j);
        if (r == 0) j->n_rounds = 0;
    }
}

static int compare(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

// Sorts the n values.
static double median(double *v, size_t n) {
    qsort(v, n, sizeof(*v), compare);
    return n % 2 ? v[n / 2] : (v[n / 2 - 1] + v[n / 2]) / 2;
}

static void print(const struct job *j) {
    size_t n = j->n_rounds;
    double *v = malloc((n + 1) * sizeof(*v));
    if (!v || n == 0) stop("rounds", "none counted: the time ended in the first one");
    printf("%zu rounds\n", n);
    for (size_t i = 0; i < j->n_libs; i++) {
        const struct lib *l = &j->libs[i];
        memcpy(v, l->ms, n * sizeof(*v));
        double ms = median(v, n);
        for (size_t r = 0; r < n; r++) v[r] = l->ms[r] / j->libs[0].ms[r];
        printf("%9.3f ms  %.4f  %s%s %s\n", ms, median(v, n), l->repack ? "+" : "", l->path,
               l->level ? l->level : "");
    }
    free(v);
}

int main(int argc, char **argv) {
    static struct job j;
    char *rest = NULL;
    size_t depth = SEQS_DEPTH, n = argc > 3 ? strtoul(argv[3], &rest, 10) : 0;
    bool seqs = argc > 2 && strcmp(argv[2], "seqs") == 0;
    bool prompt = argc > 2 && strcmp(argv[2], "prompt") == 0;
    if (seqs && rest && *rest == 'x') depth = strtoul(rest + 1, &rest, 10);
    if (argc < 6 || argc > 5 + MAX_LIBS || n == 0 || n > MAX_DEPTH || *rest != '\0' ||
        (seqs && (n > MAX_SEQS || depth == 0 || depth > MAX_DEPTH)) ||
        (!seqs && !prompt && strcmp(argv[2], "generate") != 0))
        stop("usage", "MODEL.gguf prompt|generate|seqs N[xDEPTH] SECONDS [+]LIB.so[@LEVEL]...");
    j.generate = !prompt;
    j.n_seqs = seqs ? n : 1;
    j.n = seqs ? depth : n;
    for (int i = 5; i < argc; i++) {
        struct lib *l = &j.libs[j.n_libs++];
        l->repack = argv[i][0] == '+';
        l->path = argv[i] + l->repack;
        char *at = strchr(argv[i], '@');
        if (at) *at = '\0', l->level = at + 1;
        load(l, argv[1], &j);
    }
    run(&j, strtod(argv[4], NULL) * 1e3);
    print(&j);
    for (size_t i = 0; i < j.n_libs; i++) {
        j.libs[i].hearth_engine_destroy(j.libs[i].engine);
        j.libs[i].hearth_model_close(j.libs[i].model);
        free(j.libs[i].ms);
    }
    return 0;
}
