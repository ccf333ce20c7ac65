# SPDX-License-Identifier: MIT
"""Suite `mmap2`: will-it-scale's mmap2 with the address spaces in user space.

Each task has its own space, with 25 mappings; it repeatedly maps 128 MiB of its file and unmaps
them. All VMAs and all nodes come from two caches. With and without the spare rule, with
larger sheaves, on the three-tier baseline, and without sheaves; and the effect of each map
on the barns.
Then the histories of real programs: histories.py.

The tables and pictures are made in mmap2_report.py.
"""
from __future__ import annotations

import json
from typing import Any, Sequence

from sheaf_tool.errors import Failure

from ..allocators import OURS, Worker
from ..document import Document
from ..progress import Progress
from . import histories
from .cells import Part, measure
from .mmap2_report import COUNTS, COUNT_KEY, ENTRIES, EVENTS, NS, OWN, notes, pictures, tables
from .spaces import NO_SPARE, cells, keep_cpu, with_options, workers
from .suite import Settings, Suite
from .windows import window_arguments

TASKS_A_CPU = 8
KERNEL_RULES = "kernel-rules"  # the tree with the kernel's rules for nodes: maple/src/rules.h
CACHES = ("vma", "maple_node")
COUNT_WINDOWS = ("--window", "20", "--windows", "100")
REPEAT, QUICK_REPEAT, QUICK_SECONDS = 15, 15, 70.0
HISTORIES_QUICK_SECONDS = 40.0


def task_counts(cpus: int, quick: bool) -> list[int]:
    """Powers of two up to eight per CPU; quickly, not all of them."""
    most = TASKS_A_CPU * cpus
    if quick:
        return sorted({1, cpus, 2 * cpus, most})
    counts, tasks = {cpus, most}, 1
    while tasks < most:
        counts.add(tasks)
        tasks *= 2
    return sorted(counts)


def parse_counts(lines: Sequence[str]) -> dict[str, float]:
    """Events of both caches per map, from a worker's lines: the JSON comes last."""
    maps = next((int(line.split()[1]) for line in lines if line.startswith("maps ")), 0)
    begin = next((i for i, line in enumerate(lines) if line.startswith("{")), None)
    if not maps or begin is None:
        raise Failure("the worker printed no maps or no statistics")
    found = [cache for cache in json.loads("\n".join(lines[begin:]))["caches"]
             if cache["name"] in CACHES]
    if len(found) != len(CACHES) or not all("alloc_fastpath" in cache for cache in found):
        raise Failure(f"the worker's statistics have no counts of the caches {', '.join(CACHES)}")
    return {event: sum(cache.get(event, 0) for cache in found) / maps for event in EVENTS}


def count(document: Document, works: Sequence[tuple[str, Worker, int]]) -> None:
    """One further run each with stats=live, with and without the spare rule."""
    found = document.machine[COUNT_KEY] = {}
    with Progress(len(COUNTS) * len(works)) as progress:
        for work, worker, tasks in works:
            for title, options in (("no rule", (NO_SPARE,)), ("rule", ())):
                progress.start(f"counters: {work}, {title}")
                counted = with_options(worker, "stats=live", *options, BENCH_COUNTERS="1")
                found[f"{work}:\n{title}"] = parse_counts(
                    counted.run("--tasks", str(tasks), *OWN.arguments, *COUNT_WINDOWS))
                progress.finish()


def count_works(known: dict[str, Worker], cpus: int, most: int) -> list[tuple[str, Worker, int]]:
    works = [(f"{tasks} task{'s' * (tasks > 1)}", known[OURS], tasks)
             for tasks in sorted({1, cpus, most})]
    return [*works, ("kernel's\nnodes", known[KERNEL_RULES], cpus)]


def _run(settings: Settings, machine: dict[str, Any]) -> Document:
    known = workers("mmap2", settings.workers, KERNEL_RULES)
    document = Document("mmap2", {**machine, "histories": histories.commands()})
    tasks = task_counts(machine["cpus"], settings.quick)
    found = [cell for number in tasks
             for cell in cells(known, ENTRIES, {"tasks": number},
                               ("--tasks", str(number),
                                *window_arguments(number, machine["cpus"], settings.quick)), keep_cpu(NS))]
    replayed = histories.history_cells(workers("maps", settings.workers),
                                       list(document.machine["histories"]), machine["cpus"],
                                       settings.quick)
    measure(document, settings, [Part(found, REPEAT, QUICK_REPEAT, QUICK_SECONDS),
                                 Part(replayed, REPEAT, QUICK_REPEAT, HISTORIES_QUICK_SECONDS)])
    count(document, count_works(known, machine["cpus"], tasks[-1]))
    return document


SUITE = Suite("mmap2",
              "map and unmap in address spaces, and the histories of real programs",
              "The benchmark mmap2 of will-it-scale with the address spaces in user space: "
              "each task maps and unmaps 128 MiB in a space of 25 mappings, again and again. "
              "Mappings and tree nodes come from two caches. Then recorded histories of real "
              "programs are replayed.",
              _run, pictures, tables, notes, lambda _, __: [])
