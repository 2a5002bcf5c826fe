# SPDX-License-Identifier: MIT
"""hearth eval, inspect, quantize and bench: the numbers they print, against numbers that come from elsewhere."""
import hashlib
import json
import math
import os
import re
import signal
import struct
import subprocess
import tempfile
import unittest

import tiny


def nmse(text):
    return float(re.search(r"nmse ([\d.e+-]+)", text).group(1))


class WithModel(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.model = tiny.tiny_model(os.path.join(cls.folder.name, "tiny.gguf"))

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    def path(self, name):
        return os.path.join(self.folder.name, name)

    def ok(self, *args, stdin=b""):
        code, out, err = tiny.hearth(*args, stdin=stdin)
        self.assertEqual(code, 0, err)
        return out.decode()

    def logits(self, tokens, *args):
        """The logits of every position, as rows of floats."""
        path = self.path("logits")
        self.ok("eval", self.model, "--tokens", ",".join(map(str, tokens)), "--logits", path, *args)
        with open(path, "rb") as f:
            data = f.read()
        self.assertEqual(len(data), len(tokens) * 260 * 4)
        return [struct.unpack("<260f", data[i:i + 1040]) for i in range(0, len(data), 1040)]


class Eval(WithModel):
    def test_golden(self):
        for folder, name in (("archs", "llama-dense"), ("archs", "gpt2-dense"), ("quants", "qwen3.F32")):
            model = tiny.shared("golden", folder, name + ".gguf")
            tokens = "@" + tiny.shared("golden", folder, "tokens.txt")
            ref = tiny.shared("golden", folder, name + ".logits")
            for backend in ("ref", "cpu"):
                out = self.ok("eval", model, "--tokens", tokens, "--compare", ref, "--kv-type", "f32",
                              "--backend", backend)
                self.assertLess(nmse(out), 1e-11, (name, backend))

    def test_kv_types(self):
        model = tiny.shared("golden", "archs", "qwen3-dense.gguf")
        tokens = "@" + tiny.shared("golden", "archs", "tokens.txt")
        ref = tiny.shared("golden", "archs", "qwen3-dense.logits")
        errors = []
        for kind in ("f32", "i16", "f16", "bf16", "q8_0"):
            out = self.ok("eval", model, "--tokens", tokens, "--compare", ref, "--kv-type", kind)
            errors.append(nmse(out))
        self.assertEqual(errors, sorted(set(errors)))  # fewer bits of a number, more error
        self.assertLess(errors[-1], 1e-3)

    def test_same_bytes(self):
        tokens = ",".join(str(i * 37 % 260) for i in range(50))
        digests = set()
        for chunk, threads, among in ((0, 1, 0), (1, 2, 0), (7, 3, 1), (64, 1, 5), (0, 2, 16)):
            path = self.path("bytes")
            self.ok("eval", self.model, "--tokens", tokens, "--logits", path, "--chunk", chunk, "--threads",
                    threads, "--among", among)
            with open(path, "rb") as f:
                digests.add(hashlib.sha256(f.read()).hexdigest())
        self.assertEqual(len(digests), 1)

    def test_experts_of_no_whole_blocks(self):
        """Feed-forwards of 40, whose last columns fill no block of 32: as the reference, however they are cut."""
        model = tiny.tiny_model(self.path("ragged.gguf"), experts=5, ffn=40)
        args = ["eval", model, "--tokens", ",".join(str(i * 37 % 260) for i in range(50)), "--kv-type", "f32"]
        self.ok(*args, "--logits", self.path("ref"), "--backend", "ref")
        for chunk, threads, among in ((0, 1, 0), (1, 2, 0), (2, 2, 0), (19, 3, 4)):
            out = self.ok(*args, "--compare", self.path("ref"), "--chunk", chunk, "--threads", threads, "--among", among)
            self.assertLess(nmse(out), 1e-11, (chunk, threads, among))

    def test_repacked_experts(self):
        """Experts in a format that is repacked, which no golden model has: the same bytes."""
        copy, args = self.path("experts.gguf"), ["--tokens", "@" + tiny.shared("golden", "archs", "tokens.txt")]
        tiny.need_repacking(self.model)
        for arch in ("llama-moe", "qwen3moe-moe"):
            for kind in ("Q8_0", "F16"):
                self.ok("quantize", tiny.shared("golden", "archs", arch + ".gguf"), copy, "--type", kind)
                self.ok("eval", copy, *args, "--logits", self.path("a"))
                code, _, err = tiny.hearth("eval", copy, *args, "--logits", self.path("b"), "--repack")
                os.unlink(copy)
                self.assertEqual(code, 0, err)
                with open(self.path("a"), "rb") as a, open(self.path("b"), "rb") as b:
                    self.assertEqual(a.read(), b.read(), (arch, kind))

    def test_logits_file(self):
        """It appears when it is complete, and stays what it was where that fails."""
        out = os.path.join(self.folder.name, "kept.f32")
        with open(out, "w", encoding="ascii") as f:
            f.write("precious")
        code, _, err = tiny.hearth("eval", self.model, "--tokens", "1,999999", "--logits", out)
        self.assertEqual(code, 2, err)
        with open(out, encoding="ascii") as f:
            self.assertEqual(f.read(), "precious")
        self.ok("eval", self.model, "--tokens", "1,2", "--logits", out)
        self.assertGreater(os.path.getsize(out), 8)
        self.assertFalse(os.path.exists(out + ".tmp"))
        os.chmod(out, 0o600)
        link = self.path("link")
        os.symlink(out, link)
        code, _, err = tiny.hearth("eval", self.model, "--tokens", "1,999999", "--logits", link)
        self.assertEqual((code, os.path.getsize(out)), (2, 2 * 260 * 4), err)
        self.ok("eval", self.model, "--tokens", "1,2,3", "--logits", link)  # what it leads to is replaced
        self.assertTrue(os.path.islink(link))
        self.assertEqual(os.path.getsize(out), 3 * 260 * 4)
        os.symlink(self.path("nowhere"), self.path("lost"))
        code, _, err = tiny.hearth("eval", self.model, "--tokens", "1,2", "--logits", self.path("lost"))
        self.assertEqual(code, 1)
        self.assertIn("is a link that leads nowhere", err)
        with open(self.path("open"), "w+b") as f:  # what is open already is written into
            fd = f.fileno()
            subprocess.run([tiny.HEARTH, "eval", self.model, "--tokens", "1,2", "--logits", "/dev/fd/%d" % fd],
                           pass_fds=[fd], check=True, stdout=subprocess.DEVNULL)
            self.assertEqual(os.fstat(fd).st_size, 2 * 260 * 4)
        copy = self.path("copy.gguf")  # the model itself
        with open(self.model, "rb") as a, open(copy, "wb") as b:
            b.write(a.read())
        os.symlink(copy, self.path("model"))
        code, _, err = tiny.hearth("eval", copy, "--tokens", "1,2,3", "--logits", self.path("model"))
        self.assertEqual(code, 2)
        self.assertIn("is a model file, which they would replace", err)
        self.assertEqual(os.path.getsize(copy), os.path.getsize(self.model))
        self.ok("eval", self.model, "--tokens", "1,2", "--logits", out)
        self.assertEqual(os.stat(out).st_mode & 0o777, 0o600)

    def test_compare(self):
        """The printed error is that of a reference whose error is known: every value 1.5 times as large."""
        rows = self.logits([1, 2, 3])
        with open(self.path("ref"), "wb") as f:
            for row in rows:
                f.write(struct.pack("<260f", *[x * 1.5 for x in row]))
        out = self.ok("eval", self.model, "--tokens", "1,2,3", "--compare", self.path("ref"))
        self.assertAlmostEqual(nmse(out), 1 / 9, places=4)
        largest = max(abs(x) for row in rows for x in row) / 2
        self.assertAlmostEqual(float(re.search(r"largest difference ([\d.e+-]+)", out).group(1)) / largest, 1, places=3)

        def nll(row, token):
            top = max(row)
            return math.log(math.fsum(math.exp(x - top) for x in row)) + top - row[token]
        ppl = math.exp((nll(rows[0], 2) + nll(rows[1], 3)) / 2)
        self.assertAlmostEqual(float(re.search(r"perplexity of these tokens ([\d.]+)", out).group(1)) / ppl, 1, places=4)

    def test_perplexity(self):
        """Against windows cut, scored and summed up here out of the logits."""
        text = ("The hearth is where the others gather, then they tell what they heard. " * 3).encode()
        n_ctx = 32
        ids = [int(i) for i in self.ok("tokenize", self.model, "--begin", "-f", "-", stdin=text).split(",")]
        self.assertEqual(ids[0], 256)
        scores = []
        for w in range(len(ids) // n_ctx):
            window = [256] + ids[w * n_ctx + 1:(w + 1) * n_ctx]
            rows = self.logits(window)
            for pos in range(n_ctx // 2, n_ctx - 1):
                top = max(rows[pos])
                total = math.log(math.fsum(math.exp(x - top) for x in rows[pos])) + top
                scores.append(total - rows[pos][window[pos + 1]])
        mean = math.fsum(scores) / len(scores)
        var = math.fsum(s * s for s in scores) / len(scores) - mean * mean
        ppl, error = math.exp(mean), math.exp(mean) * math.sqrt(var / (len(scores) - 1))
        out = self.ok("eval", self.model, "--file", "-", "--ctx", n_ctx, stdin=text)
        m = re.match(r"perplexity ([\d.]+) \+- ([\d.]+)\n(\d+) tokens scored in (\d+) windows of 32", out)
        self.assertAlmostEqual(float(m.group(1)) / ppl, 1, places=4)
        self.assertAlmostEqual(float(m.group(2)) / error, 1, places=3)
        self.assertEqual(int(m.group(3)), len(scores))
        self.assertEqual(int(m.group(4)), len(ids) // n_ctx)
        code, _, err = tiny.hearth("eval", self.model, "--file", "-", stdin=b"short")
        self.assertEqual(code, 1)
        self.assertIn("6 tokens fill no window of 512", err)

    def test_end_left_off(self):
        """An end token that the file adds behind texts is left off a prompt, also where it is the begin token too."""
        text, results = b"the quick brown fox jumps over it " * 8, []
        for bos, adds_bos, adds_eos in ((256, False, False), (256, False, True), (257, False, True), (257, True, True)):
            path = self.path("ends.gguf")
            entries = [e for e in tiny.tiny_entries() if not e[0].endswith(("bos_token_id", "add_bos_token"))]
            entries += [("tokenizer.ggml.bos_token_id", bos), ("tokenizer.ggml.add_bos_token", adds_bos),
                        ("tokenizer.ggml.add_eos_token", adds_eos)]
            tiny.tiny_model(path, entries=entries)
            code, _, err = tiny.hearth("run", path, "-p", "hello hello", "-n", 1)
            self.assertEqual(code, 0, err)
            n = int(re.search(r"prompt +(\d+) tokens", err).group(1))
            self.assertEqual(n, 9 + adds_bos, err)
            if not adds_bos:
                results.append(self.ok("eval", path, "--file", "-", "--ctx", 16, stdin=text))
        self.assertEqual(results[0], results[1])
        self.assertEqual(results[0], results[2])


class Inspect(WithModel):
    def test_json(self):
        d = json.loads(self.ok("inspect", self.model, "--json", "--tensors", "--plan", "--memory", "--ctx", 1000,
                               "--seqs", 3, "--kv-type", "f32", "--items", 0))
        self.assertEqual(d["gguf_version"], 3)
        self.assertEqual(d["bytes"], os.path.getsize(self.model))
        self.assertEqual(d["metadata"]["tokenizer.ggml.tokens"]["type"], "arr[str,260]")
        self.assertEqual(d["metadata"]["tokenizer.ggml.tokens"]["value"], tiny.byte_letters() +
                         ["<|begin|>", "<|end|>", "he", "th"])
        self.assertEqual(d["metadata"]["llama.block_count"], {"type": "u32", "value": 2})
        self.assertEqual(len(d["tensors"]), d["n_tensors"])
        q = next(t for t in d["tensors"] if t["name"] == "blk.0.ffn_down.weight")
        self.assertEqual((q["shape"], q["format"], q["bytes"]), ([64, 96], "F32", 64 * 96 * 4))
        self.assertEqual(d["model"]["params"], sum(t["bytes"] for t in d["tensors"]) // 4)
        self.assertEqual((d["model"]["layers"], d["model"]["vocab"]), (2, 260))
        self.assertTrue(any("attention" in step for step in d["plan"]))
        numbers = [int(step.split()[0]) for step in d["plan"]]
        self.assertEqual(numbers, list(range(len(numbers))))
        # Three sequences of 1000 positions, 2 layers, keys and values of 32 floats: at least.
        self.assertGreaterEqual(d["memory"]["kv"], 3 * 1000 * 2 * 2 * 32 * 4)
        self.assertLess(d["memory"]["kv"], 3 * 1200 * 2 * 2 * 32 * 4)
        # bytes of 32 numbers, of which a head has as many; 128 in f32
        for kind, block in (("i16", 68), ("f16", 64), ("bf16", 64), ("q8_0", 34)):
            other = json.loads(self.ok("inspect", self.model, "--json", "--memory", "--ctx", 1000, "--seqs", 3,
                                       "--kv-type", kind))
            self.assertEqual(other["memory"]["kv"] * 128, d["memory"]["kv"] * block)
        parts = sum(v for k, v in d["memory"].items() if k not in ("total", "available"))
        self.assertEqual(d["memory"]["total"], parts)

    def test_page(self):
        out = self.ok("inspect", self.model, "--tensors")
        self.assertIn("llama, \"tiny\"", out)
        self.assertRegex(out, r"general.architecture +str +\"llama\"\n")
        self.assertRegex(out, r"blk.1.ffn_up.weight +F32 +96 x 64 ")

    def test_controls(self):
        """What a terminal obeys reaches none: escaped in values, refused in keys."""
        entries = tiny.tiny_entries()
        path = self.path("controls.gguf")
        tiny.write_gguf(path, [*entries, ("general.author", "x\u009b31mRED\u001b[0m")], [])
        for form in [], ["--json"]:
            out = tiny.hearth("inspect", path, *form)[1]
            self.assertIn(b"x\\u009b31mRED\\u001b[0m", out)
        tiny.write_gguf(path, [*entries, ("k\u009b31m", 1)], [])
        code, out, err = tiny.hearth("inspect", path)
        self.assertEqual((code, out), (1, b""))
        self.assertIn("'k\\xc2\\x9b31m'", err)

    def test_unsupported(self):
        path = tiny.tiny_model(self.path("mamba.gguf"), "mamba")
        code, out, err = tiny.hearth("inspect", path)
        self.assertEqual(code, 0)
        self.assertIn(b"mamba.block_count", out)
        self.assertIn("mamba", err)
        self.assertIn("qwen3", err)  # those that are supported
        code, out, err = tiny.hearth("inspect", path, "--plan")
        self.assertEqual(code, 1)
        d = json.loads(self.ok("inspect", path, "--json"))
        self.assertIn("mamba", d["error"])
        self.assertNotIn("model", d)
        code, out, err = tiny.hearth("run", path, "-p", "x")
        self.assertEqual((code, out), (1, b""))
        self.assertIn("mamba", err)


class Quantize(WithModel):
    def test_copies(self):
        self.ok("eval", self.model, "--tokens", "1,2,3,4,5", "--logits", self.path("exact"), "--backend", "ref")
        for kind, bound in (("F32", 0), ("F16", 1e-5), ("BF16", 1e-3), ("Q8_0", 1e-3)):
            copy = self.path(kind + ".gguf")
            code, _, err = tiny.hearth("quantize", self.model, copy, "--type", kind)
            self.assertEqual(code, 0, err)
            size, was = (os.path.getsize(path) / 1e3 for path in (copy, self.model))
            self.assertEqual(err, "%s: %.1f kB, was %.1f kB\n" % (copy, size, was))
            out = self.ok("eval", copy, "--tokens", "1,2,3,4,5", "--compare", self.path("exact"), "--backend", "ref")
            self.assertLessEqual(nmse(out), bound, kind)
            d = json.loads(self.ok("inspect", copy, "--json", "--tensors"))
            formats = {t["name"]: t["format"] for t in d["tensors"]}
            self.assertEqual(formats["blk.0.attn_q.weight"], kind)
            self.assertEqual(formats["blk.0.attn_norm.weight"], "F32")
            self.assertEqual(d["metadata"]["tokenizer.ggml.merges"]["value"], ["h e", "t h"])

    def test_interrupt(self):
        """Called off, it leaves nothing. (The signal is there before the program can look.)"""
        big, copy = self.path("big.gguf"), self.path("called-off.gguf")
        with open(big, "wb") as f:
            name, n = b"a.weight", 1 << 12
            head = b"GGUF" + struct.pack("<IQQ", 3, 1, 0) + struct.pack("<Q", len(name)) + name
            head += struct.pack("<IQQIQ", 2, n, 6 * n, 0, 0)
            f.write(head + bytes(-len(head) % 32))
            f.truncate(f.tell() + n * 6 * n * 4)
        p = subprocess.Popen([tiny.HEARTH, "quantize", big, copy, "--type", "Q8_0"], stderr=subprocess.PIPE,
                             preexec_fn=lambda: signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT}))
        p.send_signal(signal.SIGINT)
        _, err = p.communicate(timeout=60)
        self.assertEqual(p.returncode, -signal.SIGINT)
        self.assertIn(err, (b"", tiny.STOPPING))
        self.assertFalse(os.path.exists(copy) or os.path.exists(copy + ".tmp"))

    def test_batch(self):
        """A pass of fewer tokens takes less memory."""
        sizes = [json.loads(self.ok("inspect", self.model, "--json", "--memory", "--batch", n))["memory"]["scratch"]
                 for n in (16, 512)]
        self.assertLess(sizes[0], sizes[1])

    def test_threads(self):
        """What the stacks of threads take counts."""
        sizes = [json.loads(self.ok("inspect", self.model, "--json", "--memory", "--threads", n))["memory"]["other"]
                 for n in (1, 101)]
        self.assertGreaterEqual(sizes[1] - sizes[0], 100 * 20000)


class Bench(WithModel):
    def test_json(self):
        d = json.loads(self.ok("bench", self.model, "--prompt", "200,300", "--generate", "4", "--depth", "0,5",
                               "--seqs", "1,3", "--reps", 2, "--json"))
        self.assertIs(d["complete"], True)
        rows = [(r["seqs"], r["depth"], r["kind"], r["n"]) for r in d["runs"]]
        self.assertEqual(rows, [(s, depth, kind, n) for s in (1, 3) for depth in (0, 5)
                                for kind, n in (("prompt", 200), ("prompt", 300), ("generate", 4))])
        for r in d["runs"]:
            self.assertLessEqual(r["slowest"], r["tokens_s"])
            self.assertLessEqual(r["tokens_s"], r["fastest"])
            if r["kind"] == "generate" or r["depth"] == 0: # a difference of times may be lost in noise
                self.assertGreater(r["fastest"], 0)
            self.assertGreater(min(r["beside"].values()), 0)
            if r["kind"] == "prompt":  # has the reading of the start
                self.assertEqual(r["beside"]["read_bytes_s"], d["weights_read_bytes_s"])
            told = "token_bytes" in r  # not of a difference of passes
            self.assertEqual(told, r["kind"] == "generate" or r["depth"] == 0)
            if not told:
                continue
            self.assertAlmostEqual(r["bytes_s"], r["token_bytes"] * r["tokens_s"], delta=1e-4 * r["bytes_s"] + 1)
            if r["kind"] == "prompt":
                self.assertAlmostEqual(r["read_share"], r["bytes_s"] / d["weights_read_bytes_s"],
                                       delta=1e-4 * r["read_share"] + 1e-6)
        self.assertGreater(d["weights_read_bytes_s"], 0)
        size = {t["name"]: t["bytes"] for t in json.loads(self.ok("inspect", self.model, "--json",
                                                                  "--tensors"))["tensors"]}
        self.assertEqual(d["pass_bytes"], sum(size.values()) - size["token_embd.weight"])

    def test_beside(self):
        """Products are measured beside each run, reading beside each that reads more than it multiplies, and shares are
        of that."""
        d = json.loads(self.ok("bench", self.model, "--prompt", "1,2,3,4,5,16,17", "--generate", "4,5,6,7,8,9", "--reps", 1,
                               "--steps", "--json"))
        for r in d["runs"]:
            for x, c in [(r, r["beside"])] + [(s, r["steps_beside"]) for s in r["steps"]]:
                self.assertGreater(min(c.values()), 0)
                if "read_share" in x:
                    self.assertAlmostEqual(x["read_share"], x["bytes_s"] / c["read_bytes_s"],
                                           delta=1e-4 * x["read_share"] + 2e-6)
                if x.get("name") == "linear" and "macs_s" in x:  # of F32
                    self.assertAlmostEqual(x["ceiling_share"], x["macs_s"] / c["f32_macs_s"] / 0.97,
                                           delta=1e-4 * x["ceiling_share"] + 2e-6)
        start = {d["weights_read_bytes_s"]}
        for kind, many in (("prompt", False), ("prompt", True), ("generate", False)):
            rows = [r for r in d["runs"] if r["kind"] == kind and (r["n"] > 16) == many]
            for name in ("beside", "steps_beside"):
                self.assertEqual({r[name]["read_bytes_s"] for r in rows} == start, many, (kind, many, name))
        for name in ("int8_macs_s", "i16_macs_s", "f32_macs_s"):  # measured each time
            found = [d["ceilings"][name]] + [r[x][name] for r in d["runs"] for x in ("beside", "steps_beside")]
            self.assertGreater(len(set(found)), len(found) // 2, name)

    def test_work(self):
        """Bytes and multiply-adds of a token, against a count by hand over the file's tensors."""
        tensors = json.loads(self.ok("inspect", self.model, "--json", "--tensors"))["tensors"]
        weights = sum(t["shape"][0] * t["shape"][1] for t in tensors
                      if len(t["shape"]) == 2 and t["name"] != "token_embd.weight")
        for seqs, kv_type, width in ((3, "f16", 2), (1, "i16", 2 + 4 / 32)):
            d = json.loads(self.ok("bench", self.model, "--prompt", "0", "--generate", "4", "--reps", 1, "--seqs",
                                   seqs, "--kv-type", kv_type, "--steps", "--json"))
            r = d["runs"][0]
            seen = (2 + 3 + 4 + 5) / 4  # positions, after a prompt of one token and its first answer
            kv = tiny.LAYERS * 2 * tiny.DIM // tiny.HEADS * width
            self.assertAlmostEqual(r["token_bytes"], weights * 4 / seqs + tiny.DIM * 4 + seen * kv, delta=1)
            macs = weights + tiny.LAYERS * 2 * seen * tiny.DIM
            self.assertAlmostEqual(r["token_macs"], macs, delta=1)
            n = 4 * seqs
            self.assertAlmostEqual(sum(s["macs"] for s in r["steps"]), n * macs, delta=n)
            self.assertAlmostEqual(sum(s["bytes"] for s in r["steps"]), n * r["token_bytes"], delta=n)
            self.assertAlmostEqual(sum(s["time_share"] for s in r["steps"]), 1, delta=0.01)
            # F32 weights and attention: all of it at 0.97 of the f32 peak, or attention at that of i16.
            c = r["beside"]
            attention = (macs - weights) / c["i16_macs_s" if kv_type == "i16" else "f32_macs_s"]
            self.assertAlmostEqual(r["ceiling_share"], r["tokens_s"] * (weights / c["f32_macs_s"] + attention) / 0.97,
                                   delta=1e-3 * r["ceiling_share"] + 1e-6)
            steps = {(s["name"], s["role"]): s for s in r["steps"]}
            for role in ("qkv", "o", "gate/up", "down", "lm_head"):
                self.assertEqual(steps["linear", role]["formats"], "F32")
                self.assertGreater(steps["linear", role]["seconds"], 0)
            self.assertEqual(steps["linear", "lm_head"]["macs"], n * 260 * tiny.DIM)
            self.assertEqual(steps["linear", "down"]["macs"], n * tiny.LAYERS * tiny.FFN * tiny.DIM)
            self.assertIn(("attention", ""), steps)
            self.assertIn(("waiting", ""), steps)

    def test_prompt_work(self):
        """A prompt wants the logits of its last token, and nothing else behind the last layer's keys and values.

        Behind a depth it is what both take together less what the depth takes, which has such a token, too."""
        d = json.loads(self.ok("bench", self.model, "--prompt", "6", "--depth", "0,4", "--generate", "0", "--reps", 1,
                               "--steps", "--json"))
        for r in d["runs"]:
            steps = {(s["name"], s["role"]): s for s in r["steps"]}
            last = 0 if r["depth"] else 1
            rows = 6 * (tiny.LAYERS - 1) + last
            self.assertEqual(steps["linear", "lm_head"]["macs"], last * 260 * tiny.DIM)
            self.assertEqual(steps["linear", "down"]["macs"], rows * tiny.FFN * tiny.DIM)
            seen = (tiny.LAYERS - 1) * sum(range(r["depth"] + 1, r["depth"] + 7)) + 6
            self.assertEqual(steps["attention", ""]["macs"], 2 * seen * tiny.DIM)

    def test_too_short(self):
        """Said before anything is measured."""
        code, out, err = tiny.hearth("bench", self.model, "--prompt", 0, "--generate", 64, "--ctx", 16, "--reps", 1)
        self.assertEqual((code, out), (2, b""), err)
        self.assertIn("--ctx 16 is too short for --generate 64; --ctx 68 would do", err)
        code, out, err = tiny.hearth("bench", self.model, "--prompt", 8, "--generate", 0, "--ctx", 8, "--reps", 1)
        self.assertEqual((code, out), (2, b""), err)
        self.assertIn("--ctx 8 is too short for --prompt 8; --ctx 9 would do", err)
        code, out, err = tiny.hearth("bench", self.model, "--depth", "5,7", "--ctx", 512, "--reps", 1)
        self.assertIn("--ctx 512 is too short for --prompt 512 --generate 64 --depth 7; --ctx 520 would do", err)
        args = ["bench", self.model, "--backend", "ref", "--prompt", 8, "--generate", 20, "--seqs", "1,20", "--reps", 1]
        code, out, err = tiny.hearth(*args, "--ctx", 8)
        enough = re.search(r"; --ctx (\d+) would do", err).group(1)
        code, out, err = tiny.hearth(*args, "--ctx", enough)
        self.assertEqual(code, 0, err)
        for ctx, fits in ((10, False), (11, True)):  # a prompt of 6, its first token, 4 more
            code, _, err = tiny.hearth("bench", self.model, "--backend", "ref", "--prompt", 0, "--generate", 4, "--depth",
                                       6, "--ctx", ctx, "--reps", 1)
            self.assertEqual(code, 0 if fits else 2, err)
        code, _, err = tiny.hearth("bench", self.model, "--backend", "ref", "--prompt", 1, "--generate", 0, "--ctx", 2,
                                   "--reps", 1)
        self.assertEqual(code, 0, err)
        # Refused before the first combination is measured, which could be.
        code, out, err = tiny.hearth("bench", self.model, "--prompt", 4, "--generate", 2, "--seqs", "1,600", "--json")
        self.assertEqual((code, out), (2, b""), err)
        self.assertIn("n_seqs (600", err)
        code, out, err = tiny.hearth("bench", self.model, "--prompt", 4, "--generate", 0, "--ctx", 1000000, "--seqs",
                                     "1,4000", "--batch", 4096)
        self.assertEqual((code, out), (1, b""), err)
        self.assertIn("of memory", err)
        code, _, err = tiny.hearth("bench", self.model, "--prompt", 0, "--generate", 0)
        self.assertEqual(code, 2, err)
        self.assertIn("nothing to measure", err)

    def test_table(self):
        out = self.ok("bench", self.model, "--prompt", "8", "--generate", "0", "--reps", 1, "--steps")
        self.assertRegex(out, r"ceilings measured now: read [\d.]+ GB/s; int8 \d+, i16 \d+, bf16 \d+, f32 \d+ GMAC/s\n"
                              r"the weights, where they lie: read [\d.]+ GB/s\n")
        self.assertRegex(out, r"\nprompt 8 +1 +0 +[\d.]+ +[\d.]+ - [\d.]+ +[\d.]+ +\d+ % +[\d.]+ +\d+ %\n")
        self.assertRegex(out, r"\n  linear qkv F32 +[\d.]+ % +[\d.]+ ms +[\d.]+ +\d+ % +[\d.]+ +\d+ %\n")
        for line in out.split("\n"):
            self.assertEqual(line, line.rstrip())

    def test_no_ceilings(self):
        args = ["bench", self.model, "--prompt", "4", "--generate", "0", "--reps", 1, "--backend", "ref"]
        code, out, err = tiny.hearth(*args)
        self.assertEqual(code, 0, err)
        self.assertIn("no shares of ceilings: the backend ref has no ceilings", err)
        self.assertRegex(out.decode(), r"\nprompt 4 +1 +0 +[\d.]+ +[\d.]+ - [\d.]+\n$")
        code, out, err = tiny.hearth(*args, "--steps")
        self.assertEqual((code, out), (1, b""))
        self.assertIn("--steps goes by ceilings: the backend ref has no ceilings", err)


if __name__ == "__main__":
    tiny.main()
