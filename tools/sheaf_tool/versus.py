# SPDX-License-Identifier: MIT
"""`sheaf run --compare`: a program on the C library's malloc(), on libsheaf-malloc and on others, in turns."""
from __future__ import annotations

import json
import os
import shlex
import stat
import subprocess
import tempfile
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import IO, Any, Mapping, TextIO

from . import mallocs, paths, preload
from .errors import Failure
from .stats import has_interval, median, ratio
from .table import beside, number, plural, render

ROUNDS = 3
GLIBC, OURS = "glibc", "libsheaf"


@dataclass(frozen=True)
class Needs:
    """What one run of a program needed."""
    status: int
    cpu: float  # seconds, user and system, with those of the processes that it waited for
    peak: float  # MiB resident, of the largest of these processes
    faults: int
    calls: int = 0  # system calls, if they were counted


def measure(measurer: Path, command: list[str], environment: Mapping[str, str], script: bool = False, calls: bool = False,
            **more: Any) -> Needs:
    """Run it once, with these variables beside ours. A script gets the words that measure, and puts them before a program.

    Counting system calls takes the program much longer."""
    with tempfile.TemporaryFile("w+") as file:
        words = [str(measurer), str(file.fileno()), *(["--calls"] if calls else []), *(f"{name}={value}" for name, value in environment.items()), "--"]
        subprocess.run([*command, *words] if script else [*words, *command], pass_fds=[file.fileno()], check=False, **more)
        file.seek(0)
        found = file.read().split()
    if len(found) != 6:
        raise Failure(f"{command[0]} could not be measured")
    status, user, system, peak, faults, counted = map(int, found)
    return Needs(status, (user + system) / 1e6, peak / 1024, faults, counted)


def environments(library: Path) -> dict[str, dict[str, str]]:
    """What to add to the environment of a program, by the name of its allocator."""
    found = {GLIBC: {}, OURS: {"LD_PRELOAD": preload.variable(library)}}
    for one in mallocs.MALLOCS:
        if file := mallocs.find(one.library):
            found[one.name] = {"LD_PRELOAD": preload.variable(file), **dict(one.environment)}
    return found


@dataclass
class Series:
    """The runs with one allocator."""
    usages: list[Needs] = field(default_factory=list)

    def of(self, name: str) -> list[float]:
        return [getattr(usage, name) for usage in self.usages]


def _input() -> IO[bytes] | int:
    """A file is read from its beginning by each run; else there is none."""
    try:
        return open("/proc/self/fd/0", "rb") if stat.S_ISREG(os.fstat(0).st_mode) else subprocess.DEVNULL
    except OSError:
        return subprocess.DEVNULL


def in_turns(measurer: Path, command: list[str], found: Mapping[str, Mapping[str, str]], rounds: int) -> dict[str, Series]:
    all_of_them = {name: Series() for name in found}
    for _ in range(rounds):
        for name, environment in found.items():
            given = _input()
            try:
                all_of_them[name].usages.append(measure(
                    measurer, command, environment, stdin=given, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL))
            finally:
                if not isinstance(given, int):
                    given.close()
    return all_of_them


def _ratio(one: Series, other: Series, name: str) -> str:
    if min(other.of(name)) <= 0:
        return "–"
    return beside(ratio(one.of(name), other.of(name)))


def _row(name: str, one: Series, glibc: Series, status: int) -> list[str]:
    wrong = next((usage.status for usage in one.usages if usage.status != status), None)
    if wrong is not None:
        return [name, f"exit code {wrong}", "", "", ""]
    return [name, number(1000 * median(one.of("cpu")).value), _ratio(one, glibc, "cpu"), number(median(one.of("peak")).value),
            _ratio(one, glibc, "peak")]


def text(command: list[str], found: Mapping[str, Series]) -> str:
    glibc = found[GLIBC]
    n, status = len(glibc.usages), glibc.usages[0].status
    what = "95 % interval" if has_interval(n) else "range of resampled medians; six rounds give a 95 % interval"
    title = f"{shlex.join(command)}: {plural(n, 'round')} in turns, medians; of glibc's [{what}]"
    title += f"; exit code {status}" if status else ""
    return title + "\n\n" + render(["malloc()", "CPU ms", "of glibc's", "peak MiB", "of glibc's"],
                                   [_row(name, one, glibc, status) for name, one in found.items()])


def as_json(command: list[str], found: Mapping[str, Series]) -> str:
    return json.dumps({"command": command, "runs": {name: [asdict(usage) for usage in one.usages] for name, one in found.items()}})


def run(command: list[str], build: str | None, rounds: int, out: TextIO, as_json_text: bool) -> int:
    if rounds < 1:
        raise Failure("--rounds: at least one")
    library, path = mallocs.find_ours(build), preload.program_of(command[0])
    if path is None:
        raise Failure(f"{command[0]}: not found")
    if library is None:
        raise Failure(mallocs.missing(build))
    if preload.contains_libsheaf(path):
        raise Failure(f"{path} contains libsheaf itself")
    if why := preload.obstacle(path, library):
        raise Failure(f"{path} {why}: it keeps its own malloc()")
    found = in_turns(paths.program("measure", "tools", build), command, environments(library), rounds)
    print((as_json if as_json_text else text)(command, found), file=out, flush=True)
    return 0
