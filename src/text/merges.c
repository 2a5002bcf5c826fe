// SPDX-License-Identifier: MIT
// The merges of a byte-level BPE vocabulary as a flat table from pairs of ids to ranks.
// Invariant: every id in it is a token, and a pair is in it once, with its smallest rank.
#include "base/mem.h"
#include "text/internal.h"

static const char key_merges[] = "tokenizer.ggml.merges";

static void pair_insert(struct ht_tokenizer *t, int32_t left, int32_t right, uint32_t rank) {
    uint64_t key = ht_pair_key(left, right);
    uint32_t h = ht_pair_hash(t, key), i = h & t->pair_mask;
    uint32_t bit = ht_filter_bit(t, h);
    t->pair_filter[bit / 64] |= (uint64_t)1 << bit % 64;
    for (; t->pairs[i]; i = (i + 1) & t->pair_mask)
        if (ht_pair_is(t->pairs[i], key)) return;
    t->pairs[i] = (uint64_t)1 << 63 | (uint64_t)rank << 2 * HT_PAIR_BITS | key;
}

// A part of a merge: as tokens are kept, in out (room for n).
static size_t part_decode(const char *p, size_t n, char *out) {
    size_t k;
    if (ht_alphabet_undo(p, n, out, &k)) return k;
    memcpy(out, p, n);
    return n;
}

struct part {
    const char *p;
    size_t n;
    uint64_t hash;
};

struct merge {
    struct part left, right; // left.p: both, one behind the other
    struct ht_str line;      // of the file, for messages
    int32_t left_id, right_id, id;
};

static int32_t part_find(const struct ht_vocab *v, const struct part *x) {
    int32_t id = ht_vocab_find_hashed(v, x->p, x->n, x->hash, HT_TYPES_TEXT);
    return id >= 0 ? id : ht_vocab_find_hashed(v, x->p, x->n, x->hash, HT_TYPES_ANY);
}

static struct part part_read(const struct ht_vocab *v, const char *p, size_t n, char *out) {
    struct part x = {out, part_decode(p, n, out), 0};
    x.hash = ht_hash_text(x.p, x.n, v->seed);
    __builtin_prefetch(v->slots + ((uint32_t)x.hash & v->mask));
    return x;
}

// What part_find will look at, where the first slot is the right one.
static void part_prefetch(const struct ht_vocab *v, const struct part *x, bool bytes) {
    uint32_t id1 = v->slots[(uint32_t)x->hash & v->mask].id1;
    if (!id1) return;
    __builtin_prefetch(bytes ? (const void *)(v->blob + v->off[id1 - 1]) : v->off + id1 - 1);
    if (!bytes) __builtin_prefetch(v->flags + id1 - 1);
}

static bool token_is(const struct ht_vocab *v, int32_t id, const char *p, size_t n) {
    return id < v->n && v->off[id + 1] - v->off[id] == n &&
           ht_bytes_equal(v->blob + v->off[id], p, n) && HT_TYPES_TEXT >> ht_vocab_type(v, id) & 1;
}

static enum hearth_status fail_merge(const struct ht_gguf *g, uint64_t i, const struct ht_str *s,
                                     const char *what, struct hearth_error *err) {
    char quoted[HT_QUOTE_BYTES];
    return ht_fail(err, HEARTH_E_FORMAT, "%s: %s[%llu] is %s, %s", ht_gguf_name(g), key_merges,
                   (unsigned long long)i, ht_quote(quoted, s->data, s->len), what);
}

static const char unknown[] = "two tokens whose joint is a token as well were expected";

// Reads up to HT_BATCH merges, the first of which is number i; buf has room for n_buf bytes each.
static enum hearth_status batch_read(const struct ht_gguf *g, const struct ht_gguf_kv *kv,
                                     const struct ht_vocab *v, const uint8_t **cursor, uint64_t i,
                                     char *buf, size_t n_buf, struct merge *m, size_t *n,
                                     struct hearth_error *err) {
    for (*n = 0; *n < HT_BATCH && ht_gguf_next_str(kv, cursor, &m->line); buf += n_buf, m++, ++*n) {
        const struct ht_str *s = &m->line;
        const char *gap = s->len > 2 ? memchr(s->data + 1, ' ', s->len - 2) : NULL;
        if (!gap)
            return fail_merge(g, i + *n, s, "two tokens with a space between were expected", err);
        if (s->len > n_buf) return fail_merge(g, i + *n, s, unknown, err);
        m->left = part_read(v, s->data, (size_t)(gap - s->data), buf);
        m->right = part_read(v, gap + 1, s->len - 1 - (size_t)(gap - s->data), buf + m->left.n);
    }
    return HEARTH_OK;
}

// The batch in steps, each of which asks for the memory of the next.
static enum hearth_status batch_insert(const struct ht_gguf *g, struct ht_tokenizer *t, uint64_t i,
                                       struct merge *m, size_t n, int32_t *last,
                                       struct hearth_error *err) {
    const struct ht_vocab *v = &t->v;
    for (int bytes = 0; bytes < 2; bytes++)
        for (size_t k = 0; k < n; k++) {
            part_prefetch(v, &m[k].left, bytes);
            part_prefetch(v, &m[k].right, bytes);
        }
    for (size_t k = 0; k < n; k++) {
        struct part both = {m[k].left.p, m[k].left.n + m[k].right.n, 0};
        m[k].left_id = part_find(v, &m[k].left);
        m[k].right_id = part_find(v, &m[k].right);
        // vocabularies list their tokens in the order of the merges: the guess nearly always holds
        if (token_is(v, *last + 1, both.p, both.n)) {
            m[k].id = *last + 1;
        } else {
            both.hash = ht_hash_text(both.p, both.n, v->seed);
            m[k].id = part_find(v, &both);
        }
        if (m[k].left_id < 0 || m[k].right_id < 0 || m[k].id < 0)
            return fail_merge(g, i + k, &m[k].line, unknown, err);
        *last = t->joints[i + k] = m[k].id;
        uint32_t h = ht_pair_hash(t, ht_pair_key(m[k].left_id, m[k].right_id));
        __builtin_prefetch(t->pairs + (h & t->pair_mask), 1);
    }
    for (size_t k = 0; k < n; k++) pair_insert(t, m[k].left_id, m[k].right_id, (uint32_t)(i + k));
    return HEARTH_OK;
}

static enum hearth_status read_merges(const struct ht_gguf *g, const struct ht_gguf_kv *kv,
                                      struct ht_tokenizer *t, char *buf, size_t n_buf,
                                      struct hearth_error *err) {
    const uint8_t *cursor = NULL;
    struct merge batch[HT_BATCH];
    int32_t last = -1;
    enum hearth_status st = HEARTH_OK;
    size_t n = 0;
    for (uint64_t i = 0; !st && i < kv->n; i += n) {
        st = batch_read(g, kv, &t->v, &cursor, i, buf, n_buf, batch, &n, err);
        if (!st) st = batch_insert(g, t, i, batch, n, &last, err);
    }
    return st;
}

enum hearth_status ht_merges_load(const struct ht_gguf *g, struct ht_tokenizer *t,
                                  struct hearth_error *err) {
    const struct ht_gguf_kv *kv = ht_gguf_find(g, key_merges);
    char found[HT_GGUF_DESCRIBE_BYTES];
    if (!kv || kv->type != HT_GGUF_ARR || kv->arr_type != HT_GGUF_STR)
        return ht_fail(err, HEARTH_E_FORMAT,
                       "%s: metadata key %s is %s, an array of strings was expected",
                       ht_gguf_name(g), key_merges, kv ? ht_gguf_describe(kv, found) : "missing");
    if (kv->n > HT_PAIR_MAX || t->v.n > HT_PAIR_MAX)
        return ht_fail(err, HEARTH_E_UNSUPPORTED,
                       "%s: %d tokens and %llu merges, at most %d of each were expected",
                       ht_gguf_name(g), t->v.n, (unsigned long long)kv->n, HT_PAIR_MAX);
    size_t n = (size_t)kv->n, n_slots = 16, n_buf = 4 * (size_t)t->v.max_bytes + 16;
    while (n_slots < n + n / 2) n_slots *= 2;
    t->pair_mask = (uint32_t)(n_slots - 1);
    t->pairs = ht_table_alloc(n_slots * sizeof(*t->pairs));
    t->pair_seed = ht_table_seed(t->pairs);
    t->joints = ht_calloc(n, sizeof(*t->joints));
    t->n_joints = (uint32_t)n;
    t->pair_filter = ht_calloc(n_slots / 16, sizeof(*t->pair_filter));
    char *buf = ht_calloc(HT_BATCH, n_buf); // a merge of known tokens is no longer in the alphabet
    enum hearth_status st =
        !t->pairs || !t->joints || !t->pair_filter || !buf
            ? ht_fail_nomem(err, n_slots * sizeof(*t->pairs), "a table of merges")
            : read_merges(g, kv, t, buf, n_buf, err);
    ht_free(buf);
    return st;
}
