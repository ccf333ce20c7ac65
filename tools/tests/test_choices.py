# SPDX-License-Identifier: MIT
"""The suites `capacity` and `machines`: what they run, what they read, and their tables."""
import tempfile
import unittest
from pathlib import Path
from unittest import mock

from sheaf_bench.allocators import Worker
from sheaf_bench.document import Document
from sheaf_bench.suites import capacity, machines
from sheaf_bench.suites.choices import PEAK, TIME
from sheaf_bench.suites.suite import Settings, Suite
from sheaf_tool.errors import Failure
from sheaf_tool.table import WIDTH

REPEAT = 6
MACHINE = {"cpus": 2}


def answer(program: str, chosen: str) -> list[str]:
    """Works take 4 ns with the library's own capacity, with a fixed one 4 ns and a tenth of it more; 128 is the best."""
    time = {"own": 4.0, "128": 3.0}.get(chosen) or 4.0 + float(chosen) / 10
    if program in ("bulk-sheaf", "batch-sheaf-invented"):
        return [f"{time} 0.0"] * 3
    if program == "churn-sheaf":
        return [f"free {time / 4} 0", f"again {time / 4} 0", f"free {time / 4} 0", f"again {time * 3 / 4} 0",
                f"free {time / 4} 0", f"again {time * 3 / 4} 0"]
    return [*[f"window 1000000 {time * 1e6}"] * 4, "peak 2048"]


class Capacity(unittest.TestCase):
    def setUp(self) -> None:
        self.asked: list[tuple[str, ...]] = []
        self.environments: list[dict[str, str]] = []
        self.directory = Path(self.enterContext(tempfile.TemporaryDirectory()))
        for work in (*capacity.WORKS, *machines.WORKS):
            for ending in "", machines.INVENTED:
                (self.directory / f"{work.program}-sheaf{ending}").touch()

    def _run(self, suite: Suite = capacity.SUITE) -> Document:
        def run(worker: Worker, *arguments: str) -> list[str]:
            self.asked.append((worker.program.name, *arguments))
            chosen = arguments[arguments.index("--capacity") + 1] if "--capacity" in arguments else "own"
            self.environments.append(dict(worker.allocator.environment))
            return answer(worker.program.name, chosen)
        with mock.patch.object(Worker, "run", run):
            return suite.run(Settings(self.directory, False, REPEAT), MACHINE)

    def test_each_work_runs_with_each_capacity_in_turn(self) -> None:
        self._run()
        each = len(capacity.WORKS) * len(capacity.ALL.choices)
        self.assertEqual(len(self.asked), REPEAT * each)
        self.assertEqual(self.asked[:each], self.asked[each:2 * each])
        self.assertEqual(len(set(self.asked)), each)

    def test_times_and_memory(self) -> None:
        document = self._run()
        for work in capacity.WORKS:
            for chosen in capacity.ALL.choices:
                time = {"own": 4.0, "128": 3.0, "60": 10.0}.get(chosen.name)
                found = capacity.ALL.found(document, TIME, work, chosen)
                if time:
                    self.assertEqual([round(one, 9) for one in found], [time] * REPEAT, (work, chosen))
            peaks = capacity.ALL.found(document, PEAK, work, capacity.OWN)
            self.assertEqual(peaks, [2048.0] * REPEAT if work.threads else [])

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

    def test_machines_are_invented(self) -> None:
        document = self._run(machines.SUITE)
        each = self.environments[:4]
        self.assertEqual(each[:2], [{}, {"SHEAF_OPTIONS": "numa=fake=8"}])
        self.assertIn("node7=336-383;", each[3]["INVENTED_MACHINE"])
        text = machines.SUITE.text(document)
        self.assertLessEqual(max(map(len, text.splitlines())), WIDTH)
        self.assertIn("1.00", text)

    def test_a_program_that_is_not_built(self) -> None:
        (self.directory / "fork-sheaf").unlink()
        with self.assertRaises(Failure) as caught:
            self._run()
        self.assertIn("fork-sheaf is not built", str(caught.exception))
