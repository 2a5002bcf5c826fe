#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Trains Spark on packed windows.

    train.py DATA RUN [--shape spark|draft] (--tokens N | --minutes M) ...

DATA is a folder of pack.py, RUN a folder for checkpoints and curve.csv; a RUN with a checkpoint is resumed. The learning
rate warms up, stays, and falls linearly to zero over the last part of the run. The run's length is given in tokens, which
makes it repeatable, or in minutes of wall clock, which makes it end on time on a machine that is shared. A file
RUN/finish holding a number of minutes brings the end forward: the rate then falls to zero over that time. SIGTERM ends
the run with a checkpoint.
"""
import argparse
import csv
import os
import signal
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import torch
import torch.nn.functional as F

from model import Shape, Spark
from muon import Adam, Muon

LEARN = 0x8000
LENGTHS = (384, 512, 1024)
PARTS = 4
SHAPES = {"spark": {},
          "draft": dict(dim=96, n_layers=4, n_heads=3, n_kv_heads=1, head_dim=32, ffn_dim=256)}


class Windows:
    """Batches of windows in a seeded order; every batch holds windows of one length."""

    def __init__(self, folder, tokens, seed):
        self.sets = [np.load("%s/train-%d.npy" % (folder, n), mmap_mode="r") for n in LENGTHS]
        self.seed = seed
        self.batches = [(i, k) for i, s in enumerate(self.sets) for k in range(len(s) * s.shape[1] // tokens)]
        self.per = [tokens // s.shape[1] for s in self.sets]
        self.epoch = -1

    def get(self, step):
        """The batch of a step: rows of tokens with the learn bit."""
        epoch, at = divmod(step, len(self.batches))
        if epoch != self.epoch:
            rng = np.random.default_rng(self.seed + epoch)
            self.order = rng.permutation(len(self.batches))
            self.rows = [rng.permutation(len(s)) for s in self.sets]
            self.epoch = epoch
        i, k = self.batches[self.order[at]]
        return self.sets[i][np.sort(self.rows[i][k * self.per[i]:(k + 1) * self.per[i]])]


def loss_of(model, rows, reduction="mean"):
    """Cross-entropy over the tokens that are to be learned."""
    rows = torch.from_numpy(rows.astype(np.int64))
    tokens, learn = rows & (LEARN - 1), rows >= LEARN
    keep = learn[:, 1:].reshape(-1).nonzero().squeeze(1)
    logits = model(tokens[:, :-1], keep)
    return F.cross_entropy(logits.float(), tokens[:, 1:].reshape(-1)[keep], reduction=reduction)


def gradients(model, rows, pool):
    """Sets the gradients for a batch and returns its loss.

    The batch is cut in parts that the pool's threads take one after the other, each thread with one core. That keeps
    two cores busy when other programs hold them up in turn: threads that share every product wait for each other.
    """
    count = int((rows[:, 1:] >= LEARN).sum())
    params = list(model.parameters())

    def part(chunk):
        torch.set_num_threads(1)
        loss = loss_of(model, chunk, "sum") / count
        return loss.item(), torch.autograd.grad(loss, params)
    losses, grads = zip(*pool.map(part, np.array_split(rows, PARTS)))
    for p, *parts in zip(params, *grads):
        p.grad = parts[0]
        for g in parts[1:]:
            p.grad += g
    return sum(losses)


def first_start(run):
    """When the run was first started, so that a resumed run keeps to its schedule."""
    path = os.path.join(run, "began")
    if not os.path.exists(path):
        with open(path, "w") as f:
            f.write("%f" % time.time())
    with open(path) as f:
        return float(f.read())


class Clock:
    """How far the run has come, from 0 to 1, by tokens or by the wall clock."""

    def __init__(self, args, run):
        self.args, self.finish = args, os.path.join(run, "finish")
        self.start, self.end = first_start(run), None

    def progress(self, tokens):
        if self.args.tokens:
            p = tokens / self.args.tokens
        else:
            p = (time.time() - self.start) / (60 * self.args.minutes)
        return min(1.0, p)

    def rate(self, tokens):
        """The factor on the learning rates; zero ends the run."""
        warm = min(1.0, (tokens + 1) / self.args.warmup)
        fall = (1 - self.progress(tokens)) / self.args.decay
        if self.end is None and os.path.exists(self.finish):
            with open(self.finish) as f:
                self.began, self.end = time.time(), time.time() + 60 * float(f.read())
        if self.end is not None:
            fall = min(fall, (self.end - time.time()) / (self.end - self.began))
        return max(0.0, min(1.0, warm, fall))


def save(path, model, optimisers, step, tokens):
    """Writes a checkpoint beside the old one and then puts it in its place."""
    torch.save({"shape": vars(model.shape), "model": model.state_dict(), "step": step, "tokens": tokens,
                "optimisers": [o.state for o in optimisers], "adam_t": optimisers[1].t}, path + ".new")
    os.replace(path + ".new", path)


def load(path, model, optimisers):
    """Resumes; returns (step, tokens)."""
    saved = torch.load(path, map_location="cpu")
    model.load_state_dict(saved["model"])
    for o, state in zip(optimisers, saved["optimisers"]):
        o.state = state
    optimisers[1].t = saved["adam_t"]
    return saved["step"], saved["tokens"]


def held_loss(model, rows):
    """Loss on the held-out windows."""
    with torch.no_grad():
        return sum(loss_of(model, rows[i:i + 8]).item() for i in range(0, len(rows), 8)) / -(-len(rows) // 8)


def build(args):
    """The model and its two optimisers."""
    torch.manual_seed(args.seed)
    vocab = args.vocab
    model = Spark(Shape(vocab=vocab, **SHAPES[args.shape]))
    matrices = [p for n, p in model.named_parameters() if p.ndim == 2 and n != "token_embd"]
    others = [p for n, p in model.named_parameters() if p.ndim == 1 or n == "token_embd"]
    return model, (Muon(matrices), Adam(others))


def train(args):
    model, optimisers = build(args)
    print("%d parameters" % model.count(), flush=True)
    checkpoint, step, tokens = os.path.join(args.run, "checkpoint.pt"), 0, 0
    if os.path.exists(checkpoint):
        step, tokens = load(checkpoint, model, optimisers)
    windows = Windows(args.data, args.batch, args.seed)
    held = np.load(args.data + "/held.npy")[:16]
    curve = open(os.path.join(args.run, "curve.csv"), "a", newline="")
    log, clock, mean, saved, began = csv.writer(curve), Clock(args, args.run), None, time.time(), time.time()
    stopped, pool = [], ThreadPoolExecutor(args.threads)
    signal.signal(signal.SIGTERM, lambda *_: stopped.append(True))
    while not stopped:
        rate = clock.rate(tokens)
        if rate == 0:
            break
        rows = windows.get(step)
        loss = gradients(model, rows, pool)
        optimisers[0].step(args.muon * rate, pool)
        optimisers[1].step(args.adam * rate)
        step, tokens = step + 1, tokens + rows.size
        mean = loss if mean is None else 0.98 * mean + 0.02 * loss
        if step % args.every == 0:
            row = [step, tokens, round(time.time() - began), "%.3f" % rate, "%.4f" % mean,
                   "%.4f" % held_loss(model, held)]
            log.writerow(row)
            curve.flush()
            print(*row, flush=True)
        if time.time() - saved > 150:
            save(checkpoint, model, optimisers, step, tokens)
            saved = time.time()
    save(checkpoint, model, optimisers, step, tokens)
    print("done: %d steps, %d tokens, held-out loss %.4f" % (step, tokens, held_loss(model, held)))


def main():
    parser = argparse.ArgumentParser(description="train Spark")
    parser.add_argument("data")
    parser.add_argument("run")
    parser.add_argument("--shape", choices=SHAPES, default="spark")
    parser.add_argument("--vocab", type=int, default=2080)
    parser.add_argument("--tokens", type=int, help="length of the run in tokens")
    parser.add_argument("--minutes", type=float, help="length of the run in minutes of wall clock")
    parser.add_argument("--batch", type=int, default=4096, help="tokens a step")
    parser.add_argument("--muon", type=float, default=0.02, help="learning rate of the matrices")
    parser.add_argument("--adam", type=float, default=0.004, help="learning rate of embedding and norms")
    parser.add_argument("--warmup", type=int, default=200000, help="tokens of warm-up")
    parser.add_argument("--decay", type=float, default=0.7, help="share of the run over which the rate falls")
    parser.add_argument("--every", type=int, default=200, help="steps between lines of the curve")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    if not args.tokens and not args.minutes:
        parser.error("give --tokens or --minutes")
    os.makedirs(args.run, exist_ok=True)
    torch.set_num_threads(1)
    with open(os.path.join(args.run, "pid"), "w") as f:
        f.write("%d\n" % os.getpid())
    train(args)


if __name__ == "__main__":
    main()
