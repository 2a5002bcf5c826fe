// SPDX-License-Identifier: MIT
// The types of KV pages, one row each: a name, and the weight format whose numbers a row of a head
// has, or for i16 the row of num.h: its step and codes. Backends add what they store and load in
// their own layout. No state; any thread.
#include <string.h>

#include "backend/backend.h"
#include "backend/num.h"

static const struct {
    const char *name;
    enum ht_format format; // of all but i16
} types[HT_N_KV_TYPES] = {
    [HEARTH_KV_F16] = {"f16", HT_F16},    [HEARTH_KV_F32] = {"f32", HT_F32},
    [HEARTH_KV_BF16] = {"bf16", HT_BF16}, [HEARTH_KV_Q8_0] = {"q8_0", HT_Q8_0},
    [HEARTH_KV_I16] = {"i16", HT_I16},
};

const char *ht_kv_type_name(enum hearth_kv_type type) {
    return (unsigned)type < HT_N_KV_TYPES ? types[type].name : NULL;
}

bool ht_kv_holds(enum hearth_kv_type type, uint32_t n_elements) {
    if (type == HEARTH_KV_I16) return n_elements % 2 == 0 && n_elements <= HT_I16_MAX_DIM;
    return n_elements % ht_format_get(types[type].format)->block_len == 0;
}

uint64_t ht_kv_row_bytes(enum hearth_kv_type type, uint32_t n_elements) {
    if (type == HEARTH_KV_I16) return sizeof(float) + (uint64_t)n_elements * sizeof(int16_t);
    const struct ht_format_info *f = ht_format_get(types[type].format);
    return (uint64_t)(n_elements / f->block_len) * f->block_bytes;
}

void ht_kv_from_f32(enum hearth_kv_type type, const float *x, uint32_t n_elements, void *row) {
    const struct ht_format_info *f = ht_format_get(types[type].format);
    if (type != HEARTH_KV_I16) {
        f->from_f32(x, row, n_elements / f->block_len);
        return;
    }
    float step = ht_i16_from_f32(x, n_elements, (int16_t *)((float *)row + 1));
    memcpy(row, &step, sizeof step);
}

void ht_kv_to_f32(enum hearth_kv_type type, const void *row, uint32_t n_elements, float *x) {
    const struct ht_format_info *f = ht_format_get(types[type].format);
    if (type != HEARTH_KV_I16) {
        f->to_f32(row, x, n_elements / f->block_len);
        return;
    }
    const float *step = row;
    const int16_t *code = (const int16_t *)(step + 1);
    for (uint32_t i = 0; i < n_elements; i++) x[i] = (float)code[i] * *step;
}
