# SPDX-License-Identifier: MIT
"""What the tests of the program share: running it, and a tiny model with a vocabulary, written byte by byte."""
import os
import random
import re
import signal
import struct
import subprocess
import sys
import unittest

HEARTH = os.environ.get("HEARTH", "hearth")
ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
SHARED = os.environ.get("HEARTH_SHARED") or os.path.join(ROOT, "..", "shared")


def hearth(*args, stdin=b"", timeout=120):
    """Runs the program; returns (exit code, standard output, standard error as text)."""
    done = subprocess.run([HEARTH, *map(str, args)], input=stdin, capture_output=True, timeout=timeout)
    return done.returncode, done.stdout, done.stderr.decode()


def shared(*path):
    """A path under ../shared; skips the test, naming the folder, where it is absent."""
    full = os.path.join(SHARED, *path)
    if not os.path.exists(full):
        raise unittest.SkipTest("no %s under %s" % (os.path.join(*path), SHARED))
    return full


# What a first SIGINT is answered by where a second passes.
STOPPING = b"hearth: stopping as soon as possible; Ctrl-C again ends at once\n"


def has_builtin():
    """Whether the program has a model of its own (HEARTH_BUILTIN_MODEL)."""
    code, _, err = hearth("inspect")
    return code != 1 or "built-in" not in err


def need_repacking(model):
    """Skips the test where this machine's level has no kernels for repacked weights: what it says of that itself is
    what is tested."""
    level = re.search(r", cpu (\w+)", hearth("run", model, "-p", "x", "-n", 1)[2]).group(1)
    if level not in ("avx2", "avx2vnni", "avx512vnni", "avx512bf16", "amx"):
        raise unittest.SkipTest("level %s does not repack" % level)


def main():
    """Runs the tests of the calling file; exit code 77 where all were skipped."""
    signal.signal(signal.SIGINT, signal.default_int_handler)  # not ignored, whoever started the tests
    result = unittest.main(exit=False, verbosity=1).result
    for _, why in result.skipped:
        print("skipped: %s" % why)
    if not result.wasSuccessful():
        sys.exit(1)
    sys.exit(77 if result.testsRun and len(result.skipped) == result.testsRun else 0)


# ---- a GGUF file

def gguf_str(s):
    data = s.encode() if isinstance(s, str) else s
    return struct.pack("<Q", len(data)) + data


def meta(key, value):
    """One metadata entry: int -> u32, float -> f32, bool, str, list of str or of int (i32)."""
    if isinstance(value, bool):
        return gguf_str(key) + struct.pack("<IB", 7, value)
    if isinstance(value, int):
        return gguf_str(key) + struct.pack("<II", 4, value)
    if isinstance(value, float):
        return gguf_str(key) + struct.pack("<If", 6, value)
    if isinstance(value, str):
        return gguf_str(key) + struct.pack("<I", 8) + gguf_str(value)
    if isinstance(value[0], int):
        return gguf_str(key) + struct.pack("<IIQ", 9, 5, len(value)) + struct.pack("<%di" % len(value), *value)
    return gguf_str(key) + struct.pack("<IIQ", 9, 8, len(value)) + b"".join(map(gguf_str, value))


def write_gguf(path, entries, tensors):
    """tensors: (name, shape with the contiguous dimension last, list of floats), written as F32."""
    head = b"GGUF" + struct.pack("<IQQ", 3, len(tensors), len(entries))
    head += b"".join(meta(k, v) for k, v in entries)
    data = b""
    for name, shape, values in tensors:
        head += gguf_str(name) + struct.pack("<I", len(shape))
        head += b"".join(struct.pack("<Q", n) for n in reversed(shape)) + struct.pack("<IQ", 0, len(data))
        data += struct.pack("<%df" % len(values), *values)
        data += bytes(-len(data) % 32)
    with open(path, "wb") as f:
        f.write(head + bytes(-len(head) % 32) + data)


def byte_letters():
    """The letters that stand for the 256 bytes in byte-level vocabularies (GPT-2's table)."""
    plain = [*range(33, 127), *range(161, 173), *range(174, 256)]
    letters, extra = [], 256
    for byte in range(256):
        if byte in plain:
            letters.append(chr(byte))
        else:
            letters.append(chr(extra))
            extra += 1
    return letters


DIM, HEADS, FFN, LAYERS = 64, 2, 96, 2
END = 257  # <|end|>


def tiny_entries(arch="llama", heads=HEADS, ffn=FFN):
    tokens = byte_letters() + ["<|begin|>", "<|end|>", "he", "th"]
    types = [1] * 256 + [3, 3, 1, 1]
    return [
        ("general.architecture", arch), ("general.name", "tiny"),
        (arch + ".block_count", LAYERS), (arch + ".context_length", 1 << 20), (arch + ".embedding_length", DIM),
        (arch + ".feed_forward_length", ffn), (arch + ".attention.head_count", heads),
        (arch + ".attention.head_count_kv", 1), (arch + ".attention.layer_norm_rms_epsilon", 1e-5),
        (arch + ".rope.dimension_count", DIM // heads), (arch + ".rope.freq_base", 10000.0),
        ("tokenizer.ggml.model", "gpt2"), ("tokenizer.ggml.pre", "gpt-2"), ("tokenizer.ggml.tokens", tokens),
        ("tokenizer.ggml.token_type", types), ("tokenizer.ggml.merges", ["h e", "t h"]),
        ("tokenizer.ggml.bos_token_id", 256), ("tokenizer.ggml.eos_token_id", END),
        ("tokenizer.ggml.add_bos_token", True),
    ]


def tiny_gpt2(path, positions):
    """A GPT-2 of one layer with random weights and learned positions for so many tokens."""
    rng = random.Random(6)
    entries = [e for e in tiny_entries("gpt2") if ".rope." not in e[0] and ".head_count_kv" not in e[0]]
    entries = [(k, 1 if k.endswith(".block_count") else positions if k.endswith(".context_length") else v)
               for k, v in entries] + [("gpt2.attention.layer_norm_epsilon", 1e-5)]
    tensors = []

    def add(name, rows, cols=DIM, bias=True):
        tensors.append((name + ".weight", [rows, cols], [rng.gauss(0, 0.2) for _ in range(rows * cols)]))
        if bias:
            tensors.append((name + ".bias", [rows], [0.0] * rows))

    add("token_embd", 260, bias=False)
    add("position_embd", positions, bias=False)
    for name in ("output_norm", "blk.0.attn_norm", "blk.0.ffn_norm"):
        tensors.extend([(name + ".weight", [DIM], [1.0] * DIM), (name + ".bias", [DIM], [0.0] * DIM)])
    add("blk.0.attn_qkv", 3 * DIM)
    add("blk.0.attn_output", DIM)
    add("blk.0.ffn_up", FFN)
    add("blk.0.ffn_down", DIM, FFN)
    write_gguf(path, entries, tensors)
    return path


def tiny_model(path, arch="llama", heads=HEADS, experts=0, ffn=FFN, entries=None):
    """A Llama of two layers with random weights, which writes visible bytes and never ends by itself often; of so
    many experts, two of them a token, or none; with these metadata entries, or its own."""
    rng = random.Random(5)

    def matrix(name, rows, cols, scale):
        return name, [rows, cols], [rng.gauss(0, scale) for _ in range(rows * cols)]

    def of_experts(name, rows, cols, scale):
        if experts == 0:
            return matrix(name + ".weight", rows, cols, scale)
        name, _, values = matrix(name + "_exps.weight", experts * rows, cols, scale)
        return name, [experts, rows, cols], values

    def ones(name, n):
        return name, [n], [1.0] * n

    kv, n_vocab = DIM // heads, 260
    tensors = [matrix("token_embd.weight", n_vocab, DIM, 1.0), ones("output_norm.weight", DIM),
               matrix("output.weight", n_vocab, DIM, 0.3)]
    for i in range(LAYERS):
        b = "blk.%d." % i
        tensors += [ones(b + "attn_norm.weight", DIM), ones(b + "ffn_norm.weight", DIM),
                    matrix(b + "attn_q.weight", DIM, DIM, 0.2), matrix(b + "attn_k.weight", kv, DIM, 0.2),
                    matrix(b + "attn_v.weight", kv, DIM, 0.2), matrix(b + "attn_output.weight", DIM, DIM, 0.2),
                    of_experts(b + "ffn_gate", ffn, DIM, 0.2), of_experts(b + "ffn_up", ffn, DIM, 0.2),
                    of_experts(b + "ffn_down", DIM, ffn, 0.2)]
        if experts:
            tensors.append(matrix(b + "ffn_gate_inp.weight", experts, DIM, 0.2))
    entries = entries or tiny_entries(arch, heads, ffn)
    if experts:
        entries += [(arch + ".expert_count", experts), (arch + ".expert_used_count", 2)]
    write_gguf(path, entries, tensors)
    return path
