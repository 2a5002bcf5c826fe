// SPDX-License-Identifier: MIT
// A counting, failing allocator: link alloc_mem.c (target ht_test_alloc) into a test program and
// its definitions take the place of base/mem.c's, since the linker takes a name from the program
// before it looks into an archive. Thread safe. The counts are of the whole program.
//
//   ht_test_alloc_reset();
//   for (uint64_t n = 1;; n++) {              // fail the 1st, the 2nd, ... allocation in turn
//       ht_test_alloc_fail_at(n);
//       s = thing_open(...);
//       bool failed = ht_test_alloc_failed();
//       ht_test_alloc_fail_at(0);
//       if (!failed) break;                   // it got through without reaching the n-th
//       assert(s == HEARTH_E_NOMEM); assert(live bytes are what they were before);
//   }
#ifndef HT_TESTS_ALLOC_MEM_H
#define HT_TESTS_ALLOC_MEM_H

#include <stdbool.h>
#include <stdint.h>

struct ht_test_alloc {
    uint64_t n_live_bytes, n_peak_bytes; // heap and pages together
    uint64_t n_live, n_calls;            // blocks; calls that took or grew a block
    uint64_t n_frees;
    uint64_t n_page_bytes; // of n_live_bytes, those of ht_pages_alloc
};

struct ht_test_alloc ht_test_alloc_get(void);
// Zeroes n_calls and n_frees and sets the peak to what lives now; removes fail_at.
void ht_test_alloc_reset(void);
// The n-th call from now (1: the next) fails, and only it; 0: none.
void ht_test_alloc_fail_at(uint64_t n);
// As fail_at, but all from the n-th on fail.
void ht_test_alloc_fail_from(uint64_t n);
bool ht_test_alloc_failed(void); // has a call failed since fail_at or fail_from was set?

#endif
