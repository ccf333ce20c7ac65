# SPDX-License-Identifier: MIT
"""`sheaf symbolize [REPORT]`: a report of the library with the file and line of each function."""
from __future__ import annotations

import argparse
import os
import re
import sys
from typing import Any

from . import elf, symbols
from .errors import Failure

EPILOG = """\
A report names functions as MODULE(FUNCTION+0xOFFSET), where it can, because the library looks
at nothing but loaded memory. This finds the lines later, from debug data: also when the process
has ended, or on another machine that has the same files.

A module is looked for by its name: in the files that are given, in the directories that are
given, here, in PATH, and where the loader finds libraries. It must be the very file that ran: a
module that is newer than the report is named on standard error.

examples:
  sheaf symbolize server.log
  ./server 2>&1 | sheaf symbolize
  sheaf symbolize --module build/server server.log
  sheaf symbolize --path /usr/lib/debug/bin --path build server.log
"""

# A module begins where a word does: without that, each letter of a long word would be tried, up to its end.
FRAME = re.compile(r"(?<![^\s()])(?P<module>[^\s()]+)\((?P<function>[^\s()+]*)\+(?P<offset>0x[0-9a-f]{1,16})\)")
LONGEST = 60  # characters of a function that a report has


class Modules:
    """What was asked of each module, and what was found."""

    def __init__(self, files: elf.Files) -> None:
        self._files = files
        self.paths: dict[str, str | None] = {}
        self._functions: dict[str, dict[str, int | None]] = {}  # None: of a cut name that none begins with
        self._found: dict[tuple[str, int], list[str]] = {}

    def _offset(self, module: str, frame: re.Match[str]) -> int | None:
        """In the module, of the call; None: there is no such function."""
        name, offset = frame["function"], int(frame["offset"], 0) - 1
        if not name:
            return offset
        if module not in self._functions:
            self._functions[module] = elf.functions(self.paths[module] or "")
        functions = self._functions[module]
        if name not in functions and len(name) == LONGEST:
            functions[name] = next((functions[longer] for longer in functions if longer.startswith(name)), None)
        at = functions.get(name)
        return at + offset if at is not None else None

    def look_up(self, text: str) -> None:
        """All frames of a text at once: each module's file is opened once."""
        wanted: dict[str, set[int]] = {}
        for frame in FRAME.finditer(text):
            module = frame["module"]
            if module not in self.paths:
                self.paths[module] = self._files.find(module)
            offset = self._offset(module, frame)
            if self.paths[module] and offset is not None:
                wanted.setdefault(module, set()).add(offset)
        for module, offsets in wanted.items():
            ordered = sorted(offsets)
            for offset, found in zip(ordered, symbols.places(self.paths[module] or "", ordered)):
                self._found[module, offset] = found

    def places(self, frame: re.Match[str]) -> list[str]:
        offset = self._offset(frame["module"], frame)
        return self._found.get((frame["module"], offset), []) if offset is not None else []


def symbolized(text: str, modules: Modules) -> str:
    """Frames become "function at file:line", each on its line; within a line "function (file:line)"."""
    modules.look_up(text)
    lines = []
    for line in text.splitlines(keepends=True):
        frame = FRAME.fullmatch(line.strip())
        if frame and (found := modules.places(frame)):
            indent = line[:len(line) - len(line.lstrip())]
            lines += [f"{indent}{found[0]}\n", *(f"{indent}(inlined by) {outer}\n" for outer in found[1:])]
        else:
            lines.append(FRAME.sub(lambda frame: _within(modules.places(frame), frame[0]), line))
    return "".join(lines)


def _within(found: list[str], unknown: str) -> str:
    return re.sub(r" at (.*)", r" (\1)", found[0]) if found else unknown


def _read(name: str | None) -> tuple[str, float | None]:
    """The text, and when it was written, if that is known."""
    try:
        if name in (None, "-"):
            return sys.stdin.buffer.read().decode("utf-8", "replace"), None
        with open(name, "rb") as file:
            return file.read().decode("utf-8", "replace"), os.fstat(file.fileno()).st_mtime
    except OSError as error:
        raise Failure(f"{name}: {error.strerror}") from None


def run(arguments: argparse.Namespace) -> int:
    text, written = _read(arguments.report)
    if not symbols.is_there():
        raise Failure("there is neither llvm-symbolizer nor addr2line here: install binutils")
    for file in arguments.module:
        if not os.path.isfile(file):
            raise Failure(f"{file}: no such file")
    modules = Modules(elf.Files(arguments.module, arguments.path))
    sys.stdout.write(symbolized(text, modules))
    for module, path in modules.paths.items():
        if not path:
            print(f"sheaf: there is no {module} here: name it with --module FILE", file=sys.stderr)
        elif written is not None and os.stat(path).st_mtime > written:
            print(f"sheaf: {path} is newer than the report: lines may be wrong", file=sys.stderr)
    return 0


def add_parser(commands: Any) -> None:
    parser = commands.add_parser("symbolize", help="files and lines for a report of slab_debug",
                                 description=__doc__.replace("`", ""), epilog=EPILOG,
                                 formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("report", metavar="REPORT", nargs="?", help="a file; default: standard input")
    parser.add_argument("--module", action="append", default=[], metavar="FILE",
                        help="a program or library that the report names")
    parser.add_argument("--path", action="append", default=[], metavar="DIR", help="where to look for others")
    parser.set_defaults(run=run)
