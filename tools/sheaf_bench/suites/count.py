# SPDX-License-Identifier: MIT
"""Suite `count`: the exact number of instructions of a pair of allocation and free.

The workers of suite `batch`, single-stepped when warm. The kernel aborts a restartable section at each
step, so the worker unregisters its rseq area first: the same code then runs without aborts. Counts do
not depend on the load of the machine.
"""
from __future__ import annotations

from typing import Any

from sheaf_tool.errors import Failure

from ..allocators import HARNESS, Worker, ready, versions
from ..document import Document
from ..progress import Progress
from .batch import OTHERS
from .suite import Settings, Suite, Table, missing_lines

BATCHES = (1, 100)
PAIRS = 400
QUICK_PAIRS = 200
UNITS = {"instructions": "instructions/pair", "locked": "locked/pair", "rseq": "rseq/pair",
         "tls": "tls/pair"}


def _count(worker: Worker, batch: int, pairs: int) -> dict[str, float]:
    lines = worker.run("--count", "--batch", str(batch), "--pairs", str(pairs))
    if len(lines) != 1:
        raise Failure(f"{worker.name}: expected one line of counts, not {lines}")
    words = lines[0].split()
    counts = dict(zip(words[::2], map(int, words[1::2])))
    return {key: counts[key] / counts["pairs"] for key in UNITS}


def _countable(workers: list[Worker],
               missing: dict[str, str]) -> tuple[list[Worker], dict[str, str]]:
    """The workers whose instructions can be counted, and the reasons for the others."""
    why = {worker.name: "it cannot be single-stepped"
           for worker in workers if not worker.allocator.steps}
    return [worker for worker in workers if worker.name not in why], {**missing, **why}


def _run(settings: Settings, machine: dict[str, Any]) -> Document:
    workers, missing = _countable(*ready("batch", settings.workers, OTHERS))
    document = Document("count", {**machine, "versions": versions(workers), "missing": missing})
    pairs = QUICK_PAIRS if settings.quick else PAIRS
    with Progress(len(BATCHES) * len(workers)) as progress:
        for batch in BATCHES:
            for worker in workers:
                progress.start(f"batch {batch}: {worker.name}")
                params = {"allocator": worker.name, "batch": batch, "order": "fifo"}
                for key, value in _count(worker, batch, pairs).items():
                    document.result("count", params, UNITS[key]).samples.append(value)
                progress.finish()
    return document


HEADER = ["", *(f"batch {batch}\nbeyond harness" for batch in BATCHES), "locked", "rseq area",
          "other fs:"]


def _rows(document: Document) -> list[list[str]]:
    def value(key: str, name: str, batch: int) -> float:
        return document.samples(UNITS[key], allocator=name, batch=batch)[0]

    rows = []
    for name in document.allocators():
        cells = [name]
        for batch in BATCHES:
            total = value("instructions", name, batch)
            beyond = total - value("instructions", HARNESS, batch)
            cells.append("" if name == HARNESS else f"{beyond:.1f}")
        cells += [f"{value(key, name, BATCHES[-1]):.2f}" for key in ("locked", "rseq", "tls")]
        rows.append(cells)
    return rows


NOTE = ("Instructions per allocation and free of 64 bytes, freed first in, first "
        "out, less those of the loop without an allocator. locked counts instructions with a "
        "lock prefix and xchg with memory; rseq area and other fs count accesses through the "
        f"thread pointer; these are for batches of {BATCHES[-1]}.")


def _tables(document: Document) -> list[Table]:
    return [("instructions per allocation and free of 64 bytes", HEADER, _rows(document))]


def _notes(document: Document) -> list[str]:
    return [NOTE, *missing_lines(document.machine)]


SUITE = Suite("count", "instructions per pair, by single-stepping (x86-64)",
              "The loop of the suite `batch`, stepped through one instruction at a time. The "
              "counts are exact and do not depend on what else the machine does.",
              _run, lambda _: [], _tables, _notes, lambda _, __: [])
