// SPDX-License-Identifier: MIT
// The golden models of ${HEARTH_SHARED:-../shared}/golden and a way to run tokens through a
// backend under every condition that must not matter: chunk sizes, page order, other sequences in
// the same batches. Failures are cmocka failures. One thread.
#ifndef HT_TESTS_GOLDEN_H
#define HT_TESTS_GOLDEN_H

#include "cmocka_all.h"

#include "backend/backend.h"
#include "gguf/gguf.h"
#include "model/model.h"

#define GOLDEN_N_ARCHS  7
#define GOLDEN_N_QUANTS 19                               // MXFP4 with experts is one of them
extern const char *const golden_archs[GOLDEN_N_ARCHS];   // "archs/qwen3-dense"
extern const char *const golden_quants[GOLDEN_N_QUANTS]; // "quants/qwen3.Q8_0"

// Arm's levels mostly run under an emulator, which is slow: there some tests take every third of
// their cases, or as many tokens as reach a second page.
#if defined(__aarch64__)
enum { GOLDEN_STEP = 3, GOLDEN_TOKENS = 40 };
#else
enum { GOLDEN_STEP = 1, GOLDEN_TOKENS = 1000 };
#endif

struct golden {
    struct ht_gguf *g;
    struct ht_model *m;
    const struct ht_plan *plan;
    int32_t *tokens; // [n_tokens]
    uint32_t n_tokens, n_vocab;
    float *logits; // [n_tokens][n_vocab], expected
};

// ${HEARTH_SHARED:-../shared}/golden; skips the test with a message where it is absent.
const char *golden_dir(void);
void golden_open(const char *name, struct golden *out); // "archs/qwen3-dense"
// The same with at most GOLDEN_TOKENS tokens.
void golden_open_some(const char *name, struct golden *out);
void golden_close(struct golden *g);

struct golden_run {
    const struct ht_backend_ops *ops;
    const char *level; // NULL: none
    int n_threads;     // 0: default
    enum hearth_kv_type kv_type;
    uint32_t chunk;     // tokens of the sequence a pass; 0: all in one
    uint32_t page_seed; // 0: pages in order; else shuffled
    uint32_t n_among;   // other sequences, of various lengths, in the same batches
    bool repack;        // the backend copies weights in its own order
    uint32_t one_in;    // 0: logits of all positions are wanted; else of one in so many pairs of
                        // them alone, of the others' sequences, too
    uint32_t from;      // where one_in is 0, logits of these positions on alone
};

// Whether the run wants the logits of a position of the sequence itself (0) or one beside it.
bool golden_wants(const struct golden_run *r, uint32_t seq, uint32_t pos);
// The logits of g's tokens: [n_tokens][n_vocab], 0 where they are not wanted, to be freed with
// free().
float *golden_logits(const struct golden *g, const struct golden_run *r);

// Whether a level of a backend repacks any of the model's weights.
bool golden_can_repack(const struct golden *g, const struct ht_backend_ops *ops, const char *level);

// sum((a - b)^2) / sum(b^2)
double golden_nmse(const float *a, const float *b, size_t n);
// The worst NMSE of any position; NaN if there is one.
double golden_worst(const struct golden *g, const float *logits);

#endif
