// SPDX-License-Identifier: MIT
// What cmd_bench.c measures, bench_run.c runs and bench_report.c prints.
#ifndef HEARTH_CLI_BENCH_H
#define HEARTH_CLI_BENCH_H

#include "cli.h"

#define MAX_KINDS 64 // kinds of steps in a plan; a plan of more is refused

struct kinds { // of one stretch of passes
    struct hearth_step_kind items[MAX_KINDS];
    size_t n;
};

struct bench {
    const struct args *a;
    const hearth_model *model;
    struct hearth_model_info info;
    hearth_engine *engine;
    double pass_bytes; // of weights that a pass of one token reads
    bool has_ceilings; // false on a backend that has none; then no work is counted either
    struct hearth_ceilings ceilings;
    double settled_s;        // when to begin behind the ceilings
    double weights_bytes_s;  // the weights, read where they lie; where there are ceilings
    uint64_t repacked_bytes; // of weights that the engine copied
    struct interrupt interrupt;
    struct progress progress;
    bool has_begun; // to print
    int n_printed;
};

struct test { // one row of the table
    bool generate;
    bool reads; // mostly: how fast the weights are read is measured beside each repetition
    uint32_t n, depth, seqs;
    double best, median, worst; // tokens a second
    // Where there are ceilings: bytes and multiply-adds of one token, and the medians of what each
    // repetition reached of that which was measured beside it, and of these measurements (reading:
    // of the weights where they lie, or that of the start).
    double bytes, macs, read_share, ceiling_share;
    struct hearth_ceilings beside;
    struct kinds steps; // with --steps: of one more repetition
    struct hearth_ceilings steps_beside;
};

// What a repetition gave.
struct bench_result {
    double seconds, n_tokens; // prompt tokens, or those generated
    struct kinds work;        // of the passes in these seconds
    // The weights alone, and products, right before and right after them; not where `bare`.
    struct hearth_ceilings beside;
    bool bare;
};

// bench_run.c: one repetition; returns an exit status. A prompt behind a depth takes what both take
// together less what the depth takes alone; `timed`: each kind of step as well.
int bench_run_once(struct bench *b, const struct test *t, uint64_t seed, bool timed,
                   struct bench_result *r);

// bench_report.c
void bench_print_head(struct bench *b);
void bench_print_row(struct bench *b, const struct test *t);
// complete: every row is there; else what there is is ended, as JSON.
void bench_print_end(struct bench *b, bool complete);

#endif
