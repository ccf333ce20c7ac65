# SPDX-License-Identifier: MIT
"""Shared by tests of the command: the process of live.c, and the command itself."""
import json
import os
import pty
import select
import subprocess
import sys
import time
import unittest
from pathlib import Path

from sheaf_tool import shared

LIVE = os.environ.get("SHEAF_LIVE", "")
SHEAF = Path(__file__).resolve().parents[1] / "sheaf"
PATIENCE = 600  # seconds: ends a test that hangs; no test measures it
HAS_LIVE = bool(LIVE) and os.access(shared.DIRECTORY, os.W_OK)


def check_failed(test: unittest.TestCase, found: "subprocess.CompletedProcess[str]", code: int,
                 *parts: str) -> None:
    """The command printed one clear line with these parts, and nothing else."""
    test.assertEqual(found.returncode, code, found)
    test.assertEqual(found.stdout, "")
    test.assertRegex(found.stderr, r"\Asheaf: [^\n]+\n\Z")
    for part in parts:
        test.assertIn(part, found.stderr)


class Live:
    """The process of live.c."""

    def __init__(self, options: str = "stats=live", **more: object) -> None:
        self.process = subprocess.Popen(
            [LIVE], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
            env={**os.environ, "SHEAF_OPTIONS": options}, **more)
        self.pid = self.process.pid

    def __enter__(self) -> "Live":
        return self

    def __exit__(self, *_: object) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.communicate()
        shared.path_of(self.pid).unlink(missing_ok=True)

    def do(self, line: str) -> None:
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()
        if self.process.stdout.readline() != "done\n":
            raise AssertionError(f"{line} went wrong")

    def printed(self, form: str) -> str:
        """What sheaf_stats_print() prints in the process itself."""
        self.process.stdin.write(form + "\n")
        self.process.stdin.flush()
        return "".join(iter(self.process.stdout.readline, "done\n"))

    def own_view(self) -> dict:
        return json.loads(self.printed("json"))


class Apart(Live):
    """The same in namespaces of its own, made by unshare(1) with these words."""

    def __init__(self, *words: str, first: str = "", options: str = "stats=live") -> None:
        user = [] if os.geteuid() == 0 else ["--user", "--map-root-user"]
        self.process = subprocess.Popen(
            ["unshare", *user, *words, "--fork", "--kill-child", "sh", "-c", f"{first}exec {LIVE}"],
            text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
            env={**os.environ, "SHEAF_OPTIONS": options})
        try:
            self.do("free 0")
        except (AssertionError, BrokenPipeError):
            self.process.communicate()
            raise unittest.SkipTest(f"the system does not allow unshare {' '.join(words)}") from None
        self.pid = int(Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children").read_text(encoding="utf-8"))

    def __exit__(self, *_: object) -> None:
        self.process.communicate()


def sheaf(*words: str, **more: object) -> subprocess.CompletedProcess:
    more = {"stdin": subprocess.DEVNULL, **more}
    if "input" in more:
        del more["stdin"]
    return subprocess.run([sys.executable, SHEAF, *words], text=True, capture_output=True,
                          check=False, timeout=PATIENCE, **more)


class Screen:
    """The command on its own terminal."""

    def __init__(self, *words: str) -> None:
        self.child, self.terminal = pty.fork()
        if self.child == 0:
            os.execv(sys.executable, [sys.executable, str(SHEAF), *words])
        self.seen = ""

    def close(self) -> None:
        os.close(self.terminal)

    def type(self, text: str) -> None:
        os.write(self.terminal, text.encode())

    def wait_for(self, text: str, test: unittest.TestCase) -> None:
        until = time.monotonic() + PATIENCE
        while text not in self.seen:
            test.assertTrue(select.select([self.terminal], [], [], until - time.monotonic())[0],
                            f"no {text!r} in {self.seen!r}")
            try:
                self.seen += os.read(self.terminal, 65536).decode("utf-8", "replace")
            except OSError:
                test.fail(f"ended without {text!r}: {self.seen!r}")

    def status(self) -> int:
        return os.waitstatus_to_exitcode(os.waitpid(self.child, 0)[1])
