# SPDX-License-Identifier: MIT
"""Suite `debug`: what each letter of slab_debug, each sampling rate and each hardening option costs, next to tools for malloc.

Four works: pairs of 64 and of 256 bytes (the programs of `batch`), trees of many small objects, and the
example program words. Repetitions are interleaved. What is a hundred times slower gets less of the same
work: the units are ns for a pair or an object, and seconds for 100 MB of text. Times are CPU time.

The settings are those that this library has, as its own list of options says: see detectors.py.
"""
from __future__ import annotations

import re
import resource
import shutil
import statistics
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Callable

from sheaf_tool.stats import has_interval, median

from ..allocators import OURS, Allocator, Worker
from ..detectors import MALLOC, SHEAF, TRAP, Detector, detectors, find_library, known_options
from ..document import Document
from ..svg import Bar, Panel, figure
from .cells import Cell, Part, cell, measure, notes as failed, ratio_cell, repetitions, whiskers
from .suite import Settings, Suite, Table

LETTERS = ("F", "Z", "P", "U", "FZP", "FZPU", "G", "Q")
SAMPLED = (512, 64, 8)  # KiB between samples
HARDENING = ("slab_freelist_random", "slab_freelist_hardened", "slab_check_free", "slab_check_double",
             "slab_guard_pools", "random_kmalloc_caches=16", "init_on_alloc=1", "init_on_free=1", "hardened",
             "slub_tiny")
TREE, WORDS = "tree", "words"
TOOLS = ("glibc", "check", "tc+", "scudo", "fence", "asan", "vg")
SIZES = (64, 256)
UNITS = {"pair": "ns/pair", TREE: "ns/object", WORDS: "s/100 MB"}
MOST = 60  # of a bar in the picture, times the plain library
MEGABYTES = {False: 20, True: 1}  # heavy: fewer
REPEAT, QUICK_REPEAT, QUICK_SECONDS = 7, 3, 55.0


@dataclass(frozen=True)
class Setting:
    detector: Detector
    heavy: bool

    @property
    def params(self) -> dict[str, Any]:
        return {"allocator": OURS if self.detector.ours else "tool", "debug": self.detector.code}


class _Process(Worker):
    """A worker that also prints the CPU time of its process."""

    def run(self, *arguments: str) -> list[str]:
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        lines = super().run(*arguments)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        return [f"cpu {after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime}", *lines]


def settings_of(known: str) -> list[Setting]:
    """The plain library first, and glibc first of the others."""
    letters = re.search(r"letters of ([A-Z]+)", known)
    have = letters[1] if letters else ""
    found = [Setting(Detector("plain", "plain", SHEAF), False)]
    for wanted in LETTERS:
        if set(wanted) <= set(have):
            found.append(Setting(Detector(wanted, wanted, SHEAF, f"slab_debug={wanted}"), True))
    if "S" in have:
        found += [Setting(Detector("S", f"S {kib}K", SHEAF, f"slab_debug=S;slab_sample={kib << 10}"), False)
                  for kib in SAMPLED]
    for option in HARDENING:
        name = option.split("=")[0]
        match = re.search(rf"^[ \t]*{name}(=\w*)?[ \t]+(.*)$", known, re.M)
        if match and bool(match[1]) == ("=" in option) and "no effect" not in match[2]:
            found.append(Setting(Detector(option, option, SHEAF, option), False))
    others = [row for row in detectors(known) if row.code in TOOLS and not row.needed()]
    return found + [Setting(row, bool(row.command) or row.guards or row.program != MALLOC) for row in others]


def worker(setting: Setting, directory: Path, work: str) -> Worker | None:
    """Its process; None if this work cannot be done in this way."""
    detector = setting.detector
    kind, trapped = detector.program.removesuffix(TRAP), detector.program.endswith(TRAP)
    if work == WORDS:
        program = directory.parent / "examples" / WORDS
        arguments: tuple[str, ...] = ("--allocator", kind)
    else:
        program = directory / f"{'batch' if work == 'pair' else TREE}-{detector.program}"
        arguments = ()
    if not program.exists() or (work == WORDS and (trapped or detector.command or detector.library)):
        return None
    if detector.command:
        arguments = (*detector.command[1:], str(program), *arguments)
        program = Path(shutil.which(detector.command[0]) or detector.command[0])
    environment = dict(detector.environment)
    if detector.ours:
        environment["SHEAF_OPTIONS"] = detector.options
    library = find_library(detector.library) if detector.library else None
    allocator = Allocator(detector.code, detector.program, arguments,
                          environment=tuple(environment.items()))
    return _Process(allocator, program, Path(library) if library else None)


def _numbers(lines: list[str]) -> list[float]:
    return [float(line) for line in lines if re.fullmatch(r"\d+\.\d+", line)]


def _keep_times(document: Document, params: dict[str, Any], lines: list[str]) -> None:
    document.result("debug", params, UNITS[params["work"]]).samples.append(
        statistics.median(_numbers(lines)))


def _keep_cpu(megabytes: int) -> Callable[[Document, dict[str, Any], list[str]], None]:
    def keep(document: Document, params: dict[str, Any], lines: list[str]) -> None:
        document.result("debug", params, UNITS[WORDS]).samples.append(
            float(lines[0].split()[1]) * 100 / megabytes)
    return keep


def _works(setting: Setting) -> list[tuple[str, int, tuple[str, ...]]]:
    """Work, size of objects, arguments."""
    pairs, rounds, elements = ("5000", "3", "500") if setting.heavy else ("300000", "6", "20000")
    return [*(("pair", size, ("--size", str(size), "--batch", "100", "--pairs", pairs, "--iterations", rounds))
              for size in SIZES),
            (TREE, 0, ("--elements", elements, "--iterations", rounds)),
            (WORDS, 0, ("--threads", "1", "--megabytes", str(MEGABYTES[setting.heavy])))]


def cells(directory: Path, found: list[Setting]) -> list[Cell]:
    made = []
    for setting in found:
        for work, size, arguments in _works(setting):
            process = worker(setting, directory, work)
            if process:
                keep = _keep_cpu(MEGABYTES[setting.heavy]) if work == WORDS else _keep_times
                made.append(Cell(process, {**setting.params, "work": work, "size": size}, arguments, keep))
    return made


def _run(settings: Settings, machine: dict[str, Any]) -> Document:
    # Any program of the library prints its options.
    found = settings_of(known_options(settings.workers / "detect" / "detect-sheaf"))
    names = {setting.detector.code: setting.detector.name for setting in found}
    document = Document("debug", {**machine, "names": names})
    measure(document, settings, [Part(cells(settings.workers, found), REPEAT, QUICK_REPEAT, QUICK_SECONDS)])
    return document


def samples(document: Document, code: str, work: str, size: int = 0) -> list[float]:
    return document.samples(UNITS[work], debug=code, work=work, size=size)


def rows(document: Document) -> list[tuple[str, bool]]:
    """Each setting, and whether it is ours, in the order of measurement."""
    return list(dict.fromkeys((one.params["debug"], one.params["allocator"] == OURS)
                              for one in document.results))


COLUMNS = [("pair", 64), ("pair", 256), (TREE, 0), (WORDS, 0)]
HEADER = ["", "pair of\n64 bytes", "pair of\n256 bytes", "object of\na tree", "example,\n100 MB"]


def ratio_to_plain(document: Document, code: str, is_ours: bool, work: str, size: int) -> str:
    base = samples(document, "plain" if is_ours else "glibc", work, size)
    return ratio_cell(samples(document, code, work, size), base)


def _label(document: Document, code: str) -> str:
    name = document.machine["names"].get(code, code)
    return code if name == code or code.startswith("S ") else name.replace(", ", ",\n")


def _tables(document: Document) -> list[Table]:
    ratios = [[_label(document, code), *(ratio_to_plain(document, code, is_ours, *column)
                                         for column in COLUMNS)]
              for code, is_ours in rows(document) if code not in ("plain", "glibc")]
    times = [[_label(document, code), *(cell(samples(document, code, *column)) for column in COLUMNS)]
             for code, _ in rows(document)]
    return [("times the cost without: of libsheaf for its own options, of glibc for tools for malloc",
             HEADER, ratios),
            ("ns for a pair or an object, s for the example", HEADER, times)]


def _notes(document: Document) -> list[str]:
    n = repetitions(document)
    return [f"Medians of {n} interleaved repetitions, "
            + ("95 % intervals below." if has_interval(n) else "their range below (six are needed for an "
                                                               "interval)."),
            "Pair: an allocation and a free, in batches of 100. Tree: elements, attributes and strings are "
            "allocated, walked and freed, per object. Example: examples/words on one reader and one checker.",
            "Capital letters: SHEAF_OPTIONS=slab_debug=LETTERS; S nK: one sample in n KiB. Others are options of "
            "their own name. What is much slower gets less of the same work.",
            "ASan and valgrind also check each access, which only the tree and the example have.",
            *failed(document)]


def _pictures(document: Document) -> list[str]:
    panels = []
    for place, (work, size) in enumerate(COLUMNS):
        plain = samples(document, "plain", work, size)
        bars = []
        for code, is_ours in rows(document):
            found = samples(document, code, work, size)
            if found and plain and is_ours and median(found).value < MOST * median(plain).value:
                bars.append(Bar(code, median(found), "ours" if code == "plain" else "variant"))
        title = {"pair": f"pair of {size} bytes, ns", TREE: "object of a tree, ns",
                 WORDS: "the example, s for 100 MB"}[work]
        panels.append(Panel(title, place % 2, place // 2, bars))
    return [figure("Cost of each debug and hardening option", panels, "ns or s",
                   ["Shorter is better; options that cost more than "
                    f"{MOST} times the plain library are in the table only.", whiskers(document)])]


def _none(_: dict[str, Any], __: bool) -> list[tuple[str, tuple[str, ...]]]:
    return []


SUITE = Suite("debug", "cost of each debug letter, sampling rate and hardening option",
              "Pairs of allocation and free, trees of many small objects as parsers of XML and JSON build them, "
              "and the example program, with each letter of slab_debug, with samples, and with each "
              "hardening option; and the same workloads under tools that find bugs in programs with malloc.",
              _run, _pictures, _tables, _notes, _none)
