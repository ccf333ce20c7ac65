# SPDX-License-Identifier: MIT
"""One point of a curve of `sheaf sim scale`: a run of sheaf-sim-scale, and what it printed."""
from __future__ import annotations

import re
import subprocess
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from sheaf_tool import paths
from sheaf_tool.errors import Failure, Usage

from .document import Document, Result

MACHINES = paths.ROOT / "scale" / "machines"
MIB = 1 << 20
RATE = "Mops/s"
LINES = "lines/op"
MEMORY = "MiB"
MOST = "MiB at most"
LOCKS = "% in locks"
STEADY = "steady"  # 1, or 0
SPEED = "CPUs alone"  # the CPUs' work together, in CPUs with a core of their own


@dataclass
class Point:
    """What one run printed."""

    machine: str
    workload: str
    allocator: str
    cpus: int = 0
    per_cpu: int = 1  # tasks
    speed: float = 0.0  # of all CPUs, in CPUs with a core of their own
    operations: int = 0
    seconds: float = 0.0
    steady: bool = False
    bytes: int = 0  # at the end
    most: int = 0
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
        """The part of all tasks' time, in percent."""
        spent = sum(waiting + holding for _, _, waiting, holding in self.locks.values())
        return 100 * spent / (self.seconds * self.cpus * self.per_cpu) if self.cpus else 0.0


def parse(point: Point, text: str) -> Point:
    for line in text.splitlines():
        key, *words = line.split()
        if key in ("cpus", "operations", "bytes", "most"):
            setattr(point, key, int(words[0]))
        elif key in ("seconds", "speed"):
            setattr(point, key, float(words[0]))
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
    found = (Path(build).resolve() if build else paths.ROOT / "build") / "scale" / "sheaf-sim-scale"
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


def number_of_cpus(path: Path) -> int:
    """As its file says; the program itself reports what is wrong with that."""
    try:
        found = re.search(r"^[ \t]*cpus[ \t]+(\d+)", path.read_text(encoding="utf-8"), re.M)
    except (OSError, UnicodeDecodeError) as error:
        raise Failure(f"{path}: cannot be read: {getattr(error, 'strerror', 'not text')}") from error
    return int(found[1]) if found else 1


@dataclass
class Known:
    """What the program can run."""

    workloads: dict[str, tuple[bool, str]]  # whether CPUs work in pairs, and what it is
    allocators: dict[str, str]
    variants: dict[str, str]  # allocators that run only on request


def known(worker: Path) -> Known:
    text = subprocess.run([worker, "--list"], capture_output=True, text=True, check=True).stdout
    found = Known({}, {}, {})
    for line in text.splitlines():
        kind, name, rest = line.split(" ", 2)
        if kind == "workload":
            pairs, what = rest.split(" ", 1)
            found.workloads[name] = pairs == "2", what
        else:
            (found.allocators if kind == "allocator" else found.variants)[name] = rest
    return found


def measure(worker: Path, point: Point, file: Path, more: list[str]) -> Point:
    command = [worker, "--machine", file, "--workload", point.workload, "--allocator", point.allocator,
               "--cpus", str(point.cpus), "--per-cpu", str(point.per_cpu), *more]
    result = subprocess.run(list(map(str, command)), capture_output=True, text=True, check=False)
    if result.returncode:
        said = result.stderr.strip().removeprefix("sheaf sim scale: ")
        raise Failure(said or f"{worker.name} ended with {result.returncode}")
    return parse(point, result.stdout)


def document(points: list[Point], about: dict[str, Any]) -> Document:
    found = Document("sim-scale", about)
    for point in points:
        params = {"allocator": point.allocator, "machine": point.machine, "workload": point.workload,
                  "cpus": point.cpus, "tasks": point.cpus * point.per_cpu}
        for unit, value in ((RATE, point.rate), (LINES, point.lines("allocator")),
                            (MEMORY, point.bytes / MIB), (MOST, point.most / MIB), (LOCKS, point.in_locks()),
                            (SPEED, point.speed), (STEADY, float(point.steady))):
            found.results.append(Result("sim-scale", params, unit, [round(value, 6)]))
    return found
