// SPDX-License-Identifier: MIT
// What lies between the driver of the linear step (linear.c) and the kernels of a CPU level: the
// layout of prepared activations and of panels, and the table that a level fills. Private to
// src/backend/cpu/linear and to tests/kern. Numeric order: linear.h.
//
//   driver, per group of 32 output rows, per chunk of K:
//     few tokens:    stream   reads 32 rows of the file's bytes, multiplies at once
//     many tokens:   pack     writes a panel (16 KB, L1), once
//                    tile     panel x tokens, a few tokens at a time in registers
//   both continue sums: from zeros, the bias, or acc[token][32], which holds them between the
//   chunks, to acc or, behind the last chunk, to the output itself, if the matrix has no scale
#ifndef HT_CPU_LINEAR_KERNELS_H
#define HT_CPU_LINEAR_KERNELS_H

#include "backend/cpu/linear.h"

#define HT_Q8_BLOCK 32
// A panel is 16 KB of codes or floats: so many weights of each of the 32 rows (twice as many of
// BF16 that is multiplied as it is).
#define HT_CHUNK_Q8    512
#define HT_CHUNK_FLOAT 128
// Rows of float formats are padded with zeros to a multiple of this.
#define HT_PAD_FLOAT 32

// How a kind of 8-bit activations is made: the steps that are tried for a block, 1 / top^2, and
// what follows its scale.
#define HT_N_TOPS 3
enum ht_act_rest { HT_REST_BIAS, HT_REST_SUM, HT_REST_HALVES };
struct ht_act_how {
    float top[HT_N_TOPS], weight[HT_N_TOPS];
    enum ht_act_rest rest;
};
// Of HT_ACT_ROW_Q8 or one of those behind it.
const struct ht_act_how *ht_act_how(enum ht_act_kind kind);

// Sums of products of codes start at HT_SHIFTED, the bits of the f32 HT_SHIFT = 1.5 * 2^23. Up to
// 2^22 more or less, they are the bits of the f32 that is so much more or less, so no integer is
// ever converted.
#define HT_SHIFT   12582912.0f
#define HT_SHIFTED 0x4b400000

// HT_ACT_ROW_Q8 and those behind it, block after block. Kernels take what they need: code offsets
// by way of bias (code + 128 unsigned, so the sum starts at -128 * sum), mins by way of the scaled
// sum. No more than one format wants stands there, so that a chunk of many tokens fits the L1 cache
// beside a panel.
struct ht_act_q8 {
    int8_t q[HT_Q8_BLOCK];
    float scale;
    union {
        struct {           // HT_REST_BIAS, of blocks with one scale:
            int32_t bias;  // HT_SHIFTED - 128 * (sum of q)
            int32_t pairs; // sum of q[i] * (q[16 + i] + 128), i < 16
        };
        struct {                // HT_REST_SUM, of blocks with one scale and one min:
            float sum;          // scale * (float)(sum of q)
            int32_t pairs_less; // pairs less 8 * (sum of q)
        };
        int32_t bias_half[2]; // HT_REST_HALVES: bias of each 16
    };
};
_Static_assert(sizeof(struct ht_act_q8) == 44, "no padding");

// What follows the scale, of the sums of both halves and of the products of the one's codes by the
// other's (pairs).
static inline void ht_act_set_rest(enum ht_act_rest rest, struct ht_act_q8 *b, int32_t low,
                                   int32_t high, int32_t pairs) {
    if (rest == HT_REST_HALVES) {
        b->bias_half[0] = HT_SHIFTED - 128 * low;
        b->bias_half[1] = HT_SHIFTED - 128 * high;
    } else if (rest == HT_REST_SUM) {
        b->sum = b->scale * (float)(low + high);
        b->pairs_less = pairs - 8 * (low + high);
    } else {
        b->bias = HT_SHIFTED - 128 * (low + high);
        b->pairs = pairs;
    }
}

static inline struct ht_act_q8 *ht_act_block(struct ht_act_q8 *first, uint32_t i, size_t step) {
    return (struct ht_act_q8 *)(void *)((uint8_t *)first + i * step);
}

// HT_ACT_ROW_F32: float[n_in padded to HT_PAD_FLOAT]. HT_ACT_ROW_BF16: levels without bf16
// instructions keep the rounded values as float, the others as uint16_t; a row has room for floats.

// Weights of 32 rows x n_k, made by a packer for the tile of its own level.
//   int8:  code [n_k / 4][32][4]    signed, or + 128 unsigned (avx2vnni, avx512vnni); those of
//          formats with mins are 0 .. 127 and the same at all levels, and so are those of formats
//          with an offset below 128 at avx2 and avx512; panels for products of sums have what
//          q8_sums.h says
//          or [n_k / 8][2][8][2][8] (level neon_i8mm): rows 4 b + 2 a + c by [a][b][c]
//          scale, back, min [n_k / group][32]; back is -HT_SHIFT * scale of whole blocks and first
//          halves, where a level's packers and tiles have that; min of halves of blocks is a 128th
//          of it (half_128, but at level scalar); min of signed codes at avx2 is the int32 that a
//          block's sum begins with (q8_sum.h)
//   f32:   code is float [n_k][32]
//   bf16:  code is uint16_t [n_k / 2][32][2]
struct ht_panel {
    void *code; // 64-byte aligned, 16 KB
    float *scale, *back, *min;
    int32_t *start; // [n_k / 32][32], of panels for products of sums (q8_sums.h)
    // Of a format that is multiplied in place: the chunk of repacked weights, from whose first
    // `lanes` rows the next ones are part_bytes away; code is not made.
    const uint8_t *in_place;
    size_t part_bytes;
};

// Packs 32 whole rows; w points at the first weight of the chunk in row 0, rows are row_bytes
// apart; n_k is a whole number of the format's blocks (of HT_PAD_FLOAT for the float formats).
typedef void ht_pack_fn(const struct ht_format_info *f, const uint8_t *w, size_t row_bytes,
                        uint32_t n_k, const struct ht_panel *p);

// What is asked for by address is cut into so many equal parts, and a line of each asked for in
// turn. A processor that follows ascending addresses by itself is then so far in front of each part
// that it has been there when a line is asked for, and the asking waits for nothing.
#define HT_ASK_STREAMS 4

// What a stream of repacked weights asks for (ask.h): rows behind as well as what it reads soon,
// the latter only, twice or once, or nothing, where the processor follows its one run of addresses
// by itself, or does so but for those of some formats, which are asked for once.
enum ht_ask { HT_ASK_BEHIND, HT_ASK_NEAR, HT_ASK_NEAR_ONCE, HT_ASK_NOTHING, HT_ASK_LISTED };

// Whose runs HT_ASK_LISTED asks for: measured on Zen 4 (docs/repacked.md).
static inline bool ht_ask_listed(enum ht_format f) {
    return f == HT_Q4_0 || f == HT_Q2_K || f == HT_Q3_K;
}

// Whether a stream of n tokens of repacked rows asks for each page of memory on its own, where its
// level asks for pages at all: all measured (docs/kernels.md, "Pages").
static inline bool ht_page_by_page(enum ht_format f, uint32_t n_tokens) {
    bool floats = f == HT_F16 || f == HT_BF16;
    return floats ? n_tokens <= 4 : (f == HT_Q8_0 || f == HT_Q4_0) && n_tokens == 1;
}

struct ht_tile_args {
    uint32_t n_k, n_tokens;
    const uint8_t *act; // the chunk's part of row 0
    size_t act_stride;  // bytes from token to token
    // The activations may not be in the second-level cache: a tile asks for those of the tokens
    // behind its own, which costs it 2 to 5 % where they are there.
    bool act_far;
    // [n_tokens][32]: the sums so far, and where they go; strides in floats.
    const float *from;
    size_t from_stride;
    float *to;
    size_t to_stride;
    // Where the output will be written, by the tile itself or behind it, if these are the last sums
    // of a tile; else NULL. The lines are asked for meanwhile.
    float *out;
    size_t out_stride;
    // What a tile adds to its last sums, [n_tokens][32], in front: out = add + sum; or NULL. Not
    // for streams.
    const float *add;
    size_t add_stride;
    // What will be packed or streamed next, asked for meanwhile: rows of which it takes ahead_bytes
    // each, of a group. A tile may not know of any; then ahead_bytes is 0. ahead_in_turn: they are
    // HT_ASK_STREAMS equal parts, of which a line each is asked for in turn; the second and the
    // fourth are ahead_stride behind the first and the third, which are ahead_pair apart; not for
    // streams of as few tokens as ask by address, who cut it themselves.
    const uint8_t *ahead;
    size_t ahead_stride, ahead_pair;
    uint32_t ahead_bytes;
    bool ahead_in_turn;
    enum ht_ask ask; // of a stream of repacked weights
    bool ask_pages;  // by such a stream (ht_page_by_page)
};
typedef void ht_tile_fn(const struct ht_panel *p, const struct ht_tile_args *t);

// Pack and tile in one, in registers, for at most stream_tokens tokens: of repacked rows any
// number, of others one of ht_stream_tokens. It reads `lanes` rows side by side and meanwhile asks
// for those that are read next; its first ones should be on their way. t->ahead is known: its own
// rows if nothing else.
typedef void ht_stream_fn(const uint8_t *w, size_t row_bytes, const struct ht_tile_args *t);

// Streams that take codes in another order than that of weights bring a token's numbers in theirs,
// so many at a time. Where K has more they do it again for every `lanes` rows.
#define HT_IN_ORDER 16384
// How many they do it for at weight k of n_k, with rows of part `part`; 0: they are in order.
static inline uint32_t ht_to_order(uint32_t k, uint32_t n_k, uint32_t part) {
    if (k % HT_IN_ORDER != 0 || (part > 0 && n_k <= HT_IN_ORDER)) return 0;
    return n_k - k < HT_IN_ORDER ? n_k - k : HT_IN_ORDER;
}

// n_in floats to a row of HT_ACT_ROW_BF16, padded with zeros to HT_PAD_FLOAT.
typedef void ht_act_fn(const float *x, uint32_t n_in, void *dst);

typedef void ht_act_q8_fn(const struct ht_act_how *how, const float *x, uint32_t n_in,
                          struct ht_act_q8 *dst, size_t dst_step);

// The numbers of tokens that streams of rows as the file has them are made for, up to 16: n or the
// next one.
static inline uint32_t ht_stream_tokens(uint32_t n) {
    return n <= 4 ? n : n <= 8 ? (n + 1) & ~1u : n <= 12 ? 12 : 16;
}

// The formats that are multiplied: rows of a level's tables, HT_Q4_0_ROW and so on. All others
// share an empty one, HT_NO_ROW.
// clang-format off
#define HT_MULTIPLIED(ROW)                                                                         \
    ROW(HT_F32) ROW(HT_F16) ROW(HT_BF16)                                                           \
    ROW(HT_Q4_0) ROW(HT_Q4_1) ROW(HT_Q5_0) ROW(HT_Q5_1) ROW(HT_Q8_0)                               \
    ROW(HT_Q2_K) ROW(HT_Q3_K) ROW(HT_Q4_K) ROW(HT_Q5_K) ROW(HT_Q6_K)                               \
    ROW(HT_IQ1_S) ROW(HT_IQ1_M) ROW(HT_IQ2_XXS) ROW(HT_IQ2_XS) ROW(HT_IQ2_S)                       \
    ROW(HT_IQ3_XXS) ROW(HT_IQ3_S) ROW(HT_IQ4_NL) ROW(HT_IQ4_XS)                                    \
    ROW(HT_Q1_0) ROW(HT_Q2_0) ROW(HT_TQ1_0) ROW(HT_TQ2_0) ROW(HT_MXFP4) ROW(HT_NVFP4)
// clang-format on
#define HT_ROW_ID(f) f##_ROW,
enum ht_format_row { HT_NO_ROW, HT_MULTIPLIED(HT_ROW_ID) HT_N_ROWS };
#undef HT_ROW_ID
extern const uint8_t ht_format_row[HT_N_FORMATS];

// How a level computes a format.
struct ht_linear_format {
    ht_pack_fn *pack;
    ht_tile_fn *tile;
    ht_stream_fn *stream; // NULL: pack and tile
    uint32_t stream_tokens;
    // Up to so many tokens run through the stream several times, which is faster than a panel: the
    // memory is read while products are made. At least stream_tokens.
    uint32_t stream_most;
};

struct ht_linear_kernels {
    const char *name;
    uint32_t lanes; // rows that a stream of its own reads side by side
    // Streams of up to so many tokens ask for lines in the order of addresses (ask.h), but for
    // those of formats of few files: of entries, of a bit or two, and NVFP4.
    uint32_t address_tokens;
    // What streams of repacked weights ask for, for one token, and for more.
    enum ht_ask ask_one, ask_more;
    bool ask_pages;      // pages of weights are asked for ahead (linear.c)
    bool ask_later;      // panels that ask in turn do so for struct ht_linear_later, too
    bool signed_codes;   // of repacked Q8_0: as the file's; else + 128
    uint32_t bf16_bytes; // of a value of HT_ACT_ROW_BF16
    // n_in floats to blocks that lie dst_step bytes apart (as long as one in a prepared row).
    ht_act_q8_fn *act_q8;
    ht_act_fn *act_bf16;
    struct ht_linear_format format[HT_N_ROWS]; // by ht_format_row
    // The same of repacked weights (linear.h); pack is NULL where the level has none.
    struct ht_linear_format repacked[HT_N_ROWS];
};

// Rows of repacked weights that stand together: where a weight is a chain's next product as it is,
// all of a group, so that two vectors of rows take turns in their chains.
static inline uint32_t ht_repacked_rows(const struct ht_linear_kernels *k, enum ht_format f) {
    return f == HT_F16 || f == HT_BF16 ? HT_ROW_GROUP : k->lanes;
}

// Repacked Q6_K: where word i (of weights 4 i .. 4 i + 3) of a block of 32 stands among its eight:
// those of its first and second half in turn, as kernels read them.
static inline uint32_t ht_repacked_turn(uint32_t i) {
    return i % 4 * 2 + i / 4;
}

// How many rows ahead a stream asks, so that they are on their way when it begins to read them: as
// many as it reads side by side (of floats at 256 bits half of them), but a whole group of them
// where those would be too few bytes, and by address as long as that is short.
#define HT_LEAD_LEAST 8192
#define HT_LEAD_BYTES 65536
static inline uint32_t ht_lead_rows(const struct ht_linear_kernels *k, size_t row_bytes,
                                    uint32_t n_tokens) {
    bool group = row_bytes * k->lanes < HT_LEAD_LEAST;
    if (n_tokens <= k->address_tokens) group = row_bytes * HT_ROW_GROUP <= HT_LEAD_BYTES;
    return group ? HT_ROW_GROUP : k->lanes;
}

extern const struct ht_linear_kernels ht_linear_scalar;
#if defined(__x86_64__)
extern const struct ht_linear_kernels ht_linear_avx2, ht_linear_avx2_amd, ht_linear_avx2vnni;
extern const struct ht_linear_kernels ht_linear_avx512;
extern const struct ht_linear_kernels ht_linear_avx512vnni, ht_linear_avx512vnni_vbmi;
extern const struct ht_linear_kernels ht_linear_avx512bf16, ht_linear_avx512bf16_wide;
extern const struct ht_linear_kernels ht_linear_amx;
#elif defined(__aarch64__)
extern const struct ht_linear_kernels ht_linear_neon, ht_linear_neon_dotprod, ht_linear_neon_i8mm;
#endif

// Pieces that levels share.
ht_act_q8_fn ht_act_q8_scalar;
ht_act_fn ht_act_bf16_scalar;

#endif
