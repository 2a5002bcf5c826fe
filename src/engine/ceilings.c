// SPDX-License-Identifier: MIT
// The ceilings of the machine for threads such as an engine would have: a backend is opened for as
// long as its measurement takes. Any thread; keeps nothing.
#include <inttypes.h>

#include "base/cpus.h"
#include "engine/engine_internal.h"

#define BUFFER_BYTES     (256ull << 20)
#define MAX_BUFFER_BYTES (2048ull << 20)
#define MIN_BUFFER_BYTES (64ull << 20)

static uint64_t larger(uint64_t a, uint64_t b) {
    return a > b ? a : b;
}

bool ht_ceilings_buffer(uint64_t caches, uint64_t available, uint64_t *least, uint64_t *most) {
    uint64_t limit = larger(MAX_BUFFER_BYTES, caches * 2);
    *most = larger(BUFFER_BYTES, caches * 8);
    *least = larger(MIN_BUFFER_BYTES, caches * 4);
    if (*most > limit) *most = limit;
    if (*most > available / 4) *most = available / 4;
    if (*least > *most) *least = *most;
    return *most >= MIN_BUFFER_BYTES;
}

enum hearth_status ht_check_budget(uint32_t budget_ms, struct hearth_error *err) {
    if (budget_ms >= 1 && budget_ms <= 10000) return HEARTH_OK;
    return ht_fail(err, HEARTH_E_ARG, "budget_ms is %" PRIu32 ", expected 1 to 10000", budget_ms);
}

enum hearth_status ht_ceilings_measure(const struct hearth_engine_options *o, uint32_t budget_ms,
                                       struct hearth_ceilings *out, struct hearth_error *err) {
    const struct ht_backend_ops *ops;
    struct ht_backend_options bo;
    enum hearth_status status = ht_engine_find_backend(o, NULL, &ops, &bo, err);
    if (status) return status;
    if ((status = ht_check_budget(budget_ms, err))) return status;
    if (!ops->ceilings)
        return ht_fail(err, HEARTH_E_UNSUPPORTED, "the backend %s has no ceilings", ops->name);
    uint64_t least, most;
    if (!ht_ceilings_buffer(ht_cpus_large_caches_now(), ht_engine_available(NULL), &least, &most))
        return ht_fail(err, HEARTH_E_NOMEM,
                       "measuring how fast memory is read would take %llu MB, more than a quarter "
                       "of what is available",
                       MIN_BUFFER_BYTES >> 20);
    struct ht_backend *b;
    status = ops->open(&bo, &b, err);
    if (status) return status;
    status = ops->ceilings(b, budget_ms, least, most, out, err);
    ops->close(b);
    return status;
}

double ht_ceilings_seconds(const struct hearth_ceilings *c, const struct hearth_step_kind *k) {
    return k->int8_load / c->int8_macs_s + k->i16_load / c->i16_macs_s +
           k->bf16_load / c->bf16_macs_s + k->f32_load / c->f32_macs_s;
}
