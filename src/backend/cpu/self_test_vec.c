// SPDX-License-Identifier: MIT
// The calls of the vector kernels that the self-test and tests/kern make. No state; any thread.
#include <string.h>

#include "backend/cpu/self_test.h"

static void run_rms(const struct ht_vec_kernels *k, const float *a, const float *b, const float *c,
                    uint32_t n, float *y) {
    (void)c;
    k->rms_norm(a, b, n, 1e-6f, y);
}
static void run_rms_in_place(const struct ht_vec_kernels *k, const float *a, const float *b,
                             const float *c, uint32_t n, float *y) {
    (void)c;
    memcpy(y, a, n * sizeof *y);
    k->rms_norm(y, b, n, 1e-5f, y);
}
static void run_layer(const struct ht_vec_kernels *k, const float *a, const float *b,
                      const float *c, uint32_t n, float *y) {
    k->layer_norm(a, b, c, n, 1e-5f, y);
}
static void run_layer_bare(const struct ht_vec_kernels *k, const float *a, const float *b,
                           const float *c, uint32_t n, float *y) {
    (void)c;
    memcpy(y, a, n * sizeof *y);
    k->layer_norm(y, b, NULL, n, 1e-5f, y);
}
static void run_add(const struct ht_vec_kernels *k, const float *a, const float *b, const float *c,
                    uint32_t n, float *y) {
    (void)c;
    k->add(a, b, n, y);
}
static void run_scale(const struct ht_vec_kernels *k, const float *a, const float *b,
                      const float *c, uint32_t n, float *y) {
    (void)c;
    k->scale(a, b[0], n, y);
}
static void run_axpy(const struct ht_vec_kernels *k, const float *a, const float *b, const float *c,
                     uint32_t n, float *y) {
    memcpy(y, c, n * sizeof *y);
    k->axpy(b[0], a, n, y);
}
static void run_exp_sub(const struct ht_vec_kernels *k, const float *a, const float *b,
                        const float *c, uint32_t n, float *y) {
    (void)c;
    k->exp_sub(a, b[0], n, y);
}
static void run_act_mul(const struct ht_vec_kernels *k, const float *a, const float *b,
                        const float *c, uint32_t n, float *y) {
    (void)c;
    k->act_mul((enum ht_act)(n % 4), a, b, n, y); // sizes come in all remainders
}
static void run_act_mul_in_place(const struct ht_vec_kernels *k, const float *a, const float *b,
                                 const float *c, uint32_t n, float *y) {
    (void)c;
    memcpy(y, a, n * sizeof *y);
    k->act_mul(HT_ACT_GELU_TANH, y, b, n, y);
}
static void run_rope_halves(const struct ht_vec_kernels *k, const float *a, const float *b,
                            const float *c, uint32_t n, float *y) {
    memcpy(y, a, n * sizeof *y);
    k->rope_halves(y, b, c, n / 2 * 2, y);
}
static void run_rope_adjacent(const struct ht_vec_kernels *k, const float *a, const float *b,
                              const float *c, uint32_t n, float *y) {
    memset(y, 0, n * sizeof *y);
    k->rope_adjacent(a, b, c, n / 2 * 2, y);
}

static void run_act(const struct ht_vec_kernels *k, const float *a, const float *b, const float *c,
                    uint32_t n, float *y) {
    (void)b;
    (void)c;
    k->act((enum ht_act)(n % 4), a, n, y);
}

const struct ht_vec_case ht_vec_cases[] = {
    {"rms_norm", run_rms},
    {"rms_norm in place", run_rms_in_place},
    {"layer_norm", run_layer},
    {"layer_norm in place, no bias", run_layer_bare},
    {"add", run_add},
    {"scale", run_scale},
    {"axpy", run_axpy},
    {"exp_sub", run_exp_sub},
    {"act_mul", run_act_mul},
    {"act_mul gelu in place", run_act_mul_in_place},
    {"rope_halves in place", run_rope_halves},
    {"rope_adjacent", run_rope_adjacent},
    {"act", run_act},
    {NULL, NULL},
};
