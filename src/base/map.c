// SPDX-License-Identifier: MIT
// Read-only mappings of whole files.
#include "base/map.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

static enum hearth_status fail_open(struct hearth_error *err, const char *path, int code) {
    switch (code) {
    case ENOENT: return ht_fail(err, HEARTH_E_IO, "%s: there is no such file", path);
    case ENOTDIR:
        return ht_fail(err, HEARTH_E_IO, "%s: a part of the path is not a directory", path);
    case EACCES:
    case EPERM: return ht_fail(err, HEARTH_E_IO, "%s: no permission to read this file", path);
    default: {
        char text[128];
        return ht_fail(err, HEARTH_E_IO, "%s: cannot be opened: %s", path,
                       strerror_r(code, text, sizeof text)); // the GNU one: _GNU_SOURCE is set
    }
    }
}

static enum hearth_status map_fd(const char *path, int fd, struct ht_map *out,
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
    size_t len = (size_t)st.st_size;
    if (len == 0) { // an empty mapping does not exist
        *out = (struct ht_map){0};
        return HEARTH_OK;
    }
    void *p = mmap(NULL, len, PROT_READ, MAP_SHARED, fd, 0);
    if (p == MAP_FAILED) {
        char text[128];
        return ht_fail(err, HEARTH_E_IO, "%s: %zu bytes cannot be mapped: %s", path, len,
                       strerror_r(errno, text, sizeof text));
    }
    // Only advice, and before the first touch: file systems without large pages refuse it.
    madvise(p, len, MADV_HUGEPAGE);
    *out = (struct ht_map){.data = p, .len = len};
    return HEARTH_OK;
}

enum hearth_status ht_map_open(const char *path, struct ht_map *out, struct hearth_error *err) {
    // O_NONBLOCK: a pipe without a writer is refused below instead of waited for.
    int fd;
    do { fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK); } while (fd < 0 && errno == EINTR);
    if (fd < 0) return fail_open(err, path, errno);
    enum hearth_status s = map_fd(path, fd, out, err);
    close(fd); // the mapping keeps the file
    return s;
}

void ht_map_close(struct ht_map *m) {
    if (m->data) munmap((void *)(uintptr_t)m->data, m->len);
    *m = (struct ht_map){0};
}

void ht_map_will_need(const struct ht_map *m, size_t offset, size_t n) {
    if (offset >= m->len) return;
    if (n > m->len - offset) n = m->len - offset;
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    size_t begin = offset - offset % page; // data itself lies on a page
    madvise((void *)(uintptr_t)(m->data + begin), offset - begin + n, MADV_WILLNEED);
}
