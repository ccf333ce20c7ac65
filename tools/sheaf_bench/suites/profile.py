# SPDX-License-Identifier: MIT
"""Suite `profile`: what the heap profile costs.

Programs, and recorded mixes on kmalloc(), do the same work with the profile off and on, in turns, on one CPU. How many
samples they take is expected, not counted: from all allocations by size, of one more run that counts them. What one
sample costs is what loops take longer that take many than loops that take hardly any. And a large heap, whose process
says how long it was busy with the answer.
"""
from __future__ import annotations

import os
import shlex
import statistics
import subprocess
import tempfile
from math import expm1
from pathlib import Path
from typing import Any

from sheaf_tool import mallocs, table
from sheaf_tool.errors import Failure
from sheaf_tool.profile import fetch
from sheaf_tool.rates import ALLOCS
from sheaf_tool.stats import median, ratio

from ..allocators import KMALLOC, OURS, Allocator, Worker
from ..document import Document
from ..svg import Bar, Panel, figure
from . import kmalloc, real
from .cells import NOTHING, Cell, Part, cell, intervals, less, measure, notes, ratio_cell, whiskers
from .suite import Settings, Suite, Table
from .windows import windows

MEAN, LEAST, MOST = 512 << 10, 4096, 1 << 30  # bytes for each sample: the default, and the limits
OFF, ON = "off", "on"
OPTIONS = {OFF: "", ON: "profile"}
SIZES = (64, 1024, 16384)
PROGRAMS = ("sqlite", "python")  # of suite real
UNITS = MS, NS = "ms", "ns/pair"  # of a program, of a mix
PAIR, SAMPLES, RESIDENT, ANSWER, TAKEN, STACKS = "ns", "samples/s", "MiB", "ms of an answer", "samples", "stacks"
GIB = 10  # of the large heap, or as much as the machine has
REPEAT, QUICK_REPEAT, QUICK_SECONDS = 20, 6, 50.0


def ours(options: str, worker: str = "") -> Allocator:
    return Allocator(OURS, worker, environment=(("SHEAF_OPTIONS", options),))


def chance(size: int, mean: int) -> float:
    return -expm1(-size / mean)


def programs(build: Path, place: Path) -> tuple[list[real.Program], dict[str, str]]:
    """Those that are here, and why others are not."""
    requests = shlex.quote(str(build / "examples" / "requests"))
    found = [real.Program("words", "static", (), (str(build / "examples" / "words"), "--threads", "1", "--megabytes", "20")),
             real.Program("requests", "preloaded", (), ("sh", "-c", f"echo 300000 | {requests}")),
             *(one for one in real.read_programs({"real": real.PLACE, "bench": build / "bench", "work": place})
               if one.name in PROGRAMS)]
    missing = {one.name: why for one in found if (why := one.missing())}
    return [one for one in found if one.name not in missing], missing


def mixes(build: Path, place: Path, quick: bool) -> list[real.Program]:
    """A window is as long as several rounds of a mix."""
    return [real.Program(f"mix: {name}", "static", (), (str(build / "bench" / "kmalloc-sheaf"), "--mix", kmalloc.write_mix(place, name),
                                                       "--pattern", "same", "--threads", "1", "--window", "25",
                                                       "--windows", "5" if quick else "20"))
            for name in kmalloc.MIXES]


def _keep_program(document: Document, params: dict[str, Any], lines: list[str]) -> None:
    document.result("profile", params, MS).samples.append(float(lines[0].split()[1]))


def _keep_mix(document: Document, params: dict[str, Any], lines: list[str]) -> None:
    document.result("profile", params, NS).samples.append(statistics.median(ns / pairs for pairs, ns in windows(lines) if pairs))


def _keep_pairs(document: Document, params: dict[str, Any], lines: list[str]) -> None:
    document.result("profile", params, PAIR).samples.append(statistics.median(map(float, lines)))


class Heap(Worker):
    """A process with a large heap, and whoever reads its profile, if there is one."""

    def run(self, *arguments: str) -> list[str]:
        options = dict(self.allocator.environment)["SHEAF_OPTIONS"]
        with subprocess.Popen([self.program, *arguments], env={**os.environ, "SHEAF_OPTIONS": options}, text=True,
                              stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
            assert process.stdin and process.stdout
            lines = [f"{RESIDENT} {int(process.stdout.readline() or 0) / 2 ** 20}"]
            answer = fetch.fetch(process.pid, 60).document if options else None
            process.stdin.close()
            longest = process.stdout.readline()
            if answer:
                lines += [f"{ANSWER} {int(longest) / 1e6}", f"{TAKEN} {len(answer['samples'])}",
                          f"{STACKS} {len(answer['stacks'])}"]
        if process.returncode:
            raise Failure(f"{self.name}: {self.program}: exit status {process.returncode}")
        return lines


def _keep_heap(document: Document, params: dict[str, Any], lines: list[str]) -> None:
    for line in lines:
        unit, _, value = line.rpartition(" ")
        document.result("heap", params, unit).samples.append(float(value))


def expected(processes: list[dict[str, Any]]) -> tuple[int, float]:
    """Allocations from caches, and samples of them."""
    counts = [(sum(cache[name] for name in ALLOCS), cache["object_size"])
              for process in processes for cache in (*process["caches"], *process.get("destroyed_caches", []))]
    return sum(n for n, _ in counts), sum(n * chance(size, MEAN) for n, size in counts)


def _count(document: Document, program: real.Program, build: Path) -> None:
    allocations, taken = expected(real.counted(program, build))
    of_program, of_mix = (document.samples(unit, program=program.name, profile=OFF) for unit in UNITS)
    if allocations and (of_program or of_mix):
        rate = taken / median(of_program).value * 1e3 if of_program else taken / allocations / median(of_mix).value * 1e9
        document.result("profile", {"allocator": OURS, "program": program.name}, SAMPLES).samples.append(rate)


def heap_gib(quick: bool) -> int:
    """It touches none of its blocks; what the library needs for them is less than a hundredth."""
    return 1 if quick else max(1, min(GIB, os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") >> 30))


def _cells(settings: Settings, all_programs: list[real.Program], heap: int) -> list[Cell]:
    build = settings.workers.parent
    preloaded = mallocs.find_ours(str(build))
    if not preloaded:
        raise Failure(f"{mallocs.missing(str(build))}: build it first")
    found = []
    for program in all_programs:
        for name, options in OPTIONS.items():
            params = {"allocator": OURS, "program": program.name, "profile": name}
            if program.name.startswith("mix"):
                found.append(Cell(Worker(ours(options), Path(program.words[0]), None), params, program.words[1:], _keep_mix))
            else:
                library = None if program.kind == "static" else preloaded
                found.append(Cell(real.Runs(ours(options), library, build / "tools" / "measure", program), params, (), _keep_program))
    for size in SIZES:
        for mean in (MOST, LEAST):
            found.append(Cell(Worker(ours(f"profile={mean}"), settings.workers / f"batch-{KMALLOC[0]}", None),
                              {"allocator": OURS, "size": size, "mean": mean},
                              ("--size", str(size), "--pairs", str(20_000_000 // (size + 200))), _keep_pairs))
    found += [Cell(Heap(ours(options), settings.workers / "heap-sheaf", None), {"allocator": OURS, "profile": name, "gib": heap},
                   ("--gib", str(heap)), _keep_heap) for name, options in OPTIONS.items()]
    return found


def _run(settings: Settings, machine: dict[str, Any]) -> Document:
    build, before = settings.workers.parent, os.sched_getaffinity(0)
    with tempfile.TemporaryDirectory() as directory:
        found, missing = programs(build, real.work())
        found += mixes(build, Path(directory), settings.quick)
        document = Document("profile", {**machine, "left out": missing})
        os.sched_setaffinity(0, {max(before)})  # and what it starts
        try:
            measure(document, settings, [Part(_cells(settings, found, heap_gib(settings.quick)), REPEAT, QUICK_REPEAT, QUICK_SECONDS)])
        finally:
            os.sched_setaffinity(0, before)
        for program in found:
            _count(document, program, build)
    return document


def sample_costs(document: Document, size: int) -> list[float]:
    """ns of each sample of this size, by repetition."""
    rare, many = (document.samples(PAIR, size=size, mean=mean) for mean in (MOST, LEAST))
    return [one / (chance(size, LEAST) - chance(size, MOST)) for one in less(many, rare)]


def dearest(document: Document) -> float | None:
    """ns of a sample, of the size of which it costs most."""
    return max((median(found).value for size in SIZES if (found := sample_costs(document, size))), default=None)


def _times(document: Document, name: str) -> tuple[list[float], list[float], str]:
    """Off, on, and their unit."""
    for unit in UNITS:
        off, on = (document.samples(unit, program=name, profile=which) for which in OPTIONS)
        if off:
            return off, on, unit
    return [], [], ""


def names(document: Document) -> list[str]:
    return list(dict.fromkeys(one.params["program"] for one in document.results if "program" in one.params))


def program_rows(document: Document) -> list[list[str]]:
    cost, rows = dearest(document), []
    for name in names(document):
        off, on, unit = _times(document, name)
        rate = document.samples(SAMPLES, program=name)
        rows.append([name, f"{table.number(median(off).value)} {unit}", ratio_cell(on, off), f"{rate[0]:.0f}" if rate else NOTHING,
                     f"{rate[0] * cost / 1e7:.2f}" if rate and cost is not None else NOTHING])
    return rows


def size_rows(document: Document) -> list[list[str]]:
    return [[f"{size}", cell(document.samples(PAIR, size=size, mean=MOST)), cell(document.samples(PAIR, size=size, mean=LEAST)),
             cell(sample_costs(document, size))] for size in SIZES]


def heap_rows(document: Document) -> list[list[str]]:
    """A row, or none."""
    answers = [one for one in document.results if one.unit == ANSWER]
    found = []
    for one in answers[:1]:
        gib = one.params["gib"]
        taken, stacks, on, off = (document.samples(unit, gib=gib, profile=which)
                                  for unit, which in ((TAKEN, ON), (STACKS, ON), (RESIDENT, ON), (RESIDENT, OFF)))
        found.append([f"{gib}", *(f"{median(value).value:.0f}" for value in (taken, stacks)), cell(one.samples), cell(less(on, off))])
    return found


def _tables(document: Document) -> list[Table]:
    said = intervals(document)
    return [(f"CPU time with the profile, one sample in 512 KiB on average, of that without\n{said}",
             ["", "off", "on / off", "samples\nexpected /s", "% by cost\nof a sample"], program_rows(document)),
            (f"ns of a sample: pairs of kmalloc() and kfree() with one in 1 GiB, and with one in 4 KiB\n{said}",
             ["bytes", "ns/pair,\n1 GiB", "ns/pair,\n4 KiB", "ns of\na sample"], size_rows(document)),
            (f"a heap of many blocks of 16 KiB: goals are 1,000 ms and 32 MiB\n{said}",
             ["GiB", "samples", "stacks", "ms of the process\nfor the answer", "MiB for\nthe profile"], heap_rows(document))]


def _notes(document: Document) -> list[str]:
    return ["All run on one CPU. words is examples/words, linked with libsheaf; requests is examples/requests.c on libsheaf-malloc, "
            "as sqlite and python are, of suite real; mixes are those of suite kmalloc: the allocations of a program without its work, "
            "so a second of them is much of its time. Samples expected: each allocation of c bytes "
            "is one with chance 1 - exp(-c / 512 KiB); without large blocks. % by cost of a sample: these, times the ns of the size of "
            "which a sample costs most.",
            "The process with the large heap does not touch its blocks. Its time is CPU time of the one slow call that writes the raw "
            "profile; symbols are the reader's work.",
            *(f"{name} is left out: {why}" for name, why in document.machine.get("left out", {}).items()), *notes(document)]


def _pictures(document: Document) -> list[str]:
    bars = [Bar(name, ratio(on, off), "ours") for name in names(document) for off, on, _ in [_times(document, name)] if off and on]
    return [figure("CPU time with the profile, of that without", [Panel("one sample in 512 KiB", 0, 0, bars)], "ratio",
                   ["1 is the time without; shorter is better.", whiskers(document)])]


SUITE = Suite("profile", "the heap profile: CPU time with it and without, a sample, a heap of many GiB",
              "Programs and recorded mixes with the heap profile on and off, in turns; what one sample costs; and how long a process "
              "with a large heap is busy when somebody reads its profile, with the memory for it.",
              _run, _pictures, _tables, _notes, lambda _, __: [])
