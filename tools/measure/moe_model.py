#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Writes a GGUF file of Qwen3-30B-A3B's shape (128 experts, 8 of them a token) with random weights,
by default of 8 of its 48 layers, to measure how fast mixtures of experts run.

usage: moe_model.py OUT.gguf --type q4_k_m|q8_0|q4_0 [--tokenizer tokenizer.json] [--layers N]
                    [--mkgguf ../shared/tools]

Needs numpy, and mkgguf.py, whose blocks of random weights and metadata it takes. Names of tensors
and keys are those of the public GGUF files of that model.
"""
import argparse
import math
import struct
import sys

HIDDEN, HEADS, KV_HEADS, HEAD_DIM, FFN = 2048, 32, 4, 128, 768
EXPERTS, USED, VOCAB, CONTEXT = 128, 8, 151936, 40960
BLOCK = {'f32': (1, 4), 'q8_0': (32, 34), 'q4_0': (32, 18), 'q4_k': (256, 144), 'q6_k': (256, 210)}


def tensors(n_layers, file_type):
    """Name, dimensions (fastest first) and type of each."""
    base = 'q4_k' if file_type == 'q4_k_m' else file_type
    big = 'q6_k' if file_type == 'q4_k_m' else base
    yield 'token_embd.weight', (HIDDEN, VOCAB), base
    yield 'output_norm.weight', (HIDDEN,), 'f32'
    yield 'output.weight', (HIDDEN, VOCAB), big
    for i in range(n_layers):
        more = i < n_layers // 8 or i >= 7 * n_layers // 8 or (i - n_layers // 8) % 3 == 2
        values = big if more else base
        for name, dims, kind in (
                ('attn_norm', (HIDDEN,), 'f32'), ('ffn_norm', (HIDDEN,), 'f32'),
                ('attn_q', (HIDDEN, HEADS * HEAD_DIM), base),
                ('attn_k', (HIDDEN, KV_HEADS * HEAD_DIM), base),
                ('attn_v', (HIDDEN, KV_HEADS * HEAD_DIM), values),
                ('attn_output', (HEADS * HEAD_DIM, HIDDEN), base),
                ('attn_q_norm', (HEAD_DIM,), 'f32'), ('attn_k_norm', (HEAD_DIM,), 'f32'),
                ('ffn_gate_inp', (HIDDEN, EXPERTS), 'f32'),
                ('ffn_gate_exps', (HIDDEN, FFN, EXPERTS), base),
                ('ffn_up_exps', (HIDDEN, FFN, EXPERTS), base),
                ('ffn_down_exps', (FFN, HIDDEN, EXPERTS), values)):
            yield f'blk.{i}.{name}.weight', dims, kind


def metadata(mk, n_layers, file_type, tokenizer):
    arch = 'qwen3moe'
    return [('general.architecture', arch), ('general.name', 'qwen3-30b-a3b random'),
            ('general.file_type', mk.FILE_TYPE[file_type]), (f'{arch}.block_count', n_layers),
            (f'{arch}.context_length', CONTEXT), (f'{arch}.embedding_length', HIDDEN),
            (f'{arch}.feed_forward_length', 6144), (f'{arch}.expert_feed_forward_length', FFN),
            (f'{arch}.expert_count', EXPERTS), (f'{arch}.expert_used_count', USED),
            (f'{arch}.attention.head_count', HEADS), (f'{arch}.attention.head_count_kv', KV_HEADS),
            (f'{arch}.attention.key_length', HEAD_DIM), (f'{arch}.attention.value_length', HEAD_DIM),
            (f'{arch}.rope.dimension_count', HEAD_DIM), (f'{arch}.rope.freq_base', 1e6),
            (f'{arch}.attention.layer_norm_rms_epsilon', 1e-6), (f'{arch}.vocab_size', VOCAB),
            ] + mk.tokenizer(tokenizer, VOCAB, 'qwen3')


def weights(blocks, g, name, dims, kind):
    """The bytes of a tensor, a part at a time."""
    if len(dims) == 1:
        size = 0.02 if name.endswith('.scale') else 1  # of a matrix of NVFP4
        yield (size * (1 + 0.1 * g.standard_normal(dims[0], dtype='f4'))).astype('f4').tobytes()
        return
    std = 1.0 if 'embd' in name else dims[0] ** -0.5
    rows, left = 4096, math.prod(dims) // dims[0]
    while left > 0:
        yield blocks(g, kind, dims[0] * min(rows, left), std)
        left -= rows


def write(out, mk, meta, listed, blocks, kinds, sizes):
    """A file of the tensors listed as (name, dimensions, type). blocks(generator, type, n, deviation):
    n weights; kinds: the types' numbers in files, sizes: weights and bytes of a block."""
    import numpy
    kinds, sizes = {'f32': 0} | kinds, {'f32': (1, 4)} | sizes
    g = numpy.random.default_rng(1)

    def n_bytes(dims, kind):
        length, size = sizes[kind]
        return math.prod(dims) // length * size

    head = struct.pack('<4sIQQ', b'GGUF', 3, len(listed), len(meta))
    head += b''.join(mk.kv(key, value) for key, value in meta)
    at = 0
    for name, dims, kind in listed:
        head += mk.gstr(name) + struct.pack('<I', len(dims)) + struct.pack(f'<{len(dims)}Q', *dims)
        head += struct.pack('<IQ', kinds[kind], at)
        at += -(-n_bytes(dims, kind) // 32) * 32
    with open(out, 'wb') as f:
        f.write(head + b'\0' * (-len(head) % 32))
        for name, dims, kind in listed:
            for part in weights(blocks, g, name, dims, kind):
                f.write(part)
            f.write(b'\0' * (-n_bytes(dims, kind) % 32))
    print(f'{out}: {len(listed)} tensors, {at / 1e6:.0f} MB of weights')


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument('out')
    parser.add_argument('--type', required=True, choices=('q4_k_m', 'q8_0', 'q4_0'))
    parser.add_argument('--tokenizer')
    parser.add_argument('--layers', type=int, default=8)
    parser.add_argument('--mkgguf', default='../shared/tools')
    a = parser.parse_args()
    sys.path.insert(0, a.mkgguf)
    import mkgguf as mk
    write(a.out, mk, metadata(mk, a.layers, a.type, a.tokenizer), list(tensors(a.layers, a.type)),
          blocks=mk.blocks, kinds=mk.TYPE_ID, sizes=BLOCK)


if __name__ == '__main__':
    main()
