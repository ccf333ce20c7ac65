# SPDX-License-Identifier: MIT
"""`sheaf run`: the program is not disturbed, and what is known of it is printed however it ends."""
import dataclasses
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path
from unittest import mock

from live import HAS_LIVE, LIVE, PATIENCE, SHEAF, check_failed, sheaf
from sheaf_tool import elf, preload, shared, versus

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

RUNS_ANOTHER = """
import os, subprocess, sys

child = subprocess.Popen(sys.argv[1:], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, close_fds=False)
child.stdin.write("create inner\\nalloc 9\\n")
child.stdin.flush()
assert [child.stdout.readline() for _ in range(2)] == ["done\\n"] * 2
print(os.path.exists(f"/dev/shm/libsheaf-{child.pid}"))
child.communicate()
"""

KILLS_MANY = """
import subprocess

for _ in range(30):
    child = subprocess.Popen(["sh", "-c", "echo ready; read word"], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    child.stdout.readline()
    child.kill()
    child.wait()
    print(child.pid)
"""

BUILD = Path(os.environ.get("SHEAF_BUILD", "/nowhere"))
HAS_MALLOC = (BUILD / "malloc" / "libsheaf-malloc.so").exists()
NOWHERE = "/nowhere"  # a build without libsheaf-malloc.so


def run(*words: str, build: str = NOWHERE, **more: object) -> subprocess.CompletedProcess:
    return sheaf("run", "--build", build, *words, **more)


@unittest.skipUnless(HAS_LIVE, "needs a build and /dev/shm")
class Run(unittest.TestCase):
    def test_table_at_the_end(self) -> None:
        found = run("--tables", "--", LIVE, input="create first\nalloc 90\nfree 20\n")
        self.assertEqual((found.returncode, found.stdout), (0, "done\n" * 3))
        self.assertRegex(found.stderr, r"\nfirst +70 ")

    def test_caches_that_are_gone(self) -> None:
        lines = "create point\nalloc 90\ndestroy\ncreate point\nalloc 5\ndestroy\n"
        self.assertRegex(run("--tables", "--", LIVE, input=lines).stderr, r"\npoint +2 .* 95 +95\n")
        errors = json.loads(run("--json", "--", LIVE, input=lines).stderr)["processes"][0]["destroyed_caches"]
        self.assertEqual([(entry["name"], entry["caches"], entry["object_size"], entry["alloc_fastpath"]) for entry in errors],
                         [("point", 2, 64, 95)])
        self.assertGreater(errors[0]["peak_slab_bytes"], 0)

    def test_to_a_file(self) -> None:
        with tempfile.TemporaryDirectory() as place:
            for words, begins in (((), "time "), (("--tables",), "# libsheaf"), (("--tables", "--json",), "{"), (("--json",), "{")):
                file = Path(place, "out")
                file.write_text("older", encoding="utf-8")
                found = run("-o", str(file), *words, LIVE, input="create first\nalloc 9\n")
                self.assertEqual((found.returncode, found.stderr), (0, ""))
                self.assertTrue(file.read_text(encoding="utf-8").startswith(begins))
            self.assertEqual(json.loads(file.read_text(encoding="utf-8"))["processes"][0]["caches"][0]["name"], "first")

    def test_program_that_closes_standard_error(self) -> None:
        found = run("--tables", "--", "sh", "-c", f"exec {LIVE} 2>&-", input="create first\nalloc 9\n")
        self.assertRegex(found.stderr, r"\nfirst +9 ")

    def test_program_that_closes_all(self) -> None:
        """A daemon closes all that it does not know, and opens files of its own under the same numbers."""
        with tempfile.TemporaryDirectory() as place:
            out = Path(place, "out")
            found = run("--tables", "-o", str(out), "--", sys.executable, "-c", CLOSES_ALL, LIVE, cwd=place,
                          input="create first\nalloc 9\n")
            self.assertEqual(Path(place, "data").read_text(encoding="utf-8"), "DATA")
            self.assertEqual(out.read_text(encoding="utf-8"), "")
            self.assertRegex(found.stderr, r"\Alibsheaf: statistics: descriptor \d+ is no longer the file that it was; "
                                           r"they are printed to standard error\n[^!]*\nfirst +9 ")

    def test_options(self) -> None:
        found = run("--tables", "--options", "slab_max_order=2", "--", LIVE,
                      input="create first\n", env={**os.environ, "SHEAF_OPTIONS": "backend=trylock"})
        self.assertRegex(found.stderr, "backend trylock.*\n# options: backend=trylock;slab_max_order=2;")

    def test_exit_codes(self) -> None:
        for words, code in ((("sh", "-c", "exit 42"), 42), (("sh", "-c", "kill -9 $$"), 137),
                            (("/no/such/program",), 127), (("/dev/null",), 126)):
            self.assertEqual(run("--", *words).returncode, code, words)
        self.assertEqual(run().returncode, 2)
        found = run("-o", "/no/such/folder/file", "true")
        self.assertEqual(found.returncode, 1)
        self.assertRegex(found.stderr, r"\Asheaf: /no/such/folder/file: [^\n]+\n\Z")

    def test_signals_and_what_a_killed_program_leaves(self) -> None:
        for number in (signal.SIGTERM, signal.SIGHUP):
            with subprocess.Popen([sys.executable, SHEAF, "run", "--build", NOWHERE, "--tables", "--", LIVE], text=True,
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
        with subprocess.Popen([sys.executable, SHEAF, "run", "--build", NOWHERE, "--tables", "--", "sh", "-c", f"echo $$; exec {LIVE}"], text=True,
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
        found = run("--children", "--tables", "--", sys.executable, "-c", KILLS_A_CHILD, LIVE)
        pid = int(found.stdout)
        self.addCleanup(shared.remove_left_over, pid)
        self.assertEqual(found.returncode, 7)
        self.assertRegex(found.stderr, r"\nsecond +5 ")
        self.assertEqual(found.stderr.count("# libsheaf"), 1)
        self.assertNotIn("killed", found.stderr)
        shared.remove_left_over(pid)
        self.assertFalse(shared.path_of(pid).exists())

    def test_children_have_no_statistics(self) -> None:
        """Unless they are asked for: no file, no line."""
        for words, names in ((), []), (("--children",), ["inner"]):
            found = run("--json", *words, "--", sys.executable, "-c", RUNS_ANOTHER, LIVE)
            self.assertEqual(found.stdout, f"{bool(words)}\n")
            self.assertEqual([cache["name"] for process in json.loads(found.stderr)["processes"]
                              for cache in process["caches"]], names)

    def test_forked_child(self) -> None:
        """It ends by _exit(), and the process that was started prints alone."""
        found = json.loads(run("--json", "--", LIVE, input="create first\nfork\nalloc 5\n").stderr)
        self.assertEqual(len(found["processes"]), 1)
        self.assertEqual(found["processes"][0]["caches"][0]["objects_in_use"], 5)

    def test_ten_lines(self) -> None:
        many = "".join(f"create c{i}\nalloc {100 * i}\n" for i in range(1, 20))
        lines = run("--", LIVE, input=many).stderr.splitlines()
        self.assertEqual(len(lines), 10)
        self.assertRegex(lines[0], r"\Atime +\d+\.\d\d s; CPU ")
        self.assertRegex(lines[1], r"\Apeak +(at most )?\d+[KM] resident; of libsheaf \d+K; ")
        self.assertRegex(lines[2], r"\Acalls +19,000 allocations, 0 frees; ")
        self.assertRegex(lines[5], r"\Ac19 +64 +\d+K +1,900 +1,900\Z")
        self.assertRegex(lines[9], r"\A15 others ")


class Preload(unittest.TestCase):
    def test_missing_library(self) -> None:
        found = run("--", "sh", "-c", "exit 3")
        self.assertEqual(found.returncode, 3)
        self.assertEqual(len(found.stderr.splitlines()), 3)
        self.assertRegex(found.stderr, r"\nmalloc +libsheaf-malloc.so is not built here: sh keeps its own malloc\(\)\n\Z")

    def test_who_keeps_its_own(self) -> None:
        """Each word of the answer, with files that say so of themselves."""
        with tempfile.TemporaryDirectory() as place:
            library = Path(sys.executable).resolve()  # any file of this machine
            file = Path(place, "program")
            program = library.read_bytes()
            for offset, byte, why in ((4, 1, "another architecture"), (18, 8, "another architecture"), (None, None, None)):
                changed = bytearray(program)
                if offset is not None:
                    changed[offset] = byte
                file.write_bytes(changed)
                found = preload.obstacle(str(file), library)
                self.assertEqual(found is None, why is None)
                self.assertIn(why or "", found or "")
            head = elf.head(str(library))
            for change, why in (({"interpreter": False}, "is static"), ({"needed": {"libasan.so.8"}}, "AddressSanitizer")):
                with mock.patch.object(elf, "head", side_effect=[dataclasses.replace(head, **change), head]):
                    self.assertIn(why, preload.obstacle(str(file), library))
            file.chmod(0o4755)
            with mock.patch.object(os, "geteuid", lambda: file.stat().st_uid + 1):
                self.assertIn("set-user-ID", preload.obstacle(str(file), library))
            file.write_text(f"#! {library} -x\n", encoding="utf-8")
            self.assertEqual(preload.program_of(str(file)), str(library))
            file.write_text("#!/usr/bin/env sh\n", encoding="utf-8")
            self.assertEqual(preload.program_of(str(file)), shutil.which("sh"))

    @unittest.skipUnless(HAS_LIVE, "needs a build")
    def test_program_that_contains_libsheaf(self) -> None:
        self.assertTrue(preload.contains_libsheaf(LIVE))
        self.assertFalse(preload.contains_libsheaf(shutil.which("sh")))

    @unittest.skipUnless(HAS_MALLOC, "needs libsheaf-malloc.so")
    def test_library(self) -> None:
        found = json.loads(run("--json", "--", "sh", "-c", ":", build=str(BUILD)).stderr)
        self.assertEqual(Path(found["preloaded"]).parent, BUILD / "malloc")
        self.assertIn("kmalloc-", found["processes"][0]["caches"][0]["name"])

    @unittest.skipUnless(HAS_MALLOC, "needs libsheaf-malloc.so")
    def test_killed_children_leave_nothing(self) -> None:
        before = {entry.inode() for entry in os.scandir("/dev/shm")}  # of dead processes, whose numbers come again
        found = run("--json", "--", sys.executable, "-c", KILLS_MANY, build=str(BUILD))
        self.assertIsNotNone(json.loads(found.stderr)["preloaded"])
        killed = {shared.path_of(int(pid)).name for pid in found.stdout.split()}
        self.assertEqual(len(killed), 30)
        self.assertEqual([entry.name for entry in os.scandir("/dev/shm") if entry.name in killed and entry.inode() not in before], [])


class Compare(unittest.TestCase):
    def test_refuses(self) -> None:
        check_failed(self, run("--compare", "--", "true"), 2, "--repeatable")
        check_failed(self, run("--compare", "--repeatable", "--", "true"), 1, "libsheaf-malloc.so is not built here")

    @unittest.skipUnless((BUILD / "tools" / "measure").exists(), "needs a build")
    def test_in_turns(self) -> None:
        """Each allocator has its environment, one after the other, and its input from the beginning."""
        with tempfile.TemporaryDirectory() as place:
            order = Path(place, "order")
            Path(place, "input").write_text("line\n", encoding="utf-8")
            command = ["sh", "-c", f'read word; echo "$WHO $word" >>{order}; exit $CODE']
            with open(Path(place, "input"), encoding="utf-8") as given:
                kept = os.dup(0)
                os.dup2(given.fileno(), 0)
                try:
                    found = versus.in_turns(BUILD / "tools" / "measure", command,
                                            {"glibc": {"WHO": "a", "CODE": "0"}, "other": {"WHO": "b", "CODE": "7"}}, 2)
                finally:
                    os.dup2(kept, 0)
                    os.close(kept)
            self.assertEqual(order.read_text(encoding="utf-8"), "a line\nb line\n" * 2)
        self.assertEqual([usage.status for usage in found["other"].usages], [7, 7])
        self.assertGreater(found["glibc"].usages[0].peak, 0)
        shown = versus.text(command, found)
        self.assertIn("2 rounds", shown)
        self.assertRegex(shown, r"\nother +exit code 7\n?")
        self.assertEqual(len(json.loads(versus.as_json(command, found))["runs"]["glibc"]), 2)
