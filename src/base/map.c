// SPDX-License-Identifier: MIT
// Read-only mappings of whole files, and copies of them.
#include "base/map.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/text_file.h"

static const char *why(int code, char text[128]) {
    return ht_error_text(code, text, 128);
}

static enum hearth_status fail_open(struct hearth_error *err, const char *path, int code) {
    switch (code) {
    case ENOENT:
        if (!*path) return ht_fail(err, HEARTH_E_IO, "the name of the file is empty");
        return ht_fail(err, HEARTH_E_IO, "%s: there is no such file", path);
    case ENOTDIR:
        return ht_fail(err, HEARTH_E_IO, "%s: a part of the path is not a directory", path);
    case EACCES:
    case EPERM: return ht_fail(err, HEARTH_E_IO, "%s: no permission to read this file", path);
    default: {
        char text[128];
        return ht_fail(err, HEARTH_E_IO, "%s: cannot be opened: %s", path, why(code, text));
    }
    }
}

static enum hearth_status length_of(const char *path, int fd, size_t *len,
                                    struct hearth_error *err) {
    struct stat st;
    if (fstat(fd, &st) != 0) return fail_open(err, path, errno);
    if (S_ISDIR(st.st_mode))
        return ht_fail(err, HEARTH_E_IO, "%s: is a directory, expected a file", path);
    if (!S_ISREG(st.st_mode))
        return ht_fail(err, HEARTH_E_IO, "%s: is not a regular file (a pipe, socket or device)",
                       path);
    if ((uintmax_t)st.st_size > SIZE_MAX)
        return ht_fail(err, HEARTH_E_IO, "%s: %jd bytes do not fit this system's addresses", path,
                       (intmax_t)st.st_size);
    *len = (size_t)st.st_size;
    return HEARTH_OK;
}

// Is memory all that the file system has? Numbers of linux/magic.h.
static bool is_memory(const struct statfs *fs) {
    switch ((uint32_t)fs->f_type) {
    case 0x01021994: // tmpfs
    case 0x858458f6: // ramfs
    case 0x958458f6: // hugetlbfs
        return true;
    default: return false;
    }
}

static enum hearth_status map_fd(const char *path, int fd, size_t len, struct ht_map *out,
                                 struct hearth_error *err) {
    char text[128];
    void *p = mmap(NULL, len, PROT_READ, MAP_SHARED, fd, 0);
    if (p == MAP_FAILED && errno == ENODEV) // some network and user-space file systems
        p = mmap(NULL, len, PROT_READ, MAP_PRIVATE, fd, 0);
    int code = errno;
    if (p == MAP_FAILED)
        return ht_fail(err, code == ENOMEM ? HEARTH_E_NOMEM : HEARTH_E_IO,
                       "%s: %zu bytes cannot be mapped: %s%s", path, len, why(code, text),
                       code == ENOMEM ? "" : "; to be read instead: --no-mmap of run, bench, eval");
    // Only advice, and before the first touch: file systems without large pages refuse it.
    ht_pages_prefer_large(p, len);
    struct statfs fs;
    *out =
        (struct ht_map){.data = p, .len = len, .resident = fstatfs(fd, &fs) == 0 && is_memory(&fs)};
    return HEARTH_OK;
}

#define PIECE_BYTES ((size_t)64 << 20) // of one read, which may take a signal in between

static enum hearth_status copy_fd(const char *path, int fd, size_t len, uint64_t *left,
                                  struct ht_map *out, struct hearth_error *err) {
    char text[128];
    // A copy that does not fit would not be refused by the system, but end the process later.
    if (len > *left)
        return ht_fail(err, HEARTH_E_NOMEM,
                       "%s: a copy takes %zu bytes of memory, %" PRIu64 " are available", path, len,
                       *left);
    *left -= len;
    uint8_t *p = ht_pages_alloc(len);
    if (!p) return ht_fail_nomem(err, len, "a copy of the file");
    for (size_t at = 0; at < len;) {
        ssize_t n = read(fd, p + at, len - at < PIECE_BYTES ? len - at : PIECE_BYTES);
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0) {
            int code = errno;
            ht_pages_free(p, len);
            if (n == 0)
                return ht_fail(err, HEARTH_E_IO, "%s: ends after %zu bytes, %zu were expected",
                               path, at, len);
            return ht_fail(err, HEARTH_E_IO, "%s: cannot be read: %s", path, why(code, text));
        }
        at += (size_t)n;
    }
    mprotect(p, len, PROT_READ);
    *out = (struct ht_map){.data = p, .len = len, .copied = true, .resident = true};
    return HEARTH_OK;
}

// left: of a copy; NULL: mapped.
static enum hearth_status open_file(const char *path, uint64_t *left, struct ht_map *out,
                                    struct hearth_error *err) {
    // O_NONBLOCK: a pipe without a writer is refused below instead of waited for. A regular file
    // that somebody has a lease on (a file server) is waited for.
    int fd, flags = O_RDONLY | O_CLOEXEC | O_NONBLOCK;
    while ((fd = open(path, flags)) < 0 &&
           (errno == EINTR || (errno == EWOULDBLOCK && flags & O_NONBLOCK)))
        if (errno == EWOULDBLOCK) flags &= ~O_NONBLOCK;
    if (fd < 0) return fail_open(err, path, errno);
    size_t len = 0;
    enum hearth_status s = length_of(path, fd, &len, err);
    if (flags & O_NONBLOCK) (void)!fcntl(fd, F_SETFL, 0); // not for what is read, which may be late
    if (!s && len == 0)
        *out = (struct ht_map){0}; // an empty mapping does not exist
    else if (!s)
        s = left ? copy_fd(path, fd, len, left, out, err) : map_fd(path, fd, len, out, err);
    close(fd); // a mapping keeps the file
    return s;
}

enum hearth_status ht_map_open(const char *path, struct ht_map *out, struct hearth_error *err) {
    return open_file(path, NULL, out, err);
}

enum hearth_status ht_map_copy(const char *path, uint64_t *left, struct ht_map *out,
                               struct hearth_error *err) {
    return open_file(path, left, out, err);
}

void ht_map_close(struct ht_map *m) {
    void *p = (void *)(uintptr_t)m->data;
    if (m->copied)
        ht_pages_free(p, m->len);
    else if (p)
        munmap(p, m->len);
    *m = (struct ht_map){0};
}

bool ht_memory_is_taken(const void *p) {
    struct ht_lines lines;
    bool taken = true;
    ht_lines_open(&lines, "/proc/self/maps");
    for (const char *line; (line = ht_lines_next(&lines));) {
        uintmax_t begin, end, inode;
        int path = 0;
        if (sscanf(line, "%jx-%jx %*4s %*x %*x:%*x %ju %n", &begin, &end, &inode, &path) != 3 ||
            (uintptr_t)p < begin || (uintptr_t)p >= end)
            continue;
        struct statfs fs;
        taken = inode == 0 || statfs(line + path, &fs) != 0 || is_memory(&fs);
        break;
    }
    ht_lines_close(&lines);
    return taken;
}

bool ht_map_large_bytes(const struct ht_map *m, uint64_t *n) {
    struct ht_lines lines;
    uintptr_t at = (uintptr_t)m->data;
    bool inside = false, found = false;
    *n = 0;
    ht_lines_open(&lines, "/proc/self/smaps");
    for (const char *line; (line = ht_lines_next(&lines));) {
        uintmax_t begin, end, kib;
        if (sscanf(line, "%jx-%jx %*4s", &begin, &end) == 2) {
            inside = begin < at + m->len && end > at;
            found = found || inside;
        } else if (inside && (sscanf(line, "FilePmdMapped: %ju kB", &kib) == 1 ||
                              sscanf(line, "ShmemPmdMapped: %ju kB", &kib) == 1 ||
                              sscanf(line, "AnonHugePages: %ju kB", &kib) == 1)) {
            *n += kib * 1024;
        }
    }
    ht_lines_close(&lines);
    if (*n > m->len) *n = m->len; // the last page may reach beyond the file
    return found;
}
