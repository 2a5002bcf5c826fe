// SPDX-License-Identifier: MIT
// From logits to a token: the chain of struct hearth_sampling, defined to the bit
// (docs/sampling.md) so that the same logits, options and seed give the same token on every
// machine:
//
//   1  logit bias            l[i] += bias
//   2  penalties             over the last penalty_window tokens of the sequence, prompt included
//   3  temperature 0         the largest l, the lowest id among equals; else
//   4  top-k                 the k best in rank order (l falling, id rising)
//   5  temperature           w[i] = floor(2^40 exp((l[i] - l_max) / T)), an integer
//   6  top-p                 the shortest prefix in rank order with sum w >= top_p * (sum of all)
//   7  min-p                 w[i] >= min_p * 2^40
//   8  draw                  r uniform in [0, sum w); the first id, rising, whose sum passes r
//
// Weights are integers, so their sums do not depend on the order in which anyone adds. A sampler
// belongs to one request, the scratch to one engine; nothing here allocates after init.
#ifndef HT_ENGINE_SAMPLER_H
#define HT_ENGINE_SAMPLER_H

#include "base/status.h"

#define HT_MAX_LOGPROBS 20
#define HT_MAX_SAMPLED  (1u << 22) // tokens of a vocabulary: so many weights of 2^40 are 2^62

// xoshiro256** (Blackman, Vigna 2018), seeded by splitmix64. Any seed will do.
struct ht_rng {
    uint64_t s[4];
};
void ht_rng_seed(struct ht_rng *r, uint64_t seed);
uint64_t ht_rng_next(struct ht_rng *r);

struct ht_sampler {
    struct hearth_sampling options; // logit_bias: an own copy
    struct ht_rng rng;
};

struct ht_sampler_scratch {
    uint32_t n_vocab;
    float *adjusted;   // [n_vocab] logits with bias and penalties
    float *maxima;     // [n_chunks] of the logits
    uint64_t *keys;    // [n_vocab] rank keys of the candidates, ids rising
    uint64_t *weights; // [n_vocab] of the candidates
    uint32_t *counts;  // [n_vocab] occurrences in the window; all 0 between calls
    void *block;       // what all of them lie in
    size_t n_bytes;
};

HT_MUST_CHECK enum hearth_status
ht_sampler_scratch_init(struct ht_sampler_scratch *w, uint32_t n_vocab, struct hearth_error *err);
void ht_sampler_scratch_deinit(struct ht_sampler_scratch *w); // accepts a zeroed one
// Bytes that init takes for up to HT_MAX_SAMPLED tokens. Of these, `keys` and `weights` are touched
// in full only by a sampler without top-k.
size_t ht_sampler_scratch_bytes(uint32_t n_vocab);

// E_ARG names the option out of its range. Copies the logit bias.
HT_MUST_CHECK enum hearth_status ht_sampler_init(struct ht_sampler *s,
                                                 const struct hearth_sampling *options,
                                                 uint32_t n_vocab, struct hearth_error *err);
void ht_sampler_deinit(struct ht_sampler *s); // accepts a zeroed one

// Picks the next token from logits [n_vocab] of a sequence whose tokens so far are history. Takes
// one number from the generator unless greedy. E_FORMAT: a logit is NaN or +inf. E_ARG: bias
// and penalties leave no token, or make a logit +infinite or no number.
HT_MUST_CHECK enum hearth_status ht_sampler_pick(struct ht_sampler *s, struct ht_sampler_scratch *w,
                                                 const float *logits, const int32_t *history,
                                                 size_t n_history, int32_t *token,
                                                 struct hearth_error *err);

// Natural logarithms of softmax(logits): of `token`, and of the n_top most likely ones, best first,
// lowest id among equals (n_top <= HT_MAX_LOGPROBS; no more than the vocabulary has; the number is
// returned). logits have passed ht_sampler_pick.
size_t ht_logprobs(struct ht_sampler_scratch *w, const float *logits, int32_t token, size_t n_top,
                   float *logprob, struct hearth_token_logprob *top);

// ---- draw.c and select.c ------------------------------------------------------------------------

#define HT_CHUNK 128

// Steps 4 to 8 for the adjusted logits l, whose maxima are in w; u: 64 random bits. (draw.c)
int32_t ht_draw(const struct hearth_sampling *o, const struct ht_sampler_scratch *w, const float *l,
                float max, uint64_t u);

// Orders like (l falling, id rising): a larger key is a better rank. Both zeros are equal.
static inline uint64_t ht_rank_key(float l, uint32_t id) {
    union {
        float f;
        uint32_t u;
    } v = {l + 0.0f}; // -0 becomes +0
    // Floats order like sign-magnitude integers: flip all bits of the negative, the sign of others.
    uint32_t order = v.u ^ ((0 - (v.u >> 31)) | 0x80000000u);
    return (uint64_t)order << 32 | (UINT32_MAX - id);
}
static inline uint32_t ht_rank_key_id(uint64_t key) {
    return UINT32_MAX - (uint32_t)key;
}

// Maxima of chunks of HT_CHUNK logits; false if a logit is NaN or +inf.
HT_MUST_CHECK bool ht_chunk_maxima(const float *logits, uint32_t n, float *maxima);
// Candidates with a logit >= the k-th largest chunk maximum, or all of them if there are fewer
// chunks: at least min(k, n), in rising order of id. maxima and logits as of ht_chunk_maxima.
size_t ht_gather_top(const struct ht_sampler_scratch *w, const float *logits, uint32_t k);
// The key of the candidate with which the sum of weights (of 1 each if weights is NULL) in rank
// order reaches target. 1 <= target <= the sum of all.
uint64_t ht_rank_cutoff(const uint64_t *keys, const uint64_t *weights, size_t n, uint64_t target);

// exp(x) for x <= 0 by multiplication and addition alone, in one order: vectorises at every CPU
// level to the same bits. Relative error below 3e-7; below -87.3 it is 0.
static inline float ht_exp_neg(float x) {
    // x = n ln 2 + r, |r| <= ln 2 / 2; n by adding and subtracting 1.5 * 2^23, which rounds.
    float c = x < -87.3f ? -87.3f : x;
    float n = (c * 1.44269504f + 12582912.0f) - 12582912.0f;
    float r = (c - n * 0.693359375f) - n * -2.12194440e-4f;
    float p = 1.0f / 5040;
    p = p * r + 1.0f / 720;
    p = p * r + 1.0f / 120;
    p = p * r + 1.0f / 24;
    p = p * r + 1.0f / 6;
    p = p * r + 0.5f;
    p = p * r + 1.0f;
    p = p * r + 1.0f;
    union {
        int32_t i;
        float f;
    } two_n = {((int32_t)n + 127) * (1 << 23)};
    return x < -87.3f ? 0.0f : p * two_n.f;
}

#endif
