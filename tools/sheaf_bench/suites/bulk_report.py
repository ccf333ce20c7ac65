# SPDX-License-Identifier: MIT
"""The results of suite `bulk`: its tables, its pictures, and their arithmetic."""
from __future__ import annotations

from typing import Any

from sheaf_tool.stats import Estimate, median, ratio

from ..allocators import CALLED, CPU_SLAB, HARNESS, OURS, SLAB_LAYER, peers
from ..document import Document
from ..seeds import DEFERRED, better_by
from ..svg import Bar, Panel, figure
from . import cells
from .cells import NOTHING, cell, intervals, notes as failed_and_missing, ratio_cell
from .rates import kind
from .suite import Table
from .ways import called

UNIT = "ns/object"
FAULTS = "faults/object"
PARTS = ("transfer", "slab", "single")
TRANSFERS = (10, 32, 60, 100)  # 60: a sheaf, as it is refilled and flushed
CAPACITIES = (0, 256)  # 0: the library's choice
SIZES = (16, 32, 64, 128, 256, 512)
SLAB_OBJECTS = {16: 256, 32: 128, 64: 64, 128: 32, 256: 32, 512: 32}  # the kernel's benchmark's
TOUCHES = {"none": "not touched", "first": "first byte written", "whole": "all bytes written"}
# What part `slab` compares besides the peers, with the params of each. The baseline builds a freelist;
# the library has a bit for each object, and hands objects out in order or in random order.
KINDS: dict[str, dict[str, Any]] = {
    "in order": {"allocator": OURS, "random": False},
    "random": {"allocator": OURS, "random": True},
    "deferred": {"allocator": CPU_SLAB, "freelist": "deferred"},
    "built first": {"allocator": CPU_SLAB, "freelist": "built first"},
}
SHORT = {"in order": OURS, "random": "sheaf, random", "deferred": CPU_SLAB,
         "built first": "built first"}  # as wide as a bar's label may be
HUGE = 2 << 20


def found(document: Document, **params: Any) -> list[float]:
    return document.samples(UNIT, **params)


def slab_samples(document: Document, size: int, kind: str, faulted: bool) -> list[float]:
    return found(document, part="slab", size=size, faulted=faulted, **KINDS[kind])


def gain(document: Document, size: int, faulted: bool) -> Estimate | None:
    """Percent of time that the baseline saves by deferring the freelist."""
    deferred, built = (slab_samples(document, size, kind, faulted)
                       for kind in ("deferred", "built first"))
    return better_by(ratio(deferred, built)) if deferred and built else None


def best(document: Document, **params: Any) -> str | None:
    """The peer with the smallest median."""
    return cells.best({name: found(document, allocator=name, **params)
                       for name in peers(document.allocators())})


def not_kept(document: Document) -> list[str]:
    """Allocators whose second round faulted at least half of its memory again, even by huge pages: they
    returned the memory, or took other memory."""
    missed = {result.params["allocator"] for result in document.results
              if result.unit == FAULTS and result.params["part"] == "slab"
              and result.params["faulted"]
              and median(result.samples).value > result.params["size"] / HUGE / 2}
    return [name for name in document.allocators() if name in missed]


TRANSFER_HEADER = ["", *(f"{n} objects" for n in TRANSFERS),
                   *(f"sheaf / this\n{n} objects" for n in TRANSFERS),
                   *(f"sheaf 256 / this\n{n}" for n in TRANSFERS)]


def transfer_rows(document: Document) -> list[list[str]]:
    def of(name: str, capacity: int, objects: int) -> list[float]:
        return found(document, part="transfer", allocator=name, objects=objects,
                     capacity=capacity or "default")

    rows = []
    for name in document.allocators():
        for capacity in CAPACITIES:
            samples = [of(name, capacity, n) for n in TRANSFERS]
            if not any(samples):
                continue
            label = f"{name}\ncapacity {capacity}" if capacity else name
            row = [label, *map(cell, samples)]
            for ours in CAPACITIES:
                row += [NOTHING if name in (OURS, *CALLED, SLAB_LAYER, HARNESS)
                        else ratio_cell(of(OURS, ours, n), theirs)
                        for n, theirs in zip(TRANSFERS, samples)]
            rows.append(row)
    return rows


SLAB_HEADER = ["size", "objects\nof a slab", "sheaf", "sheaf,\nrandom", "cpu-slab:\nbuilt first",
               "cpu-slab:\ndeferred", "sheaf /\ndeferred", "cpu-slab:\nsaved %", "kernel:\nsaved"]


def _percent(estimate: Estimate | None) -> str:
    return f"{estimate.value:.1f}\n{estimate.low:.1f}–{estimate.high:.1f}" if estimate else NOTHING


def slab_rows(document: Document, faulted: bool) -> list[list[str]]:
    def of(kind: str, size: int) -> list[float]:
        return slab_samples(document, size, kind, faulted)

    return [[str(size), str(SLAB_OBJECTS[size]),
             *(cell(of(kind, size)) for kind in ("in order", "random", "built first", "deferred")),
             ratio_cell(of("in order", size), of("deferred", size)),
             _percent(gain(document, size, faulted)),
             f"{DEFERRED.percent[size]:.1f}" if faulted else NOTHING] for size in SIZES]


def sizes_of(document: Document, part: str, **params: Any) -> list[int]:
    return [size for size in SIZES if found(document, part=part, size=size, **params)]


def size_header(document: Document, part: str) -> list[str]:
    return ["", *(f"{size}" for size in sizes_of(document, part))]


def peer_rows(document: Document, part: str, **params: Any) -> list[list[str]]:
    """A row for each allocator, and ours over the best peer and over no allocator."""
    def of(name: str, size: int) -> list[float]:
        fixed = {OURS: KINDS["in order"], CPU_SLAB: KINDS["deferred"]}.get(name, {})
        return found(document, part=part, size=size, **{"allocator": name, **params,
                                                        **(fixed if part == "slab" else {})})

    sizes = sizes_of(document, part)
    names = [name for name in document.allocators() if any(of(name, size) for size in sizes)]
    rows = [[name, *(cell(of(name, size)) for size in sizes)] for name in names]
    bests = [best(document, part=part, size=size, **params) for size in sizes]
    rows.append(["best peer", *(name or NOTHING for name in bests)])
    rows.append(["sheaf / best peer",
                 *(ratio_cell(of(OURS, size), of(name, size)) if name else NOTHING
                   for name, size in zip(bests, sizes))])
    if HARNESS in names:
        rows.append(["sheaf / harness", *(ratio_cell(of(OURS, size), of(HARNESS, size))
                                          for size in sizes)])
    return rows


def notes(document: Document) -> list[str]:
    total = document.machine["slab_total"] >> 20
    said = [f"Kernel: {DEFERRED.origin()}. Slabs have as many objects as in the kernel's "
             "benchmark (slab_min_objects=20).",
             "cpu-slab is the design before sheaves. It links a new slab's objects into a freelist: all of "
             "them before the array is filled (built first), or only the rest, afterwards (deferred). "
             "libsheaf has no freelist to build. random: slab_freelist_random.",
             f"Memory faulted before: {total} MiB were allocated, touched and freed first, with settings "
             "that make allocators keep freed memory. The measured round takes new slabs from this "
             "memory and touches nothing. New memory: a first round, in memory that was never used.",
             "Pools (dpdk) take all of their memory at the start, so they are omitted there.",
             "Transfer: mallocs are called in a loop; harness copies pointers; slab-layer is the "
             "part of libsheaf that refills and flushes sheaves. One by one: harness is "
             "no allocator; it hands out one address after another, in memory that is aligned to "
             "huge pages and advised to use them."]
    if missed := not_kept(document):
        said.append("Page faults in memory that should have been faulted before, so not comparable: "
                     + ", ".join(missed) + ".")
    said += [f"{line} Calls on arrays are calls in all of them." for line in called(document)]
    return [*said, *failed_and_missing(document)]


def tables(document: Document) -> list[Table]:
    slab, single = intervals(document, "slab"), intervals(document, "single")
    shown = [("ns to allocate and free an object of 64 bytes, in arrays\n"
              + intervals(document, "transfer"), TRANSFER_HEADER, transfer_rows(document))]
    for faulted in (True, False):
        memory = "memory faulted before" if faulted else "new memory"
        shown.append((f"ns per object, arrays of one new slab's objects, {memory}\n{slab}",
                      SLAB_HEADER, slab_rows(document, faulted)))
    shown.append(("ns per object, the same arrays, memory faulted before: every allocator; by size\n"
                  + slab, size_header(document, "slab"), peer_rows(document, "slab", faulted=True)))
    mib = document.machine["single_total"] >> 20
    for touch, meaning in TOUCHES.items():
        if sizes_of(document, "single", touch=touch):  # a quick run has not all
            shown.append((f"ns per object, {mib} MiB of new memory one by one, {meaning}; by size\n"
                          + single, size_header(document, "single"),
                          peer_rows(document, "single", touch=touch)))
    return shown


def _bars(document: Document, **params: Any) -> list[Bar]:
    return [Bar(name, median(samples), kind(name)) for name in document.allocators()
            if (samples := found(document, allocator=name, **params))]


def _transfer_picture(document: Document) -> str:
    panels = []
    shown = [n for n in TRANSFERS if found(document, part="transfer", allocator=OURS, objects=n)]
    for place, n in enumerate(shown):
        bars = _bars(document, part="transfer", objects=n, capacity="default")
        wide = found(document, part="transfer", allocator=OURS, objects=n, capacity=CAPACITIES[1])
        if wide:
            bars.insert(1, Bar(f"sheaf {CAPACITIES[1]}", median(wide), "variant"))
        panels.append(Panel(f"{n} objects of 64 bytes as one array", place % 2, place // 2, bars))
    return figure("ns per object allocated and freed", panels, "ns",
                  ["ns per object allocated and freed in arrays; shorter is better."])


def _slab_picture(document: Document) -> str:
    panels = []
    for i, size in enumerate(SIZES):
        bars = [Bar(SHORT[kind], median(samples), "ours" if kind == "in order" else "variant")
                for kind in KINDS if (samples := slab_samples(document, size, kind, True))]
        bars += [bar for bar in _bars(document, part="slab", size=size, faulted=True)
                 if bar.label not in (OURS, CPU_SLAB)]
        panels.append(Panel(f"{SLAB_OBJECTS[size]} objects of {size} bytes", i % 2, i // 2, bars))
    return figure("ns per object of new slabs, memory faulted before", panels, "ns",
                  ["ns per object of new slabs, memory faulted before. random: slab_freelist_random;",
                   "cpu-slab: the freelist built after the array; built first: before it."])


def _single_pictures(document: Document) -> list[str]:
    """Each size on its own scale: the cost depends on the size."""
    return [figure(f"ns per object of {size} bytes from new memory",
                   [Panel(f"{size} bytes, {TOUCHES[touch]}", column, 0,
                          _bars(document, part="single", size=size, touch=touch))
                    for column, touch in enumerate(("none", "first"))], "ns",
                   [f"ns per object of {size} bytes, one by one from new memory."])
            for size in sizes_of(document, "single")]


def pictures(document: Document) -> list[str]:
    return [_transfer_picture(document), _slab_picture(document), *_single_pictures(document)]
