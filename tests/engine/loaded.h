// SPDX-License-Identifier: MIT
// The tiny model of tiny.h, loaded: what an engine's source is made of.
#ifndef HT_TESTS_ENGINE_LOADED_H
#define HT_TESTS_ENGINE_LOADED_H

#include <stdlib.h>
#include <unistd.h>

#include "cmocka_all.h"
#include "model/model.h"
#include "tiny.h"

struct loaded {
    struct ht_gguf *file;
    struct ht_model *model;
};

static inline struct loaded loaded_open(enum ht_format format) {
    char path[] = "/tmp/hearth-loaded-XXXXXX";
    struct hearth_error err;
    struct loaded l = {NULL, NULL};
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    close(fd);
    tiny_write(path, format);
    enum hearth_status s = ht_gguf_open(path, &l.file, &err);
    if (!s) s = ht_model_load(l.file, NULL, &l.model, &err);
    unlink(path);
    if (s) fail_msg("%s", err.message);
    return l;
}

static inline void loaded_close(struct loaded *l) {
    ht_model_free(l->model);
    ht_gguf_close(l->file);
}

#endif
