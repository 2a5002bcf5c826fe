// SPDX-License-Identifier: MIT
// Matrices with a scale of their own, as files of NVFP4 have them ("attn_q.scale"): every
// architecture's answers are those of the same model whose weights have been multiplied, through
// `ref` bit for bit and through every level of the cpu backend, whose bytes no way may change.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backend/cpu/features.h"
#include "golden.h"
#include "tiny.h"

enum { N_TOKENS = 40, N_VOCAB = 96, N_LAYERS = 2, N_EXPERTS = 4, MOST_SCALES = 12 };

struct scaled {
    const char *arch;
    bool experts[MOST_SCALES]; // a number for each
    const char *names[MOST_SCALES];
};

static const struct scaled models[] = {
    {"llama", {0}, {"attn_q", "attn_k", "attn_v", "attn_output", "ffn_gate", "ffn_up", "ffn_down"}},
    {"qwen3", {0}, {"attn_k", "ffn_gate", "ffn_down"}}, // some of those that are read together
    {"qwen3moe",
     {0, true, true, true},
     {"attn_q", "ffn_gate_exps", "ffn_up_exps", "ffn_down_exps"}},
    {"llama-moe", {false, true}, {"ffn_gate_inp", "ffn_down_exps"}},
    {"gpt2-fused", {0}, {"attn_qkv", "attn_output", "ffn_up", "ffn_down"}}, // with biases
    {"qwen2", {0}, {"attn_v"}}, // its embedding is the output matrix, too
};
static const char *const outside[] = {"token_embd", "output"}; // and gpt2's positions

static bool is_tied(const struct scaled *s) {
    return strcmp(s->arch, "qwen2") == 0;
}

struct edits {
    struct tiny_edit list[MOST_SCALES * N_LAYERS + 8];
    char names[MOST_SCALES * N_LAYERS + 8][64];
    int n;
};

static void add_scale(struct edits *e, int layer, const char *name, const char *end, uint64_t n) {
    char head[16] = "";
    if (layer >= 0) snprintf(head, sizeof head, "blk.%d.", layer);
    snprintf(e->names[e->n], sizeof e->names[0], "%s%s.%s", head, name, end);
    e->list[e->n] =
        (struct tiny_edit){TINY_ADD_TENSOR, e->names[e->n], .n_dims = 1, .ne = {n, 1, 1}};
    e->n++;
}

static int edits_of(const struct scaled *s, struct edits *e) {
    int n = 0;
    for (int layer = 0; layer < N_LAYERS; layer++)
        for (int i = 0; i < MOST_SCALES && s->names[i]; i++, n++)
            add_scale(e, layer, s->names[i], "scale", s->experts[i] ? N_EXPERTS : 1);
    if (is_tied(s)) e->list[e->n++] = (struct tiny_edit){TINY_DROP_TENSOR, .name = "output.weight"};
    for (size_t i = 0; i < (is_tied(s) ? 1 : sizeof outside / sizeof *outside); i++, n++)
        add_scale(e, -1, outside[i], "scale", 1);
    if (strncmp(s->arch, "gpt2", 4) == 0) add_scale(e, -1, "position_embd", "scale", 1), n++;
    add_scale(e, 0, s->names[0], "input_scale", 1); // which changes nothing
    return n;
}

// The same plan with scales multiplied in; each weight that had one has data of its own.
static struct ht_plan multiplied(const struct ht_plan *plan, int *n_scaled) {
    struct ht_plan p = *plan;
    struct ht_weight *w = malloc(p.n_weights * sizeof *w);
    assert_non_null(w);
    memcpy(w, plan->weights, p.n_weights * sizeof *w);
    *n_scaled = 0;
    for (uint32_t i = 0; i < p.n_weights; i++) {
        if (!w[i].scale) continue;
        assert_int_equal(w[i].format, HT_F32);
        float *y = malloc(w[i].n_bytes);
        assert_non_null(y);
        memcpy(y, w[i].data, w[i].n_bytes);
        size_t each = w[i].ne[0] * w[i].ne[1];
        for (size_t k = 0; k < w[i].n_bytes / sizeof *y; k++) y[k] *= w[i].scale[k / each];
        w[i].data = (const uint8_t *)y;
        w[i].scale = NULL;
        ++*n_scaled;
    }
    p.weights = w;
    return p;
}

static void check_same(const struct golden *g, const float *want, const struct golden_run *r) {
    float *got = golden_logits(g, r);
    if (memcmp(got, want, (size_t)N_TOKENS * N_VOCAB * sizeof *got) != 0)
        fail_msg("level %s, %d threads, chunks of %u, %u others: other bytes", r->level,
                 r->n_threads, r->chunk, r->n_among);
    free(got);
}

static void check_levels(const struct golden *g, const float *want) {
    static const struct {
        int n_threads;
        uint32_t chunk, n_among;
    } ways[] = {{1, 1, 0}, {2, 7, 5}, {3, 1, 3}};
    float *first = NULL;
    for (int l = 0; l < HT_CPU_N_LEVELS; l++) {
        if (!ht_cpu_level_usable((enum ht_cpu_level)l)) continue;
        struct golden_run r = {.ops = &ht_backend_cpu,
                               .level = ht_cpu_level_name((enum ht_cpu_level)l),
                               .n_threads = 1,
                               .kv_type = HEARTH_KV_F32};
        if (!first) {
            first = golden_logits(g, &r);
            double nmse = golden_nmse(first, want, (size_t)N_TOKENS * N_VOCAB);
            if (!(nmse < 1e-11)) fail_msg("level %s: NMSE %g to ref", r.level, nmse);
        }
        check_same(g, first, &r);
        for (size_t i = 0; i < sizeof ways / sizeof *ways; i += GOLDEN_STEP) {
            r.n_threads = ways[i].n_threads;
            r.chunk = ways[i].chunk;
            r.n_among = ways[i].n_among;
            check_same(g, first, &r);
        }
    }
    free(first);
}

static void test_scales(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof models / sizeof *models; i++) {
        static struct edits e;
        struct ht_gguf *file;
        struct ht_model *model;
        int32_t tokens[N_TOKENS];
        int n_parts = strcmp(models[i].arch, "gpt2-fused") == 0 ? 4 : 0; // views of attn_qkv
        int n_scaled;
        memset(&e, 0, sizeof e);
        int n = edits_of(&models[i], &e);
        print_message("%s, %d scales\n", models[i].arch, n);
        tiny_open(models[i].arch, e.list, NULL, &file, &model);
        for (int t = 0; t < N_TOKENS; t++) tokens[t] = t * 37 % N_VOCAB;
        struct golden g = {.plan = ht_model_plan(model),
                           .tokens = tokens,
                           .n_tokens = N_TOKENS,
                           .n_vocab = N_VOCAB};
        struct golden other = g;
        struct ht_plan plain = multiplied(g.plan, &n_scaled);
        other.plan = &plain;
        assert_int_equal(n_scaled, n + n_parts);
        struct golden_run r = {.ops = &ht_backend_ref, .kv_type = HEARTH_KV_F32};
        float *want = golden_logits(&other, &r);
        check_same(&g, want, &r);
        check_levels(&g, want);
        free(want);
        for (uint32_t w = 0; w < plain.n_weights; w++)
            if (plain.weights[w].data != g.plan->weights[w].data)
                free((void *)(uintptr_t)plain.weights[w].data);
        free((void *)(uintptr_t)plain.weights);
        ht_model_free(model);
        ht_gguf_close(file);
    }
}

// Scales are said in the plan, and counted as what they are: parameters, once each.
static void check_said(const char *arch, const struct tiny_edit *edits, uint64_t n_more,
                       const char *said) {
    struct ht_gguf *file[2];
    struct ht_model *model[2];
    struct hearth_model_info info[2];
    struct ht_buf text;
    for (int i = 0; i < 2; i++) {
        tiny_open(arch, i ? edits : NULL, NULL, &file[i], &model[i]);
        ht_model_get_info(model[i], &info[i]);
    }
    assert_int_equal(info[1].n_params, info[0].n_params + n_more);
    assert_int_equal(info[1].weight_bytes, info[0].weight_bytes + 4 * n_more);
    ht_buf_init(&text, 1 << 16);
    assert_true(ht_plan_print(ht_model_plan(model[1]), &text));
    if (!strstr(text.data, said)) fail_msg("\"%s\" is not in\n%s", said, text.data);
    ht_buf_deinit(&text);
    for (int i = 0; i < 2; i++) {
        ht_model_free(model[i]);
        ht_gguf_close(file[i]);
    }
}

static void test_said(void **state) {
    (void)state;
    static const struct tiny_edit edits[] = {
        {TINY_ADD_TENSOR, "blk.0.attn_q.scale", .f = 0.25f, .n_dims = 1, .ne = {1}},
        {.kind = TINY_END}};
    check_said("llama", edits, 1, "attn_q.weight F32 [32][32] times 0.25");
    static const struct tiny_edit experts[] = {
        {TINY_ADD_TENSOR, "blk.1.ffn_up_exps.scale", .f = 2, .n_dims = 1, .ne = {N_EXPERTS}},
        {.kind = TINY_END}};
    check_said("qwen3moe", experts, N_EXPERTS,
               "ffn_up_exps.weight F32 [4][64][32] times a scale each");
    static const struct tiny_edit fused[] = {
        {TINY_ADD_TENSOR, "blk.0.attn_qkv.scale", .f = 3, .n_dims = 1, .ne = {1}},
        {.kind = TINY_END}};
    check_said("gpt2-fused", fused, 1, "attn_qkv.weight[48:64] F32 [16][32] times 3");
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_scales), cmocka_unit_test(test_said)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
