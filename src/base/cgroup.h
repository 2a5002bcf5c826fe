// SPDX-License-Identifier: MIT
// Where the limits of this process's control groups stand. A container sees all of its machine;
// what it may use stands in files of its group and of those above it, in hierarchies of version 1
// (one or more controllers each), of version 2 (all in one), or of both.
#ifndef HT_BASE_CGROUP_H
#define HT_BASE_CGROUP_H

#include <stdbool.h>

// folder: of one group, 0-terminated, until the call returns.
typedef void (*ht_cgroup_fn)(void *user, const char *folder, bool v2);

// Calls fn with the group's folder in each hierarchy that has the controller ("cpu", "memory"), and
// with those above it up to the hierarchy's root. Some of them may not be there: in a container the
// group's path may be the host's while the mount is the container's own root. `root` is the folder
// where the hierarchies are mounted (/sys/fs/cgroup), `groups` the text of /proc/self/cgroup
// ("0::/a/b" for version 2, "4:cpu,cpuacct:/a/b" for version 1). A group may come twice, where its
// hierarchy is found by two names. Lines of more than 4 KB are passed over. Any thread.
void ht_cgroup_walk(const char *root, const char *groups, const char *controller, ht_cgroup_fn fn,
                    void *user);

#endif
