# SPDX-License-Identifier: MIT
"""`sheaf sim scale`: the library's own sources on invented CPUs, with the price of memory.

Runs sheaf-sim-scale (scale/src/) once for each point, and makes tables of what it prints. The same seed gives
the same numbers, on any machine.
"""
from __future__ import annotations

import argparse
import os
import re
import sys
import textwrap
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from sheaf_tool import paths, symbols
from sheaf_tool.errors import Failure, Usage
from sheaf_tool.table import WIDTH, number, render

from . import sim_check, sim_growth, sim_study
from .progress import Progress
from .sim_point import (MACHINES, MIB, Known, Point, document, known, machine_file, machine_names, measure,
                        number_of_cpus, program)

POINTS = 1, 2, 8, 32, 96
QUICK_POINTS = 2, 8, 32
QUICK_WINDOWS = 8
HOTTEST = 8

DESCRIPTION = """\
Run libsheaf on a machine that you do not have: its own sources, on invented CPUs, where each access
to a cache line costs what it would cost there. Shows how the rate grows with the number of CPUs,
how many lines move between CPUs for an allocation and its free, and in which lines of the source.
"""

EPILOG = """\
the columns:
  Mops/s      million allocations, with their frees, a second of simulated time
  of linear   the rate of a CPU, compared with the first row of this allocator; 1.00 is ideal. A
              core's second thread counts as what it adds
  of ideal    compared with the allocator ideal, which moves only the lines that must move
  lines/op    lines that moved from one CPU to another because of the allocator: also the object's
              way back to a CPU that writes it again
  program's   other lines that moved: its queue, and the object's way there
  locks       part of all tasks' time in which they hold a lock of the library or wait for one
  MiB         memory of pages that were touched, at the end; and the most at any time
  ~           after a rate: it was not steady yet when the run was ended

examples:
  sheaf sim scale --quick                                  every workload on up to 32 CPUs of AMD
  sheaf sim scale --machine graviton3-64 --workload batch-100
  sheaf sim scale --workload cross-far --cpus 2,8,96,384   these points of the curve
  sheaf sim scale --workload cross-near --cpus 32 --heat   where lines move, by line of the source
  sheaf sim scale --machine ./my-machine                   a machine file of your own
  sheaf sim scale --quick --json >a.json                   and later: sheaf compare a.json b.json
  sheaf sim scale --workload mmap2 --allocator sheaf --allocator kernel-first --svg maps.svg
  sheaf sim scale --check                                  beside what was measured on 2 real CPUs
  sheaf sim scale --list                                   machines, workloads and allocators

A machine file is text: copy one of scale/machines. Build first, with Meson's option
-Dbench=true (`make bench` does) or with the tests (`make check` does). scale/README.md says
what is modelled and what is not.
"""


def _points(text: str | None, machine: Path, in_pairs: bool, quick: bool) -> list[int]:
    most = number_of_cpus(machine)
    if text:
        if not re.fullmatch(r"[1-9]\d*(,[1-9]\d*)*", text):
            raise Usage(f"--cpus wants numbers such as 2,8,96, not {text}")
        return [int(word) for word in text.split(",")]
    most = min(most, QUICK_POINTS[-1]) if quick else most
    wanted = {n for n in (QUICK_POINTS if quick else POINTS) if n < most} | {most}
    return sorted(n for n in wanted if not in_pairs or n % 2 == 0)


def _table(points: list[Point]) -> str:
    rows, first = [], {}
    ideal = {point.cpus: point.rate for point in points if point.allocator == sim_growth.IDEAL}
    for point in points:
        base = first.setdefault(point.allocator, point)
        linear = base.rate / base.speed * point.speed
        best = ideal.get(point.cpus)
        rows.append([str(point.cpus), point.allocator, number(point.rate) + ("" if point.steady else "~"),
                     f"{point.rate / linear:.2f}" if linear else "", f"{point.rate / best:.2f}" if best else "",
                     f"{point.lines('allocator'):.3f}", f"{point.lines('program'):.3f}", f"{point.in_locks():.1f} %",
                     number(point.bytes / MIB), number(point.most / MIB)])
    return render(["CPUs", "allocator", "Mops/s", "of linear", "of ideal", "lines/op", "program's", "locks", "MiB",
                   "at most"], rows)


def _by_kind(points: list[Point]) -> str:
    """What the lines hold, with the most CPUs."""
    parts = [f"Lines moved and locks taken for an operation, on {points[-1].cpus} CPUs:"]
    for point in {point.allocator: point for point in points}.values():
        kinds = sorted({kind for side, kind in point.moved if side == "allocator"},
                       key=lambda kind: -point.lines("allocator", kind))
        said = [f"{kind} {point.lines('allocator', kind):.3f}" for kind in kinds
                if point.lines("allocator", kind) >= 0.0005]
        locks = [f"{name} {taken / point.operations:.4f}" for name, (taken, *_) in sorted(point.locks.items())
                 if point.operations and taken / point.operations >= 0.00005]
        text = f"{point.allocator:10} lines: {', '.join(said) or 'none'}; locks: {', '.join(locks) or 'none'}"
        parts.append(textwrap.fill(text, WIDTH, subsequent_indent=" " * 11))
    return "\n".join(parts)


def _source_lines(worker: Path, offsets: list[int]) -> list[str]:
    """Where instructions are in the source; their offsets if that is unknown."""
    named = []
    for offset, found in zip(offsets, symbols.places(str(worker), offsets)):
        function, _, at = found[0].partition(" at ") if found else ("", "", "")
        place = re.sub(r"^.*?/(?=(?:scale/|maple/)?(?:src|sim|bench)/)", "", at)
        named.append(f"{place} ({function})" if found else f"{offset:#x}")
    return named


def _heat(worker: Path, point: Point) -> str:
    places: dict[str, list[float]] = {}
    for where, (_, lines, seconds) in zip(_source_lines(worker, [offset for offset, *_ in point.hot]),
                                          point.hot):
        sums = places.setdefault(where, [0, 0.0])
        sums[0] += lines
        sums[1] += seconds
    total = point.seconds * point.cpus
    hottest = sorted(places.items(), key=lambda place: -place[1][1])[:HOTTEST]
    rows = [[where[-70:], f"{sums[0] / point.operations:.3f}", f"{100 * sums[1] / total:.1f} %"]
            for where, sums in hottest] if point.operations else []
    return (f"Where CPUs wait for lines, and how many move, {point.allocator} on {point.cpus} CPUs:\n"
            + render(["source", "lines/op", "waiting"], rows or [["nowhere", "", ""]]))


def add_parser(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    parser = commands.add_parser("sim", help="run the library on invented machines", epilog=EPILOG,
                                 description=DESCRIPTION,
                                 formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["scale"], help="how the library scales with CPUs")
    parser.add_argument("--machine", metavar="NAME", default="epyc-2x96-smt",
                        help="a machine of scale/machines, or a file (default: epyc-2x96-smt)")
    parser.add_argument("--workload", metavar="NAME", action="append",
                        help="only this workload; can be repeated")
    parser.add_argument("--allocator", metavar="NAME", action="append",
                        help="only this allocator; can be repeated")
    parser.add_argument("--cpus", metavar="N,N...", help="numbers of CPUs (default: 1 ... all)")
    parser.add_argument("--tasks", metavar="N", type=int, default=1,
                        help="tasks on each CPU, which take turns (default: 1)")
    parser.add_argument("--size", metavar="BYTES", type=int, default=64, help="of an object (default: 64)")
    parser.add_argument("--seed", metavar="N", type=int, default=1, help="for random choices (default: 1)")
    parser.add_argument("--quick", action="store_true", help="up to 32 CPUs, and shorter runs: some minutes")
    parser.add_argument("--heat", action="store_true", help="also show where in the source CPUs wait for lines")
    parser.add_argument("--json", action="store_true", help="print JSON instead of tables")
    parser.add_argument("--svg", metavar="FILE", help="also draw the curves")
    parser.add_argument("--check", action="store_true",
                        help="compare the model with what was measured on 2 CPUs; exit 1 if a ratio is off by more "
                             "than 25 percent")
    parser.add_argument("--study", action="store_true", help="print the JSON from which documents are made")
    parser.add_argument("--list", action="store_true", help="list machines, workloads and allocators, and exit")
    parser.add_argument("--build", metavar="DIR", help="the build directory (default: build)")
    parser.set_defaults(run=run)


def _chosen(wanted: list[str] | None, there: list[str], what: str, more: list[str]) -> list[str]:
    """All of them, or those that are wanted, which may be among `more`."""
    for name in wanted or []:
        if name not in there + more:
            raise Usage(f"there is no {what} {name}; there are {', '.join(there + more)}")
    return [name for name in there + more if name in (wanted or there)]


def _list(found: Known) -> None:
    for name in machine_names():
        about = (MACHINES / name).read_text(encoding="utf-8").splitlines()[1].lstrip("# ")
        print(f"machine    {name:18} {about}")
    for name, (_, what) in found.workloads.items():
        print(f"workload   {name:18} {what}")
    for name, what in found.allocators.items():
        print(f"allocator  {name:18} {what}")
    for name, what in found.variants.items():
        print(f"variant    {name:18} {what}")


def _asked_for(arguments: argparse.Namespace, found: Known, file: Path) -> list[Point]:
    return [Point(file.name, workload, allocator, cpus, arguments.tasks)
            for workload in _chosen(arguments.workload, list(found.workloads), "workload", [])
            for cpus in _points(arguments.cpus, file, found.workloads[workload][0], arguments.quick)
            for allocator in _chosen(arguments.allocator, list(found.allocators), "allocator",
                                     list(found.variants))]


def _run_all(worker: Path, points: list[Point], file: Path | None, more: list[str]) -> None:
    """Each of them, in parallel; of this machine file, or of their own."""
    def one(point: Point) -> Point:
        return measure(worker, point, file or machine_file(point.machine), more)

    with Progress(len(points)) as progress, ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        progress.start("simulate")
        try:
            for done in pool.map(one, points):
                progress.finish()
                progress.start(f"{done.workload}, {done.cpus} CPUs, {done.allocator}")
        except Failure:
            pool.shutdown(cancel_futures=True)
            raise


def _tables(worker: Path, points: list[Point], found: Known, heat: bool) -> str:
    parts = []
    for workload in dict.fromkeys(point.workload for point in points):
        mine = [point for point in points if point.workload == workload]
        parts.append(f"{workload} on {mine[0].machine}: {found.workloads[workload][1]}\n{_table(mine)}\n\n"
                     f"{_by_kind(mine)}")
        if heat:
            parts += [_heat(worker, point)
                      for point in {point.allocator: point for point in mine}.values()]
    return "\n\n".join(parts)


def _checked(points: list[Point]) -> int:
    """Print measurements of this machine beside the model."""
    cells = sim_check.cells(document(points, {}))
    print(sim_check.text(cells))
    return 0 if all(cell.fits() for cell in cells) else 1


def run(arguments: argparse.Namespace) -> int:
    worker = program(arguments.build)
    found = known(worker)
    if arguments.list:
        _list(found)
        return 0
    file = None if arguments.check or arguments.study else machine_file(arguments.machine)
    more = ["--size", str(arguments.size), "--seed", str(arguments.seed)]
    if arguments.quick or arguments.study:
        more += ["--windows", str(sim_study.WINDOWS if arguments.study else QUICK_WINDOWS)]
    if file:
        points = _asked_for(arguments, found, file)
    else:
        points = sim_study.points() if arguments.study else sim_check.points()
    _run_all(worker, points, file, more)
    if arguments.check:
        return _checked(points)
    about = {"simulated": file.name if file else "all", "seed": arguments.seed, "libsheaf": paths.version()}
    made = document(points, about)
    if arguments.svg:
        Path(arguments.svg).write_text(sim_study.curves(made), encoding="utf-8")
    if arguments.study or arguments.json:
        print(made.text())
    else:
        print(_tables(worker, points, found, arguments.heat))
    return 0
