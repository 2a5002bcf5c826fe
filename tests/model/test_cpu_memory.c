// SPDX-License-Identifier: MIT
// The cpu backend's memory: prepare takes exactly the pages that memory announced, a failing
// allocation anywhere is E_NOMEM and leaves nothing behind, and execute allocates nothing. Bad
// batches are refused with a sentence.
#include <stdlib.h>
#include <string.h>

#include "alloc_mem.h"
#include "golden.h"

static const struct ht_limits limits = {
    .max_tokens = 8, .max_outputs = 2, .max_ctx = 96, .n_pages = 3, .kv_type = HEARTH_KV_F16};
static const char *const models[] = {"archs/qwen3moe-moe", "archs/gpt2-dense",
                                     "quants/qwen3.Q4_K_M"};

static struct ht_backend *open_backend(int n_threads) {
    struct hearth_error err;
    struct ht_backend *b = NULL;
    struct ht_backend_options o = {.n_threads = n_threads};
    if (ht_backend_cpu.open(&o, &b, &err)) fail_msg("%s", err.message);
    return b;
}

// Returns whether this level repacks the model, where that was asked for.
static bool check_announced(const struct golden *g, int n_threads, enum hearth_kv_type kv_type,
                            bool repack) {
    struct hearth_error err;
    static const uint64_t block_bytes[HT_N_KV_TYPES] = {64, 128, 64, 34, 64}; // 32 elements
    uint64_t step_bytes = kv_type == HEARTH_KV_I16 ? sizeof(float) : 0;       // of a head
    struct ht_limits l = limits;
    l.kv_type = kv_type;
    l.repack = repack;
    struct ht_backend *b = open_backend(n_threads);
    struct ht_backend_memory m;
    struct ht_prepared *p;
    uint64_t live = ht_test_alloc_get().n_live_bytes;
    enum hearth_status s = ht_backend_cpu.memory(b, g->plan, &l, &m, &err);
    assert_int_equal(ht_test_alloc_get().n_live_bytes, live);
    if (repack && s == HEARTH_E_UNSUPPORTED) {
        ht_backend_cpu.close(b);
        return false;
    }
    assert_int_equal(s, HEARTH_OK);
    assert_int_equal(repack, m.packed > 0);
    uint64_t pages = ht_test_alloc_get().n_page_bytes;
    assert_int_equal(ht_backend_cpu.prepare(b, g->plan, &l, &p, &err), HEARTH_OK);
    struct ht_test_alloc now = ht_test_alloc_get();
    assert_int_equal(now.n_page_bytes - pages, m.kv + m.scratch + m.packed);
    uint64_t head_bytes = block_bytes[kv_type] * (g->plan->head_dim / 32) + step_bytes;
    assert_int_equal(m.kv, head_bytes * g->plan->n_kv_heads * 2 * g->plan->n_layers *
                               HT_PAGE_TOKENS * l.n_pages);
    assert_int_equal(now.n_live_bytes - live, m.kv + m.scratch + m.packed + m.other);
    ht_backend_cpu.release(p);
    ht_backend_cpu.close(b);
    return true;
}

static void test_announced(void **state) {
    (void)state;
    golden_dir();
    int n_repacked = 0;
    for (size_t i = 0; i < sizeof models / sizeof *models; i++) {
        struct golden g;
        golden_open(models[i], &g);
        for (int type = 0; type < HT_N_KV_TYPES; type++)
            check_announced(&g, type % 2 ? 3 : 1, (enum hearth_kv_type)type, false);
        n_repacked += check_announced(&g, 3, HEARTH_KV_I16, true);
        golden_close(&g);
    }
    if (n_repacked == 0) print_message("this machine's best level repacks nothing\n");
}

// Fails the n-th allocation of open and prepare; returns whether there was an n-th.
static bool fails_at(const struct golden *g, uint64_t n, bool repack) {
    struct hearth_error err;
    struct ht_backend *b = NULL;
    struct ht_prepared *p = NULL;
    struct ht_backend_options o = {.n_threads = 3};
    struct ht_limits l = limits;
    l.repack = repack;
    uint64_t live = ht_test_alloc_get().n_live_bytes;
    ht_test_alloc_fail_at(n);
    enum hearth_status st = ht_backend_cpu.open(&o, &b, &err);
    if (!st) st = ht_backend_cpu.prepare(b, g->plan, &l, &p, &err);
    bool failed = ht_test_alloc_failed();
    ht_test_alloc_fail_at(0);
    if (failed || !repack || st != HEARTH_E_UNSUPPORTED)
        assert_int_equal(st, failed ? HEARTH_E_NOMEM : HEARTH_OK);
    ht_backend_cpu.release(p);
    ht_backend_cpu.close(b);
    assert_int_equal(ht_test_alloc_get().n_live_bytes, live);
    return failed;
}

static void test_failing(void **state) {
    (void)state;
    golden_dir();
    for (size_t i = 0; i < sizeof models / sizeof *models; i++) {
        struct golden g;
        uint64_t n = 1;
        golden_open(models[i], &g);
        while (fails_at(&g, n, false)) n++;
        assert_true(n > 10);
        for (n = 1; fails_at(&g, n, true);) n++;
        golden_close(&g);
    }
}

// Levels that repack do so: other tests pass over what says that it cannot.
static void test_repacks(void **state) {
    (void)state;
    golden_dir();
    struct golden g;
    golden_open("quants/qwen3.Q8_0", &g);
    static const char *const levels[] = {"avx2", "avx2vnni", "avx512vnni", "avx512bf16", "amx"};
    for (size_t i = 0; i < sizeof levels / sizeof *levels; i++) {
        struct ht_backend_options o = {.level = levels[i], .n_threads = 1};
        struct hearth_error err;
        struct ht_backend *b;
        if (ht_backend_cpu.open(&o, &b, &err)) continue; // not of this machine
        ht_backend_cpu.close(b);
        assert_true(golden_can_repack(&g, &ht_backend_cpu, levels[i]));
    }
    golden_close(&g);
}

static void test_execute(void **state) {
    (void)state;
    golden_dir();
    struct golden g;
    golden_open(models[0], &g);
    struct hearth_error err = {0};
    struct ht_backend *b = open_backend(2);
    struct ht_prepared *p;
    assert_int_equal(ht_backend_cpu.prepare(b, g.plan, &limits, &p, &err), HEARTH_OK);
    uint32_t pages[] = {2, 0}, pos[] = {0, 1, 2, 3}, seq[4] = {0}, outputs[] = {1, 3};
    int32_t tokens[] = {5, 6, 7, 8};
    struct ht_batch_seq s = {pages, 2};
    struct ht_batch batch = {.n_tokens = 4,
                             .tokens = tokens,
                             .pos = pos,
                             .seq = seq,
                             .n_seqs = 1,
                             .seqs = &s,
                             .n_outputs = 2,
                             .outputs = outputs};
    const float *logits = NULL;
    ht_test_alloc_reset();
    assert_int_equal(ht_backend_cpu.execute(p, &batch, &logits, &err), HEARTH_OK);
    assert_non_null(logits);
    batch.n_tokens = 1; // one token, and none whose logits are wanted
    batch.n_outputs = 0;
    assert_int_equal(ht_backend_cpu.execute(p, &batch, &logits, &err), HEARTH_OK);
    assert_int_equal(ht_test_alloc_get().n_calls, 0);
    tokens[0] = 1 << 20;
    assert_int_equal(ht_backend_cpu.execute(p, &batch, &logits, &err), HEARTH_E_ARG);
    assert_true(strlen(err.message) > 20);
    tokens[0] = 5;
    pages[0] = 3;
    assert_int_equal(ht_backend_cpu.execute(p, &batch, &logits, &err), HEARTH_E_ARG);
    ht_backend_cpu.release(p);
    ht_backend_cpu.close(b);
    golden_close(&g);
}

// Says that the batch is not wanted when it is asked for the n-th time.
static bool no_more(void *arg) {
    uint32_t *n = arg;
    return --*n == 0;
}

// A batch that is called off in front of any barrier ends there, leaves what was in the pages
// before, and the next one gives the bits that it would have given.
static void check_unwanted(const struct golden *g, int n_threads, uint32_t n_last) {
    struct hearth_error err = {0};
    struct ht_backend *b = open_backend(n_threads);
    struct ht_prepared *p;
    assert_int_equal(ht_backend_cpu.prepare(b, g->plan, &limits, &p, &err), HEARTH_OK);
    uint32_t pages[] = {2, 0}, pos[] = {0, 1, 2, 3, 4, 5}, seq[6] = {0}, outputs[] = {0};
    int32_t tokens[] = {5, 6, 7, 8, 9, 4};
    struct ht_batch_seq s = {pages, 2};
    struct ht_batch first = {.n_tokens = 3,
                             .tokens = tokens,
                             .pos = pos,
                             .seq = seq,
                             .n_seqs = 1,
                             .seqs = &s,
                             .outputs = outputs};
    struct ht_batch last = first;
    last.tokens += 3;
    last.pos += 3;
    last.n_tokens = n_last;
    last.n_outputs = 1;
    const float *logits = NULL;
    size_t n_bytes = g->plan->n_vocab * sizeof *logits;
    float *want = malloc(n_bytes);
    assert_non_null(want);
    assert_int_equal(ht_backend_cpu.execute(p, &first, &logits, &err), HEARTH_OK);
    assert_int_equal(ht_backend_cpu.execute(p, &last, &logits, &err), HEARTH_OK);
    memcpy(want, logits, n_bytes);
    uint32_t n = 0, n_left;
    last.unwanted_arg = &n_left;
    enum hearth_status status;
    do {
        n_left = ++n;
        last.unwanted = no_more;
        status = ht_backend_cpu.execute(p, &last, &logits, &err);
        assert_true(status == HEARTH_OK || status == HEARTH_E_CANCELLED);
        last.unwanted = NULL;
        assert_int_equal(ht_backend_cpu.execute(p, &last, &logits, &err), HEARTH_OK);
        assert_memory_equal(logits, want, n_bytes);
    } while (status);
    assert_true(n > 3 * g->plan->n_layers); // some times a layer
    free(want);
    ht_backend_cpu.release(p);
    ht_backend_cpu.close(b);
}

static void test_unwanted(void **state) {
    (void)state;
    golden_dir();
    for (size_t i = 0; i < sizeof models / sizeof *models; i++) {
        struct golden g;
        golden_open(models[i], &g);
        for (int n_threads = 1; n_threads <= 3; n_threads++) {
            check_unwanted(&g, n_threads, 1);
            check_unwanted(&g, n_threads, 3);
        }
        golden_close(&g);
    }
}

static void test_levels(void **state) {
    (void)state;
    struct hearth_error err = {0};
    struct ht_backend *b = NULL;
    struct ht_backend_options o = {.level = "mmx", .n_threads = 1};
    assert_int_equal(ht_backend_cpu.open(&o, &b, &err), HEARTH_E_ARG);
    assert_non_null(strstr(err.message, "avx512vnni"));
#if defined(__x86_64__)
    o.level = "neon";
#else
    o.level = "avx2";
#endif
    assert_int_equal(ht_backend_cpu.open(&o, &b, &err), HEARTH_E_UNSUPPORTED);
    o.level = "scalar";
    assert_int_equal(ht_backend_cpu.open(&o, &b, &err), HEARTH_OK);
    assert_string_equal(ht_backend_cpu.describe(b), "cpu scalar, 1 thread");
    ht_backend_cpu.close(b);
    ht_backend_cpu.close(NULL);
    ht_backend_cpu.release(NULL);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_announced), cmocka_unit_test(test_failing),
        cmocka_unit_test(test_repacks),   cmocka_unit_test(test_execute),
        cmocka_unit_test(test_unwanted),  cmocka_unit_test(test_levels),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
