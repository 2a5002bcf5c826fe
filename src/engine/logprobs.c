// SPDX-License-Identifier: MIT
// Log-probabilities of the model's own distribution, before bias, penalties and temperature:
//   logprob[i] = (l[i] - l_max) - ln(sum over j of exp(l[j] - l_max))
// The sum has a fixed order (16 lanes, then in pairs) and its logarithm is our own, so the numbers
// are the same everywhere.
#include <math.h>

#include "engine/sampler.h"

#define LANES 16

// ln(x) for x >= 1: x = m 2^e with m in [sqrt(1/2), sqrt(2)), s = (m - 1) / (m + 1),
// ln(m) = 2 (s + s^3/3 + s^5/5 + ...); |s| < 0.1716, so s^21 ends below 1e-17.
static double log_from_one(double x) {
    int e;
    double m = frexp(x, &e); // exact
    if (m < 0.70710678118654752) {
        m *= 2;
        e--;
    }
    double s = (m - 1) / (m + 1), z = s * s, p = 0;
    for (int k = 19; k >= 1; k -= 2) p = p * z + 1.0 / k;
    return 2 * s * p + e * 0.69314718055994531;
}

static double sum_exp(const float *logits, uint32_t n, float max) {
    double lane[LANES] = {0};
    uint32_t i = 0;
    for (; i + LANES <= n; i += LANES)
        for (uint32_t j = 0; j < LANES; j++) lane[j] += (double)ht_exp_neg(logits[i + j] - max);
    for (uint32_t j = 0; i + j < n; j++) lane[j] += (double)ht_exp_neg(logits[i + j] - max);
    for (uint32_t w = LANES / 2; w > 0; w /= 2)
        for (uint32_t j = 0; j < w; j++) lane[j] += lane[j + w];
    return lane[0];
}

size_t ht_logprobs(struct ht_sampler_scratch *w, const float *logits, int32_t token, size_t n_top,
                   float *logprob, struct hearth_token_logprob *top) {
    if (n_top > HT_MAX_LOGPROBS) n_top = HT_MAX_LOGPROBS;
    if (n_top > w->n_vocab) n_top = w->n_vocab;
    (void)!ht_chunk_maxima(logits, w->n_vocab, w->maxima); // the sampler has seen them
    float max = -INFINITY;
    for (uint32_t c = 0; c < (w->n_vocab + HT_CHUNK - 1) / HT_CHUNK; c++)
        max = w->maxima[c] > max ? w->maxima[c] : max;
    double log_sum = log_from_one(sum_exp(logits, w->n_vocab, max));
    *logprob = (float)((double)logits[token] - (double)max - log_sum);
    if (n_top == 0) return 0;

    size_t n = ht_gather_top(w, logits, (uint32_t)n_top);
    uint64_t cutoff = n > n_top ? ht_rank_cutoff(w->keys, NULL, n, n_top) : 0;
    uint64_t best[HT_MAX_LOGPROBS];
    size_t n_best = 0;
    for (size_t i = 0; i < n; i++) { // insertion, best first
        if (w->keys[i] < cutoff) continue;
        size_t j = n_best++;
        for (; j > 0 && best[j - 1] < w->keys[i]; j--) best[j] = best[j - 1];
        best[j] = w->keys[i];
    }
    for (size_t j = 0; j < n_best; j++) {
        int32_t id = (int32_t)ht_rank_key_id(best[j]);
        float lp = (float)((double)logits[id] - (double)max - log_sum);
        top[j] = (struct hearth_token_logprob){.token = id, .logprob = lp};
    }
    return n_best;
}
