// SPDX-License-Identifier: MIT
// What the program says to commands and options that there are not: the one that was probably
// meant, by other programs' names, by one that is nearly the same, or by where it is found.
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>

#include "cli.h"

// Edit distance of two short words (Wagner and Fischer 1974), one row at a time.
static size_t distance(const char *a, size_t n, const char *b) {
    size_t row[64], m = strlen(b);
    if (n >= 64 || m >= 64) return 64;
    for (size_t j = 0; j <= m; j++) row[j] = j;
    for (size_t i = 1; i <= n; i++) {
        size_t diagonal = row[0];
        row[0] = i;
        for (size_t j = 1; j <= m; j++) {
            size_t change = diagonal + (a[i - 1] != b[j - 1]);
            diagonal = row[j];
            size_t best = row[j] < row[j - 1] ? row[j] + 1 : row[j - 1] + 1;
            row[j] = change < best ? change : best;
        }
    }
    return row[m];
}

// What other programs call some of our options. A name may stand for several: the first that the
// command has counts.
static const char *const elsewhere[][2] = {
    {"-c", "--ctx"},
    {"-b", "--batch"},
    {"-s", "--seed"},
    {"-r", "--stop"},
    {"-p", "--prompt"},
    {"-n", "--generate"},
    {"-d", "--depth"},
    {"-ctk", "--kv-type"},
    {"-ctv", "--kv-type"},
    {"--cache-type-k", "--kv-type"},
    {"--cache-type-v", "--kv-type"},
    {"--repeat-last-n", "--penalty-window"},
    {"-rtr", "--repack"},
    {"-r", "--reps"},
    {"--prompt-file", "--file"},
    {"--max-tokens", "--n-predict"},
    {"--num-ctx", "--ctx"},
};

static const char *name_here(const struct command *c, const char *name, size_t n) {
    for (size_t i = 0; i < sizeof(elsewhere) / sizeof(elsewhere[0]); i++) {
        const char *theirs = elsewhere[i][0], *ours = elsewhere[i][1];
        if (strlen(theirs) == n && strncmp(theirs, name, n) == 0 &&
            find_option(c, ours, strlen(ours))) {
            return ours;
        }
    }
    return NULL;
}

// An option whose name is how this one begins ("--ctx-size"), or else one that is nearly it.
static const char *near_name(const struct command *c, const char *name, size_t n) {
    const char *near = NULL;
    size_t best = n < 8 ? 2 : 3; // farther names are no help
    for (size_t g = 0; g < c->n_groups && n > 3; g++) {
        for (size_t i = 0; i < c->groups[g]->n; i++) {
            const char *ours = c->groups[g]->options[i].name;
            size_t n_ours = strlen(ours), d = distance(name, n, ours);
            if (n_ours > 4 && n > n_ours && strncmp(name, ours, n_ours) == 0) return ours;
            if (strncmp(name, "--", 2) != 0 || d >= best) continue;
            best = d;
            near = ours;
        }
    }
    return near;
}

// Whether name is an alias with its value behind it: "-n5", "-n=5".
static bool has_value_behind(const struct command *c, const char *name, size_t n) {
    const struct option *o = n > 2 && name[1] != '-' ? find_option(c, name, 2) : NULL;
    return o && o->type != OPTION_FLAG && strchr("=0123456789", name[2]);
}

int refuse_option(const struct command *c, const struct command *const *all, size_t n_all,
                  const char *name, size_t n) {
    const char *near = name_here(c, name, n);
    bool is_model = (n == 2 && name[1] == 'm') || (n == 7 && strncmp(name, "--model", n) == 0);
    if (is_model && c->n_operands_max == 1) {
        return fail_usage("unknown option %.*s: a model's file is given by itself, as in 'hearth "
                          "%s model.gguf'",
                          (int)n, name, c->name);
    }
    if (!near && has_value_behind(c, name, n)) {
        return fail_usage("unknown option %s: the value of %.2s stands behind it, '%.2s %s'", name,
                          name, name, name + (name[2] == '=' ? 3 : 2));
    }
    for (size_t i = 0; i < n_all && !near; i++) {
        if (!find_option(all[i], name, n)) continue;
        return fail_usage("%.*s is an option of 'hearth %s', not of 'hearth %s'", (int)n, name,
                          all[i]->name, c->name);
    }
    if (!near) near = near_name(c, name, n);
    if (!near) {
        return fail_usage("unknown option %.*s; see 'hearth help %s'", (int)n, name, c->name);
    }
    return fail_usage("unknown option %.*s; did you mean %s? See 'hearth help %s'", (int)n, name,
                      near, c->name);
}

int refuse_command(const struct command *const *all, size_t n_all, const char *name) {
    size_t n = strlen(name), best = 3;
    const char *near = NULL;
    struct stat file;
    bool is_file = stat(name, &file) == 0 && !S_ISDIR(file.st_mode);
    if (is_file || (n > 5 && strcmp(name + n - 5, ".gguf") == 0)) {
        return fail_usage("there is no command '%s'; is it a model? 'hearth run %s' runs it", name,
                          name);
    }
    for (size_t i = 0; i < n_all; i++) {
        size_t d = strcasecmp(name, all[i]->name) == 0 ? 0 : distance(name, n, all[i]->name);
        if (d >= best) continue;
        best = d;
        near = all[i]->name;
    }
    if (!near && strcasecmp(name, "version") == 0) {
        return fail_usage("there is no command '%s'; did you mean 'hearth --version'?", name);
    }
    if (!near && (strcasecmp(name, "help") == 0 || distance(name, n, "help") < best)) near = "help";
    if (!near) return fail_usage("there is no command '%s'; see 'hearth help'", name);
    return fail_usage("there is no command '%s'; did you mean 'hearth %s'?", name, near);
}
