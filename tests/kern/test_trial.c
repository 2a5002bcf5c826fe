// SPDX-License-Identifier: MIT
// Two ways of doing a step against each other, their times made up.
#include "cmocka_all.h"

#include "backend/cpu/trial.h"

enum { TRIAL = 2 * HT_CPU_TRIAL_PAIRS };

// n executes of a step that takes `yes` or `no` ns and, each time, a little longer; returns how
// many went the true way.
static uint32_t run(struct ht_cpu_trial *t, uint32_t n, uint64_t yes, uint64_t no) {
    uint32_t n_true = 0;
    for (uint32_t i = 0; i < n; i++) {
        bool way = ht_cpu_trial_begin(t, 16);
        ht_cpu_trial_end(t, (way ? yes : no) + 30 * i);
        n_true += way;
    }
    return n_true;
}

static void test_faster_way_is_held(void **state) {
    (void)state;
    struct ht_cpu_trial t = {.like = 16};
    assert_int_equal(run(&t, TRIAL, 1000, 1100), TRIAL / 2);
    assert_int_equal(run(&t, HT_CPU_TRIAL_HOLD, 1000, 1100), HT_CPU_TRIAL_HOLD);
    assert_int_equal(run(&t, TRIAL, 1100, 1000),
                     TRIAL / 2); // it is asked again, and things changed
    assert_int_equal(run(&t, HT_CPU_TRIAL_HOLD, 1100, 1000), 0);
    assert_int_equal(run(&t, TRIAL, 1000, 1100), TRIAL / 2);
    assert_int_equal(run(&t, HT_CPU_TRIAL_HOLD, 1000, 1100), HT_CPU_TRIAL_HOLD);
}

// A neighbour that takes the machine for a few executes decides nothing.
static void test_few_outliers(void **state) {
    (void)state;
    struct ht_cpu_trial t = {.like = 16};
    for (uint32_t i = 0; i < TRIAL; i++) {
        bool way = ht_cpu_trial_begin(&t, 16);
        ht_cpu_trial_end(&t, (way ? 1000 : 1100) + (way && i < TRIAL / 3 ? 90000 : 0));
    }
    assert_int_equal(run(&t, HT_CPU_TRIAL_HOLD, 1, 1), HT_CPU_TRIAL_HOLD);
}

// Executes of another size than the one before are not compared, and go as was found last.
static void test_pairs_are_alike(void **state) {
    (void)state;
    struct ht_cpu_trial t = {.way = true};
    for (int way = 1; way >= 0; way--) {
        for (uint32_t i = 0; i < 100 * TRIAL; i++) { // none is like the one before
            assert_int_equal(ht_cpu_trial_begin(&t, 17 + i), way);
            ht_cpu_trial_end(&t, i % 2 ? 1000 : 9000);
        }
        assert_int_equal(ht_cpu_trial_begin(&t, 16), way); // nor is this
        ht_cpu_trial_end(&t, 1000);
        if (way == 0) break;
        assert_int_equal(run(&t, TRIAL, 1100, 1000), TRIAL / 2);
        assert_int_equal(run(&t, HT_CPU_TRIAL_HOLD, 1100, 1000), 0);
    }
    assert_true(ht_cpu_trial_begin(&t, 16));
    ht_cpu_trial_end(&t, 1000);
    assert_false(ht_cpu_trial_begin(&t, 16));
    ht_cpu_trial_end(&t, 1100);
    assert_int_equal(run(&t, TRIAL - 2, 1000, 1100), TRIAL / 2 - 1);
    assert_int_equal(run(&t, HT_CPU_TRIAL_HOLD, 1000, 1100), HT_CPU_TRIAL_HOLD);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_faster_way_is_held),
        cmocka_unit_test(test_few_outliers),
        cmocka_unit_test(test_pairs_are_alike),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
