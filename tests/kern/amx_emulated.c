// SPDX-License-Identifier: MIT
// The kernels of level amx over tiles that are plain memory, for machines that have no others. What
// the processor would refuse ends the program: a tile that is not configured, shapes that do not
// fit. Linked in front of the library, these kernels take the place of its own.
//
// Source of the instructions: Intel 64 and IA-32 Architectures Software Developer's Manual, volume
// 2 (LDTILECFG, TILELOADD, TILESTORED, TDPBSSD, TDPBF16PS).
#include "backend/cpu/x86/tile.h"

#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { N_TILES = 8, N_ROWS = 16, N_BYTES = 64 };

static _Thread_local struct {
    bool configured;
    struct tile_config config;
    uint8_t row[N_TILES][N_ROWS][N_BYTES];
} tiles;

static void expect(bool ok, const char *what) {
    if (ok) return;
    fprintf(stderr, "amx: %s\n", what);
    abort();
}

static void configure_tiles(const struct tile_config *c) {
    static const uint8_t zero[N_TILES * sizeof(uint16_t)];
    expect(c->palette == 1 && c->start_row == 0, "a palette other than 1, or a start row");
    expect(memcmp(c->reserved, zero, sizeof c->reserved) == 0 &&
               memcmp(c->row_bytes + N_TILES, zero, N_TILES * sizeof *c->row_bytes) == 0 &&
               memcmp(c->n_rows + N_TILES, zero, N_TILES) == 0,
           "reserved bytes of a configuration are set");
    for (int t = 0; t < N_TILES; t++) {
        expect(c->row_bytes[t] <= N_BYTES && c->n_rows[t] <= N_ROWS, "a tile is too large");
        expect((c->row_bytes[t] == 0) == (c->n_rows[t] == 0), "a tile has rows or bytes alone");
    }
    memset(&tiles, 0, sizeof tiles);
    tiles.config = *c;
    tiles.configured = true;
}

static void release_tiles(void) {
    memset(&tiles, 0, sizeof tiles);
}

static unsigned rows_of_tile(int t) {
    expect(tiles.configured && tiles.config.n_rows[t] > 0, "a tile is used that has no shape");
    return tiles.config.n_rows[t];
}

static void zero_tile(int t) {
    (void)rows_of_tile(t);
    memset(tiles.row[t], 0, sizeof tiles.row[t]);
}

static void load_tile(int t, const void *p, size_t step) {
    zero_tile(t);
    for (unsigned i = 0; i < rows_of_tile(t); i++)
        memcpy(tiles.row[t][i], (const uint8_t *)p + i * step, tiles.config.row_bytes[t]);
}

static void store_tile(int t, void *p, size_t step) {
    for (unsigned i = 0; i < rows_of_tile(t); i++)
        memcpy((uint8_t *)p + i * step, tiles.row[t][i], tiles.config.row_bytes[t]);
}

static void expect_product(int sum, int act, int w) {
    const struct tile_config *c = &tiles.config;
    expect(sum != act && sum != w && act != w, "a tile twice in a product");
    expect(rows_of_tile(sum) == rows_of_tile(act) && c->row_bytes[act] == 4 * rows_of_tile(w) &&
               c->row_bytes[sum] == c->row_bytes[w] && c->row_bytes[w] % 4 == 0,
           "shapes of a product do not fit");
}

static void multiply_codes(int sum, int act, int w) {
    expect_product(sum, act, w);
    for (unsigned m = 0; m < tiles.config.n_rows[sum]; m++)
        for (unsigned n = 0; n < tiles.config.row_bytes[sum] / 4u; n++) {
            int32_t s;
            memcpy(&s, &tiles.row[sum][m][4 * n], sizeof s);
            for (unsigned k = 0; k < tiles.config.row_bytes[act]; k++)
                s += (int8_t)tiles.row[act][m][k] * (int8_t)tiles.row[w][k / 4][4 * n + k % 4];
            memcpy(&tiles.row[sum][m][4 * n], &s, sizeof s);
        }
}

static float flushed(float x) {
    return fpclassify(x) == FP_SUBNORMAL ? copysignf(0, x) : x;
}

static float bf16_at(const uint8_t *p) {
    uint32_t bits = (uint32_t)p[0] << 16 | (uint32_t)p[1] << 24;
    float x;
    memcpy(&x, &bits, sizeof x);
    return flushed(x);
}

static void multiply_bf16(int sum, int act, int w) {
    expect_product(sum, act, w);
    for (unsigned m = 0; m < tiles.config.n_rows[sum]; m++)
        for (unsigned n = 0; n < tiles.config.row_bytes[sum] / 4u; n++) {
            float part[2] = {0, 0}, s;
            for (unsigned k = 0; k < tiles.config.row_bytes[act] / 2u; k++)
                part[k % 2] =
                    flushed(fmaf(bf16_at(&tiles.row[act][m][2 * k]),
                                 bf16_at(&tiles.row[w][k / 2][4 * n + 2 * (k % 2)]), part[k % 2]));
            memcpy(&s, &tiles.row[sum][m][4 * n], sizeof s);
            s = flushed(flushed(s) + flushed(part[0] + part[1]));
            memcpy(&tiles.row[sum][m][4 * n], &s, sizeof s);
        }
}

#undef TILE_CONFIGURE
#undef TILE_RELEASE
#undef TILE_LOAD
#undef TILE_STORE
#undef TILE_ZERO
#undef TILE_CODES
#undef TILE_BF16
#define TILE_CONFIGURE(c)       configure_tiles(&(c))
#define TILE_RELEASE()          release_tiles()
#define TILE_LOAD(t, p, step)   load_tile(t, p, step)
#define TILE_STORE(t, p, step)  store_tile(t, p, step)
#define TILE_ZERO(t)            zero_tile(t)
#define TILE_CODES(sum, act, w) multiply_codes(sum, act, w)
#define TILE_BF16(sum, act, w)  multiply_bf16(sum, act, w)
#include "backend/cpu/linear/x86/amx.c"
