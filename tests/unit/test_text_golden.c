// SPDX-License-Identifier: MIT
// The real vocabularies of ../shared/tokenizers: ids and round trips of 1,500 texts each against
// what the models' own tokenizers gave.
#include "cmocka_all.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <utf8proc.h>

#include "base/mem.h"
#include "shared_dir.h"
#include "text/tokenizer.h"

struct golden {
    struct ht_gguf *g;
    struct ht_tokenizer *t;
    FILE *cases;
};

static void golden_open(struct golden *w, const char *name) {
    char path[500];
    struct hearth_error err = {0};
    snprintf(path, sizeof(path), "%s/tokenizers/%s.jsonl", shared_dir(), name);
    w->cases = fopen(path, "r");
    if (!w->cases) {
        print_message("[  SKIPPED ] no folder %s/tokenizers\n", shared_dir());
        skip();
    }
    snprintf(path, sizeof(path), "%s/tokenizers/%s.gguf", shared_dir(), name);
    if (ht_gguf_open(path, &w->g, &err) || ht_tokenizer_load(w->g, NULL, &w->t, &err))
        fail_msg("%s", err.message);
    assert_non_null(w->t);
}

static void golden_close(struct golden *w) {
    fclose(w->cases);
    ht_tokenizer_free(w->t);
    ht_gguf_close(w->g);
}

// The text that decoding must give: NFC where the model's own tokenizer says so.
static char *expected_text(const char *text, size_t n, bool nfc, size_t *n_out) {
    utf8proc_uint8_t *out = NULL;
    if (!nfc) {
        char *copy = malloc(n + 1);
        memcpy(copy, text, n);
        *n_out = n;
        return copy;
    }
    utf8proc_ssize_t k = utf8proc_map((const utf8proc_uint8_t *)text, (utf8proc_ssize_t)n, &out,
                                      UTF8PROC_STABLE | UTF8PROC_COMPOSE);
    assert_true(k >= 0);
    *n_out = (size_t)k;
    return (char *)out;
}

static void check_round_trip(struct golden *w, const int32_t *ids, size_t n_ids, const char *text,
                             size_t n) {
    struct ht_detok d;
    const char *piece;
    size_t n_piece, len = 0;
    char *all = malloc(n + 16);
    assert_int_equal(ht_detok_init(&d, w->t, false, NULL), HEARTH_OK);
    for (size_t i = 0; i <= n_ids; i++) {
        if (i < n_ids)
            ht_detok_push(&d, ids[i], &piece, &n_piece);
        else
            ht_detok_end(&d, &piece, &n_piece);
        assert_true(len + n_piece <= n);
        memcpy(all + len, piece, n_piece);
        len += n_piece;
        // the texts are valid, so every piece is as well
        for (size_t at = 0; at < n_piece;) {
            utf8proc_int32_t c;
            utf8proc_ssize_t k = utf8proc_iterate((const utf8proc_uint8_t *)piece + at,
                                                  (utf8proc_ssize_t)(n_piece - at), &c);
            assert_true(k > 0);
            at += (size_t)k;
        }
    }
    assert_int_equal(len, n);
    assert_memory_equal(all, text, n);
    ht_detok_deinit(&d);
    free(all);
}

static void check_case(struct golden *w, struct ht_encoder *e, json_t *j, size_t line, bool nfc) {
    json_t *want = json_object_get(j, "ids");
    const char *text = json_string_value(json_object_get(j, "text"));
    size_t n = json_string_length(json_object_get(j, "text")), n_expected;
    struct hearth_tokens got = {0};
    struct hearth_error err = {0};
    const int32_t *again = NULL;
    size_t n_again = 0;
    if (ht_encode(w->t, text, n, HEARTH_ENCODE_PLAIN, &got, &err))
        fail_msg("line %zu: %s", line, err.message);
    for (size_t i = 0; i < got.n && i < json_array_size(want); i++)
        if (got.ids[i] != json_integer_value(json_array_get(want, i)))
            fail_msg("line %zu: id %zu is %d, not %lld", line, i, got.ids[i],
                     (long long)json_integer_value(json_array_get(want, i)));
    assert_int_equal(got.n, json_array_size(want));
    // an encoder that has seen other texts gives the same
    assert_int_equal(ht_encoder_run(e, text, n, HEARTH_ENCODE_PLAIN, &again, &n_again, &err),
                     HEARTH_OK);
    assert_int_equal(n_again, got.n);
    assert_memory_equal(again, got.ids, got.n * sizeof(*again));
    char *expected = expected_text(text, n, nfc, &n_expected);
    check_round_trip(w, got.ids, got.n, expected, n_expected);
    free(expected);
    ht_free(got.ids);
}

static void run(const char *name, bool nfc) {
    static char buf[1 << 20];
    struct golden w;
    struct ht_encoder *e;
    size_t line = 0;
    golden_open(&w, name);
    assert_int_equal(ht_encoder_create(w.t, 1000, &e, NULL), HEARTH_OK);
    while (fgets(buf, sizeof(buf), w.cases)) {
        json_t *j = json_loads(buf, JSON_ALLOW_NUL, NULL);
        assert_non_null(j);
        check_case(&w, e, j, ++line, nfc);
        json_decref(j);
    }
    assert_int_equal(line, 1500);
    ht_encoder_destroy(e);
    golden_close(&w);
}

static void qwen3(void **state) {
    (void)state;
    run("qwen3", true);
}
static void gpt2(void **state) {
    (void)state;
    run("gpt2", false);
}
static void llama_spm(void **state) {
    (void)state;
    run("llama-spm", false);
}

static int32_t find(const struct ht_tokenizer *t, const char *name) {
    size_t n;
    for (int32_t id = 0; id < ht_tokenizer_n_vocab(t); id++) {
        const char *p = ht_token_bytes(t, id, &n);
        if (n == strlen(name) && !memcmp(p, name, n)) return id;
    }
    return -1;
}

// Control tokens are read only where asked, user-defined ones always; only the former end a
// generation.
static void special(void **state) {
    (void)state;
    static const char text[] = "<|im_start|>user\nhi<|im_end|>\n<think></think>";
    struct golden w;
    struct hearth_tokens a = {0}, b = {0};
    golden_open(&w, "qwen3");
    int32_t start = find(w.t, "<|im_start|>"), end = find(w.t, "<|im_end|>"),
            think = find(w.t, "<think>");
    assert_int_equal(ht_encode(w.t, text, sizeof(text) - 1, HEARTH_ENCODE_SPECIAL, &a, NULL),
                     HEARTH_OK);
    assert_int_equal(ht_encode(w.t, text, sizeof(text) - 1, HEARTH_ENCODE_PLAIN, &b, NULL),
                     HEARTH_OK);
    assert_int_equal(a.n, 8);
    const int32_t want[] = {start, find(w.t, "user"), find(w.t, "\n"), find(w.t, "hi"),
                            end,   find(w.t, "\n"),   think,           find(w.t, "</think>")};
    assert_memory_equal(a.ids, want, sizeof(want));
    assert_true(b.n > 8);
    for (size_t i = 0; i < b.n; i++) assert_true(b.ids[i] != start && b.ids[i] != end);
    assert_memory_equal(b.ids + b.n - 2, want + 6, 2 * sizeof(*want));
    check_round_trip(&w, b.ids, b.n, text, sizeof(text) - 1);
    assert_true(ht_tokenizer_is_end(w.t, end));
    assert_int_equal(ht_tokenizer_eos(w.t), end);
    assert_true(ht_tokenizer_is_end(w.t, find(w.t, "<|endoftext|>")));
    assert_false(ht_tokenizer_is_end(w.t, start));
    assert_false(ht_tokenizer_is_end(w.t, think));
    assert_true(ht_tokenizer_is_special(w.t, start));
    assert_false(ht_tokenizer_is_special(w.t, think));
    assert_false(ht_tokenizer_is_special(w.t, -1));
    assert_false(ht_tokenizer_is_end(w.t, 1 << 30));
    ht_free(a.ids);
    ht_free(b.ids);
    golden_close(&w);
}

// Begin and end tokens: where the file says so, and none for an empty text where it does not.
static void begin_end(void **state) {
    (void)state;
    static const struct {
        const char *name;
        size_t n;
    } models[] = {{"qwen3", 0}, {"gpt2", 0}, {"llama-spm", 1}};
    for (size_t i = 0; i < 3; i++) {
        struct golden w;
        struct hearth_tokens a = {0};
        golden_open(&w, models[i].name);
        assert_int_equal(ht_encode(w.t, "", 0, HEARTH_ENCODE_BEGIN_END, &a, NULL), HEARTH_OK);
        assert_int_equal(a.n, models[i].n);
        if (a.n) assert_int_equal(a.ids[0], ht_tokenizer_bos(w.t));
        ht_free(a.ids);
        assert_int_equal(ht_encode(w.t, "", 0, HEARTH_ENCODE_PLAIN, &a, NULL), HEARTH_OK);
        assert_int_equal(a.n, 0);
        ht_free(a.ids);
        golden_close(&w);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(qwen3),   cmocka_unit_test(gpt2),      cmocka_unit_test(llama_spm),
        cmocka_unit_test(special), cmocka_unit_test(begin_end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
