// SPDX-License-Identifier: MIT
// The cpu backend's table: a thread team, the kernels of one CPU level, and plans compiled for
// them. One thread drives a backend; execute runs the whole plan inside one region of the team.
// execute allocates nothing.
#include <stdio.h>
#include <string.h>

#include "backend/cpu/exec.h"
#include "backend/cpu/peak.h"
#include "backend/cpu/self_test.h"
#include "base/clock.h"
#include "base/cpus.h"
#include "base/mem.h"

static void cpu_close(struct ht_backend *b) {
    if (!b) return;
    ht_team_destroy(b->team);
    ht_free(b);
}

static enum hearth_status create_team(const struct ht_backend_options *o, struct ht_team **out,
                                      struct hearth_error *err) {
    int cpus[HT_TEAM_MAX], n_cpus;
    if (!o->cpu_mask) return ht_team_create(o->n_threads, out, err);
    enum hearth_status st = ht_cpus_parse_mask(o->cpu_mask, cpus, &n_cpus, err);
    return st ? st : ht_team_create_pinned(o->n_threads, cpus, n_cpus, out, err);
}

static enum hearth_status cpu_open(const struct ht_backend_options *o, struct ht_backend **out,
                                   struct hearth_error *err) {
    enum ht_cpu_level level;
    enum hearth_status st = HEARTH_OK;
    if (o->level)
        st = ht_cpu_level_parse(o->level, &level, err);
    else
        level = ht_cpu_best_level();
    if (st != HEARTH_OK) return st;
    struct ht_backend *b = ht_calloc(1, sizeof *b);
    if (!b) return ht_fail_nomem(err, sizeof *b, "the cpu backend");
    st = create_team(o, &b->team, err);
    if (st != HEARTH_OK) {
        cpu_close(b);
        return st;
    }
    b->level = level;
    ht_vec_kernels_init(&b->vec, level);
    b->linear = ht_linear_kernels_get((int)level);
    b->read_queries = ht_cpu_wide_units() ? 16 : ht_cpu_amd_512() ? 2 : 0; // measured: docs/cpu.md
    b->read_positions = ht_cpu_wide_units() ? 96 : 256;
    int n = ht_team_size(b->team);
    snprintf(b->text, sizeof b->text, "cpu %s, %d thread%s%s%.64s", ht_cpu_level_name(level), n,
             n == 1 ? "" : "s", o->cpu_mask ? ", CPU mask " : "", o->cpu_mask ? o->cpu_mask : "");
    *out = b;
    return HEARTH_OK;
}

static const char *cpu_describe(const struct ht_backend *b) {
    return b->text;
}

static struct ht_team *cpu_team(struct ht_backend *b) {
    return b->team;
}

static enum hearth_status cpu_ceilings(struct ht_backend *b, uint32_t budget_ms, uint64_t min_bytes,
                                       uint64_t max_bytes, struct hearth_ceilings *out,
                                       struct hearth_error *err) {
    return ht_peak_measure(b->team, b->level, budget_ms, min_bytes, max_bytes, out, err);
}

// The matrices that a pass reads: not tables of which it takes a row a token.
static enum hearth_status cpu_read_speed(struct ht_prepared *p, uint32_t budget_ms, double *bytes_s,
                                         struct hearth_error *err) {
    const struct ht_plan *plan = p->c->plan;
    struct ht_peak_part *parts = ht_calloc(plan->n_weights, sizeof *parts);
    size_t n = 0;
    if (!parts) return ht_fail_nomem(err, plan->n_weights * sizeof *parts, "a list of weights");
    for (uint32_t i = 0; i < plan->n_steps; i++) {
        const struct ht_step *s = &plan->steps[i];
        if (s->op == HT_OP_EMBED || s->op == HT_OP_ADD_POS) continue;
        for (size_t w = 0; w < sizeof s->w / sizeof *s->w && n < plan->n_weights; w++) {
            if (s->w[w] == HT_NONE || plan->weights[s->w[w]].n_dims < 2) continue;
            const struct ht_weight *weight = &plan->weights[s->w[w]];
            parts[n++] = (struct ht_peak_part){ht_cpu_matrix(p, s->w[w]), weight->n_bytes};
        }
    }
    *bytes_s = ht_peak_read(p->backend->team, p->backend->level, parts, n, budget_ms);
    ht_free(parts);
    return HEARTH_OK;
}

static void cpu_multiply_speed(struct ht_prepared *p, uint32_t budget_ms,
                               struct hearth_ceilings *out) {
    ht_peak_multiply(p->backend->team, p->backend->level, budget_ms, out);
}

static void cpu_levels(char *best, size_t n_best, char *all, size_t n_all) {
    size_t n = 0;
    snprintf(best, n_best, "%s", ht_cpu_level_name(ht_cpu_best_level()));
    all[0] = 0;
    for (int l = 0; l < HT_CPU_N_LEVELS && n < n_all; l++)
        if (ht_cpu_level_usable((enum ht_cpu_level)l))
            n += (size_t)snprintf(all + n, n_all - n, "%s%s", n ? ", " : "",
                                  ht_cpu_level_name((enum ht_cpu_level)l));
}

// ---- what is supported

static enum hearth_status supports_table(const struct ht_weight *w, struct hearth_error *err) {
    const struct ht_format_info *f = ht_format_get(w->format);
    if (f && f->to_f32) return HEARTH_OK;
    return ht_fail(err, HEARTH_E_UNSUPPORTED, "%s is %s, which the cpu backend cannot read",
                   w->name, f ? f->name : "of an unknown format");
}

static enum hearth_status supports_matrix(const struct ht_weight *w, struct hearth_error *err) {
    enum hearth_status st = ht_linear_supports(w->format, w->ne[0], w->ne[1], err);
    return st == HEARTH_OK ? st : ht_fail_in(err, st, "%s", w->name);
}

static enum hearth_status cpu_supports(const struct ht_backend *b, const struct ht_plan *p,
                                       const struct ht_step *s, struct hearth_error *err) {
    (void)b;
    uint32_t n = 0;
    switch (s->op) {
    case HT_OP_EMBED:
    case HT_OP_ADD_POS: return supports_table(&p->weights[s->w[0]], err);
    case HT_OP_LINEAR: n = s->n_out; break;
    case HT_OP_MOE_FFN: n = 3; break;
    default:
        if ((unsigned)s->op < HT_N_OPS) return HEARTH_OK;
        return ht_fail(err, HEARTH_E_UNSUPPORTED, "the cpu backend knows no step of kind %d",
                       (int)s->op);
    }
    for (uint32_t i = 0; i < n; i++) {
        enum hearth_status st = supports_matrix(&p->weights[s->w[i]], err);
        if (st != HEARTH_OK) return st;
    }
    return HEARTH_OK;
}

// ---- prepare

static enum hearth_status compile(const struct ht_backend *b, const struct ht_plan *p,
                                  const struct ht_limits *l, struct ht_compiled **out,
                                  struct hearth_error *err) {
    enum hearth_status st = ht_limits_check(p, l, err);
    if (st != HEARTH_OK) return st;
    for (uint32_t i = 0; i < p->n_steps; i++) {
        st = cpu_supports(b, p, &p->steps[i], err);
        if (st != HEARTH_OK) return st;
    }
    uint64_t packed = 0;
    if (l->repack) st = ht_cpu_repack_bytes(b, p, &packed, err);
    if (st == HEARTH_OK) st = ht_cpu_compile(b, p, l, out, err);
    if (st != HEARTH_OK || !l->repack) return st;
    (*out)->packed_bytes = packed;
    (*out)->own_bytes += p->n_weights * sizeof(uint8_t *); // where they lie
    return st;
}

static uint64_t scratch_total(const struct ht_compiled *c) {
    return c->scratch_bytes + c->thread_bytes * (uint64_t)c->n_threads;
}

static enum hearth_status cpu_memory(const struct ht_backend *b, const struct ht_plan *p,
                                     const struct ht_limits *l, struct ht_backend_memory *out,
                                     struct hearth_error *err) {
    struct ht_compiled *c;
    enum hearth_status st = compile(b, p, l, &c, err);
    if (st != HEARTH_OK) return st;
    *out = (struct ht_backend_memory){.packed = c->packed_bytes,
                                      .kv = c->kv_bytes,
                                      .scratch = scratch_total(c),
                                      .other = c->own_bytes};
    ht_compiled_free(c);
    return HEARTH_OK;
}

static void cpu_release(struct ht_prepared *p) {
    if (!p) return;
    if (p->kv) ht_pages_free(p->kv, p->c->kv_bytes);
    if (p->packed) ht_pages_free(p->packed, p->c->packed_bytes);
    if (p->scratch) ht_pages_free(p->scratch, scratch_total(p->c));
    ht_free(p->matrix);
    for (int i = 0; i < 2; i++) ht_free(p->tiles[i].at);
    ht_free(p->counters);
    ht_free(p->taken);
    ht_cpu_profile_free(p->profile);
    ht_compiled_free(p->c);
    ht_free(p);
}

// In a region, so that the pages come from where the first thread is bound to.
static void touch_pages(void *arg, int thread, int n_threads) {
    struct ht_prepared *p = arg;
    (void)n_threads;
    if (thread == 0)
        p->touched = ht_pages_touch(p->scratch, scratch_total(p->c)) &&
                     (!p->kv || ht_pages_touch(p->kv, p->c->kv_bytes));
}

static enum hearth_status cpu_prepare(struct ht_backend *b, const struct ht_plan *plan,
                                      const struct ht_limits *l, struct ht_prepared **out,
                                      struct hearth_error *err) {
    struct ht_compiled *c;
    enum hearth_status st = compile(b, plan, l, &c, err);
    if (st != HEARTH_OK) return st;
    struct ht_prepared *p = ht_calloc(1, sizeof *p);
    if (!p) {
        ht_compiled_free(c);
        return ht_fail_nomem(err, sizeof *p, "a prepared plan");
    }
    p->backend = b;
    p->c = c;
    p->later.way = true;
    p->tiles[HT_CPU_ROWS_TOKENS].at = ht_calloc(l->max_tokens, sizeof(struct ht_cpu_tile));
    p->tiles[HT_CPU_ROWS_OUTPUTS].at =
        ht_calloc((size_t)l->max_outputs + 1, sizeof(struct ht_cpu_tile));
    p->counters = ht_calloc(c->n_steps, sizeof *p->counters);
    p->taken = ht_calloc(2 * (size_t)c->n_threads * ht_cpu_taken_row(c), sizeof *p->taken);
    if (!p->tiles[0].at || !p->tiles[1].at || !p->counters || !p->taken) {
        st = ht_fail_nomem(err, c->own_bytes, "a prepared plan");
        cpu_release(p);
        return st;
    }
    if (!(p->scratch = ht_pages_alloc(scratch_total(c)))) {
        st = ht_fail_nomem(err, scratch_total(c), "scratch");
    } else if (c->kv_bytes && !(p->kv = ht_pages_alloc(c->kv_bytes))) {
        st = ht_fail_nomem(err, c->kv_bytes, "KV pages");
    } else if (l->prefault) {
        ht_team_run(b->team, touch_pages, p);
        if (!p->touched)
            st = ht_fail_nomem(err, scratch_total(c) + c->kv_bytes, "scratch and KV pages");
    }
    if (st == HEARTH_OK && l->repack) st = ht_cpu_repack(p, err);
    if (st != HEARTH_OK) {
        cpu_release(p);
        return st;
    }
    p->threads = p->scratch + c->scratch_bytes;
    *out = p;
    return HEARTH_OK;
}

// ---- execute

// Token row t becomes the last of a tile, of its sequence's where that has room.
static void add_to_tiles(struct ht_cpu_tiles *tiles, const struct ht_batch *b, uint32_t t,
                         uint32_t tile_tokens) {
    struct ht_cpu_tile *last = tiles->n ? &tiles->at[tiles->n - 1] : NULL;
    if (last && last->row + last->n_tokens == t && b->seq[t] == b->seq[t - 1] &&
        last->n_tokens < tile_tokens)
        last->n_tokens++;
    else
        tiles->at[tiles->n++] = (struct ht_cpu_tile){
            .row = t, .n_tokens = 1, .pos = b->pos[t], .pages = b->seqs[b->seq[t]].pages};
}

// Cuts every sequence's run of tokens into tiles of query rows, and the same for outputs.
static void find_tiles(struct ht_prepared *p, uint32_t tile_tokens) {
    const struct ht_batch *b = p->batch;
    struct ht_cpu_tiles *all = &p->tiles[HT_CPU_ROWS_TOKENS];
    struct ht_cpu_tiles *wanted = &p->tiles[HT_CPU_ROWS_OUTPUTS];
    for (uint32_t t = 0; t < b->n_tokens; t++) add_to_tiles(all, b, t, tile_tokens);
    for (uint32_t o = 0; o < b->n_outputs; o++) add_to_tiles(wanted, b, b->outputs[o], tile_tokens);
}

bool ht_cpu_meet(struct ht_prepared *p, uint32_t i, int thread) {
    const struct ht_batch *b = p->batch;
    if (p->mode == HT_CPU_FEW) ht_cpu_fetch_ahead(p, &p->c->steps[i], thread);
    if (thread == 0 && b->unwanted && b->unwanted(b->unwanted_arg))
        atomic_store_explicit(&p->unwanted_at, i, memory_order_relaxed);
    ht_team_barrier(p->backend->team, thread);
    return i < atomic_load_explicit(&p->unwanted_at, memory_order_relaxed);
}

static void run_plan(void *arg, int thread, int n_threads) {
    struct ht_prepared *p = arg;
    (void)n_threads;
    for (uint32_t i = 0; i < p->c->n_steps; i++) {
        const struct ht_cpu_step *s = &p->c->steps[i];
        if (s->barrier[p->mode] && !ht_cpu_meet(p, i, thread)) return;
        ht_cpu_run_step(p, s, thread);
    }
}

// Each of many sequences has one token, so that keys and values are as much as weights.
static bool may_ask_later(const struct ht_prepared *p) {
    const struct ht_batch *b = p->batch;
    if (p->mode != HT_CPU_MANY || !ht_linear_asks_later(p->backend->linear, b->n_tokens))
        return false;
    for (uint32_t t = 1; t < b->n_tokens; t++)
        if (b->seq[t] == b->seq[t - 1]) return false;
    return true;
}

static enum hearth_status cpu_execute(struct ht_prepared *p, const struct ht_batch *b,
                                      const float **logits, struct hearth_error *err) {
    enum hearth_status st = ht_batch_check(p->c->plan, &p->c->limits, b, err);
    if (st != HEARTH_OK) return st;
    const struct ht_plan *plan = p->c->plan;
    p->batch = b;
    p->mode = b->n_tokens == 1 ? HT_CPU_FEW : HT_CPU_MANY;
    for (int i = 0; i < 2; i++) p->tiles[i].n = 0;
    for (uint32_t i = 0; i < plan->n_steps; i++)
        if (plan->steps[i].op == HT_OP_ATTENTION) {
            find_tiles(p, ht_attn_tile_tokens(&p->backend->vec, plan->steps[i].u.attn.n_heads,
                                              plan->steps[i].u.attn.n_kv_heads, b->n_tokens,
                                              (uint32_t)p->c->n_threads));
            break;
        }
    for (uint32_t i = 0; i < p->c->n_steps; i++) {
        atomic_store_explicit(&p->counters[i], 0, memory_order_relaxed);
        for (int t = 0; t < p->c->n_threads; t++) {
            atomic_store_explicit(ht_cpu_taken(p, &p->c->steps[i], t), 0, memory_order_relaxed);
            atomic_store_explicit(ht_cpu_given(p, &p->c->steps[i], t), 0, memory_order_relaxed);
        }
    }
    atomic_store_explicit(&p->unwanted_at, UINT32_MAX, memory_order_relaxed);
    bool tries = may_ask_later(p);
    p->asks_later = tries && ht_cpu_trial_begin(&p->later, b->n_tokens);
    uint64_t begin_ns = ht_now_ns();
    if (p->profile)
        ht_cpu_profile_run(p, run_plan);
    else
        ht_team_run(p->backend->team, run_plan, p);
    p->batch = NULL;
    if (ht_cpu_was_unwanted(p))
        return ht_fail(err, HEARTH_E_CANCELLED, "nobody wanted the pass any more");
    if (tries) ht_cpu_trial_end(&p->later, ht_now_ns() - begin_ns);
    *logits = ht_cpu_f32(p, p->c->logits, 0);
    return HEARTH_OK;
}

const struct ht_backend_ops ht_backend_cpu = {
    .name = "cpu",
    .open = cpu_open,
    .close = cpu_close,
    .describe = cpu_describe,
    .supports = cpu_supports,
    .memory = cpu_memory,
    .prepare = cpu_prepare,
    .release = cpu_release,
    .execute = cpu_execute,
    .team = cpu_team,
    .levels = cpu_levels,
    .ceilings = cpu_ceilings,
    .read_speed = cpu_read_speed,
    .multiply_speed = cpu_multiply_speed,
    .profile = ht_cpu_profile,
    .profile_get = ht_cpu_profile_get,
    .self_test = ht_cpu_self_test,
};
