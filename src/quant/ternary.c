// SPDX-License-Identifier: MIT
// Weights of one or two bits, or of a base-3 digit, with one f16 scale a block: w = d * (q - 1).
//
//   TQ1_0  | qs 48 | qh 4 | d 2 |   256 weights: five base-3 digits a byte of qs, four a byte of qh
//   TQ2_0  | qs 64 | d 2 |          256 weights: four 2-bit fields a byte, weights 32 apart
//   Q2_0   | d 2 | qs 16 |          64 weights: four 2-bit fields a byte, weights in a row
//   Q1_0   | d 2 | qs 16 |          128 weights: a bit each, q = 0 or 2
#include "quant/rows.h"

// Digit n of a byte that holds a base-3 fraction: byte * 3^n, modulo 256, times 3, over 256.
static uint8_t digit(uint8_t byte, int n) {
    static const uint8_t pow3[5] = {1, 3, 9, 27, 81};
    uint8_t fraction = (uint8_t)(byte * pow3[n]);
    return (uint8_t)(fraction * 3 >> 8);
}

static void all_scales(float d, float *scale) {
    for (int g = 0; g < 8; g++) scale[g] = d;
}

static void unpack_q1_0(const uint8_t *block, uint8_t *code, float *scale, float *min) {
    (void)min;
    for (int g = 0; g < 4; g++) scale[g] = rd_f16(block);
    for (int i = 0; i < 128; i++) code[i] = (block[2 + i / 8] >> i % 8 & 1) * 2;
}

static void unpack_q2_0(const uint8_t *block, uint8_t *code, float *scale, float *min) {
    (void)min;
    scale[0] = scale[1] = rd_f16(block);
    for (int i = 0; i < 64; i++) code[i] = block[2 + i / 4] >> i % 4 * 2 & 3;
}

// Weights 0-159: digit i / 32 of qs[i % 32]; 160-239: digit i / 16 of qs[32 + i % 16]; 240-255:
// digit i / 4 of qh[i % 4] (i counted within each part).
static void unpack_tq1_0(const uint8_t *block, uint8_t *code, float *scale, float *min) {
    (void)min;
    all_scales(rd_f16(block + 52), scale);
    for (int i = 0; i < 160; i++) code[i] = digit(block[i % 32], i / 32);
    for (int i = 0; i < 80; i++) code[160 + i] = digit(block[32 + i % 16], i / 16);
    for (int i = 0; i < 16; i++) code[240 + i] = digit(block[48 + i % 4], i / 4);
}

static void unpack_tq2_0(const uint8_t *block, uint8_t *code, float *scale, float *min) {
    (void)min;
    all_scales(rd_f16(block + 64), scale);
    for (int i = 0; i < SUPER; i++) code[i] = block[i / 128 * 32 + i % 32] >> i / 32 % 4 * 2 & 3;
}

const struct ht_codes ht_codes_q1_0 = {1, 2, 32, false, unpack_q1_0};
const struct ht_codes ht_codes_q2_0 = {1, 3, 32, false, unpack_q2_0};
const struct ht_codes ht_codes_tq1_0 = {1, 2, 32, false, unpack_tq1_0};
const struct ht_codes ht_codes_tq2_0 = {1, 3, 32, false, unpack_tq2_0};
