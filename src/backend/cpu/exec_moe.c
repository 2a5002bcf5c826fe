// SPDX-License-Identifier: MIT
// The expert feed-forward. With one token (FEW) its experts are taken in rank order straight from
// the ids. With many, the (token, rank) pairs are sorted by expert first, and each expert's rows of
// prepared activations stand together, so that its weights are read once for all its tokens. Bits
// are the same: each pair's rows go through the same kernels, and a token's pairs are summed in
// rank order. Runs inside the region.
#include <string.h>

#include "backend/cpu/exec.h"

// The sorted pairs, in the `group` tensor: pair i of expert e stands at start[e] <= i <
// start[e + 1] and belongs to token[i]; slot[t * n_used + j] is where token t's j-th pair stands.
struct groups {
    uint32_t *start, *token, *slot;
};

static struct groups groups_at(const struct ht_prepared *p, const struct ht_cpu_step *s,
                               uint32_t tensor) {
    uint32_t *base = (uint32_t *)(void *)ht_cpu_rows_at(p, tensor, 0);
    size_t pairs = (size_t)p->c->limits.max_tokens * s->n_used;
    return (struct groups){base, base + s->n_experts + 1, base + s->n_experts + 1 + pairs};
}

// p = softmax(x), then the n_used largest x by repeated search: n_used is small, and p may be the
// same for two scores.
static void route_row(const struct ht_prepared *p, const struct ht_cpu_step *s, const float *x,
                      float *prob, int32_t *ids, float *weights) {
    uint32_t n = s->n_experts;
    p->backend->vec.exp_sub(x, ht_max16(x, n), n, prob);
    const float taken = -1.0f; // no probability
    float sum = ht_sum16(prob, n), used = 0.0f;
    for (uint32_t e = 0; e < n; e++) prob[e] = prob[e] / sum;
    for (uint32_t j = 0; j < s->n_used; j++) {
        uint32_t best = HT_NONE;
        for (uint32_t e = 0; e < n; e++)
            if (prob[e] != taken && (best == HT_NONE || x[e] > x[best])) best = e;
        ids[j] = (int32_t)best;
        weights[j] = prob[best];
        used = used + prob[best];
        prob[best] = taken;
    }
    for (uint32_t j = 0; j < s->n_used; j++) {
        if (s->normalise) weights[j] = weights[j] / used;
        weights[j] = weights[j] * s->scale;
    }
}

static void run_route(struct ht_prepared *p, const struct ht_cpu_step *s, int thread) {
    size_t begin = 0, end = ht_cpu_n_rows(p, s->in[0]);
    if (p->mode == HT_CPU_MANY) ht_team_share(end, 1, thread, p->c->n_threads, &begin, &end);
    size_t ids_bytes = p->c->tensors[s->out[0]].row_bytes;
    for (size_t t = begin; t < end; t++) {
        uint8_t *ids = ht_cpu_rows_at(p, s->out[0], thread) + t * ids_bytes;
        uint8_t *weights = ht_cpu_rows_at(p, s->out[1], thread) + t * ids_bytes;
        route_row(p, s, ht_cpu_f32(p, s->in[0], thread) + t * s->n_experts,
                  ht_cpu_own_row(p, thread), (int32_t *)(void *)ids, (float *)(void *)weights);
    }
}

// Row t of a route's ids or weights, as this thread sees it.
static const void *routed(const struct ht_prepared *p, uint32_t tensor, size_t t, int thread) {
    return ht_cpu_rows_at(p, tensor, thread) + t * p->c->tensors[tensor].row_bytes;
}

// A counting sort; one thread's work, small beside the experts'.
static void run_group(struct ht_prepared *p, const struct ht_cpu_step *s, int thread) {
    if (p->mode == HT_CPU_FEW || thread != 0) return;
    struct groups g = groups_at(p, s, s->out[0]);
    uint32_t n_tokens = ht_cpu_n_rows(p, s->in[0]);
    memset(g.start, 0, (s->n_experts + 1) * sizeof *g.start);
    for (uint32_t t = 0; t < n_tokens; t++) {
        const int32_t *ids = routed(p, s->in[0], t, thread);
        for (uint32_t j = 0; j < s->n_used; j++) g.start[ids[j] + 1]++;
    }
    for (uint32_t e = 0; e < s->n_experts; e++) g.start[e + 1] += g.start[e];
    for (uint32_t t = 0; t < n_tokens; t++) {
        const int32_t *ids = routed(p, s->in[0], t, thread);
        for (uint32_t j = 0; j < s->n_used; j++) {
            uint32_t at = g.start[ids[j]]++;
            g.token[at] = t;
            g.slot[t * s->n_used + j] = at;
        }
    }
    for (uint32_t e = s->n_experts; e > 0; e--) g.start[e] = g.start[e - 1];
    g.start[0] = 0;
}

static size_t n_pairs(const struct ht_prepared *p, const struct ht_cpu_step *s) {
    return (size_t)ht_cpu_n_rows(p, s->in[0]) * s->n_used;
}

static void run_gather(struct ht_prepared *p, const struct ht_cpu_step *s, int thread) {
    if (p->mode == HT_CPU_FEW) return;
    struct groups g = groups_at(p, s, s->in[1]);
    size_t begin, end, bytes = p->c->tensors[s->out[0]].row_bytes / s->n_used;
    size_t from_bytes = p->c->tensors[s->in[0]].row_bytes;
    ht_team_share(n_pairs(p, s), 1, thread, p->c->n_threads, &begin, &end);
    for (size_t i = begin; i < end; i++)
        memcpy(ht_cpu_rows_at(p, s->out[0], thread) + i * bytes,
               ht_cpu_rows_at(p, s->in[0], thread) + g.token[i] * from_bytes, bytes);
}

// Rows [begin, end) of every matrix of an expert, for n pairs from pair `at` on. Behind them the
// thread goes on with rows of expert `next` from next_begin on, or, if that is HT_NONE, with none.
struct piece {
    uint32_t expert, next;
    size_t begin, end, next_begin, at;
    uint32_t n, n_act_rows;
};

static struct ht_linear_next rows_from(const struct ht_prepared *p, const struct ht_cpu_step *s,
                                       uint32_t weight, uint32_t expert, size_t row) {
    const struct ht_weight *w = &p->c->plan->weights[weight];
    if (expert == HT_NONE) return (struct ht_linear_next){0};
    size_t row_bytes = (size_t)(w->n_bytes / s->n_experts / w->ne[1]);
    return (struct ht_linear_next){ht_cpu_matrix(p, weight) + (expert * w->ne[1] + row) * row_bytes,
                                   row_bytes};
}

// Where outputs of a piece's first pair go: column `first` is y[0].
struct place {
    float *y;
    size_t first, stride;
};

static struct place in_tensor(const struct ht_prepared *p, uint32_t tensor, const struct piece *e,
                              int thread) {
    size_t width = p->c->tensors[tensor].width;
    return (struct place){ht_cpu_f32(p, tensor, thread) + e->at * width, 0, width};
}

static void expert_rows(struct ht_prepared *p, const struct ht_cpu_step *s, uint32_t weight,
                        const struct piece *e, const uint8_t *act, struct place to,
                        struct ht_linear_next then, int thread) {
    const struct ht_weight *w = &p->c->plan->weights[weight];
    struct ht_linear_job job = {
        .format = w->format,
        .weight = rows_from(p, s, weight, e->expert, 0).at,
        .repacked = ht_cpu_is_repacked(p, weight),
        .n_in = (uint32_t)w->ne[0],
        .n_out = (uint32_t)w->ne[1],
        .act = act,
        .n_tokens = e->n,
        .n_act_rows = e->n_act_rows,
        .y = to.y,
        .y_first = (uint32_t)to.first,
        .y_stride = to.stride,
        .scale = w->scale ? w->scale + e->expert : NULL,
        .then = then,
        .asked = &ht_cpu_own_asked(p, thread)->linear,
    };
    ht_linear_rows(p->backend->linear, &job, (uint32_t)e->begin, (uint32_t)e->end,
                   ht_cpu_own(p, thread));
}

// The prepared row of pair `at`, of rows that stand pair by pair.
static const uint8_t *pair_rows(const struct ht_prepared *p, const struct ht_cpu_step *s,
                                uint32_t tensor, size_t at, int thread) {
    return ht_cpu_rows_at(p, tensor, thread) + at * (p->c->tensors[tensor].row_bytes / s->n_used);
}

// Gate and up of one token, and their product.
static void up_rows(struct ht_prepared *p, const struct ht_cpu_step *s, const struct piece *e,
                    int thread) {
    struct place gate = in_tensor(p, s->out[0], e, thread), up = in_tensor(p, s->out[1], e, thread);
    expert_rows(p, s, s->w[0], e, ht_cpu_rows_at(p, s->in[0], thread), gate,
                rows_from(p, s, s->w[1], e->expert, e->begin), thread);
    expert_rows(p, s, s->w[1], e, ht_cpu_rows_at(p, s->in[1], thread), up,
                rows_from(p, s, s->w[0], e->next, e->next_begin), thread);
    p->backend->vec.act_mul(s->act, gate.y + e->begin, up.y + e->begin,
                            (uint32_t)(e->end - e->begin), gate.y + e->begin);
}

// The same of many tokens, some columns at a time, which nobody reads but as prepared rows.
static void up_prepared(struct ht_prepared *p, const struct ht_cpu_step *s, const struct piece *all,
                        int thread) {
    const struct ht_linear_kernels *k = p->backend->linear;
    size_t row_bytes = p->c->tensors[s->prep].row_bytes / s->n_used;
    struct piece e = *all; // a part of it, and what comes then
    for (uint32_t left = all->n; left > 0; left -= e.n, e.at += e.n) {
        e.n = ht_linear_together(left);
        e.n_act_rows = all->n_act_rows - (all->n - left);
        size_t most =
            ht_cpu_piece_columns(all->end - all->begin, p->c->tensors[s->out[0]].width, e.n);
        for (e.begin = all->begin; e.begin < all->end; e.begin = e.end) {
            e.end = e.begin + most < all->end ? e.begin + most : all->end;
            bool last = e.end == all->end, very_last = last && left == e.n;
            e.next = very_last ? all->next : all->expert;
            e.next_begin = very_last ? all->next_begin : last ? all->begin : e.end;
            size_t n = e.end - e.begin;
            struct place gate = {ht_cpu_own_piece(p, thread), e.begin, n}, up = gate;
            up.y += e.n * n;
            expert_rows(p, s, s->w[0], &e, pair_rows(p, s, s->in[2], e.at, thread), gate,
                        rows_from(p, s, s->w[1], e.expert, e.begin), thread);
            expert_rows(p, s, s->w[1], &e, pair_rows(p, s, s->in[3], e.at, thread), up,
                        rows_from(p, s, s->w[0], e.next, e.next_begin), thread);
            p->backend->vec.act_mul(s->act, gate.y, up.y, (uint32_t)(e.n * n), gate.y);
            ht_act_prepare_columns(k, s->kind, gate.y, e.n, (uint32_t)n,
                                   ht_cpu_rows_at(p, s->prep, 0) + e.at * row_bytes +
                                       ht_act_bytes(k, s->kind, e.begin),
                                   row_bytes);
        }
    }
}

static void down_rows(struct ht_prepared *p, const struct ht_cpu_step *s, const struct piece *e,
                      int thread) {
    expert_rows(p, s, s->w[2], e, pair_rows(p, s, s->in[0], e->at, thread),
                in_tensor(p, s->out[0], e, thread),
                rows_from(p, s, s->w[2], e->next, e->next_begin), thread);
}

// One token: the experts in rank order, each divided over the threads by rows.
static void run_few(struct ht_prepared *p, const struct ht_cpu_step *s, int thread) {
    bool down = s->op == HT_CPU_MOE_DOWN;
    const int32_t *ids = routed(p, s->in[down ? 1 : 4], 0, thread);
    struct piece e = {.n = 1};
    ht_team_share(p->c->tensors[s->out[0]].width, HT_ROW_GROUP, thread, p->c->n_threads, &e.begin,
                  &e.end);
    e.next_begin = e.begin;
    if (e.begin >= e.end) return; // fewer groups of rows than threads
    for (uint32_t j = 0; j < s->n_used; j++) {
        e.expert = (uint32_t)ids[j];
        e.next = j + 1 < s->n_used ? (uint32_t)ids[j + 1] : HT_NONE;
        e.at = j;
        if (down)
            down_rows(p, s, &e, thread);
        else
            up_rows(p, s, &e, thread);
    }
}

// Rows of a piece of that many: long runs are read faster, but threads that are not as fast as each
// other want several pieces each, and experts differ in tokens.
#define PIECES_EACH 16
#define PIECE_LEAST (4 * HT_ROW_GROUP)

static size_t piece_rows(const struct groups *g, uint32_t n_experts, size_t width, int n_threads) {
    size_t wanted = 0;
    for (uint32_t e = 0; e < n_experts; e++) wanted += g->start[e] < g->start[e + 1];
    size_t least = PIECES_EACH * (size_t)n_threads, each = (least + wanted - 1) / wanted;
    size_t rows = (width + each - 1) / each;
    rows = (rows + HT_ROW_GROUP - 1) / HT_ROW_GROUP * HT_ROW_GROUP;
    return rows > PIECE_LEAST ? rows : PIECE_LEAST;
}

// The next of so many pieces that nobody has taken and that has pairs, or one past the last.
static size_t take_piece(atomic_uint *taken, const struct groups *g, size_t n_pieces, size_t n) {
    size_t i;
    do i = atomic_fetch_add_explicit(taken, 1, memory_order_relaxed);
    while (i < n && g->start[i / n_pieces] == g->start[i / n_pieces + 1]);
    return i;
}

// Many tokens: pieces of (expert, rows), taken one by one since experts differ in tokens, each
// before the work on the one in front, which then asks for its first rows.
static void run_many(struct ht_prepared *p, const struct ht_cpu_step *s, int thread) {
    bool down = s->op == HT_CPU_MOE_DOWN;
    struct groups g = groups_at(p, s, s->in[down ? 2 : 5]);
    size_t width = p->c->tensors[s->out[0]].width;
    size_t piece = piece_rows(&g, s->n_experts, width, p->c->n_threads);
    size_t n_pieces = (width + piece - 1) / piece;
    size_t n = s->n_experts * n_pieces;
    atomic_uint *taken = &p->counters[s - p->c->steps];
    for (size_t then, i = take_piece(taken, &g, n_pieces, n); i < n; i = then) {
        then = take_piece(taken, &g, n_pieces, n);
        struct piece e = {.expert = (uint32_t)(i / n_pieces), .next = HT_NONE};
        if (then < n) e.next = (uint32_t)(then / n_pieces), e.next_begin = then % n_pieces * piece;
        e.at = g.start[e.expert];
        e.n = g.start[e.expert + 1] - (uint32_t)e.at;
        e.n_act_rows = ht_cpu_max_rows(p, s->in[down ? 0 : 2]) * s->n_used - (uint32_t)e.at;
        e.begin = i % n_pieces * piece;
        e.end = e.begin + piece < width ? e.begin + piece : width;
        if (down)
            down_rows(p, s, &e, thread);
        else
            up_prepared(p, s, &e, thread);
    }
}

// One token's, by every thread for itself.
static void run_hidden_prep(struct ht_prepared *p, const struct ht_cpu_step *s, int thread) {
    if (p->mode == HT_CPU_MANY) return; // they are (up_prepared)
    uint32_t ffn = p->c->tensors[s->in[1]].width;
    size_t bytes = p->c->tensors[s->out[0]].row_bytes / s->n_used;
    for (size_t i = 0; i < s->n_used; i++)
        ht_act_prepare(p->backend->linear, s->kind, ht_cpu_f32(p, s->in[1], thread) + i * ffn, ffn,
                       ht_cpu_rows_at(p, s->out[0], thread) + i * bytes);
}

static void run_sum(struct ht_prepared *p, const struct ht_cpu_step *s, int thread) {
    bool few = p->mode == HT_CPU_FEW;
    size_t width = p->c->tensors[s->out[0]].width, t0 = 0, t1 = ht_cpu_n_rows(p, s->out[0]);
    size_t c0 = 0, c1 = width;
    if (few)
        ht_team_share(width, HT_ROW_GROUP, thread, p->c->n_threads, &c0, &c1);
    else
        ht_team_share(t1, 1, thread, p->c->n_threads, &t0, &t1);
    const float *from = ht_cpu_f32(p, s->in[0], thread);
    struct groups g = few ? (struct groups){0} : groups_at(p, s, s->in[2]);
    for (size_t t = t0; t < t1 && c0 < c1; t++) {
        const float *weights = routed(p, s->in[1], t, thread);
        float *y = ht_cpu_f32(p, s->out[0], thread) + t * width + c0;
        memset(y, 0, (c1 - c0) * sizeof *y);
        for (uint32_t j = 0; j < s->n_used; j++) {
            size_t at = few ? j : g.slot[t * s->n_used + j];
            p->backend->vec.axpy(weights[j], from + at * width + c0, (uint32_t)(c1 - c0), y);
        }
    }
}

void ht_cpu_run_moe(struct ht_prepared *p, const struct ht_cpu_step *s, int thread) {
    if (ht_cpu_n_rows(p, s->in[0]) == 0) return; // behind the selection of outputs, of which none
    switch (s->op) {
    case HT_CPU_MOE_ROUTE: run_route(p, s, thread); break;
    case HT_CPU_MOE_GROUP: run_group(p, s, thread); break;
    case HT_CPU_MOE_GATHER: run_gather(p, s, thread); break;
    case HT_CPU_MOE_UP:
    case HT_CPU_MOE_DOWN:
        if (p->mode == HT_CPU_FEW)
            run_few(p, s, thread);
        else
            run_many(p, s, thread);
        break;
    case HT_CPU_MOE_PREP: run_hidden_prep(p, s, thread); break;
    default: run_sum(p, s, thread); break;
    }
}
