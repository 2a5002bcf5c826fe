// SPDX-License-Identifier: MIT
// Messages on stderr, numbers for people, clock and peak memory. Messages may come from any thread:
// each is one write to stderr.
#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

#include "cli.h"

// Length of the UTF-8 character at s (RFC 3629), 0 if none begins there.
static size_t char_len(const unsigned char *s, size_t n) {
    size_t len = s[0] < 0x80 ? 1 : s[0] >= 0xf0 ? 4 : s[0] >= 0xe0 ? 3 : 2;
    if (len > n || (s[0] >= 0x80 && s[0] < 0xc2) || s[0] > 0xf4) return 0;
    for (size_t i = 1; i < len; i++) {
        if ((s[i] & 0xc0) != 0x80) return 0;
    }
    bool bad = (s[0] == 0xe0 && s[1] < 0xa0) || (s[0] == 0xed && s[1] > 0x9f) ||
               (s[0] == 0xf0 && s[1] < 0x90) || (s[0] == 0xf4 && s[1] > 0x8f);
    return bad ? 0 : len;
}

const char *clean_text(char buf[CLEAN_BYTES], const char *text) {
    const unsigned char *c = (const unsigned char *)text, *end = c + strlen(text);
    size_t n = 0;
    for (size_t len; c < end && n + 5 < CLEAN_BYTES; c += len) {
        len = char_len(c, (size_t)(end - c));
        bool control = *c < 0x20 || *c == 0x7f || (*c == 0xc2 && c[1] < 0xa0); // to U+009F
        if (!len || control) {
            n += (size_t)snprintf(buf + n, CLEAN_BYTES - n, "\\x%02x", *c);
            len = 1;
        } else {
            memcpy(buf + n, c, len);
            n += len;
        }
    }
    buf[n] = 0;
    return buf;
}

// Behind the progress line, if that is there.
static void write_line(const char *head, const char *line) {
    flockfile(stderr);
    fprintf(stderr, "%shearth: %s%s\n", progress_erase(), head, line);
    funlockfile(stderr);
}

static void print_line(const char *fmt, va_list ap) {
    char line[6000], clean[CLEAN_BYTES]; // a path has 4096 bytes at most
    vsnprintf(line, sizeof(line), fmt, ap);
    write_line("", clean_text(clean, line));
}

int fail(const char *fmt, ...) {
    va_list ap;
    va_start(ap, fmt);
    print_line(fmt, ap);
    va_end(ap);
    return EXIT_RUN;
}

int fail_usage(const char *fmt, ...) {
    va_list ap;
    va_start(ap, fmt);
    print_line(fmt, ap);
    va_end(ap);
    return EXIT_USAGE;
}

void note(const char *fmt, ...) {
    va_list ap;
    va_start(ap, fmt);
    print_line(fmt, ap);
    va_end(ap);
}

int fail_error(const struct hearth_error *err) {
    fail("%s", err->message);
    return err->status == HEARTH_E_ARG ? EXIT_USAGE : EXIT_RUN;
}

void log_line(void *user, enum hearth_log_level level, const char *line) {
    const struct args *a = user;
    if (level == HEARTH_LOG_WARN) {
        write_line("warning: ", line);
    } else if (a->verbose) {
        write_line("", line);
    }
}

struct hearth_log cli_log(const struct args *a) {
    return (struct hearth_log){.fn = log_line, .user = (void *)(uintptr_t)a};
}

void print_slowest_thread(const char *head, const struct args *a, const struct hearth_ceilings *c) {
    const char *why = "";
    if (c->slowest_thread < MUCH_SLOWER) {
        struct hearth_machine m;
        hearth_machine_get(&m);
        int n = m.n_quota && m.n_quota < m.n_affinity ? m.n_quota : m.n_affinity;
        why = a->threads > n ? ": there are more threads than CPUs" : ": its core has more to do";
    }
    printf("%sthe slowest thread executes %.2f of the instructions of the fastest%s\n", head,
           c->slowest_thread, why);
}

const char *format_bytes(char buf[32], uint64_t n) {
    if (n < 1000) {
        snprintf(buf, 32, "%d bytes", (int)n);
    } else if (n < 1000000) {
        snprintf(buf, 32, "%.1f kB", (double)n / 1e3);
    } else if (n < 10000000000) {
        snprintf(buf, 32, "%.1f MB", (double)n / 1e6);
    } else {
        snprintf(buf, 32, "%.1f GB", (double)n / 1e9);
    }
    return buf;
}

const char *format_perplexity(char buf[32], double x) {
    snprintf(buf, 32, x < 1e6 ? "%.4f" : "%.5g", x); // of a broken model it has no end
    return buf;
}

const char *format_count(char buf[32], uint64_t n) {
    if (n < 10000) {
        snprintf(buf, 32, "%d", (int)n);
    } else if (n < 999950) {
        snprintf(buf, 32, "%.1f k", (double)n / 1e3);
    } else if (n < 10000000000) {
        snprintf(buf, 32, "%.1f M", (double)n / 1e6);
    } else {
        snprintf(buf, 32, "%.1f G", (double)n / 1e9);
    }
    return buf;
}

double now_s(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

uint64_t peak_memory(void) {
    struct rusage usage;
    uint64_t kib = 0;
    char line[256];
    FILE *f = fopen("/proc/self/status", "r");
    while (f && fgets(line, sizeof(line), f)) {
        if (strncmp(line, "VmHWM:", 6) == 0) kib = strtoull(line + 6, NULL, 10);
    }
    if (f) fclose(f);
    if (!kib && getrusage(RUSAGE_SELF, &usage) == 0) kib = (uint64_t)usage.ru_maxrss;
    return kib * 1024;
}

int fail_stdout(int why) {
    return fail("standard output cannot be written%s%s", why ? ": " : "; is the disk full?",
                why ? strerror(why) : "");
}

bool finish_stdout(void) {
    errno = 0; // an earlier failure has left its mark, but no reason
    if (fflush(stdout) == 0 && !ferror(stdout)) return true;
    fail_stdout(errno);
    return false;
}

bool is_utf8(const char *s, size_t n) {
    size_t len = 1;
    for (size_t i = 0; i < n && len; i += len) len = char_len((const unsigned char *)s + i, n - i);
    return len > 0;
}

void json_print_text(FILE *f, const char *s, size_t n) {
    fputc('"', f);
    for (size_t i = 0; i < n;) {
        unsigned char c = (unsigned char)s[i];
        size_t len = char_len((const unsigned char *)s + i, n - i);
        if (len == 0) {
            fputs("\\ufffd", f);
            len = 1;
        } else if (c == '"' || c == '\\') {
            fprintf(f, "\\%c", c);
        } else if (c == '\n') {
            fputs("\\n", f);
        } else if (c < 0x20 || c == 0x7f) {
            fprintf(f, "\\u%04x", c);
        } else if (c == 0xc2 && (unsigned char)s[i + 1] < 0xa0) { // controls to terminals, too
            fprintf(f, "\\u%04x", (unsigned char)s[i + 1]);
        } else {
            fwrite(s + i, 1, len, f);
        }
        i += len;
    }
    fputc('"', f);
}
