// SPDX-License-Identifier: MIT
// The CPUs that this process may use, and how many of them are worth a thread. Apart from team.h so
// that tests can give their own files in the place of /sys and /proc.
#ifndef HT_BASE_CPUS_H
#define HT_BASE_CPUS_H

#include <sched.h>

#include "base/status.h"

// The smallest CPU quota along the way from the process's group up to the root, rounded to
// whole cores, 1 at least; 0 if none is set. root, groups: ht_cgroup_walk's.
int ht_cpus_quota(const char *root, const char *groups);

// The cores that the allowed CPUs are, siblings counted once, and the fast ones among them, from
// the files of `root` (/sys/devices/system/cpu):
//   cpuN/topology/thread_siblings_list   absent: a core of its own
//   cpuN/cpu_capacity                    threads have equal shares, so the slowest sets the pace:
//                                        the fastest n cores with the largest n * slowest
//   cpuN/cpufreq/cpuinfo_max_freq        where there is no capacity, or all have the same: within
//                                        15 % of the highest
// Where a core says neither, all are fast. Both at least 1.
void ht_cpus_cores(const char *root, const cpu_set_t *allowed, int *n_cores, int *n_fast);

// Bytes of the second- and third-level caches that the allowed CPUs have, each counted once (some
// servers' second ones hold more together than the third), from, I being 2 and 3,
//   cpuN/cache/indexI/size, cpuN/cache/indexI/shared_cpu_list
// 0: not known. The second one: of the calling thread's, or what the C library says.
uint64_t ht_cpus_large_caches(const char *root, const cpu_set_t *allowed);
uint64_t ht_cpus_large_caches_now(void);

struct ht_cpus {
    int n_online, n_affinity; // the second of the calling thread
    int n_cores, n_fast;      // among those
    int n_quota;              // 0: none
};
void ht_cpus_get(struct ht_cpus *out); // of this machine, now

// CPUs by a hexadecimal mask, CPU 0 the lowest bit, "0x" in front or not: rising numbers in
// cpus[HT_TEAM_MAX]. E_ARG with a sentence for anything else, for none, and for too many.
HT_MUST_CHECK enum hearth_status ht_cpus_parse_mask(const char *mask, int *cpus, int *n_cpus,
                                                    struct hearth_error *err);

#endif
