// SPDX-License-Identifier: MIT
#include "base/utf8.h"

#include <stdint.h>
#include <stdio.h>
#include <string.h>

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

const char *ht_quote(char out[HT_QUOTE_BYTES], const char *p, size_t n) {
    size_t k = 0;
    out[k++] = '\'';
    for (size_t i = 0; i < n;) {
        if (k + 10 > HT_QUOTE_BYTES) { // room for one more, "..." and the end
            k += (size_t)snprintf(out + k, 4, "...");
            break;
        }
        size_t len = ht_utf8_char_len(p + i, n - i);
        uint8_t b = (uint8_t)p[i];
        if (len && !ht_utf8_is_control(p + i, len)) {
            memcpy(out + k, p + i, len);
            k += len;
            i += len;
        } else {
            k += (size_t)snprintf(out + k, 5, "\\x%02x", b);
            i++;
        }
    }
    out[k++] = '\'';
    out[k] = 0;
    return out;
}
