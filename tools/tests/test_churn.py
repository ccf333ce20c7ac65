# SPDX-License-Identifier: MIT
"""The suite `churn`: what it runs, what it reads, and its tables."""
import re
import unittest
from pathlib import Path
from unittest import mock

from sheaf_bench.allocators import OURS, Allocator, Worker
from sheaf_bench.document import Document
from sheaf_bench.suites import churn, churn_report
from sheaf_tool.table import WIDTH

PROGRAMS = Path("bench")
NAMES = ("sheaf", "no-sheaf", "cpu-slab", "glibc", "tcmalloc-google", "dpdk", "harness")
PROGRAM = {"no-sheaf": "sheaf", **{name: name for name in ("sheaf", "cpu-slab", "dpdk", "harness")}}
MACHINE = {"versions": {}, "missing": {"jemalloc": "apt-get install libjemalloc2"}, "idle_ms": 2000,
           "objects": {str(size): 1 << 20 for size in churn_report.OBJECTS}}
# Frees and allocations, ns.
TIMES = {OURS: (4.0, 6.0), churn_report.KEPT: (3.0, 2.0), "glibc": (8.0, 9.0),
         "tcmalloc-google": (5.0, 12.0)}


def workers() -> list[Worker]:
    return [Worker(Allocator(name, PROGRAM.get(name, "malloc")), PROGRAMS / name, None) for name in NAMES]


def invented(quick: bool = True, repetitions: int = 6) -> Document:
    document = Document("churn", dict(MACHINE))
    for i in range(repetitions):
        for part in ("times", "memory"):
            for cell in churn.cells(workers(), part, quick):
                free, again = TIMES.get(churn_report.label(cell.params), (10.0, 10.0))
                lines = [f"free {free + i / 100} 0.001", f"again {again + i / 100} 0.002"]
                if part == "memory":
                    lines = [lines[0], "freed 66", "later 65", "worked 4"]
                churn.record(document, cell.params, lines)
    return document


class Churn(unittest.TestCase):
    def setUp(self) -> None:
        few = mock.patch("sheaf_tool.stats.RESAMPLES", 40)  # else the intervals take half a minute
        few.start()
        self.addCleanup(few.stop)

    def test_both_of_ours_and_no_pool(self) -> None:
        labels = {churn_report.label(cell.params) for cell in churn.cells(workers(), "times", True)}
        self.assertEqual(labels, {OURS, churn_report.KEPT, "cpu-slab", "glibc", "tcmalloc-google", "harness"})

    def test_kept_differs_by_its_option_only(self) -> None:
        ours, kept = churn.cells(workers(), "times", True)[:2]
        self.assertEqual(ours.arguments, kept.arguments)
        self.assertEqual(dict(kept.worker.allocator.environment)["SHEAF_OPTIONS"].split(";")[-1],
                         "decay=never")

    def test_heaps_are_larger_than_caches(self) -> None:
        for quick, largest in ((True, 128 << 20), (False, 512 << 20)):
            heaps = [cell.params["size"] * int(cell.arguments[cell.arguments.index("--objects") + 1])
                     for cell in churn.cells(workers(), "times", quick)]
            self.assertEqual({min(heaps), max(heaps)}, {64 << 20, largest})

    def test_memory_is_read_well_after_freed_memory_begins_to_return(self) -> None:
        options = Path(__file__).parents[2].joinpath("src/os/options/options.h").read_text(encoding="utf-8")
        stays = int(re.search(r'NUMBER\(decay, "decay=", \d+, \d+, (\d+),', options)[1])
        self.assertEqual(stays, 1000)
        for cell in churn.cells(workers(), "memory", True):
            self.assertGreaterEqual(int(cell.arguments[cell.arguments.index("--idle") + 1]), 2 * stays)

    def test_times_and_faults_of_each_phase(self) -> None:
        document = invented(repetitions=1)
        self.assertEqual(churn_report.times(document, "glibc", "half", 64, "again"), [9.0])
        self.assertEqual(churn_report.times(document, churn_report.KEPT, "half", 64, "again"), [2.0])
        self.assertEqual(churn_report.times(document, OURS, "half", 16, "free", churn_report.FAULTS), [1.0])

    def test_memory_at_each_moment(self) -> None:
        document = invented(repetitions=1)
        self.assertEqual([churn_report.resident(document, OURS, "shuffled", 512, moment)
                          for moment in churn_report.MOMENTS], [[66.0], [65.0], [4.0]])

    def test_best_peer_of_each_phase(self) -> None:
        document = invented()
        self.assertEqual(churn_report.best(document, "reverse", 512, "free"), "tcmalloc-google")
        self.assertEqual(churn_report.best(document, "reverse", 512, "again"), "glibc")

    def test_fits_the_terminal(self) -> None:
        for quick in (True, False):
            text = churn.SUITE.text(invented(quick))
            self.assertLessEqual(max(map(len, text.splitlines())), WIDTH)
            self.assertIn("apt-get install libjemalloc2", text)

    def test_pictures_show_both_of_ours(self) -> None:
        html = churn.SUITE.html(invented())
        self.assertIn(f">{churn_report.KEPT}<", html)
        self.assertIn(">harness<", html)
