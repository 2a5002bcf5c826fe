// SPDX-License-Identifier: MIT
// hearth eval: what the model computes, as numbers: logits of given tokens (eval_logits.c) or the
// perplexity of a text (eval_text.c).
#include <stddef.h>

#include "cli.h"

#define AT(field) offsetof(struct args, field)

static const struct option eval_options[] = {
    {"--tokens", NULL, "LIST", OPTION_TEXT, AT(tokens), 0, 0, NULL, NULL,
     "token ids to read: 1,2,3 or @FILE"},
    {"--logits", NULL, "OUT", OPTION_TEXT, AT(logits), 0, 0, NULL, NULL,
     "write the logits of every position to OUT: little-endian f32, n_tokens rows of n_vocab"},
    {"--compare", NULL, "REF", OPTION_TEXT, AT(compare), 0, 0, NULL, NULL,
     "print how far the logits are from those in REF (same layout): "
     "nmse = sum((a-b)^2) / sum(b^2)"},
    {"--chunk", NULL, "N", OPTION_INT, AT(chunk), 0, 65536, NULL, "0: as large as fits",
     "tokens of the sequence in one pass at most"},
    {"--among", NULL, "N", OPTION_INT, AT(among), 0, 1024, NULL, NULL,
     "run N other sequences of various lengths in the same passes; they change nothing"},
};
static const struct option_group eval_group = {"Logits of tokens", eval_options,
                                               sizeof(eval_options) / sizeof(eval_options[0])};

static const struct option text_options[] = {
    {"--file", "-f", "FILE", OPTION_TEXT, AT(file), 0, 0, NULL, NULL,
     "text whose perplexity is wanted; - is standard input. It is cut into windows of --ctx "
     "tokens [512]; in each, the tokens of the second half but its first are scored, each after "
     "all before it in its window. The begin token takes the first place of a window where the "
     "file asks for one"},
};
static const struct option_group text_group = {"Perplexity of a text", text_options, 1};
static const struct option_group *const eval_groups[] = {
    &eval_group, &text_group, &group_engine, &group_processor, &group_file, &group_common};

static int run(const struct args *a) {
    if (a->tokens && a->file) return fail_usage("--tokens and --file cannot both be given");
    if (!a->tokens && !a->file) return fail_usage("'hearth eval' wants --tokens or --file");
    if (a->file && (a->logits || a->compare || a->chunk || a->among)) {
        return fail_usage("--logits, --compare, --chunk and --among go with --tokens");
    }
    return a->tokens ? eval_tokens(a) : eval_text(a);
}

const struct command command_eval = {
    .name = "eval",
    .operands = "[MODEL]",
    .n_operands_max = 1,
    .summary = "logits of tokens, or the perplexity of a text",
    .text = "Reads tokens and writes or compares the logits of every position, or reads a text "
            "and prints its perplexity. Without MODEL the built-in model is used. The numbers "
            "depend on the tokens, the model and --backend, --cpu-level and --kv-type, a "
            "perplexity also on --ctx, and on nothing else. OUT appears, or is replaced, only when "
            "all logits are in OUT.tmp and finite (a pipe, a device and what is open already are "
            "written "
            "into). Ctrl-C removes OUT.tmp; a second one ends at once, leaves it, and it has to go "
            "before the next run.",
    .groups = eval_groups,
    .n_groups = sizeof(eval_groups) / sizeof(eval_groups[0]),
    .run = run,
};
