# SPDX-License-Identifier: MIT
"""The command line as a whole: help, version, completion, and the choice of a process."""
import re
import subprocess
import unittest
from unittest import mock

from live import HAS_LIVE, SHEAF, Live, Screen, sheaf
from sheaf_tool import choose, cli, paths, shared
from sheaf_tool.errors import Failure, Usage

COMPLETION = SHEAF.parent / "completion" / "sheaf"


class Words(unittest.TestCase):
    def test_bare(self) -> None:
        found = sheaf()
        self.assertEqual((found.returncode, found.stderr), (0, ""))
        self.assertEqual(found.stdout, sheaf("--help").stdout)
        for name in cli.COMMANDS:
            self.assertIn(f"\n    {name}", found.stdout)

    def test_help_has_examples_and_fits(self) -> None:
        for words in ((), *((name,) for name in cli.COMMANDS)):
            text = sheaf(*words, "--help").stdout
            self.assertIn("examples:\n", text, words)
            self.assertLessEqual(max(map(len, text.splitlines())), 100, words)

    def test_version(self) -> None:
        self.assertEqual(sheaf("--version").stdout, f"sheaf {paths.version()}\n")
        self.assertRegex(paths.version(), r"\A\d+\.\d+\.\d+\Z")


class Completion(unittest.TestCase):
    def bash(self, *words: str) -> list[str]:
        """What bash offers for the last word."""
        script = ('source "$1"; shift; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _sheaf; '
                  'printf "%s\\n" "${COMPREPLY[@]}"')
        found = subprocess.run(["bash", "-c", script, "bash", COMPLETION, SHEAF, *words], text=True,
                               capture_output=True, check=True)
        self.assertEqual(found.stderr, "")
        return found.stdout.split()

    def test_commands(self) -> None:
        self.assertEqual(self.bash(""), list(cli.COMMANDS))
        self.assertEqual(self.bash("re"), ["record-maps"])
        self.assertIn("--version", self.bash("--"))

    def test_options_of_each(self) -> None:
        for name in cli.COMMANDS:
            listed = set(re.findall(r"--[a-z]+", re.split("options:", sheaf(name, "--help").stdout)[1]
                                    .split("examples")[0]))
            self.assertLessEqual(set(self.bash(name, "--")), listed | {"--help"}, name)
            self.assertIn("--help", self.bash(name, "--h"))

    def test_values(self) -> None:
        self.assertEqual(self.bash("bench", "ba"), ["batch"])
        self.assertEqual(self.bash("top", "--interval", ""), [])
        self.assertEqual(self.bash("run", "-o", ""), [])

    def test_programs(self) -> None:
        self.assertIn("bash", self.bash("run", "--", "bas"))
        self.assertEqual(self.bash("run", "--", "bash", "x"), [])

    @unittest.skipUnless(HAS_LIVE, "needs a build and /dev/shm")
    def test_processes(self) -> None:
        with Live() as live:
            live.do("create first")
            self.assertIn(str(live.pid), self.bash("info", ""))


class Which(unittest.TestCase):
    def ask(self, running: list[int], terminal: bool, *lines: str) -> int:
        answers = mock.Mock(isatty=lambda: terminal,
                            readline=mock.Mock(side_effect=[*lines, ""]))
        errors = mock.Mock(isatty=lambda: terminal)
        with mock.patch.object(shared, "processes", lambda: running), \
                mock.patch.object(choose.sys, "stdin", answers), \
                mock.patch.object(choose.sys, "stderr", errors):
            return choose.pid_of(None, "top")

    def test_named(self) -> None:
        self.assertEqual(choose.pid_of("12", "top"), 12)

    def test_the_only_one(self) -> None:
        self.assertEqual(self.ask([77], True), 77)

    def test_by_place_or_number(self) -> None:
        self.assertEqual(self.ask([770, 880], True, "2\n"), 880)
        self.assertEqual(self.ask([770, 880], True, "\n", "3\n", "x\n", "770\n"), 770)
        self.assertEqual(self.ask([2, 880], True, "2\n"), 2)

    def test_none_is_chosen(self) -> None:
        with self.assertRaises(Usage):
            self.ask([770, 880], True, "9\n")

    def test_no_terminal(self) -> None:
        with self.assertRaisesRegex(Usage, r"which process\? sheaf top PID; running: 770 .*, 880 "):
            self.ask([770, 880], False)

    def test_nobody_runs(self) -> None:
        for terminal in (False, True):
            with self.assertRaisesRegex(Failure, "no process with statistics"):
                self.ask([], terminal)

    @unittest.skipUnless(HAS_LIVE, "needs a build and /dev/shm")
    def test_without_a_number(self) -> None:
        with Live() as one, Live() as other:
            one.do("create first")
            other.do("create second")
            other.do("alloc 70")
            for command in ("top", "stat"):
                found = sheaf(command)
                self.assertEqual((found.returncode, found.stdout), (2, ""))
                self.assertRegex(found.stderr, r"\Asheaf: which process\? [^\n]+\n\Z")
                self.assertIn(f"{one.pid} (live)", found.stderr)
            screen = Screen("top")
            screen.wait_for("or its PID: ", self)
            screen.type(f"{other.pid}\n")
            screen.wait_for("second", self)
            screen.type("q")
            screen.wait_for("\x1b[?1049l", self)
            self.assertEqual(screen.status(), 0)
            screen.close()
