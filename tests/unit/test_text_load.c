// SPDX-License-Identifier: MIT
// Loading: metadata that lacks something or contradicts itself is refused with a sentence that
// names it; every allocation may fail.
#include "cmocka_all.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "alloc_mem.h"
#include "base/mem.h"
#include "unit/text_make.h"

static void refused(struct make *m, enum hearth_status want, const char *part) {
    struct ht_tokenizer *t = (struct ht_tokenizer *)m; // must stay untouched
    struct hearth_error err = {0};
    enum hearth_status got = make_load(m, &t, &err);
    if (got != want || !strstr(err.message, part))
        fail_msg("status %d: \"%s\", but %d with \"%s\" was expected", got, err.message, want,
                 part);
    assert_int_equal(err.status, want);
    assert_ptr_equal(t, m);
    make_free(m);
}

static void missing(void **state) {
    (void)state;
    struct make *m = make_bpe("gpt-2");
    m->no_merges = true;
    refused(m, HEARTH_E_FORMAT, "tokenizer.ggml.merges is missing");
    m = make_bpe("gpt-2");
    m->no_tokens = true;
    m->no_types = true;
    refused(m, HEARTH_E_FORMAT, "tokenizer.ggml.tokens is missing");
    m = make_spm();
    m->no_scores = true;
    refused(m, HEARTH_E_FORMAT, "tokenizer.ggml.scores is missing");
    m = make_bpe("gpt-2");
    m->n_tokens = 0;
    refused(m, HEARTH_E_FORMAT, "0 tokens");
}

static void lengths(void **state) {
    (void)state;
    struct make *m = make_bpe("gpt-2");
    m->n_types_off = 1;
    refused(m, HEARTH_E_FORMAT, "arr[i32,255], an array of 256 integers");
    m = make_spm();
    m->n_scores_off = 2;
    refused(m, HEARTH_E_FORMAT, "arr[f32,257], an array of 259 floats");
}

// A vocabulary of SentencePiece with one long token of a type, from a file.
static void load_long(size_t n_bytes, int32_t type, enum hearth_status want, const char *part) {
    char path[] = "/tmp/hearth-long-XXXXXX", *name = calloc(n_bytes, 1);
    const struct ht_str tokens[2] = {{"<unk>", 5}, {name, n_bytes}};
    const int32_t types[2] = {2, type};
    const float scores[2] = {0, 0};
    struct hearth_error err = {0};
    struct ht_gguf_writer *w = NULL;
    struct ht_gguf *g = NULL;
    struct ht_tokenizer *t = NULL;
    int fd = mkstemp(path);
    assert_true(name && fd >= 0);
    close(fd);
    memset(name, 'a', n_bytes);
    assert_int_equal(ht_gguf_writer_create(&w, &err), HEARTH_OK);
    ht_gguf_put_str(w, "tokenizer.ggml.model", "llama", 5);
    ht_gguf_put_str_array(w, "tokenizer.ggml.tokens", tokens, 2);
    ht_gguf_put_array(w, "tokenizer.ggml.token_type", HT_GGUF_I32, types, 2);
    ht_gguf_put_array(w, "tokenizer.ggml.scores", HT_GGUF_F32, scores, 2);
    if (ht_gguf_writer_finish(w, path, &err)) fail_msg("%s", err.message);
    ht_gguf_writer_destroy(w);
    if (ht_gguf_open(path, &g, &err)) fail_msg("%s", err.message);
    unlink(path);
    enum hearth_status got = ht_tokenizer_load(g, NULL, &t, &err);
    if (got != want || (want && !strstr(err.message, part)))
        fail_msg("status %d: \"%s\", but \"%s\" was expected", got, err.message, part);
    ht_tokenizer_free(t);
    ht_gguf_close(g);
    free(name);
}

// Every place of a text is compared with all of a special token, and buffers are as long as the
// longest token.
static void long_tokens(void **state) {
    (void)state;
    load_long(1024, 4, HEARTH_OK, "");
    load_long(1025, 4, HEARTH_E_UNSUPPORTED, "token 1 of the vocabulary has 1025 bytes");
    load_long(1025, 3, HEARTH_E_UNSUPPORTED, "at most 1024 are supported");
    load_long(16384, 1, HEARTH_OK, "");
    load_long(16385, 1, HEARTH_E_UNSUPPORTED, "token 1 has 16385 bytes, at most 16384");
}

static void values(void **state) {
    (void)state;
    struct make *m = make_bpe("gpt-2");
    m->types[7] = 9;
    refused(m, HEARTH_E_FORMAT, "token_type[7] is 9");
    m = make_bpe("gpt-2");
    m->types[7] = -1;
    refused(m, HEARTH_E_FORMAT, "token_type[7] is -1");
    m = make_spm();
    m->scores[5] = (float)(1e300 * 1e300);
    refused(m, HEARTH_E_FORMAT, "scores[5]");
    m = make_spm();
    make_name(m, "<0x4>", 6);
    refused(m, HEARTH_E_FORMAT, "'<0x4>', but has the type of a byte");
}

static void merges(void **state) {
    (void)state;
    static const struct {
        const char *line, *part;
    } bad[] = {
        {"ab", "merges[1] is 'ab', two tokens with a space"},
        {"a ", "two tokens with a space"},
        {" b", "two tokens with a space"},
        {"", "two tokens with a space"},
        {"\xff\n c", "'\\xff\\x0a c'"},
        {"a c", "merges[1] is 'a c', two tokens whose joint is a token"},
        {"zz a", "two tokens whose joint is a token"},
        {"a aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", "two tokens whose joint is a token"},
    };
    for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
        struct make *m = make_bpe("gpt-2");
        make_merge(m, "a", "b");
        strcpy(m->merges[1].b, bad[i].line);
        m->merges[1].n = (uint32_t)strlen(bad[i].line);
        m->n_merges = 2;
        refused(m, HEARTH_E_FORMAT, bad[i].part);
    }
}

static void ids(void **state) {
    (void)state;
    static const char *const keys[] = {"tokenizer.ggml.bos_token_id", "tokenizer.ggml.eos_token_id",
                                       "tokenizer.ggml.eot_token_id", "tokenizer.ggml.eom_token_id",
                                       "tokenizer.ggml.unknown_token_id"};
    for (size_t i = 0; i < sizeof(keys) / sizeof(*keys); i++) {
        struct make *m = make_bpe("gpt-2");
        make_key(m, keys[i], HT_GGUF_U32, 256);
        if (i < 2) {
            refused(m, HEARTH_E_FORMAT, keys[i]);
            m = make_bpe("gpt-2");
            make_key(m, keys[i], HT_GGUF_I32, -2);
            refused(m, HEARTH_E_FORMAT, "is -2, an id below the vocabulary's size of 256");
        } else { // left over from another vocabulary
            struct ht_tokenizer *other = NULL;
            assert_int_equal(make_load(m, &other, NULL), HEARTH_OK);
            ht_tokenizer_free(other);
            make_free(m);
        }
        m = make_bpe("gpt-2");
        make_key(m, keys[i], HT_GGUF_F32, 0);
        refused(m, HEARTH_E_FORMAT, "f32, an integer was expected");
        // two ways to say that there is none
        struct ht_tokenizer *t = NULL;
        m = make_bpe("gpt-2");
        make_key(m, keys[i], i % 2 ? HT_GGUF_U32 : HT_GGUF_I32, -1);
        assert_int_equal(make_load(m, &t, NULL), HEARTH_OK);
        assert_int_equal(ht_tokenizer_bos(t), -1);
        assert_int_equal(ht_tokenizer_eos(t), -1);
        ht_tokenizer_free(t);
        make_free(m);
    }
    struct make *m = make_bpe("gpt-2");
    make_key(m, "tokenizer.ggml.add_bos_token", HT_GGUF_BOOL, 1);
    refused(m, HEARTH_E_FORMAT, "add_bos_token is true");
    m = make_bpe("gpt-2");
    make_key(m, "tokenizer.ggml.add_eos_token", HT_GGUF_BOOL, 1);
    refused(m, HEARTH_E_FORMAT, "add_eos_token is true");
    m = make_bpe("gpt-2");
    make_key(m, "tokenizer.ggml.add_bos_token", HT_GGUF_U32, 1);
    refused(m, HEARTH_E_FORMAT, "add_bos_token");
}

static void kinds(void **state) {
    (void)state;
    struct make *m = make_bpe("gpt-5");
    refused(m, HEARTH_E_UNSUPPORTED, "is 'gpt-5'; known are gpt-2, ");
    m = make_bpe("gpt-2");
    m->model = "rwkv";
    refused(m, HEARTH_E_UNSUPPORTED, "is 'rwkv'; known are gpt2 (byte-level BPE), llama");
    m = make_spm();
    make_key(m, "tokenizer.ggml.remove_extra_whitespaces", HT_GGUF_BOOL, 1);
    refused(m, HEARTH_E_UNSUPPORTED, "remove_extra_whitespaces");
    static const char *const none[] = {NULL, "no_vocab", "none"};
    for (int i = 0; i < 3; i++) { // no vocabulary: no tokenizer, and no error
        struct ht_tokenizer *t = (struct ht_tokenizer *)m;
        m = make_bpe("gpt-2");
        m->model = none[i];
        assert_int_equal(make_load(m, &t, NULL), HEARTH_OK);
        assert_null(t);
        make_free(m);
    }
}

struct said {
    int n[HEARTH_LOG_WARN + 1];
    char last[512];
};

static void hear(void *user, enum hearth_log_level level, const char *message) {
    struct said *s = user;
    s->n[level]++;
    snprintf(s->last, sizeof s->last, "%s", message);
}

// Where no way to cut text is named, or the default, as converters have it that know no other: the
// vocabulary may tell whose it is. (Both that are known that way begin texts with <s>.)
static void default_pre(void **state) {
    (void)state;
    static const struct {
        int32_t id;
        const char *name, *says;
    } cases[] = {{-1, NULL, "as \"default\" has it, which may not be the model's own way"},
                 {999, "<SPECIAL_999>", "as \"tekken\" has it, which this vocabulary belongs to"},
                 {998, "<SPECIAL_999>", "as \"default\""},
                 {128009, "<|eot_id|>", "as \"llama-bpe\" has it, which this vocabulary"}};
    for (size_t i = 0; i < 2 * sizeof cases / sizeof *cases; i++) {
        struct make *m = make_bpe(i % 2 ? "default" : NULL);
        struct said said = {0};
        struct ht_tokenizer *t = NULL;
        char name[24];
        while ((int32_t)m->n_tokens < cases[i / 2].id) {
            snprintf(name, sizeof name, "(%u)", m->n_tokens);
            make_name(m, name, 3);
        }
        if (cases[i / 2].name) make_name(m, cases[i / 2].name, 3);
        make_key(m, "tokenizer.ggml.bos_token_id", HT_GGUF_U32, 1);
        assert_int_equal(make_load(m, &t, NULL), HEARTH_OK);
        ht_tokenizer_free(t);
        assert_int_equal(ht_tokenizer_load(m->g, &(struct hearth_log){hear, &said}, &t, NULL),
                         HEARTH_OK);
        bool known = strstr(cases[i / 2].says, "belongs") || strstr(cases[i / 2].says, "llama-bpe");
        assert_int_equal(said.n[HEARTH_LOG_WARN], !known);
        assert_int_equal(said.n[HEARTH_LOG_INFO], known);
        if (!strstr(said.last, cases[i / 2].says)) fail_msg("%s", said.last);
        assert_non_null(strstr(said.last, i % 2 ? "says \"default\"" : "is missing"));
        assert_int_equal(ht_tokenizer_adds_begin(t), known);
        ht_tokenizer_free(t);
        make_free(m);
    }
}

// Scores that are all the same say nothing: what merges first is then what has the lower id, and
// not what stands further left.
static void flat_scores(void **state) {
    (void)state;
    for (int flat = 0; flat < 2; flat++) {
        struct make *m = make_spm();
        struct said said = {0};
        struct ht_tokenizer *t = NULL;
        struct hearth_tokens ids = {0};
        int32_t bc = make_token(m, "bc", 2, 1, -1000), ab = make_token(m, "ab", 2, 1, -1000);
        int32_t a = make_token(m, "a", 1, 1, -1000), c = make_token(m, "c", 1, 1, -1000);
        make_token(m, "b", 1, 1, flat ? -1000 : -1001);
        make_key(m, "tokenizer.ggml.add_space_prefix", HT_GGUF_BOOL, 0);
        assert_int_equal(make_load(m, &t, NULL), HEARTH_OK);
        ht_tokenizer_free(t);
        assert_int_equal(ht_tokenizer_load(m->g, &(struct hearth_log){hear, &said}, &t, NULL),
                         HEARTH_OK);
        assert_int_equal(said.n[HEARTH_LOG_WARN], flat);
        if (flat) assert_non_null(strstr(said.last, "all scores of the tokens are equal"));
        assert_int_equal(ht_encode(t, "abc", 3, 0, &ids, NULL), HEARTH_OK);
        assert_int_equal(ids.n, 2);
        assert_int_equal(ids.ids[0], flat ? a : ab);
        assert_int_equal(ids.ids[1], flat ? bc : c);
        ht_free(ids.ids);
        ht_tokenizer_free(t);
        make_free(m);
    }
}

// What SentencePiece's files need not say.
static void spm_defaults(void **state) {
    (void)state;
    for (int no_types = 0; no_types < 2; no_types++) {
        struct make *m = make_spm();
        struct ht_tokenizer *t = NULL;
        m->no_types = no_types;
        assert_int_equal(make_load(m, &t, NULL), HEARTH_OK);
        assert_int_equal(ht_tokenizer_bos(t), 1);
        assert_int_equal(ht_tokenizer_eos(t), 2);
        for (int32_t id = 0; id < 5; id++)
            assert_int_equal(ht_tokenizer_is_special(t, id), id < 3); // <unk>, <s>, </s>
        ht_tokenizer_free(t);
        make_free(m);
    }
}

// Names that a converter made up to fill a vocabulary are no text, whatever type it gave them.
static void padding(void **state) {
    (void)state;
    static const char *const names[] = {"[PAD0]",  "[PAD151700]", "[PAD]",   "[PAD2",
                                        "[PAD3]x", "[PADx]",      "[PAD4x]", "PAD1]"};
    struct make *m = make_bpe("gpt-2");
    struct ht_tokenizer *t = NULL;
    int32_t id[8];
    for (int i = 0; i < 8; i++) id[i] = make_name(m, names[i], 4);
    assert_int_equal(make_load(m, &t, NULL), HEARTH_OK);
    for (int i = 0; i < 8; i++) {
        struct hearth_tokens ids = {0};
        assert_int_equal(ht_encode(t, names[i], strlen(names[i]), 0, &ids, NULL), HEARTH_OK);
        if (i < 2) {
            assert_int_equal(ids.n, strlen(names[i]));
        } else {
            assert_int_equal(ids.n, 1);
            assert_int_equal(ids.ids[0], id[i]);
        }
        ht_free(ids.ids);
    }
    ht_tokenizer_free(t);
    make_free(m);
}

// Names end a generation where they are control tokens, or where the file tells no types.
static void ends(void **state) {
    (void)state;
    static const struct {
        const char *name;
        int32_t type;
        bool no_types, end;
    } cases[] = {
        {"<|im_end|>", 3, false, true},
        {"<|eot_id|>", 3, false, true},
        {"<end_of_turn>", 4, false, true},
        {"</s>", 1, false, false},
        {"</s>", 1, true, true},
        {"<|im_start|>", 3, false, false},
        {"<|im_end|>", 1, false, true},
        {"<end_of_turn>", 1, false, false},
        {"<fim_pad>", 3, false, true},
        {"<reponame>", 3, false, true},
        {"<fim_prefix>", 3, false, false},
        {"<|endoftext|>", 3, false, true},
        {"<\xef\xbd\x9c"
         "end\xe2\x96\x81of\xe2\x96\x81sentence\xef\xbd\x9c>",
         3, false, true},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        struct make *m = make_bpe("gpt-2");
        struct ht_tokenizer *t = NULL;
        int32_t id = make_name(m, cases[i].name, cases[i].type);
        m->no_types = cases[i].no_types;
        assert_int_equal(make_load(m, &t, NULL), HEARTH_OK);
        assert_int_equal(ht_tokenizer_is_end(t, id), cases[i].end);
        if (cases[i].end) assert_true(ht_tokenizer_is_special(t, id));
        ht_tokenizer_free(t);
        make_free(m);
    }
    // what stands behind a file that was filled in, by its key; it may be no token
    struct make *m = make_bpe("gpt-2");
    struct ht_tokenizer *t = NULL;
    int32_t pad = make_name(m, "(pad)", 3), sep = make_name(m, "(sep)", 3);
    make_key(m, "tokenizer.ggml.fim_pad_token_id", HT_GGUF_U32, pad);
    make_key(m, "tokenizer.ggml.fim_rep_token_id", HT_GGUF_U32, sep + 1);
    assert_int_equal(make_load(m, &t, NULL), HEARTH_OK);
    assert_true(ht_tokenizer_is_end(t, pad));
    assert_false(ht_tokenizer_is_end(t, sep));
    ht_tokenizer_free(t);
    make_free(m);
    // by key alone
    static const char *const keys[] = {"tokenizer.ggml.eos_token_id", "tokenizer.ggml.eot_token_id",
                                       "tokenizer.ggml.eom_token_id"};
    for (size_t i = 0; i < 3; i++) {
        m = make_bpe("gpt-2");
        t = NULL;
        int32_t turn = make_name(m, "(turn)", 3);
        make_key(m, keys[i], HT_GGUF_U32, turn);
        assert_int_equal(make_load(m, &t, NULL), HEARTH_OK);
        assert_true(ht_tokenizer_is_end(t, turn));
        ht_tokenizer_free(t);
        make_free(m);
    }
    // a message among several is no end
    m = make_bpe("gpt-2");
    t = NULL;
    int32_t end = make_name(m, "<|end|>", 3), ret = make_name(m, "<|return|>", 3);
    make_name(m, "<|call|>", 3);
    assert_int_equal(make_load(m, &t, NULL), HEARTH_OK);
    assert_false(ht_tokenizer_is_end(t, end));
    assert_true(ht_tokenizer_is_end(t, ret));
    ht_tokenizer_free(t);
    make_free(m);
}

// What models call their ends, all in one vocabulary.
static void end_names(void **state) {
    (void)state;
    static const char *const names[] = {"</s>",
                                        "<eos>",
                                        "<|eos|>",
                                        "<|endoftext|>",
                                        "<|end_of_text|>",
                                        "<|im_end|>",
                                        "<|eot_id|>",
                                        "<|eom_id|>",
                                        "<|eot|>",
                                        "<|eom|>",
                                        "<|end|>",
                                        "<|return|>",
                                        "<|fim_pad|>",
                                        "<fim_pad>",
                                        "<fim-pad>",
                                        "<|repo_name|>",
                                        "<|fim_repo|>",
                                        "<fim-repo>",
                                        "<reponame>",
                                        "<|file_sep|>",
                                        "<|end_of_turn|>",
                                        "<|END_OF_TURN_TOKEN|>",
                                        "<end_of_turn>",
                                        "<end_of_utterance>",
                                        "<turn|>",
                                        "<EOT>",
                                        "[EOT]",
                                        "[EOS]"};
    enum { N = sizeof names / sizeof *names };
    struct make *m = make_bpe("gpt-2");
    struct ht_tokenizer *t = NULL;
    int32_t ids[N];
    for (size_t i = 0; i < N; i++) ids[i] = make_name(m, names[i], 3);
    int32_t other = make_name(m, "<start_of_turn>", 3);
    assert_int_equal(make_load(m, &t, NULL), HEARTH_OK);
    for (size_t i = 0; i < N; i++)
        if (!ht_tokenizer_is_end(t, ids[i])) fail_msg("%s does not end", names[i]);
    assert_false(ht_tokenizer_is_end(t, other));
    ht_tokenizer_free(t);
    make_free(m);
}

// User-defined tokens are read from plain text, as prompts of files to fill in have them; but none
// that ends a message, which a text could forge.
static void plain_ends(void **state) {
    (void)state;
    static const char text[] = "<|repo_name|><|im_end|><|file_sep|>";
    struct make *m = make_bpe("gpt-2");
    struct ht_tokenizer *t = NULL;
    struct hearth_tokens ids = {0};
    int32_t repo = make_name(m, "<|repo_name|>", 4);
    int32_t end = make_name(m, "<|im_end|>", 4);
    int32_t file = make_name(m, "<|file_sep|>", 3);
    assert_int_equal(make_load(m, &t, NULL), HEARTH_OK);
    assert_true(ht_tokenizer_is_end(t, repo) && ht_tokenizer_is_end(t, end));
    assert_int_equal(ht_encode(t, text, sizeof text - 1, 0, &ids, NULL), HEARTH_OK);
    assert_true(ids.n > 3 && ids.ids[0] == repo);
    for (size_t i = 1; i < ids.n; i++) assert_true(ids.ids[i] != end && ids.ids[i] != file);
    ht_free(ids.ids);
    assert_int_equal(ht_encode(t, text, sizeof text - 1, HEARTH_ENCODE_SPECIAL, &ids, NULL),
                     HEARTH_OK);
    assert_true(ids.n == 3 && ids.ids[0] == repo && ids.ids[1] == end && ids.ids[2] == file);
    ht_free(ids.ids);
    ht_tokenizer_free(t);
    make_free(m);
}

// All of them that stand around files.
static void plain_file_names(void **state) {
    (void)state;
    static const char *const names[] = {"<|fim_pad|>",  "<fim_pad>",  "<fim-pad>",  "<|repo_name|>",
                                        "<|fim_repo|>", "<fim-repo>", "<reponame>", "<|file_sep|>"};
    enum { N = sizeof names / sizeof *names };
    struct make *m = make_bpe("gpt-2");
    struct ht_tokenizer *t = NULL;
    struct hearth_tokens ids = {0};
    int32_t id[N];
    char text[256] = "";
    for (size_t i = 0; i < N; i++) {
        id[i] = make_name(m, names[i], 4);
        strcat(text, names[i]);
    }
    assert_int_equal(make_load(m, &t, NULL), HEARTH_OK);
    assert_int_equal(ht_encode(t, text, strlen(text), 0, &ids, NULL), HEARTH_OK);
    assert_int_equal(ids.n, N);
    for (size_t i = 0; i < N; i++)
        assert_true(ids.ids[i] == id[i] && ht_tokenizer_is_end(t, id[i]));
    ht_free(ids.ids);
    ht_tokenizer_free(t);
    make_free(m);
}

static enum hearth_status use(struct make *m, struct hearth_error *err) {
    static char text[4096];
    struct ht_tokenizer *t = NULL;
    struct hearth_tokens ids = {0};
    struct ht_detok d = {0};
    size_t n = 0;
    for (; n + 64 < sizeof(text); n++) text[n] = "ab <\xc3\xa9"[n * n % 4];
    memcpy(text + n, "e\xcc\x81\xff caf\xc3\xa9 abc", 15); // NFC, a bad byte, an unused token
    n += 15;
    enum hearth_status st = ht_tokenizer_load(m->g, NULL, &t, err);
    if (!st && !t) return st; // the model's key itself was spoiled: a file without a vocabulary
    if (!st) st = ht_encode(t, text, n, HEARTH_ENCODE_SPECIAL, &ids, err);
    if (!st) st = ht_detok_init(&d, t, true, err);
    ht_detok_deinit(&d);
    ht_free(ids.ids);
    ht_tokenizer_free(t);
    return st;
}

static void keep_line(void *user, enum hearth_log_level level, const char *line) {
    char *kept = user;
    assert_int_equal(level, HEARTH_LOG_WARN);
    snprintf(kept + strlen(kept), 300 - strlen(kept), "%s", line);
}

// Whoever loads a byte-level vocabulary that does not say how words are cut is told, and only then.
static void warning(void **state) {
    (void)state;
    for (int kind = 0; kind < 3; kind++) {
        struct make *m = kind == 2 ? make_spm() : make_bpe(kind ? "qwen2" : NULL);
        struct ht_tokenizer *t = NULL;
        char lines[300] = "";
        const struct hearth_log log = {keep_line, lines};
        assert_int_equal(make_load(m, &t, NULL), HEARTH_OK);
        ht_tokenizer_free(t);
        assert_int_equal(ht_tokenizer_load(m->g, &log, &t, NULL), HEARTH_OK);
        ht_tokenizer_free(t);
        if (kind == 0)
            assert_string_equal(lines, "made.gguf: metadata key tokenizer.ggml.pre is missing; "
                                       "text is cut as \"default\" has it, which may not be the "
                                       "model's own way");
        else
            assert_string_equal(lines, "");
        make_free(m);
    }
}

static void no_memory(void **state) {
    (void)state;
    for (int kind = 0; kind < 3; kind++) {
        struct make *m = kind == 2 ? make_spm() : make_bpe(kind ? "deepseek-v3" : "qwen2");
        struct ht_tokenizer *t = NULL;
        if (kind < 2)
            make_merge(m, "a", "b");
        else
            make_name(m, "abc", 5);
        if (kind == 2) make_name(m, "ab", 1), make_name(m, "<u>", 4);
        make_name(m, "<|end|>", 3);
        assert_int_equal(make_load(m, &t, NULL), HEARTH_OK);
        ht_tokenizer_free(t);
        uint64_t n, before = ht_test_alloc_get().n_live_bytes;
        for (n = 1;; n++) {
            struct hearth_error err = {0};
            ht_test_alloc_reset();
            ht_test_alloc_fail_at(n);
            enum hearth_status st = use(m, &err);
            bool failed = ht_test_alloc_failed();
            ht_test_alloc_fail_at(0);
            assert_int_equal(ht_test_alloc_get().n_live_bytes, before);
            if (!failed) {
                assert_int_equal(st, HEARTH_OK);
                break;
            }
            // a block that cannot be made smaller is kept as it is: no failure
            if (st) assert_int_equal(st, HEARTH_E_NOMEM);
            if (st) assert_true(strlen(err.message) > 10);
        }
        assert_true(n > 12);
        make_free(m);
    }
}

// A changed byte anywhere: a sentence, or a tokenizer that works.
static void changed_bytes(void **state) {
    (void)state;
    uint64_t seed = 11;
    int n_sound = 0, n_bad = 0;
    for (int kind = 0; kind < 2; kind++) {
        struct make *m = kind ? make_spm() : make_bpe("qwen2");
        struct ht_tokenizer *t = NULL;
        if (kind)
            make_name(m, "abc", 5), make_name(m, "ab", 1);
        else
            make_merge(m, "a", "b"), make_merge(m, "ab", "c");
        make_key(m, "tokenizer.ggml.bos_token_id", HT_GGUF_U32, 1);
        assert_int_equal(make_load(m, &t, NULL), HEARTH_OK);
        ht_tokenizer_free(t);
        ht_gguf_close(m->g);
        m->g = NULL;
        for (int i = 0; i < (kind ? 8000 : 2500); i++) {
            struct hearth_error err = {0};
            // half of the changes in the last kilobyte: types, scores, merges and keys are there
            uint32_t back = make_random(&seed, i % 2 ? 1400 : (uint32_t)m->n_bytes);
            uint8_t *b = m->bytes + m->n_bytes - 1 - back, was = *b;
            *b = (uint8_t)(i % 3 ? was ^ 1u << make_random(&seed, 8) : make_random(&seed, 256));
            if (!ht_gguf_open_bytes(m->bytes, m->n_bytes, "changed.gguf", &m->g, &err)) {
                enum hearth_status st = use(m, &err);
                n_sound += st == HEARTH_OK;
                n_bad += st != HEARTH_OK;
                if (st) assert_true(strlen(err.message) > 20 && err.status == st);
                ht_gguf_close(m->g);
                m->g = NULL;
            }
            *b = was;
        }
        make_free(m);
    }
    assert_true(n_sound > 100 && n_bad > 100);
}

// An encoder that has seen a text needs no heap for it again.
static void no_heap(void **state) {
    (void)state;
    for (int kind = 0; kind < 2; kind++) {
        struct make *m = kind ? make_spm() : make_bpe("qwen2");
        struct ht_tokenizer *t = NULL;
        struct ht_encoder *e = NULL;
        const int32_t *got = NULL;
        size_t n = 0;
        static const char text[] =
            "e\xcc\x81 aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa \xff <|end|>";
        make_name(m, "<|end|>", 3);
        assert_int_equal(make_load(m, &t, NULL), HEARTH_OK);
        assert_int_equal(ht_encoder_create(t, 1000, &e, NULL), HEARTH_OK);
        for (int i = 0; i < 3; i++) {
            if (i) ht_test_alloc_reset();
            assert_int_equal(
                ht_encoder_run(e, text, sizeof(text), HEARTH_ENCODE_SPECIAL, &got, &n, NULL),
                HEARTH_OK);
        }
        assert_int_equal(ht_test_alloc_get().n_calls, 0);
        ht_encoder_destroy(e);
        // and what a tokenizer says it holds is what it holds, but for the JIT's code
        uint64_t live = ht_test_alloc_get().n_live_bytes;
        size_t said = ht_tokenizer_bytes(t);
        ht_tokenizer_free(t);
        live -= ht_test_alloc_get().n_live_bytes;
        assert_true(said + 4096 > live && said < live + 65536);
        make_free(m);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(missing),
        cmocka_unit_test(lengths),
        cmocka_unit_test(long_tokens),
        cmocka_unit_test(values),
        cmocka_unit_test(merges),
        cmocka_unit_test(ids),
        cmocka_unit_test(kinds),
        cmocka_unit_test(ends),
        cmocka_unit_test(no_memory),
        cmocka_unit_test(changed_bytes),
        cmocka_unit_test(no_heap),
        cmocka_unit_test(warning),
        cmocka_unit_test(end_names),
        cmocka_unit_test(plain_ends),
        cmocka_unit_test(plain_file_names),
        cmocka_unit_test(default_pre),
        cmocka_unit_test(flat_scores),
        cmocka_unit_test(padding),
        cmocka_unit_test(spm_defaults),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
