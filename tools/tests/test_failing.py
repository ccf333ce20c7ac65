# SPDX-License-Identifier: MIT
"""The suite `failing`: what it reads, and its tables."""
import unittest
from unittest import mock

from sheaf_bench.allocators import OURS
from sheaf_bench.document import Document
from sheaf_bench.suites import failing
from sheaf_tool.table import WIDTH

CALLS = [f"{limit}-{way}" for limit in failing.LIMITS for way in failing.CALLS]
CALLS += [call for misuse in failing.MISUSES for call in (misuse, misuse + failing.REPORTED)]


def invented(simulated: bool = True) -> Document:
    document = Document("failing", {"versions": {}, "missing": {}})
    for i in range(6):
        for caches, slabs in failing.SITUATIONS:
            params = {"allocator": OURS, "caches": caches, "slabs": slabs}
            lines = [f"{call} {100 + i + block}" for call in CALLS for block in range(5)]
            failing._keep_times(document, params, lines)
        for check in failing.CHECKS:
            failing._keep_times(document, {"allocator": OURS, "check": check},
                                [f"{misuse}{which} 200" for misuse in failing.CHECKED for which in ("", failing.REPORTED)])
        failing._keep_times(document, {"allocator": "glibc"}, [f"{failing.PEERS_CALL} {206 + 2 * i}"])
    for caches, slabs in failing.SITUATIONS if simulated else ():
        failing._keep_steps(document, {"allocator": OURS, "caches": caches, "slabs": slabs},
                            [f"{call} 1005 486" for call in CALLS])
    return document


class Failing(unittest.TestCase):
    def setUp(self) -> None:
        few = mock.patch("sheaf_tool.stats.RESAMPLES", 40)
        few.start()
        self.addCleanup(few.stop)

    def test_times_are_medians_of_blocks(self) -> None:
        found = invented().samples(failing.NS, allocator=OURS, call="group-after", caches=100, slabs=1)
        self.assertEqual(found, [102, 103, 104, 105, 106, 107])

    def test_each_call_has_a_row(self) -> None:
        document = invented()
        self.assertEqual(len(failing.null_rows(document)), len(failing.LIMITS) * len(failing.CALLS))
        self.assertEqual(len(failing.misuse_rows(document)), len(failing.MISUSES))
        self.assertEqual({row[1] for row in failing.steps_rows(document)}, {"1005 / 486"})
        self.assertEqual([row[0] for row in failing.peer_rows(document)], [OURS, "glibc"])

    def test_without_the_simulator_there_are_no_steps(self) -> None:
        self.assertEqual({row[1] for row in failing.steps_rows(invented(simulated=False))}, {"–"})

    def test_tables_fit(self) -> None:
        self.assertLessEqual(max(map(len, failing.SUITE.text(invented()).splitlines())), WIDTH)
        self.assertIn("<svg", failing.SUITE.html(invented()))


if __name__ == "__main__":
    unittest.main()
