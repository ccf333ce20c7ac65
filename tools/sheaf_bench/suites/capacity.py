# SPDX-License-Identifier: MIT
"""Suite `capacity`: fixed capacities of sheaves next to the one that follows the load.

Every work runs with caches of each fixed capacity, and with a cache whose capacity the library
chooses and changes. The kernel's documents compare fixed ones only.
"""
from __future__ import annotations

import statistics
from dataclasses import dataclass
from typing import Any, Callable

from sheaf_tool.errors import Failure
from sheaf_tool.stats import median

from ..allocators import ALLOCATORS, OURS, Worker
from ..document import Document
from ..svg import Bar, Panel, figure
from .cells import NOTHING, Cell, Part, cell, intervals, measure, notes, ratio_cell, samples, whiskers
from .suite import Settings, Suite, Table
from .windows import upper_decile, window_arguments, windows

NAME = "capacity"  # of results of time
UNIT = "ns/pair"
PEAK = "KiB"
OWN = "own"
FIXED = (32, 60, 128, 256, 508)
CHOICES: tuple[Any, ...] = (*FIXED, OWN)
REPEAT, QUICK_REPEAT, QUICK_SECONDS = 9, 6, 100.0


@dataclass(frozen=True)
class Work:
    program: str
    arguments: tuple[str, ...]
    threads: int = 0  # 0: prints times instead of rates

    @property
    def title(self) -> str:
        return " ".join((self.program, *(one.removeprefix("--") for one in self.arguments)))


WORKS = (
    Work("scale", ("--batch", "10", "--threads", "2"), 2),
    Work("scale", ("--batch", "100", "--threads", "2"), 2),
    Work("scale", ("--batch", "1000", "--threads", "2"), 2),
    Work("scale", ("--batch", "1000", "--threads", "32"), 32),
    Work("scale", ("--batch", "1000", "--threads", "2", "--size", "1024"), 2),
    Work("cross", ("--threads", "2"), 2),
    Work("cross", ("--threads", "32"), 32),
    Work("cross", ("--threads", "2", "--size", "256"), 2),
    Work("cross", ("--symmetric", "--threads", "2"), 2),
    Work("mmap2", ("--tasks", "2"), 2),
    Work("fork", ("--threads", "2"), 2),
    Work("fork", ("--exec", "--threads", "8", "--vmas", "25"), 8),
    Work("bulk", ("--part", "transfer", "--bulk", "100", "--iterations", "11")),
    Work("bulk", ("--part", "transfer", "--bulk", "1000", "--iterations", "11")),
    Work("churn", ("--order", "shuffled", "--objects", "1000000")),
)


def _time_of_rate(lines: list[str]) -> float:
    return 1e3 / upper_decile(windows(lines))


def _time_of_bulk(lines: list[str]) -> float:
    return statistics.median(float(line.split()[0]) for line in lines)


def _time_of_churn(lines: list[str]) -> float:
    """Of freeing an object and allocating one again."""
    found = {name: [float(line.split()[1]) for line in lines if line.startswith(name + " ")] for name in ("free", "again")}
    return sum(statistics.median(times) for times in found.values())


def _peak(lines: list[str]) -> float:
    return next(float(line.split()[1]) for line in lines if line.startswith("peak "))


def _keeper(work: Work) -> Callable[[Document, dict[str, Any], list[str]], None]:
    time = _time_of_rate if work.threads else _time_of_churn if work.program == "churn" else _time_of_bulk

    def keep(document: Document, params: dict[str, Any], lines: list[str]) -> None:
        document.result(NAME, params, UNIT).samples.append(time(lines))
        if work.threads:
            document.result("peak", params, PEAK).samples.append(_peak(lines))
    return keep


def _cell(work: Work, worker: Worker, capacity: Any, cpus: int, quick: bool) -> Cell:
    arguments = work.arguments
    if work.threads:
        arguments += tuple(window_arguments(work.threads, cpus, quick))
    if capacity != OWN:
        arguments += ("--capacity", str(capacity))
    return Cell(worker, {"allocator": OURS, "work": work.title, "capacity": capacity}, arguments, _keeper(work))


def _run(settings: Settings, machine: dict[str, Any]) -> Document:
    ours = next(one for one in ALLOCATORS if one.name == OURS)
    found = []
    for work in WORKS:
        program = settings.workers / f"{work.program}-{OURS}"
        if not program.exists():
            raise Failure(f"{program} is not built: apt-get install liburcu-dev, then build again")
        worker = Worker(ours, program, None)
        found += [_cell(work, worker, capacity, machine["cpus"], settings.quick) for capacity in CHOICES]
    document = Document("capacity", {**machine, "versions": {}, "missing": {}})
    measure(document, settings, [Part(found, REPEAT, QUICK_REPEAT, QUICK_SECONDS)])
    return document


def _found(document: Document, name: str, work: Work, capacity: Any) -> list[float]:
    return samples(document, name, work=work.title, capacity=capacity)


def _best_fixed(document: Document, work: Work) -> Any:
    return min((capacity for capacity in FIXED if _found(document, NAME, work, capacity)),
               key=lambda capacity: median(_found(document, NAME, work, capacity)).value, default=None)


def _label(work: Work) -> str:
    """In two lines."""
    words = work.title.split()
    return f"{words[0]}\n{' '.join(words[1:])}"


def _ratio_rows(document: Document) -> list[list[str]]:
    rows = []
    for work in WORKS:
        own = _found(document, NAME, work, OWN)
        best = _best_fixed(document, work)
        rows.append([_label(work), *(ratio_cell(own, _found(document, NAME, work, capacity)) for capacity in FIXED),
                     str(best or NOTHING)])
    return rows


def _value_rows(document: Document, name: str, works: tuple[Work, ...]) -> list[list[str]]:
    return [[_label(work), *(cell(_found(document, name, work, capacity)) for capacity in CHOICES)]
            for work in works]


RATIOS = ["work", *(f"own /\n{capacity}" for capacity in FIXED), "best\nfixed"]
VALUES = ["work", *map(str, CHOICES)]


def _tables(document: Document) -> list[Table]:
    return [("own: the time with the library's own capacity over the time with a fixed one\n"
             "below 1 the library's choice is faster\n" + intervals(document, NAME), RATIOS, _ratio_rows(document)),
            ("ns for a pair, a map or a fork, divided by the threads", VALUES, _value_rows(document, NAME, WORKS)),
            ("most resident KiB of the process", VALUES,
             _value_rows(document, "peak", tuple(work for work in WORKS if work.threads)))]


def _notes(document: Document) -> list[str]:
    return ["Objects have 64 bytes where no size is given. mmap2 and fork: VMAs and nodes of the maple tree; of "
            "larger objects a cache may hold fewer than the capacity given.", *notes(document)]


def _pictures(document: Document) -> list[str]:
    panels = [Panel(work.title, place % 2, place // 2,
                    [Bar(str(capacity), median(found), "ours" if capacity == OWN else "variant")
                     for capacity in CHOICES if (found := _found(document, NAME, work, capacity))])
              for place, work in enumerate(WORKS)]
    return [figure("time for each work and capacity", panels, UNIT, ["Shorter is better.", whiskers(document)])]


def _works(_: dict[str, Any], __: bool) -> list[tuple[str, tuple[str, ...]]]:
    """None: this suite has several programs."""
    return []


SUITE = Suite("capacity", "fixed capacities of sheaves next to the one that follows the load",
              "The same works with caches of fixed capacities, and with the capacity that the library "
              "chooses and changes by itself.",
              _run, _pictures, _tables, _notes, _works)
