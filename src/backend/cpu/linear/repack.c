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

// Whether what a block has beside whole dwords stands in front of them.
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

// One block of `lanes` rows.
static uint8_t *repack_block(const uint8_t *from, size_t row_bytes, uint32_t lanes, size_t n_bytes,
                             bool leads, uint8_t *to) {
    const size_t whole = n_bytes / 4 * 4, rest = n_bytes - whole;
    for (size_t at = 0; at < whole; at += 4)
        for (uint32_t r = 0; r < lanes; r++, to += 4)
            memcpy(to, from + r * row_bytes + (leads ? rest : 0) + at, 4);
    for (uint32_t r = 0; r < lanes; r++, to += rest)
        memcpy(to, from + r * row_bytes + (leads ? 0 : whole), rest);
    return to;
}

void ht_linear_repack(const struct ht_linear_kernels *k, enum ht_format f, uint32_t n_in,
                      const uint8_t *from, size_t row_begin, size_t row_end, uint8_t *to) {
    const struct ht_format_info *info = ht_format_get((uint32_t)f);
    const size_t n_blocks = n_in / info->block_len, row_bytes = n_blocks * info->block_bytes;
    const bool leads = rest_leads(f);
    to += row_begin * row_bytes;
    for (size_t row = row_begin; row < row_end; row += k->lanes)
        for (size_t b = 0; b < n_blocks; b++)
            to = repack_block(from + row * row_bytes + b * info->block_bytes, row_bytes, k->lanes,
                              info->block_bytes, leads, to);
}
