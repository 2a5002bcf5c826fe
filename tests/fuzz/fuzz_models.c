// SPDX-License-Identifier: MIT
// Writes a tiny model of each architecture into a folder, for fuzz_model to start from.
// usage: fuzz_models FOLDER
#include <stdio.h>

#include "cmocka_all.h"
#include "tiny.h"

int main(int argc, char **argv) {
    char path[4096];
    if (argc != 2) {
        fprintf(stderr, "usage: fuzz_models FOLDER\n");
        return 1;
    }
    for (int i = 0; i < TINY_N_ARCHS; i++) {
        int n = snprintf(path, sizeof path, "%s/%s", argv[1], tiny_archs[i]);
        if (n < 0 || (size_t)n >= sizeof path) return 1;
        tiny_write(path, tiny_archs[i], NULL);
    }
    return 0;
}
