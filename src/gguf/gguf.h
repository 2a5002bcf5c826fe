// SPDX-License-Identifier: MIT
// The GGUF file format, versions 2 and 3, over mapped bytes. The reader checks every count, length,
// offset, product and alignment once, at open; after that the accessors cannot fail for what they
// find. Strings point into the mapping and are not 0-terminated unless said so. An open file is
// immutable: any thread. Source: the public GGUF specification (ggml docs/gguf.md).
#ifndef HT_GGUF_GGUF_H
#define HT_GGUF_GGUF_H

#include "base/status.h"
#include "quant/format.h"

enum ht_gguf_type { // metadata value types, as stored
    HT_GGUF_U8,
    HT_GGUF_I8,
    HT_GGUF_U16,
    HT_GGUF_I16,
    HT_GGUF_U32,
    HT_GGUF_I32,
    HT_GGUF_F32,
    HT_GGUF_BOOL,
    HT_GGUF_STR,
    HT_GGUF_ARR,
    HT_GGUF_U64,
    HT_GGUF_I64,
    HT_GGUF_F64,
    HT_GGUF_N_TYPES
};

struct ht_str { // borrowed bytes
    const char *data;
    size_t len;
};

struct ht_gguf_kv {
    const char *key;        // 0-terminated copy
    enum ht_gguf_type type; // of the value
    enum ht_gguf_type
        arr_type; // of the elements (never ARR: nested arrays are refused); of a scalar its type
    uint64_t n;   // elements: 1, or the array's length
    const uint8_t
        *value;       // first value byte, little-endian, unaligned (for a string: its length field)
    uint64_t n_bytes; // length of the value part from there
};

struct ht_gguf_tensor {
    const char *name; // 0-terminated copy
    enum ht_format format;
    int n_dims;          // 1..4
    uint64_t ne[4];      // file order: ne[0] is contiguous; unused ones are 1
    const uint8_t *data; // mapped; aligned to the file's alignment; NULL: cut off (a head alone)
    uint64_t n_bytes;
    uint64_t offset; // of data in its part
    int part;
};

struct ht_gguf; // one file, or all parts of a split one

HT_MUST_CHECK enum hearth_status ht_gguf_open(const char *path, struct ht_gguf **out,
                                              struct hearth_error *err);
// The same, of a file that may be cut short behind its tensor table: data of the tensors of a part
// that is, is NULL.
HT_MUST_CHECK enum hearth_status ht_gguf_open_head(const char *path, struct ht_gguf **out,
                                                   struct hearth_error *err);
// E_FORMAT, with what is missing, where a part is cut short.
HT_MUST_CHECK enum hearth_status ht_gguf_is_whole(const struct ht_gguf *g,
                                                  struct hearth_error *err);
// As ht_gguf_open, with all parts read into memory instead of mapped (ht_map_copy).
// E_NOMEM where they take more than `available` bytes together.
HT_MUST_CHECK enum hearth_status ht_gguf_open_copy(const char *path, uint64_t available,
                                                   struct ht_gguf **out, struct hearth_error *err);
// Over bytes the caller keeps, at a multiple of 4 where a model is to run on them. name appears in
// messages.
HT_MUST_CHECK enum hearth_status ht_gguf_open_bytes(const void *data, size_t n_bytes,
                                                    const char *name, struct ht_gguf **out,
                                                    struct hearth_error *err);
void ht_gguf_close(struct ht_gguf *g); // accepts NULL

const char *ht_gguf_name(const struct ht_gguf *g); // path or name, for messages
uint32_t ht_gguf_version(const struct ht_gguf *g);
size_t ht_gguf_n_parts(const struct ht_gguf *g);
// Whether the name ends as those of a split model's parts do ("-00002-of-00003.gguf"). (reader.c)
bool ht_gguf_names_part(const char *path);
uint64_t ht_gguf_file_bytes(const struct ht_gguf *g); // all parts
// Of these, those for which memory is taken already, beside what the system counts as available:
// copies, bytes of the caller (but where they are a mapped file's), files of file systems that are
// memory.
uint64_t ht_gguf_taken_bytes(const struct ht_gguf *g);
// ht_map_large_bytes of all parts; false for bytes of the caller.
bool ht_gguf_large_bytes(const struct ht_gguf *g, uint64_t *n);
size_t ht_gguf_n_kv(const struct ht_gguf *g);
const struct ht_gguf_kv *ht_gguf_kv_at(const struct ht_gguf *g, size_t i);
const struct ht_gguf_kv *ht_gguf_find(const struct ht_gguf *g,
                                      const char *key); // NULL: absent. Hashed
size_t ht_gguf_n_tensors(const struct ht_gguf *g);
const struct ht_gguf_tensor *ht_gguf_tensor_at(const struct ht_gguf *g, size_t i);
const struct ht_gguf_tensor *ht_gguf_find_tensor(const struct ht_gguf *g,
                                                 const char *name); // NULL: absent. Hashed

// Typed access. Absent key: *out stays as it is (preset the default) and, if `required`, E_FORMAT
// names the key. A key of another type, or a number that does not fit, is E_FORMAT with key, type
// found and type expected. Integers of any width and sign convert where the value fits; f64 and f32
// both give f32/f64.
HT_MUST_CHECK enum hearth_status ht_gguf_get_u32(const struct ht_gguf *g, const char *key,
                                                 bool required, uint32_t *out,
                                                 struct hearth_error *err);
HT_MUST_CHECK enum hearth_status ht_gguf_get_f32(const struct ht_gguf *g, const char *key,
                                                 bool required, float *out,
                                                 struct hearth_error *err);
HT_MUST_CHECK enum hearth_status ht_gguf_get_bool(const struct ht_gguf *g, const char *key,
                                                  bool required, bool *out,
                                                  struct hearth_error *err);
HT_MUST_CHECK enum hearth_status ht_gguf_get_str(const struct ht_gguf *g, const char *key,
                                                 bool required, struct ht_str *out,
                                                 struct hearth_error *err);
// Element i of an array (or i == 0 of a scalar) of integers / floats; the caller has checked kv's
// type and i < kv->n. int_at of what is beyond INT64_MAX is that, but -1 of 2^64 - 1, which says
// "not set"; bits_at has all 64 of a u64.
int64_t ht_gguf_int_at(const struct ht_gguf_kv *kv, uint64_t i);
uint64_t ht_gguf_bits_at(const struct ht_gguf_kv *kv, uint64_t i);
double ht_gguf_num_at(const struct ht_gguf_kv *kv, uint64_t i);
bool ht_gguf_is_int(enum ht_gguf_type t);
// A value's type for messages, "arr[str,3]" or "u32": in out, or a constant.
#define HT_GGUF_DESCRIBE_BYTES 48
const char *ht_gguf_describe(const struct ht_gguf_kv *kv, char out[HT_GGUF_DESCRIBE_BYTES]);
// Walks an array of strings: *cursor starts at NULL; each call gives the next element, false at the
// end. O(1) each.
bool ht_gguf_next_str(const struct ht_gguf_kv *kv, const uint8_t **cursor, struct ht_str *out);
const char *ht_gguf_type_name(enum ht_gguf_type t); // "u32", "str", "arr"

// ---- writer: metadata first, then tensors in any number, then finish. Values are copied, tensor
// data is borrowed until finish, which writes everything to path.tmp, syncs and renames it over
// path. A failed call sticks; finish reports it.
struct ht_gguf_writer;
HT_MUST_CHECK enum hearth_status ht_gguf_writer_create(struct ht_gguf_writer **out,
                                                       struct hearth_error *err);
void ht_gguf_writer_destroy(struct ht_gguf_writer *w); // accepts NULL
void ht_gguf_put_u32(struct ht_gguf_writer *w, const char *key, uint32_t v);
void ht_gguf_put_u64(struct ht_gguf_writer *w, const char *key, uint64_t v);
void ht_gguf_put_i32(struct ht_gguf_writer *w, const char *key, int32_t v);
void ht_gguf_put_f32(struct ht_gguf_writer *w, const char *key, float v);
void ht_gguf_put_bool(struct ht_gguf_writer *w, const char *key, bool v);
void ht_gguf_put_str(struct ht_gguf_writer *w, const char *key, const char *s, size_t len);
void ht_gguf_put_str_array(struct ht_gguf_writer *w, const char *key, const struct ht_str *s,
                           size_t n);
// Numbers of one type, given as their little-endian bytes.
void ht_gguf_put_array(struct ht_gguf_writer *w, const char *key, enum ht_gguf_type type,
                       const void *data, size_t n);
void ht_gguf_put_kv(struct ht_gguf_writer *w,
                    const struct ht_gguf_kv *kv); // copies an entry of an open file
// ne as in ht_gguf_tensor. Data in the format's layout; the writer computes its size.
void ht_gguf_put_tensor(struct ht_gguf_writer *w, const char *name, enum ht_format format,
                        int n_dims, const uint64_t *ne, const void *data);
// The same, but the rows (of ne[0] weights) are made while finish writes them: fill puts rows
// [first_row, first_row + n_rows) into out, in order, each row once. What it fails with, other than
// E_IO, is what finish returns.
typedef enum hearth_status (*ht_gguf_fill_fn)(void *user, uint64_t first_row, uint64_t n_rows,
                                              void *out, struct hearth_error *err);
void ht_gguf_put_rows(struct ht_gguf_writer *w, const char *name, enum ht_format format, int n_dims,
                      const uint64_t *ne, ht_gguf_fill_fn fill, void *user);
// What finish tells of tensor bytes written, every few megabytes; false ends it with E_CANCELLED.
void ht_gguf_writer_watch(struct ht_gguf_writer *w, hearth_progress_fn fn, void *user);
HT_MUST_CHECK enum hearth_status ht_gguf_writer_finish(struct ht_gguf_writer *w, const char *path,
                                                       struct hearth_error *err);

#endif
