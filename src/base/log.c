// SPDX-License-Identifier: MIT
#include "base/log.h"

void ht_log(const struct hearth_log *log, enum hearth_log_level level, const char *fmt, ...) {
    if (!log || !log->fn) return;
    struct hearth_error line; // its message is the line: cut and cleaned in the same way
    va_list ap;
    va_start(ap, fmt);
    ht_fail_v(&line, HEARTH_OK, fmt, ap);
    va_end(ap);
    log->fn(log->user, level, line.message);
}
