// SPDX-License-Identifier: MIT
// Linear steps: a thread takes its share of the output rows of every matrix of the step and does
// what follows on the same columns at once. Runs inside the region.
#include "backend/cpu/exec.h"

// Outputs that a thread works on before it applies the activation to them, in bytes: a small part
// of its second-level cache.
#define EPILOGUE_BYTES (128 * 1024)

uint64_t ht_cpu_piece_bytes(uint32_t n_linear, uint64_t width, uint32_t max_tokens) {
    uint64_t few = width, many = (uint64_t)HT_ROW_GROUP * ht_linear_together(max_tokens);
    return (few > many ? few : many) * n_linear * sizeof(float);
}

struct range {
    size_t begin, end; // rows of a weight matrix
};

static struct ht_linear_next rows_from(const struct ht_prepared *p, const struct ht_cpu_step *s,
                                       uint32_t i, size_t row) {
    const struct ht_weight *w = &p->c->plan->weights[s->w[i]];
    size_t row_bytes = (size_t)(w->n_bytes / w->ne[1]);
    return (struct ht_linear_next){ht_cpu_matrix(p, s->w[i]) + row * row_bytes, row_bytes};
}

// Where a thread puts columns [first, ...) of output i: row t at y + t * stride.
struct columns {
    size_t first, stride;
    float *y;
};

static struct columns whole_columns(const struct ht_prepared *p, const struct ht_cpu_step *s,
                                    uint32_t i, size_t row, int thread) {
    size_t width = p->c->tensors[s->out[i]].width;
    return (struct columns){0, width, ht_cpu_f32(p, s->out[i], thread) + row * width};
}

// Columns [begin, end) of n_rows in the thread's own memory, where nobody else reads them.
static struct columns own_columns(const struct ht_prepared *p, uint32_t i, size_t begin, size_t end,
                                  size_t n_rows, int thread) {
    size_t stride = end - begin;
    return (struct columns){begin, stride, ht_cpu_own_piece(p, thread) + i * n_rows * stride};
}

// Rows r of matrix i times the tokens of `rows`; to->y is the place of the first of these.
static void run_tokens(struct ht_prepared *p, const struct ht_cpu_step *s, uint32_t i,
                       struct range r, struct range rows, struct ht_linear_next then,
                       const struct columns *to, int thread) {
    const struct ht_weight *w = &p->c->plan->weights[s->w[i]];
    if (r.begin >= r.end) return;
    struct ht_linear_job job = {
        .format = w->format,
        .weight = ht_cpu_matrix(p, s->w[i]),
        .repacked = ht_cpu_is_repacked(p, s->w[i]),
        .n_in = (uint32_t)w->ne[0],
        .n_out = (uint32_t)w->ne[1],
        .act = ht_cpu_rows_at(p, s->in[i], thread) + rows.begin * p->c->tensors[s->in[i]].row_bytes,
        .n_tokens = (uint32_t)(rows.end - rows.begin),
        .n_act_rows = ht_cpu_max_rows(p, s->in[i]) - (uint32_t)rows.begin,
        .y = to->y,
        .y_first = (uint32_t)to->first,
        .y_stride = to->stride,
        .scale = w->scale,
        .bias = ht_cpu_vector(p, s->w[3 + i]),
        .then = then,
        .asked = &ht_cpu_own_asked(p, thread)->linear,
    };
    if (s->residual != HT_NONE) {
        job.residual = ht_cpu_f32(p, s->residual, thread) + rows.begin * w->ne[1];
        job.residual_stride = w->ne[1];
    }
    ht_linear_rows(p->backend->linear, &job, (uint32_t)r.begin, (uint32_t)r.end,
                   ht_cpu_own(p, thread));
}

// The activation over columns [begin, end) of n_tokens rows.
static void run_act(struct ht_prepared *p, const struct ht_cpu_step *s, size_t begin, size_t end,
                    uint32_t n_tokens, const struct columns *to) {
    const struct ht_vec_kernels *k = &p->backend->vec;
    uint32_t n = (uint32_t)(end - begin);
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

// The pieces of a range, of at most n columns each; *r is the last one, or {0}.
static bool next_piece(struct range whole, size_t n, struct range *r) {
    size_t at = r->end == 0 ? whole.begin : r->end;
    if (at >= whole.end) return false;
    *r = (struct range){at, at + n < whole.end ? at + n : whole.end};
    return true;
}

// What is read behind matrix i of a piece.
static struct ht_linear_next behind(const struct ht_prepared *p, const struct ht_cpu_step *s,
                                    uint32_t i, struct range r, struct range whole,
                                    struct ht_linear_next then) {
    if (i + 1 < s->n_linear) return rows_from(p, s, i + 1, r.begin);
    return r.end < whole.end ? rows_from(p, s, 0, r.end) : then;
}

// Values of an output that are prepared at once, at most: they stay in the first-level cache. More
// tokens than FEW take no more than a group of rows, which is 3 to 4 % faster there.
#define PREPARED_VALUES 2048
#define PREPARED_FEW    16

// As many values as ht_cpu_piece_bytes counts.
size_t ht_cpu_piece_columns(size_t n_columns, size_t width, uint32_t n_tokens) {
    size_t most = width < PREPARED_VALUES ? width : PREPARED_VALUES;
    size_t n = most / n_tokens / HT_ROW_GROUP * HT_ROW_GROUP;
    if (n_tokens == 1) return n_columns;
    return n > 0 && n_tokens <= PREPARED_FEW ? n : HT_ROW_GROUP;
}

// Columns of every output, activation and all, kept by nobody but as prepared rows.
static void run_prepared(struct ht_prepared *p, const struct ht_cpu_step *s, struct range whole,
                         struct range rows, struct ht_linear_next then, int thread) {
    const struct ht_linear_kernels *k = p->backend->linear;
    uint32_t n_tokens = (uint32_t)(rows.end - rows.begin);
    size_t width = p->c->tensors[s->out[0]].width;
    size_t most = ht_cpu_piece_columns(whole.end - whole.begin, width, n_tokens);
    size_t row_bytes = p->c->tensors[s->prep].row_bytes;
    struct range r = {0};
    while (next_piece(whole, most, &r)) {
        struct columns c[3];
        for (uint32_t i = 0; i < s->n_linear; i++) {
            c[i] = own_columns(p, i, r.begin, r.end, n_tokens, thread);
            run_tokens(p, s, i, r, rows, behind(p, s, i, r, whole, then), &c[i], thread);
        }
        run_act(p, s, r.begin, r.end, n_tokens, c);
        uint8_t *dst = ht_cpu_rows_at(p, s->prep, 0) + rows.begin * row_bytes +
                       ht_act_bytes(k, s->kind, r.begin);
        ht_act_prepare_columns(k, s->kind, c[0].y, n_tokens, (uint32_t)(r.end - r.begin), dst,
                               row_bytes);
    }
}

// Columns of every output, with the activation, in pieces that stay in the cache.
static void run_columns(struct ht_prepared *p, const struct ht_cpu_step *s, struct range whole,
                        struct range rows, struct ht_linear_next then, int thread) {
    size_t n_tokens = rows.end - rows.begin, row_bytes = n_tokens * s->n_linear * sizeof(float);
    size_t n = EPILOGUE_BYTES / row_bytes / HT_ROW_GROUP * HT_ROW_GROUP;
    if (!s->has_act) n = whole.end - whole.begin;
    if (n < HT_ROW_GROUP) n = HT_ROW_GROUP;
    struct range r = {0};
    while (next_piece(whole, n, &r)) {
        struct columns c[3];
        for (uint32_t i = 0; i < s->n_linear; i++) {
            c[i] = whole_columns(p, s, i, rows.begin, thread);
            run_tokens(p, s, i, r, rows, behind(p, s, i, r, whole, then), &c[i], thread);
        }
        if (s->has_act) run_act(p, s, r.begin, r.end, (uint32_t)n_tokens, c);
    }
}

// How a step's rows are divided: by KV heads; as one list over all matrices; or by columns, the
// same of every matrix, which threads take from each other in the end.
enum division { BY_HEADS, JOINED, SHARED };

static enum division division_of(const struct ht_cpu_step *s) {
    if (s->own_heads) return BY_HEADS;
    return s->n_linear == 1 || s->has_mul ? SHARED : JOINED;
}

// The rows of every matrix that a thread begins with.
static void share_of(const struct ht_prepared *p, const struct ht_cpu_step *s, int thread,
                     struct range r[3]) {
    size_t n_kv = p->c->plan->n_kv_heads, n_units = 0, units[3], width[3], begin, end, base = 0;
    enum division d = division_of(s);
    for (uint32_t i = 0; i < s->n_linear; i++) {
        width[i] = p->c->tensors[s->out[i]].width;
        units[i] = d == BY_HEADS ? n_kv : (width[i] + HT_ROW_GROUP - 1) / HT_ROW_GROUP;
        n_units = d == JOINED ? n_units + units[i] : units[0];
    }
    ht_team_share(n_units, 1, thread, p->c->n_threads, &begin, &end);
    for (uint32_t i = 0; i < s->n_linear; i++) {
        size_t from = begin > base ? begin - base : 0, to = end > base ? end - base : 0;
        size_t rows = d == BY_HEADS ? width[i] / n_kv : HT_ROW_GROUP;
        to = to < units[i] ? to * rows : width[i];
        r[i] = (struct range){from * rows, to < width[i] ? to : width[i]};
        if (d == JOINED) base += units[i];
    }
}

// What a thread reads first of its ranges of matrix `from` and those behind it.
static struct ht_linear_next first_of(const struct ht_prepared *p, const struct ht_cpu_step *s,
                                      const struct range r[3], uint32_t from) {
    for (uint32_t i = from; i < s->n_linear; i++)
        if (r[i].begin < r[i].end) return rows_from(p, s, i, r[i].begin);
    return (struct ht_linear_next){0};
}

// What a thread reads first from step s on.
static struct ht_linear_next first_from(const struct ht_prepared *p, const struct ht_cpu_step *s,
                                        int thread) {
    if (s == p->c->steps + p->c->n_steps || s->ahead == HT_NONE) return (struct ht_linear_next){0};
    struct range r[3];
    share_of(p, &p->c->steps[s->ahead], thread, r);
    return first_of(p, &p->c->steps[s->ahead], r, 0);
}

uint64_t ht_cpu_heads_bytes(uint64_t width, uint32_t head_dim, uint32_t max_tokens) {
    uint64_t many = (uint64_t)ht_linear_together(max_tokens) * head_dim;
    return (width > many ? width : many) * sizeof(float);
}

// Columns of output i, of those of tokens `rows` that are wanted, and what becomes of their heads:
// one after the other, as long as they are in the cache; of a single token all. Keys and values lie
// in the thread's memory until they are stored.
static void run_heads(struct ht_prepared *p, const struct ht_cpu_step *s, uint32_t i,
                      struct range whole, struct range rows, struct ht_linear_next then,
                      int thread) {
    const struct ht_cpu_heads *how = &s->heads[i];
    uint32_t d = how->head_dim;
    struct range wanted;
    ht_cpu_wanted_rows(p, s->out[i], &wanted.begin, &wanted.end);
    if (rows.begin < wanted.begin) rows.begin = wanted.begin;
    if (rows.end > wanted.end) rows.end = wanted.end;
    if (rows.begin >= rows.end) return;
    if (d == 0) {
        struct columns c = whole_columns(p, s, i, rows.begin, thread);
        run_tokens(p, s, i, whole, rows, then, &c, thread);
        return;
    }
    struct range r = {0};
    size_t n = ht_cpu_n_rows(p, s->out[i]) == 1 ? whole.end - whole.begin : d;
    while (next_piece(whole, n, &r)) {
        float *x = ht_cpu_own_piece(p, thread);
        if (how->store == HT_CPU_STORE_NONE)
            x = ht_cpu_head_at(p, s->out[i], r.begin / d, d).x + rows.begin * d;
        if (how->store != HT_CPU_STORE_NONE) // while the head is made
            ht_cpu_ask_store(p, s->layer, how->store, d, rows.begin, rows.end, r.begin / d);
        struct columns c = {r.begin, d, x};
        run_tokens(p, s, i, r, rows, r.end < whole.end ? rows_from(p, s, i, r.end) : then, &c,
                   thread);
        for (size_t h = r.begin / d; h < r.end / d; h++, x += d)
            ht_cpu_finish_head(p, s, i, h, rows.begin, rows.end, x);
    }
}

// Rows that are the thread's alone, matrix after matrix, for as many tokens as are done at a time.
static void run_own(struct ht_prepared *p, const struct ht_cpu_step *s, int thread) {
    struct range whole[3], rows = {0}, all = {0, ht_cpu_n_rows(p, s->out[0])};
    share_of(p, s, thread, whole);
    while (next_piece(all, HT_LINEAR_TOKENS, &rows))
        for (uint32_t i = 0; i < s->n_linear; i++) {
            struct ht_linear_next then = first_of(p, s, whole, i + 1);
            if (!then.at && rows.end < all.end) then = first_of(p, s, whole, 0);
            if (!then.at) then = first_from(p, s + 1, thread);
            run_heads(p, s, i, whole[i], rows, then, thread);
        }
}

// A thread's share of a step that others may take of, in units: groups of rows, the same of every
// matrix, or one token's heads, matrix after matrix. The first half is left to the thread itself;
// the others are taken piece by piece, in order.
struct share {
    struct range r[3]; // rows of every matrix
    size_t n_units, n_reserved;
    atomic_uint *taken; // of those behind the reserved ones
};

static size_t heads_in(const struct ht_cpu_step *s, const struct share *q, uint32_t i) {
    return (q->r[i].end - q->r[i].begin) / s->heads[i].head_dim;
}

static struct share shared_of(const struct ht_prepared *p, const struct ht_cpu_step *s, int owner) {
    struct share q = {.taken = ht_cpu_taken(p, s, owner)};
    share_of(p, s, owner, q.r);
    for (uint32_t i = 0; s->own_heads && i < s->n_linear; i++) q.n_units += heads_in(s, &q, i);
    if (!s->own_heads) q.n_units = (q.r[0].end - q.r[0].begin + HT_ROW_GROUP - 1) / HT_ROW_GROUP;
    q.n_reserved = (q.n_units + 1) / 2;
    return q;
}

// The next piece, half of what is left: long ones in front, between which little is lost, and short
// ones at the end, for which others wait less. Where it begins, and *n of its units; false: none
// are left. (Taking waits for every load that is on its way, so pieces are few.)
static bool take_piece(const struct share *q, size_t *at, size_t *n) {
    size_t n_free = q->n_units - q->n_reserved;
    unsigned seen = atomic_load_explicit(q->taken, memory_order_relaxed);
    do {
        if (seen >= n_free) return false;
        *n = (n_free - seen + 1) / 2;
    } while (!atomic_compare_exchange_weak_explicit(q->taken, &seen, seen + (unsigned)*n,
                                                    memory_order_relaxed, memory_order_relaxed));
    *at = q->n_reserved + seen;
    return true;
}

// n groups from the at-th of a share on, of as many tokens at a time as share a pack: their
// activations stay near for all groups. then: what the thread reads behind the share, or, where
// that is not its own, behind the piece.
static void run_groups(struct ht_prepared *p, const struct ht_cpu_step *s, const struct share *q,
                       size_t at, size_t n, bool own, struct ht_linear_next then, int thread) {
    bool last = at + n == q->n_units;
    struct range r = {q->r[0].begin + at * HT_ROW_GROUP, q->r[0].end};
    if (!last) r.end = r.begin + n * HT_ROW_GROUP;
    if (own && !last) then = rows_from(p, s, 0, r.end);
    struct range rows = {0}, all = {0, ht_cpu_n_rows(p, s->out[0])};
    while (next_piece(all, HT_LINEAR_TOKENS, &rows)) {
        struct ht_linear_next next = rows.end < all.end ? rows_from(p, s, 0, r.begin) : then;
        if (s->prep != HT_NONE)
            run_prepared(p, s, r, rows, next, thread);
        else
            run_columns(p, s, r, rows, next, thread);
    }
}

// The matrix of a share's at-th head, which is its *head-th there.
static uint32_t matrix_of(const struct ht_cpu_step *s, const struct share *q, size_t at,
                          size_t *head) {
    uint32_t i = 0;
    for (size_t n; at >= (n = heads_in(s, q, i)); i++) at -= n;
    *head = at;
    return i;
}

// The same of heads.
static void run_listed(struct ht_prepared *p, const struct ht_cpu_step *s, const struct share *q,
                       size_t at, size_t n, bool own, struct ht_linear_next then, int thread) {
    struct range rows = {0, ht_cpu_n_rows(p, s->out[0])};
    size_t end = own ? q->n_units : at + n, head, behind;
    for (size_t m; n > 0; at += m, n -= m) {
        uint32_t i = matrix_of(s, q, at, &head);
        size_t d = s->heads[i].head_dim, first = q->r[i].begin + head * d;
        m = heads_in(s, q, i) - head < n ? heads_in(s, q, i) - head : n;
        struct ht_linear_next next = then;
        if (at + m < end) {
            uint32_t j = matrix_of(s, q, at + m, &behind);
            next = rows_from(p, s, j, q->r[j].begin + behind * s->heads[j].head_dim);
        }
        run_heads(p, s, i, (struct range){first, first + m * d}, rows, next, thread);
    }
}

// A thread works through its share, and then through what the others have left of theirs. Each
// piece's weights are asked for while the one before is computed. Behind heads there is no barrier,
// so a thread comes back when its own are done, whoever did them.
static void run_shared(struct ht_prepared *p, const struct ht_cpu_step *s, int thread) {
    struct ht_linear_next then = first_from(p, s + 1, thread);
    size_t n_left = 0; // of its own, that it has not done itself
    for (int k = 0, n_threads = p->c->n_threads; k < n_threads; k++) {
        int owner = (thread + k) % n_threads;
        bool own = k == 0;
        struct share q = shared_of(p, s, owner);
        size_t at = 0, n = own ? q.n_reserved : 0;
        if (own) n_left = q.n_units;
        while (n > 0 || take_piece(&q, &at, &n)) {
            (s->own_heads ? run_listed : run_groups)(p, s, &q, at, n, own, then, thread);
            if (own)
                n_left -= n;
            else if (s->own_heads)
                atomic_fetch_add_explicit(ht_cpu_given(p, s, owner), (unsigned)n,
                                          memory_order_release);
            n = 0;
        }
    }
    const atomic_uint *given = ht_cpu_given(p, s, thread);
    for (unsigned i = 0; s->own_heads && atomic_load_explicit(given, memory_order_acquire) < n_left;
         i++)
        ht_team_spin(i);
}

// Whether a step's heads may be taken by others: those of one token, if it makes nothing else.
static bool shares_heads(const struct ht_prepared *p, const struct ht_cpu_step *s) {
    if (p->mode != HT_CPU_FEW || !s->own_heads || p->c->n_threads == 1) return false;
    for (uint32_t i = 0; i < s->n_linear; i++)
        if (s->heads[i].head_dim == 0) return false;
    return true;
}

void ht_cpu_fetch_ahead(const struct ht_prepared *p, const struct ht_cpu_step *s, int thread) {
    ht_linear_ask(p->backend->linear, &ht_cpu_own_asked(p, thread)->linear,
                  first_from(p, s, thread), p->batch->n_tokens);
}

void ht_cpu_run_linear(struct ht_prepared *p, const struct ht_cpu_step *s, int thread) {
    if (ht_cpu_n_rows(p, s->out[0]) == 0) return;
    // The same memory, perhaps, but not what it held.
    ht_cpu_own_asked(p, thread)->linear.act = NULL;
    if (division_of(s) == SHARED || shares_heads(p, s))
        run_shared(p, s, thread);
    else
        run_own(p, s, thread);
}
