// SPDX-License-Identifier: MIT
// Selection over a whole vocabulary without sorting it. Two ideas: maxima of chunks bound the k-th
// largest logit from below, so that all but a few chunks are never looked at again; and a rank
// cutoff is found digit by digit, 8 bits of the key at a time, which is linear whatever the logits
// are. Nothing is moved: candidates stay in order of id.
#include <math.h>
#include <string.h>

#include "engine/sampler.h"

static float rank_key_logit(uint64_t key) {
    uint32_t order = (uint32_t)(key >> 32);
    union {
        uint32_t u;
        float f;
    } v = {order ^ (order >> 31 ? 0x80000000u : UINT32_MAX)};
    return v.f;
}

// 32 lanes rather than 16: compilers unroll shorter loops first and then do not see the vector.
#define LANES 32

// The maximum of a whole chunk; *bad becomes 1 at a NaN or +inf, that is at what is not below +inf.
static float chunk_max(const float *x, uint32_t *bad) {
    float m[LANES];
    uint32_t b[LANES];
    for (uint32_t j = 0; j < LANES; j++) {
        m[j] = x[j];
        b[j] = !(x[j] < INFINITY);
    }
    for (uint32_t k = LANES; k < HT_CHUNK; k += LANES) {
        for (uint32_t j = 0; j < LANES; j++) {
            m[j] = x[k + j] > m[j] ? x[k + j] : m[j];
            b[j] |= !(x[k + j] < INFINITY);
        }
    }
    float max = m[0];
    uint32_t any = 0;
    for (uint32_t j = 0; j < LANES; j++) max = m[j] > max ? m[j] : max;
    for (uint32_t j = 0; j < LANES; j++) any |= b[j];
    *bad |= any;
    return max;
}

bool ht_chunk_maxima(const float *logits, uint32_t n, float *maxima) {
    uint32_t bad = 0, i = 0, c = 0;
    for (; i + HT_CHUNK <= n; i += HT_CHUNK, c++) maxima[c] = chunk_max(logits + i, &bad);
    if (i < n) {
        float m = -INFINITY;
        for (; i < n; i++) {
            m = logits[i] > m ? logits[i] : m;
            bad |= !(logits[i] < INFINITY);
        }
        maxima[c] = m;
    }
    return bad == 0;
}

size_t ht_gather_top(const struct ht_sampler_scratch *w, const float *logits, uint32_t k) {
    uint32_t n_chunks = (w->n_vocab + HT_CHUNK - 1) / HT_CHUNK;
    float bound = -INFINITY;
    if (k < n_chunks) {
        for (uint32_t c = 0; c < n_chunks; c++) w->keys[c] = ht_rank_key(w->maxima[c], c);
        bound = rank_key_logit(ht_rank_cutoff(w->keys, NULL, n_chunks, k));
    }
    size_t n = 0;
    for (uint32_t c = 0; c < n_chunks; c++) {
        if (w->maxima[c] < bound) continue;
        uint32_t begin = c * HT_CHUNK;
        uint32_t end = w->n_vocab - begin < HT_CHUNK ? w->n_vocab : begin + HT_CHUNK;
        for (uint32_t i = begin; i < end; i++)
            if (logits[i] >= bound) w->keys[n++] = ht_rank_key(logits[i], i);
    }
    return n;
}

uint64_t ht_rank_cutoff(const uint64_t *keys, const uint64_t *weights, size_t n, uint64_t target) {
    uint64_t prefix = 0, mask = 0, above = 0; // above: weight of the keys better than the prefix
    for (int shift = 56; shift >= 0; shift -= 8) {
        uint64_t sum[256] = {0};
        uint32_t count[256] = {0};
        for (size_t i = 0; i < n; i++) {
            if ((keys[i] ^ prefix) & mask) continue;
            unsigned d = (unsigned)(keys[i] >> shift) & 0xff;
            sum[d] += weights ? weights[i] : 1;
            count[d]++;
        }
        unsigned d = 255;
        while (d > 0 && above + sum[d] < target) above += sum[d--];
        prefix |= (uint64_t)d << shift;
        mask |= (uint64_t)0xff << shift;
        if (count[d] == 1) {
            for (size_t i = 0; i < n; i++)
                if (((keys[i] ^ prefix) & mask) == 0) return keys[i];
        }
    }
    return prefix; // keys are all different, so this is not reached with a valid target
}
