// SPDX-License-Identifier: MIT
// The driver of the linear step: cuts a thread's rows into groups of 32 and K into chunks, and runs
// a level's kernels over them. Owns nothing; scratch is the caller's. Invariant: the sums of an
// output element are made in the order of linear.h, whatever the cut. Any thread.
#include <string.h>

#include "backend/cpu/ask.h"
#include "backend/cpu/features.h"
#include "backend/cpu/linear/kernels.h"
#include "base/checked.h"

// So many bytes of activations stay there from one group of rows to the next. Where the tokens have
// more, groups of rows form a band: one after the other takes a chunk of K, before any takes the
// next one, so that a chunk's activations come from afar once for all of them.
#define ACT_NEAR_BYTES (768 * 1024)
#define BAND_GROUPS    8

#define PANEL_BYTES  16384
#define SCALES_BYTES (HT_CHUNK_Q8 / 16 * HT_ROW_GROUP * sizeof(float))
#define STARTS_BYTES (HT_CHUNK_Q8 / HT_Q8_BLOCK * HT_ROW_GROUP * sizeof(int32_t))
// One row's bytes of a chunk, at most: Q8_0 has 34 bytes per 32 weights, F32 512 per 128.
#define TAIL_ROW_BYTES 576

struct scratch {
    struct ht_panel panel;
    uint8_t *tail; // [32][TAIL_ROW_BYTES]: rows of the last group, or of a padded chunk
    float *acc;    // [1, or BAND_GROUPS][HT_LINEAR_TOKENS or fewer][32]
};

static const struct ht_format_info *info_of(enum ht_format f) {
    return ht_format_get((uint32_t)f);
}

// Weights of a row that fill a panel; twice as many floats where they stay as short as in the file.
static uint32_t chunk_of(const struct ht_linear_kernels *k, enum ht_format f) {
    switch (ht_linear_act_kind(f)) {
    case HT_ACT_ROW_F32: return HT_CHUNK_FLOAT;
    case HT_ACT_ROW_BF16: return k->bf16_bytes == 2 ? 2 * HT_CHUNK_FLOAT : HT_CHUNK_FLOAT;
    default: return HT_CHUNK_Q8;
    }
}

static const struct ht_linear_format *kernels_of(const struct ht_linear_kernels *k,
                                                 const struct ht_linear_job *job) {
    return job->repacked ? &k->repacked[job->format] : &k->format[job->format];
}

// Bytes of n weights' part of a row of prepared activations.
static size_t act_bytes(const struct ht_linear_kernels *k, enum ht_format f, uint32_t n) {
    return ht_act_bytes(k, ht_linear_act_kind(f), n);
}

static size_t weight_bytes(enum ht_format f, uint32_t n_k) {
    const struct ht_format_info *info = info_of(f);
    return (size_t)(n_k / info->block_len) * info->block_bytes;
}

// A stream takes as many weights of a row at once as leave the activations, which it reads again
// for every few rows, in a small part of the second-level cache. (Less, for L1's sake, is slower:
// the more it takes, the further ahead it asks.)
#define STREAM_ACT_BYTES (128 * 1024)

// Into how many parts of whole chunks of HT_CHUNK_Q8, n_chunks in all, a stream cuts K.
static uint32_t stream_parts(const struct ht_linear_kernels *k, enum ht_format f, uint32_t n_chunks,
                             uint32_t n_tokens) {
    size_t most = STREAM_ACT_BYTES / act_bytes(k, f, HT_CHUNK_Q8) / n_tokens;
    return most > 1 ? (uint32_t)((n_chunks + most - 1) / most) : n_chunks;
}

size_t ht_linear_scratch_bytes(uint32_t max_in, uint32_t max_tokens) {
    size_t n_tokens = ht_linear_together(max_tokens);
    bool bands = ht_act_row_bytes(HT_ACT_ROW_F32, max_in) > ACT_NEAR_BYTES / n_tokens;
    n_tokens += n_tokens % 2; // with_spare computes one more
    if (n_tokens < HT_STREAM_TOKENS) n_tokens = HT_STREAM_TOKENS;
    return PANEL_BYTES + 3 * SCALES_BYTES + STARTS_BYTES + HT_ROW_GROUP * TAIL_ROW_BYTES +
           (bands ? BAND_GROUPS : 1) * n_tokens * HT_ROW_GROUP * sizeof(float);
}

static struct scratch scratch_cut(void *memory) {
    uint8_t *p = memory;
    struct scratch s;
    s.panel.code = p;
    s.panel.scale = (float *)(p += PANEL_BYTES);
    s.panel.back = (float *)(p += SCALES_BYTES);
    s.panel.min = (float *)(p += SCALES_BYTES);
    s.panel.start = (int32_t *)(p += SCALES_BYTES);
    s.tail = p += STARTS_BYTES;
    s.acc = (float *)(p + HT_ROW_GROUP * TAIL_ROW_BYTES);
    return s;
}

// Rows of y and of the residual are far apart, often by a power of two: asked for this many tokens
// ahead.
#define ROWS_AHEAD 8

// y = a + b for a group. The sums are whole before y is written, since y may be a or b.
static void add_group(const float *a, const float *b, float *y) {
    typedef float four __attribute__((vector_size(16), aligned(4), may_alias));
    four sum[HT_ROW_GROUP / 4];
    for (int i = 0; i < HT_ROW_GROUP / 4; i++)
        sum[i] = ((const four *)(const void *)a)[i] + ((const four *)(const void *)b)[i];
    memcpy(y, sum, sizeof sum);
}

static float *output(const struct ht_linear_job *job, uint32_t row, uint32_t token) {
    return job->y + token * job->y_stride + (row - job->y_first);
}

static const float *residual(const struct ht_linear_job *job, uint32_t row, uint32_t token) {
    return job->residual + token * job->residual_stride + row;
}

// y = residual + (acc + bias) of one group, whose missing rows are computed and dropped.
static void epilogue(const struct ht_linear_job *job, uint32_t row, uint32_t n_rows, uint32_t token,
                     uint32_t n_tokens, float *acc) {
    float bias[HT_ROW_GROUP] = {0}, rest[HT_ROW_GROUP] = {0};
    size_t n_bytes = n_rows * sizeof(float);
    if (job->bias) memcpy(bias, job->bias + row, n_bytes);
    float *y = output(job, row, token);
    const float *r = job->residual ? residual(job, row, token) : NULL;
    for (uint32_t t = 0; t < n_tokens; t++, acc += HT_ROW_GROUP, y += job->y_stride) {
        float *to = n_rows == HT_ROW_GROUP ? y : acc;
        if (job->bias) add_group(acc, bias, acc);
        if (r) {
            if (t + ROWS_AHEAD < n_tokens) {
                __builtin_prefetch(r + ROWS_AHEAD * job->residual_stride);
                __builtin_prefetch(r + ROWS_AHEAD * job->residual_stride + 16);
            }
            add_group(n_rows == HT_ROW_GROUP ? r : memcpy(rest, r, n_bytes), acc, to);
            r += job->residual_stride;
        }
        if (!r || to == acc) memcpy(y, acc, n_bytes);
    }
}

// Rows that are fewer than 32, or whose chunk ends in the middle of a block of HT_PAD_FLOAT, are
// copied: kernels see whole groups only and read nothing behind the tensor. A copied group's
// missing rows and weights are zero bytes, which every format reads as finite numbers.
static const uint8_t *tail_copy(const uint8_t *w, size_t row_bytes, uint32_t n_rows, size_t n_bytes,
                                uint8_t *tail) {
    memset(tail, 0, (size_t)HT_ROW_GROUP * TAIL_ROW_BYTES);
    for (uint32_t r = 0; r < n_rows; r++)
        memcpy(tail + r * TAIL_ROW_BYTES, w + r * row_bytes, n_bytes);
    return tail;
}

// What is read behind a chunk of n_bytes a row.
static void ahead(struct ht_tile_args *t, struct ht_linear_next next, size_t n_bytes) {
    t->ahead = next.at;
    t->ahead_stride = next.row_bytes;
    t->ahead_bytes = (uint32_t)(n_bytes < next.row_bytes ? n_bytes : next.row_bytes);
    t->ahead_in_turn = false;
}

// Up to so many tokens a level that asks by address does so for panels, too: the next group's part
// that is as long as this chunk is of its own, instead of the next chunk of this group's rows.
#define PANEL_BY_ADDRESS 64

static void ahead_by_address(struct ht_tile_args *t, struct ht_linear_next next, uint32_t at,
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

// n_bytes: of the chunk, a row.
static bool has_later(const struct ht_linear_kernels *k, const struct ht_linear_job *job,
                      const struct ht_linear_later *later, uint32_t n_tokens, size_t n_bytes) {
    return k->ask_later && later->n > 0 && n_tokens <= PANEL_BY_ADDRESS &&
           HT_ROW_GROUP * n_bytes <= 2 * later->run_bytes &&
           (size_t)n_tokens * job->n_in >= LATER_PRODUCTS * weight_bytes(job->format, job->n_in);
}

// Two of the four lines are of the same part of the next group, and two of as much of what is read
// later: the last bytes of a run where it does not have so many more.
static void ahead_and_later(struct ht_tile_args *t, struct ht_linear_next next,
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

// A chunk of n_bytes a row of a group of repacked weights, whose rows stand together `rows` at a
// time: as many runs of addresses as that takes, HT_ASK_STREAMS at most, each in equal parts.
static void ahead_chunk(struct ht_tile_args *t, const uint8_t *at, uint32_t rows, size_t n_bytes,
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

// What streams of repacked weights ask for.
static void set_asks(const struct ht_linear_kernels *k, const struct ht_linear_job *job,
                     struct ht_tile_args *t) {
    t->ask = t->n_tokens > 1 ? k->ask_more : k->ask_one;
    t->ask_pages = page_by_page(k, job);
    if (t->ask_pages) t->ask = job->format == HT_Q8_0 ? HT_ASK_NOTHING : HT_ASK_NEAR_ONCE;
}

// As few passes of as equal numbers of tokens as streams are made for; all but the first find the
// weights in the cache.
static void stream_passes(const struct ht_linear_format *f, const uint8_t *rows, size_t stride,
                          const struct ht_tile_args *all) {
    struct ht_tile_args t = *all;
    uint32_t most = f->stream_tokens, n_passes = (all->n_tokens + most - 1) / most;
    for (uint32_t left = all->n_tokens; left > 0; left -= t.n_tokens) {
        t.n_tokens = ht_stream_tokens((left + n_passes - 1) / n_passes);
        while (t.n_tokens > left || t.n_tokens > most || ht_stream_tokens(t.n_tokens) != t.n_tokens)
            t.n_tokens--;
        if (n_passes > 1) n_passes--;
        f->stream(rows, stride, &t);
        t.act += t.n_tokens * t.act_stride;
        t.from += t.n_tokens * t.from_stride;
        t.to += t.n_tokens * t.to_stride;
    }
}

// How many tokens to compute, the last of them for nothing, where a stream is made for more, or its
// passes are for one more, and their activations may be read.
static uint32_t with_spare(const struct ht_linear_format *f, const struct ht_linear_job *job,
                           uint32_t token, uint32_t n_tokens) {
    uint32_t n = ht_stream_tokens(n_tokens);
    if (n > f->stream_tokens) n = (n_tokens + 1) & ~1u;
    return n <= f->stream_most && token + n <= job->n_act_rows ? n : n_tokens;
}

static const float zeros[HT_ROW_GROUP] __attribute__((aligned(64)));

// A chunk of a group's rows, packed and multiplied.
static void by_panel(const struct ht_linear_kernels *k, const struct ht_linear_job *job,
                     const uint8_t *rows, size_t stride, const struct scratch *s,
                     const struct ht_tile_args *t) {
    const struct ht_linear_format *f = kernels_of(k, job);
    struct ht_panel panel = s->panel;
    panel.in_place = rows;
    panel.part_bytes = k->lanes * weight_bytes(job->format, job->n_in);
    f->pack(info_of(job->format), rows, stride, t->n_k, &panel);
    f->tile(&panel, t);
}

// n_groups whole groups of rows, one block of tokens, K chunk by chunk.
static void band(const struct ht_linear_kernels *k, const struct ht_linear_job *job, uint32_t row,
                 uint32_t n_groups, uint32_t token, uint32_t n_tokens, struct ht_linear_next next,
                 const struct scratch *s) {
    size_t row_bytes = weight_bytes(job->format, job->n_in), group_bytes = HT_ROW_GROUP * row_bytes;
    size_t act_stride = ht_act_row_bytes(ht_linear_act_kind(job->format), job->n_in), n_bytes;
    const uint8_t *first = job->weight + row * row_bytes, *act = job->act + token * act_stride;
    bool direct = !job->bias && !job->residual, added = !job->bias && job->residual;
    uint32_t chunk = chunk_of(k, job->format), together = 1;
    if (job->repacked) together = ht_repacked_rows(k, job->format);
    struct ht_tile_args t = {
        .n_tokens = n_tokens, .act_stride = act_stride, .from = zeros, .out_stride = job->y_stride};
    for (uint32_t at = 0; at < job->n_in; at += t.n_k, first += together * n_bytes) {
        t.n_k = job->n_in - at < chunk ? job->n_in - at : chunk;
        t.act = act + act_bytes(k, job->format, at);
        n_bytes = weight_bytes(job->format, t.n_k);
        bool last = at + t.n_k == job->n_in;
        for (uint32_t g = 0; g < n_groups; g++) {
            const uint8_t *rows = first + g * group_bytes, *then = rows + group_bytes;
            float *acc = s->acc + (size_t)g * n_tokens * HT_ROW_GROUP;
            t.act_far = g == 0;
            if (at > 0) t.from = acc;
            t.from_stride = at > 0 ? HT_ROW_GROUP : 0;
            float *y = output(job, row + g * HT_ROW_GROUP, token);
            t.to = last && direct ? y : acc;
            t.to_stride = last && direct ? job->y_stride : HT_ROW_GROUP;
            t.out = last ? y : NULL;
            t.add = last && added ? residual(job, row + g * HT_ROW_GROUP, token) : NULL;
            t.add_stride = job->residual_stride;
            if (g + 1 == n_groups) then = last ? next.at : first + together * n_bytes;
            if (job->repacked && then && then != job->then.at)
                ahead_chunk(&t, then, together, n_bytes, row_bytes);
            else
                ahead(&t, (struct ht_linear_next){then, row_bytes}, n_bytes);
            by_panel(k, job, rows, row_bytes, s, &t);
            if (last && !direct && !added)
                epilogue(job, row + g * HT_ROW_GROUP, HT_ROW_GROUP, token, n_tokens, acc);
        }
    }
}

// One group of rows, one block of tokens, all of K. first: the thread's first with these tokens.
static void group(const struct ht_linear_kernels *k, const struct ht_linear_job *job, uint32_t row,
                  uint32_t n_rows, uint32_t token, uint32_t n_tokens, struct ht_linear_next next,
                  bool first, struct ht_linear_asked *asked, const struct scratch *s) {
    const struct ht_linear_format *f = kernels_of(k, job);
    size_t row_bytes = weight_bytes(job->format, job->n_in);
    const uint8_t *w = job->weight + row * row_bytes;
    bool stream = n_tokens <= f->stream_most;
    struct ht_tile_args t = {.n_tokens = n_tokens, .from = zeros, .out_stride = job->y_stride};
    if (stream) t.n_tokens = with_spare(f, job, token, n_tokens);
    // The sums go from zeros to the place of the output, where nothing is added behind them.
    bool direct = n_rows == HT_ROW_GROUP && !job->bias && !job->residual && t.n_tokens == n_tokens;
    bool added = n_rows == HT_ROW_GROUP && !job->bias && job->residual && !stream;
    t.act_stride = ht_act_row_bytes(ht_linear_act_kind(job->format), job->n_in);
    t.act = job->act + token * t.act_stride;
    t.act_far = first || n_tokens * t.act_stride > ACT_NEAR_BYTES;
    // What has to be copied goes in chunks that fit the copy.
    bool copied = n_rows < HT_ROW_GROUP || job->n_in % HT_PAD_FLOAT != 0;
    uint32_t chunk = stream && !copied ? HT_CHUNK_Q8 : chunk_of(k, job->format), part;
    uint32_t n_chunks = (job->n_in + chunk - 1) / chunk, n_parts = n_chunks;
    uint32_t a_pass = n_tokens < f->stream_tokens ? n_tokens : f->stream_tokens;
    if (stream && !copied) n_parts = stream_parts(k, job->format, n_chunks, a_pass);
    // Parts of K as equal as can be: during each, as much is asked for as it has itself.
    for (uint32_t at = 0; at < job->n_in; at += part, n_parts--) {
        part = (n_chunks - at / chunk + n_parts - 1) / n_parts * chunk;
        uint32_t n_k = job->n_in - at < part ? job->n_in - at : part;
        t.n_k = (n_k + HT_PAD_FLOAT - 1) / HT_PAD_FLOAT * HT_PAD_FLOAT;
        size_t n_bytes = weight_bytes(job->format, n_k), stride = row_bytes;
        bool last = at + part >= job->n_in;
        float *y = output(job, row, token);
        t.to = last && direct ? y : s->acc;
        t.to_stride = last && direct ? job->y_stride : HT_ROW_GROUP;
        t.out = last && n_rows == HT_ROW_GROUP ? y : NULL;
        t.add = last && added ? residual(job, row, token) : NULL;
        t.add_stride = job->residual_stride;
        const uint8_t *rows = w;
        if (n_rows < HT_ROW_GROUP || t.n_k != n_k) {
            rows = tail_copy(w, row_bytes, n_rows, n_bytes, s->tail);
            stride = TAIL_ROW_BYTES;
        }
        bool in_turn = k->address_tokens > 0 && n_tokens <= PANEL_BY_ADDRESS && next.at &&
                       (!stream || t.n_tokens > k->address_tokens);
        size_t n_next = n_bytes; // to the next chunk
        if (job->repacked) {
            n_next *= ht_repacked_rows(k, job->format);
            in_turn = !stream && next.at;
            set_asks(k, job, &t);
        }
        if (in_turn && !stream && has_later(k, job, &asked->later, n_tokens, n_bytes))
            ahead_and_later(&t, next, &asked->later, at, job->n_in);
        else if (in_turn)
            ahead_by_address(&t, next, at, job->n_in);
        else
            ahead(&t, last ? next : (struct ht_linear_next){w + n_next, row_bytes}, n_bytes);
        if (stream) {
            stream_passes(f, rows, stride, &t);
            asked->at = in_turn ? next.at : t.ahead;
            asked->n_lines = ((in_turn ? next.row_bytes : t.ahead_bytes) + 63) / 64;
            asked->n_rows = in_turn ? HT_ROW_GROUP : ht_lead_rows(k, stride, t.n_tokens);
        } else {
            by_panel(k, job, rows, stride, s, &t);
        }
        w += n_next;
        t.act += act_bytes(k, job->format, part);
        t.from = s->acc;
        t.from_stride = HT_ROW_GROUP;
    }
    if (!direct && !added) epilogue(job, row, n_rows, token, n_tokens, s->acc);
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

// Whether pages of weights are asked for before their lines are: all measured, since it costs what
// waits for the memory alone more than it gives (docs/kernels.md, "Pages").
static bool asks_pages(const struct ht_linear_kernels *k, const struct ht_linear_job *job) {
    bool super = info_of(job->format)->block_len > HT_Q8_BLOCK;
    if (!k->ask_pages) return false;
    if (job->repacked) return !super && !page_by_page(k, job);
    return job->n_tokens > 1 || job->format == HT_Q6_K || job->format == HT_BF16;
}

// Whether so many tokens' activations do not stay near, and all of K is whole chunks that need no
// copy.
static bool needs_bands(const struct ht_linear_job *job, uint32_t n_tokens) {
    size_t act_stride = ht_act_row_bytes(ht_linear_act_kind(job->format), job->n_in);
    return n_tokens * act_stride > ACT_NEAR_BYTES && job->n_in % HT_PAD_FLOAT == 0;
}

void ht_linear_rows(const struct ht_linear_kernels *k, const struct ht_linear_job *job,
                    uint32_t row_begin, uint32_t row_end, void *scratch) {
    struct scratch s = scratch_cut(scratch);
    size_t row_bytes = weight_bytes(job->format, job->n_in);
    struct ht_linear_asked none = {0}, *asked = job->asked ? job->asked : &none;
    bool stream = false, pages = asks_pages(k, job);
    for (uint32_t token = 0; token < job->n_tokens; token += HT_LINEAR_TOKENS) {
        uint32_t n_tokens = ht_linear_together(job->n_tokens - token);
        stream = n_tokens <= kernels_of(k, job)->stream_most;
        const uint8_t *w = job->weight + row_begin * row_bytes;
        if (stream && row_begin < row_end)
            ht_linear_ask(k, asked, (struct ht_linear_next){w, row_bytes}, n_tokens);
        uint32_t most = !stream && needs_bands(job, n_tokens) ? BAND_GROUPS : 1, n_rows;
        for (uint32_t row = row_begin; row < row_end; row += n_rows, w += n_rows * row_bytes) {
            n_rows = row_end - row < HT_ROW_GROUP ? row_end - row : HT_ROW_GROUP;
            uint32_t n_groups = (row_end - row) / HT_ROW_GROUP;
            if (n_groups > most) n_groups = most;
            if (n_groups > 1) n_rows = n_groups * HT_ROW_GROUP;
            struct ht_linear_next next = {w + n_rows * row_bytes, row_bytes};
            if (row_end - row <= n_rows) {
                next = job->then;
                if (next.at && page_by_page(k, job)) ht_ask_pages(next.at, HT_PAGE_RUN);
            }
            // A stream that knows of nothing else asks for its own rows again, which costs nothing.
            if (stream && !next.at) next = (struct ht_linear_next){w, row_bytes};
            if (pages) ht_ask_page_runs(w, n_rows * row_bytes);
            bool first = row == row_begin && asked->act != job->act;
            if (n_groups > 1)
                band(k, job, row, n_groups, token, n_tokens, next, &s);
            else
                group(k, job, row, n_rows, token, n_tokens, next, first, asked, &s);
        }
    }
    if (!stream) asked->at = NULL;
    asked->act = job->act;
}

// Of a matrix: 32 bits hold the way from a row to the fifteenth behind it, which gathers take.
#define MAX_SIDE (UINT32_MAX / 32)

enum hearth_status ht_linear_supports(enum ht_format f, uint64_t n_in, uint64_t n_out,
                                      struct hearth_error *err) {
    const struct ht_format_info *info = info_of(f);
    uint64_t row_bytes, total;
    if (!info) return ht_fail(err, HEARTH_E_UNSUPPORTED, "tensor type %d is not known", (int)f);
    if (!ht_linear_scalar.format[f].pack)
        return ht_fail(err, HEARTH_E_UNSUPPORTED, "no kernel multiplies weights of format %s",
                       info->name);
    if (n_in == 0 || n_in > MAX_SIDE || n_out == 0 || n_out > MAX_SIDE)
        return ht_fail(err, HEARTH_E_UNSUPPORTED,
                       "a matrix of %llu x %llu weights: each side must be between 1 and %u",
                       (unsigned long long)n_out, (unsigned long long)n_in, MAX_SIDE);
    if (!ht_format_row_bytes(f, n_in, &row_bytes))
        return ht_fail(err, HEARTH_E_UNSUPPORTED,
                       "rows of %llu weights are not whole blocks of %u, which format %s needs",
                       (unsigned long long)n_in, info->block_len, info->name);
    if (!ht_mul_u64(row_bytes, n_out, &total) || total > SIZE_MAX)
        return ht_fail(err, HEARTH_E_UNSUPPORTED, "a matrix of %llu x %llu weights is too large",
                       (unsigned long long)n_out, (unsigned long long)n_in);
    return HEARTH_OK;
}

const struct ht_linear_kernels *ht_linear_kernels_get(int level) {
    switch (level) {
#if defined(__x86_64__)
    case HT_CPU_AVX2: return &ht_linear_avx2;
    case HT_CPU_AVX2VNNI: return &ht_linear_avx2vnni;
    case HT_CPU_AVX512: return &ht_linear_avx512;
    case HT_CPU_AVX512VNNI: return &ht_linear_avx512vnni;
    case HT_CPU_AVX512BF16:
        return ht_cpu_wide_units() ? &ht_linear_avx512bf16_wide : &ht_linear_avx512bf16;
    case HT_CPU_AMX: return &ht_linear_amx;
#elif defined(__aarch64__)
    case HT_CPU_NEON: return &ht_linear_neon;
    case HT_CPU_NEON_DOTPROD: return &ht_linear_neon_dotprod;
    case HT_CPU_NEON_I8MM: return &ht_linear_neon_i8mm;
#endif
    default: return &ht_linear_scalar;
    }
}
