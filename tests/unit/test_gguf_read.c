// SPDX-License-Identifier: MIT
// The reader on files made by hand: sound ones, each kind of damage (right status, and a sentence
// that names the thing), every truncation, every single-byte change, every failing allocation.
#include "cmocka_all.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "alloc_mem.h"
#include "gguf/gguf.h"
#include "unit/gguf_make.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n); // fuzz/fuzz_gguf.c: opens and walks

enum place { // of fields in the sound file
    MAGIC,
    VERSION,
    N_TENSORS,
    N_KV,
    ARCH_LEN,
    ARCH_TYPE,
    ARCH_VALUE,
    ALIGN_NAME,
    ALIGN_TYPE,
    ALIGN_VALUE,
    FLAG_NAME,
    FLAG_VALUE,
    LIST_TYPE,
    LIST_N,
    WORDS_N,
    WORDS_FIRST,
    T0_LEN,
    T0_NAME,
    T0_DIMS,
    T0_NE0,
    T0_NE1,
    T0_FORMAT,
    T0_OFFSET,
    T1_NAME,
    T1_NE0,
    T1_FORMAT,
    T1_OFFSET,
    DATA,
    N_PLACES
};

static void make_meta(struct bytes *o, size_t at[N_PLACES]) {
    at[ARCH_LEN] = o->n;
    put_str(o, "general.architecture");
    at[ARCH_TYPE] = o->n;
    put_u32(o, HT_GGUF_STR);
    at[ARCH_VALUE] = o->n;
    put_str(o, "llama");
    at[ALIGN_NAME] = o->n + 8;
    at[ALIGN_TYPE] = o->n + 8 + 17;
    put_key(o, "general.alignment", HT_GGUF_U32);
    at[ALIGN_VALUE] = o->n;
    put_u32(o, 32);
    at[FLAG_NAME] = o->n + 8;
    put_key(o, "a.flag", HT_GGUF_BOOL);
    at[FLAG_VALUE] = o->n;
    put(o, "\1", 1);
    put_key(o, "a.list", HT_GGUF_ARR);
    at[LIST_TYPE] = o->n;
    put_u32(o, HT_GGUF_U16);
    at[LIST_N] = o->n;
    put_u64(o, 3);
    put(o, "\1\0\2\0\xff\xff", 6);
    put_key(o, "a.words", HT_GGUF_ARR);
    put_u32(o, HT_GGUF_STR);
    at[WORDS_N] = o->n;
    put_u64(o, 3);
    at[WORDS_FIRST] = o->n;
    put_str(o, "the");
    put_str(o, "");
    put_str(o, "cat");
    double real = 0.5;
    put_key(o, "a.real", HT_GGUF_F64);
    put(o, &real, 8);
    put_key(o, "a.neg", HT_GGUF_I8);
    put(o, "\xfd", 1);
    put_key(o, "a.big", HT_GGUF_U64);
    put_u64(o, (uint64_t)1 << 63);
}

static void make(struct bytes *o, size_t at[N_PLACES]) {
    put_head(o, 3, 2, 8);
    at[MAGIC] = 0, at[VERSION] = 4, at[N_TENSORS] = 8, at[N_KV] = 16;
    make_meta(o, at);
    size_t t = o->n;
    put_tensor(o, "blk.0.w", 2, (uint64_t[]){4, 3}, HT_F32, 0);
    at[T0_LEN] = t, at[T0_NAME] = t + 8, at[T0_DIMS] = t + 15, at[T0_NE0] = t + 19;
    at[T0_NE1] = t + 27, at[T0_FORMAT] = t + 35, at[T0_OFFSET] = t + 39;
    t = o->n;
    put_tensor(o, "blk.0.q", 1, (uint64_t[]){64}, HT_Q8_0, 64);
    at[T1_NAME] = t + 8, at[T1_NE0] = t + 19, at[T1_FORMAT] = t + 27, at[T1_OFFSET] = t + 31;
    put_pad(o, 32);
    at[DATA] = o->n;
    for (int i = 0; i < 64 + 68; i++) put(o, (uint8_t[]){(uint8_t)i}, 1);
}

static struct ht_gguf *open_ok(const struct bytes *o) {
    struct hearth_error err = {HEARTH_OK, ""};
    struct ht_gguf *g = NULL;
    if (ht_gguf_open_bytes(o->b, o->n, "t.gguf", &g, &err)) fail_msg("%s", err.message);
    return g;
}

static void test_sound(void **state) {
    (void)state;
    static struct bytes o;
    size_t at[N_PLACES];
    make(&o, at);
    for (uint32_t version = 2; version <= 3; version++) {
        memcpy(o.b + at[VERSION], &version, 4);
        struct ht_gguf *g = open_ok(&o);
        assert_int_equal(ht_gguf_version(g), version);
        assert_int_equal(ht_gguf_n_kv(g), 8);
        assert_int_equal(ht_gguf_n_tensors(g), 2);
        assert_int_equal(ht_gguf_file_bytes(g), o.n);
        assert_string_equal(ht_gguf_kv_at(g, 3)->key, "a.list");
        const struct ht_gguf_tensor *w = ht_gguf_find_tensor(g, "blk.0.w");
        const struct ht_gguf_tensor *q = ht_gguf_find_tensor(g, "blk.0.q");
        assert_ptr_equal(w, ht_gguf_tensor_at(g, 0));
        assert_int_equal(w->n_dims, 2);
        assert_int_equal(w->ne[0], 4);
        assert_int_equal(w->ne[1], 3);
        assert_int_equal(w->ne[2], 1);
        assert_int_equal(w->n_bytes, 48);
        assert_int_equal(w->offset, at[DATA]);
        assert_int_equal(w->data[1], 1);
        assert_int_equal(q->format, HT_Q8_0);
        assert_int_equal(q->n_bytes, 68);
        assert_int_equal(q->data[0], 64);
        assert_null(ht_gguf_find_tensor(g, "blk.0.x"));
        assert_null(ht_gguf_find(g, "a.lis"));
        ht_gguf_close(g);
    }
}

static void test_typed(void **state) {
    (void)state;
    static struct bytes o;
    size_t at[N_PLACES];
    struct hearth_error err;
    make(&o, at);
    struct ht_gguf *g = open_ok(&o);
    uint32_t u = 7;
    float f = 7;
    bool b = false;
    struct ht_str s = {NULL, 0};
    assert_int_equal(ht_gguf_get_u32(g, "general.alignment", true, &u, &err), HEARTH_OK);
    assert_int_equal(u, 32);
    assert_int_equal(ht_gguf_get_f32(g, "a.real", true, &f, &err), HEARTH_OK);
    assert_true(f == 0.5f);
    assert_int_equal(ht_gguf_get_bool(g, "a.flag", true, &b, &err), HEARTH_OK);
    assert_true(b);
    assert_int_equal(ht_gguf_get_str(g, "general.architecture", true, &s, &err), HEARTH_OK);
    assert_int_equal(s.len, 5);
    assert_memory_equal(s.data, "llama", 5);
    const struct ht_gguf_kv *list = ht_gguf_find(g, "a.list");
    assert_int_equal(list->n, 3);
    assert_int_equal(ht_gguf_int_at(list, 2), 65535);
    assert_int_equal(ht_gguf_int_at(ht_gguf_find(g, "a.neg"), 0), -3);
    assert_true(ht_gguf_num_at(ht_gguf_find(g, "a.big"), 0) == 9223372036854775808.0);
    const struct ht_gguf_kv *words = ht_gguf_find(g, "a.words");
    const char *expected[] = {"the", "", "cat"};
    const uint8_t *cursor = NULL;
    for (int i = 0; i < 3; i++) {
        assert_true(ht_gguf_next_str(words, &cursor, &s));
        assert_int_equal(s.len, strlen(expected[i]));
        assert_memory_equal(s.data, expected[i], s.len);
    }
    assert_false(ht_gguf_next_str(words, &cursor, &s));

    u = 9; // absent and optional: left as it is
    assert_int_equal(ht_gguf_get_u32(g, "a.none", false, &u, &err), HEARTH_OK);
    assert_int_equal(u, 9);
    assert_int_equal(ht_gguf_get_u32(g, "a.none", true, &u, &err), HEARTH_E_FORMAT);
    assert_string_equal(err.message, "t.gguf: metadata key a.none is missing");
    assert_int_equal(ht_gguf_get_u32(g, "a.neg", false, &u, &err), HEARTH_E_FORMAT);
    assert_non_null(strstr(err.message, "a.neg is -3"));
    assert_int_equal(ht_gguf_get_u32(g, "a.big", false, &u, &err), HEARTH_E_FORMAT);
    assert_non_null(strstr(err.message, "9223372036854775808"));
    assert_int_equal(ht_gguf_get_f32(g, "a.list", false, &f, &err), HEARTH_E_FORMAT);
    assert_string_equal(err.message,
                        "t.gguf: metadata key a.list is of type arr[u16,3], f32 was expected");
    assert_int_equal(ht_gguf_get_str(g, "a.flag", false, &s, &err), HEARTH_E_FORMAT);
    assert_int_equal(ht_gguf_get_bool(g, "a.real", false, &b, &err), HEARTH_E_FORMAT);
    assert_int_equal(u, 9);
    ht_gguf_close(g);
}

// Numbers at the ends of their types.
static void test_limits(void **state) {
    (void)state;
    static struct bytes o;
    struct hearth_error err;
    uint32_t u = 9;
    float f = 9;
    double huge = 1e300;
    put_head(&o, 3, 0, 3);
    put_key(&o, "a.max", HT_GGUF_U64);
    put_u64(&o, UINT64_MAX);
    put_key(&o, "a.big", HT_GGUF_U64);
    put_u64(&o, (uint64_t)1 << 63);
    put_key(&o, "a.huge", HT_GGUF_F64);
    put(&o, &huge, 8);
    struct ht_gguf *g = open_ok(&o);
    const struct ht_gguf_kv *max = ht_gguf_find(g, "a.max"), *big = ht_gguf_find(g, "a.big");
    assert_true(ht_gguf_int_at(max, 0) == -1); // what converters write for "none"
    assert_true(ht_gguf_int_at(big, 0) == INT64_MAX);
    assert_true(ht_gguf_bits_at(max, 0) == UINT64_MAX);
    assert_int_equal(ht_gguf_get_u32(g, "a.max", true, &u, &err), HEARTH_E_FORMAT);
    assert_non_null(strstr(err.message, "18446744073709551615"));
    assert_int_equal(ht_gguf_get_f32(g, "a.huge", true, &f, &err), HEARTH_E_FORMAT);
    assert_true(u == 9 && f == 9);
    ht_gguf_close(g);
}

struct damage { // n_bytes of value are written at a place
    const char *says;
    enum place place;
    int n_bytes;
    uint64_t value;
    enum hearth_status status;
};

#define BAD HEARTH_E_FORMAT
#define UNS HEARTH_E_UNSUPPORTED
#define NO  HEARTH_OK

static const struct damage damages[] = {
    {"not 'GGUF'", MAGIC, 1, 0x88, BAD},
    {"is GGUF version 1, 2 and 3 are supported", VERSION, 4, 1, UNS},
    {"is GGUF version 4", VERSION, 4, 4, UNS},
    {"big-endian GGUF file (version 3", VERSION, 4, 0x03000000, UNS},
    {"18446744073709551615 tensors", N_TENSORS, 8, UINT64_MAX, BAD},
    {"1000000 tensors", N_TENSORS, 8, 1000000, BAD},
    {"18446744073709551615 metadata keys", N_KV, 8, UINT64_MAX, BAD},
    {"1000 metadata keys", N_KV, 8, 1000, BAD},
    {"metadata key of number 0, at byte 24, is 0 bytes", ARCH_LEN, 8, 0, BAD},
    {"is 18446744073709551615 bytes long, 1 to 65535", ARCH_LEN, 8, UINT64_MAX, BAD},
    {"the metadata key of number 0", ARCH_LEN, 8, 60000, BAD},
    {"'general.architecture' has value type 13", ARCH_TYPE, 4, 13, BAD},
    {"'general.architecture' has value type 4294967295", ARCH_TYPE, 4, UINT32_MAX, BAD},
    {"metadata key 'general.architecture': string 0 of 1", ARCH_VALUE, 8, UINT64_MAX, BAD},
    {"metadata key 'general.architecture': string 0 of 1", ARCH_VALUE, 8, 100000, BAD},
    {"'\\x01eneral.alignment', text without control characters", ALIGN_NAME, 1, 1, BAD},
    {"'\\xffeneral.alignment', text without", ALIGN_NAME, 1, 255, BAD},
    {"general.alignment is of type f32, an integer", ALIGN_TYPE, 4, HT_GGUF_F32, BAD},
    {"general.alignment is 0, a power of two", ALIGN_VALUE, 4, 0, BAD},
    {"general.alignment is 33, a power of two", ALIGN_VALUE, 4, 33, BAD},
    {"general.alignment is 4, a power of two from 8", ALIGN_VALUE, 4, 4, BAD},
    {"general.alignment is 2147483648, a power of two", ALIGN_VALUE, 4, 0x80000000u, BAD},
    {"a multiple of general.alignment (1073741824)", ALIGN_VALUE, 4, 1 << 30, BAD},
    {"'a.flag' holds 2 as a bool", FLAG_VALUE, 1, 2, BAD},
    {"'a.list' is an array of arrays", LIST_TYPE, 4, HT_GGUF_ARR, UNS},
    {"'a.list' has element type 77", LIST_TYPE, 4, 77, BAD},
    {"'a.list': 2000 bytes are wanted", LIST_N, 8, 1000, BAD},
    {"'a.list' has 9223372036854775808 elements", LIST_N, 8, (uint64_t)1 << 63, BAD},
    {"'a.words': string 5", WORDS_N, 8, UINT64_MAX, BAD},
    {"'a.words': string 0 of 3", WORDS_FIRST, 8, UINT64_MAX - 7, BAD},
    {"tensor name of number 0", T0_LEN, 8, 65, BAD},
    {"tensor name of number 0", T0_LEN, 8, 0, BAD},
    {"'\\x00lk.0.w'", T0_NAME, 1, 0, BAD},
    {"tensor 'blk.0.w' has 5 dimensions", T0_DIMS, 4, 5, BAD},
    {"tensor 'blk.0.w' has length 0 in dimension 0", T0_NE0, 8, 0, BAD},
    {"tensor 'blk.0.w' of 1 x 1 x 3 x 9223372036854775808", T0_NE0, 8, (uint64_t)1 << 63, BAD},
    {"1 x 1 x 4611686018427387904 x 4", T0_NE1, 8, (uint64_t)1 << 62, BAD},
    {"tensor 'blk.0.w' of 9223372036854775792 bytes", T0_NE1, 8, ((uint64_t)1 << 59) - 1, BAD},
    {"is cut short", T0_NE1, 8, 1000, BAD},
    {"tensor 'blk.0.w' has type 4 (Q4_2", T0_FORMAT, 4, 4, UNS},
    {"tensor 'blk.0.w' has type 33 (Q4_0_8_8", T0_FORMAT, 4, 33, UNS},
    {"tensor 'blk.0.w' has type 12345 (unknown", T0_FORMAT, 4, 12345, UNS},
    {"rows of 4 weights, a multiple of 32 was expected for Q8_0", T0_FORMAT, 4, HT_Q8_0, BAD},
    {"tensor 'blk.0.w' lies at offset 8, a multiple of", T0_OFFSET, 8, 8, BAD},
    {"offset 18446744073709551584", T0_OFFSET, 8, UINT64_MAX - 31, BAD},
    {"is cut short", T0_OFFSET, 8, 1 << 20, BAD},
    {"tensor 'blk.0.w' occurs twice", T1_NAME, 7, 0, BAD},
    {"rows of 65 weights, a multiple of 32", T1_NE0, 8, 65, BAD},
    {"", T1_OFFSET, 8, 0, NO},  // sharing bytes is not forbidden
    {"", T1_FORMAT, 4, 24, NO}, // I8: known by name, though no weight format
};

static void test_damage(void **state) {
    (void)state;
    static struct bytes o;
    size_t at[N_PLACES];
    for (size_t i = 0; i < sizeof(damages) / sizeof(damages[0]); i++) {
        const struct damage *d = &damages[i];
        struct hearth_error err = {HEARTH_OK, ""};
        struct ht_gguf *g = NULL;
        make(&o, at);
        memcpy(o.b + at[d->place], d->place == T1_NAME ? (const void *)"blk.0.w" : &d->value,
               (size_t)d->n_bytes);
        enum hearth_status s = ht_gguf_open_bytes(o.b, o.n, "t.gguf", &g, &err);
        if (s != d->status || (s && !strstr(err.message, d->says))) {
            fail_msg("damage %zu: %s \"%s\"; expected %s \"%s\"", i, hearth_status_name(s),
                     err.message, hearth_status_name(d->status), d->says);
        }
        assert_true(s || g);
        ht_gguf_close(g);
    }
}

static void test_twice(void **state) {
    (void)state;
    static struct bytes o;
    struct hearth_error err;
    struct ht_gguf *g = NULL;
    put_head(&o, 3, 0, 2);
    for (int i = 0; i < 2; i++) {
        put_key(&o, "a.b", HT_GGUF_U32);
        put_u32(&o, 1);
    }
    assert_int_equal(ht_gguf_open_bytes(o.b, o.n, "t.gguf", &g, &err), HEARTH_E_FORMAT);
    assert_string_equal(err.message, "t.gguf: metadata key 'a.b' occurs twice");
}

static void test_aliens(void **state) {
    (void)state;
    static const struct {
        const char *bytes;
        size_t n;
        const char *says;
        enum hearth_status status;
    } files[] = {
        {"", 0, "is empty (0 bytes)", BAD},
        {"GG", 2, "ends after 2 of the first four bytes 'GGUF'", BAD},
        {"GGUF", 4, "ends inside the header", BAD},
        {"GGUF\3\0\0\0\1\0", 10, "ends inside the header", BAD},
        {"<!DOCTYPE html>\n<html>", 22, "is a web page (it starts with '<!DOCTYPE html>')", BAD},
        {"\n  <html>", 9, "is a web page (it starts with '<html>')", BAD},
        {"\xef\xbb\xbf<html>", 9, "is a web page", BAD},
        {"Entry not found", 15, "is text (it starts with 'Entry not found')", BAD},
        {"version https://git-lfs.github.com/spec/v1\noid sha256:0a\nsize 639446688\n", 72,
         "git-lfs pointer of 72 bytes in place of the model (639446688 bytes)", BAD},
        {"version https://git-lfs.github.com/spec/v1\n", 43, "in place of the model; fetch", BAD},
        {"PK\3\4rest", 8, "is a zip archive", UNS},
        {"tjgg\3\0\0\0", 8, "old GGML format 'ggjt'", UNS},
        {"lmgg\3\0\0\0", 8, "old GGML format 'ggml'", UNS},
        {"\x80\2}q\0X", 6, "Python pickle", UNS},
        {"\x1f\x8b\x08\0\0\0", 6, "gzip", UNS},
        {"\x40\0\0\0\0\0\0\0{\"__metadata__\":{}}", 26, "safetensors", UNS},
        {"\0\0\0\0\0\0\0\0\0\0\0\0", 12, "zeros only", BAD},
    };
    for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++) {
        struct hearth_error err = {HEARTH_OK, ""};
        struct ht_gguf *g = NULL;
        enum hearth_status s = ht_gguf_open_bytes(files[i].bytes, files[i].n, "t.gguf", &g, &err);
        if (s != files[i].status || !strstr(err.message, files[i].says) ||
            strncmp(err.message, "t.gguf: ", 8) != 0) {
            fail_msg("alien %zu: %s \"%s\"; expected \"%s\"", i, hearth_status_name(s), err.message,
                     files[i].says);
        }
    }
}

// The input lies against a page that faults.
struct guard {
    uint8_t *base;
    size_t room, page;
};

static void guard_make(struct guard *m, size_t n) {
    m->page = (size_t)sysconf(_SC_PAGESIZE);
    m->room = (n + m->page - 1) / m->page * m->page;
    m->base =
        mmap(NULL, m->room + m->page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_true(m->base != MAP_FAILED);
    assert_int_equal(mprotect(m->base + m->room, m->page, PROT_NONE), 0);
}

static void test_truncated(void **state) {
    (void)state;
    static struct bytes o;
    size_t at[N_PLACES];
    struct guard m;
    make(&o, at);
    guard_make(&m, o.n);
    for (size_t n = 0; n < o.n; n++) {
        struct hearth_error err = {HEARTH_OK, ""};
        struct ht_gguf *g = NULL;
        uint8_t *p = m.base + m.room - n;
        char says[64];
        memcpy(p, o.b, n);
        enum hearth_status s = ht_gguf_open_bytes(p, n, "t.gguf", &g, &err);
        if (s != HEARTH_E_FORMAT || g) fail_msg("%zu of %zu bytes: status %d", n, o.n, (int)s);
        snprintf(says, sizeof(says), ", %zu are missing", o.n - n);
        if (n >= at[DATA] && !strstr(err.message, says)) {
            fail_msg("%zu of %zu bytes: %s", n, o.n, err.message);
        }
    }
    munmap(m.base, m.room + m.page);
}

static void test_one_byte_changed(void **state) {
    (void)state;
    static struct bytes o;
    size_t at[N_PLACES];
    struct guard m;
    make(&o, at);
    guard_make(&m, o.n);
    uint8_t *p = m.base + m.room - o.n;
    memcpy(p, o.b, o.n);
    LLVMFuzzerTestOneInput(p, o.n);
    for (size_t i = 0; i < at[DATA]; i++) {
        for (int v = 0; v < 256; v++) {
            p[i] = (uint8_t)v;
            LLVMFuzzerTestOneInput(p, o.n);
        }
        p[i] = o.b[i];
    }
    munmap(m.base, m.room + m.page);
}

static void test_no_memory(void **state) {
    (void)state;
    static struct bytes o;
    size_t at[N_PLACES];
    make(&o, at);
    for (uint64_t n = 1; n < 1000; n++) {
        struct hearth_error err = {HEARTH_OK, ""};
        struct ht_gguf *g = NULL;
        uint64_t before = ht_test_alloc_get().n_live_bytes;
        ht_test_alloc_fail_at(n);
        enum hearth_status s = ht_gguf_open_bytes(o.b, o.n, "t.gguf", &g, &err);
        bool failed = ht_test_alloc_failed();
        ht_test_alloc_fail_at(0);
        ht_gguf_close(g);
        assert_int_equal(ht_test_alloc_get().n_live_bytes, before);
        assert_int_equal(s, failed ? HEARTH_E_NOMEM : HEARTH_OK);
        if (!failed) {
            assert_true(n > 2); // it does allocate
            return;
        }
    }
    fail_msg("opening never got through");
}

// ---- split files

static char folder[] = "/tmp/hearth-gguf-XXXXXX";

static void write_part(const char *name, const struct bytes *o) {
    char path[256];
    snprintf(path, sizeof(path), "%s/%s", folder, name);
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(o->b, 1, o->n, f), o->n);
    fclose(f);
}

static void make_part(struct bytes *o, uint16_t no, uint16_t count, int32_t n_all,
                      const char *tensor) {
    put_head(o, 3, tensor ? 1 : 0, no == 0 ? 4 : 3);
    put_key(o, "split.no", HT_GGUF_U16);
    put(o, &no, 2);
    put_key(o, "split.count", HT_GGUF_U16);
    put(o, &count, 2);
    put_key(o, "split.tensors.count", HT_GGUF_I32);
    put(o, &n_all, 4);
    if (no == 0) {
        put_key(o, "general.name", HT_GGUF_STR);
        put_str(o, "three");
    }
    if (!tensor) return;
    put_tensor(o, tensor, 1, (uint64_t[]){2}, HT_F32, 0);
    put_pad(o, 32);
    put_u32(o, no);
    put_u32(o, no);
}

static enum hearth_status open_in_folder(const char *name, struct ht_gguf **g,
                                         struct hearth_error *err) {
    char path[256];
    snprintf(path, sizeof(path), "%s/%s", folder, name);
    return ht_gguf_open(path, g, err);
}

// Opening fails at each allocation in turn, and nothing stays behind.
static void fail_each_allocation(const char *name) {
    for (uint64_t n = 1; n < 1000; n++) {
        struct hearth_error err = {HEARTH_OK, ""};
        struct ht_gguf *g = NULL;
        uint64_t before = ht_test_alloc_get().n_live_bytes;
        ht_test_alloc_fail_at(n);
        enum hearth_status s = open_in_folder(name, &g, &err);
        bool failed = ht_test_alloc_failed();
        ht_test_alloc_fail_at(0);
        ht_gguf_close(g);
        assert_int_equal(ht_test_alloc_get().n_live_bytes, before);
        assert_int_equal(s, failed ? HEARTH_E_NOMEM : HEARTH_OK);
        if (!failed) return;
    }
    fail_msg("opening never got through");
}

static void test_split(void **state) {
    (void)state;
    static struct bytes o;
    struct hearth_error err = {HEARTH_OK, ""};
    struct ht_gguf *g = NULL;
    const char *names[] = {"m-00001-of-00003.gguf", "m-00002-of-00003.gguf",
                           "m-00003-of-00003.gguf"};
    const char *tensors[] = {NULL, "a.weight", "b.weight"};
    assert_non_null(mkdtemp(folder));
    size_t n_bytes = 0;
    for (uint16_t i = 0; i < 3; i++) {
        make_part(&o, i, 3, 2, tensors[i]);
        write_part(names[i], &o);
        n_bytes += o.n;
    }
    for (int i = 0; i < 3; i++) { // any part opens all
        if (open_in_folder(names[i], &g, &err)) fail_msg("%s", err.message);
        assert_int_equal(ht_gguf_n_parts(g), 3);
        assert_int_equal(ht_gguf_n_tensors(g), 2);
        assert_int_equal(ht_gguf_file_bytes(g), n_bytes);
        assert_non_null(ht_gguf_find(g, "general.name"));
        const struct ht_gguf_tensor *b = ht_gguf_find_tensor(g, "b.weight");
        assert_int_equal(b->part, 2);
        assert_int_equal(b->data[0], 2);
        ht_gguf_close(g);
    }
    char path[256];
    snprintf(path, sizeof(path), "%s/%s", folder, names[1]);
    if (ht_gguf_open_copy(path, n_bytes, &g, &err)) fail_msg("%s", err.message);
    assert_int_equal(ht_gguf_n_parts(g), 3);
    assert_int_equal(ht_gguf_find_tensor(g, "b.weight")->data[0], 2);
    assert_int_equal(ht_gguf_taken_bytes(g), ht_gguf_file_bytes(g));
    ht_gguf_close(g);
    g = NULL;
    assert_int_equal(ht_gguf_open_copy(path, n_bytes - 1, &g, &err), HEARTH_E_NOMEM); // of all
    assert_null(g);
    fail_each_allocation(names[1]);
    g = NULL;
    make_part(&o, 2, 3, 2, "a.weight");
    write_part(names[2], &o);
    assert_int_equal(open_in_folder(names[0], &g, &err), HEARTH_E_FORMAT);
    assert_non_null(strstr(err.message, "m-00003-of-00003.gguf: tensor 'a.weight' occurs twice"));
    make_part(&o, 1, 3, 2, "b.weight");
    write_part(names[2], &o);
    assert_int_equal(open_in_folder(names[0], &g, &err), HEARTH_E_FORMAT);
    assert_non_null(strstr(err.message, "metadata says part 2 of 3, its name says part 3 of 3"));
    make_part(&o, 2, 4, 2, "b.weight");
    write_part(names[2], &o);
    assert_int_equal(open_in_folder(names[0], &g, &err), HEARTH_E_FORMAT);
    assert_non_null(strstr(err.message, "metadata says part 3 of 4, its name says part 3 of 3"));
    make_part(&o, 2, 3, 2, "b.weight");
    write_part(names[2], &o);
    make_part(&o, 0, 3, 1, NULL);
    write_part(names[0], &o);
    assert_int_equal(open_in_folder(names[0], &g, &err), HEARTH_E_FORMAT);
    assert_non_null(strstr(err.message, "split.tensors.count is 1, the 3 parts hold 2 tensors"));
    make_part(&o, 2, 3, 3, NULL);
    write_part(names[2], &o);
    make_part(&o, 0, 3, 3, NULL);
    write_part(names[0], &o);
    assert_int_equal(open_in_folder(names[1], &g, &err), HEARTH_E_FORMAT);
    assert_non_null(strstr(err.message, "split.tensors.count is 3, the 3 parts hold 1 tensors"));
    write_part("alone.gguf", &o);
    assert_int_equal(open_in_folder("alone.gguf", &g, &err), HEARTH_E_FORMAT);
    assert_non_null(strstr(err.message, "ends in -00001-of-00003.gguf"));
    snprintf(path, sizeof(path), "%s/%s", folder, names[1]);
    assert_int_equal(unlink(path), 0);
    assert_int_equal(open_in_folder(names[0], &g, &err), HEARTH_E_IO);
    assert_non_null(strstr(err.message, "part 2 of 3 of a split model: "));
    assert_int_equal(ht_gguf_open_bytes(o.b, o.n, "t.gguf", &g, &err), HEARTH_E_UNSUPPORTED);
    make_part(&o, 3, 3, 3, NULL);
    write_part(names[0], &o);
    assert_int_equal(open_in_folder(names[0], &g, &err), HEARTH_E_FORMAT);
    assert_non_null(strstr(err.message, "split.no is 3"));
    assert_null(g);
    const char *made[] = {names[0], names[2], "alone.gguf"};
    for (int i = 0; i < 3; i++) {
        snprintf(path, sizeof(path), "%s/%s", folder, made[i]);
        unlink(path);
    }
    rmdir(folder);
}

// A head alone opens as soon as the table is there, and says what else is missing.
static void test_head(void **state) {
    (void)state;
    static struct bytes o;
    size_t at[N_PLACES], least = 0;
    char path[256], says[64];
    strcpy(folder, "/tmp/hearth-gguf-XXXXXX");
    assert_non_null(mkdtemp(folder));
    snprintf(path, sizeof path, "%s/cut.gguf", folder);
    make(&o, at);
    const size_t n_whole = o.n;
    for (size_t n = 0; n <= n_whole; n++) {
        struct hearth_error err = {HEARTH_OK, ""};
        struct ht_gguf *g = NULL;
        o.n = n;
        write_part("cut.gguf", &o);
        enum hearth_status s = ht_gguf_open_head(path, &g, &err);
        if (s == HEARTH_OK && least == 0) least = n;
        if (s != (least ? HEARTH_OK : HEARTH_E_FORMAT)) fail_msg("%zu bytes: %s", n, err.message);
        if (s) continue;
        assert_int_equal(ht_gguf_is_whole(g, &err), n < n_whole ? HEARTH_E_FORMAT : HEARTH_OK);
        snprintf(says, sizeof says, ", %zu are missing", n_whole - n);
        assert_true(n == n_whole || strstr(err.message, says));
        assert_true(n == n_whole || strstr(err.message, path));
        for (size_t i = 0; i < ht_gguf_n_tensors(g); i++)
            assert_true((ht_gguf_tensor_at(g, i)->data != NULL) == (n == n_whole));
        ht_gguf_close(g);
    }
    assert_in_range(least, at[DATA] - 31, at[DATA]); // the data begin at a multiple of 32
    unlink(path);
    // Of two parts the second is cut.
    struct hearth_error err = {HEARTH_OK, ""};
    struct ht_gguf *g = NULL;
    static const char *const names[] = {"m-00001-of-00002.gguf", "m-00002-of-00002.gguf"};
    make_part(&o, 0, 2, 2, "a.weight");
    write_part(names[0], &o);
    make_part(&o, 1, 2, 2, "b.weight");
    o.n--;
    write_part(names[1], &o);
    assert_int_equal(open_in_folder(names[0], &g, &err), HEARTH_E_FORMAT);
    snprintf(path, sizeof path, "%s/%s", folder, names[0]);
    if (ht_gguf_open_head(path, &g, &err)) fail_msg("%s", err.message);
    assert_int_equal(ht_gguf_is_whole(g, &err), HEARTH_E_FORMAT);
    assert_non_null(strstr(err.message, "m-00002-of-00002.gguf: is cut short"));
    assert_non_null(ht_gguf_find_tensor(g, "a.weight")->data);
    assert_null(ht_gguf_find_tensor(g, "b.weight")->data);
    ht_gguf_close(g);
    for (int i = 0; i < 2; i++) {
        snprintf(path, sizeof path, "%s/%s", folder, names[i]);
        unlink(path);
    }
    rmdir(folder);
}

// Bytes of the caller are its own memory, or a file's that it has mapped: then they are as a file
// that is opened by its name.
static void check_taken(const char *path) {
    struct ht_gguf *g, *mapped, *own;
    struct hearth_error err;
    if (ht_gguf_open(path, &g, &err)) fail_msg("%s", err.message);
    size_t n = (size_t)ht_gguf_file_bytes(g);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    void *map = mmap(NULL, n, PROT_READ, MAP_SHARED, fd, 0), *copy = malloc(n);
    assert_true(fd >= 0 && map != MAP_FAILED && copy);
    memcpy(copy, map, n);
    if (ht_gguf_open_bytes(map, n, "mapped", &mapped, &err)) fail_msg("%s", err.message);
    if (ht_gguf_open_bytes(copy, n, "own", &own, &err)) fail_msg("%s", err.message);
    assert_int_equal(ht_gguf_taken_bytes(mapped), ht_gguf_taken_bytes(g));
    assert_int_equal(ht_gguf_taken_bytes(own), n);
    ht_gguf_close(own), ht_gguf_close(mapped), ht_gguf_close(g);
    free(copy);
    munmap(map, n);
    close(fd);
}

static void test_paths(void **state) {
    (void)state;
    struct hearth_error err;
    struct ht_gguf *g = NULL;
    assert_int_equal(ht_gguf_open("/nowhere/m.gguf", &g, &err), HEARTH_E_IO);
    assert_non_null(strstr(err.message, "/nowhere/m.gguf"));
    assert_int_equal(ht_gguf_open("/tmp", &g, &err), HEARTH_E_IO);
    assert_non_null(strstr(err.message, "directory"));
    assert_null(g);
    if (access("data/spark.gguf", R_OK) == 0) check_taken("data/spark.gguf");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_limits),
        cmocka_unit_test(test_sound),
        cmocka_unit_test(test_typed),
        cmocka_unit_test(test_damage),
        cmocka_unit_test(test_twice),
        cmocka_unit_test(test_aliens),
        cmocka_unit_test(test_truncated),
        cmocka_unit_test(test_no_memory),
        cmocka_unit_test(test_one_byte_changed),
        cmocka_unit_test(test_split),
        cmocka_unit_test(test_head),
        cmocka_unit_test(test_paths),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
