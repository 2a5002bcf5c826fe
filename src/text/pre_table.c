// SPDX-License-Identifier: MIT
// The rows. The patterns are those of the models' own tokenizers, in PCRE2's syntax, with one
// difference: white space is spelled out as Unicode's White_Space (their \s), for PCRE2's \s counts
// U+180E as well. Possessive quantifiers stand where they cannot change a match.
#include <stdio.h>
#include <string.h>

#include "text/pre.h"

#define WS       "\\x{9}-\\x{d}\\x{20}\\x{85}\\p{Z}" // inside brackets
#define SPACES   "[" WS "]+(?![^" WS "])|[" WS "]+"  // all but the last before a word
#define NEWLINES "[" WS "]*[\\r\\n]++"               // up to the last line end of a run
#define SHORT    "(?i:'s|'t|'re|'ve|'m|'ll|'d)"
#define SIGNS    "\\x{20}?+[^" WS "\\p{L}\\p{N}]++"

// Letters of GPT-4o's words: those that may begin one, those that may end it.
#define UPPER "[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]"
#define LOWER "[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]"
#define LEAD  "[^\\r\\n\\p{L}\\p{N}]?"

#define GPT2 "'s|'t|'re|'ve|'m|'ll|'d|\\x{20}?+\\p{L}++|\\x{20}?+\\p{N}++|" SIGNS "|" SPACES
#define LLAMA3(numbers)                                                                            \
    SHORT "|[^\\r\\n\\p{L}\\p{N}]?+\\p{L}++|" numbers "|" SIGNS "[\\r\\n]*+|" NEWLINES "|" SPACES

static const struct ht_pre rows[] = {
    {
        .names = {"gpt-2", "phi-2", "a.x-4.0", "mellum"},
        .patterns = {GPT2},
        .covers = true,
        .scan = HT_SCAN_GPT2,
    },
    {
        .names = {"olmo", "mpt"}, // GPT-NeoX's: GPT-2's words of text in NFC
        .patterns = {GPT2},
        .nfc = true,
        .covers = true,
        .scan = HT_SCAN_GPT2,
    },
    {
        .names = {"qwen2", "deepseek-r1-qwen"},
        .patterns = {LLAMA3("\\p{N}")},
        .nfc = true,
        .covers = true,
        .scan = HT_SCAN_QWEN2,
    },
    {
        .names = {"qwen35"}, // marks belong to the letters
        .patterns = {SHORT "|" LEAD "[\\p{L}\\p{M}]++|\\p{N}|\\x{20}?+[^" WS
                           "\\p{L}\\p{M}\\p{N}]++[\\r\\n]*+|" NEWLINES "|" SPACES},
        .nfc = true,
        .covers = true,
        .scan = HT_SCAN_QWEN2,
    },
    {
        .names = {"llama-bpe", "llama3", "llama-v3", "falcon3", "falcon-h1", "lfm2", "pixtral",
                  "midm-2.0"},
        .patterns = {LLAMA3("\\p{N}{1,3}+")},
        .ignore_merges = true,
        .add_bos = true,
        .covers = true,
        .scan = HT_SCAN_LLAMA3,
    },
    {
        .names = {"dbrx", "smaug-bpe", "glm4", "chatglm-bpe"},
        .patterns = {LLAMA3("\\p{N}{1,3}+")},
        .covers = true,
        .scan = HT_SCAN_LLAMA3,
    },
    {
        .names = {"gpt-4o", "llama4"},
        .patterns = {LEAD UPPER "*" LOWER "+" SHORT "?|" LEAD UPPER "+" LOWER "*" SHORT
                                "?|\\p{N}{1,3}+|" SIGNS "[\\r\\n/]*+|" NEWLINES "|" SPACES},
        .covers = true,
    },
    {
        .names = {"tekken"},
        .patterns = {LEAD UPPER "*" LOWER "+|" LEAD UPPER "+" LOWER "*|\\p{N}|" SIGNS
                                "[\\r\\n/]*+|" NEWLINES "|" SPACES},
        .ignore_merges = true,
        .add_bos = true,
        .covers = true,
    },
    {
        .names = {"starcoder", "smollm", "refact", "codeshell"},
        .patterns = {"\\p{N}", GPT2},
    },
    {
        .names = {"command-r"},
        .patterns = {"\\p{N}", GPT2},
        .nfc = true,
    },
    {
        .names = {"deepseek-v3"},
        .patterns = {"\\p{N}{1,3}+",
                     "[\\x{4e00}-\\x{9fa5}\\x{3040}-\\x{309f}\\x{30a0}-\\x{30ff}]++",
                     "[!-/:-@\\[-`{-~][A-Za-z]++|[^\\r\\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]++|"
                     "\\x{20}?+[\\p{P}\\p{S}]++[\\r\\n]*+|" NEWLINES "|" SPACES},
    },
    {
        .names = {"deepseek-coder"},
        .patterns = {"[\\r\\n]", "[" WS "]?+\\p{L}++", "[" WS "]?+\\p{P}++",
                     "[\\x{4e00}-\\x{9fa5}\\x{800}-\\x{4e00}\\x{ac00}-\\x{d7ff}]++", "\\p{N}"},
    },
    {
        .names = {"default"},
        .patterns = {"[\\p{P}$+<=>^~|]++", GPT2, "\\p{N}++", "[0-9][0-9][0-9]"},
    },
};

const struct ht_pre *ht_pre_at(size_t i) {
    return i < sizeof(rows) / sizeof(*rows) ? &rows[i] : NULL;
}

const struct ht_pre *ht_pre_find(const char *name, size_t n) {
    const struct ht_pre *row;
    for (size_t i = 0; (row = ht_pre_at(i)); i++)
        for (int k = 0; k < HT_PRE_NAMES && row->names[k]; k++)
            if (strlen(row->names[k]) == n && !memcmp(row->names[k], name, n)) return row;
    return NULL;
}

void ht_pre_list(char *buf, size_t n_buf) {
    const struct ht_pre *row;
    size_t len = 0;
    buf[0] = 0;
    for (size_t i = 0; (row = ht_pre_at(i)); i++)
        for (int k = 0; k < HT_PRE_NAMES && row->names[k]; k++) {
            int n = snprintf(buf + len, n_buf - len, "%s%s", len ? ", " : "", row->names[k]);
            if (n < 0 || (size_t)n >= n_buf - len) return;
            len += (size_t)n;
        }
}
