# SPDX-License-Identifier: MIT
"""The suites whose measurements differ by allocator: cells, and the arithmetic of their tables."""
import io
import tempfile
import unittest
from contextlib import redirect_stderr
from pathlib import Path
from typing import Any
from unittest import mock

from sheaf_bench import compare
from sheaf_bench.allocators import Allocator, Worker
from sheaf_bench.document import Document
from sheaf_tool.errors import Failure
from sheaf_bench.suites import cells, kmalloc, prefill, rcu, rcu_report, vmalloc
from sheaf_bench.suites.suite import Settings
from sheaf_tool.table import WIDTH

NAMES = ("sheaf", "glibc", "mimalloc", "jemalloc")
CPU = {"kfree_rcu": 5.0, "cache": 4.0, "mightsleep": 4.0, "call_rcu": 80.0, "batch": 30.0,
       "immediate": 8.0}
HARNESS_CPU = 2.0


class Fake(Worker):
    """Answers with these lines; fails if they are None."""

    def __init__(self, name: str, answer: Any, worker: str = "malloc") -> None:
        super().__init__(Allocator(name, worker), Path(name), None)
        self.answer = answer
        self.asked: list[tuple[str, ...]] = []

    def run(self, *arguments: str) -> list[str]:
        self.asked.append(arguments)
        answer = self.answer(arguments) if callable(self.answer) else self.answer
        if answer is None:
            raise Failure(f"{self.name}: two lines\nthe last one")
        return answer


def value_of(arguments: tuple[str, ...], option: str) -> str:
    return arguments[arguments.index(option) + 1]


def settings(repeat: int | None = 2, quick: bool = False) -> Settings:
    return Settings(Path("."), quick, repeat)


def keep(document: Document, params: dict[str, Any], lines: list[str]) -> None:
    document.result("time", params, "ns").samples.append(float(lines[0]))


class Cells(unittest.TestCase):
    def test_interleaved(self) -> None:
        order: list[str] = []
        workers = [Fake(name, lambda _, name=name: order.append(name) or ["1"])
                   for name in ("sheaf", "glibc")]
        found = [cells.Cell(worker, {"allocator": worker.name}, (), keep) for worker in workers]
        cells.measure(Document("x", {}), settings(2), [cells.Part(found, 9, 9, 1.0)])
        self.assertEqual(order, ["sheaf", "glibc", "sheaf", "glibc"])

    def test_a_peer_that_fails_is_left_out_and_named_and_ours_must_not(self) -> None:
        document = Document("x", {})
        answers = iter([["1"], None, ["1"]])
        peer = cells.Cell(Fake("glibc", lambda _: next(answers)), {"allocator": "glibc"}, (), keep)
        ours = cells.Cell(Fake("sheaf", ["2"]), {"allocator": "sheaf"}, (), keep)
        cells.measure(document, settings(3), [cells.Part([peer, ours], 9, 9, 1.0)])
        self.assertEqual(document.allocators(), ["sheaf"])
        self.assertEqual(document.machine["failed"], {"glibc": "the last one"})
        self.assertIn("glibc: failed and is left out: the last one", cells.notes(document))
        broken = cells.Cell(Fake("sheaf", None), {"allocator": "sheaf"}, (), keep)
        with self.assertRaises(Failure):
            cells.measure(document, settings(1), [cells.Part([broken], 1, 1, 1.0)])

    def test_a_long_run_says_how_long_after_its_first_repetition(self) -> None:
        for limit, repeat, wanted in (0.0, 3, "x: the first of 3 repetitions took 0 s, so all take about 0 minutes\n"), (0.0, 1, ""), (9.0, 3, ""):
            found = [cells.Cell(Fake("sheaf", ["1"]), {"allocator": "sheaf"}, (), keep)]
            with mock.patch.object(cells, "LONG", limit), redirect_stderr(io.StringIO()) as said:
                cells.measure(Document("x", {}), settings(repeat), [cells.Part(found, 9, 9, 1.0)])
            self.assertEqual(said.getvalue(), wanted)

    def test_a_quick_run_begins_no_late_repetition(self) -> None:
        worker = Fake("sheaf", ["1"])
        part = cells.Part([cells.Cell(worker, {"allocator": "sheaf"}, (), keep)], 9, 9, 0.0)
        cells.measure(Document("x", {}), settings(None, True), [part])
        self.assertEqual(len(worker.asked), part.least_repeat)
        cells.measure(Document("x", {}), settings(4, True), [part])
        self.assertEqual(len(worker.asked), part.least_repeat + 4)

    def test_arithmetic(self) -> None:
        self.assertEqual(cells.less([5.0, 7.0], [2.0, 3.0]), [3.0, 4.0])
        self.assertEqual(cells.ratio_cell([6.0, 6.0], [3.0, 3.0]), "2.00\n2.00–2.00")
        self.assertEqual(cells.ratio_cell([6.0], []), cells.NOTHING)
        self.assertEqual(cells.ratio_cell([6.0, 6.0], [3.0, -1.0]), cells.NOTHING)
        self.assertEqual(cells.best({"a": [3.0], "b": [2.0], "c": []}), "b")
        self.assertIsNone(cells.best({"c": []}))


class Report(unittest.TestCase):
    """What is true of the texts and pages of all suites."""

    def check(self, suite: Any, document: Document, *said: str) -> None:
        text = suite.SUITE.text(document)
        self.assertLessEqual(max(map(len, text.splitlines())), WIDTH)
        for words in said:
            self.assertIn(words, text)
        html = suite.SUITE.html(document)
        self.assertEqual(html.count("<figure"), html.count("</figure>"))
        self.assertIn("<svg", html)
        for result in document.results:
            self.assertIsNotNone(compare.higher_is_better(result.unit), result.unit)
            self.assertIn("allocator", result.params)
        keys = [(result.name, result.unit, str(result.params)) for result in document.results]
        self.assertEqual(len(keys), len(set(keys)))

    def rcu(self, quick: bool = False) -> tuple[Document, dict[str, Fake]]:
        def answer(name: str, arguments: tuple[str, ...]) -> list[str]:
            if "--rounds" in arguments and "--round" not in arguments:
                return [f"resident {i / 20:.4f} {(i + 1) << 20}" for i in range(21)]
            cpu = HARNESS_CPU if name == "harness" else CPU[value_of(arguments, "--way")]
            lines = ["objects 9", f"cpu {cpu}", f"caller {cpu}", "rate 100.0", "pending 32",
                     "resident 7"]
            return lines + (["reuse 20000000"] if "--rate" in arguments else [])

        workers = {name: Fake(name, lambda arguments, name=name: answer(name, arguments))
                   for name in (*NAMES, "harness")}
        with mock.patch.object(rcu, "_workers", lambda _: ({flavour: list(workers.values())
                                                             for flavour in rcu.FLAVOURS}, {})), \
             mock.patch.object(rcu, "ready", lambda *_: (list(workers.values()), {})), \
             mock.patch.object(rcu.counters, "add") as add:
            document = rcu.SUITE.run(settings(2, quick), {"cpus": 2})
        self.works = [title for title, _ in add.call_args[0][-1]]
        return document, workers

    def test_rcu(self) -> None:
        document, workers = self.rcu()
        self.check(rcu, document, "sheaf kfree_rcu wide", "20.0")
        kfree = {"allocator": "sheaf", "way": "kfree_rcu"}
        self.assertEqual(rcu_report.net(document, "cpu", kfree, ("memb", 1)), [3.0, 3.0])
        rows = {row[0]: row[1:] for row in rcu_report.ratio_rows(document, kfree)}
        self.assertEqual(rows["glibc call_rcu"][0].split("\n")[0], "26.0")
        self.assertIn("kfree_rcu\n2 writers\nwide barn", self.works)
        paced = [arguments for arguments in workers["glibc"].asked if "--rate" in arguments]
        self.assertFalse([one for one in paced if "immediate" in one])

    def test_rcu_measures_two_million_objects(self) -> None:
        self.assertGreaterEqual(rcu.ROUND * rcu.ROUNDS, 2_000_000)

    def test_rcu_pending_is_in_bytes(self) -> None:
        document, _ = self.rcu(quick=True)
        self.check(rcu, document)
        found = cells.samples(document, "pending", allocator="glibc", way="batch", writers=1)
        self.assertEqual(found, [32 * 64 / 1024] * 2)

    def test_strand_is_drawn_in_the_order_of_rounds(self) -> None:
        document, _ = self.rcu()
        line = rcu_report.strand_line(document, {"allocator": "glibc", "way": "batch"})
        self.assertEqual(line[0], (0.0, 1.0))
        self.assertEqual(line[-1], (10.0, 21.0))

    def test_prefill(self) -> None:
        workers = [Fake(name, lambda arguments, name=name: [
            "90" if value_of(arguments, "--way") == "prefill" else "180"] * 3, name)
            for name in (*NAMES, "dpdk")]
        with mock.patch.object(prefill, "ready", lambda *_: (workers, {"rpmalloc": "get it"})):
            document = prefill.SUITE.run(settings(), {})
        self.check(prefill, document, "rpmalloc is missing: get it")
        row = next(row for row in prefill.rows(document) if row[0] == "32\n4")
        self.assertEqual(row[6].split("\n")[0], "2.00")
        ways = {value_of(arguments, "--way") for arguments in workers[-1].asked}
        self.assertEqual(ways, {"bulk"})
        self.assertNotIn("--used", workers[0].asked[0])
        self.assertEqual(prefill.used(8), [0, 1, 2, 4, 8])

    def test_vmalloc(self) -> None:
        workers = [Fake(name, ["12.0", "10.0", "11.0"]) for name in NAMES]
        with mock.patch.object(vmalloc, "ready", lambda *_: (workers, {})):
            document = vmalloc.SUITE.run(settings(), {})
        self.check(vmalloc, document, "random_size_align", "kfree_rcu_mightsleep(p)")
        self.assertEqual(cells.samples(document, "kvfree", allocator="sheaf", way="one"), [11.0] * 2)
        asked = [arguments for arguments in workers[1].asked if "--way" in arguments]
        self.assertEqual({value_of(arguments, "--way") for arguments in asked}, {"plain", "two"})

    def test_kmalloc(self) -> None:
        def pair(cell: cells.Cell) -> cells.Cell:
            times = {"kmem_cache_alloc": 6.0, "kmalloc": 7.0, "harness": 2.0}
            lines = [str(times[cell.params["call"]])]
            counted = [f"pairs 100 instructions {int(times[cell.params['call']] * 1000)} locked 0"]
            return cells.Cell(Fake(cell.worker.name, lambda arguments: counted if "--count"
                                   in arguments else lines), cell.params, cell.arguments, cell.keep)

        workers = [Fake(name, [f"window {rate} 1000"]) for name, rate in
                   (("sheaf", 60), ("glibc", 20), ("mimalloc", 40), ("harness", 120))]
        pairs, counts = kmalloc.pair_cells(Path(".")), kmalloc.count_cells(Path("."))
        with mock.patch.object(kmalloc, "ready", lambda *_: (workers, {})), \
             mock.patch.object(kmalloc.counters, "add"), \
             mock.patch.object(kmalloc, "pair_cells", lambda _: [pair(one) for one in pairs]), \
             mock.patch.object(kmalloc, "count_cells", lambda _: [pair(one) for one in counts]):
            document = kmalloc.SUITE.run(settings(), {"cpus": 2})
        self.check(kmalloc, document, "PYTHONMALLOC=malloc", "git log -p")
        self.assertEqual(kmalloc.pair_ratio(document, 64, 10).split("\n")[0], "1.25")
        self.assertEqual([row[1] for row in kmalloc.ratio_rows(document)], ["mimalloc"] * 6)
        self.assertEqual(kmalloc.pair_rows(document)[0][-1], "70")


class Recordings(unittest.TestCase):
    def test_each_has_rows_of_a_size_and_of_objects(self) -> None:
        with tempfile.TemporaryDirectory() as directory:
            for name in kmalloc.MIXES:
                found = kmalloc.recording(name)
                objects = sum(sum(row[1:]) for row in found["rows"])
                self.assertEqual(objects, found["allocations"])
                sizes = [row[0] for row in found["rows"]]
                self.assertEqual(sizes, sorted(set(sizes)))
                lines = Path(kmalloc.write_mix(Path(directory), name)).read_text().splitlines()
                self.assertEqual([list(map(int, line.split())) for line in lines], found["rows"])

    def test_one_that_is_not_there_is_named(self) -> None:
        with self.assertRaisesRegex(Failure, "nothing.json"):
            kmalloc.recording("nothing")
