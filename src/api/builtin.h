// SPDX-License-Identifier: MIT
// The model that is linked into the library. Read-only data; any thread.
#ifndef HT_API_BUILTIN_H
#define HT_API_BUILTIN_H

#include <stddef.h>

// The bytes of a GGUF file, aligned to 64; NULL where it was left out at build time.
const void *ht_builtin_model(size_t *n_bytes);

#endif
