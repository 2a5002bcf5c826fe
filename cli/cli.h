// SPDX-License-Identifier: MIT
// What the commands share: exit codes, messages, reading text, opening models, the progress line.
// The program uses the public header and nothing else of the library.
#ifndef HEARTH_CLI_CLI_H
#define HEARTH_CLI_CLI_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>

#include "options.h"

enum exit_code { EXIT_FINE = 0, EXIT_RUN = 1, EXIT_USAGE = 2, EXIT_INTERRUPTED = 130 };

#define PRINTF_LIKE(fmt, first) __attribute__((format(printf, fmt, first)))

// ---- messages: "hearth: SENTENCE" on stderr

int fail(const char *fmt, ...) PRINTF_LIKE(1, 2);       // returns EXIT_RUN
int fail_usage(const char *fmt, ...) PRINTF_LIKE(1, 2); // returns EXIT_USAGE
// The library's sentence. E_ARG comes from what the command line asked for: EXIT_USAGE.
int fail_error(const struct hearth_error *err);
void note(const char *fmt, ...) PRINTF_LIKE(1, 2);
// The log callback: warnings always, the rest with --verbose (user: const struct args *).
void log_line(void *user, enum hearth_log_level level, const char *line);
struct hearth_log cli_log(const struct args *a);

// The text as one line that does nothing to a terminal: names may hold anything.
enum { CLEAN_BYTES = 24000 };
const char *clean_text(char buf[CLEAN_BYTES], const char *text);
// "633.2 MB" (of 10^6 bytes), into buf.
const char *format_bytes(char buf[32], uint64_t n);
const char *format_count(char buf[32], uint64_t n);    // "596.0 M"
const char *format_perplexity(char buf[32], double x); // "12.3456"

// Of the speed of another thread.
#define MUCH_SLOWER 0.9
// A line, behind `head`, of how slow the slowest thread is.
void print_slowest_thread(const char *head, const struct args *a, const struct hearth_ceilings *c);

#define PLURAL(n) ((n) == 1 ? "" : "s")
double now_s(void);         // monotonic
uint64_t peak_memory(void); // bytes resident at most, mapped pages included
bool finish_stdout(void); // flushes; false, after a sentence, when the output could not be written
int fail_stdout(int why); // the sentence, of an errno (0: not known); returns EXIT_RUN
// As a JSON string; bad UTF-8 becomes U+FFFD.
void json_print_text(FILE *f, const char *s, size_t n);
bool is_utf8(const char *s, size_t n);

// ---- text

struct text {
    char *data; // owned, 0-terminated
    size_t n;
};
// -p TEXT, -f FILE or, where neither is given, stdin unless it is a terminal. EXIT_FINE or an exit
// code after a printed sentence.
int read_prompt(const struct args *a, struct text *out);
// "-" is stdin. More than `most` bytes are refused; a tokenizer takes MOST_TEXT.
#define MOST_TEXT ((size_t)INT32_MAX)
int read_file(const char *path, size_t most, struct text *out);
// The same, but where the file has more, out->n is most + 1, for the caller to refuse.
int read_begin(const char *path, size_t most, struct text *out);
// The same text as a stream, for the caller to close unless it is stdin.
int open_prompt(const struct args *a, FILE **out);

// ---- models

const char *model_label(const struct args *a); // for messages
int open_model(const struct args *a, hearth_model **out);
// Says why a->operands[0] could not be opened; returns an exit code.
int fail_to_open(const struct args *a, const struct hearth_error *err);
void engine_options(const struct args *a, struct hearth_engine_options *o);
int create_engine(const hearth_model *m, const struct hearth_engine_options *o,
                  hearth_engine **out);
// The model's tokenizer, or NULL after a sentence.
const hearth_tokenizer *need_tokenizer(const hearth_model *m, const struct args *a);
// Encodes a prompt as --special and begin say, without the end token that the file may add behind a
// whole text. *first (may be NULL): the token that it adds in front, -1 for none. Sentence printed
// on failure.
int encode_prompt(const hearth_tokenizer *t, const struct text *text, bool special, bool begin,
                  int32_t *first, struct hearth_tokens *out);

// ---- progress: a line on stderr, from one second on, only on a terminal

struct progress {
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t wake;
    bool running, stop;        // stop: under lock
    const char *what;          // "reading the prompt"
    atomic_ullong done, total; // total 0: not known
    const char *unit;
};
void progress_begin(struct progress *p, const char *what, const char *unit);
void progress_set(struct progress *p, uint64_t done, uint64_t total);
void progress_end(struct progress *p); // erases the line; may be called twice
const char *progress_erase(void); // what to print in front of another line: where there is one to
                                  // erase, what erases it

// ---- SIGINT: the first cancels the request, the second ends the program

struct interrupt {
    pthread_t thread;
    int signal_fd, stop_fd;
    bool running;
    atomic_bool hit;
    _Atomic(hearth_request *) request;
};
// Before threads are made: they inherit the blocked signal.
void interrupt_begin(struct interrupt *i);
// What the first SIGINT cancels; NULL: nothing, only `hit` is set. It may be cancelled until
// interrupt_end, so it lives as long.
void interrupt_watch(struct interrupt *i, hearth_request *r);
void interrupt_end(struct interrupt *i);
// Ends the program by SIGINT, at once: a shell stops its script where a program died of the signal,
// and goes on where it exited, whatever its status. To the shell, $? is EXIT_INTERRUPTED.
_Noreturn void interrupt_end_program(void);

// ---- commands

extern const struct command command_run, command_inspect, command_tokenize, command_eval,
    command_bench, command_quantize, command_doctor;
extern const struct option_group group_engine, group_processor, group_file, group_sampling,
    group_prompt, group_common;

int eval_tokens(const struct args *a); // eval_logits.c
int eval_text(const struct args *a);   // eval_text.c
// -log of the probability of token, natural; NaN where a logit is, or is +infinity.
double negative_log(const float *logits, int32_t n, int32_t token);
// Rows of logits of a pass: as many as wanted, or, of 0, as 64 MB hold.
uint32_t logits_rows(uint32_t n_vocab, int64_t wanted, size_t n_tokens, uint32_t n_batch);
// unwritten: so --logits was not written. Returns EXIT_RUN.
int fail_not_finite(const struct args *a, bool unwritten);

#endif
