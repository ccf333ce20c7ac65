# SPDX-License-Identifier: MIT
"""The command line of `sheaf profile`."""
from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path
from typing import Any

from .. import control, shared
from ..errors import Failure, Usage
from . import fetch, folded, jemalloc, leaks, page, pprof, raw, top
from .aggregate import Column
from .estimate import UNITS, Profile, together
from .raw import VALUES, Raw

FORMATS = "text", "html", "pprof", "jemalloc", "folded", "raw"
MOST = 30  # rows of text
GROWTH = 10.0  # seconds
EPILOG = """\
SOURCE is the PID of a process that was started with SHEAF_OPTIONS=profile, or a file that
--format raw wrote; several files add up. The library samples one allocation in each 512 KiB on
average; this makes estimates of the samples, so figures have an error, which is shown. A process
that takes no samples does so with --on, and while --seconds and --growth look. One whose libsheaf
has no option `profile` cannot: the command says so then.

formats
  text      the functions that allocate most: flat is what each allocated itself, cum includes what
            it called; elsewhere is the share of freed objects that another CPU freed, and lifetime
            how long they were in use on average
  html      a page with a flame graph and a table, in one file that needs nothing else
  pprof     for `go tool pprof`, and all that reads its files
  jemalloc  for jeprof: the samples themselves, of one process
  folded    a line for each stack, for flamegraph.pl, speedscope and others
  raw       the samples, for this command: now, later, or on another machine

examples:
  sheaf profile 4711                                who allocated the memory that is in use
  sheaf profile 4711 --value all                    who allocated most since the start
  sheaf profile 4711 --peak                         what it had when it had most
  sheaf profile 4711 --leaks                        what is in use, by stack, with ages
  sheaf profile 4711 --seconds 30                   what it allocates in the next 30 seconds
  sheaf profile 4711 --growth --seconds 60          what grows in the next minute
  sheaf profile 4711 --on 65536                     take samples, one in 64 KiB on average
  sheaf profile 4711 --format html -o server.html
  sheaf profile 4711 --format raw -o before.heap    to be read later
  sheaf profile before.heap --format pprof -o server.pb.gz
  sheaf profile --diff before.heap after.heap       what has grown, and what has shrunk

Functions and lines come from the files that ran, which are found by their build ids; with --path
also in other directories, such as those of another machine's files or of separate debug data.

exit code: 5 if the process made no call that leaves the fast path, so it did not answer
"""


def _pid(words: list[str]) -> int | None:
    """The process, if that is what was named."""
    if len(words) == 1 and words[0].isdecimal() and not os.path.exists(words[0]):
        return shared.number(words[0])
    return None


def _check(arguments: argparse.Namespace, pid: int | None) -> None:
    if arguments.diff and arguments.source:
        raise Usage("--diff takes its two files itself: sheaf profile --diff BEFORE AFTER")
    if not arguments.diff and not arguments.source:
        raise Usage("which profile? for example: sheaf profile FILE, or sheaf profile PID")
    if pid is None and (arguments.seconds is not None or arguments.growth):
        raise Usage("--seconds and --growth are for a process that runs: name its PID; of files, --diff BEFORE AFTER")
    if (arguments.off or arguments.on is not None) and (pid is None or arguments.off and arguments.on is not None):
        raise Usage("--on or --off, of one PID")
    if arguments.peak and (arguments.growth or arguments.seconds is not None):
        raise Usage("--peak does not go with --growth and --seconds")
    if arguments.format == "raw" and (pid is None or arguments.growth or arguments.seconds is not None):
        raise Usage("--format raw stores what a process has now: name its PID")
    if arguments.seconds is not None and not 0 < arguments.seconds <= 86400:
        raise Usage("--seconds is more than 0 and at most 86400")
    if arguments.leaks and (arguments.diff or arguments.growth or arguments.seconds is not None):
        raise Usage("--leaks lists what is in use now, which a difference does not say")
    if arguments.leaks and arguments.format != "text":
        raise Usage("--leaks is text")
    if arguments.top < 1:
        raise Usage("--top is at least 1")


def _column(arguments: argparse.Namespace) -> Column:
    which = "peak" if arguments.peak else "live"
    if arguments.seconds is not None and not arguments.growth:
        which = "all"
    return arguments.value or which, arguments.unit


def _raws(arguments: argparse.Namespace, pid: int | None) -> tuple[list[Raw], list[Raw]]:
    """Profiles, and those to subtract from them."""
    if arguments.diff:
        return [raw.read(arguments.diff[1])], [raw.read(arguments.diff[0])]
    if pid is None:
        return [raw.read(name) for name in arguments.source], []
    if arguments.seconds is None and not arguments.growth:
        return [fetch.fetch(pid, arguments.timeout)], []
    before, after = fetch.change(pid, arguments.timeout, arguments.seconds or GROWTH)
    return [after], [before]


def _render(arguments: argparse.Namespace, profile: Profile) -> str | bytes:
    column = _column(arguments)
    if arguments.leaks:
        return leaks.render(profile, arguments.top)
    if arguments.format == "text":
        return top.render(profile, column, arguments.top)
    if arguments.format == "jemalloc":
        return jemalloc.render(profile, column[0])
    if arguments.format == "pprof":
        return pprof.render(profile, column)
    return folded.render(profile, column) if arguments.format == "folded" else page.render(profile, column)


def _write(name: str | None, made: str | bytes) -> None:
    data = made if isinstance(made, bytes) else made.encode("utf-8", "replace")
    if name is not None:
        try:
            Path(name).write_bytes(data)
        except OSError as error:
            raise Failure(f"{name}: {error.strerror}") from None
        return
    if isinstance(made, bytes) and sys.stdout.isatty():
        raise Usage("pprof's format is not for a terminal: name a file with -o FILE")
    sys.stdout.flush()
    sys.stdout.buffer.write(data)
    sys.stdout.buffer.flush()


def _switch(pid: int, arguments: argparse.Namespace) -> int:
    found = fetch.fetch(pid, arguments.timeout, "off" if arguments.off else f"on {arguments.on}".removesuffix(" 0"))
    print(f"process {pid} takes " + (f"a sample in each {found.mean} bytes" if found.on else "no more samples"))
    return 0


def run(arguments: argparse.Namespace) -> int:
    pid = _pid(arguments.source)
    _check(arguments, pid)
    if pid is not None and (arguments.off or arguments.on is not None):
        return _switch(pid, arguments)
    for directory in arguments.path:
        if not os.path.isdir(directory):
            raise Failure(f"{directory}: no such directory")
    now, before = _raws(arguments, pid)
    if arguments.format == "raw":
        _write(arguments.output, raw.render(now[0]))
        return 0
    profile = together(now, arguments.path, before)
    made = _render(arguments, profile)
    if arguments.format != "text":  # which says them itself
        for line in top.warnings(profile):
            print(f"sheaf: {line}", file=sys.stderr)
    _write(arguments.output, made)
    return 0


def add_parser(commands: Any) -> None:
    parser = commands.add_parser(
        "profile", help="who allocates a program's memory: heap profiles", epilog=EPILOG,
        usage="sheaf profile SOURCE... [--format FORMAT] [-o FILE] [OPTION]...\n"
              "       sheaf profile PID [--seconds N | --peak | --growth [--seconds N]] [OPTION]...\n"
              "       sheaf profile PID --on [BYTES] | --off\n"
              "       sheaf profile --diff BEFORE AFTER [OPTION]...",
        description="Show who allocates the memory of a program, from samples that libsheaf took.",
        formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("source", nargs="*", metavar="SOURCE", help="files with profiles, or a PID")
    parser.add_argument("--format", choices=FORMATS, default="text", metavar="FORMAT", help=f"{', '.join(FORMATS)} (default text)")
    parser.add_argument("-o", "--output", metavar="FILE", help="write to FILE, not to standard output")
    parser.add_argument("--value", choices=VALUES, metavar="VALUE",
                        help="live: in use (default); all: allocated since the start; peak: in use when most was")
    parser.add_argument("--unit", choices=UNITS[::-1], default="bytes", metavar="UNIT", help="bytes (default) or objects")
    parser.add_argument("--diff", nargs=2, metavar=("BEFORE", "AFTER"), help="what the second has more than the first")
    parser.add_argument("--leaks", action="store_true", help="list what is in use by stack, with ages and threads")
    parser.add_argument("--peak", action="store_true", help="the same as --value peak")
    parser.add_argument("--growth", action="store_true",
                        help=f"of a PID: what grows in --seconds (default {GROWTH:g})")
    parser.add_argument("--seconds", type=float, metavar="N", help="of a PID: what is allocated in the next N seconds")
    parser.add_argument("--on", type=int, nargs="?", const=0, metavar="BYTES",
                        help="of a PID: take samples from now on, one in so many bytes on average (default 512 KiB)")
    parser.add_argument("--off", action="store_true", help="of a PID: take no more samples; those taken can still be read")
    parser.add_argument("--top", type=int, default=MOST, metavar="N", help="rows of text (default %(default)s)")
    parser.add_argument("--path", action="append", default=[], metavar="DIR",
                        help="where to look for programs, libraries and debug data; can be repeated")
    parser.add_argument("--timeout", type=float, default=control.PATIENCE, metavar="SECONDS",
                        help="how long to wait for an answer of a process (default %(default)g)")
    parser.set_defaults(run=run)
