# SPDX-License-Identifier: MIT
"""`sheaf sim scale`: the library's own sources on invented CPUs, with the price of memory.

Runs sheaf-sim-scale (sim/scale/) once for each point, and makes tables of what it prints. The same seed gives
the same numbers, on any machine.
"""
from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import textwrap
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from sheaf_tool import paths, symbols
from sheaf_tool.errors import Failure, Usage
from sheaf_tool.table import WIDTH, number, render

from .document import Document
from .progress import Progress

MACHINES = paths.ROOT / "sim" / "scale" / "machines"
POINTS = 1, 2, 8, 32, 96
QUICK_POINTS = 2, 32
QUICK_WINDOWS = 8
HOTTEST = 8
MIB = 1 << 20

DESCRIPTION = """\
Run libsheaf on a machine that you do not have: its own sources, on invented CPUs, where each access
to a cache line costs what it would cost there. Shows how the rate grows with the number of CPUs,
how many lines move between CPUs for an allocation and its free, and in which lines of the source.
"""

EPILOG = """\
the columns:
  Mops/s      million allocations, with their frees, a second of simulated time
  of linear   the rate of a CPU, compared with the first row of this allocator; 1.00 is ideal
  lines/op    lines that moved from one CPU to another for the allocator
  program's   lines that moved for the workload: its ring, the word that it writes into an object
  locks       part of all CPUs' time in which they hold a lock of the library or wait for one
  MiB         memory of pages that were touched
  ~           after a rate: it was not steady yet when the run was ended

examples:
  sheaf sim scale --quick                                  every workload on 384 CPUs of AMD
  sheaf sim scale --machine graviton3-64 --workload batch-100
  sheaf sim scale --workload cross-far --cpus 2,8,96,384   these points of the curve
  sheaf sim scale --workload cross-near --cpus 32 --heat   where lines move, by line of the source
  sheaf sim scale --machine ./my-machine                   a machine file of your own
  sheaf sim scale --quick --json >a.json                   and later: sheaf compare a.json b.json
  sheaf sim scale --list                                   machines, workloads and allocators

A machine file is text: copy one of sim/scale/machines. Build first, with Meson's option
-Dbench=true (`make bench` does) or with the tests (`make check` does). docs/internals/scale.md says
what is modelled and what is not.
"""


@dataclass
class Point:
    """What one run printed."""

    machine: str
    workload: str
    allocator: str
    cpus: int = 0
    operations: int = 0
    seconds: float = 0.0
    steady: bool = False
    bytes: int = 0
    hash: str = ""
    moved: dict[tuple[str, str], int] = field(default_factory=dict)
    locks: dict[str, tuple[int, int, float, float]] = field(default_factory=dict)
    hot: list[tuple[int, int, float]] = field(default_factory=list)

    @property
    def rate(self) -> float:
        """Million operations a second."""
        return self.operations / self.seconds / 1e6

    def lines(self, side: str, kind: str | None = None) -> float:
        """Lines moved an operation, for the program or the allocator; of one kind, or all."""
        moved = sum(n for (whose, what), n in self.moved.items() if whose == side and kind in (None, what))
        return moved / self.operations if self.operations else 0.0

    def in_locks(self) -> float:
        """The part of all CPUs' time, in percent."""
        spent = sum(waiting + holding for _, _, waiting, holding in self.locks.values())
        return 100 * spent / (self.seconds * self.cpus)


def parse(point: Point, text: str) -> Point:
    for line in text.splitlines():
        key, *words = line.split()
        if key in ("cpus", "operations", "bytes"):
            setattr(point, key, int(words[0]))
        elif key == "seconds":
            point.seconds = float(words[0])
        elif key == "steady":
            point.steady = words[0] == "1"
        elif key == "hash":
            point.hash = words[0]
        elif key == "moved":
            point.moved[words[0], words[1]] = int(words[2])
        elif key == "lock":
            point.locks[words[0]] = int(words[1]), int(words[2]), float(words[3]), float(words[4])
        elif key == "hot":
            point.hot.append((int(words[0], 16), int(words[1]), float(words[2])))
    return point


def program(build: str | None) -> Path:
    found = (Path(build).resolve() if build else paths.ROOT / "build") / "sim" / "scale" / "sheaf-sim-scale"
    if not found.exists():
        raise Failure(f"{found} is not built: build with Meson's option -Dbench=true (`make bench` does), or "
                      "name the build directory with --build")
    return found


def machine_file(name: str) -> Path:
    if "/" in name:
        return Path(name)
    found = MACHINES / name
    if not found.exists():
        raise Usage(f"there is no machine {name}; there are {', '.join(machine_names())}, or give a file with a "
                    "path, such as ./my-machine")
    return found


def machine_names() -> list[str]:
    return sorted(path.name for path in MACHINES.iterdir())


def _number_of_cpus(path: Path) -> int:
    """As its file says; the program itself reports what is wrong with that."""
    try:
        found = re.search(r"^\s*cpus\s+(\d+)", path.read_text(encoding="utf-8"), re.M)
    except (OSError, UnicodeDecodeError) as error:
        raise Failure(f"{path}: cannot be read: {getattr(error, 'strerror', 'not text')}") from error
    return int(found[1]) if found else 1


def _points(text: str | None, machine: Path, in_pairs: bool, quick: bool) -> list[int]:
    most = _number_of_cpus(machine)
    if text:
        if not re.fullmatch(r"[1-9]\d*(,[1-9]\d*)*", text):
            raise Usage(f"--cpus wants numbers such as 2,8,96, not {text}")
        return [int(word) for word in text.split(",")]
    wanted = {n for n in (QUICK_POINTS if quick else POINTS) if n < most} | {most}
    return sorted(n for n in wanted if not in_pairs or n % 2 == 0)


def known(worker: Path) -> tuple[dict[str, tuple[bool, str]], dict[str, str]]:
    """Workloads (whether CPUs work in pairs, and what they are) and allocators."""
    text = subprocess.run([worker, "--list"], capture_output=True, text=True, check=True).stdout
    workloads, allocators = {}, {}
    for line in text.splitlines():
        kind, name, rest = line.split(" ", 2)
        if kind == "workload":
            pairs, what = rest.split(" ", 1)
            workloads[name] = pairs == "2", what
        else:
            allocators[name] = rest
    return workloads, allocators


def _measure(worker: Path, point: Point, file: Path, more: list[str]) -> Point:
    command = [worker, "--machine", file, "--workload", point.workload, "--allocator", point.allocator,
               "--cpus", str(point.cpus), *more]
    result = subprocess.run(list(map(str, command)), capture_output=True, text=True, check=False)
    if result.returncode:
        said = result.stderr.strip().removeprefix("sheaf sim scale: ")
        raise Failure(said or f"{worker.name} ended with {result.returncode}")
    return parse(point, result.stdout)


def _table(points: list[Point]) -> str:
    rows, first = [], {}
    for point in points:
        base = first.setdefault(point.allocator, point)
        linear = base.rate / base.cpus * point.cpus
        rows.append([str(point.cpus), point.allocator, number(point.rate) + ("" if point.steady else "~"),
                     f"{point.rate / linear:.2f}" if linear else "", f"{point.lines('allocator'):.3f}",
                     f"{point.lines('program'):.3f}", f"{point.in_locks():.1f} %", number(point.bytes / MIB)])
    return render(["CPUs", "allocator", "Mops/s", "of linear", "lines/op", "program's", "locks", "MiB"], rows)


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
        place = re.sub(r"^.*?/(?=src/|sim/|bench/)", "", at)
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
    return (f"Where lines move, {point.allocator} on {point.cpus} CPUs:\n"
            + render(["source", "lines/op", "of the time"], rows or [["nowhere", "", ""]]))


def document(points: list[Point], about: dict[str, Any]) -> Document:
    found = Document("sim-scale", about)
    for point in points:
        params = {"allocator": point.allocator, "machine": point.machine, "workload": point.workload,
                  "cpus": point.cpus}
        for unit, value in (("Mops/s", point.rate), ("lines/op", point.lines("allocator")),
                            ("MiB", point.bytes / MIB)):
            found.result("sim-scale", params, unit).samples.append(round(value, 6))
    return found


def add_parser(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    parser = commands.add_parser("sim", help="run the library on invented machines", epilog=EPILOG,
                                 description=DESCRIPTION,
                                 formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["scale"], help="how the library scales with CPUs")
    parser.add_argument("--machine", metavar="NAME", default="epyc-2x96-smt",
                        help="a machine of sim/scale/machines, or a file (default: epyc-2x96-smt)")
    parser.add_argument("--workload", metavar="NAME", action="append",
                        help="only this workload; can be repeated")
    parser.add_argument("--allocator", metavar="NAME", action="append",
                        help="only this allocator; can be repeated")
    parser.add_argument("--cpus", metavar="N,N...", help="numbers of CPUs (default: 1 ... all)")
    parser.add_argument("--size", metavar="BYTES", type=int, default=64, help="of an object (default: 64)")
    parser.add_argument("--seed", metavar="N", type=int, default=1, help="for random choices (default: 1)")
    parser.add_argument("--quick", action="store_true", help="fewer points and shorter runs")
    parser.add_argument("--heat", action="store_true", help="also show where in the source lines move")
    parser.add_argument("--json", action="store_true", help="print JSON instead of tables")
    parser.add_argument("--list", action="store_true", help="list machines, workloads and allocators, and exit")
    parser.add_argument("--build", metavar="DIR", help="the build directory (default: build)")
    parser.set_defaults(run=run)


def _chosen(wanted: list[str] | None, there: list[str], what: str) -> list[str]:
    for name in wanted or []:
        if name not in there:
            raise Usage(f"there is no {what} {name}; there are {', '.join(there)}")
    return [name for name in there if not wanted or name in wanted]


def _list(workloads: dict[str, tuple[bool, str]], allocators: dict[str, str]) -> None:
    for name in machine_names():
        about = (MACHINES / name).read_text(encoding="utf-8").splitlines()[1].lstrip("# ")
        print(f"machine    {name:18} {about}")
    for name, (_, what) in workloads.items():
        print(f"workload   {name:18} {what}")
    for name, what in allocators.items():
        print(f"allocator  {name:18} {what}")


def run(arguments: argparse.Namespace) -> int:
    worker = program(arguments.build)
    workloads, allocators = known(worker)
    if arguments.list:
        _list(workloads, allocators)
        return 0
    file = machine_file(arguments.machine)
    more = ["--size", str(arguments.size), "--seed", str(arguments.seed)]
    more += ["--windows", str(QUICK_WINDOWS)] if arguments.quick else []
    points = [Point(file.name, workload, allocator, cpus)
              for workload in _chosen(arguments.workload, list(workloads), "workload")
              for cpus in _points(arguments.cpus, file, workloads[workload][0], arguments.quick)
              for allocator in _chosen(arguments.allocator, list(allocators), "allocator")]
    with Progress(len(points)) as progress, ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        progress.start("simulate")
        try:
            for done in pool.map(lambda point: _measure(worker, point, file, more), points):
                progress.finish()
                progress.start(f"{done.workload}, {done.cpus} CPUs, {done.allocator}")
        except Failure:
            pool.shutdown(cancel_futures=True)
            raise
    if arguments.json:
        print(document(points, {"simulated": file.name, "seed": arguments.seed,
                                "libsheaf": paths.version()}).text())
        return 0
    parts = []
    for workload in dict.fromkeys(point.workload for point in points):
        mine = [point for point in points if point.workload == workload]
        parts.append(f"{workload} on {file.name}: {workloads[workload][1]}\n{_table(mine)}\n\n{_by_kind(mine)}")
        if arguments.heat:
            parts += [_heat(worker, point)
                      for point in {point.allocator: point for point in mine}.values()]
    print("\n\n".join(parts))
    if not all(point.steady for point in points):
        print("~ not steady: the rate still changed when the run was ended", file=sys.stderr)
    return 0
