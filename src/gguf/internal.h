// SPDX-License-Identifier: MIT
// What the files of this room share: the open file's structure, the index over names, and the
// parser of one part. Nothing outside src/gguf includes it.
#ifndef HT_GGUF_INTERNAL_H
#define HT_GGUF_INTERNAL_H

#include "base/arena.h"
#include "base/map.h"
#include "base/utf8.h"
#include "gguf/gguf.h"

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "GGUF values are read as they lie");

#define GGUF_VERSION       3u
#define GGUF_MAX_KEY       65535u
#define GGUF_MAX_NAME      64u
#define GGUF_MAX_KV        (1u << 20)
#define GGUF_MAX_TENSORS   (1u << 20)
#define GGUF_DEFAULT_ALIGN 32u
#define GGUF_MAX_ALIGN     (1u << 30)

// Open addressing over an array of names that the caller keeps. slots holds index + 1; 0 is empty.
struct name_index {
    const char *const *names;
    uint32_t *slots;
    uint64_t mask;
    uint64_t seed;
};

// Indexes n names (n < 2^31) out of the arena. *dup receives the index of the first name that an
// earlier entry already has, or n. E_NOMEM, or OK.
HT_MUST_CHECK enum hearth_status ht_gguf_index_build(struct ht_arena *a, const char *const *names,
                                                     size_t n, struct name_index *out, size_t *dup);
// The entry with that name, or -1.
int64_t ht_gguf_index_find(const struct name_index *ix, const char *name);

struct gguf_part {
    struct ht_map map; // zeroed when the bytes are the caller's
    const uint8_t *data;
    size_t len;
    const char *name; // path, for messages; in the arena
    uint32_t version;
    uint64_t align;
    uint64_t data_start; // of tensor data in the part
    uint64_t need;       // bytes that it has to have for its tensors: at most len, but for a head
    struct ht_gguf_kv *kv;
    size_t n_kv;
    struct name_index kv_index;
    struct ht_gguf_tensor *tensors;
    size_t n_tensors;
};

struct ht_gguf {
    struct ht_arena arena;
    struct gguf_part *parts; // parts[0] holds the metadata
    size_t n_parts;
    struct ht_gguf_tensor *tensors; // of all parts, in file order
    size_t n_tensors;
    struct name_index tensor_index;
    uint64_t file_bytes, taken_bytes;
};

// Checks and reads header, metadata and tensor table of part->data; fills the fields from `version`
// on. The tensors' part stays 0. Sentences do not yet name the file. `head`: it may be cut short
// behind the table; then its tensors' data is NULL.
HT_MUST_CHECK enum hearth_status ht_gguf_parse_part(struct ht_arena *a, struct gguf_part *part,
                                                    bool head, struct hearth_error *err);
// Whether a part has all bytes that its tensors need.
HT_MUST_CHECK enum hearth_status ht_gguf_part_is_whole(const struct gguf_part *part,
                                                       struct hearth_error *err);

const struct ht_gguf_kv *ht_gguf_part_find(const struct gguf_part *part, const char *key);
// As ht_gguf_get_u32, on one part, without the file's name in the sentence.
HT_MUST_CHECK enum hearth_status ht_gguf_part_get_u32(const struct gguf_part *part, const char *key,
                                                      bool required, uint32_t *out,
                                                      struct hearth_error *err);

// Says what bytes that are no GGUF file seem to be. Never returns OK.
enum hearth_status ht_gguf_refuse_alien(const uint8_t *data, size_t len, struct hearth_error *err);

uint32_t ht_gguf_type_bytes(enum ht_gguf_type t); // 0: of no fixed size
// Bytes of a tensor; false where the format has no such row or a product overflows.
HT_MUST_CHECK bool ht_gguf_tensor_bytes(enum ht_format f, const uint64_t ne[4], uint64_t *out);
// True for 1 to max bytes of UTF-8 without control characters: what keys and names may be.
bool ht_gguf_name_ok(const char *s, size_t n, size_t max);

#endif
