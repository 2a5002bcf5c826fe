// SPDX-License-Identifier: MIT
// Stop strings: against a search over the whole text after every piece.
#include "cmocka_all.h"

#include <stdio.h>
#include <string.h>

#include "alloc_mem.h"
#include "base/hash.h"
#include "engine/stop.h"

static uint64_t noise_state;
static uint32_t below(uint32_t n) {
    return (uint32_t)(ht_hash_u64(noise_state += 0x9e3779b97f4a7c15u) % n);
}

// Where the stop string that is complete first begins (the longest of those complete at the same
// byte); SIZE_MAX if there is none.
static size_t find_stop(const char *text, size_t n, const char *const *stop, size_t n_stop) {
    for (size_t end = 1; end <= n; end++) {
        size_t begin = SIZE_MAX;
        for (size_t s = 0; s < n_stop; s++) {
            size_t len = strlen(stop[s]);
            if (len <= end && memcmp(text + end - len, stop[s], len) == 0 && end - len < begin)
                begin = end - len;
        }
        if (begin != SIZE_MAX) return begin;
    }
    return SIZE_MAX;
}

// Bytes at the end that may begin a stop string.
static size_t find_held(const char *text, size_t n, const char *const *stop, size_t n_stop) {
    for (size_t held = n; held > 0; held--)
        for (size_t s = 0; s < n_stop; s++)
            if (held < strlen(stop[s]) && memcmp(text + n - held, stop[s], held) == 0) return held;
    return 0;
}

static const char *const letters[] = {"a", "b", "\xc3\xa9", "\xe2\x82\xac", "\n"};

static size_t random_text(char *out, uint32_t n_chars, uint32_t n_letters) {
    out[0] = 0;
    for (uint32_t i = 0; i < n_chars; i++) strcat(out, letters[below(n_letters)]);
    return strlen(out);
}

static void test_against_search(void **state) {
    (void)state;
    uint32_t n_matched = 0, n_ended = 0;
    noise_state = 3;
    for (int round = 0; round < 20000; round++) {
        char strings[4][32], text[4096], got[4096];
        const char *stop[4];
        uint32_t n_letters = 2 + below(4);
        size_t n_stop = below(5), n = 0, n_got = 0, found = SIZE_MAX;
        for (size_t i = 0; i < n_stop; i++) {
            random_text(strings[i], 1 + below(7), n_letters);
            stop[i] = strings[i];
        }
        struct ht_stop s;
        assert_int_equal(ht_stop_init(&s, stop, n_stop, 64, 2, NULL), HEARTH_OK);
        for (uint32_t piece = 0; piece < 12 && found == SIZE_MAX; piece++) {
            const char *out;
            size_t n_out, len = random_text(text + n, below(6), n_letters);
            bool matched = ht_stop_push(&s, text + n, len);
            n += len;
            found = find_stop(text, n, stop, n_stop);
            assert_int_equal(matched, found != SIZE_MAX);
            bool last = piece == 11;
            if (below(4) == 0 && !last) continue; // two pieces at once (room for that is there)
            ht_stop_take(&s, last, &out, &n_out);
            memcpy(got + n_got, out, n_out);
            n_got += n_out;
            size_t want = matched ? found : last ? n : n - find_held(text, n, stop, n_stop);
            assert_int_equal(n_got, want);
            assert_memory_equal(got, text, n_got);
            n_matched += matched;
            n_ended += last && !matched;
            if (s.n_text - s.n_taken > 64) break;
        }
        ht_stop_deinit(&s);
    }
    assert_true(n_matched > 3000 && n_ended > 3000);
}

// After "aabaaa" of "aabaaaa" a b leaves "aab": a state that is reached through two shorter ones.
static void test_falls_twice(void **state) {
    (void)state;
    static const char *const stop[] = {"aabaaaa"};
    const char *out;
    size_t n_out;
    struct ht_stop s;
    assert_int_equal(ht_stop_init(&s, stop, 1, 64, 2, NULL), HEARTH_OK);
    assert_true(ht_stop_push(&s, "aabaaabaaaa", 11));
    ht_stop_take(&s, true, &out, &n_out);
    assert_int_equal(n_out, 4);
    ht_stop_deinit(&s);
}

// A name that is a stop string takes nothing from the text: what is held comes out.
static void test_is(void **state) {
    (void)state;
    static const char *const stop[] = {"<|x|>", "b"};
    const char *out;
    size_t n_out;
    struct ht_stop s;
    assert_int_equal(ht_stop_init(&s, stop, 2, 64, 2, NULL), HEARTH_OK);
    assert_false(ht_stop_push(&s, "a<|", 3));
    assert_false(ht_stop_is(&s, "<|x|", 4));
    assert_false(ht_stop_is(&s, "x", 1));
    assert_true(ht_stop_is(&s, "<|x|>", 5));
    assert_true(ht_stop_is(&s, "b", 1));
    assert_false(ht_stop_push(&s, "\xe4", 1)); // half a character, at the end
    ht_stop_take(&s, true, &out, &n_out);
    assert_int_equal(n_out, 4);
    assert_memory_equal(out, "a<|\xe4", 4);
    ht_stop_deinit(&s);
}

// Nothing comes after a match, and `all` does not bring the stop string back.
static void test_after_match(void **state) {
    (void)state;
    static const char *const stop[] = {"STOP", "TO"};
    const char *out;
    size_t n_out;
    struct ht_stop s;
    assert_int_equal(ht_stop_init(&s, stop, 2, 64, 2, NULL), HEARTH_OK);
    assert_false(ht_stop_push(&s, "one ST", 6));
    ht_stop_take(&s, false, &out, &n_out);
    assert_int_equal(n_out, 4);
    assert_true(ht_stop_push(&s, "OP two", 6)); // "TO" is complete before "STOP"
    ht_stop_take(&s, true, &out, &n_out);
    assert_int_equal(n_out, 1);
    assert_memory_equal(out, "S", 1);
    assert_true(ht_stop_push(&s, "three", 5));
    ht_stop_take(&s, true, &out, &n_out);
    assert_int_equal(n_out, 0);
    ht_stop_deinit(&s);
}

static void test_bad_strings(void **state) {
    (void)state;
    static const char *const bad[] = {
        "", "\x80", "a\xc3", "\xed\xa0\x80", "\xf5\x80\x80\x80", "\xc0\xaf", NULL};
    struct hearth_error err;
    struct ht_stop s;
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        const char *strings[2] = {"fine", bad[i]};
        assert_int_equal(ht_stop_init(&s, strings, 2, 10, 1, &err), HEARTH_E_ARG);
        assert_non_null(strstr(err.message, "stop string 2"));
    }
    static char longest[65538];
    const char *one = longest;
    memset(longest, 'a', 65537);
    assert_int_equal(ht_stop_init(&s, &one, 1, 10, 1, &err), HEARTH_E_ARG);
    assert_non_null(strstr(err.message, "stop string 1 has 65537 bytes"));
    longest[65536] = 0;
    assert_int_equal(ht_stop_init(&s, &one, 1, 10, 1, &err), HEARTH_OK);
    ht_stop_deinit(&s);
}

static void test_allocation_fails(void **state) {
    (void)state;
    static const char *const stop[] = {"one", "two"};
    uint64_t before = ht_test_alloc_get().n_live_bytes, n;
    for (n = 1;; n++) {
        struct ht_stop s;
        ht_test_alloc_fail_at(n);
        enum hearth_status status = ht_stop_init(&s, stop, 2, 10, 1, NULL);
        bool failed = ht_test_alloc_failed();
        ht_test_alloc_fail_at(0);
        assert_int_equal(status, failed ? HEARTH_E_NOMEM : HEARTH_OK);
        if (!status) ht_stop_deinit(&s);
        assert_int_equal(ht_test_alloc_get().n_live_bytes, before);
        if (!failed) break;
    }
    assert_int_equal(n, 7);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_against_search), cmocka_unit_test(test_is),
        cmocka_unit_test(test_falls_twice),    cmocka_unit_test(test_after_match),
        cmocka_unit_test(test_bad_strings),    cmocka_unit_test(test_allocation_fails),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
