// SPDX-License-Identifier: MIT
// The options of the program as tables: one row an option, from which arguments are parsed, checked
// and explained, so that what is accepted and what `hearth help` says cannot differ. The values of
// all commands live in one struct; a row says where.
#ifndef HEARTH_CLI_OPTIONS_H
#define HEARTH_CLI_OPTIONS_H

#include <hearth/hearth.h>

struct texts {
    const char **items; // owned; the strings are argv's
    size_t n;
};

struct numbers {
    int64_t *items; // owned
    size_t n;
};

struct biases {
    struct hearth_logit_bias *items; // owned
    size_t n;
};

enum option_type {
    OPTION_FLAG,    // bool
    OPTION_INT,     // int64_t, min to max
    OPTION_SEED,    // uint64_t
    OPTION_FLOAT,   // double, min to max
    OPTION_TEXT,    // const char *
    OPTION_TEXTS,   // struct texts: may be given several times
    OPTION_CHOICE,  // const char *, one of choices
    OPTION_NUMBERS, // struct numbers: "512,2048", each min to max
    OPTION_BIASES,  // struct biases: "ID=X", several times
};

struct option {
    const char *name;  // "--temp"
    const char *alias; // "-n" or NULL
    const char *arg;   // "N" in the help; NULL for a flag
    enum option_type type;
    size_t offset; // in struct args
    double min, max;
    const char *const *choices; // ended by NULL; taken in any case
    const char
        *fallback; // what the help says of the default, where the value itself says too little
    const char *help;
};

struct option_group {
    const char *title;
    const struct option *options;
    size_t n;
};

struct args { // one struct for all commands; 0 and NULL where an option has no default
    const char *operands[2];
    int n_operands;
    bool takes_text;           // the command has -p TEXT
    const char *prompt, *file; // text in
    bool special, raw;
    // run
    int64_t n_predict;
    struct texts stop;
    bool ignore_end, quiet, verbose;
    int64_t logprobs;
    // sampling
    int64_t top_k, penalty_window;
    double temp, top_p, min_p, repeat_penalty, presence_penalty, frequency_penalty;
    uint64_t seed;
    struct biases logit_bias;
    // engine
    const char *backend, *cpu_level, *cpu_mask, *kv_type;
    int64_t threads, ctx, seqs, batch;
    bool repack, no_mmap;
    // inspect
    bool json, tensors, plan, memory;
    int64_t items;
    // tokenize
    const char *ids;
    bool jsonl, decode, begin, pieces, count, bench;
    // eval
    const char *tokens, *logits, *compare;
    int64_t chunk, among;
    // bench
    struct numbers bench_prompt, bench_generate, bench_depth, bench_seqs;
    int64_t reps;
    bool steps;
    // quantize
    const char *type;
};

struct command {
    const char *name, *operands; // "[MODEL]"
    int n_operands_min, n_operands_max;
    const char *summary; // a line
    const char *text;    // some paragraphs for `hearth help NAME`
    const struct option_group *const *groups;
    size_t n_groups;
    int (*run)(const struct args *a); // returns the exit code
};

// Fills *a with the defaults, which for sampling and engines are the library's.
void args_default(struct args *a);
void args_free(struct args *a);

enum parse_result { PARSE_RUN, PARSE_HELP, PARSE_BAD };
// Parses argv[0..argc) behind the command's name. PARSE_BAD has printed its sentence.
enum parse_result args_parse(const struct command *c, const struct command *const *all,
                             size_t n_all, int argc, char **argv, struct args *a);

// The option of that name, of n bytes, or NULL.
const struct option *find_option(const struct command *c, const char *name, size_t n);
// Print what was probably meant (suggest.c); return EXIT_USAGE.
int refuse_option(const struct command *c, const struct command *const *all, size_t n_all,
                  const char *name, size_t n);
int refuse_command(const struct command *const *all, size_t n_all, const char *name);

// Prints usage, text and options of a command.
void command_help(const struct command *c);

// Parses "1,2,3" or, from "@FILE", numbers that commas or white space separate. An exit code; other
// than EXIT_FINE after a printed sentence, in which `name` stands for the option.
int parse_ids(const char *name, const char *text, int32_t **ids, size_t *n);

#endif
