# SPDX-License-Identifier: MIT
"""`sheaf bench --against`: ours in two builds, interleaved; pairs, their verdicts, and what is refused."""
import unittest
from pathlib import Path
from typing import Any
from unittest import mock

from live import sheaf
from sheaf_bench import against
from sheaf_bench.allocators import Allocator, Worker
from sheaf_bench.compare import IMPROVEMENT, REGRESSION, SAME, TOO_FEW
from sheaf_bench.document import Document
from sheaf_bench.suites import cells
from sheaf_bench.suites.suite import Settings
from sheaf_tool.errors import Failure
from sheaf_tool.table import WIDTH

NOW, BEFORE = Path("/now/batch-sheaf"), Path("/before/batch-sheaf")
SAMPLES = [10.0, 10.4, 11.0, 10.2, 10.7, 12.0]


def keep(document: Document, params: dict[str, Any], lines: list[str]) -> None:
    document.result("batch", params, "ns/pair").samples.append(float(lines[0]))


def measured(answers: dict[Path, Any], repeat: int = 6) -> tuple[Document, list[Path]]:
    """The document of a suite with these answers of programs, and the programs in their order."""
    asked: list[Path] = []

    def run(self: Worker, *_: str) -> list[str]:
        asked.append(self.program)
        found = answers[self.program]
        if found is None:
            raise Failure(f"{self.program}: not there")
        return [str(found[asked.count(self.program) - 1])]

    workers = [Worker(Allocator("sheaf", "sheaf"), NOW, None),
               Worker(Allocator("glibc", "malloc"), Path("/now/batch-malloc"), None)]
    found = [cells.Cell(worker, {"allocator": worker.name, "batch": 10}, (), keep) for worker in workers]
    document = Document("batch", {})
    with mock.patch.object(Worker, "run", run):
        cells.measure(document, Settings(Path("/now"), False, repeat, BEFORE.parent),
                      [cells.Part(found, 9, 9, 1.0, all_needed=True)])
    return document, asked


class Against(unittest.TestCase):
    def test_both_builds_in_turn_and_no_peer(self) -> None:
        _, asked = measured({NOW: SAMPLES, BEFORE: SAMPLES}, 2)
        self.assertEqual(asked, [NOW, BEFORE, NOW, BEFORE])

    def test_a_build_that_made_the_calls_is_told(self) -> None:
        document, _ = measured({NOW: SAMPLES, BEFORE: SAMPLES})
        document.machine.update({"sheaf": "in place", "sheaf before": "in place"})
        self.assertNotIn("differ:", against.text(document))
        document.machine["sheaf before"] = "called"
        self.assertIn("The common calls differ: called in A, in place in B.", against.text(document))

    def test_ratios_are_of_pairs(self) -> None:
        """The samples spread by a fifth, but each pair differs by the same twentieth."""
        more = [1.05 * one for one in SAMPLES]
        for now, before, verdict in ((SAMPLES, SAMPLES, SAME), (more, SAMPLES, REGRESSION),
                                     (SAMPLES, more, IMPROVEMENT)):
            (pair,) = against.pairs(measured({NOW: now, BEFORE: before})[0])
            self.assertEqual((pair.verdict, pair.params), (verdict, {"batch": 10}))
        (pair,) = against.pairs(measured({NOW: more, BEFORE: SAMPLES}, 5)[0])
        self.assertEqual(pair.verdict, TOO_FEW)

    def test_text(self) -> None:
        text = against.text(measured({NOW: [1.05 * one for one in SAMPLES], BEFORE: SAMPLES})[0])
        self.assertIn("1.05  1.05–1.05  (R)", text)
        self.assertIn("1 regression (R)", text)
        self.assertLessEqual(max(map(len, text.splitlines())), WIDTH)

    def test_what_the_other_build_lacks_is_left_out_and_named(self) -> None:
        document, _ = measured({NOW: SAMPLES, BEFORE: None})
        self.assertEqual(against.pairs(document), [])
        self.assertIn("before, 10: failed and is left out: ", against.text(document))

    def test_the_same_kind_of_process_and_program(self) -> None:
        """A worker may be of a class of its own (suites/debug.py), or an example beside the benchmarks."""
        class Other(Worker):
            pass

        settings = Settings(Path("/now/bench"), False, 1, Path("/before/bench"))
        for program, wanted in (("/now/bench/tree", "/before/bench/tree"),
                                ("/now/examples/words", "/before/examples/words"),
                                ("/usr/bin/tool", "/usr/bin/tool")):
            cell = cells.Cell(Other(Allocator("sheaf", "sheaf"), Path(program), None), {"allocator": "sheaf"},
                              (), keep)
            part = cells.with_other_build(cells.Part([cell], 1, 1, 1.0), settings)
            self.assertEqual([str(one.worker.program) for one in part.cells], [program, wanted])
            self.assertEqual([type(one.worker) for one in part.cells], [Other, Other])

    def test_refusals(self) -> None:
        for words, said in ((("count",), "--against"), (("batch", "--html"), "--against"),
                            (("batch",), "no benchmark programs in /nowhere/bench")):
            found = sheaf("bench", *words, "--against", "/nowhere")
            self.assertNotEqual(found.returncode, 0)
            self.assertIn(said, found.stderr)


if __name__ == "__main__":
    unittest.main()
