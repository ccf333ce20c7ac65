# SPDX-License-Identifier: MIT
"""The common part of suites whose measurements differ between allocators.

A cell is one program with its arguments. Cells are measured interleaved, part by part: a repetition
of a part is all of its cells, a fresh process each (A B C ... A B C ...). A peer that fails is left
out of its cell from then on, and reported; ours must not fail. To compare with another build, ours
alone are measured, each followed by the other build's.
"""
from __future__ import annotations

import sys
import time
from copy import copy
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Callable, Mapping, Sequence

from sheaf_tool.errors import Failure
from sheaf_tool.stats import has_interval, median, ratio
from sheaf_tool.table import stacked

from ..allocators import OURS, Worker
from ..document import Document
from ..progress import Progress
from .suite import Settings, missing_lines
from .windows import stood_still

NOTHING = "–"
LONG = 60.0  # seconds
BEFORE = "before"  # names the results of the other build in params

Params = Mapping[str, Any]


@dataclass(frozen=True)
class Cell:
    worker: Worker
    params: Params  # with the allocator's name
    arguments: tuple[str, ...]
    keep: Callable[[Document, dict[str, Any], list[str]], None]  # the worker's lines, as samples
    name: str = ""  # for people; "": its params

    @property
    def title(self) -> str:
        return self.name or ", ".join(str(value) for value in self.params.values())


@dataclass(frozen=True)
class Part:
    """In a quick run, it is repeated until its seconds are over."""

    cells: Sequence[Cell]
    repeat: int
    quick_repeat: int
    quick_seconds: float
    least_repeat: int = 2  # of a quick run, however long it takes
    all_needed: bool = False  # a failing peer ends the run, too


def _lines(document: Document, cell: Cell) -> list[str]:
    """The worker's lines; if it stood still, the lines of a second run."""
    lines = cell.worker.run(*cell.arguments)
    if not stood_still(lines):
        return lines
    again = document.machine.setdefault("again", {})
    again[cell.worker.name] = again.get(cell.worker.name, 0) + 1
    return cell.worker.run(*cell.arguments)


def _one(document: Document, cell: Cell, failed: dict[str, str], all_needed: bool) -> None:
    if cell.title in failed:
        return
    try:
        cell.keep(document, dict(cell.params), _lines(document, cell))
    except Failure as failure:
        if all_needed or cell.params["allocator"] == OURS:
            raise
        failed[cell.title] = str(failure).splitlines()[-1]
        document.results = [result for result in document.results
                            if not cell.params.items() <= result.params.items()]


def _in_other_build(program: Path, here: Path, there: Path) -> Path:
    """Benchmarks, or examples beside them; a tool is the same."""
    for own, other in ((here, there), (here.parent, there.parent)):
        if program.is_relative_to(own):
            return other / program.relative_to(own)
    return program


def _before(cell: Cell, here: Path, there: Path) -> Cell:
    worker = copy(cell.worker)
    worker.program = _in_other_build(worker.program, here, there)
    return replace(cell, worker=worker, params={**cell.params, "allocator": BEFORE},
                   name=f"{cell.name}, before" if cell.name else "")


def with_other_build(part: Part, settings: Settings) -> Part:
    if not settings.against:
        return part
    return replace(part, all_needed=False,
                   cells=[one for cell in part.cells if cell.params["allocator"] == OURS
                          for one in (cell, _before(cell, settings.workers, settings.against))])


def _tell_duration(suite: str, first: float, repeat: int) -> None:
    """If the first repetition, which took so many seconds, says that all of them take long."""
    if repeat > 1 and first >= LONG:
        print(f"{suite}: the first of {repeat} repetitions took {first:.0f} s, so all take about {first * repeat / 60:.0f} minutes",
              file=sys.stderr)


def measure(document: Document, settings: Settings, parts: Sequence[Part]) -> None:
    failed = document.machine.setdefault("failed", {})
    parts = [with_other_build(part, settings) for part in parts]
    repeats = [settings.repeat or (part.quick_repeat if settings.quick else part.repeat)
               for part in parts]
    with Progress(sum(len(part.cells) * n for part, n in zip(parts, repeats))) as progress:
        for part, repeat in zip(parts, repeats):
            began = time.monotonic()
            for done in range(repeat):
                spent = time.monotonic() - began
                late = done >= part.least_repeat and spent / done * (done + 1) > part.quick_seconds
                if settings.quick and not settings.repeat and late:
                    progress.done += (repeat - done) * len(part.cells)
                    break
                for cell in part.cells:
                    progress.start(f"{document.suite}: {cell.title}")
                    _one(document, cell, failed, part.all_needed)
                    progress.finish()
                if done == 0:
                    _tell_duration(document.suite, time.monotonic() - began, repeat)


def samples(document: Document, name: str, **params: Any) -> list[float]:
    """Of the result of this name that has these params; empty if there is none."""
    for result in document.results:
        if result.name == name and params.items() <= result.params.items():
            return result.samples
    return []


def cell(found: Sequence[float]) -> str:
    return stacked(median(found)) if found else NOTHING


def ratio_cell(one: Sequence[float], other: Sequence[float]) -> str:
    """The first over the second; empty if nothing is left after subtracting the harness's time."""
    if not one or not other or min(other) <= 0:
        return NOTHING
    return stacked(ratio(one, other))


def less(found: Sequence[float], harness: Sequence[float]) -> list[float]:
    """Samples minus the harness's time in the same repetition."""
    return [one - empty for one, empty in zip(found, harness)]


def best(found: Mapping[str, Sequence[float]]) -> str | None:
    """The name with the smallest median."""
    there = {name: median(one).value for name, one in found.items() if one}
    return min(there, key=there.__getitem__) if there else None


def repetitions(document: Document, name: str | None = None) -> int:
    """Of the results of this name, or of any."""
    return max((len(one.samples) for one in document.results if name in (None, one.name)), default=0)


def intervals(document: Document, name: str | None = None) -> str:
    n = repetitions(document, name)
    what = "95 % interval" if has_interval(n) else "their range (six are needed for an interval)"
    return f"median of {n} interleaved repetitions, {what}"


def whiskers(document: Document) -> str:
    n = repetitions(document)
    return ("Whiskers: 95 % interval of the median." if has_interval(n)
            else f"Whiskers: range of {n} repetitions.")


def notes(document: Document) -> list[str]:
    lines = [f"{where}: failed and is left out: {why}"
             for where, why in document.machine.get("failed", {}).items()]
    again = ", ".join(f"{name} {n}" for name, n in document.machine.get("again", {}).items())
    if again:
        lines.append("Processes that made no progress in nine tenths of their windows and were "
                     f"run again, once: {again}.")
    return lines + missing_lines(document.machine)
