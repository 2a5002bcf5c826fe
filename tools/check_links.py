#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Every relative link in README.md and docs/ leads to a file, and to a heading of it where one is
named, and every page is reached from the README."""

import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
LINK = re.compile(r"\]\(([^)#\s]*)(?:#([^)\s]*))?\)")
CODE = re.compile(r"^```.*?^```$", re.M | re.S)


def links(page):
    """What a page links to, without other hosts: as it stands there, its file, its heading or ""."""
    for target, anchor in LINK.findall(CODE.sub("", page.read_text(encoding="utf-8"))):
        if "://" not in target and not target.startswith("mailto:"):
            path = (page.parent / target).resolve() if target else page
            yield target + ("#" + anchor if anchor else ""), path, anchor


def anchors(page):
    """The headings of a page as links name them: letters, digits and hyphens, counted if there are
    several."""
    found = {}
    for heading in re.findall(r"^#+ +(.*?) *$", CODE.sub("", page.read_text(encoding="utf-8")), re.M):
        name = re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")
        n = found.get(name, 0)
        found[name] = n + 1
        if n:
            found["%s-%d" % (name, n)] = 1
    return found


def main():
    """Prints each dead link and each page that none leads to."""
    bad = []
    reached = set()
    waiting = [ROOT / "README.md"]
    while waiting:
        page = waiting.pop()
        for target, path, anchor in links(page):
            known = path.exists() and (not anchor or path.suffix != ".md" or anchor in anchors(path))
            if not known:
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
