// SPDX-License-Identifier: MIT
// base: what asks the system. The real allocator, file mappings, the CPU quota.
#include "cmocka_all.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cpus.h"
#include "base/map.h"
#include "base/mem.h"
#include "base/team.h"

static char dir[] = "/tmp/hearth-test-XXXXXX"; // this program's own folder

static int make_dir(void **state) {
    (void)state;
    return mkdtemp(dir) ? 0 : -1;
}

static int remove_dir(void **state) {
    (void)state;
    char command[100];
    snprintf(command, sizeof command, "rm -r %s", dir);
    return system(command);
}

static void write_file(const char *name, const void *data, size_t n) {
    char path[300];
    snprintf(path, sizeof path, "%s/%s", dir, name);
    for (char *p = path + 1; *p; p++)
        if (*p == '/') {
            *p = 0;
            mkdir(path, 0777);
            *p = '/';
        }
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(data, 1, n, f), n);
    fclose(f);
}

static void write_text(const char *name, const char *text) {
    write_file(name, text, strlen(text));
}

// ---- the real allocator (the others have alloc_mem.c)

static void test_mem(void **state) {
    (void)state;
    void *p = ht_alloc(0), *q = ht_calloc(0, 8), *r = ht_realloc(NULL, 0, 0);
    assert_true(p && q && r && p != q);
    ht_free(p), ht_free(q), ht_free(r), ht_free(NULL);
    assert_null(ht_calloc(SIZE_MAX / 2, 3));
    char *s = ht_strndup("text", 4);
    assert_string_equal(s, "text");
    assert_null(ht_realloc(s, SIZE_MAX / 2, 3));
    assert_string_equal(s, "text"); // the old block stays
    assert_null(ht_strndup(s, SIZE_MAX));
    ht_free(s);
    for (size_t align = sizeof(void *); align <= 65536; align *= 2) {
        p = ht_alloc_aligned(align, 100);
        assert_int_equal((uintptr_t)p % align, 0);
        ht_free(p);
    }
}

static void test_pages(void **state) {
    (void)state;
    static const size_t sizes[] = {0, 1, 4096, 100000, (2 << 20) - 1, 2 << 20, (6 << 20) + 5};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        size_t n = sizes[i];
        unsigned char *p = ht_pages_alloc(n);
        assert_non_null(p);
        assert_int_equal((uintptr_t)p % (n >= 2 << 20 ? 2 << 20 : 4096), 0);
        for (size_t k = 0; k < n; k += 1000) assert_int_equal(p[k], 0);
        memset(p, 1, n);
        ht_pages_free(p, n);
    }
    assert_null(ht_pages_alloc(SIZE_MAX));
    assert_null(ht_pages_alloc(SIZE_MAX / 2)); // more than any system maps
    ht_pages_free(NULL, 5);
}

// ---- mappings

static void expect_refused(const char *path, const char *part) {
    struct ht_map m = {.data = (const uint8_t *)1, .len = 2};
    struct hearth_error err;
    assert_int_equal(ht_map_open(path, &m, &err), HEARTH_E_IO);
    assert_ptr_equal(m.data, (const uint8_t *)1); // untouched
    if (!strstr(err.message, path) || !strstr(err.message, part)) fail_msg("%s", err.message);
}

static void test_map_refuses(void **state) {
    (void)state;
    char path[200];
    snprintf(path, sizeof path, "%s/none", dir);
    expect_refused(path, "no such file");
    write_text("file", "x");
    snprintf(path, sizeof path, "%s/file/below", dir);
    expect_refused(path, "not a directory");
    expect_refused(dir, "is a directory");
    expect_refused("/dev/null", "not a regular file");
    snprintf(path, sizeof path, "%s/pipe", dir);
    assert_int_equal(mkfifo(path, 0666), 0);
    expect_refused(path, "not a regular file"); // and does not wait for a writer
    char longest[5000];
    memset(longest, 'a', sizeof longest - 1);
    longest[sizeof longest - 1] = 0;
    struct ht_map m;
    struct hearth_error err;
    assert_int_equal(ht_map_open(longest, &m, NULL), HEARTH_E_IO);
    // Root may read anything, so it takes leave of that for a moment.
    snprintf(path, sizeof path, "%s/file", dir);
    chmod(path, 0);
    bool root = geteuid() == 0;
    if (root) assert_int_equal(seteuid(65534), 0);
    enum hearth_status s = ht_map_open(path, &m, &err);
    if (root) assert_int_equal(seteuid(0), 0);
    assert_int_equal(s, HEARTH_E_IO);
    assert_non_null(strstr(err.message, "no permission"));
}

static void test_map_reads(void **state) {
    (void)state;
    enum { n = 300001 };
    unsigned char *data = malloc(n);
    for (size_t i = 0; i < n; i++) data[i] = (unsigned char)(i * 7 + (i >> 9));
    write_file("data", data, n);
    char path[200];
    snprintf(path, sizeof path, "%s/data", dir);
    struct ht_map m;
    struct hearth_error err;
    assert_int_equal(ht_map_open(path, &m, &err), HEARTH_OK);
    assert_int_equal(m.len, n);
    ht_map_will_need(&m, 0, n);
    ht_map_will_need(&m, 5000, SIZE_MAX);
    ht_map_will_need(&m, n, 1);
    ht_map_will_need(&m, SIZE_MAX, SIZE_MAX);
    unlink(path); // the mapping keeps the file
    assert_memory_equal(m.data, data, n);
    ht_map_close(&m);
    assert_null(m.data);
    ht_map_close(&m);
    free(data);

    write_text("empty", "");
    snprintf(path, sizeof path, "%s/empty", dir);
    assert_int_equal(ht_map_open(path, &m, &err), HEARTH_OK);
    assert_null(m.data);
    assert_int_equal(m.len, 0);
    ht_map_will_need(&m, 0, 1);
    ht_map_close(&m);
}

// ---- cores

static void test_quota_v2(void **state) {
    (void)state;
    char root[200];
    snprintf(root, sizeof root, "%s/v2", dir);
    write_text("v2/cgroup.controllers", "cpu");
    assert_int_equal(ht_cpus_quota(root, "0::/a/b\n"), 0); // no group below, no cpu.max above
    write_text("v2/a/b/cpu.max", "max 100000\n");
    assert_int_equal(ht_cpus_quota(root, "0::/a/b\n"), 0);
    write_text("v2/a/cpu.max", "350000 100000\n");
    assert_int_equal(ht_cpus_quota(root, "0::/a/b\n"), 4); // the parent's, rounded up
    write_text("v2/a/b/cpu.max", "50000 100000\n");
    assert_int_equal(ht_cpus_quota(root, "0::/a/b\n"), 1); // the smallest counts
    assert_int_equal(ht_cpus_quota(root, "0::/a\n"), 4);
    assert_int_equal(ht_cpus_quota(root, "0::/\n"), 0);
    // A container: the path is the host's, the mount is the container's own group.
    write_text("v2/cpu.max", "200000 100000\n");
    assert_int_equal(ht_cpus_quota(root, "0::/docker/0123\n"), 2);
    assert_int_equal(ht_cpus_quota(root, "0::/"), 2);
    write_text("v2/cpu.max", "99999999999999 1\n");
    assert_int_equal(ht_cpus_quota(root, "0::/"), HT_TEAM_MAX);
    static const char *const broken[] = {"", "\n", "max", "x y", "5", "5 0", "-1 100000", "0 5"};
    for (size_t i = 0; i < sizeof broken / sizeof *broken; i++) {
        write_text("v2/cpu.max", broken[i]);
        assert_int_equal(ht_cpus_quota(root, "0::/"), 0);
    }
}

static void test_quota_v1(void **state) {
    (void)state;
    char root[200];
    snprintf(root, sizeof root, "%s/v1", dir);
    const char *groups = "5:memory:/m\n4:cpu,cpuacct:/a/b\n1:name=systemd:/\n0::/\n";
    write_text("v1/cpu,cpuacct/a/b/cpu.cfs_quota_us", "-1\n");
    write_text("v1/cpu,cpuacct/a/b/cpu.cfs_period_us", "100000\n");
    assert_int_equal(ht_cpus_quota(root, groups), 0);
    write_text("v1/cpu,cpuacct/cpu.cfs_quota_us", "250000\n");
    write_text("v1/cpu,cpuacct/cpu.cfs_period_us", "100000\n");
    assert_int_equal(ht_cpus_quota(root, groups), 3);
    // The two mounted apart, and a hierarchy whose name only resembles.
    assert_int_equal(ht_cpus_quota(root, "3:cpuset:/a/b\n"), 0);
    write_text("v1/cpu/cpu.cfs_quota_us", "100000\n");
    write_text("v1/cpu/cpu.cfs_period_us", "100000\n");
    assert_int_equal(ht_cpus_quota(root, "2:cpuacct:/\n1:cpu:/\n"), 1);
    assert_int_equal(ht_cpus_quota(root, ""), 0);
    assert_int_equal(ht_cpus_quota(root, "no colons"), 0);
    assert_int_equal(ht_cpus_quota(root, "1:one"), 0);
    assert_int_equal(ht_cpus_quota("/nowhere", groups), 0);
}

static void test_default_threads(void **state) {
    (void)state;
    int n = ht_team_default_threads();
    assert_in_range(n, 1, sysconf(_SC_NPROCESSORS_ONLN));
    cpu_set_t before, one;
    assert_int_equal(sched_getaffinity(0, sizeof before, &before), 0);
    CPU_ZERO(&one);
    for (int i = 0; i < CPU_SETSIZE; i++)
        if (CPU_ISSET(i, &before)) {
            CPU_SET(i, &one);
            break;
        }
    if (sched_setaffinity(0, sizeof one, &one) != 0) skip();
    assert_int_equal(ht_team_default_threads(), 1);
    sched_setaffinity(0, sizeof before, &before);
    assert_int_equal(ht_team_default_threads(), n);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_mem),
        cmocka_unit_test(test_pages),
        cmocka_unit_test(test_map_refuses),
        cmocka_unit_test(test_map_reads),
        cmocka_unit_test(test_quota_v2),
        cmocka_unit_test(test_quota_v1),
        cmocka_unit_test(test_default_threads),
    };
    return cmocka_run_group_tests_name("system", tests, make_dir, remove_dir);
}
