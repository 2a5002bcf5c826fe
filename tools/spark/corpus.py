#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Writes the training and the held-out data, from a seed.

    corpus.py OUT [--seed 1] [--size MB]      OUT/train.txt, OUT/held.txt and OUT/held.jsonl

A document is one line of JSON: [[text, learn], ...]; `learn` says whether the model is trained to write that part. A
story is one part, a conversation alternates. held.txt holds documents of the same form for perplexity; held.jsonl holds
the questions that `measure` asks, with what it needs to judge the answers. What the two sides never share is said where
each kind is made: pairs of characters, pairs of numbers, a fact asked in a certain way, a tool's arguments, an object.
"""
import argparse
import json
import os
import random

import chat
import jsonchat
import stories
import toolcalls

END = "<|im_end|>"


def turn(role, text):
    """A finished turn in ChatML."""
    return "<|im_start|>" + role + "\n" + text + END + "\n"


def document(system, exchanges):
    """A conversation as parts; exchanges are (user text, assistant text)."""
    parts, head = [], turn("system", system) if system else ""
    for user, assistant in exchanges:
        parts.append([head + turn("user", user) + "<|im_start|>assistant\n", 0])
        parts.append([assistant + END, 1])
        head = "\n"
    return parts


def maybe_system(rng):
    """No system message more often than not."""
    return rng.choice(chat.SYSTEMS) if rng.random() < 0.35 else ""


def plain_story(rng, held):
    return [[stories.story(rng, held)[2] + "<|endoftext|>", 1]]


def asked_story(rng, held):
    plot, binding, text = stories.story(rng, held)
    return document(maybe_system(rng), [(stories.request(plot, binding, rng)[0], text)])


def json_exchange(rng, held):
    ask, value = jsonchat.exchange(rng, held)
    return ask, json.dumps(value)


SMALL = [(9, chat.arithmetic), (1, chat.word_problem), (9, chat.fact), (1, chat.counting), (1, chat.compare),
         (2, chat.greeting), (1, chat.unknown), (0.5, chat.even_or_odd), (0.5, chat.is_it), (0.5, chat.echo)]


def small(rng, held):
    """One exchange of any of the short kinds."""
    maker = rng.choices([m for _, m in SMALL], [w for w, _ in SMALL])[0]
    return maker(rng, held)


def talk(rng, held):
    """A conversation of one to six short exchanges, sometimes with a story or an object in it."""
    exchanges = [small(rng, held) for _ in range(rng.choice([1, 1, 2, 3, 4, 6]))]
    if rng.random() < 0.05:
        given, asked = chat.naming(rng)
        exchanges = [given] + exchanges + [asked]
    if rng.random() < 0.1:
        exchanges.insert(rng.randint(0, len(exchanges)), json_exchange(rng, held))
    if rng.random() < 0.04:
        plot, binding, text = stories.story(rng, held)
        exchanges.insert(rng.randint(0, len(exchanges)), (stories.request(plot, binding, rng)[0], text))
    return document(maybe_system(rng), exchanges)


def sums(rng, held):
    """Nothing but calculations: the densest way to show many of them."""
    return document("", [chat.arithmetic(rng, held) for _ in range(rng.randint(2, 10))])


def quiz(rng, held):
    """Nothing but facts, for the same reason."""
    return document("", [chat.fact(rng, held) for _ in range(rng.randint(3, 12))])


def echoes(rng, held):
    """Nothing but words to say again."""
    return document("", [chat.echo(rng, held) for _ in range(rng.randint(2, 8))])


def objects(rng, held):
    """One to three objects to write as JSON."""
    return document(maybe_system(rng), [json_exchange(rng, held) for _ in range(rng.choice([1, 1, 2, 3]))])


def missing_tool(rng, names, held):
    """A question for a tool that is not offered, declined."""
    name = rng.choice(sorted(set(toolcalls.MAKERS) - set(names)))
    return toolcalls.use(rng, name, held)[0], "I am sorry, I have no tool for that."


def tool_talk(rng, held):
    """A conversation with tools: mostly calls and their results, now and then a question that needs none."""
    tools = toolcalls.choose(rng, rng.choice([1, 1, 2, 2, 3, 3, 4, 7]))
    names = [t["function"]["name"] for t in tools]
    exchanges = []
    for _ in range(rng.choice([1, 4, 5, 6])):
        if rng.random() < 0.12:
            exchanges.append(small(rng, held))
            continue
        if rng.random() < 0.1 and len(tools) < len(toolcalls.TOOLS):
            exchanges.append(missing_tool(rng, names, held))
            continue
        name = rng.choice(names)
        ask, arguments, result, answer = toolcalls.use(rng, name, held)
        exchanges.append((ask, toolcalls.call(name, arguments)))
        exchanges.append((toolcalls.response(result), answer))
    return document(toolcalls.system(tools, maybe_system(rng)), exchanges)


# share of the text, roughly: documents are drawn so that their sizes come to this
MAKERS = (plain_story, asked_story, talk, quiz, sums, echoes, objects, tool_talk)
SHARES = (0.15, 0.36, 0.13, 0.06, 0.10, 0.03, 0.05, 0.12)


def stream(rng, held):
    """Endless documents, the kinds kept to their shares of the text."""
    weight = [0.0] * len(MAKERS)
    while True:
        i = min(range(len(MAKERS)), key=lambda k: weight[k] / SHARES[k])
        doc = MAKERS[i](rng, held)
        weight[i] += sum(len(text) for text, _ in doc)
        yield doc


def size(doc):
    return sum(len(text) for text, _ in doc)


def write_documents(path, rng, held, limit):
    """Writes documents up to a size in characters; returns how many. No story is written twice."""
    seen, total, count = set(), 0, 0
    with open(path, "w") as out:
        for doc in stream(rng, held):
            line = json.dumps(doc)
            if doc[0][1] and line in seen:
                continue
            seen.add(line)
            out.write(line + "\n")
            total, count = total + size(doc), count + 1
            if total >= limit:
                return count


def questions(rng, each):
    """The held-out questions for `measure`: dicts with the prompt and what the answer must satisfy."""
    for _ in range(each):
        plot, binding, _text = stories.story(rng, True)
        ask, topic = stories.request(plot, binding, rng)
        yield {"kind": "story", "prompt": document("", [(ask, "")])[0][0], "topic": topic}
    for kind, maker in (("arithmetic", chat.arithmetic), ("fact", chat.fact)):
        for _ in range(each):
            ask, answer = maker(rng, True)
            yield {"kind": kind, "prompt": document(maybe_system(rng), [(ask, "")])[0][0], "answer": answer}
    for i in range(each):
        tools = toolcalls.choose(rng, 4)
        name = rng.choice(tools)["function"]["name"]
        ask, arguments, result, answer = toolcalls.use(rng, name, True)
        head = document(toolcalls.system(tools), [(ask, toolcalls.call(name, arguments)),
                                                  (toolcalls.response(result), answer)])
        yield {"kind": "tool", "prompt": head[0][0], "name": name, "arguments": arguments}
        yield {"kind": "tool answer", "prompt": "".join(p for p, _ in head[:3]), "answer": answer}
    for _ in range(each):
        ask, value = jsonchat.exchange(rng, True)
        yield {"kind": "json", "prompt": document("", [(ask, "")])[0][0], "value": value}


def main():
    parser = argparse.ArgumentParser(description="write Spark's data")
    parser.add_argument("out")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--size", type=float, default=100, help="training text in millions of characters")
    parser.add_argument("--each", type=int, default=200, help="held-out questions of each kind")
    args = parser.parse_args()
    os.makedirs(args.out, exist_ok=True)
    join = lambda name: os.path.join(args.out, name)
    count = write_documents(join("train.txt"), random.Random(args.seed), False, args.size * 1e6)
    write_documents(join("held.txt"), random.Random(args.seed + 1), True, 200e3)
    with open(join("held.jsonl"), "w") as out:
        for q in questions(random.Random(args.seed + 2), args.each):
            out.write(json.dumps(q) + "\n")
    print("%d training documents" % count)


if __name__ == "__main__":
    main()
