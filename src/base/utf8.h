// SPDX-License-Identifier: MIT
// The shape of UTF-8 (RFC 3629), as much of it as messages need. No state; any thread.
#ifndef HT_BASE_UTF8_H
#define HT_BASE_UTF8_H

#include <stdbool.h>
#include <stddef.h>

// Length in bytes (1..4) of the valid character at s, which has n bytes; 0 if none begins there.
size_t ht_utf8_char_len(const char *s, size_t n);
// Whether the valid character of len bytes at s is a control: U+0000 to U+001F, U+007F to U+009F. A
// terminal obeys those of two bytes as well.
bool ht_utf8_is_control(const char *s, size_t len);
// The n bytes at p, from outside, for a sentence: in single quotes, what is no character or a
// control as \xNN, cut off to fit. Returns out.
#define HT_QUOTE_BYTES 120
const char *ht_quote(char out[HT_QUOTE_BYTES], const char *p, size_t n);

#endif
