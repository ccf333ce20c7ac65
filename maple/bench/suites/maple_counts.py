# SPDX-License-Identifier: MIT
"""The calls that the maple tree makes to its cache of nodes per unmap and map: tables of the counts."""
from __future__ import annotations

from math import fsum
from typing import Sequence

from sheaf_tool.stats import median

from ..allocators import OURS
from ..document import Document
from .cells import NOTHING, samples
from .maple_elsewhere import KERNEL_COUNTS

Rows = list[list[str]]


def sizes(document: Document, workload: str) -> list[int]:
    return sorted({result.params["ranges"] for result in document.results
                   if result.name == workload})


# The figures of a pair: sums of the library's events.
COUNTS: dict[str, tuple[Sequence[str], Sequence[str]]] = {
    "kmem_cache_alloc": (("map_single", "unmap_single"), ()),
    "prefilled sheaves taken": (("sheaf_prefill_fast", "sheaf_prefill_slow",
                                 "sheaf_prefill_oversize"), ()),
    "objects taken in all": (("alloc_fastpath", "alloc_slowpath"), ()),
    "nodes retired": (("free_rcu_sheaf", "free_rcu_sheaf_fail"), ()),
    "objects returned unused": (("alloc_fastpath", "alloc_slowpath"),
                                ("free_rcu_sheaf", "free_rcu_sheaf_fail")),
    "objects to and from slabs": (("sheaf_refill", "sheaf_flush", "alloc_slowpath",
                                   "free_slowpath", "rcu_flush"), ()),
    "slabs made or freed": (("alloc_slab", "free_slab"), ()),
}


def counted(document: Document, pairs: str, what: str, ranges: int,
            rules: str = OURS) -> float | None:
    def of(event: str) -> list[float]:
        return samples(document, event, allocator=rules, ranges=ranges, pairs=pairs)

    def total(events: Sequence[str]) -> float:
        return fsum(median(of(event) or [0.0]).value for event in events)
    if not of("alloc_fastpath"):
        return None
    plus, minus = COUNTS[what]
    return max(0.0, total(plus) - total(minus))


def count_rows(document: Document, pairs: str, rules: str = OURS) -> Rows:
    rows = []
    for what in COUNTS:
        found_counts = [counted(document, pairs, what, ranges, rules)
                        for ranges in sizes(document, "alloc_fastpath")]
        rows.append([what, *(NOTHING if one is None else f"{one:.4f}" for one in found_counts),
                     KERNEL_COUNTS.get((pairs, what), NOTHING)])
    return rows


def type_rows(document: Document, rules: str = OURS) -> Rows:
    """Which kinds of store the halves of random pairs were, in percent."""
    names = list(dict.fromkeys(result.name for result in document.results
                               if "_type_" in result.name
                               and result.params["pairs"] == "random"))
    return [[name.replace("_type_", ": "),
             *(f"{100 * one[0]:.2f} %" if (one := samples(document, name, allocator=rules,
                                                        ranges=ranges, pairs="random"))
               else NOTHING
               for ranges in sizes(document, "alloc_fastpath"))] for name in sorted(names)]
