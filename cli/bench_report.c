// SPDX-License-Identifier: MIT
// What hearth bench prints: a table, or one JSON object.
#include <inttypes.h>
#include <string.h>

#include "bench.h"

// ---- shares

static double sum_ns(const struct kinds *k) {
    double sum = 0;
    for (size_t i = 0; i < k->n; i++) sum += (double)k->items[i].ns;
    return sum;
}

// " 27.4    80 %", twice: bytes, then multiply-adds, blank where there are none.
static void print_rates(double bytes_s, double read, double macs_s, double compute) {
    if (bytes_s > 0) {
        printf(" %8.1f %5.0f %%", bytes_s / 1e9, 100 * read);
    } else if (macs_s > 0) {
        printf(" %8s %7s", "", "");
    }
    if (macs_s > 0) printf(" %8.1f %5.0f %%", macs_s / 1e9, 100 * compute);
}

// ---- the table

static void table_head(struct bench *b) {
    char params[32], bytes[32], clean[CLEAN_BYTES];
    printf("%s: %s, %s parameters, %s\n", clean_text(clean, model_label(b->a)), b->info.arch,
           format_count(params, b->info.n_params), format_bytes(bytes, b->info.weight_bytes));
    printf("%s, KV %s, %d repetition%s\n", hearth_engine_device(b->engine), b->a->kv_type,
           (int)b->a->reps, PLURAL(b->a->reps));
    if (b->repacked_bytes > 0)
        printf("repacked: %s of weights\n", format_bytes(bytes, b->repacked_bytes));
    if (b->has_ceilings) {
        printf("ceilings measured now: read %.1f GB/s; int8 %.0f, i16 %.0f, bf16 %.0f, f32 %.0f "
               "GMAC/s\n",
               b->ceilings.read_bytes_s / 1e9, b->ceilings.int8_macs_s / 1e9,
               b->ceilings.i16_macs_s / 1e9, b->ceilings.bf16_macs_s / 1e9,
               b->ceilings.f32_macs_s / 1e9);
        printf("the weights, where they lie: read %.1f GB/s\n", b->weights_bytes_s / 1e9);
    }
    printf("\n%-16s %5s %6s %9s  %19s", "", "seqs", "depth", "tokens/s", "slowest - fastest");
    if (b->has_ceilings) printf(" %8s %7s %8s %7s", "GB/s", "of read", "GMAC/s", "of ceil");
    putchar('\n');
}

static void table_steps(const struct test *t) {
    double total = sum_ns(&t->steps);
    for (size_t i = 0; i < t->steps.n; i++) {
        const struct hearth_step_kind *k = &t->steps.items[i];
        char name[80];
        double s = (double)k->ns * 1e-9;
        if (k->n_steps == 0 && k->ns == 0) continue;
        snprintf(name, sizeof(name), "%s%s%s%s%s", k->name, k->role[0] ? " " : "", k->role,
                 k->formats[0] ? " " : "", k->formats);
        printf("  %-31s %6.1f %% %9.2f ms", name, total > 0 ? 100 * s / total * 1e9 : 0, 1e3 * s);
        if (s > 0 && k->bytes + k->macs > 0) {
            printf("     "); // below the columns of the row
            print_rates(k->bytes / s, k->bytes / s / t->steps_beside.read_bytes_s, k->macs / s,
                        hearth_ceilings_seconds(&t->steps_beside, k) / s);
        }
        putchar('\n');
    }
}

static void table_row(const struct bench *b, const struct test *t) {
    char name[32], spread[40];
    snprintf(name, sizeof(name), "%s %u", t->generate ? "generate" : "prompt", t->n);
    snprintf(spread, sizeof(spread), "%.1f - %.1f", t->worst, t->best);
    printf("%-16s %5u %6u %9.1f  %19s", name, t->seqs, t->depth, t->median, spread);
    if (b->has_ceilings) {
        print_rates(t->bytes * t->median, t->read_share, t->macs * t->median, t->ceiling_share);
    }
    putchar('\n');
    if (b->has_ceilings && t->beside.slowest_thread < MUCH_SLOWER)
        print_slowest_thread("  ", b->a, &t->beside);
    table_steps(t);
}

// ---- JSON

static void json_text(const char *name, const char *text) {
    printf("\"%s\": ", name);
    json_print_text(stdout, text, strlen(text));
}

static void json_ceilings(const char *name, const struct hearth_ceilings *c) {
    printf("%s: {\"read_bytes_s\": %.0f, \"int8_macs_s\": %.0f, \"i16_macs_s\": %.0f, "
           "\"bf16_macs_s\": %.0f, \"f32_macs_s\": %.0f, \"slowest_thread\": %.4f}",
           name, c->read_bytes_s, c->int8_macs_s, c->i16_macs_s, c->bf16_macs_s, c->f32_macs_s,
           c->slowest_thread);
}

static void json_head(struct bench *b) {
    printf("{\n  ");
    json_text("model", model_label(b->a));
    printf(",\n  \"arch\": \"%s\",\n  \"params\": %" PRIu64 ",\n  \"weight_bytes\": %" PRIu64,
           b->info.arch, b->info.n_params, b->info.weight_bytes);
    printf(",\n  \"pass_bytes\": %.0f,\n  ", b->pass_bytes);
    json_text("device", hearth_engine_device(b->engine));
    printf(",\n  \"kv_type\": \"%s\",\n  \"reps\": %d,\n  \"repacked_bytes\": %" PRIu64,
           b->a->kv_type, (int)b->a->reps, b->repacked_bytes);
    if (b->has_ceilings) {
        json_ceilings(",\n  \"ceilings\"", &b->ceilings);
        printf(",\n  \"weights_read_bytes_s\": %.0f", b->weights_bytes_s);
    }
    printf(",\n  \"runs\": [");
}

static void json_steps(const struct test *t) {
    double total = sum_ns(&t->steps);
    bool first = true;
    json_ceilings(", \"steps_beside\"", &t->steps_beside);
    printf(", \"steps\": [");
    for (size_t i = 0; i < t->steps.n; i++) {
        const struct hearth_step_kind *k = &t->steps.items[i];
        double s = (double)k->ns * 1e-9;
        printf("%s\n      {", first ? "" : ",");
        first = false;
        json_text("name", k->name);
        printf(", ");
        json_text("role", k->role);
        printf(", ");
        json_text("formats", k->formats);
        printf(", \"seconds\": %.9f, \"time_share\": %.6f", s, total > 0 ? s / total * 1e9 : 0);
        // The difference of two runs has as many steps as they have passes more, often none.
        if (t->bytes > 0) printf(", \"n_steps\": %" PRIu64, k->n_steps);
        if (k->bytes > 0 || t->bytes > 0) printf(", \"bytes\": %.0f", k->bytes);
        printf(", \"macs\": %.0f", k->macs);
        if (s > 0 && k->bytes > 0) {
            printf(", \"bytes_s\": %.0f, \"read_share\": %.6f", k->bytes / s,
                   k->bytes / s / t->steps_beside.read_bytes_s);
        }
        if (s > 0 && k->macs > 0) {
            printf(", \"macs_s\": %.0f, \"ceiling_share\": %.6f", k->macs / s,
                   hearth_ceilings_seconds(&t->steps_beside, k) / s);
        }
        putchar('}');
    }
    printf("\n    ]");
}

static void json_row(const struct bench *b, const struct test *t) {
    printf("%s\n    {\"kind\": \"%s\", \"n\": %u, \"depth\": %u, \"seqs\": %u, "
           "\"tokens_s\": %.4f, \"slowest\": %.4f, \"fastest\": %.4f",
           b->n_printed ? "," : "", t->generate ? "generate" : "prompt", t->n, t->depth, t->seqs,
           t->median, t->worst, t->best);
    if (b->has_ceilings) {
        if (t->bytes > 0)
            printf(", \"token_bytes\": %.1f, \"bytes_s\": %.0f, \"read_share\": %.6f", t->bytes,
                   t->bytes * t->median, t->read_share);
        printf(", \"token_macs\": %.1f, \"macs_s\": %.0f, \"ceiling_share\": %.6f", t->macs,
               t->macs * t->median, t->ceiling_share);
        json_ceilings(", \"beside\"", &t->beside);
    }
    if (b->a->steps) json_steps(t);
    putchar('}');
}

void bench_print_head(struct bench *b) {
    b->has_begun = true;
    if (b->a->json) {
        json_head(b);
    } else {
        table_head(b);
    }
}

void bench_print_row(struct bench *b, const struct test *t) {
    if (b->a->json) {
        json_row(b, t);
    } else {
        table_row(b, t);
        fflush(stdout);
    }
    b->n_printed++;
}

// Where the weights lie, now that they have been read.
static void print_pages(const struct bench *b) {
    const hearth_file *f = hearth_model_file(b->model);
    uint64_t n_large, n = hearth_file_bytes(f);
    bool known = hearth_file_large_pages(f, &n_large);
    if (b->a->json) {
        bool mapped = b->a->n_operands > 0 && !b->a->no_mmap; // the built-in model is neither
        printf(",\n  \"mapped\": %s", mapped ? "true" : "false");
        if (known) printf(",\n  \"large_page_bytes\": %" PRIu64, n_large);
    } else if (known && n >= (2 << 20)) {
        printf("\nthe file is %s, %.0f %% of it on 2 MB pages\n",
               b->a->no_mmap ? "in memory" : "mapped", 100 * (double)n_large / (double)n);
    }
}

void bench_print_end(struct bench *b, bool complete) {
    if (b->a->json) printf("\n  ],\n  \"complete\": %s", complete ? "true" : "false");
    if (complete || b->a->json) print_pages(b);
    if (b->a->json) puts("\n}");
}
