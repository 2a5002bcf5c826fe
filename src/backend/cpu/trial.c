// SPDX-License-Identifier: MIT
#include "backend/cpu/trial.h"

// Pairs begin with either way in turns, so that what gets slower from execute to execute, as
// contexts grow, favours neither.
bool ht_cpu_trial_begin(struct ht_cpu_trial *t, uint32_t like) {
    if (t->held > 0) return t->way;
    if (t->half && t->like != like) t->half = false;
    t->like = like;
    return (t->n_pairs % 2 == 0) != t->half;
}

void ht_cpu_trial_end(struct ht_cpu_trial *t, uint64_t ns) {
    if (t->held > 0) {
        t->held--;
        return;
    }
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
