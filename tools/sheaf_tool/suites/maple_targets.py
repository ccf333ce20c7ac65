# SPDX-License-Identifier: MIT
"""What the maple tree must reach, and what the kernel's and its rivals took in user space.

All figures but the targets were measured in one run on a machine like that of docs/performance.md:
2 Xeon CPUs at 2.3 GHz, Linux 6.18, glibc 2.36, gcc 12 -O2; the kernel's tree (7.2) in RCU mode, its
nodes from a free list of its own. A target over the rival's figure of that run is a ratio that can be
asked for on any machine.
"""
from __future__ import annotations

from dataclasses import dataclass
from typing import Iterator, Sequence


@dataclass(frozen=True)
class Target:
    """Of one workload at one number of ranges."""

    workload: str
    ranges: int
    bound: float  # at most; of rates at least
    kernel: float | None
    rival: str  # the best one then
    rivals: float  # its figure
    rival_workload: str  # mostly the same

    @property
    def at_least(self) -> bool:
        return self.workload in RATES

    @property
    def ratio(self) -> float:
        """What the target asks of ours over the rival's."""
        return self.bound / self.rivals


RATES = ("lookups", "pairs")  # M/s, beside each other: one reader, one writer

_Row = tuple[int, float, "float | None", str, float]


def _of(workload: str, rows: Sequence[_Row], rival_workload: str | None = None) -> Iterator[Target]:
    for ranges, bound, kernel, rival, rivals in rows:
        yield Target(workload, ranges, bound, kernel, rival, rivals, rival_workload or workload)


# Ranges, target, kernel, best rival and its figure: ns, bytes, M/s.
TARGETS = (
    *_of("load-random", [(60, 15, 37.1, "rbtree", 29.9), (1000, 28, 61.4, "btree-end", 54.2),
                         (100_000, 80, 134, "judy", 102), (1_000_000, 250, 293, "judy", 241)]),
    *_of("load-chain", [(60, 20, 37.6, "rbtree", 28.8), (1000, 38, 62.5, "rbtree", 55),
                        (100_000, 110, 139, "judy", 122), (1_000_000, 350, 360, "btree-end", 318)]),
    *_of("load-same", [(60, 12, 12.3, "map-end", 4.85), (1000, 22, 20.5, "map-end", 9.39)]),
    *_of("load-same-chain", [(60, 18, 12.4, "rbtree", 4.92), (1000, 34, 20.7, "rbtree", 9.66)]),
    *_of("load-miss", [(60, 15, 35.8, "map-end", 32.9), (1000, 28, 61.5, "btree-end", 54.2),
                       (100_000, 80, 135, "judy", 114), (1_000_000, 250, 289, "judy", 263)]),
    *_of("store-random", [(1000, 200, 438, "map-start", 77.6), (100_000, 350, 667, "judy", 167),
                          (1_000_000, 700, 1238, "judy", 333)]),
    *_of("store-ascending", [(1000, 100, 255, "map-start", 32.6),
                             (1_000_000, 150, 347, "judy", 62.2)]),
    *_of("pair-random", [(60, 250, 478, "judy", 132), (300, 300, 627, "judy", 172),
                         (1000, 320, 666, "judy", 181), (100_000, 700, 1161, "judy", 509)]),
    *_of("pair-same", [(60, 130, 250, "rbtree", 32.9), (300, 150, 250, "rbtree", 37.7)]),
    *_of("iterate", [(60, 4, 10.3, "btree-start", 3.64), (300, 4, 11.1, "btree-start", 3.65),
                     (1000, 4, 11.7, "btree-start", 3.78),
                     (1_000_000, 15, 37.3, "btree-start", 14.8)]),
    *_of("gap-near", [(60, 20, 21.4, "rbtree", 9.37), (1000, 20, 36.9, "rbtree", 13),
                      (1_000_000, 120, 47.7, "rbtree", 22.4)]),
    *_of("gap-varied", [(60, 35, 50.6, "rbtree", 21.1), (1000, 35, 76.7, "rbtree", 24.4),
                        (1_000_000, 120, 112, "rbtree", 49.6)]),
    *_of("gap-below", [(60, 50, 39, "rbtree", 12.4), (1000, 50, 144, "rbtree", 20.9),
                       (1_000_000, 120, 286, "rbtree", 53.1)]),
    *_of("dup", [(60, 6, 5.96, "map-start", 10), (300, 7, 6.85, "map-start", 10.5),
                 (100_000, 25, 28.4, "map-start", 60.3)]),
    # The rival only copies.
    *_of("dup-replace", [(60, 12, 32.2, "map-start", 10), (300, 12, 33.4, "map-start", 10.5)],
         "dup"),
    *_of("bytes-random", [(100_000, 47, 44.9, "btree-end", 34.6)]),
    *_of("bytes-ascending", [(100_000, 38, 36, "btree-end", 27.9)]),
    *_of("bytes-adjacent", [(100_000, 20, 19.2, "btree-end", 27.9)]),
    *_of("lookups", [(60, 25, 16.1, "map-end", 7.73), (1000, 16, 10.4, "btree-end", 3.0),
                     (100_000, 7.5, 4.58, "btree-end", 1.33),
                     (1_000_000, 3, 2.24, "btree-end", 0.666)]),
    *_of("pairs", [(60, 1.7, 0.98, "btree-end", 2.07), (1000, 1.4, 0.886, "btree-end", 1.0)]),
)

RCU_COST = 1.15  # ours with readers over ours without, at most

# Per pair: what is asked of the cache of nodes at most, and what the kernel's tree asks.
COUNT_TARGETS: dict[tuple[str, str], tuple[float | None, str]] = {
    ("random", "kmem_cache_alloc"): (None, "1.73–1.76"),
    ("random", "prefilled sheaves taken"): (0.12, "0.24–0.27"),
    ("random", "nodes retired"): (None, "2.47–2.56"),
    ("same", "kmem_cache_alloc"): (2.0, "2"),
    ("same", "nodes retired"): (2.0, "2"),
    ("random", "slabs made or freed"): (0.0, "–"),
    ("random", "objects to and from slabs"): (0.0, "–"),
}
