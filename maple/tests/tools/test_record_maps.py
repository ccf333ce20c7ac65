# SPDX-License-Identifier: MIT
"""`sheaf record-maps`: the program is not disturbed, and the recording has the documented format."""
import contextlib
import functools
import os
import re
import select
import signal
import subprocess
import sys
import tempfile
import time
import unittest
from pathlib import Path

from sheaf_tool.paths import MAPLE_IN_BUILD

SHEAF = Path(__file__).resolve().parents[3] / "tools" / "sheaf"
BUILD = os.environ.get("SHEAF_BUILD", "")
CALLS = os.environ.get("SHEAF_MAPS_CALLS", "")
PATIENCE = 600  # seconds: ends a test that hangs; no test measures it

RANGE = r"[0-9a-f]+\+[0-9a-f]+"
FILE = r"[!-?A-~]+@[0-9a-f]+"
GIVEN = r"([0-9a-f]+|E[A-Z0-9]+)"
DONE = r"(ok|E[A-Z0-9]+)"
ACCESS = r"[r-][w-][x-]"
LINE = re.compile("|".join((
    r"[1-9]\d* exec [!-~]+ [0-9a-f]+",
    rf"[1-9]\d* (map|end) {RANGE} {ACCESS}[ps] {FILE}",
    rf"[1-9]\d* mmap {RANGE} {ACCESS}[ps] (any|fixed|noreplace|growsdown) {FILE} = {GIVEN}",
    rf"[1-9]\d* (munmap|dontneed) {RANGE} = {DONE}",
    rf"[1-9]\d* mprotect {RANGE} {ACCESS} = {DONE}",
    r"[1-9]\d* brk [0-9a-f]+ = [0-9a-f]+",
    rf"[1-9]\d* mremap {RANGE} [0-9a-f]+ (stay|move|fixed|keep) = {GIVEN}",
    r"[1-9]\d* fork [1-9]\d*",
    r"[1-9]\d* exit")))


def begin(*words: str, directory: str, **settings: object) -> "subprocess.Popen[str]":
    return subprocess.Popen([sys.executable, SHEAF, "record-maps", "--build", BUILD, *words],
                            text=True, cwd=directory, stdout=subprocess.PIPE,
                            stderr=subprocess.PIPE, **settings)


@functools.cache
def permitted() -> bool:
    with tempfile.TemporaryDirectory() as directory:
        with begin("--", "true", directory=directory) as process:
            return "traced" not in process.communicate(timeout=PATIENCE)[1]


@unittest.skipUnless(CALLS and Path(BUILD, MAPLE_IN_BUILD, "tools/record_maps/record-maps").exists(),
                     "needs a build, on a machine whose system calls it knows")
class RecordMaps(unittest.TestCase):
    def setUp(self) -> None:
        if not permitted():
            self.skipTest("ptrace is not permitted here")
        place = tempfile.TemporaryDirectory()
        self.addCleanup(place.cleanup)
        self.directory = place.name
        self.out = Path(place.name, "out.maps")

    def record(self, *words: str, **settings: object) -> "subprocess.CompletedProcess[str]":
        with begin(*words, directory=self.directory, **settings) as process:
            said, errors = process.communicate(timeout=PATIENCE)
        return subprocess.CompletedProcess(words, process.returncode, said, errors)

    def lines(self) -> list[str]:
        """The lines of the recording, which must be complete."""
        text = self.out.read_text(encoding="ascii")
        lines = text.splitlines()
        self.assertRegex(lines[0], r"\Asheaf-maps 1 page \d+ machine \w+\Z")
        self.assertEqual(lines[-1], f"done {len(lines) - 1}")
        self.assertNotIn("/", text)
        for line in lines[2:-1]:
            self.assertRegex(line, rf"\A({LINE.pattern})\Z")
        return lines

    def fails(self, found: "subprocess.CompletedProcess[str]", status: int, *texts: str) -> None:
        self.assertEqual(found.returncode, status, found)
        self.assertEqual(found.stdout, "")
        self.assertEqual(found.stderr.count("\n"), 1, found.stderr)
        for text in texts:
            self.assertIn(text, found.stderr)

    def test_form(self) -> None:
        for what in ("calls", "threads", "family"):
            self.assertEqual(self.record("-o", "out.maps", CALLS, what).returncode, 0)
            lines = self.lines()
            self.assertEqual(lines[1], f"command {Path(CALLS).name} {what}")
            self.assertRegex(lines[2], r"\A1 exec maps-calls [0-9a-f]+\Z")
            self.assertEqual(lines[-2].split()[1], "exit")
            self.assertTrue(any("[stack]" in line for line in lines))

    def test_errors_are_recorded(self) -> None:
        self.record("-o", "out.maps", CALLS, "calls")
        text = "\n".join(self.lines())
        for wanted in (r"mprotect \S+ r-- = ENOMEM", r"mprotect \S+ r-- = EINVAL",
                       r"mmap \S+ rw-p noreplace -@0 = EEXIST", r"mmap 0\+1 rw-p any -@0 = EBADF",
                       r"mmap 0\+0 rw-p any -@0 = EINVAL", r"munmap \S+ = EINVAL",
                       r"mremap \S+ 1 stay = EINVAL", r"mremap \S+\+0 5 move = [0-9a-f]+\n"):
            self.assertRegex(text, wanted)

    def test_spaces(self) -> None:
        """fork, fork in the child, vfork and exec, and an exec by another thread, after which the PID is the same."""
        self.record("-o", "out.maps", CALLS, "family")
        lines = self.lines()
        forks = [line for line in lines if re.fullmatch(r"\d+ fork \d+", line)]
        self.assertEqual(forks, ["1 fork 2", "2 fork 3"])
        self.assertEqual([line.split()[0] for line in lines if " exec " in line], ["1", "4", "1"])
        self.assertEqual(sorted(line.split()[0] for line in lines if line.endswith(" exit")),
                         ["1", "2", "3", "4"])

    def test_summary(self) -> None:
        found = self.record("-o", "out.maps", CALLS, "family")
        self.assertIn(" out.maps: 4 processes, 4 address spaces, at most ", found.stderr)
        self.assertRegex(found.stderr, r" mprotect \d+ \(\d+ failed\) .* fork 2 exec 3 exit 4\n")

    def test_streams_and_status(self) -> None:
        with begin("-o", "out.maps", "--", "sh", "-c", "cat; echo no >&2; exit 7",
                   directory=self.directory, stdin=subprocess.PIPE) as process:
            said, errors = process.communicate("through\n", timeout=PATIENCE)
        self.assertEqual((said, process.returncode), ("through\n", 7))
        self.assertTrue(errors.startswith("no\n"), errors)
        self.lines()

    def test_end_by_signal(self) -> None:
        for number in (signal.SIGSEGV, signal.SIGKILL):
            found = self.record("-o", "out.maps", "sh", "-c", f"kill -{number.value} $$")
            self.assertEqual(found.returncode, -number)
            self.assertTrue(self.lines()[-2].endswith("1 exit"))

    def test_options_of_the_program(self) -> None:
        found = self.record("-o", "out.maps", "echo", "-o", "x", "--", "y z")
        self.assertEqual(found.stdout, "-o x -- y z\n")
        self.assertEqual(self.lines()[1], "command echo -o x -- 'y z'")

    def test_words_of_the_command(self) -> None:
        self.record("-o", "out.maps", "echo", "it's", "/", "/usr/lib/", "")
        self.assertEqual(self.lines()[1], r"command echo 'it'\''s' '' lib ''")

    def test_default_name(self) -> None:
        self.assertEqual(self.record("/bin/true").returncode, 0)
        self.assertTrue(Path(self.directory, "true.maps").exists())
        self.fails(self.record("/bin/true"), 125, "true.maps: File exists; name a file with -o")

    def test_no_program(self) -> None:
        self.fails(self.record("-o", "out.maps", "no-such-program"), 127, "no-such-program: ")
        self.assertFalse(self.out.exists())
        self.out.write_text("mine", encoding="ascii")
        self.fails(self.record("-o", "out.maps", "no-such-program"), 127)
        self.fails(self.record("-o", "out.maps", "/etc/passwd"), 126, "/etc/passwd: Permission denied")
        self.assertEqual(self.out.read_text(encoding="ascii"), "mine")
        self.assertEqual(self.record("-o", "out.maps", "true").returncode, 0)
        self.lines()

    def test_wrong_usage(self) -> None:
        for words in ((), ("--",), ("-o", "x")):
            found = self.record(*words)
            self.assertEqual(found.returncode, 2)
            self.assertIn("which program?", found.stderr)

    def test_output(self) -> None:
        self.fails(self.record("-o", "none/out", "echo", "x"), 125, "none/out: No such file")
        found = self.record("-o", "/dev/full", "echo", "x")
        self.assertEqual((found.returncode, found.stdout), (125, "x\n"))
        self.assertIn("/dev/full: not complete: No space left", found.stderr)

    def test_no_ptrace(self) -> None:
        """A traced process cannot trace another, and the leak sanitizer cannot run."""
        found = self.record("-o", "outer.maps", sys.executable, str(SHEAF), "record-maps", "--build",
                            BUILD, "-o", "out.maps", "echo", "x",
                            env={**os.environ, "ASAN_OPTIONS": "detect_leaks=0"})
        self.assertEqual((found.returncode, found.stdout), (125, ""))
        self.assertIn("no process may be traced here (Operation not permitted)", found.stderr)
        self.assertFalse(self.out.exists())

    def test_signals(self) -> None:
        with begin("-o", "out.maps", CALLS, "signal", directory=self.directory) as process:
            number = int(process.stdout.readline())
            for _ in range(3):
                os.kill(number, signal.SIGUSR1)
                self.assertEqual(process.stdout.readline(), "caught\n")
            process.send_signal(signal.SIGINT)  # the terminal sends it to the program as well
            os.kill(number, signal.SIGUSR1)
            self.assertEqual(process.stdout.readline(), "caught\n")
            process.send_signal(signal.SIGTERM)  # is passed on
            process.communicate(timeout=PATIENCE)
        self.assertEqual(process.returncode, -signal.SIGTERM)
        self.lines()

    def wait_until_stopped(self, number: int) -> None:
        """Stopped for some time: a traced process is stopped for moments all the time."""
        seen = 0
        while seen < 10:
            text = Path(f"/proc/{number}/stat").read_text(encoding="ascii")
            seen = seen + 1 if text.rpartition(")")[2].split()[0] in "tT" else 0
            time.sleep(0.01)

    def test_stop(self) -> None:
        with begin("-o", "out.maps", CALLS, "stop", directory=self.directory) as process:
            number = int(process.stdout.readline())
            self.wait_until_stopped(number)
            # That may have been such a moment.
            while not select.select([process.stdout], [], [], 0.1)[0]:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(number, signal.SIGCONT)
            self.assertEqual(process.communicate(timeout=PATIENCE)[0], "continued\n")
        self.assertEqual(process.returncode, 0)
        self.lines()

    def test_stop_by_the_terminal(self) -> None:
        """The whole job stops, as a shell expects, and continues."""
        with begin("-o", "out.maps", CALLS, "signal", directory=self.directory,
                   preexec_fn=os.setpgrp) as process:
            number = int(process.stdout.readline())
            os.killpg(process.pid, signal.SIGTSTP)
            _, status = os.waitpid(process.pid, os.WUNTRACED)
            self.assertTrue(os.WIFSTOPPED(status))
            self.wait_until_stopped(number)
            os.killpg(process.pid, signal.SIGCONT)
            os.kill(number, signal.SIGUSR1)
            self.assertEqual(process.stdout.readline(), "caught\n")
            process.terminate()
            process.communicate(timeout=PATIENCE)
        self.lines()

    def test_background(self) -> None:
        """The program has ended, but its children have not. After ^C they continue without the recorder."""
        with begin("-o", "out.maps", "sh", "-c", "sleep 300 >/dev/null 2>&1 & echo $!",
                   directory=self.directory) as process:
            number = int(process.stdout.readline())
            with self.assertRaises(subprocess.TimeoutExpired):
                process.wait(0.5)
            process.send_signal(signal.SIGINT)
            process.communicate(timeout=PATIENCE)
        os.kill(number, signal.SIGKILL)
        self.assertEqual(process.returncode, 0)
        self.lines()
