// SPDX-License-Identifier: MIT
// The cores that this process may really use. A container sees all CPUs of its machine online, and
// often in its affinity mask too; what it may use stands in the quota of its control group. Of the
// CPUs of one core, and of cores of two speeds, not all are worth a thread. Reads files, keeps
// nothing.
#include "base/cpus.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cgroup.h"
#include "base/team.h"
#include "base/text_file.h"

#define N_PATH 4096

static int cores_of(long long quota, long long period) {
    if (quota <= 0 || period <= 0) return 0; // -1 or "max": no quota
    long long n = quota / period + (quota % period >= period - period / 2);
    if (n < 1) n = 1;
    return n > HT_TEAM_MAX ? HT_TEAM_MAX : (int)n;
}

static int smaller(int a, int b) { // 0: none
    if (a == 0) return b;
    if (b == 0) return a;
    return a < b ? a : b;
}

static long long number_in(const char *folder, const char *file) { // 0: none
    char path[N_PATH + 64], text[128];
    snprintf(path, sizeof path, "%s/%s", folder, file);
    return ht_read_text(path, text, sizeof text) ? strtoll(text, NULL, 10) : 0;
}

// Takes the quota of the group in this folder into *user, an int.
static void take_quota(void *user, const char *folder, bool v2) {
    int *least = user;
    char path[N_PATH + 64], text[128], *end;
    long long quota = 0, period = 0;
    snprintf(path, sizeof path, "%s/cpu.max", folder);
    if (v2 && ht_read_text(path, text, sizeof text)) {
        quota = strtoll(text, &end, 10); // "max 100000": no digits, quota 0
        period = strtoll(end, NULL, 10);
    } else if (!v2) {
        quota = number_in(folder, "cpu.cfs_quota_us");
        period = number_in(folder, "cpu.cfs_period_us");
    }
    *least = smaller(*least, cores_of(quota, period));
}

int ht_cpus_quota(const char *root, const char *groups) {
    int least = 0;
    ht_cgroup_walk(root, groups, "cpu", take_quota, &least);
    return least;
}

// ---- cores

static bool read_cpu_text(const char *root, int cpu, const char *file, char *buf, size_t n_buf) {
    char path[N_PATH];
    int n = snprintf(path, sizeof path, "%s/cpu%d/%s", root, cpu, file);
    return n > 0 && (size_t)n < sizeof path && ht_read_text(path, buf, n_buf);
}

// A positive number from a CPU's file; 0: none.
static long long cpu_number(const char *root, int cpu, const char *file) {
    char text[64];
    if (!read_cpu_text(root, cpu, file, text, sizeof text)) return 0;
    long long v = strtoll(text, NULL, 10);
    return v > 0 ? v : 0;
}

#define SIBLINGS "topology/thread_siblings_list"

// Is this CPU the first of the allowed ones of its list? "0,64" and "0-1,8" are such lists.
static bool is_first_of(const char *root, int cpu, const char *list, const cpu_set_t *allowed) {
    char text[512];
    if (!read_cpu_text(root, cpu, list, text, sizeof text)) return true;
    for (const char *c = text; *c >= '0' && *c <= '9';) {
        char *end;
        long from = strtol(c, &end, 10), to = *end == '-' ? strtol(end + 1, &end, 10) : from;
        for (long i = from; i <= to && i < cpu; i++)
            if (i >= 0 && CPU_ISSET((size_t)i, allowed)) return false;
        c = *end == ',' ? end + 1 : end;
    }
    return true;
}

// The largest n for which n * (the n-th fastest) is largest; speeds are in falling order.
static int best_pace(const long long *speed, int n) {
    int best = 1;
    for (int i = 2; i <= n; i++)
        if (speed[i - 1] * i >= speed[best - 1] * best) best = i;
    return best;
}

static int within_15_percent(const long long *speed, int n) {
    int k = 1;
    while (k < n && speed[k] * 100 >= speed[0] * 85) k++;
    return k;
}

// Cores by a file's number, in falling order; false if one of them lacks it.
static bool speeds_of(const char *root, const char *file, const int *cores, int n,
                      long long *speed) {
    for (int i = 0; i < n; i++) {
        long long v = cpu_number(root, cores[i], file);
        int at = i;
        if (v == 0) return false;
        for (; at > 0 && speed[at - 1] < v; at--) speed[at] = speed[at - 1];
        speed[at] = v;
    }
    return true;
}

void ht_cpus_cores(const char *root, const cpu_set_t *allowed, int *n_cores, int *n_fast) {
    int cores[CPU_SETSIZE], n = 0;
    long long speed[CPU_SETSIZE];
    for (int cpu = 0; cpu < CPU_SETSIZE; cpu++)
        if (CPU_ISSET((size_t)cpu, allowed) && is_first_of(root, cpu, SIBLINGS, allowed))
            cores[n++] = cpu;
    *n_cores = *n_fast = n > 0 ? n : 1;
    if (n < 2) return;
    // Since Linux 6.16 x86 has capacities, too, all alike unless its driver sets them.
    if (speeds_of(root, "cpu_capacity", cores, n, speed) && speed[0] != speed[n - 1])
        *n_fast = best_pace(speed, n);
    else if (speeds_of(root, "cpufreq/cpuinfo_max_freq", cores, n, speed))
        *n_fast = within_15_percent(speed, n);
}

// The cache of cpu with that number, if cpu is the first of those that share it and are allowed.
static uint64_t cache_bytes(const char *root, int cpu, int index, const cpu_set_t *allowed) {
    char name[64], text[64], *end;
    snprintf(name, sizeof name, "cache/index%d/shared_cpu_list", index);
    if (!is_first_of(root, cpu, name, allowed)) return 0;
    snprintf(name, sizeof name, "cache/index%d/size", index);
    if (!read_cpu_text(root, cpu, name, text, sizeof text)) return 0;
    unsigned long long n = strtoull(text, &end, 10); // "32768K"
    unsigned shift = *end == 'K' ? 10 : *end == 'M' ? 20 : 0;
    return n < (1ull << 40) >> shift ? n << shift : 0;
}

uint64_t ht_cpus_large_caches(const char *root, const cpu_set_t *allowed) {
    uint64_t sum = 0;
    for (int cpu = 0; cpu < CPU_SETSIZE; cpu++)
        for (int index = 2; index <= 3 && CPU_ISSET((size_t)cpu, allowed); index++)
            sum += cache_bytes(root, cpu, index, allowed);
    return sum;
}

uint64_t ht_cpus_large_caches_now(void) {
    cpu_set_t mask;
    uint64_t n = 0;
    if (sched_getaffinity(0, sizeof mask, &mask) == 0)
        n = ht_cpus_large_caches("/sys/devices/system/cpu", &mask);
#if defined(_SC_LEVEL3_CACHE_SIZE)
    long said = n ? 0 : sysconf(_SC_LEVEL3_CACHE_SIZE); // 0 or -1: not known
    if (said > 0) n = (uint64_t)said;
#endif
    return n;
}

void ht_cpus_get(struct ht_cpus *out) {
    long online = sysconf(_SC_NPROCESSORS_ONLN);
    int n = online < 1 ? 1 : (int)online;
    struct ht_cpus c = {.n_online = n, .n_affinity = n, .n_cores = n, .n_fast = n};
    cpu_set_t mask; // 1024 CPUs; a larger machine refuses it and `online` stays
    if (sched_getaffinity(0, sizeof mask, &mask) == 0) {
        c.n_affinity = CPU_COUNT(&mask);
        ht_cpus_cores("/sys/devices/system/cpu", &mask, &c.n_cores, &c.n_fast);
    }
    char groups[8192]; // thirteen controllers' paths, in containers within containers
    if (ht_read_text("/proc/self/cgroup", groups, sizeof groups))
        c.n_quota = ht_cpus_quota("/sys/fs/cgroup", groups);
    *out = c;
}

static int at_most_max(int n) {
    return n > HT_TEAM_MAX ? HT_TEAM_MAX : n;
}

int ht_team_default_threads(void) {
    struct ht_cpus c;
    ht_cpus_get(&c);
    return at_most_max(smaller(c.n_fast, c.n_quota));
}

int ht_team_usable_cpus(void) {
    struct ht_cpus c;
    ht_cpus_get(&c);
    return at_most_max(smaller(smaller(c.n_online, c.n_affinity), c.n_quota));
}

// ---- masks

static int hex_digit(char c) {
    if (c >= '0' && c <= '9') return c - '0';
    if (c >= 'a' && c <= 'f') return c - 'a' + 10;
    return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

enum hearth_status ht_cpus_parse_mask(const char *mask, int *cpus, int *n_cpus,
                                      struct hearth_error *err) {
    const char *digits = mask[0] == '0' && (mask[1] == 'x' || mask[1] == 'X') ? mask + 2 : mask;
    size_t n = strlen(digits);
    int found[HT_TEAM_MAX], n_found = 0;
    for (size_t i = 0; i < n; i++)
        if (hex_digit(digits[i]) < 0) n = 0;
    if (n == 0)
        return ht_fail(err, HEARTH_E_ARG,
                       "CPU mask '%.80s': a hexadecimal number was expected, CPU 0 its lowest bit, "
                       "like f0 for CPUs 4 to 7",
                       mask);
    for (size_t i = 0; i < n; i++) // from the lowest digit on
        for (int bit = 0; bit < 4; bit++) {
            if (!(hex_digit(digits[n - 1 - i]) >> bit & 1)) continue;
            if (n_found == HT_TEAM_MAX || i >= CPU_SETSIZE / 4)
                return ht_fail(err, HEARTH_E_ARG,
                               "CPU mask '%.80s': at most %d CPUs below CPU %d were expected", mask,
                               HT_TEAM_MAX, CPU_SETSIZE);
            found[n_found++] = (int)i * 4 + bit;
        }
    if (n_found == 0) return ht_fail(err, HEARTH_E_ARG, "CPU mask '%.80s' holds no CPU", mask);
    memcpy(cpus, found, (size_t)n_found * sizeof *cpus);
    *n_cpus = n_found;
    return HEARTH_OK;
}
