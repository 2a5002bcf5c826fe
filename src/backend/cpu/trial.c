// SPDX-License-Identifier: MIT
#include "backend/cpu/trial.h"

// Pairs begin with either way in turns, so that what gets slower from execute to execute, as
// contexts grow, favours neither.
bool ht_cpu_trial_begin(struct ht_cpu_trial *t, uint32_t like) {
    t->counts = t->held == 0 && t->like == like;
    if (t->like != like) t->half = false;
    t->like = like;
    return t->counts ? (t->n_pairs % 2 == 0) != t->half : t->way;
}

void ht_cpu_trial_end(struct ht_cpu_trial *t, uint64_t ns) {
    if (t->held > 0) t->held--;
    if (!t->counts) return;
    t->half = !t->half;
    if (t->half) {
        t->first_ns = ns;
        return;
    }
    bool first_was_true = t->n_pairs % 2 == 0;
    t->n_better += first_was_true ? t->first_ns < ns : ns < t->first_ns;
    if (++t->n_pairs < HT_CPU_TRIAL_PAIRS) return;
    t->way = t->n_better > HT_CPU_TRIAL_PAIRS / 2;
    t->held = HT_CPU_TRIAL_HOLD;
    t->n_pairs = t->n_better = 0;
}
