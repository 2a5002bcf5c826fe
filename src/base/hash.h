// SPDX-License-Identifier: MIT
// A 64-bit hash of bytes (our own mixing: for tables and for comparing logits, not for security).
#ifndef HT_BASE_HASH_H
#define HT_BASE_HASH_H

#include <stddef.h>
#include <stdint.h>

uint64_t ht_hash_bytes(const void *data, size_t n, uint64_t seed);

static inline uint64_t ht_hash_u64(uint64_t x) { // splitmix64's finaliser (Steele, Lea, Flood 2014)
    x ^= x >> 30;
    x *= 0xbf58476d1ce4e5b9u;
    x ^= x >> 27;
    x *= 0x94d049bb133111ebu;
    return x ^ (x >> 31);
}

#endif
