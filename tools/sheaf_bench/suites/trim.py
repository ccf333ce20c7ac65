# SPDX-License-Identifier: MIT
"""Suite `trim`: how free memory returns to the system over time.

Objects are allocated and written, and most of them are freed in random order. The program continues with
little to do; the rest is freed, and it continues again. Then each library is asked to return memory, and as
many objects are allocated again. Resident memory is measured all along, and the longest calls on the way.
Allocators that return memory in a thread of their own are measured with it, too: then the program sleeps.
"""
from __future__ import annotations

from typing import Any, Callable

from sheaf_tool.stats import Estimate, median
from sheaf_tool.table import number

from ..allocators import OURS, Worker, ready, versions
from ..document import Document
from ..svg import COLOURS, Line, LinePanel, line_figure
from .bulk import with_environment, with_options
from .cells import NOTHING, Cell, Part, intervals, measure, notes, ratio_cell
from .suite import Settings, Suite, Table

MIB, QUICK_MIB = 1024, 256
LIVE, QUICK_LIVE = 30000, 5000  # ms, twice; the library keeps free memory for a second
REPEAT, QUICK_REPEAT, QUICK_SECONDS = 3, 2, 150.0
RESIDENT, SECONDS, LONGEST = "MiB", "s", "ms/16 calls"
THREADS: dict[str, Callable[[Worker], Worker]] = {
    OURS: lambda worker: with_options(worker, "background"),
    "jemalloc": lambda worker: with_environment(worker, {"MALLOC_CONF": "background_thread:true"}),
}
SIZES = {"64": "objects of 64 bytes", "mixed": "objects of 16 bytes to 4 KiB"}
PROGRAMS = {"64": "trim", "mixed": "trim-mixed"}
PHASES = {"grow": "all\nallocated", "most": "95 %\nfreed", "rest": "{live} s\nlater", "free": "all\nfreed",
          "live": "{live} s\nlater", "trim": "after\ntrimming"}
LIVES = "rest", "live"  # phases that are drawn
CALLS = ("most", "rest", "free", "live")
TENTH = 0.1  # of what was resident when all was allocated


def record(document: Document, params: dict[str, Any], lines: list[str]) -> None:
    """One process's lines: phase, the completed part of it, seconds, resident bytes, longest block in ns."""
    resident: dict[tuple[str, float], float] = {}
    lasted: dict[str, float] = {}
    longest: dict[str, float] = {}
    for line in lines:
        phase, done, seconds, now, block = line.split()
        # Looks of a life are at different times in each run: fifty points, and at each the last one. Of the
        # other phases, the end.
        at = min(round(float(done), 2), 1.0)
        if at == 1.0 or phase in LIVES and round(at * 100) % 2 == 0:
            resident[phase, at] = round(int(now) / (1 << 20), 2)
        lasted[phase] = float(seconds)
        longest[phase] = max(longest.get(phase, 0.0), float(block) / 1e6)
    for (phase, at), mib in resident.items():
        document.result("resident", {**params, "phase": phase, "at": at}, RESIDENT).samples.append(mib)
    for phase, seconds in lasted.items():
        document.result("time", {**params, "phase": phase}, SECONDS).samples.append(seconds)
        document.result("longest", {**params, "phase": phase}, LONGEST).samples.append(longest[phase])


def _arguments(mib: int, live: int) -> tuple[str, ...]:
    return ("--mib", str(mib), "--live", str(live))


def cells(workers: list[Worker], sizes: str, arguments: tuple[str, ...]) -> list[Cell]:
    found = []
    for worker in workers:
        params = {"allocator": worker.name, "sizes": sizes}
        found.append(Cell(worker, {**params, "thread": False}, arguments, record))
        if worker.name in THREADS:
            found.append(Cell(THREADS[worker.name](worker), {**params, "thread": True}, (*arguments, "--sleep"),
                              record))
    return found


def _run(settings: Settings, machine: dict[str, Any]) -> Document:
    mib, live = (QUICK_MIB, QUICK_LIVE) if settings.quick else (MIB, LIVE)
    found = {sizes: ready(program, settings.workers) for sizes, program in PROGRAMS.items()}
    workers, missing = found["64"]
    document = Document("trim", {**machine, "versions": versions(workers), "missing": missing,
                                 "mib": mib, "live_ms": live})
    wanted = [cell for sizes, (workers, _) in found.items() if sizes == "64" or not settings.quick
              for cell in cells(workers, sizes, _arguments(mib, live))]
    measure(document, settings, [Part(wanted, REPEAT, QUICK_REPEAT, QUICK_SECONDS, least_repeat=1)])
    return document


def kinds(document: Document, sizes: str) -> list[tuple[str, dict[str, Any]]]:
    """Title and params of each allocator that was measured, without a thread of its own and with it."""
    found = {(result.params["allocator"], result.params["thread"]) for result in document.results
             if result.params["sizes"] == sizes}
    return [(f"{name}, thread" if thread else name, {"allocator": name, "sizes": sizes, "thread": thread})
            for name in document.allocators() for thread in (False, True) if (name, thread) in found]


def left(document: Document, phase: str, at: float = 1.0, **of: Any) -> Estimate:
    """Resident MiB at this part of a phase."""
    return median(document.samples(RESIDENT, **of, phase=phase, at=at))


def points(document: Document, phase: str, **of: Any) -> list[tuple[float, float]]:
    """Seconds since the phase began, and MiB."""
    return sorted((result.params["at"] * document.machine["live_ms"] / 1000, median(result.samples).value)
                  for result in document.results if result.unit == RESIDENT and result.params["phase"] == phase
                  and of.items() <= result.params.items())


def _seconds_to_tenth(document: Document, of: dict[str, Any]) -> str:
    """Since all was freed."""
    most = TENTH * left(document, "grow", **of).value
    times = [(0.0, left(document, "free", **of).value), *points(document, "live", **of)]
    return next((number(seconds) for seconds, resident in times if resident <= most), NOTHING)


def _longest(document: Document, of: dict[str, Any]) -> float:
    """Whatever else the machine does makes a block longer, so the shortest of all repetitions counts."""
    return max(min(document.samples(LONGEST, **of, phase=phase)) for phase in CALLS)


def rows(document: Document, sizes: str) -> list[list[str]]:
    found = []
    for title, of in kinds(document, sizes):
        again, first = (document.samples(SECONDS, **of, phase=phase) for phase in ("again", "grow"))
        found.append([title, *(number(left(document, phase, **of).value) for phase in PHASES),
                     _seconds_to_tenth(document, of), number(_longest(document, of)), ratio_cell(again, first)])
    return found


def _tables(document: Document) -> list[Table]:
    live = f"{document.machine['live_ms'] / 1000:g}"
    header = ["", *(text.format(live=live) for text in PHASES.values()), "s to\n10 %", "longest\nms",
              "again /\nfirst time"]
    return [(f"resident MiB, {title}\n{intervals(document)}", header, rows(document, sizes))
            for sizes, title in SIZES.items() if kinds(document, sizes)]


def _line(document: Document, title: str, of: dict[str, Any], kind: str) -> Line:
    live = document.machine["live_ms"] / 1000
    drawn = [(0.0, left(document, "most", **of).value), *points(document, "rest", **of)]
    drawn += [(live + at, resident) for at, resident in [(0.0, left(document, "free", **of).value),
                                                         *points(document, "live", **of)]]
    return Line(title, drawn, kind)


def panels(document: Document) -> list[LinePanel]:
    """Resident memory over time, one panel for each kind of sizes. Ours is drawn above the others."""
    others = [name for name in document.allocators() if name != OURS]
    colours = {OURS: "ours", **{name: f"l{i % COLOURS}" for i, name in enumerate(others)}}
    drawn = []
    for sizes, title in SIZES.items():
        shown = sorted(kinds(document, sizes), key=lambda kind: kind[1]["allocator"] == OURS)
        lines = [_line(document, name, of, colours[of["allocator"]]) for name, of in shown]
        if lines:
            drawn.append(LinePanel(title, 0, len(drawn), lines))
    return drawn


def caption(document: Document) -> list[str]:
    live = f"{document.machine['live_ms'] / 1000:g}"
    return [f"Resident MiB since 95 % of {document.machine['mib']} MiB of objects were freed in random order; "
            f"the rest is freed after {live} s. The program has little to do; where the allocator has a "
            "thread, it sleeps."]


def _pictures(document: Document) -> list[str]:
    return [line_figure("resident memory after most was freed, and after all", panels(document), ("s", "MiB"),
                        caption(document))]


def _notes(document: Document) -> list[str]:
    live = f"{document.machine['live_ms'] / 1000:g}"
    return [f"{document.machine['mib']} MiB of objects, each byte written; 95 % freed in random order; {live} s "
            f"with 512 allocations and frees every 0.1 s; the rest freed; {live} s of the same. Mixed sizes: as "
            "many objects in each doubling. thread: the allocator returns memory in a thread of its own "
            "(SHEAF_OPTIONS=background; jemalloc's background_thread), and the program sleeps all the time.",
            "Resident is Rss plus Swap less LazyFree, less what was resident before the allocator's first use. "
            "s to 10 %: after all was freed, of what was resident when all was allocated. Trimming: "
            "sheaf_trim, malloc_trim, or the library's own call.",
            "Longest: CPU time of 16 calls one after the other, after the first phase, in the best repetition: "
            "it contains what the machine does meanwhile. Again: CPU time to allocate and write as many objects "
            "after trimming, beside the first time.", *notes(document)]


def _works(_: dict[str, Any], __: bool) -> list[tuple[str, tuple[str, ...]]]:
    return [("grow and free", _arguments(64, 1))]


SUITE = Suite("trim", "how free memory returns to the system over time, and what calls cost",
              "Objects of 64 bytes, or of mixed sizes, are allocated and written; most are freed in random order, "
              "and the program lives on with little to do; the rest is freed, and it lives on. Then each library "
              "is asked to return memory, and as many objects are allocated again.",
              _run, _pictures, _tables, _notes, _works)
