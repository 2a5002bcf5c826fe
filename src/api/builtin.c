// SPDX-License-Identifier: MIT
#include "api/builtin.h"

#ifdef HT_BUILTIN_PATH // set by CMake where the file is there

// The assembler copies the file into read-only data. The section is its own, so that the size of
// the program's code can be told from the model's.
__asm__(".pushsection .rodata.hearth_model, \"a\", %progbits\n"
        ".balign 64\n"
        ".local ht_builtin_begin\n"
        ".local ht_builtin_end\n"
        "ht_builtin_begin:\n"
        ".incbin \"" HT_BUILTIN_PATH "\"\n"
        "ht_builtin_end:\n"
        ".byte 0\n"
        ".popsection\n");
extern const unsigned char ht_builtin_begin[] __attribute__((visibility("hidden")));
extern const unsigned char ht_builtin_end[] __attribute__((visibility("hidden")));

const void *ht_builtin_model(size_t *n_bytes) {
    *n_bytes = (size_t)(ht_builtin_end - ht_builtin_begin);
    return ht_builtin_begin;
}

#else

const void *ht_builtin_model(size_t *n_bytes) {
    *n_bytes = 0;
    return NULL;
}

#endif
