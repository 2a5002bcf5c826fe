// SPDX-License-Identifier: MIT
// Rows of formats of entries (entries.h), LANES at a time: their signs, scales and indices, of a
// block's bytes that stand in `raw` as struct ht_entries says. The rest is in rows.h.
#ifndef HT_LINEAR_ENTRY_ROWS_H
#define HT_LINEAR_ENTRY_ROWS_H

#include "backend/cpu/linear/entries.h"
#include "backend/cpu/linear/rows.h"

#define RAW_WORDS (4 * HT_ENTRY_LOADS) // what struct ht_entries says of `load`, as lanes

// Seven bits in each byte, and one that makes their number even.
INLINE vi with_eighth(vi x) {
    vi odd = x ^ (vi)((vu32)x >> 4); // in the lowest bit of each byte, step by step
    odd ^= (vi)((vu32)odd >> 2);
    odd ^= (vi)((vu32)odd >> 1);
    return merge(x, odd << 7, bytes(128));
}

// Four times seven bits, to four bytes.
INLINE vi sevens(vi x) {
    vi y = merge(x & 127, x << 1, splat_int(127 << 8));
    return merge(merge(y, x << 2, splat_int(127 << 16)), x << 3, splat_int(127 << 24));
}

// The upper seven bits of each half of two words.
INLINE vi upper_sevens(vi a, vi b) {
    vi y = merge((vi)((vu32)a >> 9) & 127, (vi)((vu32)a >> 17), splat_int(127 << 8));
    return merge(merge(y, b << 7, splat_int(127 << 16)), (vi)((vu32)b >> 1), splat_int(127 << 24));
}

// Bits 3, 7, 11 and 15, each in all bits of a byte.
INLINE vi fourth_bits(vi x) {
    vi y = merge((vi)((vu32)x >> 3) & 1, x << 1, splat_int(1 << 8));
    y = merge(merge(y, x << 5, splat_int(1 << 16)), x << 9, splat_int(1 << 24));
    return (y << 8) - y;
}

// The signs of group g of 32 weights, or what stands for them: a byte of eight bits for each eight.
INLINE vi group_signs(enum ht_format f, const vi *raw, uint32_t g) {
    const int half = (int)(g % 2 * 16);
    switch (f) {
    case HT_IQ2_XXS: return with_eighth(sevens(raw[2 * g + 1]));
    case HT_IQ3_XXS: return with_eighth(sevens(raw[g]));
    case HT_IQ2_XS: return with_eighth(upper_sevens(raw[2 * g], raw[2 * g + 1]));
    case HT_IQ1_S: return raw[g / 2] << (16 - half) >> 31;
    case HT_IQ1_M: return fourth_bits((vi)((vu32)raw[g / 2] >> half));
    case HT_Q2_0: return splat_int(0);
    default: return raw[g]; // IQ2_S, IQ3_S, Q1_0
    }
}

// Whether a group's signs are long in the making: streams of x86 make a block's in front then.
INLINE bool signs_early(enum ht_format f) {
    return f == HT_IQ2_XXS || f == HT_IQ2_XS || f == HT_IQ3_XXS;
}

// What is s in group g's scale, a group of 16 or 32.
INLINE vi group_scale(enum ht_format f, const vi *raw, uint32_t g) {
    switch (f) {
    case HT_IQ2_XXS: return (vi)((vu32)raw[2 * g + 1] >> 28);
    case HT_IQ3_XXS: return (vi)((vu32)raw[g] >> 28);
    case HT_IQ2_XS: return (vi)((vu32)raw[18 + g / 8] >> (g % 8 * 4)) & 15;
    case HT_IQ2_S: return (vi)((vu32)raw[10 + g / 8] >> (g % 8 * 4)) & 15;
    case HT_IQ3_S: return (vi)((vu32)raw[11] >> (g * 4)) & 15;
    case HT_IQ1_S: return (vi)((vu32)raw[g / 2] >> (g % 2 * 16 + 12)) & 7;
    case HT_IQ1_M: return (vi)((vu32)raw[6 + g / 8] >> (g / 4 % 2 * 16 + g % 4 * 3)) & 7;
    default: return splat_int(0);
    }
}

// IQ1_M has its d in the upper four bits of four halves of words.
INLINE vf block_d(enum ht_format f, const vi *raw, const struct rows *q) {
    if (f != HT_IQ1_M) return half_rows(q, 0);
    vi a = raw[6], b = raw[7], d = (vi)((vu32)a >> 12) & 15;
    d = merge(d, (vi)((vu32)a >> 24), splat_int(0xf0));
    d = merge(d, (vi)((vu32)b >> 4), splat_int(0xf00));
    return half_low(merge(d, (vi)((vu32)b >> 16), splat_int(0xf000)));
}

// Four indices of a group, two a word: the first and the third, then the second and the fourth.
// Their bytes are in q; the bits above them, `mask`, in `high`: n bits from one index to the next.
INLINE void four_indices(vi q, vi high, const int n, const int mask, vi *index) {
    high |= high << (16 - 2 * n); // the third's are 16 bits above the first's
    index[0] = merge(q & 0xff00ff, high << 8, splat_int(mask << 8 | mask << 24));
    index[1] = merge((vi)((vu16)q >> 8), high << (8 - n), splat_int(mask << 8 | mask << 24));
}

// The indices of a group.
INLINE void group_indices(enum ht_format f, const vi *raw, uint32_t g, vi *index) {
    const uint32_t byte = g % 4 * 8, half = g % 2 * 16;
    const vi none = splat_int(0);
    switch (f) {
    case HT_IQ2_XXS: four_indices(raw[2 * g], none, 1, 0, index); break;
    case HT_IQ2_XS: {
        const vi low = splat_int(0x1ff), high = splat_int(0x1ff0000);
        vi a = raw[2 * g], b = raw[2 * g + 1]; // two a word, in a row
        index[0] = merge(a & low, b << 16, high);
        index[1] = merge((vi)((vu32)a >> 16) & low, b, high);
        break;
    }
    case HT_IQ2_S:
        four_indices(raw[12 + g], (vi)((vu32)raw[8 + g / 4] >> byte) & 255, 2, 3, index);
        break;
    case HT_IQ1_S:
        four_indices(raw[4 + g], (vi)((vu32)raw[g / 2] >> half) & 0xfff, 3, 7, index);
        break;
    case HT_IQ1_M:
        four_indices(raw[8 + g], (vi)((vu32)raw[g / 2] >> half) & 0x7777, 4, 7, index);
        break;
    case HT_IQ3_XXS:
        four_indices(raw[8 + 2 * g], none, 1, 0, index);
        four_indices(raw[9 + 2 * g], none, 1, 0, index + 2);
        break;
    default: { // IQ3_S
        vi ninth = (vi)((vu32)raw[12 + g / 4] >> byte);
        four_indices(raw[16 + 2 * g], ninth & 15, 1, 1, index);
        four_indices(raw[17 + 2 * g], (vi)((vu32)ninth >> 4) & 15, 1, 1, index + 2);
        break;
    }
    }
}

// Lines of the rows that are read next, a few rows with each group of a block: two lines are at
// least a block.
INLINE void ask_rows(const uint8_t *row, size_t stride, uint32_t g) {
    const uint32_t n = (LANES + 7) / 8;
    for (uint32_t i = g * n; i < (g + 1) * n && i < LANES; i++) {
        __builtin_prefetch(row + i * stride, 0, 2);
        __builtin_prefetch(row + i * stride + 64, 0, 2);
    }
}

#endif
