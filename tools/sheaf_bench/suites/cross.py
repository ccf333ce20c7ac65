# SPDX-License-Identifier: MIT
"""Suite `cross`: objects allocated by one thread and freed by another, through bounded rings.

The pattern behind the kernel's regression with sheaves, where block requests are allocated on the
CPU that submits and freed on the one that completes: IOPS fell to 0.36 of the old value. Threads
work in pairs, `producer-consumer` one way, `symmetric` both ways.
"""
from __future__ import annotations

from typing import Any


from ..allocators import CALLED, CPU_SLAB, MEMPOOL, ONE_SIZE, OURS, ready, versions
from ..document import Document
from ..seeds import CROSS, NOT_MEASURED, left_of
from ..svg import Panel, figure
from .cells import intervals, whiskers
from .rates import (Params, Row, View, bars, entries, labels, measure, notes, rate_rows, ratio_header,
                    ratio_row)
from .suite import Settings, Suite, Table
from .ways import called
from .windows import MEAN, UNIT, keep_rates, window_arguments

OTHERS = (*ONE_SIZE, MEMPOOL, *CALLED)
ONE_WAY, SYMMETRIC = "producer-consumer", "symmetric"
PATTERNS = {ONE_WAY: "one thread of a pair allocates, the other frees",
            SYMMETRIC: "both threads of a pair do both, each frees what the other allocated"}
THREADS = (2, 8, 32)
SIZES = (64, 256)
SHAPES = [(threads, size) for size in SIZES for threads in THREADS]
CALLED_SHAPE = {"threads": 2, "size": 64}  # the only one of programs that make the call: they differ by nothing else
REPEAT = 11
QUICK_REPEAT = 6
QUICK_SECONDS = 100.0


def _params(pattern: str, shape: tuple[int, int]) -> Params:
    return {"pattern": pattern, "threads": shape[0], "size": shape[1]}


def _title(shape: tuple[int, int]) -> str:
    return f"{shape[0]} × {shape[1]} B"


def _keep(document: Document, params: Params, lines: list[str]) -> None:
    keep_rates(document, "cross", params, lines)


def _row(pattern: str, shape: tuple[int, int], cpus: int, quick: bool) -> Row:
    threads, size = shape
    arguments = ["--threads", str(threads), "--size", str(size),
                 *window_arguments(threads, cpus, quick)]
    if pattern == SYMMETRIC:
        arguments.append("--symmetric")
    return Row(f"{pattern} {_title(shape)}", tuple(arguments), _params(pattern, shape), _keep)


def _run(settings: Settings, machine: dict[str, Any]) -> Document:
    workers, missing = ready("cross", settings.workers, OTHERS)
    document = Document("cross", {**machine, "versions": versions(workers), "missing": missing})
    rows = [_row(pattern, shape, machine["cpus"], settings.quick)
            for pattern in PATTERNS for shape in SHAPES]
    measure(document, settings, rows, entries(workers), REPEAT, QUICK_REPEAT, QUICK_SECONDS,
            lambda entry, row: entry.label not in CALLED or CALLED_SHAPE.items() <= row.params.items())
    return document


def _views(document: Document, pattern: str, unit: str = UNIT) -> list[View]:
    return [View(document, unit, _params(pattern, shape)) for shape in SHAPES]


def _ratio_rows(document: Document, pattern: str) -> list[list[str]]:
    means = _views(document, pattern, MEAN)
    return [ratio_row(document, _title(shape), view, mean)
            for shape, view, mean in zip(SHAPES, _views(document, pattern), means)]


SEED_HEADER = ["threads × bytes", "kernel: part of\nthe rate before",
               "here: sheaf, part of\ncpu-slab's rate"]
SEED_TITLE = f"The kernel's percentage next to ours, {ONE_WAY}"


def _seed_rows(document: Document) -> list[list[str]]:
    """The kernel's documents have one figure, from one machine."""
    rows = []
    for shape, view in zip(SHAPES, _views(document, ONE_WAY)):
        found = view.ratio(OURS, CPU_SLAB)
        rows.append([_title(shape), f"{CROSS.percent[ONE_WAY]:.1f} %",
                     left_of(found) if found else NOT_MEASURED])
    return rows


def _what_seeds_are() -> list[str]:
    return [f"Kernel: {CROSS.origin()}.",
            "The kernel compares a version with sheaves with the one before, with CPU slabs and CPU "
            "partial lists. cpu-slab is that older design on this library's slab layer; above "
            "100 % sheaves are faster. The kernel's operations are block requests, of which "
            "allocation is a part; here allocation is everything."]


HEADER = ["threads × bytes", *(_title(shape) for shape in SHAPES)]


def _tables(document: Document) -> list[Table]:
    tables: list[Table] = []
    for pattern, meaning in PATTERNS.items():
        tables += [(f"{pattern}: {meaning}\nmillions of pairs per second\n" + intervals(document),
                    HEADER, rate_rows(_views(document, pattern), labels(document))),
                   (f"{pattern}: ratios of those rates; above 1 sheaves are faster",
                    ratio_header(document, "threads"), _ratio_rows(document, pattern))]
    return [*tables, (SEED_TITLE, SEED_HEADER, _seed_rows(document))]


def _notes(document: Document) -> list[str]:
    return [*_what_seeds_are(), *notes(document), *called(document)]


def _pictures(document: Document) -> list[str]:
    panels = [Panel(f"{pattern}, {_title(shape)}", column, place, bars(view, labels(document)))
              for column, pattern in enumerate(PATTERNS)
              for place, (shape, view) in enumerate(zip(SHAPES, _views(document, pattern)))]
    return [figure("pairs per second for each pattern, number of threads, size and allocator",
                   panels, UNIT, ["Longer is better.", whiskers(document)])]


def _works(machine: dict[str, Any], quick: bool) -> list[tuple[str, tuple[str, ...]]]:
    rows = [(pattern, shape, _row(pattern, shape, machine["cpus"], quick))
            for pattern in PATTERNS for shape in SHAPES]
    return [(f"{pattern}\n{_title(shape)}", row.arguments) for pattern, shape, row in rows]


SUITE = Suite("cross", "allocate on one CPU, free on another: 2, 8 and 32 threads",
              "Threads work in pairs, with a bounded queue between them. In the pattern "
              "producer-consumer one thread allocates and the other frees; in the symmetric "
              "pattern both do both.",
              _run, _pictures, _tables, _notes, _works, OTHERS)
