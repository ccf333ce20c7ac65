# SPDX-License-Identifier: MIT
"""Suite `maple`: libsheaf's maple tree and its rivals at the typical work of a tree of ranges.

A cell is one structure at one number of ranges: a fresh process that builds the tree and goes through
the workloads. It prints sums of its results, which must be the same for all structures: a different
sum ends the run. The program is maple/bench/rivals/main.cpp.
"""
from __future__ import annotations

import copy
from dataclasses import replace
from pathlib import Path
from typing import Any, Callable

from sheaf_tool.errors import Failure

from .. import paths
from ..allocators import HARNESS, OURS, Allocator, Worker
from ..document import Document
from ..machine import package_version
from . import maple_report
from .cells import Cell, Part, measure
from .suite import Settings, Suite

NS, BYTES, RATE, EVENTS = "ns", "bytes", "M/s", "events/pair"
NO_RCU, KERNEL_RULES = "sheaf-no-rcu", "sheaf-kernel-rules"
VARIANTS = (NO_RCU, KERNEL_RULES)  # of ours: missing if that is
STRUCTURES = (OURS, *VARIANTS, "map-start", "map-end", "btree-start", "btree-end", "judy", "rbtree",
              HARNESS)
REMEDIES = {
    "btree": "apt-get install libabsl-dev, then build again",
    "judy": "apt-get install libjudy-dev, then build again",
    OURS: "apt-get install g++ liburcu-dev, then build again",
}
PACKAGES = {"btree-start": ("absl", "libabsl-dev"), "judy": ("JudyL", "libjudy-dev"),
            OURS: ("liburcu", "liburcu-dev")}
WITHOUT = {NO_RCU: "build,load,pair,adjacent", HARNESS: "load,iterate,dup,gap"}
EVERYTHING = "build,load,iterate,gap,dup,pair,adjacent,varied"

SIZES = (60, 300, 1000, 10_000, 100_000, 1_000_000)
QUICK_SIZES = (60, 300, 1000, 100_000)
MEMORY_SIZES = (1000, 100_000, 1_000_000)
READER_SIZES = (60, 1000, 100_000, 1_000_000)
COUNT_SIZES = (60, 300, 1000, 10_000, 100_000)
ORDERS = ("bytes-random", "bytes-ascending", "bytes-adjacent")
RACERS = ((OURS, "none"), ("map-end", "mutex"), ("map-end", "rwlock"), ("btree-end", "mutex"),
          ("btree-end", "rwlock"))
CROWD = ((OURS, "none"), ("btree-end", "mutex"))  # also with more readers
READERS = (1, 3, 7)
WINDOW, QUICK_WINDOW = 300, 80  # ms
REPEAT, QUICK_REPEAT = 7, 6


class Sums:
    """The results of the structures, by workload and parameters."""

    def __init__(self) -> None:
        self.found: dict[tuple[Any, ...], tuple[str, str]] = {}
        self.wrong: list[str] = []

    def add(self, where: tuple[Any, ...], name: str, total: str) -> None:
        first, expected = self.found.setdefault(where, (name, total))
        if total != expected:
            self.wrong.append(f"{name} finds other ranges than {first} in "
                              f"{', '.join(map(str, where))} ranges")

    def check(self) -> None:
        if self.wrong:
            raise Failure("maple: " + "; ".join(dict.fromkeys(self.wrong)))


Keep = Callable[[Document, dict[str, Any], list[str]], None]


def keeper(sums: Sums, unit: str) -> Keep:
    """Records lines WORKLOAD NUMBER and sum WORKLOAD NUMBER."""
    def keep(document: Document, params: dict[str, Any], lines: list[str]) -> None:
        for line in lines:
            words = line.split()
            if words[0] == "sum":
                sums.add((words[1], params["ranges"]), params["allocator"], words[2])
            else:
                document.result(words[0], params, unit).samples.append(float(words[1]))
    return keep


def keep_counts(document: Document, params: dict[str, Any], lines: list[str]) -> None:
    for line in lines:
        if line.startswith("count "):
            _, pairs, what, value = line.split()
            document.result(what, {**params, "pairs": pairs}, EVENTS).samples.append(float(value))


def ready(directory: Path) -> tuple[dict[str, Worker], dict[str, str]]:
    """The programs that are built, by structure, and the advice for the others; no program
    at all if ours is not among them."""
    workers: dict[str, Worker] = {}
    missing: dict[str, str] = {}
    for name in STRUCTURES:
        program = paths.worker(directory, f"maple-{name}")
        if program.exists():
            workers[name] = Worker(Allocator(name, name), program, None)
        elif name not in VARIANTS:
            kind = name.split("-")[0]
            missing[kind] = REMEDIES.get(kind, "a C++ compiler is needed to build it")
    return ({}, {"maple": missing[OURS]}) if OURS in missing else (workers, missing)


def tree_cells(workers: dict[str, Worker], ranges: int, keep: Keep) -> list[Cell]:
    return [Cell(worker, {"allocator": name, "ranges": ranges},
                 ("--ranges", str(ranges), "--only", WITHOUT.get(name, EVERYTHING)), keep)
            for name, worker in workers.items() if name != KERNEL_RULES]


def memory_cells(workers: dict[str, Worker], sizes: tuple[int, ...], keep: Keep) -> list[Cell]:
    """The red-black tree's nodes and the array are not allocated."""
    return [Cell(worker, {"allocator": name, "ranges": ranges},
                 ("--ranges", str(ranges), "--only", order), keep)
            for order in ORDERS for ranges in sizes for name, worker in workers.items()
            if name not in ("rbtree", HARNESS, KERNEL_RULES)]


def races(ranges: int, quick: bool) -> list[tuple[str, str, int]]:
    """A large tree takes long to build."""
    found = [(name, lock, 1) for name, lock in RACERS
             if lock != "rwlock" or ranges < READER_SIZES[-1]]
    if ranges == READER_SIZES[-1]:
        return found
    if quick:
        return [*found, (*CROWD[0], READERS[-1])]
    return found + [(*racer, readers) for readers in READERS[1:] for racer in CROWD]


def reader_cells(workers: dict[str, Worker], quick: bool, keep: Keep) -> list[Cell]:
    sizes = READER_SIZES[:3] if quick else READER_SIZES
    window = ("--window", str(QUICK_WINDOW if quick else WINDOW), "--only", "readers")
    cells = [Cell(workers[name],
                  {"allocator": name, "ranges": ranges, "lock": lock, "readers": readers},
                  ("--ranges", str(ranges), "--lock", lock, "--readers", str(readers), *window), keep)
             for ranges in sizes for name, lock, readers in races(ranges, quick) if name in workers]
    return cells + [Cell(workers[OURS], {"allocator": OURS, "ranges": ranges, "lock": "none",
                                         "readers": 1, "writer": False},
                         ("--ranges", str(ranges), "--readers", "1", "--alone", *window), keep)
                    for ranges in sizes]


def count_cells(workers: dict[str, Worker]) -> list[Cell]:
    cells = []
    for name in (OURS, KERNEL_RULES):
        if name in workers:
            counting = copy.copy(workers[name])
            counting.allocator = replace(counting.allocator,
                                         environment=(("SHEAF_OPTIONS", "stats"),))
            cells += [Cell(counting, {"allocator": name, "ranges": ranges},
                           ("--ranges", str(ranges), "--only", "counts"), keep_counts)
                      for ranges in COUNT_SIZES]
    return cells


def parts(workers: dict[str, Worker], sums: Sums, quick: bool) -> list[Part]:
    time, space, rate = keeper(sums, NS), keeper(sums, BYTES), keeper(sums, RATE)
    found = [_part(tree_cells(workers, ranges, time)) for ranges in (QUICK_SIZES if quick else SIZES)]
    return [*found, _part(reader_cells(workers, quick, rate)),
            Part(memory_cells(workers, MEMORY_SIZES[1:2] if quick else MEMORY_SIZES, space), 1, 1,
                 10.0),
            Part(count_cells(workers), 3, 1, 10.0)]


def _part(cells: list[Cell]) -> Part:
    """Also in a quick run on a busy machine: fewer repetitions give no interval."""
    return Part(cells, REPEAT, QUICK_REPEAT, 0.0, QUICK_REPEAT)


def versions(workers: dict[str, Worker]) -> dict[str, str]:
    found = {name: package_version(package) for worker, (name, package) in PACKAGES.items()
             if worker in workers}
    return {name: version for name, version in found.items() if version}


def _run(settings: Settings, machine: dict[str, Any]) -> Document:
    workers, missing = ready(settings.workers)
    document = Document("maple", {**machine, "versions": versions(workers), "missing": missing,
                                  "window": QUICK_WINDOW if settings.quick else WINDOW})
    sums = Sums()
    for part in parts(workers, sums, settings.quick) if workers else ():
        once = replace(settings, repeat=1) if part.repeat == 1 else settings
        measure(document, once, [part])
        sums.check()
    return document


SUITE = Suite("maple", "the maple tree against maps, b-tree, JudyL and red-black tree",
              "The maple tree does the typical work of a tree of ranges, next to ordered maps, "
              "JudyL and a red-black tree with gaps. None of these rivals can be read while "
              "it changes, none splits or overwrites ranges, and only the red-black tree "
              "finds gaps: the tables compare the time of the same work, not the features.",
              _run, maple_report.pictures, maple_report.tables, maple_report.notes, lambda _, __: [])
