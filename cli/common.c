// SPDX-License-Identifier: MIT
// What several commands do alike: reading text, opening models and engines, encoding prompts; and
// the option groups they share.
#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "cli.h"

#define AT(field) offsetof(struct args, field)

static const struct option prompt_options[] = {
    {"--prompt", "-p", "TEXT", OPTION_TEXT, AT(prompt), 0, 0, NULL, NULL,
     "the text as it is: \\n is two characters; bash writes a line's end as $'\\n'"},
    {"--file", "-f", "FILE", OPTION_TEXT, AT(file), 0, 0, NULL, NULL,
     "read the text from FILE, every byte of it, the last line's end as well; - is standard input, "
     "which is also read where neither -p nor -f is given and it is not a terminal"},
};
const struct option_group group_prompt = {"Text", prompt_options,
                                          sizeof(prompt_options) / sizeof(prompt_options[0])};

static const struct option sampling_options[] = {
    {"--temp", NULL, "X", OPTION_FLOAT, AT(temp), 0, 100, NULL, NULL,
     "temperature; 0 takes the most likely token each time"},
    {"--top-k", NULL, "N", OPTION_INT, AT(top_k), 0, INT32_MAX, NULL, NULL,
     "draw among the N most likely tokens; 0: all"},
    {"--top-p", NULL, "X", OPTION_FLOAT, AT(top_p), 0, 1, NULL, NULL,
     "draw among the fewest tokens whose probabilities reach X together; 1: all"},
    {"--min-p", NULL, "X", OPTION_FLOAT, AT(min_p), 0, 1, NULL, NULL,
     "leave out tokens less likely than X times the most likely one; 0: none"},
    {"--repeat-penalty", NULL, "X", OPTION_FLOAT, AT(repeat_penalty), 0.01, 100, NULL, NULL,
     "divide positive and multiply negative logits of tokens that were seen; 1: off"},
    {"--presence-penalty", NULL, "X", OPTION_FLOAT, AT(presence_penalty), -100, 100, NULL, NULL,
     "subtract X from the logit of each token that was seen; 0: off"},
    {"--frequency-penalty", NULL, "X", OPTION_FLOAT, AT(frequency_penalty), -100, 100, NULL, NULL,
     "subtract X for each time the token was seen; 0: off"},
    {"--penalty-window", NULL, "N", OPTION_INT, AT(penalty_window), 0, UINT32_MAX, NULL, NULL,
     "penalties look at the last N tokens; 0: none"},
    {"--logit-bias", NULL, "ID=X", OPTION_BIASES, AT(logit_bias), 0, 0, NULL, NULL,
     "add X to the logit of token ID; -inf forbids it; may be given several times"},
    {"--seed", NULL, "N", OPTION_SEED, AT(seed), 0, 0, NULL, NULL,
     "the same seed gives the same text"},
};
const struct option_group group_sampling = {
    "Sampling (bias, penalties, top-k, temperature, top-p, min-p, draw)", sampling_options,
    sizeof(sampling_options) / sizeof(sampling_options[0])};

static const char *const kv_types[] = {"i16", "f16", "f32", "bf16", "q8_0", NULL};
static const char *const backends[] = {"cpu", "ref", NULL};
static const struct option engine_options_[] = {
    {"--ctx", NULL, "N", OPTION_INT, AT(ctx), 1, 1 << 26, NULL,
     "the model's own, at most 4096; eval and bench: what they need",
     "positions of a sequence: prompt and generated tokens together"},
    {"--kv-type", NULL, "T", OPTION_CHOICE, AT(kv_type), 0, 0, kv_types, NULL,
     "number format of keys and values: i16 (16-bit whole numbers, the fastest for prompts), f16, "
     "f32, bf16 or q8_0 (half as large, faster behind long contexts, a little less exact)"},
    {"--batch", NULL, "N", OPTION_INT, AT(batch), 1, 65536, NULL, NULL,
     "tokens of one pass at most"},
    {"--repack", NULL, NULL, OPTION_FLAG, AT(repack), 0, 0, NULL, NULL,
     "copy the weights in the order that this machine reads fastest: the same text, faster, for as "
     "much memory again as they have and a later start; for AVX2, and AVX-512 with VNNI"},
    {"--backend", NULL, "B", OPTION_CHOICE, AT(backend), 0, 0, backends, NULL,
     "cpu, or ref: the slow specification that cpu is tested against, on one thread"},
};
const struct option_group group_engine = {"Engine", engine_options_,
                                          sizeof(engine_options_) / sizeof(engine_options_[0])};

static const struct option processor_options[] = {
    {"--threads", "-t", "N", OPTION_INT, AT(threads), 0, 256, NULL,
     "0: the fast cores this process may use", "threads that compute"},
    {"--cpu-mask", NULL, "HEX", OPTION_TEXT, AT(cpu_mask), 0, 0, NULL,
     "none: the system places the threads",
     "the CPUs that compute, one thread bound to each; CPU 0 is the lowest bit: f0 is 4 to 7"},
    {"--cpu-level", NULL, "L", OPTION_TEXT, AT(cpu_level), 0, 0, NULL, "the best there is",
     "the kernels to use, of those that run here ('hearth doctor' lists them): scalar, avx2, "
     "avx2vnni, avx512, avx512vnni, avx512bf16, amx; neon, neon_dotprod, neon_i8mm"},
};
const struct option_group group_processor = {
    "Processor", processor_options, sizeof(processor_options) / sizeof(processor_options[0])};

static const struct option file_options[] = {
    {"--no-mmap", NULL, NULL, OPTION_FLAG, AT(no_mmap), 0, 0, NULL, NULL,
     "read the file into memory instead of mapping it: starts later, shares nothing with other "
     "processes, lies on 2 MB pages where the system has them, which can be faster, and stays as "
     "it is when the file is changed (a mapped one that is cut short ends the program)"},
};
const struct option_group group_file = {"File", file_options, 1};

static const struct option common_options[] = {
    {"--verbose", "-v", NULL, OPTION_FLAG, AT(verbose), 0, 0, NULL, NULL,
     "print what the library logs"},
};
const struct option_group group_common = {"General", common_options, 1};

// ---- text

static int read_stream(FILE *f, const char *name, size_t most, struct text *out) {
    struct text t = {NULL, 0};
    size_t cap = 0;
    do {
        size_t more = cap ? cap * 2 : 1 << 16;
        if (more > most + 2) more = most + 2; // one byte too many, and the 0
        if (t.n > most) break;                // /dev/zero has no end
        char *p = realloc(t.data, more);
        if (!p) {
            free(t.data);
            return fail("%s: out of memory after %zu bytes", name, t.n);
        }
        t.data = p;
        cap = more;
        t.n += fread(t.data + t.n, 1, cap - t.n - 1, f);
    } while (t.n == cap - 1);
    if (ferror(f)) {
        free(t.data);
        return fail("%s: cannot be read: %s", name, strerror(errno));
    }
    t.data[t.n] = 0;
    *out = t;
    return EXIT_FINE;
}

// stdin for "-".
static int open_file(const char *path, FILE **out) {
    if (!*path) return fail_usage("the name of a file to read is empty");
    *out = strcmp(path, "-") == 0 ? stdin : fopen(path, "rb");
    return *out ? EXIT_FINE : fail("%s: cannot be read: %s", path, strerror(errno));
}

static const char *file_label(const char *path) {
    return strcmp(path, "-") == 0 ? "standard input" : path;
}

int read_begin(const char *path, size_t most, struct text *out) {
    FILE *f;
    int code = open_file(path, &f);
    if (code) return code;
    code = read_stream(f, file_label(path), most, out);
    if (f != stdin) fclose(f);
    return code;
}

int read_file(const char *path, size_t most, struct text *out) {
    int code = read_begin(path, most, out);
    if (code || out->n <= most) return code;
    free(out->data);
    *out = (struct text){NULL, 0};
    return fail("%s: has more than %zu bytes", file_label(path), most);
}

static int check_prompt(const struct args *a) {
    if (a->prompt && a->file) return fail_usage("-p and -f both give the text; one is enough");
    if (!a->prompt && !a->file && isatty(STDIN_FILENO)) {
        return fail_usage("there is no text: give -p TEXT, -f FILE, or pipe it in");
    }
    return EXIT_FINE;
}

int open_prompt(const struct args *a, FILE **out) {
    int code = check_prompt(a);
    if (code) return code;
    if (!a->prompt) return open_file(a->file ? a->file : "-", out);
    *out = fmemopen((void *)(uintptr_t)a->prompt, strlen(a->prompt), "r"); // only read
    return *out ? EXIT_FINE : fail("the text cannot be read: %s", strerror(errno));
}

int read_prompt(const struct args *a, struct text *out) {
    int code = check_prompt(a);
    if (code) return code;
    if (!a->prompt) return read_file(a->file ? a->file : "-", MOST_TEXT, out);
    out->data = strdup(a->prompt);
    if (!out->data) return fail("out of memory");
    out->n = strlen(out->data);
    return EXIT_FINE;
}

// ---- models

const char *model_label(const struct args *a) {
    return a->n_operands ? a->operands[0] : "the built-in model";
}

static enum hearth_status open_copy(const char *path, const struct hearth_log *log,
                                    hearth_model **out, struct hearth_error *err) {
    hearth_file *f;
    enum hearth_status s = hearth_file_open_copy(path, &f, err);
    if (s) return s;
    s = hearth_model_open_file(f, log, out, err);
    if (s) hearth_file_close(f);
    return s;
}

int fail_to_open(const struct args *a, const struct hearth_error *err) {
    const char *path = a->operands[0];
    if (err->status == HEARTH_E_IO && strcmp(path, "-") == 0)
        return fail("%s; a model cannot be read from standard input", err->message);
    size_t n = strlen(path);
    bool is_name = strchr(path, '/') || (n > 5 && strcasecmp(path + n - 5, ".gguf") == 0);
    bool may_be_text = err->status == HEARTH_E_IO && a->takes_text && !is_name &&
                       access(path, F_OK) != 0 && errno == ENOENT;
    if (may_be_text && strchr(path, ' ') && !a->prompt && !a->file)
        return fail("%s; a text is given with -p", err->message);
    if (may_be_text && a->prompt && !strpbrk(path, " .")) // the second word of one
        return fail("%s; a text with spaces wants quotes", err->message);
    return fail_error(err);
}

int open_model(const struct args *a, hearth_model **out) {
    struct hearth_error err = {HEARTH_OK, ""};
    struct hearth_log log = cli_log(a);
    struct progress p;
    if (a->no_mmap && !a->n_operands)
        return fail_usage(
            "--no-mmap is for a model file: the built-in model is part of the program");
    progress_begin(&p, "opening the model", "");
    enum hearth_status s;
    if (!a->n_operands)
        s = hearth_model_open_builtin(&log, out, &err);
    else if (a->no_mmap)
        s = open_copy(a->operands[0], &log, out, &err);
    else
        s = hearth_model_open(a->operands[0], &log, out, &err);
    progress_end(&p);
    if (s && a->n_operands) return fail_to_open(a, &err);
    return s ? fail_error(&err) : EXIT_FINE;
}

void engine_options(const struct args *a, struct hearth_engine_options *o) {
    hearth_engine_options_default(o);
    o->backend = a->backend;
    o->cpu_level = a->cpu_level;
    o->cpu_mask = a->cpu_mask;
    o->n_threads = (int)a->threads;
    o->n_ctx = (uint32_t)a->ctx;
    o->n_seqs = (uint32_t)a->seqs;
    o->n_batch = (uint32_t)a->batch;
    o->repack = a->repack;
    for (int i = 0; hearth_kv_type_name((enum hearth_kv_type)i); i++) {
        if (strcmp(a->kv_type, hearth_kv_type_name((enum hearth_kv_type)i)) == 0) {
            o->kv_type = (enum hearth_kv_type)i;
        }
    }
    o->log = cli_log(a);
}

int create_engine(const hearth_model *m, const struct hearth_engine_options *o,
                  hearth_engine **out) {
    struct hearth_error err = {HEARTH_OK, ""};
    struct progress p;
    progress_begin(&p, "preparing the model", "");
    enum hearth_status s = hearth_engine_create(m, o, out, &err);
    progress_end(&p);
    return s ? fail_error(&err) : EXIT_FINE;
}

const hearth_tokenizer *need_tokenizer(const hearth_model *m, const struct args *a) {
    const hearth_tokenizer *t = hearth_model_tokenizer(m);
    if (!t) {
        fail("%s: has no vocabulary (tokenizer.ggml.model names none), so text cannot be read or "
             "written; 'hearth eval --tokens' takes token ids",
             model_label(a));
    }
    return t;
}

int encode_prompt(const hearth_tokenizer *t, const struct text *text, bool special, bool begin,
                  int32_t *first, struct hearth_tokens *out) {
    struct hearth_error err = {HEARTH_OK, ""};
    unsigned flags = HEARTH_ENCODE_PLAIN;
    bool begins = begin && hearth_tokenizer_adds_begin(t);
    if (special) flags |= HEARTH_ENCODE_SPECIAL;
    if (begin) flags |= HEARTH_ENCODE_BEGIN_END;
    if (hearth_encode(t, text->data, text->n, flags, out, &err)) return fail("%s", err.message);
    if (first) *first = begins ? out->ids[0] : -1;
    // A text that is to be continued has no end yet.
    if (begin && hearth_tokenizer_adds_end(t)) out->n--;
    if (!first && begins && out->n > 1 && out->ids[1] == out->ids[0])
        note("warning: the text begins with the model's begin token, and another one is put in "
             "front of it; --raw leaves that out");
    return EXIT_FINE;
}
