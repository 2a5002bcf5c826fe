// SPDX-License-Identifier: MIT
// A tiny model of architecture llama with a byte-level vocabulary, written to a file: random
// weights, so its text is random bytes, which is what tests of streaming want.
#ifndef HT_TESTS_ENGINE_TINY_H
#define HT_TESTS_ENGINE_TINY_H

#include "quant/format.h"

// Ids: 256 bytes, then
// pairs, then special tokens.
#define TINY_USER  260
#define TINY_END   261
#define TINY_VOCAB 262

// Matrices in the given format; n_ctx_train is 512. Fails the test where it cannot be written.
void tiny_write(const char *path, enum ht_format format);

#endif
