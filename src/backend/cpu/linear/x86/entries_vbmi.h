// SPDX-License-Identifier: MIT
// Entries (q8_entries.h) looked up in registers, and taken apart by AVX512-VBMI's shifts.
#ifndef HT_LINEAR_X86_ENTRIES_VBMI_H
#define HT_LINEAR_X86_ENTRIES_VBMI_H

#include "backend/cpu/linear/entries.h"

// Four words of indices, two each, to entries: 64 of these are two registers.
INLINE void look_up(const struct ht_entries *e, vi *word) {
    __m512i x[4], part[4];
    UNROLL(4)
    for (int i = 0; i < 4; i++) {
        x[i] = (__m512i)word[i];
        part[i] = _mm512_srli_epi16(x[i], 6);
    }
    for (uint32_t t = 0; t < e->n_grid / 64; t++) { // each index once: then it is an entry
        const __m512i low = _mm512_loadu_si512(e->grid + 64 * t);
        const __m512i high = _mm512_loadu_si512(e->grid + 64 * t + 32);
        const __m512i here = _mm512_set1_epi16((short)t);
        UNROLL(4)
        for (int i = 0; i < 4; i++)
            x[i] = _mm512_mask2_permutex2var_epi16(low, x[i],
                                                   _mm512_cmpeq_epi16_mask(part[i], here), high);
    }
    UNROLL(4)
    for (int i = 0; i < 4; i++) word[i] = (vi)x[i];
}

// The lower and upper bytes of a grid of four weights an entry.
struct tables {
    _Alignas(64) uint8_t low[512], high[512];
};
INLINE void tables_make(const struct ht_entries *e, const uint32_t n, struct tables *to) {
    const __m512i byte = _mm512_set1_epi16(255), order = _mm512_setr_epi64(0, 2, 4, 6, 1, 3, 5, 7);
    if (n != 4) return;
    for (uint32_t i = 0; i < e->n_grid; i += 64) {
        __m512i a = _mm512_loadu_si512(e->grid + i);
        __m512i b = _mm512_loadu_si512(e->grid + i + 32);
        __m512i low = _mm512_packus_epi16(_mm512_and_si512(a, byte), _mm512_and_si512(b, byte));
        __m512i high = _mm512_packus_epi16(_mm512_srli_epi16(a, 8), _mm512_srli_epi16(b, 8));
        _mm512_store_si512(to->low + i, _mm512_permutexvar_epi64(order, low));
        _mm512_store_si512(to->high + i, _mm512_permutexvar_epi64(order, high));
    }
}

// Four indices, a byte each, and their ninth bits, to the lower and upper bytes of entries.
INLINE void look_up_bytes(const struct tables *grid, uint32_t n_grid, vi index, vi ninth,
                          vi *word) {
    __m512i low = (__m512i)index, high = low;
    const __m512i part = (__m512i)(bits(index, 7, 1) | ninth);
    for (uint32_t t = 0; t < n_grid / 128; t++) {
        const __mmask64 mine = _mm512_cmpeq_epi8_mask(part, _mm512_set1_epi8((char)t));
        const uint8_t *l = grid->low + 128 * t, *h = grid->high + 128 * t;
        low = _mm512_mask2_permutex2var_epi8(_mm512_load_si512(l), low, mine,
                                             _mm512_load_si512(l + 64));
        high = _mm512_mask2_permutex2var_epi8(_mm512_load_si512(h), high, mine,
                                              _mm512_load_si512(h + 64));
    }
    word[0] = (vi)low, word[1] = (vi)high;
}

// The entries of a block: of entries of four, bytes.
INLINE void block_words(const struct ht_entries *e, const uint32_t n, enum ht_format f,
                        const struct tables *t, const vi *raw, vi *word) {
    if (n == 4) {
        for (uint32_t g = 0; g < 8; g++)
            for (uint32_t i = 0; i < 2; i++, word += 2) {
                vi index = raw[(f == HT_IQ3_S ? 16 : 8) + 2 * g + i], ninth = splat_int(0);
                if (f == HT_IQ3_S)
                    ninth = by_bits((vi)((vu32)raw[12 + g / 4] >> (g % 4 * 8 + 4 * i)), 0, 2, 0);
                look_up_bytes(t, e->n_grid, index, ninth, word);
            }
        return;
    }
    for (uint32_t g = 0; g < 8; g++) group_indices(f, raw, g, word + 2 * g);
    if (e->n_grid > 512) { // as fast on the scalar side
        ht_entries_look_up(e->grid, (uint16_t *)word, (size_t)16 * 2 * LANES);
        return;
    }
    for (uint32_t i = 0; i < 16; i += 4) look_up(e, word + i);
}

// In the bytes of each lane, what starts at its bits a, b, c and d.
INLINE vi starts(vi x, const int a, const int b, const int c, const int d) {
    const __m128i at =
        _mm_setr_epi8((char)a, (char)b, (char)c, (char)d, (char)(a + 32), (char)(b + 32),
                      (char)(c + 32), (char)(d + 32), 0, 0, 0, 0, 0, 0, 0, 0);
    return (vi)_mm512_multishift_epi64_epi8(_mm512_broadcastq_epi64(at), (__m512i)x);
}

INLINE void make_group(const struct tables *t, enum ht_format f, const uint32_t n,
                       const int8_t *value, const vi *word, vi signs, struct group_codes *to) {
    (void)t;
    vi sum[2] = {to->sum[0], to->sum[1]};
    UNROLL(4)
    for (int i = 0; i < 4; i++) {
        vi x[2];
        UNROLL(2)
        for (int h = 0; h < 2; h++) { // weights 8 i + 4 h ..
            vi place;
            if (n == 0) { // no entries: two bits of each weight, or none
                const int at = i % 2 * 16 + h * 8;
                place =
                    f == HT_Q2_0 ? starts(word[i / 2], at, at + 2, at + 4, at + 6) : splat_int(0);
            } else if (n == 8) {
                const int at = i / 2 * 16 + h * 4;
                place = starts(word[i % 2], at, at + 8, at + 2, at + 10);
            } else {
                const int at = i % 2 * 16 + h * 8;
                vi low = starts(word[i / 2 * 2], at, at, at + 4, at + 4);
                vi high = starts(word[i / 2 * 2 + 1], at, at, at + 4, at + 4);
                place = (vi)_mm512_mask_mov_epi8((__m512i)low, 0xaaaaaaaaaaaaaaaa, (__m512i)high);
            }
            const int sign = 8 * i + 4 * h - (n == 4 ? 0 : 3); // where they go in a byte
            vi side = starts(signs, sign, sign + 1, sign + 2, sign + 3);
            x[h] = lookup(value, choose(bytes(n == 4 ? 14 : 3), place, side));
        }
        take_codes(to, x, (uint32_t)i, &sum[i / 2]);
    }
    to->sum[0] = sum[0], to->sum[1] = sum[1];
}

#endif
