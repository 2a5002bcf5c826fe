// SPDX-License-Identifier: MIT
// All heap use of the library goes through these functions (tools/check_layering.py and
// check_symbols.sh see to it), so that a test can link its own definitions, count them and make
// them fail. Thread safe as malloc is.
#ifndef HT_BASE_MEM_H
#define HT_BASE_MEM_H

#include <stddef.h>

#include "base/status.h"

// n_bytes of 0 gives a pointer that is not NULL and may be freed. NULL when there is no memory.
HT_MUST_CHECK void *ht_alloc(size_t n_bytes);
// count * size, checked, zeroed.
HT_MUST_CHECK void *ht_calloc(size_t count, size_t size);
// count * size, checked; on failure the old block stays as it was.
HT_MUST_CHECK void *ht_realloc(void *p, size_t count, size_t size);
// Accepts NULL; frees what any of these gave.
void ht_free(void *p);
// Aligned to align (a power of two, at least sizeof(void *)), freed with ht_free.
HT_MUST_CHECK void *ht_alloc_aligned(size_t align, size_t n_bytes);
// A copy of n bytes with a 0 behind it.
HT_MUST_CHECK char *ht_strndup(const char *s, size_t n);

// Large zeroed memory straight from the OS (mmap; 2 MB pages are asked for), for scratch and KV:
// pages that are never touched cost nothing. Counted by the test allocator as well.
HT_MUST_CHECK void *ht_pages_alloc(size_t n_bytes);
// Asks for large pages where they have 2 MB: those of systems with pages of 16 or 64 KB have 32 or
// 512, and would be cleared whole for a few bytes. Only advice.
void ht_pages_prefer_large(void *p, size_t n_bytes);
// Takes all of a fresh block from the system now instead of as it is first written. false: the
// system has too little.
HT_MUST_CHECK bool ht_pages_touch(void *p, size_t n_bytes);
void ht_pages_free(void *p, size_t n_bytes);

#endif
