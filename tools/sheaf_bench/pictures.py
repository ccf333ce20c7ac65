# SPDX-License-Identifier: MIT
"""The pictures of docs/performance.md, each made from one suite's results: SVG files."""
from __future__ import annotations

from math import inf
from typing import Callable, Sequence

from sheaf_tool.stats import median
from sheaf_tool.table import number

from . import sim_study
from .allocators import CPU_SLAB, HARNESS, OURS, peers
from .document import Document
from .suites import batch, cross, memory, rates, rcu_report, real, trim, windows
from .suites.cells import whiskers
from .svg import COLOURS, Bar, Line, LinePanel, Panel, bar_panels, line_panels, sheet

BATCHES = (100, 1000)
PAIRS_OF_THREADS = ((2, 64), (2, 256))  # threads, bytes
WRITERS = (("memb", 1), ("memb", 2))
ORDERS = ("in-order", "shuffled")


def _shortest_first(bars: Sequence[Bar]) -> list[Bar]:
    """The harness last: it is a bound, not an allocator."""
    return sorted(bars, key=lambda bar: (bar.kind == HARNESS, bar.estimate.value))


def one_thread(document: Document) -> str:
    panels = []
    for place, size in enumerate(BATCHES):
        shown = [OURS, CPU_SLAB, *peers(document.allocators()), HARNESS]
        bars = [Bar(name, median(found), rates.kind(name)) for name in shown
                if (found := document.samples(batch.UNIT, allocator=name, batch=size,
                                              order="fifo"))]
        panels.append(Panel(f"{size} objects allocated, then freed", 0, place,
                            _shortest_first(bars)))
    return sheet("One thread: ns per pair of allocation and free", bar_panels(panels, "ns"),
                 ["ns per allocation and free of 64 bytes on one CPU; shorter is better.",
                  "cpu-slab: the design before sheaves. harness: the loop alone.",
                  whiskers(document)])


def two_threads(document: Document) -> str:
    panels = []
    for place, (threads, size) in enumerate(PAIRS_OF_THREADS):
        view = rates.View(document, windows.UNIT,
                          {"pattern": cross.ONE_WAY, "threads": threads, "size": size})
        bars = rates.bars(view, [OURS, CPU_SLAB, *peers(document.allocators())])
        panels.append(Panel(f"objects of {size} bytes", 0, place,
                            sorted(bars, key=lambda bar: -bar.estimate.value)))
    return sheet("One CPU allocates, another frees: millions of objects per second",
                 bar_panels(panels, "M/s", longest=inf),
                 ["Millions of objects per second; longer is better.",
                  "cpu-slab: the design before sheaves.",
                  whiskers(document)])


def readers(document: Document) -> str:
    panels = []
    for place, config in enumerate(WRITERS):
        bars = []
        for entry in rcu_report.entries(document, rcu_report.CPU):
            found = rcu_report.net(document, rcu_report.CPU, entry, config)
            if found and entry["way"] in ("kfree_rcu", "call_rcu", "batch") and not entry["barn"]:
                kind = "ours" if entry["allocator"] == OURS else "peer"
                bars.append(Bar(rcu_report.label({key: value for key, value in entry.items()
                                                  if value}), median(found), kind))
        writers = f"{config[1]} writer{'s' * (config[1] > 1)}"
        panels.append(Panel(f"{writers}, one reader", 0, place, _shortest_first(bars)))
    return sheet("Objects freed after a grace period: CPU time for each",
                 bar_panels(panels, "ns"),
                 ["ns of CPU time for each object retired and allocated again, all threads; "
                  "shorter is better. call_rcu: one callback for each object. array: one for 64.",
                  whiskers(document)])


def bytes_left(document: Document) -> str:
    """A pool takes all of its memory at the start: a sentence says that better than a line."""
    others = [name for name in peers(document.allocators()) if name != rates.DPDK]
    kinds = {OURS: "ours", **{name: f"l{i % COLOURS}" for i, name in enumerate(others)}}
    panels = []
    for place, order in enumerate(ORDERS):
        lines = []
        for name in [*others, OURS]:  # ours above the others
            points, ends = memory.series(document, name, order)
            lines.append(Line(name, points, kinds[name], ends))
        panels.append(LinePanel(f"freed {memory.ORDERS[order]}", 0, place, lines))
    note = [f"Resident bytes for each of {document.machine['objects']:,} objects of 64 bytes, over "
            "time. Dots: all allocated, all freed, after a pause, after the call that trims."]
    if rates.DPDK in document.allocators():
        taken = memory.resident(document, rates.DPDK, ORDERS[0], "grow").value
        note.append(f"Not drawn: dpdk, whose pool has {number(taken)} bytes per object throughout.")
    return sheet("Resident memory while objects come and go",
                 line_panels(panels, ("s", "bytes per object")), note)


def going_back(document: Document) -> str:
    return sheet("Resident memory after most was freed, and after all", line_panels(trim.panels(document), ("s", "MiB")),
                 trim.caption(document))


def programs(document: Document) -> str:
    return sheet("Existing programs: CPU time and memory, of glibc's", line_panels(real.panels(document), real.AXES), real.CAPTION)


# File: suite, picture.
PICTURES: dict[str, tuple[str, Callable[[Document], str]]] = {
    "one-thread": ("batch", one_thread),
    "two-threads": ("cross", two_threads),
    "readers": ("rcu", readers),
    "memory": ("memory", bytes_left),
    "trim": ("trim", going_back),
    "malloc": ("real", programs),
    "scale-model": ("sim-scale", sim_study.curves),
}
