// SPDX-License-Identifier: MIT
// See tiny.h.
#include "tiny.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "cmocka_all.h"
#include "gguf/gguf.h"

enum { DIM = 64, HEADS = 4, KV_HEADS = 2, HEAD_DIM = 32, FFN = 96, LAYERS = 2 };

// The letter that stands for a byte in a byte-level vocabulary, as UTF-8: printable Latin-1 is
// itself, the others are U+0100 and on, in order.
static size_t letter(int byte, char out[2]) {
    int code = byte, n_other = 0;
    for (int b = 0; b <= byte; b++) {
        bool itself = (b >= 33 && b <= 126) || (b >= 161 && b <= 172) || b >= 174;
        if (b == byte && !itself) code = 256 + n_other;
        n_other += !itself;
    }
    if (code < 128) {
        out[0] = (char)code;
        return 1;
    }
    out[0] = (char)(0xc0 | code >> 6);
    out[1] = (char)(0x80 | (code & 0x3f));
    return 2;
}

// Pairs of bytes with a merge each; one is a part of a character, one spans two characters.
static const unsigned char pairs[4][2] = {{'a', 'b'}, {0xe2, 0x82}, {0xa9, ' '}, {'\n', '\n'}};

static void put_vocabulary(struct ht_gguf_writer *w) {
    static char text[TINY_VOCAB][8], merge_text[4][8];
    struct ht_str tokens[TINY_VOCAB], merges[4];
    int32_t types[TINY_VOCAB];
    for (int i = 0; i < TINY_VOCAB; i++) {
        tokens[i] = (struct ht_str){text[i], 0};
        types[i] = i < TINY_USER ? 1 : 3;
        if (i < 256) tokens[i].len = letter(i, text[i]);
    }
    for (int i = 0; i < 4; i++) {
        size_t a = letter(pairs[i][0], text[256 + i]);
        size_t b = letter(pairs[i][1], text[256 + i] + a);
        tokens[256 + i].len = a + b;
        memcpy(merge_text[i], text[256 + i], a);
        merge_text[i][a] = ' ';
        memcpy(merge_text[i] + a + 1, text[256 + i] + a, b);
        merges[i] = (struct ht_str){merge_text[i], a + 1 + b};
    }
    tokens[TINY_USER] = (struct ht_str){"<|user|>", 8};
    tokens[TINY_END] = (struct ht_str){"<|end|>", 7};
    ht_gguf_put_str(w, "tokenizer.ggml.model", "gpt2", 4);
    ht_gguf_put_str(w, "tokenizer.ggml.pre", "gpt-2", 5);
    ht_gguf_put_str_array(w, "tokenizer.ggml.tokens", tokens, TINY_VOCAB);
    ht_gguf_put_str_array(w, "tokenizer.ggml.merges", merges, 4);
    ht_gguf_put_array(w, "tokenizer.ggml.token_type", HT_GGUF_I32, types, TINY_VOCAB);
    ht_gguf_put_u32(w, "tokenizer.ggml.eos_token_id", TINY_END);
}

static void put_model(struct ht_gguf_writer *w) {
    ht_gguf_put_str(w, "general.architecture", "llama", 5);
    ht_gguf_put_u32(w, "llama.block_count", LAYERS);
    ht_gguf_put_u32(w, "llama.context_length", 512);
    ht_gguf_put_u32(w, "llama.embedding_length", DIM);
    ht_gguf_put_u32(w, "llama.feed_forward_length", FFN);
    ht_gguf_put_u32(w, "llama.attention.head_count", HEADS);
    ht_gguf_put_u32(w, "llama.attention.head_count_kv", KV_HEADS);
    ht_gguf_put_u32(w, "llama.attention.key_length", HEAD_DIM);
    ht_gguf_put_u32(w, "llama.attention.value_length", HEAD_DIM);
    ht_gguf_put_f32(w, "llama.attention.layer_norm_rms_epsilon", 1e-5f);
}

static uint64_t noise_state;

// A tensor of uniform noise in [-scale, scale); scale 0: ones. Its bytes are freed by the caller.
static void *put_tensor(struct ht_gguf_writer *w, const char *name, enum ht_format format,
                        uint64_t rows, uint64_t width, float scale) {
    uint64_t n = rows * width, ne[2] = {width, rows}, row_bytes = 0;
    float *values = malloc(n * sizeof *values);
    assert_non_null(values);
    for (uint64_t i = 0; i < n; i++) {
        uint64_t bits = ht_hash_u64(noise_state += 0x9e3779b97f4a7c15u) >> 40;
        values[i] = scale == 0 ? 1 : ((float)bits * 0x1p-23f - 1) * scale;
    }
    void *bytes = values;
    if (format != HT_F32) {
        const struct ht_format_info *f = ht_format_get(format);
        assert_true(f && f->from_f32 && ht_format_row_bytes(format, width, &row_bytes));
        bytes = malloc(rows * row_bytes);
        assert_non_null(bytes);
        f->from_f32(values, bytes, n / f->block_len);
        free(values);
    }
    ht_gguf_put_tensor(w, name, format, rows > 1 ? 2 : 1, ne, bytes);
    return bytes;
}

void tiny_write(const char *path, enum ht_format format) {
    static const struct {
        const char *name;
        uint64_t rows, width;
        float scale;
    } in_layer[] = {
        {"attn_norm", 1, DIM, 0},
        {"attn_q", HEADS * HEAD_DIM, DIM, 0.3f},
        {"attn_k", KV_HEADS * HEAD_DIM, DIM, 0.3f},
        {"attn_v", KV_HEADS * HEAD_DIM, DIM, 0.3f},
        {"attn_output", DIM, HEADS * HEAD_DIM, 0.3f},
        {"ffn_norm", 1, DIM, 0},
        {"ffn_gate", FFN, DIM, 0.3f},
        {"ffn_up", FFN, DIM, 0.3f},
        {"ffn_down", DIM, FFN, 0.3f},
    };
    struct ht_gguf_writer *w;
    struct hearth_error err;
    void *bytes[3 + 9 * LAYERS];
    int n = 0;
    noise_state = 42;
    assert_int_equal(ht_gguf_writer_create(&w, &err), HEARTH_OK);
    put_model(w);
    put_vocabulary(w);
    bytes[n++] = put_tensor(w, "token_embd.weight", format, TINY_VOCAB, DIM, 1);
    bytes[n++] = put_tensor(w, "output.weight", format, TINY_VOCAB, DIM, 0.5f);
    bytes[n++] = put_tensor(w, "output_norm.weight", HT_F32, 1, DIM, 0);
    for (int layer = 0; layer < LAYERS; layer++) {
        for (int i = 0; i < 9; i++) {
            char name[64];
            snprintf(name, sizeof name, "blk.%d.%s.weight", layer, in_layer[i].name);
            bytes[n++] = put_tensor(w, name, in_layer[i].rows > 1 ? format : HT_F32,
                                    in_layer[i].rows, in_layer[i].width, in_layer[i].scale);
        }
    }
    if (ht_gguf_writer_finish(w, path, &err)) fail_msg("%s", err.message);
    ht_gguf_writer_destroy(w);
    while (n > 0) free(bytes[--n]);
}
