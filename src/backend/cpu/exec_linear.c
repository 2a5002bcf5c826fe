// SPDX-License-Identifier: MIT
// Linear steps: a thread takes its share of the output rows of every matrix of the step and does
// what follows on the same columns at once. Runs inside the region.
#include "backend/cpu/exec.h"

// Output of gate and up rows that a thread works on before it multiplies them, in bytes: half of a
// small second-level cache.
#define EPILOGUE_BYTES (256 * 1024)
// Weights that are on their way while a thread waits at a barrier: few enough to wait for nothing.
#define AHEAD_BYTES (8 * 1024)

static void run_rows(struct ht_prepared *p, const struct ht_cpu_step *s, uint32_t i, size_t begin,
                     size_t end, int thread) {
    const struct ht_weight *w = &p->c->plan->weights[s->w[i]];
    if (begin >= end) return;
    struct ht_linear_job job = {
        .format = w->format,
        .weight = w->data,
        .n_in = (uint32_t)w->ne[0],
        .n_out = (uint32_t)w->ne[1],
        .act = ht_cpu_rows_at(p, s->in[i], thread),
        .n_tokens = ht_cpu_n_rows(p, s->out[i]),
        .y = ht_cpu_f32(p, s->out[i], thread),
        .y_stride = w->ne[1],
        .bias = ht_cpu_vector(p, s->w[3 + i]),
    };
    if (s->residual != HT_NONE) {
        job.residual = ht_cpu_f32(p, s->residual, thread);
        job.residual_stride = w->ne[1];
    }
    ht_linear_rows(p->backend->linear, &job, (uint32_t)begin, (uint32_t)end, ht_cpu_own(p, thread));
}

static void run_act(struct ht_prepared *p, const struct ht_cpu_step *s, size_t begin, size_t end,
                    int thread) {
    const struct ht_vec_kernels *k = &p->backend->vec;
    size_t width = p->c->tensors[s->out[0]].width;
    uint32_t n_tokens = ht_cpu_n_rows(p, s->out[0]), n = (uint32_t)(end - begin);
    float *y = ht_cpu_f32(p, s->out[0], thread) + begin;
    for (size_t t = 0; t < n_tokens; t++) {
        if (s->has_mul) {
            const float *up = ht_cpu_f32(p, s->out[1], thread) + t * width + begin;
            k->act_mul(s->act, y + t * width, up, n, y + t * width);
        } else {
            k->act(s->act, y + t * width, n, y + t * width);
        }
        if (s->prep != HT_NONE) ht_cpu_prepare_columns(p, s, t, begin, y + t * width, n);
    }
}

// Columns [begin, end) of every output, with the activation, in pieces that stay in the cache.
static void run_columns(struct ht_prepared *p, const struct ht_cpu_step *s, size_t begin,
                        size_t end, int thread) {
    size_t row_bytes = (size_t)ht_cpu_n_rows(p, s->out[0]) * s->n_linear * sizeof(float);
    size_t piece = EPILOGUE_BYTES / row_bytes / HT_ROW_GROUP * HT_ROW_GROUP;
    if (!s->has_act || piece > end - begin) piece = end - begin;
    if (piece < 2 * HT_ROW_GROUP) piece = 2 * HT_ROW_GROUP;
    for (size_t at = begin; at < end; at += piece) {
        size_t to = at + piece < end ? at + piece : end;
        for (uint32_t i = 0; i < s->n_linear; i++) run_rows(p, s, i, at, to, thread);
        if (s->has_act) run_act(p, s, at, to, thread);
    }
}

// Rows of all outputs as one list, in units of a row group.
static void run_joined(struct ht_prepared *p, const struct ht_cpu_step *s, int thread) {
    size_t n_units = 0, units[3], begin, end, base = 0;
    for (uint32_t i = 0; i < s->n_linear; i++) {
        units[i] = (p->c->tensors[s->out[i]].width + HT_ROW_GROUP - 1) / HT_ROW_GROUP;
        n_units += units[i];
    }
    ht_team_share(n_units, 1, thread, p->c->n_threads, &begin, &end);
    for (uint32_t i = 0; i < s->n_linear; base += units[i++]) {
        size_t width = p->c->tensors[s->out[i]].width;
        size_t from = begin > base ? begin - base : 0;
        size_t to = end > base ? end - base : 0;
        if (to > units[i]) to = units[i];
        to *= HT_ROW_GROUP;
        run_rows(p, s, i, from * HT_ROW_GROUP, to < width ? to : width, thread);
    }
}

// Rows of output 0 that a thread begins with.
static size_t first_row(const struct ht_prepared *p, const struct ht_cpu_step *s, int thread) {
    size_t begin, end, width = p->c->tensors[s->out[0]].width, n_kv = p->c->plan->n_kv_heads;
    switch (ht_cpu_linear_part(p->c, s)) {
    case HT_PART_KV:
        ht_team_share(n_kv, 1, thread, p->c->n_threads, &begin, &end);
        return begin * (width / n_kv);
    case HT_PART_COLS:
        ht_team_share(width, HT_ROW_GROUP, thread, p->c->n_threads, &begin, &end);
        return begin;
    default: return 0;
    }
}

void ht_cpu_fetch_ahead(const struct ht_prepared *p, const struct ht_cpu_step *s, int thread) {
    if (s->ahead == HT_NONE) return;
    const struct ht_cpu_step *l = &p->c->steps[s->ahead];
    const struct ht_weight *w = &p->c->plan->weights[l->w[0]];
    uint64_t at = w->n_bytes / w->ne[1] * first_row(p, l, thread);
    for (uint64_t i = 0; i < AHEAD_BYTES && at + i < w->n_bytes; i += 64)
        __builtin_prefetch(w->data + at + i, 0, 2);
}

void ht_cpu_run_linear(struct ht_prepared *p, const struct ht_cpu_step *s, int thread) {
    if (ht_cpu_n_rows(p, s->out[0]) == 0) return;
    size_t begin, end, n_kv = p->c->plan->n_kv_heads;
    switch (ht_cpu_linear_part(p->c, s)) {
    case HT_PART_KV:
        ht_team_share(n_kv, 1, thread, p->c->n_threads, &begin, &end);
        for (uint32_t i = 0; i < s->n_linear; i++) {
            size_t per_head = p->c->tensors[s->out[i]].width / n_kv;
            run_rows(p, s, i, begin * per_head, end * per_head, thread);
        }
        break;
    case HT_PART_COLS:
        ht_team_share(p->c->tensors[s->out[0]].width, HT_ROW_GROUP, thread, p->c->n_threads, &begin,
                      &end);
        run_columns(p, s, begin, end, thread);
        break;
    default: run_joined(p, s, thread); break;
    }
}
