// SPDX-License-Identifier: MIT
// A standing team of threads. One region runs at a time: ht_team_run wakes every thread, each calls
// fn with its index, and the call returns when all are back. Inside a region the threads meet at
// barriers. Waiting spins for a short while, then sleeps (futex), so an idle team costs nothing.
// Thread 0 is the caller. A team is driven by one thread.
#ifndef HT_BASE_TEAM_H
#define HT_BASE_TEAM_H

#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

struct ht_team;

// The threads that pay: the fast cores among those that the calling thread may run on (cpus.h), no
// more than the cgroup CPU quota (v1 and v2, rounded), at least 1.
int ht_team_default_threads(void);
// The CPUs that the calling thread may really use, slow ones and siblings of one core as well.
int ht_team_usable_cpus(void);

// n_threads 0 means the default; at most HT_TEAM_MAX. Idle ones sleep.
#define HT_TEAM_MAX 256
// What a thread that the team made keeps of the memory: its stack, as far as kernels touch it, and
// what the C library has for it. (20 KB were seen.)
#define HT_TEAM_THREAD_BYTES (32u << 10)
HT_MUST_CHECK enum hearth_status ht_team_create(int n_threads, struct ht_team **out,
                                                struct hearth_error *err);
// The same with one CPU a thread: thread i runs on cpus[i] and nowhere else; n_threads 0 means
// n_cpus. The caller of ht_team_run is bound to the first while it runs, and then to what it was
// before. E_ARG: more threads than CPUs, or a CPU that there is not, or not for us.
HT_MUST_CHECK enum hearth_status ht_team_create_pinned(int n_threads, const int *cpus, int n_cpus,
                                                       struct ht_team **out,
                                                       struct hearth_error *err);
void ht_team_destroy(struct ht_team *t); // accepts NULL
int ht_team_size(const struct ht_team *t);
// Whether it was made of more threads than there were CPUs for it, so that some have to take turns.
bool ht_team_is_crowded(const struct ht_team *t);

typedef void (*ht_team_fn)(void *arg, int thread, int n_threads);
void ht_team_run(struct ht_team *t, ht_team_fn fn, void *arg);
// Only inside a region, by every thread of the team. Full memory ordering.
void ht_team_barrier(struct ht_team *t, int thread);

// How long one thread spins at a barrier before it sleeps. With a CPU for each, long enough to
// bridge the uneven ends of a step and the sampling between two passes; with more threads than
// CPUs, the one waited for may need this one, so hardly at all. Where other programs want CPUs,
// that is so for as long as they do: a thread that spun in vain spins half as long from then on.
// Whether they still do, or it has been impatient since, only a long spin tells, so once in a while
// it tries that.
#define HT_SPIN_MOST_NS    200000
#define HT_SPIN_LEAST_NS   3000
#define HT_SPIN_CROWDED_NS 1000
#define HT_SPIN_TRY        256 // waits
struct ht_spin {
    uint64_t ns;      // at most waits
    unsigned n_short; // waits while that was not HT_SPIN_MOST_NS
    bool fixed;       // for a crowded team
};
void ht_spin_begin(struct ht_spin *s, bool crowded);
// How long to spin this time; then, whether that was enough.
uint64_t ht_spin_next(struct ht_spin *s);
void ht_spin_tell(struct ht_spin *s, uint64_t spun_ns, bool enough);
// The nanoseconds that a thread of a team now spins at most waits. For that thread itself in a
// region, and for the driving one, of itself, between regions.
uint64_t ht_team_spin_ns(const struct ht_team *t, int thread);

// Between two looks at what another thread of the region is about to finish; turn: 0, 1, 2 ...
void ht_team_spin(unsigned turn);

// Contiguous share [*begin, *end) of n items, in units of `unit` items, for one of n_threads.
static inline void ht_team_share(size_t n, size_t unit, int thread, int n_threads, size_t *begin,
                                 size_t *end) {
    size_t n_units = (n + unit - 1) / unit;
    size_t b = n_units * (size_t)thread / (size_t)n_threads * unit;
    size_t e = n_units * ((size_t)thread + 1) / (size_t)n_threads * unit;
    *begin = b < n ? b : n;
    *end = e < n ? e : n;
}

#endif
