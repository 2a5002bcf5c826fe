// SPDX-License-Identifier: MIT
// The cpu backend's profile: bytes and multiply-adds against a count by the names of the model's
// tensors, the roles of linear steps in every architecture, the same logits whether it counts,
// times, or neither, and a failing allocation.
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "alloc_mem.h"
#include "cmocka_all.h"

#include "backend/backend.h"
#include "model/model.h"
#include "tiny.h"

enum { N_TOKENS = 7 };

static const struct ht_limits limits = {
    .max_tokens = 8, .max_outputs = 2, .max_ctx = 64, .n_pages = 2, .kv_type = HEARTH_KV_F16};

struct fixture {
    struct ht_gguf *g;
    struct ht_model *m;
    const struct ht_plan *plan;
    struct ht_backend *b;
    struct ht_prepared *p;
};

static void fixture_open(struct fixture *f, const char *arch, int n_threads) {
    struct hearth_error err;
    struct ht_backend_options o = {.n_threads = n_threads};
    tiny_open(arch, NULL, NULL, &f->g, &f->m);
    f->plan = ht_model_plan(f->m);
    if (ht_backend_cpu.open(&o, &f->b, &err) ||
        ht_backend_cpu.prepare(f->b, f->plan, &limits, &f->p, &err))
        fail_msg("%s: %s", arch, err.message);
}

static void fixture_close(struct fixture *f) {
    ht_backend_cpu.release(f->p);
    ht_backend_cpu.close(f->b);
    ht_model_free(f->m);
    ht_gguf_close(f->g);
}

// N_TOKENS tokens from position 0, logits of the last n_outputs; then one token more.
static void run(struct fixture *f, uint32_t n_outputs, float *logits) {
    int32_t tokens[N_TOKENS + 1];
    uint32_t pos[N_TOKENS + 1], seq[N_TOKENS + 1] = {0}, pages[2] = {1, 0}, outputs[2];
    for (uint32_t i = 0; i <= N_TOKENS; i++) tokens[i] = (int32_t)(i * 11 % 96), pos[i] = i;
    struct ht_batch_seq s = {pages, 2};
    for (uint32_t i = 0; i < n_outputs; i++) outputs[i] = N_TOKENS - n_outputs + i;
    struct ht_batch b = {N_TOKENS, tokens, pos, seq, 1, &s, n_outputs, outputs, NULL, NULL};
    struct hearth_error err;
    const float *got;
    if (ht_backend_cpu.execute(f->p, &b, &got, &err)) fail_msg("%s", err.message);
    memcpy(logits, got, (size_t)n_outputs * f->plan->n_vocab * sizeof *logits);
    uint32_t zero = 0;
    b = (struct ht_batch){1, tokens + N_TOKENS, pos + N_TOKENS, seq, 1, &s, 1, &zero, NULL, NULL};
    if (ht_backend_cpu.execute(f->p, &b, &got, &err)) fail_msg("%s", err.message);
    memcpy(logits + (size_t)n_outputs * f->plan->n_vocab, got, f->plan->n_vocab * sizeof *logits);
}

static bool nobody_wants(void *arg) {
    (void)arg;
    return true;
}

// A pass of one token that ends at its first barrier.
static void call_off(struct fixture *f) {
    uint32_t zero = 0, page = 0;
    int32_t token = 7;
    struct ht_batch_seq s = {&page, 1};
    struct ht_batch b = {1, &token, &zero, &zero, 1, &s, 1, &zero, nobody_wants, NULL};
    struct hearth_error err;
    const float *got;
    assert_int_equal(ht_backend_cpu.execute(f->p, &b, &got, &err), HEARTH_E_CANCELLED);
}

static struct hearth_step_kind kind_named(const struct fixture *f, const char *name,
                                          const char *role) {
    struct hearth_step_kind k;
    for (size_t i = 0; ht_backend_cpu.profile_get(f->p, i, &k); i++)
        if (strcmp(k.name, name) == 0 && strcmp(k.role, role) == 0) return k;
    fail_msg("no kind %s %s", name, role);
    return k;
}

static const struct ht_weight *weight(const struct ht_plan *p, const char *name) {
    for (uint32_t i = 0; i < p->n_weights; i++)
        if (strcmp(p->weights[i].name, name) == 0) return &p->weights[i];
    fail_msg("no weight %s", name);
    return NULL;
}

static double elements(const struct ht_plan *p, const char *name) {
    const struct ht_weight *w = weight(p, name);
    return (double)w->ne[0] * (double)w->ne[1];
}

// Two layers; the second has queries, attention and what follows for the wanted rows alone.
static void test_work(void **state) {
    (void)state;
    struct fixture f;
    struct hearth_error err;
    fixture_open(&f, "qwen3", 2);
    assert_int_equal(ht_backend_cpu.profile(f.p, HEARTH_PROFILE_WORK, &err), HEARTH_OK);
    float *logits = malloc(4 * f.plan->n_vocab * sizeof *logits);
    call_off(&f); // counts nothing
    run(&f, 2, logits);
    const struct ht_plan *p = f.plan;
    double first = N_TOKENS + 1, last = 2 + 1; // rows of the layers
    double down = elements(p, "blk.0.ffn_down.weight"), o = elements(p, "blk.0.attn_output.weight");
    double q = elements(p, "blk.0.attn_q.weight");
    double kv = elements(p, "blk.0.attn_k.weight") + elements(p, "blk.0.attn_v.weight");
    struct hearth_step_kind k = kind_named(&f, "linear", "down");
    assert_true(k.macs == down * (first + last));
    assert_true(k.bytes == 2 * 2 * 4 * down); // two passes, two layers, F32
    assert_true(fabs(k.f32_load / (k.macs / 0.97) - 1) < 1e-12);
    assert_true(k.int8_load == 0 && k.bf16_load == 0);
    assert_int_equal(k.n_steps, 4);
    assert_int_equal(k.ns, 0);
    assert_true(kind_named(&f, "linear", "o").macs == o * (first + last));
    assert_true(kind_named(&f, "linear", "qkv").macs == 2 * kv * first + q * (first + last));
    assert_true(kind_named(&f, "linear", "qkv").bytes == 2 * 2 * 4 * (q + kv));
    k = kind_named(&f, "linear", "lm_head");
    assert_true(k.macs == last * 32 * 96);
    // Positions seen: 1 + 2 + ... + 7 by the first pass (6 and 7 in the second layer), of which 7
    // are read; 8 by the second.
    k = kind_named(&f, "attention", "");
    double seen = 28 + 8 + 6 + 7 + 8;
    assert_true(k.macs == 2.0 * seen * (double)weight(p, "blk.0.attn_q.weight")->ne[1]);
    assert_true(k.bytes == 2 * 2.0 * (7 + 8) * (double)p->n_kv_heads * p->head_dim * 2);
    // From zero again.
    assert_int_equal(ht_backend_cpu.profile(f.p, HEARTH_PROFILE_WORK, &err), HEARTH_OK);
    assert_true(kind_named(&f, "linear", "down").macs == 0);
    free(logits);
    fixture_close(&f);
}

static void test_experts(void **state) {
    (void)state;
    struct fixture f;
    struct hearth_error err;
    fixture_open(&f, "qwen3moe", 2);
    assert_int_equal(ht_backend_cpu.profile(f.p, HEARTH_PROFILE_STEPS, &err), HEARTH_OK);
    float *logits = malloc(4 * f.plan->n_vocab * sizeof *logits);
    run(&f, 2, logits);
    const struct ht_weight *w = weight(f.plan, "blk.0.ffn_down_exps.weight");
    uint32_t n_used = 0;
    for (uint32_t i = 0; i < f.plan->n_steps; i++)
        if (f.plan->steps[i].op == HT_OP_MOE_FFN) n_used = f.plan->steps[i].u.moe.n_used;
    double one = (double)w->ne[0] * (double)w->ne[1] * n_used;
    assert_true(kind_named(&f, "linear", "experts down").macs == one * (N_TOKENS + 1 + 2 + 1));
    assert_true(kind_named(&f, "linear", "experts gate/up").macs == 2 * one * (N_TOKENS + 4));
    double bytes = kind_named(&f, "linear", "experts down").bytes; // 2 layers, 2 passes
    assert_true(bytes >= 4 * 4 * one && bytes <= 4 * (double)w->n_bytes);
    assert_true(kind_named(&f, "linear", "router").macs > 0);
    assert_true(kind_named(&f, "linear", "experts down").ns > 0);
    free(logits);
    fixture_close(&f);
}

// Every linear step of every architecture has a role, and nothing changes by looking.
static void test_roles_and_bits(void **state) {
    (void)state;
    for (size_t i = 0; i < TINY_N_ARCHS; i++) {
        struct fixture f;
        struct hearth_error err;
        fixture_open(&f, tiny_archs[i], 3);
        for (uint32_t s = 0; s < f.plan->n_steps; s++)
            if (f.plan->steps[s].op == HT_OP_LINEAR)
                assert_string_not_equal(ht_plan_role(f.plan, s), "other");
        size_t n = 3 * f.plan->n_vocab * sizeof(float);
        float *want = malloc(n), *got = malloc(n);
        run(&f, 2, want);
        for (int mode = HEARTH_PROFILE_STEPS; mode >= HEARTH_PROFILE_OFF; mode--) {
            assert_int_equal(ht_backend_cpu.profile(f.p, (enum hearth_profile)mode, &err),
                             HEARTH_OK);
            run(&f, 2, got);
            assert_memory_equal(got, want, n);
            assert_int_equal(kind_named(&f, "linear", "lm_head").ns > 0,
                             mode == HEARTH_PROFILE_STEPS);
            assert_int_equal(kind_named(&f, "linear", "lm_head").macs > 0,
                             mode != HEARTH_PROFILE_OFF);
        }
        free(want);
        free(got);
        fixture_close(&f);
    }
}

static void test_no_memory(void **state) {
    (void)state;
    struct fixture f;
    struct hearth_error err;
    fixture_open(&f, "llama", 2);
    uint64_t live = ht_test_alloc_get().n_live_bytes, n = 1;
    for (;; n++) {
        ht_test_alloc_fail_at(n);
        enum hearth_status st = ht_backend_cpu.profile(f.p, HEARTH_PROFILE_WORK, &err);
        bool failed = ht_test_alloc_failed();
        ht_test_alloc_fail_at(0);
        assert_int_equal(st, failed ? HEARTH_E_NOMEM : HEARTH_OK);
        if (!failed) break;
        assert_int_equal(ht_test_alloc_get().n_live_bytes, live);
    }
    assert_true(n > 3);
    fixture_close(&f);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_work),
        cmocka_unit_test(test_experts),
        cmocka_unit_test(test_roles_and_bits),
        cmocka_unit_test(test_no_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
