// SPDX-License-Identifier: MIT
// What there is to be said of the machine, and the self-test of the backend that most depends on
// it. Reads files, keeps nothing; any thread.
#include <stdio.h>
#include <string.h>

#include "base/cpus.h"
#include "base/team.h"
#include "base/text_file.h"
#include "engine/engine_internal.h"

static bool read_text(const char *dir, const char *file, char *buf, size_t n_buf) {
    char path[1024];
    int n = snprintf(path, sizeof path, "%s/%s", dir, file);
    if (n < 0 || (size_t)n >= sizeof path) return false;
    return ht_read_text(path, buf, n_buf) && buf[0];
}

// The value of the first line of cpuinfo that has the name ("model name\t: AMD EPYC").
static bool cpuinfo_value(const char *text, const char *name, char *out, size_t n_out) {
    size_t len = strlen(name);
    for (const char *line = text; *line; line += strcspn(line, "\n"), line += *line == '\n') {
        if (strncmp(line, name, len) != 0) continue;
        const char *p = line + len + strspn(line + len, " \t");
        if (*p != ':') continue;
        p += 1 + strspn(p + 1, " \t");
        snprintf(out, n_out, "%.*s", (int)strcspn(p, "\n"), p);
        for (char *c = out; *c; c++) // virtual machines may call theirs anything
            if (*c < ' ' || *c > '~') *c = '?';
        return out[0] != 0;
    }
    return false;
}

// Arm's kernels tell numbers instead of a name.
static void read_cpu_name(const char *proc, char *out, size_t n_out) {
    char text[4096], maker[24], part[24];
    out[0] = 0;
    if (!read_text(proc, "cpuinfo", text, sizeof text)) return;
    if (cpuinfo_value(text, "model name", out, n_out)) return;
    if (cpuinfo_value(text, "CPU implementer", maker, sizeof maker) &&
        cpuinfo_value(text, "CPU part", part, sizeof part))
        snprintf(out, n_out, "Arm, implementer %s, part %s", maker, part);
}

// "always [madvise] never": the chosen one stands in brackets.
static void read_huge_pages(const char *sys, char *out, size_t n_out) {
    char text[128];
    out[0] = 0;
    if (!read_text(sys, "kernel/mm/transparent_hugepage/enabled", text, sizeof text)) return;
    const char *open = strchr(text, '['), *end = open ? strchr(open, ']') : NULL;
    if (end) snprintf(out, n_out, "%.*s", (int)(end - open - 1), open + 1);
}

void ht_machine_read(const char *proc, const char *sys, const char *cgroup,
                     struct hearth_machine *out) {
    struct hearth_machine m = {.n_threads = ht_team_default_threads()};
    struct ht_cpus c;
    const struct ht_backend_ops *cpu = ht_backend_find("cpu");
    ht_cpus_get(&c);
    m.n_online = c.n_online;
    m.n_affinity = c.n_affinity;
    m.n_cores = c.n_cores;
    m.n_fast = c.n_fast;
    m.n_quota = c.n_quota;
    if (cpu && cpu->levels) cpu->levels(m.level, sizeof m.level, m.levels, sizeof m.levels);
    read_cpu_name(proc, m.cpu, sizeof m.cpu);
    read_huge_pages(sys, m.huge_pages, sizeof m.huge_pages);
    m.memory_total = ht_memory_total(proc);
    m.memory_limit = ht_memory_limit(proc, cgroup);
    uint64_t available = ht_memory_available(proc, cgroup);
    m.memory_available = available == UINT64_MAX ? 0 : available;
    *out = m;
}

void ht_machine_get(struct hearth_machine *out) {
    ht_machine_read("/proc", "/sys", "/sys/fs/cgroup", out);
}

enum hearth_status ht_self_test(hearth_check_fn fn, void *user, size_t *n_failed,
                                struct hearth_error *err) {
    const struct ht_backend_ops *cpu = ht_backend_find("cpu");
    if (!cpu || !cpu->self_test)
        return ht_fail(err, HEARTH_E_UNSUPPORTED, "no backend of this build tests itself");
    return cpu->self_test(fn, user, n_failed, err);
}
