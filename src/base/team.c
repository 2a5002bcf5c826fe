// SPDX-License-Identifier: MIT
// The thread team. Two meeting places, both generation counters: `epoch` is counted up by the
// caller when a region begins, `round` by the last thread that arrives at a barrier. A thread waits
// for a counter to leave the value it has seen: it spins, then sleeps on the counter itself.
//
// Why no wake-up is lost: a sleeper first adds itself to n_sleepers, then lets the kernel compare
// the counter; a waker first moves the counter, then reads n_sleepers. All four are sequentially
// consistent, so either the waker sees the sleeper or the kernel sees the moved counter.
//
// The end of a region is a barrier too: the caller is one of the team.
#include "base/team.h"

#include <errno.h>
#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/float_env.h"
#include "base/mem.h"

// A counter that threads wait for. A cache line of its own, with nothing that others write to.
struct signal_word {
    _Alignas(64) _Atomic uint32_t value;
    _Atomic uint32_t n_sleepers;
};

struct worker {
    _Alignas(64) struct ht_team *team;
    pthread_t thread; // of thread 0, the caller, nothing
    struct ht_spin spin;
    int index;
};

struct ht_team {
    struct signal_word epoch;              // regions begun
    struct signal_word round;              // barriers passed
    _Alignas(64) _Atomic uint32_t arrived; // threads at the present barrier
    _Alignas(64) ht_team_fn fn;            // written before epoch moves; fn NULL: leave
    void *arg;
    bool crowded;
    int n_threads;
    int driver_cpu;          // that thread 0 runs on; -1: any
    pid_t process;           // that has the threads; one forked from it has none
    struct worker workers[]; // n_threads
};

static void relax(void) {
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("isb" ::: "memory"); // yield is a nop on most cores; isb does pause
#endif
}

void ht_team_spin(unsigned turn) {
    if (turn % 1024 != 1023)
        relax();
    else if (turn < 1024 * 64)
        sched_yield(); // the other thread may want this core
    else               // and get it from one of a real-time policy, too
        nanosleep(&(struct timespec){.tv_nsec = 50000}, NULL);
}

static void futex_wait(_Atomic uint32_t *word, uint32_t seen) {
    // Interrupted, or moved already: the caller looks again.
    syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, seen, NULL, NULL, 0);
}

static void futex_wake_all(_Atomic uint32_t *word) {
    syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, INT32_MAX, NULL, NULL, 0);
}

void ht_spin_begin(struct ht_spin *s, bool crowded) {
    *s = (struct ht_spin){.ns = crowded ? HT_SPIN_CROWDED_NS : HT_SPIN_MOST_NS, .fixed = crowded};
}

uint64_t ht_spin_next(struct ht_spin *s) {
    bool fewer = !s->fixed && s->ns < HT_SPIN_MOST_NS;
    return fewer && ++s->n_short % HT_SPIN_TRY == 0 ? HT_SPIN_MOST_NS : s->ns;
}

void ht_spin_tell(struct ht_spin *s, uint64_t spun_ns, bool enough) {
    if (s->fixed) return;
    if (enough)
        s->ns = spun_ns > s->ns ? spun_ns : s->ns;
    else
        s->ns = s->ns / 2 > HT_SPIN_LEAST_NS ? s->ns / 2 : HT_SPIN_LEAST_NS;
}

// Spins for spin_ns, and then up to 64 looks. Whether that was enough.
static bool wait_past(struct signal_word *w, uint32_t seen, uint64_t spin_ns) {
    uint64_t start = 0;
    for (unsigned i = 1;; i++) {
        if (atomic_load_explicit(&w->value, memory_order_acquire) != seen) return true;
        relax();
        if (i % 64 != 0) continue; // the clock costs as much as many looks
        uint64_t now = ht_now_ns();
        if (start == 0) start = now;
        if (now - start >= spin_ns) break;
    }
    atomic_fetch_add(&w->n_sleepers, 1);
    while (atomic_load(&w->value) == seen) futex_wait(&w->value, seen);
    atomic_fetch_sub(&w->n_sleepers, 1);
    return false;
}

static void move_on(struct signal_word *w) {
    atomic_fetch_add(&w->value, 1);
    if (atomic_load(&w->n_sleepers) != 0) futex_wake_all(&w->value);
}

static void wait_at_barrier(struct ht_team *t, struct ht_spin *spin, uint32_t round) {
    uint64_t spin_ns = ht_spin_next(spin);
    ht_spin_tell(spin, spin_ns, wait_past(&t->round, round, spin_ns));
}

void ht_team_barrier(struct ht_team *t, int thread) {
    uint32_t n = (uint32_t)t->n_threads;
    if (n == 1) return;
    // Read before arriving: the round cannot end without this thread.
    uint32_t round = atomic_load_explicit(&t->round.value, memory_order_acquire);
    if (atomic_fetch_add(&t->arrived, 1) + 1 == n) {
        atomic_store_explicit(&t->arrived, 0, memory_order_relaxed); // ordered by the round below
        move_on(&t->round);
    } else {
        wait_at_barrier(t, &t->workers[thread].spin, round);
    }
}

static void *worker_main(void *arg) {
    struct worker *w = arg;
    struct ht_team *t = w->team;
    (void)ht_float_enter(); // for good: its settings would be those of whoever created the team
    for (uint32_t epoch = 0;; epoch++) {
        (void)wait_past(&t->epoch, epoch, w->spin.ns); // the caller's business may be long
        if (!t->fn) return NULL;
        t->fn(t->arg, w->index, t->n_threads);
        ht_team_barrier(t, w->index);
    }
}

static bool bind_to(pthread_t thread, int cpu) {
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET((size_t)cpu, &one);
    return pthread_setaffinity_np(thread, sizeof one, &one) == 0;
}

// Binds the calling thread; false where it has nowhere else to go back to. Binding was possible at
// creation; should that have changed, it runs where the system likes.
static bool bind_driver(const struct ht_team *t, cpu_set_t *before) {
    if (t->driver_cpu < 0 || pthread_getaffinity_np(pthread_self(), sizeof *before, before) != 0 ||
        (CPU_COUNT(before) == 1 && CPU_ISSET((size_t)t->driver_cpu, before)))
        return false;
    return bind_to(pthread_self(), t->driver_cpu);
}

void ht_team_run(struct ht_team *t, ht_team_fn fn, void *arg) {
    cpu_set_t before;
    bool bound = bind_driver(t, &before);
    if (t->n_threads > 1) {
        t->fn = fn;
        t->arg = arg;
        move_on(&t->epoch);
    }
    fn(arg, 0, t->n_threads);
    ht_team_barrier(t, 0);
    if (bound) pthread_setaffinity_np(pthread_self(), sizeof before, &before);
}

// Sends the threads 1 to n - 1 home and waits for them.
static void dismiss(struct ht_team *t, int n) {
    if (t->process != getpid()) return;
    t->fn = NULL;
    move_on(&t->epoch);
    for (int i = 1; i < n; i++) pthread_join(t->workers[i].thread, NULL);
}

// With a stack of its own size: by default each takes what the shell's limit says, often 8 MB of
// addresses. Kernels take less than 100 KB of it.
static int create_thread(struct worker *w) {
    pthread_attr_t attr;
    int code = pthread_attr_init(&attr);
    if (code == 0) {
        code = pthread_attr_setstacksize(&attr, (size_t)1 << 20);
        if (code == 0) code = pthread_create(&w->thread, &attr, worker_main, w);
        pthread_attr_destroy(&attr);
    }
    // A program may have more thread-local storage than that.
    return code == EINVAL ? pthread_create(&w->thread, NULL, worker_main, w) : code;
}

static int start_worker(struct ht_team *t, int i, const int *cpus) {
    struct worker *w = &t->workers[i];
    int code = create_thread(w);
    if (code == 0 && cpus) bind_to(w->thread, cpus[w->index]); // was possible for the caller
    if (code == 0) {
        char name[16];
        snprintf(name, sizeof name, "hearth-%d", w->index);
        pthread_setname_np(w->thread, name); // for debuggers; may fail
    }
    return code;
}

// cpus: of each thread, or NULL.
static enum hearth_status create(int n_threads, const int *cpus, struct ht_team **out,
                                 struct hearth_error *err) {
    if (n_threads < 0 || n_threads > HT_TEAM_MAX)
        return ht_fail(err, HEARTH_E_ARG, "%d threads, expected 1 to %d, or 0 for the default",
                       n_threads, HT_TEAM_MAX);
    int n = n_threads ? n_threads : ht_team_default_threads();
    size_t n_bytes = sizeof(struct ht_team) + (size_t)n * sizeof(struct worker);
    struct ht_team *t = ht_alloc_aligned(64, n_bytes);
    if (!t) return ht_fail_nomem(err, n_bytes, "a thread team");
    memset(t, 0, n_bytes);
    t->n_threads = n;
    t->crowded = !cpus && n > ht_team_usable_cpus();
    t->driver_cpu = -1;
    t->process = getpid();
    for (int i = 0; i < n; i++) {
        t->workers[i] = (struct worker){.team = t, .index = i};
        ht_spin_begin(&t->workers[i].spin, t->crowded);
    }
    // Signals are the application's own: they go to its threads, never to these, but for those that
    // a thread's own instructions raise.
    static const int own[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGSYS};
    sigset_t all, before;
    sigfillset(&all);
    for (size_t i = 0; i < sizeof own / sizeof *own; i++) sigdelset(&all, own[i]);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int n_there = 1, code = 0; // the caller
    while (n_there < n && (code = start_worker(t, n_there, cpus)) == 0) n_there++;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (code != 0) {
        dismiss(t, n_there);
        ht_free(t);
        char text[128];
        return ht_fail(err, HEARTH_E_LIMIT, "thread %d of %d could not be started: %s", n_there + 1,
                       n, ht_error_text(code, text, sizeof text));
    }
    *out = t;
    return HEARTH_OK;
}

enum hearth_status ht_team_create(int n_threads, struct ht_team **out, struct hearth_error *err) {
    return create(n_threads, NULL, out, err);
}

// Tries each CPU on the calling thread, which comes back to where it was.
static enum hearth_status try_cpus(const int *cpus, int n, struct hearth_error *err) {
    cpu_set_t before;
    char text[128];
    int bad = -1, code = pthread_getaffinity_np(pthread_self(), sizeof before, &before);
    if (code)
        return ht_fail(err, HEARTH_E_UNSUPPORTED, "threads cannot be bound to CPUs here: %s",
                       ht_error_text(code, text, sizeof text));
    for (int i = 0; i < n && bad < 0; i++)
        if (!bind_to(pthread_self(), cpus[i])) bad = cpus[i];
    pthread_setaffinity_np(pthread_self(), sizeof before, &before);
    if (bad < 0) return HEARTH_OK;
    return ht_fail(err, HEARTH_E_ARG,
                   "CPU %d of the CPU mask cannot be used: it is not there, not online, or not "
                   "this process's",
                   bad);
}

enum hearth_status ht_team_create_pinned(int n_threads, const int *cpus, int n_cpus,
                                         struct ht_team **out, struct hearth_error *err) {
    int n = n_threads ? n_threads : n_cpus;
    if (n > n_cpus)
        return ht_fail(err, HEARTH_E_ARG,
                       "%d threads are too many for the %d CPUs of the CPU mask, one for each", n,
                       n_cpus);
    enum hearth_status st = try_cpus(cpus, n_cpus, err);
    if (st == HEARTH_OK) st = create(n, cpus, out, err);
    if (st != HEARTH_OK) return st;
    (*out)->driver_cpu = cpus[0];
    return HEARTH_OK;
}

void ht_team_destroy(struct ht_team *t) {
    if (!t) return;
    dismiss(t, t->n_threads);
    ht_free(t);
}

int ht_team_size(const struct ht_team *t) {
    return t->n_threads;
}
uint64_t ht_team_spin_ns(const struct ht_team *t, int thread) {
    return t->workers[thread].spin.ns;
}
bool ht_team_is_crowded(const struct ht_team *t) {
    return t->crowded;
}
