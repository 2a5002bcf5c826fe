// SPDX-License-Identifier: MIT
// How much memory there is for us: what the kernel calls MemAvailable, and the limits of the memory
// control groups (both versions) from the process's own up to the root. Page cache inside a group
// counts as available, since the kernel drops it first (and a model file just read lies there).
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/text_file.h"
#include "engine/engine_internal.h"

#define TEXT_MAX 8192

// Reads the beginning of a small text file; false if there is none.
static bool read_text(char text[TEXT_MAX], const char *dir, const char *group, const char *file) {
    char path[4096];
    int n = snprintf(path, sizeof path, "%s%s/%s", dir, group, file);
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

// What one group leaves, or allows; UINT64_MAX if it sets no limit.
static uint64_t group_leaves(const char *dir, const char *group, const char *limit_file,
                             const char *usage_file, const char *prefix, bool allowed) {
    char text[TEXT_MAX], name[64];
    uint64_t limit, usage, cache;
    if (!read_text(text, dir, group, limit_file) || !parse_u64(text, &limit)) return UINT64_MAX;
    if (limit >= (uint64_t)1 << 60) return UINT64_MAX; // version 1 writes "none" so
    if (allowed) return limit;
    if (!read_text(text, dir, group, usage_file) || !parse_u64(text, &usage)) return UINT64_MAX;
    cache = 0;
    if (read_text(text, dir, group, "memory.stat")) {
        snprintf(name, sizeof name, "%sinactive_file", prefix);
        cache += field(text, name);
        snprintf(name, sizeof name, "%sactive_file", prefix);
        cache += field(text, name);
    }
    uint64_t taken = usage > cache ? usage - cache : 0;
    return limit > taken ? limit - taken : 0;
}

// Asks a group and all above it.
static uint64_t groups_leave(const char *dir, const char *group, bool v2, bool allowed) {
    char path[2048];
    uint64_t least = UINT64_MAX;
    int n = snprintf(path, sizeof path, "%s", group);
    if (n < 0 || (size_t)n >= sizeof path) return least;
    for (;;) {
        if (strcmp(path, "/") == 0) path[0] = 0;
        static const char *const limits[] = {"memory.max", "memory.high"}; // beyond: slowed down
        for (int i = 0; i < (v2 ? 2 : 1); i++) {
            uint64_t leaves = v2 ? group_leaves(dir, path, limits[i], "memory.current", "", allowed)
                                 : group_leaves(dir, path, "memory.limit_in_bytes",
                                                "memory.usage_in_bytes", "total_", allowed);
            if (leaves < least) least = leaves;
        }
        char *slash = strrchr(path, '/');
        if (!slash) return least;
        *slash = 0;
    }
}

// Is `name` one of the comma-separated controllers in [list, end)?
static bool has_controller(const char *list, const char *end, const char *name) {
    size_t len = strlen(name);
    while (list < end) {
        const char *comma = memchr(list, ',', (size_t)(end - list));
        const char *stop = comma ? comma : end;
        if ((size_t)(stop - list) == len && memcmp(list, name, len) == 0) return true;
        list = stop + 1;
    }
    return false;
}

// Lines "id:controllers:/group"; version 2 has the line "0::/group".
static uint64_t all_groups_leave(const char *text, const char *root, bool allowed) {
    uint64_t least = UINT64_MAX;
    const char *line = text;
    while (*line) {
        const char *eol = strchr(line, '\n');
        if (!eol) eol = line + strlen(line);
        const char *c1 = memchr(line, ':', (size_t)(eol - line));
        const char *c2 = c1 ? memchr(c1 + 1, ':', (size_t)(eol - c1 - 1)) : NULL;
        if (c2) {
            char group[2048], dir[2048];
            bool v2 = c2 == c1 + 1;
            snprintf(group, sizeof group, "%.*s", (int)(eol - c2 - 1), c2 + 1);
            snprintf(dir, sizeof dir, "%s%s", root, v2 ? "" : "/memory");
            if (v2 || has_controller(c1 + 1, c2, "memory")) {
                uint64_t leaves = groups_leave(dir, group, v2, allowed);
                if (leaves < least) least = leaves;
            }
        }
        line = *eol ? eol + 1 : eol;
    }
    return least;
}

uint64_t ht_memory_available(const char *proc, const char *cgroup) {
    char text[TEXT_MAX];
    uint64_t available = UINT64_MAX;
    if (read_text(text, proc, "", "meminfo")) {
        uint64_t kib = field(text, "MemAvailable:");
        if (kib > 0 && kib < UINT64_MAX / 1024) available = kib * 1024;
    }
    if (read_text(text, proc, "/self", "cgroup")) {
        uint64_t leaves = all_groups_leave(text, cgroup, false);
        if (leaves < available) available = leaves;
    }
    return available;
}

uint64_t ht_memory_limit(const char *proc, const char *cgroup) {
    char text[TEXT_MAX];
    if (!read_text(text, proc, "/self", "cgroup")) return 0;
    uint64_t limit = all_groups_leave(text, cgroup, true);
    return limit == UINT64_MAX ? 0 : limit;
}

uint64_t ht_memory_total(const char *proc) {
    char text[TEXT_MAX];
    uint64_t kib = read_text(text, proc, "", "meminfo") ? field(text, "MemTotal:") : 0;
    return kib < UINT64_MAX / 1024 ? kib * 1024 : 0;
}
