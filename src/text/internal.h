// SPDX-License-Identifier: MIT
// What the files of this room share: the vocabulary, the tokenizer, the encoder's working memory.
// A tokenizer is written by load alone; an encoder belongs to one thread.
#ifndef HT_TEXT_INTERNAL_H
#define HT_TEXT_INTERNAL_H

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>
#include <string.h>

#include "base/hash.h"
#include "base/utf8.h"
#include "text/pre.h"
#include "text/tokenizer.h"

// ---- vocabulary (vocab.c)

enum ht_token_type { // as stored in tokenizer.ggml.token_type
    HT_TOKEN_UNDEFINED,
    HT_TOKEN_NORMAL,
    HT_TOKEN_UNKNOWN,
    HT_TOKEN_CONTROL,
    HT_TOKEN_USER,
    HT_TOKEN_UNUSED,
    HT_TOKEN_BYTE,
    HT_TOKEN_N_TYPES
};

enum ht_token_types { // sets of them
    HT_TYPES_TEXT = 1 << HT_TOKEN_UNDEFINED | 1 << HT_TOKEN_NORMAL,
    HT_TYPES_SPM = HT_TYPES_TEXT | 1 << HT_TOKEN_UNUSED, // what sentencepiece merges to
    HT_TYPES_ANY = (1 << HT_TOKEN_N_TYPES) - 1
};

enum { HT_FLAG_TYPE = 7, HT_FLAG_END = 8 }; // of a token's flags byte

enum ht_tokenizer_kind { HT_KIND_BPE, HT_KIND_SPM };

struct ht_vocab_slot {
    uint32_t tag; // upper half of the hash
    uint32_t id1; // id + 1; 0: empty
};

// Tokens lie one behind the other in `blob`, as the bytes that they stand for: the byte-level
// alphabet undone, U+2581 of SentencePiece a space, a byte token its byte.
struct ht_vocab {
    int32_t n;
    uint32_t max_bytes;          // of the longest token
    char *blob;                  // off[n] bytes
    uint32_t *off;               // [n + 1]
    uint8_t *flags;              // [n] type and HT_FLAG_END
    bool typed;                  // the file says types
    struct ht_vocab_slot *slots; // open addressing by bytes; every token but empty ones is in it
    uint32_t mask;               // number of slots - 1
    uint64_t seed;               // of the hash
};

static inline const char *ht_vocab_token(const struct ht_vocab *v, int32_t id, uint32_t *n) {
    *n = v->off[id + 1] - v->off[id];
    return v->blob + v->off[id];
}
static inline enum ht_token_type ht_vocab_type(const struct ht_vocab *v, int32_t id) {
    return (enum ht_token_type)(v->flags[id] & HT_FLAG_TYPE);
}

HT_MUST_CHECK enum hearth_status ht_vocab_load(const struct ht_gguf *g, enum ht_tokenizer_kind kind,
                                               struct ht_vocab *v, struct hearth_error *err);
void ht_vocab_deinit(struct ht_vocab *v);
void ht_vocab_drop_table(struct ht_vocab *v); // once nothing asks for bytes any more
size_t ht_vocab_bytes(const struct ht_vocab *v);
// The lowest id with these bytes and a type in the set; -1: none.
int32_t ht_vocab_find(const struct ht_vocab *v, const char *p, size_t n, unsigned types);

// The same with the hash known already.
int32_t ht_vocab_find_hashed(const struct ht_vocab *v, const char *p, size_t n, uint64_t hash,
                             unsigned types);
enum { HT_BATCH = 32 }; // look-ups of load that wait for memory together

// Undoes the byte-level alphabet (GPT-2's printable stand-ins for the 256 bytes): out has room for
// n bytes. False where p holds a character that is not in the alphabet; out is then undefined.
bool ht_alphabet_undo(const char *p, size_t n, char *out, size_t *n_out);

// Large tables come from the OS in big pages, small ones from the heap.
HT_MUST_CHECK void *ht_table_alloc(size_t n_bytes); // zeroed
void ht_table_free(void *p, size_t n_bytes);

// Bytes as a hash; reads nothing outside [p, p + n).
static inline uint64_t ht_load64(const char *p) {
    uint64_t x;
    memcpy(&x, p, 8);
    return x;
}
static inline uint64_t ht_load_tail(const char *p, size_t n) { // n < 8
    uint32_t a, b;
    if (n >= 4) {
        memcpy(&a, p, 4);
        memcpy(&b, p + n - 4, 4);
        return a | (uint64_t)b << 32;
    }
    if (!n) return 0;
    return (uint64_t)(uint8_t)p[0] | (uint64_t)(uint8_t)p[n / 2] << 8 |
           (uint64_t)(uint8_t)p[n - 1] << 16;
}
// One step of a hash: the 128-bit product folded (as in wyhash, public domain). With a factor that
// a file's author cannot know, no file can be written whose entries all fall into one place.
static inline uint64_t ht_mix(uint64_t x, uint64_t factor) {
    unsigned __int128 m = (unsigned __int128)x * factor;
    return (uint64_t)m ^ (uint64_t)(m >> 64);
}
static inline uint64_t ht_hash_text(const char *p, size_t n, uint64_t seed) {
    uint64_t h = n * 0x9e3779b97f4a7c15u ^ seed >> 7;
    for (; n >= 8; n -= 8, p += 8) h = ht_mix(h ^ ht_load64(p), seed);
    return ht_mix(h ^ ht_load_tail(p, n), seed);
}
// A seed from where a table lies. It decides nothing but the places in that table.
static inline uint64_t ht_table_seed(const void *table) {
    return ht_hash_u64((uint64_t)(uintptr_t)table + 0x9e3779b97f4a7c15u) | 1;
}

// Length of the UTF-8 character at p, n >= 1 bytes; 1 where none begins there.
static inline uint32_t ht_char_len(const char *p, size_t n) {
    size_t len = (uint8_t)*p < 0x80 ? 1 : ht_utf8_char_len(p, n);
    return len ? (uint32_t)len : 1;
}

// memcmp for short strings, of which most have the same length.
static inline bool ht_bytes_equal(const char *a, const char *b, size_t n) {
    if (n < 8) return ht_load_tail(a, n) == ht_load_tail(b, n);
    for (size_t i = 0; i + 8 < n; i += 8)
        if (ht_load64(a + i) != ht_load64(b + i)) return false;
    return ht_load64(a + n - 8) == ht_load64(b + n - 8);
}

// ---- special tokens (special.c)

// Of such a token at most, since each place of a text is compared with all of it. Known ones have
// some 30, runs of spaces up to 256.
#define HT_SPECIAL_BYTES 1024

struct ht_special_set { // tokens that are read from text as a whole, sorted by their bytes
    int32_t *ids;
    uint32_t n;
    uint64_t first[4]; // set of first bytes
};
HT_MUST_CHECK enum hearth_status ht_special_init(struct ht_special_set *s, const struct ht_vocab *v,
                                                 unsigned types, struct hearth_error *err);
void ht_special_deinit(struct ht_special_set *s);
// The first token of the set in [p, p + n), the longest where several begin together: its id and
// place, or -1.
int32_t ht_special_find(const struct ht_special_set *s, const struct ht_vocab *v, const char *p,
                        size_t n, size_t *at, size_t *len);
// Marks the tokens that end a generation, by name.
void ht_special_mark_ends(struct ht_vocab *v);

// ---- the tokenizer

// A merge in eight bytes, so that the table of 150,000 takes 2 MB; 0: an empty slot.
//   bit 63: 1 | rank (a smaller one goes first): 21 bits | left id: 21 bits | right id: 21 bits
enum { HT_PAIR_BITS = 21, HT_PAIR_MAX = 1 << HT_PAIR_BITS };

struct ht_tokenizer {
    enum ht_tokenizer_kind kind;
    bool add_bos, add_eos, add_space, ignore_merges;
    int32_t bos, eos, unk; // -1: none
    int32_t byte_ids[256]; // token of a single byte; -1: none
    struct ht_vocab v;
    struct ht_special_set special; // read only where the caller asks; user's as well
    struct ht_special_set user;    // read always, never split and never merged
    // byte-level BPE
    const struct ht_pre *pre;
    bool pre_guessed;            // the file names none, or "default"
    pcre2_general_context *pcre; // memory from ht_alloc
    pcre2_code *patterns[HT_PRE_MAX];
    int n_patterns;
    bool jit;                     // all patterns are machine code
    uint64_t *pairs;              // open addressing
    int32_t *joints;              // [rank] what left and right become
    uint32_t n_joints, pair_mask; // pair_mask: number of slots - 1
    uint64_t pair_seed;
    uint64_t *pair_filter; // a bit where some pair's hash has it: most pairs that are looked for
                           // are no merge, and this table stays in the nearer cache
    // SentencePiece BPE
    uint32_t *keys;   // [v.n] a smaller key goes first: the score turned round, or the id
    bool flat_scores; // all the same, so it is the id
    uint64_t glue[4]; // bytes that stand right before a space inside some token
};

static inline bool ht_set_has(const uint64_t set[4], uint8_t b) {
    return set[b >> 6] >> (b & 63) & 1;
}
static inline void ht_set_add(uint64_t set[4], uint8_t b) {
    set[b >> 6] |= (uint64_t)1 << (b & 63);
}

static inline uint64_t ht_pair_key(int32_t left, int32_t right) {
    return (uint64_t)(uint32_t)left << HT_PAIR_BITS | (uint32_t)right;
}
static inline bool ht_pair_is(uint64_t slot, uint64_t key) {
    return (slot & (((uint64_t)1 << 2 * HT_PAIR_BITS) - 1)) == key;
}
static inline uint32_t ht_pair_rank(uint64_t slot) {
    return (uint32_t)(slot >> 2 * HT_PAIR_BITS) & (HT_PAIR_MAX - 1);
}
static inline uint32_t ht_pair_hash(const struct ht_tokenizer *t, uint64_t key) {
    return (uint32_t)ht_mix(key, t->pair_seed);
}

// Bits of the filter: four times as many as slots.
static inline uint32_t ht_filter_bit(const struct ht_tokenizer *t, uint32_t hash) {
    return hash & (4 * t->pair_mask + 3);
}

// merges.c, spm.c: the parts of a tokenizer that one kind needs
HT_MUST_CHECK enum hearth_status ht_merges_load(const struct ht_gguf *g, struct ht_tokenizer *t,
                                                struct hearth_error *err);
HT_MUST_CHECK enum hearth_status ht_spm_load(const struct ht_gguf *g, struct ht_tokenizer *t,
                                             struct hearth_error *err);
HT_MUST_CHECK enum hearth_status ht_pre_compile(struct ht_tokenizer *t, struct hearth_error *err);
void ht_pre_release(struct ht_tokenizer *t);
size_t ht_pre_bytes(const struct ht_tokenizer *t);

// ---- the encoder's working memory

enum { HT_CACHE_TEXT = 24, HT_CACHE_IDS = 8, HT_SHORT = 32 };

enum { HT_ID_UNASKED = -2 }; // SentencePiece asks for a single character's id only in the end

struct ht_cache_line {                // one cached word: 64 bytes
    uint64_t text[HT_CACHE_TEXT / 8]; // zeros behind the word
    uint8_t n, n_ids;                 // n 0: empty
    uint16_t pad[3];
    int32_t ids[HT_CACHE_IDS];
};

struct ht_symbol {       // of a long word; indexed and linked by the place of the first byte
    uint32_t len;        // bytes; 0: merged away
    int32_t id;          // -1: not in the vocabulary; HT_ID_UNASKED
    uint32_t prev, next; // UINT32_MAX: none
};

struct ht_encoder {
    const struct ht_tokenizer *t;
    struct hearth_error *err; // of the call in progress
    const char *source;       // the caller's text, for messages
    size_t n_source;
    int32_t *ids;
    size_t n_ids, cap_ids;
    struct ht_cache_line *cache;
    uint32_t cache_mask;
    struct ht_symbol *symbols; // [cap_symbols]
    uint64_t *heap;            // rank << 32 | place of the left symbol
    size_t cap_symbols, cap_heap;
    char *text; // normalised text, or with spaces put in
    size_t n_text, cap_text;
    int32_t *points, *sorted; // code points of a span that is being normalised
    size_t cap_points, cap_sorted;
    struct ht_split {  // SentencePiece: how an unused token came about
        uint64_t word; // in which it did
        uint32_t left_len;
    } * splits;    // [v.n] by id; NULL: there was none yet
    uint64_t word; // the present one, from 1
    struct ht_piece {
        const char *p;
        uint32_t n;
    } * pieces; // of unused tokens taken apart
    size_t cap_pieces;
    pcre2_match_data *match;
    pcre2_match_context *match_context;
    pcre2_jit_stack *jit_stack;
};

// Makes *p hold at least n elements of `size` bytes; grows by half at least.
HT_MUST_CHECK enum hearth_status ht_grow(void *array, size_t *cap, size_t n, size_t size,
                                         struct hearth_error *err);
HT_MUST_CHECK static inline enum hearth_status ht_ids_room(struct ht_encoder *e, size_t n) {
    if (e->cap_ids - e->n_ids >= n) return HEARTH_OK;
    return ht_grow(&e->ids, &e->cap_ids, e->n_ids + n, sizeof(*e->ids), e->err);
}
// "byte 0xNN at offset N": where p lies in the caller's text, its place is told.
HT_MUST_CHECK enum hearth_status ht_fail_byte(const struct ht_encoder *e, const char *p);

// merge.c: one word of text to ids, through the cache. Appends to e->ids.
HT_MUST_CHECK enum hearth_status ht_encode_word(struct ht_encoder *e, const char *p, size_t n);
// pretokenize.c: valid UTF-8, split by the pre-tokenizer, word by word
HT_MUST_CHECK enum hearth_status ht_pretokenize(struct ht_encoder *e, const char *p, size_t n);
bool ht_nfc_stable(uint32_t c); // NFC neither changes the character nor joins it to what precedes
// normalize.c: *out is p itself where it is in NFC already, else e->text
HT_MUST_CHECK enum hearth_status ht_normalize(struct ht_encoder *e, const char *p, size_t n,
                                              const char **out, size_t *n_out);
// spm.c: a run of text without special tokens
HT_MUST_CHECK enum hearth_status ht_spm_encode(struct ht_encoder *e, const char *p, size_t n);
HT_MUST_CHECK enum hearth_status ht_spm_emit(struct ht_encoder *e, int32_t id, const char *p,
                                             uint32_t n);
HT_MUST_CHECK enum hearth_status ht_spm_split(struct ht_encoder *e, int32_t id, uint32_t left_len);

#endif
