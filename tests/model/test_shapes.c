// SPDX-License-Identifier: MIT
// Heads in numbers and sizes that real models have and the golden models have not, and experts,
// through the cpu backend: threads that own several KV heads, unequal shares or none, groups of
// queries that do not fill a task or fill several, sizes that are no whole groups of rows. Every
// level is held to `ref` and, to the byte, to one thread's answer over threads, chunks and
// neighbours; levels to scalar.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backend/cpu/features.h"
#include "golden.h"
#include "tiny.h"

enum { BUSIEST = 3 }; // of the ways below
enum { DIM = 32, FFN = 64, N_LAYERS = 2, N_VOCAB = 96, N_TOKENS = 40, N_LONG = 600 };

struct shape {
    const char *arch; // llama, qwen3, which normalises queries and keys, or mistral3, whose queries
                      // grow every eight positions
    uint32_t n_heads, n_kv, head_dim;
    uint32_t n_rot, n_ffn; // 0: the whole head, FFN. Plans may turn less; no architecture does yet
};

static const struct shape shapes[] = {
    {"qwen3", 14, 2, 64, 0, 0},    {"llama", 7, 1, 80, 0, 0},    {"llama", 28, 4, 32, 0, 0},
    {"qwen3", 16, 8, 32, 0, 0},    {"llama", 12, 12, 64, 0, 0},  {"llama", 25, 25, 8, 0, 0},
    {"qwen3", 20, 20, 32, 0, 0},   {"llama", 9, 3, 96, 0, 0},    {"llama", 5, 1, 256, 0, 0},
    {"qwen3", 32, 1, 32, 0, 0},    {"llama", 6, 2, 100, 0, 0},   {"llama", 10, 5, 64, 0, 0},
    {"llama", 4, 2, 32, 16, 33},   {"qwen3", 3, 3, 66, 20, 95},  {"llama", 8, 2, 48, 2, 97},
    {"qwen3", 4, 1, 512, 510, 31}, {"mistral3", 8, 2, 32, 0, 0},
};

// ---- models

struct edits {
    struct tiny_edit list[64];
    char names[64][64];
    int n;
};

static void set(struct edits *e, const char *arch, const char *key, uint32_t value) {
    snprintf(e->names[e->n], sizeof e->names[0], "%s.%s", arch, key);
    e->list[e->n] = (struct tiny_edit){TINY_U32, e->names[e->n], .u = value};
    e->n++;
}

static void reshape(struct edits *e, int layer, const char *tensor, uint64_t n_in, uint64_t n_out) {
    snprintf(e->names[e->n], sizeof e->names[0], "blk.%d.%s.weight", layer, tensor);
    e->list[e->n] = (struct tiny_edit){TINY_SHAPE, e->names[e->n], .n_dims = n_out > 0 ? 2 : 1,
                                       .ne = {n_in, n_out}};
    e->n++;
}

struct model {
    struct ht_gguf *file;
    struct ht_model *model;
    struct golden g;
    struct ht_plan plan; // the model's, where heads are turned in part
    struct ht_rope *ropes;
};

static void open_edited(struct model *m, const char *arch, const struct edits *e,
                        uint32_t n_tokens) {
    tiny_open(arch, e->list, NULL, &m->file, &m->model);
    int32_t *tokens = malloc(n_tokens * sizeof *tokens);
    assert_non_null(tokens);
    for (uint32_t i = 0; i < n_tokens; i++) tokens[i] = (int32_t)(i * 37 % N_VOCAB);
    m->g = (struct golden){.plan = ht_model_plan(m->model),
                           .tokens = tokens,
                           .n_tokens = n_tokens,
                           .n_vocab = N_VOCAB};
    m->ropes = NULL;
}

// Turns n_rot elements of a head, by the frequencies of the first ones.
static void turn_less(struct model *m, uint32_t n_rot) {
    m->plan = *m->g.plan;
    m->ropes = malloc(m->plan.n_ropes * sizeof *m->ropes);
    assert_non_null(m->ropes);
    for (uint32_t i = 0; i < m->plan.n_ropes; i++) {
        m->ropes[i] = m->plan.ropes[i];
        m->ropes[i].n_rot = n_rot;
    }
    m->plan.ropes = m->ropes;
    m->g.plan = &m->plan;
}

static void open_model(struct model *m, const struct shape *s, uint32_t n_tokens, uint32_t window) {
    static struct edits e;
    memset(&e, 0, sizeof e);
    set(&e, s->arch, "attention.head_count", s->n_heads);
    set(&e, s->arch, "attention.head_count_kv", s->n_kv);
    set(&e, s->arch, "attention.key_length", s->head_dim);
    set(&e, s->arch, "attention.value_length", s->head_dim);
    set(&e, s->arch, "context_length", N_LONG);
    if (window > 0) set(&e, s->arch, "attention.sliding_window", window);
    if (strcmp(s->arch, "mistral3") == 0) {
        set(&e, s->arch, "rope.scaling.original_context_length", 8);
        e.list[e.n++] =
            (struct tiny_edit){TINY_F32, "mistral3.attention.temperature_scale", .f = 0.5f};
    }
    uint32_t n_ffn = s->n_ffn > 0 ? s->n_ffn : FFN;
    set(&e, s->arch, "feed_forward_length", n_ffn);
    for (int l = 0; l < N_LAYERS; l++) {
        reshape(&e, l, "attn_q", DIM, (uint64_t)s->n_heads * s->head_dim);
        reshape(&e, l, "attn_k", DIM, (uint64_t)s->n_kv * s->head_dim);
        reshape(&e, l, "attn_v", DIM, (uint64_t)s->n_kv * s->head_dim);
        reshape(&e, l, "attn_output", (uint64_t)s->n_heads * s->head_dim, DIM);
        reshape(&e, l, "ffn_gate", DIM, n_ffn);
        reshape(&e, l, "ffn_up", DIM, n_ffn);
        reshape(&e, l, "ffn_down", n_ffn, DIM);
        if (strcmp(s->arch, "qwen3") != 0) continue;
        reshape(&e, l, "attn_q_norm", s->head_dim, 0);
        reshape(&e, l, "attn_k_norm", s->head_dim, 0);
    }
    open_edited(m, s->arch, &e, n_tokens);
    if (s->n_rot > 0) turn_less(m, s->n_rot);
}

static void close_model(struct model *m) {
    free(m->ropes);
    free(m->g.tokens);
    ht_model_free(m->model);
    ht_gguf_close(m->file);
}

// ---- runs

// How far a type of pages may be from the same type in ref: where a number lies between two
// roundings, the two may take different ones.
static double rounding(enum hearth_kv_type type) {
    return type == HEARTH_KV_F32                              ? 1e-11
           : type == HEARTH_KV_BF16 || type == HEARTH_KV_Q8_0 ? 1e-4
                                                              : 1e-6;
}

static void check_same(const struct model *m, const float *want, const struct golden_run *r) {
    float *got = golden_logits(&m->g, r);
    size_t n = m->g.n_tokens - r->from, at = (size_t)r->from * N_VOCAB;
    if (memcmp(got + at, want + at, n * N_VOCAB * sizeof *got) != 0)
        fail_msg("level %s, %d threads, chunks of %u, %u others, from %u on: other bytes", r->level,
                 r->n_threads, r->chunk, r->n_among, r->from);
    free(got);
}

// One thread's logits of all tokens at once, as near to ref as rounding allows.
static float *first_logits(const struct model *m, struct golden_run r) {
    float *got = golden_logits(&m->g, &r);
    struct golden_run ref = {.ops = &ht_backend_ref, .kv_type = r.kv_type};
    float *want = golden_logits(&m->g, &ref);
    double nmse = golden_nmse(got, want, (size_t)m->g.n_tokens * N_VOCAB);
    if (!(nmse < rounding(r.kv_type))) fail_msg("level %s: NMSE %g to ref", r.level, nmse);
    free(want);
    return got;
}

static bool plan_holds(const struct model *m, enum hearth_kv_type type) {
    struct hearth_error err;
    struct ht_limits l = {
        .max_tokens = 1, .max_outputs = 1, .max_ctx = 32, .n_pages = 1, .kv_type = type};
    return ht_limits_check(m->g.plan, &l, &err) == HEARTH_OK;
}

static void check_shape(const struct model *m, enum hearth_kv_type type) {
    static const struct {
        int n_threads;
        uint32_t chunk, n_among, from;
    } ways[] = {{1, 1, 0, 0},
                {2, 0, 0, 0},
                {2, 1, 0, 0},
                {2, 7, 32, 0},
                {3, 1, 3, 0},
                {5, 7, 5, 0},
                {1, 0, 0, N_TOKENS - 1},
                {2, 0, 0, N_TOKENS - 1},
                {3, 9, 2, N_TOKENS - 3}};
    float *scalar = NULL;
    for (int l = 0; l < HT_CPU_N_LEVELS; l++) {
        if (!ht_cpu_level_usable((enum ht_cpu_level)l)) continue;
        struct golden_run r = {.ops = &ht_backend_cpu,
                               .level = ht_cpu_level_name((enum ht_cpu_level)l),
                               .n_threads = 1,
                               .kv_type = type};
        if (scalar)
            check_same(m, scalar, &r);
        else
            scalar = first_logits(m, r);
        // What walks over heads is the same at all levels but for the rows of a task.
        bool all = l == HT_CPU_SCALAR || l == (int)ht_cpu_best_level();
        for (size_t i = all ? 0 : BUSIEST; i < (all ? sizeof ways / sizeof *ways : BUSIEST + 1);
             i++) {
            r.n_threads = ways[i].n_threads;
            r.chunk = ways[i].chunk;
            r.n_among = ways[i].n_among;
            r.from = ways[i].from;
            check_same(m, scalar, &r);
        }
    }
    free(scalar);
}

static void test_shapes(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i += GOLDEN_STEP) {
        const struct shape *s = &shapes[i];
        struct model m;
        print_message("%s, %u heads on %u of %u (%u turn), feed-forward %u\n", s->arch, s->n_heads,
                      s->n_kv, s->head_dim, s->n_rot ? s->n_rot : s->head_dim,
                      s->n_ffn ? s->n_ffn : FFN);
        open_model(&m, s, N_TOKENS, 0);
        check_shape(&m, HEARTH_KV_I16);
        // One of the others in turn.
        enum hearth_kv_type other = (enum hearth_kv_type)(i % HEARTH_KV_I16);
        if (plan_holds(&m, other)) check_shape(&m, other);
        close_model(&m);
    }
}

// Experts have no heads of their own, but steps over tokens, pieces of experts and ranks, between
// which threads have to meet as well.
static void test_experts(void **state) {
    (void)state;
    static struct edits e;
    set(&e, "qwen3moe", "context_length", N_LONG);
    struct model m;
    open_edited(&m, "qwen3moe", &e, N_TOKENS);
    check_shape(&m, HEARTH_KV_I16);
    close_model(&m);
}

// One token after the other behind several segments of positions, whoever owns the heads.
static void check_long(const struct shape *s, enum hearth_kv_type type, uint32_t window) {
    struct model m;
    open_model(&m, s, N_LONG, window);
    struct golden_run r = {.ops = &ht_backend_cpu, .n_threads = 1, .kv_type = type};
    float *want = first_logits(&m, r);
    r.chunk = 1;
    for (r.n_threads = GOLDEN_STEP; r.n_threads <= 3; r.n_threads++) check_same(&m, want, &r);
    r.chunk = 90;
    r.n_among = 2;
    check_same(&m, want, &r);
    r = (struct golden_run){.ops = &ht_backend_cpu, .n_threads = 2, .kv_type = type};
    r.from = N_LONG - 1;
    check_same(&m, want, &r);
    free(want);
    close_model(&m);
}

static void test_long(void **state) {
    (void)state;
    check_long(&shapes[0], HEARTH_KV_I16, 0);
    check_long(&(struct shape){"llama", 8, 4, 32, 0, 0}, HEARTH_KV_I16, 300);
    check_long(&(struct shape){"llama", 6, 2, 32, 0, 0}, HEARTH_KV_Q8_0, 100);
    check_long(&(struct shape){"llama", 4, 2, 128, 0, 0}, HEARTH_KV_F32, 0); // long runs of pages
    check_long(&(struct shape){"llama", 4, 4, 128, 0, 0}, HEARTH_KV_I16, 0); // keys in rows
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_shapes),
                                       cmocka_unit_test(test_experts), cmocka_unit_test(test_long)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
