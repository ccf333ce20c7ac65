# SPDX-License-Identifier: MIT
"""The rates of a process's caches between two readings, and the table of them for `sheaf top`."""
from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

from .info import bytes_short, head
from .process import Cache, Reading
from .table import one_line

SPARK = "▁▂▃▄▅▆▇█"
LOOKS = 60  # stored for the sparkline

ALLOCS = ("alloc_fastpath", "alloc_slowpath")
FREES = ("free_fastpath", "free_slowpath")
MISSES = ("replace_empty_main", "replace_full_main")
RATES = {"allocs/s": ALLOCS, "frees/s": FREES, "misses/s": MISSES, "+slabs/s": ("alloc_slab",),
         "-slabs/s": ("free_slab",)}
RATES_IN_JSON = {"allocs_per_second": "allocs/s", "frees_per_second": "frees/s",
                 "misses_per_second": "misses/s", "slabs_made_per_second": "+slabs/s",
                 "slabs_freed_per_second": "-slabs/s"}
COLUMNS = (("in use", 10), ("parked", 9), ("memory", 8), ("allocs/s", 10), ("frees/s", 10),
           ("misses/s", 10))
LEAST_NAME, MOST_NAME = 10, 32


@dataclass
class Row:
    """One cache: its last reading, and its rates since the one before."""
    cache: Cache
    counters: dict[str, int]
    rates: dict[str, float] = field(default_factory=dict)
    allocs: deque = field(default_factory=lambda: deque(maxlen=LOOKS))

    def add(self, cache: Cache, seconds: float) -> None:
        # Counts that move from a sheaf to the sums may be in neither for a moment.
        now = {name: max(value, self.counters.get(name, 0))
               for name, value in cache.counters.items()}
        for name, events in RATES.items() if now else ():
            gone = sum(now[event] - self.counters.get(event, 0) for event in events)
            self.rates[name] = gone / seconds
        self.cache, self.counters = cache, now
        self.allocs.append(self.rates.get("allocs/s", 0.0))

    def value(self, column: str) -> float:
        if column in RATES:
            return self.rates.get(column, 0.0)
        return self.cache.gauges[{"in use": "objects_in_use", "parked": "objects_in_sheaves",
                                  "memory": "slab_bytes"}[column]]


class Rates:
    """All caches, identified by id: a name may be used again."""

    def __init__(self) -> None:
        self.rows: dict[int, Row] = {}
        self.reading: Reading | None = None
        self._time = 0.0

    def add(self, reading: Reading, now: float) -> None:
        seconds = max(now - self._time, 1e-6)
        rows = {}
        for cache in reading.caches:
            row = self.rows.get(cache.id)
            if row:
                row.add(cache, seconds)
            elif self.reading:  # created since the last reading
                row = Row(cache, {})
                row.add(cache, seconds)
            else:
                row = Row(cache, cache.counters)
            rows[cache.id] = row
        self.rows, self.reading, self._time = rows, reading, now

    def sorted(self, column: str) -> list[Row]:
        if column == "cache":
            return sorted(self.rows.values(), key=lambda row: (row.cache.name, row.cache.id))
        return sorted(self.rows.values(), key=lambda row: (-row.value(column), row.cache.id))

    def totals(self) -> dict[str, float]:
        """Of all caches together."""
        gauges = {key: sum(row.cache.gauges[key] for row in self.rows.values())
                  for key in ("slab_bytes", "objects_in_use", "objects_in_sheaves")}
        rates = {key: sum(row.rates.get(name, 0.0) for row in self.rows.values())
                 for key, name in RATES_IN_JSON.items()}
        return {**self.reading.memory, **gauges, **rates}

    def values(self) -> dict[str, object]:
        assert self.reading
        caches = []
        for row in self.rows.values():
            caches.append({**row.cache.values(), **row.counters,
                           **{key: row.rates.get(name, 0.0) for key, name in RATES_IN_JSON.items()}})
        return {**self.reading.values(), "caches": caches}


def short(value: float) -> str:
    """A number in few characters."""
    if value < 99999.5:
        return f"{value:.0f}"
    for unit in ("k", "M"):
        value /= 1000
        if value < 9999.5:
            return f"{value:.0f}{unit}"
    return f"{value / 1000:.0f}G"


def sparkline(values: list[float], width: int) -> str:
    shown = values[-width:] if width > 0 else []
    most = max(shown, default=0.0)
    if most <= 0:
        return SPARK[0] * len(shown)
    return "".join(SPARK[min(len(SPARK) - 1, int(value / most * len(SPARK)))] for value in shown)


def _cell(row: Row, column: str) -> str:
    if column in RATES and not row.counters:
        return "-"
    return (bytes_short if column == "memory" else short)(row.value(column))


def _cut(text: str, width: int) -> str:
    """Cut text to the width, and replace characters that would move the cursor."""
    text = one_line(text)
    return text if len(text) <= width else text[:max(0, width - 1)] + "…"[:width]


def frame(rates: Rates, column: str, width: int, height: int | None,
          everything: bool = True) -> list[str]:
    """The lines of the screen; all of them if height is None. May leave out unused caches."""
    assert rates.reading
    rows = [row for row in rates.sorted(column) if everything or row.cache.used()]
    longest = max((len(row.cache.name) for row in rows), default=0)
    name_width = min(max(longest, LEAST_NAME), MOST_NAME)
    fixed = name_width + sum(size for _, size in COLUMNS) + 1
    titles = "".join((f"[{name}]" if name == column else name).rjust(size)
                     for name, size in COLUMNS)
    first = "[cache]" if column == "cache" else "cache"
    lines = [*head(rates.reading).split("\n"), "", f"{first:{name_width}}{titles} allocs/s so far"]
    room = len(rows) if height is None else max(0, height - len(lines) - 1)
    for row in rows[:room]:
        cells = "".join(_cell(row, name).rjust(size) for name, size in COLUMNS)
        spark = sparkline(list(row.allocs), width - fixed)
        lines.append(f"{_cut(row.cache.name, name_width):{name_width}}{cells} {spark}")
    if height is not None:
        left = len(rows) - room
        lines.append((f"{left} more; " if left > 0 else "") + "sort: o in use, a allocs, f frees, "
                     "m misses, b bytes, n name; u unused; q quit")
        lines = lines[:max(1, height)]
    return [_cut(line, width) for line in lines]
