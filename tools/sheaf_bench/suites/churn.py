# SPDX-License-Identifier: MIT
"""Suite `churn`: many objects are freed, and as many allocated again and touched.

Two parts, each in interleaved repetitions (A B C ... A B C ...), a fresh process a sample:

times     of the frees, and of the allocations after them with the first touch; page faults;
memory    resident bytes after the frees, and later.

Times are CPU time. The tables and pictures are made in churn_report.py.
"""
from __future__ import annotations

from typing import Any

from ..allocators import CPU_SLAB, HARNESS, ONE_SIZE, OURS, Worker, peers, ready, versions
from ..document import Document
from .bulk import with_options
from .cells import Cell, Part, measure
from .churn_report import (BYTES, FAULTS, MOMENTS, OBJECTS, ORDERS, PHASES, QUICK_OBJECTS, UNIT,
                           notes, pictures, tables)
from .rates import DPDK
from .suite import IDLE, Settings, Suite

MEMORY_SIZE = 512  # the largest heap; each process idles, and suite `memory` has small objects
MEMORY_ORDERS = ("in-order", "shuffled")
TIMES = (6, 6, 600.0)  # repetitions, those of a quick run, and its seconds
MEMORY = (2, 2, 180.0)  # pages are counted, and differ little
LEAST_REPEAT = 2


def _objects(size: int, quick: bool) -> int:
    return (QUICK_OBJECTS if quick else OBJECTS)[size]


def record(document: Document, params: dict[str, Any], lines: list[str]) -> None:
    """One process's lines: a phase and its time and faults, or a moment and the resident bytes."""
    for line in lines:
        name, *values = line.split()
        if name in PHASES and params["part"] == "times":
            taken = {**params, "phase": name}
            document.result("churn", taken, UNIT).samples.append(float(values[0]))
            document.result("churn", taken, FAULTS).samples.append(float(values[1]) * 1000)
        elif name in MOMENTS:
            document.result("churn", {**params, "moment": name},
                            BYTES).samples.append(float(values[0]))


def _entries(workers: list[Worker]) -> list[tuple[Worker, dict[str, Any]]]:
    """What is measured: no pools, because they take all of their memory at the start."""
    names = [worker.name for worker in workers]
    wanted = [OURS, CPU_SLAB, *(name for name in peers(names) if name != DPDK), HARNESS]
    found: list[tuple[Worker, dict[str, Any]]] = []
    for worker in workers:
        if worker.name in wanted:
            found.append((worker, {"allocator": worker.name, "kept": 0}))
        if worker.name == OURS:
            found.append((with_options(worker, "decay=never"), {"allocator": OURS, "kept": 1}))
    return found


def _cell(entry: tuple[Worker, dict[str, Any]], part: str, order: str, size: int,
          quick: bool) -> Cell:
    idle = ("--idle", str(IDLE)) if part == "memory" else ()
    arguments = ("--order", order, "--size", str(size), "--objects", str(_objects(size, quick)), *idle)
    return Cell(entry[0], {**entry[1], "part": part, "order": order, "size": size}, arguments, record)


def cells(workers: list[Worker], part: str, quick: bool) -> list[Cell]:
    return [_cell(entry, part, order, size, quick)
            for order in (MEMORY_ORDERS if part == "memory" else ORDERS)
            for size in ((MEMORY_SIZE,) if part == "memory" else OBJECTS)
            for entry in _entries(workers)]


def _run(settings: Settings, machine: dict[str, Any]) -> Document:
    workers, missing = ready("churn", settings.workers, ONE_SIZE)
    document = Document("churn", {**machine, "versions": versions(workers), "missing": missing,
                                  "idle_ms": IDLE, "objects": {
                                      str(size): _objects(size, settings.quick) for size in OBJECTS}})
    measure(document, settings, [Part(cells(workers, "times", settings.quick), *TIMES, LEAST_REPEAT),
                                 Part(cells(workers, "memory", settings.quick), *MEMORY, LEAST_REPEAT)])
    return document


def _works(_: dict[str, Any], quick: bool) -> list[tuple[str, tuple[str, ...]]]:
    return [(order, ("--order", order, "--objects", str(_objects(64, quick)))) for order in ORDERS]


SUITE = Suite("churn", "many objects freed, and as many allocated again and touched",
              "Millions of objects are freed in the order of their allocation, in reverse, in random "
              "order, half of them at random, or by a thread that did not allocate them. Then as many "
              "are allocated again, and one byte of each is written. The suite also counts page "
              "faults and measures how much memory stays resident.",
              _run, pictures, tables, notes, _works, ONE_SIZE)
