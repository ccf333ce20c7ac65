# SPDX-License-Identifier: MIT
"""The suite `real`: its programs, what is measured of them, and its tables."""
import os
import unittest
from pathlib import Path
from unittest import mock

from sheaf_bench.allocators import ALLOCATORS, OURS
from sheaf_bench.document import Document
from sheaf_bench.suites import real
from sheaf_tool.errors import Failure
from sheaf_tool.stats import geomean_ratio
from sheaf_tool.table import WIDTH

MEASURER = Path(os.environ.get("SHEAF_BUILD", "/nowhere")) / "tools" / "measure"
GLIBC = next(one for one in ALLOCATORS if one.name == real.GLIBC)


def invented() -> Document:
    document = Document("real", {"versions": {}, "missing": {"jemalloc": "apt-get install libjemalloc2"},
                                 "left out": {"lua": "there is no lua"}})
    speed = {OURS: 0.8, "glibc": 1.0, "snmalloc": 0.9, "mimalloc": 0.7}
    for program, kind in (("python", "programs"), ("xz", "programs"), ("larson", "threads")):
        for i in range(6):
            for name, factor in speed.items():
                if (name, program) != ("mimalloc", "xz"):  # it failed
                    real._keep(document, {"allocator": name, "program": program, "kind": kind},
                               [f"cpu {factor * (100 + i)}", f"peak {20 / factor}"])
    return document


class Programs(unittest.TestCase):
    def test_each_has_its_files(self) -> None:
        found = real.read_programs({"real": real.PLACE, "bench": Path("/bench"), "work": Path("/work")})
        self.assertEqual({one.kind for one in found}, set(real.KINDS))
        for one in found:
            for word in one.words:
                self.assertNotIn("{", word)
                if word.startswith(str(real.PLACE)):
                    self.assertTrue(Path(word).exists(), word)

    def test_what_is_missing(self) -> None:
        found = real.read_programs({}, "[a]\nneeds = sh no-such-program\ncommand = true\n"
                                       "[b]\nneeds = sh !root\nscript = sh\n")
        self.assertEqual(found[0].missing(), "there is no no-such-program")
        for user, why in (0, "it does not run as root"), (7, None):
            with mock.patch.object(real.os, "geteuid", lambda user=user: user):
                self.assertEqual(found[1].missing(), why)
        self.assertTrue(found[1].is_script)

    @unittest.skipUnless(MEASURER.exists(), "needs a build")
    def test_measuring(self) -> None:
        def lines(words: list[str], is_script: bool = False) -> list[str]:
            program = real.Program("it", "programs", (), tuple(words), is_script)
            return [line.split()[0] for line in real.Runs(GLIBC, None, MEASURER, program).run()]

        self.assertEqual(lines(["sh", "-c", ":"]), ["cpu", "peak"])
        self.assertEqual(lines(["sh", "-c", '"$@" true', "sh"], True), ["cpu", "peak"])
        for wrong, is_script in (["sh", "-c", "exit 3"], False), (["false"], True):
            with self.assertRaises(Failure):
                lines(wrong, is_script)


class Tables(unittest.TestCase):
    def setUp(self) -> None:
        few = mock.patch("sheaf_tool.stats.RESAMPLES", 40)
        few.start()
        self.addCleanup(few.stop)

    def test_geometric_mean(self) -> None:
        found = geomean_ratio([([1.0] * 6, [2.0] * 6), ([4.0] * 6, [2.0] * 6), ([8.0] * 6, [1.0] * 6)])
        self.assertAlmostEqual(found.value, 2.0)
        self.assertAlmostEqual(found.low, found.high)

    def test_rows(self) -> None:
        """The best peer of all has results of all programs."""
        python, xz, mean = real.rows(invented(), "cpu", "programs")
        self.assertEqual([cell.split("\n")[0] for cell in python], ["python", "102", "0.80", "0.90", "0.70", "1.14"])
        self.assertEqual([cell.split("\n")[0] for cell in xz], ["xz", "102", "0.80", "0.90", "–", "0.89"])
        self.assertEqual([cell.split("\n")[0] for cell in mean], ["geometric mean", "", "0.80", "0.90", "–", "0.89"])

    def test_tables_fit(self) -> None:
        shown = real.SUITE.text(invented())
        self.assertLessEqual(max(map(len, shown.splitlines())), WIDTH)
        self.assertIn("lua is left out: there is no lua", shown)
        self.assertIn("<svg", real.SUITE.html(invented()))


if __name__ == "__main__":
    unittest.main()
