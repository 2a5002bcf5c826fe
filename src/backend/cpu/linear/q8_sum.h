// SPDX-License-Identifier: MIT
// How a block's sum of products of codes begins and what is made of it, in streams and tiles.
#ifndef HT_LINEAR_Q8_SUM_H
#define HT_LINEAR_Q8_SUM_H

#include "backend/cpu/linear/rows.h"

INLINE vi broadcast4(const int8_t *q) {
    int32_t v;
    __builtin_memcpy(&v, q, 4);
    return splat_int(v);
}

// The main term, in the order of linear.h: isum began at HT_SHIFTED; back is back_of(scale).
INLINE vf fold(vf y, vi isum, vf scale, vf back, float a_scale) {
    return fma_add(fma_add((vf)isum, scale, back), splat(a_scale), y);
}

// The sum's start for codes of this format: minus offset times the sum of q, from a bias, which has
// 128 times it.
INLINE vi start(const uint32_t f, int32_t bias) {
    const int offset = shape_of(f).offset;
    if (!offset) return splat_int(HT_SHIFTED);
    const int shift = __builtin_ctz(128u / (unsigned)offset);
    return splat_int((bias >> shift) + (HT_SHIFTED - (HT_SHIFTED >> shift)));
}

#endif
