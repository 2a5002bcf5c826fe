// SPDX-License-Identifier: MIT
// What a file that is not GGUF seems to be: the common accidents of downloading, each with a
// sentence that says what to do next. Looks at the first bytes only. No state; any thread.
#include <ctype.h>
#include <string.h>

#include "gguf/internal.h"

struct alien {
    const char *magic;
    size_t n;
    enum hearth_status status;
    const char *what;
};

static const struct alien aliens[] = {
    {"tjgg", 4, HEARTH_E_UNSUPPORTED,
     "is in the old GGML format 'ggjt' of 2023; convert the original model to GGUF"},
    {"lmgg", 4, HEARTH_E_UNSUPPORTED,
     "is in the old GGML format 'ggml' of 2023; convert the original model to GGUF"},
    {"fmgg", 4, HEARTH_E_UNSUPPORTED,
     "is in the old GGML format 'ggmf' of 2023; convert the original model to GGUF"},
    {"algg", 4, HEARTH_E_UNSUPPORTED, "is an old GGML adapter ('ggla'), not a GGUF model"},
    {"PK\x03\x04", 4, HEARTH_E_UNSUPPORTED,
     "is a zip archive (a PyTorch checkpoint, or a packed download), not a GGUF file; unpack or "
     "convert it"},
    {"\x1f\x8b", 2, HEARTH_E_UNSUPPORTED, "is gzip-compressed; unpack it first"},
    {"\x28\xb5\x2f\xfd", 4, HEARTH_E_UNSUPPORTED, "is zstd-compressed; unpack it first"},
    {"\xfd"
     "7zXZ",
     5, HEARTH_E_UNSUPPORTED, "is xz-compressed; unpack it first"},
    {"BZh", 3, HEARTH_E_UNSUPPORTED, "is bzip2-compressed; unpack it first"},
    {"7z\xbc\xaf", 4, HEARTH_E_UNSUPPORTED, "is a 7-zip archive; unpack it first"},
    {"\x80\x02", 2, HEARTH_E_UNSUPPORTED,
     "is a Python pickle (a PyTorch checkpoint), not a GGUF file; convert it"},
    {"\x80\x04", 2, HEARTH_E_UNSUPPORTED,
     "is a Python pickle (a PyTorch checkpoint), not a GGUF file; convert it"},
    {"\x7f"
     "ELF",
     4, HEARTH_E_FORMAT, "is a program, not a GGUF file"},
    {"\x89HDF", 4, HEARTH_E_UNSUPPORTED,
     "is an HDF5 file (a Keras model), not a GGUF file; convert it"},
};

// The text of a line, quoted, out of the first bytes.
static const char *first_line(char out[HT_QUOTE_BYTES], const uint8_t *data, size_t len) {
    size_t n = 0;
    while (n < len && n < 60 && data[n] != '\n' && data[n] != '\r') n++;
    return ht_quote(out, (const char *)data, n);
}

static bool looks_like_text(const uint8_t *data, size_t len) {
    size_t n = len < 64 ? len : 64;
    for (size_t i = 0; i < n; i++) {
        if (data[i] < 0x20 && !isspace(data[i])) return false;
        if (data[i] >= 0x7f) return false;
    }
    return true;
}

static bool is_safetensors(const uint8_t *data, size_t len) {
    uint64_t n_header;
    if (len < 16 || data[8] != '{') return false;
    memcpy(&n_header, data, sizeof(n_header));
    return n_header >= 2 && n_header < (uint64_t)100 << 20;
}

// git-lfs pointers are three lines; the third is "size N".
static enum hearth_status refuse_lfs(const uint8_t *data, size_t len, struct hearth_error *err) {
    size_t n = len < 1024 ? len : 1024, digits = 0;
    const uint8_t *size = memmem(data, n, "\nsize ", 6);
    if (size) {
        size += 6;
        while (size + digits < data + n && digits < 20 && isdigit(size[digits])) digits++;
    }
    return ht_fail(err, HEARTH_E_FORMAT,
                   "is a git-lfs pointer of %zu bytes in place of the model%s%.*s%s; fetch the "
                   "model itself (git lfs pull)",
                   len, digits ? " (" : "", (int)digits, digits ? (const char *)size : "",
                   digits ? " bytes)" : "");
}

enum hearth_status ht_gguf_refuse_alien(const uint8_t *data, size_t len, struct hearth_error *err) {
    char q[HT_QUOTE_BYTES];
    if (len == 0) return ht_fail(err, HEARTH_E_FORMAT, "is empty (0 bytes)");
    for (size_t i = 0; i < sizeof(aliens) / sizeof(aliens[0]); i++) {
        if (len >= aliens[i].n && memcmp(data, aliens[i].magic, aliens[i].n) == 0) {
            return ht_fail(err, aliens[i].status, "%s", aliens[i].what);
        }
    }
    if (len < 4 && memcmp(data, "GGUF", len) == 0)
        return ht_fail(
            err, HEARTH_E_FORMAT,
            "ends after %zu of the first four bytes 'GGUF'; finish or repeat the download", len);
    static const char lfs[] = "version https://git-lfs";
    if (len > sizeof(lfs) && memcmp(data, lfs, sizeof(lfs) - 1) == 0) {
        return refuse_lfs(data, len, err);
    }
    if (is_safetensors(data, len)) {
        return ht_fail(err, HEARTH_E_UNSUPPORTED,
                       "is a safetensors file, not a GGUF file; convert the model to GGUF");
    }
    size_t i = 0;
    if (len >= 3 && memcmp(data, "\xef\xbb\xbf", 3) == 0) i = 3; // a byte order mark
    while (i < len && i < 256 && isspace(data[i])) i++;
    if (i < len && data[i] == '<') {
        return ht_fail(err, HEARTH_E_FORMAT,
                       "is a web page (it starts with %s), not a model; the link led to a page "
                       "about the file or to a login: download the file itself",
                       first_line(q, data + i, len - i));
    }
    if (looks_like_text(data, len)) {
        return ht_fail(err, HEARTH_E_FORMAT,
                       "is text (it starts with %s), not a model; 'GGUF' was expected as its first "
                       "four bytes",
                       first_line(q, data, len));
    }
    for (i = 0; i < len && i < 4096 && data[i] == 0;) i++;
    if (i == len || i == 4096) {
        return ht_fail(err, HEARTH_E_FORMAT,
                       "starts with zeros only: a download that reserved the space and never "
                       "wrote it; download it again");
    }
    return ht_fail(err, HEARTH_E_FORMAT, "is not a GGUF file: its first bytes are %s, not 'GGUF'",
                   ht_quote(q, (const char *)data, len < 4 ? len : 4));
}
