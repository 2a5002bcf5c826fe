// SPDX-License-Identifier: MIT
// Ids to text, piece by piece. Invariant: what was given out so far and the n_held bytes at the
// front of `out` together are the bytes of all tokens pushed, and those held begin a character that
// may still become whole. One thread; no heap after init.
#include "base/mem.h"
#include "text/internal.h"

enum { MOST_HELD = 3 };

enum hearth_status ht_detok_init(struct ht_detok *d, const struct ht_tokenizer *t,
                                 bool show_special, struct hearth_error *err) {
    size_t cap = (size_t)t->v.max_bytes + MOST_HELD + 1;
    char *out = ht_alloc(cap);
    if (!out) return ht_fail_nomem(err, cap, "a detokenizer");
    *d = (struct ht_detok){.t = t, .show_special = show_special, .out = out, .out_cap = cap};
    ht_detok_reset(d);
    return HEARTH_OK;
}

void ht_detok_deinit(struct ht_detok *d) {
    ht_free(d->out);
    *d = (struct ht_detok){0};
}

void ht_detok_reset(struct ht_detok *d) {
    d->n_held = d->n_out = 0;
    d->at_start = true;
}

// Bytes at the end of [p, p + n) that begin a character and lack the rest of it.
static uint32_t incomplete(const char *p, size_t n) {
    for (uint32_t k = 1; k <= MOST_HELD && k <= n; k++) {
        uint8_t b = (uint8_t)p[n - k];
        if (b < 0x80) return 0;
        if (b < 0xc0) continue;
        // the lead byte: whole once the bytes after it are made up to a valid character
        uint32_t len = b < 0xe0 ? 2 : b < 0xf0 ? 3 : 4;
        if (len <= k) return 0;
        char trial[4];
        memcpy(trial, p + n - k, k);
        for (uint8_t fill = 0x80; fill <= 0xbf - 0x1f; fill += 0x20) { // E0, ED, F0, F4 are choosy
            for (uint32_t i = k; i < len; i++) trial[i] = (char)(i == k ? fill : 0x80);
            if (ht_utf8_char_len(trial, len) == len) return k;
        }
        return 0;
    }
    return 0;
}

bool ht_detok_shows(const struct ht_detok *d, int32_t id) {
    if (ht_tokenizer_is_special(d->t, id)) return d->show_special;
    // a name that a converter made up ("[PAD151700]"), for the vocabulary to be as long as the
    // embedding
    return d->t->kind != HT_KIND_BPE || ht_vocab_type(&d->t->v, id) != HT_TOKEN_UNUSED;
}

void ht_detok_push(struct ht_detok *d, int32_t id, const char **text, size_t *n_bytes) {
    const struct ht_vocab *v = &d->t->v;
    // what was given out last is done with: the held bytes move to the front
    memmove(d->out, d->out + d->n_out, d->n_held);
    d->n_out = 0;
    *text = d->out;
    *n_bytes = 0;
    if (id < 0 || id >= v->n) return;
    if (!ht_detok_shows(d, id)) return;
    bool special = ht_tokenizer_is_special(d->t, id);
    uint32_t n;
    const char *p = ht_vocab_token(v, id, &n);
    if (d->t->kind == HT_KIND_SPM && n) {
        // the space that encoding puts in front of a text, and behind a special or user-defined
        // token, is no text; in front of these it puts none
        enum ht_token_type type = ht_vocab_type(v, id);
        bool drop = d->at_start && d->t->add_space && !special && *p == ' ' &&
                    type != HT_TOKEN_BYTE && type != HT_TOKEN_USER;
        p += drop;
        n -= drop;
        d->at_start = special || type == HT_TOKEN_USER;
    }
    memcpy(d->out + d->n_held, p, n);
    uint32_t all = d->n_held + n;
    d->n_held = incomplete(d->out, all);
    d->n_out = all - d->n_held;
    *n_bytes = d->n_out;
}

void ht_detok_follow(struct ht_detok *d, const int32_t *ids, size_t n) {
    for (size_t i = 0; i < n; i++) {
        const char *text;
        size_t n_bytes;
        ht_detok_push(d, ids[i], &text, &n_bytes);
    }
    d->n_held = d->n_out = 0;
}

void ht_detok_end(struct ht_detok *d, const char **text, size_t *n_bytes) {
    *text = d->out + d->n_out;
    *n_bytes = d->n_held;
    ht_detok_reset(d);
}
