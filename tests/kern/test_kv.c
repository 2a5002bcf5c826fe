// SPDX-License-Identifier: MIT
// Where keys and values lie: every head of every page has its own place, all places together are
// the block, and a thread's heads of neighbouring pages lie in one run.
#include <string.h>

#include "cmocka_all.h"

#include "backend/cpu/exec.h"

enum {
    HEAD_BYTES = 64,
    MAX_PAGES = 3 * HT_CPU_KV_CHUNK,
    MAX_LAYERS = 3,
    MAX_HEADS = 12,
    N_PLACES = MAX_PAGES * MAX_LAYERS * MAX_HEADS
};

static void check_places(uint32_t n_pages, uint32_t n_layers, uint32_t n_heads, uint32_t together) {
    static uint8_t block[N_PLACES * HEAD_BYTES], seen[N_PLACES];
    struct ht_plan plan = {.n_layers = n_layers, .n_kv_heads = n_heads};
    struct ht_compiled c = {.plan = &plan,
                            .limits.n_pages = n_pages,
                            .kv_together = together,
                            .kv_head_bytes = HEAD_BYTES};
    struct ht_prepared p = {.c = &c, .kv = block};
    memset(seen, 0, sizeof seen);
    for (uint32_t page = 0; page < n_pages; page++)
        for (uint32_t layer = 0; layer < n_layers; layer++)
            for (uint32_t head = 0; head < n_heads; head++) {
                const uint8_t *at = ht_kv_head(&p, layer, page, head), *before = NULL;
                size_t i = (size_t)(at - block) / HEAD_BYTES;
                assert_int_equal((at - block) % HEAD_BYTES, 0);
                assert_between(i, 0, n_pages * n_layers * n_heads - 1);
                assert_int_equal(seen[i]++, 0);
                if (head % together > 0)
                    before = ht_kv_head(&p, layer, page, head - 1);
                else if (page % HT_CPU_KV_CHUNK > 0)
                    before = ht_kv_head(&p, layer, page - 1, head + together - 1);
                if (before) assert_ptr_equal(at, before + HEAD_BYTES);
            }
}

static void test_places(void **state) {
    (void)state;
    for (uint32_t n_pages = 1; n_pages <= MAX_PAGES; n_pages++)
        for (uint32_t n_layers = 1; n_layers <= MAX_LAYERS; n_layers++) {
            check_places(n_pages, n_layers, 1, 1);
            check_places(n_pages, n_layers, 5, 5);
            check_places(n_pages, n_layers, 8, 4);
            check_places(n_pages, n_layers, MAX_HEADS, 1);
        }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_places)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
