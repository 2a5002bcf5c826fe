// SPDX-License-Identifier: MIT
// Tokens that are read from text as a whole, and those that end a generation. A set is sorted by
// bytes, so that a walk over the text narrows it byte by byte. Immutable after init.
#include "base/mem.h"
#include "text/internal.h"

static int token_compare(const struct ht_vocab *v, int32_t a, int32_t b) {
    uint32_t na, nb;
    const char *pa = ht_vocab_token(v, a, &na), *pb = ht_vocab_token(v, b, &nb);
    int c = memcmp(pa, pb, na < nb ? na : nb);
    if (c) return c;
    if (na != nb) return na < nb ? -1 : 1;
    return a < b ? -1 : a > b;
}

static void sift_down(const struct ht_vocab *v, int32_t *ids, size_t i, size_t n) {
    for (size_t child; (child = 2 * i + 1) < n; i = child) {
        if (child + 1 < n && token_compare(v, ids[child], ids[child + 1]) < 0) child++;
        if (token_compare(v, ids[i], ids[child]) >= 0) return;
        int32_t x = ids[i];
        ids[i] = ids[child];
        ids[child] = x;
    }
}

// Heap sort: libc's qsort has no room for the vocabulary, and may take heap of its own.
static void sort_ids(const struct ht_vocab *v, int32_t *ids, size_t n) {
    for (size_t i = n / 2; i-- > 0;) sift_down(v, ids, i, n);
    for (size_t i = n; i-- > 1;) {
        int32_t x = ids[0];
        ids[0] = ids[i];
        ids[i] = x;
        sift_down(v, ids, 0, i);
    }
}

enum hearth_status ht_special_init(struct ht_special_set *s, const struct ht_vocab *v,
                                   unsigned types, struct hearth_error *err) {
    uint32_t n = 0, len;
    for (int32_t id = 0; id < v->n; id++) n += types >> ht_vocab_type(v, id) & 1;
    if (!n) return HEARTH_OK;
    s->ids = ht_alloc(n * sizeof(*s->ids));
    if (!s->ids) return ht_fail_nomem(err, n * sizeof(*s->ids), "the special tokens");
    for (int32_t id = 0; id < v->n; id++) {
        const char *p = ht_vocab_token(v, id, &len);
        if (!(types >> ht_vocab_type(v, id) & 1) || !len) continue;
        if (len > HT_SPECIAL_BYTES)
            return ht_fail(err, HEARTH_E_UNSUPPORTED,
                           "special or user-defined token %d of the vocabulary has %u bytes, at "
                           "most %d are supported",
                           id, len, HT_SPECIAL_BYTES);
        ht_set_add(s->first, (uint8_t)p[0]);
        s->ids[s->n++] = id;
    }
    sort_ids(v, s->ids, s->n);
    return HEARTH_OK;
}

void ht_special_deinit(struct ht_special_set *s) {
    ht_free(s->ids);
}

// First of [lo, hi) whose byte `depth` is at least `byte`. All of them are longer than depth and
// agree before it.
static uint32_t bound(const struct ht_special_set *s, const struct ht_vocab *v, uint32_t lo,
                      uint32_t hi, size_t depth, unsigned byte) {
    while (lo < hi) {
        uint32_t mid = lo + (hi - lo) / 2;
        if ((uint8_t)v->blob[v->off[s->ids[mid]] + depth] < byte)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo;
}

static int32_t longest_at(const struct ht_special_set *s, const struct ht_vocab *v, const char *p,
                          size_t n, size_t *len) {
    uint32_t lo = 0, hi = s->n;
    int32_t best = -1;
    for (size_t depth = 0; depth < n && lo < hi; depth++) {
        unsigned byte = (uint8_t)p[depth];
        lo = bound(s, v, lo, hi, depth, byte);
        hi = bound(s, v, lo, hi, depth, byte + 1);
        // the shortest sort first: those that end here make room for the longer ones
        while (lo < hi && v->off[s->ids[lo] + 1] - v->off[s->ids[lo]] == depth + 1) {
            if (best < 0 || *len != depth + 1) best = s->ids[lo];
            *len = depth + 1;
            lo++;
        }
    }
    return best;
}

int32_t ht_special_find(const struct ht_special_set *s, const struct ht_vocab *v, const char *p,
                        size_t n, size_t *at, size_t *len) {
    if (!s->n) return -1;
    for (size_t i = 0; i < n; i++) {
        if (!ht_set_has(s->first, (uint8_t)p[i])) continue;
        int32_t id = longest_at(s, v, p + i, n - i, len);
        if (id < 0) continue;
        *at = i;
        return id;
    }
    return -1;
}

// Names that models give to the token at the end of a turn, a message or a document. Those around
// files that are filled in a prompt may have as plain text, so user-defined ones stay so, where the
// others become control tokens, which a plain text cannot forge.
static const char *const file_names[] = {
    "<|fim_pad|>",  "<fim_pad>",  "<fim-pad>",  "<|repo_name|>",
    "<|fim_repo|>", "<fim-repo>", "<reponame>", "<|file_sep|>",
};
static const char *const end_names[] = {
    "</s>",
    "<eos>",
    "<|eos|>",
    "<|endoftext|>",
    "<|end_of_text|>",
    "<|im_end|>",
    "<|eot_id|>",
    "<|eom_id|>",
    "<|eot|>",
    "<|eom|>",
    "<|end|>",
    "<|return|>",
    "<|call|>",
    "<|end_of_turn|>",
    "<|END_OF_TURN_TOKEN|>",
    "<end_of_turn>",
    "<end_of_utterance>",
    "<turn|>",
    "<EOT>",
    "[EOT]",
    "[EOS]",
    "<｜end▁of▁sentence｜>",
};

// Names between bars are no words of any text, so they may be ordinary tokens, as converters write
// SentencePiece's own user-defined ones.
static int32_t find_name(const struct ht_vocab *v, const char *name) {
    unsigned types = 1 << HT_TOKEN_CONTROL | 1 << HT_TOKEN_USER;
    bool barred = !strncmp(name, "<|", 2) || !strncmp(name, "<\xef\xbd\x9c", 4);
    int32_t id = ht_vocab_find(v, name, strlen(name), v->typed ? types : HT_TYPES_ANY);
    return id >= 0 || !barred ? id : ht_vocab_find(v, name, strlen(name), HT_TYPES_TEXT);
}

// stays: as a user-defined token, if it is one.
static void mark_end(struct ht_vocab *v, const char *name, bool stays) {
    int32_t id = find_name(v, name);
    if (id < 0) return;
    stays = stays && ht_vocab_type(v, id) == HT_TOKEN_USER;
    v->flags[id] = (stays ? HT_TOKEN_USER : HT_TOKEN_CONTROL) | HT_FLAG_END;
}

void ht_special_mark_ends(struct ht_vocab *v) {
    // where a message may end in a call or a return, "end" only closes one of several messages
    bool harmony = find_name(v, "<|return|>") >= 0 && find_name(v, "<|call|>") >= 0;
    for (size_t i = 0; i < sizeof(file_names) / sizeof(*file_names); i++)
        mark_end(v, file_names[i], true);
    for (size_t i = 0; i < sizeof(end_names) / sizeof(*end_names); i++)
        if (!harmony || strcmp(end_names[i], "<|end|>") != 0) mark_end(v, end_names[i], false);
}
