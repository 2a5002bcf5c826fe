// SPDX-License-Identifier: MIT
// SIGINT without a handler and without globals: the signal is blocked in every thread and read from
// a descriptor by a thread of its own. The first one cancels the watched request, the second ends
// the program at once. While that thread writes a line the signal is the system's to act on.
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "cli.h"

static sigset_t sigint_set(void) {
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGINT);
    return set;
}

#define PATIENCE_MS 1000 // after which is said that a first SIGINT was heard

static void *interrupt_main(void *arg) {
    struct interrupt *i = arg;
    struct signalfd_siginfo info;
    sigset_t set = sigint_set();
    for (int wait = -1;;) {
        struct pollfd fds[2] = {{.fd = i->signal_fd, .events = POLLIN},
                                {.fd = i->stop_fd, .events = POLLIN}};
        int n = poll(fds, 2, wait);
        if (n < 0) continue;
        if (fds[1].revents) return NULL;
        if (n == 0) {
            // It may wait for who reads it; then the next signal is the system's to act on.
            pthread_sigmask(SIG_UNBLOCK, &set, NULL);
            note("stopping as soon as possible; Ctrl-C again ends at once");
            pthread_sigmask(SIG_BLOCK, &set, NULL);
            wait = -1;
            continue;
        }
        if (read(i->signal_fd, &info, sizeof(info)) != sizeof(info)) continue;
        if (atomic_exchange(&i->hit, true)) {
            const char *erase = progress_erase();
            if (*erase) (void)!write(STDERR_FILENO, erase, strlen(erase));
            interrupt_end_program();
        }
        hearth_request *r = atomic_load(&i->request);
        if (r) hearth_request_cancel(r);
        wait = PATIENCE_MS;
    }
}

_Noreturn void interrupt_end_program(void) {
    sigset_t set = sigint_set();
    signal(SIGINT, SIG_DFL);
    pthread_sigmask(SIG_UNBLOCK, &set, NULL);
    raise(SIGINT);
    _exit(EXIT_INTERRUPTED); // the first process of a container does not die of it
}

void interrupt_begin(struct interrupt *i) {
    sigset_t set = sigint_set();
    struct sigaction now;
    memset(i, 0, sizeof(*i));
    // Ignored by who started us (a job in the background of a script): it stays so.
    if (sigaction(SIGINT, NULL, &now) == 0 && now.sa_handler == SIG_IGN) return;
    if (pthread_sigmask(SIG_BLOCK, &set, NULL) != 0) return;
    i->signal_fd = signalfd(-1, &set, SFD_CLOEXEC);
    i->stop_fd = eventfd(0, EFD_CLOEXEC);
    i->running = i->signal_fd >= 0 && i->stop_fd >= 0 &&
                 pthread_create(&i->thread, NULL, interrupt_main, i) == 0;
    if (i->running) return;
    if (i->signal_fd >= 0) close(i->signal_fd);
    if (i->stop_fd >= 0) close(i->stop_fd);
    pthread_sigmask(SIG_UNBLOCK, &set, NULL); // then SIGINT simply ends us
}

void interrupt_watch(struct interrupt *i, hearth_request *r) {
    atomic_store(&i->request, r);
    if (r && atomic_load(&i->hit)) hearth_request_cancel(r);
}

void interrupt_end(struct interrupt *i) {
    sigset_t set = sigint_set();
    if (!i->running) return;
    uint64_t one = 1;
    if (write(i->stop_fd, &one, sizeof(one)) == sizeof(one)) pthread_join(i->thread, NULL);
    close(i->signal_fd);
    close(i->stop_fd);
    pthread_sigmask(SIG_UNBLOCK, &set, NULL);
    i->running = false;
}
