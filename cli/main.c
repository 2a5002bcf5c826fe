// SPDX-License-Identifier: MIT
// The program: finds the command, parses its options, runs it.
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "cli.h"

// What a sanitizer does at a program's exit, for one that dies of a signal.
#ifdef __SANITIZE_ADDRESS__
#define HAS_LEAK_CHECK
#elif defined(__clang__)
#if __has_feature(address_sanitizer)
#define HAS_LEAK_CHECK
#endif
#endif
#ifdef HAS_LEAK_CHECK
#include <sanitizer/lsan_interface.h>
static void check_leaks(void) {
    __lsan_do_leak_check();
}
#else
static void check_leaks(void) {}
#endif

static const struct command *const commands[] = {
    &command_run,   &command_inspect,  &command_tokenize, &command_eval,
    &command_bench, &command_quantize, &command_doctor};
#define N_COMMANDS (sizeof(commands) / sizeof(commands[0]))

static const struct command *find_command(const char *name) {
    for (size_t i = 0; i < N_COMMANDS; i++) {
        if (strcmp(commands[i]->name, name) == 0) return commands[i];
    }
    return NULL;
}

static void print_page(FILE *f) {
    fputs("Hearth runs language models from one file on the machine in front of you.\n"
          "\n"
          "usage: hearth COMMAND [MODEL] [OPTIONS]\n"
          "\n",
          f);
    for (size_t i = 0; i < N_COMMANDS; i++) {
        fprintf(f, "  %-9s %s\n", commands[i]->name, commands[i]->summary);
    }
    fputs("  help      explain a command and list its options: hearth help run\n"
          "  --version print the version\n"
          "\n"
          "MODEL is a GGUF file; of a split model, any of its parts. Without one the\n"
          "built-in model is used. To begin with:\n"
          "\n"
          "  hearth run -p \"Once upon a time\"              the built-in model goes on\n"
          "  hearth run model.gguf -p \"2 + 2 =\" -n 8       eight tokens of another one\n"
          "  hearth inspect model.gguf --memory            what it is, what it will take\n"
          "  hearth bench model.gguf                       how fast it runs here\n"
          "  hearth doctor                                 is all well with this machine\n"
          "\n"
          "Text and results go to standard output, everything else to standard error.\n"
          "Exit codes: 0 done, 1 failed, 2 wrong usage, 130 interrupted.\n"
          "\n"
          "models that run: ",
          f);
    fprintf(f, "%s\n", hearth_architectures());
}

static int show_help(int argc, char **argv) {
    if (argc == 0) {
        print_page(stdout);
    } else if (argc > 1) {
        return fail_usage("'hearth help' takes one command");
    } else if (strcmp(argv[0], "help") == 0 || strcmp(argv[0], "--help") == 0) {
        print_page(stdout);
    } else {
        const struct command *c = find_command(argv[0]);
        if (!c) return refuse_command(commands, N_COMMANDS, argv[0]);
        command_help(c);
    }
    return finish_stdout() ? EXIT_FINE : EXIT_RUN;
}

// Where a standard stream is closed, a file of ours would take its number and get what is written
// to the stream; so that number is taken, by something that cannot be read or written as it is
// meant. And a file that grows beyond a limit is an error, not the end.
static void guard_streams(void) {
    for (int fd = 0; fd <= 2; fd++)
        if (fcntl(fd, F_GETFD) < 0 && errno == EBADF)
            (void)!open("/dev/null", fd == 0 ? O_WRONLY : O_RDONLY);
    signal(SIGXFSZ, SIG_IGN);
}

int main(int argc, char **argv) {
    struct args a;
    guard_streams();
    if (argc < 2) {
        print_page(stderr);
        return EXIT_USAGE;
    }
    if (strcmp(argv[1], "--version") == 0) {
        if (argc > 2) return fail_usage("'hearth --version' takes nothing");
        printf("hearth %s\n", hearth_version());
        return finish_stdout() ? EXIT_FINE : EXIT_RUN;
    }
    if (strcmp(argv[1], "help") == 0 || strcmp(argv[1], "--help") == 0 ||
        strcmp(argv[1], "-h") == 0) {
        return show_help(argc - 2, argv + 2);
    }
    if (argv[1][0] == '-') {
        return fail_usage("'%s': a command comes first, as in 'hearth run model.gguf'; see 'hearth "
                          "help'",
                          argv[1]);
    }
    const struct command *c = find_command(argv[1]);
    if (!c) return refuse_command(commands, N_COMMANDS, argv[1]);
    args_default(&a);
    enum parse_result r = args_parse(c, commands, N_COMMANDS, argc - 2, argv + 2, &a);
    int code = EXIT_USAGE;
    if (r == PARSE_HELP) {
        command_help(c);
        code = finish_stdout() ? EXIT_FINE : EXIT_RUN;
    } else if (r == PARSE_RUN) {
        code = c->run(&a);
    }
    args_free(&a);
    if (code == EXIT_INTERRUPTED) {
        fflush(stdout);
        check_leaks();
        interrupt_end_program();
    }
    return code;
}
