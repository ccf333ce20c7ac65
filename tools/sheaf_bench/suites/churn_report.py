# SPDX-License-Identifier: MIT
"""The results of suite `churn`: its tables, its pictures, and the best peers."""
from __future__ import annotations

from typing import Any, Mapping

from sheaf_tool.stats import median

from ..allocators import HARNESS, OURS, peers
from ..document import Document
from ..svg import Bar, Panel, figure
from . import cells
from .cells import NOTHING, cell, notes as failed_and_missing, ratio_cell, whiskers
from .rates import kind
from .suite import Table

UNIT = "ns/object"
FAULTS = "faults/1000 objects"
BYTES = "bytes/object"
KEPT = f"{OURS} keep"
# By size: 64 MiB, more than most CPUs' caches; and 512 MiB, a large heap.
OBJECTS = {16: 4 << 20, 64: 1 << 20, 128: 1 << 19, 512: 1 << 20}
QUICK_OBJECTS = {**OBJECTS, 512: 1 << 18}
ORDERS = {"in-order": "freed in the order of allocation", "reverse": "freed in reverse order",
          "shuffled": "freed in random order", "half": "half of them freed, in random order",
          "exchange": "two threads, each frees what the other allocated"}
PHASES = {"free": "freed", "again": "allocated again"}
MOMENTS = {"freed": "at once", "later": "later", "worked": "worked"}

Params = Mapping[str, Any]


def label(params: Params) -> str:
    return KEPT if params["kept"] else params["allocator"]


def who(document: Document) -> dict[str, dict[str, Any]]:
    """The params of each entry, by its label, in the order of measurement."""
    keys = ("allocator", "kept")
    return {label(one.params): {key: one.params[key] for key in keys} for one in document.results}


def times(document: Document, name: str, order: str, size: int, phase: str,
          unit: str = UNIT) -> list[float]:
    return document.samples(unit, **who(document).get(name, {"allocator": name}), part="times",
                            order=order, size=size, phase=phase)


def resident(document: Document, name: str, order: str, size: int, moment: str) -> list[float]:
    return document.samples(BYTES, **who(document)[name], part="memory", order=order, size=size,
                            moment=moment)


def best(document: Document, order: str, size: int, phase: str) -> str | None:
    names = [name for name in peers(list(who(document))) if name != KEPT]
    return cells.best({name: times(document, name, order, size, phase) for name in names})


RATIO_HEADER = ["", "bytes", "best peer", f"{OURS} / it", f"{KEPT} / it"]


def ratio_rows(document: Document, phase: str) -> list[list[str]]:
    rows = []
    for order in ORDERS:
        for size in OBJECTS:
            peer = best(document, order, size, phase)
            rows.append([order, str(size), peer or NOTHING,
                         *(ratio_cell(times(document, name, order, size, phase),
                                      times(document, peer, order, size, phase)) if peer else NOTHING
                           for name in (OURS, KEPT))])
    return rows


HEADER = ["", "freed\nns", "allocated\nagain, ns", "faults,\nfreed", "faults,\nagain",
          *(f"resident\n{meaning}" for meaning in MOMENTS.values())]


def rows(document: Document, order: str, size: int) -> list[list[str]]:
    return [[name, *(cell(times(document, name, order, size, phase, unit))
                     for unit in (UNIT, FAULTS) for phase in PHASES),
             *(cell(resident(document, name, order, size, moment)) for moment in MOMENTS)]
            for name in who(document)]


def _repetitions(document: Document, part: str) -> int:
    return max((len(one.samples) for one in document.results if one.params["part"] == part), default=0)


def tables(document: Document) -> list[Table]:
    shown = [(f"{what}: ratios of the times; below 1 sheaves are faster", RATIO_HEADER,
              ratio_rows(document, phase)) for phase, what in PHASES.items()]
    for order, meaning in ORDERS.items():
        for size in OBJECTS:
            count = document.machine["objects"][str(size)]
            shown.append((f"{count:,} objects of {size} bytes, {meaning}", HEADER,
                          rows(document, order, size)))
    return shown


def notes(document: Document) -> list[str]:
    return [f"Medians of {_repetitions(document, 'times')} interleaved repetitions for times, of "
            f"{_repetitions(document, 'memory')} for memory; with six or more the 95 % interval, "
            "else their range.",
            "ns of CPU time for each object freed or allocated. Allocated again: with a byte written to "
            "each. Faults: page faults for 1000 objects. All include the loop, which reads the "
            "objects' addresses from an array, in random order where frees are in random order. "
            "harness is the loop alone, on consecutive objects.",
            "Resident: bytes for each object, without the benchmark's own arrays: right after the frees; "
            f"{document.machine['idle_ms'] / 1000:g} s and one more free later; and after a hundredth "
            "as many objects were allocated and freed again. Where half of the objects are freed, the "
            "other half counts, too. A quick run has fewer objects of 512 bytes.",
            f"{KEPT}: {OURS} returns no free memory (decay=never). Peers have their default settings. Pools (dpdk) take "
            "all of their memory at the start, so they are omitted.",
            *failed_and_missing(document)]


def _time_picture(document: Document, size: int) -> str:
    """Each size on its own scale: the cost depends on the size."""
    panels = []
    for row, (order, meaning) in enumerate(ORDERS.items()):
        for column, (phase, what) in enumerate(PHASES.items()):
            bars = [Bar(name, median(found), "variant" if name == KEPT else kind(name))
                    for name in who(document)
                    if (found := times(document, name, order, size, phase))]
            title = f"{meaning}" if phase == "free" else f"{what}"
            panels.append(Panel(title, column, row, bars))
    return figure(f"ns per object of {size} bytes, freed and allocated again", panels, "ns",
                  [f"ns per object of {size} bytes. Left: freed. Right: allocated again and touched "
                   "after that. Shorter is better.", whiskers(document)])


def _memory_picture(document: Document) -> str:
    shown = [(order, size) for order in ("in-order", "shuffled") for size in OBJECTS
             if resident(document, OURS, order, size, "freed")]
    panels = []
    for row, (order, size) in enumerate(shown):
        for column, moment in enumerate(("freed", "worked")):
            bars = [Bar(name, median(found), "variant" if name == KEPT else kind(name))
                    for name in who(document) if name != HARNESS
                    if (found := resident(document, name, order, size, moment))]
            panels.append(Panel(f"{size} bytes, {order}, {MOMENTS[moment]}", column, row, bars))
    return figure("resident bytes per object after all were freed", panels, "bytes",
                  ["Resident bytes per object. Left: after all were freed. Right: "
                   f"{document.machine['idle_ms'] / 1000:g} s idle, and some more work."])


def pictures(document: Document) -> list[str]:
    return [*(_time_picture(document, size) for size in OBJECTS), _memory_picture(document)]
