// SPDX-License-Identifier: MIT
#include "base/utf8.h"

static bool is_tail(unsigned char c) {
    return (c & 0xc0) == 0x80;
}

size_t ht_utf8_char_len(const char *s, size_t n) {
    const unsigned char *p = (const unsigned char *)s;
    if (n == 0) return 0;
    if (p[0] < 0x80) return 1;
    if (p[0] >= 0xc2 && p[0] <= 0xdf) return n >= 2 && is_tail(p[1]) ? 2 : 0;
    if (p[0] >= 0xe0 && p[0] <= 0xef) {
        if (n < 3 || !is_tail(p[1]) || !is_tail(p[2])) return 0;
        if (p[0] == 0xe0 && p[1] < 0xa0) return 0; // overlong
        if (p[0] == 0xed && p[1] > 0x9f) return 0; // surrogate
        return 3;
    }
    if (p[0] >= 0xf0 && p[0] <= 0xf4) {
        if (n < 4 || !is_tail(p[1]) || !is_tail(p[2]) || !is_tail(p[3])) return 0;
        if (p[0] == 0xf0 && p[1] < 0x90) return 0; // overlong
        if (p[0] == 0xf4 && p[1] > 0x8f) return 0; // past U+10FFFF
        return 4;
    }
    return 0;
}

bool ht_utf8_is_control(const char *s, size_t len) {
    const unsigned char *p = (const unsigned char *)s;
    return p[0] < 0x20 || p[0] == 0x7f || (len == 2 && p[0] == 0xc2 && p[1] < 0xa0);
}
