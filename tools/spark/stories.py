# SPDX-License-Identifier: MIT
"""Writes stories from the plots."""
import re
import zlib

import grammar
import plots

_SLOTS = re.compile(r"\{(\w+)")


def variables(steps):
    """The variables that a plot's templates name, in a fixed order."""
    names = {v for step in steps for variant in step for v in _SLOTS.findall(variant)}
    return sorted(names)


VARIABLES = {name: variables(plot[0]) for name, plot in plots.PLOTS.items()}


def held_out(binding):
    """Whether the pair of characters is kept for measuring: about one pair in twenty, whatever the plot."""
    pair = " ".join(sorted((binding["H"][""], binding["F"][""])))
    return zlib.crc32(pair.encode()) % 20 == 0


def allowed(binding):
    """Whether the entries go together: distinct where they must be, kinds that fit their characters."""
    for x, y in grammar.DISTINCT:
        if x in binding and y in binding and binding[x] is binding[y]:
            return False
    for who, kind in grammar.KIND_OF:
        if kind in binding and not grammar.kind_fits(binding[who], binding[kind]):
            return False
    return True


def bind(plot, rng, held, fixed=None):
    """Picks an entry for every variable of a plot, on the train (held=False) or the held-out side.

    The friends are mostly a girl and a boy: pronouns then say more, and a small model keeps the two apart sooner.
    """
    types, mixed = {**grammar.TYPES, **plots.PLOTS[plot][1]}, rng.random() < 0.9
    while True:
        binding = {v: rng.choice(grammar.DOMAINS[types[v]]) for v in VARIABLES[plot]}
        binding.update(fixed or {})
        if mixed and binding["H"]["girl"] == binding["F"]["girl"]:
            continue
        if allowed(binding) and held_out(binding) == held:
            return binding


def write(plot, binding, rng):
    """One story as text: a variant of every step, its sentences on one line."""
    parts = [grammar.fill(rng.choice(step), binding, rng) for step in plots.PLOTS[plot][0]]
    return " ".join(p for p in parts if p)


def story(rng, held=False):
    """A random story: (plot, binding, text)."""
    plot = rng.choice(list(plots.PLOTS))
    binding = bind(plot, rng, held)
    return plot, binding, write(plot, binding, rng)


TOPICS = ["{H} and {F}", "{H} the {K}", "{K.a} and {G.a}", "{K.a} named {H}"]
ASK = ["Tell me a story about {}.", "Tell a story about {}.", "Write a story about {}.", "Please tell me a story about {}.",
       "Can you tell me a story about {}?", "I would like to hear a story about {}.", "Write a short story about {}."]
ASK_ANY = ["Tell me a story.", "Tell me a short story.", "Please tell me a story.", "Can you tell me a story?",
           "I would like to hear a story."]


def topics(things):
    """The templates of everything that a request may name, for a plot with these things."""
    about = [who + " and " + thing for thing in things for who in ("{H}", "{K.a}")]
    return about + TOPICS


def request(plot, binding, rng):
    """A question that the story answers, and its topic (empty when any story will do)."""
    if rng.random() < 0.12:
        return rng.choice(ASK_ANY), ""
    if rng.random() < 0.5:
        topic = rng.choice(["{H}", "{K.a}"]) + " and " + rng.choice(plots.PLOTS[plot][2])
    else:
        topic = rng.choice(TOPICS)
    topic = grammar.fill(topic, binding, rng)
    return rng.choice(ASK).format(topic), topic
