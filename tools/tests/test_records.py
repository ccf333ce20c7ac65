# SPDX-License-Identifier: MIT
"""Records of check-deep: what names a tree, what a stage leaves behind, and what the page says of it."""
from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path
from typing import Any
from unittest import mock

SCRIPTS = str(Path(__file__).resolve().parents[2] / "scripts")
sys.path.insert(0, SCRIPTS)
from lib import builds, children, page, records, stage  # noqa: E402
sys.path.remove(SCRIPTS)


class Repository(unittest.TestCase):
    """A repository of one source, and two stages."""

    def setUp(self) -> None:
        place = tempfile.TemporaryDirectory()
        self.addCleanup(place.cleanup)
        self.root = Path(place.name)
        (self.root / "docs").mkdir()
        for module, name, value in ((builds, "ROOT", place.name), (records, "ROOT", place.name), (page, "ROOT", place.name),
                                    (records, "FOLDER", self.root / "verification"), (page, "PATH", self.root / records.PAGE),
                                    (page, "FOUND", self.root / "verification/found.md")):
            patched = mock.patch.object(module, name, value)
            patched.start()
            self.addCleanup(patched.stop)
        self.git("init", "-q")
        self.commit("source")
        self.stages = {name: stage.Stage(name, "what it does", print) for name in ("one", "two")}

    def git(self, *arguments: str) -> None:
        subprocess.run(["git", "-c", "user.name=n", "-c", "user.email=e", *arguments], cwd=self.root, check=True)

    def commit(self, path: str) -> None:
        (self.root / path).parent.mkdir(exist_ok=True)
        with open(self.root / path, "a", encoding="utf-8") as file:
            file.write("x")
        self.git("add", "-A")
        self.git("commit", "-q", "-m", path)

    def tree(self) -> Any:
        tree, obstacle = records.tree()
        self.assertIsNone(obstacle)
        return tree

    def ran(self, verdict: str) -> dict[str, Any]:
        return records.summary([("a test", verdict, "a line\n", 0.1)], verdict, 60, 30)

    def row(self, name: str) -> str:
        return next(line for line in page.text(self.stages).splitlines() if line.startswith(f"| {name} |"))

    def test_records_do_not_change_the_name_of_a_tree(self) -> None:
        before = self.tree()
        self.commit("verification/one.json")
        self.commit("docs/verification.md")
        self.assertEqual(self.tree().name, before.name)
        self.commit("source")
        self.assertNotEqual(self.tree().name, before.name)

    def test_a_tree_that_is_not_committed_has_no_name(self) -> None:
        (self.root / "verification").mkdir()
        (self.root / "verification/one.json").touch()
        self.tree()
        (self.root / "source").write_text("other", encoding="utf-8")
        tree, obstacle = records.tree()
        self.assertIsNone(tree)
        self.assertIn("source", obstacle)

    def test_a_stage_has_passed_on_its_tree_only(self) -> None:
        records.write("one", self.tree(), self.ran(records.PASSED))
        self.assertEqual(records.verdict_on("one", self.tree()), records.PASSED)
        self.commit("source")
        self.assertIsNone(records.verdict_on("one", self.tree()))

    def test_the_page_says_what_is_older(self) -> None:
        self.assertIn("no records yet", page.text(self.stages))
        old = self.tree()
        records.write("one", old, self.ran(records.PASSED))
        self.assertIn("| passed |  |", self.row("one"))
        self.assertIn("| not run yet |  |", self.row("two"))
        with mock.patch.dict(os.environ, {"GIT_COMMITTER_DATE": "2090-01-01T00:00:00Z"}):
            self.commit("source")
        records.write("two", self.tree(), self.ran(records.FAILED))
        self.assertIn(f"| not run yet | passed on {old.commit}", self.row("one"))
        self.assertIn("| **failed** |", self.row("two"))
        self.assertIn("a line", page.text(self.stages))

    def test_a_failure_does_not_hide_what_passed_before(self) -> None:
        old = self.tree()
        records.write("one", old, self.ran(records.PASSED))
        self.commit("source")
        for _ in range(2):
            records.write("one", self.tree(), self.ran(records.FAILED))
            self.assertIn(f"| **failed** | passed on {old.commit}", self.row("one"))

    def test_the_page_must_be_what_the_records_say(self) -> None:
        records.write("one", self.tree(), self.ran(records.PASSED))
        self.assertEqual(len(list(page.faults(self.stages))), 1)
        page.write(self.stages)
        self.assertEqual(list(page.faults(self.stages)), [])
        records.write("gone", self.tree(), self.ran(records.PASSED))
        self.assertEqual(len(list(page.faults(self.stages))), 1)


class Running(unittest.TestCase):
    def execute(self, function: Any) -> dict[str, Any]:
        return stage.execute(stage.Recorder(), stage.Stage("one", "what it does", function))

    def test_verdicts(self) -> None:
        def skips(tally: Any) -> None:
            stage.need("no-such-program")

        def fails(tally: Any) -> None:
            tally.add("one", "OK")
            tally.add("other", "TIMEOUT", "why")

        self.assertEqual(self.execute(lambda tally: tally.add("one", "OK"))["verdict"], records.PASSED)
        self.assertEqual(self.execute(skips)["skips"], {"there is no no-such-program here": ["one"]})
        failed = self.execute(fails)
        self.assertEqual((failed["verdict"], failed["failures"]), (records.FAILED, {"other": ["why"]}))
        self.assertEqual(self.execute(lambda tally: 1 / 0)["verdict"], records.FAILED)

    def test_a_stage_leaves_no_process_behind(self) -> None:
        children.adopt()
        self.execute(lambda tally: builds.run(["sh", "-c", "setsid sleep 1000 >/dev/null 2>&1 &"]))
        self.assertEqual(children.descendants(), set())

    def test_a_stage_that_hangs_is_ended(self) -> None:
        with mock.patch.object(stage, "HOURS", 0.2 / 3600):
            self.assertEqual(self.execute(lambda tally: builds.run(["sleep", "1000"]))["verdict"], records.UNFINISHED)


if __name__ == "__main__":
    unittest.main()
