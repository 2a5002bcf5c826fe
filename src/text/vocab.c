// SPDX-License-Identifier: MIT
// The vocabulary: every token as the bytes that it stands for, in one block, and a flat table from
// bytes to ids. Invariant: off is ascending, and a slot's id is below n. Written by load alone.
#include <stdint.h>

#include "base/checked.h"
#include "base/mem.h"
#include "text/internal.h"

static const char key_tokens[] = "tokenizer.ggml.tokens", key_types[] = "tokenizer.ggml.token_type";

enum { BIG_TABLE = 1 << 20 };

void *ht_table_alloc(size_t n_bytes) {
    return n_bytes >= BIG_TABLE ? ht_pages_alloc(n_bytes) : ht_calloc(1, n_bytes);
}

void ht_table_free(void *p, size_t n_bytes) {
    if (n_bytes >= BIG_TABLE) {
        if (p) ht_pages_free(p, n_bytes);
    } else {
        ht_free(p);
    }
}

// GPT-2's alphabet: the printable bytes of Latin-1 stand for themselves, the other 68 in order for
// U+0100 and up: 0..32, 127..160, 173. Returns -1 for a character outside.
static int alphabet_byte(unsigned c) {
    if (c < 0x100) return (c >= 33 && c <= 126) || (c >= 161 && c != 173) ? (int)c : -1;
    if (c < 0x100 + 33) return (int)c - 0x100;
    if (c < 0x100 + 67) return (int)c - 0x100 - 33 + 127;
    return c == 0x100 + 67 ? 173 : -1;
}

bool ht_alphabet_undo(const char *p, size_t n, char *out, size_t *n_out) {
    size_t k = 0;
    for (size_t i = 0; i < n;) {
        unsigned b = (uint8_t)p[i++];
        if (b - 33 <= 126 - 33) { // printable ASCII
            out[k++] = (char)b;
            continue;
        }
        // the alphabet's other characters are two bytes of UTF-8
        if (b < 0xc2 || b > 0xc5 || i == n || ((uint8_t)p[i] & 0xc0) != 0x80) return false;
        int byte = alphabet_byte((b & 0x1f) << 6 | ((uint8_t)p[i++] & 0x3f));
        if (byte < 0) return false;
        out[k++] = (char)byte;
    }
    *n_out = k;
    return true;
}

// "<0x0A>"; -1 for anything else.
static int byte_name(const struct ht_str *s) {
    static const char hex[] = "0123456789ABCDEF";
    if (s->len != 6 || memcmp(s->data, "<0x", 3) || s->data[5] != '>') return -1;
    const char *hi = memchr(hex, s->data[3], 16), *lo = memchr(hex, s->data[4], 16);
    return hi && lo ? (int)((hi - hex) * 16 + (lo - hex)) : -1;
}

// U+2581 to spaces. A token with a plain space stays as it is: sentencepiece has none in its text.
static size_t spaces_undo(const struct ht_str *s, char *out) {
    size_t k = 0;
    if (memchr(s->data, ' ', s->len)) {
        memcpy(out, s->data, s->len);
        return s->len;
    }
    for (size_t i = 0; i < s->len;) {
        if (s->len - i >= 3 && !memcmp(s->data + i, "\xe2\x96\x81", 3)) {
            out[k++] = ' ';
            i += 3;
        } else {
            out[k++] = s->data[i++];
        }
    }
    return k;
}

// "[PAD151700]": converters make such names up, for a vocabulary to be as long as the embedding.
static bool is_padding(const struct ht_str *s) {
    size_t n = 4;
    if (s->len < 6 || memcmp(s->data, "[PAD", 4) != 0) return false;
    while (s->data[n] >= '0' && s->data[n] <= '9' && n + 1 < s->len) n++;
    return n > 4 && n + 1 == s->len && s->data[n] == ']';
}

// Types that files before tokenizer.ggml.token_type leave to the name.
static enum ht_token_type spm_type(const struct ht_str *s) {
    if (byte_name(s) >= 0) return HT_TOKEN_BYTE;
    if (s->len == 5 && !memcmp(s->data, "<unk>", 5)) return HT_TOKEN_UNKNOWN;
    if (s->len == 3 && !memcmp(s->data, "<s>", 3)) return HT_TOKEN_CONTROL;
    if (s->len == 4 && !memcmp(s->data, "</s>", 4)) return HT_TOKEN_CONTROL;
    return HT_TOKEN_NORMAL;
}

// Writes the bytes that a token stands for to out (room for s->len). Returns false for a byte token
// without a byte's name.
static bool token_decode(enum ht_tokenizer_kind kind, enum ht_token_type type,
                         const struct ht_str *s, char *out, size_t *n_out) {
    int byte = type == HT_TOKEN_BYTE ? byte_name(s) : -1;
    if (byte >= 0) {
        out[0] = (char)byte;
        *n_out = 1;
        return true;
    }
    if (type == HT_TOKEN_BYTE && kind == HT_KIND_SPM) return false;
    bool raw = type == HT_TOKEN_CONTROL || type == HT_TOKEN_UNKNOWN;
    if (kind == HT_KIND_SPM && !raw) {
        *n_out = spaces_undo(s, out);
        return true;
    }
    if (!raw && type != HT_TOKEN_USER && ht_alphabet_undo(s->data, s->len, out, n_out)) return true;
    memcpy(out, s->data, s->len); // a name, or not in the alphabet: it stands for itself
    *n_out = s->len;
    return true;
}

static bool same_token(const struct ht_vocab *v, struct ht_vocab_slot slot, uint32_t tag,
                       int32_t id) {
    uint32_t n, n_old;
    if (slot.tag != tag) return false;
    const char *old = ht_vocab_token(v, (int32_t)slot.id1 - 1, &n_old);
    const char *p = ht_vocab_token(v, id, &n);
    return n == n_old && ht_bytes_equal(p, old, n) &&
           ht_vocab_type(v, id) == ht_vocab_type(v, (int32_t)slot.id1 - 1);
}

// Tokens [from, to) go into the table, a few at a time: all slots are asked for before the first is
// needed, so that the waits for memory overlap.
static void table_insert(struct ht_vocab *v, int32_t from, int32_t to) {
    uint64_t hashes[HT_BATCH];
    for (int32_t id = from; id < to; id++) {
        uint32_t n;
        const char *p = ht_vocab_token(v, id, &n);
        hashes[id - from] = ht_hash_text(p, n, v->seed);
        __builtin_prefetch(v->slots + ((uint32_t)hashes[id - from] & v->mask), 1);
    }
    for (int32_t id = from; id < to; id++) {
        uint64_t h = hashes[id - from];
        uint32_t i = (uint32_t)h & v->mask;
        if (v->off[id + 1] == v->off[id]) continue;
        while (v->slots[i].id1 && !same_token(v, v->slots[i], (uint32_t)(h >> 32), id))
            i = (i + 1) & v->mask;
        if (v->slots[i].id1) continue; // the first of several equal ones stays
        v->slots[i] = (struct ht_vocab_slot){(uint32_t)(h >> 32), (uint32_t)id + 1};
    }
}

int32_t ht_vocab_find_hashed(const struct ht_vocab *v, const char *p, size_t n, uint64_t h,
                             unsigned types) {
    uint32_t tag = (uint32_t)(h >> 32);
    for (uint32_t i = (uint32_t)h & v->mask; v->slots[i].id1; i = (i + 1) & v->mask) {
        if (v->slots[i].tag != tag) continue;
        uint32_t id = v->slots[i].id1 - 1;
        if (v->off[id + 1] - v->off[id] == n && ht_bytes_equal(v->blob + v->off[id], p, n) &&
            types >> (v->flags[id] & HT_FLAG_TYPE) & 1)
            return (int32_t)id;
    }
    return -1;
}

int32_t ht_vocab_find(const struct ht_vocab *v, const char *p, size_t n, unsigned types) {
    return ht_vocab_find_hashed(v, p, n, ht_hash_text(p, n, v->seed), types);
}

// The arrays' shapes; *types stays NULL where the file has none.
static enum hearth_status check_arrays(const struct ht_gguf *g, const struct ht_gguf_kv **tokens,
                                       const struct ht_gguf_kv **types, struct hearth_error *err) {
    const struct ht_gguf_kv *k = ht_gguf_find(g, key_tokens), *ty = ht_gguf_find(g, key_types);
    char found[HT_GGUF_DESCRIBE_BYTES];
    if (!k || k->type != HT_GGUF_ARR || k->arr_type != HT_GGUF_STR)
        return ht_fail(err, HEARTH_E_FORMAT,
                       "%s: metadata key %s is %s, an array of strings was expected",
                       ht_gguf_name(g), key_tokens, k ? ht_gguf_describe(k, found) : "missing");
    if (k->n < 1 || k->n > INT32_MAX - 1 || k->n_bytes > UINT32_MAX)
        return ht_fail(
            err, HEARTH_E_FORMAT,
            "%s: %s has %llu tokens of %llu bytes, 1 to 2147483646 of at most 4294967295 "
            "bytes were expected",
            ht_gguf_name(g), key_tokens, (unsigned long long)k->n, (unsigned long long)k->n_bytes);
    if (ty && (ty->type != HT_GGUF_ARR || !ht_gguf_is_int(ty->arr_type) || ty->n != k->n))
        return ht_fail(err, HEARTH_E_FORMAT,
                       "%s: metadata key %s is %s, an array of %llu integers, one a token, was "
                       "expected",
                       ht_gguf_name(g), key_types, ht_gguf_describe(ty, found),
                       (unsigned long long)k->n);
    *tokens = k;
    *types = ty;
    return HEARTH_OK;
}

// Of a token as the file has it: buffers are as long as the longest, and no known one has a tenth.
enum { MOST_TOKEN_BYTES = 1 << 14 };

static enum hearth_status fail_byte_name(const struct ht_gguf *g, int32_t id,
                                         const struct ht_str *s, struct hearth_error *err) {
    char quoted[HT_QUOTE_BYTES];
    return ht_fail(err, HEARTH_E_FORMAT,
                   "%s: token %d is %s, but has the type of a byte; a name from <0x00> to <0xFF> "
                   "was expected",
                   ht_gguf_name(g), id, ht_quote(quoted, s->data, s->len));
}

// Whether some token has the type of a byte.
static bool has_byte_type(const struct ht_gguf_kv *types) {
    for (uint64_t i = 0; i < types->n; i++)
        if (ht_gguf_int_at(types, i) == HT_TOKEN_BYTE) return true;
    return false;
}

static enum hearth_status read_tokens(const struct ht_gguf *g, enum ht_tokenizer_kind kind,
                                      const struct ht_gguf_kv *tokens,
                                      const struct ht_gguf_kv *types, struct ht_vocab *v,
                                      struct hearth_error *err) {
    const uint8_t *cursor = NULL;
    struct ht_str s = {NULL, 0};
    uint32_t used = 0;
    // Converters that know no types call byte tokens normal ones.
    bool by_name = kind == HT_KIND_SPM && types && !has_byte_type(types);
    for (int32_t id = 0; id < v->n && ht_gguf_next_str(tokens, &cursor, &s); id++) {
        int64_t type = types ? ht_gguf_int_at(types, (uint64_t)id) : HT_TOKEN_NORMAL;
        if (type < 0 || type >= HT_TOKEN_N_TYPES)
            return ht_fail(err, HEARTH_E_FORMAT, "%s: %s[%d] is %lld, 0 to %d was expected",
                           ht_gguf_name(g), key_types, id, (long long)type, HT_TOKEN_N_TYPES - 1);
        if (!types && kind == HT_KIND_SPM) type = spm_type(&s);
        if (by_name && type == HT_TOKEN_NORMAL && byte_name(&s) >= 0) type = HT_TOKEN_BYTE;
        if (type == HT_TOKEN_USER && is_padding(&s)) type = HT_TOKEN_UNUSED; // not for plain text
        size_t n;
        if (s.len > MOST_TOKEN_BYTES)
            return ht_fail(err, HEARTH_E_UNSUPPORTED,
                           "%s: token %d has %llu bytes, at most %d are supported", ht_gguf_name(g),
                           id, (unsigned long long)s.len, MOST_TOKEN_BYTES);
        if (!token_decode(kind, (enum ht_token_type)type, &s, v->blob + used, &n))
            return fail_byte_name(g, id, &s, err);
        v->flags[id] = (uint8_t)type;
        v->off[id] = used;
        used += (uint32_t)n;
        if (n > v->max_bytes) v->max_bytes = (uint32_t)n;
        v->off[id + 1] = used;
        if ((id + 1) % HT_BATCH == 0 || id + 1 == v->n)
            table_insert(v, id / HT_BATCH * HT_BATCH, id + 1);
    }
    return HEARTH_OK;
}

enum hearth_status ht_vocab_load(const struct ht_gguf *g, enum ht_tokenizer_kind kind,
                                 struct ht_vocab *v, struct hearth_error *err) {
    const struct ht_gguf_kv *tokens = NULL, *types = NULL;
    enum hearth_status st = check_arrays(g, &tokens, &types, err);
    if (st) return st;
    size_t n = (size_t)tokens->n, n_slots = 16, n_text = (size_t)tokens->n_bytes - 8 * n;
    while (n_slots < n + n / 2) n_slots *= 2;
    v->n = (int32_t)n;
    v->typed = types != NULL;
    v->mask = (uint32_t)(n_slots - 1);
    v->blob = ht_alloc(n_text + 1);
    v->off = ht_calloc(n + 1, sizeof(*v->off));
    v->flags = ht_calloc(n, 1);
    v->slots = ht_table_alloc(n_slots * sizeof(*v->slots));
    v->seed = ht_table_seed(v->slots);
    if (!v->blob || !v->off || !v->flags || !v->slots)
        return ht_fail_nomem(err, n_text + 5 * n + n_slots * sizeof(*v->slots), "a vocabulary");
    st = read_tokens(g, kind, tokens, types, v, err);
    if (st) return st;
    char *smaller = ht_realloc(v->blob, v->off[n] + (size_t)1, 1);
    if (smaller) v->blob = smaller; // else the larger block serves as well
    return HEARTH_OK;
}

void ht_vocab_drop_table(struct ht_vocab *v) {
    ht_table_free(v->slots, ((size_t)v->mask + 1) * sizeof(*v->slots));
    v->slots = NULL;
}

void ht_vocab_deinit(struct ht_vocab *v) {
    ht_vocab_drop_table(v);
    ht_free(v->blob);
    ht_free(v->off);
    ht_free(v->flags);
}

size_t ht_vocab_bytes(const struct ht_vocab *v) {
    size_t n = (size_t)v->n;
    return v->off[n] + 1 + (n + 1) * sizeof(*v->off) + n +
           (v->slots ? ((size_t)v->mask + 1) * sizeof(*v->slots) : 0);
}
