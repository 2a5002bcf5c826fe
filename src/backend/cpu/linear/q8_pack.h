// SPDX-License-Identifier: MIT
// Packers of codes: 32 rows of the file's bytes to a panel. A level says in front what q8.h names;
// one with a layout of its own (OWN_TILE) brings store_codes(), too.
#ifndef HT_LINEAR_Q8_PACK_H
#define HT_LINEAR_Q8_PACK_H

#include "backend/cpu/linear/kernels.h"
#include "backend/cpu/linear/q8_sum.h"

#ifndef PANEL_BACK
#define PANEL_BACK 0
#endif

#ifndef OWN_TILE
// Two neighbouring vectors of codes, to 256 bytes of a panel.
INLINE void store_codes(uint8_t *code, vi first, vi second) {
    *(vi *)(void *)code = first;
    *(vi *)(void *)(code + 128) = second;
}
#endif

// Word i of a block's codes of four bits for products of sums (q8_sums.h): c + 120 in its first
// half, c - 8 in its second. By a table where the bits above do not count.
INLINE vi code_for_sums(const enum ht_format f, const vi *r, const int j, const int i) {
    static const int8_t table[2][16] __attribute__((aligned(16))) = {
        {120, 121, 122, 123, 124, 125, 126, 127, -128, -127, -126, -125, -124, -123, -122, -121},
        {-8, -7, -6, -5, -4, -3, -2, -1, 0, 1, 2, 3, 4, 5, 6, 7}};
    if (!LOOKUP_LOW) return add_bytes(codes(f, r, j, i, 0), i < 4 ? 120 : -8);
    vi index = f == HT_Q4_0 ? indices(r[i % 4], i / 4 * 4) : indices(r[i], 4 * j);
    return lookup(table[i / 4], index);
}

// Such a block, to a panel. Returns what its sums of products begin with.
INLINE vi store_for_sums(uint8_t *code, const enum ht_format f, const vi *r, const int j) {
    vi products = splat_int(0);
    UNROLL(4)
    for (int i = 0; i < 4; i++) {
        vi first = code_for_sums(f, r, j, i), second = code_for_sums(f, r, j, 4 + i);
        products = dot4(products, first, second);
        *(vi *)(void *)(code + i * 128) = first;
        *(vi *)(void *)(code + (4 + i) * 128) = second;
    }
    return HT_SHIFTED - products;
}

// sums: for products of sums.
INLINE void pack(const enum ht_format f, const bool sums, const uint8_t *w, size_t row_bytes,
                 uint32_t n_k, const struct ht_panel *p) {
    const struct shape s = shape_of(f);
    const bool small = s.has_min || (SMALL_PAIRS && s.offset > 0); // as they are
    const int add = small ? 0 : (CODES_SIGNED ? 0 : 128) - s.offset;
    const bool negatives = NEGATIVES && !small;
    for (uint32_t part = 0; part < PARTS; part++, w += LANES * row_bytes) {
        struct rows q = rows_of(w, row_bytes, s.unit_bytes, n_k / s.unit);
        uint8_t *code = (uint8_t *)p->code + 4 * LANES * part;
        float *scale_out = p->scale + LANES * part, *back_out = p->back + LANES * part;
        float *min_out = p->min + LANES * part;
        int32_t *start_out = p->start + LANES * part;
        for (uint32_t k = 0; k < n_k; k += s.unit, rows_advance(&q, s.unit_bytes)) {
            vf scale[16], min[16];
            vi high[8];
            scales(f, false, &q, scale, min);
            shared(f, &q, high);
            UNROLL(16)
            for (uint32_t g = 0; g < s.unit / s.group; g++) {
                store_floats(scale_out + 32 * g, scale[g]);
                if (PANEL_BACK && (s.group == 32 || g % 2 == 0)) // what a first sum takes off
                    store_floats(back_out + 32 * g, back_of(scale[g]));
                if (s.has_min) store_floats(min_out + 32 * g, min[g]);
            }
            scale_out += s.unit / s.group * 32;
            back_out += s.unit / s.group * 32;
            for (uint32_t step = 0; step < s.unit / 32 / s.step; step++) {
                vi r[2 * HALF];
                raw(f, &q, step, high, r);
                UNROLL(8)
                for (uint32_t j = 0; j < s.step; j++) {
                    vi begin = splat_int(0);
                    if (sums) {
                        vi start = store_for_sums(code, f, r, (int)j);
                        store_floats((float *)start_out, (vf)start);
                        code += 1024, start_out += HT_ROW_GROUP;
                        continue;
                    }
                    UNROLL(4)
                    for (int i = 0; i < 8; i += 2, code += 256) {
                        vi a = codes(f, r, (int)j, i, 0), b = codes(f, r, (int)j, i + 1, 0);
                        if (negatives) begin = count_negatives(count_negatives(begin, a), b);
                        store_codes(code, add ? add_bytes(a, add) : a, add ? add_bytes(b, add) : b);
                    }
                    if (negatives)
                        store_floats(min_out + 32 * (step * s.step + j),
                                     (vf)negatives_start(begin));
                }
            }
            min_out += s.unit / s.group * 32;
        }
    }
}

// linkage void name(...): the packer of a format, for products or for products of sums.
#define PACK_AS(linkage, id, sums, name)                                                           \
    linkage void name(const struct ht_format_info *f, const uint8_t *w, size_t row_bytes,          \
                      uint32_t n_k, const struct ht_panel *p) {                                    \
        (void)f;                                                                                   \
        pack(id, sums, w, row_bytes, n_k, p);                                                      \
    }
#define PACK(linkage, id, name) PACK_AS(linkage, id, false, name)
#define PACK_FOR_SUMS(id, name) PACK_AS(, id, true, name)

#endif
