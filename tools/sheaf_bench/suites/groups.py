# SPDX-License-Identifier: MIT
"""Suite `groups`: what it costs to charge objects of 64 bytes to groups.

own: two threads allocate and free batches of 100; the objects of a batch are charged to 1, 100 or 10,000
groups in turn. cross: one thread allocates, the other one frees, each with a group of its own.
"""
from __future__ import annotations

import statistics
from typing import Any

from sheaf_tool.errors import Failure
from sheaf_tool.stats import median

from ..allocators import ALLOCATORS, OURS, Worker
from ..document import Document
from ..svg import Bar, Panel, figure
from .cells import Cell, Part, cell, intervals, measure, notes, ratio_cell, samples
from .suite import Settings, Suite, Table

UNIT = "ns/pair"
NAME = "groups"
PAIRS = 640_000
ITERATIONS = 7
ROWS = [("own", 0), ("own", 1), ("own", 100), ("own", 10_000), ("cross", 0), ("cross", 2)]


def _arguments(pattern: str, groups: int) -> tuple[str, ...]:
    arguments: tuple[str, ...] = ("--pairs", str(PAIRS), "--iterations", str(ITERATIONS))
    if groups:
        arguments += ("--groups", str(groups))
    return (*arguments, "--cross") if pattern == "cross" else arguments


def _keep(document: Document, params: dict[str, Any], lines: list[str]) -> None:
    document.result(NAME, params, UNIT).samples.append(statistics.median(float(line) for line in lines))


def _run(settings: Settings, machine: dict[str, Any]) -> Document:
    program = settings.workers / "groups-sheaf"
    if not program.exists():
        raise Failure(f"{program} is not built")
    worker = Worker(next(one for one in ALLOCATORS if one.name == OURS), program, None)
    document = Document("groups", {**machine, "versions": {}, "missing": {}})
    found = [Cell(worker, {"allocator": worker.name, "pattern": pattern, "groups": groups},
                  _arguments(pattern, groups), _keep)
             for pattern, groups in ROWS]
    measure(document, settings, [Part(found, 15, 6, 40.0)])
    return document


def _found(document: Document, pattern: str, groups: int) -> list[float]:
    return samples(document, NAME, allocator=OURS, pattern=pattern, groups=groups)


def _more(document: Document, pattern: str, groups: int) -> list[float]:
    return [charged - plain for charged, plain in
            zip(_found(document, pattern, groups), _found(document, pattern, 0))]


HEADER = ["pattern", "groups", "ns/pair", "more than\nnot charged", "ratio"]


def _rows(document: Document) -> list[list[str]]:
    return [[pattern, f"{groups:,}" if groups else "none", cell(_found(document, pattern, groups)),
             cell(_more(document, pattern, groups)),
             ratio_cell(_found(document, pattern, groups), _found(document, pattern, 0))]
            for pattern, groups in ROWS]


def _tables(document: Document) -> list[Table]:
    return [("ns of CPU time per pair, the mean of two threads\n" + intervals(document, NAME), HEADER, _rows(document))]


def _notes(document: Document) -> list[str]:
    return ["more: the difference in each repetition. cross: the sum of both threads for one pair.", *notes(document)]


def _pictures(document: Document) -> list[str]:
    panels = [Panel(pattern, 0, place, [Bar(f"{groups:,} groups" if groups else "not charged",
                                            median(_found(document, pattern, groups)), "ours" if groups else "variant")
                                        for one, groups in ROWS if one == pattern])
              for place, pattern in enumerate(("own", "cross"))]
    return [figure("ns per pair, charged and not", panels, UNIT, ["ns of CPU time per pair; shorter is better."])]


def _works(_: dict[str, Any], __: bool) -> list[tuple[str, tuple[str, ...]]]:
    """None: the counters are for all allocators of a suite, and this one has ours alone."""
    return []


SUITE = Suite("groups", "objects charged to 1, 100 and 10,000 groups, and freed in another one",
              "Two threads allocate and free objects that are charged to groups.",
              _run, _pictures, _tables, _notes, _works)
