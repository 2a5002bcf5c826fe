#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""No file longer than 1000 lines, no function longer than 150, no line wider than 100 columns
(140 in Python, whose word lists and corpora are data more than code; 120 in Markdown's prose).

The longest function matters more than the average one: what is allowed beyond stands in EXCEPTIONS
by name, a list that may only shrink (an entry that is no longer needed is an error, too).
"""

import ast
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
MAX_FILE, MAX_FUNCTION = 1000, 150
CODE = {".c", ".h", ".cc", ".S", ".py", ".sh"}
COLUMNS = {".py": 140, ".md": 120}  # else 100
EXCEPTIONS = set()  # "path" for a file, "path:function"; none at present


def files():
    """All files of the project that hold code or prose, as paths relative to its root."""
    out = subprocess.run(["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"],
                         cwd=ROOT, capture_output=True, check=True).stdout.decode()
    for name in sorted(set(out.split("\0")) - {""}):
        path = ROOT / name
        if path.is_file() and path.suffix in CODE | {".md"}:
            yield name, path.read_text(encoding="utf-8")


def c_functions(lines):
    """(name, first line, length) of each function: clang-format puts its closing brace alone in
    column 0, and every line of its head begins there or continues one that does."""
    start = None
    for i, line in enumerate(lines):
        if line.startswith("}"):
            if start is not None and line == "}":
                head = " ".join(lines[start:i]).split("{")[0]
                name = re.search(r"(\w+)\s*\(", head)
                if name and "=" not in head.split("(")[0]:
                    yield name.group(1), start + 1, i + 1 - start
            start = None
        elif line and not line[0].isspace() and not re.match(r"[#/]|.*[;\\]$", line):
            if start is None:
                start = i
        elif not line and start is not None and "{" not in " ".join(lines[start:i]):
            start = None


def py_functions(text):
    """(name, first line, length) of each function."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            yield node.name, node.lineno, node.end_lineno + 1 - node.lineno


def prose(text):
    """The lines of a page, empty where they are of a table, or of code, which may be wider."""
    is_code = False
    for line in text.splitlines():
        is_code ^= line.startswith("```")
        yield "" if is_code or line.startswith(("|", "    ", "```")) else line


def main():
    """Prints each excess and fails if there is one."""
    excesses = []
    for name, text in files():
        lines = list(prose(text)) if name.endswith(".md") else text.splitlines()
        if len(lines) > MAX_FILE:
            excesses.append((name, 1, "a file of %d lines, at most %d" % (len(lines), MAX_FILE)))
        max_columns = COLUMNS.get(Path(name).suffix, 100)
        for i, line in enumerate(lines):
            if len(line) > max_columns:
                excesses.append(("%s:%d" % (name, i + 1), i + 1,
                                 "%d columns, at most %d" % (len(line), max_columns)))
        if name.endswith((".c", ".h")):
            functions = c_functions(lines)
        elif name.endswith(".py"):
            functions = py_functions(text)
        else:
            functions = ()
        for function, line, length in functions:
            if length > MAX_FUNCTION:
                excesses.append(("%s:%s" % (name, function), line,
                                 "a function of %d lines, at most %d" % (length, MAX_FUNCTION)))
    found = {what for what, _, _ in excesses}
    bad = 0
    for what, line, text in excesses:
        if what not in EXCEPTIONS:
            print("check_lengths: %s (line %d): %s" % (what, line, text), file=sys.stderr)
            bad += 1
    for what in sorted(EXCEPTIONS - found):
        print("check_lengths: the exception %s is no longer needed" % what, file=sys.stderr)
        bad += 1
    if bad:
        sys.exit(1)
    print("check_lengths: ok")


main()
