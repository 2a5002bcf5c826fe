// SPDX-License-Identifier: MIT
// Walks up the folders of control groups. Keeps nothing. Source: cgroups(7).
#include "base/cgroup.h"

#include <stdio.h>
#include <string.h>

#define N_PATH 4096

struct line { // of /proc/self/cgroup
    const char *list, *group;
    int n_list, n_group;
};

// "id:controllers:/group"; false where it is none.
static bool parse(const char *text, size_t n, struct line *out) {
    const char *list = memchr(text, ':', n);
    const char *group = list ? memchr(list + 1, ':', n - (size_t)(list + 1 - text)) : NULL;
    if (!group || n >= N_PATH) return false;
    *out = (struct line){.list = list + 1,
                         .group = group + 1,
                         .n_list = (int)(group - list - 1),
                         .n_group = (int)(text + n - group - 1)};
    if (out->n_group == 1) out->n_group = 0; // "/": the root itself
    return true;
}

// Whether the line's controllers, with commas between, have that one.
static bool lists(const struct line *l, const char *controller) {
    size_t n = strlen(controller);
    for (const char *c = l->list, *end = c + l->n_list; c < end;) {
        const char *comma = memchr(c, ',', (size_t)(end - c)), *stop = comma ? comma : end;
        if ((size_t)(stop - c) == n && memcmp(c, controller, n) == 0) return true;
        c = stop + 1;
    }
    return false;
}

// From root/mount/group up to root/mount.
static void walk_up(const char *root, const char *mount, int n_mount, const struct line *l,
                    ht_cgroup_fn fn, void *user) {
    char folder[N_PATH];
    int n = snprintf(folder, sizeof folder, "%s%s%.*s", root, n_mount ? "/" : "", n_mount, mount);
    if (n < 0 || (size_t)n + (size_t)l->n_group >= sizeof folder) return;
    memcpy(folder + n, l->group, (size_t)l->n_group);
    folder[n + l->n_group] = 0;
    for (char *slash = folder + n; slash;) {
        fn(user, folder, l->n_list == 0);
        slash = strrchr(folder + n, '/');
        if (slash) *slash = 0;
    }
}

void ht_cgroup_walk(const char *root, const char *groups, const char *controller, ht_cgroup_fn fn,
                    void *user) {
    for (const char *text = groups; *text;) {
        struct line l;
        size_t n = strcspn(text, "\n");
        bool is_line = parse(text, n, &l);
        if (is_line && l.n_list == 0) { // version 2: by itself, or beside version 1
            walk_up(root, "", 0, &l, fn, user);
            walk_up(root, "unified", 7, &l, fn, user);
        } else if (is_line && lists(&l, controller)) { // version 1: by either name
            int n_name = (int)strlen(controller);
            walk_up(root, l.list, l.n_list, &l, fn, user);
            if (n_name != l.n_list) walk_up(root, controller, n_name, &l, fn, user);
        }
        text += n;
        if (*text) text++;
    }
}
