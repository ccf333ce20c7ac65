# SPDX-License-Identifier: MIT
"""Medians and ratios of interleaved series, with 95 % intervals."""
from __future__ import annotations

import functools
import random
import statistics
from dataclasses import dataclass
from math import comb
from typing import Iterable, Sequence

CONFIDENCE = 0.95
RESAMPLES = 2000


@dataclass(frozen=True)
class Estimate:
    """A value and its interval."""

    value: float
    low: float
    high: float


def _coverage(n: int, rank: int) -> float:
    """The probability that the median is between the rank-th smallest and rank-th largest of n samples."""
    return 1 - 2 * sum(comb(n, i) for i in range(rank)) / 2**n


def has_interval(n: int) -> bool:
    """True if n samples are enough for a 95 % interval of their median (six are)."""
    return n > 0 and _coverage(n, 1) >= CONFIDENCE


def median(samples: Sequence[float]) -> Estimate:
    """The median with its interval by order statistics: no assumption about the distribution.

    Of fewer than six samples the interval is their range, which covers less than 95 %.
    """
    ordered = sorted(samples)
    rank = 1
    while rank < len(ordered) // 2 and _coverage(len(ordered), rank + 1) >= CONFIDENCE:
        rank += 1
    return Estimate(statistics.median(ordered), ordered[rank - 1], ordered[-rank])


@functools.lru_cache
def _resamples(n: int, times: int) -> list[list[int]]:
    """For n repetitions, always the same indices."""
    generator = random.Random(1)
    return [generator.choices(range(n), k=n) for _ in range(times)]


def _middle(samples: Iterable[float]) -> float:
    """Like statistics.median(), which is too slow for a report of many ratios."""
    ordered = sorted(samples)
    half = len(ordered) // 2
    return ordered[half] if len(ordered) % 2 else (ordered[half - 1] + ordered[half]) / 2


def ratio(ours: Sequence[float], theirs: Sequence[float]) -> Estimate:
    """The ratio of two medians, with a percentile bootstrap over the repetitions.

    Sample i of both comes from repetition i, so both are resampled with the same indices: what
    slowed the machine down for a while affected both.
    """
    if len(ours) != len(theirs):
        raise ValueError("interleaved series need one sample per repetition each")
    ratios = sorted(_middle(map(ours.__getitem__, picked))
                    / _middle(map(theirs.__getitem__, picked))
                    for picked in _resamples(len(ours), RESAMPLES))
    tail = round((1 - CONFIDENCE) / 2 * RESAMPLES)
    value = statistics.median(ours) / statistics.median(theirs)
    return Estimate(value, ratios[tail], ratios[-1 - tail])


def geomean_ratio(pairs: Sequence[tuple[Sequence[float], Sequence[float]]]) -> Estimate:
    """The geometric mean of several such ratios, of one run: all are resampled together."""
    def mean(ratios: Iterable[float]) -> float:
        return statistics.geometric_mean(list(ratios))

    n = {len(series) for pair in pairs for series in pair}
    if len(n) != 1:
        raise ValueError("interleaved series need one sample per repetition each")
    means = sorted(mean(_middle(map(one.__getitem__, picked)) / _middle(map(other.__getitem__, picked)) for one, other in pairs)
                   for picked in _resamples(n.pop(), RESAMPLES))
    tail = round((1 - CONFIDENCE) / 2 * len(means))
    return Estimate(mean(statistics.median(one) / statistics.median(other) for one, other in pairs), means[tail],
                    means[-1 - tail])
