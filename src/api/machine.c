// SPDX-License-Identifier: MIT
// hearth_machine_get, hearth_build_get, hearth_self_test: what `hearth doctor` asks. Reads, keeps
// nothing; any thread.
#include "api/builtin.h"
#include "base/float_env.h"
#include "engine/engine.h"
#include "text/tokenizer.h"

#define TEXT_OF(x)  TEXT_OF_(x)
#define TEXT_OF_(x) #x

void hearth_machine_get(struct hearth_machine *out) {
    ht_machine_get(out);
}

void hearth_build_get(struct hearth_build *out) {
    size_t n_bytes;
    ht_builtin_model(&n_bytes);
    *out = (struct hearth_build) {
#if defined(__clang__)
        .compiler = "clang " TEXT_OF(__clang_major__) "." TEXT_OF(__clang_minor__) "." TEXT_OF(
            __clang_patchlevel__),
#elif defined(__GNUC__)
        .compiler =
            "gcc " TEXT_OF(__GNUC__) "." TEXT_OF(__GNUC_MINOR__) "." TEXT_OF(__GNUC_PATCHLEVEL__),
#else
        .compiler = "another compiler",
#endif
        .builtin_bytes = n_bytes
    };
    ht_text_libraries(&out->pcre2, &out->utf8proc, &out->pcre2_jit);
}

enum hearth_status hearth_self_test(hearth_check_fn fn, void *user, size_t *n_failed,
                                    struct hearth_error *err) {
    struct ht_float_env kept = ht_float_enter();
    enum hearth_status status = ht_self_test(fn, user, n_failed, err);
    ht_float_leave(kept);
    return status;
}
