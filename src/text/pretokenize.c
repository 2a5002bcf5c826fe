// SPDX-License-Identifier: MIT
// Cuts text into the words that BPE works in: PCRE2 patterns, compiled once at load with its JIT
// where the system allows it, and the scanner for the common rules. Patterns are immutable;
// matching takes its memory from the encoder.
#include <stdio.h>

#include "base/mem.h"
#include "text/internal.h"

enum { JIT_STACK_START = 64 << 10, JIT_STACK_MAX = 64 << 20 };

static void *pcre_alloc(PCRE2_SIZE n, void *user) {
    (void)user;
    return ht_alloc(n);
}
static void pcre_free(void *p, void *user) {
    (void)user;
    ht_free(p);
}

enum hearth_status ht_pre_compile(struct ht_tokenizer *t, struct hearth_error *err) {
    t->pcre = pcre2_general_context_create(pcre_alloc, pcre_free, NULL);
    pcre2_compile_context *c = t->pcre ? pcre2_compile_context_create(t->pcre) : NULL;
    if (!c) return ht_fail_nomem(err, 256, "the pre-tokenizer");
    enum hearth_status st = HEARTH_OK;
    t->jit = true;
    for (int i = 0; !st && i < HT_PRE_MAX && t->pre->patterns[i]; i++) {
        int code;
        PCRE2_SIZE at;
        // a row that covers all text matches where it stands, or something is wrong with it
        uint32_t options =
            PCRE2_UTF | PCRE2_UCP | PCRE2_NO_UTF_CHECK | (t->pre->covers ? PCRE2_ANCHORED : 0);
        pcre2_code *re = pcre2_compile((PCRE2_SPTR)t->pre->patterns[i], PCRE2_ZERO_TERMINATED,
                                       options, &code, &at, c);
        t->patterns[i] = re;
        t->n_patterns = i + 1;
        // without a JIT (no right to make memory executable) the interpreter does the same, slower
        if (re) t->jit = pcre2_jit_compile(re, PCRE2_JIT_COMPLETE) == 0 && t->jit;
        if (re) continue;
        st = code == PCRE2_ERROR_HEAP_FAILED
                 ? ht_fail_nomem(err, 4096, "the pre-tokenizer")
                 : ht_fail(err, HEARTH_E_INTERNAL,
                           "pattern %d of pre-tokenizer %s does not compile: PCRE2 error %d at %zu",
                           i, t->pre->names[0], code, (size_t)at);
    }
    pcre2_compile_context_free(c);
    return st;
}

void ht_pre_release(struct ht_tokenizer *t) {
    for (int i = 0; i < t->n_patterns; i++) pcre2_code_free(t->patterns[i]);
    pcre2_general_context_free(t->pcre);
}

size_t ht_pre_bytes(const struct ht_tokenizer *t) {
    size_t sum = 0, n;
    for (int i = 0; i < t->n_patterns; i++) {
        if (!pcre2_pattern_info(t->patterns[i], PCRE2_INFO_SIZE, &n)) sum += n;
        if (!pcre2_pattern_info(t->patterns[i], PCRE2_INFO_JITSIZE, &n)) sum += n;
    }
    return sum;
}

static enum hearth_status match_prepare(struct ht_encoder *e) {
    if (!e->match) e->match = pcre2_match_data_create(1, e->t->pcre);
    if (!e->match_context) {
        e->match_context = pcre2_match_context_create(e->t->pcre);
        // a run of a million spaces may be walked back one by one: that is linear, and no failure
        if (e->match_context) pcre2_set_match_limit(e->match_context, UINT32_MAX);
    }
    if (!e->match || !e->match_context) return ht_fail_nomem(e->err, 256, "matching text");
    return HEARTH_OK;
}

// The JIT's own stack, for text that the 32 KB it takes from the thread do not suffice for.
static enum hearth_status stack_grow(struct ht_encoder *e) {
    if (!e->jit_stack)
        e->jit_stack = pcre2_jit_stack_create(JIT_STACK_START, JIT_STACK_MAX, e->t->pcre);
    if (!e->jit_stack) return ht_fail_nomem(e->err, JIT_STACK_MAX, "matching text");
    pcre2_jit_stack_assign(e->match_context, NULL, e->jit_stack);
    return HEARTH_OK;
}

// The first match of pattern `level` in [p, p + n): its place, or *to 0 where there is none.
static enum hearth_status match(struct ht_encoder *e, int level, const char *p, size_t n,
                                size_t *from, size_t *to) {
    const pcre2_code *re = e->t->patterns[level];
    int rc = PCRE2_ERROR_JIT_STACKLIMIT;
    if (e->t->jit) rc = pcre2_jit_match(re, (PCRE2_SPTR)p, n, 0, 0, e->match, e->match_context);
    if (rc == PCRE2_ERROR_JIT_STACKLIMIT && e->t->jit && !e->jit_stack) {
        enum hearth_status st = stack_grow(e);
        if (st) return st;
        rc = pcre2_jit_match(re, (PCRE2_SPTR)p, n, 0, 0, e->match, e->match_context);
    }
    if (rc == PCRE2_ERROR_JIT_STACKLIMIT) // no JIT, or not enough for it: a stack on the heap
        rc = pcre2_match(re, (PCRE2_SPTR)p, n, 0, PCRE2_NO_UTF_CHECK | PCRE2_NO_JIT, e->match,
                         e->match_context);
    if (rc < 0 && rc != PCRE2_ERROR_NOMATCH) {
        if (rc == PCRE2_ERROR_NOMEMORY) return ht_fail_nomem(e->err, n, "matching text");
        PCRE2_UCHAR why[120];
        if (pcre2_get_error_message(rc, why, sizeof(why)) < 0) why[0] = 0;
        return ht_fail(e->err, HEARTH_E_LIMIT, "pre-tokenizer %s gave up on %zu bytes of text: %s",
                       e->t->pre->names[0], n, (const char *)why);
    }
    const PCRE2_SIZE *ends = pcre2_get_ovector_pointer(e->match);
    *from = rc < 0 ? 0 : ends[0];
    *to = rc < 0 ? 0 : ends[1];
    return HEARTH_OK;
}

// Pieces of text go through the patterns one after the other; each cuts what it is given, and what
// lies between matches is a piece as well. Recursion is as deep as there are patterns.
static enum hearth_status cut(struct ht_encoder *e, int level, const char *p, size_t n) {
    enum hearth_status st = HEARTH_OK;
    if (level == e->t->n_patterns) return ht_encode_word(e, p, n);
    while (!st && n) {
        size_t from = 0, to = 0;
        st = match(e, level, p, n, &from, &to);
        if (st) return st;
        if (to == from) return cut(e, level + 1, p, n);
        if (from) st = cut(e, level + 1, p, from);
        if (!st) st = cut(e, level + 1, p + from, to - from);
        p += to;
        n -= to;
    }
    return st;
}

enum hearth_status ht_pretokenize(struct ht_encoder *e, const char *p, size_t n) {
    enum hearth_status st = match_prepare(e);
    if (st) return st;
    const struct ht_pre *pre = e->t->pre;
    if (!pre->covers) return cut(e, 0, p, n);
    const char *end = p + n;
    while (!st && p < end) {
        const char *q = ht_scan_word(pre->scan, p, end);
        if (!q) {
            size_t from = 0, to = 0;
            st = match(e, 0, p, (size_t)(end - p), &from, &to);
            if (st) return st;
            if (!to)
                return ht_fail(e->err, HEARTH_E_INTERNAL,
                               "pre-tokenizer %s has no rule for the text at byte 0x%02x",
                               pre->names[0], (unsigned)(uint8_t)*p);
            q = p + to;
        }
        st = ht_encode_word(e, p, (size_t)(q - p));
        p = q;
    }
    return st;
}
