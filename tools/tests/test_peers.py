# SPDX-License-Identifier: MIT
"""The peers that are fetched: the table, checksums, and how each is found and run."""
import json
import os
import subprocess
import tempfile
import unittest
from pathlib import Path
from unittest import mock

from peers import recipes, source
from sheaf_bench import allocators
from sheaf_bench.allocators import ALLOCATORS, FETCHED, Allocator, Worker
from sheaf_tool import mallocs
from sheaf_tool.errors import Failure
from sheaf_bench.suites import count

PEER = source.Peer("quick", "1.2", "quick-sys", "0.1+abc", "aa11")
# What cargo prints to standard error without a network.
CARGO_SAYS = """\
    Updating index
error: failed to get `quick-sys` as a dependency

Caused by:
  download of config.json failed

Caused by:
  could not resolve host
"""


class Table(unittest.TestCase):
    def test_every_peer_has_a_recipe_and_an_allocator(self) -> None:
        table = source.read_table()
        fetched = {entry.name: entry.library for entry in ALLOCATORS if entry.fetched}
        self.assertEqual({peer.name: peer.library for peer in table}, fetched)
        self.assertEqual(set(recipes.RECIPES), set(fetched))
        for peer in table:
            self.assertRegex(peer.sha256, r"^[0-9a-f]{64}$")

    def test_tells_the_version(self) -> None:
        self.assertEqual(str(PEER), "1.2 (quick-sys 0.1+abc)")
        self.assertEqual(str(source.Peer("q", "-", "q-sys", "3", "")), "q-sys 3")


class Fetching(unittest.TestCase):
    def setUp(self) -> None:
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.directory = Path(scratch.name)

    def _cargo(self, script: str) -> None:
        """Make this shell script the `cargo` command, and the only command."""
        program = self.directory / "cargo"
        program.write_text("#!/bin/sh\n" + script, encoding="utf-8")
        program.chmod(0o755)
        change = mock.patch.dict(os.environ, {"PATH": f"{self.directory}:/usr/bin:/bin"})
        change.start()
        self.addCleanup(change.stop)

    def _vendored(self, checksum: str) -> str:
        text = json.dumps({"files": {}, "package": checksum})
        return ("grep -q '^quick-sys = .*\"=0.1\"' Cargo.toml || exit 1\n"
                "mkdir -p vendor/quick-sys-0.1+abc\n"
                f"echo '{text}' >vendor/quick-sys-0.1+abc/.cargo-checksum.json\n")

    def test_takes_the_crate_of_the_table(self) -> None:
        self._cargo(self._vendored(PEER.sha256))
        source.get(PEER, self.directory / "source" / "quick")
        self.assertTrue((self.directory / "source" / "quick" / ".cargo-checksum.json").exists())
        self.assertEqual(os.listdir(self.directory / "source"), ["quick"])

    def test_refuses_another_crate(self) -> None:
        self._cargo(self._vendored("bb22"))
        with self.assertRaisesRegex(source.Unavailable, "SHA-256 differs"):
            source.get(PEER, self.directory / "source" / "quick")
        self.assertFalse((self.directory / "source" / "quick").exists())

    def test_tells_why_there_is_none(self) -> None:
        self._cargo(f"cat >&2 <<'END'\n{CARGO_SAYS}END\nexit 101\n")
        with self.assertRaisesRegex(source.Unavailable, "^cargo: could not resolve host$"):
            source.get(PEER, self.directory / "source" / "quick")

    def test_tells_that_cargo_is_missing(self) -> None:
        with mock.patch.dict(os.environ, {"PATH": str(self.directory)}):
            with self.assertRaisesRegex(source.Unavailable, "no cargo here"):
                source.get(PEER, self.directory / "source" / "quick")


class Building(unittest.TestCase):
    def test_compiles_and_links_or_tells_why_not(self) -> None:
        with tempfile.TemporaryDirectory() as scratch:
            crate, library = Path(scratch), Path(scratch) / "libquick.so"
            (crate / "one.c").write_text("int one(void) { return 1; }\n", encoding="utf-8")
            (crate / "bad.c").write_text("int bad(void) { return }\n", encoding="utf-8")
            files = []
            good = recipes.Recipe(("no-such-compiler", "cc", "gcc"), ".", lambda root: ["one.c"],
                                  ("-fPIC",))
            recipes.build(good, crate, library, lambda: files.append(1))
            self.assertTrue(library.exists())
            self.assertTrue(library.with_suffix(".a").exists())
            self.assertEqual(len(files), 1)
            library.unlink()
            bad = recipes.Recipe(("cc", "gcc"), ".", lambda root: ["one.c", "bad.c"], ("-fPIC",))
            with self.assertRaisesRegex(source.Unavailable, "bad.c:1.*error"):
                recipes.build(bad, crate, library, lambda: None)
            self.assertFalse(library.exists())

    def test_links_programs_again_when_something_is_newer(self) -> None:
        with tempfile.TemporaryDirectory() as scratch:
            bench, archive = Path(scratch) / "bench", Path(scratch) / "libquick.a"
            for name, text in (("programs/batch.c", "int one(void), common(void);\nint main(void) { return one() + common(); }"),
                               ("common/common.c", "int common(void) { return -1; }"), ("one.c", "int one(void) { return 1; }")):
                (bench / name).parent.mkdir(parents=True, exist_ok=True)
                (bench / name).write_text(text + "\n", encoding="utf-8")
            recipe = recipes.Recipe(("gcc", "cc"), ".", lambda root: ["one.c"], ("-fPIC",))
            recipes.build(recipe, bench, archive.with_suffix(".so"), lambda: None)
            program = Path(scratch) / "batch-quick-static"
            with mock.patch.object(recipes, "STATIC", {"batch": recipes.STATIC["batch"]}):
                recipes.link_programs(recipe, bench, archive, "quick")
                self.assertEqual(subprocess.run([program], check=False).returncode, 0)
                made = program.stat().st_ino
                recipes.link_programs(recipe, bench, archive, "quick")
                self.assertEqual(program.stat().st_ino, made)
                later = program.stat().st_mtime + 1
                os.utime(bench / "programs" / "batch.c", (later, later))
                recipes.link_programs(recipe, bench, archive, "quick")
                self.assertNotEqual(program.stat().st_ino, made)

    def test_needs_a_compiler(self) -> None:
        none = recipes.Recipe(("no-such-compiler", "nor-this"), ".", lambda root: [], ())
        with self.assertRaisesRegex(source.Unavailable, "no no-such-compiler or nor-this here"):
            recipes.compiler(none)


class Measuring(unittest.TestCase):
    def setUp(self) -> None:
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.directory = Path(scratch.name)
        for module in allocators, mallocs.paths:
            change = mock.patch.object(module, "PEERS", self.directory)
            change.start()
            self.addCleanup(change.stop)
        self.entry = Allocator("quick", "malloc", (), "libquick.so")

    def test_version_is_of_what_was_built(self) -> None:
        self.assertIsNone(self.entry.version())
        (self.directory / "quick.version").write_text("1.2 (x 0.1)\n-O3\n", encoding="utf-8")
        self.assertEqual(self.entry.version(), "1.2 (x 0.1)")

    def test_what_is_missing_says_what_to_do(self) -> None:
        for worker in ("malloc", "sheaf"):
            (self.directory / f"batch-{worker}").touch()
        entries = (self.entry, Allocator("old", "malloc", (), "libno-such.so", "old", "old"))
        with mock.patch.object(allocators, "ALLOCATORS", entries):
            _, missing = allocators.ready("batch", self.directory)
            self.assertEqual(missing, {"quick": FETCHED, "old": "apt-get install old"})
            (self.directory / "libquick.so").touch()
            workers, missing = allocators.ready("batch", self.directory)
        self.assertEqual([worker.library for worker in workers], [self.directory / "libquick.so"])
        self.assertNotIn("quick", missing)

    def test_a_linked_peer_has_programs_of_its_own(self) -> None:
        bench = self.directory / "build" / "bench"
        bench.mkdir(parents=True)
        entry = Allocator("snmalloc-static", "snmalloc-static", named=True)
        with mock.patch.object(allocators, "ALLOCATORS", (entry,)):
            self.assertEqual(allocators.ready("batch", bench, (entry.name,)), ([], {entry.name: FETCHED}))
            program = self.directory / "batch-snmalloc-static"
            program.write_text("#!/bin/sh\necho from /lib/libc.so.6\necho 5.0\n", encoding="utf-8")
            program.chmod(0o755)
            (worker,), missing = allocators.ready("batch", bench, (entry.name,))
        self.assertEqual((worker.program, missing), (program, {}))
        with self.assertRaisesRegex(Failure, "malloc came from /lib/libc.so.6"):
            worker.run()
        program.write_text(f"#!/bin/sh\necho from {program}\necho 5.0\n", encoding="utf-8")
        self.assertEqual(worker.run(), ["5.0"])

    def test_runs_in_its_environment(self) -> None:
        program = self.directory / "program"
        program.write_text("#!/bin/sh\necho \"$TUNED\"\n", encoding="utf-8")
        program.chmod(0o755)
        entry = Allocator("quick", "malloc", environment=(("TUNED", "yes"),))
        self.assertEqual(Worker(entry, program, None).run(), ["yes"])
        self.assertEqual(Worker(self.entry, program, None).run(), [""])

    def test_counts_only_what_can_be_stepped_through(self) -> None:
        workers = [Worker(Allocator(name, "malloc", steps=steps), self.directory, None)
                   for name, steps in (("quick", True), ("rseq", False))]
        counted, missing = count._countable(workers, {"old": "apt-get install old"})
        self.assertEqual([worker.name for worker in counted], ["quick"])
        self.assertEqual(set(missing), {"old", "rseq"})

    def test_a_library_that_was_not_used_is_a_failure(self) -> None:
        program = self.directory / "program"
        program.write_text("#!/bin/sh\necho from /lib/libc.so.6\necho 5.0\n", encoding="utf-8")
        program.chmod(0o755)
        with self.assertRaisesRegex(Failure, "malloc came from /lib/libc.so.6"):
            Worker(self.entry, program, self.directory / "libquick.so").run()
