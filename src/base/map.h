// SPDX-License-Identifier: MIT
// Whole files as memory: read-only mappings, or copies. May be read from any thread.
#ifndef HT_BASE_MAP_H
#define HT_BASE_MAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

struct ht_map {
    const uint8_t *data; // NULL for an empty file
    size_t len;
    bool copied;   // into pages of ht_pages_alloc
    bool resident; // takes memory that the system does not count as available, as cached files are:
                   // a copy, or a file that is nowhere else (tmpfs, ramfs, hugetlbfs)
};

// Maps a whole regular file. Sentences for: missing, no permission, a directory, not a regular
// file, mapping failed (E_NOMEM where no addresses are left). Asks for 2 MB pages where the system
// has them for files (madvise before the first touch).
HT_MUST_CHECK enum hearth_status ht_map_open(const char *path, struct ht_map *out,
                                             struct hearth_error *err);
// The same bytes, read into memory of this process: on 2 MB pages where the system has any,
// whatever the file lies on. E_NOMEM where there is no room, or where it takes more than *left
// bytes of memory, which become fewer by what it takes; E_IO where the file cannot be read to its
// end.
HT_MUST_CHECK enum hearth_status ht_map_copy(const char *path, uint64_t *left, struct ht_map *out,
                                             struct hearth_error *err);
void ht_map_close(struct ht_map *m); // accepts a zeroed one; zeroes it
// Whether the memory that p points into is none of the cache of a file, and so not available to
// others (/proc/self/maps); true where the system does not tell.
bool ht_memory_is_taken(const void *p);
// Bytes of it that lie on 2 MB pages now, as far as they were touched (/proc/self/smaps); false
// where the system does not tell. Takes some milliseconds for each gigabyte on small pages.
bool ht_map_large_bytes(const struct ht_map *m, uint64_t *n);

#endif
