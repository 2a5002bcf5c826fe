// SPDX-License-Identifier: MIT
// base: what asks the system. The real allocator, file mappings, the CPU quota.
#include "cmocka_all.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "base/cgroup.h"
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

        p = ht_pages_alloc(n);
        assert_non_null(p);
        assert_true(ht_pages_touch(p, n));
        size_t page = (size_t)sysconf(_SC_PAGESIZE), n_pages = (n + page - 1) / page;
        unsigned char in_memory[2048] = {0};
        assert_int_equal(mincore(p, n, in_memory), 0);
        for (size_t k = 0; k < n_pages; k++) assert_int_equal(in_memory[k] & 1, 1);
        for (size_t k = 0; k < n; k += 1000) assert_int_equal(p[k], 0);
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
    err.message[0] = 0;
    assert_int_equal(ht_map_copy(path, &(uint64_t){UINT64_MAX}, &m, &err), HEARTH_E_IO);
    assert_ptr_equal(m.data, (const uint8_t *)1);
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
    if (root && seteuid(65534) != 0) { // in a namespace that has no other user
        print_message("not tried: a file without permission\n");
        return;
    }
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
    ht_map_close(&m);
}

// A copy has the file's bytes, and keeps them when the file changes.
static void test_map_copies(void **state) {
    (void)state;
    enum { n = (5 << 20) + 77 };
    unsigned char *data = malloc(n);
    for (size_t i = 0; i < n; i++) data[i] = (unsigned char)(i * 13 + (i >> 11));
    write_file("data", data, n);
    char path[200];
    snprintf(path, sizeof path, "%s/data", dir);
    struct ht_map m, mapped;
    struct hearth_error err;
    assert_int_equal(ht_map_copy(path, &(uint64_t){UINT64_MAX}, &m, &err), HEARTH_OK);
    assert_int_equal(m.len, n);
    assert_true(m.resident);
    write_text("data", "other");
    assert_memory_equal(m.data, data, n);
    uint64_t n_large = 1;
    bool known = ht_map_large_bytes(&m, &n_large);
    assert_true(n_large <= n && (known || n_large == 0));
    ht_map_close(&m);
    assert_null(m.data);
    free(data);

    write_text("data", "a few bytes");
    assert_int_equal(ht_map_open(path, &mapped, &err), HEARTH_OK);
    assert_int_equal(ht_map_copy(path, &(uint64_t){UINT64_MAX}, &m, &err), HEARTH_OK);
    assert_int_equal(m.len, mapped.len);
    assert_memory_equal(m.data, mapped.data, m.len);
    ht_map_large_bytes(&m, &n_large); // less than one
    assert_int_equal(n_large, 0);
    ht_map_close(&m);
    ht_map_close(&mapped);

    // No more than there is memory for.
    uint64_t left;
    snprintf(path, sizeof path, "%s/data", dir);
    left = 1000;
    assert_int_equal(ht_map_copy(path, &left, &m, &err), HEARTH_OK);
    assert_int_equal(left, 1000 - m.len);
    size_t n_data = m.len;
    ht_map_close(&m);
    left = n_data - 1;
    assert_int_equal(ht_map_copy(path, &left, &m, &err), HEARTH_E_NOMEM);
    assert_int_equal(left, n_data - 1);
    assert_non_null(strstr(err.message, "a copy takes"));

    // Longer than what is read at once: a hole, and a few bytes behind it.
    enum { FAR = 65 << 20 };
    snprintf(path, sizeof path, "%s/data", dir);
    assert_int_equal(truncate(path, FAR), 0);
    FILE *f = fopen(path, "ab");
    assert_non_null(f);
    assert_int_equal(fwrite("the end", 1, 7, f), 7);
    fclose(f);
    assert_int_equal(ht_map_copy(path, &(uint64_t){UINT64_MAX}, &m, &err), HEARTH_OK);
    assert_int_equal(m.len, FAR + 7);
    assert_memory_equal(m.data, "a few bytes", 12);
    assert_memory_equal(m.data + FAR, "the end", 7);
    ht_map_close(&m);

    write_text("empty", "");
    snprintf(path, sizeof path, "%s/empty", dir);
    assert_int_equal(ht_map_copy(path, &(uint64_t){UINT64_MAX}, &m, &err), HEARTH_OK);
    assert_true(!m.data && m.len == 0);
    assert_false(ht_map_large_bytes(&m, &n_large));
    ht_map_close(&m);
}

// A file that is nowhere but in memory takes it, whether or not it is mapped.
static void test_map_in_memory(void **state) {
    (void)state;
    char path[] = "/dev/shm/hearth-test-XXXXXX";
    struct statfs fs;
    int fd = statfs("/dev/shm", &fs) == 0 && fs.f_type == 0x01021994 ? mkstemp(path) : -1;
    if (fd < 0) skip(); // no tmpfs there
    ssize_t n = write(fd, "text", 4);
    close(fd);
    if (n != 4) unlink(path), skip(); // full
    struct ht_map m;
    struct hearth_error err;
    enum hearth_status s = ht_map_open(path, &m, &err);
    unlink(path);
    assert_true(s == HEARTH_OK && m.resident);
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
    assert_int_equal(ht_cpus_quota(root, "0::/a/b\n"), 4); // the parent's, half a CPU is one
    write_text("v2/a/cpu.max", "349999 100000\n");
    assert_int_equal(ht_cpus_quota(root, "0::/a/b\n"), 3);
    write_text("v2/a/b/cpu.max", "50000 100000\n");
    assert_int_equal(ht_cpus_quota(root, "0::/a/b\n"), 1); // the smallest counts
    assert_int_equal(ht_cpus_quota(root, "0::/a\n"), 3);
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

static void add_folder(void *user, const char *folder, bool v2) {
    char *all = user;
    size_t n = strlen(all);
    snprintf(all + n, 1024 - n, "%s%s ", folder, v2 ? "" : ":1");
}

// Every place where a group's files may stand, from the group up.
static void test_cgroup_walk(void **state) {
    (void)state;
    static const struct {
        const char *groups, *folders;
    } cases[] = {
        {"0::/", "/r /r/unified "},
        {"0::/a/b\n", "/r/a/b /r/a /r /r/unified/a/b /r/unified/a /r/unified "},
        {"9:hugetlb,memory:/m\n",
         "/r/hugetlb,memory/m:1 /r/hugetlb,memory:1 /r/memory/m:1 /r/memory:1 "},
        {"9:memory:/\n8:cpu:/x", "/r/memory:1 "},
        {"9:memory2,mem:/\n\n:\n::\n", "/r /r/unified "},
        {"", ""},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char all[1024] = "";
        ht_cgroup_walk("/r", cases[i].groups, "memory", add_folder, all);
        assert_string_equal(all, cases[i].folders);
    }
    static char long_line[5000] = "0::/";
    memset(long_line + 4, 'a', sizeof long_line - 5);
    char all[1024] = "";
    ht_cgroup_walk("/r", long_line, "memory", add_folder, all);
    assert_string_equal(all, "");
}

// A folder of fake CPUs: each line is siblings, capacity, frequency of one; - is no file.
static const char *fake_cpus(const char *name, const char *const *lines) {
    static char root[200];
    snprintf(root, sizeof root, "%s/%s", dir, name);
    for (int cpu = 0; lines[cpu]; cpu++) {
        static const char *const files[] = {"topology/thread_siblings_list", "cpu_capacity",
                                            "cpufreq/cpuinfo_max_freq"};
        char word[3][40], path[150];
        assert_int_equal(sscanf(lines[cpu], "%39s %39s %39s", word[0], word[1], word[2]), 3);
        for (int i = 0; i < 3; i++) {
            snprintf(path, sizeof path, "%s/cpu%d/%s", name, cpu, files[i]);
            if (strcmp(word[i], "-") != 0) write_text(path, word[i]);
        }
    }
    return root;
}

static void expect_cores(const char *root, unsigned allowed, int n_cores, int n_fast) {
    cpu_set_t set;
    int cores = -1, fast = -1;
    CPU_ZERO(&set);
    for (size_t i = 0; i < 32; i++)
        if (allowed >> i & 1) CPU_SET(i, &set);
    ht_cpus_cores(root, &set, &cores, &fast);
    if (cores != n_cores || fast != n_fast)
        fail_msg("%s, CPUs %x: %d cores, %d fast; expected %d and %d", root, allowed, cores, fast,
                 n_cores, n_fast);
}

// Each cache once, of the CPUs that are allowed.
static void test_large_caches(void **state) {
    (void)state;
    static const char *const lists[] = {"0-1", "0-1", "2-3", "2-3"};
    char root[200], name[60];
    cpu_set_t set;
    snprintf(root, sizeof root, "%s/caches", dir);
    CPU_ZERO(&set);
    CPU_SET(1, &set);
    assert_true(ht_cpus_large_caches(root, &set) == 0);
    for (int cpu = 0; cpu < 4; cpu++) {
        snprintf(name, sizeof name, "caches/cpu%d/cache/index3/shared_cpu_list", cpu);
        write_text(name, lists[cpu]);
        snprintf(name, sizeof name, "caches/cpu%d/cache/index3/size", cpu);
        write_text(name, cpu < 2 ? "32768K\n" : "1M");
    }
    assert_true(ht_cpus_large_caches(root, &set) == 32 << 20);
    for (size_t cpu = 0; cpu < 4; cpu++) CPU_SET(cpu, &set);
    assert_true(ht_cpus_large_caches(root, &set) == 33 << 20);
    for (int cpu = 0; cpu < 4; cpu++) { // one each
        char own[2] = {(char)('0' + cpu)};
        snprintf(name, sizeof name, "caches/cpu%d/cache/index2/shared_cpu_list", cpu);
        write_text(name, own);
        snprintf(name, sizeof name, "caches/cpu%d/cache/index2/size", cpu);
        write_text(name, "2048K\n");
    }
    assert_true(ht_cpus_large_caches(root, &set) == 41 << 20);
}

static void test_cores(void **state) {
    (void)state;
    expect_cores("/nowhere", 0xff, 8, 8); // nothing known: a core each, all fast
    expect_cores("/nowhere", 0, 1, 1);
    // Two threads a core, written as lists and as ranges.
    static const char *const smt_lines[] = {"0,4 - -", "1,5 - -", "2,6 - -", "3,7 - -", "0,4 - -",
                                            "1,5 - -", "2,6 - -", "3,7 - -", NULL};
    const char *smt = fake_cpus("smt", smt_lines);
    expect_cores(smt, 0xff, 4, 4);
    expect_cores(smt, 0x11, 1, 1); // both threads of one
    expect_cores(smt, 0xf0, 4, 4); // the second ones, where the first are not for us
    expect_cores(smt, 0xf1, 4, 4);
    static const char *const range_lines[] = {"0-1 - -", "0-1 - -", "2-3 - -", "2-3 - -", NULL};
    const char *range = fake_cpus("range", range_lines);
    expect_cores(range, 0xf, 2, 2);
    expect_cores(range, 0xa, 2, 2);
    // Hybrid, by frequency: two fast cores of two threads, turbo a little apart; four slow ones.
    static const char *const hybrid_lines[] = {"0-1 - 5200000", "0-1 - 5200000", "2-3 - 5000000",
                                               "2-3 - 5000000", "4 - 3900000",   "5 - 3900000",
                                               "6 - 3900000",   "7 - 3900000",   NULL};
    const char *hybrid = fake_cpus("hybrid", hybrid_lines);
    expect_cores(hybrid, 0xff, 6, 2);
    expect_cores(hybrid, 0xf0, 4, 4); // only slow ones are for us: they are the fastest there are
    expect_cores(hybrid, 0xf3, 5, 1);
    // Arm, by capacity: four and four; one, three and four; and slow ones so near that all pay.
    static const char *const four_lines[] = {"0 446 -",  "1 446 -",  "2 446 -",
                                             "3 446 -",  "4 1024 -", "5 1024 -",
                                             "6 1024 -", "7 1024 -", NULL};
    expect_cores(fake_cpus("four", four_lines), 0xff, 8, 4);
    static const char *const tri_lines[] = {"0 325 -", "1 325 -", "2 325 -",  "3 325 -", "4 828 -",
                                            "5 828 -", "6 828 -", "7 1024 -", NULL};
    const char *tri = fake_cpus("tri", tri_lines);
    expect_cores(tri, 0xff, 8, 4);
    expect_cores(tri, 0x8f, 5, 5); // 5 * 325 beats 1024 alone
    static const char *const near_lines[] = {"0 800 -", "1 800 -", "2 1024 -", "3 1024 -", NULL};
    expect_cores(fake_cpus("near", near_lines), 0xf, 4, 4);
    // Capacity goes before frequency; a core that lacks it lets frequency decide; neither: all.
    static const char *const both_lines[] = {"0 1024 1000", "1 1024 9000", "2 100 9000", NULL};
    expect_cores(fake_cpus("both", both_lines), 7, 3, 2);
    // All the same says nothing: frequency decides. (Hybrid x86 since Linux 6.16.)
    static const char *const same_lines[] = {"0-1 1024 5200000",
                                             "0-1 1024 5200000",
                                             "2-3 1024 5000000",
                                             "2-3 1024 5000000",
                                             "4 1024 3900000",
                                             "5 1024 3900000",
                                             NULL};
    expect_cores(fake_cpus("same", same_lines), 0x3f, 4, 2);
    static const char *const half_lines[] = {"0 1024 1000", "1 - 9000", "2 100 9000", NULL};
    expect_cores(fake_cpus("half", half_lines), 7, 3, 2);
    static const char *const none_lines[] = {"0 1024 -", "1 - 9000", "x 0 nonsense", NULL};
    expect_cores(fake_cpus("none", none_lines), 7, 3, 3);
}

static void test_masks(void **state) {
    (void)state;
    int cpus[HT_TEAM_MAX], n = -7;
    struct hearth_error err;
    assert_int_equal(ht_cpus_parse_mask("f0", cpus, &n, &err), HEARTH_OK);
    assert_int_equal(n, 4);
    for (int i = 0; i < 4; i++) assert_int_equal(cpus[i], 4 + i);
    assert_int_equal(ht_cpus_parse_mask("0X8000000000000000000A", cpus, &n, &err), HEARTH_OK);
    assert_int_equal(n, 3);
    assert_true(cpus[0] == 1 && cpus[1] == 3 && cpus[2] == 79);
    static const char *const bad[] = {"", "0x", "g", "1 ", "-1", "0x0x1", "f,f", "\xc3\xa9"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        n = -7;
        assert_int_equal(ht_cpus_parse_mask(bad[i], cpus, &n, &err), HEARTH_E_ARG);
        assert_non_null(strstr(err.message, "a hexadecimal number was expected"));
        assert_int_equal(n, -7);
    }
    assert_int_equal(ht_cpus_parse_mask("000", cpus, &n, &err), HEARTH_E_ARG);
    assert_non_null(strstr(err.message, "holds no CPU"));
    char text[400];
    memset(text, 'f', sizeof text);
    text[HT_TEAM_MAX / 4] = 0;
    assert_int_equal(ht_cpus_parse_mask(text, cpus, &n, &err), HEARTH_OK);
    assert_int_equal(n, HT_TEAM_MAX);
    text[HT_TEAM_MAX / 4] = 'f', text[HT_TEAM_MAX / 4 + 1] = 0;
    assert_int_equal(ht_cpus_parse_mask(text, cpus, &n, &err), HEARTH_E_ARG); // too many
    memset(text, '0', sizeof text);
    text[0] = '1', text[CPU_SETSIZE / 4] = 0; // CPU 1020
    assert_int_equal(ht_cpus_parse_mask(text, cpus, &n, &err), HEARTH_OK);
    assert_int_equal(cpus[0], 1020);
    text[CPU_SETSIZE / 4] = '0', text[CPU_SETSIZE / 4 + 1] = 0; // CPU 1024
    assert_int_equal(ht_cpus_parse_mask(text, cpus, &n, &err), HEARTH_E_ARG);
}

static void test_default_threads(void **state) {
    (void)state;
    int n = ht_team_default_threads();
    assert_between(n, 1, ht_team_usable_cpus());
    assert_between(ht_team_usable_cpus(), 1, sysconf(_SC_NPROCESSORS_ONLN));
    struct ht_cpus c;
    ht_cpus_get(&c);
    assert_between(c.n_affinity, c.n_cores, c.n_online);
    assert_between(c.n_fast, 1, c.n_cores);
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
        cmocka_unit_test(test_map_copies),
        cmocka_unit_test(test_map_in_memory),
        cmocka_unit_test(test_quota_v2),
        cmocka_unit_test(test_quota_v1),
        cmocka_unit_test(test_cgroup_walk),
        cmocka_unit_test(test_cores),
        cmocka_unit_test(test_large_caches),
        cmocka_unit_test(test_masks),
        cmocka_unit_test(test_default_threads),
    };
    return cmocka_run_group_tests_name("system", tests, make_dir, remove_dir);
}
