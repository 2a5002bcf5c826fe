// SPDX-License-Identifier: MIT
// The cores that this process may really use. A container sees all CPUs of its machine online, and
// often in its affinity mask too; what it may use stands in the quota of its control group. Reads
// files, keeps nothing.
#include "base/cpus.h"

#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/team.h"

#define N_PATH 4096

// Reads the front of a small file; false if there is none.
static bool read_text(const char *path, char *buf, size_t n_buf) {
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) return false;
    ssize_t n = read(fd, buf, n_buf - 1);
    close(fd);
    if (n < 0) return false;
    buf[n] = 0;
    return true;
}

static int cores_of(long long quota, long long period) {
    if (quota <= 0 || period <= 0) return 0; // -1 or "max": no quota
    long long n = quota / period + (quota % period != 0);
    return n > HT_TEAM_MAX ? HT_TEAM_MAX : (int)n;
}

// The quota of the group in this folder, 0 if none.
static int folder_quota(const char *folder, bool v2) {
    char path[N_PATH + 64], text[128];
    long long quota = 0, period = 0;
    if (v2) {
        snprintf(path, sizeof path, "%s/cpu.max", folder);
        if (!read_text(path, text, sizeof text)) return 0;
        char *end;
        quota = strtoll(text, &end, 10); // "max 100000": no digits, quota 0
        period = strtoll(end, NULL, 10);
        return cores_of(quota, period);
    }
    snprintf(path, sizeof path, "%s/cpu.cfs_quota_us", folder);
    if (!read_text(path, text, sizeof text)) return 0;
    quota = strtoll(text, NULL, 10);
    snprintf(path, sizeof path, "%s/cpu.cfs_period_us", folder);
    if (!read_text(path, text, sizeof text)) return 0;
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

int ht_team_default_threads(void) {
    long online = sysconf(_SC_NPROCESSORS_ONLN);
    int n = online < 1 ? 1 : online > HT_TEAM_MAX ? HT_TEAM_MAX : (int)online;
    cpu_set_t mask; // 1024 CPUs; a larger machine refuses it and `online` stays
    if (sched_getaffinity(0, sizeof mask, &mask) == 0) n = smaller(n, CPU_COUNT(&mask));
    char groups[4096];
    if (read_text("/proc/self/cgroup", groups, sizeof groups))
        n = smaller(n, ht_cpus_quota("/sys/fs/cgroup", groups));
    return n;
}
