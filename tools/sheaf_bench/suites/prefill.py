# SPDX-License-Identifier: MIT
"""Suite `prefill`: a piece of work that may need N objects of 64 bytes, and mostly uses few (K).

It prefills a sheaf, takes K objects from it and returns the sheaf. Rivals: it allocates N as an array and
frees the rest, or allocates N one by one. The K are freed one by one in each case.
"""
from __future__ import annotations

import statistics
from typing import Any

from sheaf_tool.stats import median

from ..allocators import CPU_SLAB, HARNESS, ONE_SIZE, OURS, Worker, peers, ready, versions
from ..document import Document
from ..svg import Bar, Panel, figure
from .cells import (NOTHING, Cell, Part, best, cell, intervals, measure, notes, ratio_cell, samples)
from .suite import Settings, Suite, Table

UNIT = "ns/work"
NAME = "prefill"
NEEDED = (8, 16, 32, 64)
WAYS = ("prefill", "bulk", "single")
OBJECTS = 400_000  # an iteration's, so that all take about the same time
ITERATIONS = 11


def used(needed: int) -> list[int]:
    return [0, needed // 8, needed // 4, needed // 2, needed]


ROWS = [(needed, k) for needed in NEEDED for k in used(needed)]


def _arguments(needed: int, k: int, way: str) -> tuple[str, ...]:
    arguments = ("--way", way, "--needed", str(needed), "--works", str(OBJECTS // needed),
                 "--iterations", str(ITERATIONS))
    return (*arguments, "--used", str(k)) if k else arguments


def keep(document: Document, params: dict[str, Any], lines: list[str]) -> None:
    document.result(NAME, params, UNIT).samples.append(
        statistics.median(float(line) for line in lines))


def _ways(worker: Worker) -> tuple[str, ...]:
    """A malloc has no bulk calls: its users write a loop."""
    if worker.name == OURS:
        return WAYS
    return ("bulk",) if worker.allocator.worker == "dpdk" else ("single",)


def cells(workers: list[Worker]) -> list[Cell]:
    names = peers([worker.name for worker in workers])
    return [Cell(worker, {"allocator": worker.name, "needed": needed, "used": k, "way": way},
                 _arguments(needed, k, way), keep)
            for needed, k in ROWS for worker in workers if worker.name in (OURS, *names)
            for way in _ways(worker)]


def _run(settings: Settings, machine: dict[str, Any]) -> Document:
    workers, missing = ready("prefill", settings.workers, ONE_SIZE)
    workers = [worker for worker in workers if worker.name not in (CPU_SLAB, HARNESS)]
    document = Document("prefill", {**machine, "versions": versions(workers), "missing": missing})
    measure(document, settings, [Part(cells(workers), 15, 6, 40.0)])
    return document


def found(document: Document, name: str, way: str, row: tuple[int, int]) -> list[float]:
    return samples(document, NAME, allocator=name, way=way, needed=row[0], used=row[1])


def _peers(document: Document) -> dict[str, str]:
    """Names, and the way of each."""
    return {result.params["allocator"]: result.params["way"] for result in document.results
            if result.params["allocator"] != OURS}


HEADER = ["needed\nused", "prefill", "bulk", "single", "best peer", "its time", "bulk /\nprefill",
          "single /\nprefill", "best peer /\nprefill"]


def rows(document: Document) -> list[list[str]]:
    table = []
    for row in ROWS:
        ours = {way: found(document, OURS, way, row) for way in WAYS}
        others = {name: found(document, name, way, row) for name, way in _peers(document).items()}
        name = best(others)
        theirs = others[name] if name else []
        table.append([f"{row[0]}\n{row[1]}", *(cell(ours[way]) for way in WAYS), name or NOTHING,
                      cell(theirs), *(ratio_cell(other, ours["prefill"]) for other in
                                      (ours["bulk"], ours["single"], theirs))])
    return table


PEER_HEADER = ["", *(f"{needed}\n{k}" for needed, k in ROWS)]


def peer_rows(document: Document) -> list[list[str]]:
    table = [[f"{OURS}\n{way}", *(cell(found(document, OURS, way, row)) for row in ROWS)]
             for way in WAYS]
    return table + [[f"{name}\n{way}", *(cell(found(document, name, way, row)) for row in ROWS)]
                    for name, way in _peers(document).items()]


def _notes(document: Document) -> list[str]:
    return ["Above 1 the prefilled sheaf is cheaper. bulk: kmem_cache_alloc_bulk for all that "
            "may be needed, kmem_cache_free_bulk for the rest. single: objects one by one. A "
            f"sample is the median CPU time of a process's iterations of {OBJECTS:,} objects "
            "each; the first is dropped.",
            *notes(document)]


def _tables(document: Document) -> list[Table]:
    return [("ns for a piece of work, by how many objects it may need and how many it uses\n"
             + intervals(document, NAME), HEADER, rows(document)),
            ("every allocator; the head has the objects needed, and below them the objects used",
             PEER_HEADER, peer_rows(document))]


def _picture(document: Document, needed: int) -> str:
    """Each number of needed objects on its own scale."""
    panels = []
    for i, k in enumerate(used(needed)):
        bars = [Bar(f"{OURS} {way}", median(one), "ours" if way == "prefill" else "variant")
                for way in WAYS if (one := found(document, OURS, way, (needed, k)))]
        bars += [Bar(name, median(one), "peer") for name, way in _peers(document).items()
                 if (one := found(document, name, way, (needed, k)))]
        panels.append(Panel(f"{needed} needed, {k} used", i % 2, i // 2, bars))
    return figure(f"ns per piece of work, {needed} objects needed", panels, "ns",
                  [f"ns per piece of work that may need {needed} objects; shorter is better."])


def _pictures(document: Document) -> list[str]:
    return [_picture(document, needed) for needed in NEEDED]


def _works(_: dict[str, Any], __: bool) -> list[tuple[str, tuple[str, ...]]]:
    return [(f"{needed} needed\n{k} used", _arguments(needed, k, "prefill"))
            for needed in NEEDED for k in (0, needed // 8, needed)]


SUITE = Suite("prefill", "work that may need many objects and uses few: a prefilled sheaf, or bulk",
              "A piece of work may need N objects of 64 bytes and mostly uses few of them. It "
              "prefills a sheaf and returns what it did not use, or allocates an "
              "array of N and frees the rest, or allocates objects one by one.",
              _run, _pictures, _tables, _notes, _works, ONE_SIZE)
