# SPDX-License-Identifier: MIT
"""`sheaf run -- PROGRAM`: run a program with statistics, and show the table when it ends.

The library itself prints the table when the program exits, to a separate descriptor, because many programs
close their standard error earlier. If the program was killed or called _exit(), its file of counters is left, and the
table is made from that. The files of its children are ignored: their PIDs are unknown here.
"""
from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
from typing import TextIO

from . import shared
from .errors import Failure
from .info import text_of
from .process import Process

CANNOT_RUN, NOT_FOUND = 126, 127  # as for env(1)
PASSED_ON = (signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2)
FROM_TERMINAL = (signal.SIGINT, signal.SIGQUIT)  # the program gets them as well

EPILOG = """\
Each process of PROGRAM that uses libsheaf prints a table when it exits. If PROGRAM itself is killed
or calls _exit(), `sheaf run` prints its table; the processes that it started then print nothing.
`sheaf top` shows running processes.

examples:
  sheaf run -- ./program --its-option            the table goes to standard error
  sheaf run -o table -- make -j2                 tables of all processes that make starts
  sheaf run --json -o table.json -- ./program    as JSON
  sheaf run --options slab_nomerge -- ./program  no caches are merged

exit code: PROGRAM's, or 128 + N if signal N ended it; 1 if FILE cannot be written, 126 if PROGRAM
cannot be run, 127 if it is not found
"""


def add_parser(commands: argparse._SubParsersAction) -> None:
    parser = commands.add_parser(
        "run", help="run a program and show its caches when it ends",
        usage="sheaf run [-h] [-o FILE] [--options OPTIONS] [--json] -- PROGRAM [ARGUMENT]...",
        description="Run PROGRAM with statistics (SHEAF_OPTIONS=stats) and print its caches when it "
                    "ends.", epilog=EPILOG, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("-o", "--output", metavar="FILE",
                        help="write to FILE, not to standard error")
    parser.add_argument("--options", metavar="OPTIONS", default="",
                        help="additional options, as in SHEAF_OPTIONS")
    parser.add_argument("--json", action="store_true", help="print JSON")
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


def _environment(arguments: argparse.Namespace, out: int) -> dict[str, str]:
    file = os.fstat(out)
    options = [os.environ.get("SHEAF_OPTIONS", ""), arguments.options,
               "stats=json" if arguments.json else "stats", f"stats_fd={out}",
               f"stats_file={file.st_dev}:{file.st_ino}"]
    return {**os.environ, "SHEAF_OPTIONS": ";".join(filter(None, options))}


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


def _left(pid: int, out: TextIO, as_json: bool) -> None:
    """The file of a process that ended without exit(), if it left one."""
    try:
        with Process(pid, ended=True) as process:
            reading = process.read()
    except Failure:
        return
    shared.remove_left_over(pid)
    print(json.dumps(reading.values()) if as_json else text_of(reading), file=out, flush=True)


def _wait(child: "subprocess.Popen[bytes]", out: TextIO, as_json: bool) -> int:
    """Read the file that it left before its PID can be reused."""
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
    _left(child.pid, out, as_json)
    status = child.wait()
    return status if status >= 0 else 128 - status


def run(parser: argparse.ArgumentParser, arguments: argparse.Namespace) -> int:
    command = arguments.command
    if command[:1] == ["--"]:
        command = command[1:]
    if not command:
        parser.error("which program? for example: sheaf run -- ./program")
    with _open(arguments.output) as out:
        for number in FROM_TERMINAL:
            signal.signal(number, lambda *_: None)  # not SIG_IGN, because the program would inherit that
        # Signals that arrive before there is a program wait for it.
        passed_on = _PassedOn()
        try:
            child = subprocess.Popen(command, env=_environment(arguments, out.fileno()),
                                     pass_fds=[out.fileno()])
        except OSError as error:
            print(f"sheaf: {command[0]}: {error.strerror}", file=sys.stderr)
            return NOT_FOUND if isinstance(error, FileNotFoundError) else CANNOT_RUN
        passed_on.to(child)
        return _wait(child, out, arguments.json)
