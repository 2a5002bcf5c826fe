// SPDX-License-Identifier: MIT
// hearth eval --file: perplexity of a text, as the field measures it. The tokens are cut into
// windows of n_ctx; in each window the tokens of the second half but its first are scored, each
// given all before it in the window:
//   perplexity = exp(mean nll),  its standard error = perplexity * sqrt(var(nll) / (count - 1))
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cli.h"

struct score {
    struct scorer *scorer;
    const int32_t *tokens; // of the window
    double nll, nll2;      // sums
    size_t n;
};

struct scorer {
    const struct args *a;
    hearth_engine *engine;
    struct hearth_tokens tokens;
    int32_t begin; // token at the first place of a window; -1: none
    size_t n_ctx, n_windows, n_done;
    double nll, nll2;
    size_t n;
    struct progress progress;
    struct interrupt interrupt;
};

static bool on_logits(void *user, hearth_request *r, uint32_t pos, const float *logits,
                      int32_t n_vocab) {
    struct score *s = user;
    size_t n_ctx = s->scorer->n_ctx;
    bool goes_on = !atomic_load(&s->scorer->interrupt.hit);
    (void)r;
    if (pos + 1 == n_ctx) return goes_on; // what follows is not of this window
    double nll = negative_log(logits, n_vocab, s->tokens[pos + 1]);
    s->nll += nll;
    s->nll2 += nll * nll;
    s->n++;
    return goes_on;
}

// Reads one window; its sums are added in the windows' order.
static int score_window(struct scorer *sc, size_t w, int32_t *window) {
    struct hearth_request_options o;
    struct hearth_error err = {HEARTH_OK, ""};
    struct score s = {.scorer = sc, .tokens = window};
    hearth_request *r;
    if (atomic_load(&sc->interrupt.hit)) return EXIT_INTERRUPTED;
    for (size_t i = 0; i < sc->n_ctx; i++) window[i] = sc->tokens.ids[w * sc->n_ctx + i];
    if (sc->begin >= 0) window[0] = sc->begin;
    hearth_request_options_default(&o);
    o.max_tokens = 0;
    o.on_logits = on_logits;
    o.logits_from = (uint32_t)(sc->n_ctx / 2);
    o.user = &s;
    if (hearth_request_create(sc->engine, window, sc->n_ctx, &o, &r, &err)) return fail_error(&err);
    enum hearth_status status = hearth_engine_run(sc->engine, &err);
    if (!status) status = hearth_request_error(r, &err);
    hearth_request_destroy(r);
    if (atomic_load(&sc->interrupt.hit)) return EXIT_INTERRUPTED;
    if (status) return fail_error(&err);
    sc->nll += s.nll;
    sc->nll2 += s.nll2;
    sc->n += s.n;
    return EXIT_FINE;
}

static void print_result(const struct scorer *sc) {
    double n = (double)sc->n, mean = sc->nll / n, var = sc->nll2 / n - mean * mean;
    double error = sc->n > 1 && var > 0 ? sqrt(var / (n - 1)) * exp(mean) : 0;
    char text[2][32];
    printf("perplexity %s +- %s\n", format_perplexity(text[0], exp(mean)),
           format_perplexity(text[1], error));
    printf("%zu token%s scored in %zu window%s of %zu, %s\n", sc->n, PLURAL(sc->n), sc->n_windows,
           PLURAL(sc->n_windows), sc->n_ctx, hearth_engine_device(sc->engine));
    size_t rest = sc->tokens.n - sc->n_windows * sc->n_ctx;
    if (rest == 1) puts("the last token is in no window and was left out");
    if (rest > 1) printf("%zu tokens at the end fill no window and were left out\n", rest);
}

static int score_all(struct scorer *sc) {
    int code = EXIT_FINE;
    int32_t *window = malloc(sc->n_ctx * sizeof(*window));
    if (!window) return fail("out of memory");
    progress_begin(&sc->progress, "reading the text", "windows");
    for (size_t w = 0; w < sc->n_windows && !code; w++) {
        progress_set(&sc->progress, w, sc->n_windows);
        code = score_window(sc, w, window);
    }
    progress_end(&sc->progress);
    free(window);
    if (!code && isnan(sc->nll)) code = fail_not_finite(sc->a, false);
    if (!code) print_result(sc);
    return code;
}

static int score_text(struct scorer *sc, const hearth_model *m) {
    const struct args *a = sc->a;
    struct hearth_engine_options o;
    struct hearth_model_info info;
    hearth_model_get_info(m, &info);
    sc->n_windows = sc->tokens.n / sc->n_ctx;
    if (sc->n_windows == 0) {
        return fail("%s: %zu token%s no window of %zu; a longer text or a smaller --ctx is needed",
                    strcmp(a->file, "-") == 0 ? "standard input" : a->file, sc->tokens.n,
                    sc->tokens.n == 1 ? " fills" : "s fill", sc->n_ctx);
    }
    engine_options(a, &o);
    o.n_ctx = (uint32_t)sc->n_ctx;
    o.n_logits = logits_rows((uint32_t)info.n_vocab, 0, sc->n_ctx, o.n_batch);
    int code = create_engine(m, &o, &sc->engine);
    if (!code) code = score_all(sc);
    interrupt_end(&sc->interrupt); // in front of what it would call off
    hearth_engine_destroy(sc->engine);
    return code;
}

static int read_text(struct scorer *sc, const hearth_model *m, const hearth_tokenizer *t) {
    struct text text = {NULL, 0};
    int code = read_file(sc->a->file, MOST_TEXT, &text);
    interrupt_begin(&sc->interrupt);
    if (!code) code = encode_prompt(t, &text, false, true, &sc->begin, &sc->tokens);
    free(text.data);
    if (!code) code = score_text(sc, m);
    interrupt_end(&sc->interrupt);
    return code;
}

int eval_text(const struct args *a) {
    struct scorer sc = {.a = a, .begin = -1, .n_ctx = a->ctx ? (size_t)a->ctx : 512};
    hearth_model *m = NULL;
    if (sc.n_ctx < 4) return fail_usage("--ctx %zu: windows of at least 4 are needed", sc.n_ctx);
    int code = open_model(a, &m);
    const hearth_tokenizer *t = code ? NULL : need_tokenizer(m, a);
    if (!code) code = t ? read_text(&sc, m, t) : EXIT_RUN;
    if (!finish_stdout()) code = EXIT_RUN;
    hearth_tokens_free(&sc.tokens);
    hearth_model_close(m);
    return code;
}
