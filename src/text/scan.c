// SPDX-License-Identifier: MIT
// The common pre-tokenizer rules by hand, for ASCII. Invariant: what it answers is what the row's
// pattern matches at p (tests/unit/test_text_pre.c holds the two against each other); where a byte
// above 0x7f takes part in the decision it gives no answer. No state; any thread.
#include <stdint.h>

#include "text/pre.h"

enum class { OTHER, LETTER, DIGIT, SPACE, LINE, WIDE }; // WIDE: not ASCII

static const uint8_t classes[256] = {
    ['a' ... 'z'] = LETTER, ['A' ... 'Z'] = LETTER, ['0' ... '9'] = DIGIT, ['\t'] = SPACE,
    ['\v'] = SPACE,         ['\f'] = SPACE,         [' '] = SPACE,         ['\n'] = LINE,
    ['\r'] = LINE,          [0x80 ... 0xff] = WIDE,
};

static enum class at(const char *p) { return (enum class)classes[(uint8_t)*p]; }

// The end of the run of class c that begins at p, or NULL where a wide byte follows.
static const char *run(const char *p, const char *end, enum class c) {
    while (p < end && at(p) == c) p++;
    return p < end && at(p) == WIDE ? NULL : p;
}

// 's 't 'm 'd 're 've 'll behind an apostrophe: the length with it, 0: none, -1: a wide byte.
static int contraction(const char *p, const char *end, int fold) {
    if (end - p < 2) return 0;
    if (at(p + 1) == WIDE) return -1; // U+017F is a long s
    int a = p[1] | fold;
    if (a == 's' || a == 't' || a == 'm' || a == 'd') return 2;
    if (end - p < 3) return 0;
    int b = p[2] | fold;
    return (a == 'r' && b == 'e') || (a == 'v' && b == 'e') || (a == 'l' && b == 'l') ? 3 : 0;
}

// White space at p: up to the last line end where lines count, else all but the last before a word.
static const char *spaces(const char *p, const char *end, int lines) {
    const char *q = p, *line = NULL;
    for (; q < end && (at(q) == SPACE || at(q) == LINE); q++)
        if (at(q) == LINE) line = q;
    if (q < end && at(q) == WIDE) return NULL;
    if (lines && line) return line + 1;
    return q < end && q - p > 1 ? q - 1 : q;
}

static const char *gpt2(const char *p, const char *end) {
    if (*p == '\'') {
        int n = contraction(p, end, 0);
        if (n) return n < 0 ? NULL : p + n;
    }
    const char *q = p + (*p == ' ' && end - p > 1);
    switch (at(q)) {
    case WIDE: return NULL;
    case SPACE:
    case LINE: return spaces(p, end, 0);
    default: return run(q, end, at(q));
    }
}

static const char *digits(const char *p, const char *end, int max) {
    const char *q = p;
    while (q < end && q - p < max && at(q) == DIGIT) q++;
    return q - p < max && q < end && at(q) == WIDE ? NULL : q;
}

// Signs from p on (the first may stand behind a space), and the line ends behind them.
static const char *signs(const char *p, const char *end) {
    const char *q = run(p, end, OTHER);
    while (q && q < end && at(q) == LINE) q++;
    return q;
}

static const char *llama3(const char *p, const char *end, int max_digits) {
    if (*p == '\'') {
        int n = contraction(p, end, 0x20);
        if (n) return n < 0 ? NULL : p + n;
    }
    enum class c = at(p), next = end - p > 1 ? at(p + 1) : LINE;
    switch (c) {
    case WIDE: return NULL;
    case LETTER: return run(p, end, LETTER);
    case DIGIT: return digits(p, end, max_digits);
    case LINE: return spaces(p, end, 1);
    default: break;
    }
    if (next == WIDE) return NULL;
    if (next == LETTER) return run(p + 1, end, LETTER);
    if (c == OTHER) return signs(p, end);
    return *p == ' ' && next == OTHER ? signs(p + 1, end) : spaces(p, end, 1);
}

const char *ht_scan_word(enum ht_scan scan, const char *p, const char *end) {
    switch (scan) {
    case HT_SCAN_GPT2: return gpt2(p, end);
    case HT_SCAN_QWEN2: return llama3(p, end, 1);
    case HT_SCAN_LLAMA3: return llama3(p, end, 3);
    default: return NULL;
    }
}
