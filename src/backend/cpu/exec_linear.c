// SPDX-License-Identifier: MIT
// Linear steps: a thread takes its share of the output rows of every matrix of the step and does
// what follows on the same columns at once. Runs inside the region.
#include "backend/cpu/exec.h"

// Outputs that a thread works on before it applies the activation to them, in bytes: a small part
// of its second-level cache.
#define EPILOGUE_BYTES (128 * 1024)
// Weights that are on their way while a thread waits at a barrier: few enough to wait for nothing.
#define AHEAD_BYTES (8 * 1024)

uint64_t ht_cpu_piece_bytes(uint32_t n_linear, uint64_t width, uint32_t max_tokens) {
    uint64_t few = width, many = (uint64_t)HT_ROW_GROUP * max_tokens;
    return (few > many ? few : many) * n_linear * sizeof(float);
}

// Rows [begin, end) of a weight matrix. Those up to ahead_end follow soon; `asked`: these did so,
// and are on their way.
struct range {
    size_t begin, end, ahead_end;
    bool asked;
};

// Where a thread puts columns [first, ...) of output i: row t at y + t * stride.
struct columns {
    size_t first, stride;
    float *y;
};

static struct columns whole_columns(const struct ht_prepared *p, const struct ht_cpu_step *s,
                                    uint32_t i, int thread) {
    return (struct columns){0, p->c->tensors[s->out[i]].width, ht_cpu_f32(p, s->out[i], thread)};
}

// Columns [begin, end) in the thread's own memory, where nobody else reads them.
static struct columns own_columns(const struct ht_prepared *p, const struct ht_cpu_step *s,
                                  uint32_t i, size_t begin, size_t end, int thread) {
    size_t stride = end - begin, n_rows = ht_cpu_n_rows(p, s->out[0]);
    return (struct columns){begin, stride, ht_cpu_own_piece(p, thread) + i * n_rows * stride};
}

static void run_rows(struct ht_prepared *p, const struct ht_cpu_step *s, uint32_t i,
                     const struct range *r, const struct columns *to, int thread) {
    const struct ht_weight *w = &p->c->plan->weights[s->w[i]];
    if (r->begin >= r->end) return;
    struct ht_linear_job job = {
        .format = w->format,
        .weight = w->data,
        .n_in = (uint32_t)w->ne[0],
        .n_out = (uint32_t)w->ne[1],
        .act = ht_cpu_rows_at(p, s->in[i], thread),
        .n_tokens = ht_cpu_n_rows(p, s->out[i]),
        .y = to->y,
        .y_first = (uint32_t)to->first,
        .y_stride = to->stride,
        .bias = ht_cpu_vector(p, s->w[3 + i]),
        .ahead_end = (uint32_t)r->ahead_end,
        .asked = r->asked,
    };
    if (s->residual != HT_NONE) {
        job.residual = ht_cpu_f32(p, s->residual, thread);
        job.residual_stride = w->ne[1];
    }
    ht_linear_rows(p->backend->linear, &job, (uint32_t)r->begin, (uint32_t)r->end,
                   ht_cpu_own(p, thread));
}

// The activation over columns [begin, end).
static void run_act(struct ht_prepared *p, const struct ht_cpu_step *s, size_t begin, size_t end,
                    const struct columns *to) {
    const struct ht_vec_kernels *k = &p->backend->vec;
    uint32_t n_tokens = ht_cpu_n_rows(p, s->out[0]), n = (uint32_t)(end - begin);
    size_t stride = to[0].stride, at = begin - to[0].first;
    if (stride == n) { // one row after the other
        n *= n_tokens;
        n_tokens = 1;
    }
    for (size_t t = 0; t < n_tokens; t++) {
        float *y = to[0].y + t * stride + at;
        if (s->has_mul)
            k->act_mul(s->act, y, to[1].y + t * stride + at, n, y);
        else
            k->act(s->act, y, n, y);
    }
}

// The next piece of a range, of at most n columns.
static bool next_piece(const struct range *whole, size_t n, struct range *piece) {
    bool first = piece->end == 0;
    size_t at = first ? whole->begin : piece->end;
    if (at >= whole->end) return false;
    *piece = (struct range){at, at + n < whole->end ? at + n : whole->end, whole->ahead_end,
                            !first || whole->asked};
    return true;
}

// Columns of every output, activation and all, kept by nobody but as prepared rows: a group of rows
// at a time, or all at once where it is one token.
static void run_prepared(struct ht_prepared *p, const struct ht_cpu_step *s,
                         const struct range *whole, int thread) {
    uint32_t n_tokens = ht_cpu_n_rows(p, s->out[0]);
    size_t n = n_tokens == 1 ? whole->end - whole->begin : HT_ROW_GROUP;
    size_t row_bytes = p->c->tensors[s->prep].row_bytes;
    size_t block_bytes = ht_act_row_bytes(HT_ACT_ROW_Q8, HT_ROW_GROUP);
    struct range r = {0};
    while (next_piece(whole, n, &r)) {
        struct columns c[3];
        for (uint32_t i = 0; i < s->n_linear; i++) {
            c[i] = own_columns(p, s, i, r.begin, r.end, thread);
            run_rows(p, s, i, &r, &c[i], thread);
        }
        run_act(p, s, r.begin, r.end, c);
        uint8_t *dst = ht_cpu_rows_at(p, s->prep, 0) + r.begin / HT_ROW_GROUP * block_bytes;
        if (n_tokens == 1)
            ht_act_prepare(p->backend->linear, HT_ACT_ROW_Q8, c[0].y, (uint32_t)n, dst);
        else
            ht_act_prepare_column(p->backend->linear, c[0].y, n_tokens, dst, row_bytes);
    }
}

// Columns of every output, with the activation, in pieces that stay in the cache.
static void run_columns(struct ht_prepared *p, const struct ht_cpu_step *s,
                        const struct range *whole, int thread) {
    size_t row_bytes = (size_t)ht_cpu_n_rows(p, s->out[0]) * s->n_linear * sizeof(float);
    size_t n = EPILOGUE_BYTES / row_bytes / HT_ROW_GROUP * HT_ROW_GROUP;
    if (!s->has_act) n = whole->end - whole->begin;
    if (n < HT_ROW_GROUP) n = HT_ROW_GROUP;
    struct range r = {0};
    while (next_piece(whole, n, &r)) {
        struct columns c[3];
        for (uint32_t i = 0; i < s->n_linear; i++) {
            c[i] = whole_columns(p, s, i, thread);
            run_rows(p, s, i, &r, &c[i], thread);
        }
        if (s->has_act) run_act(p, s, r.begin, r.end, c);
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
        struct columns c = whole_columns(p, s, i, thread);
        size_t width = p->c->tensors[s->out[i]].width;
        size_t from = begin > base ? begin - base : 0;
        size_t to = end > base ? end - base : 0;
        if (to > units[i]) to = units[i];
        to *= HT_ROW_GROUP;
        run_rows(p, s, i, &(struct range){from * HT_ROW_GROUP, to < width ? to : width, 0, false},
                 &c, thread);
    }
}

// A share of a step's columns is taken in this many pieces, or in single groups of rows.
#define PIECES 24

// Columns that are nobody's: a thread works through its share, piece by piece, and then through
// what the others have left of theirs. The pieces of a share are taken in order, so that each one's
// weights are asked for while the one before is computed.
static void run_shared(struct ht_prepared *p, const struct ht_cpu_step *s, int thread) {
    size_t width = p->c->tensors[s->out[0]].width;
    size_t n_groups = (width + HT_ROW_GROUP - 1) / HT_ROW_GROUP;
    for (int k = 0, n = p->c->n_threads; k < n; k++) {
        int owner = (thread + k) % n;
        atomic_uint *taken = ht_cpu_taken(p, s, owner);
        size_t begin, end, at, last = SIZE_MAX;
        ht_team_share(n_groups, 1, owner, n, &begin, &end);
        size_t piece = (end - begin + PIECES - 1) / PIECES;
        while ((at = begin + atomic_fetch_add_explicit(taken, 1, memory_order_relaxed) * piece) <
               end) {
            struct range r = {at * HT_ROW_GROUP,
                              (at + piece < end ? at + piece : end) * HT_ROW_GROUP,
                              end * HT_ROW_GROUP, at == last};
            if (r.end > width) r.end = width;
            if (r.ahead_end > width) r.ahead_end = width;
            if (s->prep != HT_NONE)
                run_prepared(p, s, &r, thread);
            else
                run_columns(p, s, &r, thread);
            last = at + piece;
        }
    }
}

// Rows of output 0 that a thread begins with.
static size_t first_row(const struct ht_prepared *p, const struct ht_cpu_step *s, int thread) {
    size_t begin, end, width = p->c->tensors[s->out[0]].width, n_kv = p->c->plan->n_kv_heads;
    if (s->own_heads) {
        ht_team_share(n_kv, 1, thread, p->c->n_threads, &begin, &end);
        return begin * (width / n_kv);
    }
    if (s->n_linear > 1 && !s->has_mul) return 0;
    ht_team_share((width + HT_ROW_GROUP - 1) / HT_ROW_GROUP, 1, thread, p->c->n_threads, &begin,
                  &end);
    return begin * HT_ROW_GROUP;
}

void ht_cpu_fetch_ahead(const struct ht_prepared *p, const struct ht_cpu_step *s, int thread) {
    if (s->ahead == HT_NONE) return;
    const struct ht_cpu_step *l = &p->c->steps[s->ahead];
    const struct ht_weight *w = &p->c->plan->weights[l->w[0]];
    uint64_t at = w->n_bytes / w->ne[1] * first_row(p, l, thread);
    for (uint64_t i = 0; i < AHEAD_BYTES && at + i < w->n_bytes; i += 64)
        __builtin_prefetch(w->data + at + i, 0, 2);
}

static void run_own_heads(struct ht_prepared *p, const struct ht_cpu_step *s, int thread) {
    size_t begin, end, n_kv = p->c->plan->n_kv_heads;
    ht_team_share(n_kv, 1, thread, p->c->n_threads, &begin, &end);
    for (uint32_t i = 0; i < s->n_linear; i++) {
        size_t per_head = p->c->tensors[s->out[i]].width / n_kv;
        struct columns c = whole_columns(p, s, i, thread);
        run_rows(p, s, i, &(struct range){begin * per_head, end * per_head, 0, false}, &c, thread);
    }
}

void ht_cpu_run_linear(struct ht_prepared *p, const struct ht_cpu_step *s, int thread) {
    if (ht_cpu_n_rows(p, s->out[0]) == 0) return;
    if (s->own_heads)
        run_own_heads(p, s, thread);
    else if (s->n_linear == 1 || s->has_mul)
        run_shared(p, s, thread);
    else
        run_joined(p, s, thread);
}
