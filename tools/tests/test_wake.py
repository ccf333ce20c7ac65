# SPDX-License-Identifier: MIT
"""Questions to a process that was started without options: `sheaf info`, `top`, `leaks`, `tune` and `trim` wake it."""
import json
import os
import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

from live import HAS_LIVE, LIVE, PATIENCE, Apart, Live, SHEAF, Screen, check_failed, sheaf
from sheaf_tool import control, shared, wake
from sheaf_tool.errors import Failure
from test_control import as_nobody, asked

BUILD = Path(os.environ.get("SHEAF_BUILD", "/nowhere"))
MALLOC = BUILD / "malloc" / "libsheaf-malloc.so"
# The program allocates and frees for each byte that it reads, on all paths.
CALLS = """
import sys

print("ready", flush=True)
while sys.stdin.buffer.raw.read(1):
    for size in range(1000, 40000, 100):
        [bytes(size) for _ in range(20)]
    print("done", flush=True)
"""
KILLS = """
import os, signal

for _ in range(1000):
    child = os.fork()
    if child == 0:
        held = [bytes(size) for size in range(600, 6000, 100)]
        os.kill(os.getpid(), signal.SIGKILL)
    print(os.waitpid(child, 0)[0])
"""


def may_trace() -> bool:
    """False where the system lets no process trace another one of its user."""
    if not HAS_LIVE:
        return False
    with Live("") as live:
        try:
            wake.find(live.pid)
            return True
        except Failure:
            return False


class Woken(Live):
    """A process without options that makes slow calls all the time."""

    def __init__(self, options: str = "", **more: object) -> None:
        super().__init__(options, **more)
        self.do("create plain")
        self.do("alloc 90")
        self.do("call")


def files() -> set[tuple[str, int]]:
    return {(entry.name, entry.inode()) for entry in os.scandir("/dev/shm")}


@unittest.skipUnless(may_trace(), "needs a build, /dev/shm, and the right to trace processes")
class OnAProcess(unittest.TestCase):
    fails = check_failed

    def test_answers(self) -> None:
        for backend in ("rseq", "trylock"):
            with Woken(f"backend={backend}", stderr=subprocess.PIPE) as live:
                self.assertNotIn(live.pid, control.processes())
                found = asked("info", str(live.pid))
                self.assertRegex(found.stdout, r"(?m)^plain +9[01] ", found)
                self.assertIn("SHEAF_OPTIONS=stats=live counts them", found.stdout)
                self.assertIn(live.pid, control.processes())
                self.assertFalse(shared.path_of(live.pid).exists())
                caches = json.loads(asked("info", "--json", str(live.pid)).stdout)["caches"]
                self.assertIn(caches[0]["objects_in_use"], (90, 91))
                self.assertRegex(asked("top", "--once", str(live.pid)).stdout, r"(?m)^plain +9[01] +\d+ +\S+ +- +- +- ")
                self.assertIn("plain", asked("tune", str(live.pid)).stdout)
                self.assertRegex(asked("trim", str(live.pid)).stdout, rf"\Aprocess {live.pid} returned \d+[KMG]? to the system\n\Z")
                self.assertIn("returned_bytes", json.loads(asked("trim", "--json", str(live.pid)).stdout))
                self.fails(asked("leaks", str(live.pid)), 1, "SHEAF_OPTIONS=slab_debug")
                self.fails(sheaf("info", "--prometheus", str(live.pid)), 1, "SHEAF_OPTIONS=stats=live")
                self.fails(sheaf("stat", str(live.pid)), 1, "SHEAF_OPTIONS=stats=live")
                live.process.kill()
                self.assertEqual(live.process.communicate()[1], "")

    def test_idle_then_not(self) -> None:
        with Live("") as live:
            live.do("create plain")
            for words in (["info"], ["trim"], ["top", "--once"]):
                self.fails(sheaf(*words, str(live.pid), "--timeout", "0.1"), 5, "idle", "0.1 s", "ask again later")
            live.do("call")
            self.assertEqual(asked("trim", str(live.pid)).returncode, 0)

    def test_a_terminal_is_told(self) -> None:
        with Live("") as live:
            live.do("create plain")
            screen = Screen("trim", str(live.pid), "--timeout", str(PATIENCE))
            screen.wait_for(f"waiting for process {live.pid} to make a slow call of libsheaf; it is idle", self)
            live.do("call")
            screen.wait_for("to the system", self)
            self.assertEqual(screen.status(), 0)
            screen.close()

    def test_a_thread_answers_without_a_call(self) -> None:
        with Live("background") as live:
            live.do("create plain")
            live.do("alloc 500")
            live.do("call")
            self.assertEqual(asked("trim", str(live.pid)).returncode, 0)

    def test_a_child_sleeps(self) -> None:
        with Woken() as live:
            self.assertEqual(asked("trim", str(live.pid)).returncode, 0)
            live.do("fork")
            with open(f"/proc/{live.pid}/task/{live.pid}/children", encoding="ascii") as file:
                child = int(file.read())
            self.assertNotIn(child, control.processes())
            self.assertEqual(asked("trim", str(child)).returncode, 0)
            self.assertIn(child, control.processes())

    def test_another_namespace(self) -> None:
        with Apart("--pid", options="") as live:
            live.do("create plain")
            live.do("call")
            self.assertRegex(asked("info", str(live.pid)).stdout, r"(?m)^plain ")

    def test_who_cannot_be_woken(self) -> None:
        with subprocess.Popen(["sleep", "600"]) as other:
            self.fails(sheaf("info", str(other.pid)), 1, f"process {other.pid} has no libsheaf")
            other.kill()
        self.fails(sheaf("trim", str(other.pid)), 1, "there is no process")

    @unittest.skipUnless(os.geteuid() == 0, "needs root, to become another user")
    def test_rights(self) -> None:
        with Woken() as live:
            self.assertRegex(as_nobody(lambda: control.ask(live.pid, "trim")), "rights to trace it")
        with tempfile.TemporaryDirectory() as directory:
            copy = Path(shutil.copy(LIVE, directory))
            os.chmod(directory, 0o755)
            os.chown(copy, 65534, 65534)
            copy.chmod(0o4755)
            with subprocess.Popen([copy], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
                process.stdin.write(b"create plain\n")
                process.stdin.flush()
                process.stdout.readline()
                if os.stat(f"/proc/{process.pid}/task/{process.pid}").st_uid == os.geteuid() and not wake._is_secure(process.pid):
                    self.skipTest("set-user-ID has no effect here")
                self.fails(sheaf("info", str(process.pid)), 1, "is set-user-ID")
                process.kill()

    @unittest.skipUnless(MALLOC.exists(), "needs libsheaf-malloc.so")
    def test_an_existing_program(self) -> None:
        for backend in ("rseq", "trylock"):
            environment = {**os.environ, "LD_PRELOAD": str(MALLOC), "SHEAF_OPTIONS": f"backend={backend}", "PYTHONMALLOC": "malloc"}
            with subprocess.Popen([sys.executable, "-c", CALLS], env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                  stderr=subprocess.PIPE) as program:
                program.stdout.readline()
                with subprocess.Popen([sys.executable, SHEAF, "info", str(program.pid),
                                       "--timeout", str(PATIENCE)], stdout=subprocess.PIPE, text=True) as asker:
                    while asker.poll() is None:
                        program.stdin.write(b"x")
                        program.stdin.flush()
                        program.stdout.readline()
                    self.assertRegex(asker.stdout.read(), r"(?m)^kmalloc-")
                self.assertFalse(shared.path_of(program.pid).exists())
                self.assertEqual(program.communicate()[1], b"")

    @unittest.skipUnless(MALLOC.exists(), "needs libsheaf-malloc.so")
    def test_killed_processes_leave_nothing(self) -> None:
        """Numbers come again: earlier processes may have left files with the same names."""
        before = files()
        environment = {name: value for name, value in os.environ.items() if name != "SHEAF_OPTIONS"}
        found = subprocess.run([sys.executable, "-c", KILLS], env={**environment, "LD_PRELOAD": str(MALLOC), "PYTHONMALLOC": "malloc"},
                               capture_output=True, text=True, check=True)
        self.assertEqual(found.stderr, "")
        killed = found.stdout.split()
        self.assertEqual(len(killed), 1000)
        names = {shared.path_of(int(pid)).name for pid in killed}
        self.assertEqual({name for name, _ in files() - before} & names, set())


if __name__ == "__main__":
    unittest.main()
