// SPDX-License-Identifier: MIT
// GGUF files made by hand, byte by byte, with the place of every field noted, so that tests can
// spoil one. Independent of the writer.
#ifndef HT_TESTS_GGUF_MAKE_H
#define HT_TESTS_GGUF_MAKE_H

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

struct bytes {
    _Alignas(64) uint8_t b[8192];
    size_t n;
};

static inline void put(struct bytes *o, const void *p, size_t n) {
    if (n > sizeof(o->b) - o->n) abort();
    memcpy(o->b + o->n, p, n);
    o->n += n;
}

static inline void put_u32(struct bytes *o, uint32_t v) {
    put(o, &v, 4);
}
static inline void put_u64(struct bytes *o, uint64_t v) {
    put(o, &v, 8);
}
static inline void put_str(struct bytes *o, const char *s) {
    put_u64(o, strlen(s));
    put(o, s, strlen(s));
}
static inline void put_key(struct bytes *o, const char *key, uint32_t type) {
    put_str(o, key);
    put_u32(o, type);
}
static inline void put_head(struct bytes *o, uint32_t version, uint64_t n_tensors, uint64_t n_kv) {
    o->n = 0;
    put(o, "GGUF", 4);
    put_u32(o, version);
    put_u64(o, n_tensors);
    put_u64(o, n_kv);
}
static inline void put_tensor(struct bytes *o, const char *name, uint32_t n_dims,
                              const uint64_t *ne, uint32_t format, uint64_t offset) {
    put_str(o, name);
    put_u32(o, n_dims);
    for (uint32_t d = 0; d < n_dims; d++) put_u64(o, ne[d]);
    put_u32(o, format);
    put_u64(o, offset);
}
static inline void put_pad(struct bytes *o, size_t align) {
    while (o->n % align) put(o, "", 1);
}

#endif
