// SPDX-License-Identifier: MIT
// Weight formats: one table row each, and readable reference dequantisers (the specification of
// every kernel). Knows nothing of files. No state; any thread. Layering: quant uses base alone;
// gguf uses this header.
#ifndef HT_QUANT_FORMAT_H
#define HT_QUANT_FORMAT_H

#include "base/status.h"

// The ids are GGUF's tensor type numbers. Some rows have a dequantiser; the rest are known
// by name and size so that a file that holds one can be inspected, and refused by name.
enum ht_format {
    HT_F32 = 0,
    HT_F16 = 1,
    HT_Q4_0 = 2,
    HT_Q4_1 = 3,
    HT_Q5_0 = 6,
    HT_Q5_1 = 7,
    HT_Q8_0 = 8,
    HT_Q8_1 = 9,
    HT_Q2_K = 10,
    HT_Q3_K = 11,
    HT_Q4_K = 12,
    HT_Q5_K = 13,
    HT_Q6_K = 14,
    HT_Q8_K = 15,
    HT_IQ2_XXS = 16,
    HT_IQ2_XS = 17,
    HT_IQ3_XXS = 18,
    HT_IQ1_S = 19,
    HT_IQ4_NL = 20,
    HT_IQ3_S = 21,
    HT_IQ2_S = 22,
    HT_IQ4_XS = 23,
    HT_I8 = 24,
    HT_I16 = 25,
    HT_I32 = 26,
    HT_I64 = 27,
    HT_F64 = 28,
    HT_IQ1_M = 29,
    HT_BF16 = 30,
    HT_TQ1_0 = 34,
    HT_TQ2_0 = 35,
    HT_MXFP4 = 39,
    HT_NVFP4 = 40,
    HT_Q1_0 = 41,
    HT_Q2_0 = 42,
    HT_N_FORMATS = 43
};

// The integer view of a block format, from which both the dequantisers and the scalar kernels'
// packers are made: w[i] = scale[i / group] * (code[i] - offset) - min[i / group], every operation
// in f32, the product first.
struct ht_codes {
    uint8_t offset;   // subtracted from every code; 0 for formats with mins
    uint8_t max_code; // the largest code there is
    uint8_t group;    // weights that share a scale: 16 or 32
    bool has_min;
    // One block: code[block_len], scale[block_len / group] and, if has_min, min[block_len / group].
    void (*unpack)(const uint8_t *block, uint8_t *code, float *scale, float *min);
};

struct ht_format_info {
    char name[8];       // "": no such format
    uint32_t block_len; // weights a block
    uint32_t block_bytes;
    // Dequantises n_blocks blocks to f32. NULL: not supported as a weight.
    void (*to_f32)(const void *blocks, float *out, size_t n_blocks);
    // Quantises n_blocks blocks (nearest, deterministic). NULL: no quantiser.
    void (*from_f32)(const float *in, void *blocks, size_t n_blocks);
    const struct ht_codes *codes; // NULL: not a format of integer codes and scales
};

// NULL for an id that no row has.
const struct ht_format_info *ht_format_get(uint32_t id);
// Of a row of the table.
enum ht_format ht_format_id(const struct ht_format_info *info);
// By name, case-insensitive; false if there is none.
HT_MUST_CHECK bool ht_format_find(const char *name, enum ht_format *out);
// Bytes of a row of n weights; false if n is not a whole number of blocks or the product overflows.
HT_MUST_CHECK bool ht_format_row_bytes(enum ht_format f, uint64_t n, uint64_t *out);

float ht_f16_to_f32(uint16_t h);
uint16_t ht_f32_to_f16(float x); // round to nearest even
static inline float ht_bf16_to_f32(uint16_t b) {
    union {
        uint32_t u;
        float f;
    } v = {(uint32_t)b << 16};
    return v.f;
}
uint16_t ht_f32_to_bf16(float x); // round to nearest even; NaN stays NaN

#endif
