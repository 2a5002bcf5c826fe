// SPDX-License-Identifier: MIT
// Private to compile*.c: a plan on its way to the cpu backend's steps. Everything here runs at
// prepare, on the caller's thread. A failure sticks in `status`, and what is asked for after it is
// harmless, so that only the whole is checked.
#ifndef HT_BACKEND_CPU_COMPILE_H
#define HT_BACKEND_CPU_COMPILE_H

#include "backend/cpu/exec.h"

struct ht_builder {
    struct ht_compiled *c;
    const struct ht_plan *p;
    uint32_t *map;                    // plan tensor -> cpu tensor
    uint32_t (*acts)[HT_N_ACT_KINDS]; // plan tensor -> its prepared rows, by kind
    uint32_t *n_readers, *last_reader;
    uint32_t (*tables)[2]; // rope, pairing -> cpu tensor
    struct hearth_error *err;
    enum hearth_status status; // the first failure; sticks
};

// ---- compile.c

// A tensor of row_bytes a row; private_copies: a row for each thread at least, in lines of its own.
uint32_t ht_builder_tensor(struct ht_builder *b, enum ht_cpu_rows rows, uint32_t width,
                           uint64_t row_bytes, bool private_copies);
// A new step, zeroed, every id NONE. Never NULL while status is OK; a dummy's place otherwise.
struct ht_cpu_step *ht_builder_step(struct ht_builder *b, enum ht_cpu_op op, uint32_t layer);
enum ht_cpu_rows ht_builder_rows(const struct ht_builder *b, uint32_t tensor);
// A cpu tensor for plan tensor t.
uint32_t ht_builder_give(struct ht_builder *b, uint32_t t);
// The same, in the place of plan tensor `from` if step i is the last to read that.
uint32_t ht_builder_give_over(struct ht_builder *b, uint32_t t, uint32_t from, uint32_t i);
// Whether plan tensor t is written for step j alone.
bool ht_builder_only_for(const struct ht_builder *b, uint32_t t, uint32_t j);
struct ht_cpu_norm ht_builder_norm(const struct ht_step *s);
// Makes what is missing of the prepared rows that readers of plan tensor t want, step i first.
void ht_builder_need_prepared(struct ht_builder *b, uint32_t t, uint32_t i, uint32_t layer);
// Makes room in each thread's memory for pieces of n outputs of a width (exec.h).
void ht_builder_need_piece(struct ht_builder *b, uint32_t n, uint64_t width);
// Prepared rows of plan tensor t, to be made by the step that makes t in pieces of `unit` columns:
// possible where all that its readers (from plan step i on) want is rows of one kind, which is
// stored then; blocks of 32 do not know of each other. HT_NONE where it is not.
uint32_t ht_builder_own_prep(struct ht_builder *b, uint32_t t, uint32_t i, uint32_t unit,
                             enum ht_act_kind *kind);

// ---- compile_heads.c: what works on heads

// Whether every output goes to steps over heads alone, in shares of whole row groups a KV head.
bool ht_compile_owns_heads(const struct ht_builder *b, const uint32_t *out, uint32_t n);
// The table of sines and cosines of a rotation; made once.
uint32_t ht_compile_rope_table(struct ht_builder *b, uint32_t rope, enum ht_rope_pairing pairing);
void ht_compile_heads(struct ht_builder *b, uint32_t i);     // a norm or rotation of heads
void ht_compile_attention(struct ht_builder *b, uint32_t i); // or an append
// The outputs whose heads their linear step finishes. Keys and values have no other place than the
// pages: they lie in the thread's memory until then.
void ht_compile_settle_heads(struct ht_builder *b);

// ---- compile_moe.c: experts

void ht_compile_moe_route(struct ht_builder *b, const struct ht_step *s);
void ht_compile_moe_ffn(struct ht_builder *b, uint32_t i);

#endif
