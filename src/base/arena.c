// SPDX-License-Identifier: MIT
// Arenas: a list of zeroed chunks, the newest first (but for blocks that have a chunk of their
// own). Invariant: bytes from `used` to `cap` of a chunk are zero.
#include "base/arena.h"

#include <stdint.h>
#include <string.h>

#include "base/checked.h"
#include "base/mem.h"

struct ht_arena_chunk {
    struct ht_arena_chunk *next;
    size_t cap, used; // of bytes[]
    char bytes[];
};

static const size_t min_chunk = 4 << 10, max_chunk = (size_t)1 << 20;

// Offset of the first free address of c that is a multiple of align, or false if n bytes do not fit
// behind it.
static bool chunk_fit(const struct ht_arena_chunk *c, size_t n, size_t align, size_t *offset) {
    uintptr_t at = (uintptr_t)(c->bytes + c->used);
    size_t pad = (size_t)(-at & (align - 1));
    if (pad > c->cap - c->used || n > c->cap - c->used - pad) return false;
    *offset = c->used + pad;
    return true;
}

static struct ht_arena_chunk *chunk_new(size_t cap) {
    size_t n;
    if (!ht_add_size(sizeof(struct ht_arena_chunk), cap, &n)) return NULL;
    struct ht_arena_chunk *c = ht_calloc(1, n);
    if (c) c->cap = cap;
    return c;
}

void *ht_arena_alloc(struct ht_arena *a, size_t n_bytes, size_t align) {
    struct ht_arena_chunk *c = a->head;
    size_t offset, n_worst;
    if (!c || !chunk_fit(c, n_bytes, align, &offset)) {
        if (!ht_add_size(n_bytes, align - 1, &n_worst)) return NULL;
        size_t cap = a->head ? a->head->cap * 2 : min_chunk;
        if (cap < min_chunk) cap = min_chunk;
        if (cap > max_chunk) cap = max_chunk;
        bool own = n_worst > cap / 4; // large: it would waste the rest of the head
        c = chunk_new(own ? n_worst : cap);
        if (!c) return NULL;
        if (own && a->head) {
            c->next = a->head->next;
            a->head->next = c;
        } else {
            c->next = a->head;
            a->head = c;
        }
        if (!chunk_fit(c, n_bytes, align, &offset)) return NULL;
    }
    c->used = offset + n_bytes;
    a->n_used_bytes += n_bytes;
    return c->bytes + offset;
}

void *ht_arena_array(struct ht_arena *a, size_t count, size_t size, size_t align) {
    size_t n;
    if (!ht_mul_size(count, size, &n)) return NULL;
    return ht_arena_alloc(a, n, align);
}

char *ht_arena_strndup(struct ht_arena *a, const char *s, size_t n) {
    size_t n_bytes;
    if (!ht_add_size(n, 1, &n_bytes)) return NULL;
    char *copy = ht_arena_alloc(a, n_bytes, 1);
    if (copy && n) memcpy(copy, s, n); // the 0 behind it is there already
    return copy;
}

void ht_arena_deinit(struct ht_arena *a) {
    for (struct ht_arena_chunk *c = a->head; c;) {
        struct ht_arena_chunk *next = c->next;
        ht_free(c);
        c = next;
    }
    *a = (struct ht_arena){0};
}
