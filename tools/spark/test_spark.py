#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Tests of the corpus, the checker and the tokenizer: python3 tools/spark/test_spark.py"""
import json
import random
import re
import unittest

import bpe
import chat
import checker
import corpus
import stories
import toolcalls
import words

NAMES = words.GIRLS + words.BOYS


def some_stories(count, seed=5):
    rng = random.Random(seed)
    return [stories.story(rng) for _ in range(count)], rng


class Checker(unittest.TestCase):
    """Reads what the grammar writes, and nothing that was tampered with."""

    def rejected(self, change, least):
        """The share of changed stories that fail; a change that leaves the text alone does not count."""
        made, rng = some_stories(300)
        tried = [(text, change(text, binding, rng)) for _, binding, text in made]
        tried = [(old, new) for old, new in tried if new != old]
        failed = sum(checker.check(new) is not None for _, new in tried)
        self.assertGreater(len(tried), 60)
        self.assertGreaterEqual(failed / len(tried), least)

    def test_reads_the_corpus(self):
        made, rng = some_stories(1500)
        for plot, binding, text in made:
            self.assertIsNone(checker.check(text), text)
            topic = stories.request(plot, binding, rng)[1]
            self.assertIsNone(checker.check(text, topic), (topic, text))

    def test_another_name_once(self):
        def change(text, binding, rng):
            name = binding[rng.choice("HF")][""]
            at = rng.choice([m.start() for m in re.finditer(name, text)])
            other = rng.choice([n for n in NAMES if n not in text])
            return text[:at] + other + text[at + len(name):]
        self.rejected(change, 1.0)

    def test_names_exchanged_in_one_sentence(self):
        def change(text, binding, rng):
            h, f = binding["H"][""], binding["F"][""]
            parts = re.split(r"(?<=[.!?\"]) ", text)
            i = rng.randrange(1, len(parts))
            parts[i] = re.sub("%s|%s" % (h, f), lambda m: f if m.group() == h else h, parts[i])
            return " ".join(parts)
        self.rejected(change, 0.75)     # a few sentences may be said by either: "We did it!" cried ...

    def test_pronoun(self):
        def change(text, binding, rng):
            found = list(re.finditer(r"\b([Hh]e|[Ss]he|[Hh]is|[Hh]er)\b", text))
            if not found:
                return text
            m = rng.choice(found)
            swap = {"he": "she", "she": "he", "his": "her", "her": "his"}[m.group().lower()]
            return text[:m.start()] + (swap.capitalize() if m.group()[0].isupper() else swap) + text[m.end():]
        self.rejected(change, 0.97)

    def test_colour(self):
        def change(text, binding, rng):
            if "C" not in binding or text.count(binding["C"][""]) < 2:
                return text
            return text.replace(binding["C"][""], "grey" if rng.random() < 0.3 else
                                next(c for c in words.COLOURS if c not in text), 1)
        self.rejected(change, 0.95)     # a word of colour may belong to something else, a green leaf

    def test_dropped_sentences(self):
        def change(text, _binding, rng):
            parts = re.split(r"(?<=[.!?]) (?=[A-Z\"])", text)
            i = rng.randrange(len(parts) - 2)
            return " ".join(parts[:i] + parts[i + 2:])
        self.rejected(change, 0.9)      # steps that the grammar calls optional may be missing

    def test_cut_off(self):
        self.rejected(lambda text, _b, rng: text[:rng.randrange(20, len(text) - 1)], 0.97)

    def test_order(self):
        def change(text, _binding, rng):
            parts = re.split(r"(?<=[.!?]) (?=[A-Z\"])", text)
            i = rng.randrange(len(parts) - 1)
            parts[i], parts[i + 1] = parts[i + 1], parts[i]
            return " ".join(parts)
        self.rejected(change, 0.97)

    def test_wrong_topic(self):
        made, _ = some_stories(100)
        for _, binding, text in made:
            self.assertIsNotNone(checker.check(text, "a whale and a violin"))
            other = next(n for n in NAMES if n not in (binding["H"][""], binding["F"][""]))
            self.assertIsNotNone(checker.check(text, "%s and %s" % (binding["H"][""], other)))


class Apart(unittest.TestCase):
    """Train and held-out data share none of what is kept apart."""

    def draw(self, maker, count=4000):
        return [{maker(random.Random(i), held) for i in range(count)} for held in (False, True)]

    def test_sums(self):
        def key(rng, held):
            return chat.sum_key(*chat.pick_sum(rng, held))
        train, held = self.draw(key)
        self.assertFalse(train & held)

    def test_facts(self):
        self.assertFalse(set(chat.FACTS[False]) & set(chat.FACTS[True]))
        known = {answer for _, answer in chat.FACTS[False]}
        self.assertTrue({answer for _, answer in chat.FACTS[True]} <= known)

    def test_characters(self):
        def pair(rng, held):
            _, binding, _ = stories.story(rng, held)
            return tuple(sorted((binding["H"][""], binding["F"][""])))
        train, held = self.draw(pair, 1500)
        self.assertFalse(train & held)

    def test_tools(self):
        for name in toolcalls.MAKERS:
            def use(rng, held):
                return json.dumps(toolcalls.use(rng, name, held)[1])
            train, held = self.draw(use, 400)
            self.assertFalse(train & held, name)


class Corpus(unittest.TestCase):

    def test_same_seed_same_data(self):
        first, second = (corpus.stream(random.Random(3), False) for _ in range(2))
        for _ in range(200):
            self.assertEqual(next(first), next(second))

    def test_form_of_a_call(self):
        self.assertEqual(toolcalls.call("get_weather", {"city": "Paris"}),
                         '<tool_call>\n{"name": "get_weather", "arguments": {"city": "Paris"}}\n</tool_call>')

    def test_conversation(self):
        text = "".join(t for t, _ in corpus.document("Be kind.", [("Hi", "Hello!"), ("1 + 1", "2")]))
        self.assertEqual(text, "<|im_start|>system\nBe kind.<|im_end|>\n<|im_start|>user\nHi<|im_end|>\n"
                               "<|im_start|>assistant\nHello!<|im_end|>\n<|im_start|>user\n1 + 1<|im_end|>\n"
                               "<|im_start|>assistant\n2<|im_end|>")

    def test_ascii_and_articles(self):
        stream = corpus.stream(random.Random(4), False)
        for _ in range(2000):
            text = "".join(t for t, _ in next(stream))
            self.assertTrue(text.isascii())
            self.assertIsNone(re.search(r" a [aeio][a-z]", text), text)


class Tokenizer(unittest.TestCase):

    def setUp(self):
        self.texts = [text for _, _, text in some_stories(200)[0]]
        self.tokenizer = bpe.train(self.texts, 500)

    def test_round_trip(self):
        for text in self.texts[:20] + ["<|im_start|>user\n12 + 7?<|im_end|>\n  x\n\n", "{\"a\": [1, 23]}"]:
            self.assertEqual(self.tokenizer.decode(self.tokenizer.encode(text)), text)

    def test_digits_stand_alone(self):
        ids = self.tokenizer.encode("12345")
        self.assertEqual([self.tokenizer.tokens[i] for i in ids], list("12345"))

    def test_size_and_specials(self):
        self.assertEqual(len(self.tokenizer.tokens), 500)
        self.assertEqual(len(set(self.tokenizer.tokens)), 500)
        self.assertEqual(self.tokenizer.encode("<|im_end|>"), [500 - len(bpe.SPECIALS) + 2])


if __name__ == "__main__":
    unittest.main()
