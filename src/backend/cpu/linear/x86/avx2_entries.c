// SPDX-License-Identifier: MIT
// Streams of formats of entries (entries.h) for one token at 256 bits, for all levels without VBMI,
// and of IQ1 for all. As in q8_bits.h codes are taken where a shift and a mask leave them, not in
// the order of weights, and the token's numbers are brought in theirs once for all rows. Codes are
// unsigned. A block's indices are made at once, and a group's entries looked up while the one
// before is multiplied: the code says so in that order, since a processor does not look far enough
// ahead. No state; any thread.
#include "backend/cpu/linear/x86/pairs_avx2.h"
#include "backend/cpu/linear/x86/shared.h"

#include "backend/cpu/linear/entry_rows.h"
#include "backend/cpu/linear/q8_sum.h"

// A token's numbers.
struct ordered {
    _Alignas(64) int8_t q[HT_IN_ORDER]; // of each 16 the first and the last eight, in turn in pairs
    int32_t sum[HT_IN_ORDER / 16];      // minus twice the sums of either eight, 16 bits each
};

// sums: for who asks for them.
static __attribute__((noinline)) void order_pairs(const struct ht_act_q8 *a, uint32_t n, bool sums,
                                                  struct ordered *to) {
    const __m128i order = _mm_setr_epi8(0, 1, 8, 9, 2, 3, 10, 11, 4, 5, 12, 13, 6, 7, 14, 15);
    const __m128i zero = _mm_setzero_si128();
    for (uint32_t i = 0; i < n; i += 16) {
        __m128i x = _mm_loadu_si128((const void *)(a[i / HT_Q8_BLOCK].q + i % HT_Q8_BLOCK));
        _mm_store_si128((void *)(to->q + i), _mm_shuffle_epi8(x, order));
        if (!sums) continue;
        x = _mm_sad_epu8(_mm_xor_si128(x, _mm_set1_epi8(-128)), zero); // 8 * 128 more
        const int first = 2048 - 2 * _mm_cvtsi128_si32(x);
        const int last = 2048 - 2 * _mm_extract_epi16(x, 4);
        to->sum[i / 16] = (first & 0xffff) | (int)((uint32_t)last << 16);
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

// The entries of group g of a block's indices.
INLINE void look_up_group(const struct ht_entries *e, const uint32_t n, const vi *index, uint32_t g,
                          vi *word) {
    index += g * (16 / n);
    UNROLL(4)
    for (uint32_t i = 0; i < 16 / n; i++)
        word[i] = look_up_16(e->grid, (const uint16_t *)(index + i));
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

// A half's products in 16 bits of IQ1's places, which are codes: eight times a place, less eight,
// and one to either side, is eight times a weight.
INLINE vi ternary_products(vi word, const int8_t *q) {
    vi all = mul_pairs(bits(word, 0, 3), broadcast4(q));
    UNROLL(3)
    for (int k = 1; k < 4; k++)
        all = (vi)((vu16)all + (vu16)mul_pairs(bits(word, 2 * k, 3), broadcast4(q + 4 * k)));
    return all;
}
INLINE vi add_eightfold(vi sum, vi pairs) {
    return sum + (vi)_mm256_madd_epi16((__m256i)pairs, _mm256_set1_epi16(8));
}
// The sum of the numbers whose bias this is.
INLINE int32_t sum_of(int32_t bias) {
    return (HT_SHIFTED >> 7) - (bias >> 7);
}
// Where their products begin, were all weights moved up.
INLINE vi start_ternary(int32_t bias) {
    return start_above(bias + 16 * sum_of(bias), 4);
}
// IQ1_S: a group is moved up or, where sign has ones, down.
INLINE vi ternary_group(const vi *word, vi sign, int32_t bias, const int8_t *q) {
    const vi twice = splat_int(-2 * sum_of(bias));
    vi all = ternary_products(word[0], q), last = ternary_products(word[1], q + 16);
    all = (vi)((vu16)all + (vu16)last);
    return add_eightfold(start_ternary(bias) + (sign & twice), all);
}
// IQ1_M: so is each eight of half h, as bits 3 and 7 of a byte of `high` say.
INLINE vi ternary_half(vi word, vi high, const int h, int32_t bias, int32_t eights,
                       const int8_t *q) {
    const vi first = (vi)((vu32)high >> (3 + 8 * h)), last = high << (9 - 8 * h);
    const vi down = (vi)_mm256_blend_epi16((__m256i)first, (__m256i)last, 0xaa);
    const vi moves = (vi)_mm256_madd_epi16((__m256i)(down & 0x10001), (__m256i)splat_int(eights));
    return add_eightfold(start_ternary(bias) + moves, ternary_products(word, q));
}

// A half's products of other formats. small: codes are at most 31, whose products have room in 16
// bits.
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

// A group's signs, or, of IQ1_M, the half of a word that has them.
INLINE vi group_side(enum ht_format f, const vi *raw, uint32_t g) {
    if (f == HT_IQ1_M) return (vi)((vu32)raw[g / 2] >> (g % 2 * 16));
    return group_signs(f, raw, g);
}

// The sums of a group's halves, or, where they have one scale, of all of it. `at`: where its
// numbers are.
INLINE void group_sums(const uint32_t n, const bool two, const bool small, const vi *word, vi signs,
                       vi table, const struct ht_act_q8 *act, const struct ordered *order,
                       uint32_t at, vi sum[2]) {
    const int8_t *q = order->q + at;
    const bool ternary = small && n == 8; // IQ1
    if (ternary && !two) {
        sum[0] = ternary_group(word, signs, act->bias, q);
        return;
    }
    if (ternary) {
        UNROLL(2)
        for (int h = 0; h < 2; h++)
            sum[h] = ternary_half(word[h], signs, h, act->bias_half[h],
                                  order->sum[at / 16 + (uint32_t)h], q + 16 * h);
        return;
    }
    const int shift = small ? 3 : 1; // codes stand 16 or 64 too high
    sum[0] = start_above(two ? act->bias_half[0] : act->bias, shift);
    sum[0] = half_products(n, small, table, word, signs, 0, q, sum[0]);
    sum[1] = two ? start_above(act->bias_half[1], shift) : sum[0];
    sum[1] = half_products(n, small, table, word, signs, 1, q + 16, sum[1]);
    if (!two) sum[0] = sum[1];
}

// 32 rows times one token: entries of n weights, groups of one scale or two.
INLINE void stream_entries(const uint32_t n, const bool two, const bool small, enum ht_format f,
                           const uint8_t *w, size_t row_bytes, const struct ht_tile_args *t) {
    const struct ht_format_info *info = ht_format_get((uint32_t)f);
    const struct ht_entries *e = ht_entries_of(f);
    const uint32_t block_bytes = info->block_bytes;
    vi raw[RAW_WORDS], index[HT_ENTRY_WORDS], signs[8], word[4], next[4], sum[2];
    struct ordered order;
    __m128i values = _mm_loadu_si128((const void *)e->value);
    if (n == 4) // numbers of entries are odd, so a sign makes the lowest bit 0
        values = _mm_or_si128(_mm_srli_epi16(values, 8), _mm_slli_epi16(values, 8));
    const vi table =
        (vi)_mm256_broadcastsi128_si256(_mm_add_epi8(values, _mm_set1_epi8(small ? 16 : 64)));
    for (uint32_t part = 0; part < PARTS; part++, w += LANES * row_bytes) {
        struct rows rows = rows_of(w, row_bytes, block_bytes, t->n_k / 256);
        const struct ht_act_q8 *act = (const void *)t->act;
        const uint8_t *ahead = t->ahead + LANES * part * t->ahead_stride;
        vf y = load_floats(t->from + LANES * part);
        for (uint32_t k = 0; k < t->n_k; k += 256, rows_advance(&rows, block_bytes)) {
            const uint32_t n_order = ht_to_order(k, t->n_k, part);
            if (n_order > 0) order_pairs(act, n_order, f == HT_IQ1_M, &order);
            for (uint32_t i = 0; i < e->n_loads; i++) load16(&rows, e->load[i], raw + 4 * i);
            const vf d = block_d(f, raw, &rows) * splat(e->factor);
            for (uint32_t g = 0; g < 8; g++) {
                if (n == 8)
                    indices_8(f, raw, g, index + 2 * g);
                else
                    group_indices(f, raw, g, index + 4 * g);
                if (signs_early(f)) signs[g] = group_side(f, raw, g);
            }
            __asm__("" : "+m"(index)); // gcc would take them out of vectors one by one
            look_up_group(e, n, index, 0, next);
            for (uint32_t g = 0; g < 8; g++, act++) {
                const vi side = signs_early(f) ? signs[g] : group_side(f, raw, g);
                UNROLL(4)
                for (uint32_t i = 0; i < 16 / n; i++) word[i] = next[i];
                if (g < 7) look_up_group(e, n, index, g + 1, next);
                group_sums(n, two, small, word, side, table, act, &order, k % HT_IN_ORDER + 32 * g,
                           sum);
                const vf scale = scaled(d, 2 * group_scale(f, raw, two ? 2 * g : g) + 1);
                vf x = scaled_sum(sum[0], scale, back_of(scale));
                if (two)
                    x = both_halves(x, sum[1], scaled(d, 2 * group_scale(f, raw, 2 * g + 1) + 1));
                y = fma_add(x, splat(act->scale), y);
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
