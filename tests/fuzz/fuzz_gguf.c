// SPDX-License-Identifier: MIT
// Whatever the bytes are, opening either fails with a sentence or gives a file whose every value
// can be read and whose every tensor lies inside the bytes. A head opens where the whole does, and
// where that is only cut short.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "gguf/gguf.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

static void expect(bool ok) {
    if (!ok) abort();
}

static uint64_t sum_bytes(const void *p, size_t n) {
    const volatile uint8_t *b = p;
    uint64_t sum = 0;
    for (size_t i = 0; i < n; i++) sum += b[i];
    return sum;
}

static void read_kv(const struct ht_gguf *g, const struct ht_gguf_kv *kv) {
    struct hearth_error err;
    struct ht_str s = {NULL, 0};
    uint32_t u;
    float f;
    bool b;
    expect(ht_gguf_find(g, kv->key) == kv);
    sum_bytes(kv->value, (size_t)kv->n_bytes);
    if (kv->arr_type == HT_GGUF_STR) {
        const uint8_t *cursor = NULL;
        uint64_t n = 0;
        while (ht_gguf_next_str(kv, &cursor, &s)) {
            sum_bytes(s.data, s.len);
            n++;
        }
        expect(n == kv->n);
    } else if (kv->arr_type != HT_GGUF_BOOL) {
        for (uint64_t i = 0; i < kv->n; i++) (void)ht_gguf_num_at(kv, i);
    }
    enum hearth_status got[4] = {
        ht_gguf_get_u32(g, kv->key, true, &u, &err), ht_gguf_get_f32(g, kv->key, true, &f, &err),
        ht_gguf_get_bool(g, kv->key, true, &b, &err), ht_gguf_get_str(g, kv->key, true, &s, &err)};
    expect((got[3] == HEARTH_OK) == (kv->type == HT_GGUF_STR));
    expect((got[2] == HEARTH_OK) == (kv->type == HT_GGUF_BOOL));
    expect(got[0] != HEARTH_OK || ht_gguf_is_int(kv->type));
}

// The same bytes as a file that may be cut short behind its tensor table.
static void read_head(const uint8_t *data, size_t n, bool opens) {
    static int fd = -1;
    char path[40];
    struct hearth_error err = {HEARTH_OK, ""};
    struct ht_gguf *g = NULL;
    if (fd < 0) fd = memfd_create("input", MFD_CLOEXEC);
    expect(fd >= 0 && ftruncate(fd, 0) == 0 && pwrite(fd, data, n, 0) == (ssize_t)n);
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    if (ht_gguf_open_head(path, &g, &err)) {
        expect(!g && !opens && err.message[0]);
        return;
    }
    bool whole = ht_gguf_is_whole(g, &err) == HEARTH_OK;
    expect(whole == opens && (whole || err.status == HEARTH_E_FORMAT));
    for (size_t i = 0; i < ht_gguf_n_kv(g); i++) read_kv(g, ht_gguf_kv_at(g, i));
    for (size_t i = 0; i < ht_gguf_n_tensors(g); i++) {
        const struct ht_gguf_tensor *t = ht_gguf_tensor_at(g, i);
        expect(ht_gguf_find_tensor(g, t->name) == t && (t->data != NULL) == whole);
    }
    ht_gguf_close(g);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n) {
    struct hearth_error err = {HEARTH_OK, ""};
    struct ht_gguf *g = NULL;
    enum hearth_status s = ht_gguf_open_bytes(data, n, "input", &g, &err);
    read_head(data, n, s == HEARTH_OK);
    if (s) {
        expect(!g && err.status == s && strncmp(err.message, "input", 5) == 0);
        return 0;
    }
    for (size_t i = 0; i < ht_gguf_n_kv(g); i++) read_kv(g, ht_gguf_kv_at(g, i));
    for (size_t i = 0; i < ht_gguf_n_tensors(g); i++) {
        const struct ht_gguf_tensor *t = ht_gguf_tensor_at(g, i);
        expect(ht_gguf_find_tensor(g, t->name) == t && t->n_dims >= 1 && t->n_dims <= 4);
        expect(t->data >= data && t->offset <= n && t->n_bytes <= n - t->offset);
        sum_bytes(t->data, (size_t)t->n_bytes);
    }
    expect(!ht_gguf_find(g, "\n") && ht_gguf_file_bytes(g) == n);
    ht_gguf_close(g);
    return 0;
}
