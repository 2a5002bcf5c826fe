// SPDX-License-Identifier: MIT
// SentencePiece BPE as the models' own tokenizers do it: spaces are characters of words, a space
// goes in front of the text and behind each token that was cut out of it, pairs merge by the score
// of what they become, what is no token falls back to its bytes. Text is cut into words where no
// token can reach across, which changes nothing in the result: before a space, unless some token
// has the byte before it in front of a space.
#include <math.h>

#include "base/mem.h"
#include "text/internal.h"

static const char key_scores[] = "tokenizer.ggml.scores";

// A higher score gives a smaller key; never UINT32_MAX.
static uint32_t score_key(float score) {
    uint32_t bits;
    score += 0.0f; // one zero
    memcpy(&bits, &score, 4);
    return bits & 0x80000000u ? bits : bits ^ 0x7fffffffu;
}

// Where all scores are equal, a converter knew none: of these vocabularies, a token's id tells when
// its merge was learnt.
static void rank_by_id(struct ht_tokenizer *t) {
    uint32_t n = 0, key = 0;
    for (int32_t id = 0; id < t->v.n; id++) {
        if (ht_vocab_type(&t->v, id) != HT_TOKEN_NORMAL) continue;
        if (n++ > 0 && t->keys[id] != key) return;
        key = t->keys[id];
    }
    t->flat_scores = n > 1;
    for (int32_t id = 0; t->flat_scores && id < t->v.n; id++) t->keys[id] = (uint32_t)id;
}

static void find_glue(struct ht_tokenizer *t) {
    for (int32_t id = 0; id < t->v.n; id++) {
        uint32_t n;
        const char *p = ht_vocab_token(&t->v, id, &n);
        if (!(HT_TYPES_SPM >> ht_vocab_type(&t->v, id) & 1)) continue;
        for (uint32_t i = 1; i < n; i++)
            if (p[i] == ' ' && p[i - 1] != ' ') ht_set_add(t->glue, (uint8_t)p[i - 1]);
    }
}

enum hearth_status ht_spm_load(const struct ht_gguf *g, struct ht_tokenizer *t,
                               struct hearth_error *err) {
    const struct ht_gguf_kv *kv = ht_gguf_find(g, key_scores);
    size_t n = (size_t)t->v.n;
    char found[HT_GGUF_DESCRIBE_BYTES];
    if (!kv || kv->type != HT_GGUF_ARR || kv->n != n ||
        (kv->arr_type != HT_GGUF_F32 && kv->arr_type != HT_GGUF_F64))
        return ht_fail(err, HEARTH_E_FORMAT,
                       "%s: metadata key %s is %s, an array of %zu floats, one a token, was "
                       "expected",
                       ht_gguf_name(g), key_scores, kv ? ht_gguf_describe(kv, found) : "missing",
                       n);
    t->keys = ht_alloc(n * sizeof(*t->keys));
    if (!t->keys) return ht_fail_nomem(err, n * sizeof(*t->keys), "the scores of the tokens");
    for (size_t i = 0; i < n; i++) {
        double score = ht_gguf_num_at(kv, i);
        if (!isfinite(score))
            return ht_fail(err, HEARTH_E_FORMAT, "%s: %s[%zu] is not a finite number",
                           ht_gguf_name(g), key_scores, i);
        t->keys[i] = score_key((float)score);
    }
    rank_by_id(t);
    find_glue(t);
    return HEARTH_OK;
}

// ---- what became of a word's symbols

static enum hearth_status push(struct ht_encoder *e, int32_t id) {
    enum hearth_status st = ht_ids_room(e, 1);
    if (!st) e->ids[e->n_ids++] = id;
    return st;
}

// Bytes that are no token: byte tokens, or one unknown token for the character.
static enum hearth_status push_bytes(struct ht_encoder *e, const char *p, uint32_t n) {
    const struct ht_tokenizer *t = e->t;
    enum hearth_status st = HEARTH_OK;
    const char *bytes = p;
    bool all = true;
    if (n == 1 && *p == ' ') { // its name in the vocabulary is U+2581
        bytes = "\xe2\x96\x81";
        n = 3;
    }
    for (uint32_t i = 0; i < n; i++) all = all && t->byte_ids[(uint8_t)bytes[i]] >= 0;
    if (!all) return t->unk >= 0 ? push(e, t->unk) : ht_fail_byte(e, p);
    for (uint32_t i = 0; !st && i < n; i++) st = push(e, t->byte_ids[(uint8_t)bytes[i]]);
    return st;
}

enum hearth_status ht_spm_split(struct ht_encoder *e, int32_t id, uint32_t left_len) {
    size_t n = (size_t)e->t->v.n;
    if (!e->splits) e->splits = ht_calloc(n, sizeof(*e->splits));
    if (!e->splits) return ht_fail_nomem(e->err, n * sizeof(*e->splits), "encoding text");
    e->splits[id] = (struct ht_split){e->word, left_len};
    return HEARTH_OK;
}

static uint32_t split_of(const struct ht_encoder *e, int32_t id) {
    return e->splits && e->splits[id].word == e->word ? e->splits[id].left_len : 0;
}

// Takes an unused token apart until nothing unused is left, left to right, with a stack of its own.
static enum hearth_status take_apart(struct ht_encoder *e, const char *p, uint32_t n) {
    size_t depth = 0;
    enum hearth_status st = HEARTH_OK;
    for (;;) {
        int32_t id = ht_vocab_find(&e->t->v, p, n, HT_TYPES_SPM);
        bool unused = id >= 0 && ht_vocab_type(&e->t->v, id) == HT_TOKEN_UNUSED;
        uint32_t left = unused ? split_of(e, id) : 0;
        if (left && left < n) {
            if (depth == e->cap_pieces)
                st = ht_grow(&e->pieces, &e->cap_pieces, depth + 1, sizeof(*e->pieces), e->err);
            if (st) return st;
            e->pieces[depth++] = (struct ht_piece){p + left, n - left};
            n = left;
            continue;
        }
        st = id >= 0 ? push(e, id) : push_bytes(e, p, n);
        if (st || !depth) return st;
        depth--;
        p = e->pieces[depth].p;
        n = e->pieces[depth].n;
    }
}

enum hearth_status ht_spm_emit(struct ht_encoder *e, int32_t id, const char *p, uint32_t n) {
    if (id < 0) return push_bytes(e, p, n);
    if (ht_vocab_type(&e->t->v, id) == HT_TOKEN_UNUSED) return take_apart(e, p, n);
    return push(e, id);
}

// ---- text

// Copies the text into e->text: U+2581 and the space are one, and one goes in front.
static enum hearth_status text_prepare(struct ht_encoder *e, const char *p, size_t n) {
    enum hearth_status st = HEARTH_OK;
    if (e->cap_text < n + 1) st = ht_grow(&e->text, &e->cap_text, n + 1, 1, e->err);
    if (st) return st;
    char *out = e->text;
    if (e->t->add_space) *out++ = ' ';
    const char *end = p + n;
    while (p < end) {
        const char *q = memchr(p, 0xe2, (size_t)(end - p));
        size_t plain = (size_t)((q ? q : end) - p);
        memcpy(out, p, plain);
        out += plain;
        p += plain;
        if (!q) break;
        bool space = end - p >= 3 && (uint8_t)p[1] == 0x96 && (uint8_t)p[2] == 0x81;
        *out++ = space ? ' ' : *p;
        p += space ? 3 : 1;
    }
    e->n_text = (size_t)(out - e->text);
    return HEARTH_OK;
}

static enum hearth_status encode_words(struct ht_encoder *e, const char *p, size_t n) {
    const char *end = p + n;
    enum hearth_status st = HEARTH_OK;
    while (!st && p < end) {
        const char *q = p + 1;
        for (; q < end; q++) { // to the next space that nothing reaches across
            q = memchr(q, ' ', (size_t)(end - q));
            if (!q) q = end;
            if (q == end || (q[-1] != ' ' && !ht_set_has(e->t->glue, (uint8_t)q[-1]))) break;
        }
        st = ht_encode_word(e, p, (size_t)(q - p));
        p = q;
    }
    return st;
}

// Characters that the vocabulary lacks are one unknown token together where they stand together, as
// SentencePiece has it, unless text may give that token for something else. `from`: the first id.
static void join_unknown(struct ht_encoder *e, size_t from) {
    size_t n = from;
    if (e->t->unk < 0) return;
    enum ht_token_type type = ht_vocab_type(&e->t->v, e->t->unk);
    if (type != HT_TOKEN_UNKNOWN && type != HT_TOKEN_CONTROL) return;
    for (size_t i = from; i < e->n_ids; i++) {
        bool again = i > from && e->ids[i] == e->t->unk && e->ids[i - 1] == e->t->unk;
        if (!again) e->ids[n++] = e->ids[i];
    }
    e->n_ids = n;
}

enum hearth_status ht_spm_encode(struct ht_encoder *e, const char *p, size_t n) {
    if (!n) return HEARTH_OK;
    size_t from = e->n_ids;
    enum hearth_status st = text_prepare(e, p, n);
    if (!st) st = encode_words(e, e->text, e->n_text);
    if (!st) join_unknown(e, from);
    return st;
}
