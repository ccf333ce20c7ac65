# SPDX-License-Identifier: MIT
"""The times of the kernel's maple tree and its best rivals on another machine.

One run on 2 Xeon CPUs at 2.3 GHz, Linux 6.18, glibc 2.36, gcc 12 -O2; the kernel's tree (7.2) in user
space, in RCU mode, its nodes from a free list of its own. Times of two machines cannot be compared;
the ratio of the kernel's tree to its rival can be compared with the ratio of ours to the same rival.
"""
from __future__ import annotations

from dataclasses import dataclass
from typing import Iterator, Sequence


@dataclass(frozen=True)
class Elsewhere:
    """One workload at one number of ranges."""

    workload: str
    ranges: int
    kernel: float
    rival: str  # the best one there
    rivals: float  # its figure
    rival_workload: str  # mostly the same

    @property
    def is_rate(self) -> bool:
        return self.workload in RATES

    @property
    def ratio(self) -> float:
        """The kernel's tree over its rival."""
        return self.kernel / self.rivals


RATES = ("lookups", "pairs")  # M/s, at the same time: one reader, one writer

_Row = tuple[int, float, str, float]


def _of(workload: str, rows: Sequence[_Row],
        rival_workload: str | None = None) -> Iterator[Elsewhere]:
    for ranges, kernel, rival, rivals in rows:
        yield Elsewhere(workload, ranges, kernel, rival, rivals, rival_workload or workload)


# Ranges, kernel, best rival and its figure: ns, bytes, M/s.
ELSEWHERE = (
    *_of("load-random", [(60, 37.1, "rbtree", 29.9), (1000, 61.4, "btree-end", 54.2),
                         (100_000, 134, "judy", 102), (1_000_000, 293, "judy", 241)]),
    *_of("load-chain", [(60, 37.6, "rbtree", 28.8), (1000, 62.5, "rbtree", 55),
                        (100_000, 139, "judy", 122), (1_000_000, 360, "btree-end", 318)]),
    *_of("load-same", [(60, 12.3, "map-end", 4.85), (1000, 20.5, "map-end", 9.39)]),
    *_of("load-same-chain", [(60, 12.4, "rbtree", 4.92), (1000, 20.7, "rbtree", 9.66)]),
    *_of("load-miss", [(60, 35.8, "map-end", 32.9), (1000, 61.5, "btree-end", 54.2),
                       (100_000, 135, "judy", 114), (1_000_000, 289, "judy", 263)]),
    *_of("store-random", [(1000, 438, "map-start", 77.6), (100_000, 667, "judy", 167),
                          (1_000_000, 1238, "judy", 333)]),
    *_of("store-ascending", [(1000, 255, "map-start", 32.6),
                             (1_000_000, 347, "judy", 62.2)]),
    *_of("pair-random", [(60, 478, "judy", 132), (300, 627, "judy", 172),
                         (1000, 666, "judy", 181), (100_000, 1161, "judy", 509)]),
    *_of("pair-same", [(60, 250, "rbtree", 32.9), (300, 250, "rbtree", 37.7)]),
    *_of("iterate", [(60, 10.3, "btree-start", 3.64), (300, 11.1, "btree-start", 3.65),
                     (1000, 11.7, "btree-start", 3.78),
                     (1_000_000, 37.3, "btree-start", 14.8)]),
    *_of("gap-near", [(60, 21.4, "rbtree", 9.37), (1000, 36.9, "rbtree", 13),
                      (1_000_000, 47.7, "rbtree", 22.4)]),
    *_of("gap-varied", [(60, 50.6, "rbtree", 21.1), (1000, 76.7, "rbtree", 24.4),
                        (1_000_000, 112, "rbtree", 49.6)]),
    *_of("gap-below", [(60, 39, "rbtree", 12.4), (1000, 144, "rbtree", 20.9),
                       (1_000_000, 286, "rbtree", 53.1)]),
    *_of("dup", [(60, 5.96, "map-start", 10), (300, 6.85, "map-start", 10.5),
                 (100_000, 28.4, "map-start", 60.3)]),
    # The rival only copies.
    *_of("dup-replace", [(60, 32.2, "map-start", 10), (300, 33.4, "map-start", 10.5)],
         "dup"),
    *_of("bytes-random", [(100_000, 44.9, "btree-end", 34.6)]),
    *_of("bytes-ascending", [(100_000, 36, "btree-end", 27.9)]),
    *_of("bytes-adjacent", [(100_000, 19.2, "btree-end", 27.9)]),
    *_of("lookups", [(60, 16.1, "map-end", 7.73), (1000, 10.4, "btree-end", 3.0),
                     (100_000, 4.58, "btree-end", 1.33),
                     (1_000_000, 2.24, "btree-end", 0.666)]),
    *_of("pairs", [(60, 0.98, "btree-end", 2.07), (1000, 0.886, "btree-end", 1.0)]),
)

# Requests of the kernel's tree to its cache of nodes, per pair.
KERNEL_COUNTS = {
    ("random", "kmem_cache_alloc"): "1.73–1.76",
    ("random", "prefilled sheaves taken"): "0.24–0.27",
    ("random", "nodes retired"): "2.47–2.56",
    ("same", "kmem_cache_alloc"): "2",
    ("same", "nodes retired"): "2",
}
