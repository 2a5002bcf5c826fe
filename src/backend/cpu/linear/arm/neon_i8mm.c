// SPDX-License-Identifier: MIT
// The linear kernels of the level neon_i8mm: smmla multiplies two rows by two tokens, eight weights
// at a time; streams add four products a lane by sdot. BF16 runs the f32 kernels of every AArch64
// level (docs/kernels.md says why). No state; any thread.
#include "backend/cpu/linear/arm/dot_lane.h"
#include "backend/cpu/linear/arm/float.h"

#define CODES_SIGNED  1
#define TILE_ROWS     8
#define TILE_TOKENS   4
#define STREAM_TOKENS 4
#define OWN_TILE      1

// Eight weights of a row lie together: of each four rows, two in the first 128 bytes of the panel's
// 256 and two in the second.
INLINE void store_codes(uint8_t *code, vi first, vi second) {
    vst1q_s32((void *)code, vzip1q_s32((int32x4_t)first, (int32x4_t)second));
    vst1q_s32((void *)(code + 128), vzip2q_s32((int32x4_t)first, (int32x4_t)second));
}

#include "backend/cpu/linear/q8.h"
#include "backend/cpu/linear/q8_act.h"

#define ROW_PAIRS   (TILE_ROWS / 2)
#define TOKEN_PAIRS (TILE_TOKENS / 2)

// acc[i][j] + sum of w[i][0 .. 7] * q[j][0 .. 7], lane 2 i + j.
INLINE vi matrix(vi acc, vi w, vi q) {
    return (vi)vmmlaq_s32((int32x4_t)acc, (int8x16_t)w, (int8x16_t)q);
}

// One number a token, in the lanes of both rows.
INLINE vf pair_of(float first, float second) {
    return (vf){first, second, first, second};
}

// Lane i of four rows twice, for both tokens: rows 0 and 1, rows 2 and 3.
INLINE void twice(const float *p, vf out[2]) {
    float32x4_t x = vld1q_f32(p);
    out[0] = (vf)vzip1q_f32(x, x);
    out[1] = (vf)vzip2q_f32(x, x);
}

// Eight rows x n tokens, of which the last stands twice if n is odd. Registers hold [2 rows][2
// tokens]; element by element the arithmetic is that of every level.
INLINE void tile(const uint32_t n, const uint32_t group, const enum kind kind, int offset,
                 const struct ht_panel *p, const struct ht_tile_args *t, uint32_t token,
                 uint32_t row, struct ahead *ahead) {
    (void)offset;
    const bool has_min = has_mins(kind);
    const uint32_t pairs = (n + 1) / 2;
    const uint8_t *act = t->act + token * t->act_stride, *code = (uint8_t *)p->code + 4 * row;
    const float *scale = p->scale + row, *min = p->min + row;
    const float *from = t->from + token * t->from_stride + row;
    float *to = t->to + token * t->to_stride + row;
    const size_t stride = t->act_stride;
    vf y[TOKEN_PAIRS][ROW_PAIRS];
    UNROLL(3)
    for (uint32_t i = 0; i < pairs; i++) {
        const float *first = from + 2 * i * t->from_stride;
        const float *second = 2 * i + 1 < n ? first + t->from_stride : first;
        UNROLL(2)
        for (int v = 0; v < ROW_PAIRS; v += 2) {
            float32x4_t a = vld1q_f32(first + 2 * v);
            float32x4_t b = vld1q_f32(second + 2 * v);
            y[i][v] = (vf)vzip1q_f32(a, b);
            y[i][v + 1] = (vf)vzip2q_f32(a, b);
        }
    }
    for (uint32_t k = 0; k < t->n_k; k += 32, act += sizeof(struct ht_act_q8)) {
        vf first[TOKEN_PAIRS][ROW_PAIRS]; // of halves with scales of their own
        ahead_step(ahead);
        UNROLL(2)
        for (uint32_t h = 0; h < 32 / group; h++, scale += 32, min += 32) {
            vi s[TOKEN_PAIRS][ROW_PAIRS];
            UNROLL(3)
            for (uint32_t i = 0; i < pairs; i++) {
                UNROLL(4)
                for (int v = 0; v < ROW_PAIRS; v++) s[i][v] = splat_int(HT_SHIFTED);
            }
            UNROLL(4)
            for (uint32_t c = 0; c < group / 8; c++, code += 256) {
                vi q[TOKEN_PAIRS];
                UNROLL(3)
                for (uint32_t i = 0; i < pairs; i++) {
                    const uint32_t other = 2 * i + 1 < n ? 2 * i + 1 : 2 * i;
                    const int8_t *a = act_of(act, stride, 2 * i)->q + h * 16 + c * 8;
                    const int8_t *b = act_of(act, stride, other)->q + h * 16 + c * 8;
                    q[i] = (vi)vcombine_s8(vld1_s8(a), vld1_s8(b));
                }
                UNROLL(4)
                for (int v = 0; v < ROW_PAIRS; v++) {
                    vi w = *(const vi *)(const void *)(code + v % 2 * 128 + v / 2 * 16);
                    UNROLL(3)
                    for (uint32_t i = 0; i < pairs; i++) s[i][v] = matrix(s[i][v], w, q[i]);
                }
            }
            UNROLL(2)
            for (int v = 0; v < ROW_PAIRS; v += 2) {
                vf sc[2], m[2];
                twice(scale + 2 * v, sc);
                if (has_min) twice(min + 2 * v, m);
                UNROLL(3)
                for (uint32_t i = 0; i < pairs; i++) {
                    const struct ht_act_q8 *a = act_of(act, stride, 2 * i);
                    const struct ht_act_q8 *b = 2 * i + 1 < n ? act_of(act, stride, 2 * i + 1) : a;
                    vf a_scale = pair_of(a->scale, b->scale), a_sum = splat(0.0f);
                    if (has_min && group == 32) a_sum = pair_of(a->sum, b->sum);
                    if (has_min && group == 16)
                        a_sum = pair_of(half_128(a, h)[0], half_128(b, h)[0]);
                    UNROLL(2)
                    for (int w = 0; w < 2; w++) {
                        vf *out = &y[i][v + w];
                        vf sum = h == 0 ? scaled_sum(s[i][v + w], sc[w], back_of(sc[w]))
                                        : both_halves(first[i][v + w], s[i][v + w], sc[w]);
                        if (has_min && group == 16) sum = fma_sub(m[w], a_sum, sum);
                        if (h + 1 == 32 / group)
                            *out = fma_add(sum, a_scale, *out);
                        else
                            first[i][v + w] = sum;
                        if (has_min && group == 32) *out = fma_sub(m[w], a_sum, *out);
                        // One after the other: side by side they run out of registers.
                        __asm__("" : "+w"(*out));
                    }
                }
            }
        }
    }
    UNROLL(3)
    for (uint32_t i = 0; i < pairs; i++) {
        UNROLL(2)
        for (int v = 0; v < ROW_PAIRS; v += 2) {
            float *out = to + 2 * i * t->to_stride + 2 * v;
            float32x4_t a = (float32x4_t)y[i][v], b = (float32x4_t)y[i][v + 1];
            vst1q_f32(out, vuzp1q_f32(a, b));
            if (2 * i + 1 < n) vst1q_f32(out + t->to_stride, vuzp2q_f32(a, b));
        }
    }
}

const struct ht_linear_kernels ht_linear_neon_i8mm = {
    .name = "neon_i8mm",
    .lanes = LANES,
    .bf16_bytes = 4,
    .act_q8 = act_q8,
    .act_bf16 = ht_act_bf16_f32_neon,
    .format = {NEON_FLOAT_FORMATS, Q8_FORMATS(tile_32, tile_32_min, pack, stream)},
};
