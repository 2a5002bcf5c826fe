// SPDX-License-Identifier: MIT
// Statuses, their names and texts (from the one list in hearth.h), and the filling of struct
// hearth_error. Invariant: a message is 0-terminated valid UTF-8 of one line, whatever bytes of a
// file or an argument were formatted into it. No state; any thread.
#include "base/status.h"

#include <stdio.h>
#include <string.h>

#include "base/utf8.h"

#define TO_TEXT(x) #x
#define VERSION(x) TO_TEXT(x)
#define N_MESSAGE  sizeof(((struct hearth_error *)0)->message)

const char *hearth_version(void) {
    return VERSION(HEARTH_VERSION_MAJOR) "." VERSION(HEARTH_VERSION_MINOR) "." VERSION(
        HEARTH_VERSION_PATCH);
}

const char *hearth_status_name(enum hearth_status s) {
    switch (s) {
#define CASE_NAME(name, text)                                                                      \
    case HEARTH_##name: return #name;
        HEARTH_STATUS_LIST(CASE_NAME)
#undef CASE_NAME
    }
    return "E_UNKNOWN";
}

const char *hearth_status_text(enum hearth_status s) {
    switch (s) {
#define CASE_TEXT(name, text)                                                                      \
    case HEARTH_##name: return text;
        HEARTH_STATUS_LIST(CASE_TEXT)
#undef CASE_TEXT
    }
    return "a status that this version does not know";
}

// Control characters and bytes that are not UTF-8 become '?'.
static void clean(char *s) {
    size_t n = strlen(s);
    for (size_t i = 0; i < n;) {
        size_t len = ht_utf8_char_len(s + i, n - i);
        bool shown = len > 0 && !ht_utf8_is_control(s + i, len);
        if (len == 0) len = 1;
        if (!shown) memset(s + i, '?', len);
        i += len;
    }
}

static bool is_tail(char c) {
    return ((unsigned char)c & 0xc0) == 0x80;
}

// Formats into buf (n >= 16). Of a sentence that does not fit, "..." stands for its middle: a long
// path is known by its ends, and the reason comes last. One that is longer than any path with a
// reason loses its end. No character is cut; of what is not UTF-8 anyway, at most three bytes of
// tails are passed over.
static void format_cut(char *buf, size_t n, const char *fmt, va_list ap) {
    char full[6000];
    int n_all = vsnprintf(full, sizeof full, fmt, ap);
    if (n_all < 0) {
        memcpy(buf, "?", 2);
        return;
    }
    size_t len = strlen(full), front = len, back = len;
    if (len >= n) {
        front = (size_t)n_all > len ? n - 4 : (n - 4) / 2;
        back = len - (n - 4 - front);
        for (int i = 0; i < 3 && is_tail(full[front]); i++) front--;
        for (int i = 0; i < 3 && is_tail(full[back]); i++) back++;
    }
    snprintf(buf, n, "%.*s%s%s", (int)front, full, len >= n ? "..." : "", full + back);
    clean(buf);
}

enum hearth_status ht_fail_v(struct hearth_error *err, enum hearth_status status, const char *fmt,
                             va_list ap) {
    if (err) {
        // Through a copy, since an argument may point into the old message.
        char message[N_MESSAGE];
        format_cut(message, sizeof message, fmt, ap);
        err->status = status;
        memcpy(err->message, message, strlen(message) + 1);
    }
    return status;
}

enum hearth_status ht_fail(struct hearth_error *err, enum hearth_status status, const char *fmt,
                           ...) {
    va_list ap;
    va_start(ap, fmt);
    ht_fail_v(err, status, fmt, ap);
    va_end(ap);
    return status;
}

enum hearth_status ht_fail_in(struct hearth_error *err, enum hearth_status status, const char *fmt,
                              ...) {
    if (!err) return status;
    char context[N_MESSAGE];
    va_list ap;
    va_start(ap, fmt);
    format_cut(context, sizeof context, fmt, ap);
    va_end(ap);
    return ht_fail(err, err->status, "%s: %s", context, err->message);
}

enum hearth_status ht_fail_nomem(struct hearth_error *err, size_t n_bytes, const char *what) {
    return ht_fail(err, HEARTH_E_NOMEM, "out of memory: %zu bytes for %s could not be had", n_bytes,
                   what);
}

const char *ht_error_text(int code, char *buf, size_t n_buf) {
#if defined(__GLIBC__) // its own strerror_r, since _GNU_SOURCE is set; else POSIX's
    return strerror_r(code, buf, n_buf);
#else
    if (strerror_r(code, buf, n_buf) != 0) snprintf(buf, n_buf, "error %d", code);
    return buf;
#endif
}
