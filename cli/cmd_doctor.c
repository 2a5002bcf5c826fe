// SPDX-License-Identifier: MIT
// hearth doctor: what this machine is, what it can do, and whether every kernel that it can run
// computes what it should.
#include <inttypes.h>
#include <jansson.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "cli.h"

#define AT(field) offsetof(struct args, field)

enum { CEILING_MS = 60 }; // for each of seven measurements: a command to be had at once

static const struct option doctor_options[] = {
    {"--json", NULL, NULL, OPTION_FLAG, AT(json), 0, 0, NULL, NULL, "one JSON object"},
};
static const struct option_group doctor_group = {"Output", doctor_options, 1};
static const struct option_group *const doctor_groups[] = {&doctor_group, &group_processor};

enum { MAX_BAD = 32, TEXT = 256 };

struct checks {
    char level[32];   // the one that is being told of
    char levels[160]; // "avx2 31, avx512 31"
    size_t n_level, n, n_bad;
    char bad[MAX_BAD][TEXT]; // the first ones
};

struct doctor {
    const struct args *a;
    struct hearth_machine machine;
    struct hearth_build build;
    struct hearth_ceilings ceilings;
    struct hearth_error no_ceilings; // status OK: there are ceilings
    struct hearth_error no_checks;   // the same of the self-test
    struct checks checks;
};

// ---- finding out

static bool asks(const struct args *a) {
    return a->threads || a->cpu_mask || a->cpu_level;
}

static void end_level(struct checks *c) {
    size_t len = strlen(c->levels);
    if (c->n_level > 0) {
        snprintf(c->levels + len, sizeof(c->levels) - len, "%s%s %zu", len ? ", " : "", c->level,
                 c->n_level);
    }
    c->n_level = 0;
}

static void on_check(void *user, const struct hearth_check *check) {
    struct checks *c = user;
    if (strcmp(c->level, check->level) != 0) {
        end_level(c);
        snprintf(c->level, sizeof(c->level), "%s", check->level);
    }
    c->n_level++;
    c->n++;
    if (!check->ok && c->n_bad++ < MAX_BAD) {
        snprintf(c->bad[c->n_bad - 1], TEXT, "%s, %s: %s", check->level, check->kernel,
                 check->what);
    }
}

// An exit code: what was asked for may be refused.
static int examine(struct doctor *d) {
    struct hearth_engine_options o;
    size_t n_failed;
    hearth_machine_get(&d->machine);
    hearth_build_get(&d->build);
    engine_options(d->a, &o);
    enum hearth_status s = hearth_ceilings_measure(&o, CEILING_MS, &d->ceilings, &d->no_ceilings);
    if (!s) d->no_ceilings.status = HEARTH_OK;
    if ((s == HEARTH_E_ARG || s == HEARTH_E_UNSUPPORTED) && asks(d->a)) {
        return fail_error(&d->no_ceilings);
    }
    if (!hearth_self_test(on_check, &d->checks, &n_failed, &d->no_checks)) {
        d->no_checks.status = HEARTH_OK;
    }
    end_level(&d->checks);
    return EXIT_FINE;
}

static bool is_well(const struct doctor *d) {
    // Too little memory to measure how fast it is read says nothing against the machine.
    bool measured = !d->no_ceilings.status || d->no_ceilings.status == HEARTH_E_NOMEM;
    return measured && !d->no_checks.status && d->checks.n_bad == 0;
}

// "2: the fast cores (CPUs online 4, ...)": those that a run takes by itself.
static void explain_threads(const struct hearth_machine *m, char *buf, size_t n) {
    const char *why = m->n_quota && m->n_quota < m->n_fast ? "the CPU quota"
                      : m->n_fast < m->n_cores             ? "the fast cores"
                      : m->n_cores < m->n_affinity         ? "the cores"
                                                           : "the CPUs";
    char quota[48] = "no quota";
    if (m->n_quota) snprintf(quota, sizeof(quota), "quota %d", m->n_quota);
    snprintf(buf, n, "%d: %s (CPUs online %d, for us %d; cores %d, of them fast %d; %s)",
             m->n_threads, why, m->n_online, m->n_affinity, m->n_cores, m->n_fast, quota);
}

static const char *explain_huge_pages(const char *state) {
    if (strcmp(state, "always") == 0) return "always: large buffers get them";
    if (strcmp(state, "madvise") == 0) return "madvise: large buffers ask for them, and get them";
    if (strcmp(state, "never") == 0) return "never: reading memory will be slower than it could be";
    return state[0] ? state : "not known";
}

// ---- the page

static void print_memory(const struct hearth_machine *m) {
    char total[32], available[32], limit[32];
    if (m->memory_total) {
        printf("memory       %s, %s available, ", format_bytes(total, m->memory_total),
               format_bytes(available, m->memory_available));
    } else {
        fputs("memory       how much is not known, ", stdout);
    }
    if (m->memory_limit) {
        printf("control groups allow %s\n", format_bytes(limit, m->memory_limit));
    } else {
        puts("no limit by control groups");
    }
}

static void print_build(const struct hearth_build *b) {
    char bytes[32];
    printf("build        hearth %s, %s; PCRE2 %s (%s), utf8proc %s, Jansson %s\n", hearth_version(),
           b->compiler, b->pcre2, b->pcre2_jit ? "with JIT" : "no JIT", b->utf8proc,
           JANSSON_VERSION);
    printf("built-in     %s\n",
           b->builtin_bytes ? format_bytes(bytes, b->builtin_bytes) : "no model: left out");
}

// "asked for    --threads 1 --cpu-level avx2": what the ceilings are of, where it was given.
static void print_asked(const struct args *a) {
    if (!asks(a)) return;
    fputs("asked for   ", stdout);
    if (a->threads) printf(" --threads %d", (int)a->threads);
    if (a->cpu_mask) printf(" --cpu-mask %s", a->cpu_mask);
    if (a->cpu_level) printf(" --cpu-level %s", a->cpu_level);
    putchar('\n');
}

static void print_ceilings(const struct doctor *d) {
    const struct hearth_ceilings *c = &d->ceilings;
    if (d->no_ceilings.status) {
        printf("ceilings     not measured: %s\n", d->no_ceilings.message);
        return;
    }
    print_asked(d->a);
    printf("ceilings     read %.1f GB/s; multiply-adds: int8 %.0f, i16 %.0f, bf16 %.0f, f32 %.0f "
           "GMAC/s\n",
           c->read_bytes_s / 1e9, c->int8_macs_s / 1e9, c->i16_macs_s / 1e9, c->bf16_macs_s / 1e9,
           c->f32_macs_s / 1e9);
    print_slowest_thread("cores        ", d->a, c);
}

static void print_checks(const struct doctor *d) {
    const struct checks *c = &d->checks;
    if (d->no_checks.status) {
        printf("kernels      not checked: %s\n", d->no_checks.message);
        return;
    }
    printf("kernels      %zu checked against scalar%s%s%s\n", c->n, c->n ? " (" : "", c->levels,
           c->n ? ")" : "");
    for (size_t i = 0; i < c->n_bad && i < MAX_BAD; i++) printf("  differs    %s\n", c->bad[i]);
    if (c->n_bad > MAX_BAD) printf("  and %zu more\n", c->n_bad - MAX_BAD);
}

static void print_page(const struct doctor *d) {
    char threads[200];
    const struct hearth_machine *m = &d->machine;
    explain_threads(m, threads, sizeof(threads));
    printf("CPU          %s\n", m->cpu[0] ? m->cpu : "not known");
    printf("level        %s (this machine runs %s)\n", m->level, m->levels);
    printf("threads      %s\n", threads);
    printf("huge pages   %s\n", explain_huge_pages(m->huge_pages));
    print_memory(m);
    print_build(&d->build);
    print_ceilings(d);
    print_checks(d);
    puts(is_well(d) ? "\nall is well" : "\nnot all is well");
}

// ---- JSON

static json_t *machine_json(const struct hearth_machine *m) {
    return json_pack("{s:s, s:s, s:s, s:i, s:i, s:i, s:i, s:i, s:i, s:s, s:I, s:I, s:I}", "cpu",
                     m->cpu, "level", m->level, "levels", m->levels, "threads", m->n_threads,
                     "cpus_online", m->n_online, "cpus_allowed", m->n_affinity, "cores", m->n_cores,
                     "fast_cores", m->n_fast, "quota", m->n_quota, "huge_pages", m->huge_pages,
                     "memory_total", (json_int_t)m->memory_total, "memory_available",
                     (json_int_t)m->memory_available, "memory_limit", (json_int_t)m->memory_limit);
}

static json_t *build_json(const struct hearth_build *b) {
    return json_pack("{s:s, s:s, s:s, s:b, s:s, s:s, s:I}", "version", hearth_version(), "compiler",
                     b->compiler, "pcre2", b->pcre2, "pcre2_jit", (int)b->pcre2_jit, "utf8proc",
                     b->utf8proc, "jansson", JANSSON_VERSION, "builtin_bytes",
                     (json_int_t)b->builtin_bytes);
}

static json_t *checks_json(const struct doctor *d) {
    const struct checks *c = &d->checks;
    json_t *bad = json_array();
    for (size_t i = 0; i < c->n_bad && i < MAX_BAD; i++) {
        json_array_append_new(bad, json_string(c->bad[i]));
    }
    json_t *o = json_pack("{s:I, s:I, s:o}", "checked", (json_int_t)c->n, "failed",
                          (json_int_t)c->n_bad, "differs", bad);
    if (d->no_checks.status) json_object_set_new(o, "error", json_string(d->no_checks.message));
    return o;
}

static json_t *ceilings_json(const struct doctor *d) {
    const struct hearth_ceilings *c = &d->ceilings;
    if (d->no_ceilings.status) return json_pack("{s:s}", "error", d->no_ceilings.message);
    return json_pack("{s:f, s:f, s:f, s:f, s:f, s:f}", "read_bytes_s", c->read_bytes_s,
                     "int8_macs_s", c->int8_macs_s, "i16_macs_s", c->i16_macs_s, "bf16_macs_s",
                     c->bf16_macs_s, "f32_macs_s", c->f32_macs_s, "slowest_thread",
                     c->slowest_thread);
}

// What the ceilings are of, where it was given.
static json_t *asked_json(const struct args *a) {
    json_t *o = json_object();
    if (a->threads) json_object_set_new(o, "threads", json_integer(a->threads));
    if (a->cpu_mask) json_object_set_new(o, "cpu_mask", json_string(a->cpu_mask));
    if (a->cpu_level) json_object_set_new(o, "cpu_level", json_string(a->cpu_level));
    return o;
}

static int print_json(const struct doctor *d) {
    json_t *o =
        json_pack("{s:b, s:o, s:o, s:o, s:o, s:o}", "ok", (int)is_well(d), "machine",
                  machine_json(&d->machine), "build", build_json(&d->build), "asked",
                  asked_json(d->a), "ceilings", ceilings_json(d), "kernels", checks_json(d));
    char *text = o ? json_dumps(o, JSON_INDENT(2)) : NULL;
    json_decref(o);
    if (!text) return fail("out of memory");
    puts(text);
    free(text);
    return EXIT_FINE;
}

static int run(const struct args *a) {
    struct doctor *d = calloc(1, sizeof(*d));
    if (!d) return fail("out of memory");
    d->a = a;
    int code = examine(d);
    if (code) {
        free(d);
        return code;
    }
    if (a->json) {
        code = print_json(d);
    } else {
        print_page(d);
    }
    if (!code && !is_well(d)) code = EXIT_RUN;
    if (!finish_stdout()) code = EXIT_RUN;
    free(d);
    return code;
}

const struct command command_doctor = {
    .name = "doctor",
    .operands = "",
    .summary = "say what this machine can do, and check every kernel",
    .text = "Prints the processor and its level, the threads that a run would take and why, huge "
            "pages, memory, the libraries that are in, and what this machine reads and multiplies "
            "in a second, with the threads, CPUs and level that are asked for. Then runs every "
            "kernel of every level that works here against the plain one, and says which differ. "
            "Takes one to two seconds, more where the system gives "
            "memory slowly. Exits with 0 only if all is well.",
    .groups = doctor_groups,
    .n_groups = sizeof(doctor_groups) / sizeof(doctor_groups[0]),
    .run = run,
};
