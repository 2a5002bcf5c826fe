// SPDX-License-Identifier: MIT
// The progress line: a thread that, once a second has passed, writes one line on stderr and
// rewrites it four times a second until the work is done, then erases it. Only on a terminal; the
// thread exists between begin and end alone. Whoever writes another line meanwhile erases this one
// first: what stands on the terminal is the process's, not a caller's, and so is `on_screen`.
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

#include "cli.h"

#define ERASE "\r\x1b[K"

static atomic_bool on_screen;

const char *progress_erase(void) {
    return atomic_exchange(&on_screen, false) ? ERASE : "";
}

static void print_progress(const struct progress *p, double seconds) {
    unsigned long long done = atomic_load(&p->done), total = atomic_load(&p->total);
    struct winsize size;
    char line[200];
    if (total) {
        snprintf(line, sizeof(line), "%s: %llu of %llu %s, %.0f s ", p->what, done, total, p->unit,
                 seconds);
    } else {
        snprintf(line, sizeof(line), "%s: %.0f s ", p->what, seconds);
    }
    // What is wider than the terminal would go on in a second line, which nobody erases.
    bool known = ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 1;
    flockfile(stderr); // nobody's line comes between this one and the flag
    fprintf(stderr, "\r%.*s\x1b[K", known ? size.ws_col - 1 : (int)sizeof(line), line);
    fflush(stderr);
    atomic_store(&on_screen, true);
    funlockfile(stderr);
}

static void *progress_main(void *arg) {
    struct progress *p = arg;
    double begin = now_s();
    struct timespec until;
    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_sec++;
    pthread_mutex_lock(&p->lock);
    while (!p->stop) {
        if (pthread_cond_timedwait(&p->wake, &p->lock, &until) == 0) continue;
        print_progress(p, now_s() - begin);
        until.tv_nsec += 250000000;
        until.tv_sec += until.tv_nsec / 1000000000;
        until.tv_nsec %= 1000000000;
    }
    pthread_mutex_unlock(&p->lock);
    fputs(progress_erase(), stderr);
    return NULL;
}

void progress_begin(struct progress *p, const char *what, const char *unit) {
    memset(p, 0, sizeof(*p));
    p->what = what;
    p->unit = unit;
    const char *terminal = getenv("TERM");
    if (!isatty(STDERR_FILENO) || !terminal || strcmp(terminal, "dumb") == 0) return;
    pthread_mutex_init(&p->lock, NULL);
    pthread_condattr_t steady; // a clock that nobody sets
    pthread_condattr_init(&steady);
    pthread_condattr_setclock(&steady, CLOCK_MONOTONIC);
    pthread_cond_init(&p->wake, &steady);
    pthread_condattr_destroy(&steady);
    p->running = pthread_create(&p->thread, NULL, progress_main, p) == 0;
}

void progress_set(struct progress *p, uint64_t done, uint64_t total) {
    atomic_store(&p->done, done);
    atomic_store(&p->total, total);
}

void progress_end(struct progress *p) {
    if (!p->running) return;
    pthread_mutex_lock(&p->lock);
    p->stop = true;
    pthread_cond_signal(&p->wake);
    pthread_mutex_unlock(&p->lock);
    pthread_join(p->thread, NULL);
    pthread_cond_destroy(&p->wake);
    pthread_mutex_destroy(&p->lock);
    p->running = false;
}
