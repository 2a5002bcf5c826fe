// SPDX-License-Identifier: MIT
// The table of weight formats. Owns nothing; const data only; any thread.
#include "quant/format.h"

#include <strings.h>

#include "base/checked.h"
#include "quant/rows.h"

static void dequant(enum ht_format f, const void *blocks, float *out, size_t n_blocks);

// A dequantiser by codes: one function a format, since the table's signature names none.
#define BY_CODES(id, fn)                                                                           \
    static void fn(const void *blocks, float *out, size_t n_blocks) {                              \
        dequant(id, blocks, out, n_blocks);                                                        \
    }
BY_CODES(HT_Q4_0, q4_0_to_f32)
BY_CODES(HT_Q4_1, q4_1_to_f32)
BY_CODES(HT_Q5_0, q5_0_to_f32)
BY_CODES(HT_Q5_1, q5_1_to_f32)
BY_CODES(HT_Q8_0, q8_0_to_f32)
BY_CODES(HT_Q2_K, q2_k_to_f32)
BY_CODES(HT_Q3_K, q3_k_to_f32)
BY_CODES(HT_Q4_K, q4_k_to_f32)
BY_CODES(HT_Q5_K, q5_k_to_f32)
BY_CODES(HT_Q6_K, q6_k_to_f32)
BY_CODES(HT_IQ1_S, iq1_s_to_f32)
BY_CODES(HT_IQ1_M, iq1_m_to_f32)
BY_CODES(HT_IQ2_XXS, iq2_xxs_to_f32)
BY_CODES(HT_IQ2_XS, iq2_xs_to_f32)
BY_CODES(HT_IQ2_S, iq2_s_to_f32)
BY_CODES(HT_IQ3_XXS, iq3_xxs_to_f32)
BY_CODES(HT_IQ3_S, iq3_s_to_f32)
BY_CODES(HT_IQ4_NL, iq4_nl_to_f32)
BY_CODES(HT_IQ4_XS, iq4_xs_to_f32)
BY_CODES(HT_Q1_0, q1_0_to_f32)
BY_CODES(HT_Q2_0, q2_0_to_f32)
BY_CODES(HT_TQ1_0, tq1_0_to_f32)
BY_CODES(HT_TQ2_0, tq2_0_to_f32)
BY_CODES(HT_MXFP4, mxfp4_to_f32)
BY_CODES(HT_NVFP4, nvfp4_to_f32)
#undef BY_CODES

// name, weights a block, bytes a block, to f32, from f32, codes
static const struct ht_format_info formats[HT_N_FORMATS] = {
    [HT_F32] = {"F32", 1, 4, ht_f32_to_f32, ht_f32_from_f32, NULL},
    [HT_F16] = {"F16", 1, 2, ht_f16_row_to_f32, ht_f16_row_from_f32, NULL},
    [HT_BF16] = {"BF16", 1, 2, ht_bf16_row_to_f32, ht_bf16_row_from_f32, NULL},
    [HT_Q4_0] = {"Q4_0", 32, 18, q4_0_to_f32, NULL, &ht_codes_q4_0},
    [HT_Q4_1] = {"Q4_1", 32, 20, q4_1_to_f32, NULL, &ht_codes_q4_1},
    [HT_Q5_0] = {"Q5_0", 32, 22, q5_0_to_f32, NULL, &ht_codes_q5_0},
    [HT_Q5_1] = {"Q5_1", 32, 24, q5_1_to_f32, NULL, &ht_codes_q5_1},
    [HT_Q8_0] = {"Q8_0", 32, 34, q8_0_to_f32, ht_q8_0_from_f32, &ht_codes_q8_0},
    [HT_Q2_K] = {"Q2_K", SUPER, 84, q2_k_to_f32, NULL, &ht_codes_q2_k},
    [HT_Q3_K] = {"Q3_K", SUPER, 110, q3_k_to_f32, NULL, &ht_codes_q3_k},
    [HT_Q4_K] = {"Q4_K", SUPER, 144, q4_k_to_f32, NULL, &ht_codes_q4_k},
    [HT_Q5_K] = {"Q5_K", SUPER, 176, q5_k_to_f32, NULL, &ht_codes_q5_k},
    [HT_Q6_K] = {"Q6_K", SUPER, 210, q6_k_to_f32, NULL, &ht_codes_q6_k},
    [HT_IQ1_S] = {"IQ1_S", SUPER, 50, iq1_s_to_f32, NULL, &ht_codes_iq1_s},
    [HT_IQ1_M] = {"IQ1_M", SUPER, 56, iq1_m_to_f32, NULL, &ht_codes_iq1_m},
    [HT_IQ2_XXS] = {"IQ2_XXS", SUPER, 66, iq2_xxs_to_f32, NULL, &ht_codes_iq2_xxs},
    [HT_IQ2_XS] = {"IQ2_XS", SUPER, 74, iq2_xs_to_f32, NULL, &ht_codes_iq2_xs},
    [HT_IQ2_S] = {"IQ2_S", SUPER, 82, iq2_s_to_f32, NULL, &ht_codes_iq2_s},
    [HT_IQ3_XXS] = {"IQ3_XXS", SUPER, 98, iq3_xxs_to_f32, NULL, &ht_codes_iq3_xxs},
    [HT_IQ3_S] = {"IQ3_S", SUPER, 110, iq3_s_to_f32, NULL, &ht_codes_iq3_s},
    [HT_IQ4_NL] = {"IQ4_NL", 32, 18, iq4_nl_to_f32, NULL, &ht_codes_iq4_nl},
    [HT_IQ4_XS] = {"IQ4_XS", SUPER, 136, iq4_xs_to_f32, NULL, &ht_codes_iq4_xs},
    [HT_Q1_0] = {"Q1_0", 128, 18, q1_0_to_f32, NULL, &ht_codes_q1_0},
    [HT_Q2_0] = {"Q2_0", 64, 18, q2_0_to_f32, NULL, &ht_codes_q2_0},
    [HT_TQ1_0] = {"TQ1_0", SUPER, 54, tq1_0_to_f32, NULL, &ht_codes_tq1_0},
    [HT_TQ2_0] = {"TQ2_0", SUPER, 66, tq2_0_to_f32, NULL, &ht_codes_tq2_0},
    [HT_MXFP4] = {"MXFP4", 32, 17, mxfp4_to_f32, NULL, &ht_codes_mxfp4},
    [HT_NVFP4] = {"NVFP4", 64, 36, nvfp4_to_f32, NULL, &ht_codes_nvfp4},
    // Known by name and size alone.
    [HT_Q8_1] = {.name = "Q8_1", .block_len = 32, .block_bytes = 36},
    [HT_Q8_K] = {.name = "Q8_K", .block_len = SUPER, .block_bytes = 292},
    [HT_I8] = {.name = "I8", .block_len = 1, .block_bytes = 1},
    [HT_I16] = {.name = "I16", .block_len = 1, .block_bytes = 2},
    [HT_I32] = {.name = "I32", .block_len = 1, .block_bytes = 4},
    [HT_I64] = {.name = "I64", .block_len = 1, .block_bytes = 8},
    [HT_F64] = {.name = "F64", .block_len = 1, .block_bytes = 8},
};

static void dequant(enum ht_format f, const void *blocks, float *out, size_t n_blocks) {
    const struct ht_format_info *info = &formats[f];
    const struct ht_codes *c = info->codes;
    const uint8_t *p = blocks;
    uint8_t code[SUPER];
    float scale[SUPER / 16], min[SUPER / 16];
    for (size_t b = 0; b < n_blocks; b++, p += info->block_bytes, out += info->block_len) {
        c->unpack(p, code, scale, min);
        for (uint32_t i = 0; i < info->block_len; i++) {
            float w = scale[i / c->group] * (float)((int)code[i] - c->offset);
            out[i] = c->has_min ? w - min[i / c->group] : w;
        }
    }
}

const struct ht_format_info *ht_format_get(uint32_t id) {
    if (id >= HT_N_FORMATS || !formats[id].name[0]) return NULL;
    return &formats[id];
}

enum ht_format ht_format_id(const struct ht_format_info *info) {
    return (enum ht_format)(info - formats);
}

bool ht_format_find(const char *name, enum ht_format *out) {
    for (uint32_t i = 0; i < HT_N_FORMATS; i++) {
        if (!formats[i].name[0] || strcasecmp(name, formats[i].name) != 0) continue;
        *out = (enum ht_format)i;
        return true;
    }
    return false;
}

bool ht_format_row_bytes(enum ht_format f, uint64_t n, uint64_t *out) {
    const struct ht_format_info *info = ht_format_get((uint32_t)f);
    if (!info || n % info->block_len != 0) return false;
    return ht_mul_u64(n / info->block_len, info->block_bytes, out);
}
