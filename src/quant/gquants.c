// SPDX-License-Identifier: MIT
// Formats whose codes select several values at once from a grid. Super-blocks of 256 weights:
//
//   IQ2_XXS | d 2 | (q 4, signs 28 bits, s 4 bits) 8 |         w = +-d * (1/2 + s) / 4 * grid
//   IQ2_XS  | d 2 | (q 9 bits, signs 7 bits) 32 | scales 8 |   the same, groups of 16
//   IQ2_S   | d 2 | q 32 | signs 32 | qh 8 | scales 8 |        the same, groups of 16
//   IQ3_XXS | d 2 | q 64 | (signs 28 bits, s 4 bits) 8 |       w = +-d * (1/2 + s) / 2 * grid
//   IQ3_S   | d 2 | q 64 | qh 8 | signs 32 | scales 4 |        w = +-d * (1 + 2 s) * grid
//   IQ1_S   | d 2 | q 32 | (qh 12 bits, s 3, side 1) 8 |       w = d * (1 + 2 s) * (grid +- 1/8)
//   IQ1_M   | q 32 | (qh 3 bits, side 1) 32 | scales, d 8 |    the same, groups of 16
//
// Groups have 32 weights unless said. All scales are d * (1 + 2 s) times a power of two, which is
// exact. Seven bits of signs stand for eight: the eighth makes the number of set bits even.
#include "quant/grids.h"
#include "quant/rows.h"

static const int8_t iq2_values[3] = {8, 25, 43};
static const int8_t iq3_values[8] = {4, 12, 20, 28, 36, 44, 52, 62};

// Field j of an entry, of n bits.
static uint32_t field(uint32_t entry, int j, int n) {
    return entry >> (j % 2 * 8 + j / 2 * n) & ((1u << n) - 1);
}

// Seven bits of signs, and the eighth.
static uint32_t even(uint32_t signs) {
    uint32_t x = signs ^ signs >> 4;
    x ^= x >> 2;
    return signs | ((x ^ x >> 1) & 1) << 7;
}

static float odd_scale(float d, uint32_t s) {
    return d * (float)(1 + 2 * s);
}

static void signed_by(uint32_t signs, int offset, const int *value, int n, uint8_t *code) {
    for (int j = 0; j < n; j++)
        code[j] = (uint8_t)(signs >> j & 1 ? offset - value[j] : offset + value[j]);
}

static void iq2(uint32_t entry, uint32_t signs, uint8_t *code) {
    int value[8];
    for (int j = 0; j < 8; j++) value[j] = iq2_values[field(entry, j, 2)];
    signed_by(signs, 128, value, 8, code);
}

static void unpack_iq2_xxs(const uint8_t *block, uint8_t *code, float *scale, float *min) {
    float d = rd_f16(block) * 0.125f;
    (void)min;
    for (int g = 0; g < 8; g++) {
        const uint8_t *q = block + 2 + 8 * g;
        uint32_t signs = rd_u32(q + 4);
        scale[g] = odd_scale(d, signs >> 28);
        for (int i = 0; i < 4; i++, code += 8)
            iq2(ht_grid_iq2_xxs[q[i]], even(signs >> 7 * i & 127), code);
    }
}

static void scales_iq2(float d, const uint8_t *s, float *scale) {
    for (int g = 0; g < 16; g++) scale[g] = odd_scale(d * 0.125f, s[g / 2] >> g % 2 * 4 & 15);
}

static void unpack_iq2_xs(const uint8_t *block, uint8_t *code, float *scale, float *min) {
    (void)min;
    scales_iq2(rd_f16(block), block + 66, scale);
    for (int i = 0; i < 32; i++, code += 8) {
        uint32_t q = rd_u16(block + 2 + 2 * i);
        iq2(ht_grid_iq2_xs[q & 511], even(q >> 9), code);
    }
}

static void unpack_iq2_s(const uint8_t *block, uint8_t *code, float *scale, float *min) {
    (void)min;
    scales_iq2(rd_f16(block), block + 74, scale);
    for (int i = 0; i < 32; i++, code += 8) {
        uint32_t high = block[66 + i / 4] >> i % 4 * 2 & 3;
        iq2(ht_grid_iq2_s[block[2 + i] | high << 8], block[34 + i], code);
    }
}

// Four weights, by the numbers of an entry, which IQ3_S has for values.
static void iq3(uint32_t entry, uint32_t signs, bool places, int offset, uint8_t *code) {
    int value[4];
    for (int j = 0; j < 4; j++) {
        uint32_t number = field(entry, j, 4);
        value[j] = places ? iq3_values[number / 2] : (int)number;
    }
    signed_by(signs, offset, value, 4, code);
}

static void unpack_iq3_xxs(const uint8_t *block, uint8_t *code, float *scale, float *min) {
    float d = rd_f16(block) * 0.25f;
    (void)min;
    for (int i = 0; i < 64; i++, code += 4) {
        uint32_t signs = rd_u32(block + 66 + i / 8 * 4);
        scale[i / 8] = odd_scale(d, signs >> 28);
        signs = even(signs >> i % 8 / 2 * 7 & 127) >> i % 2 * 4;
        iq3(ht_grid_iq3_xxs[block[2 + i]], signs, true, 128, code);
    }
}

// The index of the four weights of entry i has bit i % 8 of qh[i / 8] as its ninth bit.
static void unpack_iq3_s(const uint8_t *block, uint8_t *code, float *scale, float *min) {
    const uint8_t *q = block + 2, *qh = block + 66, *signs = block + 74, *s = block + 106;
    float d = rd_f16(block);
    (void)min;
    for (int g = 0; g < 8; g++) scale[g] = odd_scale(d, s[g / 2] >> g % 2 * 4 & 15);
    for (int i = 0; i < 64; i++, code += 4) {
        uint32_t entry = ht_grid_iq3_s[q[i] | (qh[i / 8] >> i % 8 & 1) << 8];
        iq3(entry, (uint32_t)signs[i / 2] >> i % 2 * 4, false, 16, code);
    }
}

// Eight times a value of -1, 0 or 1, and one more, or one less where the side is set.
static void iq1(uint32_t entry, uint32_t side, int offset, uint8_t *code) {
    for (int j = 0; j < 8; j++)
        code[j] = (uint8_t)(offset + 8 * ((int)field(entry, j, 2) - 1) + (side ? -1 : 1));
}

static void unpack_iq1_s(const uint8_t *block, uint8_t *code, float *scale, float *min) {
    float d = rd_f16(block) * 0.125f;
    (void)min;
    for (int g = 0; g < 8; g++) {
        uint32_t qh = rd_u16(block + 34 + 2 * g);
        scale[g] = odd_scale(d, qh >> 12 & 7);
        for (int i = 0; i < 4; i++, code += 8)
            iq1(ht_grid_iq1[block[2 + 4 * g + i] | (qh >> 3 * i & 7) << 8], qh >> 15, 16, code);
    }
}

// Each 16 bits of scales are four of three bits, and four bits of d.
static void unpack_iq1_m(const uint8_t *block, uint8_t *code, float *scale, float *min) {
    uint32_t s[4], bits = 0;
    (void)min;
    for (int i = 0; i < 4; i++) {
        s[i] = rd_u16(block + 48 + 2 * i);
        bits |= s[i] >> 12 << 4 * i;
    }
    float d = ht_f16_to_f32((uint16_t)bits) * 0.125f;
    for (int g = 0; g < 16; g++) scale[g] = odd_scale(d, s[g / 4] >> g % 4 * 3 & 7);
    for (int i = 0; i < 32; i++, code += 8) {
        uint32_t qh = block[32 + i / 2] >> i % 2 * 4;
        iq1(ht_grid_iq1[block[i] | (qh & 7) << 8], qh & 8, 32, code);
    }
}

const struct ht_codes ht_codes_iq2_xxs = {128, 128 + 43, 32, false, unpack_iq2_xxs};
const struct ht_codes ht_codes_iq2_xs = {128, 128 + 43, 16, false, unpack_iq2_xs};
const struct ht_codes ht_codes_iq2_s = {128, 128 + 43, 16, false, unpack_iq2_s};
const struct ht_codes ht_codes_iq3_xxs = {128, 128 + 62, 32, false, unpack_iq3_xxs};
const struct ht_codes ht_codes_iq3_s = {16, 31, 32, false, unpack_iq3_s};
const struct ht_codes ht_codes_iq1_s = {16, 25, 32, false, unpack_iq1_s};
const struct ht_codes ht_codes_iq1_m = {32, 41, 16, false, unpack_iq1_m};
