// SPDX-License-Identifier: MIT
// Checked size arithmetic: every number from outside goes through these before it sizes, indexes or
// allocates. Each returns false on overflow and leaves *out untouched.
#ifndef HT_BASE_CHECKED_H
#define HT_BASE_CHECKED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

HT_MUST_CHECK static inline bool ht_add_size(size_t a, size_t b, size_t *out) {
    size_t r;
    if (__builtin_add_overflow(a, b, &r)) return false;
    *out = r;
    return true;
}

HT_MUST_CHECK static inline bool ht_mul_size(size_t a, size_t b, size_t *out) {
    size_t r;
    if (__builtin_mul_overflow(a, b, &r)) return false;
    *out = r;
    return true;
}

HT_MUST_CHECK static inline bool ht_mul3_size(size_t a, size_t b, size_t c, size_t *out) {
    size_t ab, r;
    if (__builtin_mul_overflow(a, b, &ab) || __builtin_mul_overflow(ab, c, &r)) return false;
    *out = r;
    return true;
}

HT_MUST_CHECK static inline bool ht_add_u64(uint64_t a, uint64_t b, uint64_t *out) {
    uint64_t r;
    if (__builtin_add_overflow(a, b, &r)) return false;
    *out = r;
    return true;
}

HT_MUST_CHECK static inline bool ht_mul_u64(uint64_t a, uint64_t b, uint64_t *out) {
    uint64_t r;
    if (__builtin_mul_overflow(a, b, &r)) return false;
    *out = r;
    return true;
}

// Rounds up to a multiple of align, a power of two.
HT_MUST_CHECK static inline bool ht_align_size(size_t n, size_t align, size_t *out) {
    size_t r;
    if (__builtin_add_overflow(n, align - 1, &r)) return false;
    *out = r & ~(align - 1);
    return true;
}

#endif
