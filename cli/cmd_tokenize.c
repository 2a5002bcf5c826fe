// SPDX-License-Identifier: MIT
// hearth tokenize: text to token ids and back, one text or a file of JSON lines. One thread; lines
// come out in the order they went in.
#include <errno.h>
#include <jansson.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli.h"

#define AT(field) offsetof(struct args, field)

static const struct option tokenize_options[] = {
    {"--ids", NULL, "LIST", OPTION_TEXT, AT(ids), 0, 0, NULL, NULL,
     "turn ids back into text: 1,2,3 or @FILE"},
    {"--jsonl", NULL, NULL, OPTION_FLAG, AT(jsonl), 0, 0, NULL, NULL,
     "read JSON lines with \"text\", write JSON lines with \"ids\"; empty lines are passed over"},
    {"--decode", NULL, NULL, OPTION_FLAG, AT(decode), 0, 0, NULL, NULL,
     "with --jsonl: read \"ids\", write \"text\""},
    {"--special", NULL, NULL, OPTION_FLAG, AT(special), 0, 0, NULL, NULL,
     "read control tokens out of the text, too; show them in text that comes from ids"},
    {"--begin", NULL, NULL, OPTION_FLAG, AT(begin), 0, 0, NULL, NULL,
     "add begin and end tokens where the file says so"},
    {"--pieces", NULL, NULL, OPTION_FLAG, AT(pieces), 0, 0, NULL, NULL,
     "a line for each token: id, what it stands for and, where that is no UTF-8, its bytes"},
    {"--count", NULL, NULL, OPTION_FLAG, AT(count), 0, 0, NULL, NULL,
     "print the number of tokens only"},
    {"--bench", NULL, NULL, OPTION_FLAG, AT(bench), 0, 0, NULL, NULL,
     "tokenize the text again and again for a second, print the speed"},
};
static const struct option_group tokenize_group = {
    "Tokens", tokenize_options, sizeof(tokenize_options) / sizeof(tokenize_options[0])};
static const struct option_group *const tokenize_groups[] = {&group_prompt, &tokenize_group};

static unsigned encode_flags(const struct args *a) {
    return (a->special ? HEARTH_ENCODE_SPECIAL : 0u) | (a->begin ? HEARTH_ENCODE_BEGIN_END : 0u);
}

// ---- text to ids

static void print_ids(const struct hearth_tokens *t) {
    for (size_t i = 0; i < t->n; i++) printf("%s%d", i ? "," : "", (int)t->ids[i]);
}

static void print_pieces(const hearth_tokenizer *t, const struct hearth_tokens *tokens) {
    for (size_t i = 0; i < tokens->n; i++) {
        size_t n = 0;
        const char *s = hearth_token_bytes(t, tokens->ids[i], &n);
        printf("%8d  ", (int)tokens->ids[i]);
        json_print_text(stdout, s ? s : "", n);
        for (size_t k = 0; k < n && !is_utf8(s, n); k++)
            printf("%s%02x", k ? " " : "  ", (unsigned char)s[k]);
        putchar('\n');
    }
}

static int encode_text(const struct args *a, const hearth_tokenizer *t, const struct text *text) {
    struct hearth_tokens tokens;
    struct hearth_error err = {HEARTH_OK, ""};
    if (hearth_encode(t, text->data, text->n, encode_flags(a), &tokens, &err)) {
        return fail("%s", err.message);
    }
    if (a->count) {
        printf("%zu\n", tokens.n);
    } else if (a->pieces) {
        print_pieces(t, &tokens);
    } else {
        print_ids(&tokens);
        putchar('\n');
    }
    hearth_tokens_free(&tokens);
    return EXIT_FINE;
}

static int bench_text(const struct args *a, const hearth_tokenizer *t, const struct text *text) {
    double begin = now_s(), best = 0;
    size_t n_tokens = 0, n_rounds = 0;
    if (text->n == 0) return fail_usage("--bench wants a text that is not empty");
    while (n_rounds < 3 || now_s() - begin < 1) {
        struct hearth_tokens tokens;
        struct hearth_error err = {HEARTH_OK, ""};
        double start = now_s();
        if (hearth_encode(t, text->data, text->n, encode_flags(a), &tokens, &err)) {
            return fail("%s", err.message);
        }
        double took = now_s() - start;
        if (n_rounds == 0 || took < best) best = took;
        n_tokens = tokens.n;
        n_rounds++;
        hearth_tokens_free(&tokens);
    }
    printf("%zu byte%s, %zu token%s, best of %zu rounds: %.2f MB/s, %.0f tokens/s\n", text->n,
           PLURAL(text->n), n_tokens, PLURAL(n_tokens), n_rounds, (double)text->n / 1e6 / best,
           (double)n_tokens / best);
    return EXIT_FINE;
}

// ---- ids to text

typedef bool (*piece_fn)(void *user, const char *s, size_t n);

// Gives the text of ids to fn piece by piece. False after a sentence, in front of which stands
// `where`.
static bool decode(const hearth_tokenizer *t, hearth_detokenizer *d, const int32_t *ids, size_t n,
                   const char *where, piece_fn fn, void *user) {
    const char *s;
    size_t len;
    hearth_detokenizer_reset(d);
    for (size_t i = 0; i < n; i++) {
        if (hearth_detokenize(d, ids[i], &s, &len)) {
            fail("%stoken id %d, number %zu of the list, is not one of the %d of this vocabulary",
                 where, (int)ids[i], i + 1, (int)hearth_tokenizer_n_vocab(t));
            return false;
        }
        if (!fn(user, s, len)) return false;
    }
    hearth_detokenize_end(d, &s, &len);
    return fn(user, s, len);
}

static bool write_piece(void *user, const char *s, size_t n) {
    (void)user;
    if (n) fwrite(s, 1, n, stdout);
    return true;
}

static int decode_ids(const struct args *a, const hearth_tokenizer *t) {
    struct hearth_error err = {HEARTH_OK, ""};
    hearth_detokenizer *d = NULL;
    int32_t *ids;
    size_t n;
    int code = parse_ids("--ids", a->ids, &ids, &n);
    if (code) return code;
    if (hearth_detokenizer_create(t, a->special, &d, &err)) code = fail_error(&err);
    if (!code && !decode(t, d, ids, n, "", write_piece, NULL)) code = EXIT_USAGE;
    if (!code && isatty(STDOUT_FILENO)) putchar('\n'); // for the prompt behind it
    hearth_detokenizer_destroy(d);
    free(ids);
    return code;
}

// ---- JSON lines

struct gathered { // text of one line
    char *data;
    size_t n, cap;
};

static bool gather(void *user, const char *s, size_t n) {
    struct gathered *g = user;
    if (g->n + n > g->cap) {
        size_t cap = (g->n + n) * 2;
        char *p = realloc(g->data, cap);
        if (!p) {
            fail("out of memory");
            return false;
        }
        g->data = p;
        g->cap = cap;
    }
    if (n) memcpy(g->data + g->n, s, n);
    g->n += n;
    return true;
}

static int encode_line(const struct args *a, const hearth_tokenizer *t, const json_t *line,
                       size_t number) {
    struct hearth_tokens tokens;
    struct hearth_error err = {HEARTH_OK, ""};
    const json_t *text = json_object_get(line, "text");
    if (!json_is_string(text))
        return fail("line %zu: an object with a string \"text\" was expected", number);
    if (hearth_encode(t, json_string_value(text), json_string_length(text), encode_flags(a),
                      &tokens, &err)) {
        return fail("line %zu: %s", number, err.message);
    }
    fputs("{\"ids\":[", stdout);
    print_ids(&tokens);
    fputs("]}\n", stdout);
    hearth_tokens_free(&tokens);
    return EXIT_FINE;
}

static int decode_line(const hearth_tokenizer *t, hearth_detokenizer *d, const json_t *line,
                       size_t number, struct gathered *g) {
    const json_t *list = json_object_get(line, "ids");
    size_t n = json_array_size(list);
    if (!json_is_array(list))
        return fail("line %zu: an object with an array \"ids\" was expected", number);
    int32_t *ids = malloc((n + 1) * sizeof(*ids));
    if (!ids) return fail("out of memory");
    bool ok = true;
    for (size_t i = 0; ok && i < n; i++) {
        const json_t *v = json_array_get(list, i);
        ok = json_is_integer(v) && json_integer_value(v) >= 0 && json_integer_value(v) <= INT32_MAX;
        if (ok) ids[i] = (int32_t)json_integer_value(v);
    }
    g->n = 0;
    if (!ok) {
        fail("line %zu: \"ids\" holds something that is no token id", number);
    } else {
        char where[40];
        snprintf(where, sizeof(where), "line %zu: ", number);
        ok = decode(t, d, ids, n, where, gather, g);
    }
    free(ids);
    if (!ok) return EXIT_RUN;
    fputs("{\"text\":", stdout);
    json_print_text(stdout, g->data ? g->data : "", g->n);
    fputs("}\n", stdout);
    return EXIT_FINE;
}

static int convert_line(const struct args *a, const hearth_tokenizer *t, hearth_detokenizer *d,
                        const char *s, size_t n, size_t number, struct gathered *g) {
    json_error_t why;
    json_t *line = json_loadb(s, n, JSON_ALLOW_NUL | JSON_DECODE_ANY, &why);
    if (!line) return fail("line %zu: not JSON: %s (at byte %d)", number, why.text, why.position);
    int code = a->decode ? decode_line(t, d, line, number, g) : encode_line(a, t, line, number);
    json_decref(line);
    return code;
}

// Line by line, so that it can stand between other programs.
static int convert_lines(const struct args *a, const hearth_tokenizer *t, FILE *f) {
    struct hearth_error err = {HEARTH_OK, ""};
    struct gathered g = {NULL, 0, 0};
    hearth_detokenizer *d = NULL;
    int code = EXIT_FINE;
    char *line = NULL;
    size_t cap = 0, number = 0;
    if (a->decode && hearth_detokenizer_create(t, a->special, &d, &err)) return fail_error(&err);
    for (ssize_t n; !code && (n = getline(&line, &cap, f)) >= 0;) {
        if (n > 0 && line[n - 1] == '\n') n--;
        number++;
        bool blank = n == 0 || (n == 1 && *line == '\r'); // passed over
        if (!blank) code = convert_line(a, t, d, line, (size_t)n, number, &g);
        if (!blank && fflush(stdout) != 0) code = fail_stdout(errno);
    }
    if (!code && !feof(f))
        code = fail("%s: line %zu cannot be read: %s",
                    a->prompt    ? "the text"
                    : f == stdin ? "standard input"
                                 : a->file,
                    number + 1, strerror(errno));
    free(line);
    hearth_detokenizer_destroy(d);
    free(g.data);
    return code;
}

// ---- the command

static int check_options(const struct args *a) {
    if (a->ids &&
        (a->prompt || a->file || a->jsonl || a->begin || a->bench || a->pieces || a->count)) {
        return fail_usage("--ids turns ids into text; it goes with --special only");
    }
    if (a->decode && (!a->jsonl || a->begin)) {
        return fail_usage("--decode goes with --jsonl, and not with --begin");
    }
    if (a->jsonl + a->pieces + a->count + a->bench > 1) {
        return fail_usage("of --jsonl, --pieces, --count and --bench only one can be given");
    }
    return EXIT_FINE;
}

static int tokenize(const struct args *a, const hearth_tokenizer *t) {
    struct text text = {NULL, 0};
    FILE *f = NULL;
    if (a->ids) return decode_ids(a, t);
    int code = a->jsonl ? open_prompt(a, &f) : read_prompt(a, &text);
    if (!code) {
        code = a->jsonl   ? convert_lines(a, t, f)
               : a->bench ? bench_text(a, t, &text)
                          : encode_text(a, t, &text);
    }
    if (f && f != stdin) fclose(f);
    free(text.data);
    return code;
}

static int run(const struct args *a) {
    struct hearth_error err = {HEARTH_OK, ""};
    hearth_file *f = NULL;
    hearth_tokenizer *t = NULL;
    int code = check_options(a);
    if (code) return code;
    struct hearth_log log = cli_log(a);
    hearth_model *m = NULL;
    enum hearth_status s;
    if (!a->n_operands) {
        s = hearth_model_open_builtin(&log, &m, &err);
    } else {
        s = hearth_file_open(a->operands[0], &f, &err);
        if (!s) s = hearth_tokenizer_create(f, &log, &t, &err);
    }
    if (s) {
        code = a->n_operands ? fail_to_open(a, &err) : fail_error(&err);
    } else {
        code = tokenize(a, m ? hearth_model_tokenizer(m) : t);
        if (!code && !finish_stdout()) code = EXIT_RUN;
    }
    hearth_tokenizer_destroy(t);
    hearth_file_close(f);
    hearth_model_close(m);
    return code;
}

const struct command command_tokenize = {
    .name = "tokenize",
    .operands = "[MODEL]",
    .n_operands_max = 1,
    .summary = "turn text into token ids and back",
    .text = "Turns a text into the ids of its tokens, with commas between, and back. No begin or "
            "end token is added and control tokens are plain text, unless --begin and --special "
            "are given; the vocabulary's user-defined tokens are always read. MODEL may be a file "
            "with a vocabulary and nothing else; without it the built-in model's is used.",
    .groups = tokenize_groups,
    .n_groups = sizeof(tokenize_groups) / sizeof(tokenize_groups[0]),
    .run = run,
};
