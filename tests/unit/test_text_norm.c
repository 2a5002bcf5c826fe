// SPDX-License-Identifier: MIT
// NFC: the characters that are taken to be stable against the properties of Unicode, and texts
// against utf8proc's own way.
#include "cmocka_all.h"

#include <stdlib.h>
#include <string.h>
#include <utf8proc.h>

#include "base/clock.h"
#include "base/mem.h"
#include "text/internal.h"
#include "unit/text_make.h"

enum { N_POINTS = 0x110000 };

static size_t encode(int32_t c, char *out) {
    return (size_t)utf8proc_encode_char(c, (utf8proc_uint8_t *)out);
}

static char *reference(const char *p, size_t n, size_t *n_out) {
    utf8proc_uint8_t *out = NULL;
    utf8proc_ssize_t k = utf8proc_map((const utf8proc_uint8_t *)p, (utf8proc_ssize_t)n, &out,
                                      UTF8PROC_STABLE | UTF8PROC_COMPOSE);
    assert_true(k >= 0);
    *n_out = (size_t)k;
    return (char *)out;
}

// Characters that some composed one has behind its first: they may join what precedes them.
static void mark_joiners(uint8_t *joins) {
    for (int32_t c = 0; c < N_POINTS; c++) {
        int32_t parts[8];
        int boundary = 0;
        if (c >= 0xd800 && c < 0xe000) continue;
        utf8proc_ssize_t n = utf8proc_decompose_char(c, parts, 8, UTF8PROC_DECOMPOSE, &boundary);
        assert_true(n >= 1 && n <= 8);
        for (utf8proc_ssize_t i = 1; i < n; i++) joins[parts[i]] = 1;
    }
}

static void stable(void **state) {
    (void)state;
    uint8_t *joins = calloc(N_POINTS, 1);
    size_t n_stable = 0;
    mark_joiners(joins);
    for (int32_t c = 0; c < N_POINTS; c++) {
        if (!ht_nfc_stable((uint32_t)c)) continue;
        char utf8[4];
        size_t n = encode(c, utf8), n_nfc;
        char *nfc = reference(utf8, n, &n_nfc);
        n_stable++;
        if (n_nfc != n || memcmp(nfc, utf8, n) || joins[c] ||
            utf8proc_get_property(c)->combining_class)
            fail_msg("U+%04X is not stable", (unsigned)c);
        free(nfc);
    }
    assert_true(n_stable > 80000);
    assert_false(ht_nfc_stable(0x301));
    assert_false(ht_nfc_stable(0x212b)); // the Angstrom sign becomes a letter
    assert_false(ht_nfc_stable(0x1161)); // a vowel that makes a Hangul syllable
    free(joins);
}

static struct ht_encoder encoder;

static void expect_nfc(const char *text, size_t n) {
    const char *out;
    size_t n_out, n_want;
    char *want = reference(text, n, &n_want);
    assert_int_equal(ht_normalize(&encoder, text, n, &out, &n_out), HEARTH_OK);
    if (n_out != n_want || memcmp(out, want, n_want)) fail_msg("\"%.*s\"", (int)n, text);
    if (n_want == n && !memcmp(want, text, n)) return free(want);
    assert_ptr_not_equal(out, text);
    free(want);
}

// Every character by itself, behind a letter, and with a mark behind it.
static void all_characters(void **state) {
    (void)state;
    for (int32_t c = 0; c < N_POINTS; c++) {
        char text[16] = "e";
        if (c >= 0xd800 && c < 0xe000) continue;
        size_t n = 1 + encode(c, text + 1);
        memcpy(text + n, "\xcc\xa3\xcc\x81", 4);
        expect_nfc(text + 1, n - 1);
        expect_nfc(text, n);
        expect_nfc(text, n + 4);
    }
}

static void random_texts(void **state) {
    (void)state;
    static const int32_t points[] = {
        'a',   'e',   'o',    ' ',    0xe9,   0x300,   0x301,  0x323,  0x327,   0x302,
        0x345, 0x30a, 0x212b, 0x1100, 0x1161, 0x11a8,  0xac00, 0x4e2d, 0x1f600, 0x929,
        0x93c, 0x9c7, 0x9be,  0xfb1f, 0x2126, 0x1d15e, 0x3099, 0x304b, 0x344,   0x1ea5};
    uint64_t seed = 1;
    for (int round = 0; round < 200000; round++) {
        char text[200];
        size_t n = 0;
        for (uint32_t k = make_random(&seed, round % 50 ? 9 : 45); k; k--)
            n += encode(points[make_random(&seed, sizeof(points) / sizeof(*points))], text + n);
        expect_nfc(text, n);
    }
}

// U+11A7 is where the trailing consonants of Hangul are counted from, and none itself (the Unicode
// Standard, section 3.12): it joins nothing. utf8proc 2.8 loses it.
static void hangul_base(void **state) {
    (void)state;
    static const char *const texts[][2] = {
        {"\xea\xb0\x80\xe1\x86\xa7x", "\xea\xb0\x80\xe1\x86\xa7x"},
        {"\xe1\x84\x80\xe1\x85\xa1\xe1\x86\xa7", "\xea\xb0\x80\xe1\x86\xa7"},
        {"\xe1\x84\x80\xe1\x85\xa1\xe1\x86\xa7\xcc\x81", "\xea\xb0\x80\xe1\x86\xa7\xcc\x81"},
        {"\xe1\x84\x80\xe1\x85\xa1\xe1\x86\xa8", "\xea\xb0\x81"},
    };
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        const char *out;
        size_t n_out;
        assert_int_equal(ht_normalize(&encoder, texts[i][0], strlen(texts[i][0]), &out, &n_out),
                         HEARTH_OK);
        assert_int_equal(n_out, strlen(texts[i][1]));
        assert_memory_equal(out, texts[i][1], n_out);
    }
}

// Text in NFC is not copied; a million marks out of order take no quadratic time.
static void fast(void **state) {
    (void)state;
    static const char german[] =
        "Zw\xc3\xb6lf Boxk\xc3\xa4mpfer \xe4\xb8\xad\xe6\x96\x87 \xd0\x9f\xd1\x80";
    enum { N = 1 << 20 };
    char *text = malloc(N);
    const char *out;
    size_t n_out, n = 0;
    assert_int_equal(ht_normalize(&encoder, german, sizeof(german) - 1, &out, &n_out), HEARTH_OK);
    assert_ptr_equal(out, german);
    for (; n < N; n += 4) memcpy(text + n, "\xcc\x81\xcc\xa3", 4);
    uint64_t begin = ht_now_ns();
    assert_int_equal(ht_normalize(&encoder, text, n, &out, &n_out), HEARTH_OK);
    assert_true(ht_now_ns() - begin < 20000000000u);
    assert_int_equal(n_out, n);
    for (size_t i = 0; i < n; i += 2)
        assert_memory_equal(out + i, i < n / 2 ? "\xcc\xa3" : "\xcc\x81", 2);
    free(text);
}

static int done(void **state) {
    (void)state;
    ht_free(encoder.text);
    ht_free(encoder.points);
    ht_free(encoder.sorted);
    return 0;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(stable),       cmocka_unit_test(all_characters),
        cmocka_unit_test(random_texts), cmocka_unit_test(hangul_base),
        cmocka_unit_test(fast),
    };
    return cmocka_run_group_tests(tests, NULL, done);
}
