// SPDX-License-Identifier: MIT
// Small vocabularies as GGUF metadata in memory, made without the library's writer, sound or
// spoiled, and the tokenizers that plain, slow code makes of them.
#ifndef HT_TESTS_TEXT_MAKE_H
#define HT_TESTS_TEXT_MAKE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "gguf/gguf.h"
#include "text/tokenizer.h"

enum { MAKE_TOKENS = 129000, MAKE_MERGES = 1024, MAKE_NAME = 40, MAKE_KEYS = 16 };

struct make_str {
    char b[MAKE_NAME];
    uint32_t n;
};

struct make {
    const char *model, *pre;             // NULL: the key is absent
    struct make_str tokens[MAKE_TOKENS]; // as the file has them
    int32_t types[MAKE_TOKENS];
    float scores[MAKE_TOKENS];
    uint32_t n_tokens;
    struct make_str merges[MAKE_MERGES], left[MAKE_MERGES], right[MAKE_MERGES]; // raw bytes
    uint32_t n_merges;
    struct {
        const char *key;
        uint32_t type;
        int64_t value;
    } keys[MAKE_KEYS];
    uint32_t n_keys;
    bool no_merges, no_types, no_scores, no_tokens;
    uint32_t n_types_off, n_scores_off; // so many fewer than tokens
    uint8_t *bytes;                     // of the file, once built
    size_t n_bytes;
    struct ht_gguf *g;
};

// The 256 bytes as tokens: id = byte.
struct make *make_bpe(const char *pre);
// <unk>, <s>, </s>, then the byte tokens from 3 on.
struct make *make_spm(void);
void make_free(struct make *m);

int32_t make_token(struct make *m, const char *p, size_t n, int32_t type, float score);
int32_t make_name(struct make *m, const char *name, int32_t type); // score 0
// A merge of raw bytes and, where it is new, its token. Returns the token.
int32_t make_merge(struct make *m, const char *left, const char *right);
void make_key(struct make *m, const char *key, enum ht_gguf_type type, int64_t value);
// In GPT-2's alphabet.
struct make_str make_letters(const char *p, size_t n);

enum hearth_status make_load(struct make *m, struct ht_tokenizer **t, struct hearth_error *err);

// BPE as one would write it down: the pair of the lowest rank, the leftmost first, again and again.
// ids has room for n. Returns how many.
size_t naive_bpe(const struct make *m, const char *p, size_t n, int32_t *ids);
// SentencePiece's: the pair whose joint has the highest score. Unknown characters as byte tokens.
size_t naive_spm(const struct make *m, const char *p, size_t n, int32_t *ids);

uint32_t make_random(uint64_t *seed, uint32_t below);

#endif
