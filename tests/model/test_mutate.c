// SPDX-License-Identifier: MIT
// Thousands of spoiled model files, from a fixed seed: bytes of the metadata and the tensor table
// changed; keys set to values they may not have, or that contradict each other. Each is handed to
// the fuzz target of this room (tests/fuzz/fuzz_model.c), which says what must hold.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cmocka_all.h"
#include "tiny.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

static uint32_t random_below(uint32_t *seed, uint32_t n) {
    *seed = *seed * 1664525u + 1013904223u;
    return (*seed >> 8) % n;
}

static uint8_t *read_model(const char *arch, const struct tiny_edit *edits, size_t *n) {
    const char *path = tiny_path(arch);
    tiny_write(path, arch, edits);
    FILE *f = fopen(path, "rb");
    assert_non_null(f);
    uint8_t *data = malloc(1 << 20);
    assert_non_null(data);
    *n = fread(data, 1, 1 << 20, f);
    assert_true(*n < 1 << 20);
    fclose(f);
    unlink(path);
    return data;
}

// Bytes before the tensors' data.
static size_t head_bytes(const uint8_t *data, size_t n) {
    struct hearth_error err;
    struct ht_gguf *g;
    size_t first = n;
    assert_int_equal(ht_gguf_open_bytes(data, n, "model", &g, &err), HEARTH_OK);
    for (size_t i = 0; i < ht_gguf_n_tensors(g); i++)
        if (ht_gguf_tensor_at(g, i)->offset < first) first = ht_gguf_tensor_at(g, i)->offset;
    ht_gguf_close(g);
    return first;
}

static void mutate(uint8_t *data, size_t n_head, uint32_t *seed) {
    static const uint32_t extremes[] = {0,          1,          2,           3,
                                        0x7fffffff, 0x80000000, 0xffffffffu, 0x7fc00000,
                                        0x7f800000, 0x00800000, 16777216,    255};
    for (uint32_t k = 1 + random_below(seed, 3); k > 0; k--) {
        size_t at = random_below(seed, (uint32_t)n_head - 4);
        uint32_t v = extremes[random_below(seed, sizeof extremes / sizeof extremes[0])];
        if (random_below(seed, 2))
            memcpy(data + at, &v, sizeof v);
        else
            data[at] = (uint8_t)random_below(seed, 256);
    }
}

static void test_bytes(void **state) {
    (void)state;
    uint32_t seed = 20261120;
    for (size_t i = 0; i < TINY_N_ARCHS; i++) {
        size_t n;
        uint8_t *good = read_model(tiny_archs[i], NULL, &n), *bad = malloc(n);
        size_t n_head = head_bytes(good, n);
        assert_non_null(bad);
        LLVMFuzzerTestOneInput(good, n);
        for (int round = 0; round < 300; round++) {
            memcpy(bad, good, n);
            mutate(bad, n_head, &seed);
            LLVMFuzzerTestOneInput(bad, n);
        }
        free(good);
        free(bad);
    }
}

static struct tiny_edit random_key(const char *arch, char name[96], uint32_t *seed) {
    static const char *const numbers[] = {
        "block_count",          "context_length",         "embedding_length",
        "feed_forward_length",  "attention.head_count",   "attention.head_count_kv",
        "attention.key_length", "attention.value_length", "attention.sliding_window",
        "expert_count",         "expert_used_count",      "expert_feed_forward_length",
        "vocab_size",           "rope.dimension_count",   "rope.scaling.original_context_length"};
    static const char *const reals[] = {"rope.freq_base",
                                        "rope.scaling.factor",
                                        "rope.scaling.attn_factor",
                                        "rope.scale_linear",
                                        "rope.scaling.yarn_beta_fast",
                                        "rope.scaling.yarn_beta_slow",
                                        "rope.scaling.mscale_all_dim",
                                        "rope.scaling_beta",
                                        "attention.temperature_scale",
                                        "attention.layer_norm_rms_epsilon",
                                        "attention.layer_norm_epsilon"};
    static const uint32_t u[] = {0,  1,  2,  3,  4,     6,        8,          16,
                                 31, 32, 64, 96, 65536, 16777216, 0x7fffffff, 0xffffffff};
    static const float f[] = {0, -1, 1, 2, 4, 1e-30f, 1e-3f, 1e30f, 3e38f};
    static const char *const types[] = {"yarn", "linear", "none", "llama3", ""};
    size_t prefix = strcspn(arch, "-");
    uint32_t kind = random_below(seed, 10);
    if (kind < 6) {
        snprintf(name, 96, "%.*s.%s", (int)prefix, arch,
                 numbers[random_below(seed, sizeof numbers / sizeof *numbers)]);
        return (struct tiny_edit){TINY_U32, name, .u = u[random_below(seed, sizeof u / sizeof *u)]};
    }
    if (kind < 9) {
        snprintf(name, 96, "%.*s.%s", (int)prefix, arch,
                 reals[random_below(seed, sizeof reals / sizeof *reals)]);
        return (struct tiny_edit){TINY_F32, name, .f = f[random_below(seed, sizeof f / sizeof *f)]};
    }
    snprintf(name, 96, "%.*s.rope.scaling.type", (int)prefix, arch);
    return (struct tiny_edit){TINY_STR, name, .s = types[random_below(seed, 5)]};
}

static void test_keys(void **state) {
    (void)state;
    uint32_t seed = 5;
    for (int round = 0; round < 700; round++) {
        const char *arch = tiny_archs[(size_t)round % TINY_N_ARCHS];
        struct tiny_edit edits[5] = {0};
        char names[4][96];
        uint32_t n_edits = 1 + random_below(&seed, 4);
        size_t n;
        for (uint32_t i = 0; i < n_edits; i++) edits[i] = random_key(arch, names[i], &seed);
        uint8_t *data = read_model(arch, edits, &n);
        LLVMFuzzerTestOneInput(data, n);
        free(data);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_bytes), cmocka_unit_test(test_keys)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
