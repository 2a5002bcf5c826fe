// SPDX-License-Identifier: MIT
// Formats whose codes select from a table of values.
//
//   IQ4_NL  | d 2 | qs 16 |                               w = d * values[q], blocks of 32
//   IQ4_XS  | d 2 | scales_h 2 | scales_l 4 | qs 128 |    w = d * (s - 32) * values[q], groups 32
//   MXFP4   | e 1 | qs 16 |                               w = 2^(e - 128) * fp4[q], blocks of 32
//   NVFP4   | d[4] 4 | qs 32 |                            w = d[g] / 2 * fp4[q], 64, groups of 16
#include "quant/rows.h"

static const int8_t iq4_values[16] = {-127, -104, -83, -65, -49, -35, -22, -10,
                                      1,    13,   25,  38,  53,  69,  89,  113};

// Twice the value of a 4-bit float with 2 exponent and 1 mantissa bits (OCP Microscaling, e2m1).
static const int8_t fp4_values[16] = {0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12};

// Byte j of 16 holds weight j in its low and weight j + 16 in its high nibble.
static void by_table(const uint8_t *qs, const int8_t *values, int offset, uint8_t *code) {
    for (int j = 0; j < 16; j++) {
        code[j] = (uint8_t)(values[qs[j] & 15] + offset);
        code[j + 16] = (uint8_t)(values[qs[j] >> 4] + offset);
    }
}

static void unpack_iq4_nl(const uint8_t *block, uint8_t *code, float *scale, float *min) {
    (void)min;
    scale[0] = rd_f16(block);
    by_table(block + 2, iq4_values, 128, code);
}

// Scale g has its low four bits in nibble g % 2 of scales_l[g / 2], its high two in field g of
// scales_h.
static void unpack_iq4_xs(const uint8_t *block, uint8_t *code, float *scale, float *min) {
    float d = rd_f16(block);
    uint32_t high_bits = rd_u16(block + 2);
    (void)min;
    for (int g = 0; g < 8; g++) {
        int low = block[4 + g / 2] >> g % 2 * 4 & 15, high = high_bits >> 2 * g & 3;
        scale[g] = d * (float)((low | high << 4) - 32);
        by_table(block + 8 + 16 * g, iq4_values, 128, code + 32 * g);
    }
}

static void unpack_mxfp4(const uint8_t *block, uint8_t *code, float *scale, float *min) {
    // 2^(e - 128): the table's values are doubled, so the exponent is one less than e8m0's. The two
    // smallest are subnormal f32.
    uint32_t e = block[0], bits = e < 2 ? 0x200000u << e : (e - 1) << 23;
    (void)min;
    memcpy(scale, &bits, sizeof bits);
    by_table(block + 1, fp4_values, 12, code);
}

// Half of an 8-bit float with 4 exponent and 3 mantissa bits (e4m3, whose two NaNs are 0 and 480
// here, as ggml has them), its sign ignored: the bits of an f16 of a 256th.
static float half_e4m3(uint8_t b) {
    return b == 0x7f ? 0 : ht_f16_to_f32((uint16_t)((b & 0x7f) << 7)) * 128;
}

// Byte j of the 8 of a group holds weight j in its low and weight j + 8 in its high nibble.
static void unpack_nvfp4(const uint8_t *block, uint8_t *code, float *scale, float *min) {
    (void)min;
    for (int g = 0; g < 4; g++, code += 16) {
        scale[g] = half_e4m3(block[g]);
        for (int j = 0; j < 8; j++) {
            uint8_t q = block[4 + 8 * g + j];
            code[j] = (uint8_t)(fp4_values[q & 15] + 12);
            code[j + 8] = (uint8_t)(fp4_values[q >> 4] + 12);
        }
    }
}

const struct ht_codes ht_codes_iq4_nl = {128, 241, 32, false, unpack_iq4_nl};
const struct ht_codes ht_codes_iq4_xs = {128, 241, 32, false, unpack_iq4_xs};
const struct ht_codes ht_codes_mxfp4 = {12, 24, 32, false, unpack_mxfp4};
const struct ht_codes ht_codes_nvfp4 = {12, 24, 16, false, unpack_nvfp4};
