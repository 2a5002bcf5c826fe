// SPDX-License-Identifier: MIT
// test_linear --bench [--level L] [--format F] [--in K] [--out N] [--threads T] [--tokens N,...]
// [--hot 1] [--repack 1]:
// GMAC/s and GB/s of the linear kernels, beside ceilings measured in the same process just before.
// As many matrices of N x K as fill READ_BYTES are multiplied one after the other, to one place of
// the output, as the layers of a model are; with --hot one matrix, again and again.
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#include "backend/cpu/kern_data.h"
#include "backend/cpu/linear.h"
#include "kern/kern_levels.h"

int bench_linear(int argc, char **argv);

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

// ---- ceilings ----------------------------------------------------------------------------------

#define MAX_THREADS 64
#define READ_BYTES  ((size_t)256 << 20)

struct share {
    void (*run)(int index, int n, void *user);
    int index, n;
    void *user;
    double seconds;
};

static void *share_main(void *p) {
    struct share *s = p;
    double start = now();
    s->run(s->index, s->n, s->user);
    s->seconds = now() - start;
    return NULL;
}

// Runs f on n threads; returns the seconds of processor time of the slowest: what other programs
// take meanwhile is not counted (but for their share of the memory).
static double on_threads(int n, void (*f)(int, int, void *), void *user) {
    pthread_t id[MAX_THREADS];
    struct share s[MAX_THREADS];
    double slowest = 0;
    for (int i = 0; i < n; i++) {
        s[i] = (struct share){f, i, n, user, 0};
        if (i > 0 && pthread_create(&id[i], NULL, share_main, &s[i]) != 0) abort();
    }
    share_main(&s[0]);
    for (int i = 1; i < n; i++) pthread_join(id[i], NULL);
    for (int i = 0; i < n; i++) slowest = s[i].seconds > slowest ? s[i].seconds : slowest;
    return slowest;
}

typedef uint64_t v8 __attribute__((vector_size(64), aligned(64)));

#if defined(__x86_64__)
__attribute__((target_clones("default", "avx2", "avx512f")))
#endif
static uint64_t
read_all(const uint8_t *p, size_t n) {
    v8 a = {0}, b = {0}, c = {0}, d = {0};
    for (size_t i = 0; i < n; i += 256) {
        a ^= *(const v8 *)(p + i);
        b ^= *(const v8 *)(p + i + 64);
        c ^= *(const v8 *)(p + i + 128);
        d ^= *(const v8 *)(p + i + 192);
    }
    a ^= b ^ c ^ d;
    return a[0] ^ a[1] ^ a[2] ^ a[3] ^ a[4] ^ a[5] ^ a[6] ^ a[7];
}

static void read_share(int index, int n, void *user) {
    size_t part = READ_BYTES / (size_t)n / 256 * 256;
    volatile uint64_t sink = read_all((const uint8_t *)user + part * (size_t)index, part);
    (void)sink;
}

#define LOOPS 2000000
#if defined(__x86_64__)
#define OP(op, v, i) op " %%" v "mm16,%%" v "mm17,%%" v "mm" #i "\n"
#define OPS(op, v)                                                                                 \
    OP(op, v, 0)                                                                                   \
    OP(op, v, 1)                                                                                   \
    OP(op, v, 2)                                                                                   \
    OP(op, v, 3)                                                                                   \
    OP(op, v, 4)                                                                                   \
    OP(op, v, 5) OP(op, v, 6) OP(op, v, 7) OP(op, v, 8) OP(op, v, 9) OP(op, v, 10) OP(op, v, 11)
#define PEAK(name, op)                                                                             \
    static void name(int index, int n, void *user) {                                               \
        long loops = LOOPS;                                                                        \
        (void)index, (void)n, (void)user;                                                          \
        __asm__ volatile("1:\n" OPS(op, "z") "dec %0\njnz 1b\nvzeroupper\n"                        \
                         : "+r"(loops)::"cc", "xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5",      \
                           "xmm6", "xmm7", "xmm8", "xmm9", "xmm10", "xmm11");                      \
    }
PEAK(peak_int8, "vpdpbusd")
PEAK(peak_bf16, "vdpbf16ps")
PEAK(peak_f32, "vfmadd231ps")
#endif

struct ceilings {
    double read, int8, bf16, f32; // GB/s, GMAC/s; 0: not measured
};

static double best_of(int rounds, int threads, void (*f)(int, int, void *), void *user) {
    double best = 1e9;
    for (int i = 0; i < rounds; i++) {
        double s = on_threads(threads, f, user);
        if (s < best) best = s;
    }
    return best;
}

static struct ceilings measure_ceilings(int threads, uint8_t *memory) {
    struct ceilings c = {0};
    c.read = (double)READ_BYTES / best_of(7, threads, read_share, memory) / 1e9;
#if defined(__x86_64__)
    double work = LOOPS * 12.0 * threads / 1e9;
    if (ht_cpu_level_usable(HT_CPU_AVX512VNNI))
        c.int8 = work * 64 / best_of(5, threads, peak_int8, NULL);
    if (ht_cpu_level_usable(HT_CPU_AVX512BF16))
        c.bf16 = work * 32 / best_of(5, threads, peak_bf16, NULL);
    if (ht_cpu_level_usable(HT_CPU_AVX512)) c.f32 = work * 16 / best_of(5, threads, peak_f32, NULL);
#endif
    return c;
}

// ---- the kernels -------------------------------------------------------------------------------

struct bench {
    struct ht_linear_job job; // of the first matrix
    const struct ht_linear_kernels *k;
    uint8_t *scratch[MAX_THREADS];
    size_t n_matrices, matrix_bytes;
    int repeat;
};

static void linear_share(int index, int n_threads, void *user) {
    struct bench *b = user;
    uint32_t groups = (b->job.n_out + HT_ROW_GROUP - 1) / HT_ROW_GROUP;
    uint32_t begin = groups * (uint32_t)index / (uint32_t)n_threads * HT_ROW_GROUP;
    uint32_t end = groups * (uint32_t)(index + 1) / (uint32_t)n_threads * HT_ROW_GROUP;
    if (end > b->job.n_out) end = b->job.n_out;
    size_t row_bytes = b->matrix_bytes / b->job.n_out, n = b->n_matrices * (size_t)b->repeat;
    struct ht_linear_asked asked = {0};
    struct ht_linear_job job = b->job;
    job.asked = &asked;
    for (size_t i = 0; i < n; i++) {
        const uint8_t *then = b->job.weight + (i + 1) % b->n_matrices * b->matrix_bytes;
        job.then = (struct ht_linear_next){then + begin * row_bytes, row_bytes};
        ht_linear_rows(b->k, &job, begin, end, b->scratch[index]);
        job.weight = then;
    }
}

// The share of int8, bf16 or f32 peak that the format's scales leave (design: performance.md).
static double ceiling_of(enum ht_format f, const struct ceilings *c) {
    const struct ht_codes *codes = ht_format_get((uint32_t)f)->codes;
    if (f == HT_BF16) return c->bf16;
    if (!codes) return c->f32;
    return c->int8 * 8 /
           (8 + (codes->group == 16 ? 3 : 2) + (codes->has_min ? (codes->group == 16 ? 2 : 1) : 0));
}

struct options {
    const char *level, *format;
    uint32_t n_in, n_out, tokens[16], n_tokens;
    int threads;
    bool hot;    // small matrices stay in the cache instead of coming out of memory
    bool repack; // of a level that repacks the format
};

static void bench_one(const struct options *o, int level, enum ht_format f, uint32_t n_tokens,
                      uint8_t *memory, const struct ceilings *c) {
    struct bench b = {.k = kern_level_get(level), .repeat = 1};
    uint64_t row_bytes;
    if (!ht_format_row_bytes(f, o->n_in, &row_bytes)) return;
    const uint32_t n_out = o->n_out;
    b.matrix_bytes = (size_t)row_bytes * n_out;
    if (b.matrix_bytes > READ_BYTES) {
        printf("%s: a matrix of %u x %u does not fit %zu MB\n", ht_format_get((uint32_t)f)->name,
               n_out, o->n_in, READ_BYTES >> 20);
        return;
    }
    b.n_matrices = o->hot ? 1 : READ_BYTES / b.matrix_bytes;
    if (o->repack && !ht_linear_can_repack(b.k, f, o->n_in, n_out)) return;
    uint8_t *repacked = memory + READ_BYTES; // of the second half of the memory
    if (o->repack) ht_linear_repack(b.k, f, o->n_in, memory, 0, b.n_matrices * n_out, repacked);
    size_t act = ht_act_row_bytes(ht_linear_act_kind(f), o->n_in);
    uint32_t n_act_rows = n_tokens + 3;
    uint8_t *acts = aligned_alloc(64, act * n_act_rows);
    memset(acts, 0, act * n_act_rows);
    float *x = malloc(o->n_in * sizeof *x), *y = malloc((size_t)n_out * n_tokens * sizeof *y);
    uint64_t seed = 7;
    for (uint32_t t = 0; t < n_tokens; t++) {
        kern_floats(x, o->n_in, &seed);
        ht_act_prepare(b.k, ht_linear_act_kind(f), x, o->n_in, acts + t * act);
    }
    b.job = (struct ht_linear_job){.format = f,
                                   .repacked = o->repack,
                                   .weight = o->repack ? repacked : memory,
                                   .n_in = o->n_in,
                                   .n_out = n_out,
                                   .act = acts,
                                   .n_tokens = n_tokens,
                                   .n_act_rows = n_act_rows,
                                   .y = y,
                                   .y_stride = n_out};
    for (int i = 0; i < o->threads; i++)
        b.scratch[i] =
            aligned_alloc(4096, (ht_linear_scratch_bytes(o->n_in, n_tokens) + 8191) / 4096 * 4096);
    int rounds = 3;
    double best = on_threads(o->threads, linear_share, &b);
    if (best < 0.005) b.repeat = (int)(0.005 / (best + 1e-6)) + 1;
    best = on_threads(o->threads, linear_share, &b);
    if (best < 0.05) rounds = 11;
    for (int i = 0; i < rounds; i++) {
        double s = on_threads(o->threads, linear_share, &b);
        if (s < best) best = s;
    }
    best /= b.repeat;
    double rows = (double)n_out * (double)b.n_matrices, top = ceiling_of(f, c);
    double macs = rows * o->n_in * n_tokens / best / 1e9,
           bytes = rows * (double)row_bytes / best / 1e9;
    printf("%-12s %-7s %4u x %u  %7.1f GMAC/s", kern_level_name(level),
           ht_format_get((uint32_t)f)->name, n_tokens, o->n_in, macs);
    if (top > 0) printf(" %3.0f%%", 100 * macs / top);
    printf("  %5.1f GB/s %3.0f%%\n", bytes, 100 * bytes / c->read);
    fflush(stdout);
    for (int i = 0; i < o->threads; i++) free(b.scratch[i]);
    free(acts), free(x), free(y);
}

static void options_read(struct options *o, int argc, char **argv) {
    for (int i = 0; i + 1 < argc; i += 2) {
        char *v = argv[i + 1];
        if (strcmp(argv[i], "--level") == 0) o->level = v;
        if (strcmp(argv[i], "--format") == 0) o->format = v;
        if (strcmp(argv[i], "--in") == 0) o->n_in = (uint32_t)atoi(v);
        if (strcmp(argv[i], "--out") == 0) o->n_out = (uint32_t)atoi(v);
        if (strcmp(argv[i], "--hot") == 0) o->hot = atoi(v) != 0;
        if (strcmp(argv[i], "--repack") == 0) o->repack = atoi(v) != 0;
        if (strcmp(argv[i], "--threads") == 0) o->threads = atoi(v);
        if (strcmp(argv[i], "--tokens") != 0) continue;
        o->n_tokens = 0;
        for (char *p = strtok(v, ","); p && o->n_tokens < 16; p = strtok(NULL, ","))
            o->tokens[o->n_tokens++] = (uint32_t)atoi(p);
    }
}

int bench_linear(int argc, char **argv) {
    struct options o = {
        .n_in = 4096, .n_out = 4096, .tokens = {1, 4, 8, 512}, .n_tokens = 4, .threads = 1};
    options_read(&o, argc, argv);
    if (o.threads < 1 || o.threads > MAX_THREADS || o.n_in == 0 || o.n_out == 0) return 2;
    size_t n_bytes = READ_BYTES * (o.repack ? 2 : 1);
    uint8_t *memory =
        mmap(NULL, n_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) return 1;
    madvise(memory, n_bytes, MADV_HUGEPAGE);
    memset(memory, 1, n_bytes);
    struct ceilings c = measure_ceilings(o.threads, memory);
    printf("%d threads; read %.1f GB/s, int8 %.0f, bf16 %.0f, f32 %.0f GMAC/s\n", o.threads, c.read,
           c.int8, c.bf16, c.f32);
    for (uint32_t f = 0; f < HT_N_FORMATS; f++) {
        const struct ht_format_info *info = ht_format_get(f);
        enum ht_format id = (enum ht_format)f;
        if (!info || !info->to_f32 || (o.format && strcasecmp(o.format, info->name) != 0)) continue;
        uint64_t seed = f + 1; // a stretch of sound weights, repeated
        size_t piece = (size_t)info->block_bytes * 64 * 32;
        kern_weights(id, memory, piece, &seed);
        // No file has exponents so small that scales or products are subnormal, as some of these
        // are, and that costs Intel's processors more than all else.
        for (size_t at = 0; id == HT_MXFP4 && at < piece; at += info->block_bytes)
            if (memory[at] < 100) memory[at] = 118;
        for (size_t at = piece; at + piece <= READ_BYTES; at += piece)
            memcpy(memory + at, memory, piece);
        for (int level = 0; level < KERN_N_LEVELS; level++) {
            if (!kern_level_usable(level)) continue;
            const char *name = kern_level_name(level);
            if (o.level ? strcmp(o.level, name) != 0 : level != (int)ht_cpu_best_level()) continue;
            for (uint32_t i = 0; i < o.n_tokens; i++)
                bench_one(&o, level, id, o.tokens[i], memory, &c);
        }
    }
    munmap(memory, n_bytes);
    return 0;
}
