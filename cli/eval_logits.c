// SPDX-License-Identifier: MIT
// hearth eval --tokens: the logits of one sequence at every position, written, compared, summed up;
// on request among other sequences in the same passes, which must not change a bit of them.
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli.h"

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "logits are written as they lie");

struct eval {
    const struct args *a;
    hearth_engine *engine;
    int32_t *tokens;
    size_t n_tokens;
    int32_t n_vocab;
    FILE *out;             // NULL: not written
    char *target;          // OUT with its links followed; NULL: written into
    char *tmp;             // what is written first, in its place
    mode_t mode;           // of what it replaces; 0: nothing
    bool waits;            // a pipe, which waits to be opened until somebody reads it
    struct text reference; // data NULL: not compared
    uint32_t next;         // position that comes next
    double error, norm;    // sum((a-b)^2), sum(b^2)
    double max_error;
    double nll;      // of tokens[1..], natural logarithm
    int write_error; // errno, or 0
    bool broken;     // logits that are no numbers
    struct progress progress;
    struct interrupt interrupt;
};

double negative_log(const float *logits, int32_t n, int32_t token) {
    float max = logits[0];
    double sum = 0;
    for (int32_t i = 1; i < n; i++) {
        if (logits[i] > max) max = logits[i];
    }
    for (int32_t i = 0; i < n; i++) sum += (double)expf(logits[i] - max);
    return log(sum) + (double)max - (double)logits[token];
}

static void compare(struct eval *e, uint32_t pos, const float *logits) {
    const char *row = e->reference.data + (size_t)pos * (size_t)e->n_vocab * sizeof(float);
    for (int32_t i = 0; i < e->n_vocab; i++) {
        float b;
        memcpy(&b, row + (size_t)i * sizeof(float), sizeof(b));
        double d = (double)logits[i] - (double)b;
        e->error += d * d;
        e->norm += (double)b * (double)b;
        if (fabs(d) > e->max_error || isnan(d)) e->max_error = fabs(d);
    }
}

static bool on_logits(void *user, hearth_request *r, uint32_t pos, const float *logits,
                      int32_t n_vocab) {
    struct eval *e = user;
    (void)r;
    if (pos != e->next || pos >= e->n_tokens || n_vocab != e->n_vocab) return false;
    e->next++;
    if (e->out && fwrite(logits, sizeof(float), (size_t)n_vocab, e->out) != (size_t)n_vocab) {
        e->write_error = errno ? errno : EIO;
        return false;
    }
    if (e->reference.data) compare(e, pos, logits);
    bool scored = pos + 1 < e->n_tokens;
    double nll = negative_log(logits, n_vocab, scored ? e->tokens[pos + 1] : 0);
    if (isnan(nll)) e->broken = true;
    if (scored) e->nll += nll;
    progress_set(&e->progress, e->next, e->n_tokens);
    return true;
}

// ---- the requests

// Sequence k of those it runs among: a shifted, cut copy of the tokens. Every second one generates
// while the others read.
static int create_other(struct eval *e, size_t k) {
    struct hearth_request_options o;
    struct hearth_error err = {HEARTH_OK, ""};
    hearth_request *r;
    size_t room = hearth_engine_n_ctx(e->engine), n = 1 + (k * 37 + 11) % e->n_tokens;
    if (n > room / 2) n = room > 1 ? room / 2 : 1;
    int32_t *tokens = malloc(n * sizeof(*tokens));
    if (!tokens) return fail("out of memory");
    for (size_t i = 0; i < n; i++) tokens[i] = e->tokens[(i + k + 1) % e->n_tokens];
    hearth_request_options_default(&o);
    o.sampling.temperature = k % 4 < 2 ? 0.0f : 0.8f;
    o.sampling.seed = k;
    o.max_tokens = k % 2 ? (int32_t)(room - n) : 0;
    if (o.max_tokens > 64) o.max_tokens = 64;
    o.ignore_end = true;
    // Destroyed with the engine.
    enum hearth_status s = hearth_request_create(e->engine, tokens, n, &o, &r, &err);
    free(tokens);
    return s ? fail_error(&err) : EXIT_FINE;
}

static int create_all(struct eval *e, hearth_request **out) {
    struct hearth_request_options o;
    struct hearth_error err = {HEARTH_OK, ""};
    size_t n_others = (size_t)e->a->among;
    hearth_request_options_default(&o);
    o.max_tokens = 0;
    o.prompt_chunk = (uint32_t)e->a->chunk;
    o.on_logits = on_logits;
    o.user = e;
    int code = EXIT_FINE;
    for (size_t k = 0; k < n_others / 2 && !code; k++) code = create_other(e, k);
    if (code) return code;
    if (hearth_request_create(e->engine, e->tokens, e->n_tokens, &o, out, &err)) {
        return fail_error(&err);
    }
    for (size_t k = n_others / 2; k < n_others && !code; k++) code = create_other(e, k);
    return code;
}

static int run_all(struct eval *e) {
    struct hearth_error err = {HEARTH_OK, ""};
    hearth_request *r = NULL;
    size_t n_active = 1;
    int code = create_all(e, &r);
    if (code) return code;
    interrupt_watch(&e->interrupt, r);
    progress_begin(&e->progress, "evaluating", "tokens");
    while (n_active && hearth_request_finish(r) == HEARTH_FINISH_NONE) {
        if (hearth_engine_step(e->engine, &n_active, &err)) {
            code = fail_error(&err);
            break;
        }
    }
    progress_end(&e->progress);
    interrupt_watch(&e->interrupt, NULL);
    if (code) return code;
    if (atomic_load(&e->interrupt.hit)) return EXIT_INTERRUPTED;
    if (e->write_error) {
        return fail("%s: cannot be written: %s", e->a->logits, strerror(e->write_error));
    }
    if (hearth_request_finish(r) == HEARTH_FINISH_ERROR && hearth_request_error(r, &err)) {
        return fail_error(&err);
    }
    if (e->next != e->n_tokens) {
        return fail("logits of %u of %zu positions came: a bug in Hearth", e->next, e->n_tokens);
    }
    return EXIT_FINE;
}

// ---- files and summary

static int open_reference(struct eval *e) {
    if (!e->a->compare) return EXIT_FINE;
    size_t expected = e->n_tokens * (size_t)e->n_vocab * sizeof(float);
    int code = read_begin(e->a->compare, expected, &e->reference);
    size_t n = e->reference.n;
    if (code || n == expected) return code;
    return fail("%s: has %s%zu bytes, %zu were expected for %zu token%s of %d logits",
                strcmp(e->a->compare, "-") == 0 ? "standard input" : e->a->compare,
                n > expected ? "more than " : "", n > expected ? expected : n, expected,
                e->n_tokens, PLURAL(e->n_tokens), (int)e->n_vocab);
}

// Whether a file is what the summary is printed to: opened a second time, one would overwrite the
// other, or both stand in one pipe.
static bool is_stdout(const char *name) {
    struct stat there, out;
    if (stat(name, &there) != 0 || fstat(STDOUT_FILENO, &out) != 0) return false;
    return there.st_dev == out.st_dev && there.st_ino == out.st_ino &&
           (!S_ISCHR(out.st_mode) || isatty(STDOUT_FILENO));
}

// By what it begins with, so that no part of a split one is replaced either.
static bool is_model_file(const char *name) {
    struct stat there;
    char magic[4] = "";
    if (stat(name, &there) != 0 || !S_ISREG(there.st_mode)) return false; // a pipe would wait
    FILE *f = fopen(name, "rb");
    bool is = f && fread(magic, 1, 4, f) == 4 && memcmp(magic, "GGUF", 4) == 0;
    if (f) fclose(f);
    return is;
}

static int check_output(const struct args *a) {
    if (!a->logits) return EXIT_FINE;
    if (!*a->logits) return fail_usage("--logits wants a file, its name is empty");
    if (strcmp(a->logits, "-") == 0)
        return fail_usage("--logits wants a file (./- for one of that name), since the summary "
                          "goes to the standard output");
    if (is_model_file(a->logits))
        return fail_usage("--logits %s: is a model file, which they would replace", a->logits);
    if (is_stdout(a->logits))
        return fail_usage("--logits %s: is the standard output, where the summary goes", a->logits);
    return EXIT_FINE;
}

// The name of a descriptor that is open already: whoever opened it reads from that.
static bool is_descriptor(const char *name) {
    return strncmp(name, "/dev/fd/", 8) == 0 || strncmp(name, "/proc/", 6) == 0;
}

// Half a file would look like a whole one, so OUT appears when all is in OUT.tmp; where OUT is a
// link, the file that it leads to. A pipe, a device, and what is open already is written into.
static int find_target(struct eval *e) {
    struct stat there;
    const char *name = e->a->logits;
    if (!name) return EXIT_FINE;
    bool is_new = stat(name, &there) != 0;
    if (is_new && lstat(name, &there) == 0)
        return fail("%s: is a link that leads nowhere: %s", name, strerror(errno));
    if (is_new && is_descriptor(name))
        return fail("%s: cannot be written: %s", name, strerror(ENOENT));
    e->mode = is_new ? 0 : there.st_mode & 07777;
    e->waits = !is_new && S_ISFIFO(there.st_mode);
    if (is_new || (S_ISREG(there.st_mode) && there.st_nlink > 0 && !is_descriptor(name))) {
        e->target = is_new ? strdup(name) : realpath(name, NULL);
        size_t n = e->target ? strlen(e->target) + 5 : 0;
        e->tmp = n ? malloc(n) : NULL;
        if (!e->tmp) return fail("%s: %s", name, strerror(errno));
        snprintf(e->tmp, n, "%s.tmp", e->target);
    }
    return EXIT_FINE;
}

static int open_output(struct eval *e) {
    const char *name = e->a->logits, *opened = e->tmp ? e->tmp : name;
    if (!name) return EXIT_FINE;
    e->out = fopen(opened, e->tmp ? "wbx" : "wb");
    if (!e->out && errno == EEXIST)
        return fail("%s: is there already: another run writes it, or one that was stopped left it; "
                    "it has to go first",
                    opened);
    if (!e->out) return fail("%s: cannot be written: %s", opened, strerror(errno));
    if (e->tmp && e->mode) (void)!fchmod(fileno(e->out), e->mode);
    return EXIT_FINE;
}

static int close_output(struct eval *e, int code) {
    int why = 0;
    if (e->out && e->tmp && !code && (fflush(e->out) != 0 || fsync(fileno(e->out)) != 0))
        why = errno;
    if (e->out && fclose(e->out) != 0 && !why) why = errno;
    if (why && !code) code = fail("%s: cannot be written: %s", e->a->logits, strerror(why));
    if (e->out && e->tmp && !code && rename(e->tmp, e->target) != 0) {
        code = fail("%s: cannot be replaced: %s; the logits are in %s", e->a->logits,
                    strerror(errno), e->tmp);
    } else if (e->out && e->tmp && code) {
        unlink(e->tmp);
    }
    free(e->tmp);
    free(e->target);
    return code;
}

static void print_summary(const struct eval *e) {
    printf("%zu token%s, %d logits each, %s\n", e->n_tokens, PLURAL(e->n_tokens), (int)e->n_vocab,
           hearth_engine_device(e->engine));
    if (e->n_tokens > 1 && !e->broken) {
        double mean = e->nll / (double)(e->n_tokens - 1);
        char text[32];
        printf("perplexity of these tokens %s\n", format_perplexity(text, exp(mean)));
    }
    if (e->reference.data) {
        printf("nmse %.3e, largest difference %.3e\n", e->error / e->norm, e->max_error);
    }
}

uint32_t logits_rows(uint32_t n_vocab, int64_t wanted, size_t n_tokens, uint32_t n_batch) {
    uint64_t rows = ((uint64_t)64 << 20) / ((uint64_t)n_vocab * sizeof(float));
    if (rows < 16) rows = 16;
    if (wanted) rows = (uint64_t)wanted;
    if (rows > n_batch) rows = n_batch;
    if (rows > n_tokens) rows = n_tokens;
    return (uint32_t)rows;
}

int fail_not_finite(const struct args *a, bool unwritten) {
    return fail("%s: a logit is no finite number: the model's weights hold NaN or infinities, or "
                "its numbers overflow%s%s%s",
                model_label(a), unwritten ? "; " : "", unwritten ? a->logits : "",
                unwritten ? " was not written" : "");
}

static int eval_model(struct eval *e, const hearth_model *m) {
    struct hearth_model_info info;
    struct hearth_engine_options o;
    hearth_model_get_info(m, &info);
    e->n_vocab = (int32_t)info.n_vocab;
    int code = open_reference(e);
    if (code) return code;
    engine_options(e->a, &o);
    o.n_seqs = (uint32_t)e->a->among + 1;
    if (!o.n_ctx) o.n_ctx = e->n_tokens < UINT32_MAX ? (uint32_t)e->n_tokens : UINT32_MAX;
    o.n_logits = logits_rows(info.n_vocab, e->a->chunk, e->n_tokens, o.n_batch);
    o.n_logits += (uint32_t)e->a->among;
    if (o.n_logits > o.n_batch) o.n_logits = o.n_batch;
    code = find_target(e);
    if (!code && e->waits) code = open_output(e); // Ctrl-C ends that
    if (!code) interrupt_begin(&e->interrupt);
    if (!code) code = create_engine(m, &o, &e->engine);
    if (!code && !e->waits) code = open_output(e);
    if (!code) code = run_all(e);
    bool ran = !code;
    if (ran && e->broken) code = fail_not_finite(e->a, e->tmp != NULL);
    code = close_output(e, code);
    if (ran && (!code || e->broken)) print_summary(e);
    interrupt_end(&e->interrupt); // in front of what it would call off
    hearth_engine_destroy(e->engine);
    return code;
}

int eval_tokens(const struct args *a) {
    struct eval e = {.a = a};
    hearth_model *m = NULL;
    int code = check_output(a);
    if (!code) code = parse_ids("--tokens", a->tokens, &e.tokens, &e.n_tokens);
    if (code) return code;
    code = open_model(a, &m);
    if (!code) code = eval_model(&e, m);
    if (!finish_stdout()) code = EXIT_RUN;
    hearth_model_close(m);
    free(e.reference.data);
    free(e.tokens);
    return code;
}
