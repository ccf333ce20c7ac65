# SPDX-License-Identifier: MIT
"""Suite `bulk`: arrays of objects, and the cost of memory that was not used before.

Three parts, each in interleaved repetitions (A B C ... A B C ...), a fresh process per sample:

transfer  allocate N objects of 64 bytes as one array, and free them;
slab      the kernel's slub_bulk_bench: every array is the objects of one new slab, in memory that was
          faulted before, or was not; the three-tier baseline with its freelist deferred, or built first;
single    allocate one by one from new memory: not touched, first byte written, all written.

Times are CPU time. The tables and pictures are made in bulk_report.py.
"""
from __future__ import annotations

import os
import statistics
from dataclasses import replace
from pathlib import Path
from typing import Any

from ..allocators import (CALLED, CPU_SLAB, HARNESS, ONE_SIZE, OURS, SLAB_LAYER, STATIC_PEERS, Allocator, Worker, peers, ready,
                          versions)
from ..document import Document
from .bulk_report import (CAPACITIES, FAULTS, KINDS, PARTS, SIZES, SLAB_OBJECTS, TOUCHES, TRANSFERS,
                          UNIT, notes, pictures, tables)
from .cells import Cell, Part, measure
from .suite import Settings, Suite

OTHERS = (*ONE_SIZE, SLAB_LAYER, *CALLED, *STATIC_PEERS)
MIB = 1 << 20
TOTAL = 256 * MIB
QUICK_SLAB_TOTAL = 64 * MIB
QUICK_SIZES = (16, 64, 512)  # of part single
QUICK_TOUCHES = ("none", "first")
TRANSFER_ITERATIONS = 11
FAULTED_ITERATIONS = 3
QUICK_FAULTED_ITERATIONS = 2
LEAST_REPEAT = 3
# A slab of the kernel's machine (8 CPUs) holds at least this many objects.
GEOMETRY = "slab_min_objects=20"
# Options that make each allocator keep freed memory, so that the next round finds it faulted.
KEEP = {"MALLOC_TRIM_THRESHOLD_": str(1 << 40), "MALLOC_TOP_PAD_": "0",
        "MALLOC_CONF": "dirty_decay_ms:-1,muzzy_decay_ms:-1",
        "MIMALLOC_ALLOW_DECOMMIT": "0", "MIMALLOC_PURGE_DELAY": "-1", "TCMALLOC_RELEASE_RATE": "0"}
KEEP_OPTION = "decay=never"


def with_environment(worker: Worker, added: dict[str, str]) -> Worker:
    allocator = worker.allocator
    return Worker(replace(allocator, environment=(*allocator.environment, *added.items())),
                  worker.program, worker.library)


def with_options(worker: Worker, *options: str) -> Worker:
    """SHEAF_OPTIONS in addition to those of the user."""
    found = filter(None, (os.environ.get("SHEAF_OPTIONS"), *options))
    return with_environment(worker, {"SHEAF_OPTIONS": ";".join(found)})


def with_arguments(worker: Worker, *added: str) -> Worker:
    allocator = worker.allocator
    return Worker(replace(allocator, arguments=(*allocator.arguments, *added)), worker.program,
                  worker.library)


def _of(workers: list[Worker], names: list[str]) -> list[Worker]:
    return [worker for worker in workers if worker.name in names]


def _mallocs(workers: list[Worker]) -> list[Worker]:
    """Peers that are no pools: a pool takes all of its memory at the start."""
    names = peers([worker.name for worker in workers])
    return [worker for worker in _of(workers, names) if worker.allocator.worker == "malloc"]


def record(document: Document, params: dict[str, Any], lines: list[str]) -> None:
    """A sample is the median of a process's iterations."""
    name = params["part"]
    columns = list(zip(*(map(float, line.split()) for line in lines)))
    document.result(name, params, UNIT).samples.append(statistics.median(columns[0]))
    if name != "transfer":
        document.result(name, params, FAULTS).samples.append(statistics.median(columns[1]))


def transfer_cells(workers: list[Worker], _: Path, __: bool) -> list[Cell]:
    names = [worker.name for worker in workers]
    cells = []
    for objects in TRANSFERS:
        for worker in _of(workers, [OURS, *CALLED, SLAB_LAYER, *peers(names), *STATIC_PEERS, HARNESS]):
            for capacity in CAPACITIES if worker.name == OURS else CAPACITIES[:1]:
                arguments = ["--part", "transfer", "--bulk", str(objects),
                             "--iterations", str(TRANSFER_ITERATIONS)]
                if capacity:
                    arguments += ["--capacity", str(capacity)]
                params = {"allocator": worker.name, "part": "transfer", "objects": objects,
                          "size": 64, "capacity": capacity or "default"}
                cells.append(Cell(worker, params, tuple(arguments), record))
    return cells


def _slab_arguments(size: int, faulted: bool, quick: bool) -> tuple[str, ...]:
    arguments = ["--part", "fresh", "--size", str(size), "--bulk", str(SLAB_OBJECTS[size]),
                 "--total", str(QUICK_SLAB_TOTAL if quick else TOTAL)]
    if faulted:
        arguments += ["--faulted", "--iterations",
                      str(QUICK_FAULTED_ITERATIONS if quick else FAULTED_ITERATIONS)]
    return tuple(arguments)


def _kinds(workers: list[Worker], faulted: bool) -> list[tuple[Worker, dict[str, Any]]]:
    """Ours, in order and in random order, and the baseline with both freelists."""
    (ours,), (tiers,) = _of(workers, [OURS]), _of(workers, [CPU_SLAB])
    keep = KEEP_OPTION if faulted else ""
    found = []
    for params in KINDS.values():
        if params["allocator"] == OURS:
            random = "slab_freelist_random" if params["random"] else ""
            worker = with_options(ours, GEOMETRY, keep, random)
        else:
            variant = ("--variant", "deferred") if params["freelist"] == "deferred" else ()
            worker = with_arguments(with_options(tiers, GEOMETRY, keep), *variant)
        found.append((worker, params))
    return found


def slab_cells(workers: list[Worker], _: Path, quick: bool) -> list[Cell]:
    cells = []
    for size in SIZES:
        for faulted in (True, False):
            arguments = _slab_arguments(size, faulted, quick)
            common = {"part": "slab", "size": size, "objects": SLAB_OBJECTS[size],
                      "faulted": faulted}
            entries = _kinds(workers, faulted)
            if faulted:
                entries += [(with_environment(worker, KEEP), {"allocator": worker.name})
                            for worker in _mallocs(workers)]
            cells += [Cell(worker, {**params, **common}, arguments, record)
                      for worker, params in entries]
    return cells


def single_cells(workers: list[Worker], programs: Path, quick: bool) -> list[Cell]:
    pages = Worker(Allocator(HARNESS, "hugepages"), programs / "bulk-hugepages", None)
    cells = []
    for size in QUICK_SIZES if quick else SIZES:
        for touch in QUICK_TOUCHES if quick else TOUCHES:
            for worker in [*_of(workers, [OURS]), *_mallocs(workers), pages]:
                params = {"allocator": worker.name, "part": "single", "size": size, "touch": touch}
                arguments = ("--part", "fresh", "--bulk", "1", "--size", str(size), "--touch", touch,
                             "--total", str(TOTAL))
                cells.append(Cell(worker, params, arguments, record))
    return cells


# Cells, repetitions, those of a quick run, and its seconds.
RUNS = {"transfer": (transfer_cells, 15, 7, 12.0),
        "slab": (slab_cells, 12, 6, 34.0),
        "single": (single_cells, 12, 6, 38.0)}


def _run(settings: Settings, machine: dict[str, Any]) -> Document:
    workers, missing = ready("bulk", settings.workers, OTHERS)
    total = QUICK_SLAB_TOTAL if settings.quick else TOTAL
    document = Document("bulk", {**machine, "versions": versions(workers), "missing": missing,
                                 "slab_total": total, "single_total": TOTAL})
    parts = []
    for name in PARTS:
        cells, *times = RUNS[name]
        parts.append(Part(cells(workers, settings.workers, settings.quick), *times, LEAST_REPEAT))
    measure(document, settings, parts)
    return document


def _works(_: dict[str, Any], __: bool) -> list[tuple[str, tuple[str, ...]]]:
    found = [(f"transfer\n{objects} objects", ("--part", "transfer", "--bulk", str(objects)))
             for objects in TRANSFERS]
    return found + [("one by one\nnew memory", ("--part", "fresh", "--bulk", "1"))]


SUITE = Suite("bulk", "objects in arrays, from new slabs, and one by one from new memory",
              "Three questions: the cost of allocating and freeing whole arrays of objects; "
              "the cost of objects from a new slab, next to the older design with and without "
              "building the slab's freelist first; and the cost of allocating one by one from memory "
              "that was never used.",
              _run, pictures, tables, notes, _works, OTHERS)
