# SPDX-License-Identifier: MIT
"""The suites of address spaces: the arguments of the workers, and the tables of their results."""
import json
import unittest
from pathlib import Path
from typing import Any
from unittest import mock

from sheaf_bench.allocators import Allocator, Worker
from sheaf_bench.document import Document
from sheaf_tool.errors import Failure
from sheaf_bench.suites import fork, histories, mmap2, mmap2_report, spaces
from sheaf_bench.suites.suite import Settings, Suite
from sheaf_tool.table import WIDTH

RATES = {"sheaf": 3.0, "no-sheaf": 1.0, "cpu-slab": 2.0, "kernel-rules": 3.0}  # pairs per ns, visible in the ratios
MACHINE = {"cpus": 2}
CACHES = {"caches": [
    {"name": "vma", "alloc_fastpath": 100, "replace_empty_main": 3, "barn_put_empty": 1},
    {"name": "maple_node", "alloc_fastpath": 200, "replace_empty_main": 6, "barn_put_empty": 1},
    {"name": "other", "alloc_fastpath": 7, "replace_empty_main": 100}]}
COUNTED = ["maps 100", "cpu 10", json.dumps(CACHES)]

asked: list[tuple[str, dict[str, str], tuple[str, ...]]] = []


def answer(worker: Worker, *arguments: str) -> list[str]:
    environment = dict(worker.allocator.environment)
    asked.append((worker.name, environment, arguments))
    if "BENCH_COUNTERS" in environment:
        return COUNTED
    rate = RATES[worker.name] * (0.5 if environment.get("SHEAF_OPTIONS") == "slab_nospare" else 1)
    return [f"window {int(rate * 1000)} 1000"] * 3 + ["maps 9", f"cpu {1000 / rate:.3f}"]


def known(*_: Any) -> dict[str, Worker]:
    return {name: Worker(Allocator(name, name), Path(name), None) for name in RATES}


def run(module: Any, quick: bool = True) -> Document:
    asked.clear()
    with mock.patch.object(module, "workers", known), mock.patch.object(Worker, "run", answer):
        suite: Suite = module.SUITE
        return suite.run(Settings(Path("."), quick, 6), dict(MACHINE))


@mock.patch("sheaf_tool.stats.RESAMPLES", 50)
class Spaces(unittest.TestCase):
    def check(self, suite: Suite, document: Document) -> str:
        text = suite.text(document)
        self.assertLessEqual(max(map(len, text.splitlines())), WIDTH)
        self.assertIn("<svg", suite.html(document))
        return text

    def test_tasks(self) -> None:
        self.assertEqual(mmap2.task_counts(2, True), [1, 2, 4, 16])
        self.assertEqual(mmap2.task_counts(2, False), [1, 2, 4, 8, 16])
        self.assertEqual(mmap2.task_counts(3, False), [1, 2, 3, 4, 8, 16, 24])

    def test_mmap2(self) -> None:
        document = run(mmap2)
        self.check(mmap2.SUITE, document)
        first = mmap2_report.ratio_rows(document)[0]
        self.assertEqual([cell.split("\n")[0] for cell in first],
                         ["1", "2.00", "1.00", "1.00", "1.00", "1.50", "3.00", "1.50"])
        here = mmap2_report.here_rows(document)[0]
        self.assertEqual([cell.split("\n")[0] for cell in here[:4]],
                         ["1", "+100.0 %", "-25.0 %", "+50.0 %"])
        self.assertEqual(len(mmap2_report.kernel_rows()[0]), len(mmap2_report.KERNEL_HEADER))

    def test_mmap2_counts_both_caches_with_and_without_the_rule(self) -> None:
        rows = {row[0]: row[1:] for row in mmap2_report.count_rows(run(mmap2))}
        self.assertEqual(rows["replace_empty_main"][:3], ["0.0855", "0.0814", "0.0900"])
        self.assertEqual(rows["barn_put_empty"][2:], ["0.0200"] * 8)
        options = [environment["SHEAF_OPTIONS"] for _, environment, _ in asked
                   if "BENCH_COUNTERS" in environment]
        self.assertEqual(options, ["stats=live;slab_nospare", "stats=live"] * 4)

    def test_what_is_asked(self) -> None:
        run(mmap2)
        sheaves = {(environment.get("SHEAF_OPTIONS"), arguments[arguments.index("--capacity") + 1])
                   for name, environment, arguments in asked if name == "sheaf"}
        self.assertLessEqual({(None, "32"), ("slab_nospare", "32"), (None, "64"), (None, "128"),
                              (None, "256")}, sheaves)
        self.assertTrue(all("--capacity" not in arguments
                            for name, _, arguments in asked
                            if name in ("no-sheaf", "cpu-slab")))

    def test_histories(self) -> None:
        document = run(mmap2)
        text = self.check(mmap2.SUITE, document)
        self.assertIn("Real address-space histories", text)
        names = list(histories.commands())
        self.assertIn("gcc", names)
        rows = histories.rows(document)
        self.assertEqual([row[:2] for row in rows],
                         [*([name, "1"] for name in names), ["all", "1"], ["all", "2"],
                          ["all", "16"]])
        for row in rows:
            self.assertEqual([cell.split("\n")[0] for cell in row[6:]], ["2.00", "1.50", "3.00"])
        asked_of = {arguments[1] for _, _, arguments in asked if arguments[0] == "--recording"}
        self.assertEqual(asked_of, {str(histories.MAPS),
                                    *(str(histories.MAPS / f"{name}.maps") for name in names)})

    def test_results_without_histories(self) -> None:
        """Results that were recorded before there were histories."""
        document = run(mmap2)
        document.results = [result for result in document.results if result.name != "history"]
        del document.machine["histories"]
        self.assertNotIn("histories", self.check(mmap2.SUITE, document))

    def test_lines_that_are_wrong(self) -> None:
        for lines in (["maps 0", "{}"], ["maps 5"], ["maps 5", '{"caches": []}'],
                      ["maps 5", '{"caches": [{"name": "vma"}, {"name": "maple_node"}]}']):
            with self.assertRaises(Failure):
                mmap2.parse_counts(lines)
        with self.assertRaises(Failure):
            spaces.keep_cpu("ns/map")(Document("mmap2", {}), {}, ["window 1 1"])

    def test_fork(self) -> None:
        document = run(fork)
        text = self.check(fork.SUITE, document)
        self.assertIn("+50.0 %", text)
        first = fork.ratio_rows(document)[0]
        self.assertEqual([cell.split("\n")[0] for cell in first],
                         ["2", "fork,", "1.50", "1.50", "1.50", "1.00", "3.00", "1.50", "1.50"])
        self.assertEqual({arguments[1] for _, _, arguments in asked}, {"25", "60", "300"})

    def test_programs_that_are_not_built(self) -> None:
        with self.assertRaisesRegex(Failure, "liburcu-dev"):
            spaces.workers("mmap2", Path("/nonexistent"))
