// SPDX-License-Identifier: MIT
// Every golden model through the cpu backend, at every CPU level of this machine: how far from the
// exact logits, and the same bytes whatever the chunks, threads, pages and neighbours are.
#include <stdlib.h>
#include <string.h>

#include "backend/cpu/features.h"
#include "golden.h"

static const struct golden_run plain = {
    .ops = &ht_backend_cpu, .n_threads = 2, .kv_type = HEARTH_KV_F32};

// What a model's weights allow with activations of 8 bits (f32, f16: none; bf16: their own).
static double bar(const char *name) {
    if (strstr(name, "archs/") || strstr(name, ".F32")) return 1e-11;
    if (strstr(name, ".F16")) return 2e-7;
    if (strstr(name, ".BF16")) return 1.4e-5;
    return strstr(name, "MXFP4") ? 2e-3 : 2.5e-4;
}

static size_t n_bytes(const struct golden *g) {
    return (size_t)g->n_tokens * g->n_vocab * sizeof(float);
}

// Over all positions together, as the bars have it.
static void check_bar(const struct golden *g, const char *name, const char *level,
                      const float *logits) {
    double nmse = golden_nmse(logits, g->logits, (size_t)g->n_tokens * g->n_vocab);
    print_message("%-28s %-12s NMSE %.2e\n", name, level, nmse);
    if (!(nmse < bar(name)))
        fail_msg("%s at %s: NMSE %g, expected %g", name, level, nmse, bar(name));
}

static bool is_float(const char *name) {
    return strstr(name, "archs/") || strstr(name, ".F32") || strstr(name, ".F16") ||
           strstr(name, ".BF16");
}

static void check_levels(const char *name) {
    struct golden g;
    golden_open(name, &g);
    float *first = NULL;
    for (int l = 0; l < HT_CPU_N_LEVELS; l++) {
        if (!ht_cpu_level_usable((enum ht_cpu_level)l)) continue;
        struct golden_run r = plain;
        r.level = ht_cpu_level_name((enum ht_cpu_level)l);
        float *logits = golden_logits(&g, &r);
        check_bar(&g, name, r.level, logits);
        if (!first) {
            first = logits;
            continue;
        }
        if (!strstr(name, ".BF16") && memcmp(first, logits, n_bytes(&g)) != 0)
            fail_msg("%s: level %s gives other bytes than scalar%s", name, r.level,
                     is_float(name) ? " (float weights)" : "");
        free(logits);
    }
    free(first);
    golden_close(&g);
}

static void test_archs(void **state) {
    (void)state;
    golden_dir();
    for (int i = 0; i < GOLDEN_N_ARCHS; i++) check_levels(golden_archs[i]);
}

static void test_quants(void **state) {
    (void)state;
    golden_dir();
    for (int i = 0; i < GOLDEN_N_QUANTS; i++) check_levels(golden_quants[i]);
}

static void check_same(const struct golden *g, const float *want, const struct golden_run *r,
                       const char *name) {
    float *logits = golden_logits(g, r);
    for (uint32_t t = 0; t < g->n_tokens; t++) {
        size_t at = (size_t)t * g->n_vocab;
        if (golden_wants(r, 0, t) && memcmp(logits + at, want + at, g->n_vocab * sizeof *want) != 0)
            fail_msg("%s: other bytes at position %u with %u tokens a chunk, %d threads, %u "
                     "sequences beside, pages %u, logits of one in %u",
                     name, t, r->chunk, r->n_threads, r->n_among, r->page_seed, r->one_in);
    }
    free(logits);
}

// What nobody wants is not made, and shows nowhere.
static void check_some_wanted(const struct golden *g, const float *want, struct golden_run r,
                              const char *name) {
    static const uint32_t one_in[] = {2, 9, 3}, chunks[] = {7, 0, 1};
    for (int i = 0; i < 3; i++) {
        r.one_in = one_in[i];
        r.chunk = chunks[i];
        r.n_threads = 1 + i;
        r.n_among = i == 1 ? 3 : 0;
        check_same(g, want, &r, name);
    }
}

// most: of the sequences beside.
static void check_conditions(const char *name, const char *level, enum hearth_kv_type kv_type,
                             uint32_t most) {
    static const uint32_t chunks[] = {1, 7, 64};
    const uint32_t among[] = {1, 5, most};
    struct golden g;
    golden_open_some(name, &g);
    struct golden_run r = plain;
    r.kv_type = kv_type;
    r.level = level;
    float *want = golden_logits(&g, &r);
    for (int i = 0; i < 3; i++) {
        r.chunk = chunks[i];
        check_same(&g, want, &r, name);
        r.n_threads = i == 0 ? 1 : 3;
        r.page_seed = 7u + (uint32_t)i;
        r.n_among = among[i];
        check_same(&g, want, &r, name);
        r.n_threads = 2;
        r.page_seed = r.n_among = 0;
    }
    r.chunk = 0;
    r.n_threads = 3;
    r.n_among = 5;
    check_same(&g, want, &r, name);
    r.chunk = 1;
    r.n_among = 0;
    check_same(&g, want, &r, name);
    check_some_wanted(&g, want, r, name);
    free(want);
    golden_close(&g);
}

// Repacked weights give the same bytes as the file's, alone and among others.
static void test_repacked(void **state) {
    (void)state;
    golden_dir();
    int n_checked = 0;
    for (int i = 0; i < GOLDEN_N_QUANTS; i++) {
        struct golden g;
        golden_open(golden_quants[i], &g);
        for (int l = 0; l < HT_CPU_N_LEVELS; l++) {
            const char *level = ht_cpu_level_name((enum ht_cpu_level)l);
            if (!ht_cpu_level_usable((enum ht_cpu_level)l) ||
                !golden_can_repack(&g, &ht_backend_cpu, level))
                continue;
            struct golden_run r = plain;
            r.level = level;
            float *want = golden_logits(&g, &r);
            r.repack = true;
            check_same(&g, want, &r, golden_quants[i]);
            r.chunk = 1;
            r.n_threads = 3;
            check_same(&g, want, &r, golden_quants[i]);
            r.n_among = 5;
            check_same(&g, want, &r, golden_quants[i]);
            print_message("%-28s %-12s repacked\n", golden_quants[i], level);
            free(want);
            n_checked++;
        }
        golden_close(&g);
    }
    if (n_checked == 0) skip();
}

static void test_conditions_archs(void **state) {
    (void)state;
    golden_dir();
    for (int i = 0; i < GOLDEN_N_ARCHS; i++)
        check_conditions(golden_archs[i], NULL, (enum hearth_kv_type)(i % HT_N_KV_TYPES), 16);
}

static void test_conditions_quants(void **state) {
    (void)state;
    golden_dir();
    for (int i = 0; i < GOLDEN_N_QUANTS; i++)
        check_conditions(golden_quants[i], NULL, (enum hearth_kv_type)((i + 1) % HT_N_KV_TYPES),
                         i % GOLDEN_STEP == 0 ? 16 : 2);
}

// How far cpu may be from ref with pages of a type: what is the same to 1e-13 is rounded to the
// other side now and then; with i16 cpu rounds queries and weights, too.
static const double rounding[HT_N_KV_TYPES] = {[HEARTH_KV_F16] = 1e-7,
                                               [HEARTH_KV_F32] = 1e-11,
                                               [HEARTH_KV_BF16] = 1e-6,
                                               [HEARTH_KV_Q8_0] = 1e-6,
                                               [HEARTH_KV_I16] = 1e-7};

// Contexts of several segments, windows and a soft cap, which no golden model has: against the
// reference backend, then the same bytes one token at a time by more threads than KV heads, and in
// chunks beside others; and of some positions alone, if wanted.
static void check_long(uint32_t n, uint32_t window, float soft_cap, enum hearth_kv_type kv_type,
                       bool some) {
    struct golden g, longer;
    golden_open("archs/qwen3-dense", &g);
    struct ht_plan plan = *g.plan;
    struct ht_step *steps = malloc(plan.n_steps * sizeof *steps);
    int32_t *tokens = malloc(n * sizeof *tokens);
    assert_true(steps && tokens);
    memcpy(steps, plan.steps, plan.n_steps * sizeof *steps);
    for (uint32_t i = 0; i < plan.n_steps; i++) {
        if (steps[i].op != HT_OP_ATTENTION) continue;
        steps[i].u.attn.window = window;
        steps[i].u.attn.soft_cap = soft_cap;
    }
    plan.steps = steps;
    for (uint32_t i = 0; i < n; i++) tokens[i] = (g.tokens[i % g.n_tokens] + (int)i / 50) % 128;
    longer = g;
    longer.plan = &plan;
    longer.tokens = tokens;
    longer.n_tokens = n;
    struct golden_run r = plain, ref = plain;
    ref.ops = &ht_backend_ref;
    ref.n_threads = 1;
    r.kv_type = ref.kv_type = kv_type;
    float *want = golden_logits(&longer, &ref), *got = golden_logits(&longer, &r);
    double nmse = golden_nmse(got, want, (size_t)n * g.n_vocab);
    print_message("%u positions, window %u, cap %g, %s: NMSE %.2e\n", n, window, (double)soft_cap,
                  ht_kv_type_name(kv_type), nmse);
    assert_true(nmse < rounding[kv_type]);
    r.chunk = 1;
    r.n_threads = 3;
    check_same(&longer, got, &r, "long context");
    r.chunk = 100;
    r.n_among = 2;
    r.n_threads = 2;
    r.page_seed = 5;
    check_same(&longer, got, &r, "long context");
    if (some) check_some_wanted(&longer, got, r, "long context");
    free(want);
    free(got);
    free(steps);
    free(tokens);
    golden_close(&g);
}

static void test_long_contexts(void **state) {
    (void)state;
    golden_dir();
    check_long(560, 0, 0.0f, HEARTH_KV_F32, GOLDEN_STEP == 1);
    check_long(560, 100, 0.0f, HEARTH_KV_F16, GOLDEN_STEP == 1);
    check_long(560, 540, 4.0f, HEARTH_KV_F32, GOLDEN_STEP == 1);
    check_long(560, 0, 0.0f, HEARTH_KV_BF16, GOLDEN_STEP == 1);
    check_long(560, 100, 4.0f, HEARTH_KV_Q8_0, GOLDEN_STEP == 1);
    check_long(560, 0, 0.0f, HEARTH_KV_I16, GOLDEN_STEP == 1);
    check_long(560, 100, 4.0f, HEARTH_KV_I16, true);
    if (GOLDEN_STEP == 1) check_long(1600, 0, 0.0f, HEARTH_KV_I16, false); // more than two segments
}

// Lower levels walk through the same driver: one model with everything in it is enough.
static void test_conditions_levels(void **state) {
    (void)state;
    golden_dir();
    for (int l = 0; l < HT_CPU_N_LEVELS; l++)
        if (ht_cpu_level_usable((enum ht_cpu_level)l)) {
            const char *level = ht_cpu_level_name((enum ht_cpu_level)l);
            check_conditions("archs/qwen3moe-moe", level, HEARTH_KV_I16, 16);
            check_conditions("archs/qwen3moe-moe", level, l % 2 ? HEARTH_KV_Q8_0 : HEARTH_KV_F16,
                             16);
        }
}

// Every type of KV pages: the same bytes at every level, as far from ref as rounding goes.
static void test_kv_types(void **state) {
    (void)state;
    golden_dir();
    static const char *const names[] = {"archs/qwen3-dense", "archs/gpt2-dense",
                                        "quants/qwen3.F32"};
    for (int i = 0; i < 3; i++)
        for (int type = 0; type < HT_N_KV_TYPES; type++) {
            struct golden g;
            golden_open(names[i], &g);
            struct golden_run ref = plain, r = plain;
            ref.ops = &ht_backend_ref;
            ref.n_threads = 1;
            ref.kv_type = r.kv_type = (enum hearth_kv_type)type;
            float *want = golden_logits(&g, &ref), *first = golden_logits(&g, &r);
            double nmse = golden_nmse(first, want, (size_t)g.n_tokens * g.n_vocab);
            print_message("%-18s %s pages: NMSE %.2e against ref, ref %.2e\n", names[i],
                          ht_kv_type_name((enum hearth_kv_type)type), nmse,
                          golden_nmse(want, g.logits, (size_t)g.n_tokens * g.n_vocab));
            assert_true(nmse < rounding[type]);
            for (int l = 0; l < HT_CPU_N_LEVELS; l++) {
                if (!ht_cpu_level_usable((enum ht_cpu_level)l)) continue;
                r.level = ht_cpu_level_name((enum ht_cpu_level)l);
                check_same(&g, first, &r, r.level);
            }
            free(want);
            free(first);
            golden_close(&g);
        }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_archs),
        cmocka_unit_test(test_repacked),
        cmocka_unit_test(test_quants),
        cmocka_unit_test(test_conditions_archs),
        cmocka_unit_test(test_conditions_quants),
        cmocka_unit_test(test_long_contexts),
        cmocka_unit_test(test_conditions_levels),
        cmocka_unit_test(test_kv_types),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
