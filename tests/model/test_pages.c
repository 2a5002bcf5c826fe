// SPDX-License-Identifier: MIT
// KV pages over time, in backends driven here: what is no number reaches all tokens behind it and
// nobody else; positions and pages used again keep nothing; windows end where they say; contexts
// are filled to the last position; a sequence has two runs in a batch. Held to the bytes of a
// straight run, and to `ref`.
#include <float.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "backend/cpu/features.h"
#include "golden.h"
#include "tiny.h"

enum { DIM = 32, N_LAYERS = 2, N_HEADS = 4, N_KV = 2, N_VOCAB = 96 };
enum { N_TRUE = 89, NAN_TOKEN, INF_K, INF_V }; // tokens below N_TRUE are like any model's
enum { N_SHORT = 36, N_SEEN = 100, N_LONG = 600, N_LONGEST = 1024 };
// Ways: ref; then one thread and three of each level of cpu, and of the best one again.
enum { REF, SCALAR = 2, BEST = SCALAR + 2 * HT_CPU_N_LEVELS, N_WAYS = BEST + 2 };

// ---- models

struct model {
    struct ht_gguf *file;
    struct ht_model *model;
    struct ht_plan plan; // of these weights
    struct ht_weight weights[32];
    float data[1 << 16];
};

// NAN_TOKEN is NaN from the start. INF_K and INF_V alone have an element 0 or 1, in any layer, and
// infinite keys or values for it in the first; keys that are turned are NaN, too.
static void add_bad_tokens(const struct ht_weight *w, float *x) {
    bool embd = strcmp(w->name, "token_embd.weight") == 0;
    if (strstr(w->name, "attn_output") || strstr(w->name, "ffn_down"))
        memset(x, 0, 2 * w->ne[0] * sizeof *x);
    for (int e = 0; e < 2; e++) {
        bool first = strcmp(w->name, e == 0 ? "blk.0.attn_k.weight" : "blk.0.attn_v.weight") == 0;
        for (uint64_t i = 0; first && i < w->ne[1]; i++) x[i * DIM + e] = FLT_MAX;
        for (int t = 0; embd && t < N_VOCAB; t++) x[t * DIM + e] = t == INF_K + e ? 2.0f : 0.0f;
    }
    for (int e = 0; embd && e < DIM; e++) x[NAN_TOKEN * DIM + e] = NAN;
}

static void open_model(struct model *m, uint32_t head_dim) {
    static const char *const tensors[] = {"attn_q", "attn_k", "attn_v", "attn_output"};
    struct tiny_edit edits[2 + 4 * N_LAYERS + 1] = {
        {TINY_U32, "llama.attention.key_length", .u = head_dim},
        {TINY_U32, "llama.attention.value_length", .u = head_dim}};
    char names[4 * N_LAYERS][64];
    for (int i = 0; i < 4 * N_LAYERS; i++) {
        uint64_t width = (uint64_t)(i % 4 % 3 == 0 ? N_HEADS : N_KV) * head_dim;
        snprintf(names[i], sizeof names[i], "blk.%d.%s.weight", i / 4, tensors[i % 4]);
        edits[2 + i] = (struct tiny_edit){TINY_SHAPE, names[i], .n_dims = 2, .ne = {DIM, width}};
        if (i % 4 == 3) edits[2 + i].ne[0] = width, edits[2 + i].ne[1] = DIM;
    }
    tiny_open("llama", edits, NULL, &m->file, &m->model);
    m->plan = *ht_model_plan(m->model);
    float *x = m->data, *stop = x + sizeof m->data / sizeof *x;
    for (uint32_t i = 0; i < m->plan.n_weights; i++) {
        struct ht_weight w = m->plan.weights[i];
        assert_true(i < 32 && w.n_bytes <= (size_t)(stop - x) * sizeof *x);
        memcpy(x, w.data, w.n_bytes);
        add_bad_tokens(&w, x);
        w.data = (const uint8_t *)x;
        m->weights[i] = w;
        x += w.n_bytes / sizeof *x;
    }
    m->plan.weights = m->weights;
}

// Heads of whole groups of rows and others: other steps store them.
static int open_models(void **state) {
    static struct model models[2];
    open_model(&models[0], 32);
    open_model(&models[1], 40);
    *state = models;
    return 0;
}

static int close_models(void **state) {
    struct model *m = *state;
    for (int i = 0; i < 2; i++) ht_model_free(m[i].model), ht_gguf_close(m[i].file);
    return 0;
}

// ---- runs

// A backend at work on two sequences.
struct run {
    const char *level; // NULL: ref
    int n_threads;
    enum hearth_kv_type type;
    const struct ht_backend_ops *ops;
    struct ht_backend *backend;
    struct ht_prepared *p;
    struct ht_batch batch; // to come; it consists of these
    int32_t tokens[N_LONGEST];
    uint32_t pos[N_LONGEST], seq[N_LONGEST], outputs[N_LONGEST];
    uint32_t pages[2][N_LONGEST / HT_PAGE_TOKENS];
    struct ht_batch_seq seqs[2];
    int32_t text[2][N_LONGEST + 1];
    float *out[2], *want[2]; // [position][N_VOCAB]; nobody wants what has no place in `out`
    uint32_t chunk, at;      // tokens; for messages, where `what` is tried
    const char *what;
};

// Each sequence has a text and pages for all of it, from the last one down. False: this machine has
// no such way, or the heads are not of that type.
static bool begin(struct run *r, const struct ht_plan *p, int way, int type, uint32_t n_text) {
    struct hearth_error err;
    uint32_t n = (n_text + HT_PAGE_TOKENS - 1) / HT_PAGE_TOKENS, n_pages = 2 * n + 7;
    enum ht_cpu_level level =
        way < BEST ? (enum ht_cpu_level)((way - SCALAR) / 2) : ht_cpu_best_level();
    *r = (struct run){.n_threads = way % 2 ? 3 : 1, .ops = &ht_backend_ref};
    r->type = (enum hearth_kv_type)type;
    if (!ht_kv_holds(r->type, p->head_dim)) return false;
    if (way < SCALAR ? way != REF : !ht_cpu_level_usable(level)) return false;
    if (way >= SCALAR) r->level = ht_cpu_level_name(level), r->ops = &ht_backend_cpu;
    struct ht_backend_options o = {.level = r->level, .n_threads = r->n_threads};
    struct ht_limits l = {N_LONGEST, N_LONGEST, n_text, n_pages, r->type, false, false};
    if (r->ops->open(&o, &r->backend, &err) || r->ops->prepare(r->backend, p, &l, &r->p, &err))
        fail_msg("%s", err.message);
    for (uint32_t s = 0; s < 2; s++) {
        for (uint32_t i = 0; i < n; i++) r->pages[s][i] = n_pages - 1 - s * n - i;
        for (uint32_t i = 0; i <= n_text; i++)
            r->text[s][i] = (int32_t)((i * 37 + i / 50 + 5 * s) % N_TRUE);
        r->seqs[s] = (struct ht_batch_seq){r->pages[s], n};
    }
    r->batch =
        (struct ht_batch){0, r->tokens, r->pos, r->seq, 2, r->seqs, 0, r->outputs, NULL, NULL};
    r->chunk = n_text;
    return true;
}

static void end(struct run *r) {
    r->ops->release(r->p);
    r->ops->close(r->backend);
}

static void add(struct run *r, uint32_t seq, uint32_t from, uint32_t to) {
    for (struct ht_batch *b = &r->batch; from < to; from++, b->n_tokens++) {
        if (r->out[seq]) r->outputs[b->n_outputs++] = b->n_tokens;
        r->tokens[b->n_tokens] = r->text[seq][from];
        r->pos[b->n_tokens] = from;
        r->seq[b->n_tokens] = seq;
    }
}

static void execute(struct run *r) {
    struct hearth_error err;
    const float *logits = NULL;
    if (r->ops->execute(r->p, &r->batch, &logits, &err)) fail_msg("%s", err.message);
    for (uint32_t o = 0; o < r->batch.n_outputs; o++, logits += N_VOCAB) {
        uint32_t t = r->outputs[o];
        memcpy(r->out[r->seq[t]] + r->pos[t] * N_VOCAB, logits, N_VOCAB * sizeof *logits);
    }
    r->batch.n_tokens = r->batch.n_outputs = 0;
}

static void feed(struct run *r, uint32_t seq, uint32_t from, uint32_t to) {
    for (; from < to; from++) {
        add(r, seq, from, from + 1);
        if (r->batch.n_tokens == r->chunk || from + 1 == to) execute(r);
    }
}

static void fail_at(const struct run *r, const char *how, uint32_t seq, uint32_t pos) {
    fail_msg("%s pages, %s, %d threads, %s %u, chunks of %u: %s at position %u of sequence %u",
             ht_kv_type_name(r->type), r->level ? r->level : "ref", r->n_threads, r->what, r->at,
             r->chunk, how, pos, seq);
}

// Logits of positions [from, to), made since they were last looked at: NaN, or else as wanted.
static void check(const struct run *r, uint32_t seq, uint32_t from, uint32_t to, bool bad) {
    for (; from < to; from++) {
        float *got = r->out[seq] + from * N_VOCAB, *want = r->want[seq] + from * N_VOCAB;
        bool nan = false, same = memcmp(got, want, N_VOCAB * sizeof *got) == 0;
        for (int i = 0; i < N_VOCAB; i++) nan |= isnan(got[i]) != 0;
        if (bad ? !nan : !same) fail_at(r, bad ? "no NaN" : "other bytes", seq, from);
        memset(got, 0, N_VOCAB * sizeof *got);
    }
}

// A straight run; what the first one makes is wanted from then on.
static void feed_straight(struct run *r, uint32_t seq, uint32_t n, bool first, float *want,
                          float *got) {
    r->what = "straight to", r->at = n;
    r->want[seq] = want, r->out[seq] = got;
    feed(r, seq, 0, n);
    if (first) memcpy(want, got, n * N_VOCAB * sizeof *got);
    check(r, seq, 0, n, false);
}

// How far cpu may be from ref: test_shapes.c.
static void check_near(const struct run *r, uint32_t seq, const float *got, const float *ref,
                       uint32_t n) {
    bool coarse = r->type == HEARTH_KV_BF16 || r->type == HEARTH_KV_Q8_0;
    double bar = r->type == HEARTH_KV_F32 ? 1e-11 : coarse ? 1e-4 : 1e-6;
    if (!(golden_nmse(got, ref, (size_t)n * N_VOCAB) < bar)) fail_at(r, "far from ref", seq, n);
}

// ---- what is no number

// A bad token shows in all of [at, stop) and nowhere else, nor in sequence 1, if that has a place:
// in batches of both, but of one where a batch is one token.
static void check_bad(struct run *r, int32_t bad, uint32_t at, uint32_t stop, uint32_t n) {
    int32_t before = r->text[0][at];
    r->text[0][at] = bad;
    for (uint32_t i = 0, next; i < n; i = next) {
        next = i + r->chunk < n ? i + r->chunk : n;
        add(r, 0, i, next);
        if (r->chunk == 1 || !r->out[1]) execute(r);
        if (r->out[1]) add(r, 1, i, next), execute(r);
    }
    check(r, 0, 0, at, false);
    check(r, 0, at, stop, true);
    check(r, 0, stop, n, false);
    if (r->out[1]) check(r, 1, 0, n, false);
    r->text[0][at] = before;
}

static void test_nan(void **state) {
    static const uint32_t chunks[] = {N_SHORT, 7, 1}, places[] = {3, 16, 31};
    static float want[2][N_SHORT * N_VOCAB], got[2][N_SHORT * N_VOCAB];
    const struct model *m = *state;
    for (int i = 0; i < HT_N_KV_TYPES * BEST; i++) {
        struct run r;
        // One or three threads, in turns over levels and types.
        if (i % BEST >= SCALAR && (i + i / 2) % 2) continue;
        if (!begin(&r, &m->plan, i % BEST, i / BEST, N_SHORT)) continue;
        for (uint32_t s = 0; s < 2; s++) feed_straight(&r, s, N_SHORT, true, want[s], got[s]);
        for (int k = 0; k < 9; k++) {
            r.chunk = chunks[k % 3];
            r.at = places[(k + k / 3) % 3];
            r.what = k < 3 ? "NaN at" : k < 6 ? "infinite K at" : "infinite V at";
            check_bad(&r, NAN_TOKEN + k / 3, r.at, N_SHORT, N_SHORT);
        }
        end(&r);
    }
}

// ---- positions and pages used again

static void feed_garbage(struct run *r, uint32_t seq, uint32_t from, uint32_t to) {
    int32_t *text = r->text[seq], before[N_SHORT];
    float *out = r->out[seq];
    memcpy(before, text, sizeof before);
    for (uint32_t i = from; i < to; i++)
        text[i] = (int32_t)(i % 4 < 3 ? NAN_TOKEN + i % 4 : i * 11 % N_TRUE);
    r->out[seq] = NULL;
    feed(r, seq, from, to);
    r->out[seq] = out;
    memcpy(text, before, sizeof before);
}

static void check_rewound(struct run *r, uint32_t at) {
    r->what = "all of it there, rewound to", r->at = at;
    feed_garbage(r, 0, at, at + 20 < N_SHORT ? at + 20 : N_SHORT);
    feed(r, 0, at, N_SHORT);
    check(r, 0, at, N_SHORT, false);
    r->what = "begun again, rewound to";
    feed(r, 0, 0, at);
    feed_garbage(r, 0, at, at + 3);
    feed(r, 0, at, N_SHORT);
    check(r, 0, 0, N_SHORT, false);
}

static void test_again(void **state) {
    static const uint32_t slots[] = {1, 14, 15, 16, 17, 31, 32, 33}, chunks[] = {N_SHORT, 5, 1};
    static float want[N_SHORT * N_VOCAB], got[N_SHORT * N_VOCAB];
    const struct model *m = *state;
    for (int k = 0; k < 8 * HT_N_KV_TYPES; k++) {
        int way = (k % 4 < 2 ? SCALAR : BEST) + k % 2;
        struct run r;
        if (!begin(&r, &m[k / 4 % 2].plan, way, k / 8, N_SHORT)) continue;
        feed_straight(&r, 0, N_SHORT, k % 4 == 0, want, got);
        for (int i = 0; i < 24; i++) {
            r.chunk = chunks[i % 3];
            // The best level with one thread is the fastest; the others do a third each.
            if (k % 4 == 2 || (i + i / 3 + k + k / 4) % 3 == 0) check_rewound(&r, slots[i / 3]);
        }
        for (uint32_t i = 0; i < 6; i++) { // pages of another sequence, also in another order
            for (uint32_t p = 0; p < 2; p++) r.pages[1][p] = r.pages[0][(i + p) % 2];
            r.chunk = chunks[i / 2];
            r.what = "pages dealt again,", r.at = i;
            feed_garbage(&r, 1, 0, N_SHORT);
            feed(&r, 0, 0, N_SHORT);
            check(&r, 0, 0, N_SHORT, false);
        }
        end(&r);
    }
}

// ---- windows

static void check_windows(struct run *r, uint32_t reach, uint32_t n, bool first) {
    static float ref[N_LONG * N_VOCAB], want[N_LONG * N_VOCAB], got[N_LONG * N_VOCAB];
    const uint32_t chunks[] = {1, 7, n};
    feed_straight(r, 0, n, first, r->level ? want : ref, got);
    if (first) check_near(r, 0, r->want[0], ref, n);
    r->what = "windows that reach", r->at = reach;
    for (int i = r->level ? 0 : 2; i < 3; i++) {
        r->chunk = chunks[i];
        feed(r, 0, n - N_SEEN, n);
        check(r, 0, n - N_SEEN, n, false);
        if (n == N_SEEN || i == 2) check_bad(r, NAN_TOKEN, 20, 20 + reach < n ? 20 + reach : n, n);
    }
}

static void test_windows(void **state) {
    static const uint32_t windows[][2] = {{1, 64},  {2, 33},   {15, 32},  {16, 31},  {17, 2},
                                          {31, 16}, {32, 65},  {33, 17},  {63, 1},   {64, 15},
                                          {65, 63}, {512, 15}, {16, 513}, {513, 512}};
    const struct model *m = *state;
    struct ht_plan p = m->plan;
    struct ht_step steps[64];
    assert_true(p.n_steps <= 64);
    memcpy(steps, p.steps, p.n_steps * sizeof *steps);
    p.steps = steps;
    for (int i = 0; i < 14; i++) {
        uint32_t reach = windows[i][0] + windows[i][1] - 1, n = i < 11 ? N_SEEN : N_LONG;
        for (uint32_t s = 0; s < p.n_steps; s++)
            if (steps[s].op == HT_OP_ATTENTION) steps[s].u.attn.window = windows[i][steps[s].layer];
        for (int way = 0, n_done = 0; way < N_WAYS; way++) {
            struct run r;
            // Only some of the short ones at all levels, which takes long.
            if (way >= SCALAR && way < BEST && (n == N_LONG || i % 3)) continue;
            if (!begin(&r, &p, way, i % HT_N_KV_TYPES, n)) continue;
            check_windows(&r, reach, n, n_done++ < 2);
            end(&r);
        }
    }
}

// ---- contexts filled to the end

// At once, and one position at a time in the end, also by threads that have no KV heads.
static void test_filled(void **state) {
    static const uint32_t sizes[] = {32, 64, 512, 513, 1024};
    static float want[N_LONGEST * N_VOCAB], got[N_LONGEST * N_VOCAB];
    const struct model *m = *state;
    for (int i = 0; i < 3 * 5 * HT_N_KV_TYPES; i++) {
        uint32_t n = sizes[i / 3 % 5];
        struct hearth_error err;
        const float *logits;
        struct run r;
        assert_true(begin(&r, &m->plan, BEST + (i % 3 == 2), i / 15, n));
        feed_straight(&r, 0, i % 3 == 0 ? n : n - 20, i % 3 == 0, want, got);
        r.what = "token by token to", r.chunk = 1;
        feed(&r, 0, n - 20, n);
        check(&r, 0, n - 20, n, false);
        add(&r, 0, n, n + 1);
        assert_int_equal(r.ops->execute(r.p, &r.batch, &logits, &err), HEARTH_E_ARG);
        end(&r);
    }
}

// ---- two runs of a sequence in a batch

// 16 tokens: four of sequence 0 from 16 on, the first eight of sequence 1, four of 0 where it ends.
static void test_runs(void **state) {
    static float ref[2][N_SHORT * N_VOCAB], want[2][N_SHORT * N_VOCAB], got[2][N_SHORT * N_VOCAB];
    const struct model *m = *state;
    for (int i = 0; i < 4 * HT_N_KV_TYPES * BEST; i++) {
        int way = i / 2 % BEST, kind = i / 2 / BEST;
        uint32_t n_before = i % 2 ? 16 : 28, then = i % 2 ? 20 : 28;
        struct run r;
        if (!begin(&r, &m[kind % 2].plan, way, kind / 2, N_SHORT)) continue;
        for (uint32_t s = 0; s < 2; s++) {
            feed_straight(&r, s, N_SHORT, true, r.level ? want[s] : ref[s], got[s]);
            r.seqs[s].pages = r.pages[1 - s]; // where the other's are
        }
        r.what = "two runs behind", r.at = n_before;
        feed(&r, 0, 0, n_before);
        add(&r, 0, 16, 20);
        add(&r, 1, 0, 8);
        add(&r, 0, then, then + 4);
        execute(&r);
        add(&r, 0, then + 4, N_SHORT);
        add(&r, 1, 8, N_SHORT);
        execute(&r);
        for (uint32_t s = 0; s < 2; s++) {
            check_near(&r, s, got[s], ref[s], N_SHORT);
            check(&r, s, 0, N_SHORT, false);
        }
        end(&r);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_nan), cmocka_unit_test(test_again),
                                       cmocka_unit_test(test_windows),
                                       cmocka_unit_test(test_filled), cmocka_unit_test(test_runs)};
    return cmocka_run_group_tests(tests, open_models, close_models);
}
