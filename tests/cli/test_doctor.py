# SPDX-License-Identifier: MIT
"""hearth doctor, and the CPUs that threads run on."""
import json
import os
import subprocess
import tempfile
import unittest

import tiny


class Doctor(unittest.TestCase):
    def test_json(self):
        code, out, err = tiny.hearth("doctor", "--json")
        d = json.loads(out)
        self.assertEqual((code, err), (0, ""), d)
        self.assertIs(d["ok"], True)
        m = d["machine"]
        self.assertIn(m["level"], m["levels"].split(", "))
        self.assertEqual(m["levels"].split(", ")[0], "scalar")
        self.assertEqual(m["cpus_allowed"], len(os.sched_getaffinity(0)))
        self.assertLessEqual(1, m["threads"])
        self.assertLessEqual(m["threads"], m["fast_cores"])
        self.assertLessEqual(m["fast_cores"], m["cores"])
        self.assertLessEqual(m["cores"], m["cpus_allowed"])
        self.assertEqual(m["threads"], min(m["fast_cores"], m["quota"] or m["fast_cores"], 256))
        with open("/proc/meminfo", encoding="ascii") as f:
            self.assertEqual(m["memory_total"], int(f.readline().split()[1]) * 1024)
        for number in d["ceilings"].values():
            self.assertGreater(number, 0)
        self.assertEqual(d["kernels"]["failed"], 0)
        self.assertEqual(d["kernels"]["differs"], [])
        n_levels = len(m["levels"].split(", ")) - 1
        self.assertGreaterEqual(d["kernels"]["checked"], 30 * n_levels)
        self.assertEqual(tiny.hearth("--version")[1].decode(), "hearth %s\n" % d["build"]["version"])
        self.assertRegex(d["build"]["pcre2"], r"^\d+\.\d+$")

    def test_page(self):
        code, out, err = tiny.hearth("doctor")
        self.assertEqual((code, err), (0, ""), out)
        lines = out.decode().split("\n")
        heads = [line.split("  ")[0] for line in lines[:10]]
        self.assertEqual(heads, ["CPU", "level", "threads", "huge pages", "memory", "build", "built-in", "ceilings",
                                 "cores", "kernels"])
        self.assertRegex(lines[2], r"^threads +\d+: the \D+ \(CPUs online \d+, for us \d+; cores \d+, of them fast \d+; (no )?quota.*\)$")
        self.assertRegex(lines[7], r"^ceilings +read [\d.]+ GB/s; multiply-adds: int8 \d+, i16 \d+, bf16 \d+, f32 \d+ GMAC/s$")
        self.assertRegex(lines[8], r"^cores +the slowest thread executes [01]\.\d\d of the instructions of the fastest")
        self.assertRegex(lines[9], r"^kernels +\d+ checked against scalar")
        self.assertEqual(lines[10:], ["", "all is well", ""])

    def test_asked(self):
        d = json.loads(tiny.hearth("doctor", "--json", "--threads", "1", "--cpu-level", "scalar")[1])
        self.assertEqual(d["asked"], {"threads": 1, "cpu_level": "scalar"})
        self.assertEqual(d["ceilings"]["slowest_thread"], 1)
        code, out, err = tiny.hearth("doctor", "--threads", "1", "--cpu-level", "Scalar")
        self.assertEqual((code, err), (0, ""), out)
        levels = json.loads(tiny.hearth("doctor", "--json")[1])["machine"]["levels"]
        elsewhere = "avx2" if "neon" in levels else "neon"
        code, out, err = tiny.hearth("doctor", "--cpu-level", elsewhere)
        self.assertEqual((code, out), (1, b""))
        self.assertIn('CPU level "%s" cannot run on this machine, which has: %s\n' % (elsewhere, levels), err)
        self.assertEqual(json.loads(tiny.hearth("doctor", "--json")[1])["asked"], {})
        code, out, err = tiny.hearth("doctor", "--threads", "1", "--cpu-level", "scalar")
        self.assertEqual((code, err), (0, ""), out)
        self.assertIn("\nasked for    --threads 1 --cpu-level scalar\nceilings     read ", out.decode())
        for args in (["--cpu-level", "sse9"], ["--cpu-mask", "0"], ["--threads", "2", "--cpu-mask", "1"]):
            code, out, err = tiny.hearth("doctor", *args)
            self.assertEqual((code, out, err.count("\n")), (2, b"", 1), err)

    def test_output_lost(self):
        if not os.path.exists("/dev/full"):
            self.skipTest("no /dev/full")
        with open("/dev/full", "wb") as full:
            done = subprocess.run([tiny.HEARTH, "doctor"], stdout=full, stderr=subprocess.PIPE, timeout=60)
        self.assertEqual(done.returncode, 1)
        self.assertIn(b"output cannot be written", done.stderr)


class CpuMask(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.model = tiny.tiny_model(os.path.join(cls.folder.name, "tiny.gguf"))
        cls.cpus = sorted(os.sched_getaffinity(0))

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    def logits(self, *args):
        path = os.path.join(self.folder.name, "logits")
        code, _, err = tiny.hearth("eval", self.model, "--tokens", "1,2,3", "--logits", path, *args)
        self.assertEqual(code, 0, err)
        with open(path, "rb") as f:
            return f.read()

    def test_runs(self):
        plain = self.logits()
        self.assertEqual(self.logits("--cpu-mask", "%x" % (1 << self.cpus[0])), plain)
        every = "0x%X" % sum(1 << cpu for cpu in self.cpus[:4])
        self.assertEqual(self.logits("--cpu-mask", every), plain)
        self.assertEqual(self.logits("--cpu-mask", every, "--threads", 1), plain)
        code, out, err = tiny.hearth("bench", self.model, "--prompt", "4", "--generate", "2", "--reps", 1, "--seqs", "1,2",
                                     "--cpu-mask", every, "--json")
        self.assertEqual(code, 0, err)
        n = len(self.cpus[:4])
        self.assertIn(", %d thread%s, CPU mask %s" % (n, "" if n == 1 else "s", every), json.loads(out)["device"])
        code, out, err = tiny.hearth("run", self.model, "-p", "abc", "-n", 3, "-q", "--cpu-mask", every)
        self.assertEqual(code, 0, err)

    def test_refusals(self):
        one = "%x" % (1 << self.cpus[0])
        for args, says in [
            (["--cpu-mask", "zz"], "CPU mask 'zz': a hexadecimal number was expected"),
            (["--cpu-mask", ""], "CPU mask '': a hexadecimal number was expected"),
            (["--cpu-mask", "0"], "CPU mask '0' holds no CPU"),
            (["--cpu-mask", "1" + "0" * 300], "below CPU 1024"),
            (["--cpu-mask", one, "--threads", 2], "2 threads are too many for the 1 CPUs"),
        ]:
            code, out, err = tiny.hearth("eval", self.model, "--tokens", "1", *args)
            self.assertEqual((code, out), (2, b""), (args, err))
            self.assertRegex(err, r"^hearth: .*\n$")
            self.assertIn(says, err)
        if (os.cpu_count() or 1) < 1000:
            code, _, err = tiny.hearth("run", self.model, "-p", "x", "--cpu-mask", "8" + "0" * 255)
            self.assertEqual(code, 2)
            self.assertIn("CPU 1023 of the CPU mask cannot be used", err)
        code, _, err = tiny.hearth("eval", self.model, "--tokens", "1", "--backend", "ref", "--cpu-mask", one)
        self.assertEqual(code, 1)
        self.assertIn("takes no CPU mask", err)


if __name__ == "__main__":
    tiny.main()
