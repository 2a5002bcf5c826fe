// SPDX-License-Identifier: MIT
// See fake.h.
#include "fake.h"

#include <math.h>
#include <string.h>

#include "base/hash.h"
#include "base/mem.h"
#include "base/team.h"

struct fake_control fake_control;

// One step, so that there is one to be unsupported.
static const struct ht_step steps[1] = {{.op = HT_OP_EMBED, .layer = HT_NONE}};

const struct ht_plan fake_plan = {.steps = steps,
                                  .n_steps = 1,
                                  .n_layers = 1,
                                  .n_kv_heads = 1,
                                  .head_dim = 1,
                                  .n_vocab = FAKE_VOCAB,
                                  .logits = 0};

struct cell {
    int32_t token;
    uint32_t pos;
};

struct ht_backend {
    struct ht_team *team;
};

struct ht_prepared {
    struct ht_limits limits;
    struct cell *cells; // [n_pages][HT_PAGE_TOKENS]
    float *logits;      // [max_outputs][FAKE_VOCAB]
};

static uint64_t mix(uint64_t hash, int32_t token) {
    return ht_hash_u64(hash + 0x9e3779b97f4a7c15u * ((uint64_t)token + 1));
}

static void logits_of(uint64_t hash, float *logits) {
    for (uint32_t i = 0; i < FAKE_VOCAB; i++)
        logits[i] = (float)(ht_hash_u64(hash + i) >> 44) * 0x1p-17f - 4; // [-4, 4)
}

void fake_logits(const int32_t *tokens, uint32_t n, float *logits) {
    uint64_t hash = 1;
    for (uint32_t i = 0; i < n; i++) hash = mix(hash, tokens[i]);
    logits_of(hash, logits);
}

static enum hearth_status open_fake(const struct ht_backend_options *o, struct ht_backend **out,
                                    struct hearth_error *err) {
    (void)o;
    struct ht_backend *b = ht_calloc(1, sizeof *b);
    if (!b) return ht_fail_nomem(err, sizeof *b, "a fake");
    enum hearth_status status = HEARTH_OK;
    if (fake_control.n_threads > 0) status = ht_team_create(fake_control.n_threads, &b->team, err);
    if (status)
        ht_free(b);
    else
        *out = b;
    return status;
}

static void close_fake(struct ht_backend *b) {
    if (!b) return;
    ht_team_destroy(b->team);
    ht_free(b);
}

static const char *describe(const struct ht_backend *b) {
    (void)b;
    return "fake";
}

static enum hearth_status supports(const struct ht_backend *b, const struct ht_plan *p,
                                   const struct ht_step *s, struct hearth_error *err) {
    (void)b;
    (void)p;
    (void)s;
    if (!fake_control.unsupported) return HEARTH_OK;
    return ht_fail(err, fake_control.unsupported, "not this one");
}

static enum hearth_status memory(const struct ht_backend *b, const struct ht_plan *p,
                                 const struct ht_limits *l, struct ht_backend_memory *out,
                                 struct hearth_error *err) {
    (void)b;
    (void)p;
    (void)err;
    *out = (struct ht_backend_memory){
        .kv = (uint64_t)l->n_pages * ht_kv_row_bytes(l->kv_type, 32) * 15625, .scratch = 1000000};
    return HEARTH_OK;
}

static void release(struct ht_prepared *p) {
    if (!p) return;
    ht_free(p->cells);
    ht_free(p->logits);
    ht_free(p);
}

static enum hearth_status prepare(struct ht_backend *b, const struct ht_plan *p,
                                  const struct ht_limits *l, struct ht_prepared **out,
                                  struct hearth_error *err) {
    (void)b;
    struct ht_prepared *made = ht_calloc(1, sizeof *made);
    if (!made) return ht_fail_nomem(err, sizeof *made, "a fake");
    made->limits = *l;
    made->cells = ht_calloc((size_t)l->n_pages * HT_PAGE_TOKENS, sizeof *made->cells);
    made->logits = ht_calloc((size_t)l->max_outputs * p->n_vocab, sizeof *made->logits);
    if (!made->cells || !made->logits) {
        release(made);
        return ht_fail_nomem(err, 0, "a fake");
    }
    *out = made;
    return HEARTH_OK;
}

static struct cell *cell_at(struct ht_prepared *p, const struct ht_batch *b, uint32_t seq,
                            uint32_t pos) {
    uint32_t page = b->seqs[seq].pages[pos / HT_PAGE_TOKENS];
    return &p->cells[(size_t)page * HT_PAGE_TOKENS + pos % HT_PAGE_TOKENS];
}

static enum hearth_status execute(struct ht_prepared *p, const struct ht_batch *b,
                                  const float **logits, struct hearth_error *err) {
    enum hearth_status status = ht_batch_check(&fake_plan, &p->limits, b, err);
    if (status) return ht_fail_in(err, HEARTH_E_INTERNAL, "batch check");
    if (fake_control.look) fake_control.look(fake_control.user, b);
    if (b->unwanted && b->unwanted(b->unwanted_arg))
        return ht_fail(err, HEARTH_E_CANCELLED, "the fake was asked to end");
    uint64_t pass = ++fake_control.n_passes;
    if (pass == fake_control.fail_at)
        return ht_fail(err, fake_control.fail_with, "the fake fails as told");
    for (uint32_t t = 0; t < b->n_tokens; t++)
        *cell_at(p, b, b->seq[t], b->pos[t]) = (struct cell){b->tokens[t], b->pos[t]};
    for (uint32_t o = 0; o < b->n_outputs; o++) {
        uint32_t t = b->outputs[o];
        uint64_t hash = 1;
        for (uint32_t pos = 0; pos <= b->pos[t]; pos++) {
            const struct cell *c = cell_at(p, b, b->seq[t], pos);
            if (c->pos != pos) return ht_fail(err, HEARTH_E_INTERNAL, "position %u is lost", pos);
            hash = mix(hash, c->token);
        }
        logits_of(hash, p->logits + (size_t)o * FAKE_VOCAB);
        if (pass == fake_control.nan_at) p->logits[(size_t)o * FAKE_VOCAB + 7] = NAN;
    }
    // What lies behind the rows asked for must not be read.
    for (uint32_t i = b->n_outputs * FAKE_VOCAB; i < p->limits.max_outputs * FAKE_VOCAB; i++)
        p->logits[i] = NAN;
    *logits = p->logits;
    return HEARTH_OK;
}

static struct ht_team *team(struct ht_backend *b) {
    return b->team;
}

const struct ht_backend_ops fake_backend = {.name = "fake",
                                            .open = open_fake,
                                            .close = close_fake,
                                            .describe = describe,
                                            .supports = supports,
                                            .memory = memory,
                                            .prepare = prepare,
                                            .release = release,
                                            .execute = execute,
                                            .team = team};
