// SPDX-License-Identifier: MIT
// The sampler chain against two independent readings of docs/sampling.md: one to the bit (a full
// sort, integer weights), one in double precision with the C library's exp and a tolerance; plus
// distribution, edges, log-probabilities and the generator's published vectors.
#include "cmocka_all.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/hash.h"
#include "engine/sampler.h"

#define MAX_VOCAB 5000

// ---- the two references -------------------------------------------------------------------------

struct item {
    int32_t id;
    float l;         // after bias and penalties
    double exact;    // probability weight by libm
    uint64_t weight; // by the definition
};

static int by_rank(const void *a, const void *b) {
    const struct item *x = a, *y = b;
    if (x->l != y->l) return x->l > y->l ? -1 : 1;
    return x->id < y->id ? -1 : 1;
}

static int by_id(const void *a, const void *b) {
    const struct item *x = a, *y = b;
    return (x->id > y->id) - (x->id < y->id);
}

// Steps 1 and 2, token by token, counting the whole window for each.
static void reference_adjust(const struct hearth_sampling *o, const float *logits, uint32_t n,
                             const int32_t *history, size_t n_history, struct item *items) {
    size_t begin = n_history > o->penalty_window ? n_history - o->penalty_window : 0;
    for (uint32_t i = 0; i < n; i++) {
        float l = logits[i];
        for (size_t j = 0; j < o->n_logit_bias; j++)
            if (o->logit_bias[j].token == (int32_t)i) l += o->logit_bias[j].bias;
        uint32_t seen = 0;
        for (size_t j = begin; j < n_history; j++) seen += history[j] == (int32_t)i;
        if (seen) {
            l = l > 0 ? l / o->repetition_penalty : l * o->repetition_penalty;
            l -= (float)seen * o->frequency_penalty + o->presence_penalty;
        }
        items[i] = (struct item){.id = (int32_t)i, .l = l};
    }
}

static uint64_t to_the_bit(const struct hearth_sampling *o, struct item *v, size_t n, uint64_t u) {
    qsort(v, n, sizeof *v, by_rank);
    if (o->temperature == 0) return (uint64_t)v[0].id;
    float max = v[0].l;
    if (o->top_k > 0 && (size_t)o->top_k < n) n = (size_t)o->top_k;
    unsigned __int128 sum = 0;
    for (size_t i = 0; i < n; i++) {
        v[i].weight = (uint64_t)(ht_exp_neg((v[i].l - max) / o->temperature) * 0x1p40f);
        sum += v[i].weight;
    }
    if (o->top_p < 1) {
        unsigned __int128 p32 = (uint64_t)((double)o->top_p * 0x1p32), reached = 0;
        size_t kept = 0;
        while (kept < n && (kept == 0 || (reached << 32) < p32 * sum)) reached += v[kept++].weight;
        n = kept;
    }
    size_t kept = 0;
    while (kept < n && (double)v[kept].weight >= (double)o->min_p * 0x1p40) kept++;
    n = kept;
    sum = 0;
    for (size_t i = 0; i < n; i++) sum += v[i].weight;
    qsort(v, n, sizeof *v, by_id);
    uint64_t r = (uint64_t)((unsigned __int128)u * sum >> 64), passed = 0;
    for (size_t i = 0; i < n; i++) {
        passed += v[i].weight;
        if (passed > r) return (uint64_t)v[i].id;
    }
    fail_msg("the reference drew nothing");
    return 0;
}

// True if token could be the draw of u, give or take 1e-5 of probability, with thresholds moved by
// `shift`.
static bool in_double(const struct hearth_sampling *o, struct item *v, size_t n, uint64_t u,
                      int32_t token, double shift) {
    qsort(v, n, sizeof *v, by_rank);
    double max = v[0].l, sum = 0, reached = 0;
    if (o->top_k > 0 && (size_t)o->top_k < n) n = (size_t)o->top_k;
    for (size_t i = 0; i < n; i++) {
        v[i].exact = exp((v[i].l - max) / o->temperature);
        sum += v[i].exact;
    }
    if (o->top_p < 1) {
        size_t kept = 0;
        while (kept < n && (kept == 0 || reached < (o->top_p + shift) * sum))
            reached += v[kept++].exact;
        n = kept;
    }
    size_t kept = 0;
    while (kept < n && (kept == 0 || v[kept].exact >= o->min_p * (1 + shift))) kept++;
    n = kept;
    sum = 0;
    for (size_t i = 0; i < n; i++) sum += v[i].exact;
    qsort(v, n, sizeof *v, by_id);
    double at = (double)u * 0x1p-64, below = 0;
    for (size_t i = 0; i < n; i++) {
        if (v[i].id == token) return at > below - 1e-5 && at < below + v[i].exact / sum + 1e-5;
        below += v[i].exact / sum;
    }
    return false;
}

// ---- random cases -------------------------------------------------------------------------------

// Numbers from integer arithmetic alone, so that every machine tests the same.
static uint64_t noise_state;
static uint64_t noise(void) {
    return ht_hash_u64(noise_state += 0x9e3779b97f4a7c15u);
}
static uint32_t below(uint32_t n) {
    return (uint32_t)(noise() % n);
}
static float noise_float(float from, float to) {
    return from + (to - from) * ((float)(noise() >> 40) * 0x1p-24f);
}

static void random_logits(float *l, uint32_t n, int kind) {
    for (uint32_t i = 0; i < n; i++) {
        float x = 0;
        for (int k = 0; k < 4; k++) x += noise_float(-3, 3);
        l[i] = kind == 0   ? x
               : kind == 1 ? floorf(x)                   // many ties
               : kind == 2 ? x * 5                       // peaked
               : kind == 3 ? (below(50) ? -INFINITY : x) // mostly forbidden
               : kind == 4 ? 1.5f                        // all equal
                           : x * 1e-3f;                  // flat
    }
    if (kind == 3) l[below(n)] = 1;
}

struct setup {
    struct hearth_sampling o;
    struct hearth_logit_bias bias[5];
};

static void random_options(struct setup *s, uint32_t n) {
    static const float temperatures[] = {0, 0.1f, 0.7f, 1, 1.5f, 30};
    static const float top_ps[] = {1, 1, 0.999f, 0.9f, 0.5f, 1e-6f};
    static const float min_ps[] = {0, 0, 0.05f, 0.3f, 1};
    static const int32_t top_ks[] = {0, 0, 1, 2, 40, 300, 100000};
    s->o = (struct hearth_sampling){.temperature = temperatures[below(6)],
                                    .top_k = top_ks[below(7)],
                                    .top_p = top_ps[below(6)],
                                    .min_p = min_ps[below(5)],
                                    .repetition_penalty = 1,
                                    .penalty_window = 64,
                                    .seed = noise()};
    if (below(3) == 0) {
        s->o.repetition_penalty = noise_float(0.5f, 2);
        s->o.presence_penalty = noise_float(-1, 1);
        s->o.frequency_penalty = noise_float(-1, 1);
        s->o.penalty_window = below(100);
    }
    if (below(3) == 0) {
        s->o.n_logit_bias = 1 + below(5);
        for (int i = 0; i < 5; i++)
            s->bias[i] = (struct hearth_logit_bias){(int32_t)below(n), noise_float(-4, 4)};
        if (below(2)) s->bias[0].bias = -INFINITY;
        s->o.logit_bias = s->bias;
    }
}

static void test_against_references(void **state) {
    (void)state;
    static float logits[MAX_VOCAB];
    static struct item items[MAX_VOCAB], copy[MAX_VOCAB];
    int32_t history[150];
    int n_double = 0;
    noise_state = 1;
    for (int round = 0; round < 3000; round++) {
        uint32_t n = round % 10 ? 1 + below(400) : 1 + below(MAX_VOCAB);
        size_t n_history = below(150);
        struct setup s;
        random_logits(logits, n, (int)below(6));
        random_options(&s, n);
        for (size_t i = 0; i < n_history; i++) history[i] = (int32_t)below(n < 30 ? n : 30);
        reference_adjust(&s.o, logits, n, history, n_history, items);
        struct ht_sampler sampler;
        struct ht_sampler_scratch scratch;
        assert_int_equal(ht_sampler_init(&sampler, &s.o, n, NULL), HEARTH_OK);
        assert_int_equal(ht_sampler_scratch_init(&scratch, n, NULL), HEARTH_OK);
        bool any = false;
        for (uint32_t i = 0; i < n; i++) any |= items[i].l > -INFINITY;
        struct ht_rng rng = sampler.rng;
        for (int draw = 0; draw < 3; draw++) {
            int32_t token = -5;
            enum hearth_status status =
                ht_sampler_pick(&sampler, &scratch, logits, history, n_history, &token, NULL);
            if (!any) {
                assert_int_equal(status, HEARTH_E_ARG);
                assert_int_equal(token, -5);
                break;
            }
            assert_int_equal(status, HEARTH_OK);
            uint64_t u = s.o.temperature == 0 ? 0 : ht_rng_next(&rng);
            memcpy(copy, items, n * sizeof *copy);
            assert_int_equal(token, to_the_bit(&s.o, copy, n, u));
            if (s.o.temperature == 0) continue;
            bool ok = false;
            for (int shift = -1; shift <= 1 && !ok; shift++) {
                memcpy(copy, items, n * sizeof *copy);
                ok = in_double(&s.o, copy, n, u, token, shift * 2e-6);
            }
            if (!ok)
                fail_msg("round %d: token %d is not what double precision draws", round, token);
            n_double++;
        }
        for (uint32_t i = 0; i < n; i++) assert_int_equal(scratch.counts[i], 0);
        ht_sampler_deinit(&sampler);
        ht_sampler_scratch_deinit(&scratch);
    }
    assert_true(n_double > 3000);
}

// The same picks on every machine, compiler and optimisation: one number.
static void test_golden(void **state) {
    (void)state;
    static float logits[3000];
    uint64_t hash = 0;
    struct ht_sampler_scratch scratch;
    assert_int_equal(ht_sampler_scratch_init(&scratch, 3000, NULL), HEARTH_OK);
    noise_state = 77;
    for (int round = 0; round < 200; round++) {
        struct setup s;
        random_logits(logits, 3000, round % 3);
        random_options(&s, 3000);
        struct ht_sampler sampler;
        int32_t token, history[3] = {1, 2, 2};
        assert_int_equal(ht_sampler_init(&sampler, &s.o, 3000, NULL), HEARTH_OK);
        for (int draw = 0; draw < 5; draw++) {
            assert_int_equal(ht_sampler_pick(&sampler, &scratch, logits, history, 3, &token, NULL),
                             HEARTH_OK);
            hash = ht_hash_u64(hash ^ (uint64_t)token) + 1;
        }
        ht_sampler_deinit(&sampler);
    }
    ht_sampler_scratch_deinit(&scratch);
    assert_int_equal(hash, 0xa87affd55d607e3fu);
}

static void test_distribution(void **state) {
    (void)state;
    enum { N = 12, DRAWS = 200000 };
    float logits[N];
    double p[N], sum = 0, chi = 0;
    uint32_t seen[N] = {0};
    for (int i = 0; i < N; i++) logits[i] = (float)(i * 7 % N) * 0.3f;
    for (int i = 0; i < N; i++) sum += p[i] = exp((double)logits[i] / 0.8f);
    struct hearth_sampling o = {.temperature = 0.8f, .top_p = 1, .repetition_penalty = 1};
    struct ht_sampler s;
    struct ht_sampler_scratch w;
    assert_int_equal(ht_sampler_init(&s, &o, N, NULL), HEARTH_OK);
    assert_int_equal(ht_sampler_scratch_init(&w, N, NULL), HEARTH_OK);
    for (int i = 0; i < DRAWS; i++) {
        int32_t token;
        assert_int_equal(ht_sampler_pick(&s, &w, logits, NULL, 0, &token, NULL), HEARTH_OK);
        seen[token]++;
    }
    for (int i = 0; i < N; i++) {
        double expected = p[i] / sum * DRAWS;
        chi += (seen[i] - expected) * (seen[i] - expected) / expected;
    }
    // 11 degrees of freedom: above 35 once in 5000 times, below 1.3 likewise; the seed is fixed.
    assert_true(chi > 1.3 && chi < 35);
    ht_sampler_deinit(&s);
    ht_sampler_scratch_deinit(&w);
}

// ---- edges --------------------------------------------------------------------------------------

static enum hearth_status pick_one(const struct hearth_sampling *o, const float *logits, uint32_t n,
                                   int32_t *token, struct hearth_error *err) {
    struct ht_sampler s;
    struct ht_sampler_scratch w;
    assert_int_equal(ht_sampler_init(&s, o, n, err), HEARTH_OK);
    assert_int_equal(ht_sampler_scratch_init(&w, n, NULL), HEARTH_OK);
    enum hearth_status status = ht_sampler_pick(&s, &w, logits, NULL, 0, token, err);
    ht_sampler_deinit(&s);
    ht_sampler_scratch_deinit(&w);
    return status;
}

// Each penalty by itself.
static void test_one_penalty(void **state) {
    (void)state;
    static const int32_t history[] = {2};
    for (int i = 0; i < 4; i++) {
        float logits[] = {1, 2, 2.5f, 0};
        int32_t token = -1;
        struct hearth_sampling o = {.top_p = 1, .repetition_penalty = 1, .penalty_window = 8};
        struct ht_sampler s;
        struct ht_sampler_scratch w;
        if (i == 1) o.repetition_penalty = 2;
        if (i == 2) o.presence_penalty = 1;
        if (i == 3) o.frequency_penalty = 1;
        assert_int_equal(ht_sampler_init(&s, &o, 4, NULL), HEARTH_OK);
        assert_int_equal(ht_sampler_scratch_init(&w, 4, NULL), HEARTH_OK);
        assert_int_equal(ht_sampler_pick(&s, &w, logits, history, 1, &token, NULL), HEARTH_OK);
        assert_int_equal(token, i == 0 ? 2 : 1);
        ht_sampler_deinit(&s);
        ht_sampler_scratch_deinit(&w);
    }
}

// What bias and penalties make infinite is not blamed on the model.
static void test_infinite_wishes(void **state) {
    (void)state;
    static float logits[700];
    static const struct hearth_logit_bias twice[2] = {{130, 3e38f}, {130, 3e38f}};
    struct hearth_sampling o = {.top_p = 1, .repetition_penalty = 1};
    struct hearth_error err;
    int32_t token = -1;
    o.logit_bias = twice;
    o.n_logit_bias = 1;
    assert_int_equal(pick_one(&o, logits, 700, &token, &err), HEARTH_OK);
    assert_int_equal(token, 130);
    o.n_logit_bias = 2;
    assert_int_equal(pick_one(&o, logits, 700, &token, &err), HEARTH_E_ARG);
    assert_non_null(strstr(err.message, "token 130 "));
}

static void test_bad_logits(void **state) {
    (void)state;
    static float logits[700];
    static const uint32_t places[] = {0, 1, 127, 128, 383, 640, 699};
    struct hearth_error err;
    int32_t token = -1;
    for (int greedy = 0; greedy < 2; greedy++) {
        struct hearth_sampling o = {
            .temperature = greedy ? 0 : 1, .top_k = 5, .top_p = 1, .repetition_penalty = 1};
        for (size_t i = 0; i < sizeof places / sizeof places[0]; i++) {
            for (int k = 0; k < 700; k++) logits[k] = (float)(k % 13);
            char number[16];
            snprintf(number, sizeof number, "token %u", places[i]);
            logits[places[i]] = NAN;
            assert_int_equal(pick_one(&o, logits, 700, &token, &err), HEARTH_E_FORMAT);
            assert_non_null(strstr(err.message, number));
            logits[places[i]] = INFINITY;
            assert_int_equal(pick_one(&o, logits, 700, &token, &err), HEARTH_E_FORMAT);
            assert_non_null(strstr(err.message, number));
            logits[places[i]] = -INFINITY;
            assert_int_equal(pick_one(&o, logits, 700, &token, &err), HEARTH_OK);
            assert_int_not_equal(token, places[i]);
            token = -1;
        }
    }
}

static void test_ties(void **state) {
    (void)state;
    static float logits[1000];
    int32_t token;
    for (int i = 0; i < 1000; i++) logits[i] = i % 2 ? 0.0f : -0.0f; // the two zeros are equal
    struct hearth_sampling o = {.top_p = 1, .repetition_penalty = 1};
    assert_int_equal(pick_one(&o, logits, 1000, &token, NULL), HEARTH_OK);
    assert_int_equal(token, 0);
    o.temperature = 1;
    o.top_k = 1;
    assert_int_equal(pick_one(&o, logits, 1000, &token, NULL), HEARTH_OK);
    assert_int_equal(token, 0);
    o.top_k = 3; // 0, 1, 2 are left, whatever the seed
    for (o.seed = 0; o.seed < 50; o.seed++) {
        assert_int_equal(pick_one(&o, logits, 1000, &token, NULL), HEARTH_OK);
        assert_between(token, 0, 2);
    }
    o.top_k = 0;
    o.top_p = 0.002f; // 2 of 1000, a hair more than 2: rounds to 0, 1, 2
    for (o.seed = 0; o.seed < 50; o.seed++) {
        assert_int_equal(pick_one(&o, logits, 1000, &token, NULL), HEARTH_OK);
        assert_between(token, 0, 2);
    }
    o.top_p = 0; // one, the first
    for (o.seed = 0; o.seed < 50; o.seed++) {
        assert_int_equal(pick_one(&o, logits, 1000, &token, NULL), HEARTH_OK);
        assert_int_equal(token, 0);
    }
}

static void test_option_ranges(void **state) {
    (void)state;
    struct hearth_logit_bias bias = {0, 1};
    struct hearth_sampling good = {.temperature = 1, .top_p = 1, .repetition_penalty = 1};
    struct hearth_sampling bad[16];
    for (int i = 0; i < 16; i++) bad[i] = good;
    bad[0].temperature = -0.1f;
    bad[1].temperature = NAN;
    bad[2].top_k = -1;
    bad[3].top_p = -0.01f;
    bad[4].top_p = 1.01f;
    bad[5].min_p = -0.01f;
    bad[6].min_p = NAN;
    bad[7].repetition_penalty = 0;
    bad[8].presence_penalty = INFINITY;
    bad[9].frequency_penalty = NAN;
    bad[10].n_logit_bias = 1; // and no array
    bad[11].n_logit_bias = 1048577;
    for (int i = 11; i < 15; i++) bad[i].logit_bias = &bias;
    for (int i = 12; i < 15; i++) bad[i].n_logit_bias = 1;
    bad[15].temperature = INFINITY;
    struct ht_sampler s;
    struct hearth_error err;
    for (int i = 0; i < 16; i++) {
        if (i == 12) bias = (struct hearth_logit_bias){100, 0};
        if (i == 13) bias = (struct hearth_logit_bias){0, INFINITY};
        if (i == 14) bias = (struct hearth_logit_bias){0, NAN};
        assert_int_equal(ht_sampler_init(&s, &bad[i], 100, &err), HEARTH_E_ARG);
        assert_true(strlen(err.message) > 20);
    }
    assert_int_equal(ht_sampler_init(&s, &good, 100, &err), HEARTH_OK);
    ht_sampler_deinit(&s);
}

// ---- numbers ------------------------------------------------------------------------------------

static void test_exp(void **state) {
    (void)state;
    double worst = 0;
    for (float x = -87; x <= 0; x += 0.0007f) {
        double error = fabs((double)ht_exp_neg(x) / exp((double)x) - 1);
        if (error > worst) worst = error;
    }
    assert_true(worst < 3e-7);
    assert_true(ht_exp_neg(0) == 1);
    assert_true(ht_exp_neg(-88) == 0);
    assert_true(ht_exp_neg(-INFINITY) == 0);
}

static void test_rng(void **state) {
    (void)state;
    // The authors' vectors: splitmix64 from 0, xoshiro256** from 1, 2, 3, 4.
    static const uint64_t seeded[4] = {0xe220a8397b1dcdafu, 0x6e789e6aa1b965f4u,
                                       0x06c45d188009454fu, 0xf88bb8a8724c81ecu};
    static const uint64_t drawn[6] = {
        11520, 0, 1509978240, 1215971899390074240, 1216172134540287360, 607988272756665600};
    struct ht_rng r;
    ht_rng_seed(&r, 0);
    assert_memory_equal(r.s, seeded, sizeof seeded);
    for (uint64_t i = 0; i < 4; i++) r.s[i] = i + 1;
    for (int i = 0; i < 6; i++) assert_int_equal(ht_rng_next(&r), drawn[i]);
}

static void test_logprobs(void **state) {
    (void)state;
    static float logits[MAX_VOCAB];
    noise_state = 5;
    for (int round = 0; round < 40; round++) {
        uint32_t n = round < 20 ? 1 + (uint32_t)round : MAX_VOCAB - below(300);
        struct ht_sampler_scratch w;
        struct hearth_token_logprob top[HT_MAX_LOGPROBS];
        assert_int_equal(ht_sampler_scratch_init(&w, n, NULL), HEARTH_OK);
        random_logits(logits, n, round % 6);
        double max = -INFINITY, sum = 0, total = 0;
        for (uint32_t i = 0; i < n; i++) max = logits[i] > max ? logits[i] : max;
        for (uint32_t i = 0; i < n; i++) sum += exp(logits[i] - max);
        for (uint32_t i = 0; i<n; i += n> 100 ? 97 : 1) {
            float lp;
            size_t n_top = ht_logprobs(&w, logits, (int32_t)i, 20, &lp, top);
            assert_int_equal(n_top, n < 20 ? n : 20);
            if (logits[i] > -INFINITY)
                assert_true(fabs(lp - (logits[i] - max - log(sum))) <
                            3e-6 + fabs((double)lp) * 1e-6);
            total += exp(lp);
            for (size_t k = 0; k < n_top; k++) {
                // k others, and no more, are better in rank
                uint32_t better = 0;
                for (uint32_t j = 0; j < n; j++)
                    better += logits[j] > logits[top[k].token] ||
                              (logits[j] == logits[top[k].token] && (int32_t)j < top[k].token);
                assert_int_equal(better, k);
            }
        }
        if (n <= 100) assert_true(fabs(total - 1) < 1e-5);
        ht_sampler_scratch_deinit(&w);
    }
}

// Not a check, a figure: the time of one pick over a large vocabulary.
static void test_speed(void **state) {
    (void)state;
    enum { N = 151936, TIMES = 30 };
    float *logits = malloc(N * sizeof *logits);
    assert_non_null(logits);
    noise_state = 9;
    random_logits(logits, N, 0);
    const struct {
        const char *name;
        struct hearth_sampling o;
    } cases[] = {
        {"greedy", {.top_p = 1, .repetition_penalty = 1}},
        {"top-k 40, top-p, temperature",
         {.temperature = 0.8f, .top_k = 40, .top_p = 0.95f, .repetition_penalty = 1}},
        {"the same with penalties",
         {.temperature = 0.8f,
          .top_k = 40,
          .top_p = 0.95f,
          .repetition_penalty = 1.1f,
          .penalty_window = 64}},
        {"top-p alone", {.temperature = 0.8f, .top_p = 0.95f, .repetition_penalty = 1}},
        {"temperature alone", {.temperature = 0.8f, .top_p = 1, .repetition_penalty = 1}},
    };
    struct ht_sampler_scratch w;
    assert_int_equal(ht_sampler_scratch_init(&w, N, NULL), HEARTH_OK);
    for (size_t c = 0; c < sizeof cases / sizeof cases[0]; c++) {
        struct ht_sampler s;
        uint64_t best = UINT64_MAX;
        assert_int_equal(ht_sampler_init(&s, &cases[c].o, N, NULL), HEARTH_OK);
        for (int i = 0; i < TIMES; i++) {
            int32_t token, history[2] = {1, 2};
            uint64_t begin = ht_now_ns();
            assert_int_equal(ht_sampler_pick(&s, &w, logits, history, 2, &token, NULL), HEARTH_OK);
            uint64_t ns = ht_now_ns() - begin;
            if (ns < best) best = ns;
        }
        printf("    %-30s %7.1f us\n", cases[c].name, (double)best / 1000);
        ht_sampler_deinit(&s);
    }
    ht_sampler_scratch_deinit(&w);
    free(logits);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_exp),
        cmocka_unit_test(test_rng),
        cmocka_unit_test(test_against_references),
        cmocka_unit_test(test_golden),
        cmocka_unit_test(test_distribution),
        cmocka_unit_test(test_bad_logits),
        cmocka_unit_test(test_infinite_wishes),
        cmocka_unit_test(test_one_penalty),
        cmocka_unit_test(test_ties),
        cmocka_unit_test(test_option_ranges),
        cmocka_unit_test(test_logprobs),
        cmocka_unit_test(test_speed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
