// SPDX-License-Identifier: MIT
// Blocks of 32 weights with one f16 scale d (and one f16 m in the _1 formats). Byte layouts; byte j
// of qs holds weight j in its low and weight j + 16 in its high nibble; bit j of qh is the fifth
// bit of weight j.
//
//   Q4_0  | d 2 | qs 16 |                  w = d * (q - 8)
//   Q4_1  | d 2 | m 2 | qs 16 |            w = d * q + m
//   Q5_0  | d 2 | qh 4 | qs 16 |           w = d * (q - 16)
//   Q5_1  | d 2 | m 2 | qh 4 | qs 16 |     w = d * q + m
//   Q8_0  | d 2 | q 32 |                   w = d * q, q signed
#include <math.h>

#include "quant/rows.h"

static void nibbles(const uint8_t *qs, uint8_t *code) {
    for (int j = 0; j < 16; j++) {
        code[j] = qs[j] & 15;
        code[j + 16] = qs[j] >> 4;
    }
}

static void fifth_bits(const uint8_t *qh, uint8_t *code) {
    uint32_t bits = rd_u32(qh);
    for (int j = 0; j < 32; j++) code[j] |= (uint8_t)((bits >> j & 1) << 4);
}

static void unpack_q4_0(const uint8_t *block, uint8_t *code, float *scale, float *min) {
    (void)min;
    scale[0] = rd_f16(block);
    nibbles(block + 2, code);
}

static void unpack_q4_1(const uint8_t *block, uint8_t *code, float *scale, float *min) {
    scale[0] = rd_f16(block);
    min[0] = -rd_f16(block + 2);
    nibbles(block + 4, code);
}

static void unpack_q5_0(const uint8_t *block, uint8_t *code, float *scale, float *min) {
    (void)min;
    scale[0] = rd_f16(block);
    nibbles(block + 6, code);
    fifth_bits(block + 2, code);
}

static void unpack_q5_1(const uint8_t *block, uint8_t *code, float *scale, float *min) {
    scale[0] = rd_f16(block);
    min[0] = -rd_f16(block + 2);
    nibbles(block + 8, code);
    fifth_bits(block + 4, code);
}

static void unpack_q8_0(const uint8_t *block, uint8_t *code, float *scale, float *min) {
    (void)min;
    scale[0] = rd_f16(block);
    for (int j = 0; j < 32; j++) code[j] = block[2 + j] ^ 0x80; // q + 128
}

const struct ht_codes ht_codes_q4_0 = {8, 15, 32, false, unpack_q4_0};
const struct ht_codes ht_codes_q4_1 = {0, 15, 32, true, unpack_q4_1};
const struct ht_codes ht_codes_q5_0 = {16, 31, 32, false, unpack_q5_0};
const struct ht_codes ht_codes_q5_1 = {0, 31, 32, true, unpack_q5_1};
const struct ht_codes ht_codes_q8_0 = {128, 255, 32, false, unpack_q8_0};

// d = amax / 127, rounded to f16 for the file; codes by the unrounded d, nearest, halves away. A
// block with a NaN has NaN for its d, so that all of it reads as NaN.
void ht_q8_0_from_f32(const float *in, void *blocks, size_t n) {
    uint8_t *p = blocks;
    for (size_t b = 0; b < n; b++, p += 34, in += 32) {
        float amax = 0.0f;
        for (int j = 0; j < 32; j++) amax = fmaxf(amax, fabsf(in[j]));
        float d = amax / 127.0f, inverse = d > 0.0f ? 1.0f / d : 0.0f;
        if (!(inverse < INFINITY)) d = inverse = 0.0f; // d is subnormal, far below the least f16
        for (int j = 0; j < 32; j++) d = in[j] != in[j] ? NAN : d;
        uint16_t h = ht_f32_to_f16(d);
        memcpy(p, &h, 2);
        for (int j = 0; j < 32; j++) {
            float q = roundf(in[j] * inverse);
            p[2 + j] = (uint8_t)(int8_t)fmaxf(-127.0f, fminf(127.0f, q));
        }
    }
}
