# SPDX-License-Identifier: MIT
"""hearth run and tokenize on a tiny model: what comes out, where, and with which exit code."""
import json
import os
import pty
import re
import resource
import signal
import subprocess
import tempfile
import time
import unittest

import tiny


class WithModel(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.model = tiny.tiny_model(os.path.join(cls.folder.name, "tiny.gguf"))

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    def await_handler(self, p):
        """Until the program takes SIGINT itself: then its threads block it."""
        while p.poll() is None:
            with open(f"/proc/{p.pid}/status", encoding="ascii") as f:
                blocked = int(re.search(r"SigBlk:\s*([0-9a-f]+)", f.read()).group(1), 16)
            if blocked & 1 << (signal.SIGINT - 1):
                return
            time.sleep(0.01)

    def run_ok(self, *args, stdin=b""):
        code, out, err = tiny.hearth("run", self.model, *args, stdin=stdin)
        self.assertEqual(code, 0, err)
        return out, err


class Run(WithModel):
    def test_text_from_anywhere(self):
        text = "the hearth, d\u00e9j\u00e0 vu\n"
        path = os.path.join(self.folder.name, "text")
        with open(path, "w", encoding="utf-8") as f:
            f.write(text)
        out, _ = self.run_ok("-p", text, "-n", 20)
        self.assertTrue(out)
        self.assertFalse(out.startswith(text.encode()))  # only what the model adds
        self.assertEqual(self.run_ok("-f", path, "-n", 20)[0], out)
        self.assertEqual(self.run_ok("-f", "-", "-n", 20, stdin=text.encode())[0], out)
        self.assertEqual(self.run_ok("-n", 20, stdin=text.encode())[0], out)
        self.assertEqual(self.run_ok("--prompt=" + text, "--n-predict=20", "-t", 1, "--batch", 3)[0], out)

    def test_no_mmap(self):
        mapped = self.run_ok("-p", "x", "-n", 30, "--temp", 0)[0]
        self.assertEqual(self.run_ok("-p", "x", "-n", 30, "--temp", 0, "--no-mmap")[0], mapped)
        code, out, err = tiny.hearth("run", "-p", "x", "--no-mmap")  # the built-in model
        self.assertEqual((code, out), (2, b""), err)
        self.assertIn("--no-mmap is for a model file", err)
        code, _, err = tiny.hearth("run", self.model + ".none", "-p", "x", "--no-mmap")
        self.assertEqual(code, 1)
        self.assertIn("no such file", err)
        bench = "--json", "--prompt", 4, "--generate", 2, "--reps", 1
        for of, is_mapped in ([self.model, "--no-mmap"], False), ([self.model], True), ([], False):  # nothing: built in
            if of or tiny.has_builtin():
                code, out, err = tiny.hearth("bench", *of, *bench)
                self.assertEqual(code, 0, err)
                self.assertIs(json.loads(out)["mapped"], is_mapped, of)

    def test_repack(self):
        tiny.need_repacking(self.model)
        if tiny.has_builtin():  # the tiny one has no rows that could be
            code, out, err = tiny.hearth("run", "-p", "x", "-n", 30, "--temp", 0, "--repack")
            self.assertEqual(code, 0, err)
            self.assertEqual(out, tiny.hearth("run", "-p", "x", "-n", 30, "--temp", 0)[1])
        code, _, err = tiny.hearth("run", self.model, "-p", "x", "--repack", "--backend", "ref")
        self.assertEqual(code, 1)
        self.assertIn("repack: the ref backend", err)
        code, _, err = tiny.hearth("run", self.model, "-p", "x", "--repack", "--cpu-level", "scalar")
        self.assertEqual(code, 1)
        self.assertIn("level scalar has no kernels for repacked weights", err)

    def test_built_in(self):
        """Every command that takes a model and is given none takes the one that is built in."""
        if not tiny.has_builtin():
            self.skipTest("this build has no built-in model")
        code, ids, err = tiny.hearth("tokenize", "-p", "hello there")
        self.assertEqual(code, 0, err)
        self.assertEqual(tiny.hearth("tokenize", "--ids", ids.decode().strip())[1], b"hello there")
        code, out, err = tiny.hearth("eval", "--tokens", ids.decode().strip())
        self.assertEqual(code, 0, err)
        self.assertIn(b"perplexity of these tokens", out)
        code, out, err = tiny.hearth("inspect", "--json", "--memory")
        self.assertEqual(code, 0, err)
        self.assertEqual(json.loads(out)["path"], "the built-in model")
        self.assertTrue(tiny.hearth("inspect")[1].startswith(b"the built-in model\n"))

    def test_verbose(self):
        """What the library logs, on standard error; the text is the same."""
        out, err = self.run_ok("-p", "abc", "-n", 5, "--temp", 0)
        self.assertNotIn("KV pages", err)
        for option in ("-v", "--verbose"):
            said = self.run_ok("-p", "abc", "-n", 5, "--temp", 0, option)
            self.assertEqual(said[0], out)
            self.assertRegex(said[1], r"hearth: cpu .* KV pages, .* memory: weights \d+")

    def test_seeds(self):
        a = self.run_ok("-p", "x", "-n", 30, "--seed", 1)[0]
        self.assertEqual(a, self.run_ok("-p", "x", "-n", 30, "--seed", 1)[0])
        self.assertNotEqual(a, self.run_ok("-p", "x", "-n", 30, "--seed", 2)[0])
        greedy = self.run_ok("-p", "x", "-n", 30, "--temp", 0, "--seed", 1)[0]
        self.assertEqual(greedy, self.run_ok("-p", "x", "-n", 30, "--top-k", 1, "--seed", 9)[0])

    def test_statistics(self):
        _, err = self.run_ok("-p", "abc", "-n", 5, "--ignore-end")
        self.assertRegex(err, r"load +\d+\.\d+ s\n")
        self.assertRegex(err, r"prompt +4 tokens +[\d.]+ tokens/s\n")  # the begin token and three
        self.assertRegex(err, r"generation +5 tokens +[\d.]+ tokens/s  \(length\)\n")
        self.assertRegex(err, r"peak memory +[\d.]+ MB\n")
        _, err = self.run_ok("-p", "abc", "-n", 5, "--ignore-end", "--raw")
        self.assertRegex(err, r"prompt +3 tokens")
        _, err = self.run_ok("-p", "<|begin|>abc", "-n", 1, "--special")
        self.assertIn("warning: the text begins with the model's begin token", err)
        _, err = self.run_ok("-p", "<|begin|>abc", "-n", 1, "--special", "--raw")
        self.assertNotIn("warning", err)
        _, err = self.run_ok("-p", "a<|end|>c", "-n", 5, "--ignore-end", "--special")
        self.assertRegex(err, r"prompt +4 tokens")
        self.assertEqual(self.run_ok("-p", "abc", "-n", 5, "--quiet")[1], "")

    def test_logprobs(self):
        args = ["-p", "abc", "-n", 12, "--seed", 4, "--ignore-end", "-q", "--temp", 0.5]
        args += [x for i in range(97, 123) for x in ("--logit-bias", "%d=40" % i)]  # letters: each a character
        plain = self.run_ok(*args)[0]
        lines = [json.loads(l) for l in self.run_ok(*args, "--logprobs", 3)[0].splitlines()]
        tokens = [l for l in lines if "token" in l]
        self.assertEqual(len(tokens), 12)
        self.assertEqual(lines[-1]["finish"], "length")
        self.assertEqual("".join(l["text"] for l in lines), plain.decode(errors="replace"))
        for l in tokens:
            self.assertEqual(len(l["top"]), 3)
            probs = [t["logprob"] for t in l["top"]]
            self.assertEqual(probs, sorted(probs, reverse=True))
            self.assertLessEqual(l["logprob"], probs[0])
            self.assertIn("piece", l)

    def test_bias_and_stop(self):
        half = json.loads(self.run_ok("-p", "abc", "-n", 1, "--logprobs", 1, "--logit-bias", "195=1e4")[0])
        self.assertEqual((half["token"], half["piece"], half["bytes"]), (195, "\ufffd", [195]))
        self.assertNotIn("bytes", half["top"][0])
        first = json.loads(self.run_ok("-p", "abc", "-n", 1, "--temp", 0, "--logprobs", 0, "-q")[0].splitlines()[0])
        other = json.loads(self.run_ok("-p", "abc", "-n", 1, "--temp", 0, "--logprobs", 0, "-q", "--logit-bias",
                                       "%d=-inf" % first["token"])[0].splitlines()[0])
        self.assertNotEqual(first["token"], other["token"])
        forced = self.run_ok("-p", "abc", "-n", 4, "--temp", 0, "-q", "--logit-bias", "65=1e4")[0]
        self.assertEqual(forced, b"AAAA")
        out, err = self.run_ok("-p", "abc", "-n", 9, "--temp", 0, "--logit-bias", "65=1e4", "--stop", "AAA")
        self.assertEqual(out, b"")
        self.assertIn("(stop)", err)
        out, err = self.run_ok("-p", "abc", "--logit-bias", "%d=1e4" % tiny.END)
        self.assertEqual(out, b"")
        self.assertIn("(end)", err)

    def test_penalties(self):
        """Two letters far above the others: which one comes tells what was subtracted."""
        def text(b, *args):
            return self.run_ok("-p", "xyz", "-n", 6, "--temp", 0, "-q", "--logit-bias", "65=1000", "--logit-bias",
                               "66=%d" % b, *args)[0]
        self.assertEqual(text(950), b"AAAAAA")
        self.assertEqual(text(950, "--presence-penalty", 100), b"ABAAAA")
        self.assertEqual(text(950, "--presence-penalty", 100, "--penalty-window", 1), b"ABABAB")
        self.assertEqual(text(750, "--frequency-penalty", 100), b"AAABAB")
        self.assertEqual(text(500, "--repeat-penalty", 4), b"ABAAAA")

    def test_cuts(self):
        """Each cut alone can leave nothing but the best token."""
        greedy = self.run_ok("-p", "x", "-n", 30, "--temp", 0)[0]
        hot = ["-p", "x", "-n", 30, "--temp", 5, "--seed", 3]
        off = {"--top-k": 0, "--top-p": 1, "--min-p": 0}
        for name, value in (("--top-k", 1), ("--top-p", 0.001), ("--min-p", 1), (None, None)):
            args = [x for kv in {**off, **({name: value} if name else {})}.items() for x in kv]
            (self.assertEqual if name else self.assertNotEqual)(self.run_ok(*hot, *args)[0], greedy, name)

    def test_ignore_end(self):
        err = self.run_ok("-p", "abc", "-n", 5, "--logit-bias", "%d=1e4" % tiny.END, "--ignore-end")[1]
        self.assertRegex(err, r"generation +5 tokens.*\(length\)")

    def test_rates(self):
        """No slower than the whole program was, and no faster than any."""
        begin = time.monotonic()
        _, err = self.run_ok("-p", "abc " * 100, "-n", 50, "--ignore-end")
        wall = time.monotonic() - begin
        for what, n in (("prompt", 401), ("generation", 49)):
            rate = float(re.search(what + r" +\d+ tokens +([\d.]+) tokens/s", err).group(1))
            self.assertTrue(n / wall <= rate < 1e7, (what, rate, wall))

    def test_interrupt_twice(self):
        """While a pass lasts, a second SIGINT ends the program at once."""
        with tempfile.NamedTemporaryFile() as f:
            f.write(b"abc " * 5000)
            f.flush()
            p = subprocess.Popen([tiny.HEARTH, "run", self.model, "-f", f.name, "--ctx", "30000", "--batch", "16384",
                                  "--backend", "ref"],
                                 stdout=subprocess.PIPE, stderr=subprocess.PIPE)
            self.await_handler(p)
            time.sleep(1)
            p.send_signal(signal.SIGINT)
            said = p.stderr.readline()
            self.assertIsNone(p.poll(), said)  # else the pass was too short to try it
            self.assertEqual(said, tiny.STOPPING)
            p.send_signal(signal.SIGINT)
            self.assertEqual(p.wait(timeout=60), -signal.SIGINT)
            self.assertEqual(p.stderr.read(), b"")  # no statistics, which stand behind a pass
            p.stdout.close(), p.stderr.close()

    def test_terminal(self):
        """A progress line on a terminal, erased in the end; a prompt is not awaited from one."""
        try:
            master, slave = pty.openpty()
        except OSError:
            self.skipTest("no terminals here")
        p = subprocess.run([tiny.HEARTH, "run", self.model], stdin=slave, capture_output=True, timeout=60)
        self.assertEqual(p.returncode, 2)
        self.assertIn(b"there is no text", p.stderr)
        with tempfile.NamedTemporaryFile() as f:
            f.write(b"abc " * 200000)
            f.flush()
            p = subprocess.Popen([tiny.HEARTH, "run", self.model, "-f", f.name, "--ctx", "1000000", "-q"],
                                 stdout=subprocess.PIPE, stderr=slave, env={**os.environ, "TERM": "xterm"})
            said = b""
            while b"reading the prompt" not in said:  # or it waits for ever
                said += os.read(master, 65536)
            p.send_signal(signal.SIGINT)
            self.assertEqual(p.wait(timeout=60), -signal.SIGINT)
            p.stdout.close()
        said += os.read(master, 65536)
        os.close(slave)
        os.close(master)
        self.assertRegex(said, rb"\rreading the prompt: \d+ of 800001 tokens, \d+ s \x1b\[K")
        said = said.replace(tiny.STOPPING.replace(b"\n", b"\r\n"), b"")
        self.assertTrue(said.endswith(b"\r\x1b[K"), said[-40:])

    def test_context(self):
        out, err = self.run_ok("-p", "abc", "--ctx", 16, "--ignore-end")
        self.assertIn("the context is full (16 positions); --ctx N gives more", err)
        self.assertIn("(context)", err)
        gpt2 = tiny.tiny_gpt2(os.path.join(self.folder.name, "gpt2.gguf"), 12)
        for ctx, says in ((8, "(8 positions); --ctx N gives more"), (12, "(12 positions); more are not possible")):
            code, _, err = tiny.hearth("run", gpt2, "-p", "abc", "--ctx", ctx, "--ignore-end")
            self.assertEqual(code, 0, err)
            self.assertIn("the context is full " + says, err)
        code, out, err = tiny.hearth("run", self.model, "-p", "a" * 40, "--ctx", 16)
        self.assertEqual((code, out), (1, b""))
        self.assertRegex(err, "^hearth: .*4[01].*16.*\n$")

    def test_interrupt(self):
        p = subprocess.Popen([tiny.HEARTH, "run", self.model, "-p", "abc", "--ctx", "200000", "--ignore-end"],
                             stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        self.assertTrue(p.stdout.read(20))
        p.send_signal(signal.SIGINT)
        _, err = p.communicate(timeout=60)
        self.assertEqual(p.returncode, -signal.SIGINT, err)
        self.assertIn(b"(cancelled)", err)

    def test_interrupt_script(self):
        """A script ends with it, as it does not where a program only exits."""
        script = 'for i in 1 2 3; do "$0" run "$1" -p abc --ctx 200000 --ignore-end >&2; echo "$?"; done; echo end'
        p = subprocess.Popen(["bash", "-c", script, tiny.HEARTH, self.model], stdout=subprocess.PIPE,
                             stderr=subprocess.PIPE, start_new_session=True)
        self.assertTrue(p.stderr.read(20))
        os.killpg(p.pid, signal.SIGINT)  # as a terminal does
        out, err = p.communicate(timeout=60)
        self.assertEqual((p.returncode, out), (-signal.SIGINT, b""), err[-200:])

    def test_interrupt_prompt(self):
        with tempfile.NamedTemporaryFile() as f:
            f.write(b"abc " * 200000)
            f.flush()
            p = subprocess.Popen([tiny.HEARTH, "run", self.model, "-f", f.name, "--ctx", "1000000"],
                                 stdout=subprocess.PIPE, stderr=subprocess.PIPE)
            self.await_handler(p)
            time.sleep(1)
            p.send_signal(signal.SIGINT)
            _, err = p.communicate(timeout=60)
        self.assertEqual(p.returncode, -signal.SIGINT, err)
        self.assertRegex(err, rb"prompt +\d+ tokens of \d+\n")

    def test_interrupt_eval(self):
        with tempfile.NamedTemporaryFile() as f:
            f.write(b"abc " * 500000)
            f.flush()
            p = subprocess.Popen([tiny.HEARTH, "eval", self.model, "--file", f.name], stdout=subprocess.PIPE,
                                 stderr=subprocess.PIPE)
            self.await_handler(p)
            time.sleep(0.2)
            p.send_signal(signal.SIGINT)
            out, err = p.communicate(timeout=60)
        self.assertEqual((p.returncode, out), (-signal.SIGINT, b""), err)

    def test_interrupt_reading(self):
        """While a text or a reference is awaited, SIGINT ends the program as it would any other."""
        for args in (["--file", "-"], ["--tokens", "1,2,3", "--compare", "-"]):
            p = subprocess.Popen([tiny.HEARTH, "eval", self.model, *args], stdin=subprocess.PIPE,
                                 stdout=subprocess.PIPE, stderr=subprocess.PIPE)
            time.sleep(0.5)
            p.send_signal(signal.SIGINT)
            self.assertEqual(p.wait(timeout=60), -signal.SIGINT, args)
            p.communicate()
        with tempfile.TemporaryDirectory() as folder:  # and while a pipe waits for who reads it
            os.mkfifo(folder + "/f")
            p = subprocess.Popen([tiny.HEARTH, "eval", self.model, "--tokens", "1,2", "--logits", folder + "/f"],
                                 stdout=subprocess.PIPE, stderr=subprocess.PIPE)
            time.sleep(0.5)
            p.send_signal(signal.SIGINT)
            self.assertEqual(p.wait(timeout=60), -signal.SIGINT)
            p.communicate()

    def test_output_kept(self):
        """What is open already is emptied when there is an engine, and not before."""
        with tempfile.NamedTemporaryFile() as f:
            f.write(b"old")
            f.flush()
            p = subprocess.run([tiny.HEARTH, "eval", self.model, "--tokens", "1,2", "--cpu-level", "bogus", "--logits",
                                f"/dev/fd/{f.fileno()}"], pass_fds=[f.fileno()], capture_output=True)
            self.assertEqual(p.returncode, 2, p.stderr)
            self.assertEqual(os.path.getsize(f.name), 3)

    def test_interrupt_ignored(self):
        """Who starts it in the background of a script has SIGINT ignored, and it stays so."""
        p = subprocess.Popen(["sh", "-c", "trap '' INT; exec \"$0\" \"$@\"", tiny.HEARTH, "run", self.model, "-p", "abc",
                              "--ctx", "3000", "--ignore-end"], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        self.assertTrue(p.stdout.read(20))
        p.send_signal(signal.SIGINT)
        _, err = p.communicate(timeout=120)
        self.assertEqual(p.returncode, 0, err)

    def test_closed_streams(self):
        """No file takes the number of a standard stream that is closed; a limit on files is an error."""
        for fd, args in ((0, ["-f", "-"]), (1, ["-p", "abc", "-n", 5]), (2, ["-p", "abc", "-n", 5])):
            p = subprocess.run([tiny.HEARTH, "run", self.model, *map(str, args)], capture_output=True,
                               preexec_fn=lambda: os.close(fd))
            self.assertEqual(p.returncode, 0 if fd == 2 else 1, (fd, p.stderr))
        with tempfile.TemporaryDirectory() as folder:
            out = os.path.join(folder, "l")
            p = subprocess.run([tiny.HEARTH, "eval", self.model, "--tokens", "1,2,3", "--logits", out],
                               capture_output=True,
                               preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (512, 512)))
            self.assertEqual((p.returncode, os.listdir(folder)), (1, []), p.stderr)
            self.assertIn(b"cannot be written", p.stderr)

    def test_output_lost(self):
        if not os.path.exists("/dev/full"):
            self.skipTest("no /dev/full")
        with open("/dev/full", "wb") as full:
            p = subprocess.run([tiny.HEARTH, "run", self.model, "-p", "abc", "-n", "9"], stdout=full,
                               stderr=subprocess.PIPE, timeout=60)
        self.assertEqual(p.returncode, 1)
        self.assertIn(b"output cannot be written", p.stderr)


class Tokenize(WithModel):
    def tokenize(self, *args, stdin=b""):
        code, out, err = tiny.hearth("tokenize", self.model, *args, stdin=stdin)
        self.assertEqual(code, 0, err)
        return out

    def test_one_text(self):
        self.assertEqual(self.tokenize("-p", "the"), b"116,258\n")
        self.assertEqual(self.tokenize("-p", "the", "--begin"), b"256,116,258\n")
        self.assertEqual(self.tokenize("-p", "the<|end|>", "--special"), b"116,258,257\n")
        self.assertEqual(self.tokenize("-p", "<|end|>", "--count"), b"7\n")
        self.assertEqual(self.tokenize("-p", "the", "--pieces"), b'     116  "t"\n     258  "he"\n')
        self.assertEqual(self.tokenize("-p", "\u00e9", "--pieces"), b'     195  "\\ufffd"  c3\n     169  "\\ufffd"  a9\n')
        self.assertEqual(self.tokenize("-p", ""), b"\n")
        self.assertRegex(self.tokenize("-p", "the " * 1000, "--bench").decode(), r"^4000 bytes, .* MB/s")

    def test_back(self):
        self.assertEqual(self.tokenize("--ids", "116,258"), b"the")
        self.assertEqual(self.tokenize("--ids", "116,258,257"), b"the")
        self.assertEqual(self.tokenize("--ids", "116, 258 257", "--special"), b"the<|end|>")
        self.assertEqual(self.tokenize("--ids", "195,169,255"), "\u00e9".encode() + b"\xff")
        code, _, err = tiny.hearth("tokenize", self.model, "--ids", "1,260")
        self.assertEqual(code, 2)
        self.assertIn("token id 260, number 2 of the list", err)

    def test_json_lines(self):
        lines = [{"text": "the"}, {"text": ""}, {"text": "\u00e9\u0000\"", "ids": [1]}]
        text = "".join(json.dumps(l) + "\n" for l in lines).encode()
        out = [json.loads(l) for l in self.tokenize("--jsonl", stdin=text).splitlines()]
        blank = self.tokenize("--jsonl", stdin=b"\n" + text.replace(b"\n", b"\n\r\n"))
        self.assertEqual([json.loads(l) for l in blank.splitlines()], out)
        self.assertEqual(out, [{"ids": [116, 258]}, {"ids": []}, {"ids": [195, 169, 0, 34]}])
        back = self.tokenize("--jsonl", "--decode", stdin="".join(json.dumps(l) + "\n" for l in out).encode())
        self.assertEqual([json.loads(l)["text"] for l in back.splitlines()], [l["text"] for l in lines])
        for text, says in [(b'{"text":"a"}\n{"txt":1}\n', "line 2: an object with a string"),
                           (b"{", "line 1: not JSON"), (b"7", "line 1: an object with a string"),
                           (b'{"text":"a"}\n[]\n', "line 2: an object with a string")]:
            code, _, err = tiny.hearth("tokenize", self.model, "--jsonl", stdin=text)
            self.assertEqual(code, 1)
            self.assertIn(says, err)
        self.assertEqual(self.tokenize("--jsonl", "-p", '{"text":"the"}'), b'{"ids":[116,258]}\n')
        self.assertEqual(self.tokenize("--jsonl", "-p", ""), b"")
        p = subprocess.Popen([tiny.HEARTH, "tokenize", self.model, "--jsonl"], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        for _ in range(2):  # each line at once
            p.stdin.write(b'{"text":"the"}\n')
            p.stdin.flush()
            self.assertEqual(p.stdout.readline(), b'{"ids":[116,258]}\n')
        p.communicate()
        self.assertEqual(p.returncode, 0)
        code, _, err = tiny.hearth("tokenize", self.model, "--jsonl", "--decode", stdin=b'{"ids":[1,-1]}')
        self.assertEqual(code, 1)
        self.assertIn("line 1", err)

    def test_real_vocabularies(self):
        for name in ("qwen3", "gpt2", "llama-spm"):
            path = tiny.shared("tokenizers", name + ".gguf")
            texts = tiny.shared("tokenizers", name + ".jsonl")
            code, out, err = tiny.hearth("tokenize", path, "--jsonl", "-f", texts)
            self.assertEqual(code, 0, err)
            with open(texts, encoding="utf-8") as f:
                expected = [json.loads(l)["ids"] for l in f]
            self.assertEqual([json.loads(l)["ids"] for l in out.splitlines()], expected, name)


if __name__ == "__main__":
    tiny.main()
