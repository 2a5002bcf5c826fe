// SPDX-License-Identifier: MIT
// cmocka and the headers it wants before itself.
#ifndef HT_TESTS_CMOCKA_ALL_H
#define HT_TESTS_CMOCKA_ALL_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

// As assert_in_range, of which cmocka 2 warns; of what long long holds.
#define assert_between(x, least, most)                                                             \
    assert_true((long long)(x) >= (long long)(least) && (long long)(x) <= (long long)(most))

#endif
