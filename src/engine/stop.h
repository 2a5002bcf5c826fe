// SPDX-License-Identifier: MIT
// Stop strings over streamed text. Text goes in piece by piece; what comes out is everything that
// can no longer be part of a stop string. Held back is exactly the longest end of the text that
// begins some stop string, so text is never late without need and never taken back. Pieces are
// whole UTF-8 characters, but for the last one (what the text's end left of a character), and stop
// strings are valid UTF-8, hence what comes out is whole too. One thread at a time; nothing
// allocates after init.
#ifndef HT_ENGINE_STOP_H
#define HT_ENGINE_STOP_H

#include "base/status.h"

struct ht_stop_string;
struct ht_stop {
    struct ht_stop_string *strings; // [n_strings]
    size_t n_strings;
    char *text; // [cap] what was taken (n_taken bytes), then what was not
    size_t n_text, n_taken, cap;
    size_t n_held;  // bytes at the end that may begin a stop string
    size_t n_match; // bytes at the end from the start of the stop string on, once matched
    bool matched;
};

// Copies the strings. max_piece_bytes: the longest single push; up to n_pushes of them may come
// between two takes. E_ARG for an empty string or one that is not UTF-8.
HT_MUST_CHECK enum hearth_status ht_stop_init(struct ht_stop *s, const char *const *strings,
                                              size_t n_strings, size_t max_piece_bytes,
                                              size_t n_pushes, struct hearth_error *err);
void ht_stop_deinit(struct ht_stop *s); // accepts a zeroed one

// Adds text. True once a stop string is complete; the rest of that piece is dropped, and so is
// everything pushed later. Of two strings complete at the same byte the longer one counts.
bool ht_stop_push(struct ht_stop *s, const char *text, size_t n_bytes);
// Whether [text, text + n_bytes) is a stop string.
bool ht_stop_is(const struct ht_stop *s, const char *text, size_t n_bytes);
// The text that is certain (all of it, held or not, if `all`), each byte once; valid until the next
// push. Never the stop string or what follows it.
void ht_stop_take(struct ht_stop *s, bool all, const char **text, size_t *n_bytes);

#endif
