// SPDX-License-Identifier: MIT
// Small text files, as the kernel shows them under /proc and /sys.
#ifndef HT_BASE_TEXT_FILE_H
#define HT_BASE_TEXT_FILE_H

#include <stdbool.h>
#include <stddef.h>

// Reads the file's first n_buf - 1 bytes at most, and ends them with a zero byte; false, and an
// empty text, if it cannot be read. Any thread.
bool ht_read_text(const char *path, char *buf, size_t n_buf);

#endif
