// SPDX-License-Identifier: MIT
// Every golden model through the reference backend: the exact logits, and the same bits however
// the prompt is cut and wherever its pages lie.
#include <stdlib.h>
#include <string.h>

#include "golden.h"

static const struct golden_run whole = {.ops = &ht_backend_ref, .kv_type = HEARTH_KV_F32};

static size_t n_bytes(const struct golden *g) {
    return (size_t)g->n_tokens * g->n_vocab * sizeof(float);
}

static void check_exact(const char *name) {
    struct golden g;
    golden_open_some(name, &g);
    float *logits = golden_logits(&g, &whole);
    double worst = golden_worst(&g, logits);
    print_message("%-28s NMSE %.2e at worst\n", name, worst);
    if (!(worst < 1e-11)) fail_msg("%s: NMSE %g", name, worst);
    free(logits);
    golden_close(&g);
}

static void test_archs(void **state) {
    (void)state;
    golden_dir();
    for (int i = 0; i < GOLDEN_N_ARCHS; i++) check_exact(golden_archs[i]);
}

static void test_quants(void **state) {
    (void)state;
    golden_dir();
    for (int i = 0; i < GOLDEN_N_QUANTS; i += GOLDEN_STEP) check_exact(golden_quants[i]);
}

static void check_same(const struct golden *g, const float *want, const struct golden_run *r,
                       const char *what) {
    float *logits = golden_logits(g, r);
    if (memcmp(logits, want, n_bytes(g)) != 0) fail_msg("%s changes the logits", what);
    free(logits);
}

// With `company`, also beside other sequences: the reference is slow, and slower under emulation.
static void check_conditions(const char *name, enum hearth_kv_type kv_type, bool company) {
    struct golden g;
    golden_open_some(name, &g);
    struct golden_run r = whole;
    r.kv_type = kv_type;
    float *want = golden_logits(&g, &r);
    r.chunk = 1;
    check_same(&g, want, &r, "--chunk 1");
    r.chunk = 7;
    check_same(&g, want, &r, "--chunk 7");
    r.page_seed = 12345;
    check_same(&g, want, &r, "page order");
    r.n_among = 3;
    if (company) check_same(&g, want, &r, "other sequences in the batch");
    free(want);
    golden_close(&g);
}

static void test_conditions(void **state) {
    (void)state;
    golden_dir();
    for (int i = 0; i < GOLDEN_N_ARCHS; i++)
        check_conditions(golden_archs[i], HEARTH_KV_F32, i % 3 == 0);
    check_conditions("archs/llama-moe", HEARTH_KV_F16, true);
    check_conditions("quants/qwen3.Q4_K_M", HEARTH_KV_BF16, false);
    check_conditions("archs/qwen3-dense", HEARTH_KV_Q8_0, true);
    check_conditions("archs/gpt2-dense", HEARTH_KV_I16, true);
}

// Pages of fewer bits cost accuracy, but no more than their rounding.
static void test_rounded_pages(void **state) {
    (void)state;
    golden_dir();
    static const struct {
        enum hearth_kv_type type;
        double least, most;
    } rows[] = {{HEARTH_KV_F16, 1e-12, 1e-5},
                {HEARTH_KV_BF16, 1e-9, 1e-3},
                {HEARTH_KV_Q8_0, 1e-9, 1e-3},
                {HEARTH_KV_I16, 1e-12, 1e-8}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct golden g;
        golden_open("archs/qwen3-dense", &g);
        struct golden_run r = whole;
        r.kv_type = rows[i].type;
        float *logits = golden_logits(&g, &r);
        double worst = golden_worst(&g, logits);
        print_message("%s pages: NMSE %.2e at worst\n", ht_kv_type_name(r.kv_type), worst);
        assert_true(worst > rows[i].least && worst < rows[i].most);
        free(logits);
        golden_close(&g);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_archs),
        cmocka_unit_test(test_quants),
        cmocka_unit_test(test_conditions),
        cmocka_unit_test(test_rounded_pages),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
