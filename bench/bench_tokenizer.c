// SPDX-License-Identifier: MIT
// How fast a tokenizer loads and encodes: bench_tokenizer MODEL.gguf [TEXT]. Without a text: prose
// made from a list of words of which a few are frequent and most are rare, and the inputs that are
// known to be hard. Prints the best of several runs in time of the one thread's processor, so that
// what else the machine does counts little. Not part of the program:
//   ninja -C build bench_tokenizer && build/bench/bench_tokenizer ...
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/map.h"
#include "base/mem.h"
#include "text/tokenizer.h"

enum { TEXT_BYTES = 1 << 20, RUNS = 5 };
static const uint64_t run_ns = 400000000; // and more runs until so much time is spent

static const char syllables[][5] = {"an",  "ter", "mo",  "ri", "el",  "sta", "con", "de",
                                    "ver", "lin", "pro", "ca", "the", "mi",  "ra",  "ous"};

static const char *const frequent[] = {"the", "of", "and", "to", "a",    "in", "that", "it",
                                       "was", "is", "for", "on", "with", "as", "not",  "she"};

static uint64_t cpu_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static uint32_t next(uint64_t *seed) {
    *seed = *seed * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(*seed >> 33);
}

// Half of the words are frequent ones; the others are drawn from 20,000, the early ones more often.
static size_t word_write(char *out, uint64_t *seed) {
    if (next(seed) & 1) return (size_t)sprintf(out, "%s", frequent[next(seed) % 16]);
    uint64_t word = (next(seed) % 141) * (uint64_t)(next(seed) % 141);
    uint64_t own = word * 0x9e3779b97f4a7c15u + 1;
    size_t n = 0, n_syllables = 1 + word % 4;
    for (size_t i = 0; i < n_syllables; i++)
        n += (size_t)sprintf(out + n, "%s", syllables[next(&own) % 16]);
    return n;
}

static char *prose(size_t n) {
    char *text = malloc(n + 64);
    uint64_t seed = 1;
    size_t len = 0, in_sentence = 0;
    while (text && len < n) {
        size_t from = len;
        len += word_write(text + len, &seed);
        if (!in_sentence) text[from] = (char)(text[from] - 'a' + 'A');
        bool stop = ++in_sentence > 5 && next(&seed) % 10 == 0;
        if (stop) in_sentence = 0;
        len += (size_t)sprintf(text + len, "%s",
                               !stop             ? (next(&seed) % 12 ? " " : ", ")
                               : next(&seed) % 5 ? ". "
                                                 : ".\n\n");
    }
    return text;
}

static void bench(const struct ht_tokenizer *t, const char *name, const char *text, size_t n) {
    uint64_t best = UINT64_MAX;
    size_t n_ids = 0;
    uint64_t spent = 0;
    for (int run = 0; run < RUNS || spent < run_ns; run++) {
        struct hearth_tokens ids = {0};
        struct hearth_error err;
        uint64_t begin = cpu_ns();
        if (ht_encode(t, text, n, HEARTH_ENCODE_PLAIN, &ids, &err)) {
            printf("%-28s %s\n", name, err.message);
            return;
        }
        uint64_t ns = cpu_ns() - begin;
        if (ns < best) best = ns;
        n_ids = ids.n;
        spent += ns;
        ht_free(ids.ids);
    }
    printf("%-28s %8.2f MB/s %9zu bytes %8zu ids %8.2f ms\n", name, 1e3 * (double)n / (double)best,
           n, n_ids, (double)best / 1e6);
}

static void bench_run(const struct ht_tokenizer *t, const char *name, const char *unit) {
    size_t k = strlen(unit), n = TEXT_BYTES / k * k;
    char *text = malloc(n);
    if (!text) return;
    for (size_t i = 0; i < n; i += k) memcpy(text + i, unit, k);
    bench(t, name, text, n);
    free(text);
}

static void bench_load(const struct ht_gguf *g) {
    uint64_t best = UINT64_MAX;
    size_t bytes = 0;
    uint64_t spent = 0;
    for (int run = 0; run < RUNS || spent < run_ns; run++) {
        struct ht_tokenizer *t = NULL;
        struct hearth_error err;
        uint64_t begin = cpu_ns();
        if (ht_tokenizer_load(g, NULL, &t, &err) || !t) return;
        uint64_t ns = cpu_ns() - begin;
        if (ns < best) best = ns;
        spent += ns;
        bytes = ht_tokenizer_bytes(t);
        ht_tokenizer_free(t);
    }
    printf("%-28s %8.2f ms   %9zu bytes of heap\n", "load", (double)best / 1e6, bytes);
}

int main(int argc, char **argv) {
    struct ht_gguf *g = NULL;
    struct ht_tokenizer *t = NULL;
    struct ht_map map = {0};
    struct hearth_error err;
    if (argc < 2 || argc > 3) {
        fprintf(stderr, "usage: %s MODEL.gguf [TEXT]\n", argv[0]);
        return 2;
    }
    if (ht_gguf_open(argv[1], &g, &err) || ht_tokenizer_load(g, NULL, &t, &err) ||
        (argc > 2 && ht_map_open(argv[2], &map, &err))) {
        fprintf(stderr, "%s\n", err.message);
        return 1;
    }
    if (t) {
        bench_load(g);
        if (map.data) bench(t, "text", (const char *)map.data, map.len);
        char *text = prose(TEXT_BYTES);
        if (text) bench(t, "made prose", text, TEXT_BYTES);
        free(text);
        bench_run(t, "a", "a");
        bench_run(t, "spaces", " ");
        bench_run(t, "line ends", "\n");
        bench_run(t, "combining marks", "\xcc\x81\xcc\xa3");
        bench_run(t, "emoji", "\xf0\x9f\x98\x80");
        bench_run(t, "Chinese", "\xe4\xb8\xad\xe6\x96\x87\xe5\xad\x97\xe7\xac\xa6");
        bench_run(t, "invalid bytes", "\xff\xfe");
    }
    ht_tokenizer_free(t);
    ht_gguf_close(g);
    ht_map_close(&map);
    return 0;
}
