// SPDX-License-Identifier: MIT
// Hearth: language models on the machine in front of you. The whole public interface.
//
// Conventions. Every fallible function returns enum hearth_status; results come through
// out-parameters, which are untouched on failure; `err` (may be NULL) receives the status and one
// sentence that names file, key, value and what was expected, and holds nothing of use after
// success. Functions never print, exit or abort. Pointers may be NULL where that is said, and
// nowhere else. Options structs are filled by their *_default function first, and nothing of them
// is kept but what is said to be. Callbacks return: no C++ exception, longjmp or end of the thread
// may leave one, since the library cannot be unwound. A call takes up to 48 KB of its thread's
// stack, hearth_encode 32 KB more. Handles: a hearth_model may be read from any number of threads
// at once; a hearth_engine and its requests belong to one thread at a time, except
// hearth_request_cancel, and to the process that created the engine: one forked from it has none of
// its threads, gets E_STATE and may only destroy it; models, files and tokenizers serve there as
// well. Two handles never know of each other. No result depends on the calling thread's
// floating-point settings (rounding, flushing of subnormals, traps), and they are never changed for
// the caller: not after a call, nor in the callbacks of a request.
#ifndef HEARTH_HEARTH_H
#define HEARTH_HEARTH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

// Before 1.0 structs and functions may change with the minor version, and only then: it is part of
// the shared library's name.
#define HEARTH_VERSION_MAJOR 0
#define HEARTH_VERSION_MINOR 1
#define HEARTH_VERSION_PATCH 0

#if defined(__GNUC__)
#define HEARTH_API        __attribute__((visibility("default")))
#define HEARTH_MUST_CHECK __attribute__((warn_unused_result))
#else
#define HEARTH_API
#define HEARTH_MUST_CHECK
#endif
// A function that may fail: its status must be looked at.
#define HEARTH_TRY HEARTH_API HEARTH_MUST_CHECK enum hearth_status

// ---- statuses ----------------------------------------------------------------------------------

// name, text
#define HEARTH_STATUS_LIST(X)                                                                      \
    X(OK, "no error")                                                                              \
    X(E_NOMEM, "out of memory")                                                                    \
    X(E_IO, "a file could not be read or written")                                                 \
    X(E_FORMAT, "a file's content is not what its format says")                                    \
    X(E_UNSUPPORTED, "valid, but not supported")                                                   \
    X(E_ARG, "an argument or option is out of its range")                                          \
    X(E_CONTEXT_FULL, "the context is full")                                                       \
    X(E_LIMIT, "a limit of the system or of Hearth is reached")                                    \
    X(E_CANCELLED, "cancelled")                                                                    \
    X(E_STATE, "called in a state that does not allow it")                                         \
    X(E_INTERNAL, "a bug in Hearth")

enum hearth_status {
#define HEARTH_STATUS_ENUM(name, text) HEARTH_##name,
    HEARTH_STATUS_LIST(HEARTH_STATUS_ENUM)
#undef HEARTH_STATUS_ENUM
};

struct hearth_error {
    enum hearth_status status;
    char message[1000]; // UTF-8, one sentence, no newline
};

HEARTH_API const char *hearth_version(void);                     // "0.1.0"
HEARTH_API const char *hearth_status_name(enum hearth_status s); // "E_FORMAT"
HEARTH_API const char *hearth_status_text(enum hearth_status s); // never NULL

enum hearth_log_level { HEARTH_LOG_DEBUG, HEARTH_LOG_INFO, HEARTH_LOG_WARN };
typedef void (*hearth_log_fn)(void *user, enum hearth_log_level level, const char *line);
struct hearth_log {
    hearth_log_fn fn; // NULL: nothing is logged. Called from the thread that made the API call
    void *user;
};

// Receives text piece by piece (not 0-terminated). Returning false stops the writer, which then
// returns E_CANCELLED.
typedef bool (*hearth_write_fn)(void *user, const char *text, size_t n_bytes);

// ---- files -------------------------------------------------------------------------------------

// An open GGUF file, or all files of a split one: metadata and tensor table. Immutable; any thread.
typedef struct hearth_file hearth_file;

struct hearth_tensor_info {
    const char *name;   // the file's
    const char *format; // "Q4_K"
    int n_dims;
    uint64_t dims[4]; // outermost first; dims[n_dims - 1] is contiguous
    uint64_t n_bytes;
    uint64_t offset; // in its file
    int file_index;  // which part of a split model
};

// Opens and checks header, metadata and tensor table; reads no tensor. Split files: give any part;
// all are opened. They are mapped, so nobody may shorten them or rewrite them in place meanwhile:
// reading what is no longer there ends the program with SIGBUS. (A new file under the old name is
// another one; hearth_file_open_copy keeps what it read.)
HEARTH_TRY hearth_file_open(const char *path, hearth_file **out, struct hearth_error *err);
// The same, of a file that may be cut short behind its tensor table, as one is that is still being
// downloaded: to look at, and for its vocabulary. (Of a split one all parts have to be there.)
// hearth_model_open_file and hearth_quantize refuse what is cut short: E_FORMAT, with what is
// missing. One whose table is cut is E_FORMAT here; one that is whole opens as by hearth_file_open.
HEARTH_TRY hearth_file_open_head(const char *path, hearth_file **out, struct hearth_error *err);
// As hearth_file_open, with the file (all parts) read into memory of this process instead of
// mapped: it takes the time of reading it, shares nothing with other processes, and lies on pages
// of 2 MB where the system has any, which a mapped file does only if the file system and the way it
// came into the cache allow it. E_NOMEM where the machine or the control group has less left than
// that.
HEARTH_TRY hearth_file_open_copy(const char *path, hearth_file **out, struct hearth_error *err);
// As hearth_file_open, over bytes that the caller keeps until close (the built-in model, a file
// inside another), at an address that is a multiple of 4 if a model is to run on them. `name` is
// what messages call them; NULL: "(memory)". E_UNSUPPORTED for one part of a split model.
HEARTH_TRY hearth_file_open_bytes(const void *data, size_t n_bytes, const char *name,
                                  hearth_file **out, struct hearth_error *err);
HEARTH_API void hearth_file_close(hearth_file *f); // accepts NULL
HEARTH_API uint64_t hearth_file_bytes(const hearth_file *f);
HEARTH_API uint32_t hearth_file_gguf_version(const hearth_file *f);
HEARTH_API size_t hearth_file_n_parts(const hearth_file *f);
// How many of its bytes lie on pages of 2 MB now, among those that were touched: false, and 0,
// where the system does not tell, or the bytes are the caller's. Generation may be slower by a
// tenth and more where they do not.
HEARTH_API bool hearth_file_large_pages(const hearth_file *f, uint64_t *n_bytes);
HEARTH_API size_t hearth_file_n_meta(const hearth_file *f);
// Key, type ("u32", "str", "arr[str,151936]") and value of metadata entry i. The value is written
// as JSON into buf (0-terminated); arrays longer than max_items (SIZE_MAX: all) are cut with "..."
// as the last element. Returns the length the value has in full, as snprintf does, so buf may be
// NULL with n_buf 0; key borrows from f. Past the last entry: 0, an empty key and type.
HEARTH_API size_t hearth_file_meta(const hearth_file *f, size_t i, size_t max_items,
                                   const char **key, char type[32], char *buf, size_t n_buf);
// The text of the metadata entry of that key, as it stands in the file, borrowed from f and not
// 0-terminated. NULL where there is no such entry or it is no text. ("tokenizer.chat_template" is
// the caller's to apply: encode its markers with HEARTH_ENCODE_SPECIAL, what users write without.)
HEARTH_API const char *hearth_file_meta_text(const hearth_file *f, const char *key,
                                             size_t *n_bytes);
HEARTH_API size_t hearth_file_n_tensors(const hearth_file *f);
// Tensor i; past the last empty strings and zeros.
HEARTH_API void hearth_file_tensor(const hearth_file *f, size_t i, struct hearth_tensor_info *out);

// ---- tokenizer ---------------------------------------------------------------------------------

typedef struct hearth_tokenizer hearth_tokenizer; // immutable; any thread

// From a file's metadata alone; the file must stay open while the tokenizer lives. E_UNSUPPORTED
// where it has no vocabulary, or one of a kind, or with a pre-tokenizer, that is not known. `log`
// may be NULL; it is warned where the file does not say how text is cut into words.
HEARTH_TRY hearth_tokenizer_create(const hearth_file *f, const struct hearth_log *log,
                                   hearth_tokenizer **out, struct hearth_error *err);
HEARTH_API void hearth_tokenizer_destroy(hearth_tokenizer *t); // accepts NULL

enum hearth_encode_flags {
    // Every byte is text, control tokens as well; but the vocabulary's user-defined tokens
    // ("<think>") are a part of its text, and always read
    HEARTH_ENCODE_PLAIN = 0,
    HEARTH_ENCODE_SPECIAL =
        1 << 0, // control tokens and the unknown one in the text are read as such
    HEARTH_ENCODE_BEGIN_END = 1 << 1, // add the begin (and end) token where the file says so
};
struct hearth_tokens {
    int32_t *ids; // owned by the caller after encode: hearth_tokens_free
    size_t n;
};
// Text is UTF-8; invalid bytes are honoured as bytes where the vocabulary has them, else become the
// unknown token, and where there is none E_ARG says which byte (and where, if the text is taken as
// it is). E_ARG also for 2^31 bytes and more (in NFC, where the model wants that), and for unknown
// flags; E_LIMIT where the pre-tokenizer's pattern gives up.
HEARTH_TRY hearth_encode(const hearth_tokenizer *t, const char *text, size_t n_bytes,
                         unsigned flags, struct hearth_tokens *out, struct hearth_error *err);
HEARTH_API void hearth_tokens_free(struct hearth_tokens *t);
// A tokenizer that is NULL (hearth_model_tokenizer) has no tokens; what takes one says so.
HEARTH_API int32_t hearth_tokenizer_n_vocab(const hearth_tokenizer *t);
HEARTH_API int32_t hearth_tokenizer_bos(const hearth_tokenizer *t); // -1: none
HEARTH_API int32_t hearth_tokenizer_eos(const hearth_tokenizer *t);
// Whether HEARTH_ENCODE_BEGIN_END puts bos in front of a text, and eos behind it.
HEARTH_API bool hearth_tokenizer_adds_begin(const hearth_tokenizer *t);
HEARTH_API bool hearth_tokenizer_adds_end(const hearth_tokenizer *t);
// Any token that ends a turn or a text.
HEARTH_API bool hearth_tokenizer_is_end(const hearth_tokenizer *t, int32_t id);
// The bytes that the token stands for, borrowed; special tokens give their name. NULL for an id
// outside.
HEARTH_API const char *hearth_token_bytes(const hearth_tokenizer *t, int32_t id, size_t *n_bytes);

// Turns ids into text piece by piece and never splits a UTF-8 character: bytes are held back until
// it is whole. One thread at a time; it looks into its tokenizer, which must outlive it. With
// SentencePiece the space in front of a text's first word is no part of it: to go on with a text,
// push the ids that it has, and pass over what they give.
typedef struct hearth_detokenizer hearth_detokenizer;
HEARTH_TRY hearth_detokenizer_create(const hearth_tokenizer *t, bool show_special,
                                     hearth_detokenizer **out, struct hearth_error *err);
HEARTH_API void hearth_detokenizer_destroy(hearth_detokenizer *d); // accepts NULL
HEARTH_API void hearth_detokenizer_reset(hearth_detokenizer *d);
// Adds one token; *text (valid until the next call, not 0-terminated) receives what became whole,
// often nothing (n_bytes 0): special tokens give none unless shown, nor do byte-level ones of type
// UNUSED, whose names converters make up. Bytes that can never become UTF-8 are passed on
// byte-exact. E_ARG for an id outside the vocabulary.
HEARTH_TRY hearth_detokenize(hearth_detokenizer *d, int32_t id, const char **text, size_t *n_bytes);
// What is still held back at the end (valid as long); the next token begins a new text.
HEARTH_API void hearth_detokenize_end(hearth_detokenizer *d, const char **text, size_t *n_bytes);

// ---- models ------------------------------------------------------------------------------------

// Hyper-parameters, tokenizer, mapped weights and plan. Immutable; any thread.
typedef struct hearth_model hearth_model;

// Opens a model file: checks hyper-parameters and tensors, builds the plan. Touches no matrix:
// milliseconds. `log` may be NULL.
HEARTH_TRY hearth_model_open(const char *path, const struct hearth_log *log, hearth_model **out,
                             struct hearth_error *err);
// From an open file, which the model takes over on success.
HEARTH_TRY hearth_model_open_file(hearth_file *f, const struct hearth_log *log, hearth_model **out,
                                  struct hearth_error *err);
// The model linked into the library; E_UNSUPPORTED where it was left out at build time.
HEARTH_TRY hearth_model_open_builtin(const struct hearth_log *log, hearth_model **out,
                                     struct hearth_error *err);
HEARTH_API void hearth_model_close(hearth_model *m); // accepts NULL; engines on it must be gone

HEARTH_API const hearth_file *hearth_model_file(const hearth_model *m); // borrowed
// Borrowed; NULL where the file has no vocabulary.
HEARTH_API const hearth_tokenizer *hearth_model_tokenizer(const hearth_model *m);

struct hearth_model_info {
    const char *arch, *name; // borrowed; name is "" where the file has none
    uint64_t n_params, weight_bytes;
    uint32_t n_layers, dim, n_heads, n_kv_heads, head_dim, ffn_dim, n_vocab, n_ctx_train, n_experts,
        n_experts_used;
};
HEARTH_API void hearth_model_get_info(const hearth_model *m, struct hearth_model_info *out);
// The plan, one step a line.
HEARTH_TRY hearth_model_write_plan(const hearth_model *m, hearth_write_fn fn, void *user);
HEARTH_API const char *hearth_architectures(void); // "gpt2, llama, mistral3, ..."

// ---- engines -----------------------------------------------------------------------------------

typedef struct hearth_engine hearth_engine;

// The number format of keys and values. I16, the default, has whole numbers of 16 bits and an f32
// step for a head's key or value, 2 % more than f16 with heads of 128: rounded less than f16, and
// attention over it takes half the time, since products of whole numbers are exact sums. It wants
// heads of an even number of elements, 1024 at most. Q8_0 has 32 codes of 8 bits and an f16 scale
// for every 32 elements of a head, a little over half of f16; it wants heads of whole blocks of 32.
// A model with other heads gets E_ARG.
enum hearth_kv_type { HEARTH_KV_F16, HEARTH_KV_F32, HEARTH_KV_BF16, HEARTH_KV_Q8_0, HEARTH_KV_I16 };
// "f16"; NULL for a number that is no type, so that all are found by counting up from 0.
HEARTH_API const char *hearth_kv_type_name(enum hearth_kv_type type);

struct hearth_engine_options {
    const char *backend; // "cpu" (default) or "ref"
    // The kernels to use ("scalar", "avx2", "neon", ...), one of hearth_machine.levels; others get
    // E_UNSUPPORTED, what is no name of any E_ARG, as all do on ref. NULL: the best there is. Where
    // a processor has AMX, Linux is asked for its tiles once and for all, of the whole process,
    // when it is chosen (here or for hearth_memory_plan, by name or as the best), when levels are
    // listed (hearth_machine_get, the refusal of one) and by the self-test: signal stacks of less
    // than some 11 KB (sigaltstack) are then refused
    const char *cpu_level;
    // At most 256. 0: the fast cores that the calling thread and its control groups' quota may use,
    // or all of cpu_mask. Backend ref has one
    int n_threads;
    // CPUs for the threads, one each, in hexadecimal, CPU 0 the lowest bit: "f0" is 4 to 7. The
    // thread that drives the engine runs on the first while it computes. NULL (default): the system
    // places them among those that the thread which creates the engine may use then. E_ARG: no
    // number, no CPU, one that cannot be used, fewer than n_threads; E_UNSUPPORTED on backend ref
    const char *cpu_mask;
    // Positions of one sequence, of the prompt and what is generated, at most 2^26; 0: the model's
    // own, at most 4096. A prompt that fills them is read, and nothing is generated
    uint32_t n_ctx;
    uint32_t n_seqs;  // sequences that run at once, 1 to 4096; default 1; n_seqs x n_ctx below 2^37
    uint32_t n_batch; // tokens of one pass at most, n_seqs to 65536; default 512
    // Rows of logits of one pass at most, n_seqs to 65536; default 0: n_seqs. A request with
    // on_logits reads its prompt in chunks of at most this, so give it 64 or so for such
    uint32_t n_logits;
    enum hearth_kv_type kv_type;
    // Weights are copied at creation in the order in which this machine reads them fastest: the
    // same answers, tokens up to a third sooner with AVX-512 VNNI and up to twice as fast with
    // AVX2, for as much memory again as the weights have and a later start. Some formats stay as
    // they are in the file; E_UNSUPPORTED where all would.
    bool repack;
    // Memory for keys, values and passes is taken from the system at creation (true), or as it is
    // first written (default): then a short context takes little, the first token comes earlier,
    // and a pass that writes where none has written before waits for the system to zero memory.
    bool prefault;
    struct hearth_log log; // called during creation alone
};
HEARTH_API void hearth_engine_options_default(struct hearth_engine_options *o);

struct hearth_memory { // bytes
    uint64_t weights;  // mapped from the file and shared with other processes, or its copy
    uint64_t packed;   // weights kept in another layout beside the mapping
    uint64_t kv;       // for n_seqs sequences of n_ctx
    uint64_t scratch;  // activations, logits and tables of a pass
    uint64_t tokenizer;
    uint64_t other; // plan, tables, engine state, program (estimated)
    uint64_t total;
    uint64_t available; // what the machine or the cgroup has for us now, with what weights take of
                        // it already: a copied file, the caller's own bytes, a file in /dev/shm;
                        // UINT64_MAX: not known
};
// What an engine with these options will use, computed from the header before anything is loaded;
// its threads are started and sent home meanwhile, so it may fail as the engine's creation would.
HEARTH_TRY hearth_memory_plan(const hearth_model *m, const struct hearth_engine_options *o,
                              struct hearth_memory *out, struct hearth_error *err);

// All address space is reserved here; without `prefault` the system gives the memory itself only as
// it is first written. An engine does not know what others have still to take: add up their plans.
// E_NOMEM with the plan's numbers, and the option that would make it fit, when the machine has too
// little; E_LIMIT where a thread cannot be started; E_UNSUPPORTED for a vocabulary of more than
// 2^22 tokens, and what the backend cannot do. The model must outlive the engine.
HEARTH_TRY hearth_engine_create(const hearth_model *m, const struct hearth_engine_options *o,
                                hearth_engine **out, struct hearth_error *err);
// Accepts NULL. Destroys its requests as well, without events: their handles are invalid then, for
// hearth_request_destroy, too. Does nothing in a callback, which may not call it.
HEARTH_API void hearth_engine_destroy(hearth_engine *e);
HEARTH_API const hearth_model *hearth_engine_model(const hearth_engine *e);
HEARTH_API const char *hearth_engine_device(const hearth_engine *e); // "cpu avx512vnni, 2 threads"
HEARTH_API uint32_t hearth_engine_n_ctx(const hearth_engine *e);

// ---- requests ----------------------------------------------------------------------------------

typedef struct hearth_request hearth_request;

struct hearth_logit_bias {
    int32_t token;
    float bias; // added to the logit; -INFINITY forbids
};

// Order of the chain: logit bias, penalties, then (temperature 0: the largest logit, lowest id
// among equals), else top-k, temperature, top-p, min-p, draw. See docs/sampling.md.
struct hearth_sampling {
    float temperature;        // default 0.8; 0: greedy; not below
    int32_t top_k;            // default 40; 0: off
    float top_p;              // 0 (the likeliest alone) to 1; default 0.95; 1: off
    float min_p;              // 0 to 1; default 0.05; 0: off
    float repetition_penalty; // above 0; default 1: off; divides positive, multiplies negative
                              // logits
    float presence_penalty;   // default 0: off; once per seen token
    float frequency_penalty;  // default 0: off; per occurrence
    uint32_t penalty_window;  // default 64 last tokens; 0: none
    uint64_t seed;            // default 0; same seed, same text
    const struct hearth_logit_bias *logit_bias; // copied
    size_t n_logit_bias;                        // at most 1048576
};
HEARTH_API void hearth_sampling_default(struct hearth_sampling *s);

enum hearth_finish {
    HEARTH_FINISH_NONE,      // still running
    HEARTH_FINISH_END,       // the model ended its turn
    HEARTH_FINISH_STOP,      // a stop string
    HEARTH_FINISH_LENGTH,    // max_tokens
    HEARTH_FINISH_CONTEXT,   // the context is full
    HEARTH_FINISH_CANCELLED, // hearth_request_cancel or a callback
    HEARTH_FINISH_ERROR,     // see hearth_request_error
};

struct hearth_token_logprob {
    int32_t token;
    float logprob; // natural logarithm, of the model's distribution before the sampler chain
};

struct hearth_event { // borrowed for the length of the callback
    hearth_request *request;
    int32_t token; // the sampled token; -1 with the last event where none belongs to it
    // What became whole, held back while it may begin a stop string; no 0 ends it. Characters are
    // UTF-8 and whole, but: the last event also has the first bytes of one that was not finished, a
    // prompt that ends inside one is continued with the rest of it, and bytes that can never become
    // UTF-8 are passed on.
    const char *text;
    size_t n_text_bytes;
    float logprob;                          // of `token`; NAN unless n_logprobs >= 0
    const struct hearth_token_logprob *top; // n_logprobs most likely, most likely first
    size_t n_top;
    enum hearth_finish finish; // not NONE with the last event of a request
};
// Return false to cancel the request: if this was not its last event, that follows, CANCELLED. May
// not call the engine, but hearth_request_cancel, hearth_request_destroy, and what asks a request:
// hearth_request_finish, hearth_request_error and hearth_request_get_stats.
typedef bool (*hearth_event_fn)(void *user, const struct hearth_event *event);
// Logits of position `pos` of the prompt (and of generated tokens but the last, which no pass
// reads), which predict token pos + 1: n_vocab floats, borrowed for the call. What it
// returns and may call is as with hearth_event_fn.
typedef bool (*hearth_logits_fn)(void *user, hearth_request *request, uint32_t pos,
                                 const float *logits, int32_t n_vocab);

struct hearth_request_options {
    struct hearth_sampling sampling;
    int32_t max_tokens; // default -1: until the end or a full context; 0: only read the prompt
    bool ignore_end;    // generate on past end tokens (benchmarks)
    bool show_special;  // special tokens appear in the text
    int32_t n_logprobs; // default -1: none; 0: of the token; up to 20: of so many likely ones, too
    // Stop strings, copied; not part of the text: UTF-8 of 1 to 65536 bytes, and a vocabulary. A
    // token that gives no text (hearth_detokenize) ends it, too, where its name is one.
    const char *const *stop;
    size_t n_stop;
    uint32_t prompt_chunk; // prompt tokens a pass at most; default 0: the engine's budget decides
    hearth_event_fn on_event;
    hearth_logits_fn on_logits; // asks for the logits of positions (n_logits at a time);
                                // default NULL
    uint32_t logits_from;       // of on_logits: the first position; default 0, all
    void *user;
};
HEARTH_API void hearth_request_options_default(struct hearth_request_options *o);

// Queues a sequence: tokens are copied, and all of them are read, since keys and values do not
// outlive a request and no two share any. E_CONTEXT_FULL if the prompt does not fit n_ctx, E_ARG
// for an empty prompt, a token outside the vocabulary or an option out of range, E_STATE as from
// hearth_engine_step, E_NOMEM. More than n_seqs wait their turn.
HEARTH_TRY hearth_request_create(hearth_engine *e, const int32_t *tokens, size_t n_tokens,
                                 const struct hearth_request_options *o, hearth_request **out,
                                 struct hearth_error *err);
// Accepts NULL. One that still runs ends, without an event. From a callback, too: its memory goes
// when the callbacks of this pass are through.
HEARTH_API void hearth_request_destroy(hearth_request *r);
// From any thread, or a signal's handler, while nobody destroys it or its engine. Takes effect when
// the pass that is under way ends, which with 512 tokens of a prompt (prompt_chunk: fewer) may take
// seconds; one that is left with cancelled requests alone ends within a part of a layer.
HEARTH_API void hearth_request_cancel(hearth_request *r);
HEARTH_API enum hearth_finish hearth_request_finish(const hearth_request *r);
// Why a request ended with HEARTH_FINISH_ERROR, with its sentence in *err (may be NULL); HEARTH_OK
// for all others.
HEARTH_API enum hearth_status hearth_request_error(const hearth_request *r,
                                                   struct hearth_error *err);

struct hearth_request_stats {
    // Of the whole prompt, and of it those that have been read; an end token counts as generated.
    uint64_t n_prompt_tokens, n_prompt_read, n_generated_tokens;
    // From the first pass with this request to its first sampled token, or, where it only reads, to
    // the end of the prompt; 0 before that
    uint64_t prompt_ns;
    uint64_t generation_ns; // from then to the last token
};
HEARTH_API void hearth_request_get_stats(const hearth_request *r, struct hearth_request_stats *out);

// One turn: one pass over one token of every running sequence and prompt chunks up to the budget;
// callbacks are called from here. *n_active (may be NULL) receives the requests not yet finished.
// Allocates nothing. A pass that fails ends its requests with HEARTH_FINISH_ERROR and is no error
// of this call (hearth_request_error). E_STATE from within a callback, in a process forked from the
// engine's, and for good after E_INTERNAL.
HEARTH_TRY hearth_engine_step(hearth_engine *e, size_t *n_active, struct hearth_error *err);
// Steps until no request is active.
HEARTH_TRY hearth_engine_run(hearth_engine *e, struct hearth_error *err);

struct hearth_engine_stats {
    uint64_t n_passes, n_tokens; // since creation, but for passes that a cancellation ended
    uint64_t pass_ns;            // time inside the backend, of all
    uint32_t n_pages, n_pages_free;
};
HEARTH_API void hearth_engine_get_stats(const hearth_engine *e, struct hearth_engine_stats *out);

// ---- this machine ------------------------------------------------------------------------------

struct hearth_machine {
    char cpu[96];     // "AMD EPYC 9654 96-Core Processor"; "" where the system does not say
    char level[24];   // the best CPU level that runs here: "avx512vnni"
    char levels[128]; // all that do: "scalar, avx2, avx2vnni, avx512, avx512vnni"
    // The default number of threads, and what it comes from: the least of n_fast and n_quota.
    int n_threads;
    int n_online;        // CPUs
    int n_affinity;      // those that the calling thread may run on
    int n_cores;         // cores that these are: siblings of one core count once
    int n_fast;          // those worth waiting for, where cores differ: docs/base.md
    int n_quota;         // CPU quota of the control groups, rounded, 1 at least; 0: none
    char huge_pages[16]; // "always", "madvise" or "never"; "" where the system does not say
    // Bytes; 0: not known. The limit is the smallest that a control group sets; 0: none.
    uint64_t memory_total, memory_available, memory_limit;
};
HEARTH_API void hearth_machine_get(struct hearth_machine *out);

struct hearth_build {
    const char *compiler;         // "gcc 12.2.0"
    const char *pcre2, *utf8proc; // versions that the library was built with
    bool pcre2_jit;               // it was built to compile patterns to machine code
    uint64_t builtin_bytes;       // of the built-in model; 0: left out
};
HEARTH_API void hearth_build_get(struct hearth_build *out);

struct hearth_check {   // borrowed for the length of the call
    const char *level;  // "avx2"
    const char *kernel; // "linear Q4_K"
    bool ok;
    const char *what; // what differs from level scalar; "" where ok
};
typedef void (*hearth_check_fn)(void *user, const struct hearth_check *check);
// Runs the kernels of every CPU level that this machine can run over random numbers and compares
// them with level scalar: bit for bit, but for BF16, which is held to a bound. Tells fn (or NULL)
// of each; *n_failed counts those that differ. About a second at most; 2 MB; any thread.
HEARTH_TRY hearth_self_test(hearth_check_fn fn, void *user, size_t *n_failed,
                            struct hearth_error *err);

// ---- how near to the machine's limits ----------------------------------------------------------

// What threads of an engine with these options reach together on this machine.
struct hearth_ceilings {
    double read_bytes_s; // reading memory far beyond the last cache
    // Multiply-adds a second out of registers, with the instructions of the CPU level in use. A
    // level without bf16 instructions multiplies bf16 as f32.
    double int8_macs_s, i16_macs_s, bf16_macs_s, f32_macs_s;
    // How many instructions a second the slowest thread executes, as a part of the fastest one's: 1
    // with one thread. Multiply-adds out of registers take few of them, kernels many. Well below 1
    // where a core has more to do (another program; on its second hardware thread another virtual
    // machine) or is of a slower kind; others wait for its thread at every step.
    double slowest_thread;
};
// Measures them with threads of its own, in about 7 * budget_ms milliseconds (1 to 10000) and the
// time to fill at least 64 MB, or four times the second- and third-level caches, which is longest
// the first time. The buffer that is read has 256 MB or eight times those caches, whichever is
// more; at most 2 GB or twice those caches, and a quarter of the memory that is available; it is
// freed again. Of the options those of backend, level, threads and mask count. Other programs that
// run meanwhile lower the numbers. E_UNSUPPORTED: the backend has no ceilings; E_NOMEM: that
// quarter is below 64 MB.
HEARTH_TRY hearth_ceilings_measure(const struct hearth_engine_options *o, uint32_t budget_ms,
                                   struct hearth_ceilings *out, struct hearth_error *err);

// Bytes a second at which the engine's threads read its matrices where they lie, and do nothing
// else: the best pass over all of them in about budget_ms milliseconds (1 to 10000), of four at
// least. Memory is not equally fast everywhere, nor on pages of every size, so no token comes
// faster than this says, whatever read_bytes_s is. (Less than the last cache holds reads faster
// than memory.) Between steps, not from a callback. E_UNSUPPORTED on a backend that cannot (all
// but cpu); E_NOMEM.
HEARTH_TRY hearth_engine_read_speed(hearth_engine *e, uint32_t budget_ms, double *bytes_s,
                                    struct hearth_error *err);
// Measures all of *out but read_bytes_s anew, with the engine's threads, in about 5 * budget_ms
// milliseconds (1 to 10000 each). Between steps, not from a callback. E_UNSUPPORTED on a backend
// that cannot (all but cpu).
HEARTH_TRY hearth_engine_multiply_speed(hearth_engine *e, uint32_t budget_ms,
                                        struct hearth_ceilings *out, struct hearth_error *err);

enum hearth_profile {
    HEARTH_PROFILE_OFF,   // default; costs nothing
    HEARTH_PROFILE_WORK,  // counts bytes and multiply-adds, once a pass
    HEARTH_PROFILE_STEPS, // and times each step on each thread
};
// Begins to count from zero. Between steps, not from a callback. E_UNSUPPORTED on a backend that
// cannot (all but cpu); E_NOMEM: the first call takes memory.
HEARTH_TRY hearth_engine_profile(hearth_engine *e, enum hearth_profile mode,
                                 struct hearth_error *err);

// One kind of step, summed over all passes since hearth_engine_profile.
struct hearth_step_kind {
    const char *name;    // "linear", "attention", "norm", "rope", "rest", "waiting"
    const char *role;    // of a linear step: "qkv", "o", "gate/up", "down", "lm_head", ...; else ""
    const char *formats; // of its weights, "Q4_K+Q6_K", of keys and values, "i16"; or ""
    uint64_t n_steps;    // run
    uint64_t ns;         // mean of the threads' times; 0 unless HEARTH_PROFILE_STEPS
    double bytes;        // of weights, keys and values, each read once a pass
    double macs;         // multiply-adds
    // The same multiply-adds by what multiplies them, each over the share of the peak that is taken
    // as its format's ceiling, for the arithmetic of its scales: 0.8 of int8, 0.73 for formats with
    // mins or groups of 16; 0.97 of i16, bf16 and f32. Codes of few bits may do more.
    double int8_load, i16_load, bf16_load, f32_load;
};
// Kind i, in the order of the first pass; false past the last. Strings live as long as the engine.
HEARTH_API bool hearth_engine_step_kind(const hearth_engine *e, size_t i,
                                        struct hearth_step_kind *out);
// Seconds that the multiply-adds of a kind take at the ceilings. (For its bytes that is bytes /
// read_bytes_s.)
HEARTH_API double hearth_ceilings_seconds(const struct hearth_ceilings *c,
                                          const struct hearth_step_kind *k);

// ---- tools -------------------------------------------------------------------------------------

// Writes a copy of a model with its matrices in another format: "F32", "F16", "BF16" or "Q8_0", in
// any case, else E_UNSUPPORTED, as where F16, BF16 or Q8_0 would have to hold a weight that is too
// large for it, infinite or no number, or a tensor is in a format that cannot be read. E_ARG where
// out_path is named as a part of a split model is ("-00002-of-00003.gguf"). Tensors that have the
// format already are copied. Vectors and stacks of them (biases of experts, norms of heads), tables
// of positions and of kinds of tokens, routers of experts, what is not named *.weight, matrices
// whose rows are no whole blocks, and what llama.cpp keeps of architectures that Hearth does not
// run (filters of convolutions, tables of time mixing) become F32. Tables of integers, and F64, are
// copied. It is written to out_path with ".tmp" behind it, where no file may be, which then takes
// the place of out_path, its permissions kept (where they cannot be, its group has none). E_IO
// where something other than a file is there, and where that place cannot be taken: then the copy
// stays, complete, under the name with ".tmp", as err says. `progress` (or NULL) is called after
// each tensor and every few megabytes of one, and once more when all is on the disk, on this
// thread, with the bytes of weights written; false ends the copy with E_CANCELLED, and nothing is
// left of it.
typedef bool (*hearth_progress_fn)(void *user, uint64_t done, uint64_t total);
HEARTH_TRY hearth_quantize(const hearth_file *in, const char *out_path, const char *format,
                           hearth_progress_fn progress, void *user, struct hearth_error *err);

#ifdef __cplusplus
}
#endif

#endif
