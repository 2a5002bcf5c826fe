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

#define CJK "[\\x{4e00}-\\x{9fa5}\\x{800}-\\x{4e00}\\x{ac00}-\\x{d7ff}]++"

#define GPT2 "'s|'t|'re|'ve|'m|'ll|'d|\\x{20}?+\\p{L}++|\\x{20}?+\\p{N}++|" SIGNS "|" SPACES
#define LLAMA3(numbers)                                                                            \
    SHORT "|[^\\r\\n\\p{L}\\p{N}]?+\\p{L}++|" numbers "|" SIGNS "[\\r\\n]*+|" NEWLINES "|" SPACES

// The letters of DeepSeek LLM's words, as its tokenizer lists them: cased ones, but not all.
#define DEEPSEEK_LETTERS                                                                           \
    "A-Za-z\\x{b5}\\x{c0}-\\x{d6}\\x{d8}-\\x{f6}\\x{f8}-\\x{1ba}\\x{1bc}-\\x{1bf}"                 \
    "\\x{1c4}-\\x{293}\\x{295}-\\x{2af}\\x{370}-\\x{373}\\x{376}\\x{377}\\x{37b}-\\x{37d}"         \
    "\\x{37f}\\x{386}\\x{388}-\\x{38a}\\x{38c}\\x{38e}-\\x{3a1}\\x{3a3}-\\x{3f5}"                  \
    "\\x{3f7}-\\x{481}\\x{48a}-\\x{52f}\\x{531}-\\x{556}\\x{10a0}-\\x{10c5}"                       \
    "\\x{13a0}-\\x{13f5}\\x{13f8}-\\x{13fd}\\x{1c90}-\\x{1cba}\\x{1cbd}-\\x{1cbf}"                 \
    "\\x{1d00}-\\x{1d2b}\\x{1d6b}-\\x{1d77}\\x{1d79}-\\x{1d9a}\\x{1e00}-\\x{1f15}"                 \
    "\\x{1f18}-\\x{1f1d}\\x{1f20}-\\x{1f45}\\x{1f48}-\\x{1f4d}\\x{1f50}-\\x{1f57}"                 \
    "\\x{1f59}\\x{1f5b}\\x{1f5d}\\x{1f5f}-\\x{1f7d}\\x{1f80}-\\x{1fb4}\\x{1fb6}-\\x{1fbc}"         \
    "\\x{1fbe}\\x{1fc2}-\\x{1fc4}\\x{1fc6}-\\x{1fcc}\\x{1fd0}-\\x{1fd3}"                           \
    "\\x{1fd6}-\\x{1fdb}\\x{1fe0}-\\x{1fec}\\x{1ff2}-\\x{1ff4}\\x{1ff6}-\\x{1ffc}"                 \
    "\\x{2102}\\x{2107}\\x{210a}-\\x{2113}\\x{2115}\\x{2119}-\\x{211d}\\x{2124}\\x{2126}"          \
    "\\x{2128}\\x{212a}-\\x{212d}\\x{212f}-\\x{2134}\\x{2139}\\x{213c}-\\x{213f}"                  \
    "\\x{2145}-\\x{2149}\\x{214e}\\x{2183}\\x{2184}\\x{2c00}-\\x{2c7b}\\x{2c7e}-\\x{2ce4}"         \
    "\\x{2ceb}-\\x{2cee}\\x{2cf2}\\x{2cf3}\\x{a640}-\\x{a66d}\\x{a680}-\\x{a69b}"                  \
    "\\x{a722}-\\x{a76f}\\x{a771}-\\x{a787}\\x{a78b}-\\x{a78e}\\x{ab70}-\\x{abbf}"                 \
    "\\x{fb00}-\\x{fb06}\\x{fb13}-\\x{fb17}\\x{ff21}-\\x{ff3a}\\x{ff41}-\\x{ff5a}"                 \
    "\\x{10400}-\\x{1044f}\\x{104b0}-\\x{104d3}\\x{104d8}-\\x{104fb}\\x{10c80}-\\x{10cb2}"         \
    "\\x{10cc0}-\\x{10cf2}\\x{118a0}-\\x{118df}\\x{1e900}-\\x{1e943}"

static const struct ht_pre rows[] = {
    {
        .names = {"gpt-2", "phi-2", "a.x-4.0", "mellum", "trillion", "granite-docling"},
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
        .names = {"starcoder", "smollm", "refact", "codeshell", "minerva-7b"},
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
        .names = {"deepseek-llm"},
        .patterns = {"[\\r\\n]", "[" WS "]?[" DEEPSEEK_LETTERS "]++",
                     "[" WS "]?[!-/:-~\\x{ff01}-\\x{ff0f}\\x{ff1a}-\\x{ff5e}"
                     "\\x{2018}-\\x{201f}\\x{3000}-\\x{3002}]++",
                     "(?<![" WS "])[" WS "]++\\z", CJK, "\\p{N}++"},
    },
    {
        .names = {"deepseek-coder"},
        .patterns = {"[\\r\\n]", "[" WS "]?+\\p{L}++", "[" WS "]?+\\p{P}++", CJK, "\\p{N}"},
    },
    // No NFC in these, as llama.cpp has them.
    {
        .names = {"megrez", "kormo", "f2llmv2"},
        .patterns = {LLAMA3("\\p{N}")},
        .covers = true,
        .scan = HT_SCAN_QWEN2,
    },
    {
        .names = {"seed-coder"}, // line ends do not stick to signs
        .patterns = {SHORT "|[^\\r\\n\\p{L}\\p{N}]?+\\p{L}++|\\p{N}|" SIGNS "|" NEWLINES
                           "|" SPACES},
        .covers = true,
    },
    {
        .names = {"minicpm5"},
        .patterns = {"\\p{N}{1,3}+", LLAMA3("\\p{N}++")},
        .ignore_merges = true,
    },
    {
        .names = {"viking"},
        .patterns = {"\\x{20}?+[^(" WS "|.,!?\\x{2026}\\x{3002}\\x{ff0c}\\x{3001}\\x{964}"
                     "\\x{6d4}\\x{60c})]++",
                     "\\p{N}"},
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
