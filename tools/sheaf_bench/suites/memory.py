# SPDX-License-Identifier: MIT
"""Suite `memory`: resident bytes while objects come and go.

Many objects of 64 bytes are allocated and touched, and all or most of them are freed in one of several
orders. Then the program idles. Then one more object is freed, and some are allocated and freed, because
libraries return memory only when they are called. Finally each library is asked to return memory, by its
own call if it has one. The benchmark's own arrays are resident from the beginning and do not count.
"""
from __future__ import annotations

from typing import Any

from sheaf_tool.stats import Estimate, median
from sheaf_tool.table import stacked

from ..allocators import ONE_SIZE, OURS, peers, ready, versions
from ..document import Document
from ..svg import COLOURS, Line, LinePanel, line_figure
from .cells import Cell, Part, intervals, measure
from .suite import IDLE, Settings, Suite, Table, missing_lines

BYTES = "bytes/object"
SECONDS = "s"
OBJECTS = 10_000_000
QUICK_OBJECTS = 2_000_000
REPEAT = 6
QUICK_REPEAT = 3
QUICK_SECONDS = 150.0
ORDERS = {"in-order": "in the order of allocation", "reverse": "in reverse order",
          "shuffled": "in random order", "every-second": "every other one first, then the rest"}
MOST = "most"
PERCENT = 95  # of the objects that MOST frees
PHASES = ("grow", "free", "idle", "further", "work", "trim")
TIMED = PHASES[:2]


def record(document: Document, params: dict[str, Any], lines: list[str]) -> None:
    """One process's lines: phase, the completed part of it, seconds, resident bytes."""
    objects = document.machine["objects"]
    ends: dict[str, float] = {}
    for line in lines:
        phase, done, seconds, resident = line.split()
        point = {**params, "phase": phase, "at": float(done)}
        document.result("resident", point, BYTES).samples.append(int(resident) / objects)
        ends[phase] = float(seconds)
    began = 0.0
    for phase in ends:
        taken = {**params, "phase": phase}
        seconds = ends[phase] - began
        if phase == "idle":
            seconds += document.machine["idle_ms"] / 1000
        document.result("time", taken, SECONDS).samples.append(seconds)
        began = ends[phase]


def _arguments(order: str, objects: int, idle: int = IDLE) -> tuple[str, ...]:
    how = ("shuffled", "--percent", str(PERCENT)) if order == MOST else (order,)
    return ("--objects", str(objects), "--idle", str(idle), "--order", *how)


def _run(settings: Settings, machine: dict[str, Any]) -> Document:
    found, missing = ready("memory", settings.workers, ONE_SIZE)
    wanted = [OURS, *peers([worker.name for worker in found])]
    workers = [worker for worker in found if worker.name in wanted]
    objects = QUICK_OBJECTS if settings.quick else OBJECTS
    document = Document("memory", {**machine, "versions": versions(workers), "missing": missing,
                                   "objects": objects, "idle_ms": IDLE})
    cells = [Cell(worker, {"allocator": worker.name, "order": order},
                  _arguments(order, objects), record)
             for order in (*ORDERS, MOST) for worker in workers]
    measure(document, settings, [Part(cells, REPEAT, QUICK_REPEAT, QUICK_SECONDS, all_needed=True)])
    return document


def resident(document: Document, name: str, order: str, phase: str, at: float = 1.0) -> Estimate:
    return median(document.samples(BYTES, allocator=name, order=order, phase=phase, at=at))


def phases(document: Document, order: str) -> list[str]:
    """Those that were measured."""
    found = {result.params["phase"] for result in document.results if result.params["order"] == order}
    return [phase for phase in PHASES if phase in found]


def series(document: Document, name: str, order: str) -> tuple[list[tuple[float, float]], list[int]]:
    """Seconds and bytes per object, medians; and the points that end a phase."""
    points: list[tuple[float, float]] = []
    ends: list[int] = []
    begin = 0.0
    by_phase: dict[str, list[tuple[float, float]]] = {phase: [] for phase in PHASES}
    for result in document.results:
        params = result.params
        if result.unit == BYTES and (params["allocator"], params["order"]) == (name, order):
            by_phase[params["phase"]].append((params["at"], median(result.samples).value))
    for phase in phases(document, order):
        lasted = median(document.samples(SECONDS, allocator=name, order=order, phase=phase)).value
        points += [(begin + at * lasted, found) for at, found in sorted(by_phase[phase])]
        begin += lasted
        ends.append(len(points) - 1)
    return points, ends


MEANINGS = {"grow": "all\nallocated", "free": "freed", "idle": "after\nidling",
            "further": "one\nmore free", "work": "after\nsome work", "trim": "after\ntrimming"}


def header(document: Document, order: str) -> list[str]:
    return ["", *(MEANINGS[phase] for phase in phases(document, order)), "allocation\nns", "free\nns"]


def rows(document: Document, order: str) -> list[list[str]]:
    objects = document.machine["objects"]
    table = []
    for name in document.allocators():
        times = [median([seconds / objects * 1e9 for seconds in
                         document.samples(SECONDS, allocator=name, order=order, phase=phase)]) for phase in TIMED]
        table.append([name, *(stacked(resident(document, name, order, phase))
                              for phase in phases(document, order)), *map(stacked, times)])
    return table


def _notes(document: Document) -> list[str]:
    objects, idle = document.machine["objects"], document.machine["idle_ms"]
    notes = [f"{objects:,} objects of 64 bytes, each byte written; "
             f"{intervals(document)}.",
             "Resident is Rss plus Swap less LazyFree of smaps_rollup, less what was resident "
             "before the allocator's first use and less the benchmark's own arrays.",
             f"Idling: {idle / 1000:g} s without a call. Some work: a hundredth as many objects as were "
             "freed are allocated and freed. Trimming: sheaf_trim, "
             "malloc_trim, or the library's own call. Times are CPU time and include page "
             "faults."]
    if "dpdk" in document.allocators():
        notes.append("dpdk's pool has room for the next power of two less one, and takes all of its "
                     "memory at the start.")
    return notes + missing_lines(document.machine)


def _tables(document: Document) -> list[Table]:
    shown = {**{order: f"freed {meaning}" for order, meaning in ORDERS.items()},
             MOST: f"{PERCENT} % of them freed, in random order; bytes for each of all"}
    return [(f"resident bytes per object, {meaning}", header(document, order), rows(document, order))
            for order, meaning in shown.items() if phases(document, order)]


def _pictures(document: Document) -> list[str]:
    others = [name for name in document.allocators() if name != OURS]
    kinds = {OURS: "ours", **{name: f"l{i % COLOURS}" for i, name in enumerate(others)}}
    panels = []
    for i, (order, meaning) in enumerate(ORDERS.items()):
        lines = []
        for name in [*others, OURS]:  # ours above the others
            points, ends = series(document, name, order)
            lines.append(Line(name, points, kinds[name], ends))
        panels.append(LinePanel(f"freed {meaning}", i % 2, i // 2, lines))
    note = ["Resident bytes per object over time (CPU time, then wall-clock time while idle).",
            "Dots: " + ", ".join(MEANINGS[phase].replace("\n", " ")
                                for phase in phases(document, "in-order")) + ".",
            "A line at the upper edge continues above it."]
    return [line_figure("resident bytes per object over time", panels, ("s", "bytes per object"),
                        note)]


def _works(_: dict[str, Any], __: bool) -> list[tuple[str, tuple[str, ...]]]:
    return [(order, _arguments(order, QUICK_OBJECTS, 1)) for order in ORDERS]


SUITE = Suite("memory", "resident size while objects are allocated, freed, left alone and trimmed",
              "Objects of 64 bytes are allocated and written, then freed in one of four "
              "orders, or most of them; then left alone for a while. One more is freed, some are "
              "allocated and freed; finally each library is asked to return memory.",
              _run, _pictures, _tables, _notes, _works, ONE_SIZE)
