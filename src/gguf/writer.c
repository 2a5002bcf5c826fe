// SPDX-License-Identifier: MIT
// Writes GGUF version 3. Metadata is encoded as it comes; tensors are a list that borrows its data.
// The first failed call leaves its sentence in the writer, later calls do nothing, and finish
// reports it. finish writes path.tmp, syncs and renames, so that path never holds half a file. One
// thread at a time.
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <time.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/checked.h"
#include "base/mem.h"
#include "gguf/internal.h"

struct out_tensor {
    const char *name; // in the arena
    enum ht_format format;
    int n_dims;
    uint64_t ne[4], n_bytes;
    const void *data; // borrowed; NULL: fill makes the rows
    ht_gguf_fill_fn fill;
    void *user;
};

struct ht_gguf_writer {
    struct ht_arena arena;
    struct ht_buf meta; // encoded entries
    const char **keys;  // of the entries so far, to find one that comes twice
    size_t n_keys, cap_keys;
    struct out_tensor *tensors;
    size_t n_tensors, cap_tensors;
    uint64_t align;
    hearth_progress_fn progress; // or NULL
    void *user;
    struct hearth_error failure; // the first one; status OK: none
};

struct out_file { // being written
    const struct ht_gguf_writer *w;
    int fd;
    uint64_t done, total; // bytes of tensors
};

enum hearth_status ht_gguf_writer_create(struct ht_gguf_writer **out, struct hearth_error *err) {
    struct ht_gguf_writer *w = ht_calloc(1, sizeof(*w));
    if (!w) return ht_fail_nomem(err, sizeof(*w), "a writer");
    ht_buf_init(&w->meta, SIZE_MAX / 4);
    w->align = GGUF_DEFAULT_ALIGN;
    *out = w;
    return HEARTH_OK;
}

void ht_gguf_writer_destroy(struct ht_gguf_writer *w) {
    if (!w) return;
    ht_buf_deinit(&w->meta);
    ht_free(w->keys);
    ht_free(w->tensors);
    ht_arena_deinit(&w->arena);
    ht_free(w);
}

// ---- metadata

static void fail_nomem(struct ht_gguf_writer *w, size_t n_bytes) {
    (void)!ht_fail_nomem(&w->failure, n_bytes, "a file being written");
}

// Makes room for one more element of a list.
static bool grow(struct ht_gguf_writer *w, void **list, size_t n, size_t *cap, size_t size) {
    if (n < *cap) return true;
    size_t more = *cap ? *cap * 2 : 64;
    void *p = ht_realloc(*list, more, size);
    if (!p) {
        fail_nomem(w, more * size);
        return false;
    }
    *list = p;
    *cap = more;
    return true;
}

static void put_u32_raw(struct ht_gguf_writer *w, uint32_t v) {
    (void)ht_buf_append(&w->meta, &v, sizeof(v));
}

static void put_str_raw(struct ht_gguf_writer *w, const char *s, size_t len) {
    uint64_t n = len;
    (void)ht_buf_append(&w->meta, &n, sizeof(n));
    (void)ht_buf_append(&w->meta, s, len);
}

// Begins an entry; false once anything has failed.
static bool begin(struct ht_gguf_writer *w, const char *key, enum ht_gguf_type type) {
    char q[HT_QUOTE_BYTES];
    size_t len = strlen(key);
    if (w->failure.status) return false;
    if (!ht_gguf_name_ok(key, len, GGUF_MAX_KEY)) {
        ht_fail(&w->failure, HEARTH_E_ARG, "metadata key %s: 1 to %u bytes of text were expected",
                ht_quote(q, key, len), GGUF_MAX_KEY);
        return false;
    }
    if (w->n_keys == GGUF_MAX_KV) {
        ht_fail(&w->failure, HEARTH_E_LIMIT, "a file has at most %u metadata keys", GGUF_MAX_KV);
        return false;
    }
    const char *copy = ht_arena_strndup(&w->arena, key, len);
    if (!copy) {
        fail_nomem(w, len + 1);
        return false;
    }
    if (!grow(w, (void **)&w->keys, w->n_keys, &w->cap_keys, sizeof(*w->keys))) return false;
    w->keys[w->n_keys++] = copy;
    put_str_raw(w, key, len);
    put_u32_raw(w, (uint32_t)type);
    return true;
}

static void end(struct ht_gguf_writer *w) {
    if (w->meta.failed && !w->failure.status) fail_nomem(w, w->meta.len);
}

static void put_number(struct ht_gguf_writer *w, const char *key, enum ht_gguf_type type,
                       const void *v, size_t n_bytes) {
    if (!begin(w, key, type)) return;
    (void)ht_buf_append(&w->meta, v, n_bytes);
    end(w);
}

// The alignment that tensor data will have, when the caller sets it.
static void note_alignment(struct ht_gguf_writer *w, const char *key, uint64_t v) {
    if (w->failure.status || strcmp(key, "general.alignment") != 0) return;
    if (v < 8 || v > GGUF_MAX_ALIGN || (v & (v - 1)) != 0) {
        ht_fail(&w->failure, HEARTH_E_ARG,
                "general.alignment is %" PRIu64 ", a power of two from 8 to 2^30 was expected", v);
        return;
    }
    w->align = v;
}

void ht_gguf_put_u32(struct ht_gguf_writer *w, const char *key, uint32_t v) {
    put_number(w, key, HT_GGUF_U32, &v, sizeof(v));
    note_alignment(w, key, v);
}

void ht_gguf_put_u64(struct ht_gguf_writer *w, const char *key, uint64_t v) {
    put_number(w, key, HT_GGUF_U64, &v, sizeof(v));
    note_alignment(w, key, v);
}

void ht_gguf_put_i32(struct ht_gguf_writer *w, const char *key, int32_t v) {
    put_number(w, key, HT_GGUF_I32, &v, sizeof(v));
    note_alignment(w, key, v < 0 ? 0 : (uint64_t)v);
}

void ht_gguf_put_f32(struct ht_gguf_writer *w, const char *key, float v) {
    put_number(w, key, HT_GGUF_F32, &v, sizeof(v));
}

void ht_gguf_put_bool(struct ht_gguf_writer *w, const char *key, bool v) {
    uint8_t b = v ? 1 : 0;
    put_number(w, key, HT_GGUF_BOOL, &b, sizeof(b));
}

void ht_gguf_put_str(struct ht_gguf_writer *w, const char *key, const char *s, size_t len) {
    if (!begin(w, key, HT_GGUF_STR)) return;
    put_str_raw(w, s, len);
    end(w);
}

static void put_array_head(struct ht_gguf_writer *w, enum ht_gguf_type type, uint64_t n) {
    put_u32_raw(w, (uint32_t)type);
    (void)ht_buf_append(&w->meta, &n, sizeof(n));
}

void ht_gguf_put_str_array(struct ht_gguf_writer *w, const char *key, const struct ht_str *s,
                           size_t n) {
    if (!begin(w, key, HT_GGUF_ARR)) return;
    put_array_head(w, HT_GGUF_STR, n);
    for (size_t i = 0; i < n; i++) put_str_raw(w, s[i].data, s[i].len);
    end(w);
}

void ht_gguf_put_array(struct ht_gguf_writer *w, const char *key, enum ht_gguf_type type,
                       const void *data, size_t n) {
    size_t n_bytes;
    if (w->failure.status) return;
    if (type >= HT_GGUF_N_TYPES || !ht_gguf_type_bytes(type)) {
        ht_fail(&w->failure, HEARTH_E_ARG,
                "metadata key %s: numbers or bools were expected, not %s", key,
                ht_gguf_type_name(type));
        return;
    }
    if (!ht_mul_size(n, ht_gguf_type_bytes(type), &n_bytes)) {
        ht_fail(&w->failure, HEARTH_E_ARG, "metadata key %s: %zu elements are too many", key, n);
        return;
    }
    if (!begin(w, key, HT_GGUF_ARR)) return;
    put_array_head(w, type, n);
    (void)ht_buf_append(&w->meta, data, n_bytes);
    end(w);
}

void ht_gguf_put_kv(struct ht_gguf_writer *w, const struct ht_gguf_kv *kv) {
    if (!begin(w, kv->key, kv->type)) return;
    if (kv->type == HT_GGUF_ARR) put_array_head(w, kv->arr_type, kv->n);
    (void)ht_buf_append(&w->meta, kv->value, (size_t)kv->n_bytes);
    end(w);
    if (ht_gguf_is_int(kv->type)) note_alignment(w, kv->key, (uint64_t)ht_gguf_int_at(kv, 0));
}

// ---- tensors

static void add_tensor(struct ht_gguf_writer *w, const char *name, const uint64_t *ne,
                       struct out_tensor t) {
    char q[HT_QUOTE_BYTES];
    size_t len = strlen(name);
    enum ht_format format = t.format;
    int n_dims = t.n_dims;
    for (int d = 0; d < 4; d++) t.ne[d] = 1;
    if (w->failure.status) return;
    if (!ht_gguf_name_ok(name, len, GGUF_MAX_NAME)) {
        ht_fail(&w->failure, HEARTH_E_ARG, "tensor name %s: 1 to %u bytes of text were expected",
                ht_quote(q, name, len), GGUF_MAX_NAME);
        return;
    }
    bool good = n_dims >= 1 && n_dims <= 4 && w->n_tensors < GGUF_MAX_TENSORS;
    for (int d = 0; good && d < n_dims; d++) good = (t.ne[d] = ne[d]) != 0;
    const struct ht_format_info *fi = ht_format_get((uint32_t)format);
    if (!good || !fi || !ht_gguf_tensor_bytes(format, t.ne, &t.n_bytes)) {
        ht_fail(&w->failure, HEARTH_E_ARG,
                "tensor %s of %d dimensions, %" PRIu64 " x %" PRIu64 " x %" PRIu64 " x %" PRIu64
                ", cannot be in format %s",
                name, n_dims, t.ne[3], t.ne[2], t.ne[1], t.ne[0], fi ? fi->name : "(unknown)");
        return;
    }
    t.name = ht_arena_strndup(&w->arena, name, len);
    if (!t.name) {
        fail_nomem(w, len + 1);
        return;
    }
    if (!grow(w, (void **)&w->tensors, w->n_tensors, &w->cap_tensors, sizeof(t))) return;
    w->tensors[w->n_tensors++] = t;
}

void ht_gguf_put_tensor(struct ht_gguf_writer *w, const char *name, enum ht_format format,
                        int n_dims, const uint64_t *ne, const void *data) {
    add_tensor(w, name, ne, (struct out_tensor){.format = format, .n_dims = n_dims, .data = data});
}

void ht_gguf_put_rows(struct ht_gguf_writer *w, const char *name, enum ht_format format, int n_dims,
                      const uint64_t *ne, ht_gguf_fill_fn fill, void *user) {
    add_tensor(w, name, ne,
               (struct out_tensor){.format = format, .n_dims = n_dims, .fill = fill, .user = user});
}

// ---- finish

static enum hearth_status refuse_twice(struct ht_gguf_writer *w, const char *const *names, size_t n,
                                       const char *kind, struct hearth_error *err) {
    struct name_index ix;
    size_t dup;
    if (ht_gguf_index_build(&w->arena, names, n, &ix, &dup)) {
        return ht_fail_nomem(err, n * 8, "names");
    }
    if (dup == n) return HEARTH_OK;
    return ht_fail(err, HEARTH_E_ARG, "%s %s was given twice", kind, names[dup]);
}

static enum hearth_status check_names(struct ht_gguf_writer *w, struct hearth_error *err) {
    enum hearth_status s = refuse_twice(w, w->keys, w->n_keys, "metadata key", err);
    if (s) return s;
    size_t n = w->n_tensors;
    const char **names = ht_arena_array(&w->arena, n + 1, sizeof(*names), sizeof(void *));
    if (!names) return ht_fail_nomem(err, n * sizeof(*names), "names");
    for (size_t i = 0; i < n; i++) names[i] = w->tensors[i].name;
    return refuse_twice(w, names, n, "tensor", err);
}

static size_t padding(const struct ht_gguf_writer *w, uint64_t n) {
    return (size_t)(-n & (w->align - 1));
}

// Header, metadata and tensor table.
static enum hearth_status encode_head(const struct ht_gguf_writer *w, struct ht_buf *b,
                                      struct hearth_error *err) {
    uint32_t version = GGUF_VERSION;
    uint64_t counts[2] = {w->n_tensors, w->n_keys}, offset = 0;
    (void)ht_buf_append(b, "GGUF", 4);
    (void)ht_buf_append(b, &version, sizeof(version));
    (void)ht_buf_append(b, counts, sizeof(counts));
    (void)ht_buf_append(b, w->meta.data, w->meta.len);
    for (size_t i = 0; i < w->n_tensors; i++) {
        const struct out_tensor *t = &w->tensors[i];
        uint64_t len = strlen(t->name), padded;
        uint32_t n_dims = (uint32_t)t->n_dims, format = (uint32_t)t->format;
        (void)ht_buf_append(b, &len, sizeof(len));
        (void)ht_buf_append(b, t->name, (size_t)len);
        (void)ht_buf_append(b, &n_dims, sizeof(n_dims));
        (void)ht_buf_append(b, t->ne, n_dims * sizeof(t->ne[0]));
        (void)ht_buf_append(b, &format, sizeof(format));
        (void)ht_buf_append(b, &offset, sizeof(offset));
        if (!ht_add_u64(t->n_bytes, padding(w, t->n_bytes), &padded) ||
            !ht_add_u64(offset, padded, &offset) || offset > INT64_MAX) {
            return ht_fail(err, HEARTH_E_ARG, "tensor %s makes the file larger than any", t->name);
        }
    }
    return b->failed ? ht_fail_nomem(err, b->len, "the head of a file") : HEARTH_OK;
}

static bool write_all(int fd, const void *data, uint64_t n_bytes) {
    const uint8_t *p = data;
    while (n_bytes) {
        size_t n = n_bytes < 1u << 30 ? (size_t)n_bytes : 1u << 30;
        ssize_t got = write(fd, p, n);
        if (got < 0 && errno == EINTR) continue;
        if (got <= 0) return false;
        p += got;
        n_bytes -= (uint64_t)got;
    }
    return true;
}

static bool write_zeros(int fd, size_t n) {
    static const uint8_t zeros[512];
    for (; n > sizeof(zeros); n -= sizeof(zeros)) {
        if (!write_all(fd, zeros, sizeof(zeros))) return false;
    }
    return write_all(fd, zeros, n);
}

static uint64_t tensor_rows(const struct out_tensor *t) {
    return t->ne[1] * t->ne[2] * t->ne[3];
}

// Rows that are made at once: as many as fit the window's size, at least one.
static uint64_t window_rows(const struct out_tensor *t) {
    uint64_t row_bytes = t->n_bytes / tensor_rows(t);
    uint64_t n = row_bytes ? ((uint64_t)1 << 20) / row_bytes : 1;
    return n == 0 ? 1 : n < tensor_rows(t) ? n : tensor_rows(t);
}

// The bytes of the largest window; 0 where no tensor has its rows made.
static uint64_t window_bytes(const struct ht_gguf_writer *w) {
    uint64_t most = 0;
    for (size_t i = 0; i < w->n_tensors; i++) {
        const struct out_tensor *t = &w->tensors[i];
        uint64_t n = t->fill ? window_rows(t) * (t->n_bytes / tensor_rows(t)) : 0;
        if (n > most) most = n;
    }
    return most;
}

static enum hearth_status tell(const struct out_file *f, struct hearth_error *err) {
    if (!f->w->progress || f->w->progress(f->w->user, f->done, f->total)) return HEARTH_OK;
    return ht_fail(err, HEARTH_E_CANCELLED, "writing was cancelled");
}

// A few megabytes of a tensor. E_IO: errno says what.
static enum hearth_status write_piece(struct out_file *f, const void *data, uint64_t n_bytes,
                                      struct hearth_error *err) {
    if (!write_all(f->fd, data, n_bytes)) return HEARTH_E_IO;
    f->done += n_bytes;
    return tell(f, err);
}

static enum hearth_status write_data(struct out_file *f, const struct out_tensor *t,
                                     struct hearth_error *err) {
    const uint64_t most = 4 << 20;
    enum hearth_status s = HEARTH_OK;
    for (uint64_t at = 0; at < t->n_bytes && !s; at += most) {
        uint64_t n = t->n_bytes - at < most ? t->n_bytes - at : most;
        s = write_piece(f, (const uint8_t *)t->data + at, n, err);
    }
    return s;
}

static enum hearth_status write_rows(struct out_file *f, const struct out_tensor *t, void *window,
                                     struct hearth_error *err) {
    uint64_t n_rows = tensor_rows(t), step = window_rows(t), row_bytes = t->n_bytes / n_rows;
    for (uint64_t r = 0; r < n_rows; r += step) {
        uint64_t n = n_rows - r < step ? n_rows - r : step;
        enum hearth_status s = t->fill(t->user, r, n, window, err);
        if (!s) s = write_piece(f, window, n * row_bytes, err);
        if (s) return s;
    }
    return HEARTH_OK;
}

static enum hearth_status write_content(const struct ht_gguf_writer *w, const struct ht_buf *head,
                                        void *window, int fd, struct hearth_error *err) {
    struct out_file f = {.w = w, .fd = fd};
    for (size_t i = 0; i < w->n_tensors; i++) f.total += w->tensors[i].n_bytes;
    if (!write_all(fd, head->data, head->len)) return HEARTH_E_IO;
    if (w->n_tensors && !write_zeros(fd, padding(w, head->len))) return HEARTH_E_IO;
    for (size_t i = 0; i < w->n_tensors; i++) {
        const struct out_tensor *t = &w->tensors[i];
        enum hearth_status s = t->fill ? write_rows(&f, t, window, err) : write_data(&f, t, err);
        if (s) return s;
        if (!write_zeros(fd, padding(w, t->n_bytes))) return HEARTH_E_IO;
    }
    while (fsync(fd) != 0)
        if (errno != EINTR) return HEARTH_E_IO;
    return tell(&f, err); // that took its time, too
}

static enum hearth_status fail_io(struct hearth_error *err, const char *path, const char *what,
                                  int code) {
    char text[128];
    return ht_fail(err, HEARTH_E_IO, "%s: %s: %s", path, what,
                   ht_error_text(code, text, sizeof(text)));
}

// Makes the rename itself last; a file system that cannot sync a directory is not an error.
static void sync_folder(const char *path) {
    char folder[4096];
    const char *slash = strrchr(path, '/');
    size_t n = slash ? (size_t)(slash - path) : 0;
    if (n >= sizeof(folder)) return;
    memcpy(folder, path, n);
    folder[n] = 0;
    int fd = open(!slash ? "." : n ? folder : "/", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0) return;
    (void)!fsync(fd);
    close(fd);
}

// Who may do what with the file at path, which this one will take the place of. What cannot be kept
// is given to nobody: another group has not the rights of that one, and where there is a list (ACL)
// the group's bits are what all of the list may have at most.
static void keep_rights(int fd, const char *path, const struct stat *there) {
    static const char list[] = "system.posix_acl_access";
    char acl[4096];
    struct stat own;
    mode_t mode = there->st_mode & 0777;
    bool kept = fchown(fd, there->st_uid, there->st_gid) == 0 || // for root alone
                fchown(fd, (uid_t)-1, there->st_gid) == 0;
    if (!kept) kept = fstat(fd, &own) == 0 && own.st_gid == there->st_gid;
    ssize_t n = getxattr(path, list, acl, sizeof acl);
    if (n > 0 || (n < 0 && errno == ERANGE))
        kept = kept && n > 0 && fsetxattr(fd, list, acl, (size_t)n, 0) == 0;
    if (!kept) mode &= ~(mode_t)070;
    (void)!fchmod(fd, mode); // not all file systems have modes
}

static int create_file(const char *tmp, bool replaces) {
    int fd; // of what replaces a file, nobody has any rights before it has that one's
    while ((fd = open(tmp, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, replaces ? 0600 : 0666)) < 0 &&
           errno == EINTR) {}
    return fd;
}

static enum hearth_status write_file(const struct ht_gguf_writer *w, const struct ht_buf *head,
                                     void *window, const char *path, const char *tmp,
                                     struct hearth_error *err) {
    struct stat there; // a device, a link or a folder is not what a file may take the place of
    bool replaces = lstat(path, &there) == 0;
    if (replaces && !S_ISREG(there.st_mode))
        return ht_fail(err, HEARTH_E_IO, "%s: is there already and is %s", path,
                       S_ISLNK(there.st_mode) ? "a symbolic link; name the file itself"
                                              : "no regular file");
    int fd = create_file(tmp, replaces);
    if (fd < 0 && errno == EEXIST) // perhaps the very file that is being copied
        return ht_fail(err, HEARTH_E_IO,
                       "%s: is there already: it is the file to be copied, another run writes it, "
                       "or one that was stopped left it; choose another name, or move it away",
                       tmp);
    if (fd < 0) return fail_io(err, tmp, "cannot be created", errno);
    if (replaces) keep_rights(fd, path, &there);
    enum hearth_status s = write_content(w, head, window, fd, err);
    int code = errno;
    if (close(fd) != 0 && errno != EINTR && !s) { // interrupted, it is closed, and all was synced
        s = HEARTH_E_IO;
        code = errno;
    }
    if (s == HEARTH_E_IO) s = fail_io(err, tmp, "cannot be written", code);
    if (s) {
        unlink(tmp);
    } else if (rename(tmp, path) != 0) { // a mount point, somebody else's: the work is kept
        char text[128];
        s = ht_fail(err, HEARTH_E_IO, "%s: cannot be replaced: %s; the file is complete in %s",
                    path, ht_error_text(errno, text, sizeof text), tmp);
    } else {
        sync_folder(path);
    }
    return s;
}

// A file that becomes larger than the process may have it ends the write, not the process, whose
// handling of signals is its own: the signal waits, and is taken away.
static enum hearth_status write_quietly(const struct ht_gguf_writer *w, const struct ht_buf *head,
                                        void *window, const char *path, const char *tmp,
                                        struct hearth_error *err) {
    sigset_t set, old;
    sigemptyset(&set);
    sigaddset(&set, SIGXFSZ);
    pthread_sigmask(SIG_BLOCK, &set, &old);
    enum hearth_status s = write_file(w, head, window, path, tmp, err);
    if (!sigismember(&old, SIGXFSZ)) (void)!sigtimedwait(&set, NULL, &(struct timespec){0});
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    return s;
}

void ht_gguf_writer_watch(struct ht_gguf_writer *w, hearth_progress_fn fn, void *user) {
    w->progress = fn;
    w->user = user;
}

enum hearth_status ht_gguf_writer_finish(struct ht_gguf_writer *w, const char *path,
                                         struct hearth_error *err) {
    struct ht_buf head, tmp;
    if (w->failure.status) return ht_fail(err, w->failure.status, "%s", w->failure.message);
    enum hearth_status s = check_names(w, err);
    if (s) return s;
    ht_buf_init(&head, SIZE_MAX / 2);
    ht_buf_init(&tmp, 1 << 16);
    s = encode_head(w, &head, err);
    if (!s && !ht_buf_printf(&tmp, "%s.tmp", path)) s = ht_fail_nomem(err, 1 << 16, "a path");
    uint64_t n_window = window_bytes(w);
    void *window = ht_alloc((size_t)n_window);
    if (!s && !window) s = ht_fail_nomem(err, (size_t)n_window, "rows being written");
    if (!s) s = write_quietly(w, &head, window, path, tmp.data, err);
    ht_free(window);
    ht_buf_deinit(&tmp);
    ht_buf_deinit(&head);
    return s;
}
