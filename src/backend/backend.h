// SPDX-License-Identifier: MIT
// The seam between models and machines. A model is compiled once, at load, into a plan: a flat list
// of numeric steps over named tensors. A backend prepares a plan (scratch, KV pages, kernel choice,
// fusion: all private) and executes it over batches. The model never touches a number; the backend
// never learns a model's name.
//
// Promise 1 binds every backend: the result for a token depends on its sequence's tokens, the
// weights and the options alone, bit for bit; not on the rest of the batch, the chunking of the
// prompt, the page ids or the thread count.
#ifndef HT_BACKEND_BACKEND_H
#define HT_BACKEND_BACKEND_H

#include "base/arena.h"
#include "base/buf.h"
#include "base/status.h"
#include "quant/format.h"

#define HT_NONE UINT32_MAX

// ---- the plan

enum ht_type { HT_TYPE_F32, HT_TYPE_I32 };

// How many rows a tensor has: one for each token of the batch, or one for each token whose logits
// are wanted.
enum ht_rows { HT_ROWS_TOKENS, HT_ROWS_OUTPUTS };

struct ht_tensor {
    const char *name; // "blk.3.attn_out"; unique in the plan
    enum ht_type type;
    enum ht_rows rows;
    // elements a row; rows are contiguous in scratch unless the backend fuses the tensor away
    uint32_t width;
};

// A weight as the file has it: vector [ne0], matrix [ne1 = out][ne0 = in],
// experts [ne2 = n_experts][ne1][ne0].
struct ht_weight {
    const char *name;
    enum ht_format format; // vectors are F32 (checked by the builder)
    int n_dims;
    uint64_t ne[3];
    const uint8_t *data; // mapped; borrowed. Aligned to 4 bytes at least
    uint64_t n_bytes;
    // [ne2] mapped: number e multiplies all of matrix e, so W is scale times what data says. NULL:
    // 1. Vectors have none
    const float *scale;
};

enum ht_op {
    // y[t] = table[token[t]] * scale
    // w0: table [n_vocab][width], any format; u.embed.scale
    HT_OP_EMBED,
    // y[t] = x[t] + table[pos[t]]
    // in0; w0: table [n_positions][width], any format
    HT_OP_ADD_POS,
    // y[o] = x[outputs[o]]
    // in0 has TOKENS rows, out0 OUTPUTS rows
    HT_OP_SELECT,
    // y_i[t] = W_i x[t] (+ b_i)
    // in0; w[i]: W_i, w[3 + i]: b_i or NONE; i < n_out <= 3
    HT_OP_LINEAR,
    // y = x / sqrt(mean(x^2) + eps) * w
    // in0, w0: [width]; u.norm.eps
    HT_OP_RMS_NORM,
    // y = (x - mean) / sqrt(var + eps) * w (+ b)
    // in0, w0, w1: [width] or NONE; u.norm.eps
    HT_OP_LAYER_NORM,
    // RMS norm of each head of head_dim elements
    // in0, w0: [head_dim]; u.norm.{eps, head_dim}
    HT_OP_HEAD_NORM,
    // rotates pairs of the first n_rot elements of each head by pos * inv_freq[i]:
    //   (x_a, x_b) -> (x_a cos - x_b sin, x_a sin + x_b cos) * mscale * far(pos)
    // elements past n_rot are copied. in0; u.rope
    HT_OP_ROPE,
    // writes K (in0) and V (in1) rows of this batch into the pages of their sequences; u.attn
    HT_OP_KV_APPEND,
    // y = softmax(cap(scale * q K^T) + causal mask [+ window]) V over the sequence's pages
    // in0: q; u.attn
    HT_OP_ATTENTION,
    // y = act(x)
    // in0; u.act
    HT_OP_ACT,
    // y = act(gate) * up
    // in0: gate, in1: up; u.act
    HT_OP_ACT_MUL,
    // y = a + b
    // in0, in1
    HT_OP_ADD,
    // p = softmax(x); the n_used largest (lowest id first among equals), in falling order;
    // weights p, over their sum if u.moe.normalise, times u.moe.scale
    // in0: router scores; out0: I32 ids, out1: F32 weights
    HT_OP_MOE_ROUTE,
    // y = sum_j weight_j * down_e (act(gate_e x) * up_e x), e = ids_j, j in rank order
    // in0: x, in1: ids, in2: weights; w0 gate, w1 up, w2 down
    HT_OP_MOE_FFN,
    HT_N_OPS
};

enum ht_act { HT_ACT_SILU, HT_ACT_GELU_TANH, HT_ACT_GELU_ERF, HT_ACT_RELU2 };

enum ht_rope_pairing {
    HT_ROPE_ADJACENT, // pairs (2i, 2i + 1)
    HT_ROPE_HALVES,   // pairs (i, i + n_rot / 2)
};

#define HT_ROPE_FREQ_MAX 128 // 2^32 positions stay below 2^40 radians

// Every scaling variant (linear, llama3 factors, YaRN) is a table of frequencies and one factor,
// made by the model.
struct ht_rope {
    uint32_t n_rot;         // even, <= head_dim
    const double *inv_freq; // [n_rot / 2] radians a position, each below HT_ROPE_FREQ_MAX
    float mscale;           // multiplies cos and sin (YaRN's attention factor), else 1
    // far(pos) = 1 + far_beta * ln(1 + floor(pos / far_period)); far_beta 0: 1 everywhere
    float far_beta;
    uint32_t far_period; // positions, not 0 where far_beta is not
};

struct ht_step {
    enum ht_op op;
    uint32_t layer; // HT_NONE outside the layers
    uint32_t n_in, n_out;
    uint32_t in[3], out[3]; // tensor ids
    uint32_t w[6];          // weight ids, HT_NONE where absent
    union {
        struct {
            float scale;
        } embed;
        struct {
            float eps;
            uint32_t head_dim;
        } norm;
        struct {
            uint32_t rope, n_heads, head_dim;
            enum ht_rope_pairing pairing;
        } rope;
        struct {
            uint32_t n_heads, n_kv_heads, head_dim; // K and V heads have head_dim elements both
            uint32_t window;                        // attends to positions > pos - window; 0: all
            float scale, soft_cap; // cap(s) = soft_cap * tanh(s / soft_cap); 0: none
        } attn;
        struct {
            enum ht_act kind;
        } act;
        struct {
            uint32_t n_experts, n_used;
            enum ht_act kind;
            bool normalise;
            float scale;
        } moe;
    } u;
};

// Built by the model, immutable afterwards. The four tables are the model's, on the heap; names and
// frequencies lie in its arena, weights in the mapping.
struct ht_plan {
    const struct ht_tensor *tensors;
    const struct ht_weight *weights;
    const struct ht_rope *ropes;
    const struct ht_step *steps;
    uint32_t n_tensors, n_weights, n_ropes, n_steps;
    uint32_t n_layers, n_kv_heads, head_dim; // of every layer's KV
    uint32_t n_vocab;
    uint32_t logits; // tensor id, OUTPUTS rows, width n_vocab
};

const char *ht_op_name(enum ht_op op); // "rms_norm"

// What a linear step is for, by what makes its input and who reads its outputs: "qkv", "o",
// "gate/up", "down", "router", "lm_head", or "other". (plan.c)
const char *ht_plan_role(const struct ht_plan *p, uint32_t step);

// Checks a whole plan: ids in range, every tensor written once and before it is read, shapes of
// each step against its formula, formats known, one KV_APPEND before each ATTENTION of a layer.
// EMBED, ADD_POS, ROPE, KV_APPEND and ATTENTION work on TOKENS rows; the other steps on either
// kind, and outputs have their input's kind (but for SELECT). What HEAD_NORM and ROPE write is read
// by steps over heads of the same size alone, as many heads for each KV head, and what ATTENTION
// has read is not turned any more. Backends may rely on it. (check.c)
HT_MUST_CHECK enum hearth_status ht_plan_check(const struct ht_plan *p, struct hearth_error *err);

// One step a line: index, op, layer, outputs <- inputs, weights with format and shape, parameters.
// (plan.c)
bool ht_plan_print(const struct ht_plan *p, struct ht_buf *out);

// Places every tensor in one scratch block by lifetime: offset[i] in bytes (align'ed to 64) for
// tensor i; *n_bytes is the block's size: near the largest live set. A tensor with skip[i]
// set (may be NULL) gets no place. A tensor is live from the step that writes it to the last that
// reads it; outputs of a step never overlap its inputs. (plan.c)
HT_MUST_CHECK enum hearth_status ht_plan_bind(const struct ht_plan *p, uint32_t max_tokens,
                                              uint32_t max_outputs, const bool *skip,
                                              uint64_t *offset, uint64_t *n_bytes,
                                              struct hearth_error *err);

// ---- a batch

// KV lives in pages of HT_PAGE_TOKENS positions; position p of a sequence is slot p %
// HT_PAGE_TOKENS of its page p / HT_PAGE_TOKENS. One page id stands for that piece of every layer.
#define HT_PAGE_TOKENS 32

// K and V of one head at one position hold the numbers of a row of the KV type, whatever the place
// of its bytes in a page (kv_type.c has the types, one row each): those of the weight format of
// that name, or of i16 (num.h).
#define HT_N_KV_TYPES 5
const char *ht_kv_type_name(enum hearth_kv_type type); // "f16"; NULL: no such type
// Whether heads may have so many elements: whole blocks; for i16 even and at most HT_I16_MAX_DIM.
bool ht_kv_holds(enum hearth_kv_type type, uint32_t n_elements);
// Of a row that the type holds: its bytes, and it from and to floats. A row is aligned as floats.
uint64_t ht_kv_row_bytes(enum hearth_kv_type type, uint32_t n_elements);
void ht_kv_from_f32(enum hearth_kv_type type, const float *x, uint32_t n_elements, void *row);
void ht_kv_to_f32(enum hearth_kv_type type, const void *row, uint32_t n_elements, float *x);

struct ht_batch_seq {
    const uint32_t *pages; // enough for every position in this batch
    uint32_t n_pages;
};

struct ht_batch {
    // 1..max_tokens. A run of one sequence's tokens has rising, consecutive positions; where a
    // sequence has several runs, each begins behind the one before (which nobody checks)
    uint32_t n_tokens;
    const int32_t *tokens;
    const uint32_t *pos;
    const uint32_t *seq; // index into seqs
    uint32_t n_seqs;
    const struct ht_batch_seq *seqs;
    uint32_t n_outputs;      // 0..max_outputs
    const uint32_t *outputs; // rising token rows whose logits are wanted
    // Called on the calling thread while the batch runs, some times a layer: true where nobody
    // wants its results any more; execute may then return E_CANCELLED before its end. NULL: wanted.
    bool (*unwanted)(void *arg);
    void *unwanted_arg;
};

// ---- a backend

struct ht_limits {
    uint32_t max_tokens;  // of a batch
    uint32_t max_outputs; // of a batch
    uint32_t max_ctx;     // positions of a sequence at most
    uint32_t n_pages;
    enum hearth_kv_type kv_type;
    bool repack;   // matrices are copied in the order that the backend reads fastest
    bool prefault; // pages and scratch are taken from the system at once, not as they are written
};

// Checks that the plan can run under these limits: none of them 0 but max_outputs, every table of
// positions has max_ctx rows, and heads are whole blocks of the KV type. memory and prepare begin
// with it. (check_batch.c)
HT_MUST_CHECK enum hearth_status ht_limits_check(const struct ht_plan *p, const struct ht_limits *l,
                                                 struct hearth_error *err);

// Checks a batch against the limits and the plan: counts, token ids, positions, page ids, output
// rows, consecutive positions within a run of one sequence. E_ARG names the first thing wrong.
// Costs a look at each token and page id; every execute begins with it. (check_batch.c)
HT_MUST_CHECK enum hearth_status ht_batch_check(const struct ht_plan *p, const struct ht_limits *l,
                                                const struct ht_batch *b, struct hearth_error *err);

struct ht_backend_memory { // bytes
    uint64_t packed, kv, scratch, other;
};

struct ht_backend_options {
    const char *level;    // the CPU level; NULL: the best that runs here
    int n_threads;        // 0: default
    const char *cpu_mask; // hexadecimal; NULL: none
};

struct ht_backend;  // private to each backend
struct ht_prepared; // private: a plan bound to scratch, KV pages and kernels

struct ht_backend_ops {
    const char *name;
    enum hearth_status (*open)(const struct ht_backend_options *o, struct ht_backend **out,
                               struct hearth_error *err);
    void (*close)(struct ht_backend *b); // accepts NULL
    // "cpu avx512vnni, 2 threads"; lives as long as b
    const char *(*describe)(const struct ht_backend *b);
    // OK, or E_UNSUPPORTED with the reason (a format, an op, a size)
    enum hearth_status (*supports)(const struct ht_backend *b, const struct ht_plan *p,
                                   const struct ht_step *s, struct hearth_error *err);
    // What prepare will take, without taking it.
    enum hearth_status (*memory)(const struct ht_backend *b, const struct ht_plan *p,
                                 const struct ht_limits *l, struct ht_backend_memory *out,
                                 struct hearth_error *err);
    enum hearth_status (*prepare)(struct ht_backend *b, const struct ht_plan *p,
                                  const struct ht_limits *l, struct ht_prepared **out,
                                  struct hearth_error *err);
    void (*release)(struct ht_prepared *p); // accepts NULL
    // Runs the plan over a batch; *logits then points to [n_outputs][n_vocab] f32 until the next
    // call. Allocates nothing. After E_CANCELLED (ht_batch.unwanted) keys and values at the batch's
    // positions are undefined, those before them are not.
    enum hearth_status (*execute)(struct ht_prepared *p, const struct ht_batch *b,
                                  const float **logits, struct hearth_error *err);
    // A team that the caller may use between executes (sampling), or NULL.
    struct ht_team *(*team)(struct ht_backend *b);

    // ---- optional: NULL where a backend cannot

    // The best level of this machine and the list of all that run on it, both 0-terminated.
    void (*levels)(char *best, size_t n_best, char *all, size_t n_all);
    // What this machine reaches with the backend's own threads and level: budget_ms for each
    // number, reading a buffer of max_bytes, or of what can be touched in budget_ms and at least
    // min_bytes.
    enum hearth_status (*ceilings)(struct ht_backend *b, uint32_t budget_ms, uint64_t min_bytes,
                                   uint64_t max_bytes, struct hearth_ceilings *out,
                                   struct hearth_error *err);
    // Bytes a second at which the backend's threads read the matrices of the plan where they lie
    // (hearth_engine_read_speed), between executes.
    enum hearth_status (*read_speed)(struct ht_prepared *p, uint32_t budget_ms, double *bytes_s,
                                     struct hearth_error *err);
    // The multiply-adds a second of *out, budget_ms for each number (hearth_engine_multiply_speed).
    void (*multiply_speed)(struct ht_prepared *p, uint32_t budget_ms, struct hearth_ceilings *out);
    // Counts, and times, the steps of execute from now on (hearth_engine_profile). profile_get is
    // only called after it.
    enum hearth_status (*profile)(struct ht_prepared *p, enum hearth_profile mode,
                                  struct hearth_error *err);
    bool (*profile_get)(const struct ht_prepared *p, size_t i, struct hearth_step_kind *out);
    // Compares the kernels that this machine can run with their specification
    // (hearth_self_test), without a backend open.
    enum hearth_status (*self_test)(hearth_check_fn fn, void *user, size_t *n_failed,
                                    struct hearth_error *err);
};

extern const struct ht_backend_ops ht_backend_ref;
extern const struct ht_backend_ops ht_backend_cpu;

// By name; NULL if there is none. Names for messages: ht_backend_names ("cpu, ref"). (backends.c)
const struct ht_backend_ops *ht_backend_find(const char *name);
const char *ht_backend_names(void);

#endif
