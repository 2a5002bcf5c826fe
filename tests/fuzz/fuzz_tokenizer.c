// SPDX-License-Identifier: MIT
// Any text, in any small vocabulary: its ids are in the vocabulary, and they come back as the text.
// The first byte chooses vocabulary and flags, the rest is the text.
#include <stdlib.h>
#include <string.h>
#include <utf8proc.h>

#include "base/mem.h"
#include "base/utf8.h"
#include "unit/text_make.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

static void expect(bool ok) {
    if (!ok) abort();
}

static const struct {
    const char *pre;
    bool nfc;
} rows[] = {{"gpt-2", false},   {"qwen2", true},        {"llama-bpe", false},
            {"default", false}, {"deepseek-v3", false}, {"deepseek-coder", false},
            {"gpt-4o", false},  {NULL, false}};

static void add_words(struct make *m, bool nfc) {
    static const char *const words[][2] = {
        {"t", "h"},   {"th", "e"}, {" ", "the"}, {" ", " "},       {"  ", " "}, {"\xc3", "\xa9"},
        {"\n", "\n"}, {"e", "r"},  {" ", "t"},   {"\xe4", "\xb8"}, {"a", "a"},  {"aa", "aa"}};
    for (size_t i = 0; i < sizeof(words) / sizeof(*words); i++) {
        if (m->no_merges) {
            char token[MAKE_NAME];
            size_t k = 0;
            for (int half = 0; half < 2; half++)
                for (const char *p = words[i][half]; *p; p++) {
                    memcpy(token + k, *p == ' ' ? "\xe2\x96\x81" : p, *p == ' ' ? 3 : 1);
                    k += *p == ' ' ? 3 : 1;
                }
            make_token(m, token, k, 1, -(float)(i % 5));
        } else {
            make_merge(m, words[i][0], words[i][1]);
        }
    }
    make_name(m, "<|end|>", 3);
    // Tokens that are cut out cut the text where NFC would not; these always are.
    if (!nfc) make_name(m, "<t>", 4);
    if (!nfc) make_name(m, "   ", 4);
}

// The tokenizers are built once; what they borrow is kept for good.
static const struct ht_tokenizer *tokenizer(size_t row) {
    static struct ht_tokenizer *made[sizeof(rows) / sizeof(*rows)];
    static struct make *files[sizeof(rows) / sizeof(*rows)];
    if (files[row]) return made[row];
    struct make *m = rows[row].pre ? make_bpe(rows[row].pre) : make_spm();
    files[row] = m;
    add_words(m, rows[row].nfc);
    if (!rows[row].pre) make_token(m, "\xe2\x96\x81", 3, 1, -9);
    expect(make_load(m, &made[row], NULL) == HEARTH_OK);
    return made[row];
}

// What decoding gives: valid runs in NFC where the row says so, U+2581 as a space for
// SentencePiece, every other byte as it is.
static char *expected(size_t row, const char *p, size_t n, size_t *n_out) {
    char *out = malloc(3 * n + 1);
    size_t k = 0;
    expect(out != NULL);
    for (size_t i = 0; i < n;) {
        size_t run = i, len;
        while (run < n && (len = ht_utf8_char_len(p + run, n - run))) run += len;
        if (rows[row].nfc && run > i) {
            utf8proc_uint8_t *nfc = NULL;
            utf8proc_ssize_t m =
                utf8proc_map((const utf8proc_uint8_t *)p + i, (utf8proc_ssize_t)(run - i), &nfc,
                             UTF8PROC_STABLE | UTF8PROC_COMPOSE);
            expect(m >= 0 && k + (size_t)m <= 3 * n);
            memcpy(out + k, nfc, (size_t)m);
            k += (size_t)m;
            free(nfc);
            i = run;
        } else if (!rows[row].pre && n - i >= 3 && !memcmp(p + i, "\xe2\x96\x81", 3)) {
            out[k++] = ' ';
            i += 3;
        } else {
            out[k++] = p[i++];
        }
    }
    *n_out = k;
    return out;
}

static void check_text(const struct ht_tokenizer *t, const struct hearth_tokens *ids,
                       const char *want, size_t n_want) {
    struct ht_detok d;
    const char *piece;
    size_t n, at = 0;
    expect(ht_detok_init(&d, t, true, NULL) == HEARTH_OK);
    for (size_t i = 0; i <= ids->n; i++) {
        if (i < ids->n) {
            expect(ids->ids[i] >= 0 && ids->ids[i] < ht_tokenizer_n_vocab(t));
            ht_detok_push(&d, ids->ids[i], &piece, &n);
        } else {
            ht_detok_end(&d, &piece, &n);
        }
        expect(n <= n_want - at && !memcmp(want + at, piece, n));
        at += n;
    }
    expect(at == n_want);
    ht_detok_deinit(&d);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n) {
    if (!n) return 0;
    size_t row = data[0] % (sizeof(rows) / sizeof(*rows)), n_want;
    // so do special ones, which are read where there is none
    unsigned flags = data[0] & 0x80 && !rows[row].nfc ? HEARTH_ENCODE_SPECIAL : HEARTH_ENCODE_PLAIN;
    const struct ht_tokenizer *t = tokenizer(row);
    struct hearth_tokens ids = {NULL, 0};
    expect(ht_encode(t, (const char *)data + 1, n - 1, flags, &ids, NULL) == HEARTH_OK);
    char *want = expected(row, (const char *)data + 1, n - 1, &n_want);
    check_text(t, &ids, want, n_want);
    free(want);
    ht_free(ids.ids);
    return 0;
}
