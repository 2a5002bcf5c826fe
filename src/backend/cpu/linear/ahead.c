// SPDX-License-Identifier: MIT
#include "backend/cpu/linear/ahead.h"

void ht_ahead_rows(struct ht_tile_args *t, struct ht_linear_next next, size_t n_bytes) {
    t->ahead = next.at;
    t->ahead_stride = next.row_bytes;
    t->ahead_bytes = (uint32_t)(n_bytes < next.row_bytes ? n_bytes : next.row_bytes);
    t->ahead_in_turn = false;
}

void ht_ahead_by_address(struct ht_tile_args *t, struct ht_linear_next next, uint32_t at,
                         uint32_t n_in) {
    size_t n_lines = (HT_ROW_GROUP * next.row_bytes / HT_ASK_STREAMS + 63) / 64;
    size_t from = n_lines * at / n_in, to = n_lines * (at + t->n_k) / n_in;
    t->ahead = next.at + from * 64;
    t->ahead_stride = n_lines * 64;
    t->ahead_pair = 2 * t->ahead_stride;
    t->ahead_bytes = (uint32_t)(to - from) * 64;
    t->ahead_in_turn = true;
}

// Where a byte of weights is multiplied so often, the memory has time for as much again.
#define LATER_PRODUCTS 22

bool ht_linear_asks_later(const struct ht_linear_kernels *k, uint32_t n_tokens) {
    return k->ask_later && n_tokens <= HT_PANEL_BY_ADDRESS;
}

bool ht_ahead_has_later(const struct ht_linear_kernels *k, const struct ht_linear_job *job,
                        const struct ht_linear_later *later, uint32_t n_tokens, size_t n_bytes) {
    return ht_linear_asks_later(k, n_tokens) && later->n > 0 &&
           HT_ROW_GROUP * n_bytes <= 2 * later->run_bytes &&
           (size_t)n_tokens * job->n_in >= LATER_PRODUCTS * ht_weight_bytes(job->format, job->n_in);
}

// Two of the four lines are of the same part of the next group, and two of as much of what is read
// later: the last bytes of a run where it does not have so many more.
void ht_ahead_and_later(struct ht_tile_args *t, struct ht_linear_next next,
                        struct ht_linear_later *later, uint32_t at, uint32_t n_in) {
    size_t group_bytes = HT_ROW_GROUP * next.row_bytes, run = later->run_bytes;
    size_t from = group_bytes * at / n_in / 64, to = group_bytes * (at + t->n_k) / n_in / 64;
    size_t half = (to - from + 1) / 2 * 64, begin = later->done, end = begin + 2 * half;
    if (end > run && run > 2 * half) begin = run - 2 * half;
    t->ahead = next.at + from * 64;
    t->ahead_stride = half;
    t->ahead_pair = (size_t)((uintptr_t)*later->run + begin - (uintptr_t)t->ahead);
    t->ahead_bytes = (uint32_t)half;
    t->ahead_in_turn = true;
    later->done = end < run ? end : 0;
    if (end < run) return;
    later->run++;
    later->n--;
}

void ht_ahead_chunk(struct ht_tile_args *t, const uint8_t *at, uint32_t rows, size_t n_bytes,
                    size_t row_bytes) {
    uint32_t n_parts = rows * HT_ASK_STREAMS / HT_ROW_GROUP; // of a run
    size_t n_lines = (rows * n_bytes / n_parts + 63) / 64, run = rows * row_bytes;
    t->ahead = at;
    t->ahead_stride = n_parts > 1 ? n_lines * 64 : run;
    t->ahead_pair = n_parts == 2 ? run : 2 * t->ahead_stride;
    t->ahead_bytes = (uint32_t)n_lines * 64;
    t->ahead_in_turn = true;
}

static bool page_by_page(const struct ht_linear_kernels *k, const struct ht_linear_job *job) {
    return k->ask_pages && job->repacked && ht_page_by_page(job->format, job->n_tokens);
}

void ht_set_asks(const struct ht_linear_kernels *k, const struct ht_linear_job *job,
                 struct ht_tile_args *t) {
    t->ask = t->n_tokens > 1 ? k->ask_more : k->ask_one;
    if (t->ask == HT_ASK_LISTED)
        t->ask = ht_ask_listed(job->format) ? HT_ASK_NEAR_ONCE : HT_ASK_NOTHING;
    t->ask_pages = page_by_page(k, job);
    if (t->ask_pages) t->ask = job->format == HT_Q8_0 ? HT_ASK_NOTHING : HT_ASK_NEAR_ONCE;
}

// Lines [from, to) of rows [row, end).
static void ask_rows(struct ht_linear_next next, size_t from, size_t to, uint32_t row,
                     uint32_t end) {
    for (size_t line = from; line < to; line++)
        for (uint32_t r = row; r < end; r++)
            __builtin_prefetch(next.at + r * next.row_bytes + line * 64, 0, 2);
}

void ht_linear_ask(const struct ht_linear_kernels *k, struct ht_linear_asked *asked,
                   struct ht_linear_next next, uint32_t n_tokens) {
    if (!next.at) return;
    if (asked->at != next.at) {
        asked->at = next.at;
        asked->n_lines = asked->n_rows = 0;
    }
    uint32_t n_rows = ht_lead_rows(k, next.row_bytes, n_tokens);
    size_t n_lines = (next.row_bytes + 63) / 64;
    if (asked->n_lines < n_lines) {
        ask_rows(next, asked->n_lines, n_lines, 0, asked->n_rows);
        asked->n_lines = n_lines;
    }
    if (asked->n_rows < n_rows) {
        ask_rows(next, 0, n_lines, asked->n_rows, n_rows);
        asked->n_rows = n_rows;
    }
}

// All measured, since it costs what waits for the memory alone more than it gives (docs/kernels.md,
// "Pages").
bool ht_asks_pages(const struct ht_linear_kernels *k, const struct ht_linear_job *job) {
    bool super = ht_format_get((uint32_t)job->format)->block_len > HT_Q8_BLOCK;
    if (!k->ask_pages) return false;
    if (job->repacked) return !super && !page_by_page(k, job);
    return job->n_tokens > 1 || job->format == HT_Q6_K || job->format == HT_BF16;
}

bool ht_asks_next_pages(const struct ht_linear_kernels *k, const struct ht_linear_job *job) {
    return k->ask_pages && job->repacked &&
           (job->n_tokens == 1 || ht_page_by_page(job->format, job->n_tokens));
}
