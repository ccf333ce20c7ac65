# SPDX-License-Identifier: MIT
"""The suite `capacity`: what it runs, what it reads, and its tables."""
import tempfile
import unittest
from pathlib import Path
from unittest import mock

from sheaf_bench.allocators import Worker
from sheaf_bench.document import Document
from sheaf_bench.suites import capacity
from sheaf_bench.suites.suite import Settings
from sheaf_tool.errors import Failure
from sheaf_tool.table import WIDTH

REPEAT = 6
MACHINE = {"cpus": 2}


def answer(program: str, chosen: str) -> list[str]:
    """Works take 4 ns with the library's own capacity, with a fixed one 4 ns and a tenth of it more; 128 is the best."""
    time = {"own": 4.0, "128": 3.0}.get(chosen) or 4.0 + float(chosen) / 10
    if program == "bulk-sheaf":
        return [f"{time} 0.0"] * 3
    if program == "churn-sheaf":
        return [f"free {time / 4} 0", f"again {time / 4} 0", f"free {time / 4} 0", f"again {time * 3 / 4} 0",
                f"free {time / 4} 0", f"again {time * 3 / 4} 0"]
    return [*[f"window 1000000 {time * 1e6}"] * 4, "peak 2048"]


class Capacity(unittest.TestCase):
    def setUp(self) -> None:
        self.asked: list[tuple[str, ...]] = []
        self.directory = Path(self.enterContext(tempfile.TemporaryDirectory()))
        for work in capacity.WORKS:
            (self.directory / f"{work.program}-sheaf").touch()

    def _run(self) -> Document:
        def run(worker: Worker, *arguments: str) -> list[str]:
            self.asked.append((worker.program.name, *arguments))
            chosen = arguments[arguments.index("--capacity") + 1] if "--capacity" in arguments else "own"
            return answer(worker.program.name, chosen)
        with mock.patch.object(Worker, "run", run):
            return capacity.SUITE.run(Settings(self.directory, False, REPEAT), MACHINE)

    def test_each_work_runs_with_each_capacity_in_turn(self) -> None:
        self._run()
        each = len(capacity.WORKS) * len(capacity.CHOICES)
        self.assertEqual(len(self.asked), REPEAT * each)
        self.assertEqual(self.asked[:each], self.asked[each:2 * each])
        self.assertEqual(len(set(self.asked)), each)

    def test_times_and_memory(self) -> None:
        document = self._run()
        for work in capacity.WORKS:
            for chosen, time in ((capacity.OWN, 4.0), (128, 3.0), (60, 10.0)):
                found = capacity._found(document, capacity.NAME, work, chosen)
                self.assertEqual([round(one, 9) for one in found], [time] * REPEAT, (work, chosen))
            self.assertEqual(capacity._found(document, "peak", work, 60), [2048.0] * REPEAT if work.threads else [])

    def test_the_best_fixed_capacity_is_named(self) -> None:
        rows = capacity._ratio_rows(self._run())
        self.assertEqual({row[-1] for row in rows}, {"128"})
        self.assertTrue(all(row[3].startswith("1.33") for row in rows))

    def test_text_fits_and_pictures_have_each_work(self) -> None:
        document = self._run()
        text = capacity.SUITE.text(document)
        self.assertLessEqual(max(map(len, text.splitlines())), WIDTH)
        picture = capacity.SUITE.pictures(document)[0]
        for work in capacity.WORKS:
            self.assertIn(work.title, picture)

    def test_a_program_that_is_not_built(self) -> None:
        (self.directory / "fork-sheaf").unlink()
        with self.assertRaises(Failure) as caught:
            self._run()
        self.assertIn("fork-sheaf is not built", str(caught.exception))
