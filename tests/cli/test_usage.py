# SPDX-License-Identifier: MIT
"""The program's command line: help, refusals, messages about files, and a man page that stays true."""
import json
import math
import os
import re
import struct
import tempfile
import unittest

import tiny

COMMANDS = ["run", "inspect", "tokenize", "eval", "bench", "quantize", "doctor"]


def help_options(command):
    """{"--name": (alias or None, argument or None)} as `hearth help` prints them."""
    _, out, _ = tiny.hearth("help", command)
    found = {}
    for m in re.finditer(r"^  (?:(-\w), )?(--[\w-]+)(?: (\S+))?(?:  |$)", out.decode(), re.M):
        found[m.group(2)] = (m.group(1), m.group(3))
    return found


def man_text(section):
    """A section of the page as `hearth help` has it: usage and titles of groups apart."""
    for code, text in (("(aq", "'"), ("(oq", "'"), ("(cq", "'"), ("(dq", '"'), ("e", "\\"), ("fB", ""), ("fI", ""), ("fR", "")):
        section = section.replace("\\" + code, text)
    return re.sub(r"^\.(TP|PP|br)$", "", section, flags=re.M)


def words(text):
    text = re.sub(r"(?m)^usage: .*$|^\.SS .*$|^[A-Z][^\n]*:$", "", text)
    return text.split()


class Help(unittest.TestCase):
    def test_version(self):
        code, out, err = tiny.hearth("--version")
        self.assertEqual((code, err), (0, ""))
        self.assertRegex(out.decode(), r"^hearth \d+\.\d+\.\d+\n$")
        version = out.decode().split()[1]
        for path, says in (("CMakeLists.txt", f"project(hearth VERSION {version} "), ("cli/hearth.1", f'"Hearth {version}"')):
            with open(path) as f:
                self.assertIn(says, f.read(), path)

    def test_pages(self):
        for args in [["help"], ["--help"], ["-h"], *[["help", c] for c in COMMANDS]]:
            code, out, err = tiny.hearth(*args)
            self.assertEqual((code, err), (0, ""), args)
            for line in out.decode().split("\n"):
                self.assertLess(len(line), 80, line)
                self.assertEqual(line, line.rstrip(), line)
        for c in COMMANDS:
            self.assertIn("\n  %-9s " % c, tiny.hearth("help")[1].decode())
            self.assertEqual(tiny.hearth(c, "--help")[1], tiny.hearth("help", c)[1])

    def test_man_page(self):
        with open(os.path.join(tiny.ROOT, "cli", "hearth.1"), encoding="utf-8") as f:
            text = f.read().replace("\\-", "-")
        for c in COMMANDS:
            section = re.search(r'\.SH "HEARTH %s"\n(.*?)(?=\n\.SH)' % c.upper(), text, re.S).group(1)
            page = {}
            for m in re.finditer(r"\.TP\n(?:\\fB(-\w)\\fR, )?\\fB(--[\w-]+)\\fR(?: \\fI(\S+)\\fR)?\n", section):
                page[m.group(2)] = (m.group(1), m.group(3))
            self.assertEqual(page, help_options(c), c)
            self.assertTrue(page)
            self.assertEqual(words(man_text(section)), words(tiny.hearth("help", c)[1].decode()), c)


class Refusals(unittest.TestCase):
    def refuse(self, args, says, code=2):
        got, out, err = tiny.hearth(*args)
        self.assertEqual((got, out), (code, b""), (args, err))
        self.assertRegex(err, r"^hearth: .*\n$", args)
        self.assertIn(says, err, args)

    def test_vocabulary_alone(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "vocab.gguf")
            tiny.write_gguf(path, [("general.architecture", "llama")], [])
            self.refuse(["run", path, "-p", "x"], "holds no tensors, so there is no model to run", 1)

    def test_quotes(self):
        self.refuse(["run", "-", "-p", "hello"], "-: there is no such file; a model cannot be read from standard input", 1)
        code, _, err = tiny.hearth("run", "cli", "-p", "hello")
        self.assertEqual((code, "quotes" in err), (1, False), err)
        self.refuse(["run", "-p", "hello", "world"], "world: there is no such file; a text with spaces wants quotes", 1)
        for command in ["run", "hello world", "-n", "3"], ["tokenize", "Hello, world. It"], ["run", "hello.gguf world"]:
            self.refuse(command, "there is no such file; a text is given with -p", 1)
        for command in ["run", "hello world", "-p", "x"], ["run", "/no model/x", "-p", "x"], ["run", "no model.GGUF"]:
            self.refuse(command, "there is no such file\n", 1)
        self.refuse(["run", "-p", "what", "is", "cpu"], "'cpu' is too much: 'hearth run' takes [MODEL]; texts with spaces")
        self.refuse(["tokenize", "-"], "a model cannot be read from standard input", 1)
        code, _, err = tiny.hearth("inspect", "hello world")
        self.assertEqual((code, "-p" in err), (1, False), err)

    def test_usage(self):
        for args, says in [
            (["tokenise"], "no command 'tokenise'"),
            (["help", "me"], "no command 'me'"),
            (["run", "--tmp", "1"], "unknown option --tmp; did you mean --temp?"),
            (["run", "--end", "1"], "unknown option --end; see 'hearth help run'"),
            (["run", "--prompt-file", "x"], "unknown option --prompt-file; did you mean --file?"),
            (["bench", "-r", "3"], "unknown option -r; did you mean --reps?"),
            (["run", "--qwertyuiop"], "unknown option --qwertyuiop; see 'hearth help run'"),
            (["run", "-z"], "unknown option -z"),
            (["run", "--chunk", "3"], "--chunk is an option of 'hearth eval'"),
            (["run", "--seqs", "4"], "--seqs is an option of"),
            (["run", "--temp"], "--temp lacks its value X"),
            (["run", "-n"], "-n lacks its value N"),
            (["run", "--temp", "hot"], "--temp hot: a number was expected"),
            (["run", "--temp", "nan"], "--temp nan: a number was expected"),
            (["run", "--temp=101"], "--temp 101: out of range, 0 to 100"),
            (["run", "--top-p", "1.5"], "--top-p 1.5: out of range, 0 to 1"),
            (["run", "-n", "7.5"], "--n-predict 7.5: a whole number"),
            (["run", "--top-k", "99999999999999999999"], "out of range, 0 to 2147483647"),
            (["run", "--threads", "257"], "0 to 256"),
            (["doctor", "x"], "'x' is too much: 'hearth doctor' takes options only"),
            (["run", "--seed", "-1"], "--seed -1"),
            (["run", "--kv-type", "q4_0"], "one of i16|f16|f32|bf16|q8_0"),
            (["run", "--kv-type", "f"], "one of i16|f16|f32|bf16|q8_0"),
            (["run", "--backend", ""], "one of cpu|ref"),
            (["quantize", "a.gguf", "b.gguf", "--type", "Q4_K"], "one of F32|F16|BF16|Q8_0"),
            (["run", "--stop", ""], "--stop: some text was expected"),
            (["run", "--logit-bias", "5"], "a token id, '=' and a number"),
            (["run", "--logit-bias", "-1=2"], "a token id, '=' and a number"),
            (["run", "--logit-bias", "5=1e39"], "a token id, '=' and a number"),  # infinite in 32 bits
            (["run", "--logit-bias", "5=-1e39"], "a token id, '=' and a number"),
            (["run", "--temp", "1", "--temp", "2"], "--temp is given twice"),
            (["run", "-p", "a", "--prompt", "b"], "--prompt is given twice"),
            (["run", "--quiet=yes"], "--quiet takes no value"),
            (["run", "a.gguf", "b"], "'b' is too much"),
            (["run", "a.gguf", "-p", "x", "-f", "y"], "-p and -f"),
            (["quantize"], "'hearth quantize' wants IN OUT"),
            (["run", ""], "'hearth run': an argument is empty, where [MODEL] was expected"),
            (["doctor", ""], "'hearth doctor': an argument is empty, where an option was expected"),
            (["run", "-c", "5"], "unknown option -c; did you mean --ctx?"),
            (["run", "--ctx-size", "5"], "unknown option --ctx-size; did you mean --ctx?"),
            (["run", "--temperature=1"], "unknown option --temperature; did you mean --temp?"),
            (["run", "-ctk", "f16"], "unknown option -ctk; did you mean --kv-type?"),
            (["run", "-ngl", "1"], "unknown option -ngl; see 'hearth help run'"),
            (["run", "-m", "a.gguf"], "a model's file is given by itself, as in 'hearth run model.gguf'"),
            (["run", "--model=a.gguf"], "a model's file is given by itself"),
            (["doctor", "-m", "a.gguf"], "unknown option -m; see 'hearth help doctor'"),
            (["help", "-x"], "there is no command '-x'; see 'hearth help'"),
            (["bench", "--prompt", "1,99999999999999999999"], "99999999999999999999 is out of range, 0 to"),
            (["run", "-n5"], "the value of -n stands behind it, '-n 5'"),
            (["run", "-p=hi"], "the value of -p stands behind it, '-p hi'"),
            (["bench", "-p", "5"], "unknown option -p; did you mean --prompt?"),
            (["bench", "-n", "5"], "unknown option -n; did you mean --generate?"),
            (["HELP"], "did you mean 'hearth help'?"),
            (["helpp"], "did you mean 'hearth help'?"),
            (["version"], "did you mean 'hearth --version'?"),
            (["run", "--help=1"], "--help takes no value, '1' was given"),
            (["quantize", "a.gguf", "b.gguf", "Q8_0"], "'Q8_0' is too much; did you mean --type Q8_0?"),
            (["run", "a.gguf", "b", "c"], "texts with spaces want quotes"),
            (["quantize", "a.gguf", "b.gguf", "c.gguf"], "'hearth quantize' takes IN OUT\n"),
            (["rnu"], "there is no command 'rnu'; did you mean 'hearth run'?"),
            (["RUN"], "did you mean 'hearth run'?"),
            (["help", "quantise"], "did you mean 'hearth quantize'?"),
            (["a.gguf", "-p", "x"], "is it a model? 'hearth run a.gguf' runs it"),
            (["-m", "a.gguf"], "a command comes first"),
            (["run", "-n", "99999999999999999999"], "out of range"),
            (["run", "--temp", "1e400"], "out of range"),
            (["eval", "a.gguf", "--tokens", "1,,2"], "number 2 of the list is empty"),
            (["eval", "a.gguf", "--tokens", ",1"], "number 1 of the list is empty"),
            (["eval", "a.gguf", "--tokens", "1, 2,\n"], "number 3 of the list is empty"),
            (["quantize", "a.gguf"], "wants IN OUT"),
            (["quantize", "a.gguf", "b.gguf"], "wants --type"),
            (["quantize", "a.gguf", "-", "--type", "F16"], "./- is one of that name"),
            (["inspect", "a.gguf", "--ctx", "64"], "go with --memory"),
            (["inspect", "a.gguf", "--repack", "--json"], "go with --memory"),
            (["eval", "a.gguf"], "wants --tokens or --file"),
            (["eval", "a.gguf", "--tokens", "1", "--file", "x"], "cannot both be given"),
            (["eval", "a.gguf", "--file", "x", "--among", "3"], "go with --tokens"),
            (["eval", "a.gguf", "--file", "x", "--chunk", "3"], "go with --tokens"),
            (["eval", "a.gguf", "--tokens", "1,x"], "'x', number 2 of the list"),
            (["eval", "a.gguf", "--tokens", " "], "at least one token id"),
            (["eval", "a.gguf", "--tokens", "1", "--logits", "-"], "wants a file"),
            (["eval", "a.gguf", "--tokens", "1", "--logits", ""], "its name is empty"),
            (["eval", "a.gguf", "--tokens", "1", "--logits", "/dev/stdout"], "where the summary goes"),
            (["bench", "--prompt", "1,x"], "whole numbers with commas"),
            (["bench", "--seqs", "0"], "0 is out of range, 1 to 4096"),
            (["tokenize", "a.gguf", "--ids", "1", "--count"], "--special only"),
            (["tokenize", "a.gguf", "--ids", "1", "--begin"], "--special only"),
            (["tokenize", "a.gguf", "--jsonl", "--decode", "--begin"], "not with --begin"),
            (["tokenize", "a.gguf", "--decode"], "goes with --jsonl"),
            (["tokenize", "a.gguf", "--jsonl", "--count"], "only one"),
        ]:
            self.refuse(args, says)
        self.refuse(["--version", "now"], "takes nothing")
        code, out, err = tiny.hearth()
        self.assertEqual((code, out), (2, b""))
        self.assertIn("usage: hearth COMMAND", err)

    def test_files(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "m.gguf")
            whole = tiny.tiny_model(os.path.join(folder, "whole.gguf"))
            with open(whole, "rb") as f:
                data = f.read()
            for content, says in [
                (b"", "is empty (0 bytes)"),
                (b"<!DOCTYPE html>\n<html><head>", "is a web page"),
                (b"version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 77\n", "git-lfs pointer"),
                (b"PK\3\4" + bytes(60), "zip archive"),
                (b"GGU", "ends after 3 of the first four bytes"),
                (b"Not Found", "is text (it starts with 'Not Found')"),
                (data[:-1000], "1000 are missing"),
                (data[:5000], "cut short"),
            ]:
                with open(path, "wb") as f:
                    f.write(content)
                for args in (["run", path, "-p", "x"], ["inspect", path], ["tokenize", path, "-p", "x"],
                             ["eval", path, "--tokens", "1"], ["bench", path]):
                    if args[0] == "inspect" and says == "1000 are missing":
                        continue  # its head is there
                    self.refuse(args, says, 1)
                    self.refuse(args, path, 1)
            with open(path, "wb") as f:
                f.write(data[:-1000])
            code, out, err = tiny.hearth("inspect", path, "--tensors")
            page = tiny.hearth("inspect", whole, "--tensors")[1].decode()
            self.assertEqual((code, out.decode().split("\n\n")[1:]), (1, page.split("\n\n")[1:]))
            self.assertIn("1000 are missing", err)
            self.refuse(["quantize", path, path + "2", "--type", "F16"], "1000 are missing", 1)
            for args in (["run", folder, "-p", "x"], ["inspect", folder]):
                self.refuse(args, "directory", 1)
            missing = os.path.join(folder, "missing.gguf")
            self.refuse(["inspect", missing], "no such file", 1)
            self.refuse(["quantize", missing, path, "--type", "F16"], "no such file", 1)
            self.refuse(["quantize", whole, whole, "--type", "F16"], "another file to write than the one it reads")
            self.refuse(["eval", whole, "--tokens", "1", "--compare", "/dev/zero"],
                        "has more than 1040 bytes, 1040 were expected for 1 token of 260 logits", 1)
            self.refuse(["tokenize", whole, "--ids", "@" + missing], "cannot be read", 1)
            self.refuse(["run", whole, "-f", "a\n\x1b[31m.txt"], r"a\x0a\x1b[31m.txt: cannot be read", 1)
            ids = os.path.join(folder, "ids")
            with open(ids, "wb") as f:
                f.write(b"1,2\0,3")
            self.refuse(["tokenize", whole, "--ids", "@" + ids], "zero byte", 2)
            self.refuse(["run", whole, "-f", missing], missing, 1)
            self.refuse(["run", whole, "-f", ""], "the name of a file to read is empty")
            out = os.path.join(folder, "q.gguf")
            for args in (["quantize", whole, out, "--type", "q8_0"], ["run", whole, "-p", "a", "-n", "1", "--kv-type", "F16"]):
                self.assertEqual(tiny.hearth(*args)[0], 0, args)
            long = missing + "/x" * 2000
            self.refuse(["run", whole, "-f", long], "cannot be read: ", 1)
            self.refuse(["run", whole, "-f", folder], folder, 1)
            self.refuse(["eval", whole, "--tokens", "@" + missing], missing, 1)
            self.refuse(["eval", whole, "--tokens", "1,260"], "260")
            self.refuse(["eval", whole, "--tokens", "1", "--cpu-level", "sse9"], "sse9")
            narrow = tiny.tiny_model(os.path.join(folder, "narrow.gguf"), heads=4)
            for command in (["eval", narrow, "--tokens", "1"], ["run", narrow, "-p", "x"], ["bench", narrow]):
                self.refuse([*command, "--kv-type", "q8_0"],
                            "--kv-type) hold blocks of 32 elements of a head, and the heads of this model have 16: i16, f16, bf16 or")
            self.refuse(["eval", whole, "--tokens", "1", "--compare", whole], "has more than 1040 bytes", 1)
            self.refuse(["eval", whole, "--tokens", "1", "--logits", folder + "/no/l"], "cannot be written", 1)
            self.refuse(["eval", whole, "--tokens", "1", "--logits", "/dev/fd/99"],
                        "/dev/fd/99: cannot be written: No such file", 1)
            odd = os.path.join(folder, "odd\033[2J.gguf")  # a name does nothing to a terminal
            os.symlink(whole, odd)
            for args in (["inspect", odd], ["run", odd, "-p", "a", "-n", "1"], ["quantize", odd, odd + "2", "--type", "F32"]):
                code, out, err = tiny.hearth(*args)
                self.assertEqual(code, 0, err)
                self.assertIn("odd\\x1b[2J", out.decode(errors="replace") + err)
                self.assertNotIn("\033[2J", out.decode(errors="replace") + err)

    def test_no_number(self):
        ones = struct.pack("<f", 1.0) * tiny.DIM  # the first of them: the output norm
        with tempfile.TemporaryDirectory() as folder:
            path = tiny.tiny_model(os.path.join(folder, "nan.gguf"))
            with open(path, "rb") as f:
                data = f.read()
            with open(path, "wb") as f:
                f.write(data.replace(ones, struct.pack("<f", math.nan) + ones[4:], 1))
            bench = ["bench", path, "--backend", "ref"]  # which measures no ceilings
            text = os.path.join(folder, "text")
            with open(text, "w") as f:
                f.write("some words " * 8)
            for args in (["eval", path, "--tokens", "1"], ["eval", path, "--tokens", "1,2,3"],
                         ["eval", path, "--file", text, "--ctx", "16"]):
                code, out, err = tiny.hearth(*args)
                self.assertEqual(code, 1, args)
                self.assertNotIn("perplexity", out.decode(), args)
                self.assertIn("a logit is no finite number", err, args)
            for args in (["run", path, "-p", "x"], [*bench, "--prompt", 4, "--generate", 0],
                         [*bench, "--prompt", 0, "--generate", 2]):
                code, _, err = tiny.hearth(*args)
                self.assertEqual(code, 1, args)
                self.assertRegex(err, r"(?m)^hearth: the logit of token 0 is nan", args)
            kept = os.path.join(folder, "kept")
            with open(kept, "w") as f:
                f.write("precious")
            code, out, err = tiny.hearth("eval", path, "--tokens", "1,2", "--logits", kept)
            self.assertEqual((code, out[:9]), (1, b"2 tokens,"))
            self.assertIn("; %s was not written\n" % kept, err)
            with open(kept) as f:
                self.assertEqual(f.read(), "precious")
            self.assertFalse(os.path.exists(kept + ".tmp"))
            code, out, _ = tiny.hearth(*bench, "--prompt", 4, "--generate", 0, "--json")  # is ended, whatever happens
            d = json.loads(out)
            self.assertEqual((code, d["complete"], d["runs"], d["mapped"]), (1, False, [], True))


if __name__ == "__main__":
    tiny.main()
