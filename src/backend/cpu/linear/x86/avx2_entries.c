// SPDX-License-Identifier: MIT
// Streams of formats of entries (entries.h) for one token at 256 bits, for all levels without VBMI.
// As in q8_bits.h codes are taken where a shift and a mask leave them, not in the order of weights,
// and the token's numbers are brought in theirs once for all rows. Codes are unsigned. A group's
// entries are looked up while the one before is multiplied. No state; any thread.
#include "backend/cpu/linear/x86/pairs_avx2.h"
#include "backend/cpu/linear/x86/shared.h"

#include "backend/cpu/linear/entry_rows.h"
#include "backend/cpu/linear/q8_sum.h"

// Of each 16 numbers the first eight and the last eight, pair by pair in turn.
static __attribute__((noinline)) void order_pairs(const struct ht_act_q8 *a, uint32_t n,
                                                  int8_t *out) {
    const __m128i order = _mm_setr_epi8(0, 1, 8, 9, 2, 3, 10, 11, 4, 5, 12, 13, 6, 7, 14, 15);
    for (uint32_t i = 0; i < n; i += 16) {
        __m128i x = _mm_loadu_si128((const void *)(a[i / HT_Q8_BLOCK].q + i % HT_Q8_BLOCK));
        _mm_store_si128((void *)(out + i), _mm_shuffle_epi8(x, order));
    }
}

// Bytes 2 h and 2 h + 1 of each lane, as 16-bit numbers.
INLINE vi two_bytes(vi x, const int h) {
    const __m128i first = _mm_setr_epi8(0, -1, 1, -1, 4, -1, 5, -1, 8, -1, 9, -1, 12, -1, 13, -1);
    const __m128i second =
        _mm_setr_epi8(2, -1, 3, -1, 6, -1, 7, -1, 10, -1, 11, -1, 14, -1, 15, -1);
    return (vi)_mm256_shuffle_epi8((__m256i)x, _mm256_broadcastsi128_si256(h ? second : first));
}

// Four indices of a group, two and two: bytes, and n bits above each, `step` bits from one's to the
// next one's.
INLINE void indices_above(vi q, vi high, const int n, const int step, vi *index) {
    const int mask = (1 << n) - 1;
    UNROLL(2)
    for (int h = 0; h < 2; h++, high = (vi)((vu32)high >> (2 * step)))
        index[h] = two_bytes(q, h) | (high << 8 & (mask << 8)) |
                   (high << (24 - step) & (int)((uint32_t)mask << 24));
}

// The indices of a group of entries of eight weights, in the order of weights, two a word.
INLINE void indices_8(enum ht_format f, const vi *raw, uint32_t g, vi *index) {
    const uint32_t half = g % 2 * 16;
    switch (f) {
    case HT_IQ2_XXS:
        index[0] = two_bytes(raw[2 * g], 0);
        index[1] = two_bytes(raw[2 * g], 1);
        break;
    case HT_IQ2_XS:
        index[0] = raw[2 * g] & 0x1ff01ff;
        index[1] = raw[2 * g + 1] & 0x1ff01ff;
        break;
    case HT_IQ2_S:
        indices_above(raw[12 + g], (vi)((vu32)raw[8 + g / 4] >> (g % 4 * 8)), 2, 2, index);
        break;
    case HT_IQ1_S: indices_above(raw[4 + g], (vi)((vu32)raw[g / 2] >> half), 3, 3, index); break;
    case HT_IQ1_M: indices_above(raw[8 + g], (vi)((vu32)raw[g / 2] >> half), 3, 4, index); break;
    default: break;
    }
}

// Sixteen indices in order, to the entries they stand for: on the processor's scalar side, which
// has time while others multiply.
INLINE vi look_up_16(const uint16_t *grid, const uint16_t *index) {
    const __m256i first = _mm256_castsi128_si256(ht_entries_eight(grid, index));
    return (vi)_mm256_inserti128_si256(first, ht_entries_eight(grid, index + 8), 1);
}

// What stands for the signs of half h of a group, in place: those of even weights of eight in the
// even bits of a byte, those of odd ones in the even bits of the next one. Odd bits are of no use.
INLINE vi half_signs(vi signs, const int h) {
    vi x = two_bytes(signs, h);
    return x | (vi)((vu16)x << 7);
}

// Indices of `value` (entries.h) of half h of a group, two in a byte. Vector k is for its weights
// 2 k, 2 k + 1, 2 k + 8 and 2 k + 9; of entries of eight vectors 0 and 2 share z[0], 1 and 3 z[1],
// of entries of four 0 and 1, 2 and 3.
struct pairs {
    vi z[2];
};
INLINE struct pairs pairs_8(const vi *word, vi signs, const int h) {
    const vi y = half_signs(signs, h), place = bytes(0x33), side = bytes(0x88);
    struct pairs p;
    p.z[0] = (word[h] & place) | (moved(y, 3) & side);
    p.z[1] = (moved(word[h], -2) & place) | (moved(y, 1) & side);
    return p;
}
INLINE struct pairs pairs_4(const vi *word, vi signs, const int h) {
    const vi y = half_signs(signs, h), low = bytes(1), high = bytes(16);
    struct pairs p;
    p.z[0] = word[2 * h] ^ (y & low) ^ (moved(y, 2) & high);
    p.z[1] = word[2 * h + 1] ^ (moved(y, -4) & low) ^ (moved(y, -2) & high);
    return p;
}

// A half's products. small: codes are at most 31, whose products have room in 16 bits.
INLINE vi half_products(const uint32_t n, const bool small, vi table, const vi *word, vi signs,
                        const int h, const int8_t *q, vi sum) {
    const struct pairs p = n == 8 ? pairs_8(word, signs, h) : pairs_4(word, signs, h);
    vi all = splat_int(0);
    UNROLL(4)
    for (int k = 0; k < 4; k++) {
        const vi z = n == 8 ? p.z[k % 2] : p.z[k / 2];
        const bool upper = n == 8 ? k > 1 : k % 2;
        const vi index = bits(z, upper ? 4 : 0, 15);
        const vi code = (vi)_mm256_shuffle_epi8((__m256i)table, (__m256i)index);
        const vi two = mul_pairs(code, broadcast4(q + 4 * k));
        if (small)
            all = k > 0 ? (vi)((vu16)all + (vu16)two) : two;
        else
            sum = sum_pairs(sum, two);
    }
    return small ? sum_pairs(sum, all) : sum;
}

// 32 rows times one token: entries of n weights, groups of one scale or two.
INLINE void stream_entries(const uint32_t n, const bool two, const bool small, enum ht_format f,
                           const uint8_t *w, size_t row_bytes, const struct ht_tile_args *t) {
    const struct ht_format_info *info = ht_format_get((uint32_t)f);
    const struct ht_entries *e = ht_entries_of(f);
    const uint32_t block_bytes = info->block_bytes;
    const int shift = small ? 3 : 1; // codes stand 16 or 64 too high
    vi raw[RAW_WORDS], index[4];
    _Alignas(64) int8_t q[HT_IN_ORDER];
    __m128i values = _mm_loadu_si128((const void *)e->value);
    if (n == 4) // numbers of entries are odd, so a sign makes the lowest bit 0
        values = _mm_or_si128(_mm_srli_epi16(values, 8), _mm_slli_epi16(values, 8));
    const vi table =
        (vi)_mm256_broadcastsi128_si256(_mm_add_epi8(values, _mm_set1_epi8((char)(128 >> shift))));
    for (uint32_t part = 0; part < PARTS; part++, w += LANES * row_bytes) {
        struct rows rows = rows_of(w, row_bytes, block_bytes, t->n_k / 256);
        const struct ht_act_q8 *act = (const void *)t->act;
        const uint8_t *ahead = t->ahead + LANES * part * t->ahead_stride;
        vf y = load_floats(t->from + LANES * part);
        for (uint32_t k = 0; k < t->n_k; k += 256, rows_advance(&rows, block_bytes)) {
            const uint32_t n_order = ht_to_order(k, t->n_k, part);
            if (n_order > 0) order_pairs(act, n_order, q);
            for (uint32_t i = 0; i < e->n_loads; i++) load16(&rows, e->load[i], raw + 4 * i);
            const vf d = block_d(f, raw, &rows) * splat(e->factor);
            for (uint32_t g = 0; g < 8; g++, act++) {
                const int8_t *p = q + k % HT_IN_ORDER + 32 * g;
                const vi signs = group_signs(f, raw, g);
                vi word[4];
                if (n == 8)
                    indices_8(f, raw, g, index);
                else
                    group_indices(f, raw, g, index);
                UNROLL(4)
                for (uint32_t i = 0; i < 16 / n; i++)
                    word[i] = look_up_16(e->grid, (const uint16_t *)(index + i));
                vi sum = start_above(two ? act->bias_half[0] : act->bias, shift);
                sum = half_products(n, small, table, word, signs, 0, p, sum);
                const vf scale = scaled(d, 2 * group_scale(f, raw, two ? 2 * g : g) + 1);
                vf both;
                if (two) {
                    both = scaled_sum(sum, scale, back_of(scale));
                    sum = start_above(act->bias_half[1], shift);
                }
                sum = half_products(n, small, table, word, signs, 1, p + 16, sum);
                if (two)
                    both =
                        both_halves(both, sum, scaled(d, 2 * group_scale(f, raw, 2 * g + 1) + 1));
                else
                    both = scaled_sum(sum, scale, back_of(scale));
                y = fma_add(both, splat(act->scale), y);
                ask_rows(ahead, t->ahead_stride, g);
            }
            ahead += block_bytes;
        }
        store_floats(t->to + LANES * part, y);
    }
}

#define STREAM(id, name, n, two, small)                                                            \
    void HT_ENTRIES_AVX2(name)(const uint8_t *w, size_t row_bytes, const struct ht_tile_args *t) { \
        stream_entries(n, two, small, id, w, row_bytes, t);                                        \
    }
HT_ENTRY_STREAMS(STREAM)
