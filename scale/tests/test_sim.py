# SPDX-License-Identifier: MIT
"""`sheaf sim scale`: points of a curve, what a run prints, the tables, and JSON that can be compared."""
import json
import os
import unittest
from pathlib import Path

from live import sheaf
from sheaf_bench import compare, sim, sim_check, sim_growth, sim_point, sim_seeds, sim_study
from sheaf_bench.document import Document
from sheaf_tool.errors import Failure, Usage
from sheaf_tool.table import WIDTH

PRINTED = """\
cpus 4
operations 2000
seconds 0.000100000
speed 4.000
windows 5
steady 1
bytes 2097152
most 4194304
moved program object 4000
moved allocator object 1000
moved allocator cell 500
from allocator llc 1500
lock node 20 2 0.000010000 0.000030000
hot 0x10 1000 0.000020000
hash 0xabc
"""
BUILD = os.environ.get("SHEAF_BUILD", "")
HAS_PROGRAM = bool(BUILD) and (Path(BUILD) / "scale/sheaf-sim-scale").exists()


def point(allocator: str = "sheaf", cpus: int = 4, operations: int = 2000) -> sim.Point:
    found = sim_point.parse(sim.Point("m", "cross-near", allocator), PRINTED)
    found.cpus, found.speed, found.operations = cpus, cpus, operations
    return found


class Runs(unittest.TestCase):
    def test_numbers_of_a_run(self) -> None:
        found = point()
        self.assertAlmostEqual(found.rate, 20)
        self.assertAlmostEqual(found.lines("allocator"), 0.75)
        self.assertAlmostEqual(found.lines("allocator", "cell"), 0.25)
        self.assertAlmostEqual(found.lines("program"), 2)
        self.assertAlmostEqual(found.in_locks(), 10)
        self.assertTrue(found.steady)

    def test_points(self) -> None:
        machine = sim.machine_file("epyc-2x96-smt")
        self.assertEqual(sim._points(None, machine, False, False), [1, 2, 8, 32, 96, 384])
        self.assertEqual(sim._points(None, machine, True, False), [2, 8, 32, 96, 384])
        self.assertEqual(sim._points(None, sim.machine_file("ryzen-5700"), False, False), [1, 2, 8, 16])
        self.assertEqual(sim._points(None, machine, False, True), [2, 8, 32])
        self.assertEqual(sim._points(None, sim.machine_file("ryzen-5700"), False, True), [2, 8, 16])
        self.assertEqual(sim._points("4,2", machine, True, True), [4, 2])
        with self.assertRaises(Usage):
            sim._points("4-8", machine, False, False)

    def test_wrong_names(self) -> None:
        with self.assertRaisesRegex(Usage, "there is no machine x; there are epyc-2x96-smt, "):
            sim.machine_file("x")
        with self.assertRaisesRegex(Failure, "/nowhere/x: cannot be read: No such file"):
            sim._points(None, sim.machine_file("/nowhere/x"), False, False)

    def test_table(self) -> None:
        text = sim._table([point(), point("cpu-slab", operations=123456789), point(cpus=384, operations=96000)])
        rows = [line.split() for line in text.splitlines()[2:]]
        self.assertEqual(rows[0], ["4", "sheaf", "20.0", "1.00", "0.750", "2.000", "10.0", "%", "2.00", "4.00"])
        self.assertEqual(rows[2][3], "0.50")
        self.assertLessEqual(max(map(len, text.splitlines())), WIDTH)

    def test_beside_the_ideal(self) -> None:
        text = sim._table([point(), point("ideal", operations=2500), point(cpus=2)])
        rows = [line.split() for line in text.splitlines()[2:]]
        self.assertEqual([row[4] for row in rows], ["0.80", "1.00", "0.750"])

    def test_kinds(self) -> None:
        text = sim._by_kind([point()])
        self.assertIn("object 0.500, cell 0.250", text)
        self.assertIn("node 0.0100", text)

    def test_many_kinds_fit(self) -> None:
        full = point()
        full.moved.update({("allocator", f"kind-{n}"): 24690 for n in range(8)})
        self.assertLessEqual(max(map(len, sim._by_kind([full]).splitlines())), WIDTH)

    def test_an_idle_run(self) -> None:
        idle = point(operations=0)
        self.assertIn("0.00", sim._table([idle]))
        self.assertIn("none", sim._by_kind([idle]))

    def test_comparable(self) -> None:
        self.assertEqual(compare.verdict_of("Mops/s", [2.0], [1.0], simulated=True), compare.REGRESSION)
        self.assertEqual(compare.verdict_of("lines/op", [2.0], [1.0], simulated=True), compare.IMPROVEMENT)
        self.assertEqual(compare.verdict_of("Mops/s", [2.0], [1.0]), compare.TOO_FEW)


def study(rates: dict[str, float] | None = None) -> Document:
    """All points of the study, at 100 M/s, or as said for an allocator."""
    points = sim_study.points()
    for one in points:
        one.operations, one.seconds = int(1e6 * (rates or {}).get(one.allocator, 100)), 0.01
        one.speed, one.steady = one.cpus, True
    return sim_point.document(points, {"libsheaf": "0", "seed": 1})


class Study(unittest.TestCase):
    def test_points_are_once(self) -> None:
        points = [(one.machine, one.workload, one.allocator, one.cpus, one.per_cpu) for one in sim_study.points()]
        self.assertEqual(len(points), len(set(points)))
        for machine, _, _, cpus, _ in points:
            self.assertLessEqual(cpus, sim_point.number_of_cpus(sim.machine_file(machine)))

    def test_state_of_repetitions(self) -> None:
        results = Document("cross", {})
        for allocator, samples in (("sheaf", [240, 44, 250]), ("cpu-slab", [120, 13, 124]), ("no-sheaf", [17, 9, 18])):
            results.result("cross", {"allocator": allocator, **sim_check._QUEUE}, "Mpairs/s").samples.extend(samples)
        apart, near = [case for case in sim_check.CASES if case.suite == "cross"]
        self.assertEqual(sim_check.measured(apart, results), {"sheaf": 44, "cpu-slab": 13, "no-sheaf": 9})
        self.assertEqual(sim_check.measured(near, results)["cpu-slab"], 122)
        results.results[0].samples[1] = 240
        self.assertEqual(sim_check.measured(apart, results), {})

    def test_off_by_more_than_a_quarter(self) -> None:
        def fits(model: float) -> bool:
            return sim_check.Cell(sim_check.CASES[0], "cpu-slab", (200.0, 100.0), (model, 100.0)).fits()
        self.assertTrue(fits(160) and fits(249))
        self.assertFalse(fits(149) or fits(251))

    def test_beside_measurements(self) -> None:
        cells = sim_check.cells(study())
        self.assertGreaterEqual(len(cells), 2 * 3)
        self.assertEqual({cell.ratios()[1] for cell in cells}, {1})
        said = sim_check.text(cells)
        self.assertIn(f" of {len(cells)} ratios are within 25 % of those measured", said)
        self.assertLessEqual(max(map(len, said.splitlines())), WIDTH)

    def test_documents_cell_by_cell(self) -> None:
        model = study({"kernel-both-spare": 150})
        cells = {(cell.tasks, cell.column): cell for title, table in sim_seeds.tables(model) for cell in table
                 if title.endswith("AMD EPYC")}
        self.assertAlmostEqual(cells[64, "the rule"].model, 50)
        self.assertTrue(cells[64, "the rule"].fits())
        self.assertFalse(cells[1, "the rule"].counts())
        text = sim_seeds.text(model)
        self.assertIn("+26 / +50", text)
        self.assertIn("-50 / +0 !", text)

    def test_before_and_after(self) -> None:
        model = study({"sheaf": 70})
        text = sim_growth.text(model, study())
        self.assertIn("10000 → 7000", text)
        self.assertIn("0.70 of ideal", text)
        self.assertIn("0.25 of linear", text)
        self.assertNotIn("lines/op, ", sim_growth.missed(model))

    def test_documents_calls(self) -> None:
        text = sim_seeds.text(study({"kernel-first": 90}))
        self.assertIn("-10.0", text)
        self.assertIn("+10.0 !", sim_seeds.text(study({"kernel-first": 110})))

    def test_page_and_picture(self) -> None:
        model = study()
        self.assertLessEqual(max(map(len, sim_study.text(model, model).splitlines())), WIDTH)
        self.assertIn("mmap2 on epyc-2x96-smt", sim_study.curves(model))


@unittest.skipUnless(HAS_PROGRAM, "needs a build")
class Program(unittest.TestCase):
    def test_json_and_compare(self) -> None:
        words = ("sim", "scale", "--machine", "this-2cpu", "--workload", "batch-10", "--allocator", "sheaf", "--quick",
                 "--build", BUILD)
        found = sheaf(*words, "--json")
        self.assertEqual((found.returncode, found.stderr), (0, ""))
        results = json.loads(found.stdout)["results"]
        self.assertEqual(set(results[0]["samples"]["sim-scale"]), {"Mops/s", "lines/op", "MiB", "MiB at most", "% in locks", "CPUs alone", "steady"})
        self.assertEqual(results[0]["params"], {"allocator": "sheaf", "machine": "this-2cpu",
                                                "workload": "batch-10", "cpus": 2, "tasks": 2})

    def test_tables_fit(self) -> None:
        found = sheaf("sim", "scale", "--machine", "memoryless-node", "--workload", "cross-far", "--cpus", "2,4",
                      "--quick", "--heat", "--build", BUILD)
        self.assertEqual(found.returncode, 0, found.stderr)
        self.assertIn("Where CPUs wait for lines, and how many move, sheaf on 4 CPUs:", found.stdout)
        self.assertNotIn("\nsrc/rings.c", found.stdout)  # it is in scale/src/
        self.assertLessEqual(max(map(len, found.stdout.splitlines())), WIDTH)

    def test_list(self) -> None:
        text = sheaf("sim", "scale", "--list", "--build", BUILD).stdout
        for name in (*sim.machine_names(), "batch-1000", "cross-far", "cpu-slab"):
            self.assertIn(f" {name} ", text)

    def test_wrong_words(self) -> None:
        for words, said in ((("--workload", "x"), "there is no workload x; there are batch-10, batch-100, "),
                            (("--cpus", "x"), "--cpus wants numbers such as 2,8,96, not x"),
                            (("--cpus", "999"), "epyc-2x96-smt has 384 CPUs, not 999\n")):
            found = sheaf("sim", "scale", *words, "--build", BUILD)
            self.assertNotEqual(found.returncode, 0)
            self.assertIn(said, found.stderr)
            self.assertEqual(len(found.stderr.splitlines()), 1, found.stderr)


if __name__ == "__main__":
    unittest.main()
