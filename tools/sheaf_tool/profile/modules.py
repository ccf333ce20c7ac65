# SPDX-License-Identifier: MIT
"""The files that a process had mapped, found again: by build id, since a path may have another file by now.

A process that still runs may have another root (a container), and files that were deleted. Debug data may be in a
separate file, .build-id/xx/yyy.debug; the tools for symbols follow a .gnu_debuglink themselves.
"""
from __future__ import annotations

import mmap
import os
import struct
from dataclasses import dataclass
from typing import Iterator

from ..elf import BROKEN, LOAD, headers
from .raw import Map, Raw

NOTE_PART, NOTE_SECTION, EXECUTABLE = 4, 7, 1
NOTE = struct.Struct("<III")
BUILD_ID = 3
PAGE = 4096
DELETED = " (deleted)"
DEBUG = "usr/lib/debug"


@dataclass(frozen=True)
class Facts:
    """What a file of ELF says of itself."""
    build_id: str
    parts: list[tuple[int, int, int]]  # executable: offset, address, size in the file
    debug: bool  # it has lines


def _aligned(size: int) -> int:
    return size + 3 & ~3


def _build_id(data: mmap.mmap, begin: int, size: int) -> str:
    at, end = begin, min(begin + size, len(data))
    while at + NOTE.size <= end:
        name, length, kind = NOTE.unpack_from(data, at)
        contents = at + NOTE.size + _aligned(name)
        if kind == BUILD_ID and data[at + NOTE.size:at + NOTE.size + name] == b"GNU\0":
            return data[contents:contents + length].hex()
        at = contents + _aligned(length)
    return ""


def _facts(data: mmap.mmap) -> Facts | None:
    found = headers(data)
    if not found:
        return None
    names = [found.names + section[0] for section in found.sections]
    debug = any(data[at:at + 12] == b".debug_info\0" for at in names)
    build_ids = [_build_id(data, part[2], part[5]) for part in found.parts if part[0] == NOTE_PART]
    # A file with debug data only keeps its notes as a section.
    build_ids += [_build_id(data, section[4], section[5]) for section in found.sections if section[1] == NOTE_SECTION]
    return Facts(next(filter(None, build_ids), ""), [(part[2], part[3], part[5]) for part in found.parts
                                                     if part[0] == LOAD and part[1] & EXECUTABLE], debug)


def facts(path: str) -> Facts | None:
    """None, if it is no ELF file of 64 bits, or cannot be read."""
    if not os.path.isfile(path):
        return None  # a FIFO would wait
    try:
        with open(path, "rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
            return _facts(data)
    except BROKEN:
        return None


def of_process(pid: int, program: str, file: str, span: str) -> Iterator[str]:
    """Where a file that a process has mapped there can be read."""
    if file == program:
        yield f"/proc/{pid}/exe"
    yield f"/proc/{pid}/map_files/{span}"
    yield f"/proc/{pid}/root{file.removesuffix(DELETED)}"


@dataclass(frozen=True)
class Module:
    """A mapped file: where its functions are read, and its addresses."""
    path: str  # of symbols and debug data
    parts: list[tuple[int, int, int]]

    def address(self, where: Map, address: int) -> int:
        """In the file, of an address in the process."""
        offset = address - where.start + where.offset
        for begin, at, size in self.parts:
            if begin // PAGE * PAGE <= offset < begin + size:
                return at + offset - begin
        # A file of debug data has lost its offsets. The mapping begins where the program's code does.
        return self.parts[0][1] // PAGE * PAGE + address - where.start if self.parts else offset


class Modules:
    """Finds files for the mappings of one profile."""

    def __init__(self, raw: Raw, directories: list[str]) -> None:
        self._raw = raw
        self._directories = directories
        self._found: dict[tuple[str, str], Module | None] = {}
        self.missing: dict[str, str] = {}  # what has no file here, and why

    def _runs(self) -> bool:
        try:
            return os.readlink(f"/proc/{self._raw.pid}/exe") == self._raw.program
        except OSError:
            return False

    def _candidates(self, where: Map) -> Iterator[str]:
        file = where.file.removesuffix(DELETED)
        yield from (os.path.join(directory, os.path.basename(file)) for directory in self._directories)
        if self._runs():
            yield from of_process(self._raw.pid, self._raw.program, where.file, f"{where.start:x}-{where.end:x}")
        yield file

    def _separate(self, build_id: str, file: str) -> tuple[str, Facts] | None:
        tail = f".build-id/{build_id[:2]}/{build_id[2:]}.debug"
        roots = [f"/proc/{self._raw.pid}/root/{DEBUG}"] if self._runs() else []
        candidates = [*(os.path.join(root, tail) for root in [*self._directories, *roots, f"/{DEBUG}"]),
                      *(os.path.join(directory, f"{os.path.basename(file)}.debug") for directory in self._directories)]
        for candidate in candidates:
            if build_id and (its := facts(candidate)) and its.debug and its.build_id == build_id:
                return candidate, its
        return None

    def _look_for(self, where: Map) -> Module | None:
        replaced = path = ""
        found: Facts | None = None
        for candidate in self._candidates(where):
            its = facts(candidate)
            if its and where.build_id and its.build_id != where.build_id:
                replaced = candidate
            elif its:
                path, found = candidate, its
                break
        separate = None
        if not (found and found.debug):
            separate = self._separate(found.build_id if found else where.build_id, where.file.removesuffix(DELETED))
        if separate:
            return Module(separate[0], found.parts if found else separate[1].parts)
        if found:
            return Module(path, found.parts)
        self.missing[where.file] = (f"{replaced} is another build of it" if replaced else "there is no such file here")
        return None

    def find(self, where: Map) -> Module | None:
        key = where.file, where.build_id
        if not where.file.startswith("/"):
            return None  # [vdso], or memory without a file
        if key not in self._found:
            self._found[key] = self._look_for(where)
        return self._found[key]
