# SPDX-License-Identifier: MIT
"""Suite `capacity`: fixed capacities of sheaves next to the one that follows the load.

Every work runs with caches of each fixed capacity, and with a cache whose capacity the library
chooses and changes. The kernel's documents compare fixed ones only.
"""
from __future__ import annotations

from typing import Any

from sheaf_tool.stats import median

from ..document import Document
from .cells import NOTHING, intervals, notes, ratio_cell
from .choices import TIME, Choice, Choices, Work, no_works
from .suite import Settings, Suite, Table

OWN = Choice("own")
FIXED = tuple(Choice(str(capacity), ("--capacity", str(capacity))) for capacity in (32, 60, 128, 256, 508))
WORKS = (
    Work("scale", ("--batch", "10", "--threads", "2"), 2),
    Work("scale", ("--batch", "100", "--threads", "2"), 2),
    Work("scale", ("--batch", "1000", "--threads", "2"), 2),
    Work("scale", ("--batch", "1000", "--threads", "32"), 32),
    Work("scale", ("--batch", "1000", "--threads", "2", "--size", "1024"), 2),
    Work("cross", ("--threads", "2"), 2),
    Work("cross", ("--threads", "32"), 32),
    Work("cross", ("--threads", "2", "--size", "256"), 2),
    Work("cross", ("--symmetric", "--threads", "2"), 2),
    Work("mmap2", ("--tasks", "2"), 2),
    Work("fork", ("--threads", "2"), 2),
    Work("fork", ("--exec", "--threads", "8", "--vmas", "25"), 8),
    Work("bulk", ("--part", "transfer", "--bulk", "100", "--iterations", "11")),
    Work("bulk", ("--part", "transfer", "--bulk", "1000", "--iterations", "11")),
    Work("churn", ("--order", "shuffled", "--objects", "1000000")),
)
ALL = Choices("capacity", WORKS, (*FIXED, OWN), "capacity")


def _run(settings: Settings, machine: dict[str, Any]) -> Document:
    return ALL.run(settings, machine, 9, 6, 100.0)


def _best_fixed(document: Document, work: Work) -> str:
    there = [choice for choice in FIXED if ALL.found(document, TIME, work, choice)]
    best = min(there, key=lambda choice: median(ALL.found(document, TIME, work, choice)).value, default=None)
    return best.name if best else NOTHING


def _ratio_rows(document: Document) -> list[list[str]]:
    return [[work.label,
             *(ratio_cell(ALL.found(document, TIME, work, OWN), ALL.found(document, TIME, work, choice))
               for choice in FIXED), _best_fixed(document, work)] for work in WORKS]


def _tables(document: Document) -> list[Table]:
    header = ["work", *(f"own /\n{choice.name}" for choice in FIXED), "best\nfixed"]
    return [("own: the time with the library's own capacity over the time with a fixed one\n"
             "below 1 the library's choice is faster\n" + intervals(document), header, _ratio_rows(document)),
            *ALL.tables(document)]


def _notes(document: Document) -> list[str]:
    return ["Objects have 64 bytes where no size is given. mmap2 and fork: VMAs and nodes of the maple tree.",
            *notes(document)]


def _pictures(document: Document) -> list[str]:
    return [ALL.picture(document, OWN)]


SUITE = Suite("capacity", "fixed capacities of sheaves next to the one that follows the load",
              "The same works with caches of fixed capacities, and with the capacity that the library "
              "chooses and changes by itself.",
              _run, _pictures, _tables, _notes, no_works)
