// SPDX-License-Identifier: MIT
// Statuses and error sentences. enum hearth_status itself is public (hearth/hearth.h); this adds
// the way the library fills a struct hearth_error. No state; any thread.
#ifndef HT_BASE_STATUS_H
#define HT_BASE_STATUS_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "hearth/hearth.h"

#define HT_MUST_CHECK         __attribute__((warn_unused_result))
#define HT_PRINTF(fmt, first) __attribute__((format(printf, fmt, first)))

// Fills *err (may be NULL) with the status and a formatted sentence, and returns the status, so
// that a function can end in `return ht_fail(err, HEARTH_E_FORMAT, "...")`. A sentence says what
// was found, where, and what was expected; no newline, no trailing period. Of too long a
// sentence "..." stands for the middle.
enum hearth_status ht_fail(struct hearth_error *err, enum hearth_status status, const char *fmt,
                           ...) HT_PRINTF(3, 4);

// The same with a va_list.
enum hearth_status ht_fail_v(struct hearth_error *err, enum hearth_status status, const char *fmt,
                             va_list ap) HT_PRINTF(3, 0);

// Puts "context: " in front of the sentence that *err already holds. Returns err's status (or
// `status` if err is NULL).
enum hearth_status ht_fail_in(struct hearth_error *err, enum hearth_status status, const char *fmt,
                              ...) HT_PRINTF(3, 4);

// What the system calls an errno; in buf, or a constant.
const char *ht_error_text(int code, char *buf, size_t n_buf);

// The usual sentence for memory that could not be had. Returns HEARTH_E_NOMEM.
enum hearth_status ht_fail_nomem(struct hearth_error *err, size_t n_bytes, const char *what);

#endif
