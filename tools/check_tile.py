#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The loops of the linear tiles keep their sums in registers: in a tile function of a vector level,
a loop that multiplies stores fewer vector registers to the stack than a tenth of its
multiplications. (A compiler that runs out of registers stores one value in twenty or fewer, which
costs nothing; sums that live in memory show as one in nine, for groups of 32, to one in one. Of
formats with a scale for each 16 weights it is a fifth: where registers are few, the first halves'
sums wait there for the second's. AVX2 has 16 registers, and its tiles of codes keep eight sums of
floats in memory on purpose, each stored once for 64 products or more: a fifth and a third with
VNNI; without, where clang stores four times as much, a half and no more stores than
multiplications. Integers stored at each step would be twice that.)
usage: tools/check_tile.py BUILD"""
import glob
import re
import shutil
import subprocess
import sys

LEVELS = {"avx2": "ymm", "avx2_float": "ymm", "avx2vnni": "ymm", "avx512": "zmm", "avx512_float": "zmm",
          "avx512_bf16": "zmm", "avx512vnni": "zmm", "avx512vnni_repacked": "zmm",
          "avx512vnni_sums": "zmm",
          "neon": "q", "neon_float": "q", "neon_dotprod": "q", "neon_i8mm": "q"}
# Multiplications beside which there is less than one store: of groups of 32, and of 16.
AT_LEAST = {"avx2": (2, 1), "avx2vnni": (5, 3)}
MULTIPLY = re.compile(r"vpdpbusd|vdpbf16ps|vpmaddubsw|vfmadd|sadalp|sdot|smmla|fml[as]")
JUMP = re.compile(r"(?:j\w+|b(?:\.\w+)?|cbn?z\s+\w+,|tbn?z\s+\w+, #\d+,)\s+([0-9a-f]+) <")


def stores_of(register, code):
    """What matches a store of a vector register, or two, to the stack of a function. On x86 %rbp
    points there only where the function begins with making it do so."""
    if register == "q":
        return re.compile(r"st[pu]?r?\s+q\d+,.*\[sp")
    framed = any(re.match(r"mov\s+%rsp,%rbp$", text) for _, text, _ in code)
    return re.compile(rf"vmov\w+\s+%{register}\d+,.*\(%r{'[sb]' if framed else 's'}p")


def functions(path):
    """Name -> [(address, instruction, target address of a jump or None)]"""
    cross = shutil.which("aarch64-linux-gnu-objdump") if "/arm/" in path else None
    text = subprocess.run([cross or "objdump", "-d", "--no-show-raw-insn", path], check=True,
                          capture_output=True, text=True).stdout
    found, name = {}, None
    for line in text.splitlines():
        head = re.match(r"^[0-9a-f]+ <(.+)>:$", line)
        if head:
            name = head.group(1)
            found[name] = []
            continue
        code = re.match(r"^\s*([0-9a-f]+):\s+(.*)$", line)
        if code and name:
            jump = JUMP.match(code.group(2))
            found[name].append((int(code.group(1), 16), code.group(2),
                                int(jump.group(1), 16) if jump else None))
    return found


def loops(code):
    """The innermost loops that multiply: stretches between a backward jump and its target."""
    spans = {(target, at) for at, _, target in code if target is not None and target < at}
    bodies = {(lo, hi): [text for at, text, _ in code if lo <= at <= hi] for lo, hi in spans}
    bodies = {span: body for span, body in bodies.items() if any(map(MULTIPLY.search, body))}
    for (lo, hi), body in bodies.items():
        if not any(lo <= a and b <= hi and (a, b) != (lo, hi) for a, b in bodies):
            yield body


def is_few(level, name, n_stores, n_products):
    """Whether so many stores are allowed beside so many multiplications."""
    return n_stores * AT_LEAST.get(level, (10, 5))["tile_16" in name] < n_products


def main():
    build, bad, seen = sys.argv[1], 0, 0
    for level, register in LEVELS.items():
        paths = glob.glob(f"{build}/src/backend/cpu/linear/**/{level}.c.o", recursive=True)
        folder = "arm" if register == "q" else "x86"
        if not paths and glob.glob(f"{build}/src/backend/cpu/linear/**/{folder}/*.c.o", recursive=True):
            bad += 1
            print(f"check_tile: {level}.c is not among what was built", file=sys.stderr)
        for path in paths[:1]:
            before = seen
            for name, code in functions(path).items():
                if "tile" not in name:
                    continue
                store = stores_of(register, code)
                for body in loops(code):
                    seen += 1
                    spills = [t for t in body if store.match(t)]
                    products = sum(1 for t in body if MULTIPLY.search(t))
                    if is_few(level, name, len(spills), products):
                        continue
                    bad += 1
                    print(f"check_tile: {level}.c: {name} stores {len(spills)} vectors to the stack "
                          f"in a loop of {products} multiplications: {spills[0]}", file=sys.stderr)
            if seen == before:
                bad += 1
                print(f"check_tile: {level}.c: no tile with a loop that multiplies", file=sys.stderr)
    if seen == 0:
        print(f"check_tile: no tile in {build} (no vector level, or not built)")
    return 1 if bad else 0


sys.exit(main())
