# SPDX-License-Identifier: MIT
"""Judges the answers to the held-out questions that corpus.py writes."""
import json
import re

import checker

CALL = re.compile(r"<tool_call>\n(.*)\n</tool_call>")


def json_object(text):
    """The object that a text is, or None."""
    try:
        value = json.loads(text)
    except ValueError:
        return None
    return value if isinstance(value, dict) else None


def judge_story(question, answer):
    return checker.check(answer, question["topic"])


def judge_answer(question, answer):
    return None if answer == question["answer"] else "expected " + question["answer"]


def judge_tool(question, answer):
    match = CALL.fullmatch(answer)
    call = json_object(match.group(1)) if match else None
    if call is None:
        return "is not a call"
    wanted = {"name": question["name"], "arguments": question["arguments"]}
    return None if call == wanted else "expected " + json.dumps(wanted)


def judge_json(question, answer):
    value = json_object(answer)
    if value is None:
        return "is not a JSON object"
    if set(value) != set(question["value"]):
        return "expected the keys " + ", ".join(question["value"])
    return None


def judge_json_values(question, answer):
    return None if json_object(answer) == question["value"] else "expected " + json.dumps(question["value"])


# kind of question: (what the table calls it, judge, most tokens of an answer, share that is asked for)
KINDS = {
    "story": ("stories sound, on their topic", judge_story, 400, 0.95),
    "arithmetic": ("arithmetic right", judge_answer, 40, 0.95),
    "fact": ("facts right", judge_answer, 40, 0.95),
    "tool": ("tool calls exact", judge_tool, 120, 0.95),
    "tool answer": ("answers after a tool's result", judge_answer, 60, None),
    "json": ("JSON valid with its keys", judge_json, 120, 0.98),
}


def judge(question, answer):
    """None when the answer will do, otherwise what is wrong with it."""
    return KINDS[question["kind"]][1](question, answer)
