// SPDX-License-Identifier: MIT
// A growing byte buffer with a maximum given at creation. After a failed append the buffer stays
// valid and `failed` is set and sticks, so a writer may append many pieces and check once. Always
// 0-terminated behind `len` once non-empty.
#ifndef HT_BASE_BUF_H
#define HT_BASE_BUF_H

#include <stdbool.h>
#include <stddef.h>

#include "base/status.h"

struct ht_buf {
    char *data; // owned; NULL while empty
    size_t len, cap, max;
    bool failed; // out of memory, or past max
};

void ht_buf_init(struct ht_buf *b, size_t max_bytes);
void ht_buf_deinit(struct ht_buf *b);
void ht_buf_clear(struct ht_buf *b); // len = 0, failed = false, memory kept
bool ht_buf_append(struct ht_buf *b, const void *data, size_t n);
bool ht_buf_puts(struct ht_buf *b, const char *s);
bool ht_buf_putc(struct ht_buf *b, char c);
bool ht_buf_printf(struct ht_buf *b, const char *fmt, ...) HT_PRINTF(2, 3);
// Makes room for n more bytes (and the 0) without changing len, so that what follows cannot fail.
bool ht_buf_reserve(struct ht_buf *b, size_t n);

#endif
