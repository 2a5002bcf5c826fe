// SPDX-License-Identifier: MIT
// Asking for memory ahead where pages are small, be it only in the host of a virtual machine, whose
// tables decide. A prefetch whose page the TLB does not know lets nothing retire behind it until
// the page has been found, and that may take as long as memory does; but pages that are asked for
// one right behind the other are found at the same time (docs/cpu.md, "Pages of memory").
#ifndef HT_CPU_ASK_H
#define HT_CPU_ASK_H

#include <stddef.h>
#include <stdint.h>

#define HT_SMALL_PAGE 4096
#define HT_PAGE_RUN   (8 * HT_SMALL_PAGE) // its entries fill a line of the page table

// Every page of n_bytes from p on, by its last line, which leads no processor to read what follows.
static inline void ht_ask_pages(const void *p, size_t n_bytes) {
    uintptr_t at = (uintptr_t)p, end = at + n_bytes;
    for (at = at / HT_SMALL_PAGE * HT_SMALL_PAGE; at < end; at += HT_SMALL_PAGE)
        __builtin_prefetch((const void *)(at + HT_SMALL_PAGE - 64), 0, 2);
}

// While n_bytes from p on are read: the pages of every run that is one whole run behind one that
// begins among them.
static inline void ht_ask_page_runs(const void *p, size_t n_bytes) {
    uintptr_t at = (uintptr_t)p, end = at + n_bytes;
    for (at = (at + HT_PAGE_RUN - 1) / HT_PAGE_RUN * HT_PAGE_RUN; at < end; at += HT_PAGE_RUN)
        ht_ask_pages((const void *)(at + HT_PAGE_RUN), HT_PAGE_RUN);
}

// Reads a byte of every line from p on, in the order of addresses, where processors follow by
// themselves further ahead than they can be asked; n_bytes of whole lines.
static inline void ht_read_lines(const void *p, size_t n_bytes) {
    const volatile uint8_t *line = p;
    for (size_t i = 0; i < n_bytes; i += 64) (void)line[i];
}

#endif
