# SPDX-License-Identifier: MIT
"""`sheaf detect`: what counts as detected, the classes and their programs, and the table."""
import re
import unittest
from dataclasses import asdict

from sheaf_bench import detect, detection
from sheaf_bench.detectors import MALLOC, SHEAF, Detector, ours
from sheaf_tool.paths import ROOT
from sheaf_tool.table import WIDTH

PLAIN = Detector("plain", "plain", SHEAF)
TOOL = Detector("tool", "tool", MALLOC)
GUARD = Detector("guard", "guard", MALLOC, guards=True)
CASES = ROOT / "bench" / "detect" / "cases"
USUAL = {detect._plain("Tool 1.0, at your service")}


def judge(row: Detector, *lines: str, status: int = 0) -> tuple[str, bool]:
    found = detect.judge(row, "bug", "\n".join(lines), status, USUAL)
    return found.detected, found.culprit


class Judge(unittest.TestCase):
    def test_at_once_is_before_done(self) -> None:
        self.assertEqual(judge(TOOL, "detect: misuse", "double free", status=-6), ("at once", False))
        self.assertEqual(judge(TOOL, "detect: misuse", "detect: done", "double free"), ("later", False))

    def test_silence_is_no(self) -> None:
        self.assertEqual(judge(TOOL, "detect: misuse", "detect: done", "detect: exit"), ("no", False))
        self.assertEqual(judge(TOOL, "Tool 2.5, at your service", "detect: misuse", "detect: done"), ("no", False))

    def test_what_it_says_about_right_use_does_not_count(self) -> None:
        self.assertEqual(judge(TOOL, "detect: misuse", "Tool 1.1, at your service", "detect: done"), ("no", False))

    def test_a_crash_counts_at_a_guard_only(self) -> None:
        self.assertEqual(judge(TOOL, "detect: misuse", status=-11), ("no", False))
        self.assertEqual(judge(GUARD, "detect: misuse", status=-11), ("at once", False))
        self.assertEqual(judge(GUARD, "detect: misuse", "detect: done", status=-11), ("no", False))

    def test_no_such_bug(self) -> None:
        self.assertEqual(judge(TOOL, status=77), ("none", False))

    def test_nothing_before_the_misuse(self) -> None:
        self.assertEqual(judge(TOOL, "double free", status=-6), ("no", False))

    def test_the_c_library_is_not_ours(self) -> None:
        self.assertEqual(judge(PLAIN, "detect: misuse", "free(): invalid pointer", status=-6), ("no", False))
        self.assertEqual(judge(PLAIN, "detect: misuse", "libsheaf: BUG conn: x", "detect: done"), ("at once", False))

    def test_culprit(self) -> None:
        self.assertEqual(judge(TOOL, "detect: misuse", "bad", "  in main"), ("at once", True))
        self.assertEqual(judge(TOOL, "detect: misuse", "detect: done", "bad", "  in main"), ("later", False))
        self.assertEqual(judge(TOOL, "detect: misuse", "detect: done", "bad", "made_here+0x9"), ("later", True))


class Classes(unittest.TestCase):
    def test_thirty_with_a_program_each(self) -> None:
        bugs = detection.bugs()
        self.assertEqual(len(bugs), 30)
        self.assertEqual({bug.name for bug in bugs} | {detect.RIGHT_USE}, {path.stem for path in CASES.glob("*.c")})
        for bug in bugs:
            self.assertIn(f'CASE("{bug.name}")', (CASES / f"{bug.name}.c").read_text())
            self.assertIn(bug.seen_by, detection.SEEN_BY)
            self.assertRegex(bug.source, r"^CWE-\d+")
        self.assertIn("none", {bug.seen_by for bug in bugs})

    def test_rows_are_what_the_library_knows(self) -> None:
        known = "  slab_debug=             check caches: letters of FZPUTAO, then names"
        self.assertEqual([row.code for row in ours(known)], ["plain", "F", "FZ", "FZPU"])
        known = known.replace("TAO", "TAOGQS") + "\n  hardened     a preset"
        self.assertEqual([row.code for row in ours(known)],
                         ["plain", "S", "hard", "F", "FZ", "FZPU", "G", "Q", "FZPUGQ"])


class Table(unittest.TestCase):
    def test_fits_and_counts(self) -> None:
        bugs = detection.bugs()
        rows = [{"code": f"row{i}", "name": "a tool", "options": "", "ours": False} for i in range(22)]
        found = [asdict(detect.Found(bug.name, row["code"], "at once" if i else "none", bool(i)))
                 for i, bug in enumerate(bugs) for row in rows]
        page = detection.page(detection.Detection({}, rows, found))
        self.assertLessEqual(max(map(len, page.splitlines())), WIDTH)
        self.assertEqual(detection.counts(detection.Detection({}, rows, found), rows[0]), (29, 29, 29, 29))
        self.assertTrue(re.search(r"29/29 +29 +29  a tool", page))


if __name__ == "__main__":
    unittest.main()
