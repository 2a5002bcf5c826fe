// SPDX-License-Identifier: MIT
// Reads header, metadata and tensor table of one GGUF part out of bytes in memory. Every count,
// length, offset, product and alignment is checked here, once; what it hands out can be used
// without further checks. Sentences name the entry and the byte; the caller adds the file's name.
// Runs in the thread that opens the file.
//
//   "GGUF" | u32 version | u64 n_tensors | u64 n_kv | n_kv x entry | n_tensors x info | pad | data
//   entry:  u64 len, key | u32 type | value          value of an array: u32 type, u64 n, elements
//   info:   u64 len, name | u32 n_dims | u64 ne[n_dims] | u32 format | u64 offset in data
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/checked.h"
#include "gguf/internal.h"

struct cursor {
    const uint8_t *begin, *p, *end;
};

static size_t left(const struct cursor *c) {
    return (size_t)(c->end - c->p);
}
static size_t at(const struct cursor *c) {
    return (size_t)(c->p - c->begin);
}

static bool take_u32(struct cursor *c, uint32_t *out) {
    if (left(c) < 4) return false;
    memcpy(out, c->p, 4);
    c->p += 4;
    return true;
}

static bool take_u64(struct cursor *c, uint64_t *out) {
    if (left(c) < 8) return false;
    memcpy(out, c->p, 8);
    c->p += 8;
    return true;
}

// `need` bytes were wanted at the cursor.
static enum hearth_status fail_end(const struct cursor *c, uint64_t need, const char *what,
                                   struct hearth_error *err) {
    return ht_fail(err, HEARTH_E_FORMAT,
                   "ends inside %s: %" PRIu64 " bytes are wanted at byte %zu, the file has %zu "
                   "there; a download that was cut short, or a damaged length",
                   what, need, at(c), left(c));
}

bool ht_gguf_tensor_bytes(enum ht_format f, const uint64_t ne[4], uint64_t *out) {
    uint64_t n;
    if (!ht_format_row_bytes(f, ne[0], &n)) return false;
    for (int d = 1; d < 4; d++) {
        if (!ht_mul_u64(n, ne[d], &n)) return false;
    }
    *out = n;
    return true;
}

// Steps over n strings; *bad receives the first one that passes the end, or n. This walk is the
// cost of opening a vocabulary: one load, one compare and one add a string.
static const uint8_t *skip_strings(const uint8_t *p, const uint8_t *end, uint64_t n,
                                   uint64_t *bad) {
    uint64_t i = 0;
    for (; i < n; i++) {
        uint64_t len;
        if (end - p < 8) break;
        memcpy(&len, p, 8);
        if (len > (uint64_t)(end - p) - 8) break;
        p += 8 + len;
    }
    *bad = i;
    return p;
}

static enum hearth_status parse_values(struct cursor *c, struct ht_gguf_kv *kv,
                                       enum ht_gguf_type type, const char *what,
                                       struct hearth_error *err) {
    uint64_t n_bytes;
    kv->value = c->p;
    if (type == HT_GGUF_STR) {
        uint64_t bad;
        const uint8_t *p = skip_strings(c->p, c->end, kv->n, &bad);
        if (bad != kv->n) {
            return ht_fail(err, HEARTH_E_FORMAT,
                           "ends inside %s: string %" PRIu64 " of %" PRIu64
                           " at byte %zu passes the end of the file; a download that was cut "
                           "short, or a damaged length",
                           what, bad, kv->n, (size_t)(p - c->begin));
        }
        c->p = p;
    } else {
        if (!ht_mul_u64(kv->n, ht_gguf_type_bytes(type), &n_bytes)) {
            return ht_fail(err, HEARTH_E_FORMAT, "%s has %" PRIu64 " elements, more than any file",
                           what, kv->n);
        }
        if (n_bytes > left(c)) return fail_end(c, n_bytes, what, err);
        if (type == HT_GGUF_BOOL) {
            for (uint64_t i = 0; i < kv->n; i++) {
                if (c->p[i] <= 1) continue;
                return ht_fail(err, HEARTH_E_FORMAT, "%s holds %u as a bool, 0 or 1 was expected",
                               what, c->p[i]);
            }
        }
        c->p += n_bytes;
    }
    kv->n_bytes = (uint64_t)(c->p - kv->value);
    return HEARTH_OK;
}

static enum hearth_status parse_value(struct cursor *c, struct ht_gguf_kv *kv,
                                      struct hearth_error *err) {
    char q[HT_QUOTE_BYTES], what[HT_QUOTE_BYTES + 24];
    uint32_t type, arr_type = 0;
    snprintf(what, sizeof(what), "metadata key %s", ht_quote(q, kv->key, strlen(kv->key)));
    if (!take_u32(c, &type)) return fail_end(c, 4, what, err);
    if (type >= HT_GGUF_N_TYPES) {
        return ht_fail(err, HEARTH_E_FORMAT, "%s has value type %" PRIu32 ", 0 to %d exist", what,
                       type, HT_GGUF_N_TYPES - 1);
    }
    kv->type = (enum ht_gguf_type)type;
    kv->arr_type = kv->type;
    kv->n = 1;
    if (kv->type == HT_GGUF_ARR) {
        if (!take_u32(c, &arr_type) || !take_u64(c, &kv->n)) return fail_end(c, 12, what, err);
        if (arr_type == HT_GGUF_ARR) {
            return ht_fail(err, HEARTH_E_UNSUPPORTED,
                           "%s is an array of arrays, which no known key is; nested arrays are not "
                           "supported",
                           what);
        }
        if (arr_type >= HT_GGUF_N_TYPES) {
            return ht_fail(err, HEARTH_E_FORMAT, "%s has element type %" PRIu32 ", 0 to %d exist",
                           what, arr_type, HT_GGUF_N_TYPES - 1);
        }
        kv->arr_type = (enum ht_gguf_type)arr_type;
    }
    return parse_values(c, kv, kv->arr_type, what, err);
}

// Takes a string that names something ("metadata key 3"): checked, and copied into the arena.
static enum hearth_status parse_name(struct ht_arena *a, struct cursor *c, size_t max,
                                     const char *kind, size_t i, const char **out,
                                     struct hearth_error *err) {
    char q[HT_QUOTE_BYTES], what[64];
    uint64_t len;
    snprintf(what, sizeof(what), "the %s of number %zu", kind, i);
    if (!take_u64(c, &len)) return fail_end(c, 8, what, err);
    if (len == 0 || len > max) {
        return ht_fail(err, HEARTH_E_FORMAT,
                       "%s, at byte %zu, is %" PRIu64 " bytes long, 1 to %zu were expected", what,
                       at(c) - 8, len, max);
    }
    if (len > left(c)) return fail_end(c, len, what, err);
    if (!ht_gguf_name_ok((const char *)c->p, (size_t)len, max)) {
        return ht_fail(err, HEARTH_E_FORMAT,
                       "%s, at byte %zu, is %s, text without control characters was expected", what,
                       at(c), ht_quote(q, (const char *)c->p, (size_t)len));
    }
    *out = ht_arena_strndup(a, (const char *)c->p, (size_t)len);
    if (!*out) return ht_fail_nomem(err, (size_t)len + 1, "names");
    c->p += len;
    return HEARTH_OK;
}

// Builds the index over n names and refuses a name that occurs twice.
static enum hearth_status index_names(struct ht_arena *a, const char *const *names, size_t n,
                                      const char *kind, struct name_index *out,
                                      struct hearth_error *err) {
    char q[HT_QUOTE_BYTES];
    size_t dup;
    if (ht_gguf_index_build(a, names, n, out, &dup)) return ht_fail_nomem(err, n * 8, "names");
    if (dup == n) return HEARTH_OK;
    return ht_fail(err, HEARTH_E_FORMAT, "%s %s occurs twice", kind,
                   ht_quote(q, names[dup], strlen(names[dup])));
}

static enum hearth_status parse_metadata(struct ht_arena *a, struct cursor *c,
                                         struct gguf_part *part, struct hearth_error *err) {
    size_t n = part->n_kv;
    const char **names = ht_arena_array(a, n + 1, sizeof(*names), _Alignof(const char *));
    part->kv = ht_arena_array(a, n + 1, sizeof(*part->kv), _Alignof(struct ht_gguf_kv));
    if (!names || !part->kv) return ht_fail_nomem(err, n * sizeof(*part->kv), "metadata");
    for (size_t i = 0; i < n; i++) {
        enum hearth_status s =
            parse_name(a, c, GGUF_MAX_KEY, "metadata key", i, &part->kv[i].key, err);
        if (!s) s = parse_value(c, &part->kv[i], err);
        if (s) return s;
        names[i] = part->kv[i].key;
    }
    return index_names(a, names, n, "metadata key", &part->kv_index, err);
}

static enum hearth_status fail_format(const struct ht_gguf_tensor *t, uint32_t id, const char *q,
                                      struct hearth_error *err) {
    const struct ht_format_info *fi = ht_format_get(id);
    if (!fi) {
        static const char *const removed[] = {
            [4] = "Q4_2",      [5] = "Q4_3",        [31] = "Q4_0_4_4",   [32] = "Q4_0_4_8",
            [33] = "Q4_0_8_8", [36] = "IQ4_NL_4_4", [37] = "IQ4_NL_4_8", [38] = "IQ4_NL_8_8"};
        bool old = id < sizeof(removed) / sizeof(removed[0]) && removed[id];
        return ht_fail(err, HEARTH_E_UNSUPPORTED, "tensor %s has type %" PRIu32 " (%s%s)", q, id,
                       old ? removed[id] : "unknown",
                       old ? ", which the format no longer has; get a newer file of the model"
                           : "; a newer kind of weights, or a damaged file");
    }
    if (t->ne[0] % fi->block_len) {
        return ht_fail(err, HEARTH_E_FORMAT,
                       "tensor %s has rows of %" PRIu64 " weights, a multiple of %u was expected "
                       "for %s",
                       q, t->ne[0], (unsigned)fi->block_len, fi->name);
    }
    return ht_fail(err, HEARTH_E_FORMAT,
                   "tensor %s of %" PRIu64 " x %" PRIu64 " x %" PRIu64 " x %" PRIu64
                   " weights in %s is larger than any memory",
                   q, t->ne[3], t->ne[2], t->ne[1], t->ne[0], fi->name);
}

static enum hearth_status parse_tensor(struct ht_arena *a, struct cursor *c, size_t i,
                                       uint64_t align, struct ht_gguf_tensor *t,
                                       struct hearth_error *err) {
    char q[HT_QUOTE_BYTES], what[HT_QUOTE_BYTES + 24];
    uint32_t n_dims, format;
    enum hearth_status s = parse_name(a, c, GGUF_MAX_NAME, "tensor name", i, &t->name, err);
    if (s) return s;
    ht_quote(q, t->name, strlen(t->name));
    snprintf(what, sizeof(what), "the entry of tensor %s", q);
    if (!take_u32(c, &n_dims)) return fail_end(c, 4, what, err);
    if (n_dims > 4) {
        return ht_fail(err, HEARTH_E_FORMAT,
                       "tensor %s has %" PRIu32 " dimensions, at most 4 exist", q, n_dims);
    }
    t->n_dims = n_dims ? (int)n_dims : 1; // a scalar is a vector of one
    for (uint32_t d = 0; d < 4; d++) {
        t->ne[d] = 1;
        if (d < n_dims && !take_u64(c, &t->ne[d])) return fail_end(c, 8, what, err);
        if (t->ne[d] == 0) {
            return ht_fail(err, HEARTH_E_FORMAT, "tensor %s has length 0 in dimension %" PRIu32, q,
                           d);
        }
    }
    if (!take_u32(c, &format) || !take_u64(c, &t->offset)) return fail_end(c, 12, what, err);
    const struct ht_format_info *fi = ht_format_get(format);
    t->format = (enum ht_format)format;
    if (!fi || !ht_gguf_tensor_bytes(t->format, t->ne, &t->n_bytes)) {
        return fail_format(t, format, q, err);
    }
    if (t->offset % align) {
        return ht_fail(err, HEARTH_E_FORMAT,
                       "tensor %s lies at offset %" PRIu64 ", a multiple of general.alignment "
                       "(%" PRIu64 ") was expected",
                       q, t->offset, align);
    }
    return HEARTH_OK;
}

enum hearth_status ht_gguf_part_is_whole(const struct gguf_part *part, struct hearth_error *err) {
    if (part->need <= part->len) return HEARTH_OK;
    return ht_fail(err, HEARTH_E_FORMAT,
                   "is cut short: it has %zu bytes and its tensors need %" PRIu64 ", %" PRIu64
                   " are missing; finish or repeat the download",
                   part->len, part->need, part->need - part->len);
}

// Turns offsets in the data section into pointers. The end of the last tensor says how long the
// whole file should be, so a cut download is told what it lacks. Tensors may share bytes: the
// specification does not forbid it, and nothing here writes.
static enum hearth_status place_tensors(struct gguf_part *part, bool head,
                                        struct hearth_error *err) {
    char q[HT_QUOTE_BYTES];
    for (size_t i = 0; i < part->n_tensors; i++) {
        struct ht_gguf_tensor *t = &part->tensors[i];
        uint64_t offset, end;
        if (!ht_add_u64(part->data_start, t->offset, &offset) ||
            !ht_add_u64(offset, t->n_bytes, &end) || end > INT64_MAX) {
            return ht_fail(err, HEARTH_E_FORMAT,
                           "tensor %s of %" PRIu64 " bytes lies at offset %" PRIu64
                           ", past the end of any file",
                           ht_quote(q, t->name, strlen(t->name)), t->n_bytes, t->offset);
        }
        if (end > part->need) part->need = end;
        t->offset = offset;
    }
    enum hearth_status s = ht_gguf_part_is_whole(part, head ? NULL : err);
    if (s) return head ? HEARTH_OK : s;
    for (size_t i = 0; i < part->n_tensors; i++) {
        part->tensors[i].data = part->data + part->tensors[i].offset;
    }
    return HEARTH_OK;
}

static enum hearth_status parse_tensors(struct ht_arena *a, struct cursor *c,
                                        struct gguf_part *part, bool head,
                                        struct hearth_error *err) {
    size_t n = part->n_tensors, start;
    part->tensors =
        ht_arena_array(a, n + 1, sizeof(*part->tensors), _Alignof(struct ht_gguf_tensor));
    if (!part->tensors) return ht_fail_nomem(err, n * sizeof(*part->tensors), "the tensor table");
    for (size_t i = 0; i < n; i++) {
        enum hearth_status s = parse_tensor(a, c, i, part->align, &part->tensors[i], err);
        if (s) return s;
    }
    if (!ht_align_size(at(c), (size_t)part->align, &start)) {
        return ht_fail(err, HEARTH_E_FORMAT,
                       "general.alignment is %" PRIu64 ", larger than any file", part->align);
    }
    part->data_start = start;
    return place_tensors(part, head, err);
}

static enum hearth_status parse_version(struct cursor *c, struct gguf_part *part,
                                        struct hearth_error *err) {
    uint32_t v;
    if (!take_u32(c, &v)) return fail_end(c, 4, "the header", err);
    if (v == 2 || v == 3) {
        part->version = v;
        return HEARTH_OK;
    }
    if (v && (v & 0xffff) == 0) {
        return ht_fail(err, HEARTH_E_UNSUPPORTED,
                       "is a big-endian GGUF file (version %" PRIu32 " in that byte order); get "
                       "the little-endian one",
                       __builtin_bswap32(v));
    }
    return ht_fail(err, HEARTH_E_UNSUPPORTED, "is GGUF version %" PRIu32 ", 2 and 3 are supported",
                   v);
}

// A count may not be larger than what the rest of the file could hold at `min` bytes each.
static enum hearth_status check_count(const struct cursor *c, uint64_t n, uint64_t max,
                                      uint64_t min, const char *what, struct hearth_error *err) {
    uint64_t fit = left(c) / min;
    if (n > max) {
        return ht_fail(err, HEARTH_E_FORMAT,
                       "says it has %" PRIu64 " %s, at most %" PRIu64 " are accepted", n, what,
                       max);
    }
    if (n > fit) {
        return ht_fail(err, HEARTH_E_FORMAT,
                       "says it has %" PRIu64 " %s, its %zu bytes have room for %" PRIu64
                       " at most; a download that was cut short, or a damaged header",
                       n, what, (size_t)(c->end - c->begin), fit);
    }
    return HEARTH_OK;
}

enum hearth_status ht_gguf_parse_part(struct ht_arena *a, struct gguf_part *part, bool head,
                                      struct hearth_error *err) {
    uint64_t n_tensors, n_kv;
    uint32_t align = GGUF_DEFAULT_ALIGN;
    if (part->len < 4 || memcmp(part->data, "GGUF", 4) != 0) { // data is NULL where len is 0
        return ht_gguf_refuse_alien(part->data, part->len, err);
    }
    struct cursor c = {part->data, part->data, part->data + part->len};
    c.p += 4;
    enum hearth_status s = parse_version(&c, part, err);
    if (s) return s;
    if (!take_u64(&c, &n_tensors) || !take_u64(&c, &n_kv)) {
        return fail_end(&c, 16, "the header", err);
    }
    s = check_count(&c, n_kv, GGUF_MAX_KV, 8 + 1 + 4 + 1, "metadata keys", err);
    if (!s) s = check_count(&c, n_tensors, GGUF_MAX_TENSORS, 8 + 1 + 4 + 4 + 8, "tensors", err);
    if (s) return s;
    part->n_kv = (size_t)n_kv;
    part->n_tensors = (size_t)n_tensors;
    s = parse_metadata(a, &c, part, err);
    if (!s) s = ht_gguf_part_get_u32(part, "general.alignment", false, &align, err);
    if (s) return s;
    if (align < 8 || align > GGUF_MAX_ALIGN || (align & (align - 1)) != 0) {
        return ht_fail(
            err, HEARTH_E_FORMAT,
            "general.alignment is %" PRIu32 ", a power of two from 8 to 2^30 was expected", align);
    }
    part->align = align;
    return parse_tensors(a, &c, part, head, err);
}
