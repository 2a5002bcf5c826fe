// SPDX-License-Identifier: MIT
// Encoding over small vocabularies: both kinds of merging against the slow way, special tokens,
// bytes that are no UTF-8, bytes that are not in the vocabulary, long runs.
#include "cmocka_all.h"

#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/mem.h"
#include "unit/text_make.h"

static struct ht_tokenizer *load(struct make *m) {
    struct ht_tokenizer *t = NULL;
    struct hearth_error err;
    if (make_load(m, &t, &err)) fail_msg("%s", err.message);
    assert_non_null(t);
    return t;
}

static void expect_ids(const struct ht_tokenizer *t, const char *text, size_t n, unsigned flags,
                       const int32_t *want, size_t n_want) {
    struct hearth_tokens got = {0};
    struct hearth_error err;
    if (ht_encode(t, text, n, flags, &got, &err))
        fail_msg("\"%.*s\": %s", (int)n, text, err.message);
    for (size_t i = 0; i < got.n && i < n_want; i++)
        if (got.ids[i] != want[i])
            fail_msg("\"%.*s\": id %zu is %d, not %d", (int)n, text, i, got.ids[i], want[i]);
    assert_int_equal(got.n, n_want);
    ht_free(got.ids);
}

static void expect_round_trip(const struct ht_tokenizer *t, const char *text, size_t n,
                              unsigned flags) {
    struct hearth_tokens ids = {0};
    struct ht_detok d;
    struct hearth_error err;
    size_t len = 0, n_piece;
    const char *piece;
    if (ht_encode(t, text, n, flags, &ids, &err)) fail_msg("%s", err.message);
    assert_int_equal(ht_detok_init(&d, t, true, NULL), HEARTH_OK);
    for (size_t i = 0; i <= ids.n; i++) {
        if (i < ids.n)
            ht_detok_push(&d, ids.ids[i], &piece, &n_piece);
        else
            ht_detok_end(&d, &piece, &n_piece);
        if (n_piece > n - len || memcmp(piece, text + len, n_piece))
            fail_msg("another text from byte %zu on", len);
        len += n_piece;
    }
    assert_int_equal(len, n);
    ht_detok_deinit(&d);
    ht_free(ids.ids);
}

// Merges over two letters, each of two tokens that exist already: as ambiguous as it gets.
static void random_merges(struct make *m, uint64_t *seed) {
    char parts[64][MAKE_NAME] = {"a", "b"};
    uint32_t n_parts = 2;
    while (n_parts < 40) {
        const char *a = parts[make_random(seed, n_parts)], *b = parts[make_random(seed, n_parts)];
        if (strlen(a) + strlen(b) > 18) continue;
        strcpy(parts[n_parts], a);
        strcat(parts[n_parts], b);
        bool is_new = true;
        for (uint32_t i = 0; i < m->n_merges; i++)
            is_new =
                is_new && (strlen(a) != m->left[i].n || memcmp(a, m->left[i].b, m->left[i].n) ||
                           strlen(b) != m->right[i].n || memcmp(b, m->right[i].b, m->right[i].n));
        if (is_new) make_merge(m, a, b);
        n_parts++;
    }
}

static size_t random_letters(char *text, size_t most, uint64_t *seed) {
    size_t n = 1 + make_random(seed, (uint32_t)most);
    for (size_t i = 0; i < n; i++) text[i] = (char)('a' + (make_random(seed, 5) > 2));
    return n;
}

// Words on both sides of the border between the two ways of merging.
static void bpe_slow_way(void **state) {
    (void)state;
    uint64_t seed = 3;
    for (int v = 0; v < 12; v++) {
        struct make *m = make_bpe("qwen2");
        random_merges(m, &seed);
        struct ht_tokenizer *t = load(m);
        for (int i = 0; i < 300; i++) {
            char text[80];
            int32_t want[80];
            size_t n = random_letters(text, i % 3 ? 12 : 80, &seed);
            expect_ids(t, text, n, HEARTH_ENCODE_PLAIN, want, naive_bpe(m, text, n, want));
        }
        ht_tokenizer_free(t);
        make_free(m);
    }
}

static const char *const spm_parts[] = {"a",  "b",  " ",  "\xc3\xa9", "ab",
                                        "ba", "aa", " a", "  ",       "bab"};

// Tokens of random parts with scores that often tie; text with spaces, runs and unknown characters.
static void spm_slow_way(void **state) {
    (void)state;
    uint64_t seed = 5;
    for (int v = 0; v < 24; v++) {
        struct make *m = make_spm();
        char seen[64][MAKE_NAME];
        uint32_t n_seen = 0;
        for (uint32_t i = 0; i < 48; i++) {
            char s[MAKE_NAME] = "";
            uint32_t k = 1 + make_random(&seed, 4);
            for (uint32_t j = 0; j < k; j++)
                strcat(s, spm_parts[make_random(&seed, v % 2 ? 10 : 6)]);
            bool is_new = true;
            for (uint32_t j = 0; j < n_seen; j++) is_new = is_new && strcmp(seen[j], s);
            if (!is_new) continue;
            strcpy(seen[n_seen++], s);
            make_token(m, s, strlen(s), 1, -(float)make_random(&seed, 20));
        }
        // the slow way knows plain spaces, the file U+2581
        struct make *file = make_spm();
        for (uint32_t i = file->n_tokens; i < m->n_tokens; i++) {
            char s[3 * MAKE_NAME];
            size_t n = 0;
            for (uint32_t j = 0; j < m->tokens[i].n; j++) {
                bool space = m->tokens[i].b[j] == ' ';
                memcpy(s + n, space ? "\xe2\x96\x81" : m->tokens[i].b + j, space ? 3 : 1);
                n += space ? 3 : 1;
            }
            if (n > MAKE_NAME) n = 0; // an empty token, which nothing becomes
            make_token(file, s, n, 1, m->scores[i]);
            if (!n) m->tokens[i].n = 0;
        }
        make_key(file, "tokenizer.ggml.add_space_prefix", HT_GGUF_BOOL, v % 3 == 0);
        struct ht_tokenizer *t = load(file);
        for (int i = 0; i < 200; i++) {
            char text[200];
            int32_t want[600];
            size_t n = 1, k = 1 + make_random(&seed, i % 4 ? 10 : 60);
            text[0] = ' ';
            for (size_t j = 0; j < k; j++) {
                const char *s =
                    make_random(&seed, 12) ? spm_parts[make_random(&seed, 4)] : "\xe2\x82\xac";
                memcpy(text + n, s, strlen(s));
                n += strlen(s);
            }
            bool prefix = v % 3 == 0;
            size_t n_want = naive_spm(m, text + !prefix, n - !prefix, want);
            for (size_t j = 0, at = 0; j < n_want;
                 j++, at++) // a space that is no token is U+2581's bytes
                if (want[j] == 3 + ' ') {
                    memmove(want + j + 3, want + j + 1, (n_want - j - 1) * sizeof(*want));
                    want[j] = 3 + 0xe2;
                    want[j + 1] = 3 + 0x96;
                    want[j + 2] = 3 + 0x81;
                    n_want += 2;
                    j += 2;
                }
            expect_ids(t, text + 1, n - 1, HEARTH_ENCODE_PLAIN, want, n_want);
        }
        ht_tokenizer_free(t);
        make_free(m);
        make_free(file);
    }
}

// A token that is not used any more is taken apart the way it was put together.
static void spm_unused(void **state) {
    (void)state;
    struct make *m = make_spm();
    int32_t a = make_token(m, "a", 1, 1, -9), b = make_token(m, "b", 1, 1, -9),
            c = make_token(m, "c", 1, 1, -9), ab = make_token(m, "ab", 2, 1, -3);
    make_token(m, "abc", 3, 5, -1);
    int32_t abcabc = make_token(m, "abcabc", 6, 1, -2);
    make_key(m, "tokenizer.ggml.add_space_prefix", HT_GGUF_BOOL, 0);
    struct ht_tokenizer *t = load(m);
    expect_ids(t, "abc", 3, 0, (int32_t[]){ab, c}, 2);
    expect_ids(t, "abcabc", 6, 0, (int32_t[]){abcabc}, 1);
    expect_ids(t, "abcb", 4, 0, (int32_t[]){ab, c, b}, 3);
    expect_ids(t, "cba", 3, 0, (int32_t[]){c, b, a}, 3);
    ht_tokenizer_free(t);
    make_free(m);
}

// Words begin at spaces, but not where some token has a space in its middle, however short.
static void spm_space_inside(void **state) {
    (void)state;
    struct make *m = make_spm();
    int32_t a = make_token(m, "a", 1, 1, -9), b = make_token(m, "b", 1, 1, -9),
            sp = make_token(m, "\xe2\x96\x81", 3, 1, -9);
    make_token(m, "a\xe2\x96\x81", 4, 1, -2);
    int32_t both = make_token(m,
                              "a\xe2\x96\x81"
                              "b",
                              5, 1, -1);
    make_key(m, "tokenizer.ggml.add_space_prefix", HT_GGUF_BOOL, 0);
    struct ht_tokenizer *t = load(m);
    expect_ids(t, "a b", 3, 0, &both, 1);
    expect_ids(t, "ba bb", 5, 0, (int32_t[]){b, both, b}, 3);
    expect_ids(t, "b b", 3, 0, (int32_t[]){b, sp, b}, 3);
    expect_ids(t, "a", 1, 0, &a, 1);
    ht_tokenizer_free(t);
    make_free(m);
}

// Scores of -0 and 0, as files have them, are the same: the leftmost pair goes first.
static void spm_zero_scores(void **state) {
    (void)state;
    for (int i = 0; i < 2; i++) {
        struct make *m = make_spm();
        int32_t a = make_token(m, "a", 1, 1, -9);
        make_token(m, "b", 1, 1, -9);
        int32_t ab = make_token(m, "ab", 2, 1, i ? 0.0f : -0.0f);
        make_token(m, "ba", 2, 1, i ? -0.0f : 0.0f);
        make_key(m, "tokenizer.ggml.add_space_prefix", HT_GGUF_BOOL, 0);
        struct ht_tokenizer *t = load(m);
        expect_ids(t, "aba", 3, 0, (int32_t[]){ab, a}, 2);
        ht_tokenizer_free(t);
        make_free(m);
    }
}

static void spm_user_defined(void **state) {
    (void)state;
    struct make *m = make_spm();
    int32_t sp = make_token(m, "\xe2\x96\x81", 3, 1, -1), a = make_token(m, "a", 1, 1, -2),
            aa = make_token(m, "aa", 2, 1, -1), u = make_name(m, "<x>", 4),
            v = make_name(m, "<x>aa", 4), bos = 1, eos = 2;
    struct ht_tokenizer *t = load(m);
    // always read, the longest first; text begins anew behind them, and has no space in front of
    // them; control tokens by request
    expect_ids(t, "aa<x>aa<x>a", 11, 0, (int32_t[]){sp, aa, v, u, sp, a}, 6);
    expect_ids(t, "<x>a", 4, HEARTH_ENCODE_SPECIAL, (int32_t[]){u, sp, a}, 3);
    expect_ids(t, "<x></s><x>", 10, HEARTH_ENCODE_SPECIAL, (int32_t[]){u, eos, u}, 3);
    expect_ids(t, "</s>", 4, 0, (int32_t[]){sp, 3 + '<', 3 + '/', 3 + 's', 3 + '>'}, 5);
    expect_ids(t, "a</s>a", 6, HEARTH_ENCODE_SPECIAL, (int32_t[]){sp, a, eos, sp, a}, 5);
    expect_ids(t, "a", 1, HEARTH_ENCODE_BEGIN_END, (int32_t[]){bos, sp, a}, 3);
    expect_ids(t, "\xe2\x96\x81", 3, 0, (int32_t[]){sp, sp}, 2);
    assert_true(ht_tokenizer_is_end(t, eos));
    ht_tokenizer_free(t);
    make_free(m);
}

static void specials(void **state) {
    (void)state;
    struct make *m = make_bpe("gpt-2");
    int32_t hi = make_merge(m, "h", "i");
    int32_t e1 = make_name(m, "<|end|>", 3), e2 = make_name(m, "<|end|>>", 3),
            user = make_name(m, "<think>", 4), again = make_name(m, "<again>", 3);
    make_name(m, "<again>", 3);
    struct ht_tokenizer *t = load(m);
    expect_ids(t, "hi<|end|>>hi<|end|><think>", 26, HEARTH_ENCODE_SPECIAL,
               (int32_t[]){hi, e2, hi, e1, user}, 5);
    expect_ids(t, "<<|end|", 7, HEARTH_ENCODE_SPECIAL,
               (int32_t[]){'<', '<', '|', 'e', 'n', 'd', '|'}, 7);
    expect_ids(t, "hi<think>h<|end|>", 17, 0, // user-defined ones always
               (int32_t[]){hi, user, 'h', '<', '|', 'e', 'n', 'd', '|', '>'}, 10);
    expect_ids(t, "<|end|>", 7, HEARTH_ENCODE_SPECIAL, (int32_t[]){e1}, 1);
    expect_ids(t, "<again>", 7, HEARTH_ENCODE_SPECIAL, &again, 1); // the first of equal ones
    assert_true(ht_tokenizer_is_end(t, e1));
    assert_false(ht_tokenizer_is_end(t, e2));
    ht_tokenizer_free(t);
    make_free(m);
}

static void begin_end(void **state) {
    (void)state;
    struct make *m = make_bpe("gpt-2");
    int32_t s = make_name(m, "<s>", 3), e = make_name(m, "<e>", 3);
    make_key(m, "tokenizer.ggml.bos_token_id", HT_GGUF_U32, s);
    make_key(m, "tokenizer.ggml.eos_token_id", HT_GGUF_U32, e);
    make_key(m, "tokenizer.ggml.add_bos_token", HT_GGUF_BOOL, 1);
    make_key(m, "tokenizer.ggml.add_eos_token", HT_GGUF_BOOL, 1);
    struct ht_tokenizer *t = load(m);
    expect_ids(t, "a", 1, HEARTH_ENCODE_BEGIN_END, (int32_t[]){s, 'a', e}, 3);
    expect_ids(t, "", 0, HEARTH_ENCODE_BEGIN_END, (int32_t[]){s, e}, 2);
    expect_ids(t, NULL, 0, 0, NULL, 0);
    assert_true(ht_tokenizer_is_end(t, e));
    ht_tokenizer_free(t);
    make_free(m);
    // the custom of llama-bpe, where the file does not say
    m = make_bpe("llama-bpe");
    s = make_name(m, "<s>", 3);
    make_key(m, "tokenizer.ggml.bos_token_id", HT_GGUF_U32, s);
    t = load(m);
    expect_ids(t, "a", 1, HEARTH_ENCODE_BEGIN_END, (int32_t[]){s, 'a'}, 2);
    ht_tokenizer_free(t);
    make_free(m);
}

// llama-bpe takes a word that is a token whole, whether or not merges lead there.
static void whole_words(void **state) {
    (void)state;
    for (int i = 0; i < 2; i++) {
        struct make *m = make_bpe(i ? "llama-bpe" : "dbrx");
        int32_t ab = make_merge(m, "a", "b"), word = make_name(m, "xab", 1);
        struct ht_tokenizer *t = load(m);
        if (i)
            expect_ids(t, "xab", 3, 0, &word, 1);
        else
            expect_ids(t, "xab", 3, 0, (int32_t[]){'x', ab}, 2);
        ht_tokenizer_free(t);
        make_free(m);
    }
}

// Words that are alike but for one byte, again and again: what is kept of one is not another's.
static void like_words(void **state) {
    (void)state;
    enum { LONGEST = 26, N = 64 };
    struct make *m = make_bpe("gpt-2");
    make_merge(m, "a", "a");
    make_merge(m, "aa", "aa");
    make_merge(m, "aaaa", "aaaa");
    make_merge(m, "aaaaaaaa", "aaaaaaaa");
    struct ht_tokenizer *t = load(m);
    static char text[2 * N * (LONGEST + 1)];
    static int32_t want[sizeof text];
    for (size_t len = 1; len <= LONGEST; len++)
        for (size_t at = 0; at < len; at++) {
            size_t n = 0, n_want = 0;
            for (size_t i = 0; i < 2 * N; i++, n += len + 1) {
                text[n] = ' ';
                memset(text + n + 1, 'a', len);
                text[n + 1 + at] = (char)((i % N < 26 ? 'a' : 'A') + i % N % 26);
                n_want += naive_bpe(m, text + n, len + 1, want + n_want);
            }
            expect_ids(t, text, n, 0, want, n_want);
        }
    ht_tokenizer_free(t);
    make_free(m);
}

static void odd_bytes(void **state) {
    (void)state;
    struct make *m = make_bpe("qwen2");
    int32_t e_acute = make_merge(m, "\xc3", "\xa9"), za = make_merge(m, "\xff", "a");
    (void)za;
    struct ht_tokenizer *t = load(m);
    expect_ids(t, "a\0b", 3, 0, (int32_t[]){'a', 0, 'b'}, 3);
    // an invalid byte stands by itself: no merge reaches it, and the text goes on behind it
    expect_ids(t,
               "\xff"
               "a\xc3",
               3, 0, (int32_t[]){0xff, 'a', 0xc3}, 3);
    expect_ids(t, "\xc3\xa9\xc3\xc3\xa9", 5, 0, (int32_t[]){e_acute, 0xc3, e_acute}, 3);
    expect_ids(t, "e\xcc\x81", 3, 0, (int32_t[]){e_acute}, 1);             // NFC
    expect_ids(t, "\xed\xa0\x80", 3, 0, (int32_t[]){0xed, 0xa0, 0x80}, 3); // a surrogate
    expect_round_trip(t, "\xf0\x9f\x98 \x80\xf8\x88\x80\x80\x80\xc0\x80", 13, 0);
    ht_tokenizer_free(t);
    make_free(m);
    m = make_spm();
    make_token(m, "\xe2\x96\x81", 3, 1, 0);
    t = load(m);
    expect_round_trip(t, "a\xff\xc3\0 \xe2\x96", 7, 0);
    ht_tokenizer_free(t);
    make_free(m);
}

// A vocabulary of ASCII, as the built-in model has.
static void missing_bytes(void **state) {
    (void)state;
    struct hearth_tokens ids = {(int32_t *)&ids, 77};
    struct hearth_error err;
    for (int unk = 0; unk < 2; unk++) {
        struct make *m = make_bpe("qwen2");
        m->n_tokens = 128;
        make_merge(m, "a", "b");
        int32_t u = make_name(m, "<unk>", 2);
        if (unk) make_key(m, "tokenizer.ggml.unknown_token_id", HT_GGUF_U32, u);
        struct ht_tokenizer *t = load(m);
        expect_ids(t, "ab c", 4, 0, (int32_t[]){128, ' ', 'c'}, 3);
        if (unk) {
            expect_ids(t, "a\xc3\xa9z\xff", 5, 0, (int32_t[]){'a', u, u, 'z', u}, 5);
        } else {
            assert_int_equal(ht_encode(t, "ab\xc3\xa9", 4, 0, &ids, &err), HEARTH_E_ARG);
            assert_non_null(strstr(err.message, "0xc3 at offset 2"));
            assert_int_equal(ht_encode(t, "abc\xff", 4, 0, &ids, &err), HEARTH_E_ARG);
            assert_non_null(strstr(err.message, "0xff at offset 3"));
            assert_int_equal(ids.n, 77); // untouched
        }
        ht_tokenizer_free(t);
        make_free(m);
    }
}

static void bad_arguments(void **state) {
    (void)state;
    struct make *m = make_bpe("gpt-2");
    struct ht_tokenizer *t = load(m);
    struct hearth_tokens ids = {NULL, 5};
    struct hearth_error err;
    assert_int_equal(ht_encode(t, "x", (size_t)INT32_MAX + 1, 0, &ids, &err), HEARTH_E_ARG);
    assert_non_null(strstr(err.message, "2147483648 bytes"));
    assert_int_equal(ht_encode(t, "x", SIZE_MAX, 0, &ids, NULL), HEARTH_E_ARG);
    assert_int_equal(ht_encode(t, "x", 1, 8, &ids, &err), HEARTH_E_ARG);
    assert_non_null(strstr(err.message, "0x8"));
    assert_int_equal(ids.n, 5);
    ht_tokenizer_free(t);
    make_free(m);
}

static void space_prefix(void **state) {
    (void)state;
    struct make *m = make_bpe("gpt-2");
    make_key(m, "tokenizer.ggml.add_space_prefix", HT_GGUF_BOOL, 1);
    int32_t sa = make_merge(m, " ", "a");
    struct ht_tokenizer *t = load(m);
    expect_ids(t, "a a", 3, 0, (int32_t[]){sa, sa}, 2);
    expect_ids(t, " a", 2, 0, (int32_t[]){sa}, 1);
    expect_ids(t, "", 0, 0, NULL, 0);
    ht_tokenizer_free(t);
    make_free(m);
    m = make_bpe("llama-bpe"); // whose words are cut by a pattern of its own, and get no space
    make_key(m, "tokenizer.ggml.add_space_prefix", HT_GGUF_BOOL, 1);
    make_key(m, "tokenizer.ggml.add_bos_token", HT_GGUF_BOOL, 0);
    make_merge(m, " ", "a");
    t = load(m);
    expect_ids(t, "a", 1, 0, (int32_t[]){'a'}, 1);
    ht_tokenizer_free(t);
    make_free(m);
}

// Without byte tokens, unknown characters side by side are one token, in one word, across words and
// out of the cache; an unknown token that the text names stands for itself.
static void check_unknown(int32_t type) {
    struct make *m = make_spm();
    m->n_tokens = 3;
    if (type > 0) m->types[0] = type;
    int32_t sp = make_token(m, "\xe2\x96\x81", 3, 1, -1), x = make_token(m, "x", 1, 1, -2), unk = 0;
    struct ht_tokenizer *t = load(m);
    for (int i = 0; i < 2; i++) {
        expect_ids(t, "x\xe2\x98\x83\xe2\x98\x83q\nx", 10, 0, (int32_t[]){sp, x, unk, x}, 4);
        expect_ids(t, "qq qq", 5, 0, (int32_t[]){sp, unk, sp, unk}, 4);
        expect_ids(t, "q<unk>qq<unk><unk>", 18, HEARTH_ENCODE_SPECIAL,
                   (int32_t[]){sp, unk, unk, sp, unk, unk, unk}, 7);
    }
    ht_tokenizer_free(t);
    make_free(m);
}

static void spm_unknown(void **state) {
    (void)state;
    check_unknown(0);
    check_unknown(3); // some converters call all special tokens control tokens
}

// Two of a token that text may have are two, though the file calls it the unknown one.
static void spm_no_unknown(void **state) {
    (void)state;
    struct make *m = make_spm();
    m->n_tokens = 3;
    int32_t sp = make_token(m, "\xe2\x96\x81", 3, 1, -1), x = make_token(m, "x", 1, 1, -2);
    make_key(m, "tokenizer.ggml.unknown_token_id", HT_GGUF_U32, x);
    struct ht_tokenizer *t = load(m);
    expect_ids(t, "xx", 2, 0, (int32_t[]){sp, x, x}, 3);
    ht_tokenizer_free(t);
    make_free(m);
}

// Byte tokens that a file calls normal ones are byte tokens, unless it has others of that type.
static void spm_byte_names(void **state) {
    (void)state;
    for (int i = 0; i < 2; i++) {
        struct make *m = make_spm();
        for (int b = 0; b < 256; b++)
            if (!i || b != 'z') m->types[3 + b] = 1;
        int32_t sp = make_token(m, "\xe2\x96\x81", 3, 1, -1), unk = 0;
        struct ht_tokenizer *t = load(m);
        expect_ids(t, "q", 1, 0, (int32_t[]){sp, i ? unk : 3 + 'q'}, 2);
        ht_tokenizer_free(t);
        make_free(m);
    }
}

// A megabyte of one thing, and back.
static void long_runs(void **state) {
    (void)state;
    enum { N = 1 << 20 };
    static const char *const units[] = {"a",
                                        " ",
                                        "\n",
                                        "\xcc\x81",
                                        "\xcc\x81\xcc\xa3",
                                        "\xf0\x9f\x98\x80",
                                        "\xe4\xb8\xad",
                                        "ab",
                                        "\xff",
                                        "<|end|>",
                                        "<|en",
                                        "<"};
    char *text = malloc(N);
    for (int kind = 0; kind < 3; kind++) {
        struct make *m = kind == 2 ? make_spm() : make_bpe(kind ? "gpt-2" : "default");
        for (int i = 1; kind < 2 && i <= 8; i *= 2) {
            char half[MAKE_NAME] = "";
            for (const char *s = "a \n"; *s; s++) {
                memset(half, *s, (size_t)i);
                make_merge(m, half, half);
            }
            if (i == 1) make_merge(m, "\xcc", "\x81");
        }
        for (int i = 1; kind == 2 && i <= 8; i *= 2) {
            char token[MAKE_NAME] = "";
            memset(token, 'a', (size_t)i);
            make_token(m, token, (size_t)i, 1, (float)-i);
            for (int j = 0; j < i; j++) memcpy(token + 3 * j, "\xe2\x96\x81", 3);
            make_token(m, token, 3 * (size_t)i, 1, (float)-i);
        }
        make_name(m, "<|end|>", 3);
        struct ht_tokenizer *t = load(m);
        for (size_t u = 0; u < sizeof(units) / sizeof(*units); u++) {
            size_t k = strlen(units[u]), n = 0;
            for (; n + k <= N; n += k) memcpy(text + n, units[u], k);
            uint64_t begin = ht_now_ns();
            expect_round_trip(t, text, n, HEARTH_ENCODE_SPECIAL);
            uint64_t ms = (ht_now_ns() - begin) / 1000000;
            if (ms > 30000) // quadratic time would be hours
                fail_msg("%llu ms for a run of \"%s\"", (unsigned long long)ms, units[u]);
        }
        ht_tokenizer_free(t);
        make_free(m);
    }
    free(text);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bpe_slow_way),     cmocka_unit_test(spm_slow_way),
        cmocka_unit_test(spm_unused),       cmocka_unit_test(spm_space_inside),
        cmocka_unit_test(spm_no_unknown),   cmocka_unit_test(spm_unknown),
        cmocka_unit_test(spm_byte_names),   cmocka_unit_test(spm_zero_scores),
        cmocka_unit_test(spm_user_defined), cmocka_unit_test(specials),
        cmocka_unit_test(begin_end),        cmocka_unit_test(whole_words),
        cmocka_unit_test(like_words),       cmocka_unit_test(odd_bytes),
        cmocka_unit_test(missing_bytes),    cmocka_unit_test(bad_arguments),
        cmocka_unit_test(space_prefix),     cmocka_unit_test(long_runs),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
