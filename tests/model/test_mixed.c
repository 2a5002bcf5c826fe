// SPDX-License-Identifier: MIT
// Models whose matrices are in different formats, as files with a format for each tensor have them:
// readers of one row may then want activations of several kinds. Every level of the cpu backend is
// held to `ref`, and to its own bytes over chunks, threads, neighbours and repacking.
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backend/cpu/exec.h"
#include "backend/cpu/features.h"
#include "golden.h"
#include "tiny.h"

enum { N_TOKENS = 60, N_VOCAB = 96 };

struct mix {
    const char *arch;
    const char *names[3]; // ends of the tensors' names
    enum ht_format formats[3];
};

#define EXPERTS                                                                                    \
    { "ffn_gate_exps.weight", "ffn_up_exps.weight", "ffn_down_exps.weight" }
#define FFN                                                                                        \
    { "ffn_gate.weight", "ffn_up.weight", "ffn_down.weight" }
#define QKV                                                                                        \
    { "attn_q.weight", "attn_k.weight", "attn_v.weight" }

// Codes to 127 beside codes to 120 (q8_sums.h), with and without mins, codes beside floats, floats
// of two kinds.
static const struct mix mixes[] = {
    {"qwen3moe", EXPERTS, {HT_Q8_0, HT_Q4_0, HT_Q8_0}},
    {"qwen3moe", EXPERTS, {HT_Q4_0, HT_Q8_0, HT_F16}},
    {"qwen3moe", EXPERTS, {HT_Q8_0, HT_F16, HT_Q4_0}},
    {"qwen3moe", EXPERTS, {HT_F16, HT_Q4_0, HT_F32}},
    {"qwen3moe", EXPERTS, {HT_Q4_0, HT_Q4_1, HT_Q4_1}},
    {"qwen3moe", EXPERTS, {HT_BF16, HT_F32, HT_BF16}},
    {"qwen3", FFN, {HT_Q8_0, HT_Q4_0, HT_F16}},
    {"qwen3", FFN, {HT_F16, HT_Q8_0, HT_Q4_0}},
    {"qwen3", QKV, {HT_Q4_0, HT_Q8_0, HT_F16}},
    {"qwen3", QKV, {HT_Q4_1, HT_Q4_1, HT_Q4_0}},
};

// ---- weights

// Blocks of an f16 step and 32 codes of 4 bits, less 8.
static void q4_0_from_f32(const float *x, size_t n, uint8_t *out) {
    for (; n > 0; n -= 32, x += 32, out += 18) {
        float most = 0;
        for (int i = 0; i < 32; i++) most = fmaxf(most, fabsf(x[i]));
        float step = most / 7;
        ht_format_get(HT_F16)->from_f32(&step, out, 1);
        for (int i = 0; i < 16; i++) {
            int low = (int)lrintf(x[i] / step) + 8, high = (int)lrintf(x[i + 16] / step) + 8;
            out[2 + i] = (uint8_t)(low | high << 4);
        }
    }
}

// The same with codes from 0 on and an f16 min behind the step.
static void q4_1_from_f32(const float *x, size_t n, uint8_t *out) {
    for (; n > 0; n -= 32, x += 32, out += 20) {
        float d[2], low = x[0], high = x[0];
        for (int i = 1; i < 32; i++) low = fminf(low, x[i]), high = fmaxf(high, x[i]);
        d[0] = (high - low) / 14, d[1] = low;
        ht_format_get(HT_F16)->from_f32(d, out, 2);
        for (int i = 0; i < 16; i++) {
            int a = (int)lrintf((x[i] - low) / d[0]), b = (int)lrintf((x[i + 16] - low) / d[0]);
            out[4 + i] = (uint8_t)(a | b << 4);
        }
    }
}

static void convert(struct ht_weight *w, enum ht_format format) {
    const struct ht_format_info *f = ht_format_get(format);
    uint64_t n = w->ne[0] * w->ne[1] * (w->n_dims > 2 ? w->ne[2] : 1), n_bytes;
    assert_int_equal(w->format, HT_F32);
    assert_true(ht_format_row_bytes(format, n, &n_bytes));
    uint8_t *data = malloc(n_bytes);
    assert_non_null(data);
    const float *x = (const float *)(const void *)w->data;
    if (format == HT_Q4_0)
        q4_0_from_f32(x, n, data);
    else if (format == HT_Q4_1)
        q4_1_from_f32(x, n, data);
    else if (format == HT_F32)
        memcpy(data, x, n_bytes);
    else
        f->from_f32(x, data, n / f->block_len);
    w->format = format;
    w->data = data;
    w->n_bytes = n_bytes;
}

static bool ends_with(const char *s, const char *end) {
    size_t n = strlen(s), m = strlen(end);
    return n >= m && strcmp(s + n - m, end) == 0;
}

// The weights of a plan with those of the mix converted; each of these has data of its own.
static struct ht_weight *mixed_weights(const struct ht_plan *plan, const struct mix *m) {
    struct ht_weight *w = malloc(plan->n_weights * sizeof *w);
    int n_converted = 0;
    assert_non_null(w);
    memcpy(w, plan->weights, plan->n_weights * sizeof *w);
    for (uint32_t i = 0; i < plan->n_weights; i++)
        for (int k = 0; k < 3; k++) {
            if (!ends_with(w[i].name, m->names[k])) continue;
            convert(&w[i], m->formats[k]);
            n_converted++;
        }
    assert_int_equal(n_converted, 6); // of two layers
    return w;
}

// ---- runs

static int32_t *some_tokens(void) {
    static int32_t tokens[N_TOKENS];
    for (int i = 0; i < N_TOKENS; i++) tokens[i] = i * 37 % N_VOCAB;
    return tokens;
}

static void check_same(const struct golden *g, const float *want, struct golden_run r,
                       const char *what) {
    float *got = golden_logits(g, &r);
    if (memcmp(got, want, (size_t)g->n_tokens * g->n_vocab * sizeof *got) != 0)
        fail_msg("level %s: other bytes with %s", r.level, what);
    free(got);
}

// scalar: its answer, which is that of all levels; NULL where there is BF16, which is not.
static void check_level(const struct golden *g, const char *level, const float *exact,
                        const float *scalar) {
    struct golden_run r = {
        .ops = &ht_backend_cpu, .level = level, .n_threads = 1, .kv_type = HEARTH_KV_F32};
    float *got = golden_logits(g, &r);
    double nmse = golden_nmse(got, exact, (size_t)g->n_tokens * g->n_vocab);
    print_message("%-12s NMSE %.1e\n", level, nmse);
    if (!(nmse < 2e-2)) fail_msg("level %s: NMSE %g to ref", level, nmse);
    if (scalar && memcmp(got, scalar, (size_t)g->n_tokens * g->n_vocab * sizeof *got) != 0)
        fail_msg("level %s: other bytes than scalar", level);
    if (golden_can_repack(g, &ht_backend_cpu, level)) {
        r.repack = true;
        check_same(g, got, r, "repacked weights");
    }
    r.n_threads = 3;
    check_same(g, got, r, "three threads");
    r.chunk = 1;
    check_same(g, got, r, "chunks of 1");
    r.chunk = 7;
    r.n_among = 5;
    check_same(g, got, r, "chunks of 7 among others");
    free(got);
}

static void check_mix(const struct mix *m) {
    struct hearth_error err;
    struct ht_gguf *file;
    struct ht_model *model;
    tiny_open(m->arch, NULL, NULL, &file, &model);
    struct ht_plan plan = *ht_model_plan(model);
    struct ht_weight *weights = mixed_weights(&plan, m);
    const struct ht_weight *before = plan.weights;
    plan.weights = weights;
    if (ht_plan_check(&plan, &err)) fail_msg("%s", err.message);
    struct golden g = {
        .plan = &plan, .tokens = some_tokens(), .n_tokens = N_TOKENS, .n_vocab = plan.n_vocab};
    struct golden_run ref = {.ops = &ht_backend_ref, .kv_type = HEARTH_KV_F32};
    float *exact = golden_logits(&g, &ref), *scalar = NULL;
    bool same = m->formats[0] != HT_BF16 && m->formats[1] != HT_BF16 && m->formats[2] != HT_BF16;
    ref = (struct golden_run){
        .ops = &ht_backend_cpu, .level = "scalar", .n_threads = 1, .kv_type = HEARTH_KV_F32};
    if (same) scalar = golden_logits(&g, &ref);
    for (int l = 0; l < HT_CPU_N_LEVELS; l++)
        if (ht_cpu_level_usable((enum ht_cpu_level)l))
            check_level(&g, ht_cpu_level_name((enum ht_cpu_level)l), exact, scalar);
    free(scalar);
    for (uint32_t i = 0; i < plan.n_weights; i++)
        if (weights[i].data != before[i].data) free((void *)(uintptr_t)weights[i].data);
    free(weights);
    free(exact);
    ht_model_free(model);
    ht_gguf_close(file);
}

static void test_mixes(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof mixes / sizeof *mixes; i++) {
        const struct mix *m = &mixes[i];
        print_message("%s: %s %s, %s %s, %s %s\n", m->arch, m->names[0],
                      ht_format_get(m->formats[0])->name, m->names[1],
                      ht_format_get(m->formats[1])->name, m->names[2],
                      ht_format_get(m->formats[2])->name);
        check_mix(m);
    }
}

// ---- one expert of one is a dense model

struct pair {
    struct ht_gguf *file[2];
    struct ht_model *model[2];
    struct ht_plan plan[2]; // experts, dense
    struct ht_weight *weights[2];
};

static void load(struct pair *p, int i, const char *arch, const struct tiny_edit *edits) {
    tiny_open(arch, edits, NULL, &p->file[i], &p->model[i]);
    p->plan[i] = *ht_model_plan(p->model[i]);
}

// The dense model takes every weight of the other: of experts, those of the one there is.
static void take_weights(struct pair *p) {
    p->weights[1] = malloc(p->plan[1].n_weights * sizeof *p->weights[1]);
    assert_non_null(p->weights[1]);
    memcpy(p->weights[1], p->plan[1].weights, p->plan[1].n_weights * sizeof *p->weights[1]);
    for (uint32_t i = 0; i < p->plan[1].n_weights; i++) {
        struct ht_weight *to = &p->weights[1][i];
        size_t n = strlen(to->name) - strlen(".weight");
        bool found = false;
        for (uint32_t k = 0; k < p->plan[0].n_weights && !found; k++) {
            const struct ht_weight *from = &p->weights[0][k];
            found =
                strcmp(from->name, to->name) == 0 || (strncmp(from->name, to->name, n) == 0 &&
                                                      strcmp(from->name + n, "_exps.weight") == 0);
            if (found)
                to->format = from->format, to->data = from->data, to->n_bytes = from->n_bytes;
        }
        assert_true(found);
    }
    for (int i = 0; i < 2; i++) p->plan[i].weights = p->weights[i];
}

static void check_pair(const struct pair *p) {
    struct golden g[2];
    for (int i = 0; i < 2; i++)
        g[i] = (struct golden){
            .plan = &p->plan[i], .tokens = some_tokens(), .n_tokens = N_TOKENS, .n_vocab = N_VOCAB};
    for (int l = 0; l < 2 * HT_CPU_N_LEVELS; l++) {
        if (!ht_cpu_level_usable((enum ht_cpu_level)(l / 2))) continue;
        struct golden_run r = {.ops = &ht_backend_cpu,
                               .level = ht_cpu_level_name((enum ht_cpu_level)(l / 2)),
                               .n_threads = 2,
                               .kv_type = HEARTH_KV_F32,
                               .chunk = l % 2};
        float *want = golden_logits(&g[1], &r);
        check_same(&g[0], want, r, "an expert than without");
        free(want);
    }
}

// A model of one expert a layer, and the dense one of the same shapes.
static void load_pair(struct pair *p) {
    static const char *const exps[3] = EXPERTS;
    static char names[8][32];
    struct tiny_edit edits[12] = {{TINY_U32, "qwen3moe.expert_count", .u = 1},
                                  {TINY_U32, "qwen3moe.expert_used_count", .u = 1}};
    for (int i = 0; i < 8; i++) {
        bool down = i % 4 == 2, router = i % 4 == 3;
        snprintf(names[i], sizeof names[0], "blk.%d.%s", i / 4,
                 router ? "ffn_gate_inp.weight" : exps[i % 4]);
        edits[2 + i] = (struct tiny_edit){TINY_SHAPE, names[i], .n_dims = router ? 2 : 3};
        edits[2 + i].ne[0] = down ? 64 : 32;
        edits[2 + i].ne[1] = router ? 1 : down ? 32 : 64;
        edits[2 + i].ne[2] = 1;
    }
    load(p, 0, "qwen3moe", edits);
    load(p, 1, "qwen3", NULL);
}

// Back to the files' weights, which are `plain`.
static void forget_weights(struct pair *p, const struct ht_plan plain[2]) {
    for (uint32_t k = 0; k < plain[0].n_weights; k++)
        if (p->weights[0][k].data != plain[0].weights[k].data)
            free((void *)(uintptr_t)p->weights[0][k].data);
    for (int i = 0; i < 2; i++) {
        free(p->weights[i]);
        p->plan[i] = plain[i];
    }
}

static void close_pair(struct pair *p) {
    for (int i = 0; i < 2; i++) {
        ht_model_free(p->model[i]);
        ht_gguf_close(p->file[i]);
    }
}

static void test_one_expert(void **state) {
    (void)state;
    static const enum ht_format formats[5] = {HT_F32, HT_F16, HT_BF16, HT_Q8_0, HT_Q4_0};
    struct pair p;
    load_pair(&p);
    const struct ht_plan plain[2] = {p.plan[0], p.plan[1]};
    for (int i = 0; i < 125; i += 2 * GOLDEN_STEP) {
        struct mix m = {"qwen3moe", EXPERTS, {formats[i % 5], formats[i / 5 % 5], formats[i / 25]}};
        p.weights[0] = mixed_weights(&plain[0], &m);
        take_weights(&p);
        check_pair(&p);
        forget_weights(&p, plain);
    }
    close_pair(&p);
}

// A prompt of which an expert has more tokens than go together gives the dense model's bytes, too.
static void test_long_prompt(void **state) {
    (void)state;
    enum { N_LONG = 600 };
    static const enum ht_format formats[2] = {HT_F32, HT_Q8_0};
    static int32_t tokens[N_LONG];
    struct pair p;
    load_pair(&p);
    const struct ht_plan plain[2] = {p.plan[0], p.plan[1]};
    for (int i = 0; i < N_LONG; i++) tokens[i] = (i * 37 + i / 70) % N_VOCAB;
    for (int k = 0; k < 2; k++) {
        struct mix m = {"qwen3moe", EXPERTS, {formats[k], formats[k], formats[k]}};
        p.weights[0] = mixed_weights(&plain[0], &m);
        take_weights(&p);
        for (int l = 0; l < 2; l++) {
            struct golden g[2];
            struct golden_run r = {.ops = &ht_backend_cpu,
                                   .level =
                                       ht_cpu_level_name(l ? ht_cpu_best_level() : HT_CPU_SCALAR),
                                   .n_threads = 2,
                                   .kv_type = HEARTH_KV_F32};
            for (int i = 0; i < 2; i++)
                g[i] = (struct golden){.plan = &p.plan[i],
                                       .tokens = tokens,
                                       .n_tokens = l ? N_LONG : N_LONG / 2,
                                       .n_vocab = N_VOCAB};
            float *want = golden_logits(&g[1], &r);
            check_same(&g[0], want, r, "an expert of many tokens than without");
            free(want);
        }
        forget_weights(&p, plain);
    }
    close_pair(&p);
}

// ---- scores that are told apart where their probabilities are not, and equal ones

static void check_scores(float scale) {
    struct pair p;
    load(&p, 0, "qwen3moe", NULL);
    struct ht_weight *w = malloc(p.plan[0].n_weights * sizeof *w);
    float *scaled[2] = {NULL};
    int n = 0;
    assert_non_null(w);
    memcpy(w, p.plan[0].weights, p.plan[0].n_weights * sizeof *w);
    for (uint32_t i = 0; i < p.plan[0].n_weights; i++) {
        if (!ends_with(w[i].name, "ffn_gate_inp.weight")) continue;
        assert_true(n < 2 && w[i].format == HT_F32);
        const float *x = (const float *)(const void *)w[i].data;
        float *y = scaled[n++] = malloc(w[i].n_bytes);
        assert_non_null(y);
        for (size_t k = 0; k < w[i].n_bytes / sizeof *y; k++) y[k] = scale * x[k];
        w[i].data = (const uint8_t *)y;
    }
    assert_int_equal(n, 2);
    p.plan[0].weights = w;
    struct golden g = {
        .plan = &p.plan[0], .tokens = some_tokens(), .n_tokens = N_TOKENS, .n_vocab = N_VOCAB};
    struct golden_run ref = {.ops = &ht_backend_ref, .kv_type = HEARTH_KV_F32};
    float *want = golden_logits(&g, &ref);
    for (uint32_t chunk = 0; chunk < 2; chunk++) {
        struct golden_run r = {
            .ops = &ht_backend_cpu, .n_threads = 2, .kv_type = HEARTH_KV_F32, .chunk = chunk};
        float *got = golden_logits(&g, &r);
        double nmse = golden_nmse(got, want, (size_t)N_TOKENS * N_VOCAB);
        if (!(nmse < 1e-11))
            fail_msg("scores times %g, chunks of %u: NMSE %g to ref", (double)scale, chunk, nmse);
        free(got);
    }
    free(want);
    free(scaled[0]);
    free(scaled[1]);
    free(w);
    ht_model_free(p.model[0]);
    ht_gguf_close(p.file[0]);
}

static void test_close_scores(void **state) {
    (void)state;
    check_scores(1e-8f);
    check_scores(0); // of equal ones the first are taken
}

// ---- experts in numbers and widths beside which the rest of the model is small

static void check_room(const struct tiny_edit *edits, uint32_t n_experts, uint32_t ffn) {
    struct hearth_error err;
    struct pair p;
    load(&p, 0, "qwen3moe", edits);
    struct ht_limits l = {.max_tokens = 256,
                          .max_outputs = 1,
                          .max_ctx = 256,
                          .n_pages = 8,
                          .kv_type = HEARTH_KV_F32};
    struct ht_backend_options o = {.n_threads = 1};
    struct ht_backend *b;
    struct ht_prepared *prepared = NULL;
    if (ht_backend_cpu.open(&o, &b, &err) ||
        ht_backend_cpu.prepare(b, &p.plan[0], &l, &prepared, &err))
        fail_msg("%s", err.message);
    assert_true(prepared->c->row_bytes >= n_experts * sizeof(float)); // a row of scores
    assert_true(prepared->c->linear_bytes >= ht_linear_scratch_bytes(ffn, l.max_tokens));
    ht_backend_cpu.release(prepared);
    ht_backend_cpu.close(b);
    struct golden g = {
        .plan = &p.plan[0], .tokens = some_tokens(), .n_tokens = N_TOKENS, .n_vocab = N_VOCAB};
    struct golden_run r = {.ops = &ht_backend_ref, .kv_type = HEARTH_KV_F32};
    float *want = golden_logits(&g, &r);
    r.ops = &ht_backend_cpu;
    for (uint32_t chunk = 0; chunk < 2; chunk++) {
        r.n_threads = 3;
        r.chunk = chunk;
        float *got = golden_logits(&g, &r);
        double nmse = golden_nmse(got, want, (size_t)N_TOKENS * N_VOCAB);
        if (!(nmse < 1e-11)) fail_msg("chunks of %u: NMSE %g to ref", chunk, nmse);
        free(got);
    }
    free(want);
    ht_model_free(p.model[0]);
    ht_gguf_close(p.file[0]);
}

static void test_experts_have_room(void **state) {
    (void)state;
    static const uint32_t sizes[][2] = {{200, 32}, {2, 1024}}; // experts, and how wide
    static const char *const exps[3] = EXPERTS;
    for (int k = 0; k < 2; k++) {
        uint32_t n = sizes[k][0], ffn = sizes[k][1];
        static char names[8][32];
        struct tiny_edit edits[12] = {{TINY_U32, "qwen3moe.expert_count", .u = n},
                                      {TINY_U32, "qwen3moe.expert_feed_forward_length", .u = ffn}};
        for (int i = 0; i < 8; i++) {
            bool down = i % 4 == 2, router = i % 4 == 3;
            snprintf(names[i], sizeof names[0], "blk.%d.%s", i / 4,
                     router ? "ffn_gate_inp.weight" : exps[i % 4]);
            edits[2 + i] = (struct tiny_edit){TINY_SHAPE, names[i], .n_dims = router ? 2 : 3};
            edits[2 + i].ne[0] = down ? ffn : 32;
            edits[2 + i].ne[1] = router ? n : down ? 32 : ffn;
            edits[2 + i].ne[2] = n;
        }
        check_room(edits, n, ffn);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_mixes), cmocka_unit_test(test_one_expert),
        cmocka_unit_test(test_long_prompt), cmocka_unit_test(test_experts_have_room),
        cmocka_unit_test(test_close_scores)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
