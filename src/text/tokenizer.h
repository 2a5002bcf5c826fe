// SPDX-License-Identifier: MIT
// Tokenizers from GGUF metadata alone. Immutable after load; any thread. Encoding takes its working
// memory from a struct ht_encoder, so that encoding twice with one needs no heap once it has grown.
#ifndef HT_TEXT_TOKENIZER_H
#define HT_TEXT_TOKENIZER_H

#include "base/status.h"
#include "gguf/gguf.h"

struct ht_tokenizer;

// E_UNSUPPORTED names the model or pre-tokenizer and lists the known ones. *out is NULL with OK
// where the file says it has no vocabulary (tokenizer.ggml.model absent, empty, "none" or
// "no_vocab"). Borrows g. log (may be NULL) gets a warning where the file does not say how its text
// is cut into words.
HT_MUST_CHECK enum hearth_status ht_tokenizer_load(const struct ht_gguf *g,
                                                   const struct hearth_log *log,
                                                   struct ht_tokenizer **out,
                                                   struct hearth_error *err);
void ht_tokenizer_free(struct ht_tokenizer *t);          // accepts NULL
size_t ht_tokenizer_bytes(const struct ht_tokenizer *t); // heap it holds
int32_t ht_tokenizer_n_vocab(const struct ht_tokenizer *t);
int32_t ht_tokenizer_bos(const struct ht_tokenizer *t); // -1: none
int32_t ht_tokenizer_eos(const struct ht_tokenizer *t);
bool ht_tokenizer_adds_begin(const struct ht_tokenizer *t); // HEARTH_ENCODE_BEGIN_END: bos
bool ht_tokenizer_adds_end(const struct ht_tokenizer *t);   // and eos
bool ht_tokenizer_is_end(const struct ht_tokenizer *t, int32_t id);
// Control tokens and the unknown one: shown as text only where that is asked for.
bool ht_tokenizer_is_special(const struct ht_tokenizer *t, int32_t id);
// The bytes of a token (byte-level alphabet undone, SentencePiece's U+2581 as a space). Borrowed.
// NULL outside.
const char *ht_token_bytes(const struct ht_tokenizer *t, int32_t id, size_t *n_bytes);

// flags: enum hearth_encode_flags. *out is filled through ht_alloc; free with ht_free(out->ids).
HT_MUST_CHECK enum hearth_status ht_encode(const struct ht_tokenizer *t, const char *text,
                                           size_t n_bytes, unsigned flags,
                                           struct hearth_tokens *out, struct hearth_error *err);

// The same with working memory that is kept between texts: no heap once it has grown. One thread.
// The ids are borrowed until the next run. n_bytes_hint sizes the cache of words.
struct ht_encoder;
HT_MUST_CHECK enum hearth_status ht_encoder_create(const struct ht_tokenizer *t,
                                                   size_t n_bytes_hint, struct ht_encoder **out,
                                                   struct hearth_error *err);
void ht_encoder_destroy(struct ht_encoder *e); // accepts NULL
HT_MUST_CHECK enum hearth_status ht_encoder_run(struct ht_encoder *e, const char *text,
                                                size_t n_bytes, unsigned flags, const int32_t **ids,
                                                size_t *n_ids, struct hearth_error *err);

// Incremental detokenizer, embedded by value, with one heap block that it takes at init. Holds back
// an incomplete UTF-8 character (at most 3 bytes).
struct ht_detok {
    const struct ht_tokenizer *t;
    bool show_special;
    bool at_start;   // SentencePiece: the first space of the text is not printed
    uint32_t n_held; // bytes of an incomplete character at the front of out
    uint32_t n_out;
    char *out; // room for the longest token + 4, allocated at init
    size_t out_cap;
};
HT_MUST_CHECK enum hearth_status ht_detok_init(struct ht_detok *d, const struct ht_tokenizer *t,
                                               bool show_special, struct hearth_error *err);
void ht_detok_deinit(struct ht_detok *d);
void ht_detok_reset(struct ht_detok *d);
// Whether a token of the vocabulary gives text (if not, stop strings look at its name).
bool ht_detok_shows(const struct ht_detok *d, int32_t id);
void ht_detok_push(struct ht_detok *d, int32_t id, const char **text, size_t *n_bytes);
// What comes next continues these: their own text is not given out. (SentencePiece drops a space
// at the start of a text and behind some tokens.)
void ht_detok_follow(struct ht_detok *d, const int32_t *ids, size_t n);
void ht_detok_end(struct ht_detok *d, const char **text, size_t *n_bytes);

// Versions of the libraries that the room was built with, and whether PCRE2 has a JIT.
void ht_text_libraries(const char **pcre2, const char **utf8proc, bool *pcre2_jit);

#endif
