# SPDX-License-Identifier: MIT
"""Sentence templates with typed slots: the half of the story grammar that writing and checking have in common.

A template is text with slots `{H}` or `{H.he}` and choices `[went|ran|]`. A slot names a variable of the story and one
form of it. A variable stands for an entry, a dict from form to text; all slots of a variable show the same entry.
The writer picks an entry for every variable and fills the slots; the checker reads the slots back and intersects.
"""
import re
from functools import lru_cache

import words

_PIECE = re.compile(r"\[([^\]]*)\]|\{(\w+)(?:\.(\w+))?\}")


def pieces(template):
    """Splits a template into ("text", str), ("slot", var, form) and ("choice", [sub-templates])."""
    out, pos = [], 0
    for m in _PIECE.finditer(template):
        if m.start() > pos:
            out.append(("text", template[pos:m.start()]))
        if m.group(2):
            out.append(("slot", m.group(2), m.group(3) or ""))
        else:
            out.append(("choice", m.group(1).split("|")))
        pos = m.end()
    if pos < len(template):
        out.append(("text", template[pos:]))
    return out


cached_pieces = lru_cache(None)(pieces)


def fill(template, binding, rng):
    """Writes a template with the entries of `binding`, choosing freely among its choices."""
    out = []
    for piece in cached_pieces(template):
        if piece[0] == "text":
            out.append(piece[1])
        elif piece[0] == "slot":
            out.append(binding[piece[1]][piece[2]])
        else:
            out.append(fill(rng.choice(piece[1]), binding, rng))
    return "".join(out)


def person(name, girl):
    """The forms of a character."""
    he, his, him = ("she", "her", "her") if girl else ("he", "his", "him")
    return {"": name, "he": he, "He": he.capitalize(), "his": his, "His": his.capitalize(), "him": him,
            "girl": girl}


def noun(word):
    """The forms of a countable noun."""
    return {"": word, "a": words.a(word)}


def rows(table, *forms):
    """Entries of a table whose columns are the named forms."""
    return [dict(zip(forms, row)) for row in table]


PEOPLE = [person(n, True) for n in words.GIRLS] + [person(n, False) for n in words.BOYS]
OBJECTS = [dict(noun(n), part=part, fix=fix, light=light) for n, part, fix, light in words.OBJECTS]


def places(part):
    """A third of the places: where a story names several, each variable has places of its own."""
    return [{"": place, "at": at, "At": at[0].upper() + at[1:]} for place, at in words.PLACES[part::3]]


# every type of variable and the entries that it may stand for
DOMAINS = {
    "person": PEOPLE,
    "kind": [noun(k) for k in words.KINDS],
    "object": OBJECTS,
    "light": [o for o in OBJECTS if o["light"]],
    "fragile": [o for o in OBJECTS if o["part"]],
    "colour": rows([(c,) for c in words.COLOURS], ""),
    "home": rows([(h,) for h in words.HOMES], ""),
    "place": places(0), "other place": places(1), "third place": places(2),
    "water": rows([(p, "by " + p) for p in ("the river", "the lake", "the pond", "the old mill")], "", "at"),
    "relative": rows([(r,) for r in words.RELATIVES], ""),
    "stuck": rows(words.STUCK, "", "tool"),
    "hiding": rows([(h,) for h in words.HIDING], ""),
    "food": rows(words.FOODS, "a", "s"),
    "trouble": rows(words.TROUBLES, "", "state", "offer", "deed"),
    "skill": rows(words.SKILLS, "", "past", "at", "fail", "tip"),
    "fear": rows(words.FEARS, "", "when", "help", "deed"),
    "baby": [dict(noun(young), mother=m, amother=words.a(m), sound=s, home=h) for young, m, s, h in words.BABIES],
    "build": rows(words.BUILDS, "a", "have", "lack", "use"),
    "plant": rows(words.PLANTS, "a", "grown", "made"),
    "storm": rows(words.STORMS, "", "over"),
    "shelter": rows([(s,) for s in words.SHELTERS], ""),
    "hurdle": rows(words.HURDLES, "", "past"),
    "treasure": rows([(t,) for t in words.TREASURES], ""),
    "job": rows(words.JOBS, "", "task"),
}

# the type of every variable that a template may name; plots override O with a narrower type
TYPES = {"H": "person", "F": "person", "K": "kind", "G": "kind", "O": "object", "C": "colour", "L": "home",
         "P": "place", "Q": "other place", "R": "third place", "M": "relative", "S": "stuck", "U": "hiding", "E": "food",
         "A": "skill", "B": "fear", "Y": "baby", "D": "build", "N": "plant", "W": "storm", "T": "shelter", "J": "job",
         "X": "trouble", "V": "water",
         "Z": "hurdle", "I": "treasure"}

# variables that may not stand for the same entry
DISTINCT = [("H", "F")]
# a kind of character and the person it belongs to: girls are not boys, animals may be either
KIND_OF = [("H", "K"), ("F", "G")]


def kind_fits(who, kind):
    """Whether a character may be of a kind."""
    return kind[""] not in (words.MALE if who["girl"] else words.FEMALE)
