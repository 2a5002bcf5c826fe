// SPDX-License-Identifier: MIT
// Requests: checked and allocated in full at creation (the turn allocates nothing), queued, and
// asked about afterwards.
#include <math.h>
#include <string.h>

#include "base/checked.h"
#include "base/mem.h"
#include "engine/engine_internal.h"

void ht_sampling_default(struct hearth_sampling *s) {
    *s = (struct hearth_sampling){.temperature = 0.8f,
                                  .top_k = 40,
                                  .top_p = 0.95f,
                                  .min_p = 0.05f,
                                  .repetition_penalty = 1,
                                  .penalty_window = 64};
}

void ht_request_options_default(struct hearth_request_options *o) {
    *o = (struct hearth_request_options){.max_tokens = -1, .n_logprobs = -1};
    ht_sampling_default(&o->sampling);
}

static enum hearth_status check_tokens(const struct hearth_engine *e, const int32_t *tokens,
                                       size_t n_tokens, struct hearth_error *err) {
    uint32_t n_vocab = e->source.plan->n_vocab;
    if (n_tokens == 0)
        return ht_fail(err, HEARTH_E_ARG, "the prompt is empty; at least one token is expected");
    if (!tokens) return ht_fail(err, HEARTH_E_ARG, "tokens is NULL, but n_tokens is %zu", n_tokens);
    if (n_tokens > e->n_ctx)
        return ht_fail(
            err, HEARTH_E_CONTEXT_FULL,
            "the prompt has %zu tokens, and n_ctx (--ctx), the context's positions, is %u",
            n_tokens, e->n_ctx);
    for (size_t i = 0; i < n_tokens; i++)
        if (tokens[i] < 0 || (uint32_t)tokens[i] >= n_vocab)
            return ht_fail(err, HEARTH_E_ARG, "token %zu of %zu is %d; the vocabulary has 0 to %u",
                           i + 1, n_tokens, tokens[i], n_vocab - 1);
    return HEARTH_OK;
}

static enum hearth_status check_options(const struct hearth_engine *e,
                                        const struct hearth_request_options *o,
                                        struct hearth_error *err) {
    if (o->max_tokens < -1)
        return ht_fail(err, HEARTH_E_ARG, "max_tokens is %d; -1 (no limit) or more is expected",
                       o->max_tokens);
    if (o->n_logprobs < -1 || o->n_logprobs > HT_MAX_LOGPROBS)
        return ht_fail(err, HEARTH_E_ARG, "n_logprobs is %d; -1 (none) to %d is expected",
                       o->n_logprobs, HT_MAX_LOGPROBS);
    if (o->n_stop > 0 && !o->stop)
        return ht_fail(err, HEARTH_E_ARG, "stop is NULL, but n_stop is %zu", o->n_stop);
    if (o->n_stop > 0 && !e->source.tokenizer)
        return ht_fail(err, HEARTH_E_ARG,
                       "stop strings need text, but %s has no vocabulary to write it with",
                       e->source.name);
    return HEARTH_OK;
}

// Generated text continues the prompt.
static enum hearth_status take_detok(struct hearth_request *r, struct hearth_error *err) {
    const struct ht_tokenizer *t = r->engine->source.tokenizer;
    enum hearth_status status = ht_detok_init(&r->detok, t, r->options.show_special, err);
    if (status) return status;
    r->has_detok = true;
    ht_detok_follow(&r->detok, r->tokens, r->n_prompt);
    return HEARTH_OK;
}

// Everything the request will need until its end.
static enum hearth_status take_memory(struct hearth_request *r, const int32_t *tokens,
                                      struct hearth_error *err) {
    size_t n = (size_t)r->n_prompt + r->max_tokens;
    r->tokens = ht_calloc(n, sizeof *r->tokens);
    if (!r->tokens) return ht_fail_nomem(err, n * sizeof *r->tokens, "the tokens of a request");
    memcpy(r->tokens, tokens, r->n_prompt * sizeof *tokens);
    enum hearth_status status =
        ht_sampler_init(&r->sampler, &r->options.sampling, r->engine->source.plan->n_vocab, err);
    if (status || !r->engine->source.tokenizer) return status;
    status = take_detok(r, err);
    if (status) return status;
    // The last token may be followed by what the detokenizer still holds: two pieces between takes.
    return ht_stop_init(&r->stop, r->options.stop, r->options.n_stop, r->detok.out_cap, 2, err);
}

static void release_memory(struct hearth_request *r) {
    ht_stop_deinit(&r->stop);
    if (r->has_detok) ht_detok_deinit(&r->detok);
    ht_sampler_deinit(&r->sampler);
    ht_free(r->tokens);
    ht_free(r);
}

enum hearth_status ht_request_create(struct hearth_engine *e, const int32_t *tokens,
                                     size_t n_tokens, const struct hearth_request_options *o,
                                     struct hearth_request **out, struct hearth_error *err) {
    enum hearth_status status = ht_engine_check_runs(e, "hearth_request_create", err);
    if (!status) status = check_tokens(e, tokens, n_tokens, err);
    if (!status) status = check_options(e, o, err);
    if (status) return status;

    struct hearth_request *r = ht_calloc(1, sizeof *r);
    if (!r) return ht_fail_nomem(err, sizeof *r, "a request");
    r->engine = e;
    r->options = *o;
    r->n_prompt = r->n_tokens = (uint32_t)n_tokens;
    r->n_logits_sent = o->logits_from;
    r->max_tokens = e->n_ctx - r->n_prompt;
    if (o->max_tokens >= 0 && (uint32_t)o->max_tokens < r->max_tokens)
        r->max_tokens = (uint32_t)o->max_tokens;
    atomic_init(&r->cancelled, false);
    status = take_memory(r, tokens, err);
    if (status) {
        release_memory(r);
        return status;
    }
    r->options.stop = NULL; // the caller's; copied
    r->options.sampling.logit_bias = NULL;
    r->serial = e->next_serial++;
    r->next = e->all;
    if (e->all) e->all->prev = r;
    e->all = r;
    e->n_active++;
    ht_schedule_enqueue(e, r);
    *out = r;
    return HEARTH_OK;
}

void ht_request_destroy(struct hearth_request *r) {
    if (!r) return;
    struct hearth_engine *e = r->engine;
    if (e->in_step) { // in a callback: the turn still holds r
        r->options.on_event = NULL;
        r->options.on_logits = NULL;
        r->doomed = e->some_doomed = true;
        ht_request_cancel(r);
        return;
    }
    if (r->state != HT_FINISHED) {
        ht_schedule_remove(e, r);
        e->n_active--;
    }
    if (r->prev) r->prev->next = r->next;
    if (r->next) r->next->prev = r->prev;
    if (e->all == r) e->all = r->next;
    release_memory(r);
}

void ht_request_cancel(struct hearth_request *r) {
    atomic_store_explicit(&r->cancelled, true, memory_order_relaxed);
    // An exchange, so that whoever sees one thread's sees those of all before it.
    (void)atomic_exchange_explicit(&r->engine->some_cancelled, true, memory_order_release);
}

enum hearth_finish ht_request_finish(const struct hearth_request *r) {
    return r->finish;
}

enum hearth_status ht_request_error(const struct hearth_request *r, struct hearth_error *err) {
    if (err) *err = r->error;
    return r->error.status;
}

void ht_request_get_stats(const struct hearth_request *r, struct hearth_request_stats *out) {
    *out = (struct hearth_request_stats){.n_prompt_tokens = r->n_prompt,
                                         .n_prompt_read =
                                             r->n_read < r->n_prompt ? r->n_read : r->n_prompt,
                                         .n_generated_tokens = r->n_tokens - r->n_prompt};
    if (r->first_token_ns == 0) return;
    out->prompt_ns = r->first_token_ns - r->begin_ns;
    out->generation_ns = r->last_token_ns - r->first_token_ns;
}
