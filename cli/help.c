// SPDX-License-Identifier: MIT
// `hearth help COMMAND`, printed from the option tables, at 80 columns.
#include <stdio.h>
#include <string.h>

#include "cli.h"

enum { WIDTH = 79, INDENT = 27 };

// Prints words of text; lines after the first begin at column `indent`, the first at `column`.
static void print_wrapped(const char *text, int column, int indent) {
    bool first = true;
    for (const char *c = text; *c;) {
        int len = (int)strcspn(c, " \n");
        if (!first && column + 1 + len > WIDTH) {
            printf("\n%*s", indent, "");
            column = indent;
            first = true;
        }
        printf("%s%.*s", first ? "" : " ", len, c);
        column += len + (first ? 0 : 1);
        first = false;
        c += len;
        while (*c == ' ') c++;
        if (*c == '\n') { // kept: a paragraph, or a line of an example
            printf("\n%*s", c[1] && c[1] != '\n' ? indent : 0, "");
            column = indent;
            first = true;
            c++;
            while (*c == ' ') { // and its indentation
                putchar(' ');
                column++;
                c++;
            }
        }
    }
    putchar('\n');
}

// "default 0.8" and the like, or nothing.
static void describe_default(const struct option *o, char *buf, size_t n) {
    struct args a;
    args_default(&a);
    const void *at = (const char *)&a + o->offset;
    buf[0] = 0;
    if (o->fallback) {
        snprintf(buf, n, "%s", o->fallback);
    } else if (o->type == OPTION_INT) {
        snprintf(buf, n, "%lld", (long long)*(const int64_t *)at);
    } else if (o->type == OPTION_SEED) {
        snprintf(buf, n, "%llu", (unsigned long long)*(const uint64_t *)at);
    } else if (o->type == OPTION_FLOAT) {
        snprintf(buf, n, "%g", *(const double *)at);
    } else if (o->type == OPTION_CHOICE && *(const char *const *)at) {
        snprintf(buf, n, "%s", *(const char *const *)at);
    }
}

static void print_option(const struct option *o) {
    char left[64], text[600], value[96];
    snprintf(left, sizeof(left), "  %s%s%s%s%s", o->alias ? o->alias : "", o->alias ? ", " : "",
             o->name, o->arg ? " " : "", o->arg ? o->arg : "");
    describe_default(o, value, sizeof(value));
    snprintf(text, sizeof(text), "%s%s%s%s", o->help, value[0] ? " [" : "", value,
             value[0] ? "]" : "");
    int n = printf("%s", left);
    if (n + 2 > INDENT) {
        putchar('\n');
        n = 0;
    }
    printf("%*s", INDENT - n, "");
    print_wrapped(text, INDENT, INDENT);
}

void command_help(const struct command *c) {
    printf("usage: hearth %s %s%s[OPTIONS]\n\n", c->name, c->operands, c->operands[0] ? " " : "");
    print_wrapped(c->text, 0, 0);
    for (size_t g = 0; g < c->n_groups; g++) {
        printf("\n%s:\n", c->groups[g]->title);
        for (size_t i = 0; i < c->groups[g]->n; i++) print_option(&c->groups[g]->options[i]);
    }
}
