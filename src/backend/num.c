// SPDX-License-Identifier: MIT
// Elementary functions and reductions with one defined result on every machine: the scalar
// specification of num.h. Each is a straight line of IEEE operations, so no library and no compiler
// decides the last bit. No state; any thread.
#include "backend/num.h"

#include <string.h>

#include "backend/backend.h"

static float float_from_bits(uint32_t u) {
    float f;
    memcpy(&f, &u, sizeof f);
    return f;
}

static float pow2(int n) {
    return float_from_bits((uint32_t)(n + 127) << 23);
} // -126 <= n <= 127

static float scale2(float p, int n) {
    int half = n >> 1;
    return p * pow2(half) * pow2(n - half);
}

float ht_expf(float x) {
    if (x != x) return x;
    if (x <= HT_EXP_MIN) return 0.0f;
    if (x >= HT_EXP_MAX) return INFINITY;
    float n = ht_rint_small(x * HT_EXP_LOG2E);
    float r = fmaf(n, -HT_EXP_LN2_HI, x);
    r = fmaf(n, -HT_EXP_LN2_LO, r);
    float q = HT_EXP_C6;
    q = fmaf(q, r, HT_EXP_C5);
    q = fmaf(q, r, HT_EXP_C4);
    q = fmaf(q, r, HT_EXP_C3);
    q = fmaf(q, r, HT_EXP_C2);
    q = fmaf(q, r, 1.0f);
    float p = fmaf(q, r, 1.0f);
    return scale2(p, (int)n);
}

float ht_exp2f(float x) {
    if (x != x) return x;
    if (x <= HT_EXP2_MIN) return 0.0f;
    float n = ht_rint_small(x), r = x - n;
    float q = HT_EXP2_C6;
    q = fmaf(q, r, HT_EXP2_C5);
    q = fmaf(q, r, HT_EXP2_C4);
    q = fmaf(q, r, HT_EXP2_C3);
    q = fmaf(q, r, HT_EXP2_C2);
    q = fmaf(q, r, HT_EXP2_C1);
    float p = fmaf(q, r, 1.0f);
    return scale2(p, (int)n);
}

float ht_siluf(float x) {
    return x / (1.0f + ht_expf(-x));
}

float ht_tanhf(float x) {
    float a = fabsf(x);
    if (a < HT_TANH_SMALL) {
        float s = x * x;
        float p = HT_TANH_T11;
        p = fmaf(p, s, HT_TANH_T9);
        p = fmaf(p, s, HT_TANH_T7);
        p = fmaf(p, s, HT_TANH_T5);
        p = fmaf(p, s, HT_TANH_T3);
        return fmaf(p * s, x, x);
    }
    float e = ht_expf(a + a);
    return copysignf(1.0f - 2.0f / (e + 1.0f), x);
}

float ht_gelu_tanhf(float x) {
    float t = HT_GELU_CUBIC * (x * x);
    float v = fmaf(t, x, x);
    return x / (1.0f + ht_expf(v * HT_GELU_M2S));
}

float ht_erff(float x) {
    float a = fabsf(x);
    if (a < HT_ERF_SMALL) {
        float s = x * x;
        float p = HT_ERF_E6;
        p = fmaf(p, s, HT_ERF_E5);
        p = fmaf(p, s, HT_ERF_E4);
        p = fmaf(p, s, HT_ERF_E3);
        p = fmaf(p, s, HT_ERF_E2);
        p = fmaf(p, s, HT_ERF_E1);
        p = fmaf(p, s, HT_ERF_E0);
        return fmaf(p, x, x);
    }
    a = a > HT_ERF_ONE ? HT_ERF_ONE : a;
    float p = HT_ERF_L6;
    p = fmaf(p, a, HT_ERF_L5);
    p = fmaf(p, a, HT_ERF_L4);
    p = fmaf(p, a, HT_ERF_L3);
    p = fmaf(p, a, HT_ERF_L2);
    p = fmaf(p, a, HT_ERF_L1);
    p = fmaf(p, a, HT_ERF_L0);
    return copysignf(1.0f - ht_expf(p), x);
}

float ht_gelu_erff(float x) {
    return (0.5f * x) * (1.0f + ht_erff(x * HT_SQRT1_2));
}

void ht_sincos(double x, double *sin_x, double *cos_x) {
    double n = (x * HT_TWO_OVER_PI + HT_RINT_MAGIC_D) - HT_RINT_MAGIC_D;
    double r = fma(n, -HT_PIO2_HI, x);
    r = fma(n, -HT_PIO2_LO, r);
    double s = r * r;
    double p = HT_SIN_S13;
    p = fma(p, s, HT_SIN_S11);
    p = fma(p, s, HT_SIN_S9);
    p = fma(p, s, HT_SIN_S7);
    p = fma(p, s, HT_SIN_S5);
    p = fma(p, s, HT_SIN_S3);
    double sr = fma(p * s, r, r);
    p = HT_COS_C14;
    p = fma(p, s, HT_COS_C12);
    p = fma(p, s, HT_COS_C10);
    p = fma(p, s, HT_COS_C8);
    p = fma(p, s, HT_COS_C6);
    p = fma(p, s, HT_COS_C4);
    p = fma(p, s, -0.5);
    double cr = fma(p, s, 1.0);
    int quadrant = (int)((int64_t)n & 3);
    double sn = quadrant & 1 ? cr : sr, cs = quadrant & 1 ? sr : cr;
    *sin_x = quadrant & 2 ? -sn : sn;
    *cos_x = quadrant == 1 || quadrant == 2 ? -cs : cs;
}

// Lanes j and j + 8, then j + 4, j + 2, j + 1.
static float fold_sum(float *lane) {
    for (int half = HT_LANES / 2; half > 0; half /= 2)
        for (int j = 0; j < half; j++) lane[j] = lane[j] + lane[j + half];
    return lane[0];
}

double ht_ln(uint32_t n) {
    int e;
    double m = frexp(n, &e);
    if (m < M_SQRT1_2) m *= 2, e--;
    double s = (m - 1) / (m + 1), q = 1.0 / 23;
    for (int k = 21; k > 0; k -= 2) q = q * (s * s) + 1.0 / k;
    return e * M_LN2 + 2 * s * q;
}

double ht_rope_magnitude(const struct ht_rope *rope, uint32_t pos) {
    double m = (double)rope->mscale;
    if (rope->far_beta == 0) return m;
    return m * (1 + (double)rope->far_beta * ht_ln(1 + pos / rope->far_period));
}

float ht_sum16(const float *x, uint32_t n) {
    float lane[HT_LANES] = {0};
    for (uint32_t i = 0; i < n; i++) lane[i % HT_LANES] = lane[i % HT_LANES] + x[i];
    return fold_sum(lane);
}

float ht_sum_sq16(const float *x, uint32_t n) {
    float lane[HT_LANES] = {0};
    for (uint32_t i = 0; i < n; i++) lane[i % HT_LANES] = fmaf(x[i], x[i], lane[i % HT_LANES]);
    return fold_sum(lane);
}

float ht_max16(const float *x, uint32_t n) {
    float lane[HT_LANES];
    for (int j = 0; j < HT_LANES; j++) lane[j] = -INFINITY;
    for (uint32_t i = 0; i < n; i++)
        lane[i % HT_LANES] = x[i] > lane[i % HT_LANES] ? x[i] : lane[i % HT_LANES];
    for (int half = HT_LANES / 2; half > 0; half /= 2)
        for (int j = 0; j < half; j++)
            lane[j] = lane[j + half] > lane[j] ? lane[j + half] : lane[j];
    return lane[0];
}

float ht_i16_from_f32(const float *x, uint32_t n, int16_t *code) {
    float most = 0.0f, inverse;
    for (uint32_t i = 0; i < n; i++) most = fabsf(x[i]) > most ? fabsf(x[i]) : most;
    float step = ht_i16_step(ht_sum_sq16(x, n), most, &inverse);
    for (uint32_t i = 0; i < n; i++)
        code[i] = inverse > 0.0f ? (int16_t)ht_rint_small(x[i] * inverse) : 0;
    return step;
}
