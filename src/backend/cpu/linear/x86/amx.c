// SPDX-License-Identifier: MIT
// Kernels by AMX: a tile of activations (up to 16 tokens, one a row) times a tile of a panel (a row
// of it is four codes or two bf16 of each of 16 weight rows) is added to a tile of 16 x 16 sums.
//
// Codes: a block of 32 has scales of its own, so its sums leave the tile for memory and are folded
// into f32 by AVX-512, in the order and with the bits of linear.h. A block's product is started two
// blocks before its sums are needed, since it takes long. Tiles that move to and from memory do not
// overlap much with anything, and beside products f32 arithmetic has one port of two (measured on
// Granite Rapids); so formats with a scale for each 16 codes stay with vpdpbusd.
//
// BF16: sums stay in their tiles over a whole chunk. tdpbf16ps adds the products of 16 even and of
// 16 odd k by themselves, then both to the sum, without subnormals; so BF16 has the bits of this
// level, whatever the number of tokens.
//
// Every call configures the tiles and releases them: no state is left behind. Any thread.
#include "backend/cpu/linear/x86/amx.h"

#include "backend/cpu/linear/x86/vec_avx512.h"
#include "backend/cpu/x86/tile.h"

#define ASK_BY_ADDRESS 1
#include "backend/cpu/linear/ask.h"
#include "backend/cpu/linear/out.h"

#define SIDE 16 // tokens, and weight rows, of a tile

// Tiles: 0 .. 3 sums, 4 and 5 activations, 6 and 7 weights.

// Tokens of the upper and of the lower activations (0: those tiles are not used), of act_bytes of a
// row at a time.
static void configure(uint32_t upper, uint32_t lower, uint32_t act_bytes) {
    struct tile_config c = {.palette = 1};
    const uint32_t tokens[8] = {upper, upper, lower, lower, upper, lower};
    for (int t = 0; t < 6; t++) {
        c.row_bytes[t] = (uint16_t)(tokens[t] == 0 ? 0 : t < 4 ? SIDE * 4 : act_bytes);
        c.n_rows[t] = (uint8_t)tokens[t];
    }
    c.row_bytes[6] = c.row_bytes[7] = SIDE * 4;
    c.n_rows[6] = c.n_rows[7] = (uint8_t)(act_bytes / 4);
    TILE_CONFIGURE(c);
}

// ---- codes -------------------------------------------------------------------------------------

struct sums {
    vi row[SIDE]; // of a token: 16 weight rows
};

// A block of 16 tokens: its sums to f32, in the order of linear.h. ask: the same block of the next
// 16 tokens is asked for.
INLINE void fold_block(const bool has_min, const bool ask, const struct sums *s, const uint8_t *act,
                       size_t stride, const float *scale, const float *min, vf *y) {
    vf sc = load_floats(scale), back = sc * splat(-HT_SHIFT);
    vf m = has_min ? load_floats(min) : splat(0.0f);
    UNROLL(16)
    for (int i = 0; i < SIDE; i++, act += stride) {
        __asm__("" : "+r"(act)); // one address, not sixteen that all advance
        const struct ht_act_q8 *a = (const void *)act;
        if (ask) __builtin_prefetch(act + SIDE * stride);
        vf isum = (vf)(s->row[i] + splat_int(HT_SHIFTED));
        y[i] = fma_add(fma_add(isum, sc, back), splat(a->scale), y[i]);
        if (has_min) y[i] = fma_sub(m, splat(a->sum), y[i]);
    }
}

// What lies b blocks further on: started, and folded.
#define START(b, sum, a, w)                                                                        \
    do {                                                                                           \
        TILE_ZERO(sum);                                                                            \
        TILE_LOAD(a, act + (b) * sizeof(struct ht_act_q8), stride);                                \
        TILE_LOAD(w, code + (b)*8 * 128, 128);                                                     \
        TILE_CODES(sum, a, w);                                                                     \
    } while (0)
#define FOLD(b, s)                                                                                 \
    fold_block(has_min, ask, s, act + (b) * sizeof(struct ht_act_q8), stride,                      \
               scale + (b)*HT_ROW_GROUP, min + (b)*HT_ROW_GROUP, y)

// 16 tokens x 16 rows over a chunk.
INLINE void column(const bool has_min, const bool ask, const struct ht_panel *p,
                   const struct ht_tile_args *t, uint32_t token, uint32_t row) {
    const size_t stride = t->act_stride;
    const uint8_t *act = t->act + token * stride, *code = (uint8_t *)p->code + 4 * row;
    const float *scale = p->scale + row, *min = p->min + row;
    const float *from = t->from + token * t->from_stride + row;
    float *to = t->to + token * t->to_stride + row;
    uint32_t left = t->n_k / HT_Q8_BLOCK;
    struct sums even, odd;
    vf y[SIDE];
    ask_output(t, token, SIDE, row, LANES);
    UNROLL(16)
    for (uint32_t i = 0; i < SIDE; i++) y[i] = load_floats(from + i * t->from_stride);
    START(0, 0, 4, 6);
    if (left > 1) START(1, 1, 5, 7);
    TILE_STORE(0, &even, sizeof(vi));
    for (;; left -= 2) {
        if (left > 2) START(2, 0, 4, 6);
        if (left > 1) TILE_STORE(1, &odd, sizeof(vi));
        FOLD(0, &even);
        if (left == 1) break;
        if (left > 3) START(3, 1, 5, 7);
        if (left > 2) TILE_STORE(0, &even, sizeof(vi));
        FOLD(1, &odd);
        if (left == 2) break;
        act += 2 * sizeof(struct ht_act_q8);
        code += 2 * 8 * 128;
        scale += 2 * HT_ROW_GROUP;
        min += 2 * HT_ROW_GROUP;
    }
    UNROLL(16)
    for (uint32_t i = 0; i < SIDE; i++) store_floats(to + i * t->to_stride, y[i]);
}

// All tokens but the last n % 16.
INLINE void columns(const bool has_min, const struct ht_panel *p, const struct ht_tile_args *t) {
    const uint32_t whole = t->n_tokens / SIDE * SIDE;
    struct ahead ahead = ahead_of(t, whole / SIDE);
    vi *code = p->code;
    for (uint32_t i = 0; !has_min && i < t->n_k / 4 * 2; i++)
        code[i] ^= splat_int((int32_t)0x80808080);
    configure(SIDE, SIDE, HT_Q8_BLOCK); // 0, 4 and 6 for even blocks, 1, 5 and 7 for odd ones
    for (uint32_t token = 0; token < whole; token += SIDE) {
        ahead_step(&ahead);
        column(has_min, false, p, t, token, 0);
        column(has_min, true, p, t, token, SIDE);
        if (t->add) add_output(t, token, SIDE);
    }
    TILE_RELEASE();
}

void ht_columns_amx(const struct ht_panel *p, const struct ht_tile_args *t) {
    columns(false, p, t);
}
void ht_columns_min_amx(const struct ht_panel *p, const struct ht_tile_args *t) {
    columns(true, p, t);
}

// ---- BF16 --------------------------------------------------------------------------------------

#define DEPTH       32            // bf16 of a token that a tile of activations holds
#define DEPTH_BYTES (2 * DEPTH)   // of a token
#define PANEL_BYTES (DEPTH * 64u) // of a panel: 32 rows

// Up to 32 tokens x 32 rows over a chunk; the second 16 tokens where `lower`.
INLINE void square(const bool lower, const struct ht_panel *p, const struct ht_tile_args *t,
                   uint32_t token, struct ahead *ahead) {
    const uint8_t *act = t->act + token * t->act_stride, *w = p->code;
    const uint8_t *act_lower = act + SIDE * t->act_stride;
    const size_t from_bytes = t->from_stride * sizeof(float);
    const size_t to_bytes = t->to_stride * sizeof(float);
    const float *from = t->from + token * t->from_stride,
                *from_lower = from + SIDE * t->from_stride;
    float *to = t->to + token * t->to_stride, *to_lower = to + SIDE * t->to_stride;
    TILE_LOAD(0, from, from_bytes);
    TILE_LOAD(1, from + SIDE, from_bytes);
    if (lower) {
        TILE_LOAD(2, from_lower, from_bytes);
        TILE_LOAD(3, from_lower + SIDE, from_bytes);
    }
    for (uint32_t k = 0; k < t->n_k; k += DEPTH, w += PANEL_BYTES) {
        ahead_step(ahead);
        TILE_LOAD(6, w, 128);
        TILE_LOAD(4, act + 2 * k, t->act_stride);
        TILE_BF16(0, 4, 6);
        TILE_LOAD(7, w + 64, 128);
        TILE_BF16(1, 4, 7);
        if (!lower) continue;
        TILE_LOAD(5, act_lower + 2 * k, t->act_stride);
        TILE_BF16(2, 5, 6);
        TILE_BF16(3, 5, 7);
    }
    TILE_STORE(0, to, to_bytes);
    TILE_STORE(1, to + SIDE, to_bytes);
    if (!lower) return;
    TILE_STORE(2, to_lower, to_bytes);
    TILE_STORE(3, to_lower + SIDE, to_bytes);
}

void ht_tile_bf16_amx(const struct ht_panel *p, const struct ht_tile_args *t) {
    const uint32_t n_squares = (t->n_tokens + 2 * SIDE - 1) / (2 * SIDE);
    struct ahead ahead = ahead_of(t, n_squares * (t->n_k / DEPTH));
    uint32_t token = 0, left;
    if (t->n_tokens >= 2 * SIDE) configure(SIDE, SIDE, DEPTH_BYTES);
    for (; (left = t->n_tokens - token) >= 2 * SIDE; token += 2 * SIDE) {
        square(true, p, t, token, &ahead);
        if (t->add) add_output(t, token, 2 * SIDE);
    }
    if (left > SIDE) {
        configure(SIDE, left - SIDE, DEPTH_BYTES);
        square(true, p, t, token, &ahead);
    } else if (left > 0) {
        configure(left, 0, DEPTH_BYTES);
        square(false, p, t, token, &ahead);
    }
    if (t->add) add_output(t, token, left);
    TILE_RELEASE();
}

INLINE void add_bf16(const struct ht_tile_args *t, uint32_t k, const vi *w) {
    TILE_LOAD(4, t->act + 2 * k, t->act_stride);
    TILE_LOAD(6, w, sizeof *w);
    TILE_BF16(0, 4, 6);
}

// What a part of the rows asks for. Streams of several tokens are given four parts of the group
// behind, to ask for in turn (linear.c), which the asker by address does not do. (Into L1 the last
// rows ask for the group behind, whatever is read next.)
INLINE struct asker asker_of_bf16(const uint8_t *w, size_t stride, size_t n_bytes, uint32_t part,
                                  const struct ht_tile_args *t) {
    struct asker a = asker_of(w, stride, n_bytes, part, 1, false, t);
    if (!t->ahead_in_turn || t->ahead_bytes == 0) return a;
    const uint32_t n_lines = t->ahead_bytes / 64, n_parts = HT_ROW_GROUP / SIDE;
    const uint32_t from = n_lines * part / n_parts;
    a.line = t->ahead + from * 64;
    a.step = t->ahead_stride;
    a.left = a.run = HT_ASK_STREAMS;
    a.n_runs = n_lines * (part + 1) / n_parts - from;
    a.wrap = 64 - HT_ASK_STREAMS * a.step;
    if (a.n_runs == 0) ask_no_more(&a);
    a.then = (struct ht_linear_next){w + SIDE * stride, stride};
    if (n_bytes <= NEAR * 64) ask_then(&a);
    return a;
}

// Few tokens: the panel is 16 rows x 32 at a time, in the first-level cache. It becomes a tile
// while the next is written, since a tile waits for what is on its way to the cache.
void ht_stream_bf16_amx(const uint8_t *w, size_t row_bytes, const struct ht_tile_args *t) {
    const size_t n_bytes = t->n_k * sizeof(uint16_t);
    vi panel[2][SIDE];
    configure(t->n_tokens, 0, DEPTH_BYTES);
    for (uint32_t part = 0; part < HT_ROW_GROUP / SIDE; part++, w += SIDE * row_bytes) {
        struct rows q = rows_of(w, row_bytes, 64, 1);
        struct asker asker = asker_of_bf16(w, row_bytes, n_bytes, part, t);
        TILE_LOAD(0, t->from + SIDE * part, t->from_stride * sizeof(float));
        for (uint32_t k = 0; k < t->n_k; k += DEPTH, rows_advance(&q, DEPTH_BYTES)) {
            load64(&q, panel[k / DEPTH % 2]);
            ask(&asker, DEPTH_BYTES * SIDE, 0, 2);
            if (k > 0) add_bf16(t, k - DEPTH, panel[(k / DEPTH + 1) % 2]);
            ask(&asker, DEPTH_BYTES * SIDE, 1, 2);
        }
        add_bf16(t, t->n_k - DEPTH, panel[(t->n_k / DEPTH + 1) % 2]);
        TILE_STORE(0, t->to + SIDE * part, t->to_stride * sizeof(float));
        ask_rest(&asker, n_bytes, LANES);
    }
    TILE_RELEASE();
}
