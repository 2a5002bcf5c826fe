#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Write the vocabulary of a byte-level BPE GGUF file as a minimal tokenizer.json (vocab, merges, added tokens), the form
that generators of random models read, so that a model for speed measurements can carry a real vocabulary.

usage: vocab_to_json.py VOCAB.gguf OUT.json
"""
import json
import struct
import sys

SIZES = {0: 'B', 1: 'b', 2: 'H', 3: 'h', 4: 'I', 5: 'i', 6: 'f', 7: '?', 10: 'Q', 11: 'q', 12: 'd'}


class Reader:
    """A cursor over the bytes of a GGUF file (version 2 or 3)."""

    def __init__(self, data):
        self.data, self.at = data, 0

    def number(self, code):
        value, = struct.unpack_from('<' + code, self.data, self.at)
        self.at += struct.calcsize('<' + code)
        return value

    def text(self):
        n = self.number('Q')
        self.at += n
        return self.data[self.at - n:self.at].decode()

    def value(self, kind):
        if kind == 8:
            return self.text()
        if kind == 9:
            item, n = self.number('I'), self.number('Q')
            return [self.value(item) for _ in range(n)]
        return self.number(SIZES[kind])


def metadata(path):
    with open(path, 'rb') as f:
        r = Reader(f.read())
    if r.data[:4] != b'GGUF':
        sys.exit(f'{path}: not a GGUF file')
    r.at = 8
    r.number('Q')
    return {r.text(): r.value(r.number('I')) for _ in range(r.number('Q'))}


def main():
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    meta = metadata(sys.argv[1])
    tokens, types = meta['tokenizer.ggml.tokens'], meta['tokenizer.ggml.token_type']
    added = [{'id': i, 'content': t, 'special': types[i] == 3} for i, t in enumerate(tokens) if types[i] in (3, 4)]
    ids = {a['id'] for a in added}
    vocab = {t: i for i, t in enumerate(tokens) if i not in ids}
    with open(sys.argv[2], 'w') as f:
        json.dump({'model': {'vocab': vocab, 'merges': meta['tokenizer.ggml.merges']}, 'added_tokens': added}, f)


if __name__ == '__main__':
    main()
