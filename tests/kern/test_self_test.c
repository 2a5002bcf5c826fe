// SPDX-License-Identifier: MIT
// The self-test of the cpu backend: all is well here, every kernel is told of once a level, and
// kernels that are broken on purpose are found, each by its name and no other.
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "alloc_mem.h"
#include "cmocka_all.h"

#include "backend/cpu/kern_data.h"
#include "backend/cpu/linear/kernels.h"
#include "backend/cpu/self_test.h"
#include "kern/kern_levels.h"

enum { MOST_CHECKS = HT_CPU_N_LEVELS * (HT_N_FORMATS + 24) };

struct heard {
    size_t n, n_bad;
    char bad[40][48]; // kernels
    char names[MOST_CHECKS][64];
};

static void hear(void *user, const struct hearth_check *c) {
    struct heard *h = user;
    assert_int_equal(c->ok, c->what[0] == 0);
    assert_true(h->n < MOST_CHECKS);
    snprintf(h->names[h->n], sizeof h->names[0], "%s %s", c->level, c->kernel);
    for (size_t i = 0; i < h->n; i++) assert_string_not_equal(h->names[i], h->names[h->n]);
    h->n++;
    if (!c->ok && h->n_bad < 40) snprintf(h->bad[h->n_bad++], sizeof h->bad[0], "%s", c->kernel);
}

static void test_all_well(void **state) {
    (void)state;
    struct hearth_error err;
    struct heard h = {0};
    size_t n_failed = 99, n_levels = 0, n_formats = 0;
    assert_int_equal(ht_cpu_self_test(hear, &h, &n_failed, &err), HEARTH_OK);
    if (n_failed) fail_msg("%s differs", h.bad[0]);
    for (int l = 1; l < HT_CPU_N_LEVELS; l++) n_levels += ht_cpu_level_usable((enum ht_cpu_level)l);
    for (uint32_t f = 0; f < HT_N_FORMATS; f++)
        n_formats += ht_format_get(f) && ht_format_get(f)->to_f32;
    assert_true(h.n > n_levels * (n_formats + 12) && h.n % (n_levels ? n_levels : 1) == 0);
    assert_int_equal(ht_cpu_self_test(NULL, NULL, &n_failed, &err), HEARTH_OK);
}

static void broken_add(const float *a, const float *b, uint32_t n, float *y) {
    for (uint32_t i = 0; i < n; i++) y[i] = a[i] + b[i];
    if (n > 700) y[700] = nextafterf(y[700], INFINITY);
}

static void broken_softmax(float *s, uint32_t n_rows, const uint32_t *lo, const uint32_t *hi,
                           float scale, float cap, float *m, float (*l)[HT_LANES], float *c) {
    struct ht_vec_kernels k;
    ht_vec_kernels_init(&k, HT_CPU_SCALAR);
    k.attn_softmax(s, n_rows, lo, hi, scale, cap, m, l, c);
    if (n_rows > 1) l[1][5] += 1e-6f * l[1][5];
}

static void broken_join(const float *m, const float (*l)[HT_LANES], const float *acc,
                        uint32_t n_rows, uint32_t d, float *all_m, float *all_l, float *sum) {
    struct ht_vec_kernels k;
    ht_vec_kernels_init(&k, HT_CPU_SCALAR);
    k.attn_join(m, l, acc, n_rows, d, all_m, all_l, sum);
    if (n_rows > 2) sum[2 * d + 3] = nextafterf(sum[2 * d + 3], INFINITY);
}

static void broken_qk(const void *q, uint32_t n_rows, uint32_t d, const void *const *k,
                      const void *const *next, uint32_t g_begin, uint32_t g_end, float *s) {
    struct ht_vec_kernels scalar;
    ht_vec_kernels_init(&scalar, HT_CPU_SCALAR);
    scalar.attn_qk[HEARTH_KV_I16](q, n_rows, d, k, next, g_begin, g_end, s);
    if (n_rows > 20) s[20 * HT_TILE + 7] += 0.01f;
}

// bad: the kernels that differ, NULL behind the last.
static void expect_found(const struct ht_self_test_tables *tables, const char *const *bad) {
    struct hearth_error err;
    struct heard h = {0};
    size_t n_failed = 0;
    assert_int_equal(ht_self_test_level(HT_CPU_SCALAR, tables, hear, &h, &n_failed, &err),
                     HEARTH_OK);
    size_t n = 0;
    for (; bad[n]; n++) {
        assert_true(n < h.n_bad);
        assert_string_equal(h.bad[n], bad[n]);
    }
    assert_int_equal(n_failed, n);
}

static void test_finds_vec(void **state) {
    (void)state;
    struct ht_vec_kernels vec;
    struct ht_self_test_tables tables = {.vec = &vec};
    ht_vec_kernels_init(&vec, HT_CPU_SCALAR);
    vec.add = broken_add;
    expect_found(&tables, (const char *const[]){"add", NULL});
    ht_vec_kernels_init(&vec, HT_CPU_SCALAR);
    vec.attn_softmax = broken_softmax;
    static const char *const attention[] = {"attention f16",  "attention f32", "attention bf16",
                                            "attention q8_0", "attention i16", NULL};
    expect_found(&tables, attention);
    ht_vec_kernels_init(&vec, HT_CPU_SCALAR);
    vec.attn_join = broken_join;
    expect_found(&tables, attention);
    ht_vec_kernels_init(&vec, HT_CPU_SCALAR);
    vec.attn_rows = HT_ATTN_MAX_ROWS;
    vec.attn_qk[HEARTH_KV_I16] = broken_qk;
    expect_found(&tables, (const char *const[]){"attention i16", NULL});
}

// Where a tile leaves a token's sums: with a residual they are added to it.
static float *result(const struct ht_tile_args *t, uint32_t token) {
    return t->add ? t->out + token * t->out_stride : t->to + token * t->to_stride;
}

static void broken_tile(const struct ht_panel *p, const struct ht_tile_args *t) {
    ht_linear_scalar.format[HT_Q6_K_ROW].tile(p, t);
    if (t->n_tokens > 6) result(t, 7)[31] += 1e-3f; // one row of the eighth token
}

static void broken_act(const struct ht_act_how *how, const float *x, uint32_t n_in,
                       struct ht_act_q8 *dst, size_t dst_step) {
    ht_act_q8_scalar(how, x, n_in, dst, dst_step);
    for (uint32_t i = 0; i < n_in / 32; i++) {
        struct ht_act_q8 *block = ht_act_block(dst, i, dst_step);
        if (block->scale != block->scale) block->scale = 0; // a NaN that is lost
    }
}

static void broken_bf16(const struct ht_panel *p, const struct ht_tile_args *t) {
    ht_linear_scalar.format[HT_BF16_ROW].tile(p, t);
    result(t, 0)[3] *= 1.001f;
}

static void test_finds_linear(void **state) {
    (void)state;
    struct ht_linear_kernels linear = ht_linear_scalar;
    struct ht_self_test_tables tables = {.linear = &linear};
    linear.format[HT_Q6_K_ROW].tile = broken_tile;
    expect_found(&tables, (const char *const[]){"linear Q6_K", NULL});
    linear = ht_linear_scalar;
    linear.act_q8 = broken_act;
    expect_found(&tables, (const char *const[]){"activations Q8", NULL});
    linear = ht_linear_scalar;
    linear.format[HT_BF16_ROW].tile = broken_bf16;
    expect_found(&tables, (const char *const[]){"linear BF16", NULL});
}

// ---- kernels that do nothing: each of every level is found out

static void no_pack(const struct ht_format_info *f, const uint8_t *w, size_t row_bytes,
                    uint32_t n_k, const struct ht_panel *p) {
    (void)f;
    (void)w;
    (void)row_bytes;
    (void)n_k;
    (void)p;
}

static void no_tile(const struct ht_panel *p, const struct ht_tile_args *t) {
    (void)p;
    (void)t;
}

static void no_stream(const uint8_t *w, size_t row_bytes, const struct ht_tile_args *t) {
    (void)w;
    (void)row_bytes;
    (void)t;
}

enum part { PACK, TILE, STREAM, N_PARTS };

// Takes the part away; false where the format has none, or none that 65 tokens come by.
static bool take_away(struct ht_linear_format *f, enum part part) {
    switch (part) {
    case PACK:
        if (!f->pack || f->stream_most >= 65) return false;
        f->pack = no_pack;
        return true;
    case TILE:
        if (!f->tile || f->stream_most >= 65) return false;
        f->tile = no_tile;
        return true;
    default:
        if (!f->stream) return false;
        f->stream = no_stream;
        return true;
    }
}

static void check_taken(int level, bool repacked, enum part part) {
    struct kern_level l = kern_level_of(level);
    struct ht_linear_kernels k = *l.kernels;
    struct ht_self_test_tables tables = {.linear = &k};
    struct hearth_error err;
    struct heard h = {0};
    bool taken[HT_N_FORMATS] = {false};
    size_t n_failed = 0, n = 0;
    for (uint32_t f = 0; f < HT_N_FORMATS; f++) {
        struct ht_linear_format *of = (repacked ? k.repacked : k.format) + ht_format_row[f];
        if (part == PACK && repacked && f == HT_BF16) continue; // which lies as panels have it
        taken[f] = of->pack && take_away(of, part);
    }
    assert_int_equal(ht_self_test_level(l.needs, &tables, hear, &h, &n_failed, &err), HEARTH_OK);
    for (uint32_t f = 0; f < HT_N_FORMATS; f++) {
        char name[48];
        if (!taken[f]) continue;
        snprintf(name, sizeof name, "linear %s", ht_format_get(f)->name);
        bool found = false;
        for (size_t i = 0; i < h.n_bad; i++) found = found || strcmp(h.bad[i], name) == 0;
        if (!found)
            fail_msg("%s%s, %s: part %d may do nothing, unnoticed", l.name,
                     repacked ? ", repacked" : "", name, (int)part);
        n++;
    }
    assert_int_equal(n_failed, n);
}

static void test_finds_missing(void **state) {
    (void)state;
    for (int level = 0; level < KERN_N_LEVELS; level++) {
        if (!kern_level_usable(level)) continue;
        for (int part = 0; part < N_PARTS; part++) {
            check_taken(level, false, (enum part)part);
            check_taken(level, true, (enum part)part);
        }
    }
}

static void no_store(const float *x, uint32_t d, uint32_t slot, void *to) {
    (void)x;
    (void)d;
    (void)slot;
    (void)to;
}

static void no_k_group(const float *x, uint32_t d, void *group) {
    (void)x;
    (void)d;
    (void)group;
}

static const void *no_turn(const void *group, uint32_t d, uint32_t n, void *to) {
    (void)group;
    (void)d;
    (void)n;
    return to;
}

static void no_load(const float *q, uint32_t d, uint32_t n_rows, uint32_t r, void *to) {
    (void)q;
    (void)d;
    (void)n_rows;
    (void)r;
    (void)to;
}

// Right but for a group at the end, for a second KV head, where nothing comes next.
static void part_qk(const void *q, uint32_t n_rows, uint32_t d, const void *const *k,
                    const void *const *next, uint32_t g_begin, uint32_t g_end, float *s) {
    struct ht_vec_kernels scalar;
    ht_vec_kernels_init(&scalar, HT_CPU_SCALAR);
    scalar.attn_qk[HEARTH_KV_I16](q, n_rows, d, k, next, g_begin, g_end - (g_begin > 0), s);
}

static void part_pv(float *acc, const float *p, const float *c, uint32_t n_kv, uint32_t n_rows,
                    uint32_t d, const void *const *v, const void *const *next, uint32_t j_begin,
                    uint32_t j_end) {
    struct ht_vec_kernels scalar;
    ht_vec_kernels_init(&scalar, HT_CPU_SCALAR);
    scalar.attn_pv[HEARTH_KV_I16](acc, p, c, 1, n_rows, d, v, next, j_begin, j_end);
    if (n_kv > 1) // of the first one's pages
        scalar.attn_pv[HEARTH_KV_I16](acc + (size_t)n_rows * d, p + n_rows * HT_TILE, c + n_rows, 1,
                                      n_rows, d, v, next, j_begin, j_end);
}

static void alone_pv(float *acc, const float *p, const float *c, uint32_t n_kv, uint32_t n_rows,
                     uint32_t d, const void *const *v, const void *const *next, uint32_t j_begin,
                     uint32_t j_end) {
    struct ht_vec_kernels scalar;
    ht_vec_kernels_init(&scalar, HT_CPU_SCALAR);
    scalar.attn_pv[HEARTH_KV_I16](acc, p, c, n_kv, n_rows, d, v, next, j_begin,
                                  next ? j_end : j_end - 1);
}

static void test_finds_missing_attention(void **state) {
    (void)state;
    struct ht_vec_kernels vec;
    struct ht_self_test_tables tables = {.vec = &vec};
    static const char *const i16[] = {"attention i16", NULL};
    for (int part = 0; part < 10; part++) {
        ht_vec_kernels_init(&vec, HT_CPU_SCALAR);
        switch (part) {
        case 0: vec.k_store[HEARTH_KV_I16] = no_store; break;
        case 1: vec.v_store[HEARTH_KV_I16] = no_store; break;
        case 2: vec.k_group[HEARTH_KV_I16] = no_k_group; break;
        case 3: vec.v_group[HEARTH_KV_I16] = no_store; break;
        case 4: vec.k_row[HEARTH_KV_I16] = no_store; break;
        case 5: vec.k_turn[HEARTH_KV_I16] = no_turn; break;
        case 6: vec.q_load[HEARTH_KV_I16] = no_load; break;
        case 7: vec.attn_qk[HEARTH_KV_I16] = part_qk; break;
        case 8: vec.attn_pv[HEARTH_KV_I16] = part_pv; break;
        default: vec.attn_pv[HEARTH_KV_I16] = alone_pv; break;
        }
        expect_found(&tables, i16);
    }
}

static void test_no_memory(void **state) {
    (void)state;
    struct hearth_error err;
    size_t n_failed = 99;
    uint64_t live = ht_test_alloc_get().n_live_bytes;
    if (ht_cpu_best_level() == HT_CPU_SCALAR) skip();
    const struct ht_self_test_tables none = {NULL, NULL}; // memory is all that it takes
    for (uint64_t n = 1;; n++) {
        ht_test_alloc_fail_at(n);
        enum hearth_status st =
            ht_self_test_level(ht_cpu_best_level(), &none, NULL, NULL, &n_failed, &err);
        bool failed = ht_test_alloc_failed();
        ht_test_alloc_fail_at(0);
        assert_int_equal(ht_test_alloc_get().n_live_bytes, live);
        assert_int_equal(st, failed ? HEARTH_E_NOMEM : HEARTH_OK);
        if (failed) continue;
        assert_true(n > 10);
        break;
    }
    ht_test_alloc_fail_at(1);
    assert_int_equal(ht_cpu_self_test(NULL, NULL, &n_failed, &err), HEARTH_E_NOMEM);
    ht_test_alloc_fail_at(0);
    assert_int_equal(n_failed, 99);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_all_well),
        cmocka_unit_test(test_finds_vec),
        cmocka_unit_test(test_finds_linear),
        cmocka_unit_test(test_finds_missing),
        cmocka_unit_test(test_finds_missing_attention),
        cmocka_unit_test(test_no_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
