# SPDX-License-Identifier: MIT
"""Suite `real`: existing programs, and patterns that only call malloc(), on libsheaf-malloc and on others.

bench/real/programs has the programs with their arguments. A program's processes have one allocator preloaded; what is
measured is their CPU time and the peak of the largest one's resident memory, and of a start also page faults and system
calls. One more run with ours counts the calls that leave the fast path. What is not installed is left out.
"""
from __future__ import annotations

import atexit
import configparser
import json
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Mapping

from sheaf_tool import mallocs, preload, summary, versus
from sheaf_tool.errors import Failure
from sheaf_tool.paths import ROOT
from sheaf_tool.stats import Estimate, geomean_ratio, median, ratio

from ..allocators import ALLOCATORS, OURS, Allocator, Worker, versions
from ..document import Document
from ..progress import Progress
from ..svg import Line, LinePanel, group, line_panels
from .cells import NOTHING, Cell, Part, best, intervals, measure, notes, ratio_cell
from .suite import Settings, Suite, Table

PLACE = ROOT / "bench" / "real"
GLIBC = "glibc"
CPU, PEAK, FAULTS, CALLS, SLOW = "cpu", "peak", "faults", "calls", "slow"
UNITS = {CPU: "ms", PEAK: "MiB"}
ALL_UNITS = {**UNITS, FAULTS: "faults", CALLS: "system calls", SLOW: "of 1,000"}
TITLES = {CPU: "CPU time", PEAK: "peak of resident memory"}
SHORT = {CPU: "CPU time", PEAK: "memory"}
# The kinds of programs with a mean of all; then those of which each counts by itself.
MEANS = {"threads": "patterns of threads", "one thread": "patterns of one thread", "programs": "programs"}
KINDS = {**MEANS, "servers": "servers and runtimes", "many": "many threads that are alive at once"}
START = "start"
PATTERNS = ("threads", "one thread", "many")  # bench/real/patterns
OLDER = {"jemalloc": "jemalloc53", "mimalloc": "mimalloc3"}  # left out where the newer one is
REPEAT, QUICK_REPEAT, QUICK_SECONDS = 20, 6, 300.0
STARTS = 10  # in a repetition
LONGEST = 60  # seconds that a run may take: with rpmalloc, the row of 2,000 threads does not end


@dataclass(frozen=True)
class Program:
    name: str
    kind: str
    needs: tuple[str, ...]
    words: tuple[str, ...]
    is_script: bool = False  # it starts what is measured by the words that it gets
    varies: bool = False  # it prints times
    preloads: str | None = None  # without another allocator

    def missing(self) -> str | None:
        """Why it cannot run here."""
        absent = [name for name in (*self.needs, self.words[0]) if not shutil.which(name)]
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
                                tuple(words), "script" in section, section.getboolean("varies", False),
                                section.get("preloads")))
    return programs


class Runs(Worker):
    """A program with one allocator; its program is the library, which another build may have, too."""

    def __init__(self, allocator: Allocator, library: Path | None, measurer: Path, what: Program) -> None:
        super().__init__(allocator, library or Path(what.words[0]), library)
        self.measurer, self.what = measurer, what

    def _environment(self) -> dict[str, str]:
        first = preload.variable(self.program) if self.library else self.what.preloads
        return {**dict(self.allocator.environment), **({"LD_PRELOAD": first} if first else {})}

    def _once(self, calls: bool = False) -> versus.Needs:
        words = list(self.what.words)
        try:
            needs = versus.measure(self.measurer, words, self._environment(), script=self.what.is_script, calls=calls,
                                   stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                                   timeout=None if self.what.is_script else LONGEST)
        except subprocess.TimeoutExpired:
            raise Failure(f"{self.name}: {shlex.join(words)}: does not end within {LONGEST} s") from None
        if needs.status:
            raise Failure(f"{self.name}: {shlex.join(words)}: exit status {needs.status}")
        return needs

    def run(self, *_: str) -> list[str]:
        if self.what.kind != START:
            needs = self._once()
            return [f"{CPU} {1000 * needs.cpu}", f"{PEAK} {needs.peak}"]
        found = [self._once() for _ in range(STARTS)]
        return [f"{CPU} {1000 * median([one.cpu for one in found]).value}", f"{PEAK} {median([one.peak for one in found]).value}",
                f"{FAULTS} {min(one.faults for one in found)}", f"{CALLS} {self._once(calls=True).calls}"]


def _keep(document: Document, params: dict[str, Any], lines: list[str]) -> None:
    for line in lines:
        name, value = line.split()
        document.result(name, params, ALL_UNITS[name]).samples.append(float(value))


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
    names = {one.name for one, _ in found}
    return [(one, library) for one, library in found if OLDER.get(one.name) not in names], missing


def work() -> Path:
    """Where the inputs are, until the command ends."""
    place = Path(tempfile.mkdtemp(prefix="sheaf-real-"))
    atexit.register(shutil.rmtree, place, ignore_errors=True)
    subprocess.run([PLACE / "make_inputs", place], check=True)
    return place


def counted(program: Program, build: Path) -> list[dict[str, Any]]:
    """What libsheaf counted in each of its processes, from the start to the end; none if it could not be run."""
    with tempfile.TemporaryDirectory() as place:
        file = Path(place) / "run.json"
        words = [sys.executable, str(ROOT / "tools" / "sheaf"), "run", "--children", "--json", "-o", str(file), "--build", str(build), "--"]
        subprocess.run([*program.words, *words] if program.is_script else [*words, *program.words], check=False,
                       stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            found: list[dict[str, Any]] = json.loads(file.read_text(encoding="utf-8"))["processes"]
            return found
        except (OSError, ValueError):
            return []


def count_slow(program: Program, build: Path) -> float | None:
    """Of 1,000 calls of malloc() and free(), those that leave the fast path."""
    allocated, freed, slow = summary.calls(counted(program, build))
    return 1000 * slow / (allocated + freed) if allocated else None


def extend_path() -> None:
    """By where distributions keep servers."""
    os.environ["PATH"] = ":".join([os.environ.get("PATH", ""), "/usr/sbin", *map(str, sorted(Path("/usr/lib/postgresql").glob("*/bin")))])


def _count_all(document: Document, programs: list[Program], build: Path) -> None:
    with Progress(len(programs)) as progress:
        for program in programs:
            progress.start(f"real: calls of {program.name}")
            share = count_slow(program, build)
            if share is not None:
                _keep(document, {"allocator": OURS, "program": program.name, "kind": program.kind}, [f"{SLOW} {share}"])
            progress.finish()


def chosen(every: list[Program], rows: tuple[str, ...]) -> list[Program]:
    names = {name for program in every for name in (program.name, program.kind)}
    if unknown := [row for row in rows if row not in names]:
        raise Failure(f"--row: there is no program or kind {unknown[0]!r}; there are: {', '.join(sorted(names))}")
    return [program for program in every if not rows or program.name in rows or program.kind in rows]


def beside(document: Document, before: Document, every: list[Program]) -> None:
    """Add the other programs' results of an earlier run, in the order of the programs."""
    for fact in ("cpu", "cpus", "kernel"):
        if document.machine.get(fact) != before.machine.get(fact):
            raise Failure(f"--row: the results before are of another {fact}; use another --output")
    order = [program.name for program in every]
    here = {result.params["program"] for result in document.results}
    document.results += [result for result in before.results if result.params["program"] in {*order} - here]
    document.results.sort(key=lambda result: order.index(result.params["program"]))
    # In parts: the highest load, and a command for all of them.
    document.machine["load"] = max(one.machine.get("load", 0.0) for one in (document, before))
    if "command" in document.machine:
        words = document.machine["command"].partition(" --row ")[0]
        rows = dict.fromkeys(result.params["program"] for result in document.results)
        document.machine["command"] = " ".join([words, *(shlex.join(["--row", row]) for row in rows)])


def _run(settings: Settings, machine: dict[str, Any]) -> Document:
    build = settings.workers.parent
    allocators, missing = _allocators(build)
    extend_path()
    every = read_programs({"real": PLACE, "bench": settings.workers, "work": work()})
    programs = [program for program in chosen(every, settings.rows) if not program.missing()]
    cells = [Cell(Runs(one, library, build / "tools" / "measure", program),
                  {"allocator": one.name, "program": program.name, "kind": program.kind}, (), _keep)
             for program in programs for one, library in allocators]
    workers = [cell.worker for cell in cells[:len(allocators)]]
    document = Document("real", {**machine, "versions": versions(workers), "missing": missing, "left out": {
        program.name: why for program in every if (why := program.missing())}})
    measure(document, settings, [Part(cells, REPEAT, QUICK_REPEAT, QUICK_SECONDS)])
    if not settings.against:
        _count_all(document, [program for program in programs if program.kind != START], build)
    if settings.before:
        beside(document, settings.before, every)
    return document


def programs_of(document: Document, kind: str) -> list[str]:
    return list(dict.fromkeys(one.params["program"] for one in document.results if one.params["kind"] == kind))


def _found(document: Document, unit: str, program: str, allocator: str) -> list[float]:
    return document.samples(ALL_UNITS[unit], program=program, allocator=allocator)


def geomean(document: Document, unit: str, kind: str, one: str, other: str) -> Estimate | None:
    """Over all programs; None if one of them failed with either."""
    pairs = [(_found(document, unit, program, one), _found(document, unit, program, other))
             for program in programs_of(document, kind)]
    return geomean_ratio(pairs) if pairs and all(a and b and min(b) > 0 and len(a) == len(b) for a, b in pairs) else None


def peers(document: Document) -> list[str]:
    return [name for name in document.allocators() if name not in (OURS, GLIBC)]


def best_of_all(document: Document, unit: str, kind: str) -> str | None:
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
    if kind not in MEANS:
        return shown
    first = best_of_all(document, unit, kind)
    shown.append(["geometric mean", "", *(_cell(geomean(document, unit, kind, name, GLIBC)) for name in names),
                  _cell(geomean(document, unit, kind, OURS, first)) if first else NOTHING])
    return shown


def _worst(document: Document, unit: str, kind: str) -> str:
    """The program that is worst beside its own best peer."""
    found = {}
    for program in programs_of(document, kind):
        of = {name: _found(document, unit, program, name) for name in (OURS, *peers(document))}
        first = best({name: of[name] for name in peers(document)})
        if first and of[OURS] and min(of[first]) > 0:
            found[program] = ratio(of[OURS], of[first]).value
    worst = max(found, key=found.__getitem__, default=None)
    return f"{found[worst]:.2f}\n{worst}" if worst else NOTHING


def means(document: Document) -> list[list[str]]:
    """Geometric means of all programs of a kind."""
    shown = []
    for kind, title in MEANS.items():
        for unit in UNITS:
            first = best_of_all(document, unit, kind)
            if programs_of(document, kind):
                shown.append([f"{title}\n{SHORT[unit]}", _cell(geomean(document, unit, kind, OURS, GLIBC)),
                              *([f"{geomean(document, unit, kind, first, GLIBC).value:.2f}\n{first}",
                                 _cell(geomean(document, unit, kind, OURS, first))] if first else [NOTHING] * 2),
                              _worst(document, unit, kind)])
    return shown


MEANS_HEADER = ["geometric means", "ours /\nglibc", "best peer /\nglibc", "ours /\nbest peer", "worst beside\nits best peer"]


def starts(document: Document) -> list[list[str]]:
    shown = []
    for program in programs_of(document, START):
        for name in (GLIBC, OURS, *peers(document)):
            of = {unit: _found(document, unit, program, name) for unit in ALL_UNITS}
            if of[CPU]:
                shown.append([name, f"{1000 * median(of[CPU]).value:.0f}", ratio_cell(of[CPU], _found(document, CPU, program, GLIBC)),
                              f"{1024 * median(of[PEAK]).value:.0f}", *(f"{min(of[unit]):.0f}" for unit in (FAULTS, CALLS))])
    return shown


def slow_calls(document: Document) -> list[list[str]]:
    return [[one.params["program"], f"{one.samples[0]:.1f}"] for one in document.results if one.name == SLOW]


def _tables(document: Document) -> list[Table]:
    header, said = [OURS, *peers(document)], intervals(document, CPU)
    tables = [(f"Geometric means\n{said}", MEANS_HEADER, means(document))]
    tables += [(f"{TITLES[unit]}, {title}: {UNITS[unit]} with glibc, and of glibc's\n{said}",
                ["", f"glibc\n{UNITS[unit]}", *header, f"{OURS} /\nbest peer"], rows(document, unit, kind))
               for kind, title in KINDS.items() if programs_of(document, kind) for unit in UNITS]
    if programs_of(document, START):
        tables.append((f"The start of /bin/true, {STARTS} times in a repetition; faults: the fewest\n{said}",
                       ["", "CPU us", "of glibc's", "peak KiB", "faults", "system\ncalls"], starts(document)))
    if found := slow_calls(document):
        tables.append(("Calls of malloc() and free() that leave libsheaf's fast path\nof 1,000, from the start of the program "
                       "to its end", ["", "of 1,000"], found))
    return tables


def _notes(document: Document) -> list[str]:
    return ["CPU time: user and system, of the program and the processes that it waits for; memory: of the largest of "
            "them. best peer: for each program the best one; in means the one with the best geometric mean.",
            *(f"{name} is left out: {why}" for name, why in document.machine.get("left out", {}).items()),
            *notes(document)]


def panels(document: Document) -> list[LinePanel]:
    """A dot for each allocator: how much CPU time to the right, how much memory upwards."""
    found = []
    for kind, title in MEANS.items():
        dots = []
        for i, name in enumerate([OURS, GLIBC, *peers(document)]):
            both = [geomean(document, unit, kind, name, GLIBC) for unit in UNITS]
            if all(both):
                dots.append(Line(name, [(both[0].value, both[1].value)], "ours" if name == OURS else f"l{i - 1}", (0,)))
        if dots:
            found.append(LinePanel(title, 0, len(found), dots))
    return found


CAPTION = ["Geometric means of the ratios to glibc: CPU time to the right, peak of resident memory upwards (the number beside "
           "the name). Nearer to zero is better in both."]


def _pictures(document: Document) -> list[str]:
    found = panels(document)
    return [group("CPU time and memory, of glibc's", line_panels(found, AXES), CAPTION)] if found else []


AXES = "CPU time of glibc's", "memory of glibc's"


def _works(_: dict[str, Any], __: bool) -> list[tuple[str, tuple[str, ...]]]:
    """None: a program is not one loop."""
    return []


SUITE = Suite("real", "existing programs, on libsheaf-malloc and on other mallocs: CPU time and memory",
              "Real programs do a fixed piece of work, and others only call malloc() and free() by known patterns, each with "
              "one allocator preloaded.",
              _run, _pictures, _tables, _notes, _works)
