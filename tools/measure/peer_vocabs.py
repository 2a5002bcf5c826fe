#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Tokenizes the texts that llama.cpp's folder models/ holds for its vocabularies, and compares the
ids with those that stand beside them.

    tools/measure/peer_vocabs.py LLAMA/models [--hearth build/hearth]

A vocabulary NAME.gguf has its texts in NAME.gguf.inp, each with a line behind it,
and their ids in NAME.gguf.out, a line for each. What Hearth does not read is named and passed by."""
import argparse
import pathlib
import subprocess
import sys

BEHIND = b"\n__ggml_vocab_test__\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("models", type=pathlib.Path)
    parser.add_argument("--hearth", default="build/hearth")
    args = parser.parse_args()
    n_compared = n_wrong = 0
    for inputs in sorted(args.models.glob("*.gguf.inp")):
        vocab = inputs.with_suffix("")
        if not vocab.exists():
            continue
        texts = inputs.read_bytes().split(BEHIND)[:-1]  # one ends the file
        wanted = [line.split() for line in vocab.with_suffix(".gguf.out").read_text().splitlines()]
        n_same = 0
        for text, ids in zip(texts, wanted):
            run = subprocess.run([args.hearth, "tokenize", vocab, "-f", "-"], input=text,
                                 capture_output=True, check=False)
            if run.returncode:
                print(f"{vocab.stem}: passed by: {run.stderr.decode().strip()[:160]}")
                break
            n_same += run.stdout.decode().replace(",", " ").split() == ids
        else:
            print(f"{vocab.stem}: {n_same} of {len(texts)} texts have the same ids")
            n_compared += 1
            n_wrong += n_same != len(texts) or len(texts) != len(wanted)
    if n_compared == 0:
        sys.exit(f"{args.models}: no vocabulary with texts that Hearth reads")
    sys.exit(n_wrong > 0)


if __name__ == "__main__":
    main()
