// SPDX-License-Identifier: MIT
#include "golden.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "shared_dir.h"

const char *const golden_archs[GOLDEN_N_ARCHS] = {
    "archs/qwen3-dense", "archs/qwen2-dense",  "archs/qwen2-rope-yarn", "archs/llama-dense",
    "archs/llama-moe",   "archs/qwen3moe-moe", "archs/gpt2-dense",
};

const char *const golden_quants[GOLDEN_N_QUANTS] = {
    "quants/qwen3.F32",           "quants/qwen3.F16",    "quants/qwen3.BF16",
    "quants/qwen3.Q4_0",          "quants/qwen3.Q4_1",   "quants/qwen3.Q5_0",
    "quants/qwen3.Q5_1",          "quants/qwen3.Q8_0",   "quants/qwen3.Q2_K",
    "quants/qwen3.Q3_K_M",        "quants/qwen3.Q4_K_M", "quants/qwen3.Q5_K_M",
    "quants/qwen3.Q6_K",          "quants/qwen3.IQ3_S",  "quants/qwen3.IQ4_NL",
    "quants/qwen3.IQ4_XS",        "quants/qwen3.TQ1_0",  "quants/qwen3.TQ2_0",
    "quants/llama-moe.MXFP4_MOE",
};

static void path_of(const char *name, const char *suffix, char out[1024]) {
    int n = snprintf(out, 1024, "%s/golden/%s%s", shared_dir(), name, suffix);
    assert_true(n > 0 && n < 1024);
}

const char *golden_dir(void) {
    char path[1024];
    struct stat st;
    path_of("archs", "", path);
    if (stat(path, &st) != 0) {
        print_message("skipped: no folder %s (set HEARTH_SHARED)\n", path);
        skip();
    }
    return shared_dir();
}

static char *read_file(const char *path, size_t *n) {
    FILE *f = fopen(path, "rb");
    if (!f) fail_msg("cannot open %s", path);
    assert_int_equal(fseek(f, 0, SEEK_END), 0);
    long size = ftell(f);
    assert_true(size >= 0);
    rewind(f);
    char *data = malloc((size_t)size + 1);
    assert_non_null(data);
    assert_int_equal(fread(data, 1, (size_t)size, f), (size_t)size);
    fclose(f);
    data[size] = 0;
    *n = (size_t)size;
    return data;
}

static void read_tokens(const char *name, struct golden *out) {
    char folder[64], path[1024];
    size_t n;
    snprintf(folder, sizeof folder, "%.*s", (int)(strchr(name, '/') - name), name);
    path_of(folder, "/tokens.txt", path);
    char *text = read_file(path, &n), *at = text;
    out->tokens = malloc((n + 1) * sizeof *out->tokens);
    assert_non_null(out->tokens);
    while (*at) {
        char *end;
        long v = strtol(at, &end, 10);
        if (end == at) break;
        out->tokens[out->n_tokens++] = (int32_t)v;
        at = *end == ',' ? end + 1 : end;
    }
    free(text);
}

void golden_open(const char *name, struct golden *out) {
    struct hearth_error err;
    char path[1024];
    size_t n_bytes;
    *out = (struct golden){0};
    path_of(name, ".gguf", path);
    if (ht_gguf_open(path, &out->g, &err)) fail_msg("%s", err.message);
    if (ht_model_load(out->g, NULL, &out->m, &err)) fail_msg("%s", err.message);
    out->plan = ht_model_plan(out->m);
    out->n_vocab = out->plan->n_vocab;
    read_tokens(name, out);
    path_of(name, ".logits", path);
    out->logits = (float *)(void *)read_file(path, &n_bytes);
    assert_int_equal(n_bytes, (size_t)out->n_tokens * out->n_vocab * sizeof(float));
}

void golden_open_some(const char *name, struct golden *out) {
    golden_open(name, out);
    if (out->n_tokens > GOLDEN_TOKENS) out->n_tokens = GOLDEN_TOKENS;
}

void golden_close(struct golden *g) {
    ht_model_free(g->m);
    ht_gguf_close(g->g);
    free(g->tokens);
    free(g->logits);
}

// ---- running

#define MAX_SEQS 33

struct sequence {
    const int32_t *tokens;
    int32_t *own; // what to free of it
    uint32_t n, pos, chunk;
    uint32_t *pages;
};

struct driver {
    const struct golden *g;
    const struct golden_run *r;
    struct sequence seqs[MAX_SEQS]; // 0 is the one whose logits count
    uint32_t n_seqs, max_tokens, n_pages;
    struct ht_batch_seq batch_seqs[MAX_SEQS];
    int32_t *tokens;
    uint32_t *pos, *seq, *outputs;
};

static uint32_t next_random(uint32_t *state) {
    *state = *state * 1664525u + 1013904223u;
    return *state >> 8;
}

// The others have other tokens, lengths and chunk sizes.
static void init_others(struct driver *d, uint32_t n) {
    for (uint32_t i = 1; i <= n; i++) {
        struct sequence *s = &d->seqs[i];
        s->n = 1 + (i * 13) % d->g->n_tokens;
        s->chunk = 1 + (i * 5) % 9;
        s->own = malloc(s->n * sizeof *s->own);
        assert_non_null(s->own);
        for (uint32_t k = 0; k < s->n; k++)
            s->own[k] = (int32_t)((k * 31 + i * 17 + 3) % d->g->n_vocab);
        s->tokens = s->own;
    }
}

static void deal_pages(struct driver *d, uint32_t seed) {
    uint32_t total = 0, next = 0;
    for (uint32_t i = 0; i < d->n_seqs; i++)
        total += (d->seqs[i].n + HT_PAGE_TOKENS - 1) / HT_PAGE_TOKENS;
    d->n_pages = total + 3;
    uint32_t *deck = malloc(d->n_pages * sizeof *deck);
    assert_non_null(deck);
    for (uint32_t i = 0; i < d->n_pages; i++) deck[i] = i;
    for (uint32_t i = d->n_pages - 1; i > 0 && seed != 0; i--) {
        uint32_t k = next_random(&seed) % (i + 1), t = deck[i];
        deck[i] = deck[k];
        deck[k] = t;
    }
    for (uint32_t i = 0; i < d->n_seqs; i++) {
        uint32_t n = (d->seqs[i].n + HT_PAGE_TOKENS - 1) / HT_PAGE_TOKENS;
        d->seqs[i].pages = malloc(n * sizeof(uint32_t));
        assert_non_null(d->seqs[i].pages);
        for (uint32_t k = 0; k < n; k++) d->seqs[i].pages[k] = deck[next++];
        d->batch_seqs[i] = (struct ht_batch_seq){d->seqs[i].pages, n};
    }
    free(deck);
}

bool golden_wants(const struct golden_run *r, uint32_t seq, uint32_t pos) {
    return r->one_in == 0 ? seq == 0 && pos >= r->from : (pos / 2 + seq) % r->one_in == 0;
}

// A chunk of every sequence that is not through; the counted one stands in the middle.
static void fill_batch(struct driver *d, struct ht_batch *b) {
    *b = (struct ht_batch){.tokens = d->tokens,
                           .pos = d->pos,
                           .seq = d->seq,
                           .n_seqs = d->n_seqs,
                           .seqs = d->batch_seqs,
                           .outputs = d->outputs};
    for (uint32_t k = 0; k < d->n_seqs; k++) {
        uint32_t i = (k + d->n_seqs - d->n_seqs / 2) % d->n_seqs;
        struct sequence *s = &d->seqs[i];
        for (uint32_t c = 0; c < s->chunk && s->pos < s->n; c++, s->pos++) {
            if (golden_wants(d->r, i, s->pos)) d->outputs[b->n_outputs++] = b->n_tokens;
            d->tokens[b->n_tokens] = s->tokens[s->pos];
            d->pos[b->n_tokens] = s->pos;
            d->seq[b->n_tokens++] = i;
        }
    }
}

static void init_driver(struct driver *d, const struct golden *g, const struct golden_run *r) {
    *d = (struct driver){.g = g, .r = r, .n_seqs = 1 + r->n_among};
    assert_true(d->n_seqs <= MAX_SEQS);
    uint32_t chunk = r->chunk ? r->chunk : g->n_tokens;
    d->seqs[0] = (struct sequence){.tokens = g->tokens, .n = g->n_tokens, .chunk = chunk};
    init_others(d, r->n_among);
    for (uint32_t i = 0; i < d->n_seqs; i++) d->max_tokens += d->seqs[i].chunk;
    deal_pages(d, r->page_seed);
    d->tokens = calloc(d->max_tokens, sizeof *d->tokens);
    d->pos = calloc(d->max_tokens, sizeof *d->pos);
    d->seq = calloc(d->max_tokens, sizeof *d->seq);
    d->outputs = calloc(d->max_tokens, sizeof *d->outputs);
    assert_true(d->tokens && d->pos && d->seq && d->outputs);
}

static void free_driver(struct driver *d) {
    for (uint32_t i = 0; i < d->n_seqs; i++) {
        free(d->seqs[i].own);
        free(d->seqs[i].pages);
    }
    free(d->tokens);
    free(d->pos);
    free(d->seq);
    free(d->outputs);
}

static void run_batches(struct driver *d, const struct ht_backend_ops *ops, struct ht_prepared *p,
                        float *out) {
    struct hearth_error err;
    uint32_t n_vocab = d->g->n_vocab;
    while (d->seqs[0].pos < d->seqs[0].n) {
        struct ht_batch b;
        const float *logits = NULL;
        fill_batch(d, &b);
        if (ops->execute(p, &b, &logits, &err)) fail_msg("%s", err.message);
        for (uint32_t o = 0; o < b.n_outputs; o++, logits += n_vocab)
            if (b.seq[b.outputs[o]] == 0)
                memcpy(out + (size_t)b.pos[b.outputs[o]] * n_vocab, logits, n_vocab * sizeof *out);
    }
}

float *golden_logits(const struct golden *g, const struct golden_run *r) {
    struct hearth_error err;
    struct driver d;
    init_driver(&d, g, r);
    struct ht_backend_options o = {.level = r->level, .n_threads = r->n_threads};
    struct ht_limits l = {.max_tokens = d.max_tokens,
                          .max_outputs = d.max_tokens,
                          .max_ctx = g->n_tokens,
                          .n_pages = d.n_pages,
                          .kv_type = r->kv_type,
                          .repack = r->repack};
    struct ht_backend *backend = NULL;
    struct ht_prepared *p = NULL;
    if (r->ops->open(&o, &backend, &err)) fail_msg("%s", err.message);
    if (r->ops->prepare(backend, g->plan, &l, &p, &err)) fail_msg("%s", err.message);
    float *out = calloc((size_t)g->n_tokens * g->n_vocab, sizeof *out);
    assert_non_null(out);
    run_batches(&d, r->ops, p, out);
    r->ops->release(p);
    r->ops->close(backend);
    free_driver(&d);
    return out;
}

bool golden_can_repack(const struct golden *g, const struct ht_backend_ops *ops,
                       const char *level) {
    struct ht_backend_options o = {.level = level, .n_threads = 1};
    struct ht_limits l = {.max_tokens = 1, .max_ctx = 32, .n_pages = 1, .repack = true};
    struct ht_backend_memory m = {0};
    struct ht_backend *b = NULL;
    struct hearth_error err;
    if (ops->open(&o, &b, &err)) fail_msg("%s", err.message);
    enum hearth_status st = ops->memory(b, g->plan, &l, &m, &err);
    ops->close(b);
    if (st == HEARTH_OK) assert_true(m.packed > 0);
    if (st != HEARTH_OK) assert_int_equal(st, HEARTH_E_UNSUPPORTED);
    return st == HEARTH_OK;
}

double golden_nmse(const float *a, const float *b, size_t n) {
    double diff = 0, norm = 0;
    for (size_t i = 0; i < n; i++) {
        diff += ((double)a[i] - (double)b[i]) * ((double)a[i] - (double)b[i]);
        norm += (double)b[i] * (double)b[i];
    }
    return diff / norm;
}

double golden_worst(const struct golden *g, const float *logits) {
    double worst = 0;
    for (uint32_t t = 0; t < g->n_tokens; t++) {
        size_t at = (size_t)t * g->n_vocab;
        double e = golden_nmse(logits + at, g->logits + at, g->n_vocab);
        if (!(e <= worst)) worst = e;
    }
    return worst;
}
