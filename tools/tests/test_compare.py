# SPDX-License-Identifier: MIT
"""`sheaf compare`: known samples with known verdicts, files that it refuses, and its exit codes."""
import contextlib
import io
import json
import tempfile
import unittest
from pathlib import Path
from typing import Any

from sheaf_tool import cli
from sheaf_bench.compare import (IMPROVEMENT, REGRESSION, SAME, TOO_FEW, UNKNOWN, higher_is_better,
                                verdict_of)
from sheaf_tool.table import WIDTH

TEN = [10.0, 10.1, 10.2, 10.3, 10.4, 10.5]  # six samples: the interval is their range
OVER = [10.5, 10.6, 10.7, 10.8, 10.9, 11.0]  # touches it
BEYOND = [10.6, 10.7, 10.8, 10.9, 11.0, 11.1]  # does not: 5.4 % more


def results(*samples: list[float], unit: str = "ns/pair", **params: Any) -> list[dict[str, Any]]:
    """One row of results for each list of samples: batch 1, 2, ..."""
    return [{"params": {"allocator": "sheaf", "batch": i + 1, **params}, "samples": {"batch": {unit: one}}}
            for i, one in enumerate(samples)]


class Verdict(unittest.TestCase):
    def test_intervals_that_touch_differ_in_nothing(self) -> None:
        self.assertEqual(verdict_of("ns/pair", TEN, OVER), SAME)
        self.assertEqual(verdict_of("ns/pair", OVER, TEN), SAME)
        self.assertEqual(verdict_of("ns/pair", TEN, TEN), SAME)

    def test_direction_follows_the_unit(self) -> None:
        for unit in ("ns/pair", "ns/object", "bytes", "KiB", "bytes/object"):
            self.assertEqual(verdict_of(unit, TEN, BEYOND), REGRESSION, unit)
            self.assertEqual(verdict_of(unit, BEYOND, TEN), IMPROVEMENT, unit)
        for unit in ("Mpairs/s", "Mobjects/s", "ops/s"):
            self.assertEqual(verdict_of(unit, TEN, BEYOND), IMPROVEMENT, unit)
            self.assertEqual(verdict_of(unit, BEYOND, TEN), REGRESSION, unit)

    def test_unknown_unit_is_not_judged(self) -> None:
        self.assertIsNone(higher_is_better("bananas"))
        self.assertEqual(verdict_of("bananas", TEN, BEYOND), UNKNOWN)

    def test_intervals_are_of_the_median(self) -> None:
        """With nine samples the outermost are not in the interval: one outlier hides nothing."""
        slow = [20.0 + i for i in range(9)]
        fast = [10.0 + i for i in range(8)] + [99.0]
        self.assertEqual(verdict_of("ns/pair", fast, slow), REGRESSION)

    def test_five_samples_have_no_interval(self) -> None:
        self.assertEqual(verdict_of("ns/pair", TEN[:5], BEYOND), TOO_FEW)
        self.assertEqual(verdict_of("ns/pair", TEN, BEYOND[:5]), TOO_FEW)

    def test_counts_are_exact(self) -> None:
        self.assertEqual(verdict_of("instructions/pair", [47.0], [47.0]), SAME)
        self.assertEqual(verdict_of("instructions/pair", [47.0], [48.0]), REGRESSION)
        self.assertEqual(verdict_of("locked/pair", [1.0], [0.0]), IMPROVEMENT)
        self.assertEqual(verdict_of("locked/pair", [0.0], [1.0], 50.0), REGRESSION)

    def test_threshold(self) -> None:
        self.assertEqual(verdict_of("ns/pair", TEN, BEYOND, 5.0), REGRESSION)
        self.assertEqual(verdict_of("ns/pair", TEN, BEYOND, 6.0), SAME)


class Command(unittest.TestCase):
    def setUp(self) -> None:
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.directory = Path(directory.name)

    def file(self, name: str, content: Any) -> str:
        path = self.directory / name
        path.write_text(content if isinstance(content, str) else json.dumps(content),
                        encoding="utf-8")
        return str(path)

    def suite(self, name: str, measured: list[dict[str, Any]], suite: str = "batch",
              **machine: Any) -> str:
        return self.file(name, {"suite": suite, "machine": machine, "results": measured})

    def run_it(self, *words: str) -> tuple[int, str, str]:
        out, err = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            try:
                status = cli.main(["compare", *words])
            except SystemExit as end:
                status = int(end.code or 0)
        return status, out.getvalue(), err.getvalue()

    def refused(self, a: str, b: str) -> str:
        status, out, err = self.run_it(a, b)
        self.assertEqual((status, out), (1, ""))
        self.assertEqual(err.count("\n"), 1, err)
        return err

    def test_exit_codes(self) -> None:
        a = self.suite("a.json", results(TEN, TEN))
        worse = self.suite("worse.json", results(TEN, BEYOND))
        self.assertEqual(self.run_it(a, a)[0], 0)
        self.assertEqual(self.run_it(a, worse)[0], 3)
        self.assertEqual(self.run_it(worse, a)[0], 0)
        self.assertEqual(self.run_it("--threshold", "6", a, worse)[0], 0)
        self.assertEqual(self.run_it("--json", a, worse)[0], 3)
        self.assertEqual(self.run_it(a)[0], 2)
        for bad in ("-1", "nan", "much"):
            self.assertEqual(self.run_it("--threshold", bad, a, worse)[0], 2, bad)

    def test_marks_stand_beside_their_rows(self) -> None:
        _, out, _ = self.run_it(self.suite("a.json", results(TEN, TEN, BEYOND)),
                                self.suite("b.json", results(TEN, BEYOND, TEN)))
        rows = [line for line in out.splitlines() if line.startswith("sheaf")]
        self.assertEqual([row.split()[-1] for row in rows], ["%", "(R)", "(I)"])
        self.assertIn("10.2 [10.0–10.5]  10.9 [10.6–11.1]   1.06  +5.9 %  (R)", rows[1])
        self.assertIn("1 regression (R), 1 improvement (I), 1 without", out)

    def test_pairs_by_params_whatever_their_order(self) -> None:
        first, second = results(TEN, BEYOND)
        turned = {**second, "params": dict(reversed(second["params"].items()))}
        status, out, _ = self.run_it(self.suite("a.json", [first, second]),
                                     self.suite("b.json", [turned, first]))
        self.assertEqual(status, 0)
        self.assertIn("2 without a significant difference", out)

    def test_lists_what_only_one_has(self) -> None:
        a = self.suite("a.json", results(TEN, TEN))
        b = self.suite("b.json", results(TEN) + results(TEN, allocator="glibc"))
        _, out, _ = self.run_it(a, b)
        self.assertIn("Only in A:\n  batch allocator=sheaf batch=2 ns/pair\n", out)
        self.assertIn("Only in B:\n  batch allocator=glibc batch=1 ns/pair\n", out)

    def test_a_name_cannot_begin_a_line(self) -> None:
        a, b = self.suite("a.json", results(TEN)), self.suite("b.json", results(TEN), "bat\nch\x1b")
        self.assertIn("b.json of suite bat?ch?: only", self.refused(a, b))

    def test_one_allocator(self) -> None:
        a = self.suite("a.json", results(TEN) + results(TEN, allocator="glibc"))
        b = self.suite("b.json", results(TEN) + results(BEYOND, allocator="glibc"))
        self.assertEqual(self.run_it(a, b)[0], 3)
        self.assertEqual(self.run_it("--allocator", "sheaf", a, b)[0], 0)
        self.assertEqual(self.run_it("--allocator", "nobody", a, b)[0], 1)

    def test_json(self) -> None:
        a = self.suite("a.json", results(TEN, TEN))
        b = self.suite("b.json", results(BEYOND))
        found = json.loads(self.run_it("--json", a, b)[1])
        self.assertEqual((found["suite"], found["regressions"], found["improvements"]),
                         ("batch", 1, 0))
        self.assertEqual(found["results"][0]["verdict"], "regression")
        self.assertEqual(found["results"][0]["a"], {"value": 10.25, "low": 10.0, "high": 10.5})
        self.assertEqual(found["only_a"][0]["params"]["batch"], 2)
        self.assertEqual(found["only_b"], [])

    def test_no_ratio_to_nothing(self) -> None:
        a = self.suite("a.json", results([0.0], unit="locked/pair"))
        b = self.suite("b.json", results([1.0], unit="locked/pair"))
        self.assertEqual(self.run_it(a, b)[0], 3)
        self.assertIsNone(json.loads(self.run_it("--json", a, b)[1])["results"][0]["ratio"])

    def test_fits_the_terminal(self) -> None:
        many = {"pattern": "producer-consumer", "threads": 32, "size": 256, "order": "shuffled"}
        other = {**many, "pattern": "symmetric", "threads": 8, "size": 64, "order": "fifo"}
        measured = results(TEN, OVER, **many) + results(TEN, OVER, **other)
        _, out, _ = self.run_it(*[self.suite("a.json", measured)] * 2)
        table = [line for line in out.splitlines() if line.startswith(("sheaf", "allocator"))]
        self.assertEqual(len(table), 5)
        self.assertLessEqual(max(map(len, table)), WIDTH)

    def test_other_machines_are_told(self) -> None:
        a = self.suite("a.json", results(TEN), cpu="one", cpus=2)
        b = self.suite("b.json", results(TEN), cpu="another", cpus=2)
        out = self.run_it(a, b)[1]
        self.assertIn("cpu: one / another", out)
        self.assertNotIn("cpus:", out)
        self.assertNotIn("machines differ", self.run_it(a, a)[1])

    def test_results_from_before_the_calls_were_in_place_are_told(self) -> None:
        a, b = self.suite("a.json", results(TEN)), self.suite("b.json", results(TEN), sheaf="in place")
        self.assertIn("sheaf: not recorded / in place", self.run_it(a, b)[1])

    def test_refuses_what_is_no_suite(self) -> None:
        good = self.suite("good.json", results(TEN))
        self.assertIn("No such file", self.refused(str(self.directory / "none"), good))
        self.assertIn("directory", self.refused(good, str(self.directory)))
        self.assertIn("not JSON", self.refused(good, self.file("text", "hello")))
        self.assertIn("contains a list", self.refused(good, self.file("all", [{"suite": "batch"}])))
        self.assertIn("suite batch, ", self.refused(good, self.suite("other", [], "cross")))
        self.assertIn("in common", self.refused(good, self.suite("none.json", [])))
        self.assertIn("twice", self.refused(good, self.suite("2.json", results(TEN) * 2)))
        for bad in ("5", "{}", '{"suite": "batch", "machine": [], "results": []}',
                    *(f'{{"suite": "batch", "machine": {{}}, "results": [{row}]}}' for row in (
                        "7", '{"samples": {}}', '{"params": {}, "samples": {"batch": 7}}',
                        '{"params": {}, "at": 7, "samples": {"batch": {"ns/pair": [[1]]}}}'))):
            self.assertIn("not the results", self.refused(good, self.file("bad", bad)), bad)
        for samples in ([], ["1"], [float("nan")], [float("inf")], 3):
            bad = self.suite("bad", [{**results(TEN)[0], "samples": {"batch": {"ns/pair": samples}}}])
            self.assertIn("not the results", self.refused(good, bad), samples)
