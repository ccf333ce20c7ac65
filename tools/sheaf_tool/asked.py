# SPDX-License-Identifier: MIT
"""The caches of a process that counts nothing, and so has no file of counters: it tells them through its control socket."""
from __future__ import annotations

import json
from typing import Any

from . import control, shared
from .errors import Failure
from .forms import has_form
from .process import EVENTS, MEMORY, Cache, Process, Reading

NEXT = 1.0  # seconds that a later answer may take
WORDS = "backend", "index", "options"
FORM = {**{name: str for name in WORDS}, **{name: int for name in (*MEMORY, "cpus", "nodes")}, "caches": [
    {"name": str, **{name: int for name in (
        "id", "object_size", "sheaf_capacity", "destroyed", "objects_in_use", "objects_in_sheaves", "slabs", "slab_bytes",
        "peak_slab_bytes", "waste_bytes")}}]}
LETTERS = {"F": "sanity_checks", "Z": "red_zone", "P": "poison", "U": "store_user", "T": "trace", "A": "failslab"}


def _cache(found: dict[str, Any]) -> Cache:
    numbers = {name: value for name, value in found.items() if isinstance(value, int)}
    return Cache(found["name"], found["id"], numbers, numbers, {name: numbers[name] for name in EVENTS & numbers.keys()},
                 letters="".join(letter for letter, name in LETTERS.items() if numbers.get(name)))


class Asked:
    """Like Process. Without events there are no rates and no peaks."""

    def __init__(self, pid: int, timeout: float) -> None:
        self.pid, self.command, self._timeout = pid, shared.command_of(pid), timeout
        self._last: Reading | None = None

    def __enter__(self) -> Asked:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def runs(self) -> bool:
        return shared.runs(self.pid)

    def read(self) -> Reading:
        """The last state, if the process was idle since: then nothing changed but by fast paths."""
        try:
            self._last = self._ask(min(self._timeout, NEXT) if self._last else self._timeout)
        except Failure as failure:
            if not self._last or (self.runs() and not isinstance(failure, control.Idle)):
                raise
        return self._last

    def _ask(self, timeout: float) -> Reading:
        try:
            found = json.loads(control.ask(self.pid, "stats", None, timeout))
        except (ValueError, RecursionError):
            found = None
        if not has_form(found, FORM):
            raise control.not_understood(self.pid)
        memory = {name: value for name, value in found.items() if isinstance(value, int) and name.endswith("bytes") or name in MEMORY}
        return Reading(self.pid, self.command, *(found[name] for name in WORDS), found["cpus"], found["nodes"],
                       [_cache(cache) for cache in found["caches"]], memory)


def look_at(pid: int, timeout: float) -> Process | Asked:
    try:
        return Process(pid)
    except shared.NoStatistics:
        return Asked(pid, timeout)
