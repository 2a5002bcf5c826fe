// SPDX-License-Identifier: MIT
// NFC (Unicode Standard Annex 15) where a model's own tokenizer asks for it. Text that is in NFC
// already is recognised by ranges of characters that NFC never touches and is not copied; of other
// text only the spans around other characters go through utf8proc, whose tables are used without
// its own memory. Canonical order is sorted here: utf8proc's way takes quadratic time for long
// runs of marks.
#include <utf8proc.h>

#include "base/mem.h"
#include "text/internal.h"

// First and last of ranges of assigned characters with Canonical_Combining_Class 0 and
// NFC_Quick_Check Yes; ascending. Not all there are, only the common scripts, and U+11A7, which
// utf8proc 2.8 drops behind a Hangul syllable: here the syllable's span ends in front of it. A test
// holds them against utf8proc.
static const uint32_t stable[][2] = {
    {0x0, 0x2ff},     {0x370, 0x373},     {0x375, 0x377},     {0x37a, 0x37d},     {0x388, 0x38a},
    {0x38e, 0x3a1},   {0x3a3, 0x482},     {0x48a, 0x52f},     {0x5d0, 0x5ea},     {0x620, 0x64a},
    {0x660, 0x66f},   {0x671, 0x6d5},     {0x904, 0x939},     {0x93d, 0x94c},     {0x964, 0x97f},
    {0xe01, 0xe37},   {0xe3f, 0xe47},     {0xe4f, 0xe5b},     {0x10d0, 0x10ff},   {0x11a7, 0x11a7},
    {0x1e00, 0x1e99}, {0x1ea0, 0x1eff},   {0x2010, 0x2027},   {0x2030, 0x205e},   {0x20a0, 0x20c0},
    {0x2190, 0x2328}, {0x232b, 0x2426},   {0x2460, 0x2adb},   {0x3000, 0x3029},   {0x3041, 0x3096},
    {0x30a0, 0x30ff}, {0x3105, 0x312f},   {0x3400, 0x4dbf},   {0x4e00, 0x9fff},   {0xac00, 0xd7a3},
    {0xff01, 0xffbe}, {0x1f300, 0x1f6d7}, {0x1f900, 0x1fa53}, {0x20000, 0x2a6df},
};

bool ht_nfc_stable(uint32_t c) {
    if (c < 0x300 || c - 0x4e00 < 0x5200) return true;
    size_t lo = 0, hi = sizeof(stable) / sizeof(*stable);
    while (lo < hi) {
        size_t mid = (lo + hi) / 2;
        if (stable[mid][1] < c)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo < sizeof(stable) / sizeof(*stable) && stable[lo][0] <= c;
}

// The character at p of valid UTF-8.
static uint32_t decode(const char *p, uint32_t *len) {
    const uint8_t *b = (const uint8_t *)p;
    if (b[0] < 0x80) {
        *len = 1;
        return b[0];
    }
    if (b[0] < 0xe0) {
        *len = 2;
        return (b[0] & 0x1fu) << 6 | (b[1] & 0x3fu);
    }
    if (b[0] < 0xf0) {
        *len = 3;
        return (b[0] & 0xfu) << 12 | (b[1] & 0x3fu) << 6 | (b[2] & 0x3fu);
    }
    *len = 4;
    return (b[0] & 7u) << 18 | (b[1] & 0x3fu) << 12 | (b[2] & 0x3fu) << 6 | (b[3] & 0x3fu);
}

// From p on: where the next span to be normalised begins (the last stable character before one
// that is not), or end.
static const char *span_begin(const char *p, const char *end) {
    const char *start = p;
    for (uint32_t len; p < end; p += len) {
        while (end - p >= 8 && !(ht_load64(p) & 0x8080808080808080u)) p += 8, start = p - 1;
        if (p == end) break;
        if (!ht_nfc_stable(decode(p, &len))) return start;
        start = p;
    }
    return end;
}

// Behind the span's first two characters: where the next stable one stands, or end.
static const char *span_end(const char *p, const char *end) {
    uint32_t len;
    if (ht_nfc_stable(decode(p, &len))) p += len;
    while (p < end && !ht_nfc_stable(decode(p, &len))) p += len;
    return p;
}

static int ccc(int32_t c) {
    return utf8proc_get_property(c)->combining_class;
}

// Sorts a run of marks by combining class, equal ones staying in order.
static enum hearth_status sort_run(struct ht_encoder *e, int32_t *run, size_t n) {
    if (n <= 32) {
        for (size_t i = 1; i < n; i++) {
            int32_t x = run[i];
            size_t k = i;
            for (; k && ccc(run[k - 1]) > ccc(x); k--) run[k] = run[k - 1];
            run[k] = x;
        }
        return HEARTH_OK;
    }
    size_t starts[257] = {0};
    enum hearth_status st = HEARTH_OK;
    if (n > e->cap_sorted) st = ht_grow(&e->sorted, &e->cap_sorted, n, sizeof(*e->sorted), e->err);
    if (st) return st;
    for (size_t i = 0; i < n; i++) starts[ccc(run[i]) + 1]++;
    for (int i = 1; i < 257; i++) starts[i] += starts[i - 1];
    for (size_t i = 0; i < n; i++) e->sorted[starts[ccc(run[i])]++] = run[i];
    memcpy(run, e->sorted, n * sizeof(*run));
    return HEARTH_OK;
}

static enum hearth_status canonical_order(struct ht_encoder *e, size_t n) {
    enum hearth_status st = HEARTH_OK;
    for (size_t i = 0, from; !st && i < n; i++) {
        for (from = i; i < n && ccc(e->points[i]); i++) {}
        if (i - from > 1) st = sort_run(e, e->points + from, i - from);
    }
    return st;
}

static enum hearth_status text_append(struct ht_encoder *e, const char *p, size_t n) {
    enum hearth_status st = HEARTH_OK;
    // NFC can treble the bytes of a text (nine characters do).
    if (n > INT32_MAX - e->n_text)
        return ht_fail(e->err, HEARTH_E_ARG,
                       "the text has more than %d bytes in NFC, which is more than can be encoded",
                       INT32_MAX);
    if (e->cap_text - e->n_text < n) st = ht_grow(&e->text, &e->cap_text, e->n_text + n, 1, e->err);
    if (st || !n) return st;
    memcpy(e->text + e->n_text, p, n);
    e->n_text += n;
    return HEARTH_OK;
}

// Decomposes, orders and composes a span, and appends it to e->text.
static enum hearth_status span_append(struct ht_encoder *e, const char *p, const char *end) {
    enum { MOST = 8 }; // a canonical decomposition has at most 4 characters
    size_t n = 0;
    int boundary = 0;
    enum hearth_status st = HEARTH_OK;
    for (uint32_t len; p < end; p += len) {
        int32_t c = (int32_t)decode(p, &len);
        if (e->cap_points - n < MOST)
            st = ht_grow(&e->points, &e->cap_points, n + MOST, sizeof(*e->points), e->err);
        if (st) return st;
        utf8proc_ssize_t k =
            utf8proc_decompose_char(c, e->points + n, MOST, UTF8PROC_DECOMPOSE, &boundary);
        if (k < 0 || k > MOST)
            return ht_fail(e->err, HEARTH_E_INTERNAL, "U+%04X does not decompose", (unsigned)c);
        n += (size_t)k;
    }
    st = canonical_order(e, n);
    if (st) return st;
    utf8proc_ssize_t left = utf8proc_normalize_utf32(e->points, (utf8proc_ssize_t)n,
                                                     UTF8PROC_STABLE | UTF8PROC_COMPOSE);
    for (utf8proc_ssize_t i = 0; !st && i < left; i++) {
        utf8proc_uint8_t utf8[4];
        utf8proc_ssize_t k = utf8proc_encode_char(e->points[i], utf8);
        st = text_append(e, (const char *)utf8, (size_t)k);
    }
    return st;
}

enum hearth_status ht_normalize(struct ht_encoder *e, const char *p, size_t n, const char **out,
                                size_t *n_out) {
    const char *end = p + n, *span = span_begin(p, end);
    *out = p;
    *n_out = n;
    if (span == end) return HEARTH_OK;
    enum hearth_status st = HEARTH_OK;
    e->n_text = 0;
    while (!st && p < end) {
        st = text_append(e, p, (size_t)(span - p));
        if (st || span == end) break;
        p = span_end(span, end);
        st = span_append(e, span, p);
        span = span_begin(p, end);
    }
    *out = e->text;
    *n_out = e->n_text;
    return st;
}
