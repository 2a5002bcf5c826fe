// SPDX-License-Identifier: MIT
// The self-test: every kernel of every level that this machine can run against level scalar, over
// random numbers of a few sizes. tests/kern looks at many more sizes, and at what lies around the
// outputs, with the same calls. Keeps no state.
#ifndef HT_CPU_SELF_TEST_H
#define HT_CPU_SELF_TEST_H

#include "backend/cpu/vec.h"

// One call of a vector kernel over n numbers each of a, b and c; its result is y[n].
struct ht_vec_case {
    const char *name; // NULL ends the list
    void (*run)(const struct ht_vec_kernels *k, const float *a, const float *b, const float *c,
                uint32_t n, float *y);
};
extern const struct ht_vec_case ht_vec_cases[];

// Where the kernels under test come from; what has no table is not tested. Tests give broken ones.
struct ht_self_test_tables {
    const struct ht_vec_kernels *vec;
    const struct ht_linear_kernels *linear;
};

// One level, with its own tables where `tables` is NULL. Adds to *n_failed.
HT_MUST_CHECK enum hearth_status ht_self_test_level(enum ht_cpu_level level,
                                                    const struct ht_self_test_tables *tables,
                                                    hearth_check_fn fn, void *user,
                                                    size_t *n_failed, struct hearth_error *err);
HT_MUST_CHECK enum hearth_status ht_cpu_self_test(hearth_check_fn fn, void *user, size_t *n_failed,
                                                  struct hearth_error *err);

#endif
