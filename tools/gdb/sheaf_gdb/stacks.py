# SPDX-License-Identifier: MIT
"""Who allocated and who freed, as functions and lines that gdb finds."""
from __future__ import annotations

import time
from typing import Any

import gdb

from .library import Library

WRAPS = 1 << 32  # of the library's clock, in ms


def _function(pc: int) -> str | None:
    """Its name; that of an inlined one, if the instruction is in one."""
    try:
        block = gdb.block_for_pc(pc)
    except gdb.error:
        return None
    while block and not block.function:
        block = block.superblock
    return block.function.print_name if block else None


def frame(address: int) -> str:
    """A return address: its call is in front of it."""
    pc = address - 1
    line, function = gdb.find_pc_line(pc), _function(pc)
    if function and line.symtab:
        return f"{function} at {line.symtab.filename}:{line.line}"
    told = gdb.execute(f"info symbol {pc:#x}", to_string=True)
    module = gdb.solib_name(pc) or gdb.current_progspace().filename or "?"
    if told.startswith("No symbol"):
        return f"[{address:#x}] in {module}"
    return f"{told.split(' in section')[0].replace(' + ', '+')} in {module}"


def now(inferior: Any) -> int | None:
    """The library's clock, if the program runs here."""
    connection = getattr(inferior, "connection", None)
    if not connection or connection.type != "native":
        return None
    return time.clock_gettime_ns(time.CLOCK_MONOTONIC) // 1000000


class Track:
    """A debug_track: who did something to an object, and when."""

    def __init__(self, library: Library, value: Any) -> None:
        self.inferior = library.inferior
        self.thread, self.cpu, self.when, n = (int(value[name]) for name in ("thread", "cpu", "when", "n"))
        frames = value["ip"]
        self.is_plausible = self.thread != 0 and n <= frames.type.range()[1] + 1
        self.frames = [int(frames[i]) for i in range(n)] if self.is_plausible else []

    def lines(self, what: str, until: "Track | None" = None) -> list[str]:
        """until: what was done to the object later."""
        if not self.is_plausible:
            return []
        head, clock = f"{what} by thread {self.thread} on CPU {self.cpu}", now(self.inferior)
        if clock is not None:
            head += f", {(clock - self.when) % WRAPS} ms ago"
        elif until and until.is_plausible and (until.when - self.when) % WRAPS < WRAPS // 2:
            head += f", {(until.when - self.when) % WRAPS} ms before that"
        return [head + (":" if self.frames else " (no stack)"), *(f"  {frame(address)}" for address in self.frames)]


def tracks(library: Library, allocated: Any, freed: Any) -> list[str]:
    """What is known of both; first what was done last."""
    first, last = Track(library, allocated), Track(library, freed)
    # In use again: the free is that of an earlier life.
    if first.is_plausible and last.is_plausible and 0 < (first.when - last.when) % WRAPS < WRAPS // 2:
        return first.lines("Allocated") + last.lines("Freed before that", first)
    return last.lines("Freed") + first.lines("Allocated", last)
