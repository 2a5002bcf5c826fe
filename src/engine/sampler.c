// SPDX-License-Identifier: MIT
// The sampler chain; its definition stands in sampler.h and docs/sampling.md. The usual case
// (top-k, top-p, temperature, no penalties) reads the logits once for the chunk maxima, then
// touches a few chunks; penalties and bias copy the logits first. The steps from top-k on are in
// draw.c.
#include "engine/sampler.h"

#include <math.h>
#include <string.h>

#include "base/checked.h"
#include "base/hash.h"
#include "base/mem.h"

#define MAX_BIAS 1048576

void ht_rng_seed(struct ht_rng *r, uint64_t seed) {
    for (int i = 0; i < 4; i++) {
        seed += 0x9e3779b97f4a7c15u;
        r->s[i] = ht_hash_u64(seed);
    }
}

static uint64_t rotl(uint64_t x, int k) {
    return x << k | x >> (64 - k);
}

uint64_t ht_rng_next(struct ht_rng *r) {
    uint64_t *s = r->s;
    uint64_t result = rotl(s[1] * 5, 7) * 9;
    uint64_t t = s[1] << 17;
    s[2] ^= s[0];
    s[3] ^= s[1];
    s[1] ^= s[2];
    s[0] ^= s[3];
    s[2] ^= t;
    s[3] = rotl(s[3], 45);
    return result;
}

// ---- memory -------------------------------------------------------------------------------------

// Places the arrays of the scratch one behind the other, each on its own cache lines.
static bool layout(uint32_t n_vocab, size_t offset[5], size_t *n_bytes) {
    size_t n_chunks = ((size_t)n_vocab + HT_CHUNK - 1) / HT_CHUNK;
    const size_t count[5] = {n_vocab, n_chunks, n_vocab, n_vocab, n_vocab};
    const size_t size[5] = {sizeof(float), sizeof(float), sizeof(uint64_t), sizeof(uint64_t),
                            sizeof(uint32_t)};
    size_t at = 0, bytes;
    for (int i = 0; i < 5; i++) {
        offset[i] = at;
        if (!ht_mul_size(count[i], size[i], &bytes) || !ht_add_size(at, bytes, &at) ||
            !ht_align_size(at, 64, &at))
            return false;
    }
    *n_bytes = at;
    return true;
}

size_t ht_sampler_scratch_bytes(uint32_t n_vocab) {
    size_t offset[5], n_bytes;
    return layout(n_vocab, offset, &n_bytes) ? n_bytes : 0;
}

enum hearth_status ht_sampler_scratch_init(struct ht_sampler_scratch *w, uint32_t n_vocab,
                                           struct hearth_error *err) {
    size_t offset[5], n_bytes;
    if (n_vocab == 0 || n_vocab > HT_MAX_SAMPLED || !layout(n_vocab, offset, &n_bytes))
        return ht_fail(err, HEARTH_E_UNSUPPORTED,
                       "a vocabulary of %u tokens; 1 to %u can be sampled", n_vocab,
                       HT_MAX_SAMPLED);
    char *block = ht_pages_alloc(n_bytes);
    if (!block) return ht_fail_nomem(err, n_bytes, "the sampler");
    *w = (struct ht_sampler_scratch){.n_vocab = n_vocab,
                                     .adjusted = (float *)(void *)(block + offset[0]),
                                     .maxima = (float *)(void *)(block + offset[1]),
                                     .keys = (uint64_t *)(void *)(block + offset[2]),
                                     .weights = (uint64_t *)(void *)(block + offset[3]),
                                     .counts = (uint32_t *)(void *)(block + offset[4]),
                                     .block = block,
                                     .n_bytes = n_bytes};
    return HEARTH_OK;
}

void ht_sampler_scratch_deinit(struct ht_sampler_scratch *w) {
    if (w->block) ht_pages_free(w->block, w->n_bytes);
    *w = (struct ht_sampler_scratch){0};
}

// ---- options ------------------------------------------------------------------------------------

static enum hearth_status check_range(const char *name, double value, bool ok, const char *expected,
                                      struct hearth_error *err) {
    if (ok) return HEARTH_OK;
    return ht_fail(err, HEARTH_E_ARG, "%s is %.9g; %s is expected", name, value, expected);
}

static enum hearth_status check_options(const struct hearth_sampling *o, uint32_t n_vocab,
                                        struct hearth_error *err) {
    const struct {
        const char *name;
        double value;
        bool ok;
        const char *expected;
    } rules[] = {
        {"temperature", o->temperature, o->temperature >= 0 && o->temperature < INFINITY,
         "a number from 0 on"},
        {"top_k", o->top_k, o->top_k >= 0, "a number from 0 on"},
        {"top_p", o->top_p, o->top_p >= 0 && o->top_p <= 1, "a number from 0 to 1"},
        {"min_p", o->min_p, o->min_p >= 0 && o->min_p <= 1, "a number from 0 to 1"},
        {"repetition_penalty", o->repetition_penalty,
         o->repetition_penalty > 0 && o->repetition_penalty < INFINITY, "a number above 0"},
        {"presence_penalty", o->presence_penalty, isfinite(o->presence_penalty) != 0,
         "a finite number"},
        {"frequency_penalty", o->frequency_penalty, isfinite(o->frequency_penalty) != 0,
         "a finite number"},
        {"n_logit_bias", (double)o->n_logit_bias, o->n_logit_bias <= MAX_BIAS, "at most 1048576"},
    };
    for (size_t i = 0; i < sizeof rules / sizeof rules[0]; i++) {
        enum hearth_status s =
            check_range(rules[i].name, rules[i].value, rules[i].ok, rules[i].expected, err);
        if (s) return s;
    }
    if (o->n_logit_bias > 0 && !o->logit_bias)
        return ht_fail(err, HEARTH_E_ARG, "logit_bias is NULL, but n_logit_bias is %zu",
                       o->n_logit_bias);
    for (size_t i = 0; i < o->n_logit_bias; i++) {
        struct hearth_logit_bias b = o->logit_bias[i];
        if (b.token < 0 || (uint32_t)b.token >= n_vocab)
            return ht_fail(err, HEARTH_E_ARG,
                           "logit_bias[%zu] (--logit-bias) is for token %d; 0 to %u are there", i,
                           b.token, n_vocab - 1);
        if (!(b.bias < INFINITY))
            return ht_fail(err, HEARTH_E_ARG,
                           "logit_bias[%zu] (--logit-bias) of token %d is %g; a number or -inf is "
                           "expected",
                           i, b.token, (double)b.bias);
    }
    return HEARTH_OK;
}

enum hearth_status ht_sampler_init(struct ht_sampler *s, const struct hearth_sampling *options,
                                   uint32_t n_vocab, struct hearth_error *err) {
    enum hearth_status status = check_options(options, n_vocab, err);
    if (status) return status;
    struct ht_sampler made = {.options = *options};
    made.options.logit_bias = NULL;
    if (options->n_logit_bias > 0) {
        struct hearth_logit_bias *copy = ht_calloc(options->n_logit_bias, sizeof *copy);
        if (!copy)
            return ht_fail_nomem(err, options->n_logit_bias * sizeof *copy, "the logit bias");
        memcpy(copy, options->logit_bias, options->n_logit_bias * sizeof *copy);
        made.options.logit_bias = copy;
    }
    ht_rng_seed(&made.rng, options->seed);
    *s = made;
    return HEARTH_OK;
}

void ht_sampler_deinit(struct ht_sampler *s) {
    ht_free((void *)(uintptr_t)s->options.logit_bias);
    *s = (struct ht_sampler){0};
}

// ---- the chain ----------------------------------------------------------------------------------

static void add_bias(const struct hearth_sampling *o, float *l) {
    for (size_t i = 0; i < o->n_logit_bias; i++) l[o->logit_bias[i].token] += o->logit_bias[i].bias;
}

// Each token of the window once, with the number of its occurrences c:
//   l = l > 0 ? l / repetition : l * repetition;   l -= c * frequency + presence
static void penalise(const struct hearth_sampling *o, const int32_t *window, size_t n,
                     uint32_t *counts, float *l) {
    for (size_t i = 0; i < n; i++) counts[window[i]]++;
    for (size_t i = 0; i < n; i++) {
        int32_t t = window[i];
        if (counts[t] == 0) continue;
        float x = l[t];
        x = x > 0 ? x / o->repetition_penalty : x * o->repetition_penalty;
        l[t] = x - ((float)counts[t] * o->frequency_penalty + o->presence_penalty);
        counts[t] = 0;
    }
}

// Steps 1 and 2. The logits themselves where there is nothing to change.
static const float *adjust(const struct hearth_sampling *o, struct ht_sampler_scratch *w,
                           const float *logits, const int32_t *history, size_t n_history) {
    bool penalties =
        o->penalty_window > 0 && n_history > 0 &&
        (o->repetition_penalty != 1 || o->presence_penalty != 0 || o->frequency_penalty != 0);
    if (!penalties && o->n_logit_bias == 0) return logits;
    memcpy(w->adjusted, logits, (size_t)w->n_vocab * sizeof *logits);
    add_bias(o, w->adjusted);
    if (penalties) {
        size_t n = n_history < o->penalty_window ? n_history : o->penalty_window;
        penalise(o, history + (n_history - n), n, w->counts, w->adjusted);
    }
    return w->adjusted;
}

static float max_of(const float *maxima, uint32_t n_vocab) {
    float m = -INFINITY;
    for (uint32_t c = 0; c < (n_vocab + HT_CHUNK - 1) / HT_CHUNK; c++)
        m = maxima[c] > m ? maxima[c] : m;
    return m;
}

static int32_t first_equal(const struct ht_sampler_scratch *w, const float *l, float value) {
    uint32_t c = 0;
    while (w->maxima[c] != value) c++;
    uint32_t i = c * HT_CHUNK;
    while (l[i] != value) i++;
    return (int32_t)i;
}

static uint32_t first_not_finite(const float *l, uint32_t n) { // -inf is a token that is forbidden
    uint32_t i = 0;
    while (i < n && l[i] < INFINITY) i++;
    return i;
}

// The model's logits, or what bias and penalties made of them, hold what cannot be compared.
static enum hearth_status fail_logits(const float *logits, const float *adjusted, uint32_t n_vocab,
                                      struct hearth_error *err) {
    uint32_t i = first_not_finite(logits, n_vocab);
    if (i < n_vocab)
        return ht_fail(err, HEARTH_E_FORMAT,
                       "the logit of token %u is %g, a finite number was expected: the model's "
                       "weights hold NaN or infinities, or its numbers overflow",
                       i, (double)logits[i]);
    return ht_fail(err, HEARTH_E_ARG,
                   "logit bias or penalties are too large: the logit of token %u becomes infinite",
                   first_not_finite(adjusted, n_vocab));
}

enum hearth_status ht_sampler_pick(struct ht_sampler *s, struct ht_sampler_scratch *w,
                                   const float *logits, const int32_t *history, size_t n_history,
                                   int32_t *token, struct hearth_error *err) {
    const struct hearth_sampling *o = &s->options;
    const float *l = adjust(o, w, logits, history, n_history);
    if (!ht_chunk_maxima(l, w->n_vocab, w->maxima)) return fail_logits(logits, l, w->n_vocab, err);
    float max = max_of(w->maxima, w->n_vocab);
    if (max == -INFINITY)
        return ht_fail(err, HEARTH_E_ARG,
                       "no token is left: every logit is -inf after logit bias and penalties");
    *token =
        o->temperature == 0 ? first_equal(w, l, max) : ht_draw(o, w, l, max, ht_rng_next(&s->rng));
    return HEARTH_OK;
}
