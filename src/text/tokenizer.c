// SPDX-License-Identifier: MIT
// Loads a tokenizer from GGUF metadata. Invariant: every id it holds is below the vocabulary's
// size. Immutable afterwards: any thread.
#include "base/log.h"
#include "base/mem.h"
#include "text/internal.h"

static const char key_model[] = "tokenizer.ggml.model", key_pre[] = "tokenizer.ggml.pre";

// A special token's id; *out stays where the key is absent, or says what is no token and is not
// needed, and becomes -1 where the file says that there is none (-1, or all ones).
static enum hearth_status read_id(const struct ht_gguf *g, const char *key, bool is_needed,
                                  int32_t n_vocab, int32_t *out, struct hearth_error *err) {
    const struct ht_gguf_kv *kv = ht_gguf_find(g, key);
    if (!kv) return HEARTH_OK;
    if (!ht_gguf_is_int(kv->type))
        return ht_fail(err, HEARTH_E_FORMAT, "%s: metadata key %s is %s, an integer was expected",
                       ht_gguf_name(g), key, ht_gguf_type_name(kv->type));
    int64_t id = ht_gguf_int_at(kv, 0);
    if (id == -1 || id == UINT32_MAX) {
        *out = -1;
        return HEARTH_OK;
    }
    if ((id < 0 || id >= n_vocab) && !is_needed) return HEARTH_OK; // another vocabulary's
    if (id < 0 || id >= n_vocab)
        return ht_fail(err, HEARTH_E_FORMAT,
                       "%s: metadata key %s is %lld, an id below the vocabulary's size of %d was "
                       "expected",
                       ht_gguf_name(g), key, (long long)id, n_vocab);
    *out = (int32_t)id;
    return HEARTH_OK;
}

// What stands behind a file that was filled in ends a generation as well. Such ids may be left over
// from a larger vocabulary.
static void mark_fim_ends(const struct ht_gguf *g, struct ht_vocab *v) {
    static const char *const keys[] = {"tokenizer.ggml.fim_pad_token_id",
                                       "tokenizer.ggml.fim_rep_token_id",
                                       "tokenizer.ggml.fim_sep_token_id"};
    for (size_t i = 0; i < sizeof(keys) / sizeof(*keys); i++) {
        const struct ht_gguf_kv *kv = ht_gguf_find(g, keys[i]);
        int64_t id = kv && ht_gguf_is_int(kv->type) ? ht_gguf_int_at(kv, 0) : -1;
        if (id >= 0 && id < v->n) v->flags[id] |= HT_FLAG_END;
    }
}

static enum hearth_status read_ids(const struct ht_gguf *g, struct ht_tokenizer *t,
                                   struct hearth_error *err) {
    int32_t n = t->v.n, eot = -1, eom = -1;
    bool spm = t->kind == HT_KIND_SPM;
    t->bos = spm && n > 1 ? 1 : -1; // sentencepiece's own defaults
    t->eos = spm && n > 2 ? 2 : -1;
    t->unk = spm ? 0 : -1;
    struct {
        const char *key;
        bool is_needed;
        int32_t *id;
    } keys[] = {
        {"tokenizer.ggml.bos_token_id", true, &t->bos},
        {"tokenizer.ggml.eos_token_id", true, &t->eos},
        {"tokenizer.ggml.unknown_token_id", false, &t->unk},
        {"tokenizer.ggml.eot_token_id", false, &eot},
        {"tokenizer.ggml.eom_token_id", false, &eom},
    };
    enum hearth_status st = HEARTH_OK;
    for (size_t i = 0; !st && i < sizeof(keys) / sizeof(*keys); i++)
        st = read_id(g, keys[i].key, keys[i].is_needed, n, keys[i].id, err);
    if (st) return st;
    ht_special_mark_ends(&t->v);
    const int32_t ends[] = {t->eos, eot, eom};
    for (int i = 0; i < 3; i++)
        if (ends[i] >= 0) t->v.flags[ends[i]] |= HT_FLAG_END;
    mark_fim_ends(g, &t->v);
    return HEARTH_OK;
}

static enum hearth_status read_begin_end(const struct ht_gguf *g, struct ht_tokenizer *t,
                                         struct hearth_error *err) {
    static const char key_bos[] = "tokenizer.ggml.add_bos_token",
                      key_eos[] = "tokenizer.ggml.add_eos_token";
    // by the model's own custom only where there is such a token
    t->add_bos = t->bos >= 0 && (t->kind == HT_KIND_SPM || t->pre->add_bos);
    t->add_space = t->kind == HT_KIND_SPM;
    enum hearth_status st = ht_gguf_get_bool(g, key_bos, false, &t->add_bos, err);
    if (!st) st = ht_gguf_get_bool(g, key_eos, false, &t->add_eos, err);
    if (!st) st = ht_gguf_get_bool(g, "tokenizer.ggml.add_space_prefix", false, &t->add_space, err);
    if (st) return st;
    // A configuration's flag, which converters copy for vocabularies of both kinds. Of byte-level
    // ones it counts where words are GPT-2's; those with a pattern of their own have no use for it.
    if (t->kind == HT_KIND_BPE && t->pre->scan != HT_SCAN_GPT2) t->add_space = false;
    if ((t->add_bos && t->bos < 0) || (t->add_eos && t->eos < 0))
        return ht_fail(err, HEARTH_E_FORMAT,
                       "%s: metadata key %s is true, but the file names no such token",
                       ht_gguf_name(g), t->add_bos && t->bos < 0 ? key_bos : key_eos);
    return HEARTH_OK;
}

static void find_bytes(struct ht_tokenizer *t) {
    for (int b = 0; b < 256; b++) {
        char c = (char)b;
        bool spm = t->kind == HT_KIND_SPM;
        t->byte_ids[b] = spm ? -1 : ht_vocab_find(&t->v, &c, 1, HT_TYPES_TEXT);
        if (t->byte_ids[b] < 0) t->byte_ids[b] = ht_vocab_find(&t->v, &c, 1, 1 << HT_TOKEN_BYTE);
        if (t->byte_ids[b] < 0 && !spm) t->byte_ids[b] = ht_vocab_find(&t->v, &c, 1, HT_TYPES_ANY);
    }
}

static bool token_is(const struct ht_tokenizer *t, int32_t id, const char *name) {
    uint32_t n;
    if (id >= t->v.n) return false;
    const char *p = ht_vocab_token(&t->v, id, &n);
    return n == strlen(name) && !memcmp(p, name, n);
}

// "default" is what converters write, or leave out, where they do not know a model's own way to cut
// text; Ollama's knew neither of these. Their tokens tell.
static bool is_default(const struct ht_gguf *g, struct ht_tokenizer *t, struct ht_str *name) {
    if (ht_gguf_find(g, key_pre) && (name->len != 7 || memcmp(name->data, "default", 7)))
        return false;
    *name = (struct ht_str){"default", 7};
    if (token_is(t, 128009, "<|eot_id|>"))
        *name = (struct ht_str){"llama-bpe", 9};
    else if (token_is(t, 999, "<SPECIAL_999>"))
        *name = (struct ht_str){"tekken", 6};
    return true;
}

static enum hearth_status load_bpe(const struct ht_gguf *g, struct ht_tokenizer *t,
                                   struct hearth_error *err) {
    struct ht_str name = {NULL, 0};
    char known[600], quoted[HT_QUOTE_BYTES];
    enum hearth_status st = ht_gguf_get_str(g, key_pre, false, &name, err);
    if (st) return st;
    t->pre_guessed = is_default(g, t, &name);
    t->pre = ht_pre_find(name.data, name.len);
    if (!t->pre) {
        ht_pre_list(known, sizeof(known));
        return ht_fail(err, HEARTH_E_UNSUPPORTED, "%s: metadata key %s is %s; known are %s",
                       ht_gguf_name(g), key_pre, ht_quote(quoted, name.data, name.len), known);
    }
    t->ignore_merges = t->pre->ignore_merges;
    st = ht_merges_load(g, t, err);
    if (!st) st = ht_pre_compile(t, err);
    return st;
}

static enum hearth_status load_spm(const struct ht_gguf *g, struct ht_tokenizer *t,
                                   struct hearth_error *err) {
    static const char key_charsmap[] = "tokenizer.ggml.precompiled_charsmap",
                      key_extra[] = "tokenizer.ggml.remove_extra_whitespaces";
    const struct ht_gguf_kv *charsmap = ht_gguf_find(g, key_charsmap);
    bool extra = false;
    enum hearth_status st = ht_gguf_get_bool(g, key_extra, false, &extra, err);
    if (st) return st;
    if ((charsmap && charsmap->n) || extra)
        return ht_fail(
            err, HEARTH_E_UNSUPPORTED,
            "%s: metadata key %s is set, a SentencePiece vocabulary that takes text as it "
            "is was expected",
            ht_gguf_name(g), extra ? key_extra : key_charsmap);
    return ht_spm_load(g, t, err);
}

static enum hearth_status load(const struct ht_gguf *g, struct ht_tokenizer *t,
                               struct hearth_error *err) {
    bool spm = t->kind == HT_KIND_SPM;
    enum hearth_status st = ht_vocab_load(g, t->kind, &t->v, err);
    if (!st) st = spm ? load_spm(g, t, err) : load_bpe(g, t, err);
    if (!st) st = read_ids(g, t, err);
    if (!st) st = read_begin_end(g, t, err);
    if (st) return st;
    find_bytes(t);
    unsigned control = 1 << HT_TOKEN_CONTROL | 1 << HT_TOKEN_UNKNOWN, user = 1 << HT_TOKEN_USER;
    st = ht_special_init(&t->special, &t->v, control | user, err);
    if (!st) st = ht_special_init(&t->user, &t->v, user, err);
    if (st) return ht_fail_in(err, st, "%s", ht_gguf_name(g));
    // merging by ids needs the bytes of tokens no more
    if (!spm && !t->ignore_merges) ht_vocab_drop_table(&t->v);
    return HEARTH_OK;
}

enum hearth_status ht_tokenizer_load(const struct ht_gguf *g, const struct hearth_log *log,
                                     struct ht_tokenizer **out, struct hearth_error *err) {
    struct ht_str model = {NULL, 0};
    char quoted[HT_QUOTE_BYTES];
    enum hearth_status st = ht_gguf_get_str(g, key_model, false, &model, err);
    if (st) return st;
    bool bpe = model.len == 4 && !memcmp(model.data, "gpt2", 4);
    bool spm = model.len == 5 && !memcmp(model.data, "llama", 5);
    bool none = !model.len || (model.len == 8 && !memcmp(model.data, "no_vocab", 8)) ||
                (model.len == 4 && !memcmp(model.data, "none", 4));
    if (none) {
        *out = NULL;
        return HEARTH_OK;
    }
    if (!bpe && !spm)
        return ht_fail(err, HEARTH_E_UNSUPPORTED,
                       "%s: metadata key %s is %s; known are gpt2 (byte-level BPE), llama "
                       "(SentencePiece BPE)",
                       ht_gguf_name(g), key_model, ht_quote(quoted, model.data, model.len));
    struct ht_tokenizer *t = ht_calloc(1, sizeof(*t));
    if (!t) return ht_fail_nomem(err, sizeof(*t), "a tokenizer");
    t->kind = spm ? HT_KIND_SPM : HT_KIND_BPE;
    st = load(g, t, err);
    if (st) {
        ht_tokenizer_free(t);
        return st;
    }
    if (t->pre_guessed) {
        const char *way = t->pre->names[0];
        bool known = strcmp(way, "default") != 0;
        ht_log(log, known ? HEARTH_LOG_INFO : HEARTH_LOG_WARN,
               "%s: metadata key %s %s; text is cut as \"%s\" has it, which %s", ht_gguf_name(g),
               key_pre, ht_gguf_find(g, key_pre) ? "says \"default\"" : "is missing", way,
               known ? "this vocabulary belongs to" : "may not be the model's own way");
    }
    if (t->flat_scores)
        ht_log(log, HEARTH_LOG_WARN,
               "%s: all scores of the tokens are equal, as converters write that know none; pairs "
               "merge into the token with the lowest id, which may not be the model's own way",
               ht_gguf_name(g));
    *out = t;
    return HEARTH_OK;
}

void ht_tokenizer_free(struct ht_tokenizer *t) {
    if (!t) return;
    ht_pre_release(t);
    ht_special_deinit(&t->special);
    ht_special_deinit(&t->user);
    ht_table_free(t->pairs, ((size_t)t->pair_mask + 1) * sizeof(*t->pairs));
    ht_free(t->pair_filter);
    ht_free(t->joints);
    ht_free(t->keys);
    ht_vocab_deinit(&t->v);
    ht_free(t);
}

size_t ht_tokenizer_bytes(const struct ht_tokenizer *t) {
    return sizeof(*t) + ht_vocab_bytes(&t->v) + ht_pre_bytes(t) +
           (t->pairs ? ((size_t)t->pair_mask + 1) * (2 * sizeof(*t->pairs) + 1) / 2 : 0) +
           (size_t)t->n_joints * sizeof(*t->joints) +
           (t->keys ? (size_t)t->v.n * sizeof(*t->keys) : 0) +
           (t->special.n + (size_t)t->user.n) * sizeof(int32_t);
}

int32_t ht_tokenizer_n_vocab(const struct ht_tokenizer *t) {
    return t->v.n;
}
int32_t ht_tokenizer_bos(const struct ht_tokenizer *t) {
    return t->bos;
}
bool ht_tokenizer_adds_begin(const struct ht_tokenizer *t) {
    return t->add_bos;
}
bool ht_tokenizer_adds_end(const struct ht_tokenizer *t) {
    return t->add_eos;
}
int32_t ht_tokenizer_eos(const struct ht_tokenizer *t) {
    return t->eos;
}

bool ht_tokenizer_is_end(const struct ht_tokenizer *t, int32_t id) {
    return id >= 0 && id < t->v.n && t->v.flags[id] & HT_FLAG_END;
}

bool ht_tokenizer_is_special(const struct ht_tokenizer *t, int32_t id) {
    if (id < 0 || id >= t->v.n) return false;
    enum ht_token_type type = ht_vocab_type(&t->v, id);
    return type == HT_TOKEN_CONTROL || type == HT_TOKEN_UNKNOWN;
}

const char *ht_token_bytes(const struct ht_tokenizer *t, int32_t id, size_t *n_bytes) {
    *n_bytes = 0;
    if (id < 0 || id >= t->v.n) return NULL;
    uint32_t n;
    const char *p = ht_vocab_token(&t->v, id, &n);
    *n_bytes = n;
    return p;
}
