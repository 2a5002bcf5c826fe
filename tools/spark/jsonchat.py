# SPDX-License-Identifier: MIT
"""Exchanges whose answer is a JSON object with the keys that were asked for."""
import json

import facts
import words
from chat import apart
from toolcalls import CITIES

JOBS = "baker farmer teacher doctor painter cook writer tailor gardener sailor pilot singer".split()
PETS = "cat dog rabbit mouse duck goat parrot turtle horse hamster".split()

# key: (values, sentence about a person). {v} is the value, {va} the value with its article, {He} and {His} the person
KEYS = {
    "age": (list(range(3, 100)), ["{He} is {v} years old.", "{His} age is {v}."]),
    "city": (CITIES, ["{He} lives in {v}.", "{His} home is in {v}."]),
    "job": (JOBS, ["{He} works as {va}.", "{He} is {va}."]),
    "pet": (PETS, ["{He} has {va}.", "{His} pet is {va}."]),
    "food": ([f[1] for f in words.FOODS], ["{He} likes to eat {v}.", "{He} loves {v}."]),
    "colour": (words.COLOURS, ["{His} favourite colour is {v}.", "{He} likes the colour {v}."]),
    "friend": (words.GIRLS + words.BOYS, ["{His} friend is {v}.", "{His} best friend is called {v}."]),
    "height": (list(range(90, 200)), ["{He} is {v} centimetres tall."]),
    "day": (facts.DAYS, ["{He} was born on a {v}."]),
    "month": (facts.MONTHS, ["{His} birthday is in {v}."]),
    "country": ([r[0] for r in facts.table(facts.CAPITALS)], ["{He} comes from {v}."]),
}
ASK = ["Answer as JSON with keys {k}: {t}", "Answer as JSON with the keys {k}. {t}", "{t} Answer as JSON with keys {k}.",
       "Give me JSON with the keys {k}: {t}", "Write this as JSON with keys {k}: {t}", "{t} Write JSON with keys {k}.",
       "Return a JSON object with the keys {k}. {t}"]
ASK_ANIMAL = ["Describe {a} as JSON with keys {k}.", "Answer as JSON with keys {k}: {a}",
              "Tell me about {a} as JSON with the keys {k}.", "Give me JSON with the keys {k} for {a}."]


def listing(keys, rng):
    """The keys as a person lists them, in quotes now and then."""
    if rng.random() < 0.3:
        keys = ['"%s"' % k for k in keys]
    return keys[0] if len(keys) == 1 else ", ".join(keys[:-1]) + " and " + keys[-1]


def sentence(key, value, person, rng):
    """One sentence that states a value."""
    he, his = person
    value_a = words.a(value) if isinstance(value, str) else str(value)
    return rng.choice(KEYS[key][1]).format(v=value, va=value_a, He=he, His=his)


def about_person(rng, held=False):
    """(question, object) about a person described in some sentences, asking for some of what they say."""
    while True:
        name = rng.choice(words.GIRLS + words.BOYS)
        known = rng.sample(list(KEYS), rng.randint(1, 3))
        values = {k: rng.choice(KEYS[k][0]) for k in known}
        values["name"] = name
        if apart("json" + json.dumps(values, sort_keys=True), 10) == held:
            break
    he = ("She", "Her") if name in words.GIRLS else ("He", "His")
    text = [sentence(k, values[k], he, rng) for k in known]
    text[0] = text[0].replace(he[0] + " ", name + " ", 1) if text[0].startswith(he[0] + " ") else \
        "This is %s. %s" % (name, text[0])
    asked = ["name"] + known if rng.random() < 0.7 else rng.sample(["name"] + known, rng.randint(1, len(known) + 1))
    ask = rng.choice(ASK).format(k=listing(asked, rng), t=" ".join(text))
    return ask, {k: values[k] for k in asked}


ANIMALS = {}
for _family, _key in (("legs", "legs"), ("sound", "sound"), ("young", "young"), ("home", "home")):
    for _row in facts.FAMILIES[_family][0]:
        ANIMALS.setdefault(_row[0], {"animal": _row[0]})[_key] = int(_row[1]) if _row[1].isdigit() else _row[1]
ANIMALS = {k: v for k, v in ANIMALS.items() if len(v) > 2}


def about_animal(rng, held=False):
    """(question, object) about an animal, from the small facts."""
    while True:
        name = rng.choice(sorted(ANIMALS))
        known = ANIMALS[name]
        keys = rng.sample(list(known), rng.randint(2, len(known)))
        way = rng.randrange(len(ASK_ANIMAL))
        if apart("animal%s%s%d" % (name, keys, way), 10) == held:
            break
    return ASK_ANIMAL[way].format(a=words.a(name), k=listing(keys, rng)), {k: known[k] for k in keys}


def exchange(rng, held=False):
    """(question, object that the answer must be)."""
    return about_person(rng, held) if rng.random() < 0.75 else about_animal(rng, held)
