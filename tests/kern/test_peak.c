// SPDX-License-Identifier: MIT
// The measurement of ceilings at every level that this machine can run: it gives numbers, refuses
// a buffer that is too small, and gives its memory back. How large the numbers are is the machine's
// affair.
#include "alloc_mem.h"
#include <string.h>

#include "cmocka_all.h"

#include "backend/cpu/peak.h"
#include "base/mem.h"

static void test_levels(void **state) {
    (void)state;
    struct hearth_error err;
    struct ht_team *team;
    assert_int_equal(ht_team_create(2, &team, &err), HEARTH_OK);
    struct ht_test_alloc before = ht_test_alloc_get();
    for (int level = 0; level < HT_CPU_N_LEVELS; level++) {
        if (!ht_cpu_level_usable((enum ht_cpu_level)level)) continue;
        struct hearth_ceilings c = {0};
        assert_int_equal(ht_peak_measure(team, (enum ht_cpu_level)level, 3, level % 2 ? 0 : 8 << 20,
                                         8 << 20, &c, &err),
                         HEARTH_OK);
        assert_true(c.read_bytes_s > 0 && c.int8_macs_s > 0 && c.i16_macs_s > 0 &&
                    c.f32_macs_s > 0);
        assert_true(c.bf16_macs_s > 0);
        assert_true(c.slowest_thread > 0 && c.slowest_thread <= 1);
        struct ht_peak_kernels k;
        ht_peak_kernels_init(&k, (enum ht_cpu_level)level);
        assert_int_equal(k.bf16 == NULL, c.bf16_macs_s == c.f32_macs_s);
    }
    assert_int_equal(ht_test_alloc_get().n_live_bytes, before.n_live_bytes);
    ht_team_destroy(team);
}

static void test_refuses(void **state) {
    (void)state;
    struct hearth_error err;
    struct ht_team *team;
    struct hearth_ceilings c = {.read_bytes_s = 7};
    assert_int_equal(ht_team_create(2, &team, &err), HEARTH_OK);
    assert_int_equal(ht_peak_measure(team, HT_CPU_SCALAR, 1, 0, 500000, &c, &err), HEARTH_E_ARG);
    assert_non_null(strstr(err.message, "500000"));
    ht_test_alloc_fail_at(1);
    assert_int_equal(ht_peak_measure(team, HT_CPU_SCALAR, 1, 0, 8 << 20, &c, &err), HEARTH_E_NOMEM);
    ht_test_alloc_fail_at(0);
    assert_true(c.read_bytes_s == 7); // untouched
    ht_team_destroy(team);
}

// Parts that lie anywhere and of any length, also none: a speed, and nothing is read behind them
// (level scalar under the sanitizers).
static void test_read(void **state) {
    (void)state;
    struct hearth_error err;
    struct ht_team *team;
    enum { N = 1 << 20 };
    uint8_t *memory = ht_calloc(1, N);
    assert_non_null(memory);
    assert_int_equal(ht_team_create(2, &team, &err), HEARTH_OK);
    const struct ht_peak_part parts[] = {
        {memory + 4, 100000}, {memory, 0}, {memory + 60, 3}, {memory + N - 700, 700}, {memory, N}};
    for (int level = 0; level < HT_CPU_N_LEVELS; level++) {
        if (!ht_cpu_level_usable((enum ht_cpu_level)level)) continue;
        assert_true(ht_peak_read(team, (enum ht_cpu_level)level, parts, 5, 1) > 0);
        assert_true(ht_peak_read(team, (enum ht_cpu_level)level, parts, 0, 1) == 0);
    }
    ht_team_destroy(team);
    ht_free(memory);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_levels),
                                       cmocka_unit_test(test_refuses), cmocka_unit_test(test_read)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
