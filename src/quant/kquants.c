// SPDX-License-Identifier: MIT
// Super-blocks of 256 weights whose scales are themselves small integers times an f16 d (and dmin).
//
//   Q2_K  | scales 16 | qs 64 | d 2 | dmin 2 |     groups of 16: w = d*(s & 15)*q - dmin*(s >> 4)
//   Q3_K  | hmask 32 | qs 64 | scales 12 | d 2 |   groups of 16: w = d*(s - 32)*(q - 4)
//   Q4_K  | d 2 | dmin 2 | scales 12 | qs 128 |    groups of 32: w = d*s*q - dmin*m
//   Q5_K  | d 2 | dmin 2 | scales 12 | qh 32 | qs 128 |   the same
//   Q6_K  | ql 128 | qh 64 | scales 16 | d 2 |     groups of 16: w = d*s*(q - 32), s signed
#include "quant/rows.h"

// 2-bit fields: byte l of the half's 32 holds weights l, 32 + l, 64 + l, 96 + l of its 128.
static void two_bits(const uint8_t *qs, uint8_t *code) {
    for (int i = 0; i < SUPER; i++) {
        int half = i / 128, shift = i / 32 % 4 * 2;
        code[i] = qs[32 * half + i % 32] >> shift & 3;
    }
}

static void unpack_q2_k(const uint8_t *block, uint8_t *code, float *scale, float *min) {
    float d = rd_f16(block + 80), dmin = rd_f16(block + 82);
    for (int g = 0; g < 16; g++) {
        scale[g] = d * (float)(block[g] & 15);
        min[g] = dmin * (float)(block[g] >> 4);
    }
    two_bits(block + 16, code);
}

// The 16 scales of 6 bits in 12 bytes: the low four bits of scale g are nibble g / 8 of byte g % 8,
// the high two bits of scale g are field g / 4 of byte 8 + g % 4.
static void unpack_q3_k(const uint8_t *block, uint8_t *code, float *scale, float *min) {
    const uint8_t *s = block + 96;
    float d = rd_f16(block + 108);
    (void)min;
    for (int g = 0; g < 16; g++) {
        int low = s[g % 8] >> g / 8 * 4 & 15, high = s[8 + g % 4] >> g / 4 * 2 & 3;
        scale[g] = d * (float)((low | high << 4) - 32);
    }
    two_bits(block + 32, code);
    for (int i = 0; i < SUPER; i++) code[i] |= (uint8_t)((block[i % 32] >> i / 32 & 1) << 2);
}

// The 8 scales and 8 mins of 6 bits in 12 bytes: the first four of each lie whole in bytes 0-3 and
// 4-7; of the last four, the low four bits lie in bytes 8-11 (scale low nibble, min high nibble)
// and the high two bits on top of bytes 0-3 and 4-7.
static void scales_mins(const uint8_t *block, float *scale, float *min) {
    const uint8_t *s = block + 4;
    float d = rd_f16(block), dmin = rd_f16(block + 2);
    for (int j = 0; j < 4; j++) {
        scale[j] = d * (float)(s[j] & 63);
        min[j] = dmin * (float)(s[j + 4] & 63);
        scale[j + 4] = d * (float)((s[j + 8] & 15) | s[j] >> 6 << 4);
        min[j + 4] = dmin * (float)(s[j + 8] >> 4 | s[j + 4] >> 6 << 4);
    }
}

// Byte l of each 32 holds weight l of one group and, above it, weight l of the next.
static void nibbles_by_64(const uint8_t *qs, uint8_t *code) {
    for (int i = 0; i < SUPER; i++) code[i] = qs[i / 64 * 32 + i % 32] >> i / 32 % 2 * 4 & 15;
}

static void unpack_q4_k(const uint8_t *block, uint8_t *code, float *scale, float *min) {
    scales_mins(block, scale, min);
    nibbles_by_64(block + 16, code);
}

// Bit g of byte l of qh is the fifth bit of weight l of group g.
static void unpack_q5_k(const uint8_t *block, uint8_t *code, float *scale, float *min) {
    scales_mins(block, scale, min);
    nibbles_by_64(block + 48, code);
    for (int i = 0; i < SUPER; i++) code[i] |= (uint8_t)((block[16 + i % 32] >> i / 32 & 1) << 4);
}

// Each half of 128 weights has 64 bytes of ql and 32 of qh. Weight i of the half: the low four bits
// are nibble i / 64 of ql[i % 64], the high two are field i / 32 of qh[i % 32].
static void unpack_q6_k(const uint8_t *block, uint8_t *code, float *scale, float *min) {
    float d = rd_f16(block + 208);
    (void)min;
    for (int g = 0; g < 16; g++) scale[g] = d * (float)(int8_t)block[192 + g];
    for (int half = 0; half < 2; half++) {
        const uint8_t *ql = block + 64 * half, *qh = block + 128 + 32 * half;
        for (int i = 0; i < 128; i++) {
            int low = ql[i % 64] >> i / 64 * 4 & 15, high = qh[i % 32] >> i / 32 * 2 & 3;
            code[128 * half + i] = (uint8_t)(low | high << 4);
        }
    }
}

const struct ht_codes ht_codes_q2_k = {0, 3, 16, true, unpack_q2_k};
const struct ht_codes ht_codes_q3_k = {4, 7, 16, false, unpack_q3_k};
const struct ht_codes ht_codes_q4_k = {0, 15, 32, true, unpack_q4_k};
const struct ht_codes ht_codes_q5_k = {0, 31, 32, true, unpack_q5_k};
const struct ht_codes ht_codes_q6_k = {32, 63, 16, false, unpack_q6_k};
