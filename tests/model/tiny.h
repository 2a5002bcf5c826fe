// SPDX-License-Identifier: MIT
// Tiny valid models of each architecture, written as GGUF files, with single keys and tensors
// edited, so that a test can spoil one thing at a time. 2 layers, width 32, 4 heads on 2, 96
// tokens; F32 weights drawn from a seed.
#ifndef HT_TESTS_TINY_H
#define HT_TESTS_TINY_H

#include "gguf/gguf.h"
#include "model/model.h"

enum tiny_edit_kind {
    TINY_END, // ends a list
    // Keys by full name ("llama.block_count"): set (added if there is none), or left out.
    TINY_U32,
    TINY_F32,
    TINY_STR,
    TINY_BOOL,
    TINY_DROP_KEY,
    // Tensors by full name: left out, another shape, another format, or added.
    TINY_DROP_TENSOR,
    TINY_SHAPE,
    TINY_FORMAT,
    TINY_ADD_TENSOR,
    TINY_FILL, // all elements are f
};

struct tiny_edit {
    enum tiny_edit_kind kind;
    const char *name;
    uint32_t u; // value, format
    float f;
    const char *s;
    int n_dims;
    uint64_t ne[3]; // file order: [0] is contiguous
};

#define TINY_N_ARCHS 8
extern const char *const tiny_archs[TINY_N_ARCHS];

// arch: one of tiny_archs. Fails the test on errors.
void tiny_write(const char *path, const char *arch, const struct tiny_edit *edits);
// A path for a file of this process in the temporary folder; valid until the next call.
const char *tiny_path(const char *name);
// Such a model, opened, of a file that is gone again. log may be NULL. Fails the test on errors.
void tiny_open(const char *arch, const struct tiny_edit *edits, const struct hearth_log *log,
               struct ht_gguf **file, struct ht_model **model);

#endif
