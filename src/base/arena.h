// SPDX-License-Identifier: MIT
// An arena: many small blocks that live and die together. Zeroed memory. One thread at a time.
#ifndef HT_BASE_ARENA_H
#define HT_BASE_ARENA_H

#include <stddef.h>

#include "base/status.h"

struct ht_arena_chunk;
struct ht_arena {
    struct ht_arena_chunk *head;
    size_t n_used_bytes; // sum of what was asked for
};

// A zeroed struct ht_arena is an empty one. chunk sizes grow by themselves.
HT_MUST_CHECK void *ht_arena_alloc(struct ht_arena *a, size_t n_bytes, size_t align);
HT_MUST_CHECK void *ht_arena_array(struct ht_arena *a, size_t count, size_t size, size_t align);
HT_MUST_CHECK char *ht_arena_strndup(struct ht_arena *a, const char *s, size_t n);
void ht_arena_deinit(struct ht_arena *a);

#endif
