# SPDX-License-Identifier: MIT
"""`sheaf symbolize`: files and lines for a report whose process has ended."""
import os
import re
import shutil
import subprocess
import tempfile
import unittest
from pathlib import Path
from typing import Iterator
from unittest import mock

from live import SHEAF, sheaf
from sheaf_tool import elf, symbolize, symbols

ROOT = SHEAF.parents[1]
LIBRARY = Path(os.environ.get("SHEAF_BUILD", "/nonexistent")) / "packaging" / "libsheaf.so"
PROGRAM = """\
#include <sheaf/slab.h>
static struct kmem_cache *boxes;
static inline __attribute__((always_inline)) void close_box(void *box)
{
	kmem_cache_free(boxes, box);
	__asm__ volatile("");
}
static __attribute__((noinline)) void hidden(void *box)
{
	close_box(box);
	__asm__ volatile("");
}
__attribute__((noinline)) void shown(void *box)
{
	hidden(box);
	__asm__ volatile("");
}
int main(void)
{
	void *box;
	boxes = kmem_cache_create("box", 64, NULL, 0);
	box = kmem_cache_alloc(boxes, GFP_KERNEL);
	hidden(box);
	shown(box);
	return 0;
}
"""


class OnAnyText(unittest.TestCase):
    def test_long_words(self) -> None:
        """With quadratic time, none of these would end."""
        n = 1 << 18
        for text in ("a" * n, "a(" * n, "a(" + "b" * n, "a(b+" * n, "a(b+0x" + "f" * n, "a(+0x1" * n, ")a" * n, " " * n, "\n" * n,
                     "(" * n, "a+" * n):
            modules = symbolize.Modules(elf.Files([], []))
            self.assertEqual(symbolize.symbolized(text, modules), text)
            self.assertEqual(modules.paths, {})

    def test_long_functions_are_sought_once(self) -> None:
        cut = "f" * symbolize.LONGEST
        functions = Counted({f"g{i}": i for i in range(100)} | {cut + "longer": 0x1000})
        modules = symbolize.Modules(elf.Files([], []))
        modules.paths["m"] = "m"
        with mock.patch.object(elf, "functions", lambda _: functions), \
                mock.patch.object(symbols, "places", lambda _, offsets: [[f"x at x.c:{offset:#x}"] for offset in offsets]):
            found = symbolize.symbolized(f"m({cut}+0x10)\n" * 50, modules)
        self.assertEqual(found, "x at x.c:0x100f\n" * 50)
        self.assertEqual(functions.walks, 1)


class Counted(dict):
    walks = 0

    def __iter__(self) -> Iterator:
        self.walks += 1
        return super().__iter__()


@unittest.skipUnless(shutil.which("cc") and symbols.is_there(), "needs a compiler, and llvm-symbolizer or addr2line")
class OnAReport(unittest.TestCase):
    def setUp(self) -> None:
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.place = Path(directory.name)

    def compile(self, text: str, *words: str) -> Path:
        (self.place / "boxes.c").write_text(text, encoding="utf-8")
        subprocess.run(["cc", "-g", "-O1", "-rdynamic", "-pthread", "boxes.c", "-o", "boxes", *words], cwd=self.place, check=True)
        return self.place / "boxes"

    @unittest.skipUnless(LIBRARY.exists(), "needs a build")
    def test_after_the_process(self) -> None:
        program = self.compile(PROGRAM, f"-I{ROOT}/include", str(LIBRARY), f"-Wl,-rpath,{LIBRARY.parent}")
        report = self.place / "report"
        subprocess.run([program], check=True, env={**os.environ, "SHEAF_OPTIONS": f"slab_debug;report={report}"})
        text = report.read_text(encoding="utf-8")
        if "(no stack)" in text or "  boxes(" not in text:
            self.skipTest("there are no stacks here")
        for found in (sheaf("symbolize", "--module", str(program), str(report)),
                      sheaf("symbolize", "--path", str(self.place), input=text),
                      sheaf("symbolize", "-", input=text, cwd=self.place)):
            self.assertEqual((found.returncode, found.stderr), (0, ""), found)
            finder = found.stdout.split("Found by")[1]
            # The header's function may be inlined, too.
            self.assertRegex(finder, r"  (\(inlined by\) )?close_box at \S*boxes\.c:5\n  \(inlined by\) hidden at \S*boxes\.c:10\n"
                                     r"  shown at \S*boxes\.c:15\n  main at \S*boxes\.c:24\n")
            # All else stays.
            self.assertIn("libsheaf: BUG box: Object already free\n", found.stdout)
            self.assertIn("Redzone    -16: bb bb bb", found.stdout)
            self.assertIn("  boxes(_start+0x", found.stdout)

    def test_lines_with_several(self) -> None:
        program = self.compile("static __attribute__((used)) void one(void) { }\nvoid two(void) { }\nint main(void) { return 0; }\n")
        at = elf.functions(str(program))
        text = f"libsheaf: kfree(0x1): ignored; called from boxes(+{at['one'] + 1:#x}) boxes(two+0x1) other(three+0x1)\n"
        found = sheaf("symbolize", "--module", str(program), input=text)
        self.assertRegex(found.stdout, r"\Alibsheaf: kfree\(0x1\): ignored; called from one \(\S*boxes\.c:1\) "
                                       r"two \(\S*boxes\.c:2\) other\(three\+0x1\)\n\Z")
        self.assertEqual(found.stderr, "sheaf: there is no other here: name it with --module FILE\n")

    def test_newer_than_the_report(self) -> None:
        program = self.compile("int main(void) { return 0; }\n")
        report = self.place / "report"
        report.write_text("  boxes(main+0x1)\n", encoding="utf-8")
        os.utime(report, (1, 1))
        found = sheaf("symbolize", "--module", str(program), str(report))
        self.assertRegex(found.stdout, r"\A  main at \S*boxes\.c:1\n\Z")
        self.assertEqual(found.stderr, f"sheaf: {program} is newer than the report: lines may be wrong\n")

    def test_nothing_to_find(self) -> None:
        (self.place / "text").write_text("no program", encoding="utf-8")
        for text in ("", "no frame here\n", "a(b+0x)\n", "  x [0x1234]\n", "  text(f+0x1)\n", "text(+0xffffffffffff)"):
            found = sheaf("symbolize", "--path", str(self.place), input=text)
            self.assertEqual((found.returncode, found.stdout), (0, text), found)
            self.assertEqual(re.sub(r"sheaf: there is no \w+ here.*\n", "", found.stderr), "")

    def test_wrong_usage(self) -> None:
        found = sheaf("symbolize", "/no/such/report")
        self.assertEqual((found.returncode, found.stderr), (1, "sheaf: /no/such/report: No such file or directory\n"))
        found = sheaf("symbolize", "--module", "/no/such/module", input="")
        self.assertEqual((found.returncode, found.stderr), (1, "sheaf: /no/such/module: no such file\n"))


class Functions(unittest.TestCase):
    def test_no_program(self) -> None:
        for text in (b"", b"\x7fELF", b"\x7fELF\x02\x01" + bytes(10), b"\x7fELF\x02\x01" + b"\xff" * 200):
            with tempfile.NamedTemporaryFile() as file:
                file.write(text)
                file.flush()
                self.assertEqual(elf.functions(file.name), {})
        self.assertEqual(elf.functions("/nonexistent"), {})
