// SPDX-License-Identifier: MIT
// Small text files, as the kernel shows them under /proc and /sys.
#ifndef HT_BASE_TEXT_FILE_H
#define HT_BASE_TEXT_FILE_H

#include <stdbool.h>
#include <stddef.h>

// Reads the file's first n_buf - 1 bytes at most, and ends them with a zero byte; false, and an
// empty text, if it cannot be read. Any thread.
bool ht_read_text(const char *path, char *buf, size_t n_buf);

// Lines of a longer one. One thread at a time; no heap, which fopen would take unseen.
struct ht_lines {
    int fd; // -1: the file cannot be opened, and has no lines
    size_t at, n;
    char buf[4096 + 256];
};
void ht_lines_open(struct ht_lines *l, const char *path);
// The next line, without its end, until the next call; NULL behind the last one. Of a line that is
// longer than buf the rest is one by itself.
char *ht_lines_next(struct ht_lines *l);
void ht_lines_close(struct ht_lines *l);

#endif
