// SPDX-License-Identifier: MIT
// What there is (meminfo and control groups, from folders the test writes), what is needed, and the
// sentence when it does not fit.
#include "cmocka_all.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "engine/engine_internal.h"
#include "fake.h"

// ---- what there is ------------------------------------------------------------------------------

static char root[64];

static void put(const char *path, const char *text) {
    char full[512];
    snprintf(full, sizeof full, "%s/%s", root, path);
    for (char *slash = full + strlen(root) + 1; (slash = strchr(slash, '/')); slash++) {
        *slash = 0;
        if (mkdir(full, 0700) != 0) assert_int_equal(errno, EEXIST);
        *slash = '/';
    }
    FILE *f = fopen(full, "w");
    assert_non_null(f);
    fputs(text, f);
    fclose(f);
}

static uint64_t available(void) {
    char proc[100], cgroup[100];
    snprintf(proc, sizeof proc, "%s/proc", root);
    snprintf(cgroup, sizeof cgroup, "%s/cg", root);
    return ht_memory_available(proc, cgroup);
}

static int begin(void **state) {
    (void)state;
    strcpy(root, "/tmp/hearth-test-memory-XXXXXX");
    return mkdtemp(root) ? 0 : -1;
}

static int end(void **state) {
    (void)state;
    char command[128];
    snprintf(command, sizeof command, "rm -r %s", root);
    return system(command);
}

// What hearth_machine_get reads of these files.
static struct hearth_machine machine(void) {
    char proc[100], sys[100], cgroup[100];
    struct hearth_machine m;
    snprintf(proc, sizeof proc, "%s/proc", root);
    snprintf(sys, sizeof sys, "%s/sys", root);
    snprintf(cgroup, sizeof cgroup, "%s/cg", root);
    ht_machine_read(proc, sys, cgroup, &m);
    return m;
}

static void test_machine(void **state) {
    (void)state;
    struct hearth_machine m = machine(); // nothing says anything
    assert_string_equal(m.cpu, "");
    assert_string_equal(m.huge_pages, "");
    assert_true(m.memory_total == 0 && m.memory_available == 0 && m.memory_limit == 0);
    assert_between(m.n_threads, 1, m.n_online);
    assert_non_null(strstr(m.levels, m.level));
    assert_int_equal(strncmp(m.levels, "scalar", 6), 0);
    put("proc/meminfo", "MemTotal:  5000 kB\nMemAvailable:    3000 kB\n");
    put("proc/cpuinfo", "processor\t: 0\nmodel\t\t: 17\nmodel name\t: Some CPU @ 3 GHz\nx\t: y\n");
    put("sys/kernel/mm/transparent_hugepage/enabled", "always [madvise] never\n");
    put("proc/self/cgroup", "0::/a/b\n");
    put("cg/a/memory.max", "4000000\n");
    put("cg/a/b/memory.max", "max\n");
    m = machine();
    assert_string_equal(m.cpu, "Some CPU @ 3 GHz");
    assert_string_equal(m.huge_pages, "madvise");
    assert_true(m.memory_total == 5000 * 1024 && m.memory_available == 3000 * 1024);
    assert_true(m.memory_limit == 4000000);
    put("cg/a/b/memory.max", "3000000\n");
    put("proc/cpuinfo", "processor\t: 0\nCPU implementer\t: 0x41\nCPU part\t: 0xd40\n");
    put("sys/kernel/mm/transparent_hugepage/enabled", "broken");
    m = machine();
    assert_true(m.memory_limit == 3000000);
    assert_string_equal(m.cpu, "Arm, implementer 0x41, part 0xd40");
    assert_string_equal(m.huge_pages, "");
    put("cg/a/memory.max", "max\n");
    put("cg/a/b/memory.max", "max\n");
    put("proc/cpuinfo", "model name\t: A\x1b[2JB\xff\n"); // as a virtual machine may call it
    m = machine();
    assert_string_equal(m.cpu, "A?[2JB?");
    put("proc/cpuinfo", "nothing of the kind");
    m = machine();
    assert_true(m.memory_limit == 0);
    assert_string_equal(m.cpu, "");
}

static void test_meminfo(void **state) {
    (void)state;
    assert_true(available() == UINT64_MAX);                       // nothing says anything
    put("proc/meminfo", "MemTotal:  9999 kB\nMemFree:  10 kB\n"); // an old kernel's
    assert_true(available() == UINT64_MAX);
    put("proc/meminfo", "MemTotal:  9999 kB\nMemFree:  10 kB\nMemAvailable:    3000 kB\nX: 1\n");
    assert_int_equal(available(), 3000 * 1024);
}

static void test_version_2(void **state) {
    (void)state;
    put("proc/meminfo", "MemAvailable: 3000000 kB\n");
    put("proc/self/cgroup", "0::/a/b\n");
    assert_int_equal(available(), 3000000ull * 1024);
    put("cg/a/b/memory.max", "max\n");
    put("cg/a/b/memory.current", "500\n");
    assert_int_equal(available(), 3000000ull * 1024);
    put("cg/a/memory.max", "1000000\n"); // the parent's limit counts
    put("cg/a/memory.current", "700000\n");
    assert_int_equal(available(), 300000);
    put("cg/a/memory.stat", "anon 5\ninactive_file 100000\nactive_file 50000\n"); // dropped first
    assert_int_equal(available(), 450000);
    put("cg/memory.max", "1200000\n"); // seen from inside a container, the root is ours
    put("cg/memory.current", "1100000\n");
    assert_int_equal(available(), 100000);
    put("cg/a/b/memory.high", "20500\n"); // beyond it a group is slowed down
    assert_int_equal(available(), 20000);
    put("cg/a/b/memory.current", "400\n"); // cache may be counted higher than all that is in use
    put("cg/a/b/memory.stat", "inactive_file 400\nactive_file 8\n");
    assert_int_equal(available(), 20500);
    put("cg/memory.current", "1300000\n");
    assert_int_equal(available(), 0);
}

static void test_version_1(void **state) {
    (void)state;
    put("proc/meminfo", "MemAvailable: 3000000 kB\n");
    put("proc/self/cgroup", "12:cpu,cpuacct:/x\n7:hugetlb,memory:/d/e\n1:name=systemd:/y\n");
    put("cg/memory/d/e/memory.limit_in_bytes", "9223372036854771712\n");
    put("cg/memory/d/e/memory.usage_in_bytes", "5\n");
    assert_int_equal(available(), 3000000ull * 1024);
    assert_true(machine().memory_limit == 0); // so many bytes are none
    put("cg/memory/d/memory.limit_in_bytes", "2000000\n");
    put("cg/memory/d/memory.usage_in_bytes", "1500000\n");
    put("cg/memory/d/memory.stat", "inactive_file 7\ntotal_inactive_file 200000\n");
    assert_int_equal(available(), 700000);
    assert_true(machine().memory_limit == 2000000);
}

static void test_this_machine(void **state) {
    (void)state;
    uint64_t n = ht_memory_available("/proc", "/sys/fs/cgroup");
    assert_true(n > 1000000 && n != UINT64_MAX); // nothing to be read: not on Linux
}

// ---- what is needed -----------------------------------------------------------------------------

static const struct ht_engine_source source = {.plan = &fake_plan,
                                               .name = "fake.gguf",
                                               .weight_bytes = 1000000000,
                                               .model_bytes = 123,
                                               .n_ctx_train = 8192};

// The fake takes 1 MB a page in f16 and bf16, 2 in f32, 531,250 bytes in q8_0, 1,062,500 in i16.
static struct hearth_memory plan(uint32_t n_ctx, uint32_t n_seqs, enum hearth_kv_type kv) {
    struct hearth_memory m;
    struct hearth_engine_options o;
    struct ht_engine_tuning tuning = {.backend = &fake_backend, .available = 5};
    ht_engine_options_default(&o);
    o.n_ctx = n_ctx;
    o.n_seqs = n_seqs;
    o.kv_type = kv;
    assert_int_equal(ht_engine_memory(&source, &o, &tuning, &m, NULL), HEARTH_OK);
    assert_int_equal(m.total, m.weights + m.packed + m.kv + m.scratch + m.tokenizer + m.other);
    assert_int_equal(m.available, 5);        // a plan is a plan, fit or not
    struct ht_engine_source copied = source; // what it takes is no longer available, but counts
    copied.taken_bytes = copied.weight_bytes;
    struct hearth_memory c;
    assert_int_equal(ht_engine_memory(&copied, &o, &tuning, &c, NULL), HEARTH_OK);
    assert_int_equal(c.total, m.total);
    assert_int_equal(c.available, 5 + copied.weight_bytes);
    return m;
}

static void test_plan(void **state) {
    (void)state;
    struct hearth_memory m = plan(0, 1, HEARTH_KV_F16); // 0: at most 4096
    assert_int_equal(m.weights, 1000000000);
    assert_int_equal(m.kv, 128 * 1000000);
    assert_int_equal(plan(100, 3, HEARTH_KV_F16).kv, 3 * 4 * 1000000);
    assert_int_equal(plan(100, 3, HEARTH_KV_F32).kv, 3 * 4 * 2000000);
    assert_int_equal(plan(100, 3, HEARTH_KV_I16).kv, 3 * 4 * 1062500);
    assert_true(m.scratch > 1000000 && m.scratch < 1000000 + FAKE_VOCAB * 40 + 400);
    assert_true(m.other > 123 && m.other < 10000000);
}

static void refused_for(const struct ht_engine_source *s, uint32_t n_ctx, uint32_t n_seqs,
                        enum hearth_kv_type kv, uint64_t room, const char *advice) {
    struct hearth_engine *e = NULL;
    struct hearth_error err;
    struct hearth_engine_options o;
    struct ht_engine_tuning tuning = {.backend = &fake_backend, .available = room};
    ht_engine_options_default(&o);
    o.n_ctx = n_ctx;
    o.n_seqs = n_seqs;
    o.kv_type = kv;
    assert_int_equal(ht_engine_create(s, &o, &tuning, &e, &err), HEARTH_E_NOMEM);
    assert_null(e);
    assert_non_null(strstr(err.message, "fake.gguf"));
    assert_non_null(strstr(err.message, "weights 1000 MB"));
    if (!strstr(err.message, advice)) fail_msg("'%s' lacks '%s'", err.message, advice);
}

static void refused(uint32_t n_ctx, uint32_t n_seqs, enum hearth_kv_type kv, uint64_t room,
                    const char *advice) {
    refused_for(&source, n_ctx, n_seqs, kv, room, advice);
}

static void accepted(uint32_t n_ctx, uint32_t n_seqs, enum hearth_kv_type kv, uint64_t room) {
    struct hearth_engine *e = NULL;
    struct hearth_error err;
    struct hearth_engine_options o;
    struct ht_engine_tuning tuning = {.backend = &fake_backend, .available = room};
    ht_engine_options_default(&o);
    o.n_ctx = n_ctx;
    o.n_seqs = n_seqs;
    o.kv_type = kv;
    if (ht_engine_create(&source, &o, &tuning, &e, &err)) fail_msg("%s", err.message);
    ht_engine_destroy(e);
}

// Every piece of advice is true: what it names does fit.
static void test_refusal(void **state) {
    (void)state;
    uint64_t rest = plan(4096, 1, HEARTH_KV_F16).total - 128000000;
    accepted(4096, 1, HEARTH_KV_F16, rest + 128000000);
    refused(4096, 1, HEARTH_KV_F16, rest + 127000000, "--ctx 3840");
    accepted(3840, 1, HEARTH_KV_F16, rest + 127000000);
    refused(4096, 1, HEARTH_KV_F16, rest + 8000000, "--ctx 256");
    refused(4096, 1, HEARTH_KV_F16, rest + 7000000, "no single option");
    refused(4096, 1, HEARTH_KV_F32, rest + 130000000, "--kv-type f16");
    refused(4096, 4, HEARTH_KV_F16, rest + 400000000, "--seqs 3");
    accepted(4096, 3, HEARTH_KV_F16, rest + 400000000);
    refused(4096, 4, HEARTH_KV_F16, rest + 100000000, "--ctx 768");
    for (uint32_t k = 1; k < 8; k += 2) { // exactly what k sequences take
        char text[32];
        snprintf(text, sizeof text, "--seqs %u)", k);
        refused(4096, 8, HEARTH_KV_F16, plan(4096, k, HEARTH_KV_F16).total, text);
    }
    refused(4096, 8, HEARTH_KV_F16, plan(768, 1, HEARTH_KV_F16).total, "--seqs 1 --ctx 768");
    refused(4096, 64, HEARTH_KV_F16, rest + 100000000, "--seqs 1 --ctx 3072");
    accepted(3072, 1, HEARTH_KV_F16, rest + 100000000);
    refused(4096, 1, HEARTH_KV_F16, 900000000, "the weights alone");
    struct ht_engine_source copied = source; // which is no longer available
    copied.taken_bytes = copied.weight_bytes;
    refused_for(&copied, 4096, 1, HEARTH_KV_F16, rest + 127000000 - copied.taken_bytes,
                "--ctx 3840");
}

// Where passes are what does not fit, shorter ones are what helps.
static void test_shorter_passes(void **state) {
    (void)state;
    static const struct {
        uint32_t n_batch, n_logits, less_batch, less_logits;
        const char *advice;
    } cases[] = {{4096, 0, 512, 0, "--batch 512"},
                 {4096, 512, 512, 512, "--batch 512"},
                 {512, 512, 512, 0, "logits of 2 tokens (n_logits)"}};
    for (int i = 0; i < 3; i++) {
        struct hearth_engine *e = NULL;
        struct hearth_error err;
        struct hearth_engine_options o;
        struct hearth_memory m;
        struct ht_engine_tuning tuning = {.backend = &fake_backend};
        ht_engine_options_default(&o);
        o.n_seqs = 2;
        o.n_batch = cases[i].less_batch;
        o.n_logits = cases[i].less_logits;
        o.kv_type = HEARTH_KV_F16;
        assert_int_equal(ht_engine_memory(&source, &o, &tuning, &m, &err), HEARTH_OK);
        tuning.available = m.total;
        if (ht_engine_create(&source, &o, &tuning, &e, &err)) fail_msg("%s", err.message);
        ht_engine_destroy(e);
        o.n_batch = cases[i].n_batch;
        o.n_logits = cases[i].n_logits;
        assert_int_equal(ht_engine_create(&source, &o, &tuning, &e, &err), HEARTH_E_NOMEM);
        if (!strstr(err.message, cases[i].advice))
            fail_msg("'%s' lacks '%s'", err.message, cases[i].advice);
    }
}

// Heads of whole blocks of 32 (the fake's have one element) may go to q8_0.
static void test_smaller_pages(void **state) {
    (void)state;
    struct ht_plan p = fake_plan;
    struct ht_engine_source s = source;
    p.head_dim = 64;
    s.plan = &p;
    uint64_t rest = plan(4096, 1, HEARTH_KV_F16).total - 128000000;
    refused_for(&s, 4096, 1, HEARTH_KV_F32, rest + 128000000, "--kv-type f16");
    refused_for(&s, 4096, 1, HEARTH_KV_F32, rest + 127999999, "--kv-type q8_0");
    refused_for(&s, 4096, 1, HEARTH_KV_BF16, rest + 68000000, "--kv-type q8_0");
    refused_for(&s, 4096, 1, HEARTH_KV_BF16, rest + 67999999, "--ctx 2048");
    refused_for(&s, 4096, 1, HEARTH_KV_Q8_0, rest + 67999999, "--ctx 3840");
    refused_for(&s, 4096, 1, HEARTH_KV_Q8_0, rest + 67999999, "positions in q8_0");
    accepted(4096, 1, HEARTH_KV_BF16, rest + 128000000);
}

static void test_learned_positions(void **state) {
    (void)state;
    static const struct ht_weight weights[1] = {
        {.name = "position_embd.weight", .format = HT_F32, .n_dims = 2, .ne = {8, 512, 1}}};
    static const struct ht_step steps[1] = {{.op = HT_OP_ADD_POS, .n_in = 1, .w = {0}}};
    struct ht_plan p = fake_plan;
    p.steps = steps;
    p.weights = weights;
    p.n_weights = 1;
    struct ht_engine_source s = source;
    s.plan = &p;
    struct ht_engine_tuning tuning = {.backend = &fake_backend, .available = UINT64_MAX};
    struct hearth_engine_options o;
    struct hearth_memory m;
    struct hearth_error err;
    ht_engine_options_default(&o);
    o.n_ctx = 512;
    assert_int_equal(ht_engine_memory(&s, &o, &tuning, &m, &err), HEARTH_OK);
    o.n_ctx = 513;
    assert_int_equal(ht_engine_memory(&s, &o, &tuning, &m, &err), HEARTH_E_ARG);
    assert_non_null(strstr(err.message, "512"));
}

// 256 MB or eight times the caches, at most 2 GB or twice them, and a quarter of what is available.
static void test_ceilings_buffer(void **state) {
    (void)state;
    static const struct {
        uint64_t caches, available, least, most; // MB; most 0: refused
    } rows[] = {{0, 65536, 64, 256},       {34, 65536, 136, 272},    {1024, 65536, 2048, 2048},
                {2048, 65536, 4096, 4096}, {2048, 4096, 1024, 1024}, {34, 400, 100, 100},
                {0, 256, 64, 64},          {0, 255, 0, 0},           {400, 262144, 1600, 2048}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        uint64_t least, most;
        bool ok = ht_ceilings_buffer(rows[i].caches << 20, rows[i].available << 20, &least, &most);
        assert_int_equal(ok, rows[i].most != 0);
        if (!ok) continue;
        assert_int_equal(most >> 20, rows[i].most);
        assert_int_equal(least >> 20, rows[i].least);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_machine, begin, end),
        cmocka_unit_test_setup_teardown(test_meminfo, begin, end),
        cmocka_unit_test_setup_teardown(test_version_2, begin, end),
        cmocka_unit_test_setup_teardown(test_version_1, begin, end),
        cmocka_unit_test(test_this_machine),
        cmocka_unit_test(test_plan),
        cmocka_unit_test(test_refusal),
        cmocka_unit_test(test_shorter_passes),
        cmocka_unit_test(test_smaller_pages),
        cmocka_unit_test(test_learned_positions),
        cmocka_unit_test(test_ceilings_buffer),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
