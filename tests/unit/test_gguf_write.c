// SPDX-License-Identifier: MIT
// The writer: what it wrote reads back the same, refusals stick, a failure leaves the old file, and
// memory that runs out at any point is told and freed.
#include "cmocka_all.h"

#include <signal.h>
#include <stdio.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "alloc_mem.h"
#include "gguf/gguf.h"
#include "unit/gguf_make.h"

static char folder[] = "/tmp/hearth-gguf-XXXXXX", path[64], copy[64];

static int set_up(void **state) {
    (void)state;
    if (!mkdtemp(folder)) return -1;
    snprintf(path, sizeof(path), "%s/w.gguf", folder);
    snprintf(copy, sizeof(copy), "%s/c.gguf", folder);
    return 0;
}

static int tear_down(void **state) {
    (void)state;
    unlink(path);
    unlink(copy);
    return rmdir(folder); // fails if a temporary file was left behind
}

static const float weights[6] = {1, -2, 3, 0.5f, 0, 9};
static const uint8_t blocks[68] = {1, 2, 3};

static void put_all(struct ht_gguf_writer *w) {
    ht_gguf_put_str(w, "general.architecture", "llama", 5);
    ht_gguf_put_u32(w, "general.alignment", 64);
    ht_gguf_put_u64(w, "a.u64", UINT64_MAX);
    ht_gguf_put_i32(w, "a.i32", -7);
    ht_gguf_put_f32(w, "a.f32", 1.5f);
    ht_gguf_put_bool(w, "a.bool", true);
    ht_gguf_put_str_array(w, "a.words", (struct ht_str[]){{"the", 3}, {NULL, 0}, {"a\0b", 3}}, 3);
    ht_gguf_put_array(w, "a.list", HT_GGUF_I16, (int16_t[]){-1, 2, 300}, 3);
    ht_gguf_put_array(w, "a.none", HT_GGUF_F32, NULL, 0);
    ht_gguf_put_tensor(w, "t.f32", HT_F32, 2, (uint64_t[]){3, 2}, weights);
    ht_gguf_put_tensor(w, "t.q8", HT_Q8_0, 1, (uint64_t[]){64}, blocks);
}

static void check_all(const struct ht_gguf *g) {
    struct ht_str s;
    uint32_t u = 0;
    const uint8_t *cursor = NULL;
    assert_int_equal(ht_gguf_version(g), 3);
    assert_int_equal(ht_gguf_n_kv(g), 9);
    assert_int_equal(ht_gguf_get_u32(g, "general.alignment", true, &u, NULL), HEARTH_OK);
    assert_int_equal(u, 64);
    assert_true(ht_gguf_num_at(ht_gguf_find(g, "a.u64"), 0) == 18446744073709551616.0);
    assert_int_equal(ht_gguf_int_at(ht_gguf_find(g, "a.i32"), 0), -7);
    assert_true(ht_gguf_num_at(ht_gguf_find(g, "a.f32"), 0) == 1.5);
    assert_int_equal(ht_gguf_find(g, "a.bool")->value[0], 1);
    assert_int_equal(ht_gguf_int_at(ht_gguf_find(g, "a.list"), 2), 300);
    assert_int_equal(ht_gguf_find(g, "a.none")->n, 0);
    const struct ht_gguf_kv *words = ht_gguf_find(g, "a.words");
    for (int i = 0; i < 3; i++) assert_true(ht_gguf_next_str(words, &cursor, &s));
    assert_int_equal(s.len, 3);
    assert_memory_equal(s.data, "a\0b", 3);
    const struct ht_gguf_tensor *t = ht_gguf_find_tensor(g, "t.f32");
    assert_int_equal(t->n_dims, 2);
    assert_int_equal(t->ne[0], 3);
    assert_int_equal(t->ne[1], 2);
    assert_int_equal(t->offset % 64, 0);
    assert_memory_equal(t->data, weights, sizeof(weights));
    t = ht_gguf_find_tensor(g, "t.q8");
    assert_int_equal(t->offset % 64, 0);
    assert_int_equal(t->n_bytes, sizeof(blocks));
    assert_memory_equal(t->data, blocks, sizeof(blocks));
}

static struct ht_gguf *open_path(const char *p) {
    struct hearth_error err;
    struct ht_gguf *g = NULL;
    if (ht_gguf_open(p, &g, &err)) fail_msg("%s", err.message);
    return g;
}

static void test_round_trip(void **state) {
    (void)state;
    struct hearth_error err;
    struct ht_gguf_writer *w;
    assert_int_equal(ht_gguf_writer_create(&w, &err), HEARTH_OK);
    put_all(w);
    if (ht_gguf_writer_finish(w, path, &err)) fail_msg("%s", err.message);
    ht_gguf_writer_destroy(w);
    struct ht_gguf *g = open_path(path);
    check_all(g);

    // Copied entry by entry, the file comes out byte for byte the same.
    assert_int_equal(ht_gguf_writer_create(&w, &err), HEARTH_OK);
    for (size_t i = 0; i < ht_gguf_n_kv(g); i++) ht_gguf_put_kv(w, ht_gguf_kv_at(g, i));
    for (size_t i = 0; i < ht_gguf_n_tensors(g); i++) {
        const struct ht_gguf_tensor *t = ht_gguf_tensor_at(g, i);
        ht_gguf_put_tensor(w, t->name, t->format, t->n_dims, t->ne, t->data);
    }
    if (ht_gguf_writer_finish(w, copy, &err)) fail_msg("%s", err.message);
    ht_gguf_writer_destroy(w);
    struct ht_gguf *c = open_path(copy);
    assert_int_equal(ht_gguf_file_bytes(c), ht_gguf_file_bytes(g));
    const struct ht_gguf_tensor *tg = ht_gguf_tensor_at(g, 0), *tc = ht_gguf_tensor_at(c, 0);
    assert_int_equal(tg->offset, tc->offset);
    assert_memory_equal(tg->data - tg->offset, tc->data - tc->offset, ht_gguf_file_bytes(g));
    ht_gguf_close(c);
    ht_gguf_close(g);
}

// The writer against bytes made by hand.
static void test_exact_bytes(void **state) {
    (void)state;
    static struct bytes o;
    struct hearth_error err;
    struct ht_gguf_writer *w;
    uint8_t got[1024];
    put_head(&o, 3, 1, 2);
    put_key(&o, "general.name", HT_GGUF_STR);
    put_str(&o, "x");
    put_key(&o, "a.b", HT_GGUF_BOOL);
    put(&o, "\1", 1);
    put_tensor(&o, "t", 2, (uint64_t[]){3, 2}, HT_F32, 0);
    put_pad(&o, 32);
    put(&o, weights, sizeof(weights));
    put_pad(&o, 32);
    assert_int_equal(ht_gguf_writer_create(&w, &err), HEARTH_OK);
    ht_gguf_put_str(w, "general.name", "x", 1);
    ht_gguf_put_bool(w, "a.b", true);
    ht_gguf_put_tensor(w, "t", HT_F32, 2, (uint64_t[]){3, 2}, weights);
    assert_int_equal(ht_gguf_writer_finish(w, path, &err), HEARTH_OK);
    ht_gguf_writer_destroy(w);
    FILE *f = fopen(path, "rb");
    size_t n = fread(got, 1, sizeof(got), f);
    fclose(f);
    assert_int_equal(n, o.n);
    assert_memory_equal(got, o.b, n);
}

// What lies between tensors is zeros, however far apart they are.
static void test_padding(void **state) {
    (void)state;
    static uint8_t got[1 << 16];
    const size_t align = 4096;
    struct hearth_error err;
    struct ht_gguf_writer *w;
    assert_int_equal(ht_gguf_writer_create(&w, &err), HEARTH_OK);
    ht_gguf_put_u32(w, "general.alignment", (uint32_t)align);
    ht_gguf_put_tensor(w, "t", HT_F32, 2, (uint64_t[]){3, 2}, weights);
    ht_gguf_put_tensor(w, "u", HT_F32, 2, (uint64_t[]){3, 2}, weights);
    assert_int_equal(ht_gguf_writer_finish(w, path, &err), HEARTH_OK);
    ht_gguf_writer_destroy(w);
    struct ht_gguf *g = open_path(path);
    size_t head = align; // where the first tensor begins
    assert_int_equal(ht_gguf_tensor_at(g, 0)->offset, head);
    assert_int_equal(ht_gguf_tensor_at(g, 1)->offset, head + align);
    ht_gguf_close(g);
    FILE *f = fopen(path, "rb");
    size_t n = fread(got, 1, sizeof got, f);
    fclose(f);
    assert_int_equal(n, head + 2 * align);
    for (size_t i = 0; i < 2; i++) {
        const uint8_t *t = got + head + i * align;
        assert_memory_equal(t, weights, sizeof weights);
        for (size_t k = sizeof weights; k < align; k++) assert_int_equal(t[k], 0);
    }
    for (size_t k = head - 3000; k < head; k++) assert_int_equal(got[k], 0);
}

static void refuse(void (*spoil)(struct ht_gguf_writer *), enum hearth_status status,
                   const char *says) {
    struct hearth_error err = {HEARTH_OK, ""};
    struct ht_gguf_writer *w;
    struct stat before, after;
    assert_int_equal(stat(path, &before), 0);
    assert_int_equal(ht_gguf_writer_create(&w, &err), HEARTH_OK);
    ht_gguf_put_u32(w, "a.first", 1);
    ht_gguf_put_tensor(w, "t.first", HT_F32, 2, (uint64_t[]){3, 2}, weights);
    spoil(w);
    ht_gguf_put_u32(w, "a.last", 1); // does not make it good again
    enum hearth_status s = ht_gguf_writer_finish(w, path, &err);
    if (s != status || !strstr(err.message, says)) fail_msg("%s, not %s", err.message, says);
    ht_gguf_writer_destroy(w);
    assert_int_equal(stat(path, &after), 0);
    assert_int_equal(before.st_ino, after.st_ino); // the old file stands
}

static void key_twice(struct ht_gguf_writer *w) {
    ht_gguf_put_f32(w, "a.first", 1);
}
static void key_empty(struct ht_gguf_writer *w) {
    ht_gguf_put_u32(w, "", 1);
}
static void key_control(struct ht_gguf_writer *w) {
    ht_gguf_put_u32(w, "a\nb", 1);
}
static void align_odd(struct ht_gguf_writer *w) {
    ht_gguf_put_u32(w, "general.alignment", 48);
}
static void align_huge(struct ht_gguf_writer *w) {
    ht_gguf_put_u32(w, "general.alignment", 1u << 31);
}
static void tensor_none(struct ht_gguf_writer *w) {
    ht_gguf_put_tensor(w, "t.b", HT_F32, 0, (uint64_t[]){1}, weights);
}
static void array_of_str(struct ht_gguf_writer *w) {
    ht_gguf_put_array(w, "a.b", HT_GGUF_STR, "x", 1);
}
static void array_huge(struct ht_gguf_writer *w) {
    ht_gguf_put_array(w, "a.b", HT_GGUF_F64, "x", SIZE_MAX / 4);
}
static void tensor_twice(struct ht_gguf_writer *w) {
    ht_gguf_put_tensor(w, "t.first", HT_F32, 1, (uint64_t[]){6}, weights);
}
static void tensor_block(struct ht_gguf_writer *w) {
    ht_gguf_put_tensor(w, "t.b", HT_Q8_0, 1, (uint64_t[]){33}, weights);
}
static void tensor_dims(struct ht_gguf_writer *w) {
    ht_gguf_put_tensor(w, "t.b", HT_F32, 5, (uint64_t[]){1, 1, 1, 1, 1}, weights);
}
static void tensor_zero(struct ht_gguf_writer *w) {
    ht_gguf_put_tensor(w, "t.b", HT_F32, 2, (uint64_t[]){4, 0}, weights);
}
static void tensor_format(struct ht_gguf_writer *w) {
    ht_gguf_put_tensor(w, "t.b", (enum ht_format)5, 1, (uint64_t[]){4}, weights);
}
static void tensor_long(struct ht_gguf_writer *w) {
    char name[66] = {0};
    memset(name, 'n', 65);
    ht_gguf_put_tensor(w, name, HT_F32, 1, (uint64_t[]){4}, weights);
}

static void test_refusals(void **state) {
    (void)state;
    refuse(key_twice, HEARTH_E_ARG, "metadata key a.first was given twice");
    refuse(key_empty, HEARTH_E_ARG, "metadata key ''");
    refuse(key_control, HEARTH_E_ARG, "'a\\x0ab'");
    refuse(align_odd, HEARTH_E_ARG, "general.alignment is 48");
    refuse(align_huge, HEARTH_E_ARG, "general.alignment is 2147483648");
    refuse(tensor_none, HEARTH_E_ARG, "tensor t.b of 0 dimensions");
    refuse(array_of_str, HEARTH_E_ARG, "a.b: numbers or bools were expected, not str");
    refuse(array_huge, HEARTH_E_ARG, "a.b");
    refuse(tensor_twice, HEARTH_E_ARG, "tensor t.first was given twice");
    refuse(tensor_block, HEARTH_E_ARG, "tensor t.b");
    refuse(tensor_dims, HEARTH_E_ARG, "tensor t.b of 5 dimensions");
    refuse(tensor_zero, HEARTH_E_ARG, "tensor t.b");
    refuse(tensor_format, HEARTH_E_ARG, "(unknown)");
    refuse(tensor_long, HEARTH_E_ARG, "tensor name");
}

// A folder comes where the file was to go, when all is written: that stays under its first name.
static bool take_place(void *user, uint64_t done, uint64_t total) {
    if (done == total) (void)!mkdir(user, 0777);
    return true;
}

static void test_place_taken(void **state) {
    (void)state;
    struct hearth_error err;
    struct ht_gguf_writer *w;
    struct ht_gguf *g;
    char to[128], tmp[160];
    snprintf(to, sizeof to, "%s/taken.gguf", folder);
    snprintf(tmp, sizeof tmp, "%s.tmp", to);
    assert_int_equal(ht_gguf_writer_create(&w, &err), HEARTH_OK);
    put_all(w);
    ht_gguf_writer_watch(w, take_place, to);
    assert_int_equal(ht_gguf_writer_finish(w, to, &err), HEARTH_E_IO);
    assert_non_null(strstr(err.message, "cannot be replaced"));
    assert_non_null(strstr(err.message, "the file is complete in "));
    ht_gguf_writer_destroy(w);
    assert_int_equal(ht_gguf_open(tmp, &g, &err), HEARTH_OK);
    ht_gguf_close(g);
    assert_int_equal(unlink(tmp), 0);
    assert_int_equal(rmdir(to), 0);
}

static void test_no_place(void **state) {
    (void)state;
    struct hearth_error err;
    struct ht_gguf_writer *w;
    char sub[128];
    assert_int_equal(ht_gguf_writer_create(&w, &err), HEARTH_OK);
    put_all(w);
    snprintf(sub, sizeof(sub), "%s/none/w.gguf", folder);
    assert_int_equal(ht_gguf_writer_finish(w, sub, &err), HEARTH_E_IO);
    assert_non_null(strstr(err.message, "none/w.gguf.tmp: cannot be created"));
    char tmp[160];
    snprintf(tmp, sizeof(tmp), "%s.tmp", path);
    struct rlimit before, little; // of a file's size
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
    little = (struct rlimit){.rlim_cur = 100, .rlim_max = before.rlim_max};
    sigset_t waiting;
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &little), 0);
    enum hearth_status s = ht_gguf_writer_finish(w, path, &err); // SIGXFSZ would end the process
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
    assert_int_equal(s, HEARTH_E_IO);
    assert_int_equal(sigpending(&waiting), 0);
    assert_false(sigismember(&waiting, SIGXFSZ));
    assert_int_equal(pthread_sigmask(SIG_BLOCK, NULL, &waiting), 0);
    assert_false(sigismember(&waiting, SIGXFSZ));
    assert_non_null(strstr(err.message, "cannot be written: File too large"));
    assert_int_not_equal(access(tmp, F_OK), 0);
    // Nor does it go through a link to somewhere else.
    snprintf(sub, sizeof(sub), "%s/elsewhere", folder);
    assert_int_equal(symlink(sub, tmp), 0);
    assert_int_equal(ht_gguf_writer_finish(w, path, &err), HEARTH_E_IO);
    assert_non_null(strstr(err.message, "is there already"));
    assert_int_not_equal(access(sub, F_OK), 0);
    assert_int_equal(unlink(tmp), 0);
    // A file in the way stays as it is: it may be what is being copied.
    FILE *f = fopen(tmp, "w");
    assert_true(f && fputs("mine", f) >= 0 && fclose(f) == 0);
    assert_int_equal(ht_gguf_writer_finish(w, path, &err), HEARTH_E_IO);
    assert_non_null(strstr(err.message, "is there already"));
    char kept[8] = "";
    f = fopen(tmp, "r");
    assert_true(f && fgets(kept, sizeof(kept), f) && fclose(f) == 0);
    assert_string_equal(kept, "mine");
    assert_int_equal(unlink(tmp), 0);
    // A finish that failed may be tried again elsewhere.
    assert_int_equal(ht_gguf_writer_finish(w, path, &err), HEARTH_OK);
    ht_gguf_writer_destroy(w);
    struct ht_gguf *g = open_path(path);
    check_all(g);
    ht_gguf_close(g);
}

// Whoever could read and write a file that is replaced, and nobody else.
static void write_over(const char *to) {
    struct hearth_error err;
    struct ht_gguf_writer *w;
    assert_int_equal(ht_gguf_writer_create(&w, &err), HEARTH_OK);
    put_all(w);
    if (ht_gguf_writer_finish(w, to, &err)) fail_msg("%s", err.message);
    ht_gguf_writer_destroy(w);
}

static void test_rights(void **state) {
    (void)state;
    struct stat st;
    char to[128];
    snprintf(to, sizeof to, "%s/rights.gguf", folder);
    write_over(to);
    assert_int_equal(chmod(to, 0660), 0);
    bool root = chown(to, 1, 1) == 0;
    write_over(to);
    assert_int_equal(stat(to, &st), 0);
    assert_int_equal(st.st_mode & 07777, 0660);
    if (root) assert_true(st.st_uid == 1 && st.st_gid == 1);
    assert_int_equal(unlink(to), 0);
}

static void test_rights_list(void **state) {
    (void)state;
    static const char name[] = "system.posix_acl_access";
    // version 2; the owner rw, user 65534 rw, the group nothing, at most rw, others nothing
    static const struct {
        uint32_t version;
        struct {
            uint16_t tag, may;
            uint32_t id;
        } entries[5];
    } list = {2, {{1, 6, ~0u}, {2, 6, 65534}, {4, 0, ~0u}, {16, 6, ~0u}, {32, 0, ~0u}}};
    char to[128], got[sizeof list + 1];
    snprintf(to, sizeof to, "%s/list.gguf", folder);
    write_over(to);
    if (setxattr(to, name, &list, sizeof list, 0) != 0) {
        assert_int_equal(unlink(to), 0);
        print_message("skipped: the file system of %s has no lists of rights\n", folder);
        skip();
    }
    write_over(to);
    assert_int_equal(getxattr(to, name, got, sizeof got), sizeof list);
    assert_memory_equal(got, &list, sizeof list);
    assert_int_equal(unlink(to), 0);
}

static void test_no_memory(void **state) {
    (void)state;
    for (uint64_t n = 1; n < 1000; n++) {
        struct hearth_error err = {HEARTH_OK, ""};
        struct ht_gguf_writer *w = NULL;
        uint64_t before = ht_test_alloc_get().n_live_bytes;
        ht_test_alloc_fail_at(n);
        enum hearth_status s = ht_gguf_writer_create(&w, &err);
        if (!s) {
            put_all(w);
            s = ht_gguf_writer_finish(w, path, &err);
        }
        bool failed = ht_test_alloc_failed();
        ht_test_alloc_fail_at(0);
        ht_gguf_writer_destroy(w);
        assert_int_equal(ht_test_alloc_get().n_live_bytes, before);
        // A buffer that could not double its room may still get the little it needs.
        assert_true(s == HEARTH_OK || (failed && s == HEARTH_E_NOMEM));
        if (!failed) {
            assert_true(n > 5);
            return;
        }
    }
    fail_msg("writing never got through");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_round_trip),  cmocka_unit_test(test_exact_bytes),
        cmocka_unit_test(test_refusals),    cmocka_unit_test(test_place_taken),
        cmocka_unit_test(test_no_place),    cmocka_unit_test(test_rights),
        cmocka_unit_test(test_rights_list), cmocka_unit_test(test_no_memory),
        cmocka_unit_test(test_padding),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
