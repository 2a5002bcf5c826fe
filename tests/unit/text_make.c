// SPDX-License-Identifier: MIT
#include "unit/text_make.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int letter(int byte) {
    int next = 256;
    for (int b = 0; b < 256; b++) {
        bool plain = (b >= '!' && b <= '~') || (b >= 0xa1 && b <= 0xac) || b >= 0xae;
        if (b == byte) return plain ? b : next;
        next += !plain;
    }
    abort();
}

struct make_str make_letters(const char *p, size_t n) {
    struct make_str s = {.n = 0};
    if (2 * n > sizeof(s.b)) abort();
    for (size_t i = 0; i < n; i++) {
        int c = letter((uint8_t)p[i]);
        if (c < 0x80) {
            s.b[s.n++] = (char)c;
        } else {
            s.b[s.n++] = (char)(0xc0 | c >> 6);
            s.b[s.n++] = (char)(0x80 | (c & 0x3f));
        }
    }
    return s;
}

int32_t make_token(struct make *m, const char *p, size_t n, int32_t type, float score) {
    if (m->n_tokens == MAKE_TOKENS || n > MAKE_NAME) abort();
    memcpy(m->tokens[m->n_tokens].b, p, n);
    m->tokens[m->n_tokens].n = (uint32_t)n;
    m->types[m->n_tokens] = type;
    m->scores[m->n_tokens] = score;
    return (int32_t)m->n_tokens++;
}

int32_t make_name(struct make *m, const char *name, int32_t type) {
    return make_token(m, name, strlen(name), type, 0);
}

static int32_t find(const struct make *m, const char *p, size_t n) {
    for (uint32_t i = 0; i < m->n_tokens; i++)
        if (m->tokens[i].n == n && !memcmp(m->tokens[i].b, p, n)) return (int32_t)i;
    return -1;
}

int32_t make_merge(struct make *m, const char *left, const char *right) {
    struct make_str a = make_letters(left, strlen(left)), b = make_letters(right, strlen(right));
    struct make_str both = a;
    if (m->n_merges == MAKE_MERGES || a.n + b.n + 1 > MAKE_NAME) abort();
    memcpy(both.b + a.n, b.b, b.n);
    both.n += b.n;
    uint32_t i = m->n_merges++;
    m->left[i].n = (uint32_t)strlen(left);
    memcpy(m->left[i].b, left, m->left[i].n);
    m->right[i].n = (uint32_t)strlen(right);
    memcpy(m->right[i].b, right, m->right[i].n);
    struct make_str *line = &m->merges[i];
    memcpy(line->b, a.b, a.n);
    line->b[a.n] = ' ';
    memcpy(line->b + a.n + 1, b.b, b.n);
    line->n = a.n + 1 + b.n;
    int32_t id = find(m, both.b, both.n);
    return id >= 0 ? id : make_token(m, both.b, both.n, 1, 0);
}

void make_key(struct make *m, const char *key, enum ht_gguf_type type, int64_t value) {
    if (m->n_keys == MAKE_KEYS) abort();
    m->keys[m->n_keys].key = key;
    m->keys[m->n_keys].type = type;
    m->keys[m->n_keys++].value = value;
}

struct make *make_bpe(const char *pre) {
    struct make *m = calloc(1, sizeof(*m));
    if (!m) abort();
    m->model = "gpt2";
    m->pre = pre;
    for (int b = 0; b < 256; b++) {
        char c = (char)b;
        struct make_str s = make_letters(&c, 1);
        make_token(m, s.b, s.n, 1, 0);
    }
    return m;
}

struct make *make_spm(void) {
    struct make *m = calloc(1, sizeof(*m));
    char name[8];
    if (!m) abort();
    m->model = "llama";
    m->no_merges = true;
    make_name(m, "<unk>", 2);
    make_name(m, "<s>", 3);
    make_name(m, "</s>", 3);
    for (unsigned b = 0; b < 256; b++) {
        snprintf(name, sizeof(name), "<0x%02X>", b & 0xffu);
        make_name(m, name, 6);
    }
    return m;
}

void make_free(struct make *m) {
    ht_gguf_close(m->g);
    free(m->bytes);
    free(m);
}

// ---- the file

static void put(struct make *m, const void *p, size_t n) {
    memcpy(m->bytes + m->n_bytes, p, n);
    m->n_bytes += n;
}
static void put_u32(struct make *m, uint32_t v) {
    put(m, &v, 4);
}
static void put_u64(struct make *m, uint64_t v) {
    put(m, &v, 8);
}
static void put_bytes(struct make *m, const char *p, size_t n) {
    put_u64(m, n);
    put(m, p, n);
}
static void put_key(struct make *m, const char *key, uint32_t type) {
    put_bytes(m, key, strlen(key));
    put_u32(m, type);
}
static void put_array(struct make *m, const char *key, uint32_t type, uint64_t n) {
    put_key(m, key, HT_GGUF_ARR);
    put_u32(m, type);
    put_u64(m, n);
}

static void build(struct make *m) {
    free(m->bytes);
    m->bytes = aligned_alloc(64, (64 << 10) + (size_t)m->n_tokens * 64);
    if (!m->bytes) abort();
    m->n_bytes = 0;
    put(m, "GGUF", 4);
    put_u32(m, 3);
    put_u64(m, 0);
    put_u64(m, 1u + (m->model != NULL) + (m->pre != NULL) + !m->no_tokens + !m->no_types +
                   !m->no_scores + !m->no_merges + m->n_keys);
    put_key(m, "general.architecture", HT_GGUF_STR);
    put_bytes(m, "none", 4);
    if (m->model) {
        put_key(m, "tokenizer.ggml.model", HT_GGUF_STR);
        put_bytes(m, m->model, strlen(m->model));
    }
    if (m->pre) {
        put_key(m, "tokenizer.ggml.pre", HT_GGUF_STR);
        put_bytes(m, m->pre, strlen(m->pre));
    }
    if (!m->no_tokens) {
        put_array(m, "tokenizer.ggml.tokens", HT_GGUF_STR, m->n_tokens);
        for (uint32_t i = 0; i < m->n_tokens; i++) put_bytes(m, m->tokens[i].b, m->tokens[i].n);
    }
    if (!m->no_types) {
        put_array(m, "tokenizer.ggml.token_type", HT_GGUF_I32, m->n_tokens - m->n_types_off);
        put(m, m->types, 4 * (size_t)(m->n_tokens - m->n_types_off));
    }
    if (!m->no_scores) {
        put_array(m, "tokenizer.ggml.scores", HT_GGUF_F32, m->n_tokens - m->n_scores_off);
        put(m, m->scores, 4 * (size_t)(m->n_tokens - m->n_scores_off));
    }
    if (!m->no_merges) {
        put_array(m, "tokenizer.ggml.merges", HT_GGUF_STR, m->n_merges);
        for (uint32_t i = 0; i < m->n_merges; i++) put_bytes(m, m->merges[i].b, m->merges[i].n);
    }
    for (uint32_t i = 0; i < m->n_keys; i++) {
        put_key(m, m->keys[i].key, m->keys[i].type);
        put(m, &m->keys[i].value, m->keys[i].type == HT_GGUF_BOOL ? 1 : 4);
    }
    while (m->n_bytes % 32) put(m, "", 1);
}

enum hearth_status make_load(struct make *m, struct ht_tokenizer **t, struct hearth_error *err) {
    ht_gguf_close(m->g);
    m->g = NULL;
    build(m);
    enum hearth_status st = ht_gguf_open_bytes(m->bytes, m->n_bytes, "made.gguf", &m->g, err);
    return st ? st : ht_tokenizer_load(m->g, NULL, t, err);
}

// ---- the slow way

struct piece {
    const char *p;
    size_t n;
};

static int rank_of(const struct make *m, const struct piece *a) {
    for (uint32_t i = 0; i < m->n_merges; i++)
        if (m->left[i].n == a[0].n && m->right[i].n == a[1].n &&
            !memcmp(m->left[i].b, a[0].p, a[0].n) && !memcmp(m->right[i].b, a[1].p, a[1].n))
            return (int)i;
    return -1;
}

static void join(struct piece *a, size_t *n, size_t i) {
    a[i].n += a[i + 1].n;
    memmove(a + i + 1, a + i + 2, (*n - i - 2) * sizeof(*a));
    --*n;
}

size_t naive_bpe(const struct make *m, const char *p, size_t n, int32_t *ids) {
    struct piece *a = malloc((n + 1) * sizeof(*a));
    size_t k = n;
    if (!a) abort();
    for (size_t i = 0; i < n; i++) a[i] = (struct piece){p + i, 1};
    for (;;) {
        int best = -1;
        size_t at = 0;
        for (size_t i = 0; i + 1 < k; i++) {
            int rank = rank_of(m, a + i);
            if (rank >= 0 && (best < 0 || rank < best)) {
                best = rank;
                at = i;
            }
        }
        if (best < 0) break;
        join(a, &k, at);
    }
    for (size_t i = 0; i < k; i++) {
        struct make_str s = make_letters(a[i].p, a[i].n);
        ids[i] = find(m, s.b, s.n);
    }
    free(a);
    return k;
}

static size_t char_len(const char *p) {
    uint8_t b = (uint8_t)*p;
    return b < 0x80 ? 1 : b < 0xe0 ? 2 : b < 0xf0 ? 3 : 4;
}

// Normal and unused tokens only: those that text can become.
static int32_t find_spm(const struct make *m, const char *p, size_t n) {
    int32_t id = find(m, p, n);
    return id >= 0 && (m->types[id] == 1 || m->types[id] == 5) ? id : -1;
}

size_t naive_spm(const struct make *m, const char *p, size_t n, int32_t *ids) {
    struct piece *a = malloc((n + 1) * sizeof(*a));
    size_t k = 0, n_ids = 0;
    if (!a) abort();
    for (size_t i = 0; i < n; i += a[k++].n) a[k] = (struct piece){p + i, char_len(p + i)};
    for (;;) {
        int32_t best = -1;
        size_t at = 0;
        for (size_t i = 0; i + 1 < k; i++) {
            int32_t id = find_spm(m, a[i].p, a[i].n + a[i + 1].n);
            if (id >= 0 && (best < 0 || m->scores[id] > m->scores[best])) {
                best = id;
                at = i;
            }
        }
        if (best < 0) break;
        join(a, &k, at);
    }
    for (size_t i = 0; i < k; i++) {
        int32_t id = find_spm(m, a[i].p, a[i].n);
        if (id >= 0) ids[n_ids++] = id;
        for (size_t b = 0; id < 0 && b < a[i].n; b++) ids[n_ids++] = 3 + (uint8_t)a[i].p[b];
    }
    free(a);
    return n_ids;
}

uint32_t make_random(uint64_t *seed, uint32_t below) {
    *seed = *seed * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(*seed >> 33) % below;
}
