// SPDX-License-Identifier: MIT
// The shape of UTF-8 (RFC 3629), as much of it as messages need. No state; any thread.
#ifndef HT_BASE_UTF8_H
#define HT_BASE_UTF8_H

#include <stddef.h>

// Length in bytes (1..4) of the valid character at s, which has n bytes; 0 if none begins there.
size_t ht_utf8_char_len(const char *s, size_t n);

#endif
