#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Writes a checkpoint as GGUF.

    export.py CHECKPOINT TOKENIZER OUT.gguf [--type f32|q8_0] [--name Spark]

The file that Hearth carries is made from the f32 file by `hearth quantize`; the q8_0 of this program is the same format
(blocks of 32 with one f16 scale, the largest magnitude over 127) and needs nothing but Python.
"""
import argparse
import os
import struct

import numpy as np

import bpe

ALIGN = 32
F32, Q8_0 = 0, 8
U32, FLOAT, BOOL, STRING, ARRAY, I32 = 4, 6, 7, 8, 9, 5


def string(s):
    data = s.encode("utf-8")
    return struct.pack("<Q", len(data)) + data


def entry(key, value):
    """One key with its value; the GGUF type follows from the Python type."""
    if isinstance(value, bool):
        body = struct.pack("<I?", BOOL, value)
    elif isinstance(value, int):
        body = struct.pack("<II", U32, value)
    elif isinstance(value, float):
        body = struct.pack("<If", FLOAT, value)
    elif isinstance(value, str):
        body = struct.pack("<I", STRING) + string(value)
    elif isinstance(value[0], int):
        body = struct.pack("<IIQ", ARRAY, I32, len(value)) + struct.pack("<%di" % len(value), *value)
    else:
        body = struct.pack("<IIQ", ARRAY, STRING, len(value)) + b"".join(string(v) for v in value)
    return string(key) + body


def q8_0(rows):
    """Rows as blocks of 32: an f16 scale and 32 signed bytes."""
    x = rows.reshape(-1, 32)
    scale = (np.abs(x).max(1) / 127).astype(np.float16)
    inverse = np.where(scale > 0, 1 / np.where(scale > 0, scale.astype(np.float32), 1), 0)
    q = np.clip(np.rint(x * inverse[:, None]), -127, 127).astype(np.int8)
    return np.hstack([scale.view(np.uint8).reshape(-1, 2), q.view(np.uint8)]).tobytes()


def tensors(model, n_layers):
    """(name, array) in the order of use."""
    yield "token_embd.weight", model["token_embd"]
    for i in range(n_layers):
        for part in ("attn_norm", "attn_q", "attn_k", "attn_v", "attn_q_norm", "attn_k_norm", "attn_output", "ffn_norm",
                     "ffn_gate", "ffn_up", "ffn_down"):
            yield "blk.%d.%s.weight" % (i, part), model["layers.%d.%s" % (i, part)]
    yield "output_norm.weight", model["output_norm"]


def hyper_parameters(s):
    keys = {"block_count": s["n_layers"], "context_length": s["n_ctx"], "embedding_length": s["dim"],
            "feed_forward_length": s["ffn_dim"], "attention.head_count": s["n_heads"],
            "attention.head_count_kv": s["n_kv_heads"], "attention.key_length": s["head_dim"],
            "attention.value_length": s["head_dim"], "attention.layer_norm_rms_epsilon": s["eps"],
            "rope.freq_base": s["rope_base"]}
    return [("qwen3." + k, v) for k, v in keys.items()]


def vocabulary(tokenizer):
    kinds = [3 if t in bpe.CONTROL else 4 if t in bpe.SPECIALS else 1 for t in tokenizer.tokens]
    end = tokenizer.ids["<|endoftext|>"]
    with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "chat_template.jinja")) as f:
        template = f.read()
    return [("tokenizer.ggml.model", "gpt2"), ("tokenizer.ggml.pre", "qwen2"),
            ("tokenizer.ggml.tokens", tokenizer.tokens), ("tokenizer.ggml.token_type", kinds),
            ("tokenizer.ggml.merges", [a + " " + b for a, b in tokenizer.merges]),
            ("tokenizer.ggml.eos_token_id", tokenizer.ids["<|im_end|>"]), ("tokenizer.ggml.bos_token_id", end),
            ("tokenizer.ggml.padding_token_id", end), ("tokenizer.ggml.add_bos_token", False),
            ("tokenizer.chat_template", template)]


def metadata(name, shape, tokenizer, kind):
    general = [("general.architecture", "qwen3"), ("general.type", "model"), ("general.name", name),
               ("general.license", "MIT"), ("general.file_type", 0 if kind == "f32" else 7)]
    if kind != "f32":
        general.append(("general.quantization_version", 2))
    return general + hyper_parameters(shape) + vocabulary(tokenizer)


def write(path, entries, items, kind):
    """Writes the file: header, metadata, tensor descriptions, then the aligned data."""
    head, data = [b"GGUF" + struct.pack("<IQQ", 3, len(items), len(entries))], []
    head += [entry(k, v) for k, v in entries]
    offset = 0
    for name, array in items:
        low = kind == "q8_0" and array.ndim == 2
        body = q8_0(array) if low else array.astype("<f4").tobytes()
        head.append(string(name) + struct.pack("<I", array.ndim) + struct.pack("<%dQ" % array.ndim, *array.shape[::-1])
                    + struct.pack("<IQ", Q8_0 if low else F32, offset))
        body += b"\0" * (-len(body) % ALIGN)
        data.append(body)
        offset += len(body)
    start = b"".join(head)
    with open(path + ".new", "wb") as f:
        f.write(start + b"\0" * (-len(start) % ALIGN) + b"".join(data))
    os.replace(path + ".new", path)


def main():
    parser = argparse.ArgumentParser(description="write a checkpoint as GGUF")
    parser.add_argument("checkpoint")
    parser.add_argument("tokenizer")
    parser.add_argument("out")
    parser.add_argument("--type", choices=("f32", "q8_0"), default="f32")
    parser.add_argument("--name", default="Spark")
    args = parser.parse_args()
    import torch
    saved = torch.load(args.checkpoint, map_location="cpu")
    model = {k: v.numpy() for k, v in saved["model"].items()}
    entries = metadata(args.name, saved["shape"], bpe.Tokenizer.load(args.tokenizer), args.type)
    write(args.out, entries, list(tensors(model, saved["shape"]["n_layers"])), args.type)
    print("%s: %d parameters, %d tokens of training, %d bytes" % (
        args.out, sum(v.size for v in model.values()), saved["tokens"], os.path.getsize(args.out)))


if __name__ == "__main__":
    main()
