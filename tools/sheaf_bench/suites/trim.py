# SPDX-License-Identifier: MIT
"""Suite `trim`: how memory goes back over time.

Objects are allocated and written, most of them are freed in random order, then the rest. The program
lives on with little to do, or sleeps. Then each library is asked to return memory, and as many objects
are allocated again. Resident memory is measured all along, and the longest calls on the way.
"""
from __future__ import annotations

from typing import Any

from sheaf_tool.stats import Estimate, median
from sheaf_tool.table import stacked

from ..allocators import ONE_SIZE, OURS, peers, ready, versions
from ..document import Document
from ..svg import COLOURS, Line, LinePanel, line_figure
from .bulk import with_options
from .cells import Cell, Part, intervals, measure
from .suite import Settings, Suite, Table, missing_lines

MIB, QUICK_MIB = 1024, 256
LIVE, QUICK_LIVE = 60000, 12000  # ms
REPEAT, QUICK_REPEAT, QUICK_SECONDS = 3, 2, 240.0
RESIDENT, SECONDS, LONGEST = "MiB", "s", "ms/16 calls"
BACKGROUND = f"{OURS}, background"
PHASES = {"grow": "all\nallocated", "most": "95 %\nfreed", "free": "all\nfreed", "live": "at the\nend of life",
          "trim": "after\ntrimming"}


def record(document: Document, params: dict[str, Any], lines: list[str]) -> None:
    """One process's lines: phase, the completed part of it, seconds, resident bytes, longest block in ns."""
    longest: dict[str, float] = {}
    lasted: dict[str, float] = {}
    for line in lines:
        phase, done, seconds, resident, block = line.split()
        # Looks of a life are at different times in each run: to the nearest hundredth.
        point = {**params, "phase": phase, "at": min(round(float(done), 2), 1.0)}
        document.result("resident", point, RESIDENT).samples.append(int(resident) / (1 << 20))
        longest[phase] = max(longest.get(phase, 0.0), float(block) / 1e6)
        lasted[phase] = float(seconds)
    for phase, seconds in lasted.items():
        document.result("time", {**params, "phase": phase}, SECONDS).samples.append(seconds)
        document.result("longest", {**params, "phase": phase}, LONGEST).samples.append(longest[phase])


def _arguments(mib: int, live: int) -> tuple[str, ...]:
    return ("--mib", str(mib), "--live", str(live))


def _run(settings: Settings, machine: dict[str, Any]) -> Document:
    found, missing = ready("trim", settings.workers, ONE_SIZE)
    wanted = [OURS, *peers([worker.name for worker in found])]
    workers = [worker for worker in found if worker.name in wanted]
    mib, live = (QUICK_MIB, QUICK_LIVE) if settings.quick else (MIB, LIVE)
    document = Document("trim", {**machine, "versions": versions(workers), "missing": missing,
                                 "mib": mib, "live_ms": live})
    arguments = _arguments(mib, live)
    cells = [Cell(worker, {"allocator": worker.name, "background": False}, arguments, record)
             for worker in workers]
    cells += [Cell(with_options(worker, "background"), {"allocator": OURS, "background": True},
                   (*arguments, "--sleep"), record, BACKGROUND)
              for worker in workers if worker.name == OURS]
    measure(document, settings, [Part(cells, REPEAT, QUICK_REPEAT, QUICK_SECONDS)])
    return document


def _kinds(document: Document) -> list[tuple[str, dict[str, Any]]]:
    found = {(result.params["allocator"], result.params["background"]) for result in document.results}
    return [(BACKGROUND if thread else name, {"allocator": name, "background": thread})
            for name in document.allocators() for thread in (False, True) if (name, thread) in found]


def _of(document: Document, unit: str, **params: Any) -> Estimate:
    return median(document.samples(unit, **params))


def _rows(document: Document) -> list[list[str]]:
    rows = []
    for title, of in _kinds(document):
        again, first = (_of(document, SECONDS, **of, phase=phase).value for phase in ("again", "grow"))
        longest = max(_of(document, LONGEST, **of, phase=phase).value for phase in ("most", "free", "live"))
        rows.append([title, *(stacked(_of(document, RESIDENT, **of, phase=phase, at=1.0)) for phase in PHASES),
                     f"{longest:.1f}", f"{again / first:.2f}"])
    return rows


def _tables(document: Document) -> list[Table]:
    header = ["", *PHASES.values(), "longest\n16 calls, ms", "again /\nfirst time"]
    return [("resident MiB while memory goes back", header, _rows(document))]


def _points(document: Document, of: dict[str, Any]) -> list[tuple[float, float]]:
    """Seconds since all was freed, and MiB."""
    return sorted((result.params["at"] * document.machine["live_ms"] / 1000, median(result.samples).value)
                  for result in document.results if result.unit == RESIDENT
                  and result.params["phase"] == "live"
                  and all(result.params[key] == value for key, value in of.items()))


def _pictures(document: Document) -> list[str]:
    lines = [Line(title, _points(document, of), "ours" if title == OURS else f"l{i % COLOURS}", [])
             for i, (title, of) in enumerate(_kinds(document))]
    return [line_figure("resident memory after all was freed", [LinePanel("", 0, 0, lines)], ("s", "MiB"), [])]


def _notes(document: Document) -> list[str]:
    return [f"{document.machine['mib']} MiB of objects of 64 bytes, each byte written; 95 % freed in random order, "
            f"then the rest; {document.machine['live_ms'] / 1000:g} s with 512 allocations and frees every 0.1 s "
            f"({BACKGROUND}: without a call); {intervals(document)}.",
            "Longest: CPU time of 16 calls while objects are freed and while memory goes back. Again: CPU time to "
            "allocate and write as many objects after trimming, beside the first time."] + missing_lines(document.machine)


def _works(_: dict[str, Any], __: bool) -> list[tuple[str, tuple[str, ...]]]:
    return [("grow and free", _arguments(64, 1))]


SUITE = Suite("trim", "how memory goes back over time, and what calls take meanwhile",
              "Objects of 64 bytes are allocated and written; most are freed in random order, then the rest. The "
              "program lives on with little to do; each library is asked to return memory; then as many are allocated.",
              _run, _pictures, _tables, _notes, _works, ONE_SIZE)
