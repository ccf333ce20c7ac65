# SPDX-License-Identifier: MIT
"""Sums by function and by stack, for the formats that show names.

Like pprof, they leave out the functions that allocate, at the inner end of a stack, and what those call; but never a
whole stack. A function that is several times in a stack (recursion) counts once for its total.
"""
from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Iterator, Sequence

from .estimate import ALLOCATORS, Entry, Profile
from .locate import Line, Location

ALLOCATES = re.compile(ALLOCATORS)
NOWHERE = Line("(no stack)")
Column = tuple[str, str]  # of VALUES, and of UNITS


def frames(stack: tuple[Location, ...]) -> list[Line]:
    """The innermost first, with those that are inlined."""
    found = [line for location in stack for line in location.lines]
    user = False
    for at in range(len(found) - 1, -1, -1):
        if not ALLOCATES.fullmatch(found[at].function):
            user = True
        elif user:
            return found[at + 1:]
    return found or [NOWHERE]


class Names:
    """The functions of stacks, each found once."""

    def __init__(self) -> None:
        self._found: dict[int, tuple[str, ...]] = {}  # by identity: a stack is compared slowly

    def of(self, entry: Entry) -> tuple[str, ...]:
        key = id(entry.stack)
        if key not in self._found:
            self._found[key] = tuple(line.function for line in frames(entry.stack))
        return self._found[key]


@dataclass
class Function:
    name: str
    own: list[float]  # by column: allocated by itself
    total: list[float]  # and by what it calls
    freed: float = 0
    elsewhere: float = 0
    lifetime_ms: float = 0
    caches: dict[str, float] = field(default_factory=dict)  # of the total's first column

    def elsewhere_share(self) -> float | None:
        """Of the objects that were freed, those freed by another CPU. None: none was, or a difference has no share."""
        return self.elsewhere / self.freed if 0 <= self.elsewhere <= self.freed > 0 else None

    def mean_lifetime_ms(self) -> float | None:
        return self.lifetime_ms / self.freed if self.freed > 0 and self.lifetime_ms >= 0 else None


def _add(to: list[float], values: Sequence[float]) -> None:
    for i, value in enumerate(values):
        to[i] += value


def by_function(profile: Profile, columns: Sequence[Column]) -> list[Function]:
    """In no order. Shares and lifetimes are those of the total."""
    names, found = Names(), dict[str, Function]()
    for entry in profile.entries:
        values = [entry.value(*column) for column in columns]
        stack = names.of(entry)
        for name in set(stack):
            one = found.get(name)
            if one is None:
                one = found[name] = Function(name, [0.0] * len(columns), [0.0] * len(columns))
            _add(one.total, values)
            one.freed += entry.freed
            one.elsewhere += entry.elsewhere
            one.lifetime_ms += entry.lifetime_ms
            one.caches[entry.cache] = one.caches.get(entry.cache, 0) + values[0]
        _add(found[stack[0]].own, values)
    return list(found.values())


def by_stack(profile: Profile, columns: Sequence[Column]) -> Iterator[tuple[tuple[str, ...], list[float]]]:
    """Names, the outermost first, in the order of the profile."""
    names, found = Names(), dict[tuple[str, ...], list[float]]()
    for entry in profile.entries:
        sums = found.setdefault(names.of(entry), [0.0] * len(columns))
        _add(sums, [entry.value(*column) for column in columns])
    for stack, sums in found.items():
        yield stack[::-1], sums
