// SPDX-License-Identifier: MIT
// Where the golden data is: ${HEARTH_SHARED:-../shared}.
#ifndef HT_TESTS_SHARED_DIR_H
#define HT_TESTS_SHARED_DIR_H

#include <stdlib.h>

static inline const char *shared_dir(void) {
    const char *s = getenv("HEARTH_SHARED");
    return s && *s ? s : "../shared";
}

#endif
