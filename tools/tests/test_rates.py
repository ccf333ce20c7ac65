# SPDX-License-Identifier: MIT
"""The suites of many threads: rates from windows, what is measured, failures, tables."""
import re
import unittest
from pathlib import Path
from typing import Any
from unittest import mock

from sheaf_bench import compare, seeds
from sheaf_bench.allocators import Allocator, Worker
from sheaf_bench.document import Document
from sheaf_tool.errors import Failure
from sheaf_bench.suites import cross, rates, scale, windows
from sheaf_bench.suites.suite import Settings
from sheaf_tool.table import WIDTH

RATES = {"sheaf": 60.0, "sheaf 256": 80.0, "no-sheaf": 5.0, "cpu-slab": 50.0, "glibc": 7.0,
         "jemalloc": 15.0, "snmalloc": 62.5, "tcmalloc-google": 18.0, "dpdk": 48.0,
         "harness": 116.0}
REPEAT = 2
MISSING = {"mimalloc": "apt-get install it"}


class Fake(Worker):
    """Answers what a program would print; fails if there is no answer."""

    def __init__(self, name: str, answers: dict[str, Any]) -> None:
        super().__init__(Allocator(name, name), Path(name), None)
        self.answers = answers
        self.asked: list[tuple[str, ...]] = []

    def run(self, *arguments: str) -> list[str]:
        self.asked.append(arguments)
        kind = "idle" if "--idle" in arguments else "working"
        if self.answers.get(kind) is None:
            raise Failure(f"{self.name}: two lines\nthe last one")
        return self.answers[kind]


def fakes() -> list[Worker]:
    return [Fake(name, {"working": [f"window {round(rate * 3000)} 3000000", "resident 100"],
                        "idle": ["resident 40"]})
            for name, rate in RATES.items() if name != "sheaf 256"]


def run(suite: Any, workers: list[Worker], repeat: int = REPEAT, quick: bool = False) -> Document:
    with mock.patch.object(suite, "ready", lambda *_: (workers, MISSING)):
        return suite.SUITE.run(Settings(Path("."), quick, repeat), {"cpus": 2})


class Windows(unittest.TestCase):
    def test_parse(self) -> None:
        self.assertEqual(windows.windows(["window 30 10", "resident 5", "window 7 20"]),
                         [(30, 10.0), (7, 20.0)])
        with self.assertRaises(Failure):
            windows.windows(["resident 5"])

    def test_mean_is_the_same_with_every_python(self) -> None:
        """Up to Python 3.11, sum() rounds at each step, here to 0.9999999999999999."""
        self.assertEqual(windows.mean([(1, 0.1)] * 10), 10 / 1.0 * 1e3)

    def test_upper_decile_is_a_window_and_not_the_luckiest_of_many(self) -> None:
        found = [(i, 1e3) for i in range(1, 21)]
        self.assertEqual(windows.upper_decile(found), 18.0)
        self.assertEqual(windows.upper_decile(list(reversed(found))), 18.0)
        self.assertEqual(windows.upper_decile([(3, 1e3), (5, 1e3)]), 5.0)

    def test_rate_is_of_the_time_that_passed(self) -> None:
        """A late reading of the counters is not a fast window."""
        self.assertEqual(windows.upper_decile([(100, 1e3), (300, 6e3)]), 100.0)

    def test_mean_weighs_windows_by_their_length(self) -> None:
        self.assertEqual(windows.mean([(100, 1e3), (0, 3e3)]), 25.0)

    def test_windows_are_long_if_threads_share_cpus(self) -> None:
        self.assertEqual(windows.window_arguments(2, 2, False)[:2], ["--window", "3"])
        self.assertEqual(windows.window_arguments(3, 2, False)[:2], ["--window", "20"])

    def test_resident(self) -> None:
        self.assertEqual(scale.resident(["window 1 2", "resident -12"]), -12.0)
        with self.assertRaises(Failure):
            scale.resident(["window 1 2"])


class Threads(unittest.TestCase):
    def test_from_one_to_sixteen_a_cpu(self) -> None:
        self.assertEqual(scale.thread_counts(2, False), [1, 2, 4, 8, 16, 32])
        self.assertEqual(scale.thread_counts(3, False), [1, 2, 3, 4, 8, 16, 32, 48])
        self.assertEqual(scale.thread_counts(2, True), [1, 2, 8, 32])
        self.assertEqual(scale.thread_counts(1, True), [1, 4, 16])


class Pools(unittest.TestCase):
    def test_a_memory_pool_is_a_variant_of_ours_and_no_peer(self) -> None:
        """It is the fastest here, but must not be the best peer."""
        pool = Fake("mempool", {"working": ["window 3000000 3000000"]})
        document = run(cross, [*fakes(), pool])
        row = {"pattern": cross.ONE_WAY, "threads": 2, "size": 64}
        view = rates.View(document, windows.UNIT, row)
        self.assertEqual(rates.samples(document, windows.UNIT,
                                       {"allocator": "sheaf", "mempool": True, **row}), [1000.0] * 2)
        self.assertEqual(view.best(), "snmalloc")
        self.assertIn("memory pool on top of the cache", cross.SUITE.text(document))
        broken = Fake("mempool", {"working": None})
        with self.assertRaises(Failure):
            run(cross, [*fakes(), broken])


class Called(unittest.TestCase):
    def test_ours_called_takes_part_in_one_row_of_each_pattern(self) -> None:
        called = Fake("sheaf-shared", {"working": ["window 3000000 3000000"]})
        document = run(cross, [*fakes(), called])
        self.assertEqual(len(called.asked), len(cross.PATTERNS) * REPEAT)
        view = rates.View(document, windows.UNIT, {"pattern": cross.ONE_WAY, "threads": 2, "size": 64})
        self.assertEqual(view.samples["sheaf-shared"], [1000.0] * 2)
        self.assertEqual(view.best(), "snmalloc")
        self.assertIn("sheaf made calls", cross.SUITE.text(document))
        document.machine["sheaf"] = "in place"
        text = cross.SUITE.text(document)
        self.assertIn("SHEAF_NO_INLINE", text)
        self.assertLessEqual(max(map(len, text.splitlines())), WIDTH)


class Results(unittest.TestCase):
    def test_form(self) -> None:
        document = run(cross, fakes())
        found = [one for one in document.results if one.unit == windows.UNIT]
        self.assertEqual(len(found), len(RATES) * 2 * 3 * 2)
        for one in found:
            self.assertEqual(set(one.params) - {"capacity"},
                             {"allocator", "pattern", "threads", "size"})
            self.assertEqual(len(one.samples), REPEAT)

    def test_variant_does_not_stand_for_ours(self) -> None:
        """Its samples are not mixed with those of the default, either."""
        sheaf = Fake("sheaf", {"working": ["window 3000 3000000"]})
        run(cross, [sheaf], 1)
        wide = [asked for asked in sheaf.asked if asked[-2:] == ("--capacity", "256")]
        self.assertEqual(len(wide) * 2, len(sheaf.asked))
        row = {"threads": 2, "size": 64}
        document = Document("cross", {}, [])
        for capacity, value in ((256, 2.0), (None, 1.0)):
            params = {"allocator": "sheaf", **({"capacity": capacity} if capacity else {}), **row}
            document.result("cross", params, windows.UNIT).samples.append(value)
        self.assertEqual(rates.View(document, windows.UNIT, row).samples,
                         {"sheaf": [1.0], "sheaf 256": [2.0]})

    def test_idle_is_not_working(self) -> None:
        document = run(scale, fakes())
        working = rates.View(document, scale.RESIDENT, {"batch": 1000, "threads": 32})
        idle = rates.View(document, scale.RESIDENT, scale.IDLE)
        self.assertEqual((working.samples["glibc"][0], idle.samples["glibc"][0]), (100.0, 40.0))

    def test_compare_knows_which_is_better(self) -> None:
        self.assertTrue(compare.higher_is_better(windows.UNIT))
        self.assertTrue(compare.higher_is_better(windows.MEAN))
        self.assertFalse(compare.higher_is_better(scale.RESIDENT))


class Seeds(unittest.TestCase):
    """The kernel's figure is next to ours."""

    def test_beside_ours(self) -> None:
        text = cross.SUITE.text(run(cross, fakes()))
        self.assertEqual(len(re.findall(r"\n\d+ × \d+ B +36\.0 % +120\.0 % \[120\.0 … 120\.0\]",
                                        text)), len(cross.SHAPES))
        self.assertIn(seeds.CROSS.date, text)

    def test_without_the_baseline(self) -> None:
        workers = [one for one in fakes() if one.name != "cpu-slab"]
        document = run(cross, workers)
        for said in (cross.SUITE.text(document), cross.SUITE.html(document)):
            self.assertEqual(said.count(seeds.NOT_MEASURED), len(cross.SHAPES))


class Best(unittest.TestCase):
    def test_no_baseline_harness_or_variant(self) -> None:
        view = rates.View(run(cross, fakes()), windows.UNIT,
                          {"pattern": cross.ONE_WAY, "threads": 2, "size": 64})
        self.assertEqual((view.best(), view.best(min)), ("snmalloc", "glibc"))
        self.assertEqual(view.ratio("sheaf", "snmalloc").value, 0.96)
        self.assertIsNone(view.ratio("sheaf", "no such one"))
        self.assertIsNone(view.ratio("sheaf", None))

    def test_who_stands_still_has_no_ratio(self) -> None:
        workers = [Fake("sheaf", {"working": ["window 3000 3000000"]}),
                   Fake("dpdk", {"working": ["window 0 3000000"]})]
        document = run(cross, workers)
        self.assertIn("producer-consumer", cross.SUITE.text(document))


class Failing(unittest.TestCase):
    def _with(self, name: str, answers: dict[str, Any]) -> list[Worker]:
        return [Fake(name, answers) if worker.name == name else worker for worker in fakes()]

    def test_peer_is_left_out_and_named(self) -> None:
        workers = self._with("dpdk", {"idle": ["resident 3"]})
        document = run(scale, workers)
        working = rates.View(document, windows.UNIT, {"batch": 100, "threads": 1})
        self.assertEqual(set(working.samples), set(RATES) - {"dpdk"})
        self.assertIn("dpdk", rates.View(document, scale.RESIDENT, scale.IDLE).samples)
        self.assertIn("dpdk, batch 100, 1 thread: failed and is left out: the last one",
                      scale.SUITE.text(document))

    def test_late_failure_leaves_no_shorter_series(self) -> None:
        class Tiring(Fake):
            def run(self, *arguments: str) -> list[str]:
                if len(self.asked) > 20:
                    self.answers = {}
                return super().run(*arguments)

        answers = {"working": ["window 3000 3000000"]}
        document = run(cross, [Fake("sheaf", answers), Tiring("glibc", answers)])
        self.assertEqual({len(one.samples) for one in document.results}, {REPEAT})
        self.assertTrue(document.machine["failed"])
        self.assertIn(rates.NOTHING, cross.SUITE.text(document))
        self.assertIn("<svg", cross.SUITE.html(document))

    def test_who_stands_still_is_run_again_once(self) -> None:
        class Starved(Fake):
            def run(self, *arguments: str) -> list[str]:
                lines = super().run(*arguments)
                return ["window 0 3000000"] if len(self.asked) == 1 else lines

        starved = Starved("sheaf", {"working": ["window 3000 3000000"]})
        dead = Fake("dpdk", {"working": ["window 0 3000000"]})
        document = run(cross, [starved, dead], 1)
        rows = len(cross.PATTERNS) * len(cross.SHAPES)
        self.assertEqual((len(starved.asked), len(dead.asked)), (2 * rows + 1, 2 * rows))
        self.assertEqual(document.machine["again"], {"sheaf": 1, "dpdk": rows})
        shape = {"pattern": cross.ONE_WAY, "threads": 2, "size": 64}
        found = rates.View(document, windows.UNIT, shape).samples
        self.assertEqual((found["sheaf"], found["dpdk"]), ([1.0], [0.0]))
        self.assertIn(f"once: sheaf 1, dpdk {rows}.", rates.notes(document)[2])

    def test_ours_ends_the_run(self) -> None:
        with self.assertRaises(Failure):
            run(cross, self._with("sheaf", {}))


class Shown(unittest.TestCase):
    def test_fits_the_terminal(self) -> None:
        for suite in (cross, scale):
            for repetitions in (1, 7):
                text = suite.SUITE.text(run(suite, fakes(), repetitions))
                self.assertLessEqual(max(map(len, text.splitlines())), WIDTH, suite.SUITE.name)

    def test_names_what_is_missing(self) -> None:
        self.assertIn("mimalloc is missing: apt-get install it",
                      cross.SUITE.text(run(cross, fakes())))

    def test_every_bar_is_drawn(self) -> None:
        html = cross.SUITE.html(run(cross, fakes()))
        self.assertIn(seeds.CROSS.date, html)
        self.assertEqual(html.count('class="bar '),
                         len(RATES) * len(cross.PATTERNS) * len(cross.SHAPES))

    def test_scale_has_a_picture_of_the_memory(self) -> None:
        html = scale.SUITE.html(run(scale, fakes(), quick=True))
        self.assertEqual(html.count("<svg"), 2 * 4 + 1)
