// SPDX-License-Identifier: MIT
// base: the thread team. Also run under the thread sanitizer (label tsan): the slots below are
// plain memory, so a barrier that orders too little is a race it reports.
#include "cmocka_all.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "alloc_mem.h"
#include "base/team.h"

// Linked with --wrap=pthread_create: the n-th thread from now cannot be had.
static int n_until_no_thread;
int __real_pthread_create(pthread_t *t, const pthread_attr_t *a, void *(*fn)(void *), void *arg);
int __wrap_pthread_create(pthread_t *t, const pthread_attr_t *a, void *(*fn)(void *), void *arg);
int __wrap_pthread_create(pthread_t *t, const pthread_attr_t *a, void *(*fn)(void *), void *arg) {
    if (n_until_no_thread > 0 && --n_until_no_thread == 0) return EAGAIN;
    return __real_pthread_create(t, a, fn, arg);
}

static void nap(long ns) {
    nanosleep(&(struct timespec){.tv_nsec = ns}, NULL);
}

struct ring {
    struct ht_team *team;
    long slots[HT_TEAM_MAX];
    int n_rounds;
    long nap_ns; // of one thread in turn, so that the others go to sleep
    _Atomic int n_wrong;
};

// Each round every thread writes its slot; after the barrier all must see all; after a second one
// they go on. Read by others, written by one, with nothing but the barriers between.
static void walk_ring(void *arg, int thread, int n_threads) {
    struct ring *r = arg;
    for (int round = 1; round <= r->n_rounds; round++) {
        if (r->nap_ns && round % n_threads == thread) nap(r->nap_ns);
        r->slots[thread] += thread + round;
        ht_team_barrier(r->team, thread);
        for (int i = 0; i < n_threads; i++)
            if (r->slots[i] != (long)i * round + (long)round * (round + 1) / 2)
                atomic_fetch_add(&r->n_wrong, 1);
        ht_team_barrier(r->team, thread);
    }
}

static void run_ring(int n_threads, int n_rounds, long nap_ns) {
    struct ring *r = test_calloc(1, sizeof *r);
    struct hearth_error err;
    assert_int_equal(ht_team_create(n_threads, &r->team, &err), HEARTH_OK);
    assert_int_equal(ht_team_size(r->team), n_threads);
    r->n_rounds = n_rounds;
    r->nap_ns = nap_ns;
    ht_team_run(r->team, walk_ring, r);
    assert_int_equal(r->n_wrong, 0);
    for (int i = 0; i < n_threads; i++)
        assert_int_equal(r->slots[i], (long)i * n_rounds + (long)n_rounds * (n_rounds + 1) / 2);
    ht_team_destroy(r->team);
    test_free(r);
}

static void test_barriers(void **state) {
    (void)state;
    static const int sizes[] = {1, 2, 3, 8};
    for (int i = 0; i < 4; i++) run_ring(sizes[i], 300, 0);
}

static void test_barriers_asleep(void **state) {
    (void)state;
    run_ring(2, 30, 500000);
    run_ring(3, 30, 500000);
    run_ring(8, 20, 500000);
}

// Who waits for a thread that has no CPU had better give it one: waits in vain shorten the
// spinning, one in 256 is long all the same, and when that is enough, all are.
static void test_spins_less_in_vain(void **state) {
    (void)state;
    struct ht_spin s;
    ht_spin_begin(&s, false);
    assert_int_equal(ht_spin_next(&s), HT_SPIN_MOST_NS);
    ht_spin_tell(&s, HT_SPIN_MOST_NS, true);
    assert_int_equal(ht_spin_next(&s), HT_SPIN_MOST_NS);
    for (uint64_t ns = HT_SPIN_MOST_NS; ns > HT_SPIN_LEAST_NS; ns /= 2) {
        assert_int_equal(ht_spin_next(&s), ns);
        ht_spin_tell(&s, ns, false);
    }
    assert_int_equal(s.ns, HT_SPIN_LEAST_NS);
    int n = 0;
    uint64_t ns;
    for (; (ns = ht_spin_next(&s)) != HT_SPIN_MOST_NS; n++) {
        assert_int_equal(ns, HT_SPIN_LEAST_NS);
        ht_spin_tell(&s, ns, n % 2 == 0); // a short one that was enough says nothing of long ones
        assert_int_equal(s.ns, HT_SPIN_LEAST_NS);
    }
    assert_in_range(n, HT_SPIN_TRY - 8, HT_SPIN_TRY); // those on the way down counted
    ht_spin_tell(&s, HT_SPIN_MOST_NS, false);
    assert_int_equal(s.ns, HT_SPIN_LEAST_NS);
    for (n = 1; ht_spin_next(&s) != HT_SPIN_MOST_NS; n++) ht_spin_tell(&s, s.ns, true);
    assert_int_equal(n, HT_SPIN_TRY);
    ht_spin_tell(&s, HT_SPIN_MOST_NS, true);
    assert_int_equal(s.ns, HT_SPIN_MOST_NS);
    ht_spin_begin(&s, true);
    for (n = 0; n < 3 * HT_SPIN_TRY; n++) {
        assert_int_equal(ht_spin_next(&s), HT_SPIN_CROWDED_NS);
        ht_spin_tell(&s, HT_SPIN_CROWDED_NS, n % 2 == 0);
    }
}

// Thread 1 comes so late that thread 0 falls asleep, until that spins as little as can be, and then
// at once, until it spins as at first.
enum { MOST_LATE = 2000, MOST_SOON = 400 * HT_SPIN_TRY }; // rounds
struct waits {
    struct ht_team *team;
    uint64_t least, again;
    long n_late, n_soon;
    bool late, done; // written by thread 0 in front of a barrier and read behind it
};

static void wait_for_late(void *arg, int thread, int n_threads) {
    struct waits *w = arg;
    (void)n_threads;
    while (!w->done) {
        if (thread == 1 && w->late) nap(1000000);
        ht_team_barrier(w->team, thread);
        if (thread == 0) {
            uint64_t ns = ht_team_spin_ns(w->team, 0);
            *(w->late ? &w->least : &w->again) = ns;
            if (w->late) {
                w->late = ns > HT_SPIN_LEAST_NS && ++w->n_late < MOST_LATE;
            } else {
                w->done = ns >= HT_SPIN_MOST_NS || ++w->n_soon == MOST_SOON;
            }
        }
        ht_team_barrier(w->team, thread);
    }
}

static void test_team_spins_less(void **state) {
    (void)state;
    struct waits w = {.late = true};
    assert_int_equal(ht_team_create(2, &w.team, NULL), HEARTH_OK);
    uint64_t first = ht_team_spin_ns(w.team, 0);
    if (ht_team_is_crowded(w.team)) {
        w.n_soon = MOST_SOON - 2;
        ht_team_run(w.team, wait_for_late, &w);
        assert_int_equal(first, HT_SPIN_CROWDED_NS);
        assert_true(w.least == first && w.again == first);
        ht_team_destroy(w.team);
        return;
    }
    ht_team_run(w.team, wait_for_late, &w);
    ht_team_destroy(w.team);
    assert_int_equal(first, HT_SPIN_MOST_NS);
    assert_int_equal(w.least, HT_SPIN_LEAST_NS);
    if (w.again != first) {
        print_message("of 400 long spins none was enough: no CPU for both threads\n");
        skip();
    }
}

struct sums {
    uint64_t n;
    uint64_t part[8];
};

static void add_share(void *arg, int thread, int n_threads) {
    struct sums *s = arg;
    size_t begin, end;
    ht_team_share(s->n, 4, thread, n_threads, &begin, &end);
    s->part[thread] = 0;
    for (size_t i = begin; i < end; i++) s->part[thread] += i + 1;
}

// Many short regions, with and without time to fall asleep between them; the caller reads what the
// threads wrote.
static void test_regions(void **state) {
    (void)state;
    for (int n_threads = 1; n_threads <= 4; n_threads++) {
        struct ht_team *t;
        assert_int_equal(ht_team_create(n_threads, &t, NULL), HEARTH_OK);
        for (uint64_t n = 0; n < 300; n++) {
            struct sums s = {.n = n};
            ht_team_run(t, add_share, &s);
            uint64_t sum = 0;
            for (int i = 0; i < n_threads; i++) sum += s.part[i];
            assert_int_equal(sum, n * (n + 1) / 2);
            if (n % 100 == 0) nap(1000000);
        }
        ht_team_destroy(t);
    }
}

static void test_shares(void **state) {
    (void)state;
    for (size_t n = 0; n < 200; n++)
        for (int n_threads = 1; n_threads < 10; n_threads++)
            for (size_t unit = 1; unit < 40; unit += 6) {
                size_t at = 0;
                for (int i = 0; i < n_threads; i++) {
                    size_t begin, end;
                    ht_team_share(n, unit, i, n_threads, &begin, &end);
                    assert_int_equal(begin, at); // without gap or overlap
                    assert_true(end >= begin && end <= n);
                    assert_true(begin % unit == 0 || begin == n);
                    at = end;
                }
                assert_int_equal(at, n);
            }
}

static void *drive_team(void *arg) {
    (void)arg;
    struct ht_team *t;
    if (ht_team_create(3, &t, NULL) != HEARTH_OK) return NULL;
    bool ok = true;
    for (uint64_t n = 0; n < 100; n++) {
        struct sums s = {.n = n};
        ht_team_run(t, add_share, &s);
        ok = ok && s.part[0] + s.part[1] + s.part[2] == n * (n + 1) / 2;
    }
    ht_team_destroy(t);
    return ok ? arg : NULL;
}

static void test_two_teams(void **state) {
    (void)state;
    pthread_t other;
    int mark;
    void *result;
    assert_int_equal(pthread_create(&other, NULL, drive_team, &mark), 0);
    assert_ptr_equal(drive_team(&mark), &mark);
    assert_int_equal(pthread_join(other, &result), 0);
    assert_ptr_equal(result, &mark);
}

static void test_create_refuses(void **state) {
    (void)state;
    struct ht_team *t = (struct ht_team *)(void *)state;
    struct hearth_error err;
    assert_int_equal(ht_team_create(-1, &t, &err), HEARTH_E_ARG);
    assert_non_null(strstr(err.message, "-1 threads"));
    assert_int_equal(ht_team_create(HT_TEAM_MAX + 1, &t, &err), HEARTH_E_ARG);
    uint64_t live = ht_test_alloc_get().n_live;
    ht_test_alloc_fail_at(1);
    assert_int_equal(ht_team_create(2, &t, &err), HEARTH_E_NOMEM);
    ht_test_alloc_reset();
    for (int n = 1; n <= 7; n++) { // the n-th of seven threads does not start
        n_until_no_thread = n;
        assert_int_equal(ht_team_create(8, &t, &err), HEARTH_E_LIMIT);
        n_until_no_thread = 0;
        assert_non_null(strstr(err.message, "of 8 could not be started"));
    }
    assert_ptr_equal(t, state); // untouched
    assert_int_equal(ht_test_alloc_get().n_live, live);
    ht_team_destroy(NULL);
    assert_int_equal(ht_team_create(0, &t, &err), HEARTH_OK);
    assert_int_equal(ht_team_size(t), ht_team_default_threads());
    ht_team_destroy(t);
    assert_int_equal(ht_test_alloc_get().n_live, live);
}

// ---- signals

struct masks {
    sigset_t of[4];
};

static void note_mask(void *arg, int thread, int n_threads) {
    struct masks *m = arg;
    (void)n_threads;
    pthread_sigmask(SIG_SETMASK, NULL, &m->of[thread]);
}

// The program's signals go to its own threads, whose masks stay as they are; those that an
// instruction raises go to the thread that ran it.
static void test_signals(void **state) {
    (void)state;
    static const int to_program[] = {SIGINT, SIGTERM, SIGALRM, SIGUSR1, SIGCHLD, SIGPROF};
    static const int own[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGSYS};
    enum { N_PROGRAM = sizeof to_program / sizeof *to_program, N_OWN = sizeof own / sizeof *own };
    struct masks m;
    struct ht_team *t;
    sigset_t mine, before, after;
    sigemptyset(&mine);
    sigaddset(&mine, SIGUSR2);
    assert_int_equal(pthread_sigmask(SIG_SETMASK, &mine, &before), 0);
    assert_int_equal(ht_team_create(4, &t, NULL), HEARTH_OK);
    pthread_sigmask(SIG_SETMASK, NULL, &after);
    ht_team_run(t, note_mask, &m);
    ht_team_destroy(t);
    pthread_sigmask(SIG_SETMASK, &before, &mine);
    for (int i = 0; i < N_PROGRAM; i++) {
        assert_false(sigismember(&after, to_program[i]));
        assert_false(sigismember(&m.of[0], to_program[i]));
        assert_false(sigismember(&mine, to_program[i]));
        for (int k = 1; k < 4; k++) assert_true(sigismember(&m.of[k], to_program[i]));
    }
    for (int i = 0; i < N_OWN; i++)
        for (int k = 0; k < 4; k++) assert_false(sigismember(&m.of[k], own[i]));
    assert_true(sigismember(&after, SIGUSR2));
}

// ---- threads bound to CPUs

struct places {
    int cpu[HT_TEAM_MAX], n_allowed[HT_TEAM_MAX];
};

static void note_place(void *arg, int thread, int n_threads) {
    struct places *p = arg;
    cpu_set_t set;
    (void)n_threads;
    pthread_getaffinity_np(pthread_self(), sizeof set, &set);
    p->n_allowed[thread] = CPU_COUNT(&set);
    for (p->cpu[thread] = 0; !CPU_ISSET((size_t)p->cpu[thread], &set);) p->cpu[thread]++;
}

static void *drive_other(void *arg) { // from a thread that did not create the team
    struct places p;
    ht_team_run(arg, note_place, &p);
    return p.n_allowed[0] == 1 ? arg : NULL;
}

static void test_pinned(void **state) {
    (void)state;
    cpu_set_t before;
    int cpus[CPU_SETSIZE], n = 0;
    struct ht_team *t = NULL;
    struct hearth_error err;
    struct places p;
    pthread_getaffinity_np(pthread_self(), sizeof before, &before);
    for (int i = 0; i < CPU_SETSIZE && n < 4; i++)
        if (CPU_ISSET((size_t)i, &before)) cpus[n++] = i;
    assert_int_equal(ht_team_create_pinned(0, cpus, n, &t, &err), HEARTH_OK);
    assert_int_equal(ht_team_size(t), n);
    ht_team_run(t, note_place, &p);
    for (int i = 0; i < n; i++) {
        assert_int_equal(p.n_allowed[i], 1);
        assert_int_equal(p.cpu[i], cpus[i]);
    }
    pthread_t other;
    void *result;
    assert_int_equal(pthread_create(&other, NULL, drive_other, t), 0);
    assert_int_equal(pthread_join(other, &result), 0);
    assert_ptr_equal(result, t);
    for (int i = 0; i < 3; i++) { // each new thread, though the system gives one's name to the next
        assert_int_equal(pthread_create(&other, NULL, drive_other, t), 0);
        assert_int_equal(pthread_join(other, &result), 0);
        assert_ptr_equal(result, t);
    }
    // Two such teams and one without a mask know nothing of each other, and the thread that drives
    // them is its own master between the regions.
    struct ht_team *second = NULL, *free_team = NULL;
    cpu_set_t after;
    assert_int_equal(ht_team_create_pinned(1, cpus + n - 1, 1, &second, &err), HEARTH_OK);
    assert_int_equal(ht_team_create(n, &free_team, &err), HEARTH_OK);
    ht_team_run(second, note_place, &p);
    assert_int_equal(p.n_allowed[0], 1);
    assert_int_equal(p.cpu[0], cpus[n - 1]);
    ht_team_run(t, note_place, &p);
    assert_int_equal(p.n_allowed[0], 1);
    assert_int_equal(p.cpu[0], cpus[0]);
    ht_team_run(free_team, note_place, &p);
    for (int i = 0; i < n; i++) assert_int_equal(p.n_allowed[i], CPU_COUNT(&before));
    pthread_getaffinity_np(pthread_self(), sizeof after, &after);
    assert_true(CPU_EQUAL(&before, &after));
    ht_team_destroy(t);
    ht_team_destroy(free_team);
    ht_team_destroy(second);
}

static void *drive_and_destroy(void *arg) {
    struct places p;
    ht_team_run(arg, note_place, &p);
    ht_team_destroy(arg);
    cpu_set_t set;
    pthread_getaffinity_np(pthread_self(), sizeof set, &set);
    return CPU_COUNT(&set) > 1 && p.n_allowed[0] == 1 ? arg : NULL;
}

static void test_destroyed_elsewhere(void **state) {
    (void)state;
    cpu_set_t before;
    int first = 0;
    struct ht_team *t = NULL;
    struct hearth_error err;
    pthread_t other;
    void *result;
    pthread_getaffinity_np(pthread_self(), sizeof before, &before);
    while (!CPU_ISSET((size_t)first, &before)) first++;
    assert_int_equal(ht_team_create_pinned(0, &first, 1, &t, &err), HEARTH_OK);
    assert_int_equal(pthread_create(&other, NULL, drive_and_destroy, t), 0);
    assert_int_equal(pthread_join(other, &result), 0);
    assert_true(result == t || CPU_COUNT(&before) == 1);
}

static void test_pinned_restores_and_refuses(void **state) {
    (void)state;
    cpu_set_t before, after;
    int first = 0, none = CPU_SETSIZE - 1;
    struct ht_team *t = NULL;
    struct hearth_error err;
    pthread_getaffinity_np(pthread_self(), sizeof before, &before);
    while (!CPU_ISSET((size_t)first, &before)) first++;
    assert_int_equal(ht_team_create_pinned(0, &first, 1, &t, &err), HEARTH_OK);
    ht_team_destroy(t);
    pthread_getaffinity_np(pthread_self(), sizeof after, &after);
    assert_true(CPU_EQUAL(&before, &after));
    t = NULL;
    assert_int_equal(ht_team_create_pinned(2, &first, 1, &t, &err), HEARTH_E_ARG);
    assert_non_null(strstr(err.message, "2 threads are too many for the 1 CPUs"));
    if (sysconf(_SC_NPROCESSORS_CONF) <= none) {
        assert_int_equal(ht_team_create_pinned(0, &none, 1, &t, &err), HEARTH_E_ARG);
        assert_non_null(strstr(err.message, "CPU 1023 of the CPU mask cannot be used"));
    }
    uint64_t live = ht_test_alloc_get().n_live;
    ht_test_alloc_fail_at(1);
    assert_int_equal(ht_team_create_pinned(0, &first, 1, &t, &err), HEARTH_E_NOMEM);
    ht_test_alloc_reset();
    assert_int_equal(ht_test_alloc_get().n_live, live);
    assert_null(t);
    pthread_getaffinity_np(pthread_self(), sizeof after, &after);
    assert_true(CPU_EQUAL(&before, &after));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_barriers),
        cmocka_unit_test(test_barriers_asleep),
        cmocka_unit_test(test_spins_less_in_vain),
        cmocka_unit_test(test_team_spins_less),
        cmocka_unit_test(test_regions),
        cmocka_unit_test(test_shares),
        cmocka_unit_test(test_two_teams),
        cmocka_unit_test(test_create_refuses),
        cmocka_unit_test(test_signals),
        cmocka_unit_test(test_pinned),
        cmocka_unit_test(test_pinned_restores_and_refuses),
        cmocka_unit_test(test_destroyed_elsewhere),
    };
    return cmocka_run_group_tests_name("team", tests, NULL, NULL);
}
