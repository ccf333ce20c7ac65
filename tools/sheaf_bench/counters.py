# SPDX-License-Identifier: MIT
"""Why a figure is what it is: what the library counted while it did the same work once more.

A suite names the work; each is run once with SHEAF_OPTIONS=stats=live, after all that is timed, and
the worker prints its statistics as JSON when it ends. What is kept are events per 1000 allocations.
"""
from __future__ import annotations

import json
from dataclasses import replace
from typing import Any, Sequence

from sheaf_tool.errors import Failure
from sheaf_tool.table import fold, number

from .allocators import OURS, Worker
from .document import Document
from .html import escape, table as html_table
from .progress import Progress

CACHE = "bench"
KMALLOC = "kmalloc-"  # the caches of kmalloc, taken together
EVENTS = ("alloc_slowpath", "free_slowpath", "replace_empty_main", "replace_full_main", "barn_get",
          "barn_get_fail", "barn_put", "barn_put_fail", "barn_get_empty", "barn_put_empty",
          "barn_replace_empty", "barn_replace_full", "sheaf_refill", "sheaf_flush", "sheaf_alloc",
          "sheaf_free", "alloc_slab", "free_slab", "free_add_partial", "cmpxchg_double_fail",
          "free_rcu_sheaf", "free_rcu_sheaf_fail", "rcu_reuse", "rcu_flush", "rcu_over_limit",
          "sheaf_prefill_fast", "sheaf_prefill_slow", "sheaf_prefill_oversize",
          "sheaf_return_fast", "sheaf_return_slow")
KEY = "counters"
TITLE = "What sheaves did: events per 1000 allocations, of one further run each with stats=live"


def counted(worker: Worker) -> Worker:
    environment = (*worker.allocator.environment, ("SHEAF_OPTIONS", "stats=live"),
                   ("BENCH_COUNTERS", "1"))
    return Worker(replace(worker.allocator, environment=environment), worker.program,
                  worker.library)


def parse(lines: Sequence[str]) -> dict[str, float]:
    """Events per 1000 allocations, from a worker's lines: the JSON comes last."""
    begin = next((i for i, line in enumerate(lines) if line.startswith("{")), None)
    if begin is None:
        raise Failure("the worker printed no statistics")
    caches = [cache for cache in json.loads("\n".join(lines[begin:]))["caches"]
              if cache["name"] == CACHE or cache["name"].startswith(KMALLOC)]
    if not any("alloc_fastpath" in cache for cache in caches):
        raise Failure(f"the worker's statistics count nothing of a cache \"{CACHE}\"")
    found = {event: sum(cache.get(event, 0) for cache in caches)
             for event in ("alloc_fastpath", *EVENTS)}
    allocations = found["alloc_fastpath"] + found["alloc_slowpath"]
    if not allocations:
        raise Failure("the worker allocated nothing that was counted")
    return {event: found[event] * 1000 / allocations for event in EVENTS}


def add(document: Document, workers: Sequence[Worker], works: Sequence[tuple[str, tuple[str, ...]]],
        ) -> None:
    """Do each work (a title and the worker's arguments) once, and keep what was counted."""
    (ours,) = [worker for worker in workers if worker.name == OURS]
    worker = counted(ours)
    document.machine[KEY] = {}
    with Progress(len(works)) as progress:
        for title, arguments in works:
            progress.start(f"counters: {title}")
            document.machine[KEY][title] = parse(worker.run(*arguments))
            progress.finish()


def _rows(found: dict[str, dict[str, float]]) -> list[list[str]]:
    """Older results have fewer events."""
    events = [event for event in EVENTS if any(work.get(event) for work in found.values())]
    return [[event, *(number(work.get(event, 0)) for work in found.values())] for event in events]


def text(document: Document) -> str:
    found: dict[str, Any] = document.machine.get(KEY, {})
    return f"{TITLE}\n\n{fold(['', *found], _rows(found))}" if found else ""


def html(document: Document) -> str:
    found: dict[str, Any] = document.machine.get(KEY, {})
    return f"<h3>Counters</h3><p>{escape(TITLE)}</p>" + html_table(["", *found], _rows(found)) \
        if found else ""
