// SPDX-License-Identifier: MIT
// hearth inspect: what a file is, what its plan is, what it will take. Works on any GGUF file; for
// a model that cannot run, everything that can be said is said, and then why.
#include <inttypes.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "cli.h"

#define AT(field) offsetof(struct args, field)

static const struct option inspect_options[] = {
    {"--json", NULL, NULL, OPTION_FLAG, AT(json), 0, 0, NULL, NULL, "one JSON object"},
    {"--tensors", NULL, NULL, OPTION_FLAG, AT(tensors), 0, 0, NULL, NULL,
     "list the tensors: name, format, shape (rows first), bytes, offset"},
    {"--plan", NULL, NULL, OPTION_FLAG, AT(plan), 0, 0, NULL, NULL,
     "print the steps that compute a pass"},
    {"--memory", NULL, NULL, OPTION_FLAG, AT(memory), 0, 0, NULL, NULL,
     "print what a run with --seqs and the options of the engine will take"},
    {"--seqs", NULL, "N", OPTION_INT, AT(seqs), 1, 4096, NULL, NULL, "sequences that run at once"},
    {"--items", NULL, "N", OPTION_INT, AT(items), 0, UINT32_MAX, NULL, NULL,
     "elements of an array that are shown; 0: all (without --json, lines are cut)"},
};
static const struct option_group inspect_group = {
    "What to print", inspect_options, sizeof(inspect_options) / sizeof(inspect_options[0])};
static const struct option_group *const inspect_groups[] = {&inspect_group, &group_engine,
                                                            &group_processor, &group_common};

struct inspect {
    const struct args *a;
    const hearth_file *file;
    bool is_cut;         // only its head is there
    hearth_model *model; // NULL: it cannot run
    struct hearth_error why;
    struct hearth_memory memory;
    bool has_memory;
};

// ---- metadata

// The value of entry i as JSON, owned by the caller; NULL when memory is out.
static char *meta_value(const struct inspect *in, size_t i, const char **key, char type[32]) {
    size_t max_items = in->a->items ? (size_t)in->a->items : SIZE_MAX;
    size_t n = hearth_file_meta(in->file, i, max_items, key, type, NULL, 0);
    char *buf = malloc(n + 1);
    if (buf) hearth_file_meta(in->file, i, max_items, key, type, buf, n + 1);
    return buf;
}

// At most 60 bytes of a value, cut between characters.
static void print_cut(const char *s) {
    size_t n = strlen(s), cut = 60;
    if (n <= cut) {
        puts(s);
        return;
    }
    while (cut && ((unsigned char)s[cut] & 0xc0) == 0x80) cut--;
    printf("%.*s... (%zu bytes)\n", (int)cut, s, n);
}

static void print_metadata(const struct inspect *in) {
    size_t n = hearth_file_n_meta(in->file), width = 0, type_width = 0;
    const char *key;
    char type[32];
    for (size_t i = 0; i < n; i++) {
        hearth_file_meta(in->file, i, 0, &key, type, NULL, 0);
        if (strlen(key) > width && strlen(key) <= 44) width = strlen(key);
        if (strlen(type) > type_width) type_width = strlen(type);
    }
    printf("\nmetadata, %zu entr%s\n", n, n == 1 ? "y" : "ies");
    for (size_t i = 0; i < n; i++) {
        char *value = meta_value(in, i, &key, type);
        printf("  %-*s  %-*s  ", (int)width, key, (int)type_width, type);
        print_cut(value ? value : "(out of memory)");
        free(value);
    }
}

// ---- tensors

static void print_shape(const struct hearth_tensor_info *t, FILE *f, const char *between) {
    for (int d = 0; d < t->n_dims; d++) { fprintf(f, "%s%" PRIu64, d ? between : "", t->dims[d]); }
}

struct format_sum {
    const char *format;
    size_t n;
    uint64_t n_bytes;
};

// "Q8_0 197 tensors, 633.0 MB; F32 ..."
static void print_formats(const struct inspect *in) {
    struct format_sum sums[64] = {{NULL, 0, 0}};
    size_t n_sums = 0;
    char bytes[32];
    for (size_t i = 0; i < hearth_file_n_tensors(in->file); i++) {
        struct hearth_tensor_info t;
        hearth_file_tensor(in->file, i, &t);
        size_t k = 0;
        while (k < n_sums && strcmp(sums[k].format, t.format) != 0) k++;
        if (k == n_sums) {
            if (n_sums == 64) continue;
            sums[n_sums++] = (struct format_sum){t.format, 0, 0};
        }
        sums[k].n++;
        sums[k].n_bytes += t.n_bytes;
    }
    printf("\ntensors, %zu\n", hearth_file_n_tensors(in->file));
    for (size_t k = 0; k < n_sums; k++) {
        printf("  %-8s %6zu  %12s\n", sums[k].format, sums[k].n,
               format_bytes(bytes, sums[k].n_bytes));
    }
}

static void print_tensors(const struct inspect *in) {
    size_t n = hearth_file_n_tensors(in->file);
    putchar('\n');
    for (size_t i = 0; i < n; i++) {
        struct hearth_tensor_info t;
        hearth_file_tensor(in->file, i, &t);
        printf("  %-36s %-7s ", t.name, t.format);
        print_shape(&t, stdout, " x ");
        printf("   %" PRIu64 " bytes at %" PRIu64, t.n_bytes, t.offset);
        if (hearth_file_n_parts(in->file) > 1) printf(" of part %d", t.file_index + 1);
        putchar('\n');
    }
}

// ---- model, plan, memory

static void print_model(const struct inspect *in) {
    struct hearth_model_info m;
    char params[32], bytes[32];
    hearth_model_get_info(in->model, &m);
    printf("  %-14s %s%s", "model", m.arch, m.name[0] ? ", " : "");
    if (m.name[0])
        json_print_text(stdout, m.name, strlen(m.name)); // the file's: it may be anything
    putchar('\n');
    printf("  %-14s %s, %s of weights\n", "parameters", format_count(params, m.n_params),
           format_bytes(bytes, m.weight_bytes));
    printf("  %-14s %u layers of width %u, feed-forward %u\n", "shape", m.n_layers, m.dim,
           m.ffn_dim);
    printf("  %-14s %u heads of %u on %u of keys and values\n", "attention", m.n_heads, m.head_dim,
           m.n_kv_heads);
    if (m.n_experts) printf("  %-14s %u, %u in use\n", "experts", m.n_experts, m.n_experts_used);
    printf("  %-14s %u tokens%s\n", "vocabulary", m.n_vocab,
           hearth_model_tokenizer(in->model) ? "" : ", without texts");
    printf("  %-14s %u positions in training\n", "context", m.n_ctx_train);
}

// What an engine says that does not fit: how much is there, and which option would make it fit.
static void print_advice(const struct inspect *in) {
    struct hearth_engine_options o;
    struct hearth_error err = {HEARTH_OK, ""};
    hearth_engine *e = NULL;
    engine_options(in->a, &o);
    if (hearth_engine_create(in->model, &o, &e, &err)) printf("  %s\n", err.message);
    hearth_engine_destroy(e); // there may be room by now
}

static void print_memory(const struct inspect *in) {
    const struct hearth_memory *m = &in->memory;
    const struct {
        const char *name, *what;
        uint64_t n;
    } rows[] = {
        {"weights", in->a->n_operands ? "mapped from the file" : "part of the program", m->weights},
        {"packed", "weights kept in another layout", m->packed},
        {"kv", "keys and values of all sequences", m->kv},
        {"scratch", "activations, logits and tables of a pass", m->scratch},
        {"tokenizer", "", m->tokenizer},
        {"other", "plan, engine and program", m->other},
        {"total", "", m->total},
        {"available", "on this machine now", m->available},
    };
    printf("\nmemory\n");
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        char bytes[32];
        bool known = rows[i].n != UINT64_MAX;
        printf("  %-10s %12s  %s\n", rows[i].name,
               known ? format_bytes(bytes, rows[i].n) : "not known", rows[i].what);
    }
    if (m->total > m->available) print_advice(in);
}

static bool write_stdout(void *user, const char *text, size_t n) {
    (void)user;
    return fwrite(text, 1, n, stdout) == n;
}

static int print_plan(const struct inspect *in) {
    printf("\nplan\n");
    enum hearth_status s = hearth_model_write_plan(in->model, write_stdout, NULL);
    return s ? fail("the plan cannot be printed: %s", hearth_status_text(s)) : EXIT_FINE;
}

static int print_all(const struct inspect *in) {
    const struct args *a = in->a;
    char bytes[32], clean[CLEAN_BYTES];
    int code = EXIT_FINE;
    printf("%s\n", clean_text(clean, model_label(a)));
    printf("  %-14s GGUF version %u, %s", "file", (unsigned)hearth_file_gguf_version(in->file),
           format_bytes(bytes, hearth_file_bytes(in->file)));
    size_t n_parts = hearth_file_n_parts(in->file);
    if (n_parts > 1) printf(" in %zu parts", n_parts);
    putchar('\n');
    if (in->model) print_model(in);
    print_metadata(in);
    print_formats(in);
    if (a->tensors) print_tensors(in);
    if (a->plan && in->model) code = print_plan(in);
    if (a->memory && in->has_memory) print_memory(in);
    return code;
}

// ---- JSON

static void json_key(const char *comma, const char *key) {
    printf("%s\n  ", comma);
    json_print_text(stdout, key, strlen(key));
    fputs(": ", stdout);
}

static void json_metadata(const struct inspect *in) {
    const char *key;
    char type[32];
    json_key(",", "metadata");
    putchar('{');
    for (size_t i = 0; i < hearth_file_n_meta(in->file); i++) {
        char *value = meta_value(in, i, &key, type);
        printf("%s\n    ", i ? "," : "");
        json_print_text(stdout, key, strlen(key));
        printf(": {\"type\": \"%s\", \"value\": %s}", type, value ? value : "null");
        free(value);
    }
    fputs("\n  }", stdout);
}

static void json_tensors(const struct inspect *in) {
    json_key(",", "tensors");
    putchar('[');
    for (size_t i = 0; i < hearth_file_n_tensors(in->file); i++) {
        struct hearth_tensor_info t;
        hearth_file_tensor(in->file, i, &t);
        printf("%s\n    {\"name\": ", i ? "," : "");
        json_print_text(stdout, t.name, strlen(t.name));
        printf(", \"format\": \"%s\", \"shape\": [", t.format);
        print_shape(&t, stdout, ", ");
        printf("], \"bytes\": %" PRIu64 ", \"offset\": %" PRIu64 ", \"part\": %d}", t.n_bytes,
               t.offset, t.file_index + 1);
    }
    fputs("\n  ]", stdout);
}

static void json_model(const struct inspect *in) {
    struct hearth_model_info m;
    hearth_model_get_info(in->model, &m);
    json_key(",", "model");
    printf("{\"arch\": \"%s\", \"name\": ", m.arch);
    json_print_text(stdout, m.name, strlen(m.name));
    printf(", \"params\": %" PRIu64 ", \"weight_bytes\": %" PRIu64 ", \"layers\": %u", m.n_params,
           m.weight_bytes, m.n_layers);
    printf(", \"dim\": %u, \"heads\": %u, \"kv_heads\": %u, \"head_dim\": %u", m.dim, m.n_heads,
           m.n_kv_heads, m.head_dim);
    printf(", \"ffn_dim\": %u, \"vocab\": %u, \"ctx_train\": %u", m.ffn_dim, m.n_vocab,
           m.n_ctx_train);
    printf(", \"experts\": %u, \"experts_used\": %u}", m.n_experts, m.n_experts_used);
}

// The lines of a plan's table, without its head.
static bool json_plan_line(void *user, const char *text, size_t n) {
    size_t *n_lines = user;
    if ((*n_lines)++ == 0) return true;
    printf("%s\n    ", *n_lines == 2 ? "" : ",");
    if (n && text[n - 1] == '\n') n--;
    json_print_text(stdout, text, n);
    return true;
}

static void json_memory(const struct hearth_memory *m) {
    json_key(",", "memory");
    printf("{\"weights\": %" PRIu64 ", \"packed\": %" PRIu64 ", \"kv\": %" PRIu64
           ", \"scratch\": %" PRIu64 ", \"tokenizer\": %" PRIu64 ", \"other\": %" PRIu64
           ", \"total\": %" PRIu64 ", \"available\": ",
           m->weights, m->packed, m->kv, m->scratch, m->tokenizer, m->other, m->total);
    if (m->available == UINT64_MAX) {
        fputs("null}", stdout);
    } else {
        printf("%" PRIu64 "}", m->available);
    }
}

static int json_all(const struct inspect *in) {
    const struct args *a = in->a;
    int code = EXIT_FINE;
    putchar('{');
    json_key("", "path");
    json_print_text(stdout, model_label(a), strlen(model_label(a)));
    json_key(",", "gguf_version");
    printf("%u", (unsigned)hearth_file_gguf_version(in->file));
    json_key(",", "bytes");
    printf("%" PRIu64, hearth_file_bytes(in->file));
    json_key(",", "parts");
    printf("%zu", hearth_file_n_parts(in->file));
    json_key(",", "n_tensors");
    printf("%zu", hearth_file_n_tensors(in->file));
    json_metadata(in);
    if (a->tensors) json_tensors(in);
    if (in->model) json_model(in);
    if (a->plan && in->model) {
        size_t n_lines = 0;
        json_key(",", "plan");
        putchar('[');
        enum hearth_status s = hearth_model_write_plan(in->model, json_plan_line, &n_lines);
        if (s) code = fail("the plan cannot be printed: %s", hearth_status_text(s));
        fputs("\n  ]", stdout);
    }
    if (a->memory && in->has_memory) json_memory(&in->memory);
    if (in->why.status) {
        json_key(",", "error");
        json_print_text(stdout, in->why.message, strlen(in->why.message));
    }
    puts("\n}");
    return code;
}

// ---- the command

// f: NULL for the built-in model.
static int inspect_file(struct inspect *in, hearth_file *f) {
    const struct args *a = in->a;
    struct hearth_log log = cli_log(a);
    enum hearth_status s = HEARTH_OK;
    if (f) {
        in->file = f;
        s = hearth_model_open_file(f, &log, &in->model, &in->why);
    } else {
        if (hearth_model_open_builtin(&log, &in->model, &in->why)) return fail_error(&in->why);
        in->file = hearth_model_file(in->model);
    }
    if (!s && a->memory) {
        struct hearth_engine_options o;
        engine_options(a, &o);
        s = hearth_memory_plan(in->model, &o, &in->memory, &in->why);
        in->has_memory = !s;
    }
    in->why.status = s;
    int code = a->json ? json_all(in) : print_all(in);
    if (!finish_stdout()) code = EXIT_RUN;
    if (in->why.status && !code) {
        code = fail_error(&in->why);
        // A file may be looked at that is no model to run; what was asked for of one was not given.
        if (!in->model && !in->is_cut && !a->plan && !a->memory) code = EXIT_FINE;
    }
    if (in->model) {
        hearth_model_close(in->model); // and the file with it
    } else {
        hearth_file_close(f);
    }
    return code;
}

static bool same_text(const char *a, const char *b) {
    return a == b || (a && b && strcmp(a, b) == 0);
}

// Whether any option of an engine was given that is not its default.
static bool has_engine_options(const struct args *a) {
    struct hearth_engine_options o, d;
    engine_options(a, &o);
    hearth_engine_options_default(&d);
    return !same_text(o.backend, d.backend) || !same_text(o.cpu_level, d.cpu_level) ||
           !same_text(o.cpu_mask, d.cpu_mask) || o.n_threads != d.n_threads || o.n_ctx != d.n_ctx ||
           o.n_seqs != d.n_seqs || o.n_batch != d.n_batch || o.kv_type != d.kv_type ||
           o.repack != d.repack;
}

static int run(const struct args *a) {
    struct inspect in = {.a = a};
    struct hearth_error err = {HEARTH_OK, ""};
    hearth_file *f = NULL;
    if (!a->memory && has_engine_options(a))
        return fail_usage("options of an engine go with --memory: 'hearth inspect' runs nothing");
    if (a->n_operands && hearth_file_open(a->operands[0], &f, &err)) {
        in.is_cut = !hearth_file_open_head(a->operands[0], &f, NULL);
        if (!in.is_cut) return fail_error(&err);
    }
    return inspect_file(&in, f);
}

const struct command command_inspect = {
    .name = "inspect",
    .operands = "[MODEL]",
    .n_operands_max = 1,
    .summary = "say what a model file is, and what it will take to run it",
    .text = "Prints what a GGUF file holds: the model's shape, its metadata, its tensors by "
            "format. Only the head of the file is read. A file whose model Hearth cannot run is "
            "printed as well, followed by the reason; so is one that is cut short behind its "
            "head, but with exit code 1. Without MODEL it is the built-in model.",
    .groups = inspect_groups,
    .n_groups = sizeof(inspect_groups) / sizeof(inspect_groups[0]),
    .run = run,
};
