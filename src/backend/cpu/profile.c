// SPDX-License-Identifier: MIT
// What a prepared plan's steps cost, by kind: bytes and multiply-adds counted once a pass from the
// plan and the batch, times taken by each thread for itself. A kind is a group of steps, for linear
// ones with a role and the formats of their weights, so every kind has one ceiling. Owned by the
// prepared plan; counted by the driving thread, timed inside the region, where thread t writes
// row t of `ns` and nothing else.
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "backend/cpu/exec.h"
#include "base/checked.h"
#include "base/clock.h"
#include "base/mem.h"

// Shares of a peak that a format can reach: the scales' multiplications run on the same units.
#define SHARE_INT8  0.8
#define SHARE_HARD  0.73 // with mins, or a scale for each 16
#define SHARE_FLOAT 0.97

struct kind {
    const char *name, *role;
    char formats[48];
    uint64_t n_steps;
    double bytes, macs, int8, i16, bf16, f32; // as in struct hearth_step_kind
};

struct ht_cpu_profile {
    enum hearth_profile mode;
    uint32_t n_kinds; // "waiting" is one more, behind the last
    struct kind *kinds;
    uint32_t *kind_of; // [n_steps]
    uint64_t *ns;      // [n_threads][stride]
    size_t stride;     // n_kinds in whole cache lines, and one more: no two threads write one
    uint64_t wall_ns;
};

// ---- kinds

static const char *group_name(enum ht_cpu_op op) {
    switch (op) {
    case HT_CPU_LINEAR:
    case HT_CPU_MOE_UP:
    case HT_CPU_MOE_DOWN: return "linear";
    case HT_CPU_ATTENTION:
    case HT_CPU_ATTN_JOIN: return "attention";
    case HT_CPU_NORM:
    case HT_CPU_PREP:
    case HT_CPU_MOE_PREP: return "norm";
    case HT_CPU_ROPE_TABLE:
    case HT_CPU_HEADS:
    case HT_CPU_KV_APPEND: return "rope";
    default: return "rest";
    }
}

// The weights that a linear step multiplies by: w[first] to w[first + n - 1].
static uint32_t weights_of(const struct ht_cpu_step *s, uint32_t *first) {
    *first = s->op == HT_CPU_MOE_DOWN ? 2 : 0;
    return s->op == HT_CPU_LINEAR     ? s->n_linear
           : s->op == HT_CPU_MOE_UP   ? 2
           : s->op == HT_CPU_MOE_DOWN ? 1
                                      : 0;
}

static struct kind kind_of(const struct ht_compiled *c, const struct ht_cpu_step *s) {
    struct kind k = {.name = group_name(s->op), .role = ""};
    uint32_t first, n = weights_of(s, &first);
    if (s->op == HT_CPU_LINEAR) k.role = ht_plan_role(c->plan, s->plan_step);
    if (s->op == HT_CPU_MOE_UP) k.role = "experts gate/up";
    if (s->op == HT_CPU_MOE_DOWN) k.role = "experts down";
    if (strcmp(k.name, "attention") == 0)
        snprintf(k.formats, sizeof k.formats, "%s", ht_kv_type_name(c->limits.kv_type));
    for (uint32_t i = 0; i < n; i++) {
        const char *name = ht_format_get(c->plan->weights[s->w[first + i]].format)->name;
        bool seen = false;
        for (uint32_t j = 0; j < i; j++)
            seen = seen || c->plan->weights[s->w[first + j]].format ==
                               c->plan->weights[s->w[first + i]].format;
        size_t len = strlen(k.formats);
        if (!seen) snprintf(k.formats + len, sizeof k.formats - len, "%s%s", len ? "+" : "", name);
    }
    return k;
}

static void find_kinds(struct ht_cpu_profile *f, const struct ht_compiled *c) {
    for (uint32_t i = 0; i < c->n_steps; i++) {
        struct kind k = kind_of(c, &c->steps[i]);
        uint32_t j = 0;
        while (j < f->n_kinds &&
               (strcmp(f->kinds[j].name, k.name) != 0 || strcmp(f->kinds[j].role, k.role) != 0 ||
                strcmp(f->kinds[j].formats, k.formats) != 0))
            j++;
        if (j == f->n_kinds) f->kinds[f->n_kinds++] = k;
        f->kind_of[i] = j;
    }
}

void ht_cpu_profile_free(struct ht_cpu_profile *f) {
    if (!f) return;
    ht_free(f->kinds);
    ht_free(f->kind_of);
    ht_free(f->ns);
    ht_free(f);
}

static struct ht_cpu_profile *profile_new(const struct ht_compiled *c) {
    struct ht_cpu_profile *f = ht_calloc(1, sizeof *f);
    if (!f) return NULL;
    f->kinds = ht_calloc(c->n_steps + 1u, sizeof *f->kinds);
    f->kind_of = ht_calloc(c->n_steps, sizeof *f->kind_of);
    if (f->kinds && f->kind_of) {
        find_kinds(f, c);
        f->stride = (f->n_kinds + 7u) / 8 * 8 + 8;
        f->ns = ht_calloc((size_t)c->n_threads, f->stride * sizeof *f->ns);
    }
    if (f->ns) return f;
    ht_cpu_profile_free(f);
    return NULL;
}

enum hearth_status ht_cpu_profile(struct ht_prepared *p, enum hearth_profile mode,
                                  struct hearth_error *err) {
    if (mode != HEARTH_PROFILE_OFF && !p->profile) p->profile = profile_new(p->c);
    struct ht_cpu_profile *f = p->profile;
    if (!f) {
        if (mode == HEARTH_PROFILE_OFF) return HEARTH_OK;
        return ht_fail_nomem(err, p->c->n_steps * sizeof(struct kind), "a profile");
    }
    f->mode = mode;
    f->wall_ns = 0;
    memset(f->ns, 0, (size_t)p->c->n_threads * f->stride * sizeof *f->ns);
    for (uint32_t i = 0; i < f->n_kinds; i++) {
        struct kind *k = &f->kinds[i];
        k->n_steps = 0;
        k->bytes = k->macs = k->int8 = k->i16 = k->bf16 = k->f32 = 0;
    }
    return HEARTH_OK;
}

// ---- work

static void add_macs(struct kind *k, enum ht_format format, double macs) {
    const struct ht_codes *codes = ht_format_get(format)->codes;
    k->macs += macs;
    switch (ht_linear_act_kind(format)) {
    case HT_ACT_ROW_F32: k->f32 += macs / SHARE_FLOAT; break;
    case HT_ACT_ROW_BF16: k->bf16 += macs / SHARE_FLOAT; break;
    default:
        k->int8 +=
            macs / (codes && (codes->has_min || codes->group < 32) ? SHARE_HARD : SHARE_INT8);
        break;
    }
}

static void count_linear(struct ht_prepared *p, const struct ht_cpu_step *s, struct kind *k) {
    for (uint32_t i = 0; i < s->n_linear; i++) {
        const struct ht_weight *w = &p->c->plan->weights[s->w[i]];
        size_t begin, end;
        ht_cpu_wanted_rows(p, s->out[i], &begin, &end);
        double rows = (double)(end - begin);
        if (rows == 0) continue;
        k->bytes += (double)w->n_bytes;
        add_macs(k, w->format, rows * (double)w->ne[0] * (double)w->ne[1]);
    }
}

// Of the experts' weights those that n tokens read where each expert is as likely as the others.
static void count_experts(struct ht_prepared *p, const struct ht_cpu_step *s, struct kind *k) {
    uint32_t first, n = weights_of(s, &first);
    double rows = ht_cpu_n_rows(p, s->in[0]), used = s->n_used, all = s->n_experts;
    double read = all * (1 - pow(1 - used / all, rows));
    for (uint32_t i = 0; i < n && rows > 0; i++) {
        const struct ht_weight *w = &p->c->plan->weights[s->w[first + i]];
        k->bytes += (double)w->n_bytes / all * read;
        add_macs(k, w->format, rows * used * (double)w->ne[0] * (double)w->ne[1]);
    }
}

// Keys and values of a sequence are read once a pass: those that any of its tokens sees.
static void count_attention(struct ht_prepared *p, const struct ht_cpu_step *s, struct kind *k) {
    const struct ht_batch *b = p->batch;
    double pos_bytes = (double)p->c->kv_page_bytes / HT_PAGE_TOKENS, macs = 0;
    uint32_t n_rows = ht_cpu_n_queries(p, s), before = 0;
    for (uint32_t i = 0; i < n_rows; i++) {
        uint32_t t = s->some_rows ? b->outputs[i] : i;
        uint32_t n = b->pos[t] + 1, seen = s->window && n > s->window ? s->window : n;
        macs += 2.0 * seen * s->n_heads * s->head_dim;
        bool follows = i > 0 && b->seq[t] == b->seq[before];
        uint32_t steps = follows ? t - before : seen;
        k->bytes += pos_bytes * (steps < seen ? steps : seen);
        before = t;
    }
    k->macs += macs;
    *(p->c->limits.kv_type == HEARTH_KV_I16 ? &k->i16 : &k->f32) += macs / SHARE_FLOAT;
}

static void count_rows(struct ht_prepared *p, const struct ht_cpu_step *s, struct kind *k) {
    const struct ht_weight *w = &p->c->plan->weights[s->w[0]];
    k->bytes += (double)ht_cpu_n_rows(p, s->out[0]) * (double)w->n_bytes / (double)w->ne[1];
}

static void count(struct ht_prepared *p) {
    struct ht_cpu_profile *f = p->profile;
    for (uint32_t i = 0; i < p->c->n_steps; i++) {
        const struct ht_cpu_step *s = &p->c->steps[i];
        struct kind *k = &f->kinds[f->kind_of[i]];
        k->n_steps++;
        switch (s->op) {
        case HT_CPU_LINEAR: count_linear(p, s, k); break;
        case HT_CPU_MOE_UP:
        case HT_CPU_MOE_DOWN: count_experts(p, s, k); break;
        case HT_CPU_ATTENTION: count_attention(p, s, k); break;
        case HT_CPU_EMBED:
        case HT_CPU_ADD_POS: count_rows(p, s, k); break;
        default: break;
        }
    }
}

// ---- time

// run_plan of cpu.c with a look at the clock after each step and each barrier.
static void run_timed(void *arg, int thread, int n_threads) {
    struct ht_prepared *p = arg;
    struct ht_cpu_profile *f = p->profile;
    uint64_t *ns = f->ns + (size_t)thread * f->stride, at = ht_now_ns();
    (void)n_threads;
    for (uint32_t i = 0; i < p->c->n_steps; i++) {
        const struct ht_cpu_step *s = &p->c->steps[i];
        if (s->barrier[p->mode]) {
            if (!ht_cpu_meet(p, i, thread)) return;
            at = ht_now_ns();
        }
        ht_cpu_run_step(p, s, thread);
        uint64_t now = ht_now_ns();
        ns[f->kind_of[i]] += now - at;
        at = now;
    }
}

void ht_cpu_profile_run(struct ht_prepared *p, ht_team_fn run_plan) {
    struct ht_cpu_profile *f = p->profile;
    uint64_t begin = ht_now_ns();
    ht_team_run(p->backend->team, f->mode == HEARTH_PROFILE_STEPS ? run_timed : run_plan, p);
    f->wall_ns += ht_now_ns() - begin;
    // Of a pass that nobody wanted the time stays, the work is not known.
    if (f->mode != HEARTH_PROFILE_OFF && !ht_cpu_was_unwanted(p)) count(p);
}

static uint64_t mean_ns(const struct ht_prepared *p, size_t kind) {
    const struct ht_cpu_profile *f = p->profile;
    uint64_t sum = 0;
    for (int t = 0; t < p->c->n_threads; t++) sum += f->ns[(size_t)t * f->stride + kind];
    return sum / (uint64_t)p->c->n_threads;
}

bool ht_cpu_profile_get(const struct ht_prepared *p, size_t i, struct hearth_step_kind *out) {
    const struct ht_cpu_profile *f = p->profile;
    if (i > f->n_kinds) return false;
    if (i == f->n_kinds) { // what is left of the passes: barriers, and the way into and out of them
        uint64_t busy = 0;
        for (uint32_t k = 0; k < f->n_kinds; k++) busy += mean_ns(p, k);
        bool timed = f->mode == HEARTH_PROFILE_STEPS && f->wall_ns > busy;
        *out = (struct hearth_step_kind){
            .name = "waiting", .role = "", .formats = "", .ns = timed ? f->wall_ns - busy : 0};
        return true;
    }
    const struct kind *k = &f->kinds[i];
    *out = (struct hearth_step_kind){.name = k->name,
                                     .role = k->role,
                                     .formats = k->formats,
                                     .n_steps = k->n_steps,
                                     .ns = mean_ns(p, i),
                                     .bytes = k->bytes,
                                     .macs = k->macs,
                                     .int8_load = k->int8,
                                     .i16_load = k->i16,
                                     .bf16_load = k->bf16,
                                     .f32_load = k->f32};
    return true;
}
