// SPDX-License-Identifier: MIT
// hearth_tokenizer_*, hearth_encode, hearth_detokenizer_*: the text room behind public handles. A
// tokenizer is immutable; a detokenizer belongs to one thread at a time.
#include "api/api_internal.h"
#include "base/float_env.h"
#include "base/mem.h"

enum hearth_status hearth_tokenizer_create(const hearth_file *f, const struct hearth_log *log,
                                           hearth_tokenizer **out, struct hearth_error *err) {
    struct ht_tokenizer *t = NULL;
    struct ht_float_env kept = ht_float_enter();
    enum hearth_status s = ht_tokenizer_load(f->g, log, &t, err);
    ht_float_leave(kept);
    if (s) return s;
    if (!t)
        return ht_fail(err, HEARTH_E_UNSUPPORTED,
                       "%s: the file has no vocabulary (key tokenizer.ggml.model)",
                       ht_gguf_name(f->g));
    hearth_tokenizer *made = ht_alloc(sizeof *made);
    if (!made) {
        ht_tokenizer_free(t);
        return ht_fail_nomem(err, sizeof *made, "a tokenizer");
    }
    made->t = t;
    *out = made;
    return HEARTH_OK;
}

void hearth_tokenizer_destroy(hearth_tokenizer *t) {
    if (!t) return;
    ht_tokenizer_free(t->t);
    ht_free(t);
}

static enum hearth_status fail_null(struct hearth_error *err) {
    return ht_fail(err, HEARTH_E_ARG, "the tokenizer is NULL: the model's file has no vocabulary");
}

enum hearth_status hearth_encode(const hearth_tokenizer *t, const char *text, size_t n_bytes,
                                 unsigned flags, struct hearth_tokens *out,
                                 struct hearth_error *err) {
    if (!t) return fail_null(err);
    const unsigned known = HEARTH_ENCODE_SPECIAL | HEARTH_ENCODE_BEGIN_END;
    if (flags & ~known)
        return ht_fail(err, HEARTH_E_ARG, "encode flags are 0x%x, expected bits of 0x%x", flags,
                       known);
    return ht_encode(t->t, text, n_bytes, flags, out, err);
}

void hearth_tokens_free(struct hearth_tokens *t) {
    if (!t) return;
    ht_free(t->ids);
    *t = (struct hearth_tokens){0};
}

int32_t hearth_tokenizer_n_vocab(const hearth_tokenizer *t) {
    return t ? ht_tokenizer_n_vocab(t->t) : 0;
}
int32_t hearth_tokenizer_bos(const hearth_tokenizer *t) {
    return t ? ht_tokenizer_bos(t->t) : -1;
}
int32_t hearth_tokenizer_eos(const hearth_tokenizer *t) {
    return t ? ht_tokenizer_eos(t->t) : -1;
}

bool hearth_tokenizer_adds_begin(const hearth_tokenizer *t) {
    return t && ht_tokenizer_adds_begin(t->t);
}
bool hearth_tokenizer_adds_end(const hearth_tokenizer *t) {
    return t && ht_tokenizer_adds_end(t->t);
}

bool hearth_tokenizer_is_end(const hearth_tokenizer *t, int32_t id) {
    return t && ht_tokenizer_is_end(t->t, id);
}

const char *hearth_token_bytes(const hearth_tokenizer *t, int32_t id, size_t *n_bytes) {
    *n_bytes = 0;
    return t ? ht_token_bytes(t->t, id, n_bytes) : NULL;
}

// ---- detokenizer

struct hearth_detokenizer {
    struct ht_detok d;
};

enum hearth_status hearth_detokenizer_create(const hearth_tokenizer *t, bool show_special,
                                             hearth_detokenizer **out, struct hearth_error *err) {
    if (!t) return fail_null(err);
    hearth_detokenizer *d = ht_alloc(sizeof *d);
    if (!d) return ht_fail_nomem(err, sizeof *d, "a detokenizer");
    enum hearth_status s = ht_detok_init(&d->d, t->t, show_special, err);
    if (s) {
        ht_free(d);
        return s;
    }
    *out = d;
    return HEARTH_OK;
}

void hearth_detokenizer_destroy(hearth_detokenizer *d) {
    if (!d) return;
    ht_detok_deinit(&d->d);
    ht_free(d);
}

void hearth_detokenizer_reset(hearth_detokenizer *d) {
    ht_detok_reset(&d->d);
}

enum hearth_status hearth_detokenize(hearth_detokenizer *d, int32_t id, const char **text,
                                     size_t *n_bytes) {
    if (id < 0 || id >= ht_tokenizer_n_vocab(d->d.t)) return HEARTH_E_ARG;
    ht_detok_push(&d->d, id, text, n_bytes);
    return HEARTH_OK;
}

void hearth_detokenize_end(hearth_detokenizer *d, const char **text, size_t *n_bytes) {
    ht_detok_end(&d->d, text, n_bytes);
}
