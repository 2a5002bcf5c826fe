// SPDX-License-Identifier: MIT
// The 16-bit floats, by bits (the specification of every conversion instruction), and the formats
// without blocks. No state; any thread.
//
//   f16   s eeeee mmmmmmmmmm        bias 15, subnormals are m * 2^-24
//   bf16  s eeeeeeee mmmmmmm        the upper half of an f32
#include "quant/rows.h"

static float f32_of(uint32_t u) {
    float f;
    memcpy(&f, &u, sizeof f);
    return f;
}

static uint32_t bits_of(float f) {
    uint32_t u;
    memcpy(&u, &f, sizeof u);
    return u;
}

float ht_f16_to_f32(uint16_t h) {
    uint32_t sign = (uint32_t)(h & 0x8000) << 16;
    uint32_t exponent = (h >> 10) & 0x1f, mantissa = h & 0x3ff;
    if (exponent == 0) return f32_of(sign | bits_of((float)mantissa * 0x1p-24f));
    if (exponent == 31) // infinity, or a NaN, which becomes quiet
        return f32_of(sign | 0x7f800000 | mantissa << 13 | (mantissa ? 0x400000 : 0));
    return f32_of(sign | (exponent + 112) << 23 | mantissa << 13);
}

uint16_t ht_f32_to_f16(float x) {
    uint32_t u = bits_of(x), sign = (u >> 16) & 0x8000, a = u & 0x7fffffff;
    if (a > 0x7f800000) return (uint16_t)(sign | 0x7e00 | ((a >> 13) & 0x3ff));
    if (a >= 0x47800000) return (uint16_t)(sign | 0x7c00); // 65536 and more
    if (a < 0x38800000) // below 2^-14: adding 0.5, whose ulp is 2^-24, rounds to nearest even
        return (uint16_t)(sign | (bits_of(f32_of(a) + 0.5f) - bits_of(0.5f)));
    a -= 112u << 23;
    a += 0xfff + ((a >> 13) & 1); // a carry may run up to infinity, as it should
    return (uint16_t)(sign | a >> 13);
}

uint16_t ht_f32_to_bf16(float x) {
    uint32_t u = bits_of(x);
    if ((u & 0x7fffffff) > 0x7f800000) return (uint16_t)(u >> 16 | 0x40);
    return (uint16_t)((u + 0x7fff + ((u >> 16) & 1)) >> 16);
}

void ht_f32_to_f32(const void *blocks, float *out, size_t n) {
    memcpy(out, blocks, 4 * n);
}

void ht_f32_from_f32(const float *in, void *blocks, size_t n) {
    memcpy(blocks, in, 4 * n);
}

void ht_f16_row_to_f32(const void *blocks, float *out, size_t n) {
    const uint8_t *p = blocks;
    for (size_t i = 0; i < n; i++) out[i] = rd_f16(p + 2 * i);
}

void ht_f16_row_from_f32(const float *in, void *blocks, size_t n) {
    uint8_t *p = blocks;
    for (size_t i = 0; i < n; i++) {
        uint16_t h = ht_f32_to_f16(in[i]);
        memcpy(p + 2 * i, &h, 2);
    }
}

void ht_bf16_row_to_f32(const void *blocks, float *out, size_t n) {
    const uint8_t *p = blocks;
    for (size_t i = 0; i < n; i++)
        out[i] = ht_bf16_to_f32((uint16_t)(p[2 * i] | p[2 * i + 1] << 8));
}

void ht_bf16_row_from_f32(const float *in, void *blocks, size_t n) {
    uint8_t *p = blocks;
    for (size_t i = 0; i < n; i++) {
        uint16_t h = ht_f32_to_bf16(in[i]);
        memcpy(p + 2 * i, &h, 2);
    }
}
