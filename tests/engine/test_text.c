// SPDX-License-Identifier: MIT
// The text of an answer is what the detokenizer makes of prompt and answer together, less what it
// makes of the prompt: also where a prompt ends with special or user-defined tokens or has nothing
// else, and whether these are shown or not. SentencePiece, whose first word of a text loses its
// space.
#include "cmocka_all.h"

#include <string.h>

#include "engine/engine_internal.h"
#include "loaded.h"
#include "unit/text_make.h"

enum { BOS = 1, EOS = 2, BYTES = 3, THE = 259, END = 260, USER = 261, MOST = 8 };

struct answer {
    char text[256];
    size_t n_text;
    int32_t tokens[64];
    uint32_t n_tokens;
};

static bool on_event(void *user, const struct hearth_event *event) {
    struct answer *a = user;
    assert_true(a->n_text + event->n_text_bytes <= sizeof a->text);
    memcpy(a->text + a->n_text, event->text, event->n_text_bytes);
    a->n_text += event->n_text_bytes;
    if (event->token >= 0) a->tokens[a->n_tokens++] = event->token;
    return true;
}

static size_t text_of(struct ht_detok *d, const int32_t *ids, size_t n, char *out) {
    size_t n_out = 0, len;
    const char *text;
    for (size_t i = 0; i < n; i++) {
        ht_detok_push(d, ids[i], &text, &len);
        memcpy(out + n_out, text, len);
        n_out += len;
    }
    return n_out;
}

// The model writes `next` again and again.
static void check_prompt(struct hearth_engine *e, const struct ht_tokenizer *t,
                         const int32_t *prompt, size_t n, int32_t next, bool show_special) {
    struct hearth_request_options o;
    struct hearth_request *r;
    struct hearth_error err;
    struct hearth_logit_bias bias = {next, 1000};
    struct answer a = {.n_text = 0};
    struct ht_detok d;
    char want[512];
    ht_request_options_default(&o);
    o.sampling.temperature = 0;
    o.sampling.logit_bias = &bias;
    o.sampling.n_logit_bias = 1;
    o.max_tokens = 3;
    o.ignore_end = true;
    o.show_special = show_special;
    o.on_event = on_event;
    o.user = &a;
    if (ht_request_create(e, prompt, n, &o, &r, &err)) fail_msg("%s", err.message);
    if (ht_engine_run(e, &err)) fail_msg("%s", err.message);
    ht_request_destroy(r);
    assert_int_equal(a.n_tokens, 3);
    assert_int_equal(a.tokens[0], next);
    if (ht_detok_init(&d, t, show_special, &err)) fail_msg("%s", err.message);
    text_of(&d, prompt, n, want);
    size_t n_want = text_of(&d, a.tokens, a.n_tokens, want);
    ht_detok_deinit(&d);
    if (a.n_text != n_want || memcmp(a.text, want, n_want) != 0)
        fail_msg("prompt of %zu that ends with %d, then %d, special tokens %s: '%.*s', not '%.*s'",
                 n, prompt[n - 1], next, show_special ? "shown" : "not shown", (int)a.n_text,
                 a.text, (int)n_want, want);
}

static struct hearth_engine *make_engine(const struct ht_plan *plan, const struct ht_tokenizer *t) {
    struct ht_engine_source source = {
        .plan = plan, .tokenizer = t, .name = "tiny", .n_ctx_train = 64};
    struct ht_engine_tuning tuning = {.available = UINT64_MAX};
    struct hearth_engine_options o;
    struct hearth_engine *e;
    struct hearth_error err;
    ht_engine_options_default(&o);
    o.n_threads = 1;
    o.n_ctx = 64;
    if (ht_engine_create(&source, &o, &tuning, &e, &err)) fail_msg("%s", err.message);
    return e;
}

static void test_prompts(void **state) {
    (void)state;
    static const struct {
        int32_t ids[MOST];
        size_t n;
    } prompts[] = {{{BOS}, 1},           {{BOS, THE}, 2},           {{THE}, 1},
                   {{THE, EOS}, 2},      {{BOS, THE, EOS, END}, 4}, {{EOS, END}, 2},
                   {{BOS, EOS, THE}, 3}, {{BYTES + 'x'}, 1},        {{THE, END, BYTES + 'x'}, 3},
                   {{BOS, USER}, 2},     {{BOS, THE, USER}, 3},     {{USER, EOS}, 2},
                   {{USER, THE}, 2}};
    static const int32_t next[] = {THE, EOS, END, USER, BYTES + 'y', BYTES + ' '};
    struct hearth_error err;
    struct loaded l = loaded_open(HT_F32);
    struct ht_tokenizer *t = NULL;
    struct make *vocab = make_spm();
    assert_int_equal(make_name(vocab, "\xe2\x96\x81the", 1), THE);
    assert_int_equal(make_name(vocab, "<|end|>", 3), END);
    assert_int_equal(make_name(vocab, "<user>", 4), USER);
    assert_int_equal(USER, TINY_VOCAB - 1);
    if (make_load(vocab, &t, &err)) fail_msg("%s", err.message);
    struct hearth_engine *e = make_engine(ht_model_plan(l.model), t);
    for (size_t p = 0; p < sizeof prompts / sizeof *prompts; p++)
        for (size_t k = 0; k < sizeof next / sizeof *next; k++)
            for (int show = 0; show < 2; show++)
                check_prompt(e, t, prompts[p].ids, prompts[p].n, next[k], show);
    ht_engine_destroy(e);
    ht_tokenizer_free(t);
    make_free(vocab);
    loaded_close(&l);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_prompts)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
