// SPDX-License-Identifier: MIT
// The engine from end to end, through hearth.h alone, over both backends: a tiny model with text
// that the test writes itself, and the golden models. Text streams whole characters, stop strings
// cut where a search says, and one prompt has one answer in any company.
#include "cmocka_all.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "alloc_mem.h"
#include "hearth/hearth.h"
#include "shared_dir.h"
#include "tiny.h"

static const char *const backends[] = {"ref", "cpu"};
static char path[] = "/tmp/hearth-engine-XXXXXX";

static int make_path(void **state) {
    (void)state;
    int fd = mkstemp(path);
    if (fd < 0) return -1;
    close(fd);
    return 0;
}

static int remove_path(void **state) {
    (void)state;
    unlink(path);
    return 0;
}

static hearth_model *open_model(const char *name) {
    hearth_model *m = NULL;
    struct hearth_error err;
    if (hearth_model_open(name, NULL, &m, &err)) fail_msg("%s", err.message);
    return m;
}

static hearth_engine *open_engine(const hearth_model *m, const struct hearth_engine_options *o) {
    hearth_engine *e = NULL;
    struct hearth_error err;
    if (hearth_engine_create(m, o, &e, &err)) fail_msg("%s", err.message);
    assert_ptr_equal(hearth_engine_model(e), m);
    return e;
}

// ---- what a request gave ------------------------------------------------------------------------

struct record {
    char text[8192];
    size_t n_text;
    int32_t tokens[600];
    uint32_t n_tokens, n_last;
    enum hearth_finish finish;
    float *logits; // [n_rows][n_vocab] where wanted
    uint32_t n_rows, n_rows_max;
};

static bool on_event(void *user, const struct hearth_event *event) {
    struct record *r = user;
    assert_true(r->n_text + event->n_text_bytes < sizeof r->text);
    memcpy(r->text + r->n_text, event->text, event->n_text_bytes);
    r->n_text += event->n_text_bytes;
    if (event->token >= 0) r->tokens[r->n_tokens++] = event->token;
    if (event->finish) {
        r->finish = event->finish;
        r->n_last++;
    }
    return true;
}

static bool on_logits(void *user, hearth_request *request, uint32_t pos, const float *logits,
                      int32_t n_vocab) {
    struct record *r = user;
    (void)request;
    assert_int_equal(pos, r->n_rows);
    assert_true(r->n_rows < r->n_rows_max);
    memcpy(r->logits + (size_t)pos * (size_t)n_vocab, logits, (size_t)n_vocab * sizeof *logits);
    r->n_rows++;
    return true;
}

static void submit(hearth_engine *e, struct record *r, const int32_t *tokens, size_t n,
                   struct hearth_request_options *o) {
    hearth_request *request;
    struct hearth_error err;
    o->user = r;
    o->on_event = on_event;
    if (hearth_request_create(e, tokens, n, o, &request, &err)) fail_msg("%s", err.message);
}

static void run(hearth_engine *e) {
    struct hearth_error err;
    if (hearth_engine_run(e, &err)) fail_msg("%s", err.message);
}

// ---- text ---------------------------------------------------------------------------------------

struct tiny {
    hearth_model *m;
    hearth_engine *e;
    struct hearth_tokens prompt;
    struct hearth_request_options o;
};

static void open_tiny(struct tiny *t, const char *backend, enum ht_format format, uint32_t n_seqs) {
    struct hearth_engine_options o;
    struct hearth_error err;
    tiny_write(path, format);
    t->m = open_model(path);
    hearth_engine_options_default(&o);
    o.backend = backend;
    o.n_threads = 1;
    o.n_ctx = 300;
    o.n_seqs = n_seqs;
    t->e = open_engine(t->m, &o);
    if (hearth_encode(hearth_model_tokenizer(t->m), "ab c\xc3\xa9", 6, 0, &t->prompt, &err))
        fail_msg("%s", err.message);
    hearth_request_options_default(&t->o);
    t->o.sampling.temperature = 1.5f;
    t->o.sampling.top_k = 0;
    t->o.max_tokens = 120;
}

static void close_tiny(struct tiny *t) {
    hearth_tokens_free(&t->prompt);
    hearth_engine_destroy(t->e);
    hearth_model_close(t->m);
}

// The tokens' text in one go.
static size_t text_of(const hearth_tokenizer *t, const int32_t *tokens, uint32_t n, bool special,
                      char *out) {
    hearth_detokenizer *d;
    const char *text;
    size_t n_out = 0, len;
    assert_int_equal(hearth_detokenizer_create(t, special, &d, NULL), HEARTH_OK);
    for (uint32_t i = 0; i < n; i++) {
        assert_int_equal(hearth_detokenize(d, tokens[i], &text, &len), HEARTH_OK);
        memcpy(out + n_out, text, len);
        n_out += len;
    }
    hearth_detokenize_end(d, &text, &len);
    memcpy(out + n_out, text, len);
    hearth_detokenizer_destroy(d);
    return n_out + len;
}

static void test_text(void **state) {
    (void)state;
    static struct record r;
    static char expected[8192];
    for (int b = 0; b < 2; b++) {
        struct tiny t;
        open_tiny(&t, backends[b], HT_F32, 1);
        for (uint64_t seed = 0; seed < 8; seed++) {
            memset(&r, 0, sizeof r);
            t.o.sampling.seed = seed;
            t.o.ignore_end = true;
            t.o.show_special = seed % 2;
            submit(t.e, &r, t.prompt.ids, t.prompt.n, &t.o);
            run(t.e);
            assert_int_equal(r.finish, HEARTH_FINISH_LENGTH);
            assert_int_equal(r.n_tokens, 120);
            size_t n = text_of(hearth_model_tokenizer(t.m), r.tokens, 120, seed % 2, expected);
            assert_int_equal(r.n_text, n);
            assert_memory_equal(r.text, expected, n);
        }
        close_tiny(&t);
    }
}

// What the end cuts off of a character comes out as it is. (Whole ones: test_text_detok.)
static void test_characters(void **state) {
    (void)state;
    struct tiny t;
    static struct record r;
    open_tiny(&t, "ref", HT_F32, 1);
    struct hearth_logit_bias bias[2] = {{0xe2, 100}, {0x82, -INFINITY}};
    t.o.sampling.logit_bias = bias;
    t.o.sampling.n_logit_bias = 2;
    t.o.max_tokens = 1; // nothing but a first byte
    memset(&r, 0, sizeof r);
    submit(t.e, &r, t.prompt.ids, t.prompt.n, &t.o);
    run(t.e);
    assert_int_equal(r.tokens[0], 0xe2);
    assert_int_equal(r.n_text, 1);
    assert_int_equal((unsigned char)r.text[0], 0xe2);
    assert_int_equal(r.n_last, 1);
    close_tiny(&t);
}

static void test_end(void **state) {
    (void)state;
    for (int i = 0; i < 3; i++) {
        static struct record r;
        struct tiny t;
        struct hearth_logit_bias bias = {TINY_END, 100};
        open_tiny(&t, "cpu", HT_Q8_0, 1);
        memset(&r, 0, sizeof r);
        t.o.sampling.logit_bias = &bias;
        t.o.sampling.n_logit_bias = 1;
        t.o.show_special = i > 0;
        t.o.ignore_end = i == 2;
        submit(t.e, &r, t.prompt.ids, t.prompt.n, &t.o);
        run(t.e);
        assert_int_equal(r.finish, i < 2 ? HEARTH_FINISH_END : HEARTH_FINISH_LENGTH);
        assert_int_equal(r.n_tokens, i < 2 ? 1 : 120);
        assert_int_equal(r.tokens[0], TINY_END);
        assert_int_equal(r.n_text, i == 0 ? 0 : i == 1 ? 7 : 120 * 7);
        if (i) assert_memory_equal(r.text, "<|end|>", 7);
        close_tiny(&t);
    }
}

// Finds the text that is well-formed from some place on, to take stop strings from.
static bool ascii_or_pair(const char *s, size_t n) {
    for (size_t i = 0; i < n; i++)
        if ((unsigned char)s[i] >= 0x80 || s[i] == 0) return false;
    return true;
}

// Stop strings taken out of what the model writes without them, so they span its tokens.
static void test_stop_strings(void **state) {
    (void)state;
    static struct record free_run, r;
    struct tiny t;
    int n_tried = 0;
    open_tiny(&t, "cpu", HT_Q8_0, 1);
    t.o.ignore_end = true;
    for (uint64_t seed = 0; seed < 10; seed++) {
        t.o.sampling.seed = seed;
        t.o.stop = NULL;
        t.o.n_stop = 0;
        memset(&free_run, 0, sizeof free_run);
        submit(t.e, &free_run, t.prompt.ids, t.prompt.n, &t.o);
        run(t.e);
        for (size_t at = 0; at + 3 < free_run.n_text; at += 5) {
            for (size_t len = 1; len <= 3; len++) {
                char stop_text[4] = {0};
                const char *stop[2] = {"never in a hundred years", stop_text};
                memcpy(stop_text, free_run.text + at, len);
                if (!ascii_or_pair(stop_text, len)) continue;
                size_t first = 0;
                while (memcmp(free_run.text + first, stop_text, len) != 0) first++;
                t.o.stop = stop;
                t.o.n_stop = 2;
                memset(&r, 0, sizeof r);
                submit(t.e, &r, t.prompt.ids, t.prompt.n, &t.o);
                run(t.e);
                assert_int_equal(r.finish, HEARTH_FINISH_STOP);
                assert_int_equal(r.n_text, first);
                assert_memory_equal(r.text, free_run.text, first);
                assert_memory_equal(r.tokens, free_run.tokens, r.n_tokens * 4);
                n_tried++;
            }
        }
    }
    assert_true(n_tried > 50);
    close_tiny(&t);
}

// ---- one prompt, one answer ---------------------------------------------------------------------

// Runs `tokens` among others; returns the logits of every position, to be freed.
static float *logits_among(const hearth_model *m, const char *backend, int n_threads,
                           uint32_t chunk, uint32_t n_among, enum hearth_kv_type kv,
                           const int32_t *tokens, uint32_t n, struct record *r) {
    struct hearth_engine_options eo;
    struct hearth_request_options o;
    struct hearth_model_info info;
    static struct record others[16];
    hearth_model_get_info(m, &info);
    hearth_engine_options_default(&eo);
    eo.backend = backend;
    eo.n_threads = n_threads;
    eo.n_ctx = n + 20;
    eo.n_seqs = n_among + 1;
    eo.n_batch = 256;
    eo.n_logits = n + n_among + 1;
    eo.kv_type = kv;
    hearth_engine *e = open_engine(m, &eo);
    memset(others, 0, sizeof others);
    for (uint32_t i = 0; i < n_among; i++) {
        hearth_request_options_default(&o);
        o.max_tokens = (int32_t)(i % 3 * 10);
        o.sampling.seed = i;
        submit(e, &others[i], tokens + i % n, 1 + (i * 7) % (n - i % n), &o);
        if (i % 2) assert_int_equal(hearth_engine_step(e, &(size_t){0}, NULL), HEARTH_OK);
    }
    memset(r, 0, sizeof *r);
    r->n_rows_max = n + 12;
    r->logits = calloc(r->n_rows_max, info.n_vocab * sizeof(float));
    hearth_request_options_default(&o);
    o.max_tokens = 12;
    o.ignore_end = true;
    o.prompt_chunk = chunk;
    o.on_logits = on_logits;
    submit(e, r, tokens, n, &o);
    run(e);
    assert_int_equal(r->n_rows, n + 11);
    assert_int_equal(r->n_last, 1);
    hearth_engine_destroy(e);
    return r->logits;
}

static void check_one_answer(const hearth_model *m, const int32_t *tokens, uint32_t n) {
    static const uint32_t chunks[] = {0, 1, 7, 64}, among[] = {0, 1, 5, 16};
    static struct record first, r;
    struct hearth_model_info info;
    hearth_model_get_info(m, &info);
    for (int b = 0; b < 2; b++) {
        for (int kv = 0; hearth_kv_type_name((enum hearth_kv_type)kv); kv++) {
            float *expected =
                logits_among(m, backends[b], 1, 0, 0, (enum hearth_kv_type)kv, tokens, n, &first);
            for (int i = 1; i < 4; i++) {
                float *got =
                    logits_among(m, backends[b], b == 0 ? 1 : i, chunks[i], among[(i + kv) % 4],
                                 (enum hearth_kv_type)kv, tokens, n, &r);
                assert_memory_equal(got, expected, (n + 11) * info.n_vocab * sizeof(float));
                assert_memory_equal(r.tokens, first.tokens, sizeof r.tokens);
                free(got);
            }
            free(expected);
        }
    }
}

static void test_one_answer(void **state) {
    (void)state;
    static const enum ht_format formats[] = {HT_F32, HT_BF16, HT_Q8_0};
    int32_t tokens[90];
    for (int i = 0; i < 90; i++) tokens[i] = i * i * 7 % 256;
    for (int f = 0; f < 3; f++) {
        tiny_write(path, formats[f]);
        hearth_model *m = open_model(path);
        check_one_answer(m, tokens, 90);
        hearth_model_close(m);
    }
}

// The golden models, against their expected logits.
static void test_golden(void **state) {
    (void)state;
    static const char *const names[] = {"qwen3-dense", "llama-moe", "gpt2-dense"};
    int32_t tokens[1000];
    uint32_t n = 0;
    char file[600];
    static struct record r;
    snprintf(file, sizeof file, "%s/golden/archs/tokens.txt", shared_dir());
    FILE *f = fopen(file, "r");
    if (!f) {
        print_message("skipped: %s is not there (set HEARTH_SHARED)\n", file);
        skip();
        return;
    }
    while (n < 1000 && fscanf(f, "%d%*[ ,\n]", &tokens[n]) == 1) n++;
    fclose(f);
    assert_true(n > 10);
    for (size_t k = 0; k < sizeof names / sizeof names[0]; k++) {
        snprintf(file, sizeof file, "%s/golden/archs/%s.gguf", shared_dir(), names[k]);
        hearth_model *m = open_model(file);
        struct hearth_model_info info;
        hearth_model_get_info(m, &info);
        snprintf(file, sizeof file, "%s/golden/archs/%s.logits", shared_dir(), names[k]);
        f = fopen(file, "rb");
        assert_non_null(f);
        float *expected = calloc(n, info.n_vocab * sizeof(float));
        assert_int_equal(fread(expected, info.n_vocab * sizeof(float), n, f), n);
        fclose(f);
        for (int b = 0; b < 2; b++) {
            float *got = logits_among(m, backends[b], 1 + b, 5, 3, HEARTH_KV_F32, tokens, n, &r);
            double error = 0, norm = 0;
            for (size_t i = 0; i < (size_t)n * info.n_vocab; i++) {
                error += ((double)got[i] - expected[i]) * ((double)got[i] - expected[i]);
                norm += (double)expected[i] * expected[i];
            }
            print_message("    %s, %s: %.1e\n", names[k], backends[b], error / norm);
            assert_true(error / norm < 1e-11);
            free(got);
        }
        free(expected);
        hearth_model_close(m);
    }
}

// ---- memory -------------------------------------------------------------------------------------

// Prompts and 200 tokens each, with text, stop strings and log-probabilities, sequences coming and
// going: no call of the allocator between creation and the end.
static void test_no_allocation(void **state) {
    (void)state;
    static struct record r[6];
    static const char *const stop[] = {"never", "\xe2\x82\xac\xe2\x82\xac"};
    for (int b = 0; b < 2; b++) {
        struct tiny t;
        open_tiny(&t, backends[b], HT_Q8_0, 3);
        t.o.max_tokens = 200;
        t.o.ignore_end = true;
        memset(r, 0, sizeof r);
        for (int i = 0; i < 6; i++) {
            t.o.sampling.seed = (uint64_t)i;
            t.o.sampling.top_k = i % 2 ? 40 : 0;
            t.o.n_logprobs = i % 3 * 5;
            t.o.stop = stop;
            t.o.n_stop = (size_t)i % 3;
            t.o.max_tokens = 200 + i % 2 * 40;
            submit(t.e, &r[i], t.prompt.ids, t.prompt.n, &t.o);
        }
        ht_test_alloc_reset();
        run(t.e);
        struct ht_test_alloc a = ht_test_alloc_get();
        assert_int_equal(a.n_calls, 0);
        assert_int_equal(a.n_frees, 0);
        for (int i = 0; i < 6; i++) assert_int_equal(r[i].n_tokens, 200 + i % 2 * 40);
        close_tiny(&t);
    }
}

// Whether the backend repacks weights of this model on this machine; elsewhere it says so.
static bool can_repack(const hearth_model *m, const char *backend) {
    struct hearth_engine_options o;
    struct hearth_memory plan;
    struct hearth_error err;
    hearth_engine_options_default(&o);
    o.backend = backend;
    o.repack = true;
    enum hearth_status s = hearth_memory_plan(m, &o, &plan, &err);
    if (!s) return true;
    assert_int_equal(s, HEARTH_E_UNSUPPORTED);
    assert_non_null(strstr(err.message, "repack"));
    return false;
}

// A forked process has none of the engine's threads: calls say so instead of waiting for them, and
// an engine of its own gives the same.
static void test_fork(void **state) {
    (void)state;
    enum { FINE = 7 };
    static const int32_t prompt[] = {97, 98, 99};
    tiny_write(path, HT_F32);
    hearth_model *m = open_model(path);
    struct hearth_engine_options o;
    struct hearth_request_options ro;
    struct hearth_error err;
    hearth_engine_options_default(&o);
    o.n_threads = 2;
    hearth_engine *e = open_engine(m, &o), *own;
    hearth_request *r;
    hearth_request_options_default(&ro);
    ro.max_tokens = 1;
    assert_int_equal(hearth_request_create(e, prompt, 3, &ro, &r, &err), HEARTH_OK);
    pid_t child = fork();
    if (child == 0) {
        size_t n_active;
        bool said = hearth_engine_step(e, &n_active, &err) == HEARTH_E_STATE &&
                    strstr(err.message, "forked") &&
                    hearth_request_create(e, prompt, 3, &ro, &r, &err) == HEARTH_E_STATE;
        hearth_engine_destroy(e);
        o.n_threads = 1; // the thread sanitizer allows no new ones here
        bool ran = said && !hearth_engine_create(m, &o, &own, &err) &&
                   !hearth_request_create(own, prompt, 3, &ro, &r, &err) &&
                   !hearth_engine_run(own, &err);
        _exit(ran ? FINE : 1);
    }
    int status = 0;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), FINE);
    assert_int_equal(hearth_engine_run(e, &err), HEARTH_OK);
    hearth_engine_destroy(e);
    hearth_model_close(m);
}

// What repacked weights take; a level and a backend without kernels for them refuse. (That they
// give the same bytes: tests/model.)
static void test_repack(void **state) {
    (void)state;
    tiny_write(path, HT_Q8_0);
    hearth_model *m = open_model(path);
    struct hearth_engine_options o;
    hearth_engine *e = NULL;
    struct hearth_error err;
    hearth_engine_options_default(&o);
    o.repack = true;
    o.cpu_level = "scalar";
    assert_int_equal(hearth_engine_create(m, &o, &e, &err), HEARTH_E_UNSUPPORTED);
    assert_non_null(strstr(err.message, "scalar"));
    assert_false(can_repack(m, "ref"));
    o.cpu_level = NULL;
    if (can_repack(m, "cpu")) {
        struct hearth_memory plan, other;
        assert_int_equal(hearth_memory_plan(m, &o, &plan, &err), HEARTH_OK);
        o.repack = false;
        assert_int_equal(hearth_memory_plan(m, &o, &other, &err), HEARTH_OK);
        assert_int_equal(other.packed, 0);
        assert_int_equal(plan.total - plan.packed - plan.other, other.total - other.other);
        assert_between(plan.other - other.other, 1, 4096); // where they lie
        assert_true(plan.packed > 0.5 * (double)plan.weights);
    }
    hearth_model_close(m);
}

static void test_allocation_fails(void **state) {
    (void)state;
    static const char *const stop[] = {"one"};
    static const struct hearth_logit_bias bias[] = {{3, 1}};
    tiny_write(path, HT_Q8_0);
    hearth_model *m = open_model(path);
    for (int b = 0; b < 2; b++) {
        struct hearth_engine_options o;
        struct hearth_request_options ro;
        hearth_engine_options_default(&o);
        o.backend = backends[b];
        o.n_threads = 1 + b; // ref has one
        o.prefault = true;
        o.repack = can_repack(m, backends[b]);
        hearth_request_options_default(&ro);
        ro.stop = stop;
        ro.n_stop = 1;
        ro.sampling.logit_bias = bias;
        ro.sampling.n_logit_bias = 1;
        uint64_t before = ht_test_alloc_get().n_live_bytes, n;
        for (n = 1;; n++) {
            struct hearth_error err;
            hearth_engine *e = NULL;
            hearth_request *r = NULL;
            ht_test_alloc_fail_at(n);
            enum hearth_status s = hearth_engine_create(m, &o, &e, &err);
            if (!s) s = hearth_request_create(e, (const int32_t[]){1}, 1, &ro, &r, &err);
            bool failed = ht_test_alloc_failed();
            ht_test_alloc_fail_at(0);
            assert_int_equal(s, failed ? HEARTH_E_NOMEM : HEARTH_OK);
            hearth_engine_destroy(e);
            assert_int_equal(ht_test_alloc_get().n_live_bytes, before);
            if (!failed) break;
        }
        assert_true(n > 20);
    }
    hearth_model_close(m);
}

static void test_read_speed(void **state) {
    (void)state;
    struct hearth_error err;
    for (int b = 0; b < 2; b++) {
        struct tiny t;
        double bytes_s = -1;
        open_tiny(&t, backends[b], HT_Q8_0, 1);
        bool can = strcmp(backends[b], "cpu") == 0;
        assert_int_equal(hearth_engine_read_speed(t.e, 0, &bytes_s, &err), HEARTH_E_ARG);
        assert_int_equal(hearth_engine_read_speed(t.e, 10001, &bytes_s, &err), HEARTH_E_ARG);
        assert_non_null(strstr(err.message, "10001"));
        ht_test_alloc_fail_at(1);
        assert_int_equal(hearth_engine_read_speed(t.e, 1, &bytes_s, &err),
                         can ? HEARTH_E_NOMEM : HEARTH_E_UNSUPPORTED);
        ht_test_alloc_fail_at(0);
        assert_true(bytes_s < 0); // untouched
        assert_int_equal(hearth_engine_read_speed(t.e, 1, &bytes_s, &err),
                         can ? HEARTH_OK : HEARTH_E_UNSUPPORTED);
        assert_int_equal(bytes_s > 0, can);
        close_tiny(&t);
    }
}

static void test_multiply_speed(void **state) {
    (void)state;
    struct hearth_error err;
    for (int b = 0; b < 2; b++) {
        struct tiny t;
        struct hearth_ceilings c = {.read_bytes_s = 7};
        open_tiny(&t, backends[b], HT_Q8_0, 1);
        bool can = strcmp(backends[b], "cpu") == 0;
        assert_int_equal(hearth_engine_multiply_speed(t.e, 0, &c, &err), HEARTH_E_ARG);
        assert_int_equal(hearth_engine_multiply_speed(t.e, 10001, &c, &err), HEARTH_E_ARG);
        assert_non_null(strstr(err.message, "10001"));
        assert_true(c.int8_macs_s == 0); // untouched
        assert_int_equal(hearth_engine_multiply_speed(t.e, 1, &c, &err),
                         can ? HEARTH_OK : HEARTH_E_UNSUPPORTED);
        assert_int_equal(c.int8_macs_s > 0 && c.i16_macs_s > 0, can);
        assert_int_equal(c.bf16_macs_s > 0 && c.f32_macs_s > 0, can);
        assert_int_equal(c.slowest_thread > 0 && c.slowest_thread <= 1, can);
        assert_true(c.read_bytes_s == 7);
        close_tiny(&t);
    }
}

// Bytes of this process that are in memory.
static double resident(void) {
    unsigned long long all, n = 0;
    FILE *f = fopen("/proc/self/statm", "r");
    if (f && fscanf(f, "%llu %llu", &all, &n) != 2) n = 0;
    if (f) fclose(f);
    return (double)n * (double)sysconf(_SC_PAGESIZE);
}

// The plan's numbers are what creation takes, to 2 % and 100 KB, and with prefault it has it all.
static void test_plan_holds(void **state) {
    (void)state;
    tiny_write(path, HT_Q8_0);
    hearth_model *m = open_model(path);
    for (int b = 0; b < 2; b++) {
        for (int k = 0; k < 4; k++) {
            struct hearth_engine_options o;
            struct hearth_memory plan;
            struct hearth_error err;
            hearth_engine_options_default(&o);
            o.backend = backends[b];
            o.n_threads = 1 + b; // ref has one
            o.n_ctx = k % 2 ? 512 : 4000;
            o.n_seqs = k < 2 ? 1 : 20;
            o.kv_type = (enum hearth_kv_type)k;
            o.prefault = k % 2 == 0;
            o.repack = k % 3 == 0 && can_repack(m, backends[b]);
            if (hearth_memory_plan(m, &o, &plan, &err)) fail_msg("%s", err.message);
            uint64_t before = ht_test_alloc_get().n_live_bytes;
            double in_memory = resident();
            hearth_engine *e = open_engine(m, &o);
            in_memory = resident() - in_memory;
            double taken = (double)(ht_test_alloc_get().n_live_bytes - before);
            double planned = (double)(plan.packed + plan.kv + plan.scratch + plan.other) -
                             (6 << 20); // the program itself
            print_message("    %s: planned %.0f, taken %.0f\n", backends[b], planned, taken);
            assert_true(taken < planned * 1.02 + 100000);
            assert_true(taken > planned * 0.98 - 100000);
            if (k >= 2 && in_memory > 0) // where the system tells
                assert_int_equal(in_memory > 0.9 * (double)plan.kv, o.prefault);
            hearth_engine_destroy(e);
        }
    }
    hearth_model_close(m);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_text),
        cmocka_unit_test(test_characters),
        cmocka_unit_test(test_end),
        cmocka_unit_test(test_stop_strings),
        cmocka_unit_test(test_one_answer),
        cmocka_unit_test(test_golden),
        cmocka_unit_test(test_no_allocation),
        cmocka_unit_test(test_allocation_fails),
        cmocka_unit_test(test_plan_holds),
        cmocka_unit_test(test_read_speed),
        cmocka_unit_test(test_multiply_speed),
        cmocka_unit_test(test_repack),
        cmocka_unit_test(test_fork),
    };
    return cmocka_run_group_tests(tests, make_path, remove_path);
}
