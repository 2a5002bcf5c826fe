// SPDX-License-Identifier: MIT
// Opens GGUF files: one file, bytes of the caller, or all parts of a split model. Owns the mappings
// and the arena; an open file is immutable and may be read from any thread.
#include <stdio.h>
#include <string.h>

#include "base/checked.h"
#include "base/mem.h"
#include "gguf/internal.h"

struct how {
    uint64_t *left; // bytes of memory that copies of parts may still take; NULL: they are mapped
    bool head;      // tensors may be cut short
};

// Opens path into *part. The file's name stands in front of every sentence about its content.
static enum hearth_status open_part(struct ht_gguf *g, const char *path, const struct how *how,
                                    struct gguf_part *part, struct hearth_error *err) {
    struct ht_arena *a = &g->arena;
    enum hearth_status s = how->left ? ht_map_copy(path, how->left, &part->map, err)
                                     : ht_map_open(path, &part->map, err);
    if (s) return s;
    part->data = part->map.data;
    part->len = part->map.len;
    part->name = ht_arena_strndup(a, path, strlen(path));
    if (!part->name) return ht_fail_nomem(err, strlen(path) + 1, "names");
    s = ht_gguf_parse_part(a, part, how->head, err);
    return s ? ht_fail_in(err, s, "%s", path) : HEARTH_OK;
}

// "model-00002-of-00003.gguf" for no = 1 (from 0), count = 3.
#define SPLIT_SUFFIX_FORMAT "-%05u-of-%05u.gguf"
#define SPLIT_SUFFIX_BYTES  40

static size_t split_suffix(char out[SPLIT_SUFFIX_BYTES], uint32_t no, uint32_t count) {
    return (size_t)snprintf(out, SPLIT_SUFFIX_BYTES, SPLIT_SUFFIX_FORMAT, no + 1, count);
}

bool ht_gguf_names_part(const char *path) {
    char suffix[SPLIT_SUFFIX_BYTES];
    size_t len = strlen(path), n = split_suffix(suffix, 0, 1); // of five digits each, as most are
    unsigned no = 0, count = 0;
    if (len < n || sscanf(path + len - n, "-%5u-of-%5u.gguf", &no, &count) != 2) return false;
    if (no < 1 || no > count || count < 2 || count > 65535) return false;
    split_suffix(suffix, no - 1, count);
    return strcmp(path + len - n, suffix) == 0;
}

// Reads split.no and split.count of a part; *count is 1 for a file that is not split.
static enum hearth_status split_numbers(const struct gguf_part *part, uint32_t *no, uint32_t *count,
                                        struct hearth_error *err) {
    uint32_t n = 1, i = 0;
    enum hearth_status s = ht_gguf_part_get_u32(part, "split.count", false, &n, err);
    if (!s) s = ht_gguf_part_get_u32(part, "split.no", n > 1, &i, err);
    if (s) return ht_fail_in(err, s, "%s", part->name);
    if (n > 65535) {
        return ht_fail(err, HEARTH_E_FORMAT, "%s: split.count is %u, at most 65535 was expected",
                       part->name, n);
    }
    if (n > 1 && i >= n) {
        return ht_fail(err, HEARTH_E_FORMAT,
                       "%s: split.no is %u, 0 to %u were expected (split.count is %u)", part->name,
                       i, n - 1, n);
    }
    *no = i;
    *count = n > 1 ? n : 1;
    return HEARTH_OK;
}

// Opens part `no` beside a part whose name without its suffix is the first n_stem bytes of path.
static enum hearth_status open_sibling(struct ht_gguf *g, const char *path, size_t n_stem,
                                       uint32_t no, uint32_t count, const struct how *how,
                                       struct hearth_error *err) {
    char suffix[SPLIT_SUFFIX_BYTES];
    size_t n_suffix = split_suffix(suffix, no, count);
    char *name = ht_arena_alloc(&g->arena, n_stem + n_suffix + 1, 1);
    if (!name) return ht_fail_nomem(err, n_stem + n_suffix + 1, "names");
    memcpy(name, path, n_stem);
    memcpy(name + n_stem, suffix, n_suffix + 1);
    struct gguf_part *part = &g->parts[no];
    enum hearth_status s = open_part(g, name, how, part, err);
    if (s) { return ht_fail_in(err, s, "part %u of %u of a split model", no + 1, count); }
    uint32_t its_no, its_count;
    s = split_numbers(part, &its_no, &its_count, err);
    if (s) return s;
    if (its_no != no || its_count != count) {
        return ht_fail(err, HEARTH_E_FORMAT,
                       "%s: its metadata says part %u of %u, its name says part %u of %u", name,
                       its_no + 1, its_count, no + 1, count);
    }
    return HEARTH_OK;
}

// parts[0] holds the part that was named; opens the others where it is one of several.
static enum hearth_status open_siblings(struct ht_gguf *g, const struct how *how,
                                        struct hearth_error *err) {
    uint32_t no, count;
    char suffix[SPLIT_SUFFIX_BYTES];
    struct gguf_part first = g->parts[0];
    enum hearth_status s = split_numbers(&first, &no, &count, err);
    if (s || count == 1) return s;
    size_t n_path = strlen(first.name), n_suffix = split_suffix(suffix, no, count);
    if (n_path <= n_suffix || strcmp(first.name + n_path - n_suffix, suffix) != 0) {
        return ht_fail(err, HEARTH_E_FORMAT,
                       "%s: its metadata says part %u of %u, so a name that ends in %s was "
                       "expected, to find the other parts by",
                       first.name, no + 1, count, suffix);
    }
    struct gguf_part *parts =
        ht_arena_array(&g->arena, count, sizeof(*parts), _Alignof(struct gguf_part));
    if (!parts) return ht_fail_nomem(err, count * sizeof(*parts), "the list of parts");
    parts[no] = first;
    g->parts = parts;
    g->n_parts = count;
    for (uint32_t i = 0; i < count && !s; i++) {
        if (i != no) s = open_sibling(g, first.name, n_path - n_suffix, i, count, how, err);
    }
    return s;
}

// Puts the tensors of all parts into one table with one index.
static enum hearth_status merge_tensors(struct ht_gguf *g, struct hearth_error *err) {
    char q[HT_QUOTE_BYTES];
    size_t n = 0, k = 0, dup;
    for (size_t i = 0; i < g->n_parts; i++) {
        const struct gguf_part *part = &g->parts[i];
        g->file_bytes += part->len;
        bool taken = part->map.data ? part->map.resident : ht_memory_is_taken(part->data);
        if (taken) g->taken_bytes += part->len; // no map: bytes of the caller
        if (!ht_add_size(n, g->parts[i].n_tensors, &n) || n > GGUF_MAX_TENSORS) {
            return ht_fail(err, HEARTH_E_FORMAT, "%s: has more than %u tensors", g->parts[0].name,
                           GGUF_MAX_TENSORS);
        }
    }
    const char **names = ht_arena_array(&g->arena, n + 1, sizeof(*names), _Alignof(const char *));
    g->tensors =
        ht_arena_array(&g->arena, n + 1, sizeof(*g->tensors), _Alignof(struct ht_gguf_tensor));
    if (!names || !g->tensors) return ht_fail_nomem(err, n * sizeof(*g->tensors), "tensor table");
    for (size_t i = 0; i < g->n_parts; i++) {
        for (size_t j = 0; j < g->parts[i].n_tensors; j++, k++) {
            g->tensors[k] = g->parts[i].tensors[j];
            g->tensors[k].part = (int)i;
            names[k] = g->tensors[k].name;
        }
    }
    g->n_tensors = n;
    if (ht_gguf_index_build(&g->arena, names, n, &g->tensor_index, &dup)) {
        return ht_fail_nomem(err, n * 8, "names");
    }
    if (dup == n) return HEARTH_OK;
    return ht_fail(err, HEARTH_E_FORMAT, "%s: tensor %s occurs twice",
                   g->parts[g->tensors[dup].part].name,
                   ht_quote(q, names[dup], strlen(names[dup])));
}

// A split model says in every part how many tensors all parts have.
static enum hearth_status check_split_count(const struct ht_gguf *g, struct hearth_error *err) {
    if (g->n_parts == 1) return HEARTH_OK;
    uint32_t n = (uint32_t)g->n_tensors;
    enum hearth_status s =
        ht_gguf_part_get_u32(&g->parts[0], "split.tensors.count", false, &n, err);
    if (s) return ht_fail_in(err, s, "%s", g->parts[0].name);
    if (n == g->n_tensors) return HEARTH_OK;
    return ht_fail(err, HEARTH_E_FORMAT,
                   "%s: split.tensors.count is %u, the %zu parts hold %zu tensors",
                   g->parts[0].name, n, g->n_parts, g->n_tensors);
}

static enum hearth_status create(struct ht_gguf **out, struct hearth_error *err) {
    struct ht_gguf *g = ht_calloc(1, sizeof(*g));
    if (!g) return ht_fail_nomem(err, sizeof(*g), "a file");
    g->parts = ht_arena_array(&g->arena, 1, sizeof(*g->parts), _Alignof(struct gguf_part));
    if (!g->parts) {
        ht_gguf_close(g);
        return ht_fail_nomem(err, sizeof(*g->parts), "a file");
    }
    g->n_parts = 1;
    *out = g;
    return HEARTH_OK;
}

static enum hearth_status open_path(const char *path, struct how how, struct ht_gguf **out,
                                    struct hearth_error *err) {
    struct ht_gguf *g = NULL;
    enum hearth_status s = create(&g, err);
    if (s) return s;
    s = open_part(g, path, &how, &g->parts[0], err);
    if (!s) s = open_siblings(g, &how, err);
    if (!s) s = merge_tensors(g, err);
    if (!s) s = check_split_count(g, err);
    if (s) {
        ht_gguf_close(g);
        return s;
    }
    *out = g;
    return HEARTH_OK;
}

enum hearth_status ht_gguf_open(const char *path, struct ht_gguf **out, struct hearth_error *err) {
    return open_path(path, (struct how){NULL, false}, out, err);
}

enum hearth_status ht_gguf_open_head(const char *path, struct ht_gguf **out,
                                     struct hearth_error *err) {
    return open_path(path, (struct how){NULL, true}, out, err);
}

enum hearth_status ht_gguf_is_whole(const struct ht_gguf *g, struct hearth_error *err) {
    for (size_t i = 0; i < g->n_parts; i++) {
        enum hearth_status s = ht_gguf_part_is_whole(&g->parts[i], err);
        if (s) return ht_fail_in(err, s, "%s", g->parts[i].name);
    }
    return HEARTH_OK;
}

enum hearth_status ht_gguf_open_copy(const char *path, uint64_t available, struct ht_gguf **out,
                                     struct hearth_error *err) {
    return open_path(path, (struct how){&available, false}, out, err);
}

static enum hearth_status open_bytes(struct ht_gguf *g, const void *data, size_t n_bytes,
                                     const char *name, struct hearth_error *err) {
    struct gguf_part *part = &g->parts[0];
    uint32_t no, count;
    part->data = data;
    part->len = n_bytes;
    part->name = ht_arena_strndup(&g->arena, name, strlen(name));
    if (!part->name) return ht_fail_nomem(err, strlen(name) + 1, "names");
    enum hearth_status s = ht_gguf_parse_part(&g->arena, part, false, err);
    if (s) return ht_fail_in(err, s, "%s", name);
    s = split_numbers(part, &no, &count, err);
    if (s) return s;
    if (count > 1) {
        return ht_fail(err, HEARTH_E_UNSUPPORTED,
                       "%s: is part %u of %u of a split model, which can be opened by path only",
                       name, no + 1, count);
    }
    return merge_tensors(g, err);
}

enum hearth_status ht_gguf_open_bytes(const void *data, size_t n_bytes, const char *name,
                                      struct ht_gguf **out, struct hearth_error *err) {
    struct ht_gguf *g = NULL;
    enum hearth_status s = create(&g, err);
    if (s) return s;
    s = open_bytes(g, data, n_bytes, name, err);
    if (s) {
        ht_gguf_close(g);
        return s;
    }
    *out = g;
    return HEARTH_OK;
}

void ht_gguf_close(struct ht_gguf *g) {
    if (!g) return;
    for (size_t i = 0; i < g->n_parts; i++) ht_map_close(&g->parts[i].map);
    ht_arena_deinit(&g->arena);
    ht_free(g);
}
