// SPDX-License-Identifier: MIT
// Text to ids: user-defined tokens are cut out, special ones where asked, valid UTF-8 goes through
// normalisation and pre-tokenizer, bytes that are no UTF-8 become the tokens of those bytes. An
// encoder belongs to one thread and keeps its memory between texts.
#include "base/checked.h"
#include "base/mem.h"
#include "text/internal.h"

enum hearth_status ht_grow(void *array, size_t *cap, size_t n, size_t size,
                           struct hearth_error *err) {
    size_t more = *cap + *cap / 2 < 64 ? 64 : *cap + *cap / 2, bytes;
    if (more < n) more = n;
    void *p = *(void **)array;
    if (!ht_mul_size(more, size, &bytes)) return ht_fail_nomem(err, SIZE_MAX, "encoding text");
    p = ht_realloc(p, more, size);
    if (!p) return ht_fail_nomem(err, bytes, "encoding text");
    *(void **)array = p;
    *cap = more;
    return HEARTH_OK;
}

enum hearth_status ht_fail_byte(const struct ht_encoder *e, const char *p) {
    unsigned byte = (uint8_t)*p;
    if ((uintptr_t)p - (uintptr_t)e->source < e->n_source)
        return ht_fail(
            e->err, HEARTH_E_ARG,
            "byte 0x%02x at offset %zu of the text is not in the vocabulary, which has no "
            "token for the unknown either",
            byte, (size_t)(p - e->source));
    return ht_fail(
        e->err, HEARTH_E_ARG,
        "byte 0x%02x of the normalised text is not in the vocabulary, which has no token "
        "for the unknown either",
        byte);
}

// The longest run of valid UTF-8 at p.
static const char *valid_run(const char *p, const char *end, bool *ascii) {
    *ascii = true;
    while (p < end) {
        if (end - p >= 8 && !(ht_load64(p) & 0x8080808080808080u)) {
            p += 8;
            continue;
        }
        if ((uint8_t)*p >= 0x80) {
            size_t len = ht_utf8_char_len(p, (size_t)(end - p));
            if (!len) break;
            *ascii = false;
            p += len;
        } else {
            p++;
        }
    }
    return p;
}

static enum hearth_status push(struct ht_encoder *e, int32_t id) {
    enum hearth_status st = ht_ids_room(e, 1);
    if (!st) e->ids[e->n_ids++] = id;
    return st;
}

// Valid UTF-8 of a byte-level vocabulary.
static enum hearth_status encode_valid(struct ht_encoder *e, const char *p, size_t n, bool ascii,
                                       bool first) {
    enum hearth_status st = HEARTH_OK;
    if (e->t->pre->nfc && !ascii) st = ht_normalize(e, p, n, &p, &n);
    if (st || !first || !e->t->add_space || *p == ' ') return st ? st : ht_pretokenize(e, p, n);
    char *spaced = ht_alloc(n + 1); // rare: few byte-level models want a space in front
    if (!spaced) return ht_fail_nomem(e->err, n + 1, "encoding text");
    spaced[0] = ' ';
    memcpy(spaced + 1, p, n);
    st = ht_pretokenize(e, spaced, n + 1);
    ht_free(spaced);
    return st;
}

static enum hearth_status encode_bytes(struct ht_encoder *e, const char *p, size_t n) {
    const char *end = p + n;
    enum hearth_status st = HEARTH_OK;
    for (bool first = true; !st && p < end; first = false) {
        bool ascii;
        const char *q = valid_run(p, end, &ascii);
        if (q > p) {
            st = encode_valid(e, p, (size_t)(q - p), ascii, first);
            p = q;
        } else {
            int32_t id = e->t->byte_ids[(uint8_t)*p];
            if (id < 0) id = e->t->unk;
            st = id < 0 ? ht_fail_byte(e, p) : push(e, id);
            p++;
        }
    }
    return st;
}

static enum hearth_status encode_text(struct ht_encoder *e, const char *p, size_t n) {
    return e->t->kind == HT_KIND_SPM ? ht_spm_encode(e, p, n) : encode_bytes(e, p, n);
}

static enum hearth_status encode_all(struct ht_encoder *e, const char *p, size_t n,
                                     unsigned flags) {
    const struct ht_tokenizer *t = e->t;
    bool ends = flags & HEARTH_ENCODE_BEGIN_END;
    enum hearth_status st = HEARTH_OK;
    if (ends && t->add_bos) st = push(e, t->bos);
    while (!st && n) {
        size_t at = n, len = 0;
        int32_t id = ht_special_find(flags & HEARTH_ENCODE_SPECIAL ? &t->special : &t->user, &t->v,
                                     p, n, &at, &len);
        st = encode_text(e, p, at);
        if (st || id < 0) break;
        st = push(e, id);
        p += at + len;
        n -= at + len;
    }
    if (!st && ends && t->add_eos) st = push(e, t->eos);
    return st;
}

enum hearth_status ht_encoder_create(const struct ht_tokenizer *t, size_t n_bytes,
                                     struct ht_encoder **out, struct hearth_error *err) {
    struct ht_encoder *e = ht_calloc(1, sizeof(*e));
    size_t n_lines = 32; // of the cache: short texts have few words twice
    while (n_lines < 4096 && n_lines * 16 < n_bytes) n_lines *= 2;
    if (e) e->cache = ht_calloc(n_lines, sizeof(*e->cache));
    if (!e || !e->cache) {
        ht_encoder_destroy(e);
        return ht_fail_nomem(err, n_lines * sizeof(struct ht_cache_line), "an encoder");
    }
    e->t = t;
    e->cache_mask = (uint32_t)n_lines - 1;
    *out = e;
    return HEARTH_OK;
}

void ht_encoder_destroy(struct ht_encoder *e) {
    if (!e) return;
    ht_free(e->ids);
    ht_free(e->cache);
    ht_free(e->symbols);
    ht_free(e->heap);
    ht_free(e->text);
    ht_free(e->points);
    ht_free(e->sorted);
    ht_free(e->splits);
    ht_free(e->pieces);
    pcre2_match_data_free(e->match);
    pcre2_match_context_free(e->match_context);
    pcre2_jit_stack_free(e->jit_stack);
    ht_free(e);
}

enum hearth_status ht_encoder_run(struct ht_encoder *e, const char *text, size_t n_bytes,
                                  unsigned flags, const int32_t **ids, size_t *n_ids,
                                  struct hearth_error *err) {
    if (n_bytes > INT32_MAX)
        return ht_fail(err, HEARTH_E_ARG,
                       "the text has %zu bytes, at most 2147483647 can be encoded at once",
                       n_bytes);
    if (flags & ~(unsigned)(HEARTH_ENCODE_SPECIAL | HEARTH_ENCODE_BEGIN_END))
        return ht_fail(err, HEARTH_E_ARG, "encode flags are 0x%x, at most 0x%x was expected", flags,
                       (unsigned)(HEARTH_ENCODE_SPECIAL | HEARTH_ENCODE_BEGIN_END));
    e->err = err;
    e->source = text;
    e->n_source = n_bytes;
    e->n_ids = 0;
    enum hearth_status st = encode_all(e, text, n_bytes, flags);
    e->err = NULL;
    e->source = NULL;
    if (st) return st;
    *ids = e->ids;
    *n_ids = e->n_ids;
    return HEARTH_OK;
}

enum hearth_status ht_encode(const struct ht_tokenizer *t, const char *text, size_t n_bytes,
                             unsigned flags, struct hearth_tokens *out, struct hearth_error *err) {
    struct ht_encoder *e = NULL;
    const int32_t *ids = NULL;
    size_t n = 0;
    enum hearth_status st = ht_encoder_create(t, n_bytes, &e, err);
    if (!st) st = ht_encoder_run(e, text, n_bytes, flags, &ids, &n, err);
    if (!st) {
        *out = (struct hearth_tokens){e->ids, n}; // the encoder's array is handed over
        e->ids = NULL;
    }
    ht_encoder_destroy(e);
    return st;
}
