// SPDX-License-Identifier: MIT
// What the public handles hold. The api room alone knows it: it turns the public functions into
// calls of the rooms.
#ifndef HT_API_API_INTERNAL_H
#define HT_API_API_INTERNAL_H

#include "gguf/gguf.h"
#include "model/model.h"
#include "text/tokenizer.h"

struct hearth_file {
    struct ht_gguf *g;
};

struct hearth_tokenizer {
    struct ht_tokenizer *t;
};

struct hearth_model {
    hearth_file *file;                 // owned; the others borrow from it
    struct hearth_tokenizer tokenizer; // owned; t is NULL where the file has no vocabulary
    struct ht_model *model;            // owned
};

#endif
