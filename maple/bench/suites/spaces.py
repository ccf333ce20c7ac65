# SPDX-License-Identifier: MIT
"""The common part of the suites of address spaces: entries, rates, and percentages like the kernel's.

The same maple tree and address space run on ours, on ours without sheaves, and on the three-tier
baseline; a sample is the rate of a process's upper-decile window, see windows.py.
"""
from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Callable, Sequence

from sheaf_tool.errors import Failure
from sheaf_tool.stats import median, ratio

from .. import paths
from ..allocators import CPU_SLAB, OURS, Allocator, Worker
from ..document import Document
from ..svg import Bar
from .cells import NOTHING, Cell, cell, ratio_cell
from .rates import NO_SHEAF, samples
from .windows import UNIT, keep_rates

SHEAVES = 32  # the kernel's capacity for both caches
NO_SPARE = "slab_nospare"
CPU = "cpu"  # time per map or fork

Keep = Callable[[Document, dict[str, Any], list[str]], None]


@dataclass(frozen=True)
class Entry:
    """An allocator with its settings."""

    label: str
    allocator: str
    capacity: int | None = None
    spare: bool = True

    @property
    def params(self) -> dict[str, Any]:
        if self.allocator != OURS:
            return {"allocator": self.allocator}
        return {"allocator": OURS, "capacity": self.capacity or "own", "spare": self.spare}

    @property
    def arguments(self) -> tuple[str, ...]:
        return ("--capacity", str(self.capacity)) if self.capacity else ()


def ours(capacity: int = SHEAVES, spare: bool = True) -> Entry:
    label = f"{OURS} {capacity}" + ("" if spare else "\nno spare rule")
    return Entry(label, OURS, capacity, spare)


AS_MADE = Entry(OURS, OURS)
BASELINE = Entry(CPU_SLAB, CPU_SLAB)
NONE = Entry(NO_SHEAF, NO_SHEAF)


def workers(suite: str, directory: Path, *more: str) -> dict[str, Worker]:
    found = {}
    for name in (OURS, NO_SHEAF, CPU_SLAB, *more):
        program = paths.worker(directory, f"{suite}-{name}")
        if not program.exists():
            raise Failure(f"{program} is not built: apt-get install liburcu-dev, then build again")
        found[name] = Worker(Allocator(name, name), program, None)
    return found


def with_options(worker: Worker, *options: str, **environment: str) -> Worker:
    """The worker with these SHEAF_OPTIONS."""
    allocator = replace(worker.allocator, environment=(
        ("SHEAF_OPTIONS", ";".join(options)), *environment.items()))
    return Worker(allocator, worker.program, worker.library)


def cells(known: dict[str, Worker], entries: Sequence[Entry], params: dict[str, Any],
          arguments: Sequence[str], keep: Keep) -> list[Cell]:
    """The measurements of each entry with these params and arguments."""
    found = []
    for entry in entries:
        worker = known[entry.allocator]
        if not entry.spare:
            worker = with_options(worker, NO_SPARE)
        found.append(Cell(worker, {**entry.params, **params}, (*arguments, *entry.arguments), keep))
    return found


def keep_cpu(unit: str) -> Keep:
    """The rates, and the CPU time in this unit."""
    def keep(document: Document, params: dict[str, Any], lines: list[str]) -> None:
        keep_rates(document, document.suite, params, lines)
        time = next((line.split()[1] for line in lines if line.startswith("cpu ")), None)
        if time is None:
            raise Failure(f"a line of the CPU time was expected, not {lines}")
        document.result(CPU, params, unit).samples.append(float(time))
    return keep


def rate(document: Document, entry: Entry, params: dict[str, Any], unit: str = UNIT) -> list[float]:
    return samples(document, unit, {**entry.params, **params})


def rate_rows(document: Document, entries: Sequence[Entry], columns: Sequence[dict[str, Any]],
              unit: str = UNIT, times: float = 1.0) -> list[list[str]]:
    """A line for each entry, a column for each work."""
    return [[entry.label, *(cell([times * one for one in rate(document, entry, params, unit)])
                            for params in columns)] for entry in entries]


def ratio_of(document: Document, one: Entry, other: Entry, params: dict[str, Any],
             unit: str = UNIT) -> str:
    return ratio_cell(rate(document, one, params, unit), rate(document, other, params, unit))


def percent(document: Document, one: Entry, other: Entry, params: dict[str, Any]) -> str:
    """The gain of the first in percent, as in the kernel's documents."""
    ones, others = rate(document, one, params), rate(document, other, params)
    if not ones or not others or min(others) <= 0:
        return NOTHING
    found = ratio(ones, others)
    value, low, high = (100 * (x - 1) for x in (found.value, found.low, found.high))
    return f"{value:+.1f} %\n{low:+.1f} … {high:+.1f}"


def bars(document: Document, entries: Sequence[Entry], params: dict[str, Any],
         times: float = 1.0) -> list[Bar]:
    """The first one is the subject of the picture."""
    kinds = {CPU_SLAB: "peer", NO_SHEAF: "harness"}
    found = []
    for entry in entries:
        kind = "ours" if entry == entries[0] else kinds.get(entry.allocator, "variant")
        if one := rate(document, entry, params):
            name = entry.label.replace("\n", ", ").replace("no spare rule", "no rule")
            found.append(Bar(name.replace(f"{OURS} {SHEAVES}, ", f"{SHEAVES}, "),
                             median([times * x for x in one]), kind))
    return found


WHO = ("cpu-slab: the same tree and address space on the design before sheaves; where sheaves "
       "are prefilled it allocates an array in bulk, and what is freed after a grace period "
       "goes into arrays of 64 for call_rcu. no-sheaf: ours, with both caches without sheaves. "
       "A number after sheaf is the sheaf capacity of both caches, mappings and "
       "nodes. A process that made no progress in nine tenths of its windows is run again, "
       "once.")
