# SPDX-License-Identifier: MIT
"""The part of suite `mmap2` that replays real programs, from recordings of `sheaf record-maps`.

Each thread repeats a recording's calls in address spaces of its own; maple/bench/vma/maps has the recordings.
All recordings, one after the other, are also replayed on every CPU.
"""
from __future__ import annotations

from pathlib import Path
from typing import Any, Sequence

from ..allocators import Worker
from ..document import Document
from ..paths import MAPS
from .cells import Cell, cell as median_cell, intervals
from .spaces import BASELINE, NONE, cells, ours, rate, ratio_of
from .windows import keep_rates, window_arguments

NAME = "history"
ALL = "all"
OWN, NO_RULE = ours(), ours(spare=False)
ENTRIES = [OWN, NO_RULE, BASELINE, NONE]
TITLE = ("Real address-space histories: millions of calls per second\n"
         "by history and number of threads; each thread has its own address spaces")
HEADER = ["", "threads", OWN.label, "no spare\nrule", BASELINE.label, NONE.label,
          "rule /\nno rule", "sheaf /\ncpu-slab", "sheaf /\nno-sheaf"]


def keep(document: Document, params: dict[str, Any], lines: list[str]) -> None:
    keep_rates(document, NAME, params, lines)


def commands() -> dict[str, str]:
    """The program of each recording."""
    return {path.stem: path.read_text(encoding="ascii").splitlines()[1].partition(" ")[2]
            for path in sorted(MAPS.glob("*.maps"))}


def works(names: Sequence[str], cpus: int) -> list[tuple[str, Path, int]]:
    """Names, the worker's input, threads."""
    return [*((name, MAPS / f"{name}.maps", 1) for name in names),
            *((ALL, MAPS, threads) for threads in sorted({1, cpus, 8 * cpus}))]


def history_cells(known: dict[str, Worker], names: Sequence[str], cpus: int,
                  quick: bool) -> list[Cell]:
    return [cell for name, path, threads in works(names, cpus)
            for cell in cells(known, ENTRIES, {NAME: name, "threads": threads},
                              ("--recording", str(path), "--threads", str(threads),
                               *window_arguments(threads, cpus, quick)), keep)]


def _params(document: Document) -> list[dict[str, Any]]:
    found = {(result.params[NAME], result.params["threads"]): None
             for result in document.results if result.name == NAME}
    return [{NAME: name, "threads": threads} for name, threads in found]


def title(document: Document) -> str:
    return f"{TITLE}\n{intervals(document, NAME)}"


def rows(document: Document) -> list[list[str]]:
    return [[params[NAME], str(params["threads"]),
             *(median_cell(rate(document, entry, params)) for entry in ENTRIES),
             *(ratio_of(document, OWN, other, params) for other in (NO_RULE, BASELINE, NONE))]
            for params in _params(document)]


def notes(document: Document) -> list[str]:
    recorded = document.machine.get("histories", {})
    if not recorded:
        return []
    return ["Histories are what programs did to their address spaces, recorded by `sheaf "
            "record-maps`; each mapping is at the address that the kernel gave it. A call is an "
            "mmap, munmap, mprotect, brk, mremap, madvise, fork, exec or exit; exec also maps "
            "the program and its stack.",
            *(f"{name}: `{command}`" for name, command in recorded.items())]
