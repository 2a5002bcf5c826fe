// SPDX-License-Identifier: MIT
// The log callback of the caller, handed down by value. The library prints nothing itself.
#ifndef HT_BASE_LOG_H
#define HT_BASE_LOG_H

#include "base/status.h"

// struct hearth_log is public: { hearth_log_fn fn; void *user; }. A NULL log or fn drops the line.
void ht_log(const struct hearth_log *log, enum hearth_log_level level, const char *fmt, ...)
    HT_PRINTF(3, 4);

#endif
