// SPDX-License-Identifier: MIT
// Runs a fuzz target over every file of the folders that are given: the corpus as an ordinary test.
// Each input lies against an unmapped page, so that a read past its end faults.
#include <dirent.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

static void run_guarded(const uint8_t *data, size_t n) {
    size_t page = (size_t)sysconf(_SC_PAGESIZE), room = (n + page - 1) / page * page;
    uint8_t *p =
        mmap(NULL, room + page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (p == MAP_FAILED || mprotect(p + room, page, PROT_NONE) != 0) abort();
    if (n) memcpy(p + room - n, data, n);
    LLVMFuzzerTestOneInput(p + room - n, n);
    munmap(p, room + page);
}

static bool run_file(const char *path) {
    struct stat st;
    FILE *f = fopen(path, "rb");
    if (!f) return false;
    bool ok = fstat(fileno(f), &st) == 0 && S_ISREG(st.st_mode);
    uint8_t *data = ok ? malloc((size_t)st.st_size + 1) : NULL;
    ok = data && fread(data, 1, (size_t)st.st_size, f) == (size_t)st.st_size;
    fclose(f);
    if (ok) run_guarded(data, (size_t)st.st_size);
    free(data);
    return ok;
}

static int run_folder(const char *folder) {
    char path[4096];
    int n = 0;
    DIR *d = opendir(folder);
    if (!d) return -1;
    for (struct dirent *e; (e = readdir(d));) {
        if (e->d_name[0] == '.') continue;
        snprintf(path, sizeof(path), "%s/%s", folder, e->d_name);
        if (!run_file(path)) {
            fprintf(stderr, "%s: cannot be read\n", path);
            closedir(d);
            return -1;
        }
        n++;
    }
    closedir(d);
    return n;
}

int main(int argc, char **argv) {
    for (int i = 1; i < argc; i++) {
        int n = run_folder(argv[i]);
        printf("%s: %d inputs\n", argv[i], n);
        if (n <= 0) return 1; // a test that ran nothing says nothing
    }
    return argc > 1 ? 0 : 2;
}
