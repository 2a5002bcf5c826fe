#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Every relative link in README.md and docs/ leads to a file, and every page is reached from the
README."""

import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
LINK = re.compile(r"\]\(([^)#\s]+)(?:#[^)]*)?\)")


def links(page):
    """The files that a page links to, without those of other hosts."""
    for target in LINK.findall(page.read_text(encoding="utf-8")):
        if "://" not in target and not target.startswith("mailto:"):
            yield target, (page.parent / target).resolve()


def main():
    """Prints each dead link and each page that none leads to."""
    bad = []
    reached = set()
    waiting = [ROOT / "README.md"]
    while waiting:
        page = waiting.pop()
        for target, path in links(page):
            if not path.exists():
                bad.append("%s: the link to %s is dead" % (page.relative_to(ROOT), target))
            elif path.suffix == ".md" and path not in reached:
                reached.add(path)
                waiting.append(path)
    for page in sorted((ROOT / "docs").glob("*.md")):
        if page not in reached:
            bad.append("docs/%s: no link leads here from README.md" % page.name)
    for line in bad:
        print("check_links: " + line, file=sys.stderr)
    if bad:
        sys.exit(1)
    print("check_links: ok")


main()
