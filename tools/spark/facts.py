# SPDX-License-Identifier: MIT
"""Small facts, written by hand: for each family the ways to ask, the answer, and the table of its facts."""
import words

CAPITALS = """France Paris|Germany Berlin|Italy Rome|Spain Madrid|Portugal Lisbon|England London|Ireland Dublin|
Scotland Edinburgh|Norway Oslo|Sweden Stockholm|Finland Helsinki|Denmark Copenhagen|Poland Warsaw|Austria Vienna|
Switzerland Bern|Hungary Budapest|Greece Athens|Turkey Ankara|Egypt Cairo|Japan Tokyo|China Beijing|India Delhi|
Russia Moscow|Canada Ottawa|Mexico Mexico_City|Brazil Brasilia|Argentina Buenos_Aires|Chile Santiago|Peru Lima|
Cuba Havana|Kenya Nairobi|Australia Canberra|Belgium Brussels|Iceland Reykjavik|Romania Bucharest|Croatia Zagreb"""
OPPOSITES = """big small|hot cold|up down|left right|day night|old new|fast slow|hard soft|light dark|happy sad|open closed|
full empty|high low|wet dry|long short|early late|loud quiet|strong weak|rich poor|thick thin|near far|good bad|
clean dirty|true false|first last|inside outside|always never|begin end|love hate|win lose|push pull|young old|
heavy light|deep shallow|wide narrow|sweet bitter|awake asleep|brave afraid|above below|buy sell|give take|come go|
question answer|summer winter|north south|east west|friend enemy|war peace"""
PLURALS = """cat cats|dog dogs|child children|mouse mice|foot feet|tooth teeth|man men|woman women|goose geese|sheep sheep|
fish fish|box boxes|fox foxes|bus buses|leaf leaves|knife knives|wolf wolves|baby babies|city cities|story stories|
berry berries|lady ladies|potato potatoes|tomato tomatoes|house houses|tree trees|book books|star stars|apple apples|
dish dishes|glass glasses|wish wishes|key keys|day days|toy toys|boy boys|girl girls|bird birds|ox oxen|life lives|
shelf shelves|half halves|hero heroes|person people|deer deer|penny pennies|puppy puppies|peach peaches"""
SOUNDS = """dog barks|cat meows|cow moos|duck quacks|sheep bleats|horse neighs|pig oinks|lion roars|frog croaks|bee buzzes|
owl hoots|rooster crows|mouse squeaks|snake hisses|wolf howls|donkey brays"""
LEGS = """dog 4|cat 4|cow 4|horse 4|duck 2|hen 2|owl 2|spider 8|ant 6|bee 6|beetle 6|fly 6|snake 0|fish 0|fox 4|mouse 4|frog 4|
person 2|crab 10|butterfly 6|rabbit 4|worm 0"""
COLOURS = """grass green|snow white|coal black|the_sky blue|the_sun yellow|a_lemon yellow|a_banana yellow|blood red|a_tomato red|
milk white|a_carrot orange|a_raven black|chocolate brown|a_leaf green|the_sea blue|a_pumpkin orange|a_strawberry red|
a_frog green|a_flamingo pink|salt white|a_cherry red|gold yellow|a_pine_tree green|an_elephant grey|a_polar_bear white"""
MIXES = """red yellow orange|blue yellow green|red blue purple|red white pink|black white grey|red green brown"""
HOMES = """bird nest|bee hive|spider web|dog kennel|horse stable|fox den|lion den|rabbit burrow|cow barn|pig sty|
hen coop|bear cave|ant hill"""
YOUNG = """dog puppy|cat kitten|cow calf|sheep lamb|duck duckling|hen chick|horse foal|pig piglet|lion cub|goat kid|frog tadpole|
bear cub|swan cygnet|kangaroo joey|deer fawn|owl owlet"""
COUNTS = """days a_week 7|months a_year 12|hours a_day 24|minutes an_hour 60|seconds a_minute 60|days a_year 365|seasons a_year 4|
weeks a_year 52|eggs a_dozen 12|fingers a_hand 5|wheels a_car 4|wheels a_bike 2|sides a_triangle 3|sides a_square 4|
corners a_cube 8|players a_football_team 11|letters the_alphabet 26|planets the_solar_system 8|years a_century 100|
centimetres a_metre 100|legs an_insect 6|strings a_violin 4|metres a_kilometre 1000|grams a_kilogram 1000"""
JOBS = """bread baker|shoes shoemaker|clothes tailor|meals cook|houses builder|paintings painter|books writer|music musician"""
TOOLS = """write pen|cut scissors|dig shovel|hammer_nails hammer|eat_soup spoon|open_a_lock key|sweep_the_floor broom|
tell_the_time clock|see_the_stars telescope|measure_length ruler|draw pencil|brush_your_teeth toothbrush|sew needle|
paint_a_wall brush|boil_water kettle|climb_a_wall ladder"""
DAYS = "Monday Tuesday Wednesday Thursday Friday Saturday Sunday".split()
MONTHS = "January February March April May June July August September October November December".split()
LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
NUMBERS = ("zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen "
           "seventeen eighteen nineteen twenty").split()


def table(text):
    """Rows of words; an underscore in the table is a space in the word."""
    return [tuple(w.replace("_", " ") for w in row.split()) for row in text.replace("\n", "").split("|")]


def neighbours(names):
    """(name, next name) around a ring."""
    return [(n, names[(i + 1) % len(names)]) for i, n in enumerate(names)]


def ordinals(names):
    """(ordinal, name) of a list of at most twelve."""
    order = "first second third fourth fifth sixth seventh eighth ninth tenth eleventh twelfth".split()
    return list(zip(order, names))


def both_ways(rows):
    """Opposites hold in both directions; a word with two opposites keeps the first."""
    out = dict(rows)
    for x, y in rows:
        out.setdefault(y, x)
    return sorted(out.items())


# family: (rows, ways to ask, answer); {0}, {1}, ... are the columns, {a0} a column with its article
FAMILIES = {
    "capital": (table(CAPITALS), [
        "What is the capital of {0}?", "Which city is the capital of {0}?", "Tell me the capital of {0}.",
        "Do you know the capital of {0}?", "Name the capital of {0}.", "{0} has which capital?",
        "capital of {0}"], "The capital of {0} is {1}."),
    "country": (table(CAPITALS), [
        "{1} is the capital of which country?", "Of which country is {1} the capital?",
        "Which country has the capital {1}?", "What country is {1} the capital of?"], "{1} is the capital of {0}."),
    "opposite": (both_ways(table(OPPOSITES)), [
        "What is the opposite of {0}?", "What is the opposite of \"{0}\"?", "Tell me the opposite of {0}.",
        "Give me the opposite of {0}.", "Which word is the opposite of {0}?", "Name the opposite of {0}.",
        "opposite of {0}"], "The opposite of {0} is {1}."),
    "plural": (table(PLURALS), [
        "What is the plural of {0}?", "What is the plural of \"{0}\"?", "Tell me the plural of {0}.",
        "How do you say more than one {0}?", "Give me the plural of {0}.", "One {0}, two what?",
        "plural of {0}"], "The plural of {0} is {1}."),
    "sound": (table(SOUNDS), [
        "What does {a0} do?", "What sound does {a0} make?", "Which sound does {a0} make?", "How does {a0} sound?",
        "Tell me the sound of {a0}."], "A {0} {1}."),
    "legs": (table(LEGS), [
        "How many legs does {a0} have?", "Tell me how many legs {a0} has.", "How many legs has {a0}?",
        "What is the number of legs of {a0}?", "Do you know how many legs {a0} has?"], "{A0} has {1} legs."),
    "colour": (table(COLOURS), [
        "What colour is {0}?", "Which colour is {0}?", "Tell me the colour of {0}.", "What is the colour of {0}?",
        "What colour does {0} have?", "Do you know what colour {0} is?"], "{C0} is {1}."),
    "mix": (table(MIXES), [
        "What do you get when you mix {0} and {1}?", "Which colour do {0} and {1} make?",
        "What colour is {0} mixed with {1}?", "If I mix {0} and {1}, what do I get?",
        "What do {0} and {1} make?"], "{C0} and {1} make {2}."),
    "home": (table(HOMES), [
        "Where does {a0} live?", "What is the home of {a0}?", "Tell me where {a0} lives.", "What does {a0} live in?",
        "Do you know where {a0} lives?"], "{A0} lives in {a1}."),
    "young": (table(YOUNG), [
        "What is a young {0} called?", "What is a baby {0} called?", "What do you call a young {0}?",
        "Tell me the name of a young {0}.", "What is the word for a baby {0}?"], "A young {0} is called {a1}."),
    "count": (table(COUNTS), [
        "How many {0} are in {1}?", "How many {0} are there in {1}?", "How many {0} does {1} have?",
        "Tell me how many {0} are in {1}.", "What is the number of {0} in {1}?"], "There are {2} {0} in {1}."),
    "maker": (table(JOBS), [
        "Who makes {0}?", "Tell me who makes {0}.", "What do you call someone who makes {0}?",
        "Do you know who makes {0}?"], "A {1} makes {0}."),
    "tool": (table(TOOLS), [
        "What do I need to {0}?", "What do you use to {0}?", "Which thing do I need to {0}?",
        "Tell me what I need to {0}.", "With what can I {0}?"], "To {0}, you need {a1}."),
    "day after": (neighbours(DAYS), [
        "What day comes after {0}?", "Which day comes after {0}?", "What is the day after {0}?",
        "Today is {0}. What day is tomorrow?", "If today is {0}, what is tomorrow?", "Tell me the day after {0}.",
        "What day follows {0}?"], "The day after {0} is {1}."),
    "day before": ([(y, x) for x, y in neighbours(DAYS)], [
        "What day comes before {0}?", "Which day comes before {0}?", "What is the day before {0}?",
        "Today is {0}. What day was yesterday?", "If today is {0}, what was yesterday?",
        "Tell me the day before {0}."], "The day before {0} is {1}."),
    "month after": (neighbours(MONTHS), [
        "What month comes after {0}?", "Which month comes after {0}?", "What is the month after {0}?",
        "Tell me the month after {0}.", "What month follows {0}?"], "The month after {0} is {1}."),
    "month before": ([(y, x) for x, y in neighbours(MONTHS)], [
        "What month comes before {0}?", "Which month comes before {0}?", "What is the month before {0}?",
        "Tell me the month before {0}."], "The month before {0} is {1}."),
    "month": (ordinals(MONTHS), [
        "What is the {0} month of the year?", "Which month is the {0} of the year?", "Name the {0} month of the year.",
        "Tell me the {0} month."], "The {0} month is {1}."),
    "weekday": (ordinals(DAYS), [
        "What is the {0} day of the week?", "Which day is the {0} of the week?", "Name the {0} day of the week.",
        "Tell me the {0} day of the week."], "The {0} day of the week is {1}."),
    "letter after": (neighbours(LETTERS)[:-1], [
        "What letter comes after {0}?", "Which letter comes after {0}?", "Tell me the letter after {0}.",
        "What is the letter after {0}?", "What letter follows {0}?"], "The letter after {0} is {1}."),
    "letter before": ([(y, x) for x, y in neighbours(LETTERS)[:-1]], [
        "What letter comes before {0}?", "Which letter comes before {0}?", "Tell me the letter before {0}.",
        "What is the letter before {0}?"], "The letter before {0} is {1}."),
    "digit": ([(w, str(i)) for i, w in enumerate(NUMBERS)], [
        "Write {0} as a number.", "Write {0} in digits.", "How do you write {0} in digits?",
        "What is {0} as a number?", "Give me {0} in digits."], "{C0} is {1}."),
    "word": ([(w, str(i)) for i, w in enumerate(NUMBERS)], [
        "Write {1} as a word.", "How do you write {1} as a word?", "What is {1} in words?", "Spell the number {1}.",
        "Give me {1} in words."], "{1} is {0}."),
}


def phrase(template, row):
    """Fills the columns of a row into a question or an answer."""
    named = {}
    for i, word in enumerate(row):
        named["a%d" % i] = words.a(word) if word != "scissors" else word
        named["A%d" % i] = words.a(word).capitalize()
        named["C%d" % i] = word[0].upper() + word[1:]
    return template.format(*row, **named)


UNKNOWN = [
    "Who won the {y} election?", "Who was the king of France in {y}?", "What happened in {y}?",
    "What is the price of gold today?", "Who won the football match last night?", "What is my name?",
    "What did I eat yesterday?", "How old is my {r}?", "Where did I put my {o}?", "Who is the best singer in the world?",
    "What is the phone number of my {r}?", "What will the weather be tomorrow?", "Who wrote the book on my table?",
    "What is the square root of {y}?", "How tall is the tower in {c}?", "How many people live in {c}?",
    "What is the news today?", "Who is the mayor of {c}?", "What is the distance from {c} to {d}?",
    "How much does {o} cost in {c}?", "What time is it?", "What is the weather in {c}?", "What time is it in {c}?",
    "What is {y} * {y}?", "Can you explain quantum physics?", "Who invented the {o}?",
    "What is the capital of {u}?", "Which city is the capital of {u}?", "Tell me the capital of {u}.",
    "Can you translate this into {l}?", "How do you say {o} in {l}?", "When was {n} born?", "Who is {n}?",
    "Where does {n} live?", "What is the name of my {r}?", "Can you write a program in {l}?",
]
UNKNOWN_COUNTRIES = ("Chad Nepal Bhutan Togo Ghana Mali Fiji Laos Oman Qatar Yemen Iraq Iran Syria Jordan Malta Cyprus "
                     "Latvia Estonia Ukraine Serbia Albania Bolivia Ecuador Panama Jamaica Haiti Mongolia").split()
LANGUAGES = "Latin Greek Russian Chinese Turkish Hindi Welsh Finnish Danish Polish".split()
