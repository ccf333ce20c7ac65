# SPDX-License-Identifier: MIT
"""The results of suite `mmap2`: its tables, its pictures, and the kernel's figures next to ours."""
from __future__ import annotations

from typing import Any


from ..document import Document
from ..seeds import SPARE, SPARE_COUNTS, SPARE_DELTAS, TREE_DELTAS
from ..svg import Panel, figure
from . import histories
from .cells import NOTHING, intervals, notes as failed_and_missing
from .spaces import (BASELINE, NONE, WHO, bars, ours, percent, rate_rows, ratio_of)
from .suite import Table

CAPACITIES = (64, 128, 256)
OWN, NO_RULE = ours(), ours(spare=False)
ENTRIES = [OWN, NO_RULE, *(ours(capacity) for capacity in CAPACITIES), BASELINE, NONE]
EVENTS = ("replace_empty_main", "barn_put_empty", "barn_replace_empty", "barn_get_empty",
          "rcu_reuse", "barn_get", "barn_put", "sheaf_refill", "sheaf_flush", "alloc_slab",
          "alloc_fastpath", "alloc_slowpath", "free_rcu_sheaf", "free_rcu_sheaf_fail")
COUNTS = ("no rule", "rule")
NS = "ns/map"
COUNT_KEY = "counts per map"


def _tasks(document: Document) -> list[int]:
    return sorted({result.params["tasks"] for result in document.results
                   if "tasks" in result.params})


def _columns(document: Document) -> list[dict[str, Any]]:
    return [{"tasks": tasks} for tasks in _tasks(document)]


def ratio_rows(document: Document) -> list[list[str]]:
    return [[str(params["tasks"]), ratio_of(document, OWN, NO_RULE, params),
             *(ratio_of(document, ours(capacity), OWN, params) for capacity in CAPACITIES),
             *(ratio_of(document, OWN, other, params) for other in (BASELINE, NONE)),
             ratio_of(document, BASELINE, OWN, params, NS)] for params in _columns(document)]


RATIO_HEADER = ["tasks", "spare rule /\nno rule", *(f"sheaf {capacity} /\nsheaf 32"
                                                   for capacity in CAPACITIES),
                "sheaf 32 /\ncpu-slab", "sheaf 32 /\nno-sheaf",
                "CPU time:\ncpu-slab /"]
KERNEL_HEADER = ["tasks", "spare rule,\nGranite Rapids", "spare rule,\nAMD EPYC",
                 "sheaves,\nno rule", "with\nrule", "capacity\n64", "128", "256"]
HERE_HEADER = ["tasks", "spare rule", "sheaves,\nno rule", "with\nrule", "capacity\n64", "128",
               "256"]


def kernel_rows() -> list[list[str]]:
    def cell(found: dict[int, float], tasks: int) -> str:
        return f"{found[tasks]:+.1f} %" if tasks in found else NOTHING

    rows = []
    for tasks in SPARE_DELTAS["AMD EPYC"]:
        rows.append([str(tasks), *(cell(SPARE_DELTAS[machine], tasks)
                                   for machine in ("Granite Rapids", "AMD EPYC")),
                     *(cell(found, tasks) for found in TREE_DELTAS.values())])
    return rows


def here_rows(document: Document) -> list[list[str]]:
    return [[str(params["tasks"]), percent(document, OWN, NO_RULE, params),
             *(percent(document, one, BASELINE, params)
               for one in (NO_RULE, OWN, *(ours(capacity) for capacity in CAPACITIES)))]
            for params in _columns(document)]


def count_rows(document: Document) -> list[list[str]]:
    found = document.machine.get(COUNT_KEY, {})
    rows = []
    for event in EVENTS:
        if any(one.get(event) for one in found.values()):
            kernel = [f"{SPARE_COUNTS[rule][event]:.4f}" if event in SPARE_COUNTS[rule] else NOTHING
                      for rule in COUNTS]
            rows.append([event, *kernel, *(f"{one.get(event, 0):.4f}" for one in found.values())])
    return rows


def count_header(document: Document) -> list[str]:
    found = document.machine.get(COUNT_KEY, {})
    return ["", "kernel:\nno rule", "kernel:\nrule", *found]


RATES = "millions of maps per second, each with its unmap"
COUNT_TITLE = "Events per map with its unmap, in both caches; one more run with stats=live"


def tables(document: Document) -> list[Table]:
    columns = _columns(document)
    found = histories.rows(document)
    of_histories = [(histories.title(document), histories.HEADER, found)] if found else []
    return [
        (f"{RATES}, by number of tasks\n{intervals(document, 'mmap2')}",
         ["tasks", *map(str, _tasks(document))], rate_rows(document, ENTRIES, columns)),
        (f"ns of CPU time for a map with its unmap, by number of tasks\n{intervals(document, 'mmap2')}",
         ["tasks", *map(str, _tasks(document))], rate_rows(document, ENTRIES, columns, NS)),
        ("ratios of those rates; above 1 the first is faster",
         RATIO_HEADER, ratio_rows(document)),
        ("The kernel: more maps per second by the spare rule, and by maple nodes in sheaves over\n"
         "those in CPU slabs", KERNEL_HEADER, kernel_rows()),
        ("Here: the same questions; sheaves over cpu-slab",
         HERE_HEADER, here_rows(document)),
        (COUNT_TITLE, count_header(document), count_rows(document)), *of_histories]


COUNTS_SAID = [
    "Kernel: " + SPARE.origin() + "; 25 s on 192 cores. Calls of every cache.",
    "A map takes one mapping object and one node here, an unmap one node. All three are "
    "retired, and a sheaf of 32 is used up after 32 of them: so 3/32 = 0.094 times per map, an "
    "allocation finds main and spare empty. In the kernel it was 0.0855: 2.7 objects of sheaves "
    "of 32.",
    "The difference: in the kernel, a sheaf whose grace period has passed goes into the barn, "
    "and an allocation exchanges its empty main for it there (barn_replace_empty). Here the CPU "
    "takes it from the queue of what it retired itself (rcu_reuse), without the barn. By the "
    "spare rule the empty main becomes the spare, and this empty spare becomes the next "
    "rcu_free sheaf: no empty sheaf goes into the barn or out of it, while the kernel takes one "
    "out each time. Without the rule the empty main goes to the barn, and the rcu_free sheaf "
    "comes from there.",
    "kernel's nodes: as many tasks as CPUs, the tree built with the kernel's rules for "
    "splitting, joining and preallocating nodes. When it maps at one place, it needs the same "
    "nodes.",
    "sheaf_refill counts objects from slabs while no grace period has passed yet. The longer "
    "grace periods last, the more there are; they return to the slabs (sheaf_flush) when fewer "
    "are needed."]


def notes(document: Document) -> list[str]:
    return [*COUNTS_SAID, *histories.notes(document), WHO,
            "A sample is the rate of a process's upper-decile window, which lasts 3 ms, or 20 ms "
            "with more tasks than CPUs. CPU time is that of the whole process, grace periods "
            "included, without the time that other processes took.",
            *failed_and_missing(document)]


def pictures(document: Document) -> list[str]:
    panels = [Panel(f"{params['tasks']} task{'s' * (params['tasks'] > 1)}", i % 2, i // 2,
                    bars(document, ENTRIES, params))
              for i, params in enumerate(_columns(document))]
    return [figure("maps per second for each number of tasks and allocator", panels, "M/s",
                   [f"{RATES[0].upper()}{RATES[1:]}; longer is better. Whiskers: 95 % interval "
                    "of the median."])]
