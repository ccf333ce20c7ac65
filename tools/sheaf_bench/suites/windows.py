# SPDX-License-Identifier: MIT
"""Rates of processes that work for a while, window by window.

A worker prints a line `window PAIRS NANOSECONDS` for each window of time. The rate shown is that of
the upper-decile window: another program on a CPU stalls all threads that wait for a thread of that
CPU, and that is no property of the allocator. The plain mean over all windows is recorded, too, so
that an allocator that itself causes stalls is seen.
"""
from __future__ import annotations

import math
from typing import Any, Sequence

from sheaf_tool.errors import Failure

from ..document import Document

UNIT = "Mpairs/s"
MEAN = "mean Mpairs/s"


def windows(lines: Sequence[str]) -> list[tuple[int, float]]:
    """Pairs and nanoseconds of each window."""
    found = [line.split() for line in lines if line.startswith("window ")]
    if not found:
        raise Failure(f"lines of windows were expected, not {list(lines)}")
    return [(int(pairs), float(nanoseconds)) for _, pairs, nanoseconds in found]


def upper_decile(found: Sequence[tuple[int, float]]) -> float:
    """Millions of pairs per second in the window that nine tenths of the windows do not exceed."""
    rates = sorted(pairs / nanoseconds * 1e3 for pairs, nanoseconds in found)
    return rates[math.ceil(0.9 * len(rates)) - 1]


def mean(found: Sequence[tuple[int, float]]) -> float:
    """Millions of pairs per second over all windows."""
    return sum(pairs for pairs, _ in found) / math.fsum(length for _, length in found) * 1e3


def stood_still(lines: Sequence[str]) -> bool:
    """On a busy machine the system sometimes starves one thread of a pair for a whole run.

    Such a process is run again, once: an allocator that causes the standstill does so twice.
    """
    found = [line for line in lines if line.startswith("window ")]
    return bool(found) and upper_decile(windows(found)) == 0


def window_arguments(threads: int, cpus: int, quick: bool) -> list[str]:
    """With more threads than CPUs, a window must be much longer than a time slice."""
    if threads <= cpus:
        length, number = 3, 14 if quick else 60
    else:
        length, number = 20, 4 if quick else 15
    return ["--window", str(length), "--windows", str(number)]


def keep_rates(document: Document, name: str, params: dict[str, Any], lines: list[str]) -> None:
    found = windows(lines)
    document.result(name, params, UNIT).samples.append(upper_decile(found))
    document.result(name, params, MEAN).samples.append(mean(found))
