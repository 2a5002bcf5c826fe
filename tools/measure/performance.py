#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Hearth beside llama.cpp and ik_llama.cpp on the same files: the rows of docs/performance.md,
which says how files and peers are made and what a share is. Run it on a quiet machine.

usage: performance.py [ROW ...] [--models DIR] [--hearth PATH] [--llama DIR] [--ik DIR]
                      [--threads N] [--rounds N] [--tries N] [--level L] [--list] [--choose]
  ROW        a row's name or how it begins, such as prompt or seqs-8 (default: all but those of other formats)
  --llama    the folder of llama.cpp's programs; --ik: of ik_llama.cpp's; without: its cells are -
  --tries    how many times as many rounds are tried, for turns that compare (default: 4)
  --level    Hearth's --cpu-level, for peers that were built for as much
  --choose   try each of the peers' sets of flags instead, to see which are the best
"""
import argparse
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time
from types import SimpleNamespace

PEERS = {'llama': 'llama.cpp', 'ik': 'ik_llama.cpp'}

# What --choose tries, and what came out best, by kind of row; of two, the better one counts.
CANDIDATES = {
    'llama': {'bench': ['', '-fa 0'], 'run': ['', '--no-warmup', '--no-warmup -nr']},
    'ik': {'bench': ['', '-rtr', '-rtr -thp', '-rtr -mqkv'],
           'run': ['', '--no-warmup', '--no-warmup -rtr']},
}
FLAGS = {
    'hearth': {'bench': ['', '--repack'], 'run': ['']},
    'llama': {'bench': [''], 'run': ['--no-warmup']},
    'ik': {'bench': ['', '-rtr -thp'], 'run': ['--no-warmup']},
}
# llama-bench wants a value behind each switch; ik's reads -rtr only where nothing is mapped.
BENCH_FORM = {'-rtr': '-rtr 1 -mmp 0', '-thp': '-thp 1', '-mqkv': '-mqkv 1'}

FORMATS = {'q8_0': 'Q8_0', 'q4_0': 'Q4_0', 'q4_k_m': 'Q4_K_M', 'f16': 'F16', 'bf16': 'BF16'}
OTHERS = ('q4_1 q5_0 q5_k q6_k q3_k q2_k iq4_nl iq4_xs iq3_s iq3_xxs iq2_s iq2_xs '
          'iq2_xxs iq1_m iq1_s mxfp4 nvfp4 tq1_0 tq2_0 q2_0 q1_0').split()
FORMATS |= {fmt: fmt.upper() for fmt in OTHERS}
WORDS = 'the of and to in is that for it as with on'.split()  # each is one token
BENCHED = 'generate', 'prompt', 'seqs'  # kinds of rows that `hearth bench` measures
SPARE = 48 * 2**20  # what a run may take beside the file and the KV


def make_rows():
    """All rows; bars are Hearth's share, and how many times each peer's speed (or cost)."""
    rows = []

    def add(name, what, kind, fmt, bars, shape='q06', unit='tokens/s', **sizes):
        row = SimpleNamespace(name=f'{name}-{fmt}', what=f'{what}, {FORMATS[fmt]}', kind=kind,
                              model=f'{shape}-{fmt}.gguf', fmt=fmt, bars=bars, unit=unit, n=0,
                              depth=0, seqs=1, reps=3, better='more')
        vars(row).update(sizes)
        rows.append(row)

    for fmt, share in (('q8_0', 0.92), ('f16', 0.92), ('q4_0', 0.88), ('q4_k_m', 0.88)):
        times = (None, None) if fmt == 'f16' else (1.4, 1.2)
        add('generate', 'generate 64', 'generate', fmt, (share, *times), n=64)
    add('generate-4096', 'generate 64 behind 4096', 'generate', 'q4_0', (0.80, 2.8, 1.6), n=64,
        depth=4096, reps=1)
    for fmt in ('q4_k_m', 'q8_0'):
        add('generate-8b', 'generate 16, 8B', 'generate', fmt, (0.92, 1.3, 1.1), shape='l8b', n=16,
            reps=1)
    for fmt, *bars in (('q8_0', 0.80, 5, 2.2), ('q4_0', 0.80, 3, 2.2), ('q4_k_m', 0.78, 4, 2),
                       ('bf16', 0.80, 1.3, 1.3)):
        add('prompt-512', 'prompt of 512', 'prompt', fmt, bars, n=512, reps=5)
    add('prompt-2048', 'prompt of 2048', 'prompt', 'q4_k_m', (0.88, 5, 2.3), n=2048)
    for fmt in ('q8_0', 'q4_k_m'):
        for seqs, llama, ik in ((8, 5, 3), (16, 5, 5), (32, 6, 6)):
            add(f'seqs-{seqs}', f'{seqs} sequences', 'seqs', fmt, (None, llama, ik), n=32,
                depth=128, seqs=seqs, reps=1)
    none = None, None, None  # experts and other formats have no bars
    add('generate-moe', 'generate 64, experts', 'generate', 'q4_k_m', none, shape='moe', n=64)
    add('prompt-512-moe', 'prompt of 512, experts', 'prompt', 'q4_k_m', none, shape='moe', n=512)
    add('seqs-8-moe', '8 sequences, experts', 'seqs', 'q4_k_m', none, shape='moe', n=32, depth=128,
        seqs=8, reps=1)
    for fmt in OTHERS:
        add('other-generate', 'generate 64', 'generate', fmt, none, n=64)
        add('other-prompt-512', 'prompt of 512', 'prompt', fmt, none, n=512)
    add('first-token', 'start to first token, prompt of 512', 'run', 'q4_k_m', (None, 0.25, 0.5),
        unit='ms', n=1, better='less')
    add('memory', 'peak memory, 512 + 128, context 4096', 'run', 'q4_0', (1, 0.6, 1), unit='MB',
        n=128, better='less')
    add('sampling', 'sampling over 151,936 logits', 'sampling', 'f16', (1, None, None), unit='us',
        better='less')
    rows[-1].name, rows[-1].what, rows[-1].model = 'sampling', 'sampling over 151,936 logits', None
    return rows


# ---- programs


def output(args):
    """Both streams, apart."""
    p = subprocess.run(list(map(str, args)), stdin=subprocess.DEVNULL, capture_output=True)
    if p.returncode:
        raise RuntimeError(f"{' '.join(map(str, args))}: exit {p.returncode}: "
                           f"{p.stderr.decode(errors='replace')[-500:]}")
    return p.stdout.decode(errors='replace'), p.stderr.decode(errors='replace')


def cost(args):
    """Wall time in ms and peak memory in MB of a process from its start to its end."""
    with tempfile.TemporaryFile() as errors:
        begin = time.monotonic()
        p = subprocess.Popen(list(map(str, args)), stdin=subprocess.DEVNULL,
                             stdout=subprocess.DEVNULL, stderr=errors)
        _, status, usage = os.wait4(p.pid, 0)
        ms = (time.monotonic() - begin) * 1000
        p.returncode = os.waitstatus_to_exitcode(status)
        errors.seek(0)
        if p.returncode:
            raise RuntimeError(f"{' '.join(map(str, args))}: exit {p.returncode}: "
                               f"{errors.read().decode(errors='replace')[-500:]}")
    return {'ms': ms, 'MB': usage.ru_maxrss * 1024 / 1e6}


class Hearth:
    def __init__(self, a, folder):
        self.a, self.ceilings, self.slowest = a, [], []
        self.prompt = os.path.join(folder, 'prompt.txt')
        with open(self.prompt, 'w', encoding='utf-8') as f:
            f.write(' '.join(WORDS[i % len(WORDS)] for i in range(512)))

    def bench(self, model, flags, *options, reps):
        text, _ = output([self.a.hearth, 'bench', model, '--threads', self.a.threads, '--json',
                          '--reps', reps, *options, *flags.split(), *self.a.at_level])
        report = json.loads(text)
        self.ceilings.append(report['ceilings'])
        return report['runs']

    def state(self):
        """How fast this machine's threads read memory now, in GB/s, and whether they are as fast as
        each other."""
        text, _ = output([self.a.hearth, 'doctor', '--json'])
        report = json.loads(text)
        found, threads = report['ceilings'], report['machine']['threads']
        if threads != self.a.threads and not self.slowest:
            print(f'turns are chosen by how {threads} threads do, which is what hearth doctor measures')
        self.slowest.append(found['slowest_thread'])
        return found['read_bytes_s'] / 1e9, found['slowest_thread'] >= ALL_FAST

    def generate(self, row, model, flags):
        run, = self.bench(model, flags, '--prompt', 0, '--generate', row.n, '--depth', row.depth,
                          reps=row.reps)
        return {'value': run['tokens_s'], 'share': run['read_share'], 'of': 'of reading'}

    def prompt_(self, row, model, flags):
        """The share is that of the ceiling; of a long prompt, that of the rate at 512."""
        lengths = '512' if row.n == 512 else f'512,{row.n}'
        runs = self.bench(model, flags, '--prompt', lengths, '--generate', 0, reps=row.reps)
        if row.n == 512:
            return {'value': runs[0]['tokens_s'], 'share': runs[0]['ceiling_share'],
                    'of': 'of products'}
        return {'value': runs[1]['tokens_s'], 'share': runs[1]['tokens_s'] / runs[0]['tokens_s'],
                'of': 'of the rate at 512'}

    def seqs(self, row, model, flags):
        """Three repetitions, since states of the memory change within seconds."""
        options = flags, '--seqs', row.seqs, '--depth'
        tg, = self.bench(model, *options, row.depth, '--prompt', 0, '--generate', row.n, reps=3)
        pp, = self.bench(model, *options, 0, '--prompt', row.depth, '--generate', 0, reps=1)
        seconds = row.depth / pp['tokens_s'] + row.n / tg['tokens_s']
        return {'value': tg['tokens_s'], 'share': tg['ceiling_share'], 'of': 'of products',
                'all': (row.depth + row.n) / seconds}

    def run(self, row, model, flags):
        count = int(output([self.a.hearth, 'tokenize', model, '--count', '-f', self.prompt])[0])
        if count != 512:
            raise RuntimeError(f'{model}: the prompt has {count} tokens, not 512')
        found = cost([self.a.hearth, 'run', model, '-f', self.prompt, '-n', row.n, '--temp', 0,
                      '--ctx', 4096, '--ignore-end', '-t', self.a.threads, *flags.split(),
                      *self.a.at_level])
        if row.unit == 'ms':
            return {'value': found['ms']}
        text, _ = output([self.a.hearth, 'inspect', model, '--json', '--memory', '--ctx', 4096])
        bar = os.path.getsize(model) + json.loads(text)['memory']['kv'] + SPARE
        return {'value': found['MB'], 'share': found['MB'] * 1e6 / bar,
                'of': f'of file + KV + 48 MiB, {bar / 1e6:.0f} MB'}

    def sampling(self, row, model, flags):
        text = ''.join(output([self.a.sampler]))
        us = float(re.search(r'top-k 40, top-p, temperature\s+([\d.]+) us', text).group(1))
        return {'value': us, 'share': us / 60, 'of': 'of 60 us'}

    def measure(self, row, model, flags):
        kind = {'prompt': self.prompt_}.get(row.kind) or getattr(self, row.kind)
        return kind(row, model, flags)


class Peer:
    def __init__(self, a, key, prompt):
        self.a, self.key, self.prompt = a, key, prompt
        self.folder = os.path.abspath(getattr(a, key))

    def flags(self, row, among):
        return among[self.key]['run' if row.kind == 'run' else 'bench']

    def command(self, program, model, flags, *options):
        if program == 'llama-bench':
            flags = ' '.join(BENCH_FORM.get(word, word) for word in flags.split())
        return [os.path.join(self.folder, program), '-m', model, '-t', self.a.threads, *options,
                *flags.split()]

    def bench(self, row, model, flags):
        n = ('-p', row.n, '-n', 0) if row.kind == 'prompt' else ('-p', 0, '-n', row.n)
        if row.depth:
            n = ('-p', 0, '-n', row.n, '-d', row.depth)
            if self.key == 'ik':
                n = ('-p', 0, '-n', 0, '-gp', f'{row.depth},{row.n}')
        text, _ = output(self.command('llama-bench', model, flags, *n, '-r', row.reps, '-o',
                                      'json'))
        return {'value': statistics.median(json.loads(text)[0]['samples_ts'])}

    def seqs(self, row, model, flags):
        """From the line | PP | TG | B | N_KV | T_PP | S_PP | T_TG | S_TG | T | S |"""
        text = ''.join(output(self.command(
            'llama-batched-bench', model, flags, '-c', 256 * row.seqs, '-npp', row.depth, '-ntg',
            row.n, '-npl', row.seqs)))
        cells = re.search(r'^\|((?:\s*[\d.]+ \|){10})', text, re.MULTILINE).group(1).split('|')
        return {'value': float(cells[7]), 'all': float(cells[9])}

    def run(self, row, model, flags):
        program, *more = ('llama-completion', '-no-cnv') if self.key == 'llama' else ('llama-cli',)
        found = cost(self.command(program, model, flags, '-f', self.prompt, '-n', row.n, '--temp',
                                  0, '-c', 4096, '--ignore-eos', *more))
        return {'value': found[row.unit]}

    def measure(self, row, model, flags):
        if row.kind in ('seqs', 'run'):
            return getattr(self, row.kind)(row, model, flags)
        return self.bench(row, model, flags)


# ---- rows


# Between two programs: a virtual machine that reports free memory to its host is busy with that
# for a second or two after a process that had much of it.
PAUSE_S = 3


# What Hearth says of --repack at a level that repacks nothing of the model.
NOT_REPACKED = re.compile(r'repack: level \S+ has no kernels')


# The memory of a virtual machine changes its speed within seconds. Turns are compared that found it
# as fast, within so much, before and after them.
SAME_STATE = 1.2
# A core whose second hardware thread belongs to another virtual machine executes a half to two
# thirds of the instructions it does alone, and comes and goes as quickly. Turns are compared that
# found no thread slower than so much of the fastest.
ALL_FAST = 0.9


def alone(turn):
    """Whether all threads were as fast as each other before and behind it."""
    return turn[0][1] and turn[1][1]


def undisturbed(turns):
    """The turns that no neighbour slowed down, or all turns, if a column has no such."""
    quiet = {name: list(filter(alone, of)) for name, of in turns.items()}
    return quiet if all(quiet.values()) else turns


def same_memory(turns):
    """Of {column: [(state before, behind, result)]} the turns with nearly the same speeds: of such
    sets the one that has most where a column has fewest, or all turns, if each lacks a column."""
    best, most = turns, (1, 0)
    for low in {min(t[0][0], t[1][0]) for of in turns.values() for t in of}:
        near = {name: [t for t in of if low <= min(t[0][0], t[1][0]) and
                       max(t[0][0], t[1][0]) <= low * SAME_STATE]
                for name, of in turns.items()}
        size = min(map(len, near.values())), sum(map(len, near.values()))
        if size > most:
            best, most = near, size
    return best


def interleave(columns, rounds, tries=1, state=None, memory=False):
    """Calls every column's function once a round; one that fails is said and left out, but there
    is nothing to say of a level that does not repack. state: a function that tells how the machine
    is, which turns are chosen by, of up to `tries` times as many rounds as were asked for; memory:
    also by how fast that is read. Returns results by column (None: it failed), the speeds they had
    where memory decided, and which turns count, if not all that there were or not all of them
    undisturbed."""
    turns, failed, known = {name: [] for name in columns}, set(), (0, True)
    for _ in range(rounds * tries):
        now = state() if state else known
        for name, measure in columns.items():
            if name in failed:
                continue
            time.sleep(PAUSE_S)
            try:
                result = measure()
            except (RuntimeError, OSError, AttributeError, LookupError, ValueError) as e:
                if not NOT_REPACKED.search(str(e)):
                    print(f'{name}: {e}', file=sys.stderr)
                failed.add(name)
                turns.pop(name)
                continue
            before, now = now, state() if state else known
            turns[name].append((before, now, result))
        quiet = undisturbed(turns)
        kept = same_memory(quiet) if memory else quiet
        chosen = quiet is not turns and (kept is not quiet or not memory)
        if chosen and all(len(of) >= rounds for of in kept.values()):
            break
    found = {name: [t[2] for t in of] for name, of in kept.items()}
    speeds = [x[0] for of in kept.values() for t in of for x in t[:2]] if memory else []
    return found | dict.fromkeys(failed), speeds, which_count(turns, kept)


def which_count(turns, kept):
    """How many of all turns were kept, where not all were or some were not alone; else ''."""
    n_all, n = (sum(map(len, of.values())) for of in (turns, kept))
    disturbed = not all(alone(t) for of in kept.values() for t in of)
    if n < n_all or disturbed:
        return f'{n} of {n_all} turns' + (', some beside a neighbour' if disturbed else '')
    return ''


def spread(values, better='more'):
    """The median and, of more than one, the worst and the best."""
    worst, best = (min, max) if better == 'more' else (max, min)
    digits = 1 if statistics.median(values) < 1000 else 0
    form = '{:,.%df}' % digits
    text = form.format(statistics.median(values))
    if len(values) > 1:
        text += f' ({form.format(worst(values))} to {form.format(best(values))})'
    return text


def judged(value, bar, better, after=''):
    text = f'{value:.2f}{after}'
    if bar is None:
        return text
    ok = value >= bar if better == 'more' else value <= bar
    return text + f' (bar {bar:g}{"" if ok else ", missed"})'


def peer_columns(a, row, peers, among):
    """A function for each set of flags of each peer, by (peer, flags)."""
    model = os.path.join(a.models, row.model or '')
    return {(key, flags): lambda peer=peer, flags=flags: peer.measure(row, model, flags)
            for key, peer in peers.items() if row.kind != 'sampling'
            for flags in peer.flags(row, among)}


def best_set(row, found, program, key):
    """Of a program's sets of flags the one that did best: flags, values; None: no result."""
    sets = {flags: [r[key] for r in results] for (of, flags), results in found.items()
            if of == program and results}
    if not sets:
        return None, None
    best = max if row.better == 'more' else min
    flags = best(sets, key=lambda f: statistics.median(sets[f]))
    return flags, sets[flags]


def table_row(row, what, found, key, bars, speeds, turns=''):
    flags, ours = best_set(row, found, 'hearth', key)
    cells = [what, '-', '']
    if ours:
        cells[1] = f'{spread(ours, row.better)} {row.unit}' + (f' `{flags}`' if flags else '')
        results = found['hearth', flags]
    if ours and key == 'value' and 'share' in results[0]:
        share = statistics.median(r['share'] for r in results)
        cells[2] = judged(share, bars[0], row.better, ' ' + results[0]['of'])
        if any(speeds):
            low, high = f'{min(speeds):.0f}', f'{max(speeds):.0f}'
            cells[2] += f'; memory {low if low == high else low + " to " + high} GB/s'
    if turns:
        cells[2] += ('; ' if cells[2] else '') + turns
    for peer, bar in zip(PEERS, bars[1:]):
        flags, theirs = best_set(row, found, peer, key)
        if not theirs:
            cells += ['-', '-']
            continue
        cells.append(spread(theirs, row.better) + (f' `{flags}`' if flags else ''))
        ratio = ours and statistics.median(ours) / statistics.median(theirs)
        cells.append(judged(ratio, bar, row.better) if ratio else '-')
    print('| ' + ' | '.join(cells) + ' |', flush=True)


def reload(a, model):
    """As after a start of the machine: out of the cache, and in again by way of Hearth's mapping."""
    with open(model, 'rb') as f:
        os.posix_fadvise(f.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
    output([a.hearth, 'run', model, '-p', 'x', '-n', 1, '--quiet'])


def measure_row(a, row, hearth, peers):
    model = row.model and os.path.join(a.models, row.model)
    if model:
        reload(a, model)
    columns = {('hearth', flags): lambda flags=flags: hearth.measure(row, model, flags)
               for flags in FLAGS['hearth']['bench' if row.kind in BENCHED else 'run']}
    columns |= peer_columns(a, row, peers, FLAGS)
    found, speeds, turns = interleave(columns, a.rounds, a.tries, hearth.state,
                                      row.kind in ('generate', 'seqs'))
    table_row(row, row.what, found, 'value', row.bars, speeds, turns)
    if row.kind == 'seqs':
        table_row(row, 'the same with their prompts', found, 'all', (None,) * 3, speeds)


def choose(a, row, peers):
    """A line for each set of flags of each peer."""
    found, _, _ = interleave(peer_columns(a, row, peers, CANDIDATES), a.rounds)
    for (key, flags), results in found.items():
        cell = spread([r['value'] for r in results], row.better) if results else '-'
        print(f'| {row.what} | {PEERS[key]} | {flags or "as it comes"} | {cell} {row.unit} |',
              flush=True)


# ---- all of it


def machine():
    with open('/proc/cpuinfo', encoding='utf-8') as f:
        names = re.findall(r'(?:model name|CPU part)\s*: (.*)', f.read())
    memory = os.sysconf('SC_PAGE_SIZE') * os.sysconf('SC_PHYS_PAGES') / 1e9
    name = names[0] if names else 'unknown CPU'
    return f'{name}, {os.cpu_count()} cores, {memory:.0f} GB, {time.strftime("%Y-%m-%d")}'


def ceilings(found, slowest):
    if not found:
        return ''
    gbs = [c['read_bytes_s'] / 1e9 for c in found]
    macs = ', '.join(f"{t} {statistics.median(c[t + '_macs_s'] for c in found) / 1e9:.0f}"
                     for t in ('int8', 'bf16', 'f32'))
    return (f'Ceilings in these runs: read {spread(gbs)} GB/s; {macs} GMAC/s. The slowest thread '
            f'between them: {statistics.median(slowest):.2f} ({min(slowest):.2f} to '
            f'{max(slowest):.2f}) of the fastest.')


def positive(text):
    n = int(text)
    if n < 1:
        raise argparse.ArgumentTypeError(f'{n} is less than 1')
    return n


def arguments(rows):
    root = os.path.normpath(os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', '..'))
    ap = argparse.ArgumentParser()
    ap.add_argument('rows', nargs='*', metavar='ROW')
    ap.add_argument('--models', default='.')
    ap.add_argument('--hearth', default=os.path.join(root, 'build', 'hearth'))
    for key, name in PEERS.items():
        ap.add_argument('--' + key, metavar='DIR', help=f"the folder of {name}'s programs")
    ap.add_argument('--threads', type=positive, default=2)
    ap.add_argument('--rounds', type=positive, default=3)
    ap.add_argument('--tries', type=positive, default=4)
    ap.add_argument('--level', metavar='L')
    ap.add_argument('--list', action='store_true')
    ap.add_argument('--choose', action='store_true')
    a = ap.parse_args()
    a.at_level = ['--cpu-level', a.level] if a.level else []
    a.models, a.hearth = os.path.abspath(a.models), os.path.abspath(a.hearth)
    a.sampler = os.path.join(os.path.dirname(a.hearth), 'tests', 'engine', 'test_sampler')
    a.picked = [r for r in rows if (any(r.name.startswith(x) for x in a.rows) if a.rows
                                    else not r.name.startswith('other-'))]
    for x in a.rows:
        if not any(r.name.startswith(x) for r in rows):
            ap.error(f'no row begins with {x}; --list prints them, --list other those of other formats')
    return a


def main():
    a = arguments(make_rows())
    if a.list:
        print('\n'.join(r.name for r in a.picked))
        return
    load = os.getloadavg()[0]
    with tempfile.TemporaryDirectory(prefix='hearth-measure-') as folder:
        hearth = Hearth(a, folder)
        peers = {key: Peer(a, key, hearth.prompt) for key in PEERS if getattr(a, key)}
        os.chdir(folder)  # a peer writes its log where it runs
        if a.choose:
            for row in a.picked:
                if row.kind != 'sampling':
                    choose(a, row, peers)
            return
        print(f'{machine()}; {a.threads} threads; medians of {a.rounds} rounds, in brackets the '
              f'slowest and the fastest.\n')
        print('| what | Hearth | share | ' + ' | '.join(f'{n} | ratio' for n in PEERS.values())
              + ' |\n|' + '---|' * 7)
        for row in a.picked:
            measure_row(a, row, hearth, peers)
        print(f'\n{ceilings(hearth.ceilings, hearth.slowest)} Load average {load:.2f} at the start, '
              f'{os.getloadavg()[0]:.2f} at the end.')
        os.chdir('/')


if __name__ == '__main__':
    main()
