// SPDX-License-Identifier: MIT
// Attention over paged KV. A task is one KV head and a tile of tokens of one sequence: the query
// rows of the group's heads, at most attn_rows at once, so that each K and V row is read once for
// all of them; or one token and as many KV heads as have so many rows. Order of the arithmetic:
// num.h, for each query row by its own position alone; how tokens are put together in tiles never
// shows.
#include <string.h>

#include "backend/cpu/ask.h"
#include "backend/cpu/exec.h"

// Where each KV head's groups of K and V rows of a tile of positions lie, and what may be fetched.
struct pages {
    const void *k[HT_LANES][HT_TILE_GROUPS], *v[HT_LANES][HT_TILE_PAGES];
    const void *next_k[HT_LANES][HT_TILE_GROUPS], *next_v[HT_LANES][HT_TILE_GROUPS];
};

// A thread's memory, carved from ht_cpu_own_attn.
struct work {
    float *q;      // query rows as q_load puts them
    float *s;      // [n_rows][HT_TILE] scores, then weights
    float *seg;    // [n_rows][head_dim] of this segment
    float *acc;    // [n_rows][head_dim] of the segments before, where there are several
    float *turned; // a group of K that lay in rows, as attn_qk reads it
    float all_m[HT_ATTN_MAX_ROWS], all_l[HT_ATTN_MAX_ROWS]; // likewise; an l of 0: there were none
    float m[HT_ATTN_MAX_ROWS], l[HT_ATTN_MAX_ROWS][HT_LANES]; // of this segment (attn_softmax)
    float c[HT_ATTN_MAX_ROWS];
    struct ht_attn_task task;
    // Rows are [KV head][token][head]: kv_rows of a KV head, n_heads query heads of it a token.
    uint32_t n_rows, kv_rows, n_heads;
    uint32_t lo[HT_ATTN_MAX_ROWS], hi[HT_ATTN_MAX_ROWS]; // positions that a row attends to
    struct pages pages;
    bool reads;               // each tile by read_tile
    struct ht_attn_task next; // what this thread does then
    uint32_t n_ask;           // its last tokens, whose query rows nobody asked for yet
};

uint64_t ht_attn_bytes(const struct ht_vec_kernels *k, uint32_t head_dim) {
    uint64_t row = 2ull * head_dim + ht_attn_q_floats(head_dim) + HT_TILE;
    return k->attn_rows * row * sizeof(float) +
           HT_LANES * ht_kv_row_bytes(HEARTH_KV_I16, head_dim); // the type that lies in rows
}

static uint32_t min_u32(uint32_t a, uint32_t b) {
    return a < b ? a : b;
}

static uint32_t max_u32(uint32_t a, uint32_t b) {
    return a > b ? a : b;
}

uint32_t ht_attn_tile_tokens(const struct ht_vec_kernels *k, uint32_t n_heads, uint32_t n_kv_heads,
                             uint32_t n_tokens, uint32_t n_threads) {
    enum { TASKS = 4 }; // of a thread, so that none waits long for another's last
    uint64_t most = (uint64_t)n_tokens * n_kv_heads / (TASKS * n_threads);
    uint32_t n = k->attn_rows / (n_heads / n_kv_heads);
    if (n > most) n = (uint32_t)most;
    return max_u32(n, 1);
}

uint32_t ht_attn_first_seen(const struct ht_cpu_step *s, uint32_t pos) {
    return s->window != 0 && pos + 1 > s->window ? pos + 1 - s->window : 0;
}

static void clear_segment(struct work *w, uint32_t d) {
    memset(w->seg, 0, (size_t)w->n_rows * d * sizeof *w->seg);
    memset(w->l, 0, w->n_rows * sizeof *w->l);
    for (uint32_t r = 0; r < w->n_rows; r++) w->m[r] = -INFINITY;
}

// Rows of n that one call takes of a kernel with a row a lane: as few calls as there can be, of as
// many rows each as the others.
static uint32_t lane_rows(uint32_t n) {
    uint32_t calls = (n + HT_LANES - 1) / HT_LANES;
    return (n + calls - 1) / calls;
}

// Weighted V rows of tile positions [begin, end) for query rows [r0, r1), each rescaled once.
static void add_values(const struct ht_prepared *p, struct work *w, uint32_t d, uint32_t r0,
                       uint32_t r1, uint32_t begin, uint32_t end) {
    const void *const *next = w->reads ? NULL : w->pages.next_v[0]; // fetched once
    if (begin >= end) return;
    for (uint32_t n, n_kv = w->task.n_kv; r0 < r1; r0 += n, next = NULL) {
        n = lane_rows(r1 - r0);
        p->backend->vec.attn_pv[p->c->limits.kv_type](w->seg + (size_t)r0 * d, w->s + r0 * HT_TILE,
                                                      w->c + r0, n_kv, n / n_kv, d, w->pages.v[0],
                                                      next, begin, end);
        for (uint32_t r = r0; r < r0 + n; r++) w->c[r] = 1.0f;
    }
}

// Where a KV head's K and V lie in the page of a position; past a task's last page, in that one.
static const uint8_t *page_of(const struct ht_prepared *p, const struct ht_cpu_step *s,
                              struct ht_attn_task task, uint32_t kv, uint32_t pos) {
    const struct ht_cpu_tile *t = task.tile;
    uint32_t last = (t->pos + t->n_tokens - 1) / HT_PAGE_TOKENS;
    uint32_t page = t->pages[min_u32(pos / HT_PAGE_TOKENS, last)];
    return ht_kv_head(p, s->layer, page, task.kv_head + kv);
}

// The pages of one of the task's KV heads for the tile from `base` on.
static void find_pages(const struct ht_prepared *p, const struct ht_cpu_step *s, struct work *w,
                       uint32_t kv, uint32_t base) {
    size_t k_bytes = HT_LANES * p->c->kv_row_bytes;
    for (uint32_t i = 0; i < HT_TILE_PAGES; i++) {
        const uint8_t *here = page_of(p, s, w->task, kv, base + i * HT_PAGE_TOKENS);
        for (uint32_t g = 0; g < HT_PAGE_GROUPS; g++)
            w->pages.k[kv][i * HT_PAGE_GROUPS + g] = here + g * k_bytes;
        w->pages.v[kv][i] = here + HT_PAGE_GROUPS * k_bytes;
    }
}

// Behind find_pages, what the kernels may fetch ahead: of each page, that which is read a whole
// tile of pages later, be it the task's or the next one's, and where nothing comes later, that of
// the next KV head; but no group of positions that nobody will look at. A task's last tile may be
// short, and has no time to fetch all of the next task's first. Where their memory's pages are is
// asked here, all at once, since the kernels' asking would wait for one after the other (ask.h).
static void find_next(const struct ht_prepared *p, const struct ht_cpu_step *s, struct work *w,
                      uint32_t kv, uint32_t base) {
    struct pages *at = &w->pages;
    size_t k_bytes = HT_LANES * p->c->kv_row_bytes, v_at = HT_PAGE_GROUPS * k_bytes;
    uint32_t end = (w->hi[w->n_rows - 1] + HT_PAGE_TOKENS - 1) / HT_PAGE_TOKENS * HT_PAGE_TOKENS;
    for (uint32_t i = 0; i < HT_TILE_PAGES; i++) {
        struct ht_attn_task task = w->task;
        uint32_t pos = base + i * HT_PAGE_TOKENS, next_kv = kv;
        const uint8_t *here = at->k[kv][i * HT_PAGE_GROUPS];
        pos += HT_TILE;
        if (pos >= end && w->next.tile) {
            task = w->next;
            pos = pos - end + ht_attn_first_seen(s, task.tile->pos) / HT_TILE * HT_TILE;
            next_kv = kv < task.n_kv ? kv : 0;
        } else if (pos >= end) {
            pos -= HT_TILE;
            next_kv++;
        }
        uint32_t seen = next_kv < task.n_kv ? task.tile->pos + task.tile->n_tokens : 0;
        const uint8_t *then = page_of(p, s, task, next_kv < task.n_kv ? next_kv : 0, pos);
        if (pos < seen) ht_ask_pages(then, p->c->kv_head_bytes);
        for (uint32_t g = 0; g < HT_PAGE_GROUPS; g++) {
            const uint8_t *next = pos + g * HT_LANES < seen ? then : here;
            at->next_k[kv][i * HT_PAGE_GROUPS + g] = next + g * k_bytes;
            at->next_v[kv][i * HT_PAGE_GROUPS + g] = next + v_at;
        }
    }
}

// Reads the pages of a tile, all heads of the task, so that the kernels find them in L2: plain
// loads of long runs come as fast as the memory is, what kernels ask for at half of that
// (docs/cpu.md, "Attention"). Of a last page that is not full, the lines that hold something of its
// n positions.
static void read_tile(const struct ht_prepared *p, const struct ht_cpu_step *s, struct work *w,
                      uint32_t base) {
    uint32_t end = min_u32(w->hi[w->n_rows - 1], base + HT_TILE);
    for (; base + HT_PAGE_TOKENS <= end; base += HT_PAGE_TOKENS)
        ht_read_lines(page_of(p, s, w->task, 0, base), w->task.n_kv * p->c->kv_head_bytes);
    uint32_t n = end > base ? end - base : 0, g = n / HT_LANES, k = n % HT_LANES;
    size_t row = s->head_dim * (size_t)ht_kv_code_bytes(p->c->limits.kv_type);
    size_t k_bytes = HT_LANES * p->c->kv_row_bytes;
    if (k && !p->c->k_rows) k = HT_LANES; // each line of a group in columns has some of every one
    for (uint32_t kv = 0; n > 0 && kv < w->task.n_kv; kv++) {
        const uint8_t *at = page_of(p, s, w->task, kv, base);
        const uint8_t *v = at + HT_PAGE_GROUPS * k_bytes;
        ht_read_lines(at, g * k_bytes + k * row);
        if (k) ht_read_lines(at + g * k_bytes + HT_LANES * row, k_bytes - HT_LANES * row); // steps
        ht_read_lines(v, (n + 1) / 2 * 2 * row); // i16 has two positions a line
        ht_read_lines(v + HT_PAGE_TOKENS * row, HT_PAGE_TOKENS * (p->c->kv_row_bytes - row));
    }
}

// Whether a task is worth that: one token that sees many positions, long runs, and few tokens in
// all, as linear steps of more ask for a part of what it would read (set_later).
static bool reads_runs(const struct ht_prepared *p, const struct ht_cpu_step *s,
                       struct ht_attn_task task) {
    enum { POSITIONS = 256, RUN_BYTES = 1 << 16 }; // of a single query; of a page
    uint32_t pos = task.tile->pos, n = ht_cpu_n_queries(p, s);
    uint32_t least = n == 1 ? POSITIONS : p->backend->read_positions;
    return n <= p->backend->read_queries && task.tile->n_tokens == 1 &&
           task.n_kv == p->c->kv_together && pos - ht_attn_first_seen(s, pos) >= least &&
           task.n_kv * p->c->kv_head_bytes >= RUN_BYTES;
}

// The last group of a task's positions may lie in rows; the others are full.
static void turn_last(const struct ht_prepared *p, const struct ht_cpu_step *s, struct work *w,
                      uint32_t kv, uint32_t base) {
    uint32_t end = w->hi[w->n_rows - 1], n = end % HT_LANES, g = (end - base) / HT_LANES;
    if (!p->c->k_rows || n == 0 || end <= base || g >= HT_TILE_GROUPS) return;
    const void **k = &w->pages.k[kv][g];
    *k = p->backend->vec.k_turn[p->c->limits.kv_type](*k, s->head_dim, n, w->turned);
}

// One tile of positions from `base` on, for the query rows that see any of it. Rows are in rising
// position, so those are neighbours.
static void fold_tile(const struct ht_prepared *p, const struct ht_cpu_step *s, struct work *w,
                      uint32_t base) {
    const struct ht_vec_kernels *k = &p->backend->vec;
    enum hearth_kv_type type = p->c->limits.kv_type;
    uint32_t d = s->head_dim, end = base + HT_TILE, r0 = 0, r1 = w->n_rows;
    while (r0 < r1 && w->hi[r0] <= base) r0++;
    while (r1 > r0 && w->lo[r1 - 1] >= end) r1--;
    if (r0 == r1) return;
    // What any of the rows sees, and what all of them see, within the tile.
    uint32_t lo[HT_ATTN_MAX_ROWS], hi[HT_ATTN_MAX_ROWS];
    for (uint32_t r = r0; r < r1; r++) {
        lo[r] = max_u32(w->lo[r], base) - base;
        hi[r] = min_u32(w->hi[r], end) - base;
    }
    uint32_t any_lo = lo[r0], any_hi = hi[r1 - 1], all_lo = lo[r1 - 1], all_hi = hi[r0];
    if (w->reads) read_tile(p, s, w, base);
    for (uint32_t kv = 0; kv < w->task.n_kv; kv++) {
        const struct pages *at = &w->pages;
        find_pages(p, s, w, kv, base);
        if (!w->reads) find_next(p, s, w, kv, base);
        turn_last(p, s, w, kv, base);
        k->attn_qk[type](w->q + kv * w->kv_rows * ht_attn_q_floats(d), w->kv_rows, d, at->k[kv],
                         w->reads ? NULL : at->next_k[kv], any_lo / HT_LANES,
                         (any_hi + HT_LANES - 1) / HT_LANES, w->s + kv * w->kv_rows * HT_TILE);
    }
    for (uint32_t r = r0, n; r < r1; r += n) {
        n = lane_rows(r1 - r);
        k->attn_softmax(w->s + r * HT_TILE, n, lo + r, hi + r, s->scale, s->soft_cap, w->m + r,
                        w->l + r, w->c + r);
    }
    // 0 times any whole number is 0, and rows of one token see the same.
    if (type == HEARTH_KV_I16 || w->task.n_kv > 1) {
        add_values(p, w, d, r0, r1, any_lo, any_hi);
        return;
    }
    // Positions that some rows do not see are left out for those, not multiplied by 0: nothing that
    // a later token wrote reaches an earlier one.
    for (uint32_t r = r0; r < r1 && any_lo < all_lo; r += w->n_heads)
        add_values(p, w, d, r, r + w->n_heads, lo[r], min_u32(hi[r], all_lo));
    add_values(p, w, d, r0, r1, all_lo, all_hi);
    for (uint32_t r = r0; r < r1; r += w->n_heads)
        add_values(p, w, d, r, r + w->n_heads, max_u32(all_hi, all_lo), hi[r]);
}

// Query rows [KV head][token][head], from head h0 on.
static void load_rows(const struct ht_prepared *p, const struct ht_cpu_step *s, struct work *w,
                      uint32_t h0) {
    uint32_t d = s->head_dim;
    w->kv_rows = w->n_rows / w->task.n_kv;
    for (uint32_t r = 0; r < w->n_rows; r++) {
        uint32_t kv = r / w->kv_rows, at = r % w->kv_rows, t = at / w->n_heads;
        uint32_t head = kv * w->n_heads + at % w->n_heads, pos = w->task.tile->pos + t;
        struct ht_cpu_head q = ht_cpu_head_at(p, s->in[0], h0 + head, d);
        p->backend->vec.q_load[p->c->limits.kv_type](q.x + (w->task.tile->row + t) * q.stride, d,
                                                     w->kv_rows, at,
                                                     w->q + kv * w->kv_rows * ht_attn_q_floats(d));
        w->hi[r] = pos + 1;
        w->lo[r] = ht_attn_first_seen(s, pos);
        w->all_m[r] = -INFINITY;
        w->all_l[r] = 0;
    }
}

// Query rows lie far away, and far apart where they are not by heads: those of the next task are
// asked for while this one is at work, a few tokens a tile.
static void ask_rows(const struct ht_prepared *p, const struct ht_cpu_step *s, struct work *w) {
    enum { TOKENS = 2 };
    uint32_t group = s->n_heads / s->n_kv_heads, h0 = w->next.kv_head * group;
    for (int i = 0; i < TOKENS && w->n_ask > 0; i++, w->n_ask--) {
        size_t row = w->next.tile->row + w->next.tile->n_tokens - w->n_ask;
        for (uint32_t h = h0; h < h0 + w->next.n_kv * group; h++) {
            struct ht_cpu_head q = ht_cpu_head_at(p, s->in[0], h, s->head_dim);
            for (uint32_t e = 0; e < s->head_dim; e += 64 / sizeof *q.x)
                __builtin_prefetch(q.x + row * q.stride + e, 0, 3);
        }
    }
}

// n finished heads, from `head` on, of each of n_rows rows from `row` on: y = acc / l, or only its
// prepared activations. acc [n_rows][n][head_dim] is used up.
static void store_heads(const struct ht_prepared *p, const struct ht_cpu_step *s, size_t row,
                        size_t n_rows, size_t head, size_t n, float *acc, const float *l,
                        int thread) {
    size_t d = s->head_dim, width = s->n_heads * d;
    bool prepares = s->prep != HT_NONE;
    float *y = prepares ? acc : ht_cpu_f32(p, s->out[0], thread) + row * width + head * d;
    for (size_t r = 0; r < n_rows; r++, y += prepares ? n * d : width)
        for (size_t h = 0; h < n; h++)
            p->backend->vec.scale(acc + (r * n + h) * d, 1.0f / l[r * n + h], s->head_dim,
                                  y + h * d);
    if (!prepares) return;
    const struct ht_linear_kernels *k = p->backend->linear;
    size_t row_bytes = p->c->tensors[s->prep].row_bytes;
    uint8_t *to = ht_cpu_rows_at(p, s->prep, 0) + row * row_bytes;
    ht_act_prepare_columns(k, s->kind, acc, (uint32_t)n_rows, (uint32_t)(n * d),
                           to + ht_act_bytes(k, s->kind, head * d), row_bytes);
}

// The lines that store_heads will write: another thread had them last, so they are asked for before
// the work.
static void ask_output(const struct ht_prepared *p, const struct ht_cpu_step *s,
                       const struct work *w, uint32_t h0) {
    if (s->prep == HT_NONE) return;
    size_t d = s->head_dim, first = ht_act_bytes(p->backend->linear, s->kind, h0 * d);
    size_t n = ht_act_bytes(p->backend->linear, s->kind, w->task.n_kv * w->n_heads * d);
    for (uint32_t t = 0; t < w->task.tile->n_tokens; t++) {
        size_t row = (w->task.tile->row + t) * p->c->tensors[s->prep].row_bytes;
        const uint8_t *y = ht_cpu_rows_at(p, s->prep, 0) + row; // a line's beginning
        for (size_t i = first & ~(size_t)63; i < first + n; i += 64)
            __builtin_prefetch(y + i, 1, 2);
    }
}

// The tiles of one segment, from position `base` on.
static void fold_segment(const struct ht_prepared *p, const struct ht_cpu_step *s, struct work *w,
                         uint32_t base, uint32_t end) {
    clear_segment(w, s->head_dim);
    for (; base < end; base += HT_TILE) {
        ask_rows(p, s, w);
        fold_tile(p, s, w, base);
    }
}

// All segments of the rows that w holds, in order.
static void fold_all(const struct ht_prepared *p, const struct ht_cpu_step *s, struct work *w) {
    uint32_t base = w->lo[0] / HT_TILE * HT_TILE, end = w->hi[w->n_rows - 1];
    while (base < end) {
        uint32_t stop = min_u32((base / HT_SEGMENT + 1) * HT_SEGMENT, end);
        fold_segment(p, s, w, base, stop);
        size_t d = s->head_dim;
        for (uint32_t r = 0, n; r < w->n_rows; r += n) {
            n = lane_rows(w->n_rows - r);
            p->backend->vec.attn_join(w->m + r, w->l + r, w->seg + r * d, n, s->head_dim,
                                      w->all_m + r, w->all_l + r, w->acc + r * d);
        }
        base = stop;
    }
}

// Carves a thread's memory for a task; what is of rows comes with them (load_rows).
static void begin_task(const struct ht_prepared *p, const struct ht_cpu_step *s, struct work *w,
                       struct ht_attn_task task, struct ht_attn_task next, int thread) {
    size_t rows = p->backend->vec.attn_rows, d = s->head_dim, q = ht_attn_q_floats(s->head_dim);
    w->q = ht_cpu_own_attn(p, thread);
    w->s = w->q + rows * q;
    w->seg = w->s + rows * HT_TILE;
    w->acc = w->seg + rows * d;
    w->turned = w->acc + rows * d;
    w->task = task;
    w->next = next;
    w->n_ask = next.tile ? next.tile->n_tokens : 0;
    w->reads = false;
}

// Groups of heads larger than attn_rows go in pieces.
void ht_attn_run_task(const struct ht_prepared *p, const struct ht_cpu_step *s,
                      struct ht_attn_task task, struct ht_attn_task next, int thread) {
    const struct ht_cpu_tile *tile = task.tile;
    struct work w;
    uint32_t group = s->n_heads / s->n_kv_heads;
    begin_task(p, s, &w, task, next, thread);
    w.reads = reads_runs(p, s, task);
    for (uint32_t h = 0; h < group; h += w.n_heads) {
        w.n_heads = min_u32(group - h, p->backend->vec.attn_rows / tile->n_tokens);
        w.n_rows = w.n_heads * tile->n_tokens * task.n_kv;
        ask_output(p, s, &w, task.kv_head * group + h);
        load_rows(p, s, &w, task.kv_head * group + h);
        fold_all(p, s, &w);
        store_heads(p, s, tile->row, tile->n_tokens, task.kv_head * group + h,
                    (size_t)task.n_kv * w.n_heads, w.acc, w.all_l, thread);
    }
}

// ---- one token, its context shared by segments: [head][segment] parts

struct part {
    float m, l[1][HT_LANES];
    float acc[]; // [head_dim]
};

static size_t part_bytes(uint32_t head_dim) {
    return sizeof(struct part) + head_dim * sizeof(float);
}

static uint32_t n_segments(uint32_t max_ctx) {
    return max_ctx / HT_SEGMENT + 1;
}

uint64_t ht_attn_parts_bytes(uint32_t n_heads, uint32_t head_dim, uint32_t max_ctx) {
    return (uint64_t)n_heads * n_segments(max_ctx) * part_bytes(head_dim);
}

static struct part *part_at(const struct ht_prepared *p, const struct ht_cpu_step *s,
                            uint32_t tensor, uint32_t head, uint32_t segment) {
    size_t n = n_segments(p->c->limits.max_ctx);
    uint8_t *parts = (uint8_t *)ht_cpu_f32(p, tensor, 0);
    return (struct part *)(parts + (head * n + segment) * part_bytes(s->head_dim));
}

// One segment for every query head of a KV head.
static void run_part(const struct ht_prepared *p, const struct ht_cpu_step *s, uint32_t kv_head,
                     uint32_t segment, int thread) {
    struct work w;
    struct ht_attn_task task = {p->tiles->at, kv_head, 1}, none = {0};
    uint32_t group = s->n_heads / s->n_kv_heads, d = s->head_dim;
    begin_task(p, s, &w, task, none, thread);
    for (uint32_t h = 0; h < group; h += w.n_heads) {
        w.n_heads = w.n_rows = min_u32(group - h, p->backend->vec.attn_rows);
        load_rows(p, s, &w, kv_head * group + h);
        uint32_t begin = max_u32(w.lo[0] / HT_TILE * HT_TILE, segment * HT_SEGMENT);
        fold_segment(p, s, &w, begin, min_u32((segment + 1) * HT_SEGMENT, w.hi[0]));
        for (uint32_t r = 0; r < w.n_rows; r++) {
            struct part *part = part_at(p, s, s->out[1], kv_head * group + h + r, segment);
            part->m = w.m[r];
            memcpy(part->l, w.l + r, sizeof part->l);
            memcpy(part->acc, w.seg + (size_t)r * d, d * sizeof *part->acc);
        }
    }
}

static void run_parts(struct ht_prepared *p, const struct ht_cpu_step *s, int thread) {
    if (ht_cpu_tiles_of(p, s)->n == 0) return;
    uint32_t pos = p->tiles->at->pos, first = ht_attn_first_seen(s, pos) / HT_SEGMENT, i;
    uint32_t n_tasks = (pos / HT_SEGMENT - first + 1) * s->n_kv_heads;
    atomic_uint *taken = &p->counters[s - p->c->steps];
    while ((i = atomic_fetch_add_explicit(taken, 1, memory_order_relaxed)) < n_tasks)
        run_part(p, s, i % s->n_kv_heads, first + i / s->n_kv_heads, thread);
}

void ht_cpu_run_attn_join(struct ht_prepared *p, const struct ht_cpu_step *s, int thread) {
    if (p->mode != HT_CPU_FEW || ht_cpu_tiles_of(p, s)->n == 0) return;
    size_t begin, end;
    uint32_t pos = p->tiles->at->pos, d = s->head_dim;
    ht_team_share(s->n_heads, 1, thread, p->c->n_threads, &begin, &end);
    for (size_t h = begin; h < end; h++) {
        float *acc = ht_cpu_own_attn(p, thread);
        float m = -INFINITY, l = 0;
        for (uint32_t i = ht_attn_first_seen(s, pos) / HT_SEGMENT; i <= pos / HT_SEGMENT; i++) {
            const struct part *part = part_at(p, s, s->in[0], (uint32_t)h, i);
            p->backend->vec.attn_join(&part->m, part->l, part->acc, 1, d, &m, &l, acc);
        }
        store_heads(p, s, 0, 1, h, 1, acc, &l, thread);
    }
}

// Tasks differ in length: late (long) tiles come first.
static struct ht_attn_task task_at(const struct ht_cpu_tiles *tiles, uint32_t n_kv_heads,
                                   uint32_t i) {
    return (struct ht_attn_task){&tiles->at[tiles->n - 1 - i / n_kv_heads], i % n_kv_heads, 1};
}

void ht_cpu_run_attention(struct ht_prepared *p, const struct ht_cpu_step *s, int thread) {
    if (p->c->own_heads) {
        ht_attn_run_owned(p, s, thread);
        return;
    }
    if (p->mode == HT_CPU_FEW) {
        run_parts(p, s, thread);
        return;
    }
    // Taken one by one; what this thread will get next is a guess.
    atomic_uint *taken = &p->counters[s - p->c->steps];
    const struct ht_cpu_tiles *tiles = ht_cpu_tiles_of(p, s);
    uint32_t n = tiles->n * s->n_kv_heads, ahead = (uint32_t)p->c->n_threads, i;
    while ((i = atomic_fetch_add_explicit(taken, 1, memory_order_relaxed)) < n)
        ht_attn_run_task(p, s, task_at(tiles, s->n_kv_heads, i),
                         i + ahead < n ? task_at(tiles, s->n_kv_heads, i + ahead)
                                       : (struct ht_attn_task){0},
                         thread);
}
