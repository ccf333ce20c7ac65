# SPDX-License-Identifier: MIT
"""Suite `vmalloc`: large blocks, by the loops of the kernel's own test, against every malloc.

loops   fix_size and random_size_align of 1, 4, 16 and 256 pages: allocate, write a byte, free
kvfree  kvfree_rcu of blocks that are not slab objects, with two arguments and with one, against
        freeing immediately and, for the mallocs, against call_rcu
"""
from __future__ import annotations

import statistics
from typing import Any, Callable

from sheaf_tool.stats import median

from ..allocators import OURS, Worker, ready, versions
from ..document import Document
from ..svg import Bar, Panel, figure
from .cells import NOTHING, Cell, Part, best, cell, intervals, measure, notes, ratio_cell, samples
from .suite import Settings, Suite, Table

UNIT = "ns/block"
LOOPS = ("fix_size", "random_size_align")
PAGES = (1, 4, 16, 256)
ROWS = [(loop, pages) for loop in LOOPS for pages in PAGES]
BLOCKS = 50_000
QUICK_BLOCKS = 20_000
WAYS = {"plain": "freed at once", "two": "kvfree_rcu(p, head)", "one": "kfree_rcu_mightsleep(p)"}
KVFREE_PAGES = 4  # the smallest power of two that is too large for kmalloc's caches
PEERS = ("glibc", "mimalloc", "jemalloc")


def keep(name: str) -> Callable[[Document, dict[str, Any], list[str]], None]:
    def record(document: Document, params: dict[str, Any], lines: list[str]) -> None:
        document.result(name, params, UNIT).samples.append(
            statistics.median(float(line) for line in lines))
    return record


def loop_cells(workers: list[Worker], quick: bool) -> list[Cell]:
    blocks = str(QUICK_BLOCKS if quick else BLOCKS)
    return [Cell(worker, {"allocator": worker.name, "loop": loop, "pages": pages},
                 ("--loop", loop, "--pages", str(pages), "--blocks", blocks), keep("loop"))
            for loop, pages in ROWS for worker in workers]


def kvfree_cells(workers: list[Worker]) -> list[Cell]:
    return [Cell(worker, {"allocator": worker.name, "way": way, "pages": KVFREE_PAGES},
                 ("--way", way), keep("kvfree"))
            for way in WAYS for worker in workers
            if worker.name == OURS or (worker.name in PEERS and way != "one")]


def _run(settings: Settings, machine: dict[str, Any]) -> Document:
    workers, missing = ready("vmalloc", settings.workers)
    document = Document("vmalloc", {**machine, "versions": versions(workers), "missing": missing})
    retiring, _ = ready("kvfree-memb", settings.workers)
    measure(document, settings, [Part(loop_cells(workers, settings.quick), 15, 6, 14.0),
                                 Part(kvfree_cells(retiring), 15, 6, 12.0)])
    return document


def _loop(document: Document, name: str, row: tuple[str, int]) -> list[float]:
    return samples(document, "loop", allocator=name, loop=row[0], pages=row[1])


def loop_rows(document: Document, loop: str) -> list[list[str]]:
    rows = [(loop, pages) for pages in PAGES]
    names = [name for name in document.allocators()
             if any(_loop(document, name, row) for row in rows)]
    bests = [best({name: _loop(document, name, row) for name in names if name != OURS})
             for row in rows]
    table = [[name, *(cell(_loop(document, name, row)) for row in rows)] for name in names]
    table.append(["best peer", *(name or NOTHING for name in bests)])
    for title, others in (("sheaf / best peer", bests), ("sheaf / glibc", ["glibc"] * len(rows))):
        table.append([title, *(ratio_cell(_loop(document, OURS, row), _loop(document, name, row))
                               if name else NOTHING for name, row in zip(others, rows))])
    return table


def _kvfree(document: Document, name: str, way: str) -> list[float]:
    return samples(document, "kvfree", allocator=name, way=way)


KVFREE_HEADER = ["", *WAYS.values(), "two arguments /\nat once", "one argument /\nat once"]


def kvfree_rows(document: Document) -> list[list[str]]:
    rows = []
    for name in (OURS, *PEERS):
        found = {way: _kvfree(document, name, way) for way in WAYS}
        if any(found.values()):
            rows.append([name, *(cell(one) for one in found.values()),
                         *(ratio_cell(found[way], found["plain"]) for way in ("two", "one"))])
    return rows


HEADER = ["", *(f"{pages} page{'s' * (pages > 1)}" for pages in PAGES)]


def _tables(document: Document) -> list[Table]:
    found = [(f"{loop}: ns per block\n{intervals(document, 'loop')}",
              HEADER, loop_rows(document, loop)) for loop in LOOPS]
    found.append((f"kvfree_rcu of blocks of {KVFREE_PAGES} pages: ns of CPU time per block\n"
                  + intervals(document, "kvfree"), KVFREE_HEADER, kvfree_rows(document)))
    return found


def _notes(document: Document) -> list[str]:
    return ["The loops are those of the kernel's own test of vmalloc. There a later kernel is "
            "slower by 1 to 5 % in fix_size and random_size_align, and by 4 to 11 % in "
            "kvfree_rcu. random_size_align: blocks of 1 to that many pages, aligned to a power of "
            "two up to a page.",
            "For a malloc, kvfree_rcu is call_rcu with a free in the callback. No reader runs. "
            "A barrier bounds what waits; its CPU time counts.",
            *notes(document)]


def _pictures(document: Document) -> list[str]:
    panels = []
    for column, loop in enumerate(LOOPS):
        for place, pages in enumerate(PAGES):
            bars = [Bar(name, median(one), "ours" if name == OURS else "peer")
                    for name in document.allocators()
                    if (one := _loop(document, name, (loop, pages)))]
            panels.append(Panel(f"{loop}, {pages} page{'s' * (pages > 1)}", column, place, bars))
    return [figure("ns per block for each loop, number of pages and allocator", panels, "ns",
                   ["ns of CPU time per block; shorter is better."])]


SUITE = Suite("vmalloc", "large blocks by the loops of the kernel's test, and kvfree_rcu of them",
              "The loops of the kernel's own test of vmalloc: blocks of 1 to 256 pages are "
              "allocated, written to and freed; then such blocks are freed with kvfree_rcu.",
              _run, _pictures, _tables, _notes, lambda _, __: [])
