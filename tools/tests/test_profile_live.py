# SPDX-License-Identifier: MIT
"""`sheaf profile` of a program that runs on libsheaf-malloc: examples/requests.c, which has a leak and a hot path."""
import gzip
import os
import re
import subprocess
import threading
import unittest
from pathlib import Path

from heap import HAS_COMPILER, sheaf
from test_profile import Folder
from test_profile_pprof import decode, numbers
from test_profile_page import data_of
from sheaf_tool import symbols
from sheaf_tool.profile import raw

SOURCE = Path(__file__).resolve().parents[2] / "examples" / "requests.c"
MALLOC = Path(os.environ.get("SHEAF_BUILD", "/nowhere")) / "malloc" / "libsheaf-malloc.so"
PATIENCE = 120  # seconds
SESSION, COPIES, COPY = 1016, 70, 61  # bytes of a session; for each, copies of requests, and about their bytes


class Requests:
    """The program, which serves requests all the time."""

    def __init__(self, program: Path, options: str) -> None:
        self.process = subprocess.Popen([program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                                        env={**os.environ, "LD_PRELOAD": str(MALLOC), "SHEAF_OPTIONS": options})
        self.pid = str(self.process.pid)
        self._served, self._end = threading.Condition(), False
        self._batches = 0
        self._thread = threading.Thread(target=self._serve)
        self._thread.start()

    def _serve(self) -> None:
        assert self.process.stdin and self.process.stdout
        while not self._end:
            self.process.stdin.write("1000\n")
            self.process.stdin.flush()
            if not self.process.stdout.readline():
                break
            with self._served:
                self._batches += 1
                self._served.notify_all()

    def wait(self, requests: int) -> None:
        """Until it has served so many more."""
        with self._served:
            until = self._batches + requests // 1000
            if not self._served.wait_for(lambda: self._batches >= until, PATIENCE):
                raise AssertionError("the program has ended, or is too slow")

    def close(self) -> None:
        self._end = True
        self._thread.join()
        self.process.communicate()


@unittest.skipUnless(HAS_COMPILER and MALLOC.exists(), "needs a compiler, and libsheaf-malloc.so")
class Running(Folder):
    def start(self, options: str) -> None:
        subprocess.run(["cc", "-g", "-O2", SOURCE, "-o", self.place / "requests"], check=True)
        self.program = Requests(self.place / "requests", options)
        self.addCleanup(self.program.close)
        self.program.wait(20000)

    def said(self, *words: str) -> str:
        found = sheaf("profile", *words, "--timeout", str(PATIENCE))
        self.assertEqual((found.returncode, found.stderr), (0, ""), words)
        return found.stdout

    def stored(self, name: str) -> str:
        path = str(self.place / name)
        self.said(self.program.pid, "--format", "raw", "-o", path)
        return path

    def folded(self, *words: str) -> dict[str, int]:
        """By the innermost function of the program."""
        found: dict[str, int] = {}
        for stack, n in re.findall(r"(?m)^(.*) (-?\d+)$", self.said(*words, "--format", "folded")):
            for name in ("begin_session", "field_length"):
                if name in stack:
                    found[name] = found.get(name, 0) + int(n)
        return found

    def test_formats(self) -> None:
        self.start("profile=4096")
        name = self.stored("a.heap")
        live, all_ = self.folded(name), self.folded(name, "--value", "all")
        # Four standard errors of the sessions: they have fewer samples.
        sessions = sum(row.values["all"][0] for row in raw.read(name).rows if row.size >= SESSION)
        self.assertAlmostEqual(all_["begin_session"] / all_["field_length"] / SESSION * COPIES * COPY, 1,
                               delta=0.1 + 4 / sessions ** 0.5)
        self.assertEqual(live["begin_session"], all_["begin_session"])
        self.assertLess(live.get("field_length", 0), live["begin_session"] / 10)
        top = self.said(name).splitlines()
        row = next(line for line in top if line.endswith("begin_session"))
        self.assertRegex(row, r"^ +\d+[KM] +(9\d|100)\.\d% ")
        self.assertRegex(self.said(name, "--leaks"), r"(?s)objects of kmalloc-1k, by \d+ samples, age .*, thread \d+\n +begin_session")
        page = data_of(self.said(name, "--format", "html"))
        self.assertIn("begin_session", page["names"])
        self.said(name, "--format", "pprof", "-o", str(self.place / "a.pb.gz"))
        found = decode(gzip.decompress((self.place / "a.pb.gz").read_bytes()))
        self.assertAlmostEqual(sum(numbers(decode(one)[2][0])[3] for one in found[2]), sum(self.all_live(name).values()), delta=100)
        self.assertIn(b"begin_session", found[6])
        heap_v2 = self.said(name, "--format", "jemalloc")
        self.assertRegex(heap_v2, r"\Aheap_v2/4096\n  t\*: \d+: \d+ \[\d+: \d+\]\n@ 0x")
        self.assertIn(str(self.place / "requests"), heap_v2)

    def all_live(self, name: str) -> dict[str, int]:
        return {stack: int(n) for stack, n in re.findall(r"(?m)^(.*) (-?\d+)$", self.said(name, "--format", "folded"))}

    @unittest.skipUnless(symbols.is_there(), "needs llvm-symbolizer or addr2line")
    def test_inlined_functions_and_lines(self) -> None:
        self.start("profile=4096")
        text = self.said(self.program.pid, "--leaks", "--top", "1")
        self.assertRegex(text, r"(?s)begin_session at \S*requests.c:25\n +serve at \S*requests.c:\d+\n +main at \S*requests.c:\d+\n")

    def test_growth(self) -> None:
        self.start("profile=4096")
        before = self.stored("a.heap")
        self.program.wait(20000)
        after = self.stored("b.heap")
        grown = self.folded("--diff", before, after)
        self.assertAlmostEqual(grown["begin_session"], self.folded(after)["begin_session"] - self.folded(before)["begin_session"],
                               delta=2)  # each is rounded
        self.assertGreater(grown["begin_session"], 0)
        for words in ("--growth", "--seconds", "0.1"), ("--seconds", "0.1"), ("--peak",):
            self.assertIn("requests (process", self.said(self.program.pid, *words))

    def test_later(self) -> None:
        self.start("")
        self.assertIn("takes no samples", sheaf("profile", self.program.pid, "--timeout", str(PATIENCE)).stderr)
        self.assertIn("a sample in each 4096 bytes", self.said(self.program.pid, "--on", "4096"))
        self.program.wait(20000)
        self.assertIn("no more samples", self.said(self.program.pid, "--off"))
        one = self.stored("a.heap")
        self.assertGreater(self.folded(one)["begin_session"], 0)
        self.program.wait(20000)
        self.assertEqual(self.folded(self.stored("b.heap"), "--value", "all"), self.folded(one, "--value", "all"))
