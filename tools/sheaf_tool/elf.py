# SPDX-License-Identifier: MIT
"""The functions of a program or shared library, by its tables of symbols, and where files of a name are."""
from __future__ import annotations

import os
import re
import shutil
import struct
import subprocess
from typing import Iterable, Iterator

HEAD = struct.Struct("<16sHHIQQQIHHHHHH")
SECTION = struct.Struct("<IIQQQQIIQQ")
SYMBOL = struct.Struct("<IBBHQQ")
SYMTAB, DYNSYM = 2, 11
FUNCTION = 2


def functions(path: str) -> dict[str, int]:
    """Addresses by name; none, if it is no ELF file of 64 bits."""
    try:
        with open(path, "rb") as file:
            return _functions(file.read())
    except (OSError, struct.error, IndexError, ValueError, OverflowError):  # no such file, or a broken one
        return {}


def _functions(data: bytes) -> dict[str, int]:
    head = HEAD.unpack_from(data)
    if head[0][:6] != b"\x7fELF\x02\x01":
        return {}
    start, size, n = head[6], head[11], head[12]
    sections = [SECTION.unpack_from(data, start + i * size) for i in range(n)]
    found: dict[str, int] = {}
    # What the dynamic table has is what the library itself can name.
    for section in sorted((section for section in sections if section[1] in (SYMTAB, DYNSYM)), key=lambda s: -s[1]):
        names = sections[section[6]][4]
        for name, address in _symbols(data[section[4]:section[4] + section[5]]):
            end = data.index(b"\0", names + name)
            found.setdefault(data[names + name:end].decode("utf-8", "replace"), address)
    return found


def _symbols(table: bytes) -> Iterator[tuple[int, int]]:
    for name, info, _, section, address, _ in SYMBOL.iter_unpack(table[:len(table) // SYMBOL.size * SYMBOL.size]):
        if info & 0xf == FUNCTION and section:
            yield name, address


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
