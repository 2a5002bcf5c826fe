// SPDX-License-Identifier: MIT
// The pool of KV pages and the page lists of sequences. A page holds HT_PAGE_TOKENS positions of
// every layer; where its bytes lie is the backend's affair, here it is a number and a reference
// count. A page is free exactly when its count is 0. The order in which pages are given out depends
// on the calls alone: fresh ones from 0 upwards, freed ones first (so memory that was touched is
// used again before untouched memory). One thread at a time; nothing here allocates after init.
#ifndef HT_ENGINE_KV_PAGES_H
#define HT_ENGINE_KV_PAGES_H

#include "backend/backend.h"

struct ht_kv_pages {
    uint32_t n_pages, n_free;
    uint32_t *refs; // [n_pages]
    uint32_t *free; // [n_pages] a stack; the top n_free - 1 is given out next
};

// The pages of one sequence, in order of position. The list itself is borrowed.
struct ht_kv_seq {
    uint32_t *pages; // [cap]
    uint32_t n_pages, cap;
};

HT_MUST_CHECK enum hearth_status ht_kv_pages_init(struct ht_kv_pages *p, uint32_t n_pages,
                                                  struct hearth_error *err);
void ht_kv_pages_deinit(struct ht_kv_pages *p); // accepts a zeroed one

// One more reference to a page that has some, for sequences that share a prefix. (None do yet.)
void ht_kv_page_retain(struct ht_kv_pages *p, uint32_t page);
// One reference less; the last one frees the page.
void ht_kv_page_release(struct ht_kv_pages *p, uint32_t page);

// Pages that n positions take.
static inline uint32_t ht_kv_pages_for(uint32_t n_positions) {
    return n_positions / HT_PAGE_TOKENS + (n_positions % HT_PAGE_TOKENS != 0);
}

// Makes the list long enough for n positions. False, and nothing changed, where the pool or the
// list is too small.
HT_MUST_CHECK bool ht_kv_seq_grow(struct ht_kv_seq *s, struct ht_kv_pages *p, uint32_t n_positions);
// Gives all pages of the list back.
void ht_kv_seq_clear(struct ht_kv_seq *s, struct ht_kv_pages *p);

#endif
