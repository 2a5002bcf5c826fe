# SPDX-License-Identifier: MIT
"""Byte-level BPE: training on word counts, encoding, and the tables that a GGUF file wants.

The pre-tokenizer is the one that llama.cpp calls `qwen2`. Python's `re` has no classes for letters and numbers of all
scripts; the corpus is ASCII, where those classes are A-Z, a-z and 0-9, and anything else is refused.
"""
import collections
import heapq
import json
import re

SPECIALS = ["<|endoftext|>", "<|im_start|>", "<|im_end|>", "<tool_call>", "</tool_call>", "<tool_response>",
            "</tool_response>", "<think>", "</think>"]
# `control` tokens are never shown; the others are text that the chat layer reads
CONTROL = SPECIALS[:3]

PIECE = re.compile(r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\nA-Za-z0-9]?[A-Za-z]+|[0-9]| ?[^\sA-Za-z0-9]+[\r\n]*|\s*[\r\n]+"
                   r"|\s+(?!\S)|\s+")
SPLIT = re.compile("(" + "|".join(re.escape(s) for s in SPECIALS) + ")")


def byte_letters():
    """GPT-2's printable stand-in for every byte, in the order of its vocabulary."""
    plain = list(range(33, 127)) + list(range(161, 173)) + list(range(174, 256))
    rest = [b for b in range(256) if b not in plain]
    return {**{b: chr(b) for b in plain}, **{b: chr(256 + i) for i, b in enumerate(rest)}}


LETTERS = byte_letters()


def spell(piece):
    """A piece of text as a tuple of byte letters."""
    return tuple(LETTERS[b] for b in piece.encode("ascii"))


def count_pieces(texts):
    """How often every piece of the pre-tokenizer occurs; special tokens are left out."""
    counts = collections.Counter()
    for text in texts:
        for part in SPLIT.split(text):
            if part not in SPECIALS:
                counts.update(PIECE.findall(part))
    return counts


class _Trainer:
    """Pair counts that are kept up to date while merges are made."""

    def __init__(self, counts):
        self.words = [list(spell(piece)) for piece in counts]
        self.freq = list(counts.values())
        self.pairs = collections.Counter()
        self.where = collections.defaultdict(set)
        for i, word in enumerate(self.words):
            self._add(i, word, 1)
        self.heap = [(-n, pair) for pair, n in self.pairs.items()]
        heapq.heapify(self.heap)

    def _add(self, i, word, sign):
        for pair in zip(word, word[1:]):
            self.pairs[pair] += sign * self.freq[i]
            if sign > 0:
                self.where[pair].add(i)

    def best(self):
        """The most frequent pair; ties go to the one that sorts first. Stale heap entries are put back corrected."""
        while self.heap:
            n, pair = heapq.heappop(self.heap)
            if self.pairs[pair] == -n:
                return pair if n < 0 else None
            if self.pairs[pair] > 0:
                heapq.heappush(self.heap, (-self.pairs[pair], pair))
        return None

    def merge(self, pair):
        """Joins a pair wherever it occurs."""
        touched = set()
        for i in self.where.pop(pair):
            word = self.words[i]
            self._add(i, word, -1)
            touched.update(zip(word, word[1:]))
            self.words[i] = word = join(word, pair)
            self._add(i, word, 1)
            touched.update(zip(word, word[1:]))
        for p in touched:
            if self.pairs[p] > 0:
                heapq.heappush(self.heap, (-self.pairs[p], p))


def join(word, pair):
    """The word with every occurrence of a pair made one letter, from the left."""
    out, i = [], 0
    while i < len(word):
        if i + 1 < len(word) and word[i] == pair[0] and word[i + 1] == pair[1]:
            out.append(word[i] + word[i + 1])
            i += 2
        else:
            out.append(word[i])
            i += 1
    return out


def train(texts, vocab):
    """Learns merges until the vocabulary with the special tokens has `vocab` entries; returns a Tokenizer."""
    trainer, merges, tokens = _Trainer(count_pieces(texts)), [], set(LETTERS.values())
    while len(tokens) + len(SPECIALS) < vocab:
        pair = trainer.best()
        if pair is None:
            raise SystemExit("the corpus is too small for %d tokens" % vocab)
        trainer.merge(pair)
        merges.append(pair)
        tokens.add(pair[0] + pair[1])
    return Tokenizer(merges)


class Tokenizer:
    """Merges in order of rank; ids are the bytes, then the merges, then the special tokens."""

    def __init__(self, merges):
        self.merges = [tuple(m) for m in merges]
        self.rank = {m: i for i, m in enumerate(self.merges)}
        names = list(dict.fromkeys(list(LETTERS.values()) + [a + b for a, b in self.merges]))
        self.tokens = names + SPECIALS
        self.ids = {t: i for i, t in enumerate(self.tokens)}
        self.cache = {}
        self.bytes = {v: k for k, v in LETTERS.items()}

    def _piece(self, piece):
        if piece not in self.cache:
            word = list(spell(piece))
            while len(word) > 1:
                pair = min(zip(word, word[1:]), key=lambda p: self.rank.get(p, 1 << 30))
                if pair not in self.rank:
                    break
                word = join(word, pair)
            self.cache[piece] = [self.ids[t] for t in word]
        return self.cache[piece]

    def encode(self, text):
        """Token ids of a text in which special tokens are meant as such."""
        out = []
        for part in SPLIT.split(text):
            if part in SPECIALS:
                out.append(self.ids[part])
            else:
                for piece in PIECE.findall(part):
                    out.extend(self._piece(piece))
        return out

    def decode(self, ids):
        """The text of token ids."""
        out = []
        for i in ids:
            token = self.tokens[i]
            out.append(token if token in SPECIALS else bytes(self.bytes[c] for c in token).decode("latin-1"))
        return "".join(out)

    def save(self, path):
        with open(path, "w") as f:
            json.dump({"merges": self.merges}, f)

    @staticmethod
    def load(path):
        with open(path) as f:
            return Tokenizer(json.load(f)["merges"])
