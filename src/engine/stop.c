// SPDX-License-Identifier: MIT
// Every stop string has its own Knuth-Morris-Pratt automaton: state = how many of its bytes the end
// of the text matches. So a byte costs a few steps for each string whatever the text, and the
// largest state is the number of bytes to hold back. See stop.h.
#include "engine/stop.h"

#include <string.h>

#include "base/checked.h"
#include "base/mem.h"
#include "base/utf8.h"

struct ht_stop_string {
    char *bytes;    // owned
    uint32_t *fail; // [len] longest proper prefix that also ends bytes[0..i]
    uint32_t len, state;
};

static bool utf8_valid(const char *text, size_t n) {
    for (size_t i = 0; i < n;) {
        size_t len = ht_utf8_char_len(text + i, n - i);
        if (len == 0) return false;
        i += len;
    }
    return true;
}

static enum hearth_status string_init(struct ht_stop_string *s, const char *text, size_t index,
                                      struct hearth_error *err) {
    size_t len = text ? strlen(text) : 0;
    if (len == 0 || len > 65536)
        return ht_fail(err, HEARTH_E_ARG, "stop string %zu has %zu bytes; 1 to 65536 are expected",
                       index + 1, len);
    if (!utf8_valid(text, len))
        return ht_fail(err, HEARTH_E_ARG, "stop string %zu is not valid UTF-8", index + 1);
    s->bytes = ht_strndup(text, len);
    s->fail = ht_calloc(len, sizeof *s->fail);
    if (!s->bytes || !s->fail) return ht_fail_nomem(err, len * 5, "a stop string");
    s->len = (uint32_t)len;
    for (uint32_t i = 1, k = 0; i < s->len; i++) {
        while (k > 0 && s->bytes[i] != s->bytes[k]) k = s->fail[k - 1];
        if (s->bytes[i] == s->bytes[k]) k++;
        s->fail[i] = k;
    }
    return HEARTH_OK;
}

enum hearth_status ht_stop_init(struct ht_stop *s, const char *const *strings, size_t n_strings,
                                size_t max_piece_bytes, size_t n_pushes, struct hearth_error *err) {
    struct ht_stop made = {0};
    enum hearth_status status = HEARTH_OK;
    size_t longest = 0, room;

    if (n_strings > 0) {
        made.strings = ht_calloc(n_strings, sizeof *made.strings);
        if (!made.strings) {
            status = ht_fail_nomem(err, n_strings * sizeof *made.strings, "the stop strings");
            goto fail;
        }
        made.n_strings = n_strings;
    }
    for (size_t i = 0; i < n_strings; i++) {
        status = string_init(&made.strings[i], strings[i], i, err);
        if (status) goto fail;
        if (made.strings[i].len > longest) longest = made.strings[i].len;
    }
    if (!ht_mul_size(max_piece_bytes, n_pushes, &room) || !ht_add_size(room, longest, &made.cap)) {
        status =
            ht_fail(err, HEARTH_E_ARG, "a piece of text of %zu bytes is too long", max_piece_bytes);
        goto fail;
    }
    made.text = ht_alloc(made.cap);
    if (!made.text) {
        status = ht_fail_nomem(err, made.cap, "the text of a request");
        goto fail;
    }
    *s = made;
    return HEARTH_OK;
fail:
    ht_stop_deinit(&made);
    return status;
}

void ht_stop_deinit(struct ht_stop *s) {
    for (size_t i = 0; i < s->n_strings; i++) {
        ht_free(s->strings[i].bytes);
        ht_free(s->strings[i].fail);
    }
    ht_free(s->strings);
    ht_free(s->text);
    *s = (struct ht_stop){0};
}

// One byte further in one automaton. A complete string leaves state == len; there is no next byte.
static void string_step(struct ht_stop_string *s, char c) {
    uint32_t k = s->state;
    while (k > 0 && s->bytes[k] != c) k = s->fail[k - 1];
    s->state = k + (s->bytes[k] == c);
}

bool ht_stop_push(struct ht_stop *s, const char *text, size_t n_bytes) {
    if (s->matched) return true;
    if (s->n_taken > 0) {
        memmove(s->text, s->text + s->n_taken, s->n_text - s->n_taken);
        s->n_text -= s->n_taken;
        s->n_taken = 0;
    }
    // The caller promised the sizes at init; past them text is refused rather than overrun.
    if (n_bytes > s->cap - s->n_text) n_bytes = s->cap - s->n_text;
    if (s->n_strings == 0) {
        if (n_bytes > 0) memcpy(s->text + s->n_text, text, n_bytes);
        s->n_text += n_bytes;
        return false;
    }
    for (size_t i = 0; i < n_bytes; i++) {
        s->text[s->n_text++] = text[i];
        s->n_held = 0;
        for (size_t j = 0; j < s->n_strings; j++) {
            struct ht_stop_string *t = &s->strings[j];
            string_step(t, text[i]);
            if (t->state > s->n_held) s->n_held = t->state;
            if (t->state == t->len && t->len > s->n_match) s->n_match = t->len;
        }
        if (s->n_match > 0) {
            s->matched = true;
            return true;
        }
    }
    return false;
}

bool ht_stop_is(const struct ht_stop *s, const char *text, size_t n_bytes) {
    for (size_t i = 0; i < s->n_strings; i++)
        if (s->strings[i].len == n_bytes && memcmp(s->strings[i].bytes, text, n_bytes) == 0)
            return true;
    return false;
}

void ht_stop_take(struct ht_stop *s, bool all, const char **text, size_t *n_bytes) {
    size_t back = s->matched ? s->n_match : all ? 0 : s->n_held;
    size_t end = s->n_text - back;
    // After `all` the automata may count bytes that are already out; they are not held any more.
    size_t n = end > s->n_taken ? end - s->n_taken : 0;
    *text = s->text + s->n_taken;
    *n_bytes = n;
    s->n_taken += n;
}
