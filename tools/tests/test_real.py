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
    for name, faults in (OURS, 70), ("glibc", 50):
        real._keep(document, {"allocator": name, "program": "true", "kind": real.START},
                   [f"cpu 0.{faults}", "peak 1.5", f"faults {faults}", f"calls {faults - 20}"])
    real._keep(document, {"allocator": OURS, "program": "xz", "kind": "programs"}, ["slow 3.25"])
    return document


class Programs(unittest.TestCase):
    def test_each_has_its_files(self) -> None:
        found = real.read_programs({"real": real.PLACE, "bench": Path("/bench"), "work": Path("/work")})
        self.assertEqual({one.kind for one in found}, {*real.KINDS, real.START})
        for one in found:
            for word in one.words:
                self.assertNotIn("{", word)
                if word.startswith(str(real.PLACE)):
                    self.assertTrue(Path(word).exists(), word)

    def test_what_is_missing(self) -> None:
        found = real.read_programs({}, "[a]\nneeds = sh no-such-program\ncommand = true\n"
                                       "[b]\nneeds = sh\nscript = sh\n")
        self.assertEqual(found[0].missing(), "there is no no-such-program")
        self.assertIsNone(found[1].missing())
        self.assertTrue(found[1].is_script)

    def test_rows_are_chosen_and_the_others_stay(self) -> None:
        every = real.read_programs({}, "".join(f"[{name}]\ncommand = true\nkind = {kind}\n" for name, kind in (
            ("larson", "threads"), ("python", "programs"), ("xz", "programs"), ("true", "start"))))
        self.assertEqual([one.name for one in real.chosen(every, ("programs", "true"))], ["python", "xz", "true"])
        with self.assertRaisesRegex(Failure, "no program or kind 'pyton'"):
            real.chosen(every, ("pyton",))
        before, now = invented(), Document("real", {"versions": {}, "load": 0.5,
                                                    "command": "sheaf bench real --repeat 20 --row python"})
        before.machine["load"] = 2.0
        real._keep(now, {"allocator": OURS, "program": "python", "kind": "programs"}, ["cpu 7"])
        real.beside(now, before, every)
        self.assertEqual(list(dict.fromkeys(result.params["program"] for result in now.results)),
                         ["larson", "python", "xz", "true"])
        self.assertEqual(now.machine["load"], 2.0)
        self.assertEqual(now.machine["command"],
                         "sheaf bench real --repeat 20 --row larson --row python --row xz --row true")
        self.assertEqual(now.samples("ms", program="python"), [7.0])
        self.assertEqual(now.samples("ms", program="xz"), before.samples("ms", program="xz"))
        with self.assertRaisesRegex(Failure, "another cpu"):
            real.beside(Document("real", {"cpu": "a"}), Document("real", {"cpu": "b"}), every)

    def test_glibc_is_preloaded_where_a_package_links_another(self) -> None:
        program, = real.read_programs({}, "[a]\npreloads = libc.so.6\ncommand = true\n")
        for library, wanted in (None, "libc.so.6"), (Path("/lib/libother.so"), "/lib/libother.so"):
            with mock.patch.object(real.preload, "variable", str):
                self.assertEqual(real.Runs(GLIBC, library, MEASURER, program)._environment()["LD_PRELOAD"], wanted)

    def test_the_older_of_two_versions_is_left_out(self) -> None:
        with mock.patch.object(real.mallocs, "find_ours", lambda _: Path("ours")):
            for there, wanted in ({"libjemalloc.so.2"}, ["sheaf", "glibc", "jemalloc"]), (
                    {"libjemalloc.so.2", "libjemalloc53.so"}, ["sheaf", "glibc", "jemalloc53"]):
                with mock.patch.object(real.mallocs, "find", lambda name, there=there: Path(name) if name in there else None):
                    self.assertEqual([one.name for one, _ in real._allocators(Path("build"))[0]], wanted)

    @unittest.skipUnless(MEASURER.exists(), "needs a build")
    def test_measuring(self) -> None:
        def lines(words: list[str], is_script: bool = False) -> list[str]:
            program = real.Program("it", "programs", (), tuple(words), is_script)
            return [line.split()[0] for line in real.Runs(GLIBC, None, MEASURER, program).run()]

        start = real.Program("it", real.START, (), ("true",))
        found = real.Runs(GLIBC, None, MEASURER, start).run()
        self.assertEqual([line.split()[0] for line in found], ["cpu", "peak", "faults", "calls"])
        self.assertGreater(int(found[-1].split()[1]), 5)
        self.assertEqual(lines(["sh", "-c", ":"]), ["cpu", "peak"])
        self.assertEqual(lines(["sh", "-c", '"$@" true', "sh"], True), ["cpu", "peak"])
        for wrong, is_script in (["sh", "-c", "exit 3"], False), (["false"], True):
            with self.assertRaises(Failure):
                lines(wrong, is_script)
        with mock.patch.object(real, "LONGEST", 0.1), self.assertRaisesRegex(Failure, "sleep 600: does not end within"):
            lines(["sleep", "600"])


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

    def test_means_of_each_kind(self) -> None:
        """Beside the best peer of all; and the program that is worst beside its own."""
        found = {row[0]: [cell.split("\n") for cell in row[1:]] for row in real.means(invented())}
        time = found["programs\nCPU time"]
        self.assertEqual([cell[0] for cell in time], ["0.80", "0.90", "0.89", "1.14"])
        self.assertEqual((time[1][1], time[3][1]), ("snmalloc", "python"))
        self.assertEqual(len(found), 4)

    def test_start_and_slow_calls(self) -> None:
        (glibc, ours) = real.starts(invented())
        self.assertEqual(glibc[0::3], ["glibc", "1536"])
        self.assertEqual([ours[1], ours[2].split("\n")[0], *ours[3:]], ["700", "1.40", "1536", "70", "50"])
        self.assertEqual(real.slow_calls(invented()), [["xz", "3.2"]])

    def test_tables_fit(self) -> None:
        shown = real.SUITE.text(invented())
        self.assertLessEqual(max(map(len, shown.splitlines())), WIDTH)
        self.assertIn("lua is left out: there is no lua", shown)
        self.assertIn("<svg", real.SUITE.html(invented()))


if __name__ == "__main__":
    unittest.main()
