// SPDX-License-Identifier: MIT
// What a pass gave, handed to the requests: logits where asked for, a sampled token, its text, and
// the end. Every request with on_event gets exactly one event whose finish is not NONE, its last.
// Callbacks run here, on the driving thread; one that returns false cancels its request. Sampling
// alone is shared with the backend's team: it touches one request and one thread's scratch.
#include <math.h>

#include "base/clock.h"
#include "base/float_env.h"
#include "base/team.h"
#include "engine/engine_internal.h"

// Text that is certain; everything at the end.
static void take_text(struct hearth_request *r, struct hearth_event *event) {
    if (!r->has_detok) return;
    bool last = event->finish != HEARTH_FINISH_NONE;
    if (last) {
        const char *rest;
        size_t n_rest;
        ht_detok_end(&r->detok, &rest, &n_rest);
        (void)ht_stop_push(&r->stop, rest, n_rest); // bytes that are no character complete none
    }
    ht_stop_take(&r->stop, last, &event->text, &event->n_text_bytes);
}

// Sends an event; the request has ended before its last one, so that the callback sees it so.
static bool send(struct hearth_engine *e, struct hearth_request *r, struct hearth_event *event) {
    event->request = r;
    event->text = "";
    take_text(r, event);
    if (event->finish != HEARTH_FINISH_NONE) {
        ht_schedule_remove(e, r);
        r->state = HT_FINISHED;
        r->finish = event->finish;
        e->n_active--;
    }
    return !r->options.on_event || r->options.on_event(r->options.user, event);
}

void ht_deliver_end(struct hearth_engine *e, struct hearth_request *r, enum hearth_finish finish) {
    struct hearth_event event = {.token = -1, .logprob = NAN, .finish = finish};
    (void)send(e, r, &event);
}

// Adds the token's text; true if that completes a stop string, or if the token is not shown and has
// the name of one.
static bool add_text(struct hearth_request *r, int32_t token, bool is_end) {
    const struct ht_tokenizer *t = r->detok.t;
    if (!r->has_detok || token >= ht_tokenizer_n_vocab(t)) return false;
    if (is_end && !r->options.show_special) return false;
    const char *text;
    size_t n_bytes;
    ht_detok_push(&r->detok, token, &text, &n_bytes);
    if (!ht_detok_shows(&r->detok, token)) {
        text = ht_token_bytes(t, token, &n_bytes);
        return ht_stop_is(&r->stop, text, n_bytes);
    }
    return ht_stop_push(&r->stop, text, n_bytes);
}

static enum hearth_finish finish_after(const struct hearth_engine *e, struct hearth_request *r,
                                       int32_t token) {
    const struct ht_tokenizer *t = e->source.tokenizer;
    bool is_end = t && !r->options.ignore_end && token < ht_tokenizer_n_vocab(t) &&
                  ht_tokenizer_is_end(t, token);
    bool stopped = add_text(r, token, is_end);
    if (is_end) return HEARTH_FINISH_END;
    if (stopped) return HEARTH_FINISH_STOP;
    uint32_t n_generated = r->n_tokens - r->n_prompt;
    if (r->options.max_tokens >= 0 && n_generated >= (uint32_t)r->options.max_tokens)
        return HEARTH_FINISH_LENGTH;
    return n_generated >= r->max_tokens ? HEARTH_FINISH_CONTEXT : HEARTH_FINISH_NONE;
}

// Hands out the token that was sampled for r.
static void generate(struct hearth_engine *e, struct hearth_request *r) {
    if (r->pick_status) {
        ht_deliver_end(e, r, HEARTH_FINISH_ERROR);
        return;
    }
    struct hearth_event event = {
        .token = r->picked, .logprob = r->picked_logprob, .top = r->top, .n_top = r->n_top};
    r->tokens[r->n_tokens++] = r->picked;
    r->last_token_ns = ht_now_ns();
    if (r->first_token_ns == 0) r->first_token_ns = r->last_token_ns;
    event.finish = finish_after(e, r, r->picked);
    if (!send(e, r, &event) && event.finish == HEARTH_FINISH_NONE)
        ht_deliver_end(e, r, HEARTH_FINISH_CANCELLED);
}

// Samples for one request; touches nothing but the request and the scratch.
static void pick(struct ht_sampler_scratch *w, struct hearth_request *r, const float *logits) {
    r->picked_logprob = NAN;
    r->n_top = 0;
    r->pick_status =
        ht_sampler_pick(&r->sampler, w, logits, r->tokens, r->n_tokens, &r->picked, &r->error);
    if (!r->pick_status && r->options.n_logprobs >= 0)
        r->n_top = ht_logprobs(w, logits, r->picked, (size_t)r->options.n_logprobs,
                               &r->picked_logprob, r->top);
}

// A thread's share: every n_scratch-th request.
static void pick_share(void *arg, int thread, int n_threads) {
    struct hearth_engine *e = arg;
    (void)n_threads;
    for (uint32_t i = (uint32_t)thread; i < e->n_picks && (uint32_t)thread < e->n_scratch;
         i += e->n_scratch)
        pick(&e->scratch[thread], e->picks[i], e->pick_logits[i]);
}

static void pick_all(struct hearth_engine *e) {
    if (e->n_picks > 1 && e->n_scratch > 1) {
        ht_team_run(e->team, pick_share, e);
    } else {
        for (uint32_t i = 0; i < e->n_picks; i++)
            pick(&e->scratch[0], e->picks[i], e->pick_logits[i]);
    }
}

// The rows of r to on_logits, in order of position; false to cancel.
static bool send_logits(struct hearth_engine *e, struct hearth_request *r, const float *logits) {
    uint32_t n_vocab = e->source.plan->n_vocab;
    for (uint32_t i = 0; i < r->n_rows; i++) {
        uint32_t pos = r->first_row_position + i;
        if (pos < r->n_logits_sent) continue;
        const float *row = logits + (size_t)(r->first_row + i) * n_vocab;
        r->n_logits_sent = pos + 1;
        if (!r->options.on_logits(r->options.user, r, pos, row, (int32_t)n_vocab) || r->doomed)
            return false;
    }
    return true;
}

// What comes before sampling: the logits, and the ends of requests that do not sample. The others
// that have read all their tokens are noted in picks.
static void deliver_logits(struct hearth_engine *e, struct hearth_request *r, const float *logits) {
    r->n_cached += r->n_take;
    if (r->n_cached > r->n_read) r->n_read = r->n_cached;
    if (atomic_load_explicit(&r->cancelled, memory_order_relaxed) ||
        (r->options.on_logits && !send_logits(e, r, logits))) {
        ht_deliver_end(e, r, HEARTH_FINISH_CANCELLED);
        return;
    }
    if (r->n_cached < r->n_tokens) return;
    if (r->max_tokens > 0) {
        size_t row = r->first_row + r->n_rows - 1;
        e->picks[e->n_picks] = r;
        e->pick_logits[e->n_picks++] = logits + row * e->source.plan->n_vocab;
        return;
    }
    r->first_token_ns = r->last_token_ns = ht_now_ns(); // the prompt is all there is
    ht_deliver_end(e, r, r->options.max_tokens == 0 ? HEARTH_FINISH_LENGTH : HEARTH_FINISH_CONTEXT);
}

void ht_deliver(struct hearth_engine *e, const float *logits) {
    e->n_picks = 0;
    for (uint32_t i = 0; i < e->batch.n_seqs; i++) deliver_logits(e, e->batch_requests[i], logits);
    struct ht_float_env kept = ht_float_enter();
    pick_all(e);
    ht_float_leave(kept);
    for (uint32_t i = 0; i < e->n_picks; i++) generate(e, e->picks[i]);
}
