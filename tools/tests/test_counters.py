# SPDX-License-Identifier: MIT
"""Counters next to figures: how they are read from a worker's statistics, and how they are shown."""
import unittest
from pathlib import Path
from unittest import mock

from sheaf_bench import counters
from sheaf_bench.allocators import OURS, Allocator, Worker
from sheaf_bench.document import Document
from sheaf_bench.suites.suite import Settings
from sheaf_tool.errors import Failure
from sheaf_tool.table import WIDTH


def lines(**events):
    events = {"alloc_fastpath": 0, "sheaf_flush": 0, **events}
    return ["4.5", 'sheaf_cache_objects{cache="bench",id="1"} 7',
            *(f'sheaf_cache_{event}_total{{cache="{cache}",id="1"}} {count}'
              for event, count in events.items() for cache in ("bench", "other"))]


class Counters(unittest.TestCase):
    def test_events_are_per_thousand_allocations(self):
        found = counters.parse(lines(alloc_fastpath=1900, alloc_slowpath=100, barn_get=50))
        self.assertEqual(found["barn_get"], 25)
        self.assertEqual(found["alloc_slowpath"], 50)
        self.assertNotIn("sheaf_flush", found)

    def test_a_worker_without_statistics_is_named(self):
        for wrong in ([], ["4.5"], lines()[:2], lines()):
            with self.assertRaises(Failure):
                counters.parse(wrong)

    def test_only_what_happened_is_shown_within_the_width(self):
        works = {f"work\n{i}": counters.parse(lines(alloc_fastpath=1000, barn_put=i))
                 for i in range(1, 20)}
        text = counters.text(Document("batch", {counters.KEY: works}))
        self.assertIn("barn_put", text)
        self.assertNotIn("sheaf_flush", text)
        self.assertLessEqual(max(map(len, text.splitlines())), WIDTH)
        self.assertIn("barn_put", counters.html(Document("batch", {counters.KEY: works})))

    def test_older_results_have_none(self):
        self.assertEqual(counters.text(Document("batch", {})), "")
        self.assertEqual(counters.html(Document("batch", {})), "")

    def test_against_another_build_nothing_is_counted(self):
        workers = [Worker(Allocator(name, name), Path("bench", name), None) for name in (OURS, "glibc")]
        for against in (None, Path("old")):
            document = Document("batch", {})
            with mock.patch.object(Worker, "run", return_value=lines(alloc_fastpath=1)) as run:
                counters.add(document, Settings(Path("bench"), True, None, against), workers,
                             [("work", ("--n", "1"))])
            self.assertEqual(run.call_count, 0 if against else 1)
            self.assertEqual(list(document.machine), [] if against else [counters.KEY])
