// SPDX-License-Identifier: MIT
// The architectures: one row each. To add one: a file in arch/, its function in model_internal.h,
// its row here. Const table; any thread.
#include <string.h>

#include "model/model_internal.h"

static const struct ht_arch archs[] = {
    {"gpt2", ht_arch_gpt2},   {"llama", ht_arch_llama}, {"mistral3", ht_arch_mistral3},
    {"qwen2", ht_arch_qwen2}, {"qwen3", ht_arch_qwen3}, {"qwen3moe", ht_arch_qwen3moe},
};

const struct ht_arch *ht_arch_find(const char *name, size_t len) {
    for (size_t i = 0; i < sizeof archs / sizeof archs[0]; i++)
        if (strlen(archs[i].name) == len && memcmp(archs[i].name, name, len) == 0) return &archs[i];
    return NULL;
}

const char *ht_model_architectures(void) {
    return "gpt2, llama, mistral3, qwen2, qwen3, qwen3moe";
}
