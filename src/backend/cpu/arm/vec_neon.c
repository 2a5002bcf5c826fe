// SPDX-License-Identifier: MIT
// The vector kernels for AArch64 (ASIMD): four q registers hold the 16 lanes. Every AArch64 core
// has what this file uses, so it needs no flags. No state; any thread.
#include <arm_neon.h>
#include <string.h>

#include "backend/cpu/vec_unroll.h"

#define V_ROWS 6
#define V_ACCS 5
#define V_TURN 4
#define V_INIT ht_vec_init_neon

#include "backend/cpu/vec.h"

struct v16 {
    float32x4_t a, b, c, d; // lanes 0 to 3, 4 to 7, 8 to 11, 12 to 15
};

static INLINE struct v16 wrap(float32x4_t a, float32x4_t b, float32x4_t c, float32x4_t d) {
    return (struct v16){a, b, c, d};
}

static INLINE struct v16 v_set1(float x) {
    float32x4_t v = vdupq_n_f32(x);
    return wrap(v, v, v, v);
}
static INLINE struct v16 v_load(const float *x) {
    return wrap(vld1q_f32(x), vld1q_f32(x + 4), vld1q_f32(x + 8), vld1q_f32(x + 12));
}
static INLINE struct v16 v_iota(void) {
    static const float iota[16] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
    return v_load(iota);
}
static INLINE void v_store(float *y, struct v16 v) {
    vst1q_f32(y, v.a);
    vst1q_f32(y + 4, v.b);
    vst1q_f32(y + 8, v.c);
    vst1q_f32(y + 12, v.d);
}
static INLINE struct v16 v_load_n(const float *x, uint32_t n) {
    if (n >= 16) return v_load(x);
    float t[16] = {0};
    memcpy(t, x, n * sizeof *t);
    return v_load(t);
}
static INLINE void v_store_n(float *y, struct v16 v, uint32_t n) {
    if (n >= 16) {
        v_store(y, v);
        return;
    }
    float t[16];
    v_store(t, v);
    memcpy(y, t, n * sizeof *t);
}
static INLINE struct v16 v_load_f16(const uint16_t *h) {
    uint16x8_t l = vld1q_u16(h), m = vld1q_u16(h + 8);
    return wrap(vcvt_f32_f16(vreinterpret_f16_u16(vget_low_u16(l))),
                vcvt_high_f32_f16(vreinterpretq_f16_u16(l)),
                vcvt_f32_f16(vreinterpret_f16_u16(vget_low_u16(m))),
                vcvt_high_f32_f16(vreinterpretq_f16_u16(m)));
}
static INLINE void v_store_f16(uint16_t *h, struct v16 v) {
    vst1_u16(h, vreinterpret_u16_f16(vcvt_f16_f32(v.a)));
    vst1_u16(h + 4, vreinterpret_u16_f16(vcvt_f16_f32(v.b)));
    vst1_u16(h + 8, vreinterpret_u16_f16(vcvt_f16_f32(v.c)));
    vst1_u16(h + 12, vreinterpret_u16_f16(vcvt_f16_f32(v.d)));
}
static INLINE float32x4_t from_bf16(uint16x4_t h) {
    return vreinterpretq_f32_u32(vshll_n_u16(h, 16));
}
static INLINE struct v16 v_load_bf16(const uint16_t *h) {
    uint16x8_t l = vld1q_u16(h), m = vld1q_u16(h + 8);
    return wrap(from_bf16(vget_low_u16(l)), from_bf16(vget_high_u16(l)), from_bf16(vget_low_u16(m)),
                from_bf16(vget_high_u16(m)));
}
static INLINE uint16x4_t to_bf16(float32x4_t a) {
    uint32x4_t u = vreinterpretq_u32_f32(a), odd = vshrq_n_u32(vshlq_n_u32(u, 15), 31);
    uint32x4_t r = vaddq_u32(vaddq_u32(u, odd), vdupq_n_u32(0x7fff));
    r = vbslq_u32(vceqq_f32(a, a), r, vorrq_u32(u, vdupq_n_u32(0x400000)));
    return vshrn_n_u32(r, 16);
}
static INLINE void v_store_bf16(uint16_t *h, struct v16 v) {
    vst1_u16(h, to_bf16(v.a));
    vst1_u16(h + 4, to_bf16(v.b));
    vst1_u16(h + 8, to_bf16(v.c));
    vst1_u16(h + 12, to_bf16(v.d));
}
static INLINE float32x4_t from_i16(int16x4_t i) {
    return vcvtq_f32_s32(vmovl_s16(i));
}
static INLINE struct v16 v_load_i8(const int8_t *q) {
    int8x16_t v = vld1q_s8(q);
    int16x8_t l = vmovl_s8(vget_low_s8(v)), m = vmovl_s8(vget_high_s8(v));
    return wrap(from_i16(vget_low_s16(l)), from_i16(vget_high_s16(l)), from_i16(vget_low_s16(m)),
                from_i16(vget_high_s16(m)));
}
static INLINE int8x8_t to_i8(float32x4_t a, float32x4_t b) {
    return vmovn_s16(vcombine_s16(vmovn_s32(vcvtq_s32_f32(a)), vmovn_s32(vcvtq_s32_f32(b))));
}
static INLINE void v_store_i8(int8_t *q, struct v16 v) {
    vst1_s8(q, to_i8(v.a, v.b));
    vst1_s8(q + 8, to_i8(v.c, v.d));
}

static INLINE struct v16 v_add(struct v16 x, struct v16 y) {
    return wrap(vaddq_f32(x.a, y.a), vaddq_f32(x.b, y.b), vaddq_f32(x.c, y.c), vaddq_f32(x.d, y.d));
}
static INLINE struct v16 v_sub(struct v16 x, struct v16 y) {
    return wrap(vsubq_f32(x.a, y.a), vsubq_f32(x.b, y.b), vsubq_f32(x.c, y.c), vsubq_f32(x.d, y.d));
}
static INLINE struct v16 v_mul(struct v16 x, struct v16 y) {
    return wrap(vmulq_f32(x.a, y.a), vmulq_f32(x.b, y.b), vmulq_f32(x.c, y.c), vmulq_f32(x.d, y.d));
}
static INLINE struct v16 v_sqrt(struct v16 x) {
    return wrap(vsqrtq_f32(x.a), vsqrtq_f32(x.b), vsqrtq_f32(x.c), vsqrtq_f32(x.d));
}
static INLINE struct v16 v_div(struct v16 x, struct v16 y) {
    return wrap(vdivq_f32(x.a, y.a), vdivq_f32(x.b, y.b), vdivq_f32(x.c, y.c), vdivq_f32(x.d, y.d));
}
static INLINE struct v16 v_fma(struct v16 x, struct v16 y, struct v16 z) {
    return wrap(vfmaq_f32(z.a, x.a, y.a), vfmaq_f32(z.b, x.b, y.b), vfmaq_f32(z.c, x.c, y.c),
                vfmaq_f32(z.d, x.d, y.d));
}
static INLINE struct v16 v_fnma(struct v16 x, struct v16 y, struct v16 z) {
    return wrap(vfmsq_f32(z.a, x.a, y.a), vfmsq_f32(z.b, x.b, y.b), vfmsq_f32(z.c, x.c, y.c),
                vfmsq_f32(z.d, x.d, y.d));
}
static INLINE struct v16 v_neg(struct v16 x) {
    return wrap(vnegq_f32(x.a), vnegq_f32(x.b), vnegq_f32(x.c), vnegq_f32(x.d));
}
static INLINE struct v16 v_fms(struct v16 x, struct v16 y, struct v16 z) {
    return v_fma(x, y, v_neg(z));
}

static INLINE float32x4_t pick(uint32x4_t m, float32x4_t yes, float32x4_t no) {
    return vbslq_f32(m, yes, no);
}
static INLINE struct v16 v_select_lt(struct v16 x, struct v16 y, struct v16 yes, struct v16 no) {
    return wrap(pick(vcltq_f32(x.a, y.a), yes.a, no.a), pick(vcltq_f32(x.b, y.b), yes.b, no.b),
                pick(vcltq_f32(x.c, y.c), yes.c, no.c), pick(vcltq_f32(x.d, y.d), yes.d, no.d));
}
static INLINE struct v16 v_select_le(struct v16 x, struct v16 y, struct v16 yes, struct v16 no) {
    return wrap(pick(vcleq_f32(x.a, y.a), yes.a, no.a), pick(vcleq_f32(x.b, y.b), yes.b, no.b),
                pick(vcleq_f32(x.c, y.c), yes.c, no.c), pick(vcleq_f32(x.d, y.d), yes.d, no.d));
}
static INLINE struct v16 v_max(struct v16 x, struct v16 y) { // vmaxq passes NaN on: not the law
    return v_select_lt(y, x, x, y);
}
static INLINE struct v16 v_min(struct v16 x, struct v16 y) {
    return v_select_lt(x, y, x, y);
}
static INLINE struct v16 v_rint(struct v16 x) {
    return wrap(vrndnq_f32(x.a), vrndnq_f32(x.b), vrndnq_f32(x.c), vrndnq_f32(x.d));
}
// a * 2^(n >> 1) * 2^(n - (n >> 1)), as num.h has it.
static INLINE float32x4_t scale2_quarter(float32x4_t a, float32x4_t n) {
    int32x4_t i = vcvtq_s32_f32(n), half = vshrq_n_s32(i, 1), bias = vdupq_n_s32(127);
    int32x4_t x = vshlq_n_s32(vaddq_s32(half, bias), 23);
    int32x4_t y = vshlq_n_s32(vaddq_s32(vsubq_s32(i, half), bias), 23);
    return vmulq_f32(vmulq_f32(a, vreinterpretq_f32_s32(x)), vreinterpretq_f32_s32(y));
}
static INLINE struct v16 v_scale2(struct v16 x, struct v16 n) {
    return wrap(scale2_quarter(x.a, n.a), scale2_quarter(x.b, n.b), scale2_quarter(x.c, n.c),
                scale2_quarter(x.d, n.d));
}
static INLINE struct v16 v_abs(struct v16 x) {
    return wrap(vabsq_f32(x.a), vabsq_f32(x.b), vabsq_f32(x.c), vabsq_f32(x.d));
}
static INLINE struct v16 v_copysign(struct v16 to, struct v16 from) {
    uint32x4_t sign = vdupq_n_u32(0x80000000u);
    return wrap(pick(sign, from.a, to.a), pick(sign, from.b, to.b), pick(sign, from.c, to.c),
                pick(sign, from.d, to.d));
}
static INLINE struct v16 v_swap(struct v16 x) {
    return wrap(vrev64q_f32(x.a), vrev64q_f32(x.b), vrev64q_f32(x.c), vrev64q_f32(x.d));
}
static INLINE float v_sum(struct v16 x) {
    float32x4_t q = vaddq_f32(vaddq_f32(x.a, x.c), vaddq_f32(x.b, x.d));
    float32x2_t h = vadd_f32(vget_low_f32(q), vget_high_f32(q));
    return vget_lane_f32(h, 0) + vget_lane_f32(h, 1);
}
// ht_max16, in its order.
static INLINE float32x4_t more(float32x4_t a, float32x4_t b) {
    return pick(vcgtq_f32(a, b), a, b);
}
static INLINE float v_most(struct v16 x) {
    float32x4_t least = vdupq_n_f32(-INFINITY);
    float32x4_t m = more(x.c, more(x.a, least)), n = more(x.d, more(x.b, least));
    m = more(n, m);
    m = more(vextq_f32(m, m, 2), m);
    return vgetq_lane_f32(more(vextq_f32(m, m, 1), m), 0);
}

// ---- 16-bit numbers (vec_i16.h)

static INLINE void v_store_i16(int16_t *y, struct v16 v) {
    vst1_s16(y, vqmovn_s32(vcvtnq_s32_f32(v.a)));
    vst1_s16(y + 4, vqmovn_s32(vcvtnq_s32_f32(v.b)));
    vst1_s16(y + 8, vqmovn_s32(vcvtnq_s32_f32(v.c)));
    vst1_s16(y + 12, vqmovn_s32(vcvtnq_s32_f32(v.d)));
}

static INLINE struct v16 v_mul_above(struct v16 x, struct v16 y) {
    struct v16 zero = v_set1(0.0f);
    return v_select_lt(zero, x, v_mul(x, y), zero);
}
static INLINE void w_put(int16_t *to, const int16_t *x, uint32_t half) {
    UNROLL for (int i = 0; i < HT_LANES; i++) to[2 * i + (int)half] = x[i];
}

static INLINE void w_zip(int16_t *to, const int16_t *a, const int16_t *b) {
    UNROLL for (int i = 0; i < HT_LANES; i += 8) {
        int16x8x2_t both = {{vld1q_s16(a + i), vld1q_s16(b + i)}};
        vst2q_s16(to + 2 * i, both);
    }
}

struct w16 {
    int32x4_t a, b, c, d; // 16 sums
};
struct pairs {
    int16x8x2_t l, h; // of 16 positions or elements: the first of each pair, the second of each
};

static INLINE struct w16 w_zero(void) {
    int32x4_t z = vdupq_n_s32(0);
    return (struct w16){z, z, z, z};
}
static INLINE struct pairs w_load(const int16_t *x) {
    return (struct pairs){vld2q_s16(x), vld2q_s16(x + 16)};
}
static INLINE struct pairs w_set1(const int16_t *x) {
    int16x8x2_t v = {{vdupq_n_s16(x[0]), vdupq_n_s16(x[1])}};
    return (struct pairs){v, v};
}
static INLINE int32x4_t dot_low(int32x4_t sum, int16x8x2_t a, int16x8x2_t x) {
    sum = vmlal_s16(sum, vget_low_s16(a.val[0]), vget_low_s16(x.val[0]));
    return vmlal_s16(sum, vget_low_s16(a.val[1]), vget_low_s16(x.val[1]));
}
static INLINE int32x4_t dot_high(int32x4_t sum, int16x8x2_t a, int16x8x2_t x) {
    return vmlal_high_s16(vmlal_high_s16(sum, a.val[0], x.val[0]), a.val[1], x.val[1]);
}
static INLINE struct w16 w_dot(struct w16 sum, struct pairs a, struct pairs x) {
    return (struct w16){dot_low(sum.a, a.l, x.l), dot_high(sum.b, a.l, x.l),
                        dot_low(sum.c, a.h, x.h), dot_high(sum.d, a.h, x.h)};
}
static INLINE struct v16 w_float(struct w16 sum) {
    return wrap(vcvtq_f32_s32(sum.a), vcvtq_f32_s32(sum.b), vcvtq_f32_s32(sum.c),
                vcvtq_f32_s32(sum.d));
}

#include "backend/cpu/vec_plain.h"

#include "backend/cpu/vec_lanes.h"
