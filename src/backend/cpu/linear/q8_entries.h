// SPDX-License-Identifier: MIT
// The packer of all formats of entries (entries.h), and the stream for one token of those that have
// any, where the level has no other: it differs in what becomes of the codes, so that one function
// is both, but for streams that gain by code of their own. A level says in front what q8_pack.h
// needs; ENTRY_LOOKUP may name a header with another way to look entries up and to take them apart.
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

// Where the codes of a group of 32 weights go.
struct group_codes {
    uint8_t *panel;  // NULL: a stream, whose products are added to `sum`
    bool count;      // a panel's negatives, too (NEGATIVES), in `sum`
    const int8_t *q; // a stream's activations
    vi sum[2];       // of both halves
};

// Codes of weights 8 i ..; sum: of their half.
INLINE void take_codes(struct group_codes *to, const vi x[2], uint32_t i, vi *sum) {
    if (!to->panel) {
        *sum = dot4_word(*sum, x[0], to->q, 2 * i, false);
        *sum = dot4_word(*sum, x[1], to->q, 2 * i + 1, false);
        return;
    }
    if (NEGATIVES && to->count) *sum = count_negatives(count_negatives(*sum, x[0]), x[1]);
    store_codes(to->panel + 256 * i, x[0], x[1]);
}

#ifdef ENTRY_LOOKUP
#include ENTRY_LOOKUP
#else
// Constants of the places below, which the compiler would make anew each time if it knew them.
struct tables {
    vi lower, upper, pair, first, last, sign;
};
INLINE void tables_make(const struct ht_entries *e, const uint32_t n, struct tables *t) {
    (void)e;
    *t = (struct tables){.lower = splat_int(0x3333),
                         .upper = splat_int(0x33330000),
                         .pair = bytes(n == 4 ? 14 : 3),
                         .first = splat_int(0xffff),
                         .last = splat_int(-0x10000),
                         .sign = bytes(n == 4 ? 1 : 8)};
    HIDE(t->lower);
    HIDE(t->upper);
    HIDE(t->pair);
    HIDE(t->first);
    HIDE(t->last);
    HIDE(t->sign);
}

// The entries of a block.
INLINE void block_words(const struct ht_entries *e, const uint32_t n, enum ht_format f,
                        const struct tables *t, const vi *raw, vi *word) {
    (void)t;
    for (uint32_t g = 0; g < 8; g++) group_indices(f, raw, g, word + g * (16 / n));
    ht_entries_look_up(e->grid, (uint16_t *)word, (size_t)(16 / n) * 8 * 2 * LANES);
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

// Eight weights' codes. signs: from bit 8 i on.
INLINE void find_codes(const struct tables *t, const int8_t *value, vi x[2], vi signs,
                       const int i) {
    UNROLL(2)
    for (int h = 0; h < 2; h++)
        x[h] = lookup(value, x[h] | (by_bits(signs, 2 * i + h, 255, 0) & t->sign));
}

// The codes of a group, of entries of n weights.
INLINE void make_group(const struct tables *t, enum ht_format f, const uint32_t n,
                       const int8_t *value, const vi *word, vi signs, struct group_codes *to) {
    UNROLL(4)
    for (int i = 0; i < 4 && n == 4; i++) {
        vi x[2];
        places_4(t, word + i / 2 * 2, i % 2, x);
        find_codes(t, value, x, signs, i);
        take_codes(to, x, (uint32_t)i, &to->sum[i / 2]);
    }
    for (uint32_t i = 0; i < 4 && n != 4; i++, signs = (vi)((vu32)signs >> 8)) {
        vi x[2] = {splat_int(0), splat_int(0)};
        if (n == 8)
            places_8(t, (vi)((vu32)word[i % 2] >> (i / 2 * 16)), x);
        else if (f == HT_Q2_0)
            neighbours((vi)((vu32)word[i / 2] >> (i % 2 * 16)), x);
        find_codes(t, value, x, signs, 0);
        take_codes(to, x, i, &to->sum[i / 2]);
    }
}
#endif

// For whom codes are made. A panel may be another level's.
enum entries_for { FOR_SMALL_PAIRS, FOR_SIGNED, FOR_UNSIGNED };
#define ENTRIES_OWN (SMALL_PAIRS ? FOR_SMALL_PAIRS : CODES_SIGNED ? FOR_SIGNED : FOR_UNSIGNED)

// What a group's sums begin with: in a stream as a panel's do (HT_SHIFTED, or a bias).
INLINE void begin_group(uint32_t n_scales, const struct ht_act_q8 *a, struct group_codes *to) {
    to->sum[0] = to->sum[1] = splat_int(0);
    to->q = NULL;
    if (!a) return;
    to->q = a->q;
    if (n_scales == 1) {
        to->sum[0] = splat_int(CODES_SIGNED ? HT_SHIFTED : a->bias);
        return;
    }
    for (int i = 0; i < 2; i++) to->sum[i] = splat_int(CODES_SIGNED ? HT_SHIFTED : a->bias_half[i]);
}

// What differs between formats; of a stream that has code of its own, constants.
struct entries_shape {
    uint32_t n, n_scales, block_len; // weights of an entry, scales of a group
    bool alone;
};

// To a panel or, if p is NULL, by a stream, as its arguments say.
INLINE void run_entries(enum ht_format f, const struct entries_shape s, const uint8_t *w,
                        size_t row_bytes, uint32_t n_k, const struct ht_panel *p,
                        const struct ht_tile_args *t, enum entries_for whom) {
    const struct ht_format_info *info = ht_format_get((uint32_t)f);
    const struct ht_codes *c = info->codes;
    const struct ht_entries *e = ht_entries_of(f);
    const uint32_t block_len = s.block_len, block_bytes = info->block_bytes;
    const bool small = p && whom == FOR_SMALL_PAIRS && c->offset < 128; // as they are, as in pack()
    const int add = small ? c->offset : whom == FOR_UNSIGNED ? 128 : 0;
    const uint32_t n_groups = block_len / 32, n_scales = s.n_scales;
    vi words[HT_ENTRY_WORDS], raw[RAW_WORDS];
    _Alignas(16) int8_t value[16];
    struct tables tables;
    struct group_codes to = {.count = p && whom != FOR_UNSIGNED && !small};
    tables_make(e, s.n, &tables);
    for (int i = 0; i < 16; i++) value[i] = (int8_t)(e->value[i] + add);
    for (uint32_t part = 0; part < PARTS; part++, w += LANES * row_bytes) {
        struct rows q = rows_of(w, row_bytes, block_bytes, n_k / block_len);
        const struct ht_act_q8 *act = p ? NULL : (const void *)t->act;
        size_t at = LANES * part; // among scales
        vf y = p ? splat(0.0f) : load_floats(t->from + LANES * part);
        const uint8_t *ahead = p ? NULL : t->ahead + LANES * part * t->ahead_stride;
        if (p) to.panel = (uint8_t *)p->code + 4 * LANES * part;
        for (uint32_t k = 0; k < n_k; k += block_len, rows_advance(&q, block_bytes)) {
            for (uint32_t i = 0; i < e->n_loads; i++) load16(&q, e->load[i], raw + 4 * i);
            if (!p && k > 0) ahead += block_bytes;
            if (s.n > 0) block_words(e, s.n, f, &tables, raw, words);
            const vf d = block_d(f, raw, &q) * splat(e->factor);
            vi early[8];
            for (uint32_t g = 0; g < 8 && s.alone && signs_early(f); g++)
                early[g] = group_signs(f, raw, g);
            for (uint32_t g = 0; g < n_groups; g++) {
                vf scale[2] = {splat(0.0f), splat(0.0f)};
                const vi signs = s.alone && signs_early(f) ? early[g] : group_signs(f, raw, g);
                begin_group(n_scales, act, &to);
                if (s.n == 8)
                    make_group(&tables, f, 8, value, words + 2 * g, signs, &to);
                else if (s.n == 4)
                    make_group(&tables, f, 4, value, words + 4 * g, signs, &to);
                else
                    make_group(&tables, f, 0, value, raw + 2 * g, signs, &to);
                for (uint32_t i = 0; i < n_scales; i++)
                    scale[i] = scaled(d, 2 * group_scale(f, raw, g * n_scales + i) + 1);
                if (!p) {
                    ask_rows(ahead, t->ahead_stride, g);
                    if (n_scales == 1) to.sum[0] += to.sum[1];
                    vf sum = scaled_sum(to.sum[0], scale[0], back_of(scale[0]));
                    if (n_scales == 2) sum = both_halves(sum, to.sum[1], scale[1]);
                    y = fma_add(sum, splat(act->scale), y);
                    act++;
                    continue;
                }
                to.panel += 1024;
                if (n_scales == 1) to.sum[0] = (vi)((vu16)to.sum[0] + (vu16)to.sum[1]);
                for (uint32_t i = 0; i < n_scales; i++, at += HT_ROW_GROUP) {
                    store_floats(p->scale + at, scale[i]);
                    if (whom == FOR_UNSIGNED && LANES == 16 && i == 0)
                        store_floats(p->back + at, back_of(scale[i])); // PANEL_BACK: of 16 lanes
                    if (NEGATIVES && to.count)
                        store_floats(p->min + at, (vf)negatives_start(to.sum[i]));
                }
            }
        }
        if (!p) store_floats(t->to + LANES * part, y);
    }
}

// Packers, and the streams that do not need code of their own.
static __attribute__((noinline)) void
run_any_entries(enum ht_format f, const uint8_t *w, size_t row_bytes, uint32_t n_k,
                const struct ht_panel *p, const struct ht_tile_args *t, enum entries_for whom) {
    const struct ht_format_info *info = ht_format_get((uint32_t)f);
    const struct entries_shape s = {.n = ht_entries_of(f)->n,
                                    .n_scales = 32u / info->codes->group,
                                    .block_len = info->block_len};
    run_entries(f, s, w, row_bytes, n_k, p, t, whom);
}

// linkage void name(...): the packer for a level.
#define PACK_ENTRIES(linkage, whom, name)                                                          \
    linkage void name(const struct ht_format_info *f, const uint8_t *w, size_t row_bytes,          \
                      uint32_t n_k, const struct ht_panel *p) {                                    \
        run_any_entries(ht_format_id(f), w, row_bytes, n_k, p, NULL, whom);                        \
    }
// A stream, for one token.
#define STREAM_ENTRIES(linkage, id, name)                                                          \
    linkage void name(const uint8_t *w, size_t row_bytes, const struct ht_tile_args *t) {          \
        run_any_entries(id, w, row_bytes, t->n_k, NULL, t, ENTRIES_OWN);                           \
    }
// The same by code of its own; the arguments in the middle are those of HT_ENTRY_STREAMS.
#define STREAM_ENTRIES_ALONE(linkage, id, name, n_weights, two)                                    \
    linkage void name(const uint8_t *w, size_t row_bytes, const struct ht_tile_args *t) {          \
        const struct entries_shape s = {                                                           \
            .n = n_weights, .n_scales = two ? 2 : 1, .block_len = 256, .alone = true};             \
        run_entries(id, s, w, row_bytes, t->n_k, NULL, t, ENTRIES_OWN);                            \
    }

#endif
