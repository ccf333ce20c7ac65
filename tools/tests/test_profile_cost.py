# SPDX-License-Identifier: MIT
"""The suite `profile`: what it reads, what it expects, and its tables."""
import unittest
from unittest import mock

from sheaf_bench.allocators import OURS
from sheaf_bench.document import Document
from sheaf_bench.suites import profile
from sheaf_tool.table import WIDTH


def invented() -> Document:
    document = Document("profile", {"missing": {}, "left out": {"sqlite": "there is no sqlite3"}})
    for i in range(6):
        for which, ms in ((profile.OFF, 100 + i), (profile.ON, 101 + i)):
            profile._keep_program(document, {"allocator": OURS, "program": "words", "profile": which}, [f"cpu {ms}", "peak 3"])
            profile._keep_mix(document, {"allocator": OURS, "program": "mix: git", "profile": which},
                              [f"window 1000 {one}" for one in (18000, 20000, 90000)])
        for size in profile.SIZES:
            profile._keep_pairs(document, {"allocator": OURS, "size": size, "mean": profile.MOST}, ["10.0", "99.0", "10.0"])
            profile._keep_pairs(document, {"allocator": OURS, "size": size, "mean": profile.LEAST},
                                [str(10 + 1000 * profile.chance(size, profile.LEAST))])
        heap = {"allocator": OURS, "gib": 10}
        profile._keep_heap(document, {**heap, "profile": profile.OFF}, ["MiB 80"])
        profile._keep_heap(document, {**heap, "profile": profile.ON},
                           ["MiB 88", "ms of an answer 12.5", "samples 20000", "stacks 1024"])
    return document


def counts(size: int, n: int) -> dict[str, int]:
    return {"object_size": size, "alloc_fastpath": n - 1, "alloc_slowpath": 1}


class Profile(unittest.TestCase):
    def setUp(self) -> None:
        few = mock.patch("sheaf_tool.stats.RESAMPLES", 40)
        few.start()
        self.addCleanup(few.stop)

    def test_a_sample_costs_what_a_pair_costs_more_by_its_chance(self) -> None:
        for size in profile.SIZES:
            for one in profile.sample_costs(invented(), size):
                self.assertAlmostEqual(one, 1000, delta=0.1)
        self.assertIsNone(profile.dearest(Document("profile", {})))

    def test_samples_are_expected_by_size(self) -> None:
        processes = [{"caches": [counts(64, 8192 * 1000)], "destroyed_caches": [counts(1 << 30, 5)]}]
        allocations, taken = profile.expected(processes)
        self.assertEqual(allocations, 8192 * 1000 + 5)
        self.assertAlmostEqual(taken, 1005, delta=0.1)
        document = invented()
        for name in profile.names(document):
            with mock.patch.object(profile.real, "counted", return_value=processes):
                program = mock.Mock()
                program.name = name
                profile._count(document, program, mock.Mock())
        words, git = profile.program_rows(document)
        self.assertEqual((words[0], words[1], words[3], words[4]), ("words", "102 ms", "9804", "0.98"))
        self.assertEqual((git[1], git[3]), ("20.0 ns/pair", "6134"))

    def test_a_heap(self) -> None:
        self.assertEqual([[one.split("\n")[0] for one in row] for row in profile.heap_rows(invented())],
                         [["10", "20000", "1024", "12.5", "8.00"]])
        self.assertEqual(profile.heap_rows(Document("profile", {})), [])
        self.assertEqual(profile.heap_gib(True), 1)

    def test_tables_fit(self) -> None:
        self.assertLessEqual(max(map(len, profile.SUITE.text(invented()).splitlines())), WIDTH)
        self.assertIn("<svg", profile.SUITE.html(invented()))


if __name__ == "__main__":
    unittest.main()
