# SPDX-License-Identifier: MIT
"""Suite `failing`: what calls cost that fail: allocations at a limit, and frees that are refused.

The same calls beside 1 to 10,000 caches, and beside 1 to a million partial slabs, so that what depends on
their number shows: in ns of CPU time, and in steps of the simulator, which also counts for how many of them
a lock is held, that is, how long another thread waits at most. Of other allocators, a large block at
RLIMIT_AS.
"""
from __future__ import annotations

import statistics
from typing import Any

from sheaf_tool.stats import median

from ..allocators import ALLOCATORS, OURS, Worker, ready, versions
from ..document import Document
from ..svg import Bar, Panel, figure
from .bulk import with_options
from .cells import NOTHING, Cell, Part, cell, intervals, measure, notes, ratio_cell, samples
from .suite import Settings, Suite, Table

NS, STEPS, HELD = "ns/call", "steps/call", "steps/hold"
NAME = "failing"
ORDER = "slab_max_order=0"  # slabs of two objects, so that a million are quickly made
SITUATIONS = ((1, 1), (100, 1), (10_000, 1), (1, 1000), (1, 1_000_000))  # caches, partial slabs
LIMITS = {"cache": "cache", "group": "group", "process": "process", "pages": "RLIMIT_DATA",
          "addresses": "RLIMIT_AS"}
CALLS = {"GFP_NOWAIT": "GFP_NOWAIT", "GFP_KERNEL": "GFP_KERNEL", "after": "after a free"}
MISUSES = {"foreign": "no object", "kfree-foreign": "no object, kfree()", "interior": "inside an object",
           "large-interior": "inside a large block", "double": "free already", "wrong-cache": "another cache's",
           "null": "the cache is NULL", "destroyed": "the cache was destroyed",
           "foreign-elsewhere": "no object, in turn"}
REPORTED = "-reported"
CHECKS = ("slab_check_double", "slab_debug=FZPU")
CHECKED = ("foreign", "interior", "double", "wrong-cache")
PEERS_CALL = "addresses-GFP_KERNEL"


def _keep_times(document: Document, params: dict[str, Any], lines: list[str]) -> None:
    found: dict[str, list[float]] = {}
    for line in lines:
        call, time = line.split()
        found.setdefault(call, []).append(float(time))
    for call, times in found.items():
        document.result(NAME, {**params, "call": call}, NS).samples.append(statistics.median(times))


def _keep_steps(document: Document, params: dict[str, Any], lines: list[str]) -> None:
    for line in lines:
        call, steps, held = line.split()
        for unit, value in ((STEPS, steps), (HELD, held)):
            document.result(NAME, {**params, "call": call}, unit).samples.append(float(value))


def _arguments(caches: int, slabs: int) -> tuple[str, ...]:
    return ("--caches", str(caches), "--slabs", str(slabs))


def _cells(worker: Worker, keep: Any) -> list[Cell]:
    return [Cell(worker, {"allocator": OURS, "caches": caches, "slabs": slabs},
                 (*_arguments(caches, slabs), *part), keep, f"{caches} caches, {slabs} slabs{''.join(part)}")
            for caches, slabs in SITUATIONS for part in ((), ("--misuse",))]


def _checked_cells(worker: Worker) -> list[Cell]:
    """Each kind of misuse in a process of its own: with checks, several are reported alike."""
    return [Cell(with_options(worker, ORDER, check), {"allocator": OURS, "check": check},
                 ("--misuse", "--sheaves", "--only", misuse), _keep_times, f"{check}, {misuse}")
            for check in CHECKS for misuse in CHECKED]


def _simulated(settings: Settings) -> list[Worker]:
    """Beside the benchmarks, or where they are installed."""
    ours = next(one for one in ALLOCATORS if one.name == OURS)
    places = (settings.workers.parent / "sim" / "failing-sim", settings.workers / "failing-sim")
    return [Worker(ours, place, None) for place in places if place.exists()][:1]


def _run(settings: Settings, machine: dict[str, Any]) -> Document:
    workers, missing = ready(NAME, settings.workers)
    simulated = _simulated(settings)
    if not simulated:
        missing = {**missing, "the simulator": "no steps are counted: build with Meson's option -Dsim=true"}
    document = Document(NAME, {**machine, "versions": versions(workers), "missing": missing})
    ours = next(worker for worker in workers if worker.name == OURS)
    peers = [Cell(worker, {"allocator": worker.name}, (), _keep_times) for worker in workers if worker.name != OURS]
    times = [*_cells(with_options(ours, ORDER), _keep_times), *_checked_cells(ours), *peers]
    measure(document, settings, [Part(times, 15, 6, 45.0)])
    # They are the same each time.
    once = Settings(settings.workers, settings.quick, 1, settings.against)
    for worker in simulated:
        measure(document, once, [Part(_cells(worker, _keep_steps), 1, 1, 0.0)])
    return document


def _found(document: Document, unit: str, call: str, situation: tuple[int, int]) -> list[float]:
    caches, slabs = situation
    return document.samples(unit, allocator=OURS, call=call, caches=caches, slabs=slabs)


def _title(situation: tuple[int, int]) -> str:
    caches, slabs = situation
    if caches > 1:
        return f"{caches:,}\ncaches"
    return f"{slabs:,}\nslabs" if slabs > 1 else "1 cache,\n1 slab"


def null_rows(document: Document) -> list[list[str]]:
    return [[limit, call, *(cell(_found(document, NS, f"{key}-{way}", one)) for one in SITUATIONS)]
            for key, limit in LIMITS.items() for way, call in CALLS.items()]


def misuse_rows(document: Document) -> list[list[str]]:
    return [[text, cell(_found(document, NS, key + REPORTED, SITUATIONS[0])) if key != "foreign-elsewhere" else NOTHING,
             *(cell(_found(document, NS, key, one)) for one in SITUATIONS)] for key, text in MISUSES.items()]


def _steps(document: Document, call: str, situation: tuple[int, int]) -> str:
    steps, held = (_found(document, unit, call, situation) for unit in (STEPS, HELD))
    return f"{steps[0]:g} / {held[0]:g}" if steps else NOTHING


def steps_rows(document: Document) -> list[list[str]]:
    calls = [(f"NULL: {limit}, {call}", f"{key}-{way}") for key, limit in LIMITS.items()
             for way, call in CALLS.items()]
    calls += [(f"free: {text}", key) for key, text in MISUSES.items()]
    return [[text, *(_steps(document, call, one) for one in SITUATIONS)] for text, call in calls]


def checked_rows(document: Document) -> list[list[str]]:
    return [[MISUSES[key], *(cell(samples(document, NAME, allocator=OURS, check=check, call=key + which))
                             for check in CHECKS for which in (REPORTED, ""))] for key in CHECKED]


def _large(document: Document, name: str) -> list[float]:
    if name == OURS:
        return _found(document, NS, PEERS_CALL, SITUATIONS[0])
    return samples(document, NAME, allocator=name, call=PEERS_CALL)


def peer_rows(document: Document) -> list[list[str]]:
    return [[name, cell(_large(document, name)), ratio_cell(_large(document, OURS), _large(document, name))]
            for name in document.allocators() if _large(document, name)]


TITLES = [_title(one) for one in SITUATIONS]


def _tables(document: Document) -> list[Table]:
    return [("NULL: ns of CPU time of an allocation that fails\n" + intervals(document, NAME),
             ["limit", "call", *TITLES], null_rows(document)),
            ("misuse: ns of CPU time of a free that is refused\n" + intervals(document, NAME), ["what is freed", "reported", *TITLES],
             misuse_rows(document)),
            ("misuse of checked caches: ns of CPU time of a free that is refused\n" + intervals(document, NAME),
             ["what is freed", *(f"{check},\n{which}" for check in CHECKS for which in ("reported", "left out"))],
             checked_rows(document)),
            ("steps of a call / for how many of them it holds one lock", ["", *TITLES], steps_rows(document)),
            ("NULL at RLIMIT_AS: ns of CPU time, a block of 64 MiB", ["", "ns", "sheaf / it"], peer_rows(document))]


def _notes(document: Document) -> list[str]:
    return ["The limit is that of the cache, of a group or of the process, or the system's: with RLIMIT_DATA it makes "
            "no more memory writable; with RLIMIT_AS it gives no addresses for a block of 64 MiB. after a free: "
            "GFP_KERNEL, and another cache allocated and freed an object since the last failure, so that it is emptied "
            "again. slabs: partial ones, of that cache or of the one that is misused.",
            "reported: the first five of a kind, whose text is made, with a stack, and passed to a function of the "
            "program that ignores it. Otherwise: those that are counted and left out. in turn: to one cache after the "
            "other, each of which was misused before; each pair of a kind of misuse and a cache is counted.",
            "A step is an atomic operation, a lock or a call of the system, as the simulator counts them. Another thread "
            "waits for at most as many of them as the call holds the lock.",
            *notes(document)]


def _pictures(document: Document) -> list[str]:
    panels = [Panel(limit, place % 2, place // 2,
                    [Bar(_title(one).replace("\n", " "), median(found), "ours" if one == SITUATIONS[0] else "variant")
                     for one in SITUATIONS if (found := _found(document, NS, f"{key}-after", one))])
              for place, (key, limit) in enumerate(LIMITS.items())]
    return [figure("ns of an allocation that fails after a free", panels, "ns", ["ns of CPU time; shorter is better."])]


SUITE = Suite("failing", "calls that fail: at limits, and refused frees, beside many caches and slabs",
              "Allocations that return NULL at each kind of limit, and frees that are refused, beside 1 to 10,000 caches "
              "and 1 to a million partial slabs: their time, their steps, and how long they hold a lock.",
              _run, _pictures, _tables, _notes, lambda _, __: [])
