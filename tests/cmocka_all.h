// SPDX-License-Identifier: MIT
// cmocka and the headers it wants before itself.
#ifndef HT_TESTS_CMOCKA_ALL_H
#define HT_TESTS_CMOCKA_ALL_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#endif
