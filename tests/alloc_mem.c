// SPDX-License-Identifier: MIT
// See alloc_mem.h. Each block carries its size in front of it, and a mark that a wrong or second
// free does not find. One mutex guards the counts: a test may count what many threads take.
#include "alloc_mem.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/checked.h"
#include "base/mem.h"

struct head { // 64 bytes in front of a block; the block itself is aligned to 64 or more
    size_t n_bytes;
    void *start; // what malloc gave
    uint64_t mark;
};

#define HEAD_BYTES 64
static const uint64_t alive = 0x686561727468a110, dead = 0xdeadb10cdeadb10c;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct ht_test_alloc counts;
static uint64_t n_until_fail; // 0: none
static bool keep_failing, has_failed;

static void die(const char *why) {
    fprintf(stderr, "alloc_mem: %s\n", why);
    abort();
}

struct ht_test_alloc ht_test_alloc_get(void) {
    pthread_mutex_lock(&lock);
    struct ht_test_alloc c = counts;
    pthread_mutex_unlock(&lock);
    return c;
}

static void set_fail(uint64_t n, bool keep) {
    pthread_mutex_lock(&lock);
    n_until_fail = n;
    keep_failing = keep;
    has_failed = false;
    pthread_mutex_unlock(&lock);
}

void ht_test_alloc_fail_at(uint64_t n) {
    set_fail(n, false);
}
void ht_test_alloc_fail_from(uint64_t n) {
    set_fail(n, true);
}

bool ht_test_alloc_failed(void) {
    pthread_mutex_lock(&lock);
    bool f = has_failed;
    pthread_mutex_unlock(&lock);
    return f;
}

void ht_test_alloc_reset(void) {
    set_fail(0, false);
    pthread_mutex_lock(&lock);
    counts.n_calls = counts.n_frees = 0;
    counts.n_peak_bytes = counts.n_live_bytes;
    pthread_mutex_unlock(&lock);
}

// Counts a call; false if it shall fail.
static bool admit(void) {
    bool ok = true;
    pthread_mutex_lock(&lock);
    counts.n_calls++;
    if (n_until_fail == 1) {
        ok = false;
        has_failed = true;
        if (!keep_failing) n_until_fail = 0;
    } else if (n_until_fail > 1) {
        n_until_fail--;
    }
    pthread_mutex_unlock(&lock);
    return ok;
}

static void count(size_t n_bytes, size_t n_page_bytes) {
    pthread_mutex_lock(&lock);
    counts.n_live++;
    counts.n_live_bytes += n_bytes;
    counts.n_page_bytes += n_page_bytes;
    if (counts.n_live_bytes > counts.n_peak_bytes) counts.n_peak_bytes = counts.n_live_bytes;
    pthread_mutex_unlock(&lock);
}

static void uncount(size_t n_bytes, size_t n_page_bytes) {
    pthread_mutex_lock(&lock);
    if (counts.n_live == 0 || counts.n_live_bytes < n_bytes || counts.n_page_bytes < n_page_bytes)
        die("more was freed than taken");
    counts.n_frees++;
    counts.n_live--;
    counts.n_live_bytes -= n_bytes;
    counts.n_page_bytes -= n_page_bytes;
    pthread_mutex_unlock(&lock);
}

static struct head *head_of(void *p) {
    return (struct head *)(void *)((char *)p - HEAD_BYTES);
}

// What is given is filled with a pattern, so that nobody relies on zeroes.
static void *take(size_t align, size_t n_bytes) {
    size_t n;
    if (align < HEAD_BYTES) align = HEAD_BYTES;
    if (!ht_add_size(n_bytes, HEAD_BYTES + align, &n)) return NULL;
    char *start = malloc(n);
    if (!start) return NULL;
    size_t pad = (size_t)(-(uintptr_t)(start + HEAD_BYTES) & (align - 1));
    char *p = start + HEAD_BYTES + pad;
    *head_of(p) = (struct head){.n_bytes = n_bytes, .start = start, .mark = alive};
    memset(p, 0xa5, n_bytes);
    count(n_bytes, 0);
    return p;
}

void *ht_alloc_aligned(size_t align, size_t n_bytes) {
    if (align < sizeof(void *) || (align & (align - 1)) != 0) die("an alignment is no power of 2");
    return admit() ? take(align, n_bytes) : NULL;
}

void *ht_alloc(size_t n_bytes) {
    return admit() ? take(16, n_bytes) : NULL;
}

void *ht_calloc(size_t n, size_t size) {
    size_t n_bytes;
    if (!admit() || !ht_mul_size(n, size, &n_bytes)) return NULL;
    void *p = take(16, n_bytes);
    if (p) memset(p, 0, n_bytes);
    return p;
}

void *ht_realloc(void *old, size_t n, size_t size) {
    size_t n_bytes;
    if (!admit() || !ht_mul_size(n, size, &n_bytes)) return NULL;
    void *p = take(16, n_bytes); // always moves, so that a kept old pointer shows
    if (p && old) {
        size_t n_old = head_of(old)->n_bytes;
        memcpy(p, old, n_old < n_bytes ? n_old : n_bytes);
        ht_free(old);
    }
    return p;
}

void ht_free(void *p) {
    if (!p) return;
    struct head *h = head_of(p);
    if (h->mark != alive)
        die(h->mark == dead ? "a block was freed twice" : "not a block of this allocator");
    h->mark = dead;
    uncount(h->n_bytes, 0);
    memset(p, 0x5a, h->n_bytes);
    free(h->start);
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

void *ht_pages_alloc(size_t n_bytes) {
    if (!admit() || n_bytes > SIZE_MAX / 2) return NULL;
    void *p = mmap(NULL, n_bytes ? n_bytes : 1, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
                   -1, 0);
    if (p == MAP_FAILED) return NULL;
    count(n_bytes, n_bytes);
    return p;
}

bool ht_pages_touch(void *p, size_t n_bytes) {
    if (!admit()) return false;
    memset(p, 0, n_bytes);
    return true;
}

void ht_pages_prefer_large(void *p, size_t n_bytes) {
    (void)p;
    (void)n_bytes;
}

void ht_pages_free(void *p, size_t n_bytes) {
    if (!p) return;
    if (munmap(p, n_bytes ? n_bytes : 1) != 0) die("pages were freed with another size");
    uncount(n_bytes, n_bytes);
}
