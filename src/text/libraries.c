// SPDX-License-Identifier: MIT
// What the room stands on, for messages. No state; any thread.
#include <utf8proc.h>

#include "text/internal.h"

#define TEXT_OF(x)  TEXT_OF_(x)
#define TEXT_OF_(x) #x

void ht_text_libraries(const char **pcre2, const char **utf8proc, bool *pcre2_jit) {
    uint32_t jit = 0;
    *pcre2 = TEXT_OF(PCRE2_MAJOR) "." TEXT_OF(PCRE2_MINOR);
    *utf8proc = TEXT_OF(UTF8PROC_VERSION_MAJOR) "." TEXT_OF(UTF8PROC_VERSION_MINOR) "." TEXT_OF(
        UTF8PROC_VERSION_PATCH);
    *pcre2_jit = pcre2_config(PCRE2_CONFIG_JIT, &jit) == 0 && jit != 0;
}
