// SPDX-License-Identifier: MIT
// Private to the cpu backend: what compile.c makes of a plan and exec*.c run. A compiled plan is a
// list of cpu steps over tensors with a place in one scratch block. Every thread of the team walks
// the whole list; a step divides its work by thread, and `barrier` says where threads must meet
// first. There are two ways through the list: FEW (one token: small work is done by every thread
// for itself rather than waited for) and MANY.
#ifndef HT_CPU_EXEC_H
#define HT_CPU_EXEC_H

#include <stdatomic.h>

#include "backend/backend.h"
#include "backend/cpu/features.h"
#include "backend/cpu/linear.h"
#include "backend/cpu/trial.h"
#include "backend/cpu/vec.h"
#include "base/team.h"

enum ht_cpu_op {
    HT_CPU_ROPE_TABLE, // out0: cos and sin of this batch's positions
    HT_CPU_EMBED,
    HT_CPU_ADD_POS,
    HT_CPU_SELECT,
    HT_CPU_NORM, // out0: normalised rows, where something other than a linear step reads them
    HT_CPU_PREP, // out[kind]: prepared activations of in0, normalised first where norm says so
    HT_CPU_LINEAR,
    HT_CPU_HEADS, // head norm, rope, or rope of what was normed; where no linear step has made them
    HT_CPU_KV_APPEND,
    HT_CPU_ATTENTION,
    HT_CPU_ATTN_JOIN, // FEW mode, where threads share a context by segments: in0 is what they made
    HT_CPU_ACT,
    HT_CPU_ACT_MUL,
    HT_CPU_ADD,
    HT_CPU_MOE_ROUTE,
    HT_CPU_MOE_GROUP,  // sorts this batch's (token, rank) pairs by expert
    HT_CPU_MOE_GATHER, // prepared activations in that order
    HT_CPU_MOE_UP,     // gate and up rows of the experts, activated; many tokens' prepared, too
    HT_CPU_MOE_PREP,   // those of one token
    HT_CPU_MOE_DOWN,
    HT_CPU_MOE_SUM,
    HT_CPU_N_OPS
};

enum ht_cpu_mode { HT_CPU_FEW, HT_CPU_MANY, HT_CPU_N_MODES };

// How a step divides a tensor over the threads. Two steps that divide the same tensor in the same
// way need no barrier between them.
enum ht_cpu_part {
    HT_PART_ANY,     // some other way; equal to nothing
    HT_PART_PRIVATE, // a copy for each thread
    HT_PART_TOKENS,  // rows, by ht_team_share(rows, 1)
    HT_PART_COLS,    // columns, by ht_team_share(width, HT_ROW_GROUP)
    HT_PART_KV,      // columns that belong to a thread's KV heads, by ht_team_share(n_kv_heads, 1)
    HT_PART_HEADS,   // columns by whole heads, by ht_team_share(heads, 1)
};

enum ht_cpu_rows { HT_CPU_ROWS_TOKENS, HT_CPU_ROWS_OUTPUTS, HT_CPU_ROWS_ONE };

struct ht_cpu_tensor {
    enum ht_cpu_rows rows;
    bool private_copies; // in FEW mode thread t's copy is row t
    bool by_heads;       // [head][row][head_dim], so that a head of all tokens lies together
    bool some_rows;      // of its TOKENS rows nobody reads others than those of outputs
    uint32_t width;      // elements, where they are f32
    size_t row_bytes;
    uint64_t offset, n_bytes; // in the scratch block
};

struct ht_cpu_norm {
    enum ht_op op; // HT_OP_RMS_NORM, HT_OP_LAYER_NORM, HT_OP_HEAD_NORM; HT_N_OPS: none
    uint32_t w, b; // weights
    float eps;
};

// What becomes of heads, in this order.
enum ht_cpu_store { HT_CPU_STORE_NONE, HT_CPU_STORE_K, HT_CPU_STORE_V };
struct ht_cpu_heads {
    uint32_t head_dim; // 0: nothing
    struct ht_cpu_norm norm;
    uint32_t rope, table; // rope and the tensor that is its table, or HT_NONE
    enum ht_rope_pairing pairing;
    enum ht_cpu_store store; // in the layer's pages, and nowhere else
};

struct ht_cpu_step {
    enum ht_cpu_op op;
    bool barrier[HT_CPU_N_MODES]; // threads meet before this step
    uint32_t ahead; // the first LINEAR step from here on, with no experts before it, or HT_NONE
    uint32_t layer;
    // cpu tensors (PREP: out of each kind), plan weights; HT_NONE where absent
    uint32_t in[6], out[HT_N_ACT_KINDS], w[6];
    struct ht_cpu_norm norm;
    uint32_t rope; // ROPE_TABLE
    enum ht_rope_pairing pairing;
    struct ht_cpu_heads heads[3]; // HEADS: the first; LINEAR: of output i, where own_heads
    uint32_t n_heads, n_kv_heads, head_dim, window;
    float scale, soft_cap;
    bool some_rows; // over heads: for the rows of outputs alone
    uint32_t prep;  // out0's prepared rows, which the step makes in its place; or HT_NONE
    // LINEAR: in[i] is output i's prepared activation
    uint32_t n_linear, residual; // tensor or HT_NONE
    uint32_t plan_step;          // the first that it was made of
    bool own_heads;              // the thread's rows are those of its KV heads
    bool has_act, has_mul;       // out0 = act(out0) [* out1], on the thread's own columns
    enum ht_act act;
    // MOE_*
    uint32_t n_experts, n_used;
    bool normalise;
    enum ht_act_kind kind; // of the prepared rows that it reads or writes
};

// What a step of a mode does to a tensor; KV pages of layer l are tensor n_tensors + l.
struct ht_cpu_access {
    uint32_t tensor;
    bool write;
    enum ht_cpu_part part;
};
#define HT_CPU_MAX_ACCESSES 12

struct ht_compiled {
    const struct ht_plan *plan;
    struct ht_limits limits;
    int n_threads;
    bool own_heads;       // a thread owns KV heads from projection to attention
    bool k_rows;          // so an unfinished group of K lies in rows (vec.h, k_row)
    uint32_t kv_together; // KV heads that lie beside each other in a page: a thread's own, or all
    struct ht_cpu_step *steps;
    struct ht_cpu_tensor *tensors;
    uint32_t n_steps, n_tensors, cap_steps, cap_tensors;
    uint32_t logits;        // tensor
    uint32_t max_width;     // of a row that a thread keeps for itself, in f32
    uint32_t max_in;        // of a linear step
    uint64_t scratch_bytes; // tensors
    uint64_t linear_bytes, attn_bytes, piece_bytes, row_bytes, thread_bytes; // of one thread
    uint64_t kv_row_bytes;  // of K or V of a head's position
    uint64_t kv_head_bytes; // of K and V of a head in a page
    uint64_t kv_page_bytes; // of one layer
    uint64_t kv_bytes;
    uint64_t packed_bytes; // of repacked weights
    uint64_t own_bytes;    // heap held by this structure and the prepared plan
};

struct ht_backend {
    enum ht_cpu_level level;
    struct ht_vec_kernels vec;
    const struct ht_linear_kernels *linear;
    // Attention reads keys and values before it uses them where a pass has so many queries at most
    // (0: never), each behind so many positions at least (a single one: attention.c); else it asks.
    uint32_t read_positions, read_queries;
    struct ht_team *team;
    char text[128];
};

// A run of tokens of one sequence in the batch, cut into attention tiles of tile_tokens.
struct ht_cpu_tile {
    uint32_t row, n_tokens; // rows of the batch
    uint32_t pos;           // of the first
    const uint32_t *pages;
};
struct ht_cpu_tiles {
    struct ht_cpu_tile *at;
    uint32_t n;
};

// What a thread asks the memory for, and what it reads later: keys and values of a layer.
#define HT_CPU_LATER_RUNS 256
struct ht_cpu_own_asked {
    struct ht_linear_asked linear;
    const uint8_t *later[HT_CPU_LATER_RUNS];
};

struct ht_prepared {
    struct ht_backend *backend;
    struct ht_compiled *c;
    uint8_t *scratch, *kv, *threads; // pages
    bool touched;                    // the system has given them all (prefault)
    uint8_t *packed;                 // repacked weights, or NULL
    uint8_t **matrix;                // [n_weights]: each one's place in them, or NULL; or NULL
    struct ht_cpu_profile *profile;  // NULL: never asked for
    // Work taken, for steps that are divided as they go: [n_steps] of all, and [2][n_threads]
    // [n_steps, padded] of each thread's share: what has been taken of it, and done by others.
    atomic_uint *counters, *taken;
    struct ht_cpu_trial later; // whether asks_later is faster
    // of the present execute
    const struct ht_batch *batch;
    enum ht_cpu_mode mode;
    struct ht_cpu_tiles tiles[2]; // by HT_CPU_ROWS_: of all tokens; of those of outputs
    bool asks_later;              // attention says what it reads a layer later
    // The step in front of whose barrier it turned out that nobody wants the batch any more; a step
    // and not a flag, which threads still behind the barrier before would take for theirs.
    atomic_uint unwanted_at;
};

// compile.c. Both accept what they need and nothing more; ht_compiled_free accepts NULL.
HT_MUST_CHECK enum hearth_status ht_cpu_compile(const struct ht_backend *b, const struct ht_plan *p,
                                                const struct ht_limits *l, struct ht_compiled **out,
                                                struct hearth_error *err);
void ht_compiled_free(struct ht_compiled *c);
enum ht_cpu_part ht_cpu_linear_part(const struct ht_cpu_step *s);

// schedule.c: lifetimes, places and barriers, over the finished list of steps.
HT_MUST_CHECK enum hearth_status ht_cpu_schedule(struct ht_compiled *c, struct hearth_error *err);
// The accesses of a step; returns how many. At most HT_CPU_MAX_ACCESSES.
uint32_t ht_cpu_accesses(const struct ht_compiled *c, const struct ht_cpu_step *s,
                         enum ht_cpu_mode mode, struct ht_cpu_access *a);

// repack.c: bytes that the plan's matrices take repacked (E_UNSUPPORTED: none can be), and the
// copying, at prepare.
HT_MUST_CHECK enum hearth_status ht_cpu_repack_bytes(const struct ht_backend *b,
                                                     const struct ht_plan *plan, uint64_t *n_bytes,
                                                     struct hearth_error *err);
HT_MUST_CHECK enum hearth_status ht_cpu_repack(struct ht_prepared *p, struct hearth_error *err);

// ---- inside a region: p, a step, the thread

static inline uint32_t ht_cpu_n_rows(const struct ht_prepared *p, uint32_t tensor) {
    switch (p->c->tensors[tensor].rows) {
    case HT_CPU_ROWS_TOKENS: return p->batch->n_tokens;
    case HT_CPU_ROWS_OUTPUTS: return p->batch->n_outputs;
    case HT_CPU_ROWS_ONE: break;
    }
    return 1;
}

// The rows of a tensor that have to be made: [*begin, *end).
static inline void ht_cpu_wanted_rows(const struct ht_prepared *p, uint32_t tensor, size_t *begin,
                                      size_t *end) {
    const struct ht_batch *b = p->batch;
    *begin = 0;
    *end = ht_cpu_n_rows(p, tensor);
    if (!p->c->tensors[tensor].some_rows) return;
    *begin = b->n_outputs ? b->outputs[0] : 0;
    *end = b->n_outputs ? b->outputs[b->n_outputs - 1] + (size_t)1 : 0;
}

// The tokens that an attention step works on: how many, and in tiles.
static inline uint32_t ht_cpu_n_queries(const struct ht_prepared *p, const struct ht_cpu_step *s) {
    return s->some_rows ? p->batch->n_outputs : p->batch->n_tokens;
}
static inline const struct ht_cpu_tiles *ht_cpu_tiles_of(const struct ht_prepared *p,
                                                         const struct ht_cpu_step *s) {
    return &p->tiles[s->some_rows ? HT_CPU_ROWS_OUTPUTS : HT_CPU_ROWS_TOKENS];
}

// Rows that a tensor has room for.
static inline uint32_t ht_cpu_max_rows(const struct ht_prepared *p, uint32_t tensor) {
    const struct ht_cpu_tensor *t = &p->c->tensors[tensor];
    return (uint32_t)(t->n_bytes / t->row_bytes);
}

// Row 0 of a tensor as this thread sees it.
static inline uint8_t *ht_cpu_rows_at(const struct ht_prepared *p, uint32_t tensor, int thread) {
    const struct ht_cpu_tensor *t = &p->c->tensors[tensor];
    size_t copy = t->private_copies && p->mode == HT_CPU_FEW ? (size_t)thread * t->row_bytes : 0;
    return p->scratch + t->offset + copy;
}

static inline float *ht_cpu_f32(const struct ht_prepared *p, uint32_t tensor, int thread) {
    return (float *)(void *)ht_cpu_rows_at(p, tensor, thread);
}

// The thread's own memory: linear scratch, attention's, a piece of outputs in the making, one row
// of max_width f32, what it asked the memory for.
static inline uint8_t *ht_cpu_own(const struct ht_prepared *p, int thread) {
    return p->threads + (size_t)thread * p->c->thread_bytes;
}
static inline float *ht_cpu_own_attn(const struct ht_prepared *p, int thread) {
    return (float *)(void *)(ht_cpu_own(p, thread) + p->c->linear_bytes);
}
static inline float *ht_cpu_own_piece(const struct ht_prepared *p, int thread) {
    return (float *)(void *)(ht_cpu_own(p, thread) + p->c->linear_bytes + p->c->attn_bytes);
}
static inline float *ht_cpu_own_row(const struct ht_prepared *p, int thread) {
    return ht_cpu_own_piece(p, thread) + p->c->piece_bytes / sizeof(float);
}

static inline struct ht_cpu_own_asked *ht_cpu_own_asked(const struct ht_prepared *p, int thread) {
    return (struct ht_cpu_own_asked *)(void *)((uint8_t *)ht_cpu_own_row(p, thread) +
                                               p->c->row_bytes);
}

static inline const float *ht_cpu_vector(const struct ht_prepared *p, uint32_t weight) {
    return weight == HT_NONE ? NULL : (const float *)(const void *)p->c->plan->weights[weight].data;
}

static inline bool ht_cpu_is_repacked(const struct ht_prepared *p, uint32_t weight) {
    return p->matrix && p->matrix[weight];
}
// Where the rows of a matrix lie.
static inline const uint8_t *ht_cpu_matrix(const struct ht_prepared *p, uint32_t weight) {
    return ht_cpu_is_repacked(p, weight) ? p->matrix[weight] : p->c->plan->weights[weight].data;
}

// Counters in a thread's row of `taken`: as many as fill cache lines.
static inline size_t ht_cpu_taken_row(const struct ht_compiled *c) {
    return (c->n_steps + 15u) & ~15u;
}
static inline atomic_uint *ht_cpu_taken(const struct ht_prepared *p, const struct ht_cpu_step *s,
                                        int thread) {
    return &p->taken[(size_t)thread * ht_cpu_taken_row(p->c) + (size_t)(s - p->c->steps)];
}
// What others have done of a thread's share.
static inline atomic_uint *ht_cpu_given(const struct ht_prepared *p, const struct ht_cpu_step *s,
                                        int thread) {
    return ht_cpu_taken(p, s, p->c->n_threads + thread);
}

// Head h of d elements of a tensor's row 0, and the elements from row to row. (No tensor of heads
// has private copies.)
struct ht_cpu_head {
    float *x;
    size_t stride;
};
static inline struct ht_cpu_head ht_cpu_head_at(const struct ht_prepared *p, uint32_t tensor,
                                                size_t h, uint32_t d) {
    float *x = ht_cpu_f32(p, tensor, 0);
    if (p->c->tensors[tensor].by_heads)
        return (struct ht_cpu_head){x + h * ht_cpu_n_rows(p, tensor) * d, d};
    return (struct ht_cpu_head){x + h * d, p->c->tensors[tensor].width};
}

// cpu.c. The barrier in front of step i, by every thread; false: the batch ends here.
bool ht_cpu_meet(struct ht_prepared *p, uint32_t i, int thread);
static inline bool ht_cpu_was_unwanted(const struct ht_prepared *p) {
    return atomic_load_explicit(&p->unwanted_at, memory_order_relaxed) < UINT32_MAX;
}
void ht_cpu_run_step(struct ht_prepared *p, const struct ht_cpu_step *s, int thread); // exec.c
void ht_cpu_run_linear(struct ht_prepared *p, const struct ht_cpu_step *s, int thread);
// Bytes of the thread's memory that a linear step of n_linear outputs with `prep` works in, and one
// that finishes heads.
uint64_t ht_cpu_piece_bytes(uint32_t n_linear, uint64_t width, uint32_t max_tokens);
// Columns of so many, of outputs of that width, that are prepared at once: few tokens take several
// groups of rows of a matrix, one after the other, before the next matrix; one token all.
size_t ht_cpu_piece_columns(size_t n_columns, size_t width, uint32_t n_tokens);
uint64_t ht_cpu_heads_bytes(uint64_t width, uint32_t head_dim, uint32_t max_tokens);
// Asks for the first weights that the thread will want behind the barrier in front of s.
void ht_cpu_fetch_ahead(const struct ht_prepared *p, const struct ht_cpu_step *s, int thread);
void ht_cpu_run_moe(struct ht_prepared *p, const struct ht_cpu_step *s, int thread);
// exec_heads.c. What becomes of head h of output i of a linear step, x [t1 - t0][head_dim], in its
// place, of tokens [t0, t1).
void ht_cpu_finish_head(const struct ht_prepared *p, const struct ht_cpu_step *s, uint32_t i,
                        size_t h, size_t t0, size_t t1, float *x);
void ht_cpu_run_heads(struct ht_prepared *p, const struct ht_cpu_step *s, int thread);
void ht_cpu_run_kv_append(struct ht_prepared *p, const struct ht_cpu_step *s, int thread);
void ht_cpu_run_attention(struct ht_prepared *p, const struct ht_cpu_step *s, int thread);
void ht_cpu_run_attn_join(struct ht_prepared *p, const struct ht_cpu_step *s, int thread);

// profile.c: work and time by kind of step. Nothing of it runs but where p->profile is set.
HT_MUST_CHECK enum hearth_status ht_cpu_profile(struct ht_prepared *p, enum hearth_profile mode,
                                                struct hearth_error *err);
bool ht_cpu_profile_get(const struct ht_prepared *p, size_t i, struct hearth_step_kind *out);
void ht_cpu_profile_free(struct ht_cpu_profile *f); // accepts NULL
// In place of the region of an execute, where a profile is wanted: counts, and runs the steps.
void ht_cpu_profile_run(struct ht_prepared *p, ht_team_fn run_plan);

// kv.c: the pages. Elements of one KV head in a page: K then V. A chunk of pages lies together,
// layer after layer; in a layer, kv_together heads of one page after the other, then the next ones.
// Larger chunks are read faster, but a context's first token takes the memory of a whole one.
#define HT_CPU_KV_CHUNK 8
uint8_t *ht_kv_head(const struct ht_prepared *p, uint32_t layer, uint32_t page, uint32_t head);
// Stores the K or V, x [n][d], of KV head h of the batch's tokens [t, t + n).
void ht_cpu_store_heads(const struct ht_prepared *p, uint32_t layer, enum ht_cpu_store what,
                        uint32_t d, size_t t, size_t n, size_t h, const float *x);
// Asks for the places of those of tokens [t, t1), HT_CPU_ASK_AHEAD of them at most, that are the
// first of their sequences: at once, since they lie far apart (ask.h). There may be none.
#define HT_CPU_ASK_AHEAD 16
void ht_cpu_ask_store(const struct ht_prepared *p, uint32_t layer, enum ht_cpu_store what,
                      uint32_t d, size_t t, size_t t1, size_t h);
// Asks for the place HT_LANES tokens behind t if that is of the same sequence, a part each time,
// since lines of one place would be waited for if they were asked for at once.
void ht_cpu_ask_later(const struct ht_prepared *p, uint32_t layer, enum ht_cpu_store what,
                      uint32_t d, size_t t, size_t h);
// How many tokens from t on, but none from t1 on, one call of ht_cpu_store_heads takes.
size_t ht_cpu_store_most(const struct ht_prepared *p, size_t t, size_t t1);
// attention.c: bytes of a thread's attention memory; of one token's segments; query tokens that one
// tile takes in a batch of n_tokens.
uint64_t ht_attn_bytes(const struct ht_vec_kernels *k, uint32_t head_dim);
uint64_t ht_attn_parts_bytes(uint32_t n_heads, uint32_t head_dim, uint32_t max_ctx);
uint32_t ht_attn_tile_tokens(const struct ht_vec_kernels *k, uint32_t n_heads, uint32_t n_kv_heads,
                             uint32_t n_tokens, uint32_t n_threads);
// The first position that a query at `pos` attends to.
uint32_t ht_attn_first_seen(const struct ht_cpu_step *s, uint32_t pos);
// A KV head and a tile of tokens, or several KV heads and one token.
struct ht_attn_task {
    const struct ht_cpu_tile *tile; // NULL: none
    uint32_t kv_head, n_kv;         // the first; how many
};
// Every query head of the task's KV heads for its tile. `next`: what this thread does then.
void ht_attn_run_task(const struct ht_prepared *p, const struct ht_cpu_step *s,
                      struct ht_attn_task task, struct ht_attn_task next, int thread);
// attention_own.c: all tasks of the KV heads that a thread owns.
void ht_attn_run_owned(struct ht_prepared *p, const struct ht_cpu_step *s, int thread);

#endif
