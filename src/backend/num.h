// SPDX-License-Identifier: MIT
// Numbers that must come out the same everywhere: elementary functions of our own (scalar versions,
// the specification) and the fixed order of every f32 reduction. A vector kernel of any level
// performs exactly these operations, lane by lane, so that results agree bit for bit between
// levels, batch sizes and thread counts. The whole tree is compiled with -ffp-contract=off: an fma
// happens where fmaf is written, and only there.
//
// Reductions over a row of n floats (sums, sums of squares, maxima): HT_LANES = 16 partial results;
// lane j takes the elements j, j + 16, j + 32, ... in order (a lane past the end takes nothing);
// then lanes j and j + 8 are combined, then j and j + 4, j + 2, j + 1. So one zmm, two ymm or four
// q registers do the same.
//
// Linear (cpu): as cpu/linear.h says.
//
// Norms: r = 1 / sqrt(sum_sq16(x) / n + eps), y = (x * r) * w; LayerNorm with d = x - sum16(x) / n
// in the place of x, and y = fma(d * r, w, b) where it has a bias. Where sum_sq16 is not below
// infinity, r is NaN (ht_norm_factor).
//
// Rotation: y_a = fma(x_a, cos, x_b * -sin), y_b = fma(x_b, cos, x_a * sin); cos and sin are
// multiplied by ht_rope_magnitude in double, then rounded.
//
// Attention (cpu): per query row, positions in segments of 512 of tiles of 64, both at multiples of
// their length, in order. In a segment, from m = -inf, l[16] = 0, acc = 0; per tile, over the
// positions j that the row attends to (no other takes part, nor is multiplied by 0):
//   s[j] = sum over d rising of fma(q[d], k[j][d], s[j]) from 0; by = scale * log2(e), or, if there
//          is a cap, s[j] = tanh(s[j] * scale / cap) and by = cap * log2(e)
//   m' = max(m, (max_j s[j]) * by); c = 2^(m - m'); p[j] = 2^fma(s[j], by, -m')
//   (where |m'| reaches HT_SCORE_LIMIT of cpu/vec.h: m' is NaN, and p[j] 0)
//   l[i] = fma(l[i], c, sum of p[j] over j % 16 == i, rising)
//   acc[d] = acc[d] * c; acc[d] = fma(p[j], v[j][d], acc[d]) for j rising
// The first segment gives M = m, L = sum16(l), A = acc; each further one
//   M' = max(M, m); b = 2^(M - M'), n = 2^(m - M'); L = fma(sum16(l), n, L * b);
//   A[d] = fma(n, acc[d], A[d] * b)
// and y[d] = A[d] * (1 / L). So threads may share a long context by segments.
// KV pages: k and v are rounded when they are stored, to nearest even (f16, bf16), and widened
// exactly. Pages of q8_0 hold the codes and f16 scales of ht_q8_0_from_f32, a scale for each
// position j and block b of 32 elements; only codes, which are exact in f32, meet q and p:
//   t = sum over d of block b rising of fma(q[d], code[j][d], t) from 0;
//   s[j] = fma(t, scale[j][b], s[j]) for b rising, from 0
//   acc[d] = fma(p[j] * scale[j][b], code[j][d], acc[d]), the product rounded
//
// Pages of i16 hold a row of a head as whole numbers of 16 bits and one step (ht_i16_from_f32), and
// products are of whole numbers, summed exactly in 32 bits. A query row becomes such a row, too:
//   s[j] = ((float)(sum over d of qcode[d] * kcode[j][d]) * kstep[j]) * qstep
// No sum overflows: the codes of a row have a norm of at most HT_I16_NORM + sqrt(d) / 2, and by
// Cauchy and Schwarz a product of two rows, or of parts of them, is at most that squared. Weights
// become whole numbers tile by tile, whose sum is bounded instead:
//   w[j] = p[j] > 0 ? p[j] * vstep[j] : 0; S = sum16(w), M = max16(w);
//   wstep = max(M * (1 / HT_I16_MAX), S * (1 / HT_I16_SUM)); wcode[j] = rint(w[j] * (1 / wstep))
//   acc[d] = fma((float)(sum over j of wcode[j] * vcode[j][d]), wstep, acc[d] * c)
// 0 times any code is 0, so here p of positions that a row does not attend to counts as 0.
#ifndef HT_BACKEND_NUM_H
#define HT_BACKEND_NUM_H

#include <math.h>
#include <stdint.h>

struct ht_rope;

#define HT_LANES 16

// Every function below is a straight line of IEEE operations; a vector version repeats them lane by
// lane with the same constants (minimax fits of our own; the errors stand in docs/backend.md).
// rint(t) is to nearest even of the rounded product; for |t| < 2^22 it equals
// (t + HT_RINT_MAGIC) - HT_RINT_MAGIC. Selections (a < b ? c : d) take the d branch for NaN.

#define HT_RINT_MAGIC 0x1.8p23f              // 1.5 * 2^23
static inline float ht_rint_small(float t) { // |t| < 2^22
    return (t + HT_RINT_MAGIC) - HT_RINT_MAGIC;
}

// exp(x) to under 1 ulp. x <= HT_EXP_MIN gives 0, x >= HT_EXP_MAX gives +inf, NaN stays NaN.
//   n = rint(x * LOG2E)
//   r = fma(n, -LN2_HI, x); r = fma(n, -LN2_LO, r)
//   q = C6; q = fma(q, r, C5); ... C4, C3, C2; q = fma(q, r, 1); p = fma(q, r, 1)
//   result = p * 2^(n >> 1) * 2^(n - (n >> 1)), both powers made from exponent bits; between the
//   two bounds every product is exact, so that p scaled by 2^n in one operation is the same
#define HT_EXP_MIN    -0x1.5d589ep6f // -87.336540: e^x is 2^-126
#define HT_EXP_MAX    0x1.62e430p6f  // 88.722839: e^x is 2^128
#define HT_EXP_LOG2E  HT_LOG2E
#define HT_EXP_LN2_HI 0x1.62e400p-1f // 15 bits: n * LN2_HI is exact
#define HT_EXP_LN2_LO 0x1.7f7d1cp-20f
#define HT_EXP_C2     0x1.fffffcp-2f
#define HT_EXP_C3     0x1.55548cp-3f
#define HT_EXP_C4     0x1.555858p-5f
#define HT_EXP_C5     0x1.123de0p-7f
#define HT_EXP_C6     0x1.6ac74ep-10f
float ht_expf(float x);

// 2^x for x below 128, to 1 ulp. x <= HT_EXP2_MIN gives 0, NaN stays NaN.
//   n = rint(x); r = x - n; q = C6; q = fma(q, r, C5); ... C4, C3, C2, C1; p = fma(q, r, 1)
//   result = p * 2^n, as above
#define HT_LOG2E    0x1.715476p0f
#define HT_EXP2_MIN -126.0f
#define HT_EXP2_C1  0x1.62e430p-1f
#define HT_EXP2_C2  0x1.ebfbdcp-3f
#define HT_EXP2_C3  0x1.c6aee8p-5f
#define HT_EXP2_C4  0x1.3b2d4cp-7f
#define HT_EXP2_C5  0x1.5f3e54p-10f
#define HT_EXP2_C6  0x1.41fbbcp-13f
float ht_exp2f(float x);

float ht_siluf(float x); // x / (1 + exp(-x))

// Odd. a = |x|:
//   a < HT_TANH_SMALL: s = x * x; p = T11; p = fma(p, s, T9); ... T7, T5, T3;
//                      result = fma(p * s, x, x)
//   else: e = exp(a + a); result = 1 - 2 / (e + 1), with the sign of x
#define HT_TANH_SMALL 0.625f
#define HT_TANH_T3    -0x1.555554p-2f
#define HT_TANH_T5    0x1.110c92p-3f
#define HT_TANH_T7    -0x1.b8d230p-5f
#define HT_TANH_T9    0x1.55725ep-6f
#define HT_TANH_T11   -0x1.82efa6p-8f
float ht_tanhf(float x);

// sqrt(2/pi) (x + 0.044715 x^3) = u; x / (1 + exp(-2u)):
//   t = (HT_GELU_CUBIC * (x * x)); v = fma(t, x, x); result = x / (1 + exp(v * HT_GELU_M2S))
#define HT_GELU_CUBIC 0.044715f
#define HT_GELU_M2S   -0x1.988454p0f // -2 sqrt(2/pi)
float ht_gelu_tanhf(float x);

// Odd. a = |x|:
//   a < HT_ERF_SMALL: s = x * x; p = E6; p = fma(p, s, E5); ... E4 to E0; result = fma(p, x, x)
//   else: a = a > HT_ERF_ONE ? HT_ERF_ONE : a; p = L6; p = fma(p, a, L5); ... L4 to L0 (log of
//         1 - erf a); result = 1 - exp(p), with the sign of x
#define HT_ERF_SMALL 0.9375f
#define HT_ERF_ONE   3.92f // erf rounds to 1 from here on
#define HT_ERF_E0    0x1.06eba8p-3f
#define HT_ERF_E1    -0x1.812740p-2f
#define HT_ERF_E2    0x1.ce2d64p-4f
#define HT_ERF_E3    -0x1.b80120p-6f
#define HT_ERF_E4    0x1.544aa8p-8f
#define HT_ERF_E5    -0x1.a6126ep-11f
#define HT_ERF_E6    0x1.4f8e58p-14f
#define HT_ERF_L0    -0x1.ecfe20p-13f
#define HT_ERF_L1    -0x1.20a4aap+0f
#define HT_ERF_L2    -0x1.4660ccp-1f
#define HT_ERF_L3    -0x1.a8b6b6p-4f
#define HT_ERF_L4    0x1.6a410ep-6f
#define HT_ERF_L5    -0x1.8b0a18p-9f
#define HT_ERF_L6    0x1.94a3bap-13f
float ht_erff(float x);

// x/2 (1 + erf(x / sqrt 2)):  (0.5 * x) * (1 + erf(x * HT_SQRT1_2))
#define HT_SQRT1_2 0x1.6a09e6p-1f
float ht_gelu_erff(float x);

// cos and sin of any double up to 2^40 in magnitude, to an error below 1e-12 (2.2e-16 measured).
//   n = rint(x * TWO_OVER_PI), as above with HT_RINT_MAGIC_D
//   r = fma(n, -PIO2_HI, x), which is exact; r = fma(n, -PIO2_LO, r); s = r * r
//   p = S13; p = fma(p, s, S11); ... S9, S7, S5, S3;          sin r = fma(p * s, r, r)
//   p = C14; p = fma(p, s, C12); ... C10, C8, C6, C4;
//   p = fma(p, s, -0.5);                                      cos r = fma(p, s, 1)
//   quadrant n & 3: (sin, cos) = (s, c), (c, -s), (-s, -c), (-c, s)
#define HT_RINT_MAGIC_D 0x1.8p52
#define HT_TWO_OVER_PI  0x1.45f306dc9c883p-1
#define HT_PIO2_HI      0x1.921fb54442d18p+0
#define HT_PIO2_LO      0x1.1a62633145c07p-54
#define HT_SIN_S3       -0x1.5555555555548p-3
#define HT_SIN_S5       0x1.1111111106b6dp-7
#define HT_SIN_S7       -0x1.a01a018277175p-13
#define HT_SIN_S9       0x1.71de1bd7596acp-19
#define HT_SIN_S11      -0x1.ae48ff8ea3a6ap-26
#define HT_SIN_S13      0x1.57312978fa4b7p-33
#define HT_COS_C4       0x1.555555555554cp-5
#define HT_COS_C6       -0x1.6c16c16c1521dp-10
#define HT_COS_C8       0x1.a01a019cbf0c6p-16
#define HT_COS_C10      -0x1.27e4f81263be8p-22
#define HT_COS_C12      0x1.1ee9f10ef9b9bp-29
#define HT_COS_C14      -0x1.8fb108f83b844p-37
void ht_sincos(double x, double *sin_x, double *cos_x);

// ln n of a whole number above 0, within 2^-52 of itself: n = m 2^e, m from sqrt(1/2) to sqrt(2),
// s = (m - 1) / (m + 1); q = 1 / 23; q = q * s^2 + 1 / k for k = 21, 19, ... 1;
// result = e * ln 2 + 2 s q
double ht_ln(uint32_t n);

// What a rotation at this position is multiplied by: mscale * far(pos) of backend.h.
double ht_rope_magnitude(const struct ht_rope *rope, uint32_t pos);

// Reductions over a row, in the order at the top. A lane's maximum is x > lane ? x : lane.
float ht_sum16(const float *x, uint32_t n);    // in the order above
float ht_sum_sq16(const float *x, uint32_t n); // lanes by fma(x, x, lane)
float ht_max16(const float *x, uint32_t n);    // -inf for n == 0

#define HT_I16_MAX     32767.0f  // the largest code
#define HT_I16_NORM    46000.0f  // of the codes of a row: 2^15.5 less more than rounding adds
#define HT_I16_SUM     65000.0f  // of the codes of a tile's weights: 2^16, likewise
#define HT_I16_LEAST   0x1p-100f // a smaller squared norm, or sum of weights, counts as 0
#define HT_I16_MAX_DIM 1024      // elements of a row at most

// The step of a row from its squared norm (sum_sq16) and its largest magnitude, and what its
// elements are multiplied by. A row that is no number somewhere, or has a norm past 2^64, has NaN
// for its step, so that who reads it gets NaN; its codes, and those of a zero row, are 0.
static inline float ht_i16_step(float sq, float most, float *inverse) {
    float step = most / HT_I16_MAX, norm = sqrtf(sq) / HT_I16_NORM;
    step = norm > step ? norm : step;
    if (!(sq < INFINITY)) step = NAN;
    if (sq < HT_I16_LEAST) step = 0.0f;
    *inverse = step > 0.0f ? 1.0f / step : 0.0f;
    return step;
}

// wstep and 1 / wstep of the law above; a NaN among the steps gives NaN.
static inline float ht_i16_weight_step(float sum, float most, float *inverse) {
    float step = most * (1.0f / HT_I16_MAX), mean = sum * (1.0f / HT_I16_SUM);
    step = step > mean ? step : mean;
    if (sum < HT_I16_LEAST) step = 0.0f;
    *inverse = step > 0.0f ? 1.0f / step : 0.0f;
    return step;
}

// code[i] = rint(x[i] * (1 / step)), n codes; returns the step.
float ht_i16_from_f32(const float *x, uint32_t n, int16_t *code);

#endif
