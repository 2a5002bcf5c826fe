// SPDX-License-Identifier: MIT
#include "base/text_file.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

bool ht_read_text(const char *path, char *buf, size_t n_buf) {
    size_t n = 0;
    ssize_t got = -1;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd >= 0) {
        do {
            got = read(fd, buf + n, n_buf - 1 - n);
            if (got > 0) n += (size_t)got;
        } while (got > 0 || (got < 0 && errno == EINTR));
        close(fd);
    }
    buf[n] = 0;
    return n > 0 || got == 0;
}

void ht_lines_open(struct ht_lines *l, const char *path) {
    l->fd = open(path, O_RDONLY | O_CLOEXEC);
    l->at = l->n = 0;
}

char *ht_lines_next(struct ht_lines *l) {
    for (;;) {
        char *begin = l->buf + l->at, *end = memchr(begin, '\n', l->n - l->at);
        if (end) {
            *end = 0;
            l->at = (size_t)(end - l->buf) + 1;
            return begin;
        }
        l->n -= l->at;
        memmove(l->buf, begin, l->n);
        l->at = 0;
        size_t room = sizeof l->buf - 1 - l->n;
        ssize_t got = l->fd >= 0 && room ? read(l->fd, l->buf + l->n, room) : 0;
        if (got < 0 && errno == EINTR) continue;
        if (got <= 0 && l->n == 0) return NULL;
        if (got <= 0) { // the last line, or one that is too long
            l->buf[l->n] = 0;
            l->at = l->n;
            return l->buf;
        }
        l->n += (size_t)got;
    }
}

void ht_lines_close(struct ht_lines *l) {
    if (l->fd >= 0) close(l->fd);
}
