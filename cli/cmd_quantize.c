// SPDX-License-Identifier: MIT
// hearth quantize: a copy of a model with its matrices in another format.
#include <stddef.h>
#include <string.h>
#include <sys/stat.h>

#include "cli.h"

#define AT(field) offsetof(struct args, field)

static const char *const types[] = {"F32", "F16", "BF16", "Q8_0", NULL};
static const struct option quantize_options[] = {
    {"--type", NULL, "T", OPTION_CHOICE, AT(type), 0, 0, types, "must be given",
     "format of the matrices in the copy: F32, F16, BF16 or Q8_0"},
};
static const struct option_group quantize_group = {"Format", quantize_options, 1};
static const struct option_group *const quantize_groups[] = {&quantize_group};

struct quantize {
    struct progress progress;
    struct interrupt interrupt;
};

static bool on_progress(void *user, uint64_t done, uint64_t total) {
    struct quantize *q = user;
    progress_set(&q->progress, done / 1000000, (total + 999999) / 1000000);
    return !atomic_load(&q->interrupt.hit);
}

static bool is_one_file(const char *a, const char *b) {
    struct stat of_a, of_b;
    return stat(a, &of_a) == 0 && stat(b, &of_b) == 0 && of_a.st_dev == of_b.st_dev &&
           of_a.st_ino == of_b.st_ino;
}

static void print_sizes(const char *path, const hearth_file *in) {
    char before[32], after[32], clean[CLEAN_BYTES];
    struct stat out;
    bool known = stat(path, &out) == 0;
    fprintf(stderr, "%s: %s, was %s\n", clean_text(clean, path),
            known ? format_bytes(after, (uint64_t)out.st_size) : "complete",
            format_bytes(before, hearth_file_bytes(in)));
}

static int run(const struct args *a) {
    struct hearth_error err = {HEARTH_OK, ""};
    struct quantize q;
    hearth_file *in = NULL;
    if (!a->type) return fail_usage("'hearth quantize' wants --type: F32, F16, BF16 or Q8_0");
    if (strcmp(a->operands[1], "-") == 0)
        return fail_usage("'hearth quantize' wants a file to write; ./- is one of that name");
    if (is_one_file(a->operands[0], a->operands[1]))
        return fail_usage("'hearth quantize' wants another file to write than the one it reads");
    if (hearth_file_open(a->operands[0], &in, &err)) return fail_error(&err);
    interrupt_begin(&q.interrupt);
    progress_begin(&q.progress, "writing", "MB");
    enum hearth_status s = hearth_quantize(in, a->operands[1], a->type, on_progress, &q, &err);
    progress_end(&q.progress);
    interrupt_end(&q.interrupt);
    if (s == HEARTH_E_CANCELLED) {
        hearth_file_close(in);
        return EXIT_INTERRUPTED;
    }
    int code = s ? fail_error(&err) : EXIT_FINE;
    if (!s) print_sizes(a->operands[1], in);
    hearth_file_close(in);
    return code;
}

const struct command command_quantize = {
    .name = "quantize",
    .operands = "IN OUT",
    .n_operands_min = 2,
    .n_operands_max = 2,
    .summary = "copy a model with its weights in another format",
    .text = "Writes a copy of the model IN to OUT with its matrices in another format. Vectors and "
            "stacks of them, "
            "tables of positions and of kinds of tokens, routers of experts, what llama.cpp "
            "keeps of other architectures, and matrices whose rows are no whole blocks become "
            "F32; tables of integers stay as they are. OUT appears, or is replaced, only when "
            "OUT.tmp is complete. Ctrl-C removes that; a second one, or another signal, ends at "
            "once, leaves it, and it has to go before the next run.",
    .groups = quantize_groups,
    .n_groups = 1,
    .run = run,
};
