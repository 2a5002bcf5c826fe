// SPDX-License-Identifier: MIT
// The linear kernels: every level that this machine can run against scalar (integer formats and
// f32 bit for bit), scalar against the formula in double precision, both over odd and real shapes,
// with guard pages behind everything that is read or written. With --bench the same program
// measures them (tests/kern/bench_linear.c).
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "backend/cpu/kern_data.h"
#include "backend/cpu/linear.h"
#include "kern/guarded.h"
#include "kern/kern_levels.h"

int bench_linear(int argc, char **argv);

// ---- one case ----------------------------------------------------------------------------------

struct shape {
    enum ht_format format;
    uint32_t n_in, n_out, n_tokens;
    uint32_t split;  // rows of the first share, 0: one share
    uint32_t max_in; // what scratch is for, 0: n_in
    bool scaled, bias, residual, in_place, repacked;
    bool pieces; // as many rows at a time as the first share has (run_pieces)
};

struct data {
    struct guarded weight, x, bias, residual;
    size_t y_stride, weight_align;
    struct ht_linear_asked *asked; // of the job
};

static struct data data_new(const struct shape *s, uint64_t *seed) {
    uint64_t row_bytes;
    struct data d = {0};
    assert_true(ht_format_row_bytes(s->format, s->n_in, &row_bytes));
    d.y_stride = s->n_out + kern_random(seed) % 5;
    // Nothing may be read behind the weights, nor in front of them.
    d.weight_align = kern_random(seed) % 2 ? 1 : GUARDED_FRONT;
    d.weight = guarded_new(row_bytes * s->n_out, d.weight_align);
    kern_weights(s->format, d.weight.data, d.weight.n, seed);
    d.x = guarded_new((size_t)s->n_tokens * s->n_in * 4, 4);
    kern_floats((float *)d.x.data, (size_t)s->n_tokens * s->n_in, seed);
    d.bias = guarded_new(s->n_out * 4, 4);
    kern_floats((float *)d.bias.data, s->n_out, seed);
    d.residual = guarded_new((s->n_tokens - 1) * d.y_stride * 4 + s->n_out * 4, 4);
    kern_floats((float *)d.residual.data, d.residual.n / 4, seed);
    return d;
}

static void data_free(struct data *d) {
    guarded_free(&d->weight);
    guarded_free(&d->x);
    guarded_free(&d->bias);
    guarded_free(&d->residual);
}

static const float canary = -1234.5f, matrix_scale = 0.7f;

// A job as the executor has it: piece by piece, each into memory as wide as it is, and with what is
// read behind it; behind the last piece that is a page which may only be asked for.
static void run_pieces(const struct ht_linear_kernels *k, struct ht_linear_job job, uint32_t n_rows,
                       const uint8_t *guard, void *scratch) {
    struct ht_linear_asked asked = {0};
    const struct ht_linear_job all = job;
    uint64_t row_bytes;
    assert_true(ht_format_row_bytes(job.format, job.n_in, &row_bytes));
    if (!job.asked) job.asked = &asked;
    for (uint32_t row = 0, n; row < job.n_out; row += n) {
        n = n_rows < job.n_out - row ? n_rows : job.n_out - row;
        struct guarded piece = guarded_new((size_t)n * job.n_tokens * 4, 4);
        job.y = (float *)piece.data;
        job.y_first = row;
        job.y_stride = n;
        bool last = row + n == job.n_out;
        job.then.at = last ? guard : job.weight + (row + n) * row_bytes;
        job.then.row_bytes = row_bytes;
        ht_linear_rows(k, &job, row, row + n, scratch);
        for (uint32_t t = 0; t < job.n_tokens; t++)
            memcpy(all.y + t * all.y_stride + row, job.y + t * n, n * 4);
        guarded_free(&piece);
    }
}

// Fills y (as large as residual) by the kernels of a level.
static void compute(int level, const struct shape *s, const struct data *d, float *y) {
    const struct ht_linear_kernels *k = kern_level_get(level);
    enum ht_act_kind kind = ht_linear_act_kind(s->format);
    size_t row = ht_act_row_bytes(kind, s->n_in), n_y = d->residual.n / 4;
    size_t n_scratch = ht_linear_scratch_bytes(s->max_in ? s->max_in : s->n_in, s->n_tokens);
    // Rows behind the tokens' may be read where the job says so; what they hold must not matter.
    uint32_t n_act_rows = s->n_tokens + (s->n_out + s->n_tokens) % 6;
    struct guarded act = guarded_new(row * n_act_rows, 64), scratch = guarded_new(n_scratch, 64);
    struct guarded out = guarded_new(n_y * 4, 4);
    float *o = (float *)out.data;
    // In two shares, the last one first.
    struct guarded other = guarded_new(d->weight.n, d->weight_align);
    uint32_t half = s->n_out / 2 / HT_ROW_GROUP * HT_ROW_GROUP;
    if (s->repacked) {
        ht_linear_repack(k, s->format, s->n_in, d->weight.data, half, s->n_out, other.data);
        ht_linear_repack(k, s->format, s->n_in, d->weight.data, 0, half, other.data);
    }
    assert_int_equal(row % 64, 0);
    memset(act.data, 0xff, row * n_act_rows);
    for (uint32_t t = 0; t < s->n_tokens; t++)
        ht_act_prepare(k, kind, (float *)d->x.data + (size_t)t * s->n_in, s->n_in,
                       act.data + t * row);
    for (size_t i = 0; i < n_y; i++) o[i] = canary;
    if (s->in_place) memcpy(o, d->residual.data, n_y * 4);
    struct ht_linear_job job = {
        .format = s->format,
        .repacked = s->repacked,
        .weight = s->repacked ? other.data : d->weight.data,
        .n_in = s->n_in,
        .n_out = s->n_out,
        .act = act.data,
        .n_tokens = s->n_tokens,
        .n_act_rows = n_act_rows,
        .y = o,
        .y_stride = d->y_stride,
        .scale = s->scaled ? &matrix_scale : NULL,
        .bias = s->bias ? (float *)d->bias.data : NULL,
        .residual = s->in_place   ? o
                    : s->residual ? (float *)d->residual.data
                                  : NULL,
        .residual_stride = d->y_stride,
        .asked = d->asked,
    };
    if (s->pieces && level != HT_CPU_SCALAR) { // compared with whole rows
        run_pieces(k, job, s->split ? s->split : s->n_out, d->weight.base, scratch.data);
    } else if (s->split) {
        ht_linear_rows(k, &job, s->split, s->n_out, scratch.data);
        ht_linear_rows(k, &job, 0, s->split, scratch.data);
    } else {
        ht_linear_rows(k, &job, 0, s->n_out, scratch.data);
    }
    if (!s->in_place)
        for (size_t i = 0; i < n_y; i++)
            if (i % d->y_stride >= s->n_out) assert_true(o[i] == canary);
    memcpy(y, o, n_y * 4);
    guarded_free(&act);
    guarded_free(&scratch);
    guarded_free(&out);
    guarded_free(&other);
}

static const char *shape_text(const struct shape *s, int level) {
    static char text[200];
    snprintf(text, sizeof text, "%s, %s, %u x %u, %u tokens, split at %u%s%s%s%s%s%s",
             kern_level_name(level), ht_format_get(s->format)->name, s->n_out, s->n_in, s->n_tokens,
             s->split, s->scaled ? ", scaled" : "", s->bias ? ", bias" : "",
             s->residual ? ", residual" : "", s->in_place ? ", in place" : "",
             s->repacked ? ", repacked" : "", s->pieces ? ", in pieces" : "");
    return text;
}

// All numbers of y are those of want bit for bit, or neither is a number.
static void expect_same(const struct shape *s, int level, const struct data *d, const float *y,
                        const float *want) {
    for (size_t i = 0; i < d->residual.n / 4; i++)
        if (memcmp(y + i, want + i, 4) != 0 && !(isnan(y[i]) && isnan(want[i])))
            fail_msg("%s: token %zu row %zu is %a, should be %a", shape_text(s, level),
                     i / d->y_stride, i % d->y_stride, y[i], want[i]);
}

// The same of the weights in the level's other order, if it has one for them; returns whether.
static bool expect_same_repacked(const struct shape *s, int level, const struct data *d, float *y,
                                 const float *want) {
    struct shape other = *s;
    if (!ht_linear_can_repack(kern_level_get(level), s->format, s->n_in, s->n_out)) return false;
    other.repacked = true;
    compute(level, &other, d, y);
    expect_same(&other, level, d, y, want);
    return true;
}

// Whether a level has scalar's bits. The bf16 instructions add pairs in their own way.
static bool exact_at(int level, enum ht_format f) {
    return f != HT_BF16 || kern_level_get(level)->bf16_bytes == 4;
}

// All levels that have scalar's bits have those of want, be the weights repacked or not.
static void expect_exact(const struct shape *s, const struct data *d, float *y, const float *want) {
    for (int level = 1; level < KERN_N_LEVELS; level++) {
        if (!kern_level_usable(level) || !exact_at(level, s->format)) continue;
        compute(level, s, d, y);
        expect_same(s, level, d, y, want);
        expect_same_repacked(s, level, d, y, want);
    }
}

// ---- the formula in double precision -----------------------------------------------------------

// The step of a block by linear.h's definition, its error in double. Where two steps are as good to
// many digits a kernel may choose either; *tie says so. most: the largest.
static float block_top(float most, const float *x, uint32_t n, float amax, bool *tie) {
    double best = INFINITY, second = INFINITY;
    float top = most;
    for (float t = most; t >= most - 2; t--) {
        double sum = 0;
        for (uint32_t i = 0; i < n; i++) {
            double e = x[i] * (t / amax) - rintf(x[i] * (t / amax));
            sum += e * e / (t * t);
        }
        if (sum < best) {
            second = best;
            best = sum;
            top = t;
        } else if (sum < second) {
            second = sum;
        }
    }
    if (second - best < 1e-5 * best) *tie = true;
    return top;
}

// What the format's activations are, by linear.h's definition, as double; false if a block's step
// is a tie.
static bool activation(enum ht_format f, const float *x, uint32_t n, double *a) {
    const float most = ht_linear_act_kind(f) >= HT_ACT_ROW_Q8_120 ? 120 : 127;
    bool tie = false;
    for (uint32_t k = 0; k < n; k += 32) {
        uint32_t end = k + 32 < n ? k + 32 : n;
        float amax = 0;
        for (uint32_t i = k; i < end; i++) amax = fmaxf(amax, fabsf(x[i]));
        const enum ht_act_kind kind = ht_linear_act_kind(f);
        const bool steps = kind != HT_ACT_ROW_F32 && kind != HT_ACT_ROW_BF16 && amax > 0;
        float top = steps ? block_top(most, x + k, end - k, amax, &tie) : most;
        for (uint32_t i = k; i < end; i++) {
            switch (kind) {
            case HT_ACT_ROW_F32: a[i] = x[i]; break;
            case HT_ACT_ROW_BF16: a[i] = ht_bf16_to_f32(ht_f32_to_bf16(x[i])); break;
            default:
                a[i] = amax > 0 ? rint((double)(x[i] * (top / amax))) * (double)(amax / top) : 0;
                break;
            }
        }
    }
    return !tie;
}

// Largest error of y against the formula, relative to the sum of magnitudes.
static double error_of(const struct shape *s, const struct data *d, const float *y) {
    const struct ht_format_info *info = ht_format_get(s->format);
    uint64_t row_bytes;
    static float w[8192];
    static double a[8192];
    double worst = 0;
    assert_true(s->n_in <= 8192 && ht_format_row_bytes(s->format, s->n_in, &row_bytes));
    for (uint32_t t = 0; t < s->n_tokens; t++) {
        if (!activation(s->format, (float *)d->x.data + (size_t)t * s->n_in, s->n_in, a)) continue;
        for (uint32_t o = 0; o < s->n_out; o++) {
            info->to_f32(d->weight.data + o * row_bytes, w, s->n_in / info->block_len);
            double sum = 0, size = 1e-30;
            for (uint32_t k = 0; k < s->n_in; k++) {
                sum += w[k] * a[k];
                size += fabs(w[k] * a[k]);
            }
            if (s->scaled) sum *= (double)matrix_scale;
            if (s->bias) sum += ((float *)d->bias.data)[o];
            if (s->residual || s->in_place) sum += ((float *)d->residual.data)[t * d->y_stride + o];
            if (s->bias || s->residual || s->in_place) size += fabs(sum) + 10;
            double e = fabs(y[t * d->y_stride + o] - sum) / size;
            if (!(e <= worst)) worst = e;
        }
    }
    return worst;
}

// ---- tests -------------------------------------------------------------------------------------

static uint32_t pick(uint64_t *seed, uint32_t n) {
    return kern_random(seed) % n;
}

static struct shape random_shape(enum ht_format f, uint64_t *seed) {
    uint32_t block = ht_format_get(f)->block_len;
    struct shape s = {.format = f};
    uint32_t kind = pick(seed, 8);
    s.n_in = block * (1 + pick(seed, block >= 32 ? 768 / block : 300));
    s.n_out = 1 + pick(seed, 66);
    s.n_tokens = kind == 0 ? 64 : 1 + pick(seed, 13);
    if (s.n_out > 32 && pick(seed, 2)) s.split = 32;
    if (s.n_out > 64 && pick(seed, 2)) s.split = 64;
    s.scaled = pick(seed, 3) == 0;
    s.bias = pick(seed, 2);
    s.residual = pick(seed, 2);
    s.in_place = s.residual && pick(seed, 2);
    s.pieces = pick(seed, 2);
    return s;
}

static void check(const struct shape *s, uint64_t *seed, bool against_double) {
    struct data d = data_new(s, seed);
    size_t n_y = d.residual.n / 4;
    struct guarded want = guarded_new(n_y * 4, 4), got = guarded_new(n_y * 4, 4);
    compute(HT_CPU_SCALAR, s, &d, (float *)want.data);
    if (against_double) {
        double e = error_of(s, &d, (float *)want.data);
        if (!(e < 2e-6)) fail_msg("%s: error %g", shape_text(s, HT_CPU_SCALAR), e);
    }
    expect_exact(s, &d, (float *)got.data, (float *)want.data);
    for (int level = 1; level < KERN_N_LEVELS; level++) {
        if (!kern_level_usable(level) || exact_at(level, s->format)) continue;
        compute(level, s, &d, (float *)got.data);
        double e = error_of(s, &d, (float *)got.data);
        if (!(e < 2e-6)) fail_msg("%s: error %g", shape_text(s, level), e);
    }
    guarded_free(&want);
    guarded_free(&got);
    data_free(&d);
}

static bool has_kernel(uint32_t f) {
    return ht_format_get(f) && ht_format_get(f)->to_f32;
}

// Where a format's block has its scales, which must stay numbers.
static const struct {
    enum ht_format format;
    uint32_t from, end;
} kept[] = {{HT_Q4_0, 0, 2},    {HT_Q4_1, 0, 4},     {HT_Q5_0, 0, 2},     {HT_Q5_1, 0, 4},
            {HT_Q8_0, 0, 2},    {HT_Q2_K, 80, 84},   {HT_Q3_K, 108, 110}, {HT_Q4_K, 0, 4},
            {HT_Q5_K, 0, 4},    {HT_Q6_K, 208, 210}, {HT_IQ4_NL, 0, 2},   {HT_IQ4_XS, 0, 2},
            {HT_MXFP4, 0, 1},   {HT_TQ2_0, 64, 66},  {HT_TQ1_0, 52, 54},  {HT_IQ3_S, 0, 2},
            {HT_IQ2_XXS, 0, 2}, {HT_IQ2_XS, 0, 2},   {HT_IQ2_S, 0, 2},    {HT_IQ3_XXS, 0, 2},
            {HT_IQ1_S, 0, 2},   {HT_IQ1_M, 48, 56},  {HT_Q1_0, 0, 2},     {HT_Q2_0, 0, 2},
            {HT_NVFP4, 0, 4}};

// The bits of a block's byte k that are signs of their own, apart from a grid's index.
static uint8_t sign_bits(enum ht_format f, size_t k) {
    switch (f) {
    case HT_IQ2_XXS: return k < 2 || (k - 2) % 8 < 4 ? 0 : (k - 2) % 8 == 7 ? 0x0f : 0xff;
    case HT_IQ2_XS: return k >= 2 && k < 66 && k % 2 == 1 ? 0xfe : 0;
    case HT_IQ2_S: return k >= 34 && k < 66 ? 0xff : 0;
    case HT_IQ3_XXS: return k < 66 ? 0 : (k - 66) % 4 == 3 ? 0x0f : 0xff;
    case HT_IQ3_S: return k >= 74 && k < 106 ? 0xff : 0;
    default: return 0;
    }
}
static bool has_sign_bits(enum ht_format f) {
    return sign_bits(f, 65) || sign_bits(f, 80);
}

// The largest and the least codes in every place, of fields of bits and of signed bytes (of grids,
// the first and the last entry, that with all signs and with none), times the largest activations
// of one sign, or of opposite ones by halves or by eights: no level may lose a bit of a sum of 16.
// Two chunks of K and, where blocks are short, an odd one behind them.
static void largest_codes(void **state) {
    (void)state;
    // Of one row and the next.
    static const uint8_t fills[3][2] = {{0, 0xff}, {0x80, 0x7f}, {0, 0xff}};
    uint64_t seed = 9;
    // Streams and panels of every level, AMX's from 48 on; then single tokens of other signs.
    static const uint32_t n_tokens[] = {1, 2, 3, 9, 49, 1, 1, 1, 1, 1, 1, 1};
    enum { N_CASES = sizeof n_tokens / sizeof *n_tokens };
    static float want[49 * 40], got[49 * 40];
    for (size_t i = 0; i < 3 * N_CASES * (sizeof kept / sizeof *kept); i++) {
        const size_t f = i / N_CASES / 3, how = i / N_CASES % 3, n = i % N_CASES;
        const uint8_t *fill = fills[how];
        const struct ht_format_info *info = ht_format_get(kept[f].format);
        if (how == 2 && !has_sign_bits(kept[f].format)) continue;
        const uint32_t block = info->block_bytes;
        struct shape s = {.format = kept[f].format, .n_in = 1024, .n_out = 32};
        if (info->block_len <= 64) s.n_in += info->block_len;
        s.n_tokens = n_tokens[n];
        struct data d = data_new(&s, &seed);
        for (size_t k = 0; k < d.weight.n; k++) {
            if (k % block >= kept[f].from && k % block < kept[f].end) continue;
            d.weight.data[k] = fill[k / (d.weight.n / s.n_out) % 2];
            if (how == 2) d.weight.data[k] &= (uint8_t)~sign_bits(kept[f].format, k % block);
        }
        for (size_t k = 0; k < (size_t)s.n_tokens * s.n_in; k++) { // halves and eights alike or not
            size_t t = k / s.n_in + (n > 4 ? n - 4 : 0);
            size_t turned = k % 32 / 16 * (t / 2 % 2) + k % 16 / 8 * (t / 4 % 2);
            ((float *)d.x.data)[k] = (t + turned) % 2 ? -1.0f : 1.0f;
        }
        compute(HT_CPU_SCALAR, &s, &d, want);
        expect_exact(&s, &d, got, want);
        data_free(&d);
    }
}

static void odd_shapes(void **state) {
    (void)state;
    uint64_t seed = 1;
    for (uint32_t f = 0; f < HT_N_FORMATS; f++)
        for (int round = 0; has_kernel(f) && round < 40; round++) {
            struct shape s = random_shape((enum ht_format)f, &seed);
            check(&s, &seed, true);
        }
}

// Weights in the other order give the bits of scalar with the file's.
static void repacked(void **state) {
    (void)state;
    uint64_t seed = 5;
    static float want[64 * 100], got[64 * 100];
    int n_checked = 0;
    for (uint32_t f = 0; f < HT_N_FORMATS; f++) {
        if (!has_kernel(f)) continue;
        for (int round = 0; round < 60; round++) {
            struct shape s = random_shape((enum ht_format)f, &seed);
            s.n_in = (s.n_in + 31) / 32 * 32;
            if (round == 0) s.n_in = 3072, s.n_tokens = 1;
            s.n_out = 32 * (1 + pick(&seed, 3));
            s.split = s.n_out > 32 && pick(&seed, 2) ? 32 : 0;
            s.n_tokens = round % 30 ? 1 + (uint32_t)round % 30 : s.n_tokens;
            struct data d = data_new(&s, &seed);
            bool scalars = false; // want is scalar's
            for (int level = 0; level < KERN_N_LEVELS; level++) {
                const struct ht_linear_kernels *k = kern_level_get(level);
                if (!kern_level_usable(level) ||
                    !ht_linear_can_repack(k, s.format, s.n_in, s.n_out))
                    continue;
                bool exact = exact_at(level, s.format);
                if (!exact || !scalars) compute(exact ? HT_CPU_SCALAR : level, &s, &d, want);
                scalars = exact;
                n_checked += expect_same_repacked(&s, level, &d, got, want);
            }
            data_free(&d);
        }
    }
    if (n_checked == 0) skip();
}

// Which matrices are: those of whole groups of rows and whole blocks, of formats with kernels.
static void can_repack(void **state) {
    (void)state;
    assert_false(ht_linear_can_repack(ht_linear_kernels_get(HT_CPU_SCALAR), HT_Q8_0, 64, 64));
#if defined(__x86_64__)
    // docs/repacked.md
    static const enum ht_cpu_level levels[] = {HT_CPU_AVX2, HT_CPU_AVX2VNNI, HT_CPU_AVX512VNNI,
                                               HT_CPU_AVX512BF16, HT_CPU_AMX};
    static const struct {
        enum ht_format format;
        enum ht_cpu_level from;
    } formats[] = {{HT_Q8_0, HT_CPU_AVX2},         {HT_Q4_0, HT_CPU_AVX2},
                   {HT_Q4_K, HT_CPU_AVX2},         {HT_Q5_K, HT_CPU_AVX2},
                   {HT_Q6_K, HT_CPU_AVX2},         {HT_F16, HT_CPU_AVX2},
                   {HT_BF16, HT_CPU_AVX2},         {HT_Q2_K, HT_CPU_AVX512VNNI},
                   {HT_Q3_K, HT_CPU_AVX512VNNI},   {HT_Q5_0, HT_CPU_AVX512VNNI},
                   {HT_IQ4_NL, HT_CPU_AVX512BF16}, {HT_IQ4_XS, HT_CPU_AVX512BF16},
                   {HT_MXFP4, HT_CPU_AVX512BF16},  {HT_Q4_1, HT_CPU_N_LEVELS},
                   {HT_F32, HT_CPU_N_LEVELS},      {HT_IQ3_S, HT_CPU_N_LEVELS}};
    for (size_t l = 0; l < sizeof levels / sizeof *levels; l++)
        for (size_t f = 0; f < sizeof formats / sizeof *formats; f++) {
            enum ht_cpu_level from = formats[f].from;
            if (from == HT_CPU_AVX512BF16 && ht_cpu_vbmi()) from = HT_CPU_AVX512VNNI;
            bool want =
                levels[l] >= from && !(levels[l] == HT_CPU_AMX && formats[f].format == HT_BF16);
            if (ht_linear_can_repack(ht_linear_kernels_get(levels[l]), formats[f].format, 512,
                                     64) != want)
                fail_msg("%s at %s", ht_format_get(formats[f].format)->name,
                         ht_cpu_level_name(levels[l]));
        }
    const struct ht_linear_kernels *k = ht_linear_kernels_get(HT_CPU_AVX512VNNI);
    assert_true(ht_linear_can_repack(k, HT_Q8_0, 96, 64));
    assert_false(ht_linear_can_repack(k, HT_Q8_0, 96, 70));
    assert_false(ht_linear_can_repack(k, HT_Q4_K, 96, 64));
    assert_false(ht_linear_can_repack(k, HT_F16, 70, 64));
    assert_false(ht_linear_can_repack(k, HT_F32, 64, 64));
    assert_false(ht_linear_can_repack(k, HT_IQ2_XXS, 256, 64));
    assert_false(ht_linear_can_repack(k, HT_NVFP4, 256, 64));
    assert_true(ht_linear_can_repack(k, HT_Q5_0, 96, 64));
    assert_int_equal(ht_linear_can_repack(k, HT_MXFP4, 96, 64), ht_cpu_vbmi());
    assert_true(ht_linear_can_repack(k, HT_Q2_K, 256, 64));
    assert_false(ht_linear_can_repack(k, HT_IQ3_S, 256, 64));
#endif
}

static void real_shapes(void **state) {
    (void)state;
    uint64_t seed = 2;
    for (uint32_t f = 0; f < HT_N_FORMATS; f++) {
        if (!has_kernel(f)) continue;
        struct shape s = {.format = (enum ht_format)f, .n_in = 3072, .n_out = 96, .n_tokens = 7};
        check(&s, &seed, false);
        s = (struct shape){.format = (enum ht_format)f, .n_in = 1024, .n_out = 256, .n_tokens = 1};
        check(&s, &seed, false);
    }
}

// What the driver does for large matrices and batches alone: more tokens than go together, K in
// several parts of a stream, sums that are added up before the end, every number of tokens to 16.
static void large(void **state) {
    (void)state;
    static const enum ht_format formats[] = {HT_Q8_0, HT_Q4_0, HT_Q4_K, HT_Q6_K, HT_F16};
    static const struct {
        uint32_t n_in, n_out, n_tokens;
    } cases[] = {{256, 70, 257}, {256, 96, 300}, {4608, 40, 12}, {4608, 64, 16}, {9216, 33, 8},
                 {9216, 64, 8},  {512, 352, 8},  {512, 352, 14}, {512, 352, 15}, {512, 352, 16},
                 {256, 2144, 1}, {512, 66, 265}}; // one row to spare
    uint64_t seed = 12;
    for (size_t f = 0; f < sizeof formats / sizeof *formats; f++)
        for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
            struct shape s = {.format = formats[f],
                              .n_in = cases[i].n_in,
                              .n_out = cases[i].n_out,
                              .n_tokens = cases[i].n_tokens,
                              .scaled = i % 5 == 2,
                              .bias = i % 2,
                              .residual = i % 3 == 0};
            check(&s, &seed, s.n_tokens > 256); // levels share what goes through blocks of tokens
        }
    // Rows that are longer than what stands in another order at a time (HT_IN_ORDER).
    static const enum ht_format in_order[] = {HT_Q1_0,   HT_Q2_0,  HT_IQ1_S,   HT_IQ1_M, HT_IQ2_XXS,
                                              HT_IQ2_XS, HT_IQ2_S, HT_IQ3_XXS, HT_IQ3_S};
    for (int i = 0; i < 27; i++) {
        struct shape s = {.format = in_order[i / 3], .n_out = 40, .n_tokens = 1};
        s.n_in = i % 3 == 1 ? HT_IN_ORDER : 2 * HT_IN_ORDER + 256;
        if (i % 3 == 2) s.n_tokens = i < 6 ? 3 : 2; // in passes, where there are some
        check(&s, &seed, false);
    }
    // Many long rows of floats that are not whole vectors; nothing behind the last is read.
    static const enum ht_format floats[] = {HT_F32, HT_F16, HT_BF16};
    for (size_t f = 0; f < 3; f++) {
        struct shape s = {.format = floats[f], .n_in = 1001, .n_out = 64, .n_tokens = 256};
        check(&s, &seed, false);
    }
}

// Scratch for longer rows does for shorter ones.
static void scratch_sizes(void **state) {
    (void)state;
    for (uint32_t n = 1; n <= HT_LINEAR_TOKENS; n++) {
        size_t before = 0;
        for (uint32_t max_in = 1; max_in < 6000; max_in++) {
            size_t bytes = ht_linear_scratch_bytes(max_in, n);
            if (bytes < before)
                fail_msg("%u tokens, rows of %u: less than for %u", n, max_in, max_in - 1);
            before = bytes;
        }
    }
}

// Activations of so many tokens do not stay near, so groups of rows take K chunk by chunk together:
// a band, a smaller one behind it, and rows that are no whole group, or are another piece; the last
// chunk is short.
static void bands(void **state) {
    (void)state;
    static const struct {
        enum ht_format format;
        uint32_t n_in, n_tokens, max_in;
    } cases[] = {{HT_Q8_0, 3104, 130, 0},  {HT_Q4_K, 3328, 130, 0},   {HT_Q6_K, 3328, 130, 0},
                 {HT_F16, 1632, 130, 0},   {HT_BF16, 3104, 130, 0},   {HT_Q4_0, 3104, 130, 0},
                 {HT_MXFP4, 3104, 130, 0}, {HT_IQ4_XS, 3328, 130, 0}, {HT_F32, 1024, 170, 1056},
                 {HT_Q8_0, 3104, 400, 0}}; // and in a second block of 256 tokens
    uint64_t seed = 6;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct shape s = {.format = cases[i].format,
                          .n_in = cases[i].n_in,
                          .n_tokens = cases[i].n_tokens,
                          .max_in = cases[i].max_in};
        s.n_out = 10 * 32 + (i % 2 ? 0 : 5);
        s.bias = s.residual = i % 2 || i > 5;
        s.scaled = i % 3 == 1;
        s.in_place = i % 4 == 1;
        s.pieces = i > 4;
        s.split = i > 4 ? 9 * 32 : 0;
        struct data d = data_new(&s, &seed);
        size_t n_y = d.residual.n / 4;
        struct guarded want = guarded_new(n_y * 4, 4), got = guarded_new(n_y * 4, 4);
        for (int level = 1; level < KERN_N_LEVELS; level++) {
            if (!kern_level_usable(level)) continue;
            struct shape one = s; // a token's bits among few, which need no band
            struct data part = d;
            one.n_tokens = 1;
            one.pieces = false;
            part.residual.n = s.n_out * 4;
            static float few[512];
            // Of BF16 levels have bits of their own.
            const int alone = s.format == HT_BF16 ? level : HT_CPU_SCALAR;
            compute(level, &s, &d, (float *)got.data);
            for (uint32_t t = 0; t < s.n_tokens; t += 13) {
                part.x.data = d.x.data + (size_t)t * s.n_in * 4;
                part.residual.data = d.residual.data + t * d.y_stride * 4;
                compute(alone, &one, &part, few);
                if (memcmp(few, got.data + t * d.y_stride * 4, s.n_out * 4))
                    fail_msg("%s: token %u is another alone", shape_text(&s, level), t);
            }
            memcpy(want.data, got.data, n_y * 4);
            if (s.n_out % 32 == 0)
                expect_same_repacked(&s, level, &d, (float *)got.data, (float *)want.data);
        }
        guarded_free(&want);
        guarded_free(&got);
        data_free(&d);
    }
}

// Whether a panel asks for what is read later: two of three groups of rows have one behind them,
// and ask for as many bytes as that has, in lines, less what they ask for twice at the ends of
// runs; others for nothing. Nobody may touch the runs, so it is only asked for.
static void expect_later(const struct shape *s, int level, const struct data *d, float *y,
                         const float *want) {
    enum { RUNS = 50, RUN_BYTES = 20480, LINE = 64, PIECES = 16 };
    const struct ht_linear_kernels *k = kern_level_get(level);
    size_t row_bytes = d->weight.n / s->n_out, least = 0, most = 0;
    const uint8_t *run[RUNS];
    for (int i = 0; i < RUNS; i++) run[i] = d->weight.base;
    struct ht_linear_asked asked = {.later = {run, RUNS, RUN_BYTES, 0}};
    struct data with = *d;
    with.asked = &asked;
    compute(level, s, &with, y);
    expect_same(s, level, d, y, want);
    uint32_t most_streamed =
        (s->repacked ? k->repacked : k->format)[ht_format_row[s->format]].stream_most;
    // Panels ask so where they ask in turn: of floats as the file has them only at levels that ask
    // by address.
    bool panel = s->n_tokens > most_streamed && s->n_tokens <= 64;
    bool floats = s->format == HT_BF16 || s->format == HT_F16;
    bool in_turn = s->repacked || !floats || k->address_tokens > 0;
    if (k->ask_later && in_turn && panel && s->n_tokens * s->n_in >= 22 * row_bytes) {
        most = 2 * HT_ROW_GROUP * row_bytes + PIECES * 2 * LINE;
        least = HT_ROW_GROUP * row_bytes;
    }
    size_t n_runs = (size_t)(asked.later.run - run), got = n_runs * RUN_BYTES + asked.later.done;
    if (asked.later.n != RUNS - n_runs || got < least || got > most)
        fail_msg("%s: asked for %zu bytes of what is read later, not for %zu to %zu",
                 shape_text(s, level), got, least, most);
}

static void later(void **state) {
    (void)state;
    static const enum ht_format formats[] = {HT_Q8_0, HT_Q4_K, HT_Q6_K, HT_BF16, HT_F16};
    static const uint32_t n_tokens[] = {4, 16, 32, 64, 65};
    uint64_t seed = 8;
    for (size_t i = 0; i < sizeof formats / sizeof *formats * 5; i++) {
        struct shape s = {.format = formats[i / 5], .n_tokens = n_tokens[i % 5]};
        s.n_in = 1024;
        s.n_out = 96;
        struct data d = data_new(&s, &seed);
        struct guarded want = guarded_new(d.residual.n, 4), got = guarded_new(d.residual.n, 4);
        for (int level = 0; level < KERN_N_LEVELS; level++) {
            if (!kern_level_usable(level)) continue;
            compute(level, &s, &d, (float *)want.data);
            expect_later(&s, level, &d, (float *)got.data, (float *)want.data);
            struct shape other = s;
            other.repacked = true;
            if (ht_linear_can_repack(kern_level_get(level), s.format, s.n_in, s.n_out))
                expect_later(&other, level, &d, (float *)got.data, (float *)want.data);
        }
        guarded_free(&want);
        guarded_free(&got);
        data_free(&d);
    }
}

// The bits of a token do not depend on its neighbours.
static void one_token_one_answer(void **state) {
    (void)state;
    uint64_t seed = 3;
    for (uint32_t f = 0; f < HT_N_FORMATS; f++) {
        if (!has_kernel(f)) continue;
        struct shape all = {.format = (enum ht_format)f, .n_in = 768, .n_out = 70, .n_tokens = 59};
        struct data d = data_new(&all, &seed);
        static float y[59 * 80];
        for (int level = 0; level < KERN_N_LEVELS; level++) {
            if (!kern_level_usable(level)) continue;
            compute(level, &all, &d, y);
            for (uint32_t n = 1; n <= 16; n += 3) { // n tokens from token t on
                struct shape some = all;
                struct data part = d;
                some.n_tokens = n;
                part.residual.n = (n - 1) * d.y_stride * 4 + all.n_out * 4;
                static float few[16 * 80];
                for (uint32_t t = 0; t + n <= 59; t += 11) {
                    part.x.data = d.x.data + (size_t)t * all.n_in * 4;
                    compute(level, &some, &part, few);
                    for (uint32_t i = 0; i < n; i++)
                        if (memcmp(few + i * d.y_stride, y + (t + i) * d.y_stride, all.n_out * 4))
                            fail_msg("%s: token %u differs among %u", shape_text(&all, level),
                                     t + i, n);
                }
            }
        }
        data_free(&d);
    }
}

// Every remainder that tiles of 4, 5, 6 and 12 tokens leave, and those of 16 (AMX) from 48 on: a
// token has its bits there, too, with the bias and the residual added.
static void token_counts(void **state) {
    (void)state;
    enum { MOST = 250, ROWS = 64 };
    static const uint32_t last[] = {49, 63, MOST};
    static float scalars[MOST * (ROWS + 4)], own[MOST * (ROWS + 4)], got[MOST * (ROWS + 4)];
    uint64_t seed = 10;
    for (uint32_t f = 0; f < HT_N_FORMATS; f++) {
        if (!has_kernel(f)) continue;
        struct shape all = {.format = (enum ht_format)f, .n_out = ROWS, .n_tokens = MOST};
        all.n_in = ht_format_get(f)->block_len > 32 ? 256 : 288;
        all.bias = all.residual = true;
        all.in_place = f % 2;
        struct data d = data_new(&all, &seed);
        compute(HT_CPU_SCALAR, &all, &d, scalars);
        for (int level = 1; level < KERN_N_LEVELS; level++) {
            if (!kern_level_usable(level)) continue;
            const float *want = exact_at(level, all.format) ? scalars : own;
            if (want == own) compute(level, &all, &d, own);
            for (uint32_t i = 0; i < 10; i++) {
                struct shape some = all;
                struct data part = d;
                some.n_tokens = i < 7 ? 14 + f % 7 + 7 * i : last[i - 7];
                some.pieces = i % 2;
                some.split = 32;
                part.residual.n = (some.n_tokens - 1) * d.y_stride * 4 + ROWS * 4;
                compute(level, &some, &part, got);
                expect_same(&some, level, &part, got, want);
                expect_same_repacked(&some, level, &part, got, want);
            }
        }
        data_free(&d);
    }
}

// n numbers with a strange one in the second block (all zero else), or only further behind, and
// behind 17 or 50 blocks, prepared at every level as a row and, whole blocks, as a column: scalar's
// bytes.
static void compare_prepared(enum ht_act_kind kind, uint32_t n, float strange, bool late) {
    enum { BLOCK = sizeof(struct ht_act_q8), MOST = BLOCK * 72 };
    static uint8_t want[MOST], got[2 * MOST];
    static float x[32 * 72];
    const struct ht_linear_kernels *scalar = ht_linear_kernels_get(HT_CPU_SCALAR);
    size_t n_bytes = (n + 31) / 32 * BLOCK; // a row may have more behind
    assert_true(n_bytes <= ht_act_row_bytes(kind, n) && n_bytes <= sizeof want);
    for (uint32_t i = 0; i < n; i++) x[i] = i / 32 == 1 ? 0 : (float)(i * 7919 % 1009) / 64 - 7;
    if (!late) x[40] = strange;
    const uint32_t other = (n > 50 * 32 ? 50 : 17) * 32;
    if (n > other) x[other] = strange;
    ht_act_prepare(scalar, kind, x, n, want);
    float scale;
    memcpy(&scale, want + BLOCK + 32, 4);
    assert_int_equal(isnan(scale), !late && !isfinite(strange));
    for (int level = 1; level < KERN_N_LEVELS; level++) {
        if (!kern_level_usable(level)) continue;
        memset(got, 0xee, sizeof got);
        ht_act_prepare(kern_level_get(level), kind, x, n, got);
        assert_memory_equal(got, want, n_bytes);
        for (size_t i = n_bytes; i < sizeof got; i++) assert_int_equal(got[i], 0xee);
        for (uint32_t m = 1; m <= 17; m = m == 1 ? 3 : m + 7) { // columns of m blocks
            size_t stride = (m + 1) * BLOCK;
            memset(got, 0xee, sizeof got);
            ht_act_prepare_columns(kern_level_get(level), kind, x, n / 32 / m, m * 32, got, stride);
            for (uint32_t i = 0; i < n / 32 / m; i++) {
                assert_memory_equal(got + i * stride, want + (size_t)i * m * BLOCK, m * BLOCK);
                for (int b = 0; b < BLOCK; b++)
                    assert_int_equal(got[i * stride + m * BLOCK + b], 0xee);
            }
        }
    }
}

// Columns of prepared rows, made apart, are those of whole rows.
static void prepared_columns(void **state) {
    (void)state;
    enum { ROWS = 5, WIDTH = 160, FIRST = 64 };
    static float x[ROWS * WIDTH], part[ROWS * WIDTH];
    static _Alignas(64) uint8_t want[ROWS * WIDTH * 4], got[sizeof want];
    uint64_t seed = 9;
    kern_floats(x, ROWS * WIDTH, &seed);
    for (int i = 0; i < KERN_N_LEVELS * HT_N_ACT_KINDS; i++) {
        enum ht_act_kind kind = (enum ht_act_kind)(i % HT_N_ACT_KINDS);
        if (!kern_level_usable(i / HT_N_ACT_KINDS)) continue;
        const struct ht_linear_kernels *k = kern_level_get(i / HT_N_ACT_KINDS);
        size_t row_bytes = ht_act_row_bytes(kind, WIDTH);
        for (uint32_t r = 0; r < ROWS; r++)
            ht_act_prepare(k, kind, x + r * WIDTH, WIDTH, want + r * row_bytes);
        for (uint32_t at = 0, n = FIRST; at < WIDTH; at += n, n = WIDTH - FIRST) {
            for (uint32_t r = 0; r < ROWS; r++)
                memcpy(part + r * n, x + r * WIDTH + at, n * sizeof *x);
            ht_act_prepare_columns(k, kind, part, ROWS, n, got + ht_act_bytes(k, kind, at),
                                   row_bytes);
        }
        for (uint32_t r = 0; r < ROWS; r++)
            if (memcmp(got + r * row_bytes, want + r * row_bytes, ht_act_bytes(k, kind, WIDTH)))
                fail_msg("%s, kind %d: row %u is another by columns",
                         kern_level_name(i / HT_N_ACT_KINDS), (int)kind, r);
    }
}

// Zeros, subnormals, infinities and NaN in activations: the same bits at every level, and no
// finite-looking answer from a number that is not finite.
static void strange_activations(void **state) {
    (void)state;
    static const float values[] = {0, 1e-38f, -1e-45f, 3e38f, INFINITY, -INFINITY, NAN, 0.5f};
    static const uint32_t sizes[] = {32 * 2,      32 * 6,  32 * 7 + 5, 32 * 16,
                                     32 * 23 + 1, 32 * 40, 32 * 71};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        for (size_t v = 0; v < sizeof values / sizeof *values; v++) {
            for (int kind = HT_ACT_ROW_Q8; kind < HT_N_ACT_KINDS; kind++)
                compare_prepared((enum ht_act_kind)kind, sizes[i], values[v], false);
            compare_prepared(HT_ACT_ROW_Q8, sizes[i], values[v], true);
        }
}

// f32 bits, and what they are as bf16: the nearest, ties to even; a NaN stays one.
static const struct {
    uint32_t f32;
    uint16_t bf16;
} rounded[] = {{0, 0},
               {0x80000000, 0x8000},
               {0x3f807fff, 0x3f80},
               {0x3f808000, 0x3f80}, // half of the last place
               {0x3f808001, 0x3f81},
               {0xbf818000, 0xbf82},
               {0x3fff8000, 0x4000},
               {0x7f7f7fff, 0x7f7f},
               {0x7f7f8000, 0x7f80}, // to infinity
               {0xff7fffff, 0xff80},
               {0x7f800000, 0x7f80},
               {0xff800000, 0xff80},
               {0x7f800001, 0x7fc0}, // a NaN whose upper half alone would be infinity
               {0xffffffff, 0xffff}, // and one that rounding would make zero
               {0x7fc12345, 0x7fc1},
               {0x00000001, 0x0000}, // subnormal
               {0x00018000, 0x0002},
               {0x80008001, 0x8001},
               {0x007fffff, 0x0080}};

// Such activations of floats in every lane: the bits above, zeros to the end of the last 32, and
// nothing behind.
static void strange_floats(void **state) {
    (void)state;
    enum { N = sizeof rounded / sizeof *rounded, MOST = 100 };
    for (int i = 0; i < KERN_N_LEVELS * MOST; i++) {
        const uint32_t n = 1 + (uint32_t)(i % MOST);
        const int level = i / MOST;
        if (!kern_level_usable(level)) continue;
        const struct ht_linear_kernels *k = kern_level_get(level);
        uint32_t f32[MOST + 32] = {0}, upper[MOST + 32] = {0};
        uint16_t bf16[MOST + 32] = {0};
        struct guarded x = guarded_new(n * 4, 4), row = guarded_new((MOST + 31) / 32 * 32 * 4, 64);
        for (uint32_t j = 0; j < n; j++) {
            f32[j] = rounded[(j + n) % N].f32;
            bf16[j] = rounded[(j + n) % N].bf16;
            upper[j] = (uint32_t)bf16[j] << 16;
        }
        memcpy(x.data, f32, n * 4);
        for (enum ht_act_kind kind = HT_ACT_ROW_F32; kind <= HT_ACT_ROW_BF16; kind++) {
            size_t n_bytes = ht_act_bytes(k, kind, (n + 31) / 32 * 32);
            const void *want = kind == HT_ACT_ROW_F32 ? (void *)f32
                               : k->bf16_bytes == 2   ? (void *)bf16
                                                      : (void *)upper;
            memset(row.data, 0xee, row.n);
            ht_act_prepare(k, kind, (float *)x.data, n, row.data);
            if (memcmp(row.data, want, n_bytes) != 0)
                fail_msg("%s: %u floats of kind %d are prepared otherwise", kern_level_name(level),
                         n, (int)kind);
            for (size_t b = n_bytes; b < row.n; b++) assert_int_equal(row.data[b], 0xee);
        }
        guarded_free(&x);
        guarded_free(&row);
    }
}

// The which-th strange scale (or min) of a block: infinite, not a number, huge, subnormal, zero.
#define N_STRANGE 11
static void set_scale(enum ht_format f, uint8_t *block, uint32_t which) {
    static const uint16_t halves[N_STRANGE] = {0x7c00, 0xfc00, 0x7e00, 0x7bff, 0xfbff, 0x0001,
                                               0x8001, 0x03ff, 0x0400, 0x8000, 0x0000};
    static const uint8_t exponents[N_STRANGE] = {0, 1, 2, 230, 231, 232, 233, 234, 253, 254, 255};
    static const uint8_t e4m3[N_STRANGE] = {0x7f, 0xff, 0, 0x80, 1, 7, 8, 0x81, 0x7e, 0xfe, 0x78};
    const int *at = kern_half_offsets(f);
    if (f == HT_MXFP4)
        *block = exponents[which % N_STRANGE];
    else if (f == HT_NVFP4)
        block[which / N_STRANGE % 4] = e4m3[which % N_STRANGE];
    else if (at[0] >= 0)
        kern_put_half(f, block, at[at[1] >= 0 && which / N_STRANGE % 2], halves[which % N_STRANGE]);
}

// Scales that are no usual numbers give at every level what they give in scalar. A row has one of
// them, in all its blocks or in some. As the file has them, with rows that are no whole group, and
// repacked, by streams and by panels.
static void strange_scales(void **state) {
    (void)state;
    static const uint32_t n_tokens[] = {1, 7, 9, 16, 53};
    uint64_t seed = 4;
    static float want[53 * 80], got[53 * 80];
    for (uint32_t i = 0; i < 5 * HT_N_FORMATS; i++) {
        if (!has_kernel(i / 5)) continue;
        struct shape s = {.format = (enum ht_format)(i / 5), .n_in = 768};
        s.n_tokens = n_tokens[i % 5];
        s.n_out = s.n_tokens == 9 ? 70 : 64;
        const struct ht_format_info *info = ht_format_get(s.format);
        struct data d = data_new(&s, &seed);
        const uint32_t n_blocks = s.n_in / info->block_len;
        for (uint32_t r = 0; r < s.n_out; r++)
            for (uint32_t b = 0; b < n_blocks; b += r / (2 * N_STRANGE) % 2 ? 1 : 5)
                set_scale(s.format, d.weight.data + (r * n_blocks + b) * info->block_bytes, r);
        compute(HT_CPU_SCALAR, &s, &d, want);
        expect_exact(&s, &d, got, want);
        data_free(&d);
    }
}

static void refusals(void **state) {
    (void)state;
    struct hearth_error err;
    assert_int_equal(ht_linear_supports(HT_Q4_K, 512, 10, &err), HEARTH_OK);
    assert_int_equal(ht_linear_supports(HT_Q4_K, 288, 10, &err), HEARTH_E_UNSUPPORTED);
    assert_non_null(strstr(err.message, "288"));
    assert_int_equal(ht_linear_supports(HT_Q8_K, 512, 10, &err), HEARTH_E_UNSUPPORTED);
    assert_non_null(strstr(err.message, "Q8_K"));
    assert_int_equal(ht_linear_supports((enum ht_format)5, 512, 10, &err), HEARTH_E_UNSUPPORTED);
    assert_int_equal(ht_linear_supports(HT_F32, 0, 10, &err), HEARTH_E_UNSUPPORTED);
    assert_int_equal(ht_linear_supports(HT_F32, 33, 1ull << 40, &err), HEARTH_E_UNSUPPORTED);
    assert_int_equal(ht_linear_supports(HT_F32, (1u << 27) - 32, 33, &err), HEARTH_OK);
    assert_int_equal(ht_linear_supports(HT_F32, 1u << 27, 33, &err), HEARTH_E_UNSUPPORTED);
}

int main(int argc, char **argv) {
    if (argc > 1 && strcmp(argv[1], "--bench") == 0) return bench_linear(argc - 2, argv + 2);
    int n_levels = 0;
    for (int level = 1; level < KERN_N_LEVELS; level++)
        if (kern_level_usable(level))
            print_message("%s%s", n_levels++ ? ", " : "levels: ", kern_level_of(level).name);
    print_message("%s\n", n_levels ? "" : "skipped: no level but scalar runs here");
#ifdef KERN_AMX_EMULATED
    if (n_levels == 0) return 77; // for ctest: skipped
#endif
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(refusals),
        cmocka_unit_test(strange_activations),
        cmocka_unit_test(strange_floats),
        cmocka_unit_test(odd_shapes),
        cmocka_unit_test(one_token_one_answer),
        cmocka_unit_test(real_shapes),
        cmocka_unit_test(large),
        cmocka_unit_test(strange_scales),
        cmocka_unit_test(largest_codes),
        cmocka_unit_test(repacked),
        cmocka_unit_test(can_repack),
        cmocka_unit_test(token_counts),
        cmocka_unit_test(scratch_sizes),
        cmocka_unit_test(bands),
        cmocka_unit_test(later),
        cmocka_unit_test(prepared_columns),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
