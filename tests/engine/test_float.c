// SPDX-License-Identifier: MIT
// The host's floating-point settings: an answer does not depend on them, and they are the host's
// again in every callback and after every call. With all traps on, arithmetic of the library that
// runs under the host's settings ends the test.
#include "cmocka_all.h"

#include <fenv.h>
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "gguf/gguf.h"
#include "hearth/hearth.h"
#include "tiny.h"

#define N_PROMPT    40
#define N_GENERATED 12

static char path[] = "/tmp/hearth-float-XXXXXX";
static char copy[] = "/tmp/hearth-float-XXXXXX";

#if defined(__x86_64__)
#include <immintrin.h>
// The x87 control word that rounds and traps as MXCSR does, as fesetround sets both.
static uint16_t x87_of(uint64_t mxcsr) {
    return (uint16_t)(0x340 | (mxcsr >> 7 & 0x3f) | (mxcsr >> 13 & 3) << 10);
}
static uint64_t get(void) {
    uint64_t v = _mm_getcsr() & ~0x3fu; // without the exceptions that were raised
    uint16_t x87;
    __asm__ volatile("fnstcw %0" : "=m"(x87));
    return (x87 & 0xf7f) == (x87_of(v) & 0xf7f) ? v : UINT64_MAX; // bit 6 is as it likes
}
static void put(uint64_t v) {
    uint16_t x87 = x87_of(v);
    _mm_setcsr((uint32_t)v);
    __asm__ volatile("fnclex\n\tfldcw %0" ::"m"(x87));
}
// To nearest; up, down, to zero; flushing results and inputs; all traps.
static const uint64_t settings[] = {0x1f80, 0x5f80, 0x3f80, 0x7f80, 0x9fc0, 0x0000};
#elif defined(__aarch64__)
static uint64_t get(void) {
    uint64_t v;
    __asm__ volatile("mrs %0, fpcr" : "=r"(v));
    return v;
}
static void put(uint64_t v) {
    __asm__ volatile("msr fpcr, %0" ::"r"(v));
}
// To nearest; up, down, to zero; flushing; default NaN; another format of 16 bits.
static const uint64_t settings[] = {0, 1u << 22, 2u << 22, 3u << 22, 1u << 24, 1u << 25, 1u << 26};
#else
static uint64_t get(void) {
    return (uint64_t)fegetround();
}
static void put(uint64_t v) {
    fesetround((int)v);
}
static const uint64_t settings[] = {FE_TONEAREST, FE_UPWARD, FE_DOWNWARD, FE_TOWARDZERO};
#endif

struct record {
    uint64_t setting; // that callbacks must find
    uint32_t n_wrong, n_tokens, n_rows;
    int32_t tokens[N_GENERATED];
    float logprobs[N_GENERATED];
    float logits[N_PROMPT + N_GENERATED][TINY_VOCAB];
};

static bool on_event(void *user, const struct hearth_event *event) {
    struct record *r = user;
    r->n_wrong += get() != r->setting;
    if (event->token < 0 || r->n_tokens == N_GENERATED) return true;
    r->logprobs[r->n_tokens] = event->logprob;
    r->tokens[r->n_tokens++] = event->token;
    return true;
}

static bool on_logits(void *user, hearth_request *request, uint32_t pos, const float *logits,
                      int32_t n_vocab) {
    struct record *r = user;
    (void)request;
    r->n_wrong += get() != r->setting;
    if (pos >= N_PROMPT + N_GENERATED || n_vocab != TINY_VOCAB) return false;
    memcpy(r->logits[pos], logits, sizeof r->logits[pos]);
    r->n_rows++;
    return true;
}

// Behind the calls: the setting is as it was, and all went well. The test's own again from here on.
static void check_kept(uint64_t setting, enum hearth_status status,
                       const struct hearth_error *err) {
    uint64_t after = get();
    put(settings[0]);
    if (status) fail_msg("%s", err->message);
    assert_int_equal(after, setting);
}

// All between put and get runs under the setting: no assertion, which might print, in between.
static void answer(const char *backend, enum hearth_kv_type kv, uint64_t setting,
                   struct record *r) {
    struct hearth_engine_options eo;
    struct hearth_request_options o;
    struct hearth_error err = {.message = ""};
    hearth_model *m = NULL;
    hearth_engine *e = NULL;
    hearth_request *request;
    int32_t prompt[N_PROMPT];
    for (int32_t i = 0; i < N_PROMPT; i++) prompt[i] = 97 + i * 7 % 26;
    memset(r, 0, sizeof *r);
    hearth_engine_options_default(&eo);
    eo.backend = backend;
    eo.n_threads = strcmp(backend, "ref") == 0 ? 1 : 2;
    eo.n_ctx = 128;
    eo.n_seqs = 2;
    eo.kv_type = kv;
    hearth_request_options_default(&o);
    o.sampling.temperature = 1.25f;
    o.sampling.top_p = 0.875f;
    o.max_tokens = N_GENERATED;
    o.n_logprobs = 0;
    o.ignore_end = true;
    o.user = r;
    o.on_event = on_event;
    o.on_logits = on_logits;
    struct hearth_request_options bad = o, small = o; // refused, and as small as a number gets
    bad.sampling.temperature = NAN;
    small.sampling.top_p = 0x1p-149f;
    small.max_tokens = 0;
    small.on_event = NULL;
    small.on_logits = NULL;
    put(setting);
    r->setting = get(); // some Arm cores have no traps to set
    enum hearth_status status = hearth_model_open(path, NULL, &m, &err), refused = HEARTH_OK;
    if (!status) status = hearth_engine_create(m, &eo, &e, &err);
    if (!status) refused = hearth_request_create(e, prompt, N_PROMPT, &bad, &request, &err);
    if (!status) status = hearth_request_create(e, prompt, N_PROMPT, &small, &request, &err);
    if (!status) status = hearth_request_create(e, prompt, N_PROMPT, &o, &request, &err);
    if (!status) status = hearth_engine_run(e, &err);
    hearth_engine_destroy(e);
    hearth_model_close(m);
    check_kept(r->setting, status, &err);
    assert_int_equal(refused, HEARTH_E_ARG);
    assert_int_equal(r->n_wrong, 0);
    assert_int_equal(r->n_tokens, N_GENERATED);
    assert_int_equal(r->n_rows, N_PROMPT + N_GENERATED - 1);
}

static void test_answers(void **state) {
    static const char *const backends[] = {"ref", "cpu"};
    static const enum ht_format formats[] = {HT_F32, HT_Q8_0};
    static struct record expected, r;
    (void)state;
    for (size_t f = 0; f < sizeof formats / sizeof *formats; f++) {
        tiny_write(path, formats[f]);
        for (size_t b = 0; b < 2; b++) {
            enum hearth_kv_type kv = f ? HEARTH_KV_Q8_0 : HEARTH_KV_F16;
            answer(backends[b], kv, settings[0], &expected);
            for (size_t i = 1; i < sizeof settings / sizeof *settings; i++) {
                answer(backends[b], kv, settings[i], &r);
                assert_memory_equal(r.logits, expected.logits, sizeof r.logits);
                assert_memory_equal(r.tokens, expected.tokens, sizeof r.tokens);
                assert_memory_equal(r.logprobs, expected.logprobs, sizeof r.logprobs);
            }
        }
    }
}

static size_t n_checks, n_checks_wrong;

static void on_check(void *user, const struct hearth_check *c) {
    (void)user;
    n_checks++;
    n_checks_wrong += !c->ok;
}

// The file's numbers as text, one after the other.
static void metadata(const hearth_file *f, char *text, size_t n_text) {
    const char *key;
    char type[32];
    for (size_t i = 0, n = 0; i < hearth_file_n_meta(f) && n < n_text; i++)
        n += hearth_file_meta(f, i, 4, &key, type, text + n, n_text - n);
}

enum { N_PLAN = 16384 };

static bool append(void *user, const char *text, size_t n_bytes) {
    char *all = user;
    size_t n = strlen(all);
    if (n_bytes >= N_PLAN - n) return false;
    memcpy(all + n, text, n_bytes);
    all[n + n_bytes] = 0;
    return true;
}

// A vocabulary with scores of 64 bits, and numbers that arithmetic under the host's settings would
// lose or trap on.
static void write_numbers(void) {
    static const struct ht_str tokens[] = {{"<unk>", 5}, {"a", 1}, {"b", 1}};
    static const uint32_t odd[] = {0x00012345, 0x80000001, 0x7fa00000, 0x3dcccccd};
    static const double scores[] = {-1, 1e-300, 1e-42};
    struct hearth_error err;
    struct ht_gguf_writer *w;
    assert_int_equal(ht_gguf_writer_create(&w, &err), HEARTH_OK);
    ht_gguf_put_array(w, "test.odd", HT_GGUF_F32, odd, 4);
    ht_gguf_put_str(w, "tokenizer.ggml.model", "llama", 5);
    ht_gguf_put_str_array(w, "tokenizer.ggml.tokens", tokens, 3);
    ht_gguf_put_array(w, "tokenizer.ggml.scores", HT_GGUF_F64, scores, 3);
    if (ht_gguf_writer_finish(w, path, &err)) fail_msg("%s", err.message);
    ht_gguf_writer_destroy(w);
}

static void test_file(void **state) {
    struct hearth_error err = {.message = ""};
    static char text[2][4096];
    (void)state;
    write_numbers();
    for (size_t i = 0; i < sizeof settings / sizeof *settings; i++) {
        hearth_file *file = NULL;
        hearth_tokenizer *t = NULL;
        put(settings[i]);
        uint64_t setting = get();
        enum hearth_status status = hearth_file_open(path, &file, &err);
        if (!status) metadata(file, text[i > 0], sizeof text[0]);
        if (!status) status = hearth_tokenizer_create(file, NULL, &t, &err);
        hearth_tokenizer_destroy(t);
        hearth_file_close(file);
        check_kept(setting, status, &err);
        assert_string_equal(text[i > 0], text[0]);
        assert_non_null(strstr(text[0], "[1.04488e-40,-1e-45,\"nan\",0.1]"));
    }
}

// What a program asks of the machine and of a file, and its conversion.
static void test_the_rest(void **state) {
    struct hearth_error err = {.message = ""};
    struct hearth_engine_options eo;
    struct hearth_ceilings ceilings;
    static char text[2][4096], plan[2][N_PLAN];
    hearth_file *file = NULL;
    hearth_model *m = NULL;
    (void)state;
    hearth_engine_options_default(&eo);
    eo.n_threads = 2;
    tiny_write(path, HT_F32);
    for (size_t i = 0; i < sizeof settings / sizeof *settings; i++) {
        size_t n_failed = 0;
        n_checks = n_checks_wrong = 0;
        put(settings[i]);
        uint64_t setting = get();
        enum hearth_status status = hearth_self_test(on_check, NULL, &n_failed, &err);
        if (!status) status = hearth_ceilings_measure(&eo, 1, &ceilings, &err);
        if (!status) status = hearth_file_open(path, &file, &err);
        if (!status) metadata(file, text[i > 0], sizeof text[0]);
        if (!status) status = hearth_quantize(file, copy, "Q8_0", NULL, NULL, &err);
        if (!status) status = hearth_model_open(path, NULL, &m, &err);
        plan[i > 0][0] = 0;
        if (!status) status = hearth_model_write_plan(m, append, plan[i > 0]);
        hearth_model_close(m);
        hearth_file_close(file);
        check_kept(setting, status, &err);
        assert_string_equal(text[i > 0], text[0]);
        assert_string_equal(plan[i > 0], plan[0]);
        assert_non_null(strstr(plan[0], "eps 1e-05"));
        assert_non_null(strstr(text[0], "1e-05"));
        assert_true(n_checks > 0);
        assert_int_equal(n_checks_wrong + n_failed, 0);
    }
}

static int make_paths(void **state) {
    (void)state;
    int a = mkstemp(path), b = mkstemp(copy);
    if (a < 0 || b < 0) return -1;
    close(a);
    close(b);
    return 0;
}

static int remove_paths(void **state) {
    (void)state;
    unlink(path);
    unlink(copy);
    return 0;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_answers),
        cmocka_unit_test(test_file),
        cmocka_unit_test(test_the_rest),
    };
    return cmocka_run_group_tests(tests, make_paths, remove_paths);
}
