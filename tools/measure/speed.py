#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Tokens a second of hearth beside a peer's bench program, interleaved on the same files, as ratios and as shares of what
the machine can do in the same minutes. Run it on a quiet machine: the load average is printed with the result.

usage: speed.py MODEL.gguf ... --roofline PROGRAM [--peer LLAMA_BENCH] [--hearth PATH] [--threads N] [--rounds N]
                [--prompt N] [--generate N] [--depth N]
  PROGRAM      shared/tools/roofline.c, built as its first lines say
  LLAMA_BENCH  a llama-bench, built aside; its JSON output is read
"""
import argparse
import json
import os
import re
import statistics
import subprocess


def output(args):
    return subprocess.run(list(map(str, args)), check=True, capture_output=True).stdout.decode()


def ceilings(program, threads):
    """Read bandwidth in GB/s and multiply-adds in GMAC/s, by name."""
    text = output([program, threads])
    return {name: float(value) for name, value in re.findall(r'(\w+) ([\d.]+)', text)}


def hearth_rates(a, model, work):
    kind, n, depth = work
    other = 'generate' if kind == 'prompt' else 'prompt'
    report = json.loads(output([a.hearth, 'bench', model, f'--{kind}', n, f'--{other}', 0, '--depth', depth, '--reps', 1,
                                '--threads', a.threads, '--json']))
    run, = [r for r in report['runs'] if r['kind'] == kind]
    return run['tokens_s'], run.get('bytes_s', 0) / 1e9


def prompt_products(a, model):
    """Multiply-adds with weights for one token of a prompt: all but the table of the vocabulary, which only the last reads."""
    info = json.loads(output([a.hearth, 'inspect', model, '--json']))['model']
    return info['params'] - info['vocab'] * info['dim']


def peer_rate(a, model, work):
    kind, n, depth = work
    p, g = (n, 0) if kind == 'prompt' else (0, n)
    rows = json.loads(output([a.peer, '-m', model, '-p', p, '-n', g, '-d', depth, '-t', a.threads, '-r', 1, '-o', 'json']))
    return rows[0]['avg_ts']


def spread(values):
    return f'{statistics.median(values):.1f} ({min(values):.1f} to {max(values):.1f})'


def measure(a, model, work):
    ours, theirs, shares, products = [], [], [], prompt_products(a, model)
    for _ in range(a.rounds):
        roof = ceilings(a.roofline, a.threads)
        rate, gbs = hearth_rates(a, model, work)
        ours.append(rate)
        shares.append(gbs / roof['read_GBs'] if work[0] == 'generate' else rate * products / 1e9 / roof['int8_GMACs'])
        if a.peer:
            theirs.append(peer_rate(a, model, work))
    kind, n, depth = work
    name = f'{kind} {n}' + (f' behind {depth}' if depth else '')
    of = 'read bandwidth' if kind == 'generate' else 'int8 peak'
    row = f'| {os.path.basename(model)} | {name} | {spread(ours)} | {100 * statistics.median(shares):.0f} % of {of} |'
    if a.peer:
        row += f' {spread(theirs)} | {statistics.median(ours) / statistics.median(theirs):.2f} |'
    print(row, flush=True)


def main():
    root = os.path.normpath(os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', '..'))
    ap = argparse.ArgumentParser()
    ap.add_argument('models', nargs='+')
    ap.add_argument('--hearth', default=os.path.join(root, 'build', 'hearth'))
    ap.add_argument('--peer')
    ap.add_argument('--roofline', required=True)
    ap.add_argument('--threads', type=int, default=2)
    ap.add_argument('--rounds', type=int, default=3)
    ap.add_argument('--prompt', type=int, default=512)
    ap.add_argument('--generate', type=int, default=64)
    ap.add_argument('--depth', type=int, default=0)
    a = ap.parse_args()
    print(f'load average at the start: {os.getloadavg()[0]:.2f}; {a.threads} threads; medians of {a.rounds} rounds, in '
          f'brackets the slowest and the fastest\n')
    print('| file | work | hearth, tokens/s | share |' + (' peer | ratio |' if a.peer else ''))
    print('|---|---|---|---|' + ('---|---|' if a.peer else ''))
    for model in a.models:
        if a.prompt:
            measure(a, model, ('prompt', a.prompt, 0))
        if a.generate:
            measure(a, model, ('generate', a.generate, 0))
        if a.depth:
            measure(a, model, ('generate', a.generate, a.depth))


if __name__ == '__main__':
    main()
