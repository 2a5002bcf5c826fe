// SPDX-License-Identifier: MIT
// The one place of the library that takes memory. Nothing else stands in this file, so that a test
// may link tests/alloc_mem.c in its place. Thread safe as malloc is.
#include "base/mem.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/checked.h"

// 64 KB: the largest small page there is (AArch64), so that ends always lie on a page of the
// system. 2 MB: the large page of x86-64, and of AArch64 with pages of 4 KB.
static const size_t small_page = (size_t)64 << 10;
static const size_t large_page = (size_t)2 << 20;

void *ht_alloc(size_t n_bytes) {
    return malloc(n_bytes ? n_bytes : 1);
}

void *ht_calloc(size_t count, size_t size) {
    size_t n;
    if (!ht_mul_size(count, size, &n)) return NULL; // calloc checks too, but sanitizers stop at it
    return calloc(n ? n : 1, 1);
}

void *ht_realloc(void *p, size_t count, size_t size) {
    size_t n;
    if (!ht_mul_size(count, size, &n)) return NULL;
    return realloc(p, n ? n : 1);
}

void ht_free(void *p) {
    free(p);
}

void *ht_alloc_aligned(size_t align, size_t n_bytes) {
    void *p;
    if (posix_memalign(&p, align, n_bytes ? n_bytes : 1) != 0) return NULL;
    return p;
}

char *ht_strndup(const char *s, size_t n) {
    size_t n_bytes;
    if (!ht_add_size(n, 1, &n_bytes)) return NULL;
    char *copy = ht_alloc(n_bytes);
    if (!copy) return NULL;
    if (n) memcpy(copy, s, n);
    copy[n] = 0;
    return copy;
}

// Large blocks are placed on a large page's boundary, else the system cannot back their ends with
// one: more is mapped than asked for, and both overhangs are given back at once.
void *ht_pages_alloc(size_t n_bytes) {
    size_t n, n_over = 0;
    if (!ht_align_size(n_bytes ? n_bytes : 1, small_page, &n)) return NULL;
    if (n >= large_page) n_over = large_page;
    size_t n_map;
    if (!ht_add_size(n, n_over, &n_map)) return NULL;
    char *p = mmap(NULL, n_map, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (p == MAP_FAILED) return NULL;
    if (n_over) {
        size_t n_front = (large_page - (size_t)p % large_page) % large_page;
        if (n_front) munmap(p, n_front);
        munmap(p + n_front + n, n_over - n_front);
        p += n_front;
        ht_pages_prefer_large(p, n);
    }
    return p;
}

void ht_pages_prefer_large(void *p, size_t n_bytes) {
    if (sysconf(_SC_PAGESIZE) == 4096) madvise(p, n_bytes, MADV_HUGEPAGE);
}

bool ht_pages_touch(void *p, size_t n_bytes) {
    size_t n;
    if (!ht_align_size(n_bytes ? n_bytes : 1, small_page, &n)) return false;
#ifdef MADV_POPULATE_WRITE
    if (madvise(p, n, MADV_POPULATE_WRITE) == 0) return true;
    // Else a Linux before 5.14, or a filter of system calls, which do not know of it.
    if (errno == ENOMEM || errno == EFAULT || errno == EHWPOISON) return false;
#endif
    for (size_t i = 0; i < n; i += 4096) ((volatile char *)p)[i] = 0;
    return true;
}

void ht_pages_free(void *p, size_t n_bytes) {
    size_t n;
    if (p && ht_align_size(n_bytes ? n_bytes : 1, small_page, &n)) munmap(p, n);
}
