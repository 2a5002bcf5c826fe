// SPDX-License-Identifier: MIT
// Plans and batches that break a rule, one at a time; scratch layouts of random plans against a
// brute-force check of who is alive when; and every allocation on the way from a file to logits
// made to fail.
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "alloc_mem.h"
#include "golden.h"
#include "tiny.h"

// ---- plans that break a rule: a good one, copied so that it can be spoiled

struct copy {
    struct ht_gguf *g;
    struct ht_model *m;
    struct ht_plan p; // points to the tables below
    struct ht_tensor *tensors;
    struct ht_weight *weights;
    struct ht_rope *ropes;
    struct ht_step *steps;
};

static void *duplicate(const void *data, size_t n, size_t size) {
    void *p = calloc(n + 1, size);
    assert_non_null(p);
    if (n > 0) memcpy(p, data, n * size);
    return p;
}

static void open_copy(struct copy *c, const char *arch) {
    tiny_open(arch, NULL, NULL, &c->g, &c->m);
    c->p = *ht_model_plan(c->m);
    c->p.tensors = c->tensors = duplicate(c->p.tensors, c->p.n_tensors, sizeof *c->tensors);
    c->p.weights = c->weights = duplicate(c->p.weights, c->p.n_weights, sizeof *c->weights);
    c->p.ropes = c->ropes = duplicate(c->p.ropes, c->p.n_ropes, sizeof *c->ropes);
    c->p.steps = c->steps = duplicate(c->p.steps, c->p.n_steps, sizeof *c->steps);
}

static void close_copy(struct copy *c) {
    free(c->tensors);
    free(c->weights);
    free(c->ropes);
    free(c->steps);
    ht_model_free(c->m);
    ht_gguf_close(c->g);
}

// The first step of a kind.
static struct ht_step *step(struct copy *c, enum ht_op op) {
    for (uint32_t i = 0; i < c->p.n_steps; i++)
        if (c->steps[i].op == op) return &c->steps[i];
    fail_msg("no %s", ht_op_name(op));
    return NULL;
}

static struct ht_tensor *out_of(struct copy *c, enum ht_op op) {
    return &c->tensors[step(c, op)->out[0]];
}

static struct ht_weight *weight_of(struct copy *c, enum ht_op op, int i) {
    return &c->weights[step(c, op)->w[i]];
}

static void no_steps(struct copy *c) {
    c->p.n_steps = 0;
}
static void no_logits(struct copy *c) {
    c->p.logits = c->p.n_tensors;
}
static void short_plan(struct copy *c) {
    c->p.n_steps--;
}
static void vocab(struct copy *c) {
    c->p.n_vocab--;
}
static void same_name(struct copy *c) {
    c->tensors[1].name = c->tensors[0].name;
}
static void zero_width(struct copy *c) {
    c->tensors[2].width = 0;
}
static void bad_type(struct copy *c) {
    out_of(c, HT_OP_EMBED)->type = HT_TYPE_I32;
}
static void wide_embed(struct copy *c) {
    out_of(c, HT_OP_EMBED)->width++;
}
static void bad_in(struct copy *c) {
    step(c, HT_OP_ADD)->in[1] = c->p.n_tensors;
}
static void bad_out(struct copy *c) {
    step(c, HT_OP_ADD)->out[0] = HT_NONE;
}
static void bad_weight(struct copy *c) {
    step(c, HT_OP_LINEAR)->w[0] = c->p.n_weights;
}
static void early(struct copy *c) {
    step(c, HT_OP_ADD)->in[1] = c->p.logits;
}
static void twice(struct copy *c) {
    step(c, HT_OP_ADD)->out[0] = step(c, HT_OP_EMBED)->out[0];
}
static void one_out(struct copy *c) {
    c->steps[2].out[1] = c->steps[2].out[0];
}
static void count(struct copy *c) {
    step(c, HT_OP_ADD)->n_in = 1;
}
static void many(struct copy *c) {
    step(c, HT_OP_ADD)->n_in = 4;
}
static void add_width(struct copy *c) {
    step(c, HT_OP_ADD)->in[1] = step(c, HT_OP_LINEAR)->out[1];
}
static void no_norm_w(struct copy *c) {
    step(c, HT_OP_RMS_NORM)->w[0] = HT_NONE;
}
static void norm_eps(struct copy *c) {
    step(c, HT_OP_RMS_NORM)->u.norm.eps = NAN;
}
static void head_norm(struct copy *c) {
    step(c, HT_OP_HEAD_NORM)->u.norm.head_dim = 7;
}
static void linear_in(struct copy *c) {
    weight_of(c, HT_OP_LINEAR, 0)->ne[0] /= 2;
    weight_of(c, HT_OP_LINEAR, 0)->n_bytes /= 2;
}
static void bytes(struct copy *c) {
    weight_of(c, HT_OP_LINEAR, 0)->n_bytes--;
}
static void format(struct copy *c) {
    weight_of(c, HT_OP_LINEAR, 0)->format = HT_I16;
}
static void misaligned(struct copy *c) {
    weight_of(c, HT_OP_LINEAR, 0)->data++;
}
static void scaled_vector(struct copy *c) {
    static const float two = 2;
    c->weights[step(c, HT_OP_RMS_NORM)->w[0]].scale = &two;
}
static void misplaced_scale(struct copy *c) {
    static const float two[2] = {2, 2};
    const uint8_t *at = (const uint8_t *)two + 1;
    memcpy(&c->weights[step(c, HT_OP_LINEAR)->w[0]].scale, &at, sizeof at);
}
static void extra_weight(struct copy *c) {
    c->steps[c->p.n_steps - 1].w[2] = 0;
}
static void rope_id(struct copy *c) {
    step(c, HT_OP_ROPE)->u.rope.rope = 1;
}
static void rope_odd(struct copy *c) {
    c->ropes[0].n_rot = 7;
}
static void rope_far(struct copy *c) {
    c->ropes[0].far_beta = 0.1f;
}
static void rope_wide(struct copy *c) {
    step(c, HT_OP_ROPE)->u.rope.head_dim = 4;
}
static void rope_wider(struct copy *c) {
    step(c, HT_OP_ROPE)->u.rope.head_dim = 4;
    step(c, HT_OP_ROPE)->u.rope.n_heads = 8;
}
static void no_append(struct copy *c) {
    struct ht_step *s = step(c, HT_OP_KV_APPEND);
    memmove(s, s + 1, (size_t)(c->steps + c->p.n_steps - 1 - s) * sizeof *s);
    c->p.n_steps--;
}
static void two_appends(struct copy *c) {
    struct ht_step *s = step(c, HT_OP_KV_APPEND);
    s[1] = s[0];
}
static void layer(struct copy *c) {
    step(c, HT_OP_KV_APPEND)->layer = 2;
}
static void kv_heads(struct copy *c) {
    step(c, HT_OP_ATTENTION)->u.attn.n_kv_heads = 1;
}
static void heads(struct copy *c) {
    step(c, HT_OP_ATTENTION)->u.attn.n_heads = 3;
}
static void scale(struct copy *c) {
    step(c, HT_OP_ATTENTION)->u.attn.scale = INFINITY;
}
static void rows(struct copy *c) {
    out_of(c, HT_OP_SELECT)->rows = HT_ROWS_TOKENS;
}
static void mixed(struct copy *c) {
    for (uint32_t i = 0; i < c->p.n_steps; i++) // the last layer's residual without its select
        if (strcmp(c->tensors[c->steps[i].out[0]].name, "blk.1.attn_residual") == 0)
            c->steps[i].in[0] = step(c, HT_OP_EMBED)->out[0];
}
static void used(struct copy *c) {
    step(c, HT_OP_MOE_ROUTE)->u.moe.n_used = 5;
}
static void router(struct copy *c) {
    step(c, HT_OP_MOE_ROUTE)->u.moe.n_experts = 5;
}
static void ids(struct copy *c) {
    out_of(c, HT_OP_MOE_ROUTE)->type = HT_TYPE_F32;
}
static void experts(struct copy *c) {
    step(c, HT_OP_MOE_FFN)->w[2] = step(c, HT_OP_MOE_FFN)->w[0];
}
static void route(struct copy *c) {
    step(c, HT_OP_MOE_FFN)->u.moe.n_experts = 3;
}
static void stray_head(struct copy *c) { // o reads a query
    struct ht_step *a = step(c, HT_OP_ATTENTION);
    assert_int_equal(a[1].op, HT_OP_LINEAR);
    a[1].in[0] = a->in[0];
}
static void turned_late(struct copy *c) { // attention reads what the step behind it rotates
    struct ht_step *r = step(c, HT_OP_ROPE), *a = step(c, HT_OP_ATTENTION), rope = *r;
    a->in[0] = r->in[0];
    memmove(r, r + 1, (size_t)(a - r) * sizeof *r);
    *a = rope;
}
static void odd_heads(struct copy *c) {
    c->p.n_kv_heads = 3;
}
static void no_op(struct copy *c) {
    c->steps[3].op = HT_N_OPS;
}
static void act(struct copy *c) {
    step(c, HT_OP_MOE_FFN)->u.moe.kind = (enum ht_act)9;
}

static const struct {
    void (*spoil)(struct copy *c);
    const char *sentence;
} bad_plans[] = {
    {no_steps, "a plan of 0 steps"},
    {no_logits, "never writes its logits"},
    {short_plan, "never writes its logits"},
    {vocab, "expected 95"},
    {same_name, "have one name, embd"},
    {zero_width, "has no name, type or width"},
    {bad_type, "step 0 (embed): embd has the wrong type"},
    {wide_embed, "expected 33"},
    {bad_in, "input id"},
    {bad_out, "output id"},
    {bad_weight, "weight id"},
    {early, "reads logits before it is written"},
    {twice, "writes embd a second time"},
    {one_out, "one tensor for two outputs"},
    {count, "1 inputs and 1 outputs, expected 2 and 1"},
    {many, "4 inputs"},
    {add_width, "has width 16, expected 32"},
    {no_norm_w, "weight 0 is missing"},
    {norm_eps, "eps is nan"},
    {head_norm, "which heads of 7 do not divide"},
    {linear_in, "has 16 in dimension 0, expected 32"},
    {bytes, "its shape wants 4096"},
    {format, "has format I16"},
    {misaligned, "multiple of 4 bytes"},
    {scaled_vector, "vector blk.0.attn_norm.weight has a scale"},
    {misplaced_scale, "the scale of weight blk.0.attn_q.weight is at no multiple of 4 bytes"},
    {extra_weight, "weight 2 has no output"},
    {rope_id, "rope id out of range"},
    {rope_odd, "n_rot 7"},
    {rope_far, "far_beta 0.1, far_period 0"},
    {rope_wide, "expected 4 heads of 4"},
    {rope_wider, "rotates 8 of a head's 4"},
    {no_append, "no kv_append of layer 0 before it"},
    {two_appends, "a second one for layer 0"},
    {layer, "layer 2 has no pages"},
    {kv_heads, "1 KV heads of 8, the plan's pages hold 2 of 8"},
    {heads, "expected 3 heads of 8"},
    {scale, "scale inf"},
    {rows, "has rows of the wrong kind"},
    {mixed, "rows of two kinds"},
    {used, "5 of 4 experts"},
    {router, "has width 4, expected 5"},
    {ids, "has the wrong type"},
    {experts, "in dimension 0, expected 64"},
    {route, "input 1 is no route over 3 experts"},
    {stray_head, "which is for steps over heads of 8"},
    {turned_late, "attention has read blk.0.attn_q_norm already"},
    {odd_heads, "heads, for 3 KV heads"},
    {no_op, "no such operation"},
    {act, "no such activation"},
};

static void test_bad_plans(void **state) {
    (void)state;
    struct hearth_error err = {0};
    for (size_t i = 0; i < sizeof bad_plans / sizeof bad_plans[0]; i++) {
        struct copy c;
        open_copy(&c, "qwen3moe");
        assert_int_equal(ht_plan_check(&c.p, &err), HEARTH_OK);
        bad_plans[i].spoil(&c);
        if (ht_plan_check(&c.p, &err) == HEARTH_OK) fail_msg("%s: passed", bad_plans[i].sentence);
        if (!strstr(err.message, bad_plans[i].sentence))
            fail_msg("\"%s\" is not in \"%s\"", bad_plans[i].sentence, err.message);
        close_copy(&c);
    }
}

// ---- limits and batches

static void test_limits(void **state) {
    (void)state;
    struct copy c;
    struct hearth_error err;
    open_copy(&c, "gpt2");
    struct ht_limits l = {
        .max_tokens = 8, .max_outputs = 1, .max_ctx = 64, .n_pages = 2, .kv_type = HEARTH_KV_F16};
    assert_int_equal(ht_limits_check(&c.p, &l, &err), HEARTH_OK);
    l.max_ctx = 65; // as many positions as were learned, and no more
    assert_int_equal(ht_limits_check(&c.p, &l, &err), HEARTH_E_ARG);
    assert_non_null(strstr(err.message, "position_embd.weight holds 64 positions at most"));
    l.max_ctx = 64;
    l.kv_type = HEARTH_KV_BF16;
    assert_int_equal(ht_limits_check(&c.p, &l, &err), HEARTH_OK);
    l.kv_type = HEARTH_KV_Q8_0; // heads of 8
    assert_int_equal(ht_limits_check(&c.p, &l, &err), HEARTH_E_ARG);
    assert_non_null(strstr(err.message, "q8_0 (kv_type, --kv-type) hold blocks of 32"));
    c.p.head_dim = 96;
    assert_int_equal(ht_limits_check(&c.p, &l, &err), HEARTH_OK);
    l.kv_type = HEARTH_KV_I16;
    assert_int_equal(ht_limits_check(&c.p, &l, &err), HEARTH_OK);
    c.p.head_dim = 1024;
    assert_int_equal(ht_limits_check(&c.p, &l, &err), HEARTH_OK);
    c.p.head_dim = 1026;
    assert_int_equal(ht_limits_check(&c.p, &l, &err), HEARTH_E_ARG);
    c.p.head_dim = 15;
    assert_int_equal(ht_limits_check(&c.p, &l, &err), HEARTH_E_ARG);
    assert_non_null(
        strstr(err.message, "i16 (kv_type, --kv-type) hold an even number of elements"));
    assert_non_null(strstr(err.message, "have 15: f16"));
    l.kv_type = (enum hearth_kv_type)HT_N_KV_TYPES;
    assert_int_equal(ht_limits_check(&c.p, &l, &err), HEARTH_E_ARG);
    l.kv_type = HEARTH_KV_F16;
    l.max_ctx = 0;
    assert_int_equal(ht_limits_check(&c.p, &l, &err), HEARTH_E_ARG);
    close_copy(&c);
}

struct batch {
    struct ht_batch b;
    int32_t tokens[4];
    uint32_t pos[4], seq[4], pages[2][2], outputs[2];
    struct ht_batch_seq seqs[2];
};

static void fill(struct batch *x) { // two sequences: 31, 32 and 0, 1
    *x = (struct batch){.tokens = {1, 2, 3, 95},
                        .pos = {31, 32, 0, 1},
                        .seq = {1, 1, 0, 0},
                        .pages = {{2, 1}, {0, 3}},
                        .outputs = {1, 3}};
    for (int i = 0; i < 2; i++) x->seqs[i] = (struct ht_batch_seq){x->pages[i], 2};
    x->b = (struct ht_batch){.n_tokens = 4,
                             .tokens = x->tokens,
                             .pos = x->pos,
                             .seq = x->seq,
                             .n_seqs = 2,
                             .seqs = x->seqs,
                             .n_outputs = 2,
                             .outputs = x->outputs};
}

static void b_many(struct batch *x) {
    x->b.n_tokens = 5;
}
static void b_none(struct batch *x) {
    x->b.n_tokens = 0;
}
static void b_outputs(struct batch *x) {
    x->b.n_outputs = 3;
}
static void b_token(struct batch *x) {
    x->tokens[3] = 96;
}
static void b_negative(struct batch *x) {
    x->tokens[0] = -1;
}
static void b_seq(struct batch *x) {
    x->seq[3] = 2;
}
static void b_gap(struct batch *x) {
    x->pos[1] = 33;
}
static void b_back(struct batch *x) {
    x->pos[1] = 31;
}
static void b_ctx(struct batch *x) {
    x->pos[0] = 39, x->pos[1] = 40;
}
static void b_no_page(struct batch *x) {
    x->seqs[1].n_pages = 1;
}
static void b_page(struct batch *x) {
    x->pages[0][1] = 4;
}
static void b_row(struct batch *x) {
    x->outputs[1] = 4;
}
static void b_order(struct batch *x) {
    x->outputs[1] = 1;
}

static void test_batches(void **state) {
    (void)state;
    static const struct {
        void (*spoil)(struct batch *x);
        const char *sentence;
    } cases[] = {
        {b_many, "a batch of 5 tokens"},
        {b_none, "a batch of 0 tokens"},
        {b_outputs, "3 outputs"},
        {b_token, "id 96 is outside the vocabulary of 96"},
        {b_negative, "id -1 is outside"},
        {b_seq, "sequence 2 of 2"},
        {b_gap, "position 33 follows position 31"},
        {b_back, "position 31 follows position 31"},
        {b_ctx, "position 40 has no place in a context of 40"},
        {b_no_page, "position 32 has no place"},
        {b_page, "page id 4, there are 4"},
        {b_row, "output 1 is row 4"},
        {b_order, "output 1 is row 1"},
    };
    struct copy c;
    struct hearth_error err;
    struct batch x;
    open_copy(&c, "llama");
    const struct ht_limits l = {.max_tokens = 4, .max_outputs = 2, .max_ctx = 40, .n_pages = 4};
    fill(&x);
    assert_int_equal(ht_batch_check(&c.p, &l, &x.b, &err), HEARTH_OK);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        fill(&x);
        cases[i].spoil(&x);
        if (ht_batch_check(&c.p, &l, &x.b, &err) != HEARTH_E_ARG)
            fail_msg("%s: passed", cases[i].sentence);
        if (!strstr(err.message, cases[i].sentence))
            fail_msg("\"%s\" is not in \"%s\"", cases[i].sentence, err.message);
    }
    close_copy(&c);
}

// ---- scratch

enum { MAX_T = 120, MAX_S = 60 };

static uint32_t random_below(uint32_t *seed, uint32_t n) {
    *seed = *seed * 1664525u + 1013904223u;
    return (*seed >> 8) % n;
}

struct random_plan {
    struct ht_plan p;
    struct ht_tensor tensors[MAX_T];
    struct ht_step steps[MAX_S];
};

static void make_random(struct random_plan *r, uint32_t *seed) {
    uint32_t n = 0, n_steps = 1 + random_below(seed, MAX_S);
    for (uint32_t s = 0; s < n_steps; s++) {
        struct ht_step *st = &r->steps[s];
        *st = (struct ht_step){.op = HT_OP_ADD, .n_in = n ? random_below(seed, 4) : 0};
        for (uint32_t i = 0; i < st->n_in; i++) // mostly young ones
            st->in[i] = n - 1 - random_below(seed, random_below(seed, 4) ? (n < 5 ? n : 5) : n);
        st->n_out = 1 + random_below(seed, 2);
        for (uint32_t i = 0; i < st->n_out; i++) {
            r->tensors[n] = (struct ht_tensor){
                "t", HT_TYPE_F32, random_below(seed, 4) ? HT_ROWS_TOKENS : HT_ROWS_OUTPUTS,
                1 + random_below(seed, 3000)};
            st->out[i] = n++;
        }
    }
    r->p = (struct ht_plan){.tensors = r->tensors,
                            .steps = r->steps,
                            .n_tensors = n,
                            .n_steps = n_steps,
                            .logits = random_below(seed, n)};
}

// Is tensor t needed at step s? The slow way: written at or before it, and read at or after it.
static bool alive(const struct ht_plan *p, uint32_t t, uint32_t s) {
    bool before = false, after = t == p->logits;
    for (uint32_t k = 0; k < p->n_steps; k++) {
        const struct ht_step *st = &p->steps[k];
        for (uint32_t i = 0; i < st->n_out; i++) {
            before = before || (k <= s && st->out[i] == t);
            after = after || (k == s && st->out[i] == t); // written here, read or not
        }
        for (uint32_t i = 0; i < st->n_in; i++) after = after || (k >= s && st->in[i] == t);
    }
    return before && after;
}

// No two living tensors share a byte; the block is as large as its last byte. Returns the block's
// size over the largest live set.
static double check_layout(const struct ht_plan *p, uint32_t tokens, uint32_t outputs,
                           const bool *skip) {
    uint64_t offset[2048], size[2048], n_bytes = 0, peak = 0, last = 0;
    struct hearth_error err;
    assert_true(p->n_tensors <= 2048);
    if (ht_plan_bind(p, tokens, outputs, skip, offset, &n_bytes, &err)) fail_msg("%s", err.message);
    for (uint32_t i = 0; i < p->n_tensors; i++) {
        uint32_t n_rows = p->tensors[i].rows == HT_ROWS_TOKENS ? tokens : outputs;
        size[i] = (uint64_t)n_rows * p->tensors[i].width * 4;
        if (skip && skip[i]) continue;
        assert_int_equal(offset[i] % 64, 0);
        if (offset[i] + size[i] > last) last = offset[i] + size[i];
    }
    assert_true(last <= n_bytes && n_bytes < last + 64);
    for (uint32_t s = 0; s < p->n_steps; s++) {
        uint64_t live = 0;
        uint32_t here[2048], n = 0;
        for (uint32_t i = 0; i < p->n_tensors; i++) {
            if ((skip && skip[i]) || !alive(p, i, s)) continue;
            for (uint32_t k = 0; k < n; k++)
                if (offset[i] < offset[here[k]] + size[here[k]] &&
                    offset[here[k]] < offset[i] + size[i])
                    fail_msg("tensors %u and %u overlap at step %u", i, here[k], s);
            here[n++] = i;
            live += (size[i] + 63) / 64 * 64;
        }
        if (live > peak) peak = live;
    }
    return (double)n_bytes / (double)peak;
}

static void test_random_layouts(void **state) {
    (void)state;
    struct random_plan *r = malloc(sizeof *r);
    assert_non_null(r);
    uint32_t seed = 7;
    double worst = 0, sum = 0;
    for (int round = 0; round < 300; round++) {
        make_random(r, &seed);
        bool skip[MAX_T] = {false};
        for (uint32_t i = 0; i < r->p.n_tensors; i++)
            skip[i] = i != r->p.logits && round % 3 == 0 && random_below(&seed, 4) == 0;
        double f = check_layout(&r->p, 1 + random_below(&seed, 40), 1 + random_below(&seed, 9),
                                round % 2 ? skip : NULL);
        if (f > worst) worst = f;
        sum += f;
    }
    print_message("scratch over the largest live set: mean %.3f, worst %.3f\n", sum / 300, worst);
    assert_true(worst < 1.5 && sum / 300 < 1.05);
    free(r);
}

static void test_model_layouts(void **state) {
    (void)state;
    static const char *const names[] = {"llama", "llama-moe", "qwen2", "qwen3", "qwen3moe", "gpt2"};
    for (int i = 0; i < 6; i++) {
        struct copy c;
        open_copy(&c, names[i]);
        assert_true(check_layout(&c.p, 33, 1, NULL) < 1.15);
        assert_true(check_layout(&c.p, 16, 16, NULL) < 1.15);
        close_copy(&c);
    }
}

// ---- every allocation fails once

static enum hearth_status whole_way(const char *path, struct hearth_error *err) {
    struct ht_gguf *g = NULL;
    struct ht_model *m = NULL;
    struct ht_backend *backend = NULL;
    struct ht_prepared *p = NULL;
    struct ht_backend_memory memory;
    const struct ht_backend_options o = {0};
    const struct ht_limits l = {.max_tokens = 4, .max_outputs = 2, .max_ctx = 40, .n_pages = 4};
    const float *logits;
    struct batch x;
    fill(&x);
    x.pos[0] = 0, x.pos[1] = 1;
    enum hearth_status st = ht_gguf_open(path, &g, err);
    if (!st) st = ht_model_load(g, NULL, &m, err);
    if (!st) st = ht_backend_ref.open(&o, &backend, err);
    if (!st) st = ht_backend_ref.memory(backend, ht_model_plan(m), &l, &memory, err);
    if (!st) st = ht_backend_ref.prepare(backend, ht_model_plan(m), &l, &p, err);
    if (!st) {
        uint64_t calls = ht_test_alloc_get().n_calls;
        st = ht_backend_ref.execute(p, &x.b, &logits, err);
        assert_int_equal(ht_test_alloc_get().n_calls, calls); // a pass takes nothing
    }
    ht_backend_ref.release(p);
    ht_backend_ref.close(backend);
    ht_model_free(m);
    ht_gguf_close(g);
    return st;
}

static void test_out_of_memory(void **state) {
    (void)state;
    const char *path = tiny_path("oom");
    struct hearth_error err;
    tiny_write(path, "llama-moe", NULL);
    uint64_t before = ht_test_alloc_get().n_live_bytes, n = 1;
    for (;; n++) {
        ht_test_alloc_fail_at(n);
        enum hearth_status st = whole_way(path, &err);
        bool failed = ht_test_alloc_failed();
        ht_test_alloc_fail_at(0);
        assert_int_equal(ht_test_alloc_get().n_live_bytes, before);
        if (!failed) {
            assert_int_equal(st, HEARTH_OK);
            break;
        }
        if (st != HEARTH_E_NOMEM) fail_msg("allocation %d: %s", (int)n, hearth_status_name(st));
    }
    print_message("%d allocations failed in turn\n", (int)n - 1);
    assert_true(n > 10);
    unlink(path);
}

// What memory() says is what prepare() takes.
static void test_memory_is_held(void **state) {
    (void)state;
    struct copy c;
    struct hearth_error err;
    struct ht_backend *backend;
    struct ht_prepared *p;
    struct ht_backend_memory m;
    const struct ht_backend_options o = {0};
    const struct ht_limits l = {.max_tokens = 64, .max_outputs = 3, .max_ctx = 64, .n_pages = 9};
    open_copy(&c, "qwen3moe");
    assert_int_equal(ht_backend_ref.open(&o, &backend, &err), HEARTH_OK);
    assert_int_equal(ht_backend_ref.memory(backend, &c.p, &l, &m, &err), HEARTH_OK);
    uint64_t before = ht_test_alloc_get().n_live_bytes;
    assert_int_equal(ht_backend_ref.prepare(backend, &c.p, &l, &p, &err), HEARTH_OK);
    uint64_t taken = ht_test_alloc_get().n_live_bytes - before;
    uint64_t said = m.kv + m.scratch + m.packed + m.other;
    assert_int_equal(m.kv, 9ull * 32 * 2 * 2 * 2 * 8 * 2); // pages, slots, layers, K and V, heads
    assert_true(taken <= said + 4096 && said <= taken + 4096);
    ht_backend_ref.release(p);
    ht_backend_ref.close(backend);
    close_copy(&c);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_bad_plans),      cmocka_unit_test(test_limits),
        cmocka_unit_test(test_batches),        cmocka_unit_test(test_random_layouts),
        cmocka_unit_test(test_model_layouts),  cmocka_unit_test(test_out_of_memory),
        cmocka_unit_test(test_memory_is_held),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
