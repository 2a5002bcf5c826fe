// SPDX-License-Identifier: MIT
// The growing buffer. Invariant: data is NULL and cap 0, or len < cap <= max + 1 and data[len] is
// 0.
#include "base/buf.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/checked.h"
#include "base/mem.h"

void ht_buf_init(struct ht_buf *b, size_t max_bytes) {
    *b = (struct ht_buf){.max = max_bytes};
}

void ht_buf_deinit(struct ht_buf *b) {
    ht_free(b->data);
    ht_buf_init(b, b->max);
}

void ht_buf_clear(struct ht_buf *b) {
    b->len = 0;
    b->failed = false;
    if (b->data) b->data[0] = 0;
}

bool ht_buf_reserve(struct ht_buf *b, size_t n) {
    if (b->failed) return false;
    size_t len, cap;
    if (!ht_add_size(b->len, n, &len) || len > b->max || !ht_add_size(len, 1, &cap)) {
        b->failed = true;
        return false;
    }
    if (cap <= b->cap) return true;
    size_t twice = b->cap > SIZE_MAX / 2 ? SIZE_MAX : b->cap * 2;
    size_t want = cap < 64 ? 64 : cap;
    if (want < twice) want = twice;
    if (want - 1 > b->max) want = b->max + 1;
    char *data = ht_realloc(b->data, want, 1);
    if (!data && want > cap) data = ht_realloc(b->data, want = cap, 1);
    if (!data) {
        b->failed = true;
        return false;
    }
    if (!b->data) data[0] = 0;
    b->data = data;
    b->cap = want;
    return true;
}

bool ht_buf_append(struct ht_buf *b, const void *data, size_t n) {
    if (!ht_buf_reserve(b, n)) return false;
    if (n) memcpy(b->data + b->len, data, n);
    b->len += n;
    b->data[b->len] = 0;
    return true;
}

bool ht_buf_puts(struct ht_buf *b, const char *s) {
    return ht_buf_append(b, s, strlen(s));
}

bool ht_buf_putc(struct ht_buf *b, char c) {
    return ht_buf_append(b, &c, 1);
}

static bool append_format(struct ht_buf *b, const char *fmt, va_list ap, va_list again) {
    size_t room = b->cap - b->len; // 0 while empty
    int n = vsnprintf(room ? b->data + b->len : NULL, room, fmt, ap);
    if (n >= 0 && (size_t)n >= room) {
        if (room) b->data[b->len] = 0;
        if (!ht_buf_reserve(b, (size_t)n)) return false;
        n = vsnprintf(b->data + b->len, (size_t)n + 1, fmt, again);
    }
    if (n < 0) {
        if (b->data) b->data[b->len] = 0;
        b->failed = true;
        return false;
    }
    b->len += (size_t)n;
    return true;
}

bool ht_buf_printf(struct ht_buf *b, const char *fmt, ...) {
    if (b->failed) return false;
    va_list ap, again;
    va_start(ap, fmt);
    va_copy(again, ap);
    bool ok = append_format(b, fmt, ap, again);
    va_end(again);
    va_end(ap);
    return ok;
}
