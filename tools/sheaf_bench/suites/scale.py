# SPDX-License-Identifier: MIT
"""Suite `scale`: every thread allocates and frees its own batches, from one thread to 16 per CPU.

The suite also measures how much the process's resident memory grew since its threads were ready and
had allocated nothing: after they have worked, and while they sleep after one batch each. Memory that a
malloc took at its start, or to create threads, is not counted.
"""
from __future__ import annotations

from typing import Any

from sheaf_tool.errors import Failure

from ..allocators import HARNESS, ONE_SIZE, OURS, ready, versions
from ..document import Document
from ..svg import Panel, figure
from .cells import NOTHING, intervals, whiskers
from .rates import (WIDE, Params, Row, View, bars, cell, entries, labels, measure, notes,
                    rate_rows, ratio_header, ratio_row)
from .suite import Settings, Suite, Table
from .windows import MEAN, UNIT, keep_rates, window_arguments

RESIDENT = "KiB"
BATCHES = (100, 1000)
IDLE_BATCH = 1000
IDLE_THREADS = 32
IDLE = {"batch": IDLE_BATCH, "threads": IDLE_THREADS, "state": "idle"}
THREADS_A_CPU = 16
REPEAT = 11
QUICK_REPEAT = 6
QUICK_SECONDS = 80.0


def thread_counts(cpus: int, quick: bool) -> list[int]:
    """Powers of two, and the ends; in a quick run one, and one, four and 16 per CPU."""
    most = THREADS_A_CPU * cpus
    if quick:
        return sorted({1, cpus, 4 * cpus, most})
    counts = {1, cpus, most}
    threads = 2
    while threads < most:
        counts.add(threads)
        threads *= 2
    return sorted(counts)


def _threads(number: int) -> str:
    return f"{number} thread{'s' if number > 1 else ''}"


def _params(batch: int, threads: int) -> Params:
    return {"batch": batch, "threads": threads}


def resident(lines: list[str]) -> float:
    for line in lines:
        if line.startswith("resident "):
            return float(line.split()[1])
    raise Failure(f"a line of the resident size was expected, not {lines}")


def _keep(document: Document, params: Params, lines: list[str]) -> None:
    keep_rates(document, "scale", params, lines)
    document.result("scale", params, RESIDENT).samples.append(resident(lines))


def _keep_idle(document: Document, params: Params, lines: list[str]) -> None:
    document.result("scale", params, RESIDENT).samples.append(resident(lines))


def _arguments(batch: int, threads: int) -> list[str]:
    return ["--batch", str(batch), "--threads", str(threads)]


def _rows(cpus: int, quick: bool) -> list[Row]:
    rows = [Row(f"batch {batch}, {_threads(threads)}",
                (*_arguments(batch, threads), *window_arguments(threads, cpus, quick)),
                _params(batch, threads), _keep)
            for batch in BATCHES for threads in thread_counts(cpus, quick)]
    return rows + [Row(f"{IDLE_THREADS} idle threads",
                       (*_arguments(IDLE_BATCH, IDLE_THREADS), "--idle"), IDLE, _keep_idle)]


def _run(settings: Settings, machine: dict[str, Any]) -> Document:
    workers, missing = ready("scale", settings.workers, ONE_SIZE)
    document = Document("scale", {**machine, "versions": versions(workers), "missing": missing})
    measure(document, settings, _rows(machine["cpus"], settings.quick), entries(workers), REPEAT,
            QUICK_REPEAT, QUICK_SECONDS)
    return document


def _counts(document: Document) -> list[int]:
    return sorted({result.params["threads"] for result in document.results if result.unit == UNIT})


def _views(document: Document, unit: str, batch: int, counts: list[int]) -> list[View]:
    return [View(document, unit, _params(batch, threads)) for threads in counts]


def _idle_view(document: Document) -> View:
    return View(document, RESIDENT, IDLE)


def _ratio_rows(document: Document, batch: int) -> list[list[str]]:
    counts = _counts(document)
    means = _views(document, MEAN, batch, counts)
    return [ratio_row(document, str(threads), view, mean) for threads, view, mean
            in zip(counts, _views(document, UNIT, batch, counts), means)]


def _without_harness(document: Document) -> list[str]:
    return [name for name in labels(document) if name != HARNESS]


def _idle_rows(document: Document) -> list[list[str]]:
    view = _idle_view(document)
    best = view.best(min)
    rows = [[name, cell(view.estimate(name))] for name in _without_harness(document)]
    return rows + [[f"{ours} / {best or NOTHING}, the best peer", cell(view.ratio(ours, best))]
                   for ours in (OURS, WIDE)]


MEMORY = "Growth of the process in KiB since its threads were ready, before any allocation: {}"
IDLE_TITLE = MEMORY.format(f"{IDLE_THREADS} threads\nsleep after each allocated and freed "
                           f"{IDLE_BATCH} objects")
IDLE_HEADER = ["", "KiB"]


def _tables(document: Document, batch: int) -> list[Table]:
    """Titles and tables for one batch size."""
    counts = _counts(document)
    header = ["threads", *map(str, counts)]
    return [
        (f"batches of {batch}: millions of pairs per second\n" + intervals(document),
         header, rate_rows(_views(document, UNIT, batch, counts), labels(document))),
        (f"batches of {batch}: ratios of those rates; above 1 sheaves are faster",
         ratio_header(document, "threads"), _ratio_rows(document, batch)),
        (MEMORY.format(f"{batch} objects\nper batch, after the work"),
         header, rate_rows(_views(document, RESIDENT, batch, counts),
                                _without_harness(document)))]


def _all_tables(document: Document) -> list[Table]:
    found = [table for batch in BATCHES for table in _tables(document, batch)]
    return found + [(IDLE_TITLE, IDLE_HEADER, _idle_rows(document))]


def _pictures(document: Document) -> list[str]:
    counts = _counts(document)
    panels = [Panel(f"batches of {batch}, {_threads(threads)}", column, place,
                    bars(view, labels(document)))
              for column, batch in enumerate(BATCHES)
              for place, (threads, view)
              in enumerate(zip(counts, _views(document, UNIT, batch, counts)))]
    idle = Panel(f"{IDLE_THREADS} idle threads", 0, 0,
                 bars(_idle_view(document), _without_harness(document)))
    return [figure("pairs per second for each batch size, number of threads and allocator", panels,
                   UNIT, ["Longer is better.", whiskers(document)]),
            figure("resident memory of idle threads for each allocator", [idle], RESIDENT,
                   ["Shorter is better.", whiskers(document)])]


def _works(machine: dict[str, Any], quick: bool) -> list[tuple[str, tuple[str, ...]]]:
    return [(row.name.replace(", ", "\n"), row.arguments) for row in _rows(machine["cpus"], quick)]


SUITE = Suite("scale", "allocate and free on one to 16 threads per CPU, and the memory it keeps",
              "Each thread allocates and frees batches of its own. The suite also measures how "
              "much the process grows: after the work, and while all threads sleep.",
              _run, _pictures, _all_tables, notes, _works, ONE_SIZE)
