#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Who may include what, and what library code may not call. See docs/building.md for the plan."""

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent

# The rooms of src/ and those each may use beside itself.
ROOMS = {
    "base": set(),
    "quant": {"base"},
    "gguf": {"base", "quant"},
    "text": {"base", "quant", "gguf"},
    "backend": {"base", "quant"},
    "model": {"base", "quant", "gguf", "backend"},
    "engine": {"base", "quant", "gguf", "text", "backend", "model"},
    "api": {"base", "quant", "gguf", "text", "backend", "model", "engine"},
}
INTRINSICS = {"immintrin.h", "x86intrin.h", "arm_neon.h", "arm_sve.h", "cpuid.h"}

# Library code takes memory in one place, never prints, never ends the program, and is configured
# by its caller alone. qsort takes memory of its own in some C libraries.
ALLOCATION = ("malloc calloc realloc free strdup strndup asprintf vasprintf posix_memalign "
              "aligned_alloc mmap munmap getline qsort").split()
OTHERS = ("printf vprintf puts putchar fputs perror exit _exit abort assert getenv secure_getenv "
          "setenv putenv signal setlocale rand srand strtok strerror localtime gmtime").split()
ALLOWED = {
    "src/base/mem.c": {"malloc", "calloc", "realloc", "free", "posix_memalign", "mmap", "munmap"},
    "src/base/map.c": {"mmap", "munmap"},
}

TOKENS = re.compile(r'//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'', re.S)
INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*([<"])([^>"]+)[>"]', re.M)
CALL = re.compile(r"(?<![\w.>])(%s)\s*\(" % "|".join(ALLOCATION + OTHERS))
STREAM = re.compile(r"\b(stdout|stderr|stdin)\b")


def blank(match):
    """Comments and strings become spaces, lines stay."""
    return re.sub(r"[^\n]", " ", match.group(0))


def sources(folder):
    """(path relative to the root, text) of the C files below a folder."""
    out = subprocess.run(["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z",
                          folder], cwd=ROOT, capture_output=True, check=True).stdout.decode()
    for name in sorted(set(out.split("\0")) - {""}):
        if name.endswith((".c", ".h")) and (ROOT / name).is_file():
            yield name, (ROOT / name).read_text(encoding="utf-8")


def check_src_include(name, kind, header):
    """Why this file of src/ may not include the header; None if it may."""
    parts = name.split("/")  # src, room, ...
    room = parts[1]
    inside = header.split("/")
    backend = parts[2] if room == "backend" and len(parts) > 3 else None
    if header in INTRINSICS and backend is None:
        return "only src/backend/<one>/ includes it"
    if kind == "<":
        return "rooms are included in quotes" if inside[0] in ROOMS else None
    if inside[0] == "hearth":
        return None if header == "hearth/hearth.h" else "there is no such public header"
    if inside[0] not in ROOMS:
        return 'a header is named from src/ on ("room/file.h")'
    if inside[0] != room and inside[0] not in ROOMS[room]:
        return "room %s may use %s" % (room, ", ".join(sorted(ROOMS[room])) or "no other room")
    if inside[0] == "backend" and len(inside) > 2 and backend != inside[1]:
        if name != "src/backend/backends.c":
            return "it belongs to the backend %s alone" % inside[1]
    return None


def check_cli_include(name, kind, header):
    """Why this file of cli/ may not include the header; None if it may."""
    if header == "hearth/hearth.h":
        return None
    if kind == "<":
        return "a room of the library" if header.split("/")[0] in ROOMS else None
    own = (ROOT / name).parent / header
    return None if own.is_file() else "the program uses hearth/hearth.h and its own headers"


def main():
    """Prints each breach and fails if there is one."""
    breaches = []
    for folder, check in (("src", check_src_include), ("cli", check_cli_include)):
        for name, text in sources(folder):
            for m in INCLUDE.finditer(text):
                why = check(name, m.group(1), m.group(2))
                if why:
                    line = text.count("\n", 0, m.start(2)) + 1
                    breaches.append("%s:%d: includes %s: %s" % (name, line, m.group(2), why))
    for name, text in sources("src"):
        code = TOKENS.sub(blank, text)
        for m in list(CALL.finditer(code)) + list(STREAM.finditer(code)):
            if m.group(1) not in ALLOWED.get(name, ()):
                line = code.count("\n", 0, m.start()) + 1
                breaches.append("%s:%d: %s is not for library code" % (name, line, m.group(1)))
    for breach in breaches:
        print("check_layering: " + breach, file=sys.stderr)
    if breaches:
        sys.exit(1)
    print("check_layering: ok")


main()
