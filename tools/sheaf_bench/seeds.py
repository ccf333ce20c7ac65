# SPDX-License-Identifier: MIT
"""Published figures of the kernel's documents: percentages of their machines, next to ours.

They compare one kernel with another. Ours compare allocators in one run. Both answer the same
questions.
"""
from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from sheaf_tool.stats import Estimate


@dataclass(frozen=True)
class Seed:
    """One document's claim, and its figures in percent if a suite measures the same."""

    title: str
    date: str
    machine: str
    says: str
    suite: str | None = None  # measures the same here
    percent: dict[Any, float] = field(default_factory=dict)

    def origin(self) -> str:
        return f"“{self.title}”, {self.date}; {self.machine}"


# (batch, order): improvement of sheaves over CPU slabs.
SHEAVES = Seed(
    "SLUB percpu sheaves, v5", "2025-07-23", "Ryzen 7 5700, bare metal",
    "sheaves better than CPU slabs by 6–31 % in batches", "batch",
    {(1, "fifo"): 17.2, (10, "fifo"): 15.3, (100, "fifo"): 31.0, (1000, "fifo"): 30.2,
     (10, "shuffled"): 12.6, (100, "shuffled"): 28.6, (1000, "shuffled"): 6.3})

# As above, with every object charged to a group.
SHEAVES_GROUPS = Seed(
    SHEAVES.title, SHEAVES.date, SHEAVES.machine,
    "the same with objects charged to groups: better by 9–26 %", "batch",
    {(1, "fifo"): 11.5, (10, "fifo"): 11.0, (100, "fifo"): 24.6, (1000, "fifo"): 24.4,
     (10, "shuffled"): 11.6, (100, "shuffled"): 25.6, (1000, "shuffled"): 8.7})

# The same document: how much longer a pair takes if its object is charged, with sheaves and without, of
# the average times that it has for each row.
CHARGING = Seed(
    SHEAVES.title, SHEAVES.date, SHEAVES.machine, "charging costs 24–51 % with sheaves", "batch",
    {(1, "fifo"): 51.2, (10, "fifo"): 48.0, (100, "fifo"): 44.6, (1000, "fifo"): 38.6,
     (10, "shuffled"): 43.7, (100, "shuffled"): 39.1, (1000, "shuffled"): 24.5})
CHARGING_NO_SHEAF = Seed(
    SHEAVES.title, SHEAVES.date, SHEAVES.machine, "charging costs 28–42 % without sheaves", "batch",
    {(1, "fifo"): 41.5, (10, "fifo"): 40.9, (100, "fifo"): 32.2, (1000, "fifo"): 28.0,
     (10, "shuffled"): 42.1, (100, "shuffled"): 33.5, (1000, "shuffled"): 27.9})

# Batch: cost of the sheaf code for a cache without sheaves; the other batches "less than this".
NO_SHEAF_COST = Seed(
    SHEAVES.title, SHEAVES.date, SHEAVES.machine,
    "the sheaf code costs a cache without sheaves at most 2.4 % (batch 10)", "batch", {10: 2.4})

# Object size: by how much a fresh slab's objects are cheaper, in order, if the freelist is built after
# they are handed out.
DEFERRED = Seed(
    "mm/slub: defer freelist construction until after bulk allocation, v7", "2026-04-15",
    "QEMU/KVM with 8 CPUs, x86-64",
    "objects of a fresh slab cheaper by 32–71 % if the freelist is built after them", "bulk",
    {16: 31.9, 32: 45.7, 64: 57.0, 128: 65.0, 256: 70.5, 512: 66.5})

# Pattern: the remaining part of the operations per second, 36 to 13 million.
CROSS = Seed(
    "[Regression] mm:slab/sheaves: severe performance regression in cross-CPU slab allocation",
    "2026-02-24", "NUMA machine, at least 32 CPUs",
    "allocated on one CPU and freed on another: IOPS down to 36 % (36 to 13 million)", "cross",
    {"producer-consumer": 36.0})

SYSCALLS = Seed(
    "[REGRESSION] slab: replace cpu (partial) slabs with sheaves", "2026-03-26",
    "Graviton3 (AArch64) and Sapphire Rapids (x86-64)",
    "execve and fork slower by 6–11 %", "fork",
    {("Sapphire Rapids", "execve"): -7.4, ("Sapphire Rapids", "fork"): -10.3,
     ("Graviton3", "execve"): -7.7, ("Graviton3", "fork"): -6.6})

SPARE = Seed(
    "mm/slub: the empty main becomes the spare in __pcs_replace_empty_main(), v2", "2026-01-15",
    "Granite Rapids, 2 sockets, 4 nodes",
    "will-it-scale mmap2 from +60 % (64 tasks) to −12 % (256) by the spare rule", "mmap2")

# From the same thread: tasks, and percent more maps with the spare rule on two machines.
SPARE_DELTAS = {
    "Granite Rapids": {1: 3.6, 8: 3.1, 64: 60.2, 128: 49.3, 192: 27.5, 256: -12.1},
    "AMD EPYC": {1: -1.3, 8: 0.2, 64: 25.8, 128: 112.9, 192: 157.4, 256: 70.6, 384: 132.1}}

# Sheaves for maple nodes against the kernel before: without and with the rule, and larger ones.
TREE_DELTAS = {
    "no rule": {1: -8.8, 8: -12.3, 64: -38.9, 128: -8.0, 192: -1.2, 256: -6.6},
    "rule": {1: -8.8, 8: -9.2, 64: -8.2, 128: 11.4, 192: 9.8, 256: 10.0},
    "64": {1: -8.2, 8: -10.5, 64: -4.7, 128: 23.2, 192: 20.6, 256: 21.7},
    "128": {1: -9.9, 8: -10.1, 64: 4.6, 128: 26.9, 192: 22.6, 256: 30.1},
    "256": {1: -8.7, 8: -8.8, 64: 8.8, 128: 30.6, 192: 25.8, 256: 33.9}}

# As above, with a later kernel, against the same old one.
TREE_DELTAS_RC4 = {
    "no rule": {1: -3.6, 8: -12.5, 64: -50.4, 128: -36.7, 192: -23.0, 256: -32.9},
    "rule": {1: -0.2, 8: -9.8, 64: -20.5, 128: -5.5, 192: -1.8, 256: -41.0}}

# Calls per map, without and with the rule.
SPARE_COUNTS = {
    "no rule": {"barn_put_empty": 0.0793, "barn_replace_empty": 0.0855, "barn_get_empty": 0.154,
                "replace_empty_main": 0.0855},
    "rule": {"barn_put_empty": 0.0021, "barn_replace_empty": 0.0814, "barn_get_empty": 0.0743,
             "replace_empty_main": 0.0814}}

NOT_MEASURED = "not measured"  # here

SEEDS = (SHEAVES, SHEAVES_GROUPS, CHARGING, CHARGING_NO_SHEAF, NO_SHEAF_COST, DEFERRED, CROSS, SYSCALLS, SPARE)


def better_by(found: Estimate) -> Estimate:
    """Percent of time saved, of a ratio of times."""
    return Estimate(100 * (1 - found.value), 100 * (1 - found.high), 100 * (1 - found.low))


def more_by(found: Estimate) -> Estimate:
    """Percent of time added, of a ratio of times."""
    return Estimate(*(100 * (one - 1) for one in (found.value, found.low, found.high)))


def left_of(found: Estimate) -> str:
    """Percent that remain, of a ratio of rates: 36.0 % [34.1 … 38.2]."""
    value, low, high = (100 * one for one in (found.value, found.low, found.high))
    return f"{value:.1f} % [{low:.1f} … {high:.1f}]"


def signed(found: Estimate) -> str:
    """Percentages need their sign: +31.0 % [+28.1–+33.0]."""
    return f"{found.value:+.1f} % [{found.low:+.1f} … {found.high:+.1f}]"
