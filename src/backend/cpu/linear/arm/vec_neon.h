// SPDX-License-Identifier: MIT
// AArch64 NEON for the linear kernels: 4 rows a register.
#ifndef HT_LINEAR_VEC_NEON_H
#define HT_LINEAR_VEC_NEON_H

#include <arm_neon.h>

#define LANES          4
#define ROWS_A_POINTER 1
#include "backend/cpu/linear/vec.h"

INLINE vf splat(float x) {
    return (vf)vdupq_n_f32(x);
}
INLINE vi splat_int(int32_t x) {
    return (vi)vdupq_n_s32(x);
}
INLINE vf load_floats(const float *p) {
    return (vf)vld1q_f32(p);
}
INLINE void store_floats(float *p, vf x) {
    vst1q_f32(p, (float32x4_t)x);
}
INLINE vf fma_add(vf a, vf b, vf c) {
    return (vf)vfmaq_f32((float32x4_t)c, (float32x4_t)a, (float32x4_t)b);
}
INLINE vf fma_sub(vf a, vf b, vf c) { // c - a * b
    return (vf)vfmsq_f32((float32x4_t)c, (float32x4_t)a, (float32x4_t)b);
}
INLINE vi max_unsigned(vi a, vi b) {
    return (vi)vmaxq_u32((uint32x4_t)a, (uint32x4_t)b);
}
INLINE uint32_t reduce_max(vi x) {
    return vmaxvq_u32((uint32x4_t)x);
}
INLINE int32_t reduce_add(vi x) {
    return vaddvq_s32((int32x4_t)x);
}
INLINE vi round_int(vf x) { // to nearest even
    return (vi)vcvtnq_s32_f32((float32x4_t)x);
}
INLINE vf fraction(vf x) { // x - the nearest integer, exact
    return x - (vf)vrndnq_f32((float32x4_t)x);
}
// The sum of 16 lanes: j and j + 8, j and j + 4, ...
INLINE float reduce_16(const vf *lane) {
    vf x = (lane[0] + lane[2]) + (lane[1] + lane[3]);
    return (x[0] + x[2]) + (x[1] + x[3]);
}
INLINE void store_bytes(int8_t *p, vi x) {
    for (int i = 0; i < LANES; i++) p[i] = (int8_t)x[i];
}

// out[c] lane r = bytes 4c .. 4c + 3 of row r's 16 bytes from `at` on.
INLINE void load16(const struct rows *w, const size_t at, vi out[4]) {
    int32x4_t z[4];
    UNROLL(4)
    for (int r = 0; r < 4; r++) z[r] = vreinterpretq_s32_u8(vld1q_u8(row_at(w, r, at)));
    int64x2_t t0 = vreinterpretq_s64_s32(vtrn1q_s32(z[0], z[1]));
    int64x2_t t1 = vreinterpretq_s64_s32(vtrn2q_s32(z[0], z[1]));
    int64x2_t t2 = vreinterpretq_s64_s32(vtrn1q_s32(z[2], z[3]));
    int64x2_t t3 = vreinterpretq_s64_s32(vtrn2q_s32(z[2], z[3]));
    out[0] = (vi)vtrn1q_s64(t0, t2);
    out[1] = (vi)vtrn1q_s64(t1, t3);
    out[2] = (vi)vtrn2q_s64(t0, t2);
    out[3] = (vi)vtrn2q_s64(t1, t3);
}

// out[c] lane r = bytes 4c .. 4c + 3 of row r's first 64 bytes.
INLINE void load64(const struct rows *w, vi out[16]) {
    UNROLL(4)
    for (int i = 0; i < 4; i++) load16(w, 16 * (size_t)i, out + 4 * i);
}

// The f16 in the low half of each lane.
INLINE vf half_low(vi x) {
    return (vf)vcvt_f32_f16(vreinterpret_f16_u16(vmovn_u32((uint32x4_t)x)));
}

#define HALF_COLUMNS // what float_stream.h has for it otherwise stands here
// Eight halves of each row from `at` on: out[c] is column 2 c in the lower half, then the next.
INLINE void load16_halves(const struct rows *w, const size_t at, vi out[4]) {
    uint16x8_t z[4];
    UNROLL(4)
    for (int r = 0; r < 4; r++) z[r] = vreinterpretq_u16_u8(vld1q_u8(row_at(w, r, at)));
    const uint16x8_t even = vzip1q_u16(z[0], z[2]), odd = vzip1q_u16(z[1], z[3]);
    const uint16x8_t even_2 = vzip2q_u16(z[0], z[2]), odd_2 = vzip2q_u16(z[1], z[3]);
    out[0] = (vi)vzip1q_u16(even, odd);
    out[1] = (vi)vzip2q_u16(even, odd);
    out[2] = (vi)vzip1q_u16(even_2, odd_2);
    out[3] = (vi)vzip2q_u16(even_2, odd_2);
}
INLINE void load_halves(const struct rows *w, vi out[16]) {
    UNROLL(4)
    for (int i = 0; i < 4; i++) load16_halves(w, 16 * (size_t)i, out + 4 * i);
}
INLINE vf half_column(const vi *r, const uint32_t k) {
    const float16x8_t x = (float16x8_t)r[k / 2];
    return (vf)(k % 2 ? vcvt_high_f32_f16(x) : vcvt_f32_f16(vget_low_f16(x)));
}

// The f16 at `at` of each row.
INLINE vf half_rows(const struct rows *w, const size_t at) {
    vi x = {(uint16_t)word_at(row_at(w, 0, at)), (uint16_t)word_at(row_at(w, 1, at)),
            (uint16_t)word_at(row_at(w, 2, at)), (uint16_t)word_at(row_at(w, 3, at))};
    return half_low(x);
}

// The byte at `at` of each row.
INLINE vi byte_rows(const struct rows *w, const size_t at) {
    return (vi){*row_at(w, 0, at), *row_at(w, 1, at), *row_at(w, 2, at), *row_at(w, 3, at)};
}

// low | (high & mask)
INLINE vi merge(vi low, vi high, vi mask) {
    return low | (high & mask);
}

INLINE vi lookup(const int8_t *table, vi index) {
    return (vi)vqtbl1q_s8(vld1q_s8(table), (uint8x16_t)index);
}

// A byte for each of bits 4 i .. 4 i + 3 of each lane: `set` or `clear`.
INLINE vi by_bits(vi x, const int i, const int set, const int clear) {
    static const uint8_t first[16] = {0, 0, 0, 0, 4, 4, 4, 4, 8, 8, 8, 8, 12, 12, 12, 12};
    uint8x16_t at = vaddq_u8(vld1q_u8(first), vdupq_n_u8((uint8_t)(i / 2)));
    uint8x16_t bit = vreinterpretq_u8_u32(vdupq_n_u32(i % 2 ? 0x80402010u : 0x08040201u));
    uint8x16_t ones = vtstq_u8(vqtbl1q_u8((uint8x16_t)x, at), bit);
    return (vi)vbslq_u8(ones, vdupq_n_u8((uint8_t)set), vdupq_n_u8((uint8_t)clear));
}

#endif
