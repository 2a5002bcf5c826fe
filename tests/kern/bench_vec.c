// SPDX-License-Identifier: MIT
// test_vec --bench [--level L] [--dim D] [--rows R,...] [--positions N,...]:
// GMAC/s of the attention kernels for each KV type, one thread, its processor time. N positions are
// gone through again and again: 512 of a head stay in the cache, a few hundred thousand do not; the
// time of a stored head stands beside.
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "backend/cpu/kern_data.h"
#include "backend/cpu/vec.h"

int bench_vec(int argc, char **argv);

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

struct bench {
    const struct ht_vec_kernels *k;
    enum hearth_kv_type type;
    uint32_t d, n_rows, n_tiles;
    size_t page_bytes; // K and V of a head
    uint8_t *pages;
    float *q, *rows, *s, *p, *acc; // rows: query rows as q_load puts them
};

static uint8_t *page_at(const struct bench *b, uint32_t tile, uint32_t i) {
    return b->pages + ((size_t)(tile % b->n_tiles) * HT_TILE_PAGES + i) * b->page_bytes;
}

static void find_tile(const struct bench *b, uint32_t tile, const void **k, const void **v) {
    for (uint32_t i = 0; i < HT_TILE_PAGES; i++) {
        const uint8_t *at = page_at(b, tile, i);
        for (uint32_t g = 0; g < HT_PAGE_GROUPS; g++)
            k[i * HT_PAGE_GROUPS + g] = at + g * b->page_bytes / (2 * HT_PAGE_GROUPS);
        v[i] = at + b->page_bytes / 2;
    }
}

// Every tile once.
static void run_pass(const struct bench *b, bool values) {
    const void *k[HT_TILE_GROUPS], *v[HT_TILE_PAGES], *k2[HT_TILE_GROUPS], *v2[HT_TILE_PAGES];
    const void *next[HT_TILE_GROUPS];
    float c[HT_ATTN_MAX_ROWS];
    for (int r = 0; r < HT_ATTN_MAX_ROWS; r++) c[r] = 0.75f;
    for (uint32_t t = 0; t < b->n_tiles; t++) {
        find_tile(b, t, k, v);
        find_tile(b, t + 1, k2, v2);
        for (uint32_t g = 0; g < HT_TILE_GROUPS; g++) next[g] = v2[g / HT_PAGE_GROUPS];
        if (!values)
            b->k->attn_qk[b->type](b->rows, b->n_rows, b->d, k, k2, 0, HT_TILE_GROUPS, b->s);
        for (uint32_t r = 0, n; values && r < b->n_rows; r += n) {
            n = b->n_rows - r < HT_LANES ? b->n_rows - r : HT_LANES;
            b->k->attn_pv[b->type](b->acc + r * b->d, b->p + r * HT_TILE, c + r, 1, n, b->d, v,
                                   next, 0, HT_TILE);
        }
    }
}

// Nanoseconds of K and V of one head and position, stored one by one or a group at a time.
static double time_stores(const struct bench *b, bool groups) {
    double start = now();
    for (uint32_t pos = 0; pos < b->n_tiles * HT_TILE; pos += groups ? HT_LANES : 1) {
        uint32_t slot = pos % HT_PAGE_TOKENS;
        uint8_t *at = page_at(b, pos / HT_TILE, pos / HT_PAGE_TOKENS % HT_TILE_PAGES);
        uint8_t *group = at + slot / HT_LANES * b->page_bytes / (2 * HT_PAGE_GROUPS);
        if (groups) {
            b->k->k_group[b->type](b->q, b->d, group);
            b->k->v_group[b->type](b->q, b->d, slot, at + b->page_bytes / 2);
            continue;
        }
        b->k->k_store[b->type](b->q + slot, b->d, slot % HT_LANES, group);
        b->k->v_store[b->type](b->q + slot, b->d, slot, at + b->page_bytes / 2);
    }
    return (now() - start) * 1e9 / (b->n_tiles * HT_TILE);
}

// GMAC/s: the best of rounds of 10 ms.
static double rate(const struct bench *b, bool values) {
    double best = 0;
    for (int round = 0; round < 7; round++) {
        double start = now(), took = 0;
        uint64_t n = 0;
        for (; took < 0.01; took = now() - start) // asking takes as long as half a tile
            for (uint32_t t = 0; t < 128; t += b->n_tiles, n++) run_pass(b, values);
        double r = (double)n * b->n_tiles * HT_TILE * b->d * b->n_rows / took / 1e9;
        if (r > best) best = r;
    }
    return best;
}

static bool bench_type(struct bench *b, const uint32_t *rows, uint32_t n_positions) {
    b->n_tiles = n_positions / HT_TILE;
    b->page_bytes = 2 * HT_PAGE_TOKENS * ht_kv_row_bytes(b->type, b->d);
    b->pages = aligned_alloc(4096, b->n_tiles * HT_TILE_PAGES * b->page_bytes);
    if (!b->pages) return false;
    time_stores(b, false);
    double store = time_stores(b, false), groups = time_stores(b, true);
    double mb = (double)b->n_tiles * HT_TILE_PAGES * b->page_bytes / 1e6;
    for (; *rows; rows++) {
        b->n_rows = *rows;
        for (uint32_t r = 0; r < b->n_rows; r++)
            b->k->q_load[b->type](b->q + r * b->d, b->d, b->n_rows, r, b->rows);
        double qk = rate(b, false), pv = rate(b, true), bytes = mb * 1e6 / n_positions;
        printf("%-5s %7u positions (%5.1f MB) %2u rows  q K %6.1f  p V %6.1f GMAC/s  %5.1f GB/s  "
               "store %4.0f ns, in groups %4.0f\n",
               ht_kv_type_name(b->type), n_positions, mb, *rows, qk, pv,
               bytes / (b->n_rows * b->d / qk + b->n_rows * b->d / pv), store, groups);
        fflush(stdout);
    }
    free(b->pages);
    return true;
}

static void read_list(char *text, uint32_t *list, int n, uint32_t max) {
    memset(list, 0, (size_t)n * sizeof *list);
    for (char *p = strtok(text, ","); p && n > 1; p = strtok(NULL, ","), n--) {
        *list = (uint32_t)atoi(p);
        if (*list > max) *list = max;
        list++;
    }
}

int bench_vec(int argc, char **argv) {
    enum ht_cpu_level level = ht_cpu_best_level();
    uint32_t rows[8] = {1, 2, 6, 12}, positions[8] = {512, 262144}, d = 128;
    struct ht_vec_kernels k;
    for (int i = 0; i + 1 < argc; i += 2) {
        char *v = argv[i + 1];
        for (int l = 0; strcmp(argv[i], "--level") == 0 && l < HT_CPU_N_LEVELS; l++)
            if (strcmp(v, ht_cpu_level_name((enum ht_cpu_level)l)) == 0)
                level = (enum ht_cpu_level)l;
        if (strcmp(argv[i], "--dim") == 0) d = (uint32_t)atoi(v);
        if (strcmp(argv[i], "--rows") == 0) read_list(v, rows, 8, HT_ATTN_MAX_ROWS);
        if (strcmp(argv[i], "--positions") == 0) read_list(v, positions, 8, 1u << 22);
    }
    if (d < 32 || d > 1024 || d % 32 || !ht_cpu_level_usable(level)) return 2;
    ht_vec_kernels_init(&k, level);
    for (int r = 0; rows[r]; r++)
        if (rows[r] > k.attn_rows) rows[r] = k.attn_rows;
    struct bench b = {.k = &k, .d = d};
    uint64_t seed = 1;
    size_t q_floats = HT_LANES * d + 64, rows_floats = HT_ATTN_MAX_ROWS * ht_attn_q_floats(d);
    size_t n = q_floats + rows_floats + HT_ATTN_MAX_ROWS * (d + 2 * HT_TILE);
    float *data = aligned_alloc(64, n * sizeof *data);
    if (!data) return 1;
    kern_floats(data, n, &seed);
    b.q = data;
    b.rows = b.q + q_floats;
    b.acc = b.rows + rows_floats;
    b.s = b.acc + HT_ATTN_MAX_ROWS * d;
    b.p = b.s + HT_ATTN_MAX_ROWS * HT_TILE;
    for (float *p = b.p; p < b.p + HT_ATTN_MAX_ROWS * HT_TILE; p++) *p = *p < 0 ? -*p : *p;
    printf("level %s, head size %u\n", ht_cpu_level_name(level), d);
    for (int i = 0; positions[i]; i++)
        for (int t = 0; t < HT_N_KV_TYPES; t++) {
            b.type = (enum hearth_kv_type)t;
            if (positions[i] % HT_TILE || !bench_type(&b, rows, positions[i])) return 2;
        }
    free(data);
    return 0;
}
