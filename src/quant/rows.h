// SPDX-License-Identifier: MIT
// What the files of the quant room share: the table's rows are declared here, one line a format,
// and defined in the file of the format's family. No state.
#ifndef HT_QUANT_ROWS_H
#define HT_QUANT_ROWS_H

#include <string.h>

#include "quant/format.h"

// Weights of a super-block (the K, IQ and ternary formats).
#define SUPER 256

// half.c
void ht_f32_to_f32(const void *blocks, float *out, size_t n);
void ht_f32_from_f32(const float *in, void *blocks, size_t n);
void ht_f16_row_to_f32(const void *blocks, float *out, size_t n);
void ht_f16_row_from_f32(const float *in, void *blocks, size_t n);
void ht_bf16_row_to_f32(const void *blocks, float *out, size_t n);
void ht_bf16_row_from_f32(const float *in, void *blocks, size_t n);

// legacy.c: blocks of 32
extern const struct ht_codes ht_codes_q4_0, ht_codes_q4_1, ht_codes_q5_0, ht_codes_q5_1,
    ht_codes_q8_0;
void ht_q8_0_from_f32(const float *in, void *blocks, size_t n);
// kquants.c: super-blocks of 256
extern const struct ht_codes ht_codes_q2_k, ht_codes_q3_k, ht_codes_q4_k, ht_codes_q5_k,
    ht_codes_q6_k;
// iquants.c: codes that index a table of values
extern const struct ht_codes ht_codes_iq4_nl, ht_codes_iq4_xs, ht_codes_mxfp4, ht_codes_nvfp4;
// gquants.c: codes that index a grid of eight or four values
extern const struct ht_codes ht_codes_iq1_s, ht_codes_iq1_m, ht_codes_iq2_xxs, ht_codes_iq2_xs;
extern const struct ht_codes ht_codes_iq2_s, ht_codes_iq3_xxs, ht_codes_iq3_s;
// ternary.c: one or two bits
extern const struct ht_codes ht_codes_q1_0, ht_codes_q2_0, ht_codes_tq1_0, ht_codes_tq2_0;

// Little-endian reads of any alignment.
static inline float rd_f16(const uint8_t *p) {
    return ht_f16_to_f32((uint16_t)(p[0] | p[1] << 8));
}
static inline uint32_t rd_u16(const uint8_t *p) {
    return (uint32_t)(p[0] | p[1] << 8);
}
static inline uint32_t rd_u32(const uint8_t *p) {
    return (uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
}

#endif
