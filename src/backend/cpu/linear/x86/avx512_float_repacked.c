// SPDX-License-Identifier: MIT
// F16 that was repacked (linear.h), multiplied as f32, for the levels with VNNI: a column of 16
// rows is 32 bytes that lie together. No state; any thread.
#include "backend/cpu/linear/x86/repacked.h"

#define REPACKED
#define STREAM_TOKENS 4

#include "backend/cpu/linear/x86/vec_avx512.h"

#include "backend/cpu/linear/float_stream.h"

void ht_repacked_stream_f16(const uint8_t *w, size_t row_bytes, const struct ht_tile_args *t) {
    streams(HT_F16, w, row_bytes, t);
}

void ht_repacked_pack_f16(const struct ht_format_info *f, const uint8_t *w, size_t row_bytes,
                          uint32_t n_k, const struct ht_panel *p) {
    (void)f;
    for (uint32_t part = 0; part < PARTS; part++, w += LANES * row_bytes) {
        const uint8_t *column = w;
        float *out = (float *)p->code + LANES * part;
        for (uint32_t k = 0; k < n_k; k++, column += 2 * LANES, out += HT_ROW_GROUP)
            store_floats(out, (vf)_mm512_cvtph_ps(_mm256_loadu_si256((const void *)column)));
    }
}
