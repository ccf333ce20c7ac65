# SPDX-License-Identifier: MIT
"""Suite `batch`: allocate N objects of 64 bytes, free them, a million pairs per iteration.

The microbenchmark of the kernel's sheaves series. A repetition starts one process for each
allocator and row in turn (A B C ... A B C ...), so that a slow phase of the machine affects all.
Its sample is the median of that process's iterations without the first. Times are CPU time, which
other programs on the same CPU hardly affect.
"""
from __future__ import annotations

import statistics
from typing import Any

from sheaf_tool.stats import Estimate, has_interval, median, ratio
from sheaf_tool.table import beside, stacked

from ..allocators import CALLED, CPU_SLAB, KMALLOC, ONE_SIZE, OURS, SLAB_LAYER, STATIC_PEERS, peers, ready, versions
from ..document import Document
from ..seeds import (CHARGING, CHARGING_NO_SHEAF, NO_SHEAF_COST, NOT_MEASURED, SHEAVES, SHEAVES_GROUPS, better_by,
                     more_by, signed)
from ..svg import Bar, Panel, figure
from .cells import NOTHING, Cell, Part, cell, intervals, measure, ratio_cell, repetitions, whiskers
from .rates import kind
from .suite import Settings, Suite, Table, missing_lines
from .ways import called, ways

LINKED = (*CALLED, *KMALLOC, *STATIC_PEERS)  # measured in LINKED_ROWS only, for a table of their own
OTHERS = (*ONE_SIZE, SLAB_LAYER, *LINKED)
UNIT = "ns/pair"
PAIRS = 1_000_000
ITERATIONS = 11
# --quick: an allocator that is ten times slower than the others would take half of the time.
QUICK_ITERATIONS = {"no-sheaf": 4, SLAB_LAYER: 4}
ROWS = [(1, "fifo"), (10, "fifo"), (100, "fifo"), (1000, "fifo"),
        (10, "shuffled"), (100, "shuffled"), (1000, "shuffled")]
LINKED_ROWS = [row for row in ROWS if row[1] == "fifo"]
REPEAT = 15
QUICK_REPEAT = 7
QUICK_SECONDS = 54.0  # --quick begins no repetition that would end later
LEAST_REPEAT = 3


CHARGED = {"sheaf": "charged", "no-sheaf": "charged-no-sheaf"}  # variants


def _params(allocator: str, batch: int, order: str, groups: bool = False) -> dict[str, Any]:
    return {"allocator": allocator, "batch": batch, "order": order, "groups": groups}


def _iterations(name: str, quick: bool) -> int:
    return QUICK_ITERATIONS.get(name, ITERATIONS) if quick else ITERATIONS


def _arguments(batch: int, order: str, iterations: int) -> tuple[str, ...]:
    arguments = ("--batch", str(batch), "--pairs", str(PAIRS), "--iterations", str(iterations))
    return (*arguments, "--shuffled") if order == "shuffled" else arguments


def _keep(document: Document, params: dict[str, Any], lines: list[str]) -> None:
    document.result("batch", params, UNIT).samples.append(
        statistics.median(float(line) for line in lines))


def _run(settings: Settings, machine: dict[str, Any]) -> Document:
    workers, missing = ready("batch", settings.workers, OTHERS)
    iterations = {worker.name: _iterations(worker.name, settings.quick) for worker in workers}
    document = Document("batch", {**machine, "versions": versions(workers), "missing": missing,
                                  "iterations": iterations})
    found = [Cell(worker, _params(worker.name, *row), _arguments(*row, iterations[worker.name]), _keep)
             for row in ROWS for worker in workers if row in LINKED_ROWS or worker.name not in LINKED]
    found += [Cell(worker, _params(worker.name, *row, True),
                   (*_arguments(*row, iterations[worker.name]), "--variant", CHARGED[worker.name]), _keep)
              for row in ROWS for worker in workers if worker.name in CHARGED]
    measure(document, settings, [Part(found, REPEAT, QUICK_REPEAT, QUICK_SECONDS, LEAST_REPEAT, True)])
    return document


def _estimate(document: Document, allocator: str, row: tuple[int, str]) -> Estimate:
    return median(document.samples(UNIT, allocator=allocator, batch=row[0], order=row[1]))


def _shown(document: Document) -> list[str]:
    """The allocators of the tables of all rows."""
    return [name for name in document.allocators() if name not in LINKED]


def best_peer(document: Document, row: tuple[int, str]) -> str:
    return min(peers(document.allocators()),
               key=lambda name: _estimate(document, name, row).value)


def ratio_to(document: Document, other: str, row: tuple[int, str], one: str = OURS) -> Estimate:
    batch, order = row
    return ratio(document.samples(UNIT, allocator=one, batch=batch, order=order),
                 document.samples(UNIT, allocator=other, batch=batch, order=order))


def _time_rows(document: Document) -> list[list[str]]:
    """Two lines per row, so that eight allocators fit into a terminal."""
    return [[f"{batch}\n{order}", *(stacked(_estimate(document, name, (batch, order)))
                                    for name in _shown(document))]
            for batch, order in ROWS]


def _way_rows(document: Document) -> tuple[list[list[str]], list[list[str]]]:
    """Times, and ours over each in the same way."""
    times, ratios = [], []
    for way, ours, names in ways(document):
        for name in names:
            label = f"{name}\n{way}"
            found = [(document.samples(UNIT, **_params(ours, *row)), document.samples(UNIT, **_params(name, *row)))
                     for row in LINKED_ROWS]
            times.append([label, *(cell(one) for _, one in found)])
            if name not in (ours, *KMALLOC):
                ratios.append([label, *(ratio_cell(mine, one) for mine, one in found)])
    return times, ratios


WAY_HEADER = ["", *(f"batch\n{batch}" for batch, _ in LINKED_ROWS)]


def _way_tables(document: Document) -> list[Table]:
    if not set(CALLED) & set(document.allocators()):
        return []
    times, ratios = _way_rows(document)
    return [(f"ns per pair by the way of the call\n{intervals(document)}", WAY_HEADER, times),
            (f"sheaf over each, called in the same way\n{_what_ratios_are(document)}", WAY_HEADER, ratios)]


def _ratio_rows(document: Document) -> list[list[str]]:
    rows = []
    for row in ROWS:
        best = best_peer(document, row)
        rows.append([f"{row[0]} {row[1]}", best, beside(ratio_to(document, best, row)),
                     beside(ratio_to(document, "glibc", row)),
                     beside(ratio_to(document, "no-sheaf", row))])
    return rows


RATIO_HEADER = ["batch order", "best peer", "sheaf / it", "sheaf / glibc", "sheaf / no-sheaf"]


SEED_HEADER = ["batch order", "kernel:\nsheaves better", "here: better\nthan cpu-slab",
               "kernel: cost\nwithout sheaves", "here: no-sheaf\nover slab-layer"]


def _seed_rows(document: Document) -> list[list[str]]:
    """The kernel's percentages next to those of this run."""
    measured = document.allocators()
    rows = []
    for row in ROWS:
        better = cost = NOT_MEASURED
        if CPU_SLAB in measured:
            better = signed(better_by(ratio_to(document, CPU_SLAB, row)))
        if SLAB_LAYER in measured:
            cost = signed(more_by(ratio_to(document, SLAB_LAYER, row, "no-sheaf")))
        most = max(NO_SHEAF_COST.percent.values())
        said = f"+{most:.1f} %" if row[0] in NO_SHEAF_COST.percent else f"< +{most:.1f} %"
        rows.append([f"{row[0]} {row[1]}", f"+{SHEAVES.percent[row]:.1f} %", better, said, cost])
    return rows


CHARGED_HEADER = ["batch\norder", "sheaf", "charged", "no-sheaf", "charged"]
CHARGED_SEED_HEADER = ["batch order", "kernel: cost of\ncharging, sheaves", "here:\nsheaf", "kernel: without\nsheaves",
                       "here:\nno-sheaf", "kernel: sheaves\nbetter, charged", "here: better\nthan no-sheaf"]


def _charged(document: Document, allocator: str, row: tuple[int, str]) -> list[float]:
    return document.samples(UNIT, **_params(allocator, *row, True))


def _plain(document: Document, allocator: str, row: tuple[int, str]) -> list[float]:
    return document.samples(UNIT, **_params(allocator, *row))


def _charged_rows(document: Document) -> list[list[str]]:
    return [[f"{row[0]}\n{row[1]}", *(stacked(median(found(document, name, row)))
                                     for name in CHARGED for found in (_plain, _charged))]
            for row in ROWS]


def _charged_seed_rows(document: Document) -> list[list[str]]:
    rows = []
    for row in ROWS:
        costs = [signed(more_by(ratio(_charged(document, name, row), _plain(document, name, row)))) for name in CHARGED]
        better = signed(better_by(ratio(*(_charged(document, name, row) for name in CHARGED))))
        rows.append([f"{row[0]} {row[1]}", f"+{CHARGING.percent[row]:.1f} %", costs[0],
                     f"+{CHARGING_NO_SHEAF.percent[row]:.1f} %", costs[1],
                     f"+{SHEAVES_GROUPS.percent[row]:.1f} %", better])
    return rows


def _what_seeds_are() -> list[str]:
    return [f"Kernel: {SHEAVES.origin()}.",
            "Better: how much less time a pair takes with sheaves than with CPU slabs. "
            "cpu-slab is that older design (CPU slab, CPU partial list, node partial list) on "
            "this library's slab layer.",
            "Cost without sheaves: the slowdown of a cache without sheaves due to the code for sheaves. "
            "The kernel compares versions before and after that code was added; both had CPU slabs. "
            "Here every cache has the code. So no-sheaf, a cache made with SLAB_NO_SHEAVES, is "
            "compared with slab-layer, where the benchmark calls the slab layer directly.",
            "Charged: the kernel without sheaves has CPU slabs, where no-sheaf takes each object from its slab; so its "
            "pair costs more, and charging adds less of it."]


def _what_ratios_are(document: Document) -> str:
    n = repetitions(document)
    if has_interval(n):
        return "95 % interval by bootstrap over the repetitions"
    return f"bootstrap over {n} repetitions, too few for a 95 % interval"


def _notes(document: Document) -> list[str]:
    iterations = document.machine["iterations"]
    notes = [*_what_seeds_are(), "harness is the loop without an allocator.", *called(document),
             "kmalloc, kmalloc-static, kmalloc-shared: kmalloc and kfree, of the same library; kfree is always called.",
             f"A repetition is one process with {ITERATIONS} iterations of {PAIRS:,} pairs; the "
            "first is dropped.",
            "Its sample is the median of their CPU times."]
    notes += [f"{name} is slow: {n} iterations (--quick)."
              for name, n in iterations.items() if n != ITERATIONS]
    return notes + missing_lines(document.machine)


def _charged_tables(document: Document) -> list[Table]:
    if not all(_charged(document, name, ROWS[-1]) for name in CHARGED):
        return []
    return [("ns per pair, with each object charged to a group\n" + intervals(document), CHARGED_HEADER,
             _charged_rows(document)),
            (f"The kernel's percentages for charged objects next to ours\n{_what_ratios_are(document)}",
             CHARGED_SEED_HEADER, _charged_seed_rows(document))]


def _tables(document: Document) -> list[Table]:
    ratios = _what_ratios_are(document)
    return [("ns per pair of allocation and free of 64 bytes\n" + intervals(document),
             ["batch\norder", *_shown(document)], _time_rows(document)),
            (f"Ratios of those times; below 1 sheaves are faster\n{ratios}", RATIO_HEADER,
             _ratio_rows(document)),
            *_way_tables(document),
            (f"The kernel's percentages next to ours\n{ratios}", SEED_HEADER, _seed_rows(document)),
            *_charged_tables(document)]


def _pictures(document: Document) -> list[str]:
    panels = []
    for batch, order in ROWS:
        bars = []
        for name in _shown(document):
            found = _estimate(document, name, (batch, order))
            bars.append(Bar(name, found, kind(name)))
        column = 0 if order == "fifo" else 1
        place = [1, 10, 100, 1000].index(batch)
        ordered = "first in, first out" if order == "fifo" else "shuffled"
        panels.append(Panel(f"batch {batch}" + (f", freed {ordered}" if batch > 1 else ""),
                            column, place, bars))
    note = ["ns per pair of allocation and free; shorter is better.",
            whiskers(document),
            "A bar with a gap extends beyond the scale."]
    return [figure("ns per pair for each batch size, order and allocator", panels, UNIT, note)]


def _works(_: dict[str, Any], __: bool) -> list[tuple[str, tuple[str, ...]]]:
    return [(f"{batch}\n{order}", _arguments(batch, order, ITERATIONS))
            for batch, order in ROWS]


SUITE = Suite("batch", "allocate and free batches of 1, 10, 100, 1000 objects, in place and called",
              "One thread allocates N objects of 64 bytes, then frees them all: in the order "
              "of allocation, or shuffled. This is the microbenchmark of the kernel's sheaves "
              "series.",
              _run, _pictures, _tables, _notes, _works, OTHERS)
