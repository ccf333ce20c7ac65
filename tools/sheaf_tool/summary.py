# SPDX-License-Identifier: MIT
"""How a program ran, in ten lines: time, memory, and the sizes of objects that took most of it."""
from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any, Iterator

from .info import bytes_short
from .rates import ALLOCS, FREES, MISSES
from .table import one_line, plural, render

LINES = 10


@dataclass
class Run:
    """What is known of a program that has ended; processes is what libsheaf printed in each, as JSON."""
    command: list[str]
    status: int
    seconds: float
    user: float  # seconds of CPU time, with those of the processes that it waited for
    system: float
    resident: int  # bytes: the peak of the largest of these processes
    resident_is_exact: bool = True  # false: at most
    library: str | None = None  # preloaded
    note: str | None = None  # why it is not
    processes: list[dict[str, Any]] = field(default_factory=list)

    def values(self) -> dict[str, Any]:
        return {"command": self.command, "status": self.status, "seconds": round(self.seconds, 6),
                "user_seconds": round(self.user, 6), "system_seconds": round(self.system, 6), "peak_resident_bytes": self.resident,
                "peak_is_exact": self.resident_is_exact, "preloaded": self.library, "note": self.note,
                "processes": self.processes}


@dataclass
class Row:
    """The caches of one name in all processes. The peaks may have been at different times."""
    name: str
    size: int
    peak: int = 0
    in_use: int = 0
    allocated: int = 0

    def add(self, cache: dict[str, Any]) -> None:
        self.peak += cache["peak_slab_bytes"]
        self.in_use += cache.get("objects_in_use", 0)
        self.allocated += sum(cache[name] for name in ALLOCS)

    def cells(self) -> list[str]:
        return [one_line(self.name), f"{self.size}" if self.size else "", bytes_short(self.peak), f"{self.in_use:,}",
                f"{self.allocated:,}"]


def objects(text: str) -> Iterator[dict[str, Any]]:
    """The JSON objects that follow one another; what another process wrote into one is left out."""
    decoder, at = json.JSONDecoder(), 0
    while (at := text.find('{"pid"', at)) >= 0:
        try:
            found, at = decoder.raw_decode(text, at)
            yield found
        except (ValueError, RecursionError):
            at += 1


def _caches(processes: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    for process in processes:
        yield from process["caches"]
        yield from process.get("destroyed_caches", [])


def rows(run: Run, most: int) -> list[Row]:
    """Most memory first; the last one is the sum of those for which there is no room."""
    found: dict[tuple[str, int], Row] = {}
    for cache in _caches(run.processes):
        key = cache["name"], cache["object_size"]
        found.setdefault(key, Row(*key)).add(cache)
    ordered = sorted((row for row in found.values() if row.peak or row.allocated), key=lambda row: (-row.peak, row.size))
    if len(ordered) <= most:
        return ordered
    rest = ordered[most - 1:]
    return [*ordered[:most - 1], Row(plural(len(rest), "other"), 0, *(sum(getattr(row, name) for row in rest)
                                                                      for name in ("peak", "in_use", "allocated")))]


def calls(processes: list[dict[str, Any]]) -> tuple[int, int, int]:
    """Allocations, frees, and those of both that left the fast path."""
    def sum_of(*names: str) -> int:
        return sum(cache[name] for cache in _caches(processes) for name in names)

    return sum_of(*ALLOCS), sum_of(*FREES), sum_of("alloc_slowpath", "free_slowpath", *MISSES)


def _calls(run: Run) -> str:
    allocated, freed, slow = calls(run.processes)
    share = f"; {1000 * slow / (allocated + freed):.1f} of 1,000 left the fast path" if allocated else ""
    return f"calls   {allocated:,} allocations, {freed:,} frees{share}"


def lines(run: Run) -> list[str]:
    least = "" if run.resident_is_exact else "at most "
    shown = [f"time    {run.seconds:.2f} s; CPU {run.user + run.system:.2f} s: user {run.user:.2f}, system {run.system:.2f}",
             f"peak    {least}{bytes_short(run.resident)} resident"]
    if run.note:
        shown.append(f"malloc  {run.note}")
    if not run.processes:
        return shown
    peak, mapped = (sum(process[name] for process in run.processes) for name in ("peak_bytes", "mapped_bytes"))
    shown[1] += f"; of libsheaf {bytes_short(peak)}; in large blocks at the end {bytes_short(mapped)}"
    if len(run.processes) > 1:
        shown[1] += f"; {len(run.processes)} processes"
    shown.append(_calls(run))
    found = [row.cells() for row in rows(run, LINES - len(shown) - 2)]
    table = render(["size class", "bytes", "peak", "in use at the end", "allocations"], found)
    return shown + (table.split("\n") if found else [])


def text(run: Run) -> str:
    return "\n".join(lines(run))


def as_json(run: Run) -> str:
    return json.dumps(run.values())
