// SPDX-License-Identifier: MIT
// What kernels ask the memory for ahead of its use. A level's header of vectors includes it; the
// level may say in front
//   ASK_BY_ADDRESS   1: its streams ask in the order of addresses (default 0)
//   ASK_PAGES        1: its streams of repacked weights may ask for pages (default 0)
// Which order reads faster depends on the processor (docs/kernels.md, "Memory").
#ifndef HT_LINEAR_ASK_H
#define HT_LINEAR_ASK_H

#include "backend/cpu/ask.h"
#include "backend/cpu/linear/vec.h"

#ifndef ASK_BY_ADDRESS
#define ASK_BY_ADDRESS 0
#endif

#ifndef ASK_PAGES
#define ASK_PAGES 0
#endif

#ifdef REPACKED
// Lines that a stream of repacked weights asks for while it works on a block of LANES rows, as many
// as it reads, by t->ask: into L2 those of the LANES rows behind, and into L1 what comes NEAR lines
// later, which is in L2 by then; or only the latter, from further away; or none. One code for all:
// instead of a line that is not wanted it asks for the other again, or for one that is read now.
struct asker {
    const uint8_t *line, *near;
    uintptr_t page, in_page; // what is read HT_PAGE_RUN later; bits of a place in a page, or all
    bool asks;               // for lines at all; where not, streams of one token leave ask() out
};
#define NEAR      64
#define NEAR_ONLY 128

INLINE struct asker asker_of(const uint8_t *w, size_t stride, uint32_t part,
                             const struct ht_tile_args *t) {
    const bool last = (part + 1) * LANES == HT_ROW_GROUP;
    struct asker a = {.line = last ? t->ahead : w + LANES * stride,
                      .near = w + NEAR * 64,
                      .asks = t->ask != HT_ASK_NOTHING,
                      .page = (uintptr_t)w + HT_PAGE_RUN,
                      .in_page = t->ask_pages ? HT_SMALL_PAGE - 1 : UINTPTR_MAX};
    if (t->ask != HT_ASK_BEHIND) a.line = a.near = w + NEAR_ONLY * 64;
    if (t->ask == HT_ASK_NEAR_ONCE) a.line = w;
    if (t->ask == HT_ASK_NOTHING) a.line = a.near = w;
    return a;
}

// Parts [i, i + parts) of n_parts of the work on a block of n_bytes.
INLINE void ask(struct asker *a, const uint32_t n_bytes, const uint32_t i, const uint32_t n_parts,
                const uint32_t parts) {
    const uint32_t n = (n_bytes + 63) / 64;
    // gcc's scheduler would gather them in one place.
    __asm__ volatile("" : "+r"(a->line));
    UNROLL(8)
    for (uint32_t l = n * i / n_parts; l < n * (i + parts) / n_parts; l++) {
        __builtin_prefetch(a->near + l * 64, 0, 3);
        __builtin_prefetch(a->line + l * 64, 0, 2);
    }
}

// Behind the block. Of n tokens, whose stream may ask for each page on its own.
INLINE void ask_block(struct asker *a, const enum ht_format f, const uint32_t n,
                      const uint32_t n_bytes) {
    if (ASK_PAGES && ht_page_by_page(f, n)) {
        if ((a->page & a->in_page) < n_bytes) __builtin_prefetch((const void *)a->page, 0, 2);
        a->page += n_bytes;
    }
    a->near += n_bytes;
    a->line += n_bytes;
}

#elif !ASK_BY_ADDRESS
// Lines that a stream asks for while it works on some rows, into the L2 cache (to L1 is far slower
// on Zen 4): those of as many rows behind them, in the order in which they will be read, or, where
// rows are short, of the same rows of the group behind (ht_lead_rows). So when the memory is
// behind, the stream waits for the oldest while the others arrive. Few are asked for at a time: a
// burst holds up every load behind it. Where the arguments say `in turn`, they are lines of the
// group behind as well, in the order of addresses.
struct asker {
    const uint8_t *line;        // of row `row`
    size_t stride, wrap;        // from row to row, and from the last to the next line of the first
    uint32_t row, n_rows, left; // left: lines of each row
    uint32_t rest;              // bytes read, beyond those that lines were asked for
};

// The same line again and again.
INLINE void ask_no_more(struct asker *a) {
    a->stride = a->wrap = 0;
}

// While n_parts * LANES rows from w on are read, n_bytes of each: from part `part` of a group on.
// codes: rows may be short; those of floats are not, and have no code for it.
INLINE struct asker asker_of(const uint8_t *w, size_t stride, size_t n_bytes, uint32_t part,
                             const uint32_t n_parts, const bool codes,
                             const struct ht_tile_args *t) {
    const bool last = (part + n_parts) * LANES == HT_ROW_GROUP;
    const uint32_t n_rows = n_parts * LANES;
    struct asker a = {.line = w + n_rows * stride, .stride = stride, .n_rows = n_rows};
    uint32_t n_lines = (uint32_t)(n_bytes + 63) / 64, from = 0;
    const bool group = codes && stride * LANES < HT_LEAD_LEAST && !t->ahead_in_turn;
    if (last || group || t->ahead_in_turn) {
        a.line = t->ahead + (group ? part * LANES * t->ahead_stride : 0);
        a.stride = t->ahead_stride;
        n_lines = (t->ahead_bytes + 63) / 64;
    }
    if (t->ahead_in_turn) {
        a.n_rows = HT_ASK_STREAMS;
        from = n_lines * part / PARTS;
        n_lines = n_lines * (part + n_parts) / PARTS;
    }
    a.line += from * 64;
    a.left = n_lines - from;
    a.wrap = 64 - a.n_rows * a.stride;
    if (a.left == 0) ask_no_more(&a);
    return a;
}

// A line of each of so many rows is asked for at a time, so that counting them costs less.
#define ASK_LINES HT_ASK_STREAMS

INLINE void ask_lines(struct asker *a) {
    // gcc's scheduler would gather them in one place.
    __asm__ volatile("" : "+r"(a->line));
    UNROLL(4)
    for (int i = 0; i < ASK_LINES; i++, a->line += a->stride) __builtin_prefetch(a->line, 0, 2);
    a->row += ASK_LINES;
    if (a->row < a->n_rows) return;
    a->row = 0;
    a->line += a->wrap;
    if (--a->left == 0) ask_no_more(a);
}

#else
// Lines that a stream asks for while it works on LANES rows. Into L2, one at a time, those of the
// same part of the group behind, or, where rows are long, of the LANES rows behind: in the order of
// addresses, where the processor follows by itself, or that of reading, where rows are so long that
// addresses would be too far ahead, or have gaps. Into L1 the rows' own, NEAR lines before they are
// read: they are in L2 by then, but as long as lines from memory occupy what L1 has for its misses,
// a load that L2 could answer has to wait for the memory, too.
struct asker {
    const uint8_t *line;
    size_t step, wrap;            // to the next line of a run, and from its end to the next run
    uint32_t run, left, n_runs;   // lines of a run, and what is left of this one
    uint32_t near_row, near_left; // rows left of this line, lines left of these rows
    const uint8_t *near;
    size_t near_stride;
    struct ht_linear_next then; // the rows whose lines are near next
    uint32_t rest;              // bytes read, beyond those that lines were asked for
};
#define NEAR            6    // lines of a row
#define MOST_BY_ADDRESS 4608 // bytes of a row

// The same line again and again.
INLINE void ask_no_more(struct asker *a) {
    a->step = a->wrap = 0;
    a->n_runs = UINT32_MAX;
}

INLINE void ask_then(struct asker *a) {
    a->near = a->then.at;
    a->near_stride = a->then.row_bytes;
    a->near_left = UINT32_MAX;
}

// n_parts is 1.
INLINE struct asker asker_of(const uint8_t *w, size_t stride, size_t n_bytes, uint32_t part,
                             const uint32_t n_parts, const bool codes,
                             const struct ht_tile_args *t) {
    (void)n_parts, (void)codes;
    const bool last = (part + 1) * LANES == HT_ROW_GROUP;
    const bool group = stride * HT_ROW_GROUP <= HT_LEAD_BYTES; // asks a group ahead
    struct asker a = {.near = w + NEAR * 64, .near_stride = stride, .near_row = LANES};
    uint32_t n_lines = (uint32_t)(n_bytes + 63) / 64;
    a.near_left = n_lines - NEAR;
    a.then = (struct ht_linear_next){w + LANES * stride, stride};
    if (last) a.then = (struct ht_linear_next){t->ahead, t->ahead_stride};
    if (n_lines <= NEAR) ask_then(&a);
    a.line = group ? t->ahead + part * LANES * t->ahead_stride : a.then.at;
    size_t next_stride = group ? t->ahead_stride : a.then.row_bytes;
    size_t next_bytes = group || last || t->ahead_bytes == 0 ? t->ahead_bytes : n_bytes;
    if (next_bytes == next_stride && next_bytes <= MOST_BY_ADDRESS) {
        const uint32_t all = (uint32_t)(LANES * next_bytes + 63) / 64;
        a.n_runs = (all + HT_ASK_STREAMS - 1) / HT_ASK_STREAMS;
        a.run = HT_ASK_STREAMS;
        a.step = a.n_runs * 64;
        a.wrap = 64 - HT_ASK_STREAMS * a.step;
    } else {
        a.step = next_stride;
        a.run = LANES;
        a.n_runs = (uint32_t)(next_bytes + 63) / 64;
        a.wrap = 64 - LANES * next_stride;
    }
    a.left = a.run;
    if (a.n_runs == 0) ask_no_more(&a);
    return a;
}

#define ASK_LINES 1

INLINE void ask_lines(struct asker *a) {
    // gcc's scheduler would gather them in one place.
    __asm__ volatile("" : "+r"(a->line));
    __builtin_prefetch(a->line, 0, 2);
    __builtin_prefetch(a->near, 0, 3);
    a->line += a->step;
    a->near += a->near_stride;
    if (--a->left == 0) {
        a->left = a->run;
        a->line += a->wrap;
        if (--a->n_runs == 0) ask_no_more(a);
    }
    if (--a->near_row == 0) {
        a->near_row = LANES;
        a->near += 64 - LANES * a->near_stride;
        if (--a->near_left == 0) ask_then(a);
    }
}
#endif

#ifndef REPACKED
// The same, but not inlined: where several tokens' products hide the call, which for one take 1 %.
static __attribute__((noinline, unused)) struct asker asker_shared(const uint8_t *w, size_t stride,
                                                                   size_t n_bytes, uint32_t part,
                                                                   const struct ht_tile_args *t) {
    return asker_of(w, stride, n_bytes, part, 1, true, t);
}

#define ASK_BYTES (64 * ASK_LINES)

// Part i of n_parts of the work in which n_bytes are read.
INLINE void ask(struct asker *a, const uint32_t n_bytes, const uint32_t i, const uint32_t n_parts) {
    const uint32_t all = n_bytes / ASK_BYTES, n = all * (i + 1) / n_parts - all * i / n_parts;
    UNROLL(4)
    for (uint32_t l = 0; l < n; l++) ask_lines(a);
    if (i + 1 < n_parts || n_bytes % ASK_BYTES == 0) return;
    a->rest += n_bytes % ASK_BYTES;
    if (a->rest < ASK_BYTES) return;
    a->rest -= ASK_BYTES;
    ask_lines(a);
}

// Behind n_rows of n_bytes: a row has a line more than its bytes fill.
INLINE void ask_rest(struct asker *a, size_t n_bytes, const uint32_t n_rows) {
    a->rest += (uint32_t)(-n_bytes & 63) * n_rows;
    for (; a->rest >= ASK_BYTES; a->rest -= ASK_BYTES) ask_lines(a);
}
#endif

// The activations of a tile's tokens at one place of K. On x86 three tokens share a base that moves
// (an address has room for a second register, once or twice), and so none is spilled.
#if defined(__x86_64__)
#define TOKENS_A_BASE 3
#else
#define TOKENS_A_BASE 12 // addresses take one register: the compiler moves one a token
#endif
struct tokens {
    const uint8_t *base[4];
    size_t stride;
};

INLINE struct tokens tokens_of(const struct ht_tile_args *t, uint32_t token, const uint32_t n) {
    struct tokens x = {.stride = t->act_stride};
    UNROLL(4)
    for (uint32_t b = 0; b < (n + TOKENS_A_BASE - 1) / TOKENS_A_BASE; b++)
        x.base[b] = t->act + (token + b * TOKENS_A_BASE) * x.stride;
    return x;
}

INLINE const void *token_at(const struct tokens *x, const uint32_t i) {
    return x->base[i / TOKENS_A_BASE] + i % TOKENS_A_BASE * x->stride;
}

INLINE void tokens_advance(struct tokens *x, const uint32_t n, const size_t n_bytes) {
    UNROLL(4)
    for (uint32_t b = 0; b < (n + TOKENS_A_BASE - 1) / TOKENS_A_BASE; b++) {
        x->base[b] += n_bytes;
#if TOKENS_A_BASE < 12
        __asm__("" : "+r"(x->base[b])); // a base, not one more that moves with it
#endif
    }
}

// Asks for so many lines of each of n tokens' activations behind a tile of as many, those that it
// will multiply next: other threads made many of them, in caches of their own, and where K is long
// they do not all stay in this one's. (A line for each block of codes, which is shorter, is all of
// them, and some twice.)
INLINE void ask_tokens(const struct tokens *x, const uint32_t n, const uint32_t n_lines) {
    const size_t behind = n * x->stride;
    UNROLL(2)
    for (uint32_t l = 0; l < n_lines; l++) {
        UNROLL(12)
        for (uint32_t i = 0; i < n; i++)
            __builtin_prefetch((const uint8_t *)token_at(x, i) + behind + 64 * l, 0, 2);
    }
}

// The lines to ask for in the inner loop of a tile, evenly over all its turns and four at a time: a
// line of each of four rows, or of the four parts. (One by one, counting them took as many
// instructions as fit into a turn of a tile for nothing: docs/kernels.md, "Memory".)
struct ahead {
    const uint8_t *line;
    size_t step, pair, wrap;       // between the four; from their last lines to the next four
    uint32_t left, n_lines;        // lines left of these four, of each
    uint32_t due, a_turn, n_turns; // times n_turns: lines of four, and what a turn adds to them
};

// n_turns: how often the loop will ask; beyond that it asks for what lies behind.
INLINE struct ahead ahead_of(const struct ht_tile_args *t, uint32_t n_turns) {
    if (t->ahead_bytes == 0) return (struct ahead){.n_turns = 1};
    _Static_assert(HT_ASK_STREAMS == 4, "parts are asked for as rows are");
    struct ahead a = {.line = t->ahead, .step = t->ahead_stride, .pair = 2 * t->ahead_stride};
    if (t->ahead_in_turn) a.pair = t->ahead_pair;
    a.n_lines = (t->ahead_bytes + 126) / 64; // of a row, which begins anywhere
    a.left = a.n_lines;
    a.wrap = 4 * a.step - a.n_lines * (size_t)64;
    a.a_turn = t->ahead_in_turn ? a.n_lines : HT_ROW_GROUP / 4 * a.n_lines;
    a.n_turns = n_turns > 0 ? n_turns : 1;
    return a;
}

INLINE void ahead_step(struct ahead *a) {
    for (a->due += a->a_turn; a->due >= a->n_turns; a->due -= a->n_turns) {
        const uint8_t *second = a->line + a->step;
        __builtin_prefetch(a->line, 0, 2);
        __builtin_prefetch(second, 0, 2);
        __builtin_prefetch(a->line + a->pair, 0, 2);
        __builtin_prefetch(second + a->pair, 0, 2);
        a->line += 64;
        if (--a->left > 0) continue;
        a->left = a->n_lines;
        a->line += a->wrap;
    }
}

#endif
