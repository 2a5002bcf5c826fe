// SPDX-License-Identifier: MIT
#include <hearth/hearth.h>
#include <stdio.h>
#include <string.h>

static bool print(void *user, const struct hearth_event *event) {
    (void)user;
    fwrite(event->text, 1, event->n_text_bytes, stdout);
    return true; // false would cancel
}

int main(int argc, char **argv) {
    struct hearth_error err;
    hearth_model *model = NULL;
    hearth_engine *engine = NULL;
    hearth_request *request;
    struct hearth_tokens prompt = {0};
    enum hearth_status s = argc > 1 ? hearth_model_open(argv[1], NULL, &model, &err)
                                    : hearth_model_open_builtin(NULL, &model, &err);

    struct hearth_engine_options options;
    hearth_engine_options_default(&options);
    if (!s) s = hearth_engine_create(model, &options, &engine, &err);

    const char *text = "Once upon a time";
    if (!s)
        s = hearth_encode(hearth_model_tokenizer(model), text, strlen(text),
                          HEARTH_ENCODE_BEGIN_END, &prompt, &err);

    struct hearth_request_options wish;
    hearth_request_options_default(&wish);
    wish.max_tokens = 64;
    wish.on_event = print;
    if (!s) s = hearth_request_create(engine, prompt.ids, prompt.n, &wish, &request, &err);
    if (!s) s = hearth_engine_run(engine, &err);
    if (!s) s = hearth_request_error(request, &err);

    if (s) fprintf(stderr, "%s: %s\n", hearth_status_name(s), err.message);
    hearth_tokens_free(&prompt);
    hearth_engine_destroy(engine); // and its requests
    hearth_model_close(model);
    return s ? 1 : 0;
}
