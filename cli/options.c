// SPDX-License-Identifier: MIT
// Parses arguments by the option tables. An option that is unknown, lacks its value, is given
// twice or is out of its range is refused with a sentence; nothing is guessed.
#include "options.h"

#include <errno.h>
#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "cli.h"

void args_default(struct args *a) {
    struct hearth_sampling s;
    struct hearth_engine_options e;
    hearth_sampling_default(&s);
    hearth_engine_options_default(&e);
    *a = (struct args){
        .n_predict = -1,
        .logprobs = -1,
        .top_k = s.top_k,
        .penalty_window = s.penalty_window,
        .temp = (double)s.temperature,
        .top_p = (double)s.top_p,
        .min_p = (double)s.min_p,
        .repeat_penalty = (double)s.repetition_penalty,
        .presence_penalty = (double)s.presence_penalty,
        .frequency_penalty = (double)s.frequency_penalty,
        .seed = s.seed,
        .backend = "cpu",
        .kv_type = hearth_kv_type_name(e.kv_type),
        .seqs = 1,
        .batch = e.n_batch,
        .items = 8,
        .reps = 5,
    };
}

void args_free(struct args *a) {
    free(a->stop.items);
    free(a->logit_bias.items);
    free(a->bench_prompt.items);
    free(a->bench_generate.items);
    free(a->bench_depth.items);
    free(a->bench_seqs.items);
}

// ---- values

// What is larger than all numbers becomes the largest, which is out of every range.
static bool parse_int(const char *text, int64_t *out) {
    char *end;
    long long v = strtoll(text, &end, 10);
    *out = v;
    return end != text && !*end;
}

static bool set_int(const struct option *o, const char *text, int64_t *out) {
    int64_t v;
    if (!parse_int(text, &v)) {
        fail_usage("%s %s: a whole number was expected", o->name, text);
        return false;
    }
    if ((double)v < o->min || (double)v > o->max) {
        fail_usage("%s %s: out of range, %.0f to %.0f was expected", o->name, text, o->min, o->max);
        return false;
    }
    *out = v;
    return true;
}

static bool set_seed(const struct option *o, const char *text, uint64_t *out) {
    char *end;
    errno = 0;
    unsigned long long v = strtoull(text, &end, 10);
    if (end == text || *end || errno || strchr(text, '-')) {
        fail_usage("%s %s: a whole number from 0 to 18446744073709551615 was expected", o->name,
                   text);
        return false;
    }
    *out = v;
    return true;
}

static bool set_float(const struct option *o, const char *text, double *out) {
    char *end;
    double v = strtod(text, &end);
    if (end == text || *end || isnan(v)) {
        fail_usage("%s %s: a number was expected", o->name, text);
        return false;
    }
    if (v < o->min || v > o->max) {
        fail_usage("%s %s: out of range, %g to %g was expected", o->name, text, o->min, o->max);
        return false;
    }
    *out = v;
    return true;
}

static bool set_choice(const struct option *o, const char *text, const char **out) {
    char all[64] = "";
    for (const char *const *c = o->choices; *c; c++) {
        if (strcasecmp(*c, text) == 0) {
            *out = *c;
            return true;
        }
        size_t n = strlen(all);
        snprintf(all + n, sizeof(all) - n, "%s%s", n ? "|" : "", *c);
    }
    fail_usage("%s %s: one of %s was expected", o->name, text, all);
    return false;
}

// Room for one more element.
static void *grow(void *items, size_t n, size_t size) {
    void *p = realloc(items, (n + 1) * size);
    if (!p) fail("out of memory");
    return p;
}

static bool add_text(const struct option *o, const char *text, struct texts *out) {
    if (!*text) {
        fail_usage("%s: some text was expected", o->name);
        return false;
    }
    const char **p = grow(out->items, out->n, sizeof(*p));
    if (!p) return false;
    out->items = p;
    p[out->n++] = text;
    return true;
}

static bool add_bias(const struct option *o, const char *text, struct biases *out) {
    char *end;
    long id = strtol(text, &end, 10);
    bool ok = end != text && *end == '=' && id >= 0 && id <= INT32_MAX;
    const char *number = ok ? end + 1 : text;
    double x = ok ? strtod(number, &end) : 0;
    bool number_ok = ok && end != number && !*end && (x == -INFINITY || fabs(x) <= FLT_MAX);
    if (!number_ok) {
        fail_usage("%s %s: a token id, '=' and a number were expected, like 42=-1.5 or 42=-inf",
                   o->name, text);
        return false;
    }
    struct hearth_logit_bias *p = grow(out->items, out->n, sizeof(*p));
    if (!p) return false;
    out->items = p;
    p[out->n++] = (struct hearth_logit_bias){.token = (int32_t)id, .bias = (float)x};
    return true;
}

static bool set_numbers(const struct option *o, const char *text, struct numbers *out) {
    for (const char *c = text;;) {
        char *end;
        long long v = strtoll(c, &end, 10); // the largest, if it is larger than all
        if (end == c || (*end && *end != ',')) {
            fail_usage("%s %s: whole numbers with commas between were expected, like 128,512",
                       o->name, text);
            return false;
        }
        if ((double)v < o->min || (double)v > o->max) {
            fail_usage("%s %s: %.*s is out of range, %.0f to %.0f was expected", o->name, text,
                       (int)(end - c), c, o->min, o->max);
            return false;
        }
        int64_t *p = grow(out->items, out->n, sizeof(*p));
        if (!p) return false;
        out->items = p;
        p[out->n++] = v;
        if (!*end) return true;
        c = end + 1;
    }
}

static bool set_value(const struct option *o, const char *text, struct args *a) {
    void *at = (char *)a + o->offset;
    switch (o->type) {
    case OPTION_FLAG: *(bool *)at = true; return true;
    case OPTION_INT: return set_int(o, text, at);
    case OPTION_SEED: return set_seed(o, text, at);
    case OPTION_FLOAT: return set_float(o, text, at);
    case OPTION_TEXT: *(const char **)at = text; return true;
    case OPTION_TEXTS: return add_text(o, text, at);
    case OPTION_CHOICE: return set_choice(o, text, at);
    case OPTION_NUMBERS: return set_numbers(o, text, at);
    case OPTION_BIASES: return add_bias(o, text, at);
    }
    return false;
}

// ---- looking up

static bool is_named(const struct option *o, const char *name, size_t n) {
    if (strlen(o->name) == n && strncmp(o->name, name, n) == 0) return true;
    return o->alias && strlen(o->alias) == n && strncmp(o->alias, name, n) == 0;
}

const struct option *find_option(const struct command *c, const char *name, size_t n) {
    for (size_t g = 0; g < c->n_groups; g++) {
        for (size_t i = 0; i < c->groups[g]->n; i++) {
            if (is_named(&c->groups[g]->options[i], name, n)) return &c->groups[g]->options[i];
        }
    }
    return NULL;
}

// ---- the command line

// One option at argv[i]; *used receives how many arguments it took.
static enum parse_result parse_option(const struct command *c, const struct command *const *all,
                                      size_t n_all, int argc, char **argv, int i,
                                      const struct option **given, size_t *n_given, int *used,
                                      struct args *a) {
    const char *arg = argv[i], *equals = strncmp(arg, "--", 2) == 0 ? strchr(arg, '=') : NULL;
    size_t n = equals ? (size_t)(equals - arg) : strlen(arg);
    const struct option *o = find_option(c, arg, n);
    const char *value = equals ? equals + 1 : NULL;
    if (!o) {
        refuse_option(c, all, n_all, arg, n);
        return PARSE_BAD;
    }
    *used = 1;
    if (o->type == OPTION_FLAG && value) {
        fail_usage("%s takes no value, '%s' was given", o->name, value);
        return PARSE_BAD;
    }
    if (o->type != OPTION_FLAG && !value) {
        if (i + 1 >= argc) {
            fail_usage("%.*s lacks its value %s; see 'hearth help %s'", (int)n, arg, o->arg,
                       c->name);
            return PARSE_BAD;
        }
        value = argv[i + 1];
        *used = 2;
    }
    if (o->type != OPTION_TEXTS && o->type != OPTION_BIASES) {
        for (size_t k = 0; k < *n_given; k++) {
            if (given[k] != o) continue;
            fail_usage("%s is given twice", o->name);
            return PARSE_BAD;
        }
        given[(*n_given)++] = o;
    }
    return set_value(o, value, a) ? PARSE_RUN : PARSE_BAD;
}

// The option that has a choice of that name.
static const struct option *find_choice(const struct command *c, const char *name) {
    for (size_t g = 0; g < c->n_groups; g++)
        for (size_t i = 0; i < c->groups[g]->n; i++) {
            const struct option *o = &c->groups[g]->options[i];
            for (const char *const *x = o->choices; x && *x; x++)
                if (strcasecmp(*x, name) == 0) return o;
        }
    return NULL;
}

static bool add_operand(const struct command *c, const char *arg, struct args *a) {
    if (!*arg) {
        fail_usage("'hearth %s': an argument is empty, where %s was expected", c->name,
                   c->n_operands_max ? c->operands : "an option");
        return false;
    }
    if (a->n_operands < c->n_operands_max) {
        a->operands[a->n_operands++] = arg;
        return true;
    }
    const struct option *o = a->takes_text ? NULL : find_choice(c, arg);
    if (o) {
        fail_usage("'%s' is too much; did you mean %s %s? See 'hearth help %s'", arg, o->name, arg,
                   c->name);
    } else if (c->n_operands_max == 0) {
        fail_usage("'%s' is too much: 'hearth %s' takes options only", arg, c->name);
    } else {
        fail_usage("'%s' is too much: 'hearth %s' takes %s%s", arg, c->name, c->operands,
                   a->takes_text ? "; texts with spaces want quotes" : "");
    }
    return false;
}

enum parse_result args_parse(const struct command *c, const struct command *const *all,
                             size_t n_all, int argc, char **argv, struct args *a) {
    const struct option *given[128], *prompt = find_option(c, "-p", 2);
    size_t n_given = 0;
    bool only_operands = false;
    a->takes_text = prompt && prompt->type == OPTION_TEXT;
    for (int i = 0, used = 1; i < argc; i += used) {
        const char *arg = argv[i];
        used = 1;
        if (only_operands || arg[0] != '-' || !arg[1]) {
            if (!add_operand(c, arg, a)) return PARSE_BAD;
        } else if (strcmp(arg, "--") == 0) {
            only_operands = true;
        } else if (strcmp(arg, "--help") == 0 || strcmp(arg, "-h") == 0) {
            return PARSE_HELP;
        } else if (strncmp(arg, "--help=", 7) == 0) {
            fail_usage("--help takes no value, '%s' was given", arg + 7);
            return PARSE_BAD;
        } else {
            enum parse_result r =
                parse_option(c, all, n_all, argc, argv, i, given, &n_given, &used, a);
            if (r != PARSE_RUN) return r;
        }
    }
    if (a->n_operands < c->n_operands_min) {
        fail_usage("'hearth %s' wants %s; see 'hearth help %s'", c->name, c->operands, c->name);
        return PARSE_BAD;
    }
    return PARSE_RUN;
}

// ---- lists of token ids

static bool add_id(const char *name, const char *word, size_t n, int32_t **ids, size_t *n_ids,
                   size_t *cap) {
    char *end;
    errno = 0;
    long v = strtol(word, &end, 10);
    if (n == 0) {
        fail_usage("%s: number %zu of the list is empty", name, *n_ids + 1);
        return false;
    }
    if (errno || end != word + n || v < 0 || v > INT32_MAX) {
        fail_usage("%s: '%.*s', number %zu of the list, is no token id", name,
                   (int)(n < 40 ? n : 40), word, *n_ids + 1);
        return false;
    }
    if (*n_ids == *cap) {
        size_t more = *cap ? *cap * 2 : 256;
        int32_t *p = realloc(*ids, more * sizeof(*p));
        if (!p) {
            fail("out of memory");
            return false;
        }
        *ids = p;
        *cap = more;
    }
    (*ids)[(*n_ids)++] = (int32_t)v;
    return true;
}

int parse_ids(const char *name, const char *text, int32_t **ids, size_t *n) {
    static const char white[] = " \t\r\n", separators[] = ", \t\r\n";
    struct text from_file = {NULL, 0};
    int32_t *list = NULL;
    size_t n_list = 0, cap = 0;
    if (text[0] == '@') {
        int code = read_file(text + 1, MOST_TEXT, &from_file);
        if (code) return code;
        text = from_file.data;
    }
    bool ok = !from_file.data || strlen(from_file.data) == from_file.n;
    if (!ok) fail_usage("%s: the file is no text: it has a zero byte", name);
    const char *c = text + strspn(text, white);
    for (bool comma = false; ok && (*c || comma);) {
        size_t len = strcspn(c, separators);
        ok = add_id(name, c, len, &list, &n_list, &cap);
        c += len;
        c += strspn(c, white);
        comma = *c == ',';
        c += comma;
        c += strspn(c, white);
    }
    if (ok && n_list == 0) {
        fail_usage("%s: at least one token id was expected, like 1,2,3 or @FILE", name);
        ok = false;
    }
    free(from_file.data);
    if (!ok) {
        free(list);
        return EXIT_USAGE;
    }
    *ids = list;
    *n = n_list;
    return EXIT_FINE;
}
