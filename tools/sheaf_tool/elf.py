# SPDX-License-Identifier: MIT
"""What programs and shared libraries say of themselves: their functions, by tables of symbols, and what they need to
run; and where files of a name are."""
from __future__ import annotations

import mmap
import os
import re
import shutil
import struct
import subprocess
from bisect import bisect_right
from dataclasses import dataclass
from typing import Any, Iterable, Iterator

HEAD = struct.Struct("<16sHHIQQQIHHHHHH")
PART = struct.Struct("<IIQQQQQQ")  # a program header
DYNAMIC = struct.Struct("<qQ")
SECTION = struct.Struct("<IIQQQQIIQQ")
SYMBOL = struct.Struct("<IBBHQQ")
SYMTAB, DYNSYM = 2, 11
FUNCTION = 2
LOAD, DYNAMIC_PART, INTERPRETER = 1, 2, 3
NEEDED, NAMES = 1, 5
BROKEN = OSError, struct.error, IndexError, ValueError, OverflowError  # no such file, or a broken one


@dataclass(frozen=True)
class Head:
    machine: int
    interpreter: bool  # false: static
    needed: set[str]
    sections: set[str]


def head(path: str) -> Head | None:
    """None, if it is no ELF file of 64 bits."""
    try:
        with open(path, "rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
            return _head(data)
    except BROKEN:
        return None


def _name(data: bytes | mmap.mmap, at: int) -> str:
    return data[at:data.find(b"\0", at)].decode("utf-8", "replace")


@dataclass(frozen=True)
class Headers:
    """Of the file, of what is loaded of it, and of its sections: tuples of HEAD, PART and SECTION."""
    file: tuple[Any, ...]
    parts: list[tuple[int, ...]]
    sections: list[tuple[int, ...]]

    @property
    def names(self) -> int:
        """Where those of sections are."""
        return self.sections[self.file[13]][4] if self.sections else 0


def headers(data: bytes | mmap.mmap) -> Headers | None:
    """None, if it is no ELF file of 64 bits."""
    file = HEAD.unpack_from(data)
    if file[0][:6] != b"\x7fELF\x02\x01":
        return None
    return Headers(file, [PART.unpack_from(data, file[5] + i * file[9]) for i in range(file[10])],
                   [SECTION.unpack_from(data, file[6] + i * file[11]) for i in range(file[12])])


def _head(data: mmap.mmap) -> Head | None:
    found = headers(data)
    return found and Head(found.file[2], any(part[0] == INTERPRETER for part in found.parts), _needed(data, found.parts),
                          {_name(data, found.names + section[0]) for section in found.sections})


def _needed(data: mmap.mmap, parts: list[tuple[int, ...]]) -> set[str]:
    entries = [entry for part in parts if part[0] == DYNAMIC_PART
               for entry in DYNAMIC.iter_unpack(data[part[2]:part[2] + part[5] // DYNAMIC.size * DYNAMIC.size])]
    for address in (value for tag, value in entries if tag == NAMES):
        for kind, _, offset, begin, _, size, *_ in parts:
            if kind == LOAD and begin <= address < begin + size:
                return {_name(data, offset + address - begin + value) for tag, value in entries if tag == NEEDED}
    return set()


def functions(path: str) -> dict[str, int]:
    """Addresses by name; none, if it is no ELF file of 64 bits."""
    try:
        with open(path, "rb") as file:
            return _functions(file.read())
    except BROKEN:
        return {}


def has_function(path: str, name: str) -> bool:
    """Does it contain the function? Most large files are not read as a whole for that."""
    try:
        with open(path, "rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
            return data.find(name.encode()) >= 0 and name in _functions(data)
    except BROKEN:
        return False


class Ranges:
    """The functions of a file by address; none, if it is no ELF file of 64 bits."""

    def __init__(self, path: str) -> None:
        found: dict[int, tuple[int, str]] = {}
        try:
            with open(path, "rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
                for name, address, size in _entries(data):
                    found.setdefault(address, (size, name))
        except BROKEN:
            pass
        self._begins = sorted(found)
        self._found = [found[begin] for begin in self._begins]

    def name(self, address: int) -> str | None:
        """A function without a size ends where the next one begins."""
        at = bisect_right(self._begins, address) - 1
        if at < 0:
            return None
        size, name = self._found[at]
        return name if not size or address < self._begins[at] + size else None


def _functions(data: bytes | mmap.mmap) -> dict[str, int]:
    found: dict[str, int] = {}
    for name, address, _ in _entries(data):
        found.setdefault(name, address)
    return found


def _entries(data: bytes | mmap.mmap) -> Iterator[tuple[str, int, int]]:
    """Name, address and size of each function."""
    found = headers(data)
    sections = found.sections if found else []
    # What the dynamic table has is what the library itself can name.
    for section in sorted((section for section in sections if section[1] in (SYMTAB, DYNSYM)), key=lambda s: -s[1]):
        names = sections[section[6]][4]
        for name, address, length in _symbols(data[section[4]:section[4] + section[5]]):
            yield _name(data, names + name), address, length


def _symbols(table: bytes) -> Iterator[tuple[int, int, int]]:
    for name, info, _, section, address, size in SYMBOL.iter_unpack(table[:len(table) // SYMBOL.size * SYMBOL.size]):
        if info & 0xf == FUNCTION and section:
            yield name, address, size


class Files:
    """Finds the file of a module by its name, as reports have it: without its directory."""

    def __init__(self, files: Iterable[str], directories: Iterable[str]) -> None:
        self._given = {os.path.basename(file): file for file in files}
        self._directories = [*directories, ".", *os.environ.get("PATH", "").split(":")]
        self._libraries: dict[str, str] | None = None

    def find(self, name: str) -> str | None:
        if name in self._given:
            return self._given[name]
        for directory in self._directories:
            path = os.path.join(directory, name)
            if directory and os.path.isfile(path):
                return path
        return self._of_loader().get(name)

    def _of_loader(self) -> dict[str, str]:
        if self._libraries is None:
            command = shutil.which("ldconfig") or "/sbin/ldconfig"
            try:
                output = subprocess.run([command, "-p"], text=True, capture_output=True, check=False).stdout
            except OSError:
                output = ""
            self._libraries = {}
            for name, path in re.findall(r"^[ \t]+(\S+) \(.*\) => (\S+)$", output, re.M):
                self._libraries.setdefault(name, path)
        return self._libraries
