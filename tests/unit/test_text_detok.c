// SPDX-License-Identifier: MIT
// The incremental detokenizer: the pieces together are the bytes of the tokens, no piece ends
// inside a character that may still become whole, and at most three bytes are held.
#include "cmocka_all.h"

#include <string.h>

#include "base/utf8.h"
#include "unit/text_make.h"

static struct ht_tokenizer *load(struct make *m) {
    struct ht_tokenizer *t = NULL;
    struct hearth_error err;
    if (make_load(m, &t, &err)) fail_msg("%s", err.message);
    return t;
}

// By the table of well-formed sequences (Unicode, table 3-7): may more bytes make p a character?
static bool may_begin(const uint8_t *p, size_t n) {
    static const uint8_t rows[][3] = {// first byte from, second byte from and to
                                      {0xc2, 0x80, 0xbf}, {0xe0, 0xa0, 0xbf}, {0xe1, 0x80, 0xbf},
                                      {0xed, 0x80, 0x9f}, {0xee, 0x80, 0xbf}, {0xf0, 0x90, 0xbf},
                                      {0xf1, 0x80, 0xbf}, {0xf4, 0x80, 0x8f}, {0xf5, 1, 0}};
    size_t row = 0, len = p[0] < 0xe0 ? 2 : p[0] < 0xf0 ? 3 : 4;
    if (p[0] < 0xc2 || p[0] > 0xf4 || n >= len) return false;
    while (rows[row + 1][0] <= p[0]) row++;
    if (n > 1 && (p[1] < rows[row][1] || p[1] > rows[row][2])) return false;
    return n < 3 || (p[2] & 0xc0) == 0x80;
}

// How many bytes at the end of p a reader would rather wait for.
static size_t to_hold(const uint8_t *p, size_t n) {
    for (size_t k = n < 3 ? n : 3; k; k--)
        if (may_begin(p + n - k, k)) return k;
    return 0;
}

static void random_bytes(void **state) {
    (void)state;
    struct make *m = make_bpe("gpt-2");
    static const uint8_t set[] = {'a',  0x80, 0x8f, 0x90, 0x9f, 0xa0, 0xbf, 0xc1, 0xc3,
                                  0xe0, 0xe2, 0xed, 0xef, 0xf0, 0xf3, 0xf4, 0xf5, 0xff};
    for (int i = 0; i < 200; i++) { // tokens of several bytes
        char s[3] = {(char)set[(unsigned)i % sizeof(set)], (char)set[(unsigned)i / sizeof(set)], 0};
        make_merge(m, (char[]){s[0], 0}, s + 1);
    }
    struct ht_tokenizer *t = load(m);
    struct ht_detok d;
    uint64_t seed = 9;
    assert_int_equal(ht_detok_init(&d, t, false, NULL), HEARTH_OK);
    for (int round = 0; round < 20000; round++) {
        uint8_t all[64];
        size_t n = 0, given = 0, n_piece, n_token;
        const char *piece;
        for (uint32_t k = make_random(&seed, 9); k; k--) {
            int32_t id =
                (int32_t)(make_random(&seed, 2) ? set[make_random(&seed, sizeof(set))]
                                                : 256 + make_random(&seed, m->n_tokens - 256));
            const char *p = ht_token_bytes(t, id, &n_token);
            memcpy(all + n, p, n_token);
            n += n_token;
            ht_detok_push(&d, id, &piece, &n_piece);
            assert_int_equal(n_piece, n - given - to_hold(all + given, n - given));
            assert_memory_equal(piece, all + given, n_piece);
            given += n_piece;
            assert_true(n - given <= 3);
        }
        ht_detok_end(&d, &piece, &n_piece);
        assert_int_equal(n_piece, n - given);
        assert_memory_equal(piece, all + given, n_piece);
    }
    ht_detok_deinit(&d);
    ht_tokenizer_free(t);
    make_free(m);
}

static void expect(struct ht_detok *d, int32_t id, const char *want) {
    const char *piece;
    size_t n;
    if (id == -2)
        ht_detok_end(d, &piece, &n);
    else
        ht_detok_push(d, id, &piece, &n);
    if (n != strlen(want) || memcmp(piece, want, n))
        fail_msg("\"%.*s\", not \"%s\"", (int)n, piece, want);
}

static void byte_level(void **state) {
    (void)state;
    struct make *m = make_bpe("gpt-2");
    int32_t end = make_name(m, "<|im_end|>", 3), user = make_name(m, "<t>", 4),
            pad = make_name(m, "[PAD9]", 5), sp = make_merge(m, " ", "a"),
            raw = make_name(m, "\xe2\x82\xac\xe2\x82\xac", 1);
    struct ht_tokenizer *t = load(m);
    struct ht_detok d;
    assert_int_equal(ht_detok_init(&d, t, false, NULL), HEARTH_OK);
    expect(&d, sp, " a"); // the space is text here
    expect(&d, end, "");
    expect(&d, pad, "");
    assert_true(!ht_detok_shows(&d, end) && ht_detok_shows(&d, user) && !ht_detok_shows(&d, pad));
    expect(&d, user, "<t>");
    expect(&d, raw, "\xe2\x82\xac\xe2\x82\xac"); // not in the alphabet: its own bytes
    expect(&d, -1, "");
    expect(&d, 1 << 20, "");
    expect(&d, 0xe2, "");
    expect(&d, 0x82, "");
    expect(&d, end, ""); // what is held waits
    expect(&d, 0xac, "\xe2\x82\xac");
    expect(&d, 0xf0, "");
    expect(&d, 'x', "\xf0x");
    expect(&d, 0xc3, "");
    ht_detok_reset(&d);
    expect(&d, 'y', "y");
    expect(&d, 0xc3, "");
    expect(&d, -2, "\xc3");
    expect(&d, -2, "");
    ht_detok_deinit(&d);
    assert_int_equal(ht_detok_init(&d, t, true, NULL), HEARTH_OK);
    expect(&d, end, "<|im_end|>");
    expect(&d, pad, "");
    assert_true(ht_detok_shows(&d, end) && ht_detok_shows(&d, 'x') && !ht_detok_shows(&d, pad));
    for (size_t i = 0; i < 3; i++) expect(&d, (uint8_t) "\xf0\x9f\x98"[i], "");
    expect(&d, end, "\xf0\x9f\x98<|im_end|>"); // the longest token, behind all that may be held
    assert_true(d.out_cap >= 13);
    ht_detok_deinit(&d);
    ht_detok_deinit(&d);
    ht_tokenizer_free(t);
    make_free(m);
}

static void sentence_piece(void **state) {
    (void)state;
    struct make *m = make_spm();
    int32_t hi = make_token(m, "\xe2\x96\x81hi", 5, 1, -1),
            two = make_token(m, "\xe2\x96\x81\xe2\x96\x81", 6, 1, -1),
            user = make_name(m, "<t>", 4), gap = make_name(m, "  ", 4);
    struct ht_tokenizer *t = load(m);
    struct ht_detok d;
    assert_int_equal(ht_detok_init(&d, t, false, NULL), HEARTH_OK);
    expect(&d, 1, "");
    expect(&d, hi, "hi");
    expect(&d, hi, " hi");
    expect(&d, 2, "");
    expect(&d, hi, " hi");
    expect(&d, -2, "");
    expect(&d, user, "<t>");
    expect(&d, hi, "hi"); // encoding "<t>hi" put the space there
    expect(&d, user, "<t>");
    expect(&d, gap, "  "); // and none in front of one of these
    expect(&d, hi, "hi");
    expect(&d, -2, "");
    expect(&d, gap, "  ");
    expect(&d, hi, "hi");
    expect(&d, hi, " hi");
    expect(&d, -2, "");
    expect(&d, two, " ");
    ht_detok_reset(&d);
    expect(&d, 3 + ' ', " "); // a byte is text
    expect(&d, hi, " hi");
    ht_detok_reset(&d);
    ht_detok_follow(&d, (const int32_t[]){1, hi, 3 + 0xc3}, 3); // half a character is not repeated
    expect(&d, hi, " hi");
    ht_detok_reset(&d);
    ht_detok_follow(&d, (const int32_t[]){hi, user}, 2);
    expect(&d, hi, "hi");
    ht_detok_reset(&d);
    ht_detok_follow(&d, (const int32_t[]){1, 2}, 2);
    expect(&d, hi, "hi");
    ht_detok_reset(&d);
    expect(&d, 3 + 0xc3, "");
    expect(&d, 3 + 0xa9, "\xc3\xa9");
    ht_detok_deinit(&d);
    assert_int_equal(ht_detok_init(&d, t, true, NULL), HEARTH_OK);
    expect(&d, 1, "<s>");
    expect(&d, hi, "hi"); // encoding "<s>hi" put the space there
    expect(&d, 2, "</s>");
    expect(&d, hi, "hi");
    ht_detok_deinit(&d);
    ht_tokenizer_free(t);
    make_free(m);
}

static void token_bytes(void **state) {
    (void)state;
    struct make *m = make_bpe("gpt-2");
    struct ht_tokenizer *t = load(m);
    size_t n = 9;
    for (int b = 0; b < 256; b++) {
        const char *p = ht_token_bytes(t, b, &n);
        assert_int_equal(n, 1);
        assert_int_equal((uint8_t)*p, b);
    }
    assert_null(ht_token_bytes(t, 256, &n));
    assert_int_equal(n, 0);
    assert_null(ht_token_bytes(t, -1, &n));
    assert_int_equal(ht_tokenizer_n_vocab(t), 256);
    ht_tokenizer_free(t);
    make_free(m);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(random_bytes),
        cmocka_unit_test(byte_level),
        cmocka_unit_test(sentence_piece),
        cmocka_unit_test(token_bytes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
