# SPDX-License-Identifier: MIT
"""The suite maple: sums that must agree, ratios to rivals, tables that fit."""
import functools
import tempfile
import unittest
from pathlib import Path
from typing import Any, Callable
from unittest import mock

from sheaf_bench import compare, logchart
from sheaf_bench.allocators import Worker
from sheaf_tool.errors import Failure
from sheaf_bench.document import Document
from sheaf_bench.suites import maple, maple_counts, maple_report
from sheaf_bench.suites.maple_elsewhere import ELSEWHERE, Elsewhere
from sheaf_tool.table import WIDTH

from test_cells import Fake, settings, value_of

TIME = {maple.OURS: 10.0, maple.NO_RCU: 8.0, "rbtree": 40.0}
WORKLOADS = [name for name in maple_report.WORKLOADS if not name.startswith("bytes")]


def answer(name: str, sums: int = 7) -> Callable[[tuple[str, ...]], list[str]]:
    def lines(arguments: tuple[str, ...]) -> list[str]:
        only = value_of(arguments, "--only")
        if only == "readers":
            return ["lookups 12.5", "pairs 1.5"]
        if only == "counts":
            return [f"count {pairs} {event} 0.25" for pairs in ("random", "same") for event in
                    ("alloc_fastpath", "sheaf_prefill_fast", "free_rcu_sheaf", "map_single",
                     "map_type_append")]
        if only.startswith("bytes"):
            return [f"{only} 50.0", f"{only}-nodes 45.0", f"sum {only} {sums}"]
        return [line for workload in WORKLOADS
                for line in (f"sum {workload} {sums}", f"{workload} {TIME.get(name, 20.0)}")]
    return lines


def workers(odd: str = "") -> dict[str, Worker]:
    return {name: Fake(name, answer(name, 8 if name == odd else 7)) for name in maple.STRUCTURES}


def run(odd: str = "", quick: bool = False, **changes: Any) -> Document:
    found = {**workers(odd), **changes}
    with mock.patch.object(maple, "ready", lambda _: (found, {"judy": "apt-get install it"})):
        return maple.SUITE.run(settings(quick=quick), {})


measured = functools.lru_cache(run)  # nothing changes a document


class Run(unittest.TestCase):
    def test_a_structure_that_answers_differently_ends_the_run(self) -> None:
        with self.assertRaisesRegex(Failure, "btree-end finds other ranges than sheaf in load-random"):
            run(odd="btree-end")

    def test_ours_may_not_differ_either(self) -> None:
        with self.assertRaisesRegex(Failure, "map-start finds other ranges than sheaf"):
            run(odd=maple.OURS)

    def test_every_structure_is_measured_at_every_size(self) -> None:
        document = measured()
        for name in set(maple.STRUCTURES) - {maple.KERNEL_RULES}:
            for ranges in maple.SIZES:
                self.assertEqual(len(maple_report.found(document, "iterate", name, ranges)), 2)

    def test_a_rival_that_fails_is_left_out_and_named(self) -> None:
        document = run(judy=Fake("judy", None))
        self.assertEqual(maple_report.found(document, "iterate", "judy", 60), [])
        self.assertIn("judy, 60: failed and is left out", maple.SUITE.text(document))

    def test_programs_that_are_not_built(self) -> None:
        with tempfile.TemporaryDirectory() as directory:
            self.assertEqual(maple.ready(Path(directory)), ({}, {"maple": maple.REMEDIES["sheaf"]}))
            (Path(directory) / "maple-sheaf").touch()
            found, missing = maple.ready(Path(directory))
        self.assertEqual(list(found), [maple.OURS])
        self.assertIn("libabsl-dev", missing["btree"])
        self.assertIn("libjudy-dev", missing["judy"])

    def test_without_ours_nothing_is_measured_and_that_is_said(self) -> None:
        with mock.patch.object(maple, "ready", lambda _: ({}, {"maple": "install it"})):
            document = maple.SUITE.run(settings(), {})
        self.assertEqual(maple.SUITE.text(document).strip(),
                         "Nothing was measured.\nmaple is missing: install it")
        self.assertIn("install it", maple.SUITE.html(document))


def elsewhere(workload: str, ranges: int | None = None) -> Elsewhere:
    return next(one for one in ELSEWHERE
                if one.workload == workload and ranges in (None, one.ranges))


class Rivals(unittest.TestCase):
    def test_time_and_ratio(self) -> None:
        row = maple_report.rival_row(measured(), elsewhere("load-random", 60))
        assert row
        self.assertEqual(row[2], "rbtree")
        self.assertEqual(row[4].split("\n")[0], "0.25")
        self.assertEqual(row[5], "1.24\n37.1 / 29.9")

    def test_fork_is_compared_with_a_copy(self) -> None:
        there = elsewhere("dup-replace")
        self.assertEqual((there.rival, there.rival_workload), ("map-start", "dup"))

    def test_readers_are_compared_with_the_mutex(self) -> None:
        row = maple_report.rival_row(measured(), elsewhere("lookups"))
        assert row
        self.assertEqual(row[4].split("\n")[0], "1.00")

    def test_what_readers_cost(self) -> None:
        self.assertTrue(maple_report.rcu_rows(measured())[0][4].startswith("1.25 "))

    def test_counts(self) -> None:
        rows = {row[0]: row for row in maple_counts.count_rows(measured(), "random")}
        self.assertEqual(rows["prefilled sheaves taken"][-1], "0.24–0.27")
        self.assertEqual(rows["objects returned unused"][1], "0.0000")

    def test_counts_by_the_kernels_rules_are_for_comparison(self) -> None:
        rows = {row[0]: row for row in maple_counts.count_rows(measured(), "random",
                                                               maple.KERNEL_RULES)}
        self.assertEqual(rows["prefilled sheaves taken"][1:2], ["0.2500"])
        self.assertEqual(rows["prefilled sheaves taken"][-1], "0.24–0.27")

    def test_bytes_are_those_of_slabs_without_readers(self) -> None:
        document = run()
        document.result("bytes-random", {"allocator": maple.NO_RCU, "ranges": 100_000},
                        maple.BYTES).samples[:] = [42.0]
        row = maple_report.rival_row(document, elsewhere("bytes-random"))
        assert row
        self.assertEqual(row[1].split("\n")[0], "42.0")


class Report(unittest.TestCase):
    def test_tables_fit_and_say_what_is_missing(self) -> None:
        for quick in (False, True):
            text = maple.SUITE.text(measured(quick=quick))
            self.assertLessEqual(max(map(len, text.splitlines())), WIDTH)
            self.assertIn("judy is missing: apt-get install it", text)

    def test_page_has_the_pictures(self) -> None:
        page = maple.SUITE.html(measured())
        self.assertIn("load: random address in a random range", page)
        self.assertEqual(page.count("<svg"), 12)

    def test_units_can_be_compared(self) -> None:
        for unit, higher in ((maple.NS, False), (maple.BYTES, False), (maple.RATE, True)):
            self.assertIs(compare.higher_is_better(unit), higher)


class LogChart(unittest.TestCase):
    def test_grid_encloses_the_values(self) -> None:
        self.assertEqual(logchart.round_values(3.0, 40.0), [2, 5, 10, 20, 50])
        self.assertEqual(logchart.round_values(1.0, 1e6)[::6], [1, 1e6])

    def test_places(self) -> None:
        panel = logchart.LogPanel("a", 0, 0, [logchart.Curve("b", [(10, 1), (1000, 100)], "l0")])
        chart = logchart._LogChart(panel)  # pylint: disable=protected-access
        self.assertAlmostEqual(chart.x(100), (chart.x(10) + chart.x(1000)) / 2)
        self.assertAlmostEqual(chart.y(10), (chart.y(1) + chart.y(100)) / 2)

    def test_short(self) -> None:
        self.assertEqual([logchart.short(one) for one in (0.5, 60, 1000, 2e6)],
                         ["0.5", "60", "1k", "2M"])
