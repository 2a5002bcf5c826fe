// SPDX-License-Identifier: MIT
// The packer of all formats of entries (entries.h), one function for all of them. A level says in
// front what q8_pack.h needs; ENTRY_LOOKUP may name a header with another way to look entries up
// and to take them apart, of formats that have any.
#ifndef HT_LINEAR_Q8_ENTRIES_H
#define HT_LINEAR_Q8_ENTRIES_H

#include "backend/cpu/linear/entry_rows.h"
#include "backend/cpu/linear/q8_pack.h"

// Places of eight weights of Q2_0, two bits each, in the lower bits of bytes.
INLINE void neighbours(vi x, vi out[2]) {
    UNROLL(2)
    for (int h = 0; h < 2; h++, x = (vi)((vu32)x >> 8)) {
        vi y = merge(x & 3, x << 6, splat_int(3 << 8));
        y = merge(y, x << 12, splat_int(3 << 16));
        out[h] = merge(y, x << 18, splat_int(3 << 24));
    }
}

#ifdef ENTRY_LOOKUP
#include ENTRY_LOOKUP
#define ENTRY_NONE 0 // it has no formats without entries
#else
#define ENTRY_NONE 1
// Constants of the places below, which the compiler would make anew each time if it knew them.
struct tables {
    vi lower, upper, pair, first, last, sign;
};
INLINE void tables_make(const struct ht_entries *e, enum ht_format f, struct tables *t) {
    (void)f;
    *t = (struct tables){.lower = splat_int(0x3333),
                         .upper = splat_int(0x33330000),
                         .pair = bytes(e->n == 4 ? 14 : 3),
                         .first = splat_int(0xffff),
                         .last = splat_int(-0x10000),
                         .sign = bytes(e->n == 4 ? 1 : 8)};
    vi *all = &t->lower;
    UNROLL(8)
    for (int i = 0; i < 6; i++) HIDE(all[i]);
}

// The entries of a block.
INLINE void block_words(const struct ht_entries *e, enum ht_format f, const struct tables *t,
                        const vi *raw, vi *word) {
    (void)t;
    for (uint32_t g = 0; g < 8; g++) group_indices(f, raw, g, word + g * (16u / e->n));
    ht_entries_look_up(e->grid, (uint16_t *)word, (size_t)(16 / e->n) * 8 * 2 * LANES);
}

// Places of eight weights in the lower bits of bytes, two bits: of a word's lower half.
INLINE void places_8(const struct tables *t, vi x, vi out[2]) {
    x = merge(x & t->lower, x << 14, t->upper);
    out[0] = x & t->pair;
    out[1] = moved(x, -4) & t->pair;
}

// Of the entries in two words' first or second halves, three bits, one too high.
INLINE void places_4(const struct tables *t, const vi word[2], const int half, vi out[2]) {
    UNROLL(2)
    for (int h = 0; h < 2; h++) {
        vi x = word[h], then = (vi)((vu16)x >> 4);
        x = half ? merge((vi)((vu32)x >> 16), then, t->last) : merge(then << 16, x, t->first);
        out[h] = x & t->pair;
    }
}

// Eight weights' codes. signs: from bit 8 i on. count: their negatives, too (NEGATIVES).
INLINE void pack_eight(const struct tables *t, const int8_t *value, vi x[2], vi signs, const int i,
                       uint8_t *code, bool count, vi *begin) {
    UNROLL(2)
    for (int h = 0; h < 2; h++) {
        x[h] = lookup(value, x[h] | (by_bits(signs, 2 * i + h, 255, 0) & t->sign));
        if (NEGATIVES && count) *begin = count_negatives(*begin, x[h]);
    }
    store_codes(code, x[0], x[1]);
}

// A group's codes.
INLINE void pack_group(const struct tables *t, enum ht_format f, const uint32_t n,
                       const int8_t *value, const vi *word, vi signs, uint8_t *code, bool count,
                       vi begin[2]) {
    vi x[2] = {splat_int(0), splat_int(0)};
    UNROLL(4)
    for (int i = 0; i < 4 && n == 4; i++, code += 256) {
        places_4(t, word + i / 2 * 2, i % 2, x);
        pack_eight(t, value, x, signs, i, code, count, &begin[i / 2]);
    }
    for (uint32_t i = 0; i < 4 && n != 4; i++, code += 256, signs = (vi)((vu32)signs >> 8)) {
        if (n == 8)
            places_8(t, (vi)((vu32)word[i % 2] >> (i / 2 * 16)), x);
        else if (f == HT_Q2_0)
            neighbours((vi)((vu32)word[i / 2] >> (i % 2 * 16)), x);
        else
            x[0] = x[1] = splat_int(0);
        pack_eight(t, value, x, signs, 0, code, count, &begin[i / 2]);
    }
}
#endif

// As levels with SMALL_PAIRS and CODES_SIGNED as given want it; another's way is like its own.
static __attribute__((noinline)) void pack_entries_as(bool small_pairs, bool is_signed,
                                                      const struct ht_format_info *info,
                                                      const uint8_t *w, size_t row_bytes,
                                                      uint32_t n_k, const struct ht_panel *p) {
    const struct ht_codes *c = info->codes;
    const enum ht_format f = ht_format_id(info);
    const struct ht_entries *e = ht_entries_of(f);
    const bool small = small_pairs && c->offset < 128; // as they are, as in pack()
    const int add = small ? c->offset : is_signed ? 0 : 128;
    const bool count = is_signed && !small;
    const uint32_t n_groups = info->block_len / 32, n_scales = 32 / c->group;
    vi words[HT_ENTRY_WORDS], raw[RAW_WORDS];
    _Alignas(16) int8_t value[16];
    struct tables tables;
    tables_make(e, f, &tables);
    for (int i = 0; i < 16; i++) value[i] = (int8_t)(e->value[i] + add);
    for (uint32_t part = 0; part < PARTS; part++, w += LANES * row_bytes) {
        struct rows q = rows_of(w, row_bytes, info->block_bytes, n_k / info->block_len);
        uint8_t *code = (uint8_t *)p->code + 4 * LANES * part;
        size_t at = LANES * part; // among scales
        for (uint32_t k = 0; k < n_k; k += info->block_len, rows_advance(&q, info->block_bytes)) {
            for (uint32_t i = 0; i < e->n_loads; i++) load16(&q, e->load[i], raw + 4 * i);
            if (e->n > 0) block_words(e, f, &tables, raw, words);
            const vf d = block_d(f, raw, &q) * splat(e->factor);
            for (uint32_t g = 0; g < n_groups; g++, code += 1024) {
                vi signs = group_signs(f, raw, g), begin[2] = {splat_int(0), splat_int(0)};
                if (e->n == 8)
                    pack_group(&tables, f, 8, value, words + 2 * g, signs, code, count, begin);
                else if (e->n == 4)
                    pack_group(&tables, f, 4, value, words + 4 * g, signs, code, count, begin);
                else if (ENTRY_NONE)
                    pack_group(&tables, f, 0, value, raw + 2 * g, signs, code, count, begin);
                if (n_scales == 1) begin[0] = (vi)((vu16)begin[0] + (vu16)begin[1]);
                for (uint32_t i = 0; i < n_scales; i++, at += HT_ROW_GROUP) {
                    vf scale = scaled(d, 2 * group_scale(f, raw, g * n_scales + i) + 1);
                    store_floats(p->scale + at, scale);
                    if (!is_signed) store_floats(p->back + at, back_of(scale)); // PANEL_BACK
                    if (NEGATIVES && count)
                        store_floats(p->min + at, (vf)negatives_start(begin[i]));
                }
            }
        }
    }
}

// linkage void name(...): the packer, as a level wants it.
#define PACK_ENTRIES(linkage, small_pairs, is_signed, name)                                        \
    linkage void name(const struct ht_format_info *f, const uint8_t *w, size_t row_bytes,          \
                      uint32_t n_k, const struct ht_panel *p) {                                    \
        pack_entries_as(small_pairs, is_signed, f, w, row_bytes, n_k, p);                          \
    }

#endif
