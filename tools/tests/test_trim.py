# SPDX-License-Identifier: MIT
"""The suite `trim`: what it reads, and what its tables and its picture show."""
import unittest
from pathlib import Path

from sheaf_bench.allocators import OURS, Allocator, Worker
from sheaf_bench.document import Document
from sheaf_bench.suites import trim
from sheaf_tool.table import WIDTH

MIB = 1 << 20
# Phase, part, seconds, resident bytes, longest.
LINES = [f"grow 1.0000 2.0 {100 * MIB} 9e6", f"most 1.0000 1.0 {90 * MIB} 1e6",
         f"rest 0.4990 5.0 {60 * MIB} 2e6", f"rest 0.5020 5.1 {50 * MIB} 0", f"rest 0.5100 5.1 {45 * MIB} 0", f"rest 1.0001 10.0 {40 * MIB} 0",
         f"free 1.0000 0.5 {30 * MIB} 3e6", f"live 0.5000 5.0 {20 * MIB} 0", f"live 0.8000 8.0 {10 * MIB} 0",
         f"live 1.0001 10.0 {5 * MIB} 4e6", f"trim 1.0000 0.1 {MIB} 0", f"again 1.0000 3.0 {100 * MIB} 9e6"]


def invented(repetitions: int = 3) -> Document:
    document = Document("trim", {"versions": {}, "missing": {}, "mib": 100, "live_ms": 10000})
    workers = [Worker(Allocator(name, "malloc"), Path("bench") / name, None) for name in (OURS, "glibc", "jemalloc")]
    for i in range(repetitions):
        for sizes in trim.SIZES:
            for cell in trim.cells(workers, sizes, ()):
                noisy = [line.replace("3e6", f"{3 + i}e6") for line in LINES]
                trim.record(document, dict(cell.params), noisy)
    return document


class Trim(unittest.TestCase):
    OF = {"allocator": OURS, "sizes": "64", "thread": False}

    def test_looks_that_are_close_are_one_point(self) -> None:
        self.assertEqual(trim.points(invented(), "rest", **self.OF), [(5.0, 50.0), (10.0, 40.0)])

    def test_rows(self) -> None:
        title, *cells = trim.rows(invented(), "64")[0]
        self.assertEqual(title, OURS)
        # All six phases, seconds to a tenth, the longest block of the best repetition, again / first.
        self.assertEqual(cells[:8], ["100", "90.0", "40.0", "30.0", "5.00", "1.00", "8.00", "4.00"])
        self.assertTrue(cells[8].startswith("1.50\n"))

    def test_what_never_falls_to_a_tenth(self) -> None:
        document = invented()
        for result in document.results:
            if result.unit == trim.RESIDENT and result.params["phase"] == "live":
                result.samples = [50.0]
        self.assertEqual(trim.rows(document, "64")[0][7], trim.NOTHING)

    def test_threads_are_named(self) -> None:
        names = [row[0] for row in trim.rows(invented(), "mixed")]
        self.assertEqual(names, [OURS, f"{OURS}, thread", "glibc", "jemalloc", "jemalloc, thread"])

    def test_page_and_picture(self) -> None:
        document = invented()
        text = trim.SUITE.text(document)
        self.assertTrue(all(len(line) <= WIDTH for line in text.splitlines()))
        self.assertEqual([panel.title for panel in trim.panels(document)], list(trim.SIZES.values()))
        self.assertIn("<svg", trim.SUITE.html(document))

    def test_a_quick_run_has_one_table(self) -> None:
        document = invented()
        document.results = [one for one in document.results if one.params["sizes"] == "64"]
        self.assertEqual(len(trim.SUITE.tables(document)), 1)


if __name__ == "__main__":
    unittest.main()
