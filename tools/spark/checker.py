# SPDX-License-Identifier: MIT
"""Reads stories by the grammar and says what is wrong with them.

The checker turns every template into a pattern, and looks for a plot whose steps, in order, read the whole text. Each
slot that is read narrows the entries that its variable may stand for: a name that changes, a pronoun of the wrong
gender, an object of another colour or a tool that does not fit its trouble leaves none, and the story fails. What
writing leaves to chance, the choice of variants, is all that reading leaves open.
"""
import re
from functools import lru_cache

import grammar
import plots
import stories


def pattern_of(template, types, slots):
    """The pattern of a template; appends (variable, form) to `slots` for each of its groups, in order."""
    out = []
    for piece in grammar.cached_pieces(template):
        if piece[0] == "text":
            out.append(re.escape(piece[1]))
        elif piece[0] == "slot":
            slots.append(piece[1:])
            out.append("(" + forms(types[piece[1]], piece[2]) + ")")
        else:
            out.append("(?:" + "|".join(pattern_of(c, types, slots) for c in piece[1]) + ")")
    return "".join(out)


@lru_cache(None)
def forms(kind, form):
    """A pattern for all texts that a form may have, the longest first."""
    texts = {entry[form] for entry in grammar.DOMAINS[kind] if entry[form] is not None}
    return "|".join(re.escape(t) for t in sorted(texts, key=lambda t: (-len(t), t)))


def compile_step(step, types):
    """(pattern, slots) of every variant of a step; a variant must end at a space or at the end of the text."""
    out = []
    for variant in step:
        slots = []
        pattern = pattern_of(variant, types, slots)
        out.append((re.compile(pattern + r"(?= |$)") if variant else None, slots))
    return out


@lru_cache(None)
def compile_plot(plot):
    """(types, steps) of a plot, ready to read."""
    steps, narrower, _ = plots.PLOTS[plot]
    types = {**grammar.TYPES, **narrower}
    return types, [compile_step(step, types) for step in steps]


def narrow(domains, types, slots, texts):
    """The domains after a match, or None when a variable has no entry left."""
    out = dict(domains)
    for (var, form), text in zip(slots, texts):
        if text is None:
            continue
        left = [e for e in out.get(var, grammar.DOMAINS[types[var]]) if e[form] == text]
        if not left:
            return None
        out[var] = left
    return out if consistent(out) else None


def consistent(domains):
    """Whether the variables whose entry is known go together."""
    known = {v: d[0] for v, d in domains.items() if len(d) == 1}
    for x, y in grammar.DISTINCT:
        if x in known and y in known and known[x] is known[y]:
            return False
    for who, kind in grammar.KIND_OF:
        if who in known and kind in known and not grammar.kind_fits(known[who], known[kind]):
            return False
    return True


class Reader:
    """Reads one text by one plot, and remembers how far it came."""

    def __init__(self, plot, text):
        self.types, self.steps = compile_plot(plot)
        self.text, self.furthest = text, 0

    def read(self, step=0, pos=0, domains=None):
        """The domains of a full reading from a step and a position on, or None."""
        self.furthest = max(self.furthest, pos)
        if step == len(self.steps):
            return domains if pos == len(self.text) + 1 else None
        for pattern, slots in self.steps[step]:
            end, now = pos, domains or {}
            if pattern is not None:
                match = pattern.match(self.text, pos)
                if not match:
                    continue
                end, now = match.end() + 1, narrow(now, self.types, slots, match.groups())
            if now is not None:
                found = self.read(step + 1, end, now)
                if found is not None:
                    return found
        return None


def fits_topic(plot, domains, topic):
    """Whether a story is about what was asked for."""
    types, things = compile_plot(plot)[0], plots.PLOTS[plot][2]
    for template in stories.topics(things):
        slots = []
        match = re.fullmatch(pattern_of(template, types, slots), topic)
        if match and narrow(domains, types, slots, match.groups()) is not None:
            return True
    return False


def check(text, topic=""):
    """None when the text is a sound story on the topic, otherwise what is wrong with it."""
    furthest = 0
    for plot in plots.PLOTS:
        reader = Reader(plot, text)
        domains = reader.read()
        if domains is not None:
            return None if not topic or fits_topic(plot, domains, topic) else "is not about " + topic
        furthest = max(furthest, reader.furthest)
    return "cannot be read on from: " + text[furthest:furthest + 60]
