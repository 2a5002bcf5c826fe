#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Writes a GGUF file of Qwen3-0.6B's shape with random weights, all matrices in one format, to
measure how fast the formats run that mkgguf.py does not write.

usage: format_model.py OUT.gguf --type TYPE [--tokenizer tokenizer.json] [--mkgguf ../shared/tools]

Needs numpy, and mkgguf.py beside it. Where a block has its f16 scales, and how large a scale makes
a random block's weights as large as those of a model, is said below; all other bytes are random.
"""
import argparse
import sys

import moe_model

# Type in files, general.file_type, weights and bytes of a block, where its scale is, the deviation
# of its weights at a scale of 1, where its min is and how large beside that deviation.
FORMATS = {
    'q4_1': (3, 3, 32, 20, 0, 8, 2, 2),
    'q5_0': (6, 8, 32, 22, 0, 9, None, 0),
    'q5_1': (7, 9, 32, 24, 0, 9, 2, 2),
    'q2_k': (10, 10, 256, 84, 80, 15, 82, 15),
    'q3_k': (11, 12, 256, 110, 108, 50, None, 0),
    'q5_k': (13, 17, 256, 176, 0, 300, 2, 20),
    'q6_k': (14, 18, 256, 210, 208, 1400, None, 0),
    'iq4_nl': (20, 25, 32, 18, 0, 70, None, 0),
    'iq3_s': (21, 26, 256, 110, 0, 100, None, 0),
    'iq4_xs': (23, 30, 256, 136, 0, 1500, None, 0),
    'iq2_xxs': (16, 19, 256, 66, 0, 80, None, 0),
    'iq2_xs': (17, 20, 256, 74, 0, 80, None, 0),
    'iq3_xxs': (18, 23, 256, 98, 0, 150, None, 0),
    'iq1_s': (19, 24, 256, 50, 0, 7, None, 0),
    'iq1_m': (29, 31, 256, 56, None, 7, None, 0),
    'iq2_s': (22, 28, 256, 82, 0, 80, None, 0),
    'q1_0': (41, 40, 128, 18, 0, 1, None, 0),
    'q2_0': (42, 41, 64, 18, 0, 1.2, None, 0),
    'tq1_0': (34, 36, 256, 54, 52, 1, None, 0),
    'tq2_0': (35, 37, 256, 66, 64, 1, None, 0),
    'mxfp4': (39, 38, 32, 17, None, 0, None, 0),
    'nvfp4': (40, 39, 64, 36, None, 0, None, 0),
}


def blocks(mk, g, kind, n, std):
    """n random weights of about a deviation of std."""
    _, _, length, size, scale_at, scale, min_at, least = FORMATS[kind]
    found = mk.u8(g, n // length, size)
    if kind == 'mxfp4':  # an exponent
        found[:, 0] = g.integers(118, 121, n // length, dtype='u1')
        return found.tobytes()
    if kind == 'nvfp4':  # floats of 8 bits, 0.25 to 1; the matrix has a scale, too
        found[:, :4] = g.integers(0x28, 0x38, (n // length, 4), dtype='u1')
        return found.tobytes()
    if kind == 'iq1_m':  # four bits of it in the upper ones of each half of the last eight bytes
        d = mk.half(g, n // length, std / scale).reshape(-1, 2)
        for i in range(4):
            bits = d[:, i // 2] << 4 if i % 2 == 0 else d[:, i // 2] & 0xf0
            found[:, 49 + 2 * i] = found[:, 49 + 2 * i] & 15 | bits
        return found.tobytes()
    for at, by in ((scale_at, scale), (min_at, least)):
        if at is not None:
            found[:, at:at + 2] = mk.half(g, n // length, std / by)
    return found.tobytes()


def tensors(mk, kind):
    _, layers, hidden, heads, kv_heads, head_dim, ffn, vocab, *_ = mk.SHAPES['qwen3-0.6b']
    yield 'token_embd.weight', (hidden, vocab), kind
    yield 'output_norm.weight', (hidden,), 'f32'
    for i in range(layers):
        for name, dims in (
                ('attn_norm', (hidden,)), ('ffn_norm', (hidden,)),
                ('attn_q', (hidden, heads * head_dim)), ('attn_k', (hidden, kv_heads * head_dim)),
                ('attn_v', (hidden, kv_heads * head_dim)),
                ('attn_output', (heads * head_dim, hidden)), ('attn_q_norm', (head_dim,)),
                ('attn_k_norm', (head_dim,)), ('ffn_gate', (hidden, ffn)),
                ('ffn_up', (hidden, ffn)), ('ffn_down', (ffn, hidden))):
            yield f'blk.{i}.{name}.weight', dims, 'f32' if len(dims) == 1 else kind
            if kind == 'nvfp4' and len(dims) > 1:
                yield f'blk.{i}.{name}.scale', (1,), 'f32'


def metadata(mk, kind, tokenizer):
    arch, layers, hidden, heads, kv_heads, head_dim, ffn, vocab, _, theta, eps, context = (
        mk.SHAPES['qwen3-0.6b'])
    return [('general.architecture', arch), ('general.name', f'qwen3-0.6b random {kind}'),
            ('general.file_type', FORMATS[kind][1]), (f'{arch}.block_count', layers),
            (f'{arch}.context_length', context), (f'{arch}.embedding_length', hidden),
            (f'{arch}.feed_forward_length', ffn), (f'{arch}.attention.head_count', heads),
            (f'{arch}.attention.head_count_kv', kv_heads),
            (f'{arch}.attention.key_length', head_dim),
            (f'{arch}.attention.value_length', head_dim),
            (f'{arch}.rope.dimension_count', head_dim), (f'{arch}.rope.freq_base', theta),
            (f'{arch}.attention.layer_norm_rms_epsilon', eps), (f'{arch}.vocab_size', vocab),
            ] + mk.tokenizer(tokenizer, vocab, 'qwen3')


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument('out')
    parser.add_argument('--type', required=True, choices=FORMATS)
    parser.add_argument('--tokenizer')
    parser.add_argument('--mkgguf', default='../shared/tools')
    a = parser.parse_args()
    sys.path.insert(0, a.mkgguf)
    import mkgguf as mk
    kinds = {a.type: FORMATS[a.type][0]}
    sizes = {a.type: FORMATS[a.type][2:4]}
    moe_model.write(a.out, mk, metadata(mk, a.type, a.tokenizer), list(tensors(mk, a.type)),
                    blocks=lambda g, kind, n, std: blocks(mk, g, kind, n, std), kinds=kinds,
                    sizes=sizes)


if __name__ == '__main__':
    main()
