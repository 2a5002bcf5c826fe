// SPDX-License-Identifier: MIT
// Rows of activations as kernels want them: which kind a format takes, how long a row is, and whole
// rows or columns of it prepared by a level's kernels. No state; any thread.
#include <string.h>

#include "backend/cpu/linear/kernels.h"
#include "base/checked.h"

// Kinds of 8-bit rows come in threes, in the order of what follows a block's scale.
_Static_assert((int)HT_ACT_ROW_Q8_MINS == (int)HT_ACT_ROW_Q8 + (int)HT_REST_SUM &&
                   (int)HT_ACT_ROW_Q8_HALVES == (int)HT_ACT_ROW_Q8 + (int)HT_REST_HALVES &&
                   (int)HT_ACT_ROW_Q8_120_MINS == (int)HT_ACT_ROW_Q8_120 + (int)HT_REST_SUM &&
                   (int)HT_ACT_ROW_Q8_120_HALVES == (int)HT_ACT_ROW_Q8_120 + (int)HT_REST_HALVES,
               "in the order of ht_act_rest");

static enum ht_act_kind of_three(enum ht_act_kind first, enum ht_format f) {
    const struct ht_format_info *i = ht_format_get(f);
    enum ht_act_rest rest = HT_REST_BIAS;
    if (i && i->codes && i->codes->has_min) rest = HT_REST_SUM;
    if (i && i->codes && i->codes->group == 16) rest = HT_REST_HALVES;
    return (enum ht_act_kind)((int)first + (int)rest);
}

enum ht_act_kind ht_linear_act_kind(enum ht_format f) {
    switch (f) {
    case HT_F32:
    case HT_F16: return HT_ACT_ROW_F32;
    case HT_BF16: return HT_ACT_ROW_BF16;
    case HT_Q4_0:
    case HT_Q4_1:
    case HT_Q2_K:
    case HT_Q3_K:
    case HT_Q4_K:
    case HT_Q5_K:
    case HT_Q6_K:
    case HT_IQ1_S:
    case HT_IQ1_M:
    case HT_IQ2_XXS:
    case HT_IQ2_XS:
    case HT_IQ2_S:
    case HT_IQ3_XXS:
    case HT_IQ3_S:
    case HT_IQ4_XS: return of_three(HT_ACT_ROW_Q8_120, f);
    default: return of_three(HT_ACT_ROW_Q8, f);
    }
}

size_t ht_act_row_bytes(enum ht_act_kind kind, uint32_t n_in) {
    size_t n, bytes;
    if (!ht_align_size(n_in, HT_PAD_FLOAT, &n)) return 0;
    bool ok = ht_act_is_q8(kind) ? ht_mul_size(n / HT_Q8_BLOCK, sizeof(struct ht_act_q8), &bytes)
                                 : ht_mul_size(n, sizeof(float), &bytes);
    if (!ok || !ht_align_size(bytes, 64, &bytes)) return 0;
    // Rows of a tile's tokens that are a multiple of 16 lines apart would share a few of the 64
    // sets of the L1 cache, which do not hold so many; 9 lines more spread them.
    return bytes % 1024 == 0 ? bytes + (size_t)9 * 64 : bytes;
}

const struct ht_act_how *ht_act_how(enum ht_act_kind kind) {
#define HOW(kind, rest, a, b, c)                                                                   \
    [HT_ACT_ROW_##kind - HT_ACT_ROW_Q8] = {                                                        \
        {a, b, c},                                                                                 \
        {1.0f / (a * a), 1.0f / (b * b), 1.0f / (c * c)},                                          \
        HT_REST_##rest                                                                             \
    }
    static const struct ht_act_how how[] = {
        HOW(Q8, BIAS, 127, 126, 125),          HOW(Q8_MINS, SUM, 127, 126, 125),
        HOW(Q8_HALVES, HALVES, 127, 126, 125), HOW(Q8_120, BIAS, 120, 119, 118),
        HOW(Q8_120_MINS, SUM, 120, 119, 118),  HOW(Q8_120_HALVES, HALVES, 120, 119, 118),
    };
#undef HOW
    return &how[kind - HT_ACT_ROW_Q8];
}

void ht_act_prepare(const struct ht_linear_kernels *k, enum ht_act_kind kind, const float *x,
                    uint32_t n_in, void *dst) {
    float *out = dst;
    switch (kind) {
    case HT_ACT_ROW_BF16: k->act_bf16(x, n_in, dst); break;
    case HT_ACT_ROW_F32:
        memcpy(out, x, n_in * sizeof(float));
        for (uint32_t i = n_in; i % HT_PAD_FLOAT != 0; i++) out[i] = 0.0f;
        break;
    default: k->act_q8(ht_act_how(kind), x, n_in, dst, sizeof(struct ht_act_q8)); break;
    }
}

size_t ht_act_bytes(const struct ht_linear_kernels *k, enum ht_act_kind kind, size_t n) {
    switch (kind) {
    case HT_ACT_ROW_F32: return n * sizeof(float);
    case HT_ACT_ROW_BF16: return n * k->bf16_bytes;
    default: return n / HT_Q8_BLOCK * sizeof(struct ht_act_q8);
    }
}

static void columns_q8(const struct ht_linear_kernels *k, const struct ht_act_how *how,
                       const float *x, uint32_t n_rows, uint32_t n, uint8_t *to, size_t row_bytes) {
    enum { TOGETHER = 64 }; // blocks that a level takes at once, at most
    _Alignas(64) struct ht_act_q8 blocks[TOGETHER];
    uint32_t n_blocks = n / HT_Q8_BLOCK, row = 0, col = 0;
    if (n_blocks == 1) {
        k->act_q8(how, x, n_rows * n, (void *)to, row_bytes);
        return;
    }
    if (n_rows == 1 || n_blocks >= TOGETHER) {
        for (; row < n_rows; row++, x += n)
            k->act_q8(how, x, n, (void *)(to + row * row_bytes), sizeof *blocks);
        return;
    }
    for (uint32_t left = n_rows * n_blocks, m; left > 0; left -= m) { // short rows: of several
        m = left < TOGETHER ? left : TOGETHER;
        k->act_q8(how, x, m * HT_Q8_BLOCK, blocks, sizeof *blocks);
        x += m * HT_Q8_BLOCK;
        for (uint32_t i = 0; i < m; i++) {
            memcpy(to + row * row_bytes + col * sizeof *blocks, &blocks[i], sizeof *blocks);
            if (++col == n_blocks) col = 0, row++;
        }
    }
}

void ht_act_prepare_columns(const struct ht_linear_kernels *k, enum ht_act_kind kind,
                            const float *x, uint32_t n_rows, uint32_t n, void *dst,
                            size_t row_bytes) {
    if (ht_act_is_q8(kind)) {
        columns_q8(k, ht_act_how(kind), x, n_rows, n, dst, row_bytes);
        return;
    }
    for (uint8_t *to = dst; n_rows > 0; n_rows--, x += n, to += row_bytes)
        ht_act_prepare(k, kind, x, n, to);
}
