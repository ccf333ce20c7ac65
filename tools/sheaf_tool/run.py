# SPDX-License-Identifier: MIT
"""`sheaf run -- PROGRAM`: run a program on libsheaf-malloc with statistics, and say in ten lines how it ran.

The library itself prints its statistics when the program exits, to a separate descriptor, because many programs
close their standard error earlier. If the program was killed or called _exit(), its file of counters is left, and they
are read from that. Without --children only the process that is started here has statistics; all have the library.
"""
from __future__ import annotations

import argparse
import json
import os
import resource
import signal
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path
from typing import TextIO

from . import mallocs, preload, shared, summary, versus
from .errors import Failure, Usage
from .info import text_of
from .process import Process, Reading
from .summary import Run

CANNOT_RUN, NOT_FOUND = 126, 127  # as for env(1)
PASSED_ON = (signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2)
FROM_TERMINAL = (signal.SIGINT, signal.SIGQUIT)  # the program gets them as well

EPILOG = """\
PROGRAM and all that it starts get their memory from libsheaf, without a change to them. At the end,
ten lines say how long it took, how much memory it had, and which sizes of objects took most of it.
Some programs must keep their own malloc(): static and set-user-ID ones, those with a shared
AddressSanitizer. One line says so, and they run all the same. A program that uses libsheaf itself
needs no libsheaf-malloc; its caches are shown in any case.

examples:
  sheaf run -- git log                           the lines go to standard error
  sheaf run --children -- make -j2               add up the processes that make starts
  sheaf run --json -o run.json -- ./program      with every counter, as JSON
  sheaf run --tables -- ./program                each cache, with its events
  sheaf run --options slab_debug=FZPU -- ./old   look for double frees and overruns in any program
  sheaf run --options hardened -- ./server       see libsheaf(7) for all options
  sheaf run --compare --repeatable -- ./program  which malloc() suits it

--compare runs PROGRAM several times with each malloc() that is installed, in turns. Only do that if
nothing is lost when it runs again: --repeatable says so. What it prints is discarded; a file as its
standard input is read from the beginning each time.

exit code: PROGRAM's, or 128 + N if signal N ended it; 1 if FILE cannot be written, 126 if PROGRAM
cannot be run, 127 if it is not found
"""


def add_parser(commands: argparse._SubParsersAction) -> None:
    parser = commands.add_parser(
        "run", help="run a program on libsheaf and say how it ran",
        usage="sheaf run [-h] [-o FILE] [--options OPTIONS] [--children] [--tables] [--verbose] [--json]\n"
              "                 [--build DIR] -- PROGRAM [ARGUMENT]...\n"
              "       sheaf run --compare --repeatable [--rounds N] [-o FILE] [--json]\n"
              "                 -- PROGRAM [ARGUMENT]...",
        description="Run PROGRAM with libsheaf in place of malloc(), and print how it ran when it ends.", epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("-o", "--output", metavar="FILE",
                        help="write to FILE, not to standard error")
    parser.add_argument("--options", metavar="OPTIONS", default="",
                        help="additional options, as in SHEAF_OPTIONS")
    parser.add_argument("--children", action="store_true",
                        help="statistics of the processes that PROGRAM starts, too")
    parser.add_argument("--tables", action="store_true", help="print each cache with its events, not ten lines")
    parser.add_argument("--verbose", action="store_true", help="say which file is preloaded, and what the library chose")
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument("--build", metavar="DIR", help="the build whose library is used (default: build, or as installed)")
    parser.add_argument("--compare", action="store_true", help="run it on each malloc() that is installed, and compare")
    parser.add_argument("--repeatable", action="store_true", help="PROGRAM may run several times")
    parser.add_argument("--rounds", type=int, default=versus.ROUNDS, metavar="N",
                        help="with --compare: how often with each (default %(default)s; six give a 95 %% interval)")
    parser.add_argument("command", nargs=argparse.REMAINDER, metavar="PROGRAM",
                        help="the program and its arguments")
    parser.set_defaults(run=lambda arguments: run(parser, arguments))


def _open(name: str | None) -> TextIO:
    """Open it for appending: processes of the program may write to it at the same time."""
    if name is None:
        return os.fdopen(os.dup(sys.stderr.fileno()), "a", encoding="utf-8")
    try:
        with open(name, "w", encoding="utf-8"):
            return open(name, "a", encoding="utf-8")
    except OSError as error:
        raise Failure(f"{name}: {error.strerror}") from None


def _library(command: str, build: str | None) -> tuple[Path | None, str | None]:
    """What is preloaded; or why nothing is, in a line."""
    path = preload.program_of(command)
    library = mallocs.find_ours(build)
    if path is None or preload.contains_libsheaf(path):
        return None, None  # it cannot be run, or does not need it
    if library is None:
        return None, f"{mallocs.missing(build)}: {command} keeps its own malloc()"
    found = preload.obstacle(path, library)
    return (None, f"{path} {found}: it keeps its own malloc()") if found else (library, None)


def _options(arguments: argparse.Namespace, file: int) -> str:
    named = os.fstat(file)
    return ";".join(filter(None, [
        os.environ.get("SHEAF_OPTIONS", ""), arguments.options, "verbose" if arguments.verbose else "",
        "stats" if arguments.tables and not arguments.json else "stats=json", f"stats_fd={file}",
        f"stats_file={named.st_dev}:{named.st_ino}"]))


class _PassedOn:
    """Signals that the program gets. The program, and others that wait for it, may act before Popen() returns."""

    def __init__(self) -> None:
        self._early: list[int] = []
        for number in PASSED_ON:
            signal.signal(number, lambda got, _: self._early.append(got))

    def to(self, child: "subprocess.Popen[bytes]") -> None:
        for number in PASSED_ON:
            signal.signal(number, lambda got, _: child.send_signal(got))
        for number in self._early:
            child.send_signal(number)


def _left(pid: int) -> Reading | None:
    """The file of a process that ended without exit(), if it left one."""
    try:
        with Process(pid, ended=True) as process:
            reading = process.read()
    except Failure:
        return None
    shared.remove_left_over(pid)
    return reading


def _start(arguments: argparse.Namespace, command: list[str], library: Path | None, file: int) -> "subprocess.Popen[bytes]":
    options = _options(arguments, file)

    def environment() -> None:
        """In the child, which knows its number."""
        os.environ["SHEAF_OPTIONS"] = options if arguments.children else f"{options};process={os.getpid()}"
        if library:
            os.environ["LD_PRELOAD"] = preload.variable(library)

    return subprocess.Popen(command, preexec_fn=environment, pass_fds=[file])


def _resident(child: int, ended: resource.struct_rusage, processes: list[dict]) -> tuple[int, bool]:
    """The peak in bytes. That of a process begins with what this one had, and its own numbers are better."""
    most = ended.ru_maxrss << 10
    if most > resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << 10:
        return most, True
    known = [one["peak_resident_bytes"] for one in processes if one["pid"] == child and one["peak_resident_bytes"]]
    return (known[-1], True) if known else (most, False)


def _wait(child: "subprocess.Popen[bytes]") -> tuple[Reading | None, resource.struct_rusage]:
    """Read the file that it left before its PID can be reused."""
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
    left = _left(child.pid)
    _, status, used = os.wait4(child.pid, 0)
    status = os.waitstatus_to_exitcode(status)
    child.returncode = status if status >= 0 else 128 - status
    return left, used


def _run(arguments: argparse.Namespace, command: list[str], out: TextIO) -> int:
    library, note = _library(command[0], arguments.build)
    if library and arguments.verbose:
        print(f"sheaf: {library} is preloaded", file=out, flush=True)
    with ExitStack() as files:
        given = out if arguments.tables else files.enter_context(tempfile.TemporaryFile("a+", encoding="utf-8"))
        # Signals that arrive before there is a program wait for it.
        passed_on = _PassedOn()
        begun = time.monotonic()
        try:
            child = _start(arguments, command, library, given.fileno())
        except OSError as error:
            print(f"sheaf: {command[0]}: {error.strerror}", file=sys.stderr)
            return NOT_FOUND if isinstance(error, FileNotFoundError) else CANNOT_RUN
        passed_on.to(child)
        left, used = _wait(child)
        seconds = time.monotonic() - begun
        if arguments.tables:
            if left:
                print(json.dumps(left.values()) if arguments.json else text_of(left), file=out, flush=True)
            if note:
                print(f"sheaf: {note}", file=sys.stderr)
            return child.returncode
        given.seek(0)
        processes = [*summary.objects(given.read()), *([left.values()] if left else [])]
    found = Run(command, child.returncode, seconds, used.ru_utime, used.ru_stime,
                *_resident(child.pid, used, processes), str(library) if library else None, note, processes)
    print(summary.as_json(found) if arguments.json else summary.text(found), file=out, flush=True)
    return child.returncode


def run(parser: argparse.ArgumentParser, arguments: argparse.Namespace) -> int:
    command = arguments.command
    if command[:1] == ["--"]:
        command = command[1:]
    if not command:
        parser.error("which program? for example: sheaf run -- ./program")
    if arguments.compare and not arguments.repeatable:
        raise Usage(f"--compare runs {command[0]} several times: say --repeatable if that does no harm")
    with _open(arguments.output) as out:
        if arguments.compare:
            return versus.run(command, arguments.build, arguments.rounds, out, arguments.json)
        for number in FROM_TERMINAL:
            signal.signal(number, lambda *_: None)  # not SIG_IGN, because the program would inherit that
        return _run(arguments, command, out)
