// SPDX-License-Identifier: MIT
// base: statuses and messages, checked arithmetic, memory, arena, buffer, hash, log. All memory is
// that of alloc_mem.c.
#include "cmocka_all.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "alloc_mem.h"
#include "base/arena.h"
#include "base/buf.h"
#include "base/checked.h"
#include "base/clock.h"
#include "base/hash.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/sort.h"
#include "base/status.h"
#include "base/utf8.h"

// ---- statuses

static void test_status_texts(void **state) {
    (void)state;
    char version[32];
    snprintf(version, sizeof version, "%d.%d.%d", HEARTH_VERSION_MAJOR, HEARTH_VERSION_MINOR,
             HEARTH_VERSION_PATCH);
    assert_string_equal(hearth_version(), version);
    assert_string_equal(hearth_status_name(HEARTH_OK), "OK");
    assert_string_equal(hearth_status_name(HEARTH_E_CONTEXT_FULL), "E_CONTEXT_FULL");
    assert_string_equal(hearth_status_text(HEARTH_E_NOMEM), "out of memory");
    assert_non_null(hearth_status_name((enum hearth_status)999));
    assert_non_null(hearth_status_text((enum hearth_status)999));
}

static void test_fail(void **state) {
    (void)state;
    struct hearth_error err;
    assert_int_equal(ht_fail(NULL, HEARTH_E_ARG, "%d", 1), HEARTH_E_ARG);
    assert_int_equal(ht_fail(&err, HEARTH_E_FORMAT, "%s: %d heads", "a.gguf", 3), HEARTH_E_FORMAT);
    assert_int_equal(err.status, HEARTH_E_FORMAT);
    assert_string_equal(err.message, "a.gguf: 3 heads");
    assert_int_equal(ht_fail_in(&err, HEARTH_E_IO, "part %d", 2), HEARTH_E_FORMAT);
    assert_string_equal(err.message, "part 2: a.gguf: 3 heads");
    assert_int_equal(ht_fail_in(NULL, HEARTH_E_IO, "part"), HEARTH_E_IO);
    // The old message as an argument of the new one.
    ht_fail(&err, HEARTH_E_IO, "again: %s", err.message);
    assert_string_equal(err.message, "again: part 2: a.gguf: 3 heads");
    assert_int_equal(ht_fail_nomem(&err, 77, "a table"), HEARTH_E_NOMEM);
    assert_non_null(strstr(err.message, "77 bytes for a table"));
}

static void test_fail_cleans(void **state) {
    (void)state;
    struct hearth_error err;
    ht_fail(&err, HEARTH_E_FORMAT, "key \"%s\"", "a\nb\x01\x7f\xff\xc3\xa9\xc3");
    assert_string_equal(err.message, "key \"a?b???\xc3\xa9?\"");
}

static void test_fail_cuts_at_a_character(void **state) {
    (void)state;
    struct hearth_error err;
    // Characters of 1 to 4 bytes at every phase: always valid UTF-8, "..." in the middle, or, of
    // what is longer than any path, at the end.
    static const char *const chars[] = {"x", "\xc3\xa9", "\xe2\x82\xac", "\xf0\x9f\x98\x80"};
    for (int c = 0; c < 8; c++)
        for (size_t phase = 0; phase < 8; phase++) {
            char text[9000] = "";
            size_t len = phase, most = c % 2 ? sizeof text : 3000, n_char = strlen(chars[c / 2]);
            memset(text, 'a', phase);
            while (len + n_char < most - 1) {
                memcpy(text + len, chars[c / 2], n_char);
                len += n_char;
            }
            text[len] = 0;
            ht_fail(&err, HEARTH_E_IO, "%s", text);
            const char *gap = strstr(err.message, "...");
            assert_non_null(gap);
            size_t n = strlen(err.message), front = (size_t)(gap - err.message);
            size_t back = n - front - 3;
            assert_between(n, sizeof err.message - 8, sizeof err.message - 1);
            assert_between(back, c % 2 ? 0 : sizeof err.message / 2 - 4, c % 2 ? 0 : n / 2 + 1);
            assert_memory_equal(err.message, text, front);
            assert_string_equal(err.message + front + 3, text + len - back);
            assert_int_equal((front - phase) % n_char, 0);
            assert_int_equal(back % n_char, 0);
        }
    char exact[sizeof err.message];
    memset(exact, 'a', sizeof exact - 1);
    exact[sizeof exact - 1] = 0;
    ht_fail(&err, HEARTH_E_IO, "%s", exact);
    assert_string_equal(err.message, exact); // fits to the last byte
}

static void test_utf8(void **state) {
    (void)state;
    // Every code point, encoded by the rule, is valid; every surrogate is not.
    for (uint32_t c = 0; c <= 0x110000; c++) {
        char s[4];
        size_t n = 0;
        if (c < 0x80) {
            s[n++] = (char)c;
        } else if (c < 0x800) {
            s[n++] = (char)(0xc0 | c >> 6);
            s[n++] = (char)(0x80 | (c & 63));
        } else if (c < 0x10000) {
            s[n++] = (char)(0xe0 | c >> 12);
            s[n++] = (char)(0x80 | (c >> 6 & 63));
            s[n++] = (char)(0x80 | (c & 63));
        } else {
            s[n++] = (char)(0xf0 | c >> 18);
            s[n++] = (char)(0x80 | (c >> 12 & 63));
            s[n++] = (char)(0x80 | (c >> 6 & 63));
            s[n++] = (char)(0x80 | (c & 63));
        }
        bool valid = c < 0x110000 && !(c >= 0xd800 && c < 0xe000);
        if (ht_utf8_char_len(s, n) != (valid ? n : 0)) fail_msg("U+%04X", c);
        if (ht_utf8_char_len(s, n - 1) != 0) fail_msg("U+%04X cut short", c);
        bool control = c < 0x20 || (c >= 0x7f && c < 0xa0);
        if (valid && ht_utf8_is_control(s, n) != control) fail_msg("U+%04X", c);
    }
    assert_int_equal(ht_utf8_char_len("\xc0\x80", 2), 0); // overlong
    assert_int_equal(ht_utf8_char_len("\xe0\x9f\xbf", 3), 0);
    assert_int_equal(ht_utf8_char_len("\xf0\x8f\xbf\xbf", 4), 0);
    assert_int_equal(ht_utf8_char_len("\x80", 1), 0);
}

struct heard {
    int n;
    enum hearth_log_level level;
    char line[2000];
};

static void hear(void *user, enum hearth_log_level level, const char *line) {
    struct heard *h = user;
    h->n++;
    h->level = level;
    snprintf(h->line, sizeof h->line, "%s", line);
}

static void test_log(void **state) {
    (void)state;
    struct heard h = {0};
    struct hearth_log log = {.fn = hear, .user = &h}, silent = {0};
    ht_log(NULL, HEARTH_LOG_WARN, "nobody %d", 1);
    ht_log(&silent, HEARTH_LOG_WARN, "nobody %d", 2);
    ht_log(&log, HEARTH_LOG_INFO, "line %d\n", 3);
    assert_int_equal(h.n, 1);
    assert_int_equal(h.level, HEARTH_LOG_INFO);
    assert_string_equal(h.line, "line 3?");
}

// ---- numbers

static void test_checked(void **state) {
    (void)state;
    size_t r = 42;
    assert_true(ht_add_size(SIZE_MAX - 1, 1, &r));
    assert_true(r == SIZE_MAX);
    r = 42;
    assert_false(ht_add_size(SIZE_MAX, 1, &r));
    assert_false(ht_mul_size(SIZE_MAX / 2 + 1, 2, &r));
    assert_false(ht_mul3_size(1u << 30, 1u << 30, 1u << 30, &r));
    assert_false(ht_align_size(SIZE_MAX - 6, 8, &r));
    assert_true(r == 42); // untouched on failure
    assert_true(ht_mul3_size(3, 5, 7, &r) && r == 105);
    assert_true(ht_align_size(65, 64, &r) && r == 128);
    assert_true(ht_align_size(64, 64, &r) && r == 64);
    assert_true(ht_align_size(0, 64, &r) && r == 0);
    uint64_t u = 1;
    assert_false(ht_add_u64(UINT64_MAX, 1, &u));
    assert_false(ht_mul_u64(1ull << 32, 1ull << 32, &u));
    assert_true(u == 1);
}

static int compare_u64(const void *a, const void *b) {
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

static void test_hash(void **state) {
    (void)state;
    // 200,000 short keys that differ little: no two of 64 bits alike, and the low 16 bits are even.
    enum { n = 200000 };
    uint64_t *h = ht_alloc(n * sizeof *h);
    static uint32_t low[65536];
    memset(low, 0, sizeof low);
    for (uint32_t i = 0; i < n; i++) {
        char key[32];
        int len = snprintf(key, sizeof key, "tok%u", i);
        h[i] = ht_hash_bytes(key, (size_t)len, 0);
        low[h[i] & 65535]++;
    }
    ht_sort(h, n, sizeof *h, compare_u64);
    for (uint32_t i = 1; i < n; i++) assert_true(h[i] != h[i - 1]);
    for (uint32_t i = 0; i < 65536; i++) assert_between(low[i], 0, 20); // 3 expected
    ht_free(h);

    // Every single bit of 0 to 40 bytes matters, as do the length and the seed; the place does not.
    char a[48] = {0}, b[49] = {0};
    for (size_t len = 0; len <= 40; len++) {
        uint64_t base = ht_hash_bytes(a, len, 7);
        assert_true(base != ht_hash_bytes(a, len + 1, 7));
        assert_true(base != ht_hash_bytes(a, len, 8));
        for (size_t bit = 0; bit < len * 8; bit++) {
            a[bit / 8] ^= (char)(1 << bit % 8);
            uint64_t flipped = ht_hash_bytes(a, len, 7);
            assert_true(flipped != base);
            memcpy(b + 1, a, len);
            assert_true(ht_hash_bytes(b + 1, len, 7) == flipped);
            a[bit / 8] ^= (char)(1 << bit % 8);
        }
    }
}

static void test_sort(void **state) {
    (void)state;
    // Against qsort, with many equal keys; items larger than the swap's window stay whole.
    struct wide {
        uint64_t key;
        char fill[93];
    } *w = ht_calloc(500, sizeof *w);
    uint64_t *keys = ht_calloc(500, sizeof *keys);
    for (size_t n = 0; n <= 500; n += n < 20 ? 1 : 60) {
        uint64_t seed = n;
        for (size_t i = 0; i < n; i++) {
            seed = ht_hash_u64(seed + 1);
            w[i].key = keys[i] = seed % (n / 2 + 1);
            memset(w[i].fill, (int)(w[i].key & 127), sizeof w[i].fill);
        }
        qsort(keys, n, sizeof *keys, compare_u64);
        ht_sort(w, n, sizeof *w, compare_u64);
        for (size_t i = 0; i < n; i++) {
            assert_true(w[i].key == keys[i]);
            for (size_t k = 0; k < sizeof w[i].fill; k++)
                assert_int_equal(w[i].fill[k], (int)(keys[i] & 127));
        }
    }
    ht_free(w), ht_free(keys);
}

static void test_clock(void **state) {
    (void)state;
    uint64_t a = ht_now_ns(), b = a;
    for (int i = 0; b == a && i < 1000000; i++) b = ht_now_ns();
    assert_true(b > a && b - a < 10000000000u);
}

// ---- memory

static void test_arena(void **state) {
    (void)state;
    struct ht_test_alloc before = ht_test_alloc_get();
    struct ht_arena a = {0};
    unsigned seed = 1;
    size_t sum = 0;
    for (int i = 0; i < 3000; i++) {
        seed = seed * 1103515245u + 12345u;
        size_t n = i % 100 == 99 ? seed >> 12 & 0x1ffff : seed >> 16 & 0xff;
        size_t align = (size_t)1 << (seed >> 28 & 7);
        unsigned char *p = ht_arena_alloc(&a, n, align);
        assert_non_null(p);
        assert_int_equal((uintptr_t)p % align, 0);
        for (size_t k = 0; k < n; k++) assert_int_equal(p[k], 0); // zeroed, and no one else's
        memset(p, 0xff, n);
        sum += n;
    }
    assert_true(a.n_used_bytes == sum);
    struct ht_test_alloc now = ht_test_alloc_get();
    assert_between(now.n_live_bytes - before.n_live_bytes, sum, sum * 2);
    char *s = ht_arena_strndup(&a, "hearth", 3);
    assert_string_equal(s, "hea");
    assert_null(ht_arena_array(&a, SIZE_MAX / 2, 3, 8));
    assert_null(ht_arena_alloc(&a, SIZE_MAX - 3, 64));
    assert_null(ht_arena_strndup(&a, s, SIZE_MAX));
    ht_test_alloc_fail_at(1);
    assert_null(ht_arena_alloc(&a, 3 << 20, 8));
    ht_test_alloc_reset();
    ht_arena_deinit(&a);
    ht_arena_deinit(&a); // an empty one again
    assert_true(ht_test_alloc_get().n_live_bytes == before.n_live_bytes);
}

static void test_buf(void **state) {
    (void)state;
    struct ht_test_alloc before = ht_test_alloc_get();
    struct ht_buf b;
    ht_buf_init(&b, 1000);
    assert_true(ht_buf_append(&b, NULL, 0));
    assert_true(ht_buf_puts(&b, "one "));
    assert_true(ht_buf_putc(&b, 'x'));
    assert_true(ht_buf_printf(&b, " %d%s", 7, "!"));
    assert_string_equal(b.data, "one x 7!");
    assert_int_equal(b.len, 8);
    char big[301];
    memset(big, 'z', 300);
    big[300] = 0;
    assert_true(ht_buf_printf(&b, "%s", big)); // grows in the middle of a printf
    assert_int_equal(b.len, 308);
    assert_int_equal(strlen(b.data), 308);
    assert_true(ht_buf_reserve(&b, 692)); // to the byte
    const char *data = b.data;
    ht_test_alloc_fail_from(1);
    while (b.len < 1000) assert_true(ht_buf_putc(&b, 'y')); // cannot fail any more
    assert_ptr_equal(b.data, data);
    ht_test_alloc_reset();
    assert_false(ht_buf_putc(&b, 'y')); // past max: unchanged, valid, and it sticks
    assert_true(b.failed);
    assert_int_equal(b.len, 1000);
    assert_false(ht_buf_append(&b, "", 0));
    ht_buf_clear(&b);
    assert_false(b.failed);
    assert_true(ht_buf_puts(&b, "again"));
    assert_false(ht_buf_reserve(&b, SIZE_MAX - 2));
    assert_string_equal(b.data, "again");
    ht_buf_deinit(&b);
    assert_null(b.data);

    // Out of memory at every growth.
    for (uint64_t n = 1;; n++) {
        ht_buf_init(&b, SIZE_MAX);
        ht_test_alloc_fail_at(n);
        char expected[200] = "";
        size_t len = 0;
        for (int i = 0; i < 100 && ht_buf_putc(&b, (char)('a' + i % 26)); i++)
            expected[len++] = (char)('a' + i % 26);
        bool failed = ht_test_alloc_failed();
        // A growth that may double is tried once more with what is needed.
        if (b.failed) assert_true(failed);
        if (len) assert_string_equal(b.data, expected);
        assert_int_equal(b.len, len);
        ht_test_alloc_reset();
        ht_buf_deinit(&b);
        if (!failed) break;
        assert_between(n, 1, 20);
    }
    assert_true(ht_test_alloc_get().n_live_bytes == before.n_live_bytes);
}

static void test_alloc_double(void **state) {
    (void)state;
    struct ht_test_alloc a = ht_test_alloc_get();
    void *p = ht_alloc(0), *q = ht_calloc(3, 5), *r = ht_alloc_aligned(4096, 10);
    char *s = ht_strndup("abc", 2);
    assert_non_null(p);
    assert_int_equal((uintptr_t)r % 4096, 0);
    assert_string_equal(s, "ab");
    assert_memory_equal(q, (char[15]){0}, 15);
    struct ht_test_alloc b = ht_test_alloc_get();
    assert_int_equal(b.n_live - a.n_live, 4);
    assert_int_equal(b.n_live_bytes - a.n_live_bytes, 15 + 10 + 3);
    assert_null(ht_calloc(SIZE_MAX / 2, 3));
    assert_null(ht_realloc(q, SIZE_MAX / 2, 3));
    q = ht_realloc(q, 4, 5);
    assert_memory_equal(q, (char[15]){0}, 15);
    char *pages = ht_pages_alloc(5000);
    for (int i = 0; i < 5000; i++) assert_int_equal(pages[i], 0);
    assert_int_equal(ht_test_alloc_get().n_page_bytes - a.n_page_bytes, 5000);
    ht_pages_free(pages, 5000);
    ht_pages_free(NULL, 0);
    ht_free(p), ht_free(q), ht_free(r), ht_free(s), ht_free(NULL);
    ht_test_alloc_fail_at(2);
    p = ht_alloc(1), q = ht_alloc(1), r = ht_alloc(1);
    assert_true(p && !q && r && ht_test_alloc_failed());
    ht_free(p), ht_free(r);
    ht_test_alloc_reset();
    assert_int_equal(ht_test_alloc_get().n_live_bytes, a.n_live_bytes);
    assert_int_equal(ht_test_alloc_get().n_calls, 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_status_texts), cmocka_unit_test(test_fail),
        cmocka_unit_test(test_fail_cleans),  cmocka_unit_test(test_fail_cuts_at_a_character),
        cmocka_unit_test(test_utf8),         cmocka_unit_test(test_log),
        cmocka_unit_test(test_checked),      cmocka_unit_test(test_hash),
        cmocka_unit_test(test_sort),         cmocka_unit_test(test_clock),
        cmocka_unit_test(test_arena),        cmocka_unit_test(test_buf),
        cmocka_unit_test(test_alloc_double),
    };
    return cmocka_run_group_tests_name("base", tests, NULL, NULL);
}
