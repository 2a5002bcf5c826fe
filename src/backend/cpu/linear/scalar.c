// SPDX-License-Identifier: MIT
// The scalar kernels of the linear step: the specification of every level, and the activations and
// packers that levels fall back on. No state; any thread.
#include <math.h>
#include <string.h>

#include "backend/cpu/linear/kernels.h"

// ---- activations -------------------------------------------------------------------------------

// The largest magnitude as bits: integers compare as the floats do, and a NaN is above infinity.
static uint32_t amax_bits(const float *x, uint32_t n) {
    uint32_t max = 0;
    for (uint32_t i = 0; i < n; i++) {
        uint32_t u;
        memcpy(&u, &x[i], sizeof u);
        u &= 0x7fffffff;
        if (u > max) max = u;
    }
    return max;
}

// Sum of the squared rounding errors of x * inverse.
static float rounding_error(const float *x, uint32_t n, float inverse) {
    float lane[HT_Q8_BLOCK] = {0};
    for (uint32_t i = 0; i < n; i++) {
        float y = x[i] * inverse, e = y - rintf(y);
        lane[i % 16] = i < 16 ? e * e : fmaf(e, e, lane[i % 16]);
    }
    for (int width = 8; width > 0; width /= 2)
        for (int j = 0; j < width; j++) lane[j] += lane[j + width];
    return lane[0];
}

// The number of steps in amax that fits the block best.
static float best_top(const struct ht_act_how *how, const float *x, uint32_t n, float amax) {
    float best = INFINITY, top = how->top[0];
    for (int i = 0; i < HT_N_TOPS; i++) {
        float error = rounding_error(x, n, how->top[i] / amax) * how->weight[i];
        if (!(error < best)) continue;
        best = error;
        top = how->top[i];
    }
    return top;
}

static int32_t sum_pairs(const int8_t q[HT_Q8_BLOCK]) {
    int32_t sum = 0;
    for (int i = 0; i < HT_Q8_BLOCK / 2; i++) sum += q[i] * (q[HT_Q8_BLOCK / 2 + i] + 128);
    return sum;
}

static void block_q8(const struct ht_act_how *how, const float *x, uint32_t n,
                     struct ht_act_q8 *b) {
    uint32_t bits = amax_bits(x, n);
    float amax, inverse, top = how->top[0];
    int32_t sum[2] = {0, 0};
    memcpy(&amax, &bits, sizeof amax);
    memset(b, 0, sizeof *b);
    inverse = top / amax;
    if (bits < 0x7f800000 && inverse < INFINITY) top = best_top(how, x, n, amax);
    b->scale = amax / top;
    inverse = top / amax;
    if (bits >= 0x7f800000) { // an infinity or a NaN: every output becomes NaN
        b->scale = NAN;
    } else if (inverse < INFINITY) {
        for (uint32_t i = 0; i < n; i++) {
            b->q[i] = (int8_t)rintf(x[i] * inverse);
            sum[i / 16] += b->q[i];
        }
    } else { // all are zero, or below 4e-37
        b->scale = 0.0f;
    }
    ht_act_set_rest(how->rest, b, sum[0], sum[1], sum_pairs(b->q));
}

void ht_act_q8_scalar(const struct ht_act_how *how, const float *x, uint32_t n_in,
                      struct ht_act_q8 *dst, size_t dst_step) {
    for (uint32_t i = 0; i < n_in; i += HT_Q8_BLOCK, dst = ht_act_block(dst, 1, dst_step))
        block_q8(how, x + i, n_in - i < HT_Q8_BLOCK ? n_in - i : HT_Q8_BLOCK, dst);
}

void ht_act_bf16_scalar(const float *x, uint32_t n_in, void *dst) {
    float *out = dst;
    for (uint32_t i = 0; i < n_in; i++) out[i] = ht_bf16_to_f32(ht_f32_to_bf16(x[i]));
    for (uint32_t i = n_in; i % HT_PAD_FLOAT != 0; i++) out[i] = 0.0f;
}

// ---- packers -----------------------------------------------------------------------------------

// Of any format of codes: bytes are code - offset.
static void pack_codes(const struct ht_format_info *f, const uint8_t *w, size_t row_bytes,
                       uint32_t n_k, const struct ht_panel *p) {
    const struct ht_codes *c = f->codes;
    uint32_t *panel = p->code;
    uint8_t code[256];
    float scale[16], min[16];
    for (uint32_t r = 0; r < HT_ROW_GROUP; r++) {
        const uint8_t *block = w + r * row_bytes;
        for (uint32_t k = 0; k < n_k; k += f->block_len, block += f->block_bytes) {
            c->unpack(block, code, scale, min);
            for (uint32_t i = 0; i < f->block_len; i++) code[i] = (uint8_t)(code[i] - c->offset);
            for (uint32_t i = 0; i < f->block_len; i += 4)
                memcpy(&panel[(k + i) / 4 * HT_ROW_GROUP + r], &code[i], 4);
            for (uint32_t g = 0; g < f->block_len / c->group; g++) {
                p->scale[(k / c->group + g) * HT_ROW_GROUP + r] = scale[g];
                if (c->has_min) p->min[(k / c->group + g) * HT_ROW_GROUP + r] = min[g];
            }
        }
    }
}

// F32, F16 and BF16 to a panel of f32.
static void pack_float(const struct ht_format_info *f, const uint8_t *w, size_t row_bytes,
                       uint32_t n_k, const struct ht_panel *p) {
    float *panel = p->code, row[HT_CHUNK_FLOAT];
    for (uint32_t r = 0; r < HT_ROW_GROUP; r++) {
        f->to_f32(w + r * row_bytes, row, n_k);
        for (uint32_t k = 0; k < n_k; k++) panel[k * HT_ROW_GROUP + r] = row[k];
    }
}

// ---- tiles -------------------------------------------------------------------------------------

static void add_output(const struct ht_tile_args *t, uint32_t token, const float *acc) {
    for (uint32_t r = 0; t->add && r < HT_ROW_GROUP; r++)
        t->out[token * t->out_stride + r] = t->add[token * t->add_stride + r] + acc[r];
}

static inline void tile_q8(const struct ht_panel *p, const struct ht_tile_args *t, uint32_t group,
                           bool has_min) {
    const int8_t *code = p->code;
    for (uint32_t token = 0; token < t->n_tokens; token++) {
        const struct ht_act_q8 *a = (const void *)(t->act + token * t->act_stride);
        float *acc = t->to + token * t->to_stride, sum[HT_ROW_GROUP];
        memmove(acc, t->from + token * t->from_stride, HT_ROW_GROUP * sizeof *acc);
        for (uint32_t k = 0; k < t->n_k; k += group) {
            const struct ht_act_q8 *b = &a[k / HT_Q8_BLOCK];
            uint32_t at = k / group * HT_ROW_GROUP, in_block = k % HT_Q8_BLOCK;
            int32_t bias = group == 16 ? b->bias_half[in_block / 16] : 0;
            float q_sum = (float)((HT_SHIFTED - bias) / 128); // of a half
            for (uint32_t r = 0; r < HT_ROW_GROUP; r++) {
                int32_t isum = 0;
                for (uint32_t i = 0; i < group; i++)
                    isum += code[((k + i) / 4 * HT_ROW_GROUP + r) * 4 + i % 4] * b->q[in_block + i];
                float w_scale = p->scale[at + r];
                sum[r] = in_block > 0 ? fmaf((float)isum, w_scale, sum[r])
                                      : fmaf((float)isum + HT_SHIFT, w_scale, w_scale * -HT_SHIFT);
                if (has_min && group == 16) sum[r] = fmaf(-p->min[at + r], q_sum, sum[r]);
                if (in_block + group == HT_Q8_BLOCK) acc[r] = fmaf(sum[r], b->scale, acc[r]);
                if (has_min && group == 32) acc[r] = fmaf(-p->min[at + r], b->sum, acc[r]);
            }
        }
        add_output(t, token, acc);
    }
}

static void tile_q8_32(const struct ht_panel *p, const struct ht_tile_args *t) {
    tile_q8(p, t, 32, false);
}
static void tile_q8_32_min(const struct ht_panel *p, const struct ht_tile_args *t) {
    tile_q8(p, t, 32, true);
}
static void tile_q8_16(const struct ht_panel *p, const struct ht_tile_args *t) {
    tile_q8(p, t, 16, false);
}
static void tile_q8_16_min(const struct ht_panel *p, const struct ht_tile_args *t) {
    tile_q8(p, t, 16, true);
}

static void tile_f32(const struct ht_panel *p, const struct ht_tile_args *t) {
    const float *w = p->code;
    for (uint32_t token = 0; token < t->n_tokens; token++) {
        const float *a = (const void *)(t->act + token * t->act_stride);
        float *acc = t->to + token * t->to_stride;
        memmove(acc, t->from + token * t->from_stride, HT_ROW_GROUP * sizeof *acc);
        for (uint32_t k = 0; k < t->n_k; k++)
            for (uint32_t r = 0; r < HT_ROW_GROUP; r++)
                acc[r] = fmaf(w[k * HT_ROW_GROUP + r], a[k], acc[r]);
        add_output(t, token, acc);
    }
}

const struct ht_linear_kernels ht_linear_scalar = {
    .name = "scalar",
    .lanes = 1,
    .bf16_bytes = 4,
    .act_q8 = ht_act_q8_scalar,
    .act_bf16 = ht_act_bf16_scalar,
    .format = {[HT_F32_ROW] = {pack_float, tile_f32, NULL, 0, 0},
               [HT_F16_ROW] = {pack_float, tile_f32, NULL, 0, 0},
               [HT_BF16_ROW] = {pack_float, tile_f32, NULL, 0, 0},
               [HT_Q4_0_ROW] = {pack_codes, tile_q8_32, NULL, 0, 0},
               [HT_Q4_1_ROW] = {pack_codes, tile_q8_32_min, NULL, 0, 0},
               [HT_Q5_0_ROW] = {pack_codes, tile_q8_32, NULL, 0, 0},
               [HT_Q5_1_ROW] = {pack_codes, tile_q8_32_min, NULL, 0, 0},
               [HT_Q8_0_ROW] = {pack_codes, tile_q8_32, NULL, 0, 0},
               [HT_Q2_K_ROW] = {pack_codes, tile_q8_16_min, NULL, 0, 0},
               [HT_Q3_K_ROW] = {pack_codes, tile_q8_16, NULL, 0, 0},
               [HT_Q4_K_ROW] = {pack_codes, tile_q8_32_min, NULL, 0, 0},
               [HT_Q5_K_ROW] = {pack_codes, tile_q8_32_min, NULL, 0, 0},
               [HT_Q6_K_ROW] = {pack_codes, tile_q8_16, NULL, 0, 0},
               [HT_IQ1_S_ROW] = {pack_codes, tile_q8_32, NULL, 0, 0},
               [HT_IQ1_M_ROW] = {pack_codes, tile_q8_16, NULL, 0, 0},
               [HT_IQ2_XXS_ROW] = {pack_codes, tile_q8_32, NULL, 0, 0},
               [HT_IQ2_XS_ROW] = {pack_codes, tile_q8_16, NULL, 0, 0},
               [HT_IQ2_S_ROW] = {pack_codes, tile_q8_16, NULL, 0, 0},
               [HT_IQ3_XXS_ROW] = {pack_codes, tile_q8_32, NULL, 0, 0},
               [HT_IQ3_S_ROW] = {pack_codes, tile_q8_32, NULL, 0, 0},
               [HT_IQ4_NL_ROW] = {pack_codes, tile_q8_32, NULL, 0, 0},
               [HT_IQ4_XS_ROW] = {pack_codes, tile_q8_32, NULL, 0, 0},
               [HT_Q1_0_ROW] = {pack_codes, tile_q8_32, NULL, 0, 0},
               [HT_Q2_0_ROW] = {pack_codes, tile_q8_32, NULL, 0, 0},
               [HT_TQ1_0_ROW] = {pack_codes, tile_q8_32, NULL, 0, 0},
               [HT_TQ2_0_ROW] = {pack_codes, tile_q8_32, NULL, 0, 0},
               [HT_MXFP4_ROW] = {pack_codes, tile_q8_32, NULL, 0, 0},
               [HT_NVFP4_ROW] = {pack_codes, tile_q8_16, NULL, 0, 0}},
};
