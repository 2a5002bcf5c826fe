// SPDX-License-Identifier: MIT
// Access to an open file: lookups, typed metadata, elements of arrays. Nothing here checks lengths
// again: parse.c did. Any thread.
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "gguf/internal.h"

static const struct {
    const char *name;
    uint32_t n_bytes;
} types[HT_GGUF_N_TYPES] = {
    [HT_GGUF_U8] = {"u8", 1},   [HT_GGUF_I8] = {"i8", 1},     [HT_GGUF_U16] = {"u16", 2},
    [HT_GGUF_I16] = {"i16", 2}, [HT_GGUF_U32] = {"u32", 4},   [HT_GGUF_I32] = {"i32", 4},
    [HT_GGUF_F32] = {"f32", 4}, [HT_GGUF_BOOL] = {"bool", 1}, [HT_GGUF_STR] = {"str", 0},
    [HT_GGUF_ARR] = {"arr", 0}, [HT_GGUF_U64] = {"u64", 8},   [HT_GGUF_I64] = {"i64", 8},
    [HT_GGUF_F64] = {"f64", 8},
};

uint32_t ht_gguf_type_bytes(enum ht_gguf_type t) {
    return types[t].n_bytes;
}

const char *ht_gguf_type_name(enum ht_gguf_type t) {
    return (unsigned)t < HT_GGUF_N_TYPES ? types[t].name : "unknown";
}

bool ht_gguf_is_int(enum ht_gguf_type t) {
    return t <= HT_GGUF_I32 || t == HT_GGUF_U64 || t == HT_GGUF_I64;
}

const char *ht_gguf_name(const struct ht_gguf *g) {
    return g->parts[0].name;
}
uint32_t ht_gguf_version(const struct ht_gguf *g) {
    return g->parts[0].version;
}
size_t ht_gguf_n_parts(const struct ht_gguf *g) {
    return g->n_parts;
}
uint64_t ht_gguf_taken_bytes(const struct ht_gguf *g) {
    return g->taken_bytes;
}
bool ht_gguf_large_bytes(const struct ht_gguf *g, uint64_t *n) {
    *n = 0;
    for (size_t i = 0; i < g->n_parts; i++) {
        uint64_t more;
        if (!g->parts[i].map.data || !ht_map_large_bytes(&g->parts[i].map, &more)) return false;
        *n += more;
    }
    return true;
}
uint64_t ht_gguf_file_bytes(const struct ht_gguf *g) {
    return g->file_bytes;
}
size_t ht_gguf_n_kv(const struct ht_gguf *g) {
    return g->parts[0].n_kv;
}
size_t ht_gguf_n_tensors(const struct ht_gguf *g) {
    return g->n_tensors;
}

const struct ht_gguf_kv *ht_gguf_kv_at(const struct ht_gguf *g, size_t i) {
    return &g->parts[0].kv[i];
}

const struct ht_gguf_tensor *ht_gguf_tensor_at(const struct ht_gguf *g, size_t i) {
    return &g->tensors[i];
}

const struct ht_gguf_kv *ht_gguf_part_find(const struct gguf_part *part, const char *key) {
    int64_t i = ht_gguf_index_find(&part->kv_index, key);
    return i < 0 ? NULL : &part->kv[i];
}

const struct ht_gguf_kv *ht_gguf_find(const struct ht_gguf *g, const char *key) {
    return ht_gguf_part_find(&g->parts[0], key);
}

const struct ht_gguf_tensor *ht_gguf_find_tensor(const struct ht_gguf *g, const char *name) {
    int64_t i = ht_gguf_index_find(&g->tensor_index, name);
    return i < 0 ? NULL : &g->tensors[i];
}

uint64_t ht_gguf_bits_at(const struct ht_gguf_kv *kv, uint64_t i) {
    uint32_t n = types[kv->arr_type].n_bytes;
    uint64_t v = 0;
    memcpy(&v, kv->value + i * n, n); // little-endian: the low bytes come first
    return v;
}

int64_t ht_gguf_int_at(const struct ht_gguf_kv *kv, uint64_t i) {
    uint64_t v = ht_gguf_bits_at(kv, i);
    switch (kv->arr_type) {
    case HT_GGUF_I8: return (int8_t)v;
    case HT_GGUF_I16: return (int16_t)v;
    case HT_GGUF_I32: return (int32_t)v;
    case HT_GGUF_U64: return v > INT64_MAX && v < UINT64_MAX ? INT64_MAX : (int64_t)v;
    default: return (int64_t)v;
    }
}

double ht_gguf_num_at(const struct ht_gguf_kv *kv, uint64_t i) {
    const uint8_t *p = kv->value + i * types[kv->arr_type].n_bytes;
    if (kv->arr_type == HT_GGUF_F32) {
        float f;
        memcpy(&f, p, sizeof(f));
        return (double)f;
    }
    if (kv->arr_type == HT_GGUF_F64) {
        double d;
        memcpy(&d, p, sizeof(d));
        return d;
    }
    if (kv->arr_type == HT_GGUF_U64) return (double)ht_gguf_bits_at(kv, i);
    return (double)ht_gguf_int_at(kv, i);
}

bool ht_gguf_next_str(const struct ht_gguf_kv *kv, const uint8_t **cursor, struct ht_str *out) {
    const uint8_t *p = *cursor ? *cursor : kv->value;
    uint64_t len;
    if (p == kv->value + kv->n_bytes) return false;
    memcpy(&len, p, sizeof(len));
    out->data = (const char *)p + sizeof(len);
    out->len = (size_t)len;
    *cursor = p + sizeof(len) + len;
    return true;
}

const char *ht_gguf_describe(const struct ht_gguf_kv *kv, char out[HT_GGUF_DESCRIBE_BYTES]) {
    if (kv->type != HT_GGUF_ARR) return types[kv->type].name;
    snprintf(out, HT_GGUF_DESCRIBE_BYTES, "arr[%s,%" PRIu64 "]", types[kv->arr_type].name, kv->n);
    return out;
}

static enum hearth_status fail_type(const struct ht_gguf_kv *kv, const char *expected,
                                    struct hearth_error *err) {
    char d[HT_GGUF_DESCRIBE_BYTES];
    return ht_fail(err, HEARTH_E_FORMAT, "metadata key %s is of type %s, %s was expected", kv->key,
                   ht_gguf_describe(kv, d), expected);
}

// *kv is NULL for an absent optional key.
static enum hearth_status find(const struct gguf_part *part, const char *key, bool required,
                               const struct ht_gguf_kv **kv, struct hearth_error *err) {
    *kv = ht_gguf_part_find(part, key);
    if (*kv || !required) return HEARTH_OK;
    return ht_fail(err, HEARTH_E_FORMAT, "metadata key %s is missing", key);
}

enum hearth_status ht_gguf_part_get_u32(const struct gguf_part *part, const char *key,
                                        bool required, uint32_t *out, struct hearth_error *err) {
    const struct ht_gguf_kv *kv;
    enum hearth_status s = find(part, key, required, &kv, err);
    if (s || !kv) return s;
    if (!ht_gguf_is_int(kv->type)) return fail_type(kv, "an integer", err);
    int64_t v = ht_gguf_int_at(kv, 0);
    if (kv->type == HT_GGUF_U64 && (v < 0 || v > UINT32_MAX)) {
        return ht_fail(err, HEARTH_E_FORMAT,
                       "metadata key %s is %" PRIu64 ", at most 4294967295 was expected", key,
                       ht_gguf_bits_at(kv, 0));
    }
    if (v < 0 || v > UINT32_MAX) {
        return ht_fail(err, HEARTH_E_FORMAT,
                       "metadata key %s is %" PRId64 ", 0 to 4294967295 was expected", key, v);
    }
    *out = (uint32_t)v;
    return HEARTH_OK;
}

// Puts the file's name in front of a sentence.
static enum hearth_status named(const struct ht_gguf *g, enum hearth_status s,
                                struct hearth_error *err) {
    return s ? ht_fail_in(err, s, "%s", ht_gguf_name(g)) : HEARTH_OK;
}

enum hearth_status ht_gguf_get_u32(const struct ht_gguf *g, const char *key, bool required,
                                   uint32_t *out, struct hearth_error *err) {
    return named(g, ht_gguf_part_get_u32(&g->parts[0], key, required, out, err), err);
}

enum hearth_status ht_gguf_get_f32(const struct ht_gguf *g, const char *key, bool required,
                                   float *out, struct hearth_error *err) {
    const struct ht_gguf_kv *kv;
    enum hearth_status s = find(&g->parts[0], key, required, &kv, err);
    if (s) return named(g, s, err);
    if (!kv) return HEARTH_OK;
    if (kv->type != HT_GGUF_F32 && kv->type != HT_GGUF_F64) {
        return named(g, fail_type(kv, "f32", err), err);
    }
    double v = ht_gguf_num_at(kv, 0);
    float f = (float)v;
    if (isfinite(v) && !isfinite(f)) {
        s = ht_fail(err, HEARTH_E_FORMAT, "metadata key %s is %g, too large for a 32-bit float",
                    key, v);
        return named(g, s, err);
    }
    *out = f;
    return HEARTH_OK;
}

enum hearth_status ht_gguf_get_bool(const struct ht_gguf *g, const char *key, bool required,
                                    bool *out, struct hearth_error *err) {
    const struct ht_gguf_kv *kv;
    enum hearth_status s = find(&g->parts[0], key, required, &kv, err);
    if (!s && kv && kv->type != HT_GGUF_BOOL) s = fail_type(kv, "bool", err);
    if (!s && kv) *out = kv->value[0] != 0;
    return named(g, s, err);
}

enum hearth_status ht_gguf_get_str(const struct ht_gguf *g, const char *key, bool required,
                                   struct ht_str *out, struct hearth_error *err) {
    const struct ht_gguf_kv *kv;
    const uint8_t *cursor = NULL;
    enum hearth_status s = find(&g->parts[0], key, required, &kv, err);
    if (!s && kv && kv->type != HT_GGUF_STR) s = fail_type(kv, "str", err);
    if (!s && kv) (void)ht_gguf_next_str(kv, &cursor, out); // there is one: parse.c saw it
    return named(g, s, err);
}
