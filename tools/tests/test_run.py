# SPDX-License-Identifier: MIT
"""`sheaf run`: the program is not disturbed, and its table is printed however it ends."""
import json
import os
import signal
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

from live import HAS_LIVE, LIVE, PATIENCE, SHEAF, sheaf
from sheaf_tool import shared

KILLS_A_CHILD = """
import subprocess, sys

def start(lines):
    child = subprocess.Popen(sys.argv[1:], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, close_fds=False)
    child.stdin.write(lines)
    child.stdin.flush()
    for _ in lines.splitlines():
        assert child.stdout.readline() == "done\\n"
    return child

killed = start("create killed\\nalloc 9\\n")
killed.kill()
killed.wait()
start("create second\\nalloc 5\\n").communicate()
print(killed.pid)
sys.exit(7)
"""

CLOSES_ALL = """
import os, sys

os.closerange(3, 256)
data = os.open("data", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
os.write(data, b"DATA")
for number in range(3, 256):
    os.dup2(data, number)
os.execv(sys.argv[1], sys.argv[1:])
"""



@unittest.skipUnless(HAS_LIVE, "needs a build and /dev/shm")
class Run(unittest.TestCase):
    def test_table_at_the_end(self) -> None:
        found = sheaf("run", "--", LIVE, input="create first\nalloc 90\nfree 20\n")
        self.assertEqual((found.returncode, found.stdout), (0, "done\n" * 3))
        self.assertRegex(found.stderr, r"\nfirst +70 ")

    def test_caches_that_are_gone(self) -> None:
        lines = "create point\nalloc 90\ndestroy\ncreate point\nalloc 5\ndestroy\n"
        self.assertRegex(sheaf("run", "--", LIVE, input=lines).stderr, r"\npoint +2 .* 95 +95\n")
        errors = json.loads(sheaf("run", "--json", "--", LIVE, input=lines).stderr)["destroyed_caches"]
        self.assertEqual([(entry["name"], entry["caches"], entry["alloc_fastpath"]) for entry in errors],
                         [("point", 2, 95)])

    def test_to_a_file(self) -> None:
        with tempfile.TemporaryDirectory() as place:
            for words, begins in (((), "# libsheaf"), (("--json",), "{")):
                file = Path(place, "out")
                file.write_text("older", encoding="utf-8")
                found = sheaf("run", "-o", str(file), *words, LIVE, input="create first\nalloc 9\n")
                self.assertEqual((found.returncode, found.stderr), (0, ""))
                self.assertTrue(file.read_text(encoding="utf-8").startswith(begins))
            self.assertEqual(json.loads(file.read_text(encoding="utf-8"))["caches"][0]["name"], "first")

    def test_program_that_closes_standard_error(self) -> None:
        found = sheaf("run", "--", "sh", "-c", f"exec {LIVE} 2>&-", input="create first\nalloc 9\n")
        self.assertRegex(found.stderr, r"\nfirst +9 ")

    def test_program_that_closes_all(self) -> None:
        """A daemon closes all that it does not know, and opens files of its own under the same numbers."""
        with tempfile.TemporaryDirectory() as place:
            out = Path(place, "out")
            found = sheaf("run", "-o", str(out), "--", sys.executable, "-c", CLOSES_ALL, LIVE, cwd=place,
                          input="create first\nalloc 9\n")
            self.assertEqual(Path(place, "data").read_text(encoding="utf-8"), "DATA")
            self.assertEqual(out.read_text(encoding="utf-8"), "")
            self.assertRegex(found.stderr, r"\Alibsheaf: statistics: descriptor \d+ is no longer the file that it was; "
                                           r"they are printed to standard error\n[^!]*\nfirst +9 ")

    def test_options(self) -> None:
        found = sheaf("run", "--options", "slab_max_order=2", "--", LIVE,
                      input="create first\n", env={**os.environ, "SHEAF_OPTIONS": "backend=trylock"})
        self.assertRegex(found.stderr, "backend trylock.*\n# options: backend=trylock;slab_max_order=2;")

    def test_exit_codes(self) -> None:
        for words, code in ((("sh", "-c", "exit 42"), 42), (("sh", "-c", "kill -9 $$"), 137),
                            (("/no/such/program",), 127), (("/dev/null",), 126)):
            self.assertEqual(sheaf("run", "--", *words).returncode, code, words)
        self.assertEqual(sheaf("run").returncode, 2)
        found = sheaf("run", "-o", "/no/such/folder/file", "true")
        self.assertEqual(found.returncode, 1)
        self.assertRegex(found.stderr, r"\Asheaf: /no/such/folder/file: [^\n]+\n\Z")

    def test_signals_and_what_a_killed_program_leaves(self) -> None:
        for number in (signal.SIGTERM, signal.SIGHUP):
            with subprocess.Popen([sys.executable, SHEAF, "run", "--", LIVE], text=True,
                                  stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                  stderr=subprocess.PIPE) as process:
                process.stdin.write("create first\nalloc 78\nfree 1\n")
                process.stdin.flush()
                for _ in range(3):
                    process.stdout.readline()
                process.send_signal(number)
                # Its input stays open, because the program would exit at its end.
                self.assertEqual(process.wait(PATIENCE), 128 + number)
                errors = process.stderr.read()
                self.assertRegex(errors, r"\nfirst +77 ")
                self.assertNotIn("resident", errors)
                pid = int(errors.split()[1])
                self.assertFalse(shared.path_of(pid).exists())

    def test_program_that_is_killed(self) -> None:
        """By a signal that does not come from `sheaf run`: nothing can be done at exit."""
        with subprocess.Popen([sys.executable, SHEAF, "run", "--", "sh", "-c", f"echo $$; exec {LIVE}"], text=True,
                              stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE) as process:
            pid = int(process.stdout.readline())
            process.stdin.write("create first\nalloc 78\nfree 1\n")
            process.stdin.flush()
            for _ in range(3):
                process.stdout.readline()
            os.kill(pid, signal.SIGKILL)
            self.assertEqual(process.wait(PATIENCE), 128 + signal.SIGKILL)
            errors = process.stderr.read()
        self.assertRegex(errors, rf"\Aprocess {pid} \(live\): ")
        self.assertRegex(errors, r"\nfirst +77 ")
        self.assertFalse(shared.path_of(pid).exists())

    def test_child_that_is_killed(self) -> None:
        """The status is the program's. Processes that exit print their tables; the killed one does not."""
        found = sheaf("run", "--", sys.executable, "-c", KILLS_A_CHILD, LIVE)
        pid = int(found.stdout)
        self.addCleanup(shared.remove_left_over, pid)
        self.assertEqual(found.returncode, 7)
        self.assertRegex(found.stderr, r"\nsecond +5 ")
        self.assertEqual(found.stderr.count("# libsheaf"), 1)
        self.assertNotIn("killed", found.stderr)
        shared.remove_left_over(pid)
        self.assertFalse(shared.path_of(pid).exists())
