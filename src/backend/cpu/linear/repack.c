// SPDX-License-Identifier: MIT
// Weights in the order of linear.h, "Repacked weights". Any thread; owns nothing.
#include <string.h>

#include "backend/cpu/linear/kernels.h"

bool ht_linear_can_repack(const struct ht_linear_kernels *k, enum ht_format f, uint64_t n_in,
                          uint64_t n_out) {
    const struct ht_format_info *info = ht_format_get((uint32_t)f);
    return info && k->repacked[f].pack && n_out % HT_ROW_GROUP == 0 &&
           n_in % info->block_len == 0 && n_in % HT_PAD_FLOAT == 0;
}

// Whether what a block has beside whole words stands in front of them.
static bool rest_leads(enum ht_format f) {
    switch (f) {
    case HT_Q4_0:
    case HT_Q5_0:
    case HT_Q8_0:
    case HT_IQ4_NL:
    case HT_IQ3_S:
    case HT_MXFP4: return true;
    default: return false;
    }
}

struct blocks {           // of a format
    size_t n_bytes, rest; // of one; beyond its whole words
    bool leads;           // the rest does
    uint32_t flip;        // bits of each word
};

// n blocks of `lanes` rows: their words, then what is left of them.
static uint8_t *repack_blocks(const struct blocks *b, const uint8_t *from, size_t row_bytes,
                              uint32_t lanes, size_t n, uint8_t *to) {
    const size_t words = b->leads ? b->rest : 0, rest = b->leads ? 0 : b->n_bytes - b->rest;
    for (size_t i = 0; i < n; i++) {
        const uint8_t *block = from + i * b->n_bytes + words;
        for (size_t at = 0; at < b->n_bytes - b->rest; at += 4) {
            for (uint32_t r = 0; r < lanes; r++, to += 4) {
                uint32_t word;
                memcpy(&word, block + r * row_bytes + at, 4);
                word ^= b->flip;
                memcpy(to, &word, 4);
            }
        }
    }
    for (size_t i = 0; i < n; i++)
        for (uint32_t r = 0; r < lanes; r++, to += b->rest)
            memcpy(to, from + i * b->n_bytes + rest + r * row_bytes, b->rest);
    return to;
}

void ht_linear_repack(const struct ht_linear_kernels *k, enum ht_format f, uint32_t n_in,
                      const uint8_t *from, size_t row_begin, size_t row_end, uint8_t *to) {
    const struct ht_format_info *info = ht_format_get((uint32_t)f);
    const size_t n_blocks = n_in / info->block_len, row_bytes = n_blocks * info->block_bytes;
    const struct blocks b = {.n_bytes = info->block_bytes,
                             .rest = info->block_bytes % 4,
                             .leads = rest_leads(f),
                             .flip = f == HT_Q8_0 ? 0x80808080u : 0};
    to += row_begin * row_bytes;
    for (size_t row = row_begin; row < row_end; row += k->lanes)
        for (size_t i = 0; i < n_blocks; i += 2)
            to = repack_blocks(&b, from + row * row_bytes + i * b.n_bytes, row_bytes, k->lanes,
                               n_blocks - i < 2 ? 1 : 2, to);
}
