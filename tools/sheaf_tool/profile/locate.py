# SPDX-License-Identifier: MIT
"""Where the addresses of a profile are: file, function and line, with the functions that are inlined there."""
from __future__ import annotations

import os
from bisect import bisect_right
from dataclasses import dataclass

from .. import elf, symbols
from . import modules
from .raw import Map, Raw

SLOW = 1000  # addresses a second that a tool for symbols resolves at least


@dataclass(frozen=True)
class Line:
    function: str
    file: str = ""  # "": unknown
    line: int = 0

    def text(self) -> str:
        return f"{self.function} at {self.file}:{self.line}" if self.file else self.function


@dataclass(frozen=True)
class Location:
    """The call, which is before its return address."""
    address: int
    where: Map | None
    lines: tuple[Line, ...]  # the innermost first; at least one
    known: bool  # false: the line's function is but the address


def _line(name: str, place: str) -> Line:
    function = name.partition("@")[0]  # without the version of a symbol
    file, _, number = place.rpartition(":")
    if not file or file.startswith("??"):
        return Line(function)
    return Line(function, file, int(number) if number.isdecimal() else 0)


class Locator:
    """Of one process."""

    def __init__(self, raw: Raw, directories: list[str]) -> None:
        self._maps = sorted(raw.maps, key=lambda one: one.start)
        self._starts = [one.start for one in self._maps]
        self._modules = modules.Modules(raw, directories)
        self._found = self._locate({address - 1 for stack in raw.stacks for address in stack if address})

    @property
    def missing(self) -> dict[str, str]:
        return self._modules.missing

    def _map(self, address: int) -> Map | None:
        at = bisect_right(self._starts, address) - 1
        return self._maps[at] if at >= 0 and address < self._maps[at].end else None

    def _locate(self, addresses: set[int]) -> dict[int, Location]:
        found: dict[int, Location] = {}
        by_module: dict[str, tuple[modules.Module, list[tuple[int, Map]]]] = {}
        for address in sorted(addresses):
            where = self._map(address)
            module = self._modules.find(where) if where else None
            if where and module:
                by_module.setdefault(module.path, (module, []))[1].append((address, where))
            found[address] = Location(address, where, (Line(_unknown(address, where)),), False)
        for module, calls in by_module.values():
            for (address, where), lines in zip(calls, self._lines(module, calls)):
                if lines:
                    found[address] = Location(address, where, lines, True)
        return found

    @staticmethod
    def _lines(module: modules.Module, calls: list[tuple[int, Map]]) -> list[tuple[Line, ...]]:
        offsets = [module.address(where, address) for address, where in calls]
        answers = symbols.functions(module.path, offsets, symbols.PATIENCE + len(offsets) / SLOW)
        lines = [tuple(_line(*one) for one in answer) for answer in answers]
        if not any(lines):  # no such tool, or it knows nothing
            table = elf.Ranges(module.path)
            names = [table.name(offset) for offset in offsets]
            lines = [(Line(name),) if name else () for name in names]
        return lines

    def stack(self, addresses: tuple[int, ...]) -> tuple[Location, ...]:
        return tuple(self._found[address - 1] for address in addresses if address)


def _unknown(address: int, where: Map | None) -> str:
    if where is None or not where.file:
        return f"{address:#x}"
    return f"{os.path.basename(where.file)}+{address - where.start + where.offset:#x}"
