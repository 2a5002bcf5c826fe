// SPDX-License-Identifier: MIT
// hearth_file_*: an open GGUF file, its metadata as JSON text, its tensor table. Immutable after
// open; any thread.
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/api_internal.h"
#include "base/float_env.h"
#include "base/map.h"
#include "base/mem.h"
#include "base/utf8.h"
#include "engine/engine.h"

static enum hearth_status wrap(struct ht_gguf *g, hearth_file **out, struct hearth_error *err) {
    hearth_file *f = ht_alloc(sizeof *f);
    if (!f) {
        ht_gguf_close(g);
        return ht_fail_nomem(err, sizeof *f, "a file");
    }
    f->g = g;
    *out = f;
    return HEARTH_OK;
}

enum hearth_status hearth_file_open(const char *path, hearth_file **out, struct hearth_error *err) {
    struct ht_gguf *g = NULL;
    if (!path) return ht_fail(err, HEARTH_E_ARG, "the path of the model file is NULL");
    enum hearth_status s = ht_gguf_open(path, &g, err);
    return s ? s : wrap(g, out, err);
}

enum hearth_status hearth_file_open_head(const char *path, hearth_file **out,
                                         struct hearth_error *err) {
    struct ht_gguf *g = NULL;
    if (!path) return ht_fail(err, HEARTH_E_ARG, "the path of the model file is NULL");
    enum hearth_status s = ht_gguf_open_head(path, &g, err);
    return s ? s : wrap(g, out, err);
}

enum hearth_status hearth_file_open_copy(const char *path, hearth_file **out,
                                         struct hearth_error *err) {
    struct ht_gguf *g = NULL;
    if (!path) return ht_fail(err, HEARTH_E_ARG, "the path of the model file is NULL");
    // Never through a mapping, whose pages end the process where they cannot be read.
    enum hearth_status s = ht_gguf_open_copy(path, ht_engine_available(NULL), &g, err);
    return s ? s : wrap(g, out, err);
}

enum hearth_status hearth_file_open_bytes(const void *data, size_t n_bytes, const char *name,
                                          hearth_file **out, struct hearth_error *err) {
    struct ht_gguf *g = NULL;
    enum hearth_status s = ht_gguf_open_bytes(data, n_bytes, name ? name : "(memory)", &g, err);
    return s ? s : wrap(g, out, err);
}

void hearth_file_close(hearth_file *f) {
    if (!f) return;
    ht_gguf_close(f->g);
    ht_free(f);
}

uint64_t hearth_file_bytes(const hearth_file *f) {
    return ht_gguf_file_bytes(f->g);
}
uint32_t hearth_file_gguf_version(const hearth_file *f) {
    return ht_gguf_version(f->g);
}
bool hearth_file_large_pages(const hearth_file *f, uint64_t *n_bytes) {
    bool known = ht_gguf_large_bytes(f->g, n_bytes);
    if (!known) *n_bytes = 0;
    return known;
}
size_t hearth_file_n_parts(const hearth_file *f) {
    return ht_gguf_n_parts(f->g);
}
size_t hearth_file_n_meta(const hearth_file *f) {
    return ht_gguf_n_kv(f->g);
}
size_t hearth_file_n_tensors(const hearth_file *f) {
    return ht_gguf_n_tensors(f->g);
}

// ---- metadata as JSON

struct sink { // counts all, keeps what fits, as snprintf does
    char *buf;
    size_t n_buf, len;
};

static void put(struct sink *s, const char *text, size_t n) {
    if (s->len < s->n_buf) {
        size_t room = s->n_buf - s->len;
        memcpy(s->buf + s->len, text, n < room ? n : room);
    }
    s->len += n;
}

static void put_text(struct sink *s, const char *text) {
    put(s, text, strlen(text));
}

static void put_string(struct sink *s, const char *text, size_t n) {
    put(s, "\"", 1);
    for (size_t i = 0; i < n;) {
        size_t len = ht_utf8_char_len(text + i, n - i);
        unsigned char c = (unsigned char)text[i];
        char escape[8];
        if (len == 0) {
            put_text(s, "\\ufffd"); // a byte that is no text: JSON has no other way
            len = 1;
        } else if (c == '"' || c == '\\') {
            snprintf(escape, sizeof escape, "\\%c", c);
            put_text(s, escape);
        } else if (c == '\n') {
            put_text(s, "\\n");
        } else if (c == '\t') {
            put_text(s, "\\t");
        } else if (c == '\r') {
            put_text(s, "\\r");
        } else if (ht_utf8_is_control(text + i, len)) {
            unsigned code = (unsigned char)text[i + len - 1]; // all of it
            snprintf(escape, sizeof escape, "\\u%04x", code);
            put_text(s, escape);
        } else {
            put(s, text + i, len);
        }
        i += len;
    }
    put(s, "\"", 1);
}

// The shortest decimal that reads back as the same number. NaN and infinities, which JSON does not
// have, become strings.
static void put_float(struct sink *s, double v, bool is_f32) {
    char text[64];
    if (!isfinite(v)) {
        put_text(s, isnan(v) ? "\"nan\"" : v > 0 ? "\"inf\"" : "\"-inf\"");
        return;
    }
    int most = is_f32 ? 9 : 17;
    for (int digits = 1; digits <= most; digits++) {
        snprintf(text, sizeof text, "%.*g", digits, v);
        bool same = is_f32 ? strtof(text, NULL) == (float)v : strtod(text, NULL) == v;
        if (same) break;
    }
    // The program may have set a locale whose decimal point is another one.
    for (char *p = text; *p; p++) {
        if (strchr("0123456789+-e", *p)) continue;
        char *rest = p + 1;
        while (*rest && !strchr("0123456789+-e", *rest)) rest++;
        *p = '.';
        memmove(p + 1, rest, strlen(rest) + 1);
    }
    put_text(s, text);
}

static void put_number(struct sink *s, const struct ht_gguf_kv *kv, enum ht_gguf_type type,
                       uint64_t i) {
    char text[32];
    switch (type) {
    case HT_GGUF_F32: put_float(s, ht_gguf_num_at(kv, i), true); return;
    case HT_GGUF_F64: put_float(s, ht_gguf_num_at(kv, i), false); return;
    case HT_GGUF_BOOL: put_text(s, kv->value[i] ? "true" : "false"); return;
    case HT_GGUF_U64: snprintf(text, sizeof text, "%" PRIu64, ht_gguf_bits_at(kv, i)); break;
    default: snprintf(text, sizeof text, "%" PRId64, ht_gguf_int_at(kv, i));
    }
    put_text(s, text);
}

static void put_array(struct sink *s, const struct ht_gguf_kv *kv, size_t max_items) {
    const uint8_t *cursor = NULL;
    struct ht_str str;
    put(s, "[", 1);
    for (uint64_t i = 0; i < kv->n; i++) {
        if (i) put(s, ",", 1);
        if (i == max_items) {
            put_text(s, "\"...\"");
            break;
        }
        if (kv->arr_type != HT_GGUF_STR)
            put_number(s, kv, kv->arr_type, i);
        else if (ht_gguf_next_str(kv, &cursor, &str))
            put_string(s, str.data, str.len);
    }
    put(s, "]", 1);
}

static void put_scalar_string(struct sink *s, const struct ht_gguf_kv *kv) {
    uint64_t len; // its length stands in front, little-endian as this machine is
    memcpy(&len, kv->value, sizeof len);
    put_string(s, (const char *)kv->value + sizeof len, (size_t)len);
}

size_t hearth_file_meta(const hearth_file *f, size_t i, size_t max_items, const char **key,
                        char type[32], char *buf, size_t n_buf) {
    struct sink s = {.buf = buf, .n_buf = n_buf ? n_buf - 1 : 0};
    if (n_buf) buf[0] = 0;
    if (i >= ht_gguf_n_kv(f->g)) {
        *key = "";
        type[0] = 0;
        return 0;
    }
    const struct ht_gguf_kv *kv = ht_gguf_kv_at(f->g, i);
    struct ht_float_env kept = ht_float_enter(); // printf and strtof round as it says
    *key = kv->key;
    if (kv->type == HT_GGUF_ARR)
        snprintf(type, 32, "arr[%s,%" PRIu64 "]", ht_gguf_type_name(kv->arr_type), kv->n);
    else
        snprintf(type, 32, "%s", ht_gguf_type_name(kv->type));
    if (kv->type == HT_GGUF_ARR)
        put_array(&s, kv, max_items);
    else if (kv->type == HT_GGUF_STR)
        put_scalar_string(&s, kv);
    else
        put_number(&s, kv, kv->type, 0);
    ht_float_leave(kept);
    if (n_buf) buf[s.len < n_buf ? s.len : n_buf - 1] = 0;
    return s.len;
}

const char *hearth_file_meta_text(const hearth_file *f, const char *key, size_t *n_bytes) {
    const struct ht_gguf_kv *kv = ht_gguf_find(f->g, key);
    const uint8_t *cursor = NULL;
    struct ht_str s = {NULL, 0};
    bool is_text = kv && kv->type == HT_GGUF_STR && ht_gguf_next_str(kv, &cursor, &s);
    *n_bytes = is_text ? s.len : 0;
    return is_text ? s.data : NULL;
}

// ---- tensors

void hearth_file_tensor(const hearth_file *f, size_t i, struct hearth_tensor_info *out) {
    *out = (struct hearth_tensor_info){.name = "", .format = ""};
    if (i >= ht_gguf_n_tensors(f->g)) return;
    const struct ht_gguf_tensor *t = ht_gguf_tensor_at(f->g, i);
    out->name = t->name;
    out->format = ht_format_get(t->format)->name;
    out->n_dims = t->n_dims;
    for (int d = 0; d < t->n_dims; d++) out->dims[d] = t->ne[t->n_dims - 1 - d];
    out->n_bytes = t->n_bytes;
    out->offset = t->offset;
    out->file_index = t->part;
}
