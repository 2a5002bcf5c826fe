// SPDX-License-Identifier: MIT
// Names of metadata entries and tensors: what they may be, how they look in a sentence, and the
// hashed index over them. Tables live in the caller's arena. No state; any thread.
#include <string.h>

#include "base/hash.h"
#include "gguf/internal.h"

enum hearth_status ht_gguf_index_build(struct ht_arena *a, const char *const *names, size_t n,
                                       struct name_index *out, size_t *dup) {
    size_t n_slots = 16;
    while (n_slots < 2 * n) n_slots *= 2;
    // Seeded by where the arena lies, so that no file can be written to collide with itself.
    struct name_index ix = {names, NULL, n_slots - 1, ht_hash_u64((uint64_t)(uintptr_t)a)};
    ix.slots = ht_arena_array(a, n_slots, sizeof(*ix.slots), sizeof(uint32_t));
    if (!ix.slots) return HEARTH_E_NOMEM;
    *dup = n;
    for (size_t i = 0; i < n; i++) {
        uint64_t s = ht_hash_bytes(names[i], strlen(names[i]), ix.seed) & ix.mask;
        while (ix.slots[s] && strcmp(names[ix.slots[s] - 1], names[i]) != 0) s = (s + 1) & ix.mask;
        if (ix.slots[s]) {
            *dup = i;
            break;
        }
        ix.slots[s] = (uint32_t)i + 1;
    }
    *out = ix;
    return HEARTH_OK;
}

int64_t ht_gguf_index_find(const struct name_index *ix, const char *name) {
    if (!ix->slots) return -1;
    uint64_t s = ht_hash_bytes(name, strlen(name), ix->seed) & ix->mask;
    for (; ix->slots[s]; s = (s + 1) & ix->mask) {
        if (strcmp(ix->names[ix->slots[s] - 1], name) == 0) return (int64_t)ix->slots[s] - 1;
    }
    return -1;
}

bool ht_gguf_name_ok(const char *s, size_t n, size_t max) {
    if (n == 0 || n > max) return false;
    for (size_t i = 0; i < n;) {
        size_t len = ht_utf8_char_len(s + i, n - i);
        if (len == 0 || ht_utf8_is_control(s + i, len)) return false;
        i += len;
    }
    return true;
}
