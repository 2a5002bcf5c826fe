// SPDX-License-Identifier: MIT
// Weights in the order of linear.h, "Repacked weights". Any thread; owns nothing.
#include <string.h>

#include "backend/cpu/linear/kernels.h"

bool ht_linear_can_repack(const struct ht_linear_kernels *k, enum ht_format f, uint64_t n_in,
                          uint64_t n_out) {
    const struct ht_format_info *info = ht_format_get((uint32_t)f);
    return info && k->repacked[ht_format_row[f]].pack && n_out % HT_ROW_GROUP == 0 &&
           n_in % info->block_len == 0 && n_in % HT_PAD_FLOAT == 0;
}

// Whether what a block has beside whole words stands in front of them.
static bool rest_leads(enum ht_format f) {
    switch (f) {
    case HT_Q4_0:
    case HT_Q5_0:
    case HT_Q8_0:
    case HT_IQ4_NL:
    case HT_MXFP4: return true;
    default: return false;
    }
}

struct blocks { // of a format
    enum ht_format format;
    size_t n_bytes, rest; // of one; beyond its whole words
    bool leads, in_turn;  // the rest does; two blocks' words stand in turn
    uint32_t flip;        // bits of each word
};

static uint32_t load_word(const uint8_t *p) {
    uint32_t x;
    memcpy(&x, p, 4);
    return x;
}

// Q6_K: of a step of four blocks of 32 weights, the first three, whose codes have six bits of a
// byte, and in the two others two bits each of the fourth block's codes. Word i of each.
static void step_q6_k(const uint8_t *block, size_t step, size_t i, uint32_t out[3]) {
    const uint32_t low = 0x0f0f0f0f, two = 0x03030303;
    const uint32_t even = load_word(block + 64 * step + 4 * i);
    const uint32_t odd = load_word(block + 64 * step + 32 + 4 * i);
    const uint32_t high = load_word(block + 128 + 32 * step + 4 * i);
    const uint32_t fourth = (odd >> 4 & low) | (high >> 6 & two) << 4;
    out[0] = (even & low) | (high & two) << 4;
    out[1] = (odd & low) | (high >> 2 & two) << 4;
    out[2] = (even >> 4 & low) | (high >> 4 & two) << 4;
    for (int b = 0; b < 3; b++) out[b] |= (fourth >> 2 * b & two) << 6;
}

// A row's block of Q6_K: scales, a byte of every row, then both steps' blocks.
static void repack_q6_k(const uint8_t *block, uint32_t row, uint32_t lanes, uint8_t *to) {
    for (uint32_t g = 0; g < 16; g++) to[g * lanes + row] = block[192 + g];
    to += 4 * (4 * lanes + row);
    for (size_t step = 0; step < 2; step++, to += 4 * 24 * lanes) {
        for (uint32_t i = 0; i < 8; i++) {
            uint32_t word[3];
            step_q6_k(block, step, i, word);
            for (uint32_t b = 0; b < 3; b++)
                memcpy(to + 4 * lanes * (8 * b + ht_repacked_turn(i)), &word[b], 4);
        }
    }
}

// A row's block of another format: its words, `gap` vectors of rows apart.
static void repack_words(const struct blocks *b, const uint8_t *block, uint32_t row, uint32_t lanes,
                         size_t gap, uint8_t *to) {
    to += 4 * row;
    for (size_t at = 0; at < b->n_bytes - b->rest; at += 4, to += 4 * lanes * gap) {
        const uint32_t word = load_word(block + at) ^ b->flip;
        memcpy(to, &word, 4);
    }
}

// n blocks of `lanes` rows: what is left of them, then their words.
static uint8_t *repack_blocks(const struct blocks *b, const uint8_t *from, size_t row_bytes,
                              uint32_t lanes, size_t n, uint8_t *to) {
    const size_t words = b->leads ? b->rest : 0, rest = b->leads ? 0 : b->n_bytes - b->rest;
    const size_t vector = 4 * lanes, n_bytes = vector * (b->n_bytes / 4); // of a block's words
    for (size_t i = 0; i < n; i++)
        for (uint32_t r = 0; r < lanes; r++, to += b->rest)
            memcpy(to, from + i * b->n_bytes + rest + r * row_bytes, b->rest);
    for (size_t i = 0; i < n; i++) {
        const uint8_t *block = from + i * b->n_bytes + words;
        uint8_t *out = to + i * (b->in_turn ? vector : n_bytes);
        for (uint32_t r = 0; r < lanes; r++, block += row_bytes) {
            if (b->format == HT_Q6_K)
                repack_q6_k(block, r, lanes, out);
            else
                repack_words(b, block, r, lanes, b->in_turn ? n : 1, out);
        }
    }
    return to + n * n_bytes;
}

void ht_linear_repack(const struct ht_linear_kernels *k, enum ht_format f, uint32_t n_in,
                      const uint8_t *from, size_t row_begin, size_t row_end, uint8_t *to) {
    const struct ht_format_info *info = ht_format_get((uint32_t)f);
    const size_t unit = f == HT_BF16 ? 2 : 1; // blocks that are taken as one: whole words
    const size_t n_blocks = n_in / info->block_len / unit, n_bytes = info->block_bytes * unit;
    const size_t row_bytes = n_blocks * n_bytes;
    const struct blocks b = {.format = f,
                             .n_bytes = n_bytes,
                             .rest = n_bytes % 4,
                             .leads = rest_leads(f),
                             .in_turn = info->block_len == HT_Q8_BLOCK,
                             .flip = f == HT_Q8_0 && !k->signed_codes ? 0x80808080u : 0};
    const uint32_t n_rows = ht_repacked_rows(k, f);
    to += row_begin * row_bytes;
    for (size_t row = row_begin; row < row_end; row += n_rows)
        for (size_t i = 0; i < n_blocks; i += 2)
            to = repack_blocks(&b, from + row * row_bytes + i * b.n_bytes, row_bytes, n_rows,
                               n_blocks - i < 2 ? 1 : 2, to);
}
