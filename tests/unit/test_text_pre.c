// SPDX-License-Identifier: MIT
// Pre-tokenizers: the words they cut, written down from the models' own rules; the scanner against
// the patterns; inputs that stretch the patterns. The words are caught where merging would begin.
#include "cmocka_all.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "text/internal.h"
#include "unit/text_make.h"

struct word {
    const char *p;
    size_t n;
};
// Only this program's words: the linker takes this definition before the library's.
static struct word *words;
static size_t n_words, cap_words;

enum hearth_status ht_encode_word(struct ht_encoder *e, const char *p, size_t n) {
    (void)e;
    if (n_words == cap_words) {
        cap_words = 2 * cap_words + 64;
        words = realloc(words, cap_words * sizeof(*words));
        assert_non_null(words);
    }
    words[n_words++] = (struct word){p, n};
    return HEARTH_OK;
}

struct cutter {
    struct ht_tokenizer t;
    struct ht_encoder e;
    struct hearth_error err;
};

static void cutter_open(struct cutter *c, const struct ht_pre *row, bool jit) {
    memset(c, 0, sizeof(*c));
    c->t.pre = row;
    c->e.t = &c->t;
    c->e.err = &c->err;
    if (ht_pre_compile(&c->t, &c->err)) fail_msg("%s", c->err.message);
    c->t.jit = c->t.jit && jit; // else PCRE2's interpreter
}

static void cutter_close(struct cutter *c) {
    pcre2_match_data_free(c->e.match);
    pcre2_match_context_free(c->e.match_context);
    pcre2_jit_stack_free(c->e.jit_stack);
    ht_pre_release(&c->t);
}

static void cut(struct cutter *c, const char *p, size_t n) {
    n_words = 0;
    if (ht_pretokenize(&c->e, p, n)) fail_msg("%s", c->err.message);
    size_t sum = 0; // nothing is lost, nothing is empty
    for (size_t i = 0; i < n_words; i++) {
        assert_ptr_equal(words[i].p, p + sum);
        assert_true(words[i].n > 0);
        sum += words[i].n;
    }
    assert_int_equal(sum, n);
}

// Words are written with | between them.
static const struct {
    const char *pre, *words;
} known[] = {
    {"gpt-2", "Hello| world|'s| 123|abc|!!|\n|\n|x|  | y|'|S|\t|z| \n"},
    {"gpt-2", "don|'t| we|'ll| I|'d|'ve|     "},
    {"gpt-2",
     " \xc3\xa9t\xc3\xa9|\xc2\xb2\xc2\xb3| \xe4\xb8\xad\xe6\x96\x87|\xef\xbc\x8c|9|\xc2\xa0"},
    {"qwen2", "Hello| world|'S| |1|2|3|abc|!!\n\n|x| | y| \n|\tz| don|'T|(x|)| $|5|.\r\n|  \n|   "},
    {"qwen2", "a|\xcc\x81"
              "b|'\xc5\xbf|'rx|'RE|'ll|\xc2\xa0z| ...\n| "},
    {"llama-bpe", "123|456|7|a| |12|.|5|  \n\n| x|'VE"},
    {"dbrx", "123|456|7|a| |12|.|5|  \n\n| x|'VE"},
    {"mpt", "don|'t| we|'ll| 123|abc|!!"},
    {"seed-coder", "Hello| there|!!|\n\n|x|'S| |1|2|(a| ...|\n|  | y|  "},
    {"minicpm5", "a| |123|4|b| !!\n\n|don|'t|  | x|12"},
    {"viking", "Hello| world|,| |1|2|(|x|)| don't-do|.\n\xe0\xa5\xa4"},
    {"llama-bpe", "\xd9\xa1\xd9\xa2\xd9\xa3|\xd9\xa4| (|foo|);\n"},
    {"qwen35", "a\xcc\x81"
               "b| "},
    {"gpt-4o", "Hello|World| foo|Bar's|HTTPServer|123|45| a|/b|//\n"},
    {"tekken", "Hello|World| foo|Bar|HTTPServer|1|2| a|'s|/\n/"},
    {"smollm", "ab| |1|2| c| |3|\n"},
    {"command-r", "ab| |1|2| c"},
    {"deepseek-v3", "123|4|\xe4\xb8\xad\xe6\x96\x87|.foo| bar|!?\n|  | x|<div|>"},
    {"deepseek-llm", "ab|12|\n|\n| cd|.(|x|,| |\xe4\xb8\xad\xe6\x96\x87|\xef\xbc\x81| \xc3\xa9|  "},
    {"deepseek-llm", "\xd5\xa1| \xd4\xb1| | x"}, // Armenian: capitals alone are in its list
    {"deepseek-coder", "ab|1|2|\n|\n| cd|.("},
    {"default", "ab|...|12|'|s| |123|4|$"},
};

static void known_words(void **state) {
    (void)state;
    int n_wrong = 0;
    for (size_t k = 0; k < 2 * sizeof(known) / sizeof(*known); k++) {
        size_t i = k / 2;
        struct cutter c;
        char text[200], got[400];
        size_t n = 0, len = 0;
        const char *want = known[i].words;
        for (const char *p = want; *p; p++)
            if (*p != '|') text[n++] = *p;
        cutter_open(&c, ht_pre_find(known[i].pre, strlen(known[i].pre)), k % 2);
        cut(&c, text, n);
        for (size_t w = 0; w < n_words; w++) {
            if (w) got[len++] = '|';
            memcpy(got + len, words[w].p, words[w].n);
            len += words[w].n;
        }
        got[len] = 0;
        if (strcmp(got, want)) {
            print_error("%s: got  %s\n         want %s\n", known[i].pre, got, want);
            n_wrong++;
        }
        cutter_close(&c);
    }
    assert_int_equal(n_wrong, 0);
}

// U+180E is no white space for Unicode, though PCRE2's \s has it: it stays with the signs.
static void mongolian_separator(void **state) {
    (void)state;
    struct cutter c;
    cutter_open(&c, ht_pre_find("qwen2", 5), true);
    cut(&c, "!\xe1\xa0\x8e!", 5);
    assert_int_equal(n_words, 1);
    cut(&c, "a\xc2\x85\xe2\x80\xa8z", 7); // U+0085 and U+2028 are; the last goes with the letter
    assert_int_equal(n_words, 3);
    cutter_close(&c);
}

static size_t random_text(char *out, uint64_t *seed, bool wide) {
    static const char *const narrow[] = {"a", "s", "T",  "re",   "LL", "'",   "'",
                                         "0", "7", " ",  " ",    "\t", "\n",  "\r",
                                         ".", "-", "\v", "\x1c", "~",  "\x7f"};
    static const char *const others[] = {"\xc3\xa9",         "\xc2\xa0", "\xc5\xbf", "\xe4\xb8\xad",
                                         "\xe1\xa0\x8e",     "\xcc\x81", "\xd9\xa3", "\xe3\x80\x80",
                                         "\xf0\x9f\x98\x80", "\xc2\x85"};
    size_t n = 0, k = 1 + make_random(seed, 14);
    for (size_t i = 0; i < k; i++) {
        const char *s = wide && make_random(seed, 6) == 0 ? others[make_random(seed, 10)]
                                                          : narrow[make_random(seed, 20)];
        n += (size_t)sprintf(out + n, "%s", s);
    }
    return n;
}

// Where the scanner answers, the pattern says the same; it answers for all ASCII.
static void scanner(void **state) {
    (void)state;
    const struct ht_pre *row;
    for (size_t r = 0; (row = ht_pre_at(r)); r++) {
        uint64_t seed = 7;
        size_t n_answers = 0;
        struct cutter c;
        if (row->scan == HT_SCAN_NONE) continue;
        cutter_open(&c, row, true);
        pcre2_match_data *match = pcre2_match_data_create(1, NULL);
        for (int round = 0; round < 40000; round++) {
            char text[200];
            bool wide = round & 1;
            size_t n = random_text(text, &seed, wide);
            for (const char *p = text; p < text + n;) {
                const char *q = ht_scan_word(row->scan, p, text + n);
                int rc = pcre2_match(c.t.patterns[0], (PCRE2_SPTR)p, (size_t)(text + n - p), 0, 0,
                                     match, NULL);
                if (rc <= 0)
                    fail_msg("%s: %d for \"%.*s\"", row->names[0], rc, (int)(text + n - p), p);
                size_t len = pcre2_get_ovector_pointer(match)[1];
                if (q && q != p + len)
                    fail_msg("%s: \"%.*s\" is %zu bytes for the pattern, %zu for the scanner",
                             row->names[0], (int)(text + n - p), p, len, (size_t)(q - p));
                if (!wide) assert_non_null(q);
                n_answers += q != NULL;
                p += len;
            }
        }
        assert_true(n_answers > 100000);
        pcre2_match_data_free(match);
        cutter_close(&c);
    }
}

// A megabyte of one thing: no limit of PCRE2 is met, and time stays linear.
static void run(bool jit, size_t most) {
    static const char *const units[] = {"a",
                                        "A",
                                        "aB",
                                        " ",
                                        "\n",
                                        " \n",
                                        "1",
                                        "'",
                                        "!",
                                        "\xc3\xa9",
                                        "\xc2\xa0",
                                        "\xcc\x81",
                                        "\xe4\xb8\xad",
                                        "\xf0\x9f\x98\x80",
                                        "a\xcc\x81",
                                        "\xe3\x80\x80\n"};
    char *text = malloc(most + 1);
    const struct ht_pre *row;
    for (size_t r = 0; (row = ht_pre_at(r)); r++) {
        struct cutter c;
        cutter_open(&c, row, jit);
        for (size_t i = 0; i < 2 * sizeof(units) / sizeof(*units); i++) {
            size_t u = i / 2, k = strlen(units[u]), n = 0;
            for (; n + k < most; n += k) memcpy(text + n, units[u], k);
            text[n++] = "x1"[i % 2]; // so that a run of spaces has a word or a number behind it
            uint64_t begin = ht_now_ns();
            cut(&c, text, n);
            uint64_t ms = (ht_now_ns() - begin) / 1000000;
            if (ms > 10000) // quadratic time would be 20 s and more, of some rules hours
                fail_msg("%s: %llu ms for a run of \"%s\"", row->names[0], (unsigned long long)ms,
                         units[u]);
        }
        cutter_close(&c);
    }
    free(text);
}

static void runs(void **state) {
    (void)state;
    run(true, 1 << 20);
}

static void runs_interpreted(void **state) {
    (void)state;
    run(false, 1 << 17);
}

static void names(void **state) {
    (void)state;
    char list[600], small[12];
    ht_pre_list(list, sizeof(list));
    const char *const must[] = {"gpt-2", "qwen2", "llama-bpe", "default", "llama-v3", "smollm"};
    for (size_t i = 0; i < sizeof(must) / sizeof(*must); i++) {
        assert_non_null(strstr(list, must[i]));
        assert_non_null(ht_pre_find(must[i], strlen(must[i])));
    }
    assert_null(ht_pre_find("qwen", 4));
    assert_null(ht_pre_find("", 0));
    ht_pre_list(small, sizeof(small));
    assert_true(strlen(small) < sizeof(small));
    assert_true(ht_pre_find("qwen2", 5)->nfc);
    assert_false(ht_pre_find("gpt-2", 5)->nfc);
    assert_false(ht_pre_find("llama-bpe", 9)->nfc);
    assert_true(ht_pre_find("olmo", 4)->nfc); // which alone tells it from gpt-2
    const struct ht_pre *glm = ht_pre_find("glm4", 4), *llama = ht_pre_find("llama-bpe", 9);
    assert_true(llama->ignore_merges && llama->add_bos);
    assert_false(glm->ignore_merges || glm->add_bos);
}

static int done(void **state) {
    (void)state;
    free(words);
    return 0;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(known_words),      cmocka_unit_test(mongolian_separator),
        cmocka_unit_test(scanner),          cmocka_unit_test(runs),
        cmocka_unit_test(runs_interpreted), cmocka_unit_test(names),
    };
    return cmocka_run_group_tests(tests, NULL, done);
}
