// SPDX-License-Identifier: MIT
// Sorting in place, without memory of its own (qsort takes some, unseen, in several C libraries).
#ifndef HT_BASE_SORT_H
#define HT_BASE_SORT_H

#include <stddef.h>

// Sorts n items of `size` bytes so that compare(a, b) <= 0 for neighbours a, b. Heapsort: n log n
// in every case; equal items end in any order, the same for the same input.
void ht_sort(void *items, size_t n, size_t size, int (*compare)(const void *, const void *));

#endif
