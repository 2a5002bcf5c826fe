// SPDX-License-Identifier: MIT
#include "base/text_file.h"

#include <fcntl.h>
#include <unistd.h>

bool ht_read_text(const char *path, char *buf, size_t n_buf) {
    size_t n = 0;
    ssize_t got = -1;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd >= 0) {
        while ((got = read(fd, buf + n, n_buf - 1 - n)) > 0) n += (size_t)got;
        close(fd);
    }
    buf[n] = 0;
    return n > 0 || got == 0;
}
