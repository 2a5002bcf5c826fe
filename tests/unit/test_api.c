// SPDX-License-Identifier: MIT
// api: files with their metadata as JSON text, copies in other formats, the built-in model, and
// running out of memory on the way to a model. Through hearth.h alone, but for the writer that
// makes the files, and jansson, which reads the JSON back.
#include "cmocka_all.h"

#include <jansson.h>
#include <locale.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "alloc_mem.h"
#include "gguf/gguf.h"
#include "hearth/hearth.h"
#include "shared_dir.h"

static char path[] = "/tmp/hearth-api-XXXXXX", path2[] = "/tmp/hearth-api-XXXXXX";

static int make_paths(void **state) {
    (void)state;
    int a = mkstemp(path), b = mkstemp(path2);
    if (a < 0 || b < 0) return -1;
    close(a), close(b);
    return 0;
}

static int remove_paths(void **state) {
    (void)state;
    unlink(path), unlink(path2);
    return 0;
}

// The path of a file below the shared folder; skips the test where it is absent.
static void need_shared(char out[500], const char *name) {
    snprintf(out, 500, "%s/%s", shared_dir(), name);
    if (access(out, R_OK) == 0) return;
    print_message("skipped: %s is not there (set HEARTH_SHARED)\n", out);
    skip();
}

static hearth_file *open_file(const char *name) {
    hearth_file *f;
    struct hearth_error err;
    if (hearth_file_open(name, &f, &err)) fail_msg("%s", err.message);
    return f;
}

// ---- metadata

static void write_meta(void) {
    struct ht_gguf_writer *w;
    struct hearth_error err;
    static const struct ht_str words[] = {{"a", 1}, {"", 0}, {"\xc3\xa9\"", 3}};
    static const float floats[] = {0.1f, 1e-30f, -0.0f, 16777216, NAN, -INFINITY, 15.9499655f};
    static const uint64_t large[] = {UINT64_MAX, 0};
    static const int8_t small[] = {-128, 127};
    assert_int_equal(ht_gguf_writer_create(&w, &err), HEARTH_OK);
    ht_gguf_put_str(w, "general.architecture", "none", 4);
    ht_gguf_put_str(w, "t.text", "tab\t quote\" back\\ \xf0\x9f\x98\x80 \xff \x01\xc2\x85", 28);
    ht_gguf_put_u32(w, "t.u32", 4294967295u);
    ht_gguf_put_i32(w, "t.i32", -5);
    ht_gguf_put_u64(w, "t.u64", UINT64_MAX);
    ht_gguf_put_f32(w, "t.f32", 0.1f);
    ht_gguf_put_bool(w, "t.yes", true);
    ht_gguf_put_bool(w, "t.no", false);
    ht_gguf_put_str_array(w, "t.words", words, 3);
    ht_gguf_put_array(w, "t.floats", HT_GGUF_F32, floats, 7);
    ht_gguf_put_array(w, "t.large", HT_GGUF_U64, large, 2);
    ht_gguf_put_array(w, "t.small", HT_GGUF_I8, small, 2);
    ht_gguf_put_array(w, "t.none", HT_GGUF_U32, NULL, 0);
    static const double doubles[] = {1.0 / 3, 0.1 + 0.2};
    ht_gguf_put_array(w, "t.f64", HT_GGUF_F64, doubles, 2);
    static const float data[12] = {1, 2, 3};
    ht_gguf_put_tensor(w, "m", HT_F32, 2, (const uint64_t[]){4, 3}, data);
    ht_gguf_put_tensor(w, "v", HT_F32, 1, (const uint64_t[]){5}, data);
    if (ht_gguf_writer_finish(w, path, &err)) fail_msg("%s", err.message);
    ht_gguf_writer_destroy(w);
}

// The entry of a key, read back by jansson; its type text in *type.
static json_t *meta(const hearth_file *f, const char *key, size_t max_items, char type[32]) {
    for (size_t i = 0; i < hearth_file_n_meta(f); i++) {
        const char *k;
        char text[4096];
        size_t n = hearth_file_meta(f, i, max_items, &k, type, text, sizeof text);
        if (strcmp(k, key) != 0) continue;
        assert_int_equal(n, strlen(text));
        // Any shorter buffer gets the front of it, a 0, and the same length.
        for (size_t n_buf = 0; n_buf <= n + 1; n_buf++) {
            char cut[4096];
            memset(cut, '#', sizeof cut);
            assert_int_equal(hearth_file_meta(f, i, max_items, &k, type, n_buf ? cut : NULL, n_buf),
                             n);
            if (n_buf == 0) continue;
            assert_int_equal(strlen(cut), n_buf - 1);
            assert_memory_equal(cut, text, n_buf - 1);
            assert_int_equal(cut[n_buf], '#');
        }
        json_error_t err;
        json_t *v = json_loads(text, JSON_DECODE_ANY, &err);
        if (!v) fail_msg("%s: %s: %s", key, text, err.text);
        return v;
    }
    fail_msg("no key %s", key);
    return NULL;
}

static void expect_meta(const hearth_file *f, const char *key, const char *type, json_t *v) {
    char found[32];
    json_t *m = meta(f, key, SIZE_MAX, found);
    assert_string_equal(found, type);
    if (!json_equal(m, v)) fail_msg("%s: %s", key, json_dumps(m, JSON_ENCODE_ANY));
    json_decref(m);
    json_decref(v);
}

static void test_meta(void **state) {
    (void)state;
    write_meta();
    hearth_file *f = open_file(path);
    char type[32];
    expect_meta(f, "t.text", "str",
                json_string("tab\t quote\" back\\ \xf0\x9f\x98\x80 \xef\xbf\xbd \x01\xc2\x85"));
    expect_meta(f, "t.u32", "u32", json_integer(4294967295));
    expect_meta(f, "t.i32", "i32", json_integer(-5));
    expect_meta(f, "t.yes", "bool", json_true());
    expect_meta(f, "t.no", "bool", json_false());
    expect_meta(f, "t.f32", "f32", json_real(0.1)); // not 0.10000000149
    expect_meta(f, "t.words", "arr[str,3]", json_pack("[sss]", "a", "", "\xc3\xa9\""));
    expect_meta(f, "t.small", "arr[i8,2]", json_pack("[ii]", -128, 127));
    expect_meta(f, "t.none", "arr[u32,0]", json_array());
    expect_meta(f, "t.f64", "arr[f64,2]", json_pack("[ff]", 1.0 / 3, 0.1 + 0.2));
    json_t *m = meta(f, "t.words", 2, type);
    json_t *cut = json_pack("[sss]", "a", "", "...");
    assert_true(json_equal(m, cut));
    json_decref(m), json_decref(cut);
    m = meta(f, "t.words", 3, type); // exactly all: no "..."
    assert_int_equal(json_array_size(m), 3);
    json_decref(m);
    // Numbers that are no JSON become strings; UINT64_MAX, too large for jansson, is looked at raw.
    m = meta(f, "t.floats", SIZE_MAX, type);
    assert_true(json_number_value(json_array_get(m, 0)) == 0.1);
    assert_true((float)json_number_value(json_array_get(m, 1)) == 1e-30f);
    assert_true(json_number_value(json_array_get(m, 3)) == 16777216);
    assert_string_equal(json_string_value(json_array_get(m, 4)), "nan");
    assert_string_equal(json_string_value(json_array_get(m, 5)), "-inf");
    assert_true((float)json_number_value(json_array_get(m, 6)) == 15.9499655f); // all nine digits
    json_decref(m);
    char text[100] = "";
    const char *key = "";
    for (size_t i = 0; i < hearth_file_n_meta(f) && strcmp(key, "t.large") != 0; i++)
        hearth_file_meta(f, i, 9, &key, type, text, sizeof text);
    assert_string_equal(text, "[18446744073709551615,0]");
    assert_int_equal(hearth_file_meta(f, 999, 9, &key, type, text, sizeof text), 0);
    size_t n_bytes = 99;
    assert_null(hearth_file_meta_text(f, "t.large", &n_bytes)); // no text
    assert_int_equal(n_bytes, 0);
    assert_null(hearth_file_meta_text(f, "t.nowhere", &n_bytes));
    const char *as_it_is = hearth_file_meta_text(f, "t.text", &n_bytes);
    assert_int_equal(n_bytes, 28);
    assert_memory_equal(as_it_is, "tab\t quote\" back\\ \xf0\x9f\x98\x80 \xff \x01\xc2\x85", 28);
    hearth_file_close(f);
}

// A program may have set a locale in which 0.1 is written 0,1.
static void test_meta_in_a_locale(void **state) {
    (void)state;
    static const char *const names[] = {"de_DE.UTF-8", "de_DE.utf8", "fr_FR.UTF-8", "fr_FR.utf8"};
    const char *set = NULL;
    char dir[] = "/tmp/hearth-locale-XXXXXX", command[200]; // few machines have one: made here
    assert_non_null(mkdtemp(dir));
    snprintf(command, sizeof command, "localedef -i de_DE -f UTF-8 %s/de_DE.UTF-8 >/dev/null 2>&1",
             dir);
    if (system(command) == 0) setenv("LOCPATH", dir, 1);
    for (size_t i = 0; i < 4 && !set; i++) set = setlocale(LC_NUMERIC, names[i]);
    unsetenv("LOCPATH");
    snprintf(command, sizeof command, "rm -r %s", dir);
    assert_int_equal(system(command), 0);
    if (!set) {
        print_message("skipped: no locale with a decimal comma is installed\n");
        skip();
    }
    write_meta();
    hearth_file *f = open_file(path);
    char type[32];
    json_t *m = meta(f, "t.f32", 1, type);
    setlocale(LC_NUMERIC, "C");
    assert_true(json_number_value(m) == 0.1);
    json_decref(m);
    hearth_file_close(f);
}

static void test_file(void **state) {
    (void)state;
    struct hearth_error err;
    hearth_file *f = NULL;
    assert_int_equal(hearth_file_open("/nonexistent", &f, &err), HEARTH_E_IO);
    assert_non_null(strstr(err.message, "/nonexistent"));
    assert_int_equal(hearth_file_open(NULL, &f, NULL), HEARTH_E_ARG);
    assert_int_equal(hearth_file_open_bytes("GGUF", 4, "four", &f, &err), HEARTH_E_FORMAT);
    assert_non_null(strstr(err.message, "four"));
    assert_int_equal(hearth_file_open_bytes("GGUF", 4, NULL, &f, &err), HEARTH_E_FORMAT);
    assert_non_null(strstr(err.message, "(memory)"));
    assert_null(f);
    hearth_file_close(NULL);
    write_meta();
    f = open_file(path);
    assert_int_equal(hearth_file_gguf_version(f), 3);
    assert_int_equal(hearth_file_n_parts(f), 1);
    assert_int_equal(hearth_file_n_tensors(f), 2);
    FILE *file = fopen(path, "rb");
    fseek(file, 0, SEEK_END);
    assert_int_equal(hearth_file_bytes(f), ftell(file));
    struct hearth_tensor_info t;
    hearth_file_tensor(f, 0, &t);
    assert_string_equal(t.name, "m");
    assert_string_equal(t.format, "F32");
    assert_int_equal(t.n_dims, 2);
    assert_int_equal(t.dims[0], 3); // outermost first
    assert_int_equal(t.dims[1], 4);
    assert_int_equal(t.n_bytes, 48);
    float data[3] = {0};
    fseek(file, (long)t.offset, SEEK_SET);
    assert_int_equal(fread(data, sizeof *data, 3, file), 3);
    assert_true(data[0] == 1 && data[1] == 2 && data[2] == 3);
    fclose(file);
    hearth_file *copy = NULL;
    uint64_t n_large;
    assert_int_equal(hearth_file_open_copy("/nonexistent", &copy, &err), HEARTH_E_IO);
    assert_int_equal(hearth_file_open_copy(NULL, &copy, NULL), HEARTH_E_ARG);
    assert_null(copy);
    assert_int_equal(hearth_file_open_copy(path, &copy, &err), HEARTH_OK);
    assert_int_equal(hearth_file_bytes(copy), hearth_file_bytes(f));
    assert_int_equal(hearth_file_n_tensors(copy), 2);
    hearth_file_large_pages(copy, &n_large);
    assert_int_equal(n_large, 0); // it is shorter than one
    hearth_file_close(copy);
    // One that no machine can hold is refused before it is read; not every file system has it.
    hearth_file *huge = NULL;
    if (truncate(path, (off_t)1 << 43) == 0 && !hearth_file_open(path, &huge, &err)) {
        assert_int_equal(hearth_file_open_copy(path, &copy, &err), HEARTH_E_NOMEM);
        assert_non_null(strstr(err.message, "8796093022208 bytes"));
        hearth_file_close(huge);
    }
    // Cut short: its head is there to look at, and nothing else.
    hearth_file *head = NULL;
    hearth_model *none = NULL;
    hearth_file_tensor(f, 1, &t);
    uint64_t n_whole = t.offset + t.n_bytes;
    assert_int_equal(truncate(path, (off_t)n_whole - 1), 0);
    assert_int_equal(hearth_file_open(path, &head, &err), HEARTH_E_FORMAT);
    assert_int_equal(hearth_file_open_head(NULL, &head, NULL), HEARTH_E_ARG);
    assert_int_equal(hearth_file_open_head("/nonexistent", &head, NULL), HEARTH_E_IO);
    assert_null(head);
    assert_int_equal(hearth_file_open_head(path, &head, &err), HEARTH_OK);
    assert_int_equal(hearth_file_bytes(head), n_whole - 1);
    assert_int_equal(hearth_file_n_meta(head), hearth_file_n_meta(f));
    hearth_file_tensor(head, 1, &t);
    assert_int_equal(t.offset + t.n_bytes, n_whole);
    assert_int_equal(hearth_model_open_file(head, NULL, &none, &err), HEARTH_E_FORMAT);
    assert_non_null(strstr(err.message, "is cut short"));
    assert_int_equal(hearth_quantize(head, "/tmp/never", "F32", NULL, NULL, &err), HEARTH_E_FORMAT);
    assert_non_null(strstr(err.message, ", 1 are missing"));
    hearth_file_close(head);
    hearth_file_tensor(f, 7, &t);
    assert_int_equal(t.n_dims, 0);
    // No architecture of that name, and no vocabulary.
    hearth_model *m = NULL;
    hearth_tokenizer *tok = NULL;
    assert_int_equal(hearth_model_open_file(f, NULL, &m, &err), HEARTH_E_UNSUPPORTED);
    assert_non_null(strstr(err.message, "none"));
    assert_int_equal(hearth_tokenizer_create(f, NULL, &tok, &err), HEARTH_E_UNSUPPORTED);
    struct hearth_tokens ids = {0};
    assert_int_equal(hearth_encode(NULL, "x", 1, 0, &ids, &err), HEARTH_E_ARG);
    hearth_detokenizer *d = NULL;
    size_t n_bytes;
    assert_int_equal(hearth_detokenizer_create(NULL, false, &d, &err), HEARTH_E_ARG);
    assert_int_equal(hearth_tokenizer_n_vocab(NULL), 0);
    assert_int_equal(hearth_tokenizer_bos(NULL), -1);
    assert_false(hearth_tokenizer_adds_begin(NULL) || hearth_tokenizer_adds_end(NULL));
    assert_int_equal(hearth_tokenizer_eos(NULL), -1);
    assert_false(hearth_tokenizer_is_end(NULL, 0));
    assert_null(hearth_token_bytes(NULL, 0, &n_bytes));
    assert_int_equal(hearth_quantize(f, path, NULL, NULL, NULL, &err), HEARTH_E_ARG);
    assert_int_equal(hearth_quantize(f, NULL, "F16", NULL, NULL, &err), HEARTH_E_ARG);
    assert_true(!m && !tok && !ids.ids);
    hearth_file_close(f); // still the caller's
}

// ---- copies in other formats

static float *read_tensor(const char *file_path, const char *name, const char **format,
                          uint64_t dims[4], size_t *n) {
    struct ht_gguf *g;
    struct hearth_error err;
    if (ht_gguf_open(file_path, &g, &err)) fail_msg("%s", err.message);
    const struct ht_gguf_tensor *t = ht_gguf_find_tensor(g, name);
    assert_non_null(t);
    const struct ht_format_info *info = ht_format_get(t->format);
    *n = 1;
    for (int d = 0; d < 4; d++) *n *= dims[d] = t->ne[d];
    *format = info->name;
    float *out = test_malloc(*n * sizeof *out);
    info->to_f32(t->data, out, *n / info->block_len);
    ht_gguf_close(g);
    return out;
}

// Matrices are off by no more than the format's rounding, everything else is the same.
static void check_copy(const char *from, const char *to, const char *format, double max_relative) {
    hearth_file *a = open_file(from), *b = open_file(to);
    assert_int_equal(hearth_file_n_tensors(a), hearth_file_n_tensors(b));
    for (size_t i = 0; i < hearth_file_n_tensors(a); i++) {
        struct hearth_tensor_info ta, tb;
        hearth_file_tensor(a, i, &ta);
        hearth_file_tensor(b, i, &tb);
        assert_string_equal(ta.name, tb.name);
        bool matrix = ta.n_dims > 1 && !strstr(ta.name, "ffn_gate_inp");
        assert_string_equal(tb.format, matrix ? format : "F32");
        const char *fa, *fb;
        uint64_t da[4], db[4];
        size_t na, nb;
        float *x = read_tensor(from, ta.name, &fa, da, &na);
        float *y = read_tensor(to, tb.name, &fb, db, &nb);
        assert_memory_equal(da, db, sizeof da);
        for (size_t k = 0; k < na; k += 32) { // blocks of Q8_0 share a scale
            double largest = 0;
            size_t end = k + 32 < na ? k + 32 : na;
            for (size_t j = k; j < end; j++) largest = fmax(largest, fabs(x[j]));
            for (size_t j = k; j < end; j++) {
                double bound = matrix ? largest * max_relative : 0;
                if (!(fabs((double)x[j] - y[j]) <= bound))
                    fail_msg("%s[%zu]: %g, %g", ta.name, j, x[j], y[j]);
            }
        }
        test_free(x), test_free(y);
    }
    hearth_file_close(a);
    hearth_file_close(b);
}

static void test_quantize(void **state) {
    (void)state;
    char model[500];
    struct hearth_error err;
    need_shared(model, "golden/archs/qwen3moe-moe.gguf");
    hearth_file *f = open_file(model);
    static const struct {
        const char *format;
        double max_relative; // of the block's largest weight
        int file_type;
    } cases[] = {{"F32", 0, 0},
                 {"F16", 0x1p-11, 1},
                 {"BF16", 0x1p-8, 32},
                 {"q8_0", 0.501 / 127 + 0x1p-11, 7}};
    for (size_t i = 0; i < 4; i++) {
        if (hearth_quantize(f, path2, cases[i].format, NULL, NULL, &err))
            fail_msg("%s", err.message);
        check_copy(model, path2, i == 3 ? "Q8_0" : cases[i].format, cases[i].max_relative);
        hearth_file *copy = open_file(path2);
        char type[32];
        expect_meta(copy, "general.file_type", "u32", json_integer(cases[i].file_type));
        expect_meta(copy, "general.architecture", "str", json_string("qwen3moe"));
        hearth_file_close(copy);
        (void)type;
        // The copy of a copy in the same format is the same.
        if (i != 3) continue;
        copy = open_file(path2);
        if (hearth_quantize(copy, path, "Q8_0", NULL, NULL, &err)) fail_msg("%s", err.message);
        hearth_file_close(copy);
        char command[100];
        snprintf(command, sizeof command, "cmp %s %s", path, path2);
        assert_int_equal(system(command), 0);
    }
    assert_int_equal(hearth_quantize(f, path2, "Q4_K", NULL, NULL, &err), HEARTH_E_UNSUPPORTED);
    assert_non_null(strstr(err.message, "Q4_K"));
    assert_int_equal(hearth_quantize(f, path2, "nonsense", NULL, NULL, &err), HEARTH_E_UNSUPPORTED);
    assert_int_equal(hearth_quantize(f, "/nonexistent/out.gguf", "F16", NULL, NULL, &err),
                     HEARTH_E_IO);
    assert_int_equal(hearth_quantize(f, "", "F16", NULL, NULL, &err), HEARTH_E_ARG);
    const char *part = "/nonexistent/m-00002-of-00003.gguf", *whole = "/nonexistent/m-2-of-3.gguf";
    assert_int_equal(hearth_quantize(f, part, "F16", NULL, NULL, &err), HEARTH_E_ARG);
    assert_non_null(strstr(err.message, "the copy is one file"));
    const char *const others[] = {whole, "/nonexistent/m-00001-of-00001.gguf",
                                  "/nonexistent/m-   +2-of-00003.gguf",
                                  "/nonexistent/m-00004-of-00003.gguf", "/nonexistent/3.gguf"};
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        assert_int_equal(hearth_quantize(f, others[i], "F16", NULL, NULL, &err), HEARTH_E_IO);
    hearth_file_close(f);
}

// What has two dimensions and is no matrix stays F32.
static void test_quantize_vectors(void **state) {
    (void)state;
    static const struct {
        const char *name, *format;
        uint64_t n_rows;
    } tensors[] = {{"blk.0.ffn_up_exps.bias", "F32", 4},
                   {"blk.0.attn_k_norm.weight", "F32", 4},
                   {"token_types.weight", "F32", 2},
                   {"one.weight", "F32", 1},
                   {"blk.0.ffn_gate_inp.weight", "F32", 4},
                   {"blk.0.ffn_up.weight", "Q8_0", 4},
                   {"blk.0.ssm_conv1d.weight", "F32", 4},
                   {"blk.0.time_mix_w1.weight", "F32", 4},
                   {"blk.0.time_mix_value.weight", "Q8_0", 4},
                   {"blk.0.ids.weight", "I32", 4},
                   {"blk.0.exact.weight", "F64", 2}};
    static const float data[4 * 32] = {1, 2, 3};
    const size_t n = sizeof tensors / sizeof *tensors;
    struct hearth_error err;
    struct ht_gguf_writer *w;
    assert_int_equal(ht_gguf_writer_create(&w, &err), HEARTH_OK);
    for (size_t i = 0; i < n; i++)
        ht_gguf_put_tensor(w, tensors[i].name,
                           i == n - 2   ? HT_I32
                           : i == n - 1 ? HT_F64
                                        : HT_F32,
                           2, (uint64_t[]){32, tensors[i].n_rows}, data);
    if (ht_gguf_writer_finish(w, path, &err)) fail_msg("%s", err.message);
    ht_gguf_writer_destroy(w);
    hearth_file *f = open_file(path);
    if (hearth_quantize(f, path2, "Q8_0", NULL, NULL, &err)) fail_msg("%s", err.message);
    hearth_file_close(f);
    f = open_file(path2);
    for (size_t i = 0; i < n; i++) {
        struct hearth_tensor_info t;
        hearth_file_tensor(f, i, &t);
        assert_string_equal(t.name, tensors[i].name);
        assert_string_equal(t.format, tensors[i].format);
    }
    hearth_file_close(f);
    struct ht_gguf *g;
    assert_int_equal(ht_gguf_open(path2, &g, &err), HEARTH_OK);
    const struct ht_gguf_tensor *ids = ht_gguf_tensor_at(g, n - 2);
    assert_int_equal(ids->format, HT_I32);
    assert_memory_equal(ids->data, data, sizeof data);
    ht_gguf_close(g);
}

// A model in parts becomes one file.
static void test_quantize_split(void **state) {
    (void)state;
    struct hearth_error err;
    char parts[2][64];
    float x[64];
    for (int k = 0; k < 64; k++) x[k] = (float)k;
    for (uint32_t i = 0; i < 2; i++) {
        struct ht_gguf_writer *w;
        snprintf(parts[i], sizeof parts[i], "%s-%05u-of-00002.gguf", path, i + 1);
        assert_int_equal(ht_gguf_writer_create(&w, &err), HEARTH_OK);
        ht_gguf_put_u32(w, "split.no", i);
        ht_gguf_put_u32(w, "split.count", 2);
        ht_gguf_put_u32(w, "split.tensors.count", 2);
        ht_gguf_put_tensor(w, i ? "b.weight" : "a.weight", HT_F32, 2, (const uint64_t[]){32, 2}, x);
        if (ht_gguf_writer_finish(w, parts[i], &err)) fail_msg("%s", err.message);
        ht_gguf_writer_destroy(w);
    }
    hearth_file *f = open_file(parts[1]);
    struct hearth_tensor_info t;
    hearth_file_tensor(f, 1, &t);
    assert_string_equal(t.name, "b.weight");
    assert_int_equal(t.file_index, 1);
    if (hearth_quantize(f, path2, "F16", NULL, NULL, &err)) fail_msg("%s", err.message);
    hearth_file_close(f);
    f = open_file(path2);
    assert_int_equal(hearth_file_n_parts(f), 1);
    assert_int_equal(hearth_file_n_tensors(f), 2);
    hearth_file_close(f);
    for (int i = 0; i < 2; i++) {
        const char *format;
        uint64_t dims[4];
        size_t n;
        float *y = read_tensor(path2, i ? "b.weight" : "a.weight", &format, dims, &n);
        assert_memory_equal(y, x, sizeof x);
        test_free(y);
        unlink(parts[i]);
    }
}

struct watched {
    uint64_t done, total, most; // most: bytes until it says no; 0: never
    int n;
};

static bool watch(void *user, uint64_t done, uint64_t total) {
    struct watched *w = user;
    assert_true(done >= w->done && done <= total && (w->n == 0 || total == w->total));
    w->done = done;
    w->total = total;
    w->n++;
    return w->most == 0 || done < w->most;
}

// What it has written is told, and a copy that is called off leaves the old one as it was; what is
// no regular file is not replaced.
static void test_quantize_watched(void **state) {
    (void)state;
    enum { N = 1 << 20 };
    struct hearth_error err;
    struct watched w = {.most = 0};
    struct ht_gguf_writer *writer;
    float *x = test_calloc(2 * N, sizeof *x);
    char tmp[600];
    for (size_t i = 0; i < 2 * N; i++)
        x[i] = (float)(i * 2654435761u >> 20 & 2047) - 1024; // F16 has all
    assert_int_equal(ht_gguf_writer_create(&writer, &err), HEARTH_OK);
    ht_gguf_put_tensor(writer, "a.weight", HT_F32, 2, (const uint64_t[]){1024, 2048, 1, 1}, x);
    ht_gguf_put_tensor(writer, "b.weight", HT_F32, 1, (const uint64_t[]){2 * N, 1, 1, 1}, x);
    if (ht_gguf_writer_finish(writer, path, &err)) fail_msg("%s", err.message);
    ht_gguf_writer_destroy(writer);
    hearth_file *f = open_file(path);
    assert_int_equal(chmod(path2, 0640), 0);
    if (hearth_quantize(f, path2, "F16", watch, &w, &err)) fail_msg("%s", err.message);
    assert_int_equal(w.total, 2 * N * 2 + 2 * N * 4);
    assert_int_equal(w.done, w.total);
    assert_true(w.n > 4);
    for (int i = 0; i < 4; i++) { // larger than what is written at once, and made at once
        const char *format;
        uint64_t dims[4];
        size_t n;
        float *y =
            read_tensor(i < 2 ? path : path2, i % 2 ? "a.weight" : "b.weight", &format, dims, &n);
        assert_int_equal(n, 2 * N);
        assert_memory_equal(y, x, n * sizeof *x);
        test_free(y);
    }
    struct stat before, after;
    assert_int_equal(stat(path2, &before), 0);
    assert_int_equal(before.st_mode & 0777, 0640);
    const uint64_t most[] = {1, 2 * N / 32 * 34 + 2 * N * 4, UINT64_MAX}; // the first, the last
    for (int i = 0; i < 3; i++) {
        struct watched stop = {.most = most[i]};
        assert_int_equal(hearth_quantize(f, path2, "Q8_0", watch, &stop, &err),
                         i < 2 ? HEARTH_E_CANCELLED : HEARTH_OK);
        snprintf(tmp, sizeof tmp, "%s.tmp", path2);
        assert_int_not_equal(access(tmp, F_OK), 0);
        assert_int_equal(stat(path2, &after), 0);
        assert_int_equal(after.st_size == before.st_size, i < 2);
    }
    snprintf(tmp, sizeof tmp, "%s.link", path2);
    assert_int_equal(symlink(path2, tmp), 0);
    assert_int_equal(hearth_quantize(f, tmp, "F16", NULL, NULL, &err), HEARTH_E_IO);
    assert_non_null(strstr(err.message, "a symbolic link"));
    assert_int_equal(lstat(tmp, &after), 0);
    assert_true(S_ISLNK(after.st_mode));
    assert_int_equal(unlink(tmp), 0);
    hearth_file_close(f);
    test_free(x);
}

// Weights that the format has no number for are refused, and nothing is left; those next to them
// are not.
static void test_quantize_large(void **state) {
    (void)state;
    static const struct {
        const char *format;
        float fits, not ; // of one weight among others of 1
    } cases[] = {{"F16", 65519.99f, 65520.0f},  {"F16", -65519.99f, -70000.0f},
                 {"F16", 1e-30f, INFINITY},     {"BF16", 0x1.fep127f, 0x1.ffp127f},
                 {"BF16", -3.38e38f, NAN},      {"Q8_0", 8.32e6f, 8.33e6f},
                 {"Q8_0", -8.32e6f, -INFINITY}, {"Q8_0", 0, NAN}};
    struct hearth_error err;
    for (size_t i = 0; i < 2 * sizeof cases / sizeof *cases; i++) {
        float x[64], most = 0;
        for (int k = 0; k < 64; k++) x[k] = 1;
        x[37] = i % 2 ? cases[i / 2].not : cases[i / 2].fits;
        struct ht_gguf_writer *w;
        assert_int_equal(ht_gguf_writer_create(&w, &err), HEARTH_OK);
        ht_gguf_put_tensor(w, "some.weight", HT_F32, 2, (const uint64_t[]){32, 2, 1, 1}, x);
        if (ht_gguf_writer_finish(w, path, &err)) fail_msg("%s", err.message);
        ht_gguf_writer_destroy(w);
        hearth_file *f = open_file(path);
        enum hearth_status s =
            hearth_quantize(f, path2, "F32", NULL, NULL, &err); // takes all of them
        assert_int_equal(s, HEARTH_OK);
        s = hearth_quantize(f, path2, cases[i / 2].format, NULL, NULL, &err);
        hearth_file_close(f);
        if (i % 2) {
            char tmp[600];
            assert_int_equal(s, HEARTH_E_UNSUPPORTED);
            assert_non_null(strstr(err.message, "some.weight"));
            assert_non_null(strstr(err.message, cases[i / 2].format));
            snprintf(tmp, sizeof tmp, "%s.tmp", path2);
            assert_int_not_equal(access(tmp, F_OK), 0);
            continue;
        }
        if (s) fail_msg("%s", err.message);
        const char *format;
        uint64_t dims[4];
        size_t n;
        float *y = read_tensor(path2, "some.weight", &format, dims, &n);
        assert_int_equal(n, 64);
        for (int k = 0; k < 64; k++) most = fmaxf(most, fabsf(y[k] - x[k]));
        assert_true(most <= 0.01f * fmaxf(1, fabsf(x[37]))); // a number, and near
        test_free(y);
    }
}

// ---- models

static bool count_lines(void *user, const char *text, size_t n_bytes) {
    size_t *n_lines = user;
    assert_true(n_bytes > 0 && memchr(text, '\n', n_bytes) == text + n_bytes - 1);
    return ++*n_lines != 5;
}

static bool keep_all(void *user, const char *text, size_t n_bytes) {
    (void)text;
    *(size_t *)user += n_bytes;
    return true;
}

static void test_model(void **state) {
    (void)state;
    char name[500];
    struct hearth_error err;
    need_shared(name, "golden/archs/qwen3-dense.gguf");
    uint64_t live = ht_test_alloc_get().n_live;
    hearth_model *m;
    if (hearth_model_open(name, NULL, &m, &err)) fail_msg("%s", err.message);
    struct hearth_model_info info;
    hearth_model_get_info(m, &info);
    assert_string_equal(info.arch, "qwen3");
    assert_true(info.n_layers > 0 && info.dim % info.n_heads == 0 && info.n_experts == 0);
    assert_int_equal(hearth_file_n_parts(hearth_model_file(m)), 1);
    assert_non_null(strstr(hearth_architectures(), "qwen3"));
    size_t n = 0;
    assert_int_equal(hearth_model_write_plan(m, count_lines, &n), HEARTH_E_CANCELLED);
    assert_int_equal(n, 5);
    assert_int_equal(hearth_model_write_plan(m, keep_all, &n), HEARTH_OK);
    hearth_model_close(m);
    hearth_model_close(NULL);
    assert_int_equal(ht_test_alloc_get().n_live, live);
}

// Every allocation on the way to a model fails in turn: a status, a sentence, nothing left over.
static void test_no_memory(void **state) {
    (void)state;
    static const char *const names[] = {"golden/archs/llama-dense.gguf", "tokenizers/gpt2.gguf"};
    char name[500];
    for (size_t i = 0; i < 2; i++) {
        need_shared(name, names[i]);
        uint64_t live = ht_test_alloc_get().n_live, n = 1;
        for (;; n++) {
            hearth_file *f = NULL;
            hearth_model *m = NULL;
            hearth_tokenizer *t = NULL;
            struct hearth_error err = {0};
            ht_test_alloc_fail_at(n);
            enum hearth_status s =
                i == 0 ? hearth_model_open(name, NULL, &m, &err) : hearth_file_open(name, &f, &err);
            if (!s && i == 1) s = hearth_tokenizer_create(f, NULL, &t, &err);
            bool failed = ht_test_alloc_failed();
            ht_test_alloc_reset();
            hearth_tokenizer_destroy(t);
            hearth_file_close(f);
            hearth_model_close(m);
            assert_int_equal(ht_test_alloc_get().n_live, live);
            if (!failed) {
                assert_int_equal(s, HEARTH_OK);
                break;
            }
            // OK: what could be done without (giving back the rest of a block, say) was.
            if (s && (s != HEARTH_E_NOMEM || !err.message[0]))
                fail_msg("%s: allocation %d: %s: %s", names[i], (int)n, hearth_status_name(s),
                         err.message);
            assert_true(n < 100000);
        }
        assert_true(n > 3);
    }
}

static void test_builtin(void **state) {
    (void)state;
    hearth_model *m = NULL;
    struct hearth_error err;
    enum hearth_status s = hearth_model_open_builtin(NULL, &m, &err);
    if (s == HEARTH_E_UNSUPPORTED) {
        assert_non_null(strstr(err.message, "built-in"));
        print_message("skipped: this build has no built-in model\n");
        skip();
    }
    if (s) fail_msg("%s", err.message);
    struct hearth_model_info info;
    hearth_model_get_info(m, &info);
    assert_true(info.n_params > 1000000);
    // Its bytes are those of the file it was made of.
    hearth_file *f = open_file("data/spark.gguf");
    assert_int_equal(hearth_file_bytes(f), hearth_file_bytes(hearth_model_file(m)));
    hearth_file_close(f);
    const char *text = "Once upon a time there was a fox.";
    struct hearth_tokens ids;
    const hearth_tokenizer *t = hearth_model_tokenizer(m);
    if (hearth_encode(t, text, strlen(text), HEARTH_ENCODE_PLAIN, &ids, &err))
        fail_msg("%s", err.message);
    hearth_detokenizer *d;
    assert_int_equal(hearth_detokenizer_create(t, false, &d, &err), HEARTH_OK);
    char back[200] = "";
    for (size_t i = 0; i < ids.n; i++) {
        const char *piece;
        size_t n;
        assert_int_equal(hearth_detokenize(d, ids.ids[i], &piece, &n), HEARTH_OK);
        strncat(back, piece, n);
    }
    assert_string_equal(back, text);
    const char *piece;
    size_t n;
    hearth_tokens_free(&ids);
    assert_int_equal(hearth_encode(t, "\xc3", 1, HEARTH_ENCODE_PLAIN, &ids, &err), HEARTH_OK);
    assert_int_equal(ids.n, 1);
    assert_int_equal(hearth_detokenize(d, ids.ids[0], &piece, &n), HEARTH_OK);
    assert_int_equal(n, 0);      // half a character is held back
    hearth_detokenizer_reset(d); // and forgotten
    hearth_tokens_free(&ids);
    assert_int_equal(hearth_encode(t, "a", 1, HEARTH_ENCODE_PLAIN, &ids, &err), HEARTH_OK);
    assert_int_equal(hearth_detokenize(d, ids.ids[0], &piece, &n), HEARTH_OK);
    assert_true(n == 1 && piece[0] == 'a');
    size_t n_bytes;
    const int32_t bos = hearth_tokenizer_bos(t);
    assert_true(bos >= -1 && bos < hearth_tokenizer_n_vocab(t));
    assert_true(bos < 0 || hearth_token_bytes(t, bos, &n_bytes));
    struct hearth_build build;
    hearth_build_get(&build);
    assert_int_equal(build.builtin_bytes, hearth_file_bytes(hearth_model_file(m)));
    assert_true(strstr(build.compiler, "gcc ") || strstr(build.compiler, "clang "));
    assert_true(build.pcre2[0] && build.utf8proc[0]);
    assert_int_equal(hearth_detokenize(d, -1, &piece, &n), HEARTH_E_ARG);
    assert_int_equal(hearth_detokenize(d, hearth_tokenizer_n_vocab(t), &piece, &n), HEARTH_E_ARG);
    hearth_detokenizer_destroy(d);
    hearth_tokens_free(&ids);
    hearth_tokens_free(&ids);
    hearth_model_close(m);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_meta),
        cmocka_unit_test(test_meta_in_a_locale),
        cmocka_unit_test(test_file),
        cmocka_unit_test(test_quantize),
        cmocka_unit_test(test_quantize_vectors),
        cmocka_unit_test(test_quantize_large),
        cmocka_unit_test(test_quantize_split),
        cmocka_unit_test(test_quantize_watched),
        cmocka_unit_test(test_model),
        cmocka_unit_test(test_no_memory),
        cmocka_unit_test(test_builtin),
    };
    return cmocka_run_group_tests_name("api", tests, make_paths, remove_paths);
}
