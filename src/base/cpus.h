// SPDX-License-Identifier: MIT
// How many cores the control groups leave to this process. Apart from team.h so that tests can give
// their own files.
#ifndef HT_BASE_CPUS_H
#define HT_BASE_CPUS_H

// The smallest CPU quota along the way from the process's group up to the root, rounded up to whole
// cores; 0 if none is set. `groups` is the text of /proc/self/cgroup ("0::/a/b" for version 2,
// "4:cpu,cpuacct:/a/b" for version 1), `root` the folder where the hierarchies are mounted.
int ht_cpus_quota(const char *root, const char *groups);

#endif
