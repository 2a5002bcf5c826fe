// SPDX-License-Identifier: MIT
#ifndef HT_BASE_CLOCK_H
#define HT_BASE_CLOCK_H

#include <stdint.h>

uint64_t ht_now_ns(void); // monotonic

#endif
