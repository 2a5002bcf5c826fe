// SPDX-License-Identifier: MIT
// The vector kernels: every level that this machine can run against scalar, bit for bit, over odd
// and real sizes; scalar against formulas in double precision. Every input and output ends at a
// page that may not be touched, begins at no particular alignment, and has canaries in front. With
// --bench the same program measures the attention kernels (tests/kern/bench_vec.c).
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "backend/cpu/kern_data.h"
#include "backend/cpu/self_test.h"
#include "backend/cpu/vec.h"
#include "kern/guarded.h"
#include "quant/format.h"

int bench_vec(int argc, char **argv);

static float *floats(const struct guarded *g) {
    return (float *)(void *)g->data;
}

static struct guarded random_floats(size_t n, uint64_t *seed) {
    struct guarded g = guarded_new(n * sizeof(float), 1);
    kern_floats(floats(&g), n, seed);
    return g;
}

static struct guarded copy_of(const struct guarded *from) {
    struct guarded g = guarded_new(from->n, 1);
    memcpy(g.data, from->data, from->n);
    return g;
}

// Bit for bit; a NaN is a NaN.
static void same(const struct guarded *a, const struct guarded *b, const char *what, uint32_t n) {
    const float *x = floats(a), *y = floats(b);
    for (size_t i = 0; i < a->n / sizeof *x; i++)
        if (memcmp(&x[i], &y[i], sizeof *x) != 0 && !(x[i] != x[i] && y[i] != y[i]))
            fail_msg("%s, size %u: element %zu is %a, scalar has %a", what, n, i, (double)y[i],
                     (double)x[i]);
}

static const uint32_t sizes[] = {1,  2,  3,  7,  8,  9,  15,  16,  17,  31,  32,  33,
                                 47, 48, 63, 64, 65, 96, 127, 128, 129, 255, 768, 1027};
#define N_SIZES (sizeof sizes / sizeof *sizes)

typedef void level_check(const struct ht_vec_kernels *want, const struct ht_vec_kernels *got);

static void each_level(level_check *check) {
    struct ht_vec_kernels scalar, k;
    ht_vec_kernels_init(&scalar, HT_CPU_SCALAR);
    for (int l = 1; l < HT_CPU_N_LEVELS; l++) {
        if (!ht_cpu_level_usable((enum ht_cpu_level)l)) continue;
        ht_vec_kernels_init(&k, (enum ht_cpu_level)l);
        check(&scalar, &k);
    }
}

static void check_rows(const struct ht_vec_kernels *want, const struct ht_vec_kernels *got) {
    uint64_t seed = 1;
    for (const struct ht_vec_case *c = ht_vec_cases; c->name; c++)
        for (size_t i = 0; i < N_SIZES; i++) {
            uint32_t n = sizes[i];
            struct guarded a = random_floats(n, &seed), b = random_floats(n, &seed);
            struct guarded d = random_floats(n, &seed);
            struct guarded y = guarded_new(n * 4, 1), z = guarded_new(n * 4, 1);
            c->run(want, floats(&a), floats(&b), floats(&d), n, floats(&y));
            c->run(got, floats(&a), floats(&b), floats(&d), n, floats(&z));
            same(&y, &z, c->name, n);
            struct guarded *all[] = {&a, &b, &d, &y, &z};
            for (int g = 0; g < 5; g++) guarded_free(all[g]);
        }
}

static void test_rows(void **state) {
    (void)state;
    each_level(check_rows);
}

// A row whose squares are beyond f32 becomes NaN, which ends a request, and not zeros; relu2 keeps
// a NaN.
static void check_huge(const struct ht_vec_kernels *want, const struct ht_vec_kernels *got) {
    float x[1000], w[1000], y[1000];
    (void)want;
    for (uint32_t n = 128; n <= 1000; n += 872) { // a head's row, another one
        for (uint32_t i = 0; i < n; i++) x[i] = i % 2 ? 4e18f : -4e18f, w[i] = 1;
        got->rms_norm(x, w, n, 1e-5f, y);
        assert_true(isnan(y[0]) && isnan(y[n - 1]));
        got->layer_norm(x, w, w, n, 1e-5f, y);
        assert_true(isnan(y[0]) && isnan(y[n - 1]));
    }
    x[17] = NAN;
    got->act(HT_ACT_RELU2, x, 1000, y);
    assert_true(isnan(y[17]) && y[16] == 0);
}

static void test_huge(void **state) {
    (void)state;
    each_level(check_huge);
}

// ---- activations over their whole range and at every edge

static void check_acts(const struct ht_vec_kernels *want, const struct ht_vec_kernels *got) {
    static const float edges[] = {0.0f,       -0.0f,      INFINITY, -INFINITY,     NAN,
                                  1e-40f,     -1e-40f,    1e-20f,   3.4e38f,       -3.4e38f,
                                  HT_EXP_MIN, HT_EXP_MAX, 0.9375f,  HT_TANH_SMALL, HT_ERF_ONE};
    uint64_t seed = 2;
    struct guarded x = guarded_new(4096 * sizeof(float), 1);
    for (uint32_t i = 0; i < 4096; i++) {
        kern_floats(&floats(&x)[i], 1, &seed);
        floats(&x)[i] *= i % 3 == 0 ? 1.0f : i % 3 == 1 ? 8.0f : 60.0f;
    }
    memcpy(floats(&x) + 100, edges, sizeof edges);
    for (size_t i = 0; i < sizeof edges / sizeof *edges; i++)
        floats(&x)[200 + i] = nextafterf(edges[i], INFINITY), floats(&x)[300 + i] = -edges[i];
    struct guarded y = guarded_new(x.n, 1), z = guarded_new(x.n, 1);
    for (int kind = 0; kind <= HT_ACT_RELU2; kind++) {
        want->act((enum ht_act)kind, floats(&x), 4096, floats(&y));
        got->act((enum ht_act)kind, floats(&x), 4096, floats(&z));
        same(&y, &z, "act", (uint32_t)kind);
    }
    want->exp_sub(floats(&x), 0.0f, 4096, floats(&y));
    got->exp_sub(floats(&x), 0.0f, 4096, floats(&z));
    same(&y, &z, "exp", 4096);
    guarded_free(&x);
    guarded_free(&y);
    guarded_free(&z);
}

static void test_acts(void **state) {
    (void)state;
    each_level(check_acts);
}

// ---- pages

static const uint32_t dims[] = {1,  2,   6,   15,  16,  24,  32,  64,  80,
                                96, 127, 128, 130, 256, 258, 511, 768, HT_I16_MAX_DIM};
#define N_DIMS (sizeof dims / sizeof *dims)

// Heads that the type can have.
static bool holds(enum hearth_kv_type type, uint32_t d) {
    return ht_kv_holds(type, d);
}

static struct guarded filled(size_t n, int byte) {
    struct guarded g = guarded_new(n, 1);
    memset(g.data, byte, n);
    return g;
}

// Blocks of 32 in turn: usual numbers, with a number past the largest half, halves between codes,
// all zero, far below the least half, infinite, NaN.
static struct guarded hard_floats(uint32_t d, uint32_t turn, uint64_t *seed) {
    struct guarded g = random_floats(d, seed);
    for (uint32_t i = 0; i < d; i++) {
        float *x = &floats(&g)[i];
        switch ((i / 32 + turn) % 7) {
        case 1: *x = i % 32 ? *x : -70000.0f; break;
        case 2: *x = i % 32 ? (float)(int)(*x * 60) + 0.5f : 127.0f; break;
        case 3: *x = i % 2 ? 0.0f : -0.0f; break;
        case 4: *x *= 1e-38f; break;
        case 5: *x = i % 5 ? *x : -INFINITY; break;
        case 6: *x = i % 3 ? *x : i % 2 ? NAN : -NAN; break;
        default: break;
        }
    }
    return g;
}

static void check_stores(const struct ht_vec_kernels *want, const struct ht_vec_kernels *got) {
    uint64_t seed = 3;
    for (int type = 0; type < HT_N_KV_TYPES; type++)
        for (uint32_t i = 0; i < 7 * N_DIMS; i++) {
            uint32_t d = dims[i % N_DIMS], slot = kern_random(&seed) % 32;
            if (!holds((enum hearth_kv_type)type, d)) continue;
            size_t row = ht_kv_row_bytes((enum hearth_kv_type)type, d);
            struct guarded x = hard_floats(d, i / N_DIMS, &seed);
            struct guarded k = filled(row * 16, 0x11), v = filled(row * HT_PAGE_TOKENS, 0x22);
            struct guarded k2 = copy_of(&k), v2 = copy_of(&v);
            want->k_store[type](floats(&x), d, slot % 16, k.data);
            want->v_store[type](floats(&x), d, slot, v.data);
            got->k_store[type](floats(&x), d, slot % 16, k2.data);
            got->v_store[type](floats(&x), d, slot, v2.data);
            assert_memory_equal(k.data, k2.data, k.n);
            assert_memory_equal(v.data, v2.data, v.n);
            struct guarded *all[] = {&x, &k, &v, &k2, &v2};
            for (int g = 0; g < 5; g++) guarded_free(all[g]);
        }
}

// A whole group at once is what its positions are one by one.
static void check_groups(const struct ht_vec_kernels *want, const struct ht_vec_kernels *got) {
    uint64_t seed = 5;
    for (int type = 0; type < HT_N_KV_TYPES; type++)
        for (uint32_t i = 0; i < 7 * N_DIMS; i++) {
            uint32_t d = dims[i % N_DIMS];
            if (!holds((enum hearth_kv_type)type, d)) continue;
            size_t row = ht_kv_row_bytes((enum hearth_kv_type)type, d);
            struct guarded x = hard_floats(d * HT_LANES, i / N_DIMS, &seed);
            struct guarded k = filled(row * HT_LANES, 0x11), k2 = copy_of(&k);
            struct guarded v = filled(row * HT_PAGE_TOKENS, 0x22), v2 = copy_of(&v);
            uint32_t slot = i % 2 * HT_LANES;
            for (uint32_t j = 0; j < HT_LANES; j++) {
                want->k_store[type](floats(&x) + j * d, d, j, k.data);
                want->v_store[type](floats(&x) + j * d, d, slot + j, v.data);
            }
            got->k_group[type](floats(&x), d, k2.data);
            got->v_group[type](floats(&x), d, slot, v2.data);
            assert_memory_equal(k.data, k2.data, k.n);
            assert_memory_equal(v.data, v2.data, v.n);
            struct guarded *all[] = {&x, &k, &v, &k2, &v2};
            for (int g = 0; g < 5; g++) guarded_free(all[g]);
        }
}

// Positions one by one into rows: the same bytes as scalar's after each, and columns as k_store has
// them, whether the group is full or turned for a reader. A group in columns goes on in columns.
static void check_key_rows(const struct ht_vec_kernels *want, const struct ht_vec_kernels *got) {
    uint64_t seed = 7;
    for (uint32_t i = 0; i < 7 * N_DIMS * HT_N_KV_TYPES; i++) {
        enum hearth_kv_type type = (enum hearth_kv_type)(i % HT_N_KV_TYPES);
        uint32_t d = dims[i / HT_N_KV_TYPES % N_DIMS],
                 begin = i % 3 == 0 ? kern_random(&seed) % 16 : 0;
        assert_true(!want->k_row[type] == !got->k_row[type]);
        if (!got->k_row[type] || !holds(type, d)) continue;
        struct guarded x = hard_floats(d * HT_LANES, i / N_DIMS, &seed);
        struct guarded k = filled(ht_kv_row_bytes(type, d) * HT_LANES, 0x11);
        struct guarded k2 = copy_of(&k), columns = copy_of(&k), to = copy_of(&k), to2 = copy_of(&k);
        for (uint32_t j = 0; j < HT_LANES; j++) {
            const float *row = floats(&x) + j * d;
            want->k_store[type](row, d, j, columns.data);
            (j < begin ? want->k_store : want->k_row)[type](row, d, j, k.data);
            (j < begin ? want->k_store : got->k_row)[type](row, d, j, k2.data);
            assert_memory_equal(k.data, k2.data, k.n);
            const void *t = want->k_turn[type](k.data, d, j + 1, to.data);
            const void *t2 = got->k_turn[type](k2.data, d, j + 1, to2.data);
            bool turns = begin == 0 && j < HT_LANES - 1;
            assert_ptr_equal(t, turns ? to.data : k.data);
            assert_ptr_equal(t2, turns ? to2.data : k2.data);
            for (uint32_t at = 0; at < columns.n; at += 4) // of 32 bits each, by positions
                if (at / 4 % HT_LANES <= j) {
                    assert_memory_equal((const uint8_t *)t + at, columns.data + at, 4);
                    assert_memory_equal((const uint8_t *)t2 + at, columns.data + at, 4);
                }
        }
        struct guarded *all[] = {&x, &k, &k2, &columns, &to, &to2};
        for (int g = 0; g < 6; g++) guarded_free(all[g]);
    }
}

static void test_stores(void **state) {
    (void)state;
    each_level(check_stores);
    each_level(check_groups);
    each_level(check_key_rows);
}

// n positions of a head, in the layout of a K group or of a page's V: scalar stores.
static struct guarded random_page(enum hearth_kv_type type, uint32_t d, uint32_t n,
                                  uint64_t *seed) {
    struct ht_vec_kernels k;
    struct guarded g = guarded_new(n * ht_kv_row_bytes(type, d), 1);
    float x[HT_I16_MAX_DIM];
    ht_vec_kernels_init(&k, HT_CPU_SCALAR);
    for (uint32_t j = 0; j < n; j++) {
        kern_floats(x, d, seed);
        for (uint32_t e = 0; e < d; e++) x[e] *= (float)(kern_random(seed) % 4);
        (n == HT_LANES ? k.k_store : k.v_store)[type](x, d, j, g.data);
    }
    return g;
}

// ---- attention

// Query rows as attn_qk reads them, which every level puts there alike.
static struct guarded random_query(const struct ht_vec_kernels *want,
                                   const struct ht_vec_kernels *got, enum hearth_kv_type type,
                                   uint32_t n_rows, uint32_t d, uint64_t *seed) {
    struct guarded q = guarded_new(n_rows * ht_attn_q_floats(d) * sizeof(float), 1);
    struct guarded q2 = copy_of(&q), x = random_floats(d, seed);
    for (uint32_t r = 0; r < n_rows; r++) {
        kern_floats(floats(&x), d, seed);
        if (r % 4 == 3) memset(floats(&x), 0, x.n);
        want->q_load[type](floats(&x), d, n_rows, r, q.data);
        got->q_load[type](floats(&x), d, n_rows, r, q2.data);
    }
    assert_memory_equal(q.data, q2.data, q.n);
    guarded_free(&x);
    guarded_free(&q2);
    return q;
}

static void check_qk(const struct ht_vec_kernels *want, const struct ht_vec_kernels *got) {
    uint64_t seed = 4;
    for (uint32_t rows = 1; rows <= got->attn_rows; rows++)
        for (size_t i = 0; i < N_DIMS * HT_N_KV_TYPES; i++) {
            uint32_t d = dims[i / HT_N_KV_TYPES], begin = kern_random(&seed) % 4;
            uint32_t end = begin + 1 + kern_random(&seed) % (4 - begin);
            enum hearth_kv_type type = (enum hearth_kv_type)(i % HT_N_KV_TYPES);
            if (!holds(type, d)) continue;
            struct guarded q = random_query(want, got, type, rows, d, &seed), pages[4];
            struct guarded s = random_floats(rows * HT_TILE, &seed), s2 = copy_of(&s);
            const void *k[4] = {0};
            for (uint32_t g = begin; g < end; g++) {
                pages[g] = random_page(type, d, HT_LANES, &seed);
                k[g] = pages[g].data;
            }
            const void *const *next = i % 3 ? k : NULL;
            want->attn_qk[type](q.data, rows, d, k, next, begin, end, floats(&s));
            got->attn_qk[type](q.data, rows, d, k, next, begin, end, floats(&s2));
            same(&s, &s2, "attn_qk", d);
            for (uint32_t g = begin; g < end; g++) guarded_free(&pages[g]);
            guarded_free(&q);
            guarded_free(&s);
            guarded_free(&s2);
        }
}

// To the bit, but for which NaN it is.
static bool is_same(float a, float b) {
    return isnan(a) ? isnan(b) : memcmp(&a, &b, sizeof a) == 0;
}

static void check_softmax(const struct ht_vec_kernels *want, const struct ht_vec_kernels *got) {
    uint64_t seed = 5;
    float m[2][HT_LANES], l[2][HT_LANES][HT_LANES];
    uint32_t lo[HT_LANES], hi[HT_LANES];
    for (uint32_t i = 0; i < 400; i++) {
        uint32_t n = 1 + i % ht_attn_lane_rows(got);
        float cap = i % 5 == 0 ? 7.0f : 0.0f, size = i % 4 == 1 ? 600.0f : 20.0f;
        if (i % 13 == 5) size = i % 2 ? 1e12f : 3e9f; // past HT_SCORE_LIMIT, and around it
        bool whole = i % 3 == 0;                      // every row sees all of it
        struct guarded s = random_floats(n * HT_TILE, &seed);
        struct guarded c = random_floats(n, &seed), c2 = copy_of(&c);
        for (uint32_t r = 0; r < n; r++) {
            lo[r] = whole || (i + r) % 3 ? 0 : kern_random(&seed) % HT_TILE;
            hi[r] = !whole && i % 7 ? lo[r] + 1 + kern_random(&seed) % (HT_TILE - lo[r]) : HT_TILE;
            for (uint32_t j = 0; j < HT_TILE; j++) { // what is not seen may be anything
                float *x = &floats(&s)[r * HT_TILE + j];
                *x *= size;
                if (whole && i % 11 == 0 && r == 1 && j == 9) *x = NAN;
                if (j < lo[r] || j >= hi[r]) *x = j % 2 ? NAN : INFINITY;
            }
            if (i >= HT_LANES && i % 10) continue;
            m[0][r] = m[1][r] = -INFINITY;
            for (int j = 0; j < HT_LANES; j++) l[0][r][j] = l[1][r][j] = 0;
        }
        struct guarded t = copy_of(&s);
        want->attn_softmax(floats(&s), n, lo, hi, 0.3f, cap, m[0], l[0], floats(&c));
        got->attn_softmax(floats(&t), n, lo, hi, 0.3f, cap, m[1], l[1], floats(&c2));
        same(&s, &t, "attn_softmax", n);
        same(&c, &c2, "attn_softmax, c", n);
        for (uint32_t r = 0; r < n; r++) {
            assert_true(is_same(m[0][r], m[1][r]));
            for (int j = 0; j < HT_LANES && !isnan(m[0][r]); j++)
                assert_true(is_same(l[0][r][j], l[1][r][j]));
        }
        struct guarded *all[] = {&s, &t, &c, &c2};
        for (int g = 0; g < 4; g++) guarded_free(all[g]);
    }
}

static void check_pv(const struct ht_vec_kernels *want, const struct ht_vec_kernels *got) {
    enum { MOST_KV = 4 };
    uint64_t seed = 6;
    for (uint32_t rows = 1; rows <= ht_attn_lane_rows(got); rows++)
        for (size_t i = 0; i < N_DIMS * HT_N_KV_TYPES; i++) {
            uint32_t d = dims[i / HT_N_KV_TYPES], begin = kern_random(&seed) % HT_TILE;
            uint32_t end = begin + 1 + kern_random(&seed) % (HT_TILE - begin);
            enum hearth_kv_type type = (enum hearth_kv_type)(i % HT_N_KV_TYPES);
            if (!holds(type, d)) continue;
            struct guarded acc = random_floats(rows * d, &seed), acc2 = copy_of(&acc);
            struct guarded p = random_floats(rows * HT_TILE, &seed);
            struct guarded c = random_floats(rows, &seed), pages[MOST_KV * HT_TILE_PAGES];
            const void *v[MOST_KV * HT_TILE_PAGES] = {0}, *places[MOST_KV * HT_TILE_GROUPS] = {0};
            const void *const *next = i % 3 ? places : NULL;
            uint32_t n_kv = rows % (1 + i % MOST_KV) ? 1 : 1 + i % MOST_KV, n = rows / n_kv;
            for (uint32_t j = 0; type == HEARTH_KV_I16 && j < rows * HT_TILE; j++) {
                float *w = &floats(&p)[j]; // weights; 0 outside, as softmax leaves it
                *w = j % HT_TILE < begin || j % HT_TILE >= end ? 0.0f : fabsf(*w);
                if (rows == 2 && i % 2) *w *= j % HT_TILE % 5 == 0 ? 1e-30f : 1e-36f;
                if (rows == 3 && j == begin + HT_TILE) *w = i % 2 ? 1e6f : NAN;
            }
            for (uint32_t g = 0; g < n_kv * HT_TILE_PAGES; g++) {
                pages[g] = random_page(type, d, HT_PAGE_TOKENS, &seed);
                uint32_t at = g % HT_TILE_PAGES * HT_PAGE_TOKENS;
                if (at < end && at + HT_PAGE_TOKENS > begin) v[g] = pages[g].data;
            }
            want->attn_pv[type](floats(&acc), floats(&p), floats(&c), n_kv, n, d, v, next, begin,
                                end);
            got->attn_pv[type](floats(&acc2), floats(&p), floats(&c), n_kv, n, d, v, next, begin,
                               end);
            same(&acc, &acc2, "attn_pv", d);
            for (uint32_t g = 0; g < n_kv * HT_TILE_PAGES; g++) guarded_free(&pages[g]);
            struct guarded *all[] = {&acc, &acc2, &p, &c};
            for (int g = 0; g < 4; g++) guarded_free(all[g]);
        }
}

// Rows that saw nothing of a segment, or nothing before it, among others.
static void check_join(const struct ht_vec_kernels *want, const struct ht_vec_kernels *got) {
    uint64_t seed = 7;
    for (uint32_t i = 0; i < 20 * N_DIMS; i++) {
        uint32_t n = 1 + i % ht_attn_lane_rows(got), d = dims[i % N_DIMS];
        struct guarded m = random_floats(n, &seed), l = random_floats(n * HT_LANES, &seed);
        struct guarded acc = random_floats(n * d, &seed), sum = random_floats(n * d, &seed);
        struct guarded all_m = random_floats(n, &seed), all_l = random_floats(n, &seed);
        for (uint32_t r = 0; r < n; r++) {
            floats(&m)[r] *= 90.0f;
            if ((i + r) % 4 == 0) {
                floats(&m)[r] = -INFINITY;
                memset(floats(&l) + r * HT_LANES, 0, HT_LANES * sizeof(float));
            }
            if ((i + r) % 3 == 0) floats(&all_m)[r] = -INFINITY, floats(&all_l)[r] = 0;
        }
        struct guarded sum2 = copy_of(&sum), all_m2 = copy_of(&all_m), all_l2 = copy_of(&all_l);
        const float(*lanes)[HT_LANES] = (const float(*)[HT_LANES])floats(&l);
        want->attn_join(floats(&m), lanes, floats(&acc), n, d, floats(&all_m), floats(&all_l),
                        floats(&sum));
        got->attn_join(floats(&m), lanes, floats(&acc), n, d, floats(&all_m2), floats(&all_l2),
                       floats(&sum2));
        same(&sum, &sum2, "attn_join", d);
        same(&all_m, &all_m2, "attn_join, m", d);
        same(&all_l, &all_l2, "attn_join, l", d);
        struct guarded *all[] = {&m, &l, &acc, &sum, &all_m, &all_l, &sum2, &all_m2, &all_l2};
        for (int g = 0; g < 9; g++) guarded_free(all[g]);
    }
}

static void test_attention(void **state) {
    (void)state;
    each_level(check_qk);
    each_level(check_softmax);
    each_level(check_pv);
    each_level(check_join);
}

// ---- scalar against the formulas

static void close_to(double got, double want, double size, const char *what) {
    if (!(fabs(got - want) <= 2e-6 * (size + fabs(want))))
        fail_msg("%s is %.9g, expected %.9g", what, got, want);
}

static void test_norm_formulas(void **state) {
    (void)state;
    struct ht_vec_kernels k;
    ht_vec_kernels_init(&k, HT_CPU_SCALAR);
    uint64_t seed = 7;
    float x[300], w[300], b[300], y[300];
    kern_floats(x, 300, &seed);
    kern_floats(w, 300, &seed);
    kern_floats(b, 300, &seed);
    double sq = 0, mean = 0, var = 0;
    for (int i = 0; i < 300; i++) sq += (double)x[i] * x[i] / 300, mean += (double)x[i] / 300;
    for (int i = 0; i < 300; i++) var += (x[i] - mean) * (x[i] - mean) / 300;
    k.rms_norm(x, w, 300, 0.01f, y);
    for (int i = 0; i < 300; i++) close_to(y[i], x[i] / sqrt(sq + 0.01f) * w[i], 1, "rms_norm");
    k.layer_norm(x, w, b, 300, 0.01f, y);
    for (int i = 0; i < 300; i++)
        close_to(y[i], (x[i] - mean) / sqrt(var + 0.01f) * w[i] + b[i], 1, "layer_norm");
    k.act_mul(HT_ACT_SILU, x, w, 300, y);
    for (int i = 0; i < 300; i++) close_to(y[i], x[i] / (1 + exp(-(double)x[i])) * w[i], 1, "silu");
    k.act(HT_ACT_GELU_ERF, x, 300, y);
    for (int i = 0; i < 300; i++)
        close_to(y[i], x[i] / 2 * (1 + erf((double)x[i] / sqrt(2))), 1, "gelu");
}

static void test_rope_formula(void **state) {
    (void)state;
    struct ht_vec_kernels k;
    ht_vec_kernels_init(&k, HT_CPU_SCALAR);
    float x[8] = {1, 2, 3, 4, 5, 6, 7, 8}, y[8];
    float c[4], s[4], c2[8], s2[8];
    for (int i = 0; i < 4; i++) {
        c[i] = c2[2 * i] = c2[2 * i + 1] = cosf(0.3f * (float)(i + 1));
        s[i] = s2[2 * i + 1] = sinf(0.3f * (float)(i + 1));
        s2[2 * i] = -s[i];
    }
    k.rope_halves(x, c, s, 8, y);
    for (int i = 0; i < 4; i++) {
        close_to(y[i], (double)x[i] * c[i] - (double)x[i + 4] * s[i], 1, "rope, first half");
        close_to(y[i + 4], (double)x[i] * s[i] + (double)x[i + 4] * c[i], 1, "rope, second half");
    }
    k.rope_adjacent(x, c2, s2, 8, y);
    for (int i = 0; i < 4; i++) {
        close_to(y[2 * i], (double)x[2 * i] * c[i] - (double)x[2 * i + 1] * s[i], 1, "rope, even");
        close_to(y[2 * i + 1], (double)x[2 * i] * s[i] + (double)x[2 * i + 1] * c[i], 1,
                 "rope, odd");
    }
}

// What becomes of a row of a head in a page of the type.
static void rounded(enum hearth_kv_type type, const float *x, uint32_t d, float *y) {
    float row[256];
    ht_kv_from_f32(type, x, d, row);
    ht_kv_to_f32(type, row, d, y);
}

// Two tiles of one query: stores, scores, weights, values, against softmax(q k / 4) v, k and v
// being rounded or not. Returns the mean square of the error.
static double formula_error(enum hearth_kv_type type, uint32_t d, bool round, uint64_t seed) {
    enum { D = 64, N = 100 };
    struct ht_vec_kernels k;
    ht_vec_kernels_init(&k, HT_CPU_SCALAR);
    static float kx[N][D], vx[N][D], kp[8][D * 17], vp[4][HT_PAGE_TOKENS * (D + 1)];
    float q[D], row[D + HT_LANES], s[HT_TILE], acc[D] = {0};
    kern_floats(&kx[0][0], N * D, &seed);
    kern_floats(&vx[0][0], N * D, &seed);
    kern_floats(q, D, &seed);
    for (uint32_t j = 0; j < N; j++) {
        k.k_store[type](kx[j], d, j % 16, kp[j / 16]);
        k.v_store[type](vx[j], d, j % HT_PAGE_TOKENS, vp[j / HT_PAGE_TOKENS]);
        if (round) rounded(type, kx[j], d, kx[j]);
        if (round) rounded(type, vx[j], d, vx[j]);
    }
    float m = -INFINITY, l[1][HT_LANES] = {0};
    for (uint32_t base = 0; base < N; base += HT_TILE) {
        uint32_t n = N - base < HT_TILE ? N - base : HT_TILE;
        const void *kg[4], *vg[2] = {vp[base / 32], vp[base / 32 + 1]}, *next[4];
        for (uint32_t g = 0; g < 4; g++) kg[g] = kp[base / 16 + g], next[g] = vg[g / 2];
        k.q_load[type](q, d, 1, 0, row);
        k.attn_qk[type](row, 1, d, kg, kg, 0, (n + 15) / 16, s);
        float c;
        k.attn_softmax(s, 1, &(uint32_t){0}, &n, 0.25f, 0.0f, &m, l, &c);
        k.attn_pv[type](acc, s, &c, 1, 1, d, vg, next, 0, n);
    }
    double sum = 0, want[D] = {0}, error = 0;
    for (int j = 0; j < N; j++) {
        double dot = 0;
        for (uint32_t e = 0; e < d; e++) dot += (double)q[e] * kx[j][e];
        sum += exp(dot / 4);
        for (uint32_t e = 0; e < d; e++) want[e] += exp(dot / 4) * vx[j][e];
    }
    for (uint32_t e = 0; e < d; e++)
        error += pow(acc[e] / ht_sum16(l[0], 16) - want[e] / sum, 2) / d;
    return error;
}

// Mean errors over some rows; numbers of a page are of size 1 here.
static double mean_error(enum hearth_kv_type type, uint32_t d, bool round) {
    double sum = 0;
    for (uint64_t seed = 8; seed < 40; seed++) sum += formula_error(type, d, round, seed) / 32;
    return sqrt(sum);
}

static void test_attention_formula(void **state) {
    (void)state;
    static const struct {
        enum hearth_kv_type type;
        uint32_t d;
        double rounded;
    } rows[] = {{HEARTH_KV_F32, 20, 1e-6},
                {HEARTH_KV_F16, 20, 1e-6},
                {HEARTH_KV_F16, 64, 1e-6},
                {HEARTH_KV_BF16, 20, 1e-6},
                {HEARTH_KV_Q8_0, 64, 1e-6},
                {HEARTH_KV_I16, 20, 4e-5}, // queries and weights are rounded, too
                {HEARTH_KV_I16, 64, 8e-5}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        double error = mean_error(rows[i].type, rows[i].d, true);
        print_message("%s, heads of %u: error %.2e, %.2e with that of rounding keys and values\n",
                      ht_kv_type_name(rows[i].type), rows[i].d, error,
                      mean_error(rows[i].type, rows[i].d, false));
        assert_true(error < rows[i].rounded);
    }
    // All its rounding together is less than that of halves.
    assert_true(mean_error(HEARTH_KV_I16, 64, false) < mean_error(HEARTH_KV_F16, 64, false));
}

int main(int argc, char **argv) {
    if (argc > 1 && strcmp(argv[1], "--bench") == 0) return bench_vec(argc - 2, argv + 2);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rows),         cmocka_unit_test(test_huge),
        cmocka_unit_test(test_acts),         cmocka_unit_test(test_stores),
        cmocka_unit_test(test_attention),    cmocka_unit_test(test_norm_formulas),
        cmocka_unit_test(test_rope_formula), cmocka_unit_test(test_attention_formula),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
