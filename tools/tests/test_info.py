# SPDX-License-Identifier: MIT
"""`sheaf info` and `sheaf top` on live processes, and on files that only look like theirs."""
import fcntl
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
import unittest
from pathlib import Path
from types import FrameType
from typing import Callable
from unittest import mock

import pytest

from live import HAS_LIVE, LIVE, PATIENCE, SHEAF, Apart, Live, Screen, check_failed, sheaf
from sheaf_tool import info, shared
from sheaf_tool.errors import Failure
from sheaf_tool.process import Process

DEAD = 4194305  # beyond the largest number a process can have
MOST_STEPS = 8000  # of the interpreter, for one more cache: twice as many as now


def families(text: str) -> dict:
    """Values by name, as a reader of Prometheus' text format sees them."""
    parser = pytest.importorskip("prometheus_client.parser")
    return {family.name: family for family in parser.text_string_to_metric_families(text)}


def labels(family: object) -> list[tuple]:
    return [tuple(sorted(sample.labels.items())) for sample in family.samples]


def opcodes(call: Callable[[], None]) -> int:
    """The steps of Python's interpreter in this call."""
    count = 0

    def step(frame: FrameType, event: str, _: object) -> Callable:
        nonlocal count
        frame.f_trace_opcodes = True
        count += event == "opcode"
        return step

    before = sys.gettrace()
    sys.settrace(step)
    try:
        call()
    finally:
        sys.settrace(before)
    return count


@unittest.skipUnless(HAS_LIVE, "needs a build and /dev/shm")
class OnAProcess(unittest.TestCase):
    def fails(self, found: subprocess.CompletedProcess, *parts: str) -> None:
        check_failed(self, found, 1, *parts)

    def test_same_as_the_process_sees(self) -> None:
        for backend in ("rseq", "trylock"):
            with Live(f"stats=live;backend={backend}") as live:
                live.do("create first")
                live.do("alloc 1000")
                live.do("free 900")
                own, ours = live.own_view(), json.loads(sheaf("info", str(live.pid), "--json").stdout)
                self.assertEqual(ours["options"], own["options"])
                self.assertEqual(ours["backend"], own["backend"])
                self.assertEqual(len(ours["caches"]), 1)
                self.assertEqual(ours["caches"][0].pop("alias_names"), [])
                self.assertEqual(ours["caches"][0].pop("slab_debug"), "")
                self.assertEqual(ours["caches"][0].pop("set"), {})
                for key, value in ours["caches"][0].items():
                    self.assertEqual(own["caches"][0][key], value, key)
                self.assertEqual(ours["caches"][0]["objects_in_use"], 100)

    def test_the_work_for_a_cache(self) -> None:
        def show(live: Live) -> None:
            with Process(live.pid) as process:
                reading = process.read()
                info.as_json(reading)
                info.prometheus(reading, process.text["numbers"])

        steps = []
        with Live() as live:
            for n in (10, 30):
                for i in range(n - 10 if steps else n):
                    live.do(f"create cache-{n}-{i}")
                    live.do("alloc 10")
                    live.do("free 5")
                steps.append(opcodes(lambda: show(live)))
        self.assertLess((steps[1] - steps[0]) / 20, MOST_STEPS)

    def test_bulk_and_shrink(self) -> None:
        with Live() as live:
            live.do("create first")
            live.do("alloc 10")
            live.do("bulk 15")
            live.do("free 5")
            for line in ("free 5", "shrink"):
                live.do(line)
                own, ours = live.own_view(), json.loads(sheaf("info", str(live.pid), "--json").stdout)
                for key in ("objects_in_use", "objects_in_sheaves", "alloc_fastpath", "free_fastpath"):
                    self.assertEqual(ours["caches"][0][key], own["caches"][0][key], key)

    def test_every_word(self) -> None:
        """Also counters after the first plane, and those of caches after the first area."""
        with Live() as live:
            live.do("create first")
            live.do("count 1")
            live.do("many 300")
            live.do("count 3")
            own = live.own_view()["caches"]
            ours = json.loads(sheaf("info", str(live.pid), "--json").stdout)["caches"]
            self.assertEqual(len(ours), 301)
            with Process(live.pid) as process:
                events = [number["name"] for number in process.text["numbers"] if number["words"]]
            for at in (0, 1, -1):
                for name in events:
                    self.assertEqual(ours[at][name], own[at][name], (at, name))
            self.assertEqual([ours[at]["nolock_deferred"] for at in (1, -1)],
                             [0, 3 * ours[0]["nolock_deferred"]])

    def test_memory_of_the_process(self) -> None:
        with Live("stats=live;backend=trylock") as live:
            live.do("create first")
            live.do("alloc 10000")
            for line in ("block 3000000", "block 1400000", "block 2000000", "release", "block 1400000"):
                live.do(line)
                own, ours = live.own_view(), json.loads(sheaf("info", str(live.pid), "--json").stdout)
                for key in ("committed_bytes", "used_bytes", "free_bytes", "mapped_bytes", "peak_bytes"):
                    self.assertEqual(ours[key], own[key], (line, key))
                for key in ("resident_bytes", "peak_resident_bytes"):
                    self.assertGreater(min(own[key], ours[key]), 0)
            self.assertEqual(ours["mapped_bytes"], 1408 << 10)
            self.assertGreater(ours["peak_bytes"], 3500000)
            text = sheaf("info", str(live.pid)).stdout
            self.assertRegex(text, r"\nmemory: \d+[KM] resident .peak \d+[KM].; libsheaf ")
            self.assertIn(", large blocks 1408K, own ", text)

    def test_names_of_merged_caches(self) -> None:
        with Live() as live:
            for name in ("first", "second", "first", "third", "second"):
                live.do(f"merge {name}")
            live.do("alloc 78")
            with Process(live.pid) as process:
                self.assertEqual([(cache.name, cache.alias_names) for cache in process.read().caches],
                                 [("first", ["second", "third"])])
            self.assertIn("\nfirst\n  also second, third\n", sheaf("info", str(live.pid)).stdout)
            for i in range(40):
                live.do(f"merge one of many names {i}")
            with Process(live.pid) as process:
                names = process.read().caches[0].alias_names
                self.assertEqual(names[2:4], ["one of many names 0", "one of many names 1"])
                self.assertRegex(names[-1], r"\A.*\.\.\.\Z")
            for _ in range(45):
                live.do("destroy")
            live.do("merge new")
            with Process(live.pid) as process:
                self.assertEqual(process.read().caches[0].alias_names, [])

    def test_unused_caches_are_hidden(self) -> None:
        with Live() as live:
            live.do("create never")
            live.do("create first")
            live.do("alloc 78")
            for command in (("info",), ("top", "--once", "-i", "0.05")):
                words = (*command, str(live.pid))
                self.assertNotRegex(sheaf(*words).stdout, r"\nnever ")
                self.assertRegex(sheaf(*words).stdout, r"\nfirst ")
                self.assertRegex(sheaf(*words, "--all").stdout, r"\nnever ")
            self.assertIn("\n1 unused cache is not shown; --all", sheaf("info", str(live.pid)).stdout)
            self.assertEqual([cache["name"] for cache in json.loads(
                sheaf("info", "--json", str(live.pid)).stdout)["caches"]], ["never", "first"])

    def test_narrow_terminal(self) -> None:
        with Live() as live:
            live.do("create a name of many letters")
            live.do("alloc 78")
            for columns in (40, 80, 100, 200):
                text = sheaf("info", str(live.pid), env={**os.environ, "COLUMNS": str(columns)}).stdout
                self.assertLessEqual(max(map(len, text.splitlines())), max(48, min(100, columns)))

    def test_text(self) -> None:
        with Live("stats=live;slab_max_order=2") as live:
            live.do("create first")
            live.do("alloc 78")
            live.do("free 1")  # a push makes the pops before it visible
            text = sheaf("info", str(live.pid)).stdout
            self.assertIn("slab_max_order=2;stats=live", text)
            self.assertRegex(text, r"\nfirst +77 ")
            self.assertIn("alloc_slab=", text)
            self.assertLessEqual(max(map(len, text.splitlines())), 100)

    def test_printed_at_exit(self) -> None:
        for options, lines in (("stats", 1), ("stats;backend=trylock", 1), ("stats=live", 0), ("", 0)):
            found = subprocess.run([LIVE], input="create first\nalloc 90\nfree 20\n", text=True,
                                   capture_output=True, check=True, timeout=PATIENCE,
                                   env={**os.environ, "SHEAF_OPTIONS": options})
            self.assertEqual(found.stderr.count("# libsheaf statistics"), lines, found.stderr)
            if lines:
                self.assertRegex(found.stderr, r"\nfirst +70 ")
                self.assertIn(" alloc_fastpath=90 free_fastpath=20 ", found.stderr)

    def test_nothing_is_printed_without_use(self) -> None:
        found = subprocess.run([LIVE], input="", text=True, capture_output=True, check=True,
                               timeout=PATIENCE, env={**os.environ, "SHEAF_OPTIONS": "stats"})
        self.assertEqual(found.stderr, "")

    def test_odd_names(self) -> None:
        with Live() as live:
            live.do('create a "b\\c\tä' + "x" * 90)
            name = 'a "b\\c?ä' + "x" * 90
            ours = json.loads(sheaf("info", str(live.pid), "--json").stdout)
            self.assertEqual(ours["caches"][0]["name"], name)
            self.assertEqual(live.own_view()["caches"][0]["name"], name)
            self.assertEqual(sheaf("info", str(live.pid)).returncode, 0)
            self.assertEqual(sheaf("top", str(live.pid), "--once", "--interval", "0.05").returncode, 0)
            for text in (live.printed("prometheus"), sheaf("info", str(live.pid), "--prometheus").stdout):
                self.assertEqual(labels(families(text)["sheaf_cache_objects_in_use"]),
                                 [(("cache", name), ("id", "1"))])

    def test_odd_options(self) -> None:
        with Live('stats=live;slab_debug=F,a"b\\c,d\x01\udcff*') as live:
            live.do("create first")
            own, ours = live.own_view(), json.loads(sheaf("info", str(live.pid), "--json").stdout)
            self.assertIn('slab_debug=F,a"b\\c,d?', own["options"])
            self.assertEqual(ours["options"], own["options"])
            found = families(sheaf("info", str(live.pid), "--prometheus").stdout)["sheaf_info"]
            self.assertEqual(found.samples[0].labels["options"], own["options"])

    def test_prometheus_is_well_formed(self) -> None:
        with Live() as live:
            live.do("many 3")
            live.do("alloc 90")
            live.do("free 20")
            own = families(live.printed("prometheus"))
            ours = families(sheaf("info", str(live.pid), "--prometheus").stdout)
            for family in (*own.values(), *ours.values()):
                self.assertIn(family.type, ("gauge", "counter"), family.name)
                self.assertTrue(family.documentation, family.name)
                self.assertEqual(len(labels(family)), len(set(labels(family))), family.name)
            self.assertEqual([sample.value for sample in ours["sheaf_cache_free_fastpath"].samples], [0, 0, 20])
            for name, family in ours.items():
                if "resident" not in name:  # measured at two different times
                    self.assertEqual(family, own[name])

    def test_further_areas(self) -> None:
        with Live() as live:
            live.do("many 1")
            with Process(live.pid) as process:
                self.assertEqual(len(process.read().caches), 1)
                live.do("many 300")
                found = process.read().caches
                self.assertEqual([cache.id for cache in found], list(range(1, 302)))

    def test_a_look_takes_no_memory(self) -> None:
        """Rows of CPUs that did not run are holes of the file, and stay holes."""
        one = {min(os.sched_getaffinity(0))}
        with Live(preexec_fn=lambda: os.sched_setaffinity(0, one)) as live:
            live.do("create lonely")
            live.do("alloc 100")
            live.do("free 100")
            path = shared.path_of(live.pid)
            before = path.stat()
            self.assertLess(before.st_blocks * 512, before.st_size)
            with Process(live.pid) as process:
                counters = process.read().caches[0].counters
            self.assertEqual(counters["alloc_fastpath"] + counters["alloc_slowpath"], 100)
            self.assertEqual(path.stat().st_blocks, before.st_blocks)

    def test_destroyed_cache_goes(self) -> None:
        with Live() as live:
            live.do("create first")
            live.do("create second")
            live.do("alloc 500")
            live.do("destroy")
            with Process(live.pid) as process:
                self.assertEqual([cache.name for cache in process.read().caches], ["first"])
            live.do("create third")
            with Process(live.pid) as process:
                third = process.read().caches[1]
            self.assertEqual((third.name, third.id), ("third", 3))
            self.assertEqual(sum(third.counters.values()), 0)

    def test_list_of_processes(self) -> None:
        with Live() as one, Live() as other:
            one.do("create a")
            other.do("many 5")
            found = {entry["pid"]: entry for entry in json.loads(sheaf("info", "--json").stdout)}
            self.assertEqual(len(found[one.pid]["caches"]), 1)
            self.assertEqual(len(found[other.pid]["caches"]), 5)
            self.assertIn(str(one.pid), sheaf("info").stdout)

    def test_process_without_statistics(self) -> None:
        with Live("") as live:
            live.do("create a")
            for command in (("info",), ("top", "--once")):
                check_failed(self, sheaf(*command, str(live.pid), "--timeout", "0.1"), 5, "idle")

    def test_no_such_process(self) -> None:
        for command in ("info", "top"):
            self.fails(sheaf(command, str(DEAD)), f"there is no process {DEAD}")

    def test_wrong_number(self) -> None:
        for word in ("abc", "0", "1.5", "", "12345678901"):
            self.fails(sheaf("info", word), repr(word))

    def test_list_as_prometheus(self) -> None:
        self.fails(sheaf("info", "--prometheus"), "needs a PID")

    @unittest.skipUnless(os.geteuid() == 0, "needs another user")
    def test_no_permission(self) -> None:
        with Live() as live:
            live.do("create a")

            def as_nobody() -> None:
                os.setgroups([])
                os.setgid(65534)
                os.setuid(65534)
            with tempfile.TemporaryDirectory() as copy:
                # That user may be unable to read the sources.
                subprocess.run(["cp", "-r", SHEAF, SHEAF.parent / "sheaf_tool", copy], check=True)
                os.chmod(copy, 0o755)
                for command in ("info", "top"):
                    found = subprocess.run(
                        ["/usr/bin/python3", f"{copy}/sheaf", command, str(live.pid)], text=True,
                        capture_output=True, check=False, preexec_fn=as_nobody, timeout=PATIENCE)
                    self.fails(found, "no permission", str(live.pid))
            self.assertTrue(shared.path_of(live.pid).exists())

    @unittest.skipUnless(os.geteuid() == 0, "only root becomes another user")
    def test_root_that_becomes_another(self) -> None:
        """What it counts later is seen; its file, whose name it may not remove, takes no memory."""
        with tempfile.TemporaryDirectory() as place:
            for lines in ["user 65534"], [f"chroot {place}"], [f"chroot {place}", "user 65534"]:
                with Live() as live:
                    live.do("create early")
                    for line in (*lines, "many 300", "create late", "alloc 70"):
                        live.do(line)
                    self.assertRegex(sheaf("info", str(live.pid)).stdout, r"\nlate +[1-9]", lines)
                    live.process.communicate("")
                    path = shared.path_of(live.pid)
                    self.assertEqual(path.stat().st_blocks, 0)
                    sheaf("info")
                    self.assertFalse(path.exists())

    @unittest.skipUnless(os.geteuid() == 0, "only root becomes another user")
    def test_root_that_becomes_another_and_prints(self) -> None:
        """The file's memory goes after the statistics at exit were printed."""
        with Live("stats=json", stderr=subprocess.PIPE) as live:
            for line in "create early", "user 65534", "alloc 70":
                live.do(line)
            _, errors = live.process.communicate("")
            early, = json.loads(errors)["caches"]
            self.assertGreaterEqual(early["sheaf_refill"], 70)
            self.assertEqual(shared.path_of(live.pid).stat().st_blocks, 0)

    def test_killed_process_leaves_a_file(self) -> None:
        with Live() as live:
            live.do("create a")
            live.process.kill()
            live.process.wait()
            path = shared.path_of(live.pid)
            self.assertTrue(path.exists())
            self.assertNotIn(str(live.pid), sheaf("info").stdout.split())
            self.assertFalse(path.exists())

    def test_one_that_nobody_waited_for_has_ended(self) -> None:
        with Live() as live:
            live.do("create a")
            os.kill(live.pid, signal.SIGKILL)
            os.waitid(os.P_PID, live.pid, os.WEXITED | os.WNOWAIT)
            self.fails(sheaf("info", str(live.pid)), "there is no process")

    def test_number_of_another_process(self) -> None:
        """The file's process ended, and a process without libsheaf has its PID now."""
        path = shared.path_of(os.getpid())
        path.write_bytes(b"\0" * 65536)
        try:
            self.assertFalse(shared.left_over(os.getpid()))
            os.utime(path, (time.time() - 3600,) * 2)
            self.assertTrue(shared.left_over(os.getpid()))
            self.fails(sheaf("info", str(os.getpid())), "has no libsheaf")
            self.assertFalse(path.exists())
        finally:
            path.unlink(missing_ok=True)

    def test_first_thread_ends_first(self) -> None:
        with Live() as live:
            live.do("create first")
            live.do("leave")
            path = shared.path_of(live.pid)
            stat = Path(f"/proc/{live.pid}/stat")
            while stat.read_text(encoding="utf-8").rpartition(")")[2].split()[0] != "Z":
                time.sleep(0.001)
            os.utime(path, (time.time() - 3600,) * 2)
            self.assertIn(str(live.pid), sheaf("info").stdout.split())
            live.do("alloc 70")
            live.do("free 1")
            found = sheaf("info", str(live.pid))
            self.assertRegex(found.stdout, r"\nfirst +69 ", found)
            self.assertTrue(path.exists())

    def test_same_number_in_another_namespace(self) -> None:
        """A process uses the file, but not the one that has this PID here."""
        for pid in (DEAD, os.getpid()):
            path = shared.path_of(pid)
            path.write_bytes(b"\0" * 65536)
            os.utime(path, (time.time() - 3600,) * 2)
            file = os.open(path, os.O_RDONLY)
            try:
                fcntl.flock(file, fcntl.LOCK_SH)
                self.assertFalse(shared.left_over(pid))
                shared.remove_left_over(pid)
                sheaf("info")
                self.fails(sheaf("info", str(pid)), str(pid))
                self.assertTrue(path.exists())
                fcntl.flock(file, fcntl.LOCK_UN)
                sheaf("info")
                self.assertFalse(path.exists())
            finally:
                os.close(file)
                path.unlink(missing_ok=True)

    def test_another_namespace(self) -> None:
        path = shared.path_of(1)
        path.unlink(missing_ok=True)
        with Apart("--pid") as process:
            process.do("create first")
            os.utime(path, (time.time() - 3600,) * 2)
            self.assertRegex(sheaf("info").stdout, rf"\n *{process.pid} +live ")
            self.assertRegex(sheaf("info", str(process.pid)).stdout, rf"\Aprocess {process.pid} \(live\)")
            self.assertTrue(path.exists())
        self.assertFalse(path.exists())

    def test_another_mount_namespace(self) -> None:
        """As in a container: its file is in a /dev/shm of its own."""
        with Apart("--pid", "--mount", first="mount -t tmpfs none /dev/shm && ") as process:
            process.do("create first")
            self.assertFalse(shared.path_of(1).exists())
            self.assertRegex(sheaf("info").stdout, rf"\n *{process.pid} +live ")
            self.assertRegex(sheaf("info", "--all", str(process.pid)).stdout, r"\nfirst +0 ")

    def test_file_of_the_own_number(self) -> None:
        """Left-over files are removed; files in use stay, and are listed once."""
        def make(used: bool) -> None:
            file = os.open(shared.path_of(os.getpid()), os.O_RDWR | os.O_CREAT, 0o600)
            os.write(file, b"before")
            if used:
                fcntl.flock(file, fcntl.LOCK_SH)
                os.set_inheritable(file, True)

        for used in (False, True):
            with Live(preexec_fn=lambda: make(used), close_fds=False,
                      stderr=subprocess.PIPE) as live:
                live.do("many 600")
                path = shared.path_of(live.pid)
                self.assertEqual(path.read_bytes()[:6] == b"before", used)
                self.assertEqual(len(live.own_view()["caches"]), 600)
                _, errors = live.process.communicate()
                self.assertEqual(path.exists(), used)
                self.assertEqual(errors.count("statistics: "), int(used), errors)
                self.assertEqual("cannot be created" in errors and str(path) in errors, used)

    def test_child_does_not_keep_the_file(self) -> None:
        """The parent was killed; its forked child continues, with its own counters."""
        with Live() as live:
            live.do("create first")
            live.do("fork")
            live.process.kill()
            live.process.wait()
            self.assertTrue(shared.left_over(live.pid))

    def test_other_contents(self) -> None:
        path = shared.path_of(os.getpid())
        for content in (b"", b"x", b"x" * 70000):
            path.write_bytes(content)
            try:
                with self.assertRaises(Failure):
                    Process(os.getpid())
            finally:
                path.unlink(missing_ok=True)

    def test_other_version(self) -> None:
        with Live() as live:
            live.do("create a")
            with mock.patch("sheaf_tool.process.VERSION", 999):
                with self.assertRaisesRegex(Failure, "another version"):
                    Process(live.pid)

    def test_top_once(self) -> None:
        with Live() as live:
            live.do("create first")
            live.do("alloc 34")
            live.do("free 1")
            found = sheaf("top", str(live.pid), "--once", "--interval", "0.1")
            self.assertEqual(found.returncode, 0, found)
            self.assertRegex(found.stdout, r"\nfirst +33 ")

    def test_top_json(self) -> None:
        with Live() as live:
            live.do("create first")
            live.do("alloc 33")
            found = sheaf("top", str(live.pid), "--json", "--once", "--interval", "0.1")
            self.assertEqual(json.loads(found.stdout)["caches"][0]["allocs_per_second"], 0)

    def test_top_needs_a_terminal(self) -> None:
        with Live() as live:
            live.do("create first")
            self.fails(sheaf("top", str(live.pid)), "terminal", "--once")

    def test_top_says_when_the_process_ends(self) -> None:
        with Live() as live:
            live.do("create first")
            top = subprocess.Popen([sys.executable, SHEAF, "top", str(live.pid), "--json",
                                    "--interval", "0.05"], text=True, stdin=subprocess.DEVNULL,
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE)
            top.stdout.readline()
            live.process.communicate()
            _, errors = top.communicate(timeout=PATIENCE)
            self.assertEqual(top.returncode, 4)
            self.assertEqual(errors, f"sheaf: process {live.pid} has ended\n")


@unittest.skipUnless(HAS_LIVE, "needs a build and /dev/shm")
class OnATerminal(unittest.TestCase):
    def setUp(self) -> None:
        self.live = Live()
        self.live.do("create first")
        self.live.do("alloc 33")
        self.screen = Screen("top", str(self.live.pid), "--interval", "0.1")

    def tearDown(self) -> None:
        self.live.__exit__()
        self.screen.close()

    def test_keys(self) -> None:
        self.screen.wait_for("[in use]", self)
        for key, column in (("a", "[allocs/s]"), ("f", "[frees/s]"), ("m", "[misses/s]"),
                            ("b", "[memory]"), ("n", "[cache]"), ("o", "[in use]")):
            self.screen.seen = ""
            self.screen.type(key)
            self.screen.wait_for(column, self)
        self.screen.type("q")
        self.screen.wait_for("\x1b[?1049l", self)
        self.assertEqual(self.screen.status(), 0)

    def test_process_ends(self) -> None:
        self.screen.wait_for("first", self)
        self.live.process.communicate()
        self.screen.wait_for(f"sheaf: process {self.live.pid} has ended", self)
        self.assertEqual(self.screen.status(), 4)
