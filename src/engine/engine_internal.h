// SPDX-License-Identifier: MIT
// The engine's own structs, shared by the files of this room and by its tests.
//
// A request is waiting (in the queue, no pages), running (in `running`, with a slot for its page
// table) or finished. Both lists are kept in order of arrival. Invariants between two turns:
//   - positions [0, n_cached) of a running request are in its pages; a waiting one has n_cached 0
//   - n_cached < n_tokens for every request that is not finished: there is something to read
//   - a page's reference count is the number of running requests whose list holds it
#ifndef HT_ENGINE_ENGINE_INTERNAL_H
#define HT_ENGINE_ENGINE_INTERNAL_H

#include <stdatomic.h>
#include <sys/types.h>

#include "engine/engine.h"
#include "engine/kv_pages.h"
#include "engine/sampler.h"
#include "engine/stop.h"

// Threads that sample at once. Each needs scratch of 24 bytes a token of the vocabulary.
#define HT_MAX_SAMPLER_THREADS 8

enum ht_request_state { HT_WAITING, HT_RUNNING, HT_FINISHED };

struct hearth_request {
    struct hearth_engine *engine;
    struct hearth_request *prev, *next; // in the engine's list of all
    struct hearth_request *prev_waiting, *next_waiting;
    uint64_t serial; // order of arrival
    enum ht_request_state state;
    atomic_bool cancelled; // set by any thread, read by the driving one
    bool doomed;           // destroyed by a callback: goes when the turn is over

    struct hearth_request_options options; // stop and logit_bias: not these but the copies below
    uint32_t max_tokens;                   // generated at most, with the context's end
    int32_t *tokens;                       // [n_prompt + max_tokens] prompt, then generated
    uint32_t n_tokens, n_prompt;
    uint32_t n_cached;      // positions whose KV is in pages
    uint32_t n_read;        // positions that have been, before a preemption as well
    uint32_t n_logits_sent; // positions whose logits on_logits has had, or does not want
    uint32_t slot;          // of the page table, while running
    struct ht_kv_seq seq;

    uint32_t n_wish, n_take;     // this turn: tokens it could and does read
    uint32_t first_row, n_rows;  // this turn: its rows of logits
    uint32_t first_row_position; // this turn: the position of first_row

    // This turn's sample, taken by any thread of the team and handed out by the driving one.
    int32_t picked;
    enum hearth_status pick_status;
    float picked_logprob;
    struct hearth_token_logprob top[HT_MAX_LOGPROBS];
    size_t n_top;

    struct ht_sampler sampler;
    struct ht_detok detok;
    bool has_detok;
    struct ht_stop stop;
    enum hearth_finish finish;
    struct hearth_error error;
    uint64_t begin_ns, first_token_ns, last_token_ns; // 0: not yet
};

struct hearth_engine {
    struct ht_engine_source source;
    struct hearth_log log;
    const struct ht_backend_ops *ops;
    struct ht_backend *backend;
    struct ht_prepared *prepared;
    struct ht_limits limits;
    uint32_t n_ctx, n_seqs, n_batch, n_logits;

    struct ht_kv_pages pages;
    uint32_t *page_tables; // [n_seqs][pages_per_seq]
    uint32_t pages_per_seq;
    uint32_t *free_slots;            // [n_seqs] a stack of n_seqs - n_running
    struct hearth_request **running; // [n_seqs] in order of arrival
    uint32_t n_running;
    struct hearth_request *waiting, *last_waiting; // the first to come in, and the last
    struct hearth_request *all;
    atomic_bool some_cancelled; // since the last turn, by any thread
    bool some_doomed;           // in this turn
    uint64_t next_serial;
    size_t n_active;
    pid_t process;    // that created it, and has the backend's threads
    bool in_step;     // a callback may not call back in
    bool has_profile; // the backend has been asked to count

    // The pass being formed.
    struct ht_batch batch;
    int32_t *batch_tokens;                  // [n_batch]
    uint32_t *batch_pos, *batch_seq;        // [n_batch]
    uint32_t *batch_outputs;                // [n_logits]
    struct ht_batch_seq *batch_seqs;        // [n_seqs]
    struct hearth_request **batch_requests; // [n_seqs] whose pages batch_seqs[i] are

    struct ht_team *team; // the backend's, or NULL; between passes it samples
    struct ht_sampler_scratch scratch[HT_MAX_SAMPLER_THREADS]; // [n_scratch], one a thread
    uint32_t n_scratch;
    struct hearth_request **picks; // [n_seqs] who samples this turn, and from which logits
    const float **pick_logits;
    uint32_t n_picks;
    struct hearth_engine_stats stats;
    uint64_t n_preempted;
    struct hearth_error broken; // not OK: the backend is beyond use
};

// ---- engine.c -----------------------------------------------------------------------------------

// E_STATE where the engine cannot take a call now: of a callback's, of a process that was forked
// from its own, or where it has stopped. `name` is the function's.
HT_MUST_CHECK enum hearth_status ht_engine_check_runs(const struct hearth_engine *e,
                                                      const char *name, struct hearth_error *err);

// ---- scheduler.c --------------------------------------------------------------------------------

// Puts a new or preempted request into the queue, by its order of arrival.
void ht_schedule_enqueue(struct hearth_engine *e, struct hearth_request *r);
// Takes a request out of the queue or out of the running ones and gives its pages back.
void ht_schedule_remove(struct hearth_engine *e, struct hearth_request *r);
// Forms the next pass in e->batch; n_tokens is 0 if nothing is active.
void ht_schedule(struct hearth_engine *e);

// ---- deliver.c ----------------------------------------------------------------------------------

// After a pass: logits to their callbacks, samples, text, the ends of requests.
void ht_deliver(struct hearth_engine *e, const float *logits);
// Ends a request with its last event.
void ht_deliver_end(struct hearth_engine *e, struct hearth_request *r, enum hearth_finish finish);

// ---- memory.c -----------------------------------------------------------------------------------

// Checks the options against the plan and fills what they leave open.
HT_MUST_CHECK enum hearth_status ht_engine_resolve(const struct ht_engine_source *source,
                                                   const struct hearth_engine_options *o,
                                                   const struct ht_engine_tuning *tuning,
                                                   struct ht_limits *limits, uint32_t *n_seqs,
                                                   struct hearth_error *err);
// What an open backend and everything around it will take.
HT_MUST_CHECK enum hearth_status
ht_memory_of(const struct ht_engine_source *source, const struct ht_backend_ops *ops,
             struct ht_backend *backend, const struct ht_limits *limits, uint32_t n_seqs,
             uint64_t available, struct hearth_memory *out, struct hearth_error *err);
// E_NOMEM with the numbers, and what would make it fit, where it does not.
HT_MUST_CHECK enum hearth_status ht_memory_check(const struct ht_engine_source *source,
                                                 const struct ht_backend_ops *ops,
                                                 struct ht_backend *backend,
                                                 const struct hearth_memory *m,
                                                 const struct ht_limits *limits, uint32_t n_seqs,
                                                 uint32_t n_logits, struct hearth_error *err);
// Bytes of the engine's own tables (engine.c allocates them).
uint64_t ht_engine_table_bytes(const struct ht_limits *limits, uint32_t n_seqs);

// ---- engine.c -----------------------------------------------------------------------------------

// Bytes of the buffer that is read to measure the memory: well beyond the caches, but no burden on
// a small machine or group. False where a quarter of what is available is too little. (ceilings.c)
bool ht_ceilings_buffer(uint64_t caches, uint64_t available, uint64_t *least, uint64_t *most);
// E_ARG unless budget_ms is from 1 to 10000. (ceilings.c)
HT_MUST_CHECK enum hearth_status ht_check_budget(uint32_t budget_ms, struct hearth_error *err);
// The backend that the options name (or the tuning brings), and what to open it with.
HT_MUST_CHECK enum hearth_status ht_engine_find_backend(const struct hearth_engine_options *o,
                                                        const struct ht_engine_tuning *tuning,
                                                        const struct ht_backend_ops **ops,
                                                        struct ht_backend_options *options,
                                                        struct hearth_error *err);
// Finds and opens the backend and asks it about every step. On success the caller closes it.
HT_MUST_CHECK enum hearth_status
ht_engine_open_backend(const struct ht_engine_source *source, const struct hearth_engine_options *o,
                       const struct ht_engine_tuning *tuning, const struct ht_backend_ops **ops,
                       struct ht_backend **backend, struct hearth_error *err);

// Threads that compute, the caller of a step among them.
uint32_t ht_engine_threads(const struct ht_backend_ops *ops, struct ht_backend *backend);
// Threads that sample: of the team, no more than sequences.
uint32_t ht_engine_sampler_threads(const struct ht_backend_ops *ops, struct ht_backend *backend,
                                   uint32_t n_seqs);

// ---- available.c --------------------------------------------------------------------------------

// Bytes that this process may still take: the machine's MemAvailable or what the control groups on
// the way up leave, whichever is less. `proc` is "/proc", `cgroup` is "/sys/fs/cgroup" (tests give
// their own). UINT64_MAX if neither says anything.
uint64_t ht_memory_available(const char *proc, const char *cgroup);
// The smallest limit of those groups; 0 if there is none.
uint64_t ht_memory_limit(const char *proc, const char *cgroup);
uint64_t ht_memory_total(const char *proc); // of the machine; 0 if it does not say

// ---- machine.c ----------------------------------------------------------------------------------

// ht_machine_get with other folders in the places of /proc, /sys and /sys/fs/cgroup, for what it
// reads there; threads and levels are this machine's.
void ht_machine_read(const char *proc, const char *sys, const char *cgroup,
                     struct hearth_machine *out);

#endif
