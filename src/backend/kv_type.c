// SPDX-License-Identifier: MIT
// The types of KV pages, one row each: a name and the format whose numbers a row of a head has.
// Backends add what they store and load in their own layout. No state; any thread.
#include "backend/backend.h"

static const struct {
    const char *name;
    enum ht_format format;
} types[HT_N_KV_TYPES] = {
    [HEARTH_KV_F16] = {"f16", HT_F16},
    [HEARTH_KV_F32] = {"f32", HT_F32},
    [HEARTH_KV_BF16] = {"bf16", HT_BF16},
    [HEARTH_KV_Q8_0] = {"q8_0", HT_Q8_0},
};

const char *ht_kv_type_name(enum hearth_kv_type type) {
    return (unsigned)type < HT_N_KV_TYPES ? types[type].name : NULL;
}

const struct ht_format_info *ht_kv_format(enum hearth_kv_type type) {
    return (unsigned)type < HT_N_KV_TYPES ? ht_format_get(types[type].format) : NULL;
}

uint64_t ht_kv_row_bytes(enum hearth_kv_type type, uint32_t n_elements) {
    const struct ht_format_info *f = ht_kv_format(type);
    return (uint64_t)(n_elements / f->block_len) * f->block_bytes;
}
