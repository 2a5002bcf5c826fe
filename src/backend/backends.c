// SPDX-License-Identifier: MIT
// The list of backends: the one file that knows them all. A library of its own (ht_backends), so
// that a backend's tests do not link the others. Const tables; any thread.
#include <string.h>

#include "backend/backend.h"

static const struct ht_backend_ops *const backends[] = {&ht_backend_cpu, &ht_backend_ref};

const struct ht_backend_ops *ht_backend_find(const char *name) {
    for (size_t i = 0; i < sizeof backends / sizeof backends[0]; i++)
        if (strcmp(backends[i]->name, name) == 0) return backends[i];
    return NULL;
}

const char *ht_backend_names(void) {
    return "cpu, ref";
}
