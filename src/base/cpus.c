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

#include "base/team.h"
#include "base/text_file.h"

#define N_PATH 4096

static int cores_of(long long quota, long long period) {
    if (quota <= 0 || period <= 0) return 0; // -1 or "max": no quota
    long long n = quota / period + (quota % period >= period - period / 2);
    if (n < 1) n = 1;
    return n > HT_TEAM_MAX ? HT_TEAM_MAX : (int)n;
}

// The quota of the group in this folder, 0 if none.
static int folder_quota(const char *folder, bool v2) {
    char path[N_PATH + 64], text[128];
    long long quota = 0, period = 0;
    if (v2) {
        snprintf(path, sizeof path, "%s/cpu.max", folder);
        if (!ht_read_text(path, text, sizeof text)) return 0;
        char *end;
        quota = strtoll(text, &end, 10); // "max 100000": no digits, quota 0
        period = strtoll(end, NULL, 10);
        return cores_of(quota, period);
    }
    snprintf(path, sizeof path, "%s/cpu.cfs_quota_us", folder);
    if (!ht_read_text(path, text, sizeof text)) return 0;
    quota = strtoll(text, NULL, 10);
    snprintf(path, sizeof path, "%s/cpu.cfs_period_us", folder);
    if (!ht_read_text(path, text, sizeof text)) return 0;
    period = strtoll(text, NULL, 10);
    return cores_of(quota, period);
}

static int smaller(int a, int b) { // 0: none
    if (a == 0) return b;
    if (b == 0) return a;
    return a < b ? a : b;
}

// From mount/group up to mount itself. In a container the group's path may be the host's while the
// mount is the container's own root: folders that are not there are passed by.
static int quota_upwards(const char *mount, const char *group, size_t n_group, bool v2) {
    char folder[N_PATH];
    size_t n_mount = strlen(mount);
    if (n_mount + n_group + 1 > sizeof folder) return 0;
    memcpy(folder, mount, n_mount);
    memcpy(folder + n_mount, group, n_group);
    folder[n_mount + n_group] = 0;
    int least = folder_quota(folder, v2);
    for (size_t n = n_mount + n_group; n > n_mount; n--)
        if (folder[n - 1] == '/') {
            folder[n - 1] = 0;
            least = smaller(least, folder_quota(folder, v2));
        }
    return least;
}

// Does the comma-separated list of `n` bytes hold "cpu"?
static bool has_cpu(const char *list, size_t n) {
    for (size_t i = 0; i < n;) {
        const char *comma = memchr(list + i, ',', n - i);
        size_t end = comma ? (size_t)(comma - list) : n;
        if (end - i == 3 && memcmp(list + i, "cpu", 3) == 0) return true;
        i = end + 1;
    }
    return false;
}

int ht_cpus_quota(const char *root, const char *groups) {
    static const char *const v1_mounts[] = {"cpu,cpuacct", "cpu", "cpuacct,cpu"};
    static const char *const v2_mounts[] = {"", "/unified"};
    char mount[N_PATH];
    int least = 0;
    for (const char *line = groups; *line;) {
        const char *line_end = strchr(line, '\n');
        size_t n = line_end ? (size_t)(line_end - line) : strlen(line);
        const char *list = memchr(line, ':', n);
        const char *group = list ? memchr(list + 1, ':', n - (size_t)(list + 1 - line)) : NULL;
        if (group) {
            size_t n_list = (size_t)(group - list - 1), n_group = n - (size_t)(group + 1 - line);
            bool v2 = n_list == 0;
            size_t n_mounts =
                v2 ? sizeof v2_mounts / sizeof *v2_mounts : sizeof v1_mounts / sizeof *v1_mounts;
            for (size_t i = 0; i < n_mounts && (v2 || has_cpu(list + 1, n_list)); i++) {
                int len = v2 ? snprintf(mount, sizeof mount, "%s%s", root, v2_mounts[i])
                             : snprintf(mount, sizeof mount, "%s/%s", root, v1_mounts[i]);
                if (len < 0 || (size_t)len >= sizeof mount) continue;
                least = smaller(least, quota_upwards(mount, group + 1, n_group, v2));
            }
        }
        line += n;
        if (*line == '\n') line++;
    }
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
