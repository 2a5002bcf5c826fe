// SPDX-License-Identifier: MIT
// The linear step of the cpu backend, as the executor sees it: activations are prepared once per
// row, then threads take shares of the output rows. One micro-kernel a weight class (int8, bf16,
// f32), fed by panel packers, one a format; the same tile serves one token and five hundred with
// the same bits.
//
// The numeric law, kept bit for bit by every kernel of every level. Per output element, from
// y = bias, or 0, k rising:
//   float formats   y = fma(w[k], x[k], y), one k after the other
//   codes           per block of 32, a_scale being that of its activations, all sums exact in
//                   int32, n = (float)sum(code - offset times q), S = 1.5 * 2^23:
//                     s = fma(S + n, w_scale, -S * w_scale)
//                     y = fma(s, a_scale, y)
//                     y = fma(-min, a_scale * (float)sum(q), y)          formats with mins
//                   where halves of 16 weights have scales of their own, s of the first half goes
//                   on as fma(n, w_scale, s) in the second, and each half's min is taken off s
//                   behind it, as fma(-min, (float)sum(q), s), before y takes it;
//                   s is sum * w_scale, rounded once, for scales of at most 22 bits, as those of
//                   all formats are, and below 2^104; with S no sum is converted (kernels.h)
//   last            y = residual + y
// Of a matrix that has a scale, y = 0 at first, then, behind all blocks, y = scale * y, y = y +
// bias, each rounded.
// Activations of codes, per block: of three steps, amax / 127, amax / 126 and amax / 125 (or 120,
// 119 and 118, by the kind), the one that rounds these 32 numbers best. inverse = top / amax; e = x
// * inverse - rint(x * inverse); the error is the sum of e * e in 16 lanes (lane j: e[j] squared,
// then fma with e[j + 16]; lanes j and j + 8, then 4, 2, 1) over top squared (as a product with the
// f32 constant); the least wins, the larger top on a tie. q = rint(x * inverse), scale = amax /
// top. A block whose largest top / amax overflows is all zero; one that holds an infinity or a NaN
// has the scale NaN. (Against amax / 127 alone this takes a tenth off the error of the logits, for
// some 40 cycles a block.)
// The bf16 instructions of x86 and Arm add pairs in their own way: BF16 alone may differ between
// levels, never within one.
#ifndef HT_CPU_LINEAR_H
#define HT_CPU_LINEAR_H

#include "base/status.h"
#include "quant/format.h"

// Output rows are computed in groups of HT_ROW_GROUP; a thread's share begins at a multiple of it.
#define HT_ROW_GROUP 32
// Tokens that share a pack of the weights: their sums (128 bytes each) and activations (704 bytes a
// chunk each) stay in the L2 cache. A job of more is done so many at a time.
#define HT_LINEAR_TOKENS 256
static inline uint32_t ht_linear_together(uint32_t n_tokens) {
    return n_tokens < HT_LINEAR_TOKENS ? n_tokens : HT_LINEAR_TOKENS;
}

struct ht_linear_kernels; // the function table of one CPU level (kernels.h)

// What a weight format wants its activations as.
enum ht_act_kind {
    HT_ACT_ROW_F32,  // f32 as they are (F32, F16)
    HT_ACT_ROW_BF16, // rounded to bf16, nearest even (BF16)
    // int8 in blocks of 32 with an f32 scale and what kernels of the format want of their sums:
    // where a block has one scale, where it has a min as well, where its halves have scales
    HT_ACT_ROW_Q8,
    HT_ACT_ROW_Q8_MINS,
    HT_ACT_ROW_Q8_HALVES,
    // The same with codes of 120 at most, so that a code of four bits and one of these have a byte
    // for their sum (x86/avx512vnni_sums.c): Q4_0, Q4_1 and those of superblocks, which stand in
    // one file with them, but for the ternary ones.
    HT_ACT_ROW_Q8_120,
    HT_ACT_ROW_Q8_120_MINS,
    HT_ACT_ROW_Q8_120_HALVES,
    HT_N_ACT_KINDS,
};
enum ht_act_kind ht_linear_act_kind(enum ht_format f);
static inline bool ht_act_is_q8(enum ht_act_kind kind) {
    return kind >= HT_ACT_ROW_Q8;
}

// Bytes of one prepared activation row of n_in elements (n_in padded up as the kernels want, and
// behind that the rest of a line, and perhaps nine more, that nobody sets, nor reads but to copy
// whole rows): a multiple of 64. 0: n_in is too large.
size_t ht_act_row_bytes(enum ht_act_kind kind, uint32_t n_in);
// Prepares one row. dst is 64-byte aligned, ht_act_row_bytes long. Depends on nothing but x.
void ht_act_prepare(const struct ht_linear_kernels *k, enum ht_act_kind kind, const float *x,
                    uint32_t n_in, void *dst);

// Bytes of n columns, whole blocks of 32, of a prepared row.
size_t ht_act_bytes(const struct ht_linear_kernels *k, enum ht_act_kind kind, size_t n);
// Prepares so many of n_rows rows, as if whole rows were: x is [n_rows][n], dst the place of the
// columns in row 0, rows being row_bytes long. A row's last columns need be no whole blocks where
// its kind has floats.
void ht_act_prepare_columns(const struct ht_linear_kernels *k, enum ht_act_kind kind,
                            const float *x, uint32_t n_rows, uint32_t n, void *dst,
                            size_t row_bytes);

// What a thread reads behind its linear steps, whatever it is: n runs of run_bytes each, of which
// the first `done` bytes of the first one have been asked for.
struct ht_linear_later {
    const uint8_t *const *run;
    size_t n, run_bytes, done;
};

// What a thread has asked the memory for ahead of its use: the first n_lines cache lines of each of
// the first n_rows rows at `at`. And the activations that it has just multiplied, or NULL. `later`
// is the caller's to fill: panels that multiply so many tokens that the memory has time to spare
// (ask_later in kernels.h) ask for a line of it with each of the weights, in order, and count it.
struct ht_linear_asked {
    const uint8_t *at, *act;
    size_t n_lines;
    uint32_t n_rows;
    struct ht_linear_later later;
};

// Whether steps of so many tokens may ask for what is read later; not all do.
bool ht_linear_asks_later(const struct ht_linear_kernels *k, uint32_t n_tokens);

// Weights that a thread reads next, and the bytes of one of their rows; at is NULL: not known.
struct ht_linear_next {
    const uint8_t *at;
    size_t row_bytes;
};

// Asks for the rows that should be on their way when a stream of n_tokens begins there, as far as
// the thread has not done so. Asks for nothing where it is not known.
void ht_linear_ask(const struct ht_linear_kernels *k, struct ht_linear_asked *asked,
                   struct ht_linear_next next, uint32_t n_tokens);

struct ht_linear_job {
    enum ht_format format;
    bool repacked;         // by ht_linear_repack
    const uint8_t *weight; // [n_out][n_in] in the file's layout, or repacked
    uint32_t n_in, n_out;
    const uint8_t *act; // [n_tokens] rows of ht_act_row_bytes, of the kind that the format wants
    uint32_t n_tokens;
    // Rows of act that may be read, whatever they hold, or 0: n_tokens. With some behind the last
    // token, 5, 7, 9, 11 ... are computed as the next number that streams are made for, or as one
    // more, which is faster.
    uint32_t n_act_rows;
    float *y; // [n_tokens][y_stride]; y[0][0] is output row y_first
    uint32_t y_first;
    size_t y_stride;
    const float *scale; // one number, of the whole matrix; NULL: 1
    const float *bias;  // [n_out] or NULL
    // [n_tokens][residual_stride] or NULL: y = residual + (W x + b). May be y itself
    const float *residual;
    size_t residual_stride;
    struct ht_linear_next then;    // behind these: asked for while the last rows are computed
    struct ht_linear_asked *asked; // the thread's, or NULL: read and brought up to date
};

// Per-thread scratch that ht_linear_rows needs (64-byte aligned), for rows of at most max_in and
// max_tokens tokens.
size_t ht_linear_scratch_bytes(uint32_t max_in, uint32_t max_tokens);
// Computes output rows [row_begin, row_end); row_begin is a multiple of HT_ROW_GROUP, row_end too
// or n_out.
void ht_linear_rows(const struct ht_linear_kernels *k, const struct ht_linear_job *job,
                    uint32_t row_begin, uint32_t row_end, void *scratch);

// OK, or E_UNSUPPORTED: a format without a packer, an n_in that is not a whole number of its
// blocks.
HT_MUST_CHECK enum hearth_status ht_linear_supports(enum ht_format f, uint64_t n_in, uint64_t n_out,
                                                    struct hearth_error *err);

// Repacked weights: as many bytes in the order in which a level's kernels read them, from the first
// to the last. LANES rows stand together (the level's vectors hold so many; of F16 and BF16 all of
// a group), two blocks of the format (of BF16 pairs of weights) at a time, or the last one alone:
// first of each block what fills no 32-bit word of every row (an f16 scale; of F16 the weight
// itself), then the words, word i of every row beside each other, those of two blocks of 32 weights
// in turn. Codes of Q8_0 are + 128, unsigned, where the level has VNNI. A block of Q6_K is 16
// scales, each a byte of every row, then two steps of four blocks of 32 codes: three have a byte a
// code, of which the upper two bits hold the fourth's, the least in the first; words of a block's
// two halves stand in turn. Rows of one group begin where the file's layout has its first row, and
// products are the same bit for bit.
//
// Whether the level has kernels for that and the shape has it: n_out is a multiple of
// HT_ROW_GROUP.
bool ht_linear_can_repack(const struct ht_linear_kernels *k, enum ht_format f, uint64_t n_in,
                          uint64_t n_out);
// Copies rows [row_begin, row_end), multiples of HT_ROW_GROUP, of a matrix that the level can
// repack, from the file's layout to their place in `to`, which is as large as the matrix.
void ht_linear_repack(const struct ht_linear_kernels *k, enum ht_format f, uint32_t n_in,
                      const uint8_t *from, size_t row_begin, size_t row_end, uint8_t *to);

// The table of a level (features.h's enum), filled scalar first and overridden level by level.
const struct ht_linear_kernels *ht_linear_kernels_get(int level);

#endif
