// SPDX-License-Identifier: MIT
// What the driver of the linear step asks the memory for ahead of its use (docs/kernels.md,
// "Memory"): it says what lies ahead, and tiles and streams ask for it line by line (ask.h), or it
// asks itself. None of it changes a result. No state but the caller's; any thread.
#ifndef HT_LINEAR_AHEAD_H
#define HT_LINEAR_AHEAD_H

#include "backend/cpu/linear/kernels.h"

// Bytes of n weights of a row, whole blocks.
static inline size_t ht_weight_bytes(enum ht_format f, uint32_t n) {
    const struct ht_format_info *info = ht_format_get((uint32_t)f);
    return (size_t)(n / info->block_len) * info->block_bytes;
}

// What is read behind a chunk of n_bytes a row: as much of the rows at `next`.
void ht_ahead_rows(struct ht_tile_args *t, struct ht_linear_next next, size_t n_bytes);

// Up to so many tokens panels of codes ask by address, at levels that do so for streams those of
// floats, too: for the next group's part that is as long as this chunk, from weight `at` of n_in
// on, instead of the next chunk of this group's rows.
#define HT_PANEL_BY_ADDRESS 64
void ht_ahead_by_address(struct ht_tile_args *t, struct ht_linear_next next, uint32_t at,
                         uint32_t n_in);
// The same, and as much of what is read later, which moves on; and whether there is such and time
// for it during a chunk of n_bytes a row.
void ht_ahead_and_later(struct ht_tile_args *t, struct ht_linear_next next,
                        struct ht_linear_later *later, uint32_t at, uint32_t n_in);
bool ht_ahead_has_later(const struct ht_linear_kernels *k, const struct ht_linear_job *job,
                        const struct ht_linear_later *later, uint32_t n_tokens, size_t n_bytes);
// A chunk of n_bytes a row of a group of repacked weights, whose rows stand together `rows` at a
// time: as many runs of addresses as that takes, HT_ASK_STREAMS at most, each in equal parts.
void ht_ahead_chunk(struct ht_tile_args *t, const uint8_t *at, uint32_t rows, size_t n_bytes,
                    size_t row_bytes);

// What streams of repacked weights ask for by themselves.
void ht_set_asks(const struct ht_linear_kernels *k, const struct ht_linear_job *job,
                 struct ht_tile_args *t);
// Whether the driver asks for the pages of a job's rows before their lines, and for those of what
// the thread reads behind them.
bool ht_asks_pages(const struct ht_linear_kernels *k, const struct ht_linear_job *job);
bool ht_asks_next_pages(const struct ht_linear_kernels *k, const struct ht_linear_job *job);

#endif
