// SPDX-License-Identifier: MIT
// Continuous batching. A turn's pass holds one token of every running sequence that generates, then
// chunks of the prompts (and of what preempted sequences read again) up to n_batch tokens. Three
// rules keep it fair and free of deadlock:
//   - order of arrival decides everything: who comes in, who gets pages, who is served first
//   - out of pages, the youngest running sequence gives all of its back and waits; so the oldest
//     always gets on
//   - a sequence comes in only when the pages for all it has to read are there
// What a sequence computes does not depend on any of this (promise 1), only when.
#include "engine/engine_internal.h"

static uint32_t n_unread(const struct hearth_request *r) {
    return r->n_tokens - r->n_cached;
}

void ht_schedule_enqueue(struct hearth_engine *e, struct hearth_request *r) {
    struct hearth_request *next = e->waiting;
    if (next && e->last_waiting->serial < r->serial) next = NULL; // as new ones are
    while (next && next->serial < r->serial) next = next->next_waiting;
    r->next_waiting = next;
    r->prev_waiting = next ? next->prev_waiting : e->last_waiting;
    *(r->prev_waiting ? &r->prev_waiting->next_waiting : &e->waiting) = r;
    *(next ? &next->prev_waiting : &e->last_waiting) = r;
    r->state = HT_WAITING;
}

static void stop_waiting(struct hearth_engine *e, struct hearth_request *r) {
    *(r->prev_waiting ? &r->prev_waiting->next_waiting : &e->waiting) = r->next_waiting;
    *(r->next_waiting ? &r->next_waiting->prev_waiting : &e->last_waiting) = r->prev_waiting;
    r->prev_waiting = r->next_waiting = NULL;
}

static void stop_running(struct hearth_engine *e, struct hearth_request *r) {
    uint32_t i = 0;
    while (e->running[i] != r) i++;
    for (; i + 1 < e->n_running; i++) e->running[i] = e->running[i + 1];
    ht_kv_seq_clear(&r->seq, &e->pages);
    r->n_cached = 0;
    r->n_take = 0;
    e->n_running--;
    e->free_slots[e->n_seqs - e->n_running - 1] = r->slot;
}

void ht_schedule_remove(struct hearth_engine *e, struct hearth_request *r) {
    if (r->state == HT_RUNNING) stop_running(e, r);
    if (r->state == HT_WAITING) stop_waiting(e, r);
}

static void start_running(struct hearth_engine *e, struct hearth_request *r) {
    r->slot = e->free_slots[e->n_seqs - e->n_running - 1];
    r->seq = (struct ht_kv_seq){.pages = e->page_tables + (size_t)r->slot * e->pages_per_seq,
                                .cap = e->pages_per_seq};
    r->state = HT_RUNNING;
    uint32_t i = e->n_running++;
    for (; i > 0 && e->running[i - 1]->serial > r->serial; i--) e->running[i] = e->running[i - 1];
    e->running[i] = r;
}

// Lets waiting requests in, first come first served, while there is a slot and there are pages for
// everything they and the running ones still have to read.
static void admit(struct hearth_engine *e) {
    uint64_t promised = 0;
    for (uint32_t i = 0; i < e->n_running; i++) {
        const struct hearth_request *r = e->running[i];
        uint32_t want = ht_kv_pages_for(r->n_tokens);
        if (want > r->seq.n_pages) promised += want - r->seq.n_pages;
    }
    while (e->waiting && e->n_running < e->n_seqs) {
        struct hearth_request *r = e->waiting;
        promised += ht_kv_pages_for(r->n_tokens);
        if (promised > e->pages.n_free && e->n_running > 0) return;
        stop_waiting(e, r);
        start_running(e, r);
    }
}

// Tokens that r can read in a pass when `rows` rows of logits are its share.
static uint32_t wish(const struct hearth_request *r, uint32_t rows) {
    uint32_t n = n_unread(r);
    if (r->options.prompt_chunk > 0 && n > r->options.prompt_chunk) n = r->options.prompt_chunk;
    if (r->options.on_logits) {
        // Positions in front of logits_from, or read before a preemption, need no row.
        uint32_t old = r->n_logits_sent > r->n_cached ? r->n_logits_sent - r->n_cached : 0;
        if (n > old && n - old > rows) n = old + rows;
    }
    return n;
}

// Shares the budget: each generating sequence one token; the rest in equal shares to the readers,
// and what some of them do not need to the others, in order of arrival. Every running sequence has
// one row of logits for sure (n_logits >= n_seqs); the rest is shared by requests with on_logits.
static void share_tokens(struct hearth_engine *e) {
    uint32_t n_readers = 0, n_row_readers = 0, budget = e->n_batch;
    for (uint32_t i = 0; i < e->n_running; i++) {
        struct hearth_request *r = e->running[i];
        r->n_take = n_unread(r) == 1;
        budget -= r->n_take;
        if (r->n_take == 0) {
            n_readers++;
            n_row_readers += r->options.on_logits != NULL;
        }
    }
    uint32_t rows = e->n_logits - e->n_running, left = n_readers;
    for (uint32_t i = 0; i < e->n_running && left > 0; i++) {
        struct hearth_request *r = e->running[i];
        if (n_unread(r) == 1) continue;
        uint32_t extra = r->options.on_logits ? rows / n_row_readers-- : 0;
        uint32_t share = budget / left--;
        if (r->options.on_logits) rows -= extra;
        r->n_wish = wish(r, 1 + extra);
        r->n_take = r->n_wish < share ? r->n_wish : share;
        budget -= r->n_take;
    }
    for (uint32_t i = 0; i < e->n_running && budget > 0; i++) {
        struct hearth_request *r = e->running[i];
        if (n_unread(r) == 1) continue;
        uint32_t more = r->n_wish - r->n_take;
        if (more > budget) more = budget;
        r->n_take += more;
        budget -= more;
    }
}

static void preempt(struct hearth_engine *e, struct hearth_request *r) {
    stop_running(e, r);
    ht_schedule_enqueue(e, r);
    e->n_preempted++;
}

// Pages for what each sequence takes, oldest first; the youngest pay.
static void take_pages(struct hearth_engine *e) {
    for (uint32_t i = 0; i < e->n_running; i++) {
        struct hearth_request *r = e->running[i];
        while (!ht_kv_seq_grow(&r->seq, &e->pages, r->n_cached + r->n_take)) {
            struct hearth_request *youngest = e->running[e->n_running - 1];
            preempt(e, youngest);
            if (youngest == r) return; // it was the last of the list
        }
    }
}

static bool wants_row(const struct hearth_request *r, uint32_t pos) {
    if (r->options.on_logits && pos >= r->n_logits_sent) return true;
    return pos + 1 == r->n_tokens && r->max_tokens > 0;
}

static void append(struct hearth_engine *e, struct hearth_request *r) {
    struct ht_batch *b = &e->batch;
    e->batch_seqs[b->n_seqs] =
        (struct ht_batch_seq){.pages = r->seq.pages, .n_pages = r->seq.n_pages};
    e->batch_requests[b->n_seqs] = r;
    r->first_row = b->n_outputs;
    r->n_rows = 0;
    for (uint32_t i = 0; i < r->n_take; i++) {
        uint32_t pos = r->n_cached + i, t = b->n_tokens++;
        e->batch_tokens[t] = r->tokens[pos];
        e->batch_pos[t] = pos;
        e->batch_seq[t] = b->n_seqs;
        if (!wants_row(r, pos)) continue;
        if (r->n_rows++ == 0) r->first_row_position = pos;
        e->batch_outputs[b->n_outputs++] = t;
    }
    b->n_seqs++;
}

void ht_schedule(struct hearth_engine *e) {
    admit(e);
    share_tokens(e);
    take_pages(e);
    e->batch = (struct ht_batch){.tokens = e->batch_tokens,
                                 .pos = e->batch_pos,
                                 .seq = e->batch_seq,
                                 .seqs = e->batch_seqs,
                                 .outputs = e->batch_outputs};
    for (int readers = 0; readers < 2; readers++) {
        for (uint32_t i = 0; i < e->n_running; i++) {
            struct hearth_request *r = e->running[i];
            if ((n_unread(r) > 1) == (readers == 1) && r->n_take > 0) append(e, r);
        }
    }
}
