# SPDX-License-Identifier: MIT
"""The common part of suites with many threads: entries, rates by windows.py, ratios to peers.

An allocator that fails at a row is left out of that row, and reported; ours must not fail.
"""
from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Callable, Mapping, Sequence

from sheaf_tool.stats import Estimate, median, ratio
from sheaf_tool.table import stacked

from ..allocators import CALLED, CPU_SLAB, HARNESS, INLINE, MEMPOOL, OURS, SLAB_LAYER, Worker, peers
from ..document import Document
from ..svg import Bar
from . import cells
from .cells import NOTHING
from .suite import Settings

NO_SHEAF = "no-sheaf"
DPDK = "dpdk"
CAPACITY = 256  # of the variant of ours
WIDE = f"{OURS} {CAPACITY}"
POOLED = f"{OURS} {MEMPOOL}"  # the variant with memory pools
VARIANTS = (WIDE, POOLED)
LEAST_REPEAT = 3

Params = dict[str, Any]


@dataclass(frozen=True)
class Entry:
    """One allocator, or a variant of ours, as it is measured."""

    worker: Worker
    arguments: tuple[str, ...]
    params: Mapping[str, Any]

    @property
    def label(self) -> str:
        return label(self.params)


def label(params: Mapping[str, Any]) -> str:
    if params.get(MEMPOOL):
        return POOLED
    capacity = params.get("capacity")
    return f"{params['allocator']} {capacity}" if capacity else params["allocator"]


def entries(workers: Sequence[Worker]) -> list[Entry]:
    found = []
    for worker in workers:
        if worker.name == MEMPOOL:
            found.append(Entry(worker, (), {"allocator": OURS, MEMPOOL: True}))
            continue
        found.append(Entry(worker, (), {"allocator": worker.name}))
        if worker.name == OURS:
            found.append(Entry(worker, ("--capacity", str(CAPACITY)),
                               {"allocator": worker.name, "capacity": CAPACITY}))
    return found


@dataclass(frozen=True)
class Row:
    """One measurement of every entry."""

    name: str  # for people
    arguments: tuple[str, ...]
    params: Mapping[str, Any]
    keep: Callable[[Document, Params, list[str]], None]  # the worker's lines, as samples


def measure(document: Document, settings: Settings, rows: Sequence[Row], found: Sequence[Entry],
            repeat: int, quick_repeat: int, quick_seconds: float,
            takes: Callable[[Entry, Row], bool] = lambda _, __: True) -> None:
    """Interleaved: a repetition is every row of every entry that takes part in it."""
    work = [cells.Cell(entry.worker, {**entry.params, **row.params},
                       (*row.arguments, *entry.arguments), row.keep, f"{entry.label}, {row.name}")
            for row in rows for entry in found if takes(entry, row)]
    cells.measure(document, settings,
                  [cells.Part(work, repeat, quick_repeat, quick_seconds, LEAST_REPEAT)])


def samples(document: Document, unit: str, params: Mapping[str, Any]) -> list[float]:
    """The samples of exactly these params (variants have more); empty if there is no result."""
    for result in document.results:
        if (result.unit, result.params) == (unit, params):
            return result.samples
    return []


class View:
    """The results of one unit at one row, by label."""

    def __init__(self, document: Document, unit: str, row: Mapping[str, Any]) -> None:
        self.samples = {}
        for entry in who(document):
            found = samples(document, unit, {**entry, **row})
            if found:
                self.samples[label(entry)] = found

    def estimate(self, name: str) -> Estimate | None:
        return median(self.samples[name]) if name in self.samples else None

    def best(self, choose: Callable[..., str] = max) -> str | None:
        """The best peer: the one with the highest rate or, with min, the smallest size."""
        names = [name for name in peers(list(self.samples)) if name not in VARIANTS]
        return choose(names, key=lambda name: median(self.samples[name]).value, default=None)

    def ratio(self, ours: str, other: str | None) -> Estimate | None:
        """Also None if the other made no progress: then there is no ratio."""
        if other is None or ours not in self.samples or min(self.samples.get(other, [0])) <= 0:
            return None
        return ratio(self.samples[ours], self.samples[other])


def who(document: Document) -> list[Params]:
    """The params of each entry, in the order of measurement."""
    keys = ("allocator", "capacity", MEMPOOL)
    found: list[Params] = []
    for result in document.results:
        entry = {key: result.params[key] for key in keys if key in result.params}
        if entry not in found:
            found.append(entry)
    return found


def labels(document: Document) -> list[str]:
    return [label(entry) for entry in who(document)]


def cell(estimate: Estimate | None) -> str:
    return stacked(estimate) if estimate else NOTHING


def rate_rows(views: Sequence[View], names: Sequence[str]) -> list[list[str]]:
    """A line for each entry, a column for each view."""
    return [[name, *(cell(view.estimate(name)) for view in views)] for name in names]


def ratio_header(document: Document, first: str) -> list[str]:
    header = [first, "best peer", f"{OURS} /\nbest peer", f"{WIDE} /\nbest peer"]
    known = labels(document)
    return header + [f"{OURS} /\n{other}" for other in _others(known)] + ["by means,\nbest peer"]


def _others(known: Sequence[str]) -> list[str]:
    return [other for other in (CPU_SLAB, DPDK, NO_SHEAF, POOLED) if other in known]


def ratio_row(document: Document, title: str, view: View, means: View) -> list[str]:
    best = view.best()
    cells = [title, best or NOTHING, cell(view.ratio(OURS, best)), cell(view.ratio(WIDE, best))]
    cells += [cell(view.ratio(OURS, other)) for other in _others(labels(document))]
    return cells + [cell(means.ratio(OURS, means.best()))]


def notes(document: Document) -> list[str]:
    lines = ["A repetition is one process. Its sample is the rate of its upper-decile window: "
             "nine tenths of the windows were not faster. A window lasts 3 ms, or 20 ms with "
             "more threads than CPUs. By means: the same ratio of the plain means over all "
             "windows.",
             f"harness is the loop without an allocator; {WIDE} is sheaf with sheaf_capacity "
             f"{CAPACITY}."]
    if POOLED in labels(document):
        lines.append(f"{POOLED}: every object goes through a memory pool on top of the cache.")
    return lines + cells.notes(document)


def kind(name: str) -> str:
    """The kind of a bar in the picture."""
    if name in (WIDE, POOLED, *CALLED, INLINE, NO_SHEAF, CPU_SLAB, SLAB_LAYER):
        return "variant"
    return name if name == HARNESS else "ours" if name == OURS else "peer"


def bars(view: View, names: Sequence[str]) -> list[Bar]:
    found = [(name, view.estimate(name)) for name in names]
    return [Bar(name, estimate, kind(name)) for name, estimate in found if estimate]
