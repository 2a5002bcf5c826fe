#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Counts the tests of the last ctest run of a build folder, by what the programs themselves said.

usage: tools/test_counts.py BUILD [FILE]

A cmocka or unittest program counts with each of its tests, so that one skipped inside shows; a
program that ends with a line "N passed, N failed, N skipped" counts as it says; any other is one
test. Prints such a line, and appends the three numbers to FILE where one is given.
"""

import re
import sys
from pathlib import Path

SECTION = re.compile(r"^\d+/\d+ Testing: ", re.M)
# "[  FAILED  ] 2 test(s), listed below:"; from cmocka 1.1.6 on "[  FAILED  ] tests: 2 test(s), ..."
CMOCKA = re.compile(r"\[  (PASSED|FAILED|SKIPPED) +\] (?:[^\n:]*: )?(\d+) test\(s\)")
UNITTEST = re.compile(r"^Ran (\d+) tests? in .*\n+(OK|FAILED)(.*)$", re.M)
OWN = re.compile(r"^(\d+) passed, (\d+) failed, (\d+) skipped$", re.M)


def count(text):
    """The three counts of one program's section of the log."""
    passed = failed = skipped = 0
    own = OWN.findall(text)
    for n, _, details in UNITTEST.findall(text):
        numbers = {k: int(v) for k, v in re.findall(r"(\w+)=(\d+)", details)}
        bad = numbers.get("failures", 0) + numbers.get("errors", 0)
        own.append((int(n) - bad - numbers.get("skipped", 0), bad, numbers.get("skipped", 0)))
    summary = CMOCKA.findall(text)
    for kind, n in summary:
        if kind == "PASSED":
            passed += int(n)
        elif kind == "FAILED":
            failed += int(n)
        else:
            skipped += int(n)
    if not summary and own:
        passed, failed, skipped = (int(n) for n in own[-1])
    ok = re.search(r"^Test Passed\.", text, re.M)
    left_out = re.search(r"^Test (Skipped|Not Run)", text, re.M) or "SKIP_RETURN_CODE" in text
    if left_out and not summary and not own:
        skipped = 1
    elif not ok and not left_out and failed == 0:
        failed = 1  # it crashed, ran too long, or could not start
    elif ok and not summary and not own:
        passed = 1
    return passed, failed, skipped


def main():
    """Reads the log and prints the line."""
    log = Path(sys.argv[1]) / "Testing/Temporary/LastTest.log"
    text = log.read_text(errors="replace")
    starts = [m.start() for m in SECTION.finditer(text)] + [len(text)]
    total = [0, 0, 0]
    for begin, end in zip(starts, starts[1:]):
        total = [a + b for a, b in zip(total, count(text[begin:end]))]
    print("%d passed, %d failed, %d skipped" % tuple(total))
    if len(sys.argv) > 2:
        with open(sys.argv[2], "a", encoding="utf-8") as out:
            print(*total, file=out)


main()
