// SPDX-License-Identifier: MIT
// The architectures: one name each. To add one: a file in arch/, its function in model_internal.h,
// its name here. Const table; any thread.
#include <string.h>

#include "model/model_internal.h"

#define ARCHS(X) X(gpt2) X(llama) X(mistral3) X(qwen2) X(qwen3) X(qwen3moe)
#define ROW(a)   {#a, ht_arch_##a},
#define NAME(a)  ", " #a
static const struct ht_arch archs[] = {ARCHS(ROW)};

const struct ht_arch *ht_arch_find(const char *name, size_t len) {
    for (size_t i = 0; i < sizeof archs / sizeof archs[0]; i++)
        if (strlen(archs[i].name) == len && memcmp(archs[i].name, name, len) == 0) return &archs[i];
    return NULL;
}

const char *ht_model_architectures(void) {
    return &(ARCHS(NAME))[2]; // behind the first ", "
}
