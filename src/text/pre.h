// SPDX-License-Identifier: MIT
// The table of pre-tokenizers: one row a rule for cutting text into words, with the names that
// files give it.
#ifndef HT_TEXT_PRE_H
#define HT_TEXT_PRE_H

#include <stdbool.h>
#include <stddef.h>

enum { HT_PRE_MAX = 6, HT_PRE_NAMES = 10 };

// Rules that scan.c also knows by hand for ASCII; the patterns stay the specification.
enum ht_scan { HT_SCAN_NONE, HT_SCAN_GPT2, HT_SCAN_QWEN2, HT_SCAN_LLAMA3 };

struct ht_pre {
    const char *names[HT_PRE_NAMES];  // values of tokenizer.ggml.pre; NULL behind the last
    const char *patterns[HT_PRE_MAX]; // PCRE2; each cuts the pieces of the one before into matches
                                      // and what lies between
    bool nfc;                         // text is brought into NFC first
    bool ignore_merges;               // a word that is a token is taken whole
    bool add_bos;                     // where the file does not say
    bool covers;                      // one pattern, which matches at every position
    enum ht_scan scan;
};

const struct ht_pre *ht_pre_find(const char *name, size_t n); // NULL: unknown
const struct ht_pre *ht_pre_at(size_t i);                     // NULL behind the last
// All names, comma separated, into buf (0-terminated, cut where it is too small).
void ht_pre_list(char *buf, size_t n_buf);

// scan.c: the end of the word that begins at p < end, or NULL where a byte above 0x7f takes part in
// the decision.
const char *ht_scan_word(enum ht_scan scan, const char *p, const char *end);

#endif
