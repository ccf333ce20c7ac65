# SPDX-License-Identifier: MIT
"""`sheaf profile`: functions and lines of a program, with debug data in it, beside it, elsewhere, or nowhere."""
import os
import shutil
import subprocess
import unittest
from pathlib import Path
from typing import Any
from unittest import mock

from heap import HAS_COMPILER, MAPS, compile_program, document, named, profile, row, running
from test_profile import Folder
from sheaf_tool import elf, symbols
from sheaf_tool.profile import aggregate, modules

WITH_LINES = ["fill at boxes.c:14", "push at boxes.c:19", "queue at boxes.c:24", "main at boxes.c:29"]


@unittest.skipUnless(HAS_COMPILER, "needs a compiler and objcopy")
class Functions(Folder):
    def setUp(self) -> None:
        super().setUp()
        self.program = compile_program(self.place)
        with running(self.program) as self.found:
            self.build_id = self.found["maps"][0]["build_id"]

    def frames(self, *directories: Path) -> list[str]:
        self.made = profile(self.found, directories=map(str, directories))
        return [line.text().replace(f"{self.place}/", "") for line in aggregate.frames(self.made.entries[0].stack)]

    def objcopy(self, *words: Any) -> None:
        subprocess.run(["objcopy", *map(str, words)], check=True)

    def strip(self, debug: Path, *words: str) -> None:
        debug.parent.mkdir(parents=True, exist_ok=True)
        self.objcopy("--only-keep-debug", self.program, debug)
        self.objcopy("--strip-all", *words, self.program)

    @unittest.skipUnless(symbols.is_there(), "needs llvm-symbolizer or addr2line")
    def test_with_lines(self) -> None:
        self.assertEqual(self.frames()[:4], WITH_LINES)
        self.assertEqual(self.made.missing, {})
        with mock.patch.object(shutil, "which", lambda name: None if name.startswith("llvm") else f"/usr/bin/{name}"):
            if os.path.exists("/usr/bin/addr2line"):
                self.assertEqual(self.frames()[:4], WITH_LINES)

    @unittest.skipUnless(symbols.is_there(), "needs llvm-symbolizer or addr2line")
    def test_separate_debug_data(self) -> None:
        self.strip(self.place / "other" / "boxes.debug")
        self.assertNotIn("fill at boxes.c:14", self.frames())
        by_id = self.place / "debug" / ".build-id" / self.build_id[:2] / f"{self.build_id[2:]}.debug"
        by_id.parent.mkdir(parents=True)
        (self.place / "other" / "boxes.debug").rename(by_id)
        self.assertEqual(self.frames(self.place / "debug")[:4], WITH_LINES)
        # On another machine, without the program.
        self.program.unlink()
        self.assertEqual(self.frames(self.place / "debug")[:4], WITH_LINES)

    @unittest.skipUnless(symbols.is_there(), "needs llvm-symbolizer or addr2line")
    def test_debug_link(self) -> None:
        debug = self.place / ".debug" / "boxes.dbg"
        self.strip(debug)
        self.objcopy(f"--add-gnu-debuglink={debug}", self.program)
        self.found["maps"][0]["build_id"] = ""
        self.assertEqual(self.frames()[:4], WITH_LINES)

    def test_without_tools_and_debug_data(self) -> None:
        self.objcopy("--strip-debug", self.program)
        with mock.patch.object(shutil, "which", lambda _: None):
            self.assertEqual(self.frames()[:3], ["push", "queue", "main"])

    @unittest.skipUnless(symbols.is_there(), "needs llvm-symbolizer or addr2line")
    def test_container(self) -> None:
        """The process sees another file at this path."""
        inside = self.place / "inside"
        inside.mkdir()
        words = "unshare", *(["--user", "--map-root-user"] if os.geteuid() else []), "--mount", "sh", "-c"
        with running(*words, f"mount --bind {self.place} {inside} && exec {inside}/boxes") as self.found:
            self.assertEqual(self.found["program"], f"{inside}/boxes")
            self.assertEqual(self.frames()[:4], WITH_LINES)
        self.assertRegex(self.frames()[0], r"\Aboxes\+0x[0-9a-f]+\Z")

    def test_another_build(self) -> None:
        self.found["maps"][0]["build_id"] = "00" + self.build_id[2:]
        self.assertRegex(self.frames()[0], r"\Aboxes\+0x[0-9a-f]+\Z")
        self.assertEqual(self.made.missing, {str(self.program): f"{self.program} is another build of it"})

    def test_elsewhere(self) -> None:
        (self.place / "copies").mkdir()
        self.program.rename(self.place / "copies" / "boxes")
        self.assertRegex(self.frames()[0], r"\Aboxes\+0x[0-9a-f]+\Z")
        self.assertEqual(self.made.missing, {str(self.program): "there is no such file here"})
        self.assertIn("push", " ".join(self.frames(self.place / "copies")))


class Files(Folder):
    def test_broken(self) -> None:
        for text in (b"", b"\x7fELF", b"\x7fELF\x02\x01" + bytes(10), b"\x7fELF\x02\x01" + b"\xff" * 200):
            (self.place / "a").write_bytes(text)
            self.assertIsNone(modules.facts(str(self.place / "a")))
            self.assertIsNone(elf.Ranges(str(self.place / "a")).name(1))

    def test_no_file_that_waits(self) -> None:
        os.mkfifo(self.place / "fifo")
        found = document([named(1)], [row(live=(1, 1))], maps=[{**MAPS[0], "file": str(self.place / "fifo")}])
        self.assertEqual(profile(found).missing, {str(self.place / "fifo"): "there is no such file here"})

    def test_addresses_outside(self) -> None:
        found = document([[0, 1, 0x10, (1 << 64) - 1]], [row(live=(1, 1))])
        self.assertEqual([line.function for line in aggregate.frames(profile(found).entries[0].stack)],
                         ["0x0", "0xf", "0xfffffffffffffffe"])
