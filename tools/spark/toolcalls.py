# SPDX-License-Identifier: MIT
"""Conversations with tools, in the form that Qwen3's chat template gives them."""
import json

import facts
import words
from chat import apart

CITIES = [row[1] for row in facts.table(facts.CAPITALS)] + """Hamburg Munich Cologne Milan Naples Venice Lyon Nice Porto
Seville Valencia Zurich Geneva Basel Rotterdam Antwerp Bristol Leeds Glasgow Cardiff Oxford Boston Chicago Denver Seattle
Houston Toronto Montreal Vancouver Sydney Melbourne Perth Osaka Kyoto Mumbai Lagos Accra Dakar Tunis""".split()
ROOMS = ["kitchen", "bedroom", "bathroom", "living room", "hall", "garage", "office", "cellar", "attic", "garden",
         "library", "workshop", "pantry", "study", "nursery", "dining room", "guest room", "laundry", "porch", "stable",
         "shed", "corridor", "playroom", "tower"]
SKIES = ["sunny", "cloudy", "rainy", "windy", "foggy", "clear"]
MESSAGES_WHO = ["I", "We"]
MESSAGES_DO = ["will be late", "are at home" , "have arrived", "need some milk", "found the key", "bought a cake",
               "miss you", "cannot come today", "fed the cat", "have a question", "will call you", "like your gift"]
MESSAGES_MORE = ["", " tomorrow", " this evening", " at the station", " on Monday", " on Friday", " at noon"]
NOTES = ["buy bread", "call the doctor", "water the plants", "feed the dog", "pay the rent", "clean the car",
         "wash the windows", "read the book", "mend the bike", "write a letter", "pick apples", "visit grandmother"]


def declare(name, about, **props):
    """A tool's declaration as it stands in a request; a property is (JSON type, description)."""
    fields = {k: {"type": t, "description": d} for k, (t, d) in props.items()}
    return {"type": "function", "function": {"name": name, "description": about, "parameters": {
        "type": "object", "properties": fields, "required": list(fields)}}}


TOOLS = [
    declare("get_weather", "Get the current weather in a city", city=("string", "The name of the city")),
    declare("get_time", "Get the current time in a city", city=("string", "The name of the city")),
    declare("calculate", "Calculate the value of an expression", expression=("string", "The expression")),
    declare("set_timer", "Set a timer", minutes=("integer", "The number of minutes")),
    declare("switch_light", "Switch the light in a room on or off", room=("string", "The name of the room"),
            on=("boolean", "Whether the light should be on")),
    declare("send_message", "Send a message to a person", to=("string", "The name of the person"),
            text=("string", "The text of the message")),
    declare("add_note", "Add a note to the list", text=("string", "The text of the note")),
]
BY_NAME = {t["function"]["name"]: t for t in TOOLS}

HEAD = ("# Tools\n\nYou may call one or more functions to assist with the user query.\n\nYou are provided with function "
        "signatures within <tools></tools> XML tags:\n<tools>")
TAIL = ("\n</tools>\n\nFor each function call, return a json object with function name and arguments within "
        "<tool_call></tool_call> XML tags:\n<tool_call>\n{\"name\": <function-name>, \"arguments\": <args-json-object>}\n"
        "</tool_call>")


def system(tools, text=""):
    """The system message that declares the tools, after the caller's own text."""
    return (text + "\n\n" if text else "") + HEAD + "".join("\n" + json.dumps(t) for t in tools) + TAIL


def call(name, arguments):
    """An assistant turn that calls a tool."""
    return "<tool_call>\n" + json.dumps({"name": name, "arguments": arguments}) + "\n</tool_call>"


def response(result):
    """The user turn that carries a tool's result. Qwen3's template puts it so, with the line break before it."""
    return "<tool_response>\n" + json.dumps(result) + "\n</tool_response>"


def weather(rng):
    city, sky, deg = rng.choice(CITIES), rng.choice(SKIES), rng.randint(0, 35)
    ask = rng.choice(["What is the weather in {}?", "How is the weather in {}?", "Tell me the weather in {}.",
                      "What is the weather like in {}?", "Is it raining in {}?", "How warm is it in {}?",
                      "What's the weather in {}?", "What is the weather in {} today?"]).format(city)
    return ask, {"city": city}, {"temperature": deg, "sky": sky}, "It is %d degrees and %s in %s." % (deg, sky, city)


def time(rng):
    city, clock = rng.choice(CITIES), "%02d:%02d" % (rng.randint(0, 23), rng.randint(0, 59))
    ask = rng.choice(["What time is it in {}?", "Tell me the time in {}.", "What is the time in {}?",
                      "How late is it in {}?", "Can you tell me the time in {}?"]).format(city)
    return ask, {"city": city}, {"time": clock}, "It is %s in %s." % (clock, city)


def calculate(rng):
    op = rng.choice("+-*")
    a, b = rng.randint(100, 9999), rng.randint(2, 999)
    value = {"+": a + b, "-": a - b, "*": a * b}[op]
    form = rng.choice(["What is {} {} {}?", "How much is {} {} {}?", "Calculate {} {} {}.", "Please calculate {} {} {}."])
    word = rng.choice([op, {"+": "plus", "-": "minus", "*": "times"}[op]])
    text = "%d %s %d" % (a, op, b)
    return form.format(a, word, b), {"expression": text}, {"value": value}, "%s = %d" % (text, value)


def timer(rng):
    n = rng.randint(1, 99)
    ask = rng.choice(["Set a timer for {} minutes.", "Please set a timer for {} minutes.", "Wake me in {} minutes.",
                      "I need a timer for {} minutes.", "Start a timer of {} minutes.",
                      "Can you set a timer for {} minutes?"]).format(n)
    return ask, {"minutes": n}, {"ok": True}, "The timer is set for %d minutes." % n


def light(rng):
    room, on = rng.choice(ROOMS), rng.random() < 0.5
    word = "on" if on else "off"
    ask = rng.choice(["Switch {w} the light in the {r}.", "Turn {w} the light in the {r}.",
                      "Please turn the light in the {r} {w}.", "Switch the light in the {r} {w}, please.",
                      "Can you turn {w} the {r} light?", "Light {w} in the {r}!"]).format(w=word, r=room)
    return ask, {"room": room, "on": on}, {"ok": True}, "The light in the %s is now %s." % (room, word)


def message(rng):
    who = rng.choice(words.GIRLS + words.BOYS)
    do = rng.choice([m for m in MESSAGES_DO if not m.startswith("are")])
    text = rng.choice(MESSAGES_WHO) + " " + do + rng.choice(MESSAGES_MORE)
    ask = rng.choice(["Send a message to {n}: {t}", "Send {n} this message: {t}", "Write to {n}: {t}",
                      "Please send \"{t}\" to {n}.", "Tell {n}: {t}", "Message {n} and say \"{t}\"."]).format(n=who, t=text)
    return ask, {"to": who, "text": text}, {"ok": True}, "I have sent your message to %s." % who


def note(rng):
    text = rng.choice(NOTES) + rng.choice(MESSAGES_MORE[1:] + ["", ""])
    ask = rng.choice(["Add a note: {}", "Make a note: {}", "Write down: {}", "Please note: {}",
                      "Put \"{}\" on my list.", "Add \"{}\" to my list."]).format(text)
    return ask, {"text": text}, {"ok": True}, "I have added the note: %s." % text


MAKERS = {"get_weather": weather, "get_time": time, "calculate": calculate, "set_timer": timer,
          "switch_light": light, "send_message": message, "add_note": note}


def use(rng, name, held=False):
    """(question, arguments, result, answer) for one use of a tool. Held out are whole sets of arguments."""
    while True:
        made = MAKERS[name](rng)
        if apart(name + json.dumps(made[1]), 10) == held:
            return made


def choose(rng, most):
    """Some of the tools, in any order."""
    return rng.sample(TOOLS, rng.randint(1, most))
