# SPDX-License-Identifier: MIT
"""Who allocated and who freed, as functions and lines that gdb finds."""
from __future__ import annotations

import time
from typing import Any

import gdb

from .library import Library

WRAPS = 1 << 32  # of the library's clock, in ms


def _blocks(pc: int) -> list[gdb.Block]:
    """Of the functions that the instruction is in: first an inlined one, last the one that was called."""
    try:
        block = gdb.block_for_pc(pc)
    except gdb.error:
        return []
    found = []
    while block:
        if block.function:
            found.append(block)
        block = block.superblock
    return found


def _call_line(pc: int, caller: gdb.Block) -> gdb.Symtab_and_line | None:
    """The caller's last line in front of what is inlined at this instruction."""
    while pc >= caller.start:
        line, blocks = gdb.find_pc_line(pc), _blocks(pc)
        if not line.symtab or not blocks:
            return None
        if blocks[0].start == caller.start and blocks[0].end == caller.end:
            return line
        pc = line.pc - 1
    return None


def frame(address: int) -> list[str]:
    """A return address: its call is in front of it. What is inlined there comes first."""
    pc = address - 1
    line, blocks = gdb.find_pc_line(pc), _blocks(pc)
    if blocks and line.symtab:
        text = [f"{blocks[0].function.print_name} at {line.symtab.filename}:{line.line}"]
        call = _call_line(pc, blocks[-1]) if len(blocks) > 1 else None
        return text + ([f"{blocks[-1].function.print_name} at {call.symtab.filename}:{call.line}"] if call else [])
    answer = gdb.execute(f"info symbol {pc:#x}", to_string=True)
    module = gdb.solib_name(pc) or gdb.current_progspace().filename or "?"
    if answer.startswith("No symbol"):
        return [f"[{address:#x}] in {module}"]
    return [f"{answer.split(' in section')[0].replace(' + ', '+')} in {module}"]


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
        return [head + (":" if self.frames else " (no stack)"), *(f"  {line}" for address in self.frames for line in frame(address))]


def tracks(library: Library, allocated: Any, freed: Any) -> list[str]:
    """What is known of both; first what was done last."""
    first, last = Track(library, allocated), Track(library, freed)
    # In use again: the free belongs to an earlier owner.
    if first.is_plausible and last.is_plausible and 0 < (first.when - last.when) % WRAPS < WRAPS // 2:
        return first.lines("Allocated") + last.lines("Freed before that", first)
    return last.lines("Freed") + first.lines("Allocated", last)
