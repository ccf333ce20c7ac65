# SPDX-License-Identifier: MIT
"""Suite `fork`: address spaces copied by one task and torn down by another.

A fork allocates VMAs and maple nodes in a burst, on one CPU; the child, on another, ends and frees
them all, or becomes another program first (exec): it frees them, and makes a space of 25 mappings
one by one. This is the pattern of perf's fork and execve benchmarks, reduced to the memory of VMAs
and nodes.
"""
from __future__ import annotations

from typing import Any


from ..document import Document
from ..seeds import SYSCALLS
from ..svg import Panel, figure
from .cells import NOTHING, Part, intervals, measure, notes as failed_and_missing
from .spaces import (AS_MADE, BASELINE, NONE, WHO, bars, cells, keep_cpu, ours, percent, rate_rows,
                     ratio_of, workers)
from .suite import Settings, Suite, Table
from .windows import MEAN, window_arguments

DOUBLE = 64
OWN, WIDE = ours(), ours(DOUBLE)
ENTRIES = [AS_MADE, OWN, WIDE, BASELINE, NONE]
WORKS = [("fork", 25), ("fork", 60), ("fork", 300), ("exec", 25)]  # and VMAs of the parent
PAIRS_A_CPU = 2
REPEAT, QUICK_REPEAT, QUICK_SECONDS = 31, 15, 70.0
NS = "ns/fork"
THOUSANDS = 1000.0  # of forks, in a million


def thread_counts(cpus: int) -> list[int]:
    """One pair, and enough pairs for four threads per CPU."""
    return sorted({2, 2 * PAIRS_A_CPU * cpus})


def arguments(work: tuple[str, int], threads: int, cpus: int, quick: bool) -> tuple[str, ...]:
    exec_too = ("--exec",) if work[0] == "exec" else ()
    return ("--vmas", str(work[1]), "--threads", str(threads), *exec_too,
            *window_arguments(threads, cpus, quick))


def params_of(work: tuple[str, int], threads: int) -> dict[str, Any]:
    return {"work": work[0], "vmas": work[1], "threads": threads}


def _run(settings: Settings, machine: dict[str, Any]) -> Document:
    known = workers("fork", settings.workers)
    document = Document("fork", {**machine})
    cpus = machine["cpus"]
    found = [cell for threads in thread_counts(cpus) for work in WORKS
             for cell in cells(known, ENTRIES, params_of(work, threads),
                               arguments(work, threads, cpus, settings.quick), keep_cpu(NS))]
    measure(document, settings, [Part(found, REPEAT, QUICK_REPEAT, QUICK_SECONDS)])
    return document


def _threads(document: Document) -> list[int]:
    return sorted({result.params["threads"] for result in document.results})


def _title(work: tuple[str, int]) -> str:
    return f"{work[0]},\n{work[1]} VMAs"


def _columns(threads: int) -> list[dict[str, Any]]:
    return [params_of(work, threads) for work in WORKS]


RATIO_HEADER = ["threads", "work", "sheaf /\ncpu-slab", "sheaf 32 /\ncpu-slab",
                "sheaf 64 /\ncpu-slab", "sheaf 64 /\nsheaf 32", "sheaf /\nno-sheaf",
                "sheaf /\ncpu-slab,\nby means", "CPU time:\ncpu-slab /"]
SEED_HEADER = ["", *(f"{machine}:\n{call}" for machine, call in SYSCALLS.percent)]


def ratio_rows(document: Document) -> list[list[str]]:
    rows = []
    for threads in _threads(document):
        for work in WORKS:
            found = params_of(work, threads)
            rows.append([str(threads), _title(work),
                         *(ratio_of(document, one, BASELINE, found)
                           for one in (AS_MADE, OWN, WIDE)),
                         ratio_of(document, WIDE, OWN, found),
                         ratio_of(document, AS_MADE, NONE, found),
                         ratio_of(document, AS_MADE, BASELINE, found, MEAN),
                         ratio_of(document, BASELINE, AS_MADE, found, NS)])
    return rows


def seed_rows(document: Document) -> list[list[str]]:
    """The kernel's execve and fork next to ours, of a small process."""
    rows = [["kernel, over\nthe one before",
             *(f"{one:+.1f} %" for one in SYSCALLS.percent.values())]]
    for threads in _threads(document):
        cell = {call: percent(document, AS_MADE, BASELINE, params_of((work, 25), threads))
                for call, work in (("execve", "exec"), ("fork", "fork"))}
        rows.append([f"here, over cpu-slab,\n{threads} threads",
                     *(cell.get(call, NOTHING) for _, call in SYSCALLS.percent)])
    return rows


def _tables(document: Document) -> list[Table]:
    found = [(f"thousands of forks per second, with the end of each child; {threads} threads\n"
              + intervals(document, "fork"),
              ["", *map(_title, WORKS)],
                   rate_rows(document, ENTRIES, _columns(threads), times=THOUSANDS))
             for threads in _threads(document)]
    times = [(f"ns of CPU time for a fork with the end of the child; {threads} threads\n"
              + intervals(document, "fork"),
              ["", *map(_title, WORKS)], rate_rows(document, ENTRIES, _columns(threads), NS))
             for threads in _threads(document)]
    return [*found, *times, ("ratios of those rates; above 1 the first is faster; of CPU time, "
                             "sheaf needs less", RATIO_HEADER, ratio_rows(document)),
            ("The kernel's percentages next to ours", SEED_HEADER, seed_rows(document))]


def _notes(document: Document) -> list[str]:
    return [f"Kernel: {SYSCALLS.origin()}; v7.0-rc5 over v6.19. A fork there also copies page "
            "tables and much else. Here it copies mappings and tree nodes only.",
            "exec: a child of 25 mappings becomes a program of 25 mappings, stored one by one "
            "before any thread reads the space, and ends. Half of the threads fork, half run as "
            "children; at most 8 children of each parent wait.",
            "sheaf: the caches with their default settings: the capacity of sheaves follows the load; "
            "the kernel's is 32 for both. Sheaves move whole groups of objects between CPUs, and the "
            "objects' lines then come from the other CPU's cache. CPU slabs give each CPU its "
            "own objects back. In exec, the child frees what the parent wrote and also "
            "allocates, so both pay for lines; there sheaves gain least.",
            "CPU time is that of the whole process, grace periods included, without the time for "
            "which a thread waits for the other one of its pair.",
            WHO, *failed_and_missing(document)]


def _picture(document: Document, work: tuple[str, int]) -> str:
    """Each work on its own scale."""
    panels = [Panel(f"{work[0]} of {work[1]} VMAs, {threads} threads", column, 0,
                    bars(document, ENTRIES, params_of(work, threads), THOUSANDS))
              for column, threads in enumerate(_threads(document))]
    return figure(f"{work[0]} of {work[1]} VMAs for each number of threads and allocator", panels,
                  "k/s", ["Thousands per second; longer is better. Whiskers: 95 % interval of the "
                          "median."])


def _pictures(document: Document) -> list[str]:
    return [_picture(document, work) for work in WORKS]


SUITE = Suite("fork", "address spaces copied by one task and torn down by another, and exec",
              "One task copies an address space, which allocates mappings and tree nodes in a "
              "burst; another, on another CPU, tears the copy down. With exec the copy first "
              "becomes another program of 25 mappings.",
              _run, _pictures, _tables, _notes, lambda _, __: [])
