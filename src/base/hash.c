// SPDX-License-Identifier: MIT
#include "base/hash.h"

#include <string.h>

// One step is a bijection of h for a given word, and of the word for a given h (an odd factor and a
// shifted exclusive or can both be undone), so nothing is lost on the way to the finaliser.
static uint64_t step(uint64_t h, uint64_t word) {
    h = (h ^ word) * 0x9fb21c651e98df25u;
    return h ^ (h >> 32);
}

uint64_t ht_hash_bytes(const void *data, size_t n, uint64_t seed) {
    const unsigned char *p = data;
    uint64_t h = ht_hash_u64(seed + 0x9e3779b97f4a7c15u) ^ n, word;
    for (; n >= 8; n -= 8, p += 8) {
        memcpy(&word, p, 8);
        h = step(h, word);
    }
    if (n) {
        word = 0;
        memcpy(&word, p, n);
        h = step(h, word);
    }
    return ht_hash_u64(h);
}
