// SPDX-License-Identifier: MIT
// Which of two ways of doing a step is faster here and now, where that depends on what other
// programs leave of caches and memory, and the results are the same: found out by doing. Pairs of
// like executes go the one way and the other, in turns; the better half of them decides how the
// next HT_CPU_TRIAL_HOLD go; then it is asked again.
#ifndef HT_CPU_TRIAL_H
#define HT_CPU_TRIAL_H

#include <stdbool.h>
#include <stdint.h>

#define HT_CPU_TRIAL_PAIRS 9   // odd
#define HT_CPU_TRIAL_HOLD  512 // so 1 of 29 executes is tried, and what changes in a minute is seen

// Begins as zeros but for `way`, by which executes go that are not like the ones before them.
struct ht_cpu_trial {
    bool way;          // what was found last
    bool counts;       // this execute is one of a pair
    uint32_t held;     // executes that go that way yet
    bool half;         // a pair's first is done, with `like` and first_ns
    uint32_t n_pairs;  // done
    uint32_t n_better; // of these, where true was faster
    uint32_t like;
    uint64_t first_ns;
};

// The way of the next execute. Those of one `like` are as long as each other.
bool ht_cpu_trial_begin(struct ht_cpu_trial *t, uint32_t like);
// It took so long. Each begin has its end before the next.
void ht_cpu_trial_end(struct ht_cpu_trial *t, uint64_t ns);

#endif
