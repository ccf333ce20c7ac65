# SPDX-License-Identifier: MIT
"""Tables and pictures of the suite `maple`: ours against the best rival, and every figure."""
from __future__ import annotations

import functools
from typing import Any, Sequence

from sheaf_tool.stats import median, ratio
from sheaf_tool.table import beside, number

from ..allocators import HARNESS, OURS
from ..document import Document
from ..logchart import Curve, LogPanel, log_figure
from ..svg import COLOURS
from .cells import NOTHING, cell, intervals, notes as failed_and_missing
from .maple_counts import count_rows, sizes, type_rows
from .maple_elsewhere import ELSEWHERE, RATES, Elsewhere
from .suite import Table
Rows = list[list[str]]

NO_RCU, KERNEL_RULES = "sheaf-no-rcu", "sheaf-kernel-rules"
NAMES = {OURS: "sheaf", NO_RCU: "sheaf, RCU off", "map-start": "map by start",
         "map-end": "map by end", "btree-start": "btree by start", "btree-end": "btree by end",
         "judy": "JudyL", "rbtree": "rbtree", HARNESS: "harness (array)"}
WORKLOADS = {
    "load-random": "load: random address in a random range, ns",
    "load-chain": "load: each address needs the result before, ns",
    "load-same": "load: the same address 64 times, ns",
    "load-same-chain": "load: the same address 64 times, each needs the result before, ns",
    "load-miss": "load: an address in a gap, ns",
    "store-random": "store: random order, with gaps, ns",
    "store-ascending": "store: adjacent, ascending, ns",
    "store-adjacent": "store: adjacent, random order, ns",
    "pair-random": "unmap + map at random places, ns per pair",
    "pair-same": "unmap + map, the same place 256 times, ns per pair",
    "iterate": "iteration over all ranges, ns per range",
    "gap-near": "gap search from the top: the first gap, ns",
    "gap-one": "gap search from the top: one gap fits, in the middle, ns",
    "gap-below": "gap search from the top: below all ranges, ns",
    "gap-varied": "gap search from the top: gaps and sizes of all kinds, ns",
    "dup": "duplicate, ns per range",
    "dup-replace": "duplicate and replace every entry (fork), ns per range",
    "dup-store": "duplicate, then store every entry one by one, ns per range",
    "bytes-random": "bytes per range: stored in random order, with gaps",
    "bytes-ascending": "bytes per range: ascending, with gaps",
    "bytes-adjacent": "bytes per range: ascending, adjacent",
}
RACE = {"lookups": "lookups next to a writer, M/s",
        "pairs": "the writer's pairs next to readers, M/s"}


def said(ranges: int) -> str:
    return f"{ranges:,}".replace(",", " ") if ranges < 1_000_000 else "1 million"


def found(document: Document, workload: str, name: str, ranges: int, **more: Any) -> list[float]:
    """The result of exactly this: results of a race have further params."""
    wanted = {"allocator": name, "ranges": ranges, **more}
    for result in document.results:
        if result.name == workload and result.params == wanted:
            return result.samples
    return []


def _here(document: Document, there: Elsewhere) -> tuple[list[float], list[float]]:
    """Ours and the rival's."""
    if there.is_rate:
        return (found(document, there.workload, OURS, there.ranges, lock="none", readers=1),
                found(document, there.workload, there.rival, there.ranges, lock="mutex",
                      readers=1))
    ours = OURS
    if there.workload.startswith("bytes-"):
        ours = NO_RCU  # the contents of the slabs do not depend on the speed of grace periods
    return (found(document, there.workload, ours, there.ranges),
            found(document, there.rival_workload, there.rival, there.ranges))


def rival_row(document: Document, there: Elsewhere) -> list[str] | None:
    ours, theirs = _here(document, there)
    if not ours:
        return None
    row = [f"{there.workload}\n{said(there.ranges)}", cell(ours), there.rival, cell(theirs)]
    if not theirs or not all(theirs) or len(ours) != len(theirs):  # one may not get to run at all
        return [*row, NOTHING, f"{there.ratio:.2f}"]
    compared = ratio(ours, theirs)
    return [*row, f"{compared.value:.2f}\n{compared.low:.2f}–{compared.high:.2f}",
            f"{there.ratio:.2f}\n{number(there.kernel)} / {number(there.rivals)}"]


RIVAL_HEADER = ["workload\nranges", "sheaf", "rival", "the rival", "sheaf /\nrival",
                "elsewhere:\nkernel / rival"]


def rival_rows(document: Document) -> Rows:
    rows = [rival_row(document, there) for there in ELSEWHERE]
    return [row for row in rows if row]


RCU_HEADER = ["", "ranges", "RCU on, ns", "RCU off, ns", "on / off"]


def rcu_rows(document: Document) -> Rows:
    rows = []
    for workload in ("pair-random", "pair-same"):
        for ranges in sizes(document, workload):
            on = found(document, workload, OURS, ranges)
            off = found(document, workload, NO_RCU, ranges)
            if on and len(on) == len(off):
                rows.append([workload, said(ranges), cell(on), cell(off), beside(ratio(on, off))])
    return rows


_ratio = functools.lru_cache(None)(ratio)  # text and page have the same ones


def _beside_ours(theirs: Sequence[float], ours: Sequence[float]) -> str:
    """A rival's figure, and the interval of ours over it."""
    if not theirs or not ours or len(theirs) != len(ours):
        return number(median(theirs).value) if theirs else NOTHING
    compared = _ratio(tuple(ours), tuple(theirs))
    return f"{number(median(theirs).value)}\n{compared.low:.2f}–{compared.high:.2f} ×"


def structure_rows(document: Document, workload: str) -> Rows:
    rows = []
    ours = [found(document, workload, OURS, ranges) for ranges in sizes(document, workload)]
    for name, title in NAMES.items():
        cells = [found(document, workload, name, ranges) for ranges in sizes(document, workload)]
        if name == OURS:
            nodes = [found(document, f"{workload}-nodes", name, ranges)
                     for ranges in sizes(document, workload)]
            if any(nodes):
                rows.append(["sheaf, nodes alone", *(number(one[0]) if one else NOTHING
                                                    for one in nodes)])
            rows.append([title, *(cell(one) for one in cells)])
        elif any(cells):
            rows.append([title, *(_beside_ours(one, mine) for one, mine in zip(cells, ours))])
    return rows


def header(document: Document, workload: str) -> list[str]:
    return ["ranges", *(said(ranges) for ranges in sizes(document, workload))]


def racers(document: Document) -> list[dict[str, Any]]:
    """Everything but the number of ranges, in the order of measurement."""
    kinds: list[dict[str, Any]] = []
    for result in document.results:
        kind = {key: value for key, value in result.params.items() if key != "ranges"}
        if result.name == "lookups" and kind not in kinds:
            kinds.append(kind)
    return kinds


def race_rows(document: Document, what: str) -> Rows:
    rows = []
    for kind in racers(document):
        alone = not kind.get("writer", True)
        if alone and what == "pairs":
            continue
        name = NAMES[kind["allocator"]] + ("" if kind["lock"] == "none" else f", {kind['lock']}")
        readers = f"{kind['readers']}{', no writer' if alone else ''}"
        more = {key: value for key, value in kind.items() if key != "allocator"}
        cells = [found(document, what, kind["allocator"], ranges, **more)
                 for ranges in sizes(document, what)]
        rows.append([name, readers, *(cell(one) for one in cells)])
    return rows


def tables(document: Document) -> list[Table]:
    if not document.results:
        return []
    tables = [("next to the best rival: ns, bytes, or M/s in lookups and pairs\n"
               + intervals(document, "load-random"),
               RIVAL_HEADER, rival_rows(document))]
    if rows := rcu_rows(document):
        tables.append(("the cost of changing the tree while readers may run", RCU_HEADER, rows))
    tables += [(title, header(document, workload), structure_rows(document, workload))
               for workload, title in WORKLOADS.items() if sizes(document, workload)]
    for what, title in RACE.items():
        if sizes(document, what):
            head = ["", "readers", *(said(ranges) for ranges in sizes(document, what))]
            tables.append((title, head, race_rows(document, what)))
    if ranges := sizes(document, "alloc_fastpath"):
        head = [*(said(one) for one in ranges), "kernel's"]
        for pairs in ("random", "same"):
            tables.append((f"per pair, {pairs} place{'s' * (pairs == 'random')}, ranges:",
                           ["", *head], count_rows(document, pairs)))
        tables.append(("kinds of stores, in percent of the halves of random pairs, ranges:",
                       ["", *(said(one) for one in ranges)], type_rows(document)))
        tables.append(("by the kernel's rules: per pair, random places, ranges:",
                       ["", *head], count_rows(document, "random", KERNEL_RULES)))
        tables.append(("by the kernel's rules: kinds of stores, ranges:",
                       ["", *(said(one) for one in ranges)],
                            type_rows(document, KERNEL_RULES)))
    return tables


def notes(document: Document) -> list[str]:
    if not document.results:
        return ["Nothing was measured.", *failed_and_missing(document)]
    return ["The small line below a rival's figure is the ratio of sheaf's figure to it, as a 95 % "
            "interval.",
            "map is std::map, btree is absl::btree_map; both are keyed by the start or the end of a "
            "range. JudyL is keyed by the start and points to a record of end and entry. rbtree is a "
            "red-black tree that stores the largest gap below each node. harness is a sorted array: "
            "a lower bound, not a rival.",
            "A sample is the CPU time of a workload in a process of its own; the structures take "
            "turns, and all found the same ranges. Ranges have 1 to 16 pages, with 1 to 16 free "
            "pages between them and one gap of 4096; they lie below the top of 47 bits. Entries "
            "are never dereferenced.",
            "elsewhere: the kernel's tree (Linux 7.2, in user space, RCU mode, nodes from a free "
            "list) over the same rival, both measured on a Xeon at 2.3 GHz. Compare it with "
            "sheaf / rival.",
            "sheaf takes liburcu's read lock around each load. The CPU time of liburcu's own thread "
            "is not counted. To find a gap, the maps, the b-tree, JudyL and the array look at every "
            "range from the top. The red-black tree's nodes exist before the run, in the order of "
            "their addresses, and need no allocation. Up to 300 ranges, several trees are built "
            "one after another.",
            "bytes: the slabs of sheaf; mallinfo2 for the others. The table of rivals "
            "uses sheaf with RCU off: with RCU, nodes that waited for a grace period while the "
            "tree was built leave room between the others. dup-replace is compared with a rival "
            "that only copies.",
            "Lookups are those of all readers, pairs those of the one writer, in windows of "
            f"{document.machine['window']} ms; the writer has a CPU of its own if there are two. A "
            "lock is taken for each lookup and for each half of a pair.",
            *failed_and_missing(document)]


FIGURES = {"loads, ns": ("load-random", "load-chain", "load-same", "load-miss"),
           "changes, ns": ("store-random", "store-ascending", "pair-random", "pair-same"),
           "whole trees, ns per range; gap searches, ns":
               ("iterate", "dup", "dup-replace", "gap-varied")}


def _panel(document: Document, workload: str, place: int) -> LogPanel:
    curves = []
    for i, (name, title) in enumerate(NAMES.items()):
        points = [(float(ranges), median(one).value) for ranges in sizes(document, workload)
                  if (one := found(document, workload, name, ranges))]
        if points:
            curves.append(Curve(title, points, "ours" if name == OURS else f"l{i % COLOURS}"))
    return LogPanel(WORKLOADS[workload], place % 2, place // 2, curves)


def pictures(document: Document) -> list[str]:
    drawn = []
    for label, workloads in FIGURES.items():
        there = [one for one in workloads if sizes(document, one)]
        if there:
            drawn.append(log_figure(label, [_panel(document, one, i)
                                               for i, one in enumerate(there)],
                                       ("ranges", "ns"),
                                       [f"{label[0].upper()}{label[1:]}, over the number of ranges; "
                                        "lower is better."]))
    return drawn


assert set(RATES) == set(RACE)
