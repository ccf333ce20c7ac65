# SPDX-License-Identifier: MIT
"""`sheaf profile`: documents, estimates, and the formats that are text."""
import copy
import gzip
import json
import math
import os
import random
import re
import tempfile
import unittest
from pathlib import Path
from typing import Any, Iterable
from unittest import mock

from heap import MAPS, document, named, profile, row, sheaf, write
from live import check_failed
from sheaf_tool import control
from sheaf_tool.errors import Failure
from sheaf_tool.profile import aggregate, estimate, fetch, folded, jemalloc, leaks, modules, raw, top

LIVE = "live", "bytes"
GOOD = document([named(1, 2)], [row(live=(1, 50))], samples=[[50, 0, 1, 10.5]])


class Folder(unittest.TestCase):
    def setUp(self) -> None:
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.place = Path(directory.name)

    def write(self, found: Any, name: str = "a.heap") -> str:
        return write(self.place / name, found)


class Documents(Folder):
    def refused(self, found: Any, *parts: str) -> None:
        name = self.write(found)
        with self.assertRaises(Failure) as caught:
            raw.read(name)
        said = str(caught.exception)
        self.assertTrue(said.startswith(f"{name} is no heap profile of libsheaf, or it is damaged: "), said)
        self.assertNotIn("\n", said)
        for part in parts:
            self.assertIn(part, said)

    @staticmethod
    def at(found: Any, path: Iterable[Any]) -> Any:
        for key in path:
            found = found[key]
        return found

    def changed(self, path: list[Any], value: Any) -> dict[str, Any]:
        found = copy.deepcopy(GOOD)
        self.at(found, path[:-1])[path[-1]] = value
        return found

    def test_good(self) -> None:
        self.assertEqual(sheaf("profile", self.write(GOOD)).stderr, "")
        self.assertEqual(raw.parse(json.dumps(GOOD), "it").samples, [raw.Sample(50, 0, 1, 10.5)])

    def test_no_json(self) -> None:
        check_failed(self, sheaf("profile", self.write("")), 1, "a.heap is no heap profile of libsheaf, or it is damaged: it is empty")
        for text in "{", "[" * 100000, [], {}, "\x00\xff\n", "null":
            self.refused(text)

    def test_lacks(self) -> None:
        for of, optional in ((), set()), (("rows", 0), {"group"}), (("maps", 0), set()):
            for key in set(self.at(GOOD, of)) - optional:
                found = copy.deepcopy(GOOD)
                del self.at(found, of)[key]
                self.refused(found)

    def test_wrong_values(self) -> None:
        self.refused(self.changed(["profile"], 2), "it has form 2, and this version reads form 1")
        for path, values in (
                (["profile"], ("1", None)), (["mean"], (0, 1.5, "x")), (["pid"], (True, -1)), (["program"], (1,)),
                (["now_ms"], ("x", float("nan"), -1)), (["stacks"], ({},)), (["stacks", 0, 1], ("xyz", "-1", "1" * 17, 17)),
                (["rows", 0], ([],)), (["rows", 0, "stack"], (1, -1)), (["rows", 0, "size"], (0,)),
                (["rows", 0, "live"], ([1], [1, -1], [1, 2, 3])), (["rows", 0, "peak"], ([1 << 64, 1],)),
                (["rows", 0, "cache"], (None,)), (["rows", 0, "elsewhere"], (1,)), (["maps", 0, "end"], ("0",)),
                (["maps", 0, "build_id"], ("xy",)), (["maps", 0, "offset"], (-1,)), (["full"], ("no",)),
                (["samples", 0], ([1], [1, 1, 1, 1], [1, 0, -1, 1]))):
            for value in values:
                with self.subTest(path=path, value=value):
                    self.refused(self.changed(path, value))

    def test_files(self) -> None:
        check_failed(self, sheaf("profile", "/no/such/file"), 1, "/no/such/file: No such file or directory")
        check_failed(self, sheaf("profile", str(self.place)), 1, "Is a directory")
        packed = gzip.compress(json.dumps(GOOD).encode())
        (self.place / "a.gz").write_bytes(packed)
        self.assertEqual(raw.read(str(self.place / "a.gz")).pid, 4711)
        for damaged in (packed[:-9], packed[:12] + b"x" + packed[13:]):
            (self.place / "a.gz").write_bytes(damaged)
            check_failed(self, sheaf("profile", str(self.place / "a.gz")), 1, "a.gz is damaged: ")

    def test_usage(self) -> None:
        name = self.write(GOOD)
        for words in ((), ("--diff", name, name, name), (name, "--seconds", "1"), (name, "--growth"), ("1", "--peak", "--growth"),
                      ("1", "--seconds", "0"), (name, "--leaks", "--format", "html"), (name, "--top", "0"),
                      ("--leaks", "--diff", name, name), (name, "--format", "raw"), (name, "--off"),
                      ("1", "--off", "--on"), ("1", "--growth", "--format", "raw")):
            check_failed(self, sheaf("profile", *words), 2)
        for words in ((name, "--path", "/no/such"), ("--diff", name, name, "--format", "jemalloc"),
                      (name, name, "--format", "jemalloc"), (name, "-o", "/no/such/file")):
            check_failed(self, sheaf("profile", *words), 1)


class Estimates(unittest.TestCase):
    def test_by_hand(self) -> None:
        """mean 4096: 1 - exp(-64 / 4096) = 0.015503562994591..., 1 - exp(-2) = 0.864664716763387..."""
        found = profile(document([named(1)], [
            row(live=(10, 500), all=(100, 5000), peak=(20, 1000), freed=90, elsewhere=45, lifetime_ms=9000),
            row(cache="kmalloc-8k", size=8192, live=(5, 40000))]))
        small, large = found.entries
        self.assertAlmostEqual(small.values["live"][0], 645.01302, places=4)
        self.assertAlmostEqual(small.values["live"][1], 32250.65103, places=4)
        self.assertAlmostEqual(small.values["all"][1], 322506.5104, places=3)
        self.assertAlmostEqual(small.values["peak"][0], 1290.02604, places=4)
        self.assertAlmostEqual(small.freed, 5805.11718, places=4)
        self.assertAlmostEqual(large.values["live"][0], 5.7825882, places=6)
        self.assertAlmostEqual(large.values["live"][1], 46260.70569, places=4)
        total = found.sum("live")
        self.assertEqual(total.samples, 15)
        self.assertAlmostEqual(total.bytes, 78511.35672, places=4)
        # 10 * (50 / 0.0155036)^2 * 0.9844964 + 5 * (8000 / 0.8646647)^2 * 0.1353353, and its root
        self.assertAlmostEqual(total.error, math.sqrt(102397439.3 + 57926018.8), delta=0.5)

    def test_ends(self) -> None:
        self.assertEqual(estimate.chance(1 << 62, 1), 1)
        self.assertAlmostEqual(estimate.chance(1, 1 << 62) * (1 << 62), 1)

    def test_truth(self) -> None:
        """Allocations drawn by the rule add up to the truth within four standard errors."""
        rng, truth, rows = random.Random(7), 0, []
        for size in (8, 100, 4096, 100000):
            asked = size - size // 8
            drawn = sum(rng.random() < estimate.chance(size, 4096) for _ in range(20000))
            truth += 20000 * asked
            rows.append(row(size=size, live=(drawn, drawn * asked)))
        total = profile(document([named(1)], rows)).sum("live")
        self.assertLess(abs(total.bytes - truth), 4 * total.error)

    def test_several_and_difference(self) -> None:
        before = document([named(1), named(2)], [row(0, live=(10, 500)), row(1, live=(4, 200))])
        after = document([named(2), named(1)], [row(0, live=(4, 200)), row(1, live=(30, 1500))])
        self.assertEqual(folded.render(profile(before, after), LIVE), "many+0x1 129003\nmany+0x2 25801\n")
        self.assertEqual(folded.render(profile(after, minus=[before]), LIVE), "many+0x1 64501\n")
        self.assertEqual(folded.render(profile(after, minus=[before]), ("live", "objects")), "many+0x1 1290\n")
        self.assertEqual(folded.render(profile(before, minus=[after]), LIVE), "")  # nothing has grown
        text = top.render(profile(before, minus=[after]), LIVE, 30)
        self.assertIn("in use: -63K in -1290 objects more in the second", text)
        self.assertRegex(text, r"(?m)^ +-63K -100\.0% +-63K -100\.0% +- +-  kmalloc-64 +many\+0x1$")


class Sums(unittest.TestCase):
    def test_self_total_and_recursion(self) -> None:
        found = profile(document([named(1, 2, 1, 3), named(2, 3)], [
            row(0, size=1 << 40, live=(1, 100), freed=4, elsewhere=1, lifetime_ms=40),
            row(1, size=1 << 40, cache="b", live=(1, 7), freed=4, elsewhere=3, lifetime_ms=0)]))
        by_name = {one.name: one for one in aggregate.by_function(found, [LIVE])}
        self.assertEqual({name: (one.own, one.total) for name, one in by_name.items()},
                         {"many+0x1": ([100], [100]), "many+0x2": ([7], [107]), "many+0x3": ([0], [107])})
        self.assertEqual((by_name["many+0x3"].elsewhere_share(), by_name["many+0x3"].mean_lifetime_ms()), (0.5, 5))
        self.assertEqual(by_name["many+0x3"].caches, {"kmalloc-64": 100, "b": 7})

    def test_allocators_are_left_out(self) -> None:
        for name in ("malloc", "kmalloc", "kmalloc_noprof", "operator new(unsigned long)", "operator new[]", "kmem_cache_alloc",
                     "__libc_calloc", "kvzalloc", "xmalloc", "posix_memalign", "strdup", "__rust_alloc"):
            self.assertTrue(aggregate.ALLOCATES.fullmatch(name), name)
        for name in ("main", "my_malloc_stats", "mallocator", "operator newer", "kmalloc_user::f", "alloc"):
            self.assertFalse(aggregate.ALLOCATES.fullmatch(name), name)

    def test_where_stacks_begin(self) -> None:
        def names(*functions: str) -> list[str]:
            stack = tuple(mock.Mock(lines=(mock.Mock(function=one),)) for one in functions)
            return [line.function for line in aggregate.frames(stack)]
        self.assertEqual(names("hook", "malloc", "operator new(unsigned long)", "f", "main"), ["f", "main"])
        self.assertEqual(names("f", "main"), ["f", "main"])
        self.assertEqual(names("malloc", "kmalloc"), ["malloc", "kmalloc"])
        self.assertEqual(names(), ["(no stack)"])


NASTY = "a;b\n<img src=x onerror=alert(1)>\"'\\</script>\x1b[31m\udc80"


class Text(Folder):
    def test_fits(self) -> None:
        rows = [row(i % 50, cache="cache-with-a-very-long-name-" + str(i % 7), size=1 << i % 40, live=(i, i << i % 40),
                    freed=i, lifetime_ms=i * 10 ** 6) for i in range(1, 300)]
        found = document([named(*range(n, 60)) for n in range(50)], rows, program="/very" * 40, full=3,
                         maps=[{**MAPS[0], "file": "many" * 40}])
        for text in (top.render(profile(found), LIVE, 300), top.render(profile(found), ("all", "objects"), 5),
                     leaks.render(profile(found), 20)):
            self.assertLessEqual(max(map(len, text.splitlines())), 100)
            self.assertIn("3 samples had no room: all figures are too low", text)
        self.assertIn("and 45 more functions: --top N shows more", top.render(profile(found), LIVE, 15))

    def test_nasty_names(self) -> None:
        found = document([named(1)], [row(cache=NASTY, group=NASTY, live=(1, 50))], program=NASTY,
                         maps=[{**MAPS[0], "file": NASTY}])
        name = self.write(json.dumps(found))
        for words in ((), ("--leaks",), ("--format", "folded"), ("--format", "jemalloc")):
            text = sheaf("profile", name, *words).stdout
            self.assertTrue(text)
            self.assertNotRegex(text, "[^\n\x20-\x7e]", words)
        lines = sheaf("profile", name, "--format", "folded").stdout.splitlines()
        self.assertEqual(len(lines), 1)
        self.assertEqual(lines[0].count(";"), 0)

    def test_folded_is_as_its_readers_want_it(self) -> None:
        """As flamegraph.pl, inferno and speedscope read a line: the last word is the value, and no other word may seem one."""
        names = ("operator 5", "f(int, a;b)", "first\nsecond", "g 1.5", " h ", "größe", "7", "")
        entries = [mock.Mock(stack=tuple(mock.Mock(lines=(mock.Mock(function=one),)) for one in stack),
                             value=lambda *_: 12.6) for stack in (names, names[::-1])]
        lines = folded.render(mock.Mock(entries=entries), LIVE).splitlines()
        self.assertEqual(len(lines), 2)
        for line in lines:
            stack, value = re.fullmatch(r"(.*) (\d+)", line).groups()
            self.assertEqual((stack.count(";"), value), (len(names) - 1, "13"))
            self.assertNotRegex(stack, r"\s[\d.]*$")
            self.assertTrue(line.isprintable())

    def test_leaks(self) -> None:
        found = document([named(1, 2), named(3)], [row(0, live=(2, 100)), row(1, live=(0, 0), all=(5, 5)),
                                                           row(1, live=(9, 450), group="query")],
                         samples=[[50, 0, 3, 59000], [50, 0, 7, 1000]])
        self.assertEqual(leaks.render(profile(found), 30), """\
profile of /bin/many (process 4711)
in use: 35K (standard error 29.9 %) in 710 objects, estimated from 11 samples, one per 4096
    28K in 581 objects of kmalloc-64, by 9 samples, group query
           many+0x3
   6450 in 129 objects of kmalloc-64, by 2 samples, age 1000 ms to 59 s, thread 3-7
           many+0x1
           many+0x2
""")

    def test_jemalloc(self) -> None:
        found = document([named(1, 2), [], named(3)], [
            row(0, live=(2, 100), all=(3, 150)), row(1, live=(7, 70)), row(2, size=8192, live=(0, 0), all=(1, 8000))])
        self.assertEqual(jemalloc.render(profile(found), "live"), """\
heap_v2/4096
  t*: 2: 128 [4: 8384]
@ 0x7f0000000002 0x7f0000000003
  t*: 2: 128 [3: 192]
@ 0x7f0000000004
  t*: 0: 0 [1: 8192]

MAPPED_LIBRARIES:
7f0000000000-7f0000100000 r-xp 00000000 00:00 0 many
""")


class Process(unittest.TestCase):
    """What a running process is asked for."""

    def ask(self, *words: str, answers: list[Any]) -> str:
        asked = mock.Mock(side_effect=[json.dumps(one) if isinstance(one, dict) else one for one in answers])
        with mock.patch.object(control, "ask", asked), mock.patch("time.sleep") as self.slept, \
                mock.patch.object(fetch, "about", lambda _: {}):
            found = sheaf("profile", "4711", *words)
        self.asked = [call.args[1] for call in asked.call_args_list]
        return found.stdout + (found.stderr if found.returncode else "")

    def test_values(self) -> None:
        one = document([named(1)], [row(live=(1, 50), all=(3, 150), peak=(2, 100))])
        two = document([named(1)], [row(live=(2, 100), all=(8, 400), peak=(2, 100))])
        words = "--format", "folded"
        self.assertEqual(self.ask(*words, answers=[one]), "many+0x1 3225\n")
        self.assertEqual(self.ask(*words, "--peak", answers=[one]), "many+0x1 6450\n")
        self.assertEqual(self.ask(*words, "--seconds", "3", answers=[one, two]), "many+0x1 16125\n")
        self.slept.assert_called_once_with(3.0)
        self.assertEqual(self.ask(*words, "--growth", answers=[one, two]), "many+0x1 3225\n")
        self.slept.assert_called_once_with(10.0)

    def test_switches(self) -> None:
        one = document([named(1)], [row(live=(1, 50))])
        two = document([named(1)], [row(live=(3, 150))], on=False)
        never = Failure("process 4711 cannot answer: it takes no samples; ask for profile on")
        words = "--seconds", "3", "--format", "folded"
        for answers, asked in (([one, two], ["profile", "profile"]), ([two, one, two], ["profile", "profile on 4096", "profile off"]),
                               ([never, one, two], ["profile", "profile on", "profile off"])):
            self.assertEqual(self.ask(*words, answers=answers), "many+0x1 6450\n")
            self.assertEqual(self.asked, asked)
        self.assertRegex(self.ask(answers=[never]), r"\Asheaf: process 4711 takes no samples: begin with .*\n\Z")
        self.assertEqual(self.ask("--on", "4096", answers=[one]), "process 4711 takes a sample in each 4096 bytes\n")
        self.assertEqual(self.asked, ["profile on 4096"])
        self.ask("--on", answers=[one])
        self.assertEqual(self.asked, ["profile on"])
        self.assertEqual(self.ask("--off", answers=[two]), "process 4711 takes no more samples\n")
        self.assertEqual(self.asked, ["profile off"])

    def test_bad_answer(self) -> None:
        self.assertRegex(self.ask(answers=["x"]), r"\Asheaf: the answer of process 4711 is no heap profile of libsheaf.*\n\Z")

    def test_refused(self) -> None:
        for said, shown in (("it does not know this question: another version?", "process 4711 runs a libsheaf without heap profiles"),
                            ("there is no such process", "there is no such process")):
            self.assertEqual(self.ask(answers=[Failure(said)]), f"sheaf: {shown}\n")

    def test_stored(self) -> None:
        """What a process does not say of itself is added, and a file of it can be read later."""
        pid, said = os.getpid(), {key: value for key, value in GOOD.items() if key not in ("program", "pid", "maps")}
        with mock.patch.object(control, "ask", return_value=json.dumps(said)):
            text = raw.render(fetch.fetch(pid, 1))
        found = raw.parse(text, "it")
        program = os.readlink("/proc/self/exe")
        self.assertEqual((found.pid, found.program, found.rows), (pid, program, raw.parse(json.dumps(GOOD), "it").rows))
        facts = modules.facts(program)
        self.assertEqual({one.build_id for one in found.maps if one.file == program}, {facts.build_id if facts else None})


class Huge(unittest.TestCase):
    def test_rows(self) -> None:
        """Many rows are read and shown; a quadratic step would not end."""
        rng, n = random.Random(3), 30000
        found = document([named(*(rng.randrange(1 << 18) for _ in range(3)), 1, 2, 3, 4, 5) for _ in range(n)],
                         [row(i, live=(1, 60)) for i in range(n)])
        made = profile(found)
        self.assertEqual(made.sum("live").samples, n)
        self.assertGreater(len(folded.render(made, LIVE).splitlines()), n * 9 // 10)
        self.assertIn("more functions", top.render(made, LIVE, 30))
