// SPDX-License-Identifier: MIT
// The weight formats: half conversions against the compiler's own types, blocks made by hand, and
// the golden models, which hold the same weights as f32 and in every format.
#include "cmocka_all.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "quant/format.h"
#include "shared_dir.h"

static float float_of(uint32_t u) {
    float f;
    memcpy(&f, &u, 4);
    return f;
}

// ---- half floats -------------------------------------------------------------------------------

static void f16_to_f32_equals_the_compiler(void **state) {
    (void)state;
    for (uint32_t h = 0; h < 0x10000; h++) {
        uint16_t bits = (uint16_t)h;
        float got = ht_f16_to_f32(bits);
        bool nan = (h & 0x7c00) == 0x7c00 && (h & 0x3ff);
        if (nan) {
            assert_true(isnan(got));
            continue;
        }
#ifdef __FLT16_MANT_DIG__
        _Float16 f;
        memcpy(&f, &bits, 2);
        float expected = (float)f;
        assert_memory_equal(&got, &expected, sizeof got);
#endif
        assert_int_equal(ht_f32_to_f16(got), bits);
    }
}

static void f32_to_f16_rounds_to_nearest_even(void **state) {
    (void)state;
    for (uint32_t i = 0; i < 1u << 22; i++) {
        // every exponent and sign with all upper mantissa bits, and the edges of the lower ones
        static const uint32_t low[4] = {0, 1, 0x3ff, 0x200};
        uint32_t u = i << 10 | low[i & 3];
        float x = float_of(u);
        if (isnan(x)) continue;
#ifdef __FLT16_MANT_DIG__
        _Float16 f = (_Float16)x;
        uint16_t want;
        memcpy(&want, &f, 2);
        if (ht_f32_to_f16(x) != want)
            fail_msg("%a: got %04x, want %04x", x, ht_f32_to_f16(x), want);
#endif
    }
    assert_int_equal(ht_f32_to_f16(65519.996f), 0x7bff);
    assert_int_equal(ht_f32_to_f16(65520.0f), 0x7c00);
    assert_int_equal(ht_f32_to_f16(-INFINITY), 0xfc00);
    assert_int_equal(ht_f32_to_f16(NAN) & 0x7e00, 0x7e00);
    assert_int_equal(ht_f32_to_f16(0x1p-25f), 0);        // a tie: to even
    assert_int_equal(ht_f32_to_f16(0x1.000002p-25f), 1); // above it
}

static void bf16_rounds_to_nearest_even(void **state) {
    (void)state;
    for (uint32_t i = 0; i < 1u << 20; i++) {
        uint32_t u = i * 4099u; // every part of the range
        float x = float_of(u);
        if (isnan(x)) continue;
        // nearest of the two neighbours by exact double arithmetic
        float lo = float_of(u & 0xffff0000), hi = float_of((u & 0xffff0000) + 0x10000);
        if (isinf(hi)) continue;
        double dl = fabs((double)x - lo), dh = fabs((double)hi - x);
        uint32_t up = u >> 16;
        uint16_t want = (uint16_t)(dl < dh ? up : dh < dl ? up + 1 : up + (up & 1));
        assert_int_equal(ht_f32_to_bf16(x), want);
    }
    assert_true(isnan(ht_bf16_to_f32(ht_f32_to_bf16(float_of(0x7f800001)))));
    assert_int_equal(ht_f32_to_bf16(INFINITY), 0x7f80);
}

enum { MOST_BLOCK_BYTES = 300 }; // of a block, at most

// ---- blocks by hand ----------------------------------------------------------------------------

static void table_answers(void **state) {
    (void)state;
    enum ht_format f;
    uint64_t n;
    assert_null(ht_format_get(4));
    assert_null(ht_format_get(1000));
    assert_string_equal(ht_format_get(HT_IQ1_M)->name, "IQ1_M");
    assert_true(ht_format_find("q4_k", &f));
    assert_int_equal(f, HT_Q4_K);
    assert_false(ht_format_find("Q4", &f));
    assert_true(ht_format_row_bytes(HT_Q6_K, 512, &n));
    assert_int_equal(n, 420);
    assert_false(ht_format_row_bytes(HT_Q6_K, 128, &n));
    assert_false(ht_format_row_bytes(HT_F64, UINT64_MAX / 4, &n));
    for (uint32_t i = 0; i < HT_N_FORMATS; i++) {
        const struct ht_format_info *info = ht_format_get(i);
        if (info) assert_true(info->block_len > 0 && info->block_bytes > 0);
    }
}

static void blocks_by_hand(void **state) {
    (void)state;
    float w[256];
    uint8_t q4[18] = {0x00, 0x38, 0x0f}; // d = 0.5; weight 0: 15, weight 16: 0
    ht_format_get(HT_Q4_0)->to_f32(q4, w, 1);
    assert_true(w[0] == 3.5f && w[16] == -4.0f && w[1] == -4.0f);
    uint8_t q5[24] = {0x00, 0x3c, 0x00, 0x40, 0x01, 0, 0, 0x80, 0x21}; // d 1, m 2; bits 0 and 31
    ht_format_get(HT_Q5_1)->to_f32(q5, w, 1);
    assert_true(w[0] == 1 + 16 + 2 && w[16] == 2 + 2 && w[31] == 16 + 2);
    uint8_t mx[17] = {128, 0x21, 0xf0}; // 2^1 * (0.5, then 1 in weight 16), weight 17: -6
    ht_format_get(HT_MXFP4)->to_f32(mx, w, 1);
    assert_true(w[0] == 1.0f && w[16] == 2.0f && w[17] == -12.0f);
    mx[0] = 0; // 2^-127 * 0.5
    ht_format_get(HT_MXFP4)->to_f32(mx, w, 1);
    assert_true(w[0] == 0x1p-128f);
    // NVFP4: 1, the least subnormal number, 0 and 480 (not NaN), halved; byte j: weights j, j + 8
    uint8_t nv[36] = {0x38, 0x01, 0x7f, 0xff, 0x21};
    nv[4 + 8] = nv[4 + 2 * 8] = 0x21, nv[4 + 3 * 8 + 7] = 0xf7;
    ht_format_get(HT_NVFP4)->to_f32(nv, w, 1);
    assert_true(w[0] == 0.5f && w[8] == 1.0f && w[1] == 0.0f);
    assert_true(w[16] == 0x1p-10f && w[24] == 0x1p-9f && w[32] == 0.0f && w[40] == 0.0f);
    assert_true(w[48 + 7] == 240.0f * 12 && w[48 + 15] == -240.0f * 12);
    // Q4_K: d = 1, dmin = 1; scale 5 = 33 (low 1 in byte 9, high 2 on byte 1), min 5 = 18
    uint8_t q4k[144] = {0x00, 0x3c, 0x00, 0x3c};
    q4k[4 + 9] = 0x21, q4k[4 + 1] = 2 << 6, q4k[4 + 5] = 1 << 6;
    q4k[16 + 2 * 32 + 7] = 0x70; // weight 7 of group 5
    ht_format_get(HT_Q4_K)->to_f32(q4k, w, 1);
    assert_true(w[5 * 32 + 7] == 7 * 33 - 18 && w[5 * 32] == -18.0f && w[0] == 0.0f);
    uint8_t q6k[210] = {0};
    q6k[209] = 0x3c, q6k[192 + 15] = 0xfe;       // d 1, scale -2
    q6k[64 + 63] = 0x50, q6k[128 + 63] = 3 << 6; // weight 255: 5 + 48 - 32
    ht_format_get(HT_Q6_K)->to_f32(q6k, w, 1);
    assert_true(w[255] == -42.0f && w[254] == 64.0f && w[0] == 0.0f);
}

// Every code that a block can hold stays within what the row promises to the packers.
static void codes_stay_in_range(void **state) {
    (void)state;
    uint8_t block[MOST_BLOCK_BYTES], code[256];
    float scale[16], min[16];
    uint32_t seed = 1;
    for (uint32_t f = 0; f < HT_N_FORMATS; f++) {
        const struct ht_format_info *info = ht_format_get(f);
        if (!info || !info->codes) continue;
        for (int round = 0; round < 200; round++) {
            for (int i = 0; i < MOST_BLOCK_BYTES; i++)
                block[i] = (uint8_t)((seed = seed * 1664525 + 1013904223) >> 24);
            info->codes->unpack(block, code, scale, min);
            for (uint32_t i = 0; i < info->block_len; i++)
                assert_true(code[i] <= info->codes->max_code);
        }
    }
}

// Formats that no golden model has, and one: the bits that ggml's dequantize_row_* gave for the
// same random blocks (llama.cpp of 2026-08-18, docs/performance.md), FNV-1a over all words.
static void weights_as_ggml(void **state) {
    (void)state;
    static const struct {
        enum ht_format format;
        uint32_t hash;
    } known[] = {{HT_IQ2_XXS, 0x39e611a1}, {HT_IQ2_XS, 0x21184121}, {HT_IQ2_S, 0x682997cd},
                 {HT_IQ3_XXS, 0x6ea7c085}, {HT_IQ3_S, 0x109b0a95},  {HT_IQ1_S, 0xf269d865},
                 {HT_IQ1_M, 0x2f552ce5},   {HT_Q1_0, 0x2e1a5dc5},   {HT_Q2_0, 0x490d1dc5},
                 {HT_NVFP4, 0xe073ddc5}};
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        const struct ht_format_info *info = ht_format_get(known[i].format);
        uint8_t block[MOST_BLOCK_BYTES];
        float w[256];
        uint32_t seed = 1, hash = 2166136261u;
        for (int round = 0; round < 64; round++) {
            for (uint32_t b = 0; b < info->block_bytes; b++)
                block[b] = (uint8_t)((seed = seed * 1664525 + 1013904223) >> 24);
            if (known[i].format == HT_IQ1_M)
                block[55] = (block[55] & 0x8f) | 0x20; // d is a number
            else
                block[1] = (block[1] & 0x83) | 0x20;
            info->to_f32(block, w, 1);
            for (uint32_t k = 0; k < info->block_len; k++) {
                uint32_t u;
                memcpy(&u, &w[k], sizeof u);
                hash = (hash ^ u) * 16777619u;
            }
        }
        if (hash != known[i].hash) fail_msg("%s: %08x, not %08x", info->name, hash, known[i].hash);
    }
}

static void q8_0_there_and_back(void **state) {
    (void)state;
    float x[64], back[64];
    uint8_t blocks[68];
    for (int i = 0; i < 64; i++) x[i] = (i < 32 ? 1.0f : 1e-30f) * (float)sin(i * 1.7);
    ht_format_get(HT_Q8_0)->from_f32(x, blocks, 2);
    ht_format_get(HT_Q8_0)->to_f32(blocks, back, 2);
    for (int i = 0; i < 32; i++) assert_true(fabsf(x[i] - back[i]) <= 0.5f / 127 + 1e-3f);
    for (int i = 32; i < 64; i++) assert_true(back[i] == 0.0f);
}

// ---- the golden models -------------------------------------------------------------------------
// A reader for these files alone: it trusts them.

struct tensor {
    char name[64];
    uint32_t type;
    uint64_t n, row, offset;
};

struct model {
    uint8_t *bytes;
    size_t n_bytes;
    struct tensor t[200];
    uint32_t n;
};

static uint64_t get(const uint8_t **p, int n) {
    uint64_t v = 0;
    memcpy(&v, *p, (size_t)n);
    *p += n;
    return v;
}

static void skip_value(const uint8_t **p, uint64_t type) {
    static const uint8_t size[13] = {1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8};
    if (type == 8) {
        uint64_t n = get(p, 8);
        *p += n;
    } else if (type == 9) {
        uint64_t of = get(p, 4), n = get(p, 8);
        for (uint64_t i = 0; i < n; i++) skip_value(p, of);
    } else {
        *p += size[type];
    }
}

static bool model_read(struct model *m, const char *name) {
    char path[512];
    snprintf(path, sizeof path, "%s/golden/quants/%s", shared_dir(), name);
    FILE *file = fopen(path, "rb");
    if (!file) {
        print_message("skipped: no %s\n", path);
        return false;
    }
    fseek(file, 0, SEEK_END);
    m->n_bytes = (size_t)ftell(file);
    rewind(file);
    m->bytes = malloc(m->n_bytes);
    assert_int_equal(fread(m->bytes, 1, m->n_bytes, file), m->n_bytes);
    fclose(file);
    const uint8_t *p = m->bytes + 8;
    m->n = (uint32_t)get(&p, 8);
    assert_true(m->n <= 200);
    for (uint64_t i = get(&p, 8); i > 0; i--) {
        skip_value(&p, 8);
        uint64_t type = get(&p, 4);
        skip_value(&p, type);
    }
    for (uint32_t i = 0; i < m->n; i++) {
        struct tensor *t = &m->t[i];
        uint64_t len = get(&p, 8);
        memcpy(t->name, p, len);
        t->name[len] = 0;
        p += len;
        t->n = 1;
        uint64_t n_dims = get(&p, 4);
        for (uint64_t d = 0; d < n_dims; d++) {
            uint64_t dim = get(&p, 8);
            if (d == 0) t->row = dim;
            t->n *= dim;
        }
        t->type = (uint32_t)get(&p, 4);
        t->offset = get(&p, 8);
    }
    size_t data = ((size_t)(p - m->bytes) + 31) / 32 * 32;
    for (uint32_t i = 0; i < m->n; i++) m->t[i].offset += data;
    return true;
}

static float *dequantised(const struct model *m, const struct tensor *t) {
    const struct ht_format_info *info = ht_format_get(t->type);
    uint64_t bytes;
    float *w = malloc(t->n * 4);
    assert_non_null(info->to_f32);
    assert_true(ht_format_row_bytes((enum ht_format)t->type, t->n, &bytes));
    assert_true(t->offset + bytes <= m->n_bytes);
    info->to_f32(m->bytes + t->offset, w, t->n / info->block_len);
    return w;
}

// sum of squared errors over the sum of squares that a good quantiser stays below, and (so that the
// bound is a test of the right format) a tenth of which it does not reach
static double format_bound(uint32_t f) {
    switch (f) {
    case HT_F32: return 0;
    case HT_F16: return 1e-7;
    case HT_BF16: return 4e-6;
    case HT_Q8_0: return 6e-5;
    case HT_Q6_K: return 5e-4;
    case HT_Q5_0:
    case HT_Q5_1:
    case HT_Q5_K: return 3e-3;
    case HT_Q4_0:
    case HT_Q4_1:
    case HT_Q4_K:
    case HT_IQ4_NL:
    case HT_IQ4_XS: return 1.2e-2;
    case HT_MXFP4: return 3e-2;
    case HT_Q3_K:
    case HT_IQ3_S: return 4e-2;
    case HT_Q2_K: return 0.12;
    default: return 0.8; // ternary
    }
}

static void compare_with_f32(const struct model *exact, const char *name) {
    struct model *m = calloc(1, sizeof *m);
    if (!model_read(m, name)) {
        free(m);
        skip();
    }
    assert_int_equal(m->n, exact->n);
    for (uint32_t i = 0; i < m->n; i++) {
        const struct tensor *t = &m->t[i];
        uint32_t j = 0;
        while (strcmp(exact->t[j].name, t->name) != 0) j++;
        assert_int_equal(t->n, exact->t[j].n);
        float *a = dequantised(exact, &exact->t[j]), *b = dequantised(m, t);
        double err = 0, sum = 0;
        for (uint64_t k = 0; k < t->n; k++) {
            double d = (double)a[k] - b[k];
            err += d * d, sum += (double)a[k] * a[k];
        }
        double bound = format_bound(t->type);
        if (!(err <= bound * sum && err >= 0.1 * bound * sum)) // nor NaN
            fail_msg(
                "%s, %s (%s): relative error %.3g, expected below %.3g and above a tenth of it",
                name, t->name, ht_format_get(t->type)->name, err / sum, bound);
        free(a);
        free(b);
    }
    free(m->bytes);
    free(m);
}

static void golden_weights(void **state) {
    (void)state;
    static const char *const names[] = {"F32",  "F16",   "BF16",   "Q4_0",   "Q4_1",   "Q5_0",
                                        "Q5_1", "Q8_0",  "Q2_K",   "Q3_K_M", "Q4_K_M", "Q5_K_M",
                                        "Q6_K", "IQ3_S", "IQ4_NL", "IQ4_XS", "TQ1_0",  "TQ2_0"};
    static struct model exact;
    if (!model_read(&exact, "qwen3.F32.gguf")) skip();
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        char name[64];
        snprintf(name, sizeof name, "qwen3.%s.gguf", names[i]);
        compare_with_f32(&exact, name);
    }
    free(exact.bytes);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(f16_to_f32_equals_the_compiler),
        cmocka_unit_test(f32_to_f16_rounds_to_nearest_even),
        cmocka_unit_test(bf16_rounds_to_nearest_even),
        cmocka_unit_test(table_answers),
        cmocka_unit_test(blocks_by_hand),
        cmocka_unit_test(codes_stay_in_range),
        cmocka_unit_test(weights_as_ggml),
        cmocka_unit_test(q8_0_there_and_back),
        cmocka_unit_test(golden_weights),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
