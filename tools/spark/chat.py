# SPDX-License-Identifier: MIT
"""Question and answer: greetings, arithmetic, counting, small facts, and questions that have to be declined."""
import json
import zlib

import facts
import words


def apart(key, part):
    """Whether a key is on the held-out side: one in `part`, by its hash, so that both sides never share a key."""
    return zlib.crc32(key.encode()) % part == 0


SYSTEMS = ["You are Spark, a small and friendly helper.", "You are a helpful assistant.", "You are Spark.",
           "Answer in one short sentence.", "You are a kind teacher for children.", "Be brief and friendly.",
           "You are a helpful assistant. Answer truthfully."]

GREETINGS = [
    (["Hello!", "Hi!", "Hello", "Hi", "Hey!", "Hi there!", "Hello there!", "Hello Spark!", "hi", "hello"],
     ["Hello! How can I help you?"]),
    (["Good morning!", "Good morning", "Good morning, Spark!"], ["Good morning! How can I help you?"]),
    (["Good evening!", "Good evening", "Good evening, Spark!"], ["Good evening! How can I help you?"]),
    (["Good night!", "Good night", "Good night, Spark!"], ["Good night! Sleep well."]),
    (["How are you?", "How are you today?", "How do you do?", "Are you well?"],
     ["I am well, thank you. How can I help you?"]),
    (["Who are you?", "What is your name?", "What are you?", "Tell me about yourself.", "What are you called?",
      "Are you a person?"], ["I am Spark, a small language model that lives in Hearth."]),
    (["What can you do?", "How can you help me?", "What do you know?", "Can you help me?", "Help"],
     ["I can tell stories, do small sums, answer simple questions, use tools and write JSON."]),
    (["Thank you!", "Thanks!", "Thank you very much!", "Thanks a lot!", "Thank you"], ["You are welcome!"]),
    (["Goodbye!", "Bye!", "See you later!", "Bye bye!", "Goodbye"], ["Goodbye! See you soon."]),
    (["Who made you?", "Where do you come from?", "Who built you?"],
     ["I was made with Hearth, from data made for me."]),
]

LISTS = [
    (["Name the days of the week.", "What are the days of the week?", "List the days of the week."],
     [", ".join(facts.DAYS) + "."]),
    (["Name the months of the year.", "What are the months?", "List the months of the year."],
     [", ".join(facts.MONTHS) + "."]),
    (["Name the seasons.", "What are the four seasons?", "List the seasons."], ["Spring, summer, autumn and winter."]),
    (["Name three colours.", "Tell me three colours.", "List three colours."], ["Red, yellow and blue."]),
    (["Name three animals.", "Tell me three animals.", "List three animals."], ["A fox, an owl and a rabbit."]),
    (["Name three fruits.", "Tell me three fruits.", "List three fruits."], ["An apple, a pear and a plum."]),
    (["What are the vowels?", "Name the vowels.", "List the vowels."], ["The vowels are a, e, i, o and u."]),
    (["Say the alphabet.", "What is the alphabet?", "Tell me the alphabet."], [" ".join(facts.LETTERS)]),
]

PLUS = ["What is {a} plus {b}?", "What is {a} + {b}?", "{a} + {b}", "{a} + {b} =", "How much is {a} plus {b}?",
        "Add {a} and {b}.", "{a} plus {b}", "What is the sum of {a} and {b}?", "Calculate {a} + {b}.", "{a}+{b}?",
        "How much is {a} + {b}?"]
MINUS = ["What is {a} minus {b}?", "What is {a} - {b}?", "{a} - {b}", "{a} - {b} =", "How much is {a} minus {b}?",
         "Subtract {b} from {a}.", "{a} minus {b}", "Take {b} from {a}.", "Calculate {a} - {b}.", "{a}-{b}?",
         "How much is {a} - {b}?"]
TIMES = ["What is {a} times {b}?", "What is {a} * {b}?", "{a} * {b}", "{a} times {b}", "How much is {a} times {b}?",
         "Multiply {a} by {b}.", "What is {a} x {b}?", "Calculate {a} * {b}.", "{a} * {b} ="]
WORD_PLUS = ["{n} has {a} {f} and gets {b} more. How many {f} does {n} have?",
             "{n} has {a} {f}. {m} has {b} {f}. How many {f} do they have together?"]
WORD_MINUS = ["{n} has {a} {f} and eats {b} of them. How many {f} are left?",
              "{n} had {a} {f} and gave {b} to {m}. How many {f} does {n} have now?"]


def sum_key(op, a, b):
    """The key that keeps a calculation on one side; a sum and its mirror image share one."""
    if op == "+" and a > b:
        a, b = b, a
    return "%d%s%d" % (a, op, b)


def is_held(op, a, b):
    """Whether a calculation is held out. Products are facts to be learned by heart: none is held out."""
    return op != "*" and apart(sum_key(op, a, b), 12)


def pick_sum(rng, held):
    """An operation and two numbers of at most two digits (products of at most ten by ten)."""
    while True:
        op = rng.choice("++++---*") if not held else rng.choice("+-")
        if op == "*":
            return op, rng.randint(0, 10), rng.randint(0, 10)
        a, b = rng.randint(0, 99), rng.randint(0, 99)
        if op == "-" and a < b:
            a, b = b, a
        if is_held(op, a, b) == held:
            return op, a, b


def arithmetic(rng, held=False):
    """(question, answer) of one calculation; the answer repeats it, which shows the model what it works on."""
    op, a, b = pick_sum(rng, held)
    value = {"+": a + b, "-": a - b, "*": a * b}[op]
    ask = rng.choice({"+": PLUS, "-": MINUS, "*": TIMES}[op]).format(a=a, b=b)
    return ask, "%d %s %d = %d" % (a, op, b, value)


def word_problem(rng, held=False):
    """A sum told as a story of one line."""
    while True:
        op, a, b = pick_sum(rng, held)
        if op != "*" and a > 1 and b > 1:
            break
    food = rng.choice(words.FOODS)[1]
    n, m = rng.sample(words.GIRLS + words.BOYS, 2)
    ask = rng.choice(WORD_PLUS if op == "+" else WORD_MINUS).format(a=a, b=b, f=food, n=n, m=m)
    value = a + b if op == "+" else a - b
    return ask, "%d %s %d = %d. The answer is %d." % (a, op, b, value, value)


def all_facts():
    """Every (key, question, answer), in a fixed order. The key names the fact and the way to ask for it."""
    for family, (rows, asks, answer) in facts.FAMILIES.items():
        for row in rows:
            for i, ask in enumerate(asks):
                yield ("%s/%s/%d" % (family, "/".join(row), i), facts.phrase(ask, row), facts.phrase(answer, row))


FACTS = {held: [(q, r) for key, q, r in all_facts() if apart(key, 10) == held] for held in (False, True)}


def fact(rng, held=False):
    """One small fact. Held out are pairs of a fact and a way to ask for it."""
    ask, answer = rng.choice(FACTS[held])
    return ask if held else careless(ask, rng), answer


def careless(ask, rng):
    """A question as it is typed in a hurry: now and then without its capital or its mark at the end."""
    if rng.random() < 0.1:
        ask = ask[0].lower() + ask[1:]
    return ask.rstrip("?.") if rng.random() < 0.1 else ask


def counting(rng, held=False):
    """Counting up or down between two numbers."""
    while True:
        first = rng.randint(0, 40)
        last = first + rng.randint(2, 9)
        if apart("count %d %d" % (first, last), 10) == held:
            break
    if rng.random() < 0.25:
        first, last = last, first
    step = 1 if last > first else -1
    ask = rng.choice(["Count from {} to {}.", "Please count from {} to {}.", "Can you count from {} to {}?"])
    return ask.format(first, last), ", ".join(str(i) for i in range(first, last + step, step)) + "."


def compare(rng, held=False):
    """Which of two numbers is the larger or the smaller."""
    while True:
        a, b = rng.sample(range(100), 2)
        if apart("compare %d %d" % (min(a, b), max(a, b)), 10) == held:
            break
    word = rng.choice(["larger", "smaller"])
    best = max(a, b) if word == "larger" else min(a, b)
    ask = rng.choice(["Which is {w}, {a} or {b}?", "Which number is {w}: {a} or {b}?", "What is {w}, {a} or {b}?"])
    return ask.format(w=word, a=a, b=b), "%d is %s than %d." % (best, word, a + b - best)


def greeting(rng, held=False):
    """A greeting or a question about Spark itself."""
    asks, answers = rng.choice(GREETINGS + LISTS)
    return rng.choice(asks), rng.choice(answers)


NAMING = ["My name is {}.", "I am {}.", "Hello, my name is {}.", "Hi, I am {}.", "I am called {}."]
NAMED = ["What is my name?", "Do you know my name?", "Who am I?", "What am I called?"]


def naming(rng):
    """Two exchanges: a person gives a name, and asks for it later."""
    name = rng.choice(words.GIRLS + words.BOYS)
    return ((rng.choice(NAMING).format(name), "Hello, %s! How can I help you?" % name),
            (rng.choice(NAMED), "Your name is %s." % name))


ECHO = ["Repeat after me: {}.", "Say this again: {}.", "Please repeat: {}.", "Copy these words: {}."]
AS_LIST = ["Write as a JSON list: {}.", "Make a JSON list of these: {}.", "As a JSON list, please: {}."]


def echo(rng, held=False):
    """Names and things to say again, or to write as a list in JSON; nothing teaches copying faster."""
    bag = (words.GIRLS + words.BOYS + [o[0] for o in words.OBJECTS] + [p[0] for p in words.PLACES] + words.COLOURS
           + words.KINDS)
    things = rng.sample(bag, rng.randint(2, 6))
    if rng.random() < 0.5:
        return rng.choice(ECHO).format(", ".join(things)), ", ".join(things)
    return rng.choice(AS_LIST).format(", ".join(things)), json.dumps(things)


def even_or_odd(rng, held=False):
    """Whether a number is even."""
    n = rng.randint(0, 99)
    ask = rng.choice(["Is {} even or odd?", "Is {} an even number?", "Is {} odd?", "Is the number {} even?"]).format(n)
    return ask, "%d is %s." % (n, "odd" if n % 2 else "even")


def is_it(rng, held=False):
    """Whether a thing has a colour, or a country a capital."""
    family, ask, yes = rng.choice([("colour", "Is {} {}?", "{} is {}."),
                                   ("capital", "Is the capital of {} {}?", "the capital of {} is {}.")])
    rows = facts.FAMILIES[family][0]
    row, other = rng.sample(rows, 2)
    said = row[1] if rng.random() < 0.5 else other[1]
    answer = yes.format(row[0], row[1])
    return ask.format(row[0], said), ("Yes, " if said == row[1] else "No, ") + answer


def unknown(rng, held=False):
    """A question that a small model cannot answer, declined."""
    people = words.GIRLS + words.BOYS
    cities = [row[1] for row in facts.table(facts.CAPITALS)]
    c, d = rng.sample(cities, 2)
    ask = rng.choice(facts.UNKNOWN).format(
        y=rng.randint(1000, 2020), r=rng.choice(words.RELATIVES), o=rng.choice(words.OBJECTS)[0], c=c, d=d,
        u=rng.choice(facts.UNKNOWN_COUNTRIES), l=rng.choice(facts.LANGUAGES),
        n=rng.choice(people) + " " + rng.choice(people) + "son")
    return ask, "I am sorry, I do not know that."
