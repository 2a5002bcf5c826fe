// SPDX-License-Identifier: MIT
// Memory for tests that ends, or begins, at a page which may not be touched, nor may the one on the
// other side. What is left of its pages holds canaries, which are looked at when it is freed.
#ifndef KERN_GUARDED_H
#define KERN_GUARDED_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "cmocka_all.h"

#define GUARDED_CANARY 0xa5
#define GUARDED_FRONT  0 // as `align`

struct guarded {
    uint8_t *base; // the guard in front, `room` bytes, the guard behind
    size_t room;
    // [n], aligned as asked; with 1, its last byte lies in front of the guard behind, with
    // GUARDED_FRONT, its first behind the one in front.
    uint8_t *data;
    size_t n;
};

static inline struct guarded guarded_new(size_t n, size_t align) {
    const size_t page = (size_t)sysconf(_SC_PAGESIZE);
    const bool front = align == GUARDED_FRONT;
    struct guarded g = {.n = n, .room = (n + (front ? 0 : align - 1) + page - 1) / page * page};
    g.base = mmap(NULL, g.room + 2 * page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_true(g.base != MAP_FAILED);
    assert_int_equal(mprotect(g.base + page, g.room, PROT_READ | PROT_WRITE), 0);
    g.data = g.base + page + (front ? 0 : (g.room - n) / align * align);
    uint8_t *end = g.base + page + g.room;
    memset(g.base + page, GUARDED_CANARY, (size_t)(g.data - g.base) - page);
    memset(g.data + n, GUARDED_CANARY, (size_t)(end - g.data) - n);
    return g;
}

static inline void guarded_free(struct guarded *g) {
    const size_t page = (size_t)sysconf(_SC_PAGESIZE);
    const uint8_t *begin = g->base + page, *end = begin + g->room;
    for (const uint8_t *p = begin; p < end; p++) {
        if (p == g->data) p += g->n;
        if (p < end && *p != GUARDED_CANARY)
            fail_msg("byte %td of %zu bytes was written", p - g->data, g->n);
    }
    munmap(g->base, g->room + 2 * page);
}

#endif
