// SPDX-License-Identifier: MIT
// The kernels of a level against those of level scalar, with the same random numbers: the linear
// ones of every format with few tokens and with many, the preparation of activations, the vector
// ones, attention over one tile. What a kernel writes anew, but for pages, is no number before, so
// that one that writes nothing is found. Owns its memory for the length of a call; any thread.
#include "backend/cpu/self_test.h"

#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "backend/cpu/kern_data.h"
#include "backend/cpu/linear.h"
#include "base/mem.h"

// One linear shape: two whole groups of rows and a ragged one, two blocks of 256 weights and, where
// blocks have at most 32, one of 32 behind them, which ends rows that are read four blocks at a
// time.
enum { N_IN = 544, N_OUT = 70, N_REPACKED = 64, N_MAX = 1031 };
// Streams of one token and of several, what lies between their numbers, panels and whatever they
// leave behind whole tiles, whole tiles of amx.
static const uint32_t n_tokens_of[] = {1,  2,  3,  4,  5,  6,  7,  8,  9, 10,
                                       11, 12, 13, 14, 15, 16, 18, 23, 65};
enum { N_TOKENS = 65 };
// Heads of most models, for which some kernels have loops of their own.
static const uint32_t head_dims[] = {64, 128};
enum { HEAD_DIM = 128 };

struct attention { // everything that a tile's kernels write
    uint8_t k[HT_TILE_GROUPS][HEAD_DIM * HT_LANES * sizeof(float)];
    uint8_t v[HT_TILE_PAGES][HT_PAGE_TOKENS * HEAD_DIM * sizeof(float)];
    uint8_t turned[HEAD_DIM * HT_LANES * sizeof(float)];
    float s[HT_ATTN_MAX_ROWS * HT_TILE], acc[HT_ATTN_MAX_ROWS * HEAD_DIM];
    float q[HT_ATTN_MAX_ROWS * (HEAD_DIM + HT_LANES)], c[HT_ATTN_MAX_ROWS];
    float m[HT_ATTN_MAX_ROWS], l[HT_ATTN_MAX_ROWS][HT_LANES];
    float all_m[HT_ATTN_MAX_ROWS], all_l[HT_ATTN_MAX_ROWS], sum[HT_ATTN_MAX_ROWS * HEAD_DIM];
};

struct self_test {
    enum ht_cpu_level level;
    struct ht_vec_kernels scalar, vec;
    const struct ht_linear_kernels *scalar_linear, *linear;
    hearth_check_fn fn;
    void *user;
    size_t *n_failed;
    uint64_t seed;
    uint8_t *weight; // [N_OUT] rows of any format
    uint8_t *other;  // [N_REPACKED] of them, repacked
    float *x;        // [N_TOKENS][N_IN], and whatever else wants random numbers
    uint8_t *act;    // [N_TOKENS] prepared rows
    uint8_t *scratch;
    float *want, *got, *bias; // [N_TOKENS][N_OUT], or N_MAX
    struct attention *a, *b;
};

static void tell(struct self_test *t, const char *kernel, const char *what) {
    struct hearth_check c = {ht_cpu_level_name(t->level), kernel, what[0] == 0, what};
    if (!c.ok) ++*t->n_failed;
    if (t->fn) t->fn(t->user, &c);
}

// The first number that differs; a NaN is a NaN. "" where there is none.
static void differs(const float *want, const float *got, size_t n, const char *where, char *what,
                    size_t n_what) {
    for (size_t i = 0; i < n && !what[0]; i++)
        if (memcmp(&want[i], &got[i], sizeof *want) != 0 && !(isnan(want[i]) && isnan(got[i])))
            snprintf(what, n_what, "%s: number %zu is %a, scalar has %a", where, i, (double)got[i],
                     (double)want[i]);
}

// ---- linear

static uint32_t n_in_of(enum ht_format f) {
    const struct ht_format_info *info = ht_format_get((uint32_t)f);
    return info && info->block_len > 32 ? 512 : N_IN;
}

static void compute(struct self_test *t, const struct ht_linear_kernels *k, enum ht_format f,
                    bool repacked, uint32_t n_tokens, float *y) {
    enum ht_act_kind kind = ht_linear_act_kind(f);
    uint32_t n_in = n_in_of(f), n_out = repacked ? N_REPACKED : N_OUT;
    size_t row = ht_act_row_bytes(kind, n_in);
    for (uint32_t i = 0; i < n_tokens; i++)
        ht_act_prepare(k, kind, t->x + i * N_IN, n_in, t->act + i * row);
    static const float scale = 0.75f;
    struct ht_linear_job job = {.format = f,
                                .repacked = repacked,
                                .weight = repacked ? t->other : t->weight,
                                .n_in = n_in,
                                .n_out = n_out,
                                .act = t->act,
                                .n_tokens = n_tokens,
                                .y = y,
                                .y_stride = N_OUT,
                                .scale = f % 3 == 1 ? &scale : NULL,
                                .bias = t->bias,
                                .residual = t->x,
                                .residual_stride = N_IN};
    memset(t->scratch, 0xff, ht_linear_scratch_bytes(N_IN, N_TOKENS));
    for (uint32_t i = 0; i < n_tokens; i++) memset(y + i * N_OUT, 0xff, n_out * sizeof *y);
    ht_linear_rows(k, &job, 0, n_out, t->scratch);
}

// BF16's own instructions add pairs in their own order, so its numbers are held to a bound: a part
// of the sum of magnitudes.
static void beyond(struct self_test *t, uint32_t n_tokens, char *what, size_t n_what) {
    float w[N_IN];
    for (uint32_t o = 0; o < N_OUT; o++) {
        ht_format_get(HT_BF16)->to_f32(t->weight + (size_t)o * N_IN * 2, w, N_IN);
        for (uint32_t i = 0; i < n_tokens && !what[0]; i++) {
            double size = 10;
            for (uint32_t k = 0; k < N_IN; k++)
                size += fabs((double)w[k] * (double)t->x[i * N_IN + k]);
            float want = t->want[i * N_OUT + o], got = t->got[i * N_OUT + o];
            if (!(fabs((double)got - (double)want) <= 4e-6 * size))
                snprintf(what, n_what, "token %u, row %u is %g, scalar has %g", i, o, (double)got,
                         (double)want);
        }
    }
}

static void check_linear(struct self_test *t, enum ht_format f) {
    const struct ht_format_info *info = ht_format_get((uint32_t)f);
    char name[40], where[40], what[160] = "";
    snprintf(name, sizeof name, "linear %s", info->name);
    uint32_t n_in = n_in_of(f);
    kern_weights(f, t->weight, (size_t)N_OUT * n_in / info->block_len * info->block_bytes,
                 &t->seed);
    bool repacks = ht_linear_can_repack(t->linear, f, n_in, N_REPACKED);
    if (repacks) ht_linear_repack(t->linear, f, n_in, t->weight, 0, N_REPACKED, t->other);
    compute(t, t->scalar_linear, f, false, N_TOKENS, t->want); // fewer have the same numbers
    if (f == HT_BF16) {                                        // the level's own, near to scalar's
        compute(t, t->linear, f, false, N_TOKENS, t->got);
        beyond(t, N_TOKENS, what, sizeof what);
        memcpy(t->want, t->got, (size_t)N_TOKENS * N_OUT * sizeof *t->want);
    }
    for (size_t i = 0; i < sizeof n_tokens_of / sizeof *n_tokens_of; i++) {
        size_t n = (size_t)n_tokens_of[i] * N_OUT;
        snprintf(where, sizeof where, "%u tokens by %d rows", n_tokens_of[i], N_OUT);
        compute(t, t->linear, f, false, n_tokens_of[i], t->got);
        differs(t->want, t->got, n, where, what, sizeof what);
        if (!repacks) continue;
        compute(t, t->linear, f, true, n_tokens_of[i], t->got); // the other rows stay
        snprintf(where, sizeof where, "%u tokens, repacked", n_tokens_of[i]);
        differs(t->want, t->got, n, where, what, sizeof what);
    }
    tell(t, name, what);
}

// 8-bit rows have the same bytes at all levels, whatever stands in them.
static void check_activations(struct self_test *t) {
    static const float odd[] = {0, 1e-38f, -1e-45f, 3e38f, INFINITY, -INFINITY, NAN, 0.5f};
    enum { N = 71 * 32 }; // more than a level takes at once
    size_t row = ht_act_row_bytes(HT_ACT_ROW_Q8, N);
    size_t n_bytes = ht_act_bytes(t->linear, HT_ACT_ROW_Q8, N); // what lies behind is not set
    float *x = t->want;
    bool same = true;
    for (int i = 2 * HT_ACT_ROW_Q8; i < 2 * HT_N_ACT_KINDS; i++) {
        enum ht_act_kind kind = (enum ht_act_kind)(i / 2);
        bool strange = i % 2 > 0;
        memcpy(x, t->x, N * sizeof *x);
        if (strange) memset(x + 32, 0, 32 * sizeof *x);
        for (size_t o = 0; strange && o < sizeof odd / sizeof *odd; o++) x[64 + 32 * o] = odd[o];
        ht_act_prepare(t->scalar_linear, kind, x, N, t->act);
        ht_act_prepare(t->linear, kind, x, N, t->act + row);
        same = same && memcmp(t->act, t->act + row, n_bytes) == 0;
    }
    tell(t, "activations Q8", same ? "" : "a prepared row has other bytes than scalar's");
}

// ---- vectors

static void check_vec(struct self_test *t) {
    static const uint32_t sizes[] = {1, 16, 31, 64, 127, 128, 768, 769, 1030, N_MAX};
    const float *a = t->x, *b = t->x + N_MAX, *c = t->x + 2 * N_MAX;
    for (const struct ht_vec_case *v = ht_vec_cases; v->name; v++) {
        char what[160] = "", where[32];
        for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
            snprintf(where, sizeof where, "%u numbers", sizes[i]);
            memset(t->got, 0xff, sizes[i] * sizeof *t->got);
            v->run(&t->scalar, a, b, c, sizes[i], t->want);
            v->run(&t->vec, a, b, c, sizes[i], t->got);
            differs(t->want, t->got, sizes[i], where, what, sizeof what);
        }
        tell(t, v->name, what);
    }
}

// Positions of a group in rows, turned for a reader before all are there. Those that are not may be
// anything: 0 here.
static void turn(const struct ht_vec_kernels *k, int type, uint32_t d, uint32_t n,
                 struct attention *a) {
    uint8_t to[sizeof a->turned];
    memset(to, 0xff, sizeof to);
    const uint8_t *from = k->k_turn[type](a->k[0], d, n, to);
    for (size_t at = 0; at < HT_LANES * ht_kv_row_bytes((enum hearth_kv_type)type, d); at += 4)
        if (at / 4 % HT_LANES < n) memcpy(a->turned + at, from + at, 4);
}

// Every second group position by position, one of them in rows where the type has such.
static void store(const struct ht_vec_kernels *k, int type, const float *x, uint32_t d,
                  struct attention *a) {
    for (uint32_t g = 0; g < HT_TILE_GROUPS; g++) {
        const float *key = x + g * HT_LANES * d, *value = x + (g + 1) * HT_LANES * d;
        uint32_t slot = g * HT_LANES % HT_PAGE_TOKENS;
        uint8_t *page = a->v[g * HT_LANES / HT_PAGE_TOKENS];
        for (uint32_t i = 0; i < HT_LANES && g % 2 == 0; i++) {
            bool row = g == 0 && k->k_row[type];
            (row ? k->k_row : k->k_store)[type](key + i * d, d, i, a->k[g]);
            if (row && i == 8) turn(k, type, d, i + 1, a);
            k->v_store[type](value + i * d, d, slot + i, page);
        }
        if (g % 2 == 0) continue;
        k->k_group[type](key, d, a->k[g]);
        k->v_group[type](value, d, slot, page);
    }
}

// Rows that see all of the tile or a part, with a cap or without, by their number; every second one
// has seen a tile before.
static void attend(const struct ht_vec_kernels *k, int type, const float *x, uint32_t d,
                   uint32_t n_rows, struct attention *a) {
    bool whole = (n_rows / 2 + d / 128) % 2 > 0;
    uint32_t begin = whole ? 0 : 3, end = whole ? HT_TILE : 61;
    const void *groups[HT_TILE_GROUPS], *pages[2 * HT_TILE_PAGES], *next[2 * HT_TILE_GROUPS];
    uint32_t lo[HT_LANES], hi[HT_LANES];
    float cap = n_rows % 2 ? 0.0f : 7.0f;
    for (int i = 0; i < HT_TILE_GROUPS; i++) groups[i] = a->k[i];
    for (int i = 0; i < 2 * HT_TILE_GROUPS; i++) next[i] = a->v[i / HT_PAGE_GROUPS % HT_TILE_PAGES];
    for (int i = 0; i < 2 * HT_TILE_PAGES; i++) // the other head has them the other way round
        pages[i] = a->v[(i + i / HT_TILE_PAGES) % HT_TILE_PAGES];
    memset(a->s, 0xff, sizeof *a - offsetof(struct attention, s));
    memcpy(a->acc, x, n_rows * d * sizeof *a->acc);
    memcpy(a->sum, x, n_rows * d * sizeof *a->sum);
    for (uint32_t r = 0; r < n_rows; r++) k->q_load[type](x + 100 + r * d, d, n_rows, r, a->q);
    // In two parts, the second of which has nothing to ask for.
    k->attn_qk[type](a->q, n_rows, d, groups, groups, 0, 1, a->s);
    k->attn_qk[type](a->q, n_rows, d, groups, NULL, 1, HT_TILE_GROUPS, a->s);
    for (uint32_t r = 0; r < n_rows; r++) {
        bool first = r % 2 == 0;
        a->m[r] = first ? -INFINITY : 0.25f * (float)r;
        for (int j = 0; j < HT_LANES; j++) a->l[r][j] = first ? 0.0f : 0.5f + (float)j;
        a->all_m[r] = 0.5f, a->all_l[r] = (float)(r % 3);
        lo[r % HT_LANES] = begin;
        hi[r % HT_LANES] = end;
    }
    for (uint32_t r = 0, n; r < n_rows; r += n) { // what has a row a lane
        float *s = a->s + r * HT_TILE, *acc = a->acc + r * d;
        n = n_rows - r < HT_LANES ? n_rows - r : HT_LANES;
        uint32_t n_kv = n % 2 ? 1 : 2; // rows of one KV head or of two
        k->attn_softmax(s, n, lo, hi, 0.125f, cap, a->m + r, a->l + r, a->c + r);
        k->attn_pv[type](acc, s, a->c + r, n_kv, n / n_kv, d, pages, n_rows % 3 ? next : NULL,
                         begin, end);
        k->attn_join(a->m + r, a->l + r, acc, n, d, a->all_m + r, a->all_l + r, a->sum + r * d);
    }
}

static void check_head(struct self_test *t, int type, uint32_t d, char *what, size_t n_what) {
    memset(t->a, 0, sizeof *t->a);
    memset(t->b, 0, sizeof *t->b);
    store(&t->scalar, type, t->x, d, t->a);
    store(&t->vec, type, t->x, d, t->b);
    if (memcmp(t->a, t->b, offsetof(struct attention, s)) != 0)
        snprintf(what, n_what, "pages of keys and values have other bytes than scalar's");
    // Every number of rows with the shorter heads alone, since scalar takes its time.
    for (uint32_t rows = 1, n; rows <= t->vec.attn_rows && !what[0]; rows += n) {
        n = d == head_dims[0] || rows < 6 ? 1 : 5;
        if (rows < t->vec.attn_rows && rows + n > t->vec.attn_rows) n = t->vec.attn_rows - rows;
        attend(&t->scalar, type, t->x, d, rows, t->a);
        attend(&t->vec, type, t->x, d, rows, t->b);
        differs(t->a->s, t->b->s, rows * HT_TILE, "weights of 64 positions", what, n_what);
        differs(t->a->acc, t->b->acc, rows * d, "sums of values", what, n_what);
        differs(t->a->m, t->b->m, rows, "largest scores", what, n_what);
        differs(t->a->l[0], t->b->l[0], rows * HT_LANES, "sums of weights", what, n_what);
        differs(t->a->sum, t->b->sum, rows * d, "joined segments", what, n_what);
        differs(t->a->all_m, t->b->all_m, rows, "their largest scores", what, n_what);
        differs(t->a->all_l, t->b->all_l, rows, "their sums of weights", what, n_what);
    }
}

static void check_attention(struct self_test *t, int type) {
    char what[160] = "", name[40];
    snprintf(name, sizeof name, "attention %s", ht_kv_type_name((enum hearth_kv_type)type));
    for (size_t i = 0; i < sizeof head_dims / sizeof *head_dims && !what[0]; i++)
        check_head(t, type, head_dims[i], what, sizeof what);
    tell(t, name, what);
}

// ---- a level

static void deinit(struct self_test *t) {
    ht_free(t->weight);
    ht_free(t->other);
    ht_free(t->x);
    ht_free(t->act);
    ht_free(t->scratch);
    ht_free(t->want);
    ht_free(t->got);
    ht_free(t->bias);
    ht_free(t->a);
    ht_free(t->b);
}

static bool init(struct self_test *t) {
    size_t n_y = N_TOKENS * N_OUT > N_MAX ? N_TOKENS * N_OUT : N_MAX;
    t->weight = ht_alloc_aligned(64, (size_t)N_OUT * N_IN * sizeof(float));
    t->other = ht_alloc_aligned(64, (size_t)N_REPACKED * N_IN * sizeof(float));
    t->x = ht_alloc_aligned(64, (size_t)N_TOKENS * N_IN * sizeof(float));
    t->act = ht_alloc_aligned(64, N_TOKENS * ht_act_row_bytes(HT_ACT_ROW_F32, N_IN));
    t->scratch = ht_alloc_aligned(64, ht_linear_scratch_bytes(N_IN, N_TOKENS));
    t->want = ht_calloc(n_y, sizeof *t->want);
    t->got = ht_calloc(n_y, sizeof *t->got);
    t->bias = ht_calloc(N_OUT, sizeof *t->bias);
    t->a = ht_alloc_aligned(64, sizeof *t->a);
    t->b = ht_alloc_aligned(64, sizeof *t->b);
    if (!t->weight || !t->other || !t->x || !t->act || !t->scratch || !t->want || !t->got ||
        !t->bias || !t->a || !t->b)
        return false;
    kern_floats(t->x, (size_t)N_TOKENS * N_IN, &t->seed);
    kern_floats(t->bias, N_OUT, &t->seed);
    return true;
}

enum hearth_status ht_self_test_level(enum ht_cpu_level level,
                                      const struct ht_self_test_tables *tables, hearth_check_fn fn,
                                      void *user, size_t *n_failed, struct hearth_error *err) {
    struct self_test t = {.level = level, .fn = fn, .user = user, .n_failed = n_failed, .seed = 7};
    ht_vec_kernels_init(&t.scalar, HT_CPU_SCALAR);
    ht_vec_kernels_init(&t.vec, level);
    if (tables && tables->vec) t.vec = *tables->vec;
    t.scalar_linear = ht_linear_kernels_get(HT_CPU_SCALAR);
    t.linear = tables && tables->linear ? tables->linear : ht_linear_kernels_get((int)level);
    bool ok = init(&t);
    if (ok && (!tables || tables->linear)) {
        check_activations(&t);
        for (int i = 0; i < HT_N_FORMATS; i++) {
            enum ht_format f = (enum ht_format)i;
            if (ht_linear_supports(f, n_in_of(f), N_OUT, NULL) == HEARTH_OK) check_linear(&t, f);
        }
    }
    if (ok && (!tables || tables->vec)) {
        check_vec(&t);
        for (int type = 0; type < HT_N_KV_TYPES; type++) check_attention(&t, type);
    }
    deinit(&t);
    return ok ? HEARTH_OK : ht_fail_nomem(err, sizeof *t.a, "the self-test");
}

enum hearth_status ht_cpu_self_test(hearth_check_fn fn, void *user, size_t *n_failed,
                                    struct hearth_error *err) {
    size_t n = 0;
    for (int l = HT_CPU_SCALAR + 1; l < HT_CPU_N_LEVELS; l++) {
        if (!ht_cpu_level_usable((enum ht_cpu_level)l)) continue;
        enum hearth_status st = ht_self_test_level((enum ht_cpu_level)l, NULL, fn, user, &n, err);
        if (st != HEARTH_OK) return st;
    }
    *n_failed = n;
    return HEARTH_OK;
}
