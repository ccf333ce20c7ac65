# SPDX-License-Identifier: MIT
"""`sheaf bench --against BUILD`: a suite's programs of ours in two builds, in one interleaved run.

Each cell of ours is followed by the same cell of the other build (suites/cells.py), so what slows the
machine down for a while slows both, and ratios are those of pairs. Peers do not take part. What the
other build cannot run is left out and named.
"""
from __future__ import annotations

from typing import Any

from sheaf_tool.stats import Estimate, has_interval, median, ratio
from sheaf_tool.table import folded

from .allocators import OURS
from .compare import (IMPROVEMENT, REGRESSION, SAME, TOO_FEW, UNKNOWN, Pair, higher_is_better, summary,
                      tables)
from .document import Document, Result
from .suites.cells import BEFORE, notes


def _key(result: Result) -> tuple[Any, ...]:
    return (result.name, result.unit,
            sorted((key, str(value)) for key, value in result.params.items() if key != "allocator"))


def _verdict(unit: str, n: int, found: Estimate | None) -> str:
    higher = higher_is_better(unit)
    if higher is None or found is None:
        return UNKNOWN
    if not has_interval(n):
        return TOO_FEW
    if found.low <= 1 <= found.high:
        return SAME
    return IMPROVEMENT if (found.value > 1) == higher else REGRESSION


def _pair(before: Result, now: Result) -> Pair:
    found = ratio(now.samples, before.samples) if min(before.samples) > 0 else None
    params = {key: value for key, value in now.params.items() if key != "allocator"}
    return Pair(now.name, params, now.unit, median(before.samples), median(now.samples),
                _verdict(now.unit, len(now.samples), found), found)


def pairs(document: Document) -> list[Pair]:
    """What has as many samples of both builds."""
    now = [one for one in document.results if one.params["allocator"] == OURS]
    return [_pair(before, one) for before in document.results if before.params["allocator"] == BEFORE
            for one in now if _key(one) == _key(before) and len(one.samples) == len(before.samples)]


def text(document: Document) -> str:
    """At most 100 columns."""
    found = pairs(document)
    before, now = (document.machine.get(key) for key in ("sheaf before", "sheaf"))
    ways = [f"The common calls differ: {before} in A, {now} in B."] if before != now else []
    return "\n\n".join(["A is before, B is now: medians and the ratio of their pairs, with 95 % intervals", *ways,
                        *tables(found), summary(found), folded(notes(document))]).rstrip()
