// SPDX-License-Identifier: MIT
// The driver of the linear step: cuts a thread's rows into groups of 32 and K into chunks, and runs
// a level's kernels over them. Owns nothing; scratch is the caller's. Invariant: the sums of an
// output element are made in the order of linear.h, whatever the cut. Any thread.
#include <string.h>

#include "backend/cpu/ask.h"
#include "backend/cpu/linear/ahead.h"
#include "backend/cpu/linear/kernels.h"

// So many bytes of activations stay there from one group of rows to the next. Where the tokens have
// more, groups of rows form a band: one after the other takes a chunk of K, before any takes the
// next one, so that a chunk's activations come from afar once for all of them.
#define ACT_NEAR_BYTES (768 * 1024)
#define BAND_GROUPS    8

// Sums of streams that wait in scratch until those of several groups are there. A store into a line
// that another core has lets no later one out, and those that a group's code makes are as many as
// the core can hold, so that loads of weights came to a stop behind each group (docs/kernels.md).
#define HELD_SUMS 2048

#define PANEL_BYTES  16384
#define SCALES_BYTES (HT_CHUNK_Q8 / 16 * HT_ROW_GROUP * sizeof(float))
#define STARTS_BYTES (HT_CHUNK_Q8 / HT_Q8_BLOCK * HT_ROW_GROUP * sizeof(int32_t))
// One row's bytes of a chunk, at most: Q8_0 has 34 bytes per 32 weights, F32 512 per 128.
#define TAIL_ROW_BYTES 576

struct scratch {
    struct ht_panel panel;
    uint8_t *tail; // [32][TAIL_ROW_BYTES]: rows of the last group, or of a padded chunk
    float *acc;    // [1, or BAND_GROUPS][HT_LINEAR_TOKENS or fewer][32], and at least HELD_SUMS
};

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
    return (job->repacked ? k->repacked : k->format) + ht_format_row[job->format];
}

// Bytes of n weights' part of a row of prepared activations.
static size_t act_bytes(const struct ht_linear_kernels *k, enum ht_format f, uint32_t n) {
    return ht_act_bytes(k, ht_linear_act_kind(f), n);
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

// Of rows of at most max_in the longest: those of whole KB have lines more (ht_act_row_bytes).
static size_t longest_row(uint32_t max_in) {
    size_t row = ht_act_row_bytes(HT_ACT_ROW_F32, max_in);
    size_t whole = ht_act_row_bytes(HT_ACT_ROW_F32, max_in / 256 * 256);
    return row > whole ? row : whole;
}

size_t ht_linear_scratch_bytes(uint32_t max_in, uint32_t max_tokens) {
    size_t n_tokens = ht_linear_together(max_tokens);
    bool bands = longest_row(max_in) > ACT_NEAR_BYTES / n_tokens;
    // As many as with_spare computes at most, and more.
    if (n_tokens < HELD_SUMS / HT_ROW_GROUP) n_tokens = HELD_SUMS / HT_ROW_GROUP;
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

// y = a + b of n rows of a group; y may be a.
static void add_rows(const float *a, const float *b, uint32_t n, float *y) {
    typedef float four __attribute__((vector_size(16), aligned(4), may_alias));
    if (n < HT_ROW_GROUP) {
        for (uint32_t i = 0; i < n; i++) y[i] = a[i] + b[i];
        return;
    }
    for (int i = 0; i < HT_ROW_GROUP; i += 4)
        *(four *)(void *)(y + i) =
            *(const four *)(const void *)(a + i) + *(const four *)(const void *)(b + i);
}

static float *output(const struct ht_linear_job *job, uint32_t row, uint32_t token) {
    return job->y + token * job->y_stride + (row - job->y_first);
}

static const float *residual(const struct ht_linear_job *job, uint32_t row, uint32_t token) {
    return job->residual + token * job->residual_stride + row;
}

// How K is cut: into n_parts parts of whole chunks, as equal as can be.
struct cut {
    uint32_t chunk, n_chunks, n_parts;
};

// The first part's weights, a whole number of chunks; what is left follows.
static uint32_t take_part(struct cut *c) {
    uint32_t n = (c->n_chunks + c->n_parts - 1) / c->n_parts;
    c->n_chunks -= n;
    c->n_parts--;
    return n * c->chunk;
}

// A block of tokens of a job, and what all its groups of rows have in common.
struct block {
    const struct ht_linear_kernels *k;
    const struct ht_linear_job *job;
    const struct ht_linear_format *f;
    bool stream;
    uint32_t token, n_tokens;
    uint32_t n_sums; // of each row: those of a spare token, too
    size_t row_bytes;
    struct cut whole;         // of groups that are read where they lie
    struct cut copied;        // of those that are copied, and of panels
    struct ht_tile_args tile; // the same for all
};

// The scale of the matrix, and the bias, which its sums did not begin with; of n rows of a group.
static void scale_rows(const struct ht_linear_job *job, uint32_t row, uint32_t n, float *sum) {
    const float scale = *job->scale;
    for (int i = 0; i < HT_ROW_GROUP; i++) sum[i] *= scale;
    if (job->bias) add_rows(sum, job->bias + row, n, sum);
}

// y = residual + acc of n_rows rows, whose sums acc has group by group, [n_sums][32] each, and in
// which they are scaled first if the matrix has a scale; what the last group has beyond them is
// dropped.
static void epilogue(const struct block *b, uint32_t row, uint32_t n_rows, float *acc) {
    const struct ht_linear_job *job = b->job;
    float *y = output(job, row, b->token);
    const float *r = job->residual ? residual(job, row, b->token) : NULL;
    for (uint32_t t = 0; t < b->n_tokens; t++, y += job->y_stride) {
        float *sum = acc + t * HT_ROW_GROUP;
        if (r && t + ROWS_AHEAD < b->n_tokens) {
            __builtin_prefetch(r + ROWS_AHEAD * job->residual_stride);
            __builtin_prefetch(r + ROWS_AHEAD * job->residual_stride + 16);
        }
        for (uint32_t i = 0, n; i < n_rows; i += n, sum += b->n_sums * HT_ROW_GROUP) {
            n = n_rows - i < HT_ROW_GROUP ? n_rows - i : HT_ROW_GROUP;
            if (job->scale) scale_rows(job, row + i, n, sum);
            if (r)
                add_rows(r + i, sum, n, y + i);
            else if (n == HT_ROW_GROUP)
                memcpy(y + i, sum, HT_ROW_GROUP * sizeof *y);
            else
                memcpy(y + i, sum, n * sizeof *y);
        }
        if (r) r += job->residual_stride;
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

// How many tokens a stream computes for n: so many, or as many as it is made for next.
static uint32_t streamed(const struct ht_linear_job *job, uint32_t n) {
    return job->repacked ? n : ht_stream_tokens(n);
}

// As few passes of as equal numbers of tokens as streams are made for; all but the first find the
// weights in the cache.
static void stream_passes(const struct block *b, const uint8_t *rows, size_t stride,
                          const struct ht_tile_args *all) {
    struct ht_tile_args t = *all;
    uint32_t most = b->f->stream_tokens, n_passes = (all->n_tokens + most - 1) / most;
    for (uint32_t left = all->n_tokens; left > 0; left -= t.n_tokens) {
        t.n_tokens = streamed(b->job, (left + n_passes - 1) / n_passes);
        while (t.n_tokens > left || t.n_tokens > most || streamed(b->job, t.n_tokens) != t.n_tokens)
            t.n_tokens--;
        if (n_passes > 1) n_passes--;
        // So few would cut what they ask for themselves; the passes before have asked for it. (Of
        // passes of one token, which are not of streams that cut it, the first one asks.)
        if (t.ahead_in_turn && t.n_tokens <= b->k->address_tokens && left < all->n_tokens)
            t.ahead_bytes = 0;
        b->f->stream(rows, stride, &t);
        t.act += t.n_tokens * t.act_stride;
        t.from += t.n_tokens * t.from_stride;
        t.to += t.n_tokens * t.to_stride;
    }
}

// How many tokens to compute, the last of them for nothing, where a stream is made for more, or its
// passes are for one more, and their activations may be read.
static uint32_t with_spare(const struct ht_linear_format *f, const struct ht_linear_job *job,
                           uint32_t token, uint32_t n_tokens) {
    if (job->repacked || f->stream_tokens == 1) return n_tokens;
    uint32_t n = ht_stream_tokens(n_tokens);
    if (n > f->stream_tokens) n = (n_tokens + 1) & ~1u;
    return n <= f->stream_most && token + n <= job->n_act_rows ? n : n_tokens;
}

// What a group's sums begin with: the bias, or zeros (scale_rows). Of fewer rows it is copied to
// `room`.
static const float *sums_begin(const struct ht_linear_job *job, uint32_t row, uint32_t n_rows,
                               float *room) {
    static const float zeros[HT_ROW_GROUP] __attribute__((aligned(64)));
    if (!job->bias || job->scale) return zeros;
    if (n_rows == HT_ROW_GROUP) return job->bias + row;
    memset(room, 0, HT_ROW_GROUP * sizeof *room);
    return memcpy(room, job->bias + row, n_rows * sizeof *room);
}

// A chunk of a group's rows, packed and multiplied.
static void by_panel(const struct block *b, const uint8_t *rows, size_t stride,
                     const struct scratch *s, const struct ht_tile_args *t) {
    struct ht_panel panel = s->panel;
    panel.in_place = rows;
    panel.part_bytes = b->k->lanes * b->row_bytes;
    b->f->pack(ht_format_get((uint32_t)b->job->format), rows, stride, t->n_k, &panel);
    b->f->tile(&panel, t);
}

static struct block block_of(const struct ht_linear_kernels *k, const struct ht_linear_job *job,
                             uint32_t token) {
    uint32_t n_tokens = ht_linear_together(job->n_tokens - token);
    struct block b = {.k = k, .job = job, .f = kernels_of(k, job), .token = token};
    b.n_tokens = b.n_sums = n_tokens;
    b.stream = n_tokens <= b.f->stream_most;
    if (b.stream) b.n_sums = with_spare(b.f, job, token, n_tokens);
    b.row_bytes = ht_weight_bytes(job->format, job->n_in);
    // What has to be copied goes in chunks that fit the copy.
    b.copied.chunk = chunk_of(k, job->format);
    b.copied.n_chunks = b.copied.n_parts = (job->n_in + b.copied.chunk - 1) / b.copied.chunk;
    b.whole = b.copied;
    if (job->n_in % HT_PAD_FLOAT == 0 && b.stream) {
        b.whole.chunk = HT_CHUNK_Q8;
        b.whole.n_chunks = (job->n_in + HT_CHUNK_Q8 - 1) / HT_CHUNK_Q8;
        uint32_t a_pass = n_tokens < b.f->stream_tokens ? n_tokens : b.f->stream_tokens;
        b.whole.n_parts = stream_parts(k, job->format, b.whole.n_chunks, a_pass);
    }
    size_t act_stride = ht_act_row_bytes(ht_linear_act_kind(job->format), job->n_in);
    b.tile = (struct ht_tile_args){.n_tokens = b.n_sums,
                                   .act = job->act + token * act_stride,
                                   .act_stride = act_stride,
                                   .act_far = n_tokens * act_stride > ACT_NEAR_BYTES,
                                   .out_stride = job->y_stride,
                                   .add_stride = job->residual_stride};
    if (job->repacked) ht_set_asks(k, job, &b.tile);
    return b;
}

// A row's bytes of the first part of c, which begins at weight `at`.
static size_t part_bytes(const struct ht_linear_job *job, struct cut c, uint32_t at) {
    uint32_t n = take_part(&c), left = job->n_in - at;
    return ht_weight_bytes(job->format, n < left ? n : left);
}

// n_groups whole groups of rows, K chunk by chunk.
static void band(const struct block *b, uint32_t row, uint32_t n_groups, struct ht_linear_next next,
                 const struct scratch *s) {
    const struct ht_linear_job *job = b->job;
    const uint8_t *first = job->weight + row * b->row_bytes;
    uint32_t chunk = b->copied.chunk, together = 1;
    if (job->repacked) together = ht_repacked_rows(b->k, job->format);
    struct ht_tile_args t = b->tile;
    size_t n_bytes;
    for (uint32_t at = 0; at < job->n_in; at += t.n_k, first += together * n_bytes) {
        t.n_k = job->n_in - at < chunk ? job->n_in - at : chunk;
        t.act = b->tile.act + act_bytes(b->k, job->format, at);
        n_bytes = ht_weight_bytes(job->format, t.n_k);
        bool last = at + t.n_k == job->n_in;
        for (uint32_t g = 0; g < n_groups; g++) {
            const uint8_t *rows = first + g * HT_ROW_GROUP * b->row_bytes;
            struct ht_linear_next then = {rows + HT_ROW_GROUP * b->row_bytes, b->row_bytes};
            size_t n_then = n_bytes;
            float *acc = s->acc + (size_t)g * b->n_tokens * HT_ROW_GROUP;
            t.act_far = g == 0;
            t.from = at > 0 ? acc : sums_begin(job, row + g * HT_ROW_GROUP, HT_ROW_GROUP, NULL);
            t.from_stride = at > 0 ? HT_ROW_GROUP : 0;
            float *y = output(job, row + g * HT_ROW_GROUP, b->token);
            bool placed = last && !job->scale, direct = placed && !job->residual;
            t.to = direct ? y : acc;
            t.to_stride = direct ? job->y_stride : HT_ROW_GROUP;
            t.out = last ? y : NULL;
            t.add = placed && !direct ? residual(job, row + g * HT_ROW_GROUP, b->token) : NULL;
            if (g + 1 == n_groups) {
                then.at = first + together * n_bytes;
                if (last) then = next;
                n_then = part_bytes(job, b->copied, last ? 0 : at + t.n_k);
            }
            if (job->repacked && then.at && then.at != job->then.at)
                ht_ahead_chunk(&t, then.at, together, n_then, b->row_bytes);
            else
                ht_ahead_rows(&t, then, n_then);
            by_panel(b, rows, b->row_bytes, s, &t);
            if (last && !placed) epilogue(b, row + g * HT_ROW_GROUP, HT_ROW_GROUP, acc);
        }
    }
}

// Whether the next group of the file's rows is asked for in the order of addresses while this one
// is multiplied, each part of it in as much time as it will take. A panel's parts of codes may be
// of different lengths, and then the next part, in the order of reading, is too much for a short
// one. Floats have no short ones.
static bool asks_in_turn(const struct block *b) {
    uint32_t by_address = b->k->address_tokens;
    if (b->n_tokens > HT_PANEL_BY_ADDRESS) return false;
    if (b->stream) return by_address > 0 && b->n_sums > by_address;
    return by_address > 0 || ht_act_is_q8(ht_linear_act_kind(b->job->format));
}

// One group of rows, all of K. first: the thread's first with these tokens. A stream's sums stay in
// s->acc.
static void group(const struct block *b, uint32_t row, uint32_t n_rows, struct ht_linear_next next,
                  bool first, struct ht_linear_asked *asked, const struct scratch *s) {
    const struct ht_linear_job *job = b->job;
    const uint8_t *w = job->weight + row * b->row_bytes;
    const bool partial = n_rows < HT_ROW_GROUP, stream = b->stream;
    struct ht_tile_args t = b->tile;
    float room[HT_ROW_GROUP];
    t.from = sums_begin(job, row, n_rows, room);
    if (first) t.act_far = true;
    // A whole panel's sums go to the place of the output, where the residual is added to them; not
    // those of a matrix with a scale.
    bool placed = !partial && !stream && !job->scale, direct = placed && !job->residual;
    const struct cut all = partial ? b->copied : b->whole;
    struct cut c = all;
    // During each part, the one behind it is asked for, be it longer or shorter.
    for (uint32_t at = 0, part; at < job->n_in; at += part) {
        part = take_part(&c);
        uint32_t n_k = job->n_in - at < part ? job->n_in - at : part;
        t.n_k = (n_k + HT_PAD_FLOAT - 1) / HT_PAD_FLOAT * HT_PAD_FLOAT;
        size_t n_bytes = ht_weight_bytes(job->format, n_k), stride = b->row_bytes;
        bool last = at + part >= job->n_in;
        float *y = output(job, row, b->token);
        t.to = last && direct ? y : s->acc;
        t.to_stride = last && direct ? job->y_stride : HT_ROW_GROUP;
        t.out = last && !partial ? y : NULL;
        t.add = last && placed && !direct ? residual(job, row, b->token) : NULL;
        const uint8_t *rows = w;
        if (partial || t.n_k != n_k) {
            rows = tail_copy(w, b->row_bytes, n_rows, n_bytes, s->tail);
            stride = TAIL_ROW_BYTES;
        }
        bool in_turn = next.at && asks_in_turn(b);
        size_t n_next = n_bytes; // to the next chunk
        if (job->repacked) {
            n_next *= ht_repacked_rows(b->k, job->format);
            in_turn = !stream && next.at;
        }
        if (in_turn && !stream &&
            ht_ahead_has_later(b->k, job, &asked->later, b->n_tokens, n_bytes))
            ht_ahead_and_later(&t, next, &asked->later, at, job->n_in);
        else if (in_turn)
            ht_ahead_by_address(&t, next, at, job->n_in);
        else
            ht_ahead_rows(&t, last ? next : (struct ht_linear_next){w + n_next, b->row_bytes},
                          part_bytes(job, last ? all : c, last ? 0 : at + part));
        if (stream) {
            stream_passes(b, rows, stride, &t);
            asked->at = in_turn ? next.at : t.ahead;
            asked->n_lines = ((in_turn ? next.row_bytes : t.ahead_bytes) + 63) / 64;
            asked->n_rows = in_turn ? HT_ROW_GROUP : ht_lead_rows(b->k, stride, t.n_tokens);
        } else {
            by_panel(b, rows, stride, s, &t);
        }
        w += n_next;
        t.act += act_bytes(b->k, job->format, part);
        t.from = s->acc;
        t.from_stride = HT_ROW_GROUP;
    }
    if (!placed && !stream) epilogue(b, row, n_rows, s->acc);
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
    struct ht_linear_asked none = {0}, *asked = job->asked ? job->asked : &none;
    bool stream = false, pages = ht_asks_pages(k, job);
    bool next_pages = ht_asks_next_pages(k, job);
    float *acc = s.acc;
    for (uint32_t token = 0; token < job->n_tokens; token += HT_LINEAR_TOKENS) {
        struct block b = block_of(k, job, token);
        const uint8_t *w = job->weight + row_begin * b.row_bytes;
        stream = b.stream;
        if (stream && row_begin < row_end)
            ht_linear_ask(k, asked, (struct ht_linear_next){w, b.row_bytes}, b.n_tokens);
        uint32_t most = !stream && needs_bands(job, b.n_tokens) ? BAND_GROUPS : 1, n_rows;
        uint32_t held = row_begin; // the first row whose sums wait in scratch
        for (uint32_t row = row_begin; row < row_end; row += n_rows, w += n_rows * b.row_bytes) {
            n_rows = row_end - row < HT_ROW_GROUP ? row_end - row : HT_ROW_GROUP;
            uint32_t n_groups = (row_end - row) / HT_ROW_GROUP;
            if (n_groups > most) n_groups = most;
            if (n_groups > 1) n_rows = n_groups * HT_ROW_GROUP;
            struct ht_linear_next next = {w + n_rows * b.row_bytes, b.row_bytes};
            if (row_end - row <= n_rows) {
                // The pages of what follows these rows are asked for on the way, if at all.
                if (next_pages && job->then.at && job->then.at != next.at)
                    ht_ask_pages(job->then.at, HT_PAGE_RUN);
                next = job->then;
            }
            // A stream that knows of nothing else asks for its own rows again, which costs nothing.
            if (stream && !next.at) next = (struct ht_linear_next){w, b.row_bytes};
            if (pages) ht_ask_page_runs(w, n_rows * b.row_bytes);
            bool first = row == row_begin && asked->act != job->act;
            s.acc = stream ? acc + (size_t)(row - held) * b.n_sums : acc;
            if (n_groups > 1)
                band(&b, row, n_groups, next, &s);
            else
                group(&b, row, n_rows, next, first, asked, &s);
            if (!stream) continue;
            uint32_t n_held = row + n_rows - held;
            if (row + n_rows < row_end && (n_held + HT_ROW_GROUP) * b.n_sums <= HELD_SUMS) continue;
            epilogue(&b, held, n_held, acc);
            held += n_held;
        }
    }
    if (!stream) asked->at = NULL;
    asked->act = job->act;
}
