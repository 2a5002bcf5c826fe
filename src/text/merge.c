// SPDX-License-Identifier: MIT
// One word of text to ids by merging pairs, the best first, the leftmost among equals: both kinds
// of BPE. Short words by looking through all pairs, long ones with a heap: n log n, no recursion.
// Invariant of the heap: every pair that can merge has an entry of its rank and place; an entry
// that is not of the pair now standing there is stale.
#include "base/mem.h"
#include "text/internal.h"

static const uint32_t NONE = UINT32_MAX; // no pair, no symbol

// What two neighbouring symbols become: p and n are their bytes together.
static inline bool pair_find(struct ht_encoder *e, int32_t left, int32_t right, const char *p,
                             uint32_t n, uint32_t *rank, int32_t *id) {
    const struct ht_tokenizer *t = e->t;
    if (t->kind == HT_KIND_SPM) {
        *id = ht_vocab_find(&t->v, p, n, HT_TYPES_SPM);
        if (*id < 0) return false;
        *rank = t->keys[*id];
        return true;
    }
    if ((left | right) < 0) return false;
    uint64_t key = ht_pair_key(left, right);
    uint32_t h = ht_pair_hash(t, key), i = h & t->pair_mask;
    uint32_t bit = ht_filter_bit(t, h);
    if (!(t->pair_filter[bit / 64] >> bit % 64 & 1)) return false;
    for (uint64_t slot; (slot = t->pairs[i]); i = (i + 1) & t->pair_mask) {
        if (!ht_pair_is(slot, key)) continue;
        *rank = ht_pair_rank(slot);
        *id = t->joints[*rank];
        return true;
    }
    return false;
}

// SentencePiece takes unused tokens apart again, the way they were last thought of.
static inline enum hearth_status pair_note(struct ht_encoder *e, int32_t id, uint32_t left_len) {
    if (e->t->kind == HT_KIND_BPE || ht_vocab_type(&e->t->v, id) != HT_TOKEN_UNUSED)
        return HEARTH_OK;
    return ht_spm_split(e, id, left_len);
}

// The first symbols of a word: bytes, or characters for SentencePiece.
static inline uint32_t symbol_first(const struct ht_tokenizer *t, const char *p, size_t n,
                                    int32_t *id) {
    if (t->kind == HT_KIND_BPE) {
        *id = t->byte_ids[(uint8_t)*p];
        return 1;
    }
    *id = HT_ID_UNASKED;
    return ht_char_len(p, n);
}

static inline enum hearth_status emit(struct ht_encoder *e, int32_t id, const char *p, uint32_t n) {
    if (e->t->kind == HT_KIND_SPM) {
        if (id == HT_ID_UNASKED) id = ht_vocab_find(&e->t->v, p, n, HT_TYPES_SPM);
        return ht_spm_emit(e, id, p, n);
    }
    if (id < 0) id = e->t->unk;
    if (id < 0) return ht_fail_byte(e, p);
    e->ids[e->n_ids++] = id; // a word gives no more ids than it has bytes: there is room
    return HEARTH_OK;
}

// ---- short words

struct short_word {
    uint32_t n;
    int32_t id[HT_SHORT], to[HT_SHORT]; // to, rank: of the pair of i and i + 1
    uint32_t at[HT_SHORT + 1], rank[HT_SHORT];
};

static inline enum hearth_status short_pair(struct ht_encoder *e, struct short_word *w,
                                            const char *p, uint32_t i) {
    w->rank[i] = NONE;
    if (!pair_find(e, w->id[i], w->id[i + 1], p + w->at[i], w->at[i + 2] - w->at[i], &w->rank[i],
                   &w->to[i]))
        return HEARTH_OK;
    return pair_note(e, w->to[i], w->at[i + 1] - w->at[i]);
}

static enum hearth_status encode_short(struct ht_encoder *e, struct short_word *w, const char *p) {
    enum hearth_status st = HEARTH_OK;
    for (uint32_t i = 0; !st && i + 1 < w->n; i++) st = short_pair(e, w, p, i);
    while (!st && w->n > 1) {
        uint32_t best = 0;
        for (uint32_t i = 1; i + 1 < w->n; i++)
            if (w->rank[i] < w->rank[best]) best = i;
        if (w->rank[best] == NONE) break;
        w->id[best] = w->to[best];
        w->n--;
        for (uint32_t i = best + 1; i < w->n; i++) {
            w->id[i] = w->id[i + 1];
            w->at[i] = w->at[i + 1];
            w->rank[i] = w->rank[i + 1];
            w->to[i] = w->to[i + 1];
        }
        w->at[w->n] = w->at[w->n + 1];
        if (best + 1 < w->n) st = short_pair(e, w, p, best);
        if (!st && best) st = short_pair(e, w, p, best - 1);
    }
    for (uint32_t i = 0; !st && i < w->n; i++)
        st = emit(e, w->id[i], p + w->at[i], w->at[i + 1] - w->at[i]);
    return st;
}

// False where the word has too many symbols.
static bool short_begin(const struct ht_encoder *e, struct short_word *w, const char *p, size_t n) {
    uint32_t at = 0;
    for (w->n = 0; at < n; w->n++) {
        if (w->n == HT_SHORT) return false;
        w->at[w->n] = at;
        at += symbol_first(e->t, p + at, n - at, &w->id[w->n]);
    }
    w->at[w->n] = at;
    return true;
}

// ---- long words

// A heap of four children a node: half as deep as one of two, and a node's children share lines.
// An entry is the rank of a pair and the place of its left symbol: the smallest goes first.
static void heap_down(uint64_t *h, size_t n, size_t i) {
    uint64_t x = h[i];
    for (size_t c; (c = 4 * i + 1) < n;) {
        size_t best = c, last = c + 4 < n ? c + 4 : n;
        for (size_t k = c + 1; k < last; k++)
            if (h[k] < h[best]) best = k;
        if (h[best] >= x) break;
        h[i] = h[best];
        i = best;
    }
    h[i] = x;
}

static void heap_push(uint64_t *h, size_t *n, uint64_t x) {
    size_t i = (*n)++;
    for (; i && h[(i - 1) / 4] > x; i = (i - 1) / 4) h[i] = h[(i - 1) / 4];
    h[i] = x;
}

// What symbol i and the one behind it become.
static inline bool pair_at(struct ht_encoder *e, const char *p, uint32_t i, uint32_t *rank,
                           int32_t *id) {
    const struct ht_symbol *s = e->symbols + i;
    if (s->next == NONE) return false;
    return pair_find(e, s->id, e->symbols[s->next].id, p + i, s->len + e->symbols[s->next].len,
                     rank, id);
}

// Pushes the pair of symbol i and the one behind it, if they become something. pile: the heap is
// not one yet, order does not matter.
static enum hearth_status pair_push(struct ht_encoder *e, const char *p, uint32_t i, size_t *n_heap,
                                    bool pile) {
    uint32_t rank = 0;
    int32_t id = -1;
    if (!pair_at(e, p, i, &rank, &id)) return HEARTH_OK;
    enum hearth_status st = pair_note(e, id, e->symbols[i].len);
    if (!st && *n_heap == e->cap_heap)
        st = ht_grow(&e->heap, &e->cap_heap, *n_heap + 1, sizeof(*e->heap), e->err);
    if (st) return st;
    uint64_t x = (uint64_t)rank << 32 | i;
    if (pile)
        e->heap[(*n_heap)++] = x;
    else
        heap_push(e->heap, n_heap, x);
    return HEARTH_OK;
}

// Symbols are known by the place of their first byte in the word.
static void symbols_begin(struct ht_encoder *e, const char *p, size_t n) {
    uint32_t prev = NONE;
    for (uint32_t i = 0; i < n;) {
        struct ht_symbol *s = e->symbols + i;
        s->len = symbol_first(e->t, p + i, n - i, &s->id);
        s->prev = prev;
        prev = i;
        i += s->len;
        s->next = i < n ? i : NONE;
    }
}

static enum hearth_status merge_all(struct ht_encoder *e, const char *p, size_t n_heap) {
    struct ht_symbol *symbols = e->symbols;
    enum hearth_status st = HEARTH_OK;
    while (!st && n_heap) {
        uint64_t x = e->heap[0];
        uint32_t i = (uint32_t)x, rank = 0;
        int32_t id = -1;
        e->heap[0] = e->heap[--n_heap];
        if (n_heap) heap_down(e->heap, n_heap, 0);
        struct ht_symbol *s = symbols + i;
        // every pair there is has an entry: if this one is of another rank by now, it is stale
        if (!s->len || !pair_at(e, p, i, &rank, &id) || rank != x >> 32) continue;
        struct ht_symbol *gone = symbols + s->next;
        s->len += gone->len;
        s->id = id;
        s->next = gone->next;
        gone->len = 0;
        if (s->next != NONE) symbols[s->next].prev = i;
        if (s->prev != NONE) st = pair_push(e, p, s->prev, &n_heap, false);
        if (!st) st = pair_push(e, p, i, &n_heap, false);
    }
    return st;
}

static enum hearth_status encode_long(struct ht_encoder *e, const char *p, size_t n) {
    size_t n_heap = 0;
    enum hearth_status st = HEARTH_OK;
    if (n > e->cap_symbols)
        st = ht_grow(&e->symbols, &e->cap_symbols, n, sizeof(*e->symbols), e->err);
    if (st) return st;
    symbols_begin(e, p, n);
    for (uint32_t i = 0; !st && i != NONE; i = e->symbols[i].next)
        st = pair_push(e, p, i, &n_heap, true);
    for (size_t i = n_heap / 4 + 1; !st && i-- > 0;)
        if (i < n_heap) heap_down(e->heap, n_heap, i);
    if (!st) st = merge_all(e, p, n_heap);
    for (uint32_t i = 0; !st && i != NONE; i = e->symbols[i].next)
        st = emit(e, e->symbols[i].id, p + i, e->symbols[i].len);
    return st;
}

// ---- the cache: words of up to 24 bytes, one line each, the last one stays

static inline uint64_t load_part(const char *p, size_t n) { // n < 8: zeros behind
    uint32_t a, b;
    if (n >= 4) {
        memcpy(&a, p, 4);
        memcpy(&b, p + n - 4, 4);
        return a | ((uint64_t)b >> 8 * (8 - n)) << 32;
    }
    if (!n) return 0;
    return (uint64_t)(uint8_t)p[0] | (uint64_t)(uint8_t)p[n / 2] << 8 * (n / 2) |
           (uint64_t)(uint8_t)p[n - 1] << 8 * (n - 1);
}

static inline struct ht_cache_line *cache_line(const struct ht_encoder *e, const char *p, size_t n,
                                               uint64_t text[3]) {
    text[0] = n >= 8 ? ht_load64(p) : load_part(p, n);
    text[1] = n >= 16 ? ht_load64(p + 8) : n > 8 ? load_part(p + 8, n - 8) : 0;
    text[2] = n == 24 ? ht_load64(p + 16) : n > 16 ? load_part(p + 16, n - 16) : 0;
    uint64_t h = text[0] * 0x9fb21c651e98df25u;
    if (n > 8) h ^= (text[1] + (text[2] << 1) + (text[2] >> 7)) * 0x9e3779b97f4a7c15u;
    h = (h ^ h >> 32) * 0xbf58476d1ce4e5b9u;
    return e->cache + ((uint32_t)(h >> 40) & e->cache_mask);
}

static enum hearth_status encode_new(struct ht_encoder *e, const char *p, size_t n) {
    struct short_word w;
    e->word++;
    if (e->t->ignore_merges) {
        int32_t id = ht_vocab_find(&e->t->v, p, n, HT_TYPES_TEXT);
        if (id >= 0) {
            e->ids[e->n_ids++] = id;
            return HEARTH_OK;
        }
    }
    return short_begin(e, &w, p, n) ? encode_short(e, &w, p) : encode_long(e, p, n);
}

enum hearth_status ht_encode_word(struct ht_encoder *e, const char *p, size_t n) {
    enum hearth_status st = ht_ids_room(e, n > HT_CACHE_IDS ? n : HT_CACHE_IDS);
    if (st || n > HT_CACHE_TEXT) return st ? st : encode_new(e, p, n);
    uint64_t text[3];
    struct ht_cache_line *line = cache_line(e, p, n, text);
    if (line->n == n && line->text[0] == text[0] && line->text[1] == text[1] &&
        line->text[2] == text[2]) {
        memcpy(e->ids + e->n_ids, line->ids, sizeof(line->ids));
        e->n_ids += line->n_ids;
        return HEARTH_OK;
    }
    size_t before = e->n_ids;
    st = encode_new(e, p, n);
    if (st || e->n_ids - before > HT_CACHE_IDS) return st;
    line->n = (uint8_t)n;
    line->n_ids = (uint8_t)(e->n_ids - before);
    memcpy(line->text, text, sizeof(text));
    memcpy(line->ids, e->ids + before, (e->n_ids - before) * sizeof(*line->ids));
    return HEARTH_OK;
}
