// SPDX-License-Identifier: MIT
// See kv_pages.h.
#include "engine/kv_pages.h"

#include "base/mem.h"

enum hearth_status ht_kv_pages_init(struct ht_kv_pages *p, uint32_t n_pages,
                                    struct hearth_error *err) {
    uint32_t *refs = ht_calloc(n_pages, sizeof *refs);
    uint32_t *free_pages = ht_calloc(n_pages, sizeof *free_pages);
    if (!refs || !free_pages) {
        ht_free(refs);
        ht_free(free_pages);
        return ht_fail_nomem(err, (size_t)n_pages * 2 * sizeof *refs, "the page table");
    }
    for (uint32_t i = 0; i < n_pages; i++) free_pages[i] = n_pages - 1 - i;
    *p = (struct ht_kv_pages){
        .n_pages = n_pages, .n_free = n_pages, .refs = refs, .free = free_pages};
    return HEARTH_OK;
}

void ht_kv_pages_deinit(struct ht_kv_pages *p) {
    ht_free(p->refs);
    ht_free(p->free);
    *p = (struct ht_kv_pages){0};
}

void ht_kv_page_retain(struct ht_kv_pages *p, uint32_t page) {
    p->refs[page]++;
}

void ht_kv_page_release(struct ht_kv_pages *p, uint32_t page) {
    if (--p->refs[page] == 0) p->free[p->n_free++] = page;
}

bool ht_kv_seq_grow(struct ht_kv_seq *s, struct ht_kv_pages *p, uint32_t n_positions) {
    uint32_t want = ht_kv_pages_for(n_positions);
    if (want <= s->n_pages) return true;
    if (want > s->cap || want - s->n_pages > p->n_free) return false;
    while (s->n_pages < want) {
        uint32_t page = p->free[--p->n_free];
        p->refs[page] = 1;
        s->pages[s->n_pages++] = page;
    }
    return true;
}

void ht_kv_seq_clear(struct ht_kv_seq *s, struct ht_kv_pages *p) {
    // From the back, so that the next sequence gets the same pages in the same order.
    while (s->n_pages > 0) ht_kv_page_release(p, s->pages[--s->n_pages]);
}
