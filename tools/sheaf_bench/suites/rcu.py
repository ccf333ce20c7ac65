# SPDX-License-Identifier: MIT
"""Suite `rcu`: retire objects under readers, and allocate them again.

Three parts, each in interleaved repetitions, a fresh process per sample:

cost    writers replace objects of 64 bytes as fast as they can; a barrier after every 262,144 bounds
        what waits. CPU time of the writers and of liburcu's worker, per object.
paced   each writer retires a million objects per second, as a server may, without barriers: how long
        until an object is used again, and how much waits.
strand  one thread allocates, another on its own CPU retires, ten million times: resident size.

The tables and pictures are made in rcu_report.py.
"""
from __future__ import annotations

from pathlib import Path
from typing import Any

from sheaf_tool.errors import Failure

from .. import counters
from ..allocators import HARNESS, OURS, Worker, ready, versions
from ..document import Document
from .cells import Cell, Part, measure
from .rcu_report import (BYTES, CALLER, CONFIGS, CPU, NS, PENDING, RATE, REUSE, RESIDENT, WIDE, notes,
                         pictures, tables)
from .suite import Settings, Suite

FLAVOURS = ("memb", "qsbr")
ROUND = 1 << 18
ROUNDS = 8  # measured, after as many that are not: two million objects each
QUICK_ROUNDS = 4
PACE = 1_000_000  # objects per second
PACED_ROUND = {False: 1 << 18, True: 1 << 17}  # a fraction of a second each
STRAND_ROUNDS = 10_000_000
QUICK_STRAND_ROUNDS = 2_000_000
PEERS = ("glibc", "mimalloc", "jemalloc")
QUICK_PEERS = ("glibc", "mimalloc")
CALLBACKS = ("call_rcu", "batch")
OWN = ("kfree_rcu", "cache")
WIDE_ARGUMENTS = ("--variant", "wide-barn")

Way = tuple[Worker, dict[str, Any], tuple[str, ...]]


def ways(workers: list[Worker], quick: bool, callbacks_only: bool = False) -> list[Way]:
    """The ways to retire: workers with their params and arguments. A quick run leaves out those that
    only explain the times: ours with plain call_rcu, and freeing immediately."""
    known = {worker.name: worker for worker in workers}
    found: list[Way] = []

    def add(name: str, way: str, *arguments: str, **more: Any) -> None:
        if name in known:
            found.append((known[name], {"allocator": name, "way": way, **more},
                          ("--way", way, *arguments)))

    for way in OWN:
        add(OURS, way)
        if not callbacks_only:
            add(OURS, way, *WIDE_ARGUMENTS, barn=WIDE)
    for name in QUICK_PEERS if quick else (OURS, *PEERS):
        for way in CALLBACKS:
            add(name, way)
        if not callbacks_only and not quick:
            add(name, "immediate")
    if not callbacks_only:
        add(HARNESS, "immediate")
    return found


def _values(lines: list[str]) -> dict[str, float]:
    found = {}
    for line in lines:
        name, value = line.split()
        found[name] = float(value)
    return found


def keep_cost(document: Document, params: dict[str, Any], lines: list[str]) -> None:
    found = _values(lines)
    for name, unit in ((CPU, "ns/object"), (CALLER, "ns/object"), (RATE, "Mobjects/s")):
        document.result(name, params, unit).samples.append(found[name])
    document.result(PENDING, params, "KiB").samples.append(found[PENDING] * BYTES / 1024)


def keep_paced(document: Document, params: dict[str, Any], lines: list[str]) -> None:
    found = _values(lines)
    document.result(REUSE, params, NS).samples.append(found[REUSE])
    document.result(PENDING, params, "KiB").samples.append(found[PENDING] * BYTES / 1024)


def keep_strand(document: Document, params: dict[str, Any], lines: list[str]) -> None:
    for line in lines:
        _, done, resident = line.split()
        point = {**params, "at": float(done)}
        document.result(RESIDENT, point, "MiB").samples.append(float(resident) / (1 << 20))


def _cost_arguments(writers: int, quick: bool) -> tuple[str, ...]:
    rounds = str(QUICK_ROUNDS if quick else ROUNDS)
    return ("--writers", str(writers), "--round", str(ROUND), "--warm", rounds, "--rounds", rounds)


def cost_cells(workers: dict[str, list[Worker]], quick: bool) -> list[Cell]:
    return [Cell(worker, {**params, "flavour": flavour, "writers": writers},
                 (*arguments, *_cost_arguments(writers, quick)), keep_cost)
            for flavour, writers in CONFIGS
            for worker, params, arguments in ways(workers[flavour], quick)]


def paced_cells(workers: dict[str, list[Worker]], quick: bool) -> list[Cell]:
    pace = ("--rate", str(PACE), "--round", str(PACED_ROUND[quick]), "--warm", "1", "--rounds", "2")
    return [Cell(worker, {**params, "rate": PACE}, (*arguments, *pace), keep_paced)
            for worker, params, arguments in ways(workers["memb"], quick, callbacks_only=True)]


def strand_cells(workers: list[Worker], quick: bool) -> list[Cell]:
    rounds = str(QUICK_STRAND_ROUNDS if quick else STRAND_ROUNDS)
    return [Cell(worker, {**params, "part": "strand"}, (*arguments, "--rounds", rounds), keep_strand)
            for worker, params, arguments in ways(workers, quick, callbacks_only=True)]


def _workers(directory: Path) -> tuple[dict[str, list[Worker]], dict[str, str]]:
    found, missing = {}, {}
    for flavour in FLAVOURS:
        if not (directory / f"rcu-{flavour}-{OURS}").exists():
            raise Failure(f"rcu: no programs for liburcu's flavour {flavour}: apt-get install "
                          "liburcu-dev, then build again")
        found[flavour], missing = ready(f"rcu-{flavour}", directory, (HARNESS,))
    return found, missing


def _run(settings: Settings, machine: dict[str, Any]) -> Document:
    workers, missing = _workers(settings.workers)
    strand, _ = ready("strand-memb", settings.workers)
    quick = settings.quick
    mine = {name: remedy for name, remedy in missing.items() if name in PEERS}
    document = Document("rcu", {**machine, "missing": mine, "round": ROUND, "rate": PACE,
                                "versions": versions([worker for worker in workers["memb"]
                                                      if worker.name in PEERS]),
                                "rounds": QUICK_ROUNDS if quick else ROUNDS,
                                "strand": QUICK_STRAND_ROUNDS if quick else STRAND_ROUNDS})
    measure(document, settings, [Part(cost_cells(workers, quick), 11, 6, 38.0),
                                 Part(paced_cells(workers, quick), 6, 3, 8.0),
                                 Part(strand_cells(strand, quick), 3, 1, 12.0)])
    works = [(f"{way}\n{writers} writer{'s' * (writers > 1)}" + ("\nwide barn" if wide else ""),
              ("--way", way, *wide, *_cost_arguments(writers, quick)))
             for way in (OWN[:1] if quick else OWN) for writers in (1, 2)
             for wide in ((), WIDE_ARGUMENTS)]
    counters.add(document, settings, workers["memb"], works)
    return document


SUITE = Suite("rcu", "retire objects under readers and allocate them again, against call_rcu",
              "Writers replace objects that readers look at, and retire the old ones: with "
              "kfree_rcu, with liburcu's call_rcu for each object, with arrays of 64 pointers "
              "that one callback frees, and at once, without a grace period, as a lower "
              "bound.",
              _run, pictures, tables, notes, lambda _, __: [])
