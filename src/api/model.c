// SPDX-License-Identifier: MIT
// hearth_model_*: a file, its tokenizer and its model in one handle. Immutable after open; any
// thread.
#include <string.h>

#include "api/api_internal.h"
#include "api/builtin.h"
#include "base/buf.h"
#include "base/float_env.h"
#include "base/mem.h"

enum hearth_status hearth_model_open_file(hearth_file *f, const struct hearth_log *log,
                                          hearth_model **out, struct hearth_error *err) {
    hearth_model *m = ht_calloc(1, sizeof *m);
    if (!m) return ht_fail_nomem(err, sizeof *m, "a model");
    struct ht_float_env kept = ht_float_enter();
    enum hearth_status s = ht_model_load(f->g, log, &m->model, err);
    if (!s) s = ht_tokenizer_load(f->g, log, &m->tokenizer.t, err);
    ht_float_leave(kept);
    if (s) {
        hearth_model_close(m); // f stays the caller's: it is not in m yet
        return s;
    }
    m->file = f;
    *out = m;
    return HEARTH_OK;
}

static enum hearth_status open_or_close(hearth_file *f, const struct hearth_log *log,
                                        hearth_model **out, struct hearth_error *err) {
    enum hearth_status s = hearth_model_open_file(f, log, out, err);
    if (s) hearth_file_close(f);
    return s;
}

enum hearth_status hearth_model_open(const char *path, const struct hearth_log *log,
                                     hearth_model **out, struct hearth_error *err) {
    hearth_file *f;
    enum hearth_status s = hearth_file_open(path, &f, err);
    return s ? s : open_or_close(f, log, out, err);
}

enum hearth_status hearth_model_open_builtin(const struct hearth_log *log, hearth_model **out,
                                             struct hearth_error *err) {
    size_t n_bytes;
    const void *data = ht_builtin_model(&n_bytes);
    if (!data)
        return ht_fail(err, HEARTH_E_UNSUPPORTED,
                       "this build of Hearth has no built-in model, expected the path of a GGUF "
                       "file");
    hearth_file *f;
    enum hearth_status s = hearth_file_open_bytes(data, n_bytes, "(built-in model)", &f, err);
    return s ? s : open_or_close(f, log, out, err);
}

void hearth_model_close(hearth_model *m) {
    if (!m) return;
    ht_tokenizer_free(m->tokenizer.t);
    ht_model_free(m->model);
    hearth_file_close(m->file);
    ht_free(m);
}

const hearth_file *hearth_model_file(const hearth_model *m) {
    return m->file;
}

const hearth_tokenizer *hearth_model_tokenizer(const hearth_model *m) {
    return m->tokenizer.t ? &m->tokenizer : NULL;
}

void hearth_model_get_info(const hearth_model *m, struct hearth_model_info *out) {
    ht_model_get_info(m->model, out);
}

enum hearth_status hearth_model_write_plan(const hearth_model *m, hearth_write_fn fn, void *user) {
    struct ht_buf text;
    ht_buf_init(&text, (size_t)1 << 30);
    enum hearth_status s = HEARTH_OK;
    struct ht_float_env kept = ht_float_enter(); // printf rounds as it says
    if (!ht_plan_print(ht_model_plan(m->model), &text)) s = HEARTH_E_NOMEM;
    ht_float_leave(kept);
    for (size_t i = 0; !s && i < text.len;) { // a line at a time
        const char *end = memchr(text.data + i, '\n', text.len - i);
        size_t n = end ? (size_t)(end + 1 - text.data) - i : text.len - i;
        if (!fn(user, text.data + i, n)) s = HEARTH_E_CANCELLED;
        i += n;
    }
    ht_buf_deinit(&text);
    return s;
}

const char *hearth_architectures(void) {
    return ht_model_architectures();
}
