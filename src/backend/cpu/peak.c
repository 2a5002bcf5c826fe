// SPDX-License-Identifier: MIT
// The measurement of ceilings, and the loops of the level scalar in plain C. Of reading the best of
// a few long rounds counts, of multiplying the median of many short ones, half of which run
// undisturbed unless the machine is busy all the time.
// Runs on the caller's thread and its team; allocates the buffer that is read, and frees it.
#include "backend/cpu/peak.h"

#include <math.h>
#include <string.h>

#include "backend/cpu/ask.h"
#include "backend/cpu/vec_unroll.h"
#include "base/clock.h"
#include "base/mem.h"
#include "base/sort.h"

#define ROUND_NS    500000u
#define MAX_ROUNDS  256        // of multiplying
#define SLICE_BYTES (1u << 18) // of one thread

// ---- scalar

static INLINE int32_t add_int8(int32_t sum, int32_t x, int32_t y) {
    return sum + (int8_t)x * (int8_t)y;
}
static INLINE int32_t add_i16(int32_t sum, int32_t x, int32_t y) {
    return sum + (int16_t)x * (int16_t)y;
}
HT_PEAK_LOOP(int8_scalar, int32_t, 0, int32_t, 3, "r", add_int8)
HT_PEAK_LOOP(i16_scalar, int32_t, 0, int32_t, 3, "r", add_i16)

static void f32_scalar(uint64_t n) {
    float sum[HT_PEAK_SUMS] = {0}, x = 1.0f, y = 1.0f;
    UNROLL
    for (int i = 0; i < HT_PEAK_SUMS; i++) __asm__ volatile("" : "+r"(sum[i]));
    for (; n > 0; n--) {
        __asm__ volatile("" : "+m"(x));
        UNROLL
        for (int i = 0; i < HT_PEAK_SUMS; i++) sum[i] = fmaf(x, y, sum[i]);
    }
    UNROLL
    for (int i = 0; i < HT_PEAK_SUMS; i++) __asm__ volatile("" ::"r"(sum[i]));
}

static void read_scalar(const void *p, size_t n_bytes) {
    const uint64_t *w = p;
    uint64_t sum[4] = {0};
    for (size_t i = 0; i < n_bytes / sizeof *w; i += 4) {
        UNROLL
        for (int j = 0; j < 4; j++) sum[j] ^= w[i + (size_t)j];
    }
    UNROLL
    for (int j = 0; j < 4; j++) __asm__ volatile("" ::"r"(sum[j]));
}

void ht_peak_kernels_init(struct ht_peak_kernels *k, enum ht_cpu_level level) {
    *k = (struct ht_peak_kernels){.int8 = int8_scalar,
                                  .i16 = i16_scalar,
                                  .f32 = f32_scalar,
                                  .int8_macs = HT_PEAK_SUMS,
                                  .i16_macs = HT_PEAK_SUMS,
                                  .f32_macs = HT_PEAK_SUMS,
                                  .read = read_scalar};
    if (level == HT_CPU_SCALAR) return;
#if defined(__x86_64__)
    ht_peak_init_avx2(k);
    if (level == HT_CPU_AVX2VNNI) ht_peak_init_avx2vnni(k);
    if (level == HT_CPU_AVX2 || level == HT_CPU_AVX2VNNI) return;
    ht_peak_init_avx512(k);
    if (level == HT_CPU_AVX512) return;
    ht_peak_init_avx512vnni(k);
    if (level == HT_CPU_AVX512VNNI) return;
    ht_peak_init_avx512bf16(k);
    if (level == HT_CPU_AVX512BF16) return;
    ht_peak_init_amx(k);
#elif defined(__aarch64__)
    ht_peak_init_neon(k);
    if (level == HT_CPU_NEON) return;
    ht_peak_init_neon_dotprod(k);
    if (level == HT_CPU_NEON_DOTPROD) return;
    ht_peak_init_neon_i8mm(k);
#endif
}

// ---- the measurement

// Reads n_bytes; with `pages` it asks for each page ahead, as streams do (ht_page_by_page). Which
// is faster depends on the machine, so both are measured, and the better one is the ceiling.
static void read_bytes(const struct ht_peak_kernels *k, const uint8_t *p, size_t n_bytes,
                       bool pages) {
    while (pages && n_bytes > 0) {
        size_t n = n_bytes < HT_SMALL_PAGE ? n_bytes : HT_SMALL_PAGE; // as `read` takes it
        __builtin_prefetch(p + HT_PAGE_RUN, 0, 2);
        k->read(p, n);
        p += n, n_bytes -= n;
    }
    if (n_bytes > 0) k->read(p, n_bytes);
}

struct job {
    const struct ht_peak_kernels *k;
    bool pages; // read_bytes
    void (*multiply)(uint64_t n);
    uint64_t n; // rounds of a thread, or slices
    uint8_t *buffer;
    uint64_t slice, n_slices; // the first to be read; slices of each thread in all
    uint64_t stride;          // slices from one thread's part to the next
    uint64_t end_ns;          // of filling, where n slices are filled
    uint64_t ns[HT_TEAM_MAX]; // of each thread's round
};

static void run_multiply(void *arg, int thread, int n_threads) {
    struct job *j = arg;
    uint64_t begin = ht_now_ns();
    (void)n_threads;
    j->multiply(j->n);
    j->ns[thread] = ht_now_ns() - begin;
}

// Each thread its own part: memory of its own node. Some machines, virtual ones above all, give
// memory slowly; what is there after the time is what will be read.
static void run_fill(void *arg, int thread, int n_threads) {
    struct job *j = arg;
    uint8_t *own = j->buffer + (uint64_t)thread * j->stride * SLICE_BYTES;
    (void)n_threads;
    uint64_t i = 0;
    while (i < j->n_slices && (i < j->n || ht_now_ns() < j->end_ns))
        memset(own + i++ * SLICE_BYTES, 0x5a, SLICE_BYTES);
    j->ns[thread] = i; // slices
}

static void run_read(void *arg, int thread, int n_threads) {
    const struct job *j = arg;
    (void)n_threads;
    const uint8_t *own = j->buffer + (uint64_t)thread * j->stride * SLICE_BYTES;
    for (uint64_t i = 0; i < j->n; i++)
        read_bytes(j->k, own + (j->slice + i) % j->n_slices * SLICE_BYTES, SLICE_BYTES, j->pages);
}

// A round is a quarter of the buffer: shorter ones may find a neighbour's pause and tell of speeds
// that do not last.
static double best_read(struct ht_team *team, struct job *j, uint64_t budget_ns) {
    double best = 0;
    uint64_t end = ht_now_ns() + budget_ns, now = 0;
    j->n = (j->n_slices + 3) / 4;
    for (int i = 0; i < 2 || now < end; i++) {
        j->pages = i % 2 == 1;
        uint64_t begin = ht_now_ns();
        ht_team_run(team, run_read, j);
        now = ht_now_ns();
        double n_bytes = (double)j->n * SLICE_BYTES * ht_team_size(team);
        double rate = n_bytes / ((double)(now - begin + 1) * 1e-9);
        if (rate > best) best = rate;
        j->slice += j->n;
    }
    return best;
}

// Multiply-adds a second of all threads in one round; *ns: how long the fastest took. Where threads
// take turns on a processor, each by itself would be as fast as if it had it alone: there the whole
// round counts.
static double multiply_rate(struct ht_team *team, struct job *j, uint32_t macs, uint64_t *ns) {
    double sum = 0, each = (double)macs * (double)j->n;
    uint64_t begin = ht_now_ns();
    ht_team_run(team, run_multiply, j);
    uint64_t whole = ht_now_ns() - begin;
    *ns = UINT64_MAX;
    for (int t = 0; t < ht_team_size(team); t++) {
        sum += each / ((double)(j->ns[t] + 1) * 1e-9);
        if (j->ns[t] < *ns) *ns = j->ns[t];
    }
    if (!ht_team_is_crowded(team)) return sum;
    return each * ht_team_size(team) / ((double)(whole + 1) * 1e-9);
}

static int by_rate(const void *a, const void *b) {
    const double *x = a, *y = b;
    return (*x > *y) - (*x < *y);
}

// The median: for a moment, and for a single round, a processor's clock may be a tenth higher than
// it stays.
static double lasting_multiply(struct ht_team *team, void (*multiply)(uint64_t), uint32_t macs,
                               uint64_t budget_ns) {
    struct job j = {.multiply = multiply, .n = 256};
    double rate[MAX_ROUNDS];
    size_t n = 0;
    uint64_t least = budget_ns / MAX_ROUNDS > ROUND_NS ? budget_ns / MAX_ROUNDS : ROUND_NS;
    uint64_t end = ht_now_ns() + budget_ns, ns;
    do {
        rate[n] = multiply_rate(team, &j, macs, &ns);
        if (ns < least)
            j.n *= 2;
        else
            n++;
    } while (n < MAX_ROUNDS && ht_now_ns() < end);
    if (n == 0) return rate[0]; // no time for a long one
    ht_sort(rate, n, sizeof *rate, by_rate);
    return rate[n / 2];
}

// Additions in plain registers, as many at once as a core has places to begin instructions in:
// what two hardware threads of a core share, where vectors out of registers leave room for another.
static void additions(uint64_t n) {
    uint64_t sum[8];
    UNROLL
    for (int i = 0; i < 8; i++) __asm__ volatile("" : "=r"(sum[i]));
    for (; n > 0; n--) {
        UNROLL
        for (int i = 0; i < 8; i++) {
            sum[i] += 3;
            __asm__ volatile("" : "+r"(sum[i]));
        }
    }
}

// All threads execute as much in a round, so the times of all rounds add up, long and short ones.
static double slowest_thread(struct ht_team *team, uint64_t budget_ns) {
    struct job j = {.multiply = additions, .n = 256};
    uint64_t all[HT_TEAM_MAX] = {0}, end = ht_now_ns() + budget_ns, ns;
    int n_threads = ht_team_size(team);
    do {
        multiply_rate(team, &j, 1, &ns);
        for (int t = 0; t < n_threads; t++) all[t] += j.ns[t] + 1;
        if (ns < ROUND_NS) j.n *= 2;
    } while (ht_now_ns() < end);
    uint64_t least = all[0], most = all[0];
    for (int t = 1; t < n_threads; t++) {
        if (all[t] < least) least = all[t];
        if (all[t] > most) most = all[t];
    }
    return (double)least / (double)most;
}

void ht_peak_multiply(struct ht_team *team, enum ht_cpu_level level, uint32_t budget_ms,
                      struct hearth_ceilings *out) {
    uint64_t budget = (uint64_t)budget_ms * 1000000;
    struct ht_peak_kernels k;
    ht_peak_kernels_init(&k, level);
    out->int8_macs_s = lasting_multiply(team, k.int8, k.int8_macs, budget);
    out->i16_macs_s = lasting_multiply(team, k.i16, k.i16_macs, budget);
    out->f32_macs_s = lasting_multiply(team, k.f32, k.f32_macs, budget);
    out->bf16_macs_s = out->f32_macs_s;
    if (k.bf16) out->bf16_macs_s = lasting_multiply(team, k.bf16, k.bf16_macs, budget);
    out->slowest_thread = slowest_thread(team, budget);
}

static uint64_t slices(uint64_t n_bytes, uint64_t n_threads) {
    return n_bytes / n_threads / SLICE_BYTES;
}

enum hearth_status ht_peak_measure(struct ht_team *team, enum ht_cpu_level level,
                                   uint32_t budget_ms, uint64_t min_bytes, uint64_t max_bytes,
                                   struct hearth_ceilings *out, struct hearth_error *err) {
    uint64_t budget = (uint64_t)budget_ms * 1000000, n_threads = (uint64_t)ht_team_size(team);
    struct ht_peak_kernels k;
    ht_peak_kernels_init(&k, level);
    struct job j = {.k = &k, .n = slices(min_bytes, n_threads)};
    j.stride = j.n_slices = slices(max_bytes, n_threads);
    size_t n_bytes = (size_t)(j.stride * n_threads * SLICE_BYTES);
    if (j.n_slices == 0)
        return ht_fail(err, HEARTH_E_ARG, "a buffer of %llu bytes is too small for %d threads",
                       (unsigned long long)max_bytes, ht_team_size(team));
    if (!(j.buffer = ht_pages_alloc(n_bytes)))
        return ht_fail_nomem(err, n_bytes, "measuring how fast memory is read");
    j.end_ns = ht_now_ns() + budget;
    ht_team_run(team, run_fill, &j);
    for (uint64_t t = 0; t < n_threads; t++) // at least one slice each
        if (j.ns[t] < j.n_slices) j.n_slices = j.ns[t] ? j.ns[t] : 1;
    out->read_bytes_s = best_read(team, &j, budget);
    ht_pages_free(j.buffer, n_bytes);
    ht_peak_multiply(team, level, budget_ms, out);
    return HEARTH_OK;
}

struct pass {
    const struct ht_peak_kernels *k;
    const struct ht_peak_part *parts;
    size_t n_parts;
    bool pages; // read_bytes
};

static void run_pass(void *arg, int thread, int n_threads) {
    const struct pass *pass = arg;
    for (size_t i = 0; i < pass->n_parts; i++) {
        const struct ht_peak_part *part = &pass->parts[i];
        uint64_t skip = -(uintptr_t)part->p & 63,
                 n = part->n_bytes > skip ? part->n_bytes - skip : 0;
        size_t begin, end; // in what `read` takes
        ht_team_share(n / 256, 1, thread, n_threads, &begin, &end);
        read_bytes(pass->k, part->p + skip + begin * 256, (end - begin) * 256, pass->pages);
    }
}

double ht_peak_read(struct ht_team *team, enum ht_cpu_level level, const struct ht_peak_part *parts,
                    size_t n_parts, uint32_t budget_ms) {
    struct ht_peak_kernels k;
    ht_peak_kernels_init(&k, level);
    struct pass pass = {&k, parts, n_parts, false};
    uint64_t end = ht_now_ns() + (uint64_t)budget_ms * 1000000, now = 0, n_bytes = 0;
    for (size_t i = 0; i < n_parts; i++) n_bytes += parts[i].n_bytes;
    double best = 0;
    for (int i = 0; i < 4 || now < end; i++) {
        pass.pages = i % 2 == 1;
        uint64_t begin = ht_now_ns();
        ht_team_run(team, run_pass, &pass);
        now = ht_now_ns();
        double rate = (double)n_bytes / ((double)(now - begin + 1) * 1e-9);
        if (rate > best) best = rate;
    }
    return best;
}
