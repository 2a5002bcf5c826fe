// SPDX-License-Identifier: MIT
// Steps 4 to 8 of the chain (sampler.h). Candidates are kept in order of id, which is the order of
// the draw; a cut in rank order is a key (select.c). With top-k, temperature, top-p and min-p work
// on a handful of tokens. Without it nothing is sorted or stored that the answer does not need:
//   - top-p needs the sum over all tokens (one exp each, vectorised), then only the best ones
//   - min-p alone needs only the best ones
//   - temperature alone needs the sums of chunks, and the tokens of one chunk
#include <math.h>

#include "engine/sampler.h"

#define ONE ((uint64_t)1 << 40) // the weight of the most likely token: the largest there is
// exp(x) * 2^40 < 1 below -40 ln 2 = -27.73: such tokens have weight 0.
#define NO_WEIGHT -27.8f
// Where top-p without top-k looks first: tokens at least exp(-9) times as likely as the best.
#define LIKELY -9.0f

// By way of a signed integer, which most machines convert to in one instruction.
static inline uint64_t weight_of(float e) {
    return (uint64_t)(int64_t)(e * (float)ONE);
}

static uint64_t sum_of(const uint64_t *weights, size_t n) {
    uint64_t sum = 0;
    for (size_t i = 0; i < n; i++) sum += weights[i];
    return sum;
}

static uint32_t chunk_len(const struct ht_sampler_scratch *w, uint32_t c) {
    uint32_t rest = w->n_vocab - c * HT_CHUNK;
    return rest < HT_CHUNK ? rest : HT_CHUNK;
}

// ---- weights ------------------------------------------------------------------------------------

// With top-k: the candidates and their weights.
static size_t weigh_top(const struct ht_sampler_scratch *w, const float *l, float max, float t,
                        uint32_t k) {
    size_t n = ht_gather_top(w, l, k), kept = 0;
    uint64_t cutoff = n > k ? ht_rank_cutoff(w->keys, NULL, n, k) : 0;
    for (size_t i = 0; i < n; i++) {
        if (w->keys[i] < cutoff) continue;
        float x = (l[ht_rank_key_id(w->keys[i])] - max) / t;
        uint64_t weight = weight_of(ht_exp_neg(x));
        if (weight == 0) continue;
        w->keys[kept] = w->keys[i];
        w->weights[kept++] = weight;
    }
    return kept;
}

// Gives the n candidates their weights, a vector at a time, and drops those without any.
static size_t weigh_candidates(const struct ht_sampler_scratch *w, const float *l, float max,
                               float t, size_t n) {
    uint64_t *keys = w->keys, *weights = w->weights;
    size_t kept = 0;
    for (size_t begin = 0; begin < n; begin += HT_CHUNK) {
        size_t len = n - begin < HT_CHUNK ? n - begin : HT_CHUNK;
        float e[HT_CHUNK];
        for (size_t i = 0; i < len; i++) e[i] = l[ht_rank_key_id(keys[begin + i])];
        for (size_t i = 0; i < len; i++) e[i] = ht_exp_neg((e[i] - max) / t);
        for (size_t i = 0; i < len; i++) {
            keys[kept] = keys[begin + i];
            uint64_t weight = weight_of(e[i]);
            weights[kept] = weight;
            kept += weight > 0;
        }
    }
    return kept;
}

// Without top-k: every token whose logit is at least max + x t and whose weight is not 0, a
// beginning of the rank order.
static size_t weigh_from(const struct ht_sampler_scratch *w, const float *l, float max, float t,
                         float x) {
    float bound = x > NO_WEIGHT ? max + x * t : -INFINITY;
    uint64_t *keys = w->keys, least = ht_rank_key(bound, UINT32_MAX);
    size_t n = 0;
    for (uint32_t begin = 0, c = 0; begin < w->n_vocab; begin += HT_CHUNK, c++) {
        if (w->maxima[c] < bound || (w->maxima[c] - max) / t < NO_WEIGHT) continue;
        uint32_t end = begin + chunk_len(w, c);
        for (uint32_t i = begin; i < end; i++) {
            uint64_t key = ht_rank_key(l[i], i);
            keys[n] = key; // without a branch
            n += key >= least;
        }
    }
    return weigh_candidates(w, l, max, t, n);
}

// The sum of the weights of one chunk. A weight is taken as two integers of 32 bits, which
// vectorise everywhere: floor(e 2^40) = h 2^20 + floor((e 2^20 - h) 2^20), h = floor(e 2^20), all
// exact.
static uint64_t weigh_chunk(const struct ht_sampler_scratch *w, const float *l, float max, float t,
                            uint32_t c) {
    if ((w->maxima[c] - max) / t < NO_WEIGHT) return 0;
    uint32_t len = chunk_len(w, c), high = 0, low = 0; // at most 128 * 2^20 each
    l += c * HT_CHUNK;
    for (uint32_t i = 0; i < len; i++) {
        float e = ht_exp_neg((l[i] - max) / t) * 0x1p20f;
        int32_t h = (int32_t)e;
        high += (uint32_t)h;
        low += (uint32_t)(int32_t)((e - (float)h) * 0x1p20f);
    }
    return ((uint64_t)high << 20) + low;
}

// ---- cuts ---------------------------------------------------------------------------------------

// ceil(top_p * sum), exactly, with top_p rounded down to a multiple of 2^-32; at least 1.
static uint64_t top_p_target(float top_p, uint64_t sum) {
    uint64_t p = (uint64_t)((double)top_p * 0x1p32);
    uint64_t target = (uint64_t)(((unsigned __int128)p * sum + 0xffffffffu) >> 32);
    return target > 0 ? target : 1;
}

// Drops the candidates behind the one with which their sum in rank order reaches target.
static size_t cut_at(const struct ht_sampler_scratch *w, size_t n, uint64_t target) {
    uint64_t cutoff = ht_rank_cutoff(w->keys, w->weights, n, target);
    size_t kept = 0;
    for (size_t i = 0; i < n; i++) {
        if (w->keys[i] < cutoff) continue;
        w->keys[kept] = w->keys[i];
        w->weights[kept++] = w->weights[i];
    }
    return kept;
}

static size_t cut_min_p(const struct ht_sampler_scratch *w, size_t n, float min_p) {
    double least = (double)min_p * (double)ONE; // exact
    size_t kept = 0;
    for (size_t i = 0; i < n; i++) {
        if ((double)w->weights[i] < least) continue;
        w->keys[kept] = w->keys[i];
        w->weights[kept++] = w->weights[i];
    }
    return kept;
}

// ---- the draw -----------------------------------------------------------------------------------

static uint64_t scale(uint64_t u, uint64_t sum) {
    return (uint64_t)(((unsigned __int128)u * sum) >> 64);
}

static int32_t draw_from(const struct ht_sampler_scratch *w, size_t n, uint64_t u) {
    uint64_t r = scale(u, sum_of(w->weights, n));
    size_t i = 0;
    while (i + 1 < n && r >= w->weights[i]) r -= w->weights[i++];
    return (int32_t)ht_rank_key_id(w->keys[i]);
}

// From all tokens: the chunk first, then the token in it. weights holds the sums of the chunks.
static int32_t draw_from_all(const struct ht_sampler_scratch *w, const float *l, float max, float t,
                             uint64_t u) {
    uint32_t n_chunks = (w->n_vocab + HT_CHUNK - 1) / HT_CHUNK, c = 0;
    for (uint32_t i = 0; i < n_chunks; i++) w->weights[i] = weigh_chunk(w, l, max, t, i);
    uint64_t r = scale(u, sum_of(w->weights, n_chunks));
    while (r >= w->weights[c]) r -= w->weights[c++];
    for (uint32_t i = c * HT_CHUNK;; i++) { // r is below the chunk's sum, so this ends in it
        uint64_t weight = weight_of(ht_exp_neg((l[i] - max) / t));
        if (r < weight) return (int32_t)i;
        r -= weight;
    }
}

static size_t weigh_top_p(const struct ht_sampler_scratch *w, const float *l, float max,
                          const struct hearth_sampling *o) {
    uint64_t sum = 0;
    for (uint32_t c = 0; c * HT_CHUNK < w->n_vocab; c++)
        sum += weigh_chunk(w, l, max, o->temperature, c);
    uint64_t target = top_p_target(o->top_p, sum);
    size_t n = weigh_from(w, l, max, o->temperature, LIKELY);
    if (sum_of(w->weights, n) < target) n = weigh_from(w, l, max, o->temperature, NO_WEIGHT);
    return cut_at(w, n, target);
}

int32_t ht_draw(const struct hearth_sampling *o, const struct ht_sampler_scratch *w, const float *l,
                float max, uint64_t u) {
    size_t n;
    if (o->top_k > 0 && (uint32_t)o->top_k < w->n_vocab) {
        n = weigh_top(w, l, max, o->temperature, (uint32_t)o->top_k);
        if (o->top_p < 1) n = cut_at(w, n, top_p_target(o->top_p, sum_of(w->weights, n)));
    } else if (o->top_p < 1) {
        n = weigh_top_p(w, l, max, o);
    } else if (o->min_p > 0) { // a hair more than are kept, so that rounding does not matter
        n = weigh_from(w, l, max, o->temperature, logf(o->min_p) - 0.01f);
    } else {
        return draw_from_all(w, l, max, o->temperature, u);
    }
    if (o->min_p > 0) n = cut_min_p(w, n, o->min_p);
    return draw_from(w, n, u);
}
