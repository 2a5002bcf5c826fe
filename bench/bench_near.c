// SPDX-License-Identifier: MIT
// How near two processors are to each other, and how fast both read the memory, in turns: a host
// may move the virtual processors of a machine from one cluster of cores to two and back, which
// changes either.
//
//   bench_near SECONDS
//
// A line each 0.3 s: the time in which a word goes from one processor's cache to the other's, the
// median of 20 runs, and the bytes a second that both threads read.
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { RUNS = 20, TURNS = 1000, BUFFER = 128 << 20 }; // bytes of a thread, beyond its cache

static _Alignas(128) atomic_int ball;
static _Alignas(128) atomic_int turn; // of the two threads' work; -1: the end
static _Alignas(128) atomic_int done;
static uint64_t *buffer[2];

static double now_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

static void pin(int cpu) {
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(cpu, &set);
    sched_setaffinity(0, sizeof(set), &set); // where it may not: wherever the system puts it
}

static void read_buffer(int thread) {
    volatile uint64_t sink;
    uint64_t sum = 0;
    for (size_t i = 0; i < BUFFER / sizeof(uint64_t); i += 8) sum += buffer[thread][i];
    sink = sum;
    (void)sink;
}

static void throw_ball(int from, int to) {
    for (int i = 0; i < TURNS; i++) {
        while (atomic_load_explicit(&ball, memory_order_acquire) != from) {}
        atomic_store_explicit(&ball, to, memory_order_release);
    }
}

// A thread's part of turn t.
static void work(int thread, int t) {
    if (t % (RUNS + 1) != 0)
        throw_ball(thread, !thread);
    else
        read_buffer(thread);
}

static void *second(void *arg) {
    (void)arg;
    pin(1);
    for (int seen = 0, t; (t = atomic_load(&turn)) >= 0;) {
        if (t == seen) continue;
        seen = t;
        work(1, t);
        atomic_store(&done, t);
    }
    return NULL;
}

static int compare(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

// A turn of both, by the first thread: its time in ns.
static double play(int t) {
    double from = now_ns();
    atomic_store(&turn, t);
    work(0, t);
    while (atomic_load(&done) != t) {}
    return now_ns() - from;
}

int main(int argc, char **argv) {
    double end, one_way[RUNS];
    pthread_t thread;
    if (argc != 2) return fprintf(stderr, "usage: bench_near SECONDS\n"), 2;
    end = now_ns() + strtod(argv[1], NULL) * 1e9;
    for (int i = 0; i < 2; i++) {
        if (!(buffer[i] = malloc(BUFFER))) return fprintf(stderr, "out of memory\n"), 1;
        memset(buffer[i], 1, BUFFER);
    }
    pin(0);
    if (pthread_create(&thread, NULL, second, NULL)) return fprintf(stderr, "no thread\n"), 1;
    for (int t = 0; now_ns() < end;) {
        for (int i = 0; i < RUNS; i++) one_way[i] = play(++t) / (2 * TURNS);
        double gb_s = 2.0 * BUFFER / play(++t);
        qsort(one_way, RUNS, sizeof(*one_way), compare);
        printf("%.0f ns, %.1f GB/s\n", one_way[RUNS / 2], gb_s);
        fflush(stdout);
        struct timespec pause = {0, 300000000};
        nanosleep(&pause, NULL);
    }
    atomic_store(&turn, -1);
    pthread_join(thread, NULL);
    for (int i = 0; i < 2; i++) free(buffer[i]);
    return 0;
}
