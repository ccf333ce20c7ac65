# SPDX-License-Identifier: MIT
"""Suite `real`: existing programs, and threads that only call malloc(), on libsheaf-malloc and on others.

bench/real/programs has the programs with their arguments. A program's processes have one allocator preloaded; what is
measured is their CPU time and the peak of the largest one's resident memory. What is not installed is left out.
"""
from __future__ import annotations

import atexit
import configparser
import os
import shlex
import shutil
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Mapping

from sheaf_tool import mallocs, preload, versus
from sheaf_tool.errors import Failure
from sheaf_tool.paths import ROOT
from sheaf_tool.stats import Estimate, geomean_ratio, median

from ..allocators import ALLOCATORS, OURS, Allocator, Worker, versions
from ..document import Document
from ..svg import Bar, Panel, figure
from .cells import NOTHING, Cell, Part, best, intervals, measure, notes, ratio_cell
from .suite import Settings, Suite, Table

PLACE = ROOT / "bench" / "real"
GLIBC = "glibc"
NOT_ROOT = "!root"
CPU, PEAK = "cpu", "peak"
UNITS = {CPU: "ms", PEAK: "MiB"}
TITLES = {CPU: "CPU time", PEAK: "peak of resident memory"}
KINDS = {"threads": "threads that only call malloc() and free()", "programs": "programs"}
REPEAT, QUICK_REPEAT, QUICK_SECONDS = 20, 6, 300.0


@dataclass(frozen=True)
class Program:
    name: str
    kind: str
    needs: tuple[str, ...]
    words: tuple[str, ...]
    is_script: bool = False  # it starts what is measured by the words that it gets
    varies: bool = False  # it prints times

    def missing(self) -> str | None:
        """Why it cannot run here."""
        if NOT_ROOT in self.needs and os.geteuid() == 0:
            return "it does not run as root"
        absent = [name for name in (*self.needs, self.words[0]) if name != NOT_ROOT and not shutil.which(name)]
        return f"there is no {absent[0]}" if absent else None


def read_programs(places: Mapping[str, Path], text: str | None = None) -> list[Program]:
    found = configparser.ConfigParser(interpolation=None)
    found.read_string((PLACE / "programs").read_text(encoding="utf-8") if text is None else text)
    programs = []
    for name in found.sections():
        section = found[name]
        words = shlex.split(section.get("command") or section["script"])
        for key, place in places.items():
            words = [word.replace(f"{{{key}}}", str(place)) for word in words]
        programs.append(Program(name, section.get("kind", "programs"), tuple(section.get("needs", "").split()),
                                tuple(words), "script" in section, section.getboolean("varies", False)))
    return programs


class Runs(Worker):
    """A program with one allocator; its program is the library, which another build may have, too."""

    def __init__(self, allocator: Allocator, library: Path | None, measurer: Path, what: Program) -> None:
        super().__init__(allocator, library or Path(what.words[0]), library)
        self.measurer, self.what = measurer, what

    def run(self, *_: str) -> list[str]:
        environment = dict(self.allocator.environment)
        if self.library:
            environment["LD_PRELOAD"] = preload.variable(self.program)
        words = list(self.what.words)
        needs = versus.measure(self.measurer, words, environment, script=self.what.is_script, stdin=subprocess.DEVNULL,
                               stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        if needs.status:
            raise Failure(f"{self.name}: {shlex.join(words)}: exit status {needs.status}")
        return [f"{CPU} {1000 * needs.cpu}", f"{PEAK} {needs.peak}"]


def _keep(document: Document, params: dict[str, Any], lines: list[str]) -> None:
    for line in lines:
        name, value = line.split()
        document.result(name, params, UNITS[name]).samples.append(float(value))


def _allocators(build: Path) -> tuple[list[tuple[Allocator, Path | None]], dict[str, str]]:
    """With their libraries; and the advice for those that are not here."""
    ours = mallocs.find_ours(str(build))
    if not ours:
        raise Failure(f"{mallocs.missing(str(build))}: build it first")
    preloaded = {one.name for one in mallocs.MALLOCS}
    found, missing = [], {}
    for one in ALLOCATORS:
        library = ours if one.name == OURS else mallocs.find(one.library) if one.name in preloaded else None
        if library or one.name == GLIBC:
            found.append((one, library))
        elif one.name in preloaded:
            missing[one.name] = one.remedy
    return found, missing


def work() -> Path:
    """Where the inputs are, until the command ends."""
    place = Path(tempfile.mkdtemp(prefix="sheaf-real-"))
    atexit.register(shutil.rmtree, place, ignore_errors=True)
    subprocess.run([PLACE / "make_inputs", place], check=True)
    return place


def _run(settings: Settings, machine: dict[str, Any]) -> Document:
    build = settings.workers.parent
    allocators, missing = _allocators(build)
    programs = read_programs({"real": PLACE, "bench": settings.workers, "work": work()})
    cells = [Cell(Runs(one, library, build / "tools" / "measure", program),
                  {"allocator": one.name, "program": program.name, "kind": program.kind}, (), _keep)
             for program in programs if not program.missing() for one, library in allocators]
    workers = [cell.worker for cell in cells[:len(allocators)]]
    document = Document("real", {**machine, "versions": versions(workers), "missing": missing, "left out": {
        program.name: why for program in programs if (why := program.missing())}})
    measure(document, settings, [Part(cells, REPEAT, QUICK_REPEAT, QUICK_SECONDS)])
    return document


def programs_of(document: Document, kind: str) -> list[str]:
    return list(dict.fromkeys(one.params["program"] for one in document.results if one.params["kind"] == kind))


def _found(document: Document, unit: str, program: str, allocator: str) -> list[float]:
    return document.samples(UNITS[unit], program=program, allocator=allocator)


def geomean(document: Document, unit: str, kind: str, one: str, other: str) -> Estimate | None:
    """Over all programs; None if one of them failed with either."""
    pairs = [(_found(document, unit, program, one), _found(document, unit, program, other))
             for program in programs_of(document, kind)]
    return geomean_ratio(pairs) if all(a and b and min(b) > 0 and len(a) == len(b) for a, b in pairs) else None


def peers(document: Document) -> list[str]:
    return [name for name in document.allocators() if name not in (OURS, GLIBC)]


def _best_of_all(document: Document, unit: str, kind: str) -> str | None:
    """The peer whose geometric mean is smallest."""
    found = {name: mean.value for name in peers(document) if (mean := geomean(document, unit, kind, name, GLIBC))}
    return min(found, key=found.__getitem__) if found else None


def _cell(found: Estimate | None) -> str:
    return f"{found.value:.2f}\n{found.low:.2f}–{found.high:.2f}" if found else NOTHING


def rows(document: Document, unit: str, kind: str) -> list[list[str]]:
    names, shown = [OURS, *peers(document)], []
    for program in programs_of(document, kind):
        of = {name: _found(document, unit, program, name) for name in (GLIBC, *names)}
        first = best({name: of[name] for name in peers(document)})
        shown.append([program, f"{median(of[GLIBC]).value:.0f}" if of[GLIBC] else NOTHING,
                      *(ratio_cell(of[name], of[GLIBC]) for name in names),
                      ratio_cell(of[OURS], of[first]) if first else NOTHING])
    first = _best_of_all(document, unit, kind)
    shown.append(["geometric mean", "", *(_cell(geomean(document, unit, kind, name, GLIBC)) for name in names),
                  _cell(geomean(document, unit, kind, OURS, first)) if first else NOTHING])
    return shown


def _tables(document: Document) -> list[Table]:
    header = [OURS, *peers(document)]
    return [(f"{TITLES[unit]}, {title}: {UNITS[unit]} with glibc, and of glibc's\n{intervals(document)}",
             ["", f"glibc\n{UNITS[unit]}", *header, f"{OURS} /\nbest peer"], rows(document, unit, kind))
            for kind, title in KINDS.items() if programs_of(document, kind) for unit in UNITS]


def _notes(document: Document) -> list[str]:
    return ["CPU time: user and system, of the program and the processes that it waits for; memory: of the largest of "
            "them. best peer: for each program the best one; in the last row the one with the best geometric mean.",
            *(f"{name} is left out: {why}" for name, why in document.machine.get("left out", {}).items()),
            *notes(document)]


def _pictures(document: Document) -> list[str]:
    panels = []
    for row, (kind, title) in enumerate(KINDS.items()):
        for column, unit in enumerate(UNITS):
            means = {name: geomean(document, unit, kind, name, GLIBC) for name in (OURS, *peers(document))}
            bars = [Bar(name, mean, "ours" if name == OURS else "peer") for name, mean in means.items() if mean]
            if programs_of(document, kind) and bars:
                panels.append(Panel(f"{TITLES[unit]}, {title}", column, row, bars))
    return [figure("geometric means, of glibc's", panels, "of glibc's", ["Geometric means of the ratios to glibc; shorter "
                                                                        "is better."])] if panels else []


def _works(_: dict[str, Any], __: bool) -> list[tuple[str, tuple[str, ...]]]:
    """None: a program is not one loop."""
    return []


SUITE = Suite("real", "existing programs, on libsheaf-malloc and on other mallocs: CPU time and memory",
              "Real programs do a fixed piece of work, and threads call malloc() and free() by known patterns, each with "
              "one allocator preloaded.",
              _run, _pictures, _tables, _notes, _works)
