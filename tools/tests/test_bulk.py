# SPDX-License-Identifier: MIT
"""The suites `bulk` and `memory`: what they run, what they read, and their tables."""
import os
import unittest
import xml.etree.ElementTree as xml
from pathlib import Path
from unittest import mock

from sheaf_bench.allocators import HARNESS, OURS, Allocator, Worker
from sheaf_bench.document import Document
from sheaf_bench.suites import bulk, bulk_report, memory
from sheaf_bench.svg import spread
from sheaf_tool.table import WIDTH

NAMES = ("sheaf", "no-sheaf", "cpu-slab", "slab-layer", "glibc", "tcmalloc-google", "dpdk", "harness")
MACHINE = {"versions": {}, "missing": {"jemalloc": "apt-get install libjemalloc2"}}
PROGRAMS = Path("bench")


def workers() -> list[Worker]:
    program = {"no-sheaf": "sheaf", **{name: name for name in (
        "sheaf", "cpu-slab", "slab-layer", "dpdk", "harness")}}
    return [Worker(Allocator(name, program.get(name, "malloc")), PROGRAMS / name, None)
            for name in NAMES]


def time_of(cell: bulk.Cell) -> float:
    """Ours 1; the baseline 2, built first 8; glibc 5; all others 10."""
    if cell.params.get("freelist") == "built first":
        return 8.0
    return {OURS: 1.0, "cpu-slab": 2.0, "glibc": 5.0}.get(cell.worker.name, 10.0)


def invented_bulk(faults: float = 0.0, quick: bool = True, repetitions: int = 6) -> Document:
    document = Document("bulk", {**MACHINE, "slab_total": 64 << 20, "single_total": 256 << 20})
    for i in range(repetitions):
        for part in bulk.RUNS.values():
            for cell in part[0](workers(), PROGRAMS, quick):
                time = time_of(cell) * (1 + i / 100)
                bulk.record(document, cell.params, [f"{time} {faults}", f"{time + 1} {faults}",
                                             f"{time - 1} {faults}"])
    return document


class Bulk(unittest.TestCase):
    def setUp(self) -> None:
        few = mock.patch("sheaf_tool.stats.RESAMPLES", 40)  # else the intervals take half a minute
        few.start()
        self.addCleanup(few.stop)

    def test_a_sample_is_the_median_of_a_process(self) -> None:
        found = bulk_report.found(invented_bulk(repetitions=1), allocator="glibc", part="slab", size=64)
        self.assertEqual(found, [5.0])

    def test_gain_is_the_time_saved(self) -> None:
        for faulted in (True, False):
            gain = bulk_report.gain(invented_bulk(), 64, faulted)
            self.assertAlmostEqual(gain.value, 75.0)
            self.assertLessEqual(gain.low, gain.value)
            self.assertLessEqual(gain.value, gain.high)

    def test_results_without_the_baseline_have_a_page(self) -> None:
        document = invented_bulk()
        document.results = [one for one in document.results if "freelist" not in one.params]
        self.assertIsNone(bulk_report.gain(document, 64, True))
        self.assertIn("sheaf", bulk.SUITE.text(document))
        self.assertIn("<svg", bulk.SUITE.html(document))

    def test_best_peer_is_neither_ours_nor_the_harness(self) -> None:
        document = invented_bulk()
        self.assertEqual(bulk_report.best(document, part="single", size=64, touch="none"), "glibc")
        self.assertIsNone(bulk_report.best(document, part="single", size=48, touch="none"))

    def test_pools_have_no_part_in_fresh_memory(self) -> None:
        for part in ("slab", "single"):
            names = {cell.worker.name for cell in bulk.RUNS[part][0](workers(), PROGRAMS, True)}
            self.assertNotIn("dpdk", names)
            self.assertIn("glibc", names)

    def test_memory_that_was_not_kept_is_noted(self) -> None:
        self.assertNotIn("so not comparable", bulk.SUITE.text(invented_bulk()))
        table = bulk.SUITE.text(invented_bulk(faults=0.01))
        self.assertIn("so not comparable", table)
        # Objects of 512 bytes: one fault for two huge pages is not reported, one for each is.
        self.assertEqual(bulk_report.not_kept(invented_bulk(faults=16 / (4 << 20))), [])
        self.assertIn(OURS, bulk_report.not_kept(invented_bulk(faults=512 / (2 << 20))))

    def test_options_add_to_those_of_the_user(self) -> None:
        with mock.patch.dict(os.environ, {"SHEAF_OPTIONS": "backend=trylock"}):
            worker = bulk.with_options(workers()[0], "slab_min_objects=20", "")
        self.assertEqual(dict(worker.allocator.environment)["SHEAF_OPTIONS"],
                         "backend=trylock;slab_min_objects=20")

    def test_built_first_differs_by_its_variant_only(self) -> None:
        cells = {cell.params["freelist"]: cell for cell in bulk.slab_cells(workers(), PROGRAMS, True)
                 if "freelist" in cell.params and cell.params["size"] == 64
                 and cell.params["faulted"]}
        deferred, built = cells["deferred"], cells["built first"]
        self.assertEqual(deferred.worker.allocator.arguments, ("--variant", "deferred"))
        self.assertEqual(built.worker.allocator.arguments, ())
        self.assertEqual(deferred.worker.allocator.environment, built.worker.allocator.environment)
        self.assertEqual(deferred.arguments, built.arguments)

    def test_fits_the_terminal(self) -> None:
        for quick in (True, False):
            text = bulk.SUITE.text(invented_bulk(quick=quick))
            self.assertLessEqual(max(map(len, text.splitlines())), WIDTH)
            self.assertEqual("all bytes written" in text, not quick)
            self.assertIn("apt-get install libjemalloc2", text)

    def test_picture_shows_both_capacities(self) -> None:
        html = bulk.SUITE.html(invented_bulk())
        self.assertIn(">sheaf 256<", html)
        self.assertIn(f">{HARNESS}<", html)


LINES = ["grow 0.0000 0.1 0", "grow 1.0000 1.1 700", "free 0.5000 1.6 400", "free 1.0000 2.1 50",
         "idle 1.0000 2.1 40", "further 1.0000 2.1 30", "work 1.0000 2.1 20", "trim 1.0000 2.2 10"]


def invented_memory(repetitions: int = 6) -> Document:
    document = Document("memory", {**MACHINE, "objects": 10, "idle_ms": 500})
    for _ in range(repetitions):
        for order in (*memory.ORDERS, memory.MOST):
            for name in ("sheaf", "glibc", "tcmalloc-google", "dpdk"):
                memory.record(document, {"allocator": name, "order": order}, LINES)
    return document


class Memory(unittest.TestCase):
    def test_bytes_per_object_at_the_end_of_each_phase(self) -> None:
        found = [memory.resident(invented_memory(), OURS, "shuffled", phase).value
                 for phase in memory.PHASES]
        self.assertEqual(found, [70.0, 5.0, 4.0, 3.0, 2.0, 1.0])

    def test_series_runs_on_through_the_phases(self) -> None:
        points, ends = memory.series(invented_memory(), "glibc", "reverse")
        expected = [(0, 0), (1.1, 70), (1.6, 40), (2.1, 5), (2.6, 4), (2.6, 3), (2.6, 2), (2.7, 1)]
        for (x, y), (when, bytes_) in zip(points, expected):
            self.assertAlmostEqual(x, when)
            self.assertAlmostEqual(y, bytes_)
        self.assertEqual(ends, [1, 3, 4, 5, 6, 7])

    def test_results_without_the_later_phases_have_a_page(self) -> None:
        document = invented_memory()
        document.results = [one for one in document.results if one.params["order"] != memory.MOST
                            and one.params["phase"] not in ("further", "work")]
        self.assertEqual(memory.phases(document, "shuffled"), ["grow", "free", "idle", "trim"])
        self.assertIn("after", memory.SUITE.text(document))
        self.assertIn("<svg", memory.SUITE.html(document))

    def test_time_per_object(self) -> None:
        document = invented_memory()
        document.machine["objects"] = 10_000_000
        times = [cell.split("\n")[0] for row in memory.rows(document, "reverse") if row[0] == OURS for cell in row[-2:]]
        self.assertEqual(times, ["110", "100"])

    def test_fits_the_terminal(self) -> None:
        text = memory.SUITE.text(invented_memory())
        self.assertLessEqual(max(map(len, text.splitlines())), WIDTH)

    def test_every_line_is_drawn_once(self) -> None:
        html = memory.SUITE.html(invented_memory())
        begin, end = html.index('<div class="panels"'), html.index("<figcaption")
        picture = xml.fromstring(html[begin:end])
        lines = [one for one in picture.iter() if one.get("class", "").startswith("line ")]
        self.assertEqual(len(lines), 4 * len(memory.ORDERS))


class Spread(unittest.TestCase):
    def test_labels_keep_apart_and_inside(self) -> None:
        moved = spread([100.0, 10.0, 99.0, 100.0], 13, 100)
        self.assertEqual(sorted(moved)[0], 10.0)
        self.assertLessEqual(max(moved), 100.0)
        ordered = sorted(moved)
        self.assertTrue(all(b - a >= 13 for a, b in zip(ordered, ordered[1:])))

    def test_what_is_apart_stays(self) -> None:
        self.assertEqual(spread([0.0, 50.0, 20.0], 13, 100), [0.0, 50.0, 20.0])
