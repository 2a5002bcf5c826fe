// SPDX-License-Identifier: MIT
// A backend without arithmetic: the "KV" of a position is the token it was given, and the logits of
// a position are noise from a hash of every token that the pages hold up to there. So the logits
// depend on the whole sequence, and on nothing else unless the engine mixes up a page, a position
// or a row; which the tests then see. Limits of each batch are checked with ht_batch_check.
#ifndef HT_TESTS_ENGINE_FAKE_H
#define HT_TESTS_ENGINE_FAKE_H

#include "backend/backend.h"

#define FAKE_VOCAB 60

struct fake_control { // one for the program; zero it first
    uint64_t fail_at; // the pass (1: the first) that fails; 0: none
    enum hearth_status fail_with;
    uint64_t nan_at; // the pass whose logits hold a NaN
    _Atomic uint64_t n_passes;
    int n_threads;                                      // of a team that samples; 0: no team
    enum hearth_status unsupported;                     // what supports() says
    void (*look)(void *user, const struct ht_batch *b); // sees every batch, if set
    void *user;
};
extern struct fake_control fake_control;

extern const struct ht_backend_ops fake_backend;
extern const struct ht_plan fake_plan;

// The logits [FAKE_VOCAB] behind tokens[0..n - 1].
void fake_logits(const int32_t *tokens, uint32_t n, float *logits);

#endif
