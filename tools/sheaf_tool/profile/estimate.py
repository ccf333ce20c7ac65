# SPDX-License-Identifier: MIT
"""Samples become estimates.

An allocation of a class of `size` bytes was sampled with chance p = 1 - exp(-size / mean), whatever was asked for. So each
sample stands for 1 / p allocations, and the bytes that were asked for by it for bytes / p. The variance of such a sum over
samples is the sum of bytes^2 (1 - p) / p^2.
"""
from __future__ import annotations

from dataclasses import dataclass, field
from math import expm1, sqrt
from typing import Iterable, Sequence

from .locate import Location, Locator
from .raw import Raw

UNITS = "objects", "bytes"
# What pprof, and we, leave out at the inner end of a stack, with all that it calls: functions that allocate.
ALLOCATORS = (r"(__libc_|x|je_|tc_)?(malloc|calloc|realloc|reallocarray|memalign|aligned_alloc|"
              r"posix_memalign|valloc|pvalloc|strdup|strndup)|k[vz]?(malloc|calloc|zalloc|realloc)(_\w+)?|kvzalloc(_\w+)?|"
              r"kmem_cache_alloc(_\w+)?|kmem_cache_zalloc(_\w+)?|kmem_cache_alloc_bulk|krealloc(_\w+)?|kmemdup(_\w+)?|"
              r"k(str|strn)dup|sheaf_\w*alloc\w*|operator new(\[\])?(\(.*\))?|__gnu_cxx::new_allocator<.*>::allocate(\(.*\))?|"
              r"std::(__new_)?allocator(_traits)?<.*>::allocate(\(.*\))?|__rust_(re)?alloc(_zeroed)?|__rdl_alloc(_zeroed)?")


def chance(size: int, mean: int) -> float:
    return -expm1(-size / mean)


@dataclass(frozen=True)
class Entry:
    """What one stack allocated in one class; negative for what a difference subtracts."""
    stack: tuple[Location, ...]  # the innermost first
    cache: str
    group: str
    size: int
    values: dict[str, tuple[float, float]]  # live, all, peak: objects and bytes
    freed: float
    elsewhere: float
    lifetime_ms: float
    threads: dict[int, tuple[float, float]]  # the part of "live" whose threads are known: objects and bytes

    def value(self, which: str, unit: str) -> float:
        return self.values[which][UNITS.index(unit)]


@dataclass(frozen=True)
class Sum:
    """Of all entries, with its standard error."""
    samples: int = 0
    objects: float = 0
    bytes: float = 0
    error: float = 0  # of bytes

    def percent(self) -> float:
        return 100 * self.error / self.bytes if self.bytes else 0


@dataclass
class Profile:
    """Of one process, of several together, or (signed) the difference of two."""
    raws: list[Raw]
    entries: list[Entry]
    missing: dict[str, str] = field(default_factory=dict)  # files without which functions have no names
    signed: bool = False

    @property
    def full(self) -> int:
        return sum(raw.full for raw in self.raws)

    def title(self) -> str:
        of = ", ".join(dict.fromkeys(f"{raw.program} (process {raw.pid})" for raw in self.raws))
        return f"{'difference of two profiles of' if self.signed else 'profile of'} {of}"

    def sum(self, which: str) -> Sum:
        """Of what was sampled; of a difference it has no meaning."""
        n, objects, size, variance = 0, 0.0, 0.0, 0.0
        for raw in self.raws:
            for row in raw.rows:
                samples, asked = row.values[which]
                if samples:
                    p = chance(row.size, raw.mean)
                    n, objects, size = n + samples, objects + samples / p, size + asked / p
                    variance += samples * (asked / samples / p) ** 2 * (1 - p)
        return Sum(n, objects, size, sqrt(variance))


def _entries(raw: Raw, locator: Locator, sign: int) -> Iterable[Entry]:
    stacks = [locator.stack(stack) for stack in raw.stacks]
    threads: list[dict[int, tuple[float, float]]] = [{} for _ in raw.rows]
    for sample in raw.samples:
        n, size = threads[sample.row].get(sample.thread, (0, 0))
        threads[sample.row][sample.thread] = n + 1, size + sample.asked
    for row, by_thread in zip(raw.rows, threads):
        scale = sign / chance(row.size, raw.mean)
        yield Entry(stacks[row.stack], row.cache, row.group, row.size,
                    {key: (n * scale, size * scale) for key, (n, size) in row.values.items()},
                    row.freed * scale, row.elsewhere * scale, row.lifetime_ms * scale,
                    {thread: (n * scale, size * scale) for thread, (n, size) in by_thread.items()})


def together(raws: list[Raw], directories: list[str], minus: Sequence[Raw] = ()) -> Profile:
    """The sum of profiles, less those of minus."""
    found = Profile([*minus, *raws], [], signed=bool(minus))
    for sign, raw in [*((-1, raw) for raw in minus), *((1, raw) for raw in raws)]:
        locator = Locator(raw, directories)
        found.entries += _entries(raw, locator, sign)
        found.missing.update(locator.missing)
    return found
