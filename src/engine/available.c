// SPDX-License-Identifier: MIT
// How much memory there is for us: what the kernel calls MemAvailable, and the limits of the memory
// control groups (both versions) from the process's own up to the root. Page cache inside a group
// counts as available, since the kernel drops it first (and a model file just read lies there).
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cgroup.h"
#include "base/text_file.h"
#include "engine/engine_internal.h"

#define TEXT_MAX 8192

// Reads the beginning of a small text file; false if there is none.
static bool read_text(char text[TEXT_MAX], const char *folder, const char *file) {
    char path[4096 + 64];
    int n = snprintf(path, sizeof path, "%s/%s", folder, file);
    if (n < 0 || (size_t)n >= sizeof path) return false;
    return ht_read_text(path, text, TEXT_MAX) && text[0];
}

static bool parse_u64(const char *text, uint64_t *out) {
    char *end;
    if (*text < '0' || *text > '9') return false; // "max"
    *out = strtoull(text, &end, 10);
    return end != text;
}

// The number behind a name at the start of a line ("MemAvailable:", "inactive_file"), 0 if absent.
static uint64_t field(const char *text, const char *name) {
    size_t len = strlen(name);
    for (const char *line = text; line; line = strchr(line, '\n')) {
        if (*line == '\n') line++;
        if (strncmp(line, name, len) != 0) continue;
        const char *p = line + len;
        uint64_t value;
        if (*p != ' ' && *p != '\t') continue;
        while (*p == ' ' || *p == '\t') p++;
        return parse_u64(p, &value) ? value : 0;
    }
    return 0;
}

struct leaves {
    uint64_t least; // UINT64_MAX: no group sets a limit
    bool allowed;   // what they allow is asked for, not what they leave
};

// What one group leaves, or allows; UINT64_MAX if it sets no limit.
static uint64_t group_leaves(const char *folder, const char *limit_file, const char *usage_file,
                             const char *prefix, bool allowed) {
    char text[TEXT_MAX], name[64];
    uint64_t limit, usage, cache;
    if (!read_text(text, folder, limit_file) || !parse_u64(text, &limit)) return UINT64_MAX;
    if (limit >= (uint64_t)1 << 60) return UINT64_MAX; // version 1 writes "none" so
    if (allowed) return limit;
    if (!read_text(text, folder, usage_file) || !parse_u64(text, &usage)) return UINT64_MAX;
    cache = 0;
    if (read_text(text, folder, "memory.stat")) {
        snprintf(name, sizeof name, "%sinactive_file", prefix);
        cache += field(text, name);
        snprintf(name, sizeof name, "%sactive_file", prefix);
        cache += field(text, name);
    }
    uint64_t taken = usage > cache ? usage - cache : 0;
    return limit > taken ? limit - taken : 0;
}

static void take_group(void *user, const char *folder, bool v2) {
    struct leaves *l = user;
    static const char *const limits[] = {"memory.max", "memory.high"}; // beyond: slowed down
    for (int i = 0; i < (v2 ? 2 : 1); i++) {
        uint64_t leaves = v2 ? group_leaves(folder, limits[i], "memory.current", "", l->allowed)
                             : group_leaves(folder, "memory.limit_in_bytes",
                                            "memory.usage_in_bytes", "total_", l->allowed);
        if (leaves < l->least) l->least = leaves;
    }
}

// Asks the process's group and all above it.
static uint64_t groups_leave(const char *proc, const char *cgroup, bool allowed) {
    char text[TEXT_MAX];
    struct leaves l = {UINT64_MAX, allowed};
    if (read_text(text, proc, "self/cgroup"))
        ht_cgroup_walk(cgroup, text, "memory", take_group, &l);
    return l.least;
}

uint64_t ht_memory_available(const char *proc, const char *cgroup) {
    char text[TEXT_MAX];
    uint64_t available = UINT64_MAX;
    if (read_text(text, proc, "meminfo")) {
        uint64_t kib = field(text, "MemAvailable:");
        if (kib > 0 && kib < UINT64_MAX / 1024) available = kib * 1024;
    }
    uint64_t leaves = groups_leave(proc, cgroup, false);
    return leaves < available ? leaves : available;
}

uint64_t ht_memory_limit(const char *proc, const char *cgroup) {
    uint64_t limit = groups_leave(proc, cgroup, true);
    return limit == UINT64_MAX ? 0 : limit;
}

uint64_t ht_memory_total(const char *proc) {
    char text[TEXT_MAX];
    uint64_t kib = read_text(text, proc, "meminfo") ? field(text, "MemTotal:") : 0;
    return kib < UINT64_MAX / 1024 ? kib * 1024 : 0;
}
