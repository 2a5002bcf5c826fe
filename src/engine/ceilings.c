// SPDX-License-Identifier: MIT
// The ceilings of the machine for threads such as an engine would have: a backend is opened for as
// long as its measurement takes. Any thread; keeps nothing.
#include <inttypes.h>
#include <unistd.h>

#include "engine/engine_internal.h"

#define BUFFER_BYTES     (256ull << 20)
#define MAX_BUFFER_BYTES (2048ull << 20)
#define MIN_BUFFER_BYTES (64ull << 20)

// Well beyond the last cache, but no burden on a small machine or group.
static uint64_t buffer_bytes(uint64_t available) {
    uint64_t n = BUFFER_BYTES;
#if defined(_SC_LEVEL3_CACHE_SIZE)
    long cache = sysconf(_SC_LEVEL3_CACHE_SIZE); // 0 or -1: not known
    if (cache > 0 && (uint64_t)cache * 4 > n) n = (uint64_t)cache * 4;
#endif
    if (n > MAX_BUFFER_BYTES) n = MAX_BUFFER_BYTES;
    return n < available / 4 ? n : available / 4;
}

enum hearth_status ht_ceilings_measure(const struct hearth_engine_options *o, uint32_t budget_ms,
                                       struct hearth_ceilings *out, struct hearth_error *err) {
    const char *name = o->backend ? o->backend : "cpu";
    const struct ht_backend_ops *ops = ht_backend_find(name);
    if (!ops)
        return ht_fail(err, HEARTH_E_ARG, "there is no backend '%s'; there are: %s", name,
                       ht_backend_names());
    if (budget_ms < 1 || budget_ms > 10000)
        return ht_fail(err, HEARTH_E_ARG, "budget_ms is %" PRIu32 ", expected 1 to 10000",
                       budget_ms);
    if (!ops->ceilings)
        return ht_fail(err, HEARTH_E_UNSUPPORTED, "the backend %s has no ceilings", name);
    uint64_t n = buffer_bytes(ht_engine_available(NULL));
    if (n < MIN_BUFFER_BYTES)
        return ht_fail(err, HEARTH_E_NOMEM,
                       "measuring how fast memory is read would take %llu MB, more than a quarter "
                       "of what is available",
                       MIN_BUFFER_BYTES >> 20);
    struct ht_backend_options bo = {
        .level = o->cpu_level, .n_threads = o->n_threads, .log = o->log};
    struct ht_backend *b;
    enum hearth_status status = ops->open(&bo, &b, err);
    if (status) return status;
    status = ops->ceilings(b, budget_ms, n, out, err);
    ops->close(b);
    return status;
}

double ht_ceilings_seconds(const struct hearth_ceilings *c, const struct hearth_step_kind *k) {
    return k->int8_load / c->int8_macs_s + k->bf16_load / c->bf16_macs_s +
           k->f32_load / c->f32_macs_s;
}
