// SPDX-License-Identifier: MIT
// Elementary functions over 16 lanes (vec_lanes.h has their operations): num.h's, lane by lane. No
// state; any thread.
#ifndef HT_CPU_VEC_MATH_H
#define HT_CPU_VEC_MATH_H

#include "backend/cpu/vec.h"

// 2^x where x is below 128, or NaN.
static INLINE struct v16 vexp2(struct v16 x) {
    struct v16 n = v_rint(x), r = v_sub(x, n);
    struct v16 q = v_set1(HT_EXP2_C6);
    q = v_fma(q, r, v_set1(HT_EXP2_C5));
    q = v_fma(q, r, v_set1(HT_EXP2_C4));
    q = v_fma(q, r, v_set1(HT_EXP2_C3));
    q = v_fma(q, r, v_set1(HT_EXP2_C2));
    q = v_fma(q, r, v_set1(HT_EXP2_C1));
    q = v_fma(q, r, v_set1(1.0f));
    return v_scale2_above(q, n, x, v_set1(HT_EXP2_MIN));
}

static INLINE struct v16 vexp(struct v16 x) {
    struct v16 n = v_rint(v_mul(x, v_set1(HT_EXP_LOG2E)));
    struct v16 r = v_fnma(n, v_set1(HT_EXP_LN2_HI), x);
    r = v_fnma(n, v_set1(HT_EXP_LN2_LO), r);
    struct v16 q = v_set1(HT_EXP_C6);
    q = v_fma(q, r, v_set1(HT_EXP_C5));
    q = v_fma(q, r, v_set1(HT_EXP_C4));
    q = v_fma(q, r, v_set1(HT_EXP_C3));
    q = v_fma(q, r, v_set1(HT_EXP_C2));
    q = v_fma(q, r, v_set1(1.0f));
    q = v_scale2(v_fma(q, r, v_set1(1.0f)), n);
    q = v_select_le(x, v_set1(HT_EXP_MIN), v_set1(0.0f), q);
    return v_select_le(v_set1(HT_EXP_MAX), x, v_set1(INFINITY), q);
}

static INLINE struct v16 vtanh(struct v16 x) {
    struct v16 a = v_abs(x), s = v_mul(x, x);
    struct v16 p = v_set1(HT_TANH_T11);
    p = v_fma(p, s, v_set1(HT_TANH_T9));
    p = v_fma(p, s, v_set1(HT_TANH_T7));
    p = v_fma(p, s, v_set1(HT_TANH_T5));
    p = v_fma(p, s, v_set1(HT_TANH_T3));
    struct v16 small = v_fma(v_mul(p, s), x, x);
    struct v16 e = v_add(vexp(v_add(a, a)), v_set1(1.0f));
    struct v16 large = v_sub(v_set1(1.0f), v_div(v_set1(2.0f), e));
    return v_select_lt(a, v_set1(HT_TANH_SMALL), small, v_copysign(large, x));
}

static INLINE struct v16 verf(struct v16 x) {
    struct v16 a = v_abs(x), s = v_mul(x, x);
    struct v16 p = v_set1(HT_ERF_E6);
    p = v_fma(p, s, v_set1(HT_ERF_E5));
    p = v_fma(p, s, v_set1(HT_ERF_E4));
    p = v_fma(p, s, v_set1(HT_ERF_E3));
    p = v_fma(p, s, v_set1(HT_ERF_E2));
    p = v_fma(p, s, v_set1(HT_ERF_E1));
    p = v_fma(p, s, v_set1(HT_ERF_E0));
    struct v16 small = v_fma(p, x, x);
    struct v16 b = v_min(v_set1(HT_ERF_ONE), a);
    struct v16 l = v_set1(HT_ERF_L6);
    l = v_fma(l, b, v_set1(HT_ERF_L5));
    l = v_fma(l, b, v_set1(HT_ERF_L4));
    l = v_fma(l, b, v_set1(HT_ERF_L3));
    l = v_fma(l, b, v_set1(HT_ERF_L2));
    l = v_fma(l, b, v_set1(HT_ERF_L1));
    l = v_fma(l, b, v_set1(HT_ERF_L0));
    struct v16 large = v_copysign(v_sub(v_set1(1.0f), vexp(l)), x);
    return v_select_lt(a, v_set1(HT_ERF_SMALL), small, large);
}

static INLINE struct v16 vact(enum ht_act kind, struct v16 x) {
    struct v16 one = v_set1(1.0f), v;
    switch (kind) {
    case HT_ACT_SILU: return v_div(x, v_add(one, vexp(v_neg(x))));
    case HT_ACT_GELU_TANH:
        v = v_mul(v_set1(HT_GELU_CUBIC), v_mul(x, x));
        v = v_mul(v_fma(v, x, x), v_set1(HT_GELU_M2S));
        return v_div(x, v_add(one, vexp(v)));
    case HT_ACT_GELU_ERF:
        v = v_add(one, verf(v_mul(x, v_set1(HT_SQRT1_2))));
        return v_mul(v_mul(v_set1(0.5f), x), v);
    case HT_ACT_RELU2: break;
    }
    x = v_max(v_set1(0.0f), x); // NaN stays
    return v_mul(x, x);
}

#endif
