# SPDX-License-Identifier: MIT
"""The reasons for a figure: the library's counts while it does the same work once more.

A suite names the work; each is run once with SHEAF_OPTIONS=stats=live, after all timed runs, and
the worker prints its statistics in Prometheus' format when it ends, which separates events from settings.
The result is events per 1000 allocations.
"""
from __future__ import annotations

import re
from collections import Counter
from dataclasses import replace
from itertools import chain
from typing import TYPE_CHECKING, Any, Sequence

from sheaf_tool.errors import Failure
from sheaf_tool.table import fold, number

from .allocators import OURS, Worker
from .document import Document
from .html import escape, table as html_table
from .progress import Progress

if TYPE_CHECKING:  # the suites import this module
    from .suites.suite import Settings

CACHE = "bench"
KMALLOC = "kmalloc-"  # the caches of kmalloc, taken together
EVENT = re.compile(r'sheaf_cache_(\w+)_total\{cache="([^"]*)",id="\d+"\} (\d+)')
KEY = "counters"
TITLE = "What sheaves did: events per 1000 allocations, in one more run each with stats=live"


def counted(worker: Worker) -> Worker:
    environment = (*worker.allocator.environment, ("SHEAF_OPTIONS", "stats=live"),
                   ("BENCH_COUNTERS", "1"))
    return Worker(replace(worker.allocator, environment=environment), worker.program,
                  worker.library)


def parse(lines: Sequence[str]) -> dict[str, float]:
    """Events per 1000 allocations, from a worker's lines."""
    found: Counter[str] = Counter()
    for event, cache, count in (match.groups() for match in map(EVENT.fullmatch, lines) if match):
        if cache == CACHE or cache.startswith(KMALLOC):
            found[event] += int(count)
    if not found:
        raise Failure(f"the worker's statistics have no counts of a cache \"{CACHE}\"")
    allocations = found["alloc_fastpath"] + found["alloc_slowpath"]
    if not allocations:
        raise Failure("the worker allocated nothing that was counted")
    return {event: count * 1000 / allocations for event, count in found.items()
            if count and event not in ("alloc_fastpath", "free_fastpath")}


def add(document: Document, settings: Settings, workers: Sequence[Worker],
        works: Sequence[tuple[str, tuple[str, ...]]]) -> None:
    """Do each work (a title and the worker's arguments) once, and record the counts. Against another
    build nothing is counted: there is nothing to interleave."""
    if settings.against:
        return
    (ours,) = [worker for worker in workers if worker.name == OURS]
    worker = counted(ours)
    document.machine[KEY] = {}
    with Progress(len(works)) as progress:
        for title, arguments in works:
            progress.start(f"counters: {title}")
            document.machine[KEY][title] = parse(worker.run(*arguments))
            progress.finish()


def _rows(found: dict[str, dict[str, float]]) -> list[list[str]]:
    """Each work has the events that happened in it."""
    events = list(dict.fromkeys(chain(*found.values())))
    return [[event, *(number(work.get(event, 0)) for work in found.values())] for event in events]


def text(document: Document) -> str:
    found: dict[str, Any] = document.machine.get(KEY, {})
    return f"{TITLE}\n\n{fold(['', *found], _rows(found))}" if found else ""


def html(document: Document) -> str:
    found: dict[str, Any] = document.machine.get(KEY, {})
    return f"<h3>Counters</h3><p>{escape(TITLE)}</p>" + html_table(["", *found], _rows(found)) \
        if found else ""
