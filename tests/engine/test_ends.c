// SPDX-License-Identifier: MIT
// Ends that meet: several reasons to end with one token, callbacks that call off their own or
// another request in the very turn, settings that leave nothing to choose from. Each request has
// one last event, and its reason is the same wherever it is asked for.
#include "cmocka_all.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "hearth/hearth.h"
#include "tiny.h"

struct record {
    char text[512];
    size_t n_text;
    uint32_t n_tokens, n_last, n_rows, refuse_after; // events until it says no; 0: never
    enum hearth_finish finish;
    hearth_request *request, *victim; // victim: called off with the second event, or row
};

static bool on_event(void *user, const struct hearth_event *event) {
    struct record *r = user;
    assert_int_equal(r->n_last, 0); // nothing behind the last
    assert_ptr_equal(event->request, r->request);
    assert_true(r->n_text + event->n_text_bytes <= sizeof r->text);
    memcpy(r->text + r->n_text, event->text, event->n_text_bytes);
    r->n_text += event->n_text_bytes;
    if (event->token >= 0) r->n_tokens++;
    if (event->finish) {
        r->finish = event->finish;
        r->n_last++;
    }
    if (r->victim && r->n_tokens == 2) hearth_request_cancel(r->victim);
    return r->refuse_after == 0 || r->n_tokens < r->refuse_after;
}

static bool on_logits(void *user, hearth_request *request, uint32_t pos, const float *logits,
                      int32_t n_vocab) {
    struct record *r = user;
    (void)request;
    (void)pos;
    (void)logits;
    (void)n_vocab;
    if (++r->n_rows == 2 && r->victim) hearth_request_cancel(r->victim);
    return true;
}

static char path[] = "/tmp/hearth-ends-XXXXXX";
static hearth_model *model;
static const int32_t prompt[] = {'h', 'i'};

static int make_model(void **state) {
    (void)state;
    struct hearth_error err;
    int fd = mkstemp(path);
    if (fd < 0) return -1;
    close(fd);
    tiny_write(path, HT_F32);
    return hearth_model_open(path, NULL, &model, &err) ? -1 : 0;
}

static int remove_model(void **state) {
    (void)state;
    hearth_model_close(model);
    unlink(path);
    return 0;
}

static hearth_engine *make_engine(uint32_t n_seqs) {
    struct hearth_engine_options o;
    struct hearth_error err;
    hearth_engine *e = NULL;
    hearth_engine_options_default(&o);
    o.n_threads = 1;
    o.n_ctx = 64;
    o.n_seqs = n_seqs;
    if (hearth_engine_create(model, &o, &e, &err)) fail_msg("%s", err.message);
    return e;
}

static void submit(hearth_engine *e, struct record *r, struct hearth_request_options *o) {
    struct hearth_error err;
    o->user = r;
    o->on_event = on_event;
    if (hearth_request_create(e, prompt, 2, o, &r->request, &err)) fail_msg("%s", err.message);
}

static void run(hearth_engine *e) {
    struct hearth_error err;
    if (hearth_engine_run(e, &err)) fail_msg("%s", err.message);
}

static void check_end(const struct record *r, enum hearth_finish finish, uint32_t n_tokens,
                      const char *text) {
    assert_int_equal(r->n_last, 1);
    assert_int_equal(r->finish, finish);
    assert_int_equal(hearth_request_finish(r->request), finish);
    assert_int_equal(r->n_tokens, n_tokens);
    assert_int_equal(r->n_text, strlen(text));
    assert_memory_equal(r->text, text, r->n_text);
}

// The model writes one token again and again, and with it more than one reason to end comes true.
static void test_reasons(void **state) {
    (void)state;
    static const struct {
        int32_t token, max_tokens;
        const char *stop;
        bool show_special, ignore_end;
        uint32_t refuse_after;
        enum hearth_finish finish;
        uint32_t n_tokens;
        const char *text;
    } rows[] = {
        // a stop string before the length, and held-back text where the length comes first
        {'x', 3, "xxx", false, false, 0, HEARTH_FINISH_STOP, 3, ""},
        {'x', 2, "xxx", false, false, 0, HEARTH_FINISH_LENGTH, 2, "xx"},
        {'x', 4, "xxx", false, false, 0, HEARTH_FINISH_STOP, 3, ""},
        // an end token before all, its text only where it is shown, and no stop string in it
        {TINY_END, 1, NULL, false, false, 0, HEARTH_FINISH_END, 1, ""},
        {TINY_END, 1, NULL, true, false, 0, HEARTH_FINISH_END, 1, "<|end|>"},
        {TINY_END, 1, "end", true, false, 0, HEARTH_FINISH_END, 1, "<|"},
        {TINY_END, 2, "end", false, false, 0, HEARTH_FINISH_END, 1, ""},
        {TINY_END, 2, "<|end|>", false, true, 0, HEARTH_FINISH_STOP, 1, ""}, // the token's name
        {TINY_END, 2, "<|end|", false, true, 0, HEARTH_FINISH_LENGTH, 2, ""},
        {TINY_END, 2, "<|end|>", true, true, 0, HEARTH_FINISH_STOP, 1, ""},
        {TINY_END, 2, ">end", true, true, 0, HEARTH_FINISH_LENGTH, 2, "<|end|><|end|>"},
        {TINY_END, 2, "><", true, true, 0, HEARTH_FINISH_STOP, 2, "<|end|"},
        // a callback that says no: it calls off what goes on, and changes nothing of what ended
        {'x', 9, NULL, false, false, 3, HEARTH_FINISH_CANCELLED, 3, "xxx"},
        {'x', 9, "xxxxx", false, false, 3, HEARTH_FINISH_CANCELLED, 3, "xxx"},
        {'x', 3, NULL, false, false, 3, HEARTH_FINISH_LENGTH, 3, "xxx"},
        {'x', 9, "xx", false, false, 2, HEARTH_FINISH_STOP, 2, ""},
        {TINY_END, 9, NULL, false, false, 1, HEARTH_FINISH_END, 1, ""},
        // the context: 64 positions, of which the prompt has two
        {'x', -1, NULL, false, false, 0, HEARTH_FINISH_CONTEXT, 62,
         "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx"},
        {'x', 62, NULL, false, false, 0, HEARTH_FINISH_LENGTH, 62,
         "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx"},
        {'x', 0, "x", false, false, 0, HEARTH_FINISH_LENGTH, 0, ""},
    };
    hearth_engine *e = make_engine(1);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct hearth_request_options o;
        struct record r = {.refuse_after = rows[i].refuse_after};
        struct hearth_logit_bias bias = {rows[i].token, 1000};
        hearth_request_options_default(&o);
        o.sampling.logit_bias = &bias;
        o.sampling.n_logit_bias = 1;
        o.max_tokens = rows[i].max_tokens;
        o.stop = &rows[i].stop;
        o.n_stop = rows[i].stop ? 1 : 0;
        o.show_special = rows[i].show_special;
        o.ignore_end = rows[i].ignore_end;
        submit(e, &r, &o);
        run(e);
        check_end(&r, rows[i].finish, rows[i].n_tokens, rows[i].text);
        hearth_request_destroy(r.request);
    }
    hearth_engine_destroy(e);
}

// A request that is called off by another one's callback, while its own token of that turn may have
// been drawn already, before it or after it in order of arrival.
static void test_cancelled_by_another(void **state) {
    (void)state;
    for (int i = 0; i < 4; i++) {
        struct record a = {.n_text = 0}, b = {.n_text = 0};
        struct hearth_request_options o;
        hearth_engine *e = make_engine(2);
        struct hearth_logit_bias bias = {'x', 1000};
        hearth_request_options_default(&o);
        o.sampling.logit_bias = &bias;
        o.sampling.n_logit_bias = 1;
        o.max_tokens = 20;
        if (i >= 2) o.on_logits = on_logits;
        submit(e, &a, &o);
        submit(e, &b, &o);
        struct record *killer = i % 2 ? &b : &a, *victim = i % 2 ? &a : &b;
        killer->victim = victim->request;
        run(e);
        assert_int_equal(killer->finish, HEARTH_FINISH_LENGTH);
        assert_int_equal(killer->n_tokens, 20);
        assert_int_equal(victim->finish, HEARTH_FINISH_CANCELLED);
        assert_int_equal(victim->n_last, 1);
        assert_true(victim->n_tokens <= 2 && victim->n_text == victim->n_tokens);
        assert_int_equal(hearth_request_finish(victim->request), HEARTH_FINISH_CANCELLED);
        hearth_engine_destroy(e);
    }
}

// All tokens forbidden: that request ends with a sentence, the one beside it goes on.
static void test_nothing_left(void **state) {
    (void)state;
    static struct hearth_logit_bias bias[TINY_VOCAB];
    for (int i = 0; i < TINY_VOCAB; i++) bias[i] = (struct hearth_logit_bias){i, -INFINITY};
    for (int greedy = 0; greedy < 2; greedy++) {
        struct record a = {.n_text = 0}, b = {.n_text = 0};
        struct hearth_request_options o;
        struct hearth_error err = {HEARTH_OK, ""};
        hearth_engine *e = make_engine(2);
        hearth_request_options_default(&o);
        o.max_tokens = 5;
        o.ignore_end = true;
        submit(e, &b, &o);
        o.sampling.temperature = greedy ? 0.0f : 0.8f;
        o.sampling.logit_bias = bias;
        o.sampling.n_logit_bias = TINY_VOCAB;
        submit(e, &a, &o);
        run(e);
        check_end(&a, HEARTH_FINISH_ERROR, 0, "");
        assert_int_equal(hearth_request_error(a.request, &err), HEARTH_E_ARG);
        assert_true(strlen(err.message) > 10);
        assert_int_equal(b.finish, HEARTH_FINISH_LENGTH);
        assert_int_equal(b.n_tokens, 5);
        assert_int_equal(hearth_request_error(b.request, &err), HEARTH_OK);
        hearth_engine_destroy(e);
    }
}

// What an engine and its requests say of themselves.
static void test_says(void **state) {
    (void)state;
    struct record r = {0};
    struct hearth_error err;
    struct hearth_request_options o;
    struct hearth_engine_stats before, after;
    struct hearth_request_stats of;
    struct hearth_step_kind k;
    struct hearth_ceilings c = {
        .int8_macs_s = 8, .i16_macs_s = 4, .bf16_macs_s = 2, .f32_macs_s = 1};
    hearth_engine *e = make_engine(2);
    assert_int_equal(hearth_engine_n_ctx(e), 64);
    assert_ptr_equal(hearth_engine_model(e), model);
    assert_int_equal(strncmp(hearth_engine_device(e), "cpu ", 4), 0);
    assert_non_null(strstr(hearth_engine_device(e), ", 1 thread"));
    assert_false(hearth_engine_step_kind(e, 0, &k)); // nothing was counted
    assert_int_equal(hearth_engine_profile(e, HEARTH_PROFILE_STEPS, &err), HEARTH_OK);
    hearth_engine_get_stats(e, &before);
    assert_true(before.n_passes == 0 && before.n_tokens == 0 && before.n_pages > 0);
    assert_int_equal(before.n_pages_free, before.n_pages);
    hearth_request_options_default(&o);
    o.max_tokens = 3;
    o.ignore_end = true;
    submit(e, &r, &o);
    hearth_request_get_stats(r.request, &of);
    assert_true(of.n_prompt_tokens == 2 && of.n_generated_tokens == 0 && of.prompt_ns == 0);
    run(e);
    hearth_request_get_stats(r.request, &of);
    assert_int_equal(of.n_prompt_tokens, 2);
    assert_int_equal(of.n_generated_tokens, 3);
    assert_true(of.prompt_ns > 0 && of.generation_ns > 0);
    hearth_engine_get_stats(e, &after);
    assert_int_equal(after.n_passes, 3); // the prompt, and two of the tokens
    assert_int_equal(after.n_tokens, 4);
    assert_true(after.pass_ns > 0);
    double macs = 0;
    size_t n = 0;
    for (; hearth_engine_step_kind(e, n, &k); n++) {
        assert_true(k.name[0] && (k.n_steps > 0 || k.macs == 0));
        macs += k.macs;
        double by = k.int8_load / 8 + k.i16_load / 4 + k.bf16_load / 2 + k.f32_load;
        assert_true(hearth_ceilings_seconds(&c, &k) == by);
    }
    assert_true(n > 3 && macs > 0);
    hearth_engine_destroy(e);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_reasons),
        cmocka_unit_test(test_cancelled_by_another),
        cmocka_unit_test(test_nothing_left),
        cmocka_unit_test(test_says),
    };
    return cmocka_run_group_tests(tests, make_model, remove_model);
}
