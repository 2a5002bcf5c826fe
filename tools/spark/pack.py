#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Makes training windows of the documents that corpus.py wrote.

    pack.py DIR [--vocab 2080]      reads DIR/train.txt and DIR/held.txt; writes DIR/tokenizer.json unless it is there,
                                    and DIR/train-384.npy, train-512.npy, train-1024.npy, held.npy

A window is a row of uint16 tokens; the top bit says that the model is trained to predict the token. Documents are never
cut: each goes whole into a window with room for it. Most windows are short, which is quicker; some are long, so that
every position up to the context length has been seen.
"""
import argparse
import json
import os
import random

import numpy as np

import bpe

LEARN = 0x8000
LENGTHS = (384, 512, 1024)
OPEN = 128


def documents(path):
    with open(path) as f:
        for line in f:
            yield json.loads(line)


def encode(tokenizer, doc):
    """Tokens of a document with the learn bit."""
    out = []
    for text, learn in doc:
        out.extend(t | (LEARN if learn else 0) for t in tokenizer.encode(text))
    return out


def length_for(count, rng):
    """The window length for a document of `count` tokens."""
    fits = [n for n in LENGTHS if count <= n]
    return rng.choices(fits, (85, 10, 5)[-len(fits):])[0] if fits else None


class Packer:
    """First fit over a few open windows of one length."""

    def __init__(self, length, pad):
        self.length, self.pad = length, pad
        self.open, self.done = [], []

    def add(self, tokens):
        for window in self.open:
            if len(window) + len(tokens) <= self.length:
                window.extend(tokens)
                return
        self.open.append(list(tokens))
        if len(self.open) > OPEN:
            self.close(self.open.pop(max(range(len(self.open)), key=lambda i: len(self.open[i]))))

    def close(self, window):
        self.done.append(np.array(window + [self.pad] * (self.length - len(window)), dtype=np.uint16))

    def finish(self):
        while self.open:
            self.close(self.open.pop())
        return np.stack(self.done) if self.done else np.zeros((0, self.length), np.uint16)


def pack(path, tokenizer, rng, lengths=LENGTHS):
    """Windows by length."""
    pad = tokenizer.ids["<|endoftext|>"]
    packers = {n: Packer(n, pad) for n in lengths}
    for doc in documents(path):
        tokens = encode(tokenizer, doc)
        length = length_for(len(tokens), rng) if len(lengths) > 1 else lengths[0]
        if length and len(tokens) <= length:
            packers[length].add(tokens)
    return {n: p.finish() for n, p in packers.items()}


def load_tokenizer(folder, vocab):
    """The folder's tokenizer, trained on the first documents if there is none yet."""
    path = os.path.join(folder, "tokenizer.json")
    if not os.path.exists(path):
        texts = ["".join(t for t, _ in doc) for _, doc in zip(range(40000), documents(folder + "/train.txt"))]
        bpe.train(texts, vocab).save(path)
    return bpe.Tokenizer.load(path)


def main():
    parser = argparse.ArgumentParser(description="pack documents into training windows")
    parser.add_argument("folder")
    parser.add_argument("--vocab", type=int, default=2080)
    args = parser.parse_args()
    tokenizer, rng = load_tokenizer(args.folder, args.vocab), random.Random(7)
    for length, rows in pack(args.folder + "/train.txt", tokenizer, rng).items():
        np.save("%s/train-%d.npy" % (args.folder, length), rows)
        print("%5d windows of %4d, %4.1f M tokens, %2.0f %% learned, %2.0f %% padding" % (
            len(rows), length, rows.size / 1e6, 100 * (rows >= LEARN).mean(),
            100 * (rows == tokenizer.ids["<|endoftext|>"]).mean()))
    np.save(args.folder + "/held.npy", pack(args.folder + "/held.txt", tokenizer, rng, (1024,))[1024])


if __name__ == "__main__":
    main()
