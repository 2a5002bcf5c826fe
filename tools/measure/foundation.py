#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Measure what docs/measures.md says of the foundation, with the built program, and print it as Markdown tables.

usage: foundation.py [--hearth build/hearth] [--shared ../shared] [--model BIG.gguf] [PART ...]
  PART  golden, quants, tokenizers, same-bytes, load, memory, size (default: all that have their data)
  BIG   for load and memory: mkgguf.py --shape qwen3-0.6b --type q8_0 with a real vocabulary (docs/measures.md)
Exit status 1 if a bar is missed.
"""
import argparse
import array
import json
import os
import re
import subprocess
import sys
import tempfile

LEVELS = ['scalar', 'avx2', 'avx2vnni', 'avx512', 'avx512vnni', 'avx512bf16', 'amx', 'neon', 'neon_dotprod', 'neon_i8mm']
QUANT_BARS = {'F32': 1e-11, 'F16': 2e-7, 'BF16': 1.4e-5, 'MXFP4_MOE': 2e-3}
QUANT_BAR = 2.5e-4
missed = []


def run(args, stdin=None):
    p = subprocess.run(args, input=stdin, capture_output=True)
    if p.returncode:
        raise RuntimeError(f"{' '.join(map(str, args))}: exit {p.returncode}: {p.stderr.decode()[-500:]}")
    return p


def floats(path):
    a = array.array('f')
    with open(path, 'rb') as f:
        a.frombytes(f.read())
    return a


def nmse(a, b):
    if len(a) != len(b):
        raise RuntimeError(f'{len(a)} logits, expected {len(b)}')
    return sum((x - y) ** 2 for x, y in zip(a, b)) / sum(y * y for y in b)


def judge(what, value, bar, form='{:.2e}'):
    ok = value <= bar
    if not ok:
        missed.append(what)
    return form.format(value) + ('' if ok else f' (bar {form.format(bar)} MISSED)')


def models(folder):
    return sorted(f[:-5] for f in os.listdir(folder) if f.endswith('.gguf'))


class Hearth:
    def __init__(self, path):
        self.path = path
        self.folder = tempfile.TemporaryDirectory(prefix='hearth-measure-')
        self.tmp = self.folder.name

    def eval(self, model, tokens, *options):
        out = os.path.join(self.tmp, 'logits.f32')
        run([self.path, 'eval', model, '--tokens', '@' + tokens, '--logits', out, *map(str, options)])
        return out

    def levels(self):
        """The CPU levels that this machine can run."""
        found = []
        for level in LEVELS:
            p = subprocess.run([self.path, 'eval', self.probe, '--tokens', '1', '--logits', os.devnull,
                                '--cpu-level', level], capture_output=True)
            if p.returncode == 0:
                found.append(level)
        return found


def part_golden(h, shared, folder='archs', bars=None):
    folder = os.path.join(shared, 'golden', folder)
    tokens = os.path.join(folder, 'tokens.txt')
    ways = [('ref', ['--backend', 'ref'])] + [(level, ['--cpu-level', level]) for level in h.levels()]
    print('| model | ' + ' | '.join(w for w, _ in ways) + ' |\n|' + '---|' * (len(ways) + 1))
    for name in models(folder):
        want = floats(os.path.join(folder, name + '.logits'))
        cells = []
        for way, options in ways:
            bar = 1e-11 if way == 'ref' or bars is None else bars(name)
            path = h.eval(os.path.join(folder, name + '.gguf'), tokens, '--kv-type', 'f32', *options)
            cells.append(judge(f'{name} {way}', nmse(floats(path), want), bar))
        print(f'| {name} | ' + ' | '.join(cells) + ' |')


def part_quants(h, shared):
    part_golden(h, shared, 'quants', lambda name: QUANT_BARS.get(name.split('.')[1], QUANT_BAR))


def part_tokenizers(h, shared):
    folder = os.path.join(shared, 'tokenizers')
    print('| vocabulary | texts | ids equal | round trip equal |\n|---|---|---|---|')
    for name in models(folder):
        with open(os.path.join(folder, name + '.jsonl'), 'rb') as f:
            cases = [json.loads(line) for line in f]
        model = os.path.join(folder, name + '.gguf')
        lines = ''.join(json.dumps({'text': c['text']}) + '\n' for c in cases).encode()
        found = run([h.path, 'tokenize', model, '--jsonl'], lines).stdout.splitlines()
        got = [json.loads(line)['ids'] for line in found]
        same = sum(g == c['ids'] for g, c in zip(got, cases))
        back = run([h.path, 'tokenize', model, '--jsonl', '--decode'],
                   ''.join(json.dumps({'ids': c['ids']}) + '\n' for c in cases).encode()).stdout.splitlines()
        trips = sum(json.loads(line)['text'] == expected_text(name, c['text']) for line, c in zip(back, cases))
        if same != len(cases) or trips != len(cases):
            missed.append(f'tokenizer {name}')
        print(f'| {name} | {len(cases)} | {same} | {trips} |')


def expected_text(name, text):
    import unicodedata
    return unicodedata.normalize('NFC', text) if name == 'qwen3' else text


def part_same_bytes(h, shared):
    """One sequence's logits over chunkings, threads and company: one set of bytes a model."""
    print('| models | runs | models whose bytes ever differed |\n|---|---|---|')
    for folder in ('archs', 'quants'):
        at = os.path.join(shared, 'golden', folder)
        tokens = os.path.join(at, 'tokens.txt')
        n_runs, differing = 0, []
        for name in models(at):
            seen = set()
            for chunk in (1, 7, 64, 512):
                for threads in (1, 2, 3):
                    for among in (0, 1, 5, 16):
                        out = h.eval(os.path.join(at, name + '.gguf'), tokens, '--chunk', chunk, '--threads', threads,
                                     '--among', among)
                        with open(out, 'rb') as f:
                            seen.add(f.read())
                        n_runs += 1
            if len(seen) != 1:
                differing.append(name)
                missed.append(f'same bytes {name}')
        print(f"| {folder}: {len(models(at))} | {n_runs} | {', '.join(differing) or 'none'} |")


def stats_value(text, pattern):
    m = re.search(pattern, text)
    if not m:
        raise RuntimeError(f'no {pattern!r} in the statistics:\n{text}')
    return float(m.group(1))


def part_load(h, model):
    times = []
    for _ in range(9):
        p = run([h.path, 'run', model, '-p', 'Hello', '-n', '1', '--temp', '0'])
        times.append(1000 * stats_value(p.stderr.decode(), r'load\s+([\d.]+) s'))
    times.sort()
    print(f'load: median {judge("load", times[4], 80, "{:.0f}")} ms, {times[0]:.0f} to {times[-1]:.0f}, of {len(times)}')


def part_memory(h, model):
    """Peak of a run that fills the whole context of 4096 tokens with i16 KV, against the file, the KV and the plan."""
    plan = json.loads(run([h.path, 'inspect', model, '--json', '--memory', '--ctx', '4096']).stdout)['memory']
    with tempfile.NamedTemporaryFile('w', suffix='.txt') as f:
        f.write('the ' * 4000)
        f.flush()
        p = run([h.path, 'run', model, '-f', f.name, '--ctx', '4096', '--ignore-end'])
    peak = stats_value(p.stderr.decode(), r'peak memory\s+([\d.]+) MB') * 1e6
    bar = os.path.getsize(model) + plan['kv'] + 64 * 2**20
    print(f"peak {judge('peak', peak / 1e6, bar / 1e6, '{:.0f}')} MB; file + KV + 64 MiB = {bar / 1e6:.0f} MB; planned "
          f"{plan['total'] / 1e6:.0f} MB, off by {judge('plan', abs(plan['total'] / peak - 1) * 100, 2, '{:.2f}')} %")


def part_size(h):
    with tempfile.NamedTemporaryFile() as f:
        run(['strip', '-o', f.name, h.path])
        stripped = os.path.getsize(f.name)
    model = os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', '..', 'data', 'spark.gguf')
    builtin = os.path.getsize(model) if os.path.exists(model) else 0
    print(f'stripped: {stripped / 1e6:.2f} MB, of which the built-in model {builtin / 1e6:.2f} MB; the rest '
          f'{judge("size", (stripped - builtin) / 1e6, 2**21 / 1e6, "{:.3f}")} MB')


def main():
    here = os.path.dirname(os.path.abspath(__file__))
    root = os.path.normpath(os.path.join(here, '..', '..'))
    ap = argparse.ArgumentParser()
    ap.add_argument('--hearth', default=os.path.join(root, 'build', 'hearth'))
    ap.add_argument('--shared', default=os.path.join(root, '..', 'shared'))
    ap.add_argument('--model')
    ap.add_argument('parts', nargs='*')
    a = ap.parse_args()
    h = Hearth(a.hearth)
    h.probe = os.path.join(a.shared, 'golden', 'archs', 'qwen3-dense.gguf')
    parts = {'golden': lambda: part_golden(h, a.shared), 'quants': lambda: part_quants(h, a.shared),
             'tokenizers': lambda: part_tokenizers(h, a.shared), 'same-bytes': lambda: part_same_bytes(h, a.shared),
             'load': lambda: part_load(h, a.model), 'memory': lambda: part_memory(h, a.model), 'size': lambda: part_size(h)}
    for name in a.parts or parts:
        if name in ('load', 'memory') and not a.model:
            print(f'## {name}\n\nskipped: give --model\n')
            continue
        print(f'## {name}\n')
        parts[name]()
        print()
    if missed:
        sys.exit('missed: ' + ', '.join(missed))


if __name__ == '__main__':
    main()
