# SPDX-License-Identifier: MIT
"""The common part of suites that run our library in several ways on the works of other suites.

A choice is a way to run it. One of them is what the suite is about; the others are compared with it, or
it with them. Works print windows of rates (windows.py), or times.
"""
from __future__ import annotations

import statistics
from dataclasses import dataclass, replace
from typing import Any, Callable

from sheaf_tool.errors import Failure
from sheaf_tool.stats import median

from .. import paths
from ..allocators import ALLOCATORS, OURS, Worker
from ..document import Document
from ..svg import Bar, Panel, figure
from .cells import Cell, Part, cell, measure, samples, whiskers
from .suite import Settings, Table
from .windows import upper_decile, window_arguments, windows

UNIT = "ns/pair"
TIME, PEAK = "time", "peak"  # names of results
KIB = "KiB"

Keep = Callable[[Document, dict[str, Any], list[str]], None]


@dataclass(frozen=True)
class Work:
    program: str
    arguments: tuple[str, ...]
    threads: int = 0  # 0: it prints times instead of windows

    @property
    def title(self) -> str:
        return " ".join((self.program, *(one.removeprefix("--") for one in self.arguments)))

    @property
    def label(self) -> str:
        """In two lines."""
        return self.title.replace(" ", "\n", 1)


@dataclass(frozen=True)
class Choice:
    name: str
    arguments: tuple[str, ...] = ()
    environment: tuple[tuple[str, str], ...] = ()
    program: str = ""  # what the names of its programs end in


def _time_of_bulk(lines: list[str]) -> float:
    return statistics.median(float(line.split()[0]) for line in lines)


def _time_of_churn(lines: list[str]) -> float:
    """Of freeing an object and allocating one again."""
    return sum(statistics.median(float(line.split()[1]) for line in lines if line.startswith(name + " "))
               for name in ("free", "again"))


def _keeper(work: Work) -> Keep:
    def keep(document: Document, params: dict[str, Any], lines: list[str]) -> None:
        if work.threads:
            time = 1e3 / upper_decile(windows(lines))
            peak = next(float(line.split()[1]) for line in lines if line.startswith("peak "))
            document.result(PEAK, params, KIB).samples.append(peak)
        else:
            time = (_time_of_churn if work.program == "churn" else _time_of_bulk)(lines)
        document.result(TIME, params, UNIT).samples.append(time)
    return keep


@dataclass(frozen=True)
class Choices:
    """Of a suite."""

    suite: str
    works: tuple[Work, ...]
    choices: tuple[Choice, ...]
    param: str  # its name in the results

    def _cell(self, settings: Settings, cpus: int, work: Work, choice: Choice) -> Cell:
        program = paths.worker(settings.workers, f"{work.program}-{OURS}{choice.program}")
        if not program.exists():
            raise Failure(f"{program} is not built: apt-get install liburcu-dev, then build again")
        ours = next(one for one in ALLOCATORS if one.name == OURS)
        worker = Worker(replace(ours, environment=choice.environment), program, None)
        lasting = window_arguments(work.threads, cpus, settings.quick) if work.threads else ()
        params = {"allocator": OURS, "work": work.title, self.param: choice.name}
        return Cell(worker, params, (*work.arguments, *lasting, *choice.arguments), _keeper(work))

    def run(self, settings: Settings, machine: dict[str, Any], repeat: int, quick_repeat: int,
            quick_seconds: float) -> Document:
        document = Document(self.suite, {**machine, "versions": {}, "missing": {}})
        found = [self._cell(settings, machine["cpus"], work, choice)
                 for work in self.works for choice in self.choices]
        measure(document, settings, [Part(found, repeat, quick_repeat, quick_seconds)])
        return document

    def found(self, document: Document, name: str, work: Work, choice: Choice) -> list[float]:
        return samples(document, name, work=work.title, **{self.param: choice.name})

    def _table(self, document: Document, title: str, name: str) -> Table:
        rows = [[work.label, *(cell(self.found(document, name, work, choice)) for choice in self.choices)]
                for work in self.works if name == TIME or work.threads]
        return title, ["work", *(choice.name for choice in self.choices)], rows

    def tables(self, document: Document) -> list[Table]:
        return [self._table(document, "ns of time for each pair, map or fork, of all threads together", TIME),
                self._table(document, "most resident KiB of the process", PEAK)]

    def picture(self, document: Document, subject: Choice) -> str:
        panels = [Panel(work.title, place % 2, place // 2,
                        [Bar(choice.name.replace("\n", " "), median(found), "ours" if choice == subject else "variant")
                         for choice in self.choices if (found := self.found(document, TIME, work, choice))])
                  for place, work in enumerate(self.works)]
        return figure(f"time for each work and {self.param}", panels, UNIT, ["Shorter is better.", whiskers(document)])


def no_works(_: dict[str, Any], __: bool) -> list[tuple[str, tuple[str, ...]]]:
    """Events are counted for the programs of one suite; these suites have several."""
    return []
