# SPDX-License-Identifier: MIT
"""`sheaf stat`: a line for each interval, of all caches together."""
import json
import subprocess
import sys
import unittest

from live import HAS_LIVE, PATIENCE, SHEAF, Live, sheaf
from sheaf_tool import stat
from sheaf_tool.rates import Rates
from test_top import cache, reading


class Lines(unittest.TestCase):
    def test_all_caches_together(self) -> None:
        rates = Rates()
        rates.add(reading(cache("a", 1), cache("b", 2)), 10.0)
        rates.add(reading(cache("a", 1, in_use=5, memory=4096, alloc_fastpath=7, alloc_slab=1),
                          cache("b", 2, in_use=2, memory=8192, alloc_slowpath=3, free_fastpath=2,
                                free_slab=4)), 12.0)
        totals = rates.totals()
        self.assertEqual({key: totals[key] for key in (
            "objects_in_use", "slab_bytes", "allocs_per_second", "frees_per_second",
            "slabs_made_per_second", "slabs_freed_per_second")}, {
            "objects_in_use": 7, "slab_bytes": 12288, "allocs_per_second": 5,
            "frees_per_second": 1, "slabs_made_per_second": 0.5, "slabs_freed_per_second": 2})

    def test_a_narrow_terminal_has_room(self) -> None:
        huge = dict.fromkeys((key for _, key, _, _ in stat.COLUMNS), 9999e9)
        self.assertEqual(len(stat.header()), len(stat.line_of(huge)))
        self.assertLessEqual(len(stat.header()), 80)
        for title, _, width, write in stat.COLUMNS:
            self.assertLessEqual(max(len(title), len(write(9999e9))), width)


@unittest.skipUnless(HAS_LIVE, "needs a build and /dev/shm")
class OnAProcess(unittest.TestCase):
    def test_count(self) -> None:
        with Live() as live:
            live.do("create first")
            live.do("alloc 78")
            live.do("free 1")
            found = sheaf("stat", "-i", "0.05", "--count", "3", str(live.pid))
            self.assertEqual(found.returncode, 0, found)
            lines = found.stdout.splitlines()
            self.assertEqual(lines[0], stat.header())
            self.assertEqual([line.split()[4] for line in lines[1:]], ["77"] * 3)

    def test_json_lines(self) -> None:
        with Live() as live:
            live.do("create first")
            live.do("alloc 78")
            live.do("free 1")
            found = sheaf("stat", "-i", "0.05", "--count", "2", "--json", str(live.pid))
            lines = [json.loads(line) for line in found.stdout.splitlines()]
            self.assertEqual([line["objects_in_use"] for line in lines], [77] * 2)
            self.assertGreater(lines[0]["resident_bytes"], 0)

    def test_process_ends(self) -> None:
        with Live() as live:
            live.do("create first")
            with subprocess.Popen([sys.executable, SHEAF, "stat", "-i", "0.05", str(live.pid)],
                                  text=True, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                  stderr=subprocess.PIPE) as process:
                process.stdout.readline()
                live.process.communicate()
                _, errors = process.communicate(timeout=PATIENCE)
                self.assertEqual(process.returncode, 4)
                self.assertEqual(errors, f"sheaf: process {live.pid} has ended\n")

    def test_wrong_words(self) -> None:
        for words in (("--count", "0"), ("--count", "x"), ("-i", "0"), ("-i", "x")):
            self.assertEqual(sheaf("stat", *words, "1").returncode, 2, words)
