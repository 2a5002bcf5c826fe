#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""A look at a checkpoint during training: the questions of `measure`, asked in PyTorch.

    probe.py CHECKPOINT DATA [--count 50] [--failures]

Prompts of one length are answered together, with a cache of keys and values. The products are in bf16, so that a few
answers may differ from those that an f32 engine gives: the numbers that count are those of `measure`.
"""
import argparse
import collections
import json

import torch
import torch.nn.functional as F

import bpe
import judge
from model import Shape, Spark, low, rms_norm, rotate


class Cached:
    """Runs a model over a batch of sequences of one length, keeping keys and values."""

    def __init__(self, model):
        self.model, self.cache, self.pos = model, [None] * len(model.layers), 0

    def attend(self, i, layer, h):
        s, (batch, seq, _) = layer.shape, h.shape
        split = lambda w, n: F.linear(h, low(w)).view(batch, seq, n, s.head_dim).transpose(1, 2)
        place = slice(self.pos, self.pos + seq)
        cos, sin = self.model.cos[place], self.model.sin[place]
        q = low(rotate(rms_norm(split(layer.attn_q, s.n_heads), layer.attn_q_norm, s.eps), cos, sin))
        k = low(rotate(rms_norm(split(layer.attn_k, s.n_kv_heads), layer.attn_k_norm, s.eps), cos, sin))
        v = split(layer.attn_v, s.n_kv_heads)
        if self.cache[i] is not None:
            k, v = (torch.cat([old, new], 2) for old, new in zip(self.cache[i], (k, v)))
        self.cache[i] = k, v
        group = s.n_heads // s.n_kv_heads
        k, v = k.repeat_interleave(group, 1), v.repeat_interleave(group, 1)
        score = torch.matmul(q, k.transpose(2, 3)).float() * s.head_dim ** -0.5
        if seq > 1:
            score = score + torch.full((seq, k.shape[2]), float("-inf")).triu(1 + self.pos)
        y = torch.matmul(low(score.softmax(-1)), v).transpose(1, 2).reshape(batch, seq, -1)
        return F.linear(y, low(layer.attn_output)).float()

    def step(self, tokens):
        """Logits after the last of the new tokens [batch, seq]."""
        m = self.model
        x = F.embedding(tokens, m.token_embd)
        for i, layer in enumerate(m.layers):
            x = x + self.attend(i, layer, low(rms_norm(x, layer.attn_norm, m.shape.eps)))
            h = low(rms_norm(x, layer.ffn_norm, m.shape.eps))
            h = F.silu(F.linear(h, low(layer.ffn_gate))) * F.linear(h, low(layer.ffn_up))
            x = x + F.linear(h, low(layer.ffn_down)).float()
        self.pos += tokens.shape[1]
        return F.linear(low(rms_norm(x[:, -1], m.output_norm, m.shape.eps)), low(m.token_embd))


@torch.no_grad()
def answer(model, tokenizer, prompts, limit):
    """Greedy answers to prompts of one length in tokens."""
    run, end = Cached(model), tokenizer.ids["<|im_end|>"]
    tokens = torch.tensor(prompts)
    out, open_ = [[] for _ in prompts], set(range(len(prompts)))
    for _ in range(limit):
        tokens = run.step(tokens).float().argmax(-1, keepdim=True)
        for i in list(open_):
            t = tokens[i, 0].item()
            out[i].append(t) if t != end else open_.remove(i)
        if not open_ or run.pos + 1 >= model.shape.n_ctx:
            break
    return [tokenizer.decode(ids) for ids in out]


def load(path):
    saved = torch.load(path, map_location="cpu")
    model = Spark(Shape(**saved["shape"]))
    model.load_state_dict(saved["model"])
    return model, saved["tokens"]


def batches(tokenizer, questions, most=50):
    """The questions in groups whose prompts have one kind and one length."""
    groups = collections.defaultdict(list)
    for q in questions:
        ids = tokenizer.encode(q["prompt"])
        groups[q["kind"], len(ids)].append((q, ids))
    for (kind, _), group in sorted(groups.items()):
        for i in range(0, len(group), most):
            yield kind, group[i:i + most]


def main():
    parser = argparse.ArgumentParser(description="probe a checkpoint")
    parser.add_argument("checkpoint")
    parser.add_argument("data")
    parser.add_argument("--count", type=int, default=50)
    parser.add_argument("--kinds", nargs="*", default=list(judge.KINDS))
    parser.add_argument("--failures", type=int, default=0, help="failures to show of each kind")
    args = parser.parse_args()
    torch.set_num_threads(2)
    model, tokens = load(args.checkpoint)
    tokenizer = bpe.Tokenizer.load(args.data + "/tokenizer.json")
    questions, taken = [], collections.Counter()
    for line in open(args.data + "/held.jsonl"):
        q = json.loads(line)
        taken[q["kind"]] += 1
        if q["kind"] in args.kinds and taken[q["kind"]] <= args.count:
            questions.append(q)
    right, asked, wrong = collections.Counter(), collections.Counter(), collections.defaultdict(list)
    for kind, group in batches(tokenizer, questions):
        said = answer(model, tokenizer, [ids for _, ids in group], judge.KINDS[kind][2])
        for (q, _), text in zip(group, said):
            fault = judge.judge(q, text)
            asked[kind] += 1
            right[kind] += fault is None
            if fault is not None:
                wrong[kind].append((q["prompt"][-120:], text, fault))
    print("after %.2f M tokens: " % (tokens / 1e6) + ", ".join("%s %d/%d" % (k, right[k], asked[k]) for k in asked))
    for kind, faults in wrong.items():
        for prompt, text, fault in faults[:args.failures]:
            print("--- %s\n%s\n>>> %s\n!!! %s" % (kind, prompt, text, fault))


if __name__ == "__main__":
    main()
