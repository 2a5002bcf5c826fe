// SPDX-License-Identifier: MIT
#include "base/sort.h"

#include <string.h>

static void swap(char *a, char *b, size_t size) {
    char tmp[64];
    for (size_t n; size; a += n, b += n, size -= n) {
        n = size < sizeof tmp ? size : sizeof tmp;
        memcpy(tmp, a, n);
        memcpy(a, b, n);
        memcpy(b, tmp, n);
    }
}

// Item i of the heap of n sinks below its larger children.
static void sink(char *p, size_t i, size_t n, size_t size,
                 int (*compare)(const void *, const void *)) {
    for (size_t child; (child = 2 * i + 1) < n; i = child) {
        if (child + 1 < n && compare(p + child * size, p + (child + 1) * size) < 0) child++;
        if (compare(p + i * size, p + child * size) >= 0) return;
        swap(p + i * size, p + child * size, size);
    }
}

void ht_sort(void *items, size_t n, size_t size, int (*compare)(const void *, const void *)) {
    char *p = items;
    for (size_t i = n / 2; i-- > 0;) sink(p, i, n, size, compare);
    for (size_t end = n; end > 1; end--) {
        swap(p, p + (end - 1) * size, size);
        sink(p, 0, end - 1, size, compare);
    }
}
