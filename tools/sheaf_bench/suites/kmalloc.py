# SPDX-License-Identifier: MIT
"""Suite `kmalloc`: objects of any size, against every malloc.

mix    the allocations of real programs (bench/data, recorded by bench/record) replayed on
       one thread, on two, and with one thread that allocates and another that frees
       how many bytes kmalloc's size classes use for those requests
pairs  kmalloc + kfree against kmem_cache_alloc + kmem_cache_free of the same size
"""
from __future__ import annotations

import ctypes
import json
import statistics
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

from sheaf_tool.errors import Failure

from .. import counters
from ..allocators import CALLED, HARNESS, OURS, STATIC_PEERS, Allocator, Worker, ready, versions
from ..document import Document
from ..paths import DATA
from ..svg import Panel, figure
from .cells import Cell, Part, cell, intervals, less, ratio_cell, samples, whiskers
from .cells import measure as measure_cells
from .rates import NOTHING, Entry, Params, Row, View, bars, labels, measure, notes, rate_rows
from .rates import cell as estimate_cell
from .suite import Settings, Suite, Table
from .ways import called
from .windows import MEAN, UNIT, keep_rates

LINKED = (*CALLED, *STATIC_PEERS)  # measured on one thread only
OTHERS = (HARNESS, *LINKED)
MIXES = ("python", "git")
SHAPES = (("same", 1), ("same", 2), ("producer-consumer", 2))
SHORT = {"same": "", "producer-consumer": "\nproducer-consumer"}
SIZES = (16, 64, 256, 1024, 4096)
BATCHES = (1, 10, 100)
PAIRS = 500_000
COUNT_PAIRS = 100
CALLS = {"kmem_cache_alloc": "sheaf", "kmalloc": "kmalloc", HARNESS: HARNESS}  # and the program's
NS = "ns/pair"
INSTRUCTIONS = "instructions/pair"
REPEAT = 11
QUICK_REPEAT = 6
QUICK_SECONDS = 38.0


def recording(name: str) -> dict[str, Any]:
    try:
        found: dict[str, Any] = json.loads((DATA / f"{name}.json").read_text(encoding="utf-8"))
    except OSError as error:
        raise Failure(f"{DATA / name}.json: {error.strerror}") from error
    return found


def write_mix(directory: Path, name: str) -> str:
    """The recording in the form that the program reads; its path."""
    path = directory / f"{name}.mix"
    path.write_text("".join(" ".join(map(str, row)) + "\n" for row in recording(name)["rows"]),
                    encoding="ascii")
    return str(path)


def rounding(library: Path, name: str) -> float:
    """Bytes of the blocks of all recorded requests, over the bytes requested. Of larger blocks than
    these, a program does not touch the pages beyond its bytes."""
    roundup = ctypes.CDLL(str(library)).sheaf_kmalloc_size_roundup
    roundup.argtypes, roundup.restype = [ctypes.c_size_t], ctypes.c_size_t
    rows = [(size, sum(counts)) for size, *counts in recording(name)["rows"] if size <= 32 << 10]
    return sum(roundup(size) * n for size, n in rows) / sum(size * n for size, n in rows)


def _keep_rate(document: Document, params: Params, lines: list[str]) -> None:
    keep_rates(document, "mix", params, lines)


def mix_rows(mixes: dict[str, str], quick: bool) -> list[Row]:
    """Each window is as long as several rounds of a mix."""
    return [Row(f"{name}, {pattern}, {threads}",
                ("--mix", path, "--pattern", pattern, "--threads", str(threads),
                 "--window", "25", "--windows", "5" if quick else "12"),
                {"mix": name, "pattern": pattern, "threads": threads}, _keep_rate)
            for name, path in mixes.items() for pattern, threads in SHAPES]


def _keep_pair(document: Document, params: Params, lines: list[str]) -> None:
    document.result("pairs", params, NS).samples.append(
        statistics.median(float(line) for line in lines))


def _keep_count(document: Document, params: Params, lines: list[str]) -> None:
    words = lines[-1].split()
    counted = dict(zip(words[::2], map(int, words[1::2])))
    document.result("count", params, INSTRUCTIONS).samples.append(
        counted["instructions"] / counted["pairs"])


def pair_cells(programs: Path) -> list[Cell]:
    found = []
    for size in SIZES:
        for batch in BATCHES:
            for call, worker in CALLS.items():
                name = HARNESS if call == HARNESS else OURS
                found.append(Cell(
                    Worker(Allocator(name, worker), programs / f"batch-{worker}", None),
                    {"allocator": name, "call": call, "size": size, "batch": batch},
                    ("--size", str(size), "--batch", str(batch), "--pairs", str(PAIRS)),
                    _keep_pair))
    return found


def count_cells(programs: Path) -> list[Cell]:
    """One batch size: within a sheaf, the instructions of a pair do not depend on it."""
    return [Cell(one.worker, one.params, (*one.arguments[:4], "--count", "--pairs", str(COUNT_PAIRS)),
                 _keep_count)
            for one in pair_cells(programs) if one.params["batch"] == 1]


def _run(settings: Settings, machine: dict[str, Any]) -> Document:
    workers, missing = ready("kmalloc", settings.workers, OTHERS)
    commands = {name: " ".join(recording(name)["command"]) for name in MIXES}
    document = Document("kmalloc", {**machine, "versions": versions(workers), "missing": missing,
                                    "mixes": commands})
    with tempfile.TemporaryDirectory() as directory:
        mixes = {name: write_mix(Path(directory), name) for name in MIXES}
        rows = mix_rows(mixes, settings.quick)
        measure(document, settings, rows,
                [Entry(worker, (), {"allocator": worker.name}) for worker in workers], REPEAT,
                QUICK_REPEAT, QUICK_SECONDS,
                lambda entry, row: entry.label not in LINKED or row.params["threads"] == 1)
        for library in (settings.workers.parent / "packaging").glob("libsheaf.so.*.*[0-9]"):
            for name in MIXES:
                document.result("rounding", {"allocator": OURS, "mix": name}, "bytes/byte").samples.append(
                    rounding(library, name))
        measure_cells(document, settings, [Part(pair_cells(settings.workers), 15, 7, 12.0)])
        once = replace(settings, repeat=1)
        measure_cells(document, once, [Part(count_cells(settings.workers), 1, 1, 60.0)])
        counters.add(document, settings, workers,
                     [(row.name.replace(", ", "\n"), row.arguments) for row in rows])
    return document


def _row(name: str, shape: tuple[str, int]) -> Params:
    return {"mix": name, "pattern": shape[0], "threads": shape[1]}


def _title(shape: tuple[str, int]) -> str:
    return f"{shape[1]} thread{'s' * (shape[1] > 1)}{SHORT[shape[0]]}"


HEADER = ["", *(_title(shape) for shape in SHAPES)]
RATIO_HEADER = ["mix and threads", "best peer", "sheaf /\nbest peer", "sheaf /\nglibc",
                "by means,\nbest peer"]


def _views(document: Document, name: str, unit: str = UNIT) -> list[View]:
    return [View(document, unit, _row(name, shape)) for shape in SHAPES]


def _mix_labels(document: Document) -> list[str]:
    """The calls of the pairs have a separate table."""
    mixed = {result.params["allocator"] for result in document.results if result.name == "mix"}
    return [name for name in labels(document) if name in mixed]


def ratio_rows(document: Document) -> list[list[str]]:
    rows = []
    for name in MIXES:
        for shape, view, mean in zip(SHAPES, _views(document, name), _views(document, name, MEAN)):
            peer = view.best()
            title = f"{name}\n{_title(shape)}"
            rows.append([title, peer or NOTHING, estimate_cell(view.ratio(OURS, peer)),
                         estimate_cell(view.ratio(OURS, "glibc")),
                         estimate_cell(mean.ratio(OURS, mean.best()))])
    return rows


def _pairs(document: Document, call: str, size: int, batch: int) -> list[float]:
    return samples(document, "pairs", call=call, size=size, batch=batch)


def pair_ratio(document: Document, size: int, batch: int) -> str:
    """kmalloc over kmem_cache_alloc, both without the loop's own time."""
    empty = _pairs(document, HARNESS, size, batch)
    return ratio_cell(less(_pairs(document, "kmalloc", size, batch), empty),
                      less(_pairs(document, "kmem_cache_alloc", size, batch), empty))


PAIR_HEADER = ["size", *(f"{call}\nbatch {batch}" for batch in BATCHES
                         for call in ("kmem_cache", "kmalloc", "ratio")),
               "instructions\nkmem_cache", "kmalloc"]


def pair_rows(document: Document) -> list[list[str]]:
    rows = []
    for size in SIZES:
        row = [str(size)]
        for batch in BATCHES:
            row += [cell(_pairs(document, "kmem_cache_alloc", size, batch)),
                    cell(_pairs(document, "kmalloc", size, batch)),
                    pair_ratio(document, size, batch)]
        counts = [samples(document, "count", call=call, size=size)
                  for call in ("kmem_cache_alloc", "kmalloc")]
        rows.append(row + [f"{one[0]:.0f}" if one else NOTHING for one in counts])
    return rows


def _tables(document: Document) -> list[Table]:
    found = [(f"{name}: millions of objects allocated and freed per second\n"
              + intervals(document),
              HEADER, rate_rows(_views(document, name), _mix_labels(document)))
             for name in MIXES]
    found.append(("ratios of those rates; above 1 kmalloc is faster",
                  RATIO_HEADER, ratio_rows(document)))
    found.append(("ns per pair of one size on one CPU; ratio: kmalloc over kmem_cache_alloc, both "
                  "less the harness\n" + intervals(document, "pairs"),
                  PAIR_HEADER, pair_rows(document)))
    return found


def _notes(document: Document) -> list[str]:
    said = [f"Mix {name}: recorded from `{command}`." for name, command
            in document.machine["mixes"].items()]
    return [*said,
            *(f"kmalloc's blocks for {name} have {found[0]:.3f} times the bytes requested, up to 32 KiB."
              for name in MIXES if (found := samples(document, "rounding", mix=name))),
            "Sizes and lifetimes (in allocations) of objects are the program's. The "
            "first word of each object is written and read. The compiler does not know the "
            "sizes.",
            "A sample is the rate of a process's upper-decile window of 25 ms. By means: the "
            "same ratio of the plain means over all windows.",
            *called(document), *notes(document)[2:]]


def _pictures(document: Document) -> list[str]:
    panels = [Panel(f"{name}, {_title(shape)}".replace("\n", ", "), column, place,
                    bars(view, _mix_labels(document)))
              for column, name in enumerate(MIXES)
              for place, (shape, view) in enumerate(zip(SHAPES, _views(document, name)))]
    return [figure("objects per second for each mix, number of threads and allocator", panels,
                   "M/s", ["Millions of objects per second; longer is better.", whiskers(document)])]


SUITE = Suite("kmalloc", "objects of the sizes that real programs request, against every malloc",
              "Replays the requests that real programs made to their allocator: sizes and "
              "lifetimes. One table compares kmalloc with kmem_cache_alloc for the same "
              "size.",
              _run, _pictures, _tables, _notes, lambda _, __: [])
