// SPDX-License-Identifier: MIT
// Where a pass of the cpu backend spends its time, by kind of step: one thread, its own CPU time,
// so that a busy machine shows too.
//   bench_steps MODEL [n_prompt [depth [level]]]
// times a prompt of n_prompt tokens behind `depth` positions, then 8 single tokens. Not part of the
// program; built by hand:
//   cc -O2 -D_GNU_SOURCE -Isrc -Iinclude bench/bench_steps.c BUILD/libhearth.a -lm -lpthread
//      $(pkg-config --libs libpcre2-8 libutf8proc) -o /tmp/bench_steps
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "backend/cpu/exec.h"
#include "gguf/gguf.h"
#include "model/model.h"

static const char *const names[HT_CPU_N_OPS] = {
    "rope_table", "embed",     "add_pos",    "select",    "norm",     "prep",     "linear",
    "heads",      "kv_append", "attention",  "attn_join", "act",      "act_mul",  "add",
    "moe_route",  "moe_group", "moe_gather", "moe_up",    "moe_prep", "moe_down", "moe_sum"};

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

struct bench {
    struct ht_prepared *p;
    uint32_t n_vocab, n_pages, *pages, *pos, *seq;
    int32_t *tokens;
    struct ht_batch_seq s;
};

// execute's own work, a step at a time.
static void pass(struct bench *b, uint32_t n, uint32_t pos0, double *time) {
    struct ht_batch batch = {.n_tokens = n,
                             .tokens = b->tokens,
                             .pos = b->pos,
                             .seq = b->seq,
                             .n_seqs = 1,
                             .seqs = &b->s,
                             .n_outputs = 1};
    uint32_t last = n - 1;
    batch.outputs = &last;
    for (uint32_t i = 0; i < n; i++) {
        b->tokens[i] = (int32_t)((pos0 + i) * 7919u % b->n_vocab);
        b->pos[i] = pos0 + i;
    }
    struct hearth_error err;
    const float *logits;
    if (!time) {
        if (ht_backend_cpu.execute(b->p, &batch, &logits, &err)) exit(1);
        return;
    }
    struct ht_prepared *p = b->p;
    p->batch = &batch;
    p->mode = n == 1 ? HT_CPU_FEW : HT_CPU_MANY;
    uint32_t tile = 0;
    for (uint32_t i = 0; i < p->c->n_steps; i++)
        if (p->c->steps[i].op == HT_CPU_ATTENTION)
            tile = ht_attn_tile_tokens(&p->backend->vec, p->c->steps[i].n_heads,
                                       p->c->steps[i].n_kv_heads);
    p->n_tiles = 0;
    for (uint32_t t = 0; t < n; t += tile)
        p->tiles[p->n_tiles++] = (struct ht_cpu_tile){
            .row = t, .n_tokens = n - t < tile ? n - t : tile, .pos = pos0 + t, .pages = b->pages};
    for (uint32_t i = 0; i < p->c->n_steps; i++) {
        double t0 = now();
        p->counters[i] = 0;
        if (n == 1 && p->c->steps[i].barrier[HT_CPU_FEW]) ht_cpu_fetch_ahead(p, &p->c->steps[i], 0);
        ht_cpu_run_step(p, &p->c->steps[i], 0);
        time[p->c->steps[i].op] += now() - t0;
    }
}

static void show(const char *what, const double *time, double n) {
    double sum = 0;
    for (int i = 0; i < HT_CPU_N_OPS; i++) sum += time[i];
    printf("%s: %.3f ms a token, %.1f tokens/s of CPU time\n", what, 1e3 * sum / n, n / sum);
    for (int i = 0; i < HT_CPU_N_OPS; i++)
        if (time[i] > 0)
            printf("  %-10s %9.3f us  %5.1f %%\n", names[i], 1e6 * time[i] / n,
                   100 * time[i] / sum);
}

int main(int argc, char **argv) {
    if (argc < 2) return 2;
    uint32_t n_prompt = argc > 2 ? (uint32_t)atoi(argv[2]) : 512;
    uint32_t depth = argc > 3 ? (uint32_t)atoi(argv[3]) : 0;
    struct hearth_error err = {0};
    struct ht_gguf *g;
    struct ht_model *m;
    struct ht_backend *be;
    struct bench b = {0};
    struct ht_backend_options o = {.n_threads = 1, .level = argc > 4 ? argv[4] : NULL};
    if (ht_gguf_open(argv[1], &g, &err) || ht_model_load(g, NULL, &m, &err) ||
        ht_backend_cpu.open(&o, &be, &err)) {
        fprintf(stderr, "%s\n", err.message);
        return 1;
    }
    const struct ht_plan *plan = ht_model_plan(m);
    b.n_vocab = plan->n_vocab;
    b.n_pages = (depth + n_prompt + 64) / HT_PAGE_TOKENS + 1;
    struct ht_limits l = {.max_tokens = 512,
                          .max_outputs = 1,
                          .n_pages = b.n_pages,
                          .max_ctx = b.n_pages * HT_PAGE_TOKENS,
                          .kv_type = HEARTH_KV_F16};
    if (ht_backend_cpu.prepare(be, plan, &l, &b.p, &err)) {
        fprintf(stderr, "%s\n", err.message);
        return 1;
    }
    b.pages = calloc(b.n_pages, sizeof *b.pages);
    b.pos = calloc(512, sizeof *b.pos);
    b.seq = calloc(512, sizeof *b.seq);
    b.tokens = calloc(512, sizeof *b.tokens);
    for (uint32_t i = 0; i < b.n_pages; i++) b.pages[i] = i;
    b.s = (struct ht_batch_seq){b.pages, b.n_pages};
    printf(
        "scratch %.1f MB of tensors, %.2f MB a thread (linear %.2f, attention %.2f); KV %.1f MB\n",
        1e-6 * (double)b.p->c->scratch_bytes, 1e-6 * (double)b.p->c->thread_bytes,
        1e-6 * (double)b.p->c->linear_bytes, 1e-6 * (double)b.p->c->attn_bytes,
        1e-6 * (double)b.p->c->kv_bytes);
    for (int mode = 0; mode < HT_CPU_N_MODES; mode++) {
        uint32_t n = 0;
        for (uint32_t i = 0; i < b.p->c->n_steps; i++) n += b.p->c->steps[i].barrier[mode];
        printf("%s, %s: %u steps, %u barriers, %u layers\n", ht_backend_cpu.describe(be),
               mode == HT_CPU_FEW ? "one token" : "many", b.p->c->n_steps, n, plan->n_layers);
    }
    double prompt[HT_CPU_N_OPS] = {0}, one[HT_CPU_N_OPS] = {0};
    // What stands at the depth does not matter, but must be memory of its own.
    memset(b.p->kv, 0x30, b.p->c->kv_bytes);
    if (n_prompt) pass(&b, n_prompt < 512 ? n_prompt : 512, 0, NULL); // touches the weights
    for (uint32_t at = 0; at < n_prompt; at += 512)
        pass(&b, n_prompt - at < 512 ? n_prompt - at : 512, depth + at, prompt);
    if (n_prompt) show("prompt", prompt, n_prompt);
    pass(&b, 1, depth + n_prompt, NULL);
    for (uint32_t i = 1; i < 9; i++) pass(&b, 1, depth + n_prompt + i, one);
    show("one token", one, 8);
    return 0;
}
