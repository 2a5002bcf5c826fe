// SPDX-License-Identifier: MIT
// Elementary functions against the C library's double versions, over a stride through all floats,
// and reductions against their order written out the slow way.
#include "cmocka_all.h"

#include <math.h>
#include <stdint.h>
#include <string.h>

#include "backend/num.h"

static float from_bits(uint32_t u) {
    float f;
    memcpy(&f, &u, sizeof f);
    return f;
}

static uint32_t to_bits(float f) {
    uint32_t u;
    memcpy(&u, &f, sizeof u);
    return u;
}

// |got - want| in units of the last place of want, for a normal want.
static double ulps(float got, double want) {
    int e;
    frexp(want, &e);
    double ulp = ldexp(1.0, (e < -125 ? -125 : e) - 24);
    return fabs((double)got - want) / ulp;
}

struct function {
    const char *name;
    float (*f)(float);
    double (*want)(double);
    float lo, hi;    // checked for lo < x < hi
    double max_ulps; // relative bound ...
    double max_abs;  // ... or this absolute one; either suffices
};

static double want_silu(double x) {
    return x / (1 + exp(-x));
}
static double want_gelu_tanh(double x) {
    return x / (1 + exp(-2 * sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)));
}
static double want_gelu_erf(double x) {
    return x / 2 * (1 + erf(x / sqrt(2)));
}

static const struct function functions[] = {
    {"exp", ht_expf, exp, HT_EXP_MIN, HT_EXP_MAX, 1.0, 0},
    {"exp2", ht_exp2f, exp2, HT_EXP2_MIN, 127.5, 1.4, 0},
    {"silu", ht_siluf, want_silu, -INFINITY, INFINITY, 3, 2.7e-37},
    {"tanh", ht_tanhf, tanh, -INFINITY, INFINITY, 1.6, 0},
    {"erf", ht_erff, erf, -INFINITY, INFINITY, 1.6, 0},
    // u's own rounding error grows with x: relative to the result's falling tail it may be large
    {"gelu_tanh", ht_gelu_tanhf, want_gelu_tanh, -INFINITY, INFINITY, 4, 3e-7},
    {"gelu_erf", ht_gelu_erff, want_gelu_erf, -INFINITY, INFINITY, 4, 4e-7},
};

static void test_functions(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof functions / sizeof functions[0]; i++) {
        const struct function *f = &functions[i];
        double worst = 0;
        float worst_x = 0;
        for (uint64_t u = 0; u <= UINT32_MAX; u += 4099) { // prime: a million floats
            float x = from_bits((uint32_t)u);
            if (!(x > f->lo && x < f->hi) || isinf(x)) continue;
            float got = f->f(x);
            double want = f->want((double)x);
            if (fabs(want) < 1.2e-38) continue;
            double d = ulps(got, want);
            if (fabs((double)got - want) <= f->max_abs) d = 0;
            if (!(d <= worst)) worst = d, worst_x = x;
        }
        print_message("%-10s at most %.3f ulp (x = %a)\n", f->name, worst, (double)worst_x);
        if (!(worst <= f->max_ulps)) fail_msg("%s: %f ulp at %a", f->name, worst, (double)worst_x);
    }
}

static void test_exp_bounds(void **state) {
    (void)state;
    assert_true(ht_expf(-INFINITY) == 0 && ht_expf(-1e30f) == 0 && ht_expf(HT_EXP_MIN) == 0);
    assert_true(isinf(ht_expf(INFINITY)) && isinf(ht_expf(HT_EXP_MAX)));
    assert_true(isnan(ht_expf(NAN)) && isnan(ht_tanhf(NAN)) && isnan(ht_erff(NAN)));
    assert_true(isnan(ht_siluf(NAN)) && isnan(ht_gelu_erff(NAN)) && isnan(ht_gelu_tanhf(NAN)));
    assert_true(ht_exp2f(-INFINITY) == 0 && ht_exp2f(-1e30f) == 0 && ht_exp2f(HT_EXP2_MIN) == 0);
    assert_true(isnormal(ht_exp2f(-125.99999f)) && isnan(ht_exp2f(NAN)));
    for (int n = -125; n < 128; n++) assert_true(ht_exp2f((float)n) == ldexpf(1, n));
    assert_true(ht_expf(0) == 1 && ht_expf(-0.0f) == 1 && ht_expf(1e-30f) == 1);
    assert_true(ht_tanhf(INFINITY) == 1 && ht_tanhf(-INFINITY) == -1 && ht_erff(-50) == -1);
    // Every float near the two bounds is normal and close.
    for (uint32_t k = 1; k < 200000; k++) {
        float lo = from_bits(to_bits(HT_EXP_MIN) - k), hi = from_bits(to_bits(HT_EXP_MAX) - k);
        assert_true(isnormal(ht_expf(lo)) && isnormal(ht_expf(hi)));
        assert_true(ulps(ht_expf(lo), exp(lo)) < 1 && ulps(ht_expf(hi), exp(hi)) < 1);
    }
}

// exp never falls: a sampler and a softmax may rely on the order of equal-bit inputs.
static void test_exp_monotone(void **state) {
    (void)state;
    float last = 0;
    for (float x = -20; x < 20; x = nextafterf(x, INFINITY)) {
        float y = ht_expf(x);
        if (y < last) fail_msg("exp falls at %a", (double)x);
        last = y;
        if (fabsf(x) < 1e-3f) x += 1e-9f;
        x += 2e-6f;
    }
}

static void check_sincos(double x, double *worst) {
    double s, c;
    ht_sincos(x, &s, &c);
    double e = fmax(fabs(s - sin(x)), fabs(c - cos(x)));
    if (!(e <= *worst)) *worst = e;
}

static void test_sincos(void **state) {
    (void)state;
    double worst = 0;
    uint64_t r = 88172645463325252u;
    for (int i = 0; i < 400000; i++) {
        r ^= r << 13, r ^= r >> 7, r ^= r << 17; // xorshift (Marsaglia 2003)
        double unit = (double)(r >> 11) * 0x1p-53;
        double x = ldexp(unit, (int)(r % 61) - 20); // up to 2^40
        check_sincos(r & 1024 ? x : -x, &worst);
    }
    for (int64_t n = -100000; n < 100000; n++) // multiples of pi/4 and their neighbours
        for (int k = -1; k <= 1; k++)
            check_sincos((double)n * (M_PI / 4) * (1 + k * 0x1p-50), &worst);
    check_sincos(0, &worst);
    check_sincos(0x1p40, &worst);
    print_message("sincos     at most %.3g off\n", worst);
    assert_true(worst < 1e-15);
}

static void test_log(void **state) {
    (void)state;
    double worst = 0;
    assert_true(ht_ln(1) == 0);
    for (uint64_t n = 2; n <= UINT32_MAX; n += n < 5000 ? 1 : n / 997) {
        double want = log((double)n), e = fabs(ht_ln((uint32_t)n) / want - 1);
        if (!(e <= worst)) worst = e;
    }
    print_message("log        at most %.3g off\n", worst);
    assert_true(worst < 0x1p-51);
}

static float slow_lane_sum(const float *x, uint32_t n, int lane, int square) {
    float s = 0;
    for (uint32_t i = (uint32_t)lane; i < n; i += 16) s = square ? fmaf(x[i], x[i], s) : s + x[i];
    return s;
}

static float slow_sum(const float *x, uint32_t n, int square) {
    float a[16], b[8], c[4];
    for (int j = 0; j < 16; j++) a[j] = slow_lane_sum(x, n, j, square);
    for (int j = 0; j < 8; j++) b[j] = a[j] + a[j + 8];
    for (int j = 0; j < 4; j++) c[j] = b[j] + b[j + 4];
    return (c[0] + c[2]) + (c[1] + c[3]);
}

static void test_reductions(void **state) {
    (void)state;
    float x[515];
    uint32_t r = 1;
    for (uint32_t i = 0; i < 515; i++) {
        r = r * 1664525u + 1013904223u;
        x[i] = ((float)(r >> 8) * 0x1p-24f - 0.5f) * (i % 7 == 0 ? 1e4f : 1.0f);
    }
    for (uint32_t n = 0; n <= 515; n++) {
        assert_int_equal(to_bits(ht_sum16(x, n)), to_bits(slow_sum(x, n, 0)));
        assert_int_equal(to_bits(ht_sum_sq16(x, n)), to_bits(slow_sum(x, n, 1)));
        float m = -INFINITY;
        for (uint32_t i = 0; i < n; i++) m = fmaxf(m, x[i]);
        assert_true(ht_max16(x, n) == m);
    }
}

// Rows that press against the bounds of i16: all elements alike, one large, two, random ones, tiny
// and huge.
static void hard_row(float *x, uint32_t n, int kind, uint32_t *seed) {
    for (uint32_t i = 0; i < n; i++) {
        *seed = *seed * 1664525u + 1013904223u;
        float r = (float)(*seed >> 8) * 0x1p-24f - 0.5f;
        switch (kind) {
        case 0: x[i] = -3.7f; break;
        case 1: x[i] = i == n / 2 ? 1e6f : r; break;
        case 2: x[i] = i == 0 || i == n - 1 ? -70.0f : 1e-6f * r; break;
        case 3: x[i] = r; break;
        case 4: x[i] = r * 1e-14f; break;
        case 5: x[i] = r > 0 ? 1e17f : -1e17f; break;
        default: x[i] = r * (i % 16 == 3 ? 300.0f : 1.0f); break;
        }
    }
}

// Sums of products of two rows of codes, or of parts of them, are at most the product of their
// norms, so squared norms below 2^31 are what 32 bits ask for.
static void test_i16_rows(void **state) {
    (void)state;
    static const uint32_t sizes[] = {2, 6, 64, 80, 128, 256, HT_I16_MAX_DIM};
    uint32_t seed = 1;
    float x[HT_I16_MAX_DIM];
    int16_t code[HT_I16_MAX_DIM];
    for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++)
        for (int kind = 0; kind < 7; kind++) {
            uint32_t n = sizes[s];
            hard_row(x, n, kind, &seed);
            float step = ht_i16_from_f32(x, n, code);
            int64_t sq = 0;
            assert_true(step > 0);
            for (uint32_t i = 0; i < n; i++) {
                assert_true(code[i] >= -32767);
                sq += (int64_t)code[i] * code[i];
                assert_true(fabs((double)code[i] * step - x[i]) <= 0.51 * step);
            }
            assert_true(sq < INT32_MAX);
            assert_true(sq > 1 << 29); // and no bit of them is given away
        }
}

static void test_i16_odd_rows(void **state) {
    (void)state;
    static const float odd[] = {INFINITY, -INFINITY, NAN, 3e38f};
    float x[64], step;
    int16_t code[64], zero[64] = {0};
    for (size_t k = 0; k < sizeof odd / sizeof *odd; k++) {
        for (int i = 0; i < 64; i++) x[i] = i == 37 ? odd[k] : 1.0f;
        step = ht_i16_from_f32(x, 64, code);
        assert_true(step != step);
        assert_memory_equal(code, zero, sizeof code);
    }
    for (int i = 0; i < 64; i++) x[i] = i % 2 ? -0.0f : 1e-20f;
    assert_true(ht_i16_from_f32(x, 64, code) == 0.0f);
    assert_memory_equal(code, zero, sizeof code);
}

// Weights of 64 positions: the sum of their codes, times any code of V, fits 32 bits.
static void test_i16_weights(void **state) {
    (void)state;
    uint32_t seed = 7;
    float w[64], inverse;
    for (int kind = 0; kind < 7; kind++) {
        hard_row(w, 64, kind, &seed);
        for (int i = 0; i < 64; i++) w[i] = fabsf(w[i]);
        float sum = ht_sum16(w, 64), step = ht_i16_weight_step(sum, ht_max16(w, 64), &inverse);
        int64_t codes = 0;
        for (int i = 0; i < 64; i++) {
            int64_t c = lrintf(w[i] * inverse);
            assert_true(c >= 0 && c <= 32767);
            assert_true(fabs((double)c * step - w[i]) <= 0.51 * step);
            codes += c;
        }
        assert_true(codes * 32767 < INT32_MAX && codes >= 32767);
    }
    assert_true(ht_i16_weight_step(0.0f, 0.0f, &inverse) == 0.0f && inverse == 0.0f);
    float nan = ht_i16_weight_step(NAN, 1.0f, &inverse);
    assert_true(nan != nan && inverse == 0.0f);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_functions),    cmocka_unit_test(test_exp_bounds),
        cmocka_unit_test(test_exp_monotone), cmocka_unit_test(test_sincos),
        cmocka_unit_test(test_reductions),   cmocka_unit_test(test_i16_rows),
        cmocka_unit_test(test_i16_odd_rows), cmocka_unit_test(test_i16_weights),
        cmocka_unit_test(test_log),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
