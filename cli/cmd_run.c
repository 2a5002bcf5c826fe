// SPDX-License-Identifier: MIT
// hearth run: goes on with a text. The text streams to standard output as it comes, statistics
// follow on standard error. One thread, beside the one that waits for SIGINT.
#include <errno.h>
#include <math.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli.h"

#define AT(field) offsetof(struct args, field)

static const struct option run_options[] = {
    {"--n-predict", "-n", "N", OPTION_INT, AT(n_predict), -1, INT32_MAX, NULL,
     "-1: until the model ends or the context is full", "tokens to generate at most"},
    {"--stop", NULL, "TEXT", OPTION_TEXTS, AT(stop), 0, 0, NULL, NULL,
     "end before TEXT, or a token of that name; may be given several times"},
    {"--ignore-end", NULL, NULL, OPTION_FLAG, AT(ignore_end), 0, 0, NULL, NULL,
     "go on past the model's end tokens"},
    {"--special", NULL, NULL, OPTION_FLAG, AT(special), 0, 0, NULL, NULL,
     "read control tokens such as <|im_start|> out of the text, and show them in the output"},
    {"--raw", NULL, NULL, OPTION_FLAG, AT(raw), 0, 0, NULL, NULL,
     "put no begin token in front, where the file asks for one"},
    {"--logprobs", NULL, "N", OPTION_INT, AT(logprobs), 0, 20, NULL, "off",
     "write JSON lines in place of text: each token with its log-probability and those of the N "
     "most likely ones"},
    {"--quiet", "-q", NULL, OPTION_FLAG, AT(quiet), 0, 0, NULL, NULL,
     "print no statistics at the end"},
};
static const struct option_group run_group = {"Generation", run_options,
                                              sizeof(run_options) / sizeof(run_options[0])};
static const struct option_group *const run_groups[] = {
    &group_prompt,    &run_group,  &group_sampling, &group_engine,
    &group_processor, &group_file, &group_common};

struct run {
    const struct args *a;
    const hearth_model *model;
    const hearth_tokenizer *tokenizer;
    hearth_engine *engine;
    hearth_request *request;
    struct interrupt interrupt;
    struct progress progress;
    size_t n_prompt;
    double load_s;
    int out_failed; // errno of the flush that failed
    bool ends_line;
};

// ---- output

// "piece":" the"; with "bytes":[195] behind it where it is no UTF-8 by itself.
static void print_piece(const struct run *r, int32_t token) {
    size_t n = 0;
    const char *s = hearth_token_bytes(r->tokenizer, token, &n);
    fputs("\"piece\":", stdout);
    json_print_text(stdout, s ? s : "", n);
    if (is_utf8(s, n)) return;
    for (size_t i = 0; i < n; i++) printf("%s%d", i ? "," : ",\"bytes\":[", (unsigned char)s[i]);
    putchar(']');
}

static void print_logprob(float x) {
    if (isfinite(x)) {
        printf("%.7g", (double)x);
    } else {
        fputs("null", stdout); // -inf: JSON has no such number
    }
}

static const char *finish_name(enum hearth_finish f) {
    switch (f) {
    case HEARTH_FINISH_NONE: return "none";
    case HEARTH_FINISH_END: return "end";
    case HEARTH_FINISH_STOP: return "stop";
    case HEARTH_FINISH_LENGTH: return "length";
    case HEARTH_FINISH_CONTEXT: return "context";
    case HEARTH_FINISH_CANCELLED: return "cancelled";
    case HEARTH_FINISH_ERROR: return "error";
    }
    return "unknown";
}

// {"token":17,"piece":" the","text":" the","logprob":-0.5,"top":[{"token":..,"piece":..,...}]}
static void print_json_event(const struct run *r, const struct hearth_event *e) {
    const char *comma = "";
    putchar('{');
    if (e->token >= 0) {
        printf("\"token\":%d,", (int)e->token);
        print_piece(r, e->token);
        fputs(",\"logprob\":", stdout);
        print_logprob(e->logprob);
        fputs(",\"top\":[", stdout);
        for (size_t i = 0; i < e->n_top; i++) {
            printf("%s{\"token\":%d,", i ? "," : "", (int)e->top[i].token);
            print_piece(r, e->top[i].token);
            fputs(",\"logprob\":", stdout);
            print_logprob(e->top[i].logprob);
            putchar('}');
        }
        putchar(']');
        comma = ",";
    }
    printf("%s\"text\":", comma);
    json_print_text(stdout, e->text, e->n_text_bytes);
    if (e->finish) printf(",\"finish\":\"%s\"", finish_name(e->finish));
    puts("}");
}

static bool on_event(void *user, const struct hearth_event *e) {
    struct run *r = user;
    progress_end(&r->progress);
    if (r->a->logprobs >= 0) {
        print_json_event(r, e);
    } else if (e->n_text_bytes) {
        fwrite(e->text, 1, e->n_text_bytes, stdout);
        r->ends_line = e->text[e->n_text_bytes - 1] == '\n';
    }
    if (fflush(stdout) != 0 && !r->out_failed) r->out_failed = errno ? errno : EIO;
    return !r->out_failed;
}

// ---- the request

static void fill_options(struct run *r, struct hearth_request_options *o) {
    const struct args *a = r->a;
    hearth_request_options_default(o);
    o->sampling.temperature = (float)a->temp;
    o->sampling.top_k = (int32_t)a->top_k;
    o->sampling.top_p = (float)a->top_p;
    o->sampling.min_p = (float)a->min_p;
    o->sampling.repetition_penalty = (float)a->repeat_penalty;
    o->sampling.presence_penalty = (float)a->presence_penalty;
    o->sampling.frequency_penalty = (float)a->frequency_penalty;
    o->sampling.penalty_window = (uint32_t)a->penalty_window;
    o->sampling.seed = a->seed;
    o->sampling.logit_bias = a->logit_bias.items;
    o->sampling.n_logit_bias = a->logit_bias.n;
    o->max_tokens = (int32_t)a->n_predict;
    o->ignore_end = a->ignore_end;
    o->show_special = a->special;
    o->n_logprobs = (int32_t)a->logprobs;
    o->stop = a->stop.items;
    o->n_stop = a->stop.n;
    o->on_event = on_event;
    o->user = r;
}

// "  prompt           26 tokens     1234.5 tokens/s": n tokens, and how fast n_timed of them came.
static void print_rate(const char *what, uint64_t n, uint64_t n_timed, uint64_t ns) {
    fprintf(stderr, "  %-12s %6llu %s", what, (unsigned long long)n, n == 1 ? "token " : "tokens");
    if (n_timed && ns) fprintf(stderr, "  %9.1f tokens/s", (double)n_timed * 1e9 / (double)ns);
}

static void print_statistics(const struct run *r, enum hearth_finish finish) {
    struct hearth_request_stats s;
    char peak[32], clean[CLEAN_BYTES];
    hearth_request_get_stats(r->request, &s);
    // The first token comes out of the prompt's last pass: its time is the prompt's.
    uint64_t n_timed = s.n_generated_tokens ? s.n_generated_tokens - 1 : 0;
    fprintf(stderr, "\n%s, %s\n", clean_text(clean, model_label(r->a)),
            hearth_engine_device(r->engine));
    fprintf(stderr, "  %-12s %13.3f s\n", "load", r->load_s);
    if (finish == HEARTH_FINISH_CANCELLED && s.n_generated_tokens == 0) {
        fprintf(stderr, "  %-12s %6llu tokens of %llu\n", "prompt",
                (unsigned long long)s.n_prompt_read, (unsigned long long)s.n_prompt_tokens);
    } else {
        print_rate("prompt", s.n_prompt_tokens, s.n_prompt_tokens, s.prompt_ns);
        fputc('\n', stderr);
    }
    print_rate("generation", s.n_generated_tokens, n_timed, s.generation_ns);
    fprintf(stderr, "  (%s)\n", finish_name(finish));
    fprintf(stderr, "  %-12s %15s\n", "peak memory", format_bytes(peak, peak_memory()));
}

// Whether an engine of one position more could be: a model may have learned so many only.
static bool has_longer(const struct run *r) {
    struct hearth_engine_options o;
    struct hearth_memory memory;
    engine_options(r->a, &o);
    o.n_ctx = (uint32_t)hearth_engine_n_ctx(r->engine) + 1;
    return hearth_memory_plan(r->model, &o, &memory, NULL) != HEARTH_E_ARG;
}

static int finish_run(struct run *r) {
    enum hearth_finish finish = hearth_request_finish(r->request);
    struct hearth_error err = {HEARTH_OK, ""};
    progress_end(&r->progress);
    // A shell's next line begins on a line of its own; a file gets the text as it is.
    if (!r->ends_line && r->a->logprobs < 0 && isatty(STDOUT_FILENO)) putchar('\n');
    if (r->out_failed) return fail_stdout(r->out_failed);
    if (!finish_stdout()) return EXIT_RUN;
    if (!r->a->quiet) print_statistics(r, finish);
    if (finish == HEARTH_FINISH_CONTEXT) {
        unsigned n = (unsigned)hearth_engine_n_ctx(r->engine);
        note("the context is full (%u position%s); %s", n, PLURAL(n),
             has_longer(r) ? "--ctx N gives more" : "more are not possible");
    }
    if (finish == HEARTH_FINISH_ERROR && hearth_request_error(r->request, &err)) {
        return fail_error(&err);
    }
    return atomic_load(&r->interrupt.hit) ? EXIT_INTERRUPTED : EXIT_FINE;
}

// Steps until the request is done; the progress line counts the prompt.
static int drive(struct run *r) {
    struct hearth_error err = {HEARTH_OK, ""};
    struct hearth_request_stats stats;
    size_t n_active = 1;
    progress_begin(&r->progress, "reading the prompt", "tokens");
    progress_set(&r->progress, 0, r->n_prompt);
    while (n_active) {
        if (hearth_engine_step(r->engine, &n_active, &err)) {
            progress_end(&r->progress);
            return fail_error(&err);
        }
        hearth_request_get_stats(r->request, &stats);
        progress_set(&r->progress, stats.n_prompt_read, r->n_prompt);
    }
    return finish_run(r);
}

static int generate(struct run *r, const struct hearth_tokens *prompt) {
    struct hearth_request_options o;
    struct hearth_error err = {HEARTH_OK, ""};
    fill_options(r, &o);
    r->n_prompt = prompt->n;
    if (prompt->n == 0) {
        return fail_usage("the text is empty, and no begin token is put in front of it");
    }
    if (hearth_request_create(r->engine, prompt->ids, prompt->n, &o, &r->request, &err)) {
        return fail_error(&err);
    }
    interrupt_watch(&r->interrupt, r->request);
    int code = drive(r);
    interrupt_watch(&r->interrupt, NULL);
    return code;
}

static int run_model(struct run *r, const hearth_model *m, const struct text *text, double begin) {
    const struct args *a = r->a;
    struct hearth_engine_options eo;
    struct hearth_tokens prompt = {NULL, 0};
    r->model = m;
    r->tokenizer = need_tokenizer(m, a);
    if (!r->tokenizer) return EXIT_RUN;
    engine_options(a, &eo);
    double encode = now_s(); // no part of the loading
    int code = encode_prompt(r->tokenizer, text, a->special, !a->raw, NULL, &prompt);
    begin += now_s() - encode;
    interrupt_begin(&r->interrupt);
    if (!code) code = create_engine(m, &eo, &r->engine);
    r->load_s = now_s() - begin;
    if (!code) code = generate(r, &prompt);
    interrupt_end(&r->interrupt);
    hearth_tokens_free(&prompt);
    hearth_request_destroy(r->request);
    hearth_engine_destroy(r->engine);
    return code;
}

static int run(const struct args *a) {
    struct run r = {.a = a, .ends_line = true};
    struct text text = {NULL, 0};
    hearth_model *m = NULL;
    int code = read_prompt(a, &text);
    double begin = now_s();
    if (!code) code = open_model(a, &m);
    if (!code) code = run_model(&r, m, &text, begin);
    hearth_model_close(m);
    free(text.data);
    return code;
}

const struct command command_run = {
    .name = "run",
    .operands = "[MODEL]",
    .n_operands_max = 1,
    .summary = "go on with a text",
    .text = "Goes on with a text, as the model sees fit, and writes what it adds (not the text "
            "itself) to standard output while it comes. Without MODEL the built-in model is used. "
            "No chat template is applied: the turns of a chat are part of the text. "
            "The model's begin token is put in front where the file says so; control tokens in "
            "the text are plain text unless --special is given. Statistics follow on standard "
            "error. Ctrl-C ends the generation, twice ends the program.",
    .groups = run_groups,
    .n_groups = sizeof(run_groups) / sizeof(run_groups[0]),
    .run = run,
};
